"""New connections per second: the first packets of millions of them, read from a capture, through
Antrea's pipeline document."""

import contextlib
import time
from dataclasses import replace
from functools import partial

from vsw import machine
from vsw.machine import Failure

from . import document, testpmd
from .captures import Traffic, write_openings
from .established import Players
from .sample import Interval, all_ports
from .switch import MBUFS

FILLING = 1_000_000  # connections
FILLING_TABLE = 2 * FILLING  # one port may have a share of the table only
STEADY = 8_000_000  # connections of the steady state, of which so many are there at a time at most:
STEADY_TABLE = 4_194_304
STEADY_TIMEOUT_S = 1  # of an unanswered SYN
STEADY_AFTER_S = 1.5  # the first ones have expired
READING_S = 120.0  # for all to be read, at most
GUARDED = 100  # Pods whose neighbour discovery is guarded, in the case over IPv6
MISSED = 0.01  # part of the connections over IPv6 that may be misses of the switch's caches
# Part of the packets that may be lost: the first ones of a port that is not fully there yet (Open
# vSwitch)
LOST = 0.05


def _opened(interval, work, tsc_hz):
    """A Sample of what the cores have done: a packet is a connection."""
    if work.packets == 0:
        raise Failure("no connection was opened while it was measured")
    if interval.sent < (1 - LOST) * interval.received:
        raise Failure(f"the device under test sent {interval.sent} of {interval.received} packets: this measures drops")
    return interval.busy_sample(tsc_hz, work.busy_cycles / work.packets)


def _case(steady, six=False):
    count = STEADY if steady else FILLING

    def run(bench, device, round_):
        capture = bench.directory / f"openings{'6' if six else ''}-{count}.pcap"
        if not capture.exists():
            write_openings(capture, count, six)
        devargs = f"rx_pcap={capture}"
        with contextlib.ExitStack() as stack:
            if device == "testpmd":
                return testpmd.reading(bench, stack, [f"net_pcap0,{devargs}", "net_null0,no-rx=1"], FILLING)
            dut = bench.start(device, stack, mbufs=MBUFS, connections=STEADY_TABLE if steady else FILLING_TABLE, port_shares=not steady)
            program = document.program(Traffic("remote", six))
            dut.load(replace(program, flows=program.flows + document.guards(GUARDED)) if six else program)
            Players(dut)
            dut.del_port("client")
            if steady:
                dut.set_opening_timeout(STEADY_TIMEOUT_S)
            before = dut.resident() if device == "ovs" else 0
            dut.clear()
            recorder = getattr(dut, "recorder", None)
            recording = recorder.recording(dut.pid) if recorder else contextlib.nullcontext()
            with Interval(dut.pid, partial(all_ports, dut)) as interval, recording:
                dut.add_port("client", document.NUMBERS["client"], f"net_pcap_client,{devargs}")
                if steady:
                    time.sleep(STEADY_AFTER_S)
                    dut.clear()
                    time.sleep(bench.seconds)
                else:
                    _wait_for_the_end(dut)
            result = _opened(interval, dut.work(), bench.tsc_hz())
            _check(dut, steady, result, before)
            if six and device == "switch":
                _count_misses(result, dut.caches()["total"])
            if recorder:
                result.functions = recorder.functions(result.cycles_per_packet)
            return result

    run.__doc__ = (
        f"New connections while others expire: up to {STEADY:,} SYNs, gone after {STEADY_TIMEOUT_S} s; Mpps are millions of connections per second."
        if steady
        else f"New connections{' over IPv6, beside the guards of ' + str(GUARDED) + ' Pods,' if six else ''} until there are {FILLING:,}; "
        "Mpps are millions of connections per second."
    )
    run.devices = ("switch", "ovs", "testpmd")
    return run


def _wait_for_the_end(dut):
    """Waits until the capture has been read: no more packets come."""
    last = [-1]

    def is_still():
        now = dut.work().packets
        still, last[0] = now == last[0] and now > 0, now
        return still

    machine.wait_until("the end of the capture", READING_S, is_still, interval=0.3)


def _check(dut, steady, result, before):
    """Failure unless the connections are there, or in the steady state have begun to go."""
    there, received = dut.connections(), all_ports(dut)[0]
    if steady and not 0 < there < min(received, STEADY_TABLE):
        raise Failure(f"{there} connections of {received} are there: none has expired, or the table is full")
    if not steady:
        if not (1 - LOST) * FILLING <= there <= FILLING:
            raise Failure(f"{there} of {FILLING} connections are there")
        result.figures["bytes per connection"] = round(dut.connection_memory(before), 1)


def _count_misses(result, total):
    """Failure if connections are misses of their own; `total` is that of `worker-perf-show`."""
    misses = (total["levels"]["misses"]["count"] + total["lost_misses"]) / total["packets"]
    if misses > MISSED:
        raise Failure(f"{misses:.3f} misses per connection: something makes each new connection a decision of its own")
    result.figures["misses per connection"] = round(misses, 6)


until_full, in_steady_state, until_full6 = _case(False), _case(True), _case(False, six=True)
