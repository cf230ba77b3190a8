"""Established connections through Antrea's pipeline document: handshakes first, through both ports;
then data, for ever."""

import contextlib
import time

from vsw import machine
from vsw.machine import Failure

from . import document, testpmd
from .captures import TCP, source
from .switch import MBUFS

# Times that every packet of a handshake is played: the first ones of a port that is not fully there
# yet are lost
PLAYED = 3
PLAY_S = 20.0  # at most
SETTLE_S = 1.0  # beside the warm-up: caches of the device fill


class Players:
    """The ports of a device under test: each is a sink, or plays a capture for ever (what it is to
    send is counted and freed)."""

    def __init__(self, dut):
        self.dut, self.playing = dut, {}
        for name, number in document.NUMBERS.items():
            dut.add_port(name, number, f"net_null_{name},no-rx=1")

    def play(self, name, *captures, **options):
        """From now on it plays these captures, one per receive queue."""
        self.dut.del_port(name)
        self.dut.add_port(name, document.NUMBERS[name], source(f"net_pcap_{name}", *captures), **options)

    def rest(self, name):
        """From now on it is a sink."""
        self.dut.del_port(name)
        self.dut.add_port(name, document.NUMBERS[name], f"net_null_{name},no-rx=1")


def establish(dut, players, traffic, connections, *captures, cores=None):
    """Plays the handshakes, a part of them by each receive queue, of captures that are as large, on
    these cores; Failure when the device does not show all connections as established then. Returns
    their number."""
    for phase in traffic.handshake:
        name = traffic.port(phase)
        players.play(name, *(capture(phase) for capture in captures), queues=len(captures))
        if cores:
            dut.pin(name, cores[name])
        machine.wait_until(f"{phase} of {connections} connections", PLAY_S, lambda: dut.ports()[name][0] >= PLAYED * len(captures) * connections)
        players.rest(name)
    return check(dut, traffic, connections)


def check(dut, traffic, connections):
    """Counts the connections that the device shows as established, or for UDP at all; Failure when
    it is not this number."""
    lines = dut.dump_connections().splitlines()
    word = "state=ESTABLISHED" if traffic.protocol == TCP else "udp,"
    shown = sum(word in line for line in lines)
    if shown != connections:
        raise Failure(f"{shown} of {connections} connections are established; {len(lines)} are shown, the first: {lines[:1]}")
    return shown


def capture_of(bench, traffic, numbers):
    """A function that gives the capture of a phase of these connections, written once."""

    def capture(phase):
        path = bench.directory / f"{traffic.name}-{numbers.start}-{numbers.stop}-{phase}.pcap"
        if not path.exists():
            traffic.write(path, phase, numbers)
        return path

    return capture


def case(traffic, connections):
    """The case for so many connections of this traffic."""

    def run(bench, device, round_):
        capture = capture_of(bench, traffic, range(connections))
        loops = ["data"] if traffic.one_way else ["data", "rdata"]
        # A source keeps every packet of its capture in an mbuf
        mbufs = MBUFS + len(loops) * connections
        with contextlib.ExitStack() as stack:
            if device == "testpmd":
                vdevs = [source(f"net_pcap{i}", capture(phase)) for i, phase in enumerate(loops)]
                return testpmd.limit(bench, stack, vdevs + ["net_null0,no-rx=1"] * traffic.one_way, mbufs)
            dut = bench.start(device, stack, mbufs=mbufs)
            dut.load(document.program(traffic))
            players = Players(dut)
            shown = establish(dut, players, traffic, connections, capture)
            for phase in loops:
                players.play(traffic.port(phase), capture(phase))
            time.sleep(SETTLE_S)
            result = dut.measure_best(bench.seconds)
            result.established = shown
            check(dut, traffic, connections)
            return result

    run.__doc__ = describe(traffic, connections)
    run.devices = ("switch", "ovs", "testpmd")
    return run


def describe(traffic, connections):
    """One line for the list of cases."""
    whither = {"pod": "to a Pod of the same Node", "svc": "to a ClusterIP", "remote": "to Pods of the peer Node"}[traffic.kind]
    what = f"{'TCP' if traffic.protocol == TCP else 'UDP'} over IPv{6 if traffic.six else 4}"
    many = f"{connections:,} established connection{'s' if connections > 1 else ''}"
    ways = "one way only" if traffic.one_way else "both ways"
    return f"{many} {whither}, {what}, {ways}{', IMIX' if traffic.sizes else ''}."
