//! A tuple as five words: how it is stored, compared and hashed.

use crate::{End, Family, Tuple};
use std::hash::BuildHasher;

#[cfg(not(loom))]
type Entropy = std::hash::RandomState;
/// A model must go the same way each time.
#[cfg(loom)]
type Entropy = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// A tuple: low and high half of the source address, of the destination address; source port,
/// destination port, zone, protocol and family from the top of the last word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Words([u64; 5]);

impl From<&Tuple> for Words {
    fn from(tuple: &Tuple) -> Self {
        let (src, dst) = (halves(tuple.src.addr), halves(tuple.dst.addr));
        let ports = u64::from(tuple.src.port) << 48 | u64::from(tuple.dst.port) << 32;
        let rest = u64::from(tuple.zone) << 16 | u64::from(tuple.protocol) << 8 | u64::from(tuple.family == Family::V6);
        Self([src[0], src[1], dst[0], dst[1], ports | rest])
    }
}

impl Words {
    pub(super) const fn new([a, b, c, d]: [u64; 4], rest: u64) -> Self {
        Self([a, b, c, d, rest])
    }

    /// What [`Self::narrow`] says, again with all the rest.
    pub(super) const fn of_narrow(addresses: u64, rest: u64) -> Self {
        Self([addresses >> 32, 0, addresses & 0xffff_ffff, 0, rest])
    }

    /// Both addresses, of IPv4: the source's in the upper half. None: they do not fit.
    #[inline]
    pub(super) const fn narrow(&self) -> Option<u64> {
        let [src, src_high, dst, dst_high, rest] = self.0;
        let is_v6 = (src | dst) >> 32 | src_high | dst_high | rest & 1;
        if is_v6 == 0 { Some(src << 32 | dst) } else { None }
    }

    pub(super) const fn addresses(&self) -> [u64; 4] {
        let [a, b, c, d, _] = self.0;
        [a, b, c, d]
    }

    /// The last word. Bits 1 to 7 of it are 0.
    #[inline]
    pub(super) const fn rest(&self) -> u64 {
        self.0[4]
    }

    pub(super) fn tuple(&self) -> Tuple {
        let [a, b, c, d, rest] = self.0;
        Tuple {
            src: End { addr: whole([a, b]), port: low16(rest >> 48) },
            dst: End { addr: whole([c, d]), port: low16(rest >> 32) },
            family: if rest & 1 == 0 { Family::V4 } else { Family::V6 },
            protocol: low16(rest >> 8 & 0xff).to_le_bytes()[0],
            zone: self.zone(),
        }
    }

    /// One of its 320 bits is another one.
    #[cfg(test)]
    pub(super) const fn flipped(mut self, bit: usize) -> Self {
        self.0[bit / 64] ^= 1 << (bit % 64);
        self
    }

    /// All of it; none of what no tuple has.
    pub(super) const fn checked([a, b, c, d, rest]: [u64; 5]) -> Option<Self> {
        let words = Self([a, b, c, d, rest]);
        let fits = rest & 1 != 0 || words.narrow().is_some();
        if rest & 0xfe == 0 && fits { Some(words) } else { None }
    }

    pub(super) const fn words(&self) -> [u64; 5] {
        self.0
    }

    pub(super) const fn zone(&self) -> u16 {
        low16(self.0[4] >> 16)
    }
}

/// Low and high half of what is too wide for a word.
#[expect(clippy::cast_possible_truncation, reason = "the low half is what is meant")]
pub(super) const fn halves(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

/// A value of 128 bits from its low and its high half.
pub(super) const fn whole(halves: [u64; 2]) -> u128 {
    (halves[1] as u128) << 64 | halves[0] as u128
}

/// High and low half.
#[expect(clippy::cast_possible_truncation, reason = "each half is what is meant")]
pub(super) const fn halves32(word: u64) -> [u32; 2] {
    [(word >> 32) as u32, word as u32]
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits are what is meant")]
pub(super) const fn low16(word: u64) -> u16 {
    word as u16
}

/// The bit of a hash that differs when the ends are exchanged.
pub(super) const SIDE: u64 = 1;

/// The key of the hash, drawn from the system's entropy at start: whoever does not know it cannot
/// make tuples collide.
#[derive(Debug)]
pub(super) struct Hasher {
    key: [u64; 6],
    choice: [u64; 6],
}

impl Hasher {
    pub(super) fn random() -> Self {
        let source = Entropy::default();
        let key = std::array::from_fn(|i| source.hash_one(i));
        let choice = std::array::from_fn(|i| source.hash_one(i + 6));
        Self { key, choice }
    }

    #[inline]
    pub(super) fn hash(&self, words: &Words) -> u64 {
        hash(&self.key, words)
    }

    /// Where among the tuples that a connection may be translated to the search begins: by a key of
    /// its own, as everybody can see the outcome.
    pub(super) fn choice(&self, words: &Words) -> u64 {
        hash(&self.choice, words)
    }
}

/// Products of keyed pairs, folded (as wyhash does): for two tuples that were chosen without
/// knowing the key, the chance to collide is about that of 64 random bits; of 36, if their ends
/// were chosen to cancel out. What collides is compared; that more of them meet than two buckets
/// have room for is far off (`index`).
///
/// A tuple and the one with its ends exchanged have the same hash but for [`SIDE`]: so what a new
/// connection enters lies in lines that are neighbours. Which of them is whose hangs on the whole
/// tuple: were it only for which end is the greater one, most connections of one Service would be
/// on the same side, and the index full there while it is half empty elsewhere.
#[inline]
fn hash(key: &[u64; 6], words: &Words) -> u64 {
    let [src_low, src_high, dst_low, dst_high, rest] = &words.0;
    let end = |low: &u64, high: &u64, port: u64| fold(fold(low ^ key[0], high ^ key[1]) ^ key[2], port ^ key[3]);
    let (src, dst) = (end(src_low, src_high, rest >> 48), end(dst_low, dst_high, rest >> 32 & 0xffff));
    let both = fold(src.wrapping_add(dst) ^ key[4], rest & 0xffff_ffff ^ key[5]);
    both ^ u64::from(src < dst)
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let [low, high] = halves(u128::from(a) * u128::from(b));
    low ^ high
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_tuple_survives_being_words(src: (u128, u16), dst: (u128, u16), v6: bool, protocol: u8, zone: u16) {
            let tuple = Tuple {
                src: End { addr: src.0, port: src.1 },
                dst: End { addr: dst.0, port: dst.1 },
                family: if v6 { Family::V6 } else { Family::V4 },
                protocol,
                zone,
            };
            prop_assert_eq!(Words::from(&tuple).tuple(), tuple);
            prop_assert_eq!(Words::from(&tuple).zone(), zone);
            let words = Words::from(&tuple);
            prop_assert_eq!(words.narrow().map_or(words, |addresses| Words::of_narrow(addresses, words.rest())), words);
            prop_assert_eq!(Words::new(words.addresses(), words.rest()), words);
        }
    }

    #[test]
    fn every_bit_of_a_tuple_changes_about_half_of_the_hash() {
        let hasher = Hasher::random();
        let base = Words([0x0a00_0001, 0, 0x0a00_0002, 0, 0x03e8_0050_0001_0600]);
        let mut flips = 0;
        for bit in 0..320 {
            let changed = (hasher.hash(&base) ^ hasher.hash(&base.flipped(bit))).count_ones();
            assert!((8..=56).contains(&changed), "bit {bit} changes {changed} bits of the hash");
            flips += changed;
        }
        assert!((28..=36).contains(&(flips / 320)), "{flips} flips in all");
    }
}
