//! Flows for the bridge behind the uplink.

mod connections;
mod host_endpoints;

use super::Under;
use crate::{Facts, Family, Mac, Node};
use std::fmt::Display;
use std::net::IpAddr;

/// Priorities in that bridge: who came from where; what the Pods' bridge has for the host;
/// fragments, and errors about connections; tunnels; packets for us; questions for addresses.
const ORIGIN: u16 = 311;
const TO_HOST: u16 = 310;
const FLOODED: u16 = 309;
const TRACKED: u16 = 308;
const TUNNELS: u16 = 306;
const OURS: u16 = 304;
const PROBES: u16 = 303;
const QUESTIONS: u16 = 302;
/// Pods that are on the wire themselves: packets for one of them; questions to all.
const POD: u16 = 305;
const ASKED: u16 = 301;

/// The bridge's own flows decide. The bit says that ours are through with the packet; those flows
/// see it as it came, untracked.
const ORIGIN_KNOWN: &str = "ct_clear,set_field:0x1/0x1->reg15,resubmit(,0)";
/// From the wire.
const FROM_WIRE: &str = "reg15=0/0x1";

impl Facts<'_> {
    /// The MAC address of the next hop of a family, and of the Node on the wire; or why there is no
    /// way.
    pub(crate) fn way_out(&self, family: Family) -> Result<(Mac, Mac), String> {
        let uplink = self.node.uplink.as_ref().ok_or("the Node has no uplink")?;
        let hop = uplink.next_hops.iter().find(|(address, _)| Family::of(address) == family);
        let (address, given) = hop.ok_or_else(|| format!("the uplink has no next hop of {family:?}"))?;
        let known = given.or_else(|| self.wire.hops.get(address).copied());
        let mac = known.ok_or_else(|| match self.wire.under {
            Some(_) => format!("next hop {address} has not answered yet"),
            None => format!("the MAC of next hop {address} is not known: give it, or uplink.underlay_bridge to ask by"),
        })?;
        Ok((uplink.mac, mac))
    }
}

/// ICMP errors of a family: the protocol's name, and types that quote a packet.
pub(crate) const fn errors(family: Family) -> (&'static str, &'static [u8]) {
    match family {
        Family::V4 => ("icmp", &[3, 11, 12]),
        Family::V6 => ("icmp6", &[1, 2, 3, 4]),
    }
}

/// Writes flows for the bridge behind the uplink, if there is one.
pub(crate) struct Writer<'a, 'b> {
    compiled: &'b mut crate::CompiledObject,
    node: &'a Node,
    under: &'a Under,
    mac: Mac,
}

impl<'a, 'b> Writer<'a, 'b> {
    pub(crate) fn new(facts: &Facts<'a>, compiled: &'b mut crate::CompiledObject) -> Option<Self> {
        if facts.node.gateway_bridge().is_some() {
            return None;
        }
        let (under, mac) = (facts.wire.under.as_ref()?, facts.node.uplink.as_ref()?.mac);
        Some(Self { compiled, node: facts.node, under, mac })
    }

    fn flow(&mut self, purpose: &'static str, priority: u16, line: impl Display) {
        self.compiled.on_wire(purpose, &format!("table=0, priority={priority},{line}"));
    }

    /// Who came from where, and what has to be tracked before it can be told.
    pub(crate) fn base(&mut self) {
        let Under { patch, vtep, .. } = *self.under;
        // What is routed has the Node's address. Anything else is what the Pods' bridge floods.
        let line =
            format!("{FROM_WIRE},in_port={patch},dl_src={} actions=set_field:{vtep}->in_port,{ORIGIN_KNOWN}", self.mac);
        self.flow("from the Pods' bridge, as if the vtep had sent it", ORIGIN, line);
        self.flow("what Pods ask each other", FLOODED, format!("{FROM_WIRE},in_port={patch} actions=drop"));
        self.flow("the Node's own", ORIGIN, format!("{FROM_WIRE},in_port={vtep} actions={ORIGIN_KNOWN}"));
        if self.node.has(Family::V6) {
            let line = format!("{FROM_WIRE},icmp6,ipv6_src=::,icmp_type=135,icmp_code=0 actions={ORIGIN_KNOWN}");
            self.flow("whether an address is free is nobody's to answer here", PROBES, line);
        }
        let external = self.node.uplink.as_ref().is_some_and(|uplink| uplink.external_traffic);
        let addresses: Vec<IpAddr> = self.node.node_port_addresses.iter().filter(|_| external).copied().collect();
        for address in addresses.iter().filter(|address| self.node.has(Family::of(address))) {
            self.shared_address(address);
        }
        for family in self.node.families.iter().filter(|_| external) {
            self.connections(*family);
            self.host_endpoints(*family);
        }
    }

    /// An address that the host and Services share: what tells them apart are ports, which
    /// fragments show, and errors about connections, when they have passed the tracker.
    fn shared_address(&mut self, address: &IpAddr) {
        let (family, mac) = (Family::of(address), self.mac);
        let (ip, destination, main, other) =
            (family.ip(), family.destination(), self.node.zone(family), self.node.egress_zone(family));
        let to = format!("dl_dst={mac},{destination}={address}");
        let line = format!("{FROM_WIRE},ct_state=-trk,{ip},nw_frag=yes,{to} actions=ct(table=0,zone={other})");
        self.flow("fragments show their ports", TRACKED, line);
        let (icmp, kinds) = errors(family);
        for kind in kinds {
            let line =
                format!("{FROM_WIRE},ct_state=-trk,{icmp},icmp_type={kind},{to} actions=ct(table=0,zone={main})");
            self.flow("whose error it is", TRACKED, line);
        }
        let line = format!("{FROM_WIRE},ct_state=+rel+trk,{icmp},{to} actions={}", self.across());
        self.flow("errors about connections of Services", OURS, line);
    }

    /// Into the Pods' bridge. Who sent it is learned as NORMAL learns: that goes back to where it
    /// came from, and so nowhere.
    fn across(&self) -> String {
        format!("clone(move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],NORMAL),output:{}", self.under.patch)
    }

    /// Packets for a place where a Service answers: an address of its own, or ports of one of the
    /// Node's.
    pub(crate) fn serves(&mut self, address: &IpAddr, protocol: &str, port: u16) {
        let (family, mac) = (Family::of(address), self.mac);
        let (ip, destination, across) = (family.ip(), family.destination(), self.across());
        if self.node.is_own(address) {
            return self.shared_port(address, protocol, port);
        }
        let line = format!("{FROM_WIRE},{ip},dl_dst={mac},{destination}={address} actions={across}");
        self.flow("for a Service", OURS, line);
    }

    /// An Egress address of this Node: tunnels from other Nodes end there; with `translated`,
    /// answers to what the switch translated come to it.
    pub(crate) fn egress(&mut self, address: IpAddr, translated: bool) {
        self.compiled.outside.vteps.push(address);
        if !translated {
            return;
        }
        let (family, mac, vtep) = (Family::of(&address), self.mac, self.under.vtep);
        let (ip, destination, across) = (family.ip(), family.destination(), self.across());
        let udp = if family == Family::V4 { "udp" } else { "udp6" };
        for port in &self.under.tunnels {
            let what = if *port == 0 { format!("{ip},nw_proto=47") } else { format!("{udp},tp_dst={port}") };
            let line = format!("{FROM_WIRE},{what},dl_dst={mac},{destination}={address} actions=output:{vtep}");
            self.flow("tunnels from other Nodes", TUNNELS, line);
        }
        let line = format!("{FROM_WIRE},{ip},dl_dst={mac},{destination}={address} actions={across}");
        self.flow("answers to an Egress IP", OURS, line);
        self.answers(&address);
    }

    /// A Pod on the wire, in a VLAN or (0) untagged: what it sends passes as it is, and what is for
    /// it, whoever sends it, goes there. So does who asks all; the host asks, too, if it has the
    /// VLAN.
    pub(crate) fn pod(&mut self, mac: Mac, vlan: u16) {
        let (patch, tag, across) = (self.under.patch, crate::object::pod::tag(vlan), self.across());
        let line = format!("{FROM_WIRE},in_port={patch},dl_src={mac},{tag} actions={ORIGIN_KNOWN}");
        self.flow("from a Pod on the wire", ORIGIN, line);
        self.flow("to a Pod on the wire", POD, format!("dl_dst={mac},{tag} actions={across}"));
        for (family, what) in [(Family::V4, "arp"), (Family::V6, "icmp6")] {
            if self.node.has(family) {
                let group = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00";
                let line = format!("{what},{tag},{group} actions=NORMAL,output:{patch}");
                self.flow("questions to Pods on the wire", ASKED, line);
            }
        }
    }

    /// An address that only the switch answers for: the link is told of it.
    pub(crate) fn announced(&mut self, address: IpAddr) {
        self.compiled.outside.announced.push(address);
        self.answers(&address);
    }

    /// Questions for an address are answered.
    fn answers(&mut self, address: &IpAddr) {
        let line = answering(FROM_WIRE, address, self.mac);
        self.flow("answers who has the address", QUESTIONS, line);
    }
}

/// Match and actions that answer questions for an address: ARP, or neighbour discovery.
pub(crate) fn answering(from: &str, address: &IpAddr, mac: Mac) -> String {
    match address {
        IpAddr::V4(_) => format!(
            "{from},arp,arp_op=1,arp_tpa={address} actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:{mac}->eth_src,\
             set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:{mac}->arp_sha,move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],\
             set_field:{address}->arp_spa,IN_PORT"
        ),
        IpAddr::V6(_) => format!(
            "{from},icmp6,icmp_type=135,icmp_code=0,nd_target={address} actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:{mac}->eth_src,\
             move:NXM_NX_IPV6_SRC[]->NXM_NX_IPV6_DST[],set_field:{address}->ipv6_src,set_field:{mac}->nd_sll,set_field:0x60000000->nd_reserved,\
             set_field:2->nd_options_type,set_field:136->icmpv6_type,IN_PORT"
        ),
    }
}
