"""What the packages hold."""

import time
from dataclasses import dataclass
from pathlib import Path

from .. import machine
from ..image import elf, rootfs
from . import deb, manual

MAINTAINER = "vswitch maintainers <maintainers@vswitch.io>"
PROGRAMS = ("vswitchd", "vsctl", "vswitch-agent", "vswitch-cni")
TOOLS = machine.ROOT / "tools"
DEBIAN = machine.ROOT / "deploy" / "debian"
UNITS = "usr/lib/systemd/system"
# Plugins without which no switch starts, or that clients may name; the others are drivers of cards.
NEEDED = ("mempool_ring", "bus_pci", "bus_vdev", "net_af_xdp", "net_memif", "net_null", "net_pcap", "net_ring", "net_virtio")
# What the scripts run, and what is good to have beside.
BESIDE, RECOMMENDED = ("iproute2", "systemd"), ("driverctl", "nftables")
COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: vswitch

Files: *
Copyright: 2026 The vswitch authors
License: Apache-2.0

License: Apache-2.0
 On Debian systems, the full text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
"""


@dataclass(frozen=True)
class Release:
    """Programs, and what both packages say of them."""

    programs: Path
    version: str
    maintainer: str
    time: int

    @property
    def date(self):
        """The day, for manual pages."""
        return time.strftime("%Y-%m-%d", time.gmtime(self.time))

    def fields(self, **more):
        """Fields of a control file."""
        common = {"Source": "vswitch", "Version": self.version, "Architecture": "amd64", "Maintainer": self.maintainer}
        return {**common, "Section": "net", "Priority": "optional", **more}

    def binary(self, name):
        """A program without tables of source lines. Names of functions stay, for backtraces."""
        return rootfs.without_lines(self.programs / name)

    def documents(self, package):
        """Adds what each package has in /usr/share/doc."""
        where = f"usr/share/doc/{package.name}"
        when = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(self.time))
        package.zipped(f"{where}/changelog", f"vswitch ({self.version}) stable; urgency=medium\n\n  * NEWS.gz of the package vswitch "
                       f"has the changes.\n\n -- {self.maintainer}  {when}\n")
        package.file(f"{where}/copyright", COPYRIGHT)
        package.file(f"usr/share/lintian/overrides/{package.name}", (DEBIAN / f"{package.name}.lintian").read_text())


def plugins():
    """Packages of DPDK's plugins: those needed, and those of cards."""
    directory = rootfs.plugin_directory()

    def owners(names):
        return deb.owners([sorted(directory.glob(f"librte_{name}.so.*"))[0] for name in names])

    needed = owners(NEEDED)
    return needed, [name for name in owners(rootfs.PLUGINS) if name not in needed]


def switch(release):
    """The package vswitch."""
    # A switch without DPDK in it has no plugins.
    has_dpdk = "librte_eal.so" in " ".join(elf.closure([release.programs / "vswitchd"])[0])
    needed, cards = plugins() if has_dpdk else ([], [])
    depends = deb.dependencies([release.programs / name for name in PROGRAMS[:3]])
    depends += ["python3:any (>= 3.11)", *BESIDE, *needed]
    package = deb.Package("vswitch", release.fields(
        Depends=", ".join(sorted(depends)),
        Recommends=", ".join([*cards, *RECOMMENDED]),
        Suggests="vswitch-cni, dpdk",
        Description="DPDK virtual switch with Open vSwitch's semantics\n"
        " vswitchd forwards packets of VMs, Pods and network cards in user space.\n"
        " It is programmed by gRPC: by vsctl, and by vswitch-agent, which follows\n"
        " manifests or a cluster of Kubernetes.\n .\n"
        " The CPU must be of the level that the programs were built for, x86-64-v3\n"
        " by default. vswitchd tells what is missing.",
    ))
    add_programs(package, release)
    add_units(package)
    add_shell(package, release)
    add_pages(package, release)
    for name in ("postinst", "prerm", "postrm"):
        package.script(name, (DEBIAN / f"vswitch.{name}").read_text())
    release.documents(package)
    return package


def add_programs(package, release):
    """Programs, their configuration, and the directories of their state."""
    for path in ("usr/sbin/vswitchd", "usr/bin/vsctl", "usr/sbin/vswitch-agent"):
        package.file(path, release.binary(Path(path).name), 0o755)
    package.file("usr/sbin/vswitch-setup", (TOOLS / "vswitch-setup").read_text(), 0o755)
    package.file("usr/lib/vswitch/uplink", (TOOLS / "uplink").read_text(), 0o755)
    package.file("etc/vswitch/vswitchd.toml", (DEBIAN / "vswitchd.toml").read_text())
    package.file("etc/default/vswitch-agent", (DEBIAN / "vswitch-agent.default").read_text())
    package.directory("etc/vswitch/manifests")
    # The unit makes it 0700.
    package.directory("var/lib/vswitch")
    package.file("usr/lib/sysusers.d/vswitch.conf", (DEBIAN / "sysusers.conf").read_text())


def add_units(package):
    """Units of systemd."""
    package.file(f"{UNITS}/vswitchd.service", (TOOLS / "vswitchd.service").read_text())
    package.file(f"{UNITS}/vswitchd.service.d/10-package.conf", (DEBIAN / "vswitchd-package.conf").read_text())
    package.file(f"{UNITS}/vswitch-agent.service", (DEBIAN / "vswitch-agent.service").read_text())


def add_shell(package, release):
    """Completion of vsctl."""
    for shell, path in (
        ("bash", "usr/share/bash-completion/completions/vsctl"),
        ("zsh", "usr/share/zsh/vendor-completions/_vsctl"),
        ("fish", "usr/share/fish/vendor_completions.d/vsctl.fish"),
    ):
        package.file(path, machine.output([release.programs / "vsctl", "completion", shell]))


def add_pages(package, release):
    """Manual pages, and documents."""
    package.zipped("usr/share/man/man1/vsctl.1", machine.output([release.programs / "vsctl", "man"]))
    pages = {
        release.programs / "vswitchd": "virtual switch in user space, by DPDK",
        release.programs / "vswitch-agent": "programs vswitchd by manifests of Kubernetes",
        TOOLS / "vswitch-setup": "prepares a host for vswitchd",
    }
    for program, about in pages.items():
        text = manual.page(program.name, 8, about, manual.help_of(program), release.date)
        package.zipped(f"usr/share/man/man8/{program.name}.8", text)
    package.zipped("usr/share/doc/vswitch/NEWS", (machine.ROOT / "CHANGELOG.md").read_text())
    package.file("usr/share/doc/vswitch/README.md", (machine.ROOT / "README.md").read_text())
    package.file("usr/share/doc/vswitch/vswitchd.example.toml", (machine.ROOT / "vswitch" / "vswitchd.example.toml").read_text())
    for name in ("configuration", "install", "operations", "troubleshooting", "vsctl"):
        package.zipped(f"usr/share/doc/vswitch/{name}.md", (machine.ROOT / "docs" / f"{name}.md").read_text())


def plug_in(release):
    """The package vswitch-cni. The name of the file is the type in a network's configuration."""
    package = deb.Package("vswitch-cni", release.fields(
        Depends=", ".join(deb.dependencies([release.programs / "vswitch-cni"])),
        Recommends="containernetworking-plugins, vswitch",
        Description="CNI plug-in of vswitch\n"
        " It attaches Pods to vswitchd by way of vswitch-agent of the same Node.\n"
        " Container runtimes run it; its type is vswitch.",
    ))
    package.file("usr/lib/cni/vswitch", release.binary("vswitch-cni"), 0o755)
    release.documents(package)
    return package
