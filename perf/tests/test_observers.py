"""What looks at a real switch while it is measured."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "lib"), str(ROOT / "perf")]

from bench import observers  # noqa: E402
from vsw import daemon, machine  # noqa: E402
from vsw.machine import Failure  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))


class Looking(unittest.TestCase):
    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-perf.")))
        self.metrics, self.core = self.directory / "metrics.sock", machine.cores()[0]
        dpdk = {"hugepages": False, "memory_mb": 256, "file_prefix": f"vo{os.getpid()}", "worker_cores": [machine.cores()[-1]], "main_core": self.core}
        port = {"name": "p1", "type": "pcap", "tx_file": str(self.directory / "sent.pcap")}
        config = daemon.configuration(dpdk, [port], self.directory, idle_sleep_us=1000)
        self.switch = daemon.Switch(BINARIES, self.directory, f"{config}\n[observe]\nmetrics = \"unix:{self.metrics}\"\n")
        self.addCleanup(self.switch.stop)
        self.switch.wait_ready()

    def in_progress(self, method):
        """Calls of a method that are open."""
        methods = self.switch.json("calls-show")["methods"]
        return sum(one["in_progress"] for one in methods if one["method"].endswith(method))

    def test_drops_are_sampled_and_metrics_scraped(self):
        with observers.observing(self.switch, self.core, self.metrics):
            machine.wait_until("a watch of drops", 30, lambda: self.in_progress("WatchDrops") == 1)
            self.assertIn(b"vswitch_up_seconds", observers._answer(self.metrics))
        machine.wait_until("the watch ends", 30, lambda: self.in_progress("WatchDrops") == 0)

    def test_a_capture_runs(self):
        for which in ("port", "all"):
            with observers.capturing(self.switch, self.core, which):
                machine.wait_until("a capture", 30, lambda: self.in_progress("Capture") == 1)
            machine.wait_until("the capture ends", 30, lambda: self.in_progress("Capture") == 0)

    def test_metrics_that_are_not_shown_fail_the_measurement(self):
        with self.assertRaisesRegex(Failure, "metrics were not shown"), observers.observing(self.switch, self.core, self.directory / "none"):
            machine.wait_until("a watch of drops", 30, lambda: self.in_progress("WatchDrops") == 1)


if __name__ == "__main__":
    unittest.main()
