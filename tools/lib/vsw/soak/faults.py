"""System calls that fail, one after the other, in a running switch.

For each operation (a port of each kind is added and deleted, a client asks) and each system call
with an error that the kernel may give: the first call of each thread fails, then the second, until
none is left to fail. strace(1) injects the error; it counts by thread. `kept_faults` does the same
with the files of an agent's objects, `life_faults` with start and stop.

What must hold:

- The switch does not panic, and no signal ends it.
- The operation succeeds, or its error names the cause.
- Afterwards the switch is healthy, and the same operation succeeds.
- Descriptors and threads are as many as before; no interface and no socket is left behind.
"""

import os
import random
import re
import subprocess
import time
from pathlib import Path

from .. import daemon, machine, netns
from ..machine import Failure
from .inject import CALLS, INJECTED, LIBRARY, PANIC, attach, detach, sweep, threads

POOL = "control"  # threads that end when they have had nothing to do for 10 s
POOL_IDLE_S = 11
MOST = 400  # calls of one kind in one operation
AS_BEFORE_S = 20


class Bed:
    """A namespace with what ports need, and a switch in it."""

    def __init__(self, binaries, directory, stack):
        self.binaries, self.directory, self.switch = Path(binaries), Path(directory), None
        name = f"vt{os.getpid()}-faults"
        stack.callback(netns.remove_namespace, name)
        self.space = netns.Space(name)
        self.space.ip("link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
        self.space.ip("link", "set", "veth0", "up")
        self.space.ip("link", "set", "veth1", "up")
        stack.callback(lambda: self.switch and machine.end(self.switch.process))

    def config(self):
        """Of the switch: an idle worker sleeps long, since strace stops it at each call."""
        cores = machine.cores()
        dpdk = {"worker_cores": [cores[-1]], "main_core": cores[0], "memory_mb": 256, "hugepages": False, "file_prefix": f"vt{os.getpid()}f"}
        ports = [{"name": "gw0", "type": "internal"}, {"name": "wire", "type": "af_packet", "interface": "veth1"}]
        kept = {"conntrack": {"state_file": str(self.directory / "connections")}}
        return daemon.configuration(dpdk, ports, self.directory, idle_sleep_us=5000, **kept)

    def start(self):
        """A switch without faults."""
        self.switch = daemon.Switch(self.binaries, self.directory, self.config(), self.space.name)
        self.switch.wait_ready()

    def start_over(self, number):
        """After a fault that it did not survive; its log is kept under this number."""
        machine.end(self.switch.process)
        (self.directory / "vswitchd.log").rename(self.directory / f"vswitchd.log.{number}")
        self.start()

    def left(self):
        """Interfaces of its namespace, and sockets: what may outlive a switch."""
        links = sorted(re.findall(r"^\d+: ([^:@]+)", self.space.ip("link", "show"), re.M))
        return {"interfaces": links, "sockets": sorted(file.name for file in self.directory.iterdir() if file.is_socket())}

    def held(self):
        """What a switch has beside: descriptors by kind, threads but for the pool."""
        pid, kinds = self.switch.process.pid, []
        for one in Path(f"/proc/{pid}/fd").iterdir():
            try:
                kinds.append(re.sub(r"\d+", "N", os.readlink(one)))
            except OSError:  # it was closed
                continue
        return {"descriptors": sorted(kinds), "threads": [name for name in threads(pid) if name != POOL], **self.left()}

    def panicked(self):
        """A line of the log that no fault may cause."""
        text = (self.directory / "vswitchd.log").read_text(errors="replace")
        return next((line for line in text.splitlines() if PANIC.search(line)), None)


def operations(directory):
    """What is done while calls fail, by name: the words of vsctl, and those that take it back."""
    port, gone = ["add-port", "br0", "p1", "--type"], ["del-port", "br0", "p1"]
    return {
        "af_packet": ([*port, "af_packet", "--interface", "veth0"], gone),
        "tap": ([*port, "tap", "--interface", "tap0"], gone),
        "internal": ([*port, "internal"], gone),
        "vhost server": ([*port, "vhost-user", "--path", str(directory / "p1.sock"), "--mode", "server"], gone),
        "vhost client": ([*port, "vhost-user", "--path", str(directory / "none.sock")], gone),
        "pcap": ([*port, "pcap", "--tx-file", str(directory / "out.pcap")], gone),
        "geneve": ([*port, "geneve", "--option", "remote_ip=10.0.0.9"], gone),
        "bridge": (["add-br", "br1"], ["del-br", "br1"]),
        "statistics": (["dump-ports", "br0"], None),
    }


class Faults:
    """The bed, and what has been found."""

    def __init__(self, binaries, directory, stack, seed=1, share=1.0):
        self.bed, self.share, self.chance = Bed(binaries, directory, stack), share, random.Random(seed)
        self.log, self.held = Path(directory) / "strace.log", None
        self.injected, self.refused, self.of_library, self.found = 0, 0, 0, []

    def run(self, say, until, names=(), calls=None):
        """All operations, or those of these names; all calls, or these."""
        self.bed.start()
        for name, (there, back) in operations(self.bed.directory).items():
            if names and name not in names:
                continue
            before = self.injected
            self.operation(name, there, back, until, calls or CALLS)
            say(f"{name}: {self.injected - before} faults")
        self.bed.switch.stop()

    def operation(self, name, there, back, until, calls):
        """One operation, and what takes it back, under all faults."""
        self.settle(there, back)
        sweep(name, calls, MOST, until, lambda: self.chance.random() <= self.share, lambda fault: self.fault(fault, there, back))

    def settle(self, there, back):
        """Does it once, so that what a switch keeps for good it has; then what it has is noted."""
        for words in (there, back):
            if words:
                self.bed.switch.vsctl(*words)
        seen = []

        def same():
            seen.append(self.bed.held())
            return len(seen) >= 3 and seen[-1] == seen[-2] == seen[-3]

        machine.expect("the switch is settled", same)
        self.held = seen[-1]

    def fault(self, fault, there, back):
        """One fault; whether there was a call to fail."""
        self.log.write_text("")
        if fault.call == "clone3":
            self.wait_for_pool()
        tracer = attach(fault, self.log, self.bed.switch.process.pid)
        try:
            done = [self.try_(words) for words in (there, back) if words]
        finally:
            detach(tracer)
        injected = INJECTED in self.log.read_text(errors="replace")
        try:
            self.judge(there, back, done)
        except Failure as failure:
            self.note(f"{fault}: {failure}")
            self.bed.start_over(len(self.found) + self.of_library)
            self.settle(there, back)
        self.injected += injected
        return injected

    def note(self, what):
        """Something has been found, or it is the library's."""
        if LIBRARY.search(what):
            self.of_library += 1
            return
        self.found.append(what)
        print(f"soak: FOUND {what}", flush=True)

    def wait_for_pool(self):
        """Until idle threads of the pool have ended, so that an operation may need a new one."""
        last, since = None, time.monotonic()
        while time.monotonic() - since < POOL_IDLE_S:
            now = threads(self.bed.switch.process.pid).count(POOL)
            if last is None or now < last:
                last, since = now, time.monotonic()
            time.sleep(0.1)

    def try_(self, words):
        """vsctl; its status, and what it said on the standard error."""
        argv = self.bed.switch.command(*words)
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=machine.PATIENCE_S, check=False)
        self.refused += done.returncode != 0
        return done.returncode, done.stderr.strip()

    def judge(self, there, back, done):
        """What must hold after a fault."""
        switch = self.bed.switch
        if line := self.bed.panicked():
            raise Failure(line)
        if switch.process.poll() is not None:
            raise Failure(f"the switch ended with status {switch.process.returncode}:\n{switch.log_tail()}")
        switch.wait_ready()
        if any(status and not said for status, said in done):
            raise Failure(f"an error without a word: {done}")
        if back:
            self.try_(back)  # in case it is still there
        for words in (there, back):
            if words:
                switch.vsctl(*words)
        seen = []

        def same():
            seen.append(self.bed.held())
            return seen[-1] == self.held

        try:
            machine.wait_until("all is as before", AS_BEFORE_S, same, 0.05)
        except Failure as failure:
            raise Failure(f"{failure}: {difference(self.held, seen[-1])}") from failure


def difference(before, after):
    """What is more or less, by kind."""
    told = []
    for key, value in before.items():
        more, less = list(after[key]), list(value)
        for one in value:
            if one in more:
                more.remove(one)
                less.remove(one)
        if more or less:
            told.append(f"{key}: more {more}, less {less}")
    return "; ".join(told)
