"""Further interfaces of Pods, as Multus asks vswitch-cni for them: veth pairs, and vhost-user
sockets with a real application of DPDK behind them."""

import contextlib
import json
import os
import random
import stat
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.antrea import several  # noqa: E402
from vsw.antrea.manifests import document  # noqa: E402
from vsw.cni import guest  # noqa: E402
from vsw.cni.bed import GATEWAY_IP, Bed, addresses  # noqa: E402
from vsw.cni.plugin import HOST_LOCAL  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
STEPS = 40  # of a random history
SEED = int(os.environ.get("VSWITCH_CNI_SEED", "40"))
EXTRA = "10.20.0.0/24"
OWNER = (107, 108)
VHOST = {"mode": "vhost-user", "queues": 2, "socketOwner": f"{OWNER[0]}:{OWNER[1]}"}
DEVINFO = Path("/run/k8s.cni.cncf.io/devinfo/cni")  # the specification has fixed it


def deny(app):
    """A NetworkPolicy that lets nothing in."""
    spec = {"podSelector": {"matchLabels": {"app": app}}, "policyTypes": ["Ingress"]}
    return document("networking.k8s.io/v1", "NetworkPolicy", f"deny-{app}", "default", spec=spec)


def mode_of(path):
    """Owner, group and rights of a directory."""
    found = path.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


@unittest.skipUnless((Path(HOST_LOCAL) / "host-local").exists(), "there is no host-local: tools/setup installs it")
class CniFurther(unittest.TestCase):
    """One Node; each test begins without Pods, and ends so."""

    @classmethod
    def setUpClass(cls):
        stack = cls.enterClassContext(contextlib.ExitStack())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vswitch-cni.")))
        cls.bed = Bed(f"vt{os.getpid()}", BINARIES, directory, stack.callback)
        cls.extra = {"name": "extra", "ipam": {"dataDir": str(cls.bed.data), "ranges": [[{"subnet": EXTRA}]]}}

    def setUp(self):
        self.made = []
        self.bed.revive()
        self.addCleanup(self.clear)

    def clear(self):
        """No container, and nothing of one."""
        for short in self.made:
            for interface, options in (("net2", {}), ("net1", {}), ("net1", self.extra)):
                self.assertEqual(self.bed.delete(short, False, interface=interface, **options)[0], 0)
            self.assertEqual(self.bed.delete(short, False)[0], 0)
            self.bed.end(short)
        self.bed.write_cluster()
        self.bed.expect_nothing()

    def cluster(self, *policies):
        self.bed.write_cluster([(short, f"uid-{short}", {"app": short}) for short in self.made], policies)

    def containers(self, *shorts):
        """New containers, with documents of their Pods and an interface each."""
        self.made.extend(shorts)
        self.cluster()
        return {short: self.bed.container(short) and self.added(short) for short in shorts}

    def added(self, short, **options):
        code, result = self.bed.add(short, f"uid-{short}", **options)
        self.assertEqual(code, 0, f"{result}\n{self.bed.log()}")
        return result

    def refused(self, code, short, **options):
        found, error = self.bed.add(short, f"uid-{short}", **options)
        self.assertEqual(found, code, error)

    def check(self, short, result, **options):
        return self.bed.plugin.call("CHECK", short, self.bed.path(short), prevResult=result, **options)

    def reach(self, what, short, *targets, expected=True):
        for target in targets:
            machine.expect(f"{short}: {target} {what}", lambda t=target: self.bed.reaches(short, t) == expected, self.bed.log)

    def test_each_interface_is_bound_by_the_pods_policies(self):
        own = self.containers("web", "client")
        further = {short: self.added(short, interface="net1", **self.extra) for short in self.made}
        self.assertEqual(further["web"]["routes"], [], "a further interface has no default route")
        self.assertEqual(json.loads(self.bed.ip("web", "-j", "route", "show", "default"))[0]["dev"], "eth0")
        (target,) = addresses(further["web"])
        self.reach("answers", "client", target)
        machine.expect("each interface is a Pod of the switch", lambda: self.bed.pods() == 4, self.bed.told)
        self.cluster(deny("web"))
        self.reach("is denied", "client", target, expected=False)
        self.cluster()
        self.reach("answers again", "client", target)
        self.assertEqual(self.added("web", interface="net1", **self.extra), further["web"], "ADD twice")
        self.assertEqual(self.check("web", further["web"], interface="net1", **self.extra), (0, None))
        self.bed.ip("web", "link", "set", "net1", "down")
        self.assertEqual(self.check("web", further["web"], interface="net1", **self.extra)[0], 102)
        self.assertEqual(self.bed.delete("web", interface="net1", **self.extra)[0], 0)
        machine.expect("its Pod has gone", lambda: self.bed.pods() == 3, self.bed.told)
        self.reach("answers, without the further interface", "client", *addresses(own["web"]))
        routes = self.extra | {"ipam": self.extra["ipam"] | {"routes": [{"dst": "10.30.0.0/16", "gw": GATEWAY_IP}]}}
        self.assertEqual(self.added("web", interface="net1", **routes)["routes"], [{"dst": "10.30.0.0/16", "gw": GATEWAY_IP}])
        self.bed.stop_agent()
        self.bed.start_agent()
        machine.expect("all are there after a restart of the agent", lambda: self.bed.pods() == 4, self.bed.told)

    def test_as_many_interfaces_as_are_served(self):
        self.containers("web")
        names = [f"net{number}" for number in range(1, 10)]
        for name in names[:8]:
            self.added("web", interface=name, **self.extra)
        self.refused(101, "web", interface=names[8], **self.extra)
        self.assertEqual(len(self.bed.links()), 9)
        for name in reversed(names[:8]):
            self.assertEqual(self.bed.delete("web", interface=name, **self.extra)[0], 0)

    @unittest.skipIf(guest.is_missing(), "there is no dpdk-testpmd: tools/setup installs it")
    def test_an_application_behind_a_socket(self):
        self.containers("app", "client")
        file = DEVINFO / f"vswitch-test-{os.getpid()}.json"
        self.addCleanup(lambda: file.unlink(missing_ok=True))
        options = VHOST | {"interface": "net1", "runtimeConfig": {"CNIDeviceInfoFile": str(file)}}
        result = self.added("app", **options)
        directory = self.bed.sockets / "uid-app" / "net1"
        told = {"type": "vhost-user", "version": "1.1.0", "vhost-user": {"mode": "server", "path": str(directory / "net.sock")}}
        self.assertEqual(json.loads(file.read_text()), told)
        self.assertEqual(mode_of(directory), (*OWNER, 0o770))
        (interface,) = result["interfaces"]
        self.assertEqual((interface["name"], interface["sandbox"]), ("net1", self.bed.path("app")))
        self.assertNotIn("net1", self.bed.ip("app", "link", "show"), "there is no interface of the kernel")
        application = guest.Guest(directory / "net.sock", interface["mac"], self.bed.directory / "testpmd.log", self.addCleanup)
        target = addresses(result)[0]
        self.reach("answers", "client", target)
        self.cluster(deny("app"))
        self.reach("is denied", "client", target, expected=False)
        self.cluster()
        self.reach("answers again", "client", target)
        self.bed.stop_switch()
        self.bed.start_switch()
        self.reach("answers after a restart of the switch", "client", target)
        self.bed.stop_agent()
        self.bed.start_agent()
        self.reach("answers after a restart of the agent", "client", target)
        application.end()
        guest.Guest(directory / "net.sock", interface["mac"], self.bed.directory / "testpmd.log", self.addCleanup)
        self.reach("answers after a restart of the application", "client", target)
        self.assertEqual(self.added("app", **options), result, "ADD twice")
        self.assertEqual(self.bed.delete("app", **options)[0], 0)
        self.assertEqual((directory.exists(), file.exists()), (False, False))
        self.reach("does not answer", "client", target, expected=False)

    def test_check_finds_what_is_missing_of_a_socket(self):
        self.containers("app")
        directory = self.bed.sockets / "uid-app" / "net1"
        breaks = {
            "the owner": lambda: os.chown(directory, 1, OWNER[1]),
            "the group": lambda: os.chown(directory, OWNER[0], 1),
            "the rights": lambda: directory.chmod(0o777),
            "the directory": directory.rmdir,
            "a link in its place": lambda: (directory.rmdir(), directory.symlink_to("/tmp")),
            "the file": lambda: (self.bed.state / "app:net1.json").unlink(),
        }
        for what, break_it in breaks.items():
            with self.subTest(what):
                result = self.added("app", interface="net1", **VHOST)
                self.assertEqual(self.check("app", result, interface="net1", **VHOST), (0, None))
                break_it()
                self.assertNotEqual(self.check("app", result, interface="net1", **VHOST)[0], 0)
                if directory.is_symlink():
                    directory.unlink()
                self.assertEqual(self.bed.delete("app", interface="net1", **VHOST)[0], 0)

    def test_a_device_has_one_pod_and_is_emptied(self):
        self.containers("app", "other")
        device = self.bed.devices / "vhost-3"
        (device / "left" / "deep").mkdir(parents=True)
        (device / "net.sock").write_text("of before")
        (device / "link").symlink_to(self.bed.directory)
        options = VHOST | {"interface": "net1", "deviceID": "vhost-3"}
        result = self.added("app", version="1.1.0", **options)
        self.assertEqual(result["interfaces"][0]["socketPath"], str(device / "net.sock"))
        self.assertEqual((list(device.iterdir()), mode_of(device)), ([], (*OWNER, 0o770)))
        self.refused(101, "other", **options)
        self.assertEqual(len(self.bed.ports()), 3)
        (device / "net.sock").write_text("in use")
        self.assertEqual(self.added("app", version="1.1.0", **options), result)
        self.assertEqual((device / "net.sock").read_text(), "in use", "ADD twice empties nothing")
        self.refused(101, "app", **(options | {"queues": 1}))
        self.assertEqual(self.bed.delete("app", **options)[0], 0)
        self.assertEqual((list(device.iterdir()), mode_of(device)), ([], (0, 0, 0o700)))
        self.added("other", **options)
        self.assertEqual(self.bed.delete("other", **options)[0], 0)

    def test_what_is_wrong_of_a_socket_has_its_code(self):
        self.containers("app")
        for code, more in (
            (7, {"interface": "eth0"}),
            (7, {"deviceID": "../vhost-3"}),
            (7, {"deviceID": "x" * 100}),
            (7, {"queues": 65}),
            (7, {"socketOwner": "qemu"}),
            (7, {"runtimeConfig": {"CNIDeviceInfoFile": "/etc/vswitch-test.json"}}),
            (2, {"mode": "memif"}),
        ):
            with self.subTest(more):
                self.refused(code, "app", **(VHOST | {"interface": "net1"} | more))
        call = self.bed.plugin.call
        self.assertEqual(call("ADD", "app", self.bed.path("app"), "net1", pod=("default", "app", ""), **VHOST)[0], 4, "no UID")
        self.assertEqual(call("ADD", "app", self.bed.path("app"), "net1", pod=("default", "app", "../x"), **VHOST)[0], 7)
        self.assertEqual(self.bed.in_directories(), [])

    def test_while_the_agent_is_away(self):
        self.containers("app", "gone")
        for short in self.made:
            self.added(short, interface="net1", **VHOST)
        self.bed.stop_agent()
        self.assertEqual(self.bed.delete("app", interface="net1", **VHOST)[0], 0)
        self.bed.end("gone")
        self.bed.start_agent()
        machine.expect("the agent has removed both", lambda: self.bed.in_directories() == [] and len(self.bed.ports()) == 1, self.bed.left)
        self.assertEqual(self.bed.files()[0], ["app:eth0.json"])

    def test_a_socket_stays_while_its_namespace_cannot_be_seen(self):
        self.containers("app")
        self.added("app", interface="net1", **VHOST)
        path = Path(self.bed.path("app"))
        machine.output(["umount", path])  # as for an agent whose container does not have the mount
        machine.expect("the pair has gone with the namespace", lambda: self.bed.files()[0] == ["app:net1.json"], self.bed.files)
        self.assertEqual(len(self.bed.ports()), 1)
        path.unlink()
        machine.expect("the socket has gone with the path", lambda: self.bed.files()[0] == [], self.bed.files)

    def test_gc_leaves_interfaces_of_containers_that_are_there(self):
        self.containers("used", "old")
        for short in self.made:
            self.added(short, interface="net1", **VHOST)
        self.bed.stop_agent()
        for file in self.bed.state.glob("*.json"):
            file.write_text(json.dumps(json.loads(file.read_text()) | {"created": 1}))
        self.bed.start_agent()
        valid = [{"containerID": "used", "ifname": "eth0"}]
        self.assertEqual(self.bed.plugin.call("GC", version="1.1.0", **{"cni.dev/valid-attachments": valid})[0], 0)
        self.assertEqual(self.bed.files()[0], ["used:eth0.json", "used:net1.json"])
        self.assertEqual(self.bed.in_directories(), ["pods/uid-used"])
        for interface in ("net1", "eth0"):
            self.assertEqual(self.bed.delete("old", interface=interface)[0], 0)

    def test_calls_in_any_order(self):
        kinds = {"eth0": {}, "net1": self.extra, "net2": VHOST}
        self.containers("a", "b")
        chance = random.Random(SEED)
        there = {(short, "eth0"): self.added(short) for short in self.made}
        for step in range(STEPS):
            short, interface = chance.choice(self.made), chance.choice(list(kinds))
            what = chance.choice(("add", "add", "delete", "delete", "check", "agent"))
            options = kinds[interface] | {"interface": interface}
            with self.subTest(seed=SEED, step=step, short=short, interface=interface, what=what):
                if what == "add":
                    result = self.added(short, **options)
                    self.assertEqual(there.setdefault((short, interface), result), result)
                elif what == "delete":
                    self.assertEqual(self.bed.delete(short, chance.random() < 0.5, **options)[0], 0)
                    there.pop((short, interface), None)
                elif what == "check" and (short, interface) in there:
                    self.assertEqual(self.check(short, there[short, interface], **options), (0, None))
                elif what == "agent" and chance.random() < 0.3:
                    self.bed.stop_agent()
                    self.bed.start_agent()
                self.assertEqual(self.bed.files()[0], sorted(f"{one}:{of}.json" for one, of in there))
                self.assertEqual(len(self.bed.links()), sum(of != "net2" for _, of in there))
                self.assertEqual(self.bed.in_directories(), sorted(f"pods/uid-{one}" for one, of in there if of == "net2"))
                machine.expect("each has its port", lambda: len(self.bed.ports()) == len(there), self.bed.ports)
                machine.expect("each is a Pod of the switch", lambda: self.bed.pods() == len(there), self.bed.told)


if __name__ == "__main__":
    several.main(CniFurther)
