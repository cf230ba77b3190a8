"""Established connections to Pods of the peer Node, through Antrea's pipeline document and a
tunnel, on the same devices."""

import contextlib
import re
import struct
import time
from dataclasses import dataclass

from vsw import machine
from vsw.antrea import world

from . import document
from .captures import CHECKSUM_AT, FROM_SERVER, GRE, UDP, Traffic, ip_frame, shuffled, source, write
from .document import Program
from .established import PLAYED, PLAY_S, SETTLE_S, check
from .switch import MBUFS

# The document's Node, and the one that its flows send packets for 10.10.1.0/24 to
NODE, PEER = "192.168.77.101", "192.168.77.103"
NODE_MAC, PEER_MAC = "02:00:00:77:01:01", "02:00:00:77:01:03"
ETHERNET_INSIDE = 0x6558
GRE_KEY = 0x2000  # a flag: there is a key
# UDP port and header of the tunnels that have one; VNI 0, as the document's flows have it.
HEADERS = {
    "geneve": (6081, struct.pack("!BBHI", 0, 0, ETHERNET_INSIDE, 0)),
    "vxlan": (4789, struct.pack("!BBHI", 0x08, 0, 0, 0)),
}
TITLES = {"geneve": "a Geneve", "vxlan": "a VXLAN", "gre": "a GRE"}
UNDERLAY = "brphy"
WAYS = {"encap": "data", "decap": "rdata"}
UDP_HEADER = 8


@dataclass(frozen=True)
class Link:
    """A kind of tunnel between the two Nodes, over IPv4 or IPv6."""

    kind: str = "geneve"
    six: bool = False

    @property
    def name(self):
        """What its cases are called."""
        return f"{self.kind}{'6' if self.six else ''}"

    def end(self, node):
        """The address of a Node that is the tunnel's end there, of its IPv4 address."""
        return world.six(node) if self.six else node

    def program(self, traffic):
        """The document's flows; they name other ends of this tunnel, whatever is in it (the
        document's do over IPv4, their twins over IPv6)."""
        program = document.program(traffic)
        field = "tun_ipv6_dst" if self.six else "tun_dst"
        network = NODE.rpartition(".")[0]

        def named(found):
            return f"set_field:{self.end(f'{network}.{found[1]}')}->{field}"

        flows = [re.sub(r"set_field:[^,]*\b(\d+)->tun_(?:ipv6_)?dst\b", named, line) for line in program.flows]
        return Program(flows, program.groups, program.meters)

    def wrap(self, number, inner):
        """A frame as it comes from the peer Node, of connection `number`."""
        ends = NODE_MAC, PEER_MAC, self.end(PEER), self.end(NODE)
        if self.kind == "gre":
            return ip_frame(*ends, GRE, struct.pack("!HHI", GRE_KEY, ETHERNET_INSIDE, 0) + inner)
        port, header = HEADERS[self.kind]
        # For each connection another one, as its hash would give
        ours = 32768 + number * 7919 % 28000
        segment = struct.pack("!HHHH", ours, port, UDP_HEADER + len(header) + len(inner), 0) + header + inner
        frame = ip_frame(*ends, UDP, segment)
        if self.six:
            return frame
        at = 14 + 20 + CHECKSUM_AT[UDP]
        # Without a checksum, as Open vSwitch sends it over IPv4
        return frame[:at] + b"\0\0" + frame[at + 2 :]


OTHERS = (Link("vxlan"), Link("gre"), Link("geneve", six=True))


class Node:
    """A device under test whose port 1 is a tunnel; its underlay is a bridge of its own with one
    uplink. Ports are sinks, or play a capture."""

    def __init__(self, dut, stack, link):
        self.dut = dut
        for name, number in document.NUMBERS.items():
            if name != "tun":
                dut.add_port(name, number, f"net_null_{name},no-rx=1")
        dut.add_tunnel("tun", document.NUMBERS["tun"], link.kind, UNDERLAY, f"{link.end(NODE)}/{64 if link.six else 24}", NODE_MAC)
        stack.callback(dut.remove_underlay, UNDERLAY)
        dut.add_port("uplink", 1, "net_null_uplink,no-rx=1", bridge=UNDERLAY)
        dut.know_neighbour(UNDERLAY, link.end(PEER), PEER_MAC)

    def _bridge(self, name):
        return UNDERLAY if name == "uplink" else "br0"

    def _number(self, name):
        return 1 if name == "uplink" else document.NUMBERS[name]

    def play(self, name, capture):
        """From now on a port plays a capture for ever (what it is to send is counted and freed)."""
        self.dut.del_port(name)
        self.dut.add_port(name, self._number(name), source(f"net_pcap_{name}", capture), bridge=self._bridge(name))

    def rest(self, name):
        """From now on it is a sink."""
        self.dut.del_port(name)
        self.dut.add_port(name, self._number(name), f"net_null_{name},no-rx=1", bridge=self._bridge(name))

    def received(self, name):
        """Packets that came in by a port."""
        return self.dut.ports(self._bridge(name))[name][0]

    def device_totals(self):
        """Packets that came in by the client's port or the uplink, and that left by them: each
        packet crosses both."""
        ports = self.dut.device_ports()
        return tuple(map(sum, zip(ports["client"], ports["uplink"])))


def case(way, connections, link=Link(), six=False):
    """The case for one way through the tunnel: into it (`encap`) or out of it (`decap`). `six` is
    about the connections."""
    traffic = Traffic("remote", six)

    def capture(bench, phase):
        path = bench.directory / f"tunnel-{link.name}-{traffic.name}-{connections}-{phase}.pcap"
        if not path.exists():
            order = shuffled(range(connections), 2 if phase in FROM_SERVER else 1)
            frames = ((number, traffic.frame(phase, number)) for number in order)
            outside = phase in FROM_SERVER
            write(path, (link.wrap(number, frame) if outside else frame for number, frame in frames))
        return path

    def run(bench, device, round_):
        with contextlib.ExitStack() as stack:
            dut = bench.start(device, stack, mbufs=MBUFS + connections)
            dut.load(link.program(traffic))
            node = Node(dut, stack, link)
            port = lambda phase: "uplink" if phase in FROM_SERVER else "client"  # noqa: E731
            for phase in traffic.handshake:
                node.play(port(phase), capture(bench, phase))
                machine.wait_until(f"{phase} of {connections} connections", PLAY_S, lambda: node.received(port(phase)) >= PLAYED * connections)
                node.rest(port(phase))
            shown = check(dut, traffic, connections)
            node.play(port(WAYS[way]), capture(bench, WAYS[way]))
            time.sleep(SETTLE_S)
            result = dut.measure_best(bench.seconds, node.device_totals)
            result.established = shown
            check(dut, traffic, connections)
            return result

    run.__doc__ = describe(way, connections, link, six)
    run.devices = ("switch", "ovs")
    return run


def describe(way, connections, link, six):
    """One line for the list of cases."""
    many = f"{connections:,} established connection{'s' if connections > 1 else ''}"
    tunnel = f"{TITLES[link.kind]} tunnel{' over IPv6' if link.six else ''}"
    what = f"into {tunnel} to" if way == "encap" else f"out of {tunnel} from"
    return f"{many}, {what} Pods of the peer Node, TCP over IPv{6 if six else 4}, one way."
