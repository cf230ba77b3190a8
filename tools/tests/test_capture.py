"""Captures of a running switch: what tshark and tcpdump read is what passed its ports, and what was
lost was counted."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import daemon, machine, netns  # noqa: E402
from vsw.cni import guest  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
CALL = 40  # packets of one call that hands them to a dummy port
FIELDS = ("frame.interface_name", "frame.packet_flags_direction", "frame.packet_id", "frame.len", "frame.cap_len", "ip.dst",
          "udp.dstport")
INBOUND, OUTBOUND = 1, 2
ENDLESS = ("--count", 10_000_000, "--seconds", 3600)


def udp(source, destination, port, tail=b""):
    """A datagram from 10.0.0.source to 10.0.0.destination, in hexadecimal digits."""
    payload = bytes([port & 0xff]) * 20 + tail
    short = struct.Struct("!H").pack
    l4 = short(4000) + short(port) + short(8 + len(payload)) + bytes(2) + payload
    ip = bytearray(b"\x45\0" + short(20 + len(l4)) + b"\0\1\x40\0\x40\x11\0\0" + bytes([10, 0, 0, source, 10, 0, 0, destination]))
    total = sum(int.from_bytes(ip[at:at + 2], "big") for at in range(0, 20, 2))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    ip[10:12] = (total ^ 0xffff).to_bytes(2, "big")
    return (bytes([2, 0, 0, 0, 0, destination, 2, 0, 0, 0, 0, source, 8, 0]) + ip + l4).hex()


def tshark(file, *options):
    """What tshark prints of a capture."""
    return machine.output(["tshark", "-n", "-r", file, *options])


def records(file):
    """The packets of a capture, as dicts of FIELDS, with their bytes in hexadecimal digits as
    `bytes`."""
    found = []
    for packet in json.loads(tshark(file, "-T", "json", "-x")):
        layers = packet["_source"]["layers"]
        found.append({"bytes": layers["frame_raw"][0]})
    lines = tshark(file, "-T", "fields", *(word for field in FIELDS for word in ("-e", field))).splitlines()
    for record, line in zip(found, lines, strict=True):
        name, way, packet_id, length, kept, destination, port = line.split("\t")
        record.update(name=name, way=int(way, 0), id=int(packet_id or "0", 0), len=int(length), kept=int(kept))
        record.update(dst=destination, port=int(port or 0))
    return found


def finish(process):
    """Ends a process, and closes its pipes."""
    machine.end(process)
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()


@unittest.skipIf(None in map(shutil.which, ("tshark", "tcpdump")), "tshark or tcpdump is missing: tools/setup installs them")
class Capture(unittest.TestCase):
    """A switch with a bridge of dummy ports."""

    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-capture.")))
        cores = machine.cores()
        self.tag = f"vt{os.getpid()}"
        dpdk = {"hugepages": False, "memory_mb": 256, "file_prefix": self.tag, "worker_cores": [cores[-1]], "main_core": cores[0]}
        ports = [{"name": f"p{number}", "number": number, "type": "dummy"} for number in (1, 2, 3)]
        config = daemon.configuration(dpdk, ports, self.directory, fail_mode="secure", idle_sleep_us=daemon.IDLE_SLEEP_US)
        self.switch = daemon.Switch(BINARIES, self.directory, config, options=["--enable-dummy"])
        self.addCleanup(machine.end, self.switch.process)
        self.switch.wait_ready()

    finish = staticmethod(finish)

    def flows(self, *lines):
        """Adds flows to br0."""
        for line in lines:
            self.switch.vsctl("add-flow", "br0", line)

    def receive(self, port, *packets):
        """Hands packets to a dummy port; they have passed when this returns."""
        for at in range(0, len(packets), CALL):
            self.switch.vsctl("dummy/receive", port, *packets[at:at + CALL])

    def start(self, *words, file="x.pcapng", **options):
        """Starts `vsctl --json capture`; workers copy when this returns."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        path = self.directory / file
        path.unlink(missing_ok=True)
        process = machine.spawn(self.switch.command("--json", "capture", *words, "-w", path), text=True, **options)
        self.addCleanup(self.finish, process)
        machine.expect("the capture begins", lambda: process.poll() is not None or (path.exists() and path.stat().st_size > 0))
        return process, path

    def ended(self, process):
        """The summary of a capture that ends by itself, with its interfaces by port and point."""
        said, errors = process.communicate(timeout=machine.PATIENCE_S)
        self.assertEqual((process.returncode, errors), (0, ""))
        summary = json.loads(said)
        return summary, {(each["port"], each["point"]): each for each in summary["interfaces"]}

    def refused(self, *words):
        """What a command says that fails, and its exit status."""
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": machine.PATIENCE_S}
        done = subprocess.run(self.switch.command(*words), check=False, **options)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr, done.returncode

    def test_names_directions_ids_and_bytes(self):
        self.flows("priority=1,udp,in_port=1,actions=mod_nw_ttl:9,output:2")
        process, file = self.start("br0", "p1", "p2", "--count", 6, "--seconds", 600)
        packets = [udp(1, 2, port, bytes(port)) for port in (53, 80, 443)]
        self.receive("p1", *packets)
        summary, interfaces = self.ended(process)
        self.assertEqual(summary["ended"], "count")
        captured = {where: each["captured"] for where, each in interfaces.items() if each["captured"]}
        self.assertEqual(captured, {("p1", "rx"): 3, ("p2", "tx"): 3})
        found = records(file)
        came, left = ([each for each in found if each["way"] == way] for way in (INBOUND, OUTBOUND))
        self.assertEqual([each["bytes"] for each in came], packets)
        self.assertEqual({each["name"] for each in came}, {"p1"})
        self.assertEqual({each["name"] for each in left}, {"p2"})
        # Byte 22 is the TTL, and the checksum of the header with it.
        for before, after in zip(came, left, strict=True):
            self.assertEqual(before["id"], after["id"])
            self.assertNotEqual(before["id"], 0)
            was, is_now = before["bytes"], after["bytes"]
            self.assertEqual((is_now[:44], is_now[44:46], is_now[52:]), (was[:44], "09", was[52:]))
        self.assertEqual(len({each["id"] for each in came}), 3)
        times = [float(line) for line in tshark(file, "-T", "fields", "-e", "frame.time_epoch").splitlines()]
        self.assertEqual(times, sorted(times))
        about = machine.output(["capinfos", file])
        self.assertIn("Number of interfaces in file: 4", about)
        self.assertEqual(re.findall(r"Description = (.*)", about), [f"bridge br0: {what}" for what in ("received", "sent")] * 2)
        self.assertEqual(file.stat().st_mode & 0o7777, 0o600)

    def test_a_translated_packet_is_found_by_its_id(self):
        self.flows("table=0,priority=9,ip,actions=ct(zone=5,table=1,nat)",
                   "table=1,priority=9,in_port=1,ip,ct_state=+new+trk,actions=ct(commit,zone=5,table=2,nat(dst=10.0.0.2:8080))",
                   "table=1,priority=8,ct_state=+est+trk,actions=resubmit(,2)",
                   "table=2,priority=9,ip,in_port=1,actions=output:2",
                   "table=2,priority=9,ip,in_port=2,actions=output:1")
        process, file = self.start("br0", "--match", "udp,nw_dst=10.0.0.9,tp_dst=80", "--count", 80, "--seconds", 600)
        for _ in range(4):
            self.receive("p2", udp(2, 1, 4000))  # of another kind
            # The first is translated on the slow path, most of the others on the fast path.
            self.receive("p1", *[udp(1, 9, 80)] * 10)
        summary, interfaces = self.ended(process)
        self.assertEqual(summary["ended"], "count")
        self.assertEqual(interfaces["p2", "rx"]["filtered"], 4)
        pairs = {}
        for each in records(file):
            pairs.setdefault(each["id"], []).append((each["name"], each["way"], each["dst"], each["port"]))
        self.assertEqual(len(pairs), 40)
        for pair in pairs.values():
            self.assertEqual(pair, [("p1", INBOUND, "10.0.0.9", 80), ("p2", OUTBOUND, "10.0.0.2", 8080)])
        worker = self.switch.vsctl("worker-perf-show")
        self.assertRegex(worker, r"program", worker)

    def test_two_captures_of_one_port(self):
        self.flows("priority=1,actions=output:2")
        dns, web = ("--match", "udp,tp_dst=53", "--count", 2), ("--match", "udp,tp_dst=80", "--count", 4, "--snaplen", 40)
        first, one = self.start("br0", "p1", "--point", "rx", *dns, "--seconds", 600, file="one.pcapng")
        second, two = self.start("br0", "p1", "p2", "--point", "rx,tx", *web, "--seconds", 600, file="two.pcapng")
        self.receive("p1", *[udp(1, 2, port) for port in (53, 80, 443, 53, 80)])
        (_, of_one), (_, of_two) = self.ended(first), self.ended(second)
        self.assertEqual([(each["port"], each["name"], each["kept"]) for each in records(one)], [(53, "p1", 62)] * 2)
        kept = {(each["name"], each["way"], each["len"], each["kept"]) for each in records(two)}
        self.assertEqual(kept, {("p1", INBOUND, 62, 40), ("p2", OUTBOUND, 62, 40)})
        # It may be over before the last packet comes.
        self.assertIn(of_one["p1", "rx"].pop("filtered"), (2, 3))
        counts = {"captured": 2, "not_copied": 0, "beyond_count": 0, "refused": 0}
        self.assertEqual(of_one["p1", "rx"], {"port": "p1", "number": 1, "point": "rx", **counts})
        self.assertEqual(of_two["p1", "rx"]["filtered"], 3)
        self.assertEqual((of_two["p1", "tx"]["captured"], of_two["p2", "tx"]["captured"]), (0, 2))

    def test_drops_have_their_reason_and_place(self):
        self.flows("priority=3,udp,tp_dst=53,actions=output:2", "cookie=0x1f,priority=2,udp,tp_dst=80,actions=drop",
                   "priority=2,udp,tp_dst=443,actions=resubmit(,7)")
        process, file = self.start("br0", "p1", "--point", "rx,drop", "--match", "udp", "--count", 5, "--seconds", 600)
        packets = [udp(1, 2, port, bytes(200)) for port in (53, 80, 443)]
        self.receive("p1", *packets)
        _, interfaces = self.ended(process)
        self.assertEqual((interfaces["p1", "rx"]["captured"], interfaces["p1", "drop"]["captured"]), (3, 2))
        found = records(file)
        comments = tshark(file, "-T", "fields", "-e", "frame.interface_id", "-e", "frame.comment").splitlines()
        comments = [line.split("\t")[1] for line in comments if line.startswith("1\t")]
        self.assertEqual(comments, ["drop: rule_drop; table 0; cookie 0x1f", "drop: table_miss; table 7"])
        came, died = [each for each in found if each["kept"] > 128], [each for each in found if each["kept"] == 128]
        self.assertEqual([each["id"] for each in died], [each["id"] for each in came[1:]])
        for before, after in zip(came[1:], died, strict=True):
            self.assertEqual((after["len"], after["way"], after["bytes"]), (before["len"], INBOUND, before["bytes"][:256]))

    def test_limits(self):
        self.flows("priority=1,actions=output:2")
        process, file = self.start("br0", "p1", "--point", "rx", "--count", 3, "--seconds", 600)
        self.receive("p1", *[udp(1, 2, 53)] * 20)
        _, interfaces = self.ended(process)
        self.assertEqual((interfaces["p1", "rx"]["captured"], len(records(file))), (3, 3))
        self.assertLessEqual(interfaces["p1", "rx"]["beyond_count"], 17)
        # A worker that has no packets: the time ends it.
        process, file = self.start("br0", "p3", "--seconds", 1)
        summary, _ = self.ended(process)
        self.assertEqual((summary["ended"], records(file)), ("seconds", []))
        running = [self.start("br0", "p1", "--seconds", 600, file=f"{number}.pcapng")[0] for number in range(4)]
        said, status = self.refused("capture", "br0", "p1", "-w", self.directory / "fifth")
        self.assertIn("captures: the limit of 4 is reached", said)
        self.assertEqual((status, (self.directory / "fifth").exists()), (1, False))
        # A client that is killed leaves no capture behind.
        running[0].kill()

        def accepted():
            command = self.switch.command("capture", "br0", "p1", "--seconds", 1, "-w", "-")
            process = machine.spawn(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return process.wait() == 0

        machine.expect("there is room again", accepted)

    def test_wrong_requests(self):
        for words, expected in (
            (["br9", "p1"], "br9"),
            (["br0", "p9"], "p9"),
            (["br0", "--match", "in_port=1"], "match: it names metadata"),
            (["br0", "--match", "tcp,nonsense=1"], "nonsense"),
            (["br0", "--snaplen", 70000], "snaplen: 70000 is out of range"),
            (["br0", "--seconds", 3601], "seconds: 3601 is out of range"),
        ):
            said, status = self.refused("capture", *words, "-w", self.directory / "none")
            self.assertIn(expected, said)
            self.assertEqual((status, (self.directory / "none").exists()), (1, False))
        self.switch.vsctl("add-port", "br0", "w1", "--type", "patch", "--peer", "w2")
        self.assertIn("is a patch port", self.refused("capture", "br0", "w1", "-w", "-")[0])

    def test_ports_that_go_and_a_switch_that_stops(self):
        self.flows("priority=1,actions=output:2")
        process, file = self.start("br0", "p1", "p2", "--seconds", 600)
        self.receive("p1", udp(1, 2, 53))
        self.switch.vsctl("del-port", "br0", "p1")
        self.switch.vsctl("add-port", "br0", "p1", "--type", "dummy", "--number", 1)
        self.receive("p1", udp(1, 2, 80))  # by another port of that name
        self.switch.vsctl("del-port", "br0", "p2")
        summary, interfaces = self.ended(process)
        self.assertEqual(summary["ended"], "ports")
        self.assertEqual([(each["name"], each["port"]) for each in records(file)], [("p1", 53), ("p2", 53), ("p2", 80)])
        self.assertEqual(interfaces["p1", "rx"]["captured"], 1)
        process, file = self.start("br0", "p1", "--seconds", 600)
        self.receive("p1", udp(1, 2, 53))
        machine.expect("the packet is in the file", lambda: len(records(file)) == 1)
        machine.end(self.switch.process)
        said = process.communicate(timeout=machine.PATIENCE_S)
        self.assertEqual(process.returncode, daemon.UNREACHABLE, said)
        self.assertIn("captured", said[0])
        self.assertEqual(len(records(file)), 1)

    def test_an_interrupt_ends_the_file_with_statistics(self):
        self.flows("priority=1,actions=output:2")
        process, file = self.start("br0", "p1", "--seconds", 600)
        self.receive("p1", *[udp(1, 2, 53)] * 5)
        machine.expect("the packets are in the file", lambda: len(records(file)) == 5)
        process.send_signal(signal.SIGINT)
        summary, interfaces = self.ended(process)
        self.assertEqual((summary["ended"], interfaces["p1", "rx"]["captured"]), ("interrupted", 5))
        self.assertEqual(len(records(file)), 5)

    def tcpdump(self, *words, **options):
        """Starts `vsctl tcpdump`."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = machine.spawn(self.switch.command("tcpdump", *words), text=True, **options)
        self.addCleanup(self.finish, process)
        return process

    def test_tcpdump(self):
        self.flows("priority=1,actions=output:2")
        process = self.tcpdump("--point", "rx", "br0", "p1", "-nn", "-c", 2, "udp", "port", "53")
        packets = [udp(1, 2, port) for port in (80, 53, 443, 53, 53)]

        def ended():
            self.receive("p1", *packets)
            return process.poll() is not None

        machine.expect("tcpdump has two packets", ended)
        said, errors = process.communicate()
        self.assertEqual((process.returncode, len(said.splitlines())), (0, 2), errors)
        for line in said.splitlines():
            self.assertIn("IP 10.0.0.1.4000 > 10.0.0.2.53: ", line)
        self.assertIn("packets captured", errors)
        # Ctrl-C in the terminal.
        process = self.tcpdump("br0", "p1", "-nn", "-t")
        self.receive("p1", *packets)
        line = ""
        while "IP 10.0.0.1" not in line:
            self.receive("p1", packets[0])
            line = process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=machine.PATIENCE_S)
        self.assertEqual(process.returncode, 0)
        # vsctl alone is interrupted: tcpdump ends with its input.
        process = self.tcpdump("br0", "p1", "-nn")
        self.receive("p1", packets[0])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=machine.PATIENCE_S)
        self.assertEqual(process.returncode, 0)

    def test_tcpdump_that_fails_or_is_not_there(self):
        said, status = self.refused("tcpdump", "br0", "p1", "no", "expression")
        self.assertEqual(status, 1)
        self.assertIn("syntax error", said)
        said, status = self.refused("tcpdump", "br0", "p9")
        self.assertEqual((status, "p9" in said), (1, True))
        process = self.tcpdump("br0", "p1", env={"PATH": str(self.directory)})
        said = process.communicate(timeout=machine.PATIENCE_S)[1]
        self.assertEqual((process.returncode, "tcpdump: not installed" in said), (1, True), said)


@unittest.skipIf(shutil.which("tshark") is None, "tshark is missing: tools/setup installs it")
class Traffic(unittest.TestCase):
    """Two hosts and a guest on a learning bridge: a packet socket, a TAP interface, vhost-user."""

    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-capture.")))
        cores = machine.cores()
        self.tag = f"vt{os.getpid()}"
        dpdk = {"hugepages": False, "memory_mb": 256, "file_prefix": self.tag, "worker_cores": [cores[-1]], "main_core": cores[0]}
        self.hosts = []
        for index, letter in enumerate("ab", 1):
            name = f"{self.tag}-{letter}"
            self.addCleanup(netns.remove_namespace, name)
            self.hosts.append(netns.Host(name, index))
            # Nothing but what a test sends.
            self.hosts[-1].run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1", "net.ipv6.conf.all.disable_ipv6=1")
        machine.output(["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"])
        netns.ip("link", "add", "va", "type", "veth", "peer", "name", "eth0", "netns", self.hosts[0].name)
        netns.ip("link", "set", "va", "up")
        ports = [{"name": "pa", "number": 1, "type": "af_packet", "interface": "va"},
                 {"name": "pb", "number": 2, "type": "tap", "interface": "tb"}]
        config = daemon.configuration(dpdk, ports, self.directory, idle_sleep_us=daemon.IDLE_SLEEP_US)
        self.switch = daemon.Switch(BINARIES, self.directory, config)
        self.addCleanup(machine.end, self.switch.process)
        self.switch.wait_ready()
        netns.ip("link", "set", "tb", "netns", self.hosts[1].name)
        for host, interface in zip(self.hosts, ("eth0", "tb"), strict=True):
            host.ip("address", "add", f"{host.v4}/24", "dev", interface)
            host.ip("link", "set", "dev", interface, "up")
        machine.expect("the hosts reach each other", lambda: self.hosts[0].reaches(self.hosts[1].v4))

    finish = staticmethod(finish)

    def counted(self):
        """Packets of each port, by port and point, and what it refused to send."""
        ports = self.switch.ports()
        passed = {(name, point): ports[name][f"{point}_packets"] for name in ports for point in ("rx", "tx")}
        return passed, {name: sum(port["tx_drops"].values()) for name, port in ports.items()}

    def settled(self):
        """The counters when nothing passes any more."""
        last = []

        def same():
            last.append(self.counted())
            return len(last) > 1 and last[-2] == last[-1]

        machine.wait_until("the ports are quiet", machine.PATIENCE_S, same, 0.5)
        return last[-1]

    def begin(self, *words):
        """Starts a capture of all packets to a file."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        path = self.directory / "x.pcapng"
        process = machine.spawn(self.switch.command("--json", "capture", "br0", *words, *ENDLESS, "-w", path), text=True, **options)
        self.addCleanup(self.finish, process)
        machine.expect("the capture begins", lambda: process.poll() is not None or (path.exists() and path.stat().st_size > 0))
        return process, path

    def end(self, process, *ports):
        """Removes the ports, which ends the capture; its interfaces by port and point."""
        for port in ports:
            self.switch.vsctl("del-port", "br0", port)
        said, errors = process.communicate(timeout=machine.PATIENCE_S)
        self.assertEqual((process.returncode, errors), (0, ""))
        summary = json.loads(said)
        self.assertEqual(summary["ended"], "ports")
        return {(each["port"], each["point"]): each for each in summary["interfaces"]}

    def talk(self, size):
        """A stream of TCP from the first host to the second."""
        with self.hosts[1].spawn("iperf3", "-s", "-1", stdout=subprocess.DEVNULL) as server:
            machine.expect("iperf3 listens", lambda: "5201" in self.hosts[1].run("ss", "-ltn"))
            self.hosts[0].run("iperf3", "-c", self.hosts[1].v4, "-n", size)
            server.wait(machine.PATIENCE_S)

    def test_captured_and_not_copied_are_what_ports_counted(self):
        before, refused_before = self.settled()
        process, file = self.begin()
        self.talk("2M")
        after, refused_after = self.settled()
        interfaces = self.end(process, "pa", "pb")
        for where, each in interfaces.items():
            self.assertEqual(each["captured"] + each["not_copied"], after[where] - before[where], (where, interfaces))
            self.assertEqual((each["filtered"], each["beyond_count"]), (0, 0))
        for port in ("pa", "pb"):
            self.assertEqual(interfaces[port, "tx"]["refused"], refused_after[port] - refused_before[port])
        found = records(file)
        for (port, point), each in interfaces.items():
            way = INBOUND if point == "rx" else OUTBOUND
            self.assertEqual(sum((record["name"], record["way"]) == (port, way) for record in found), each["captured"])
        came = {each["id"]: each["bytes"] for each in found if each["way"] == INBOUND}
        pairs = [(each["bytes"], came[each["id"]]) for each in found if each["way"] == OUTBOUND and each["id"] in came]
        self.assertGreater(len(pairs), 20)
        # The bridge changes nothing, but where a checksum is finished on the way out.
        self.assertTrue(all(len(after) == len(before) for after, before in pairs))

    def test_a_slow_reader_loses_packets_and_is_told_how_many(self):
        before, _ = self.settled()
        command = self.switch.command("--json", "capture", "br0", *ENDLESS, "-w", "-")
        # Unbuffered: what is read ahead would be missing in what communicate() returns.
        process = machine.spawn(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        self.addCleanup(self.finish, process)
        head = process.stdout.read(4)  # the capture has begun; nothing is read any more
        self.talk("60M")
        after, _ = self.settled()
        for port in ("pa", "pb"):
            self.switch.vsctl("del-port", "br0", port)
        rest, said = process.communicate(timeout=machine.PATIENCE_S)
        self.assertEqual(process.returncode, 0, said)
        interfaces = {(each["port"], each["point"]): each for each in json.loads(said)["interfaces"]}
        self.assertGreater(sum(each["not_copied"] for each in interfaces.values()), 0)
        for where, each in interfaces.items():
            self.assertEqual(each["captured"] + each["not_copied"], after[where] - before[where], (where, interfaces))
        file = self.directory / "pipe.pcapng"
        file.write_bytes(head + rest)
        captured = sum(each["captured"] for each in interfaces.values())
        self.assertEqual(len(tshark(file, "-T", "fields", "-e", "frame.number").splitlines()), captured)

    def test_what_a_port_refuses_was_not_sent(self):
        mac = json.loads(self.hosts[1].run("ip", "-j", "link", "show", "tb"))[0]["address"]
        self.hosts[0].ip("neighbour", "replace", self.hosts[1].v4, "lladdr", mac, "dev", "eth0")
        self.hosts[1].ip("link", "set", "dev", "tb", "down")
        before, refused_before = self.settled()
        process, file = self.begin()
        self.hosts[0].run("bash", "-c", f"for i in {{1..20}}; do echo $i > /dev/udp/{self.hosts[1].v4}/9; done")
        machine.expect("they have come", lambda: self.counted()[0]["pa", "rx"] >= before["pa", "rx"] + 20)
        after, refused_after = self.settled()
        interfaces = self.end(process, "pa", "pb")
        self.assertEqual(after["pb", "tx"], before["pb", "tx"])
        # Copies of a flood are not made for a link that is down. What was learned goes there.
        refused = interfaces["pb", "tx"]["refused"]
        self.assertGreater(refused, 0)
        self.assertLessEqual(refused, refused_after["pb"] - refused_before["pb"])
        self.assertEqual(interfaces["pb", "tx"]["captured"], 0)
        self.assertEqual({each["name"] for each in records(file)}, {"pa"})

    @unittest.skipIf(guest.is_missing(), "dpdk-testpmd is missing: tools/setup installs it")
    def test_a_guest(self):
        socket = self.directory / "guest.sock"
        made = guest.Guest(socket, "02:00:00:00:00:05", self.directory / "guest.log", self.addCleanup)
        machine.expect("the guest's socket", socket.exists, made.said)
        self.switch.vsctl("add-port", "br0", "g", "--type", "vhost-user", "--path", socket)
        machine.expect("the guest answers", lambda: self.hosts[1].reaches("10.99.0.77"), made.said)
        before, _ = self.settled()
        process, file = self.begin("g")
        self.hosts[1].run("ping", "-n", "-c", "20", "-i", "0.02", "10.99.0.77")
        after, _ = self.settled()
        interfaces = self.end(process, "g")
        for where, each in interfaces.items():
            self.assertEqual(each["captured"], after[where] - before[where], (where, interfaces))
        self.assertGreaterEqual(interfaces["g", "rx"]["captured"], 20)
        answers = tshark(file, "-Y", "icmp.type == 0 and frame.packet_flags_direction == 1", "-T", "fields", "-e", "frame.number")
        self.assertEqual(len(answers.splitlines()), 20)


if __name__ == "__main__":
    unittest.main()
