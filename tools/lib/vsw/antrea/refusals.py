"""What policies refuse, and Services without Endpoints: who is told, whoever asks and by whatever
way.

Antrea's agent builds each answer for one of ten cases. The switch has one rule: it answers the
packet as it came in, by where it came from. Which scene is which case:
docs/architecture/antrea-compiler.md, "Reject".
"""

import contextlib
import time
from pathlib import Path

from .. import machine
from ..machine import Failure
from . import traffic, world
from .actions import BOTH, HTTP, PROHIBITED, Actions, of
from .answering import Answerer
from .ledger import Rule
from .node import NODE, OUTSIDE, PEER
from .world import CLIENT, DB, WEB2, six

MANIFEST = Path(__file__).with_name("refusals.yaml")
REMOTE, LOCAL, NOBODY = "10.101.255.30", "10.101.255.31", "10.101.255.32"
LOCAL_PORT, NOBODY_PORT, HOST_PORT = 30005, 30006, 30099

# The Node's kernel translates one port to the Pod, as kube-proxy would.
HOST_RULES = """table inet refusals {{
  chain prerouting {{
    type nat hook prerouting priority -100;
    ip daddr {node} meta l4proto {{ tcp, udp }} th dport {host} dnat ip to {pod}:80
    ip6 daddr {node6} meta l4proto {{ tcp, udp }} th dport {host} dnat ip6 to [{pod6}]:80
  }}
}}
"""

# More than a port's refusals at once: in parts with a pause, for which a host port's ring (135
# frames) has room.
BURST, PART, PAUSE_S, ATTEMPTS = 4000, 100, 0.001, 10

# Whom a policy refused: from a tunnel, and from anywhere else. A packet of TCP and one of UDP.
TUNNEL = Rule("Output priority=201 reg0=0x4400001/0xfe60000f", 2)
ELSEWHERE = Rule("Output priority=200 reg0=0x4400000/0xfe600000", 2)
# A Service without Endpoints.
SERVICE = Rule("EndpointDNAT priority=200 reg0=0x4000/0x4000", 2)


def _adds_up(counts):
    """Whether what the rule has counted was sent, and each of that is either answered or not."""
    packets = counts["packets"]
    return packets <= BURST and 0 < counts["rejects_sent"] == packets - counts["reject_rate"]


class Refusals(Actions):
    """Scenes, as `scenes.Scenes`, of one Node."""

    def __init__(self, node, manifests, switch, traces):
        super().__init__(node, {})
        self.manifests, self.switch, self.traces = manifests, switch, traces

    def all(self):
        """In order."""
        rules = HOST_RULES.format(node=world.NODE, node6=six(world.NODE), host=HOST_PORT, pod=WEB2.v4, pod6=WEB2.v6)
        with contextlib.ExitStack() as stack:
            self.node.run(NODE, "nft", rules)
            stack.callback(self.node.run, NODE, "nft", "delete", "table", "inet", "refusals")
            stack.enter_context(self.manifests.also(MANIFEST))
            self.manifests.host.settled()
            yield from self.policies()
            yield from self.traces.rejected()
            yield from self.services()
            with self.manifests.edited("nodes.yaml", "\nspec:\n  bridge: br0\n", "\nspec:\n  bridge: br0\n  takenOver: [PolicyReject, ServiceReject]\n"):
                yield from self.by_agent()

    def policies(self):
        """By rules of policies, at either end."""
        for title, source, address, port, rule in (
            ("client -> web2, its policy", CLIENT.name, WEB2.v4, HTTP, ELSEWHERE),
            ("client -> db, client's policy", CLIENT.name, DB.v4, HTTP, ELSEWHERE),
            ("client -> ClusterIP -> web2", CLIENT.name, LOCAL, HTTP, ELSEWHERE),
            ("client -> peer, client's policy", CLIENT.name, world.REMOTE, HTTP, ELSEWHERE),
            ("client -> ClusterIP -> peer", CLIENT.name, REMOTE, HTTP, ELSEWHERE),
            ("peer -> web2", PEER, WEB2.v4, HTTP, TUNNEL),
            ("outside -> the Node translates -> web2", OUTSIDE, world.NODE, HOST_PORT, ELSEWHERE),
            ("outside -> NodePort -> web2", OUTSIDE, world.NODE, LOCAL_PORT, ELSEWHERE),
            ("outside -> LoadBalancer -> web2", OUTSIDE, world.LOAD_BALANCER, HTTP, ELSEWHERE),
        ):
            yield f"Reject: {title}", self.counted(self.refused(source, address, port, PROHIBITED)), [rule], BOTH
        yield "Reject: ping client -> web2", self.prohibited(CLIENT.name, WEB2.v4), [Rule(ELSEWHERE.words)], BOTH
        yield f"Reject: {BURST:,} datagrams at once, db -> web2", self.burst, [], BOTH

    def counted(self, action):
        """Each packet that a rule refused was answered, and its statistics say so."""

        def run(family):
            before = self._counters()
            told = action(family)
            grown = lambda: [after - old for after, old in zip(self._counters(), before, strict=True)]  # noqa: E731
            is_right = lambda packets, answers: 0 < packets == answers  # noqa: E731
            machine.expect("as many answers are counted as packets that were refused", lambda: is_right(*grown()), grown)
            return told

        return run

    def _counters(self):
        """Packets that rules refused, and answers."""
        policies = ("--policy", "acnp:refuse-to-web2"), ("--policy", "acnp:refuse-from-client")
        rules = [rule["statistics"] for policy in policies for rule in self.manifests.switch.json("antrea", "rules", *policy)]
        return [sum(rule[word] for rule in rules) for word in ("packets", "rejects_sent")]

    def burst(self, family):
        """A port is told of 5,000 refusals per second, 1,000 at once: of more, each is answered or
        counted as not answered."""
        for _ in range(ATTEMPTS):
            before = self._limited()
            self._send_burst(of(WEB2.v4, family))
            # What db sends after all that comes through after all that: what is not counted by then
            # did not get into the switch.
            self._ask(DB.name, world.REMOTE, HTTP, family)
            grown = lambda: {word: count - before[word] for word, count in self._limited().items()}  # noqa: B023, E731
            machine.expect("all that is refused is answered, or counted as not answered", lambda: _adds_up(grown()), grown)
            told = grown()
            # A busy machine's kernel may lose some of them before the port's ring, and counts that
            # elsewhere.
            if told["reject_rate"] and BURST <= told["packets"] + told["missed"]:
                return "each is answered, or counted as one that was not"
        raise Failure(f"{ATTEMPTS} times all of {BURST} datagrams were answered, or some are not accounted for, the last time {told}")

    def _send_burst(self, address):
        with traffic.make_socket(self.space[DB.name], traffic.family_of(address), traffic.DATAGRAM) as client:
            for _ in range(BURST // PART):
                for _ in range(PART):
                    client.sendto(b"x", (address, HTTP))
                time.sleep(PAUSE_S)

    def _limited(self):
        """Packets that the rule about web2 refused, and its answers; packets from db that were not
        answered, and those that the switch never saw."""
        rule = self.switch.json("antrea", "rules", "--policy", "acnp:refuse-to-web2")[0]["statistics"]
        port = self.switch.ports()[DB.port]
        return {"packets": rule["packets"], "rejects_sent": rule["rejects_sent"], "reject_rate": port["rx_drops"].get("reject_rate", 0), "missed": port["rx_missed"]}

    def by_agent(self):
        """The agent is told what is refused, and has the switch answer."""
        tunnel = Rule(ELSEWHERE.words, 2)
        for title, category, source, address, how, rule in (
            ("Reject: client -> ClusterIP -> web2", "POLICY_REJECT", CLIENT.name, LOCAL, (PROHIBITED,), ELSEWHERE),
            ("Reject: peer -> web2", "POLICY_REJECT", PEER, WEB2.v4, (PROHIBITED,), tunnel),
            ("no Endpoint: client -> ClusterIP", "SERVICE_REJECT", CLIENT.name, NOBODY, (), SERVICE),
        ):
            yield f"the agent answers, {title}", self.answered(category, self.refused(source, address, HTTP, *how)), [rule], BOTH

    def answered(self, category, action):
        """An action of a client whose packets the agent answers: refuse."""

        def run(family):
            with Answerer(self.switch, category, "reject") as agent:
                done = action(family)
                told = agent.check(2)
            if category == "POLICY_REJECT" and {event["rule"]["policy"] for event in told} != {"acnp:refuse-to-web2"}:
                raise Failure(f"told: {told}")
            return f"{done}; {len(told)} packets were told"

        return run

    def services(self):
        """Whom nobody serves."""
        for title, source, address, port in (("client -> ClusterIP", CLIENT.name, NOBODY, HTTP), ("the Node -> ClusterIP", NODE, NOBODY, HTTP),
                                             ("client -> NodePort", CLIENT.name, world.NODE, NOBODY_PORT),
                                             ("outside -> NodePort", OUTSIDE, world.NODE, NOBODY_PORT)):
            yield f"no Endpoint: {title}", self.refused(source, address, port), [SERVICE], BOTH
