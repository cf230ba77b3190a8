"""Traffic between namespaces, from this one process: a socket stays in the namespace that it was made in."""

import contextlib
import ctypes
import hashlib
import http.server
import os
import socket
import socketserver
import threading

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
PATTERN = bytes(range(256)) * 256
DATAGRAM = socket.SOCK_DGRAM


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


class _Answer(http.server.BaseHTTPRequestHandler):
    """GET /: who this is and whom it sees; GET /N: N bytes of a pattern; POST: the digest of what came."""

    protocol_version = "HTTP/1.1"
    timeout = 30

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


def echo_datagrams(name, port, stack):
    """A UDP echo server in a namespace, for both IP versions, until `stack` ends. Answers leave by the address that was asked."""
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
                server.sendmsg([data], asked, 0, sender)

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


def connect(name, address, port, limit=3.0):
    """A TCP connection from a namespace; OSError when there is none."""
    client = make_socket(name, family_of(address), socket.SOCK_STREAM)
    client.settimeout(limit)
    try:
        client.connect((address, port))
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


def ask(name, address, port, limit=3.0):
    """Connects, and asks who is there: (who answers, whom it sees). OSError when nobody does."""
    with connect(name, address, port, limit) as client:
        text = exchange(client, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").decode()
    who, _, seen = text.strip().partition(" sees ")
    return who, seen


def transfer(name, address, port, size, limit=30.0):
    """`size` bytes down and up again in one connection; OSError when a byte differs."""
    expected = (PATTERN * (size // len(PATTERN) + 1))[:size]
    with connect(name, address, port, limit) as client:
        if exchange(client, f"GET /{size} HTTP/1.1\r\nHost: x\r\n\r\n".encode()) != expected:
            raise ConnectionError("other bytes arrived than were sent")
        head = f"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n".encode()
        if exchange(client, head + expected).decode() != hashlib.sha256(expected).hexdigest():
            raise ConnectionError("other bytes arrived than were sent")


def datagram(name, address, port, size, limit=3.0):
    """A UDP datagram of `size` bytes and its echo; OSError when there is none or it differs."""
    with make_socket(name, family_of(address), socket.SOCK_DGRAM) as client:
        client.settimeout(limit)
        client.connect((address, port))
        data = (PATTERN * (size // len(PATTERN) + 1))[:size]
        client.send(data)
        if client.recv(65535) != data:
            raise ConnectionError("another datagram came back than was sent")


class Listener:
    """Frames that arrive on an interface of a namespace."""

    def __init__(self, name, interface):
        self.socket = make_socket(name, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        with inside(name):
            self.socket.bind((interface, 3))
        self.socket.settimeout(0.2)

    def frames(self):
        """All that came until now (and a moment longer)."""
        found = []
        with contextlib.suppress(TimeoutError):
            while True:
                data, source = self.socket.recvfrom(65535)
                if source[2] != socket.PACKET_OUTGOING:
                    found.append(data)
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def send_frame(name, interface, frame):
    """Sends a frame as it is."""
    with make_socket(name, socket.AF_PACKET, socket.SOCK_RAW) as sender:
        with inside(name):
            sender.bind((interface, 0))
        sender.send(frame)
