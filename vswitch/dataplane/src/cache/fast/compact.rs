//! The compact key of a plain packet: its first bytes, with what no rule can match cleared.
//!
//! Two plain packets of one port with equal compact keys have equal [`vswitch_flow::FlowKey`]s:
//! that is what makes an exact match of bytes a match of every field. A packet is plain if
//! extraction reads its headers from fixed places and finds nothing odd: Ethernet II with at most
//! one tag, IPv4 without options or IPv6 without extension headers, whole (no fragment), and TCP
//! with a valid offset, UDP, or ICMP (of IPv6 only echo: other messages have more fields).
//! Everything else takes the slow path.
//!
//! A cache does not keep keys, but their tags ([`Tag`]).
//!
//! Where a packet came from, a port or a tunnel, is part of its tag only. Frames shorter than a key
//! are padded with zeros: the mask clears what lies behind the L4 header's first bytes.

use crate::cache::fast::shapes::{
    ICMP, L4_LEN, Masks, TCP, TCP_V4, TCP_V6, UDP, UDP_V4, UDP_V6, V4_TAGGED, V4_UNTAGGED, V6_TAGGED, V6_UNTAGGED,
    WORDS_V4, WORDS_V6, is,
};
use crate::limits::HEAD_LEN;
use crate::packet::{ethertype, icmp, tcp, udp};
use crate::port::PortId;
use vswitch_dpdk::{Mbuf, U8x32, nh_twice};
use vswitch_flow::extract::Layers;

/// Vectors of four words that the words of any are in.
pub(in crate::cache) const VECTORS_MAX: usize = WORDS_V6.div_ceil(4);

/// Of the words of a compact key, of which there are `N`, those that vector `v` begins with: the
/// last vector begins before the one in front of it ends.
pub(in crate::cache) const fn first_word<const N: usize>(v: usize) -> usize {
    if 4 * v + 4 <= N { 4 * v } else { N - 4 }
}

/// What stands for a compact key: two hashes of it with independent secret keys, NH of UMAC, for
/// words of 32 bits ([`nh_twice`]).
///
/// For any two keys of one kind, whoever chose them, the chance that the first hash is equal is at
/// most one in 2^32 (theorem 4.2 of the paper), that both are, one in 2^64, over the secrets, which
/// are drawn at start and never seen: a worker that compares its packets with a tag or two each, 10
/// million times a second, would meet a pair once in 28,000 years. Memory that forgets a bit
/// unnoticed is much more frequent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cache) struct Tag([u64; 2]);

/// A compact key, with where its headers lie.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compact {
    pub(in crate::cache) kind: CompactKind,
    /// L3 header.
    l3: u8,
    /// End of the L3 packet.
    l3_end: u16,
    /// Where it was found, of the cache of its kind ([`crate::cache::fast::exact::NOWHERE`]:
    /// nowhere).
    pub(in crate::cache) found: u32,
    pub(in crate::cache) tag: Tag,
    /// Of the tag: where it lies.
    pub(in crate::cache) hash: u64,
}

/// Which cache a packet is looked up in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CompactKind {
    V4 = 1,
    V6 = 2,
    /// None: it is not plain.
    #[default]
    None = 4,
}

/// Random numbers that tags and hashes depend on, so that nobody can aim at one place.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) struct Seeds {
    words: [[U8x32; VECTORS_MAX]; 2],
    came: [[u32; 4]; 2],
    hash: [u64; 2],
}

/// What a compact key says of where its packet came from, a port or a tunnel: so much of its
/// [`Tag`].
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cache) struct Came([u64; 2]);

impl Seeds {
    pub(in crate::cache) fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let (secret, drawn) = (RandomState::new(), std::cell::Cell::new(0_u64));
        let random = || secret.hash_one(drawn.replace(drawn.get() + 1));
        let vector = || U8x32::of_words(std::array::from_fn(|_| random()));
        #[allow(clippy::cast_possible_truncation)] // half of it
        let word = || random() as u32;
        Self {
            words: std::array::from_fn(|_| std::array::from_fn(|_| vector())),
            came: std::array::from_fn(|_| std::array::from_fn(|_| word())),
            hash: std::array::from_fn(|_| random()),
        }
    }

    /// Of a packet that came in by this port; of the inside of one, by this tunnel port, out of the
    /// tunnel of this number, which is not 0.
    pub(in crate::cache) fn came(&self, port: PortId, tunnel: u64) -> Came {
        let [high, low] = halves(tunnel);
        let product = |a: u32, b: u32| u64::from(a) * u64::from(b);
        // NH, as of the other words.
        Came(self.came.map(|[a, b, c, d]| {
            let first = product(a.wrapping_add(port.0.into()), b.wrapping_add(low));
            first.wrapping_add(product(c.wrapping_add(high), d))
        }))
    }

    /// One of them.
    pub(in crate::cache) const fn one(&self) -> u64 {
        self.hash[0]
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

/// High and low half.
#[allow(clippy::cast_possible_truncation)] // that is what they are
const fn halves(word: u64) -> [u32; 2] {
    [(word >> 32) as u32, word as u32]
}

impl Compact {
    /// One with these.
    #[cfg(test)]
    pub(in crate::cache) fn for_tests(hash: u64, tag: u64) -> Self {
        Self { hash, tag: Tag([tag, tag]), ..Self::default() }
    }

    /// One of many, whose hashes differ in all bits.
    #[cfg(test)]
    pub(in crate::cache) fn scattered(i: u32) -> Self {
        let hash = u64::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xd6e8_feb8_6659_fd93);
        Self::for_tests(hash, i.into())
    }

    /// Makes the key of a packet, if it is plain.
    #[inline(always)] // in the loop over a burst
    pub(in crate::cache) fn read(&mut self, mbuf: &Mbuf, came: &Came, seeds: &Seeds) {
        self.read_bytes(mbuf.head(), mbuf.len(), came, seeds);
    }

    /// Likewise of a packet of `len` bytes that begins with these, anywhere else.
    #[inline(never)] // that of the bursts is to be by itself
    pub(in crate::cache) fn read_apart(
        &mut self,
        head: &[u8],
        len: usize,
        (port, tunnel): (PortId, u64),
        seeds: &Seeds,
    ) {
        self.read_bytes(head, len, &seeds.came(port, tunnel), seeds);
    }

    /// Likewise of what is inside of a packet, of which these are all bytes.
    #[inline(always)] // in the loop over a burst
    pub(in crate::cache) fn read_inside(&mut self, bytes: &[u8], came: &Came, seeds: &Seeds) {
        self.read_bytes(bytes, bytes.len(), came, seeds);
    }

    #[inline(always)]
    fn read_bytes(&mut self, head: &[u8], len: usize, came: &Came, seeds: &Seeds) {
        self.kind = CompactKind::None;
        if head.len() < len && may_lack_headers(head) {
            return;
        }
        // The shapes of nearly all packets, by one comparison each.
        if let Some(front) = head.first_chunk::<{ WORDS_V4 * 8 }>() {
            let shape = front.first_chunk().map_or_else(U8x32::zero, U8x32::of);
            if is(shape, &TCP_V4) {
                return self.v4_of::<14, TCP>(front, head.len(), len, &V4_UNTAGGED, came, seeds);
            }
            if is(shape, &UDP_V4) {
                return self.v4_of::<14, UDP>(front, head.len(), len, &V4_UNTAGGED, came, seeds);
            }
            if let Some(front) = head.first_chunk::<{ WORDS_V6 * 8 }>() {
                if is(shape, &TCP_V6) {
                    return self.v6_of::<14, TCP>(front, head.len(), len, &V6_UNTAGGED, came, seeds);
                }
                if is(shape, &UDP_V6) {
                    return self.v6_of::<14, UDP>(front, head.len(), len, &V6_UNTAGGED, came, seeds);
                }
            }
        }
        self.read_any(head, len, came, seeds);
    }

    /// What may be of any shape: with tags, shorter than a key, of ICMP, or no plain packet at all.
    #[inline(never)] // so that the loop over a burst is short
    fn read_any(&mut self, head: &[u8], len: usize, came: &Came, seeds: &Seeds) {
        let Some(front) = head.first_chunk::<20>() else { return };
        let kind = u16::from_be_bytes([front[12], front[13]]);
        match kind {
            ethertype::IPV4 => self.v4::<14>(head, len, &V4_UNTAGGED, came, seeds),
            ethertype::IPV6 => self.v6::<14>(head, len, &V6_UNTAGGED, came, seeds),
            _ if ethertype::is_vlan(kind) => match u16::from_be_bytes([front[16], front[17]]) {
                ethertype::IPV4 => self.v4::<18>(head, len, &V4_TAGGED, came, seeds),
                ethertype::IPV6 => self.v6::<18>(head, len, &V6_TAGGED, came, seeds),
                _ => {}
            },
            _ => {}
        }
    }

    fn v4<const L3: usize>(&mut self, head: &[u8], len: usize, masks: &Masks<WORDS_V4>, came: &Came, seeds: &Seeds) {
        let mut room = [0; WORDS_V4 * 8];
        let bytes = front(head, &mut room);
        // Version 4, no options; a whole packet (neither "more fragments" nor an offset).
        if bytes[L3] != 0x45 || u16::from_be_bytes([bytes[L3 + 6], bytes[L3 + 7]]) & 0x3fff != 0 {
            return;
        }
        match bytes[L3 + 9] {
            tcp::PROTOCOL => self.v4_of::<L3, TCP>(bytes, head.len(), len, masks, came, seeds),
            udp::PROTOCOL => self.v4_of::<L3, UDP>(bytes, head.len(), len, masks, came, seeds),
            icmp::PROTOCOL_V4 => self.v4_of::<L3, ICMP>(bytes, head.len(), len, masks, came, seeds),
            _ => {}
        }
    }

    /// Of a frame of `len` bytes, `head` of them together, that has a header of IPv4 without
    /// options and is no fragment.
    #[inline(always)] // each with the masks in the code
    #[allow(clippy::too_many_arguments)] // inlined
    fn v4_of<const L3: usize, const L4: usize>(
        &mut self,
        bytes: &[u8; WORDS_V4 * 8],
        head: usize,
        len: usize,
        masks: &Masks<WORDS_V4>,
        came: &Came,
        seeds: &Seeds,
    ) {
        let total = usize::from(u16::from_be_bytes([bytes[L3 + 2], bytes[L3 + 3]]));
        if !is_whole::<L4>((L3 + 20, L3 + total), bytes[L3 + 32], (head, len)) {
            return;
        }
        self.finish::<WORDS_V4, L3>(bytes, &masks[L4], total, came, seeds, CompactKind::V4);
    }

    fn v6<const L3: usize>(&mut self, head: &[u8], len: usize, masks: &Masks<WORDS_V6>, came: &Came, seeds: &Seeds) {
        let mut room = [0; WORDS_V6 * 8];
        let bytes = front(head, &mut room);
        if bytes[L3] >> 4 != 6 {
            return;
        }
        let [protocol, kind, code] = [bytes[L3 + 6], bytes[L3 + 40], bytes[L3 + 41]];
        match protocol {
            tcp::PROTOCOL => self.v6_of::<L3, TCP>(bytes, head.len(), len, masks, came, seeds),
            udp::PROTOCOL => self.v6_of::<L3, UDP>(bytes, head.len(), len, masks, came, seeds),
            icmp::PROTOCOL_V6 if matches!(kind, icmp::V6_ECHO_REQUEST | icmp::V6_ECHO_REPLY) && code == 0 => {
                self.v6_of::<L3, ICMP>(bytes, head.len(), len, masks, came, seeds);
            }
            _ => {}
        }
    }

    /// [`Self::v4_of`], of IPv6.
    #[inline(always)] // as above
    #[allow(clippy::too_many_arguments)] // inlined
    fn v6_of<const L3: usize, const L4: usize>(
        &mut self,
        bytes: &[u8; WORDS_V6 * 8],
        head: usize,
        len: usize,
        masks: &Masks<WORDS_V6>,
        came: &Came,
        seeds: &Seeds,
    ) {
        let l3_len = 40 + usize::from(u16::from_be_bytes([bytes[L3 + 4], bytes[L3 + 5]]));
        if !is_whole::<L4>((L3 + 40, L3 + l3_len), bytes[L3 + 52], (head, len)) {
            return;
        }
        self.finish::<WORDS_V6, L3>(bytes, &masks[L4], l3_len, came, seeds, CompactKind::V6);
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // one call each, inlined
    fn finish<const N: usize, const L3: usize>(
        &mut self,
        bytes: &[u8],
        mask: &[u64; N],
        l3_len: usize,
        came: &Came,
        seeds: &Seeds,
        kind: CompactKind,
    ) {
        if L3 + l3_len >= usize::from(u16::MAX) {
            return; // a packet for segmentation whose end cannot be said
        }
        let mut vectors = [U8x32::zero(); VECTORS_MAX];
        let vectors = &mut vectors[..N.div_ceil(4)];
        for (v, vector) in vectors.iter_mut().enumerate() {
            let first = first_word::<N>(v);
            // What another vector has already is 0 here.
            let mask = std::array::from_fn(|i| if first + i < 4 * v { 0 } else { mask[first + i] });
            let Some(bytes) = bytes.get(first * 8..).and_then(|bytes| bytes.first_chunk()) else { return };
            *vector = U8x32::of(bytes).and(U8x32::of_words(mask));
        }
        self.tag = Tag(nh_twice(vectors, &seeds.words, &came.0));
        self.hash = seeds.hash(self.tag);
        self.kind = kind;
        #[allow(clippy::cast_possible_truncation)] // 14 or 18, and within the frame
        {
            self.l3 = L3 as u8;
            self.l3_end = (L3 + l3_len) as u16;
        }
    }

    /// That of another packet with the same one, whose L3 packet ends there.
    #[inline(always)] // in the loop over a burst
    pub(in crate::cache) const fn ending_at(self, l3_end: u16) -> Self {
        Self { l3_end, ..self }
    }

    /// Its packet has a VLAN tag.
    pub(in crate::cache) const fn is_tagged(&self) -> bool {
        self.l3 != 14
    }

    /// See [`CompactKind`].
    #[inline]
    pub(crate) const fn kind(&self) -> CompactKind {
        self.kind
    }

    /// It is the key of a plain packet.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.kind != CompactKind::None
    }

    /// Where the headers lie.
    #[inline]
    #[must_use]
    pub fn layers(&self) -> Layers {
        self.layers_with(if self.kind == CompactKind::V4 { 20 } else { 40 })
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

/// The front of a frame; of one that is shorter, padded with the zeros that there is room for it
/// in.
#[inline]
fn front<'a, const LEN: usize>(head: &'a [u8], room: &'a mut [u8; LEN]) -> &'a [u8; LEN] {
    head.first_chunk().unwrap_or_else(|| {
        room[..head.len()].copy_from_slice(head);
        room
    })
}

/// Whether the head of a packet that goes on behind it may end before its headers do.
#[cold]
const fn may_lack_headers(head: &[u8]) -> bool {
    head.len() < HEAD_LEN
}

/// Whether a header of L4 of a kind is whole: where it begins and the packet ends, by what the
/// headers before say, which may be anything; the byte of TCP's data offset; and how many bytes of
/// the frame are in its head, and altogether.
#[inline(always)]
const fn is_whole<const L4: usize>((l4, end): (usize, usize), offset: u8, (head, len): (usize, usize)) -> bool {
    // A branch each: nearly all packets take the same ones.
    if end > len || head < l4 + L4_LEN[L4] {
        return false;
    }
    if L4 != TCP {
        return end >= l4 + L4_LEN[L4];
    }
    if offset < 5 << 4 {
        return false;
    }
    end >= l4 + (offset >> 4) as usize * 4
}
