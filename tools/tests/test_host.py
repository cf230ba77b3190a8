"""`vswitch-agent --host` on real kernels: it applies the plan, repairs it, leaves alone what it has
not made, goes on where it was killed, and takes everything back."""

import contextlib
import itertools
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
from vsw.antrea import several  # noqa: E402
from vsw.antrea.node import both  # noqa: E402
from vsw.antrea.world import six  # noqa: E402
from vsw.host.bed import (  # noqa: E402
    CLIENT, CLUSTER_IP, EGRESS_IP, GATEWAY, GATEWAY_IP, GATEWAY_MAC, NODE, NODE_IP, NODE_NAME, NODE_PORT, OUTSIDE, OUTSIDE_IP, PODS, PORT, SERVICES, TABLE, WEB, Bed,
)

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
VIRTUAL = "169.254.0.253"
RULES = f'add table {TABLE}; add chain {TABLE} theirs {{ type filter hook input priority 0; }}'
# System calls by which an agent changes something: each of them may be its last one.
CALLS = ("sendto", "write", "rename", "unlink")


class Host(unittest.TestCase):
    """One Node; each test begins without an agent, and ends so."""

    @classmethod
    def setUpClass(cls):
        stack = cls.enterClassContext(contextlib.ExitStack())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vswitch-host.")))
        cls.bed = Bed(f"vt{os.getpid()}", BINARIES, directory, stack.callback)
        cls.bed.declare()
        cls.bed.serve(stack)
        cls.before = cls.bed.snapshot()

    def setUp(self):
        self.addCleanup(self.clear)

    def clear(self):
        """No agent, and nothing of one."""
        if self.bed.agent:
            self.bed.end()
        self.assertEqual(self.bed.once("--host-clear"), (0, ""))
        self.assertEqual(self.bed.snapshot(), self.before)

    def ip(self, *words):
        return self.bed.ip(NODE, *words)

    def repaired(self, what, break_it, is_there, item):
        """Somebody breaks something; it is there again, and told."""
        with self.subTest(what):
            self.assertTrue(is_there(), "it is there before")
            told = self.bed.problems("REPAIRED").count(item)
            break_it()
            machine.expect(f"{what}: it is there again", is_there, self.bed.log)
            machine.expect(f"{what}: it is told", lambda: self.bed.problems("REPAIRED").count(item) > told, self.bed.told)

    def test_packets_pass(self):
        self.bed.follow()
        self.assertEqual(self.bed.told()["problems"], [])
        for gateway, cluster, node, outside, egress, web in zip(*map(both, (GATEWAY_IP, CLUSTER_IP, NODE_IP, OUTSIDE_IP, EGRESS_IP, PODS[WEB][0]))):
            for what, asked, expected in (
                ("the Node to a Pod", (NODE, web, PORT), (WEB, gateway)),
                ("the Node to a ClusterIP", (NODE, cluster, PORT), (WEB, gateway)),
                ("the Node to its NodePort", (NODE, node, NODE_PORT), (WEB, gateway)),
                ("a Pod to the world, with the Node's address", (WEB, outside, PORT), (OUTSIDE, node)),
                ("a Pod to the world, with its Egress's", (CLIENT, outside, PORT), (OUTSIDE, egress)),
            ):
                with self.subTest(what, cluster=cluster):
                    self.assertEqual(self.bed.ask(*asked), expected)
            with self.subTest("the world to a NodePort", node=node):
                self.assertEqual(self.bed.ask(OUTSIDE, node, NODE_PORT)[0], WEB)

    def test_what_somebody_breaks_is_repaired_and_told(self):
        self.bed.follow()
        has = lambda *words: lambda: words[-1] in self.ip(*words[:-1])  # noqa: E731
        nft = lambda: self.bed.run(NODE, "nft", "list", "ruleset")  # noqa: E731
        via = f"route {SERVICES} via {VIRTUAL} dev {GATEWAY} onlink"
        self.repaired("a route", lambda: self.ip("route", "del", SERVICES), has("route", SERVICES), via)
        via6 = f"route {six(SERVICES)} via fc01::aabb:ccdd:eeff dev {GATEWAY} onlink"
        self.repaired("a route of IPv6", lambda: self.ip("-6", "route", "del", six(SERVICES)), has("-6", "route", six(SERVICES)), via6)
        self.repaired("nftables' table", lambda: self.bed.run(NODE, "nft", "delete", "table", *TABLE.split()),
                      lambda: "vswitch-agent" in nft(), f"table {TABLE}")
        self.repaired("a rule in it", lambda: self.bed.run(NODE, "nft", "flush", "chain", *TABLE.split(), "sources"),
                      lambda: "masquerade" in nft(), f"table {TABLE}")
        self.repaired("an address", lambda: self.ip("address", "del", f"{GATEWAY_IP}/24", "dev", GATEWAY),
                      has("address", "show", "dev", GATEWAY, f"{GATEWAY_IP}/24"), f"address {GATEWAY_IP}/24 dev {GATEWAY}")
        self.repaired("a neighbour", lambda: self.ip("neigh", "del", VIRTUAL, "dev", GATEWAY),
                      has("neigh", "show", "nud", "permanent", VIRTUAL), f"neighbour {VIRTUAL} dev {GATEWAY} lladdr aa:bb:cc:dd:ee:ff permanent")
        self.repaired("the gateway's state", lambda: self.ip("link", "set", GATEWAY, "down"),
                      lambda: f"{GATEWAY_IP}/24" in self.ip("address", "show", "dev", GATEWAY, "up") and SERVICES in self.ip("route"),
                      f"link {GATEWAY} address {GATEWAY_MAC} up")
        self.repaired("a value", lambda: self.bed.run(NODE, "sysctl", "-qw", "net.ipv4.ip_forward=0"),
                      lambda: self.bed.run(NODE, "sysctl", "-n", "net.ipv4.ip_forward").strip() == "1", "sysctl net/ipv4/ip_forward = 1")
        self.assertEqual([one for one in self.bed.told()["problems"] if one["code"] != "REPAIRED"], [])

    def test_what_somebody_else_made_stays_and_is_told(self):
        self.ip("route", "add", SERVICES, "via", OUTSIDE_IP)
        self.addCleanup(self.bed.run, NODE, "sh", "-c", f"ip route del {SERVICES} via {OUTSIDE_IP} || true")
        # With another MAC address a link loses all its neighbours.
        mac = json.loads(self.ip("-j", "link", "show", "dev", GATEWAY))[0]["address"]
        self.ip("link", "set", GATEWAY, "address", GATEWAY_MAC)
        self.addCleanup(self.ip, "link", "set", GATEWAY, "address", mac)
        self.ip("neigh", "add", VIRTUAL, "lladdr", "02:00:00:00:00:99", "dev", GATEWAY, "nud", "permanent")
        self.addCleanup(self.bed.run, NODE, "sh", "-c", f"ip neigh del {VIRTUAL} dev {GATEWAY} || true")
        self.bed.follow()
        foreign = [f"neighbour {VIRTUAL} dev {GATEWAY} lladdr aa:bb:cc:dd:ee:ff permanent", f"route {SERVICES} via {VIRTUAL} dev {GATEWAY} onlink"]
        self.assertEqual(self.bed.problems("FOREIGN"), foreign)
        self.assertIn(f"via {OUTSIDE_IP}", self.ip("route", "show", SERVICES))
        self.assertEqual(self.bed.ask(NODE, six(CLUSTER_IP)), (WEB, six(GATEWAY_IP)), "the rest is applied")
        # What is out of the way makes place.
        self.ip("route", "del", SERVICES, "via", OUTSIDE_IP)
        self.ip("neigh", "del", VIRTUAL, "dev", GATEWAY)
        machine.expect("the agent's are there", lambda: not self.bed.problems("FOREIGN"), self.bed.told)
        self.assertEqual(self.bed.ask(NODE, CLUSTER_IP, PORT), (WEB, GATEWAY_IP))

    def test_an_equal_thing_of_somebody_else_is_right_and_stays(self):
        self.ip("address", "add", f"{GATEWAY_IP}/24", "dev", GATEWAY)
        self.addCleanup(self.ip, "address", "del", f"{GATEWAY_IP}/24", "dev", GATEWAY)
        self.ip("route", "add", VIRTUAL, "dev", GATEWAY)
        mine = self.ip("route", "show", VIRTUAL)
        self.bed.follow()
        self.assertEqual(self.bed.told()["problems"], [])
        self.bed.end()
        self.assertEqual(self.bed.once("--host-clear"), (0, ""))
        self.assertIn(f"{GATEWAY_IP}/24", self.ip("address", "show", "dev", GATEWAY))
        self.assertEqual(self.ip("route", "show", VIRTUAL), mine)
        self.ip("route", "del", VIRTUAL)

    def test_a_table_of_somebody_else_stays(self):
        self.bed.run(NODE, "nft", RULES)
        self.addCleanup(self.bed.run, NODE, "sh", "-c", f"nft delete table {TABLE} || true")
        theirs = self.bed.run(NODE, "nft", "list", "ruleset")
        self.bed.follow()
        self.assertEqual(self.bed.problems("FOREIGN"), [f"table {TABLE}"])
        self.bed.end()
        self.assertEqual(self.bed.once("--host-clear"), (0, ""))
        self.assertEqual(self.bed.run(NODE, "nft", "list", "ruleset"), theirs)
        self.bed.run(NODE, "nft", "delete", "table", *TABLE.split())

    def test_what_is_not_planned_any_more_goes(self):
        self.bed.follow()
        address = f"{EGRESS_IP}/32"
        self.assertIn(address, self.ip("address"))
        self.addCleanup(self.bed.declare)
        self.bed.declare(egress=False, proxyAll=False)
        machine.expect("the Egress IP goes", lambda: address not in self.ip("address"), self.bed.log)
        rules = lambda: self.bed.run(NODE, "nft", "list", "ruleset")  # noqa: E731
        machine.expect("its rules, and those of NodePorts, go", lambda: "snat" not in rules() and "dnat" not in rules(), rules)
        self.assertIn(SERVICES, self.ip("route"))

    def test_the_plan_is_printed_and_nothing_changes(self):
        status, text = self.bed.once("--host-plan")
        self.assertEqual(status, 0)
        self.assertIn(f"route {SERVICES} via {VIRTUAL} dev {GATEWAY} onlink", text)
        self.assertIn(f"# generation {self.bed.plan()['generation']}, complete", text)
        self.assertEqual(self.bed.snapshot(), self.before)

    def test_without_nft_the_rest_is_applied(self):
        path = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-host.")))
        argv = self.bed.argv("--host", "--once")
        command = [*argv[:4], "env", f"PATH={path}", *argv[4:]]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=machine.PATIENCE_S)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.bed.problems("NFT"), [f"table {TABLE}"])
        self.assertIn("there is no nft(8); install nftables", done.stderr)
        self.assertEqual(self.bed.ask(NODE, CLUSTER_IP, PORT), (WEB, GATEWAY_IP))

    def test_without_the_capability_everything_is_told(self):
        argv = self.bed.argv("--host", "--once")
        command = [*argv[:4], "setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", *argv[4:]]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=machine.PATIENCE_S)
        self.assertEqual(done.returncode, 1)
        refused = self.bed.problems("PERMISSION")
        for item in (f"route {VIRTUAL}/32 dev {GATEWAY}", f"address {GATEWAY_IP}/24 dev {GATEWAY}", f"table {TABLE}"):
            self.assertIn(item, refused)
        self.assertIn("CAP_NET_ADMIN", done.stderr)

    def test_one_agent_has_the_host(self):
        self.bed.follow()
        for words in (("--host", "--once"), ("--host-clear",)):
            status, log = self.bed.once(*words)
            self.assertEqual(status, 1)
            self.assertIn("another agent with --host has it", log)

    def killed(self, *words):
        """Runs an agent that is killed at its first system call of a kind, then at its second, and
        so on; tells the kind and the number after each. (nft(8) is left alone.)"""
        argv = [str(word) for word in self.bed.argv(*words)]
        for call in CALLS:
            for number in itertools.count(1):
                inject = f"inject={call}:signal=SIGKILL:when={number}"
                command = [*argv[:4], "strace", "-qq", "-f", "-b", "execve", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject, *argv[4:]]
                if subprocess.run(command, capture_output=True, timeout=machine.PATIENCE_S).returncode not in (-9, 137):
                    break
                yield call, number

    def test_an_agent_that_is_killed_between_two_changes_knows_what_is_its_own(self):
        self.assertEqual(self.bed.once("--host", "--once")[0], 0)
        applied = self.bed.snapshot()
        self.assertEqual(self.bed.once("--host-clear"), (0, ""))
        self.assertEqual(self.bed.snapshot(), self.before)
        kills = 0
        for call, number in self.killed("--host", "--once"):
            kills += 1
            with self.subTest("killed while it applied", call=call, number=number):
                if number % 2:  # the next one finishes
                    self.assertEqual(self.bed.once("--host", "--once")[0], 0)
                    self.assertEqual(self.bed.snapshot(), applied)
                self.assertEqual(self.bed.once("--host-clear"), (0, ""))
                self.assertEqual(self.bed.snapshot(), self.before)
        self.assertEqual(self.bed.once("--host-clear"), (0, ""))
        self.assertGreater(kills, 40)

    def test_one_that_is_killed_while_it_takes_back_goes_on(self):
        self.assertEqual(self.bed.once("--host", "--once")[0], 0)
        kills = 0
        for call, number in self.killed("--host-clear"):
            kills += 1
            with self.subTest("killed while it took back", call=call, number=number):
                self.assertEqual(self.bed.once("--host-clear"), (0, ""))
                self.assertEqual(self.bed.snapshot(), self.before)
            self.assertEqual(self.bed.once("--host", "--once")[0], 0)
        self.assertGreater(kills, 20)


class Both(unittest.TestCase):
    """One agent that reads manifests and has the host."""

    def test_it_goes_on_when_the_switch_was_killed(self):
        stack = self.enterContext(contextlib.ExitStack())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vswitch-host.")))
        bed = Bed(f"vb{os.getpid()}", BINARIES, directory, stack.callback)
        bed.serve(stack)
        bed.write()
        bed.follow("--dir", bed.manifests, "--node", NODE_NAME)
        for again in (False, True):
            there = lambda: SERVICES in bed.ip(NODE, "route") and bed.switch.json("antrea", "status")["gate_open"]  # noqa: E731
            machine.expect("the host is as planned", there, bed.log)
            for address in both(CLUSTER_IP):
                self.assertEqual(bed.ask(NODE, address)[0], WEB)
            if not again:
                bed.switch.process.kill()
                bed.switch.process.wait()
                machine.expect("the gateway is gone, and told", lambda: "INTERFACE" in bed.log(), bed.log)
                bed.start(f"vc{os.getpid()}")
        bed.end()
        self.assertEqual(bed.once("--host-clear"), (0, ""))
        self.assertNotIn(SERVICES, bed.ip(NODE, "route"))


if __name__ == "__main__":
    several.main(Host)
