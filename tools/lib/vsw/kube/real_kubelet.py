"""A real kubelet for tests: that of the directory KUBEBUILDER_ASSETS, if it has one.

It runs beside the machine's own life: it makes no cgroups of its own, sets no values of the
kernel, and keeps its files in one directory. Kubernetes 1.20 looks for device plug-ins below
/var/lib/kubelet, whatever its root directory is. So it has a /var/lib of its own.
"""

import os

from .. import machine
from ..cni.cri import IMAGE
from . import server

PROGRAM = "kubelet"
# What a kubelet sets for the whole machine.
TUNABLES = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
            "kernel/keys/root_maxbytes")


def missing():
    """Why there is none; empty: there is one."""
    directory, why = server.assets()
    if why:
        return why
    return "" if os.access(directory / PROGRAM, os.X_OK) else f"{server.ASSETS}={directory} has no {PROGRAM}"


class RealKubelet:
    """The kubelet of a Node, with files in `directory`."""

    def __init__(self, directory, api, runtime, node, defer):
        self.directory, self.api, self.runtime, self.node = directory, api, runtime, node
        self.process = None
        self.plugins = directory / "device-plugins"
        self.plugins.mkdir(parents=True)
        self.pods = directory / "manifests"
        self.pods.mkdir()
        defer(self.stop)

    def start(self):
        """Starts it (again), and waits until its Node is known."""
        secure, health = server.free_ports(2)
        words = [
            server.assets()[0] / PROGRAM,
            f"--kubeconfig={self.api.kubeconfig}",
            f"--hostname-override={self.node}",
            f"--root-dir={self.directory}/root",
            f"--cert-dir={self.directory}/certificates",
            f"--pod-manifest-path={self.pods}",
            "--container-runtime=remote",
            f"--container-runtime-endpoint=unix://{self.runtime.socket}",
            f"--pod-infra-container-image={IMAGE}",
            "--cgroups-per-qos=false",
            "--enforce-node-allocatable=",
            "--fail-swap-on=false",
            "--make-iptables-util-chains=false",
            "--oom-score-adj=0",
            "--address=127.0.0.1",
            f"--port={secure}",
            "--read-only-port=0",
            f"--healthz-port={health}",
            "--eviction-hard=",
            "--image-gc-high-threshold=100",
            f"--volume-plugin-dir={self.directory}/volumes",
            "--resolv-conf=",
            "--node-status-update-frequency=1s",
            "--file-check-frequency=1s",
        ]
        copies = self.directory / "values"
        copies.mkdir(exist_ok=True)
        lines = ["set -e", "mount -t tmpfs tmpfs /var/lib", "mkdir -p /var/lib/kubelet/device-plugins",
                 f"mount --bind {self.plugins} /var/lib/kubelet/device-plugins"]
        for number, name in enumerate(TUNABLES):
            lines += [f"cat /proc/sys/{name} > {copies}/{number}", f"mount --bind {copies}/{number} /proc/sys/{name}"]
        with open(self.directory / "kubelet.log", "ab") as log:
            argv = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh", *words]
            self.process = machine.spawn(argv, stdout=log, stderr=log)
        machine.expect("the kubelet knows its Node", self.node_status, self.log)

    def stop(self):
        """Ends it, if it runs. Its sockets stay."""
        if self.process:
            machine.end(self.process)
        self.process = None

    def log(self):
        """The end of its log."""
        return (self.directory / "kubelet.log").read_text(errors="replace")[-3000:]

    def node_status(self):
        """What it says of its Node: {} as long as it says nothing."""
        if self.process.poll() is not None:
            raise machine.Failure(f"the kubelet ended with status {self.process.returncode}; its log:\n{self.log()}")
        return self.api.object(f"/api/v1/nodes/{self.node}").get("status", {})
