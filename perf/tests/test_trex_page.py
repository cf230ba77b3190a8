"""What belongs to the TRex profiles: the page, its examples, and the pipeline."""

import re
import subprocess
import sys
import tomllib
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from test_trex import CLIENT, SERVER, TREX, expected, profile, streams, world  # noqa: E402


class Pipeline(unittest.TestCase):
    def lines(self, *words):
        done = subprocess.run([TREX / "pipeline", *words], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.splitlines()

    def test_web_is_where_its_packets_go(self):
        lines = self.lines()
        self.assertEqual([line for line in lines if "set_field:0x22->reg9" in line], [], "aside")
        for group in (10, 110):
            line, = (line for line in lines if line.startswith(f"group add group_id={group},"))
            self.assertEqual(line.count("bucket="), 1)
            self.assertRegex(line, r"set_field:0x(a0a0018|fd.*24)->")

    def test_there_are_numbers_only(self):
        for line in self.lines("--ovs"):
            self.assertNotRegex(line, r'"|table[=:][A-Z]|resubmit\(,[A-Z]|^meter ')
        self.assertEqual(len(self.lines()), len(self.lines("--ovs")) + 1)


class Page(unittest.TestCase):
    def test_every_profile_and_tunable_that_it_names_is_there(self):
        page = (TREX / "README.md").read_text()
        profiles = {path.stem for path in TREX.glob("*_*.py")} - {path.stem for path in TREX.glob("vsw_*.py")}
        self.assertEqual(set(re.findall(r"\b((?:stl|astf)_\w+)\.py", page)), profiles)
        commands = re.findall(r"start -f \S*/(\w+)\.py ([^\n`]*) -t ([^\n`]*)", page)
        self.assertGreater(len(commands), 8)
        for name, options, tunables in commands:
            words = re.sub(r"<[^>]*>", "", tunables).split()
            with self.subTest(name=name, tunables=tunables):
                if name.startswith("astf"):
                    profile(name, *words)
                    continue
                for port in re.search(r"-p ([\d ]+)", options)[1].split():
                    self.assertTrue(streams(name, int(port) % 2, *words))

    def test_mac_addresses_of_the_stateful_profiles(self):
        page = (TREX / "README.md").read_text()
        mac = "([0-9a-f:]{17})"
        rows = re.findall(rf"\| `(\w+)` \| {mac}, {mac} \| {mac}, {mac} \|", page)
        self.assertEqual(rows, [(kind, *expected(kind, 4, CLIENT)[:2], *expected(kind, 4, SERVER)[:2]) for kind in ("pod", "svc", "remote")])
        configured = re.findall(rf'(?:src|dest)_mac: "{mac}"', (TREX / "trex_cfg.yaml").read_text())
        self.assertEqual(tuple(configured), rows[1][1:])

    def test_the_switch_has_the_ports_of_the_pipeline(self):
        said = tomllib.loads((TREX / "vswitchd.toml").read_text())
        bridge, = said["bridge"]
        self.assertEqual([port["number"] for port in bridge["port"]], [world.CLIENT.number, world.WEB.number])
        self.assertEqual({port["type"] for port in bridge["port"]}, {"dpdk"})


if __name__ == "__main__":
    unittest.main()
