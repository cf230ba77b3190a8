"""Stateless forwarding through the flow caches: many flows, few rules. The same rules and devices
for switch and OVS-DPDK."""

import contextlib

from . import captures, testpmd
from .captures import ACK, TCP, ip_frame, shuffled, source, tcp_header
from .document import Program
from .switch import MBUFS

# Three tables that look at every layer, so that a megaflow has a mask of some width.
RULES = (
    "table=0,priority=100,in_port=1,ip,dl_dst=02:00:00:00:02:02,actions=goto_table:1",
    "table=1,priority=100,ip,nw_dst=198.18.0.0/15,actions=goto_table:2",
    "table=1,priority=90,ip,nw_dst=198.0.0.0/8,actions=drop",
    "table=2,priority=100,tcp,tp_dst=80,actions=output:2",
    "table=2,priority=90,tcp,actions=drop",
)
MACS = ("02:00:00:00:02:02", "02:00:00:00:01:01")
PER_SOURCE = 50_000  # flows of one source address


def write_flows(path, flows):
    """One packet of 60 bytes per flow, in a fixed shuffled order."""
    captures.write(path, (_frame(number) for number in shuffled(range(flows), 1)))


def _frame(number):
    segment = tcp_header(1024 + number % PER_SOURCE, 80, ACK, 1, 1) + bytes(6)
    return ip_frame(*MACS, f"198.18.0.{1 + number // PER_SOURCE}", "198.19.0.1", TCP, segment)


def case(flows):
    """The case for a number of flows."""

    def run(bench, device, round_):
        mbufs = MBUFS + flows  # the source keeps every packet of its capture in an mbuf
        capture = bench.directory / f"flows-{flows}.pcap"
        if not capture.exists():
            write_flows(capture, flows)
        devices = (source("net_pcap0", capture), "net_null0,no-rx=1")
        with contextlib.ExitStack() as stack:
            if device == "testpmd":
                return testpmd.limit(bench, stack, devices, mbufs)
            dut = bench.start(device, stack, mbufs=mbufs)
            dut.load(Program(RULES))
            dut.add_port("out", 2, devices[1])
            dut.add_port("in", 1, devices[0])
            return dut.measure(bench.seconds)

    plural = "flow" if flows == 1 else "flows"
    run.__doc__ = f"{flows:,} TCP {plural} through three tables of rules, cached; beside OVS-DPDK."
    run.devices = ("switch", "ovs", "testpmd")
    return run
