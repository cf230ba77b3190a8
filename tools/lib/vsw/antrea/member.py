"""A Node of two: its network is the switch's, which has the uplink, puts packets for the other Node
into Geneve and takes them out."""

from . import world
from .node import INSPECT, NODE, Node, both, within
from .side import EGRESS_IPS
from .world import GATEWAY, PODS

UPLINK, UNDERLAY = "uplink", "br-phy"
PATCH = ("uplink0", "br0-patch")  # ends in the Pods' bridge and in that of the uplink
WIRE = "wire"  # the link, a bridge outside
DEVICE = "device"  # in the Pods' bridge, on a link to the world outside of its own
MTU = 1430  # 1500 less 70: Ethernet inside, Geneve, UDP and IPv6 outside


class Member(Node):
    """As a Node by itself, but for what is outside: there is the other Node only."""

    SHORTS = (*(pod.name for pod in PODS), NODE, INSPECT)

    @property
    def vteps(self):
        """Addresses of our end of tunnels, with the lengths of their networks: the Node's, and that
        of Egress."""
        return [address for v4 in (world.NODE, EGRESS_IPS[0]) for address in within(self.both(v4))]

    def underlay(self):
        """The bridge of the uplink, and its ports: what the configuration says of it."""
        ports = [
            {"name": UPLINK, "type": "af_packet", "interface": UPLINK},
            {"name": UNDERLAY, "type": "internal", "addresses": self.vteps},
            {"name": PATCH[1], "type": "patch", "peer": PATCH[0], "no_flood": True},
        ]
        return {"name": UNDERLAY, "fail_mode": "standalone"}, ports

    def wires(self):
        device = {"name": DEVICE, "type": "af_packet", "interface": DEVICE, "no_flood": True}
        return [*super().wires(), {"name": PATCH[0], "type": "patch", "peer": PATCH[1], "no_flood": True}, device]

    def _tunnel(self):
        return {"type": "geneve", "options": {"remote_ip": "flow", "key": "flow"}}

    def _around(self):
        for short, interface in [(pod.name, self.interface(pod)) for pod in PODS] + [(NODE, GATEWAY)]:
            self.ip(short, "link", "set", interface, "mtu", MTU)
        self.made(UNDERLAY)
        self.ip(NODE, "link", "set", UNDERLAY, "address", f"02:00:00:00:66:{self.side.number:02x}", "up")
        # The kernel has them as well: it answers ARP requests and neighbour solicitations for them,
        # and they are the Node's own.
        self.addresses(NODE, UNDERLAY, self.vteps)
        # The internet, for the other Node's Egress.
        self.addresses(NODE, "lo", self.both(world.INTERNET))


def cable(outside, *nodes):
    """The link of Nodes and the world outside: a bridge there, and a veth pair to each Node, whose
    ends in the Nodes only the switches use; and another pair each."""
    # As on a cable, checksums are there: a veth pair would carry those that the switch leaves to
    # the interface (of UDP over IPv6) undone.
    outside.ip("link", "add", WIRE, "address", "02:00:00:00:77:01", "type", "bridge", "mcast_snooping", "0")
    # It tells of another MAC address, as a router does that takes over.
    outside.run("sysctl", "-qw", f"net.ipv4.conf.{WIRE}.arp_notify=1", f"net.ipv6.conf.{WIRE}.ndisc_notify=1")
    for node in nodes:
        for interface, end in ((UPLINK, f"node{node.side.number}"), (DEVICE, f"{DEVICE}{node.side.number}")):
            node.ip(NODE, "link", "add", interface, "type", "veth", "peer", "name", end, "netns", outside.name)
            node.ip(NODE, "link", "set", interface, "addrgenmode", "none")
            node.run(NODE, "sysctl", "-qw", f"net.ipv6.conf.{interface}.disable_ipv6=1")
            outside.run("sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1")
            node.run(NODE, "ethtool", "-K", interface, "tx", "off")
            outside.run("ethtool", "-K", end, "tx", "off")
            node.ip(NODE, "link", "set", interface, "arp", "off", "up")
            if interface == UPLINK:
                outside.ip("link", "set", end, "master", WIRE, "up")
    outside.run("ethtool", "-K", WIRE, "tx", "off")
    outside.ip("link", "set", WIRE, "up")
    for address in within(both(world.OUTSIDE)):
        outside.ip("address", "add", address, "dev", WIRE, *(["nodad"] if ":" in address else []))
    for address in both(world.INTERNET):
        outside.ip("address", "add", address, "dev", "lo")
