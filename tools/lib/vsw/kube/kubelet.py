"""What a kubelet does for a Pod: it has the container runtime run it, and tells the API server how
it is. (The scheduler's part, `nodeName`, is the test's.)"""

from ..antrea.manifests import document
from ..cni.cri import IMAGE


class Kubelet:
    """Pods of a Node."""

    def __init__(self, kubectl, node, runtime):
        self.kubectl, self.node, self.runtime = kubectl, node, runtime
        self.sandboxes = {}

    def run(self, name, labels=None, command=("sleep", "86400"), namespace="default", annotations=None):
        """Makes a Pod, and waits until it runs; its addresses."""
        spec = {"nodeName": self.node, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": IMAGE, "command": list(command)}]}
        metadata = {"labels": labels or {}, "annotations": annotations or {}}
        self.kubectl.create(document("v1", "Pod", name, namespace, metadata, spec=spec))
        return self.start(name, command, namespace)

    def start(self, name, command, namespace="default", is_told=True):
        """Runs a Pod that the API server has. Without `is_told` the API server is away."""
        uid = self.kubectl.json("get", "pod", name, "-n", namespace)["metadata"]["uid"] if is_told else f"{name}-uid"
        sandbox = self.sandboxes[namespace, name] = self.runtime.sandbox(name, uid, namespace)
        sandbox.start(*command)
        addresses = sandbox.addresses()
        if is_told:
            self.tell(name, namespace, addresses)
        return addresses

    def tell(self, name, namespace, addresses):
        """Tells the API server that a Pod runs."""
        conditions = [{"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")]
        status = {"phase": "Running", "podIP": addresses[0], "podIPs": [{"ip": one} for one in addresses], "conditions": conditions}
        self.kubectl.status("pod", name, namespace, status)

    def execute(self, name, *words, namespace="default"):
        """Runs a command in a Pod; (exit status, what it printed)."""
        return self.sandboxes[namespace, name].run(*words)

    def remove(self, name, namespace="default"):
        """Ends a Pod, and removes its object."""
        self.sandboxes.pop((namespace, name)).remove()
        self.kubectl.delete("pod", name, "-n", namespace, "--grace-period=0", "--force", "--wait=false")
