"""One worker or two: connections that are disjoint, and both ways of a connection on different
workers."""

import contextlib
import time

from . import document, testpmd
from .captures import Traffic, source
from .established import SETTLE_S, Players, capture_of, establish
from .switch import MBUFS

TRAFFIC = Traffic("pod")
WAYS = {TRAFFIC.port(phase): phase for phase in ("data", "rdata")}


def case(connections, split):
    """The case: on one worker, then on two. Split: each of the two ports has its worker. Else each
    worker has half of the connections, by a receive queue of its own at both ports."""

    def run(bench, device, round_):
        one, two = (_measure(bench, device, connections, split, cores) for cores in ([bench.dut_core], [bench.dut_core, bench.other_core]))
        two.figures = {"Mpps of one worker": round(one.rate, 4), "x one worker": round(two.rate / one.rate, 2)}
        return two

    how = "both ways of each on different workers" if split else "half of them on each worker"
    run.__doc__ = f"{connections:,} established connections between Pods, two workers, {how}; and one worker with all of it."
    run.devices = ("switch", "ovs") if split else ("switch", "ovs", "testpmd")
    return run


def places(split, cores):
    """{port: the core of each of its receive queues}, on one core or two."""
    if split:
        return {name: [cores[number % len(cores)]] for number, name in enumerate(WAYS)}
    return {name: [cores[0], cores[-1]] for name in WAYS}


def _measure(bench, device, connections, split, cores):
    """A Sample of a device with pollers on these cores."""
    half = connections // 2
    parts = [capture_of(bench, TRAFFIC, part) for part in ([range(connections)] if split else [range(half), range(half, connections)])]
    with contextlib.ExitStack() as stack:
        if device == "testpmd":
            # What the machine's second core adds for a device that shares nothing between cores and
            # does nothing with packets.
            vdevs = [source(f"net_pcap{port}", *(part(phase) for part in parts)) for port, phase in enumerate(WAYS.values())]
            return testpmd.limit(bench, stack, vdevs, MBUFS + 2 * connections, cores=cores, queues=len(parts))
        dut = bench.start(device, stack, mbufs=MBUFS + 2 * connections, cores=cores)
        dut.load(document.program(TRAFFIC))
        players = Players(dut)
        pollers = places(split, cores)
        # A worker that is to have a connection's data sees its handshake, too, as with receive-side
        # scaling.
        shown = establish(dut, players, TRAFFIC, connections, *parts, cores=pollers)
        for name, queues in pollers.items():
            players.play(name, *(part(WAYS[name]) for part in parts), queues=len(parts))
            dut.pin(name, queues)
        time.sleep(SETTLE_S)
        result = dut.measure(bench.seconds)
        result.established = shown
        return result
