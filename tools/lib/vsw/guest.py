"""A Linux guest in QEMU on vhost-user ports; see tools/guest-image for what it boots and how it is
spoken to."""

import socket
import subprocess
from pathlib import Path

from . import machine
from .machine import Failure

BOOT_S, ANSWER_S = 90, 90
MEMORY_MB = 192
KERNEL_OPTIONS = "console=ttyS0 quiet panic=-1 net.ifnames=0"


def image(directory):
    """Makes kernel and initramfs in a directory, unless they are there."""
    machine.output([machine.ROOT / "tools" / "guest-image", directory])
    return Path(directory)


class Guest:
    """A running guest; its devices are eth0, eth1, ... `nics`: (socket that QEMU makes, last bytes
    of the address, properties of virtio-net-pci). Its memory is of hugepages if there are
    enough."""

    def __init__(self, boot, directory, name, nics, use_cores=None):
        self.name, self.directory = name, Path(directory)
        argv = ["-machine", "q35", "-m", str(MEMORY_MB)]
        huge = ",hugetlb=on" if machine.free_hugepages() >= MEMORY_MB // 2 else ""
        argv += ["-object", f"memory-backend-memfd,id=mem,size={MEMORY_MB}M,share=on{huge}", "-numa", "node,memdev=mem"]
        argv += ["-kernel", boot / "vmlinuz", "-initrd", boot / "initrd.cpio", "-append", KERNEL_OPTIONS]
        for i, (path, mac, properties) in enumerate(nics):
            Path(path).unlink(missing_ok=True)
            argv += ["-chardev", f"socket,id=c{i},path={path},server=on,wait=off", "-netdev", f"vhost-user,id=n{i},chardev=c{i}"]
            more = f",{properties}" if properties else ""
            argv += ["-device", f"virtio-net-pci,netdev=n{i},romfile=,vectors=0,mac=02:00:00:00:{mac}{more}"]
        self.start(argv, use_cores)

    def start(self, argv, use_cores=None, through=()):
        """Starts QEMU with these arguments, and those that all guests have, by the command
        `through` if one is given."""
        line = self.directory / f"{self.name}.line"
        line.unlink(missing_ok=True)
        common = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-nodefaults", "-display", "none"]
        common += ["-chardev", f"file,id=console,path={self.directory / self.name}.console", "-serial", "chardev:console"]
        common += ["-chardev", f"socket,id=line,path={line}", "-serial", "chardev:line"]
        argv = [*through, *common, *argv]
        with socket.socket(socket.AF_UNIX) as listener, open(f"{self.directory / self.name}.log", "wb") as log:
            listener.bind(str(line))
            listener.listen()
            listener.settimeout(BOOT_S)
            self.process = machine.spawn(list(map(str, argv)), use_cores, stdout=log, stderr=log)
            try:
                self._line, _ = listener.accept()
            except OSError as error:
                self.stop()
                raise Failure(f"QEMU of guest {self.name} does not start: {error}; see {log.name}") from error

    def wait_ready(self):
        """Waits until it has booted."""
        self._line.settimeout(BOOT_S)
        if (said := self._read(b"\n").strip()) != "READY":
            raise Failure(f"guest {self.name} does not boot: it said {said!r}")
        self._line.settimeout(ANSWER_S)

    def _read(self, end):
        text = b""
        while not text.endswith(end):
            try:
                got = self._line.recv(1)
            except OSError as error:
                raise Failure(f"guest {self.name} does not answer: {error}, after {text[-200:]!r}") from error
            if not got:
                raise Failure(f"guest {self.name} is gone, after {text[-200:]!r}")
            text += got
        return text[: -len(end)].decode(errors="replace")

    def run(self, command):
        """Runs a line of shell in it; what it printed. Failure when it fails."""
        self._line.sendall(command.encode() + b"\n")
        text, status = self._read(b"\1"), self._read(b"\n")
        if status != "0":
            raise Failure(f"guest {self.name}: `{command}` failed with status {status}: {text.strip()}")
        return text

    def stop(self):
        """Kills it."""
        self._line.close()
        self.process.kill()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
