"""tools/uplink: what a card has goes to another interface and back, all of it or nothing."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

UPLINK = Path(__file__).resolve().parents[1] / "uplink"
MAC = "02:00:00:00:77:01"
ROUTE = "10.9.0.0/16 via 192.168.77.254 metric 7"


class Uplink(unittest.TestCase):
    """In a network namespace with a card `nic` and what would be the switch's port, `port`."""

    def setUp(self):
        self.name = f"vt{os.getpid()}-uplink"
        run("ip", "netns", "add", self.name)
        self.addCleanup(run, "ip", "netns", "delete", self.name)
        directory = tempfile.TemporaryDirectory(prefix="vswitch-uplink-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        for link in ("nic", "port"):
            self.ip("link", "add", link, "type", "veth", "peer", "name", f"{link}-end")
            self.ip("link", "set", "dev", f"{link}-end", "up")
        self.ip("link", "set", "dev", "nic", "address", MAC, "up")
        self.ip("address", "add", "192.168.77.1/24", "dev", "nic")
        self.ip("address", "add", "fd77::1/64", "dev", "nic", "nodad")
        self.ip("route", "add", "default", "via", "192.168.77.254")
        self.ip("route", "add", *ROUTE.split(), "dev", "nic")

    def ip(self, *words, fails=False):
        return run("ip", "-n", self.name, *words, fails=fails)

    def uplink(self, *words, fails=False):
        environment = {**os.environ, "VSWITCH_UPLINK_DIR": self.directory}
        return run("ip", "netns", "exec", self.name, str(UPLINK), *words, fails=fails, env=environment)

    def has(self, interface):
        """The addresses and routes of an interface."""
        addresses = self.ip("-o", "address", "show", "dev", interface, "scope", "global")
        routes = self.ip("route", "show", "dev", interface) + self.ip("-6", "route", "show", "dev", interface)
        found = sorted(line.split()[3] for line in addresses.splitlines())
        return found, sorted(" ".join(line.split()) for line in routes.splitlines() if " via " in line)

    WHOLE = (["192.168.77.1/24", "fd77::1/64"], ["10.9.0.0/16 via 192.168.77.254 metric 7", "default via 192.168.77.254"])
    NOTHING = ([], [])

    def test_there_and_back(self):
        self.uplink("take", "nic", "port")
        self.assertEqual((self.has("nic"), self.has("port")), (self.NOTHING, self.WHOLE))
        self.assertIn(MAC, self.ip("link", "show", "dev", "port"))
        self.uplink("take", "nic", "port")
        self.assertEqual((self.has("nic"), self.has("port")), (self.NOTHING, self.WHOLE), "taken twice")
        self.uplink("back", "nic")
        self.assertEqual((self.has("nic"), self.has("port")), (self.WHOLE, self.NOTHING))
        self.assertNotIn("NOARP", self.ip("link", "show", "dev", "nic"))

    def test_what_cannot_be_given_is_given_back(self):
        """A file that says more than the card has: what happens when the kernel refuses a route
        half way."""
        self.uplink("save", "nic")
        saved = Path(self.directory, "nic")
        # The card has nothing any more, so that what was saved counts.
        for family in ("-4", "-6"):
            self.ip(family, "address", "flush", "dev", "nic", "scope", "global")
        lines = saved.read_text().splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("route4"))
        lines.insert(at, "route4 10.8.0.0/16 via 203.0.113.9")
        saved.write_text("\n".join(lines) + "\n")
        said = self.uplink("take", "nic", "port", fails=True)
        self.assertIn("cannot have: route4 10.8.0.0/16 via 203.0.113.9", said)
        self.assertEqual((self.has("nic"), self.has("port")), (self.WHOLE, self.NOTHING), said)
        self.assertTrue(saved.exists(), "what was not given back is still to be read")

    def test_routes_over_several_hops_are_refused_before_anything_is_moved(self):
        hops = ["nexthop", "via", "192.168.77.253", "dev", "nic", "nexthop", "via", "192.168.77.252", "dev", "nic"]
        self.ip("route", "add", "10.7.0.0/16", *hops)
        said = self.uplink("take", "nic", "port", fails=True)
        self.assertIn("several next hops", said)
        self.assertEqual((self.has("nic"), self.has("port")), (self.WHOLE, self.NOTHING), said)

    def test_routes_with_marks_of_the_kernel_and_of_daemons(self):
        self.ip("nexthop", "add", "id", "12", "via", "192.168.77.254", "dev", "nic")
        self.ip("route", "add", "10.6.0.0/16", "nhid", "12")
        self.uplink("take", "nic", "port")
        self.assertIn("10.6.0.0/16 via 192.168.77.254", self.has("port")[1])
        self.uplink("back", "nic")
        self.assertIn("10.6.0.0/16 via 192.168.77.254", self.has("nic")[1])


def run(*words, fails=False, env=None):
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=env)
    said = done.stdout + done.stderr
    if (done.returncode != 0) != fails:
        raise AssertionError(f"{' '.join(words)}: status {done.returncode}: {said}")
    return said


if __name__ == "__main__":
    unittest.main()
