"""tools/demo: that it leaves nothing behind, however it ends, against a stand-in for the switch;
how it is told of when it goes wrong."""

import os
import pty
import signal
import subprocess
import sys
import time
import unittest

from demos import ROOT, Clean, read_until, start, worst_first
from vsw import machine, netns
from vsw.antrea import actions


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
