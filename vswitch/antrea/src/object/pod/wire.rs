//! A Pod whose addresses are of the network between Nodes, in a VLAN or untagged (Antrea:
//! `FlexibleIPAM`): it is on the wire as if the uplink were its port.
//!
//! Its packets keep their MAC addresses: what is for another Pod of the VLAN here goes there,
//! everything else leaves by the uplink, and routers there do the rest. Who has which address, Pods
//! and the wire ask each other; what is asked of all goes to the Pods of that VLAN and to the wire,
//! and to nobody else, which `NORMAL` could not do: ports have no VLANs.

#[cfg(test)]
mod tests;

use super::Pod;
use crate::anti_spoof::{IMPOSTORS, impostors};
use crate::wire::writer::Writer;
use crate::{Cidr, Facts, Family, Mac, CompiledObject, Zones};
use std::net::IpAddr;

/// Group bit of a MAC address.
const GROUPS: &str = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00";
/// `ICMPv6` types that ask and answer who has an address.
const NEIGHBOURS: [u8; 2] = [135, 136];
/// Those that only routers send: listener queries, advertisements.
const ROUTERS: [u8; 2] = [130, 134];
/// Those for routers alone: listener reports, solicitations.
const TO_ROUTERS: [u8; 4] = [131, 132, 133, 143];

/// Parts of a VLAN's Pods, by their ports' numbers. Each has a flow with the ports of all of them,
/// which all who ask all are led to: a Pod that comes or goes changes one of these, and the others
/// do not know.
const PARTS: u32 = 16;
/// What is for a part: output neither to one port (1) nor to the agent (2).
const TO_PART: (&str, &str) = ("reg0=0x600000/0x600000", "set_field:0x600000/0x600000->reg0");

/// Where such a Pod is.
pub(super) struct PodPlace<'a> {
    pod: &'a Pod,
    vlan: u16,
    /// Numbers of its port and of the uplink's.
    port: u32,
    uplink: u32,
    facts: &'a Facts<'a>,
}

impl<'a> PodPlace<'a> {
    /// None: it is no such Pod.
    pub(super) fn of(pod: &'a Pod, port: u32, facts: &'a Facts<'a>) -> Option<Self> {
        let vlan = pod.on_wire(facts.node)?;
        // Without the port of the uplink nothing comes or leaves by it.
        let uplink = facts.node.uplink.as_ref().and_then(|uplink| facts.ports.number(&uplink.port)).unwrap_or_default();
        Some(Self { pod, vlan, port, uplink, facts })
    }

    fn zone(&self, family: Family) -> u16 {
        Zones::of_vlan(family, self.vlan)
    }

    /// Action that says which zone a packet's connections are in.
    pub(super) fn load_zone(&self, family: Family) -> String {
        format!("set_field:{:#x}->reg8,", self.zone(family))
    }

    /// Match of packets of the VLAN, of either family.
    fn inside(&self) -> String {
        format!("reg8={:#x}/0xdfff", self.zone(Family::V4))
    }

    /// Actions that put a packet onto the wire.
    fn out(&self) -> String {
        let Self { vlan, uplink, .. } = self;
        if *vlan == 0 { format!("output:{uplink}") } else { format!("{},output:{uplink}", self.push()) }
    }

    /// Actions that bring a packet to all Pods of the VLAN, and onto the wire. They are the same
    /// whoever is there.
    fn to_all(&self) -> String {
        let parts = (0..PARTS).map(|compiled| format!("set_field:{compiled:#x}->reg1,resubmit(,Output),"));
        format!("{},{}{}", TO_PART.1, parts.collect::<String>(), self.out())
    }

    fn push(&self) -> String {
        format!("push_vlan:0x8100,set_field:{}->vlan_vid", self.vlan | 0x1000)
    }

    /// What arrives from the wire: its match, and actions that take its tag away.
    fn arriving(&self) -> (String, &'static str) {
        let pop = if self.vlan == 0 { "" } else { "pop_vlan," };
        (format!("in_port={},{}", self.uplink, tag(self.vlan)), pop)
    }
}

/// Match of what is on the wire in a VLAN; 0: in none, with a tag that has a priority alone or
/// without one.
pub(crate) fn tag(vlan: u16) -> String {
    if vlan == 0 { "vlan_tci=0/0xfff".to_owned() } else { format!("dl_vlan={vlan}") }
}

pub(super) fn compile(place: &PodPlace<'_>, compiled: &mut CompiledObject) {
    let PodPlace { pod, vlan, port, uplink, facts } = *place;
    for family in facts.node.families.iter().copied() {
        entry(place, family, compiled);
    }
    if facts.node.has(Family::V4) {
        resolution(place, compiled);
    }
    if facts.node.has(Family::V6) {
        neighbours(place, compiled);
    }
    for address in pod.addresses.iter().filter(|address| facts.node.has(Family::of(address))) {
        routes(place, address, compiled);
    }
    let to_port = format!("set_field:{port:#x}->reg1,set_field:0x200000/0x600000->reg0,goto_table:TrafficControl");
    let (mac, inside) = (pod.mac, place.inside());
    let line = format!("table=Output, priority=216,{inside},{},reg1={:#x} actions=output:{port}", TO_PART.0, port % PARTS);
    compiled.shared(facts, "for all in the VLAN", &line);
    let mut own = |purpose, line: String| compiled.own(facts, purpose, &line);
    own("to the Pod's port", format!("table=L2ForwardingCalc, priority=206,dl_dst={mac},{inside} actions={to_port}"));
    if vlan != 0 {
        let push = place.push();
        own(
            "into the Pod's VLAN",
            format!("table=VLAN, priority=190,in_port={port},reg1={uplink:#x} actions={push},goto_table:Output"),
        );
    }
    if facts.features().traffic_control || facts.features().l7_network_policy {
        led_away(place, compiled);
    }
    if let Some(mut wire) = Writer::new(facts, compiled) {
        wire.pod(mac, vlan);
    }
}

/// From the Pod, and from the wire to it.
fn entry(place: &PodPlace<'_>, family: Family, compiled: &mut CompiledObject) {
    let PodPlace { pod, port, facts, .. } = *place;
    let (ip, mac, zone, (from_wire, _)) = (family.ip(), pod.mac, place.load_zone(family), place.arriving());
    let mut own = |purpose, line: String| compiled.own(facts, purpose, &line);
    own(
        "from the Pod",
        format!(
            "table=Classifier, priority=190,{ip},in_port={port} actions=set_field:0x3/0xf->reg0,set_field:0x10000000/0x10000000->reg4,\
             set_field:0x100000/0x100000->reg4,{zone}goto_table:SpoofGuard"
        ),
    );
    own(
        "from the wire to the Pod",
        format!("table=Classifier, priority=225,{ip},{from_wire},dl_dst={mac} actions=set_field:0x4/0xf->reg0,{zone}goto_table:UnSNAT"),
    );
}

/// ARP.
fn resolution(place: &PodPlace<'_>, compiled: &mut CompiledObject) {
    let PodPlace { pod, port, facts, .. } = *place;
    let (inside, out, zone, (from_wire, pop)) =
        (place.inside(), place.out(), place.load_zone(Family::V4), place.arriving());
    let line = format!("table=ARPSpoofGuard, priority=210,arp,{from_wire} actions={pop}{zone}goto_table:ARPResponder");
    compiled.shared(facts, "ARP from the wire", &line);
    let line = format!("table=ARPResponder, priority=213,arp,{inside},dl_dst={} actions=output:{port}", pod.mac);
    compiled.own(facts, "ARP for the Pod", &line);
    let line = format!("table=ARPResponder, priority=212,arp,{inside},{GROUPS} actions={}", place.to_all());
    compiled.shared(facts, "ARP for all in the VLAN", &line);
    let line = format!("table=ARPResponder, priority=211,arp,{inside} actions={out}");
    compiled.shared(facts, "ARP for the wire", &line);
}

/// Neighbour discovery, and what routers and their neighbours tell each other.
fn neighbours(place: &PodPlace<'_>, compiled: &mut CompiledObject) {
    let PodPlace { pod, port, facts, .. } = *place;
    let (mac, inside, out, zone, (from_wire, pop)) =
        (pod.mac, place.inside(), place.out(), place.load_zone(Family::V6), place.arriving());
    for kind in NEIGHBOURS.into_iter().chain(ROUTERS) {
        let code = if NEIGHBOURS.contains(&kind) { ",icmp_code=0" } else { "" };
        let line = format!(
            "table=Classifier, priority=227,icmp6,{from_wire},icmp_type={kind}{code} actions={pop}set_field:0x4/0xf->reg0,{zone}goto_table:IPv6"
        );
        compiled.shared(facts, "neighbours on the wire", &line);
        let who = if code.is_empty() { ",reg0=0x4/0xf" } else { code };
        let matching = format!("icmp6,icmp_type={kind}{who},{inside}");
        let line = format!("table=IPv6, priority=215,{matching},dl_dst={mac} actions=output:{port}");
        compiled.own(facts, "neighbours of the Pod", &line);
        let line = format!("table=IPv6, priority=214,{matching},{GROUPS} actions={}", place.to_all());
        compiled.shared(facts, "neighbours of all in the VLAN", &line);
        let line = format!("table=IPv6, priority=213,{matching} actions={out}");
        compiled.shared(facts, "neighbours on the wire", &line);
    }
    for kind in TO_ROUTERS {
        let line = format!("table=IPv6, priority=213,icmp6,icmp_type={kind},reg0=0x3/0xf,{inside},ipv6_dst=ff00::/8 actions={out}");
        compiled.shared(facts, "to routers", &line);
    }
}

fn routes(place: &PodPlace<'_>, address: &IpAddr, compiled: &mut CompiledObject) {
    let PodPlace { pod, facts, .. } = *place;
    let family = Family::of(address);
    let (ip, destination, mac) = (family.ip(), family.destination(), pod.mac);
    let zone = format!("reg8={:#x}", place.zone(family));
    let mut own = |purpose, line: String| compiled.own(facts, purpose, &line);
    own(
        "bridged to the Pod",
        format!("table=L3Forwarding, priority=218,{ip},{zone},dl_dst={mac},{destination}={address} actions=goto_table:L2ForwardingCalc"),
    );
    own(
        "route to the Pod",
        format!("table=L3Forwarding, priority=217,{ip},{zone},{destination}={address} actions=set_field:{mac}->eth_dst,goto_table:L3DecTTL"),
    );
    // Routers have its packets in other VLANs.
    let (from_wire, _) = place.arriving();
    for line in impostors(&from_wire, &Cidr::host(*address)) {
        own(IMPOSTORS, line);
    }
}

/// What a `TrafficControl` (source 6) or the engine (7) led away comes back without its zone; with
/// its tag, if it is for the wire.
fn led_away(place: &PodPlace<'_>, compiled: &mut CompiledObject) {
    let PodPlace { pod, port, uplink, facts, .. } = *place;
    let mac: Mac = pod.mac;
    let out = |port: u32| format!("set_field:{port:#x}->reg1,set_field:0x200000/0x600000->reg0,goto_table:TrafficControl");
    let mut own = |purpose, line: String| compiled.own(facts, purpose, &line);
    for family in facts.node.families.iter().copied() {
        let ip = family.ip();
        let to = |port: u32| format!("set_field:0x40/0xf0->reg0,{}", out(port));
        own(
            "led away on its way to the Pod",
            format!("table=L3Forwarding, priority=213,{ip},reg0=0x6/0xe,dl_dst={mac} actions={}", out(port)),
        );
        own(
            "led away on its way to the wire",
            format!("table=L3Forwarding, priority=212,{ip},reg0=0x6/0xe,dl_src={mac} actions={}", to(uplink)),
        );
    }
}
