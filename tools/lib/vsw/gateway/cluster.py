"""The cluster as Kubernetes manifests: two Nodes, their Pods, and a Service for each kind of
scenario."""

import dataclasses

from ..antrea.manifests import document
from . import world
from .world import HOST_PORT, HOSTS, ONE, PODS, POD_PORT, TWO, both, on_link

HTTP = 80
WEB_1, WEB_2 = (ONE.pod(PODS["web"]), POD_PORT, ONE), (TWO.pod(PODS["web"]), POD_PORT, TWO)
HOST_1, HOST_2, OTHER_1 = (ONE.address, HOST_PORT, ONE), (TWO.address, HOST_PORT, TWO), (ONE.other, HOST_PORT, ONE)


@dataclasses.dataclass(frozen=True)
class Service:
    """A Service for TCP and UDP. `last` ends its cluster IP; `endpoints` are (address, port,
    Node)."""

    name: str
    last: int
    endpoints: tuple
    node_port: int = 0
    balancer: str = ""
    at: world.Host = ONE  # who answers for the load balancer's address
    external: str = "Cluster"
    internal: str = "Cluster"

    @property
    def cluster_ip(self):
        """Its cluster IP."""
        return f"10.96.0.{self.last}"

    def documents(self):
        """As manifests."""
        ports = [{"name": word.lower(), "protocol": word, "port": HTTP,
                  "targetPort": self.endpoints[0][1]} | ({"nodePort": self.node_port} if self.node_port else {})
                 for word in ("TCP", "UDP")]
        kind = "LoadBalancer" if self.balancer else "NodePort" if self.node_port else "ClusterIP"
        spec = {"type": kind, "clusterIPs": list(both(self.cluster_ip)), "ipFamilies": ["IPv4", "IPv6"], "ports": ports,
                "internalTrafficPolicy": self.internal}
        if kind != "ClusterIP":
            spec["externalTrafficPolicy"] = self.external
        if self.balancer and not self.node_port:
            spec["allocateLoadBalancerNodePorts"] = False
        status = {"status": {"loadBalancer": {"ingress": [{"ip": one} for one in both(self.balancer)]}}} if self.balancer else {}
        yield document("v1", "Service", self.name, "default", spec=spec, **status)
        for number, (address, port, host) in enumerate(self.endpoints):
            for family, one in zip((4, 6), both(address)):
                yield document("discovery.k8s.io/v1", "EndpointSlice", f"{self.name}-{number}-ipv{family}", "default",
                               {"labels": {"kubernetes.io/service-name": self.name}},
                               addressType=f"IPv{family}", ports=[{"name": word.lower(), "protocol": word,
                                                                   "port": port} for word in ("TCP", "UDP")],
                               endpoints=[{"addresses": [one], "nodeName": host.name, "conditions": {"ready": True}}])


NEAR = Service("near", 10, (WEB_1,), node_port=31746, balancer="172.18.0.10")
REMOTE = Service("remote", 11, (WEB_2,), node_port=31842)
ELSEWHERE = Service("host-elsewhere", 12, (HOST_2,), node_port=30950)
HERE = Service("host-here", 13, (HOST_1,), node_port=30011)
OTHER = Service("host-other", 14, (OTHER_1,))
LOCAL = Service("local", 15, (WEB_1,), node_port=31747, balancer="172.18.0.15", external="Local")
FAR_LOCAL = Service("far-local", 16, (WEB_2,), node_port=31749, balancer="172.18.0.13", external="Local")
BALANCED = Service("balanced", 17, (WEB_1,), balancer="172.18.0.11", external="Local")
UNBALANCED = Service("unbalanced", 18, (WEB_2,), balancer="172.18.0.12", external="Local")
HOST_LOCAL = Service("host-local", 19, (HOST_1,), node_port=30012, balancer="172.18.0.14", external="Local")
INNER = Service("inner", 20, (WEB_1,), node_port=31358, balancer="172.18.0.9", at=TWO, internal="Local")
INNER_HOSTS = Service("inner-hosts", 21, (HOST_1, HOST_2), internal="Local")
INNER_BOTH = Service("inner-both", 22, (WEB_1, HOST_1), internal="Local")
SERVICES = (NEAR, REMOTE, ELSEWHERE, HERE, OTHER, LOCAL, FAR_LOCAL, BALANCED, UNBALANCED, HOST_LOCAL, INNER, INNER_HOSTS, INNER_BOTH)


def documents(mode, services=SERVICES):
    """All of it, with gateway bridges of this mode."""
    yield document("v1", "Namespace", "default")
    for host in HOSTS:
        yield from _node(host, mode)
        yield from _pods(host)
    for service in services:
        yield from service.documents()


def _node(host, mode):
    status = {"addresses": [{"type": "InternalIP", "address": address} for address in both(host.address)]}
    yield document("v1", "Node", host.name, spec={"podCIDRs": list(both(host.pods))}, status=status)
    uplink = {
        "port": world.PATCH[0], "underlayBridge": world.UNDERLAY, "mac": host.mac,
        "nextHops": [{"address": address} for address in both(world.OUTSIDE)],
        "answeredAddresses": [one for service in SERVICES if service.balancer and service.at == host for one in both(service.balancer)],
        "gateway": {"mode": mode, "otherAddresses": list(both(host.other))},
    }
    yield document("vswitch/v1", "NodeConfig", host.name, spec={
        "bridge": "br0", "trafficMode": "Encap", "transportAddresses": list(on_link(host.address)), "tunnel": {"port": world.TUNNEL},
        "gateway": {"port": world.GATEWAY, "mac": host.gateway_mac, "addresses": list(both(host.pod(1)))},
        "uplink": uplink, "serviceCIDRs": list(both(world.SERVICES)), "features": {"proxyAll": True},
    })


def _pods(host):
    for pod, last in PODS.items():
        metadata = {"labels": {"app": pod}, "annotations": {"vswitch/port": f"{pod}0", "vswitch/mac": host.pod_mac(last)}}
        yield document("v1", "Pod", f"{pod}-{host.number}", "default", metadata, spec={"nodeName": host.name},
                       status={"podIPs": [{"ip": address} for address in both(host.pod(last))]})
