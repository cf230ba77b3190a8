"""The API server of the demo: a real one if KUBEBUILDER_ASSETS names its programs, else the one of
the tests. It is on the wire, and can be cut off."""

from .. import machine
from .bed import API_PORT, OUTSIDE
from .server import ApiServer, assets

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
    """An API server in a network namespace, until `stack` ends. `words` say which."""

    def __init__(self, binaries, namespace, directory, stack):
        self.namespace = namespace
        programs, why = assets()
        if programs:
            server = stack.enter_context(ApiServer(programs, namespace=namespace, address=OUTSIDE))
            self.kubeconfig, self.port = server.kubeconfig, server.port
            self.words = f"API server: the kube-apiserver of {programs}"
        else:
            self.kubeconfig, self.port = directory / "kubeconfig", API_PORT
            self._test_server(binaries, directory, stack)
            self.words = f"API server: that of the tests ({why})"

    def _test_server(self, binaries, directory, stack):
        argv = ["ip", "netns", "exec", self.namespace, binaries / "vswitch-testapi", "--listen", f"{OUTSIDE}:{API_PORT}",
                "--kubeconfig-out", self.kubeconfig]
        with open(directory / "vswitch-testapi.log", "ab") as log:
            stack.callback(machine.end, machine.spawn(argv, stdout=log, stderr=log))
        machine.expect("the API server writes its kubeconfig", self.kubeconfig.exists)

    def _run(self, *words):
        machine.output(["ip", "netns", "exec", self.namespace, *words])

    def stop(self):
        """Cuts it off: connections end."""
        self._run("nft", AWAY.format(port=self.port))

    def start(self):
        """It can be reached again."""
        self._run("nft", "delete", "table", "inet", "away")
