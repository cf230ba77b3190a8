"""Pods of the network between Nodes, in VLANs and untagged (scenes: `vlan_scenes.py`): two Nodes on
a trunk, and a router that is on all of its VLANs.

Node 1 has the uplink in a bridge of its own, with its VTEP, and tunnels; Node 2 has it in the Pods'
bridge."""

import contextlib
import dataclasses

from .. import daemon, machine, netns
from ..ovs import OpenVswitch
from . import traffic
from .actions import ALT, BOTH, HTTP, of
from .manifests import document, text_of
from .node import Spaces, both, within
from .three import SERVICES
from .world import GATEWAY, TUNNEL

UPLINK, UNDERLAY, PATCH = "uplink", "br-phy", ("uplink0", "br0-patch")
ROUTER, TRUNK = "router", "trunk"
REFUSED = 8081
REDS = "10.96.0.30"  # a Service of two Pods of one VLAN
NOBODYS = 300  # a VLAN without Pods; the router has an address in it
LINKS = {0: "192.168.77", 100: "172.16.100", 200: "172.16.200", NOBODYS: "192.168.78"}


@dataclasses.dataclass(frozen=True)
class Host:
    """A Node of this name."""

    number: int

    @property
    def name(self):
        """In the cluster."""
        return f"node-{self.number}"

    @property
    def space(self):
        """Its namespace."""
        return f"node@{self.number}"

    @property
    def address(self):
        """Between Nodes."""
        return f"{LINKS[0]}.{100 + self.number}"

    @property
    def mac(self):
        """On the wire."""
        return f"02:00:00:00:66:{self.number:02x}"

    @property
    def prefix(self):
        """First numbers of ordinary Pods' addresses."""
        return f"10.10.{self.number - 1}"


def in_vlan(vlan):
    """The router's interface in a VLAN."""
    return f"vlan{vlan}" if vlan else TRUNK


ONE, TWO = HOSTS = tuple(map(Host, (1, 2)))


@dataclasses.dataclass(frozen=True)
class Pod:
    """A Pod in a VLAN, untagged (0) or (None) an ordinary one."""

    name: str
    host: Host
    vlan: int | None
    last: int

    @property
    def address(self):
        """Its address."""
        return f"{self.host.prefix if self.vlan is None else LINKS[self.vlan]}.{self.last}"

    @property
    def router(self):
        """Its next hop."""
        return f"{self.host.prefix if self.vlan is None else LINKS[self.vlan]}.1"

    @property
    def mac(self):
        """Its MAC address."""
        return f"02:00:00:0b:{self.host.number:02x}:{self.last:02x}"


RED1, RED2, BLUE = Pod("red1", ONE, 100, 11), Pod("red2", ONE, 100, 12), Pod("blue", ONE, 200, 13)
FLAT, PLAIN, RED3 = Pod("flat", ONE, 0, 51), Pod("plain", ONE, None, 15), Pod("red3", TWO, 100, 21)
PODS = (RED1, RED2, BLUE, FLAT, PLAIN, RED3)
GATEWAY_MACS = {host: f"02:00:00:0b:{host.number:02x}:01" for host in HOSTS}


class Trunk(Spaces):
    """The namespaces. `prefix` begins their names; `directory` is the router's; `defer` is told how
    to undo things."""

    def __init__(self, prefix, directory, defer):
        shorts = [ROUTER, *(host.space for host in HOSTS), *(pod.name for pod in PODS)]
        super().__init__({short: f"{prefix}-{short.replace('@', '')}" for short in shorts})
        for short, name in self.names.items():
            defer(netns.remove_namespace, name)
            self.spaces[short] = netns.Space(name)
            self.run(short, "sysctl", "-qw", *(f"net.ipv4.conf.{which}.{what}=0" for which in ("all", "default") for what in ("rp_filter", "send_redirects")))
        self._router(directory, defer)
        for pod in PODS:
            self._pod(pod)

    def _router(self, directory, defer):
        """An Open vSwitch with the ends of both cables, trunks, and a port in each VLAN, by which
        the router's kernel is there."""
        self.run(ROUTER, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        self.ovs = ovs = OpenVswitch(directory, self.names[ROUTER], defer)
        ovs.vsctl("add-br", TRUNK, "--", "set", "bridge", TRUNK, "datapath_type=netdev", "other_config:hwaddr=02:00:00:00:77:01")
        for host in HOSTS:
            end = f"to{host.number}"
            self.ip(ROUTER, "link", "add", end, "type", "veth", "peer", "name", UPLINK, "netns", self.names[host.space])
            # As on a cable, checksums are there.
            self.run(ROUTER, "ethtool", "-K", end, "tx", "off")
            self.run(host.space, "ethtool", "-K", UPLINK, "tx", "off")
            self._silent(host.space, UPLINK)
            self._silent(ROUTER, end)
            ovs.vsctl("add-port", TRUNK, end)
        for vlan, link in LINKS.items():
            interface = in_vlan(vlan)
            if vlan:
                ovs.vsctl("add-port", TRUNK, interface, f"tag={vlan}", "--", "set", "interface", interface, "type=internal")
            self.run(ROUTER, "ethtool", "-K", interface, "tx", "off")
            self.ip(ROUTER, "link", "set", interface, "up")
            self.addresses(ROUTER, interface, within(both(f"{link}.1")))

    @contextlib.contextmanager
    def priorities(self, host, address):
        """Meanwhile what the router sends to this address, on a Node's link, has a tag of VLAN 0,
        which says a priority alone."""
        match = f"in_port=LOCAL,{'ipv6,ipv6_dst' if ':' in address else 'ip,nw_dst'}={address}"
        self.ovs.ofctl("add-flow", TRUNK, f"{match} actions=push_vlan:0x8100,output:to{host.number}")
        try:
            yield
        finally:
            self.ovs.ofctl("del-flows", TRUNK, match)

    def _silent(self, short, interface):
        """The Node's kernel sees its packets as well; it is not to answer."""
        self.ip(short, "link", "set", interface, "addrgenmode", "none")
        self.run(short, "sysctl", "-qw", f"net.ipv6.conf.{interface}.disable_ipv6=1")
        self.ip(short, "link", "set", interface, "arp", "off", "up")

    def _pod(self, pod):
        self.ip(pod.host.space, "link", "add", pod.name, "type", "veth", "peer", "name", "eth0", "netns", self.names[pod.name])
        self.ip(pod.name, "link", "set", "eth0", "address", pod.mac, "up")
        self.addresses(pod.name, "eth0", within(both(pod.address)))
        for router in both(pod.router):
            self.ip(pod.name, "route", "add", "default", "via", router)
        self._silent(pod.host.space, pod.name)

    def start(self, host, binaries, directory, dpdk, defer):
        """Starts the switch of a Node; call `attach` when it is ready."""
        ports = [{"name": GATEWAY, "type": "internal"}, *({"name": pod.name, "type": "af_packet", "interface": pod.name, "underlay": False} for pod in PODS if pod.host == host)]
        uplink, others = {"name": UPLINK, "type": "af_packet", "interface": UPLINK}, []
        if host == ONE:
            ports += [{"name": TUNNEL, "type": "geneve", "no_flood": True, "options": {"remote_ip": "flow", "key": "flow"}},
                      {"name": PATCH[0], "type": "patch", "peer": PATCH[1], "no_flood": True}]
            vtep = {"name": UNDERLAY, "type": "internal", "addresses": within(both(host.address))}
            others = [({"name": UNDERLAY, "fail_mode": "standalone"}, [uplink, vtep, {"name": PATCH[1], "type": "patch", "peer": PATCH[0], "no_flood": True}])]
        else:
            ports.append(uplink | {"no_flood": True})
        switch = daemon.Switch(binaries, directory, daemon.configuration(dpdk, ports, directory, "secure", others=others, idle_sleep_us=daemon.IDLE_SLEEP_US), self.names[host.space])
        defer(machine.end, switch.process)
        return switch

    def attach(self, host):
        """Gives the Node its own address on the wire, where its host has a port there. What else
        the host needs is an agent's."""
        for interface in [GATEWAY] + [UNDERLAY] * (host == ONE):
            machine.expect(f"the switch makes {interface}", lambda interface=interface: interface in self.ip(host.space, "-o", "link", "show"))
        if host == ONE:
            self.ip(host.space, "link", "set", UNDERLAY, "address", host.mac, "up")
            self.addresses(host.space, UNDERLAY, within(both(host.address)))
            for router in both(f"{LINKS[0]}.1"):
                self.ip(host.space, "route", "add", "default", "via", router)

    def serve(self, stack):
        """Who answers: every Pod, and the router."""
        for label in (ROUTER, ONE.space, *(pod.name for pod in PODS)):
            for port in (HTTP, ALT, REFUSED):
                traffic.serve(self.names[label], label, port, stack)
            for port in (HTTP, REFUSED):
                traffic.echo_datagrams(self.names[label], port, stack, label)


def manifests():
    """The cluster."""
    documents = [document("v1", "Namespace", "default"), *map(_pod_document, PODS), *_service(), *_policies()]
    for host in HOSTS:
        status = {"addresses": [{"type": "InternalIP", "address": address} for address in both(host.address)]}
        documents.append(document("v1", "Node", host.name, spec={"podCIDRs": list(both(f"{host.prefix}.0/24"))}, status=status))
        uplink = {"port": PATCH[0], "underlayBridge": UNDERLAY} if host == ONE else {"port": UPLINK}
        spec = {"bridge": "br0", "trafficMode": "Encap" if host == ONE else "NoEncap", "families": "Dual", "transportAddresses": within(both(host.address)),
                "gateway": {"port": GATEWAY, "mac": GATEWAY_MACS[host], "addresses": list(both(f"{host.prefix}.1"))}, "serviceCIDRs": list(both(SERVICES)),
                "uplink": uplink | {"mac": host.mac}, "features": {"podVLANs": True}}
        documents.append(document("vswitch/v1", "NodeConfig", host.name, spec=spec | ({"tunnel": {"port": TUNNEL}} if host == ONE else {})))
    return text_of(documents)


def _pod_document(pod):
    annotations = {"vswitch/port": pod.name, "vswitch/mac": pod.mac} | ({"vswitch/vlan": str(pod.vlan)} if pod.vlan else {})
    return document("v1", "Pod", pod.name, "default", {"labels": {"app": pod.name}, "annotations": annotations}, spec={"nodeName": pod.host.name},
                    status={"podIPs": [{"ip": address} for address in both(pod.address)]})


def _service():
    ports = [{"name": "tcp", "protocol": "TCP", "port": HTTP}, {"name": "udp", "protocol": "UDP", "port": HTTP}]
    yield document("v1", "Service", "reds", "default", spec={"clusterIPs": list(both(REDS)), "ipFamilies": ["IPv4", "IPv6"], "ports": ports})
    for family in BOTH:
        endpoints = [{"addresses": [of(pod.address, family)], "nodeName": pod.host.name} for pod in (RED2, RED3)]
        yield document("discovery.k8s.io/v1", "EndpointSlice", f"reds-{family}", "default", {"labels": {"kubernetes.io/service-name": "reds"}},
                       addressType=f"IPv{family}", ports=ports, endpoints=endpoints)


def _policies():
    """Nobody reaches ALT of red2, red3 and flat, who asks for REFUSED is refused; red1 reaches ALT
    of the router as little."""
    refused = [{"protocol": protocol, "port": REFUSED} for protocol in ("TCP", "UDP")]
    for pod in (RED2, RED3, FLAT):
        rules = [{"action": "Drop", "name": "Drop", "ports": [{"protocol": "TCP", "port": ALT}]}, {"action": "Reject", "name": "Reject", "ports": refused}]
        yield _policy(pod, ingress=rules)
    routers = [{"ipBlock": {"cidr": f"{address}/{128 if ':' in address else 32}"}} for address in both(RED1.router)]
    yield _policy(RED1, egress=[{"action": "Drop", "name": "Drop", "to": routers, "ports": [{"protocol": "TCP", "port": ALT}]},
                                {"action": "Reject", "name": "Reject", "to": routers, "ports": refused}])


def _policy(pod, **rules):
    return document("crd.antrea.io/v1beta1", "ClusterNetworkPolicy", pod.name,
                    spec={"priority": 1, "tier": "application", "appliedTo": [{"podSelector": {"matchLabels": {"app": pod.name}}}]} | rules)
