"""What is shown of two Nodes: everything that crosses between them, each way."""

from . import world
from .actions import BOTH, HTTP, MYSQL, Actions, of
from .ledger import Rule
from .node import NODE
from .side import EGRESS_IPS, Side
from .stacks import Stacks
from .world import CLIENT, DB, WEB, WEB2

SIDES = (Side(1), Side(2))


def at(side, short):
    """A namespace's name among those of two Nodes."""
    return f"{short}@{side.number}"


def owners():
    """Who has which address."""
    found = {}
    for side in SIDES:
        found |= {pod.v4: at(side, pod.name) for pod in side.pods}
        found |= {side.of(world.GATEWAY_IP): at(side, "gateway"), side.of(world.NODE): at(side, "node")}
    return found


def only(side, *texts):
    """Rules of a Node, in the words of the document."""
    return [(f"node {side.number}", Rule(side.of(text))) for text in texts]


def leaving(side):
    """The rule that names the other end of the tunnel."""
    return only(side, "L3Forwarding nw_dst=10.10.1.0/24 set_field:192.168.77.103->tun_dst")


def arriving(side, pod):
    """Rules for what came out of the tunnel, for a Pod."""
    return only(side, 'Classifier in_port="antrea-tun0"', f"L3Forwarding reg0=0x200/0x200 nw_dst={pod.v4}")


class Crossing(Actions):
    """Scenes, as `scenes.Scenes`; a rule stands beside its Node's name."""

    def __init__(self, both_nodes):
        super().__init__(both_nodes, owners())

    def all(self):
        """(title, what happens, rules, IP versions), in order."""
        for part in (self.pods, self.policies, self.services, self.egress):
            for here in SIDES:
                yield from part(here, here.other)

    def pods(self, here, there):
        """Pods, and the Node with them."""
        client, far = at(here, CLIENT.name), {pod.name: pod.v4 for pod in there.pods}
        addresses = (far[WEB2.name], far[DB.name], there.of(world.GATEWAY_IP))
        yield (f"ping: {client} -> {', '.join(self.owners[address] for address in addresses)}", self.pinged(client, *addresses),
               leaving(here) + arriving(there, WEB2) + arriving(there, DB) + only(there, "L3Forwarding nw_dst=10.10.0.1"), BOTH)
        yield (f"Pod to Pod: {client} -> {at(there, WEB2.name)}", self.one(client, far[WEB2.name], HTTP, at(there, WEB2.name), client),
               leaving(here) + arriving(there, WEB2) + only(there, "ConntrackCommit priority=200") + leaving(there) + arriving(here, CLIENT), BOTH)
        yield (f"a Node to a Pod: gateway@{here.number} -> {at(there, WEB2.name)}",
               self.one(at(here, NODE), far[WEB2.name], HTTP, at(there, WEB2.name), at(here, "gateway")),
               only(here, "Classifier priority=210") + leaving(here) + arriving(there, WEB2), BOTH)

    def policies(self, here, there):
        """Policies speak of Pods wherever they are: the Node of the one that is protected sees to
        it."""
        web, db = at(there, WEB.name), at(there, DB.name)
        yield (f"policy allows: {at(here, CLIENT.name)} -> {web}; TrafficControl redirects",
               self.one(at(here, CLIENT.name), there.of(WEB.v4), HTTP, web, at(here, CLIENT.name)),
               leaving(here) + arriving(there, WEB) + only(there, "AntreaPolicyIngressRule conj_id=6"), BOTH)
        yield (f"policy denies: {at(here, DB.name)} -> {web}", self.denied(at(here, DB.name), there.of(WEB.v4), HTTP),
               leaving(here) + arriving(there, WEB) + only(there, "AntreaPolicyIngressRule conj_id=4"), BOTH)
        yield (f"policy allows: {at(here, WEB.name)} -> {db}", self.one(at(here, WEB.name), there.of(DB.v4), MYSQL, db, at(here, WEB.name)),
               only(here, "AntreaPolicyEgressRule conj_id=7") + leaving(here) + arriving(there, DB), BOTH)
        yield (f"policy denies: {at(here, WEB.name)} -> {at(there, WEB2.name)}",
               self.denied(at(here, WEB.name), there.of(WEB2.v4), HTTP), only(here, "AntreaPolicyEgressRule conj_id=5"), BOTH)

    def services(self, here, there):
        """Services with an Endpoint on either Node, and on the other one only."""
        client, far_web = at(here, CLIENT.name), there.of(WEB.v4)
        yield (f"ClusterIP: {client} -> {world.CLUSTER_IP}",
               self.several(client, world.CLUSTER_IP, HTTP, {at(side, WEB.name): client for side in SIDES}),
               only(here, f"ServiceLB nw_dst={world.CLUSTER_IP}") + plain(here, f"EndpointDNAT nat(dst={far_web}:80)") + leaving(here) + arriving(there, WEB),
               BOTH)
        yield (f"NodePort: {client} -> {here.of(world.NODE)}:{world.NODE_PORT}",
               self.several(client, here.of(world.NODE), world.NODE_PORT, {at(Side(1), WEB2.name): client, at(Side(2), WEB.name): client}),
               only(here, f"NodePortMark nw_dst={world.NODE}", f"ServiceLB tp_dst={world.NODE_PORT}") + leaving(here), BOTH)
        address, kind = far_service(here)
        yield (f"{kind}: {client} -> {address}", self.one(client, address, HTTP, at(there, WEB2.name), client),
               plain(here, f"ServiceLB nw_dst={address}", f"EndpointDNAT nat(dst={there.of(WEB2.v4)}:80)") + leaving(here) + arriving(there, WEB2), BOTH)

    def egress(self, here, there):
        """Out of the cluster by the other Node: the tunnel's other end is an address of Egress."""
        client = at(here, CLIENT.name)
        yield (f"Egress on the other Node: {client} -> internet", self.one(client, world.INTERNET, HTTP, at(there, NODE), client),
               only(here, f'EgressMark in_port="{CLIENT.port}" set_field:{EGRESS_IPS[1]}->tun_dst') + only(there, f"EgressMark tun_dst={EGRESS_IPS[0]}"), BOTH)


def plain(side, *texts):
    """Rules of a Node that are the same on both."""
    return [(f"node {side.number}", Rule(text)) for text in texts]


def far_service(here):
    """A Service whose only Endpoint is web2 of the other Node: its address, and its kind."""
    return (world.EXTERNAL, "external IP") if here.number == 1 else (world.LOAD_BALANCER, "LoadBalancer")


class Loads(Stacks):
    """Real stacks at work across the wire."""

    def all(self):
        """In order."""
        for here in SIDES:
            there = here.other
            client, server, address = at(here, CLIENT.name), at(there, WEB2.name), there.of(WEB2.v4)
            service, kind = far_service(here)
            way = leaving(here) + arriving(there, WEB2)
            translated = plain(here, f"ServiceLB nw_dst={service}") + way
            yield f"{kind}: {client} -> {server}", self.both_protocols(client, service, HTTP), translated, BOTH
            yield f"ping, 1,382 to 20,000 bytes: {client} -> {server}", self.sizes(client, address), way, BOTH
            yield f"iperf3, no Service: {client} -> {server}", self.stream(client, server, address), way, BOTH
            yield f"iperf3, {kind}: {client} -> {server}", self.stream(client, server, service), translated, BOTH

    def sizes(self, source, address):
        """Echo requests as large as a packet may be (IPv6; IPv4 has 20 bytes more), and in
        fragments."""

        def run(family):
            for size in (1382, 1402 if family == 4 else 1383, 4000, 20000):
                self.node.ping(source, of(address, family), size)
            return "all answered"

        return run

    def stream(self, client, server, address):
        """To the server; its acknowledgements come back by the other tunnel."""

        def run(family):
            (rate,) = self.streams(client, server, of(address, family), [])
            return f"TCP {rate:.0f} Mbit/s"

        return run
