"""perf/gen: the program that sends packets at a rate and tells how long they took. It speaks in
lines of JSON."""

import json
import os
import select
import subprocess
import time

from vsw import machine
from vsw.machine import Failure


class Generator:
    """A running vsgen; `options` are its own, those of the ports apart."""

    def __init__(self, binaries, core, log, ports, *options, use_cores=None):
        argv = [binaries / "vsgen", "--core", core]
        for devargs in ports:
            argv += ["--port", devargs]
        self.log, self.rest = log, b""
        with open(log, "wb") as errors:
            self.process = machine.spawn([*argv, *options], use_cores, stdout=subprocess.PIPE, stderr=errors)

    def event(self, name, limit):
        """Its next event, which is to be of this name; Failure when none comes within `limit`
        seconds."""
        deadline = time.monotonic() + limit
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise Failure(f"the generator has said nothing for {limit:.0f} s, it was to say: {name}")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise Failure(f"the generator has ended before it said: {name}; it complained: {self.log.read_text(errors='replace').strip()[-1000:]}")
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        event = json.loads(line)
        if event["event"] != name:
            raise Failure(f"the generator was to say {name}, it said {line.decode(errors='replace')[:200]}")
        return event

    def stop(self):
        """Ends it."""
        machine.end(self.process, 5)
        self.process.stdout.close()
