"""What policies of one Node refuse to the other: the answer goes into the tunnel that the packet
came by, and is translated back where the packet was translated."""

from . import world
from .actions import BOTH, HTTP, PROHIBITED, Actions
from .crossing import SIDES, at
from .manifests import document, text_of
from .node import NODE, both, within
from .refusals import ELSEWHERE, TUNNEL
from .world import CLIENT, DB, GATEWAY, WEB2

NAMES = {1: "k8s-node-control-plane", 2: "k8s-node-worker-1"}


def service_of(side, pod):
    """The address of the Service whose only Endpoint is that Pod of a Node."""
    return f"10.101.255.{ {WEB2.name: 40, DB.name: 50}[pod.name] + side.number}"


def manifests():
    """The cluster of both Nodes, as documents of YAML."""
    documents = [document("v1", "Namespace", "default")]
    for side in SIDES:
        documents += node_documents(side)
        documents += [pod_document(side, pod) for pod in side.pods]
        documents += [_service(side, pod) for pod in (WEB2, DB)]
    documents.append(policy("refuse-to-web2", WEB2, ingress=[{"action": "Reject", "name": "RefuseAll"}]))
    to_db = {"action": "Reject", "name": "RefuseToDb", "to": [{"podSelector": {"matchLabels": {"app": DB.name}}}]}
    documents.append(policy("refuse-from-client", CLIENT, egress=[to_db]))
    return text_of(documents)


def host_manifests():
    """What the hosts of both Nodes are set up for: the Nodes, and where Services answer outside of
    their cluster IPs."""
    documents = [document("v1", "Namespace", "default")]
    for side in SIDES:
        for one in node_documents(side):
            if one["kind"] == "NodeConfig":
                one["spec"]["host"] = {"podsKeepAddresses": True}
            documents.append(one)
    ingress = [{"ip": one} for address in (world.LOAD_BALANCER, world.LOCAL_POLICY) for one in both(address)]
    spec = {"type": "LoadBalancer", "clusterIPs": list(both("10.101.255.60")), "ipFamilies": ["IPv4", "IPv6"],
            "externalIPs": list(both(world.EXTERNAL)), "ports": [{"name": "tcp", "protocol": "TCP", "port": HTTP}]}
    documents.append(document("v1", "Service", "outside", "default", spec=spec, status={"loadBalancer": {"ingress": ingress}}))
    return text_of(documents)


def node_documents(side, **features):
    """A Node of the two, and how its switch is configured."""
    name, addresses = NAMES[side.number], both(side.of(world.NODE))
    status = {"addresses": [{"type": "InternalIP", "address": address} for address in addresses]}
    yield document("v1", "Node", name, spec={"podCIDRs": list(both(side.of("10.10.0.0/24")))}, status=status)
    yield document("vswitch/v1", "NodeConfig", name, spec={
        "bridge": "br0", "trafficMode": "Encap", "transportAddresses": within(addresses),
        "gateway": {"port": GATEWAY, "mac": side.of(world.GATEWAY_MAC), "addresses": list(both(side.of(world.GATEWAY_IP)))},
        "tunnel": {"port": world.TUNNEL}, "serviceCIDRs": list(both("10.96.0.0/12")), "features": {"proxyAll": True} | features,
    })


def pod_document(side, pod):
    """A Pod of one of the Nodes, named by both."""
    metadata = {"labels": {"app": pod.name, "node": str(side.number)}, "annotations": {"vswitch/port": pod.port, "vswitch/mac": pod.mac}}
    return document("v1", "Pod", f"{pod.name}-{side.number}", "default", metadata, spec={"nodeName": NAMES[side.number]},
                     status={"podIPs": [{"ip": pod.v4}, {"ip": pod.v6}]})


def _service(side, pod):
    ports = [{"name": protocol.lower(), "protocol": protocol, "port": HTTP} for protocol in ("TCP", "UDP")]
    name = f"{pod.name}-{side.number}"
    selector = {"app": pod.name, "node": str(side.number)}
    return document("v1", "Service", name, "default", spec={"clusterIPs": list(both(service_of(side, pod))), "ipFamilies": ["IPv4", "IPv6"],
                                                             "selector": selector, "ports": ports})


def policy(name, pod, **rules):
    """A policy of Antrea's for a Pod of either Node."""
    selected = [{"podSelector": {"matchLabels": {"app": pod.name}}}]
    return document("crd.antrea.io/v1beta1", "ClusterNetworkPolicy", name, spec={"priority": 1, "tier": "application", "appliedTo": selected} | rules)


class Refusals(Actions):
    """Scenes, as `crossing.Crossing`."""

    def __init__(self, both_nodes):
        super().__init__(both_nodes, {})

    def all(self):
        """In order."""
        for here in SIDES:
            there, client = here.other, at(here, CLIENT.name)
            web2, db = at(there, WEB2.name), at(there, DB.name)
            tunnel, elsewhere = [(f"node {there.number}", TUNNEL)], [(f"node {here.number}", ELSEWHERE)]
            for title, address, rules in ((f"{client} -> {web2}", there.of(WEB2.v4), tunnel), (f"{client} -> ClusterIP -> {web2}", service_of(there, WEB2), tunnel),
                                          (f"{client} -> {db}, client's policy", there.of(DB.v4), elsewhere),
                                          (f"{client} -> ClusterIP -> {db}, client's policy", service_of(there, DB), elsewhere)):
                yield f"Reject: {title}", self.refused(client, address, HTTP, PROHIBITED), rules, BOTH
            yield f"Reject: the internet -> node@{here.number} -> ClusterIP -> {web2}", self.from_internet(here, service_of(there, WEB2)), tunnel, BOTH

    def from_internet(self, here, address):
        """A client that the pipeline does not know comes by the Node, as from outside: what it asks
        is sent on with the gateway's address."""
        short = at(here, NODE)
        refused = self.refused(short, address, HTTP, PROHIBITED)

        def run(family):
            which = family == 6
            route = (both(address)[which], "via", both(world.VIRTUAL_SERVICE)[which], "dev", GATEWAY, "onlink", "src", both(world.INTERNET)[which])
            self.node.ip(short, "route", "add", *route)
            try:
                return refused(family)
            finally:
                self.node.ip(short, "route", "del", both(address)[which])

        return run
