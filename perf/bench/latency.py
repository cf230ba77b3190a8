"""How long packets take, at half of what the device can do on these ends: `perf/gen` at both ends,
over vhost-user."""

import contextlib

from vsw.antrea import world
from vsw.machine import Failure

from . import document
from .captures import Traffic
from .established import check
from .generator import Generator
from .vhost import FRONT_MACS, check_learned, established_pods, front_ends, learning_switch, sockets

CONNECTIONS = 1000
LIGHT_PPS = 100_000  # a rate that is the same for all devices, too
SMALLEST, SMALLEST_TCP = 64, 76  # on the wire, with room for the generator's stamp
WARM_UP_S = 2.5  # of each trial; while the first one warms up the device's counters are read
CONNECT_S = 30
TRAFFIC = Traffic("pod")
TIMES = ("p50", "p90", "p99", "p99.9", "max")


@contextlib.contextmanager
def learning(bench, device, stack, paths):
    """Datagrams of 64 bytes through a learning switch, 16 flows."""
    dut = learning_switch(bench, device, stack, paths)
    yield dut, ["--announce", "--flows", 16, "--size", SMALLEST, "--from-mac", FRONT_MACS[0], "--to-mac", FRONT_MACS[1]]
    check_learned(dut, device)


@contextlib.contextmanager
def pods(bench, device, stack, paths):
    """Data of 1,000 established connections of a Pod to a Pod through Antrea's pipeline document,
    one way, in frames of 76 bytes."""
    # What the document sends to the web Pod it leads through this port first.
    ports = dict(zip(("client", "tap0"), paths))
    dut = established_pods(bench, device, stack, document.program(TRAFFIC), TRAFFIC, CONNECTIONS, ports)
    options = ["--tcp", "--flows", CONNECTIONS, "--size", SMALLEST_TCP, "--from-mac", world.CLIENT.mac, "--to-mac", world.WEB.mac,
               "--from", world.CLIENT.v4, "--to", world.WEB.v4]
    yield dut, options
    check(dut, TRAFFIC, CONNECTIONS)


def case(world_of):
    """The case of a world: a context manager that gives the device under test and what the
    generator is to send."""

    def run(bench, device, round_):
        paths = sockets(bench, 2)
        with contextlib.ExitStack() as stack:
            dut, options = stack.enter_context(world_of(bench, device, stack, paths))
            options += ["--connect", CONNECT_S, "--warm-up", WARM_UP_S, "--seconds", bench.seconds]
            for rate in ("max", "50%", LIGHT_PPS):
                options += ["--rate", rate]
            generator = Generator(bench.binaries, bench.other_core, bench.directory / "vsgen.log", front_ends(paths), *options, use_cores=bench.cores)
            stack.callback(generator.stop)
            generator.event("connected", CONNECT_S + 10)
            return measure(dut, generator, bench.seconds)

    run.__doc__ = f"Latency at half load: {world_of.__doc__[0].lower()}{world_of.__doc__[1:]}"
    run.devices, run.generator = ("switch", "ovs"), True
    return run


def measure(dut, generator, seconds):
    """A Sample of the trial without limit, with the times of the others as figures."""
    limit = WARM_UP_S + seconds + 10
    results = []

    def trial(_seconds=None):
        results.append(generator.event("result", limit))
        if results[-1]["surplus"]:
            raise Failure(f"{results[-1]['surplus']} packets came more than were sent: something makes copies")

    generator.event("started", 10)
    sample = dut.measure(seconds, body=trial)
    for _ in range(2):
        generator.event("started", limit)
        trial()
    sample.mpps = round(results[0]["received_pps"] / 1e6, 4)
    sample.figures = figures(*results)
    return sample


def figures(most, half, light):
    """The times at half load and at the light one, and what one must know of the generator to judge
    them."""
    found = {"no room %": round(100 * most["blocked"], 1), "half load kpps": round(half["sent_pps"] / 1e3, 1)}
    for word, result in (("half", half), ("light", light)):
        found |= {f"{word} {name} us": result["latency_us"][name] for name in TIMES}
        found[f"{word} p99.9 us undisturbed"] = result["undisturbed_us"]["p99.9"]
        found[f"{word} lost"], found[f"{word} reordered"] = result["lost"], result["reordered"]
        found[f"{word} generator away %"] = round(100 * result["gaps"]["part"], 2)
    return {name: value for name, value in found.items() if value is not None}
