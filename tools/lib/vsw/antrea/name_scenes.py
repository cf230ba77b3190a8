"""Rules about names: the switch reads DNS answers to Pods, and lets their addresses pass as soon as
the Pod has them."""

import contextlib
import ipaddress
import time

from .. import machine
from ..machine import Failure
from . import dns, traffic, world
from .actions import BOTH, DENIED_LIMIT, HTTP, of
from .answering import Answerer
from .ledger import Rule
from .node import PEER
from .telling import Stream
from .world import CLIENT, DB, WEB2, six

POLICY = """# client may ask the DNS server, and speak to whoever has a name below example.com; to nobody else.
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata:
  name: names
spec:
  priority: 1
  tier: application
  appliedTo:
    - podSelector:
        matchLabels:
          app: client
  egress:
    - name: AskForNames
      action: Allow
      to:
        - ipBlock: {{cidr: {server}/32}}
        - ipBlock: {{cidr: "{server6}/128"}}
      ports:
        - {{protocol: UDP, port: 53}}
        - {{protocol: TCP, port: 53}}
    - name: Names
      action: Allow
      to:
        - fqdn: "*.example.com"
    - name: NobodyElse
      action: Drop
"""

SHORT_S = 1  # the TTL of a name
HELLO = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
STORM = 2000
KINDS = 200


def both(v4):
    """An address and its twin."""
    return v4, six(v4)


ZONE = {
    "www.example.com": (300, both(WEB2.v4)),
    "alias.example.com": (300, "edge.cdn.test"),
    "edge.cdn.test": (300, both(world.PEER_NODE)),
    "stream.example.com": (300, both(world.NODE)),
    # Of no other name: the rule is another one by it
    "told.example.com": (300, both(world.OUTSIDE)),
    "short.example.com": (SHORT_S, both(world.REMOTE)),
    "www.example.org": (300, both(DB.v4)),
    **{f"n{number}.load.example.com": (60, both(WEB2.v4)) for number in range(KINDS)},
}


class NameScenes:
    """Beside the other scenes of the agent, whose `space`, `switch`, `manifests` and actions are
    used."""

    def names(self):
        """All of them, with the policy in force."""
        policy = self.manifests.directory.with_name("names.yaml")
        policy.write_text(POLICY.format(server=world.REMOTE, server6=six(world.REMOTE)))
        with contextlib.ExitStack() as stack:
            dns.Server(self.space[PEER], ZONE, stack)
            stack.enter_context(self.manifests.also(policy))
            told = Rule("AntreaPolicyIngressRule priority=64991 conj_id=1")
            yield ("a name of a rule: www.example.com, first connection", self.named("www.example.com", "web2"), [told], BOTH)
            yield ("a name that stands for another: alias.example.com", self.named("alias.example.com", "outside"), [told], BOTH)
            yield ("a name asked for by TCP: stream.example.com", self.named("stream.example.com", "node", by_tcp=True), [told], BOTH)
            yield ("a name that no rule means: www.example.org", self.unnamed, [told], BOTH)
            yield ("a name's time is over: short.example.com, 1 s", self.short, [told], BOTH)
            yield ("a name is told, with the Pod that asked, and the policy that changes: told.example.com", self.learned, [told], BOTH)
            yield (f"{STORM} questions for {KINDS} names", self.storm, [Rule("AntreaPolicyIngressRule priority=64991 conj_id=1", STORM)], (4,))
            with self.manifests.edited("nodes.yaml", "\nspec:\n  bridge: br0\n", "\nspec:\n  bridge: br0\n  takenOver: [DNS]\n"):
                yield ("the agent reads DNS: it drops an answer, and lets the next one go on", self.by_agent, [Rule(told.words, 2)], BOTH)

    def _resolve(self, name, family, by_tcp=False):
        return dns.resolve(self.space[CLIENT.name], of(world.REMOTE, family), name, family, by_tcp)[0]

    def _expect_silence(self, address):
        try:
            answer = traffic.ask(self.space[CLIENT.name], address, HTTP, DENIED_LIMIT)
        except TimeoutError:
            return
        raise Failure(f"expected silence of {address}, {answer} answered")

    def named(self, name, who, by_tcp=False):
        """Nobody answers, then the name is known, and the first packet to its address passes."""

        def run(family):
            before = self._dropped_elsewhere()
            self._expect_silence(self._address(name, family))
            machine.expect("the policy has dropped a packet", lambda: self._dropped_elsewhere() > before, self._dropped_elsewhere)
            address = self._resolve(name, family, by_tcp)
            dropped = self._dropped_elsewhere()
            with traffic.connect(self.space[CLIENT.name], address, HTTP) as client:
                answer, _, seen = traffic.exchange(client, HELLO).decode().strip().partition(" sees ")
                again = traffic.retransmitted(client)
            self._same(answer, who, self.owners.get(seen, seen), CLIENT.name)
            # On a busy machine an answer may be late; that is not what a drop looks like.
            if again and self._dropped_elsewhere() != dropped:
                raise Failure(f"the first packet did not pass, {again} were sent again")
            return f"silence before it is asked for; then {who} answers at once"

        return run

    def _dropped_elsewhere(self):
        """Packets that the policy has dropped since they were for nobody that it names."""
        rules = self.switch.json("antrea", "rules", "--policy", "acnp:names")
        return sum(rule["statistics"]["packets"] for rule in rules if rule["id"] == "NobodyElse")

    @staticmethod
    def _address(name, family):
        target = ZONE[name][1]
        return (ZONE[target][1] if isinstance(target, str) else target)[0 if family == 4 else 1]

    def unnamed(self, family):
        """The answer comes, and opens nothing."""
        address = self._resolve("www.example.org", family)
        self._expect_silence(address)
        return "the answer comes; no answer from there"

    def short(self, family):
        """A connection of its time lives on; new ones do not pass any more."""
        address, before = self._in_time("short.example.com", family)
        with before:
            known = lambda: self.switch.json("antrea", "fqdns", "short.example.com")  # noqa: E731
            machine.expect("the address is forgotten", lambda: not known(), known)
            self._expect_silence(address)
            before.settimeout(machine.PATIENCE_S)
            if not traffic.exchange(before, HELLO):
                raise Failure("the connection of its time broke off")
        return "new connections do not pass any more, one of its time lives on"

    def _in_time(self, name, family):
        """An address, and a connection to it that was made before its time was over: on a busy
        machine the first one may be too late."""
        deadline = time.monotonic() + machine.PATIENCE_S
        while True:
            address = self._resolve(name, family)
            try:
                return address, traffic.connect(self.space[CLIENT.name], address, HTTP, SHORT_S)
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise

    def learned(self, family):
        """Told as it is learned."""
        with contextlib.ExitStack() as stack:
            events = Stream(self.switch, stack, "events", "--kind", "fqdn-learned", "--kind", "object-changed")
            address = self._resolve("told.example.com", family)
            learned = events.wait("learned name", lambda line: line.get("event") == "fqdn-learned")[0]
            changed = events.wait("changed object", lambda line: line.get("event") == "object-changed")[0]
        if (learned["name"], learned["addresses"], learned["ttl_seconds"], learned["pod"]) != ("told.example.com", [address], 300, "default/client"):
            raise Failure(f"told: {learned}")
        if (changed["object"], changed["outcome"]) != ("policy/acnp:names", "APPLIED"):
            raise Failure(f"told: {changed}")
        return "name, address, TTL, Pod; policy/acnp:names"

    def by_agent(self, family):
        """Nothing comes until the agent says so."""
        with Answerer(self.switch, "DNS", "drop", "resume") as agent:
            began = time.monotonic()
            address = self._resolve("www.example.com", family)
            took = time.monotonic() - began
            told = agent.check(2)
        if took < 1 or address != self._address("www.example.com", family):
            raise Failure(f"{address} came after {took:.1f} s")
        if any(bytes.fromhex(event["packet"])[-len(ipaddress.ip_address(address).packed):] != ipaddress.ip_address(address).packed for event in told):
            raise Failure(f"told: {told}")
        return "the first answer is dropped, the second comes"

    def storm(self, family):
        """All are answered."""
        names = [f"n{number % KINDS}.load.example.com" for number in range(STORM)]
        answered, again, seconds = dns.storm(self.space[CLIENT.name], of(world.REMOTE, family), names, family)
        state = self.switch.json("antrea", "status")["names"]
        if answered < STORM:
            raise Failure(f"{answered} of {STORM} were answered; {state}")
        late = f", {again} asked again" if again else ""
        return f"all answered, {STORM / seconds:.0f}/s{late}; {state['names']} names known"
