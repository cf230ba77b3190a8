"""System calls that fail while a switch starts, works and stops.

What must hold: the switch does not panic, and no signal ends it; it becomes healthy, or ends with a
status and a word why; what it leaves behind is what another switch would.
"""

import os
import random
import signal
from pathlib import Path

from .. import daemon, machine
from ..machine import Failure
from .faults import Bed
from .inject import CALLS, INJECTED, LIBRARY, sweep

MOST = 3000
# The runtime's library tells signals to itself by a pair of sockets, and takes an error for a fault
# of its own: a panic, or a signal that is lost.
OF_SIGNALS = ("sendto", "recvfrom")
READY = "ready: "


class LifeFaults:
    """The bed, and what has been found. Beyond the third call of a kind, `share` of them fail."""

    def __init__(self, binaries, directory, stack, seed=1, share=0.02):
        self.bed, self.share, self.chance = Bed(binaries, directory, stack), share, random.Random(seed)
        self.log = self.bed.directory / "strace.log"
        self.injected, self.of_library, self.ended, self.found = 0, 0, 0, []

    def run(self, say, until, calls=None):
        """All calls, or these."""
        self.bed.start()
        self.bed.switch.stop()
        self.left = self.bed.left()
        for call, errors in (calls or CALLS).items():
            if call in OF_SIGNALS:
                continue
            before = self.injected
            if not sweep("start and stop", {call: errors}, MOST, until, lambda: self.chance.random() <= self.share, self.fault):
                return
            say(f"start and stop: {call}: {self.injected - before} faults")

    def fault(self, fault):
        """One fault; whether there was a call to fail."""
        (self.bed.directory / "vswitchd.log").unlink(missing_ok=True)
        self.log.write_text("")
        left = self.bed.left()
        under = [*fault.command(self.log), "--seccomp-bpf"]
        switch = self.bed.switch = daemon.Switch(self.bed.binaries, self.bed.directory, self.bed.config(), self.bed.space.name, under=under)
        try:
            self.live(switch)
            self.judge(switch, left, fault)
        except Failure as failure:
            self.note(fault, switch, failure)
        finally:
            # It does not end with strace.
            for child in children(switch.process.pid):
                os.kill(child, signal.SIGKILL)
            machine.end(switch.process)
        there = INJECTED in self.log.read_text(errors="replace")
        self.injected += there
        return there

    def note(self, fault, switch, failure):
        """Something has been found, or it is the library's: the loader's, or that of threads."""
        status, said = switch.process.poll(), self.bed.panicked() or ""
        is_silent = fault.call == "mmap" and (status in (None, 127) or status < 0) and not said
        if is_silent or LIBRARY.search(said):
            self.of_library += 1
            return
        self.found.append(f"{fault}: {failure}")
        print(f"soak: FOUND {self.found[-1]}", flush=True)

    def live(self, switch):
        """Until it is ready, and its stop."""
        log = switch.directory / "vswitchd.log"
        machine.expect("it is ready, or has ended", lambda: switch.process.poll() is not None or READY in log.read_text(errors="replace"), switch.log_tail)
        if switch.process.poll() is not None:
            self.ended += 1
            return
        try:
            switch.wait_ready()
        except Failure:
            # It may end behind its start, too, with a word why.
            if switch.process.poll() is None:
                raise
            self.ended += 1
            return
        # strace would only let go of it.
        for child in children(switch.process.pid):
            os.kill(child, signal.SIGTERM)
        machine.expect("it has ended", lambda: switch.process.poll() is not None, switch.log_tail)

    def judge(self, switch, before, fault):
        """What must hold when it has ended. A switch that was killed before may have left a socket,
        which the next one replaces."""
        if line := self.bed.panicked():
            raise Failure(line)
        status, text = switch.process.returncode, (switch.directory / "vswitchd.log").read_text(errors="replace")
        if status < 0 or status > 127:
            raise Failure(f"it ended with status {status}:\n{switch.log_tail()}")
        if status and not text.strip():
            raise Failure(f"it ended with status {status}, without a word")
        left = self.bed.left()
        # What cannot be removed stays.
        if left not in (before, self.left) and fault.call != "unlink":
            raise Failure(f"it ended with status {status} and left {left}, not {self.left}:\n{switch.log_tail()}")


def children(pid):
    """Processes that this one has started; none if it has ended."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
