//! Which prefixes of a field the entries of a table have. A walk tells, for a packet, the lengths
//! of all prefixes that fit it and how many of its leading bits that depends on.
//!
//! A path-compressed binary trie (as in Open vSwitch), persistent: a change copies the nodes on its
//! path where they are shared.

use crate::{Field, FlowMask};
use std::sync::Arc;

/// The fields that have a trie: those whose masks are prefixes in practice. Destinations come
/// first, as in Open vSwitch: where either tells that a packet fits nothing, all tables use the
/// same field.
pub(super) const FIELDS: [Field; 6] =
    [Field::NwDst, Field::NwSrc, Field::Ipv6Dst, Field::Ipv6Src, Field::TpDst, Field::TpSrc];

/// Leading ones of a field's mask: every packet that fits has the value's first bits.
#[allow(clippy::cast_possible_truncation)] // at most 128
pub(super) fn prefix_len(mask: &FlowMask, field: Field) -> u8 {
    aligned(mask.get(field), field).leading_ones() as u8
}

/// A field's value, its first bit at the top.
pub(super) fn aligned(value: u128, field: Field) -> u128 {
    value << (128 - field.width())
}

/// The first bits of a field.
pub(super) fn first_bits(field: Field, len: u8) -> u128 {
    top(len) >> (128 - field.width())
}

fn top(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

#[derive(Clone, Debug)]
struct Node {
    /// Its first `len` bits matter, the others are 0.
    prefix: u128,
    len: u8,
    /// How often it was added. 0: only a fork, then there are two children.
    count: u32,
    children: [Option<Arc<Node>>; 2],
}

/// The prefixes of a field, with counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Trie {
    root: Option<Arc<Node>>,
}

/// What a walk found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    /// Bit `n - 1`: a prefix of `n` bits fits.
    fitting: u128,
    /// All values with the same first bits have the same result.
    pub(super) bits: u8,
}

impl Walk {
    /// Whether a prefix of this length fits.
    pub(super) fn fits(&self, len: u8) -> bool {
        self.fitting >> (len - 1) & 1 != 0
    }
}

fn bit(value: u128, at: u8) -> usize {
    usize::from(value >> (127 - at) & 1 != 0)
}

/// Bits that are equal from the top, `limit` at most.
#[allow(clippy::cast_possible_truncation)] // at most 128
fn common(a: u128, b: u128, limit: u8) -> u8 {
    limit.min((a ^ b).leading_zeros() as u8)
}

impl Trie {
    /// Looks up a value (aligned).
    pub(super) fn walk(&self, value: u128) -> Walk {
        let mut walk = Walk::default();
        let mut next = &self.root;
        while let Some(node) = next {
            let same = common(value, node.prefix, node.len);
            if same < node.len {
                walk.bits = same + 1;
                return walk;
            }
            if node.count != 0 {
                walk.fitting |= 1 << (node.len - 1);
            }
            // Whether there is a child depends on the bit after the prefix, if there is one on the
            // other side.
            walk.bits = node.len + u8::from(node.children.iter().any(Option::is_some));
            if node.len == 128 {
                return walk;
            }
            next = &node.children[bit(value, node.len)];
        }
        walk
    }

    /// Adds a prefix of at least one bit.
    pub(super) fn insert(&mut self, value: u128, len: u8) {
        let prefix = value & top(len);
        let mut next = &mut self.root;
        loop {
            let Some(arc) = next else {
                *next = Some(Arc::new(Node { prefix, len, count: 1, children: [None, None] }));
                return;
            };
            let same = common(prefix, arc.prefix, len.min(arc.len));
            if same < arc.len {
                let mut fork = Node { prefix: prefix & top(same), len: same, count: 0, children: [None, None] };
                fork.children[bit(arc.prefix, same)] = Some(Arc::clone(arc));
                if same == len {
                    fork.count = 1;
                } else {
                    fork.children[bit(prefix, same)] =
                        Some(Arc::new(Node { prefix, len, count: 1, children: [None, None] }));
                }
                *arc = Arc::new(fork);
                return;
            }
            let node = Arc::make_mut(arc);
            if node.len == len {
                node.count += 1;
                return;
            }
            next = &mut node.children[bit(prefix, node.len)];
        }
    }

    /// Takes away a prefix that was added.
    pub(super) fn remove(&mut self, value: u128, len: u8) {
        remove(&mut self.root, value & top(len), len);
    }
}

/// At most as deep as a prefix is long.
fn remove(next: &mut Option<Arc<Node>>, prefix: u128, len: u8) {
    let Some(arc) = next else { return };
    if arc.len > len || common(prefix, arc.prefix, arc.len) < arc.len {
        return;
    }
    let node = Arc::make_mut(arc);
    if node.len == len {
        node.count = node.count.saturating_sub(1);
    } else {
        let at = bit(prefix, node.len);
        remove(&mut node.children[at], prefix, len);
    }
    if node.count == 0 {
        match &mut node.children {
            [Some(_), Some(_)] => {}
            [only @ Some(_), None] | [None, only] => *next = only.take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(prefixes: &[(u128, u8)], value: u128) -> u128 {
        let fitting = prefixes.iter().filter(|(p, len)| (p ^ value) & top(*len) == 0);
        fitting.fold(0, |all, (_, len)| all | 1 << (len - 1))
    }

    fn nodes(node: &Option<Arc<Node>>) -> usize {
        node.as_ref().map_or(0, |n| {
            assert!(n.count > 0 || n.children.iter().all(Option::is_some), "a node that is neither prefix nor fork");
            1 + nodes(&n.children[0]) + nodes(&n.children[1])
        })
    }

    fn prefix() -> impl Strategy<Value = (u128, u8)> {
        // Few bits, at both ends, so that prefixes nest.
        let value = (0u128..64, 0u128..4).prop_map(|(high, low)| high << 122 | low);
        (value, prop_oneof![1u8..8, Just(126), Just(127), Just(128)])
    }

    proptest! {
        #[test]
        fn walks_tell_all_lengths_and_the_bits_they_depend_on(
            added in prop::collection::vec(prefix(), 0..40),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
            values in prop::collection::vec((prefix(), any::<u128>()), 1..20),
        ) {
            let (mut trie, mut left) = (Trie::default(), Vec::new());
            for (value, len) in added {
                trie.insert(value, len);
                left.push((value, len));
            }
            let (before, all) = (trie.clone(), left.clone());
            for index in removed {
                if !left.is_empty() {
                    let (value, len) = left.swap_remove(index.index(left.len()));
                    trie.remove(value, len);
                }
            }
            prop_assert!(nodes(&trie.root) <= 2 * left.len());
            for ((value, _), other) in values {
                let walk = trie.walk(value);
                prop_assert_eq!(walk.fitting, naive(&left, value), "of {:x}", value);
                let other = value & top(walk.bits) | other & !top(walk.bits);
                prop_assert_eq!(walk.fitting, naive(&left, other), "{:x} and {:x} agree on {} bits", value, other, walk.bits);
                prop_assert_eq!(before.walk(value).fitting, naive(&all, value), "of {:x} in the older state", value);
            }
        }
    }

    #[test]
    fn an_empty_trie_and_a_lone_prefix_cost_little() {
        let mut trie = Trie::default();
        assert_eq!(trie.walk(7).bits, 0);
        trie.insert(0x0a << 120, 24);
        assert_eq!(trie.walk(0x0a00_0001 << 96).bits, 24, "fits: no bit beyond the prefix");
        assert_eq!(trie.walk(0x8a << 120).bits, 1, "differs in the first bit");
        trie.remove(0x0a << 120, 24);
        assert!(trie.root.is_none());
    }
}
