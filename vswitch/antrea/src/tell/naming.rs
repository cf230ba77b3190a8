//! Names for numbers and addresses.

use super::{Decision, Disposition, Packet, Tuple};
use crate::object::endpoints::Endpoints;
use crate::{Claim, Facts, Family, Key, Object, ObjectKind, RuleKey};
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_flow::{Field, FlowKey};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object as Message;

/// What a policy had to say of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyVerdict {
    /// The rule, and its action in Antrea's words.
    pub rule: Option<(v1::RuleRef, &'static str)>,
}

impl PolicyVerdict {
    /// In the interface; None: no rule had anything to say.
    #[must_use]
    pub fn to_proto(&self) -> Option<v1::FlowVerdict> {
        let (rule, action) = self.rule.clone()?;
        Some(v1::FlowVerdict { rule: Some(rule), action: action.to_owned() })
    }
}

/// What the cluster knows of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parties {
    /// Pod of this Node that it is from.
    pub source_pod: Option<Arc<str>>,
    /// Pod of this Node that it is to.
    pub destination_pod: Option<Arc<str>>,
    /// Port of the Service that it was to.
    pub service: Option<Arc<str>>,
    /// Egress that it uses.
    pub egress: Option<Arc<str>>,
    /// Policies of its source.
    pub egress_verdict: PolicyVerdict,
    /// Policies of its destination.
    pub ingress_verdict: PolicyVerdict,
}

impl Parties {
    /// Puts them into a record.
    pub fn tell(&self, record: &mut v1::FlowRecord) {
        let text = |name: &Option<Arc<str>>| name.as_deref().unwrap_or_default().to_owned();
        record.source_pod = text(&self.source_pod);
        record.destination_pod = text(&self.destination_pod);
        record.service = text(&self.service);
        record.egress = text(&self.egress);
        record.egress_verdict = self.egress_verdict.to_proto();
        record.ingress_verdict = self.ingress_verdict.to_proto();
    }
}

/// Names, as they are now.
#[derive(Clone, Copy, Debug)]
pub struct Naming<'a> {
    facts: Facts<'a>,
}

impl<'a> Naming<'a> {
    /// Of this node state.
    #[must_use]
    pub const fn new(facts: Facts<'a>) -> Self {
        Self { facts }
    }

    /// A rule by its number. One that is not there any more: the number alone.
    #[must_use]
    pub fn rule(&self, number: u32) -> v1::RuleRef {
        let key = self.facts.ids.rule_of(number);
        let (policy, rule) = key.map(|key| (key.policy.to_string(), key.rule.to_string())).unwrap_or_default();
        v1::RuleRef { policy, rule, number }
    }

    /// The Pod with an address.
    #[must_use]
    pub fn pod(&self, address: &IpAddr) -> Option<&'a Key> {
        self.facts.desired.pod_of(address)
    }

    /// The Service port that clients reach at a destination: `namespace/name:port`.
    #[must_use]
    pub fn service(&self, to: &Tuple) -> Option<String> {
        let Tuple { destination, protocol, destination_port, .. } = *to;
        let (desired, node) = (self.facts.desired, self.facts.node);
        let direct = desired.holder(&Claim::Service(destination, protocol, destination_port));
        let is_node =
            || node.node_port_addresses.contains(&destination) || node.virtual_node_port.contains(&destination);
        let by_node = || desired.holder(&Claim::NodePort(protocol, destination_port)).filter(|_| is_node());
        let (key, at_node) = direct.map(|key| (key, false)).or_else(|| by_node().map(|key| (key, true)))?;
        let port = desired.service(&key.name)?.ports.iter().find(|port| {
            let number = if at_node { port.node_port } else { Some(port.port) };
            port.protocol.number() == protocol && number == Some(destination_port)
        })?;
        Some(Endpoints::name(&key.name, &port.name))
    }

    /// The rule that isolates a Pod: of the K8s policies that do the one with the lowest name; with
    /// `logged` of those that want it to be logged.
    #[must_use]
    pub fn isolation(&self, pod: &Key, is_egress: bool, logged: bool) -> v1::RuleRef {
        let desired = self.facts.desired;
        let groups = desired.referrers(pod).filter(|key| key.kind == ObjectKind::AppliedToGroup);
        let policies = groups.flat_map(|group| desired.referrers(group).map(move |policy| (policy, group)));
        let isolating = policies.filter(|(policy, group)| {
            let policy = desired.network_policy(&policy.name).filter(|_| policy.kind == ObjectKind::NetworkPolicy);
            policy.is_some_and(|policy| policy.isolates_members(&group.name, is_egress, logged))
        });
        let lowest = isolating.map(|(policy, _)| &policy.name).min();
        v1::RuleRef { policy: lowest.map(ToString::to_string).unwrap_or_default(), rule: String::new(), number: 0 }
    }

    /// The rule of a decision about a packet.
    fn decided(&self, decision: &Decision, applied_to: Option<&Key>, logged: bool) -> v1::RuleRef {
        let denied = matches!(decision.disposition, Disposition::Drop | Disposition::Reject);
        match (decision.rule, applied_to, decision.is_egress()) {
            (0, Some(pod), Some(is_egress)) if denied => self.isolation(pod, is_egress, logged),
            (number, ..) => self.rule(number),
        }
    }

    /// The Pod that a decision's rule is applied to.
    fn applied_to(&self, decision: &Decision, tuple: &Tuple) -> Option<&'a Key> {
        let own = if decision.is_egress()? { &tuple.source } else { &tuple.destination };
        self.pod(own)
    }

    /// A packet that a rule with logging has decided about, for the first time at this time.
    #[must_use]
    pub fn log(&self, decision: &Decision, packet: &Packet, unix_ms: u64) -> v1::PolicyLog {
        let applied_to = self.applied_to(decision, &packet.tuple);
        let rule = self.decided(decision, applied_to, true);
        let key = RuleKey { policy: rule.policy.as_str().into(), rule: rule.rule.as_str().into() };
        let message = self.message(&key);
        let direction = match decision.is_egress() {
            Some(true) => "Egress",
            Some(false) => "Ingress",
            None => "",
        };
        v1::PolicyLog {
            rule: Some(rule),
            rule_name: message.map(|rule| rule.name.clone()).unwrap_or_default(),
            table: decision.table_name(),
            direction: direction.to_owned(),
            disposition: decision.disposition.name().to_owned(),
            priority: self.facts.ids.priorities.get(&key).unwrap_or_default().into(),
            applied_to: applied_to.map(|pod| pod.name.to_string()).unwrap_or_default(),
            tuple: Some(packet.tuple.to_proto()),
            packet_len: packet.len,
            log_label: message.map(|rule| rule.log_label.clone()).unwrap_or_default(),
            packets: 1,
            unix_ms,
        }
    }

    /// A rule as it was written.
    fn message(&self, key: &RuleKey) -> Option<&'a v1::Rule> {
        let entry = self.facts.desired.get(&Key::new(ObjectKind::NetworkPolicy, &key.policy))?;
        let (Message::NetworkPolicy(message), Object::NetworkPolicy(policy)) = (&entry.message, &entry.object) else {
            return None;
        };
        let at = policy.rule_ids().find(|(id, _)| **id == *key.rule)?.1;
        message.rules.get(at)
    }

    /// A packet that was denied: the record of its connection, with this packet as all of it.
    #[must_use]
    pub fn denied(&self, decision: &Decision, packet: &Packet, metadata: &FlowKey, frame_len: u64) -> v1::FlowRecord {
        let original = packet.original(metadata);
        let low32 = |field| u32::try_from(metadata.get(field) & 0xffff_ffff).unwrap_or_default();
        let label = metadata.get(Field::CtLabel);
        let mut parties = self.parties(&original, packet.tuple.destination, label);
        let rule = self.decided(decision, self.applied_to(decision, &packet.tuple), false);
        let verdict = PolicyVerdict { rule: Some((rule, decision.disposition.name())) };
        match decision.is_egress() {
            Some(true) => parties.egress_verdict = verdict,
            _ => parties.ingress_verdict = verdict,
        }
        // What was denied has used none.
        parties.egress = None;
        let mut record = v1::FlowRecord {
            kind: v1::FlowRecordKind::Denied.into(),
            original: Some(original.to_proto()),
            zone: low32(Field::CtZone),
            mark: low32(Field::CtMark),
            label: label_bytes(label),
            original_count: Some(vswitch_proto::v1::Count { packets: 1, bytes: frame_len }),
            reply_count: Some(vswitch_proto::v1::Count::default()),
            source: source(low32(Field::Reg0)).into(),
            ..v1::FlowRecord::default()
        };
        parties.tell(&mut record);
        record
    }

    /// A connection's: who asked whom at first, where it went, and its label.
    #[must_use]
    pub fn parties(&self, original: &Tuple, endpoint: IpAddr, label: u128) -> Parties {
        let pod = |address| self.pod(address).map(|key| Arc::clone(&key.name));
        let allowed = |number: u128| {
            let number = u32::try_from(number & 0xffff_ffff).unwrap_or_default();
            PolicyVerdict { rule: (number != 0).then(|| (self.rule(number), Disposition::Allow.name())) }
        };
        Parties {
            source_pod: pod(&original.source),
            destination_pod: pod(&endpoint),
            service: self.service(original).map(Into::into),
            egress: self.egress(&original.source, &endpoint),
            egress_verdict: allowed(label >> 32),
            ingress_verdict: allowed(label),
        }
    }

    /// The Egress by which a Pod of this Node reaches an address: none does within the cluster.
    fn egress(&self, from: &IpAddr, to: &IpAddr) -> Option<Arc<str>> {
        let Facts { node, desired, .. } = self.facts;
        let pod = self.pod(from)?;
        if !node.features.egress || self.is_within(to) {
            return None;
        }
        // As compiled: of two the one with the lower name.
        let egresses = desired.referrers(pod).filter(|key| key.kind == ObjectKind::Egress);
        let fits = |key: &&Key| {
            let egress = desired.egress(&key.name);
            egress.is_some_and(|egress| Family::of(&egress.address) == Family::of(to))
        };
        egresses.filter(fits).map(|key| &key.name).min().map(Arc::clone)
    }

    /// Whether no Egress applies to a destination: Pods, Nodes, Services, and what the Node's
    /// configuration excepts.
    fn is_within(&self, to: &IpAddr) -> bool {
        let Facts { node, desired, .. } = self.facts;
        let here = node.transport.iter().any(|(address, _)| address == to) || node.gateway.addresses.contains(to);
        let mut excepted = node.service_cidrs.iter().chain(&node.egress_except);
        here || self.pod(to).is_some()
            || desired.holder(&Claim::Node(*to)).is_some()
            || excepted.any(|cidr| cidr.contains(to))
            || desired.peers_at(&crate::Cidr::host(*to)).next().is_some()
    }
}

/// Where a connection began: the lowest 4 bits of `ct_mark`, and of reg0.
#[must_use]
pub const fn source(word: u32) -> v1::FlowSource {
    match word & 0xf {
        1 => v1::FlowSource::Tunnel,
        2 => v1::FlowSource::Gateway,
        3 => v1::FlowSource::Pod,
        4 => v1::FlowSource::Uplink,
        5 => v1::FlowSource::Bridge,
        _ => v1::FlowSource::Unspecified,
    }
}

/// A label in the interface.
#[must_use]
pub fn label_bytes(label: u128) -> Vec<u8> {
    if label == 0 { Vec::new() } else { label.to_be_bytes().to_vec() }
}
