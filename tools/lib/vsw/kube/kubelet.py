"""What a kubelet does for a Pod: it has the container runtime run it, and tells the API server how
it is. (The scheduler's part, `nodeName`, is the test's.)"""

import contextlib

from ..antrea.manifests import document
from ..cni.cri import IMAGE
from ..machine import Failure


class Kubelet:
    """Pods of a Node."""

    def __init__(self, kubectl, node, runtime):
        self.kubectl, self.node, self.runtime = kubectl, node, runtime
        self.sandboxes = {}

    def run(self, name, labels=None, command=("sleep", "86400"), namespace="default"):
        """Makes a Pod, and waits until it runs; its addresses."""
        uid = self.declare(name, labels, command, namespace)
        addresses = self.start(name, uid, command, namespace)
        self.tell(name, namespace, addresses)
        return addresses

    def declare(self, name, labels=None, command=("sleep", "86400"), namespace="default"):
        """Makes the object of a Pod of this Node; its UID."""
        spec = {"nodeName": self.node, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": IMAGE, "command": list(command)}]}
        self.kubectl.create(document("v1", "Pod", name, namespace, {"labels": labels or {}}, spec=spec))
        return self.kubectl.json("get", "pod", name, "-n", namespace)["metadata"]["uid"]

    def start(self, name, uid, command=("sleep", "86400"), namespace="default"):
        """Runs a Pod; its addresses. The API server hears nothing of it."""
        sandbox = self.sandboxes[namespace, name] = self.runtime.sandbox(name, uid, namespace)
        sandbox.start(*command)
        return sandbox.addresses()

    def tell(self, name, namespace, addresses):
        """Tells the API server that a Pod runs."""
        conditions = [{"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")]
        status = {"phase": "Running", "podIP": addresses[0], "podIPs": [{"ip": one} for one in addresses], "conditions": conditions}
        self.kubectl.status(f"/api/v1/namespaces/{namespace}/pods/{name}", status)

    def execute(self, name, *words, namespace="default"):
        """Runs a command in a Pod; (exit status, what it printed)."""
        return self.sandboxes[namespace, name].run(*words)

    def end(self):
        """Ends all Pods that still run: their processes outlive the runtime."""
        for sandbox in self.sandboxes.values():
            with contextlib.suppress(Failure):
                sandbox.remove()
        self.sandboxes.clear()

    def remove(self, name, namespace="default"):
        """Ends a Pod, and removes its object."""
        self.sandboxes.pop((namespace, name)).remove()
        self.kubectl.delete("pod", name, "-n", namespace, "--grace-period=0", "--force", "--wait=false")
