"""Forwarding without connections: a learning switch between devices of memory."""

import contextlib
import time

from vsw import daemon
from vsw.machine import Failure

from . import testpmd
from .captures import source, write_mac_pairs

PCAP_PACKETS, PCAP_PAIRS = 1000, 16


def l2_pcap_null(bench, device, round_):
    """Receives small packets from memory without end (net_pcap), sends them to nowhere
    (net_null)."""
    capture = bench.directory / "in.pcap"
    sources, destinations = write_mac_pairs(capture, PCAP_PACKETS, PCAP_PAIRS)
    devices = (source("net_pcap0", capture), "net_null0,no-rx=1")
    with contextlib.ExitStack() as stack:
        if device == "testpmd":
            return testpmd.limit(bench, stack, devices)
        ports = [{"name": n, "number": i, "type": "dpdk", "devargs": d} for i, n, d in zip((1, 2), ("in", "out"), devices)]
        switch = bench.start(device, stack, ports=ports, fail_mode="standalone")
        for mac in destinations:
            switch.daemon.vsctl("fdb-add", "br0", "out", 0, mac)
        check_fdb(switch, {**dict.fromkeys(sources, "in"), **dict.fromkeys(destinations, "out")})
        return switch.measure(bench.seconds)


def check_fdb(switch, expected, limit=5.0):
    """Waits until the bridge knows every address at its port: what is measured is known unicast,
    not flooding."""
    deadline = time.monotonic() + limit
    while True:
        known = {row["mac"]: row["port"] for row in daemon.rows(switch.daemon.json("fdb-show", "br0"))}
        missing = {mac: port for mac, port in expected.items() if known.get(mac) != port}
        if not missing:
            return
        if time.monotonic() > deadline:
            raise Failure(f"the bridge does not know these addresses at these ports: {missing}; it knows {known}")
        time.sleep(0.1)
