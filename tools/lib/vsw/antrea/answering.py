"""An agent that answers packets in the switch's place: it is told of each, and says what becomes of
it."""

import contextlib
import json
import subprocess
import threading

from .. import machine
from ..machine import PATIENCE_S, Failure


class Answerer:
    """Answers packets of a category with these verdicts, one after the other, the last one for all
    that follow; while in its `with`."""

    def __init__(self, switch, category, *verdicts):
        self.switch, self.category, self.verdicts = switch, category, list(verdicts)
        self.told, self.problems = [], []

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            argv = self.switch.command("--json", "antrea", "events", "--kind", "packet-to-answer")
            self.process = machine.spawn(argv, stdout=subprocess.PIPE, text=True)
            stack.callback(machine.end, self.process)
            self.begun = threading.Event()
            thread = threading.Thread(target=self._run, daemon=True)
            thread.start()
            if not self.begun.wait(PATIENCE_S):
                raise Failure("nobody tells what is to be answered")
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def _run(self):
        for line in self.process.stdout:
            event = json.loads(line)
            if event.get("event") == "started":
                self.begun.set()
            elif event.get("event") == "packet-to-answer":
                self.told.append(event)
                verdict = self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0]
                try:
                    self.switch.vsctl("antrea", "answer", event["token"], verdict)
                except Failure as failure:
                    self.problems.append(str(failure))

    def check(self, least):
        """What was told; Failure if that was not enough, of another kind, or could not be
        answered."""
        if self.problems:
            raise Failure(f"not answered: {self.problems}")
        if len(self.told) < least or any(event["category"] != self.category for event in self.told):
            raise Failure(f"{least} packets of {self.category} are to be answered, told: {self.told}")
        return self.told
