//! What is known of names that rules mean: their addresses, and until when.
//!
//! Answers come ([`Cache::learn`]), time passes ([`Cache::expire`]), rules change
//! ([`Cache::set_patterns`]); what that changes of names is collected, and handed out in rounds
//! ([`Cache::take`]): one round is one transaction of the bridge, and one is under way at a time
//! ([`Cache::landed`]). Who brought an answer learns which round it has to wait for: none, if all
//! that it says is in the rules already.
//!
//! **Limits**: names of one pattern and in all ([`NameLimits`]; beyond, the one that was not heard
//! of for longest goes), addresses of one name ([`ADDRESSES_OF_NAME_MAX`]; beyond, the one that is
//! over first goes) and of all names ([`ADDRESSES_MAX`]; beyond, names go as above). A name that no
//! rule means is not kept.
//!
//! **Time** is an argument: milliseconds of any clock that does not go back.

#[cfg(test)]
mod tests;

use crate::NameLimits;
use crate::dns::Answer;
use crate::object::policy::Pattern;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// Addresses, each with the moment that it is over, ms.
pub type Expiring = Vec<(IpAddr, u64)>;

/// Addresses of one name.
pub const ADDRESSES_OF_NAME_MAX: usize = 1024;
/// Addresses of all names.
pub const ADDRESSES_MAX: usize = 131_072;
/// Seconds that an address is held at least: one with a TTL of 0 is for a connection that begins
/// now (RFC 1035, 3.2.1), not for none.
pub const HOLD_MIN: u32 = 1;
/// Seconds of a TTL that are believed (RFC 8767, 4: a week).
pub const TTL_MAX: u32 = 604_800;

/// Addresses that names have from now on; none: they are forgotten.
pub type Changes = BTreeMap<String, BTreeSet<IpAddr>>;

/// What is known of a name.
#[derive(Debug, Default)]
struct Known {
    /// With the moment that each is over.
    addresses: BTreeMap<IpAddr, u64>,
    /// The first of these moments: where [`Cache::expiry`] has it.
    first: u64,
    /// Where [`Cache::heard`] and the patterns have it.
    heard: u64,
    /// Patterns that mean it.
    patterns: Vec<Pattern>,
}

/// Names by when they were heard of last.
type Heard = BTreeSet<(u64, Arc<str>)>;

/// The names that rules' patterns mean, with the addresses that DNS answers gave them, each until
/// its TTL is over.
#[derive(Debug, Default)]
pub struct Cache {
    limits: NameLimits,
    names: HashMap<Arc<str>, Known>,
    /// What rules mean, and the names that it means.
    patterns: BTreeMap<Pattern, Heard>,
    heard: Heard,
    /// Names by the moment that the first of their addresses is over: each once.
    expiry: BTreeSet<(u64, Arc<str>)>,
    /// Counts what was heard: the order of [`Self::heard`].
    clock: u64,
    addresses: usize,
    /// Names that the rules do not have as they are here.
    changed: BTreeSet<Arc<str>>,
    /// Names of the round that is under way.
    under_way: BTreeSet<Arc<str>>,
    /// The last one that was taken.
    round: u64,
    evicted: u64,
}

/// Seconds that an address is held which has this TTL.
fn held(ttl: u32, limits: NameLimits) -> u32 {
    ttl.min(TTL_MAX).max(limits.min_ttl_seconds).max(HOLD_MIN)
}

impl Cache {
    /// Other limits from now on.
    pub fn set_limits(&mut self, limits: NameLimits) {
        self.limits = limits;
        let full: Vec<Pattern> = self.patterns.keys().cloned().collect();
        self.keep_to_limits(&full);
    }

    /// What rules mean from now on. Names that none of it means are forgotten.
    pub fn set_patterns(&mut self, patterns: impl Iterator<Item = Pattern>) {
        let patterns: BTreeMap<Pattern, Heard> = patterns.map(|pattern| (pattern, Heard::new())).collect();
        if patterns.keys().eq(self.patterns.keys()) {
            return;
        }
        self.patterns = patterns;
        let mut orphans = Vec::new();
        for (name, known) in &mut self.names {
            known.patterns = Pattern::meaning(&self.patterns, name).map(|(pattern, _)| pattern.clone()).collect();
            for pattern in &known.patterns {
                if let Some(heard) = self.patterns.get_mut(pattern) {
                    heard.insert((known.heard, Arc::clone(name)));
                }
            }
            if known.patterns.is_empty() {
                orphans.push(Arc::clone(name));
            }
        }
        orphans.iter().for_each(|name| self.forget(name));
        let full: Vec<Pattern> = self.patterns.keys().cloned().collect();
        self.keep_to_limits(&full);
    }

    /// Everything is forgotten, and nobody needs to be told.
    pub fn clear(&mut self) {
        *self = Self { limits: self.limits, round: self.round, evicted: self.evicted, ..Self::default() };
    }

    /// Whether rules mean a name (in lower case, without a dot at its end).
    #[must_use]
    pub fn means(&self, name: &str) -> bool {
        Pattern::meaning(&self.patterns, name).next().is_some()
    }

    /// Seconds that an address is held which has this TTL.
    #[must_use]
    pub fn held_seconds(&self, ttl: u32) -> u32 {
        held(ttl, self.limits)
    }

    /// An answer. Returns the round after which all that it says is in the rules; None: now.
    pub fn learn(&mut self, answer: &Answer, now: u64) -> Option<u64> {
        let patterns: Vec<Pattern> =
            Pattern::meaning(&self.patterns, &answer.name).map(|(pattern, _)| pattern.clone()).collect();
        if patterns.is_empty() || answer.addresses.is_empty() {
            return None;
        }
        let name: Arc<str> = match self.names.get_key_value(answer.name.as_str()) {
            Some((name, _)) => Arc::clone(name),
            None => answer.name.as_str().into(),
        };
        let known = self.names.entry(Arc::clone(&name)).or_default();
        let before = known.addresses.len();
        let mut is_changed = false;
        for (address, ttl) in &answer.addresses {
            let seconds = held(*ttl, self.limits);
            let over = now.saturating_add(u64::from(seconds) * 1000);
            let held = known.addresses.entry(*address).or_insert_with(|| {
                is_changed = true;
                over
            });
            // Who was told of a longer time may still count on it.
            *held = over.max(*held);
            if known.addresses.len() > ADDRESSES_OF_NAME_MAX
                && let Some(first) = known.addresses.iter().min_by_key(|(_, over)| **over).map(|(first, _)| *first)
            {
                known.addresses.remove(&first);
            }
        }
        self.addresses = (self.addresses + known.addresses.len()).saturating_sub(before);
        let (old, first) = (known.first, known.addresses.values().min().copied().unwrap_or(now));
        if old != first {
            known.first = first;
            self.expiry.remove(&(old, Arc::clone(&name)));
            self.expiry.insert((first, Arc::clone(&name)));
        }
        self.hear(&name, patterns);
        if is_changed {
            self.changed.insert(Arc::clone(&name));
        }
        if self.changed.contains(&name) {
            Some(self.round + 1)
        } else {
            self.under_way.contains(&name).then_some(self.round)
        }
    }

    /// It was heard of right now.
    fn hear(&mut self, name: &Arc<str>, patterns: Vec<Pattern>) {
        self.clock += 1;
        let Some(known) = self.names.get_mut(name) else { return };
        let (old, new) = ((known.heard, Arc::clone(name)), (self.clock, Arc::clone(name)));
        known.heard = self.clock;
        known.patterns = patterns;
        let patterns = known.patterns.clone();
        self.heard.remove(&old);
        self.heard.insert(new.clone());
        for pattern in &patterns {
            if let Some(heard) = self.patterns.get_mut(pattern) {
                heard.remove(&old);
                heard.insert(new.clone());
            }
        }
        self.keep_to_limits(&patterns);
    }

    fn keep_to_limits(&mut self, patterns: &[Pattern]) {
        for pattern in patterns {
            while let Some(heard) =
                self.patterns.get(pattern).filter(|heard| heard.len() > self.limits.names_per_pattern)
            {
                let Some((_, oldest)) = heard.first().cloned() else { break };
                self.evict(&oldest);
            }
        }
        while self.names.len() > self.limits.names || self.addresses > ADDRESSES_MAX {
            let Some((_, oldest)) = self.heard.first().cloned() else { break };
            self.evict(&oldest);
        }
    }

    fn evict(&mut self, name: &Arc<str>) {
        self.evicted += 1;
        self.forget(name);
    }

    fn forget(&mut self, name: &Arc<str>) {
        let Some(known) = self.names.remove(name) else { return };
        self.addresses = self.addresses.saturating_sub(known.addresses.len());
        self.expiry.remove(&(known.first, Arc::clone(name)));
        let heard = (known.heard, Arc::clone(name));
        for pattern in &known.patterns {
            if let Some(names) = self.patterns.get_mut(pattern) {
                names.remove(&heard);
            }
        }
        self.heard.remove(&heard);
        self.changed.insert(Arc::clone(name));
    }

    /// Takes away what is over.
    pub fn expire(&mut self, now: u64) {
        while let Some((first, name)) = self.expiry.first().filter(|(first, _)| *first <= now).cloned() {
            self.expiry.remove(&(first, Arc::clone(&name)));
            let Some(known) = self.names.get_mut(&name) else { continue };
            let before = known.addresses.len();
            known.addresses.retain(|_, over| *over > now);
            self.addresses = (self.addresses + known.addresses.len()).saturating_sub(before);
            match known.addresses.values().min().copied() {
                Some(first) => {
                    known.first = first;
                    self.expiry.insert((first, Arc::clone(&name)));
                    self.changed.insert(name);
                }
                None => self.forget(&name),
            }
        }
    }

    /// The next moment at which something is over.
    #[must_use]
    pub fn next_expiry(&self) -> Option<u64> {
        self.expiry.first().map(|(first, _)| *first)
    }

    /// There is something for a round, and none is under way.
    #[must_use]
    pub fn is_due(&self) -> bool {
        !self.changed.is_empty() && self.under_way.is_empty()
    }

    /// The next round: all that changed since the last one. None: nothing has, or a round is under
    /// way.
    pub fn take(&mut self) -> Option<(u64, Changes)> {
        if !self.is_due() {
            return None;
        }
        self.round += 1;
        self.under_way = std::mem::take(&mut self.changed);
        let of = |name: &Arc<str>| self.names.get(name).map(|known| known.addresses.keys().copied().collect());
        let changes = self.under_way.iter().map(|name| (name.to_string(), of(name).unwrap_or_default()));
        Some((self.round, changes.collect()))
    }

    /// The round that was under way has ended. If the rules do not have it, its names are
    /// forgotten: whoever asks for them again brings them again.
    pub fn landed(&mut self, done: bool) {
        let names = std::mem::take(&mut self.under_way);
        if !done {
            for name in names {
                self.forget(&name);
                // Whatever the rules have of it.
                self.changed.insert(name);
            }
        }
    }

    /// Names that a pattern means (None: all), in order, each with its addresses and the moments
    /// that they are over.
    #[must_use]
    pub fn list(&self, pattern: Option<&Pattern>) -> Vec<(Arc<str>, Expiring)> {
        let wanted = |name: &str| pattern.is_none_or(|pattern| pattern.matches(name));
        let addresses = |known: &Known| known.addresses.iter().map(|(address, over)| (*address, *over)).collect();
        let found = self.names.iter().filter(|(name, _)| wanted(name));
        let mut list: Vec<_> = found.map(|(name, known)| (Arc::clone(name), addresses(known))).collect();
        list.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        list
    }

    /// Names, addresses, and how many names gave way to others so far.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize, u64) {
        (self.names.len(), self.addresses, self.evicted)
    }

    /// Bytes that it takes, about.
    #[must_use]
    pub fn memory(&self) -> usize {
        // A name is in three to four sets beside its map, an address in one map.
        let sets = 3 * size_of::<(u64, Arc<str>)>() + size_of::<Arc<str>>() + size_of::<Known>() + size_of::<Pattern>();
        let texts: usize = self.names.keys().map(|name| name.len()).sum();
        texts + self.names.len() * sets + self.addresses * size_of::<(IpAddr, u64)>()
    }
}
