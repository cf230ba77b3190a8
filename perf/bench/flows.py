"""Stateless forwarding through the flow caches: many flows, few rules. The same rules and devices for switch and OVS-DPDK."""

import contextlib
import random
import struct

from .pcapfile import header, tcp_packet

# Three tables that look at every layer, so that a megaflow has a mask of some width.
RULES = """\
table=0,priority=100,in_port=1,ip,dl_dst=02:00:00:00:02:02,actions=goto_table:1
table=1,priority=100,ip,nw_dst=198.18.0.0/15,actions=goto_table:2
table=1,priority=90,ip,nw_dst=198.0.0.0/8,actions=drop
table=2,priority=100,tcp,tp_dst=80,actions=output:2
table=2,priority=90,tcp,actions=drop
"""


def write_flows(path, flows):
    """One packet of 60 bytes per flow, in a fixed shuffled order."""
    order = list(range(flows))
    random.Random(1).shuffle(order)
    with open(path, "wb") as file:
        file.write(header())
        for number in order:
            source = 0xC6120000 + 1 + number // 50000  # 198.18.x.x
            packet = tcp_packet("02:00:00:00:02:02", "02:00:00:00:01:01", source, 0xC6130001, 1024 + number % 50000, 80)
            file.write(struct.pack("<IIII", 0, number, len(packet), len(packet)) + packet)


def case(flows):
    """The case for a number of flows."""

    def run(bench, device, round_):
        from . import cases, ovs  # the module of all cases imports this one

        # The source keeps every packet of its file in an mbuf.
        mbufs = cases.MBUFS if flows < cases.MBUFS // 2 else 2 * cases.MBUFS
        capture = bench.directory / f"flows-{flows}.pcap"
        if not capture.exists():
            write_flows(capture, flows)
        devices = (f"net_pcap0,rx_pcap={capture},infinite_rx=1", "net_null0,no-rx=1")
        with contextlib.ExitStack() as stack:
            if device == "testpmd":
                dut = cases.testpmd_under_test(bench, stack, devices, mbufs)
                dut.wait_ready()
                dut.command("start")
                return cases.measure_testpmd(dut, bench.seconds)
            if device == "ovs":
                peer = ovs.Ovs(bench.directory, bench.tag, bench.dut_core, bench.other_core, bench.memory_mb)
                stack.callback(peer.stop)
                rules = bench.directory / "rules"
                rules.write_text(RULES)
                peer.ofctl("add-flows", "br0", rules)
                peer.add_port("out", 2, devices[1])
                peer.add_port("in", 1, devices[0])
                return ovs.measure(peer, bench.seconds, bench.tsc_hz(), cases.WARM_UP_S, cases.sample)
            ports = [
                {"name": name, "number": number, "type": "dpdk", "devargs": devargs}
                for number, name, devargs in zip((1, 2), ("in", "out"), devices)
            ]
            switch = cases.switch_under_test(bench, stack, ports, fail_mode="secure", mbufs=mbufs)
            switch.wait_ready()
            rules = bench.directory / "rules"
            rules.write_text(RULES)
            switch.vsctl("add-flows", "br0", rules)
            return cases.measure_switch(switch, bench.seconds)

    plural = "flow" if flows == 1 else "flows"
    run.__doc__ = f"{flows:,} TCP {plural} through three tables of rules, cached; beside OVS-DPDK."
    run.devices = ("switch", "ovs", "testpmd")
    return run
