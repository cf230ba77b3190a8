"""The switch as the device under test."""

import contextlib
import time
from functools import partial

from vsw import daemon
from vsw.machine import Failure

from . import observers
from .document import ZONE
from .sample import WARM_UP_S, Interval, Work, all_ports

MBUFS = 65536
METRICS = "metrics.sock"
# Numbers of `worker-show` that do not add up
NO_COUNTS = ("id", "core", "tsc_hz", "heartbeat_age_ms", "rxqs")


class Switch:
    """vswitchd with one bridge; its one worker has the core under test."""

    recorder = None  # what samples its worker while it is measured
    captures, observed = None, False  # what looks at it meanwhile

    def __init__(self, bench, ports=(), fail_mode="secure", mbufs=MBUFS, connections=None, cores=None, port_shares=True):
        dpdk = {
            "worker_cores": cores or [bench.dut_core],
            "main_core": bench.other_core,
            "memory_mb": bench.memory_mb,
            "mbufs": mbufs,
            "hugepages": True,
            "file_prefix": f"vsperf{bench.tag}",
        }
        conntrack = ({"connections": connections} if connections else {}) | ({} if port_shares else {"port_shares": False})
        config = daemon.configuration(dpdk, ports, bench.directory, fail_mode, conntrack, idle_sleep_us=0)
        if bench.observed:
            config += f"\n[observe]\nmetrics = \"unix:{bench.directory / METRICS}\"\n"
        self.daemon, self.directory = daemon.Switch(bench.binaries, bench.directory, config, use_cores=bench.cores), bench.directory
        try:
            self.daemon.wait_ready()
        except BaseException:
            self.daemon.process.kill()
            raise
        self.stop = self.daemon.stop
        self.pid, self.cores = self.daemon.process.pid, len(dpdk["worker_cores"])
        self.recorder, self.bridge_of = bench.recorder, {}
        self.captures, self.observed, self.other_core = bench.captures, bench.observed, bench.other_core

    def add_port(self, name, number, devargs, queues=1, bridge="br0"):
        """Adds a DPDK device as a port."""
        self.bridge_of[name] = bridge
        self.daemon.vsctl("add-port", bridge, name, "--type", "dpdk", "--number", number, "--devargs", devargs, "--queues", queues)

    def add_vhost(self, name, number, path):
        """Adds a vhost-user port that connects to this socket."""
        self.daemon.vsctl("add-port", "br0", name, "--type", "vhost-user", "--number", number, "--mode", "client", "--path", path)

    def add_bridge(self, name):
        """Adds a bridge without flows."""
        self.daemon.vsctl("add-br", name, "--fail-mode", "secure")

    def add_patch(self, name, number, bridge="br0", peer=None):
        """Adds one end of a patch. Without a peer it leads nowhere."""
        self.daemon.vsctl("add-port", bridge, name, "--type", "patch", "--number", number, "--peer", peer or f"{name}-end", "--no-flood")

    def del_port(self, name):
        """Removes a port and its device."""
        self.daemon.vsctl("del-port", self.bridge_of.pop(name, "br0"), name)

    def add_tunnel(self, name, number, kind, underlay, address, mac):
        """Adds a flow-based tunnel port of a kind (geneve, vxlan, gre), and a bridge for its
        packets with our address, with its length, in it."""
        self.daemon.vsctl("add-br", underlay, "--fail-mode", "standalone")
        self.daemon.vsctl("add-port", underlay, underlay, "--type", "internal", "--mac", mac, "--address", address)
        self.daemon.vsctl("add-port", "br0", name, "--type", kind, "--number", number, "--option", "remote_ip=flow", "--option", "key=flow")

    def know_neighbour(self, underlay, address, mac):
        """Says who has an address beyond a tunnel."""
        self.daemon.vsctl("tnl-neigh-set", underlay, address, mac)

    def remove_underlay(self, underlay):
        """Removes what `add_tunnel` left outside the switch: nothing."""

    def pin(self, name, cores):
        """A port's receive queues are polled by the workers on these cores, in order."""
        for queue, core in enumerate(cores):
            self.daemon.vsctl("worker-rxq-pin", name, queue, core)

    def load(self, program, bridge="br0"):
        """Makes a Program of flows, groups and meters a bridge's."""
        lines = [f"{kind} add {line}" for kind in ("meter", "group", "flow") for line in getattr(program, f"{kind}s")]
        path = self.directory / "bundle"
        path.write_text("\n".join(lines) + "\n")
        self.daemon.vsctl("bundle", bridge, path)

    def ports(self, *bridge):
        """{name: (packets received, packets sent)}."""
        return {name: (port["rx_packets"], port["tx_packets"]) for name, port in self.daemon.ports(*bridge).items()}

    def device_ports(self):
        """{name: (packets received, packets sent)} of all bridges, by names that are in one bridge
        only, as if read at once: one is read after the other, which takes a while, and back again,
        so that the means of both are of the same moment."""
        bridges = sorted({"br0", *self.bridge_of.values()})
        there, back = ({name: ports for bridge in order for name, ports in self.ports(bridge).items()} for order in (bridges, bridges[::-1]))
        return {name: tuple((one + other) // 2 for one, other in zip(there[name], back[name])) for name in there}

    def change(self, path):
        """Does to flows what the lines of a file say."""
        self.daemon.vsctl("add-flows", "br0", path)

    def dump_flows(self):
        """All flows, a line each."""
        return self.daemon.vsctl("dump-flows", "br0")

    def connections(self):
        """How many connections are tracked."""
        return int(self.daemon.vsctl("ct-get-nconns"))

    def dump_connections(self):
        """All connections, a line each."""
        return self.daemon.vsctl("dump-conntrack")

    def workers(self):
        """All their counts, summed, since they were cleared, and the TSC's frequency."""
        workers = self.daemon.workers()
        counts = {name for name, value in workers[0].items() if isinstance(value, int) and name not in NO_COUNTS}
        return {name: sum(worker[name] for worker in workers) for name in sorted(counts)} | {"tsc_hz": workers[0]["tsc_hz"]}

    def clear(self):
        """Starts the workers' counts over."""
        self.daemon.vsctl("worker-clear")

    def work(self):
        """What the workers have done since they were cleared."""
        workers = self.workers()
        return Work(workers["packets"], workers["busy_cycles"])

    def set_opening_timeout(self, seconds):
        """Connections of the document's zone whose SYN is not answered expire after this."""
        self.daemon.vsctl("ct-set-timeouts", f"zone={ZONE}", f"tcp_syn_sent={seconds}")

    def connection_memory(self, _before):
        """Bytes for one connection: all that was taken at start for the table, by the connections
        that fit."""
        counters = self.daemon.json("ct-counters-show")
        return counters["memory"] / counters["connections_max"]

    def caches(self):
        """What `worker-perf-show` says; None of a switch without it."""
        try:
            return self.daemon.json("worker-perf-show")
        except Failure:
            return None

    def measure_best(self, seconds, read=None):
        """The same: it has no settings of its caches."""
        return self.measure(seconds, read=read)

    def measure(self, seconds, body=time.sleep, read=None):
        """A Sample of what it does during `body(seconds)`; `read` gives packets received and sent,
        by default those of all ports."""
        with self.looking():
            time.sleep(WARM_UP_S)
            self.clear()
            before = self.workers()
            with Interval(self.pid, read or partial(all_ports, self), self.cores) as interval:
                with self.recorder.recording(self.pid) if self.recorder else contextlib.nullcontext():
                    body(seconds)
        after = self.workers()
        gone = {name: after[name] - before[name] for name in after if name != "tsc_hz"}
        busy = gone["busy_cycles"] / max(1, sum(gone[f"{state}_cycles"] for state in ("busy", "idle", "sleep")))
        result = interval.sample(after["tsc_hz"], busy, gone["busy_cycles"] / max(1, gone["packets"]))
        result.caches = {"workers": gone, "worker-perf-show": self.caches()}
        if self.recorder:
            result.functions = self.recorder.functions(result.cycles_per_packet)
        return result

    @contextlib.contextmanager
    def looking(self):
        """What the bench wants to look at the switch does so during the body."""
        with contextlib.ExitStack() as stack:
            if self.captures:
                stack.enter_context(observers.capturing(self.daemon, self.other_core, self.captures))
            if self.observed:
                stack.enter_context(observers.observing(self.daemon, self.other_core, self.directory / METRICS))
            yield
