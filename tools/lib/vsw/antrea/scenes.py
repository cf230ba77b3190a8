"""What is shown: who reaches whom, and by which rule. Every scene is checked, for IPv4 and IPv6."""

import collections
import contextlib
import socket
import struct
import time

from .. import machine
from ..machine import Failure
from . import traffic, world
from .actions import ALT, BOTH, DENIED_LIMIT, HTTP, MYSQL, Actions, chosen, guarded, of
from .ledger import Rule
from .node import NODE, OUTSIDE, PEER, INSPECT
from .world import CLIENT, DB, GATEWAY, WEB, WEB2

# Who has which address.
OWNERS = {pod.v4: pod.name for pod in world.PODS} | {
    world.GATEWAY_IP: "gateway", world.NODE: "node", world.OUTSIDE: "outside", world.INTERNET: "internet", world.PEER_NODE: "peer node",
    world.REMOTE: "peer", world.VIRTUAL_SERVICE: "virtual Service IP",
}


class Scenes(Actions):
    """All scenes, on a node and its switch."""

    # Who answers for Services without Endpoints: the document's flows ask an agent to.
    REFUSER = "the agent"

    def __init__(self, node, switch, program, agent):
        super().__init__(node, OWNERS)
        self.switch, self.program, self.agent = switch, program, agent

    # What tells the story in a minute: parts, and titles of their scenes.
    STORY = (
        ("pods", ("ping: client", "Pod to Pod: client")),
        ("policies", ("policy allows: client", "policy denies: db")),
        ("services", ("ClusterIP: client", "LoadBalancer: outside")),
        ("special_services", ("session affinity: client", "no Endpoint: client", "hairpin: web2")),
        ("egress", ("Egress: web2 -> internet",)),
        ("spoofing", ("IP spoofing: client",)),
    )

    def story(self):
        """The scenes of STORY, as `all` has them."""
        for part, titles in self.STORY:
            yield from guarded(chosen(getattr(self, part)(), titles))

    def all(self):
        """(title, what happens: a function of the IP version that returns the result as text,
        rules, IP versions), in order."""
        parts = (self.pods, self.policies, self.kubernetes_policies, self.services, self.special_services, self.egress, self.peer, self.spoofing)
        for part in parts:
            yield from guarded(part())

    # What may happen here only.

    def watched(self, short, interface, what, action):
        """The same as `action`, and somebody looks at an interface meanwhile: `what` of the frames
        must be found there."""

        def run(family):
            def ours(frames):
                return [frame for frame in frames if frame[12:14] == (b"\x08\x00" if family == 4 else b"\x86\xdd")]

            def found(frames):
                with contextlib.suppress(Failure):
                    return bool(what(ours(frames)))

            with traffic.Listener(self.space[short], interface) as listener:
                text = action(family)
                return f"{text}; {what(ours(listener.frames(found)))}"

        return run

    # The scenes.

    def pods(self):
        """Pods, and the Node with them."""
        yield ("ping: client -> db, web2, gateway, peer", self.pinged(CLIENT.name, DB.v4, WEB2.v4, world.GATEWAY_IP, world.REMOTE),
               [Rule("L3Forwarding reg0=0/0x200"), Rule("L3Forwarding nw_dst=10.10.1.0/24")], BOTH)
        yield ("Pod to Pod: client -> web2", self.one(CLIENT.name, WEB2.v4, HTTP, "web2", "client"),
               [Rule("L3Forwarding reg0=0/0x200 nw_dst=10.10.0.0/24"), Rule("ConntrackCommit priority=200")], BOTH)
        yield ("the Node to a Pod: gateway -> web2", self.one(NODE, WEB2.v4, HTTP, "web2", "gateway"),
               [Rule("Classifier priority=210"), Rule("L3Forwarding nw_dst=10.10.0.1")], BOTH)

    def policies(self):
        """Antrea's policies, TrafficControl."""
        yield ("policy allows: client -> web; TrafficControl redirects", self.one(CLIENT.name, WEB.v4, HTTP, "web", "client"),
               [Rule("AntreaPolicyIngressRule conj_id=6"), Rule("IngressMetric ct_state=+new ct_label=0x6/0xffffffff"),
                Rule('Classifier in_port="antrea-tc-tap1"', 3), Rule("Output reg4=0x800000/0xc00000", 3)], BOTH)
        yield ("policy denies: db -> web", self.denied(DB.name, WEB.v4, HTTP),
               [Rule("AntreaPolicyIngressRule conj_id=4"), Rule("IngressMetric reg0=0x400/0x400 reg3=0x4")], BOTH)
        yield ("policy allows: web -> db; TrafficControl redirects", self.one(WEB.name, DB.v4, MYSQL, "db", "web"),
               [Rule("AntreaPolicyEgressRule conj_id=7"), Rule("EgressMetric ct_state=+new ct_label=0x700000000/0xffffffff00000000"),
                Rule(f'TrafficControl in_port="{WEB.port}"', 3)], BOTH)
        # Between web and db both rules match at one priority; redirection comes first. So the
        # mirror is shown with client.
        copies = self.watched(INSPECT, "antrea-tc-tap2", lambda frames: _at_least(frames, 6, "copies on antrea-tc-tap2"),
                              self.one(CLIENT.name, DB.v4, MYSQL, "db", "client"))
        yield ("TrafficControl mirrors: client -> db", copies,
               [Rule("TrafficControl reg1=0x26", 3), Rule(f'TrafficControl in_port="{DB.port}"', 3), Rule("Output reg4=0x400000/0xc00000", 6)], BOTH)
        yield ("policy denies: web -> web2", self.denied(WEB.name, WEB2.v4, HTTP),
               [Rule("AntreaPolicyEgressRule conj_id=5"), Rule("EgressMetric reg0=0x400/0x400 reg3=0x5")], BOTH)
        yield ("L7 policy: client -> web port 8080, by the engine", self.one(CLIENT.name, WEB.v4, ALT, "web", "client"),
               [Rule("AntreaPolicyIngressRule conj_id=14"), Rule("Output ct_mark=0x80/0x80", 3), Rule('Classifier in_port="antrea-l7-tap1"', 3)], BOTH)

    def kubernetes_policies(self):
        """Antrea's policy says the same as the K8s one, first; only without it is the other
        seen."""
        back = self.without_antrea_policy()
        try:
            yield ("without Antrea's policy K8s's allows: client -> web", self.one(CLIENT.name, WEB.v4, HTTP, "web", "client"),
                   [Rule("IngressRule conj_id=3"), Rule("IngressMetric ct_state=+new ct_label=0x3/0xffffffff")], BOTH)
            yield ("without Antrea's policy K8s's denies: db -> web", self.denied(DB.name, WEB.v4, HTTP),
                   [Rule("IngressDefaultRule reg1=0x25")], BOTH)
            yield ("without Antrea's policy K8s's allows: web -> db", self.one(WEB.name, DB.v4, MYSQL, "db", "web"),
                   [Rule("EgressRule conj_id=2"), Rule("EgressMetric ct_state=+new ct_label=0x200000000/0xffffffff00000000")], BOTH)
            yield ("without Antrea's policy K8s's denies: web -> web2", self.denied(WEB.name, WEB2.v4, HTTP),
                   [Rule("EgressDefaultRule nw_src=10.10.0.24")], BOTH)
        finally:
            back()
        yield ("a policy's log: the agent is told, within meter 256", self.logged,
               [Rule("Output reg0=0x2400000/0xfe600000"), Rule("Output reg0=0x4400000/0xfe600000")], (4,))

    def without_antrea_policy(self):
        """Takes the flows of Antrea's policy away; call the result to bring them back."""
        self._change([f"flow delete_strict {head}" for head, _ in self.program.policy()])
        return lambda: self._change([f"flow add {line}" for _, line in self.program.policy()])

    def _change(self, lines):
        """One transaction."""
        file = self.program.file.with_name("change.txt")
        file.write_text("\n".join(lines))
        self.switch.vsctl("bundle", "br0", file)

    def logged(self, family):
        """A packet with the registers of one that a rule with logging took."""
        before, frame = self.agent.told, self._spoofed_ip(family)
        for operation in (0x2400000, 0x4400000):
            actions = f"set_field:{operation:#x}->reg0,resubmit(,Output)"
            self.switch.vsctl("packet-out", "br0", f"in_port=CONTROLLER,packet={frame.hex()},actions={actions}")
        machine.expect("the agent is told twice", lambda: self.agent.told >= before + 2, lambda: self.agent.told - before)
        return "the agent is told (userdata 01.01, 01.02)"

    def services(self):
        """Every kind of Service."""
        both_endpoints = {"web": "client", "peer": "client"}
        yield ("ClusterIP: client -> 10.105.31.235", self.several(CLIENT.name, world.CLUSTER_IP, HTTP, both_endpoints),
               [Rule("ServiceLB nw_dst=10.105.31.235"), Rule("EndpointDNAT nat(dst=10.10.0.24:80)"),
                Rule("EndpointDNAT nat(dst=10.10.1.6:80)")], BOTH)
        yield ("NodePort: client -> 192.168.77.102:30004", self.several(CLIENT.name, world.NODE, world.NODE_PORT,
                                                                       {"web2": "client", "peer": "client"}),
               [Rule("NodePortMark nw_dst=192.168.77.102"), Rule("ServiceLB tp_dst=30004")], BOTH)
        yield ("NodePort: outside -> 192.168.77.102:30004", self.several(OUTSIDE, world.NODE, world.NODE_PORT,
                                                                        {"web2": "outside", "peer": "gateway"}),
               [Rule("NodePortMark nw_dst=169.254.0.252"), Rule("ServiceLB tp_dst=30004"),
                Rule("SNAT nat(src=10.10.0.1) reg0=0x2/0xf")], BOTH)
        yield ("LoadBalancer: client -> 192.168.77.150", self.one(CLIENT.name, world.LOAD_BALANCER, HTTP, "web2", "client"),
               [Rule("ServiceLB nw_dst=192.168.77.150"), Rule("EndpointDNAT nat(dst=10.10.0.23:80)")], BOTH)
        yield ("LoadBalancer: outside -> 192.168.77.150", self.one(OUTSIDE, world.LOAD_BALANCER, HTTP, "web2", "outside"),
               [Rule("ServiceLB nw_dst=192.168.77.150"), Rule("L3Forwarding ct_mark=0x2/0xf")], BOTH)
        yield ("external IP: outside -> 192.168.77.200", self.several(OUTSIDE, world.EXTERNAL, HTTP,
                                                                      {"web2": "outside", "node": "virtual Service IP"}),
               [Rule("ServiceLB nw_dst=192.168.77.200"), Rule("SNAT nat(src=169.254.0.253)"), Rule("UnSNAT nw_dst=169.254.0.253"),
                Rule("Output ct_mark=0x40/0x40")], BOTH)

    def special_services(self):
        """Affinity, traffic policy, no Endpoint, hairpin."""
        yield ("session affinity: client -> 10.96.76.15, 8 times", self.affinity(CLIENT.name),
               [Rule("ServiceLB priority=190 nw_dst=10.96.76.15"), Rule("SessionAffinity nw_src=10.10.0.26 nw_dst=10.96.76.15", 7)], BOTH)
        yield ("session affinity to an Endpoint that is gone: gateway", self.stale_affinity,
               [Rule("SessionAffinity nw_src=10.10.0.1"), Rule("EndpointDNAT priority=190"), Rule("ServiceLB priority=190")], BOTH)
        yield ("ETP Local: outside -> 192.168.77.151, 8 times", self.several(OUTSIDE, world.LOCAL_POLICY, HTTP, {"web2": "outside"}, 8),
               [Rule("ServiceLB priority=200 nw_dst=192.168.77.151", 8)], BOTH)
        yield ("ETP Local: client -> 192.168.77.151", self.several(CLIENT.name, world.LOCAL_POLICY, HTTP,
                                                                   {"web2": "client", "peer": "client"}),
               [Rule("ServiceLB priority=210 nw_dst=192.168.77.151", 6)], BOTH)
        yield ("no Endpoint: client -> 10.101.255.29", self.refused(CLIENT.name, world.NO_ENDPOINT, HTTP, who=self.REFUSER),
               [Rule("ServiceLB nw_dst=10.101.255.29", 2), Rule("EndpointDNAT reg0=0x4000/0x4000", 2)], BOTH)
        yield ("hairpin: web2 -> 192.168.77.150 -> web2", self.one(WEB2.name, world.LOAD_BALANCER, HTTP, "web2", "gateway"),
               [Rule("SNATMark nw_src=10.10.0.23"), Rule("SNAT reg0=0x3/0xf"), Rule("UnSNAT nw_dst=10.10.0.1"),
                Rule("Output ct_mark=0x40/0x40")], BOTH)

    def affinity(self, source):
        """Eight connections, one Endpoint."""

        def run(family):
            answers = collections.Counter(self._ask(source, world.AFFINITY, HTTP, family)[0] for _ in range(8))
            if len(answers) != 1:
                raise Failure(f"several Endpoints answered: {dict(answers)}")
            return f"8× {next(iter(answers))}"

        return run

    def stale_affinity(self, family):
        """The document's learned rule sends the gateway to an Endpoint that EndpointDNAT does not
        know."""
        try:
            return f"{self._ask(NODE, world.AFFINITY, HTTP, family, DENIED_LIMIT)[0]} is selected instead"
        except Failure as error:
            if not isinstance(error.__cause__, TimeoutError):
                raise
            # The other Endpoint: only client may connect to web.
            return "web is selected instead, whose policy denies"

    def egress(self):
        """Out of the cluster."""
        yield ("Egress: web2 -> internet, marked for the Node's SNAT", self.one(WEB2.name, world.INTERNET, HTTP, "outside", "web2"),
               [Rule(f'EgressMark in_port="{WEB2.port}"'), Rule("L3Forwarding reg0=0x3/0xf")], BOTH)
        yield ("Egress on the peer: client -> internet", self.one(CLIENT.name, world.INTERNET, HTTP, "peer", "client"),
               [Rule(f'EgressMark priority=200 in_port="{CLIENT.port}"')], BOTH)
        yield ("no Egress to a Node: client -> 192.168.77.103", self.one(CLIENT.name, world.PEER_NODE, HTTP, "outside", "client"),
               [Rule("EgressMark nw_dst=192.168.77.103")], BOTH)
        yield ("no Egress to this Node: client -> 192.168.77.102", self.one(CLIENT.name, world.NODE, HTTP, "node", "client"),
               [Rule("EgressMark nw_dst=192.168.77.102"), Rule("IngressSecurityClassifier reg4=0x80000/0x80000")], BOTH)
        yield ("no Egress of ours: peer -> outside", self.denied(PEER, world.OUTSIDE, HTTP),
               [Rule("EgressMark priority=190 reg0=0x1/0xf")], BOTH)

    def peer(self):
        """The peer Node."""
        yield ("to the peer: client -> peer", self.watched(PEER, "eth0", _on_the_tunnel, self.one(CLIENT.name, world.REMOTE, HTTP, "peer", "client")),
               [Rule("L3Forwarding nw_dst=10.10.1.0/24"), Rule("L2ForwardingCalc dl_dst=aa:bb:cc:dd:ee:ff"), Rule("L3DecTTL priority=200")], BOTH)
        yield ("from the peer: peer -> web2", self.one(PEER, WEB2.v4, HTTP, "web2", "peer"),
               [Rule('Classifier in_port="antrea-tun0"'), Rule("L3Forwarding reg0=0x200/0x200 nw_dst=10.10.0.23")], BOTH)
        yield ("from the peer: peer -> db", self.one(PEER, DB.v4, MYSQL, "db", "peer"),
               [Rule("L3Forwarding reg0=0x200/0x200 nw_dst=10.10.0.25")], BOTH)
        yield ("ARP for the peer's gateway is answered: gateway -> peer", self.asked_anew, [Rule("ARPResponder arp_tpa=10.10.1.1")], (4,))

    def asked_anew(self, family):
        """The Node forgets who 10.10.1.1 is, and asks."""
        self.node.ip(NODE, "neighbour", "flush", "dev", GATEWAY, "to", world.REMOTE_GATEWAY)
        return self.one(NODE, world.REMOTE, HTTP, "peer", "gateway")(family)

    def spoofing(self):
        """Who says he is another."""
        yield ("ARP spoofing: client says it is db", self.spoofed(self._spoofed_arp), [Rule("ARPSpoofGuard priority=0")], (4,))
        yield ("neighbour spoofing: client says it is db", self.spoofed(self._spoofed_neighbour), [Rule("SpoofGuard priority=205")], (6,))
        yield ("IP spoofing: client sends as db to web2", self.spoofed(self._spoofed_ip), [Rule("SpoofGuard priority=0")], BOTH)

    def spoofed(self, frame):
        """A frame from client that must not reach web2."""

        def run(family):
            interface, after = self.node.interface(WEB2), f"after {time.monotonic_ns()}".encode()
            with traffic.Listener(self.space[WEB2.name], interface) as listener:
                data = frame(family)
                traffic.send_frame(self.space[CLIENT.name], self.node.interface(CLIENT), data)
                traffic.send_datagram(self.space[CLIENT.name], of(WEB2.v4, family), HTTP, after)
                frames = listener.frames(lambda frames: any(after in one for one in frames))
            if data in frames or not any(after in one for one in frames):
                raise Failure("the frame arrived" if data in frames else "what client sent as itself did not arrive")
            return "dropped"

        return run

    @staticmethod
    def _spoofed_arp(_family):
        mac = _mac(CLIENT.mac)
        return b"\xff" * 6 + mac + struct.pack("!HHHBBH", 0x806, 1, 0x800, 6, 4, 2) + mac + _ip(DB.v4) + b"\xff" * 6 + _ip(WEB2.v4)

    @staticmethod
    def _spoofed_neighbour(_family):
        advert = struct.pack("!BBHI", 136, 0, 0, 0x20000000) + _ip(DB.v6) + b"\2\1" + _mac(CLIENT.mac)
        head = struct.pack("!IHBB", 6 << 28, len(advert), 58, 255) + _ip(CLIENT.v6) + _ip(WEB2.v6)
        return _mac(WEB2.mac) + _mac(CLIENT.mac) + b"\x86\xdd" + head + advert

    @staticmethod
    def _spoofed_ip(family):
        segment = struct.pack("!HHIIBBHHH", 1000, HTTP, 1, 0, 0x50, 2, 1000, 0, 0)
        ends = _ip(of(DB.v4, family)) + _ip(of(WEB2.v4, family))
        if family == 4:
            head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0, 64, 6, 0)
            return _mac(WEB2.mac) + _mac(CLIENT.mac) + b"\x08\x00" + head + ends + segment
        return _mac(WEB2.mac) + _mac(CLIENT.mac) + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(segment), 6, 64) + ends + segment


def _ip(address):
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def _mac(address):
    return bytes.fromhex(address.replace(":", ""))


def _at_least(frames, number, what):
    if len(frames) < number:
        raise Failure(f"{len(frames)} {what}, expected {number} at least")
    return f"{len(frames)} {what}"


def _on_the_tunnel(frames):
    """What a frame for the peer looks like."""
    _at_least(frames, 3, "frames on the tunnel port")
    wrong = [frame[:14].hex() for frame in frames if frame[:6] != _mac(world.VIRTUAL_MAC) or frame[6:12] != _mac(world.GATEWAY_MAC)]
    hops = {frame[22] if frame[12:14] == b"\x08\x00" else frame[21] for frame in frames}
    if wrong or hops != {63}:
        raise Failure(f"frames on the tunnel port with wrong addresses ({wrong}), or TTLs {hops}")
    return f"{len(frames)} frames left on the tunnel port for {world.VIRTUAL_MAC}, TTL 63"
