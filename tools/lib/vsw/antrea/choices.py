"""Services whose endpoints are chosen by Maglev, a Service of 5,000 endpoints, and affinity of a
day: manifests and scenes."""

import socket
import struct
import time

from .. import machine
from ..machine import Failure
from . import traffic, world
from .actions import BOTH, HTTP, of
from .ledger import Rule
from .manifests import write
from .node import PEER
from .world import CLIENT, WEB, WEB2

EVEN, CROWD, DAY = "10.105.31.146", "10.105.31.147", "10.105.31.148"
FILE = "choices.yaml"
NODE_OF = {WEB.name: "k8s-node-control-plane", WEB2.name: "k8s-node-control-plane", PEER: "k8s-node-worker-1"}
ADDRESS_OF = {WEB.name: WEB.v4, WEB2.name: WEB2.v4, PEER: world.REMOTE}

PORTS = range(41000, 41048)  # of the client: as many connections
# The crowd: addresses of the other Node that all lead to its one Pod there, by ports that all lead
# to its server.
CROWD_PORTS = range(8000, 8040)
CROWD_OF_A_PORT = 125
CROWD_NETS = ("10.10.1.128/25", "fd00:10:10:1::1:0/112")
CROWD_RULES = """table inet crowd { chain ports { type nat hook prerouting priority dstnat; tcp dport 8000-8039 redirect to :80; }; }"""
CROWD_ASKED = 100
DAY_SECONDS = 86_400

SERVICE = """apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: default
  annotations: {{vswitch/selection: {selection}}}
spec:
  clusterIPs: ["{v4}", "{v6}"]
  ipFamilies: [IPv4, IPv6]
  ports:
    - {{name: http, protocol: TCP, port: 80}}
{more}---
"""
AFFINITY = f"""  sessionAffinity: ClientIP
  sessionAffinityConfig: {{clientIP: {{timeoutSeconds: {DAY_SECONDS}}}}}
"""
SLICE = """apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {service}-{family}-{port}
  namespace: default
  labels:
    kubernetes.io/service-name: {service}
addressType: IPv{family}
ports:
  - {{name: http, protocol: TCP, port: {port}}}
endpoints:
{endpoints}---
"""


def _service(name, v4, selection, more=""):
    return SERVICE.format(name=name, v4=v4, v6=world.six(v4), selection=selection, more=more)


def _slice(service, family, port, endpoints):
    """`endpoints`: pairs of an address and its Node."""
    lines = "".join(f'  - {{addresses: ["{address}"], nodeName: {node}}}\n' for address, node in endpoints)
    return SLICE.format(service=service, family=family, port=port, endpoints=lines)


def _few(service, places):
    """Endpoints of a Service: {family: places}."""
    return "".join(_slice(service, family, HTTP, [(of(ADDRESS_OF[place], family), NODE_OF[place]) for place in places[family]]) for family in (4, 6))


def _crowd():
    """Slices of 5,000 endpoints of each family."""
    addresses = {4: [f"10.10.1.{128 + i}" for i in range(CROWD_OF_A_PORT)], 6: [f"fd00:10:10:1::1:{i + 1:x}" for i in range(CROWD_OF_A_PORT)]}
    return "".join(_slice("crowd", family, port, [(address, NODE_OF[PEER]) for address in addresses[family]]) for family in (4, 6) for port in CROWD_PORTS)


class Choices:
    """The scenes. They bring their manifest, and take it away."""

    def __init__(self, scenes):
        self.node, self.switch, self.manifests, self.space = scenes.node, scenes.switch, scenes.manifests, scenes.space
        self.file = self.manifests.directory / FILE
        self.seconds = 0.0

    def all(self):
        """As `Scenes.all`."""
        everybody = dict.fromkeys((4, 6), tuple(ADDRESS_OF))
        try:
            self._even(everybody)
            yield ("Maglev: an Endpoint leaves, and comes back: client -> 10.105.31.146", self.holds,
                   [Rule("ServiceLB nw_dst=10.105.31.146", len(PORTS))], BOTH)
            yield ("affinity of a day: client -> 10.105.31.148", self.day, [Rule("SessionAffinity nw_dst=10.105.31.148")], BOTH)
            for net in CROWD_NETS:
                self.node.ip(PEER, "route", "add", "local", net, "dev", "lo")
            self.node.run(PEER, "nft", CROWD_RULES)
            began = time.monotonic()
            write(self.file, _service("crowd", CROWD, "Maglev") + _crowd())
            machine.expect("the switch has 5,000 buckets, twice", lambda: len(self._crowds()) == len(BOTH), self._crowds)
            self.seconds = time.monotonic() - began
            yield (f"5,000 Endpoints, {CROWD_ASKED} connections: client -> 10.105.31.147", self.crowd,
                   [Rule("ServiceLB nw_dst=10.105.31.147", CROWD_ASKED)], BOTH)
        finally:
            self.file.unlink(missing_ok=True)
        # What follows looks at flows.
        machine.expect("the switch does without", lambda: not self._is_there("crowd"))

    def _even(self, places):
        """Has the Service that chooses by Maglev have these endpoints."""
        even, day = _service("even", EVEN, "Maglev") + _few("even", places), _service("day", DAY, "DpHash", AFFINITY)
        write(self.file, even + day + _few("day", dict.fromkeys((4, 6), (WEB2.name, PEER))))
        expected = sorted(of(ADDRESS_OF[place], family) for family in (4, 6) for place in places[family])

        def there():
            services = self.switch.json("antrea", "services")
            ports = (port for service in services if service["name"] == "default/even" for port in service["ports"])
            return sorted(endpoint["address"] for port in ports for endpoint in port["endpoints"])

        machine.expect(f"the switch has the Endpoints {expected}", lambda: there() == expected, there)

    def _is_there(self, name):
        return any(service["name"] == f"default/{name}" for service in self.switch.json("antrea", "services"))

    def holds(self, family):
        """Connections from the same port go to the same Endpoint, as long as it is there; whose
        goes finds another one, and the first one when it is back."""
        everybody = dict.fromkeys((4, 6), tuple(ADDRESS_OF))
        before = self._answers(family)
        spread = {place: sum(who == place for who in before.values()) for place in ADDRESS_OF}
        if min(spread.values()) < len(PORTS) // 6:
            raise Failure(f"{len(PORTS)} connections are spread like this: {spread}")
        self._even({**everybody, family: (WEB.name, PEER)})
        without = self._answers(family)
        moved = [port for port, who in before.items() if who != WEB2.name and without[port] != who]
        if moved or WEB2.name in without.values():
            raise Failure(f"web2 left; connections from {moved} moved, though their Endpoint is there; now: {without}")
        self._even(everybody)
        if self._answers(family) != before:
            raise Failure("web2 is back, and not all connections go where they went")
        return ", ".join(f"{place} {count}" for place, count in spread.items()) + "; web2 leaves: no other connection moves; back: as before"

    def _answers(self, family):
        """{port of the client: who answers}."""
        return {port: self._from_port(of(EVEN, family), port) for port in PORTS}

    def _from_port(self, address, port):
        """Who answers a connection from this port; it ends by a reset, so that another one may
        begin there."""
        with traffic.make_socket(self.space[CLIENT.name], traffic.family_of(address), socket.SOCK_STREAM) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.settimeout(machine.PATIENCE_S)
            client.bind(("", port))
            client.connect((address, HTTP))
            text = traffic.exchange(client, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").decode()
        return text.partition(" sees ")[0]

    def day(self, family):
        """The learned flow lasts as long as the manifest says."""
        first, again = (traffic.ask(self.space[CLIENT.name], of(DAY, family), HTTP)[0] for _ in range(2))
        if first != again:
            raise Failure(f"{first}, then {again}")
        flows = self.switch.json("dump-flows", "--names", "br0", "table=SessionAffinity")
        timeouts = [flow["hard_timeout"] for flow in flows if of(DAY, family) in flow["match"]]
        if timeouts != [DAY_SECONDS]:
            raise Failure(f"learned flows have hard timeouts {timeouts}")
        return f"2× {first}; learned with hard_timeout={DAY_SECONDS}"

    def crowd(self, family):
        """Every connection is answered, and they are spread."""
        before = self._used()
        for _ in range(CROWD_ASKED):
            who, _ = traffic.ask(self.space[CLIENT.name], of(CROWD, family), HTTP)
            if who != PEER:
                raise Failure(f"{who} answered")
        used = lambda: sum(new > old for old, new in zip(before, self._used(), strict=True))  # noqa: E731
        machine.expect(f"{CROWD_ASKED} connections have gone to nearly as many Endpoints", lambda: used() >= CROWD_ASKED * 9 // 10, used)
        return f"{CROWD_ASKED} answered by {used()} Endpoints, of 2× 5,000, which were there {self.seconds:.1f} s after they were written"

    def _crowds(self):
        """Ids of groups of 5,000 buckets that choose by Maglev."""
        groups = self.switch.json("dump-groups", "br0")
        many = CROWD_OF_A_PORT * len(CROWD_PORTS)
        return {group["group"] for group in groups if group["selection_method"] == "maglev" and len(group["buckets"]) == many}

    def _used(self):
        """Packets of each bucket of these groups."""
        crowds = self._crowds()
        statistics = self.switch.json("dump-group-stats", "br0")
        return [bucket["packets"] for group in statistics if group["group"] in crowds for bucket in group["buckets"]]

