"""Ports of Services at a Node's own addresses, which the host has connections from, too; and
Services whose Endpoints are on the host."""

import contextlib
import json
import socket
import struct

from .. import machine
from ..machine import Failure
from . import traffic, uplink_pair, world
from .actions import BOTH, HTTP, UNREACHABLE, of
from .crossing import SIDES, at, only
from .manifests import document, text_of, write
from .member import UNDERLAY
from .node import NODE, OUTSIDE
from .past_hosts import service
from .refusals_pair import NAMES
from .world import WEB2

ZONE, OF_SERVICES, OF_HOST = 64000, 1, 2  # of the tracker; marks there
OLDER_PORT, HOST_PORT, HOST_CLOSED_PORT, HEALTH_PORT = 30020, 30021, 30022, 30023
OLDER_SERVER = 5003  # a port outside
# Of the bridge's operator, beside ours.
COOKIE = "0x7"
OPERATORS = [f"priority=100,{ip},ct_state={state} actions={actions}" for ip in ("ip", "ipv6")
             for state, actions in (("-trk", "ct(table=0,zone=7)"), ("+trk", "NORMAL"))]
SIZES = (10, 4000)  # of datagrams: whole, and in fragments
MEGABYTE = 1 << 20


def _on_hosts():
    """Services whose Endpoints are the Nodes: one with servers, one where nobody listens."""
    for name, last, port, target, balanced in (("on-hosts", 70, HOST_PORT, HTTP, uplink_pair.HOSTED), ("on-hosts-closed", 71, HOST_CLOSED_PORT, world.NOBODY, None)):
        more = {"healthCheckNodePort": HEALTH_PORT} if balanced else {}
        yield service(name, last, {}, port=port, local=True, balanced=balanced, target=target, **more)
        ports = [{"name": word.lower(), "protocol": word, "port": target} for word in ("TCP", "UDP")]
        for side in SIDES:
            for family in BOTH:
                endpoint = {"addresses": [of(side.of(world.NODE), family)], "nodeName": NAMES[side.number]}
                yield document("discovery.k8s.io/v1", "EndpointSlice", f"{name}-{side.number}-{family}", "default",
                               {"labels": {"kubernetes.io/service-name": name}}, addressType=f"IPv{family}", ports=ports, endpoints=[endpoint])


class SharedPorts:
    """Scenes of `uplink`, the world outside."""

    def __init__(self, uplink):
        self.uplink, self.node = uplink, uplink.node

    def all(self):
        """In order."""
        one = SIDES[0]
        host, near, came = at(one, NODE), at(one, WEB2.name), "Classifier in_port=uplink0"
        yield f"a NodePort is the source port of {host} -> outside, TCP and UDP", self.own(one), only(one, came), BOTH
        yield f"ICMP error: {host} -> outside, from a NodePort, a closed port", self.closed(one), [], BOTH
        yield f"{host} -> outside is older than the NodePort that it comes from", self.older(one, near), only(one, came), BOTH
        with self.told(one, list(_on_hosts()), HOST_PORT, HOST_CLOSED_PORT):
            yield from self.on_the_host(one, host, came)
            yield from self.beside(one, host, came)

    def ending(self, side):
        """An Endpoint on the host is not ready any more: a connection that it has goes on, and new
        ones are refused, since no other Endpoint is local."""
        switch = self.uplink.switches[side]

        def ready(number):
            service_ = next(one for one in switch.json("antrea", "services") if one["name"] == "default/on-hosts")
            found = [each["endpoints"] for each in service_["ports"]]
            return {one["ready"] for endpoints in found for one in endpoints if one["node"] == NAMES[number]}

        def run(family):
            where = (self.node.names[OUTSIDE], of(side.of(world.NODE), family), HOST_PORT)
            text = self.uplink.file.read_text()
            documents = [json.loads(part) for part in text.split("---\n")]
            for one in documents:
                if one["metadata"]["name"].startswith(f"on-hosts-{side.number}-"):
                    one["endpoints"][0]["conditions"] = {"ready": False, "serving": False}
            with traffic.connect(*where) as client:
                self._hears(client, side)
                write(self.uplink.file, text_of(documents))
                try:
                    machine.expect("the Endpoint is not ready", lambda: ready(side.number) == {False}, lambda: ready(side.number))
                    self._hears(client, side)
                    self.uplink.refused(OUTSIDE, side.of(world.NODE), HOST_PORT)(family)
                    self.health(side, family, 0)
                finally:
                    write(self.uplink.file, text)
                    machine.expect("the Endpoint is ready", lambda: ready(side.number) == {True}, lambda: ready(side.number))
            return "it goes on, new ones are refused; the health check says 503"

        return run

    def _hears(self, client, side):
        """A connection of the client's is the host's, which sees it."""
        try:
            said = traffic.exchange(client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").decode().strip()
        except OSError as error:
            raise Failure(f"the connection broke: {error!r}") from error
        seen = client.getsockname()[0]
        if said != f"{at(side, NODE)} sees {seen}":
            raise Failure(f"{said}; the client is {seen}")

    def beside(self, side, host, came):
        """The same, while the bridge behind the uplink has flows of its operator, which track
        everything."""
        switch = self.uplink.switches[side]
        for line in OPERATORS:
            switch.vsctl("add-flow", UNDERLAY, f"cookie={COOKIE},table=0,{line}")
        try:
            yield f"beside the operator's flows: a NodePort is the source port of {host}", self.own(side), only(side, came), BOTH
            served = self.uplink.served(side.of(world.NODE), HOST_PORT, host, OUTSIDE, SIZES)
            yield f"beside the operator's flows: outside -> {host}, which sees its client", served, only(side, came), BOTH
            yield f"beside the operator's flows: ping {host} -> outside", self.counted(side), [], BOTH
        finally:
            switch.vsctl("del-flows", UNDERLAY, f"cookie={COOKIE}/-1")

    def counted(self, side):
        """The operator's flows take what is the host's, untracked at first."""

        def run(family):
            self.node.ping(at(side, NODE), of(world.OUTSIDE, family))
            flows = self.uplink.switches[side].json("dump-flows", UNDERLAY)
            missing = [flow["match"] for flow in flows if int(str(flow["cookie"]), 0) == int(COOKIE, 0) and not flow["packets"]]
            if missing:
                raise Failure(f"no packet met {missing}")
            return "each of them has taken packets"

        return run

    def on_the_host(self, side, host, came):
        """Services with policy Local whose Endpoints are on the Nodes themselves."""
        address, led = side.of(world.NODE), only(side, came, "EndpointDNAT priority=205 reg0=0x4/0xf", "Output ct_mark=0x100/0x100")
        for title, target, port in (("NodePort", address, HOST_PORT), ("LoadBalancer", uplink_pair.HOSTED, HTTP)):
            served = self.uplink.past_the_hosts(self.uplink.served(target, port, host, OUTSIDE, SIZES))
            yield f"{title}, policy Local: outside -> {host}, which sees its client", served, led, BOTH
        loads = lambda family: traffic.loads(self.node.names[OUTSIDE], of(address, family), HOST_PORT, 2, SIZES)  # noqa: E731
        yield f"much each way: outside -> NodePort -> {host}", self.uplink.past_the_hosts(loads), led, BOTH
        closed = self.uplink.refused(OUTSIDE, address, HOST_CLOSED_PORT, UNREACHABLE, host)
        yield f"a closed port: outside -> NodePort -> {host}", self.uplink.past_the_hosts(closed), led, BOTH
        yield f"directly, to the Endpoint's port: outside -> {host}", self.uplink.served(address, HTTP, host, OUTSIDE, SIZES), [], BOTH
        yield f"health check NodePort, by the agent: outside -> {host}", lambda family: self.health(side, family, 1), [], BOTH
        yield f"{host} is no Endpoint any more: its connection goes on", self.ending(side), only(side, came), BOTH

    def health(self, side, family, count):
        """A load balancer asks a Node's agent how many Endpoints it has."""
        address = of(side.of(world.NODE), family)
        url = f"http://{f'[{address}]' if family == 6 else address}:{HEALTH_PORT}/"
        ask = lambda: self.node.run(OUTSIDE, "curl", "-sS", "--noproxy", "*", "--max-time", machine.PATIENCE_S, "-w", "\n%{http_code}", url)  # noqa: E731
        expected = ({"service": {"namespace": "default", "name": "on-hosts"}, "localEndpoints": count, "serviceProxyHealthy": True}, 200 if count else 503)

        def heard():
            body, _, status = ask().rpartition("\n")
            return json.loads(body), int(status)

        machine.expect(f"the agent of node {side.number} tells {count} local Endpoints", lambda: heard() == expected, heard)
        return f"{expected[1]}, {count} local Endpoints" if count != 1 else "200, 1 local Endpoint"

    def own(self, side):
        """The host asks the world outside from a port that is a NodePort. A client comes by the
        NodePort meanwhile."""
        served = self.uplink.served(side.of(world.NODE), uplink_pair.NEAR_PORT, at(SIDES[0], WEB2.name), OUTSIDE, SIZES)

        def run(family):
            here, there = (of(side.of(world.NODE), family), uplink_pair.NEAR_PORT), (of(world.OUTSIDE, family), HTTP)
            with self.bound(side, here, socket.SOCK_STREAM, there) as stream, self.bound(side, here, traffic.DATAGRAM, there) as datagrams:
                self._asks(stream, datagrams, here)
                told = served(family)
                self._asks(stream, datagrams, here)
                self._marked(side, here, there)
            return f"{OUTSIDE} answers it before and after; {told}"

        return run

    @contextlib.contextmanager
    def bound(self, side, here, kind, there):
        """A socket of the host with an address and a port of its own choice, connected. It ends
        without TIME_WAIT."""
        with traffic.make_socket(self.node.names[at(side, NODE)], traffic.family_of(here[0]), kind) as made:
            made.settimeout(machine.PATIENCE_S)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if kind == socket.SOCK_STREAM:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            made.bind(here)
            try:
                made.connect(there)
            except OSError as error:
                raise Failure(f"{here[0]} port {here[1]} does not reach {there[0]} port {there[1]}: {error}") from error
            yield made

    def _asks(self, stream, datagrams, here):
        """Who is outside, and whom it sees; much by TCP, and datagrams in fragments."""
        expected = f"{OUTSIDE} sees {here[0]}"
        try:
            said = [traffic.exchange(stream, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").decode().strip()]
            came = len(traffic.exchange(stream, f"GET /{MEGABYTE} HTTP/1.1\r\nHost: x\r\n\r\n".encode()))
            datagrams.send(traffic.WHO)
            said.append(datagrams.recv(65535).decode())
            for size in SIZES:
                datagrams.send(traffic.PATTERN[:size])
                if datagrams.recv(65535) != traffic.PATTERN[:size]:
                    raise Failure(f"another datagram came back than the one of {size} bytes")
        except OSError as error:
            raise Failure(f"{here[0]} port {here[1]} has no answer: {error!r}") from error
        if said != [expected, expected] or came != MEGABYTE:
            raise Failure(f"{said}, {came} bytes; expected {expected!r}")

    def _marked(self, side, here, there):
        """The switch knows these as the host's, and a client's as a Service's."""
        lines = self.uplink.switches[side].vsctl("dump-conntrack", f"zone={ZONE}").splitlines()
        host = [line for line in lines if f"orig=(src={here[0]},dst={there[0]},sport={here[1]},dport={there[1]})" in line]
        client = [line for line in lines if f"orig=(src={there[0]},dst={here[0]}," in line and f"dport={here[1]})" in line]
        for found, mark in ((host, OF_HOST), (client, OF_SERVICES)):
            if {line.split(",")[0] for line in found} != {"tcp", "udp"} or any(f"mark={mark}" not in line for line in found):
                raise Failure(f"expected mark {mark} at {found}; zone {ZONE} has {lines}")

    def closed(self, side):
        """The host asks a port where nobody listens."""

        def run(family):
            here, there = (of(side.of(world.NODE), family), uplink_pair.NEAR_PORT), (of(world.OUTSIDE, family), world.NOBODY)
            with self.bound(side, here, traffic.DATAGRAM, there) as datagrams:
                datagrams.send(b"who is there?")
                try:
                    raise Failure(f"expected a refusal, got {datagrams.recv(65535)}")
                except OSError as error:
                    if error.errno != UNREACHABLE[family]:
                        raise Failure(f"expected {UNREACHABLE[family]}, got {error!r}") from error
            return "the host hears of it"

        return run

    def older(self, side, near):
        """The host's connection goes on when its source port becomes a NodePort, though the other
        end is the first to speak."""
        asked = self.uplink.one(OUTSIDE, side.of(world.NODE), OLDER_PORT, near, OUTSIDE)

        def run(family):
            here, there = (of(side.of(world.NODE), family), OLDER_PORT), (of(world.OUTSIDE, family), OLDER_SERVER)
            with traffic.make_socket(self.node.names[OUTSIDE], traffic.family_of(there[0]), socket.SOCK_STREAM) as server:
                server.settimeout(machine.PATIENCE_S)
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind(there)
                server.listen()
                with self.bound(side, here, socket.SOCK_STREAM, there) as own:
                    other, _ = server.accept()
                    with other, self.told(side, [service("older", 69, {"app": WEB2.name, "node": "1"}, port=OLDER_PORT)], OLDER_PORT):
                        other.settimeout(machine.PATIENCE_S)
                        self._speak(other, own)
                        self._speak(own, other)
                        told = asked(family)
                        self._speak(other, own)
            return f"it goes on; by the NodePort {told}"

        return run

    @staticmethod
    def _speak(source, target):
        """What one end says, the other one hears."""
        try:
            source.sendall(traffic.PATTERN[:3000])
            heard = b""
            while len(heard) < 3000 and (data := target.recv(3000)):
                heard += data
        except OSError as error:
            raise Failure(f"a connection of the host broke: {error!r}") from error
        if heard != traffic.PATTERN[:3000]:
            raise Failure(f"of 3,000 bytes {len(heard)} came")

    @contextlib.contextmanager
    def told(self, side, documents, *ports):
        """Meanwhile the agents know these documents, too. Waits until a Node leads packets for
        these NodePorts to its Pods' bridge, and at the end until it does not any more."""
        text = self.uplink.file.read_text()
        write(self.uplink.file, f"{text}---\n{text_of(documents)}")
        flows = lambda: [flow["match"] for flow in self.uplink.switches[side].json("dump-flows", UNDERLAY)]  # noqa: E731
        there = lambda: [port for port in ports if any(f"tp_dst={port}" in match for match in flows())]  # noqa: E731
        try:
            machine.expect(f"node {side.number} serves NodePorts {ports}", lambda: there() == list(ports), flows)
            yield
        finally:
            write(self.uplink.file, text)
            machine.expect(f"node {side.number} serves {ports} no more", lambda: not there(), flows)
