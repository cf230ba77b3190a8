"""Real stacks at work through every kind of Service: large transfers, fragments, ICMP errors, curl,
iperf3."""

import contextlib
import re
import shutil
import subprocess

from .. import machine, netns
from ..machine import Failure
from . import traffic, world
from .actions import ALT, BOTH, HTTP, MYSQL, PING_S, of
from .ledger import Rule
from .node import NODE, OUTSIDE, PEER
from .world import CLIENT, DB, WEB2

MEGABYTES = 8
DATAGRAMS = (10, 1472, 8000, 60000)  # bytes: whole ones, and 6 and 41 fragments

# Kinds of Service: (who calls which, address, port, the rule of ServiceLB).
KINDS = (
    ("no Service: client -> web2", CLIENT.name, WEB2.v4, HTTP, None),
    ("ClusterIP: client", CLIENT.name, world.CLUSTER_IP, HTTP, "nw_dst=10.105.31.235"),
    ("session affinity: client", CLIENT.name, world.AFFINITY, HTTP, None),
    ("NodePort: client", CLIENT.name, world.NODE, world.NODE_PORT, "tp_dst=30004"),
    ("NodePort: outside", OUTSIDE, world.NODE, world.NODE_PORT, "tp_dst=30004"),
    ("LoadBalancer: client", CLIENT.name, world.LOAD_BALANCER, HTTP, "nw_dst=192.168.77.150"),
    ("LoadBalancer: outside", OUTSIDE, world.LOAD_BALANCER, HTTP, "nw_dst=192.168.77.150"),
    ("external IP: outside", OUTSIDE, world.EXTERNAL, HTTP, "nw_dst=192.168.77.200"),
    ("ETP Local: outside", OUTSIDE, world.LOCAL_POLICY, HTTP, "nw_dst=192.168.77.151"),
    ("hairpin: web2", WEB2.name, world.LOAD_BALANCER, HTTP, "nw_dst=192.168.77.150"),
)


class Stacks:
    """Scenes like those of `Scenes`: (title, action, rules, IP versions)."""

    def __init__(self, node, servers, seconds, cores):
        self.node, self.servers, self.seconds, self.cores = node, servers, seconds, cores

    def all(self):
        """In order."""
        for title, source, address, port, rule in KINDS:
            rules = [Rule(f"ServiceLB {rule}", 1 + len(DATAGRAMS))] if rule else []
            yield (title, self.both_protocols(source, address, port), rules, BOTH)
        yield ("ping, 4,000 and 20,000 bytes: client, peer, internet", self.large_pings,
               [Rule("L3Forwarding nw_dst=10.10.1.0/24")], BOTH)
        yield ("TTL 1, 2: db -> internet, as traceroute does", self.hops, [Rule("AntreaPolicyIngressRule ct_state=-new+rel")], BOTH)
        yield ("UDP to a closed port of LoadBalancer's Endpoint", self.closed_port, [Rule("AntreaPolicyEgressRule ct_state=-new+rel")], BOTH)
        yield ("curl: client -> ClusterIP", self.curl, [Rule("ServiceLB nw_dst=10.105.31.235", 8)], BOTH)
        yield ("iperf3: client -> LoadBalancer", self.iperf, [Rule("ServiceLB nw_dst=192.168.77.150", 2)], BOTH)

    def both_protocols(self, source, address, port):
        """Much each way by TCP, and datagrams."""
        return lambda family: traffic.loads(self.node.names[source], of(address, family), port, MEGABYTES, DATAGRAMS)

    def large_pings(self, family):
        """Echo requests in fragments, and their answers."""
        for source, target in ((CLIENT.name, DB.v4), (CLIENT.name, world.REMOTE), (DB.name, world.INTERNET), (NODE, WEB2.v4), (PEER, WEB2.v4)):
            for size in (4000, 20000):
                self.node.ping(source, of(target, family), size)
        return "all answered"

    def hops(self, family):
        """The gateway says that the TTL of 1 ran out; 2 are enough."""
        gateway = of(world.GATEWAY_IP, family)
        words = ("ping", "-n", "-c", "1", "-W", str(PING_S))
        try:
            said = self.node.run(DB.name, "sh", "-c", f"{' '.join(words)} -t 1 {of(world.INTERNET, family)} || true")
        except Failure as error:
            raise Failure(f"TTL 1: {error}") from error
        if not re.search(rf"From {re.escape(gateway)}\b.*exceeded", said):
            raise Failure(f"TTL 1: no word from {gateway}: {said}")
        self.node.run(DB.name, *words, "-t", "2", of(world.INTERNET, family))
        return "the gateway says so; the internet answers"

    def closed_port(self, family):
        """The ICMP error of the Endpoint comes back as the Service's: only so does the socket take
        it."""
        self.servers.close_echo(WEB2.name)
        try:
            traffic.datagram(self.node.names[CLIENT.name], of(world.LOAD_BALANCER, family), HTTP, 100)
        except ConnectionRefusedError:
            return "the Endpoint's ICMP error comes back as the Service's"
        except OSError as error:
            raise Failure(f"expected a refusal, got {error!r}") from error
        finally:
            self.servers.open_echo(WEB2.name)
        raise Failure("expected a refusal, got an echo")

    def curl(self, family):
        """8 MiB, eight times, if curl is there."""
        if not shutil.which("curl"):
            raise Failure("curl is not installed; run tools/setup")
        address = of(world.CLUSTER_IP, family)
        url = f"http://{f'[{address}]' if family == 6 else address}/{MEGABYTES << 20}"
        for _ in range(8):
            said = self.node.run(CLIENT.name, "curl", "-sS", "--noproxy", "*", "--max-time", machine.PATIENCE_S, "-o", "/dev/null", "-w", "%{size_download}", url)
            if int(said) != MEGABYTES << 20:
                raise Failure(f"{said} bytes came")
        return f"8× {MEGABYTES} MiB"

    def iperf(self, family):
        """A stream, through the Service."""
        address = of(world.LOAD_BALANCER, family)
        tcp, udp = self.streams(CLIENT.name, WEB2.name, address, [], ["-u", "-b", "50M", "-l", "1200"])
        return f"TCP {tcp:.0f} Mbit/s, UDP {udp:.0f} of 50"

    def streams(self, client, server, address, *kinds):
        """Mbit/s that arrived at the server, or (-R) at the client, for each of these arguments of
        iperf3."""
        self.servers.close_web(server)
        try:
            rates = [self._stream(client, server, address, words)["mbps"] for words in kinds]
        finally:
            self.servers.open_web(server)
        if min(rates) < 1:
            raise Failure(f"{', '.join(f'{rate:.2f}' for rate in rates)} Mbit/s")
        return rates

    def _stream(self, client, server, address, words):
        """One, to a server of its own: between two, a server of iperf3 refuses."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = self.node.spaces[server].spawn("iperf3", "-s", "-1", "-p", HTTP, use_cores=self.cores, **quiet)
        try:
            machine.expect("iperf3 listens", lambda: f":{HTTP} " in self.node.run(server, "ss", "-Hltn"))
            return netns.iperf_result(self.node.run(client, "iperf3", "-c", address, "-p", HTTP, "-J", "-t", self.seconds, *words, timeout=self.seconds + machine.PATIENCE_S))
        finally:
            machine.end(process)


class Servers:
    """Who answers in which namespace, until `stack` ends."""

    def __init__(self, node, labels, stack):
        self.node, self.stack, self.open = node, stack, {}
        for short in labels:
            for port in (ALT, MYSQL):
                traffic.serve(node.names[short], short, port, stack)
            self.open_web(short)
            self.open_echo(short)

    def open_web(self, short):
        """TCP on port 80."""
        self._open("web", short, lambda stack: traffic.serve(self.node.names[short], short, HTTP, stack))

    def open_echo(self, short):
        """UDP on port 80."""
        self._open("echo", short, lambda stack: traffic.echo_datagrams(self.node.names[short], HTTP, stack, short))

    def close_web(self, short):
        """Nobody answers TCP on port 80 there any more."""
        self.open["web", short].close()

    def close_echo(self, short):
        """Nobody answers UDP on port 80 there any more."""
        self.open["echo", short].close()

    def _open(self, what, short, start):
        # A stack that was closed can be used again.
        if (what, short) not in self.open:
            self.open[what, short] = self.stack.enter_context(contextlib.ExitStack())
        start(self.open[what, short])
