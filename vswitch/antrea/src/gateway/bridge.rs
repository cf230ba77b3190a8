//! Flows of the gateway bridge.
//!
//! Table 0 knows packets by where they come from. Table 1 has those of the wire, behind the zone
//! that says who owns their connection. Table 2 leads to the Pods' bridge, table 3 to the host.
//! Tables 4 and 5 translate once more what goes to the host itself, and its answers. Tables 6 and 7
//! are of endpoints on the host that see their clients. Table 11 has packets for the Pods' bridge
//! whose links carry less than the wire does.

use super::{GatewayBridge, Masquerade, Mode};
use crate::wire::Under;
use crate::wire::writer::{answering, errors};
use crate::{CompiledObject, Facts, Family, Mac, Node};
use std::fmt::Display;
use std::net::IpAddr;

/// Actions that lead to a table, and mark a connection as the Pods' side's, or the host's.
const OF_PODS: &str = "exec(set_field:0x1->ct_mark)";
const OF_HOST: &str = "exec(set_field:0x2->ct_mark)";

/// Bytes of an Ethernet header: `check_pkt_larger` counts it, an MTU does not.
const ETHERNET: usize = 14;

/// Writes flows for the gateway bridge.
pub(crate) struct Writer<'a, 'b> {
    compiled: &'b mut CompiledObject,
    node: &'a Node,
    gateway: &'a GatewayBridge,
    under: &'a Under,
    mac: Mac,
}

/// What a family is called in flows, and its addresses.
struct Names {
    family: Family,
    ip: &'static str,
    from: &'static str,
    to: &'static str,
    prefix: crate::Cidr,
}

impl<'a, 'b> Writer<'a, 'b> {
    /// None: there is no gateway bridge, or it is not known yet.
    pub(crate) fn new(facts: &Facts<'a>, compiled: &'b mut CompiledObject) -> Option<Self> {
        let gateway = facts.node.gateway_bridge()?;
        let (under, mac) = (facts.wire.under.as_ref()?, facts.node.uplink.as_ref()?.mac);
        Some(Self { compiled, node: facts.node, gateway, under, mac })
    }

    fn flow(&mut self, purpose: &'static str, table: u8, priority: u16, line: impl Display) {
        self.compiled.on_wire(purpose, &format!("table={table}, priority={priority},{line}"));
    }

    const fn names(&self, family: Family) -> Names {
        let (ip, from, to) = (family.ip(), family.source(), family.destination());
        Names { family, ip, from, to, prefix: self.gateway.prefix(family) }
    }

    fn address(&self, family: Family, which: Masquerade) -> IpAddr {
        self.gateway.masquerade(family, which)
    }

    /// What is there without any Service.
    pub(crate) fn base(&mut self) {
        let Under { patch, vtep, wire, .. } = *self.under;
        let mac = self.mac;
        self.flow("nothing else comes from the Pods' bridge", 0, 9, format!("in_port={patch} actions=drop"));
        // Not left to the flow of the fail mode, which an operator may have deleted.
        self.flow("as a switch that learns", 0, 1, "actions=NORMAL");
        let group = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00";
        self.flow("the host asks its neighbours", 0, 121, format!("in_port={vtep},{group} actions=NORMAL"));
        if let Some(wire) = wire {
            let line = format!("in_port={wire},dl_dst={mac} actions=output:{vtep}");
            self.flow("the wire to the host", 0, 10, line);
        }
        let line = format!("dl_dst={mac} actions=output:{vtep}");
        self.flow("no connection of the Pods' side", 1, 10, line);
        let line = format!("actions=set_field:{mac}->eth_dst,{}", self.to_pods());
        self.flow("to the Pods' bridge", 2, 100, line);
        for family in self.node.families.iter().copied() {
            let names = self.names(family);
            self.guards(&names);
            self.tunnels(&names);
            self.of_host(&names);
            self.for_host(&names);
            self.of_pods(&names);
            self.of_wire(&names);
            self.endpoints(&names);
            self.too_long(&names);
        }
    }

    /// Actions that lead to the Pods' bridge what its links carry.
    fn to_pods(&self) -> String {
        match (self.gateway.pod_mtu, self.under.patch) {
            (0, patch) => format!("output:{patch}"),
            (mtu, _) => format!("check_pkt_larger({})->NXM_NX_REG0[0],resubmit(,11)", usize::from(mtu) + ETHERNET),
        }
    }

    /// What is longer. Its sender is told as the packet came in: by whom he sent it to. What a
    /// fragment came in as, the tracker no longer knows.
    fn too_long(&mut self, names: &Names) {
        let (ip, patch, mtu) = (names.ip, self.under.patch, self.gateway.pod_mtu);
        if mtu == 0 {
            return;
        }
        let line = format!("reg0=0x1/0x1,{ip},nw_frag=no actions=reject(mtu={mtu},IN_PORT)");
        self.flow("too long for Pods' links: the sender is told", 11, 10, line);
        self.flow("to the Pods' bridge", 11, 1, format!("{ip} actions=output:{patch}"));
    }

    /// What the wire may not say.
    fn guards(&mut self, names: &Names) {
        let Some(wire) = self.under.wire else { return };
        let Names { family, ip, from, to, prefix } = *names;
        for field in [from, to] {
            let line = format!("in_port={wire},{ip},{field}={prefix} actions=drop");
            self.flow("nobody on the wire has a masquerade address", 0, 600, line);
        }
        if family == Family::V6 {
            for kind in [135, 136] {
                let line = format!("in_port={wire},icmp6,icmp_type={kind},icmp_code=0 actions=NORMAL");
                self.flow("neighbour discovery", 0, 610, line);
            }
        }
        for own in self.gateway.own(family) {
            let line = format!("in_port={wire},{ip},{from}={own} actions=drop");
            self.flow("nobody on the wire has the host's addresses", 0, 600, line);
        }
    }

    /// Tunnels between Nodes pass without the tracker.
    fn tunnels(&mut self, names: &Names) {
        let (Some(wire), vtep, mac) = (self.under.wire, self.under.vtep, self.mac) else { return };
        let udp = if names.family == Family::V4 { "udp" } else { "udp6" };
        for port in self.under.tunnels.clone() {
            let what = match port {
                0 => format!("{},nw_proto=47", names.ip),
                port => format!("{udp},tp_dst={port}"),
            };
            let purpose = "tunnels between Nodes";
            self.flow(purpose, 0, 205, format!("in_port={wire},dl_dst={mac},{what} actions=output:{vtep}"));
            self.flow(purpose, 0, 200, format!("in_port={wire},{what} actions=NORMAL"));
            self.flow(purpose, 0, 200, format!("in_port={vtep},{what} actions=output:{wire}"));
        }
    }

    /// The host's packets.
    fn of_host(&mut self, names: &Names) {
        let Names { family, ip, to, prefix, .. } = *names;
        let (vtep, wire, mac) = (self.under.vtep, self.under.wire, self.mac);
        for cidr in self.node.service_cidrs.clone().into_iter().filter(|cidr| cidr.family() == family) {
            self.host_to(family, &format!("{to}={cidr}"));
            self.forwarded_to(family, &format!("{to}={cidr}"));
        }
        let (zone, side) = (self.gateway.pods_zone(), self.address(family, Masquerade::PodsSide));
        let line = format!("in_port={vtep},{ip},{to}={side} actions=ct(table=5,zone={zone},nat)");
        self.flow("answers of the host to the Pods' side", 0, 500, line);
        let zone = self.gateway.host_zone();
        self.flow(
            "answers of the host to the Pods' side",
            5,
            100,
            format!("{ip} actions=ct(commit,table=2,zone={zone},nat)"),
        );
        let line = format!("in_port={vtep},{ip},{to}={prefix} actions=drop");
        self.flow("no such masquerade address", 0, 490, line);
        if family == Family::V6 {
            for kind in [133, 134, 135, 136, 137] {
                let line = format!("in_port={vtep},icmp6,icmp_type={kind},icmp_code=0 actions=NORMAL");
                self.flow("neighbour discovery", 0, 120, line);
            }
        }
        let zone = self.gateway.wire_zone();
        let commit = format!("ct(commit,zone={zone},{OF_HOST})");
        let links: Vec<_> = self.gateway.addresses.iter().map(|(_, link)| *link).collect();
        for link in links.into_iter().filter(|link| link.family() == family) {
            let line = format!("in_port={vtep},dl_src={mac},{ip},{to}={link} actions={commit},NORMAL");
            self.flow("the host to its link", 0, 102, line);
        }
        if let Some(wire) = wire {
            let line = format!("in_port={vtep},{ip} actions={commit},output:{wire}");
            self.flow("the host to the wire", 0, 100, line);
        }
    }

    /// The host's own packets for a place where a Service answers.
    fn host_to(&mut self, family: Family, place: &str) {
        let (ip, from, vtep) = (family.ip(), family.source(), self.under.vtep);
        let (zone, host) = (self.gateway.host_zone(), self.address(family, Masquerade::Host));
        // Its routes may prefer the masquerade address as their source.
        let own: Vec<IpAddr> = self.gateway.own(family).chain([host]).collect();
        for own in own {
            let line = format!(
                "in_port={vtep},{ip},{from}={own},{place} actions=ct(commit,table=2,zone={zone},nat(src={host}))"
            );
            self.flow("the host to Services", 0, 501, line);
        }
    }

    /// Packets of others that the host forwards to a place where a Service answers.
    fn forwarded_to(&mut self, family: Family, place: &str) {
        let (ip, vtep) = (family.ip(), self.under.vtep);
        let (zone, forwarded) = (self.gateway.host_zone(), self.address(family, Masquerade::Forwarded));
        let line = format!("in_port={vtep},{ip},{place} actions=ct(commit,table=2,zone={zone},nat(src={forwarded}))");
        self.flow("those that the host forwards for, to Services", 0, 500, line);
    }

    /// What the Pods' side sends to the host.
    fn for_host(&mut self, names: &Names) {
        let Names { family, ip, from, to, .. } = *names;
        let Under { patch, vtep, .. } = *self.under;
        let (host_zone, pods_zone, mac) = (self.gateway.host_zone(), self.gateway.pods_zone(), self.mac);
        for which in [Masquerade::Host, Masquerade::Forwarded] {
            let address = self.address(family, which);
            let line = format!("in_port={patch},{ip},{to}={address} actions=ct(table=3,zone={host_zone},nat)");
            self.flow("answers of Services to the host", 0, 500, line);
        }
        let next_hop = self.gateway.mac(family, Masquerade::NextHop);
        // A refusal answers what the host wrote, to whom it wrote: nothing of it is translated.
        let line = format!("in_port={patch},dl_src={next_hop},{ip} actions=output:{vtep}");
        self.flow("the host hears what the Pods' side refuses", 0, 505, line);
        let Some(node) = self.gateway.address(family) else { return };
        let host = self.address(family, Masquerade::Host);
        let line = format!(
            "in_port={patch},{ip},{from}={node},{to}={host} actions=ct(commit,table=4,zone={host_zone},nat(dst={node}))"
        );
        self.flow("Services to endpoints on the host", 0, 510, line);
        let others: Vec<IpAddr> = self.gateway.own(family).filter(|own| *own != node).collect();
        for other in others {
            let line =
                format!("in_port={patch},{ip},{from}={node},{to}={other} actions=ct(commit,table=4,zone={host_zone})");
            self.flow("Services to other addresses of the host", 0, 510, line);
        }
        let side = self.address(family, Masquerade::PodsSide);
        let line = format!("{ip} actions=ct(commit,table=3,zone={pods_zone},nat(src={side}))");
        self.flow("the Pods' side, as the host sees it", 4, 100, line);
        let line = format!("{ip} actions=set_field:{next_hop}->eth_src,set_field:{mac}->eth_dst,output:{vtep}");
        self.flow("to the host", 3, 100, line);
    }

    /// What the Pods' side sends to the wire.
    fn of_pods(&mut self, names: &Names) {
        let Names { family, ip, from, to, .. } = *names;
        let (patch, mac, zone) = (self.under.patch, self.mac, self.gateway.wire_zone());
        let of = |cidrs: &[crate::Cidr]| -> Vec<_> {
            cidrs.iter().filter(|cidr| cidr.family() == family).copied().collect()
        };
        for cidr in of(&self.node.service_cidrs) {
            self.flow("no such Service", 0, 115, format!("in_port={patch},{ip},{to}={cidr} actions=drop"));
        }
        let keep = self.gateway.pods_keep_addresses;
        let commit = format!("ct(commit,zone={zone},{OF_PODS})");
        for cidr in of(&self.node.pod_cidrs) {
            let from_pods = format!("in_port={patch},dl_src={mac},{ip},{from}={cidr}");
            match (keep, self.under.wire) {
                (true, Some(wire)) => {
                    let line = format!("{from_pods} actions={commit},output:{wire}");
                    self.flow("Pods with their own addresses", 0, 103, line);
                    let line = format!("{ip},{to}={cidr} actions={commit},{}", self.to_pods());
                    self.flow("to Pods by their own addresses", 1, 90, line);
                }
                // In shared mode they get the Node's address below.
                _ if self.gateway.mode == Mode::Shared => {}
                _ => {
                    let line = format!("in_port={patch},{ip},{from}={cidr} actions=drop");
                    self.flow("never with a Pod's address", 0, 103, line);
                }
            }
        }
        // The source is translated in the zone of the host's connections: Pods come there with
        // their own addresses, so that none of their packets is of a connection of the host, and a
        // port that the host uses is not theirs.
        if let (Mode::Shared, Some(wire), Some(node)) =
            (self.gateway.mode, self.under.wire, self.gateway.address(family))
        {
            let line = format!(
                "in_port={patch},dl_src={mac},{ip} actions=ct(commit,zone={zone},nat(src={node}),{OF_PODS}),output:{wire}"
            );
            self.flow("Pods' side to the wire, with the Node's address", 0, 100, line);
        }
    }

    /// What comes from the wire for the Node.
    fn of_wire(&mut self, names: &Names) {
        let Some(wire) = self.under.wire else { return };
        let (ip, vtep) = (names.ip, self.under.vtep);
        let (mac, zone) = (self.mac, self.gateway.wire_zone());
        let line = format!("in_port={wire},dl_dst={mac},{ip} actions=ct(table=1,zone={zone},nat)");
        self.flow("whose connection it is", 0, 50, line);
        if names.family == Family::V6 {
            for kind in [133, 134, 137] {
                let line =
                    format!("in_port={wire},dl_dst={mac},icmp6,icmp_type={kind},icmp_code=0 actions=output:{vtep}");
                self.flow("neighbour discovery", 0, 60, line);
            }
        }
        for state in ["+trk+est", "+trk+rel"] {
            let line = format!("ct_state={state},ct_mark=0x1,{ip} actions={}", self.to_pods());
            self.flow("a connection of the Pods' side", 1, 100, line);
            let line = format!("ct_state={state},ct_mark=0x2,{ip} actions=output:{vtep}");
            self.flow("a connection of the host", 1, 100, line);
        }
    }

    /// Connections of endpoints on the host: what the wire sends, and answers.
    fn endpoints(&mut self, names: &Names) {
        let Some(wire) = self.under.wire else { return };
        let (ip, vtep) = (names.ip, self.under.vtep);
        let (own, zone) = (self.gateway.endpoint_zone(), self.gateway.wire_zone());
        let (icmp, kinds) = errors(names.family);
        for kind in kinds {
            let line = format!("{icmp},icmp_type={kind} actions=ct(table=6,zone={own},nat)");
            self.flow("errors about endpoints on the host", 1, 20, line);
        }
        self.flow("to an endpoint on the host", 6, 110, format!("{ip} actions=output:{vtep}"));
        let line = format!("ct_state=+trk+est,{ip} actions=output:{wire}");
        self.flow("answers of endpoints on the host", 7, 110, line);
        let line = format!("{ip} actions=ct(commit,zone={zone},{OF_HOST}),output:{wire}");
        self.flow("the host to the wire, no answer of an endpoint", 7, 100, line);
    }

    /// Packets for a place where a Service answers: an address of its own, or ports of one of the
    /// Node's. `on_host`: all of its endpoints here are at this port of the host.
    pub(crate) fn serves(&mut self, address: &IpAddr, protocol: &str, port: u16, on_host: Option<u16>) {
        let names = self.names(Family::of(address));
        let Names { family, ip, from, to, .. } = names;
        let (patch, mac, zone) = (self.under.patch, self.mac, self.gateway.wire_zone());
        let is_ours = self.node.is_own(address) || self.gateway.own(family).any(|own| own == *address);
        if !is_ours {
            self.host_to(family, &format!("{to}={address}"));
            // What the wire sends there comes to the host first.
            if self.gateway.mode == Mode::Local {
                self.forwarded_to(family, &format!("{to}={address}"));
            }
        }
        let Some(wire) = self.under.wire else { return };
        if let Some(port_there) = on_host
            && self.endpoint(address, protocol, port, port_there)
        {
            return;
        }
        if self.gateway.mode == Mode::Local {
            return;
        }
        let commit = format!("ct(commit,zone={zone},{OF_PODS})");
        let what = if is_ours { format!("{protocol},tp_dst={port}") } else { ip.to_owned() };
        let line = format!("{what},{to}={address} actions={commit},{}", self.to_pods());
        self.flow("for a Service", 1, 90, line);
        if !is_ours {
            let line = format!("in_port={patch},dl_src={mac},{ip},{from}={address} actions={commit},output:{wire}");
            self.flow("answers of a Service", 0, 110, line);
        }
    }

    /// A place whose endpoints here are the host's: they see their clients.
    fn endpoint(&mut self, address: &IpAddr, protocol: &str, port: u16, there: u16) -> bool {
        let family = Family::of(address);
        let (Some(node), Names { from, to, .. }) = (self.gateway.address(family), self.names(family)) else {
            return false;
        };
        let (own, vtep) = (self.gateway.endpoint_zone(), self.under.vtep);
        let at = crate::address::with_port(&node, there);
        let line =
            format!("{protocol},{to}={address},tp_dst={port} actions=ct(commit,table=6,zone={own},nat(dst={at}))");
        self.flow("for a Service whose endpoint is the host", 1, 95, line);
        let line = format!("in_port={vtep},{protocol},{from}={node},tp_src={there} actions=ct(table=7,zone={own},nat)");
        self.flow("answers of endpoints on the host", 0, 111, line);
        true
    }

    /// An Egress address of this Node: tunnels from other Nodes end there; with `translated`,
    /// answers to what the switch translated come to it.
    pub(crate) fn egress(&mut self, address: IpAddr, translated: bool) {
        self.compiled.outside.vteps.push(address);
        let Some(wire) = self.under.wire.filter(|_| translated) else { return };
        let Names { ip, from, to, .. } = self.names(Family::of(&address));
        let (patch, mac, zone) = (self.under.patch, self.mac, self.gateway.wire_zone());
        let line = format!("{ip},{to}={address} actions={}", self.to_pods());
        self.flow("for an Egress IP", 1, 90, line);
        let commit = format!("ct(commit,zone={zone},{OF_PODS})");
        let line = format!("in_port={patch},dl_src={mac},{ip},{from}={address} actions={commit},output:{wire}");
        self.flow("Pods with an Egress IP", 0, 110, line);
        self.answers(&address);
    }

    /// An address that only the switch answers for: the link is told of it.
    pub(crate) fn announced(&mut self, address: IpAddr) {
        self.compiled.outside.announced.push(address);
        self.answers(&address);
    }

    fn answers(&mut self, address: &IpAddr) {
        let Some(wire) = self.under.wire else { return };
        // Above neighbour discovery.
        let line = answering(&format!("in_port={wire}"), address, self.mac);
        self.flow("answers who has the address", 0, 620, line);
    }
}
