"""Rules with an application's protocol: the engine behind a port tells them apart by the VLANs of
the frames that it is sent."""

import contextlib
import socket
import struct
from pathlib import Path

from ..machine import Failure
from . import traffic, world
from .actions import ALT, BOTH, HTTP, of
from .engine import Engine
from .ledger import Rule
from .node import INSPECT, OUTSIDE
from .services import Services, port, service, web2
from .world import CLIENT, WEB, WEB2

MANIFEST = Path(__file__).with_name("l7-second.yaml")
ENGINE = "antrea-l7-tap0"
POLICIES = {WEB: "acnp:ingress-allow-http-request-to-api-v2", WEB2: "acnp:allow-http-to-web2"}
EVERYTHING = MANIFEST.with_name("l7-everything.yaml")
# A Service of web2 with an address of each kind.
CLUSTER, BALANCER, EXTERNAL, NODE_PORT = "10.105.31.170", "192.168.77.170", "192.168.77.171", 30070
WHOLE = (3, 2)  # packets that a client and a server need, up to the answer
LEAST = 6  # frames of a connection that is made, used and ended, both ways


def vlan_of(frame):
    """Its VLAN; None: it has no tag."""
    kind, tag = struct.unpack_from("!HH", frame, 12)
    return tag & 0xFFF if kind == 0x8100 else None


class L7Scenes:
    """Scenes; a part of `AgentScenes`."""

    def l7(self):
        """Two rules, one engine."""
        with self.manifests.also(MANIFEST):
            yield ("L7: client -> web, web2 port 8080: two rules, a VLAN each", self.two_vlans,
                   [Rule("Output ct_mark=0x80/0x80", 2 * LEAST), Rule('Classifier in_port="antrea-l7-tap1"', 2 * LEAST)], BOTH)

        yield from self.by_services()

    def by_services(self):
        """The engine reads TCP, and lets nothing pass that is half a connection."""
        with contextlib.ExitStack() as stack:
            services = Services(self.node, self.switch, self.manifests.directory / "l7-services.yaml", stack)
            services.tell(l7=service(CLUSTER, web2(), load_balancer=BALANCER, external=EXTERNAL, ports=[port("TCP", node=NODE_PORT)]))
            services.reach(self.manifests.host)
            stack.enter_context(self.manifests.also(EVERYTHING))
            engine = stack.enter_context(Engine(self.node))
            for title, source, address, number, sees in (
                    ("client -> web2", CLIENT.name, WEB2.v4, HTTP, "client"), ("client -> ClusterIP", CLIENT.name, CLUSTER, HTTP, "client"),
                    ("client -> LoadBalancer", CLIENT.name, BALANCER, HTTP, "client"), ("outside -> LoadBalancer", OUTSIDE, BALANCER, HTTP, "outside"),
                    ("outside -> external IP", OUTSIDE, EXTERNAL, HTTP, "outside"), ("outside -> NodePort", OUTSIDE, world.NODE, NODE_PORT, "outside")):
                yield (f"L7, an engine that reads TCP: {title}", self.read_whole(engine, self.one(source, address, number, "web2", sees)),
                       [Rule("Output ct_mark=0x80/0x80", sum(WHOLE)), Rule('Classifier in_port="antrea-l7-tap1"', sum(WHOLE))], BOTH)

    @staticmethod
    def read_whole(engine, ask):
        """Somebody asks; the engine has read both directions of that, and nothing strange."""

        def run(family):
            before = list(engine.passed)
            said = ask(family)
            asked, answered = (now - was for now, was in zip(engine.passed, before))
            if engine.strange or asked < WHOLE[0] or answered < WHOLE[1]:
                raise Failure(f"the engine read {asked} packets of the client, {answered} of the server, and {len(engine.strange)} of no connection")
            return f"{said}; the engine reads both directions"

        return run

    def two_vlans(self, family):
        """What the engine gets of either connection has the VLAN of its rule."""
        vlans = {pod: self._vlan(pod) for pod in POLICIES}
        if len(set(vlans.values())) != len(vlans) or not all(vlans.values()):
            raise Failure(f"VLANs of the rules: {vlans}")
        for pod, vlan in vlans.items():
            address = socket.inet_pton(traffic.family_of(of(pod.v4, family)), of(pod.v4, family))
            with traffic.Listener(self.space[INSPECT], ENGINE) as engine:
                who, _ = traffic.ask(self.space[CLIENT.name], of(pod.v4, family), ALT)
                ours = lambda frames, address=address: [frame for frame in frames if address in frame[14:58] and _is_tcp(frame)]  # noqa: E731
                tags = [vlan_of(frame) for frame in ours(engine.frames(lambda frames, ours=ours: len(ours(frames)) >= LEAST))]
            if who != pod.name or set(tags) != {vlan} or len(tags) < LEAST:
                raise Failure(f"{who} answered; the rule's VLAN is {vlan}, the engine's frames have {tags}")
        return " and ".join(f"{pod.name}'s by VLAN {vlan}" for pod, vlan in vlans.items())

    def _vlan(self, pod):
        """Of the rule of a Pod's policy."""
        return self.switch.json("antrea", "rules", "--policy", POLICIES[pod])[0]["l7_vlan"]


def _is_tcp(frame):
    """Of a frame of IP, with a tag or without."""
    at = 18 if vlan_of(frame) is not None else 14
    return frame[at + (9 if frame[at] >> 4 == 4 else 6)] == socket.IPPROTO_TCP
