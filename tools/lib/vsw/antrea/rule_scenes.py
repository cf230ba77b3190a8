"""What rules of policies can say: tiers, groups, selectors, ports, messages, accounts, namespaces,
Nodes, Services. Who is decided by which rule, by its statistics.

Silence is shown by them, too: what a rule has dropped, nobody gets."""

import contextlib
import dataclasses
import errno
import socket
import struct
from pathlib import Path

from .. import machine
from ..machine import Failure
from . import traffic, world
from .actions import ALT, BOTH, HTTP, MYSQL, Actions, of
from .agent import checksum
from .manifests import write
from .node import OUTSIDE, PEER
from .scenes import OWNERS
from .world import CLIENT, DB, WEB2

MANIFEST = Path(__file__).with_name("rules.yaml")
# Whom a policy isolates is dropped by no rule of it, but by a flow.
ISOLATED, ISOLATION = "np:back/isolated", "np:back/isolated/(isolation)"
SERVICE, SERVICE_PORT, OTHER_SERVICE = "10.105.31.236", world.NODE_PORT, "10.105.31.237"

# Ports of web2 that a scene each is about; servers listen on those of `OPEN`.
GROUPED, OWN, NAMED, NAMED_AT_DB, ACCOUNTS, SELF, TEAM, JOINED = 9010, 9020, 9030, 9031, 9040, 9050, 9060, 9070
RANGE = range(9101, 9107)
OPEN = (GROUPED, OWN, NAMED_AT_DB, ACCOUNTS, SELF, TEAM, JOINED, RANGE[0] - 1, RANGE[-1] + 1)

ICMP = {4: (socket.AF_INET, socket.IPPROTO_ICMP), 6: (socket.AF_INET6, socket.IPPROTO_ICMPV6)}
ECHO, TIMESTAMP = {4: 8, 6: 128}, {4: 13}  # types of requests
COUNTED = ("sessions", "new_packets", "packets")
HELLO = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclasses.dataclass(frozen=True)
class Try:
    """Somebody asks; `who` answers, or nobody. These rules decide (POLICY/RULE), and none beside
    them."""

    source: str
    address: str
    port: int
    who: str | None
    rules: tuple = ()


def dropped(source, address, port, *rules):
    """A rule drops what is asked."""
    return Try(source, address, port, None, rules)


def answered(source, pod, port, *rules):
    """The Pod answers."""
    return Try(source, pod.v4, port, pod.name, rules)


REVIEWED, LAST, GROUP = "acnp:reviewed/PassOn", "acnp:last/DropCallers", "acnp:grouped/DropGroup"

# What is tried, in order, of what was said once.
TRIES = {
    "tiers: review passes to K8s's policies": (
        answered(CLIENT.name, DB, ALT, REVIEWED, "np:back/isolated/ingress-0"), dropped(WEB2.name, DB.v4, ALT, REVIEWED, ISOLATION)),
    "tiers: review drops before application allows": (dropped(PEER, DB.v4, ALT, "acnp:reviewed/DropPeer"),),
    "tiers: baseline, where no K8s policy is": (dropped(CLIENT.name, WEB2.v4, ALT, LAST), answered(DB.name, WEB2, ALT)),
    "K8s: namespaceSelector and podSelector": (
        answered(CLIENT.name, DB, MYSQL, "np:back/isolated/ingress-0"), dropped(WEB2.name, DB.v4, MYSQL, ISOLATION), dropped(PEER, DB.v4, MYSQL, ISOLATION),
        dropped(CLIENT.name, DB.v4, MYSQL + 2, ISOLATION)),
    "ClusterGroups: of Pods and addresses, for others": (
        *(dropped(source, WEB2.v4, GROUPED, GROUP) for source in (CLIENT.name, PEER, OUTSIDE)), answered(DB.name, WEB2, GROUPED)),
    "a policy of a namespace, about its Pods": (
        dropped(DB.name, WEB2.v4, OWN, "anp:back/own/DropOwn"), answered(CLIENT.name, WEB2, OWN), answered(PEER, WEB2, OWN)),
    "ports: a range": (
        *(dropped(CLIENT.name, WEB2.v4, port, "acnp:ports/DropRange") for port in (RANGE[0], RANGE[2], RANGE[-1])),
        *(answered(DB.name, WEB2, port) for port in (RANGE[0] - 1, RANGE[-1] + 1))),
    "ports: a name": (
        dropped(CLIENT.name, WEB2.v4, NAMED, f"acnp:ports/DropMetrics/tcp-{NAMED}"), answered(CLIENT.name, WEB2, NAMED_AT_DB),
        dropped(CLIENT.name, DB.v4, NAMED_AT_DB, f"acnp:ports/DropMetrics/tcp-{NAMED_AT_DB}")),
    "service accounts": (
        dropped(CLIENT.name, WEB2.v4, ACCOUNTS, "acnp:accounts/DropCaller"), answered(PEER, WEB2, ACCOUNTS), answered(DB.name, WEB2, ACCOUNTS)),
    "namespaces: Self": (answered(DB.name, WEB2, SELF, "acnp:seen/AllowSelf/back"), dropped(CLIENT.name, WEB2.v4, SELF, "acnp:seen/DropOthers")),
    "namespaces: with the same labels": (
        answered(CLIENT.name, WEB2, TEAM, "acnp:seen/AllowTeam/back"), answered(DB.name, WEB2, TEAM, "acnp:seen/AllowTeam/back"),
        dropped(PEER, WEB2.v4, TEAM, "acnp:seen/DropOthers")),
    "to Nodes": (
        dropped(CLIENT.name, world.PEER_NODE, HTTP, "acnp:outgoing/DropToNodes"), Try(CLIENT.name, world.NODE, HTTP, "node"),
        Try(DB.name, world.PEER_NODE, HTTP, "outside")),
    "to Services": (
        dropped(CLIENT.name, SERVICE, HTTP, "acnp:outgoing/DropToService"), dropped(CLIENT.name, world.NODE, SERVICE_PORT, "acnp:outgoing/DropToService"),
        Try(CLIENT.name, OTHER_SERVICE, HTTP, "web2"), answered(CLIENT.name, WEB2, HTTP)),
    "NodePorts of a Service": (
        dropped(OUTSIDE, world.NODE, SERVICE_PORT, "acnp:node-ports/DropOutside"), Try(OUTSIDE, world.LOAD_BALANCER, HTTP, "web2"),
        Try(DB.name, world.NODE, SERVICE_PORT, "web2 or peer")),
}


class RuleScenes(Actions):
    """The scenes. They bring their Pods, and give those that were there back."""

    def __init__(self, scenes):
        super().__init__(scenes.node, OWNERS)
        self.switch, self.manifests = scenes.switch, scenes.manifests
        self.others = ()

    def all(self):
        """As `Scenes.all`."""
        with contextlib.ExitStack() as stack:
            for pod in (WEB2, DB):
                for port in OPEN:
                    traffic.serve(self.space[pod.name], pod.name, port, stack)
            self.others = {rule["policy"] for rule in self.switch.json("antrea", "rules")}
            stack.enter_context(self.manifests.replaced("pods.yaml", MANIFEST.read_text()))
            self._nothing_is_odd()
            for title, tries in TRIES.items():
                yield f"rules: {title}", self.tried(*tries), [], BOTH
            yield "rules: messages of ICMP, by type and code", self.messages, [], BOTH
            yield from self.joining()

    def _nothing_is_odd(self):
        """All of it has effect. (What is said of Pods of the namespace default, which are elsewhere
        now, has none.)"""
        if odd := [one for one in self.manifests.state()["degraded"] if "default/" not in one["object"]]:
            raise Failure(f"without effect: {odd}")

    # Who reaches whom.

    def tried(self, *tries):
        """All of these, one after the other."""

        def run(family):
            return "; ".join(self._try(one, family) for one in tries)

        return run

    def _try(self, one, family):
        """What comes of it, as text. An answer is one session of each rule that lets pass; what is
        dropped is none."""
        before = self._statistics()
        where = f"{one.source} -> {of(one.address, family)} port {one.port}"
        if one.who is None:
            self._unanswered(where, one, family, before)
            told = f"{one.source}: dropped"
        else:
            answer, _ = self._ask(one.source, one.address, one.port, family)
            if answer not in one.who.split(" or "):
                raise Failure(f"{where}: {answer} answers, expected {one.who}")
            self._decided(where, one.rules, before, 1)
            told = f"{one.source}: {one.who} answers"
        by = [rule.partition(":")[2] for rule in one.rules]
        return f"{told} ({', '.join(by)})" if by else told

    def _unanswered(self, where, one, family, before):
        """A SYN that rules have counted, as often as it was sent, and nobody has answered."""
        address = of(one.address, family)
        with traffic.make_socket(self.space[one.source], traffic.family_of(address), socket.SOCK_STREAM) as client:
            client.setblocking(False)
            client.connect_ex((address, one.port))
            self._decided(where, one.rules, before, 0)
            all_of = lambda: all(more["packets"] > traffic.retransmitted(client) for more in self._grown(before).values())  # noqa: E731
            machine.expect(f"{where}: all that was sent is counted", all_of, lambda: self._grown(before))
            if error := client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise Failure(f"{where}: expected silence, got {errno.errorcode[error]}")
            with contextlib.suppress(OSError):  # it is not connected
                raise Failure(f"{where}: expected silence, {client.getpeername()[0]} answers")

    def _decided(self, where, rules, before, sessions):
        """These rules have decided since, and no others; those that let pass have as many sessions
        more."""
        what = f"{where} is decided by {' and '.join(rules) or 'no rule'}, {sessions} sessions"
        grown = lambda: self._grown(before)  # noqa: E731
        machine.expect(what, lambda: self._are_there(rules, sessions, grown()), grown)
        found = grown()
        if set(found) != set(rules) or any(more["sessions"] != (sessions if more["action"] == "allow" else 0) for more in found.values()):
            raise Failure(f"{what}: counted is {found}")

    @staticmethod
    def _are_there(rules, sessions, found):
        return set(rules) <= set(found) and all(found[rule]["action"] != "allow" or found[rule]["sessions"] >= sessions for rule in rules)

    def _grown(self, before):
        """What rules that have decided since have counted. Packets of a connection that a rule has
        allowed are none of its decisions."""
        found = {}
        for name, (action, counts) in self._statistics().items():
            more = {word: count - before[name][1][word] for word, count in counts.items()} | {"action": action}
            if more["sessions"] or more["new_packets"] or action != "allow" and more["packets"]:
                found[name] = more
        return found

    def _statistics(self):
        """(action, counters) of the scenes' rules by POLICY/RULE."""
        rules = [rule for rule in self.switch.json("antrea", "rules") if rule["policy"] not in self.others]
        found = {f"{rule['policy']}/{rule['id']}": (rule["action"], {word: rule["statistics"][word] for word in COUNTED}) for rule in rules}
        flows = self.switch.json("antrea", "flows", f"policy/{ISOLATED}")
        packets = sum(flow["packets"] for flow in flows if flow["table_name"] == "IngressDefaultRule")
        return found | {ISOLATION: ("drop", {"sessions": 0, "new_packets": 0, "packets": packets})}

    # Messages.

    def messages(self, family):
        """Pings by client pass, though a rule above is about their type with another code; requests
        of another type, and db's pings, do not. Who has which address may be asked."""
        before, address = self._statistics(), of(WEB2.v4, family)
        self.node.ip(CLIENT.name, "neighbour", "flush", "dev", self.node.interface(CLIENT), "to", address)
        self.node.ping(CLIENT.name, address)
        self._decided("ping: client -> web2", ["acnp:messages/AllowEcho"], before, 3)
        others = [(DB.name, ECHO[family]), *((CLIENT.name, types[family]) for types in [TIMESTAMP] if family in types)]
        for source, kind in others:
            before = self._statistics()
            self._request(source, address, kind, family)
            self._decided(f"request of type {kind}: {source} -> web2", ["acnp:messages/DropMessages"], before, 0)
        return "; ".join(["client's pings pass", *(f"{source}, type {kind}: dropped" for source, kind in others)])

    def _request(self, source, address, kind, family):
        body = struct.pack("!HH12x", 1, 1)
        # Of ICMPv6 the kernel knows the checksum.
        data = struct.pack("!BBH", kind, 0, checksum(struct.pack("!BBH", kind, 0, 0) + body)) + body
        with traffic.make_socket(self.space[source], ICMP[family][0], socket.SOCK_RAW, ICMP[family][1]) as client:
            client.sendto(data, (address, 0))

    # Labels that change.

    def joining(self):
        """web2 comes to have a label by which a policy applies to it, and db one by which it is a
        group's; then both lose it. A connection lives through that."""
        before = answered(CLIENT.name, WEB2, JOINED), answered(DB.name, WEB2, GROUPED)
        after = dropped(CLIENT.name, WEB2.v4, JOINED, "acnp:joined/DropCallers"), dropped(DB.name, WEB2.v4, GROUPED, GROUP)
        file = self.manifests.directory / "pods.yaml"
        text = file.read_text()
        with contextlib.ExitStack() as stack:
            held = {family: stack.enter_context(traffic.connect(self.space[CLIENT.name], of(WEB2.v4, family), JOINED)) for family in BOTH}
            yield "rules: labels, before they change", self.tried(*before), [], BOTH
            other = text.replace("{app: web2}\n  ann", '{app: web2, guard: "yes"}\n  ann').replace("{app: db}\n  ann", "{app: db, role: caller}\n  ann")
            self._relabel(file, other, True)
            yield "rules: labels, web2 and db have others", self.tried(*after), [], BOTH
            yield "rules: labels, a connection from before", lambda family: self._lives(held[family]), [], BOTH
            self._relabel(file, text, False)
            yield "rules: labels, as before", self.tried(*before), [], BOTH
            yield "rules: labels, a connection from before, still", lambda family: self._lives(held[family]), [], BOTH

    def _relabel(self, file, text, joined):
        """web2's policies and the group of callers follow."""
        write(file, text)

        def seen():
            groups = self.switch.json("antrea", "groups")
            return (["acnp:joined"] == [policy for policy in self._pod("back/web2")["policies"] if policy == "acnp:joined"],
                    any("pod/back/db" in group["members"] for group in groups if "role=caller" in group["name"] and group["kind"] == "address-group"))

        machine.expect(f"labels have {'changed' if joined else 'changed back'}", lambda: seen() == (joined, joined), seen)

    def _pod(self, name):
        return next(pod for pod in self.switch.json("antrea", "pods") if pod["name"] == name)

    @staticmethod
    def _lives(client):
        """It is answered."""
        if not traffic.exchange(client, HELLO):
            raise Failure("no answer")
        return "is answered"
