"""System calls that fail: which, how, and strace(1) that makes them."""

import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from .. import machine
from ..machine import Failure

# Errors that the kernel gives for want of something, or of a device.
CALLS = {
    "openat": ("EMFILE", "EIO"),
    "socket": ("EMFILE", "ENOMEM"),
    "mmap": ("ENOMEM",),
    "ioctl": ("EIO", "ENOMEM"),
    "bind": ("ENOMEM",),
    "listen": ("ENOMEM",),
    "connect": ("ENOMEM",),
    "setsockopt": ("ENOMEM",),
    "getsockopt": ("ENOMEM",),
    "accept4": ("EMFILE",),
    "recvmsg": ("ENOMEM",),
    "sendmsg": ("ENOMEM",),
    "sendto": ("ENOMEM",),
    "recvfrom": ("ENOMEM",),
    "readlink": ("EIO",),
    "newfstatat": ("ENOMEM",),
    "statx": ("ENOMEM",),
    "fstat": ("ENOMEM",),
    "getdents64": ("EIO",),
    "fsync": ("EIO",),
    "rename": ("ENOSPC",),
    "unlink": ("EIO",),
    "unlinkat": ("EIO",),
    "fcntl": ("ENOMEM",),
    "flock": ("ENOMEM",),
    "ftruncate": ("ENOSPC",),
    "fallocate": ("ENOSPC",),
    "memfd_create": ("EMFILE", "ENOMEM"),
    "eventfd2": ("EMFILE",),
    "epoll_create1": ("EMFILE",),
    "epoll_ctl": ("ENOMEM",),
    "clone3": ("EAGAIN",),
    "mlock": ("ENOMEM",),
    "fchmod": ("EIO",),
    "chmod": ("EIO",),
}
# Of files only: a pipe or an eventfd gives none of these.
FILE_CALLS = {"read": ("EIO",), "pread64": ("EIO",), "write": ("ENOSPC", "EIO"), "fsync": ("EIO",), "rename": ("ENOSPC",)}
FILE_CALLS |= {"openat": ("EMFILE", "EIO"), "unlink": ("EIO",), "statx": ("ENOMEM",)}
# What libraries do without memory or threads: they end the process. No code of ours prevents it.
LIBRARY = re.compile(r"failed to allocate an alternative stack|memory allocation of \d+ bytes failed|OS can.t spawn worker thread")
PANIC = re.compile(r"panic|fatal runtime error|memory allocation of")
INJECTED = "(INJECTED)"
DETACH_S = 5


@dataclass
class Fault:
    """The `number`th call of each thread fails so; with paths only calls that name one of these,
    or a descriptor of it."""

    operation: str
    call: str
    error: str
    number: int
    paths: tuple = ()

    def __str__(self):
        of = f" of {', '.join(Path(path).name for path in self.paths)}" if self.paths else ""
        return f"{self.operation}: {self.call} number {self.number}{of} fails with {self.error}"

    def command(self, log):
        """Of strace."""
        inject = f"inject={self.call}:error={self.error}:when={self.number}"
        argv = ["strace", "-qq", "-f", "-o", log, "-e", f"trace={self.call}", "-e", inject, "-e", "signal=none"]
        return argv + [word for path in self.paths for word in ("-P", str(path))]


def sweep(operation, calls, most, until, chance, fail):
    """For each call and error: the first call of each thread fails, then the second, until `fail`,
    which is told of each fault, finds none to fail. Beyond the third, those that `chance()` picks.
    False: the time was over."""
    for call, errors in calls.items():
        for error in errors:
            for number in range(1, most):
                if time.monotonic() > until:
                    return False
                if number > 3 and not chance():
                    continue
                if not fail(Fault(operation, call, error, number)):
                    break
    return True


def attach(fault, log, pid):
    """strace on a running process; returns when it sees all threads."""
    process = machine.spawn([*fault.command(log), "-p", pid], stderr=subprocess.DEVNULL)

    def traced():
        if process.poll() is not None:
            raise Failure(f"strace ended with status {process.returncode}")
        return all("TracerPid:\t0\n" not in text for text in _read(f"/proc/{pid}/task", "status"))

    machine.wait_until("strace is there", machine.PATIENCE_S, traced, 0.01)
    return process


def detach(process):
    """strace lets go of all threads. It may wait for ever for some of a process that has ended."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(DETACH_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def threads(pid):
    """Names of a process's threads."""
    return sorted(text.strip() for text in _read(f"/proc/{pid}/task", "comm"))


def _read(tasks, name):
    texts = []
    for path in Path(tasks).glob(f"*/{name}"):
        try:
            texts.append(path.read_text())
        except OSError:  # it has ended
            continue
    return texts
