"""The world outside two Nodes, without a trip through their hosts: Egress IPs that the switches
translate, Services that clients on the wire reach."""

import json

from .. import machine
from ..machine import Failure
from . import refusals_pair, traffic, world
from .actions import BOTH, HTTP, PROHIBITED, UNREACHABLE, of
from .crossing import SIDES, at, only, owners
from .ledger import Rule
from .manifests import document, text_of, write
from .member import PATCH, UNDERLAY, WIRE
from .node import NODE, OUTSIDE, both
from .past_hosts import TIMES, PastHosts, service
from .records import told_of
from .refusals_pair import NAMES
from .telling import same
from .trace_scenes import TraceScenes
from .unanswered import DATAGRAMS, same_endpoint
from .world import CLIENT, DB, WEB, WEB2

# Egress IPs beside those that the configuration's VTEPs have: client's, on its Node; that of db of
# Node 1, on Node 2; one with a rate.
HERE, THERE, SLOW = "192.168.77.120", "192.168.77.121", "192.168.77.122"
# Many more of Node 2's, of no Pod: each is an end of tunnels.
MANY = [f"192.168.77.{last}" for last in range(160, 190)]
NEAR_PORT, LOCAL_PORT, REFUSED_PORT, NOBODY_PORT, ANY_PORT, AFFINE_PORT, CLOSED_PORT = range(30010, 30017)
LOAD_BALANCER, LOCAL_POLICY = world.LOAD_BALANCER, world.LOCAL_POLICY
# Of Services with an Endpoint on each Node: the load balancer's address, and the external one.
ANY, AFFINE = ("192.168.77.156", "192.168.77.157"), ("192.168.77.158", "192.168.77.159")
HOSTED = "192.168.77.155"  # a load balancer's address for `shared_ports`
RATE, BURST = "1M", "100k"


def manifests():
    """The cluster of both Nodes: uplinks, Services with external addresses, Egresses."""
    documents = [document("v1", "Namespace", "default")]
    for side in SIDES:
        for one in refusals_pair.node_documents(side, egressTrafficShaping=True):
            if one["kind"] == "NodeConfig":
                one["spec"]["uplink"] = _uplink(side)
            documents.append(one)
        documents += [refusals_pair.pod_document(side, pod) for pod in side.pods]
    documents += _services()
    documents.append(refusals_pair.policy("refuse-to-web", WEB, ingress=[{"action": "Reject", "name": "RefuseAll"}]))
    documents += _egresses(HERE, 1, {"app": CLIENT.name, "node": "1"})
    documents += _egresses(THERE, 2, {"app": DB.name, "node": "1"})
    documents += _egresses(SLOW, 2, {"app": WEB2.name, "node": "2"}, {"rate": RATE, "burst": BURST})
    for address in MANY:
        documents += _egresses(address, 2, {"app": "nobody"})
    return text_of(documents)


def _uplink(side):
    hops = [{"address": address} for address in both(world.OUTSIDE)]
    answered = [one for address in ((LOAD_BALANCER, HOSTED, *ANY, *AFFINE) if side.number == 1 else (LOCAL_POLICY,)) for one in both(address)]
    return {"port": PATCH[0], "underlayBridge": UNDERLAY, "mac": mac(side), "nextHops": hops, "externalTraffic": True, "answeredAddresses": answered}


def mac(side):
    """Of a Node on the wire."""
    return f"02:00:00:00:66:{side.number:02x}"


def _services():
    here, there, each = ({"app": WEB2.name, "node": "1"}, {"app": WEB2.name, "node": "2"}, {"app": WEB2.name})
    yield service("near", 60, here, port=NEAR_PORT)
    yield service("local", 61, each, port=LOCAL_PORT, local=True)
    yield service("refused", 62, {"app": WEB.name, "node": "1"}, port=REFUSED_PORT)
    yield service("nobody", 63, {"app": "nobody"}, port=NOBODY_PORT)
    yield service("balanced", 64, there, balanced=LOAD_BALANCER)
    yield service("balanced-local", 65, each, local=True, balanced=LOCAL_POLICY)
    yield service("any", 66, each, port=ANY_PORT, balanced=ANY[0], external=ANY[1])
    yield service("affine", 67, each, port=AFFINE_PORT, balanced=AFFINE[0], external=AFFINE[1], sessionAffinity="ClientIP")
    yield service("closed", 68, here, port=CLOSED_PORT, target=world.NOBODY)


def _egresses(address, node, labels, bandwidth=None):
    for name, one in zip(("four", "six"), both(address)):
        spec = {"appliedTo": {"podSelector": {"matchLabels": labels}}, "egressIP": one} | ({"bandwidth": bandwidth} if bandwidth else {})
        yield document("crd.antrea.io/v1beta1", "Egress", f"{name}-{address.rpartition('.')[2]}", spec=spec,
                                      status={"egressNode": NAMES[node]})


def _egress(name, family):
    """Name of an Egress, as `_egresses` has it."""
    return f"{'four' if family == 4 else 'six'}-{name}"


class Uplink(PastHosts):
    """Scenes, as `crossing.Crossing`; both bridges are empty, and agents end with `stack`."""

    def __init__(self, both_nodes, switches, directory, stack):
        found = owners() | {world.OUTSIDE: OUTSIDE, HERE: "Egress IP of node 1", THERE: "Egress IP of node 2", SLOW: "slow Egress IP"}
        super().__init__(both_nodes, found, dict(zip(SIDES, switches)))
        cluster = directory / "uplink"
        cluster.mkdir()
        self.file = cluster / "cluster.yaml"
        self.file.write_text(manifests())
        for side, switch in self.switches.items():
            argv = [switch.binaries / "vswitch-agent", "--no-state", "--dir", cluster, "--node", NAMES[side.number], "--socket", switch.socket]
            with open(switch.directory / "vswitch-agent.log", "ab") as log:
                process = self.node.spaces[at(side, NODE)].spawn(*argv, stdout=log, stderr=log)
            stack.callback(machine.end, process)
        for side, switch in self.switches.items():
            machine.expect(f"node {side.number} forwards by what its agent declares", lambda: switch.json("antrea", "status").get("gate_open"))
            machine.expect(f"next hops of node {side.number} have answered", lambda: all(hop["mac"] for hop in self._hops(side)), lambda: self._hops(side))

    def _hops(self, side):
        return self.switches[side].json("antrea", "node")["next_hops"]

    def all(self):
        """In order."""
        one, two = SIDES
        came, left = "Classifier in_port=uplink0", "L2ForwardingCalc priority=190 reg0=0x40/0xf0"
        client, db = at(one, CLIENT.name), at(one, DB.name)
        marked = f'EgressMark in_port="{CLIENT.port}"'
        yield (f"Egress by the switch: {client} -> internet", self.past_the_hosts(self.one(client, world.INTERNET, HTTP, OUTSIDE, "Egress IP of node 1")),
               only(one, marked, left, came), BOTH)
        yield (f"Egress on the other Node, by its switch: {db} -> internet",
               self.past_the_hosts(self.one(db, world.INTERNET, HTTP, OUTSIDE, "Egress IP of node 2")),
               [*only(one, f'EgressMark in_port="{DB.port}"'), *only(two, left, came)], BOTH)
        yield from self.told(one, two)
        yield "the next hop has another MAC address", self.another_mac(client), only(one, marked, left, came), BOTH
        yield "an Egress IP moves to the other Node", self.moves(client), only(two, left, came), BOTH
        yield f"a rate: {at(two, WEB2.name)} -> internet, {RATE}bit/s", self.limited, only(two, "EgressQoS priority=200"), BOTH
        yield f"{len(MANY) * 2} more addresses are ends of tunnels", self.many, [], (4,)
        yield from self.services(one, two, came, left)
        yield from self.each_way(one, came)

    def told(self, one, two):
        """What Traceflows and records say of packets that a switch gives an Egress IP."""
        marked, left = f'EgressMark in_port="{CLIENT.port}"', "L2ForwardingCalc priority=190 reg0=0x40/0xf0"
        yield (f"Traceflow: {at(one, CLIENT.name)} -> internet, translated", self.traced(one, "default/client-1", "egress translated", HERE, "120"), only(one, marked), BOTH)
        yield (f"Traceflow: {at(one, DB.name)} -> internet, by the Egress of node 2", self.traced(one, "default/db-1", "egress forwarded", THERE, "121"), [], BOTH)
        yield (f"record: {at(one, CLIENT.name)} -> internet (UDP), the Egress and its address", self.recorded(one, CLIENT, "120", HERE), only(one, marked, left), BOTH)

    def traced(self, side, pod, step, address, name):
        """A packet of a Pod that is sent to the internet tells `step`."""

        def run(family):
            traces = TraceScenes(self.node, self.switches[side])
            told = traces.trace(pod, of(world.INTERNET, family), f"-{family}", "--protocol", "tcp")
            found = traces.expect(told, step, of(address, family), _egress(name, family))
            return f"{found['component']} {found['action']}"

        return run

    def recorded(self, side, pod, name, address):
        """A connection's records have the Egress, and the source that the other end sees."""

        def run(family):
            internet = of(world.INTERNET, family)
            for told in told_of(self.switches[side], self.space[at(side, pod.name)], internet)[1:]:
                same(told, egress=_egress(name, family), translated_source=of(address, family), source_pod=f"default/{pod.name}-{side.number}", original__dst=internet)
            return f"NEW, END: {_egress(name, family)}, seen as {of(address, family)}; counters as sent"

        return run

    def services(self, one, two, came, left):
        """Clients on the wire."""
        near, far = at(one, WEB2.name), at(two, WEB2.name)
        for title, address, port, who, sees, side in (
            (f"NodePort, Endpoint here: outside -> node@1 -> {near}", world.NODE, NEAR_PORT, near, OUTSIDE, one),
            (f"NodePort, Endpoint elsewhere: outside -> node@2 -> {near}", world.PEER_NODE, NEAR_PORT, near, at(two, "gateway"), two),
            (f"NodePort, policy Local: outside -> node@2 -> {far}", world.PEER_NODE, LOCAL_PORT, far, OUTSIDE, two),
            (f"LoadBalancer: outside -> node@1 -> {far}", LOAD_BALANCER, HTTP, far, at(one, "gateway"), one),
            (f"LoadBalancer, policy Local: outside -> node@2 -> {far}", LOCAL_POLICY, HTTP, far, OUTSIDE, two),
        ):
            # A link of 1,500 bytes carries fragments that no tunnel on it does, and nobody is there
            # to fragment them again.
            sizes = (10, 4000) if who in (at(side, pod.name) for pod in side.pods) else (10, 1200)
            yield (title, self.past_the_hosts(self.served(address, port, who, sees, sizes)), only(side, came, left), BOTH)
        # A packet of TCP and one of UDP.
        for title, port, told in (("a policy's Endpoint", REFUSED_PORT, PROHIBITED), ("no Endpoint", NOBODY_PORT, UNREACHABLE)):
            yield (f"refused on the wire: outside -> NodePort, {title}", self.past_the_hosts(self.refused(OUTSIDE, world.NODE, port, told)), only(one, came), BOTH)

    def each_way(self, one, came):
        """A Service with an Endpoint on each Node, by whatever address and port it is asked at."""
        expected = {at(side, WEB2.name): sees for side, sees in ((one, OUTSIDE), (one.other, at(one, "gateway")))}
        places = dict.fromkeys(expected, WEB2.interface)
        yield (f"external IP: outside -> node@1 -> {' or '.join(expected)}", self.past_the_hosts(self.several(OUTSIDE, ANY[1], HTTP, expected)),
               only(one, came, f"ServiceLB nw_dst={ANY[1]}"), BOTH)
        for kind, any_, affine in (("NodePort", (world.NODE, ANY_PORT), (world.NODE, AFFINE_PORT)), ("LoadBalancer", (ANY[0], HTTP), (AFFINE[0], HTTP)),
                                   ("external IP", (ANY[1], HTTP), (AFFINE[1], HTTP))):
            repeated = [(f"node {one.number}", Rule("ConntrackState priority=190 ct_state=+new+trk", DATAGRAMS - 1))]
            yield (f"{DATAGRAMS} datagrams, no answer: {kind}: outside -> node@1", self.past_the_hosts(same_endpoint(self.node, places, OUTSIDE, *any_)), repeated, BOTH)
            learned = [(f"node {one.number}", Rule(f"SessionAffinity nw_src={world.OUTSIDE} nw_dst={affine[0]}", TIMES - 1))]
            yield f"session affinity: {kind}: outside -> node@1, {TIMES} times", self.past_the_hosts(self.one_of(OUTSIDE, *affine, expected)), learned, BOTH

    def another_mac(self, client):
        """As when a router fails over: it tells, and packets follow."""

        def run(family):
            new = f"02:00:00:00:77:{family + 2:02x}"
            self.node.ip(OUTSIDE, "link", "set", WIRE, "address", new)
            side = SIDES[0]
            machine.expect("node 1 knows the next hop's new address", lambda: {hop["mac"] for hop in self._hops(side)} == {new}, lambda: self._hops(side))
            return self.one(client, world.INTERNET, HTTP, OUTSIDE, "Egress IP of node 1")(family)

        return run

    def moves(self, client):
        """The other Node has the address now: it says so, and connections from both Nodes leave
        there. Then back."""

        def run(family):
            text = self.file.read_text()
            name = f"{'four' if family == 4 else 'six'}-120"
            documents = [json.loads(part) for part in text.split("---\n")]
            for one in documents:
                if one["metadata"]["name"] == name:
                    one["status"]["egressNode"] = NAMES[2]
            has = lambda: self._neighbour(HERE, family)  # noqa: E731
            traffic.ask(self.space[client], of(world.INTERNET, family), HTTP)
            write(self.file, text_of(documents))
            try:
                # Nobody has asked for it there: the Node has told of it.
                machine.expect("outside knows that node 2 has the address", lambda: has() == mac(SIDES[1]), has)
                machine.expect("node 1 knows", lambda: self._of(SIDES[0], name)["node"] == NAMES[2], lambda: self._of(SIDES[0], name))
                return self.one(client, world.INTERNET, HTTP, OUTSIDE, "Egress IP of node 1")(family) + ", as before, by node 2"
            finally:
                write(self.file, text)
                machine.expect("outside knows that node 1 has it again", lambda: has() == mac(SIDES[0]), has)

        return run

    def _neighbour(self, address, family):
        words = self.node.ip(OUTSIDE, "neighbour", "show", of(address, family)).split()
        return words[words.index("lladdr") + 1] if "lladdr" in words else None

    def _of(self, side, name):
        return next(one for one in self.switches[side].json("antrea", "egress") if one["name"] == name)

    def limited(self, family):
        """More than the rate, at once: what does not arrive was dropped by the meter, and
        counted."""
        name = f"{'four' if family == 4 else 'six'}-122"
        sender, dropped = self.space[at(SIDES[1], WEB2.name)], lambda: self._of(SIDES[1], name)["dropped"]["packets"]
        return traffic.flood(sender, self.space[OUTSIDE], of(world.INTERNET, family), dropped)

    def many(self, _family):
        """The vtep has all of them, and keeps its own."""
        bridges = self.switches[SIDES[1]].json("show")
        vtep = next(port["addresses"] for bridge in bridges for port in bridge["ports"] if port["name"] == UNDERLAY)
        missing = [one for address in MANY for one in both(address) if not any(own.split("/")[0] == one for own in vtep)]
        if missing:
            raise Failure(f"{UNDERLAY} of node 2 has {len(vtep)} addresses, and not {', '.join(missing[:3])}")
        return f"{UNDERLAY} has {len(vtep)} addresses"
