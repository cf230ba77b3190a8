"""Probes of the host's own: a kubelet reaches Pods that policies isolate. How the switch knows
them, and who else it does not take for one."""

import contextlib
from pathlib import Path

from ..machine import Failure
from . import packets, traffic, world
from .actions import BOTH, HTTP, Actions, of
from .agent import TCP
from .ledger import Rule
from .node import NODE, OUTSIDE
from .scenes import OWNERS
from .world import CLIENT, DB, GATEWAY, WEB2

MANIFEST = Path(__file__).with_name("probes.yaml")
PORT, NUMBER = "antrea-probe0", 0x62
ISOLATED = Rule(f"IngressDefaultRule reg1={WEB2.number:#x}")
BY_ADDRESS = Rule("IngressSecurityClassifier priority=210 reg0=0x2/0xf")
BY_PORT = Rule(f'IngressSecurityClassifier priority=210 in_port="{PORT}"')
SETTING = f"\nspec:\n  bridge: br0\n  localProbe: ByPort\n  localProbePort: {PORT}\n"


class Probes(Actions):
    """The scenes. They bring a policy, and take it away."""

    def __init__(self, scenes):
        super().__init__(scenes.node, OWNERS)
        self.switch, self.manifests = scenes.switch, scenes.manifests

    def all(self):
        """As `Scenes.all`."""
        with contextlib.ExitStack() as stack:
            self._port(stack)
            stack.enter_context(self.manifests.also(MANIFEST))
            yield from self.by_address()
            with self.manifests.edited("nodes.yaml", "\nspec:\n  bridge: br0\n", SETTING):
                yield from self.by_port()

    def _port(self, stack):
        """A port of the host's own packets."""
        self.switch.vsctl("add-port", "br0", PORT, "--type", "internal", "--number", NUMBER, "--no-flood")
        stack.callback(self.switch.vsctl, "del-port", "br0", PORT)
        self.node.made(PORT)
        self.node.ip(NODE, "link", "set", PORT, "addrgenmode", "none")
        self.node.ip(NODE, "link", "set", PORT, "up")
        for family in BOTH:
            self.node.ip(NODE, "neighbour", "add", of(WEB2.v4, family), "lladdr", WEB2.mac, "dev", PORT, "nud", "permanent")

    def by_address(self):
        """By the gateway, with its address."""
        yield "isolated: db -> web2", self.denied(DB.name, WEB2.v4, HTTP), [ISOLATED], BOTH
        yield "isolated: a probe of web2 by the gateway's address", self.probed(GATEWAY, world.GATEWAY_IP, self.reaches("gateway")), [BY_ADDRESS], BOTH
        # The host gives its own connections by the gateway the gateway's address.
        probed = self.probed(GATEWAY, world.NODE, self.reaches("gateway"))
        yield "isolated: a probe of web2 with the Node's address", probed, [BY_ADDRESS], BOTH
        yield "isolated: outside -> the Node -> web2", self.denied(OUTSIDE, WEB2.v4, HTTP), [ISOLATED], BOTH
        yield "isolated: client -> web2 with the gateway's address", self.spoofed, [Rule("SpoofGuard priority=0")], BOTH

    def by_port(self):
        """By a port that has nothing else."""
        yield ("probes have a port: the gateway's address by the gateway", self.probed(GATEWAY, world.GATEWAY_IP, self.denied(NODE, WEB2.v4, HTTP)),
               [ISOLATED], BOTH)
        yield "probes have a port: a probe of web2 by it", self.probed(PORT, world.GATEWAY_IP, self.reaches("gateway")), [BY_PORT], BOTH
        yield "probes have a port: by it with another address", self.probed(PORT, world.NODE, self.reaches("node")), [BY_PORT], BOTH

    def reaches(self, sees):
        """By TCP and by UDP."""

        def run(family):
            told = self.one(NODE, WEB2.v4, HTTP, "web2", sees)(family)
            try:
                who, seen = traffic.ask_datagram(self.space[NODE], of(WEB2.v4, family), HTTP)
            except OSError as error:
                raise Failure(f"UDP: {error!r}") from error
            self._same(who, "web2", self.owners.get(seen, seen), sees)
            return told

        return run

    def probed(self, interface, source, action):
        """An action of the host's, whose packets for web2 leave by this interface with this
        address."""

        def run(family):
            way = (of(WEB2.v4, family), "dev", interface, "src", of(source, family))
            self.node.ip(NODE, "route", "replace", *way)
            try:
                return action(family)
            finally:
                self.node.ip(NODE, "route", "del", *way)

        return run

    def spoofed(self, family):
        """It does not come to web2, to which something that is sent later comes."""
        ends = (of(world.GATEWAY_IP, family), of(WEB2.v4, family))
        frame = packets.frame((CLIENT.mac, WEB2.mac), ends, TCP, packets.segment(ends, (1000, HTTP), 1))
        data = b"after the spoofed one"
        with traffic.Listener(self.space[WEB2.name], self.node.interface(WEB2)) as listener:
            traffic.send_frame(self.space[CLIENT.name], self.node.interface(CLIENT), frame)
            traffic.send_datagram(self.space[NODE], of(WEB2.v4, family), HTTP, data)
            frames = listener.frames(lambda frames: any(data in one for one in frames))
        if frame in frames or not any(data in one for one in frames):
            raise Failure("it arrives" if frame in frames else "the host's probe does not arrive")
        return "dropped"
