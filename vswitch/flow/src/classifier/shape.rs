//! What entries of one subtable have in common: the mask. In the order in which a lookup uses its
//! words, with its prefixes.

use super::trie::{FIELDS, prefix_len};
use crate::{FlowKey, FlowMask, SparseMatch};

/// The words of each stage. `conj_id` (no packet bit, and 0 in the first lookup of every packet)
/// comes first: a miss there costs nothing. Then what packets have in common most: metadata and
/// tunnel, L2, L3, L4. Addresses and ports of connections are in the stages of those of packets: a
/// packet whose `ct_state` no rule has must not have a decision for each address.
const STAGES: [u64; 5] = {
    let (conj, tuple) = (bits(26, 27), bits(19, 24));
    let metadata = (bits(0, 28) | bits(43, 59)) & !conj & !tuple;
    [
        conj,
        metadata,
        bits(28, 31),
        tuple | bits(31, 37) | bits(38, 42),
        bits(CT_PORTS, CT_PORTS + 1) | bits(37, 38) | bits(42, 43),
    ]
};

/// The word of which one half, zone and protocol of a connection, is metadata. Its ports, in the
/// other half, are L4.
const CT_PORTS: u32 = 24;

const fn bits(from: u32, to: u32) -> u64 {
    (1 << to) - (1 << from)
}

/// The bits of a word that belong to a stage.
const fn share(stage: usize, word: u8) -> u64 {
    let half = u32::MAX as u64;
    match (word as u32 == CT_PORTS, stage == STAGES.len() - 1) {
        (false, _) => u64::MAX,
        (true, false) => half,
        (true, true) => !half,
    }
}

// All words.
const _: () =
    assert!((STAGES[0] | STAGES[1] | STAGES[2] | STAGES[3] | STAGES[4]).count_ones() as usize == crate::WORDS);

/// A check that a prefix of some length is among those of the table: which trie, what length, in
/// which step.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrefixCheck {
    /// Index in [`FIELDS`].
    pub(super) trie: usize,
    /// Bits, at least 1.
    pub(super) len: u8,
    step: usize,
}

/// Words that values hold in place: a probe then needs no further cache line.
const INLINE: usize = 4;

/// The values of a match, in the order of its shape's words.
#[derive(Clone, Debug)]
pub(super) struct Values {
    first: [u64; INLINE],
    more: Box<[u64]>,
}

/// A mask, ready to use.
#[derive(Debug)]
pub(super) struct Shape {
    mask: FlowMask,
    /// Its words.
    map: u64,
    /// Index and bits of each word, by stage. One word may be in two.
    words: Box<[(u8, u64)]>,
    /// Per stage that has words: the end of its words in `words`.
    ends: Box<[usize]>,
    /// By step.
    prefixes: Box<[PrefixCheck]>,
}

impl Shape {
    pub(super) fn new(mask: &FlowMask) -> Self {
        let (mut words, mut ends, mut prefixes) = (Vec::new(), Vec::new(), Vec::new());
        let map = mask.map();
        for (number, stage) in STAGES.iter().enumerate() {
            let own = (0u8..64).filter(|i| stage & map & 1 << i != 0);
            let own = own.map(|i| (i, mask.0[usize::from(i)] & share(number, i))).filter(|(_, bits)| *bits != 0);
            let start = words.len();
            words.extend(own);
            if words.len() == start {
                continue;
            }
            for (trie, field) in FIELDS.iter().enumerate().filter(|(_, f)| stage & 1 << f.location().word != 0) {
                let len = prefix_len(mask, *field);
                if len != 0 {
                    prefixes.push(PrefixCheck { trie, len, step: ends.len() });
                }
            }
            ends.push(words.len());
        }
        Self { mask: mask.clone(), map, words: words.into(), ends: ends.into(), prefixes: prefixes.into() }
    }

    /// Whether a match has this mask.
    pub(super) fn is_mask_of(&self, matching: &SparseMatch) -> bool {
        self.map == matching.map() && matching.iter().all(|(i, _, bits)| self.mask.0[i] == bits)
    }

    /// Number of steps in which a key is hashed. None: it matches everything.
    pub(super) fn steps(&self) -> usize {
        self.ends.len()
    }

    /// All prefixes.
    pub(super) fn prefixes(&self) -> &[PrefixCheck] {
        &self.prefixes
    }

    /// The prefixes in the words of a step.
    pub(super) fn prefixes_of(&self, step: usize) -> impl Iterator<Item = &PrefixCheck> {
        self.prefixes.iter().filter(move |check| check.step == step)
    }

    fn step(&self, step: usize) -> &[(u8, u64)] {
        let start = if step == 0 { 0 } else { self.ends[step - 1] };
        &self.words[start..self.ends[step]]
    }

    /// The hash of a key's words up to and including a step, from the hash of the step before.
    #[inline]
    pub(super) fn hash_step(&self, step: usize, hash: u64, key: &FlowKey) -> u64 {
        self.step(step).iter().fold(hash, |hash, (i, bits)| fold(hash ^ (key.0[usize::from(*i)] & bits)))
    }

    /// The hash of all of a key's words.
    pub(super) fn hash(&self, seed: u64, key: &FlowKey) -> u64 {
        (0..self.steps()).fold(seed, |hash, step| self.hash_step(step, hash, key))
    }

    /// What matters of a key: its words under the mask.
    pub(super) fn values(&self, key: &FlowKey) -> Values {
        let mut words = self.words.iter().map(|(i, bits)| key.0[usize::from(*i)] & bits);
        Values { first: std::array::from_fn(|_| words.next().unwrap_or_default()), more: words.collect() }
    }

    /// Whether a key has these values.
    #[inline]
    pub(super) fn matches(&self, values: &Values, key: &FlowKey) -> bool {
        let has = |((i, bits), value): (&(u8, u64), &u64)| key.0[usize::from(*i)] & bits == *value;
        self.words.iter().zip(&values.first).all(has)
            && (values.more.is_empty() || self.words.iter().skip(INLINE).zip(&values.more).all(has))
    }

    /// Adds all its bits.
    #[inline]
    pub(super) fn add_all(&self, used: &mut FlowMask) {
        for (i, bits) in &self.words {
            used.0[usize::from(*i)] |= bits;
        }
    }

    /// Adds the bits of all steps up to and including this one.
    pub(super) fn add_steps(&self, step: usize, used: &mut FlowMask) {
        for (i, bits) in &self.words[..self.ends[step]] {
            used.0[usize::from(*i)] |= bits;
        }
    }

    /// Adds enough bits to tell that a key does not have these values: none if bits that are used
    /// already tell, else the field of the first difference (of an address or a port, its bits down
    /// to the first that differs). Not just one bit: masks of cached flows would be as many as
    /// packets.
    pub(super) fn add_difference(&self, values: &Values, key: &FlowKey, used: &mut FlowMask) {
        let mut first = None;
        for ((i, bits), value) in self.words.iter().zip(values.first.iter().chain(&values.more)) {
            let word = usize::from(*i);
            let difference = (key.0[word] & bits) ^ value;
            if difference & used.0[word] != 0 {
                return;
            }
            if difference != 0 && first.is_none() {
                first = Some((word, *bits, difference));
            }
        }
        if let Some((word, bits, difference)) = first {
            used.0[word] |= bits & telling_bits(word, difference);
        }
    }
}

/// The bits of a word that [`Shape::add_difference`] adds.
fn telling_bits(word: usize, difference: u64) -> u64 {
    let top = u64::MAX << (63 - difference.leading_zeros());
    match word {
        // Two fields of 32 bits, or one of 64.
        1..=8 | 10 | 19 | 25 | 26 | 27 | 42 => part(difference, &[u64::MAX << 32]),
        16 => part(difference, &[u64::MAX << 32, 0xffff_0000]),
        24 => part(difference, &[0xffff, 0xff << 24, 0xffff << 32]),
        28 | 29 | 38 => part(difference, &[0xffff, u64::MAX << 16]),
        30 => part(difference, &[0xffff << 48, 0xffff << 32, 0xffff << 16]),
        31 => top & part(difference, &[u64::MAX << 32]),
        32..=35 => top,
        36 => part(difference, &[0xff, 0xff00, 0xff << 16, 0xff << 24]),
        37 => {
            let part = part(difference, &[0xffff << 48, 0xffff << 32]);
            if part > u64::from(u32::MAX) { part & top } else { part }
        }
        _ => u64::MAX,
    }
}

/// The first of these parts that has a difference, or what is left.
fn part(difference: u64, parts: &[u64]) -> u64 {
    let found = parts.iter().find(|part| *part & difference != 0);
    found.copied().unwrap_or_else(|| !parts.iter().fold(0, |all, part| all | part))
}

/// A step of hashing: as `foldhash` does it.
#[inline]
#[allow(clippy::cast_possible_truncation)] // halves of 128 bits
pub(super) const fn fold(value: u64) -> u64 {
    let product = value as u128 * 0x9e37_79b9_7f4a_7c15_u128;
    product as u64 ^ (product >> 64) as u64
}
