"""Tests of tools/lib/slowest.py."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "lib" / "slowest.py"
REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="2" failures="1">
  <testsuite name="vswitchd::machine" tests="2">
    <testcase name="hosts::two" classname="vswitchd::machine" time="61.5"/>
    <testcase name="hosts::one" classname="vswitchd::machine" time="0.25"><failure>no</failure></testcase>
  </testsuite>
</testsuites>
"""
LOG = """== tools: tools/tests/run
-- test_demo.py: status 0, 52 s
Ran 17 tests in 51.353s
-- test_modes.py: status -9, 7 s
"""


class Slowest(unittest.TestCase):
    def printed(self, *options):
        with tempfile.TemporaryDirectory() as directory:
            report, log = Path(directory) / "tests.xml", Path(directory) / "tools.txt"
            report.write_text(REPORT)
            log.write_text(LOG)
            argv = [sys.executable, "-B", SCRIPT, *options, report, log]
            return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()

    def test_both_kinds_of_tests_are_in_one_list(self):
        self.assertEqual(
            self.printed(),
            [
                "    61.5 s  vswitchd::machine hosts::two",
                "    52.0 s  tools/tests/test_demo.py",
                "     7.0 s  tools/tests/test_modes.py",
                "     0.2 s  vswitchd::machine hosts::one",
            ],
        )

    def test_only_so_many_are_printed(self):
        self.assertEqual(len(self.printed("--number", "1")), 1)


if __name__ == "__main__":
    unittest.main()
