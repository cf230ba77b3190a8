//! From the port to the tracker: where a packet came from, and whether it may say so.

use super::Writer;
use crate::anti_spoof::{IMPOSTORS, not_from_uplink};
use crate::node::{LocalProbe, TrafficMode, Uplink};
use crate::tunnel_flows::from_tunnel;
use crate::{Cidr, Facts, Family, Node};

/// `ICMPv6` types that Pods may send to groups: listener queries and reports, router solicitations.
const GROUP_TYPES: [u8; 4] = [131, 132, 133, 143];

/// What is known of packets from the wire: their source, that they are routed, who sent them.
pub(crate) const FROM_UPLINK: &str = "set_field:0x4/0xf->reg0,set_field:0x200/0x200->reg0,set_field:0x8000000/0x8000000->reg4,\
     move:NXM_OF_ETH_SRC[]->OXM_OF_PKT_REG5[0..47],goto_table:UnSNAT";

pub(super) fn compile(write: &mut Writer<'_, '_>) {
    for family in write.families() {
        let (ip, zone) = (family.ip(), super::vlans::zone(write, family));
        write.flow(
            "IP",
            format_args!("table=PipelineRootClassifier, priority=200,{ip} actions={zone}goto_table:Classifier"),
        );
    }
    if write.node().has(Family::V4) {
        write.flow("ARP", "table=PipelineRootClassifier, priority=200,arp actions=goto_table:ARPSpoofGuard");
        arp(write);
    }
    gateway(write);
    probe(write);
    if let Some(tunnel) = &write.node().tunnel {
        write.flow("from the tunnel", from_tunnel(write.facts, tunnel));
    }
    if let Some((_, back)) = &write.node().l7 {
        let back = write.facts.in_port(back);
        let line = format_args!(
            "table=Classifier, priority=200,{back},vlan_tci=0x1000/0x1000 actions=pop_vlan,set_field:0x7/0xf->reg0,goto_table:UnSNAT"
        );
        write.flow(super::engine::BACK, line);
    }
    if let Some(uplink) = &write.node().uplink {
        from_uplink(write, uplink);
    }
    if write.node().has(Family::V6) {
        ipv6(write);
    }
}

fn arp(write: &mut Writer<'_, '_>) {
    let node = write.node();
    let port = write.facts.in_port(&node.gateway.port);
    if let Some(address) = node.gateway_address(Family::V4) {
        let mac = node.gateway.mac;
        let line = format_args!(
            "table=ARPSpoofGuard, priority=200,arp,{port},arp_spa={address},arp_sha={mac} actions=goto_table:ARPResponder"
        );
        write.flow("the gateway's ARP", line);
    }
    write.flow("ARP", "table=ARPResponder, priority=190,arp actions=NORMAL");
    if node.mode == TrafficMode::PolicyOnly {
        let mac = node.virtual_mac;
        let line = format_args!(
            "table=ARPResponder, priority=200,arp,arp_op=1 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:{mac}->eth_src,\
             set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:{mac}->arp_sha,move:NXM_OF_ARP_TPA[]->NXM_NX_REG2[],\
             move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],move:NXM_NX_REG2[]->NXM_OF_ARP_SPA[],IN_PORT"
        );
        write.flow("answers every ARP request", line);
    }
}

fn gateway(write: &mut Writer<'_, '_>) {
    let port = write.facts.in_port(&write.node().gateway.port);
    for family in write.families() {
        let (ip, source) = (family.ip(), family.source());
        if let Some(address) = write.node().gateway_address(family) {
            let line = format_args!(
                "table=Classifier, priority=210,{ip},{port},{source}={address} actions=set_field:0x2/0xf->reg0,\
                 set_field:0x10000000/0x10000000->reg4,goto_table:SpoofGuard"
            );
            write.flow("from the host itself", line);
        }
        write.flow("from the gateway", allowed(family, &port));
    }
    let line = format_args!(
        "table=Classifier, priority=200,{port} actions=set_field:0x2/0xf->reg0,set_field:0x8000000/0x8000000->reg4,goto_table:SpoofGuard"
    );
    write.flow("from the gateway", line);
}

/// `SpoofGuard` believes all that this port says.
fn allowed(family: Family, port: &str) -> String {
    let next = match family {
        Family::V4 => "PipelineIPClassifier",
        Family::V6 => "IPv6",
    };
    format!("table=SpoofGuard, priority=200,{},{port} actions=goto_table:{next}", family.ip())
}

/// The host's own packets, if they have a port of their own. Who is behind it is the host's matter:
/// what comes in is taken as its own.
fn probe(write: &mut Writer<'_, '_>) {
    let LocalProbe::ByPort(port) = &write.node().local_probe else { return };
    let port = write.facts.in_port(port);
    let line = format_args!(
        "table=Classifier, priority=200,{port} actions=set_field:0x2/0xf->reg0,set_field:0x10000000/0x10000000->reg4,goto_table:SpoofGuard"
    );
    write.flow("from the host itself", line);
    for family in write.families() {
        write.flow("from the host itself", allowed(family, &port));
    }
    write.flow(
        "ARP of the host itself",
        format_args!("table=ARPSpoofGuard, priority=200,arp,{port} actions=goto_table:ARPResponder"),
    );
}

/// No host checks sources of what comes from the wire: nobody there is one of us.
fn from_uplink(write: &mut Writer<'_, '_>, uplink: &Uplink) {
    let node = write.node();
    let port = write.facts.in_port(&uplink.port);
    // What a wire floods may be anybody's.
    let mac = uplink.mac;
    let line = format_args!("table=Classifier, priority=200,{port},dl_dst={mac} actions={FROM_UPLINK}");
    write.flow("from the uplink", line);
    // The Node's own packets, and without tunnels its Pods', come to Pods of the wire by it.
    let pods = node.pod_cidrs.iter().map(|cidr| (*cidr, node.pods_are_routed()));
    let own = node.transport.iter().map(|(address, _)| (Cidr::host(*address), true));
    let addresses = node.gateway.addresses.iter().chain(&node.virtual_service).chain(&node.virtual_node_port);
    let nobodys =
        node.service_cidrs.iter().copied().chain(addresses.copied().map(Cidr::host)).map(|cidr| (cidr, false));
    for (cidr, routed) in pods.chain(own).chain(nobodys).filter(|(cidr, _)| node.has(cidr.family())) {
        for line in not_from_uplink(write.facts, uplink, &cidr, routed) {
            write.flow(IMPOSTORS, line);
        }
    }
}

impl Node {
    /// Whether routers on the wire know Pods by their own addresses.
    pub(crate) const fn pods_are_routed(&self) -> bool {
        !matches!(self.mode, TrafficMode::Encap)
    }
}

/// Neighbour discovery, and what goes to groups. A Pod passes its egress policies with neither:
/// link-local sources end here.
fn ipv6(write: &mut Writer<'_, '_>) {
    for kind in [135, 136] {
        let line = format_args!("table=IPv6, priority=200,icmp6,icmp_type={kind},icmp_code=0 actions=NORMAL");
        write.flow("neighbour discovery", line);
    }
    let free = "table=IPv6, priority=211,icmp6,ipv6_src=::,icmp_type=135,icmp_code=0 actions=NORMAL";
    write.flow("whether an address is free is nobody's to answer here", free);
    write.flow("groups", "table=IPv6, priority=200,ipv6,reg0=0x2/0xf,ipv6_dst=ff00::/8 actions=NORMAL");
    for kind in GROUP_TYPES {
        let line = format_args!(
            "table=IPv6, priority=200,icmp6,reg0=0x3/0xf,ipv6_dst=ff00::/8,icmp_type={kind} actions=NORMAL"
        );
        write.flow("memberships of Pods", line);
    }
    write.flow("link-local Pods", "table=IPv6, priority=190,ipv6,reg0=0x3/0xf,ipv6_src=fe80::/10 actions=drop");
    if write.node().mode == TrafficMode::PolicyOnly {
        write.flow("answers every solicitation", advertisement(write.facts, None));
    }
}

/// The answer to solicitations of an address, or of any, with the virtual MAC.
pub(crate) fn advertisement(facts: &Facts<'_>, target: Option<std::net::IpAddr>) -> String {
    let mac = facts.node.virtual_mac;
    let (matching, source) = match target {
        Some(target) => (format!(",icmp_code=0,nd_target={target}"), format!("set_field:{target}->ipv6_src")),
        None => (",icmp_code=0".to_owned(), "move:NXM_NX_ND_TARGET[]->NXM_NX_IPV6_SRC[]".to_owned()),
    };
    format!(
        "table=IPv6, priority=210,icmp6,icmp_type=135{matching} actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:{mac}->eth_src,\
         move:NXM_NX_IPV6_SRC[]->NXM_NX_IPV6_DST[],{source},set_field:{mac}->nd_sll,set_field:0x60000000->nd_reserved,\
         set_field:2->nd_options_type,set_field:136->icmpv6_type,IN_PORT"
    )
}
