"""What goes wrong, or changes, in the same world: an Endpoint moves, agents are killed, a user
changes the host, and the host gets back what it had."""

import dataclasses

from .. import machine
from ..antrea import traffic
from ..antrea.actions import BOTH
from ..machine import Failure
from . import cluster
from .cluster import HTTP
from .world import ONE, OUTSIDE, SERVICES, UNDERLAY, of

SOON_S = 1.0  # for one try
HOST, NEXT_HOP = "169.254.169.2", "169.254.169.4"
MOVING = dataclasses.replace(cluster.HERE, name="moving", last=30, node_port=30040, endpoints=(cluster.WEB_1,), external="Local")
ON_HOST = dataclasses.replace(MOVING, endpoints=(cluster.HOST_1,))


class Failures:
    """Scenes on a Bed, in a mode: functions that return what happened, by titles."""

    def __init__(self, bed, mode):
        self.bed, self.mode = bed, mode

    def all(self):
        """All of them."""
        yield "an Endpoint moves from a Pod to the host, and back: outside -> NodePort", self.moves
        yield "both agents of Node 1 are killed, and come back", self.killed
        for title, command, item in (
            ("a route", ("ip", "route", "del", SERVICES), f"route {SERVICES}"),
            ("a masquerade address", ("ip", "address", "del", f"{HOST}/29", "dev", UNDERLAY), f"address {HOST}/29"),
            ("a neighbour", ("ip", "neighbour", "del", NEXT_HOP, "dev", UNDERLAY), f"neighbour {NEXT_HOP}"),
            ("the table of nftables", ("nft", "delete", "table", "inet", "vswitch"), "table inet vswitch"),
        ):
            yield f"host@1 loses {title}", lambda command=command, item=item: self.repaired(command, item)
        yield "--host-clear on host@1, and the agent again", self.cleared

    def moves(self):
        """New connections reach the Endpoint where it is."""
        told, outside = [], self.bed.names["outside"]
        try:
            for service, who in ((MOVING, "web@1"), (ON_HOST, "host@1"), (MOVING, "web@1")):
                self.bed.declare(self.mode, (*cluster.SERVICES, service))
                for ask in (traffic.ask, traffic.ask_datagram):
                    for family in BOTH:
                        where, wanted = (outside, of(ONE.address, family), MOVING.node_port), (who, of(OUTSIDE, family))
                        _expect(wanted, lambda ask=ask, where=where: ask(*where, SOON_S))
                told.append(who)
        finally:
            self.bed.declare(self.mode)
        is_gone = lambda: str(MOVING.node_port) not in self.bed.snapshot(ONE)  # noqa: E731
        machine.expect("the host knows the NodePort no more", is_gone)
        return f"{', '.join(told)} answer in turn, and see outside"

    def _works(self):
        """The host reaches a Pod, itself and its NodePort by Services."""
        near, here = cluster.NEAR, cluster.HERE
        asked = (near.cluster_ip, HTTP, "web@1"), (here.cluster_ip, HTTP, "host@1"), (ONE.address, near.node_port, "web@1")
        for address, port, who in asked:
            for family in BOTH:
                heard = traffic.ask(self.bed.names["host@1"], of(address, family), port)[0]
                if heard != who:
                    raise Failure(f"{heard} answers at {of(address, family)}, not {who}")

    def killed(self):
        """What they did stays; when they come back, they go on."""
        before = self.bed.snapshot(ONE)
        self.bed.kill(ONE)
        self._works()
        self.bed.follow(ONE)
        self.bed.wait_told(ONE, self.mode)
        self._works()
        self._same(before)
        return "without them everything goes on; with them again the host is as before"

    def repaired(self, command, item):
        """The agent sees it at once, and puts it right."""
        before = self.bed.snapshot(ONE)
        self.bed.run("host@1", *command)
        self._same(before)
        agent = self.bed.host_agents[ONE]
        machine.expect("the repair is reported", lambda: any(one.startswith(item) for one in agent.repaired()), agent.told)
        self._works()
        return f"repaired, and reported: {next(one for one in agent.repaired() if one.startswith(item))}"

    def cleared(self):
        """The host is as it was before any agent came."""
        agent = self.bed.host_agents[ONE]
        agent.end()
        planned = self.bed.snapshot(ONE)
        agent.clear()
        if difference := _difference(self.bed.before[ONE], self.bed.snapshot(ONE)):
            raise Failure(f"the host is not as before: {difference}")
        machine.end(self.bed.agents[ONE])
        self.bed.follow(ONE)
        self.bed.wait_told(ONE, self.mode)
        self._same(planned)
        self._works()
        return "addresses, routes, rules, neighbours, nftables and sysctls are as before; then as planned again"

    def _same(self, before):
        now = lambda: self.bed.snapshot(ONE)  # noqa: E731
        machine.expect("the host is as before", lambda: now() == before, lambda: _difference(before, now()))


def _expect(wanted, ask):
    """Waits for an answer: who answers, and whom it sees."""
    heard = []

    def hears():
        try:
            heard[:] = ask()
        except OSError as error:
            heard[:] = [error]
        return heard == [*wanted]

    machine.expect(f"{wanted[0]} answers, and sees {wanted[1]}", hears, lambda: heard)


def _difference(one, other):
    """Lines that only one of two texts has."""
    one, other = one.splitlines(), other.splitlines()
    return "; ".join([f"-{line.strip()}" for line in one if line not in other] + [f"+{line.strip()}" for line in other if line not in one])
