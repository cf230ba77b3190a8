//! What a rule matches.

use crate::{Field, FlowKey, FlowMask};

/// Values and masks of the words that matter, in order of the words. Equal matches are equal values: bits of a value outside its
/// mask are 0, and words without mask bits are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SparseMatch {
    map: u64,
    /// Per set bit of `map`, from the lowest: value, mask.
    words: Box<[(u64, u64)]>,
}

impl SparseMatch {
    /// Of a key and a mask. Bits of the key outside the mask do not matter.
    #[must_use]
    pub fn new(key: &FlowKey, mask: &FlowMask) -> Self {
        let map = mask.map();
        // Reserved at once: many thousands of matches are made when an agent loads its flows.
        let mut words = Vec::with_capacity(map.count_ones() as usize);
        let mut rest = map;
        while rest != 0 {
            let i = rest.trailing_zeros() as usize;
            words.push((key.0[i] & mask.0[i], mask.0[i]));
            rest &= rest - 1;
        }
        Self { map, words: words.into_boxed_slice() }
    }

    /// Whether a packet fits.
    #[inline]
    #[must_use]
    pub fn matches(&self, key: &FlowKey) -> bool {
        self.iter().all(|(i, value, mask)| key.0[i] & mask == value)
    }

    /// Index, value and mask of every word that matters.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        let mut map = self.map;
        self.words.iter().map(move |(value, mask)| {
            let i = map.trailing_zeros() as usize;
            map &= map - 1;
            (i, *value, *mask)
        })
    }

    /// Which words matter: bit `i` for word `i`.
    #[inline]
    #[must_use]
    pub const fn map(&self) -> u64 {
        self.map
    }

    /// Value and mask of a field.
    #[must_use]
    pub fn get(&self, field: Field) -> (u128, u128) {
        let (key, mask) = self.expand();
        (key.get(field), mask.get(field))
    }

    /// As a full key and mask.
    #[must_use]
    pub fn expand(&self) -> (FlowKey, FlowMask) {
        let (mut key, mut mask) = (FlowKey::default(), FlowMask::default());
        for (i, value, bits) in self.iter() {
            key.0[i] = value;
            mask.0[i] = bits;
        }
        (key, mask)
    }

    /// Adds the bits that matter to a mask.
    #[inline]
    pub fn add_to(&self, mask: &mut FlowMask) {
        for (i, _, bits) in self.iter() {
            mask.0[i] |= bits;
        }
    }

    /// Whether every packet that fits `self` also fits `other` (loose matching of ovs-ofctl(8): `other` is the filter).
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let (key, mask) = self.expand();
        other.iter().all(|(i, value, bits)| mask.0[i] & bits == bits && key.0[i] & bits == value)
    }

    /// Whether some packet fits both (check_overlap).
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let (key, mask) = self.expand();
        other.iter().all(|(i, value, bits)| (key.0[i] ^ value) & mask.0[i] & bits == 0)
    }
}
