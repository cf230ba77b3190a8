//! From the hash of a tuple to the places where its connection may lie.
//!
//! A bucket is one cache line of eight words. A tuple has two buckets, and lies in the first one as
//! long as that has room to spare, else in the emptier one: a bucket counts what lies elsewhere on
//! its account, and as long as that is nothing, a lookup reads one line. Two buckets are a pair: a
//! tuple and the one with its ends exchanged have the same two pairs, one the left and the other
//! the right half of both ([`SIDE`]), so that a connection that is not translated touches two
//! neighbouring lines, seldom four, and one stripe. A word never moves: who looks while others add
//! and remove may miss what is just coming, never what stays. 16 words is therefore all that a
//! lookup ever reads, whatever an attacker sends.
//!
//! There are four words for each connection that there may be, whatever their number is: a hash is
//! scaled to the number of pairs, so that this need not be a power of two.
//!
//! Words are claimed and cleared by compare-and-swap. That a tuple is entered once only is the
//! business of the stripes: whoever adds holds the stripes of both tuples, from before he looks
//! whether they are free until they are entered.

use super::sync::{AtomicU64, SpinMutex, SpinMutexGuard, size};
use super::words::SIDE;
use crate::{Config, Direction, Memory};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Words of a bucket.
const WORDS: usize = size(8, 2);

/// Locks among which adders spread.
const STRIPES: usize = size(256, 4);

/// A bucket with so many words takes more only if the other one of a tuple is no emptier. In a full
/// table 9 of 100 tuples lie elsewhere then, in one that is three quarters full 4; that both
/// buckets of a tuple are full while there are free places happens once in 10^9 connections (with
/// 6: in 10^7).
const COMFORTABLE: usize = size(5, 1);

/// Of a word: something is entered.
const USED: u64 = 1;

/// Of a bucket's first word, whether it is used or not: how many tuples lie in their second bucket
/// that had this one as their first. What has been at the most stays there: nobody knows how many
/// there are then.
const ELSEWHERE: u64 = 63 << ELSEWHERE_SHIFT;
const ELSEWHERE_SHIFT: u32 = 28;
const ELSEWHERE_ONE: u64 = 1 << ELSEWHERE_SHIFT;

const _: () = assert!(Config::CONNECTIONS_MAX <= 1 << (ELSEWHERE_SHIFT - 2), "a place fits");

/// Multiplier that makes the second pair another function of the hash than the first (2^64 divided
/// by the golden ratio).
const SECOND: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket([AtomicU64; WORDS]);

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe(SpinMutex<()>);

/// Where the connection of a tuple may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) place: u32,
    /// Which of the connection's tuples it is.
    pub(super) direction: Direction,
}

/// The hash table from tuples to places, with the locks of those that add.
#[derive(Debug)]
pub(super) struct Index {
    buckets: Box<[Bucket]>,
    stripes: Box<[Stripe]>,
}

/// Stripes of two tuples, held.
#[derive(Debug)]
pub(super) struct Stripes<'a>(#[expect(dead_code, reason = "held")] [Option<SpinMutexGuard<'a, ()>>; 2]);

impl Index {
    /// For so many connections, each with two tuples: half full at most.
    pub(super) fn new<M: Memory>(connections_max: usize) -> Self {
        let buckets = (connections_max * 4).div_ceil(WORDS).next_multiple_of(2).max(2);
        Self {
            buckets: M::slice(buckets, Bucket::default),
            stripes: std::iter::repeat_with(Stripe::default).take(STRIPES).collect(),
        }
    }

    /// Bytes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.buckets) + size_of_val(&*self.stripes)
    }

    /// Tuples that are entered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.buckets.iter().map(Bucket::len).sum()
    }

    #[inline]
    fn buckets(&self, hash: u64) -> [&Bucket; 2] {
        let pairs = self.buckets.len() / 2;
        let (pair, side) = (hash & !SIDE, as_index(hash & SIDE));
        let first = scale(pair, pairs);
        let mut second = scale(pair.wrapping_mul(SECOND) >> 32, pairs);
        if second == first {
            second = if first == 0 { pairs - 1 } else { first - 1 };
        }
        [&self.buckets[first * 2 + side], &self.buckets[second * 2 + side]]
    }

    /// A word of the line that most lookups read, and no other one.
    #[inline]
    pub(super) fn line(&self, hash: u64) -> &AtomicU64 {
        &self.buckets(hash)[0].0[0]
    }

    /// Calls back with every place that a tuple of this hash may lie at, until that returns
    /// something.
    #[inline]
    pub(super) fn find<R>(&self, hash: u64, mut look: impl FnMut(Hit) -> Option<R>) -> Option<R> {
        let [first, second] = self.buckets(hash);
        if let Some(found) = first.find(hash, &mut look) {
            return Some(found);
        }
        // What is entered elsewhere is counted before.
        if first.0[0].load(Acquire) & ELSEWHERE == 0 { None } else { second.find(hash, &mut look) }
    }

    /// Locks the stripes of two hashes, in the order that everybody locks them in. While they are
    /// held nobody else enters tuples of these hashes.
    pub(super) fn lock(&self, hashes: [u64; 2]) -> Stripes<'_> {
        let mut at = hashes.map(|hash| as_index(hash >> 40) % STRIPES);
        at.sort_unstable();
        super::owner::assert_outside();
        let first = self.stripes[at[0]].0.lock();
        let second = (at[0] != at[1]).then(|| self.stripes[at[1]].0.lock());
        Stripes([Some(first), second])
    }

    /// Enters a tuple; false: both of its buckets are full. The caller holds its stripe.
    #[must_use]
    pub(super) fn insert(&self, hash: u64, hit: Hit) -> bool {
        let word = word(hash, hit);
        let [first, second] = self.buckets(hash);
        loop {
            let crowd = first.len();
            let elsewhere = crowd >= COMFORTABLE && second.len() < crowd;
            if elsewhere {
                first.count_elsewhere();
                if second.claim(word) {
                    return true;
                }
                first.forget_elsewhere();
            } else if first.claim(word) {
                return true;
            }
            // Others filled it while we looked: look which one is emptier now. Each turn of this
            // loop means that somebody else has entered something, or taken something out.
            if first.len() == WORDS && second.len() == WORDS {
                return false;
            }
        }
    }

    /// Takes out what [`Self::insert`] entered.
    pub(super) fn remove(&self, hash: u64, hit: Hit) {
        let word = word(hash, hit);
        let [first, second] = self.buckets(hash);
        if !first.clear(word) && second.clear(word) {
            first.forget_elsewhere();
        }
    }
}

impl Bucket {
    /// Words that are used.
    #[inline]
    fn len(&self) -> usize {
        self.0.iter().map(|word| as_index(word.load(Relaxed) & USED)).sum()
    }

    #[inline]
    fn find<R>(&self, hash: u64, look: &mut impl FnMut(Hit) -> Option<R>) -> Option<R> {
        let wanted = tag(hash);
        for word in &self.0 {
            let word = word.load(Acquire);
            if word >> TAG_SHIFT == wanted
                && word & USED != 0
                && let Some(found) = look(hit(word))
            {
                return Some(found);
            }
        }
        None
    }

    /// Writes a word where none is; false: there are words everywhere.
    #[inline]
    fn claim(&self, word: u64) -> bool {
        self.0.iter().any(|slot| {
            let mut old = slot.load(Relaxed);
            while old & USED == 0 {
                match slot.compare_exchange(old, word | old & ELSEWHERE, Release, Relaxed) {
                    Ok(_) => return true,
                    Err(other) => old = other,
                }
            }
            false
        })
    }

    /// Clears a word; false: it is not there.
    fn clear(&self, word: u64) -> bool {
        self.0.iter().any(|slot| {
            let mut old = slot.load(Relaxed);
            while old & !ELSEWHERE == word {
                match slot.compare_exchange(old, old & ELSEWHERE, Release, Relaxed) {
                    Ok(_) => return true,
                    Err(other) => old = other,
                }
            }
            false
        })
    }

    /// One tuple more lies elsewhere, from the next moment on.
    #[cold]
    fn count_elsewhere(&self) {
        self.elsewhere(|old| old + ELSEWHERE_ONE);
    }

    /// One less.
    #[cold]
    fn forget_elsewhere(&self) {
        self.elsewhere(|old| old - ELSEWHERE_ONE);
    }

    fn elsewhere(&self, next: impl Fn(u64) -> u64) {
        let slot = &self.0[0];
        let mut old = slot.load(Relaxed);
        while old & ELSEWHERE != ELSEWHERE {
            match slot.compare_exchange(old, next(old), Release, Relaxed) {
                Ok(_) => return,
                Err(other) => old = other,
            }
        }
    }
}

/// Where the tag begins in a word.
const TAG_SHIFT: u32 = 34;

const fn tag(hash: u64) -> u64 {
    hash >> TAG_SHIFT
}

/// One of so many, by the low half of a word.
const fn scale(word: u64, count: usize) -> usize {
    as_index(((word & 0xffff_ffff) * count as u64) >> 32)
}

/// 30 bits of the hash, six that are another's ([`ELSEWHERE`]), the place, the direction, and
/// [`USED`].
const fn word(hash: u64, hit: Hit) -> u64 {
    tag(hash) << TAG_SHIFT | (hit.place as u64) << 2 | (hit.direction as u64) << 1 | USED
}

fn hit(word: u64) -> Hit {
    let direction = if word & 2 == 0 { Direction::Original } else { Direction::Reply };
    let place = ((word & (ELSEWHERE_ONE - 1)) >> 2) as u32;
    Hit { place, direction }
}

#[expect(clippy::cast_possible_truncation, reason = "masked by whoever calls")]
const fn as_index(word: u64) -> usize {
    word as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ordinary;

    fn places(index: &Index, hash: u64) -> Vec<u32> {
        let mut places = Vec::new();
        index.find(hash, |hit| {
            places.push(hit.place);
            None::<()>
        });
        places.sort_unstable();
        places
    }

    #[test]
    fn what_is_entered_is_found_until_it_is_removed() {
        let index = Index::new::<Ordinary>(64);
        let hits: Vec<_> = (0..100_u32)
            .map(|place| (u64::from(place).wrapping_mul(SECOND), Hit { place, direction: Direction::Reply }))
            .collect();
        for &(hash, hit) in &hits {
            assert!(index.insert(hash, hit), "{hash:x}");
        }
        for &(hash, hit) in &hits {
            assert_eq!(index.find(hash, Some), Some(hit), "{hash:x}");
        }
        for &(hash, hit) in &hits {
            index.remove(hash, hit);
            assert_eq!(index.find(hash, Some), None, "{hash:x}");
        }
    }

    /// Of any size: it has so many words for each connection, and all of their tuples find room.
    #[test]
    fn an_index_of_any_size_has_room_for_all() {
        let hasher = crate::tracker::Hasher::random();
        for connections in [1, 2, 3, 5, 100, 1023, 1025, 70_001] {
            let index = Index::new::<Ordinary>(connections);
            assert!(index.buckets.len() * WORDS <= connections * 4 + 2 * WORDS, "{connections}");
            for place in 0..u32::try_from(connections).unwrap() {
                let end = |addr, port| crate::End { addr, port };
                let tuple = crate::Tuple { src: end(place.into(), 7), dst: end(u128::MAX, 9), ..Default::default() };
                let hit = |direction| Hit { place, direction };
                let [hash, back] = [tuple, tuple.reversed()].map(|tuple| hasher.hash(&(&tuple).into()));
                assert_eq!((hash ^ back, index.buckets(hash).len()), (SIDE, 2));
                assert!(index.insert(hash, hit(Direction::Original)), "{place} of {connections}");
                assert!(index.insert(back, hit(Direction::Reply)), "{place} of {connections}");
            }
            assert_eq!(index.len(), 2 * connections);
        }
    }

    /// Connections to one Service with one endpoint fill both halves of the pairs alike, whatever
    /// the key makes of those two ends.
    #[test]
    fn an_index_has_room_for_all_clients_of_one_service() {
        const CONNECTIONS: u32 = 10_000;
        for turn in 0..20 {
            let hasher = crate::tracker::Hasher::random();
            let index = Index::new::<Ordinary>(CONNECTIONS as usize);
            let [service, pod] = [(1, 443), (2, 8443)].map(|(addr, port)| crate::End { addr, port });
            let mut right = 0;
            for place in 0..CONNECTIONS {
                let client = crate::End { addr: (1000 + place).into(), port: 7 };
                let tuple = |src, dst| crate::Tuple { src, dst, ..Default::default() };
                let hashes = [tuple(client, service), tuple(pod, client)].map(|tuple| hasher.hash(&(&tuple).into()));
                for (hash, direction) in hashes.into_iter().zip([Direction::Original, Direction::Reply]) {
                    right += hash & SIDE;
                    let entered = index.insert(hash, Hit { place, direction });
                    assert!(
                        entered,
                        "turn {turn}: connection {place} of {CONNECTIONS}, {hash:x}, {right} to the right"
                    );
                }
            }
            assert!((9_400..10_600).contains(&right), "turn {turn}: {right} of {} to the right", 2 * CONNECTIONS);
        }
    }

    /// P28: were the key known, a flood of one hash fills two buckets, and nothing else becomes
    /// slower.
    #[test]
    fn a_flood_of_one_hash_fills_two_buckets_and_no_more() {
        let index = Index::new::<Ordinary>(1024);
        let entered =
            (0..1000).filter(|&place| index.insert(77, Hit { place, direction: Direction::Original })).count();
        assert_eq!(entered, 2 * WORDS, "entries of one hash");
        assert_eq!(places(&index, 77).len(), 2 * WORDS, "places that a lookup verifies");
        assert!(index.insert(1 << 60 | 3, Hit { place: 5000, direction: Direction::Original }), "another hash");
        assert_eq!(places(&index, 1 << 60 | 3), [5000]);
    }

    /// What lies elsewhere is counted where it would lie, found, and forgotten when it goes; more
    /// than can be counted is found, too.
    #[test]
    fn a_bucket_counts_what_lies_elsewhere() {
        let index = Index::new::<Ordinary>(4096);
        let hash = 77_u64 << 34 | 5 << 8;
        let [first, second] = index.buckets(hash);
        let elsewhere = || (first.0[0].load(Relaxed) & ELSEWHERE) >> ELSEWHERE_SHIFT;
        let hits: Vec<_> = (0..16).map(|place| Hit { place, direction: Direction::Original }).collect();
        hits.iter().for_each(|hit| assert!(index.insert(hash, *hit), "{hit:?}"));
        assert_eq!((first.len(), second.len(), elsewhere()), (8, 8, 8));
        assert_eq!(places(&index, hash), (0..16).collect::<Vec<_>>());
        for (gone, hit) in hits.iter().enumerate() {
            index.remove(hash, *hit);
            assert_eq!(places(&index, hash).len(), 15 - gone, "{hit:?}");
            assert_eq!(elsewhere(), second.len() as u64);
        }
        assert!(index.insert(hash, hits[0]) && elsewhere() == 0, "as at first");
        (0..100).for_each(|_| first.count_elsewhere());
        assert!(elsewhere() == 63 && second.claim(word(hash, hits[1])));
        (0..100).for_each(|_| first.forget_elsewhere());
        assert_eq!((elsewhere(), places(&index, hash)), (63, vec![0, 1]), "who cannot tell looks");
        index.remove(hash, hits[0]);
        assert_eq!((elsewhere(), places(&index, hash)), (63, vec![1]), "without the word beside which it is counted");
    }
}
