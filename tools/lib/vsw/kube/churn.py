"""Pods that come and go on both Nodes, many at a time, and what is left of them."""

import concurrent.futures
import contextlib
import json
import re
import threading
import time

from .. import machine
from ..antrea import traffic
from ..antrea.manifests import document
from ..cni.bed import BUILT_IN
from ..cni.cri import IMAGE, METRICS, namespaces
from ..gateway.world import HOSTS
from .bed import BRIDGE

AT_A_TIME = 16
PORT = 8080
LABEL, SELECTOR = {"app": "churn"}, "app=churn"
RUN, STOP, REMOVE = "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"
HELLO = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
GROUP = re.compile(r"group(:|_id=)\d+")
ASKED = re.compile(r'network_plugin_operations_duration_seconds_seconds_(sum|count)\{operation_type="(\w+)"\} (\S+)')


class Churn:
    """Pods of a Bed. Each connects to a web server on the other Node: `servers` has their
    addresses, by Node."""

    def __init__(self, bed, servers):
        self.bed, self.servers = bed, servers
        self.times, self.lock, self.attempts = {}, threading.Lock(), 0
        self.gone, self.failed = 0, {}

    def declare(self, count, prefix):
        """Makes the objects of Pods, Node by Node in turn: {name: (Node, UID)}."""
        hosts = {f"{prefix}-{number}": HOSTS[number % len(HOSTS)] for number in range(count)}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": IMAGE}]}
        of = lambda name, host: document("v1", "Pod", name, "default", {"labels": LABEL}, spec=spec | {"nodeName": host.name})  # noqa: E731
        pods = [of(name, host) for name, host in hosts.items()]
        self.bed.kubectl.create({"apiVersion": "v1", "kind": "List", "items": pods})
        items = self.bed.kubectl.json("get", "pods", "-n", "default", "-l", SELECTOR)["items"]
        uids = {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}
        return {name: (host, uids[name]) for name, host in hosts.items()}

    def forget(self):
        """Removes their objects."""
        self.bed.kubectl("delete", "pods", "-n", "default", "-l", SELECTOR, "--grace-period=0", "--force", "--wait=false")

    def call(self, host, method, fields):
        """A call of a Node's runtime, whose time is noted."""
        began = time.monotonic()
        answer = self.bed.kubelets[host].runtime.call(method, fields)
        with self.lock:
            self.times.setdefault(method, []).append(time.monotonic() - began)
        return answer

    def sandbox(self, host, name, uid):
        """RunPodSandbox; its ID."""
        with self.lock:
            self.attempts += 1
        about = [(1, name), (2, uid), (3, "default"), (4, self.attempts)]
        return self.call(host, RUN, [(1, [(1, about), (2, name), (8, [])])])[1][0].decode()

    def netns(self, host, sandbox):
        """The network namespace of a sandbox, as the agent noted it."""
        file = self.bed.directory / host.name / "cni" / f"{sandbox}:eth0.json"
        return json.loads(file.read_text())["netns"].rpartition("/")[2]

    def visit(self, name, host, uid):
        """A Pod comes, talks to the other Node, and goes while its connection is there."""
        sandbox = self.sandbox(host, name, uid)
        with contextlib.ExitStack() as stack:
            # (The last one comes first: nobody ends the connection before its Pod.)
            (other,) = set(HOSTS) - {host}
            client = stack.enter_context(traffic.connect(self.netns(host, sandbox), self.servers[other], PORT))
            stack.callback(self.call, host, REMOVE, [(1, sandbox)])
            stack.callback(self.call, host, STOP, [(1, sandbox)])
            traffic.exchange(client, HELLO)

    def insist(self, name, host, uid):
        """The same where agent and switch may be away: each call is made until it succeeds, as a
        kubelet does. Packets may be lost."""
        sandbox = again(lambda: self.sandbox(host, name, uid))
        (other,) = set(HOSTS) - {host}
        with contextlib.suppress(OSError):
            traffic.ask(self.netns(host, sandbox), self.servers[other], PORT, 1.0)
        for method in (STOP, REMOVE):
            again(lambda method=method: self.call(host, method, [(1, sandbox)]))

    def run(self, pods, visit):
        """All of these, some at a time; what failed is in `failed`."""

        def attempt(item):
            name, (host, uid) = item
            try:
                visit(name, host, uid)
            except machine.TROUBLE as error:
                self.failed[name] = machine.words_of(error)
            with self.lock:
                self.gone += 1

        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            list(pool.map(attempt, pods.items()))

    def sweep(self):
        """Ends sandboxes that a failed call has left, as a kubelet does."""
        for host, kubelet in self.bed.kubelets.items():
            kept = {sandbox.id for sandbox in kubelet.sandboxes.values()}
            for fields in kubelet.runtime.listed():
                if (sandbox := fields[1][0].decode()) not in kept:
                    self.call(host, STOP, [(1, sandbox)])
                    self.call(host, REMOVE, [(1, sandbox)])

    def report(self):
        """Where the time went, in a line for each part."""
        for method, times in self.times.items():
            yield f"{method}: {_times(times)}"
        found = {}
        for host in HOSTS:
            text = self.bed.run(host.at("host"), "curl", "-s", f"http://{METRICS}/v1/metrics")
            for what, operation, value in ASKED.findall(text):
                found.setdefault(operation, {}).setdefault(what, []).append(float(value))
        for operation, values in found.items():
            yield f"of it the plug-in, {operation}: mean {sum(values['sum']) / max(sum(values['count']), 1):.2f} s"


def _times(times):
    times = sorted(times)
    return f"{len(times)} calls, median {times[len(times) // 2]:.2f} s, at most {times[-1]:.2f} s"


def again(call):
    """Makes a call until it succeeds."""
    deadline = time.monotonic() + machine.PATIENCE_S
    while True:
        try:
            return call()
        except machine.Failure:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def left(bed, host):
    """All of a Node that may be of a Pod."""
    switch, directory, node = bed.switches[host], bed.directory / host.name, host.at("host")
    links = {link["ifname"] for link in json.loads(bed.ip(node, "-j", "link", "show"))}
    given = directory / "ipam" / "pods"
    addresses = {file.name for file in given.iterdir()} if given.exists() else set()
    return {
        "interfaces": sorted(name for name in links if not BUILT_IN.match(name)),
        "namespaces": sorted(namespaces()),
        "addresses": sorted(name for name in addresses if name[0].isdigit()),
        "ports": sorted(switch.ports(BRIDGE)),
        "files": sorted(file.name for file in (directory / "cni").iterdir()),
        "objects": {kind["kind"]: kind["objects"] for kind in switch.json("antrea", "status")["kinds"]},
        # A switch that was killed gives its groups other numbers.
        "flows": sorted(GROUP.sub("group", flow) for flow in flows(switch)),
        "groups": sorted(GROUP.sub("group", line) for line in switch.vsctl("dump-groups", BRIDGE).splitlines()),
        "connections": sorted(line for line in switch.vsctl("dump-conntrack").splitlines() if "10.244." in line),
    }


def flows(switch):
    """Flows of the Pods' bridge without cookies, and the seconds for which each has been there."""
    found = {}
    for flow in switch.json("dump-flows", BRIDGE):
        found[f"{flow['table']} {flow['priority']} {flow['match']} {flow['actions']}"] = flow["duration"]
    return found


def difference(before, after):
    """What of a Node is another one, in a few words."""
    return {what: sorted(set(map(str, was)) ^ set(map(str, after[what])))[:5] if isinstance(was, list) else (was, after[what])
            for what, was in before.items() if was != after[what]}
