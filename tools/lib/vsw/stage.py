"""What every demo needs: its directory and names, hugepages, cores, and that nothing stays behind,
however it ends."""

import itertools
import json
import os
import shutil
import tempfile
from pathlib import Path

from . import daemon, machine, netns
from .machine import Failure

MEMORY_MB = 256
PREFIX = "vswitch-demo."


def say(text):
    """A line on the standard output, at once."""
    print(text, flush=True)


class Leftovers:
    """What must be undone, also written down for the next demo in case this one is killed with
    SIGKILL."""

    def __init__(self, directory):
        self.file = Path(directory) / "state.json"
        self.state = {"pid": os.getpid(), "namespaces": [], "interfaces": [], "hugepages": None}
        self.add()

    def add(self, namespace=None, interface=None, hugepages=None):
        """Notes something, before it is made."""
        self.state["namespaces"] += [namespace] if namespace else []
        self.state["interfaces"] += [interface] if interface else []
        self.state["hugepages"] = hugepages or self.state["hugepages"]
        self.file.write_text(json.dumps(self.state))


def runtime_root():
    """Where the demo's directory goes: for root only, gone after a reboot."""
    return Path("/run") if os.access("/run", os.W_OK) else Path(tempfile.gettempdir())


def sweep():
    """Removes what a demo left that was killed with SIGKILL (its processes died with it)."""
    for directory in runtime_root().glob(f"{PREFIX}*"):
        try:
            if directory.stat().st_uid != os.geteuid():
                continue
            state = json.loads((directory / "state.json").read_text())
            if Path(f"/proc/{int(state['pid'])}").exists():
                continue
            say(f"• removing what a demo left behind that was killed: {', '.join(state['namespaces']) or directory}")
            for name in state["namespaces"]:
                netns.remove_namespace(name)
            for name in set(state["interfaces"]) & netns.interfaces():
                netns.ip("link", "delete", name)
            before, after = state["hugepages"] or (None, None)
            control = machine.HUGEPAGES / "nr_hugepages"
            if before is not None and int(control.read_text()) == after:
                control.write_text(f"{before}\n")
            shutil.rmtree(directory)
        except (OSError, ValueError, KeyError, TypeError, Failure) as error:
            say(f"  note: {directory} could not be cleaned up: {error}")


class Stage:
    """A demo's directory, tag, cores and memory. `stack` undoes it all."""

    SWITCHES = 1

    def __init__(self, args, stack):
        self.args, self.stack = args, stack
        self.directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=runtime_root()))
        stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self.leftovers = Leftovers(self.directory)
        self.tag = self._free_tag()
        available = machine.cores()
        self.worker_core, self.main_core = available[-1], available[0]
        self.other_cores = set(available[:-1]) or None

    @staticmethod
    def _free_tag():
        """Part of all names; another demo may run."""
        taken = netns.namespaces() | netns.interfaces()
        for number in itertools.count(1):
            tag = "vsd" if number == 1 else f"vsd{number}"
            if not any(name.startswith(f"{tag}-") for name in taken):
                return tag

    def hugepages(self):
        """Whether the switch gets hugepages."""
        if self.args.hugepages is False:
            return False
        reserve = machine.HugepageReserve()
        self.stack.callback(lambda: report_note(reserve.undo()))
        reserve.take(MEMORY_MB // 2 * self.SWITCHES)
        if reserve.ok:
            self.leftovers.add(hugepages=[reserve.before, reserve.after] if reserve.before != reserve.after else None)
            return True
        if self.args.hugepages:
            raise Failure(f"{reserve.note}; leave out --hugepages to run without")
        say(f"  note: {reserve.note}; the switch runs on ordinary memory, slower")
        return False

    def dpdk(self):
        """The [dpdk] part of the configuration."""
        return {
            "worker_cores": [self.worker_core],
            "main_core": self.main_core,
            "memory_mb": MEMORY_MB,
            "hugepages": self.hugepages(),
            "file_prefix": f"{self.tag}.{os.getpid()}",
        }

    @property
    def idle_sleep_us(self):
        """On few cores workers that never sleep would leave little to anybody else, and to each
        other."""
        return 0 if len(machine.cores()) > 3 else daemon.IDLE_SLEEP_US


def report_note(text):
    """Says something if there is something to say."""
    if text:
        say(f"  note: {text}")
