"""A Node with switch and agent, whose Pods are made by the CNI plug-in. Each container is a network
namespace."""

import json
import re
import subprocess
from pathlib import Path

from .. import daemon, machine, netns
from ..antrea.manifests import document, text_of, write
from ..antrea.node import Spaces, both
from .plugin import Plugin

NODE = "node"
NODE_NAME = "node-1"
GATEWAY, TUNNEL = "antrea-gw0", "antrea-tun0"
GATEWAY_MAC, GATEWAY_IP = "02:00:00:0a:00:01", "10.10.0.1"
CIDR = "10.10.0.0/24"
PERIOD_MS = "100"
# Interfaces that some kernels have in each network namespace.
BUILT_IN = re.compile(r"(tunl|sit|ip6tnl|gre|gretap|erspan|ip_vti|ip6_vti|ip6gre)0$")


class Bed(Spaces):
    """All of it. `defer` is told how to undo things; `tag` names what is made; `options` are more
    ones of the agent."""

    def __init__(self, tag, binaries, directory, defer, options=()):
        super().__init__({NODE: f"{tag}-{NODE}"})
        self.tag, self.binaries, self.directory, self.defer = tag, Path(binaries), Path(directory), defer
        self.options = list(options)
        self.manifests, self.state, self.data = (self.directory / name for name in ("manifests", "cni", "ipam"))
        self.devices, self.sockets = self.directory / "vhost", self.directory / "pods"
        self.manifests.mkdir()
        defer(netns.remove_namespace, self.names[NODE])
        self.spaces[NODE] = netns.Space(self.names[NODE])
        self.run(NODE, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=0")
        self.plugin = Plugin(self.binaries / "vswitch-cni", self.directory / "cni.sock", self.state, self.data)
        self.agent = self.switch = None
        defer(lambda: self.agent and machine.end(self.agent))
        defer(lambda: self.switch and machine.end(self.switch.process))
        self.write_cluster()
        self.start_switch()
        self.start_agent()
        self.flows = self.told()["flows"]

    def write_cluster(self, pods=(), extra=()):
        """The cluster's documents: `pods` are (name, UID, labels) of Pods that have no address yet;
        and others."""
        write(self.manifests / "cluster.yaml", text_of([*documents(), *map(pod_document, pods), *extra]))

    def start_switch(self):
        """Starts the switch (again), without ports of Pods."""
        ports = [{"name": GATEWAY, "type": "internal"},
                 {"name": TUNNEL, "type": "geneve", "no_flood": True, "options": {"remote_ip": "flow", "key": "flow"}}]
        cores = machine.cores()
        dpdk = {"worker_cores": [cores[-1]], "main_core": cores[0], "memory_mb": 256, "hugepages": False, "file_prefix": self.tag}
        config = daemon.configuration(dpdk, ports, self.directory, "secure", idle_sleep_us=daemon.IDLE_SLEEP_US)
        self.switch = daemon.Switch(self.binaries, self.directory, config, self.names[NODE])
        self.switch.wait_ready()

    def stop_switch(self):
        """Ends the switch."""
        self.switch.stop()

    def start_agent(self):
        """Starts the agent (again), and waits until the plug-in can ask it."""
        argv = ["ip", "netns", "exec", self.names[NODE], self.binaries / "vswitch-agent", "--no-state", "--dir", self.manifests,
                "--node", NODE_NAME, "--socket", self.switch.socket, "--period-ms", PERIOD_MS, "--no-health-checks",
                "--cni", self.plugin.socket, "--cni-state", self.state, "--vhost-dir", self.devices, "--pods-dir", self.sockets,
                *self.options]
        with open(self.directory / "agent.log", "ab") as log:
            self.agent = machine.spawn(argv, stdout=log, stderr=log)
        status = lambda: self.plugin.call("STATUS", version="1.1.0")  # noqa: E731
        machine.expect("the agent serves the plug-in", lambda: status()[0] == 0, lambda: (status(), self.log()))
        machine.expect("the gate is open", lambda: self.told().get("gate_open"), self.log)

    def revive(self):
        """Starts what has ended, in a test before."""
        if self.switch.process.poll() is not None:
            self.start_switch()
        if self.agent.poll() is not None:
            self.start_agent()

    def expect_nothing(self):
        """Waits until nothing of a container is left, and the flows are those of the beginning."""
        machine.expect("nothing is left", lambda: self.left() == NOTHING, self.left)
        machine.expect("no flow is left", lambda: self.told()["flows"] == self.flows, lambda: (self.told()["flows"], self.flows))

    def stop_agent(self):
        """Ends the agent."""
        machine.end(self.agent)

    def log(self):
        """What the agent logged."""
        return (self.directory / "agent.log").read_text(errors="replace")[-1500:]

    def told(self):
        """What the switch says of its objects."""
        return self.switch.json("antrea", "status")

    def container(self, short):
        """The network namespace of a new container."""
        self.names[short] = name = f"{self.tag}-{short}"
        self.defer(netns.remove_namespace, name)
        netns.ip("netns", "add", name)
        self.spaces[short] = Existing(name)
        return self.path(short)

    def path(self, short):
        """Where its namespace is."""
        return f"/run/netns/{self.names[short]}"

    def end(self, short):
        """The namespace goes, as with a container that has ended."""
        netns.remove_namespace(self.names[short])

    def add(self, short, uid="", **options):
        """ADD for a Pod of that name in namespace default."""
        return self.plugin.call("ADD", short, self.path(short), pod=("default", short, uid), **options)

    def delete(self, short, with_netns=True, **options):
        """DEL."""
        return self.plugin.call("DEL", short, self.path(short) if with_netns else None, **options)

    def ports(self):
        """Names of the Pods' ports."""
        return sorted(name for name in self.switch.ports() if name not in (GATEWAY, TUNNEL, "br0"))

    def pods(self):
        """How many Pods the switch has."""
        return {kind["kind"]: kind["objects"] for kind in self.told()["kinds"]}.get("pod", 0)

    def links(self):
        """Interfaces of the Node but its own."""
        found = {link["ifname"] for link in json.loads(self.ip(NODE, "-j", "link", "show"))}
        return sorted(name for name in found - {"lo", GATEWAY} if not BUILT_IN.match(name))

    def files(self):
        """Files of attachments, and addresses that host-local has given."""
        state = [file.name for file in self.state.iterdir() if file.name != "lock"] if self.state.exists() else []
        return sorted(state), sorted(self.addresses_given())

    def addresses_given(self):
        """Addresses that host-local has given."""
        network = self.data / "pods"
        return [file.name for file in network.iterdir() if file.name[0].isdigit() or ":" in file.name] if network.exists() else []

    def in_directories(self):
        """Directories of vhost-user sockets that Pods have, and what is in those of devices."""
        found = [*self.sockets.glob("*"), *self.devices.glob("*/*")]
        return sorted(str(path.relative_to(self.directory)) for path in found)

    def left(self):
        """What is there of Pods: ports, interfaces, files, addresses, Pods, connections,
        directories."""
        connections = [line for line in self.switch.vsctl("dump-conntrack").splitlines() if "10.10.0." in line]
        return {"ports": self.ports(), "links": self.links(), "files": self.files(), "pods": self.pods(), "connections": connections,
                "directories": self.in_directories()}

    def reaches(self, short, address):
        """Whether a ping is answered."""
        argv = ["ip", "netns", "exec", self.names[short], "ping", "-n", "-c", "1", "-W", "1", address]
        return subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


class Existing(netns.Space):
    """A namespace that somebody else has made."""

    def __init__(self, name):  # pylint: disable=super-init-not-called
        self.name = name


NOTHING = {"ports": [], "links": [], "files": ([], []), "pods": 0, "connections": [], "directories": []}


def addresses(result):
    """Addresses of an ADD's result, without lengths."""
    return [ip["address"].partition("/")[0] for ip in result["ips"]]


def documents():
    """The cluster without Pods."""
    yield document("v1", "Namespace", "default")
    status = {"addresses": [{"type": "InternalIP", "address": address} for address in both("192.168.77.102")]}
    yield document("v1", "Node", NODE_NAME, spec={"podCIDRs": list(both(CIDR))}, status=status)
    spec = {"bridge": "br0", "trafficMode": "Encap", "transportAddresses": ["192.168.77.102/24"], "families": "Dual", "features": {},
            "gateway": {"port": GATEWAY, "mac": GATEWAY_MAC, "addresses": list(both(GATEWAY_IP))}, "tunnel": {"port": TUNNEL}}
    yield document("vswitch/v1", "NodeConfig", NODE_NAME, spec=spec)


def pod_document(pod):
    """A Pod as the API server has it before its sandbox is made: (name, UID, labels)."""
    name, uid, labels = pod
    spec = {"nodeName": NODE_NAME, "containers": [{"name": "c"}]}
    return document("v1", "Pod", name, "default", {"labels": labels, "uid": uid}, spec=spec, status={"phase": "Pending"})
