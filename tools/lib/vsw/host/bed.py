"""A Node with its switch, two Pods and the world outside, each a network namespace. The host's side
is the agent's alone: the bed sets up only what a Node has before."""

import json
import re
import subprocess

from .. import daemon, machine, netns
from ..antrea import traffic
from ..antrea.manifests import document, text_of, write
from ..antrea.node import Spaces, both, within

NODE, OUTSIDE, WEB, CLIENT = "node", "outside", "web", "client"
NODE_NAME = "node-1"
GATEWAY, TUNNEL = "antrea-gw0", "antrea-tun0"
GATEWAY_MAC = "02:00:00:0a:00:01"
GATEWAY_IP, NODE_IP, OUTSIDE_IP, EGRESS_IP = "10.10.0.1", "192.168.77.102", "192.168.77.1", "192.168.77.112"
PODS = {WEB: ("10.10.0.24", "02:00:00:0a:00:18"), CLIENT: ("10.10.0.26", "02:00:00:0a:00:1a")}
CLUSTER_IP, NODE_PORT, PORT = "10.96.0.20", 30080, 80
SERVICES = "10.96.0.0/12"
TABLE = "inet vswitch"
# Values that a plan may change.
SYSCTLS = r"net\.(ipv4\.ip_forward|ipv[46]\.conf\.[^.]+\.(rp_filter|forwarding)) "


class Bed(Spaces):
    """All of it. `defer` is told how to undo things."""

    def __init__(self, tag, binaries, directory, defer):
        super().__init__({short: f"{tag}-{short}" for short in (NODE, OUTSIDE, WEB, CLIENT)})
        self.binaries, self.directory = binaries, directory
        self.manifests, self.state = directory / "manifests", directory / "state"
        self.manifests.mkdir()
        for short, name in self.names.items():
            defer(netns.remove_namespace, name)
            self.spaces[short] = netns.Space(name)
        self._wires()
        self.agent, self.defer = None, defer
        self.start(tag)

    def _wires(self):
        for end, short in (("eth0", OUTSIDE), ("tun0", OUTSIDE), ("web0", WEB), ("client0", CLIENT)):
            peer = "tun0" if end == "tun0" else "eth0"
            self.ip(NODE, "link", "add", end, "type", "veth", "peer", "name", peer, "netns", self.names[short])
            self.ip(short, "link", "set", peer, "up")
            self.ip(NODE, "link", "set", end, "up")
        for end in ("tun0", "web0", "client0"):
            # The Node's kernel sees its packets as well; it is not to answer.
            self.run(NODE, "sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1")
            self.ip(NODE, "link", "set", end, "arp", "off")
        self.addresses(NODE, "eth0", within(both(NODE_IP)))
        self.addresses(OUTSIDE, "eth0", within(both(OUTSIDE_IP)))
        for short, (address, mac) in PODS.items():
            self.ip(short, "link", "set", "eth0", "address", mac)
            self.addresses(short, "eth0", within(both(address)))
            for gateway in both(GATEWAY_IP):
                self.ip(short, "route", "add", "default", "via", gateway)

    def start(self, tag):
        """Starts the switch (again); `tag` names its files of DPDK."""
        ports = [{"name": GATEWAY, "type": "internal"}, {"name": TUNNEL, "type": "af_packet", "interface": "tun0", "no_flood": True},
                 *({"name": f"{pod}0", "type": "af_packet", "interface": f"{pod}0", "underlay": False} for pod in PODS)]
        cores = machine.cores()
        dpdk = {"worker_cores": [cores[-1]], "main_core": cores[0], "memory_mb": 256, "hugepages": False, "file_prefix": tag}
        config = daemon.configuration(dpdk, ports, self.directory, "secure", idle_sleep_us=daemon.IDLE_SLEEP_US)
        self.switch = daemon.Switch(self.binaries, self.directory, config, self.names[NODE])
        self.defer(machine.end, self.switch.process)
        self.switch.wait_ready()
        machine.expect(f"the switch makes {GATEWAY}", lambda: GATEWAY in self.ip(NODE, "-o", "link", "show"))
        # What a link has once been up keeps its queue: then before and after can be compared.
        self.ip(NODE, "link", "set", GATEWAY, "addrgenmode", "none", "up")
        self.ip(NODE, "-6", "address", "flush", "dev", GATEWAY)

    def write(self, **features):
        """Writes the manifests of the Node, its Pods, a Service and an Egress."""
        write(self.manifests / "cluster.yaml", text_of(documents({"proxyAll": True} | features)))

    def declare(self, **features):
        """Tells the switch of the Node, its Pods, a Service and an Egress."""
        self.write(**features)
        argv = [self.binaries / "vswitch-agent", "--no-state", "--dir", self.manifests, "--node", NODE_NAME, "--socket", self.switch.socket, "--once"]
        machine.output(argv)

    def argv(self, *words):
        """An agent of the host alone, in the Node's namespace."""
        return ["ip", "netns", "exec", self.names[NODE], self.binaries / "vswitch-agent", "--state", self.state, "--socket", self.switch.socket, *words]

    def follow(self, *words, under=()):
        """Starts an agent that keeps the host as planned, and waits until it has reported."""
        before = (self.told() or {}).get("reported_unix_ms", 0)
        argv = self.argv("--host", "--period-ms", "300", *words)
        with open(self.directory / "host.log", "ab") as log:
            self.agent = machine.spawn([*argv[:4], *under, *argv[4:]], stdout=log, stderr=log)
        self.defer(machine.end, self.agent)
        machine.expect("the agent reports", lambda: (self.told() or {}).get("reported_unix_ms", 0) > before, self.log)

    def end(self):
        """Ends that agent."""
        machine.end(self.agent)

    def log(self):
        """What it logged."""
        return (self.directory / "host.log").read_text(errors="replace")

    def once(self, *words, **options):
        """Runs an agent to its end; (status, what it logged)."""
        done = subprocess.run([str(word) for word in self.argv(*words)], capture_output=True, text=True, timeout=machine.PATIENCE_S, **options)
        return done.returncode, done.stdout + done.stderr

    def plan(self):
        """The plan, as JSON."""
        return json.loads(machine.output(self.argv("--host-plan", "--json")))

    def told(self):
        """What the switch knows of the host."""
        return self.switch.json("antrea", "status")["host"]

    def problems(self, code):
        """Items of the problems of a kind."""
        return [one["item"] for one in (self.told() or {"problems": []})["problems"] if one["code"] == code]

    def snapshot(self):
        """Everything of the Node that a plan may change, as text."""
        return state_of(self.spaces[NODE])

    def serve(self, stack):
        """Who answers: web, and the world outside. Each tells whom it sees."""
        for short in (WEB, OUTSIDE):
            traffic.serve(self.names[short], short, PORT, stack)

    def ask(self, short, address, port=PORT):
        """(who answers, whom it sees) at an address."""
        return traffic.ask(self.names[short], address, port)


def state_of(space, *options):
    """Everything of a host that a plan may change, as text; options of nft(8)."""
    parts = [space.ip("address"), space.ip("neigh", "show", "nud", "permanent"), space.run("nft", *options, "list", "ruleset")]
    for family in ("-4", "-6"):
        parts += [space.ip(family, "route", "show", "table", "all"), space.ip(family, "rule")]
    values = space.run("sysctl", "-a", "-e").splitlines()
    return "\n".join([*parts, *(line for line in values if re.match(SYSCTLS, line))])


def documents(features):
    """The cluster."""
    yield document("v1", "Namespace", "default")
    status = {"addresses": [{"type": "InternalIP", "address": address} for address in both(NODE_IP)]}
    cidrs = list(both("10.10.0.0/24"))
    yield document("v1", "Node", NODE_NAME, spec={"podCIDRs": cidrs}, status=status)
    spec = {"bridge": "br0", "trafficMode": "Encap", "transportAddresses": within(both(NODE_IP)), "families": "Dual", "features": features,
            "gateway": {"port": GATEWAY, "mac": GATEWAY_MAC, "addresses": list(both(GATEWAY_IP))}, "tunnel": {"port": TUNNEL},
            "serviceCIDRs": list(both(SERVICES))}
    yield document("vswitch/v1", "NodeConfig", NODE_NAME, spec=spec)
    for pod, (address, mac) in PODS.items():
        metadata = {"labels": {"app": pod}, "annotations": {"vswitch/port": f"{pod}0", "vswitch/mac": mac}}
        yield document("v1", "Pod", pod, "default", metadata, spec={"nodeName": NODE_NAME}, status={"podIPs": [{"ip": one} for one in both(address)]})
    ports = [{"name": "http", "protocol": "TCP", "port": PORT, "targetPort": PORT, "nodePort": NODE_PORT}]
    yield document("v1", "Service", "web", "default", spec={"type": "NodePort", "selector": {"app": WEB}, "clusterIPs": list(both(CLUSTER_IP)),
                                                            "ipFamilies": ["IPv4", "IPv6"], "ports": ports})
    for family, address in zip((4, 6), both(PODS[WEB][0])):
        yield document("discovery.k8s.io/v1", "EndpointSlice", f"web-{family}", "default", {"labels": {"kubernetes.io/service-name": "web"}},
                       addressType=f"IPv{family}", ports=[{"name": "http", "protocol": "TCP", "port": PORT}],
                       endpoints=[{"addresses": [address], "nodeName": NODE_NAME, "conditions": {"ready": True}}])
    for name, address in zip(("four", "six"), both(EGRESS_IP)):
        yield document("crd.antrea.io/v1beta1", "Egress", name, metadata={"annotations": {"vswitch/translation": "Host"}},
                       spec={"appliedTo": {"podSelector": {"matchLabels": {"app": CLIENT}}}, "egressIP": address}, status={"egressNode": NODE_NAME})
