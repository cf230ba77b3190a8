"""Established connections through a gateway bridge and the Pods' bridge behind it.

The switch has what it compiles of `gateway.yaml`, Open vSwitch what OVN-Kubernetes and a real OVN
program there (`tools/record-ovn`). In the measurement the host is a device of memory, as the wire
and the Pod are: an interface of the kernel would be the limit."""

import contextlib
import re
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from vsw import daemon, machine
from vsw.machine import Failure
from vsw.ovn import addresses, bridge

from .captures import TCP, ip_frame, shuffled, source, tcp_header, tcp_words, write
from .document import Program, dumped
from .established import PLAY_S, PLAYED, SETTLE_S
from .switch import MBUFS

CONNECTIONS = 1000
MANIFESTS = Path(__file__).with_suffix(".yaml")
RECORDED = machine.ROOT / "vswitch" / "vswitchd" / "tests" / "differential" / "ovn"
UNDERLAY = "brphy"
V4 = addresses.V4
NODE_PORT, CLUSTER_PORT, HOST_PORT, OUTSIDE_PORT = addresses.LOCAL_POD, 80, 22, 80
VIRTUAL_MAC = "aa:bb:cc:dd:ee:ff"
ARRIVING = 0.98  # of what a port sends to another one, what has to come out there
SOON_S = 30.0


@dataclass(frozen=True)
class Leg:
    """A way through the switch: a port, the other one, and who the client and the server are in
    packets there, each with its port. A client of port 0 has one of its own in each connection."""

    enters: str
    leaves: str
    macs: tuple  # destination and source
    from_: tuple  # address and port
    to: tuple

    def frame(self, phase, number):
        """The packet of a phase of connection `number`: 64 bytes on the wire."""
        ports = [port or 1024 + number for _, port in (self.from_, self.to)]
        data = b"x" * 6 if phase in ("data", "rdata") else b""
        return ip_frame(*self.macs, self.from_[0], self.to[0], TCP, tcp_header(*ports, *tcp_words(phase)) + data)


@dataclass(frozen=True)
class Way:
    """Connections of a case: legs of the client's packets, and of the server's."""

    there: tuple
    back: tuple

    def legs(self, phase):
        """The legs of a phase's packets, in order."""
        return self.back if phase in ("synack", "rdata") else self.there


@dataclass(frozen=True)
class Side:
    """How a device has the Pods' bridge: numbers of ports, and MAC addresses that kernels learn."""

    gateway: int
    pod: int
    patch: int
    gateway_mac: str
    # Next hop of the host for what it sends to the Pods' side by the gateway
    behind_gateway: str
    # The host's address for Pods that it asks by Services
    host_at_pods: str


SIDES = {
    "switch": Side(2, 11, 3, addresses.SWITCH_MAC, VIRTUAL_MAC, V4.router),
    "ovs": Side(1, 2, 4, addresses.MANAGEMENT_MAC, addresses.SWITCH_MAC, V4.join),
}
WIRE, PATCH, HOST = 1, 2, 3  # ports of the gateway bridge


def ways(side):
    """{mode: {name: Way}} for a Side."""
    node, client, outside, pod = V4.node, (V4.client, 0), (V4.outside, OUTSIDE_PORT), V4.pod1
    from_wire, to_wire = (addresses.NODE_MAC, addresses.CLIENT_MAC), (addresses.CLIENT_MAC, addresses.NODE_MAC)
    from_pod, to_pod = (addresses.SWITCH_MAC, addresses.POD1_MAC), (addresses.POD1_MAC, side.gateway_mac)

    to_host = Way((Leg("wire", "host", from_wire, client, (node, HOST_PORT)),), (Leg("host", "wire", to_wire, (node, HOST_PORT), client),))
    service = (V4.service(addresses.POD), CLUSTER_PORT)
    by_service = Way((Leg("host", "pod", (V4.next_hop_mac, addresses.NODE_MAC), (node, 0), service),),
                     (Leg("pod", "host", from_pod, (pod, CLUSTER_PORT), (side.host_at_pods, 0)),))
    node_port, answer = Leg("wire", "pod", from_wire, client, (node, NODE_PORT)), Leg("pod", "wire", from_pod, (pod, CLUSTER_PORT), client)
    leaving, coming = Leg("pod", "wire", from_pod, (pod, 0), outside), Leg("wire", "pod", from_wire, outside, (node, 0))
    both = {"host": to_host, "host-service": by_service}
    shared = {"node-port": Way((node_port,), (answer,)), "pod": Way((leaving,), (coming,))}
    # The host's kernel translates between the two legs; it is not measured.
    local = {
        "node-port": Way(
            (Leg("wire", "host", from_wire, client, (node, NODE_PORT)),
             Leg("gateway", "pod", (side.behind_gateway, side.gateway_mac), client, (V4.role(3), NODE_PORT))),
            (Leg("pod", "gateway", from_pod, (pod, CLUSTER_PORT), client), Leg("host", "wire", to_wire, (node, NODE_PORT), client))),
        "pod": Way(
            (Leg("pod", "gateway", from_pod, (pod, 0), outside), Leg("host", "wire", to_wire, (node, 0), outside)),
            (Leg("wire", "host", from_wire, outside, (node, 0)), Leg("gateway", "pod", to_pod, outside, (pod, 0)))),
    }
    return {"shared": shared | both, "local": local | both}


def compiled(bench, mode):
    """What the switch makes of the manifests, {bridge: Program}; found out once, by a switch and an
    agent of its own."""
    kept = bench.directory / f"gateway-{mode}"
    if not kept.exists():
        kept.mkdir()
        for name, program in _compile(bench, mode, kept).items():
            for kind in ("flows", "groups", "meters"):
                (kept / f"{name}.{kind}").write_text("".join(f"{line}\n" for line in getattr(program, kind)))
    return {name: Program(*((kept / f"{name}.{kind}").read_text().splitlines() for kind in ("flows", "groups", "meters"))) for name in ("br0", UNDERLAY)}


def _compile(bench, mode, directory):
    gateway, phy = f"vp{bench.tag}g", f"vp{bench.tag}p"
    text = MANIFESTS.read_text().replace("GATEWAY", gateway).replace("MODE", mode.capitalize())
    (directory / "manifests").mkdir()
    (directory / "manifests" / "all.yaml").write_text(text)
    dpdk = {"worker_cores": [bench.dut_core], "main_core": bench.other_core, "memory_mb": 256, "hugepages": False, "file_prefix": f"vsperf{bench.tag}c"}
    side = SIDES["switch"]
    pods = [{"name": gateway, "number": side.gateway, "type": "internal", "mac": addresses.SWITCH_MAC},
            {"name": "pod", "number": side.pod, "type": "dpdk", "devargs": "net_null_pod,no-rx=1"},
            {"name": "to-phy", "number": side.patch, "type": "patch", "peer": "to-int", "no_flood": True}]
    node = f"{V4.node}/{V4.node_length}"
    wire = [{"name": "wire", "number": WIRE, "type": "dpdk", "devargs": "net_null_wire,no-rx=1"},
            {"name": "to-int", "number": PATCH, "type": "patch", "peer": "to-phy", "no_flood": True},
            {"name": phy, "number": HOST, "type": "internal", "mac": addresses.NODE_MAC, "addresses": [node]}]
    underlay = {"name": UNDERLAY, "fail_mode": "standalone"}
    config = daemon.configuration(dpdk, pods, directory, "secure", others=[(underlay, wire)], idle_sleep_us=1000)
    switch = daemon.Switch(bench.binaries, directory, config, use_cores=bench.cores)
    try:
        switch.wait_ready()
        agent = [bench.binaries / "vswitch-agent", "--no-state", "--dir", directory / "manifests", "--node", "node", "--socket", switch.socket, "--once"]
        done = subprocess.run(agent, capture_output=True, text=True, timeout=SOON_S)
        if done.returncode:
            raise Failure(f"the agent failed with status {done.returncode}: {done.stdout}{done.stderr}")
        status = switch.json("antrea", "status")
        if not status["gate_open"]:
            raise Failure(f"the switch does not let packets of Pods pass: {status}")
        return {name: dumped(switch, name) for name in ("br0", UNDERLAY)}
    finally:
        switch.stop()


def recorded(mode):
    """What OVN-Kubernetes and OVN program, {bridge: Program}: the gateway bridge's port of the host
    has a number here."""
    name = {"shared": "sgw", "local": "lgw"}[mode]
    flows = [re.sub(r"\bLOCAL\b", str(HOST), line) for line in bridge.flows(name)]
    lines = {kind: (RECORDED / f"{name}.{kind}").read_text().splitlines() for kind in ("flows", "groups")}
    return {"br0": Program(**lines), UNDERLAY: Program(flows)}


class Node:
    """A device under test with both bridges. Ports are sinks, or play a capture."""

    def __init__(self, dut, side):
        self.dut = dut
        self.places = {"wire": (UNDERLAY, WIRE), "host": (UNDERLAY, HOST), "gateway": ("br0", side.gateway), "pod": ("br0", side.pod)}
        dut.add_bridge(UNDERLAY)
        dut.add_patch("to-phy", side.patch, "br0", "to-int")
        dut.add_patch("to-int", PATCH, UNDERLAY, "to-phy")
        for name in self.places:
            self._add(name, f"net_null_{name},no-rx=1")

    def _add(self, name, devargs):
        where, number = self.places[name]
        self.dut.add_port(name, number, devargs, bridge=where)

    def play(self, name, capture):
        """From now on a port plays a capture for ever (what it is to send is counted and freed)."""
        self.dut.del_port(name)
        self._add(name, source(f"net_pcap_{name}", capture))

    def rest(self, name):
        """From now on it is a sink."""
        self.dut.del_port(name)
        self._add(name, f"net_null_{name},no-rx=1")

    def once(self, name, capture, count, what):
        """Plays so many packets a few times."""
        self.play(name, capture)
        machine.wait_until(what, PLAY_S, lambda: self.dut.device_ports()[name][0] >= PLAYED * count)
        self.rest(name)

    def totals(self):
        """Packets received and sent by devices."""
        return tuple(map(sum, zip(*(counts for name, counts in self.dut.device_ports().items() if name in self.places))))


def came(before, after, legs):
    """Failure when what entered by a leg did not leave by its other end: counts of ports before and
    after."""
    gone = {name: tuple(now - then for now, then in zip(after[name], before[name])) for name in after if name in before}
    for leg in legs:
        received, sent = gone[leg.enters][0], gone[leg.leaves][1]
        if not received or not ARRIVING < sent / received < 2 - ARRIVING:
            raise Failure(f"{received} packets came in by {leg.enters}, {sent} left by {leg.leaves}: {gone}")


def check(dut, connections):
    """Counts the connections that the device shows as established; Failure when it is not this
    number, in each zone that has some."""
    zones = Counter()
    for line in dut.dump_connections().splitlines():
        if "state=ESTABLISHED" in line:
            zones[(re.search(r"\bzone=(\d+)", line) or [0, 0])[1]] += 1
    if set(zones.values()) != {connections}:
        raise Failure(f"{connections} connections are to be established; there are by zone: {dict(zones)}")
    return connections


def case(mode, name, devices=("switch", "ovs")):
    """The case for a mode and a way."""

    def capture(bench, device, phase, place, leg):
        path = bench.directory / f"gateway-{device}-{mode}-{name}-{phase}-{place}.pcap"
        if not path.exists():
            write(path, (leg.frame(phase, number) for number in shuffled(range(CONNECTIONS), 1 + place)))
        return path

    def run(bench, device, round_):
        side = SIDES[device]
        way = ways(side)[mode][name]
        programs = compiled(bench, mode) if device == "switch" else recorded(mode)
        with contextlib.ExitStack() as stack:
            dut = bench.start(device, stack, mbufs=MBUFS + 4 * CONNECTIONS)
            node = Node(dut, side)
            for where, program in programs.items():
                dut.load(program, where)
            announce = bench.directory / "gateway-arp.pcap"
            write(announce, [arp()])
            node.once("wire", announce, 1, "the wire's first packet")
            for phase in ("syn", "synack", "ack"):
                for place, leg in enumerate(way.legs(phase)):
                    node.once(leg.enters, capture(bench, device, phase, place, leg), CONNECTIONS, f"{phase} of {CONNECTIONS} connections")
            legs = [(phase, place, leg) for phase in ("data", "rdata") for place, leg in enumerate(way.legs(phase))]
            for phase, place, leg in legs:
                node.play(leg.enters, capture(bench, device, phase, place, leg))
            time.sleep(SETTLE_S)
            shown = check(dut, CONNECTIONS)
            before = dut.device_ports()
            result = dut.measure_best(bench.seconds, node.totals)
            came(before, dut.device_ports(), [leg for _, _, leg in legs])
            result.established = shown
            check(dut, CONNECTIONS)
            return result

    run.__doc__ = describe(mode, name)
    run.devices = devices
    return run


def arp():
    """A question of the client on the wire, by which bridges learn where it is."""
    source_mac, address, asked = (bytes.fromhex(addresses.CLIENT_MAC.replace(":", "")), *(bytes(map(int, a.split("."))) for a in (V4.client, V4.node)))
    return (b"\xff" * 6 + source_mac + bytes.fromhex("0806000108000604") + b"\0\1" + source_mac + address + bytes(6) + asked).ljust(60, b"\0")


TITLES = {
    "node-port": "from the wire to a NodePort of a local Pod",
    "pod": "of a Pod to the world outside",
    "host": "from the wire to the host",
    "host-service": "from the host to a Service of a local Pod",
}


def describe(mode, name):
    """One line for the list of cases."""
    legs = " (the switch's part: the host's kernel translates in between)" if mode == "local" and name in ("node-port", "pod") else ""
    return f"{CONNECTIONS:,} established connections {TITLES[name]}, gateway bridge in mode {mode}, both ways{legs}."
