"""A bare Debian 12 in a directory, with the packages that ours need in apt's cache: so a test of an
installation needs no network."""

import os
import shutil
import subprocess
from pathlib import Path

from .. import machine
from ..image import elf
from ..machine import Failure
from . import contents, deb

SUITE, MIRROR = "bookworm", "http://deb.debian.org/debian"
TREE = machine.ROOT / "target" / "tmp" / "debian12"
# Beside what is essential: an init, and what a Node has.
INCLUDED = ("systemd", "systemd-sysv", "dbus", "iproute2", "iputils-ping")
# Where the tree lists what is in apt's cache. It is there only when the tree is whole.
STAMP = "var/cache/apt/vswitch-packages"


def mirror():
    """Where this machine has Debian from."""
    targets = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"]
    for line in machine.output(targets).splitlines():
        where, _, release = line.strip().rpartition(" ")
        if release == SUITE and where.startswith("http"):
            return where
    return MIRROR


def cached():
    """Packages that ours need or recommend, with those of DPDK."""
    needed, cards = contents.plugins()
    vhost = deb.owners([elf.find("librte_vhost.so.23").resolve()])
    return sorted({*needed, *cards, *vhost, "python3", *contents.BESIDE, *contents.RECOMMENDED})


def make(directory=TREE, force=False):
    """Makes the tree, unless it is there and has all in its cache; whether it did."""
    names = " ".join(cached())
    stamp = directory / STAMP
    if not force and stamp.is_file() and stamp.read_text() == names:
        return False
    if os.geteuid() != 0:
        raise Failure("run as root: debootstrap makes devices and owners")
    if directory.exists():
        shutil.rmtree(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    include = f"--include={','.join(INCLUDED)}"
    try:
        machine.output(["debootstrap", "--variant=minbase", include, SUITE, directory, mirror()], timeout=600)
        download(directory, names.split())
    except (Failure, subprocess.SubprocessError):
        log = directory / "debootstrap" / "debootstrap.log"
        tail = log.read_text(errors="replace")[-1000:] if log.is_file() else ""
        shutil.rmtree(directory, ignore_errors=True)
        if tail:
            print(tail)
        raise
    stamp.write_text(names)
    return True


def download(directory, names):
    """Downloads packages, and what they need, into the cache of the tree's apt."""
    resolver = Path("/etc/resolv.conf").read_text()
    (directory / "etc" / "resolv.conf").write_text(resolver)
    # A test writes to memory, which needs no sync.
    (directory / "etc" / "dpkg" / "dpkg.cfg.d" / "unsafe").write_text("force-unsafe-io\n")
    variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    variables |= {key: value for key, value in os.environ.items() if key.lower().endswith("_proxy")}
    for words in (["update"], ["--yes", "--download-only", "install", *names]):
        machine.output(["chroot", directory, "apt-get", "-q", *words], env=variables, timeout=600)
