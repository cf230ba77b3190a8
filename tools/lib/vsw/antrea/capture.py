"""Frames on a wire: captured by tcpdump, decoded and judged by tshark."""

import functools
import shutil
import signal
import subprocess

from .. import machine
from ..machine import Failure

# tshark believes checksums unless told otherwise.
CHECKING = [word for name in ("ip", "tcp", "udp") for word in ("-o", f"{name}.check_checksum:TRUE")]
# What iperf3 and the echoes send to these ports is no HTTP and no MySQL, and would be called
# malformed.
PAYLOADS = [word for port in ("tcp.port==80", "tcp.port==3306", "udp.port==80") for word in ("-d", f"{port},data")]
SUMS = ("ip", "tcp", "udp", "icmp", "icmpv6")
# 0 may be written as all ones, and Linux does for every protocol (skb_checksum_help): tshark calls
# such a checksum wrong, and says so.
ALL_ONES = '_ws.expert.message contains "Checksum 0xffff instead of 0x0000"'
WRONG = " || ".join(["_ws.malformed", *(f"({name}.checksum.status == 0 && !({ALL_ONES}))" for name in SUMS)])
FIELDS = ("frame.number", "frame.len", "eth.src", "eth.dst", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "udp.srcport", "udp.dstport",
          "geneve.vni", "tcp.dstport", "_ws.col.Info", *(f"{name}.checksum.status" for name in SUMS))
FILE_HEADER = 24  # bytes of a capture without frames


def required():
    """Failure when what this needs is not installed."""
    for program in ("tcpdump", "tshark", "mergecap"):
        if not shutil.which(program):
            raise Failure(f"{program} is not installed; run tools/setup")


class Capture:
    """Captures frames of an interface, both ways, until `stop`; at most `limit` of them."""

    def __init__(self, space, interface, file, stack, limit=None):
        self.file, self.log = file, file.with_suffix(".log")
        words = ["-c", limit] if limit else []
        with open(self.log, "wb") as log:
            argv = ("tcpdump", "-n", "-U", "--immediate-mode", "-Z", "root", "-B", 8192, "-i", interface, "-w", file, *words)
            self.process = space.spawn(*argv, stdout=subprocess.DEVNULL, stderr=log)
        stack.callback(machine.end, self.process)
        machine.wait_until(f"tcpdump listens on {interface}", machine.PATIENCE_S, self._listens, 0.02)

    def _listens(self):
        said = self.log.read_text(errors="replace")
        if "listening on" not in said and self.process.poll() is not None:
            raise Failure(f"tcpdump ended: {said.strip()}")
        return "listening on" in said

    def stop(self):
        """Ends it, when there is a frame at least."""
        machine.expect("a frame is captured", lambda: self.file.stat().st_size > FILE_HEADER)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(machine.PATIENCE_S)
            except subprocess.TimeoutExpired as error:
                raise Failure(f"tcpdump did not end within {machine.PATIENCE_S} s") from error
        return Frames(self.file)


def merged(files, target):
    """Frames of several captures as one, in order of time."""
    machine.output(["mergecap", "-w", target, *files])
    return Frames(target)


class Frames:
    """What was captured, as tshark decodes it."""

    def __init__(self, file):
        self.file = file

    def wrong(self):
        """A line for each frame that is malformed or has a wrong checksum."""
        return self._tshark("-Y", WRONG)

    @functools.cached_property
    def rows(self):
        """Each frame's FIELDS: {field: [values, that of the outermost header first]}."""
        words = [word for field in FIELDS for word in ("-e", field)]
        lines = self._tshark("-T", "fields", "-E", "occurrence=a", "-E", "aggregator=|", "-E", "separator=/t", *words)
        return [{field: value.split("|") if value else [] for field, value in zip(FIELDS, line.split("\t"))} for line in lines]

    def _tshark(self, *words):
        return machine.output(["tshark", "-n", "-r", self.file, *CHECKING, *PAYLOADS, *words], timeout=2 * machine.PATIENCE_S).splitlines()
