"""The scenes of the document, on a Node that the control agent has programmed, and what only an
agent can show."""

import contextlib
import time

from .. import machine
from ..machine import Failure
from . import multicast, refusals, traffic, world
from .actions import BOTH, HTTP, PROHIBITED, guarded, of
from .bad_input import BadInput
from .choices import Choices
from .kinds import Kinds
from .l7_scenes import L7Scenes
from .ledger import Rule
from .manifests import EGRESS_IP, renumber, write
from .moving import Moving
from .node import NODE, PEER
from .name_scenes import NameScenes
from .objects import Objects
from .probes import Probes
from .records import Records
from .rule_scenes import RuleScenes
from .scenes import Scenes
from .stacks import KINDS
from .telling import Telling
from .trace_scenes import TraceScenes
from .unanswered import DATAGRAMS, same_endpoint
from .world import CLIENT, WEB, WEB2

# What depends on a flow that the document shows and no agent writes: a client that affinity has led
# to an endpoint that there never was.
NOT_HERE = ("session affinity to an Endpoint that is gone", "Egress: web2 -> internet")

# Rules that are others here: of two flows of one priority that both match, the one that was added
# first counts.
WORDS = {"L3Forwarding nw_dst=10.10.0.1": "L3Forwarding priority=210"}

# Every kind of Service, with the rule of ServiceLB that takes the packets before the first answer
# (of affinity, a learned rule takes others).
UNANSWERED = [(*kind, rule or "nw_dst=10.96.76.15") for *kind, rule in KINDS if not kind[0].startswith("no Service")]


class AgentScenes(NameScenes, Telling, Records, L7Scenes, BadInput, Scenes):
    """All scenes; rules have the numbers that the switch gave them."""

    REFUSER = "the switch"

    def __init__(self, node, switch, manifests, agent):
        super().__init__(node, switch, None, agent)
        self.manifests = manifests
        self.owners |= {address: "Egress IP" for address in EGRESS_IP}

    STORY = (*Scenes.STORY[:3], ("special_services", ("session affinity: client", "no Endpoint: client")), ("egress_here", ("Egress: web2 -> internet",)),
             Scenes.STORY[-1], ("restarts", ("the agent is killed",)))

    def story(self):
        """As `Scenes.story`, with the rules that are here."""
        for title, action, rules, families in super().story():
            yield title, action, self.renumbered(rules), families

    def all(self):
        """As `Scenes.all`, and those of the agent."""
        traces = TraceScenes(self.node, self.switch)
        for title, action, rules, families in super().all():
            if not title.startswith(NOT_HERE):
                yield title, action, self.renumbered(rules), families
            if title.startswith("without Antrea's policy K8s's denies: db"):
                yield from traces.isolated()
        refused = refusals.Refusals(self.node, self.manifests, self.switch, traces)
        groups = multicast.Multicast(self.node, self.switch, self.manifests)
        parts = (
            self.egress_here, refused.all, self.unanswered, traces.all, groups.all, self.names, self.telling, RuleScenes(self).all, self.l7, self.changes,
            Choices(self).all, Kinds(self).all, Moving(self).all, Probes(self).all, Objects(self).all, self.bad_input, self.restarts,
        )
        for part in parts:
            yield from guarded(part())

    def renumbered(self, rules):
        """Rules of the document as they are here now."""
        numbers = self.manifests.numbers()
        return [Rule(renumber(WORDS.get(rule.words, rule.words), numbers), rule.count) for rule in rules]

    def without_antrea_policy(self):
        """Takes the manifest of Antrea's policy away."""
        return self.manifests.without("antrea-policy.yaml")

    def egress_here(self):
        """Out of the cluster with an address of this Node's."""
        yield ("Egress: web2 -> internet, translated by the Node", self.one(WEB2.name, world.INTERNET, HTTP, "outside", "Egress IP"),
               [Rule(f'EgressMark in_port="{WEB2.port}"'), Rule("L3Forwarding reg0=0x3/0xf")], BOTH)
        with self.rated():
            yield ("Egress with a rate, translated by the Node", self.egress_limited, [Rule("L3Forwarding reg0=0x3/0xf", 200), Rule("EgressQoS priority=200", 200)], BOTH)

    @contextlib.contextmanager
    def rated(self):
        """Meanwhile the Egresses of this Node have a rate."""
        nodes, egresses = self.manifests.directory / "nodes.yaml", self.manifests.directory / "egresses.yaml"
        text, rated = egresses.read_text(), lambda: [one["address"] for one in self.switch.json("antrea", "egress") if one["meter"]]
        limited = text
        for address in EGRESS_IP:
            limited = limited.replace(f'egressIP: "{address}"\n', f'egressIP: "{address}"\n  bandwidth: {{rate: 1M, burst: 100k}}\n')
        with self.manifests.edited(nodes.name, "    multicast: true\n", "    multicast: true\n    egressTrafficShaping: true\n"):
            try:
                write(egresses, limited)
                machine.expect("Egresses have meters", lambda: set(rated()) == set(EGRESS_IP), rated)
                yield
            finally:
                write(egresses, text)
                machine.expect("no Egress has a meter", lambda: not rated(), rated)

    def egress_limited(self, family):
        """More than the rate, at once: what does not arrive was dropped by the meter, and
        counted."""
        return traffic.flood(self.space[WEB2.name], self.space["outside"], of(world.INTERNET, family), lambda: self._dropped(family))

    def _dropped(self, family):
        counts = [one["dropped"]["packets"] for one in self.switch.json("antrea", "egress") if one["address"] == of(EGRESS_IP[0], family)]
        return sum(counts)

    # Packets before the first answer.

    def unanswered(self):
        """Datagrams that nobody answers go where the first one went."""
        for title, source, address, port, rule in UNANSWERED:
            yield (f"{DATAGRAMS} datagrams, no answer: {title}", self.same_endpoint(source, address, port),
                   [Rule("ConntrackState priority=190 ct_state=+new+trk", DATAGRAMS - 1), Rule(f"ServiceLB reg4=0x40000/0x70000 {rule}", DATAGRAMS - 1)]
                   if port == HTTP else [Rule("ConntrackState priority=190 ct_state=+new+trk", DATAGRAMS - 1)], BOTH)

    def same_endpoint(self, source, address, port):
        """All datagrams of one socket reach one endpoint, before it answers."""
        places = {WEB.name: WEB.interface, WEB2.name: WEB2.interface, PEER: "eth0", NODE: world.GATEWAY}
        return same_endpoint(self.node, places, source, address, port)

    # What changes while packets flow.

    def changes(self):
        """An endpoint leaves: a client of UDP finds another one by its next datagram; a connection
        of TCP to one that stays goes on."""
        yield ("an Endpoint leaves: client's datagrams find the other", self.endpoint_leaves, [Rule("ServiceLB nw_dst=10.105.31.235")], (4,))

    def endpoint_leaves(self, family):
        """`web` or `peer` answers; whoever it is leaves the Service; the other one answers the same
        socket."""
        endpoints = {WEB.name: of(WEB.v4, family), PEER: of(world.REMOTE, family)}
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(traffic.make_socket(self.space[CLIENT.name], traffic.family_of(of(world.CLUSTER_IP, family)), traffic.DATAGRAM))
            client.settimeout(machine.PATIENCE_S)
            client.connect((of(world.CLUSTER_IP, family), HTTP))
            first = self._answered_by(client, endpoints)
            stack.enter_context(self.manifests.endpoint_gone("sample-clusterip", endpoints[first]))
            second = self._answered_by(client, endpoints)
        if second == first:
            raise Failure(f"{first} answers still")
        return f"{first}, then {second}"

    def _answered_by(self, client, endpoints):
        """Who answers a datagram: who sees it come."""
        places = {WEB.name: self.node.interface(WEB), PEER: "eth0"}
        token = f"who {time.monotonic_ns()}".encode()
        with contextlib.ExitStack() as stack:
            listeners = {short: stack.enter_context(traffic.Listener(self.space[short], places[short])) for short in endpoints}
            try:
                client.send(token)
                client.recv(65535)
            except OSError as error:
                raise Failure(f"no answer: {error!r}") from error
            # Whom it came to has answered it.
            seen = [short for short, frames in traffic.gather(listeners).items() if any(token in frame for frame in frames)]
        if len(seen) != 1:
            raise Failure(f"the datagram came to {seen}")
        return seen[0]

    def restarts(self):
        """The agent dies, and comes back."""
        yield ("the agent is killed, and comes back: client -> ClusterIP", self.agent_dies, [Rule("ServiceLB nw_dst=10.105.31.235")], (4,))
        yield "the agent comes back to a directory without some objects", self.swept, [], (4,)

    def agent_dies(self, family):
        """A connection from before lives on, new ones are made meanwhile; the sync changes
        nothing."""
        address = of(world.CLUSTER_IP, family)
        with traffic.connect(self.space[CLIENT.name], address, HTTP) as before:
            flows = self._flows()
            self.manifests.kill()
            traffic.ask(self.space[CLIENT.name], address, HTTP)
            self._agent_returns()
            if self._flows() != flows:
                raise Failure("its sync changed flows")
            self._lives(before)
        return "connections old and new live; its sync changes no flow"

    def _agent_returns(self):
        """Starts it again, and waits until it has told everything."""
        round_ = self.manifests.state()["round"]
        self.manifests.start()
        machine.expect(f"the agent has synced after round {round_}", lambda: self.manifests.state()["round"] > round_, self.manifests.state)

    @staticmethod
    def _lives(client):
        if not traffic.exchange(client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
            raise Failure("the connection from before broke off")

    def swept(self, family):
        """Policies and Services bind until the agent is there again, though their manifest has gone
        with it; then nothing is left of them, and others go on."""
        flows, objects = self._flows(), self._objects()
        copy = self.manifests.directory / refusals.MANIFEST.name
        with traffic.connect(self.space[CLIENT.name], of(world.CLUSTER_IP, family), HTTP) as before:
            write(copy, refusals.MANIFEST.read_text())
            try:
                machine.expect("there are policies and Services more", lambda: objects < self._objects(), self._objects)
                more = self._objects() - objects
                self.manifests.kill()
            finally:
                copy.unlink()
            refused = self.refused(CLIENT.name, WEB2.v4, HTTP, PROHIBITED)
            refused(family)
            self._lives(before)
            self._agent_returns()
            if self._objects() != objects or self._flows() != flows:
                raise Failure(f"left behind, or taken away: {self._objects() ^ objects}, {self._flows() ^ flows}")
            self._lives(before)
            self.one(CLIENT.name, WEB2.v4, HTTP, "web2", "client")(family)
        return f"{len(more)} objects are gone, and their flows; no other flow is; a connection lives"

    def _objects(self):
        """Names of policies and Services."""
        return {one["name"] for verb in ("policies", "services") for one in self.switch.json("antrea", verb)}

    def _flows(self):
        """What flows there are, but for learned ones."""
        flows = self.switch.json("dump-flows", "--names", "br0")
        return {(flow["table"], flow["priority"], flow["match"], flow["actions"]) for flow in flows if flow["table_name"] != "SessionAffinity"}
