"""What the cases of the gateway bridge play, and how they judge what came."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest.mock import Mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "lib"), str(ROOT / "perf")]

from bench import captures, cases, document, gateway, send  # noqa: E402
from vsw.machine import Failure  # noqa: E402
from vsw.ovn import addresses  # noqa: E402


def every():
    """All ways: (device, mode, name, Way)."""
    for device, side in gateway.SIDES.items():
        for mode, ways in gateway.ways(side).items():
            for name, way in ways.items():
                yield device, mode, name, way


class Ways(unittest.TestCase):
    def test_all_cases(self):
        names = {f"gateway-{mode}-{name}" for _, mode, name, _ in every()}
        self.assertEqual(names, {name for name in cases.CASES if name.startswith("gateway-")})
        self.assertEqual(len(names), 8)
        self.assertEqual({cases.devices(name) for name in names}, {("switch", "ovs")})
        self.assertTrue(all(map(cases.needs_agent, names)))
        self.assertFalse(cases.needs_agent("pod-1000"))

    def test_what_goes_there_comes_back(self):
        for device, mode, name, way in every():
            with self.subTest(device=device, mode=mode, name=name):
                there = sorted((leg.enters, leg.leaves) for leg in way.there)
                self.assertEqual(there, sorted((leg.leaves, leg.enters) for leg in way.back))
                enters = [leg.enters for leg in (*way.there, *way.back)]
                self.assertEqual(len(set(enters)), len(enters), "a port plays one capture")

    def test_only_the_host_is_left_out(self):
        """In mode Local packets of Pods and the wire pass the host's kernel: they leave the switch
        by one of the host's ports, and come back by the other one."""
        for device, mode, name, way in every():
            legs = 2 if mode == "local" and name in ("node-port", "pod") else 1
            self.assertEqual((len(way.there), len(way.back)), (legs, legs), (device, mode, name))
            if legs == 2:
                self.assertEqual({way.there[0].leaves, way.there[1].enters}, {"host", "gateway"})

    def test_frames(self):
        for device, mode, name, way in every():
            for phase in ("syn", "synack", "ack", "data", "rdata"):
                for leg in way.legs(phase):
                    one, other = leg.frame(phase, 0), leg.frame(phase, 7)
                    self.assertEqual((len(one), one[:12].hex(":")), (60, "".join(f"{mac}:" for mac in leg.macs)[:-1]), (device, mode, name))
                    self.assertEqual(captures.checksum(one[14:34]), 0)
                    ends = [".".join(map(str, one[at:at + 4])) for at in (26, 30)]
                    self.assertEqual(ends, [leg.from_[0], leg.to[0]])
                    ports = [[int.from_bytes(frame[at:at + 2], "big") for at in (34, 36)] for frame in (one, other)]
                    # The client's port differs, the server's does not.
                    self.assertEqual(sorted(b - a for a, b in zip(*ports)), [0, 7])

    def test_the_wires_first_packet(self):
        frame = gateway.arp()
        self.assertEqual((len(frame), frame[:6], frame[6:12].hex(":"), frame[12:14]), (60, b"\xff" * 6, addresses.CLIENT_MAC, b"\x08\x06"))
        self.assertEqual((frame[20:22], frame[28:32], frame[38:42]), (b"\0\1", bytes([172, 18, 0, 1]), bytes([172, 18, 0, 3])))


class Judging(unittest.TestCase):
    LEG = gateway.Leg("wire", "pod", ("", ""), ("", 0), ("", 0))

    def came(self, received, sent, elsewhere=0):
        before = {"wire": (100, 5), "pod": (5, 100), "host": (0, 0)}
        after = {"wire": (100 + received, 5), "pod": (5, 100 + sent), "host": (0, elsewhere)}
        gateway.came(before, after, [self.LEG])

    def test_packets_that_come_by_another_port_fail_the_round(self):
        self.came(1000, 995)
        for received, sent, elsewhere in ((1000, 0, 1000), (1000, 900, 0), (1000, 1100, 0), (0, 0, 0)):
            with self.assertRaisesRegex(Failure, f"{received} packets came in by wire, {sent} left by pod"):
                self.came(received, sent, elsewhere)

    def test_connections_are_counted_by_zone(self):
        def dut(*zones):
            line = "tcp,orig=(src=1.1.1.1),{}protoinfo=(state={})"
            return Mock(dump_connections=lambda: "\n".join(line.format(f"zone={zone}," if zone else "", state) for zone, state in zones))

        here, there, plain, other = (64000, "ESTABLISHED"), (65520, "ESTABLISHED"), (0, "ESTABLISHED"), (64001, "SYN_SENT")
        self.assertEqual(gateway.check(dut(here, here, there, there, plain, plain, other), 2), 2)
        for wrong in ([], [here], [here, here, there], [here] * 3, [other, other]):
            with self.assertRaisesRegex(Failure, "2 connections are to be established"):
                gateway.check(dut(*wrong), 2)


class Programs(unittest.TestCase):
    def test_the_recorded_host_has_a_number(self):
        for mode in ("shared", "local"):
            programs = gateway.recorded(mode)
            flows = "\n".join(programs[gateway.UNDERLAY].flows)
            self.assertNotIn("LOCAL", flows)
            self.assertIn(f"in_port={gateway.HOST},", flows)
            self.assertGreater(len(programs["br0"].flows), 900)
            self.assertTrue(programs["br0"].groups)
        self.assertIn("priority=175,", flows)

    def test_manifests_have_the_recorded_addresses(self):
        text = gateway.MANIFESTS.read_text()
        for word in (addresses.NODE_MAC, addresses.CLIENT_MAC, addresses.POD1_MAC, addresses.SWITCH_MAC, addresses.V4.client, addresses.V4.pod1,
                     addresses.V4.router, addresses.V4.services, addresses.V4.service(addresses.POD), str(addresses.LOCAL_POD), gateway.UNDERLAY,
                     f"{addresses.V4.node}/{addresses.V4.node_length}"):
            self.assertIn(word, text)

    def test_a_program_is_compiled_once(self):
        program = document.Program(["table=0 actions=drop"], ["group_id=1,type=all"], ["meter=1"])
        with tempfile.TemporaryDirectory() as directory:
            bench, asked = Mock(directory=Path(directory)), []
            gateway._compile, kept = lambda _, mode, __: asked.append(mode) or {"br0": program, gateway.UNDERLAY: document.Program([])}, gateway._compile
            try:
                read = [gateway.compiled(bench, mode) for mode in ("shared", "local", "shared")]
            finally:
                gateway._compile = kept
        self.assertEqual((asked, read[0], read[0]), (["shared", "local"], read[2], {"br0": program, gateway.UNDERLAY: document.Program([])}))

    def test_dumped(self):
        said = {
            ("dump-meters", "br0"): "meter=256 pktps burst stats bands=\ntype=drop rate=100 burst_size=200\n",
            ("dump-groups", "br0"): "NXST reply:\n group_id=7,type=select,bucket=actions=output:1\n",
            ("dump-flows", "--no-names", "--no-stats", "br0"): " cookie=0x1, priority=1 actions=drop\n",
        }
        program = document.dumped(Mock(vsctl=lambda *words: said[words]), "br0")
        self.assertEqual(program, document.Program(["cookie=0x1, priority=1 actions=drop"], ["group_id=7,type=select,bucket=actions=output:1"],
                                                   ["meter=256,pktps,burst,bands=type=drop,rate=100,burst_size=200"]))

    def test_a_frame_of_a_capture(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "x.pcap"
            way = gateway.ways(gateway.SIDES["switch"])["shared"]["node-port"]
            captures.write(path, (way.there[0].frame("data", number) for number in range(3)))
            self.assertEqual(len(set(send.packets_of(path))), 3)


if __name__ == "__main__":
    unittest.main()
