"""Three Nodes, two of them on one link, the third one behind a router; a switch on each. Their
kernels route what no tunnel takes."""

import contextlib
import dataclasses

from .. import daemon, machine, netns
from . import traffic, world
from .actions import ALT, HTTP
from .host_agent import HostAgent
from .manifests import document
from .node import Spaces, both, within
from .world import GATEWAY, TUNNEL

UPLINK, UNDERLAY, ROUTER = "uplink", "br-phy", "router"
MTU = 1400
PODS = {"client": 11, "web": 12}  # the last number of their addresses
SERVICES = "10.96.0.0/12"
OURS = "211"  # protocol of the routes that are the network's own


@dataclasses.dataclass(frozen=True)
class Host:
    """A Node: 1, 2, or the one behind the router, 3."""

    number: int

    @property
    def name(self):
        """In the cluster."""
        return f"node-{self.number}"

    @property
    def link(self):
        """First numbers of the addresses of its link."""
        return "192.168.78" if self.number == 3 else "192.168.77"

    @property
    def address(self):
        """Its address between Nodes."""
        return f"{self.link}.{100 + self.number}"

    @property
    def router(self):
        """The router on its link."""
        return f"{self.link}.1"

    @property
    def pods(self):
        """Where its Pods' addresses are from."""
        return f"10.10.{self.number - 1}.0/24"

    @property
    def gateway(self):
        """Its gateway's address."""
        return self.pod_address(1)

    @property
    def gateway_mac(self):
        """Its gateway's MAC."""
        return self.mac(1)

    def pod_address(self, last):
        """The address of a Pod, by its last number."""
        return f"10.10.{self.number - 1}.{last}"

    def mac(self, last):
        """Likewise its MAC."""
        return f"02:00:00:0a:{self.number - 1:02x}:{last:02x}"

    def at(self, short):
        """A namespace's name among all."""
        return f"{short}@{self.number}"

    def others(self):
        """The other Nodes."""
        return [host for host in HOSTS if host != self]

    def is_near(self, other):
        """Whether they are on one link."""
        return self.link == other.link


HOSTS = tuple(map(Host, (1, 2, 3)))


def owners():
    """Who has which address."""
    found = {world.VIRTUAL_SERVICE: "virtual Service IP"}
    for host in HOSTS:
        found |= {host.address: host.at("node"), host.gateway: host.at("gateway"), host.router: ROUTER}
        found |= {host.pod_address(last): host.at(pod) for pod, last in PODS.items()}
    return found


class Three(Spaces):
    """Namespaces of Nodes (node@1), of Pods (client@1), and of the router. `prefix` begins their
    names; `defer` is told how to undo things."""

    def __init__(self, prefix, defer):
        shorts = [ROUTER, *(host.at(short) for host in HOSTS for short in ("node", *PODS))]
        super().__init__({short: f"{prefix}-{short.replace('@', '')}" for short in shorts})
        for short, name in self.names.items():
            defer(netns.remove_namespace, name)
            self.spaces[short] = netns.Space(name)
            self.run(short, "sysctl", "-qw", *(f"net.ipv4.conf.{which}.{what}=0" for which in ("all", "default") for what in ("rp_filter", "send_redirects")))
        self._router()
        for host in HOSTS:
            self._wires(host)

    def _router(self):
        self.ip(ROUTER, "link", "add", "near", "type", "bridge", "mcast_snooping", "0")
        self.run(ROUTER, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for host in HOSTS:
            end = f"to{host.number}"
            self.ip(ROUTER, "link", "add", end, "type", "veth", "peer", "name", UPLINK, "netns", self.names[host.at("node")])
            if host.number != 3:
                self.ip(ROUTER, "link", "set", end, "master", "near")
            # As on a cable, checksums are there.
            self.run(ROUTER, "ethtool", "-K", end, "tx", "off")
            self.ip(ROUTER, "link", "set", end, "up")
        self.ip(ROUTER, "link", "set", "near", "up")
        for host, interface in ((HOSTS[0], "near"), (HOSTS[2], "to3")):
            self.addresses(ROUTER, interface, within(both(host.router)))

    def _wires(self, host):
        node = host.at("node")
        self.run(node, "ethtool", "-K", UPLINK, "tx", "off")
        for pod, last in PODS.items():
            self.ip(node, "link", "add", f"{pod}0", "type", "veth", "peer", "name", "eth0", "netns", self.names[host.at(pod)])
            self.ip(host.at(pod), "link", "set", "eth0", "address", host.mac(last), "mtu", MTU, "up")
            self.addresses(host.at(pod), "eth0", within(both(host.pod_address(last))))
            for gateway in both(host.gateway):
                self.ip(host.at(pod), "route", "add", "default", "via", gateway)
        for end in (UPLINK, *(f"{pod}0" for pod in PODS)):
            self.ip(node, "link", "set", end, "addrgenmode", "none")
            # The Node's kernel sees its packets as well; it is not to answer.
            self.run(node, "sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1")
            self.ip(node, "link", "set", end, "arp", "off", "up")

    def start(self, host, binaries, directory, dpdk, defer):
        """Starts the switch of a Node; call `attach` when it is ready."""
        ports = [{"name": GATEWAY, "type": "internal"},
                 {"name": TUNNEL, "type": "geneve", "no_flood": True, "options": {"remote_ip": "flow", "key": "flow"}},
                 *({"name": f"{pod}0", "type": "af_packet", "interface": f"{pod}0", "underlay": False} for pod in PODS)]
        underlay = ({"name": UNDERLAY, "fail_mode": "standalone"},
                    [{"name": UPLINK, "type": "af_packet", "interface": UPLINK}, {"name": UNDERLAY, "type": "internal", "addresses": within(both(host.address))}])
        config = daemon.configuration(dpdk, ports, directory, "secure", others=[underlay], idle_sleep_us=daemon.IDLE_SLEEP_US)
        switch = daemon.Switch(binaries, directory, config, self.names[host.at("node")])
        defer(machine.end, switch.process)
        return switch

    def attach(self, host, switch):
        """Gives the interfaces that the switch has made addresses; tells it the way to the other
        link."""
        node = host.at("node")
        for interface in (GATEWAY, UNDERLAY):
            machine.expect(f"the switch makes {interface}", lambda interface=interface: interface in self.ip(node, "-o", "link", "show"))
        self.ip(node, "link", "set", GATEWAY, "mtu", MTU)
        self.ip(node, "link", "set", UNDERLAY, "up")
        self.addresses(node, UNDERLAY, within(both(host.address)))
        far = "192.168.77.0/24" if host.number == 3 else "192.168.78.0/24"
        for prefix, router in zip(both(far), both(host.router)):
            self.ip(node, "route", "add", prefix, "via", router)
            switch.vsctl("route-add", prefix, UNDERLAY, router)

    def serve(self, stack):
        """Who answers: every Pod, and every Node."""
        for host in HOSTS:
            for short in ("node", *PODS):
                label = host.at(short)
                for port in (HTTP, ALT):
                    traffic.serve(self.names[label], label, port, stack)
                traffic.echo_datagrams(self.names[label], HTTP, stack, label)

    # What a traffic mode needs of the kernels beside the agent: the network's own part.

    def clear(self):
        """Takes it all away."""
        for host in HOSTS:
            node = host.at("node")
            self.run(node, "nft", "flush", "ruleset")
            for family in ("-4", "-6"):
                self._flush_routes(node, family)
                self.ip(node, family, "neighbour", "flush", "dev", GATEWAY, "nud", "all")
                for pod in PODS:
                    self.ip(host.at(pod), family, "neighbour", "flush", "all")
        for family in ("-4", "-6"):
            self._flush_routes(ROUTER, family)

    def _flush_routes(self, short, family):
        self.run(short, "sh", "-c", f"ip {family} route flush table all proto {OURS}")

    @contextlib.contextmanager
    def hosts(self, switches):
        """Meanwhile each Node's agent has the host as its switch plans; nothing of it stays."""
        with contextlib.ExitStack() as stack:
            for host in HOSTS:
                switch = switches[host.name]
                agent = HostAgent(switch, self.names[host.at("node")], switch.directory, stack)
                stack.callback(agent.clear)
                agent.once()
            yield

    def by_network(self, host, other):
        """Pods of another Node are behind it, or behind the router, which knows where they are."""
        for pods, router, there in zip(both(other.pods), both(host.router), both(other.address)):
            self._route(host.at("node"), pods, there if host.is_near(other) else router)
            if not host.is_near(other):
                self._route(ROUTER, pods, there)

    def proxy(self, host, rules):
        """The kernel translates packets for Services by `rules`, as kube-proxy's."""
        self.run(host.at("node"), "nft", PROXY.format(rules=rules))

    def _route(self, short, to, via):
        """Adds a route (again)."""
        self.ip(short, "-6" if ":" in to else "-4", "route", "replace", to, "via", via, "proto", OURS)


PROXY = """table inet proxy {{
  chain services {{
    type nat hook prerouting priority dstnat;
{rules}
  }}
}}
"""


def node_documents(host, mode, **features):
    """A Node, and how its switch is configured."""
    policy_only = mode == "NetworkPolicyOnly"
    status = {"addresses": [{"type": "InternalIP", "address": address} for address in both(host.address)]}
    yield document("v1", "Node", host.name, spec={} if policy_only else {"podCIDRs": list(both(host.pods))}, status=status)
    # The host's addresses that probe Pods, there.
    gateways = both(host.address if policy_only else host.gateway)
    spec = {"bridge": "br0", "trafficMode": mode, "transportAddresses": within(both(host.address)), "families": "Dual", "features": features,
            "gateway": {"port": GATEWAY, "mac": host.gateway_mac, "addresses": list(gateways)}, "serviceCIDRs": list(both(SERVICES)), "host": {"podsKeepAddresses": True}}
    yield document("vswitch/v1", "NodeConfig", host.name, spec=spec | ({"tunnel": {"port": TUNNEL}} if mode == "Hybrid" else {}))


def pod_documents(host):
    """Its Pods."""
    for pod, last in PODS.items():
        metadata = {"labels": {"app": pod}, "annotations": {"vswitch/port": f"{pod}0", "vswitch/mac": host.mac(last)}}
        yield document("v1", "Pod", f"{pod}-{host.number}", "default", metadata, spec={"nodeName": host.name},
                       status={"podIPs": [{"ip": address} for address in both(host.pod_address(last))]})
