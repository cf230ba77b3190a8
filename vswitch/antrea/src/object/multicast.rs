//! `MulticastGroup`: one that an agent declares, which then reads IGMP itself
//! ([`crate::node::PacketCategory::Igmp`] taken over); and groups that are there without any
//! object: those that Pods and Nodes were heard to join, everybody's, and that of all Nodes.

mod compile;
#[cfg(test)]
mod tests;

use super::egress::{pod_references, read_pods};
use crate::igmp::{ALL_REPORTS, is_group};
use crate::membership::{PodLife, RECEIVERS_MAX, Receivers};
use crate::node::PacketCategory;
use crate::problem::{Code, Problems};
use crate::{Claim, Desired, Facts, Flush, GroupKey, Ids, Key, ObjectKind, CompiledObject, Problem, Reference};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use vswitch_proto::antrea::v1;

/// A multicast group whose members an agent declares, in place of IGMP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastGroup {
    /// The group.
    pub address: Ipv4Addr,
    /// Pods of this Node that have joined.
    pub pods: Vec<String>,
    /// Peers that have members.
    pub nodes: Vec<String>,
}

/// What a group of receivers is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// 224.0.0.0/24: all Pods of the Node.
    Everybody,
    /// Messages for all other Nodes.
    Nodes,
    /// A group that one can join.
    Group(Ipv4Addr),
}

impl Target {
    const EVERYBODY: &str = "224.0.0.0/24";

    /// Those that are there without anybody joining.
    pub(crate) const ALWAYS: [Self; 2] = [Self::Everybody, Self::Nodes];

    pub(crate) fn key(self) -> Key {
        match self {
            Self::Everybody => Key::new(ObjectKind::MulticastGroup, Self::EVERYBODY),
            Self::Nodes => Key::new(ObjectKind::MulticastGroup, &ALL_REPORTS.to_string()),
            Self::Group(group) => Key::new(ObjectKind::MulticastGroup, &group.to_string()),
        }
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        match name.parse::<Ipv4Addr>() {
            Err(_) => (name == Self::EVERYBODY).then_some(Self::Everybody),
            Ok(ALL_REPORTS) => Some(Self::Nodes),
            Ok(group) => Some(Self::Group(group)).filter(|_| is_group(group)),
        }
    }

    /// What its group of buckets is found by. Nobody joins these two addresses.
    pub(crate) const fn group(self) -> GroupKey {
        GroupKey::Multicast(IpAddr::V4(match self {
            Self::Everybody => crate::igmp::ALL_HOSTS,
            Self::Nodes => ALL_REPORTS,
            Self::Group(group) => group,
        }))
    }
}

/// A way out of a group, by which its bucket is known: the gateway by no address, a Pod and a Node
/// by theirs.
type Way = (IpAddr, u16);
const GATEWAY: Way = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

fn to_pod(desired: &Desired, pod: &str) -> Option<Way> {
    let key = Key::new(ObjectKind::Pod, pod);
    let own = |address: &&IpAddr| desired.pod_of(address) == Some(&key);
    Some((*desired.pod(pod)?.addresses.iter().find(own)?, 0))
}

fn to_node(desired: &Desired, node: &str) -> Option<Way> {
    let end = desired.peer_node(node)?.tunnel_end(crate::Family::V4)?;
    let is_own = desired.holder(&Claim::Node(end)).is_some_and(|holder| *holder.name == *node);
    is_own.then_some((end, 1))
}

/// Names of those who get a group's packets, no more than there may be.
struct Ends<'a> {
    pods: Vec<&'a str>,
    nodes: Vec<&'a str>,
}

impl<'a> Ends<'a> {
    fn of(receivers: &'a Receivers) -> Self {
        let pods: Vec<&str> = receivers.pods.iter().take(RECEIVERS_MAX).map(|life| &*life.pod).collect();
        let nodes = receivers.nodes.iter().take(RECEIVERS_MAX - pods.len()).map(|node| &**node);
        Self { nodes: nodes.collect(), pods }
    }
}

/// Numbers of a group and its buckets.
///
/// # Errors
/// There are no more.
pub(crate) fn claim(target: Target, receivers: &Receivers, desired: &Desired, ids: &mut Ids) -> Result<(), Problem> {
    let (group, ends) = (target.group(), Ends::of(receivers));
    let pods = ends.pods.iter().filter_map(|pod| to_pod(desired, pod));
    let mut ways: BTreeSet<Way> = pods.chain(ends.nodes.iter().filter_map(|node| to_node(desired, node))).collect();
    if target != Target::Nodes {
        ways.insert(GATEWAY);
    }
    ids.claim_group(&group)?;
    ids.claim_buckets(&group, &ways);
    Ok(())
}

/// What is written for a group.
pub(crate) fn compile(target: Target, receivers: &Receivers, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    compile::compile(target, receivers, facts, compiled);
}

/// Why what an agent declares of groups has no effect.
pub(crate) fn heard() -> Problem {
    let problem = Problem::new(Code::Feature, "", "the switch knows groups itself, by IGMP");
    problem.hint("take IGMP over (NodeConfig.taken_over) to say them")
}

impl MulticastGroup {
    pub(crate) fn name_of(message: &v1::MulticastGroup) -> String {
        message.address.clone()
    }

    pub(crate) fn read(message: &v1::MulticastGroup, problems: &mut Problems) -> Option<Self> {
        let address = match message.address.parse::<Ipv4Addr>() {
            Ok(address) if is_group(address) => Some(address),
            Ok(address) => {
                let reason = format!("{address} is no group that one can join: 224.0.1.0 to 239.255.255.255");
                problems.push(Code::Value, "address", reason);
                None
            }
            Err(error) => {
                problems.push(Code::Value, "address", format!("{:?}: {error}", message.address));
                None
            }
        };
        let pods = read_pods(&message.pods, problems);
        let mut nodes = Vec::with_capacity(message.nodes.len());
        let mut named = BTreeSet::new();
        for (at, node) in message.nodes.iter().enumerate() {
            let field = format!("nodes[{at}]");
            if node.is_empty() {
                problems.push(Code::Missing, &field, "it has no name");
            }
            if named.insert(node) {
                nodes.push(node.clone());
            } else {
                problems.twice(&field, node);
            }
        }
        let total = message.pods.len().saturating_add(message.nodes.len());
        if total > RECEIVERS_MAX {
            problems.push(Code::Limit, "pods", format!("{total} Pods and Nodes: at most {RECEIVERS_MAX}"));
        }
        Some(Self { address: address?, pods, nodes })
    }

    /// Pods and Nodes may come and go.
    pub(crate) fn references(&self) -> Vec<Reference> {
        let mut references = pod_references(&self.pods);
        references.extend(self.nodes.iter().enumerate().map(|(at, node)| Reference {
            key: Key::new(ObjectKind::PeerNode, node),
            need: crate::key::Need::May,
            field: format!("nodes[{at}]"),
        }));
        references
    }

    pub(crate) fn claims(&self) -> Vec<(Claim, String)> {
        vec![(Claim::Multicast(self.address.into()), "address".to_owned())]
    }

    pub(crate) fn judge(&self, _name: &str, facts: &Facts<'_>, problems: &mut Problems) {
        if !facts.features().multicast {
            problems.push(Code::Feature, "", "it needs features.multicast");
        } else if !facts.node.taken_over.contains(&PacketCategory::Igmp) {
            problems.add(heard());
        }
    }

    fn receivers(&self, desired: &Desired) -> Receivers {
        // Its Pods are those of these names, whichever they are.
        let there = self.pods.iter().filter(|pod| desired.pod(pod).is_some());
        Receivers {
            pods: there.map(|pod| PodLife { pod: pod.as_str().into(), serial: 0 }).collect(),
            nodes: self.nodes.iter().map(|node| Arc::from(node.as_str())).collect(),
        }
    }

    pub(crate) fn claim(&self, _name: &str, desired: &Desired, ids: &mut Ids) -> Result<(), Problem> {
        claim(Target::Group(self.address), &self.receivers(desired), desired, ids)
    }

    pub(crate) fn ports(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn flush(&self, _name: &str, _new: Option<&Self>, _facts: &Facts<'_>, _flush: &mut BTreeSet<Flush>) {}

    pub(crate) fn compile(&self, _name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
        for (at, pod) in self.pods.iter().enumerate().filter(|(_, pod)| facts.desired.pod(pod).is_none()) {
            compiled.degraded.push(Code::Pending, format!("pods[{at}]"), format!("Pod {pod} is not there yet"));
        }
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| facts.desired.peer_node(node).is_none()) {
            compiled.degraded.push(Code::Pending, format!("nodes[{at}]"), format!("PeerNode {node} is not there yet"));
        }
        compile(Target::Group(self.address), &self.receivers(facts.desired), facts, compiled);
    }
}

/// It is gone: its numbers are free.
pub(crate) fn release(name: &str, ids: &mut Ids) {
    if let Some(target) = Target::of(name) {
        ids.release_group(&target.group());
    }
}
