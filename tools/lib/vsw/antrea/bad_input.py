"""Manifests that are wrong, beside one that is right, while connections are in use: what is wrong
is named, what is right holds, and no connection notices."""

import contextlib
import threading

from .. import machine
from ..machine import Failure
from . import traffic, world
from .actions import BOTH, HTTP, of
from .manifests import write
from .records import datagrams, socket_for
from .world import CLIENT, DB, WEB, WEB2

RIGHT = "10.105.31.240"  # a Service of web2
PERIOD_S = 0.02
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"

# Files by what they are about, beside one that is right.
FILES = {
    "right": """\
apiVersion: v1
kind: Service
metadata: {name: right, namespace: default}
spec: {clusterIPs: ["10.105.31.240"], selector: {app: web2}, ports: [{name: http, protocol: TCP, port: 80}]}
""",
    "twin": """\
apiVersion: v1
kind: Pod
metadata: {name: twin, namespace: default, annotations: {vswitch/port: twin0, vswitch/mac: "02:00:00:00:00:77"}}
spec: {nodeName: k8s-node-control-plane}
status: {podIPs: [{ip: 10.10.0.26}]}
""",
    "same-address": """\
apiVersion: v1
kind: Service
metadata: {name: same-address, namespace: default}
spec: {clusterIPs: ["10.105.31.235"], ports: [{name: http, protocol: TCP, port: 80}]}
""",
    "lonely": """\
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: lonely
  namespace: default
  labels: {kubernetes.io/service-name: missing}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: ["10.10.0.23"]}]
""",
    "too-late": """\
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: too-late}
spec:
  priority: 10001
  tier: application
  appliedTo: [{podSelector: {matchLabels: {app: web2}}}]
  ingress: [{action: Drop}]
""",
}
# A file of the cluster, of which a part is written.
CUT, CUT_BEHIND = "antrea-policy.yaml", "AllowToDB\n    - action: Dr"
POLICY = "web-app-db-network-policy"

# What is said of each: file, line and object; field and reason; how to mend it.
SAID = {
    "twin": ("/twin.yaml:1 Pod default/twin: addresses[0]: OVERLAP: 10.10.0.26 belongs to Pod default/client; ",
             '/twin.yaml:1 Pod default/twin: port: PORT: bridge br0 has no port "twin0"; add it before'),
    "same-address": ("/same-address.yaml:1 Service default/same-address: cluster_ips[0]: OVERLAP: 10.105.31.235 port 80 of protocol 6 belongs to Service "
                     "default/sample-clusterip; ",),
    "lonely": ("/lonely.yaml:1 EndpointSlice default/lonely: metadata.labels[kubernetes.io/service-name]: there is no Service default/missing: its endpoints are "
               "nobody's; name a Service of its namespace",),
    "too-late": ("/too-late.yaml:5 ClusterNetworkPolicy too-late: spec.priority: 10001 is not in 1 to 10000",),
    CUT: (f'ClusterNetworkPolicy {POLICY}: spec.egress[1].action: "Dr" is not one of Allow, Drop, Reject, Pass',),
}


class InUse:
    """Connections of TCP and UDP from a namespace to each address, all of them in use until `stack`
    ends."""

    def __init__(self, space, addresses, stack):
        self.problems, self.turns, self.ended = [], 0, threading.Event()
        self.tcp = [stack.enter_context(traffic.connect(space, address, HTTP)) for address in addresses]
        self.udp = [stack.enter_context(socket_for(space, address)) for address in addresses]
        self.thread = threading.Thread(target=self._run, daemon=True)
        stack.callback(self._end)
        self.thread.start()

    def _run(self):
        try:
            while not self.ended.wait(PERIOD_S):
                for client in self.tcp:
                    traffic.exchange(client, GET)
                for client in self.udp:
                    datagrams(client, 1)
                self.turns += 1
        except OSError as error:
            self.problems.append(repr(error))

    def _end(self):
        self.ended.set()
        self.thread.join()

    def check(self):
        """All of them work now, and have lost nothing so far: who is not answered says nothing
        more."""
        turns = self.turns
        machine.expect("connections are in use", lambda: self.problems or self.turns > turns + 1, lambda: self.turns)
        if self.problems:
            raise Failure(f"a connection lost something: {self.problems}")


class BadInput:
    """Scenes; a part of `AgentScenes`."""

    def bad_input(self):
        """An agent as it is, then one that is strict."""
        yield "wrong manifests are named, a right one holds; connections lose nothing", self.wrong_beside_right, [], (4,)
        yield "wrong manifests with --strict: nothing holds until all is right", self.wrong_and_strict, [], (4,)

    def wrong_beside_right(self, family):
        """Objects first, then policies. One that was right before stays; one that never was
        isolates its Pods."""
        file = self.manifests.directory / CUT
        text = file.read_text()
        with self._in_use() as in_use, contextlib.ExitStack() as stack:
            self._says(lambda: self._put(stack, "twin", "same-address", "lonely", "right"), "twin", "same-address", "lonely")
            self._right_answers(family)
            in_use.check()
            stack.callback(write, file, text)
            self._says(lambda: (self._put(stack, "too-late"), write(file, text[: text.index(CUT_BEHIND) + len(CUT_BEHIND)])), "too-late", CUT)
            # It says what it said.
            self.denied(DB.name, WEB.v4, HTTP)(family)
            self.one(CLIENT.name, WEB.v4, HTTP, "web", "client")(family)
            machine.expect("the switch holds web2", self._is_held, self._policies)
            self.denied(CLIENT.name, RIGHT, HTTP)(family)
            in_use.check()
            self._file("too-late").unlink()
            machine.expect("the switch holds nobody", lambda: not self._is_held(), self._policies)
            self._right_answers(family)
        self._right_goes()
        return f"{len(SAID)} are named by file, line, field; the right one holds, and the policy that was cut; new connections to whom a wrong one means wait"

    def wrong_and_strict(self, family):
        """A document that is wrong stops all; an object that has no effect since another one has
        its place does not."""
        with self._in_use() as in_use, contextlib.ExitStack() as stack:
            stack.callback(self._begin)
            self._begin("--strict")
            flows = self._flows()
            self._says(lambda: self._put(stack, "too-late", "right"), "too-late")
            self._same_flows(flows, "a document is wrong")
            self._says(lambda: (self._put(stack, "same-address"), self._file("too-late").unlink()), "same-address")
            self._right_answers(family)
            in_use.check()
            self._file("same-address").unlink()
        self._right_goes()
        return "a wrong document: no flow changes; without it the right one holds, beside one whose place is another's"

    @contextlib.contextmanager
    def _in_use(self):
        """Connections of client's, by a Service and straight, which at last have lost nothing."""
        addresses = [of(address, family) for address in (world.LOAD_BALANCER, WEB2.v4) for family in BOTH]
        with contextlib.ExitStack() as stack:
            in_use = InUse(self.space[CLIENT.name], addresses, stack)
            yield in_use
            in_use.check()

    def _file(self, name):
        return self.manifests.directory / f"{name}.yaml"

    def _put(self, stack, *names):
        """Writes these files; they are there until `stack` ends."""
        for name in names:
            stack.callback(self._file(name).unlink, missing_ok=True)
            write(self._file(name), FILES[name])

    def _says(self, change, *names):
        """Does something, and waits until the agent says of these what is wrong."""
        log = self.manifests.log
        mark, parts = len(log.read_text()), [part for name in names for part in SAID[name]]
        change()
        said = lambda: log.read_text()[mark:]  # noqa: E731
        machine.expect(f"the agent says {parts}", lambda: all(part in said() for part in parts), said)

    def _begin(self, *words):
        """The agent ends; one with these words tells everything."""
        self.manifests.kill()
        before = self.manifests.state()["round"]
        self.manifests.start(*words)
        machine.expect("the agent has told everything", lambda: self.manifests.state()["round"] > before, self.manifests.state)

    def _same_flows(self, flows, why):
        if changed := self._flows() ^ flows:
            raise Failure(f"{why}, and flows have changed: {changed}")

    def _policies(self):
        return [policy["name"] for policy in self.switch.json("antrea", "policies")]

    def _is_held(self):
        return any("too-late" in name for name in self._policies())

    def _is_right_there(self):
        return any(service["name"] == "default/right" for service in self.switch.json("antrea", "services"))

    def _right_answers(self, family):
        machine.expect("the switch has the Service that is right", self._is_right_there)
        self.one(CLIENT.name, RIGHT, HTTP, "web2", "client")(family)

    def _right_goes(self):
        machine.expect("the switch does without it", lambda: not self._is_right_there())
