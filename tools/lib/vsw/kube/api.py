"""The API server of the demo: a real one if KUBEBUILDER_ASSETS names its programs, else the one of
the tests. It is on the wire, and can be cut off."""

import contextlib
import json

from .. import machine
from ..gateway.world import OUTSIDE
from .bed import API_PORT
from .server import ApiServer, ask, assets

# The user that the manifests give rights to, and the namespace of its Lease.
AGENT, AGENT_TOKEN, AGENT_NAMESPACE = "system:serviceaccount:kube-system:vswitch-agent", "agent", "kube-system"

# Nothing of the API server gets out, and what comes in is refused.
AWAY = """table inet away {{
  chain in {{
    type filter hook input priority 0
    tcp dport {port} reject with tcp reset
  }}
  chain out {{
    type filter hook output priority 0
    tcp sport {port} tcp flags & rst == 0 drop
  }}
}}
"""


class Api:
    """An API server in a network namespace, until `stack` ends. `words` say which. `kubeconfig` is
    an administrator's, and `agent_kubeconfig` that of agents, with no rights before they get
    some."""

    def __init__(self, binaries, namespace, directory, stack):
        self.namespace = namespace
        programs, why = assets()
        self.is_real = bool(programs)
        if programs:
            users = [(AGENT_TOKEN, AGENT, ["system:serviceaccounts", "system:authenticated"])]
            server = stack.enter_context(ApiServer(programs, users, namespace, OUTSIDE))
            self.kubeconfig, self.port, self.url, self.token = server.kubeconfig, server.port, server.url, server.token
            self.agent_kubeconfig = server.write_kubeconfig("agent", AGENT_TOKEN)
            text = self.agent_kubeconfig.read_text()
            self.agent_kubeconfig.write_text(text.replace("user: agent}", f"user: agent, namespace: {AGENT_NAMESPACE}}}"))
            self.words = f"API server: the kube-apiserver of {programs}"
        else:
            self.kubeconfig, self.port = directory / "kubeconfig", API_PORT
            self.url, self.token = f"http://{OUTSIDE}:{API_PORT}", "admin"
            self._test_server(binaries, directory, stack)
            self.words = f"API server: that of the tests ({why})"

    def _test_server(self, binaries, directory, stack):
        argv = ["ip", "netns", "exec", self.namespace, binaries / "vswitch-testapi", "--listen", f"{OUTSIDE}:{API_PORT}",
                "--kubeconfig-out", self.kubeconfig, "--rbac", "--token", "admin=admin=system:masters", "--token", f"{AGENT_TOKEN}={AGENT}"]
        with open(directory / "vswitch-testapi.log", "ab") as log:
            stack.callback(machine.end, machine.spawn(argv, stdout=log, stderr=log))
        machine.expect("the API server writes its kubeconfig", lambda: self.kubeconfig.exists() and self.kubeconfig.stat().st_size)
        config = json.loads(self.kubeconfig.read_text().replace("/as/admin", f"/as/{AGENT_TOKEN}"))
        config["contexts"][0]["context"]["namespace"] = AGENT_NAMESPACE
        config["users"][0]["user"] = {"token": AGENT_TOKEN}
        self.agent_kubeconfig = directory / "agent.kubeconfig"
        self.agent_kubeconfig.write_text(json.dumps(config))

    def call(self, path, value=None):
        """What is at a path; with a value it is written there first."""
        return json.loads(ask(self.url + path, self.token, self.namespace, value))

    def _run(self, *words):
        machine.output(["ip", "netns", "exec", self.namespace, *words])

    def stop(self):
        """Cuts it off: connections end."""
        self._run("nft", AWAY.format(port=self.port))
        # Those on which nobody says anything, too. Some kernels cannot.
        with contextlib.suppress(machine.Failure):
            self._run("ss", "-K", "sport", "=", str(self.port))

    def start(self):
        """It can be reached again."""
        self._run("nft", "delete", "table", "inet", "away")
