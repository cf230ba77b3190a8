"""tools/examples: each is generated, built and run against a switch without anything; then its Pods
talk, as it said. And other clients of gRPC as their users have them: the newest of PyPI and npm, by
generated code and by reflection, each with nothing but the socket's path."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from pages import Page  # noqa: E402
from vsw import daemon, machine, netns  # noqa: E402

EXAMPLES = ROOT / "tools" / "examples"
BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
PYTHON = "/usr/bin/python3"  # Debian's: the packages are for no other
GOCODE = "/usr/share/gocode"
PROTO = ROOT / "proto"
OTHERS = ROOT / "tools" / "tests" / "clients"
# What tools/setup --examples has put there.
CLIENTS = Path(os.environ.get("VSWITCH_CLIENTS", ROOT / "target" / "clients"))
NEWEST = CLIENTS / "python" / "bin" / "python"
MODULES = CLIENTS / "node" / "node_modules"
PODS = {"client": 2, "web": 3, "stranger": 4}
SERVICE = ("10.96.0.80", "[fd00:96::80]")
WEB = ("10.10.0.3:8080", "[fd00:10::3]:8080")
CONFIG = """[dpdk]
hugepages = false
memory_mb = 256
file_prefix = "{prefix}"
worker_cores = [{worker}]
main_core = {main}
[worker]
idle_sleep_us = 500
[control]
socket = "{socket}"
"""


def without(*words):
    """A command fails, or is not there."""
    try:
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode != 0
    except FileNotFoundError:
        return True


WITHOUT_PYTHON = without(PYTHON, "-c", "import grpc, google.protobuf") or without("protoc", "--version")
WITHOUT_GO = any(without(*words) for words in (
    ("protoc", "--version"), ("go", "version"), ("which", "protoc-gen-go", "protoc-gen-go-grpc"), ("test", "-d", f"{GOCODE}/src/google.golang.org/grpc")))


WITHOUT_NEWEST = without(NEWEST, "-c", "import grpc, grpc_tools, google.protobuf")
WITHOUT_NODE = without("node", "--version") or not (MODULES / "@grpc" / "grpc-js").is_dir() or not (MODULES / "@grpc" / "proto-loader").is_dir()
NOT_HAD = "cannot be had: tools/setup --examples installs it from the network"


class Examples(unittest.TestCase):
    """A switch in the namespace of a Node."""

    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-examples.")))
        self.spaces = {}
        for name in ("node", *PODS):
            self.addCleanup(netns.remove_namespace, f"vt{os.getpid()}-{name}")
            self.spaces[name] = netns.Space(f"vt{os.getpid()}-{name}")
        cores = machine.cores()
        config = CONFIG.format(prefix=f"vt{os.getpid()}", worker=cores[-1], main=cores[0], socket=self.directory / "vswitch.sock")
        self.switch = daemon.Switch(BINARIES, self.directory, config, self.spaces["node"].name)
        self.addCleanup(self.switch.stop)
        self.switch.wait_ready()

    @unittest.skipIf(WITHOUT_PYTHON, "python3-grpcio, python3-protobuf or protoc is missing: tools/setup --examples installs them")
    def test_python(self):
        generated = self.directory / "generated"
        machine.output([EXAMPLES / "generate", "python", generated])
        environment = {**os.environ, "PYTHONPATH": str(generated), "PYTHONDONTWRITEBYTECODE": "1"}
        self.check([PYTHON, EXAMPLES / "python" / "example.py", "--socket", self.switch.socket], environment)

    @unittest.skipIf(WITHOUT_GO, "go, its gRPC or its plugins of protoc are missing: tools/setup --examples installs them")
    def test_go(self):
        generated, binary = self.directory / "go", self.directory / "example"
        machine.output([EXAMPLES / "generate", "go", generated])
        environment = {**os.environ, "GO111MODULE": "off", "GOPATH": f"{generated}:{GOCODE}", "GOCACHE": str(ROOT / "target" / "go-build"), "GOFLAGS": ""}
        machine.output(["go", "build", "-o", binary, EXAMPLES / "go" / "example.go"], env=environment, timeout=300)
        self.check([binary, "-socket", self.switch.socket], os.environ)

    @unittest.skipIf(WITHOUT_NEWEST, f"the newest grpcio {NOT_HAD}")
    def test_the_newest_python(self):
        generated = self.directory / "generated"
        generated.mkdir()
        files = sorted(str(file.relative_to(PROTO)) for file in PROTO.glob("*/v1/*.proto"))
        machine.output([NEWEST, "-m", "grpc_tools.protoc", "-I", PROTO, f"--python_out={generated}", *files])
        environment = {**os.environ, "PYTHONPATH": str(generated), "PYTHONDONTWRITEBYTECODE": "1"}
        print("grpcio", machine.output([NEWEST, "-c", "import grpc; print(grpc.__version__)"]).strip())
        self.check([NEWEST, EXAMPLES / "python" / "example.py", "--socket", self.switch.socket], environment)

    @unittest.skipIf(WITHOUT_NEWEST, f"the newest grpcio {NOT_HAD}")
    def test_reflection_by_the_newest_python(self):
        self.check_reflection(NEWEST)

    @unittest.skipIf(WITHOUT_PYTHON, "python3-grpcio or python3-protobuf is missing: tools/setup --examples installs them")
    def test_reflection_by_debians_python(self):
        self.check_reflection(PYTHON)

    def check_reflection(self, python):
        """Both versions of reflection tell of all services, and enough to call one."""
        said = json.loads(machine.output([python, "-B", OTHERS / "reflect.py", self.switch.socket]).splitlines()[-1])
        print("grpcio", said.pop("grpc"))
        wanted = set()
        for file in PROTO.glob("*/v1/*.proto"):
            if file.parent.parent.name == "agent":
                continue  # the agent's, not the switch's
            text = file.read_text()
            package = re.search(r"^package (.*);", text, re.MULTILINE)[1]
            wanted |= {f"{package}.{name}" for name in re.findall(r"^service (\w+)", text, re.MULTILINE)}
        wanted -= {"vswitch.v1.DummyService"}  # with --enable-dummy only
        self.assertEqual(set(said), {"grpc.reflection.v1", "grpc.reflection.v1alpha"})
        for version, seen in said.items():
            self.assertEqual(wanted - set(seen["services"]), set(), version)
            self.assertTrue(seen["answer"], version)
        self.assertEqual(*(seen["answer"] for seen in said.values()))

    @unittest.skipIf(WITHOUT_NODE, f"the newest @grpc/grpc-js {NOT_HAD}")
    def test_the_newest_javascript(self):
        environment = {**os.environ, "NODE_PATH": str(MODULES)}
        said = json.loads(machine.output(["node", OTHERS / "bridges.js", PROTO, self.switch.socket], env=environment).splitlines()[-1])
        print("@grpc/grpc-js", said["grpc"])
        self.assertEqual(said["names"], ["js0"])

    def check(self, example, environment):
        """What the example says, and what its Pods find then."""
        said = machine.output([*example, "apply"], env=environment)
        self.assertIn("gate open", said)
        self.assertIn("APPLIED:8", re.sub(r"[' ]", "", said))
        self.attach()
        client, stranger = self.spaces["client"], self.spaces["stranger"]
        client.run("ping", "-n", "-c", "1", "-W", "5", "10.10.0.4")
        client.run("ping", "-n", "-c", "1", "-W", "5", "fd00:10::4")
        for url in (*SERVICE, *WEB):
            self.assertEqual(client.run("curl", "-sg", "-m", "5", f"http://{url}/"), "it is web\n", url)
            # curl's word for no answer in time
            with self.assertRaisesRegex(machine.Failure, "status 28", msg=url):
                stranger.run("curl", "-sg", "-m", "0.5", f"http://{url}/")
        told = machine.output([*example, "statistics"], env=environment)
        self.assertRegex(told, r"pod default/client: [1-9]\d* packets sent; policies: none")
        self.assertRegex(told, r"pod default/web: [1-9]\d* packets sent; policies: np:default/web")
        self.assertRegex(told, r"service default/web: 10\.10\.0\.3:8080 chosen [1-9]\d* times")
        self.assertRegex(told, r"service default/web: \[fd00:10::3\]:8080 chosen [1-9]\d* times")
        rule = re.search(r"policy np:default/web, rule from-client: (\d+) new connections, (\d+) packets", told)
        self.assertTrue(rule, told)
        # Once by each address of the Service and of the Pod; a SYN may have been sent again.
        self.assertGreaterEqual(int(rule[1]), 4, told)
        self.assertGreater(int(rule[2]), int(rule[1]), told)
        # A second switch of the same name is refused by name.
        with self.assertRaisesRegex(machine.Failure, "br0"):
            machine.output([*example, "apply"], env=environment)

    def attach(self):
        """Gives Pods their interfaces and addresses, and the Node its gateway; a web server runs in
        `web`."""
        node = self.spaces["node"]
        node.ip("link", "set", "gw0", "up")
        for address in ("10.10.0.1/24", "fd00:10::1/64"):
            node.ip("address", "add", address, "dev", "gw0", *(["nodad"] if ":" in address else []))
        for name, number in PODS.items():
            node.ip("link", "set", f"{name}0", "netns", self.spaces[name].name)
            space = self.spaces[name]
            space.ip("link", "set", f"{name}0", "address", f"02:00:00:0a:00:0{number}", "up")
            for address in (f"10.10.0.{number}/24", f"fd00:10::{number}/64"):
                space.ip("address", "add", address, "dev", f"{name}0", *(["nodad"] if ":" in address else []))
            for gateway in ("10.10.0.1", "fd00:10::1"):
                space.ip("route", "add", "default", "via", gateway)
        pages = self.directory / "pages"
        pages.mkdir()
        (pages / "index.html").write_text("it is web\n")
        web = self.spaces["web"]
        server = web.spawn("python3", "-m", "http.server", "--bind", "::", "--directory", pages, "8080", stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        self.addCleanup(machine.end, server)
        machine.wait_until("the web server listens", 10, lambda: web.run("ss", "-Hltn", "sport", "=", ":8080").strip())


@unittest.skipIf(shutil.which("gofmt") is None, "gofmt is missing: tools/setup --examples installs it")
class Format(unittest.TestCase):
    def test_go(self):
        self.assertEqual(machine.output(["gofmt", "-l", EXAMPLES / "go"]), "")


@unittest.skipIf(WITHOUT_PYTHON or WITHOUT_GO, "gRPC for Python or Go is missing: tools/setup --examples installs it")
class Readme(Page):
    """After the examples themselves: Go's compiled packages are there then."""

    def test_commands(self):
        self.follow("tools/examples/README.md")


if __name__ == "__main__":
    unittest.main()
