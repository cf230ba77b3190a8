"""New connections per second: the first packets of millions of them, read from a capture, through Antrea's pipeline document."""

import contextlib
import time

from vsw import machine
from vsw.machine import Failure

from . import document, testpmd
from .captures import Traffic, write_openings
from .established import Players
from .sample import Sample, all_ports
from .switch import MBUFS

FILLING = 1_000_000  # connections that fill the table
STEADY = 8_000_000  # connections of the steady state, of which so many are there at a time at most:
STEADY_TABLE = 4_194_304
STEADY_TIMEOUT_S = 1  # of an unanswered SYN
STEADY_AFTER_S = 1.5  # the first ones have expired
READING_S = 120.0  # for all to be read, at most


def _opened(dut, work, tsc_hz):
    """A Sample of what the cores have done: a packet is a connection."""
    if work.packets == 0:
        raise Failure("no connection was opened while it was measured")
    cycles = work.busy_cycles / work.packets
    received, sent = all_ports(dut)
    if sent < 0.99 * received:
        raise Failure(f"the device under test sent {sent} of {received} packets: this measures drops")
    mpps = tsc_hz / cycles / 1e6
    return Sample(mpps=round(mpps, 4), cycles_per_packet=round(cycles, 1), cycles_from="busy", busy=1.0,
                  forwarded=round(sent / received, 5), tsc_hz=tsc_hz)


def _case(steady):
    count = STEADY if steady else FILLING

    def run(bench, device, round_):
        capture = bench.directory / f"openings-{count}.pcap"
        if not capture.exists():
            write_openings(capture, count)
        devargs = f"rx_pcap={capture}"
        with contextlib.ExitStack() as stack:
            if device == "testpmd":
                return testpmd.reading(bench, stack, [f"net_pcap0,{devargs}", "net_null0,no-rx=1"], FILLING)
            dut = bench.start(device, stack, mbufs=MBUFS, connections=STEADY_TABLE if steady else FILLING)
            dut.load(document.program(Traffic("remote")))
            Players(dut)
            dut.del_port("client")
            if steady:
                dut.set_opening_timeout(STEADY_TIMEOUT_S)
            before = dut.resident() if device == "ovs" else 0
            preempted = -machine.preemptions(dut.pid)
            dut.clear()
            dut.add_port("client", document.NUMBERS["client"], f"net_pcap_client,{devargs}")
            if steady:
                time.sleep(STEADY_AFTER_S)
                dut.clear()
                time.sleep(bench.seconds)
            else:
                _wait_for_the_end(dut)
            result = _opened(dut, dut.work(), bench.tsc_hz())
            result.preempted = preempted + machine.preemptions(dut.pid)
            _check(dut, steady, result, before)
            return result

    run.__doc__ = (
        f"New connections while others expire: up to {STEADY:,} SYNs, gone after {STEADY_TIMEOUT_S} s; Mpps are millions of connections per second."
        if steady
        else f"New connections until the table of {FILLING:,} is full; Mpps are millions of connections per second."
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
        # Open vSwitch drops some of the first packets of a port.
        if not 0.95 * FILLING <= there <= FILLING:
            raise Failure(f"{there} of {FILLING} connections are there")
        result.figures["bytes per connection"] = round(dut.connection_memory(before), 1)


until_full, in_steady_state = _case(False), _case(True)
