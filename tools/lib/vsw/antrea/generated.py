"""Manifests of a cluster of any size around four Pods of this Node: `client` may speak to `web`,
nobody may speak to `guarded`, and `stranger` to nobody."""

import json
import random
from dataclasses import dataclass

NODE, BRIDGE, GATEWAY, TUNNEL = "node-0", "br0", "antrea-gw0", "antrea-tun0"
GATEWAY_MAC = "02:00:00:0a:00:01"
# The last number of their addresses and MACs
PODS = {"client": 2, "web": 3, "guarded": 4, "stranger": 5}
PORT = 8080
SERVICE = ("10.96.0.80", "fd00:96::80")
PORT_POOL = 300
MEMBERS = 10


def addresses(number):
    """IPv4 and IPv6 of a Pod, or (1) of the gateway."""
    return f"10.10.0.{number}", f"fd00:10::{number}"


def mac(number):
    """A Pod's."""
    return f"02:00:00:0a:00:{number:02x}"


@dataclass(frozen=True)
class Size:
    """How much there is beside the four Pods."""

    services: int
    endpoints: int  # of each
    policies: int


def write(directory, size, seed=1):
    """Writes them as YAML (each document as JSON, which is YAML); with another seed the policies
    say something else."""
    parts = {"node": _node(), "pods": _pods(), "services": _services(size), "access": _access(), "policies": _policies(size, seed)}
    for name, documents in parts.items():
        text = "".join(f"---\n{json.dumps(document)}\n" for document in documents)
        # Whole at once: the agent looks at them meanwhile.
        hidden = directory / f".{name}"
        hidden.write_text(text)
        hidden.rename(directory / f"{name}.yaml")


def _meta(name, namespace="default", **more):
    return {"name": name, "namespace": namespace, **more}


def _node():
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {"podCIDRs": ["10.10.0.0/24", "fd00:10::/64"]},
           "status": {"addresses": [{"type": "InternalIP", "address": "192.168.77.102"}]}}
    gateway = {"port": GATEWAY, "mac": GATEWAY_MAC, "addresses": list(addresses(1))}
    spec = {"bridge": BRIDGE, "trafficMode": "Encap", "transportAddresses": ["192.168.77.102/24"], "gateway": gateway, "tunnel": {"port": TUNNEL},
            "serviceCIDRs": ["10.96.0.0/12", "fd00:96::/64"]}
    yield {"apiVersion": "vswitch/v1", "kind": "NodeConfig", "metadata": {"name": NODE}, "spec": spec}


def _pods():
    for name, number in PODS.items():
        notes = {"vswitch/port": f"{name}0", "vswitch/mac": mac(number)}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": _meta(name, labels={"app": name}, annotations=notes),
               "spec": {"nodeName": NODE}, "status": {"podIPs": [{"ip": address} for address in addresses(number)]}}


def _service(name, cluster_ips, slices, port):
    families = ["IPv6" if ":" in address else "IPv4" for address in cluster_ips]
    ports = [{"name": "p", "protocol": "TCP", "port": 80}]
    yield {"apiVersion": "v1", "kind": "Service", "metadata": _meta(name), "spec": {"clusterIPs": list(cluster_ips), "ipFamilies": families, "ports": ports}}
    for family, endpoints in zip(families, slices):
        meta = _meta(f"{name}-{family.lower()}", labels={"kubernetes.io/service-name": name})
        yield {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta, "addressType": family,
               "ports": [{"name": "p", "protocol": "TCP", "port": port}], "endpoints": endpoints}


def _services(size):
    here = [[{"addresses": [address], "nodeName": NODE}] for address in addresses(PODS["web"])]
    yield from _service("web", SERVICE, here, PORT)
    for number in range(size.services):
        first = number * size.endpoints
        endpoints = [{"addresses": [f"10.20.{place // 250}.{1 + place % 250}"]} for place in range(first, first + size.endpoints)]
        yield from _service(f"svc-{number}", [f"10.100.{number // 250}.{1 + number % 250}"], [endpoints], 9000)


def _selects(*names):
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": list(names)}]}


def _network_policy(name, selector, **spec):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": _meta(name), "spec": {"podSelector": selector, **spec}}


def _access():
    """Who may speak to whom; `guarded` is denied by a rule, the rest by isolation."""
    port = [{"protocol": "TCP", "port": PORT}]
    yield _network_policy("web", _selects("web"), policyTypes=["Ingress"], ingress=[{"from": [{"podSelector": _selects("client")}], "ports": port}])
    yield _network_policy("stranger", _selects("stranger"), policyTypes=["Egress"])
    drop = {"action": "Drop", "name": "all", "from": [{"podSelector": _selects(*PODS)}]}
    yield {"apiVersion": "crd.antrea.io/v1beta1", "kind": "ClusterNetworkPolicy", "metadata": {"name": "guarded"},
           "spec": {"priority": 1, "tier": "securityops", "appliedTo": [{"podSelector": _selects("guarded")}], "ingress": [drop]}}


def _policies(size, seed):
    """Each allows some addresses of nobody to one of the Pods: it isolates, and lets none of the
    others in."""
    chance = random.Random(seed)
    names = list(PODS)
    for number in range(size.policies):
        blocks = [{"ipBlock": {"cidr": f"10.30.{chance.randrange(200)}.{chance.randrange(250)}/32"}} for _ in range(MEMBERS)]
        ports = [{"protocol": "TCP", "port": 1000 + chance.randrange(PORT_POOL)}]
        yield _network_policy(f"policy-{number}", _selects(names[number % len(names)]), policyTypes=["Ingress"], ingress=[{"from": blocks, "ports": ports}])
