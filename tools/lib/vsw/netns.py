"""Hosts in network namespaces, and iperf3 between them."""

import json
import os
import re
import subprocess

from . import machine
from .machine import PATIENCE_S, Failure, output


def ip(*words):
    """Runs ip(8)."""
    return output(["ip", *words])


class Space:
    """A namespace."""

    def __init__(self, name):
        self.name = name
        ip("netns", "add", name)
        self.run("ip", "link", "set", "lo", "up")
        # IPv6 addresses are usable at once.
        self.run("sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.default.accept_ra=0")

    def ip(self, *words):
        """Runs ip(8) on it."""
        return ip("-n", self.name, *words)

    def run(self, *words, **options):
        """Runs a command in it."""
        return output(["ip", "netns", "exec", self.name, *words], **options)

    def spawn(self, *words, **options):
        """Starts a command in it."""
        return machine.spawn(["ip", "netns", "exec", self.name, *words], **options)

    def checksum_errors(self):
        """Packets that its kernel dropped for a wrong checksum."""
        return self._counters("InCsumErrors")

    def socket_drops(self):
        """Datagrams that its kernel dropped since the program that should read them was too
        slow."""
        return self._counters("RcvbufErrors")

    def _counters(self, suffix):
        """Sum of all protocols' counters of that name, IPv4 and IPv6. UDP-Lite is left out: it
        repeats UDP's."""
        tables = self.run("cat", "/proc/net/snmp", "/proc/net/netstat").splitlines()
        total = 0
        for names, values in zip(tables[::2], tables[1::2]):
            if not names.startswith("UdpLite"):
                total += sum(int(v) for n, v in zip(names.split(), values.split()) if n == suffix)
        six = re.findall(rf"^(?!UdpLite)\w+{suffix}\s+(\d+)", self.run("cat", "/proc/net/snmp6"), re.M)
        return total + sum(map(int, six))


class Host(Space):
    """A namespace with one interface on the switch."""

    def __init__(self, name, index):
        super().__init__(name)
        self.v4, self.v6 = f"10.99.0.{index}", f"fd99::{index}"

    def configure(self, interface):
        """Addresses, and up."""
        self.ip("address", "add", f"{self.v4}/24", "dev", interface)
        self.ip("address", "add", f"{self.v6}/64", "dev", interface, "nodad")
        self.ip("link", "set", "dev", interface, "up")

    def reaches(self, address):
        """One ping is answered."""
        try:
            self.run("ping", "-n", "-c", "1", "-W", "1", address)
            return True
        except Failure:
            return False

    def ping(self, address, count=5):
        """Average round trip in ms; Failure when an answer is missing."""
        # One by one: of several requests, ping(8) waits for the last one's answer only as long as
        # two others took.
        said = [self.run("ping", "-n", "-c", "1", "-W", PATIENCE_S // 2, address) for _ in range(count)]
        times = [float(found[1]) for one in said if (found := re.search(r"= [\d.]+/([\d.]+)/", one))]
        if len(times) < count:
            raise Failure(f"ping from {self.name} to {address} lost packets: {said}")
        return sum(times) / count


def remove_namespace(name):
    """Ends what runs in it, then removes it; it may not exist."""
    if name not in namespaces():
        return
    for pid in ip("netns", "pids", name).split():
        try:
            os.kill(int(pid), 9)
        except ProcessLookupError:
            pass
    ip("netns", "delete", name)


def namespaces():
    """Names of all network namespaces."""
    return {line.split()[0] for line in ip("netns", "list").splitlines() if line.strip()}


def interfaces():
    """Names of this namespace's interfaces."""
    return {link["ifname"] for link in json.loads(ip("-j", "link", "show"))}


def iperf_result(text):
    """Of `iperf3 -J`: {mbps} and {retransmits} or {lost, packets}; Failure when it reports an
    error."""
    try:
        report = json.loads(text)
    except ValueError as error:
        raise Failure(f"iperf3 printed no JSON: {text[:200]!r}") from error
    if "error" in report:
        raise Failure(f"iperf3: {report['error']}")
    end = report["end"]
    if "sum" in end:  # UDP
        part = end["sum"]["lost_packets"] / max(1, end["sum"]["packets"])
        result = {"lost": end["sum"]["lost_packets"], "packets": end["sum"]["packets"]}
        bits = end["sum"]["bits_per_second"] * (1 - part)
    else:
        result = {"retransmits": end["sum_sent"].get("retransmits", 0)}
        bits = end["sum_received"]["bits_per_second"]
    return {"mbps": bits / 1e6, **result}


def start_iperf_server(host, use_cores=None):
    """An iperf3 server, listening."""
    devnull = subprocess.DEVNULL
    server = host.spawn("iperf3", "-s", use_cores=use_cores, stdout=devnull, stderr=devnull)

    def listens():
        if server.poll() is not None:
            raise Failure(f"the iperf3 server in {host.name} ended with status {server.returncode}")
        return host.run("ss", "-Hltn", "sport", "=", ":5201").strip() != ""

    machine.expect(f"iperf3 listens in {host.name}", listens)
    return server
