"""VLANs of Pods on real traffic: two Nodes on a trunk, Pods of two VLANs and untagged ones, and a router that is on all of them."""

import contextlib
import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.antrea import manifests, several, vlan_scenes, vlans  # noqa: E402
from vsw.antrea.actions import BOTH, of  # noqa: E402
from vsw.antrea.vlans import FLAT, HOSTS, PLAIN, RED3, ROUTER  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
MEET_S = 30  # until neighbours have found each other


class PodVlans(unittest.TestCase):
    """One cluster, all scenes."""

    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vswitch-vlans.")))
        wire = self.directory / "wire"
        wire.mkdir()
        self.trunk = vlans.Trunk(f"vv{os.getpid()}", wire, stack.callback)
        self.switches = several.started(self.trunk, HOSTS, BINARIES, self.directory, f"vv{os.getpid()}", stack.callback)
        for host in HOSTS:
            self.switches[host.name].wait_ready()
            self.trunk.attach(host)
        self.trunk.serve(stack)

    def test_vlans(self):
        with manifests.told(self.switches, self.directory / "cluster", vlans.manifests()):
            self.meet()
            several.show(self, self.switches, vlan_scenes.Vlans(self.trunk, self.switches).all())
        self.assertEqual(self.trunk.checksum_errors(), {})

    def meet(self):
        """Neighbours are found, so that what a scene counts is its own."""
        for here, there in ((PLAIN.name, RED3.address), (ROUTER, FLAT.address)):
            for family in BOTH:
                address = of(there, family)
                machine.wait_until(f"{here} reaches {address}", MEET_S, lambda here=here, address=address: several.answers(self.trunk.names[here], address))


if __name__ == "__main__":
    unittest.main()
