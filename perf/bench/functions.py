"""Where the cycles go: the worker's core sampled with `perf record`, samples resolved to functions
(those that were inlined, too) and stages."""

import contextlib
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

from vsw import machine
from vsw.machine import Failure

SAMPLES_PER_S = 2999
SHOWN = 25  # functions

# Stages by the file of the innermost function of ours, the first pattern that fits.
STAGES = (
    (r"worker/poll/run\.rs|dpdk/src/lcore", "poll loop"),
    (r"worker/poll/output\.rs", "output"),
    (r"dpdk/src/mem\.rs", "hash and prefetch"),
    (r"dpdk/src/vhost|port/vhost", "vhost ports"),
    (r"/dpdk-sys/|src/port/|/dpdk/src/", "ports and mbufs"),
    (r"packet/(checksum|offload|segment)", "checksums"),
    (r"src/packet/|flow/src/extract|cache/fast/compact", "parse and key"),
    (r"worker/fast/(batch|replay|first_packet)|cache/fast/(path|program|first_packet)", "replay"),
    (r"vswitch/conntrack/|src/conntrack/|worker/slow/ct", "connections"),
    (r"src/cache/", "caches"),
    (r"worker/poll/learning|pipeline/(learning|fdb)", "learning switch"),
    (r"src/pipeline/|vswitch/flow/", "pipeline"),
    (r"src/action/|worker/", "walk and actions"),
)
OTHER = "other of the switch"
# Of libraries, by the name of the function.
LIBRARY_STAGES = (
    (r"(?i)rx_|recv|dequeue", "receive driver"),
    (r"(?i)tx_|xmit|enqueue", "transmit driver"),
    (r"(?i)mempool|mbuf", "mbuf pool"),
    (r"(?i)mem(cpy|move|set)", "copying"),
)
SAMPLE = re.compile(r"\s*(\d+)/\d+\s+([0-9a-f]+)\s+(.*?)\s+\((.*)\)$")


class Recorder:
    """Records the core under test while something runs."""

    def __init__(self, core, directory):
        for tool, package in (("perf", "linux-perf"), ("addr2line", "binutils")):
            if not shutil.which(tool):
                raise Failure(f"{tool} is not installed, which --functions needs: apt-get install {package}")
        self.core, self.data = core, Path(directory) / "perf.data"
        self.pid = self.binary = self.base = None

    @contextlib.contextmanager
    def recording(self, pid):
        """Records this process's worker during the body."""
        self.pid = pid
        self.binary, self.base = image(Path(f"/proc/{pid}/maps").read_text(), Path(f"/proc/{pid}/exe").resolve())
        self.data.unlink(missing_ok=True)
        argv = ["perf", "record", "-q", "-F", SAMPLES_PER_S, "-C", self.core, "-o", self.data]
        process = machine.spawn(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)  # it writes what it has
            machine.end(process, 10)
            complaint = process.stderr.read().decode(errors="replace").strip()
            process.stderr.close()
        if not self.data.exists():
            raise Failure(f"perf record has recorded nothing: {complaint or 'no reason given'}")

    def functions(self, cycles):
        """[(function, stage, cycles per packet)], the dearest first, of so many cycles per
        packet."""
        text = machine.output(["perf", "script", "-i", self.data, "-F", "pid,tid,ip,sym,dso"], timeout=60)
        mine = samples(text, self.pid)
        total = sum(mine.values())
        if not total:
            raise Failure("perf has no sample of the switch's worker")
        inside = sorted({ip for ip, _, dso in mine if dso == str(self.binary)})
        resolved = {}
        if inside:
            lines = "".join(f"{ip - self.base:#x}\n" for ip in inside)
            argv = ["addr2line", "-e", self.binary, "-a", "-i", "-f", "-C"]
            said = subprocess.run(argv, input=lines, capture_output=True, text=True, timeout=300).stdout
            resolved = {address + self.base: frames for address, frames in inlined(said).items()}
        found = Counter()
        for (ip, symbol, dso), count in mine.items():
            found[place(resolved.get(ip, []), symbol, dso)] += count
        return [(function, stage, round(cycles * count / total, 2)) for (function, stage), count in found.most_common()]


def image(maps, binary):
    """(path, address) of the program in a process's memory."""
    starts = [int(line.split("-", 1)[0], 16) for line in maps.splitlines() if line.endswith(str(binary))]
    if not starts:
        raise Failure(f"{binary} is not in the memory of its process")
    return binary, min(starts)


def samples(text, pid):
    """{(address, symbol, file): count} of what `perf script` says of a process."""
    found = Counter()
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if match and int(match[1]) == pid:
            found[int(match[2], 16), match[3], match[4]] += 1
    return found


def inlined(text):
    """{address: [(function, file), ...]}, innermost first, of what `addr2line -a -i -f` says."""
    found, address, name = {}, None, None
    for line in text.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", line):
            address, name = int(line, 16), None
            found[address] = []
        elif name is None:
            name = line
        else:
            found[address].append((name, line.split(" ", 1)[0].rpartition(":")[0]))
            name = None
    return found


def place(frames, symbol, dso):
    """(function, stage) of a sample: of the innermost function that is ours, with its file; else of
    the symbol."""
    for function, file in frames:
        if found := re.search(r"(?:^|/)((?:vswitch|dpdk-sys)/.*)", file):
            # What vectors do is part of what they do it for.
            if "/registry/" not in file and not file.endswith("dpdk/src/wide.rs"):
                where = found[1].removeprefix("vswitch/").removeprefix("dataplane/").replace("src/", "")
                return f"{where} {short(function)}", stage(file, STAGES, OTHER)
    if frames:
        return short(symbol), OTHER
    if dso.startswith("[") and dso != "[vdso]":
        return "(kernel)", "kernel"
    library = Path(dso).name.split(".so")[0]
    name = short(symbol) if symbol != "[unknown]" else library
    # Drivers often come without the names of their functions.
    return name, stage(name, LIBRARY_STAGES, f"driver {library.removeprefix('librte_')}" if library.startswith("librte_net") else "libraries")


def stage(text, table, otherwise):
    """The first stage of a table whose pattern fits."""
    return next((name for pattern, name in table if re.search(pattern, text)), otherwise)


def short(function):
    """A function's name without its hash, generic arguments and all but the last two parts of its
    path."""
    name = re.sub(r"::h[0-9a-f]{16}$", "", function)
    while (plain := re.sub(r"(?:::)?<[^<>]*>", "", name)) != name:
        name = plain
    return "::".join(part for part in name.split("::") if part)[-200:].split("::", max(0, name.count("::") - 1))[-1] or function


def table(functions):
    """Stages, then the dearest functions, as text."""
    total = sum(cycles for *_, cycles in functions) or 1.0
    stages = Counter()
    for _, name, cycles in functions:
        stages[name] += cycles
    lines = [f"{'cycles/packet':>14} {'share':>7}  stage"]
    lines += [f"{cycles:>14.1f} {100 * cycles / total:>6.1f}%  {name}" for name, cycles in stages.most_common()]
    lines += ["", f"{'cycles/packet':>14} {'share':>7}  function (stage)"]
    lines += [f"{cycles:>14.1f} {100 * cycles / total:>6.1f}%  {function} ({name})" for function, name, cycles in functions[:SHOWN]]
    return "\n".join(lines)
