"""dpdk-testpmd on a pseudo terminal: commands in, answers out."""

import os
import pty
import re
import select
import termios
import time

from vsw import machine
from vsw.machine import Failure

from .sample import WARM_UP_S, Interval
from .switch import MBUFS

PROMPT = "testpmd> "


class Testpmd:
    """A running dpdk-testpmd. `cores` forward; its command line has the main core, and sleeps while
    nobody types."""

    def __init__(self, name, cores, main_core, memory_mb, vdevs, arguments, eal=(), use_cores=None):
        lcores = ",".join(f"{number}@{core}" for number, core in enumerate([main_core, *cores]))
        argv = ["dpdk-testpmd", "--lcores", lcores, "--no-pci", "--in-memory", "--no-telemetry"]
        argv += [f"--file-prefix={name}", "-m", str(memory_mb), *eal]
        for vdev in vdevs:
            argv += ["--vdev", vdev]
        argv += ["--", "-i", f"--nb-cores={len(cores)}", *arguments]
        self.name, self.cores, self.said = name, len(cores), ""
        self.terminal, far_end = pty.openpty()
        attributes = termios.tcgetattr(far_end)
        attributes[3] &= ~termios.ECHO
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(far_end, termios.TCSANOW, attributes)
        try:
            self.process = machine.spawn(argv, use_cores, stdin=far_end, stdout=far_end, stderr=far_end)
            self.pid = self.process.pid
        except BaseException:
            os.close(self.terminal)
            raise
        finally:
            os.close(far_end)

    def wait_ready(self, limit=60.0):
        """Waits for its first prompt: all its devices are there."""
        self._read_until_prompt(limit)

    def command(self, line, limit=20.0):
        """Gives it a command and returns its answer."""
        os.write(self.terminal, f"{line}\n".encode())
        return self._read_until_prompt(limit)

    def _read_until_prompt(self, limit):
        answer, deadline = "", time.monotonic() + limit
        while not answer.endswith(PROMPT):
            if not select.select([self.terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise Failure(f"{self.name} (dpdk-testpmd) did not answer within {limit:.0f} s; it said:\n{self._tail()}")
            try:
                data = os.read(self.terminal, 65536)
            except OSError:  # the far end is closed
                data = b""
            if not data:
                raise Failure(f"{self.name} (dpdk-testpmd) has ended; it said:\n{self._tail()}")
            answer += data.decode(errors="replace")
            self.said += data.decode(errors="replace")
        return answer

    def _tail(self):
        return "\n".join(line for line in self.said.splitlines() if line.strip())[-3000:]

    def counters(self):
        """Packets received and sent by all ports."""
        ports = port_stats(self.command("show port stats all")).values()
        return tuple(sum(port[f"{way}-packets"] for port in ports) for way in ("RX", "TX"))

    def measure(self, seconds):
        """Counters without cycle recording (it costs a little), then a second with it: are the
        cores busy all the time?"""
        time.sleep(WARM_UP_S)
        with Interval(self.process.pid, self.counters, self.cores) as interval:
            time.sleep(seconds)
        # The burst during which it is switched on is counted from TSC 0 (22.11): cleared once that
        # burst is over.
        self.command("set record-core-cycles on")
        time.sleep(0.2)
        began = time.monotonic()
        self.command("clear fwd stats all")
        time.sleep(1.0)
        recorded = core_cycles(self.command("show fwd stats all"))
        if recorded is None:
            raise Failure("no packet came through testpmd")
        cycles, packets, mhz = recorded
        busy = min(1.0, cycles / (mhz * 1e6 * self.cores * (time.monotonic() - began)))
        return interval.sample(mhz * 1_000_000, busy, cycles / max(1, packets))

    def stop(self):
        """Ends it."""
        try:
            if self.process.poll() is None:
                os.write(self.terminal, b"quit\n")
                machine.wait_until("testpmd quits", 5, lambda: self._drain() or self.process.poll() is not None)
        except (OSError, Failure):
            pass
        machine.end(self.process, 5)
        os.close(self.terminal)

    def _drain(self):
        """Reads what it says while it ends: a full terminal would block it."""
        try:
            while select.select([self.terminal], [], [], 0)[0] and os.read(self.terminal, 65536):
                pass
        except OSError:
            pass
        return False


def start(bench, stack, vdevs, mbufs=MBUFS, cores=None, queues=1):
    """testpmd on the core under test, or on these: from now on it forwards from port 0 to 1 and
    back, without a look at the packets. Each port has so many queues, and each core its part of
    them."""
    arguments = ["--forward-mode=io", "--portlist=0,1", f"--total-num-mbufs={mbufs}", f"--rxq={queues}", f"--txq={queues}"]
    dut = Testpmd(f"vsperf{bench.tag}t", cores or [bench.dut_core], bench.other_core, bench.memory_mb, vdevs, arguments, use_cores=bench.cores)
    stack.callback(dut.stop)
    dut.wait_ready()
    dut.command("start")
    return dut


def limit(bench, stack, vdevs, mbufs=MBUFS, **options):
    """A Sample of testpmd between two devices: what one core (or those of `options`, as of `start`)
    can do at most with them."""
    return start(bench, stack, vdevs, mbufs, **options).measure(bench.seconds)


def reading(bench, stack, vdevs, packets):
    """A Sample of testpmd that takes so many packets from a source that ends; busy cycles."""
    arguments = ["--forward-mode=io", "--portlist=0,1", f"--total-num-mbufs={MBUFS}", "--record-core-cycles"]
    dut = Testpmd(f"vsperf{bench.tag}t", [bench.dut_core], bench.other_core, bench.memory_mb, vdevs, arguments, use_cores=bench.cores)
    stack.callback(dut.stop)
    dut.wait_ready()
    with Interval(dut.process.pid, dut.counters) as interval:
        dut.command("start")
        machine.wait_until(f"testpmd reads {packets} packets", 60, lambda: dut.counters()[0] >= packets)
    cycles, count, mhz = core_cycles(dut.command("show fwd stats all"))
    return interval.busy_sample(mhz * 1_000_000, cycles / count)


def port_stats(text):
    """`show port stats all` as {port: {counter: value}}."""
    ports = {}
    for part in re.split(r"NIC statistics for port ", text)[1:]:
        number = int(part.split()[0])
        ports[number] = {key: int(value) for key, value in re.findall(r"([RT]x-pps|[RT]X-[a-z]+):\s+(\d+)", part)}
    if not ports:
        raise Failure(f"no port statistics in testpmd's answer: {text!r}")
    return ports


def core_cycles(text):
    """`show fwd stats all` with record-core-cycles: (busy cycles, packets, TSC in MHz); None
    without packets."""
    found = re.search(r"CPU cycles/packet=[\d.]+ \(total cycles=(\d+) / total \S+ packets=(\d+)\) at (\d+) MHz", text)
    return tuple(map(int, found.groups())) if found else None
