"""What the switch says that it was told: objects as the cluster's manifests have them, their flows,
and whose a flow is."""

from ..machine import Failure, expect
from . import traffic, world
from .actions import BOTH, HTTP, Actions, of
from .manifests import NODE_NAME
from .scenes import OWNERS
from .world import CLIENT, DB, WEB2, six

PEER_NODE = "k8s-node-worker-1"
# What the manifests say of policies: (kind, tier, priority, what they isolate, [(direction, action
# of a rule)]). K8s's are in no tier.
L7, MULTICAST, OURS, K8S = "acnp:ingress-allow-http-request-to-api-v2", "acnp:multicast", "acnp:web-app-db-network-policy", "np:default/web-app-db-network-policy"
POLICIES = {
    L7: ("antrea-cluster", 250, 4, [], [("ingress", "allow")]),
    MULTICAST: ("antrea-cluster", 250, 6, [], [("egress", "drop")] * 2),
    OURS: ("antrea-cluster", 250, 5, [], [("egress", "allow"), ("egress", "drop"), ("ingress", "allow"), ("ingress", "drop")]),
    K8S: ("k8s", None, None, ["egress", "ingress"], [("egress", "allow"), ("ingress", "allow")]),
}
POLICIES_OF = {"client": [MULTICAST], "db": [], "web": [L7, OURS, K8S], "web2": [MULTICAST]}
EGRESS_OF = {"client": "egress-client", "db": None, "web": "egress-web", "web2": "egress-web"}
# Whom rules name, and whom they are applied to, by their label app: of all namespaces, or of the
# policy's.
GROUPS = {
    "address-group": {("client", "*"), ("client", "default"), ("db", "*"), ("db", "default")},
    "applied-to-group": {("client", "*"), ("web", "*"), ("web", "default"), ("web2", "*")},
}
CONTROLS = {
    "mirror-db-to-local": ("both", "mirror", "antrea-tc-tap2", None, ["default/db"]),
    "redirect-web-to-local": ("both", "redirect", "antrea-tc-tap0", "antrea-tc-tap1", ["default/web"]),
}
# Verbs that list objects, and the words for their kinds.
LISTED = {"pods": "pod", "peers": "peer", "services": "service", "policies": "policy", "egress": "egress", "traffic-controls": "tc"}
# What the switch has of its own: groups that nobody joins, but all are in, and routers.
OWN = ("node", "multicast-group/224.0.0.0/24", "multicast-group/224.0.0.22")
# An object of each kind, from which it is shown that one gets to its flows, and back.
LOOKED_UP = ("node", "pod/default/web", f"peer/{PEER_NODE}", "service/default/sample-loadbalancer", f"policy/{OURS}", f"policy/{K8S}", "egress/egress-web",
             "tc/redirect-web-to-local")
DATAGRAMS, SIZE = 3, 100
NO_COOKIE = "0xdead"


class Objects(Actions):
    """The scenes."""

    def __init__(self, scenes):
        super().__init__(scenes.node, OWNERS)
        self.switch = scenes.switch

    def all(self):
        """As `Scenes.all`."""
        yield "objects: Pods, and what they send", self.pods, [], BOTH
        yield "objects: the peer Node, and what goes there", self.peers, [], BOTH
        yield "objects: TrafficControls, and what they copy", self.controls, [], BOTH
        for title, action in (("policies and their rules", self.policies), ("groups", self.groups), ("every flow is somebody's", self.whole),
                              ("flows of an object, objects of a flow", self.back_and_forth), ("rules by number, and their flows", self.numbers)):
            yield f"objects: {title}", action, [], BOTH[:1]

    def _told(self, verb):
        """Objects by name."""
        return {one["name"]: one for one in self.switch.json("antrea", verb)}

    def _grows(self, what, count, packets):
        """After these packets the count is higher by as many at least, and by their bytes."""
        before = count()
        packets()
        grown = lambda: [count()[word] - before[word] for word in ("packets", "bytes")]  # noqa: E731
        expect(f"{what}: {DATAGRAMS} packets more", lambda: grown()[0] >= DATAGRAMS and grown()[1] >= DATAGRAMS * SIZE, grown)

    def _echoes(self, target, port, family):
        return lambda: traffic.echoes(self.space[CLIENT.name], of(target, family), port, [SIZE] * DATAGRAMS)

    def pods(self, family):
        """Their ports, addresses, policies, Egress."""
        pods = self._told("pods")
        _same("Pods", set(pods), {f"default/{pod.name}" for pod in world.PODS})
        for pod in world.PODS:
            expected = {"port": pod.port, "port_number": pod.number, "mac": pod.mac, "addresses": [pod.v4, pod.v6], "link_up": True, "vlan": None,
                        "policies": POLICIES_OF[pod.name], "egress": EGRESS_OF[pod.name]}
            told = pods[f"default/{pod.name}"]
            _same(f"Pod {pod.name}", {word: told[word] for word in expected}, expected)
        self._grows("client sent", lambda: self._told("pods")["default/client"]["sent"], self._echoes(WEB2.v4, HTTP, family))
        return f"{len(pods)} Pods, with ports, addresses, policies, Egress; what client sends is counted"

    def peers(self, family):
        """Its prefixes and addresses."""
        peers = self._told("peers")
        expected = {PEER_NODE: {"pod_cidrs": _both("10.10.1.0/24"), "gateway_addresses": _both(world.REMOTE_GATEWAY), "transport_addresses": _both(world.PEER_NODE)}}
        _same("peers", {name: {word: told[word] for word in expected[PEER_NODE]} for name, told in peers.items()}, expected)
        self._grows("routed", lambda: self._told("peers")[PEER_NODE]["routed"][BOTH.index(family)], self._echoes(world.REMOTE, HTTP, family))
        return "its prefixes, gateway and own addresses; what client sends there is counted"

    def controls(self, family):
        """Whom they are about, and where they lead."""
        words = ("direction", "action", "target_port", "return_port", "pods")
        _same("TrafficControls", {name: tuple(told[word] for word in words) for name, told in self._told("traffic-controls").items()}, CONTROLS)
        self._grows("copied", lambda: self._told("traffic-controls")["mirror-db-to-local"]["marked"], self._echoes(DB.v4, HTTP, family))
        return f"{len(CONTROLS)} of them; what client sends to db is counted as copied"

    def policies(self, _family):
        """Their places, and their rules' actions; of a Pod, those that are applied to it."""
        def shown(told):
            return (told["kind"], told["tier"], told["priority"], sorted(told["isolates"]), sorted((rule["direction"], rule["action"]) for rule in told["rules"]))

        _same("policies", {name: shown(told) for name, told in self._told("policies").items()}, POLICIES)
        for pod, names in POLICIES_OF.items():
            _same(f"policies of {pod}", [told["name"] for told in self.switch.json("antrea", "policies", "--pod", f"default/{pod}")], names)
        return f"{len(POLICIES)}: kind, tier, priority, isolation, rules; by Pod"

    def groups(self, _family):
        """Their names, and members."""
        told = {(one["kind"], one["name"]): one["members"] for one in self.switch.json("antrea", "groups")}
        name = lambda app, space: f"pods app={app} of namespace{'s' if space == '*' else ''} {space}"  # noqa: E731
        expected = {(kind, name(app, space)): [f"pod/default/{app}"] for kind, groups in GROUPS.items() for app, space in groups}
        _same("groups", told, expected)
        return f"{len(expected)}, with their members"

    def whole(self, _family):
        """All flows of tables, but what those do without any (misses) and what was learned, are
        some object's; and all of an object's are there."""
        objects = [*OWN, *(f"{kind}/{name}" for verb, kind in LISTED.items() for name in self._told(verb))]
        theirs = {_key(flow) for name in objects for flow in self.switch.json("antrea", "flows", name)}
        there = {_key(flow) for flow in self.switch.json("dump-flows", "--names", "br0") if flow["table_name"] != "SessionAffinity" and flow["priority"]}
        # Of what each table does with anything, the Node writes some.
        _same("flows of objects that are not there, and of nobody", sorted(flow for flow in theirs ^ there if flow[1]), [])
        return f"{len(there)} flows of {len(objects)} objects"

    def back_and_forth(self, _family):
        """Each flow of an object is its own when asked for by its line; by its cookie, if that is
        not one of several."""
        count = 0
        for name in LOOKED_UP:
            lines = self.switch.vsctl("antrea", "flows", name).splitlines()
            if not lines:
                raise Failure(f"{name} has no flows")
            for line in lines:
                count += 1
                if name not in (found := self.switch.json("antrea", "whose", line)["objects"]):
                    raise Failure(f"{line} is said to be of {found}, not of {name}")
        _same("a cookie's", self.switch.json("antrea", "whose", self._told("pods")["default/web"]["cookie"])["objects"], ["pod/default/web"])
        _same("nobody's cookie", self.switch.json("antrea", "whose", NO_COOKIE), {"objects": [], "rules": []})
        return f"{count} flows of {len(LOOKED_UP)} objects are found again"

    def numbers(self, _family):
        """Of every rule: its number is its own, and so are its flows."""
        rules = self.switch.json("antrea", "rules")
        for rule in rules:
            own = {"policy": rule["policy"], "rule": rule["id"], "number": rule["number"]}
            _same(f"number {rule['number']}", self.switch.json("antrea", "whose", rule["number"]), {"objects": [f"policy/{rule['policy']}"], "rules": [own]})
            flows = self.switch.vsctl("antrea", "flows", f"policy/{rule['policy']}", "--rule", rule["id"]).splitlines()
            wrong = [line for line in flows if own not in self.switch.json("antrea", "whose", line)["rules"]]
            if wrong or not flows:
                raise Failure(f"rule {own}: of {len(flows)} flows these are others': {wrong}")
        return f"{len(rules)} rules of {NODE_NAME}"


def _both(v4):
    return [v4, six(v4)]


def _key(flow):
    return flow["table_name"], flow["priority"], flow["match"]


def _same(what, told, expected):
    if told != expected:
        raise Failure(f"{what}: {told}, expected {expected}")
