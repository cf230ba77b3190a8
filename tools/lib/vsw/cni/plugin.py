"""Calls of the CNI plug-in, as a container runtime makes them."""

import json
import os
import subprocess

from .. import machine

HOST_LOCAL = "/usr/lib/cni"  # Debian's containernetworking-plugins
LATEST = "1.1.0"
NETWORK = "pods"


class Plugin:
    """vswitch-cni with a configuration; `socket` and `state` are the agent's, `data` is the
    directory of host-local's files."""

    def __init__(self, binary, socket, state, data):
        self.binary, self.socket, self.state, self.data = binary, socket, state, data

    def config(self, version="1.0.0", **more):
        """The network's configuration."""
        about = {"cniVersion": version, "name": NETWORK, "type": "vswitch", "socket": str(self.socket), "stateDir": str(self.state)}
        return about | {"ipam": {"dataDir": str(self.data)}} | more

    def run(self, variables, text):
        """Runs it; (exit status, what it printed as a value, or None)."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CNI_")} | variables
        done = subprocess.run([self.binary], env=environment, input=text, capture_output=True, text=True, timeout=machine.PATIENCE_S)
        return done.returncode, json.loads(done.stdout) if done.stdout else None

    def call(self, command, container="", netns=None, interface="eth0", pod=None, version="1.0.0", path=HOST_LOCAL, **more):
        """One call; (0, the result) or (the error's code, the error)."""
        variables = {"CNI_COMMAND": command, "CNI_PATH": path}
        if container:
            variables |= {"CNI_CONTAINERID": container, "CNI_IFNAME": interface}
        if netns is not None:
            variables["CNI_NETNS"] = netns
        if pod is not None:
            namespace, name, uid = pod
            variables["CNI_ARGS"] = f"IgnoreUnknown=1;K8S_POD_UID={uid};K8S_POD_NAME={name};K8S_POD_NAMESPACE={namespace}"
        status, said = self.run(variables, json.dumps(self.config(version, **more)))
        if status == 0:
            return 0, said
        return said["code"], said
