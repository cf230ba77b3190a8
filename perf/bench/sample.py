"""One measurement of one device."""

import time
from dataclasses import asdict, dataclass, field

from vsw.machine import Failure, preemptions, run_times

# Busy part of a core from which on it counts as saturated; testpmd leaves its loop's own cycles out
SATURATED = 0.9
WARM_UP_S = 1.0


@dataclass
class Sample:
    """One measurement of one device."""

    mpps: float  # millions of packets per second that it received and sent on
    cycles_per_packet: float  # of the time that its pollers had their cores
    # "saturated": tsc_hz / pps; "busy": busy cycles / packets, the core had idle time
    cycles_from: str
    busy: float  # part of the core's time
    forwarded: float  # packets sent / packets received
    tsc_hz: int
    # Part of the time that its pollers had their cores; the rest went to something else
    on_core: float = 1.0
    # Times that something else got a core of the device under test during the measurement
    preempted: int = 0
    generator_busy: float | None = None  # part of the generator's core's time
    # Connections that the device showed as established before the measurement
    established: int | None = None
    caches: dict | None = None  # what the device says of its caches, over the measurement
    # (function, stage, cycles per packet), the dearest first, when they were recorded
    functions: list | None = None
    figures: dict = field(default_factory=dict)  # more figures of this case, by name with unit

    @property
    def rate(self):
        """Mpps, had its pollers had their cores all the time."""
        return self.mpps / max(self.on_core, 1e-9)

    def as_dict(self):
        """For JSON."""
        return asdict(self)


@dataclass
class Work:
    """What the cores of a device have done since they were cleared."""

    packets: int
    busy_cycles: float


@dataclass
class Totals:
    """Counters of a device at a time."""

    at: float  # seconds
    received: int  # packets
    sent: int


def totals(read):
    """`read()` gives packets received and sent; the time is the middle of reading."""
    before = time.monotonic()
    received, sent = read()
    return Totals((before + time.monotonic()) / 2, received, sent)


def all_ports(dut):
    """Packets received and sent by all ports of a device."""
    return tuple(map(sum, zip(*dut.ports().values())))


def on_core(before, after, nanoseconds, pollers):
    """The part of the time that the pollers, the busiest threads, had a core; of `run_times` before
    and after. They must not sleep: that would count as taken from them."""
    gone = sorted((time - before.get(thread, 0) for thread, time in after.items()), reverse=True)
    return min(1.0, sum(gone[:pollers]) / (nanoseconds * pollers))


class Interval:
    """Counters of a device before and after the body of a `with`: elapsed seconds, packets received
    and sent, preemptions, and the part of the time that its pollers (as many as it has cores) had
    their cores."""

    def __init__(self, pid, read, cores=1):
        self.pid, self.read, self.cores = pid, read, cores

    def __enter__(self):
        self.start, self.preempted = totals(self.read), -preemptions(self.pid)
        self._ran, self._began = run_times(self.pid), time.monotonic_ns()
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.on_core = on_core(self._ran, run_times(self.pid), time.monotonic_ns() - self._began, self.cores)
            self.preempted += preemptions(self.pid)
            end = totals(self.read)
            self.elapsed = end.at - self.start.at
            self.received, self.sent = end.received - self.start.received, end.sent - self.start.sent

    def sample(self, tsc_hz, busy, busy_cycles_per_packet):
        """Its Sample; see `sample`."""
        return self.judge(sample(self.received, self.sent, self.elapsed, tsc_hz, busy, busy_cycles_per_packet, self.cores))

    def busy_sample(self, tsc_hz, busy_cycles_per_packet):
        """A Sample of cores that were busy with these packets for a part of the time only; the rate
        is what they could do all the time."""
        mpps = self.cores * tsc_hz / (busy_cycles_per_packet * self.on_core) / 1e6
        forwarded = self.sent / self.received
        return self.judge(Sample(round(mpps, 4), busy_cycles_per_packet, "busy", 1.0, round(forwarded, 5), tsc_hz))

    def judge(self, result):
        """Takes the time that something else had the cores out of a Sample's cycles: they were
        counted by the TSC, which goes on meanwhile."""
        result.preempted, result.on_core = self.preempted, round(self.on_core, 4)
        result.cycles_per_packet = round(result.cycles_per_packet * self.on_core, 1)
        return result


def sample(packets, sent, seconds, tsc_hz, busy, busy_cycles_per_packet, cores=1):
    """Makes a Sample of counters; Failure when packets were lost or none came: then there was
    nothing to measure. `busy` is the part of all `cores`."""
    if packets == 0:
        raise Failure("no packet came through the device under test")
    forwarded = sent / packets
    if not 0.99 < forwarded < 1.01:
        raise Failure(f"the device under test sent {sent} of {packets} packets: this measures drops, not forwarding")
    pps = packets / seconds
    saturated = busy >= SATURATED
    return Sample(
        mpps=round(pps / 1e6, 4),
        cycles_per_packet=round(cores * tsc_hz / pps if saturated else busy_cycles_per_packet, 1),
        cycles_from="saturated" if saturated else "busy",
        busy=round(busy, 4),
        forwarded=round(forwarded, 5),
        tsc_hz=tsc_hz,
    )
