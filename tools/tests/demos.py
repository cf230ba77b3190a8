"""What tests of tools/demo share: how one is started and read, what it could leave behind, and how
what is wrong with it is told."""

import os
import select
import subprocess
import sys
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine, netns  # noqa: E402

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
    """What is wrong with what a demo said, the lines that tell why, then all: of a long text, only
    the beginning may be seen."""
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
    """On vswitchd, vsctl and vswitch-agent as `cargo build` makes them."""

    BINARIES = ROOT / "target" / "debug"

    def start(self, *words, **options):
        return self.started(start(*words, binaries=self.BINARIES, demo=(), **options))
