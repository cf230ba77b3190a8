"""Kinds of Services that the document does not have: nested ones, hints, traffic policies,
Endpoints that end, source ranges, weights."""

import collections
import contextlib

from ..machine import Failure
from . import sctp, staying, traffic, world
from .actions import BOTH, DENIED_LIMIT, HTTP, Actions, of, silence
from .first_packets import PACKETS, Case, FirstPackets
from .ledger import Rule
from .node import NODE, OUTSIDE
from .refusals import SERVICE
from .scenes import OWNERS
from .services import ENDS, HERE, NOT_READY, THERE, Services, at, peer, service, web2
from .world import CLIENT

FILE = "kinds.yaml"
ZONE = "zone-a"  # as the manifest of the Nodes says

# Cluster IPs: what is behind them.
OUTER, OUTER_AFFINE, OUTER_EMPTY = "10.105.31.150", "10.105.31.151", "10.105.31.152"
INNER_WEB2, INNER_PEER = "10.105.31.153", "10.105.31.154"
BY_ZONE, BY_NODE, HALF_HINTED = "10.105.31.155", "10.105.31.156", "10.105.31.157"
INSIDE, INSIDE_NONE = "10.105.31.158", "10.105.31.159"
ENDING, ENDING_ALONE, WEIGHED = "10.105.31.160", "10.105.31.161", "10.105.31.162"
RANGES, EXTERNAL_LOCAL, EXTERNAL_NONE, ENDING_LOCAL = "10.105.31.163", "10.105.31.164", "10.105.31.165", "10.105.31.166"
# Addresses outside of the last ones.
OUTER_OF = {RANGES: "192.168.77.152", EXTERNAL_LOCAL: "192.168.77.153", EXTERNAL_NONE: "192.168.77.154", ENDING_LOCAL: "192.168.77.155"}

MAGLEV = "10.105.31.167"

WEIGHTS = {"web2": 900, "peer": 100}
# Of 120 that each choose web2 with 9 : 1, 90 or fewer do by chance once in 10^7
WEIGHED_ASKED, WEIGHED_LEAST = 120, 90
LOCAL = "Local"


def manifests():
    """All of them."""
    def hints(kind, name):
        return {"hints": {kind: [{"name": name}]}}

    nested = {"vswitch/nested": "true"}
    client_ip = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 300}}}
    ranges = ["192.168.77.0/24", "fd00:192:168:77::/64"]
    return [
        *service(INNER_WEB2, web2()),
        *service(INNER_PEER, peer()),
        *service(OUTER, at(INNER_WEB2), at(INNER_PEER), annotations=nested),
        *service(OUTER_AFFINE, at(INNER_WEB2), at(INNER_PEER), annotations=nested, **client_ip),
        *service(OUTER_EMPTY, at(world.NO_ENDPOINT), annotations=nested),
        *service(BY_ZONE, web2(**hints("forZones", ZONE)), peer(**hints("forZones", "zone-b"))),
        *service(BY_NODE, web2(**hints("forNodes", THERE)), peer(**hints("forNodes", HERE))),
        *service(HALF_HINTED, web2(**hints("forZones", ZONE)), peer()),
        *service(INSIDE, web2(), peer(), internalTrafficPolicy=LOCAL),
        *service(INSIDE_NONE, peer(), internalTrafficPolicy=LOCAL),
        *service(EXTERNAL_LOCAL, web2(), peer(), external=OUTER_OF[EXTERNAL_LOCAL], externalTrafficPolicy=LOCAL),
        *service(EXTERNAL_NONE, peer(), external=OUTER_OF[EXTERNAL_NONE], externalTrafficPolicy=LOCAL),
        *service(ENDING, web2(**ENDS), peer()),
        *service(ENDING_ALONE, web2(**ENDS), peer(**NOT_READY)),
        *service(ENDING_LOCAL, web2(**ENDS), peer(), load_balancer=OUTER_OF[ENDING_LOCAL], externalTrafficPolicy=LOCAL),
        *service(RANGES, web2(), load_balancer=OUTER_OF[RANGES], loadBalancerSourceRanges=ranges),
        *service(MAGLEV, web2(), peer(), annotations={"vswitch/selection": "Maglev"}),
        *service(WEIGHED, web2(weight=WEIGHTS["web2"]), peer(weight=WEIGHTS["peer"])),
    ]


def unanswered():
    """Cases of packets before the first answer, those that `AgentScenes.unanswered` does not
    have."""
    here, both, host = ("web2",), ("web2", "peer"), ("web2", NODE)
    affine, plain = staying.AFFINE, staying.PLAIN
    of_clients = (
        ("ITP Local", INSIDE, here), ("ETP Local, external IP", OUTER_OF[EXTERNAL_LOCAL], both), ("web2 ends", ENDING, ("peer",)),
        ("web2 ends, none is ready", ENDING_ALONE, here), ("web2 ends, ETP Local", OUTER_OF[ENDING_LOCAL], ("peer",)), ("Maglev", MAGLEV, both),
        ("weights", WEIGHED, both), ("nested", OUTER, both), ("session affinity", affine, here), ("session affinity, LoadBalancer", staying.OUTER_OF[affine], here),
        ("source ranges, cluster IP", RANGES, here), ("external IP", world.EXTERNAL, host),
    )
    of_others = (
        ("ITP Local", NODE, INSIDE, here), ("external IP", OUTSIDE, world.EXTERNAL, host), ("ETP Local, external IP", OUTSIDE, OUTER_OF[EXTERNAL_LOCAL], here),
        ("web2 ends, ETP Local", OUTSIDE, OUTER_OF[ENDING_LOCAL], here), ("source ranges", OUTSIDE, OUTER_OF[RANGES], here),
        ("session affinity, LoadBalancer", OUTSIDE, staying.OUTER_OF[affine], here),
    )
    cases = [Case(f"{title}: {CLIENT.name} -> {address}", CLIENT.name, address, HTTP, who) for title, address, who in of_clients]
    cases += [Case(f"{title}: {source} -> {address}", source, address, HTTP, who) for title, source, address, who in of_others]
    ports = (("NodePort", NODE, plain), ("session affinity, NodePort", CLIENT.name, affine), ("session affinity, NodePort", OUTSIDE, affine))
    return cases + [Case(f"{title}: {source}", source, world.NODE, staying.PORT_OF[ip], here) for title, source, ip in ports]


class Kinds(Actions):
    """The scenes. They bring their manifest, and take it away."""

    def __init__(self, scenes):
        super().__init__(scenes.node, OWNERS)
        self.switch, self.manifests, self.same_endpoint = scenes.switch, scenes.manifests, scenes.same_endpoint
        self.file = scenes.manifests.directory / FILE

    def all(self):
        """As `Scenes.all`."""
        with contextlib.ExitStack() as stack:
            services = Services(self.node, self.switch, self.file, stack)
            services.tell(kinds=manifests(), staying=staying.manifests(), sctp=sctp.manifests())
            services.reach(self.manifests.host)
            for part in (self.nested, self.hints, self.internal_policy, self.external_policy, self.ending, self.ranges, self.weights, self.by_datagrams,
                         self.first_packets, sctp.Sctp(self.node, OWNERS).all, staying.Staying(self, services, stack).all):
                yield from part()

    def nested(self):
        """Endpoints that are Services."""
        everybody = {"web2": "client", "peer": "client"}
        inner = "EndpointDNAT priority=210 reg4=0x1000050/0x100ffff"
        yield (f"nested: client -> {OUTER}", self.several(CLIENT.name, OUTER, HTTP, everybody), [Rule(f"ServiceLB nw_dst={OUTER}", 6), Rule(inner, 6)], BOTH)
        yield (f"nested: gateway -> {OUTER}", self.several(NODE, OUTER, HTTP, {"web2": "gateway", "peer": "gateway"}), [Rule(inner, 6)], BOTH)
        yield (f"nested, 3 datagrams, no answer: client -> {OUTER}", self.same_endpoint(CLIENT.name, OUTER, HTTP),
               [Rule(f"ServiceLB reg4=0x40000/0x70000 nw_dst={OUTER}", 2)], BOTH)
        yield (f"nested, session affinity: client -> {OUTER_AFFINE}, 8 times", self.one_of(everybody, OUTER_AFFINE),
               [Rule(f"SessionAffinity nw_dst={OUTER_AFFINE}", 7)], BOTH)
        yield (f"nested, no Endpoint inside: client -> {OUTER_EMPTY}", self.refused(CLIENT.name, OUTER_EMPTY, HTTP),
               [Rule(inner, 2), SERVICE], BOTH)

    def one_of(self, expected, address):
        """Eight connections of client's, one Endpoint."""

        def run(family):
            answers = collections.Counter(self._ask(CLIENT.name, address, HTTP, family) for _ in range(8))
            (answer, seen), *others = answers
            if others:
                raise Failure(f"several Endpoints answered: {dict(answers)}")
            self._same(answer, answer if answer in expected else " or ".join(expected), self.owners.get(seen, seen), "client")
            return f"8× {answer}"

        return run

    def hints(self):
        """Topology: who is near is used, if all have hints."""
        for title, address, expected in ((f"hints, {ZONE}", BY_ZONE, ("web2",)), (f"hints, {HERE}", BY_NODE, ("peer",)),
                                         ("hints, not all have one", HALF_HINTED, ("web2", "peer"))):
            yield (f"{title}: client -> {address}", self.several(CLIENT.name, address, HTTP, dict.fromkeys(expected, "client"), 8),
                   [Rule(f"ServiceLB nw_dst={address}", 8)], BOTH)

    def internal_policy(self):
        """Traffic within the cluster stays on its Node."""
        for source, sees in ((CLIENT.name, "client"), (NODE, "gateway")):
            yield (f"ITP Local: {sees} -> {INSIDE}, 8 times", self.several(source, INSIDE, HTTP, {"web2": sees}, 8), [Rule(f"ServiceLB nw_dst={INSIDE}", 8)], BOTH)
        yield (f"ITP Local, no Endpoint here: client -> {INSIDE_NONE}", self.refused(CLIENT.name, INSIDE_NONE, HTTP), [SERVICE], BOTH)

    def external_policy(self):
        """So does traffic from outside to external IPs."""
        some, none = OUTER_OF[EXTERNAL_LOCAL], OUTER_OF[EXTERNAL_NONE]
        yield (f"external IP: client -> {world.EXTERNAL}", self.several(CLIENT.name, world.EXTERNAL, HTTP, {"web2": "client", "node": "client"}),
               [Rule(f"ServiceLB nw_dst={world.EXTERNAL}", 6)], BOTH)
        yield (f"external IP, ETP Local: outside -> {some}, 8 times", self.several(OUTSIDE, some, HTTP, {"web2": "outside"}, 8),
               [Rule(f"ServiceLB priority=200 nw_dst={some}", 8)], BOTH)
        yield (f"external IP, ETP Local: client -> {some}", self.several(CLIENT.name, some, HTTP, {"web2": "client", "peer": "client"}),
               [Rule(f"ServiceLB priority=210 nw_dst={some}", 6)], BOTH)
        yield f"external IP, ETP Local, no Endpoint here: outside -> {none}", self.refused(OUTSIDE, none, HTTP), [SERVICE], BOTH
        yield (f"external IP, ETP Local, no Endpoint here: client -> {none}", self.one(CLIENT.name, none, HTTP, "peer", "client"),
               [Rule(f"ServiceLB priority=210 nw_dst={none}")], BOTH)

    def ending(self):
        """Endpoints that end, and still serve."""
        local = OUTER_OF[ENDING_LOCAL]
        for title, source, address, who in (("web2 ends", CLIENT.name, ENDING, "peer"), ("web2 ends, none is ready", CLIENT.name, ENDING_ALONE, "web2"),
                                            ("web2 ends, ETP Local", OUTSIDE, local, "web2"), ("web2 ends, ETP Local", CLIENT.name, local, "peer")):
            yield (f"{title}: {source} -> {address}", self.several(source, address, HTTP, {who: source}, 8), [Rule(f"ServiceLB nw_dst={address}", 8)], BOTH)

    def ranges(self):
        """Who may use a load balancer's address; its cluster IP is everybody's."""
        address = OUTER_OF[RANGES]
        dropped = Rule(f"ServiceLB priority=195 nw_dst={address}")
        yield f"source ranges: outside -> {address}", self.one(OUTSIDE, address, HTTP, "web2", "outside"), [Rule(f"ServiceLB priority=200 nw_dst={address}")], BOTH
        yield f"source ranges: the internet -> {address}", self.from_internet(address, self.denied(OUTSIDE, address, HTTP)), [dropped], BOTH
        yield f"source ranges: client -> {address}", self.denied(CLIENT.name, address, HTTP), [dropped], BOTH
        yield f"source ranges: client -> {RANGES}, its cluster IP", self.one(CLIENT.name, RANGES, HTTP, "web2", "client"), [Rule(f"ServiceLB nw_dst={RANGES}")], BOTH

    def from_internet(self, address, action):
        """The same, by a client with the internet's address."""

        def run(family):
            route = (of(address, family), "via", of(world.NODE, family))
            self.node.ip(OUTSIDE, "route", "replace", *route, "src", of(world.INTERNET, family))
            try:
                return action(family)
            finally:
                self.node.ip(OUTSIDE, "route", "replace", *route)

        return run

    def weights(self):
        """Shares."""
        yield f"weights 900, 100: client -> {WEIGHED}, {WEIGHED_ASKED} times", self.weighed, [Rule(f"ServiceLB nw_dst={WEIGHED}", WEIGHED_ASKED)], BOTH

    def weighed(self, family):
        """As many as weights say, about."""
        self._shares(collections.Counter(self._ask(CLIENT.name, WEIGHED, HTTP, family)[0] for _ in range(WEIGHED_ASKED)))
        return f"at least {WEIGHED_LEAST} of {WEIGHED_ASKED} are web2's, some peer's"

    @staticmethod
    def _shares(answers):
        if set(answers) != set(WEIGHTS) or answers["web2"] < WEIGHED_LEAST:
            raise Failure(f"of {WEIGHED_ASKED} connections went {dict(answers)}")

    def by_datagrams(self):
        """The same Services, over UDP: each datagram is a connection of its own, but where a port
        is taken again."""
        chosen = [(CLIENT.name, BY_ZONE, "web2"), (CLIENT.name, BY_NODE, "peer"), (CLIENT.name, INSIDE, "web2"), (CLIENT.name, ENDING, "peer"),
                  (CLIENT.name, ENDING_ALONE, "web2"), (CLIENT.name, RANGES, "web2"), (OUTSIDE, OUTER_OF[RANGES], "web2"),
                  (OUTSIDE, OUTER_OF[EXTERNAL_LOCAL], "web2"), (OUTSIDE, OUTER_OF[ENDING_LOCAL], "web2")]
        yield (f"UDP: {len(chosen)} of these Services, 8 datagrams to each", self.answered(chosen),
               [Rule(f"ServiceLB reg4=0x10000/0x70000 nw_dst={address}", 6) for _, address, _ in chosen], BOTH)
        yield (f"UDP: source ranges: client -> {OUTER_OF[RANGES]}", self.unheard(OUTER_OF[RANGES]), [Rule(f"ServiceLB priority=195 nw_dst={OUTER_OF[RANGES]}")], BOTH)
        yield (f"UDP: weights 900, 100: client -> {WEIGHED}, {WEIGHED_ASKED} datagrams", self.weighed_datagrams,
               [Rule(f"ServiceLB nw_dst={WEIGHED}", WEIGHED_LEAST)], BOTH)

    def first_packets(self):
        """Of all these kinds, before the first answer."""
        cases, first = unanswered(), FirstPackets(self.node, OWNERS)
        rules = [Rule("ConntrackState priority=190 ct_state=+new+trk", (PACKETS - 1) * len(cases))]
        rules += [Rule(f"ServiceLB nw_dst={address}", PACKETS) for address in dict.fromkeys(case.address for case in cases if case.port == HTTP)]
        yield f"{PACKETS} datagrams before the answer: {len(cases)} kinds of Services", first.datagrams(cases), rules, BOTH
        yield f"{PACKETS} times the same SYN before the answer: {len(cases)} kinds", first.segments(cases), rules, BOTH

    def _datagram(self, source, address, family):
        try:
            return traffic.ask_datagram(self.space[source], of(address, family), HTTP)
        except OSError as error:
            raise Failure(f"UDP: {source} hears nothing of {of(address, family)}: {error}") from error

    def answered(self, chosen):
        """Of each Service that one Endpoint alone; it sees who asks."""

        def run(family):
            for source, address, who in chosen:
                for _ in range(8):
                    answer, seen = self._datagram(source, address, family)
                    self._same(answer, who, self.owners.get(seen, seen), source)
            return "each by the Endpoint that is to"

        return run

    def unheard(self, address):
        """Nobody answers client, and nobody refuses."""

        def run(family):
            where = f"{CLIENT.name} -> {of(address, family)}, a datagram"
            return silence(where, lambda: traffic.ask_datagram(self.space[CLIENT.name], of(address, family), HTTP, DENIED_LIMIT)[0])

        return run

    def weighed_datagrams(self, family):
        """As connections of TCP."""
        self._shares(collections.Counter(self._datagram(CLIENT.name, WEIGHED, family)[0] for _ in range(WEIGHED_ASKED)))
        return f"at least {WEIGHED_LEAST} of {WEIGHED_ASKED} are web2's, some peer's"
