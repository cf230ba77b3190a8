"""A running vswitchd, and vsctl on it."""

import json
import os
import subprocess
import time
from pathlib import Path

from . import machine
from .machine import Failure

UNREACHABLE = 3  # vsctl's exit status when nobody answers
# Microseconds between two looks of an idle worker where switches share few cores: at 50 each of
# them takes a tenth of a core.
IDLE_SLEEP_US = 500


def build(profile, packages=("vswitchd", "vsctl")):
    """Builds vswitchd and vsctl, or other packages; returns the directory of the binaries."""
    machine.foreground(build_command(profile, packages), cwd=machine.ROOT)
    return bin_dir(profile)


def build_command(profile, packages):
    """The command that builds these packages."""
    argv = ["cargo", "build", "--locked", "--profile", profile]
    return argv + [word for package in packages for word in ("-p", package)]


def bin_dir(profile):
    """Where cargo puts the binaries of a profile."""
    return machine.ROOT / "target" / ("debug" if profile == "dev" else profile)


def configuration(dpdk, bridge_ports, directory, fail_mode="standalone", conntrack=None, others=(), slow_path=None, antrea=None, **worker):
    """The text of a vswitchd.toml with the bridge br0. `bridge_ports` are dicts, a [[bridge.port]]
    each; `others` are further bridges: (what [[bridge]] says of it, its ports). Clients may name
    sockets and captures in `directory`."""
    text = f"[dpdk]\n{_table(dpdk)}\n"
    if worker:
        text += f"[worker]\n{_table(worker)}\n"
    if conntrack:
        text += f"[conntrack]\n{_table(conntrack)}\n"
    if slow_path:
        text += f"[slow_path]\n{_table(slow_path)}\n"
    if antrea:
        text += f"[antrea]\n{_table(antrea)}\n"
    text += f"[control]\n{_table({'socket': str(Path(directory) / 'vswitch.sock')})}\n"
    text += f"[paths]\n{_table(dict.fromkeys(('sockets', 'memif', 'captures'), [str(directory)]))}\n"
    for bridge, ports in (({"name": "br0", "fail_mode": fail_mode}, bridge_ports), *others):
        text += f"[[bridge]]\n{_table(bridge)}\n"
        text += "".join(f"[[bridge.port]]\n{_table(port)}\n" for port in ports)
    return text


def head(directory, name):
    """The beginning of a vswitchd.toml, without bridges, of a small switch for a test. `name` tells
    its memory from that of others."""
    cores = machine.cores()
    dpdk = {"hugepages": False, "memory_mb": 256, "file_prefix": f"vt{os.getpid()}-{name}", "worker_cores": [cores[-1]], "main_core": cores[0]}
    parts = {"dpdk": dpdk, "worker": {"idle_sleep_us": IDLE_SLEEP_US}, "control": {"socket": str(Path(directory) / "vswitch.sock")},
             "paths": {"sockets": [str(directory)]}}
    return "".join(f"[{part}]\n{_table(values)}" for part, values in parts.items())


def _table(values):
    return "".join(f"{key} = {_value(value)}\n" for key, value in values.items())


def _value(value):
    """A value in TOML: as JSON writes it, but for tables."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(part)}" for key, part in value.items()) + " }"
    return json.dumps(value)


class Switch:
    """vswitchd with its files in `directory`: configuration, log and control socket. It may run in
    a network namespace, on these cores only, with further options, and under another command."""

    def __init__(self, binaries, directory, config, namespace=None, use_cores=None, under=(), options=()):
        self.binaries, self.directory = Path(binaries), Path(directory)
        self.socket = self.directory / "vswitch.sock"
        (self.directory / "vswitchd.toml").write_text(config)
        with open(self.directory / "vswitchd.log", "ab") as log:
            inside = ["ip", "netns", "exec", namespace] if namespace else []
            argv = [*inside, *under, self.binaries / "vswitchd", "--config", self.directory / "vswitchd.toml", *options]
            self.process = machine.spawn(argv, use_cores, stdout=log, stderr=log)

    def wait_ready(self, limit=machine.PATIENCE_S):
        """Waits until the control socket answers and the switch calls itself healthy."""
        start = time.monotonic()
        while True:
            if self.process.poll() is not None:
                raise Failure(f"vswitchd ended at start with status {self.process.returncode}; its log:\n{self.log_tail()}")
            status, said = self._vsctl(["health"])
            if status == 0:
                return
            if time.monotonic() - start > limit:
                what = "is not reachable" if status == UNREACHABLE else "is not healthy"
                raise Failure(f"vswitchd {what} after {limit:.0f} s: {said.strip()}\nits log:\n{self.log_tail()}")
            time.sleep(0.1)

    def log_tail(self, lines=30):
        """The end of its log."""
        try:
            text = (self.directory / "vswitchd.log").read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def command(self, *args):
        """The words of a vsctl command on it."""
        return [str(self.binaries / "vsctl"), "--socket", str(self.socket), *map(str, args)]

    def _vsctl(self, args):
        argv = self.command(*args)
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=machine.PATIENCE_S)
        except FileNotFoundError as error:
            raise Failure(f"{argv[0]} does not exist; build first") from error
        except subprocess.TimeoutExpired as error:
            raise Failure(f"`vsctl {' '.join(map(str, args))}` did not end within {machine.PATIENCE_S} s") from error
        return done.returncode, done.stdout if done.returncode == 0 else done.stderr or done.stdout

    def vsctl(self, *args):
        """Runs vsctl and returns what it printed."""
        status, text = self._vsctl(args)
        if status:
            raise Failure(f"`vsctl {' '.join(map(str, args))}` failed with status {status}: {text.strip()}")
        return text

    def json(self, *args):
        """Runs vsctl --json; a value."""
        text = self.vsctl("--json", *args)
        try:
            return json.loads(text)
        except ValueError as error:
            raise Failure(f"`vsctl --json {' '.join(map(str, args))}` printed no JSON: {text[:200]!r}") from error

    def ports(self, bridge="br0"):
        """Ports of a bridge by name, as dump-ports has them."""
        return {port["name"]: port for port in rows(self.json("dump-ports", bridge))}

    def workers(self):
        """Workers, as worker-show has them."""
        return rows(self.json("worker-show"))

    def stop(self):
        """Ends it; Failure when it had crashed or had to be killed."""
        crashed = self.process.poll()
        graceful = machine.end(self.process)
        if crashed is not None:
            raise Failure(f"vswitchd had ended by itself with status {crashed}; its log:\n{self.log_tail()}")
        if not graceful:
            raise Failure(f"vswitchd did not end by SIGTERM and was killed; its log:\n{self.log_tail()}")


def rows(value):
    """A JSON answer that is a list, or an object with one list in it."""
    if isinstance(value, list):
        return value
    lists = [part for part in value.values() if isinstance(part, list)] if isinstance(value, dict) else []
    if len(lists) != 1:
        raise Failure(f"expected a list from vsctl --json, got {json.dumps(value)[:200]}")
    return lists[0]
