"""tools/clients: each package is made, and the code of its page (docs/client-*.md) does what the
page shows, on a switch without anything. Python has the newest grpcio of PyPI, Go the gRPC of
Debian."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from pages import blocks, missing  # noqa: E402
from test_examples import BINARIES, CLIENTS, CONFIG, GOCODE, NEWEST, NOT_HAD, WITHOUT_GO, WITHOUT_NEWEST  # noqa: E402
from vsw import daemon, machine, netns  # noqa: E402

BUILD = ROOT / "tools" / "clients" / "build"


def programs(page, language):
    """The programs of a page, each with the lines that it shows."""
    parts = list(blocks((ROOT / "docs" / page).read_text()))
    for (kind, lines, _), (then, shown, _) in zip(parts, parts[1:]):
        if kind == language:
            assert then == "text", f"{page}: a program shows nothing"
            yield "\n".join(lines) + "\n", shown


class Clients(unittest.TestCase):
    """A switch in a namespace of its own."""

    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-clients.")))
        name = f"vt{os.getpid()}-clients"
        self.addCleanup(netns.remove_namespace, name)
        self.space = netns.Space(name)
        cores = machine.cores()
        config = CONFIG.format(prefix=name, worker=cores[-1], main=cores[0], socket=self.directory / "vswitch.sock")
        self.switch = daemon.Switch(BINARIES, self.directory, config, name)
        self.addCleanup(self.switch.stop)
        self.switch.wait_ready()

    def run_program(self, argv, environment, shown, status=0):
        done = subprocess.run(list(map(str, argv)), env={**os.environ, **environment, "VSWITCH_SOCKET": str(self.switch.socket)},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stdout)
        self.assertIsNone(missing(shown, done.stdout.splitlines()), f"a line that the page shows is not in:\n{done.stdout}")

    @unittest.skipIf(WITHOUT_NEWEST, f"the newest grpcio {NOT_HAD}")
    def test_python(self):
        print("grpcio", machine.output([NEWEST, "-c", "import grpc; print(grpc.__version__)"]).strip())
        machine.output([BUILD, "python", self.directory / "wheel"], env={**os.environ, "PYTHON": str(NEWEST)})
        [wheel] = (self.directory / "wheel").glob("vswitch_client-*.whl")
        pip = [NEWEST, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index"]
        # What the wheel needs is there: with --no-index, nothing else could be found.
        machine.output([*pip, "--dry-run", wheel])
        machine.output([*pip, "--no-deps", "--target", self.directory / "site", wheel])
        self.assertTrue((self.directory / "site/vswitch/v1/port_pb2.pyi").is_file())
        all_programs = list(programs("client-python.md", "python"))
        self.assertEqual(len(all_programs), 3)
        for number, (program, shown) in enumerate(all_programs):
            file = self.directory / f"program{number}.py"
            file.write_text(program)
            self.run_program([NEWEST, "-B", file], {"PYTHONPATH": str(self.directory / "site")}, shown)

    @unittest.skipIf(WITHOUT_GO, "go, its gRPC or its plugins of protoc are missing: tools/setup --examples installs them")
    def test_go(self):
        print("gRPC for Go", machine.output(["dpkg-query", "-W", "-f", "${Version}", "golang-google-grpc-dev"]))
        module = self.directory / "go/src/vswitch.io/api"
        machine.output([BUILD, "go", module])
        # Debian's packages are for GOPATH; a module that is alone is understood without them.
        self.assertEqual(machine.output(["go", "list", "-m"], cwd=module, env={**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off"}).strip(),
                         "vswitch.io/api")
        [(program, shown)] = programs("client-go.md", "go")
        source, binary = self.directory / "go/src/quick/main.go", self.directory / "quick"
        source.parent.mkdir()
        source.write_text(program)
        environment = {**os.environ, "GO111MODULE": "off", "GOPATH": f"{self.directory}/go:{GOCODE}", "GOCACHE": str(CLIENTS.parent / "go-build"),
                       "GOFLAGS": ""}
        machine.output(["gofmt", "-l", "-e", source])
        machine.output(["go", "vet", "vswitch.io/api/client"], env=environment, timeout=600)
        machine.output(["go", "build", "-o", binary, "quick"], env=environment, timeout=600)
        self.run_program([binary], {}, shown)
        parts = blocks((ROOT / "docs/client-go.md").read_text())
        self.run_program([binary], {}, [lines for kind, lines, _ in parts if kind == "text"][1], status=1)


if __name__ == "__main__":
    unittest.main()
