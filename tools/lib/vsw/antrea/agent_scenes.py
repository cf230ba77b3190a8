"""The scenes of the document, on a Node that the control agent has programmed."""

from .ledger import Rule
from .manifests import renumber
from .scenes import Scenes

# What depends on a flow that the document shows and no agent writes: a client that affinity has led to an endpoint that there never was.
NOT_HERE = ("session affinity to an Endpoint that is gone",)

# Rules that are others here: ours are stricter with neighbour discovery.
WORDS = {"SpoofGuard priority=205": "SpoofGuard priority=0"}


class AgentScenes(Scenes):
    """All scenes; rules have the numbers that the switch gave them."""

    def __init__(self, node, switch, manifests, agent):
        super().__init__(node, switch, None, agent)
        self.manifests = manifests

    def all(self):
        """As `Scenes.all`."""
        for title, action, rules, families in super().all():
            if not title.startswith(NOT_HERE):
                yield title, action, self.renumbered(rules), families

    def renumbered(self, rules):
        """Rules of the document as they are here now."""
        numbers = self.manifests.numbers()
        return [Rule(renumber(WORDS.get(rule.words, rule.words), numbers), rule.count) for rule in rules]

    def without_antrea_policy(self):
        """Takes the manifest of Antrea's policy away."""
        return self.manifests.without("antrea-policy.yaml")
