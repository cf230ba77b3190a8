"""Open vSwitch as a peer: OVS-DPDK (Debian's openvswitch-switch-dpdk) with one PMD thread on the
core under test, or without DPDK."""

import ipaddress
import os
import re
import time
from functools import partial
from pathlib import Path

from vsw import machine
from vsw.machine import Failure

from .document import ZONE
from .sample import WARM_UP_S, Interval, Work, all_ports

DAEMONS = {
    True: Path("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"),
    False: Path("/usr/lib/openvswitch-switch/ovs-vswitchd"),
}
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")


class Ovs:
    """A private Open vSwitch in `directory`: database, daemon, bridge br0."""

    def __init__(self, directory, tag, cores=(0,), main_core=0, memory_mb=0, dpdk=True, tsc_hz=0, connections=None, use_cores=None, settings=()):
        self.processes, self.tsc_hz, self.cores, self.use_cores, self.bridge_of = [], tsc_hz, len(cores), use_cores, {}
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
                f"other_config:pmd-cpu-mask={sum(1 << core for core in cores):x}", f"other_config:dpdk-lcore-mask={1 << main_core:x}",
                f'other_config:dpdk-extra="--no-pci --in-memory --file-prefix=vsperf{tag}o"',
                *(f"other_config:{setting}" for setting in settings),
            )
        self.control = self.directory / "vswitchd.ctl"
        options = [] if dpdk else ["--disable-system", "--disable-system-route"]
        self._start(DAEMONS[dpdk], f"--unixctl={self.control}", *options, f"unix:{socket}")
        machine.wait_until("the control socket of Open vSwitch", 30, self.control.exists)
        self.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail_mode=secure",
                   "protocols=OpenFlow10,OpenFlow15")
        self.pid = self.processes[-1].pid
        if connections:
            self.appctl("dpctl/ct-set-maxconns", connections)

    def _start(self, *argv):
        with open(self.directory / "ovs.log", "ab") as log:
            self.processes.append(machine.spawn(argv, self.use_cores, stdout=log, stderr=log, env=self.environment))

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

    def add_port(self, name, number, devargs, queues=1, bridge="br0"):
        """Adds a DPDK device as a port; Failure when it does not open."""
        # Its text has commas and equals signs.
        self.bridge_of[name] = bridge
        self.vsctl("add-port", bridge, name, "--", "set", "Interface", name, "type=dpdk", f"ofport_request={number}",
                   f'options:dpdk-devargs="{devargs}"', f"options:n_rxq={queues}")
        error = self.vsctl("get", "Interface", name, "error").strip()
        if error != "[]":
            raise Failure(f"Open vSwitch did not open {devargs}: {error}")

    def add_vhost(self, name, number, path):
        """Adds a vhost-user port that connects to this socket."""
        self.vsctl("add-port", "br0", name, "--", "set", "Interface", name, "type=dpdkvhostuserclient", f"ofport_request={number}",
                   f"options:vhost-server-path={path}")

    def add_bridge(self, name):
        """Adds a bridge without flows."""
        self.vsctl("add-br", name, "--", "set", "bridge", name, "datapath_type=netdev", "fail_mode=secure", "protocols=OpenFlow10,OpenFlow15")

    def add_patch(self, name, number, bridge, peer):
        """Adds one end of a patch."""
        self.vsctl("add-port", bridge, name, "--", "set", "Interface", name, "type=patch", f"ofport_request={number}", f"options:peer={peer}")

    def del_port(self, name):
        """Removes a port and its device."""
        self.vsctl("del-port", self.bridge_of.pop(name, "br0"), name)

    def add_tunnel(self, name, number, kind, underlay, address, mac):
        """Adds a flow-based tunnel port of a kind (geneve, vxlan, gre), and a bridge for its
        packets with our address, with its length, at its interface."""
        self.vsctl("add-br", underlay, "--", "set", "bridge", underlay, "datapath_type=netdev", f'other_config:hwaddr="{mac}"',
                   "protocols=OpenFlow10,OpenFlow15")
        # Whether somebody else has an address of IPv6 would be asked for a second, during which it
        # cannot be used.
        at_once = ["nodad"] if ":" in address else []
        machine.output(["ip", "address", "add", address, "dev", underlay, *at_once])
        machine.output(["ip", "link", "set", underlay, "up"])
        self.vsctl("add-port", "br0", name, "--", "set", "Interface", name, f"type={kind}", f"ofport_request={number}",
                   "options:remote_ip=flow", "options:key=flow")
        # It follows the kernel's routes.
        network = ipaddress.ip_interface(address).network
        machine.wait_until("Open vSwitch's route", 10, lambda: f" {network} dev {underlay}" in self.appctl("ovs/route/show"))

    def know_neighbour(self, underlay, address, mac):
        """Says who has an address beyond a tunnel."""
        self.appctl("tnl/neigh/set", underlay, address, mac)

    def remove_underlay(self, underlay):
        """Removes the bridge's interface, which is the kernel's."""
        self.vsctl("--if-exists", "del-br", underlay)

    def pin(self, name, cores):
        """A port's receive queues are polled by the PMD threads on these cores, in order."""
        affinity = ",".join(f"{queue}:{core}" for queue, core in enumerate(cores))
        self.vsctl("set", "Interface", name, f'other_config:pmd-rxq-affinity="{affinity}"')

    def load(self, program, bridge="br0"):
        """Adds a Program of flows, groups and meters to a bridge."""
        for line in program.meters:
            self.ofctl("add-meter", bridge, line)
        for kind in ("groups", "flows"):
            if lines := getattr(program, kind):
                path = self.directory / kind
                path.write_text("\n".join(lines) + "\n")
                self.ofctl(f"add-{kind}", bridge, path)

    def bundle(self, path):
        """Does to groups and flows what the lines of a file say, in one transaction, as OpenFlow
        has it; lines that begin with "meter" are added before."""
        lines = path.read_text().splitlines()
        there = self.ofctl("dump-meters", "br0")
        for line in lines:
            if line.startswith("meter ") and f"{line[6:].split(',')[0]} " not in there:
                self.ofctl("add-meter", "br0", line[6:])
        others = [line for line in lines if not line.startswith("meter ")]
        file = self.directory / "bundle"
        file.write_text("\n".join(others) + "\n")
        self.ofctl("bundle", "br0", file)

    def ports(self, bridge="br0"):
        """{name: (packets received, packets sent)}."""
        return dumped_ports(self.ofctl("--names", "dump-ports", bridge))

    def device_ports(self):
        """{name: (packets received, packets sent)} of all bridges' devices, read at once."""
        return datapath_ports(self.appctl("dpctl/show", "-s"))

    def change(self, path):
        """Does to flows what the lines of a file say, in one transaction."""
        self.ofctl("--bundle", "add-flows", "br0", path)

    def dump_flows(self):
        """All flows, a line each."""
        return self.ofctl("dump-flows", "br0")

    def connections(self):
        """How many connections are tracked."""
        return int(self.appctl("dpctl/ct-get-nconns"))

    def dump_connections(self):
        """All connections, a line each."""
        return self.appctl("dpctl/dump-conntrack")

    def pmd(self):
        """What the PMD threads say since pmd-stats-clear: cycles per received packet, the busy part
        of their time, hits of caches."""
        return pmd_stats(self.appctl("dpif-netdev/pmd-stats-show"))

    def clear(self):
        """Starts the PMD threads' counts over."""
        self.appctl("dpif-netdev/pmd-stats-clear")

    def work(self):
        """What the PMD threads have done since they were cleared."""
        text = self.appctl("dpif-netdev/pmd-stats-show").split("main thread:")[0]
        return Work(*(sum(map(int, re.findall(rf"{what}: (\d+)", text))) for what in ("packets received", "processing cycles")))

    def set_opening_timeout(self, seconds):
        """Connections of the document's zone whose SYN is not answered expire after this."""
        self.vsctl("--", "--id=@datapath", "create", "Datapath", "datapath_version=0", "--", "set", "Open_vSwitch", ".", "datapaths:netdev=@datapath")
        self.vsctl("add-zone-tp", "netdev", f"zone={ZONE}", f"tcp_syn_sent={seconds}")

    def resident(self):
        """Its resident memory in bytes."""
        return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())[1])

    def connection_memory(self, before):
        """Bytes for one connection: what the process has grown by since it was `before` bytes, by
        the connections that there are."""
        return (self.resident() - before) / max(1, self.connections())

    def measure(self, seconds, body=time.sleep, read=None):
        """A Sample of what it does during `body(seconds)`; `read` gives packets received and sent,
        by default those of all ports."""
        time.sleep(WARM_UP_S)
        self.clear()
        with Interval(self.pid, read or partial(all_ports, self), self.cores) as interval:
            body(seconds)
        cycles, busy, caches = self.pmd()
        result = interval.sample(self.tsc_hz, busy, cycles)
        result.caches = caches
        return result

    def measure_best(self, seconds, read=None):
        """The better of two Samples: with its signature match cache (SMC) off, as it is by default,
        and on."""
        samples = []
        for setting in ("smc-enable=false", "smc-enable=true"):
            self.vsctl("set", "Open_vSwitch", ".", f"other_config:{setting}")
            samples.append(self.measure(seconds, read=read))
            samples[-1].caches["setting"] = setting
        return min(samples, key=lambda each: each.cycles_per_packet)

    def stop(self):
        """Ends both processes."""
        for process in reversed(self.processes):
            machine.end(process)
        self.processes = []


def dumped_ports(text):
    """`dump-ports --names`: {name: (packets received, packets sent)}."""
    found = re.findall(r'port\s+"?([\w-]+)"?: rx pkts=(\d+).*\n\s*tx pkts=(\d+)', text)
    return {name: (int(received), int(sent)) for name, received, sent in found}


def datapath_ports(text):
    """`dpctl/show -s`: {name: (packets received, packets sent)}."""
    found = re.findall(r"port \d+: ([\w-]+).*\n\s*RX packets:(\d+).*\n\s*TX packets:(\d+)", text)
    return {name: (int(received), int(sent)) for name, received, sent in found}


def pmd_stats(text):
    """`dpif-netdev/pmd-stats-show`: cycles per packet, the busy part of the time, {cache: hits};
    sums and means over PMD threads."""
    text = text.split("main thread:")[0]
    cycles = [float(number) for number in re.findall(r"avg cycles per packet: ([\d.]+)", text)]
    busy = [float(number) for number in re.findall(r"processing cycles: \d+ \(([\d.]+)%\)", text)]
    if not cycles or not busy:
        raise Failure(f"Open vSwitch says nothing of its cycles:\n{text[:1000]}")
    caches = {}
    for name, count in re.findall(r"(packets received|packet recirculations|emc hits|smc hits|megaflow hits|miss with [a-z ]+upcall): (\d+)", text):
        caches[name] = caches.get(name, 0) + int(count)
    return sum(cycles) / len(cycles), sum(busy) / len(busy) / 100, caches
