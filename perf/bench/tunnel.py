"""Established connections to Pods of the peer Node, through Antrea's pipeline document and a Geneve tunnel, on the same devices."""

import contextlib
import struct
import time

from vsw import machine

from . import document
from .captures import FROM_SERVER, UDP, Traffic, ip_frame, shuffled, source, write
from .established import PLAYED, PLAY_S, SETTLE_S, check
from .switch import MBUFS

NODE, PEER = "192.168.77.101", "192.168.77.103"  # the document's Node, and the one that its flows send packets for 10.10.1.0/24 to
NODE_MAC, PEER_MAC = "02:00:00:77:01:01", "02:00:00:77:01:03"
GENEVE = 6081
UNDERLAY = "brphy"
WAYS = {"encap": "data", "decap": "rdata"}


def wrap(number, inner):
    """A frame as it comes from the peer Node."""
    # VNI 0, Ethernet inside, as the document's flows have it; a port for each connection, as its hash would give.
    segment = struct.pack("!HHHH", 32768 + number * 7919 % 28000, GENEVE, 16 + len(inner), 0) + struct.pack("!BBHI", 0, 0, 0x6558, 0) + inner
    frame = ip_frame(NODE_MAC, PEER_MAC, PEER, NODE, UDP, segment)
    at = 14 + 20 + 6
    return frame[:at] + b"\0\0" + frame[at + 2 :]  # without a checksum, as Open vSwitch sends it over IPv4


class Node:
    """A device under test whose port 1 is a tunnel; its underlay is a bridge of its own with one uplink. Ports are sinks, or play a capture."""

    def __init__(self, dut, stack):
        self.dut = dut
        for name, number in document.NUMBERS.items():
            if name != "tun":
                dut.add_port(name, number, f"net_null_{name},no-rx=1")
        dut.add_tunnel("tun", document.NUMBERS["tun"], UNDERLAY, f"{NODE}/24", NODE_MAC)
        stack.callback(dut.remove_underlay, UNDERLAY)
        dut.add_port("uplink", 1, "net_null_uplink,no-rx=1", bridge=UNDERLAY)
        dut.know_neighbour(UNDERLAY, PEER, PEER_MAC)

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
        """Packets that came in by the client's port or the uplink, and that left by them: each packet crosses both."""
        ports = self.dut.device_ports()
        return tuple(map(sum, zip(ports["client"], ports["uplink"])))


def case(way, connections):
    """The case for one way through the tunnel: into it (`encap`) or out of it (`decap`)."""
    traffic = Traffic("remote")

    def capture(bench, phase):
        path = bench.directory / f"tunnel-{connections}-{phase}.pcap"
        if not path.exists():
            order = shuffled(range(connections), 2 if phase in FROM_SERVER else 1)
            frames = ((number, traffic.frame(phase, number)) for number in order)
            outside = phase in FROM_SERVER
            write(path, (wrap(number, frame) if outside else frame for number, frame in frames))
        return path

    def run(bench, device, round_):
        with contextlib.ExitStack() as stack:
            dut = bench.start(device, stack, mbufs=MBUFS + connections)
            dut.load(document.program(traffic))
            node = Node(dut, stack)
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

    what = "into a Geneve tunnel to" if way == "encap" else "out of a Geneve tunnel from"
    run.__doc__ = f"{connections:,} established connection{'s' if connections > 1 else ''}, {what} Pods of the peer Node, TCP over IPv4, one way."
    run.devices = ("switch", "ovs")
    return run
