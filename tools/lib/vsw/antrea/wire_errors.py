"""ICMP errors on the wire about packets that the switches translate: whoever hears one finds his
own addresses and ports in it."""

import itertools
import struct

from .. import machine
from ..machine import Failure
from . import agent, traffic, uplink_pair, world
from .actions import BOTH, HTTP, UNREACHABLE, of
from .crossing import SIDES, at, only
from .member import WIRE
from .node import OUTSIDE
from .scenes import _ip, _mac
from .world import CLIENT, DB, WEB2

ROUTER_MAC = "02:00:00:00:77:fe"
PORT = 5002  # of a server in the internet
# What routers say that they carry: another value each time, so that it is known which of them was
# heard.
_CARRIED = itertools.count(1300)


def packet(source, target, data=b"what is too large"):
    """A packet of UDP; ends are (address, port)."""
    head = struct.pack("!HHHH", source[1], target[1], 8 + len(data), 0)
    return agent._wrap(_ip(source[0]), _ip(target[0]), agent.UDP, head + data, 6)


def too_big(router, about, carried):
    """What a router says to the sender of a packet that is larger than what it carries."""
    if about[0] >> 4 == 4:
        return agent._wrap(_ip(router), about[12:16], agent.ICMP, struct.pack("!BBHHH", 3, 4, 0, 0, carried) + about[:28], 2)
    return agent._wrap(_ip(router), about[8:24], agent.ICMP6, struct.pack("!BBHI", 2, 0, 0, carried) + about, 2)


def quoted(frame):
    """What an ICMP error is about: (source, its port, destination, its port) in network order;
    None: it is none."""
    if frame[12:14] == b"\x08\0" and frame[23] == agent.ICMP and frame[34] == 3:
        inside = frame[42:]
        return inside[12:16], inside[20:22], inside[16:20], inside[22:24]
    if frame[12:14] == b"\x86\xdd" and frame[20] == agent.ICMP6 and frame[54] == 2:
        inside = frame[62:]
        return inside[8:24], inside[40:42], inside[24:40], inside[42:44]
    return None


class WireErrors:
    """Scenes of `uplink`, the world outside."""

    def __init__(self, uplink):
        self.uplink, self.node = uplink, uplink.node

    def all(self):
        """In order."""
        one, two = SIDES
        client, db, near = at(one, CLIENT.name), at(one, DB.name), at(one, WEB2.name)
        came = "Classifier in_port=uplink0"
        for side in SIDES:
            for title, action in ((f"a router on the way from {near}, asked by node@{side.number}", self.from_a_service(side)),
                                  (f"a closed port: outside -> node@{side.number} -> {near}",
                                   self.uplink.refused(OUTSIDE, side.of(world.NODE), uplink_pair.CLOSED_PORT, UNREACHABLE, near))):
                yield f"ICMP error: {title}", self.uplink.past_the_hosts(action), only(side, came), BOTH
        for source, pod, address, side in ((client, CLIENT, uplink_pair.HERE, one), (db, DB, uplink_pair.THERE, two)):
            for title, action in ((f"a router on the way from {source}, Egress by node@{side.number}", self.from_a_pod(side, source, pod, address)),
                                  (f"a closed port: {source} -> internet, Egress by node@{side.number}",
                                   self.uplink.refused(source, world.INTERNET, world.NOBODY, UNREACHABLE, "the internet"))):
                yield f"ICMP error: {title}", self.uplink.past_the_hosts(action), only(side, came), BOTH

    def from_a_service(self, side):
        """A datagram's echo is too large for a router outside; web2 of Node 1 has sent it, to a
        client who asked a Node."""
        pod = next(pod for pod in SIDES[0].pods if pod.name == WEB2.name)
        seen = world.OUTSIDE if side == SIDES[0] else side.of(world.GATEWAY_IP)

        def run(family):
            front = (of(side.of(world.NODE), family), uplink_pair.NEAR_PORT)
            with traffic.make_socket(self.node.names[OUTSIDE], traffic.family_of(front[0]), traffic.DATAGRAM) as asking:
                asking.settimeout(machine.PATIENCE_S)
                asking.connect(front)
                asking.send(b"echo")
                asking.recv(65535)
                about = packet(front, asking.getsockname()[:2])
                return self.heard(side, at(SIDES[0], WEB2.name), pod, about, (of(pod.v4, family), HTTP), of(seen, family), family)

        return run

    def from_a_pod(self, side, source, pod, address):
        """A datagram of a Pod is too large for one, behind the Node that gave it an Egress IP."""

        def run(family):
            internet, kind = of(world.INTERNET, family), traffic.family_of(of(world.INTERNET, family))
            with (traffic.make_socket(self.node.names[OUTSIDE], kind, traffic.DATAGRAM) as server,
                  traffic.make_socket(self.node.names[source], kind, traffic.DATAGRAM) as asking):
                server.settimeout(machine.PATIENCE_S)
                server.bind((internet, PORT))
                asking.connect((internet, PORT))
                asking.send(b"echo")
                _, sender = server.recvfrom(65535)
                if sender[0] != of(address, family):
                    raise Failure(f"the internet sees {sender[0]}")
                return self.heard(side, source, pod, packet(sender[:2], (internet, PORT)), asking.getsockname()[:2], internet, family)

        return run

    def heard(self, side, short, pod, about, own, target, family):
        """A router outside speaks to a Node about a packet; whose it is hears it, as one of `own`
        (address, port) to `target`, and his kernel believes it."""
        carried, wire = next(_CARRIED), self.node.names[OUTSIDE]
        frame = _mac(uplink_pair.mac(side)) + _mac(ROUTER_MAC) + (b"\x08\0" if family == 4 else b"\x86\xdd")
        with traffic.Listener(self.node.names[short], pod.interface) as listener:
            traffic.send_frame(wire, WIRE, frame + too_big(of(world.INTERNET, family), about, carried))
            found = [said for one in listener.frames(lambda frames: any(map(quoted, frames))) if (said := quoted(one))]
        if [said[:3] for said in found] != [(_ip(own[0]), struct.pack("!H", own[1]), _ip(target))]:
            raise Failure(f"{short} heard about {[tuple(part.hex(':') for part in said) for said in found]}, not about {own} to {target}")
        route = lambda: self.node.ip(short, "-6" if family == 6 else "-4", "route", "get", target)  # noqa: E731
        machine.expect(f"{short} knows that {carried} bytes are carried to {target}", lambda: f"mtu {carried}" in route(), route)
        return f"{short} hears of its own packet, and believes it"
