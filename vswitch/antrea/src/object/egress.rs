//! `Egress`.

mod compile;
#[cfg(test)]
pub(crate) mod tests;

use super::judge;
use super::pod::{check_host, check_pod_name};
use crate::address::parse_address;
use crate::key::Need;
use crate::object::Object;
use crate::problem::{Code, Problems};
use crate::{Cidr, Claim, Desired, Facts, Family, Flush, Ids, Key, ObjectKind, Node, CompiledObject, Problem, Reference};
use std::collections::BTreeSet;
use std::net::IpAddr;
use vswitch_proto::antrea::v1;

/// Who translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// The switch, out by the uplink.
    Switch,
    /// The host.
    Host,
}

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Kilobits per second.
    pub rate_kbps: u32,
    /// Kilobits at once.
    pub burst_kb: u32,
}

/// A source address for packets of some Pods to the world outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    /// The address.
    pub address: IpAddr,
    /// Node that has it; empty: nobody yet.
    pub node: String,
    /// Pods of this Node that it applies to.
    pub pods: Vec<String>,
    /// Who translates; None: the switch if there is an uplink, else the host.
    pub translation: Option<Translation>,
    /// At most so much.
    pub bandwidth: Option<Bandwidth>,
}

impl Egress {
    pub(crate) fn name_of(message: &v1::Egress) -> String {
        message.name.clone()
    }

    pub(crate) fn read(message: &v1::Egress, problems: &mut Problems) -> Option<Self> {
        let address = if message.address.is_empty() {
            problems.push(Code::Missing, "address", "it has no address");
            None
        } else {
            problems.take("address", parse_address(&message.address))
        };
        if let Some(address) = &address {
            check_host("address", address, problems);
        }
        let translation = match v1::EgressTranslation::try_from(message.translation) {
            Ok(v1::EgressTranslation::Unspecified) => None,
            Ok(v1::EgressTranslation::Switch) => Some(Translation::Switch),
            Ok(v1::EgressTranslation::Host) => Some(Translation::Host),
            Err(_) => {
                problems.push(Code::Value, "translation", format!("{} is no translation", message.translation));
                None
            }
        };
        let pods = read_pods(&message.pods, problems);
        let bandwidth = message.bandwidth.as_ref().map(|told| {
            for (field, value) in [("rate_kbps", told.rate_kbps), ("burst_kb", told.burst_kb)] {
                if value == 0 {
                    problems.push(Code::Range, format!("bandwidth.{field}"), format!("0: 1 to {}", u32::MAX));
                }
            }
            Bandwidth { rate_kbps: told.rate_kbps, burst_kb: told.burst_kb }
        });
        Some(Self { address: address?, node: message.node.clone(), pods, translation, bandwidth })
    }

    /// Its Node may go: then it has no way.
    pub(crate) fn references(&self) -> Vec<Reference> {
        let mut references = pod_references(&self.pods);
        if !self.node.is_empty() {
            let key = Key::new(ObjectKind::PeerNode, &self.node);
            references.push(Reference { key, need: Need::May, field: "node".to_owned() });
        }
        references
    }

    pub(crate) fn claims(&self) -> Vec<(Claim, String)> {
        Vec::new()
    }

    pub(crate) fn judge(&self, name: &str, facts: &Facts<'_>, problems: &mut Problems) {
        let features = facts.features();
        if !features.egress {
            problems.push(Code::Feature, "", "it needs features.egress");
        }
        if self.bandwidth.is_some() && !features.egress_traffic_shaping {
            problems.push(Code::Feature, "bandwidth", "without features.egress_traffic_shaping there is no limit");
        }
        judge::family("address", &self.address, facts, problems);
        self.contested(name, facts, problems);
    }

    /// Whether it cannot have its address, or not what is to be done with it: it has no effect
    /// then.
    fn contested(&self, name: &str, facts: &Facts<'_>, problems: &mut Problems) -> bool {
        let before = problems.count();
        if self.lacks_uplink(facts.node) {
            problems.push(Code::Feature, "translation", "it needs the Node's uplink");
        }
        judge::no_service("address", &self.address, facts, problems);
        let others = facts.desired.overlapping(&Cidr::host(self.address));
        if let Some((_, pod)) = others.iter().find(|(_, key)| key.kind == ObjectKind::Pod) {
            let reason = format!("{} belongs to {pod}", self.address);
            problems.add(Problem::new(Code::Overlap, "address", reason).other((*pod).clone()));
        }
        for (_, key) in facts.desired.peers_at(&Cidr::host(self.address)) {
            if facts.desired.peer_node(&key.name).is_some_and(|peer| peer.gateways.contains(&self.address)) {
                let problem = Problem::new(Code::Overlap, "address", format!("{} is {key}'s gateway", self.address));
                problems.add(problem.other(key.clone()));
            }
        }
        if facts.node.gateway.addresses.contains(&self.address) {
            let problem = Problem::new(Code::Overlap, "address", format!("{} is the gateway's", self.address));
            problems.add(problem.other(Key::node()));
        }
        let is_before = |key: &Key| key.kind == ObjectKind::Egress && *key.name < *name;
        let unlike = |other: &Self| {
            (&other.node, other.translation, other.bandwidth) != (&self.node, self.translation, self.bandwidth)
        };
        let other = others.iter().map(|(_, key)| key).filter(|key| is_before(key)).find(|key| {
            facts.desired.egress(&key.name).is_some_and(|other| unlike(other) && !other.lacks_uplink(facts.node))
        });
        if let Some(key) = other {
            let reason = format!("{key} has the same address, and another node, translation or bandwidth");
            problems.add(Problem::new(Code::Conflict, "address", reason).other((*key).clone()));
        }
        problems.count() != before
    }

    /// Whether the switch is to translate, and cannot: then it has no effect.
    fn lacks_uplink(&self, node: &Node) -> bool {
        self.translation == Some(Translation::Switch) && node.uplink.is_none() && self.is_here(node)
    }

    pub(crate) fn claim(&self, _name: &str, _desired: &Desired, _ids: &mut Ids) -> Result<(), Problem> {
        Ok(())
    }

    pub(crate) fn ports(&self) -> Vec<String> {
        Vec::new()
    }

    /// What was translated to an address that goes, or goes to another Node, ends: the next one to
    /// have its mark would inherit it.
    pub(crate) fn flush(&self, _name: &str, new: Option<&Self>, facts: &Facts<'_>, flush: &mut BTreeSet<Flush>) {
        let same = |other: &Self| other.address == self.address && other.node == self.node;
        let there = facts.desired.overlapping(&Cidr::host(self.address));
        let mut others = there.iter().filter_map(|(_, key)| facts.desired.egress(&key.name).filter(|_| key.kind == ObjectKind::Egress));
        if !new.is_some_and(same) && !others.any(same) {
            flush.insert(Flush::Address(self.address));
        }
    }

    pub(crate) fn compile(&self, name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
        compile::compile(self, name, facts, compiled);
    }

    /// The mark and the address that the host has to give its packets. None: it has no effect, or
    /// the host has no part in it.
    pub(crate) fn by_host(&self, name: &str, facts: &Facts<'_>) -> Option<(u8, IpAddr)> {
        let node = facts.node;
        let is_in_effect = facts.features().egress && node.has(Family::of(&self.address)) && self.is_here(node);
        if !is_in_effect || !self.is_hosts(node) || self.contested(name, facts, &mut Problems::default()) {
            return None;
        }
        Some((u8::try_from(facts.ids.mark(&self.address)?).ok()?, self.address))
    }

    /// Whether the host translates.
    const fn is_hosts(&self, node: &Node) -> bool {
        node.uplink.is_none() || matches!(self.translation, Some(Translation::Host))
    }

    /// Whether its address is on this Node.
    #[must_use]
    pub fn is_here(&self, node: &Node) -> bool {
        self.node == node.name
    }
}

/// Numbers of addresses that Egresses of this Node have, and of no others. Returns Egresses that
/// there is no number for.
pub(crate) fn mark(node: &Node, desired: &Desired, ids: &mut Ids) -> Vec<(Key, Problem)> {
    let here = |key: &Key| desired.egress(&key.name).is_some_and(|egress| egress.is_here(node));
    let of = |address: &IpAddr| desired.overlapping(&Cidr::host(*address));
    let used = |address: &IpAddr| of(address).iter().any(|(_, key)| key.kind == ObjectKind::Egress && here(key));
    let free: Vec<IpAddr> = ids.marked().filter(|address| !used(address)).copied().collect();
    free.iter().for_each(|address| ids.release_mark(address));
    let mut without = Vec::new();
    for (key, entry) in desired.of(ObjectKind::Egress) {
        if let Object::Egress(egress) = &entry.object
            && egress.is_here(node)
            && let Err(problem) = ids.claim_mark(egress.address)
        {
            without.push((key.clone(), problem));
        }
    }
    without
}

/// Names of Pods: each well-formed, and taken once.
pub(crate) fn read_pods(pods: &[String], problems: &mut Problems) -> Vec<String> {
    let mut named = BTreeSet::new();
    let mut once = Vec::with_capacity(pods.len());
    for (at, pod) in pods.iter().enumerate() {
        let field = format!("pods[{at}]");
        if pod.is_empty() {
            problems.push(Code::Missing, &field, "it has no name");
        }
        check_pod_name(&field, pod, problems);
        if named.insert(pod) {
            once.push(pod.clone());
        } else {
            problems.twice(&field, pod);
        }
    }
    once
}

/// Pods may come and go.
pub(crate) fn pod_references(pods: &[String]) -> Vec<Reference> {
    let reference = |(at, pod): (usize, &String)| Reference {
        key: Key::new(ObjectKind::Pod, pod),
        need: Need::May,
        field: format!("pods[{at}]"),
    };
    pods.iter().enumerate().map(reference).collect()
}

/// The family's other Egress that counts for a Pod in this one's place: the one with the lowest
/// name of those that have an effect.
fn before(facts: &Facts<'_>, name: &str, pod: &str, family: Family) -> Option<Key> {
    let of_family = |key: &&Key| match facts.desired.get(key).map(|entry| &entry.object) {
        Some(Object::Egress(other)) => {
            Family::of(&other.address) == family && !other.contested(&key.name, facts, &mut Problems::default())
        }
        _ => false,
    };
    let pod = Key::new(ObjectKind::Pod, pod);
    let others = facts.desired.referrers(&pod).filter(|key| key.kind == ObjectKind::Egress);
    others.filter(|key| *key.name < *name).find(of_family).cloned()
}
