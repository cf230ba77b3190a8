//! What a peer writes: routes to its Pods, answers for its gateway, its end of tunnels.

use super::{Path, PeerNode};
use crate::address::tunnel_destination;
use crate::node::TrafficMode;
use crate::anti_spoof::{IMPOSTORS, not_from_uplink};
use crate::node::compile::{FROM_UPLINK, advertisement, no_egress};
use crate::tunnel_flows::{from_tunnel, groups_from_tunnel};
use crate::{Cidr, Facts, Family, Mac, CompiledObject};
use std::net::{IpAddr, Ipv4Addr};

pub(super) fn compile(peer: &PeerNode, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let node = facts.node;
    for address in peer.transport.iter().filter(|address| node.has(Family::of(address))) {
        compiled.shared(facts, "no Egress applies", &no_egress(node, &Cidr::host(*address)));
    }
    // In policy only everything is answered.
    let answered = |gateway: &&IpAddr| node.has(Family::of(gateway)) && node.mode != TrafficMode::PolicyOnly;
    for gateway in peer.gateways.iter().filter(answered) {
        compiled.own(facts, "answers for the peer's gateway", &answer(facts, gateway));
    }
    for cidr in peer.pod_cidrs.iter().filter(|cidr| node.has(cidr.family())) {
        route(peer, cidr, facts, compiled);
        reenter(peer, cidr, facts, compiled);
        wire(peer, cidr, facts, compiled);
    }
    own_tunnel(peer, facts, compiled);
}

/// ARP or neighbour discovery.
fn answer(facts: &Facts<'_>, gateway: &IpAddr) -> String {
    let IpAddr::V4(gateway) = gateway else { return advertisement(facts, Some(*gateway)) };
    let mac = facts.node.virtual_mac;
    format!(
        "table=ARPResponder, priority=200,arp,arp_tpa={gateway},arp_op=1 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:{mac}->eth_src,\
         set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:{mac}->arp_sha,move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],\
         set_field:{gateway}->arp_spa,IN_PORT"
    )
}

/// Into the tunnel, to an address of the underlay: everything but where it goes on.
pub(crate) fn into_tunnel(facts: &Facts<'_>, end: &IpAddr) -> String {
    let (gateway, virtual_mac, field) = (facts.node.gateway.mac, facts.node.virtual_mac, tunnel_destination(end));
    format!("set_field:{gateway}->eth_src,set_field:{virtual_mac}->eth_dst,set_field:{end}->{field},set_field:0x10/0xf0->reg0")
}

fn route(peer: &PeerNode, cidr: &Cidr, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let (node, family) = (facts.node, cidr.family());
    let (ip, destination, gateway) = (family.ip(), family.destination(), node.gateway.mac);
    let tunnel = peer.tunnel_end(family).map(|end| format!("{},goto_table:L3DecTTL", into_tunnel(facts, &end)));
    let actions = match (peer.path(node), &node.uplink, peer.mac) {
        (Path::Tunnel, _, _) => tunnel.clone(),
        (Path::Gateway, _, _) => Some(format!("set_field:{gateway}->eth_dst,set_field:0x20/0xf0->reg0,goto_table:L3DecTTL")),
        (Path::Uplink, Some(uplink), Some(mac)) => Some(to_wire(uplink.mac, mac)),
        (Path::Uplink, _, _) => None,
    };
    if let Some(actions) = &actions {
        let line = format!("table=L3Forwarding, priority=200,{ip},{destination}={cidr} actions={actions}");
        compiled.own(facts, "route to the peer's Pods", &line);
    }
    let Some(tunnel) = tunnel.filter(|_| node.tunnel.is_some()) else { return };
    if node.mode == TrafficMode::Hybrid && node.features.egress && peer.path(node) != Path::Tunnel {
        let line = format!(
            "table=L3Forwarding, priority=201,ct_state=+rpl+trk,ct_mark=0x1/0xf,{ip},reg0=0x2/0xf,{destination}={cidr} actions={tunnel}"
        );
        compiled.own(facts, "answers to Pods whose Egress is here", &line);
    }
    if let (true, Path::Tunnel, IpAddr::V4(address)) = (node.features.dsr, peer.path(node), cidr.address()) {
        let (value, mask) = (u32::from(address), u32::from(netmask(cidr)));
        let line = format!(
            "table=L3Forwarding, priority=200,ip,reg3={value:#x}/{mask:#x},reg4=0x2000000/0x2000000 actions={tunnel}"
        );
        compiled.own(facts, "direct server return by the peer's Pods", &line);
    }
}

fn netmask(cidr: &Cidr) -> Ipv4Addr {
    let bits = u32::MAX.checked_shl(32 - u32::from(cidr.length().min(32))).unwrap_or_default();
    Ipv4Addr::from_bits(bits)
}

fn to_wire(from: Mac, to: Mac) -> String {
    format!("set_field:{from}->eth_src,set_field:{to}->eth_dst,set_field:0x40/0xf0->reg0,goto_table:L3DecTTL")
}

/// Answers from behind the tunnel come back by the host.
fn reenter(peer: &PeerNode, cidr: &Cidr, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let node = facts.node;
    if node.mode == TrafficMode::Hybrid && node.reenters() && peer.path(node) == Path::Tunnel {
        let port = facts.in_port(&node.gateway.port);
        compiled.own(facts, "from the host to the peer's Pods", &node.entering(&port, cidr));
    }
}

/// Nobody on the wire has these addresses, unless the peer is there itself.
fn wire(peer: &PeerNode, cidr: &Cidr, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let Some(uplink) = &facts.node.uplink else { return };
    let path = peer.path(facts.node);
    for line in not_from_uplink(facts, uplink, cidr, facts.node.pods_are_routed() || path != Path::Tunnel) {
        compiled.own(facts, IMPOSTORS, &line);
    }
    if let (Path::Uplink, Some(mac)) = (path, peer.mac) {
        let (ip, source, port) = (cidr.family().ip(), cidr.family().source(), facts.in_port(&uplink.port));
        let line = format!("table=Classifier, priority=221,{ip},{port},dl_src={mac},dl_dst={},{source}={cidr} actions={FROM_UPLINK}", uplink.mac);
        compiled.own(facts, "the peer's Pods on the wire", &line);
    }
}

/// A tunnel port in place of the Node's.
fn own_tunnel(peer: &PeerNode, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let Some(port) = &peer.tunnel_port else { return };
    compiled.own(facts, "from the peer's tunnel", &from_tunnel(facts, port));
    for line in groups_from_tunnel(facts, port) {
        compiled.shared(facts, "for groups, from the peer's tunnel", &line);
    }
    for end in &peer.transport {
        if let Some(line) = out_of_own_tunnel(facts, port, end) {
            compiled.shared(facts, "to the peer's tunnel", &line);
        }
    }
}

/// `L2ForwardingCalc`'s flow for packets that leave by a peer's own tunnel.
pub(crate) fn out_of_own_tunnel(facts: &Facts<'_>, port: &str, end: &IpAddr) -> Option<String> {
    let (mac, field, port) = (facts.node.virtual_mac, tunnel_destination(end), facts.load_port(port, "reg1")?);
    Some(format!(
        "table=L2ForwardingCalc, priority=201,dl_dst={mac},{field}={end} actions={port},set_field:0x200000/0x600000->reg0,goto_table:TrafficControl"
    ))
}
