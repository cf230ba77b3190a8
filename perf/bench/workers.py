"""One worker or two: connections that are disjoint, and both ways of a connection on different workers."""

import contextlib
import time

from . import document
from .captures import Traffic
from .established import SETTLE_S, Players, capture_of, establish
from .switch import MBUFS

TRAFFIC = Traffic("pod")


def case(connections, split):
    """The case: on one worker, then on two. Split: each of the two ports has its worker. Else each worker has half of the connections, by a
    receive queue of its own at both ports."""

    def run(bench, device, round_):
        cores = [bench.dut_core, bench.other_core]
        whole, half = capture_of(bench, TRAFFIC, range(connections)), connections // 2
        parts = [whole] if split else [capture_of(bench, TRAFFIC, part) for part in (range(half), range(half, connections))]
        ways = {TRAFFIC.port(phase): phase for phase in ("data", "rdata")}
        with contextlib.ExitStack() as stack:
            dut = bench.start(device, stack, mbufs=MBUFS + 2 * connections, cores=cores)
            dut.load(document.program(TRAFFIC))
            players = Players(dut)
            shown = establish(dut, players, TRAFFIC, connections, whole)
            for name, phase in ways.items():
                players.play(name, *(part(phase) for part in parts), queues=len(parts))
            rates = []
            for workers in (1, 2):
                for number, name in enumerate(ways):
                    places = [cores[number]] if split else cores
                    dut.pin(name, places if workers == 2 else [cores[0]] * len(parts))
                time.sleep(SETTLE_S)
                result = dut.measure(bench.seconds)
                rates.append(result.rate)
            result.established = shown
            result.figures = {"Mpps of one worker": round(rates[0], 4), "x one worker": round(rates[1] / rates[0], 2)}
            return result

    how = "both ways of each on different workers" if split else "half of them on each worker"
    run.__doc__ = f"{connections:,} established connections between Pods, two workers, {how}; and one worker with all of it."
    run.devices = ("switch", "ovs")
    return run
