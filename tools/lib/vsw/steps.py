"""What a demo is doing, step by step: which of how many, how long it takes as a rule, and how long
it took."""

import collections
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time

from . import machine
from .machine import Failure

CLEAR_LINE = "\x1b[K"
TAIL = 30  # lines of what a command said that failed
TICK_S = 1.0


class Steps:
    """So many steps. Each begins with a line such as `[2/5] building (about 4 min the first
    time)`."""

    def __init__(self, total):
        self.total, self.number, self.title, self.began = total, 0, "", time.monotonic()

    @contextlib.contextmanager
    def step(self, what, expected=""):
        """What is done inside is the next one; its time is printed at the end."""
        began = self._begin(what, expected)
        print(self.title, flush=True)
        yield
        print(f"      ... {seconds(time.monotonic() - began)}", flush=True)

    def run(self, argv, what, expected="", **options):
        """A command as the next step. A terminal shows its last line and the time so far; what it
        said is printed when it fails."""
        began = self._begin(what, expected)
        is_terminal = sys.stdout.isatty()
        print(self.title, end="" if is_terminal else "\n", flush=True)
        process = machine.spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
        try:
            said = self._watch(process, began, is_terminal)
            status = process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            machine.end(process, 5)
            raise
        end = f"      ... {seconds(time.monotonic() - began)}"
        print(f"\r{self.title} {end.strip()}{CLEAR_LINE}" if is_terminal else end, flush=True)
        if status:
            raise Failure("\n".join([*said, f"`{' '.join(map(str, argv))}` failed with status {status}"]))

    def _begin(self, what, expected):
        self.number += 1
        self.title = f"[{self.number}/{self.total}] {what}" + (f" ({expected})" if expected else "")
        return time.monotonic()

    def _watch(self, process, began, is_terminal):
        """Reads all that it says; the last lines of it."""
        said, unread = collections.deque([""], TAIL), b""
        while True:
            machine.check_stop()
            if select.select([process.stdout], [], [], TICK_S)[0]:
                data = os.read(process.stdout.fileno(), 65536)
                if not data:
                    return said
                *lines, unread = (unread + data).split(b"\n")
                said.extend(line.decode(errors="replace") for line in lines)
            if is_terminal:
                shown = f"{self.title} ... {seconds(time.monotonic() - began)}  {said[-1].strip()}"
                print(f"\r{shown[: shutil.get_terminal_size().columns - 1]}{CLEAR_LINE}", end="", flush=True)

    def all_in(self):
        """How long all of them took."""
        return seconds(time.monotonic() - self.began)


def seconds(number):
    """In words: `31 s`, `4 min 5 s`."""
    number = round(number)
    return f"{number} s" if number < 60 else f"{number // 60} min {number % 60} s"
