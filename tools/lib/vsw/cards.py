"""A guest in QEMU with the switch in it, and a network card on PCI for the switch: what a driver of
DPDK does with a device that verifies and finishes checksums, and segments."""

import json
import re
import socket
import time
from dataclasses import dataclass

from . import daemon, machine
from .guest import KERNEL_OPTIONS, Guest
from .machine import Failure

MEMORY_MB, HUGEPAGES, SWITCH_MB = 896, 176, 192
START_S = 120


@dataclass(frozen=True)
class Kind:
    """A kind of card: QEMU's device, the driver of the guest's kernel that gives it to DPDK, its
    MTU, its queues, and whether its TAP carries virtio's header (for a device that leaves work to
    its backend)."""

    device: str
    binding: str
    mtu: int = 9000
    queues: int = 1
    header: bool = False


KINDS = {
    "e1000e": Kind("e1000e", "vfio-pci"),
    # QEMU 7.2 loses frames that need several buffers.
    "vmxnet3": Kind("vmxnet3", "uio_pci_generic", mtu=1500, queues=2),
    # Not with rss=on: in QEMU 7.2 a queue that is full for a moment then stops the card for good.
    "virtio": Kind("virtio-net-pci,mq=on,vectors=10,mrg_rxbuf=on", "uio_pci_generic", queues=2, header=True),
    "virtio-rss": Kind("virtio-net-pci,mq=on,rss=on,vectors=10,mrg_rxbuf=on", "uio_pci_generic", mtu=1500, queues=2, header=True),
}


def mac(number):
    """The address of a card."""
    return f"02:00:00:00:77:{number:02x}"


class SwitchGuest(Guest):
    """A guest with two cards: card0 of `kind` for the switch, and card1 for the guest's own kernel,
    a virtio-net without offloads. Their other ends are TAPs in the namespace `space`, tap0 and
    tap1."""

    def __init__(self, boot, directory, name, space, kind):
        self.name, self.directory, self.kind = name, directory, kind
        initrd = directory / "initrd"
        initrd.write_bytes((boot / "initrd.cpio").read_bytes() + (boot / "switch.cpio").read_bytes())
        iommu = kind.binding == "vfio-pci"
        argv = ["-machine", "q35,kernel-irqchip=split" if iommu else "q35", "-smp", str(1 + kind.queues), "-m", str(MEMORY_MB)]
        if iommu:
            argv += ["-device", "intel-iommu,intremap=on,caching-mode=on,device-iotlb=on"]
        options = f"{KERNEL_OPTIONS} hugepages={HUGEPAGES}{' intel_iommu=on iommu=pt' if iommu else ''}"
        argv += ["-kernel", boot / "vmlinuz", "-initrd", initrd, "-append", options]
        self._monitor_path = directory / f"{name}.monitor"
        argv += ["-qmp", f"unix:{self._monitor_path},server=on,wait=off"]
        for i, (device, queues, header) in enumerate(((kind.device, kind.queues, kind.header), ("virtio-net-pci", 1, False))):
            many = header and queues > 1
            space.ip("tuntap", "add", "dev", f"tap{i}", "mode", "tap", *(["vnet_hdr"] if header else []), *(["multi_queue"] if many else []))
            backend = f",vnet_hdr={'on' if header else 'off'}" + (f",queues={queues}" if many else "")
            argv += ["-netdev", f"tap,id=n{i},ifname=tap{i},script=no,downscript=no{backend}"]
            argv += ["-device", f"pcie-root-port,id=slot{i},slot={i + 1},chassis={i + 1}"]
            argv += ["-device", f"{device},netdev=n{i},mac={mac(i)},romfile=,bus=slot{i},id=card{i}"]
        self.start(argv, through=("ip", "netns", "exec", space.name))

    def monitor(self, command, **arguments):
        """Tells QEMU something."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(machine.PATIENCE_S)
            line.connect(str(self._monitor_path))
            with line.makefile("rw") as file:
                file.readline()
                for words in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                    print(json.dumps(words), file=file, flush=True)
                    answer = json.loads(file.readline())
                    while "event" in answer:
                        answer = json.loads(file.readline())
                    if "error" in answer:
                        raise Failure(f"QEMU refuses {command}: {answer['error']['desc']}")

    def plug_in(self):
        """Puts a card0 in where one was pulled out."""
        driver, *options = self.kind.device.split(",")
        values = {key: value == "on" if value in ("on", "off") else int(value) for key, value in (option.split("=") for option in options)}
        self.monitor("device_add", driver=driver, netdev="n0", id="card0", bus="slot0", mac=mac(0), romfile="", **values)

    def card(self):
        """The PCI address of card0."""
        return self.run("for d in /sys/bus/pci/devices/*; do case $(cat $d/class) in 0x02*) basename $d;; esac; done").split()[0]

    def far(self, *addresses):
        """Makes the namespace `far` of the guest's kernel, with card1 as its eth0."""
        self.run("mkdir -p /run/netns && ip netns add far && ip netns exec far ip link set dev lo up")
        self.run(f"for d in /sys/class/net/*; do [ $(cat $d/address) != {mac(1)} ] || ip link set dev $(basename $d) netns far name eth0; done")
        for address in addresses:
            self.run(f"ip -n far address add {address} dev eth0")
        self.run(f"ip -n far link set dev eth0 mtu {self.kind.mtu} up")

    def bind(self, card, driver):
        """Gives a card to a driver of the kernel; "" is the one that the kernel chooses."""
        place = f"/sys/bus/pci/devices/{card}"
        self.run(f"[ ! -e {place}/driver ] || echo {card} >{place}/driver/unbind; echo {driver} >{place}/driver_override; echo {card} >/sys/bus/pci/drivers_probe")
        self.run(f"test -e {place}/driver")

    def start_switch(self, bridge_ports, others=()):
        """Starts vswitchd on the cards that are bound; see daemon.configuration for what it has."""
        self.run("mkdir -p /hugepages /run/vswitch /var/run; mountpoint -q /hugepages || mount -t hugetlbfs none /hugepages")
        cores = list(range(1, 1 + self.kind.queues))
        dpdk = {"hugepages": True, "memory_mb": SWITCH_MB, "main_core": 0, "worker_cores": cores}
        text = daemon.configuration(dpdk, bridge_ports, "/run/vswitch", others=others, conntrack={"connections": 8192}, idle_sleep_us=500)
        self.write("/tmp/vswitchd.toml", text)
        self.run("setsid vswitchd --config /tmp/vswitchd.toml >/tmp/vswitchd.log 2>&1 & echo $! >/tmp/vswitchd.pid")
        self.await_in("vsctl list-br", "vswitchd starts", "cat /tmp/vswitchd.log")

    def stop_switch(self):
        """Ends it."""
        self.run("kill $(cat /tmp/vswitchd.pid)")
        self.await_in("! kill -0 $(cat /tmp/vswitchd.pid)", "vswitchd ends", "cat /tmp/vswitchd.log")

    def write(self, path, text):
        """Writes a file in it."""
        self.run(f": >{path}")
        for line in text.splitlines():
            quoted = line.replace("'", "'\\''")
            self.run(f"echo '{quoted}' >>{path}")

    def await_in(self, command, what, explain="true"):
        """Waits until a command succeeds in it."""
        until = time.monotonic() + START_S
        while True:
            try:
                return self.run(command)
            except Failure as error:
                if time.monotonic() > until:
                    raise Failure(f"{what}: not within {START_S} s: {error}; {self.run(explain)[-2000:]}") from error
                time.sleep(0.2)

    def offloads(self, port, bridge="br0"):
        """What `port-caps` says: by capability, what was asked, offered and used, and how many
        packets the switch did it for."""
        rows = [line.split() for line in self.run(f"vsctl port-caps {bridge} {port}").splitlines()[1:]]
        return {row[1]: dict(zip(("asked", "offered", "used", "software"), row[2:], strict=True)) for row in rows}

    def port_line(self, port, key):
        """A line of `vsctl show` about a port."""
        text = self.run("vsctl show")
        found = re.search(rf"Port {port}\n(?:        .*\n)*?        {key}: (.*)", text)
        return found[1] if found else ""
