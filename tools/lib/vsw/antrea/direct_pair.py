"""Direct server return: a client outside comes in by one Node; an Endpoint on the other one sees
its address, and answers it without the first one."""

import collections
import socket

from ..machine import Failure
from . import traffic, unanswered, world
from .actions import HTTP, Actions
from .crossing import SIDES, at, owners, plain
from .ledger import Rule
from .manifests import document, text_of
from .member import MTU, WIRE
from .node import OUTSIDE
from .refusals_pair import NAMES, node_documents, pod_document
from .world import CLIENT, WEB2

# By the Node that the client's route leads to: the address of a Service whose only Endpoint is web2
# of the other Node.
FAR = {1: world.LOAD_BALANCER, 2: world.LOCAL_POLICY}
ANY = world.EXTERNAL  # both are Endpoints; the client comes in by Node 1
MANY = 20  # sockets, of which by chance two in a million times all would reach one of two Endpoints
MEGABYTES = 2
DATAGRAMS = (10, 1400, 8000)


def manifests():
    """The cluster of both Nodes."""
    documents = [document("v1", "Namespace", "default")]
    for side in SIDES:
        documents += node_documents(side, dsr=True)
        documents += [pod_document(side, pod) for pod in side.pods]
        documents += _service(f"far-{side.number}", f"10.105.31.{170 + side.number}", FAR[side.number], [side.other])
    return text_of(documents + list(_service("any", "10.105.31.173", ANY, SIDES)))


def _service(name, cluster_ip, address, sides):
    ports = [{"name": protocol.lower(), "protocol": protocol, "port": HTTP} for protocol in ("TCP", "UDP")]
    mode = {"annotations": {"service.antrea.io/load-balancer-mode": "DSR"}}
    yield document("v1", "Service", name, "default", mode, spec={"clusterIPs": [cluster_ip], "type": "LoadBalancer", "ports": ports},
                   status={"loadBalancer": {"ingress": [{"ip": address}]}})
    endpoints = [{"addresses": [_web2(side).v4], "nodeName": NAMES[side.number]} for side in sides]
    yield document("discovery.k8s.io/v1", "EndpointSlice", name, "default", {"labels": {"kubernetes.io/service-name": name}}, addressType="IPv4",
                   ports=ports, endpoints=endpoints)


def _web2(side):
    return next(pod for pod in side.pods if pod.name == WEB2.name)


class Direct(Actions):
    """Scenes, as `crossing.Crossing`."""

    def __init__(self, both_nodes):
        super().__init__(both_nodes, owners() | {world.OUTSIDE: OUTSIDE})

    def all(self):
        """In order. (Antrea has this for IPv4 only.)"""
        ways = ((FAR[1], SIDES[0]), (ANY, SIDES[0]), (FAR[2], SIDES[1]))
        for address, side in ways:
            self.node.ip(OUTSIDE, "route", "add", address, "via", side.of(world.NODE), "dev", WIRE, "mtu", MTU)
        try:
            yield from self.scenes()
        finally:
            for address, _ in ways:
                self.node.ip(OUTSIDE, "route", "del", address)

    def scenes(self):
        """Whom the world outside reaches by which Node."""
        for here in SIDES:
            there, address = here.other, FAR[here.number]
            web2 = at(there, WEB2.name)
            first = plain(here, f"ServiceLB priority=200 nw_dst={address}", f"DSRServiceMark priority=200 nw_dst={address}", "L3Forwarding reg4=0x2000000/0x2000000")
            more = plain(here, f"SessionAffinity priority=210 nw_dst={address}")
            then = plain(there, f"ServiceLB priority=210 reg0=0x1/0xf nw_dst={address}", f"EndpointDNAT nat(dst={_web2(there).v4}:{HTTP})")
            yield (f"DSR: outside -> node@{here.number} -> {web2}", self.answered_by(there, self.one(OUTSIDE, address, HTTP, web2, OUTSIDE), address),
                   first + more + then, (4,))
            yield (f"DSR: {MEGABYTES} MiB each way, datagrams: outside -> {web2}", self.answered_by(there, self.loads(address), address), more + then, (4,))
            client = at(here, CLIENT.name)
            yield (f"DSR is for those outside: {client} -> {address}", self.one(client, address, HTTP, web2, client),
                   plain(here, f"EndpointDNAT nat(dst={_web2(there).v4}:{HTTP})"), (4,))
        yield ("DSR, an Endpoint on each Node: outside -> node@1", self.several(OUTSIDE, ANY, HTTP, {at(side, WEB2.name): OUTSIDE for side in SIDES}),
               plain(SIDES[0], "DSRServiceMark priority=200", f"EndpointDNAT nat(dst={WEB2.v4}:{HTTP})"), (4,))
        # By what is learned when the Endpoint is elsewhere, by the tracker when it is here.
        rules = [("node 1", Rule(text, unanswered.DATAGRAMS - 1))
                 for text in (f"SessionAffinity priority=210 nw_dst={ANY}", "ConntrackState priority=190 ct_state=+new+trk")]
        yield f"DSR, {unanswered.DATAGRAMS} datagrams, no answer: outside -> node@1", self.unanswered, rules, (4,)

    def unanswered(self, _family):
        """Until sockets have reached either Endpoint: all that one sends before an answer goes to
        one."""
        places, seen = {at(side, WEB2.name): WEB2.interface for side in SIDES}, collections.Counter()
        while len(seen) < len(places):
            if sum(seen.values()) == MANY:
                raise Failure(f"of {MANY} sockets all reach {next(iter(seen))}")
            seen[unanswered.reached(self.node, places, OUTSIDE, ANY, HTTP)] += 1
        return "of a socket all at one Endpoint, which then answers"

    def answered_by(self, side, action, address):
        """All that the client hears of the Service comes by one Node's wire."""

        def run(family):
            with traffic.Listener(self.space[OUTSIDE], wire_of(side)) as direct, traffic.Listener(self.space[OUTSIDE], wire_of(side.other)) as other:
                told = action(family)
                counts = [sum(_is_from(frame, address) for frame in listener.frames()) for listener in (direct, other)]
            if not counts[0] or counts[1]:
                raise Failure(f"by node {side.number} came {counts[0]} packets of {address}, by node {side.other.number} {counts[1]}")
            return f"{told}; its answers come by node {side.number}"

        return run

    def loads(self, address):
        """Much each way by TCP, and datagrams."""
        return lambda _family: traffic.loads(self.space[OUTSIDE], address, HTTP, MEGABYTES, DATAGRAMS)


def wire_of(side):
    """The world's end of a Node's cable."""
    return f"node{side.number}"


def _is_from(frame, address):
    return frame[12:14] == b"\x08\0" and frame[26:30] == socket.inet_aton(address)
