"""Who comes by an uplink, past the hosts: Services for clients on the wire, and what shows that no
host had a part in it."""

import collections
import contextlib

from ..machine import Failure
from . import traffic
from .actions import HTTP, Actions, of
from .crossing import at
from .manifests import document
from .node import NODE, OUTSIDE, both
from .world import GATEWAY

TIMES = 8  # connections of a client that affinity is to keep


def service(name, last, selector, port=None, local=False, balanced=None, external=None, target=HTTP, **more):
    """A Service of both families for TCP and UDP; `last` ends its cluster IP. `port`: its NodePort;
    `balanced`, `external`: a load balancer's address, and another one."""
    ports = [{"name": word.lower(), "protocol": word, "port": HTTP, "targetPort": target} | ({"nodePort": port} if port else {}) for word in ("TCP", "UDP")]
    spec = {"type": "LoadBalancer" if balanced else "NodePort", "clusterIPs": list(both(f"10.101.255.{last}")), "ipFamilies": ["IPv4", "IPv6"],
            "selector": selector, "ports": ports, "externalTrafficPolicy": "Local" if local else "Cluster"}
    outside = {"externalIPs": list(both(external))} if external else {}
    status = {"status": {"loadBalancer": {"ingress": [{"ip": one} for one in both(balanced)]}}} if balanced else {}
    return document("v1", "Service", name, "default", spec=spec | outside | more, **status)


class PastHosts(Actions):
    """Actions; `switches` are those of the Nodes, by side."""

    def __init__(self, both_nodes, owners, switches):
        super().__init__(both_nodes, owners)
        self.switches = switches

    def served(self, address, port, who, sees, sizes):
        """TCP, and datagrams of these sizes."""
        asked = self.one(OUTSIDE, address, port, who, sees)

        def run(family):
            told = asked(family)
            traffic.echoes(self.space[OUTSIDE], of(address, family), port, sizes)
            return told

        return run

    def one_of(self, source, address, port, expected):
        """Several connections, one Endpoint of `expected`, {who: whom it sees}."""

        def run(family):
            answers = collections.Counter(self._ask(source, address, port, family) for _ in range(TIMES))
            (answer, seen), *others = answers
            if others:
                raise Failure(f"several Endpoints answered: {dict(answers)}")
            self._same(answer, answer if answer in expected else " or ".join(expected), self.owners.get(seen, seen), expected.get(answer))
            return f"{TIMES}× {answer}"

        return run

    def past_the_hosts(self, action):
        """As `action`; meanwhile no packet comes to a host by its gateway, as answers would, at
        least."""

        def run(family):
            with contextlib.ExitStack() as stack:
                gateways = {side: stack.enter_context(traffic.Listener(self.space[at(side, NODE)], GATEWAY)) for side in self.switches}
                told = action(family)
                came = {at(side, NODE): [frame for frame in gateway.so_far() if not _is_of_the_link(frame)] for side, gateway in gateways.items()}
            for short, frames in came.items():
                if frames:
                    raise Failure(f"{told}; but {len(frames)} packets came to {short} by its gateway, the first: {frames[0][:74].hex()}")
            return told

        return run


def _is_of_the_link(frame):
    """Whether somebody asks for a neighbour, or tells of one (ARP, ND), or of groups (MLD)."""
    kind, protocol = frame[12:14], frame[20]
    return kind == b"\x08\x06" or kind == b"\x86\xdd" and (protocol == 0 or protocol == 58 and 133 <= frame[54] <= 137)
