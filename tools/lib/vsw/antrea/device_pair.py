"""An uplink that is a device in the Pods' bridge: nobody asks or answers on its link, everybody
there has to know the MAC addresses."""

import contextlib

from . import traffic, world
from .actions import BOTH, HTTP, PROHIBITED, UNREACHABLE, of
from .crossing import SIDES, at, only, owners
from .ledger import Rule
from .manifests import document, text_of
from .member import DEVICE
from .node import OUTSIDE, both, within
from .past_hosts import TIMES, PastHosts, service
from .refusals_pair import NAMES, node_documents, pod_document, policy
from .scenes import _mac
from .side import EGRESS_IPS
from .unanswered import DATAGRAMS, same_endpoint
from .wire_errors import packet
from .world import CLIENT, DB, WEB, WEB2

MAC, OUTSIDE_MAC = "02:00:00:00:55:01", "02:00:00:00:78:01"
# On that link: the world outside, the Node as NodePorts have it, a load balancer, an external
# address.
ROUTER, NODE_PORTS, LOAD_BALANCER, EXTERNAL = (f"192.168.78.{last}" for last in (1, 102, 150, 151))
# It is an end of tunnels by the configuration: nobody gives a VTEP Egress IPs where no
# underlay_bridge is.
EGRESS_IP = EGRESS_IPS[0]
ANY_PORT, REFUSED_PORT, NOBODY_PORT, AFFINE_PORT = range(30020, 30024)
END = f"{DEVICE}1"
CAME, LEFT = f"Classifier in_port={DEVICE}", "L2ForwardingCalc priority=190 reg0=0x40/0xf0"


def manifests():
    """The cluster of both Nodes, of which the first one has the device."""
    documents = [document("v1", "Namespace", "default")]
    for side in SIDES:
        for one in node_documents(side):
            if one["kind"] == "NodeConfig" and side.number == 1:
                hops = [{"address": address, "mac": OUTSIDE_MAC} for address in both(ROUTER)]
                one["spec"] |= {"uplink": {"port": DEVICE, "mac": MAC, "nextHops": hops, "externalTraffic": True}, "nodePortAddresses": list(both(NODE_PORTS))}
            documents.append(one)
        documents += [pod_document(side, pod) for pod in side.pods]
    each = {"app": WEB2.name}
    documents.append(service("any", 70, each, port=ANY_PORT, balanced=LOAD_BALANCER, external=EXTERNAL))
    documents.append(service("affine", 71, each, port=AFFINE_PORT, sessionAffinity="ClientIP"))
    documents.append(service("refused", 72, {"app": WEB.name, "node": "1"}, port=REFUSED_PORT))
    documents.append(service("nobody", 73, {"app": "nobody"}, port=NOBODY_PORT))
    documents.append(policy("refuse-to-web", WEB, ingress=[{"action": "Reject", "name": "RefuseAll"}]))
    for name, address in zip(("four", "six"), both(EGRESS_IP)):
        spec = {"appliedTo": {"podSelector": {"matchLabels": {"app": CLIENT.name}}}, "egressIP": address}
        documents.append(document("crd.antrea.io/v1beta1", "Egress", name, spec=spec, status={"egressNode": NAMES[1]}))
    return text_of(documents)


class Device(PastHosts):
    """Scenes, as `crossing.Crossing`."""

    def __init__(self, both_nodes, switches):
        super().__init__(both_nodes, owners() | {world.OUTSIDE: OUTSIDE, ROUTER: OUTSIDE, EGRESS_IP: "Egress IP"}, dict(zip(SIDES, switches)))

    @contextlib.contextmanager
    def joined(self):
        """Meanwhile the world outside is on the link, and knows who is there."""
        ip = lambda *words: self.node.ip(OUTSIDE, *words)  # noqa: E731
        self.node.run(OUTSIDE, "sysctl", "-qw", f"net.ipv6.conf.{END}.disable_ipv6=0")
        ip("link", "set", END, "address", OUTSIDE_MAC, "up")
        try:
            for address in within(both(ROUTER)):
                ip("address", "add", address, "dev", END, *(["nodad"] if ":" in address else []))
            for address in (one for pair in (NODE_PORTS, LOAD_BALANCER, EXTERNAL, EGRESS_IP) for one in both(pair)):
                ip("neighbour", "replace", address, "lladdr", MAC, "dev", END, "nud", "permanent")
            for address in both(EGRESS_IP):
                ip("route", "add", address, "dev", END)
            yield
        finally:
            for family in ("-4", "-6"):
                ip(family, "address", "flush", "dev", END)
            ip("link", "set", END, "down")  # with its routes and neighbours

    def all(self):
        """In order."""
        one, two = SIDES
        with self.joined():
            for side, rule in ((one, f'EgressMark in_port="{CLIENT.port}"'), (two, f"EgressMark tun_dst={EGRESS_IP}")):
                client = at(side, CLIENT.name)
                yield (f"a device, Egress: {client} -> internet", self.past_the_hosts(self.one(client, world.INTERNET, HTTP, OUTSIDE, "Egress IP")),
                       only(one, rule, LEFT, CAME), BOTH)
            yield from self.services(one)
            yield "a device: who says there that he is a Pod is not heard", self.as_a_pod, only(one, f"Classifier priority=220 in_port={DEVICE}"), BOTH

    def as_a_pod(self, family):
        """A datagram of db's for a Service, from that link."""
        source, target = (of(DB.v4, family), 1000), (of(NODE_PORTS, family), ANY_PORT)
        kind = b"\x08\0" if family == 4 else b"\x86\xdd"
        traffic.send_frame(self.space[OUTSIDE], END, _mac(MAC) + _mac(OUTSIDE_MAC) + kind + packet(source, target))
        return "dropped"

    def services(self, one):
        """Clients on that link."""
        expected = {at(side, WEB2.name): sees for side, sees in ((one, OUTSIDE), (one.other, at(one, "gateway")))}
        places = dict.fromkeys(expected, WEB2.interface)
        for kind, address, port in (("NodePort", NODE_PORTS, ANY_PORT), ("LoadBalancer", LOAD_BALANCER, HTTP), ("external IP", EXTERNAL, HTTP)):
            yield (f"a device, {kind}: outside -> node@1", self.past_the_hosts(self.several(OUTSIDE, address, port, expected)), only(one, CAME, LEFT), BOTH)
            repeated = [(f"node {one.number}", Rule("ConntrackState priority=190 ct_state=+new+trk", DATAGRAMS - 1))]
            yield (f"a device, {DATAGRAMS} datagrams, no answer: {kind}: outside -> node@1",
                   self.past_the_hosts(same_endpoint(self.node, places, OUTSIDE, address, port)), repeated, BOTH)
        learned = [(f"node {one.number}", Rule(f"SessionAffinity nw_dst={NODE_PORTS}", TIMES - 1))]
        yield ("a device, session affinity: outside -> node@1", self.past_the_hosts(self.one_of(OUTSIDE, NODE_PORTS, AFFINE_PORT, expected)), learned, BOTH)
        for title, port, told in (("a policy's Endpoint", REFUSED_PORT, PROHIBITED), ("no Endpoint", NOBODY_PORT, UNREACHABLE)):
            yield (f"a device, refused: outside -> NodePort, {title}", self.past_the_hosts(self.refused(OUTSIDE, NODE_PORTS, port, told)), only(one, CAME), BOTH)
