"""What perf/run makes of the generator's lines and of what `perf record` sampled."""

import contextlib
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest.mock import Mock, patch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "lib"), str(ROOT / "perf")]

from bench import functions, latency, report  # noqa: E402
from bench.generator import Generator  # noqa: E402
from bench.sample import sample  # noqa: E402
from vsw.machine import Failure  # noqa: E402


def result(pps, **changes):
    times = {"min": 0.5, "p50": 1.0, "p90": 2.0, "p99": 3.0, "p99.9": 40.0, "max": 500.0}
    gaps = {"count": 2, "part": 0.0123, "longest_us": 77.0}
    return {"event": "result", "sent_pps": pps, "received_pps": pps, "blocked": 0.5, "lost": 0, "surplus": 0, "reordered": 0,
            "latency_us": times,
            "undisturbed_us": times | {"p99.9": 9.0}, "gaps": gaps} | changes


class Generators(unittest.TestCase):
    def start(self, script):
        """A program instead of vsgen."""
        directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (directory / "vsgen").write_text(f"#!/bin/sh\n{script}\n")
        (directory / "vsgen").chmod(0o755)
        generator = Generator(directory, 0, directory / "log", ["net_null0"], "--rate", "max")
        self.addCleanup(generator.stop)
        return generator

    def test_events_in_order(self):
        generator = self.start("""echo "$@" >&2; printf '{"event":"connected"}\\n{"event":"sta'; sleep 0.2; printf 'rted","pps":7}\\n'""")
        self.assertEqual(generator.event("connected", 10), {"event": "connected"})
        self.assertEqual(generator.event("started", 10)["pps"], 7)
        with self.assertRaisesRegex(Failure, "has ended before it said: result; it complained: --core 0 --port net_null0 --rate max"):
            generator.event("result", 10)

    def test_another_event_or_none_is_a_failure(self):
        generator = self.start("""echo '{"event":"connected"}'; exec sleep 30""")
        with self.assertRaisesRegex(Failure, "was to say result"):
            generator.event("result", 10)
        with self.assertRaisesRegex(Failure, "has said nothing"):
            generator.event("result", 0.1)


class Latency(unittest.TestCase):
    def test_the_trial_without_limit_is_the_sample(self):
        """Its rate is what came through by the generator's count; the times are those of the other
        two."""
        events = iter([{"event": "started"}, result(4_000_000), {"event": "started"}, result(2_000_000, lost=3), {"event": "started"}, result(100_000)])
        generator = Mock(event=lambda name, _limit: next(events))
        dut = Mock()

        def measured(_seconds, body):
            body(_seconds)
            return sample(1000, 1000, 1.0, 10**9, 1.0, 0.0)

        dut.measure = measured
        found = latency.measure(dut, generator, 1.0)
        self.assertEqual(found.mpps, 4.0)
        self.assertEqual((found.figures["half load kpps"], found.figures["half lost"], found.figures["light lost"]), (2000.0, 3, 0))
        self.assertEqual((found.figures["half p99.9 us"], found.figures["half p99.9 us undisturbed"]), (40.0, 9.0))
        self.assertEqual((found.figures["no room %"], found.figures["half generator away %"]), (50.0, 1.23))

    def test_copies_are_a_failure(self):
        events = iter([{"event": "started"}, result(4_000_000, surplus=1)])
        dut = Mock(measure=lambda seconds, body: body(seconds))
        with self.assertRaisesRegex(Failure, "1 packets came more than were sent"):
            latency.measure(dut, Mock(event=lambda *_: next(events)), 1.0)

    def test_times_of_nothing_are_left_out(self):
        nothing = dict.fromkeys(("p50", "p90", "p99", "p99.9", "max"))
        found = latency.figures(result(1), result(1, latency_us=nothing, undisturbed_us=nothing), result(1))
        self.assertNotIn("half p50 us", found)
        self.assertIn("light p50 us", found)


SCRIPT = """  77/78        55d000001010 vswitch_dataplane::worker::poll::run::h0123456789abcdef (/opt/bin/vswitchd)
  77/78        55d000001010 vswitch_dataplane::worker::poll::run::h0123456789abcdef (/opt/bin/vswitchd)
  77/78        55d000001020 vswitch_dataplane::worker::poll::run::h0123456789abcdef (/opt/bin/vswitchd)
  77/78        7f0000000010 [unknown] (/usr/lib/dpdk/librte_net_pcap.so.23.0)
  77/78        7f0000000020 rte_vhost_dequeue_burst (/usr/lib/librte_vhost.so.23.0)
  77/78    ffffffff81000000 clear_page (inlined) ([kernel.kallsyms])
  99/99        55d000001010 other (/opt/bin/vswitchd)
"""
RESOLVED = """0x0000000000001010
core::ptr::read
/rustc/5980/library/core/src/ptr/mod.rs:10
vswitch_dataplane::worker::fast::replay::Replay<T>::apply
/src/vswitch/dataplane/src/worker/fast/replay.rs:99 (discriminator 3)
vswitch_dataplane::worker::poll::run
/src/vswitch/dataplane/src/worker/poll/run.rs:5
0x0000000000001020
??
??:0
"""


class Functions(unittest.TestCase):
    def test_samples_of_the_process_only(self):
        found = functions.samples(SCRIPT, 77)
        self.assertEqual(sum(found.values()), 6)
        self.assertEqual(found[0x55D000001010, "vswitch_dataplane::worker::poll::run::h0123456789abcdef", "/opt/bin/vswitchd"], 2)

    def test_inlined_functions(self):
        found = functions.inlined(RESOLVED)
        self.assertEqual([name for name, _ in found[0x1010]], ["core::ptr::read", "vswitch_dataplane::worker::fast::replay::Replay<T>::apply", "vswitch_dataplane::worker::poll::run"])
        self.assertEqual(found[0x1010][1][1], "/src/vswitch/dataplane/src/worker/fast/replay.rs")
        self.assertEqual(found[0x1020], [("??", "??")])

    def test_places(self):
        frames = functions.inlined(RESOLVED)[0x1010]
        for arguments, place in (
            ((frames, "x", "/bin/vswitchd"), ("worker/fast/replay.rs Replay::apply", "replay")),
            (([("sum", "/src/vswitch/dpdk/src/wide.rs"), *frames[1:]], "x", "/bin/vswitchd"), ("worker/fast/replay.rs Replay::apply", "replay")),
            ((frames[:1], "core::fmt::write", "/bin/vswitchd"), ("fmt::write", "other of the switch")),
            (([], "clear_page", "[kernel.kallsyms]"), ("(kernel)", "kernel")),
            (([], "[unknown]", "/usr/lib/librte_net_pcap.so.23.0"), ("librte_net_pcap", "driver net_pcap")),
            (([], "rte_vhost_dequeue_burst", "/usr/lib/librte_vhost.so.23.0"), ("rte_vhost_dequeue_burst", "receive driver")),
            (([("f", "/home/me/.cargo/registry/src/hashbrown/raw.rs")], "f", "/bin/vswitchd"), ("f", "other of the switch")),
        ):
            with self.subTest(arguments):
                self.assertEqual(functions.place(*arguments), place)

    def test_every_stage_of_a_file_is_of_a_file_that_there_is(self):
        files = [str(path) for directory in ("vswitch", "dpdk-sys") for path in (ROOT / directory).rglob("*") if path.suffix in (".rs", ".c")]
        firsts = {functions.stage(file, functions.STAGES, functions.OTHER) for file in files}
        self.assertEqual(firsts, {name for _, name in functions.STAGES} | {functions.OTHER})

    def test_cycles_add_up(self):
        """600 cycles a packet by 6 samples."""
        recorder = object.__new__(functions.Recorder)
        recorder.pid, recorder.binary, recorder.base, recorder.data = 77, Path("/opt/bin/vswitchd"), 0x55D000000000, Path("data")
        with patch("bench.functions.machine.output", return_value=SCRIPT), patch("bench.functions.subprocess.run") as addr2line:
            addr2line.return_value.stdout = RESOLVED
            found = recorder.functions(600.0)
        self.assertEqual(addr2line.call_args.kwargs["input"], "0x1010\n0x1020\n")
        self.assertEqual(found[0], ("worker/fast/replay.rs Replay::apply", "replay", 200.0))
        self.assertEqual(sum(cycles for *_, cycles in found), 600.0)
        text = functions.table(found)
        self.assertRegex(text, r"200\.0 +33\.3%  replay\n")
        self.assertRegex(text, r"200\.0 +33\.3%  worker/fast/replay\.rs Replay::apply \(replay\)")

    def test_where_the_program_is_in_memory(self):
        maps = "55d000002000-55d000003000 r-xp 00002000 08:01 5 /bin/vswitchd\n55d000000000-55d000002000 r--p 0 08:01 5 /bin/vswitchd\n7f00-7f01 r--p 0 0 0 /lib/x\n"
        self.assertEqual(functions.image(maps, Path("/bin/vswitchd")), (Path("/bin/vswitchd"), 0x55D000000000))
        with self.assertRaises(Failure):
            functions.image(maps, Path("/bin/other"))

    def test_a_missing_tool_is_told(self):
        with patch("bench.functions.shutil.which", side_effect=lambda tool: None if tool == "perf" else "/usr/bin/it"):
            with self.assertRaisesRegex(Failure, "perf is not installed, .*apt-get install linux-perf"):
                functions.Recorder(1, "/tmp")

    def test_the_median_round_is_shown(self):
        rounds = [{"cycles_per_packet": cycles, "functions": [("f", "s", cycles)]} for cycles in (300, 100, 200)]
        self.assertEqual(report.middle_functions({"switch": {"rounds": rounds}}), [("f", "s", 200)])
        self.assertIsNone(report.middle_functions({"ovs": {"rounds": rounds}}))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_a_real_process_is_recorded(self):
        """perf, addr2line and this process: what it spends is found, and adds up."""
        try:
            recorder = functions.Recorder(sorted(os.sched_getaffinity(0))[-1], self.enterContext(tempfile.TemporaryDirectory()))
        except Failure as missing:
            self.skipTest(str(missing))
        before = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, before)
        os.sched_setaffinity(0, {recorder.core})
        found = []
        for seconds in (0.5, 2, 8, 30):  # perf itself may start late on a machine that is busy
            with recorder.recording(os.getpid()):
                machine_time = os.times().user + seconds
                while os.times().user < machine_time:
                    pass
            with contextlib.suppress(Failure):
                found = recorder.functions(1000.0)
                break
        self.assertAlmostEqual(sum(cycles for *_, cycles in found), 1000.0, delta=5.0)


if __name__ == "__main__":
    unittest.main()
