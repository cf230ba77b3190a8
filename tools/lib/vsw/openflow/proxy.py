"""A proxy between OpenFlow clients and a bridge that records every message of both directions."""

import socket
import struct
import threading

HEADER = struct.Struct("!BBHI")


class Proxy:
    """Listens at `path` and passes each connection on to the socket `target`."""

    def __init__(self, path, target, defer):
        self.path, self._target = path, target
        self._records, self._lock = [], threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        defer(self._listener.close)
        threading.Thread(target=self._accept, daemon=True).start()

    def take(self):
        """The messages since the last call: pairs of `>` (to the switch) or `<`, and bytes."""
        with self._lock:
            records, self._records = self._records, []
        return records

    def seen(self, kind):
        """How many messages of a type came from the switch since the last `take`."""
        with self._lock:
            return sum(1 for mark, message in self._records if mark == "<" and message[1] == kind)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            switch = socket.socket(socket.AF_UNIX)
            switch.connect(str(self._target))
            for mark, source, sink in ((">", client, switch), ("<", switch, client)):
                threading.Thread(target=self._pass, args=(mark, source, sink), daemon=True).start()

    def _pass(self, mark, source, sink):
        """Moves whole messages from one side to the other until the source closes."""
        try:
            while message := read_message(source):
                with self._lock:
                    self._records.append((mark, message))
                sink.sendall(message)
        except OSError:
            pass  # The other side has closed.
        finally:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # It is closed already.


def read_message(source):
    """One message; empty at the end of the stream."""
    header = _exactly(source, HEADER.size)
    return header and header + _exactly(source, HEADER.unpack(header)[2] - HEADER.size)


def _exactly(source, count):
    """That many bytes; fewer only at the end of the stream."""
    received = b""
    while len(received) < count and (piece := source.recv(count - len(received))):
        received += piece
    return received
