"""What perf/run computes and draws, and its arguments."""

import importlib.machinery
import importlib.util
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path
from unittest.mock import Mock, patch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "lib"), str(ROOT / "perf")]

from bench import captures, cases, cluster, document, guests, ovs, policies, report, send, switch, testpmd, tunnel, vhost  # noqa: E402
from bench.captures import Traffic  # noqa: E402
from bench.gauge import PIECES, Gauge  # noqa: E402
from bench.sample import Interval, Work, on_core, sample  # noqa: E402
from vsw import machine  # noqa: E402
from vsw.machine import Failure  # noqa: E402

STATS = """
  ######################## NIC statistics for port 0  ########################
  RX-packets: 360452352  RX-missed: 7          RX-bytes:  21627141120
  RX-errors: 0
  RX-nombuf:  0
  TX-packets: 5          TX-errors: 0          TX-bytes:  300

  Throughput (since last show)
  Rx-pps:     69491969          Rx-bps:  33356145512
  Tx-pps:            1          Tx-bps:            0
  ############################################################################

  ######################## NIC statistics for port 1  ########################
  RX-packets: 0          RX-missed: 0          RX-bytes:  0
  TX-packets: 360452352  TX-errors: 0          TX-bytes:  21627141120
  ############################################################################
"""
CYCLES = "  CPU cycles/packet=354.44 (total cycles=1603045348 / total io packets=4522752) at 2600 MHz Clock\n"
MACHINE = {"cpu": "A <fast> & \"cheap\" CPU", "tsc_hz": 2_600_000_000, "cores": 2, "dpdk": "22.11", "kernel": "6.1",
           "commit": "abc", "date": "2026-01-01"}


def rounds(*mpps, source="saturated"):
    return [{"mpps": m, "cycles_per_packet": 2600 / m, "cycles_from": source, "busy": 1.0, "forwarded": 1.0, "figures": {}} for m in mpps]


class Guests(unittest.TestCase):
    """Transfers between two Linux guests."""

    @staticmethod
    def transfer(cycles, size=1_000_000, on_core=1.0):
        interval = Interval(0, lambda: (0, 0))
        interval.on_core, interval.preempted = on_core, 0
        return interval, Work(size // 40_000, cycles), {"bytes": size, "bits_per_second": 8.0 * size}

    def test_ratios_are_those_of_neighbours(self):
        # Without offloads a byte costs twice as much, and everything five times as much from the
        # fourth turn on; one transfer is disturbed.
        turns = [{"on": self.transfer(slow * 1_000_000), "off": self.transfer(slow * 1_000_000, 500_000)} for slow in (1, 1, 1, 5, 5, 5, 5)]
        turns[4]["off"] = self.transfer(90_000_000, 500_000)
        turns[5]["on"] = self.transfer(10_000_000, on_core=0.5)  # half of them were somebody else's
        result = guests._sample(Mock(tsc_hz=lambda: 2_000_000_000), turns)
        self.assertEqual(result.figures["off / on"], 2)
        self.assertEqual([result.figures[f"off / on, a quarter is {where}"] for where in ("below", "above")], [2, 2])
        self.assertEqual((result.cycles_per_packet, result.figures["cycles per 1,000 bytes, offloads off"]), (5000, 10_000))
        self.assertEqual((result.figures["Mbit/s, offloads on"], result.figures["bytes per packet, offloads on"]), (8, 40_000))


class Testpmd(unittest.TestCase):
    def test_port_stats(self):
        stats = testpmd.port_stats(STATS)
        self.assertEqual(stats[0]["RX-packets"], 360452352)
        self.assertEqual((stats[0]["Rx-pps"], stats[0]["RX-missed"], stats[0]["TX-packets"]), (69491969, 7, 5))
        self.assertEqual((stats[1]["RX-packets"], stats[1]["TX-packets"]), (0, 360452352))
        with self.assertRaises(Failure):
            testpmd.port_stats("Bad arguments\n")

    def test_core_cycles(self):
        self.assertEqual(testpmd.core_cycles(CYCLES), (1603045348, 4522752, 2600))
        self.assertIsNone(testpmd.core_cycles(STATS))

    def test_a_testpmd_that_ends_is_a_failure(self):
        with tempfile.TemporaryDirectory() as directory:
            dut = testpmd.Testpmd(Path(directory).name, [0], 0, 16, ["net_no_such_driver0"], [], ["--no-huge"])
            try:
                with self.assertRaisesRegex(Failure, "has ended; it said"):
                    dut.wait_ready()
            finally:
                dut.stop()


class Samples(unittest.TestCase):
    def test_saturated_core(self):
        result = sample(30_000_000, 30_000_100, 3.0, 2_600_000_000, 0.97, 250.0)
        self.assertEqual((result.mpps, result.cycles_per_packet, result.cycles_from), (10.0, 260.0, "saturated"))

    def test_idle_core(self):
        result = sample(3_000_000, 3_000_000, 3.0, 2_600_000_000, 0.1, 250.0)
        self.assertEqual((result.mpps, result.cycles_per_packet, result.cycles_from), (1.0, 250.0, "busy"))

    def test_drops_and_silence_are_no_result(self):
        with self.assertRaisesRegex(Failure, "this measures drops"):
            sample(1000, 500, 1.0, 1, 1.0, 1.0)
        with self.assertRaisesRegex(Failure, "no packet"):
            sample(0, 0, 1.0, 1, 1.0, 1.0)

    def test_several_cores(self):
        result = sample(30_000_000, 30_000_000, 3.0, 2_600_000_000, 0.97, 250.0, cores=2)
        self.assertEqual(result.cycles_per_packet, 520.0)

    def test_a_switch_that_answers(self):
        """Rates and cycles of a switch of two workers that handle 1,000 packets in 300,000 cycles,
        half of their time."""

        class Daemon:
            def __init__(self):
                self.asked_workers = self.asked_ports = 0
                self.process = Mock(pid=os.getpid())

            def workers(self):
                self.asked_workers += 1
                cycles = 150_000 * self.asked_workers
                counts = {"busy_cycles": cycles, "idle_cycles": cycles, "sleep_cycles": 0, "packets": 500 * self.asked_workers}
                return [{"core": 7, "tsc_hz": 10**9, **counts}] * 2

            def ports(self):
                self.asked_ports += 1
                count = 1000 * self.asked_ports
                return {"a": {"rx_packets": count, "tx_packets": 0}, "b": {"rx_packets": 0, "tx_packets": count}}

            def vsctl(self, *words):
                assert words == ("worker-clear",), words

            def json(self, *words):
                raise Failure("no such verb")

        dut = object.__new__(switch.Switch)
        dut.daemon, dut.pid, dut.cores = Daemon(), os.getpid(), 2
        with patch("bench.sample.on_core", return_value=0.5):
            result = dut.measure(0.2)
        self.assertEqual((result.busy, result.cycles_per_packet, result.cycles_from), (0.5, 150.0, "busy"))
        self.assertAlmostEqual(result.mpps, 0.005, delta=0.001)  # 1,000 in 0.2 s
        self.assertEqual(result.caches["workers"], {"busy_cycles": 300_000, "idle_cycles": 300_000, "sleep_cycles": 0, "packets": 1000})
        self.assertEqual(result.on_core, 0.5)  # cycles went to something else, half of them
        self.assertAlmostEqual(result.rate, 2 * result.mpps)

    def test_bridges_are_read_as_if_at_once(self):
        """100 packets a question cross both bridges."""
        dut, asked = object.__new__(switch.Switch), []

        def ports(bridge):
            asked.append(bridge)
            count = 100 * len(asked)
            return {"client": (count, 0)} if bridge == "br0" else {"uplink": (0, count)}

        dut.bridge_of, dut.ports = {"client": "br0", "uplink": "brphy"}, ports
        self.assertEqual(dut.device_ports(), {"client": (250, 0), "uplink": (0, 250)})
        self.assertEqual(asked, ["br0", "brphy", "brphy", "br0"])

    def test_time_that_pollers_had_their_cores(self):
        """The busiest threads are the pollers; one of them was preempted for 300 of 1,000 ns. A
        thread that has come counts from 0."""
        before, after = {"1": 5000, "2": 100, "3": 0}, {"1": 5700, "2": 1100, "3": 10, "4": 20}
        self.assertEqual(on_core(before, after, 1000, 1), 1.0)
        self.assertEqual(on_core(before, after, 1000, 2), 0.85)
        self.assertEqual(on_core(before, {"4": 2000}, 1000, 1), 1.0)

    def test_run_times_grow_with_work(self):
        before = machine.run_times(os.getpid())
        deadline = time.process_time() + 0.05
        while time.process_time() < deadline:
            pass
        mine = str(threading.get_native_id())
        self.assertGreater(machine.run_times(os.getpid())[mine], before[mine])

    def test_a_part_of_the_time(self):
        """Cores that are busy with packets for an unknown part of the time: 200 cycles each, of
        which they had half."""
        counts = iter([(0, 0), (10, 5)])
        with patch("bench.sample.on_core", return_value=0.5), Interval(os.getpid(), counts.__next__) as interval:
            pass
        result = interval.busy_sample(10**9, 200.0)
        self.assertEqual((result.cycles_per_packet, result.mpps, result.forwarded), (100.0, 10.0, 0.5))


class Tunnels(unittest.TestCase):
    """Frames as they come from the peer Node, and the flows that lead to it."""

    INNER = Traffic("remote").frame("rdata", 7)

    def udp(self, link, port):
        """UDP's payload of a wrapped frame, whose outer headers are checked, with the checksum and
        what is left of it."""
        frame = link.wrap(7, self.INNER)
        self.assertEqual(frame[:12].hex(":"), f"{tunnel.NODE_MAC}:{tunnel.PEER_MAC}")
        if link.six:
            self.assertEqual((frame[12:14], frame[20], struct.unpack("!H", frame[18:20])[0]), (b"\x86\xdd", captures.UDP, len(frame) - 54))
            ends, datagram = frame[22:54], frame[54:]
        else:
            self.assertEqual((frame[12:14], frame[23], struct.unpack("!H", frame[16:18])[0]), (b"\x08\x00", captures.UDP, len(frame) - 14))
            self.assertEqual(captures.checksum(frame[14:34]), 0)
            ends, datagram = frame[26:34], frame[34:]
        half = len(ends) // 2
        family = socket.AF_INET6 if link.six else socket.AF_INET
        self.assertEqual([socket.inet_ntop(family, end) for end in (ends[:half], ends[half:])], [link.end(tunnel.PEER), link.end(tunnel.NODE)])
        source, destination, length, checksum = struct.unpack("!HHHH", datagram[:8])
        self.assertEqual((destination, length, 32768 <= source < 61000), (port, len(datagram), True))
        left = captures.checksum(ends + struct.pack("!IBBBB", length, 0, 0, 0, captures.UDP) + datagram)
        return datagram[8:], checksum, left

    def test_geneve(self):
        payload, checksum, _ = self.udp(tunnel.Link(), 6081)
        self.assertEqual((payload[:8].hex(), payload[8:], checksum), ("0000655800000000", self.INNER, 0))

    def test_vxlan(self):
        payload, checksum, _ = self.udp(tunnel.Link("vxlan"), 4789)
        self.assertEqual((payload[:8].hex(), payload[8:], checksum), ("0800000000000000", self.INNER, 0))

    def test_over_ipv6_there_is_a_checksum(self):
        payload, checksum, left = self.udp(tunnel.Link(six=True), 6081)
        self.assertEqual((payload[:8].hex(), payload[8:], left), ("0000655800000000", self.INNER, 0))
        self.assertNotEqual(checksum, 0)

    def test_gre(self):
        frame = tunnel.Link("gre").wrap(7, self.INNER)
        self.assertEqual((frame[23], captures.checksum(frame[14:34]), struct.unpack("!H", frame[16:18])[0]), (captures.GRE, 0, len(frame) - 14))
        self.assertEqual((frame[34:42].hex(), frame[42:]), ("2000655800000000", self.INNER))

    def test_connections_have_ports_of_their_own(self):
        ports = {tunnel.Link("vxlan").wrap(number, self.INNER)[34:36] for number in range(1000)}
        self.assertEqual(len(ports), 1000)

    def test_flows_name_ends_of_this_tunnel(self):
        over_ipv4, over_ipv6 = ("192.168.77.103->tun_dst", "->tun_ipv6"), ("fd00:192:168:77::103->tun_ipv6_dst", "->tun_dst")
        for link, six, (one, other) in ((tunnel.Link("gre"), False, over_ipv4), (tunnel.Link(), True, over_ipv4),
                                        (tunnel.Link(six=True), False, over_ipv6), (tunnel.Link(six=True), True, over_ipv6)):
            text = "\n".join(link.program(Traffic("remote", six)).flows)
            self.assertEqual((text.count(f"set_field:{one},"), other in text), (2 if six else 1, False), (link, six))

    def test_the_document_is_for_geneve_over_ipv4(self):
        self.assertEqual(tunnel.Link().program(Traffic("remote")), document.program(Traffic("remote")))

    def test_names(self):
        names = [name for name in cases.CASES if name.startswith(("encap", "decap"))]
        ways = [[name.removeprefix(way) for name in names if name.startswith(way)] for way in tunnel.WAYS]
        self.assertEqual(ways, [["-1", "-1000", "-30000", "6-1000", "-vxlan-1000", "-gre-1000", "-geneve6-1000"]] * 2)
        self.assertEqual({cases.devices(name) for name in names}, {("switch", "ovs")})


class Vhost(unittest.TestCase):
    """Connections of Pods that are vhost-user guests."""

    def test_what_circulates(self):
        for connections, packets in ((1, 512), (300, 300), (1000, 1000)):
            with tempfile.TemporaryDirectory() as directory:
                path = Path(directory) / "x.pcap"
                vhost.write_circle(path, Traffic("pod"), connections, "rdata")
                frames = send.packets_of(path)
            self.assertEqual((len(frames), len(set(frames)), connections * vhost.copies(connections)), (packets, connections, packets))
            self.assertLessEqual(packets, 1024, "more than a ring takes")

    def test_no_packet_is_led_to_a_tap(self):
        whole = document.program(Traffic("pod"))
        direct = vhost.from_pod_to_pod(whole)
        gone = [line for line in whole.flows if line not in direct.flows]
        self.assertEqual([line.split(" actions=")[0] for line in gone], ["table=23,priority=200,reg1=0x25", "table=23,priority=200,in_port=37"])
        self.assertEqual((direct.groups, direct.meters), (whole.groups, whole.meters))

    def test_packets_that_do_not_come_around_fail_the_round(self):
        dut = Mock(ports=lambda: {"client": (5000, 5000), "web": (1000, 1000)})
        with self.assertRaisesRegex(Failure, "1000 packets of each Pod were to circulate"):
            vhost.check_circulation(dut, 1000)
        vhost.check_circulation(dut, 999)

    def test_the_device_goes_on_after_the_packets_are_there(self):
        """Whatever happens meanwhile."""
        process = subprocess.Popen(["sleep", "60"])
        try:
            with self.assertRaises(Failure), vhost.halted(process.pid):
                machine.wait_until("it is halted", 5, lambda: self.state(process.pid) == "T")
                raise Failure("of the guests")
            machine.wait_until("it goes on", 5, lambda: self.state(process.pid) != "T")
        finally:
            process.kill()
            process.wait()

    @staticmethod
    def state(pid):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def test_all_devices(self):
        for name in ("vhost-virtio-user", "vhost-pod-1", "vhost-pod-1000"):
            self.assertEqual(cases.devices(name), ("switch", "ovs", "testpmd"), name)


PMD = """
pmd thread numa_id 0 core_id 1:
  packets received: 1000
  packet recirculations: 2000
  avg. datapath passes per packet: 3.00
  emc hits: 30
  smc hits: 0
  megaflow hits: 2970
  avg. subtable lookups per megaflow hit: 1.00
  miss with success upcall: 2
  miss with failed upcall: 1
  avg. packets per output batch: 20.32
  idle cycles: 100 (1.00%)
  processing cycles: 9900 (99.00%)
  avg cycles per packet: 1037.10 (10000/1000)
  avg processing cycles per packet: 1037.00 (9900/1000)
main thread:
  packets received: 7
  processing cycles: 1 (50.00%)
  avg cycles per packet: 1.00 (7/7)
"""


class OpenVswitch(unittest.TestCase):
    def test_pmd_stats(self):
        cycles, busy, caches = ovs.pmd_stats(PMD)
        self.assertEqual((cycles, busy), (1037.1, 0.99))
        self.assertEqual(caches, {
            "packets received": 1000, "packet recirculations": 2000, "emc hits": 30, "smc hits": 0, "megaflow hits": 2970,
            "miss with success upcall": 2, "miss with failed upcall": 1,
        })
        with self.assertRaisesRegex(Failure, "nothing of its cycles"):
            ovs.pmd_stats("main thread:\n")

    def test_the_better_setting_counts(self):
        peer, packets = object.__new__(ovs.Ovs), iter((30, 40))
        peer.vsctl = Mock()

        def measure(_seconds, read=None):
            count = next(packets)
            result = sample(count, count, 1.0, 10**9, 1.0, 0.0)
            result.caches = {}
            return result

        peer.measure = measure
        best = peer.measure_best(1)
        self.assertEqual((best.cycles_per_packet, best.caches), (25_000_000.0, {"setting": "smc-enable=true"}))
        peer.vsctl.assert_called_with("set", "Open_vSwitch", ".", "other_config:smc-enable=true")

    def test_ports_of_the_datapath(self):
        text = "netdev@ovs-netdev:\n  lookups: hit:1 missed:2 lost:0\n  port 0: ovs-netdev (tap)\n    RX packets:1 errors:0\n    TX packets:2 errors:0\n"
        text += "  port 2: uplink (dpdk: configured_rx_queues=1)\n    RX packets:30 errors:0 dropped:0\n    TX packets:40 errors:0\n"
        self.assertEqual(ovs.datapath_ports(text), {"ovs-netdev": (1, 2), "uplink": (30, 40)})

    def test_ports(self):
        text = 'OFPST_PORT reply (OF1.5) (xid=0x2): 2 ports\n  port  "web-1": rx pkts=5, bytes=300, drop=0\n           tx pkts=7, bytes=420\n'
        text += "  port  LOCAL: rx pkts=0, bytes=0\n           tx pkts=1, bytes=2\n"
        self.assertEqual(ovs.dumped_ports(text), {"web-1": (5, 7), "LOCAL": (0, 1)})

    def test_pmd_stats_of_two_threads(self):
        two = PMD.split("main thread:")[0] * 2
        self.assertEqual(ovs.pmd_stats(two)[:2], (1037.1, 0.99))
        self.assertEqual(ovs.pmd_stats(two)[2]["packets received"], 2000)


class Calm(unittest.TestCase):
    """The other half of the core."""

    def test_a_reading_is_compared_with_the_shortest(self):
        now, took = [0], [100]
        core = min(os.sched_getaffinity(0))
        seen = []

        def work():
            seen.append(os.sched_getaffinity(0))
            now[0] += took[0]

        home = os.sched_getaffinity(0)
        gauge = Gauge(core, lambda: now[0], work)
        first = gauge.read()
        took[0] = 80
        self.assertEqual((first, gauge.read(), gauge.slower(first), gauge.slower(160)), (100, 80, 1.25, 2.0))
        self.assertEqual((seen, os.sched_getaffinity(0)), ([{core}] * 2 * PIECES, home))

    def test_real_work_takes_time(self):
        self.assertGreater(Gauge(min(os.sched_getaffinity(0))).read(), 0)

    def test_rounds_are_measured_again_until_enough_are_calm(self):
        spec = importlib.util.spec_from_loader("perf_run", importlib.machinery.SourceFileLoader("perf_run", str(ROOT / "perf" / "run")))
        run = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(run)
        # A reading before and behind each round: the first one of the switch is calm, the second is
        # not, all of the peer's are.
        for calm, readings, wanted in (
            (True, {"switch": (100, 180, 101, 102), "ovs": (100, 100, 100)}, {"switch": 4, "ovs": 3}),
            (True, {"switch": (180,) * 8 + (100,), "ovs": (100,) * 3}, {"switch": 9, "ovs": 3}),
            (False, {"switch": (100, 180, 101), "ovs": (100, 100, 100)}, {"switch": 3, "ovs": 3}),
        ):
            left = {device: list(each) for device, each in readings.items()}
            bench, lines = Mock(), []
            bench.gauge = Gauge(0)
            bench.gauge.shortest = 100

            def case(_, device, __):
                bench.gauge.read = Mock(side_effect=[left[device].pop(0), 0])
                return Mock(as_dict=lambda: {**rounds(10.0)[0], "preempted": 0})

            bench.gauge.read = Mock(return_value=0)
            args = Mock(case=["one"], rounds=3, seconds=1.0, calm=calm, only=None)
            with patch.object(run, "CASES", {"one": case}), patch.object(run, "devices", lambda _: ("switch", "ovs")):
                samples, failures = run.measure(args, bench, lines.append)
            self.assertEqual(({device: len(each) for device, each in samples["one"].items()}, failures), (wanted, []), readings)
            self.assertEqual(sum("the core was 1.8 times slower" in line for line in lines), readings["switch"].count(180), lines)


class Report(unittest.TestCase):
    def summary(self):
        return report.summarize({
            "one": {"switch": rounds(5.0, 10.0, 4.0), "testpmd": rounds(20.0, 19.0, 22.0)},
            "two<&>": {"switch": [], "testpmd": rounds(1.0, source="busy")},
        })

    def test_medians_and_ratio(self):
        summary = self.summary()
        self.assertEqual((summary["one"]["switch"]["mpps"], summary["one"]["ratio_mpps"]), (5.0, 0.25))
        self.assertNotIn("switch", summary["two<&>"])
        self.assertNotIn("ratio_mpps", summary["two<&>"])

    def test_ratio_to_ovs(self):
        summary = report.summarize({"flows-1": {"switch": rounds(30.0), "ovs": rounds(20.0), "testpmd": rounds(60.0)}})
        self.assertEqual((summary["flows-1"]["ratio_ovs"], summary["flows-1"]["ratio_mpps"]), (1.5, 0.5))
        lines = report.table(summary).splitlines()[:4]
        self.assertEqual([line.split()[1] for line in lines[1:]], ["switch", "ovs", "testpmd"])
        self.assertTrue(lines[2].endswith("1.50     1.50") and lines[3].endswith("0.50     0.50"), lines)
        self.assertIn("50 % of testpmd, 1.50 x OVS-DPDK", report.chart(summary, MACHINE))

    def test_figures(self):
        two = rounds(1.0, 2.0, 3.0)
        for index, each in enumerate(two[:2]):
            each["figures"] = {"kept %": 90.0 + index}
        summary = report.summarize({"churn": {"switch": two}})
        self.assertEqual(summary["churn"]["switch"]["figures"], {"kept %": 90.5})
        self.assertEqual(report.table(summary).splitlines()[-1].split(), ["churn", "switch", "kept", "%", "90.5", "[90", "-", "91]"])

    @staticmethod
    def beside(slower, *mpps):
        return [{**each, "slower": slow} for each, slow in zip(rounds(*mpps), slower, strict=True)]

    def test_rounds_beside_somebody_else_are_left_out(self):
        summary = report.summarize({"one": {"switch": self.beside((1.0, 1.9, 1.19, 1.2, 1.05), 10.0, 5.0, 9.0, 7.0, 8.0), "ovs": rounds(3.0, 3.0, 3.0)}})
        switch = summary["one"]["switch"]
        self.assertEqual((switch["mpps"], summary["one"]["ratio_ovs"]), (9.0, 3.0))
        self.assertEqual(([r["mpps"] for r in switch["rounds"]], [r["mpps"] for r in switch["left_out"]]), ([10.0, 9.0, 8.0], [5.0, 7.0]))
        self.assertIn("(rounds): one switch: 2", report.table(summary))
        # Fewer than three others are no median, nor is one device's calm compared with another's
        # noise.
        summary = report.summarize({"one": {"switch": self.beside((1.0, 1.9, 1.1, 1.1), 10.0, 5.0, 9.0, 8.0), "ovs": self.beside((1.0, 1.9, 1.3), 4.0, 3.0, 2.0)}})
        self.assertEqual([len(summary["one"][device]["left_out"]) for device in ("switch", "ovs")], [0, 0])
        summary = report.summarize({"one": {"switch": self.beside((1.0, 1.9, 1.1), 10.0, 5.0, 9.0)}})
        self.assertEqual((summary["one"]["switch"]["mpps"], summary["one"]["switch"]["left_out"]), (9.0, []))
        self.assertNotIn("left out", report.table(summary))

    def test_table(self):
        text = report.table(self.summary())
        for part in ("5.00 [4.00 - 10.00]", "0.25", "130 [118 - 137]", "2600 [2600 - 2600] *", "busy cycles per packet"):
            self.assertIn(part, text)

    def test_chart(self):
        chart = report.chart(self.summary(), MACHINE)
        root = xml.fromstring(chart)
        name = "{http://www.w3.org/2000/svg}"
        texts = [element.text for element in root.iter(f"{name}text")]
        self.assertIn("two<&>", texts)
        self.assertIn("25 % of testpmd", texts)
        self.assertTrue(any(text.startswith(MACHINE["cpu"]) for text in texts))
        bars = [float(r.get("width")) for r in root.iter(f"{name}rect") if r.get("height") == "18"]
        self.assertEqual(len(bars), 6)
        # In the panel of Mpps: a case's highest round, 22, is as wide as the panel.
        self.assertAlmostEqual(bars[0], 300 * 5 / 22, delta=0.1)
        self.assertAlmostEqual(bars[1], 300 * 20 / 22, delta=0.1)
        self.assertEqual(bars[2], 300)  # the only one of its case
        whiskers = [p.get("d") for p in root.iter(f"{name}path")]
        self.assertEqual(len(whiskers), 6)
        self.assertTrue(whiskers[0].startswith(f"M{210 + 300 * 4 / 22:.1f} "), whiskers[0])
        width, height = float(root.get("width")), float(root.get("height"))
        for element in root.iter():
            for key, limit in (("x", width), ("y", height)):
                if element.get(key):
                    self.assertTrue(0 <= float(element.get(key)) <= limit, xml.tostring(element))


class Cluster(unittest.TestCase):
    GROUP = ("group add group_id=7,type=select,bucket=bucket_id:1,weight:100,actions=set_field:0xa0a0066->reg3,set_field:0x1f40/0xffff->reg4,resubmit(,60),"
             "bucket=bucket_id:2,weight:100,actions=set_field:0xa0a0067->reg3,set_field:0x1f40/0xffff->reg4,resubmit(,60)")
    ENDPOINT = ("flow add cookie=0x1030000000000,table=60,priority=200,tcp,reg3=0xa0a0066,reg4=0x21f40/0x7ffff "
                "actions=ct(commit,table=72,zone=65520,nat(dst=10.10.0.102:8000))")

    def test_flows_without_what_open_vswitch_does_not_have(self):
        line = " cookie=0x1, duration=3.1s, table=80, n_packets=0, n_bytes=0, idle_age=3, priority=200,ip,nw_src=10.10.0.180 actions={}"
        head = "cookie=0x1,table=80,priority=200,ip,nw_src=10.10.0.180"
        for ours, theirs in (("ct_forget", "drop"), ("ct_forget,goto_table:4", "goto_table:4"), ("meter:256,reject(tcp=reset,IN_PORT)", "meter:256"),
                             ("reject(move:NXM_NX_TUN_IPV4_SRC[]->NXM_NX_TUN_IPV4_DST[],ct(commit),IN_PORT),output:3", "output:3"), ("drop", "drop")):
            self.assertEqual(cluster.portable_line(line.format(ours)), f"{head} actions={theirs}")

    def test_an_endpoint_moves_and_comes_back(self):
        there, back = cluster._endpoint_turns([self.GROUP, self.ENDPOINT])
        self.assertIn("group insert_bucket group_id=7,command_bucket_id=first,bucket=bucket_id:1,weight:100,actions=set_field:0xa0a0066->reg3,set_field:0x2328/", there)
        self.assertIn("reg4=0x22328/0x7ffff actions=ct(commit,table=72,zone=65520,nat(dst=10.10.0.102:9000))\nflow delete_strict table=60,priority=200,tcp,reg3=0xa0a0066,reg4=0x21f40/", there)
        self.assertIn(self.ENDPOINT, back)
        self.assertIn("flow delete_strict table=60,priority=200,tcp,reg3=0xa0a0066,reg4=0x22328/0x7ffff\n", back)

    def test_an_address_joins_some_rules(self):
        lines = [f"flow add table=124,priority=200,ip,nw_src=10.0.0.1 actions={','.join(f'conjunction({n},1/3)' for n in range(2, 9))}",
                 "flow add table=72,priority=1,ip,nw_dst=10.0.0.1 actions=conjunction(99,1/2)"]
        there, back = cluster._address_turns(lines)
        self.assertEqual((there.count("conjunction("), "table=124,priority=200,ip,nw_src=10.200.0.1" in there), (5, True))
        self.assertEqual(back, "flow delete_strict table=124,priority=200,ip,nw_src=10.200.0.1\n")


class Policies(unittest.TestCase):
    def test_every_rule_is_a_conjunction_of_three(self):
        lines = list(policies.lines(3))
        self.assertEqual(len(lines), 3 * 23)
        for rule in (1, 2, 3):
            mine = [line for line in lines if f"priority={60000 - rule}," in line]
            clauses = [line.split("conjunction(")[1] for line in mine if "conjunction(" in line]
            self.assertEqual([clauses.count(f"{rule},{k}/3)") for k in (1, 2, 3)], [10, 10, 2])
            self.assertEqual(len({line.split(" ")[0] for line in mine}), 23)


class Arguments(unittest.TestCase):
    def run_perf(self, *words):
        return subprocess.run([ROOT / "perf" / "run", *words], capture_output=True, text=True, timeout=20)

    def test_list(self):
        done = self.run_perf("--list")
        self.assertEqual(done.returncode, 0)
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], list(cases.CASES))

    def test_patterns(self):
        self.assertIn("there is no case pod-x", self.run_perf("--case", "pod-x").stderr)
        self.assertEqual(self.run_perf("--case", "pod-*", "--list").returncode, 0)

    def test_usage(self):
        for words in (["--rounds", "0"], ["--seconds", "-1"], ["--case", "none"], ["--only", "vpp"], ["extra"]):
            with self.subTest(words):
                self.assertEqual(self.run_perf(*words).returncode, 2)

    def test_no_hugepages(self):
        done = self.run_perf("--memory-mb", "99998", "--no-build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("tools/setup --hugepages 50063", done.stderr)


if __name__ == "__main__":
    unittest.main()
