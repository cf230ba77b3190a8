//! The Internet checksum (RFC 1071) over slices and over packets of many segments, and its
//! incremental update (RFC 1624).

use vswitch_dpdk::{Mbuf, sum_of_some};

/// A ones' complement sum under way. Bytes are added in order; a piece may have odd length, the
/// next one then continues in the middle of a 16-bit word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Words in memory order: the sum of swapped words is the swapped sum (RFC 1071, 2.B), so only
    /// the end converts.
    words: u64,
    odd: bool,
}

impl Sum {
    /// Nothing summed yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: 0, odd: false }
    }

    /// The sum over some bytes.
    #[must_use]
    #[inline]
    pub fn of(bytes: &[u8]) -> Self {
        Self::new().bytes(bytes)
    }

    /// [`Sum::of`], of so many bytes that the loop is none. An even number.
    #[must_use]
    #[inline(always)] // so many additions
    pub fn of_words<const N: usize>(bytes: &[u8; N]) -> Self {
        const { assert!(N.is_multiple_of(2)) };
        Self { words: short_sum(bytes), odd: false }
    }

    /// The sum over 16 to 32 bytes and two 16-bit words, given in host byte order; none of fewer
    /// bytes or more.
    #[must_use]
    #[inline(always)] // some vectors, no call
    pub fn of_some(bytes: &[u8], [a, b]: [u16; 2]) -> Option<Self> {
        // No carry: of 48 bits each at most.
        let words = sum_of_some(bytes)? + u64::from(a.to_be()) + u64::from(b.to_be());
        Some(Self { words, odd: bytes.len() % 2 == 1 })
    }

    /// The sum over the bytes `from..to` of a packet, whatever its segments; none when the packet
    /// is shorter.
    #[must_use]
    pub fn of_mbuf(mbuf: &Mbuf, from: usize, to: usize) -> Option<Self> {
        let mut sum = Self::new();
        let len = to.checked_sub(from).filter(|_| to <= mbuf.len())?;
        mbuf.visit(from, len, |piece| sum = sum.bytes(piece)).then_some(sum)
    }

    /// Adds bytes behind those already added.
    #[must_use]
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let piece = memory_order_sum(bytes);
        // Every byte of a piece that starts in the middle of a word counts for the other half of
        // its word.
        let piece = if self.odd { u64::from(fold(piece).swap_bytes()) } else { piece };
        Self { words: add(self.words, piece), odd: self.odd ^ (bytes.len() % 2 == 1) }
    }

    /// Adds one 16-bit word, given in host byte order. The bytes added so far must be even in
    /// number.
    #[must_use]
    #[inline]
    pub fn word(self, word: u16) -> Self {
        debug_assert!(!self.odd, "a word in the middle of another one");
        Self { words: add(self.words, u64::from(word.to_be())), odd: self.odd }
    }

    /// [`Self::word`], of two.
    #[must_use]
    #[inline]
    pub fn two_words(self, [a, b]: [u16; 2]) -> Self {
        debug_assert!(!self.odd, "words in the middle of another one");
        Self { words: add(self.words, u64::from(a.to_be()) + u64::from(b.to_be())), odd: self.odd }
    }

    /// Subtracts one 16-bit word, given in host byte order.
    #[must_use]
    #[inline]
    pub fn minus_word(self, word: u16) -> Self {
        self.word(!word)
    }

    /// The folded sum, host byte order: what the checksum field of a packet with a partial checksum
    /// holds (over its pseudo-header).
    #[must_use]
    #[inline]
    pub fn folded(self) -> u16 {
        u16::from_be(fold(self.words))
    }

    /// Whether these are the bytes of something that includes its checksum, and all of it is right:
    /// the folded sum is 0xffff, which is to say that the sum is a multiple of that, and not 0.
    #[must_use]
    #[inline]
    pub const fn is_right(self) -> bool {
        // A multiplication tells, sooner than folding does (Granlund and Montgomery, "Division by
        // Invariant Integers using Multiplication", section 9). 65535 times this is 2^64 - 1, which
        // is -1: its negative is the inverse of 65535, and it is the most multiples that there are.
        const MOST: u64 = 0x0001_0001_0001_0001;
        // n times 65535 becomes n, from 1 to MOST; what is no multiple becomes more; and 0 stays 0,
        // from which 1 is taken.
        self.words.wrapping_mul(MOST.wrapping_neg()).wrapping_sub(1) < MOST
    }

    /// Adds some bytes, which are likely to be few.
    #[must_use]
    #[inline(always)] // a loop over some words, no call
    pub fn few_bytes(self, bytes: &[u8]) -> Self {
        if bytes.len() > SHORT || self.odd {
            return self.bytes(bytes);
        }
        let piece = sum_of_some(bytes).unwrap_or_else(|| short_sum(bytes));
        Self { words: add(self.words, piece), odd: bytes.len() % 2 == 1 }
    }

    /// The checksum: the complement of the folded sum, host byte order.
    #[must_use]
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// Adds with the carry brought around.
#[inline]
fn add(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

/// Bytes up to which summing is a matter of some words: headers, and the smallest packets.
const SHORT: usize = 64;

#[inline(always)] // of a header: so many additions
fn memory_order_sum(bytes: &[u8]) -> u64 {
    if bytes.len() <= SHORT { short_sum(bytes) } else { long_sum(bytes) }
}

#[inline(always)]
fn short_sum(bytes: &[u8]) -> u64 {
    let (mut sum, mut carries) = (0_u64, 0_u64);
    let (mut words, rest) = bytes.as_chunks::<8>();
    // As many as a header of TCP has are no loop.
    if let [first, second, others @ ..] = words {
        let (next, carry) = u64::from_ne_bytes(*first).overflowing_add(u64::from_ne_bytes(*second));
        (sum, carries, words) = (next, u64::from(carry), others);
    }
    for word in words {
        let (next, carry) = sum.overflowing_add(u64::from_ne_bytes(*word));
        (sum, carries) = (next, carries + u64::from(carry));
    }
    carries += match bytes.last_chunk::<8>() {
        // The last word that there is, without those of its bytes that were added: in two steps, as
        // that may be all of them.
        Some(last) => in_memory_order((u64::from_le_bytes(*last) >> 8) >> (56 - 8 * rest.len())),
        None => less_than_a_word(rest),
    };
    add(sum, carries)
}

/// As if its bytes, first to last, had been read as a word.
#[inline(always)]
const fn in_memory_order(word: u64) -> u64 {
    u64::from_ne_bytes(word.to_le_bytes())
}

#[inline(always)]
fn less_than_a_word(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum = words.first().map_or(0, |word| u64::from(u32::from_ne_bytes(*word)));
    let (words, rest) = rest.as_chunks::<2>();
    sum += words.first().map_or(0, |word| u64::from(u16::from_ne_bytes(*word)));
    sum + rest.first().map_or(0, |byte| u64::from(u16::from_ne_bytes([*byte, 0])))
}

#[inline(never)] // a loop in vectors
fn long_sum(bytes: &[u8]) -> u64 {
    let mut sum = 0_u64;
    let (words, rest) = bytes.as_chunks::<4>();
    // No carry is lost: 2^32 words of 32 bits fit, more than any packet has. The loop vectorises.
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_ne_bytes(last))
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // halves
const fn fold(sum: u64) -> u16 {
    // The carry goes where nothing is left: whoever carries is one below the most, or less.
    let (sum, carry) = (sum as u32).overflowing_add((sum >> 32) as u32);
    let sum = sum + carry as u32;
    let (sum, carry) = (sum as u16).overflowing_add((sum >> 16) as u16);
    sum + carry as u16
}

/// The sum over the IPv4 pseudo-header (RFC 9293, 3.1); `len` is the length of the L4 header and
/// its payload, in bytes.
#[must_use]
pub fn pseudo_v4(source: [u8; 4], destination: [u8; 4], protocol: u8, len: u16) -> Sum {
    Sum::of(&source).bytes(&destination).word(protocol.into()).word(len)
}

/// The sum over the IPv6 pseudo-header (RFC 8200, 8.1); `len` is the length of the L4 header and
/// its payload, in bytes, `destination` the final one where a routing header names it.
#[must_use]
pub fn pseudo_v6(source: &[u8; 16], destination: &[u8; 16], protocol: u8, len: u32) -> Sum {
    Sum::of(source).bytes(destination).bytes(&len.to_be_bytes()).word(protocol.into())
}

/// What a checksum becomes when the 16-bit word `old` under it becomes `new` (RFC 1624, equation
/// 3), host byte order.
#[must_use]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::new().word(!checksum).minus_word(old).word(new).checksum()
}

/// [`update`] for a run of bytes that starts at an even offset (an address): `old` and `new` have
/// the same, even length.
#[must_use]
pub fn update_bytes(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    debug_assert!(old.len() == new.len() && old.len().is_multiple_of(2), "{} and {} bytes", old.len(), new.len());
    Sum::new().word(!checksum).minus_word(Sum::of(old).folded()).bytes(new).checksum()
}

/// Finishes a partial checksum: sums `start..end` (the field at `field` in it holds the
/// pseudo-header sum) and writes the result; with `no_zero` a result of 0 is written as 0xffff, as
/// UDP asks (RFC 768). False, and nothing is written, when the packet is shorter.
pub fn finish(mbuf: &mut Mbuf, start: usize, field: usize, end: usize, no_zero: bool) -> bool {
    let inside = field.checked_add(2).is_some_and(|behind| behind <= mbuf.len());
    let Some(sum) = Sum::of_mbuf(mbuf, start, end).filter(|_| inside) else { return false };
    let checksum = match sum.checksum() {
        0 if no_zero => 0xffff,
        checksum => checksum,
    };
    mbuf.write(field, &checksum.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cut, cuts, naive_checksum};
    use super::*;
    use proptest::prelude::*;
    use vswitch_dpdk::Mempool;

    #[test]
    fn the_example_of_rfc_1071() {
        let sum = Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!((sum.folded(), sum.checksum()), (0xddf2, 0x220d));
        // RFC 1624, section 4: the word 0x5555 becomes 0x3285 under the checksum 0xdd2f.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn pseudo_headers_are_sums_over_their_bytes() {
        let v4 = pseudo_v4([10, 0, 0, 1], [10, 255, 254, 253], 17, 0x1234);
        let bytes = [10, 0, 0, 1, 10, 255, 254, 253, 0, 17, 0x12, 0x34];
        assert_eq!(v4.checksum(), naive_checksum(&bytes), "IPv4");
        let (source, destination) = ([0xfe; 16], [0x81; 16]);
        let mut bytes = [source, destination].concat();
        bytes.extend_from_slice(&[0x00, 0x01, 0x00, 0x02, 0, 0, 0, 58]);
        assert_eq!(pseudo_v6(&source, &destination, 58, 0x1_0002).checksum(), naive_checksum(&bytes), "IPv6");
    }

    #[test]
    fn a_range_that_the_packet_does_not_have_has_no_sum() {
        let pool = Mempool::for_tests(16);
        let mbuf = cut(&pool, &[0xff; 100], &[33, 0, 33]);
        for (from, to) in [(0, 101), (100, 101), (101, 101), (5, 4), (usize::MAX, usize::MAX)] {
            assert!(Sum::of_mbuf(&mbuf, from, to).is_none(), "{from}..{to}");
        }
        for (from, to) in [(0, 100), (100, 100), (0, 0), (33, 33), (66, 67)] {
            assert!(Sum::of_mbuf(&mbuf, from, to).is_some(), "{from}..{to}");
        }
    }

    #[test]
    fn a_field_that_is_not_all_there_is_not_written() {
        let pool = Mempool::for_tests(16);
        let mut mbuf = cut(&pool, &[0x11; 100], &[33, 0, 33]);
        for (start, field, end) in [(0, 99, 100), (0, usize::MAX, 100), (0, 10, 101), (11, 10, 10)] {
            assert!(!finish(&mut mbuf, start, field, end, true), "{start}..{end}, field at {field}");
            assert_eq!(mbuf.to_vec(), [0x11; 100], "{start}..{end}, field at {field}");
        }
        assert!(finish(&mut mbuf, 50, 98, 100, true));
        assert_eq!(mbuf.to_vec()[98..], naive_checksum(&[0x11; 50]).to_be_bytes());
    }

    #[test]
    fn long_runs_of_ones_lose_no_carry() {
        let pool = Mempool::for_tests(64);
        let bytes = vec![0xff; 65_535];
        let mbuf = pool.mbuf_from(&bytes).expect("mbuf");
        for from in 0..4 {
            let sum = Sum::of_mbuf(&mbuf, from, bytes.len()).expect("in range").checksum();
            assert_eq!(sum, naive_checksum(&bytes[from..]), "from {from}");
        }
    }

    #[test]
    fn sums_over_segments_equal_the_plain_sum() {
        let pool = Mempool::for_tests(512);
        let case = (proptest::collection::vec(any::<u8>(), 0..4000), cuts(), any::<(u16, u16)>());
        proptest!(|((bytes, cuts, (a, b)) in case)| {
            let (a, b) = (usize::from(a) % (bytes.len() + 1), usize::from(b) % (bytes.len() + 1));
            let (from, to) = (a.min(b), a.max(b));
            let mbuf = cut(&pool, &bytes, &cuts);
            let sum = Sum::of_mbuf(&mbuf, from, to).expect("in range");
            prop_assert_eq!(sum.checksum(), naive_checksum(&bytes[from..to]));
        });
        assert_eq!(pool.in_use(), 0, "segments leaked");
    }

    #[test]
    fn what_is_right_folds_to_ones() {
        let is_right = |words: u64| Sum { words, odd: false }.is_right();
        let folds = |words: u64| Sum { words, odd: false }.folded() == 0xffff;
        assert!(!is_right(0) && is_right(u64::MAX) && is_right(0xffff) && !is_right(0xfffe) && !is_right(1));
        proptest!(|(words: u64, near in 0_u64..=0x0001_0001_0001_0001, by in -2..=2_i64)| {
            prop_assert_eq!(is_right(words), folds(words), "{:x}", words);
            let multiple = (near * 0xffff).wrapping_add_signed(by);
            prop_assert_eq!(is_right(multiple), folds(multiple), "{:x}", multiple);
        });
    }

    #[test]
    fn few_bytes_are_bytes() {
        proptest!(|(before in 0..3_usize, ones: bool, mut bytes in proptest::collection::vec(any::<u8>(), 0..100))| {
            if ones {
                bytes.fill(0xff);
            }
            let begun = Sum::of(&bytes[..before.min(bytes.len())]);
            let (few, all) = (begun.few_bytes(&bytes), begun.bytes(&bytes));
            prop_assert_eq!((few.folded(), few.odd), (all.folded(), all.odd));
        });
    }

    #[test]
    fn an_update_equals_a_new_sum() {
        let case = (proptest::collection::vec(any::<u8>(), 20..200), 0..8_usize, any::<[u8; 4]>());
        proptest!(|((mut bytes, at, new) in case)| {
            bytes[0] |= 1; // all zero has two sums, 0 and 0xffff: not a packet
            let before = naive_checksum(&bytes);
            let old: [u8; 4] = *bytes[2 * at + 2..].first_chunk().expect("20 bytes at least");
            bytes[2 * at + 2..][..4].copy_from_slice(&new);
            let after = naive_checksum(&bytes);
            prop_assert_eq!(update_bytes(before, &old, &new), after);
            let word = |bytes: [u8; 4], i: usize| u16::from_be_bytes([bytes[i], bytes[i + 1]]);
            let first = update(before, word(old, 0), word(new, 0));
            prop_assert_eq!(update(first, word(old, 2), word(new, 2)), after);
        });
    }
}
