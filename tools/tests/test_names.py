"""Names of addresses: what the agent knows of Pods, Nodes and Services is what the switch tells."""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.antrea import generated  # noqa: E402
from vsw.antrea.four_pods import FourPods  # noqa: E402
from vsw.antrea.generated import PODS, SERVICE, addresses  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
FAR = ("10.10.1.5", "fd00:10:0:1::5")
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "db-6f5d8c9b7", "uid": "1", "controller": True}


def far(name):
    """A Pod of another Node."""
    labels = {"app": "db", "pod-template-hash": "6f5d8c9b7"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "data", "labels": labels, "ownerReferences": [OWNER]},
            "spec": {"nodeName": "node-1"}, "status": {"podIPs": [{"ip": address} for address in FAR]}}


class Names(unittest.TestCase):
    """A Node of four Pods with an agent."""

    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-names.")))
        self.node = FourPods(BINARIES, self.directory, generated.Size(1, 1, 1), self)
        self.node.start_switch()
        with open(self.directory / "agent.log", "ab") as log:
            agent = machine.spawn(self.node.agent_command(), stdout=log, stderr=log)
        self.addCleanup(machine.end, agent)

    def names(self):
        """By address."""
        return {name["address"]: name for name in self.node.switch.json("names")["names"]}

    def log(self):
        """The end of the agent's log."""
        return (self.directory / "agent.log").read_text()[-2000:]

    def declare(self, *pods):
        """Makes these the Pods of the other Node."""
        file = self.node.manifests / ".far"
        file.write_text("".join(f"---\n{json.dumps(pod)}\n" for pod in pods))
        file.rename(self.node.manifests / "far.yaml")

    def until(self, what, holds):
        machine.expect(what, lambda: holds(self.names()), lambda: (self.names(), self.log()))

    def test_names_follow_the_cluster(self):
        web = addresses(PODS["web"])[0]
        self.until("the Node's own are told", lambda names: {web, SERVICE[0]} <= set(names))
        own = self.names()
        self.assertEqual((own[web]["namespace"], own[web]["pod"], own[web]["node"], own[web]["labels"]), ("default", "web", generated.NODE, {"app": "web"}))
        self.assertEqual((own[SERVICE[0]]["namespace"], own[SERVICE[0]]["service"]), ("default", "web"))
        self.assertEqual(own["192.168.77.102"]["node"], generated.NODE)
        self.declare(far("db-0"))
        self.until("a Pod of another Node comes", lambda names: set(FAR) <= set(names))
        one = self.names()[FAR[1]]
        self.assertEqual((one["namespace"], one["pod"], one["node"], one["workloads"]), ("data", "db-0", "node-1", [{"kind": "Deployment", "name": "db"}]))
        self.declare(far("db-1"))
        self.until("its address is another one's", lambda names: all(names[address]["pod"] == "db-1" for address in FAR))
        (self.node.manifests / "far.yaml").unlink()
        self.until("it goes", lambda names: not set(FAR) & set(names))

    def test_a_switch_that_starts_anew_is_told_all(self):
        self.declare(far("db-0"))
        self.until("all are told", lambda names: FAR[0] in names)
        before = self.names()
        machine.end(self.node.switch.process)
        self.node.start_switch()
        self.until("all are told again", lambda names: names == before)


if __name__ == "__main__":
    unittest.main()
