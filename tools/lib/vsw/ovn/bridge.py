"""The flows of OVN-Kubernetes' gateway bridge: port 1 is the Node's interface, port 2 leads to OVN,
LOCAL to the host. Written anew from its documents."""

from .addresses import FAMILIES, NODE_MAC, NODE_PORTS, PROTOCOLS

WIRE, OVN = 1, 2
POD_MTU = 1400
# Connection zones: whose a connection is, the host's masquerade, OVN's masquerade.
OWNER, HOST_MASQUERADE, OVN_MASQUERADE = 64000, 64001, 64002
OWNED_BY_OVN, OWNED_BY_HOST = "exec(set_field:0x1->ct_mark)", "exec(set_field:0x2->ct_mark)"


def flows(mode):
    """They, as ovs-ofctl reads them."""
    lines = [line for family in FAMILIES for line in _family(family, mode)]
    lines += _neighbours(mode) + _common(mode)
    if mode == "sgw":
        lines += [line for port in NODE_PORTS for protocol in PROTOCOLS for line in _node_port(protocol, port)]
    return lines


def _family(family, mode):
    ip, udp = ("ip", "udp") if family.version == 4 else ("ipv6", "udp6")
    source, target = ("nw_src", "nw_dst") if family.version == 4 else ("ipv6_src", "ipv6_dst")
    node, services, host, pods_side = family.node, family.services, family.role(2), family.role(1)
    nat = lambda address: address if family.version == 4 else f"[{address}]"
    owner_ovn, owner_host = f"ct(commit,zone={OWNER},{OWNED_BY_OVN})", f"ct(commit,zone={OWNER},{OWNED_BY_HOST})"
    to_ovn = f"{OVN}" if mode == "sgw" else f"check_pkt_larger({POD_MTU + 14})->NXM_NX_REG0[0],resubmit(,11)"
    lines = [
        # Tunnels of Nodes are the host's.
        f"priority=205,in_port={WIRE},dl_dst={NODE_MAC},{udp},tp_dst=6081,actions=LOCAL",
        f"priority=200,in_port={WIRE},{udp},tp_dst=6081,actions=NORMAL",
        f"priority=200,in_port=LOCAL,{udp},tp_dst=6081,actions={WIRE}",
        # The host and Services.
        f"priority=500,in_port={OVN},{ip},{target}={host},{source}={node},actions=ct(commit,zone={HOST_MASQUERADE},nat(dst={nat(node)}),table=4)",
        f"priority=500,in_port={OVN},{ip},{target}={family.secondary},{source}={node},actions=ct(commit,zone={HOST_MASQUERADE},table=4)",
        f"priority=500,in_port=LOCAL,{ip},{target}={pods_side},actions=ct(zone={OVN_MASQUERADE},nat,table=5)",
        f"priority=500,in_port=LOCAL,{ip},{target}={services},actions=ct(commit,zone={HOST_MASQUERADE},nat(src={nat(host)}),table=2)",
        f"priority=500,in_port={OVN},{ip},{source}={services},{target}={host},actions=ct(zone={HOST_MASQUERADE},nat,table=3)",
        f"priority=115,in_port={OVN},{ip},{target}={services},actions=drop",
        f"table=4,priority=0,{ip},actions=ct(commit,zone={OVN_MASQUERADE},nat(src={nat(pods_side)}),table=3)",
        f"table=5,priority=0,{ip},actions=ct(commit,zone={HOST_MASQUERADE},nat,table=2)",
        # Whose the connections with the wire are.
        f"priority=105,in_port={OVN},dl_src={NODE_MAC},{ip},pkt_mark=0x3f0,actions=ct(commit,zone={OWNER},nat(src={nat(node)}),{OWNED_BY_OVN}),{WIRE}",
        f"priority=103,in_port={OVN},{ip},{source}={family.clusters_pods},actions=drop",
        f"priority=100,in_port={OVN},dl_src={NODE_MAC},{ip},actions={owner_ovn},{WIRE}",
        f"priority=102,in_port=LOCAL,dl_src={NODE_MAC},{ip},{target}={family.host_subnet},actions={owner_host},NORMAL",
        f"priority=100,in_port=LOCAL,{ip},actions={owner_host},{WIRE}",
        f"priority=50,{ip},dl_dst={NODE_MAC},actions=ct(zone={OWNER},nat,table=1)",
        f"table=1,priority=13,in_port={WIRE},{udp},tp_dst=3784,actions={OVN},LOCAL",
    ]
    for state in ("est", "rel"):
        lines += [f"table=1,priority=100,{ip},ct_state=+trk+{state},ct_mark=0x1,actions={to_ovn}",
                  f"table=1,priority=100,{ip},ct_state=+trk+{state},ct_mark=0x2,actions=LOCAL"]
    if mode == "sgw":
        return [*lines, f"priority=102,in_port={OVN},dl_src={NODE_MAC},{ip},{target}={family.host_subnet},actions={owner_ovn},NORMAL"]
    suffix = "" if family.version == 4 else "6"
    lines += [f"priority=175,in_port={OVN},{protocol}{suffix},{source}={node},actions=ct(table=4,zone={HOST_MASQUERADE})" for protocol in ("tcp", "udp", "sctp")]
    return [*lines, f"priority=650,in_port={OVN},dl_src={NODE_MAC},{udp},tp_dst=3784,actions={WIRE}"]


def _neighbours(mode):
    lines = []
    for kind in (135, 136):
        ports = [(OVN, OWNED_BY_OVN)] if mode == "sgw" else []
        lines += [f"priority=102,in_port={port},dl_src={NODE_MAC},icmp6,icmpv6_type={kind},actions=ct(commit,zone={OWNER},{mark}),NORMAL"
                  for port, mark in [*ports, ("LOCAL", OWNED_BY_HOST)]]
    return [*lines, *(f"table=1,priority=14,icmp6,icmpv6_type={kind},actions=FLOOD" for kind in (134, 136))]


def _common(mode):
    lines = [
        "priority=0,actions=NORMAL",
        f"priority=10,dl_dst={NODE_MAC},actions={OVN},NORMAL",
        f"priority=10,in_port={OVN},dl_src={NODE_MAC},actions=NORMAL",
        f"priority=9,in_port={OVN},actions=drop",
        f"table=1,priority=10,dl_dst={NODE_MAC},actions=LOCAL",
        "table=1,priority=0,actions=NORMAL",
        f"table=2,priority=100,actions=set_field:{NODE_MAC}->eth_dst,{OVN}",
        f"table=3,actions=move:NXM_OF_ETH_DST[]->NXM_OF_ETH_SRC[],set_field:{NODE_MAC}->eth_dst,LOCAL",
    ]
    return lines + (["table=11,priority=10,reg0=0x1,actions=LOCAL", f"table=11,priority=1,actions={OVN}"] if mode == "lgw" else [])


def _node_port(protocol, port):
    for suffix in ("", "6"):
        yield f"priority=110,in_port={WIRE},{protocol}{suffix},tp_dst={port},actions={OVN}"
        yield f"priority=110,in_port={OVN},dl_src={NODE_MAC},{protocol}{suffix},tp_src={port},actions={WIRE}"
