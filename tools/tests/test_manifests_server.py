"""The manifests below deploy/ on a real API server, when KUBEBUILDER_ASSETS names a directory with
one."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.kube import crds, server  # noqa: E402
from vsw.kube.objects import rendered  # noqa: E402

DEPLOY = ROOT / "deploy"
MANIFESTS = DEPLOY / "vswitch.yaml"


@unittest.skipUnless(server.assets()[0], server.assets()[1])
class RealServer(unittest.TestCase):
    """On the API server of KUBEBUILDER_ASSETS."""

    AGENT = "system:serviceaccount:kube-system:vswitch-agent"

    @classmethod
    def setUpClass(cls):
        account = ("a-token-of-the-agent", cls.AGENT, ["system:serviceaccounts", "system:authenticated"])
        cls.server = cls.enterClassContext(server.ApiServer(server.assets()[0], [account]))
        cls.agent = cls.server.write_kubeconfig("agent", "a-token-of-the-agent")
        # Old servers do not know each field, and leave it out.
        cls.server.kubectl("apply", "-f", *[word for name in crds.FILES for word in (DEPLOY / "crds" / name, "-f")][:-1])
        cls.server.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")

    def test_the_server_takes_every_manifest(self):
        said = self.server.kubectl("apply", "--dry-run=server", "--validate=false", "-f", MANIFESTS)
        self.assertEqual(len(said.splitlines()), len(list(yaml.safe_load_all(MANIFESTS.read_text()))), said)

    def test_no_field_is_unknown_to_an_old_server(self):
        """But for the one that values can leave out."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump_all(rendered(security={"appArmorField": False}), file)
            file.flush()
            self.server.kubectl("apply", "--dry-run=server", "--validate=true", "-f", file.name)

    def test_one_command_installs_all_and_one_removes_it(self):
        """Without definitions that were there before: kubectl looks for kinds at its start."""
        with server.ApiServer(server.assets()[0]) as empty:
            empty.kubectl("apply", "--validate=false", "-f", MANIFESTS)
            created = json.loads(empty.kubectl("get", "daemonsets", "-n", "kube-system", "-o", "json"))["items"]
            self.assertEqual({each["metadata"]["name"] for each in created}, {"vswitch", "vswitch-agent"})
            empty.kubectl("delete", "-f", MANIFESTS)
            for each in yaml.safe_load_all(MANIFESTS.read_text()):
                meta = each["metadata"]
                where = ["-n", meta["namespace"]] if "namespace" in meta else []
                left = empty.kubectl("get", each["kind"], "-o", "name", *where)
                self.assertNotIn(f"/{meta['name']}\n", left)

    def test_a_wrong_node_config_is_refused(self):
        for field, value in (("trafficMode", "encap"), ("gateway", {"mac": "1"}), ("tunnel", {}), ("zones", {"mainV4": 65536})):
            config = {"apiVersion": "vswitch.io/v1", "kind": "NodeConfig", "metadata": {"name": "n"}, "spec": {field: value}}
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(config, file)
                file.flush()
                with self.assertRaisesRegex(machine.Failure, f"spec.{field}"):
                    self.server.kubectl("apply", "--validate=false", "-f", file.name)

    def test_definitions_have_no_fault(self):
        for each in json.loads(self.server.kubectl("get", "crd", "-o", "json"))["items"]:
            conditions = {condition["type"]: condition["status"] for condition in each["status"]["conditions"]}
            self.assertNotIn("NonStructuralSchema", conditions, each["metadata"]["name"])
            self.assertEqual((conditions["NamesAccepted"], conditions["Established"]), ("True", "True"), each["metadata"]["name"])

    def test_policies_keep_fields_that_nobody_knows(self):
        policy = {
            "apiVersion": "crd.antrea.io/v1beta1",
            "kind": "ClusterNetworkPolicy",
            "metadata": {"name": "p"},
            "spec": {"priority": 1, "later": 1, "ingress": [{"action": "Drop", "after": 2, "from": [{"newSelector": {"a": "b"}}]}]},
        }
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(policy, file)
            file.flush()
            self.server.kubectl("apply", "-f", file.name)
        kept = json.loads(self.server.kubectl("get", "clusternetworkpolicies.crd.antrea.io", "p", "-o", "json"))["spec"]
        self.assertEqual(kept, policy["spec"])

    def test_the_agent_may_do_what_its_roles_say(self):
        self.server.kubectl("apply", "-f", DEPLOY / "kustomize" / "base" / "rbac.yaml")
        for verb, resource, namespace, may in (
            ("list", "pods", "default", "yes"),
            ("watch", "nodeconfigs.vswitch.io", None, "yes"),
            ("patch", "nodes/status", None, "yes"),
            ("create", "leases.coordination.k8s.io", "kube-system", "yes"),
            ("create", "leases.coordination.k8s.io", "default", "no"),
            ("patch", "traceflows.crd.antrea.io/status", None, "yes"),
            ("get", "secrets", "kube-system", "no"),
            ("delete", "pods", "default", "no"),
        ):
            resource, _, below = resource.partition("/")
            words = [
                "auth",
                "can-i",
                verb,
                resource,
                *(["--subresource", below] if below else []),
                *(["-n", namespace] if namespace else []),
            ]
            done = subprocess.run(["kubectl", "--kubeconfig", self.agent, *words], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.stdout.split()[:1], [may], f"{words}: {done.stderr}")


if __name__ == "__main__":
    unittest.main()
