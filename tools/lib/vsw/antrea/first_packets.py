"""Packets before a Service's first answer: they go where the first one went, and when that answers,
its answers come back as the Service's."""

import contextlib
import dataclasses
import itertools
import select
import socket
import struct
import time

from .. import machine
from ..machine import Failure
from . import packets, traffic, world
from .actions import HTTP, Actions, of
from .node import NODE, PEER
from .world import WEB2

PACKETS = 3
SILENCE = "table inet unheard { chain input { type filter hook input priority 0; tcp dport 80 drop; }; }"
IPV6_CHECKSUM, AT = 7, 16  # linux/in6.h; where TCP has it
FIRST_PORT = 21000  # of the segments' sources: kernels take others by themselves


@dataclasses.dataclass(frozen=True)
class Case:
    """Somebody calls a Service; who may answer."""

    title: str
    source: str
    address: str
    port: int
    who: tuple


class Segments:
    """A raw socket that sends SYNs from a port of its own to an address, as IPv4 and IPv6 have
    it."""

    def __init__(self, space, address, ports, sequence):
        self.family, self.ports, self.sequence = traffic.family_of(address), ports, sequence
        self.socket = traffic.make_socket(space, self.family, socket.SOCK_RAW, socket.IPPROTO_TCP)
        if self.family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, IPV6_CHECKSUM, AT)
        self.socket.connect((address, 0))  # hears nothing of others
        self.ends = (self.socket.getsockname()[0], address)

    def send(self):
        """The same SYN each time."""
        self.socket.send(packets.segment(self.ends, self.ports, self.sequence))

    def is_answered(self):
        """Waits for the SYN/ACK; False: something else came."""
        deadline = time.monotonic() + machine.PATIENCE_S
        while select.select([self.socket], [], [], max(0, deadline - time.monotonic()))[0]:
            data = self.socket.recv(65535)
            tcp = packets.parsed(data, of_ethernet=False)[3] if self.family == socket.AF_INET else data
            source, target, _, acknowledged, _, flags = struct.unpack("!HHIIBB", tcp[:14])
            if (target, source) == self.ports:
                return flags == packets.SYN_ACK and acknowledged == self.sequence + 1
        raise TimeoutError("no SYN/ACK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


class FirstPackets(Actions):
    """Makes actions of cases, all of them one after the other. Endpoints are web2, peer and the
    Node."""

    def __init__(self, node, owners):
        super().__init__(node, owners)
        self.places = {WEB2.name: node.interface(WEB2), PEER: "eth0", NODE: world.GATEWAY}
        self.addresses = {WEB2.name: WEB2.v4, PEER: world.REMOTE, NODE: world.NODE}

    def datagrams(self, cases):
        """Of one socket: an Endpoint answers them when it has all."""

        def run(family):
            with contextlib.ExitStack() as stack:
                ends = {self._end(short, family, stack): short for short in self.addresses}
                for case in cases:
                    try:
                        self._datagrams(case, family, ends)
                    except OSError as error:
                        raise Failure(f"{case.title}: {error!r}") from error
            return f"{PACKETS} at one Endpoint each, which answers all"

        return run

    def _end(self, short, family, stack):
        """A socket that gets what is for an Endpoint: kernels prefer it to those of any address."""
        address = of(self.addresses[short], family)
        end = stack.enter_context(traffic.make_socket(self.space[short], traffic.family_of(address), traffic.DATAGRAM))
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.bind((address, HTTP))
        return end

    def _datagrams(self, case, family, ends):
        address, token = of(case.address, family), f"first {time.monotonic_ns()}".encode()
        with traffic.unheard_of(self.space[case.source], address, case.port) as client:
            for _ in range(PACKETS):
                client.send(token)
            arrived, deadline = [], time.monotonic() + machine.PATIENCE_S
            while len(arrived) < PACKETS:
                ready = select.select(list(ends), [], [], max(0, deadline - time.monotonic()))[0]
                if not ready:
                    raise Failure(f"{case.title}: of {PACKETS} datagrams arrived {[ends[end] for end, _ in arrived]}")
                arrived += [(end, sender) for end in ready for data, sender in [end.recvfrom(65535)] if data == token]
            if len(set(arrived)) != 1 or (who := ends[arrived[0][0]]) not in case.who:
                raise Failure(f"{case.title}: the datagrams came to {[ends[end] for end, _ in arrived]}, expected one of {case.who}")
            for number, (end, sender) in enumerate(arrived):
                end.sendto(f"{who} {number}".encode(), sender)
            answers = sorted(client.recv(65535).decode() for _ in arrived)
        if answers != [f"{who} {number}" for number in range(PACKETS)]:
            raise Failure(f"{case.title}: answers are {answers}")

    def segments(self, cases):
        """The same SYN: an Endpoint answers the last one."""

        def run(family):
            with contextlib.ExitStack() as stack:
                listeners = {short: stack.enter_context(traffic.Listener(self.space[short], interface)) for short, interface in self.places.items()}
                base = time.monotonic_ns() & 0x7FFFFFFF
                clients = {case: stack.enter_context(Segments(self.space[case.source], of(case.address, family), (FIRST_PORT + number, case.port), base + number))
                           for number, case in enumerate(cases)}
                with self._silence():
                    for client in clients.values():
                        for _ in range(PACKETS - 1):
                            client.send()
                    before = self._arrived(listeners, clients, PACKETS - 1)
                self._at_one(before)
                for client in clients.values():
                    client.send()
                for case, client in clients.items():
                    self._answered(case, client)
                after = self._arrived(listeners, clients, 1)
            self._at_one({case: before[case] + after[case] for case in cases})
            return f"{PACKETS} at one Endpoint each, which answers the last one"

        return run

    @contextlib.contextmanager
    def _silence(self):
        """Endpoints do not hear what comes to port 80, meanwhile."""
        with contextlib.ExitStack() as stack:
            for short in self.places:
                self.node.run(short, "nft", SILENCE)
                stack.callback(self.node.run, short, "nft", "delete", "table", "inet", "unheard")
            yield

    @staticmethod
    def _arrived(listeners, clients, count):
        """{case: where its SYNs came}, when there are `count` at least of each."""
        cases = {client.sequence: case for case, client in clients.items()}

        def found(frames):
            places = {case: [] for case in clients}
            for short, frame in itertools.chain.from_iterable(([(short, one) for one in some]) for short, some in frames.items()):
                ip = packets.parsed(frame)
                if ip and ip[2] == socket.IPPROTO_TCP and ip[3][13] == packets.SYN and (case := cases.get(struct.unpack("!I", ip[3][4:8])[0])):
                    places[case].append(short)
            return places

        return found(traffic.gather(listeners, lambda frames: all(len(some) >= count for some in found(frames).values())))

    @staticmethod
    def _at_one(arrived):
        """Failure if SYNs of a case came to none, to several, or to another Endpoint than may
        answer."""
        for case, places in arrived.items():
            if len(set(places)) != 1 or places[0] not in case.who:
                raise Failure(f"{case.title}: SYNs came to {places}, expected one of {case.who}")

    @staticmethod
    def _answered(case, client):
        try:
            if client.is_answered():
                return
        except OSError as error:
            raise Failure(f"{case.title}: the SYN that came again is not answered: {error}") from error
        raise Failure(f"{case.title}: the SYN that came again is answered by something else than its SYN/ACK")
