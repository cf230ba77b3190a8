"""tools/demo --cluster: from nothing to Pods, by API server, container runtime, plug-in, agents and
switches."""

import shutil
import unittest

from demos import WHOLE_S, Node

from vsw.cni.cri import NEEDED


class Cluster(Node):
    def test_cluster(self):
        missing = [name for name in (*NEEDED, "kubectl") if not shutil.which(name)]
        if missing:
            self.skipTest(f"not there: {', '.join(missing)}")
        said = self.finish(self.start("--cluster", "--once"), 0, WHOLE_S)
        self.shows(said, "NetworkUnavailable=False on both", "both answer, and see 10.244.1.", "is answered by web-1 and web-2",
                   "denied on both Nodes; let in as soon as it has the label", "Invalid: ", "outside sees 172.18.0.9 of node-2",
                   "node-2: ", "Delivered", "packets, none lost", "3 Pods came meanwhile", "it goes on: web-2 sees 10.244.1.", "no port is left")

    def test_usage(self):
        told = "--cluster shows Nodes of its own"
        for words in ("--cluster --l2", "--cluster --nodes 2", "--cluster --gateway shared --nodes 2", "--cluster --mode policy-only"):
            with self.subTest(words):
                self.shows(self.finish(self.start(*words.split()), 2), told)


if __name__ == "__main__":
    unittest.main()
