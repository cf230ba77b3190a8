//! The compact key of a plain packet: its first bytes, with what no rule can match cleared.
//!
//! Two plain packets of one port with equal compact keys have equal [`vswitch_flow::FlowKey`]s: that is what makes an exact match of bytes a
//! match of every field. A packet is plain if extraction reads its headers from fixed places and finds nothing odd: Ethernet II with at
//! most one tag, IPv4 without options or IPv6 without extension headers, whole (no fragment), and TCP with a valid offset, UDP, or ICMP
//! (of IPv6 only echo: other messages have more fields). Everything else goes the long way.
//!
//! A cache does not keep keys, but their tags ([`Tag`]).
//!
//! The port takes the place of a length or an identification, which nothing matches. Frames shorter than a key are padded with zeros: the
//! mask clears what lies behind the L4 header's first bytes.

use crate::dpdk::Mbuf;
use crate::limits::HEAD_LEN;
use crate::packet::{ethertype, icmp, tcp, udp};
use crate::port::PortId;
use vswitch_flow::extract::Layers;

/// Words of a compact key of an IPv4 packet: 18 + 20 + 14 bytes, and room.
pub(super) const WORDS_V4: usize = 7;

/// Of an IPv6 packet: 18 + 40 + 14 bytes.
pub(super) const WORDS_V6: usize = 9;

/// Of any.
pub(super) const WORDS_MAX: usize = WORDS_V6;

/// What stands for a compact key: a sum of products of its words, each with a secret word added (NH, the hash of UMAC: Black and others, "UMAC: Fast and Secure Message Authentication",
/// CRYPTO 1999, section 4).
///
/// For any two keys of one kind, whoever chose them, the chance that their tags are equal is at most one in 2^64, over the secrets, which are drawn at start and never seen: a worker
/// that compares its packets with a tag or two each, 10 million times a second, would meet a pair once in 28,000 years. Memory that forgets a bit unnoticed is much more frequent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tag([u64; 2]);

/// A compact key, with where its headers lie.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compact {
    pub(super) kind: Kind,
    /// L3 header.
    l3: u8,
    /// End of the L3 packet.
    l3_end: u16,
    /// Where it was found, of the cache of its kind ([`super::exact::NOWHERE`]: nowhere).
    pub(super) found: u32,
    pub(super) tag: Tag,
    /// Of the tag: where it lies.
    pub(super) hash: u64,
}

/// Which cache a packet is looked up in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    V4 = 1,
    V6 = 2,
    /// None: it is not plain.
    #[default]
    None = 4,
}

/// Random numbers that tags and hashes depend on, so that nobody can aim at one place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeds {
    words: [u64; WORDS_MAX + 1],
    hash: [u64; 2],
}

impl Seeds {
    pub(super) fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let random = |i: usize| RandomState::new().hash_one(i);
        Self { words: std::array::from_fn(random), hash: std::array::from_fn(random) }
    }

    /// One of them.
    pub(super) const fn one(&self) -> u64 {
        self.hash[0]
    }

    /// As many multiplications at a time as the core has units.
    #[inline(always)] // a call returns it in memory, as two words, and whoever reads both at once waits for them
    #[allow(clippy::cast_possible_truncation)] // halves
    fn tag<const N: usize>(&self, words: &[u64; N]) -> Tag {
        let mut sum = 0_u128;
        for pair in 0..N.div_ceil(2) {
            let second = if 2 * pair + 1 < N { words[2 * pair + 1] } else { 0 };
            let a = words[2 * pair].wrapping_add(self.words[2 * pair]);
            let b = second.wrapping_add(self.words[2 * pair + 1]);
            sum = sum.wrapping_add(u128::from(a) * u128::from(b));
        }
        Tag([sum as u64, (sum >> 64) as u64])
    }

    /// Equal bits of tags are no equal bits of this.
    #[inline]
    const fn hash(&self, tag: Tag) -> u64 {
        folded(tag.0[0] ^ self.hash[0], tag.0[1] ^ self.hash[1])
    }
}

/// The halves of a product, one on the other.
#[inline]
#[allow(clippy::cast_possible_truncation)] // halves
pub(crate) const fn folded(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    product as u64 ^ (product >> 64) as u64
}

/// Bytes of a TCP, UDP or ICMP header that rules match: the first four, and TCP's flags; of ICMP type and code.
const TCP_BYTES: [u8; 14] = [255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0x0f, 255];
const UDP_BYTES: [u8; 14] = [255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const ICMP_BYTES: [u8; 14] = [255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Bytes of an IPv4 header that rules match: TOS, TTL, protocol, addresses (version and length are checked).
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
    let mut words = [0; N];
    i = 0;
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
type Masks<const N: usize> = [[u64; N]; 3];

static V4_UNTAGGED: Masks<WORDS_V4> = masks(V4_BYTES, 14);
static V4_TAGGED: Masks<WORDS_V4> = masks(V4_BYTES, 18);
static V6_UNTAGGED: Masks<WORDS_V6> = masks(V6_BYTES, 14);
static V6_TAGGED: Masks<WORDS_V6> = masks(V6_BYTES, 18);

/// Where a packet came from: its port, and the number of the tunnel that it came out of; 0: none.
pub(super) type From = (PortId, u64);

impl Compact {
    /// One with these.
    #[cfg(test)]
    pub(super) fn for_tests(hash: u64, tag: u64) -> Self {
        Self { hash, tag: Tag([tag, tag]), ..Self::default() }
    }

    /// One of many, whose hashes differ in all bits.
    #[cfg(test)]
    pub(super) fn scattered(i: u32) -> Self {
        let hash = u64::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xd6e8_feb8_6659_fd93);
        Self::for_tests(hash, i.into())
    }

    /// Makes the key of a packet, if it is plain.
    #[inline(always)] // in the loop over a burst
    pub(super) fn read(&mut self, mbuf: &Mbuf, from: From, seeds: &Seeds) {
        self.read_bytes(mbuf.head(), mbuf.len(), from, seeds);
    }

    /// Likewise of a packet of `len` bytes that begins with these, anywhere else.
    #[inline(never)] // that of the bursts is to be by itself
    pub(super) fn read_apart(&mut self, head: &[u8], len: usize, from: From, seeds: &Seeds) {
        self.read_bytes(head, len, from, seeds);
    }

    /// Likewise of what is inside of a packet, of which these are all bytes.
    #[inline(always)] // in the loop over a burst
    pub(super) fn read_inside(&mut self, bytes: &[u8], from: From, seeds: &Seeds) {
        self.read_bytes(bytes, bytes.len(), from, seeds);
    }

    #[inline(always)]
    fn read_bytes(&mut self, head: &[u8], len: usize, from: From, seeds: &Seeds) {
        self.kind = Kind::None;
        if head.len() < len && head.len() < HEAD_LEN {
            return;
        }
        let Some(front) = head.first_chunk::<20>() else { return };
        let kind = u16::from_be_bytes([front[12], front[13]]);
        match kind {
            ethertype::IPV4 => self.v4::<14>(head, len, &V4_UNTAGGED, from, seeds),
            ethertype::IPV6 => self.v6::<14>(head, len, &V6_UNTAGGED, from, seeds),
            _ if ethertype::is_vlan(kind) => match u16::from_be_bytes([front[16], front[17]]) {
                ethertype::IPV4 => self.v4::<18>(head, len, &V4_TAGGED, from, seeds),
                ethertype::IPV6 => self.v6::<18>(head, len, &V6_TAGGED, from, seeds),
                _ => {}
            },
            _ => {}
        }
    }

    #[inline(always)]
    fn v4<const L3: usize>(&mut self, head: &[u8], len: usize, masks: &Masks<WORDS_V4>, from: From, seeds: &Seeds) {
        let padded;
        let bytes: &[u8; WORDS_V4 * 8] = match head.first_chunk() {
            Some(front) => front,
            None => {
                padded = padded_front(head);
                &padded
            }
        };
        let ip = |i: usize| bytes[L3 + i];
        let word = |i: usize| u16::from_be_bytes([bytes[L3 + i], bytes[L3 + i + 1]]);
        let total = usize::from(word(2));
        // Version 4, no options; a whole packet (neither "more fragments" nor an offset); within the frame.
        if ip(0) != 0x45 || word(6) & 0x3fff != 0 || L3 + total > len {
            return;
        }
        // Each with the masks in the code.
        match l4_kind(ip(9), bytes[L3 + 32], total, 20) {
            Some(TCP) => self.v4_with::<L3, TCP>(bytes, head.len(), masks, total, from, seeds),
            Some(UDP) => self.v4_with::<L3, UDP>(bytes, head.len(), masks, total, from, seeds),
            Some(_) => self.v4_with::<L3, ICMP>(bytes, head.len(), masks, total, from, seeds),
            None => {}
        }
    }

    #[inline(always)]
    fn v4_with<const L3: usize, const L4: usize>(
        &mut self,
        bytes: &[u8; WORDS_V4 * 8],
        head: usize,
        masks: &Masks<WORDS_V4>,
        total: usize,
        from: From,
        seeds: &Seeds,
    ) {
        if L3 + 20 + L4_LEN[L4] > head {
            return;
        }
        // In the place of the total length.
        self.finish::<WORDS_V4, L3>(bytes, &masks[L4], (L3 + 2, L3 + 20), total, from, seeds, Kind::V4);
    }

    #[inline(always)]
    fn v6<const L3: usize>(&mut self, head: &[u8], len: usize, masks: &Masks<WORDS_V6>, from: From, seeds: &Seeds) {
        let padded;
        let bytes: &[u8; WORDS_V6 * 8] = match head.first_chunk() {
            Some(front) => front,
            None => {
                padded = padded_front(head);
                &padded
            }
        };
        let payload = usize::from(u16::from_be_bytes([bytes[L3 + 4], bytes[L3 + 5]]));
        // Version 6; within the frame.
        if bytes[L3] >> 4 != 6 || L3 + 40 + payload > len {
            return;
        }
        let (protocol, kind, code) = (bytes[L3 + 6], bytes[L3 + 40], bytes[L3 + 41]);
        let echo = matches!(kind, icmp::V6_ECHO_REQUEST | icmp::V6_ECHO_REPLY) && code == 0;
        let l4 = match protocol {
            icmp::PROTOCOL_V4 => return,
            icmp::PROTOCOL_V6 if !echo => return,
            icmp::PROTOCOL_V6 => l4_kind(icmp::PROTOCOL_V4, 0, payload, 0),
            protocol => l4_kind(protocol, bytes[L3 + 52], payload, 0),
        };
        let Some(l4) = l4 else { return };
        if L3 + 40 + L4_LEN[l4] > head.len() {
            return;
        }
        self.finish::<WORDS_V6, L3>(bytes, &masks[l4], (L3 + 4, L3 + 40), 40 + payload, from, seeds, Kind::V6);
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // one call each, inlined
    fn finish<const N: usize, const L3: usize>(
        &mut self,
        bytes: &[u8],
        mask: &[u64; N],
        (port_at, l4_at): (usize, usize),
        l3_len: usize,
        (port, tunnel): From,
        seeds: &Seeds,
        kind: Kind,
    ) {
        if L3 + l3_len >= usize::from(u16::MAX) {
            return; // a packet for segmentation whose end cannot be said
        }
        let mut words = [0; N];
        for (i, (word, bytes)) in words.iter_mut().zip(bytes.as_chunks::<8>().0).enumerate() {
            *word = u64::from_le_bytes(*bytes) & mask[i];
        }
        words[port_at / 8] |= u64::from(port.0) << (port_at % 8 * 8);
        if tunnel != 0 {
            // Behind the ports, where no L4 header has anything that rules match for 8 bytes.
            let (at, shift) = ((l4_at + 4) / 8, (l4_at + 4) % 8 * 8);
            words[at] |= tunnel << shift;
            if let (Some(next), 1..) = (words.get_mut(at + 1), shift) {
                *next |= tunnel >> (64 - shift);
            }
        }
        self.tag = seeds.tag(&words);
        self.hash = seeds.hash(self.tag);
        self.kind = kind;
        #[allow(clippy::cast_possible_truncation)] // 14 or 18, and within the frame
        {
            self.l3 = L3 as u8;
            self.l3_end = (L3 + l3_len) as u16;
        }
    }

    /// See [`Kind`].
    #[inline]
    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    /// It is the key of a plain packet.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.kind != Kind::None
    }

    /// Where the headers lie.
    #[inline]
    #[must_use]
    pub fn layers(&self) -> Layers {
        self.layers_with(if self.kind == Kind::V4 { 20 } else { 40 })
    }

    /// [`Self::layers`], of one with addresses of `A` bytes.
    #[inline(always)] // where the end of the header is, is known there
    pub(crate) const fn layers_of<const A: usize>(&self) -> Layers {
        self.layers_with(if A == 4 { 20 } else { 40 })
    }

    #[inline(always)] // as above
    const fn layers_with(&self, l3_len: u16) -> Layers {
        let l3 = self.l3 as u16;
        Layers { l3, l4: l3 + l3_len, l3_end: self.l3_end }
    }
}

/// Kinds of L4.
const TCP: usize = 0;
const UDP: usize = 1;
const ICMP: usize = 2;

/// Bytes of L4 headers that extraction wants, by kind.
const L4_LEN: [usize; 3] = [20, 8, 8];

/// The front of a frame that is shorter, padded with zeros.
#[inline]
fn padded_front<const LEN: usize>(head: &[u8]) -> [u8; LEN] {
    let mut front = [0; LEN];
    front[..head.len()].copy_from_slice(head);
    front
}

/// The kind of L4, if its header is whole. `offset`: the byte of TCP's data offset; `len`: what the length field says, which counts `before` bytes of the IP header.
#[inline]
fn l4_kind(protocol: u8, offset: u8, len: usize, before: usize) -> Option<usize> {
    let header = usize::from(offset >> 4) * 4;
    let (kind, least) = match protocol {
        tcp::PROTOCOL if header >= 20 => (TCP, header),
        udp::PROTOCOL => (UDP, 8),
        icmp::PROTOCOL_V4 => (ICMP, 8),
        _ => return None,
    };
    (len >= before + least).then_some(kind)
}
