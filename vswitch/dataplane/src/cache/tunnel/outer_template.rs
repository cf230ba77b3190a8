//! What the outer headers of a tunnel's packets have in common, as bytes: the next packet is
//! compared with that before anything of it is read.
//!
//! Of IPv4 and UDP, with nothing optional: Geneve and VXLAN. The other ones are read, and so are
//! those whose DF bit is another one than that of the packet that made the entry.

use vswitch_dpdk::U8x32;

/// Bytes in front of what is inside: Ethernet, IPv4, UDP, Geneve without options or VXLAN.
const LEN: usize = 14 + 20 + 8 + 8;

/// First byte behind Ethernet, and behind IPv4.
const IP: usize = 14;
const UDP: usize = 34;

/// Where packets of one tunnel may differ: length, id and checksum of IPv4, source port and length
/// of UDP.
const VARIES: [usize; 5] = [IP + 2, IP + 4, IP + 10, UDP, UDP + 4];

/// The bits of the first 64 bytes in which they may not.
const MASK: [[u64; 4]; 2] = {
    let mut bytes = [0_u8; 64];
    let mut at = 0;
    while at < LEN {
        bytes[at] = 255;
        at += 1;
    }
    let mut i = 0;
    while i < VARIES.len() {
        (bytes[VARIES[i]], bytes[VARIES[i] + 1]) = (0, 0);
        i += 1;
    }
    let mut words = [[0; 4]; 2];
    i = 0;
    while i < 64 {
        words[i / 32][i / 8 % 4] |= (bytes[i] as u64) << (i % 8 * 8);
        i += 1;
    }
    words
};

/// The outer headers of the last packet out of a tunnel, as bytes, and which of them the next
/// packet must share.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct OuterTemplate {
    bytes: [[u8; 32]; 2],
    /// Of the words of the IPv4 header that do not vary.
    sum: u32,
}

/// A word in network byte order.
#[inline(always)] // in the loop over a burst
fn word(head: &[u8; 64], at: usize) -> u32 {
    u32::from(u16::from_be_bytes([head[at], head[at + 1]]))
}

/// The halves of the first bytes of a packet.
#[inline(always)] // as above
fn halves(head: &[u8; 64]) -> [&[u8; 32]; 2] {
    let (halves, _) = head.as_chunks();
    [&halves[0], &halves[1]]
}

impl OuterTemplate {
    /// Of a packet that comes out of a tunnel with so many bytes in front of what is inside, by
    /// what [its words](crate::cache::Outer) say. None: others like it are to be read, too.
    pub(crate) fn of(head: &[u8], header: usize) -> Option<Self> {
        let head: &[u8; 64] = head.first_chunk()?;
        let udp = head[12..15] == [8, 0, 0x45] && head[IP + 9] == 17;
        if header != LEN || !udp {
            return None;
        }
        let all: u32 = (0..10).map(|i| word(head, IP + 2 * i)).sum();
        let sum = all - VARIES.iter().filter(|at| **at < UDP).map(|at| word(head, *at)).sum::<u32>();
        Some(Self { bytes: halves(head).map(|half| *half), sum })
    }

    /// Whether a packet of `len` bytes that begins with these is another one of the same tunnel,
    /// with nothing behind the inner frame, and a header checksum that is right.
    #[inline(always)] // as above
    pub(crate) fn fits(&self, head: &[u8], len: usize) -> bool {
        let Some(head) = head.first_chunk::<64>() else { return false };
        let ([a, b], [c, d]) = (halves(head), &self.bytes);
        let template = U8x32::of(a).is(U8x32::of(c), U8x32::of_words(MASK[0]))
            & U8x32::of(b).is(U8x32::of(d), U8x32::of_words(MASK[1]));
        let (total, payload) = (word(head, IP + 2), word(head, UDP + 4));
        let lengths = (total as usize + IP, payload as usize + UDP) == (len, len);
        // Ten words: one step folds them, and what folds to ones in two is more than they can be.
        let sum = self.sum + total + word(head, IP + 4) + word(head, IP + 10);
        template && lengths && (sum & 0xffff) + (sum >> 16) == 0xffff
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::testing::naive_checksum;
    use proptest::prelude::*;

    /// A packet of a tunnel with `inner` bytes inside; `seed` for all that it says freely.
    fn packet(seed: [u8; LEN], inner: usize) -> Vec<u8> {
        let mut bytes = [&seed[..], &vec![0xa5; inner]].concat();
        bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
        bytes[IP + 9] = 17;
        settle(&mut bytes);
        bytes
    }

    /// Makes lengths and the header's checksum right.
    fn settle(bytes: &mut [u8]) {
        let length = |from: usize| u16::try_from(bytes.len() - from).expect("short").to_be_bytes();
        let (total, payload) = (length(IP), length(UDP));
        bytes[IP + 2..IP + 4].copy_from_slice(&total);
        bytes[UDP + 4..UDP + 6].copy_from_slice(&payload);
        bytes[IP + 10..IP + 12].fill(0);
        let sum = naive_checksum(&bytes[IP..UDP]);
        bytes[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
    }

    #[test]
    fn what_fits_differs_only_where_it_may_and_is_right() {
        let seed = prop::collection::vec(any::<u8>(), LEN).prop_map(|bytes| *bytes.first_chunk().expect("as many"));
        let changes = prop::collection::vec((0..LEN, any::<u8>()), 0..3);
        let varied = (any::<[u8; 2]>(), any::<[u8; 2]>());
        proptest!(|(seed in seed, inner in 14..80_usize, other in 14..80_usize, varied in varied, changes in changes, repair: bool, cut in 0..2_usize)| {
            let first = packet(seed, inner);
            let template = OuterTemplate::of(&first, LEN).expect("of IPv4 and UDP");
            prop_assert!(OuterTemplate::of(&first, LEN - 8).is_none(), "another length of headers");
            let mut seed = seed;
            seed[IP + 4..IP + 6].copy_from_slice(&varied.0);
            seed[UDP..UDP + 2].copy_from_slice(&varied.1);
            let mut next = packet(seed, other);
            for (at, byte) in &changes {
                next[*at] = *byte;
            }
            if repair {
                settle(&mut next);
            }
            let len = next.len() - cut;
            let same = (0..LEN).all(|i| next[i] == first[i] || VARIES.iter().any(|at| i == *at || i == at + 1));
            let length = |at: usize| usize::from(u16::from_be_bytes([next[at], next[at + 1]]));
            let lengths = (length(IP + 2), length(UDP + 4)) == (len - IP, len - UDP);
            let right = naive_checksum(&next[IP..UDP]) == 0;
            prop_assert_eq!(template.fits(&next[..len], len), same && lengths && right, "{:02x?}, then {:02x?}", first, next);
        });
    }

    #[test]
    fn a_packet_that_ends_early_does_not_fit() {
        let first = packet([7; LEN], 40);
        let template = OuterTemplate::of(&first, LEN).expect("of IPv4 and UDP");
        assert!(template.fits(&first, first.len()) && !template.fits(&first[..63], 63));
        assert!(OuterTemplate::of(&first[..63], LEN).is_none());
    }
}
