"""A program in a Pod while something is restarted.

It answers each line of its input with what it has counted, as JSON.

- `serve PORT` sends back what it gets.
- `talk PORT CONNECTIONS OWN ADDRESS...` has connections to each address, from ports from OWN up.
  Each sends a number at a time, which must come back. It counts what was lost, how many got an
  answer, and the longest wait.
- `knock PORT ADDRESS...` sends what must not arrive: SYNs, datagrams, TCP segments of connections
  that never were. It counts how many left.
- `watch ADDRESS...` counts packets that came in from these, and from all addresses.
"""

import contextlib
import json
import selectors
import socket
import struct
import sys
import threading
import time

PERIOD_S = 0.02
# Without an answer a connection is lost; TCP waits as long again as a restart took before it tries
PATIENCE_S = 180.0
ALL_FRAMES, OUTGOING = 3, 4  # linux/if_ether.h, linux/if_packet.h
ND = range(133, 138)  # types of ICMPv6 that no policy is about


def family(address):
    """Of a socket to it."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Serve:
    """An echo server."""

    def __init__(self, port):
        self.listener = socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True, backlog=256)
        self.clients = 0

    def run(self):
        """For ever."""
        selector = selectors.DefaultSelector()
        selector.register(self.listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is self.listener:
                    selector.register(self.listener.accept()[0], selectors.EVENT_READ)
                    self.clients += 1
                    continue
                try:
                    data = key.fileobj.recv(65536)
                    key.fileobj.sendall(data)
                except OSError:
                    data = b""
                if not data:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()

    def report(self):
        """Connections that there were."""
        return {"clients": self.clients}


class Talk:
    """Clients of an echo server."""

    def __init__(self, port, connections, own, *addresses):
        targets = [(address, int(port)) for address in addresses for _ in range(int(connections))]
        self.targets = [(*target, number) for number, target in enumerate(targets, int(own))]
        self.lock = threading.Lock()
        self.messages, self.lost, self.longest, self.alive = 0, [], 0.0, 0
        self.answered = set()

    def run(self):
        """Until all are lost."""
        threads = [threading.Thread(target=self._talk, args=target, daemon=True) for target in self.targets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _talk(self, address, port, own):
        counted = False
        try:
            with socket.create_connection((address, port), PATIENCE_S, ("", own)) as connection:
                with self.lock:
                    self.alive, counted = self.alive + 1, True
                self._numbers(connection)
        except (OSError, ValueError) as error:
            with self.lock:
                self.alive -= counted
                self.lost.append(f"{address}:{port}: {error}")

    def _numbers(self, connection):
        number = 0
        while True:
            start = time.monotonic()
            connection.sendall(struct.pack("!Q", number))
            answer = b""
            while len(answer) < 8:
                part = connection.recv(8 - len(answer))
                if not part:
                    raise ValueError("the other end closed it")
                answer += part
            if struct.unpack("!Q", answer)[0] != number:
                raise ValueError(f"{answer.hex()} came back for {number}")
            with self.lock:
                self.messages, self.longest = self.messages + 1, max(self.longest, time.monotonic() - start)
                self.answered.add(connection)
            number += 1
            time.sleep(PERIOD_S)

    def report(self):
        """Since the last report."""
        with self.lock:
            told = {"alive": self.alive, "lost": self.lost[:], "messages": self.messages, "answered": len(self.answered), "longest_s": self.longest}
            self.messages, self.longest, self.answered = 0, 0.0, set()
            return told


class Knock:
    """Packets that must not arrive."""

    def __init__(self, port, *addresses):
        self.port, self.addresses, self.sent = int(port), addresses, 0

    def run(self):
        """For ever."""
        raw = {kind: socket.socket(kind, socket.SOCK_RAW, socket.IPPROTO_TCP) for kind in (socket.AF_INET, socket.AF_INET6)}
        # IPV6_CHECKSUM: the kernel fills it in
        raw[socket.AF_INET6].setsockopt(socket.IPPROTO_IPV6, 7, 16)
        number = 0
        while True:
            for address in self.addresses:
                number += 1
                with contextlib.suppress(OSError):
                    self._knock(raw[family(address)], address, number)
            time.sleep(PERIOD_S / 4)

    def _knock(self, raw, address, number):
        with socket.socket(family(address), socket.SOCK_DGRAM) as datagram:
            datagram.sendto(b"knock", (address, self.port if number % 2 else 53))
        with socket.socket(family(address), socket.SOCK_STREAM) as stream:
            stream.setblocking(False)
            stream.connect_ex((address, self.port if number % 3 else 443))  # a SYN; closed at once
        segment = struct.pack("!HHIIBBHHH", 20000 + number % 40000, self.port, number, 1, 0x50, 0x18, 65535, 0, 0) + b"data"
        if family(address) == socket.AF_INET:
            segment = segment[:16] + struct.pack("!H", self._checksum(address, segment)) + segment[18:]
        raw.sendto(segment, (address, 0))
        self.sent += 3

    @staticmethod
    def _checksum(address, segment):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            source = probe.getsockname()[0]
        pseudo = socket.inet_aton(source) + socket.inet_aton(address) + struct.pack("!BBH", 0, socket.IPPROTO_TCP, len(segment))
        total = sum(struct.unpack(f"!{len(pseudo + segment) // 2}H", pseudo + segment))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return ~total & 0xFFFF

    def report(self):
        """Since the last report."""
        sent, self.sent = self.sent, 0
        return {"sent": sent}


class Watch:
    """Packets that come in."""

    def __init__(self, *addresses):
        self.addresses = {socket.inet_pton(family(address), address) for address in addresses}
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_FRAMES))
        self.denied, self.all, self.first = 0, 0, ""

    def run(self):
        """For ever."""
        while True:
            frame, (_, _, kind, _, _) = self.socket.recvfrom(65536)
            source = self._source(frame)
            if kind == OUTGOING or source is None:
                continue
            self.all += 1
            if source in self.addresses:
                self.denied, self.first = self.denied + 1, self.first or frame[:80].hex()

    @staticmethod
    def _source(frame):
        """Address that a packet came from; None: it is none that policies are about."""
        if frame[12:14] == b"\x08\0":
            return frame[26:30]
        if frame[12:14] != b"\x86\xdd" or frame[20] == socket.IPPROTO_ICMPV6 and frame[54] in ND or frame[20] == 0:
            return None
        return frame[22:38]

    def report(self):
        """Since the last report."""
        told = {"denied": self.denied, "all": self.all, "first": self.first}
        self.denied, self.all, self.first = 0, 0, ""
        return told


def main():
    kind, *arguments = sys.argv[1:]
    work = {"serve": Serve, "talk": Talk, "knock": Knock, "watch": Watch}[kind](*arguments)
    threading.Thread(target=work.run, daemon=True).start()
    for _ in sys.stdin:
        print(json.dumps(work.report()), flush=True)


if __name__ == "__main__":
    main()
