"""The world outside two Nodes, without a trip through their hosts: Egress IPs that the switches translate, Services that clients on the wire reach."""

import json

from .. import machine
from ..machine import Failure
from . import refusals_pair, traffic, world
from .actions import BOTH, HTTP, PROHIBITED, UNREACHABLE, Actions, of
from .crossing import SIDES, at, only, owners
from .manifests import document, text_of, write
from .member import PATCH, UNDERLAY, WIRE
from .node import OUTSIDE, both
from .records import told_of
from .refusals_pair import NAMES
from .telling import same
from .trace_scenes import TraceScenes
from .world import CLIENT, DB, GATEWAY, WEB, WEB2

# Egress IPs beside those that the configuration's homes have: client's, on its Node; that of db of Node 1, on Node 2; one with a rate.
HERE, THERE, SLOW = "192.168.77.120", "192.168.77.121", "192.168.77.122"
# Many more of Node 2's, of no Pod: each is an end of tunnels.
MANY = [f"192.168.77.{last}" for last in range(160, 190)]
NEAR_PORT, LOCAL_PORT, REFUSED_PORT, NOBODY_PORT = 30010, 30011, 30012, 30013
LOAD_BALANCER, LOCAL_POLICY = world.LOAD_BALANCER, world.LOCAL_POLICY
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
    documents.append(refusals_pair._policy("refuse-to-web", WEB, ingress=[{"action": "Reject", "name": "RefuseAll"}]))
    documents += _egresses(HERE, 1, {"app": CLIENT.name, "node": "1"})
    documents += _egresses(THERE, 2, {"app": DB.name, "node": "1"})
    documents += _egresses(SLOW, 2, {"app": WEB2.name, "node": "2"}, {"rate": RATE, "burst": BURST})
    for address in MANY:
        documents += _egresses(address, 2, {"app": "nobody"})
    return text_of(documents)


def _uplink(side):
    hops = [{"address": address} for address in both(world.OUTSIDE)]
    answered = list(both(LOAD_BALANCER if side.number == 1 else LOCAL_POLICY))
    return {"port": PATCH[0], "underlayBridge": UNDERLAY, "mac": mac(side), "nextHops": hops, "externalTraffic": True, "answeredAddresses": answered}


def mac(side):
    """Of a Node on the wire."""
    return f"02:00:00:00:66:{side.number:02x}"


def _services():
    def service(name, last, selector, kind="NodePort", port=None, local=False, address=None):
        ports = [{"name": word.lower(), "protocol": word, "port": HTTP} | ({"nodePort": port} if port else {}) for word in ("TCP", "UDP")]
        spec = {"type": kind, "clusterIPs": list(both(f"10.101.255.{last}")), "ipFamilies": ["IPv4", "IPv6"], "selector": selector, "ports": ports,
                "externalTrafficPolicy": "Local" if local else "Cluster"}
        more = {"status": {"loadBalancer": {"ingress": [{"ip": one} for one in both(address)]}}} if address else {}
        return document("v1", "Service", name, "default", spec=spec, **more)

    yield service("near", 60, {"app": WEB2.name, "node": "1"}, port=NEAR_PORT)
    yield service("local", 61, {"app": WEB2.name}, port=LOCAL_PORT, local=True)
    yield service("refused", 62, {"app": WEB.name, "node": "1"}, port=REFUSED_PORT)
    yield service("nobody", 63, {"app": "nobody"}, port=NOBODY_PORT)
    yield service("balanced", 64, {"app": WEB2.name, "node": "2"}, "LoadBalancer", address=LOAD_BALANCER)
    yield service("balanced-local", 65, {"app": WEB2.name}, "LoadBalancer", local=True, address=LOCAL_POLICY)


def _egresses(address, node, labels, bandwidth=None):
    for name, one in zip(("four", "six"), both(address)):
        spec = {"appliedTo": {"podSelector": {"matchLabels": labels}}, "egressIP": one} | ({"bandwidth": bandwidth} if bandwidth else {})
        yield document("crd.antrea.io/v1beta1", "Egress", f"{name}-{address.rpartition('.')[2]}", spec=spec,
                                      status={"egressNode": NAMES[node]})


def _egress(name, family):
    """Name of an Egress, as `_egresses` has it."""
    return f"{'four' if family == 4 else 'six'}-{name}"


class Uplink(Actions):
    """Scenes, as `crossing.Crossing`; both bridges are empty, and agents end with `stack`."""

    def __init__(self, both_nodes, switches, directory, stack):
        found = owners() | {world.OUTSIDE: OUTSIDE, HERE: "Egress IP of node 1", THERE: "Egress IP of node 2", SLOW: "slow Egress IP"}
        super().__init__(both_nodes, found)
        self.switches = dict(zip(SIDES, switches))
        cluster = directory / "uplink"
        cluster.mkdir()
        self.file = cluster / "cluster.yaml"
        self.file.write_text(manifests())
        for side, switch in self.switches.items():
            argv = [switch.binaries / "vswitch-agent", "--dir", cluster, "--node", NAMES[side.number], "--socket", switch.socket]
            with open(switch.directory / "vswitch-agent.log", "ab") as log:
                process = machine.spawn(argv, stdout=log, stderr=log)
            stack.callback(machine.end, process)
        for side, switch in self.switches.items():
            machine.expect(f"node {side.number} forwards by what its agent says", lambda: switch.json("antrea", "status").get("gate_open"))
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
            # A link of 1,500 bytes carries fragments that no tunnel on it does, and nobody is there to fragment them again.
            sizes = (10, 4000) if who in (at(side, pod.name) for pod in side.pods) else (10, 1200)
            yield (title, self.past_the_hosts(self.served(address, port, who, sees, sizes)), only(side, came, left), BOTH)
        # A packet of TCP and one of UDP.
        for title, port, told in (("a policy's Endpoint", REFUSED_PORT, PROHIBITED), ("no Endpoint", NOBODY_PORT, UNREACHABLE)):
            yield (f"refused on the wire: outside -> NodePort, {title}", self.past_the_hosts(self.refused(OUTSIDE, world.NODE, port, told)), only(one, came), BOTH)

    def served(self, address, port, who, sees, sizes):
        """TCP, and datagrams of these sizes."""
        asked = self.one(OUTSIDE, address, port, who, sees)

        def run(family):
            told = asked(family)
            traffic.echoes(self.space[OUTSIDE], of(address, family), port, sizes)
            return told

        return run

    def past_the_hosts(self, action):
        """As `action`; meanwhile no packet passes the gateways. (The hosts may ask or tell something of their own: then it is tried again.)"""

        def run(family):
            for attempt in range(3):
                before = self._gateways()
                told = action(family)
                if (after := self._gateways()) == before:
                    return told
            raise Failure(f"{told}; but packets passed the gateways: {before}, then {after}")

        return run

    def _gateways(self):
        ports = [switch.ports()[GATEWAY] for switch in self.switches.values()]
        return [(port["rx_packets"], port["tx_packets"]) for port in ports]

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
        """The other Node has the address now: it says so, and connections from both Nodes leave there. Then back."""

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
        """More than the rate, at once: what does not arrive was dropped by the meter, and counted."""
        name = f"{'four' if family == 4 else 'six'}-122"
        sender, dropped = self.space[at(SIDES[1], WEB2.name)], lambda: self._of(SIDES[1], name)["dropped"]["packets"]
        return traffic.flood(sender, self.space[OUTSIDE], of(world.INTERNET, family), dropped)

    def many(self, _family):
        """The home has all of them, and keeps its own."""
        bridges = self.switches[SIDES[1]].json("show")
        home = next(port["addresses"] for bridge in bridges for port in bridge["ports"] if port["name"] == UNDERLAY)
        missing = [one for address in MANY for one in both(address) if not any(own.split("/")[0] == one for own in home)]
        if missing:
            raise Failure(f"{UNDERLAY} of node 2 has {len(home)} addresses, and not {', '.join(missing[:3])}")
        return f"{UNDERLAY} has {len(home)} addresses"
