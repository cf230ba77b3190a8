"""Packets before the first answer: they go where the first one went."""

import contextlib
import time

from ..machine import PATIENCE_S, Failure
from . import traffic
from .actions import of

DATAGRAMS = 3
SILENCE = "table inet silence { chain input { type filter hook input priority 0; udp dport 80 drop; }; }"


@contextlib.contextmanager
def silent(node, shorts):
    """Meanwhile nobody there answers datagrams, nor refuses them."""
    with contextlib.ExitStack() as stack:
        for short in shorts:
            node.run(short, "nft", SILENCE)
            stack.callback(node.run, short, "nft", "delete", "table", "inet", "silence")
        yield


def same_endpoint(node, places, source, address, port):
    """Datagrams of one socket all reach one of `places`, {namespace: interface}, which are silent; when they are not any more, that one answers the same socket."""

    def run(family):
        where, token = of(address, family), f"unanswered {time.monotonic_ns()}".encode()
        with traffic.make_socket(node.names[source], traffic.family_of(where), traffic.DATAGRAM) as client:
            client.settimeout(PATIENCE_S)
            client.connect((where, port))
            with silent(node, places):
                reached = _reached(node, places, client, token)
            if list(reached.values()) != [DATAGRAMS]:
                raise Failure(f"of {DATAGRAMS} datagrams arrived: {reached}")
            place = next(iter(reached))
            client.send(traffic.WHO)
            try:
                who = client.recv(65535).decode().partition(" sees ")[0]
            except OSError as error:
                raise Failure(f"all arrived at {place}, which does not answer: {error!r}") from error
        if who != place:
            raise Failure(f"all arrived at {place}; then {who or 'somebody else'} answers")
        return f"all at {place}, which then answers"

    return run


def _reached(node, places, client, token):
    """How many of `client`'s datagrams arrive where."""

    def count(found):
        return {short: number for short, frames in found.items() if (number := sum(token in frame for frame in frames))}

    with contextlib.ExitStack() as stack:
        listeners = {short: stack.enter_context(traffic.Listener(node.names[short], interface)) for short, interface in places.items()}
        for _ in range(DATAGRAMS):
            client.send(token)
            time.sleep(0.02)
        return count(traffic.gather(listeners, lambda found: sum(count(found).values()) >= DATAGRAMS))
