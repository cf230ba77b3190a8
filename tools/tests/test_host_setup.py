"""tools/vswitch-setup on planted trees: what it plans, does and takes back."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[1] / "vswitch-setup"
CARD, SECOND, MELLANOX = "0000:3b:00.0", "0000:3b:00.1", "0000:5e:00.0"
POOL = "hugepages/hugepages-2048kB/nr_hugepages"
CONFIG = f"""
[dpdk]
memory_mb = 1024
worker_cores = [2, 3]
[[bridge]]
name = "br0"
[[bridge.port]]
name = "uplink"
type = "dpdk"
devargs = "{CARD}"
[[bridge.port]]
name = "fast"
type = "dpdk"
devargs = "{MELLANOX},dv_flow_en=0"
[[bridge.port]]
name = "xdp"
type = "dpdk"
devargs = "net_af_xdp0,iface=eth5"
"""
# Runs a script as another user, who may not read the interpreter's own files: they are read before.
AS_NOBODY = """
import argparse, base64, gettext, json, os, re, shutil, subprocess, sys, tomllib
from pathlib import Path
del sys.argv[0]
code = compile(Path(sys.argv[0]).read_text(), sys.argv[0], "exec")
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
exec(code, {"__name__": "__main__"})
"""


class HostSetup(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for core in range(4):
            node = core // 2
            self.put(f"sys/devices/system/node/node{node}/cpulist", f"{2 * node}-{2 * node + 1}\n")
        for node in (0, 1):
            self.put(f"sys/devices/system/node/node{node}/{POOL}", "0\n")
            self.put(f"sys/devices/system/node/node{node}/hugepages/hugepages-1048576kB/nr_hugepages", "0\n")
        self.put(f"sys/kernel/mm/{POOL}", "0\n")
        self.put("sys/devices/system/cpu/present", "0-3\n")
        self.put("sys/devices/system/cpu/isolated", "\n")
        self.put("sys/kernel/iommu_groups/7/type", "DMA\n")
        self.put("sys/bus/pci/drivers_probe", "")
        self.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet\n")
        self.put("proc/cpuinfo", "vendor_id\t: GenuineIntel\n")
        self.put("proc/net/route", "Iface\tDestination\neth0\t00000000\n")
        for card, driver, vendor in ((CARD, "ixgbe", "0x8086"), (SECOND, "ixgbe", "0x8086"), (MELLANOX, "mlx5_core", "0x15b3")):
            self.put(f"sys/bus/pci/devices/{card}/vendor", f"{vendor}\n")
            self.put(f"sys/bus/pci/devices/{card}/driver_override", "(null)\n")
            self.bind(card, driver)
        self.put("usr/sbin/driverctl", "")
        self.put("etc/default/grub", 'GRUB_CMDLINE_LINUX=""\n')
        self.put("etc/vswitch/vswitchd.toml", CONFIG)

    def put(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def get(self, path):
        return (self.root / path).read_text()

    def bind(self, card, driver):
        """What the kernel does when a driver has taken a card."""
        self.put(f"sys/bus/pci/drivers/{driver}/unbind", "")
        link = self.root / f"sys/bus/pci/devices/{card}/driver"
        link.unlink(missing_ok=True)
        link.symlink_to(f"../../drivers/{driver}")

    def files(self):
        """All files with content and mode, links, and directories."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if path.is_symlink():
                found[name] = os.readlink(path)
            elif path.is_dir():
                found[name] = "directory"
            else:
                found[name] = (path.read_bytes(), path.stat().st_mode)
        return found

    def call(self, *words, status=0, through=()):
        argv = [sys.executable, "-B", *through, TOOL, "host", *words, "--root", self.root]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def plan(self, *words):
        return json.loads(self.call("plan", "--json", *words))

    def item(self, name, *words):
        found = [item for item in self.plan(*words)["items"] if item["name"] == name]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_plan_changes_nothing_and_names_each_file(self):
        before = self.files()
        items = self.plan()["items"]
        changed = {item["file"] for item in items if item["change"]}
        wanted = {
            f"/sys/devices/system/node/node1/{POOL}",
            f"/sys/bus/pci/devices/{CARD}/driver",
            "/sys/devices/system/cpu/isolated",
            "/etc/tmpfiles.d/vswitch-hugepages.conf",
            "/etc/modules-load.d/vswitch.conf",
            f"/etc/driverctl.d/pci-{CARD}",
            "/etc/default/grub.d/60-vswitch.cfg",
        }
        self.assertEqual(changed, wanted, items)
        self.assertEqual({item["when"] for item in items if item["file"].endswith(("isolated", ".cfg"))}, {"restart"})
        text = self.call("plan")
        for file in wanted:
            self.assertIn(file, text)
        self.assertEqual(self.files(), before)

    def test_apply_twice_and_undo_restores_each_byte(self):
        for mine, text in (("etc/modules-load.d/vswitch.conf", b"a file \xff of before"), ("etc/default/grub.d/60-vswitch.cfg", b"")):
            path = self.root / mine
            path.parent.mkdir(parents=True)
            path.write_bytes(text)
            path.chmod(0o600)
        before = self.files()
        self.call("apply")
        self.assertEqual(self.get(f"sys/devices/system/node/node1/{POOL}"), "512\n")
        self.assertEqual(self.get(f"sys/devices/system/node/node0/{POOL}"), "0\n", "no worker is on this node")
        self.assertIn(f"w /sys/devices/system/node/node1/{POOL} - - - - 512\n", self.get("etc/tmpfiles.d/vswitch-hugepages.conf"))
        self.assertEqual(self.get(f"etc/driverctl.d/pci-{CARD}"), "vfio-pci\n")
        self.assertTrue(self.get("etc/modules-load.d/vswitch.conf").endswith("\nvfio-pci\n"))
        self.assertIn("isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3", self.get("etc/default/grub.d/60-vswitch.cfg"))
        self.assertEqual(self.get(f"sys/bus/pci/devices/{CARD}/driver_override"), "vfio-pci\n")
        self.assertEqual(self.get("sys/bus/pci/drivers/ixgbe/unbind"), CARD)
        self.assertEqual(self.get("sys/bus/pci/drivers_probe"), CARD)
        self.assertFalse((self.root / f"etc/driverctl.d/pci-{MELLANOX}").exists())
        self.bind(CARD, "vfio-pci")
        applied = self.files()
        self.assertNotIn("+", [line[:1] for line in self.call("plan").splitlines()])
        self.call("apply")
        self.assertEqual(self.files(), applied)
        self.call("undo")
        self.assertEqual(self.get("sys/bus/pci/drivers/vfio-pci/unbind"), CARD)
        self.assertEqual(self.get(f"sys/bus/pci/devices/{CARD}/driver_override"), "\n")
        # What the kernel does with that.
        self.bind(CARD, "ixgbe")
        self.put(f"sys/bus/pci/devices/{CARD}/driver_override", "(null)\n")
        self.put("sys/bus/pci/drivers_probe", "")
        (self.root / "sys/bus/pci/drivers/vfio-pci/unbind").unlink()
        (self.root / "sys/bus/pci/drivers/vfio-pci").rmdir()
        self.assertEqual(self.files(), before)
        self.call("undo")
        self.assertEqual(self.files(), before)

    def test_hugepages_are_never_lowered(self):
        pool = f"sys/devices/system/node/node1/{POOL}"
        self.put(pool, "700\n")
        self.call("apply")
        self.bind(CARD, "vfio-pci")
        self.assertEqual(self.get(pool), "700\n")
        self.assertIn(" 700\n", self.get("etc/tmpfiles.d/vswitch-hugepages.conf"))
        applied = self.files()
        self.call("apply")
        self.assertEqual(self.files(), applied)
        self.call("undo")
        self.assertEqual(self.get(pool), "700\n")

    def test_pages_that_the_kernel_does_not_give_are_told(self):
        pool = self.root / f"sys/devices/system/node/node0/{POOL}"
        pool.unlink()
        # Takes each number, and has no page.
        pool.symlink_to("/dev/null")
        said = self.call("apply", "--hugepages", "0:8x2M", "--isolate", "", "--bind", MELLANOX, status=1)
        self.assertIn("only 0 of 8 hugepages", said)

    def test_a_card_with_routes_of_the_node_is_not_taken_before_they_are_saved(self):
        (self.root / f"sys/bus/pci/devices/{CARD}/net/eth0").mkdir(parents=True)
        self.assertIn("uplink save eth0", self.item(f"card {CARD}")["hurdle"])
        self.assertIn("uplink save eth0", self.call("apply", status=1))
        self.assertEqual(self.get(f"sys/bus/pci/devices/{CARD}/driver_override"), "(null)\n")
        self.assertFalse((self.root / f"etc/driverctl.d/pci-{CARD}").exists())
        self.put("run/vswitch-uplink/eth0", "mac\n")
        self.call("apply")
        self.assertEqual(self.get(f"sys/bus/pci/devices/{CARD}/driver_override"), "vfio-pci\n")

    def test_mellanox_keeps_its_driver(self):
        item = self.item(f"card {MELLANOX}", "--bind", MELLANOX)
        self.assertEqual((item["change"], item["hurdle"]), (False, ""))
        # Nor if its driver is not loaded.
        (self.root / f"sys/bus/pci/devices/{MELLANOX}/driver").unlink()
        self.call("apply", "--bind", MELLANOX, "--isolate", "")
        self.assertEqual(self.get(f"sys/bus/pci/devices/{MELLANOX}/driver_override"), "(null)\n")
        self.assertFalse((self.root / "etc/driverctl.d").exists())

    def test_without_an_iommu_a_card_waits_for_the_restart(self):
        for path in sorted((self.root / "sys/kernel/iommu_groups").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        self.call("apply")
        self.assertEqual(self.get(f"sys/bus/pci/devices/{CARD}/driver_override"), "(null)\n")
        self.assertIn("intel_iommu=on iommu=pt", self.get("etc/default/grub.d/60-vswitch.cfg"))
        self.assertFalse(self.item("IOMMU")["change"])
        self.put("proc/cmdline", "quiet intel_iommu=on iommu=pt\n")
        self.assertIn("firmware", self.item("IOMMU")["hurdle"])
        self.assertIn("firmware", self.call("apply", status=1))
        self.assertIn("intel_iommu=on", self.get("etc/default/grub.d/60-vswitch.cfg"), "the next boot needs it, too")

    def test_after_the_restart_the_words_stay(self):
        self.call("apply")
        grub = self.get("etc/default/grub.d/60-vswitch.cfg")
        self.put("proc/cmdline", "quiet isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3\n")
        self.put("sys/devices/system/cpu/isolated", "2-3\n")
        self.bind(CARD, "vfio-pci")
        self.assertEqual([item for item in self.plan()["items"] if item["change"] or item["hurdle"]], [])
        self.call("apply")
        self.assertEqual(self.get("etc/default/grub.d/60-vswitch.cfg"), grub)

    def test_words_of_others_stay_theirs(self):
        self.put("proc/cmdline", "isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3\n")
        self.put("sys/devices/system/cpu/isolated", "2-3\n")
        self.call("apply")
        self.assertFalse((self.root / "etc/default/grub.d").exists())

    def test_without_grub_the_words_are_told(self):
        (self.root / "etc/default/grub").unlink()
        self.assertIn("isolcpus=managed_irq,domain,2-3", self.call("apply", status=1))

    def test_what_is_no_longer_wanted_goes(self):
        self.call("apply")
        self.bind(CARD, "vfio-pci")
        self.assertIn("no longer wanted", self.call("plan", "--isolate", ""))
        self.call("apply", "--isolate", "")
        self.assertFalse((self.root / "etc/default/grub.d/60-vswitch.cfg").exists())

    def test_a_file_that_others_have_changed_stays(self):
        self.call("apply")
        self.put("etc/modules-load.d/vswitch.conf", "theirs\n")
        self.assertIn("was changed since", self.call("undo", status=1))
        self.assertEqual(self.get("etc/modules-load.d/vswitch.conf"), "theirs\n")

    def test_wishes_of_a_file_and_of_options(self):
        cards = f'[cards]\nbind = ["{SECOND[5:]}"]\n'
        self.put("etc/vswitch/host.toml", f'[hugepages]\npages = ["0:4x1G", "1:8x2M"]\n{cards}[cores]\nisolate = "1"\n')
        names = {item["name"]: item["wanted"] for item in self.plan()["items"]}
        self.assertEqual(names["hugepages of 1G on NUMA node 0"], "4")
        self.assertEqual(names["hugepages of 2M on NUMA node 1"], "8")
        self.assertEqual((names[f"card {SECOND}"], names["isolated cores"]), ("vfio-pci", "1"))
        self.assertNotIn(f"card {CARD}", names)
        self.assertEqual(self.item("isolated cores", "--isolate", "1-2")["wanted"], "1-2")

    def test_ordinary_pages_are_told(self):
        self.put("etc/vswitch/vswitchd.toml", "[dpdk]\nhugepages = false\n")
        self.assertIn("[dpdk] hugepages = true", self.call("plan"))

    def test_wrong_wishes(self):
        for words, complaint in (
            (["--hugepages", "many"], "NODE:"),
            (["--hugepages", "7:1x2M"], "no NUMA node 7"),
            (["--bind", "eth0"], "lspci -D"),
            (["--isolate", "3-1"], "list of cores"),
            (["--isolate", "0-3"], "one must be left"),
            (["--config", "/none"], "there is no /none"),
        ):
            with self.subTest(words):
                self.assertIn(complaint, self.call("plan", *words, status=2))
        for text in ("[cards]\nbnd = []\n", "[cards]\nbind = 'x'\n", "cores = 3\n", "x = \n", "[cores]\nisolate = 3\n"):
            with self.subTest(text):
                self.put("etc/vswitch/host.toml", text)
                self.assertIn("/etc/vswitch/host.toml: ", self.call("plan", status=2))
        (self.root / "etc/vswitch/host.toml").unlink()
        for text in ("[dpdk]\nworker_cores = 3\n", "[dpdk]\nmemory_mb = 'x'\n", "bridge = 3\n", "[[bridge]]\nport = [3]\n"):
            with self.subTest(text):
                self.put("etc/vswitch/vswitchd.toml", text)
                self.assertIn("/etc/vswitch/vswitchd.toml: ", self.call("plan", status=2))

    def test_a_card_that_is_not_there(self):
        self.assertIn("lspci", self.item("card 0000:99:00.0", "--bind", "99:00.0")["hurdle"])

    def test_plan_needs_no_root_and_apply_says_so(self):
        self.call("apply")
        self.bind(CARD, "vfio-pci")
        self.root.chmod(0o755)
        (self.root / "var/lib/vswitch").chmod(0o700)
        said = self.call("plan", through=("-c", AS_NOBODY))
        self.assertIn("hugepages of 2M on NUMA node 1: 512", said)
        self.assertIn("run as root", self.call("apply", "--bind", SECOND, status=1, through=("-c", AS_NOBODY)))

    def test_a_damaged_state_is_told(self):
        self.put("var/lib/vswitch/setup.json", "{")
        self.assertIn("setup.json is damaged", self.call("undo", status=1))


if __name__ == "__main__":
    unittest.main()
