"""gRPC of Python, the newest of PyPI and Debian's, by TCP with mutual TLS: a name in the
certificate gives its role."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import certificates, daemon, machine, netns  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
CLIENT = ROOT / "tools" / "tests" / "clients" / "tls.py"
NEWEST = Path(os.environ.get("VSWITCH_CLIENTS", ROOT / "target" / "clients")) / "python" / "bin" / "python"
CONFIG = """[dpdk]
hugepages = false
memory_mb = 256
file_prefix = "{prefix}"
worker_cores = [{worker}]
main_core = {main}
[worker]
idle_sleep_us = 500
[control]
socket = "{directory}/vswitch.sock"
[[control.listener]]
address = "127.0.0.1:7471"
role = "admin"
tls = {{ cert = "{cert}", key = "{key}", client_ca = "{ca}" }}
sans = {{ "*.read.example" = "read", "spiffe://cluster/controller" = "admin" }}
"""
READ, CHANGE = "BridgeService/ListBridges", "BridgeService/AddBridge"


def without(*words):
    """A command fails, or is not there."""
    try:
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode != 0
    except FileNotFoundError:
        return True


class Rights(unittest.TestCase):
    """A switch in a namespace, with a listener there."""

    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-rights.")))
        name = f"vt{os.getpid()}-rights"
        self.addCleanup(netns.remove_namespace, name)
        self.space = netns.Space(name)
        self.authority = certificates.Authority(self.directory)
        cert, key = self.authority.issue("server", "DNS:localhost,IP:127.0.0.1")
        cores = machine.cores()
        config = CONFIG.format(prefix=f"vt{os.getpid()}", worker=cores[-1], main=cores[0], directory=self.directory, cert=cert, key=key,
                               ca=self.authority.cert)
        self.switch = daemon.Switch(BINARIES, self.directory, config, name)
        self.addCleanup(self.switch.stop)
        self.switch.wait_ready()

    def calls(self, python, name, sans):
        """What became of both calls, by a new certificate."""
        cert, key = self.authority.issue(name, sans)
        words = [python, CLIENT, "localhost:7471", self.authority.cert, cert, key, READ, CHANGE]
        said = machine.output(["ip", "netns", "exec", self.space.name, *words])
        answer = json.loads(said.splitlines()[-1])
        print("grpcio", answer["grpc"])
        return answer["calls"][READ], answer["calls"][CHANGE]

    def check(self, python):
        """Each name has its role; a name that is not mapped has none."""
        for name, sans, expected in (
                ("reader", "DNS:m.read.example", ["OK", "PERMISSION_DENIED"]),
                ("controller", "URI:spiffe://cluster/controller", ["OK", "INVALID_ARGUMENT"]),
                ("stranger", "DNS:x.other.example", ["PERMISSION_DENIED", "PERMISSION_DENIED"])):
            calls = self.calls(python, name, sans)
            self.assertEqual([call["status"] for call in calls], expected, calls)
            self.assertEqual(len({call["id"] for call in calls} - {None}), 2, "each call has an id of its own")

    @unittest.skipIf(without(NEWEST, "-c", "import grpc"), "the newest grpcio cannot be had: tools/setup --examples installs it from the network")
    def test_the_newest_python(self):
        self.check(NEWEST)

    @unittest.skipIf(without("/usr/bin/python3", "-c", "import grpc"), "python3-grpcio is missing: tools/setup --examples installs it")
    def test_debians_python(self):
        self.check("/usr/bin/python3")


if __name__ == "__main__":
    unittest.main()
