"""Services and their EndpointSlices as manifests, which scenes bring, change and take away; and how
the world outside reaches them."""

from .. import machine
from . import world
from .actions import BOTH, HTTP, of
from .manifests import document, text_of, write
from .node import OUTSIDE
from .world import WEB2

HERE, THERE = "k8s-node-control-plane", "k8s-node-worker-1"
READY = {"ready": True, "serving": True, "terminating": False}
NOT_READY = {"conditions": {"ready": False, "serving": False}}
ENDS = {"conditions": {"ready": False, "serving": True, "terminating": True}}


def at(v4, node=None, weight=None, **more):
    """An Endpoint: its slice's annotations, and what the slice says of it in a family."""
    where = {"nodeName": node} if node else {}
    return ({"vswitch/weight": str(weight)} if weight else {}), lambda family: {"addresses": [of(v4, family)]} | where | more


def web2(**more):
    """The Pod of this Node."""
    return at(WEB2.v4, HERE, **more)


def peer(**more):
    """The Pod of the other Node."""
    return at(world.REMOTE, THERE, **more)


def port(protocol, number=HTTP, target=None, node=None):
    """A port of a Service."""
    whole = {"name": protocol.lower(), "protocol": protocol, "port": number, "targetPort": target or number}
    return whole | ({"nodePort": node} if node else {})


def service(cluster_ip, *endpoints, load_balancer=None, external=None, ports=None, node_port=None, annotations=None, **spec):
    """A Service of both families, for TCP and UDP if nothing else is said, with a slice for each
    Endpoint. `load_balancer`, `external`: its addresses outside."""
    name = f"kind-{cluster_ip.rpartition('.')[2]}"
    ports = ports or [port(protocol, node=node_port) for protocol in ("TCP", "UDP")]
    ingress = [{"ip": of(load_balancer, family)} for family in BOTH] if load_balancer else []
    if external:
        spec["externalIPs"] = [of(external, family) for family in BOTH]
    spec = {"clusterIPs": [of(cluster_ip, family) for family in BOTH], "ipFamilies": ["IPv4", "IPv6"],
            "type": "LoadBalancer" if ingress else "ClusterIP", "ports": ports} | spec
    yield document("v1", "Service", name, "default", {"annotations": annotations or {}}, status={"loadBalancer": {"ingress": ingress}}, spec=spec)
    there = [{"name": one["name"], "protocol": one["protocol"], "port": one["targetPort"]} for one in ports]
    for number, (notes, endpoint) in enumerate(endpoints):
        for family in BOTH:
            metadata = {"labels": {"kubernetes.io/service-name": name}, "annotations": notes}
            yield document("discovery.k8s.io/v1", "EndpointSlice", f"{name}-{number}-{family}", "default", metadata, addressType=f"IPv{family}", ports=there,
                           endpoints=[endpoint(family)])


class Services:
    """A file of such manifests; it goes when `stack` ends, and so does what the host has for
    them."""

    def __init__(self, node, switch, file, stack):
        self.node, self.switch, self.file, self.stack = node, switch, file, stack
        self.parts, self.names = {}, set()
        stack.callback(self._end)

    def tell(self, **parts):
        """Has these parts of the file, {name: manifests}, say this; the others stay. Waits until
        the switch has all Endpoints as they are told."""
        self.parts |= {name: list(documents) for name, documents in parts.items()}
        documents = [one for part in self.parts.values() for one in part]
        self.names |= {f"default/{one['metadata']['name']}" for one in documents if one["kind"] == "Service"}
        write(self.file, text_of(documents))
        expected = endpoints(documents)
        machine.expect("the switch has these Services with their Endpoints", lambda: self._there() == expected, self._there)

    def reach(self, host):
        """Has the world outside know the way to what is told so far, and waits until the agent of
        the Node's host does."""
        for one in (one for part in self.parts.values() for one in part if one["kind"] == "Service"):
            for target in [*one["spec"].get("externalIPs", []), *(ingress["ip"] for ingress in one["status"]["loadBalancer"]["ingress"])]:
                self.node.ip(OUTSIDE, "route", "add", target, "via", of(world.NODE, 6 if ":" in target else 4))
                self.stack.callback(self.node.ip, OUTSIDE, "route", "del", target)
        host.settled()

    def _there(self):
        """As `endpoints`, by the switch."""
        services = [one for one in self.switch.json("antrea", "services") if one["name"] in self.names]
        return {(one["name"], each["name"], endpoint["address"]): {word: endpoint[word] for word in READY}
                for one in services for each in one["ports"] for endpoint in each["endpoints"]}

    def _end(self):
        self.file.unlink(missing_ok=True)
        # What follows looks at flows.
        told = lambda: [one["name"] for one in self.switch.json("antrea", "services") if one["name"] in self.names]  # noqa: E731
        machine.expect("the switch does without these Services", lambda: not told(), told)


def endpoints(documents):
    """{(Service, port, address): conditions} of slices."""
    found = {}
    for one in documents:
        if one["kind"] == "EndpointSlice":
            name = f"default/{one['metadata']['labels']['kubernetes.io/service-name']}"
            found |= {(name, each["name"], endpoint["addresses"][0]): READY | endpoint.get("conditions", {}) for each in one["ports"] for endpoint in one["endpoints"]}
    return found
