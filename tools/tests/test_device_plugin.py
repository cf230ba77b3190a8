"""The device plug-in with a real kubelet, API server and container runtime."""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.antrea.manifests import document  # noqa: E402
from vsw.cni.bed import NODE_NAME, Bed  # noqa: E402
from vsw.cni.cri import IMAGE, NEEDED, Runtime  # noqa: E402
from vsw.kube import server  # noqa: E402
from vsw.kube.real_kubelet import RealKubelet, missing  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
MISSING = missing() or ", ".join(name for name in NEEDED if not shutil.which(name))
RESOURCE, COUNT = "vswitch.io/vhost", 5


@unittest.skipIf(MISSING, MISSING)
class DevicePlugin(unittest.TestCase):
    """One Node."""

    @classmethod
    def setUpClass(cls):
        stack = cls.enterClassContext(contextlib.ExitStack())
        cls.directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vswitch-kubelet.")))
        cls.api = stack.enter_context(server.ApiServer(server.assets()[0]))
        runtime = cls.directory / "runtime"
        runtime.mkdir()
        plugins = cls.directory / "kubelet" / "device-plugins"
        options = ["--device-plugin", plugins, "--vhost-devices", str(COUNT)]
        cls.bed = Bed(f"vt{os.getpid()}", BINARIES, cls.directory, stack.callback, options)
        cls.runtime = Runtime(runtime, cls.bed.plugin.binary, cls.bed.plugin.config(), stack.callback)
        cls.kubelet = RealKubelet(cls.directory / "kubelet", cls.api, cls.runtime, NODE_NAME, stack.callback)
        cls.kubelet.start()

    def seen(self):
        return self.kubelet.node_status().get("allocatable"), self.kubelet.log(), self.bed.log()

    def allocatable(self, count):
        machine.expect(
            f"the Node has {count} of {RESOURCE}",
            lambda: self.kubelet.node_status().get("allocatable", {}).get(RESOURCE) == str(count),
            self.seen,
        )

    def pod(self, name):
        """The state of a Pod."""
        return self.api.object(f"/api/v1/namespaces/default/pods/{name}").get("status", {})

    def run_pod(self, name, command):
        """Runs a Pod, which ends well."""
        self.create(name, command)
        machine.expect(f"Pod {name} ends well", lambda: self.pod(name).get("phase") == "Succeeded", lambda: (self.pod(name), *self.seen()))

    def run_again(self, name, command):
        """The same, with another Pod in place of one that the kubelet refuses: a kubelet that has
        just started has no devices, whatever the API server knows."""
        names = []

        def succeeds():
            status = self.pod(names[-1]) if names else {"reason": "UnexpectedAdmissionError"}
            if status.get("reason") == "UnexpectedAdmissionError":
                names.append(f"{name}-{len(names)}")
                self.create(names[-1], command)
            return status.get("phase") == "Succeeded"

        machine.expect(f"a Pod {name} ends well", succeeds, lambda: ([self.pod(each) for each in names], *self.seen()))

    def create(self, name, command):
        resources = {"limits": {RESOURCE: "2"}}
        container = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", command], "resources": resources}
        spec = {"nodeName": NODE_NAME, "hostNetwork": True, "restartPolicy": "Never", "automountServiceAccountToken": False,
                "enableServiceLinks": False, "dnsPolicy": "Default", "containers": [container]}
        file = self.directory / f"{name}.json"
        file.write_text(json.dumps(document("v1", "Pod", name, "default", spec=spec)))
        self.api.kubectl("create", "--validate=false", "-f", file)

    def test_a_kubelet_gives_directories_to_pods(self):
        self.allocatable(COUNT)
        # Each directory is empty, the container can write there, and the Node sees it.
        command = """set -e
            test "$VSWITCH_VHOST_DIRS"
            for directory in $(echo $VSWITCH_VHOST_DIRS | busybox tr : ' '); do
              test -z "$(busybox ls -A $directory)"
              echo here > $directory/net.sock
            done"""
        self.run_pod("first", command)
        written = sorted(path.parent.name for path in self.bed.devices.glob("*/net.sock"))
        self.assertEqual(len(written), 2)
        self.run_pod("second", command)

        self.kubelet.stop()
        self.kubelet.start()
        self.run_again("third", command)

        self.bed.stop_switch()
        self.allocatable(0)
        self.bed.start_switch()
        self.allocatable(COUNT)


if __name__ == "__main__":
    unittest.main()
