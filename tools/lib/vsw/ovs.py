"""A private Open vSwitch in a network namespace: a peer that is not ours. The machine's own service
is left alone."""

import os
from pathlib import Path

from . import machine
from .machine import Failure

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
VSWITCHD = "/usr/lib/openvswitch-switch/ovs-vswitchd"  # Debian's binary without DPDK
START_S = 30


class OpenVswitch:
    """One without bridges, with its files in `directory`; `defer` is told how to end it."""

    def __init__(self, directory, namespace, defer):
        if not Path(VSWITCHD).exists():
            raise Failure(f"{VSWITCHD} is missing: install openvswitch-switch (tools/setup does)")
        self.directory = Path(directory)
        self.environment = os.environ | {name: str(directory) for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")}
        database, socket, control = (self.directory / name for name in ("conf.db", "db.sock", "vswitchd.ctl"))
        machine.output(["ovsdb-tool", "create", database, SCHEMA], env=self.environment)
        self._start(["ovsdb-server", f"--remote=punix:{socket}", database], socket, defer)
        self.vsctl("--no-wait", "init")
        self._start(["ip", "netns", "exec", namespace, VSWITCHD, "--disable-system", f"--unixctl={control}", f"unix:{socket}"], control, defer)

    def _start(self, argv, socket, defer):
        with open(self.directory / "ovs.log", "ab") as log:
            process = machine.spawn(argv, stdout=log, stderr=log, env=self.environment, cwd=self.directory)
        defer(machine.end, process)
        machine.wait_until(f"Open vSwitch makes {socket.name}", START_S, socket.exists)

    def vsctl(self, *words):
        """Runs ovs-vsctl."""
        return machine.output(["ovs-vsctl", f"--db=unix:{self.directory / 'db.sock'}", f"--timeout={START_S}", *words], env=self.environment)

    def ofctl(self, *words):
        """Runs ovs-ofctl."""
        return machine.output(["ovs-ofctl", "--protocols=OpenFlow14", f"--timeout={START_S}", *words], env=self.environment)
