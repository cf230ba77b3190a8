"""A machine of Debian: a tree with a layer above it, systemd as its first process, and a network of
its own. The layer is in memory."""

import subprocess
from pathlib import Path

from .. import machine
from ..machine import Failure

# Limits of a process of ours, but for capabilities: the switch's unit takes away what it must not
# have.
BOOT = ("--register=no", "--keep-unit", "--boot", "--private-network", "--console=pipe", "--capability=all", "--link-journal=no")
# A test may have a /sys of its own, without control groups. Their newer kind is everywhere.
WITH_CGROUPS = ("unshare", "--mount", "sh", "-ec", 'mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec "$@"', "sh")
# A switch makes TAPs. EAL looks for modules of the kernel, and nspawn shows a part of /sys.
SEEN = ("--bind=/dev/net/tun", "--bind-ro=/sys/module")


class Container:
    """It runs until `close`."""

    def __init__(self, tree, directory, name):
        self.root, self.memory = Path(directory) / "root", Path(directory) / "layer"
        upper, work = self.memory / "upper", self.memory / "work"
        for path in (self.root, self.memory):
            path.mkdir()
        machine.output(["mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", self.memory])
        for path in (upper, work):
            path.mkdir()
        machine.output(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={tree},upperdir={upper},workdir={work}", self.root])
        self._log = open(Path(directory) / "nspawn.log", "w+")
        argv = [*WITH_CGROUPS, "systemd-nspawn", f"--directory={self.root}", f"--machine={name}", *BOOT, *SEEN]
        try:
            self._process = machine.spawn(argv, stdout=self._log, stderr=self._log)
        except BaseException:
            self.unmount()
            raise

    def said(self):
        """What nspawn has said."""
        self._log.seek(0)
        return self._log.read()[-2000:]

    @property
    def leader(self):
        """The id of its first process."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return children[0] if children else None

    def await_boot(self):
        """Waits until systemd has started all."""

        def is_up():
            if self._process.poll() is not None:
                raise Failure(f"the container has ended: {self.said()}")
            return self.leader and self.state() in ("running", "degraded")

        machine.expect("systemd has started", is_up, self.said)

    def state(self):
        """What systemd says of itself."""
        return self.call("systemctl", "is-system-running").stdout.strip()

    def call(self, *words, **options):
        """Runs a command in it, whatever becomes of it."""
        variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        argv = ["nsenter", "-t", self.leader, "-a", *map(str, words)]
        return subprocess.run(argv, env=variables, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=180, **options)

    def run(self, *words):
        """Runs a command in it; what it said."""
        done = self.call(*words)
        if done.returncode:
            said = f"status {done.returncode}: {done.stdout}{done.stderr}"
            raise Failure(f"in the container `{' '.join(map(str, words))}` failed with {said}")
        return done.stdout + done.stderr

    def unmount(self):
        """Takes its root away."""
        machine.output(["umount", "--recursive", self.root])
        machine.output(["umount", self.memory])

    def close(self):
        """Ends it, with all that it has written."""
        machine.end(self._process)
        self._log.close()
        self.unmount()
