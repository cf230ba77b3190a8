"""What tools/demo loads, and how its agent answers."""

import re
import socket
import struct
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.antrea import agent, dns, ledger, packets, pipeline, sctp, services, world  # noqa: E402


class Pipeline(unittest.TestCase):
    def setUp(self):
        self.program = pipeline.Program()

    def test_the_whole_document_is_there_and_only_corrections_change_it(self):
        document = [line.split(",", 1)[1] for line in self.program.flows if line.startswith(f"cookie={pipeline.DOCUMENT:#x},")]
        self.assertEqual((len(self.program.document), len(document)), (167, 167))
        changed = [old for old, new in zip(self.program.document, document) if old != new]
        # Four of conjunction 14 (one of them for its port, too), one of conjunction 4, one return
        # port.
        self.assertEqual(len(changed), 6, changed)

    def test_a_line_that_the_document_does_not_have_cannot_be_corrected(self):
        with self.assertRaisesRegex(machine.Failure, "0 times: table=Nowhere"):
            self.program._correct("why", "table=Nowhere", "table=Elsewhere")

    def test_twins_speak_of_ipv6_only(self):
        for line in self.program.twins:
            self.assertNotRegex(line, r"nw_(src|dst)=|zone=6552|\d+\.\d+\.\d+\.\d+|,ip,|,tcp,|,udp,", line)
        self.assertIn(
            "table=L3Forwarding, priority=200,ipv6,reg0=0x200/0x200,ipv6_dst=fd00:10:10::24 "
            "actions=set_field:ba:5e:d1:55:aa:c0->eth_src,set_field:fa:b7:53:74:21:a6->eth_dst,goto_table:L3DecTTL",
            self.program.twins,
        )
        self.assertIsNone(pipeline.twin("table=Output, priority=0 actions=drop"))

    def test_every_group_that_is_used_is_there_and_every_flow_once(self):
        used = {int(group) for line in self.program.flows for group in re.findall(r"group:(\d+)", line)}
        self.assertEqual(used, {int(line.split(",")[0].removeprefix("group_id=")) for line in self.program.groups})
        heads = [line.split(" actions=")[0].split(",", 1)[1] for line in self.program.flows]
        self.assertEqual(len(heads), len(set(heads)))

    def test_the_policy_is_all_flows_of_conjunctions_4_to_7(self):
        flows = [line for _, line in self.program.policy()]
        self.assertTrue(all("AntreaPolicy" in line for line in flows), flows)
        self.assertEqual(sum("conj_id" in line for line in flows), 4 + 2, "6 and 7 have twins, 4 and 5 are for both")


class Names(unittest.TestCase):
    def test_the_server_tells_addresses_of_the_family_that_was_asked_for(self):
        zone = {"a.b": (5, ("192.0.2.1", "2001:db8::1")), "c.b": (5, "a.b")}
        for name, kind, told in (("a.b", dns.A, ["192.0.2.1"]), ("A.b", dns.AAAA, ["2001:db8::1"]), ("c.b", dns.A, ["192.0.2.1"]), ("d.b", dns.A, [])):
            self.assertEqual(dns.addresses(dns.answer(zone, dns.question(name, kind, 7))), told, name)


class Rules(unittest.TestCase):
    def test_a_word_matches_whole_values_only(self):
        flow = {"table_name": "Output", "priority": 200, "match": "ip,reg0=0x200/0x200,nw_dst=10.10.0.24", "actions": "drop"}
        for text, applies in (("Output nw_dst=10.10.0.24", True), ("Output nw_dst=10.10.0.2", False), ("Output reg0=0x200", False),
                              ("Output priority=200 reg0=0x200/0x200", True), ("SNAT", False), ("Output priority=20", False)):
            self.assertEqual(ledger.Rule(text).applies(flow, 4), applies, text)
        twin = flow | {"match": "ipv6,ipv6_dst=fd00:10:10::24"}
        self.assertTrue(ledger.Rule("Output nw_dst=10.10.0.24").applies(twin, 6))


class Refusals(unittest.TestCase):
    ETHERNET = b"\2" + b"\0" * 4 + b"\2" + b"\2" + b"\0" * 4 + b"\1"

    def frame(self, family, protocol, payload):
        if family == 4:
            ends = socket.inet_aton("10.0.0.1") + socket.inet_aton("10.0.0.2")
            return self.ETHERNET + b"\x08\0" + struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0) + ends + payload
        ends = socket.inet_pton(socket.AF_INET6, "fd00::1") + socket.inet_pton(socket.AF_INET6, "fd00::2")
        return self.ETHERNET + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + ends + payload

    def body(self, family, protocol, answer):
        """What follows the IP header of an answer; its sums are right, its ends have changed
        places."""
        self.assertEqual(answer[:12], self.ETHERNET[6:] + self.ETHERNET[:6])
        packet = answer[14:]
        if family == 4:
            self.assertEqual((packet[9], packet[12:20]), (protocol, bytes([10, 0, 0, 2, 10, 0, 0, 1])))
            self.assertEqual((agent.checksum(packet[:20]), struct.unpack("!H", packet[2:4])[0]), (0, len(packet)))
            body, pseudo = packet[20:], packet[12:20] + struct.pack("!HH", protocol, len(packet) - 20)
            self.assertEqual(agent.checksum(body if protocol == agent.ICMP else pseudo + body), 0)
        else:
            self.assertEqual((packet[6], packet[8:40]), (protocol, self.frame(6, 0, b"")[38:54] + self.frame(6, 0, b"")[22:38]))
            body = packet[40:]
            self.assertEqual(agent.checksum(packet[8:40] + struct.pack("!II", len(body), protocol) + body), 0)
        return body

    def test_a_syn_is_reset(self):
        syn = struct.pack("!HHIIBBHHH", 1000, 80, 5, 0, 0x50, 2, 1, 0, 0)
        for family in (4, 6):
            padded = self.frame(family, 6, syn) + b"\0" * 6
            reset = self.body(family, 6, agent.refusal(padded))
            self.assertEqual(struct.unpack("!HHIIBB", reset[:14]), (80, 1000, 0, 6, 0x50, 0x14), f"IPv{family}")

    def test_a_datagram_is_answered_with_an_error_that_quotes_it(self):
        datagram = struct.pack("!HHHH", 1000, 80, 12, 0) + b"abcd"
        for family, protocol, kind in ((4, agent.ICMP, (3, 3)), (6, agent.ICMP6, (1, 4))):
            frame = self.frame(family, 17, datagram)
            error = self.body(family, protocol, agent.refusal(frame))
            self.assertEqual((tuple(error[:2]), error[8:]), (kind, frame[14:]), f"IPv{family}")

    def test_what_is_not_ip_is_not_answered(self):
        self.assertIsNone(agent.refusal(self.ETHERNET + b"\x08\x06" + b"\0" * 28))


class Packets(unittest.TestCase):
    """Those that scenes make byte by byte."""

    MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
    ENDS = (("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2"))

    def test_a_frame_is_parsed_as_it_was_made(self):
        for ends in self.ENDS:
            segment = packets.segment(ends, (1000, 80), 5)
            frame = packets.frame(self.MACS, ends, agent.TCP, segment)
            self.assertEqual(packets.parsed(frame + b"\0" * 6), (*ends, agent.TCP, segment))
            self.assertEqual((frame[:6].hex(":"), frame[6:12].hex(":")), self.MACS[::-1])
        self.assertEqual(packets.parsed(packets.frame(self.MACS, self.ENDS[0], agent.TCP, b"x")[14:], of_ethernet=False), (*self.ENDS[0], agent.TCP, b"x"))
        self.assertIsNone(packets.parsed(b"\2" * 12 + b"\x08\x06" + b"\0" * 28))

    def test_its_sums_are_right(self):
        for ends in self.ENDS:
            segment = packets.segment(ends, (1000, 80), 5, packets.SYN_ACK)
            source, target = map(packets.address_bytes, ends)
            tail = struct.pack("!HH", agent.TCP, len(segment)) if len(source) == 4 else struct.pack("!II", len(segment), agent.TCP)
            self.assertEqual(agent.checksum(source + target + tail + segment), 0, ends)
        self.assertEqual(agent.checksum(packets.frame(self.MACS, self.ENDS[0], agent.TCP, b"")[14:34]), 0)

    def test_sctp_has_its_crc(self):
        self.assertEqual(sctp.crc32c(b"123456789"), 0xE3069283, "as RFC 3720, B.4")
        packet = sctp.packet((1, 2), 3, sctp.COOKIE_ACK)
        self.assertEqual((packet[:8].hex(), packet[12:].hex()), ("0001000200000003", "0b000004"))
        self.assertEqual(struct.unpack("<I", packet[8:12])[0], sctp.crc32c(packet[:8] + bytes(4) + packet[12:]))


class Services(unittest.TestCase):
    def test_endpoints_are_as_slices_say(self):
        documents = list(services.service("10.105.31.235", services.web2(), services.peer(**services.ENDS), ports=[services.port("SCTP", 1, 2)]))
        ends = services.READY | services.ENDS["conditions"]
        self.assertEqual(services.endpoints(documents), {
            ("default/kind-235", "sctp", address): conditions
            for address, conditions in ((world.WEB2.v4, services.READY), (world.WEB2.v6, services.READY), (world.REMOTE, ends), (world.six(world.REMOTE), ends))
        })


class World(unittest.TestCase):
    def test_port_names_fit(self):
        self.assertEqual([name for name in world.PORTS if len(name) > 15], [])


if __name__ == "__main__":
    unittest.main()
