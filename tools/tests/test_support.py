"""vsctl support-bundle and vsctl doctor on a running switch: no planted secret leaves the machine,
and faults of the switch are told."""

import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import daemon, machine  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
CONFIG = """[[bridge]]
name = "br0"
fail_mode = "standalone"
[[bridge.port]]
name = "host0"
type = "internal"
external_ids = { owner = "shop/web", "api-token" = "planted-01", "db_password" = "planted-02 with blanks" }
"""
# As an administrator's file may have them; the switch reads a file without.
COMMENTS = """
# password: planted-03
# export AWS_SECRET_ACCESS_KEY="planted-04"
# curl https://admin:planted-05@registry.example/v2/
# --registry-token planted-06
"""
LOG = """
INFO control client: authorization=planted-07 uid=0
WARN proxy said: Authorization: Bearer planted-08-0123456789
DEBUG {"access_key": "planted-09", "name": "web"}
INFO login user=bob passwd='planted-10'
INFO cert key -----BEGIN RSA PRIVATE KEY-----
planted-11
planted-12
-----END RSA PRIVATE KEY-----
INFO webhook https://hooks.example/services?token=planted-13&x=1
INFO session_id: planted-14
INFO snmp community = planted-15
INFO root:$6$planted16$planted17aaaaaaaa:19000
INFO ghp_planted18aaaaaaaaaaaaaaaaaaaaaa
INFO AKIAPLANTED19AAAAAAA
INFO eyJplanted20aaa.eyJplanted21aaa.planted22
INFO ipsec psk = "planted-23"
"""


class Support(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="vswitch-support.")))
        config = daemon.head(cls.directory, "support") + CONFIG
        cls.switch = daemon.Switch(BINARIES, cls.directory, config + COMMENTS)
        cls.addClassCleanup(cls.switch.stop)
        cls.switch.wait_ready()
        cls.environment = {**os.environ, "VSWITCH_SOCKET": str(cls.switch.socket)}

    def vsctl(self, *words):
        return subprocess.run([BINARIES / "vsctl", *words], env=self.environment, capture_output=True, text=True, check=False)

    def bundle(self, name, *words):
        """The files of a bundle, by name."""
        path = self.directory / name
        done = self.vsctl("support-bundle", "-o", path, *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        with tarfile.open(path) as archive:
            files = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
        return {name.removeprefix("vswitch-support/"): data for name, data in files.items()}

    def test_it_has_what_is_needed_and_no_secret(self):
        log = self.directory / "some.log"
        log.write_text(LOG)
        packet = bytes.fromhex("020000000002020000000001") + b"\x88\xb5" + b"payload-of-a-pod" * 4
        subprocess.run(["ip", "link", "set", "host0", "up"], check=True)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as host:
            host.bind(("host0", 0))
            host.send(packet)
        arrived = lambda: "no_port" in self.vsctl("drops", "--port", "host0").stdout  # noqa: E731
        machine.wait_until("the packet", machine.PATIENCE_S, arrived)
        files = self.bundle("a.tar.gz", "--config", self.directory / "vswitchd.toml", "--log", log)
        everything = b"\n".join(files.values())
        found = {f"planted-{i:02}" for i in range(24) if f"planted-{i:02}".encode() in everything}
        found |= {f"planted{i}" for i in range(16, 23) if f"planted{i}".encode().lower() in everything.lower()}
        self.assertEqual(found, set())
        self.assertNotIn(packet[14:30], everything)
        manifest = json.loads(files["manifest.json"])
        self.assertGreaterEqual(manifest["redacted"], 20)
        self.assertEqual({one["name"] for one in manifest["files"]} | {"manifest.json"}, set(files))
        # What is no secret is there.
        self.assertIn(b"shop/web", files["bridges.json"])
        self.assertIn(b"rx drops: no_port=", files["bridge-br0/ports.txt"])
        self.assertIn(b"NORMAL", files["bridge-br0/flows.txt"])
        self.assertIn(b"INFO snmp community = <redacted>", files["log.txt"])
        self.assertIn(b"MemTotal", files["machine/proc/meminfo"])
        self.assertIn(b"the switch answers", files["doctor.txt"])
        # No verb was refused but those of a Node, which this switch is not.
        failed = {name for name, data in files.items() if data.startswith(b"vsctl ") and not name.startswith("antrea-")}
        self.assertEqual(failed, set())
        again = self.vsctl("support-bundle", "-o", self.directory / "a.tar.gz")
        self.assertEqual(again.returncode, 1)
        self.assertIn("exists", again.stderr)

    def test_a_silent_switch_has_a_bundle_too(self):
        self.environment = {**self.environment, "VSWITCH_SOCKET": str(self.directory / "none.sock")}
        files = self.bundle("b.tar.gz")
        self.assertIn(b"none.sock", files["bridges.txt"])
        self.assertIn(b"bad", files["doctor.txt"])

    def found(self):
        """What the doctor finds at the switch."""
        done = self.vsctl("--json", "doctor", "--config", self.directory / "vswitchd.toml")
        outcomes = json.loads(done.stdout)["outcomes"]
        return {outcome["check"]: outcome for outcome in outcomes if outcome["level"] != "ok"}

    def test_the_doctor_asks_the_switch(self):
        """Checks of the machine depend on the machine, and those of load on its other work."""
        asked = {"switch", "health", "version", "ports", "connections", "mbufs", "tunnel-mtu", "log", "config", "state-directory"}
        self.assertEqual(asked & set(self.found()), set())
        waiting = ("--type", "vhost-user", "--path", str(self.directory / "missing" / "a.sock"))
        self.assertEqual(self.vsctl("add-port", "br0", "pod-a", *waiting).returncode, 0)
        try:
            ports = self.found()["ports"]
            self.assertEqual(ports["level"], "warn")
            self.assertIn("pod-a", ports["fact"])
        finally:
            self.assertEqual(self.vsctl("del-port", "br0", "pod-a").returncode, 0)
        self.assertNotIn("ports", self.found())

    def test_no_switch_is_bad(self):
        done = subprocess.run([BINARIES / "vsctl", "--socket", self.directory / "none.sock", "doctor"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("bad   switch: no switch answers", done.stdout)
        self.assertIn("fix: systemctl start vswitchd", done.stdout)


if __name__ == "__main__":
    unittest.main()
