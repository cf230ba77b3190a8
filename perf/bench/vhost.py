"""Between vhost-user ports: a learning switch, and established connections through Antrea's
pipeline document. The guests are those of a testpmd."""

import contextlib
import os
import signal
import time

from vsw import machine
from vsw.machine import Failure

from . import document, testpmd
from .captures import FROM_SERVER, Traffic, shuffled, write
from .document import Program
from .established import SETTLE_S, Players, capture_of, check, describe, establish
from .forwarding import check_fdb
from .switch import MBUFS
from .testpmd import Testpmd

# The fastest front end that any vhost-user back end supports: no mergeable buffers, vector receive,
# full-size rings.
FRONT_END = "mrg_rxbuf=0,in_order=0,vectorized=1,queue_size=1024"
FRONT_MACS = ("02:00:00:00:01:01", "02:00:00:00:01:02")
PODS = ("client", "web")
FEWEST = 512  # packets that circulate in each direction; a ring has room for twice as many


def sockets(bench, count):
    """Where so many guests are to listen; nobody does yet."""
    paths = [bench.directory / f"vhost{number}.sock" for number in range(count)]
    for path in paths:
        path.unlink(missing_ok=True)
    return paths


def front_ends(paths):
    """What DPDK is to make the guests' devices of."""
    return [f"net_virtio_user{number},path={path},server=1,queues=1,mac={mac},{FRONT_END}" for number, (path, mac) in enumerate(zip(paths, FRONT_MACS))]


def back_ends(paths):
    """What testpmd is to make its ports for them of, where it is the device under test."""
    return [f"net_vhost{number},iface={path},client=1,queues=1" for number, path in enumerate(paths)]


def start_guests(bench, stack, vdevs, arguments=()):
    """A testpmd on the other core, which is to forward between pairs of its devices; it is ready
    once all guests are connected."""
    arguments = ["--forward-mode=io", "--total-num-mbufs=16384", "--txd=1024", "--rxd=1024", "--record-core-cycles", *arguments]
    core = bench.other_core
    # One file for all its memory: vhost-user hands over a descriptor per region, and 8 regions at
    # most.
    guests = Testpmd(f"vsperf{bench.tag}g", [core], core, 96, vdevs, arguments, ["--single-file-segments"], bench.cores)
    stack.callback(guests.stop)
    return guests


def learning_switch(bench, device, stack, paths):
    """A device under test that learns addresses, with a port vhost0, vhost1, ... for each
    socket."""
    dut = bench.start(device, stack, fail_mode="standalone")
    if device == "ovs":
        dut.load(Program(["priority=0,actions=NORMAL"]))
    for number, path in enumerate(paths):
        dut.add_vhost(f"vhost{number}", number + 1, path)
    return dut


def check_learned(dut, device):
    """Waits until the switch knows both addresses. Between two ports, flooding would look the
    same."""
    if device == "switch":
        check_fdb(dut, dict(zip(FRONT_MACS, ("vhost0", "vhost1"))))


def established_pods(bench, device, stack, program, traffic, connections, ports):
    """A device under test with these flows and so many connections, established by captures, some
    of whose ports are those of guests then: {name: socket}."""
    dut = bench.start(device, stack, mbufs=MBUFS + connections)
    dut.load(program)
    establish(dut, Players(dut), traffic, connections, capture_of(bench, traffic, range(connections)))
    for name, path in ports.items():
        dut.del_port(name)
        dut.add_vhost(name, document.NUMBERS[name], path)
    return dut


def measure_beside(guests, measure):
    """The Sample of `measure()`, with the part of its time that the guests had packets."""
    guests.command("clear fwd stats all")
    began = time.monotonic()
    result = measure()
    recorded = testpmd.core_cycles(guests.command("show fwd stats all"))
    if recorded:
        result.generator_busy = round(min(1.0, recorded[0] / (recorded[2] * 1e6 * (time.monotonic() - began))), 4)
    return result


def circulating(bench, device, round_):
    """Packets circulate: front end 0 -> device under test -> front end 1 -> front end 0 ..., and
    the other way round."""
    paths = sockets(bench, 2)
    with contextlib.ExitStack() as stack:
        peers = [f"--eth-peer=0,{FRONT_MACS[1]}", f"--eth-peer=1,{FRONT_MACS[0]}"]
        guests = start_guests(bench, stack, front_ends(paths), ["--portlist=0,1", *peers])
        dut = testpmd.start(bench, stack, back_ends(paths)) if device == "testpmd" else learning_switch(bench, device, stack, paths)
        guests.wait_ready()
        guests.command("start tx_first 32")
        check_learned(dut, device)
        return measure_beside(guests, lambda: dut.measure(bench.seconds))


circulating.devices = ("switch", "ovs", "testpmd")


def copies(connections):
    """How many packets of each connection circulate in each direction."""
    return max(1, FEWEST // connections)


def write_circle(path, traffic, connections, phase):
    """A capture of what is to circulate in a phase's direction."""
    order = shuffled(range(connections), 2 if phase in FROM_SERVER else 1)
    write(path, [traffic.frame(phase, number) for number in order] * copies(connections))


def playing_once(bench, traffic, connections):
    """What DPDK is to make devices of that play the captures of both directions once."""
    vdevs = []
    for phase in ("data", "rdata"):
        path = bench.directory / f"circle-{connections}-{phase}.pcap"
        write_circle(path, traffic, connections, phase)
        vdevs.append(f"net_pcap_{phase},rx_pcap={path}")
    return vdevs


@contextlib.contextmanager
def halted(process):
    """A process does nothing for a while."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def put_into_circulation(guests, dut, packets):
    """Has the guests, ports 0 and 1, send captures of so many packets once, which ports 2 and 3
    play; from then on each sends what the other one receives. `dut` is the process of the device
    under test."""

    def sent():
        return [port["TX-packets"] for port in testpmd.port_stats(guests.command("show port stats all")).values()][:2]

    # What the guests received meanwhile would go to the ports that play, which free it; the rings
    # have room for all that they send.
    with halted(dut):
        guests.command("set portlist 2,0,3,1")
        guests.command("start")
        machine.wait_until(f"the guests send {packets} packets each", 10, lambda: sent() == [packets, packets])
        guests.command("stop")
        guests.command("set portlist 0,1")
        guests.command("start")


def check_circulation(dut, packets):
    """Failure when the packets of a Pod have not come around."""
    received = {name: dut.ports()[name][0] for name in PODS}
    if min(received.values()) <= packets:
        raise Failure(f"{packets} packets of each Pod were to circulate, the ports have received {received}")


def from_pod_to_pod(program):
    """The document without the two flows that lead all packets of the web Pod to a tap instead."""
    tap = f"set_field:{document.NUMBERS['tap0']:#x}->reg9"
    return Program([line for line in program.flows if tap not in line], program.groups, program.meters)


def pods(connections):
    """The case of so many connections between two Pods, with data both ways, which circulates: a
    ring has room for a packet of each."""
    traffic, packets = Traffic("pod"), connections * copies(connections)

    def run(bench, device, round_):
        paths = sockets(bench, len(PODS))
        sources = playing_once(bench, traffic, connections)
        with contextlib.ExitStack() as stack:
            if device == "testpmd":
                dut = testpmd.start(bench, stack, back_ends(paths))
            else:
                program = from_pod_to_pod(document.program(traffic))
                dut = established_pods(bench, device, stack, program, traffic, connections, dict(zip(PODS, paths)))
            # What has been received, by the sources too, is to be there still when it starts to
            # forward.
            guests = start_guests(bench, stack, front_ends(paths) + sources, ["--no-flush-rx"])
            guests.wait_ready()
            put_into_circulation(guests, dut.pid, packets)
            if device == "testpmd":
                return measure_beside(guests, lambda: dut.measure(bench.seconds))
            time.sleep(SETTLE_S)
            result = measure_beside(guests, lambda: dut.measure_best(bench.seconds))
            result.established = check(dut, traffic, connections)
            check_circulation(dut, packets)
            return result

    run.__doc__ = f"{describe(traffic, connections)[:-1]}; the Pods have vhost-user ports."
    run.devices = ("switch", "ovs", "testpmd")
    return run
