"""Traffic between namespaces, from this one process: a socket stays in the namespace that it was
made in."""

import contextlib
import ctypes
import hashlib
import http.server
import itertools
import os
import select
import socket
import socketserver
import struct
import threading
import time

from ..machine import PATIENCE_S, Failure

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
PATTERN = bytes(range(256)) * 256
DATAGRAM = socket.SOCK_DGRAM
SO_RCVBUFFORCE = 33  # asm-generic/socket.h
SOL_PACKET, PACKET_AUXDATA, HAS_VLAN = 263, 8, 0x10  # linux/socket.h, linux/if_packet.h
SILENCE_S = 0.2  # without another packet: all that came is there
ATTEMPTS, FLOOD_LEAST = 10, 5
# A worker stamps a packet with the time that it read before its burst. A busy machine stops it
# between the two.
LAG_S = 0.3
# Kernels take theirs above by chance, NodePorts are there
PORTS = itertools.cycle(range(23000, 30000))


@contextlib.contextmanager
def inside(name):
    """This thread, in that namespace."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{name}", os.O_RDONLY)
    try:
        if _libc.setns(there, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {name}")
        yield
    finally:
        _libc.setns(home, CLONE_NEWNET)
        os.close(there)
        os.close(home)


def make_socket(name, *words):
    """A socket of a namespace."""
    with inside(name):
        return socket.socket(*words)


def unheard_of(name, address, port):
    """A socket for datagrams to there, from a port that none before had: a kernel's choice may be
    one whose connection the switch still has, whose packets are not new."""
    made = make_socket(name, family_of(address), DATAGRAM)
    try:
        made.settimeout(PATIENCE_S)
        made.bind(("", next(PORTS)))
        made.connect((address, port))
    except OSError:
        made.close()
        raise
    return made


class _Answer(http.server.BaseHTTPRequestHandler):
    """GET /: who this is and whom it sees; GET /N: N bytes of a pattern; POST: the digest of what
    came."""

    protocol_version = "HTTP/1.1"
    timeout = 10 * PATIENCE_S  # of a client that asks again after other scenes

    def do_GET(self):  # noqa: N802 (the library's name)
        size = self.path.lstrip("/")
        if not size.isdigit():
            self._send(f"{self.server.label} sees {_plain(self.client_address[0])}\n".encode())
            return
        self._head(int(size))
        for start in range(0, int(size), len(PATTERN)):
            self.wfile.write(PATTERN[: min(len(PATTERN), int(size) - start)])

    def do_POST(self):  # noqa: N802
        digest, left = hashlib.sha256(), int(self.headers["Content-Length"])
        while left and (data := self.rfile.read(min(left, 1 << 16))):
            digest.update(data)
            left -= len(data)
        self._send(digest.hexdigest().encode())

    def _head(self, size):
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def _send(self, data):
        self._head(len(data))
        self.wfile.write(data)

    def log_message(self, *_):
        """Says nothing."""

    def handle(self):
        with contextlib.suppress(OSError):
            super().handle()


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, name, label, port):
        self.label = label
        super().__init__(("::", port), _Answer, bind_and_activate=False)
        self.socket.close()
        self.socket = make_socket(name, socket.AF_INET6, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("::", port))
        self.server_activate()


def serve(name, label, port, stack):
    """A web server in a namespace, for both IP versions, until `stack` ends."""
    server = _Server(name, label, port)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    stack.callback(server.server_close)
    stack.callback(server.shutdown)


WHO = b"who is there, and whom does it see?"


def echo_datagrams(name, port, stack, label=""):
    """A UDP echo server in a namespace, for both IP versions, until `stack` ends; WHO it answers as
    `serve` does. Answers leave by the address that was asked."""
    server = make_socket(name, socket.AF_INET6, socket.SOCK_DGRAM)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("::", port))
    server.settimeout(0.1)
    ended = threading.Event()

    def run():
        while not ended.is_set():
            with contextlib.suppress(OSError):
                data, about, _, sender = server.recvmsg(65535, socket.CMSG_SPACE(20))
                asked = [(level, kind, value[:16] + bytes(4)) for level, kind, value in about]
                server.sendmsg([f"{label} sees {_plain(sender[0])}".encode() if data == WHO else data], asked, 0, sender)

    def end():
        ended.set()
        thread.join()
        server.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    stack.callback(end)


def _plain(address):
    return address.removeprefix("::ffff:")


def family_of(address):
    """The socket family of an address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def connect(name, address, port, limit=PATIENCE_S):
    """A TCP connection from a namespace; OSError when there is none."""
    client = make_socket(name, family_of(address), socket.SOCK_STREAM)
    client.settimeout(limit)
    try:
        client.connect((address, port))
    except TimeoutError as error:
        client.close()
        raise TimeoutError(f"no connection within {limit} s") from error
    except OSError:
        client.close()
        raise
    return client


def exchange(client, request):
    """What the server says to an HTTP request; its body."""
    client.sendall(request)
    head = b""
    while b"\r\n\r\n" not in head:
        data = client.recv(65536)
        if not data:
            raise ConnectionError("the answer broke off")
        head += data
    head, body = head.split(b"\r\n\r\n", 1)
    size = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    parts, got = [body], len(body)
    while got < size:
        data = client.recv(1 << 16)
        if not data:
            raise ConnectionError("the answer broke off")
        parts.append(data)
        got += len(data)
    return b"".join(parts)


def ask(name, address, port, limit=PATIENCE_S):
    """Connects, and asks who is there: (who answers, whom it sees). OSError when nobody does."""
    with connect(name, address, port, limit) as client:
        text = exchange(client, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").decode()
    who, _, seen = text.strip().partition(" sees ")
    return who, seen


def transfer(name, address, port, size):
    """`size` bytes down and up again in one connection; OSError when a byte differs."""
    expected = (PATTERN * (size // len(PATTERN) + 1))[:size]
    with connect(name, address, port) as client:
        if exchange(client, f"GET /{size} HTTP/1.1\r\nHost: x\r\n\r\n".encode()) != expected:
            raise ConnectionError("other bytes arrived than were sent")
        head = f"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n".encode()
        if exchange(client, head + expected).decode() != hashlib.sha256(expected).hexdigest():
            raise ConnectionError("other bytes arrived than were sent")


def datagram(name, address, port, size):
    """A UDP datagram of `size` bytes and its echo; OSError when there is none or it differs."""
    with make_socket(name, family_of(address), socket.SOCK_DGRAM) as client:
        client.settimeout(PATIENCE_S)
        client.connect((address, port))
        data = (PATTERN * (size // len(PATTERN) + 1))[:size]
        client.send(data)
        if client.recv(65535) != data:
            raise ConnectionError("another datagram came back than was sent")


def ask_datagram(name, address, port, limit=PATIENCE_S):
    """As `ask`, by one datagram of a socket of its own."""
    with unheard_of(name, address, port) as client:
        client.settimeout(limit)
        client.send(WHO)
        who, _, seen = client.recv(65535).decode().partition(" sees ")
    return who, seen


def echoes(name, address, port, sizes):
    """UDP datagrams of these sizes and their echoes; Failure when one is missing or differs."""
    for size in sizes:
        try:
            datagram(name, address, port, size)
        except OSError as error:
            raise Failure(f"UDP, {name} and {address} port {port}, {size} bytes: {error!r}") from error


def loads(name, address, port, megabytes, sizes):
    """A large transfer each way over one TCP connection, and echoes of UDP datagrams, whole and in
    fragments; what it was, as text."""
    try:
        transfer(name, address, port, megabytes << 20)
    except OSError as error:
        raise Failure(f"TCP, {name} and {address} port {port}: {error!r}") from error
    echoes(name, address, port, sizes)
    return f"{megabytes} MiB each way by TCP; {', '.join(f'{size:,}' for size in sizes)} bytes and back by UDP"


def flood(source, target, address, dropped, datagrams=200, size=1000, rate=1e6, burst=1e5):
    """More datagrams at once than a rate (bits per second) with a burst (bits) lets pass, from one
    namespace to another: all that do not arrive are among `dropped()`. The result as text."""
    for _ in range(ATTEMPTS):
        arrived, lost, seconds = _flood(source, target, address, dropped, datagrams, size)
        most = int((burst + rate * (seconds + LAG_S)) / (8 * size))
        told = f"of {datagrams} datagrams {arrived} arrived, {lost} were dropped; in {seconds:.2f} s up to {most} may pass"
        if not FLOOD_LEAST <= arrived <= most:
            raise Failure(told)
        # A busy machine's kernel may send them too slowly, or lose some before the port's ring.
        if lost and arrived + lost == datagrams:
            return f"of {datagrams} datagrams {arrived} arrive, {lost} are dropped and counted"
    raise Failure(f"{ATTEMPTS} times none was dropped, or some are not accounted for: {told}")


def _flood(source, target, address, dropped, datagrams, size):
    """(how many arrived, how many were dropped, seconds until the last one that arrived)."""
    before, arrived, lost, last = dropped(), 0, 0, 0.0
    with make_socket(target, family_of(address), DATAGRAM) as receiver, make_socket(source, family_of(address), DATAGRAM) as sender:
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 * datagrams * size)
        receiver.bind((address, 5001))
        receiver.settimeout(SILENCE_S)
        sender.connect((address, 5001))
        began = time.monotonic()
        for _ in range(datagrams):
            sender.send(bytes(size))
            time.sleep(0.0005)
        while arrived + lost < datagrams and time.monotonic() - began < PATIENCE_S:
            with contextlib.suppress(TimeoutError):
                while True:
                    receiver.recv(65535)
                    arrived, last = arrived + 1, time.monotonic() - began
            lost = dropped() - before
        return arrived, lost, last


def retransmitted(client):
    """How many segments a TCP connection has sent again, its first one among them."""
    # tcpi_total_retrans
    return struct.unpack_from("=I", client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 100)[0]


class Listener:
    """Frames that arrive on an interface of a namespace. (The kernel takes VLAN tags out of them
    and tells them beside; here they are where they were.)"""

    def __init__(self, name, interface):
        self.socket = make_socket(name, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        with inside(name):
            self.socket.bind((interface, 3))

    def receive(self):
        """A frame; None: one that leaves."""
        data, beside, _, source = self.socket.recvmsg(65535, socket.CMSG_SPACE(20))
        if source[2] == socket.PACKET_OUTGOING:
            return None
        for level, kind, value in beside:
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                status, _, _, _, _, tag, protocol = struct.unpack("=IIIHHHH", value)
                if status & HAS_VLAN:
                    data = data[:12] + struct.pack("!HH", protocol, tag) + data[12:]
        return data

    def frames(self, until=None):
        """All that came until now (and a moment longer). `until`: what must be true of them, sooner
        or later."""
        return gather({"": self}, until and (lambda found: until(found[""])))[""]

    def so_far(self):
        """All that has come."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                data, source = self.socket.recvfrom(65535, socket.MSG_DONTWAIT)
                if source[2] != socket.PACKET_OUTGOING:
                    found.append(data)
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def gather(listeners, until=None):
    """What Listeners hear, {name: frames}, until all are silent for a moment; as long as `until` is
    not true of that, with patience."""
    found = {name: [] for name in listeners}
    places, deadline = {listener.socket: (name, listener) for name, listener in listeners.items()}, time.monotonic() + PATIENCE_S
    while True:
        ready = select.select(list(places), [], [], SILENCE_S)[0]
        for name, listener in (places[one] for one in ready):
            if (frame := listener.receive()) is not None:
                found[name].append(frame)
        if time.monotonic() > deadline or not ready and (until is None or until(found)):
            return found


def send_datagram(name, address, port, data):
    """Sends a UDP datagram; there need be no answer."""
    with make_socket(name, family_of(address), DATAGRAM) as client:
        client.sendto(data, (address, port))


def send_frame(name, interface, frame):
    """Sends a frame as it is."""
    with make_socket(name, socket.AF_PACKET, socket.SOCK_RAW) as sender:
        with inside(name):
            sender.bind((interface, 0))
        sender.send(frame)
