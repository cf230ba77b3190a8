"""The packages: what lintian says, and their life on a bare Debian 12 with systemd: installation,
traffic, an upgrade while a connection goes on, removal."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.debian import tree  # noqa: E402
from vsw.debian.container import Container  # noqa: E402
from vsw.netns import Host  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
FIRST, SECOND, THIRD = "0.2.0+test1", "0.2.0+test2", "0.2.0+test3"
CONFIG = "/etc/vswitch/vswitchd.toml"
# Nothing that is not of a known connection passes, but a connection's first segment.
PORTS = """
flows = [
    "table=0,arp,actions=NORMAL",
    "table=0,icmp,actions=NORMAL",
    "table=0,tcp,actions=ct(table=1)",
    "table=1,tcp,ct_state=+trk+new,tcp_flags=+syn-ack,actions=ct(commit),NORMAL",
    "table=1,tcp,ct_state=+trk+est,actions=NORMAL",
]

[[bridge.port]]
name = "p1"
type = "af_packet"
interface = "p1"

[[bridge.port]]
name = "p2"
type = "af_packet"
interface = "p2"
"""
ECHO = """
import socket
with socket.create_server(("", 7)) as server:
    while True:
        connection, _ = server.accept()
        while data := connection.recv(4096):
            connection.sendall(data)
"""
# Says each number that came back.
TALK = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 7), 60) as connection:
    for number in range(1 << 30):
        line = b"%15d\\n" % number
        connection.sendall(line)
        got = b""
        while len(got) < len(line):
            more = connection.recv(len(line) - len(got))
            assert more, "the connection has ended"
            got += more
        assert got == line, (got, line)
        print(number, flush=True)
        time.sleep(0.05)
"""
# Files that an installation of any package changes: they are dpkg's, apt's and systemd's own.
OTHERS = ("proc", "sys", "dev", "run", "tmp", "var/cache", "var/log", "var/lib/dpkg", "var/lib/apt", "var/lib/systemd", "var/tmp")
# What python3, udev, netbase and ca-certificates make, which ours need: they stay after a purge.
OTHERS += ("etc/ssl", "etc/ca-certificates", "etc/python3", "var/lib/python", "usr/local/share", "usr/local/lib")
OTHERS += tuple(f"etc/rc{level}.d" for level in "0123456S")
NEEDED = ("etc/hosts", "etc/networks", "etc/inputrc", "etc/ca-certificates.conf", "usr/lib/udev/hwdb.bin")
ALWAYS = ("etc/ld.so.cache", "etc/group-", "etc/gshadow-", "etc/passwd-", "etc/shadow-", "etc/.pwd.lock", "etc/subgid-", "etc/subuid-")


def package(out, version, compression="gzip"):
    """Makes both packages; their paths."""
    argv = [ROOT / "tools" / "package", "--bin-dir", BINARIES, "--out", out, "--version", version, "--compression", compression]
    machine.output(argv, env={**os.environ, "SOURCE_DATE_EPOCH": "1800000000"}, timeout=300)
    return {name: out / f"{name}_{version}_amd64.deb" for name in ("vswitch", "vswitch-cni")}


def leftovers(container):
    """Files of the container that are of no package."""
    root, found = container.root, set()
    owned = {"/"}
    for names in (root / "var/lib/dpkg/info").glob("*.list"):
        owned |= set(names.read_text().splitlines())
    # Debian has /bin and the like as links: packages know files below both.
    for name in ("bin", "sbin", "lib", "lib64"):
        owned |= {f"/usr{path}" for path in owned if path.startswith(f"/{name}/")}
    for directory, names, files in os.walk(root):
        here = Path(directory).relative_to(root)
        names[:] = [name for name in names if str(here / name) not in OTHERS and name != "__pycache__"]
        found |= {str(here / name) for name in (*names, *files) if f"/{here / name}" not in owned}
    return found - {*ALWAYS, *NEEDED}


MADE = {}


def setUpModule():
    directory = Path(unittest.enterModuleContext(tempfile.TemporaryDirectory(prefix="vswitch-package.")))
    MADE.update((version, package(directory, version)) for version in (FIRST, SECOND, THIRD))


class Packages(unittest.TestCase):
    maxDiff = None

    def test_the_same_input_gives_the_same_bytes(self):
        again = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, path in package(again, FIRST).items():
            self.assertEqual(path.read_bytes(), MADE[FIRST][name].read_bytes(), name)

    def test_lintian_says_nothing(self):
        argv = ["lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", *MADE[FIRST].values()]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_usage(self):
        wrong = {"--version": "-1", "--maintainer": "me", "--bin-dir": "/none"}
        for option, value in wrong.items():
            words, complaint = [option, value], "tools/release" if option == "--bin-dir" else option
            done = subprocess.run([ROOT / "tools" / "package", *words], capture_output=True, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(complaint, done.stderr)


class Life(unittest.TestCase):
    """One machine from the installation to the purge."""

    maxDiff = None

    def setUp(self):
        tree.make()
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-package.")))
        self.container = Container(tree.TREE, self.directory, f"vt{os.getpid()}")
        self.addCleanup(self.container.close)
        self.container.await_boot()
        self.hosts = [Host(f"vt{os.getpid()}-{name}", index) for index, name in ((1, "a"), (2, "b"))]
        for index, host in enumerate(self.hosts, 1):
            self.addCleanup(machine.output, ["ip", "netns", "delete", host.name])
            host.ip("link", "add", "eth0", "type", "veth", "peer", "name", f"p{index}")
            host.ip("link", "set", f"p{index}", "netns", self.container.leader)
            self.container.run("ip", "link", "set", f"p{index}", "up")
            host.configure("eth0")

    def install(self, version):
        """apt installs the package from the directory /root."""
        deb = MADE[version]["vswitch"]
        name = f"root/{deb.name}"
        (self.container.root / name).write_bytes(deb.read_bytes())
        said = self.container.run("apt-get", "-q", "--yes", "install", f"/{name}")
        (self.container.root / name).unlink()
        return said

    def journal(self):
        return self.container.run("journalctl", "--no-pager", "-u", "vswitchd", "-o", "cat")

    def main_pid(self, unit="vswitchd"):
        return self.container.run("systemctl", "show", "-P", "MainPID", unit).strip()

    def talk(self):
        """A connection from one host to the other; a function that says the last number that came
        back."""
        server = self.hosts[1].spawn(sys.executable, "-c", ECHO)
        self.addCleanup(machine.end, server)
        machine.expect("the echo listens", lambda: ":7 " in self.hosts[1].run("ss", "-Hltn"))
        log = self.enterContext(open(self.directory / "talk.log", "w+"))
        client = self.hosts[0].spawn(sys.executable, "-c", TALK, self.hosts[1].v4, stdout=log, stderr=log)
        self.addCleanup(machine.end, client)

        def last():
            text = (self.directory / "talk.log").read_text()
            self.assertIsNone(client.poll(), text[-2000:] + self.journal()[-3000:])
            return int(text.split()[-1]) if text.endswith("\n") else -1

        machine.expect("the connection is there", lambda: last() > 20)
        return last

    def test_from_installation_to_purge(self):
        before = leftovers(self.container)
        said = self.install(FIRST)
        self.assertIn(f"name your ports in {CONFIG}", said)
        active = self.container.call("systemctl", "is-active", "vswitchd").stdout.strip()
        self.assertEqual(active, "inactive", "nothing is started before it is configured")
        self.assertEqual(self.container.run("systemctl", "is-enabled", "vswitchd").strip(), "enabled")
        self.the_file_works_as_it_is()
        self.traffic()
        self.group_may_look()
        self.manuals_and_completions()
        self.host_setup()
        self.upgrade()
        self.refused_upgrade()
        self.container.run("apt-get", "-q", "--yes", "purge", "vswitch")
        self.assertEqual(leftovers(self.container), before)
        self.assertNotIn("vswitch", (self.container.root / "etc/group").read_text())
        self.assertEqual(self.container.call("sh", "-c", "ls -d /run/vswitch* /run/dpdk").stdout, "")

    def start(self):
        done = self.container.call("systemctl", "start", "vswitchd")
        self.assertEqual(done.returncode, 0, self.journal()[-3000:])

    def the_file_works_as_it_is(self):
        self.start()
        self.assertIn("br0", self.container.run("vsctl", "show"))
        self.container.run("systemctl", "stop", "vswitchd")

    def traffic(self):
        config = self.container.root / CONFIG[1:]
        text = config.read_text()
        self.assertIn('fail_mode = "standalone"\n', text)
        config.write_text(text.replace('fail_mode = "standalone"\n', f'fail_mode = "secure"\n{PORTS}'))
        self.start()
        machine.expect("a ping passes", lambda: self.hosts[0].reaches(self.hosts[1].v4), self.journal)
        self.assertEqual(json.loads(self.container.run("vsctl", "--json", "health-show"))["serving"], True)

    def group_may_look(self):
        """Its members, and no others, read by a socket of theirs."""
        for group, words, status in (
            ("vswitch", ("--socket", "/run/vswitch/monitor.sock", "show"), 0),
            ("vswitch", ("--socket", "/run/vswitch/monitor.sock", "add-br", "x"), 1),
            ("vswitch", ("show",), 3),
            ("nogroup", ("--socket", "/run/vswitch/monitor.sock", "show"), 3),
        ):
            done = self.container.call("setpriv", "--reuid=nobody", f"--regid={group}", "--clear-groups", "vsctl", *words)
            self.assertEqual(done.returncode, status, f"{group} {words}: {done.stdout}{done.stderr}")

    def manuals_and_completions(self):
        for path in ("man1/vsctl.1", "man8/vswitchd.8", "man8/vswitch-agent.8", "man8/vswitch-setup.8"):
            self.assertTrue((self.container.root / f"usr/share/man/{path}.gz").is_file(), path)
        self.assertIn("br0", self.container.run("bash", "-c", ". /usr/share/bash-completion/completions/vsctl; "
                      "COMP_WORDS=(vsctl list-ports ''); COMP_CWORD=2; COMP_LINE='vsctl list-ports '; COMP_POINT=17; "
                      "$(complete -p vsctl | sed 's/.*-F \\([^ ]*\\).*/\\1/') vsctl '' list-ports; echo ${COMPREPLY[@]}"))

    def host_setup(self):
        """A setup that reserves nothing: the purge takes its files."""
        self.container.run("setpriv", "--reuid=nobody", "vswitch-setup", "host", "plan")
        self.container.run("vswitch-setup", "host", "apply", "--hugepages", "0x2M")
        (self.container.root / "etc/driverctl.d").mkdir(exist_ok=True)
        self.assertTrue((self.container.root / "etc/tmpfiles.d/vswitch-hugepages.conf").is_file())

    def upgrade(self):
        """A connection goes on by what the switch of before knew of it; the edited file stays."""
        self.container.run("systemctl", "start", "vswitch-agent")
        last, pid, agent = self.talk(), self.main_pid(), self.main_pid("vswitch-agent")
        config = (self.container.root / CONFIG[1:]).read_bytes()
        said = self.install(SECOND)
        self.assertNotIn(self.main_pid(), (pid, "0"), said[-2000:] + self.journal()[-2000:])
        self.assertNotIn(self.main_pid("vswitch-agent"), (agent, "0"))
        upgraded = last()
        machine.expect("the connection goes on", lambda: last() > upgraded + 20, self.journal)
        self.assertEqual((self.container.root / CONFIG[1:]).read_bytes(), config)

    def refused_upgrade(self):
        """Where the new switch would not start, the old one goes on."""
        config, pid = self.container.root / CONFIG[1:], self.main_pid()
        text = config.read_text()
        config.write_text(text + "\n[nonsense]\n")
        said = self.install(THIRD)
        self.assertIn("the service was not restarted", said)
        self.assertIn("nonsense", said)
        self.assertEqual(self.main_pid(), pid)
        self.assertTrue(self.hosts[0].reaches(self.hosts[1].v4))
        config.write_text(text)


if __name__ == "__main__":
    unittest.main()
