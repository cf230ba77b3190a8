"""Three hosts in network namespaces, wired to one switch that learns in three ways, and traffic
between them."""

import contextlib
import itertools
import signal
import subprocess
import time

from . import daemon, live, machine, netns
from .machine import Failure, Stop
from .stage import Stage, say

LOSS_MAX_PERCENT = 5.0


class Hosts(Stage):
    """The switch, its three hosts, and the results so far."""

    def __init__(self, args, stack):
        super().__init__(args, stack)
        self.results = []

    def start(self, binaries):
        """Namespaces, the switch, and the wires between."""
        self.hosts = []
        for index, letter in enumerate("abc", 1):
            name = f"{self.tag}-{letter}"
            self.leftovers.add(namespace=name)
            self.stack.callback(netns.remove_namespace, name)
            self.hosts.append(netns.Host(name, index))
        veth, tap, internal = (f"{self.tag}-{letter}0" for letter in "abc")
        self.leftovers.add(interface=veth)
        self.stack.callback(lambda: veth in netns.interfaces() and netns.ip("link", "delete", veth))
        netns.ip("link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", self.hosts[0].name)
        netns.ip("link", "set", veth, "addrgenmode", "none")
        netns.ip("link", "set", veth, "up")
        ports = [
            {"name": f"{self.tag}-a", "number": 1, "type": "af_packet", "interface": veth},
            {"name": f"{self.tag}-b", "number": 2, "type": "tap", "interface": tap},
            {"name": internal, "number": 3, "type": "internal"},
        ]
        config = daemon.configuration(self.dpdk(), ports, self.directory, idle_sleep_us=self.idle_sleep_us)
        self.switch = daemon.Switch(binaries, self.directory, config)
        self.stack.callback(machine.end, self.switch.process)
        self.switch.wait_ready()
        for host, interface in zip(self.hosts, ("eth0", tap, internal)):
            if interface != "eth0":
                machine.expect(f"the switch makes {interface}", lambda: interface in netns.interfaces())
                netns.ip("link", "set", interface, "netns", host.name)
            host.configure(interface)
        for server in self.hosts[1:]:
            self.stack.callback(machine.end, netns.start_iperf_server(server, self.other_cores))

    def record(self, what, text):
        """A result."""
        self.results.append((what, text))
        if not self.args.live:
            say(f"  {what:<26} {text}")

    def ping_all(self):
        """Every host pings every other one, over IPv4 and IPv6."""
        for one, other in itertools.permutations(self.hosts, 2):
            for address in (other.v4, other.v6):
                machine.expect(f"{one.name} reaches {address}", lambda: one.reaches(address))
        for one, other in itertools.permutations(self.hosts, 2):
            v4, v6 = one.ping(other.v4), one.ping(other.v6)
            self.record(f"ping {one.name} -> {other.name}", f"IPv4 {v4:.3f} ms, IPv6 {v6:.3f} ms")

    def flows(self):
        """The transfers: (what, client, server, address, arguments of iperf3)."""
        a, b, c = self.hosts
        return [
            (f"TCP    {a.name} -> {b.name}", a, b, b.v4, []),
            (f"UDP    {b.name} -> {c.name}", b, c, c.v4, ["-u", "-b", "200M", "-l", "1400"]),
            (f"TCP/v6 {a.name} -> {c.name}", a, c, c.v6, []),
        ]

    def transfer(self, screen, what, client, server, address, words):
        """One transfer, with a live view meanwhile."""
        report = self.directory / "iperf3.json"
        argv = ("iperf3", "-c", address, "-J", "-t", self.args.seconds, *words)
        started, slow_before = time.monotonic(), server.socket_drops()
        first = last = live.Reading(self.switch)
        with open(report, "w") as file, contextlib.ExitStack() as stack:
            process = client.spawn(*argv, use_cores=self.other_cores, stdout=file, stderr=subprocess.STDOUT)
            stack.callback(machine.end, process)
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1.0)
                if self.switch.process.poll() is not None:
                    raise Failure(f"vswitchd ended with status {self.switch.process.returncode}")
                if time.monotonic() - started > self.args.seconds + machine.PATIENCE_S:
                    raise Failure(f"{what}: iperf3 did not end")
                now = live.Reading(self.switch)
                head = [f"vswitch demo — {what}, {min(self.args.seconds, time.monotonic() - started):.0f} of {self.args.seconds} s — Ctrl-C ends", ""]
                past = [f"  {w:<26} {text}" for w, text in self.results[-9:]]
                screen.draw([*head, *live.table(last, now), "", "results", *past])
                last = now
        result = netns.iperf_result(report.read_text())
        if result["mbps"] < 1:
            raise Failure(f"{what}: only {result['mbps']:.2f} Mbit/s arrived")
        if "retransmits" in result:
            detail = f"{result['retransmits']} retransmitted"
        else:
            # What the receiving program was too slow to read is not the switch's loss.
            slow = min(result["lost"], server.socket_drops() - slow_before)
            lost = 100 * (result["lost"] - slow) / max(1, result["packets"])
            detail = f"{lost:.2f} % lost" + (f" ({slow} datagrams by a slow receiver)" if slow else "")
            if lost > LOSS_MAX_PERCENT:
                raise Failure(f"{what}: {detail}")
        loads = ", ".join(f"{load:.0f} %" for _, load, _ in live.worker_loads(first, live.Reading(self.switch)))
        self.record(what, f"{result['mbps']:.0f} Mbit/s, {detail}, worker load {loads}")

    def traffic(self, screen):
        """One round."""
        for flow in self.flows():
            self.transfer(screen, *flow)
        errors = {host.name: host.checksum_errors() for host in self.hosts}
        if any(errors.values()):
            raise Failure(f"wrong checksums arrived: {errors}")
        if not self.args.live:
            say("  no wrong checksum arrived at any host")


def show(args, stack, binaries):
    """All of it."""
    demo = Hosts(args, stack)
    say("• starting the switch with three hosts on it")
    try:
        demo.start(binaries)
        say(f"• pinging all pairs (worker on core {demo.worker_core})")
        demo.ping_all()
        say(f"• sending traffic, {args.seconds} s each")
        screen = live.Screen(args.live)
        stack.callback(screen.close)
        while True:
            machine.check_stop()
            demo.traffic(screen)
            if not args.live:
                break
    except BrokenPipeError:  # nobody reads what we say
        raise
    except machine.TROUBLE as error:
        tail, words = demo.switch.log_tail() if hasattr(demo, "switch") else "", machine.words_of(error)
        raise Failure(words + (f"\n--- the end of vswitchd's log\n{tail}" if tail and tail not in words else "")) from error
    except Stop as stop:
        # In the live view Ctrl-C is the way to end.
        if not (args.live and demo.results and stop.signum == signal.SIGINT):
            raise
        screen.close()
        for what, text in demo.results[-9:]:
            say(f"  {what:<26} {text}")
    for name, port in live.Reading(demo.switch).ports.items():
        counts = f"received {port['rx_packets']}, sent {port['tx_packets']}, dropped {live.drops(port)}"
        say(f"  port {name:<21} {counts} ({port.get('type', '')})")
