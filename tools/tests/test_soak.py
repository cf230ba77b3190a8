"""What tools/soak checks, in short: some kills, and some system calls that fail."""

import contextlib
import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw.soak import faults, inject, kept_faults, kills, life_faults  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
FOREVER = float("inf")


def quiet(_):
    """Nothing is told."""


class Soak(unittest.TestCase):
    """Each check has a directory and namespaces of its own."""

    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-soak.")))
        self.stack = self.enterContext(contextlib.ExitStack())

    def test_kills(self):
        check = kills.Kills(BINARIES, self.directory, 11, self.stack)
        check.run(8, FOREVER, quiet)
        self.assertGreaterEqual(check.counts["kills"], 8)
        self.assertGreater(check.counts["open"], 0, check.summary())
        self.assertGreater(check.counts["allowed seen"], 0, check.summary())

    def test_faults_of_a_port(self):
        check = faults.Faults(BINARIES, self.directory, self.stack)
        calls = {call: inject.CALLS[call] for call in ("openat", "socket", "bind", "setsockopt", "mmap")}
        check.run(quiet, FOREVER, ("af_packet",), calls)
        self.assertEqual(check.found, [])
        self.assertGreater(check.injected, 10)
        self.assertGreater(check.refused, 5)

    def test_faults_of_an_agents_objects(self):
        check = kept_faults.KeptFaults(BINARIES, self.directory, self.stack)
        # The descriptors run out when the directory is to be opened.
        check.run(quiet, FOREVER, {"openat": ("EMFILE",)}, (check.paths[:1],))
        self.assertEqual(check.found, [])
        self.assertGreater(check.injected, 0)

    def test_faults_of_start_and_stop(self):
        check = life_faults.LifeFaults(BINARIES, self.directory, self.stack, share=0)
        check.run(quiet, FOREVER, {"socket": ("EMFILE",), "listen": ("ENOMEM",), "clone3": ("EAGAIN",)})
        self.assertEqual(check.found, [])
        self.assertGreater(check.injected, 3)
        self.assertGreater(check.ended, 0, "no fault ended a start")


if __name__ == "__main__":
    unittest.main()
