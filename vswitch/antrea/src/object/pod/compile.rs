//! What a Pod writes: who it is, so that nobody else can be it, and how to reach it.

use super::Pod;
use super::wire::PodPlace;
use crate::node::TrafficMode;
use crate::anti_spoof::{IMPOSTORS, not_from_uplink};
use crate::{Cidr, Facts, Family, Mac, CompiledObject};
use std::net::{IpAddr, Ipv6Addr};

pub(super) fn compile(pod: &Pod, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let Some(number) = facts.ports.number(&pod.port) else { return };
    let (mac, port) = (pod.mac, format!("in_port={number}"));
    let on_wire = PodPlace::of(pod, number, facts);
    let mut own = |purpose, line: String| compiled.own(facts, purpose, &line);
    // A Pod has no VLANs of its own; what it tags would leave by the uplink as it is.
    own("tagged by the Pod", format!("table=Classifier, priority=195,{port},vlan_tci=0x1000/0x1000 actions=drop"));
    own("tagged by the Pod", format!("table=ARPSpoofGuard, priority=205,arp,{port},vlan_tci=0x1000/0x1000 actions=drop"));
    for address in &pod.addresses {
        identity(pod, &port, address, on_wire.as_ref(), facts, compiled);
    }
    if pod.addresses.iter().any(|address| Family::of(address) == Family::V6) {
        neighbour(pod, &port, facts, compiled);
    }
    if let Some(place) = on_wire {
        return super::wire::compile(&place, compiled);
    }
    let mut own = |purpose, line: String| compiled.own(facts, purpose, &line);
    own(
        "from the Pod",
        format!(
            "table=Classifier, priority=190,{port} actions=set_field:0x3/0xf->reg0,set_field:0x10000000/0x10000000->reg4,goto_table:SpoofGuard"
        ),
    );
    own(
        "to the Pod's port",
        format!(
            "table=L2ForwardingCalc, priority=200,dl_dst={mac} actions=set_field:{number:#x}->reg1,set_field:0x200000/0x600000->reg0,goto_table:TrafficControl"
        ),
    );
    let receives = "goto_table:MulticastOutput";
    own(
        "groups' packets to the Pod",
        format!("table=MulticastIngressPodMetric, priority=200,ip,reg1={number:#x} actions={receives}"),
    );
    for address in &pod.addresses {
        route(pod, address, facts, compiled);
    }
}

/// The port says that it has this address, and may.
fn identity(pod: &Pod, port: &str, address: &IpAddr, on_wire: Option<&PodPlace<'_>>, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let family = Family::of(address);
    let (ip, source, mac) = (family.ip(), family.source(), pod.mac);
    let next = match family {
        Family::V4 => "PipelineIPClassifier",
        Family::V6 => "IPv6",
    };
    let line = format!("table=SpoofGuard, priority=200,{ip},{port},dl_src={mac},{source}={address} actions=goto_table:{next}");
    compiled.own(facts, "the Pod's own packets", &line);
    if family == Family::V4 {
        let zone = on_wire.map(|place| place.load_zone(Family::V4)).unwrap_or_default();
        let line = format!(
            "table=ARPSpoofGuard, priority=200,arp,{port},arp_spa={address},arp_sha={mac} actions={zone}goto_table:ARPResponder"
        );
        compiled.own(facts, "the Pod's own ARP", &line);
        let line = format!("table=MulticastEgressPodMetric, priority=200,ip,nw_src={address} actions=goto_table:MulticastRouting");
        compiled.own(facts, "the Pod's packets to groups", &line);
    }
}

/// Neighbour discovery: it asks as itself, or as nobody (whether an address is free), and answers
/// for its own addresses alone.
fn neighbour(pod: &Pod, port: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let mac = pod.mac;
    let mut own = |purpose, line: String| compiled.own(facts, purpose, &line);
    own(
        "the Pod's own packets",
        format!("table=SpoofGuard, priority=200,ipv6,{port},dl_src={mac},ipv6_src=fe80::/10 actions=goto_table:IPv6"),
    );
    own(
        "asks whether an address is free",
        format!("table=SpoofGuard, priority=210,icmp6,{port},dl_src={mac},ipv6_src=::,icmp_type=135,icmp_code=0 actions=goto_table:IPv6"),
    );
    let own_addresses = pod.addresses.iter().filter(|address| Family::of(address) == Family::V6).copied();
    for target in own_addresses.chain([link_local(mac)]) {
        own(
            "answers for itself",
            format!(
                "table=SpoofGuard, priority=210,icmp6,{port},dl_src={mac},icmp_type=136,icmp_code=0,nd_target={target} actions=goto_table:IPv6"
            ),
        );
    }
    own("answers for others", format!("table=SpoofGuard, priority=205,icmp6,{port},icmp_type=136 actions=drop"));
}

/// The address that a kernel gives itself (RFC 4291, appendix A).
fn link_local(mac: Mac) -> IpAddr {
    let [a, b, c, d, e, f] = mac.0.map(u16::from);
    let word = |high: u16, low: u16| high << 8 | low;
    IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, word(a ^ 2, b), word(c, 0xff), word(0xfe, d), word(e, f)))
}

fn route(pod: &Pod, address: &IpAddr, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let (node, family) = (facts.node, Family::of(address));
    let (ip, destination, mac, gateway) = (family.ip(), family.destination(), pod.mac, node.gateway.mac);
    let line = format!(
        "table=L3Forwarding, priority=200,{ip},reg0=0x200/0x200,{destination}={address} \
         actions=set_field:{gateway}->eth_src,set_field:{mac}->eth_dst,goto_table:L3DecTTL"
    );
    compiled.own(facts, "route to the Pod", &line);
    if node.mode == TrafficMode::PolicyOnly {
        // Nobody's CIDR says that it is here; Pods ask for everybody's MAC, and get the virtual
        // one: nothing can be bridged by it.
        let line =
            format!("table=L3Forwarding, priority=195,{ip},{destination}={address} actions=set_field:{mac}->eth_dst,goto_table:L3DecTTL");
        compiled.own(facts, "route to the Pod", &line);
    } else if !node.pod_cidrs.iter().any(|cidr| cidr.contains(address)) {
        // No CIDR says that it is here: without this, packets for it would count as sent to the
        // gateway.
        let line =
            format!("table=L3Forwarding, priority=200,{ip},reg0=0/0x200,{destination}={address} actions=goto_table:L2ForwardingCalc");
        compiled.own(facts, "bridged to the Pod", &line);
    }
    if node.reenters() {
        let port = facts.in_port(&node.gateway.port);
        compiled.own(facts, "from the host to the Pod", &node.entering(&port, &Cidr::host(*address)));
        for again in node.entering_again(&port, address) {
            compiled.own(facts, "from the Pod, by the host", &again);
        }
        if node.mode != TrafficMode::PolicyOnly {
            // What the host translated comes by the way of Services, with the MAC of nobody.
            let line = format!(
                "table=L3Forwarding, priority=201,{ip},reg0=0x2/0xf,{destination}={address} actions=set_field:{mac}->eth_dst,goto_table:L3DecTTL"
            );
            compiled.own(facts, "from the host to the Pod", &line);
        }
    }
    if let Some(uplink) = node.uplink.as_ref().filter(|_| !node.pod_cidrs.iter().any(|cidr| cidr.contains(address))) {
        for line in not_from_uplink(facts, uplink, &Cidr::host(*address), node.pods_are_routed()) {
            compiled.own(facts, IMPOSTORS, &line);
        }
    }
}
