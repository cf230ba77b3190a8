"""Forwarding without connections: a learning switch between devices of memory, and between vhost-user guests."""

import contextlib
import time

from vsw import daemon
from vsw.machine import Failure

from . import testpmd
from .captures import source, write_mac_pairs
from .testpmd import Testpmd

PCAP_PACKETS, PCAP_PAIRS = 1000, 16

# The fastest front end that any vhost-user back end supports: no mergeable buffers, vector receive, full-size rings.
FRONT_END = "mrg_rxbuf=0,in_order=0,vectorized=1,queue_size=1024"
FRONT_MACS = ("02:00:00:00:01:01", "02:00:00:00:01:02")


def l2_pcap_null(bench, device, round_):
    """Receives small packets from memory without end (net_pcap), sends them to nowhere (net_null)."""
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


def vhost_virtio_user(bench, device, round_):
    """Packets circulate: front end 0 -> device under test -> front end 1 -> front end 0 ..., and the other way round."""
    sockets = [bench.directory / f"vhost{i}.sock" for i in (0, 1)]
    for socket in sockets:
        socket.unlink(missing_ok=True)
    with contextlib.ExitStack() as stack:
        vdevs = [f"net_virtio_user{i},path={p},server=1,queues=1,mac={m},{FRONT_END}" for i, p, m in zip((0, 1), sockets, FRONT_MACS)]
        arguments = ["--forward-mode=io", "--portlist=0,1", "--total-num-mbufs=16384", "--txd=1024", "--rxd=1024"]
        arguments += [f"--eth-peer=0,{FRONT_MACS[1]}", f"--eth-peer=1,{FRONT_MACS[0]}", "--record-core-cycles"]
        # One file for all its memory: vhost-user hands over a descriptor per region, and 8 regions at most.
        core = bench.other_core
        front = Testpmd(f"vsperf{bench.tag}g", [core], core, 96, vdevs, arguments, ["--single-file-segments"], bench.cores)
        stack.callback(front.stop)
        if device == "testpmd":
            vdevs = [f"net_vhost{i},iface={path},client=1,queues=1" for i, path in enumerate(sockets)]
            dut = testpmd.start(bench, stack, vdevs)
        else:
            ports = [
                {"name": f"vhost{i}", "number": i + 1, "type": "vhost-user", "path": str(path), "mode": "client"}
                for i, path in enumerate(sockets)
            ]
            dut = bench.start(device, stack, ports=ports, fail_mode="standalone")
        front.wait_ready()  # both of its ends are connected
        front.command("start tx_first 32")
        if device == "switch":
            check_fdb(dut, dict(zip(FRONT_MACS, ("vhost0", "vhost1"))))
        front.command("clear fwd stats all")
        began = time.monotonic()
        result = dut.measure(bench.seconds)
        recorded = testpmd.core_cycles(front.command("show fwd stats all"))
        if recorded:
            result.generator_busy = round(min(1.0, recorded[0] / (recorded[2] * 1e6 * (time.monotonic() - began))), 4)
        return result


def check_fdb(switch, expected, limit=5.0):
    """Waits until the bridge knows every address at its port: what is measured is known unicast, not flooding."""
    deadline = time.monotonic() + limit
    while True:
        known = {row["mac"]: row["port"] for row in daemon.rows(switch.daemon.json("fdb-show", "br0"))}
        missing = {mac: port for mac, port in expected.items() if known.get(mac) != port}
        if not missing:
            return
        if time.monotonic() > deadline:
            raise Failure(f"the bridge does not know these addresses at these ports: {missing}; it knows {known}")
        time.sleep(0.1)
