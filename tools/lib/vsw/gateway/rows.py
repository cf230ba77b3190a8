"""The scenarios of OVN-Kubernetes' documents by their numbers: who asks whom, who answers, whose
address it sees, and which flows of the gateway bridges lead there, as docs/gateway.md has them."""

import dataclasses

from . import cluster, world
from .cluster import HTTP
from .world import HOST_PORT, HOSTS, ONE, OUTSIDE_PORT, POD_PORT, SIDE, TWO

REFUSED = {}
# Ways through a gateway bridge. Those in parentheses need a second packet of who asks: TCP's.
BY_TUNNEL = "0:200 0:205"
TO_SERVICE = "0:501 0:500 2:100 3:100"  # a host asks, and is answered
TO_ITSELF = "0:501 0:510 0:500 2:100 3:100 4:100 5:100"
TO_WIRE = "0:102 0:50 1:100"  # a host asks, and the wire answers
AT_HOST = "0:102 0:50 1:10 (1:100)"  # the wire asks, and the host answers
TO_ENDPOINT = "0:111 0:50 1:95 6:110 7:110"  # likewise, at the port of a Service
TO_PODS = "0:100 0:50 1:90 (1:100)"  # the wire asks, and the Pods' side answers
TO_BALANCER = "0:110 0:50 1:90 (1:100)"  # likewise, with another address
BY_HOST = f"{AT_HOST} 0:500 2:100 3:100"  # the wire asks the host, which forwards to the Pods' side


@dataclasses.dataclass(frozen=True)
class Row:
    """A scenario: `source` asks, and one of `answers`, {who: whom it sees}, answers; without any it
    is refused. `flows` are those of the gateway bridges, of Node 1 and of Node 2."""

    number: str
    title: str
    source: str
    address: str
    port: int
    answers: dict
    flows: tuple
    past_hosts: bool = False  # no packet of it comes to a host

    def wanted(self, protocol):
        """Flows that count, by Node."""
        is_tcp = protocol == "TCP"
        return {host: {word.strip("()") for word in text.split() if is_tcp or word[0] != "("} for host, text in zip(HOSTS, self.flows)}


def rows(mode):
    """All of them, in a mode."""
    return (Shared if mode == "Shared" else Local)().all()


class Shared:
    """The wire and the Pods' side meet past the hosts."""

    HOST_ELSEWHERE = "2"

    def all(self):
        """All rows."""
        yield from self.of_host()
        yield from self.local_policy()
        yield from self.local_policy_of_hosts()
        yield from self.cluster_policy()
        yield from self.internal_policy()
        yield from self.beside()

    # Where the modes differ.

    def pod(self, number, title, address, port, answers, by_tunnel=False, balanced=False, host=ONE):
        """The wire asks for a Service with Endpoints that are Pods."""
        way, other = TO_BALANCER if balanced else TO_PODS, ""
        if by_tunnel:
            way, other = f"{way} {BY_TUNNEL}", BY_TUNNEL
        return self._outside(number, title, address, port, answers, way, other, host)

    def refused(self, number, title, address, port, host, balanced=False):
        """The wire asks where no Endpoint is."""
        way = TO_BALANCER if balanced else TO_PODS
        return self._outside(number, title, address, port, REFUSED, way.replace(" (1:100)", ""), "", host)

    @staticmethod
    def _outside(number, title, address, port, answers, way, other, host):
        return Row(number, title, "outside", address, port, answers, (way, other) if host == ONE else (other, way), past_hosts=True)

    def local_policy(self):
        """Rows 5, 7, 8."""
        yield self.pod("5", "NodePort, policy Local -> Pod", ONE.address, cluster.LOCAL.node_port, {"web@1": "outside"})
        yield self.pod("5", "load balancer, policy Local -> Pod", cluster.LOCAL.balancer, HTTP, {"web@1": "outside"},
                       balanced=True)
        yield self.refused("7", "NodePort, policy Local, no Endpoint here", TWO.address, cluster.LOCAL.node_port, TWO)
        yield self.pod("8", "load balancer without NodePort -> Pod", cluster.BALANCED.balancer, HTTP, {"web@1": "outside"},
                       balanced=True)
        yield self.refused("8", "load balancer without NodePort or Endpoint", cluster.UNBALANCED.balancer, HTTP, ONE,
                           balanced=True)

    def other_node(self, is_refused):
        """What the other Node's gateway bridge does for a host that asks at its NodePort."""
        return TO_PODS.replace(" (1:100)", "") if is_refused else TO_PODS

    def cluster_policy(self):
        """Rows 11, 13."""
        yield Row("11", "NodePort -> host elsewhere", "outside", ONE.address, cluster.ELSEWHERE.node_port, {"host@2": "host@1"},
                  (f"0:100 0:50 1:90 {TO_WIRE}", AT_HOST))
        yield self.pod("13", "NodePort -> Pod", ONE.address, cluster.NEAR.node_port, {"web@1": "outside"})
        yield self.pod("13", "load balancer -> Pod", cluster.NEAR.balancer, HTTP, {"web@1": "outside"}, balanced=True)
        yield self.pod("13", "NodePort -> Pod elsewhere", ONE.address, cluster.REMOTE.node_port, {"web@2": "gateway@1"},
                       by_tunnel=True)

    def not_of_cluster_ip(self):
        """Row 19 from the wire."""
        yield self.pod("19", "NodePort, internal policy Local -> Pod elsewhere", TWO.address, cluster.INNER.node_port,
                       {"web@1": "gateway@2"}, by_tunnel=True, host=TWO)
        yield self.pod("19", "load balancer, internal policy Local -> Pod elsewhere", cluster.INNER.balancer, HTTP,
                       {"web@1": "gateway@2"}, by_tunnel=True, balanced=True, host=TWO)

    def beside(self):
        """What is beside the rows: Pods to the world outside, and to each other."""
        yield Row("", "the world outside", "client@1", world.FAR, OUTSIDE_PORT, {"outside": "host@1"}, ("0:100 0:50 1:100", ""),
                  past_hosts=True)
        yield Row("", "Pod elsewhere", "client@1", TWO.pod(world.PODS["web"]), POD_PORT, {"web@2": "client@1"},
                  (BY_TUNNEL, BY_TUNNEL), past_hosts=True)
        yield Row("", "the world outside", "host@1", world.FAR, OUTSIDE_PORT, {"outside": "host@1"}, ("0:100 0:50 1:100", ""))
        yield Row("", "host", "outside", ONE.address, HOST_PORT, {"host@1": "outside"}, ("0:50 1:10 0:111 7:100 (1:100)", ""))

    # Where they do not.

    def of_host(self):
        """Rows 1 to 4, 12."""
        yield Row("1", "ClusterIP -> Pod", "host@1", cluster.NEAR.cluster_ip, HTTP, {"web@1": "gateway@1"}, (TO_SERVICE, ""))
        yield Row("1", "ClusterIP -> Pod elsewhere", "host@1", cluster.REMOTE.cluster_ip, HTTP, {"web@2": "gateway@1"},
                  (f"{TO_SERVICE} {BY_TUNNEL}", BY_TUNNEL))
        yield Row(self.HOST_ELSEWHERE, "ClusterIP -> host elsewhere", "host@1", cluster.ELSEWHERE.cluster_ip, HTTP,
                  {"host@2": "host@1"}, (f"{TO_SERVICE} {TO_WIRE}", AT_HOST))
        yield Row("3", "ClusterIP -> host itself", "host@1", cluster.HERE.cluster_ip, HTTP, {"host@1": SIDE}, (TO_ITSELF, ""))
        yield Row("4", "ClusterIP -> other address of the host itself", "host@1", cluster.OTHER.cluster_ip, HTTP, {"host@1": SIDE},
                  (TO_ITSELF, ""))

    def local_policy_of_hosts(self):
        """Rows 9, 10."""
        sees = {"host@1": "outside"}
        yield Row("9", "NodePort, policy Local -> host", "outside", ONE.address, cluster.HOST_LOCAL.node_port, sees,
                  (TO_ENDPOINT, ""))
        yield Row("9", "load balancer, policy Local -> host", "outside", cluster.HOST_LOCAL.balancer, HTTP, sees,
                  (TO_ENDPOINT, ""))
        sees, ways = {"web@2": "gateway@1"}, (f"{TO_SERVICE} {BY_TUNNEL}", BY_TUNNEL)
        yield Row("10", "own NodePort, policy Local -> Pod elsewhere", "host@1", ONE.address, cluster.FAR_LOCAL.node_port, sees,
                  ways)
        yield Row("10", "load balancer, policy Local -> Pod elsewhere", "host@1", cluster.FAR_LOCAL.balancer, HTTP, sees, ways)
        yield Row("10", "other Node's NodePort, policy Local -> Pod there", "host@1", TWO.address, cluster.FAR_LOCAL.node_port,
                  {"web@2": "host@1"}, (TO_WIRE, self.other_node(False)))
        yield Row("10", "other Node's NodePort, policy Local, no Endpoint there", "host@1", TWO.address, cluster.LOCAL.node_port,
                  REFUSED, (TO_WIRE, self.other_node(True)))

    def internal_policy(self):
        """Rows 14 to 19."""
        inner, port = cluster.INNER, cluster.INNER.node_port
        yield Row("14", "ClusterIP, internal policy Local -> Pod", "client@1", inner.cluster_ip, HTTP, {"web@1": "client@1"},
                  ("", ""), past_hosts=True)
        yield Row("14", "ClusterIP, internal policy Local, no Endpoint here", "client@2", inner.cluster_ip, HTTP, REFUSED, ("", ""),
                  past_hosts=True)
        for what, address, number in (("NodePort", TWO.address, port), ("load balancer", inner.balancer, HTTP)):
            yield Row("14", f"{what}, internal policy Local -> Pod elsewhere", "client@2", address, number, {"web@1": "client@2"},
                      (BY_TUNNEL, BY_TUNNEL), past_hosts=True)
        yield Row("15", "ClusterIP, internal policy Local -> Pod", "host@1", inner.cluster_ip, HTTP, {"web@1": "gateway@1"},
                  (TO_SERVICE, ""))
        yield Row("16", "ClusterIP, internal policy Local, no Endpoint here", "host@2", inner.cluster_ip, HTTP, REFUSED,
                  ("", "0:501 2:100 0:505"))
        yield Row("17", "ClusterIP, internal policy Local -> host itself", "host@1", cluster.INNER_HOSTS.cluster_ip, HTTP,
                  {"host@1": SIDE}, (TO_ITSELF, ""))
        yield Row("17", "ClusterIP, internal policy Local -> host itself", "host@2", cluster.INNER_HOSTS.cluster_ip, HTTP,
                  {"host@2": SIDE}, ("", TO_ITSELF))
        yield Row("18", "ClusterIP, internal policy Local -> Pod, host itself", "host@1", cluster.INNER_BOTH.cluster_ip, HTTP,
                  {"web@1": "gateway@1", "host@1": SIDE}, (TO_ITSELF, ""))
        yield from self.not_of_cluster_ip()
        yield Row("19", "own NodePort, internal policy Local -> Pod elsewhere", "host@2", TWO.address, port,
                  {"web@1": "gateway@2"}, (BY_TUNNEL, BY_TUNNEL))


class Local(Shared):
    """The hosts' routing leads packets between the wire and the Pods' side."""

    HOST_ELSEWHERE = "12"

    def local_policy(self):
        """Rows 6, 7, 8."""
        local = cluster.LOCAL
        yield Row("6", "NodePort, policy Local -> Pod", "outside", ONE.address, local.node_port, {"web@1": "outside"},
                  (AT_HOST, ""))
        yield Row("6", "load balancer, policy Local -> Pod", "outside", local.balancer, HTTP, {"web@1": "outside"},
                  (AT_HOST, ""))
        yield Row("7", "NodePort, policy Local, no Endpoint here", "outside", TWO.address, local.node_port, REFUSED,
                  ("", self.other_node(True)))
        yield Row("8", "load balancer without NodePort -> Pod", "outside", cluster.BALANCED.balancer, HTTP,
                  {"web@1": "gateway@1"}, (BY_HOST, ""))
        yield Row("8", "load balancer without NodePort or Endpoint", "outside", cluster.UNBALANCED.balancer, HTTP, REFUSED,
                  ("0:50 1:10 0:500 2:100 0:505 0:102", ""))

    def other_node(self, is_refused):
        """As of another client on the wire."""
        return AT_HOST.replace(" (1:100)", "") if is_refused else AT_HOST

    def cluster_policy(self):
        """Rows 11, 13."""
        yield Row("11", "NodePort -> host elsewhere", "outside", ONE.address, cluster.ELSEWHERE.node_port, {"host@2": "host@1"},
                  (f"{BY_HOST} {TO_WIRE}", AT_HOST))
        for what, address, port in (("NodePort", ONE.address, cluster.NEAR.node_port), ("load balancer", cluster.NEAR.balancer, HTTP)):
            yield Row("13", f"{what} -> Pod", "outside", address, port, {"web@1": "gateway@1"}, (BY_HOST, ""))
        yield Row("13", "NodePort -> Pod elsewhere", "outside", ONE.address, cluster.REMOTE.node_port, {"web@2": "gateway@1"},
                  (f"{BY_HOST} {BY_TUNNEL}", BY_TUNNEL))

    def not_of_cluster_ip(self):
        """Row 19 from the wire."""
        sees = {"web@1": "gateway@2"}
        yield Row("19", "NodePort, internal policy Local -> Pod elsewhere", "outside", TWO.address, cluster.INNER.node_port,
                  sees, (BY_TUNNEL, f"{AT_HOST} {BY_TUNNEL}"))
        yield Row("19", "load balancer, internal policy Local -> Pod elsewhere", "outside", cluster.INNER.balancer, HTTP, sees,
                  (BY_TUNNEL, f"{BY_HOST} {BY_TUNNEL}"))

    def beside(self):
        """What is beside the rows, by the host."""
        for row in super().beside():
            yield dataclasses.replace(row, past_hosts=False)
