"""Pods that a real container runtime makes: containerd calls vswitch-cni, by CRI as a kubelet asks
for it. `test_cni_cluster.py` has many Pods, on two Nodes."""

import contextlib
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.antrea import several  # noqa: E402
from vsw.antrea.manifests import document  # noqa: E402
from vsw.cni.bed import Bed  # noqa: E402
from vsw.cni.cri import NEEDED, Runtime  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
MISSING = [name for name in NEEDED if not shutil.which(name)]
PODS = ("web", "client", "stranger")


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} missing: tools/setup installs them")
class CniRuntime(unittest.TestCase):
    """One Node."""

    @classmethod
    def setUpClass(cls):
        stack = cls.enterClassContext(contextlib.ExitStack())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vswitch-cri.")))
        cls.bed = Bed(f"vt{os.getpid()}", BINARIES, directory, stack.callback)
        (directory / "runtime").mkdir()
        cls.runtime = Runtime(directory / "runtime", cls.bed.plugin.binary, cls.bed.plugin.config(), stack.callback)

    def nothing_is_left(self):
        self.bed.write_cluster()
        self.bed.expect_nothing()

    def test_pods_reach_each_other_as_policies_allow(self):
        pods = [(name, f"uid-{name}", {"app": name}) for name in PODS]
        self.bed.write_cluster(pods)
        with contextlib.ExitStack() as stack:
            made = {}
            for name in PODS:
                made[name] = self.runtime.sandbox(name, f"uid-{name}")
                stack.callback(made[name].remove)
                made[name].start("/bin/sleep", "86400")
            self.assertEqual(len(made["web"].addresses()), 2)
            ping = lambda short, address: made[short].run("/bin/ping", "-c", "1", "-W", "2", address)[0] == 0  # noqa: E731
            for address in made["web"].addresses():
                for short in ("client", "stranger"):
                    machine.expect(f"{short} reaches {address}", lambda s=short, a=address: ping(s, a), self.bed.log)
            peers = [{"podSelector": {"matchLabels": {"app": "client"}}}]
            spec = {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"], "ingress": [{"from": peers}]}
            policy = document("networking.k8s.io/v1", "NetworkPolicy", "web", "default", spec=spec)
            self.bed.write_cluster(pods, [policy])
            for address in made["web"].addresses():
                machine.expect(f"the policy denies {address}", lambda a=address: not ping("stranger", a), self.bed.log)
                machine.expect(f"the policy allows {address}", lambda a=address: ping("client", a), self.bed.log)
        self.nothing_is_left()


if __name__ == "__main__":
    several.main(CniRuntime)
