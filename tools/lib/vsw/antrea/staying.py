"""Who stays where: connections and clients of Services whose Endpoints come, end and leave;
affinity, from outside, too."""

import collections
import contextlib
import select
import socket
import time

from .. import machine
from ..machine import Failure
from . import traffic, world
from .actions import BOTH, HTTP, Actions, of
from .ledger import Rule
from .node import NODE, OUTSIDE, PEER
from .scenes import OWNERS
from .services import ENDS, peer, service, web2
from .world import CLIENT, WEB2

# Cluster IPs, addresses outside, NodePorts: of a Service without affinity, of one with, of one
# whose affinity is brief.
PLAIN, AFFINE, BRIEF = "10.105.31.170", "10.105.31.171", "10.105.31.172"
OUTER_OF = {PLAIN: "192.168.77.156", AFFINE: "192.168.77.157", BRIEF: "192.168.77.158"}
PORT_OF = {PLAIN: 30007, AFFINE: 30008}
LONG_S, BRIEF_S = 10_800, 1  # the first is what Kubernetes takes if none is given
ASKED = 4
ZONES = (65520, 65510)  # of connections of IPv4 and IPv6
KEEP = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"

# Clients outside that nobody has seen before, each with several connections at once.
CLIENTS, AT_ONCE = 16, 4
NEW_CLIENTS = ("192.168.78.0/24", "fd00:192:168:78::/64")
IP_FREEBIND = 15  # linux/in.h; IPv6's sockets know it, too


def _client_ip(seconds):
    return {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}}


def manifests(plain=(web2(),), affine=(web2(),)):
    """The Services, two of them with these Endpoints."""
    return [
        *service(PLAIN, *plain, load_balancer=OUTER_OF[PLAIN], node_port=PORT_OF[PLAIN]),
        *service(AFFINE, *affine, load_balancer=OUTER_OF[AFFINE], node_port=PORT_OF[AFFINE], **_client_ip(LONG_S)),
        *service(BRIEF, web2(), peer(), load_balancer=OUTER_OF[BRIEF], **_client_ip(BRIEF_S)),
    ]


def ways(cluster_ip):
    """(who calls, address, port): by all addresses of a Service."""
    outer, number = OUTER_OF[cluster_ip], PORT_OF[cluster_ip]
    return ((CLIENT.name, cluster_ip, HTTP), (NODE, cluster_ip, HTTP), (CLIENT.name, outer, HTTP), (OUTSIDE, outer, HTTP),
            (CLIENT.name, world.NODE, number), (OUTSIDE, world.NODE, number))


class Staying(Actions):
    """The scenes, on `services` (`services.Services`) that have the manifests above."""

    def __init__(self, kinds, services, stack):
        super().__init__(kinds.node, OWNERS)
        self.switch, self.services, self.stack = kinds.switch, services, stack
        # Of each family and way.
        self.streams, self.sockets, self.later = {}, {}, {}

    def all(self):
        """As `Scenes.all`."""
        count = len(ways(PLAIN))
        rules = [Rule(f"ServiceLB nw_dst={PLAIN}", 4), Rule(f"ServiceLB nw_dst={OUTER_OF[PLAIN]}", 4), Rule(f"ServiceLB tp_dst={PORT_OF[PLAIN]}", 4)]
        learned = [Rule(f"SessionAffinity nw_dst={address}", ASKED - 1) for address in (AFFINE, OUTER_OF[AFFINE], world.NODE, world.VIRTUAL_NODE_PORT)]
        # Its sockets say nothing while other scenes run.
        for zone in ZONES:
            self.switch.vsctl("ct-set-timeouts", f"zone={zone}", f"udp_multiple={LONG_S}")
            self.stack.callback(self.switch.vsctl, "ct-del-timeouts", f"zone={zone}")
        yield f"{count} ways to {PLAIN}, which web2 serves: a connection and a UDP socket each", self.begin, rules, BOTH
        yield f"session affinity: {count} ways to {AFFINE}, which web2 serves", self.affine(WEB2.name, 1), [], BOTH
        self.services.tell(staying=manifests((web2(**ENDS), peer()), (web2(), peer())))
        yield "web2 ends, and peer is there: what web2 has it keeps, what is new is peer's", self.ends, rules, BOTH
        yield f"session affinity: peer is there, too: {2 * ASKED}× web2 each way", self.affine(WEB2.name, ASKED), learned, BOTH
        yield from self.clients()
        self.services.tell(staying=manifests((peer(),), (peer(),)))
        yield "web2 leaves: its UDP sockets find peer, connections of TCP and what peer has stay", self.leaves, rules[:1], BOTH
        yield f"session affinity: web2 leaves: {2 * ASKED}× peer each way, at once", self.affine(PEER, ASKED), learned, BOTH
        for source, address in ((CLIENT.name, BRIEF), (OUTSIDE, OUTER_OF[BRIEF])):
            yield (f"session affinity of {BRIEF_S} s ends, and begins again: {source} -> {address}", self.brief(source, address),
                   [Rule(f"ServiceLB priority=190 nw_dst={address}", 2)], BOTH)

    # Connections.

    def begin(self, family):
        """They stay open, for the others."""
        for way in ways(PLAIN):
            self.streams[family, way] = self._opened(lambda way=way: traffic.connect(self.space[way[0]], of(way[1], family), way[2]), way)
            self.sockets[family, way] = self._socket(way, family)
            self._answer(way, "TCP", self._said(self.streams[family, way], way), WEB2.name)
            self._answer(way, "UDP", self._told(self.sockets[family, way], way), WEB2.name)
        return "web2 answers"

    def ends(self, family):
        """An Endpoint that ends gets nothing new while others are ready."""
        for way in ways(PLAIN):
            self._answer(way, "TCP", self._said(self.streams[family, way], way), WEB2.name)
            self._answer(way, "UDP", self._told(self.sockets[family, way], way), WEB2.name)
            self._new(way, family, PEER)
            self.later[family, way] = self._socket(way, family)
            self._answer(way, "UDP", self._told(self.later[family, way], way), PEER)
        return f"web2 answers what it had, peer {ASKED} new connections and sockets each way"

    def leaves(self, family):
        """Of what it had, TCP ends by itself; UDP is told by nobody."""
        for way in ways(PLAIN):
            self._answer(way, "TCP", self._said(self.streams[family, way], way), WEB2.name)
            self._answer(way, "UDP of web2's", self._told(self.sockets[family, way], way), PEER)
            self._answer(way, "UDP of peer's", self._told(self.later[family, way], way), PEER)
            self._new(way, family, PEER)
        return "web2 answers its connections of TCP, peer everything else"

    def _new(self, way, family, who):
        """New connections, new sockets."""
        source, address, number = way
        for _ in range(ASKED):
            self._answer(way, "TCP", self._ask(source, address, number, family)[0], who)
            self._answer(way, "UDP", self._datagram(way, family), who)

    def _datagram(self, way, family):
        try:
            return traffic.ask_datagram(self.space[way[0]], of(way[1], family), way[2])[0]
        except OSError as error:
            raise Failure(f"UDP, {way[0]} -> {of(way[1], family)} port {way[2]}: {error!r}") from error

    def _opened(self, make, way):
        try:
            return self.stack.enter_context(make())
        except OSError as error:
            raise Failure(f"TCP, {way[0]} -> {way[1]} port {way[2]}: {error!r}") from error

    def _socket(self, way, family):
        client = self.stack.enter_context(traffic.make_socket(self.space[way[0]], traffic.family_of(of(way[1], family)), traffic.DATAGRAM))
        client.settimeout(machine.PATIENCE_S)
        client.connect((of(way[1], family), way[2]))
        return client

    @staticmethod
    def _said(stream, way):
        """Who answers on a connection."""
        try:
            return traffic.exchange(stream, KEEP).decode().partition(" sees ")[0]
        except OSError as error:
            raise Failure(f"TCP, {way[0]} -> {way[1]} port {way[2]}: {error!r}") from error

    @staticmethod
    def _told(client, way, is_asked=False):
        """Who answers a datagram of a socket."""
        try:
            if not is_asked:
                client.send(traffic.WHO)
            return client.recv(65535).decode().partition(" sees ")[0]
        except OSError as error:
            raise Failure(f"UDP, {way[0]} -> {way[1]} port {way[2]}: {error!r}") from error

    @staticmethod
    def _answer(way, what, got, expected):
        if got != expected:
            raise Failure(f"{what}, {way[0]} -> {way[1]} port {way[2]}: {got} answers, expected {expected}")

    # Affinity.

    def affine(self, who, count):
        """Each way, as many connections and as many datagrams."""

        def run(family):
            for way in ways(AFFINE):
                for _ in range(count):
                    self._answer(way, "TCP", self._ask(*way, family)[0], who)
                    self._answer(way, "UDP", self._datagram(way, family), who)
            return f"{who} answers, over TCP and UDP"

        return run

    def clients(self):
        """Those that nobody knows yet."""
        with contextlib.ExitStack() as stack:
            for family, net in zip(BOTH, NEW_CLIENTS):
                for short, *way in ((OUTSIDE, "local", net, "dev", "lo"), (NODE, net, "via", of(world.OUTSIDE, family))):
                    self.node.ip(short, "route", "add", *way)
                    stack.callback(self.node.ip, short, "route", "del", *way)
            outer = OUTER_OF[AFFINE]
            yield (f"session affinity: {CLIENTS} new clients, {AT_ONCE} connections and datagrams of each at once", self.at_once,
                   [Rule(f"ServiceLB priority=190 nw_dst={outer}", 2 * CLIENTS)], BOTH)

    def at_once(self, family):
        """All of a client's reach one Endpoint, and both Endpoints have clients."""
        net = NEW_CLIENTS[BOTH.index(family)].split("/")[0].removesuffix("0" if family == 4 else "")
        spread = {}
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            answers = self._at_once(family, kind, [f"{net}{number}" for number in range(10, 10 + CLIENTS)])
            several = {client: who for client, who in answers.items() if len(who) > 1}
            if several:
                raise Failure(f"connections of one client came to several Endpoints: {several}")
            spread[kind] = collections.Counter(next(iter(who)) for who in answers.values())
        # Of as many clients all choose the same one of two once in 2^15.
        if set().union(*spread.values()) != {WEB2.name, PEER}:
            raise Failure(f"clients are spread like this: {spread}")
        return "; ".join(f"{word}: {dict(sorted(spread[kind].items()))}" for word, kind in (("TCP", socket.SOCK_STREAM), ("UDP", socket.SOCK_DGRAM)))

    def _at_once(self, family, kind, clients):
        """{client: who answered}."""
        target = (of(OUTER_OF[AFFINE], family), HTTP)
        answers = collections.defaultdict(set)
        with contextlib.ExitStack() as stack:
            there = []
            for client in clients:
                own = [stack.enter_context(traffic.make_socket(self.space[OUTSIDE], traffic.family_of(client), kind)) for _ in range(AT_ONCE)]
                for one in own:
                    one.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
                    one.bind((client, 0))
                    one.setblocking(False)
                for one in own:
                    one.connect_ex(target)
                    if kind == socket.SOCK_DGRAM:
                        one.send(traffic.WHO)
                there += [(client, one) for one in own]
            for client, one in there:
                if kind == socket.SOCK_STREAM and not select.select([], [one], [], machine.PATIENCE_S)[1]:
                    raise Failure(f"no answer to {client}")
                one.settimeout(machine.PATIENCE_S)
                way = (client, *target)
                answers[client].add(self._said(one, way) if kind == socket.SOCK_STREAM else self._told(one, way, is_asked=True))
        return answers

    def brief(self, source, address):
        """However often the client comes: counted from the first time, and then anew."""

        def run(family):
            before, began, first = self._chosen(address, family), time.monotonic(), None
            while True:
                who = self._ask(source, address, HTTP, family)[0]
                passed, first = time.monotonic() - began, first or who
                if who != first and passed < BRIEF_S - traffic.LAG_S:
                    raise Failure(f"{first} answers, and after {passed:.2f} s {who}")
                if self._chosen(address, family) >= before + 2:
                    break
                if passed > machine.PATIENCE_S:
                    raise Failure(f"after {passed:.0f} s the client is not chosen for again")
            if passed < BRIEF_S - traffic.LAG_S:
                raise Failure(f"after {passed:.2f} s the client is chosen for again")
            return "one Endpoint meanwhile, then chosen for again"

        return run

    def _chosen(self, address, family):
        """How often an Endpoint was chosen, and remembered."""
        flows = self.switch.json("dump-flows", "--names", "br0", "table=ServiceLB")
        return sum(flow["packets"] for flow in flows if flow["priority"] == 190 and f"dst={of(address, family)}," in flow["match"])
