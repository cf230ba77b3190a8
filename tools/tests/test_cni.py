"""vswitch-cni with a real switch, agent and host-local: what a runtime may ask, in whatever order,
and that nothing is left of it."""

import concurrent.futures
import contextlib
import json
import os
import random
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine, netns  # noqa: E402
from vsw.antrea import several  # noqa: E402
from vsw.cni.bed import GATEWAY_IP, NODE, Bed, addresses  # noqa: E402
from vsw.cni.plugin import HOST_LOCAL  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
MANY, AT_A_TIME = 64, 16
STEPS = 60  # of a random history
SEED = int(os.environ.get("VSWITCH_CNI_SEED", "40"))


@unittest.skipUnless((Path(HOST_LOCAL) / "host-local").exists(), "there is no host-local: tools/setup installs it")
class Cni(unittest.TestCase):
    """One Node; each test begins without Pods, and ends so."""

    @classmethod
    def setUpClass(cls):
        stack = cls.enterClassContext(contextlib.ExitStack())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vswitch-cni.")))
        cls.bed = Bed(f"vt{os.getpid()}", BINARIES, directory, stack.callback)

    def setUp(self):
        self.made = []
        self.bed.revive()
        self.addCleanup(self.clear)

    def clear(self):
        """No container, and nothing of one."""
        if self.bed.agent.poll() is not None:
            self.bed.start_agent()
        for short in self.made:
            self.assertEqual(self.bed.delete(short, False)[0], 0)
            self.bed.end(short)
        self.bed.write_cluster()
        self.bed.expect_nothing()

    def containers(self, *shorts):
        """New containers, with documents of their Pods."""
        self.bed.write_cluster([(short, f"uid-{short}", {"app": short}) for short in shorts])
        for short in shorts:
            self.made.append(short)
            self.bed.container(short)

    def added(self, short, **options):
        code, result = self.bed.add(short, f"uid-{short}", **options)
        self.assertEqual(code, 0, f"{result}\n{self.bed.log()}")
        return result

    def test_pods_reach_each_other(self):
        self.containers("web", "client")
        results = {short: self.added(short) for short in ("web", "client")}
        self.assertEqual(len(addresses(results["web"])), 2)
        machine.expect("the switch has both Pods", lambda: self.bed.pods() == 2, self.bed.log)
        for short, other in (("client", "web"), ("web", "client")):
            for address in addresses(results[other]):
                machine.expect(f"{short} reaches {address}", lambda s=short, a=address: self.bed.reaches(s, a), self.bed.log)
        self.assertEqual(self.bed.ports(), sorted(results[short]["interfaces"][0]["name"] for short in results))
        link = json.loads(self.bed.ip("web", "-j", "link", "show", "eth0"))[0]
        self.assertEqual((link["mtu"], link["address"]), (1450, results["web"]["interfaces"][1]["mac"]))

    def test_results_have_the_form_of_their_version(self):
        status, said = self.bed.plugin.run({"CNI_COMMAND": "VERSION"}, '{"cniVersion": "1.0.0"}')
        self.assertEqual((status, said["supportedVersions"]), (0, ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]))
        self.containers("web")
        for version in said["supportedVersions"]:
            result = self.added("web", version=version, mtu=1400)
            self.assertEqual(result["cniVersion"], version)
            self.assertEqual([ip.get("version") for ip in result["ips"]], ["4", "6"] if version < "1" else [None, None])
            self.assertEqual(result["interfaces"][1].get("mtu"), 1400 if version == "1.1.0" else None)
            self.assertEqual(result["interfaces"][1]["sandbox"], self.bed.path("web"))
            self.assertEqual(result["routes"][0], {"dst": "0.0.0.0/0", "gw": GATEWAY_IP})
            self.assertEqual(self.bed.delete("web", version=version)[0], 0)
        self.bed.expect_nothing()

    def test_add_twice_is_one_attachment(self):
        self.containers("web", "other")
        first = self.added("web")
        self.assertEqual(self.added("web"), first)
        code, error = self.bed.plugin.call("ADD", "web", self.bed.path("other"), pod=("default", "web", "uid-web"))
        self.assertEqual(code, 101, error)
        code, error = self.bed.plugin.call("ADD", "web", self.bed.path("web"), pod=("default", "other", ""))
        self.assertEqual(code, 101, error)
        self.assertEqual(len(self.bed.addresses_given()), 2, "what failed has no address")
        self.bed.ip("other", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        self.assertEqual(self.bed.add("other")[0], 101)
        self.assertEqual(self.added("web"), first)

    def test_del_may_come_any_number_of_times(self):
        self.containers("web")
        for options in ({}, {"with_netns": False}):
            self.added("web")
            for _ in range(3):
                self.assertEqual(self.bed.delete("web", **options)[0], 0)
            self.assertEqual(self.bed.delete("web", False)[0], 0)
            self.bed.expect_nothing()
        self.added("web")
        self.bed.end("web")
        self.assertEqual(self.bed.delete("web", False)[0], 0, "the network namespace has gone before")
        self.assertEqual(self.bed.plugin.call("DEL", "never-seen")[0], 0)

    def test_what_is_wrong_has_its_code(self):
        self.containers("web")
        file = self.bed.directory / "file"
        file.write_text("")
        node = f"/run/netns/{self.bed.names[NODE]}"
        call = self.bed.plugin.call
        for what, expected, said in (
            ("no such namespace", 3, call("ADD", "web", "/run/netns/not-there")),
            ("no namespace", 4, call("ADD", "web", str(file))),
            ("a relative path", 4, call("ADD", "web", "netns")),
            ("the Node's own", 4, call("ADD", "web", node)),
            ("another kind of namespace", 4, call("ADD", "web", "/proc/self/ns/mnt")),
            ("no id", 4, call("ADD", "../web", self.bed.path("web"))),
            ("no command", 4, call("add", "web", self.bed.path("web"))),
            ("no version", 1, call("ADD", "web", self.bed.path("web"), version="9.0.0")),
            ("a mode that is not served", 2, call("ADD", "web", self.bed.path("web"), mode="tap")),
            ("no network's name", 7, call("ADD", "web", self.bed.path("web"), name="")),
            ("no IPAM plug-in", 5, call("ADD", "web", self.bed.path("web"), path="/nowhere")),
            ("an IPAM plug-in that refuses", None, call("ADD", "web", self.bed.path("web"), ipam={"ranges": [[{"subnet": "x"}]]})),
            ("CHECK without prevResult", 7, call("CHECK", "web", self.bed.path("web"))),
            ("CHECK of an old version", 1, call("CHECK", "web", self.bed.path("web"), version="0.3.1")),
            ("GC of an old version", 1, call("GC")),
            ("STATUS of an old version", 1, call("STATUS")),
        ):
            with self.subTest(what):
                self.assertNotEqual(said[0], 0)
                if expected is not None:
                    self.assertEqual(said[0], expected, said)
        self.assertEqual(self.bed.plugin.run({"CNI_COMMAND": "ADD"}, "{")[1]["code"], 4)
        self.bed.expect_nothing()

    def check(self, short, result, **options):
        return self.bed.plugin.call("CHECK", short, self.bed.path(short), prevResult=result, **options)

    def test_check_finds_each_thing_that_is_missing(self):
        self.containers("web")
        breaks = {
            "the Node's end is down": lambda host: self.bed.ip(NODE, "link", "set", host, "down"),
            "the pair": lambda host: self.bed.ip(NODE, "link", "del", host),
            "the container's end is down": lambda host: self.bed.ip("web", "link", "set", "eth0", "down"),
            "the MAC address": lambda host: self.bed.ip("web", "link", "set", "eth0", "address", "02:00:00:00:00:99"),
            "the MTU": lambda host: self.bed.ip("web", "link", "set", "eth0", "mtu", "1300"),
            "an address": lambda host: self.bed.ip("web", "address", "flush", "dev", "eth0", "scope", "global"),
            "a route": lambda host: self.bed.ip("web", "route", "del", "default"),
            "a route of IPv6": lambda host: self.bed.ip("web", "-6", "route", "del", "default"),
            "the file": lambda host: (self.bed.state / "web:eth0.json").unlink(),
            "addresses of IPAM": lambda host: [(self.bed.data / "pods" / name).unlink() for name in self.bed.addresses_given()],
        }
        for what, break_it in breaks.items():
            with self.subTest(what):
                result = self.added("web")
                self.assertEqual(self.check("web", result), (0, None))
                break_it(result["interfaces"][0]["name"])
                code, error = self.check("web", result)
                self.assertNotEqual(code, 0, error)
                self.assertEqual(self.bed.delete("web")[0], 0)
        result = self.added("web")
        result["ips"][0]["address"] = "10.10.0.250/24"
        self.assertEqual(self.check("web", result)[0], 102, "an address that is not its own")

    def test_check_finds_a_port_that_is_missing_and_it_is_made_again(self):
        self.containers("web")
        # A port with a Pod cannot be deleted.
        code, result = self.bed.plugin.call("ADD", "web", self.bed.path("web"))
        self.assertEqual(code, 0, result)

        def is_found():
            with contextlib.suppress(machine.Failure):  # between two looks of the agent it is there or not
                self.bed.switch.vsctl("del-port", "br0", result["interfaces"][0]["name"])
            return self.check("web", result)[0] == 102

        machine.expect("CHECK finds it missing", is_found, self.bed.log)
        machine.expect("it is made again", lambda: self.check("web", result) == (0, None), self.bed.log)

    def test_ports_come_again_after_a_restart_of_switch_or_agent(self):
        self.containers("web", "client")
        results = {short: self.added(short) for short in ("web", "client")}
        target = addresses(results["web"])[0]
        machine.expect("it is reached", lambda: self.bed.reaches("client", target), self.bed.log)
        self.bed.stop_switch()
        self.bed.start_switch()
        machine.expect("it is reached after a restart of the switch", lambda: self.bed.reaches("client", target), self.bed.log)
        self.bed.stop_agent()
        self.bed.start_agent()
        machine.expect("it is reached after a restart of the agent", lambda: self.bed.reaches("client", target), self.bed.log)
        for short, result in results.items():
            self.assertEqual(self.check(short, result)[0], 0)
            self.assertEqual(self.added(short), result)

    def test_while_the_agent_is_away(self):
        self.containers("web", "gone", "late")
        for short in ("web", "gone"):
            self.added(short)
        self.bed.stop_agent()
        code, error = self.bed.add("late")
        self.assertEqual(code, 11, error)
        self.assertEqual(self.bed.plugin.call("STATUS", version="1.1.0")[0], 50)
        self.assertEqual(self.bed.delete("web")[0], 0)
        self.assertEqual(self.bed.delete("web", False)[0], 0)
        self.assertEqual(len(self.bed.addresses_given()), 2, "those of the other one")
        self.bed.end("gone")
        self.assertEqual(len(self.bed.ports()), 2)
        self.bed.start_agent()

        def is_clear():
            return not (self.bed.ports() or self.bed.links() or self.bed.pods())

        machine.expect("the agent has removed both", is_clear, self.bed.left)
        self.assertEqual(self.bed.delete("gone", False)[0], 0)
        self.assertEqual(self.added("late")["interfaces"][1]["name"], "eth0")

    def test_after_a_reboot(self):
        self.containers("web", "again")
        self.added("web")
        self.bed.stop_agent()
        self.bed.stop_switch()
        self.bed.end("web")
        machine.expect("the pair has gone with its namespace", lambda: self.bed.links() == [], self.bed.links)
        self.bed.start_switch()
        self.bed.start_agent()
        machine.expect("the attachment has gone", lambda: self.bed.files()[0] == [], self.bed.files)
        self.assertEqual(self.bed.delete("web", False)[0], 0)
        self.added("again")

    def test_gc_removes_what_is_old_and_not_used(self):
        self.containers("used", "young", "old")
        for short in ("used", "young", "old"):
            self.added(short)
        self.bed.stop_agent()
        for short in ("used", "old"):
            file = self.bed.state / f"{short}:eth0.json"
            file.write_text(json.dumps(json.loads(file.read_text()) | {"created": 1}))
        self.bed.start_agent()
        valid = [{"containerID": "used", "ifname": "eth0"}]

        def gc(valid, **more):
            return self.bed.plugin.call("GC", version="1.1.0", **{"cni.dev/valid-attachments": valid}, **more)

        self.assertEqual(gc([], name="other")[0], 0)
        self.assertEqual(len(self.bed.files()[0]), 3, "of another network")
        self.assertEqual(gc(valid)[0], 0)
        self.assertEqual(self.bed.files()[0], ["used:eth0.json", "young:eth0.json"])
        self.assertEqual(self.bed.delete("old")[0], 0)

    def test_calls_in_any_order(self):
        shorts = ("a", "b", "c")
        self.containers(*shorts)
        chance, there = random.Random(SEED), {}
        for step in range(STEPS):
            short, what = chance.choice(shorts), chance.choice(("add", "add", "delete", "delete", "check", "agent"))
            with self.subTest(seed=SEED, step=step, short=short, what=what):
                if what == "add":
                    result = self.added(short)
                    self.assertEqual(there.setdefault(short, result), result)
                elif what == "delete":
                    self.assertEqual(self.bed.delete(short, chance.random() < 0.5)[0], 0)
                    there.pop(short, None)
                elif what == "check" and short in there:
                    self.assertEqual(self.check(short, there[short]), (0, None))
                elif what == "agent" and chance.random() < 0.3:
                    self.bed.stop_agent()
                    self.bed.start_agent()
                self.assertEqual(self.bed.files()[0], sorted(f"{one}:eth0.json" for one in there))
                self.assertEqual(len(self.bed.addresses_given()), 2 * len(there))
                self.assertEqual(len(self.bed.links()), len(there))
                machine.expect("each has its port", lambda: len(self.bed.ports()) == len(there), self.bed.ports)

    def test_many_at_a_time_leave_nothing(self):
        shorts = [f"p{number}" for number in range(MANY)]
        self.bed.write_cluster([(short, f"uid-{short}", {}) for short in shorts])

        def one(short):
            path = self.bed.container(short)
            code, result = self.bed.add(short, f"uid-{short}")
            self.assertEqual(code, 0, result)
            netns.ip("-n", self.bed.names[short], "link", "show", "eth0")
            self.assertEqual(self.bed.plugin.call("DEL", short, path)[0], 0)
            self.bed.end(short)
            return addresses(result)

        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            given = list(pool.map(one, shorts))
        self.assertEqual(len(given), MANY)
        self.bed.expect_nothing()


if __name__ == "__main__":
    several.main(Cni)
