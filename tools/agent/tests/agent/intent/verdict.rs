//! What policies as the switch takes them say of packets: of Antrea's the first rule in order of
//! tiers, priorities and places, then Kubernetes' isolation, then the baseline tier.

use std::collections::{BTreeMap, BTreeSet};
use vswitch_agent::project::Projection;
use vswitch_proto::antrea::v1::group_member::Member;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{self, Direction, PolicyKind, Protocol, RuleAction};

/// The first packet of a connection, from one address to another.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) protocol: Protocol,
    pub(crate) port: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    /// Names of Pods of the Node by their addresses.
    pods: BTreeMap<String, String>,
    addresses: BTreeMap<String, BTreeSet<String>>,
    applied: BTreeMap<String, BTreeSet<String>>,
    policies: Vec<v1::NetworkPolicy>,
}

impl Verdicts {
    pub(crate) fn new(projection: &Projection) -> Self {
        let mut verdicts = Self::default();
        let objects = || projection.objects.values().filter_map(|projected| projected.object.object.clone());
        for object in objects() {
            if let Object::Pod(pod) = object {
                verdicts.pods.extend(pod.addresses.into_iter().map(|address| (address, pod.name.clone())));
            }
        }
        let address_of: BTreeMap<&String, &String> =
            verdicts.pods.iter().map(|(address, name)| (name, address)).collect();
        let mut groups = BTreeMap::new();
        for object in objects() {
            match object {
                Object::AddressGroup(group) => {
                    let member = |member: v1::GroupMember| match member.member.expect("one") {
                        Member::Pod(pod) => (*address_of.get(&pod).expect("a Pod of the Node")).clone(),
                        Member::Address(address) => address,
                    };
                    groups.insert(group.name, group.members.into_iter().map(member).collect());
                }
                Object::AppliedToGroup(group) => {
                    verdicts.applied.insert(group.name, group.pods.into_iter().collect());
                }
                Object::NetworkPolicy(policy) => verdicts.policies.push(policy),
                _ => {}
            }
        }
        verdicts.addresses = groups;
        verdicts
    }

    /// Packets between all Pods and an address of the world.
    pub(crate) fn packets() -> impl Iterator<Item = Packet> {
        let addresses: Vec<String> =
            (10..13).chain(20..23).map(|last| format!("10.10.{}.{last}", u8::from(last % 10 == 2))).collect();
        let ends: Vec<String> = addresses.into_iter().chain(["9.9.9.9".to_owned()]).collect();
        let kinds = [(Protocol::Tcp, 80), (Protocol::Tcp, 443), (Protocol::Tcp, 22), (Protocol::Udp, 80)];
        let pairs =
            ends.clone().into_iter().flat_map(move |from| ends.clone().into_iter().map(move |to| (from.clone(), to)));
        pairs.flat_map(move |(from, to)| {
            kinds.map(|(protocol, port)| Packet { from: from.clone(), to: to.clone(), protocol, port })
        })
    }

    /// Whether a packet passes on this Node.
    pub(crate) fn passes(&self, packet: &Packet) -> bool {
        self.allows(packet, &packet.from, &packet.to, Direction::Egress)
            && self.allows(packet, &packet.to, &packet.from, Direction::Ingress)
    }

    fn allows(&self, packet: &Packet, own: &str, other: &str, direction: Direction) -> bool {
        let Some(pod) = self.pods.get(own) else { return true };
        let is_k8s = |policy: &&v1::NetworkPolicy| policy.kind() == PolicyKind::K8s;
        let mut ordered: Vec<(u32, f64, usize, u8, RuleAction)> = Vec::new();
        for policy in self.policies.iter().filter(|policy| !is_k8s(policy)) {
            let rules = policy.rules.iter().filter(|rule| rule.direction() == direction).enumerate();
            for (place, rule) in rules.filter(|(_, rule)| self.meets(policy, rule, pod, other, packet)) {
                // Of two of one place the one that denies more comes first, as in the switch.
                let effect = match rule.action() {
                    RuleAction::Drop => 0,
                    RuleAction::Reject => 1,
                    RuleAction::Pass => 3,
                    _ => 2,
                };
                ordered.push((policy.tier, policy.priority, place, effect, rule.action()));
            }
        }
        ordered.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
        let first = |is_baseline: bool| ordered.iter().find(|rule| (rule.0 >= 253) == is_baseline).map(|rule| rule.4);
        match first(false) {
            Some(RuleAction::Drop | RuleAction::Reject) => return false,
            Some(RuleAction::Pass) | None => {}
            Some(_) => return true,
        }
        let k8s: Vec<_> = self.policies.iter().filter(is_k8s).collect();
        let isolates = |policy: &v1::NetworkPolicy| match direction {
            Direction::Ingress => policy.isolates_ingress,
            _ => policy.isolates_egress,
        };
        let allows = |policy: &&v1::NetworkPolicy| {
            policy
                .rules
                .iter()
                .any(|rule| rule.direction() == direction && self.meets(policy, rule, pod, other, packet))
        };
        if k8s.iter().any(|policy| isolates(policy) && self.is_applied(&policy.applied_to, pod)) {
            return k8s.iter().any(allows);
        }
        !matches!(first(true), Some(RuleAction::Drop | RuleAction::Reject))
    }

    fn is_applied(&self, groups: &[String], pod: &str) -> bool {
        groups.iter().any(|group| self.applied[group].contains(pod))
    }

    fn meets(&self, policy: &v1::NetworkPolicy, rule: &v1::Rule, pod: &str, other: &str, packet: &Packet) -> bool {
        let applied = if rule.applied_to.is_empty() { &policy.applied_to } else { &rule.applied_to };
        let peer = rule.peer.clone().unwrap_or_default();
        let is_any = peer == v1::RulePeer::default();
        let in_block =
            |block: &v1::IpBlock| within(other, &block.cidr) && !block.except_cidrs.iter().any(|e| within(other, e));
        let is_peer = is_any
            || peer.address_groups.iter().any(|group| self.addresses[group].contains(other))
            || peer.blocks.iter().any(in_block);
        let is_port = |port: &v1::PortMatch| {
            let last = if port.end_port == 0 { port.port } else { port.end_port };
            port.protocol() == packet.protocol && (port.port == 0 || (port.port..=last).contains(&packet.port))
        };
        self.is_applied(applied, pod) && is_peer && (rule.ports.is_empty() || rule.ports.iter().any(is_port))
    }
}

fn within(address: &str, cidr: &str) -> bool {
    let (net, length) = cidr.split_once('/').expect("a prefix");
    let bits = |text: &str| text.parse::<std::net::Ipv4Addr>().expect("IPv4").to_bits();
    let length: u32 = length.parse().expect("a length");
    (bits(address) ^ bits(net)).checked_shr(32 - length).unwrap_or(0) == 0
}
