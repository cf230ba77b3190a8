"""Who is there: two Nodes on a wire, a client outside, and their addresses. They are those of
OVN-Kubernetes' documents."""

import dataclasses

GATEWAY, TUNNEL = "antrea-gw0", "antrea-tun0"
UPLINK, UNDERLAY = "uplink", "br-phy"  # the card, and its bridge with the host's port of that name
PATCH = ("to-phy", "to-int")  # ends in the Pods' bridge and in the gateway bridge
WIRE = "wire"  # the link, a bridge outside
PODS = {"web": 3, "client": 4}  # the last number of their addresses
MTU = 1430  # 1500 less 70: Ethernet inside, Geneve, UDP and IPv6 outside
SERVICES = "10.96.0.0/16"
OUTSIDE, FAR = "172.18.0.1", "203.0.113.9"  # on the wire, and behind it
POD_PORT, HOST_PORT, OUTSIDE_PORT = 8080, 8081, 8082
SIDE = "169.254.169.1"  # the Pods' side, as a host sees it

_SIX = {"172.18.0": "fc00::", "172.20.0": "fc20::", "10.244.1": "fd00:10:244:1::", "10.244.2": "fd00:10:244:2::", "10.96.0": "fd00:10:96::",
        "203.0.113": "fd00:203::", "169.254.169": "fd69::"}
_SIX_PREFIX = {"10.244.1.0/24": "fd00:10:244:1::/64", "10.244.2.0/24": "fd00:10:244:2::/64", SERVICES: "fd00:10:96::/112"}


def six(v4):
    """The IPv6 twin of an address or prefix."""
    if v4 in _SIX_PREFIX:
        return _SIX_PREFIX[v4]
    head, _, last = v4.rpartition(".")
    return _SIX[head] + last


def of(v4, family):
    """An address, in that version of IP."""
    return v4 if family == 4 else six(v4)


def both(v4):
    """An address and its IPv6 twin."""
    return v4, six(v4)


def on_link(v4):
    """Likewise, with the lengths of the wire."""
    return f"{v4}/16", f"{six(v4)}/64"


@dataclasses.dataclass(frozen=True)
class Host:
    """A Node: 1 or 2."""

    number: int

    @property
    def name(self):
        """In the cluster."""
        return f"node-{self.number}"

    @property
    def address(self):
        """The Node's address, which its host and its Pods share."""
        return f"172.18.0.{2 + self.number}"

    @property
    def other(self):
        """Another address of the host."""
        return f"172.20.0.{1 + self.number}"

    @property
    def mac(self):
        """On the wire."""
        return f"02:42:ac:12:00:{2 + self.number:02x}"

    @property
    def gateway_mac(self):
        """Of the gateway."""
        return f"ba:5e:d1:55:aa:c{self.number}"

    @property
    def pods(self):
        """Where its Pods' addresses are from."""
        return f"10.244.{self.number}.0/24"

    def pod(self, last):
        """An address of its Pods, by its last number."""
        return f"10.244.{self.number}.{last}"

    def pod_mac(self, last):
        """A Pod's MAC address, likewise."""
        return f"02:00:00:00:{self.number:02x}:{last:02x}"

    def at(self, short):
        """A namespace's name among all."""
        return f"{short}@{self.number}"


HOSTS = ONE, TWO = Host(1), Host(2)


def owners():
    """Who has which address."""
    found = {OUTSIDE: "outside", FAR: "outside", SIDE: SIDE}
    for host in HOSTS:
        found |= {host.address: host.at("host"), host.other: host.at("host"), host.pod(1): host.at("gateway")}
        found |= {host.pod(last): host.at(pod) for pod, last in PODS.items()}
    return found | {six(address): name for address, name in found.items()}
