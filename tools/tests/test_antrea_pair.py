"""What tools/demo --nodes 2 loads on either Node, and how it judges frames: right ones pass, each
kind of wrong one does not."""

import json
import re
import struct
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.antrea import agent, device_pair, pipeline, refusals_pair, side, single_pair, uplink_pair, wire, wire_errors, world  # noqa: E402
from vsw.antrea.capture import Frames  # noqa: E402
from vsw.antrea.scenes import _ip, _mac  # noqa: E402
from vsw.antrea.side import Side  # noqa: E402

ONE, TWO = Side(1), Side(2)


class Sides(unittest.TestCase):
    def test_words_are_exchanged_whole_and_back(self):
        for text, exchanged in (
            ("nw_dst=10.10.0.24", "nw_dst=10.10.1.6"),
            ("nat(dst=10.10.1.6:80)", "nat(dst=10.10.0.24:80)"),
            ("nw_dst=10.10.0.0/24 actions=set_field:192.168.77.103->tun_dst", "nw_dst=10.10.1.0/24 actions=set_field:192.168.77.102->tun_dst"),
            ("reg3=0xa0a0018,", "reg3=0xa0a0106,"),
            ("set_field:ba:5e:d1:55:aa:c0->eth_src", "set_field:ba:5e:d1:55:aa:c1->eth_src"),
            ("10.10.0.2 10.10.0.240 110.10.0.24 192.168.77.1 0xa0a00180", "10.10.0.2 10.10.0.240 110.10.0.24 192.168.77.1 0xa0a00180"),
        ):
            self.assertEqual((TWO.of(text), TWO.of(exchanged), ONE.of(text)), (exchanged, text, text))

    def test_nothing_of_one_is_anothers(self):
        words = [word for pair in side.PAIRS for word in pair]
        self.assertEqual(len(words), len(set(words)))
        self.assertEqual([pod.port for pod in TWO.pods if len(pod.port) > 15], [])


class Programs(unittest.TestCase):
    def setUp(self):
        self.one, self.two = pipeline.Program(ONE), pipeline.Program(TWO)

    def test_services_are_the_same_on_both(self):
        for table in ("ServiceLB", "EndpointDNAT"):
            flows = [{line.split(",", 1)[1] for line in program.flows if f",table={table}," in line} for program in (self.one, self.two)]
            self.assertEqual(flows[0], flows[1], table)
        self.assertEqual([self._endpoints(line) for line in self.one.groups if "id=18," not in line and "id=118," not in line],
                         [self._endpoints(line) for line in self.two.groups if "id=18," not in line and "id=118," not in line])

    @staticmethod
    def _endpoints(group):
        return group.split(",")[0], set(re.findall(r"set_field:(\w+)->x*reg3", group))

    def test_an_endpoint_is_remote_on_the_other_node_only(self):
        for one, two in zip(self.one.groups, self.two.groups):
            marked = [set(re.findall(r"set_field:0x4000000/0x4000000->reg4,set_field:(\w+)->x*reg3", group)) for group in (one, two)]
            whole = self._endpoints(one)[1] | self._endpoints(two)[1]
            local = {"group_id=18", "group_id=118"}  # traffic policy Local: each Node has its own
            expected = set() if one.split(",")[0] in local else whole
            self.assertEqual((marked[0] | marked[1], marked[0] & marked[1]), (expected, set()), one)

    def test_policies_know_the_other_nodes_pods(self):
        for line in ("table=AntreaPolicyIngressRule, priority=14600,ip,nw_src=10.10.{}.26 actions=conjunction(6,1/3)",
                     "table=AntreaPolicyEgressRule, priority=14500,ipv6,ipv6_dst=fd00:10:10:{}:25 actions=conjunction(7,2/3)"):
            for node in (("0", "1"), ("", "1:"))["ipv6" in line]:
                for program in (self.one, self.two):
                    self.assertEqual(sum(flow.endswith(line.format(node)) for flow in program.flows), 1, line.format(node))

    def test_every_flow_is_there_once(self):
        for program in (self.one, self.two):
            heads = [line.split(" actions=")[0].split(",", 1)[1] for line in program.flows]
            self.assertEqual(len(heads), len(set(heads)))


class Refusals(unittest.TestCase):
    def test_the_cluster_has_both_nodes_and_nothing_twice(self):
        documents = [json.loads(text) for text in refusals_pair.manifests().split("---\n")]
        names = [(document["kind"], document["metadata"]["name"]) for document in documents]
        self.assertEqual(len(names), len(set(names)))
        kinds = [kind for kind, _ in names]
        self.assertEqual([kinds.count(kind) for kind in ("Node", "NodeConfig", "Pod", "Service", "ClusterNetworkPolicy")], [2, 2, 8, 4, 2])
        addresses = [ip["ip"] for document in documents if document["kind"] == "Pod" for ip in document["status"]["podIPs"]]
        addresses += [ip for document in documents if document["kind"] == "Service" for ip in document["spec"]["clusterIPs"]]
        self.assertEqual(len(set(addresses)), 2 * (8 + 4))


class Clusters(unittest.TestCase):
    def test_nothing_is_there_twice(self):
        for text in (uplink_pair.manifests(), device_pair.manifests(), single_pair.manifests(4), single_pair.manifests(6)):
            documents = [json.loads(part) for part in text.split("---\n")]
            names = [(one["kind"], one["metadata"]["name"]) for one in documents]
            self.assertEqual(len(names), len(set(names)))
            services = [one["spec"] for one in documents if one["kind"] == "Service"]
            places = [place for spec in services for place in (*spec["clusterIPs"], *spec.get("externalIPs", ()), spec["ports"][0].get("nodePort")) if place]
            self.assertEqual(len(places), len(set(places)))

    def test_one_node_has_one_family(self):
        for family, name in ((4, refusals_pair.NAMES[1]), (6, refusals_pair.NAMES[2])):
            documents = [json.loads(part) for part in single_pair.manifests(family).split("---\n")]
            found = {one["metadata"]["name"]: one["spec"]["families"] for one in documents if one["kind"] == "NodeConfig"}
            self.assertEqual(found.pop(name), f"IPv{family}")
            self.assertEqual(list(found.values()), ["Dual"])
            addresses = [ip["ip"] for one in documents if one["kind"] == "Pod" and one["spec"]["nodeName"] == name for ip in one["status"]["podIPs"]]
            self.assertEqual({":" in address for address in addresses}, {family == 6})


class Errors(unittest.TestCase):
    def test_what_a_router_says_is_about_the_packet(self):
        for ends in ((world.NODE, world.OUTSIDE), (world.six(world.NODE), world.six(world.OUTSIDE))):
            about = wire_errors.packet((ends[0], 80), (ends[1], 1000))
            frame = ethernet(wire_errors.too_big(ends[1], about, 1300))
            self.assertEqual(wire_errors.quoted(frame), (_ip(ends[0]), b"\0\x50", _ip(ends[1]), b"\x03\xe8"))
            self.assertIsNone(wire_errors.quoted(ethernet(about)))


def in_geneve(ends, inside, vni=0):
    """A frame: an IP packet in Ethernet in Geneve between Nodes."""
    bare = _mac(world.VIRTUAL_MAC) + _mac(world.GATEWAY_MAC) + (b"\x08\0" if inside[0] >> 4 == 4 else b"\x86\xdd") + inside
    payload = struct.pack("!BBHI", 0, 0, 0x6558, vni << 8) + bare
    datagram = struct.pack("!HHHH", 50000, 6081, 8 + len(payload), 0) + payload
    return ethernet(agent._wrap(_ip(ends[0]), _ip(ends[1]), agent.UDP, datagram, 6))


def ethernet(packet):
    return b"\2" + b"\0" * 4 + b"\2" + b"\2" + b"\0" * 4 + b"\1" + (b"\x08\0" if packet[0] >> 4 == 4 else b"\x86\xdd") + packet


def segment(ends):
    """An IP packet with TCP and ten bytes in it."""
    return agent._wrap(_ip(ends[0]), _ip(ends[1]), agent.TCP, struct.pack("!HHIIBBHHH", 1000, 80, 5, 0, 0x50, 0x10, 1, 0, 0) + b"ten bytes.", 16)


NODES = (world.NODE, world.PEER_NODE)
PODS = (world.CLIENT.v4, world.REMOTE)


def both_ways(four=in_geneve):
    """Frames as they should be: each version of IP, there and back. `four` makes the first of
    them."""
    frames = [four(NODES, segment(PODS))]
    for ends, pods in ((NODES[::-1], PODS[::-1]), *((tuple(map(world.six, n)), tuple(map(world.six, p))) for n, p in
                                                   ((NODES, PODS), (NODES[::-1], PODS[::-1])))):
        frames.append(in_geneve(ends, segment(pods)))
    return frames


class Wire(unittest.TestCase):
    def found(self, frames):
        """What is said of frames: [None, or the Failure's text], in the order of `wire.judged`."""
        file = Path(self.enterContext(tempfile.TemporaryDirectory())) / "some.pcap"
        text = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
        file.write_bytes(text + b"".join(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames))
        return [str(found) if isinstance(found, machine.Failure) else None for _, found in wire.judged(Frames(file))]

    def test_right_frames_pass(self):
        arp = b"\xff" * 6 + b"\2" * 6 + struct.pack("!HHHBBH", 0x806, 1, 0x800, 6, 4, 1) + b"\2" * 6 + _ip(NODES[0]) + bytes(6) + _ip(NODES[1])
        self.assertEqual(self.found([*both_ways(), arp]), [None, None, None])

    def test_a_wrong_checksum_inside_or_outside_is_found(self):
        for offset, what in ((-1, "in the segment"), (14 + 10, "of the outer IPv4 header"), (14 + 20 + 6, "of the outer UDP header")):
            frames = both_ways()
            frames[0] = bytearray(frames[0])
            frames[0][offset] ^= 0x55
            said = self.found(frames)
            self.assertRegex(said[0] or "", "^1 frames, the first: 1 ", what)
            self.assertEqual(said[1:], [None, None], what)

    def test_all_ones_may_be_written_for_a_checksum_of_nothing(self):
        """Linux writes so for TCP, too (RFC 1624)."""
        whole = bytearray(segment(PODS))
        # What the rest lacks comes to its sequence number's lower half, which leaves 0.
        lacking = int.from_bytes(whole[36:38], "big") + int.from_bytes(whole[26:28], "big")
        whole[26:28] = ((lacking & 0xFFFF) + (lacking >> 16)).to_bytes(2, "big")
        for written, said in ((b"\xff\xff", "^$"), (b"\0\1", "^1 frames, the first: 1 ")):
            whole[36:38] = written
            self.assertRegex(self.found([in_geneve(NODES, bytes(whole)), *both_ways()[1:]])[0] or "", said)

    def test_a_malformed_packet_is_found(self):
        self.assertRegex(self.found(both_ways(lambda ends, inside: in_geneve(ends, inside[:30])))[0] or "", "Malformed|length")

    def test_a_pods_packet_outside_of_tunnels_is_found(self):
        self.assertIn("frame 5", self.found([*both_ways(), ethernet(segment(PODS))])[1])

    def test_another_vni_is_found(self):
        self.assertIn("VNI 7", self.found(both_ways(lambda ends, inside: in_geneve(ends, inside, 7)))[1])

    def test_a_missing_direction_is_found(self):
        self.assertIn(f"between {NODES[0]} and {NODES[1]}: 0 frames, 1 back", self.found(both_ways()[1:])[1])

    def test_a_frame_that_no_wire_takes_is_found(self):
        long = agent._wrap(_ip(PODS[0]), _ip(PODS[1]), agent.UDP, struct.pack("!HHHH", 1, 2, 1508, 0) + bytes(1500), 6)
        self.assertIn("1 frames, the largest of 1,592 bytes", self.found([*both_ways(), in_geneve(NODES, long)])[2])


if __name__ == "__main__":
    unittest.main()
