//! Numbers that the switch gives to what agents name: the same key keeps its number for as long as
//! it exists.
//!
//! A clone costs nothing: what is not changed is shared. So a write that is refused goes back to
//! the numbers from before.

mod buckets;
mod policy;
mod priority;
mod saved;

pub use priority::{Effect, Priorities, Rank};
pub(crate) use saved::IdsMessage;

use policy::Policies;

use crate::{Family, Key, Problem, Table, problem::Code};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A rule of a policy: what a `conj_id` is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleKey {
    /// Name of the policy.
    pub policy: Arc<str>,
    /// `Rule.id`.
    pub rule: Arc<str>,
}

/// What a group is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKey {
    /// Endpoints of a Service port.
    Service {
        /// Name of the Service.
        service: Arc<str>,
        /// Name of its port.
        port: Arc<str>,
        /// Of its endpoints.
        family: Family,
        /// Only those of this Node.
        local: bool,
    },
    /// Packets that are denied and told of, in a table.
    Log(Table),
    /// Receivers of a multicast group.
    Multicast(IpAddr),
}

/// A limit of a Pod: what a meter is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MeterKey {
    /// Name of the Pod.
    pub pod: Arc<str>,
    /// Of packets to the Pod; else of packets from it.
    pub ingress: bool,
}

/// Numbers of one kind. A number that is free again is not given out before all others have been.
#[derive(Clone, Debug)]
struct Numbers<K> {
    by_key: BTreeMap<K, u32>,
    /// The other way round.
    used: BTreeMap<u32, K>,
    range: RangeInclusive<u32>,
    next: u32,
}

impl<K: Ord + Clone> Numbers<K> {
    fn new(range: RangeInclusive<u32>) -> Self {
        Self { by_key: BTreeMap::new(), used: BTreeMap::new(), next: *range.start(), range }
    }

    fn get(&self, key: &K) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// The key's number, a new one if it has none. None: all are taken.
    fn claim(&mut self, key: K) -> Option<u32> {
        if let Some(number) = self.get(&key) {
            return Some(number);
        }
        let total = u64::from(*self.range.end()) - u64::from(*self.range.start()) + 1;
        if self.used.len() as u64 >= total {
            return None;
        }
        while self.used.contains_key(&self.next) {
            self.step();
        }
        let number = self.next;
        self.step();
        self.used.insert(number, key.clone());
        self.by_key.insert(key, number);
        Some(number)
    }

    /// Bytes that they take, about: nodes of trees are two thirds full.
    fn memory(&self) -> usize {
        self.used.len() * 3 * size_of::<(K, u32)>()
    }

    const fn step(&mut self) {
        self.next = if self.next == *self.range.end() { *self.range.start() } else { self.next + 1 };
    }

    fn release(&mut self, key: &K) {
        if let Some(number) = self.by_key.remove(key) {
            self.used.remove(&number);
        }
    }
}

/// An endpoint, as what a bucket is of.
type Bucket = (IpAddr, u16);

/// All numbers.
#[derive(Clone, Debug)]
pub struct Ids {
    rules: Arc<Numbers<RuleKey>>,
    groups: Arc<Numbers<GroupKey>>,
    marks: Arc<Numbers<IpAddr>>,
    vlans: Arc<Numbers<RuleKey>>,
    meters: Arc<Numbers<MeterKey>>,
    cookies: Arc<Numbers<Key>>,
    buckets: Arc<HashMap<GroupKey, Arc<BTreeMap<Bucket, u32>>>>,
    /// Flow priorities of rules of Antrea's policies.
    pub priorities: Arc<Priorities>,
    policies: Arc<Policies>,
    moved: BTreeSet<Key>,
}

impl Default for Ids {
    fn default() -> Self {
        Self {
            // 1 is the conjunction of DNS answers.
            rules: Arc::new(Numbers::new(2..=u32::MAX - 1)),
            groups: Arc::new(Numbers::new(1..=0xffff_ff00)),
            marks: Arc::new(Numbers::new(1..=255)),
            vlans: Arc::new(Numbers::new(1..=4094)),
            // Egresses and what is told have those below.
            meters: Arc::new(Numbers::new(1024..=u32::from(u16::MAX))),
            cookies: Arc::new(Numbers::new(1..=u32::MAX)),
            buckets: Arc::default(),
            priorities: Arc::default(),
            policies: Arc::default(),
            moved: BTreeSet::new(),
        }
    }
}

fn exhausted(what: &str, most: u64) -> Problem {
    Problem::new(Code::Limit, "", format!("there are no more {what}: at most {most}"))
}

impl Ids {
    /// Bytes that they take, about. Looks at the groups of endpoints one by one, at nothing else.
    #[must_use]
    pub fn memory(&self) -> usize {
        let numbers = self.rules.memory() + self.groups.memory() + self.vlans.memory() + self.cookies.memory();
        let buckets: usize = self.buckets.values().map(|buckets| buckets.len() * size_of::<(Bucket, u32)>()).sum();
        numbers + self.marks.memory() + self.meters.memory() + buckets * 3 / 2 + self.priorities.memory()
    }

    /// A rule's number: `conj_id`, and what labels say.
    #[must_use]
    pub fn rule(&self, key: &RuleKey) -> Option<u32> {
        self.rules.get(key)
    }

    /// # Errors
    /// All are taken.
    pub fn claim_rule(&mut self, key: &RuleKey) -> Result<u32, Problem> {
        let known = self.rules.get(key);
        let number = known.or_else(|| Arc::make_mut(&mut self.rules).claim(key.clone()));
        number.ok_or_else(|| exhausted("rule numbers", u32::MAX.into()))
    }

    /// The rule is gone.
    pub fn release_rule(&mut self, key: &RuleKey) {
        Arc::make_mut(&mut self.rules).release(key);
    }

    /// The number of a policy's rule.
    #[must_use]
    pub fn rule_by_name(&self, policy: &str, rule: &str) -> Option<u32> {
        self.rule(&RuleKey { policy: policy.into(), rule: rule.into() })
    }

    /// The rule with a number.
    #[must_use]
    pub fn rule_of(&self, number: u32) -> Option<&RuleKey> {
        self.rules.used.get(&number)
    }

    /// A group's id.
    #[must_use]
    pub fn group(&self, key: &GroupKey) -> Option<u32> {
        self.groups.get(key)
    }

    /// What a group is of.
    #[must_use]
    pub fn group_key(&self, id: u32) -> Option<&GroupKey> {
        self.groups.used.get(&id)
    }

    /// Groups of a Service.
    #[must_use]
    pub fn group_keys_of(&self, service: &str) -> Vec<GroupKey> {
        let (first, family) = (Arc::<str>::from(service), Family::V4);
        let first = GroupKey::Service { service: first, port: "".into(), family, local: false };
        let from_there = self.groups.by_key.range(first..).map(|(key, _)| key);
        from_there
            .take_while(|key| matches!(key, GroupKey::Service { service: other, .. } if **other == *service))
            .cloned()
            .collect()
    }

    /// Groups of all ports of a Service, in order of ids.
    #[must_use]
    pub fn groups_of(&self, service: &str) -> Vec<u32> {
        let mut ids: Vec<u32> = self.group_keys_of(service).iter().filter_map(|key| self.group(key)).collect();
        ids.sort_unstable();
        ids
    }

    /// # Errors
    /// All are taken.
    pub fn claim_group(&mut self, key: &GroupKey) -> Result<u32, Problem> {
        let known = self.groups.get(key);
        let number = known.or_else(|| Arc::make_mut(&mut self.groups).claim(key.clone()));
        number.ok_or_else(|| exhausted("group ids", 0xffff_ff00))
    }

    /// The group is gone, and its buckets.
    pub fn release_group(&mut self, key: &GroupKey) {
        if self.groups.get(key).is_some() {
            Arc::make_mut(&mut self.groups).release(key);
        }
        if self.buckets.contains_key(key) {
            Arc::make_mut(&mut self.buckets).remove(key);
        }
    }

    /// The mark of an Egress address.
    #[must_use]
    pub fn mark(&self, address: &IpAddr) -> Option<u32> {
        self.marks.get(address)
    }

    /// # Errors
    /// All are taken.
    pub fn claim_mark(&mut self, address: IpAddr) -> Result<u32, Problem> {
        let known = self.marks.get(&address);
        let number = known.or_else(|| Arc::make_mut(&mut self.marks).claim(address));
        number.ok_or_else(|| exhausted("marks for Egress addresses of this Node", 255))
    }

    /// The address is no Egress's of this Node any more.
    pub fn release_mark(&mut self, address: &IpAddr) {
        Arc::make_mut(&mut self.marks).release(address);
    }

    /// The address that has a mark.
    #[must_use]
    pub fn marked_by(&self, mark: u32) -> Option<&IpAddr> {
        self.marks.used.get(&mark)
    }

    /// Addresses that have a mark.
    pub fn marked(&self) -> impl Iterator<Item = &IpAddr> {
        self.marks.by_key.keys()
    }

    /// The VLAN of an L7 rule.
    #[must_use]
    pub fn vlan(&self, key: &RuleKey) -> Option<u32> {
        self.vlans.get(key)
    }

    /// # Errors
    /// All are taken.
    pub fn claim_vlan(&mut self, key: &RuleKey) -> Result<u32, Problem> {
        let known = self.vlans.get(key);
        let number = known.or_else(|| Arc::make_mut(&mut self.vlans).claim(key.clone()));
        number.ok_or_else(|| exhausted("VLANs for L7 rules", 4094))
    }

    /// The rule is no L7 rule any more.
    pub fn release_vlan(&mut self, key: &RuleKey) {
        if self.vlans.get(key).is_some() {
            Arc::make_mut(&mut self.vlans).release(key);
        }
    }

    /// The meter of a Pod's limit.
    #[must_use]
    pub fn meter(&self, key: &MeterKey) -> Option<u32> {
        self.meters.get(key)
    }

    /// # Errors
    /// All are taken.
    pub fn claim_meter(&mut self, key: &MeterKey) -> Result<u32, Problem> {
        let known = self.meters.get(key);
        let number = known.or_else(|| Arc::make_mut(&mut self.meters).claim(key.clone()));
        number.ok_or_else(|| exhausted("meters for Pods", 64_512))
    }

    /// The Pod has no such limit any more.
    pub fn release_meter(&mut self, key: &MeterKey) {
        if self.meters.get(key).is_some() {
            Arc::make_mut(&mut self.meters).release(key);
        }
    }

    /// The serial of an object in cookies.
    #[must_use]
    pub fn cookie(&self, key: &Key) -> Option<u32> {
        self.cookies.get(key)
    }

    /// # Errors
    /// All are taken.
    pub fn claim_cookie(&mut self, key: &Key) -> Result<u32, Problem> {
        let known = self.cookies.get(key);
        let number = known.or_else(|| Arc::make_mut(&mut self.cookies).claim(key.clone()));
        number.ok_or_else(|| exhausted("cookies", u32::MAX.into()))
    }

    /// The object is gone.
    pub(crate) fn release_cookie(&mut self, key: &Key) {
        if self.cookies.get(key).is_some() {
            Arc::make_mut(&mut self.cookies).release(key);
        }
    }

    /// Objects whose numbers have changed since this was asked last, though nobody wrote them:
    /// rules that made room for others.
    pub(crate) fn take_moved(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.moved)
    }

    /// Notes that an object's numbers have changed, for [`Self::take_moved`].
    pub(crate) fn moved(&mut self, key: Key) {
        self.moved.insert(key);
    }

    /// The object with a serial.
    #[must_use]
    pub fn object_of(&self, serial: u32) -> Option<&Key> {
        self.cookies.used.get(&serial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_number_and_a_free_one_waits_for_its_turn() {
        let mut numbers = Numbers::new(1..=4);
        assert_eq!([numbers.claim("a"), numbers.claim("b"), numbers.claim("a")], [Some(1), Some(2), Some(1)]);
        numbers.release(&"a");
        assert_eq!([numbers.claim("c"), numbers.claim("d")], [Some(3), Some(4)], "1 is free, and not its turn");
        assert_eq!([numbers.claim("e"), numbers.claim("f")], [Some(1), None]);
        numbers.release(&"c");
        assert_eq!(numbers.claim("f"), Some(3));
    }
}
