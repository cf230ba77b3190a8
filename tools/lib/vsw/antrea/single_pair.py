"""A Node of one family beside one of both: everything works by the one that they share, and the
first Node passes nothing by the other one."""

import time

from ..machine import Failure
from . import traffic, world
from .actions import BOTH, HTTP, PROHIBITED, Actions, of
from .crossing import SIDES, arriving, at, leaving, only, owners
from .manifests import document, text_of
from .node import NODE, both, within
from .refusals import TUNNEL
from .refusals_pair import NAMES, policy, service_of
from .scenes import _mac
from .unanswered import DATAGRAMS, same_endpoint
from .wire_errors import packet
from .world import CLIENT, DB, GATEWAY, WEB, WEB2

ANY = "10.101.255.75"  # a Service of web2 of both Nodes
ALONE = dict(zip(BOTH, SIDES))  # the Node that has a family only


def manifests(family):
    """The cluster of both Nodes."""
    documents = [document("v1", "Namespace", "default"), *_service("any", ANY, {"app": WEB2.name})]
    for side in SIDES:
        families = (family,) if side == ALONE[family] else BOTH
        documents += _node(side, families)
        documents += [_pod(side, pod, families) for pod in side.pods]
        documents += _service(f"db-{side.number}", service_of(side, DB), {"app": DB.name, "node": str(side.number)})
    documents.append(policy("silent-web", WEB, ingress=[{"action": "Drop", "name": "DropAll"}]))
    documents.append(policy("refusing-db", DB, ingress=[{"action": "Reject", "name": "RefuseAll"}]))
    return text_of(documents)


def _node(side, families):
    def each(address):
        return [of(side.of(address), family) for family in families]

    yield document("v1", "Node", NAMES[side.number], spec={"podCIDRs": each("10.10.0.0/24")},
                   status={"addresses": [{"type": "InternalIP", "address": address} for address in each(world.NODE)]})
    yield document("vswitch/v1", "NodeConfig", NAMES[side.number], spec={
        "bridge": "br0", "trafficMode": "Encap", "families": "Dual" if families == BOTH else f"IPv{families[0]}", "transportAddresses": within(each(world.NODE)),
        "gateway": {"port": GATEWAY, "mac": side.of(world.GATEWAY_MAC), "addresses": each(world.GATEWAY_IP)}, "tunnel": {"port": world.TUNNEL},
        "serviceCIDRs": each("10.96.0.0/12"),
    })


def _pod(side, pod, families):
    metadata = {"labels": {"app": pod.name, "node": str(side.number)}, "annotations": {"vswitch/port": pod.port, "vswitch/mac": pod.mac}}
    return document("v1", "Pod", f"{pod.name}-{side.number}", "default", metadata, spec={"nodeName": NAMES[side.number]},
                    status={"podIPs": [{"ip": of(pod.v4, family)} for family in families]})


def _service(name, address, selector):
    ports = [{"name": protocol.lower(), "protocol": protocol, "port": HTTP} for protocol in ("TCP", "UDP")]
    yield document("v1", "Service", name, "default", spec={"clusterIPs": list(both(address)), "ipFamilies": ["IPv4", "IPv6"], "selector": selector, "ports": ports})


class Single(Actions):
    """Scenes, as `crossing.Crossing`, of a family that one Node has alone."""

    def __init__(self, both_nodes, family):
        super().__init__(both_nodes, owners())
        self.family = family

    def all(self):
        """In order."""
        alone = ALONE[self.family]
        scenes = [(self.family, scene) for here in SIDES for scene in (*self.reached(here, here.other), *self.denied_and_refused(here, here.other))]
        scenes += [(self.family, self.nothing(alone, alone.other)), (10 - self.family, self.half(alone.other))]
        for family, (title, action, rules) in scenes:
            yield f"IPv{self.family} alone on node {alone.number}: {title}", action, rules, (family,)

    def reached(self, here, there):
        """Pods, Nodes, Services."""
        client, near, far = at(here, CLIENT.name), at(here, WEB2.name), at(there, WEB2.name)
        web2 = {side: next(pod for pod in side.pods if pod.name == WEB2.name) for side in SIDES}
        yield f"{client} -> {near}", self.one(client, web2[here].v4, HTTP, near, client), only(here, "L3Forwarding reg0=0/0x200 nw_dst=10.10.0.0/24")
        yield f"{client} -> {far}", self.one(client, web2[there].v4, HTTP, far, client), leaving(here) + arriving(there, WEB2) + leaving(there)
        yield (f"who the other Node's gateway is, is answered: gateway@{here.number} -> {far}", self.asked_anew(here, there, far),
               only(here, "ARPResponder arp_tpa=10.10.1.1" if self.family == 4 else "IPv6 priority=210") + leaving(here))
        yield f"{client} -> ClusterIP -> {near} or {far}", self.several(client, ANY, HTTP, {near: client, far: client}), only(here, f"ServiceLB nw_dst={ANY}")
        places = {at(side, WEB2.name): WEB2.interface for side in SIDES}
        yield (f"{DATAGRAMS} datagrams, no answer: {client} -> ClusterIP", same_endpoint(self.node, places, client, ANY, HTTP),
               only(here, "ConntrackState priority=190 ct_state=+new+trk"))

    def asked_anew(self, here, there, who):
        """The Node forgets who that is, and asks."""
        short, gateway = at(here, NODE), of(there.of(world.GATEWAY_IP), self.family)
        asked = self.one(short, there.of(WEB2.v4), HTTP, who, at(here, "gateway"))

        def run(family):
            if family == 4:
                self.node.ip(short, "neighbour", "flush", "dev", GATEWAY, "to", gateway)
                return asked(family)
            # Which other scenes need, since the document answers for IPv4 alone
            self.node.ip(short, "neighbour", "del", gateway, "dev", GATEWAY)
            try:
                return asked(family)
            finally:
                self.node.ip(short, "neighbour", "replace", gateway, "lladdr", world.VIRTUAL_MAC, "dev", GATEWAY, "nud", "permanent")

        return run

    def denied_and_refused(self, here, there):
        """By policies."""
        client, web, db = at(here, CLIENT.name), at(there, WEB.name), at(there, DB.name)
        yield f"policy drops: {client} -> {web}", self.denied(client, there.of(WEB.v4), HTTP), only(there, "IngressMetric priority=201")
        yield f"Reject: {client} -> {db}", self.refused(client, there.of(DB.v4), HTTP, PROHIBITED), [(f"node {there.number}", TUNNEL)]
        yield f"Reject: {client} -> ClusterIP -> {db}", self.refused(client, service_of(there, DB), HTTP, PROHIBITED), [(f"node {there.number}", TUNNEL)]

    def half(self, here):
        """The Node of both families has a Service's Endpoint by the other one, too: its own."""
        client, web2 = at(here, CLIENT.name), at(here, WEB2.name)
        return f"by IPv{10 - self.family} {client} -> ClusterIP -> {web2}", self.several(client, ANY, HTTP, {web2: client}), only(here, f"ServiceLB nw_dst={ANY}")

    def nothing(self, here, there):
        """Nor does what is sent to another Node pass."""
        return (f"nothing by IPv{10 - self.family}: {at(here, CLIENT.name)} -> {at(here, WEB2.name)}, {at(there, WEB2.name)}", self.nothing_else(here, there),
                leaving(here) + arriving(there, WEB2))

    def nothing_else(self, here, there):
        """Of two datagrams, the second one by the Node's family, that one arrives."""
        client = next(pod for pod in here.pods if pod.name == CLIENT.name)

        def run(family):
            for side in (here, there):
                pod, token = next(pod for pod in side.pods if pod.name == WEB2.name), f"{time.monotonic_ns()}".encode()
                mac = pod.mac if side == here else here.of(world.GATEWAY_MAC)
                with traffic.Listener(self.space[at(side, pod.name)], pod.interface) as listener:
                    for by in (10 - family, family):
                        data = packet((of(client.v4, by), 1000), (of(pod.v4, by), world.NOBODY), b"IPv%d " % by + token)
                        frame = _mac(mac) + _mac(client.mac) + (b"\x08\0" if by == 4 else b"\x86\xdd") + data
                        traffic.send_frame(self.space[at(here, client.name)], client.interface, frame)
                    frames = listener.frames(lambda frames, token=token: any(b"IPv%d " % family + token in one for one in frames))
                for by, expected in ((family, True), (10 - family, False)):
                    if any(b"IPv%d " % by + token in one for one in frames) != expected:
                        raise Failure(f"the datagram by IPv{by} {'did not arrive' if expected else 'arrived'} at {at(side, pod.name)}")
            return "dropped; what is sent after it arrives"

        return run
