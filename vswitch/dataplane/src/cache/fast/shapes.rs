//! The first bytes of packets that a compact key is made of: what rules can match of them, and the
//! shapes that nearly all packets have.

use crate::packet::{ethertype, tcp, udp};
use vswitch_dpdk::U8x32;

/// Words of a compact key of an IPv4 packet: 18 + 20 + 14 bytes, and room.
pub(in crate::cache) const WORDS_V4: usize = 7;

/// Of an IPv6 packet: 18 + 40 + 14 bytes.
pub(in crate::cache) const WORDS_V6: usize = 9;

/// Kinds of L4.
pub(in crate::cache) const TCP: usize = 0;
pub(in crate::cache) const UDP: usize = 1;
pub(in crate::cache) const ICMP: usize = 2;

/// Bytes of L4 headers that extraction wants, by kind.
pub(in crate::cache) const L4_LEN: [usize; 3] = [20, 8, 8];

/// Bytes of a TCP, UDP or ICMP header that rules match: the first four, and TCP's flags; of ICMP
/// type and code.
const TCP_BYTES: [u8; 14] = [255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0x0f, 255];
const UDP_BYTES: [u8; 14] = [255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const ICMP_BYTES: [u8; 14] = [255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Bytes of an IPv4 header that rules match: TOS, TTL, protocol, addresses (version and length are
/// checked).
const V4_BYTES: [u8; 20] = [0, 255, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255];

/// Of an IPv6 header: all but the version and the payload length.
const V6_BYTES: [u8; 40] = {
    let mut bytes = [255; 40];
    (bytes[0], bytes[4], bytes[5]) = (0x0f, 0, 0);
    bytes
};

const fn mask<const N: usize, const L3: usize>(l3: [u8; L3], at: usize, l4: [u8; 14]) -> [u64; N] {
    let mut bytes = [0; WORDS_V6 * 8];
    let mut i = 0;
    while i < at {
        bytes[i] = 255;
        i += 1;
    }
    i = 0;
    while i < L3 {
        bytes[at + i] = l3[i];
        i += 1;
    }
    i = 0;
    while i < 14 && at + L3 + i < N * 8 {
        bytes[at + L3 + i] = l4[i];
        i += 1;
    }
    words(&bytes)
}

/// The first words of some bytes.
const fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    let mut i = 0;
    while i < N {
        let mut word = [0; 8];
        let mut j = 0;
        while j < 8 {
            word[j] = bytes[i * 8 + j];
            j += 1;
        }
        words[i] = u64::from_le_bytes(word);
        i += 1;
    }
    words
}

/// Masks by kind of L4.
const fn masks<const N: usize, const L3: usize>(l3: [u8; L3], at: usize) -> Masks<N> {
    [mask(l3, at, TCP_BYTES), mask(l3, at, UDP_BYTES), mask(l3, at, ICMP_BYTES)]
}

/// Likewise.
pub(in crate::cache) type Masks<const N: usize> = [[u64; N]; 3];

pub(in crate::cache) static V4_UNTAGGED: Masks<WORDS_V4> = masks(V4_BYTES, 14);
pub(in crate::cache) static V4_TAGGED: Masks<WORDS_V4> = masks(V4_BYTES, 18);
pub(in crate::cache) static V6_UNTAGGED: Masks<WORDS_V6> = masks(V6_BYTES, 14);
pub(in crate::cache) static V6_TAGGED: Masks<WORDS_V6> = masks(V6_BYTES, 18);

/// What the first four words of a packet without tags say of its shape, and which of their bits.
pub(in crate::cache) type Shape = [[u64; 4]; 2];

/// Of IPv4 without options, no fragment; of IPv6, with nothing between it and L4.
const fn shape(v6: bool, protocol: u8) -> Shape {
    let [mut value, mut mask] = [[0; 32]; 2];
    let [high, low] = if v6 { ethertype::IPV6 } else { ethertype::IPV4 }.to_be_bytes();
    ([value[12], value[13]], [mask[12], mask[13]]) = ([high, low], [255; 2]);
    if v6 {
        ([value[14], value[20]], [mask[14], mask[20]]) = ([0x60, protocol], [0xf0, 255]);
    } else {
        ([value[14], value[23]], [mask[14], mask[23]]) = ([0x45, protocol], [255; 2]);
        [mask[20], mask[21]] = [0x3f, 255];
    }
    [words(&value), words(&mask)]
}

pub(in crate::cache) static TCP_V4: Shape = shape(false, tcp::PROTOCOL);
pub(in crate::cache) static UDP_V4: Shape = shape(false, udp::PROTOCOL);
pub(in crate::cache) static TCP_V6: Shape = shape(true, tcp::PROTOCOL);
pub(in crate::cache) static UDP_V6: Shape = shape(true, udp::PROTOCOL);

/// Of the first words of packets of TCP and UDP without tags, the bits that say what their
/// [keys](Masks) say, and their shape, and how long the header of L4 is.
pub(in crate::cache) static SAME_V4: [[u64; WORDS_V4]; 2] =
    [same(V4_UNTAGGED[TCP], TCP_V4, Some(14 + 20 + TCP_OFFSET)), same(V4_UNTAGGED[UDP], UDP_V4, None)];
pub(in crate::cache) static SAME_V6: [[u64; WORDS_V6]; 2] =
    [same(V6_UNTAGGED[TCP], TCP_V6, Some(14 + 40 + TCP_OFFSET)), same(V6_UNTAGGED[UDP], UDP_V6, None)];

/// Byte of a TCP header that says how long it is.
const TCP_OFFSET: usize = 12;

/// The bits of both masks, and all of the byte `at` some place.
const fn same<const N: usize>(mut mask: [u64; N], [_, shape]: Shape, at: Option<usize>) -> [u64; N] {
    let mut i = 0;
    while i < shape.len() {
        mask[i] |= shape[i];
        i += 1;
    }
    if let Some(at) = at {
        mask[at / 8] |= 0xff << (at % 8 * 8);
    }
    mask
}

/// A packet that begins so has it.
#[inline(always)] // in the loop over a burst
pub(in crate::cache) fn is(front: U8x32, [value, mask]: &Shape) -> bool {
    front.is(U8x32::of_words(*value), U8x32::of_words(*mask))
}
