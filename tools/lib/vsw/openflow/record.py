"""Runs the commands of `commands` against a private Open vSwitch, through the proxy."""

import itertools
import socket
import struct
import subprocess
from pathlib import Path

from .. import machine
from ..machine import Failure
from ..ovs import SCHEMA, VSWITCHD
from . import commands, raw
from .proxy import HEADER, Proxy, read_message

START_S = 10
BRIDGE = "br0"
MULTIPART_REPLY, TABLE_FEATURES = 19, 12
HELLO, BARRIER_REQUEST, BARRIER_REPLY = 0, 20, 21
BARRIER_XID = 0x99
ECHOES = (2, 3)  # They come when a pause is long: no part of a record.
FRAMES = (0, 20, 21)  # Hellos and barriers are around every command: only the first command's are recorded.


class Switch:
    """A private Open vSwitch with one bridge of dummy ports; its clock stands still."""

    def __init__(self, directory, environment, defer):
        if not Path(VSWITCHD).exists():
            raise Failure(f"{VSWITCHD} is missing: install openvswitch-switch (tools/setup does)")
        self.directory, self.environment, self._defer = Path(directory), environment, defer
        database, self._socket, self._control = (self.directory / name for name in ("conf.db", "db.sock", "vswitchd.ctl"))
        machine.output(["ovsdb-tool", "create", database, SCHEMA], env=environment)
        self._start(["ovsdb-server", f"--remote=punix:{self._socket}", database], self._socket)
        self.vsctl("--no-wait", "init")
        options = ["--enable-dummy", "--disable-system", "--disable-system-route", f"--unixctl={self._control}"]
        self._start([VSWITCHD, *options, f"unix:{self._socket}"], self._control)
        self.vsctl("add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=dummy", "fail-mode=secure",
                   "other-config:disable-in-band=true", "other-config:hwaddr=02:00:00:00:00:fe",
                   "other-config:datapath-id=0000020000000001")
        for number in (1, 2, 3):
            self.vsctl("add-port", BRIDGE, f"p{number}", "--", "set", "interface", f"p{number}", "type=dummy", f"ofport_request={number}",
                       f'mac="02:00:00:00:00:0{number}"')
        self.appctl("time/stop")

    def _start(self, argv, until):
        with open(self.directory / "ovs.log", "ab") as log:
            process = machine.spawn(argv, stdout=log, stderr=log, env=self.environment, cwd=self.directory)
        self._defer(machine.end, process)
        machine.wait_until(f"{Path(argv[0]).name} makes {until.name}", START_S, until.exists)

    def vsctl(self, *words):
        """Runs ovs-vsctl."""
        return machine.output(["ovs-vsctl", f"--db=unix:{self._socket}", f"--timeout={START_S}", *words], env=self.environment)

    def appctl(self, *words):
        """Runs ovs-appctl on ovs-vswitchd."""
        return machine.output(["ovs-appctl", "-t", self._control, *words], env=self.environment)


class Recorder:
    """Writes the records of one version of OpenFlow."""

    def __init__(self, directory, environment, version, defer):
        self.version, self.environment, self._first = version, environment, True
        self.switch = Switch(directory, environment, defer)
        self._proxy = Proxy(Path(directory) / "proxy.sock", Path(directory) / f"{BRIDGE}.mgmt", defer)

    def file(self, steps):
        """The lines of one golden file."""
        lines = []
        for step in steps:
            lines.extend(self._step(step))
        return lines

    def _step(self, step):
        words = step.get("ofctl", ["raw"])
        if "raw" in step:
            self._raw(step["raw"])
        elif step.get("background"):
            self._background(step)
        else:
            self._foreground(step)
        yield f"$ {' '.join(words)}"
        yield from (f"| {line}" for line in step.get("lines", []))
        for mark, message in self._proxy.take():
            if message[1] not in ECHOES and (self._first or message[1] not in FRAMES):
                yield from (f"{mark} {shown.hex()}" for shown in _trimmed(message))
        self._first = False

    def _foreground(self, step):
        """A command that ends by itself."""
        options = list(itertools.takewhile(lambda word: word.startswith("--"), step["ofctl"]))
        verb, *rest = step["ofctl"][len(options):]
        options += ["-O", self.version, "--no-names", f"--timeout={START_S}"]
        argv = ["ovs-ofctl", *options, verb, f"unix:{self._proxy.path}", *rest]
        lines = "\n".join(step["lines"])
        done = subprocess.run(argv, input=lines, text=True, capture_output=True, env=self.environment, check=False)
        if done.returncode and not step["fails"]:
            raise Failure(f"{argv}: {done.stderr.strip()}")

    def _raw(self, messages):
        """A client that sends messages as they are, each with a barrier behind it."""
        number = raw.VERSIONS[self.version]
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self._proxy.path))
            client.sendall(HEADER.pack(number, HELLO, HEADER.size, 1))
            for message in messages:
                client.sendall(message + HEADER.pack(number, BARRIER_REQUEST, HEADER.size, BARRIER_XID))
                while read_message(client)[1] != BARRIER_REPLY:
                    pass  # The switch answers in order: what comes before the barrier is about the message.

    def _background(self, step):
        """A client that stays until the switch has sent what `until` says."""
        kind, count = step["until"]
        argv = ["ovs-ofctl", "-O", self.version, "--no-names", step["ofctl"][0], f"unix:{self._proxy.path}", *step["ofctl"][1:]]
        process = machine.spawn(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment)
        try:
            # The client is ready when the switch has answered all that it asked.
            machine.wait_until("the client is connected", START_S, lambda: self._proxy.seen(step["ready"][0]) >= step["ready"][1])
            for tool, *words in step["during"]:
                if tool == "appctl":
                    self.switch.appctl(*words)
                elif tool == "vsctl":
                    self.switch.vsctl(*words)
                else:
                    machine.output(["ovs-ofctl", "-O", self.version, words[0], BRIDGE, *words[1:]], env=self.environment)
            machine.wait_until(f"{count} messages of type {kind}", START_S, lambda: self._proxy.seen(kind) >= count)
        finally:
            machine.end(process)


def _trimmed(message):
    """A message as it is recorded. Features of tables are alike and a megabyte long: only the first
    table of the first message stays."""
    if message[1] != MULTIPART_REPLY or struct.unpack_from("!H", message, 8)[0] != TABLE_FEATURES:
        return [message]
    length, table = struct.unpack_from("!HB", message, 16)
    return [message[:2] + struct.pack("!H", 16 + length) + message[4:16 + length]] if table == 0 else []


def files(directory, environment, version, defer):
    """Names and lines of the golden files of a version."""
    recorder = Recorder(directory, environment, version, defer)
    for name, steps in commands.files(version):
        yield name, recorder.file(steps)
