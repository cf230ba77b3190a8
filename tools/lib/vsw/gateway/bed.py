"""Namespaces, kernels, switches and agents of two Nodes. What is here of a host is what it has
without a switch: addresses of its own, and a default route. Agents do the rest."""

import re

from .. import daemon, machine, netns
from ..antrea import traffic
from ..antrea.host_agent import HostAgent
from ..antrea.manifests import text_of, write
from ..antrea.node import Spaces
from ..host.bed import state_of
from . import cluster, world
from .world import GATEWAY, HOST_PORT, HOSTS, MTU, OUTSIDE_PORT, PATCH, PODS, POD_PORT, TUNNEL, UNDERLAY, UPLINK, WIRE, both, on_link

PERIOD_MS = "300"
# TCP and UDP that reaches a host. Nothing else of the demo uses the hosts meanwhile.
COUNTING = f"""table inet seen {{
  counter came {{ }}
  chain in {{
    type filter hook prerouting priority -300
    iifname {{ "{GATEWAY}", "{UNDERLAY}" }} meta l4proto {{ tcp, udp }} counter name came
  }}
}}
"""


class Bed(Spaces):
    """The namespaces: host@1, web@1, client@1, and so on; outside."""

    def __init__(self, tag, directory, stack, noted):
        shorts = ["outside", *(host.at(short) for host in HOSTS for short in ("host", *PODS))]
        super().__init__({short: f"{tag}-{short.replace('@', '')}" for short in shorts})
        self.directory, self.stack, self.switches, self.before = directory, stack, {}, {}
        self.agents, self.host_agents = {}, {}
        self.manifests = directory / "manifests"
        self.manifests.mkdir()
        for short, name in self.names.items():
            noted(name)
            stack.callback(netns.remove_namespace, name)
            self.spaces[short] = netns.Space(name)
        self._outside()
        for host in HOSTS:
            self._wires(host)

    def _outside(self):
        self.ip("outside", "link", "add", WIRE, "address", "02:42:df:4d:b6:d2", "type", "bridge", "mcast_snooping", "0")
        self.run("outside", "ethtool", "-K", WIRE, "tx", "off")
        self.ip("outside", "link", "set", WIRE, "up")
        self.addresses("outside", WIRE, on_link(world.OUTSIDE))
        self.addresses("outside", "lo", both(world.FAR))

    def _wires(self, host):
        node, end = host.at("host"), f"node{host.number}"
        self.ip(node, "link", "add", UPLINK, "type", "veth", "peer", "name", end, "netns", self.names["outside"])
        # As on a cable, checksums are there.
        self.run(node, "ethtool", "-K", UPLINK, "tx", "off")
        self.run("outside", "ethtool", "-K", end, "tx", "off")
        self.run("outside", "sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1")
        self.ip("outside", "link", "set", end, "master", WIRE, "up")
        for pod, last in PODS.items():
            self.ip(node, "link", "add", f"{pod}0", "type", "veth", "peer", "name", "eth0", "netns", self.names[host.at(pod)])
            self.ip(host.at(pod), "link", "set", "eth0", "address", host.pod_mac(last), "mtu", str(MTU), "up")
            self.addresses(host.at(pod), "eth0", [f"{address}/{64 if ':' in address else 24}" for address in both(host.pod(last))])
            for gateway in both(host.pod(1)):
                self.ip(host.at(pod), "route", "add", "default", "via", gateway)
        for interface in (UPLINK, *(f"{pod}0" for pod in PODS)):
            # The host's kernel sees its packets as well; it is not to answer.
            self.ip(node, "link", "set", interface, "addrgenmode", "none")
            self.run(node, "sysctl", "-qw", f"net.ipv6.conf.{interface}.disable_ipv6=1")
            self.ip(node, "link", "set", interface, "arp", "off", "up")

    def start(self, host, binaries, dpdk, idle_sleep_us):
        """Starts the switch of a Node."""
        ports = [
            {"name": TUNNEL, "type": "geneve", "no_flood": True, "options": {"remote_ip": "flow", "key": "flow"}},
            {"name": GATEWAY, "type": "internal"},
            *({"name": f"{pod}0", "type": "af_packet", "interface": f"{pod}0", "underlay": False} for pod in PODS),
            {"name": PATCH[0], "type": "patch", "peer": PATCH[1], "no_flood": True},
        ]
        underlay = [
            {"name": UPLINK, "number": 1, "type": "af_packet", "interface": UPLINK},
            {"name": PATCH[1], "number": 2, "type": "patch", "peer": PATCH[0], "no_flood": True},
            {"name": UNDERLAY, "type": "internal", "addresses": list(on_link(host.address))},
        ]
        directory = self.directory / host.name
        directory.mkdir()
        bridge = {"name": UNDERLAY, "fail_mode": "standalone"}
        config = daemon.configuration(dpdk, ports, directory, "secure", others=[(bridge, underlay)], idle_sleep_us=idle_sleep_us)
        switch = self.switches[host] = daemon.Switch(binaries, directory, config, self.names[host.at("host")])
        self.stack.callback(machine.end, switch.process)
        return switch

    def attach(self, host):
        """What the host has without a switch, on the interface that the switch has made."""
        node = host.at("host")
        for interface in (GATEWAY, UNDERLAY):
            machine.expect(f"the switch makes {interface}", lambda one=interface: one in self.ip(node, "-o", "link", "show"))
        self.ip(node, "link", "set", UNDERLAY, "address", host.mac, "up")
        self.addresses(node, UNDERLAY, on_link(host.address))
        self.addresses(node, "lo", both(host.other))
        for hop, source in zip(both(world.OUTSIDE), both(host.address)):
            self.ip(node, "route", "add", "default", "via", hop, "src", source)
        self.run(node, "nft", COUNTING)
        self.before[host] = self.snapshot(host)

    def serve(self):
        """Who answers: each Pod, each host, and the world outside."""
        for short, name in self.names.items():
            port = {"outside": OUTSIDE_PORT, "host": HOST_PORT}.get(short.split("@")[0], POD_PORT)
            traffic.serve(name, short, port, self.stack)
            traffic.echo_datagrams(name, port, self.stack, short)

    # Agents.

    def declare(self, mode, services=cluster.SERVICES):
        """Writes the manifests."""
        write(self.manifests / "cluster.yaml", text_of(cluster.documents(mode, services)))

    def follow(self, host):
        """Starts agents of a Node: one reads the manifests, and one sets up the host."""
        switch, space = self.switches[host], self.names[host.at("host")]
        machine.expect(f"the switch knows the MAC address of {host.name}", lambda: switch.ports(UNDERLAY)[UNDERLAY]["mac"] == host.mac)
        command = ["ip", "netns", "exec", space, switch.binaries / "vswitch-agent", "--socket", switch.socket, "--period-ms", PERIOD_MS,
                   "--no-state", "--dir", self.manifests, "--node", host.name]
        with open(switch.directory / "vswitch-agent.log", "ab") as log:
            self.agents[host] = machine.spawn(command, stdout=log, stderr=log)
        self.stack.callback(machine.end, self.agents[host])
        if host not in self.host_agents:
            self.host_agents[host] = HostAgent(switch, space, switch.directory, self.stack)
        self.host_agents[host].launch()

    def wait_told(self, host, mode):
        """Waits until a Node is as the manifests say, and its host as planned."""
        switch = self.switches[host]
        status = lambda: switch.json("antrea", "status")  # noqa: E731
        machine.expect(f"the agent has told {host.name} everything", lambda: status()["gate_open"], status)
        node = lambda: switch.json("antrea", "node")  # noqa: E731
        machine.expect(f"next hops of {host.name} have answered", lambda: _answered(node()), node)
        self.host_agents[host].settled()
        found = node()["node"]["uplink"]["gateway"]["mode"]
        if found != mode.lower():
            raise machine.Failure(f"{host.name} has a gateway bridge of mode {found}, not {mode}")

    def kill(self, host):
        """Kills the agents of a Node; they cannot say goodbye."""
        for process in (self.agents[host], self.host_agents[host].process):
            process.kill()
            process.wait()

    def snapshot(self, host):
        """Everything of a host that a plan may change, as text, without counters and queues."""
        return re.sub(r" qdisc \S+| qlen \d+", "", state_of(self.spaces[host.at("host")], "-s"))

    def packets_at_hosts(self):
        """Packets of TCP and UDP that came to each host so far."""
        found = {}
        for host in HOSTS:
            words = self.run(host.at("host"), "nft", "list", "counter", "inet", "seen", "came").split()
            found[host] = int(words[words.index("packets", words.index("{")) + 1])
        return found


def _answered(node):
    hops = node.get("next_hops") or []
    return len(hops) == 2 and all(hop["mac"] for hop in hops)
