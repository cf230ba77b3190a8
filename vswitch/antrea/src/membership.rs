//! Who has joined which multicast group: Pods of this Node by their IGMP, other Nodes by their
//! reports. How long that is believed, what is asked before it is not, and what other Nodes are
//! told of it.
//!
//! A Pod that says that it has left is asked twice whether that is true of all its programs; a
//! silent one has left after three rounds of queries ([`Membership::hold_ms`]); another Node
//! likewise, and it is believed at once that it has left.
//!
//! **Limits**: [`GROUPS_MAX`], [`RECEIVERS_MAX`] of a group, [`POD_GROUPS_MAX`] of a Pod (so that
//! none takes all groups), [`MEMBERS_MAX`] in all.
//!
//! **Time** is an argument: milliseconds of any clock that does not go back.

mod joined;
mod reader;
#[cfg(test)]
mod tests;

use crate::{Facts, Key, ObjectKind};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

pub use joined::Joined;
pub use reader::{Counters, Heard, hear};

/// Groups that are known.
pub const GROUPS_MAX: usize = 4096;
/// Pods and Nodes of one group: a packet is copied for each, by four tables of the 4,096 that one
/// packet may meet.
pub const RECEIVERS_MAX: usize = 1000;
/// Groups of one Pod (Linux: 20 for each of its sockets).
pub const POD_GROUPS_MAX: usize = 256;
/// Pods and Nodes of all groups.
pub const MEMBERS_MAX: usize = 65_536;
/// Until one who said that he has left has left: two questions, 1 s for the answer to each (RFC
/// 9776, 8.8 and 8.9).
pub const LAST_MEMBER_MS: u64 = 2000;
/// Between these two questions.
pub const LAST_QUERY_MS: u64 = 1000;
/// Seconds between two general queries, if nobody says how many.
pub const QUERY_INTERVAL_S: u32 = 125;
/// Rounds of queries that a member may be silent.
const SILENT_ROUNDS: u64 = 3;

/// A Pod for as long as it is there: one of the same name that comes later has joined nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodLife {
    /// Its name.
    pub pod: Arc<str>,
    /// The serial of the object ([`crate::Ids::cookie`]).
    pub serial: u32,
}

impl PodLife {
    /// The Pod of this name that is there now.
    #[must_use]
    pub fn of(facts: &Facts<'_>, pod: &Key) -> Option<Self> {
        facts.desired.pod(&pod.name)?;
        Some(Self { pod: Arc::clone(&pod.name), serial: facts.ids.cookie(pod)? })
    }

    /// Whether it is there still.
    #[must_use]
    pub fn lives(&self, facts: &Facts<'_>) -> bool {
        facts.ids.cookie(&Key { kind: ObjectKind::Pod, name: Arc::clone(&self.pod) }) == Some(self.serial)
    }
}

/// Those who get a group's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receivers {
    /// Pods of this Node.
    pub pods: BTreeSet<PodLife>,
    /// Other Nodes, by name.
    pub nodes: BTreeSet<Arc<str>>,
}

impl Receivers {
    /// Nobody does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.nodes.is_empty()
    }
}

/// A Pod that has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Version of its last report.
    pub version: u8,
    /// When it has left, if it stays silent.
    pub until_ms: u64,
    /// When it is to be asked again whether it has left; None: nobody doubts it.
    ask_ms: Option<u64>,
}

const fn hold_ms(interval_s: u32) -> u64 {
    interval_s as u64 * 1000 * SILENT_ROUNDS
}

#[derive(Clone, Debug, Default)]
struct Group {
    pods: BTreeMap<PodLife, Member>,
    /// When they have left, if they stay silent.
    nodes: BTreeMap<Arc<str>, u64>,
}

impl Group {
    fn receivers(&self) -> usize {
        self.pods.len() + self.nodes.len()
    }
}

/// A Pod joined more than it may, or all together did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Who is to be asked what at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Pods that said that they left, with the version in which they speak.
    pub last_members: Vec<(Ipv4Addr, PodLife, u8)>,
}

/// Who has joined what.
#[derive(Debug)]
pub struct Membership {
    groups: BTreeMap<Ipv4Addr, Group>,
    /// How many groups a Pod has joined.
    joined: BTreeMap<PodLife, usize>,
    members: usize,
    /// Groups whose receivers are others since this was asked last.
    changed: BTreeSet<Ipv4Addr>,
    /// Groups with Pods, as other Nodes were told.
    reported: BTreeSet<Ipv4Addr>,
    interval_s: u32,
}

impl Default for Membership {
    fn default() -> Self {
        Self {
            groups: BTreeMap::new(),
            joined: BTreeMap::new(),
            members: 0,
            changed: BTreeSet::new(),
            reported: BTreeSet::new(),
            interval_s: QUERY_INTERVAL_S,
        }
    }
}

impl Membership {
    /// Seconds between two general queries, from now on.
    pub const fn set_interval(&mut self, seconds: u32) {
        self.interval_s = seconds;
    }

    /// How long a member is believed that is silent.
    #[must_use]
    pub fn hold_ms(&self) -> u64 {
        hold_ms(self.interval_s)
    }

    fn room_for(&self, group: Ipv4Addr) -> Result<(), Full> {
        let there = self.groups.get(&group);
        let is_full = match there {
            Some(there) => there.receivers() >= RECEIVERS_MAX,
            None => self.groups.len() >= GROUPS_MAX,
        };
        if is_full || self.members >= MEMBERS_MAX { Err(Full) } else { Ok(()) }
    }

    /// A Pod has joined a group, or has it still.
    ///
    /// # Errors
    /// A limit is reached; nothing has changed.
    pub fn join(&mut self, group: Ipv4Addr, pod: &PodLife, version: u8, now_ms: u64) -> Result<(), Full> {
        let until_ms = now_ms.saturating_add(self.hold_ms());
        let member = Member { version, until_ms, ask_ms: None };
        let known = self.groups.get_mut(&group).and_then(|there| there.pods.get_mut(pod));
        if let Some(known) = known {
            *known = member;
            return Ok(());
        }
        let count = self.joined.get(pod).copied().unwrap_or(0);
        if count >= POD_GROUPS_MAX {
            return Err(Full);
        }
        self.room_for(group)?;
        self.joined.insert(pod.clone(), count + 1);
        self.groups.entry(group).or_default().pods.insert(pod.clone(), member);
        self.members += 1;
        self.changed.insert(group);
        Ok(())
    }

    /// A Pod says that it has left a group: it is asked whether that is true of all its programs.
    pub fn leave(&mut self, group: Ipv4Addr, pod: &PodLife, now_ms: u64) {
        let member = self.groups.get_mut(&group).and_then(|there| there.pods.get_mut(pod));
        // Who says so twice has left no later for it.
        let until_ms = now_ms.saturating_add(LAST_MEMBER_MS);
        if let Some(member) = member.filter(|member| member.ask_ms.is_none() && member.until_ms > until_ms) {
            member.until_ms = until_ms;
            member.ask_ms = Some(now_ms);
        }
    }

    /// Pods of a Node have joined a group, or have it still.
    ///
    /// # Errors
    /// A limit is reached; nothing has changed.
    pub fn join_node(&mut self, group: Ipv4Addr, node: &Arc<str>, now_ms: u64) -> Result<(), Full> {
        // How often it reports is its own agent's matter: ours may have us ask Pods more often.
        let until_ms = now_ms.saturating_add(self.hold_ms().max(hold_ms(QUERY_INTERVAL_S)));
        let known = self.groups.get_mut(&group).and_then(|there| there.nodes.get_mut(node));
        if let Some(known) = known {
            *known = until_ms;
            return Ok(());
        }
        self.room_for(group)?;
        self.groups.entry(group).or_default().nodes.insert(Arc::clone(node), until_ms);
        self.members += 1;
        self.changed.insert(group);
        Ok(())
    }

    /// No Pod of a Node is in a group any more.
    pub fn leave_node(&mut self, group: Ipv4Addr, node: &str) {
        let Some(there) = self.groups.get_mut(&group) else { return };
        if there.nodes.remove(node).is_some() {
            self.members -= 1;
            self.changed.insert(group);
        }
        self.settle(group);
    }

    /// Forgets a group that nobody is in.
    fn settle(&mut self, group: Ipv4Addr) {
        if self.groups.get(&group).is_some_and(|there| there.receivers() == 0) {
            self.groups.remove(&group);
        }
    }

    /// Forgets those whose time is over, and Pods and Nodes that are gone; tells who is to be asked
    /// now.
    pub fn pass(&mut self, facts: &Facts<'_>, now_ms: u64) -> Due {
        let mut due = Due::default();
        let mut left: Vec<(Ipv4Addr, PodLife)> = Vec::new();
        for (group, there) in &mut self.groups {
            for (pod, member) in &mut there.pods {
                if member.until_ms <= now_ms || !pod.lives(facts) {
                    left.push((*group, pod.clone()));
                } else if member.ask_ms.is_some_and(|at| at <= now_ms) {
                    member.ask_ms = Some(now_ms.saturating_add(LAST_QUERY_MS));
                    due.last_members.push((*group, pod.clone(), member.version));
                }
            }
            let before = there.nodes.len();
            there.nodes.retain(|node, until_ms| *until_ms > now_ms && facts.desired.peer_node(node).is_some());
            if there.nodes.len() != before {
                self.members -= before - there.nodes.len();
                self.changed.insert(*group);
            }
        }
        for (group, pod) in left {
            self.remove(group, &pod);
        }
        self.groups.retain(|_, there| there.receivers() != 0);
        due
    }

    fn remove(&mut self, group: Ipv4Addr, pod: &PodLife) {
        let gone = self.groups.get_mut(&group).and_then(|there| there.pods.remove(pod));
        if gone.is_none() {
            return;
        }
        self.members -= 1;
        self.changed.insert(group);
        if let Some(count) = self.joined.get_mut(pod) {
            *count -= 1;
            if *count == 0 {
                self.joined.remove(pod);
            }
        }
    }

    /// Groups whose receivers changed since this was asked last, with those that they have now.
    pub fn take_changed(&mut self) -> BTreeMap<Ipv4Addr, Receivers> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|group| (group, self.receivers(group))).collect()
    }

    /// Whether something changed since [`Self::take_changed`].
    #[must_use]
    pub fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// What was taken as changed could not be put into the tables: it is to be tried again.
    pub fn put_back(&mut self, groups: impl IntoIterator<Item = Ipv4Addr>) {
        self.changed.extend(groups);
    }

    fn receivers(&self, group: Ipv4Addr) -> Receivers {
        let there = self.groups.get(&group);
        let pods = there.into_iter().flat_map(|there| there.pods.keys().cloned()).collect();
        let nodes = there.into_iter().flat_map(|there| there.nodes.keys().cloned()).collect();
        Receivers { pods, nodes }
    }

    /// Groups that Pods of this Node are in: `true`, and that they were in when other Nodes were
    /// told last: `false`. All of them are to be told, or only what changed.
    pub fn take_report(&mut self, all: bool) -> Vec<(Ipv4Addr, bool)> {
        let there = self.groups.iter().filter(|(_, there)| !there.pods.is_empty());
        let there: BTreeSet<Ipv4Addr> = there.map(|(group, _)| *group).collect();
        let joined = there.iter().filter(|group| all || !self.reported.contains(*group)).map(|group| (*group, true));
        let left = self.reported.difference(&there).map(|group| (*group, false));
        let report = joined.chain(left).collect();
        self.reported = there;
        report
    }

    /// Members of a group that are Pods of this Node.
    pub fn members(&self, group: Ipv4Addr) -> impl Iterator<Item = (&PodLife, &Member)> {
        self.groups.get(&group).into_iter().flat_map(|there| &there.pods)
    }

    /// How many groups there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Nobody has joined anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}
