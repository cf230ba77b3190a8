"""A Node of two: its network is the switch's, which has the uplink, puts packets for the other Node into Geneve and takes them out."""

from . import world
from .node import INSPECT, NODE, Node, within
from .side import EGRESS_IPS
from .world import GATEWAY, PODS

UPLINK, UNDERLAY = "uplink", "br-phy"
MTU = 1430  # 1500 less 70: Ethernet inside, Geneve, UDP and IPv6 outside


class Member(Node):
    """As a Node by itself, but for what is outside: there is the other Node only."""

    SHORTS = (*(pod.name for pod in PODS), NODE, INSPECT)

    @property
    def homes(self):
        """Addresses of our end of tunnels, with the lengths of their networks: the Node's, and that of Egress."""
        return [address for v4 in (world.NODE, EGRESS_IPS[0]) for address in within(self.both(v4))]

    def underlay(self):
        """The bridge of the uplink, and its ports: what the configuration says of it."""
        ports = [
            {"name": UPLINK, "type": "af_packet", "interface": UPLINK},
            {"name": UNDERLAY, "type": "internal", "addresses": self.homes},
        ]
        return {"name": UNDERLAY, "fail_mode": "standalone"}, ports

    def _tunnel(self):
        return {"type": "geneve", "options": {"remote_ip": "flow", "key": "flow"}}

    def _around(self):
        for short, interface in [(pod.name, self.interface(pod)) for pod in PODS] + [(NODE, GATEWAY)]:
            self.ip(short, "link", "set", interface, "mtu", MTU)
        self.made(UNDERLAY)
        self.ip(NODE, "link", "set", UNDERLAY, "up")
        # The kernel has them as well: it answers ARP requests and neighbour solicitations for them, and they are the Node's own.
        self._addresses(NODE, UNDERLAY, *self.homes)
        # The internet, for the other Node's Egress.
        self._addresses(NODE, "lo", *self.both(world.INTERNET))


def cable(one, other):
    """The wire between two Nodes: a veth pair, whose ends only the switches use."""
    one.ip(NODE, "link", "add", UPLINK, "type", "veth", "peer", "name", UPLINK, "netns", other.names[NODE])
    for node in (one, other):
        node.ip(NODE, "link", "set", UPLINK, "addrgenmode", "none")
        node.run(NODE, "sysctl", "-qw", f"net.ipv6.conf.{UPLINK}.disable_ipv6=1")
        # As on a cable, checksums are there: a veth pair would carry those that the switch leaves to the interface (of UDP over IPv6) undone.
        node.run(NODE, "ethtool", "-K", UPLINK, "tx", "off")
        node.ip(NODE, "link", "set", UPLINK, "arp", "off", "up")
