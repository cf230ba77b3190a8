//! Flows that the Pods' bridge has for a gateway bridge.
//!
//! The host comes by the uplink with the masquerade address of the host: it is local for Services,
//! and no policy for receivers binds it. Pods see the gateway's address in its place. A packet
//! that came by the uplink reaches endpoints on the host by it: it leaves with the Node's address,
//! `reg4[30]`. In shared mode Pods' packets to the world outside leave by the uplink; the
//! gateway bridge gives them the Node's address.

use super::{GatewayBridge, Masquerade};
use crate::node::LocalProbe;
use crate::node::compile::no_egress;
use crate::object::endpoints::Endpoint;
use crate::problem::Code;
use crate::{Cidr, CompiledObject, Facts, Family};
use std::fmt::Display;
use std::net::IpAddr;

/// Leaves with the Node's address.
const AS_NODE: &str = "reg4=0x40000000/0x40000000";
const SET_AS_NODE: &str = "set_field:0x40000000/0x40000000->reg4";

struct Writer<'a, 'b> {
    facts: &'a Facts<'a>,
    compiled: &'b mut CompiledObject,
    gateway: &'a GatewayBridge,
    family: Family,
}

/// Writes them.
pub(crate) fn compile(facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let Some(gateway) = facts.node.gateway_bridge() else { return };
    for family in facts.node.families.iter().copied() {
        let mut write = Writer { facts, compiled, gateway, family };
        write.host();
        write.endpoints();
        write.with_nodes_address();
        write.way_out();
    }
    if let Some(port) = facts.node.uplink.as_ref().and_then(|uplink| facts.ports.number(&uplink.port)) {
        let line =
            format!("table=Output, priority=210,in_port={port},reg0=0x200000/0x600000,reg1={port:#x} actions=IN_PORT");
        compiled.shared(facts, "back to the gateway bridge", &line);
    }
}

impl Writer<'_, '_> {
    fn flow(&mut self, purpose: &'static str, line: impl Display) {
        self.compiled.shared(self.facts, purpose, &line.to_string());
    }

    fn uplink(&self) -> (String, crate::Mac) {
        let uplink = self.facts.node.uplink.as_ref();
        let port = uplink.map(|uplink| self.facts.in_port(&uplink.port)).unwrap_or_default();
        (port, uplink.map(|uplink| uplink.mac).unwrap_or_default())
    }

    /// The host itself.
    fn host(&mut self) {
        let (family, node) = (self.family, self.facts.node);
        let (ip, source, destination) = (family.ip(), family.source(), family.destination());
        let (port, mac) = self.uplink();
        let host = self.gateway.masquerade(family, Masquerade::Host);
        let line = format!(
            "table=Classifier, priority=222,{ip},{port},dl_dst={mac},{source}={host} actions=set_field:0x4/0xf->reg0,\
             set_field:0x200/0x200->reg0,set_field:0x10000000/0x10000000->reg4,\
             move:NXM_OF_ETH_SRC[]->OXM_OF_PKT_REG5[0..47],goto_table:UnSNAT"
        );
        self.flow("from the host itself, by the gateway bridge", line);
        let prefix = self.gateway.prefix(family);
        let line = format!("table=UnSNAT, priority=210,{ip},{destination}={prefix} actions=drop");
        self.flow("masquerade addresses are no place to go", line);
        let (local, from) = (self.gateway.masquerade(family, Masquerade::LocalPolicy), &node.gateway.port);
        let port = self.facts.in_port(from);
        let line =
            format!("table=UnSNAT, priority=211,{ip},{port},{destination}={local} actions=goto_table:ConntrackZone");
        self.flow("NodePorts that the host translates to this address", line);
        let line = format!(
            "table=NodePortMark, priority=200,{ip},{destination}={local} actions=set_field:0x80000/0x80000->reg4"
        );
        self.flow("an address of NodePorts", line);
        let who = "move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3],move:OXM_OF_PKT_REG5[0..47]->NXM_NX_CT_LABEL[76..123]";
        let zone = node.zone_of_packet(family);
        let line = format!(
            "table=SNATMark, priority=207,ct_state=+new+trk,{ip},reg0=0x4/0xf,{source}={prefix} \
             actions=ct(commit,table=SNAT,zone={zone},exec({who},set_field:0x20/0x20->ct_mark))"
        );
        self.flow("Pods see the gateway's address", line);
        let line = format!(
            "table=SNATMark, priority=208,ct_state=+new+trk,{ip},reg0=0x44/0xff,{AS_NODE} \
             actions=ct(commit,table=SNAT,zone={zone},exec({who},set_field:0x20/0x20->ct_mark))"
        );
        self.flow("endpoints on the host see the Node's address", line);
        if node.local_probe == LocalProbe::ByAddress {
            let line = format!(
                "table=IngressSecurityClassifier, priority=210,ct_state=-rpl+trk,{ip},reg0=0x4/0xf,\
                 reg4=0x10000000/0x10000000 actions=goto_table:ConntrackCommit"
            );
            self.flow("the host itself", line);
        }
    }

    /// Where endpoints on the host are: the host's masquerade address stands for the Node's.
    fn places(&self) -> Vec<IpAddr> {
        let node = self.gateway.address(self.family);
        let others = self.gateway.own(self.family).filter(|own| Some(*own) != node);
        [self.gateway.masquerade(self.family, Masquerade::Host)].into_iter().chain(others).collect()
    }

    /// Endpoints on the host, for packets that came by the uplink.
    fn endpoints(&mut self) {
        let family = self.family;
        let (ip, destination, (_, mac)) = (family.ip(), family.destination(), self.uplink());
        let next = self.gateway.mac(family, Masquerade::NextHop);
        for place in self.places() {
            let line = format!(
                "table=L3Forwarding, priority=211,ct_state=-rpl+trk,{ip},reg0=0x4/0xf,{destination}={place} \
                 actions=set_field:{mac}->eth_src,set_field:{next}->eth_dst,set_field:0x40/0xf0->reg0,{SET_AS_NODE},goto_table:L3DecTTL"
            );
            self.flow("endpoints on the host", line);
        }
    }

    /// Sources that become the Node's address, and answers.
    fn with_nodes_address(&mut self) {
        let (family, node) = (self.family, self.facts.node);
        let Some(address) = self.gateway.address(family) else { return };
        let (ip, source, destination, zone) =
            (family.ip(), family.source(), family.destination(), node.egress_zone(family));
        for place in self.places() {
            let line = format!(
                "table=UnSNAT, priority=200,{ip},reg0=0x4/0xf,{source}={place},{destination}={address} \
                 actions=ct(table=ConntrackZone,zone={zone},nat)"
            );
            self.flow("answers of endpoints on the host", line);
        }
        let line = format!(
            "table=SNAT, priority=206,ct_state=+new+trk,{ip},{AS_NODE} actions=ct(commit,table=L2ForwardingCalc,zone={zone},nat(src={address}))"
        );
        self.flow("its source is the Node's address", line);
        let line = format!(
            "table=SNAT, priority=206,ct_state=-new-rpl+trk,ct_mark=0x20/0x20,{ip},{AS_NODE} actions=ct(table=L2ForwardingCalc,zone={zone},nat)"
        );
        self.flow("as the first packet of the connection", line);
        let line = format!("table=L2ForwardingCalc, priority=195,ct_state=-snat+trk,{ip},{AS_NODE} actions=drop");
        self.flow("never with another address", line);
    }

    /// Pods to the world outside.
    fn way_out(&mut self) {
        let (family, node) = (self.family, self.facts.node);
        let ip = family.ip();
        for own in self.gateway.own(family) {
            let except = no_egress(node, &Cidr::host(own));
            self.flow("no Egress applies", except);
        }
        let hops = node.uplink.iter().flat_map(|uplink| &uplink.next_hops);
        let has_hop = hops.into_iter().any(|(hop, _)| Family::of(hop) == family);
        if node.shared_gateway().is_none() || !has_hop {
            return;
        }
        let actions = match self.facts.way_out(family) {
            Ok((own, hop)) => {
                format!(
                    "set_field:0x40/0xf0->reg0,set_field:{own}->eth_src,set_field:{hop}->eth_dst,goto_table:L3DecTTL"
                )
            }
            Err(reason) => {
                self.compiled.degraded.push(Code::Pending, "uplink.next_hops", format!("Pods cannot leave: {reason}"));
                "drop".to_owned()
            }
        };
        if !node.features.egress {
            let except = node.service_cidrs.iter().chain(&node.egress_except).copied();
            let own = node.transport.iter().map(|(address, _)| Cidr::host(*address));
            for cidr in except.chain(own).filter(|cidr| cidr.family() == family) {
                let line = no_egress(node, &cidr);
                self.flow("no Egress applies", line);
            }
            let line =
                format!("table=L3Forwarding, priority=188,ct_state=-rpl+trk,{ip},reg0=0x3/0xf actions={actions}");
            return self.flow("Pods to the world outside, by the wire", line);
        }
        for source in ["0x3", "0x7"] {
            let line =
                format!("table=EgressMark, priority=188,ct_state=-rpl+trk,{ip},reg0={source}/0xf actions={actions}");
            self.flow("Pods to the world outside, by the wire", line);
        }
    }
}

/// `EndpointDNAT`'s flow for an endpoint at the Node's address, asked by the uplink: it is behind
/// the gateway bridge.
pub(crate) fn endpoint(facts: &Facts<'_>, endpoint: &Endpoint, protocol: &str) -> Option<String> {
    let gateway = facts.node.gateway_bridge()?;
    let family = Family::of(&endpoint.address);
    if gateway.address(family) != Some(endpoint.address) {
        return None;
    }
    let (register, value) = (family.endpoint_register(), crate::address::hex(&endpoint.address));
    let (zone, host) = (facts.node.zone_of_packet(family), gateway.masquerade(family, Masquerade::Host));
    Some(format!(
        "table=EndpointDNAT, priority=205,{protocol},{register}={value},reg0=0x4/0xf,reg4={:#x}/0x7ffff \
         actions=ct(commit,table=AntreaPolicyEgressRule,zone={zone},nat(dst={}),\
         exec(set_field:0x10/0x10->ct_mark,move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))",
        0x20000 | u32::from(endpoint.port),
        crate::address::with_port(&host, endpoint.port),
    ))
}
