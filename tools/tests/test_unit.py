"""The systemd unit: what systemd itself says of it."""

import subprocess
import unittest
from pathlib import Path

UNIT = Path(__file__).resolve().parents[1] / "vswitchd.service"
# Keys of newer versions than Debian's, which it ignores
NEWER = ("RestartSteps", "RestartMaxDelaySec")


class Unit(unittest.TestCase):
    def test_exposes_little(self):
        argv = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=35", UNIT]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr)

    def test_starts_again_however_often_it_ends(self):
        lines = UNIT.read_text(encoding="utf-8").splitlines()
        wanted = ["StartLimitIntervalSec=0", "Restart=on-failure", "RestartSec=200ms", "RestartSteps=8", "RestartMaxDelaySec=10s", "LimitCORE=0", "WatchdogSec=5"]
        self.assertEqual([line for line in wanted if line not in lines], [])
        self.assertFalse(any(line.startswith("StartLimitBurst") for line in lines))

    def test_has_no_key_that_systemd_does_not_know(self):
        done = subprocess.run(["systemd-analyze", "verify", UNIT], capture_output=True, text=True, check=False)
        lines = [line for line in done.stderr.splitlines() if UNIT.name in line]
        odd = [line for line in lines if not any(f"'{key}'" in line for key in NEWER) and "is not executable" not in line]
        self.assertEqual(odd, [])
