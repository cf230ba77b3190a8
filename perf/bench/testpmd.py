"""dpdk-testpmd on a pseudo terminal: commands in, answers out."""

import os
import pty
import re
import select
import termios
import time

from vsw import machine
from vsw.machine import Failure

PROMPT = "testpmd> "


class Testpmd:
    """A running dpdk-testpmd. `core` forwards; its command line shares that core, it sleeps while nobody types."""

    def __init__(self, name, core, main_core, memory_mb, vdevs, arguments, eal=()):
        argv = ["dpdk-testpmd", "--lcores", f"0@{main_core},1@{core}", "--no-pci", "--in-memory", "--no-telemetry"]
        argv += [f"--file-prefix={name}", "-m", str(memory_mb), *eal]
        for vdev in vdevs:
            argv += ["--vdev", vdev]
        argv += ["--", "-i", "--nb-cores=1", *arguments]
        self.name, self.said = name, ""
        self.terminal, far_end = pty.openpty()
        attributes = termios.tcgetattr(far_end)
        attributes[3] &= ~termios.ECHO
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(far_end, termios.TCSANOW, attributes)
        try:
            self.process = machine.spawn(argv, stdin=far_end, stdout=far_end, stderr=far_end)
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
    """`show fwd stats all` with record-core-cycles: (busy cycles, packets, TSC in MHz); None without packets."""
    found = re.search(r"CPU cycles/packet=[\d.]+ \(total cycles=(\d+) / total \S+ packets=(\d+)\) at (\d+) MHz", text)
    return tuple(map(int, found.groups())) if found else None
