//! What a packet with a mark says: the table that told it, its registers, and itself.

use super::packet::{Original, restored};
use super::{From, Passing, TTL_SHIFT, Traceflow, Way, port_name};
use crate::key::ObjectKind;
use crate::object::Object;
use crate::object::policy::Direction;
use crate::{Claim, Facts, Family, GroupKey, Mac, Table};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use vswitch_flow::extract::extract;
use vswitch_flow::{Field, FlowKey};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::{
    TraceflowAction as Action, TraceflowComponent as Component, TraceflowObservation as Observation,
};

/// Bits of ct_state.
const CT_SNAT: u128 = 0x40;
const CT_DNAT: u128 = 0x80;

/// A packet with a mark, as its controller got it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Number of the table that told it.
    pub table: u8,
    /// Its metadata.
    pub metadata: &'a FlowKey,
    /// Its bytes.
    pub packet: &'a [u8],
}

/// What it tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceflowReport {
    /// In order of the packet's way.
    pub observations: Vec<Observation>,
    /// The packet as it came in, if that is to be told.
    pub packet: Option<Vec<u8>>,
}

/// A packet that is being read.
struct Reader<'a> {
    traceflow: &'a Traceflow,
    facts: &'a Facts<'a>,
    table: Option<Table>,
    key: FlowKey,
    told: Vec<Observation>,
}

impl Traceflow {
    /// What the packet tells.
    #[must_use]
    pub fn tell(&self, seen: &Seen<'_>, facts: &Facts<'_>) -> TraceflowReport {
        let mut key = FlowKey::default();
        key.copy_metadata(seen.metadata);
        let _ = extract(seen.packet, seen.packet.len(), &mut key);
        let table = Table::by_number(seen.table);
        let mut reader = Reader { traceflow: self, facts, table, key, told: Vec::new() };
        reader.began();
        reader.service();
        reader.policy(Direction::Egress);
        reader.egress();
        reader.policy(Direction::Ingress);
        reader.end();
        let packet = match &self.way {
            Way::Sent(_) => None,
            Way::Arriving { live } => (*live && self.dropped_only).then(|| seen.packet.to_vec()),
            Way::Passing(passing) => Some(restored(seen.packet, &reader.original(passing))),
        };
        TraceflowReport { observations: reader.told, packet }
    }
}

impl Reader<'_> {
    #[allow(clippy::cast_possible_truncation)] // fields are not wider
    fn u32(&self, field: Field) -> u32 {
        self.key.get(field) as u32
    }

    #[allow(clippy::cast_possible_truncation)] // fields are not wider
    fn u16(&self, field: Field) -> u16 {
        self.key.get(field) as u16
    }

    fn is_v6(&self) -> bool {
        self.key.get(Field::EthType) == 0x86dd
    }

    /// An address that the packet has in one of two fields, by its family; None: none.
    fn address(&self, v4: Field, v6: Field) -> Option<IpAddr> {
        self.of_fields(self.is_v6(), v4, v6)
    }

    fn of_fields(&self, is_v6: bool, v4: Field, v6: Field) -> Option<IpAddr> {
        let value = self.key.get(if is_v6 { v6 } else { v4 });
        if value == 0 {
            return None;
        }
        Some(if is_v6 {
            Ipv6Addr::from_bits(value).into()
        } else {
            Ipv4Addr::from_bits(u32::try_from(value).ok()?).into()
        })
    }

    fn source(&self) -> Option<IpAddr> {
        self.address(Field::NwSrc, Field::Ipv6Src)
    }

    fn destination(&self) -> Option<IpAddr> {
        self.address(Field::NwDst, Field::Ipv6Dst)
    }

    /// Source and destination as the packet came in, if they are others now.
    fn translated(&self) -> (Option<IpAddr>, Option<(IpAddr, u16)>) {
        let (source, destination) = (self.source(), self.destination());
        let port = self.u16(Field::TpDst);
        let (was_source, was_destination, was_port) = if let Way::Sent(sent) = &self.traceflow.way {
            let has_ports = matches!(self.key.get(Field::NwProto), 6 | 17 | 132);
            let was_port = if has_ports { sent.destination_port } else { port };
            (Some(sent.source), Some(sent.destination), was_port)
        } else {
            let state = self.key.get(Field::CtState);
            let is = |bit: u128| state & bit != 0;
            let was_source = self.address(Field::CtNwSrc, Field::CtIpv6Src).filter(|_| is(CT_SNAT)).or(source);
            let was = self.address(Field::CtNwDst, Field::CtIpv6Dst).filter(|_| is(CT_DNAT));
            (was_source, was.or(destination), if was.is_some() { self.u16(Field::CtTpDst) } else { port })
        };
        // Of what cannot be read nothing is told.
        let other = destination.is_some() && (destination, port) != (was_destination, was_port);
        (
            was_source.filter(|was| source.is_some_and(|source| source != *was)),
            was_destination.filter(|_| other).map(|was| (was, was_port)),
        )
    }

    /// The Pod behind a port.
    fn pod_at(&self, number: u32) -> String {
        let Facts { desired, ports, .. } = self.facts;
        let port = ports.name(number).map(|port| Claim::Port(port.to_owned()));
        let holder = port.and_then(|port| desired.holder(&port)).filter(|key| key.kind == ObjectKind::Pod);
        holder.map(|key| key.name.to_string()).unwrap_or_default()
    }

    fn is_tunnel(&self, number: u32) -> bool {
        let Facts { node, desired, .. } = self.facts;
        let Some(name) = port_name(self.facts, number) else { return false };
        let mut own = desired.of(ObjectKind::PeerNode).filter_map(|(key, _)| desired.peer_node(&key.name));
        node.tunnel.as_deref() == Some(name) || own.any(|peer| peer.tunnel_port.as_deref() == Some(name))
    }

    /// The other end of the tunnel that it came by, or leaves by.
    fn tunnel_end(&self, came: bool) -> String {
        let (v4, v6) = if came { (Field::TunSrc, Field::TunIpv6Src) } else { (Field::TunDst, Field::TunIpv6Dst) };
        let end = self.of_fields(false, v4, v6).or_else(|| self.of_fields(true, v4, v6));
        end.map(|end| end.to_string()).unwrap_or_default()
    }

    fn add(&mut self, component: Component, action: Action, table: Option<Table>) -> &mut Observation {
        let observation = Observation {
            component: component.into(),
            action: action.into(),
            table: table.map_or("", Table::name).to_owned(),
            ..Observation::default()
        };
        self.told.push_mut(observation)
    }

    /// Where it came from.
    fn began(&mut self) {
        let port = self.u32(Field::InPort);
        let pod = self.pod_at(port);
        let Facts { node, .. } = *self.facts;
        let is_uplink = node.uplink.as_ref().is_some_and(|uplink| port_name(self.facts, port) == Some(&uplink.port));
        let is_arriving = matches!(self.traceflow.way, Way::Arriving { .. });
        if self.is_tunnel(port) || is_uplink || is_arriving {
            let end = self.tunnel_end(true);
            self.add(Component::Forwarding, Action::Received, Some(Table::Classifier)).tunnel_destination = end;
        } else {
            self.add(Component::SpoofGuard, Action::Forwarded, Some(Table::SpoofGuard)).pod = pod;
        }
    }

    /// The Service whose group was chosen from.
    fn service_name(&self) -> String {
        match self.facts.ids.group_key(self.u32(Field::Reg7)) {
            Some(GroupKey::Service { service, port, .. }) if port.is_empty() => service.to_string(),
            Some(GroupKey::Service { service, port, .. }) => format!("{service}:{port}"),
            _ => String::new(),
        }
    }

    /// An endpoint that was chosen.
    fn service(&mut self) {
        let (source, destination) = self.translated();
        // A source alone is Egress's.
        if destination.is_none() && (source.is_none() || self.key.get(Field::PktMark) & 0xff != 0) {
            return;
        }
        let service = self.service_name();
        let (now_source, now, port) = (self.source(), self.destination(), self.u16(Field::TpDst));
        let told = self.add(Component::Lb, Action::Forwarded, Some(Table::EndpointDnat));
        told.service = service;
        if source.is_some() {
            told.translated_source = now_source.map(|now| now.to_string()).unwrap_or_default();
        }
        if let Some((was, was_port)) = destination {
            told.translated_destination = now.filter(|now| *now != was).map(|now| now.to_string()).unwrap_or_default();
            told.translated_port = if port == was_port { 0 } else { port.into() };
        }
    }

    fn rule(&self, number: u32) -> (v1::RuleRef, Option<(Table, &'static str)>) {
        let Some(key) = self.facts.ids.rule_of(number) else {
            // It went meanwhile: its number is all that is known.
            return (v1::RuleRef { number, ..v1::RuleRef::default() }, None);
        };
        let decision = self.facts.desired.network_policy(&key.policy).and_then(|policy| policy.decision(&key.rule));
        (v1::RuleRef { policy: key.policy.to_string(), rule: key.rule.to_string(), number }, decision)
    }

    /// A rule that let it pass, and what stopped it there.
    fn policy(&mut self, direction: Direction) {
        let (register, metric, isolation) = match direction {
            Direction::Egress => (Field::Reg5, Table::EgressMetric, Table::EgressDefaultRule),
            Direction::Ingress => (Field::Reg6, Table::IngressMetric, Table::IngressDefaultRule),
        };
        let number = self.u32(register);
        if number != 0 {
            let (rule, decision) = self.rule(number);
            let (table, word) = decision.unzip();
            let told = self.add(Component::NetworkPolicy, Action::Forwarded, table);
            told.rule = Some(rule);
            word.unwrap_or_default().clone_into(&mut told.reason);
        }
        if self.table == Some(metric) {
            let (rule, decision) = self.rule(self.u32(Field::Reg3));
            let word = decision.map_or("Drop", |(_, word)| word);
            let action = if word == "Reject" { Action::Rejected } else { Action::Dropped };
            let told = self.add(Component::NetworkPolicy, action, Some(metric));
            told.rule = Some(rule);
            word.clone_into(&mut told.reason);
        } else if self.table == Some(isolation) {
            let pod = match direction {
                Direction::Egress => self.pod_at(self.u32(Field::InPort)),
                Direction::Ingress => self.pod_at(self.u32(Field::Reg1)),
            };
            let desired = self.facts.desired;
            let mut policies = desired.of(ObjectKind::NetworkPolicy).map(|(key, _)| key);
            let isolates = |name: &str| {
                desired.network_policy(name).is_some_and(|policy| policy.isolates(&pod, direction, desired))
            };
            let policy = policies.find(|key| isolates(&key.name)).map(|key| key.name.to_string());
            let told = self.add(Component::NetworkPolicy, Action::Dropped, Some(isolation));
            told.rule = policy.map(|policy| v1::RuleRef { policy, ..v1::RuleRef::default() });
            "Drop".clone_into(&mut told.reason);
        }
    }

    /// An Egress that it met.
    fn egress(&mut self) {
        let reg0 = self.u32(Field::Reg0);
        let mark = self.u32(Field::PktMark) & 0xff;
        let pod = self.pod_at(self.u32(Field::InPort));
        if reg0 & 0x8_0000 != 0 {
            let found = self.find_egress(|egress| egress.pods.contains(&pod) && !egress.is_here(self.facts.node));
            let end = self.tunnel_end(false);
            let told = self.add(Component::Egress, Action::Forwarded, Some(Table::EgressMark));
            told.tunnel_destination = end;
            (told.egress, told.translated_source) = found.unwrap_or_default();
        } else if let Some(address) = self.facts.ids.marked_by(mark).copied().filter(|_| mark != 0) {
            let of = |mine: bool| {
                self.find_egress(|egress| egress.address == address && (!mine || egress.pods.contains(&pod)))
            };
            let name = of(true).or_else(|| of(false)).map(|(name, _)| name);
            // The switch's own way is the uplink; the host translates behind the gateway.
            let (action, table) = if reg0 & 0xf0 == 0x40 {
                (Action::Translated, Table::Snat)
            } else {
                (Action::MarkedForSnat, Table::EgressMark)
            };
            let told = self.add(Component::Egress, action, Some(table));
            told.translated_source = address.to_string();
            told.egress = name.unwrap_or_default();
        }
    }

    /// Name and address of the first Egress of the packet's family that is such a one.
    fn find_egress(&self, is: impl Fn(&crate::object::egress::Egress) -> bool) -> Option<(String, String)> {
        let family = if self.is_v6() { Family::V6 } else { Family::V4 };
        self.facts.desired.of(ObjectKind::Egress).find_map(|(key, entry)| match &entry.object {
            Object::Egress(egress) if Family::of(&egress.address) == family && is(egress) => {
                Some((key.name.to_string(), egress.address.to_string()))
            }
            _ => None,
        })
    }

    /// How it ended, if that has not been told.
    fn end(&mut self) {
        let dropped = match self.table {
            Some(Table::Output) if self.u32(Field::Reg0) & 0x60_0000 == 0x20_0000 => return self.left(),
            Some(Table::EgressMetric | Table::IngressMetric | Table::EgressDefaultRule | Table::IngressDefaultRule) => {
                return;
            }
            Some(Table::ConntrackState | Table::DsrServiceMark) => {
                (Component::Forwarding, "invalid: the tracker takes it for no packet of a connection")
            }
            Some(Table::ServiceLb) => (Component::Lb, "the load balancer's source ranges do not have its source"),
            Some(Table::EndpointDnat) => (Component::Lb, "the Service has no endpoint"),
            Some(Table::EgressMark | Table::Snat) => (Component::Egress, "no Node has the Egress now"),
            Some(Table::L3DecTtl) => (Component::Routing, "its TTL has run out"),
            Some(Table::Output) => (Component::Forwarding, "there is no way to its destination"),
            _ => (Component::Forwarding, ""),
        };
        let (component, reason) = dropped;
        let service = if component == Component::Lb { self.service_name() } else { String::new() };
        // By the switch, or by an agent that has taken that over.
        let refused = self.table == Some(Table::EndpointDnat);
        let action = if refused { Action::Rejected } else { Action::Dropped };
        let ttl = self.u32(Field::NwTtl);
        let told = self.add(component, action, self.table);
        told.service = service;
        told.ttl = ttl;
        reason.clone_into(&mut told.reason);
    }

    /// Where it left.
    fn left(&mut self) {
        let port = self.u32(Field::Reg1);
        let name = port_name(self.facts, port).unwrap_or_default().to_owned();
        let pod = self.pod_at(port);
        let node = self.facts.node;
        let destination = self.destination();
        let mut own = node.gateway.addresses.iter().chain(node.transport.iter().map(|(own, _)| own));
        let ours = own.any(|own| Some(*own) == destination);
        let is_uplink = node.uplink.as_ref().is_some_and(|uplink| uplink.port == name);
        let mut end = String::new();
        let action = if self.is_tunnel(port) {
            end = self.tunnel_end(false);
            Action::Forwarded
        } else if name == node.gateway.port || is_uplink {
            match destination {
                _ if ours && !is_uplink => Action::Delivered,
                Some(to) if self.is_pods(&to) => Action::Forwarded,
                _ => Action::ForwardedOutOfOverlay,
            }
        } else if pod.is_empty() {
            Action::Forwarded
        } else {
            Action::Delivered
        };
        let (ttl, reason) = (self.u32(Field::NwTtl), self.detour(&name, action));
        let vlan = node.zones.vlan_of(self.u16(Field::Reg8)).into();
        let told = self.add(Component::Forwarding, action, Some(Table::Output));
        (told.tunnel_destination, told.ttl, told.vlan) = (end, ttl, vlan);
        told.pod = pod;
        told.reason = reason;
    }

    /// Whether an address is a Pod's of this Node or of another one.
    fn is_pods(&self, address: &IpAddr) -> bool {
        let Facts { node, desired, .. } = self.facts;
        let mut peers = desired.of(ObjectKind::PeerNode).filter_map(|(key, _)| desired.peer_node(&key.name));
        node.pod_cidrs.iter().any(|cidr| cidr.contains(address))
            || peers.any(|peer| peer.pod_cidrs.iter().any(|cidr| cidr.contains(address)))
    }

    /// What live packets do before they get there.
    fn detour(&self, port: &str, action: Action) -> String {
        let target = || port_name(self.facts, self.u32(Field::Reg9)).unwrap_or_default();
        if self.key.get(Field::CtMark) & 0x80 != 0 {
            return "by the L7 engine".to_owned();
        }
        match self.u32(Field::Reg4) & 0xc0_0000 {
            0x80_0000 => format!("redirected by port {}", target()),
            0x40_0000 => format!("mirrored to port {}", target()),
            _ if action == Action::Forwarded && !self.is_tunnel(self.u32(Field::Reg1)) => format!("by port {port}"),
            _ => String::new(),
        }
    }

    /// What is different in a live packet from what it came in with.
    fn original(&self, passing: &Passing) -> Original {
        let (source, destination) = self.translated();
        let mut original = Original {
            source,
            destination: destination.map(|(was, _)| was),
            destination_port: destination.map(|(_, port)| port),
            ..Original::default()
        };
        if source.is_some() {
            original.source_port = Some(self.u16(Field::CtTpSrc));
        }
        if let From::Pod(name) = &passing.from {
            let bits = self.key.get(Field::Xreg5).to_be_bytes();
            original.destination_mac = bits.last_chunk().copied().map(Mac);
            original.source_mac = self.facts.desired.pod(name).map(|pod| pod.mac);
            original.ttl = (self.key.get(Field::Metadata) >> TTL_SHIFT).to_be_bytes().last().copied();
        }
        original
    }
}
