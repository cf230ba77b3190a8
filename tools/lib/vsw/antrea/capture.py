"""Frames on a wire: captured by tcpdump, decoded and judged by tshark."""

import shutil
import signal
import subprocess

from .. import machine
from ..machine import Failure

# tshark believes checksums unless told otherwise. 0 is "bad".
CHECKING = [word for name in ("ip", "tcp", "udp") for word in ("-o", f"{name}.check_checksum:TRUE")]
SUMS = ("ip", "tcp", "udp", "icmp", "icmpv6")
WRONG = " || ".join(["_ws.malformed", *(f"{name}.checksum.status == 0" for name in SUMS)])
# "right", of everything inside of tunnels that has a checksum, to see that there was something to check.
RIGHT = {name: f"geneve && {name}.checksum.status == 1" for name in SUMS}


class Capture:
    """Frames of an interface, both ways, until `stop`; at most `limit` of them."""

    def __init__(self, space, interface, file, stack, limit=None):
        if not shutil.which("tshark"):
            raise Failure("tshark is not installed; run tools/setup")
        self.file = file
        words = ["-c", limit] if limit else []
        argv = ("tcpdump", "-n", "-U", "-Z", "root", "-B", 16384, "-i", interface, "-w", file, *words)
        self.log = file.with_suffix(".log")
        with open(self.log, "wb") as log:
            self.process = space.spawn(*argv, stdout=subprocess.DEVNULL, stderr=log)
        stack.callback(machine.end, self.process)
        machine.wait_until(f"tcpdump listens on {interface}", 10, self._listens)

    def _listens(self):
        said = self.log.read_text(errors="replace")
        if self.process.poll() is not None and "captured" not in said:
            raise Failure(f"tcpdump ended: {said.strip()}")
        return "listening on" in said

    def stop(self):
        """Ends it; all that came until now is in the file."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(10)

    def read(self, *words):
        """What tshark prints of it, as lines."""
        return machine.output(["tshark", "-n", "-r", self.file, *CHECKING, *words], timeout=120).splitlines()

    def numbers(self, condition):
        """Numbers of frames that a display filter selects."""
        return [int(line) for line in self.read("-Y", condition, "-T", "fields", "-e", "frame.number")]

    def rows(self, condition, fields):
        """These fields of the frames that a display filter selects; each a list, outermost header first."""
        words = [word for field in fields for word in ("-e", field)]
        lines = self.read("-Y", condition, "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=|", "-E", "separator=/t", *words)
        return [[value.split("|") if value else [] for value in line.split("\t")] for line in lines]
