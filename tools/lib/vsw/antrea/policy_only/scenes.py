"""What is shown: the same packets before the switch is inserted and afterwards, and what policies
allow and deny then."""

import collections
import concurrent.futures

from ... import machine
from ...machine import Failure
from .. import traffic
from ..actions import ALT, BOTH, DENIED_LIMIT, HTTP, PROHIBITED, Actions, of, silence
from ..ledger import Rule
from ..world import GATEWAY
from .network import FAR, NEAR, ONE, OUTSIDE, OWNERS, REFUSED, TO_DB, TO_WEB, TWO, WEB

SIZES = (10, 1400, 4000)  # of datagrams: the last ones come in fragments
MEGABYTES = 4
CLUSTER_IPS = "10.96.0.0/12"

CLIENT, HERE, DB, NODE = ONE.at("client"), ONE.at("web"), ONE.at("db"), ONE.node
PEER, THERE = TWO.at("client"), TWO.at("web")

LOCAL = f"L3Forwarding priority=195 nw_dst={ONE.pod('web')}"
TO_HOST = "L3Forwarding priority=190"
BY_NODE = f"Classifier priority=210 nw_src={ONE.address}"
ISOLATED, BY_EGRESS = "IngressDefaultRule priority=200", "EgressMetric reg0=0x400/0x400"
REFUSAL = "Output reg0=0x4400000/0xfe600000"  # the sender is told
# What the host has translated comes back, is judged, and leaves for the host once more, untracked.
TO_SERVICE = f"DNAT nw_dst={CLUSTER_IPS}"
AGAIN = (f"ConntrackZone priority=210 nw_src={ONE.pod('client')}", "ConntrackCommit priority=210", "Output priority=215")
FRAGMENTS = f"ConntrackZone priority=211 nw_src={ONE.pod('client')}"


class Scenes(Actions):
    """Scenes, as `crossing.Crossing`'s."""

    def __init__(self, network):
        super().__init__(network, OWNERS)

    def reached(self, inserted):
        """Who reaches whom, as the other plug-in has it: (title, action, rules, IP versions). With
        the switch `inserted`, rules of it count, too."""
        to_node, to_db = (f"L3Forwarding priority={number} nw_dst={to}" for number, to in ((210, ONE.address), (195, ONE.pod("db"))))
        to_client = f"ConntrackZone priority=220 nw_dst={ONE.pod('web')}"
        for title, action, rules in (
            (f"Pod to Pod: {CLIENT} -> {HERE}", self.asked(CLIENT, ONE.pod("web"), HERE, CLIENT), (LOCAL,)),
            (f"Pod to another Node's Pod: {CLIENT} -> {THERE}", self.asked(CLIENT, TWO.pod("web"), THERE, CLIENT), (TO_HOST,)),
            (f"another Node's Pod to a Pod: {PEER} -> {HERE}", self.asked(PEER, ONE.pod("web"), HERE, PEER), (LOCAL,)),
            (f"the Node to a Pod: {NODE} -> {HERE}", self.asked(NODE, ONE.pod("web"), HERE, NODE), (LOCAL, BY_NODE)),
            (f"a Pod to its Node: {DB} -> {NODE}", self.asked(DB, ONE.address, NODE, DB), (to_node,)),
            (f"a Pod to the world: {CLIENT} -> {OUTSIDE}", self.asked(CLIENT, ONE.router, OUTSIDE, CLIENT), (TO_HOST,)),
            (f"the world to a Pod: {OUTSIDE} -> {DB}", self.asked(OUTSIDE, ONE.pod("db"), DB, OUTSIDE), (to_db,)),
            (f"Service: {CLIENT} -> near -> {HERE}", self.asked(CLIENT, NEAR, HERE, CLIENT), (TO_SERVICE, to_client)),
            (f"Service: {CLIENT} -> far -> {THERE}", self.asked(CLIENT, FAR, THERE, CLIENT), (TO_SERVICE, *AGAIN)),
            (f"Service: {CLIENT} -> web", self.chosen(CLIENT, WEB, {HERE: CLIENT, THERE: CLIENT}), (TO_SERVICE, *AGAIN)),
            (f"Service: {NODE} -> near -> {HERE}", self.asked(NODE, NEAR, HERE, NODE), (LOCAL, BY_NODE)),
            (f"Service: {PEER} -> near -> {HERE}", self.asked(PEER, NEAR, HERE, PEER), (LOCAL,)),
            (f"NodePort: {OUTSIDE} -> {NODE} -> {HERE}", self.asked(OUTSIDE, ONE.address, HERE, NODE, TO_WEB), (LOCAL,)),
            (f"{MEGABYTES} MiB, fragments: {CLIENT} -> far", self.loaded(CLIENT, FAR), (*AGAIN, FRAGMENTS)),
        ):
            yield title, action, [Rule(text) for text in rules] if inserted else [], BOTH

    def judged(self):
        """What policies of this Node's Pods deny and refuse, before Services and behind them."""
        web = ONE.pod("web")
        for title, source, address, port, rule in (
            (f"{DB} -> {HERE}", DB, web, HTTP, ISOLATED),
            (f"{OUTSIDE} -> {HERE}", OUTSIDE, web, HTTP, ISOLATED),
            (f"{PEER} -> {HERE}, port {ALT}", PEER, web, ALT, ISOLATED),
            (f"{DB} -> Service near -> {HERE}", DB, NEAR, HTTP, ISOLATED),
            (f"{CLIENT} -> {THERE}, port {ALT}", CLIENT, TWO.pod("web"), ALT, BY_EGRESS),
            (f"{CLIENT} -> Service far, port {ALT}", CLIENT, FAR, ALT, BY_EGRESS),
        ):
            yield f"policy denies: {title}", self.unreached(source, address, port), [Rule(rule, 2)], BOTH
        for title, address in ((THERE, TWO.pod("web")), ("Service far", FAR)):
            refused = self.refused(CLIENT, address, REFUSED, PROHIBITED)
            yield f"policy refuses: {CLIENT} -> {title}, port {REFUSED}", refused, [Rule(REFUSAL, 2)], BOTH

    def served(self):
        """Services of the switch itself, with the same results, and what policies deny behind
        them."""
        near, far, web = (f"ServiceLB nw_dst={service}" for service in (NEAR, FAR, WEB))
        to_web, to_db = (f"EndpointDNAT nat(dst={ONE.pod(pod)}:{HTTP})" for pod in ("web", "db"))
        for title, action, rules in (
            (f"{CLIENT} -> near -> {HERE}", self.asked(CLIENT, NEAR, HERE, CLIENT), (near, to_web)),
            (f"{CLIENT} -> far -> {THERE}", self.asked(CLIENT, FAR, THERE, CLIENT), (far, TO_HOST)),
            (f"{CLIENT} -> web", self.chosen(CLIENT, WEB, {HERE: CLIENT, THERE: CLIENT}), (web,)),
            (f"{NODE} -> near -> {HERE}", self.asked(NODE, NEAR, HERE, NODE), (near, to_web)),
            # The client's address is seen and judged, not the Node's.
            (f"{OUTSIDE} -> NodePort -> {DB}", self.asked(OUTSIDE, ONE.address, DB, OUTSIDE, TO_DB), (to_db,)),
            (f"denied: {OUTSIDE} -> NodePort -> {HERE}", self.unreached(OUTSIDE, ONE.address, TO_WEB), (ISOLATED,)),
            (f"{CLIENT} -> far: {MEGABYTES} MiB, fragments", self.loaded(CLIENT, FAR), (far, TO_HOST)),
            (f"denied: {DB} -> near", self.unreached(DB, NEAR, HTTP), (ISOLATED,)),
            (f"denied: {CLIENT} -> far, port {ALT}", self.unreached(CLIENT, FAR, ALT), (BY_EGRESS,)),
            (f"refused: {CLIENT} -> far, port {REFUSED}", self.refused(CLIENT, FAR, REFUSED, PROHIBITED), (REFUSAL,)),
        ):
            yield f"by the switch: {title}", action, [Rule(text) for text in rules], BOTH

    def changed(self, manifests):
        """Policies go, and come back."""
        back = manifests.without("policies.yaml")
        yield f"without policies: {DB} -> {HERE}", self.asked(DB, ONE.pod("web"), HERE, DB), [Rule(LOCAL)], BOTH
        yield f"without policies: {DB} -> Service far", self.asked(DB, FAR, THERE, DB), [Rule(TO_SERVICE)], BOTH
        back()
        yield f"with them: {DB} -> {HERE}", self.unreached(DB, ONE.pod("web"), HTTP), [Rule(ISOLATED, 2)], BOTH

    def repaired(self, agent):
        """Parts of what the agent has made are deleted."""
        action = self.asked(CLIENT, FAR, THERE, CLIENT)
        for what, item, words in (
            ("the rule to table 300", "rule", lambda family: ("ip", f"-{family}", "rule", "del", "priority", "300")),
            ("nftables' table", "table", lambda _: ("nft", "delete", "table", "inet", "vswitch")),
            (f"the route to {HERE}", "route", lambda family: ("ip", "route", "del", of(ONE.pod("web"), family), "dev", GATEWAY)),
        ):
            broken = self._repaired(agent, item, lambda family, words=words: self.node.run(NODE, *words(family)), action)
            yield f"deleted: {what}", broken, [Rule(TO_SERVICE)], BOTH

    @staticmethod
    def _repaired(agent, item, break_it, action):
        def run(family):
            before = collections.Counter(agent.repaired())
            break_it(family)
            told = lambda: [one for one in collections.Counter(agent.repaired()) - before if one.startswith(item)]  # noqa: E731
            machine.expect(f"the agent has repaired its {item}", told, agent.told)
            return f"the agent repairs it; {action(family)}"

        return run

    def asked(self, source, address, who, sees, port=HTTP):
        """By TCP and by UDP, `who` answers, and sees `sees`."""
        by_tcp = self.one(source, address, port, who, sees)

        def run(family):
            by_tcp(family)
            answer, seen = self._by_datagram(source, of(address, family), port)
            self._same(answer, who, seen, sees)
            return f"{who} answers, sees {sees} (TCP, UDP)"

        return run

    def _by_datagram(self, source, address, port):
        try:
            who, seen = traffic.ask_datagram(self.space[source], address, port)
        except OSError as error:
            raise Failure(f"UDP: {source} does not reach {address} port {port}: {error!r}") from error
        return who, self.owners.get(seen, seen)

    def chosen(self, source, address, expected):
        """By TCP and by UDP, each of `expected` answers sooner or later."""
        by_tcp = self.several(source, address, HTTP, expected)

        def run(family):
            told, by_udp = by_tcp(family), collections.Counter()
            while len(by_udp) < len(expected):
                if sum(by_udp.values()) == 60:
                    raise Failure(f"UDP: of 60 datagrams none reached some of {', '.join(expected)}: {dict(by_udp)}")
                who, seen = self._by_datagram(source, of(address, family), HTTP)
                self._same(who, who if who in expected else " or ".join(expected), seen, expected.get(who))
                by_udp[who] += 1
            return f"{told}; UDP {', '.join(f'{by_udp[who]}× {who}' for who in expected)}"

        return run

    def loaded(self, source, address):
        """A transfer each way, and datagrams in fragments."""
        return lambda family: traffic.loads(self.space[source], of(address, family), HTTP, MEGABYTES, SIZES)

    def unreached(self, source, address, port):
        """No answer comes, by TCP and by UDP."""

        def run(family):
            where = (self.space[source], of(address, family), port, DENIED_LIMIT)
            tried = f"{source} -> {of(address, family)} port {port}"
            ways = {"TCP": traffic.ask, "UDP": traffic.ask_datagram}
            with concurrent.futures.ThreadPoolExecutor(len(ways)) as pool:
                asked = [pool.submit(silence, f"{tried}, {word}", lambda ask=ask: ask(*where)) for word, ask in ways.items()]
            for one in asked:
                one.result()
            return "no answer (TCP, UDP)"

        return run
