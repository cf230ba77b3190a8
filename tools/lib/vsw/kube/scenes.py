"""What is shown of a cluster: functions that return what happened, by titles."""

import contextlib
import json
import re
import subprocess
import time

from .. import machine
from ..antrea import traffic
from ..antrea.actions import DENIED_LIMIT, silence
from ..antrea.manifests import document
from ..gateway.world import GATEWAY, HOSTS, ONE, OUTSIDE, OUTSIDE_PORT, PATCH, TUNNEL, TWO
from ..machine import Failure
from .bed import BRIDGE, EGRESS_IP, TAINT

PORT = 8080
SERVICE_IP, SERVICE_PORT = "10.96.0.10", 80
EVENT_S = 2.0
PING_GAP_S = 0.002
WEB, CLIENT = {"app": "web"}, {"app": "client"}
SELECT_WEB = {"podSelector": {"matchLabels": WEB}}


def policy(name, **spec):
    """A NetworkPolicy for the web Pods."""
    return document("networking.k8s.io/v1", "NetworkPolicy", name, "default", spec=SELECT_WEB | {"policyTypes": ["Ingress"]} | spec)


class Scenes:
    """Scenes on a Bed, in this order."""

    def __init__(self, bed):
        self.bed, self.pods = bed, {}

    def all(self):
        """All of them."""
        yield "Nodes have a network, and their taint is gone", self.nodes
        yield "Pods of the container runtime: web-1, client on node-1, web-2 on node-2", self.run
        yield "client -> web-1, web-2 by their addresses", self.across
        yield "client -> Service web by its cluster IP", self.service
        yield "a NetworkPolicy denies client -> web, and lets label role=friend in", self.denies
        yield "a policy that is refused is an Event, and holds up nothing", self.refused
        yield "client -> the world outside by its Egress, out of a pool", self.egress
        yield "kubectl create -f: a Traceflow client -> web-2", self.traceflow
        yield "the agent of node-1 is replaced under traffic", self.agent_replaced
        yield "the API server goes, a new Pod comes, the API server is back", self.api_away
        yield "the switch of node-1 is restarted under a connection", self.switch_restarted
        yield "Pods go", self.removed

    def ask(self, pod, address, port=PORT, limit=machine.PATIENCE_S):
        """Who answers a Pod there."""
        return traffic.ask(self.pods[pod][0], address, port, limit)

    def heard(self, pod, address, port=PORT):
        """Waits until somebody answers; (who, whom it sees)."""
        found = []

        def answers():
            with contextlib.suppress(OSError):
                found.append(self.ask(pod, address, port, 1.0))
            return bool(found)

        machine.expect(f"somebody answers {pod} at {address}:{port}", answers)
        return found[0]

    def is_denied(self, pod, address, port=PORT):
        """Whether neither an answer nor a refusal comes."""
        try:
            return bool(silence(pod, lambda: self.ask(pod, address, port, DENIED_LIMIT)))
        except Failure:
            return False

    def make(self, host, name, labels, serves=False):
        """A Pod, and a web server in it."""
        self.found(host, name, self.bed.kubelets[host].run(name, labels))
        if serves:
            traffic.serve(self.pods[name][0], name, PORT, self.bed.stack)

    def found(self, host, name, addresses):
        """A Pod that runs."""
        self.pods[name] = self.bed.kubelets[host].sandboxes["default", name].netns(), addresses[0], host

    def address(self, pod):
        """Its first address."""
        return self.pods[pod][1]

    def nodes(self):
        """What the agents told the API server."""
        def is_told(node):
            found = self.bed.kubectl.json("get", "node", node)
            conditions = {one["type"]: one["status"] for one in found["status"].get("conditions", [])}
            taints = [one["key"] for one in found["spec"].get("taints", [])]
            return conditions.get("NetworkUnavailable") == "False" and TAINT not in taints

        for host in HOSTS:
            machine.expect(f"{host.name} has a network", lambda name=host.name: is_told(name))
        return "NetworkUnavailable=False on both"

    def run(self):
        """Sandboxes by CRI."""
        began = time.monotonic()
        for host, name, labels, serves in ((ONE, "web-1", WEB, True), (ONE, "client", CLIENT, False), (TWO, "web-2", WEB, True)):
            self.make(host, name, labels, serves)
        took = time.monotonic() - began
        return f"{', '.join(f'{name} {address}' for name, (_, address, _) in self.pods.items())}; {took / len(self.pods):.1f} s each"

    def across(self):
        """On the same Node, and on the other one; the source keeps its address."""
        for pod in ("web-1", "web-2"):
            found = self.heard("client", self.address(pod))
            if found != (pod, self.address("client")):
                raise Failure(f"{found[0]} answers, and sees {found[1]}")
        return f"both answer, and see {self.address('client')}"

    def service(self):
        """Both endpoints answer."""
        ports = [{"name": "http", "protocol": "TCP", "port": SERVICE_PORT, "targetPort": PORT}]
        spec = {"selector": WEB, "clusterIP": SERVICE_IP, "clusterIPs": [SERVICE_IP], "ports": ports}
        self.bed.kubectl.apply(document("v1", "Service", "web", "default", spec=spec))
        answered = set()

        def all_answer():
            with contextlib.suppress(OSError):
                answered.add(self.ask("client", SERVICE_IP, SERVICE_PORT, 1.0)[0])
            return answered == {"web-1", "web-2"}

        machine.expect("both endpoints answer", all_answer, lambda: answered)
        return f"{SERVICE_IP}:{SERVICE_PORT} is answered by web-1 and web-2"

    def denies(self):
        """By label, in both directions of time."""
        friends = [{"podSelector": {"matchLabels": {"role": "friend"}}}]
        self.bed.kubectl.apply(policy("web", ingress=[{"from": friends}]))
        for pod in ("web-1", "web-2"):
            machine.expect(f"client -> {pod} is denied", lambda one=pod: self.is_denied("client", self.address(one)))
        self.befriend("role=friend")
        for pod in ("web-1", "web-2"):
            self.heard("client", self.address(pod))
        return "denied on both Nodes; let in as soon as it has the label"

    def refused(self):
        """An Event within two seconds; what is applied after it is in force."""
        wrong = [{"from": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "Resembles", "values": ["web"]}]}}]}]
        spec = {"appliedTo": [{"podSelector": {"matchLabels": {"app": "nobody"}}}], "priority": 5, "ingress": [{"action": "Allow", **wrong[0]}]}
        refused = document("crd.antrea.io/v1beta1", "ClusterNetworkPolicy", "refused", spec=spec)
        self.bed.kubectl.apply(refused)
        began = time.monotonic()
        events = lambda: self.bed.kubectl.events("ClusterNetworkPolicy", "refused")  # noqa: E731
        machine.expect("the refused policy has an Event", events)
        took = time.monotonic() - began
        self.befriend("role-")
        self.befriend("role=friend")
        (reason, message), *_ = events()
        self.bed.kubectl.delete("clusternetworkpolicies.crd.antrea.io", "refused")
        if took > EVENT_S:
            raise Failure(f"the Event came after {took:.1f} s")
        return f"{reason}: {message[:70]}"

    def egress(self):
        """The world sees the Egress's address, out of a pool, on a Node of the pool; before, the
        Node's."""
        before = self.heard("client", OUTSIDE, OUTSIDE_PORT)[1]
        nodes = {"matchLabels": {"kubernetes.io/hostname": TWO.name}}
        pool = {"ipRanges": [{"start": EGRESS_IP, "end": EGRESS_IP}], "nodeSelector": nodes}
        spec = {"appliedTo": {"podSelector": {"matchLabels": CLIENT}}, "externalIPPool": "outside"}
        self.bed.kubectl.apply(document("crd.antrea.io/v1beta1", "ExternalIPPool", "outside", spec=pool),
                               document("crd.antrea.io/v1beta1", "Egress", "client", spec=spec))
        seen = lambda: self.heard("client", OUTSIDE, OUTSIDE_PORT)[1]  # noqa: E731
        machine.expect(f"outside sees {EGRESS_IP}", lambda: seen() == EGRESS_IP, seen)
        self.bed.kubectl.delete("egress.crd.antrea.io", "client")
        machine.expect(f"outside sees {before}", lambda: seen() == before, seen)
        return f"outside sees {EGRESS_IP} of {TWO.name}; without it {before}"

    def traceflow(self):
        """Both Nodes tell what they observed."""
        spec = {"source": {"namespace": "default", "pod": "client"}, "destination": {"namespace": "default", "pod": "web-2"},
                "packet": {"ipHeader": {"protocol": 6}, "transportHeader": {"tcp": {"dstPort": PORT}}}}
        self.bed.kubectl.create(document("crd.antrea.io/v1beta1", "Traceflow", "client-web", spec=spec))
        get = lambda: self.bed.kubectl.json("get", "traceflow.crd.antrea.io", "client-web").get("status", {})  # noqa: E731
        machine.expect("the Traceflow has ended", lambda: get().get("phase") in ("Succeeded", "Failed"), get)
        status = get()
        nodes = {one["node"]: [step["action"] for step in one["observations"]] for one in status.get("results", [])}
        if status["phase"] != "Succeeded" or set(nodes) != {host.name for host in HOSTS} or nodes[TWO.name][-1] != "Delivered":
            raise Failure(json.dumps(status))
        return "; ".join(f"{node}: {' '.join(actions)}" for node, actions in sorted(nodes.items()))

    @contextlib.contextmanager
    def pinging(self, pod, address):
        """Pings all the time; at the end a list with how many were lost."""
        argv = ["ip", "netns", "exec", self.pods[pod][0], "ping", "-n", "-q", "-i", str(PING_GAP_S), address]
        process, lost = machine.spawn(argv, stdout=subprocess.PIPE, text=True), []
        try:
            yield lost
        finally:
            process.send_signal(2)
            said = process.communicate(timeout=machine.PATIENCE_S)[0]
        sent, received = map(int, re.search(r"(\d+) packets transmitted, (\d+) received", said).groups())
        # The last one may be on its way.
        lost.extend([max(sent - received - 1, 0), sent])

    def agent_replaced(self):
        """Not a packet is lost."""
        with self.pinging("client", self.address("web-2")) as lost:
            self.bed.stop_agent(ONE)
            self.bed.start_agent(ONE)
            self.bed.wait_ready(ONE)
        if lost[0]:
            raise Failure(f"{lost[0]} of {lost[1]} packets were lost")
        return f"{lost[1]} packets, none lost"

    def flows(self):
        """All flows of the Pods' bridge on both Nodes, without counters."""
        found = {}
        for host in HOSTS:
            lines = self.bed.switches[host].vsctl("dump-flows", BRIDGE, "--no-stats").splitlines()
            found[host] = sorted(re.sub(r"(n_packets|n_bytes|duration|idle_age|hard_age)=[^, ]*,? ?", "", line) for line in lines)
        return found

    def befriend(self, label):
        """Gives the client the label that lets it in, or takes it, and waits until that counts."""
        self.bed.kubectl("label", "pod", "client", label)
        if label.endswith("-"):
            machine.expect("client -> web-1 is denied", lambda: self.is_denied("client", self.address("web-1")))
        else:
            self.heard("client", self.address("web-1"))

    def api_away(self):
        """Forwarding, policies and new Pods of a Node go on."""
        before, kubelet = self.flows(), self.bed.kubelets[ONE]
        uids = {f"late-{number}": kubelet.declare(f"late-{number}") for number in range(3)}
        # The agent hears of Pods in order: what it was told last counts.
        self.befriend("role-")
        self.befriend("role=friend")
        self.bed.api.stop()
        self.heard("client", self.address("web-2"))
        for name, uid in uids.items():
            self.found(ONE, name, kubelet.start(name, uid))
            self.heard(name, OUTSIDE, OUTSIDE_PORT)
            if not self.is_denied(name, self.address("web-1")):
                raise Failure(f"{name}, which has not the label, reaches web-1")
        during = self.flows()
        self.bed.api.start()
        for name in uids:
            kubelet.tell(name, "default", [self.address(name)])
            kubelet.remove(name)
        machine.expect("flows are as before", lambda: self.flows() == before, lambda: _difference(before, self.flows()))
        for host in HOSTS:
            self.bed.wait_ready(host)
        if before[TWO] != during[TWO]:
            raise Failure(f"flows of {TWO.name} changed: {_difference(before, during)}")
        return f"{len(uids)} Pods came meanwhile, and policies held for them; then flows as before"

    def switch_restarted(self):
        """A connection goes on."""
        with traffic.connect(self.pods["client"][0], self.address("web-2"), PORT) as client:
            traffic.exchange(client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            self.bed.switches[ONE].stop()
            self.bed.launch_switch(ONE)
            said = traffic.exchange(client, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").decode()
        self.bed.wait_ready(ONE)
        self.across()
        return f"it goes on: {said.strip()}"

    def removed(self):
        """Nothing is left of them."""
        for name, (_, _, host) in list(self.pods.items()):
            if ("default", name) in self.bed.kubelets[host].sandboxes:
                self.bed.kubelets[host].remove(name)
        for host in HOSTS:
            ports = lambda switch=self.bed.switches[host]: set(switch.ports(BRIDGE)) - {GATEWAY, TUNNEL, PATCH[0], BRIDGE}  # noqa: E731
            machine.expect(f"no port of a Pod is left on {host.name}", lambda left=ports: not left(), ports)
        return "no port is left"


def _difference(before, after):
    found = [(host.name, sorted(set(before[host]) ^ set(after[host]))[:4]) for host in HOSTS if before[host] != after[host]]
    return f"{found}"
