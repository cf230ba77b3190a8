"""The network of a CNI plug-in that routes: two Nodes, their Pods, and a network between the Nodes
that knows where Pods are. All of it works without a switch."""

import dataclasses

from ... import machine, netns
from .. import traffic
from ..actions import ALT, HTTP
from ..node import Spaces, both, within
from ..world import GATEWAY

OUTSIDE = "outside"  # the network between Nodes, and the world behind it
REFUSED = 8081
PORTS = (HTTP, ALT, REFUSED)
NODE_PORTS = {30080: "web", 30081: "db"}  # of Node 1: who answers there
TO_WEB, TO_DB = NODE_PORTS
# The router of every Pod: the Node's end of the Pod's link answers for it.
ROUTERS = ("169.254.1.1", "fe80::1")


@dataclasses.dataclass(frozen=True)
class Host:
    """A Node: the network's part of it, and its Pods by name."""

    number: int
    link: str
    pods: dict

    @property
    def node(self):
        """The namespace of it."""
        return f"node@{self.number}"

    @property
    def address(self):
        """Its own."""
        return f"{self.link}.{101 + self.number}"

    @property
    def router(self):
        """The network's address on its link."""
        return f"{self.link}.1"

    @property
    def prefix(self):
        """Where the addresses of its Pods are from."""
        return f"10.10.{self.number - 1}.0/24"

    def at(self, pod):
        """The namespace of a Pod."""
        return f"{pod}@{self.number}"

    def pod(self, name):
        """The address of a Pod."""
        return f"10.10.{self.number - 1}.{self.pods[name][0]}"


ONE = Host(1, "192.168.77", {"client": (26, "5e:b5:e3:a6:90:b7"), "web": (24, "fa:b7:53:74:21:a6"), "db": (25, "36:48:21:a2:9d:b4")})
TWO = Host(2, "192.168.78", {"client": (26, "02:00:00:0a:01:1a"), "web": (24, "02:00:00:0a:01:18")})
HOSTS = (ONE, TWO)
# Services, and who answers there.
WEB, NEAR, FAR, DATA = "10.105.31.10", "10.105.31.11", "10.105.31.12", "10.105.31.13"
SERVICES = {WEB: [ONE.pod("web"), TWO.pod("web")], NEAR: [ONE.pod("web")], FAR: [TWO.pod("web")], DATA: [ONE.pod("db")]}
OWNERS = {ONE.router: OUTSIDE, TWO.router: OUTSIDE, **{host.address: host.node for host in HOSTS},
          **{host.pod(name): host.at(name) for host in HOSTS for name in host.pods}}


def end_of(pod):
    """The Node's end of a Pod's link."""
    return f"eni-{pod}"


class Network(Spaces):
    """The namespaces. `made` is told of each name before it is made, `defer` how to undo it."""

    def __init__(self, tag, made, defer):
        shorts = [OUTSIDE, *(short for host in HOSTS for short in (host.node, *map(host.at, host.pods)))]
        super().__init__({short: f"{tag}-{short.replace('@', '')}" for short in shorts})
        for short, name in self.names.items():
            made(name)
            defer(netns.remove_namespace, name)
            self.spaces[short] = netns.Space(name)
            values = [f"net.ipv4.conf.{which}.{what}=0" for which in ("all", "default") for what in ("rp_filter", "send_redirects")]
            self.run(short, "sysctl", "-qw", *values)
        for short in (OUTSIDE, *(host.node for host in HOSTS)):
            self.run(short, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for host in HOSTS:
            self._link(host)
            for pod in host.pods:
                self._pod(host, pod)
                self.give_route(host, pod)
            self.kube_proxy(host)

    def _link(self, host):
        """A Node on the network, which routes to its Pods."""
        end = f"to{host.number}"
        self.ip(host.node, "link", "add", "eth0", "type", "veth", "peer", "name", end, "netns", self.names[OUTSIDE])
        for short, interface, address in ((host.node, "eth0", host.address), (OUTSIDE, end, host.router)):
            self.ip(short, "link", "set", interface, "up")
            self.addresses(short, interface, within(both(address)))
        for pods, router, there in zip(both(host.prefix), both(host.router), both(host.address)):
            self.ip(host.node, *_family(router), "route", "add", "default", "via", router)
            self.ip(OUTSIDE, "route", "add", pods, "via", there)

    def _pod(self, host, pod):
        """A Pod on a link of two ends; it knows the other end alone."""
        short, end, (_, mac) = host.at(pod), end_of(pod), host.pods[pod]
        self.ip(host.node, "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", self.names[short])
        # The Node's end answers for the router of Pods.
        self.ip(host.node, "link", "set", end, "addrgenmode", "none")
        self.run(host.node, "sysctl", "-qw", f"net.ipv4.conf.{end}.proxy_arp=1", f"net.ipv4.neigh.{end}.proxy_delay=0")
        self.ip(host.node, "link", "set", end, "up")
        self.ip(host.node, "address", "add", f"{ROUTERS[1]}/64", "dev", end, "nodad")
        self.ip(short, "link", "set", "eth0", "address", mac, "up")
        for address, router in zip(both(host.pod(pod)), ROUTERS):
            self.addresses(short, "eth0", [address])
            self.ip(short, *_family(router), "route", "add", "default", "via", router, "dev", "eth0", "onlink")

    def give_route(self, host, pod):
        """The Node's route to a Pod, by the Pod's link: the other plug-in's."""
        for address in both(host.pod(pod)):
            self.ip(host.node, "route", "add", address, "dev", end_of(pod))

    def hand_over(self, host, pod):
        """A chained plug-in's call for a Pod: the Pod's link becomes the switch's, and the Node's
        kernel leaves it alone."""
        end = end_of(pod)
        for address in both(host.pod(pod)):
            self.ip(host.node, "route", "del", address, "dev", end)
        # The Node's kernel sees packets of the link as well. Another MAC address of the end keeps
        # it from taking those that a Pod sends to the one that it has learned.
        self.ip(host.node, "link", "set", end, "down")
        self.ip(host.node, "link", "set", end, "address", f"02:00:00:00:fe:{host.pods[pod][0]:02x}")
        self.run(host.node, "sysctl", "-qw", f"net.ipv4.conf.{end}.proxy_arp=0", f"net.ipv6.conf.{end}.disable_ipv6=1")
        self.ip(host.node, "link", "set", end, "arp", "off", "up")

    def kube_proxy(self, host):
        """What kube-proxy has the kernel of a Node translate."""
        self.run(host.node, "nft", KUBE_PROXY.format(rules="\n".join(translations(host))))

    def without_kube_proxy(self, host):
        """Takes that away."""
        self.run(host.node, "nft", "delete", "table", "inet", "kube-proxy")

    def serve(self, stack):
        """Who answers: every Pod, every Node, and the world outside."""
        for short, name in self.names.items():
            for port in PORTS:
                traffic.serve(name, short, port, stack)
                traffic.echo_datagrams(name, port, stack, short)

    def made(self, host, interface):
        """Waits until the switch has made an interface."""
        machine.expect(f"the switch makes {interface}", lambda: interface in self.ip(host.node, "-o", "link", "show"))

    def seen(self, host):
        """What a Node's kernel has, by the command that shows it: each a list of lines."""
        of_family = ("neigh show nud permanent", f"-brief address show dev {GATEWAY}", "route", "route show table 300", "rule")
        commands = [*(f"ip {family} {words}" for words in of_family for family in ("-4", "-6")), "nft list table inet vswitch"]
        # A table that is not there is an error.
        return {command: self.run(host.node, "sh", "-c", f"{command} 2>/dev/null || true").splitlines() for command in commands}


def _family(address):
    return ("-6",) if ":" in address else ()


def translations(host):
    """Rules of kube-proxy's: cluster IPs, and NodePorts of Node 1, which masquerades clients."""
    for index, (word, proto) in enumerate((("ip", "ipv4"), ("ip6", "ipv6"))):
        for service, endpoints in SERVICES.items():
            places = [both(one)[index] for one in endpoints]
            chosen = ", ".join(f"{number} : {place}" for number, place in enumerate(places))
            asked = f"{word} daddr {both(service)[index]} meta l4proto {{ tcp, udp }} th dport {{ {', '.join(map(str, PORTS))} }}"
            yield f"    {asked} dnat {word} to numgen random mod {len(places)} map {{ {chosen} }}"
        for number, pod in NODE_PORTS.items() if host == ONE else ():
            place = both(ONE.pod(pod))[index]
            own = f"meta nfproto {proto} fib daddr type local meta l4proto {{ tcp, udp }} th dport {number}"
            yield f"    {own} meta mark set meta mark | 0x4000 dnat {word} to {_with_port(place)}"


def _with_port(address):
    return f"[{address}]:{HTTP}" if ":" in address else f"{address}:{HTTP}"


KUBE_PROXY = """table inet kube-proxy {{
  chain services {{
{rules}
  }}
  chain prerouting {{ type nat hook prerouting priority dstnat; jump services; }}
  chain output {{ type nat hook output priority -100; jump services; }}
  chain postrouting {{ type nat hook postrouting priority srcnat; meta mark & 0x4000 == 0x4000 masquerade; }}
}}
"""
