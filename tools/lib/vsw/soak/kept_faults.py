"""System calls on the files of an agent's objects that fail, while an agent syncs.

Twice for each fault. First a sync without faults follows, and a SIGKILL at once. Then the switch
has the time that it needs, and is killed.

What must hold:

- A gate that is open after the kill has every round that the switch has acknowledged.
- In the end everything is on the disk, and the next start is open.
"""

import time

from .. import machine
from ..antrea import generated
from ..antrea.four_pods import FourPods, kill
from ..machine import Failure
from .inject import FILE_CALLS, INJECTED, PANIC, Fault, attach, detach

SIZE = generated.Size(1, 1, 2)
WRITTEN_S = 2.5  # for what is written at most once a second
MOST = 40


class KeptFaults:
    """The Node, and what has been found."""

    def __init__(self, binaries, directory, stack):
        self.node = FourPods(binaries, directory, SIZE, stack)
        kept = self.node.kept
        self.paths = tuple(str(path) for path in (kept, kept / "state", kept / "state.new", kept / "unwritten"))
        self.log, self.seed = self.node.directory / "strace.log", 0
        self.groups, self.injected, self.of_library, self.found = (), 0, 0, []

    def run(self, say, until, calls=None, groups=None):
        """All calls, or these; on each group of paths, all of them and the directory alone, or on
        these."""
        self.groups = groups or (self.paths, self.paths[:1])
        self.node.start_switch()
        self.sync()
        self.settled()
        for call, errors in (calls or FILE_CALLS).items():
            before = self.injected
            for error in errors:
                self.numbers(call, error, until)
            say(f"objects: {call}: {self.injected - before} faults")
        self.node.switch.stop()

    def numbers(self, call, error, until):
        """The first call, the second, until there is none."""
        for paths in self.groups:
            for number in range(1, MOST):
                fault = Fault("sync", call, error, number, paths)
                if time.monotonic() > until or not self.fault(fault):
                    break

    def fault(self, fault):
        """One fault; whether there was a call to fail."""
        try:
            there = self.under(fault)
            self.killed_at_once()
            if there:
                self.under(fault)
                self.killed_when_settled()
        except Failure as failure:
            self.found.append(f"{fault}: {failure}")
            print(f"soak: FOUND {self.found[-1]}", flush=True)
            machine.end(self.node.switch.process)
            self.node.start_switch()
            self.sync()
            self.settled()
            there = True
        self.injected += there
        return there

    def under(self, fault):
        """A sync under a fault; whether there was a call to fail."""
        self.log.write_text("")
        tracer = attach(fault, self.log, self.node.switch.process.pid)
        end = time.monotonic() + WRITTEN_S
        try:
            self.sync(must=False)
            while time.monotonic() < end and INJECTED not in self.log.read_text(errors="replace"):
                time.sleep(0.01)
        finally:
            detach(tracer)
        text = (self.node.directory / "vswitchd.log").read_text(errors="replace")
        if line := next((line for line in text.splitlines() if PANIC.search(line)), None):
            raise Failure(line)
        return INJECTED in self.log.read_text(errors="replace")

    def sync(self, must=True):
        """An agent tells everything, something else each time."""
        self.seed += 1
        generated.write(self.node.manifests, SIZE, self.seed)
        with open(self.node.directory / "agent.log", "ab") as log:
            agent = machine.spawn(self.node.agent_command("--once"), stdout=log, stderr=log)
        if agent.wait(machine.PATIENCE_S) and must:
            raise Failure(f"a sync ended with status {agent.returncode}")

    def is_marked(self):
        """The disk says that it may lack something."""
        return (self.node.kept / "unwritten").exists()

    def settled(self):
        """Everything is on the disk, and the switch says so."""
        state = self.node.kept / "state"
        machine.expect("everything is on the disk", lambda: state.exists() and not self.is_marked() and not self.node.state()["unwritten"], self.node.state)

    def start(self):
        """Kills the switch and starts it; what it says of itself."""
        kill(self.node.switch.process)
        self.node.start_switch()
        return self.node.state()

    def killed_at_once(self):
        """After another sync, without faults."""
        self.sync()
        acknowledged = self.node.state()["round"]
        state = self.start()
        if state["gate_open"] and state["round"] < acknowledged:
            raise Failure(f"open with round {state['round']}, and {acknowledged} was acknowledged")
        self.sync()
        self.settled()

    def killed_when_settled(self):
        """Everything has come to the disk."""
        self.settled()
        before = self.node.state()["round"]
        state = self.start()
        if not state["gate_open"] or state["round"] != before:
            raise Failure(f"everything was on the disk, and round {state['round']} of {before} is {'open' if state['gate_open'] else 'shut'}")
