"""Traffic modes other than encap on real traffic: three Nodes, two of them on one link, the third
one behind a router, and kernels that route between them."""

import contextlib
import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw.antrea import manifests, modes, several, three  # noqa: E402
from vsw.antrea.three import HOSTS  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))


class Modes(unittest.TestCase):
    """One cluster, in one mode after the other."""

    @classmethod
    def setUpClass(cls):
        stack = cls.enterClassContext(contextlib.ExitStack())
        cls.directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vswitch-modes.")))
        cls.three = three.Three(f"vt{os.getpid()}", stack.callback)
        cls.switches = several.started(cls.three, HOSTS, BINARIES, cls.directory, f"vt{os.getpid()}", stack.callback)
        for host in HOSTS:
            cls.switches[host.name].wait_ready()
            cls.three.attach(host, cls.switches[host.name])
        cls.three.serve(stack)
        cls.modes = modes.Modes(cls.three, cls.switches)

    def show(self, mode, prepare, scenes, **features):
        """All scenes of a mode."""
        self.three.clear()
        prepare()
        directory = self.directory / self.id()
        with manifests.told(self.switches, directory, modes.manifests(mode, **features)), self.three.hosts(self.switches):
            self.meet()
            several.show(self, self.switches, scenes(), mode=mode)
        self.assertEqual(self.three.checksum_errors(), {})

    def meet(self):
        several.meet(self.three.names, [(here.at("client"), modes.web(there)) for here in HOSTS for there in HOSTS])

    def test_no_encap(self):
        self.show("NoEncap", self.modes.no_encap, self.modes.of_no_encap)

    def test_no_encap_without_proxy(self):
        self.show("NoEncap", self.modes.no_encap_without_proxy, self.modes.of_no_encap_without_proxy, proxy=False)

    def test_hybrid(self):
        self.show("Hybrid", self.modes.hybrid, self.modes.of_hybrid)

    def test_hybrid_without_proxy(self):
        self.show("Hybrid", self.modes.hybrid_without_proxy, self.modes.of_hybrid_without_proxy, proxy=False)

    def test_network_policy_only(self):
        self.show("NetworkPolicyOnly", self.modes.policy_only, self.modes.of_policy_only, proxy=False)


if __name__ == "__main__":
    several.main(Modes)
