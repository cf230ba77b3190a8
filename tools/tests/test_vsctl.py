"""vsctl on a running switch as its users have it: completion in real shells, listings on a
terminal, --watch, YAML, ports that wait."""

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import daemon, machine  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
CONFIG = """[[bridge]]
name = "br0"
fail_mode = "standalone"
[[bridge.port]]
name = "uplink0"
type = "internal"
[[bridge.port]]
name = "guest_1"
type = "internal"
"""


def read_until(descriptor, pattern):
    """What comes from a descriptor until the pattern is in it; fails at its end."""
    text = ""
    while not re.search(pattern, text, re.DOTALL):
        if not select.select([descriptor], [], [], machine.PATIENCE_S)[0]:
            raise machine.Failure(f"{pattern} does not come; so far:\n{text}")
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # a terminal whose program has ended
            part = b""
        if not part:
            raise machine.Failure(f"it ended before {pattern}:\n{text}")
        text += part.decode(errors="replace")
    return text


class Vsctl(unittest.TestCase):
    """One switch for all."""

    @classmethod
    def setUpClass(cls):
        cls.directory = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="vswitch-vsctl.")))
        config = daemon.head(cls.directory, "vsctl") + CONFIG
        cls.switch = daemon.Switch(BINARIES, cls.directory, config)
        cls.addClassCleanup(cls.switch.stop)
        cls.switch.wait_ready()
        cls.environment = {**os.environ, "VSWITCH_SOCKET": str(cls.switch.socket), "PATH": f"{BINARIES}:{os.environ['PATH']}", "TERM": "xterm"}
        cls.run_vsctl("add-table", "br0", "Classifier", "--number", "7")

    @classmethod
    def run_vsctl(cls, *words, status=0):
        done = subprocess.run([BINARIES / "vsctl", *words], env=cls.environment, capture_output=True, text=True, check=False)
        if done.returncode != status:
            raise machine.Failure(f"vsctl {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    @contextlib.contextmanager
    def terminal(self, *argv):
        """A program on a terminal of its own: its process, and the descriptor of the terminal."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=self.environment, cwd=self.directory, start_new_session=True)
        os.close(theirs)
        try:
            yield process, ours
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
            os.close(ours)

    def on_terminal(self, *words):
        """What a command of vsctl prints on a terminal."""
        with self.terminal("sh", "-c", '"$@"; echo "ends $?"', "sh", BINARIES / "vsctl", *words) as (_, screen):
            return read_until(screen, r"ends \d+")

    # Completion.

    CASES = (
        ("vsctl dump-ports b", ["br0"]),
        ("vsctl del-port br0 up", ["uplink0"]),
        ("vsctl del-table br0 ", ["Classifier"]),
        ("vsctl add-port br0 x --type af", ["af_packet"]),
        ("vsctl worker-rxq-sh", ["worker-rxq-show"]),
        ("vsctl antrea traffic", ["traffic-controls"]),
    )

    def bash(self, line, environment=None):
        script = 'source <(vsctl completion bash); COMP_LINE=$1 COMP_POINT=${#1}; _vsctl; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "bash", line], env=environment or self.environment, capture_output=True, text=True, check=True,
                              cwd=self.directory)
        self.assertEqual(done.stderr, "", line)
        return done.stdout.split()

    def test_bash_completes_names_of_the_switch(self):
        for line, want in self.CASES:
            self.assertEqual(self.bash(line), want, line)
        # bash takes what stands before a = for a word of its own.
        self.assertEqual(self.bash("vsctl add-port br0 x --type=af"), ["af_packet"])
        self.assertEqual(self.bash("vsctl dump-flows br0 table="), ["Classifier"])
        self.assertIn("vswitchd.toml", self.bash("vsctl add-flows br0 vsw"))

    def test_completion_is_silent_where_no_switch_answers(self):
        away = {**self.environment, "VSWITCH_SOCKET": "/nonexistent/vswitch.sock"}
        self.assertEqual(self.bash("vsctl dump-ports ", away), [])
        self.assertEqual(self.bash("vsctl sho", away), ["show"])
        os.kill(self.switch.process.pid, signal.SIGSTOP)
        try:
            self.assertEqual(self.bash("vsctl dump-ports "), [])
        finally:
            os.kill(self.switch.process.pid, signal.SIGCONT)

    @unittest.skipIf(shutil.which("fish") is None, "fish is missing: tools/setup installs it")
    def test_fish_completes_names_of_the_switch(self):
        for line, want in self.CASES:
            said = machine.output(["fish", "--no-config", "-c", "vsctl completion fish | source; complete -C $argv[1]", line], env=self.environment)
            self.assertEqual([word.split("\t")[0] for word in said.splitlines()], want, line)

    @unittest.skipIf(shutil.which("zsh") is None, "zsh is missing: tools/setup installs it")
    def test_zsh_completes_names_of_the_switch(self):
        with self.terminal("zsh", "-f", "-i") as (_, screen):
            start = "autoload -U compinit; compinit -u -D; source <(vsctl completion zsh); PS1=; echo rea''dy\n"
            os.write(screen, start.encode())
            read_until(screen, "ready")
            for line, want in self.CASES:
                # What is completed is shown where it is typed; the line is then taken away.
                os.write(screen, line.encode() + b"\t")
                read_until(screen, re.escape(want[0]))
                os.write(screen, b"\x15")

    # Terminals.

    def test_an_empty_listing_says_so_on_a_terminal_only(self):
        self.assertIn("no connections", self.on_terminal("dump-conntrack"))
        done = self.run_vsctl("dump-conntrack")
        self.assertEqual((done.stdout, done.stderr), ("", ""))
        self.assertNotIn("no connections", self.on_terminal("dump-conntrack", "--json"))

    def test_the_flow_of_a_standalone_bridge_is_explained(self):
        self.assertIn("standalone begins with", self.on_terminal("dump-flows", "br0"))
        self.assertEqual(self.run_vsctl("dump-flows", "br0").stderr, "")

    def test_help_fits_a_terminal(self):
        said = self.on_terminal("--help")
        for heading in ("Bridges and ports:", "Flows:", "Connections:", "Tunnels:", "Workers:", "Observing:", "Kubernetes:", "This program:"):
            self.assertIn(heading, said)

    def test_watch_redraws_a_terminal(self):
        with self.terminal(BINARIES / "vsctl", "dump-ports", "br0", "--watch=0.05") as (process, screen):
            said = read_until(screen, r"RX PACKETS/S.*RX PACKETS/S")
            self.assertIn("\x1b[H\x1b[2J# ", said)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(machine.PATIENCE_S), 0)

    # Elsewhere.

    def watching(self, *words):
        return subprocess.Popen([BINARIES / "vsctl", *words], env=self.environment, stdout=subprocess.PIPE)

    def test_watch_writes_blocks_with_their_time(self):
        with self.watching("dump-conntrack", "--watch=0.05") as process:
            said = read_until(process.stdout.fileno(), r"(# \d{4}-\d\d-\d\dT[\d:]{8}Z dump-conntrack\n\(no connections\)\n\n){3}")
            self.assertNotIn("\x1b", said)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(machine.PATIENCE_S), 0)

    def test_watch_tells_rates_as_json(self):
        with self.watching("--json", "dump-ports", "br0", "--watch=0.05") as process:
            lines = read_until(process.stdout.fileno(), r".*\n.*\n").splitlines()[:2]
            process.kill()
        first, second = map(json.loads, lines)
        self.assertEqual(set(first), {"time", "answer"})
        names = [port["name"] for port in second["answer"]]
        self.assertEqual(set(second["rates"]), set(names))
        self.assertEqual(set(second["rates"]["uplink0"]), {"rx_packets", "rx_bytes", "rx_dropped", "tx_packets", "tx_bytes", "tx_dropped"})

    def test_yaml_says_the_same_as_json(self):
        # Nothing that counts: these are two readings.
        for words in (["list-ports", "br0"], ["ct-get-timeouts"], ["capabilities"], ["drop-reasons"], ["dump-conntrack"]):
            [document] = yaml.safe_load_all(self.run_vsctl("-o", "yaml", *words).stdout)
            self.assertEqual(document, json.loads(self.run_vsctl("-o", "json", *words).stdout), words)
        refused = yaml.safe_load(self.run_vsctl("del-br", "br9", "-o", "yaml", status=1).stderr)
        self.assertEqual(refused["error"]["code"], "NOT_FOUND")

    def test_a_port_says_what_it_waits_for(self):
        path = self.directory / "none" / "vm.sock"
        done = self.run_vsctl("add-port", "br0", "vm0", "--type", "vhost-user", "--path", str(path))
        self.addCleanup(self.run_vsctl, "del-port", "br0", "vm0")
        self.assertIn(f"waiting for {path}: no such directory; make it: mkdir -p {path.parent}", done.stderr)
        self.assertIn(f"state: waiting for {path}: no such directory\n", self.run_vsctl("show").stdout)
        path.parent.mkdir()
        self.assertIn(f"state: waiting for {path}: no such socket\n", self.run_vsctl("show").stdout)

    def test_a_virtual_device_gets_advice_of_its_own(self):
        done = self.run_vsctl("add-port", "br0", "d0", "--type", "dpdk", "--devargs", "net_foo0", status=1)
        self.assertNotIn("vfio-pci", done.stderr)


if __name__ == "__main__":
    unittest.main()
