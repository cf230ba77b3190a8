"""Network cards on PCI: the switch runs in a guest in QEMU, on devices that verify and finish
checksums, and segment. The other end of each card is a kernel in a namespace."""

import functools
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from vsw import cards, daemon, machine, netns  # noqa: E402

# In the namespace, at the switch, and of the guest's own card.
HERE, THERE, FAR = "10.77.0.1", "10.77.0.2", "10.77.0.3"
HERE6, THERE6 = "fd77::1", "fd77::2"


@functools.cache
def image():
    """What guests boot from. The kernel is there from the tests of guests: here is no network."""
    boot = machine.ROOT / "target" / "tmp" / "guest-image"
    machine.output([machine.ROOT / "tools" / "guest-image", "--switch", daemon.bin_dir("dev"), boot], timeout=300)
    return boot


def boot(case, name, kind):
    """A namespace and a guest with this kind of card, which has booted; both end with `case`, a
    test or a class of tests."""
    machine.stop_on_signals()
    enter, cleanup = (case.enterClassContext, case.addClassCleanup) if isinstance(case, type) else (case.enterContext, case.addCleanup)
    directory = Path(enter(tempfile.TemporaryDirectory(prefix="vswitch-cards-")))
    space = netns.Space(f"vt{os.getpid()}-{name}")
    cleanup(netns.ip, "netns", "delete", space.name)
    node = cards.SwitchGuest(image(), directory, name, space, kind)
    cleanup(node.stop)
    node.wait_ready()
    return space, node


def join(space, mtu):
    """A bridge in the namespace joins the other ends of both cards."""
    space.ip("link", "add", "name", "wires", "type", "bridge")
    for tap in ("tap0", "tap1"):
        space.ip("link", "set", "dev", tap, "mtu", str(mtu), "master", "wires", "up")
    for address in (f"{HERE}/24", f"{HERE6}/64"):
        space.ip("address", "add", address, "dev", "wires")
    space.ip("link", "set", "dev", "wires", "mtu", str(mtu), "up")


def answers(space, address, *words):
    """Whether an address answers a ping from the namespace now."""
    try:
        return space.run("ping", "-n", "-q", "-c", "1", "-W", "2", *words, address)
    except machine.Failure:
        return None


class Card:
    """The scenes of each kind of card. In the guest, `br0` joins the card `wire` and the host's
    port `br0`; `br-pods` joins a tunnel and `pod0`. A bridge in the namespace joins the other ends
    of both cards. The guest's kernel has what the machine's may not have: VLANs and Geneve."""

    kind: str
    # Capabilities of the card that the switch uses, and that it does itself.
    used: tuple
    software: tuple = ()

    @classmethod
    def setUpClass(cls):
        kind = cards.KINDS[cls.kind]
        cls.space, cls.guest = boot(cls, cls.kind, kind)
        cls.card = cls.guest.card()
        cls.guest.bind(cls.card, kind.binding)
        wire = {"name": "wire", "type": "dpdk", "devargs": cls.card, "mtu": kind.mtu, "queues": kind.queues}
        host = {"name": "br0", "type": "internal", "mtu": kind.mtu, "addresses": [f"{THERE}/24"]}
        tunnel = {"name": "gnv0", "type": "geneve", "options": {"remote_ip": FAR, "key": "7", "csum": "true"}}
        pods = ({"name": "br-pods", "fail_mode": "standalone"}, [tunnel, {"name": "pod0", "type": "internal", "mtu": 1400}])
        cls.guest.start_switch([wire, host], others=[pods])
        for words in (["br0", "up", "mtu", str(kind.mtu)], ["pod0", "up", "mtu", "1400"]):
            cls.guest.run(f"ip link set dev {' '.join(words)}")
        for address, device in ((f"{THERE}/24", "br0"), (f"{THERE6}/64", "br0"), ("10.78.0.2/24", "pod0")):
            cls.guest.run(f"ip address add {address} dev {device}")
        join(cls.space, kind.mtu)
        cls.guest.far(f"{FAR}/24")
        cls.guest.run("ip -n far link add gnv0 type geneve id 7 remote 10.77.0.2 udpcsum && ip -n far address add 10.78.0.3/24 dev gnv0 && ip -n far link set dev gnv0 mtu 1400 up")
        cls.guest.run("ip -n far link add link eth0 name eth0.5 type vlan id 5 && ip -n far address add 10.79.0.3/24 dev eth0.5 && ip -n far link set dev eth0.5 mtu 1500 up")
        cls.guest.run("ip link add link br0 name br0.5 type vlan id 5 && ip address add 10.79.0.2/24 dev br0.5 && ip link set dev br0.5 mtu 1500 up")
        cls.guest.run("iperf3 --server --daemon")
        cls.guest.await_in("netstat -ltn | grep -q ':5201 '", "iperf3 listens in the guest")
        cls.reach(THERE)

    @classmethod
    def reach(cls, address, *words):
        """Waits until the guest answers at an address."""
        machine.expect(f"{address} answers in the guest of {cls.kind}", lambda: answers(cls.space, address, *words))

    def transfer(self, address, *words, megabytes=2):
        """Sends by TCP, and checks that no kernel met a wrong checksum."""
        before = self.space.checksum_errors()
        self.space.run("iperf3", "--client", address, "--bytes", f"{megabytes}M", *words, timeout=180)
        self.assertEqual(self.space.checksum_errors(), before, "wrong checksums from the card")
        self.assertEqual(self.errors_in_guest(), 0, "wrong checksums in the guest")

    def transfer_far(self, address):
        """The same between the switch and the guest's own card, both ways."""
        self.guest.await_in(f"ip netns exec far ping -n -q -c 1 -W 2 {address}", f"{address} answers")
        for way in ("", "--reverse"):
            self.guest.run(f"ip netns exec far iperf3 --client {address} --bytes 2M {way}")
        self.assertEqual(self.errors_in_guest(), 0, "wrong checksums in the guest")
        self.assertEqual(self.errors_in_guest("ip netns exec far"), 0, "wrong checksums from the card")

    def errors_in_guest(self, through=""):
        counters = self.guest.run(f"{through} nstat -asz TcpInCsumErrors UdpInCsumErrors Ip6InDiscards").splitlines()[1:]
        return sum(int(line.split()[1]) for line in counters)

    def test_checksums_and_segments_are_the_cards(self):
        for address in (THERE, THERE6):
            self.transfer(address)
            self.transfer(address, "--reverse")
        offloads = self.guest.offloads("wire")
        self.assertEqual({name for name, row in offloads.items() if row["used"] == "yes"} & set(self.used), set(self.used), offloads)
        for name in self.used:
            self.assertIn(offloads[name]["software"], ("0", "-"), f"{name}: {offloads}")
        for name in self.software:
            self.assertGreater(int(offloads[name]["software"]), 0, f"{name}: {offloads}")

    def test_frames_as_long_as_the_mtu(self):
        for family, address, headers in (("-4", THERE, 28), ("-6", THERE6, 48)):
            self.reach(address, family, "-M", "do", "-s", str(cards.KINDS[self.kind].mtu - headers))

    def test_tags_of_vlans(self):
        self.transfer_far("10.79.0.2")

    def test_tunnels_with_outer_checksums(self):
        self.transfer_far("10.78.0.2")

    def test_link_that_flaps(self):
        for _ in range(2):
            self.guest.monitor("set_link", name="card0", up=False)
            self.guest.await_in("vsctl show | grep -A 4 'Port wire' | grep -q 'link: down'", "the link goes down", "vsctl show")
            self.guest.monitor("set_link", name="card0", up=True)
            self.guest.await_in("vsctl show | grep -A 4 'Port wire' | grep -q 'link: up'", "the link comes up", "vsctl show")
            self.reach(THERE)

    def test_unplugged_under_load_and_plugged_in_again(self):
        """Last, since the card goes. The kernel takes one away from uio at once. vfio asks, and
        waits until the port is deleted."""
        sending = self.space.spawn("iperf3", "--client", THERE, "--time", "300", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(machine.end, sending)
        self.guest.await_in("[ $(vsctl dump-ports br0 | sed -n 's/.*port *1: rx pkts=\\([0-9]*\\).*/\\1/p') -gt 1000 ]", "packets flow", "vsctl dump-ports br0")
        self.guest.monitor("device_del", id="card0")
        if cards.KINDS[self.kind].binding == "vfio-pci":
            self.guest.await_in("dmesg | grep -q 'Relaying device request to user'", "the kernel asks for the card")
        else:
            self.guest.await_in(f"test ! -e /sys/bus/pci/devices/{self.card}", "the kernel takes the card away")
            self.guest.await_in("vsctl show | grep -A 4 'Port wire' | grep -q 'link: down'", "the link goes down", "vsctl show")
        self.assertIn("SERVING", self.guest.run("vsctl health"))
        self.guest.run("vsctl del-port br0 wire")
        self.guest.await_in(f"test ! -e /sys/bus/pci/devices/{self.card}", "the card is gone")
        self.guest.plug_in()
        self.guest.await_in(f"test -e /sys/bus/pci/devices/{self.card}", "a card is there again")
        self.guest.bind(self.card, cards.KINDS[self.kind].binding)
        # All queues again: those of the TAP stay, and nothing would come from one without a queue.
        kind = cards.KINDS[self.kind]
        self.guest.run(f"vsctl add-port br0 wire --type dpdk --devargs {self.card} --mtu {kind.mtu} --queues {kind.queues}")
        self.reach(THERE)


class E1000e(Card, unittest.TestCase):
    """Intel's 82574 by vfio-pci behind an IOMMU: checksums, one queue, no segments."""

    kind = "e1000e"
    used = ("rx-csum", "tx-csum", "multi-segment")
    software = ("tx-tso4", "tx-tso6")


class Virtio(Card, unittest.TestCase):
    """virtio-net with two queues."""

    kind = "virtio"
    used = ("rx-csum", "tx-csum", "tx-tso4", "tx-tso6", "multi-segment", "multi-queue")


class Vmxnet3(Card, unittest.TestCase):
    """VMware's card with two queues. QEMU's model of it does not spread packets."""

    kind = "vmxnet3"
    used = ("rx-csum", "tx-csum", "tx-tso4", "tx-tso6", "multi-segment", "multi-queue")


class OneGuest(unittest.TestCase):
    """A card that hashes. Each test leaves it to the guest's kernel, as it is at first."""

    CONNECTIONS, ROUNDS = 16, 30
    # A client for each of these source ports, with so many questions and answers.
    CLIENT = """import socket, sys
address, source, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with socket.create_connection((address, 7000), source_address=("", source)) as line:
    for _ in range(rounds):
        line.sendall(b"x")
        assert line.recv(1) == b"x"
"""

    @classmethod
    def setUpClass(cls):
        cls.kind = cards.KINDS["virtio-rss"]
        cls.space, cls.guest = boot(cls, "one", cls.kind)
        cls.card = cls.guest.card()
        cls.driver = cls.guest.run(f"basename $(readlink /sys/bus/pci/devices/{cls.card}/driver)").strip()

    def give_back(self):
        self.guest.stop_switch()
        self.guest.bind(self.card, self.driver)

    def test_both_directions_come_to_one_queue(self):
        """The switch sends what comes by the card out by the card again, so that it receives both
        directions of a connection there."""
        space, node, card = self.space, self.guest, self.card
        node.bind(card, self.kind.binding)
        node.start_switch([{"name": "wire", "type": "dpdk", "devargs": card, "queues": self.kind.queues}])
        self.addCleanup(self.give_back)
        offloads = node.offloads("wire")
        self.assertEqual([offloads[name]["used"] for name in ("multi-queue", "rss-tcp4", "rss-symmetric")], ["yes"] * 3, offloads)
        join(space, self.kind.mtu)
        self.addCleanup(space.ip, "link", "delete", "dev", "wires")
        node.far(f"{FAR}/24")
        here = space.run("cat", "/sys/class/net/wires/address").strip()
        # Each takes the card for the other one.
        space.ip("neighbour", "replace", FAR, "lladdr", cards.mac(0), "dev", "wires")
        node.run(f"ip -n far neighbour replace {HERE} lladdr {cards.mac(0)} dev eth0")
        for address, mac in ((HERE, here), (FAR, cards.mac(1))):
            actions = f"set_field:{cards.mac(0)}->eth_src,set_field:{mac}->eth_dst,in_port"
            node.run(f"vsctl add-flow br0 'priority=100,in_port=wire,ip,dl_dst={cards.mac(0)},nw_dst={address},actions={actions}'")
        node.run("ip netns exec far nc -ll -p 7000 -e cat >/dev/null 2>&1 &")
        used, before = set(), self.received(node)
        for source in range(40000, 40000 + self.CONNECTIONS):
            space.run(sys.executable, "-c", self.CLIENT, FAR, str(source), str(self.ROUNDS))
            now = self.received(node)
            more, before = [each - then for each, then in zip(now, before, strict=True)], now
            self.assertGreaterEqual(max(more), 2 * self.ROUNDS, f"from port {source}: {more}")
            self.assertLess(min(more), self.ROUNDS // 2, f"directions come to different queues, from port {source}: {more}")
            used.add(more.index(max(more)))
        self.assertEqual(used, {0, 1}, "all connections come to one queue")

    @staticmethod
    def received(node):
        """Packets that came by each queue of the card."""
        found = re.findall(r"port: wire +queue-id: +(\d+) .*packets: (\d+)", node.run("vsctl worker-rxq-show"))
        return [int(packets) for _, packets in sorted(found)]

    def test_the_nodes_address_goes_to_the_switch_and_back(self):
        """tools/uplink on a card that the guest's kernel has at first: the Node's address goes to
        the switch's port while the switch has the card, and back."""
        space, node, card = self.space, self.guest, self.card
        device = node.run(f"basename $(echo /sys/bus/pci/devices/{card}/virtio*/net/*)").strip()
        node.run(f"ip address add {THERE}/24 dev {device} && ip link set dev {device} up && ip route add 10.9.0.0/16 via {HERE}")
        space.ip("address", "add", f"{HERE}/24", "dev", "tap0")
        space.ip("link", "set", "dev", "tap0", "up")
        self.addCleanup(space.ip, "address", "delete", f"{HERE}/24", "dev", "tap0")
        node_answers = lambda: answers(space, THERE)
        machine.expect("the Node answers by its kernel", node_answers)
        node.run(f"uplink save {device}")
        node.bind(card, self.kind.binding)
        node.start_switch([{"name": "wire", "type": "dpdk", "devargs": card, "queues": self.kind.queues}, {"name": "br0", "type": "internal"}])
        node.run(f"uplink take {device} br0")
        machine.expect("the Node answers by the switch", node_answers)
        self.assertIn(f"link/ether {cards.mac(0)}", node.run("ip link show dev br0"))
        self.assertIn("10.9.0.0/16", node.run("ip route show dev br0"))
        self.give_back()
        node.await_in(f"test -e /sys/class/net/{device}", "the kernel has the card again")
        node.run(f"uplink back {device}")
        machine.expect("the Node answers by its kernel again", node_answers)
        self.assertIn("10.9.0.0/16", node.run(f"ip route show dev {device}"))


if __name__ == "__main__":
    unittest.main()
