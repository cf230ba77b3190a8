"""Packets before the first answer: they go where the first one went."""

import contextlib
import time

from ..machine import Failure
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
    """An action: datagrams of one socket all reach one of `places`, {namespace: interface}, which
    are silent; when they are not any more, that one answers the same socket."""
    return lambda family: f"all at {reached(node, places, source, of(address, family), port)}, which then answers"


def reached(node, places, source, address, port):
    """Which one that was."""
    token = f"unanswered {time.monotonic_ns()}".encode()
    with traffic.unheard_of(node.names[source], address, port) as client:
        with silent(node, places):
            arrived = _arrived(node, places, client, token)
        if list(arrived.values()) != [DATAGRAMS]:
            raise Failure(f"of {DATAGRAMS} datagrams arrived: {arrived}")
        place = next(iter(arrived))
        client.send(traffic.WHO)
        try:
            who = client.recv(65535).decode().partition(" sees ")[0]
        except OSError as error:
            raise Failure(f"all arrived at {place}, which does not answer: {error!r}") from error
    if who != place:
        raise Failure(f"all arrived at {place}; then {who or 'somebody else'} answers")
    return place


def _arrived(node, places, client, token):
    """How many of `client`'s datagrams come where."""

    def count(found):
        return {short: number for short, frames in found.items() if (number := sum(token in frame for frame in frames))}

    with contextlib.ExitStack() as stack:
        listeners = {short: stack.enter_context(traffic.Listener(node.names[short], interface)) for short, interface in places.items()}
        for _ in range(DATAGRAMS):
            client.send(token)
            time.sleep(0.02)
        return count(traffic.gather(listeners, lambda found: sum(count(found).values()) >= DATAGRAMS))
