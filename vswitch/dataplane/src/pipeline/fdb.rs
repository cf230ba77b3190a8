//! The MAC table of a bridge: which port an address was last seen on.
//!
//! **Design**: buckets of four slots, each one cache line: four keys, four values. An address has
//! two candidate buckets (keyed hash, so that nobody can aim at one). Readers take no lock: key,
//! value, key again. A learned address that is seen again costs one compare-and-swap a second, to
//! renew its stamp. Whoever changes keys holds the writer lock; a worker that finds it taken does
//! not wait and learns from the next packet.
//!
//! **Full**: a new address replaces the longest unused one in its buckets, else the next one found,
//! that belongs to a port with more addresses than the learner's; if there is none it is refused.
//! One port holds at most three quarters of the table. Static addresses never go, and may replace
//! any learned one.

use super::Changes;
use crate::limits;
use crate::packet::Mac;
use crate::port::PortId;
use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use vswitch_dpdk::Words;

/// Slots of a bucket: one cache line of keys and values.
const SLOTS: usize = 4;

/// Buckets that are swept under one hold of the writer lock: some 10 us.
const BUCKETS_PER_LOCK: usize = 1024;

/// An address in a VLAN (0: untagged), as one word: 48 bits address, 12 bits VLAN, 4 bits of which
/// the lowest is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FdbKey(u64);

impl FdbKey {
    /// The key of an address in a VLAN.
    #[inline]
    #[must_use]
    pub const fn new(mac: u64, vlan: u16) -> Self {
        Self(mac << 16 | ((vlan & 0xfff) as u64) << 4 | 1)
    }

    /// The address is a group's.
    #[inline]
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0 >> 56 & 1 != 0
    }

    /// The address is 01:80:c2:00:00:00 to 0f, which a bridge never forwards (IEEE 802.1D-2004,
    /// table 7-10).
    #[inline]
    #[must_use]
    pub const fn is_reserved(self) -> bool {
        self.0 >> 20 == 0x0180_c200_0000 >> 4
    }

    /// The address.
    #[must_use]
    pub fn mac(self) -> Mac {
        Mac::from_u64(self.0 >> 16)
    }

    /// The VLAN; 0: untagged.
    #[must_use]
    pub const fn vlan(self) -> u16 {
        (self.0 >> 4 & 0xfff) as u16
    }
}

/// Value word: 16 bits port, 1 bit static, 32 bits stamp (seconds) on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value(u64);

impl Value {
    const STATIC: u64 = 1 << 16;

    fn new(port: PortId, is_static: bool, stamp: u32) -> Self {
        Self(u64::from(port.0) | if is_static { Self::STATIC } else { 0 } | u64::from(stamp) << 32)
    }

    const fn port(self) -> PortId {
        PortId((self.0 & 0xffff) as u16)
    }

    const fn is_static(self) -> bool {
        self.0 & Self::STATIC != 0
    }

    const fn stamp(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// That an address was seen on a port in a second: the same for all packets of a burst.
#[derive(Clone, Copy, Debug)]
pub struct Sighting(Value);

impl Sighting {
    /// On this port, at second `now_s` of [`crate::time::Millis`].
    #[must_use]
    pub fn new(port: PortId, now_s: u32) -> Self {
        Self(Value::new(port, false, now_s))
    }
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket {
    keys: Words,
    values: [AtomicU64; SLOTS],
}

impl Bucket {
    #[inline]
    fn slot_of(&self, key: &FdbKey) -> Option<usize> {
        let hits = self.keys.equal_to(&key.0);
        (hits != 0).then_some(hits.trailing_zeros() as usize % SLOTS)
    }

    /// What stands beside the key; when the slot changes hands meanwhile, maybe beside another one.
    #[inline]
    fn value_of(&self, key: &FdbKey) -> Option<Value> {
        Some(Value(self.values[self.slot_of(key)?].load(Relaxed)))
    }

    #[inline]
    fn find(&self, key: &FdbKey) -> Option<(&AtomicU64, Value)> {
        let slot = self.slot_of(key)?;
        // The address of the value depends on what was read of the keys: it is not read before
        // them.
        let value = Value(self.values[slot].load(Acquire));
        // A slot that changed hands meanwhile holds another key now, or this one with a fresh
        // value.
        (self.keys.0[slot].load(Relaxed) == key.0).then_some((&self.values[slot], value))
    }
}

/// Where a key is looked for first: the index of a bucket. Computing it early lets
/// [`FdbReader::prefetch`] hide the memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct FdbPlace(usize);

/// A table as a burst's loops hold it: what never changes is in values of their own, since a
/// compiler must assume of anything inside an [`Fdb`] that another thread changes it.
#[derive(Clone, Copy, Debug)]
pub struct FdbReader<'a> {
    fdb: &'a Fdb,
    buckets: &'a [Bucket],
    multiplier: u64,
    shift: u32,
}

/// The table in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FdbStats {
    /// Addresses now, static ones included.
    pub entries: u32,
    /// Static addresses now.
    pub statics: u32,
    /// Most addresses it may hold.
    pub limit: u32,
    /// Addresses learned since start.
    pub learned: u64,
    /// Addresses that aged out.
    pub expired: u64,
    /// Addresses that gave way to others.
    pub evicted: u64,
    /// Addresses that changed their port.
    pub moved: u64,
    /// Addresses not learned because the table or the port's quota was full.
    pub refused: u64,
}

/// One address, as listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Address and VLAN.
    pub key: FdbKey,
    /// Port it was last seen on.
    pub port: PortId,
    /// Seconds (of [`crate::time::Millis`]) when it was last seen; none: static.
    pub seen_s: Option<u32>,
}

/// A MAC table.
#[derive(Debug)]
pub struct Fdb {
    buckets: Box<[Bucket]>,
    /// Random and odd: universal hashing by multiplication (Dietzfelbinger et al. 1997).
    multiplier: u64,
    /// 64 minus the logarithm of the number of buckets.
    shift: u32,
    limit: u32,
    quota: u32,
    ageing_s: u32,
    /// Addresses in the table, and per port. Written under the writer lock, read by anyone.
    entries: AtomicU32,
    per_port: Box<[AtomicU32]>,
    refused: AtomicU64,
    writer: Mutex<FdbStats>,
    changes: Arc<Changes>,
    /// Epoch of the last change; all ones while one is being made.
    changed: AtomicU64,
}

impl Fdb {
    /// An empty table for at most `limit` addresses that age after `ageing_s` seconds.
    #[must_use]
    pub fn new(limit: u32, ageing_s: u32) -> Self {
        Self::with_changes(limit, ageing_s, Arc::default())
    }

    /// [`Fdb::new`], of a bridge: what changes in it begins an epoch.
    #[must_use]
    pub fn with_changes(limit: u32, ageing_s: u32, changes: Arc<Changes>) -> Self {
        let limit = limit.clamp(1, limits::FDB_ENTRIES_MAX);
        // As many buckets as addresses: a quarter full at most, so that both buckets of a key are
        // rarely full.
        let buckets = (limit as usize).next_power_of_two().max(2);
        Self {
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            multiplier: multiplier(limit),
            shift: 64 - buckets.trailing_zeros(),
            limit,
            quota: (limit * limits::FDB_PORT_QUOTA_PERCENT / 100).max(1),
            ageing_s,
            entries: AtomicU32::new(0),
            per_port: (0..limits::PORTS_MAX).map(|_| AtomicU32::new(0)).collect(),
            refused: AtomicU64::new(0),
            writer: Mutex::default(),
            changes,
            changed: AtomicU64::new(0),
        }
    }

    /// Epoch in which an address was last added, moved or removed; renewing one is no change. A
    /// number not below the true one: all ones while the table is being changed.
    #[inline]
    #[must_use]
    pub fn changed(&self) -> u64 {
        self.changed.load(Acquire)
    }

    /// The table is about to change, under the writer lock.
    fn begin_change(&self) {
        self.changed.store(u64::MAX, Release);
    }

    /// The table has changed.
    fn end_change(&self) {
        self.changed.store(self.changes.advance(), Release);
    }

    /// For the loops of a burst.
    #[inline]
    #[must_use]
    pub fn reader(&self) -> FdbReader<'_> {
        FdbReader { fdb: self, buckets: &self.buckets, multiplier: self.multiplier, shift: self.shift }
    }

    fn hash(&self, key: FdbKey) -> u64 {
        key.0.wrapping_mul(self.multiplier)
    }

    fn first(&self, key: FdbKey) -> &Bucket {
        &self.buckets[index(self.hash(key) >> self.shift)]
    }

    /// The other bucket: its index differs from the first's by an odd number, so that it is never
    /// the same.
    fn second(&self, key: FdbKey) -> &Bucket {
        let hash = self.hash(key);
        let other = index(hash >> self.shift) ^ (index(hash >> 20) | 1);
        &self.buckets[other & (self.buckets.len() - 1)]
    }

    fn find(&self, key: &FdbKey) -> Option<(&AtomicU64, Value)> {
        self.first(*key).find(key).or_else(|| self.second(*key).find(key))
    }

    /// Where an address is that is not in its first bucket.
    #[cold]
    fn lookup_second(&self, key: &FdbKey) -> Option<PortId> {
        self.second(*key).find(key).map(|(_, value)| value.port())
    }

    #[cold]
    fn learn_news(&self, key: &FdbKey, seen: Sighting) {
        match self.find(key) {
            Some((_, value)) if value.is_static() || value == seen.0 => {}
            Some((word, value)) if value.port() == seen.0.port() => {
                // Fails when the slot changed meanwhile: then somebody else knew better.
                let _ = word.compare_exchange(value.0, seen.0.0, Release, Relaxed);
            }
            _ => self.learn_slowly(key, seen.0),
        }
    }

    fn learn_slowly(&self, key: &FdbKey, seen: Value) {
        let port = seen.port();
        // Without the lock first: a flood of new addresses against a full quota must stay cheap.
        if self.of_port(port) >= self.quota && self.find(key).is_none() {
            self.refused.fetch_add(1, Relaxed);
            return;
        }
        let Some(mut stats) = self.writer.try_lock() else { return };
        if let Some((word, value)) = self.find(key) {
            if !value.is_static() && value.port() != port {
                self.begin_change();
                word.store(seen.0, Release);
                self.end_change();
                self.per_port[value.port().index()].fetch_sub(1, Relaxed);
                self.per_port[port.index()].fetch_add(1, Relaxed);
                stats.moved += 1;
            }
        } else if self.insert(&mut stats, *key, seen) {
            stats.learned += 1;
        } else {
            self.refused.fetch_add(1, Relaxed);
        }
    }

    fn is_full(&self) -> bool {
        self.entries.load(Relaxed) >= self.limit
    }

    fn of_port(&self, port: PortId) -> u32 {
        self.per_port[port.index()].load(Relaxed)
    }

    /// Puts a key that is not there into a slot: a free one, once another address gave way if the
    /// table is full.
    fn insert(&self, stats: &mut FdbStats, key: FdbKey, value: Value) -> bool {
        let own = [self.first(key), self.second(key)];
        let free = || {
            let slot = |bucket: &&Bucket| (0..SLOTS).find(|slot| bucket.keys.0[*slot].load(Relaxed) == 0);
            own.into_iter().find_map(|bucket| Some((bucket, slot(&bucket)?)))
        };
        let (bucket, slot) = match free() {
            Some(free) if !self.is_full() => free,
            found => {
                let elsewhere = || found.and_then(|_| self.victim(self.others(key), value));
                let Some((bucket, slot, old)) = self.victim(own.into_iter(), value).or_else(elsewhere) else {
                    return false;
                };
                self.begin_change();
                self.remove_slot(stats, bucket, slot, old);
                stats.evicted += 1;
                let Some(free) = free() else {
                    self.end_change();
                    return false;
                };
                free
            }
        };
        self.begin_change();
        bucket.values[slot].store(value.0, Release);
        bucket.keys.0[slot].store(key.0, Release);
        self.end_change();
        self.entries.fetch_add(1, Relaxed);
        self.per_port[value.port().index()].fetch_add(1, Relaxed);
        stats.statics += u32::from(value.is_static());
        true
    }

    /// The longest unused address in the buckets that may give way to `value`.
    fn victim<'a>(
        &self,
        buckets: impl Iterator<Item = &'a Bucket>,
        value: Value,
    ) -> Option<(&'a Bucket, usize, Value)> {
        let all = buckets.flat_map(|bucket| (0..SLOTS).map(move |slot| (bucket, slot)));
        let used = all.filter(|(bucket, slot)| bucket.keys.0[*slot].load(Relaxed) != 0);
        let learned = used.map(|(bucket, slot)| (bucket, slot, Value(bucket.values[slot].load(Relaxed))));
        let of = self.of_port(value.port());
        let yields = |old: Value| !old.is_static() && (value.is_static() || self.of_port(old.port()) > of);
        learned.filter(|(_, _, old)| yields(*old)).min_by_key(|(_, _, old)| old.stamp())
    }

    /// Some buckets behind a key's first one.
    fn others(&self, key: FdbKey) -> impl Iterator<Item = &Bucket> {
        let start = index(self.hash(key) >> self.shift);
        let n = limits::FDB_EVICTION_SEARCH.min(self.buckets.len());
        (1..=n).map(move |i| &self.buckets[start.wrapping_add(i) & (self.buckets.len() - 1)])
    }

    fn remove_slot(&self, stats: &mut FdbStats, bucket: &Bucket, slot: usize, value: Value) {
        // Before the value changes hands: a reader that sees a new value also sees that the key
        // went (Release/Acquire).
        bucket.keys.0[slot].store(0, Relaxed);
        self.entries.fetch_sub(1, Relaxed);
        self.per_port[value.port().index()].fetch_sub(1, Relaxed);
        stats.statics -= u32::from(value.is_static());
    }

    /// Adds a static address, or makes one static and moves it; false, and nothing changed, when
    /// its buckets are full of static ones or the table is.
    pub fn add_static(&self, key: FdbKey, port: PortId) -> bool {
        let mut stats = self.writer.lock();
        let value = Value::new(port, true, 0);
        let Some((word, old)) = self.find(&key) else { return self.insert(&mut stats, key, value) };
        self.begin_change();
        word.store(value.0, Release);
        self.end_change();
        self.per_port[old.port().index()].fetch_sub(1, Relaxed);
        self.per_port[port.index()].fetch_add(1, Relaxed);
        stats.statics += u32::from(!old.is_static());
        true
    }

    /// Removes the addresses that `which` accepts; returns how many.
    pub fn flush(&self, mut which: impl FnMut(&Entry) -> bool) -> u64 {
        self.remove_if(|key, value| which(&entry(key, value)))
    }

    /// Removes learned addresses that were not seen for the ageing time; the control side calls it
    /// every second.
    pub fn age(&self, now_s: u32) {
        if self.entries.load(Relaxed) == 0 {
            return;
        }
        let old = |value: Value| !value.is_static() && now_s.saturating_sub(value.stamp()) >= self.ageing_s;
        let expired = self.remove_if(|_, value| old(value));
        self.writer.lock().expired += expired;
    }

    /// Takes the writer lock for a part of the table at a time: workers go on learning in between.
    fn remove_if(&self, mut which: impl FnMut(FdbKey, Value) -> bool) -> u64 {
        let mut removed = 0;
        for part in self.buckets.chunks(BUCKETS_PER_LOCK) {
            let mut stats = self.writer.lock();
            let before = removed;
            for (bucket, slot, key, value) in used(part) {
                if which(key, value) {
                    self.begin_change();
                    self.remove_slot(&mut stats, bucket, slot, value);
                    removed += 1;
                }
            }
            if removed > before {
                self.end_change();
            }
        }
        removed
    }

    /// All addresses, in no order.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.entries.load(Relaxed) as usize);
        for part in self.buckets.chunks(BUCKETS_PER_LOCK) {
            let _writer = self.writer.lock();
            entries.extend(used(part).map(|(_, _, key, value)| entry(key, value)));
        }
        entries
    }

    /// The table in numbers.
    #[must_use]
    pub fn stats(&self) -> FdbStats {
        let stats = self.writer.lock();
        FdbStats {
            entries: self.entries.load(Relaxed),
            limit: self.limit,
            refused: self.refused.load(Relaxed),
            ..*stats
        }
    }
}

impl FdbReader<'_> {
    /// Where a key is looked for first.
    #[inline]
    #[must_use]
    pub fn place(&self, key: FdbKey) -> FdbPlace {
        FdbPlace(index(key.0.wrapping_mul(self.multiplier) >> self.shift))
    }

    /// Asks for the cache line of a place.
    #[inline]
    pub fn prefetch(&self, place: FdbPlace) {
        if let Some(bucket) = self.buckets.get(place.0) {
            vswitch_dpdk::prefetch(bucket);
        }
    }

    /// The port of an address.
    #[inline]
    #[must_use]
    pub fn lookup(&self, key: &FdbKey, place: FdbPlace) -> Option<PortId> {
        match self.buckets.get(place.0)?.find(key) {
            Some((_, value)) => Some(value.port()),
            None => self.fdb.lookup_second(key),
        }
    }

    /// Notes that an address was seen. Never waits.
    #[inline]
    pub fn learn(&self, key: &FdbKey, place: FdbPlace, seen: Sighting) {
        // On this port, in this second: nothing new. A slot that just changed hands may say so
        // wrongly; the next packet tells.
        if self.buckets.get(place.0).and_then(|bucket| bucket.value_of(key)) != Some(seen.0) {
            self.fdb.learn_news(key, seen);
        }
    }
}

/// A random multiplier for hashes by which neighbouring addresses, of which there are many, do not
/// share a bucket.
fn multiplier(limit: u32) -> u64 {
    let spreads = |multiplier: &u64| {
        (1..=64_u64).all(|distance| {
            let apart = multiplier.wrapping_mul(distance << 16);
            apart.min(apart.wrapping_neg()) >> 54 != 0
        })
    };
    let random = std::iter::repeat_with(|| RandomState::new().hash_one(limit) | 1);
    // A quarter or so does not; more than some tries are not worth it.
    random.take(64).find(spreads).unwrap_or(0x9e37_79b9_7f4a_7c15)
}

#[allow(clippy::cast_possible_truncation)] // usize has 64 bits here
#[inline]
const fn index(word: u64) -> usize {
    word as usize
}

/// The slots in use of some buckets; under the writer lock.
fn used(buckets: &[Bucket]) -> impl Iterator<Item = (&Bucket, usize, FdbKey, Value)> {
    let slots = buckets.iter().flat_map(|bucket| (0..SLOTS).map(move |slot| (bucket, slot)));
    slots.filter_map(|(bucket, slot)| match bucket.keys.0[slot].load(Relaxed) {
        0 => None,
        key => Some((bucket, slot, FdbKey(key), Value(bucket.values[slot].load(Relaxed)))),
    })
}

fn entry(key: FdbKey, value: Value) -> Entry {
    Entry { key, port: value.port(), seen_s: (!value.is_static()).then_some(value.stamp()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn learn(fdb: &Fdb, mac: u64, port: u16, now_s: u32) {
        let (key, reader) = (FdbKey::new(mac, 0), fdb.reader());
        reader.learn(&key, reader.place(key), Sighting::new(PortId(port), now_s));
    }

    fn lookup(fdb: &Fdb, mac: u64) -> Option<u16> {
        let (key, reader) = (FdbKey::new(mac, 0), fdb.reader());
        reader.lookup(&key, reader.place(key)).map(|port| port.0)
    }

    #[test]
    fn learns_moves_ages_and_keeps_vlans_apart() {
        let fdb = Fdb::new(16, 300);
        learn(&fdb, 0xa, 1, 0);
        learn(&fdb, 0xb, 2, 200);
        assert_eq!((lookup(&fdb, 0xa), lookup(&fdb, 0xb), lookup(&fdb, 0xc)), (Some(1), Some(2), None));
        let tagged = FdbKey::new(0xa, 5);
        assert_eq!(fdb.reader().lookup(&tagged, fdb.reader().place(tagged)), None, "another VLAN");
        learn(&fdb, 0xa, 3, 1);
        assert_eq!((lookup(&fdb, 0xa), fdb.stats().moved), (Some(3), 1));
        learn(&fdb, 0xa, 3, 100);
        fdb.age(399);
        assert_eq!(lookup(&fdb, 0xa), Some(3), "renewed at 100");
        fdb.age(400);
        assert_eq!((lookup(&fdb, 0xa), lookup(&fdb, 0xb), fdb.stats().expired), (None, Some(2), 1));
        assert_eq!(fdb.flush(|entry| entry.port == PortId(2)), 1);
        assert_eq!(fdb.stats().entries, 0);
    }

    #[test]
    fn a_flooding_port_fills_its_quota_and_no_more() {
        let fdb = Fdb::new(100, 300);
        for mac in 0..10_000 {
            learn(&fdb, mac, 1, 0);
        }
        assert_eq!(fdb.stats().entries, 75);
        for mac in 0x10_0000..0x10_0040 {
            learn(&fdb, mac, 2, 0);
        }
        let stats = fdb.stats();
        assert!(stats.entries <= 100 && stats.refused > 9_000, "{stats:?}");
        let found = (0x10_0000..0x10_0040).filter(|mac| lookup(&fdb, *mac) == Some(2)).count();
        assert!(found >= 48, "the second port got {found} of its share of 50: {stats:?}");
    }

    #[test]
    fn only_changes_begin_an_epoch() {
        let changes = Arc::new(Changes::default());
        let fdb = Fdb::with_changes(4, 300, Arc::clone(&changes));
        let step = |what: &str, changed: bool, step: &dyn Fn()| {
            let before = changes.epoch();
            step();
            assert_eq!(changes.epoch() > before, changed, "{what}");
            assert_eq!(fdb.changed() > before, changed, "{what}");
        };
        step("learned", true, &|| learn(&fdb, 0xa, 1, 0));
        step("renewed", false, &|| learn(&fdb, 0xa, 1, 5));
        step("moved", true, &|| learn(&fdb, 0xa, 2, 6));
        step("static", true, &|| assert!(fdb.add_static(FdbKey::new(0xb, 0), PortId(1))));
        step("static elsewhere", false, &|| learn(&fdb, 0xb, 2, 6));
        step("not old", false, &|| fdb.age(7));
        step("aged", true, &|| fdb.age(1000));
        step("nothing to flush", false, &|| assert_eq!(fdb.flush(|_| false), 0));
        step("flushed", true, &|| assert_eq!(fdb.flush(|_| true), 1));
        for mac in 0..3 {
            learn(&fdb, mac, 1, 0);
        }
        step("refused", false, &|| learn(&fdb, 3, 1, 0));
        assert_eq!(fdb.stats().refused, 1);
    }

    #[test]
    fn static_addresses_stay_put() {
        let fdb = Fdb::new(4, 300);
        learn(&fdb, 0xa, 1, 0);
        assert!(fdb.add_static(FdbKey::new(0xa, 0), PortId(6)), "a learned address becomes static");
        assert!(fdb.add_static(FdbKey::new(0xa, 0), PortId(7)), "and moves");
        for mac in 0..1000 {
            learn(&fdb, mac, 1, 0);
            learn(&fdb, mac, 2, 0);
        }
        learn(&fdb, 0xa, 3, 0);
        fdb.age(10_000);
        assert_eq!(lookup(&fdb, 0xa), Some(7));
        assert_eq!((fdb.stats().statics, fdb.stats().entries), (1, 1));
        let kept = fdb.flush(|entry| entry.seen_s.is_some());
        assert_eq!((kept, lookup(&fdb, 0xa)), (0, Some(7)));
        for mac in 0..1000 {
            learn(&fdb, mac, u16::try_from(mac % 2).expect("small"), 0);
        }
        for mac in [0xb, 0xc, 0xd] {
            assert!(fdb.add_static(FdbKey::new(mac, 0), PortId(7)), "a learned address gives way to {mac:x}");
        }
        assert!(!fdb.add_static(FdbKey::new(0xe, 0), PortId(7)), "the table is full of static addresses");
        assert_eq!((fdb.stats().statics, fdb.stats().entries), (4, 4));
    }

    proptest! {
        /// With room for all, the table is a map from address to the last port that it was seen on.
        #[test]
        fn agrees_with_a_map(steps in proptest::collection::vec((0_u64..40, 0_u16..6, any::<bool>()), 0..200)) {
            let fdb = Fdb::new(1024, 300);
            let mut map = HashMap::new();
            for (mac, port, flush) in steps {
                if flush && port == 0 {
                    fdb.flush(|entry| entry.key.mac().to_u64() == mac);
                    map.remove(&mac);
                } else {
                    learn(&fdb, mac, port, 0);
                    map.insert(mac, port);
                }
                for mac in 0..40 {
                    prop_assert_eq!(lookup(&fdb, mac), map.get(&mac).copied(), "address {}", mac);
                }
                prop_assert_eq!(fdb.stats().entries as usize, map.len());
                prop_assert_eq!(fdb.entries().len(), map.len());
            }
        }
    }

    #[test]
    fn workers_that_learn_at_once_never_see_another_address() {
        let fdb = Fdb::new(64, 300);
        std::thread::scope(|scope| {
            for worker in 0..4_u64 {
                let fdb = &fdb;
                scope.spawn(move || {
                    for i in 0..50_000_u64 {
                        // The port tells the address: a value read from another address's slot
                        // shows.
                        let mac = (i * 7 + worker * 13) % 512;
                        learn(fdb, mac, (mac % 97) as u16, u32::try_from(i / 1000).expect("small"));
                        let probe = (i * 31) % 512;
                        if let Some(port) = lookup(fdb, probe) {
                            assert_eq!(u64::from(port), probe % 97, "address {probe}");
                        }
                    }
                });
            }
        });
        let sum: u32 = fdb.per_port.iter().map(|count| count.load(Relaxed)).sum();
        assert_eq!((sum, fdb.entries().len()), (fdb.stats().entries, fdb.stats().entries as usize));
    }
}
