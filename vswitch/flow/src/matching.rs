//! What a rule matches.

use crate::{Field, FlowKey, FlowMask};

/// Values and masks of the words that matter, in order of the words. Equal matches are equal
/// values: bits of a value outside its mask are 0, and words without mask bits are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SparseMatch {
    map: u64,
    /// Per set bit of `map`, from the lowest: value, mask.
    words: Box<[(u64, u64)]>,
}

impl SparseMatch {
    /// Bytes that it takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.words)
    }

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

    /// Whether every packet that fits `self` also fits `other` (loose matching of ovs-ofctl(8):
    /// `other` is the filter).
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{NoNames, parse_key, parse_match};

    fn matching(text: &str) -> SparseMatch {
        parse_match(text, &NoNames).unwrap().value
    }

    #[test]
    fn packets_fit_or_not() {
        let packet = parse_key("tcp,in_port=1,nw_src=10.0.0.1,tp_dst=80,reg0=5", &NoNames).unwrap();
        for (text, fits) in [
            ("", true),
            ("tcp", true),
            ("tcp,nw_src=10.0.0.0/8,tp_dst=80,in_port=1,reg0=1/1", true),
            ("udp", false),
            ("tcp,tp_dst=81", false),
            ("reg0=2/2", false),
            ("vlan_tci=0", true),
            ("ct_state=-trk", true),
        ] {
            assert_eq!(matching(text).matches(&packet), fits, "{text}");
        }
    }

    #[test]
    fn equal_matches_are_equal_values() {
        assert_eq!(matching("tcp,reg0=5/1"), matching("reg0=1/1,ip,nw_proto=6"));
        assert_ne!(matching("reg0=0"), matching(""));
        let (key, mask) = matching("tcp,nw_src=10.0.0.0/8").expand();
        let dirty = FlowKey(std::array::from_fn(|i| key.0[i] | !mask.0[i]));
        assert_eq!(SparseMatch::new(&dirty, &mask), matching("tcp,nw_src=10.0.0.0/8"));
        assert_eq!(matching("reg1=3/7").get(Field::Reg1), (3, 7));
        assert_eq!(matching("reg1=3/7").map(), 1 << 1);
        let mut used = FlowMask::default();
        matching("reg1=3/7").add_to(&mut used);
        assert_eq!((used.get(Field::Reg1), used.map()), (7, 1 << 1));
    }

    #[test]
    fn within_and_overlapping() {
        // Whether the first is within the second, and whether they overlap.
        for (a, b, within, overlap) in [
            ("tcp", "", true, true),
            ("", "tcp", false, true),
            ("tcp,tp_dst=80", "tcp", true, true),
            ("tcp", "udp", false, false),
            ("ip,nw_src=10.1.0.0/16", "ip,nw_src=10.0.0.0/8", true, true),
            ("ip,nw_src=10.0.0.0/8", "ip,nw_src=10.1.0.0/16", false, true),
            ("ip,nw_src=11.0.0.0/8", "ip,nw_src=10.1.0.0/16", false, false),
            ("reg0=1/1", "reg0=2/2", false, true),
            ("reg0=3", "reg0=1/1", true, true),
        ] {
            let (first, second) = (matching(a), matching(b));
            assert_eq!(first.is_within(&second), within, "{a} within {b}");
            assert_eq!((first.overlaps(&second), second.overlaps(&first)), (overlap, overlap), "{a}, {b}");
            assert!(first.is_within(&first) && first.overlaps(&first));
        }
    }
}
