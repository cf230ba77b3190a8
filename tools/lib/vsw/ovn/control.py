"""Debian's OVN on a private Open vSwitch with dummy ports: databases, ovn-northd, ovn-controller.
The machine's own services are left alone."""

import os
import re
from pathlib import Path

from .. import machine
from ..machine import Failure
from ..ovs import SCHEMA, VSWITCHD
from . import bridge, topology
from .addresses import CLIENT_MAC, FAMILIES, NODE_MAC, OTHER_MAC

PROGRAMS = ("/usr/bin/ovn-northd", "/usr/bin/ovn-controller", "/usr/bin/ovn-nbctl", "/usr/bin/ovn-sbctl")
SCHEMAS = {"nb": "/usr/share/ovn/ovn-nb.ovsschema", "sb": "/usr/share/ovn/ovn-sb.ovsschema"}
START_S = 30
# Ports of br-int; the one to the gateway bridge comes behind them.
PORTS = {"mp0": "k8s-n1", "pod1": "ns_pod1", "pod2": "ns_pod2"}
TO_GATEWAY = len(PORTS) + 1


class Ovn:
    """One Node that OVN programs for a mode, with its files in `directory`; `defer` is told how to
    end it."""

    def __init__(self, directory, mode, defer):
        for program in (VSWITCHD, *PROGRAMS):
            if not Path(program).exists():
                raise Failure(f"{program} is missing: tools/setup --ovn installs it")
        self.directory = Path(directory)
        names = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR", "OVN_RUNDIR", "OVN_LOGDIR", "OVN_DBDIR", "OVN_SYSCONFDIR")
        self.environment = os.environ | {name: str(directory) for name in names}
        self._defer = defer
        self._databases()
        self._bridges(mode)
        self._daemons()
        topology.build(self.nbctl, mode)
        self.nbctl("--wait=hv", "sync")
        self._learn()

    def _remote(self, name):
        return f"unix:{self.directory / name}.sock"

    def _databases(self):
        for name, schema in {"conf": SCHEMA, **SCHEMAS}.items():
            database, socket = self.directory / f"{name}.db", self.directory / f"{name}.sock"
            machine.output(["ovsdb-tool", "create", database, schema], env=self.environment)
            argv = ["ovsdb-server", f"--remote=punix:{socket}", f"--unixctl={self.directory / name}.ctl", database]
            self._start(argv, socket)
        self.vsctl("--no-wait", "init")
        control = self.directory / "vswitchd.ctl"
        argv = [VSWITCHD, "--enable-dummy", "--disable-system", "--disable-system-route", f"--unixctl={control}", self._remote("conf")]
        self._start(argv, control)

    def _start(self, argv, until):
        with open(self.directory / "ovn.log", "ab") as log:
            process = machine.spawn(argv, stdout=log, stderr=log, env=self.environment, cwd=self.directory)
        self._defer(machine.end, process)
        machine.wait_until(f"{Path(argv[0]).name} makes {until.name}", START_S, until.exists)

    def _bridges(self, mode):
        self.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=dummy", "fail-mode=secure", "other-config:disable-in-band=true")
        for number, (name, iface) in enumerate(PORTS.items(), 1):
            self.vsctl("add-port", "br-int", name, "--", "set", "interface", name, "type=dummy", f"ofport_request={number}", f"external-ids:iface-id={iface}")
        self.vsctl("add-br", "breth0", "--", "set", "bridge", "breth0", "datapath_type=dummy", "fail-mode=secure", f"other-config:hwaddr={NODE_MAC}",
                   "--", "add-port", "breth0", "eth0", "--", "set", "interface", "eth0", "type=dummy", f"ofport_request={bridge.WIRE}")
        flows = self.directory / "breth0.flows"
        flows.write_text("\n".join(bridge.flows(mode)) + "\n")
        self.ofctl("--bundle", "add-flows", "breth0", flows)

    def _daemons(self):
        values = {"system-id": "n1", "ovn-remote": self._remote("sb"), "ovn-encap-type": "geneve", "ovn-encap-ip": FAMILIES[0].node,
                  "ovn-bridge-mappings": "physnet:breth0", "ovn-bridge-datapath-type": "dummy", "ovn-monitor-all": "true"}
        self.vsctl("--no-wait", "set", "open", ".", *[f"external-ids:{key}={value}" for key, value in values.items()])
        control = self.directory / "northd.ctl"
        self._start(["/usr/bin/ovn-northd", f"--ovnnb-db={self._remote('nb')}", f"--ovnsb-db={self._remote('sb')}", f"--unixctl={control}"], control)
        pidfile = self.directory / "controller.pid"  # this version knows no --unixctl
        self._start(["/usr/bin/ovn-controller", f"--pidfile={pidfile}", self._remote("conf")], pidfile)

    def _learn(self):
        """Neighbours on the wire announce themselves; OVN learns them as next hops."""
        from . import scenarios
        for packet in scenarios.announcements():
            self.appctl("netdev-dummy/receive", "eth0", packet.hex())
        wanted = {address for family in FAMILIES for address in (family.client, family.other)}
        machine.wait_until("OVN learns the neighbours on the wire", START_S, lambda: wanted <= set(self._bindings()))
        self.nbctl("--wait=hv", "sync")
        # ovn-controller writes what it has learned a moment later.
        macs = {CLIENT_MAC, OTHER_MAC}
        machine.wait_until("the bindings are flows", START_S, lambda: all(mac in self._dump("dump-flows", "table=66") for mac in macs))

    def _bindings(self):
        printed = machine.output(["ovn-sbctl", f"--db={self._remote('sb')}", "--bare", "--columns=ip", "list", "mac_binding"], env=self.environment)
        return printed.split()

    def vsctl(self, *words):
        """Runs ovs-vsctl."""
        return machine.output(["ovs-vsctl", f"--db={self._remote('conf')}", f"--timeout={START_S}", *words], env=self.environment)

    def nbctl(self, *words):
        """Runs ovn-nbctl."""
        return machine.output(["ovn-nbctl", f"--db={self._remote('nb')}", f"--timeout={START_S}", *words], env=self.environment)

    def appctl(self, *words):
        """Runs ovs-appctl on ovs-vswitchd."""
        return machine.output(["ovs-appctl", "-t", self.directory / "vswitchd.ctl", *words], env=self.environment)

    def ofctl(self, *words):
        """Runs ovs-ofctl."""
        argv = ["ovs-ofctl", "--protocols=OpenFlow15", "--no-names", f"--timeout={START_S}", *words]
        return machine.output(argv, env=self.environment)

    def _dump(self, verb, *words):
        return self.ofctl("--no-stats", verb, "br-int", *words)

    def program(self):
        """What OVN has made of br-int: its flows and its groups, each in one order, without
        cookies, which differ with each run."""
        for name, number in {**dict(zip(PORTS, range(1, TO_GATEWAY), strict=True)), "patch-br-int-to-breth0_n1": TO_GATEWAY}.items():
            found = self.vsctl("get", "interface", name, "ofport").strip()
            if found != str(number):
                raise Failure(f"{name} has the port number {found}, not {number}")
        flows = [re.sub(r"cookie=0x[0-9a-f]+, ", "", line.strip()) for line in self._dump("dump-flows").splitlines() if "actions=" in line]
        groups = [line.strip() for line in self._dump("dump-groups").splitlines() if "group_id=" in line]
        return sorted(flows, key=_place), sorted(groups, key=lambda line: int(re.search(r"group_id=(\d+)", line)[1]))


def _place(line):
    number = lambda key, default: int(found[1]) if (found := re.search(rf"\b{key}=(\d+)", line)) else default
    return number("table", 0), -number("priority", 32768), line
