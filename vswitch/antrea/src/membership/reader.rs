//! What a message means: who sent it, whether he may, and what changes.

use super::{Full, Membership, PodLife};
use crate::igmp::{Change, IgmpBody, Message, is_group};
use crate::object::policy::igmp::{self, Judge};
use crate::{Claim, Facts, Key, ObjectKind, RuleKey};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// What came of messages, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Read, and done.
    pub heard: u64,
    /// They were no messages: see [`crate::igmp::Unreadable`].
    pub unreadable: u64,
    /// Of nobody who may send any.
    pub strangers: u64,
    /// A rule denied them: whole messages, or groups of a report.
    pub denied: u64,
    /// Of groups for which there was no room.
    pub full: u64,
    /// Rules that decided on a group of a message, and how often.
    pub rules: BTreeMap<RuleKey, u64>,
}

/// A packet as its reader gets it.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a> {
    /// Number of the port that it came by.
    pub in_port: u32,
    /// Who sent it through a tunnel.
    pub tunnel_source: Option<IpAddr>,
    /// The frame.
    pub frame: &'a [u8],
}

enum From {
    Pod(PodLife, Key),
    Node(Key),
}

/// Takes in what a packet says; returns whether another Node asks what groups we have.
pub fn hear(
    membership: &mut Membership,
    (facts, rules): (&Facts<'_>, &Judge<'_>),
    heard: Heard<'_>,
    counters: &mut Counters,
    now_ms: u64,
) -> bool {
    let Ok(message) = crate::igmp::read(heard.frame) else {
        counters.unreadable += 1;
        return false;
    };
    let Some(from) = sender(facts, &heard, &message) else {
        counters.strangers += 1;
        return false;
    };
    counters.heard += 1;
    match (from, &message.body) {
        (From::Pod(pod, key), IgmpBody::Report(records)) => {
            for record in records {
                if record.change == Change::Leave {
                    membership.leave(record.group, &pod, now_ms);
                } else if !is_allowed(rules, &key, &message, record.group, counters) {
                    counters.denied += 1;
                } else if membership.join(record.group, &pod, message.version, now_ms) == Err(Full) {
                    counters.full += 1;
                }
            }
            false
        }
        (From::Node(node), IgmpBody::Report(records)) => {
            for record in records {
                match record.change {
                    Change::Leave => membership.leave_node(record.group, &node.name),
                    Change::Join if membership.join_node(record.group, &node.name, now_ms) == Err(Full) => {
                        counters.full += 1;
                    }
                    Change::Join => {}
                }
            }
            false
        }
        (From::Node(_), IgmpBody::Query(None)) => true,
        // We are the querier of our Pods: what they ask, nobody hears.
        (From::Pod(..), IgmpBody::Query(_)) | (From::Node(_), IgmpBody::Query(Some(_))) => false,
    }
}

/// Who sent it. A Pod with its own address (which `SpoofGuard` has seen to): a report without one
/// is nobody's.
fn sender(facts: &Facts<'_>, heard: &Heard<'_>, message: &Message) -> Option<From> {
    let port = facts.ports.name(heard.in_port)?;
    let holder = facts.desired.holder(&Claim::Port(port.to_owned()));
    if let Some(key) = holder.filter(|key| key.kind == ObjectKind::Pod) {
        let own = facts.pod(&key.name)?.addresses.contains(&IpAddr::V4(message.source));
        return PodLife::of(facts, key).filter(|_| own).map(|life| From::Pod(life, key.clone()));
    }
    let is_tunnel =
        facts.node.tunnel.as_deref() == Some(port) || holder.is_some_and(|key| key.kind == ObjectKind::PeerNode);
    if !is_tunnel {
        return None;
    }
    let node = facts.desired.holder(&Claim::Node(heard.tunnel_source?))?;
    Some(From::Node(node.clone()))
}

/// What rules say of a Pod's joining of a group.
fn is_allowed(rules: &Judge<'_>, pod: &Key, message: &Message, group: Ipv4Addr, counters: &mut Counters) -> bool {
    let asked = igmp::Message {
        pod: &pod.name,
        is_from_pod: true,
        kind: message.kind,
        group: is_group(group).then_some(group),
        other: IpAddr::V4(message.destination),
    };
    let Some(verdict) = rules.verdict(&asked) else { return true };
    *counters.rules.entry(verdict.rule).or_default() += 1;
    verdict.is_allowed
}
