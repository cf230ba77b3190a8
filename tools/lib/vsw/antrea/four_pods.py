"""A Node with the four Pods of `generated`, in network namespaces, behind pairs of interfaces that
outlive the switch. Its state is kept over restarts."""

import json
import os
import subprocess
import sys
from pathlib import Path

from .. import daemon, machine, netns
from . import generated
from .generated import PODS, addresses

ENDS = Path(__file__).with_name("ends.py")


class End:
    """A program of `ends.py` in a Pod."""

    def __init__(self, space, *words):
        self.words, pipe = words, subprocess.PIPE
        self.process = space.spawn(sys.executable, "-B", ENDS, *words, stdin=pipe, stdout=pipe, text=True)

    def report(self):
        """What it has counted."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or '{"ended": true}')

    def end(self):
        """Ends it."""
        machine.end(self.process)
        self.process.stdin.close()
        self.process.stdout.close()


class FourPods:
    """The Node. All that it makes goes with `stack`, an ExitStack or a test; `kept` is the
    directory of what outlives the switch."""

    def __init__(self, binaries, directory, size, stack):
        self.binaries, self.directory, self.stack = Path(binaries), Path(directory), stack
        self.kept, self.manifests = self.directory / "kept", self.directory / "manifests"
        self.kept.mkdir()
        self.manifests.mkdir()
        self.spaces, self.switch = {}, None
        for name in ("node", *PODS):
            self._later(netns.remove_namespace, f"vt{os.getpid()}-{name}")
            self.spaces[name] = netns.Space(f"vt{os.getpid()}-{name}")
        generated.write(self.manifests, size)
        self._wires()
        self._later(lambda: self.switch and machine.end(self.switch.process))

    def _later(self, function, *words):
        """At the end; the last one first."""
        add = getattr(self.stack, "callback", None) or self.stack.addCleanup
        add(function, *words)

    def _wires(self):
        """A pair for each Pod. Neighbours are known for good, so that who may not speak does speak,
        whatever the switch says."""
        node = self.spaces["node"]
        for name, number in PODS.items():
            space = self.spaces[name]
            node.ip("link", "add", f"{name}0", "type", "veth", "peer", "name", "eth0", "netns", space.name)
            node.run("sysctl", "-qw", f"net.ipv6.conf.{name}0.disable_ipv6=1")
            node.ip("link", "set", f"{name}0", "arp", "off", "up")
            space.ip("link", "set", "eth0", "address", generated.mac(number), "up")
            for address, length in zip(addresses(number), (24, 64)):
                space.ip("address", "add", f"{address}/{length}", "dev", "eth0", *(["nodad"] if ":" in address else []))
            for other in {1, *PODS.values()} - {number}:
                for address in addresses(other):
                    space.ip("neighbour", "add", address, "lladdr", generated.mac(other), "dev", "eth0", "nud", "permanent")
            for gateway in addresses(1):
                space.ip("route", "add", "default", "via", gateway)

    def spawn_switch(self):
        """Starts it, with its ports; it need not be ready."""
        cores = machine.cores()
        dpdk = {"worker_cores": [cores[-1]], "main_core": cores[0], "memory_mb": 256, "hugepages": False, "file_prefix": f"vt{os.getpid()}"}
        ports = [{"name": generated.GATEWAY, "type": "internal"},
                 {"name": generated.TUNNEL, "type": "geneve", "no_flood": True, "options": {"remote_ip": "flow", "key": "flow"}},
                 *({"name": f"{name}0", "type": "af_packet", "interface": f"{name}0"} for name in PODS)]
        kept = {"conntrack": {"state_file": str(self.directory / "connections")}, "antrea": {"state_dir": str(self.kept)}}
        config = daemon.configuration(dpdk, ports, self.directory, "secure", idle_sleep_us=daemon.IDLE_SLEEP_US, **kept)
        self.switch = daemon.Switch(self.binaries, self.directory, config, self.spaces["node"].name)

    def start_switch(self):
        """Starts it, with its ports; nothing is told yet."""
        self.spawn_switch()
        self.switch.wait_ready()

    def agent_command(self, *words):
        """The agent's command line."""
        return [self.binaries / "vswitch-agent", "--no-state", "--dir", self.manifests, "--node", generated.NODE, "--socket", self.switch.socket, *words]

    def end(self, name, *words):
        """A program of `ends.py` in a Pod, until the Node ends."""
        end = End(self.spaces[name], *words)
        self._later(end.end)
        return end

    def state(self):
        """What the switch says of itself."""
        return self.switch.json("antrea", "status")

    def denied(self, port):
        """Who knocks where nobody is to open, and who watches there, by Pod."""
        others = [address for name in ("web", "guarded", "client") for address in addresses(PODS[name])]
        knocks = [self.end("stranger", "knock", port, *others, *generated.SERVICE),
                  self.end("client", "knock", port, *addresses(PODS["guarded"]))]
        both = [address for name in ("client", "stranger") for address in addresses(PODS[name])]
        watches = {name: self.end(name, "watch", *who) for name, who in (
            ("web", addresses(PODS["stranger"])), ("client", addresses(PODS["stranger"])), ("guarded", both))}
        return knocks, watches


def kill(process):
    """It cannot say goodbye."""
    process.kill()
    process.wait()
