"""VLANs of Pods on real traffic: two Nodes on a trunk, Pods of two VLANs and untagged ones, and a
router that is on all of them."""

import contextlib
import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw.antrea import manifests, several, vlan_scenes, vlans  # noqa: E402
from vsw.antrea.host_agent import HostAgent  # noqa: E402
from vsw.antrea.vlans import FLAT, HOSTS, ONE, PLAIN, RED3, ROUTER  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))


class PodVlans(unittest.TestCase):
    """One cluster, all scenes."""

    @classmethod
    def setUpClass(cls):
        stack = cls.enterClassContext(contextlib.ExitStack())
        cls.directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vswitch-vlans.")))
        wire, tag = cls.directory / "wire", f"vt{os.getpid()}-vlans"
        wire.mkdir()
        cls.trunk = vlans.Trunk(tag, wire, stack.callback)
        cls.switches = several.started(cls.trunk, HOSTS, BINARIES, cls.directory, tag, stack.callback)
        for host in HOSTS:
            cls.switches[host.name].wait_ready()
            cls.trunk.attach(host)
        cls.trunk.serve(stack)

    def test_vlans(self):
        with manifests.told(self.switches, self.directory / "cluster", vlans.manifests()), contextlib.ExitStack() as stack:
            # The host of Node 2 is on no link: the switch has its uplink.
            switch = self.switches[ONE.name]
            HostAgent(switch, self.trunk.names[ONE.space], switch.directory, stack).once()
            self.meet()
            several.show(self, self.switches, vlan_scenes.Vlans(self.trunk, self.switches).all())
        self.assertEqual(self.trunk.checksum_errors(), {})

    def meet(self):
        several.meet(self.trunk.names, [(PLAIN.name, RED3.address), (ROUTER, FLAT.address)])


if __name__ == "__main__":
    several.main(PodVlans)
