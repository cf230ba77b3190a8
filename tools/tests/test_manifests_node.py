"""What the manifests below deploy/ share with a Node: directories and files."""

import json
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw.kube.chart import Chart  # noqa: E402
from vsw.kube.objects import CHART, containers, rendered  # noqa: E402


class Node(unittest.TestCase):
    maxDiff = None

    def test_the_device_plug_in_is_where_the_kubelet_looks(self):
        def agent(**values):
            return next((spec, each) for spec, each in containers(rendered(**values)) if each["name"] == "agent")

        def path(spec, container, directory):
            name = next(mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == directory)
            return next(volume["hostPath"]["path"] for volume in spec["volumes"] if volume["name"] == name)

        for devices, kubelet in ((64, "/var/lib/kubelet/device-plugins"), (3, "/k/device-plugins")):
            spec, container = agent(devicePlugin={"devices": devices, "kubeletDir": kubelet})
            option = next(word for word in container["args"] if word.startswith("--device-plugin="))
            self.assertEqual(path(spec, container, option.partition("=")[2]), kubelet)
            # The kubelet mounts these into containers by the paths that the agent names.
            for shared in ("/run/vswitch", "/dev/hugepages"):
                self.assertEqual(path(spec, container, shared), shared)
            self.assertIn(f"--vhost-devices={devices}", container["args"])
        _, container = agent(devicePlugin={"devices": 0})
        self.assertNotRegex(str([container["args"], container["volumeMounts"]]), "device|hugepages")

    def test_the_page_removes_what_stays_on_a_node(self):
        """Directories of the Node that the Pods make, and files that the agent writes there."""
        page = (ROOT / "docs" / "kubernetes.md").read_text()
        removed = set(re.search(r"\nrm -rf (.*?)\n```", page, re.S)[1].replace("\\\n", " ").split())
        objects = rendered()
        own = {
            volume["hostPath"]["path"]
            for each in objects
            if each["kind"] == "DaemonSet"
            for volume in each["spec"]["template"]["spec"]["volumes"]
            if "vswitch" in volume.get("hostPath", {}).get("path", "")
        }
        self.assertGreater(len(own), 2)
        values = Chart(CHART).values["cni"]
        agent = next(each for _, each in containers(objects) if each["name"] == "agent")
        conf = next(word.partition("=")[2] for word in agent["args"] if word.startswith("--cni-conf="))
        self.assertEqual(conf, f"{values['confDir']}/{Path(conf).name}")
        network = json.loads(re.search(r'const TEXT: &str = r#"(.*?)"#', (ROOT / "tools/agent/src/cni/conf.rs").read_text(), re.S)[1])
        # host-local has a directory for each network (its `dataDir`).
        own |= {conf, f"{values['binDir']}/vswitch", f"/var/lib/cni/networks/{network['name']}"}
        self.assertEqual(own - removed, set())


if __name__ == "__main__":
    unittest.main()
