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
from vsw.antrea import actions  # noqa: E402

FAKE = ROOT / "tools" / "tests" / "fake"
WHOLE_S = 1800  # for all that a demo shows, on a machine that others keep busy
AROUND = 2  # lines before one that is wrong
MORE = 15  # lines at most that belong to it


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


def read_until(stream, needle, limit=machine.PATIENCE_S):
    """Reads a file descriptor until `needle` came; all that was read."""
    text, deadline = b"", time.monotonic() + limit
    while needle not in text:
        if not select.select([stream], [], [], max(0, deadline - time.monotonic()))[0]:
            raise AssertionError(worst_first(f"no {needle.decode()!r} within {limit} s", text.decode(errors="replace")))
        data = os.read(stream, 65536)
        if not data:
            raise AssertionError(worst_first(f"ended without {needle.decode()!r}", text.decode(errors="replace")))
        text += data
    return text


def worst_first(what, said):
    """What is wrong with what a demo said, the lines that tell why, then all: of a long text, only the beginning may be seen."""
    lines, parts, start = said.splitlines(), [what], 0
    for number, line in enumerate(lines):
        if line.startswith("✘"):
            end = next((n for n in range(number + 1, len(lines)) if lines[n][:1] in "✔✘•"), len(lines))
            parts += lines[max(start, number - AROUND) : min(end, number + MORE)]
            start = end
        elif line.startswith(("demo: ", "Traceback ")):  # and the ends of logs
            parts += lines[max(start, number) :]
            break
    return "\n".join([*parts, "--- all that it said", said])


class Clean(unittest.TestCase):
    """The machine is afterwards what it was before."""

    def setUp(self):
        self.before = traces()

    def tearDown(self):
        deadline = time.monotonic() + machine.PATIENCE_S
        while traces() != self.before and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(traces(), self.before, "the demo left something behind")

    def started(self, process):
        """Ended after the test in any case."""
        self.addCleanup(machine.end, process)
        return process

    def finish(self, process, status, limit=machine.PATIENCE_S, so_far=b""):
        """Waits for its end; all that it said."""
        late = ""
        try:
            said = process.communicate(timeout=limit)[0]
        except subprocess.TimeoutExpired:
            late = f"not at its end within {limit} s; "
            machine.end(process)
            said = process.communicate()[0]
        said = (so_far + said).decode(errors="replace")
        if late or process.returncode != status:
            self.fail(worst_first(f"{late}status {process.returncode}, expected {status}", said))
        return said

    def shows(self, said, *texts):
        """All of these are in what it said, and nothing is wrong."""
        missing = [text for text in texts if text not in said]
        if missing or "✘" in said:
            self.fail(worst_first(f"missing: {missing}", said))


class Node(Clean):
    """The pipeline document's node, with vswitchd, vsctl and vswitch-agent as `cargo build` makes them."""

    BINARIES = ROOT / "target" / "debug"

    def start(self, *words, **options):
        return self.started(start(*words, binaries=self.BINARIES, demo=(), **options))

    def test_every_scene_is_right(self):
        said = self.finish(self.start("--once", "--seconds", "1"), 0, WHOLE_S)
        self.shows(said, "the agent told: 1 peer, 4 pod, 7 service", "hairpin: web2", "ETP Local: outside", "no Endpoint", "TrafficControl mirrors",
                   "ARP spoofing", "sees Egress IP", "Reject: peer -> web2", "no Endpoint: outside -> NodePort", "3 datagrams, no answer: NodePort: outside", "an Endpoint leaves", "nested, no Endpoint inside", "hints, zone-a", "source ranges: the internet", "weights 900, 100",
                   "3 datagrams before the answer", "3 times the same SYN", "SCTP: outside -> 192.168.77.160", "web2 leaves: its UDP sockets", "16 new clients", "of 1 s ends",
                   "another port: mover by the old one", "the Pod goes: its packets", "probes have a port: a probe of web2",
                   "multicast, IGMPv2: client -> db", "the agent is killed, and comes back",
                   "Traceflow: client -> db, refused", "the agent reads IGMP", "records of a connection that stays", "L7: client -> web, web2", "with --strict",
                   "iperf3: client", "no wrong checksum arrived in any namespace")

    def test_two_nodes(self):
        said = self.finish(self.start("--nodes", "2", "--once", "--seconds", "1"), 0, WHOLE_S)
        self.shows(said, "Reject: client@2 -> ClusterIP -> web2@1", "Reject: the internet -> node@1", "node 2: 167 flows of the document", "Pod to Pod: client@1 -> web2@2", "Pod to Pod: client@2 -> web2@1", "ClusterIP: client@1",
                   "ClusterIP: client@2", "policy denies: db@1 -> web@2", "Egress on the other Node: client@2", "iperf3, LoadBalancer: client@2 -> web2@1",
                   "multicast, IGMPv1: client@2 -> db@1", "DSR: outside -> node@2 -> web2@1", "Egress by the switch: client@1 -> internet", "record: client@1 -> internet (UDP)",
                   "session affinity: external IP: outside -> node@1",
                   "a router on the way from web2@1, asked by node@2", "a device, NodePort: outside -> node@1", "DSR, 3 datagrams, no answer",
                   "IPv4 alone on node 1: client@1 -> web2@2", "IPv6 alone on node 2: client@2 -> web2@1",
                   "LoadBalancer, policy Local: outside -> node@2", "192.168.77.103 -> 192.168.77.102, UDP", "fd00:192:168:77::102 -> fd00:192:168:77::103, UDP", "-> 6081, Geneve VNI 0",
                   "no wrong checksum arrived in any namespace")
        # Of what is refused, of the scenes, and of real stacks.
        for judged in ("no frame is malformed, every checksum is right", "packets of Pods are in Geneve only", "no frame is larger than a wire takes"):
            if (count := said.count(f"✔ {judged}")) != 3:
                self.fail(worst_first(f"{count} times, not 3: {judged}", said))

    def test_signal_in_a_scene_of_two_nodes(self):
        process = self.start("--nodes", "2", "--once")
        said = read_until(process.stdout.fileno(), "✔ Pod to Pod: client@1".encode(), WHOLE_S)
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM, so_far=said)

    def test_stays_on_a_terminal_until_ctrl_c(self):
        terminal, far_end = pty.openpty()
        process = self.start("--document", "--seconds", "1", stdin=far_end, stdout=far_end, stderr=far_end)
        os.close(far_end)
        text = read_until(terminal, b"--controller 62373", WHOLE_S)
        self.shows(text.decode(errors="replace"), "The node stays until Ctrl-C", "167 flows of the document")
        process.send_signal(signal.SIGINT)
        try:
            self.assertEqual(process.wait(machine.PATIENCE_S), 0)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)
            read_until(terminal, b"never said", 5)  # fails with all that is said
        os.close(terminal)

    def test_a_signal_whose_exception_is_lost_ends_what_stays(self):
        program = """if True:
            import signal
            from types import SimpleNamespace
            from vsw import machine
            from vsw.antrea.table import Table
            class Lost:
                def __del__(self):
                    signal.raise_signal(signal.SIGINT)
            machine.stop_on_signals()
            table = Table.__new__(Table)
            table.switches, table.wrong, table.args, table.hints = [], [], SimpleNamespace(live=True), lambda: "it stays"
            table.acts = table.checksums = lambda *_: None
            lost = Lost()
            del lost
            table.perform(None)
            print("and ends")
        """
        done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT / "tools" / "lib")},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=machine.PATIENCE_S)
        self.assertEqual((done.returncode, done.stdout), (0, "it stays\nand ends\n"), done.stderr)
        self.assertIn("Exception ignored", done.stderr)

    def test_signal_in_a_scene(self):
        process = self.start("--once")
        said = read_until(process.stdout.fileno(), "✔ Pod to Pod".encode())
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM, so_far=said)


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
                self.finish(process, 128 + number)

    def test_signal_at_start(self):
        process = start("--once")
        read_until(process.stdout.fileno(), b"starting the switch")
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM)

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
        self.assertEqual(process.wait(machine.PATIENCE_S), 1)

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
        self.assertEqual(process.wait(machine.PATIENCE_S), 0, rest.decode(errors="replace"))
        os.close(terminal)


class Wrong(Clean):
    """How a demo that goes wrong is told of, and what goes wrong in it."""

    def test_too_slow_is_ended_and_told_of(self):
        program = "import time; print('• begin', '✔ one', '✘ two  IPv4: no answer', '    seen', '✔ three', sep=chr(10), flush=True); time.sleep(600)"
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
        with self.assertRaises(AssertionError) as caught:
            self.finish(process, 0, limit=1)
        self.assertIsNotNone(process.poll())
        first = "not at its end within 1 s; status -15, expected 0\n• begin\n✔ one\n✘ two  IPv4: no answer\n    seen\n--- all that it said\n• begin"
        self.assertIn(first, str(caught.exception))

    def test_ends_of_logs_are_told_first(self):
        said = "• begin\n✔ one\ndemo: 1 wrong: two\n--- the end of vswitchd.log\nWARN"
        self.assertEqual(worst_first("why", said), f"why\ndemo: 1 wrong: two\n--- the end of vswitchd.log\nWARN\n--- all that it said\n{said}")

    def test_between_scenes(self):
        def scenes():
            yield "one", None, [], (4,)
            raise TimeoutError("slow")

        one, (title, action, rules, families) = actions.guarded(scenes())
        self.assertEqual((one[0], rules, families), ("one", [], (4,)))
        self.assertIn("scenes", title)
        try:
            action(4)
        except machine.TROUBLE as error:  # assertRaises would take away where it came from
            words = machine.words_of(error)
        self.assertRegex(words, r"^TimeoutError\('slow'\), at .*test_demo.py:\d+$")


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
                said = process.communicate(timeout=machine.PATIENCE_S)[0].decode()
                self.assertEqual(process.returncode, status, said)
                self.assertIn("usage: tools/demo", said)

    def test_nodes(self):
        for words, why in ((["--nodes", "0"], "--nodes: 1 or 2, not 0"), (["--nodes", "3"], "--nodes: 1 or 2, not 3"), (["--nodes", "two"], "invalid int"),
                           (["--l2", "--nodes", "2"], "leave out --nodes"), (["--l2", "--nodes", "1"], "leave out --nodes")):
            with self.subTest(words):
                process = start(*words, demo=())
                said = process.communicate(timeout=machine.PATIENCE_S)[0].decode()
                self.assertEqual(process.returncode, 2, said)
                self.assertIn(why, said)

    def test_no_binaries(self):
        argv = [str(ROOT / "tools" / "demo"), "--bin-dir", "/nonexistent"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=machine.PATIENCE_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent/vswitchd does not exist", done.stderr)


if __name__ == "__main__":
    unittest.main()
