"""Rules about names: the switch reads DNS answers to Pods, and lets their addresses pass as soon as the Pod has them."""

import contextlib

from .. import machine
from ..machine import Failure
from . import dns, traffic, world
from .actions import BOTH, HTTP, of
from .ledger import Rule
from .node import PEER
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

# Seconds to connect: less than until a second SYN.
AT_ONCE = 0.9
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
    "short.example.com": (1, both(world.REMOTE)),
    "www.example.org": (300, both(DB.v4)),
    **{f"n{number}.load.example.com": (60, both(WEB2.v4)) for number in range(KINDS)},
}


class NameScenes:
    """Beside the other scenes of the agent, whose `space`, `switch`, `manifests` and actions are used."""

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
            yield (f"{STORM} questions for {KINDS} names", self.storm, [Rule("AntreaPolicyIngressRule priority=64991 conj_id=1", STORM)], (4,))

    def _resolve(self, name, family, by_tcp=False):
        return dns.resolve(self.space[CLIENT.name], of(world.REMOTE, family), name, family, by_tcp)[0]

    def _expect_silence(self, address):
        try:
            answer = traffic.ask(self.space[CLIENT.name], address, HTTP, 0.6)
        except TimeoutError:
            return
        raise Failure(f"expected silence of {address}, {answer} answered")

    def named(self, name, who, by_tcp=False):
        """Nobody answers, then the name is known, and the first packet to its address passes."""

        def run(family):
            self._expect_silence(self._address(name, family))
            address = self._resolve(name, family, by_tcp)
            with traffic.connect(self.space[CLIENT.name], address, HTTP, AT_ONCE) as client:
                client.settimeout(3)
                answer, _, seen = traffic.exchange(client, HELLO).decode().strip().partition(" sees ")
            self._same(answer, who, self.owners.get(seen, seen), CLIENT.name)
            return f"silence before it is asked for; then {who} answers at once"

        return run

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
        address = self._resolve("short.example.com", family)
        with traffic.connect(self.space[CLIENT.name], address, HTTP, AT_ONCE) as before:
            machine.wait_until("the address is forgotten", 5, lambda: not self.switch.json("antrea", "fqdns", "short.example.com"))
            self._expect_silence(address)
            before.settimeout(3)
            if not traffic.exchange(before, HELLO):
                raise Failure("the connection of its time broke off")
        return "new connections do not pass any more, one of its time lives on"

    def storm(self, family):
        """All are answered."""
        names = [f"n{number % KINDS}.load.example.com" for number in range(STORM)]
        answered, again, seconds = dns.storm(self.space[CLIENT.name], of(world.REMOTE, family), names, family)
        state = self.switch.json("antrea", "status")["names"]
        if answered < STORM:
            raise Failure(f"{answered} of {STORM} were answered; {state}")
        late = f", {again} asked again" if again else ""
        return f"all answered, {STORM / seconds:.0f}/s{late}; {state['names']} names known"
