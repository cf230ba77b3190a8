"""The cases: what is connected to the device under test, and what is measured.

A case is a function `case(bench, device, round_)` that measures one device ("switch" or "testpmd") once and returns a
Sample. To add one, write it and name it in CASES.
"""

import contextlib
import time
from dataclasses import asdict, dataclass

from vsw import daemon, machine
from vsw.machine import Failure

from . import flows, testpmd
from .pcapfile import write_mac_pairs
from .testpmd import Testpmd

MBUFS = 65536
SATURATED = 0.9  # busy part of a core from which on it counts as saturated; testpmd leaves its loop's own cycles out
WARM_UP_S = 1.0

PCAP_PACKETS, PCAP_PAIRS = 1000, 16

# The fastest front end that any vhost-user back end supports: no mergeable buffers, vector receive, full-size rings.
FRONT_END = "mrg_rxbuf=0,in_order=0,vectorized=1,queue_size=1024"
FRONT_MACS = ("02:00:00:00:01:01", "02:00:00:00:01:02")


@dataclass
class Sample:
    """One measurement of one device."""

    mpps: float  # millions of packets per second that it received and sent on
    cycles_per_packet: float
    cycles_from: str  # "saturated": tsc_hz / pps; "busy": busy cycles / packets, the core had idle time
    busy: float  # part of the core's time
    forwarded: float  # packets sent / packets received
    tsc_hz: int
    preempted: int = 0  # times that something else got a core of the device under test during the measurement
    generator_busy: float | None = None  # part of the generator's core's time


def sample(packets, sent, seconds, tsc_hz, busy, busy_cycles_per_packet):
    """Makes a Sample of counters; Failure when packets were lost or none came: then there was nothing to measure."""
    if packets == 0:
        raise Failure("no packet came through the device under test")
    forwarded = sent / packets
    if not 0.99 < forwarded < 1.01:
        raise Failure(f"the device under test sent {sent} of {packets} packets: this measures drops, not forwarding")
    pps = packets / seconds
    saturated = busy >= SATURATED
    return Sample(
        mpps=round(pps / 1e6, 4),
        cycles_per_packet=round(tsc_hz / pps if saturated else busy_cycles_per_packet, 1),
        cycles_from="saturated" if saturated else "busy",
        busy=round(busy, 4),
        forwarded=round(forwarded, 5),
        tsc_hz=tsc_hz,
    )


def measure_switch(switch, seconds):
    """Counters of all ports, and cycles of the one worker, over `seconds`."""

    def totals():
        before = time.monotonic()
        ports = switch.ports().values()
        middle = (before + time.monotonic()) / 2
        return middle, sum(port["rx_packets"] for port in ports), sum(port["tx_packets"] for port in ports)

    time.sleep(WARM_UP_S)
    (worker_0,), start = switch.workers(), totals()
    preempted = -machine.preemptions(switch.process.pid)
    time.sleep(seconds)
    preempted += machine.preemptions(switch.process.pid)
    finish, (worker_1,) = totals(), switch.workers()
    elapsed, received, sent = (b - a for a, b in zip(start, finish))
    cycles = {kind: worker_1[f"{kind}_cycles"] - worker_0.get(f"{kind}_cycles", 0) for kind in ("busy", "idle")}
    asleep = worker_1.get("sleep_cycles", 0) - worker_0.get("sleep_cycles", 0)
    worker_packets = worker_1["packets"] - worker_0["packets"]
    busy = cycles["busy"] / max(1, cycles["busy"] + cycles["idle"] + asleep)
    result = sample(received, sent, elapsed, worker_1["tsc_hz"], busy, cycles["busy"] / max(1, worker_packets))
    result.preempted = preempted
    return result


def measure_testpmd(dut, seconds):
    """Counters without cycle recording (it costs a little), then a second with it: is the core busy all the time?"""
    time.sleep(WARM_UP_S)

    def totals():
        before = time.monotonic()
        ports = testpmd.port_stats(dut.command("show port stats all")).values()
        middle = (before + time.monotonic()) / 2
        return middle, sum(port["RX-packets"] for port in ports), sum(port["TX-packets"] for port in ports)

    start, preempted = totals(), -machine.preemptions(dut.process.pid)
    time.sleep(seconds)
    preempted += machine.preemptions(dut.process.pid)
    elapsed, received, sent = (b - a for a, b in zip(start, totals()))
    # The burst during which it is switched on is counted from TSC 0 (22.11): cleared once that burst is over.
    dut.command("set record-core-cycles on")
    time.sleep(0.2)
    began = time.monotonic()
    dut.command("clear fwd stats all")
    time.sleep(1.0)
    recorded = testpmd.core_cycles(dut.command("show fwd stats all"))
    if recorded is None:
        raise Failure("no packet came through testpmd")
    cycles, packets, mhz = recorded
    busy = min(1.0, cycles / (mhz * 1e6 * (time.monotonic() - began)))
    result = sample(received, sent, elapsed, mhz * 1_000_000, busy, cycles / max(1, packets))
    result.preempted = preempted
    return result


def switch_under_test(bench, stack, ports, fail_mode="standalone", mbufs=MBUFS):
    """Starts the switch with one bridge on the core under test."""
    dpdk = {
        "worker_cores": [bench.dut_core],
        "main_core": bench.other_core,
        "memory_mb": bench.memory_mb,
        "mbufs": mbufs,
        "hugepages": True,
        "file_prefix": f"vsperf{bench.tag}",
    }
    config = daemon.configuration(dpdk, ports, bench.directory, fail_mode, idle_sleep_us=0)
    switch = daemon.Switch(bench.binaries, bench.directory, config)
    stack.callback(switch.stop)
    return switch


def testpmd_under_test(bench, stack, vdevs, mbufs=MBUFS):
    """Starts testpmd on the core under test; it forwards from port 0 to 1 and back, without a look at the packets."""
    arguments = ["--forward-mode=io", "--portlist=0,1", f"--total-num-mbufs={mbufs}"]
    dut = Testpmd(f"vsperf{bench.tag}t", bench.dut_core, bench.other_core, bench.memory_mb, vdevs, arguments)
    stack.callback(dut.stop)
    return dut


def l2_pcap_null(bench, device, round_):
    """Receives small packets from memory without end (net_pcap), sends them to nowhere (net_null)."""
    capture = bench.directory / "in.pcap"
    sources, destinations = write_mac_pairs(capture, PCAP_PACKETS, PCAP_PAIRS)
    devices = (f"net_pcap0,rx_pcap={capture},infinite_rx=1", "net_null0,no-rx=1")
    with contextlib.ExitStack() as stack:
        if device == "testpmd":
            dut = testpmd_under_test(bench, stack, devices)
            dut.wait_ready()
            dut.command("start")
            return measure_testpmd(dut, bench.seconds)
        ports = [{"name": n, "number": i, "type": "dpdk", "devargs": d} for i, n, d in zip((1, 2), ("in", "out"), devices)]
        switch = switch_under_test(bench, stack, ports)
        switch.wait_ready()
        for mac in destinations:
            switch.vsctl("fdb-add", "br0", "out", 0, mac)
        check_fdb(switch, {**dict.fromkeys(sources, "in"), **dict.fromkeys(destinations, "out")})
        return measure_switch(switch, bench.seconds)


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
        front = Testpmd(f"vsperf{bench.tag}g", core, core, 96, vdevs, arguments, ["--single-file-segments"])
        stack.callback(front.stop)
        if device == "testpmd":
            vdevs = [f"net_vhost{i},iface={path},client=1,queues=1" for i, path in enumerate(sockets)]
            dut = testpmd_under_test(bench, stack, vdevs)
            dut.wait_ready()
            dut.command("start")
        else:
            ports = [
                {"name": f"vhost{i}", "number": i + 1, "type": "vhost-user", "path": str(path), "mode": "client"}
                for i, path in enumerate(sockets)
            ]
            switch = switch_under_test(bench, stack, ports)
            switch.wait_ready()
        front.wait_ready()  # both of its ends are connected
        front.command("start tx_first 32")
        if device == "switch":
            check_fdb(switch, dict(zip(FRONT_MACS, ("vhost0", "vhost1"))))
        front.command("clear fwd stats all")
        began = time.monotonic()
        result = measure_testpmd(dut, bench.seconds) if device == "testpmd" else measure_switch(switch, bench.seconds)
        recorded = testpmd.core_cycles(front.command("show fwd stats all"))
        if recorded:
            result.generator_busy = round(min(1.0, recorded[0] / (recorded[2] * 1e6 * (time.monotonic() - began))), 4)
        return result


def check_fdb(switch, expected, limit=5.0):
    """Waits until the bridge knows every address at its port: what is measured is known unicast, not flooding."""
    deadline = time.monotonic() + limit
    while True:
        known = {row["mac"]: row["port"] for row in daemon.rows(switch.json("fdb-show", "br0"))}
        missing = {mac: port for mac, port in expected.items() if known.get(mac) != port}
        if not missing:
            return
        if time.monotonic() > deadline:
            raise Failure(f"the bridge does not know these addresses at these ports: {missing}; it knows {known}")
        time.sleep(0.1)


CASES = {"l2-pcap-null": l2_pcap_null, "vhost-virtio-user": vhost_virtio_user}
CASES |= {f"flows-{count}": flows.case(count) for count in (1, 1000, 10_000, 100_000)}


def devices(name):
    """The devices that a case measures, in turn."""
    return getattr(CASES[name], "devices", ("switch", "testpmd"))


def as_dict(result):
    """A Sample for JSON."""
    return asdict(result)
