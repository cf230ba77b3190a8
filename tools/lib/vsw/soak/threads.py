"""Tests with several threads, under ThreadSanitizer.

The compiler's own library is not instrumented, so ThreadSanitizer does not see that a thread was
joined. What is said of that is left out by name; `SUPPRESSED` has the reasons.
"""

import os
import re
from pathlib import Path

from .. import machine
from ..machine import Failure

TRIPLE = "x86_64-unknown-linux-gnu"
WARNING = "WARNING: ThreadSanitizer"
# Crates, what cargo is told of them, and the tests that have threads.
TESTS = (
    ("vswitch-quiescence", (), ()),
    ("vswitch-conntrack", (), ("tracker::tests::owned", "tracker::tests::shares_exact", "tracker::tests::stress")),
    ("vswitch-overlay", (), ("neighbours",)),
    ("vswitch-dataplane", ("--no-default-features",), ("pipeline::learned::tests::threads", "pipeline::fdb", "pipeline::controllers", "worker::control", "meter")),
)
# A million connections take too long.
LEFT_OUT = "million"
SUPPRESSED = """\
# What a thread returns, and that it has ended: the library's, told by its own atomics.
race:std::thread::lifecycle::Packet
race:std::thread::scoped::ScopeData
race:std::thread::thread::Inner
# The test runner's channel.
race:test::event::CompletedTest
# What a test drops when its threads have ended: the join is not seen.
race:drop_in_place
"""


class Threads:
    """The build, and what has been found."""

    def __init__(self, directory):
        self.directory = Path(directory)
        (self.directory / "suppressed").write_text(SUPPRESSED)

    def run(self, say):
        """All of them; Failure when there is a race."""
        found = []
        for crate, how, tests in TESTS:
            reports = self.crate(crate, how, tests)
            say(f"threads: {crate}: {len(reports)} races")
            found += reports
        for report in found:
            print(report, flush=True)
        if found:
            raise Failure(f"{len(found)} races")

    def crate(self, crate, how, tests):
        """The reports of a crate's tests."""
        argv = ["cargo", "test", "--locked", "--target", TRIPLE, "--target-dir", machine.ROOT / "target" / "tsan", "-p", crate, *how, "--lib", "--"]
        argv += ["--skip", LEFT_OUT, *tests]
        # The variable stands in place of what .cargo/config.toml says of the CPU.
        flags = "-Ctarget-cpu=x86-64-v3 -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
        options = f"suppressions={self.directory / 'suppressed'} exitcode=66 log_path={self.directory / crate}"
        more = {"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": flags, "TSAN_OPTIONS": options, "CARGO_TERM_COLOR": "never"}
        log = self.directory / f"{crate}.log"
        with open(log, "w", encoding="utf-8") as file:
            process = machine.spawn(argv, stdout=file, stderr=file, cwd=machine.ROOT, env={**os.environ, **more})
            status = process.wait()
        text = log.read_text(errors="replace")
        reports = [report for path in self.directory.glob(f"{crate}.[0-9]*") for report in self.split(path)]
        if not (passed := re.search(r"test result: ok\. (\d+) passed", text)) or (status and not reports):
            raise Failure(f"the tests of {crate} ended with status {status}:\n" + "\n".join(text.splitlines()[-40:]))
        if int(passed[1]) == 0:
            raise Failure(f"{crate} has no such tests: {', '.join(tests)}")
        return reports

    @staticmethod
    def split(path):
        """The reports of a file."""
        _, *reports = path.read_text(errors="replace").split(WARNING)
        return [WARNING + report for report in reports]
