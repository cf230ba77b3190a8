"""The network: a Node with its Pods, a peer Node, and the world outside, each a network
namespace."""

from .. import daemon, machine, netns
from . import world
from .actions import PING_S
from .side import Side
from .world import CLIENT, DB, GATEWAY, PODS, TUNNEL, six

# Namespaces besides the Pods': the Node (the switch runs in it), what is outside, the peer Node,
# what looks at redirected packets, a Pod that comes and goes.
NODE, OUTSIDE, PEER, INSPECT, MOVER = "node", "outside", "peer", "inspect", "mover"


class Spaces:
    """Namespaces by short names; `names` maps those to what ip(8) calls them."""

    def __init__(self, names=None, spaces=None):
        self.names, self.spaces = names or {}, spaces or {}

    def run(self, short, *words, **options):
        """Runs a command in a namespace."""
        return self.spaces[short].run(*words, **options)

    def ip(self, short, *words):
        """Runs ip(8) on a namespace."""
        return self.spaces[short].ip(*words)

    def addresses(self, short, interface, addresses):
        """Gives an interface addresses with these lengths. They count at once."""
        for address in addresses:
            self.ip(short, "address", "add", address, "dev", interface, *(["nodad"] if ":" in address else []))

    def ping(self, short, address, size=56):
        """Three times; Failure when an answer is missing. (Of several requests, ping(8) waits for
        the last one's answer only as long as two others took, which on a busy machine is too
        short.)"""
        for _ in range(3):
            self.run(short, "ping", "-n", "-c", "1", "-W", PING_S, "-s", size, address)

    def checksum_errors(self):
        """Packets that kernels dropped for a wrong checksum, by namespace."""
        errors = {short: space.checksum_errors() for short, space in self.spaces.items()}
        return {short: count for short, count in errors.items() if count}


class Node(Spaces):
    """Everything around the switch of a Node; `side` says which one it is. What the host needs for
    the switch is an agent's: see `HostAgent`."""

    SHORTS = (*(pod.name for pod in PODS), NODE, OUTSIDE, PEER, INSPECT, MOVER)

    def __init__(self, tag, stack, leftovers, side=Side()):
        super().__init__({short: f"{tag}-{short}" for short in self.SHORTS})
        self.side = side
        for short, name in self.names.items():
            leftovers.add(namespace=name)
            stack.callback(netns.remove_namespace, name)
            self.spaces[short] = netns.Space(name)
            no_six = "1" if short == INSPECT else "0"
            self.run(short, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0",
                     f"net.ipv6.conf.default.disable_ipv6={no_six}")

    def both(self, v4):
        """An address of the document, as this Node has it, and its IPv6 twin."""
        return both(self.side.of(v4))

    def wires(self):
        """Makes veth pairs; returns the switch's ports, for its configuration. Call `attach` when
        it runs."""
        self._veth(CLIENT.name, "client0")
        self._veth(DB.name, "db0")
        return [
            {"name": TUNNEL, "number": world.PORTS[TUNNEL], "no_flood": True, **self._tunnel()},
            {"name": GATEWAY, "number": world.PORTS[GATEWAY], "type": "internal"},
            *({"name": pod.port, "number": pod.number, "type": pod.kind, "interface": f"{pod.name}0", "underlay": False} for pod in self.side.pods),
            *({"name": name, "number": number, "type": "tap", "interface": name, "no_flood": True} for name, number in world.TAPS),
        ]

    def _tunnel(self):
        """What the tunnel port is: here, the peer's plain Ethernet."""
        self._veth(PEER, "tun0")
        return {"type": "af_packet", "interface": "tun0"}

    def _veth(self, short, end):
        """A pair: `end` in the Node, eth0 in the other namespace."""
        self.ip(NODE, "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", self.names[short])
        self.ip(NODE, "link", "set", end, "addrgenmode", "none")
        # The Node's kernel sees its packets as well; it is not to answer.
        self.run(NODE, "sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1")
        self.ip(NODE, "link", "set", end, "arp", "off", "up")

    def attach(self):
        """Moves the interfaces that the switch has made to where they belong, and gives everybody
        addresses and routes."""
        taps = [(f"{pod.name}0", pod.name) for pod in PODS if pod.kind == "tap"] + [(name, INSPECT) for name, _ in world.TAPS]
        for interface, short in [*taps, (GATEWAY, NODE)]:
            self.made(interface)
            if short != NODE:
                self.ip(NODE, "link", "set", interface, "netns", self.names[short])
        for pod in self.side.pods:
            self._pod(pod)
        self._inspect()
        self._around()

    def made(self, interface):
        """Waits until the switch has made an interface."""
        machine.expect(f"the switch makes {interface}", lambda: interface in self.ip(NODE, "-o", "link", "show"))

    def _around(self):
        """What is outside the Node."""
        self._node()
        self._outside()
        self._peer()

    def interface(self, pod):
        """A Pod's interface, in its namespace."""
        return pod.interface

    def _pod(self, pod):
        interface = self.interface(pod)
        self.ip(pod.name, "link", "set", interface, "address", pod.mac, "up")
        self.addresses(pod.name, interface, within(both(pod.v4)))
        for gateway in self.both(world.GATEWAY_IP):
            self.ip(pod.name, "route", "add", "default", "via", gateway)

    def _node(self):
        self.ip(NODE, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", self.names[OUTSIDE])
        self.ip(NODE, "link", "set", "eth0", "up")
        self.addresses(NODE, "eth0", within(both(world.NODE)))
        for to, via in zip(both(world.INTERNET), both(world.OUTSIDE)):
            self.ip(NODE, "route", "add", to, "via", via, "dev", "eth0", "onlink")

    def _outside(self):
        self.ip(OUTSIDE, "link", "set", "eth0", "up")
        self.addresses(OUTSIDE, "eth0", within(both(world.OUTSIDE)))
        for address in both(world.PEER_NODE):  # never a connection's source
            self.ip(OUTSIDE, "address", "add", address, "dev", "eth0", "preferred_lft", "0", *(["nodad"] if ":" in address else []))
        self.addresses(OUTSIDE, "lo", both(world.INTERNET))
        for to in ("10.10.0.0/24", world.LOAD_BALANCER, world.LOCAL_POLICY, world.EXTERNAL):
            for target, via in zip(both(to), both(world.NODE)):
                self.ip(OUTSIDE, "route", "add", target, "via", via)

    def _peer(self):
        self.ip(PEER, "link", "set", "eth0", "address", world.VIRTUAL_MAC, "up")
        self.addresses(PEER, "eth0", within(both(world.REMOTE)))
        # The Egress IPs of this Node's client Pod live there: it is the internet's way back, too.
        self.addresses(PEER, "lo", both(world.INTERNET))
        for gateway in both(world.GATEWAY_IP):
            self.ip(PEER, "neighbour", "add", gateway, "lladdr", world.GATEWAY_MAC, "dev", "eth0", "nud", "permanent")
            self.ip(PEER, "route", "add", gateway, "dev", "eth0")
            self.ip(PEER, "route", "add", "default", "via", gateway, "dev", "eth0")

    def _inspect(self):
        """What comes out of one TAP of a pair goes back by the other: a bridge that does not
        learn."""
        for what in ("tc", "l7"):
            self.ip(INSPECT, "link", "add", f"{what}-wire", "type", "bridge", "mcast_snooping", "0")
            for end in (f"antrea-{what}-tap0", f"antrea-{what}-tap1"):
                self.ip(INSPECT, "link", "set", end, "master", f"{what}-wire")
                self.ip(INSPECT, "link", "set", end, "type", "bridge_slave", "learning", "off")
                self.ip(INSPECT, "link", "set", end, "up")
            self.ip(INSPECT, "link", "set", f"{what}-wire", "up")
        self.ip(INSPECT, "link", "set", "antrea-tc-tap2", "up")


def both(v4):
    """An address and its IPv6 twin."""
    return v4, six(v4)


def within(addresses):
    """An IPv4 and an IPv6 address with the lengths of their networks."""
    return [f"{address}/{64 if ':' in address else 24}" for address in addresses]


def name_tables(switch: daemon.Switch):
    """Gives the tables their names."""
    for number, name in enumerate(world.TABLES):
        switch.vsctl("add-table", "br0", name, "--number", number)
