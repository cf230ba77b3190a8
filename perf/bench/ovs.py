"""Open vSwitch as a peer: OVS-DPDK (Debian's openvswitch-switch-dpdk) with one PMD thread on the core under test, or without DPDK."""

import os
import re
import time
from pathlib import Path

from vsw import machine
from vsw.machine import Failure

DAEMONS = {
    True: Path("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"),
    False: Path("/usr/lib/openvswitch-switch/ovs-vswitchd"),
}
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")


class Ovs:
    """A private Open vSwitch in `directory`: database, daemon, bridge br0."""

    def __init__(self, directory, tag, core=0, main_core=0, memory_mb=0, dpdk=True):
        self.processes = []
        if not DAEMONS[dpdk].exists():
            raise Failure(f"{DAEMONS[dpdk]} is not installed; run tools/setup --peers")
        self.directory = Path(directory) / "ovs"
        self.directory.mkdir(exist_ok=True)
        for old in self.directory.iterdir():
            old.unlink()
        self.environment = os.environ | {f"OVS_{name}DIR": str(self.directory) for name in ("RUN", "LOG", "DB")}
        database, socket = self.directory / "conf.db", self.directory / "db.sock"
        self._run("ovsdb-tool", "create", database, SCHEMA)
        self._start("ovsdb-server", f"--remote=punix:{socket}", f"--unixctl={self.directory / 'db.ctl'}", database)
        machine.wait_until("the database socket of Open vSwitch", 10, socket.exists)
        self.database = f"--db=unix:{socket}"
        self.vsctl("--no-wait", "init")
        if dpdk:
            self.vsctl(
                "--no-wait", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true", f"other_config:dpdk-socket-mem={memory_mb}",
                f"other_config:pmd-cpu-mask={1 << core:x}", f"other_config:dpdk-lcore-mask={1 << main_core:x}",
                f'other_config:dpdk-extra="--no-pci --in-memory --file-prefix=vsperf{tag}o"',
            )
        self.control = self.directory / "vswitchd.ctl"
        options = [] if dpdk else ["--disable-system", "--disable-system-route"]
        self._start(DAEMONS[dpdk], f"--unixctl={self.control}", *options, f"unix:{socket}")
        machine.wait_until("the control socket of Open vSwitch", 30, self.control.exists)
        self.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail_mode=secure",
                   "protocols=OpenFlow10,OpenFlow15")

    def _start(self, *argv):
        with open(self.directory / "ovs.log", "ab") as log:
            self.processes.append(machine.spawn([str(word) for word in argv], stdout=log, stderr=log, env=self.environment))

    def _run(self, *argv):
        return machine.output(argv, env=self.environment)

    def vsctl(self, *argv):
        """Runs ovs-vsctl, which waits until the daemon has done what it says."""
        database = [self.database] if hasattr(self, "database") else []
        return self._run("ovs-vsctl", "--timeout=60", *database, *argv)

    def ofctl(self, *argv):
        """Runs ovs-ofctl with OpenFlow 1.5."""
        return self._run("ovs-ofctl", "-O", "OpenFlow15", *argv)

    def appctl(self, *argv):
        """Runs ovs-appctl on the daemon."""
        return self._run("ovs-appctl", "-t", self.control, *argv)

    def add_port(self, name, number, devargs):
        """Adds a DPDK device as a port; Failure with the log's end when it does not open."""
        self.vsctl("add-port", "br0", name, "--", "set", "Interface", name, "type=dpdk", f"ofport_request={number}",
                   f"options:dpdk-devargs={devargs}")
        error = self.vsctl("get", "Interface", name, "error").strip()
        if error != "[]":
            raise Failure(f"Open vSwitch did not open {devargs}: {error}")

    def counters(self):
        """Packets received and sent by all ports."""
        text = self.ofctl("dump-ports", "br0")
        return tuple(sum(map(int, re.findall(rf"{way} pkts=(\d+)", text))) for way in ("rx", "tx"))

    def pmd(self):
        """Cycles per received packet of the PMD thread since pmd-stats-clear, and the busy part of its time."""
        text = self.appctl("dpif-netdev/pmd-stats-show")
        cycles = re.search(r"avg cycles per packet: ([\d.]+)", text)
        busy = re.search(r"processing cycles: \d+ \(([\d.]+)%\)", text)
        if not cycles or not busy:
            raise Failure(f"Open vSwitch says nothing of its cycles:\n{text[:1000]}")
        return float(cycles[1]), float(busy[1]) / 100

    def stop(self):
        """Ends both processes."""
        for process in reversed(self.processes):
            machine.end(process)
        self.processes = []


def measure(ovs, seconds, tsc_hz, warm_up, sample):
    """A Sample of a running OVS-DPDK; like measure_switch."""
    time.sleep(warm_up)

    def totals():
        before = time.monotonic()
        received, sent = ovs.counters()
        return (before + time.monotonic()) / 2, received, sent

    ovs.appctl("dpif-netdev/pmd-stats-clear")
    pid = ovs.processes[-1].pid
    start, preempted = totals(), -machine.preemptions(pid)
    time.sleep(seconds)
    preempted += machine.preemptions(pid)
    elapsed, received, sent = (b - a for a, b in zip(start, totals()))
    cycles, busy = ovs.pmd()
    result = sample(received, sent, elapsed, tsc_hz, busy, cycles)
    result.preempted = preempted
    return result
