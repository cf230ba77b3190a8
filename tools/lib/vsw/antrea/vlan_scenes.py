"""Pods of the network between Nodes, on real traffic: who reaches whom, in which VLAN and zone; who
is denied; who says he is another. The cluster is in `vlans.py`."""

import socket
import struct
import time

from ..machine import Failure
from . import traffic
from .actions import ALT, BOTH, HTTP, PROHIBITED, Actions, of
from .agent import checksum
from .ledger import Rule
from .three import SERVICES
from .unanswered import DATAGRAMS, same_endpoint
from .vlans import BLUE, FLAT, HOSTS, LINKS, NOBODYS, ONE, PLAIN, PODS, RED1, RED2, RED3, REDS, REFUSED, ROUTER, TWO, in_vlan

STRANGER = "02:00:00:0b:66:66"  # somebody on the wire


def on(host, *texts):
    """Rules of a Node."""
    return [(host.name, Rule(text)) for text in texts]


TO_WIRE, BY_WIRE = "L3Forwarding priority=216", "Classifier priority=225"
ZONES = {4: 0x1000, 6: 0x3000}


class Vlans(Actions):
    """Scenes: (title, action, rules, versions of IP)."""

    def __init__(self, trunk, switches):
        owners = {pod.address: pod.name for pod in PODS} | {f"{link}.1": ROUTER for link in LINKS.values()}
        super().__init__(trunk, owners | {host.address: host.space for host in HOSTS} | {f"{ONE.prefix}.1": "gateway"})
        self.switches = switches

    def all(self):
        """In order."""
        yield from self.reached()
        yield from self.denied_and_refused()
        through = self.several(RED1.name, REDS, HTTP, {RED2.name: RED1.name, RED3.name: RED1.name})
        yield "red1 -> ClusterIP -> red2 here, red3 there", through, on(ONE, f"ServiceLB nw_dst={REDS}", TO_WIRE), BOTH
        unanswered = same_endpoint(self.node, {pod.name: "eth0" for pod in (RED2, RED3)}, RED1.name, REDS, HTTP)
        again = [(ONE.name, Rule(f"ServiceLB reg4=0x40000/0x70000 nw_dst={REDS}", DATAGRAMS - 1))]
        yield f"{DATAGRAMS} datagrams, no answer: red1 -> ClusterIP", unanswered, again, BOTH
        themselves = {RED2.name: "gateway", RED3.name: RED2.name}
        yield "red2 -> ClusterIP -> itself, red3", self.several(RED2.name, REDS, HTTP, themselves), on(ONE, "Output ct_mark=0x40/0x40"), BOTH
        yield "a Traceflow tells the VLAN: red1 -> red3", self.traced, on(ONE, TO_WIRE), BOTH
        yield "a VLAN without its Pod: nothing is delivered", self.in_another_vlan, on(TWO, "Classifier priority=224"), BOTH
        yield from self.impostors()
        tagged = on(ONE, "PipelineRootClassifier priority=210", BY_WIRE)
        yield "router -> flat, with a priority and no VLAN", self.with_priority, tagged, BOTH

    def reached(self):
        """Who reaches whom, and where it goes by."""
        for source, target, rules in (
            (ROUTER, RED1, on(ONE, BY_WIRE)),
            (ROUTER, RED3, on(TWO, BY_WIRE)),
            (ROUTER, FLAT, on(ONE, BY_WIRE)),
            (RED1, RED2, on(ONE, "L3Forwarding priority=218")),
            (RED1, RED3, on(ONE, TO_WIRE, "VLAN push_vlan:0x8100") + on(TWO, BY_WIRE, "VLAN pop_vlan")),
            (RED3, RED1, on(TWO, TO_WIRE) + on(ONE, BY_WIRE)),
            (FLAT, RED3, on(ONE, TO_WIRE) + on(TWO, BY_WIRE)),
        ):
            name = getattr(source, "name", source)
            yield f"{name} -> {target.name}", self.served(name, target.address, target.name, name), rules, BOTH
        yield "red1 -> router", self.served(RED1.name, RED1.router, ROUTER, RED1.name), on(ONE, TO_WIRE), BOTH
        yield "flat -> its Node", self.served(FLAT.name, ONE.address, ONE.space, FLAT.name), on(ONE, TO_WIRE), BOTH
        yield "its Node -> flat", self.served(ONE.space, FLAT.address, FLAT.name, ONE.space), on(ONE, BY_WIRE), BOTH
        yield "plain, by its host and the router -> red1", self.served(PLAIN.name, RED1.address, RED1.name, ONE.space), on(ONE, BY_WIRE), BOTH
        yield "red1, by the router -> blue: two VLANs, two zones", self.two_zones, on(ONE, TO_WIRE, BY_WIRE), BOTH

    def served(self, source, address, who, sees):
        """TCP, and datagrams, whole and in fragments."""
        asked = self.one(source, address, HTTP, who, sees)

        def run(family):
            told = asked(family)
            for size in (10, 4000):
                try:
                    traffic.datagram(self.space[source], of(address, family), HTTP, size)
                except OSError as error:
                    raise Failure(f"UDP, {source} and {of(address, family)}, {size} bytes: {error!r}") from error
            return told

        return run

    def two_zones(self, family):
        """One connection, seen twice: each VLAN's zone has it, with the same tuple."""
        told = self.served(RED1.name, BLUE.address, BLUE.name, RED1.name)(family)
        source, target = of(RED1.address, family), of(BLUE.address, family)
        seen = {}
        for pod in (RED1, BLUE):
            lines = self.switches[ONE.name].vsctl("dump-conntrack", f"zone={ZONES[family] + pod.vlan}").splitlines()
            seen[pod] = {line.split("reply=")[0] for line in lines if "tcp" in line and f"src={source}," in line and f"dst={target}," in line}
        if not seen[RED1] or seen[RED1] != seen[BLUE]:
            raise Failure(f"connections of red1 with blue in their zones: {seen[RED1]}, {seen[BLUE]}")
        return f"{told}, in both zones"

    def denied_and_refused(self):
        """By policies of who sends, and of who receives, wherever the other end is."""
        yield "egress: red1 -> router, dropped", self.denied(RED1.name, RED1.router, ALT), on(ONE, "EgressMetric priority=201"), BOTH
        yield "egress: red1 -> router, refused", self.refused(RED1.name, RED1.router, REFUSED, PROHIBITED), on(ONE, "EgressMetric priority=201"), BOTH
        for source, target in ((ROUTER, RED2), (RED1.name, RED2), (RED3.name, RED2), (ROUTER, RED3), (RED1.name, RED3)):
            rules = on(target.host, "IngressMetric priority=201")
            yield f"ingress: {source} -> {target.name}, dropped", self.denied(source, target.address, ALT), rules, BOTH
            yield f"ingress: {source} -> {target.name}, refused", self.refused(source, target.address, REFUSED, PROHIBITED), rules, BOTH
        # Nobody on a wire is taken for the host itself.
        yield "ingress: its Node -> flat, dropped", self.denied(ONE.space, FLAT.address, ALT), on(ONE, "IngressMetric priority=201"), BOTH

    def traced(self, family):
        """Where it left, and in which VLAN."""
        told = self.switches[ONE.name].json("antrea", "trace-flow", f"default/{RED1.name}", of(RED3.address, family))
        left = [(one["table"], one["vlan"]) for one in told["observations"]][-1]
        if left != ("Output", RED1.vlan):
            raise Failure(f"it left by {left}: {told['observations']}")
        return f"it left in VLAN {RED1.vlan}"

    def in_another_vlan(self, family):
        """The router has a way to Pods of both Nodes by a VLAN that is not theirs, and knows their
        MAC addresses."""
        interface = in_vlan(NOBODYS)
        ways = [(pod, of(pod.address, family)) for pod in (RED1, RED3)]
        try:
            for pod, address in ways:
                self.node.ip(ROUTER, "route", "add", address, "dev", interface)
                self.node.ip(ROUTER, "neighbour", "replace", address, "lladdr", pod.mac, "dev", interface, "nud", "permanent")
            for pod, _ in ways:
                self.denied(ROUTER, pod.address, HTTP)(family)
        finally:
            for pod, address in ways:
                self.node.ip(ROUTER, "route", "del", address, "dev", interface)
                self.node.ip(ROUTER, "neighbour", "del", address, "dev", interface)
        return "no answer"

    def with_priority(self, family):
        """Tagged packets to a Pod that is in no VLAN."""
        with self.node.priorities(ONE, of(FLAT.address, family)):
            return self.one(ROUTER, FLAT.address, HTTP, FLAT.name, ROUTER)(family)

    def impostors(self):
        """Somebody on the wire says that he has an address of ours."""
        pods, services = f"{ONE.prefix}.0/24", SERVICES
        yield "the wire, as an ordinary Pod -> red1", self.sent_as(f"{ONE.prefix}.77", RED1), on(ONE, f"Classifier priority=228 nw_src={pods}"), BOTH
        yield "the wire, as a Service -> red3", self.sent_as("10.96.0.77", RED3), on(TWO, f"Classifier priority=228 nw_src={services}"), BOTH
        said = on(ONE, f"ARPSpoofGuard priority=211 arp_spa={RED2.address}")
        yield "the wire says to red1 that it is red2: ARP", self.said(_arp), said, BOTH[:1]
        said = on(ONE, f"Classifier priority=228 nd_target={of(RED2.address, 6)}")
        yield "the wire says to red1 that it is red2: neighbours", self.said(_advertisement), said, BOTH[1:]

    def sent_as(self, source, pod):
        """The router has this address and asks the Pod, which would answer by the router."""

        def run(family):
            mine, target, interface = of(source, family), of(pod.address, family), in_vlan(pod.vlan)
            try:
                self.node.ip(ROUTER, "address", "add", f"{mine}/{32 if family == 4 else 128}", "dev", "lo", *([] if family == 4 else ["nodad"]))
                self.node.ip(ROUTER, "route", "add", target, "dev", interface, "src", mine)
                return self.denied(ROUTER, pod.address, HTTP)(family)
            finally:
                self.node.ip(ROUTER, "route", "del", target, "dev", interface)
                self.node.ip(ROUTER, "address", "del", f"{mine}/{32 if family == 4 else 128}", "dev", "lo")

        return run

    def said(self, frame):
        """What the wire says to red1, before something else that arrives there."""

        def run(family):
            after = f"after {time.monotonic_ns()}".encode()
            with traffic.Listener(self.space[RED1.name], "eth0") as listener:
                traffic.send_frame(self.space[ROUTER], in_vlan(RED1.vlan), frame())
                traffic.send_datagram(self.space[ROUTER], of(RED1.address, family), REFUSED, after)
                frames = listener.frames(lambda frames: any(after in one for one in frames))
            if frame() in frames or not any(after in one for one in frames):
                raise Failure("red1 hears it" if frame() in frames else "what the router sends as itself does not arrive")
            return "red1 does not hear it"

        return run


def _mac(text):
    return bytes.fromhex(text.replace(":", ""))


def _arp():
    """An answer that nobody has asked for: red2 is the stranger."""
    head = _mac(RED1.mac) + _mac(STRANGER) + struct.pack("!HHHBBH", 0x806, 1, 0x800, 6, 4, 2)
    return head + _mac(STRANGER) + socket.inet_aton(RED2.address) + _mac(RED1.mac) + socket.inet_aton(RED1.address)


def _advertisement():
    """The same of IPv6, from the router's address."""
    router, target, told = (socket.inet_pton(socket.AF_INET6, of(address, 6)) for address in (RED1.router, RED1.address, RED2.address))
    advert = struct.pack("!BBHI", 136, 0, 0, 0x20000000) + told + b"\2\1" + _mac(STRANGER)
    total = checksum(router + target + struct.pack("!II", len(advert), 58) + advert)
    head = struct.pack("!IHBB", 6 << 28, len(advert), 58, 255) + router + target
    return _mac(RED1.mac) + _mac(STRANGER) + b"\x86\xdd" + head + advert[:2] + struct.pack("!H", total) + advert[4:]
