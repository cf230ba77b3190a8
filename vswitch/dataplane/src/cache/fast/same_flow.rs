//! Bursts of one connection, which come one behind the other: their packets differ in what no key
//! has. The compact key of the first one is made, each other one is compared with it as bytes, and
//! has the same key; that is a third of the work.
//!
//! Only untagged packets of TCP and UDP, in one segment, whose headers are as long as those of the
//! first one; any other one has its key made. It is tried behind a burst that was of one
//! connection, so other traffic pays nothing.

use crate::cache::fast::compact::{CompactKind, VECTORS_MAX, first_word};
use crate::cache::fast::lookup::of_packets;
use crate::cache::fast::shapes::{SAME_V4, SAME_V6, TCP, UDP, WORDS_V4, WORDS_V6};
use crate::cache::{Cache, Compact};
use crate::packet::{tcp, udp};
use crate::port::PortId;
use vswitch_dpdk::{Burst, Mbuf, U8x32};

/// What packets with one key have the same: the first bytes of one of them, `N` words.
struct Model<const N: usize> {
    bytes: [U8x32; VECTORS_MAX],
    /// The bits that count: those of the key, those that say where its fields are, and the length
    /// of the L4 header.
    masks: [U8x32; VECTORS_MAX],
    key: Compact,
    /// Bytes of all headers.
    headers: usize,
}

/// A packet that does not end before this, in bytes, is not plain.
const END_MAX: usize = u16::MAX as usize;

impl<const N: usize> Model<N> {
    /// Vectors that the words are in.
    const WIDES: usize = N.div_ceil(4);

    /// Bytes before the L4 header.
    const L4: usize = if N == WORDS_V4 { 14 + 20 } else { 14 + 40 };

    /// Of an untagged packet, which has this key. None: it has not so many bytes, or another
    /// protocol.
    fn of(head: &[u8], key: Compact, same: &[[u64; N]; 2]) -> Option<Self> {
        let front = head.get(..N * 8)?;
        let (l4, protocol) = (front.get(Self::L4..)?, front[if N == WORDS_V4 { 14 + 9 } else { 14 + 6 }]);
        let (words, headers) = match protocol {
            tcp::PROTOCOL => (&same[TCP], Self::L4 + usize::from(l4.get(12)? >> 4) * 4),
            udp::PROTOCOL => (&same[UDP], Self::L4 + 8),
            _ => return None,
        };
        let (mut bytes, mut masks) = ([U8x32::zero(); VECTORS_MAX], [U8x32::zero(); VECTORS_MAX]);
        for v in 0..Self::WIDES {
            let first = first_word::<N>(v);
            bytes[v] = U8x32::of(front.get(first * 8..)?.first_chunk()?);
            masks[v] = U8x32::of_words(*words.get(first..)?.first_chunk()?);
        }
        Some(Self { bytes, masks, key, headers })
    }

    /// The key of a packet, if it is the same.
    #[inline(always)] // in the loop over a burst
    fn key(&self, mbuf: &Mbuf) -> Option<Compact> {
        let (head, len) = (mbuf.head(), mbuf.len());
        let front = head.get(..N * 8)?;
        for v in 0..Self::WIDES {
            let bytes = front.get(first_word::<N>(v) * 8..)?.first_chunk()?;
            if !U8x32::of(bytes).is(self.bytes[v], self.masks[v]) {
                return None;
            }
        }
        let (counted_from, length) =
            if N == WORDS_V4 { (14, [front[16], front[17]]) } else { (Self::L4, [front[18], front[19]]) };
        let end = counted_from + usize::from(u16::from_be_bytes(length));
        if head.len() != len || end > len || end < self.headers || end >= END_MAX {
            return None;
        }
        #[allow(clippy::cast_possible_truncation)] // less than END_MAX
        Some(self.key.ending_at(end as u16))
    }
}

impl Cache {
    /// [`Cache::prepare`], where all packets are likely to have one key. None, if that cannot be
    /// told of this one's, and nothing is prepared. Afterwards the cache knows whether it was so.
    #[inline(never)] // registers of its own
    pub(in crate::cache) fn prepare_repeats(
        &mut self,
        burst: &Burst,
        port: PortId,
        least: usize,
    ) -> Option<(u64, usize)> {
        let first = burst.slots().first()?.as_ref()?;
        let mut key = Compact::default();
        key.read_apart(first.head(), first.len(), (port, 0), &self.seeds);
        match key.kind {
            _ if key.is_tagged() => None,
            CompactKind::V4 => {
                Model::<WORDS_V4>::of(first.head(), key, &SAME_V4).map(|model| self.repeat(burst, port, least, &model))
            }
            CompactKind::V6 => {
                Model::<WORDS_V6>::of(first.head(), key, &SAME_V6).map(|model| self.repeat(burst, port, least, &model))
            }
            CompactKind::None => None,
        }
    }

    #[inline(always)] // once for each family
    fn repeat<const N: usize>(&mut self, burst: &Burst, port: PortId, least: usize, model: &Model<N>) -> (u64, usize) {
        let Self { keys, seeds, .. } = self;
        let (mut kinds, mut one) = (model.key.kind as u8, true);
        let sums = of_packets(&mut keys[..], burst, least, |key, mbuf| match model.key(mbuf) {
            Some(same) => *key = same,
            None => {
                key.read_apart(mbuf.head(), mbuf.len(), (port, 0), seeds);
                kinds |= key.kind as u8;
                one &= key.tag == model.key.tag;
            }
        });
        (self.kinds, self.one) = (kinds, one);
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::CacheShared;
    use crate::limits::BURST;
    use crate::meter::{Budgets, Rates};
    use crate::packet::L4;
    use crate::packet::testing::{Spec, cut};
    use proptest::prelude::*;
    use std::sync::Arc;
    use vswitch_dpdk::Mempool;

    /// What a later packet of a burst is: the first one, with this done to it.
    #[derive(Clone, Debug)]
    enum Change {
        /// Another payload, of so many bytes, and another sequence number: the same key.
        Payload(usize, u32),
        /// So many bytes behind it.
        Padding(usize),
        /// A header of TCP with so many words of options.
        Options(usize),
        /// Another byte at some place.
        Byte(usize, u8),
        /// Fewer bytes.
        Length(usize),
        /// Two segments, the first of so many bytes.
        Cut(usize),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            4 => (0..60_usize, any::<u32>()).prop_map(|(len, seq)| Change::Payload(len, seq)),
            1 => (0..9_usize).prop_map(Change::Padding),
            1 => (0..=10_usize).prop_map(Change::Options),
            3 => (0..78_usize, any::<u8>()).prop_map(|(at, value)| Change::Byte(at, value)),
            1 => (14..100_usize).prop_map(Change::Length),
            1 => (1..160_usize).prop_map(Change::Cut),
        ]
    }

    fn packet(pool: &Mempool, spec: &Spec, change: &Change) -> Mbuf {
        let mut spec = spec.clone();
        match *change {
            Change::Payload(len, seq) => (spec.payload, spec.tcp_seq) = (vec![0xa5; len], seq),
            Change::Padding(len) => spec.padding = len,
            Change::Options(words) => spec.tcp_options = words,
            _ => {}
        }
        let mut bytes = spec.complete();
        match *change {
            Change::Byte(at, value) => {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            Change::Length(len) => bytes.truncate(len),
            _ => {}
        }
        cut(pool, &bytes, if let Change::Cut(first) = change { std::slice::from_ref(first) } else { &[] })
    }

    #[test]
    fn a_burst_has_the_keys_that_its_packets_have_one_by_one() {
        let pool = Mempool::for_tests(4 * BURST);
        let cache = Cache::new(Arc::new(CacheShared::default()), Arc::new(Budgets::new(Rates::default())));
        let cache = std::cell::RefCell::new(cache);
        let counts = std::cell::Cell::new((0_u32, 0_u32, 0_u32));
        let of = (any::<bool>(), prop_oneof![Just(L4::Tcp), Just(L4::Udp)], 0..3_usize, 0..40_usize, 0..6_usize);
        let changes = prop::collection::vec(change(), 0..BURST);
        proptest!(ProptestConfig::with_cases(4000), |((ipv4, l4, options, payload, odd) in of, changes in changes, calm: bool)| {
            let cache = &mut *cache.borrow_mut();
            let mut spec = Spec::plain(ipv4, l4, payload);
            spec.tcp_options = options;
            match odd {
                0 => spec.tags = vec![5],
                1 if ipv4 => spec.ip_options = 1,
                _ => {}
            }
            let same = |change: &&Change| !calm || matches!(change, Change::Payload(..));
            let mut burst = Burst::new();
            let first = Change::Payload(payload, 7);
            for change in std::iter::once(&first).chain(changes.iter().filter(same)) {
                let _ = burst.push(packet(&pool, &spec, change));
            }
            cache.one = false;
            let one_by_one = cache.prepare(&burst, PortId(3), 60, true);
            let (keys, kinds) = (*cache.keys, cache.kinds);
            // What an earlier burst left there does not matter.
            cache.keys.fill(Compact::default());
            cache.one = true;
            let at_once = cache.prepare(&burst, PortId(3), 60, true);
            let said = format!("{spec:?}, then {changes:?}");
            prop_assert_eq!(at_once, one_by_one, "bytes, and the longest: {}", said);
            prop_assert_eq!(cache.kinds, kinds, "{}", said);
            let (tried, all, some) = counts.get();
            let mut repeats = 0;
            for i in 0..burst.len() {
                let (a, b) = (&cache.keys[i], &keys[i]);
                let said_of = |key: &Compact| (key.kind, key.is_plain().then(|| (key.layers(), key.tag, key.hash)));
                prop_assert_eq!(said_of(a), said_of(b), "packet {} of {}", i, said);
                repeats += usize::from(b.tag == keys[0].tag && b.kind == keys[0].kind);
            }
            if cache.one {
                prop_assert_eq!(repeats, burst.len(), "{}", said);
            }
            counts.set((tried + 1, all + u32::from(cache.one), some + u32::from(!cache.one && repeats > 1)));
        });
        let (tried, all, some) = counts.get();
        assert!(
            all > tried / 4 && some > tried / 4,
            "of {tried} bursts {all} were of one key, {some} had some that are"
        );
    }
}
