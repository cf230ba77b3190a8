"""Two Nodes whose Pods a real container runtime makes, by an API server and nothing else.
tools/demo --cluster shows what works; here many Pods come and go, and programs go away."""

import concurrent.futures
import contextlib
import os
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import daemon, machine  # noqa: E402
from vsw.antrea import several, traffic  # noqa: E402
from vsw.cni.cri import NEEDED  # noqa: E402
from vsw.gateway.world import HOSTS, ONE, TWO  # noqa: E402
from vsw.kube.api import Api  # noqa: E402
from vsw.kube.bed import Bed  # noqa: E402
from vsw.kube.churn import HELLO, PORT, Churn, again, difference, flows, left  # noqa: E402
from vsw.kube.scenes import Scenes, policy  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
MISSING = [name for name in (*NEEDED, "kubectl") if not shutil.which(name)]
MANY, DISTURBED = 200, 32
# Seconds that the API server is away, for who wants to see it with their own eyes.
AWAY_S = float(os.environ.get("VSWITCH_AWAY_S", "0"))
FRIEND = {"role": "friend"}
API_SERVICE = "10.96.0.1"


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} missing: tools/setup installs them")
class CniCluster(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        stack, tag = cls.enterClassContext(contextlib.ExitStack()), f"vt{os.getpid()}"
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vswitch-cluster.")))
        cls.bed = Bed(tag, BINARIES, directory, stack, lambda _: None)
        api = Api(BINARIES, cls.bed.names["outside"], directory, stack)
        cls.bed.use(api)
        cores = machine.cores()
        for host in HOSTS:
            dpdk = {"worker_cores": [cores[-host.number % len(cores)]], "main_core": cores[0], "memory_mb": 256, "hugepages": False,
                    "file_prefix": f"{tag}.{host.number}"}
            cls.bed.start_switch(host, dpdk, daemon.IDLE_SLEEP_US)
        for host in HOSTS:
            cls.bed.start_agent(host)
            cls.bed.start_runtime(host)
        for host in HOSTS:
            cls.bed.wait_ready(host)
            # A real API server makes a Service of its own, some time after its start.
            knows = lambda host=host: any(f"nw_dst={API_SERVICE}," in flow for flow in flows(cls.bed.switches[host]))  # noqa: E731
            machine.expect(f"{host.name} knows the API server's Service", lambda knows=knows: not api.is_real or knows())

    def setUp(self):
        self.before = {host: left(self.bed, host) for host in HOSTS}
        self.scenes = Scenes(self.bed)

    def nothing_is_left(self):
        """Each Node is what it was before."""
        for host in HOSTS:
            now = lambda host=host: left(self.bed, host)  # noqa: E731
            seen = lambda host=host, now=now: difference(self.before[host], now())  # noqa: E731
            machine.expect(f"nothing is left on {host.name}", lambda host=host, now=now: now() == self.before[host], seen)

    def churned(self, count, prefix, visit, disturb=lambda _: None):
        """Pods come and go, some at a time; `disturb` is called meanwhile."""
        servers = {}
        for host in HOSTS:
            self.scenes.make(host, f"{prefix}-server-{host.number}", {}, serves=True)
            servers[host] = self.scenes.address(f"{prefix}-server-{host.number}")
        churn = Churn(self.bed, servers)
        pods, began = churn.declare(count, prefix), time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(churn.run, pods, visit(churn))
            # What this thread starts ends with it.
            disturb(churn)
            running.result()
        took = time.monotonic() - began
        churn.sweep()
        churn.forget()
        for host in HOSTS:
            self.bed.kubelets[host].remove(f"{prefix}-server-{host.number}")
        self.nothing_is_left()
        print(f"{count} Pods in {took:.1f} s", *churn.report(), sep="\n  ", flush=True)
        self.assertEqual(churn.failed, {})

    def test_many_pods_leave_nothing(self):
        self.churned(MANY, "many", lambda churn: churn.visit)

    def kill_agent(self):
        """The agent of node-1 dies, and starts again."""
        self.bed.agents[ONE].kill()
        self.bed.agents[ONE].wait()
        self.bed.start_agent(ONE)

    def test_a_killed_switch_and_a_killed_agent_leave_nothing(self):
        def disturb(churn):
            machine.expect("some Pods have gone", lambda: churn.gone >= DISTURBED // 4)
            self.kill_agent()
            machine.expect("more Pods have gone", lambda: churn.gone >= DISTURBED // 2)
            self.bed.switches[ONE].process.kill()
            self.bed.switches[ONE].process.wait()
            self.bed.launch_switch(ONE)

        self.churned(DISTURBED, "disturbed", lambda churn: churn.insist, disturb)
        self.bed.wait_ready(ONE)

    def remade(self, name):
        """The sandbox of a Pod of node-1 has crashed: the same Pod gets another one."""
        kubelet = self.bed.kubelets[ONE]
        uid = kubelet.sandboxes["default", name].uid
        kubelet.sandboxes.pop(("default", name)).remove()
        self.scenes.found(ONE, name, again(lambda: kubelet.start(name, uid)))
        return self.scenes.address(name)

    def holds(self, pod, is_friend, server="web-1"):
        """A policy is in force for a Pod, at a server of the same Node."""
        if is_friend:
            self.assertEqual(self.scenes.heard(pod, self.scenes.address(server), PORT)[0], server)
        else:
            self.assertTrue(self.scenes.is_denied(pod, self.scenes.address(server), PORT), f"{pod} reaches {server}")

    def test_the_api_server_is_away(self):
        bed, scenes, kubelet = self.bed, self.scenes, self.bed.kubelets[ONE]
        bed.kubectl.apply(policy("web", ingress=[{"from": [{"podSelector": {"matchLabels": FRIEND}}]}]))
        for host, name, labels, serves in ((ONE, "web-1", {"app": "web"}, True), (TWO, "web-2", {"app": "web"}, True),
                                           (ONE, "keeper", FRIEND, False), (ONE, "friend", FRIEND, False), (ONE, "stranger", {}, False)):
            scenes.make(host, name, labels, serves)
        for server in ("web-1", "web-2"):
            self.holds("friend", True, server)
            self.holds("stranger", False, server)
        client = self.enterContext(traffic.connect(scenes.pods["keeper"][0], scenes.address("web-2"), PORT))
        before = {host: flows(bed.switches[host]) for host in HOSTS}
        began = time.monotonic()
        bed.api.stop()
        try:
            for restarts in (False, True):
                if restarts:
                    self.kill_agent()
                time.sleep(AWAY_S / 2)
                # What is there goes on.
                traffic.exchange(client, HELLO)
                self.holds("keeper", True, "web-2")
                # New sandboxes have a network, and the policies of this Node hold for them.
                self.remade("friend")
                self.remade("stranger")
                self.holds("friend", True)
                self.holds("stranger", False)
                # The other Node does not know whose the new address is.
                self.holds("friend", False, "web-2")
            during = {host: flows(bed.switches[host]) for host in HOSTS}
            self.assertEqual(set(during[TWO]), set(before[TWO]))
        finally:
            bed.api.start()
        for name in ("friend", "stranger"):
            kubelet.tell(name, "default", [scenes.address(name)])
        self.holds("friend", True, "web-2")
        self.holds("stranger", False, "web-2")
        for host in HOSTS:
            bed.wait_ready(host)
        # Flows that are as before have never gone.
        took = time.monotonic() - began
        for host in HOSTS:
            after = flows(bed.switches[host])
            remade = [flow for flow in before[host] if flow in after and after[flow] < before[host][flow] + took]
            self.assertEqual(remade, [], f"made again on {host.name}")
            same, others = set(before[host]) & set(after), set(before[host]) ^ set(after)
            print(f"{host.name}: {len(same)} flows stay, {len(others)} are others", flush=True)
        traffic.exchange(client, HELLO)
        client.close()
        for name, (_, _, host) in scenes.pods.items():
            bed.kubelets[host].remove(name)
        bed.kubectl.delete("networkpolicy", "web", "-n", "default")
        self.nothing_is_left()


if __name__ == "__main__":
    several.main(CniCluster)
