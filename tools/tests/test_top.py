"""`vsctl top` on a terminal (tmux): its pages on a switch with traffic, its keys, a narrow
terminal, and a switch that is stopped and started again meanwhile."""

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import daemon, machine  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
# TCP is denied; UDP opens a connection in zone 7 and is forwarded.
CONFIG = """[[bridge]]
name = "br0"
flows = [
    "in_port=client,udp,actions=ct(commit,zone=7),output:server",
    "in_port=client,tcp,actions=drop",
    "priority=1,in_port=server,actions=drop",
]
[[bridge.port]]
name = "client"
type = "internal"
number = 1
[[bridge.port]]
name = "server"
type = "internal"
number = 2
"""


def packet(protocol, payload):
    """An IPv4 packet from 10.0.0.1 to 10.0.0.2 in an Ethernet frame."""
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xffff) + (total >> 16)
    header = header[:10] + struct.pack("!H", ~total & 0xffff) + header[12:]
    return bytes.fromhex("020000000002" "020000000001" "0800") + header + payload


UDP = packet(17, struct.pack("!HHHH", 1000, 2000, 12, 0) + b"ping")
TCP = packet(6, struct.pack("!HHIIBBHHH", 1000, 80, 1, 0, 0x50, 2, 1000, 0, 0))


class Traffic:
    """A hundred packets of each kind a second into an interface, which may go and come again."""

    def __init__(self, interface):
        self.interface, self.ending = interface, threading.Event()
        self.thread = threading.Thread(target=self.send)
        self.thread.start()

    def send(self):
        while not self.ending.wait(0.01):
            with contextlib.suppress(OSError), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
                raw.bind((self.interface, 0))
                while not self.ending.wait(0.01):
                    raw.send(UDP)
                    raw.send(TCP)

    def stop(self):
        self.ending.set()
        self.thread.join()


class Top(unittest.TestCase):
    """One switch and its traffic for all."""

    @classmethod
    def setUpClass(cls):
        cls.directory = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="vswitch-top.")))
        cls.config = daemon.head(cls.directory, "top") + CONFIG
        cls.start_switch()
        cls.addClassCleanup(lambda: cls.switch.stop())
        cls.addClassCleanup(Traffic("client").stop)

    @classmethod
    def start_switch(cls):
        cls.switch = daemon.Switch(BINARIES, cls.directory, cls.config)
        cls.switch.wait_ready()
        for interface in ("client", "server"):
            machine.output(["ip", "link", "set", interface, "up"])

    # A terminal.

    def tmux(self, *words):
        return machine.output(["tmux", "-S", self.directory / "tmux", "-f", "/dev/null", *words])

    def open(self, *words, width=80, height=24):
        """Starts vsctl top on a terminal. The terminal outlives it and shows its exit status."""
        command = f"{shlex.join(map(str, self.switch.command('top', '--interval', '0.3', *words)))}; echo ends $?; sleep infinity"
        self.tmux("new-session", "-d", "-x", str(width), "-y", str(height), "-s", "top", command)
        self.addCleanup(self.tmux, "kill-server")

    def screen(self):
        return self.tmux("capture-pane", "-p", "-t", "top")

    def press(self, *keys):
        self.tmux("send-keys", "-t", "top", *keys)

    def expect(self, *patterns):
        """Waits until the screen has all of this, each somewhere in a line."""
        found = lambda: all(re.search(pattern, screen, re.MULTILINE) for screen in [self.screen()] for pattern in patterns)
        machine.expect(f"{patterns} on the screen", found, seen=self.screen)
        return self.screen()

    # Pages.

    def test_each_page_shows_the_traffic(self):
        self.open()
        rate, busy = r"\d+(\.\d+)?k?", r"[1-9]\d*(\.\d+)?k?"
        self.expect(r"^vsctl top \[1 workers\] 2 ports ", r"^decided by programs ", rf"^ *\d+( +\d+\.\d){{3}} +{busy} ", r"^q quit ")
        self.press("2")
        self.expect(r"\[2 ports\]", r"with link: 2", rf"^br0 +client +up +{busy} +{rate} +0\.0 +0\.0 +{busy} +internal$",
                    rf"^br0 +server +up +{rate} +{rate} +{busy} ")
        self.press("3")
        self.expect(r"\[3 drops\]", r"by class: .*policy [1-9]", rf"^rule_drop +policy +client +in +{busy} +{busy} ")
        self.press("Tab")
        self.expect(r"\[4 connections\]", r"^connections: 1 of \d+ ", r"^by protocol: udp 1$", r"^ +7 +1 +0\.0 ")
        self.press("Tab")
        self.expect(r"\[5 policies\]", r"^\(no Node: no agent has declared one")
        self.press("Tab")
        self.expect(r"\[1 workers\]")
        self.press("q")
        self.expect("^ends 0$")

    def test_keys_sort_and_pause(self):
        self.open("--page", "ports")
        self.expect(r"; by RX P/S, most first$", r"^br0 +client(.*\n)+br0 +server")
        self.press("<", "<")
        self.expect(r"; by PORT, Z first$", r"^br0 +server(.*\n)+br0 +client")
        self.press("r")
        self.expect(r"; by PORT, A first$", r"^br0 +client(.*\n)+br0 +server")
        self.press("p")
        self.expect(r"^paused; ")
        paused = self.screen()
        received = lambda: self.switch.ports()["client"]["rx_packets"]
        then = received()
        machine.expect("the switch goes on", lambda: received() > then + 100)
        self.assertEqual(self.screen(), paused)
        self.press("p")
        machine.expect("it goes on", lambda: "paused" not in self.screen() and self.screen() != paused, seen=self.screen)

    def test_a_terminal_that_becomes_narrow_hides_columns(self):
        self.open("--page", "drops", width=120)
        self.assertNotIn("hidden", self.expect(r"^rule_drop .* br0 +-$"))
        self.tmux("resize-window", "-t", "top", "-x", "40", "-y", "12")
        self.expect(r"hidden", r"^rule_drop +policy +client +in")
        self.tmux("resize-window", "-t", "top", "-x", "120", "-y", "24")
        self.expect(r"^rule_drop .* br0 +-$")

    def test_a_restart_of_the_switch_is_told(self):
        self.open("--page", "ports")
        self.expect(r"^br0 +client +up +[1-9]")
        self.switch.stop()
        # What was known stays.
        self.expect(r"^no answer since \d\d:\d\d:\d\d, trying again: ", r"^br0 +client +up +[1-9]")
        self.start_switch()
        self.expect(r"^the switch answers again \(it had not since \d\d:\d\d:\d\d\)")
        self.expect(r"; by RX P/S", r"^br0 +client +up +[1-9]")
        machine.expect("the note goes", lambda: "answers again" not in self.screen(), seen=self.screen)

    def test_signals_leave_the_terminal_as_it_was(self):
        self.open()
        self.expect(r"\[1 workers\]")
        [pid] = machine.output(["pgrep", "-P", self.tmux("list-panes", "-t", "top", "-F", "#{pane_pid}").strip(), "vsctl"]).split()
        os.kill(int(pid), signal.SIGTERM)
        self.assertNotIn("workers", self.expect("^ends 0$"))

    # Elsewhere.

    def run_top(self, *words, status=0):
        done = subprocess.run(self.switch.command("top", *words), capture_output=True, text=True, check=False, timeout=machine.PATIENCE_S)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_once_prints_a_page(self):
        said = self.run_top("--once", "--interval", "0.3", "--page", "ports").stdout
        self.assertRegex(said, r"(?m)^BRIDGE  PORT    LINK +RX P/S ")
        self.assertRegex(said, r"(?m)^br0     client  up +[1-9]")
        said = json.loads(self.run_top("--once", "--interval", "0.3", "--page", "workers", "-o", "json").stdout)
        self.assertEqual(said["page"], "workers")
        self.assertGreater(said["packets_per_second"], 0)
        self.assertGreaterEqual(said["seconds"], 0.3)
        self.assertGreater(said["rows"][0]["packets_per_second"], 0)
        said = json.loads(self.run_top("--once", "--interval", "0.1", "--page", "policies", "-o", "json").stdout)
        self.assertFalse(said["has_node"])

    def test_without_a_terminal_it_names_once(self):
        for words in ([], ["-o", "json"]):
            self.assertIn("`--once` prints the page", self.run_top(*words, status=2).stderr)
        self.assertIn("0.1 seconds at least", self.run_top("--interval", "0.01", status=2).stderr)

    def test_a_switch_that_was_never_there_is_an_error(self):
        command = [BINARIES / "vsctl", "--socket", self.directory / "none.sock", "top", "--once"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, daemon.UNREACHABLE, done.stderr)


if __name__ == "__main__":
    unittest.main()
