"""Services of SCTP: associations packet by packet, since kernels of test machines need not speak
it. The switch translates ports, and so the CRC-32C."""

import contextlib
import itertools
import os
import select
import socket
import struct
import time

from .. import machine
from ..machine import Failure
from . import packets, traffic
from .actions import BOTH, Actions, of
from .ledger import Rule
from .node import OUTSIDE, PEER
from .services import peer, port, service, web2
from .world import CLIENT, WEB2

# Cluster IPs and addresses outside of Services whose one Endpoint is web2, and peer.
HERE, THERE = "10.105.31.173", "10.105.31.174"
OUTER_OF = {HERE: "192.168.77.159", THERE: "192.168.77.160"}
PORT, TARGET, FIRST_PORT = 3868, 5868, 22000
# Types of chunks (RFC 9260).
INIT, INIT_ACK, COOKIE_ECHO, COOKIE_ACK = 1, 2, 10, 11
OFFER = struct.pack("!IHHI", 65536, 1, 1, 1)  # window, streams, first number
COOKIE = struct.pack("!HH", 7, 12) + b"biscuits"

_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ 0x82F63B78 * (_byte & 1)
    _TABLE.append(_byte)


def crc32c(data):
    """As SCTP has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def packet(ports, tag, kind, body=b""):
    """One of one chunk; `ports`: (source, target)."""
    rest = struct.pack("!BBH", kind, 0, 4 + len(body)) + body
    head = struct.pack("!HHI", *ports, tag)
    return head + struct.pack("<I", crc32c(head + bytes(4) + rest)) + rest


def manifests():
    """The Services."""
    for address, endpoint in ((HERE, web2()), (THERE, peer())):
        yield from service(address, endpoint, load_balancer=OUTER_OF[address], ports=[port("SCTP", PORT, TARGET)])


class End:
    """A raw socket of a namespace that hears SCTP for one of its ports."""

    def __init__(self, space, family, number):
        self.family, self.number = socket.AF_INET if family == 4 else socket.AF_INET6, number
        self.socket = traffic.make_socket(space, self.family, socket.SOCK_RAW, packets.SCTP)

    def send(self, address, data):
        """Sends a packet."""
        self.socket.sendto(data, (address, 0))

    def receive(self, kind):
        """(sender's address, its port, tag, what follows the chunk's head) of the next packet;
        Failure if its chunk or CRC is another one."""
        deadline = time.monotonic() + machine.PATIENCE_S
        while select.select([self.socket], [], [], max(0, deadline - time.monotonic()))[0]:
            data, (sender, *_) = self.socket.recvfrom(65535)
            if self.family == socket.AF_INET:
                data = packets.parsed(data, of_ethernet=False)[3]
            source, target, tag, crc = struct.unpack("!HHI", data[:8]) + struct.unpack("<I", data[8:12])
            if target != self.number:
                continue
            if data[12] != kind or crc != (right := crc32c(data[:8] + bytes(4) + data[12:])):
                raise Failure(f"from {sender} port {source}: chunk {data[12]}, expected {kind}; CRC {crc:#x}, of these bytes {right:#x}")
            return sender, source, tag, data[16:]
        raise Failure(f"no chunk {kind} arrives for port {self.number}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


class Sctp(Actions):
    """The scenes; `Kinds` brings their Services."""

    def __init__(self, node, owners):
        super().__init__(node, owners)
        self.numbers = itertools.count(FIRST_PORT)

    def all(self):
        """As `Scenes.all`."""
        for source, where, who, sees in ((CLIENT.name, HERE, WEB2, "client"), (CLIENT.name, THERE, None, "client"), (OUTSIDE, OUTER_OF[HERE], WEB2, "outside"),
                                         (OUTSIDE, OUTER_OF[THERE], None, "gateway")):
            name = who.name if who else PEER
            yield (f"SCTP: {source} -> {where}", self.association(source, where, name, sees),
                   [Rule(f"ServiceLB reg4=0x10000/0x70000 nw_dst={where}"), Rule(f"ServiceLB reg4=0x40000/0x70000 nw_dst={where}")], BOTH)
        yield (f"SCTP: client -> {HERE}, with a wrong CRC", self.wrong, [Rule("ConntrackState ct_state=+inv+trk")], BOTH)

    def association(self, source, where, who, sees):
        """INIT twice, both at the Endpoint before it answers; its answers come back as the
        Service's."""

        def run(family):
            address, own = of(where, family), int.from_bytes(os.urandom(3))
            with self._ends(source, who, family) as (client, server):
                for _ in range(2):
                    client.send(address, packet((client.number, PORT), 0, INIT, struct.pack("!I", own) + OFFER))
                first, again = server.receive(INIT), server.receive(INIT)
                sender, number, _, body = first
                if first != again or self.owners.get(sender) != sees or body != struct.pack("!I", own) + OFFER:
                    raise Failure(f"{who} got {first}, then {again}")
                server.send(sender, packet((TARGET, number), own, INIT_ACK, struct.pack("!I", own + 1) + OFFER + COOKIE))
                self._same_ends(client.receive(INIT_ACK), (address, PORT, own))
                client.send(address, packet((client.number, PORT), own + 1, COOKIE_ECHO, COOKIE[4:]))
                self._same_ends(server.receive(COOKIE_ECHO), (sender, number, own + 1))
                server.send(sender, packet((TARGET, number), own, COOKIE_ACK))
                self._same_ends(client.receive(COOKIE_ACK), (address, PORT, own))
            return f"{who} answers, sees {sees}; ports and CRC-32C are translated both ways"

        return run

    def wrong(self, family):
        """It does not arrive: what is sent after it does."""
        address = of(HERE, family)
        with self._ends(CLIENT.name, WEB2.name, family) as (client, server):
            data = packet((client.number, PORT), 0, INIT, struct.pack("!I", 1) + OFFER)
            client.send(address, data[:8] + bytes([data[8] ^ 1]) + data[9:])
            client.send(address, packet((client.number, PORT), 0, INIT, struct.pack("!I", 2) + OFFER))
            if (body := server.receive(INIT)[3]) != struct.pack("!I", 2) + OFFER:
                raise Failure(f"web2 got {body.hex()}")
        return "dropped; the next one arrives"

    @contextlib.contextmanager
    def _ends(self, source, who, family):
        """The client's, with a port of its own, and the server's."""
        with End(self.space[source], family, next(self.numbers)) as client, End(self.space[who], family, TARGET) as server:
            yield client, server

    @staticmethod
    def _same_ends(got, expected):
        if got[:3] != expected:
            raise Failure(f"a packet came from {got[0]} port {got[1]} with tag {got[2]:#x}; expected {expected}")
