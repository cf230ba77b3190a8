"""Which rules took the packets: the flows' counters, before and after."""

import dataclasses
import re
import time

from ..machine import PATIENCE_S, Failure
from .pipeline import twin_text


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule that we expect `count` packets at: `words` are its table, and texts that its match or
    actions contain."""

    words: str
    count: int = 1

    @property
    def table(self):
        """The name of its table."""
        return self.words.split()[0]

    def text(self, family):
        """As it is shown; for IPv6, its twin's."""
        return " ".join((self.table, *self._words(family)))

    def _words(self, family):
        words = self.words.split()[1:]
        return words if family == 4 else [twin_text(word) for word in words]

    def applies(self, flow, family):
        """Whether a dumped flow is this rule."""
        whole = f"priority={flow['priority']},{flow['match']} {flow['actions']}"
        return flow["table_name"] == self.table and all(_contains(whole, word) for word in self._words(family))


def _contains(whole, word):
    return re.search(rf"(?<![\w.:]){re.escape(word)}(?![\w.:]|/0x)", whole) is not None


class Ledger:
    """Reads counters of a switch."""

    def __init__(self, switch):
        self.switch = switch

    def read(self):
        """Packets by (table, match, actions), and the flows."""
        flows = self.switch.json("dump-flows", "--names", "br0")
        return [(flow, (flow["table"], flow["priority"], flow["match"])) for flow in flows]

    def risen(self, before, after):
        """Flows that took packets in between: [(flow, how many)]."""
        old = {key: flow["packets"] for flow, key in before}
        # A rule that was learned, or that replaced another, counts from 0.
        grown = [(flow, flow["packets"] - old.get(key, 0)) for flow, key in after]
        return [(flow, count if count >= 0 else flow["packets"]) for flow, count in grown if count]

    def expect(self, before, rules, family):
        """{"by": [(text, packets)]} of expected rules; Failure when one has not counted. Counters
        may come a moment late."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            risen = self.risen(before, self.read())
            found = [(rule, sum(count for flow, count in risen if rule.applies(flow, family))) for rule in rules]
            missing = [rule for rule, count in found if count < rule.count]
            if not missing:
                return {"by": [(rule.text(family), count) for rule, count in found]}
            if time.monotonic() > deadline:
                path = "\n".join(f"    {flow['table_name']} priority={flow['priority']},{flow['match']} +{count}" for flow, count in risen)
                wanted = "; ".join(rule.text(family) for rule in missing)
                raise Failure(f"no packet was counted at: {wanted}; but at\n{path}")
            time.sleep(0.1)


class Ledgers:
    """Ledgers of several switches by name. Expected are pairs: (name, rule)."""

    def __init__(self, ledgers):
        self.ledgers = ledgers

    def read(self):
        """What each has read."""
        return {name: ledger.read() for name, ledger in self.ledgers.items()}

    def expect(self, before, rules, family):
        """{name: [(text, packets)]}, as of one ledger."""
        found = {}
        for name, ledger in self.ledgers.items():
            if own := list(dict.fromkeys(rule for at, rule in rules if at == name)):
                found[name] = ledger.expect(before[name], own, family)["by"]
        return found
