"""`vswitch-agent --host` in a Node's namespace: it sets up the host as the switch plans it."""

import contextlib
import json

from .. import machine
from ..machine import Failure

PERIOD_MS = "200"


class HostAgent:
    """The agent, in `namespace`, until `stack` ends; its state is in `directory`. What it has done
    stays, and goes with the namespace."""

    def __init__(self, switch, namespace, directory, stack):
        self.switch, self.namespace, self.directory = switch, namespace, directory
        self.log, self.process = directory / "vswitch-agent-host.log", None
        stack.callback(self.end)

    def argv(self, *words):
        """The command, with these words."""
        return ["ip", "netns", "exec", self.namespace, self.switch.binaries / "vswitch-agent", "--socket", self.switch.socket,
                "--state", self.directory / "host-state", *words]

    def launch(self):
        """Starts it (again)."""
        with open(self.log, "ab") as log:
            self.process = machine.spawn(self.argv("--host", "--period-ms", PERIOD_MS), stdout=log, stderr=log)

    def start(self):
        """Starts it, and waits until the host is as planned."""
        self.launch()
        self.settled()

    def once(self):
        """Applies the plan of now; Failure with a problem."""
        machine.output(self.argv("--host", "--once"))

    def clear(self):
        """Takes back what it has done; Failure with a problem."""
        machine.output(self.argv("--host-clear"))

    def settled(self):
        """Waits until the whole plan of what is in force now is applied, without a problem."""
        machine.expect("the host is as planned", self._is_settled, self.told)

    def _is_settled(self):
        if self.process.poll() is not None:
            raise Failure(f"vswitch-agent --host ended with status {self.process.returncode}; its log:\n{self.log.read_text()}")
        told = self.told()
        plan = json.loads(machine.output(self.argv("--host-plan", "--json")))
        wrong = [one for one in (told or {}).get("problems", []) if one["code"] != "REPAIRED"]
        return bool(told) and plan["complete"] and told["generation"] == plan["generation"] and not wrong

    def told(self):
        """What the switch knows of the host."""
        return self.switch.json("antrea", "status")["host"]

    def repaired(self):
        """What it has put right: items."""
        return [one["item"] for one in self.told()["problems"] if one["code"] == "REPAIRED"]

    def end(self):
        """Ends it; what it has done stays."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                machine.end(self.process)
            self.process = None
