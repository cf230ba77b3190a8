"""The files of the image: programs, the libraries that they need, and little else."""

import subprocess
import tempfile
from pathlib import Path

from .. import machine
from ..machine import Failure
from . import elf

PROGRAMS = ("vswitchd", "vsctl", "vswitch-agent", "vswitch-cni")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# The shell and tools of the entry; all of them are busybox.
TOOLS = ("sh", "cat", "chmod", "cp", "ls", "mkdir", "mount", "mv", "rm", "sed", "sort", "tail", "tr", "wc")
# Debian's files, with the packages that have them. The agent runs nft(8).
BUSYBOX, NFT, AUTHORITIES = Path("/bin/busybox"), Path("/usr/sbin/nft"), Path("/etc/ssl/certs/ca-certificates.crt")
# Plugins of DPDK: buses, memory, virtual devices, and drivers of cards.
PLUGINS = (
    "bus_pci",
    "bus_vdev",
    "mempool_ring",
    "net_af_xdp",
    "net_memif",
    "net_null",
    "net_pcap",
    "net_ring",
    "net_virtio",
    "net_vmxnet3",
    "net_e1000",
    "net_igc",
    "net_ixgbe",
    "net_i40e",
    "net_iavf",
    "net_ice",
    "net_bnxt",
    "net_ena",
    "net_mlx5",
    "bus_auxiliary",
)
DIRECTORIES = ("dev", "etc/vswitch", "host", "opt", "proc", "run", "sys", "tmp", "usr/sbin", "var/lib/vswitch", "var/lib/vswitch-agent")
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "var/run": "../run"}
TEXTS = {
    "etc/passwd": "root:x:0:0:root:/:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}


class Rootfs:
    """What the image has, by path: bytes with a mode, or the target of a link, or None for a
    directory."""

    def __init__(self):
        self.entries = {}
        # Files of the machine that were copied: their packages have licences.
        self.sources = set()

    def directory(self, path):
        """A directory, with those above it."""
        for above in (*reversed(Path(path).parents), Path(path)):
            if str(above) != "." and str(above) not in self.entries:
                self.entries[str(above)] = None

    def link(self, path, target):
        """A link."""
        self.directory(Path(path).parent)
        self.entries[path] = target

    def file(self, path, data, mode=0o644):
        """A file."""
        self.directory(Path(path).parent)
        self.entries[path] = (data, mode)

    def copy(self, path, source, mode=0o644):
        """A file of the machine."""
        if not Path(source).is_file():
            raise Failure(f"there is no {source}: run tools/setup, or build first")
        self.sources.add(Path(source))
        self.file(path, Path(source).read_bytes(), mode)


def plugin_directory():
    """Where DPDK of this machine has its plugins: its version is in the name."""
    found = sorted((Path("/") / LIBRARIES / "dpdk").glob("pmds-*"))
    if not found:
        raise Failure("DPDK's plugins are not there: run tools/setup")
    return found[-1]


def without_lines(program):
    """A program without the tables of its source lines, which are half of it. Names of functions
    stay, for backtraces."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "program"
        machine.output(["strip", "--strip-debug", "-o", out, program])
        return out.read_bytes()


def make(programs, levels, entry):
    """The files of the image: programs by their names, switches by the CPU levels that they are
    for, and the entry, which chooses one."""
    root = Rootfs()
    for path, target in LINKS.items():
        root.link(path, target)
    for path in DIRECTORIES:
        root.directory(path)
    for path, text in TEXTS.items():
        root.file(path, text.encode())
    for name, path in programs.items():
        root.file(f"usr/bin/{name}", without_lines(path), 0o755)
    for level, path in levels.items():
        root.file(f"usr/lib/vswitch/{level}/vswitchd", without_lines(path), 0o755)
    root.link("usr/bin/vswitchd", "../lib/vswitch/v2/vswitchd")
    root.copy("usr/bin/vswitch-entry", entry, 0o755)
    root.copy("usr/bin/busybox", BUSYBOX, 0o755)
    for tool in TOOLS:
        root.link(f"usr/bin/{tool}", "busybox")
    root.copy("usr/sbin/nft", NFT, 0o755)
    root.copy("etc/ssl/certs/ca-certificates.crt", AUTHORITIES)
    roots = [*programs.values(), *levels.values(), NFT]
    # A program with DPDK in it loads no plugin.
    if "librte_eal.so" in " ".join(elf.closure(levels.values())[0]):
        roots += add_plugins(root)
    add_libraries(root, roots)
    add_licences(root)
    return root


def add_plugins(root):
    """Copies DPDK's plugins; their files."""
    directory, files = plugin_directory(), []
    for name in PLUGINS:
        for file in sorted(directory.glob(f"librte_{name}.so.*")):
            # A link and its target have the same content: the loader asks for the shorter name.
            if file.name.count(".") == 2:
                root.copy(str(file)[1:], file.resolve())
                files.append(file.resolve())
    return files


def add_libraries(root, paths):
    """Copies the libraries that programs need, and the loader."""
    libraries, loaders = elf.closure(paths)
    for name, file in libraries.items():
        root.copy(f"{LIBRARIES}/{name}", file.resolve())
    for loader in sorted(loaders):
        root.copy(f"usr/lib64/{Path(loader).name}", Path(loader).resolve(), 0o755)


def package(file):
    """The Debian package of a file, with its version; None if it has none."""
    for path in (file, Path("/") / file.relative_to("/usr")) if file.is_relative_to("/usr") else (file,):
        done = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
        if done.returncode == 0:
            name = done.stdout.split(": ")[0].split(", ")[0]
            shown = subprocess.run(["dpkg-query", "-W", "-f=${Package} ${Version}", name], capture_output=True, text=True)
            return tuple(shown.stdout.split())
    return None


def add_licences(root):
    """Which packages the copied files are of, and their copyright files."""
    packages = sorted({found for file in root.sources if (found := package(file.resolve()))})
    root.file("usr/share/doc/vswitch/packages", "".join(f"{name} {version}\n" for name, version in packages).encode())
    for name, _ in packages:
        terms = Path("/usr/share/doc") / name / "copyright"
        if terms.is_file():
            root.file(f"usr/share/doc/{name}/copyright", terms.read_bytes())
