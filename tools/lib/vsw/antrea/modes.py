"""What is shown of traffic modes other than encap: Pods and Services of three Nodes, and that
policies hold, without tunnels or with some."""

import collections
import concurrent.futures

from .. import machine
from ..machine import Failure
from . import traffic, world
from .actions import ALT, BOTH, HTTP, PROHIBITED, Actions, of
from .ledger import Rule
from .manifests import document, text_of
from .node import both
from .three import HOSTS, PODS, SERVICES, node_documents, owners, pod_documents
from .trace_scenes import TraceScenes
from .unanswered import DATAGRAMS, same_endpoint
from .world import six

ONE, TWO, THREE = HOSTS
ALL = "10.96.0.10"  # web of every Node
REFUSED = 8081
# Of Services
PORTS = (("TCP", HTTP), ("UDP", HTTP), ("TCP", ALT), ("TCP", REFUSED), ("UDP", REFUSED))
BY_SENDER, BY_RECEIVER = "EgressDefaultRule priority=200", "IngressDefaultRule priority=200"
# Who asked is told: by the tunnel that it came by, or by whatever else.
TO_TUNNEL, BACK = "Output priority=201 reg0=0x4400001/0xfe60000f", "Output priority=200 reg0=0x4400000/0xfe600000"


def service_of(host):
    """The address of the Service whose only Endpoint is web of a Node."""
    return f"10.96.0.{20 + host.number}"


def hosts_service_of(host):
    """The address of the Service whose only Endpoint is a Node itself."""
    return f"10.96.0.{30 + host.number}"


def web(host):
    """The address of web of a Node."""
    return host.pod_address(PODS["web"])


def client(host):
    """The address of client of a Node."""
    return host.pod_address(PODS["client"])


def manifests(mode, **features):
    """The cluster in a traffic mode."""
    documents = [document("v1", "Namespace", "default")]
    for host in HOSTS:
        documents += [*node_documents(host, mode, **features), *pod_documents(host), *_service(f"web-{host.number}", service_of(host), [host])]
        documents += _service(f"host-{host.number}", hosts_service_of(host), [host], lambda host: host.address)
    return text_of([*documents, *_service("all", ALL, HOSTS), *_policies()])


def _service(name, address, hosts, endpoint=web):
    ports = [{"name": f"{protocol.lower()}-{port}", "protocol": protocol, "port": port} for protocol, port in PORTS]
    yield document("v1", "Service", name, "default", spec={"clusterIPs": list(both(address)), "ipFamilies": ["IPv4", "IPv6"], "ports": ports})
    for family in BOTH:
        endpoints = [{"addresses": [of(endpoint(host), family)], "nodeName": host.name} for host in hosts]
        yield document("discovery.k8s.io/v1", "EndpointSlice", f"{name}-{family}", "default", {"labels": {"kubernetes.io/service-name": name}},
                       addressType=f"IPv{family}", ports=ports, endpoints=endpoints)


def _policies():
    """Only client and Nodes may reach web; client may do nothing but ask web and Nodes at port 80:
    TCP by a policy of Antrea's, UDP by one of Kubernetes'. It may ask for REFUSED, too, which web
    refuses."""
    selected = {name: {"podSelector": {"matchLabels": {"app": name}}} for name in PODS}
    nodes = [address for host in HOSTS for one in (host.address, host.gateway) for address in both(one)]
    blocks = [{"ipBlock": {"cidr": f"{address}/{128 if ':' in address else 32}"}} for address in nodes]
    yield document("networking.k8s.io/v1", "NetworkPolicy", "web", "default",
                   spec=selected["web"] | {"policyTypes": ["Ingress"], "ingress": [{"from": [selected["client"], *blocks]}]})
    yield document("networking.k8s.io/v1", "NetworkPolicy", "client", "default", spec=selected["client"] | {
        "policyTypes": ["Egress"], "egress": [{"to": [selected["web"], *blocks], "ports": [{"protocol": "UDP", "port": HTTP}]}]})
    refused = [{"protocol": protocol, "port": REFUSED} for protocol in ("TCP", "UDP")]
    rule = {"action": "Allow", "name": "AskWeb", "to": [selected["web"], *blocks], "ports": [{"protocol": "TCP", "port": HTTP}, *refused]}
    yield _antrea_policy("client", selected["client"], egress=[rule])
    yield _antrea_policy("web", selected["web"], ingress=[{"action": "Reject", "name": "Refuse", "ports": refused}])


def _antrea_policy(name, selected, **rules):
    return document("crd.antrea.io/v1beta1", "ClusterNetworkPolicy", name, spec={"priority": 1, "tier": "application", "appliedTo": [selected]} | rules)


def proxy_rules():
    """What kube-proxy would have the kernel translate."""
    lines = []
    for host in HOSTS:
        for protocol, port in ((protocol.lower(), port) for protocol, port in PORTS):
            for service, endpoint in ((service_of(host), web(host)), (hosts_service_of(host), host.address)):
                lines.append(f"    ip daddr {service} {protocol} dport {port} dnat ip to {endpoint}:{port}")
                lines.append(f"    ip6 daddr {six(service)} {protocol} dport {port} dnat ip6 to [{six(endpoint)}]:{port}")
    return "\n".join(lines)


def on(host, *texts):
    """Rules of a Node."""
    return [(host.name, Rule(text)) for text in texts]


# What came back from the kernel leaves for it once more, untracked.
AGAIN = (f"ConntrackZone priority=210 nw_src={client(ONE)}", "EgressMetric reg4=0x20000000/0x20000000", "Output priority=215")
# For the kernel, whoever it is for.
TO_NOBODY = "L3Forwarding priority=190 reg4=0x20000000/0x20000000"


class Modes(Actions):
    """Scenes as `crossing.Crossing`'s, on three Nodes; `switches` are by the Nodes' names."""

    def __init__(self, three, switches):
        super().__init__(three, owners())
        self.switches = switches

    # What the kernels need beside their agents.

    def no_encap(self):
        """Pods of Nodes on other links are behind the router."""
        for host in HOSTS:
            for other in host.others():
                if not host.is_near(other):
                    self.node.by_network(host, other)

    def no_encap_without_proxy(self):
        """So it is here, and the kernels translate packets for Services."""
        self.no_encap()
        self.hybrid_without_proxy()

    def hybrid(self):
        """The router knows no Pods."""

    def hybrid_without_proxy(self):
        """The kernels translate packets for Services."""
        for host in HOSTS:
            self.node.proxy(host, proxy_rules())

    def policy_only(self):
        """The network between Nodes is another plug-in's; the kernels translate packets for
        Services."""
        for host in HOSTS:
            self.node.proxy(host, proxy_rules())
            for other in host.others():
                self.node.by_network(host, other)

    # What is shown.

    def datagrams(self, source, address, sizes=(10, 4000)):
        """A datagram and its echo, whole and in fragments."""

        def run(family):
            traffic.echoes(self.space[source], of(address, family), HTTP, sizes)
            return "datagrams come back"

        return run

    def unanswered(self, source, address):
        """All datagrams reach web of one Node, before it answers."""
        return same_endpoint(self.node, {host.at("web"): "eth0" for host in HOSTS}, source, address, HTTP)

    def nobody(self, denials):
        """What policies deny, all at once: (who, which address, which port, on which Node, by which
        rule)."""
        rules = collections.Counter((host.name, text) for *_, host, text in denials)

        def run(family):
            with concurrent.futures.ThreadPoolExecutor(len(denials)) as pool:
                tried = [pool.submit(self.denied(*denial[:3]), family) for denial in denials]
            if wrong := [machine.words_of(error) for one in tried if (error := one.exception())]:
                raise Failure("; ".join(wrong))
            return f"no answer, {len(denials)} times"

        return run, [(name, Rule(text, count)) for (name, text), count in rules.items()]

    def pods(self, pairs, route):
        """Pods of other Nodes, and what policies at either end deny. `route(here, there)`: the rule
        that leads there."""
        denials = []
        for here, there in pairs:
            source, target = here.at("client"), there.at("web")
            yield f"{source} -> {target}", self.one(source, web(there), HTTP, target, source), on(here, route(here, there)), BOTH
            denials += [(source, web(there), ALT, here, BY_SENDER), (here.at("web"), web(there), HTTP, there, BY_RECEIVER)]
        yield f"policies of client and web deny: {len(denials)} connections", *self.nobody(denials), BOTH

    def refusals(self, pairs, routes, address, what=""):
        """Web's policy refuses, where web is; who asked hears it from where he asked, whoever
        translated on the way. `routes`: `pods` has it."""
        for here, there in pairs:
            source, way = here.at("client"), TO_TUNNEL if routes(here, there) == _by_tunnel(here, there) else BACK
            yield (f"Reject: {source} -> {what}{there.at('web')}", self.refused(source, address(there), REFUSED, PROHIBITED), [(there.name, Rule(way, 2))], BOTH)

    def services(self, pairs):
        """Services of the switch."""
        for here in (ONE, THREE):
            source = here.at("client")
            yield (f"{source} -> ClusterIP", self.several(source, ALL, HTTP, {host.at("web"): source for host in HOSTS}), on(here, f"ServiceLB nw_dst={ALL}"), BOTH)
            again = [(here.name, Rule(f"ServiceLB reg4=0x40000/0x70000 nw_dst={ALL}", DATAGRAMS - 1))]
            yield f"{DATAGRAMS} datagrams, no answer: {source} -> ClusterIP", self.unanswered(source, ALL), again, BOTH
        denials = []
        for here, there in pairs:
            source, address = here.at("client"), service_of(there)
            yield (f"{source} -> ClusterIP -> {there.at('web')}: UDP", self.datagrams(source, address), on(here, f"EndpointDNAT nat(dst={web(there)}:{HTTP})"), BOTH)
            denials += [(source, address, ALT, here, BY_SENDER), (here.at("web"), address, HTTP, there, BY_RECEIVER)]
        yield f"so they do behind Services: {len(denials)} connections", *self.nobody(denials), BOTH

    def of_no_encap(self):
        """Everything by the network."""
        pairs = ((ONE, TWO), (ONE, THREE), (THREE, ONE))
        yield from self.pods(pairs, _by_gateway)
        yield from self.services(pairs)
        yield from self.refusals(pairs, _by_gateway, web)
        yield from self.refusals(pairs, _by_gateway, service_of, "ClusterIP -> ")
        for there in (TWO, THREE):
            yield self.from_node_by_network(there)

    def of_hybrid(self):
        """By the network to Node 2, by tunnels to Node 3."""
        pairs = ((ONE, TWO), (ONE, THREE), (THREE, ONE))
        yield from self.pods(pairs, _by_hybrid)
        yield from self.services(pairs)
        yield from self.refusals(pairs, _by_hybrid, web)
        yield from self.refusals(pairs, _by_hybrid, service_of, "ClusterIP -> ")
        yield self.from_node_by_network(TWO)
        yield ("node@1 -> ClusterIP -> web@3", self.one("node@1", service_of(THREE), HTTP, "web@3", "gateway@1"), on(ONE, _by_tunnel(ONE, THREE)), BOTH)

    def from_node_by_network(self, there):
        """The Node itself: its packet comes back to it with a virtual source, and leaves with the
        Node's own."""
        return (f"node@1 -> ClusterIP -> {there.at('web')}", self.one("node@1", service_of(there), HTTP, there.at("web"), "node@1"),
                on(ONE, f"SNAT nat(src={world.VIRTUAL_SERVICE})", "Output ct_mark=0x40/0x40"), BOTH)

    def of_policy_only(self):
        """Everything that is for no Pod of the Node is the kernel's."""
        local = f"L3Forwarding priority=195 nw_dst={web(ONE)}"
        yield "client@1 -> web@1", self.one("client@1", web(ONE), HTTP, "web@1", "client@1"), on(ONE, local), BOTH
        yield "node@1 -> web@1", self.one("node@1", web(ONE), HTTP, "web@1", "node@1"), on(ONE, local, "Classifier priority=210"), BOTH
        yield from self.pods(((ONE, TWO), (THREE, ONE)), lambda here, there: "L3Forwarding priority=190")
        yield from self.traceflows()
        yield from self.proxied({TWO: AGAIN, THREE: AGAIN})
        yield from self.hosts((TWO, THREE), ())

    def traceflows(self):
        """To a Pod here, to what only the kernel knows, and what a policy denies."""
        for title, address, port, step, word in (
            ("web@1", web(ONE), HTTP, "forwarding delivered", "default/web-1"),
            ("web@2, by the kernel", web(TWO), HTTP, "forwarding forwarded-out-of-overlay", "Output"),
            ("Service, by the kernel", service_of(TWO), HTTP, "forwarding forwarded-out-of-overlay", "Output"),
            ("web@2, denied by client's policy", web(TWO), ALT, "networkpolicy dropped", "EgressDefaultRule"),
        ):
            yield f"Traceflow: client@1 -> {title}", self.traced(address, port, step, word), [], BOTH

    def traced(self, address, port, step, word):
        """A packet of client of Node 1 tells `step`."""

        def run(family):
            traces = TraceScenes(self.node, self.switches[ONE.name])
            told = traces.trace("default/client-1", of(address, family), f"-{family}", "--protocol", "tcp", "--port", str(port))
            traces.expect(told, step, word)

        return run

    def of_no_encap_without_proxy(self):
        """Endpoints that are no Pods."""
        yield from self.hosts((TWO, THREE), (TO_NOBODY,))

    def of_hybrid_without_proxy(self):
        """What goes into a tunnel is tracked, as its answers come back by the gateway."""
        tracked = (f"ConntrackZone priority=220 nw_dst={THREE.pods}", _by_tunnel(ONE, THREE))
        yield from self.proxied({TWO: AGAIN, THREE: tracked})
        # Node 3 answers Pods by its tunnel, past the kernel that has translated.
        yield from self.hosts((TWO,), (TO_NOBODY,))

    def proxied(self, ways):
        """Services that the kernel translates; policies judge behind that. `ways`: rules that lead
        to other Nodes."""
        first = f"DNAT nw_dst={SERVICES}"
        yield ("client@1 -> Service -> web@1", self.one("client@1", service_of(ONE), HTTP, "web@1", "client@1"),
               on(ONE, first, f"ConntrackZone priority=220 nw_dst={web(ONE)}"), BOTH)
        denials = [("client@1", service_of(ONE), ALT, ONE, BY_SENDER)]
        for there, way in ways.items():
            name, address = there.at("web"), service_of(there)
            by_antrea, by_kubernetes, fragments = [], [], []
            if way == AGAIN:
                by_antrea, by_kubernetes = ["AntreaPolicyEgressRule priority=64995"], ["EgressRule priority=64995"]
                fragments = [f"ConntrackZone priority=211 nw_src={client(ONE)}"]
            yield (f"client@1 -> Service -> {name}", self.one("client@1", address, HTTP, name, "client@1"), on(ONE, first, *way, *by_antrea), BOTH)
            yield (f"client@1 -> Service -> {name}: UDP", self.datagrams("client@1", address), on(ONE, first, *way, *by_kubernetes, *fragments), BOTH)
            yield (f"{DATAGRAMS} datagrams, no answer: client@1 -> Service -> {name}", self.unanswered("client@1", address),
                   [(ONE.name, Rule(text, DATAGRAMS)) for text in (first, *way)], BOTH)
            denials += [("client@1", address, ALT, ONE, BY_SENDER), ("web@1", address, HTTP, there, BY_RECEIVER)]
        yield f"policies deny behind Services: {len(denials)} connections", *self.nobody(denials), BOTH
        routes = lambda _here, there: ways.get(there, AGAIN)[-1]  # noqa: E731
        yield from self.refusals([(ONE, there) for there in (ONE, *ways)], routes, service_of, "Service -> ")

    def hosts(self, those, rules):
        """Services whose endpoint is another Node itself: no table knows its address. `rules`:
        those that lead back to the kernel.

        What is for its own Node the kernel takes at once."""
        first = f"DNAT nw_dst={SERVICES}"
        for there in those:
            name, address = there.at("node"), hosts_service_of(there)
            way = on(ONE, first, *AGAIN, *rules)
            yield f"client@1 -> Service -> {name}", self.one("client@1", address, HTTP, name, "client@1"), way, BOTH
            yield f"client@1 -> Service -> {name}: UDP", self.datagrams("client@1", address, (10,)), way, BOTH
        denials = [("client@1", hosts_service_of(there), ALT, ONE, BY_SENDER) for there in those]
        yield f"policies deny before Nodes: {len(denials)} connections", *self.nobody(denials), BOTH


def _by_gateway(here, there):
    return f"L3Forwarding priority=200 nw_dst={there.pods} set_field:{here.gateway_mac}->eth_dst"


def _by_hybrid(here, there):
    return (_by_gateway if here.is_near(there) else _by_tunnel)(here, there)


def _by_tunnel(_here, there):
    return f"L3Forwarding priority=200 nw_dst={there.pods} set_field:{there.address}->tun_dst"
