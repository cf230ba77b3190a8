"""A little DNS server, and what a Pod's resolver does."""

import contextlib
import ipaddress
import socket
import struct
import threading
import time

from ..machine import PATIENCE_S
from . import traffic

PORT = 53
A, CNAME, AAAA = 1, 5, 28
KINDS = {4: A, 6: AAAA}


def _wire(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def question(name, kind, number):
    return struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + _wire(name) + struct.pack("!2H", kind, 1)


def _name(message, at):
    """The name at a place, and where it ends."""
    labels, end = [], None
    while (length := message[at]) != 0:
        if length >= 0xC0:
            end = end or at + 2
            at = (length & 0x3F) << 8 | message[at + 1]
            continue
        labels.append(message[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return ".".join(labels), end or at + 1


def addresses(message):
    """Addresses of an answer."""
    count = struct.unpack_from("!H", message, 6)[0]
    at, found = _name(message, 12)[1] + 4, []
    for _ in range(count):
        at = _name(message, at)[1]
        kind, _, _, length = struct.unpack_from("!2HIH", message, at)
        at += 10
        if kind in (A, AAAA):
            found.append(str(ipaddress.ip_address(message[at : at + length])))
        at += length
    return found


def answer(zone, asked):
    """The answer to a question. `zone`: {name: (TTL, target)}; a target is the pair of addresses of
    IPv4 and IPv6, or the name that it stands for."""
    name, end = _name(asked, 12)
    kind = struct.unpack_from("!H", asked, end)[0]
    records, owner = [], b"\xc0\x0c"
    ttl, target = zone.get(name.lower(), (0, None))
    while isinstance(target, str):
        records.append(owner + struct.pack("!2HIH", CNAME, 1, ttl, len(_wire(target))) + _wire(target))
        owner = _wire(target)
        ttl, target = zone.get(target, (0, None))
    for address in target or ():
        data = ipaddress.ip_address(address).packed
        if kind == (A if len(data) == 4 else AAAA):
            records.append(owner + struct.pack("!2HIH", kind, 1, ttl, len(data)) + data)
    head = asked[:2] + struct.pack("!5H", 0x8180 if target else 0x8183, 1, len(records), 0, 0)
    return head + asked[12 : end + 4] + b"".join(records)


class Server:
    """Answers questions in a namespace, over UDP and TCP, by a zone (see `answer`), until `stack`
    ends."""

    def __init__(self, name, zone, stack):
        self.zone = zone
        self.ended = threading.Event()
        datagrams = self._socket(name, socket.SOCK_DGRAM)
        listener = self._socket(name, socket.SOCK_STREAM)
        listener.listen(8)
        threads = [threading.Thread(target=run, args=(one,), daemon=True)
                   for run, one in ((self._datagrams, datagrams), (self._segments, listener))]
        for thread in threads:
            thread.start()
        stack.callback(datagrams.close)
        stack.callback(listener.close)
        for thread in threads:
            stack.callback(thread.join)
        stack.callback(self.ended.set)

    @staticmethod
    def _socket(name, kind):
        server = traffic.make_socket(name, socket.AF_INET6, kind)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("::", PORT))
        server.settimeout(0.1)
        return server

    def _datagrams(self, server):
        while not self.ended.is_set():
            with contextlib.suppress(OSError):
                asked, sender = server.recvfrom(65535)
                server.sendto(answer(self.zone, asked), sender)

    def _segments(self, listener):
        while not self.ended.is_set():
            with contextlib.suppress(OSError):
                client, _ = listener.accept()
                with client:
                    client.settimeout(PATIENCE_S)
                    told = answer(self.zone, client.recv(65535)[2:])
                    client.sendall(struct.pack("!H", len(told)) + told)


def resolve(name, server, asked, family, by_tcp=False):
    """Addresses that a server tells somebody in a namespace. Whoever gets no answer in a second
    asks again, as resolvers do."""
    wanted = question(asked, KINDS[family], 7)
    if by_tcp:
        with traffic.connect(name, server, PORT) as client:
            client.sendall(struct.pack("!H", len(wanted)) + wanted)
            return addresses(client.recv(65535)[2:])
    with traffic.make_socket(name, traffic.family_of(server), socket.SOCK_DGRAM) as client:
        client.settimeout(1.0)
        client.connect((server, PORT))
        deadline = time.monotonic() + PATIENCE_S
        while True:
            client.send(wanted)
            try:
                return addresses(client.recv(65535))
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise


def storm(name, server, names, family, window=64):
    """Asks for all names, `window` of them at a time, and again for what is not answered in a
    second; returns (answers, asked again, seconds)."""
    with traffic.make_socket(name, traffic.family_of(server), socket.SOCK_DGRAM) as client:
        client.settimeout(1.0)
        client.connect((server, PORT))
        questions = {number: question(asked, KINDS[family], number) for number, asked in enumerate(names)}
        unasked, open_, again = iter(list(questions.items())), {}, 0
        begin = time.monotonic()
        while len(questions) > 0 and time.monotonic() - begin < PATIENCE_S:
            while len(open_) < window and (one := next(unasked, None)):
                open_[one[0]] = one[1]
                client.send(one[1])
            try:
                number = struct.unpack_from("!H", client.recv(65535))[0]
            except TimeoutError:
                again += len(open_)
                for wanted in open_.values():
                    client.send(wanted)
                continue
            if open_.pop(number, None):
                del questions[number]
        return len(names) - len(questions), again, time.monotonic() - begin
