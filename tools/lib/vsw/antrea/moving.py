"""A Pod that comes, changes its address, its MAC address and its port, and goes, while others
talk."""

import contextlib
import threading
import time

from .. import machine
from ..machine import Failure
from . import packets, traffic, world
from .actions import BOTH, HTTP, MYSQL, Actions, of
from .agent import TCP
from .ledger import Rule
from .manifests import NODE_NAME, document, text_of, write
from .node import MOVER, NODE
from .scenes import OWNERS
from .world import CLIENT, DB, WEB2, six

FILE, POD = "mover.yaml", f"default/{MOVER}"
OLD, NEW = "10.10.0.40", "10.10.0.41"
OLD_MAC, NEW_MAC = "5e:10:00:00:00:01", "5e:10:00:00:00:02"
# Its ports, and their numbers; each is an interface of its namespace.
PORTS = {"mover-1a2b3c": 0x60, "mover-4d5e6f": 0x61}
OLD_PORT, NEW_PORT = PORTS
POLICY = "np:default/mover-to-db"
SPOOFED, NOBODY = Rule("SpoofGuard priority=0"), Rule("Classifier priority=0")


class Talk:
    """A connection on which somebody asks all the time, in a thread of its own."""

    def __init__(self, space, address):
        self.client, self.answers, self.error = traffic.connect(space, address, HTTP), 0, None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            while not self.ended.is_set():
                traffic.exchange(self.client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                self.answers += 1
                time.sleep(0.005)
        except OSError as error:
            self.error = error

    def check(self):
        """It goes on."""
        before = self.answers
        machine.expect("others are answered meanwhile", lambda: self.error or self.answers > before)
        if self.error:
            raise Failure(f"others' connection ended: {self.error!r}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.client.close()


class Moving(Actions):
    """The scenes. They bring the Pod and its ports, and take them away."""

    def __init__(self, scenes):
        super().__init__(scenes.node, OWNERS | dict.fromkeys((OLD, NEW), MOVER))
        self.switch, self.file, self.talks = scenes.switch, scenes.manifests.directory / FILE, []

    def all(self):
        """As `Scenes.all`."""
        with contextlib.ExitStack() as stack:
            self._ports(stack)
            traffic.serve(self.space[MOVER], MOVER, HTTP, stack)
            stack.callback(self._end)
            # Not client and web2: who listens there waits for silence.
            for family in BOTH:
                self.talks.append(stack.enter_context(Talk(self.space[DB.name], of(world.REMOTE, family))))
            for part in (self.comes, self.address, self.mac, self.port, self.goes):
                yield from part()

    def _ports(self, stack):
        """Both interfaces, up; the Pod's addresses are the first one's."""
        for name, number in PORTS.items():
            self.switch.vsctl("add-port", "br0", name, "--type", "tap", "--interface", name, "--number", number)
            stack.callback(self._delete, name)
            self.node.made(name)
            self.node.ip(NODE, "link", "set", name, "netns", self.space[MOVER])
            self.node.ip(MOVER, "link", "set", name, "up")
        self._own(OLD_PORT, OLD_MAC, OLD)

    def _delete(self, name):
        if name in self.switch.vsctl("list-ports", "br0").split():
            self.switch.vsctl("del-port", "br0", name)

    def _own(self, port, mac, *addresses):
        """The interface has these, and the other one none."""
        for name in PORTS:
            self.node.ip(MOVER, "address", "flush", "dev", name, "scope", "global")
        self.node.ip(MOVER, "link", "set", port, "address", mac)
        for address in addresses:
            self.node.ip(MOVER, "address", "add", f"{address}/24", "dev", port)
            self.node.ip(MOVER, "address", "add", f"{six(address)}/64", "dev", port, "nodad")
        for short in (CLIENT.name, MOVER):
            self.node.ip(short, "neighbour", "flush", "all")

    def _tell(self, address, mac, port):
        """The manifests; waits until the switch has the Pod like this."""
        self._write((address, mac, port))
        expected = [(port, mac, sorted(of(address, family) for family in BOTH))]
        machine.expect("the switch has the Pod like this", lambda: self._told() == expected, self._told)

    def _write(self, *pods):
        """The Pod, if it is to be there, and a policy: nobody else may reach db."""
        rule = {"from": [{"podSelector": {"matchLabels": {"app": MOVER}}}], "ports": [{"protocol": "TCP", "port": MYSQL}]}
        policy = document("networking.k8s.io/v1", "NetworkPolicy", POLICY.rpartition("/")[2], "default",
                          spec={"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress"], "ingress": [rule]})
        told = [document("v1", "Pod", MOVER, "default", {"labels": {"app": MOVER}, "annotations": {"vswitch/port": port, "vswitch/mac": mac}},
                         spec={"nodeName": NODE_NAME}, status={"podIPs": [{"ip": of(address, family)} for family in BOTH]}) for address, mac, port in pods]
        write(self.file, text_of([policy, *told]))

    def _end(self):
        self.file.unlink(missing_ok=True)
        # What follows looks at flows.
        policies = lambda: {rule["policy"] for rule in self.switch.json("antrea", "rules")}  # noqa: E731
        machine.expect("the switch does without the policy", lambda: POLICY not in policies(), policies)

    def _told(self):
        pods = self.switch.json("antrea", "pods")
        return [(pod["port"], pod["mac"], sorted(pod["addresses"])) for pod in pods if pod["name"] == POD]

    # The scenes.

    def comes(self):
        """A port drops everything before its Pod is told."""
        yield "a Pod that nobody has told of: its packets", self.dropped(OLD_PORT, OLD_MAC, OLD), [NOBODY], BOTH
        self._tell(OLD, OLD_MAC, OLD_PORT)
        yield ("a Pod comes: client -> mover", self.meanwhile(self.one(CLIENT.name, OLD, HTTP, MOVER, "client")),
               [Rule(f"L2ForwardingCalc dl_dst={OLD_MAC}")], BOTH)
        yield ("a Pod comes: mover -> web2", self.meanwhile(self.one(MOVER, WEB2.v4, HTTP, "web2", MOVER)),
               [Rule(f"SpoofGuard nw_src={OLD}")], BOTH)
        yield "a Pod comes: client -> db, which its policy denies", self.denied(CLIENT.name, DB.v4, MYSQL), [Rule(f"IngressDefaultRule reg1={DB.number:#x}")], BOTH
        yield "a Pod comes: mover -> db, which mover may reach", self.one(MOVER, DB.v4, MYSQL, "db", MOVER), [Rule("IngressRule priority=190")], BOTH

    def address(self):
        """Its kernel has both addresses: only the switch says which one counts."""
        self._own(OLD_PORT, OLD_MAC, OLD, NEW)
        self._tracked(OLD)
        self._tell(NEW, OLD_MAC, OLD_PORT)
        yield "another address: connections of the old one are gone", self.no_connections(OLD), [], BOTH
        yield (f"another address: client -> {NEW}", self.meanwhile(self.one(CLIENT.name, NEW, HTTP, MOVER, "client")), [Rule(f"SpoofGuard nw_src={NEW}")], BOTH)
        yield f"another address: client -> {OLD}", self.meanwhile(self.unanswered(OLD_MAC, OLD)), [SPOOFED], BOTH
        yield "another address: mover with the old one", self.dropped(OLD_PORT, OLD_MAC, OLD), [SPOOFED], BOTH

    def mac(self):
        """Whose packets say the old one is somebody else."""
        self._own(OLD_PORT, NEW_MAC, NEW)
        self._tell(NEW, NEW_MAC, OLD_PORT)
        yield ("another MAC address: client -> mover", self.meanwhile(self.one(CLIENT.name, NEW, HTTP, MOVER, "client")),
               [Rule(f"L2ForwardingCalc dl_dst={NEW_MAC}")], BOTH)
        yield ("another address, another MAC address: mover -> db, which mover may reach", self.one(MOVER, DB.v4, MYSQL, "db", MOVER),
               [Rule("IngressRule priority=190")], BOTH)
        yield "another MAC address: mover with the old one", self.dropped(OLD_PORT, OLD_MAC, NEW), [SPOOFED], BOTH
        yield "another MAC address: client -> the old one", self.unreached(OLD_MAC, NEW, OLD_PORT), [], BOTH

    def port(self):
        """The old one is nobody's, and may go; the new one is held."""
        self._own(NEW_PORT, NEW_MAC, NEW)
        self._tell(NEW, NEW_MAC, NEW_PORT)
        yield ("another port: client -> mover", self.meanwhile(self.one(CLIENT.name, NEW, HTTP, MOVER, "client")),
               [Rule(f"L2ForwardingCalc dl_dst={NEW_MAC} set_field:{PORTS[NEW_PORT]:#x}->reg1")], BOTH)
        yield "another port: mover by the old one", self.dropped(OLD_PORT, NEW_MAC, NEW), [NOBODY], BOTH
        yield "another port: the old one may be deleted, the new one may not", self.held, [], BOTH[:1]

    def goes(self):
        """Nothing of it is left."""
        self._tracked(NEW)
        self._write()
        machine.expect("the switch does without the Pod", lambda: not self._told(), self._told)
        yield "the Pod goes: its flows and connections, too", self.nothing_left, [], BOTH[:1]
        yield "the Pod goes: its packets", self.dropped(NEW_PORT, NEW_MAC, NEW), [NOBODY], BOTH
        yield "the Pod goes: client -> mover", self.unreached(NEW_MAC, NEW, NEW_PORT), [], BOTH

    # What may happen.

    def meanwhile(self, action):
        """An action, and others go on talking."""

        def run(family):
            text = action(family)
            for talk in self.talks:
                talk.check()
            return text

        return run

    def dropped(self, port, mac, address):
        """What the Pod sends by a port, with these as its own, does not come to client."""

        def run(family):
            frame = self._frame((mac, CLIENT.mac), (of(address, family), of(CLIENT.v4, family)))
            self._absent(CLIENT, frame, family, lambda: traffic.send_frame(self.space[MOVER], port, frame))
            return "dropped"

        return run

    def unanswered(self, mac, address):
        """The Pod's kernel answers as one that it is no more."""

        def run(family):
            interface = self.node.interface(CLIENT)
            ends = (of(CLIENT.v4, family), of(address, family))
            with traffic.Listener(self.space[CLIENT.name], interface) as listener:
                traffic.send_frame(self.space[CLIENT.name], interface, self._frame((CLIENT.mac, mac), ends))
                after = self._after(CLIENT, family)
                frames = listener.frames(lambda frames: any(after in one for one in frames))
            said = [ip for ip in map(packets.parsed, frames) if ip and ip[:2] == (ends[1], ends[0])]
            if said or not any(after in one for one in frames):
                raise Failure(f"client hears of it: {said}" if said else "nothing arrives at client")
            return "its answers are dropped"

        return run

    def unreached(self, mac, address, port):
        """What client sends to this MAC address does not leave by the port."""

        def run(family):
            frame = self._frame((CLIENT.mac, mac), (of(CLIENT.v4, family), of(address, family)))
            with traffic.Listener(self.space[MOVER], port) as listener:
                self._absent(WEB2, frame, family, lambda: traffic.send_frame(self.space[CLIENT.name], self.node.interface(CLIENT), frame))
                if frame in listener.frames():
                    raise Failure("it arrives")
            return "does not arrive"

        return run

    @staticmethod
    def _frame(macs, ends):
        return packets.frame(macs, ends, TCP, packets.segment(ends, (1000, HTTP), time.monotonic_ns() & 0xFFFFFFFF))

    def _absent(self, pod, frame, family, send):
        """What is sent does not come to a Pod, to which something that is sent later comes."""
        with traffic.Listener(self.space[pod.name], self.node.interface(pod)) as listener:
            send()
            after = self._after(pod, family)
            frames = listener.frames(lambda frames: any(after in one for one in frames))
        if frame in frames or not any(after in one for one in frames):
            raise Failure("it arrives" if frame in frames else f"nothing arrives at {pod.name}")

    def _after(self, pod, family):
        """Another Pod's datagram to this one."""
        token = f"after {time.monotonic_ns()}".encode()
        other = WEB2 if pod == CLIENT else CLIENT
        traffic.send_datagram(self.space[other.name], of(pod.v4, family), HTTP, token)
        return token

    def no_connections(self, address):
        """None of this address is tracked."""

        def run(family):
            machine.expect("no connection is left", lambda: not self._connections(address, family), lambda: self._connections(address, family))
            return "none is left"

        return run

    def _connections(self, address, family):
        words = f"={of(address, family)},"
        return [line for line in self.switch.vsctl("dump-conntrack").splitlines() if words in line]

    def _tracked(self, address):
        """Connections of an address are there to be taken away."""
        if not all(self._connections(address, family) for family in BOTH):
            raise Failure(f"no connection of {address} is tracked")

    def held(self, _family):
        """Who deletes a port that a Pod has hears of the Pod."""
        self.switch.vsctl("del-port", "br0", OLD_PORT)
        try:
            self.switch.vsctl("del-port", "br0", NEW_PORT)
        except Failure as error:
            if POD not in str(error):
                raise Failure(f"refused without the Pod's name: {error}") from error
            return "refused, with the Pod's name"
        raise Failure("the Pod's port was deleted")

    def nothing_left(self, _family):
        """No flow has anything of the Pod, not even the policy's."""
        words = [NEW_MAC, OLD_MAC, *PORTS, *(f"{number:#x}->reg1" for number in PORTS.values())]
        words += [of(address, family) for address in (OLD, NEW) for family in BOTH]
        flows = [line for line in self.switch.vsctl("dump-flows", "--names", "br0").splitlines() if any(word in line for word in words)]
        if flows:
            raise Failure(f"flows of a Pod that is gone: {flows}")
        for family in BOTH:
            self.no_connections(NEW)(family)
        return "none is left"
