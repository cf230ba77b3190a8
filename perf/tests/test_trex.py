"""The TRex profiles of perf/trex: what they would send. TRex is not needed: a double stands for its
interface. With TREX_API set to the directory interactive/ of TRex's own (v3.04:
automation/trex_control_plane/interactive), the same is asked of that."""

import base64
import importlib.util
import ipaddress
import os
import struct
import sys
import unittest
from collections import Counter
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREX = ROOT / "perf" / "trex"
sys.path[:0] = [str(ROOT / "tools" / "lib"), str(Path(__file__).parent)]

import fake_trex  # noqa: E402
from vsw.antrea import world  # noqa: E402

if os.environ.get("TREX_API"):
    sys.path.insert(0, os.environ["TREX_API"])
else:
    sys.modules.update(fake_trex.modules())

CLIENT, SERVER = 0, 1  # directions
REMOTE_FIRST = {4: "10.10.1.2", 6: "fd00:10:10:1::2"}


def load(name):
    """A profile's module, loaded as TRex does: with its own directory first in the search path."""
    sys.path.insert(0, str(TREX))
    try:
        spec = importlib.util.spec_from_file_location(name, TREX / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(TREX))


def streams(name, direction, *tunables):
    """What TRex asks a stateless profile for."""
    return load(name).register().get_streams(direction=direction, port_id=direction, tunables=list(map(str, tunables)))


def profile(name, *tunables):
    """What a stateful profile comes to, as TRex's client sends it."""
    return load(name).register().get_profile(tunables=list(map(str, tunables))).to_json()


class Packet:
    """A frame, taken apart; its checksums are checked (a UDP one of 0 on IPv4 is none)."""

    def __init__(self, test, frame):
        self.size = len(frame) + 4
        self.dst_mac, self.src_mac = (frame[at:at + 6].hex(":") for at in (0, 6))
        self.ip = {b"\x08\x00": 4, b"\x86\xdd": 6}[frame[12:14]]
        l4 = 34 if self.ip == 4 else 54
        test.assertEqual(frame[14] >> 4, self.ip)
        if self.ip == 4:
            test.assertEqual(frame[14], 0x45)
            test.assertEqual(fake_trex.checksum(frame[14:34]), 0, "IPv4 header's checksum")
            length, self.protocol, addresses = struct.unpack("!H", frame[16:18])[0], frame[23], frame[26:34]
        else:
            length, self.protocol, addresses = 40 + struct.unpack("!H", frame[18:20])[0], frame[20], frame[22:54]
        test.assertEqual(len(frame), max(60, 14 + length), "length")
        half = len(addresses) // 2
        self.src, self.dst = (str(ipaddress.ip_address(part)) for part in (addresses[:half], addresses[half:]))
        self.sport, self.dport = struct.unpack("!HH", frame[l4:l4 + 4])
        self.checksum = frame[l4 + 16:l4 + 18] if self.protocol == 6 else frame[l4 + 6:l4 + 8]
        if self.protocol == 6:
            self.seq, self.ack, offset, self.flags = struct.unpack("!IIBB", frame[l4 + 4:l4 + 14])
            test.assertEqual(offset, 0x50)
            self.data = length - (l4 - 14) - 20
        else:
            self.data = length - (l4 - 14) - 8
            test.assertEqual(struct.unpack("!H", frame[l4 + 4:l4 + 6])[0], self.data + 8, "UDP's length")
        if self.protocol == 6 or self.checksum != b"\0\0":
            test.assertEqual(fake_trex.checksum(fake_trex.pseudo(frame, 14, l4)), 0, "checksum")
        else:
            test.assertEqual(self.ip, 4, "IPv6 wants a checksum")
        self.ends = (self.src_mac, self.dst_mac, self.src, self.dst)


class Case(unittest.TestCase):
    def packets(self, stream, count):
        # The addresses are in the frame, not in TRex's configuration; without a seed runs would
        # differ.
        self.assertEqual(stream.to_json()["flags"], 3)
        self.assertNotIn(stream.to_json().get("random_seed", 0), (0, None))
        Packet(self, stream.pkt)  # right before the field engine touches it, too
        return [Packet(self, frame) for frame in fake_trex.packets(stream, count)]


def expected(kind, ip, direction, server=0):
    """(source MAC, destination MAC, source, destination) as the pipeline wants them."""
    v = (lambda address: address) if ip == 4 else world.six
    client, web, gateway = world.CLIENT, world.WEB, world.GATEWAY_MAC
    me, pod, service = (str(ipaddress.ip_address(v(address))) for address in (client.v4, web.v4, world.CLUSTER_IP))
    remote = str(ipaddress.ip_address(REMOTE_FIRST[ip]) + server)
    return {
        ("pod", CLIENT): (client.mac, web.mac, me, pod),
        ("pod", SERVER): (web.mac, client.mac, pod, me),
        ("svc", CLIENT): (client.mac, gateway, me, service),
        ("svc", SERVER): (web.mac, gateway, pod, me),
        ("remote", CLIENT): (client.mac, gateway, me, remote),
        ("remote", SERVER): (gateway, world.VIRTUAL_MAC, remote, me),
    }[kind, direction]


KINDS = list(product(("pod", "svc", "remote"), (4, 6)))


class Established(Case):
    PHASES = {"syn": (CLIENT, 0x02, 1000, 0), "synack": (SERVER, 0x12, 5000, 1001), "ack": (CLIENT, 0x10, 1001, 5001)}

    def test_the_handshake_meets_every_connection_once(self):
        for (kind, ip), (phase, (direction, flags, seq, ack)) in product(KINDS, self.PHASES.items()):
            with self.subTest(kind=kind, ip=ip, phase=phase):
                stream, = streams("stl_established", direction, "--kind", kind, "--ip", ip, "--flows", 50, "--phase", phase)
                said = stream.to_json()
                self.assertEqual((said["mode"]["type"], said["mode"]["total_pkts"], said["core_id"]), ("single_burst", 50, 0))
                seen = Counter()
                for packet in self.packets(stream, 50):
                    self.assertEqual(packet.ends, expected(kind, ip, direction))
                    self.assertEqual((packet.protocol, packet.flags, packet.seq, packet.ack, packet.data), (6, flags, seq, ack, 0))
                    self.assertEqual(packet.dport if direction == CLIENT else packet.sport, 80)
                    seen[packet.sport if direction == CLIENT else packet.dport] += 1
                self.assertEqual(seen, Counter(range(1024, 1074)))

    def test_data_is_of_the_same_connections_within_the_window(self):
        for (kind, ip), direction in product(KINDS, (CLIENT, SERVER)):
            with self.subTest(kind=kind, ip=ip, direction=direction):
                stream, = streams("stl_established", direction, "--kind", kind, "--ip", ip, "--flows", 8)
                self.assertEqual((stream.to_json()["mode"]["type"], stream.to_json()["core_id"]), ("continuous", -1))
                packets = self.packets(stream, 100)
                self.assertEqual({packet.ends for packet in packets}, {expected(kind, ip, direction)})
                self.assertEqual({packet.sport if direction == CLIENT else packet.dport for packet in packets}, set(range(1024, 1032)))
                numbers = (1001, 5001) if direction == CLIENT else (5001, 1001)
                self.assertEqual({(packet.seq, packet.ack, packet.flags) for packet in packets}, {(*numbers, 0x18)})
                self.assertEqual({packet.size for packet in packets}, {64 if ip == 4 else 78})

    def test_many_connections_are_of_several_servers(self):
        """90,000: two servers, 45,000 ports each; the handshake and both orders of the data name
        the same."""
        for ip, direction in product((4, 6), (CLIENT, SERVER)):
            tunables = ("--kind", "remote", "--ip", ip, "--flows", 90_000)
            stream, = streams("stl_established", direction, *tunables, "--phase", "synack" if direction else "syn", "--size", 64)
            seen = set()
            for frame in fake_trex.packets(stream, 90_000):
                port, address = (36, 29) if direction else (34, 33)
                if ip == 6:
                    port, address = (56, 37) if direction else (54, 53)
                seen.add((frame[address], frame[port:port + 2]))
            self.assertEqual(seen, {(server, port.to_bytes(2, "big")) for server in (2, 3) for port in range(1024, 46_024)})
            for order in ("random", "inc"):
                stream, = streams("stl_established", direction, *tunables, "--order", order)
                servers = Counter()
                for packet in self.packets(stream, 400):
                    server = next(server for server in (0, 1) if packet.ends == expected("remote", ip, direction, server))
                    servers[server] += 1
                    self.assertIn(packet.dport if direction else packet.sport, range(1024, 46_024))
                self.assertTrue(min(servers[0], servers[1]) > 100, servers)

    def test_one_connection_needs_no_program(self):
        for phase in ("syn", "data"):
            stream, = streams("stl_established", CLIENT, "--flows", 1, "--phase", phase)
            self.assertEqual(stream.to_json()["vm"]["instructions"], [])
            self.assertEqual({packet.sport for packet in self.packets(stream, 3)}, {1024})

    def test_imix(self):
        made = streams("stl_established", CLIENT, "--size", "imix", "--latency", 1000)
        load, stamped = made[:-1], made[-1]
        shares = {self.packets(stream, 3)[0].size: stream.to_json()["mode"]["rate"] for stream in load}
        self.assertEqual(shares, {size: {"type": "pps", "value": part} for size, part in ((64, 7), (594, 4), (1518, 1))})
        packet, = self.packets(stamped, 1)
        self.assertEqual((packet.protocol, packet.checksum, packet.sport, packet.dport), (17, b"\0\0", 1023, 80))
        self.assertGreaterEqual(packet.data, 16)

    def test_each_port_has_a_latency_group_of_its_own(self):
        groups = [streams("stl_established", direction, "--latency", 10)[-1].to_json()["flow_stats"] for direction in (0, 1)]
        self.assertEqual([group["rule_type"] for group in groups], ["latency"] * 2)
        self.assertNotEqual(groups[0]["stream_id"], groups[1]["stream_id"])

    def test_what_cannot_be(self):
        for direction, tunables, why in (
            (SERVER, ["--phase", "syn"], "port 0 alone"),
            (CLIENT, ["--phase", "synack"], "port 1 alone"),
            (CLIENT, ["--flows", 60_001], "1 to 60000"),
            (CLIENT, ["--flows", 0], "1 to 60000"),
            (CLIENT, ["--flows", 90_001, "--kind", "remote"], "take 90000"),
            (CLIENT, ["--latency", 1, "--ip", 6], "IPv4"),
        ):
            with self.subTest(tunables), self.assertRaisesRegex(ValueError, why):
                streams("stl_established", direction, *tunables)


class Udp(Case):
    def test_flows(self):
        for (kind, ip), direction, phase in product(KINDS, (CLIENT, SERVER), ("first", "data")):
            with self.subTest(kind=kind, ip=ip, direction=direction, phase=phase):
                stream, = streams("stl_udp", direction, "--kind", kind, "--ip", ip, "--flows", 10, "--phase", phase)
                self.assertEqual(stream.to_json()["mode"].get("total_pkts"), 10 if phase == "first" else None)
                seen = Counter()
                for packet in self.packets(stream, 10 if phase == "first" else 100):
                    self.assertEqual((packet.ends, packet.protocol, packet.size), (expected(kind, ip, direction), 17, 64 if ip == 4 else 66))
                    self.assertNotEqual(packet.checksum, b"\0\0")
                    self.assertEqual(packet.dport if direction == CLIENT else packet.sport, 80)
                    seen[packet.sport if direction == CLIENT else packet.dport] += 1
                self.assertEqual(set(seen), set(range(1024, 1034)))
                if phase == "first":
                    self.assertEqual(set(seen.values()), {1})

    def test_one_way_has_no_answers(self):
        self.assertEqual(len(streams("stl_udp", CLIENT, "--ways", "one")), 1)
        with self.assertRaisesRegex(ValueError, "port 0 alone"):
            streams("stl_udp", SERVER, "--ways", "one")


class Connections(Case):
    def test_no_tuple_twice(self):
        for ip, protocol in product((4, 6), ("tcp", "udp")):
            stream, = streams("stl_connections", CLIENT, "--ip", ip, "--protocol", protocol)
            packets = self.packets(stream, 2000)
            self.assertEqual(len({(packet.dst, packet.sport) for packet in packets}), 2000)
            self.assertEqual({(packet.src, packet.dport, packet.protocol) for packet in packets},
                             {(expected("remote", ip, CLIENT)[2], 80, 6 if protocol == "tcp" else 17)})
            if protocol == "tcp":
                self.assertEqual({(packet.flags, packet.data) for packet in packets}, {(0x02, 0)})

    def test_fifteen_million_by_default(self):
        instructions = streams("stl_connections", CLIENT)[0].to_json()["vm"]["instructions"]
        flows, = (step for step in instructions if step["type"] == "tuple_flow_var")
        addresses, ports = flows["ip_max"] - flows["ip_min"] + 1, flows["port_max"] - flows["port_min"] + 1
        self.assertEqual((addresses * ports, flows["limit_flows"]), (15_000_000, 15_000_000))
        self.assertEqual(str(ipaddress.ip_address(flows["ip_max"])), "10.10.1.251")


class Attack(Case):
    def test_explosion_turns_single_bits(self):
        for ip, spoof in product((4, 6), (False, True)):
            stream, = streams("stl_attack", CLIENT, "--ip", ip, *(["--spoof"] if spoof else []))
            self.assertEqual(stream.to_json()["mode"]["rate"], {"type": "bps_L1", "value": 1_000_000})
            ends = expected("pod", ip, CLIENT)
            seen = {"src": set(), "dst": set(), "sport": set(), "dport": set(), "src_mac": set()}
            for packet in self.packets(stream, 2000):
                self.assertEqual(packet.dst_mac, ends[1])
                for field in seen:
                    seen[field].add(getattr(packet, field))
            number = {"src": lambda a: int(ipaddress.ip_address(a)), "src_mac": lambda a: int(a.replace(":", ""), 16)}
            db = world.DB.v4 if ip == 4 else world.six(world.DB.v4)
            for field, base, bits in (("dst", ends[3], 32), ("sport", 12345, 16), ("dport", 80, 16), ("src", db, 32 * spoof),
                                      ("src_mac", world.DB.mac, 32 * spoof)):
                parse = number.get("src" if field == "dst" else field, int)
                base = parse(base)
                self.assertEqual({parse(value) for value in seen[field]}, {base} | {base ^ 1 << bit for bit in range(bits)}, field)

    def test_no_two_packets_of_a_storm_are_alike(self):
        stream, = streams("stl_attack", CLIENT, "--attack", "storm", "--protocol", "udp")
        packets = self.packets(stream, 1000)
        self.assertEqual({(packet.src_mac, packet.src) for packet in packets}, {(world.DB.mac, world.DB.v4)})
        for field in ("dst", "sport", "dport"):
            self.assertGreater(len({getattr(packet, field) for packet in packets}), 950, field)


def commands(said, template, side):
    """The commands of one side, buffers by their length."""
    program = said["program_list"][said["templates"][template][f"{side}_template"]["program_index"]]
    lengths = [len(base64.b64decode(data)) for data in said["buf_list"]]
    names = [(c["name"], lengths[c["buf_index"]] if "buf_index" in c else c.get("min_bytes", c.get("min_pkts"))) for c in program["commands"]]
    return program.get("stream", True), names


class Stateful(Case):
    def addresses(self, said, template=0):
        ranges = said["templates"][template]["client_template"]["ip_gen"]
        known = [said["ip_gen_dist_list"][ranges[side]["index"]] for side in ("dist_client", "dist_server")]
        return [(one["ip_start"], one["ip_end"]) for one in known]

    def test_addresses(self):
        for kind, ip in KINDS:
            said = profile("astf_connections", "--kind", kind, "--ip", ip)
            _, _, client, server = expected(kind, ip, CLIENT)
            for name, address, pair in zip(("src_msb", "dst_msb"), (client, server), self.addresses(said)):
                self.assertEqual(pair[0], pair[1])
                low = ipaddress.ip_address(pair[0]).packed
                if ip == 6:
                    low = bytes(said["c_glob_info"]["ipv6"][name][:12]) + low
                self.assertEqual(str(ipaddress.ip_address(low)), address)
        self.assertEqual(self.addresses(profile("astf_udp", "--kind", "remote", "--servers", 253))[1], ("10.10.1.2", "10.10.1.254"))

    def test_no_segment_is_longer_than_the_mtu(self):
        names = ("astf_connections", "astf_long", "astf_udp", "astf_mix")
        for name, (kind, ip), end in product(names, KINDS, ("c_glob_info", "s_glob_info")):
            # astf_mix has no --kind.
            words = ["--ip", ip] if name == "astf_mix" else ["--kind", kind, "--ip", ip]
            with self.subTest(name=name, kind=kind, ip=ip, end=end):
                # TRex's own, for both families
                mss = profile(name, *words).get(end, {}).get("tcp", {}).get("mss", 1460)
                self.assertEqual(mss + 20 + (20 if ip == 4 else 40), 1500)

    def test_short_connections(self):
        said = profile("astf_connections", "--cps", 500, "--response", 10)
        self.assertEqual(commands(said, 0, "client"), (True, [("tx", 31), ("rx", 10)]))
        self.assertEqual(commands(said, 0, "server"), (True, [("rx", 31), ("tx", 10)]))
        template = said["templates"][0]
        self.assertEqual((template["client_template"]["cps"], template["client_template"]["port"]), (500, 80))
        self.assertEqual(template["server_template"]["assoc"], [{"port": 80}])

    def test_long_connections(self):
        said = profile("astf_long", "--connections", 123, "--rounds", 7)
        client = said["templates"][0]["client_template"]
        self.assertEqual((client["limit"], client["cont"]), (123, True))
        self.assertEqual(self.run_program(said, "client"), [("tx", 31), ("rx", 128), ("delay", None)] * 7)
        self.assertEqual(self.run_program(said, "server"), [("rx", 31), ("tx", 128)] * 7 + [("nc", None)])

    def run_program(self, said, side):
        """What a side does, its loops followed."""
        program = said["program_list"][said["templates"][0][f"{side}_template"]["program_index"]]["commands"]
        _, names = commands(said, 0, side)
        at, done, variables = 0, [], {}
        while at < len(program):
            command = program[at]
            if command["name"] == "set_var":
                variables[command["id"]] = command["val"]
            elif command["name"] == "jmp_nz":
                variables[command["id"]] -= 1
                if variables[command["id"]]:
                    at += command["offset"]
                    continue
            else:
                done.append(names[at])
            at += 1
        return done

    def test_datagrams(self):
        said = profile("astf_udp")
        self.assertEqual(commands(said, 0, "client"), (False, [("tx_msg", 31), ("rx_msg", 1)]))
        self.assertEqual(commands(said, 0, "server"), (False, [("rx_msg", 1), ("tx_msg", 64)]))

    def test_mix(self):
        said = profile("astf_mix", "--connections", 55)
        self.assertEqual([t["client_template"]["port"] for t in said["templates"]], [80, 8081, 8082])
        self.assertEqual([t["client_template"].get("limit") for t in said["templates"]], [None, 55, None])
        self.assertEqual([commands(said, n, "client")[0] for n in range(3)], [True, True, False])
        self.assertEqual(self.addresses(said, 2)[1], ("10.10.1.2", "10.10.1.11"))

    def test_what_cannot_be(self):
        for name, tunables, why in (
            ("astf_mix", ["--kind", "pod"], "kind remote"),
            ("astf_mix", ["--connections", 30_001], "1 to 30000"),
            ("astf_long", ["--connections", 60_001], "1 to 60000"),
            ("astf_udp", ["--kind", "svc", "--servers", 2], "1 to 1 servers"),
        ):
            with self.subTest(name), self.assertRaisesRegex(ValueError, why):
                profile(name, *tunables)


if __name__ == "__main__":
    unittest.main()
