"""What OVN-Kubernetes tells OVN of one Node: routers, switches, two Pods, the management port, load
balancers of each kind, a policy."""

from .addresses import (
    CLUSTER_HOST_ELSEWHERE, CLUSTER_JOIN_MAC, CLUSTER_POD, FAMILIES, GATEWAY_JOIN_MAC, HOST_ELSEWHERE, HOST_HERE, LOCAL_POD,
    MANAGEMENT_MAC, NOBODY, NODE_MAC, POD, POD1_MAC, POD2, POD2_MAC, PROTOCOLS, SWITCH_MAC,
)

SWITCH, ROUTER, GATEWAY = "n1", "ovn_cluster_router", "GR_n1"
DENIED_PORT = 8888  # of pod2; the others may be reached


def build(nbctl, mode):
    """Builds it by `nbctl(*words)`."""
    _switches(nbctl)
    _gateway(nbctl)
    for family in FAMILIES:
        _routes(nbctl, family, mode)
    _pods(nbctl)
    for protocol in PROTOCOLS:
        for family in FAMILIES:
            _balancers(nbctl, protocol, family)
    _policy(nbctl)


def _join(nbctl, switch, port, router_port):
    nbctl("lsp-add", switch, port, "--", "lsp-set-type", port, "router", "--", "lsp-set-addresses", port, "router",
          "--", "lsp-set-options", port, f"router-port={router_port}")


def _networks(attribute, length):
    return [f"{getattr(family, attribute)}/{getattr(family, length)}" for family in FAMILIES]


def _switches(nbctl):
    nbctl("ls-add", SWITCH)
    nbctl("lr-add", ROUTER)
    nbctl("lrp-add", ROUTER, "rtos-n1", SWITCH_MAC, *_networks("router", "pods_length"))
    _join(nbctl, SWITCH, "stor-n1", "rtos-n1")
    nbctl("ls-add", "join")
    nbctl("lrp-add", ROUTER, "rtoj-cluster", CLUSTER_JOIN_MAC, *_networks("cluster_join", "join_length"))
    _join(nbctl, "join", "jtor-cluster", "rtoj-cluster")


def _gateway(nbctl):
    options = ["chassis=n1", "lb_force_snat_ip=router_ip", "snat-ct-zone=0", "dynamic_neigh_routers=false",
               "always_learn_from_arp_request=false", "mac_binding_age_threshold=0"]
    nbctl("create", "logical_router", f"name={GATEWAY}", *[f"options:{option}" for option in options])
    nbctl("lrp-add", GATEWAY, "rtoj-GR", GATEWAY_JOIN_MAC, *_networks("join", "join_length"))
    _join(nbctl, "join", "jtor-GR", "rtoj-GR")
    nbctl("ls-add", "ext_n1")
    nbctl("lrp-add", GATEWAY, "rtoe-GR", NODE_MAC, *_networks("node", "node_length"))
    nbctl("lsp-add", "ext_n1", "breth0_n1", "--", "lsp-set-type", "breth0_n1", "localnet", "--", "lsp-set-addresses", "breth0_n1", "unknown",
          "--", "lsp-set-options", "breth0_n1", "network_name=physnet")
    nbctl("lsp-add", "ext_n1", "etor-GR", "--", "lsp-set-type", "etor-GR", "router", "--", "lsp-set-addresses", "etor-GR", NODE_MAC,
          "--", "lsp-set-options", "etor-GR", "router-port=rtoe-GR", "exclude-lb-vips-from-garp=true", "nat-addresses=router")


def _routes(nbctl, family, mode):
    masquerade = f"{family.role(0) if family.version == 4 else family.masquerade}/{family.masquerade_length}"
    everywhere = "0.0.0.0/0" if family.version == 4 else "::/0"
    nbctl("lr-route-add", GATEWAY, everywhere, family.client, "rtoe-GR")
    nbctl("lr-route-add", GATEWAY, family.clusters_pods, family.cluster_join)
    nbctl("lr-route-add", GATEWAY, masquerade, family.role(4), "rtoe-GR")
    nbctl("static-mac-binding-add", "rtoe-GR", family.role(4), family.next_hop_mac)
    # Pods' way out: by the gateway router, or by the host.
    way_out = family.join if mode == "sgw" else family.management
    nbctl("--policy=src-ip", "lr-route-add", ROUTER, family.pods, way_out)
    nbctl("lr-route-add", ROUTER, f"{family.join}/{32 if family.version == 4 else 128}", family.join)
    nbctl("lr-policy-add", ROUTER, "1004", f'inport == "rtos-n1" && ip{family.version}.dst == {family.node}', "reroute", family.management)
    nbctl("lr-nat-add", GATEWAY, "snat", family.node, family.clusters_pods)


def _pods(nbctl):
    for name, mac, attribute, secured in (("k8s-n1", MANAGEMENT_MAC, "management", False), ("ns_pod1", POD1_MAC, "pod1", True), ("ns_pod2", POD2_MAC, "pod2", True)):
        addresses = " ".join([mac, *(getattr(family, attribute) for family in FAMILIES)])
        nbctl("lsp-add", SWITCH, name, "--", "lsp-set-addresses", name, addresses)
        if secured:
            nbctl("lsp-set-port-security", name, addresses)


def _balancers(nbctl, protocol, family):
    def add(name, address, port, endpoint, skip_snat=False, on=(SWITCH, GATEWAY)):
        name = f"{name}_{protocol}{family.version}"
        nbctl("lb-add", name, family.endpoint(address, port), endpoint, protocol)
        hairpin = " ".join(each.role(5) for each in FAMILIES)
        nbctl("set", "load_balancer", name, "options:reject=true", "options:event=false", f'options:hairpin_snat_ip="{hairpin}"',
              "options:neighbor_responder=none", f"options:skip_snat={str(skip_snat).lower()}")
        for where in on:
            nbctl("lr-lb-add" if where == GATEWAY else "ls-lb-add", where, name)

    pod1 = family.endpoint(family.pod1, 80)
    elsewhere = family.endpoint(family.other, 8080)
    add("pod", family.service(POD), 80, pod1)
    add("elsewhere", family.service(HOST_ELSEWHERE), 80, elsewhere)
    add("here_router", family.service(HOST_HERE), 80, family.endpoint(family.role(2), 80), on=(GATEWAY,))
    add("here_switch", family.service(HOST_HERE), 80, family.endpoint(family.node, 80), on=(SWITCH,))
    add("nobody", family.service(NOBODY), 80, "")
    add("pod2", family.service(POD2), 80, family.endpoint(family.pod2, 80))
    add("np_local", family.node, LOCAL_POD, pod1, skip_snat=True, on=(GATEWAY,))
    add("np_local_host", family.role(3), LOCAL_POD, pod1, on=(SWITCH,))
    add("np_cluster", family.node, CLUSTER_POD, pod1, on=(GATEWAY,))
    add("np_elsewhere", family.node, CLUSTER_HOST_ELSEWHERE, elsewhere, on=(GATEWAY,))


def _policy(nbctl):
    nbctl("pg-add", "denied", "ns_pod2")
    nbctl("--type=port-group", "acl-add", "denied", "to-lport", "1000", "outport == @denied && ip", "drop")
    for family in FAMILIES:
        nbctl("create", "address_set", f"name=allowed{family.version}", f'addresses="{family.pod1}"')
        for protocol in PROTOCOLS:
            match = f"ip{family.version}.src == $allowed{family.version} && {protocol}.dst == {{80, 8080}} && outport == @denied"
            nbctl("--type=port-group", "acl-add", "denied", "to-lport", "1001", match, "allow-related")
