"""Whose Node the document speaks of: one by itself, or either of two, which are one another's
mirror image."""

import dataclasses
import ipaddress
import re

from . import world
from .world import GATEWAY_MAC, PODS, REMOTE, WEB, WEB2

EGRESS_IPS = ("192.168.77.112", "192.168.77.113")  # of Node 1, of Node 2


def _elsewhere(v4):
    """The address of a Pod's namesake on the other Node. That of web is the document's remote
    Endpoint: Services have both."""
    return REMOTE if v4 == WEB.v4 else v4.replace("10.10.0.", "10.10.1.")


def _hex(v4):
    return hex(int(ipaddress.ip_address(v4)))


# What belongs to Node 1, and what stands in its place on Node 2.
PAIRS = [
    (world.NODE, world.PEER_NODE),
    EGRESS_IPS,
    ("10.10.0.0/24", "10.10.1.0/24"),
    (world.GATEWAY_IP, world.REMOTE_GATEWAY),
    (GATEWAY_MAC, GATEWAY_MAC[:-2] + "c1"),
    *((pod.v4, _elsewhere(pod.v4)) for pod in PODS),
    *((_hex(pod.v4), _hex(_elsewhere(pod.v4))) for pod in PODS),  # as registers have them
    *((pod.mac, f"{pod.mac[:-2]}{int(pod.mac[-2:], 16) ^ 1:02x}") for pod in PODS),
    *((pod.port, f"{pod.port[:-2]}02") for pod in PODS),
]
_EXCHANGED = dict(PAIRS) | {two: one for one, two in PAIRS}
# A MAC's beginning may follow a colon (set_field:...), but that of no other MAC.
_WORDS = re.compile(rf"(?<![\w.])(?<![0-9a-f]{{2}}:)(?:{'|'.join(map(re.escape, _EXCHANGED))})(?![\w.])")

# Endpoints of Services that two Nodes have together, as `world.ENDPOINTS`.
FAR = _elsewhere(WEB2.v4)
ENDPOINTS = {
    12: (WEB2.v4, REMOTE),  # NodePort
    14: (WEB2.v4,),  # LoadBalancer: on Node 1 only
    16: (FAR,),  # external IP: on Node 2 only
    17: (WEB2.v4, FAR),  # externalTrafficPolicy Local, seen from inside
}


@dataclasses.dataclass(frozen=True)
class Side:
    """A Node. `number` is 0 for one by itself, the document's; 1 and 2 are joined, and 1 is the
    document's."""

    number: int = 0

    def of(self, text):
        """What the document says of its Node, said of this one. (Node 2's words become Node 1's
        there.)"""
        return _WORDS.sub(lambda match: _EXCHANGED[match[0]], text) if self.number == 2 else text

    @property
    def pods(self):
        """Its Pods."""
        return tuple(dataclasses.replace(pod, port=self.of(pod.port), v4=self.of(pod.v4), mac=self.of(pod.mac)) for pod in PODS)

    @property
    def endpoints(self):
        """Addresses by group, of those that the document does not define."""
        if not self.number:
            return world.ENDPOINTS
        local = FAR if self.number == 2 else WEB2.v4
        return ENDPOINTS | {18: (local,)}

    @property
    def other(self):
        """The Node that it is joined with."""
        return Side(3 - self.number)
