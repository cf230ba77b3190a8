"""What perf/run computes and draws, and its arguments."""

import os
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path
from unittest.mock import Mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "lib"), str(ROOT / "perf")]

from bench import captures, cases, document, established, flows, ovs, policies, report, switch, testpmd  # noqa: E402
from bench.captures import Traffic  # noqa: E402
from bench.sample import sample  # noqa: E402
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
    return [{"mpps": m, "cycles_per_packet": 2600 / m, "cycles_from": source, "busy": 1.0, "forwarded": 1.0} for m in mpps]


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
            dut = testpmd.Testpmd(Path(directory).name, 0, 0, 16, ["net_no_such_driver0"], [], ["--no-huge"])
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
        """Rates and cycles of a switch of two workers that handle 1,000 packets in 300,000 cycles, half of their time."""

        class Daemon:
            def __init__(self):
                self.asked_workers = self.asked_ports = 0
                self.process = Mock(pid=os.getpid())

            def workers(self):
                self.asked_workers += 1
                cycles = 150_000 * self.asked_workers
                return [{"busy_cycles": cycles, "idle_cycles": cycles, "packets": 500 * self.asked_workers, "tsc_hz": 10**9}] * 2

            def ports(self):
                self.asked_ports += 1
                count = 1000 * self.asked_ports
                return {"a": {"rx_packets": count, "tx_packets": 0}, "b": {"rx_packets": 0, "tx_packets": count}}

            def vsctl(self, *words):
                assert words == ("worker-clear",), words

            def json(self, *words):
                raise Failure("no such verb")

        dut = object.__new__(switch.Switch)
        dut.daemon, dut.pid = Daemon(), os.getpid()
        result = dut.measure(0.2)
        self.assertEqual((result.busy, result.cycles_per_packet, result.cycles_from), (0.5, 300.0, "busy"))
        self.assertAlmostEqual(result.mpps, 0.005, delta=0.001)  # 1,000 in 0.2 s


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

    def test_pmd_stats_of_two_threads(self):
        two = PMD.split("main thread:")[0] * 2
        self.assertEqual(ovs.pmd_stats(two)[:2], (1037.1, 0.99))
        self.assertEqual(ovs.pmd_stats(two)[2]["packets received"], 2000)


class Capture(unittest.TestCase):
    def test_packets(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "x.pcap"
            sources, destinations = captures.write_mac_pairs(path, 1000, 16)
            data = path.read_bytes()
        self.assertEqual((len(set(sources)), len(set(destinations)), len(set(sources) & set(destinations))), (16, 16, 0))
        self.assertEqual(len(data), 24 + 1000 * (16 + 60))
        seen = set()
        for offset in range(24, len(data), 76):
            _, _, captured, length = struct.unpack_from("<IIII", data, offset)
            packet = data[offset + 16 : offset + 76]
            self.assertEqual((captured, length), (60, 60))
            total = sum(struct.unpack("!10H", packet[14:34]))
            self.assertEqual((total & 0xFFFF) + (total >> 16), 0xFFFF, "IPv4 header checksum")
            seen.add((packet[6:12].hex(":"), packet[:6].hex(":")))
        self.assertEqual(seen, set(zip(sources, destinations)))


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
        lines = report.table(summary).splitlines()
        self.assertEqual([line.split()[1] for line in lines[1:]], ["switch", "ovs", "testpmd"])
        self.assertTrue(lines[2].endswith("1.50") and lines[3].endswith("0.50"), lines)
        self.assertIn("50 % of testpmd, 1.50 x OVS-DPDK", report.chart(summary, MACHINE))

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
        # In the panel of Mpps: the highest round, 22, is as wide as the panel.
        self.assertAlmostEqual(bars[0], 300 * 5 / 22, delta=0.1)
        self.assertAlmostEqual(bars[1], 300 * 20 / 22, delta=0.1)
        whiskers = [p.get("d") for p in root.iter(f"{name}path")]
        self.assertEqual(len(whiskers), 6)
        self.assertTrue(whiskers[0].startswith(f"M{210 + 300 * 4 / 22:.1f} "), whiskers[0])
        width, height = float(root.get("width")), float(root.get("height"))
        for element in root.iter():
            for key, limit in (("x", width), ("y", height)):
                if element.get(key):
                    self.assertTrue(0 <= float(element.get(key)) <= limit, xml.tostring(element))


def packets_of(path):
    """The frames of a capture."""
    data, packets, at = Path(path).read_bytes(), [], 24
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        packets.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return packets


class Captures(unittest.TestCase):
    def test_flows(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "flows.pcap"
            flows.write_flows(path, 60_001)
            packets = packets_of(path)
        tuples = {packet[26:38] for packet in packets}
        self.assertEqual((len(packets), len(tuples)), (60_001, 60_001))  # no two packets are of one flow
        for packet in packets[:100]:
            self.assertEqual(len(packet), 60)
            self.assertEqual(packet[:14].hex(), "020000000202020000000101" + "0800")
            self.assertEqual(struct.unpack("!H", packet[36:38]), (80,))
            self.check_sums(packet)

    def check_sums(self, frame):
        """Checksums of IP and of TCP or UDP."""
        if frame[12:14] == b"\x08\x00":
            self.assertEqual(captures.checksum(frame[14:34]), 0)
            length = struct.unpack("!H", frame[16:18])[0]
            ends, protocol, segment = frame[26:34], frame[23], frame[34 : 14 + length]
        else:
            length = struct.unpack("!H", frame[18:20])[0]
            ends, protocol, segment = frame[22:54], frame[20], frame[54 : 54 + length]
        self.assertEqual(captures.checksum(ends + struct.pack("!IBBBB", len(segment), 0, 0, 0, protocol) + segment), 0)
        return ends, segment

    def test_handshake_and_data(self):
        """Both ends' numbers and ports fit each other in every phase, for every kind and family."""
        for kind in ("pod", "svc", "remote"):
            for six in (False, True):
                traffic, seen = Traffic(kind, six), {}
                for phase in ("syn", "synack", "ack", "data", "rdata"):
                    _, segment = self.check_sums(traffic.frame(phase, 7))
                    seen[phase] = struct.unpack("!HHII", segment[:12]) + (segment[13], len(segment) - 20)
                self.assertEqual(seen["syn"], (1031, 80, 1000, 0, 0x02, 0))
                self.assertEqual(seen["synack"], (80, 1031, 5000, 1001, 0x12, 0))
                self.assertEqual(seen["ack"], (1031, 80, 1001, 5001, 0x10, 0))
                self.assertEqual(seen["data"], (1031, 80, 1001, 5001, 0x18, 6))
                self.assertEqual(seen["rdata"], (80, 1031, 5001, 1001, 0x18, 6))

    def test_addresses_and_ports(self):
        def ends(traffic, phase, number):
            return self.check_sums(traffic.frame(phase, number))[0].hex()

        self.assertEqual(ends(Traffic("pod"), "data", 0), "0a0a001a" + "0a0a0018")
        self.assertEqual(ends(Traffic("svc"), "data", 0), "0a0a001a" + "0a691feb")
        self.assertEqual(ends(Traffic("svc"), "rdata", 0), "0a0a0018" + "0a0a001a")
        self.assertEqual(ends(Traffic("remote"), "rdata", 60_000), "0a0a0103" + "0a0a001a")
        self.assertEqual(ends(Traffic("pod", six=True), "data", 0), "fd000010001000000000000000000026" "fd000010001000000000000000000024")
        self.assertEqual([Traffic(kind).port("rdata") for kind in ("pod", "svc", "remote")], ["web", "web", "tun"])
        with self.assertRaisesRegex(ValueError, "at most 60000"):
            Traffic("pod").frame("data", 60_000)

    def test_sizes_on_the_wire(self):
        for traffic, size in ((Traffic("pod"), 64), (Traffic("pod", six=True), 84), (Traffic("pod", protocol=captures.UDP), 64),
                              (Traffic("pod", True, captures.UDP), 84)):
            self.assertEqual({len(traffic.frame("data", n)) + 4 for n in range(3)}, {size}, traffic)
            self.check_sums(traffic.frame("rdata", 1))
        imix = Traffic("pod", sizes=captures.IMIX)
        self.assertEqual(sorted(len(imix.frame("data", n)) + 4 for n in range(12)), [64] * 7 + [594] * 4 + [1518])
        self.assertEqual({len(imix.frame("syn", n)) for n in range(12)}, {60})

    def test_every_connection_once_in_a_fixed_order(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "x.pcap"
            Traffic("remote").write(path, "syn", range(500))
            first = packets_of(path)
            Traffic("remote").write(path, "syn", range(500))
            self.assertEqual(first, packets_of(path))
        ports = [struct.unpack("!H", packet[34:36])[0] for packet in first]
        self.assertEqual(sorted(ports), list(range(1024, 1524)))
        self.assertNotEqual(ports, sorted(ports))


class Document(unittest.TestCase):
    def test_the_document_and_its_twins(self):
        plain = document.program(Traffic("pod"))
        self.assertEqual((len(plain.flows), len(plain.groups)), (167, 8))
        self.assertFalse([line for line in plain.flows if '"' in line or "udp" in line or "ipv6" in line])
        everything = " ".join(plain.flows + plain.groups)
        for name in ("Classifier", "SNAT", "Output", "EgressMetric"):
            self.assertNotRegex(everything, rf"\b{name}\b")
        self.assertIn("table=0,priority=200,ip actions=goto_table:3", plain.flows)
        self.assertIn("udp,", " ".join(document.program(Traffic("pod", protocol=captures.UDP)).flows))
        six = document.program(Traffic("svc", six=True))
        self.assertEqual(len(six.groups), 16)
        self.assertIn("nw_dst=10.105.31.235", everything)
        self.assertIn("ipv6_dst=fd00:10:96::2:235", " ".join(six.flows))


class Established(unittest.TestCase):
    def test_connections_that_are_not_established_fail_the_round(self):
        lines = "tcp,orig=(...),protoinfo=(state=ESTABLISHED)\n" * 2 + "tcp,orig=(...),protoinfo=(state=SYN_SENT)\n"
        dut = Mock(dump_connections=lambda: lines)
        self.assertEqual(established.check(dut, Traffic("pod"), 2), 2)
        with self.assertRaisesRegex(Failure, "2 of 3 connections are established"):
            established.check(dut, Traffic("pod"), 3)

    def test_what_is_played_where(self):
        """Every packet of a handshake is played some times at its port, which is a sink again before the next."""
        played = []

        class Dut:
            devices, asked, counter = {}, 0, 0

            def add_port(self, name, number, devargs):
                self.devices[name], self.counter = devargs, 0
                played.append((name, devargs))

            def del_port(self, name):
                del self.devices[name]

            def ports(self):
                self.asked, self.counter = self.asked + 1, self.counter + 5
                return dict.fromkeys(self.devices, (self.counter, 0))

            def dump_connections(self):
                return "tcp (state=ESTABLISHED)\n" * 10

        players = established.Players(Dut())
        del played[:]
        self.assertEqual(established.establish(players.dut, players, Traffic("remote"), 10, lambda phase: f"/{phase}"), 10)
        self.assertEqual([(name, args) for name, args in played if "pcap" in args], [
            ("client", "net_pcap_client,rx_pcap=/syn,infinite_rx=1"),
            ("tun", "net_pcap_tun,rx_pcap=/synack,infinite_rx=1"),
            ("client", "net_pcap_client,rx_pcap=/ack,infinite_rx=1"),
        ])
        self.assertEqual(players.dut.asked, 3 * 6)  # 3 times 10 packets, 5 at a time
        self.assertFalse([args for args in players.dut.devices.values() if "pcap" in args])


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
