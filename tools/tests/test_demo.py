"""tools/demo: that it leaves nothing behind, however it ends, against a stand-in for the switch; and all it shows, against the switch."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine, netns  # noqa: E402

FAKE = ROOT / "tools" / "tests" / "fake"


def traces():
    """All that a demo could leave on the machine."""
    processes = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "vsd" in line and "iperf3" in line or "vswitch-demo." in line or str(FAKE) in line or "tools/demo" in line and "python" in line:
            processes.add(line)
    return {
        "namespaces": {name for name in netns.namespaces() if name.startswith("vsd")},
        "interfaces": {name for name in netns.interfaces() if name.startswith(("vsd", "fk"))},
        "directories": set(map(str, Path("/run").glob("vswitch-demo.*"))),
        "processes": processes,
        "hugepages": (machine.HUGEPAGES / "nr_hugepages").read_text(),
    }


def start(*words, fake="", binaries=FAKE, demo=("--l2",), **options):
    argv = [sys.executable, str(ROOT / "tools" / "demo"), "--bin-dir", str(binaries), "--no-hugepages", *demo, *words]
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | options
    return subprocess.Popen(argv, env={**os.environ, "FAKE_SWITCH": fake}, start_new_session=True, **options)


def read_until(stream, needle, limit=60):
    """Reads a file descriptor until `needle` came; all that was read."""
    text, deadline = b"", time.monotonic() + limit
    while needle not in text:
        if not select.select([stream], [], [], max(0, deadline - time.monotonic()))[0]:
            raise AssertionError(f"no {needle!r} within {limit} s in {text.decode(errors='replace')}")
        data = os.read(stream, 65536)
        if not data:
            raise AssertionError(f"ended without {needle!r}: {text.decode(errors='replace')}")
        text += data
    return text


class Clean(unittest.TestCase):
    """The machine is afterwards what it was before."""

    def setUp(self):
        self.before = traces()

    def tearDown(self):
        deadline = time.monotonic() + 5
        while traces() != self.before and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(traces(), self.before, "the demo left something behind")

    def started(self, process):
        """Ended after the test in any case."""
        self.addCleanup(lambda: process.poll() is None and (process.terminate(), process.wait(30)))
        return process

    def finish(self, process, status, limit=90):
        said = process.communicate(timeout=limit)[0].decode()
        self.assertEqual(process.returncode, status, said)
        return said


class Node(Clean):
    """The pipeline document's node, with vswitchd, vsctl and vswitch-agent as `cargo build` makes them."""

    BINARIES = ROOT / "target" / "debug"

    def start(self, *words, **options):
        return self.started(start(*words, binaries=self.BINARIES, demo=(), **options))

    def test_every_scene_is_right(self):
        said = self.finish(self.start("--once", "--seconds", "1"), 0, limit=300)
        for what in ("the agent told: 1 peer, 4 pod, 7 service", "hairpin: web2", "ETP Local: outside", "no Endpoint", "TrafficControl mirrors",
                     "ARP spoofing", "sees Egress IP", "Reject: peer -> web2", "no Endpoint: outside -> NodePort", "3 datagrams, no answer: NodePort: outside", "an Endpoint leaves", "multicast, IGMPv2: client -> db", "the agent is killed, and comes back",
                     "iperf3: client", "no wrong checksum arrived in any namespace"):
            self.assertIn(what, said)
        self.assertNotIn("✘", said)

    def test_two_nodes(self):
        said = self.finish(self.start("--nodes", "2", "--once", "--seconds", "1"), 0, limit=300)
        for what in ("Reject: client@2 -> ClusterIP -> web2@1", "Reject: the internet -> node@1", "node 2: 167 flows of the document", "Pod to Pod: client@1 -> web2@2", "Pod to Pod: client@2 -> web2@1", "ClusterIP: client@1",
                     "ClusterIP: client@2", "policy denies: db@1 -> web@2", "Egress on the other Node: client@2", "iperf3, LoadBalancer: client@2 -> web2@1",
                     "multicast, IGMPv1: client@2 -> db@1", "192.168.77.103 -> 192.168.77.102, UDP", "fd00:192:168:77::102 -> fd00:192:168:77::103, UDP", "-> 6081, Geneve VNI 0",
                     "no wrong checksum arrived in any namespace"):
            self.assertIn(what, said)
        # Of what is refused, of the scenes, and of real stacks.
        for judged in ("no frame is malformed, every checksum is right", "packets of Pods are in Geneve only", "no frame is larger than a wire takes"):
            self.assertEqual(said.count(f"✔ {judged}"), 3, said)
        self.assertNotIn("✘", said)

    def test_signal_in_a_scene_of_two_nodes(self):
        process = self.start("--nodes", "2", "--once")
        read_until(process.stdout.fileno(), "✔ Pod to Pod: client@1".encode(), limit=120)
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM, limit=60)

    def test_stays_on_a_terminal_until_ctrl_c(self):
        terminal, far_end = pty.openpty()
        process = self.start("--document", "--seconds", "1", stdin=far_end, stdout=far_end, stderr=far_end)
        os.close(far_end)
        text = read_until(terminal, b"--controller 62373", limit=300)
        self.assertIn(b"The node stays until Ctrl-C", text)
        self.assertIn(b"167 flows of the document", text)
        self.assertNotIn("✘".encode(), text)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 0)
        os.close(terminal)

    def test_signal_in_a_scene(self):
        process = self.start("--once")
        read_until(process.stdout.fileno(), "✔ Pod to Pod".encode())
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM, limit=30)


class Demo(Clean):
    """Three hosts, `--l2`, on the stand-in."""

    def test_one_round(self):
        said = self.finish(start("--once", "--seconds", "1"), 0)
        for what in ("ping vsd-c -> vsd-b", "TCP    vsd-a -> vsd-b", "UDP    vsd-b -> vsd-c", "TCP/v6 vsd-a -> vsd-c",
                     "% lost", "retransmitted", "worker load 25 %", "no wrong checksum", "port vsd-c0"):
            self.assertIn(what, said)

    def test_signals_during_traffic(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                process = start("--once", "--seconds", "30")
                read_until(process.stdout.fileno(), b"sending traffic")
                time.sleep(1)
                process.send_signal(number)
                time.sleep(0.05)
                process.send_signal(number)  # an impatient user must not stop the cleanup
                self.finish(process, 128 + number, limit=20)

    def test_signal_at_start(self):
        process = start("--once")
        read_until(process.stdout.fileno(), b"starting the switch")
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM, limit=20)

    def test_switch_that_does_not_start(self):
        said = self.finish(start("--once", fake="refuse"), 1)
        self.assertIn("refused on purpose", said)

    def test_switch_that_crashes(self):
        said = self.finish(start("--once", "--seconds", "30", fake="crash"), 1)
        self.assertIn("crashed on purpose", said)

    def test_closed_output(self):
        process = start("--once", "--seconds", "1")
        read_until(process.stdout.fileno(), b"pinging")
        process.stdout.close()
        self.assertEqual(process.wait(60), 1)

    def test_killed_demo_is_swept_up_by_the_next(self):
        process = start("--once", "--seconds", "30")
        read_until(process.stdout.fileno(), b"sending traffic")
        # The stand-in's bridge is the kernel's and stays after SIGKILL; a real switch has none.
        bridges = {name for name in netns.interfaces() if name.startswith("fk")} - self.before["interfaces"]
        process.kill()
        process.wait()
        for name in bridges:
            if "-" not in name:
                netns.ip("link", "delete", name)
        process.stdout.close()
        self.assertIn("vsd-a", netns.namespaces())
        said = self.finish(start("--once", "--seconds", "1"), 0)
        self.assertIn("left behind", said)

    def test_live_view_ends_with_ctrl_c(self):
        terminal, far_end = pty.openpty()
        process = start("--seconds", "3", stdin=far_end, stdout=far_end, stderr=far_end)
        os.close(far_end)
        text = read_until(terminal, b"Ctrl-C ends")
        text += read_until(terminal, b"UDP    vsd-b")
        for part in (b"rx Mbit/s", b"af_packet", b"worker on core", b"load 25 %", b"\x1b[?1049h"):
            self.assertIn(part, text)
        process.send_signal(signal.SIGINT)
        rest = read_until(terminal, b"received")
        self.assertIn(b"\x1b[?1049l", rest)
        self.assertEqual(process.wait(20), 0, rest.decode(errors="replace"))
        os.close(terminal)


class IperfReports(unittest.TestCase):
    def test_tcp(self):
        text = '{"end": {"sum_sent": {"bits_per_second": 9e6, "retransmits": 3}, "sum_received": {"bits_per_second": 8e6}}}'
        self.assertEqual(netns.iperf_result(text), {"mbps": 8.0, "retransmits": 3})

    def test_udp(self):
        text = '{"end": {"sum": {"bits_per_second": 2e6, "lost_packets": 5, "packets": 20}, "sum_received": {"bits_per_second": 2e6}}}'
        self.assertEqual(netns.iperf_result(text), {"mbps": 1.5, "lost": 5, "packets": 20})

    def test_errors(self):
        for text, said in (('{"error": "unable to connect"}', "unable to connect"), ("iperf3: usage", "no JSON")):
            with self.subTest(text), self.assertRaisesRegex(machine.Failure, said):
                netns.iperf_result(text)


class Arguments(unittest.TestCase):
    def test_usage(self):
        for words, status in ((["--help"], 0), (["--bogus"], 2), (["--hugepages"], 2), (["--seconds", "-1"], 2)):
            with self.subTest(words):
                process = start(*words)
                said = process.communicate(timeout=10)[0].decode()
                self.assertEqual(process.returncode, status, said)
                self.assertIn("usage: tools/demo", said)

    def test_nodes(self):
        for words, why in ((["--nodes", "0"], "--nodes: 1 or 2, not 0"), (["--nodes", "3"], "--nodes: 1 or 2, not 3"), (["--nodes", "two"], "invalid int"),
                           (["--l2", "--nodes", "2"], "leave out --nodes"), (["--l2", "--nodes", "1"], "leave out --nodes")):
            with self.subTest(words):
                process = start(*words, demo=())
                said = process.communicate(timeout=10)[0].decode()
                self.assertEqual(process.returncode, 2, said)
                self.assertIn(why, said)

    def test_no_binaries(self):
        argv = [str(ROOT / "tools" / "demo"), "--bin-dir", "/nonexistent"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent/vswitchd does not exist", done.stderr)


if __name__ == "__main__":
    unittest.main()
