"""Multicast of Pods: real sockets join by real IGMP, in each of its versions, and others see what
comes."""

import contextlib
import socket
import time

from .. import machine
from ..machine import Failure
from . import traffic, world
from .actions import DENIED_LIMIT
from .answering import Answerer
from .ledger import Rule
from .node import NODE, PEER
from .telling import Stream
from .world import CLIENT, DB, GATEWAY, PODS, WEB2

PORT = 5000
POLICY = "acnp:multicast"

# A kernel that was asked in version 1 speaks no other for minutes: Pods hear no questions until we
# say in which versions they are asked.
DEAF = "table inet deaf { chain input { type filter hook input priority 0; ip protocol igmp drop; }; }"


class Receiver:
    """A socket that has joined a group, from `address`, until it is closed."""

    def __init__(self, space, group, address):
        self.words = socket.inet_aton(group) + socket.inet_aton(address)
        self.socket = traffic.make_socket(space, socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((group, PORT))
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, self.words)

    def hears(self, token, limit=machine.PATIENCE_S):
        """Whether a datagram comes in time."""
        end = time.monotonic() + limit
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            with contextlib.suppress(TimeoutError):
                if self.socket.recv(65535) == token:
                    return True
        return False

    def leave(self):
        """It stays open, and is in no group any more."""
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, self.words)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def send(space, group, address):
    """Sends a datagram to a group out of the interface with an address; returns it."""
    token = f"multicast {time.monotonic_ns()}".encode()
    with traffic.make_socket(space, socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 8)
        sender.sendto(token, (group, PORT))
    return token


def members(switch, group):
    """{Pod: version} of a group, as the switch knows them."""
    found = [state for state in switch.json("antrea", "multicast") if state["address"] == group]
    return {member["pod"].split("/")[1]: member["version"] for state in found for member in state["members"]}


def nodes(switch, group):
    """Other Nodes in a group, as the switch knows them."""
    return [node for state in switch.json("antrea", "multicast") if state["address"] == group for node in state["nodes"]]


@contextlib.contextmanager
def speaking(node, short, interface, version):
    """Meanwhile the kernel there speaks this version of IGMP."""
    setting = f"net.ipv4.conf.{interface}.force_igmp_version"
    node.run(short, "sysctl", "-qw", f"{setting}={version}")
    try:
        yield
    finally:
        node.run(short, "sysctl", "-qw", f"{setting}=0")


def deafen(node, pods):
    """See DEAF."""
    for pod in pods:
        node.run(pod.name, "nft", DEAF)


def undeafen(node, pods):
    """They hear again."""
    for pod in pods:
        node.run(pod.name, "nft", "delete", "table", "inet", "deaf")


def counted(sent):
    """Rules that count what client has sent, and at least one that db got."""
    return [Rule(f"MulticastIngressPodMetric reg1={DB.number:#x}"), Rule(f"MulticastEgressPodMetric nw_src={CLIENT.v4}", sent)]


class Multicast:
    """Scenes on a Node by itself; its "tunnel" leads to the peer as plain Ethernet."""

    def __init__(self, node, switch, manifests):
        self.node, self.space, self.switch, self.manifests = node, node.names, switch, manifests

    def all(self):
        """As `Scenes.all`."""
        self.switch.vsctl("antrea", "set-multicast", "--versions", "3")
        undeafen(self.node, PODS)
        for version in (3, 2):
            yield self.joining(version)
        yield ("multicast: from outside, and for outside, by the gateway", self.outside, [Rule("MulticastRouting nw_dst=239.1.1.4"), Rule("MulticastRouting priority=190")], (4,))
        yield ("multicast: from a Pod of the peer; it is told who joined", self.peer, [Rule("Classifier priority=210 nw_dst=224.0.0.0/4"), Rule("MulticastRouting nw_dst=239.1.1.5")], (4,))
        yield ("multicast: a policy lets web2 join no 239.9.9.9", self.may_not_join, [], (4,))
        yield ("multicast: a policy lets client send nothing to 239.8.8.8", self.may_not_send, [Rule("MulticastEgressMetric reg0=0x400/0x400")], (4,))
        with self.manifests.edited("nodes.yaml", "\nspec:\n  bridge: br0\n", "\nspec:\n  bridge: br0\n  takenOver: [IGMP]\n"):
            yield "multicast: the agent reads IGMP, and says who is in a group", self.by_agent, counted(3), (4,)
        yield "multicast: the switch reads IGMP again", self.by_agent_no_more, counted(1), (4,)
        yield self.joining(1)

    def joining(self, version):
        """A scene: somebody joins and leaves."""
        return f"multicast, IGMPv{version}: client -> db, which joins and leaves", self.joins(version), counted(3), (4,)

    def joined(self, group, pods):
        """Waits until these are the Pods in a group."""
        has = lambda: members(self.switch, group)  # noqa: E731
        machine.expect(f"{group} has {pods or 'no Pods'}", lambda: has() == pods, has)

    def has_joined(self, group):
        """Waits until db is in a group."""
        has = lambda: members(self.switch, group)  # noqa: E731
        machine.expect(f"db has joined {group}", lambda: DB.name in has(), has)

    @staticmethod
    def told(events, group, joined):
        """That db has joined, or left, was told."""
        means = lambda line: line.get("group") == group and line["joined"] == joined  # noqa: E731
        told = events.wait("joined" if joined else "left", means)[0]
        if (told["pod"], told["node"]) != ("default/db", None):
            raise Failure(f"told: {told}")

    @contextlib.contextmanager
    def asking(self, *words):
        """Meanwhile memberships are kept so."""
        self.switch.vsctl("antrea", "set-multicast", *words)
        try:
            yield
        finally:
            self.switch.vsctl("antrea", "set-multicast", "--versions", "3")

    def receiver(self, pod, group):
        """One in a Pod."""
        return Receiver(self.space[pod.name], group, pod.v4)

    def joins(self, version):
        """Only who has joined gets it, from then on until it has left (IGMPv1: until it has been
        silent for long enough)."""

        def run(_family):
            group = f"239.1.1.{version}"
            # Three rounds without a report end a membership, that of version 1 only so: it is
            # waited for.
            interval, versions = ("2", "1") if version == 1 else ("5", "3")
            with contextlib.ExitStack() as stack:
                stack.enter_context(self.asking("--interval", interval, "--versions", versions))
                stack.enter_context(speaking(self.node, DB.name, self.node.interface(DB), version))
                events = Stream(self.switch, stack, "events", "--kind", "membership-changed")
                wire, other = (stack.enter_context(traffic.Listener(self.space[pod.name], self.node.interface(pod))) for pod in (DB, WEB2))
                before = send(self.space[CLIENT.name], group, CLIENT.v4)
                receiver = stack.enter_context(self.receiver(DB, group))
                self.joined(group, {DB.name: version})
                if not receiver.hears(send(self.space[CLIENT.name], group, CLIENT.v4)):
                    raise Failure("db has joined, and gets nothing")
                self.told(events, group, True)
                receiver.leave()
                began = time.monotonic()
                self.joined(group, {})
                took = time.monotonic() - began
                self.told(events, group, False)
                after = send(self.space[CLIENT.name], group, CLIENT.v4)
                # What comes after it has come.
                for pod in (DB, WEB2):
                    self.node.ping(CLIENT.name, pod.v4)
                seen, others = traffic.gather({pod: listener for pod, listener in ((DB, wire), (WEB2, other))}).values()
            for what, sent in (("before it joined", before), ("after it left", after)):
                if any(sent in frame for frame in seen):
                    raise Failure(f"db was sent what came {what}")
            if any(b"multicast " in frame for frame in others):
                raise Failure("web2 has joined nothing, and got it")
            return f"db gets it, web2 not; gone {took:.1f} s after {'its last report' if version == 1 else 'its leave'}"

        return run

    def outside(self, _family):
        """The host sends to a group that db is in, and sees what goes to one that nobody is in."""
        with self.receiver(DB, "239.1.1.4") as receiver, traffic.Listener(self.space[NODE], GATEWAY) as host:
            self.has_joined("239.1.1.4")
            if not receiver.hears(send(self.space[NODE], "239.1.1.4", world.GATEWAY_IP)):
                raise Failure("db does not get what the host sends")
            out = [send(self.space[CLIENT.name], group, CLIENT.v4) for group in ("239.1.1.4", "239.1.1.40")]
            unseen = lambda frames: [token for token in out if not any(token in frame for frame in frames)]  # noqa: E731
            missing = unseen(host.frames(lambda frames: not unseen(frames)))
        if missing:
            raise Failure(f"the host does not see {missing} of {out}")
        return "db hears the host; the host hears client, joined or not"

    def peer(self, _family):
        """The peer's Pods are behind the tunnel's port: they are heard, and told by a report of
        version 3."""
        group = "239.1.1.5"
        with traffic.Listener(self.space[PEER], "eth0") as tunnel, self.receiver(DB, group) as receiver:
            self.has_joined(group)
            token = send(self.space[PEER], group, world.REMOTE)
            if not receiver.hears(token):
                raise Failure("db does not get what the peer's Pod sends")
            reports = lambda frames: [one for one in frames if one[23] == 2 and one[38] == 0x22 and socket.inet_aton(group) in one[38:]]  # noqa: E731
            frames = tunnel.frames(reports)
        if not reports(frames):
            raise Failure(f"no report of {group} among {len(frames)} frames")
        if any(token in frame for frame in frames):
            raise Failure("what the peer sent came back to it")
        return "db hears it; the peer is told of db's group"

    def may_not_join(self, _family):
        """Its join is not believed; another group is."""

        def hits():
            return {rule["id"]: rule["statistics"]["packets"] for rule in self.switch.json("antrea", "rules", "--policy", POLICY)}
        before = hits()
        with self.receiver(WEB2, "239.9.9.9") as denied, self.receiver(WEB2, "239.1.1.6") as receiver:
            self.joined("239.1.1.6", {WEB2.name: 3})
            if members(self.switch, "239.9.9.9"):
                raise Failure("web2 is in 239.9.9.9")
            token = send(self.space[CLIENT.name], "239.9.9.9", CLIENT.v4)
            if not receiver.hears(send(self.space[CLIENT.name], "239.1.1.6", CLIENT.v4)):
                raise Failure("web2 does not get what it may")
            if denied.hears(token, DENIED_LIMIT):
                raise Failure("web2 got it")
        machine.expect(f"a rule of {POLICY} has counted", lambda: any(count > before.get(rule, 0) for rule, count in hits().items()), hits)
        return "web2 gets nothing of it, and what it may"

    def may_not_send(self, _family):
        """db has joined, and gets nothing from client, and what web2 sends."""
        group = "239.8.8.8"
        with self.receiver(DB, group) as receiver:
            self.has_joined(group)
            if receiver.hears(send(self.space[CLIENT.name], group, CLIENT.v4), DENIED_LIMIT):
                raise Failure("db got it")
            if not receiver.hears(send(self.space[WEB2.name], group, WEB2.v4)):
                raise Failure("db does not get what web2 sends")
        return "db hears web2, not client"

    def by_agent(self, _family):
        """A report is the agent's: who has sent one gets nothing before the agent declares that it
        is in the group, and as long as it says so."""
        group, out = "239.1.1.7", []

        def sends():
            """And what comes after it has come."""
            out.append(send(self.space[CLIENT.name], group, CLIENT.v4))
            self.node.ping(CLIENT.name, DB.v4)
            return out[-1]

        with (Answerer(self.switch, "IGMP", "drop") as agent, self.receiver(DB, group) as receiver,
              traffic.Listener(self.space[DB.name], self.node.interface(DB)) as wire):
            machine.expect("the agent is told", lambda: any(_reports(event, group) for event in agent.told), lambda: agent.told)
            agent.check(1)
            if there := members(self.switch, group) or self._said(group):
                raise Failure(f"the switch has read it: {there}")
            sends()
            self._say(group, "--pod", "default/db")
            if not receiver.hears(sends()):
                raise Failure("the agent declares that db is in the group, and db gets nothing")
            self._say(group)
            sends()
            frames = wire.frames()
        if seen := [number for number in (0, 2) if any(out[number] in frame for frame in frames)]:
            raise Failure(f"db was sent what came {['before', '', 'after'][seen[0]]} it was in the group")
        return "the agent is told of db's report; db gets what it says, no sooner and no longer"

    def _say(self, group, *members_):
        """As the agent: who is in a group. Nobody: there is none."""
        self.switch.vsctl("antrea", "set-multicast-group", group, *members_)
        if bool(members_) != bool(said := self._said(group)):
            raise Failure(f"said is {members_}, there is {said}")

    def _said(self, group):
        """Pods that are in a group because the agent declares so."""
        return [pod for state in self.switch.json("antrea", "multicast") if state["address"] == group for pod in state["pods"]]

    def by_agent_no_more(self, _family):
        """The switch asks who is there, and takes nobody's word any more."""
        group = "239.1.1.7"
        with self.receiver(DB, group) as receiver:
            self.has_joined(group)
            if not receiver.hears(send(self.space[CLIENT.name], group, CLIENT.v4)):
                raise Failure("db has joined, and gets nothing")
        try:
            self.switch.vsctl("antrea", "set-multicast-group", group, "--pod", "default/web2")
        except Failure as error:
            if "take IGMP over" not in str(error):
                raise
            return "db joins, and hears it; a group cannot be said"
        raise Failure("a group was said")


def _reports(event, group):
    """Whether a packet that was told is db's, about a group."""
    return event["in_port"] == DB.port and socket.inet_aton(group) in bytes.fromhex(event["packet"])
