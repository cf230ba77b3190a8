"""The captures that perf/run plays, and how connections are established with them."""

import re
import struct
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest.mock import Mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "lib"), str(ROOT / "perf")]

from bench import captures, document, established, flows, opening, send, stress, workers  # noqa: E402
from bench.captures import Traffic  # noqa: E402
from vsw.antrea import world  # noqa: E402
from vsw.machine import Failure  # noqa: E402


class MacPairs(unittest.TestCase):
    def test_packets(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "x.pcap"
            sources, destinations = captures.write_mac_pairs(path, 1000, 16)
            packets = send.packets_of(path)
        self.assertEqual((len(set(sources)), len(set(destinations)), len(set(sources) & set(destinations))), (16, 16, 0))
        self.assertEqual((len(packets), {len(packet) for packet in packets}), (1000, {60}))
        for packet in packets:
            self.assertEqual(captures.checksum(packet[14:34]), 0, "IPv4 header checksum")
        seen = {(packet[6:12].hex(":"), packet[:6].hex(":")) for packet in packets}
        self.assertEqual(seen, set(zip(sources, destinations)))


class Captures(unittest.TestCase):
    def test_flows(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "flows.pcap"
            flows.write_flows(path, 60_001)
            packets = send.packets_of(path)
        tuples = {packet[26:38] for packet in packets}
        # No two packets are of one flow
        self.assertEqual((len(packets), len(tuples)), (60_001, 60_001))
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

    def test_macs(self):
        """A Pod sends to another Pod directly, else to the gateway; the peer Node's replies are for
        the gateway's virtual address."""
        def macs(kind, phase):
            frame = Traffic(kind).frame(phase, 0)
            return frame[6:12].hex(":"), frame[:6].hex(":")

        client, web, gateway = world.CLIENT.mac, world.WEB.mac, world.GATEWAY_MAC
        self.assertEqual([macs("pod", "data"), macs("pod", "rdata")], [(client, web), (web, client)])
        self.assertEqual([macs("svc", "data"), macs("svc", "rdata")], [(client, gateway), (web, gateway)])
        self.assertEqual([macs("remote", "data"), macs("remote", "rdata")], [(client, gateway), (gateway, world.VIRTUAL_MAC)])

    def test_no_datagram_says_that_it_has_no_checksum(self):
        def datagram(data):
            return captures.ip_frame(*["02:00:00:00:00:01"] * 2, "10.0.0.1", "10.0.0.2", captures.UDP, struct.pack("!HHHH", 1, 2, 10, 0) + data)

        sum_of_zeros = datagram(bytes(2))[40:42]
        self.assertEqual(datagram(sum_of_zeros)[40:42], b"\xff\xff")

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
            first = send.packets_of(path)
            Traffic("remote").write(path, "syn", range(500))
            self.assertEqual(first, send.packets_of(path))
        ports = [struct.unpack("!H", packet[34:36])[0] for packet in first]
        self.assertEqual(sorted(ports), list(range(1024, 1524)))
        self.assertNotEqual(ports, sorted(ports))
        with tempfile.TemporaryDirectory() as directory:
            Traffic("remote").write(Path(directory) / "x.pcap", "rdata", range(500))
            back = [struct.unpack("!H", packet[36:38])[0] for packet in send.packets_of(Path(directory) / "x.pcap")]
        self.assertEqual(sorted(back), sorted(ports))
        self.assertNotEqual(back, ports)  # both ways do not go in step


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
        """Every packet of a handshake is played some times at its port, which is a sink again
        before the next."""
        played = []

        class Dut:
            devices, asked, counter = {}, 0, 0

            def add_port(self, name, number, devargs, queues=1):
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


class Openings(unittest.TestCase):
    def test_no_two_are_alike_and_checksums_are_right(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "x.pcap"
            captures.write_openings(path, 120_500)
            packets = send.packets_of(path)
        self.assertEqual((len(packets), len({packet[26:38] for packet in packets})), (120_500, 120_500))
        for packet in packets[::997] + packets[-1:]:
            self.assertEqual(captures.checksum(packet[14:34]), 0)
            self.assertEqual(captures.checksum(packet[26:34] + struct.pack("!HH", 6, 20) + packet[34:54]), 0)
            self.assertEqual((packet[30:33], packet[36:38], packet[47]), (bytes((10, 10, 1)), b"\0\x50", captures.SYN))
        self.assertEqual({packet[33] for packet in packets}, {2, 3, 4})
        with tempfile.TemporaryDirectory() as directory:
            captures.write_openings(path := Path(directory) / "x.pcap", 660_500, six=True)
            packets = send.packets_of(path)
        self.assertEqual((len(packets), len({packet[38:58] for packet in packets})), (660_500, 660_500))
        for packet in packets[::9973] + packets[-1:]:
            self.assertEqual(captures.checksum(packet[22:54] + struct.pack("!IHBB", 20, 0, 0, 6) + packet[54:74]), 0)
            self.assertEqual((packet[12:14], packet[20], packet[56:58], packet[67]), (b"\x86\xdd", 6, b"\0\x50", captures.SYN))
        self.assertEqual(len({packet[52:54] for packet in packets}), 12)
        with self.assertRaisesRegex(ValueError, "at most"):
            captures.write_openings(path, 252 * 60_000 + 1)

    def test_connections_that_are_misses_fail_the_round(self):
        result = Mock(figures={})

        def total(misses, lost):
            return {"packets": 1_000_000, "levels": {"misses": {"count": misses, "percent": 0.0}}, "lost_misses": lost}

        opening._count_misses(result, total(40, 0))
        self.assertEqual(result.figures, {"misses per connection": 0.00004})
        for misses, lost in ((20_000, 0), (0, 20_000)):
            with self.assertRaisesRegex(Failure, "0.020 misses per connection"):
                opening._count_misses(result, total(misses, lost))

    def test_guards_are_of_each_pod_and_the_client(self):
        guards = document.guards(100)
        self.assertEqual((len(guards), len(set(guards)), sum("in_port=36," in guard for guard in guards)), (200, 200, 2))
        self.assertTrue(all(re.match(r"table=\d+,priority=210,icmp6,in_port=\d+,dl_src=", guard) for guard in guards))

    def test_a_table_that_is_not_full_fails_the_round(self):
        dut = Mock(ports=lambda: {"client": (1_000_000, 0), "tun": (0, 1_000_000)}, connections=lambda: 900_000)
        with self.assertRaisesRegex(Failure, "900000 of 1000000"):
            opening._check(dut, False, Mock(), 0)
        with self.assertRaisesRegex(Failure, "none has expired"):
            opening._check(Mock(ports=dut.ports, connections=lambda: 1_000_000), True, Mock(), 0)


FLOWS = """\
 cookie=0x0, duration=1.0s, table=13, n_packets=7, n_bytes=420, priority=64990,ct_state=-new+est,ip actions=goto_table:16
 cookie=0x0, duration=1.0s, table=13, n_packets=0, n_bytes=0, priority=0 actions=goto_table:14
 table=16, n_packets=9, n_bytes=60, idle_age=1, priority=0 actions=set_field:0x1->reg3,goto_table:17
 table=30, n_packets=9, n_bytes=60, priority=200,reg0=0x200000/0x600000 actions=output:NXM_NX_REG1[]
"""


class Stress(unittest.TestCase):
    def test_flows_that_are_hit_and_lead_on(self):
        self.assertEqual(stress.hit_flows(FLOWS), [
            ("table=13,priority=64990,ct_state=-new+est,ip", "goto_table:16"),
            ("table=16,priority=0", "set_field:0x1->reg3,goto_table:17"),
        ])

    def test_attacks_differ_in_many_bits(self):
        """For each number of leading bits of the address that are as allowed, there are packets;
        none has what is allowed."""
        leading = set()
        for frame in stress.exploding(2000):
            differ = struct.unpack("!I", frame[30:34])[0] ^ 0xCB00714D
            leading.add(32 - differ.bit_length())
            self.assertNotIn(12345, struct.unpack("!H", frame[34:36]))
            self.assertNotIn(8080, struct.unpack("!H", frame[36:38]))
        self.assertEqual(leading, set(range(32)))

    def test_what_is_kept_counts_the_victims_only(self):
        ports = {"client": (5, 0), "web": (6, 0), "db": (100, 0), "tap0": (0, 7), "tap2": (0, 4), "tun": (0, 90)}
        self.assertEqual(stress.legitimate(Mock(ports=lambda: ports)), (11, 11))


    def test_when_a_port_falls_silent(self):
        """The port sends until the third look; nobody knows before the fourth that the third was
        late enough."""
        counts, looks = iter((5, 7, 9, 9, 9)), []
        dut = Mock(ports=lambda: looks.append(time.monotonic()) or {"tap0": (0, next(counts))})
        at = stress.silent_at(dut, "tap0")
        self.assertEqual(len(looks), 4)
        self.assertTrue(looks[2] <= at <= looks[3])
        with self.assertRaisesRegex(Failure, "still sends"):
            stress.silent_at(Mock(ports=lambda: {"tap0": (0, time.monotonic_ns())}), "tap0", limit=0.01)


class Workers(unittest.TestCase):
    def test_places_of_queues(self):
        self.assertEqual(workers.places(True, [1, 0]), {"client": [1], "web": [0]})
        self.assertEqual(workers.places(False, [1, 0]), {"client": [1, 0], "web": [1, 0]})
        self.assertEqual(workers.places(True, [1]), {"client": [1], "web": [1]})
        self.assertEqual(workers.places(False, [1]), {"client": [1, 1], "web": [1, 1]})


if __name__ == "__main__":
    unittest.main()
