"""PacketCaptures of an API server, on a running Node: tshark reads what the Pods sent."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.antrea import generated  # noqa: E402
from vsw.antrea.four_pods import FourPods  # noqa: E402
from vsw.antrea.generated import PODS, PORT, addresses  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
CAPTURES = "/apis/crd.antrea.io/v1alpha1/packetcaptures"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLIENT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1).close()
except OSError:
    pass
"""


class PacketCapture(unittest.TestCase):
    """A Node of four Pods, whose agent follows an API server beside its files."""

    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-packets.")))
        self.node = FourPods(BINARIES, self.directory, generated.Size(1, 1, 1), self)
        self.node.start_switch()
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        kubeconfig = self.directory / "kubeconfig"
        nothing = subprocess.DEVNULL
        argv = [BINARIES / "vswitch-testapi", "--listen", self.url.removeprefix("http://"), "--kubeconfig-out", kubeconfig]
        self.addCleanup(machine.end, machine.spawn(argv, stdout=nothing, stderr=nothing))
        machine.expect("the API server writes its kubeconfig", lambda: kubeconfig.exists() and kubeconfig.stat().st_size)
        for definition in yaml.safe_load_all((ROOT / "deploy" / "crds" / "crd.antrea.io.yaml").read_text()):
            self.call("POST", DEFINITIONS, definition)
        self.files = self.directory / "captures"
        words = ["--cluster", "--kubeconfig", kubeconfig, "--packet-captures", self.files]
        with open(self.directory / "agent.log", "ab") as log:
            self.agent = machine.spawn(self.node.agent_command(*words), stdout=log, stderr=log)
        self.addCleanup(machine.end, self.agent)
        machine.expect("the gate opens", lambda: self.node.state().get("gate_open"), self.log)

    def log(self):
        """The end of the agent's log."""
        return (self.directory / "agent.log").read_text()[-2000:]

    def call(self, method, path, value=None):
        """Asks the API server. None: there is no such object."""
        body = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=machine.PATIENCE_S) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code == 404 and method == "GET":
                return None
            raise machine.Failure(f"{method} {path}: {error.code} {error.read()[:300]}") from error

    def create(self, name, **spec):
        """A PacketCapture."""
        meta = {"apiVersion": "crd.antrea.io/v1alpha1", "kind": "PacketCapture", "metadata": {"name": name}}
        self.call("POST", CAPTURES, meta | {"spec": spec})

    def reasons(self, name):
        """Reasons of its conditions, by their types; and its status."""
        status = (self.call("GET", f"{CAPTURES}/{name}") or {}).get("status", {})
        return {one["type"]: one["reason"] for one in status.get("conditions", [])}, status

    def until(self, name, kind, reason):
        """Its status when a condition has a reason."""
        machine.expect(f"{name}: {reason}", lambda: self.reasons(name)[0].get(kind) == reason, lambda: (self.reasons(name), self.log()))
        return self.reasons(name)[1]

    def knock(self, pod, address):
        """A connection that is tried, at least one packet."""
        self.node.spaces[pod].run(sys.executable, "-c", CLIENT, address, str(PORT))

    def packets(self, status):
        """(sender, receiver, port of the receiver) of each packet in the file of a status."""
        path = status["filePath"].partition(":")[2]
        said = machine.output(["tshark", "-n", "-r", path, "-T", "fields", "-e", "ip.src", "-e", "ip.dst", "-e", "tcp.dstport"])
        return [tuple(line.split("\t")) for line in said.splitlines()]

    def test_captures(self):
        client, web = (addresses(PODS[name])[0] for name in ("client", "web"))

        def pod(name):
            return {"pod": {"namespace": "default", "name": name}}

        tcp = {"protocol": "TCP", "transportHeader": {"tcp": {"dstPort": PORT, "flags": [{"value": 2, "mask": 2}]}}}
        self.create("there", source=pod("client"), destination=pod("web"), packet=tcp, captureConfig={"firstN": {"number": 2}})
        self.until("there", "PacketCaptureComplete", "Progressing")

        def knocked():
            self.knock("client", web)
            return self.reasons("there")[0].get("PacketCaptureComplete") == "Succeed"

        # The switch copies some time after the status says that it begins.
        machine.expect("two packets", knocked, lambda: (self.reasons("there"), self.log()))
        status = self.reasons("there")[1]
        self.assertEqual(status["numberCaptured"], 2)
        self.assertEqual(status["filePath"], f"{generated.NODE}:{self.files / 'there.pcapng'}")
        self.assertEqual(self.packets(status), [(client, web, str(PORT))] * 2)

        # Both directions, at the Pod that receives; it ends by its time.
        self.create("both", source=pod("client"), destination=pod("web"), direction="Both", capturePoint="Destination", timeout=5,
                    captureConfig={"firstN": {"number": 1000}})
        self.until("both", "PacketCaptureComplete", "Progressing")

        def has_both():
            self.knock("client", web)
            return self.reasons("both")[1].get("numberCaptured", 0) >= 2

        machine.expect("packets of both directions", has_both, lambda: (self.reasons("both"), self.log()))
        status = self.until("both", "PacketCaptureComplete", "Timeout")
        found = {each[:2] for each in self.packets(status)}
        self.assertEqual(found, {(client, web), (web, client)})

        for name in ("there", "both"):
            self.call("DELETE", f"{CAPTURES}/{name}")
        machine.expect("the files go", lambda: not list(self.files.iterdir()), self.log)


if __name__ == "__main__":
    unittest.main()
