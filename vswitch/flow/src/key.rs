//! A packet with its metadata, as words; and masks over it.
//!
//! ```text
//! word   bits 63..0
//! 0      metadata
//! 1-8    reg0 32, reg1 32 (= xreg0), ...
//! 9      tun_id
//! 10     tun_src 32, tun_dst 32
//! 11     tun_ipv6_src (2), 13: tun_ipv6_dst (2)
//! 15     tun flags 16, gbp id 16, gbp flags 8, tos, ttl
//! 16     ct_mark 32, ct_state 32
//! 17     ct_label (2)
//! 19     ct_nw_src 32, ct_nw_dst 32
//! 20     ct_ipv6_src (2), 22: ct_ipv6_dst (2)
//! 24     ct_tp_src, ct_tp_dst, ct_nw_proto 8, -, ct_zone
//! 25     pkt_mark 32, in_port 32
//! 26     conj_id 32, actset_output 32
//! 27     recirc_id 32, dp_hash 32
//! 28     eth_dst 48, eth_type 16
//! 29     eth_src 48, vlan_tci 16 (bit 12: there is a tag)
//! 30     TPID of tag 0, TPID of tag 1, TCI of tag 1, -
//! 31     nw_src 32, nw_dst 32 (arp_spa, arp_tpa)
//! 32     ipv6_src (2), 34: ipv6_dst (2)
//! 36     ipv6_label 32, tos 8, ttl 8, proto 8, frag 8
//! 37     tp_src 16, tp_dst 16, tcp_flags 16, -
//! 38     arp_sha 48 (nd_sll), nd_options_type; 39: arp_tha 48 (nd_tll)
//! 40     nd_target (2)
//! 42     igmp_group_ip4 32, nd_reserved 32
//! 43-58  tun_metadata0 (2) .. tun_metadata7 (2)
//! ```
//! The lowest 8 bits of word 15 say which of tun_metadata0 to tun_metadata7 the packet has: an
//! option may be there and be 0. No field is made of them ([`TUNNEL_WORD`]).
//!
//! All values are numbers (first byte on the wire most significant), not bytes in network order.

use crate::field::number::FRAG_ANY;
use crate::{Field, Location, Subfield};

/// Words of a key. At most 64: a bitmap of words is a `u64`.
pub const WORDS: usize = 59;

/// First word of what is read from the packet's bytes; the words before it are metadata.
pub const FIRST_PACKET_WORD: usize = 28;
/// Word after the last one of what is read from the packet's bytes (tunnel options follow).
pub const LAST_PACKET_WORD: usize = 43;

const PORTS: usize = Field::TpSrc.location().word as usize;
const PORT_BITS: u64 = 0xffff_ffff << 32;

/// The word whose lowest 8 bits say which `tun_metadata` a packet has.
pub const TUNNEL_WORD: usize = Field::TunFlags.location().word as usize;

/// Indexes of the words that are metadata: not read from the packet's bytes.
pub fn metadata_words() -> impl Iterator<Item = usize> {
    (0..FIRST_PACKET_WORD).chain(LAST_PACKET_WORD..WORDS)
}

/// Ports that a lookup does not see. See [`FlowKey::hide_fragment_ports`].
#[derive(Debug)]
#[must_use = "the ports are to be put back"]
pub struct HiddenPorts(u64);

macro_rules! words {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Hash)]
        #[repr(align(64))]
        pub struct $name(pub [u64; WORDS]);

        impl Default for $name {
            fn default() -> Self {
                Self([0; WORDS])
            }
        }

        impl $name {
            /// The bits of a field.
            #[inline]
            #[must_use]
            pub const fn get(&self, field: Field) -> u128 {
                let Location { word, shift, width } = field.location();
                let word = word as usize;
                if width == 128 {
                    (self.0[word] as u128) << 64 | self.0[word + 1] as u128
                } else {
                    ((self.0[word] >> shift) & (u64::MAX >> (64 - width))) as u128
                }
            }

            /// Replaces the bits of a field. What does not fit is cut off.
            #[inline]
            pub const fn set(&mut self, field: Field, value: u128) {
                self.set_masked(field, value, field.ones());
            }

            /// Replaces those bits of a field that `mask` selects.
            #[inline]
            #[allow(clippy::cast_possible_truncation)] // halves of 128 bits
            pub const fn set_masked(&mut self, field: Field, value: u128, mask: u128) {
                let Location { word, shift, width } = field.location();
                let word = word as usize;
                let mask = mask & field.ones();
                if width == 128 {
                    self.0[word] = self.0[word] & !((mask >> 64) as u64) | ((value & mask) >> 64) as u64;
                    self.0[word + 1] = self.0[word + 1] & !(mask as u64) | (value & mask) as u64;
                } else {
                    self.0[word] = self.0[word] & !((mask as u64) << shift) | ((value & mask) as u64) << shift;
                }
            }

            /// The bits of a subfield, as a number.
            #[inline]
            #[must_use]
            pub const fn get_sub(&self, sub: Subfield) -> u128 {
                (self.get(sub.field) & sub.mask()) >> sub.start
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let words = self.0.iter().enumerate().filter(|(_, word)| **word != 0);
                f.debug_map().entries(words.map(|(i, word)| (i, format!("{word:#x}")))).finish()
            }
        }
    };
}

words! {
    /// A packet with all its metadata.
    FlowKey
}

words! {
    /// A set of bits of a [`FlowKey`]: the bits that matter to a match, or that a decision has
    /// used.
    FlowMask
}

impl FlowMask {
    /// Adds all bits of a field.
    #[inline]
    pub const fn add(&mut self, field: Field) {
        self.set(field, u128::MAX);
    }

    /// Adds some bits of a field.
    #[inline]
    pub const fn add_bits(&mut self, field: Field, bits: u128) {
        self.set_masked(field, u128::MAX, bits);
    }

    /// Adds all bits of another mask.
    #[inline]
    pub fn add_mask(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    /// Which words have bits: bit `i` for word `i`.
    #[inline]
    #[must_use]
    pub fn map(&self) -> u64 {
        self.0.iter().enumerate().fold(0, |map, (i, word)| map | u64::from(*word != 0) << i)
    }

    /// Whether every bit of `other` is in this mask.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(word, other)| other & !word == 0)
    }
}

impl FlowKey {
    /// Which of `tun_metadata0` to `tun_metadata7` the packet has, one bit each.
    #[inline]
    #[must_use]
    pub const fn tunnel_options(&self) -> u8 {
        (self.0[TUNNEL_WORD] & 0xff) as u8
    }

    /// Says which of them it has.
    #[inline]
    pub const fn set_tunnel_options(&mut self, present: u8) {
        self.0[TUNNEL_WORD] = self.0[TUNNEL_WORD] & !0xff | present as u64;
    }

    /// Replaces the bits of a subfield by a number. What does not fit is cut off. The 16-bit form
    /// of `in_port` stands for the whole: 0xfffe is LOCAL.
    #[inline]
    pub const fn set_sub(&mut self, sub: Subfield, value: u128) {
        const IN_PORT_16: Subfield = Subfield { field: Field::InPort, start: 0, len: 16 };
        if matches!(sub.field, Field::InPort) && sub.start == IN_PORT_16.start && sub.len == IN_PORT_16.len {
            let number = value & 0xffff;
            let reserved = if number >= 0xff00 { 0xffff_0000 } else { 0 };
            return self.set(Field::InPort, number | reserved);
        }
        self.set_masked(sub.field, value << sub.start, sub.mask());
    }

    /// For a lookup: the ports of a first fragment as tables see them, 0 (`frags=normal` of
    /// ovs-ofctl(8)); they are in the packet, and actions can read and write them. Behind `ct()`,
    /// where a datagram is complete, nothing is hidden. Other packets stay as they are. Put the
    /// ports back ([`Self::restore_ports`]) afterwards.
    #[inline]
    pub const fn hide_fragment_ports(&mut self) -> HiddenPorts {
        let recirculated = self.get(Field::RecircId) != 0;
        let (ip, ports) = (self.0[Field::NwFrag.location().word as usize], &mut self.0[PORTS]);
        let hidden = if ip & FRAG_ANY as u64 == 0 || recirculated { 0 } else { *ports & PORT_BITS };
        *ports &= !hidden;
        HiddenPorts(hidden)
    }

    /// Puts back what [`Self::hide_fragment_ports`] took away.
    #[inline]
    #[allow(clippy::needless_pass_by_value)] // used up
    pub const fn restore_ports(&mut self, hidden: HiddenPorts) {
        self.0[PORTS] |= hidden.0;
    }

    /// Takes the metadata of another packet. Words that are read from a packet's bytes stay as they
    /// are.
    #[inline]
    pub fn copy_metadata(&mut self, from: &Self) {
        self.0[..FIRST_PACKET_WORD].copy_from_slice(&from.0[..FIRST_PACKET_WORD]);
        self.0[LAST_PACKET_WORD..].copy_from_slice(&from.0[LAST_PACKET_WORD..]);
    }

    /// The metadata of this packet, with the bits that are `defined` as `written` has them. Words
    /// that are read from the packet's bytes are 0.
    #[must_use]
    pub fn metadata_with(&self, written: &Self, defined: &FlowMask) -> Self {
        let mut key = Self::default();
        for i in metadata_words() {
            key.0[i] = written.0[i] & defined.0[i] | self.0[i] & !defined.0[i];
        }
        key
    }

    /// The key with all bits outside a mask cleared.
    #[must_use]
    pub fn masked(&self, mask: &FlowMask) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & mask.0[i]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back_and_their_neighbours_stay() {
        for field in Field::ALL.iter().copied() {
            let mut key = FlowKey([u64::MAX; WORDS]);
            key.set(field, 0);
            assert_eq!(key.get(field), 0, "{field:?}");
            let zeros: u32 = key.0.iter().map(|word| word.count_zeros()).sum();
            assert_eq!(zeros, field.width(), "{field:?}");
            let value = 0x0123_4567_89ab_cdef_0011_2233_4455_6677 & field.ones();
            key.set(field, value);
            assert_eq!(key.get(field), value, "{field:?}");
            // More than fits is cut off.
            key.set(field, u128::MAX);
            assert_eq!(key, FlowKey([u64::MAX; WORDS]), "{field:?}");
            key.set_masked(field, 0, 0b10);
            assert_eq!(key.get(field), field.ones() & !0b10, "{field:?}");
        }
    }

    #[test]
    fn subfields() {
        let mut key = FlowKey::default();
        let middle = Subfield { field: Field::Xxreg1, start: 60, len: 8 };
        key.set_sub(middle, 0xa5);
        assert_eq!((key.get_sub(middle), key.get(Field::Xxreg1)), (0xa5, 0xa5 << 60));
        assert_eq!((key.get(Field::Reg5), key.get(Field::Reg6)), (0xa, 0x5000_0000));
        key.set_sub(middle, 0x1ff);
        assert_eq!(key.get(Field::Xxreg1), 0xff << 60);
    }

    #[test]
    fn the_short_form_of_in_port_is_the_whole_port() {
        let short = Subfield { field: Field::InPort, start: 0, len: 16 };
        let mut key = FlowKey::default();
        for (written, port) in [(0xfffe, 0xffff_fffe), (7, 7), (0xff00, 0xffff_ff00), (0xfeff, 0xfeff), (0x1_0005, 5)] {
            key.set_sub(short, written);
            assert_eq!(key.get(Field::InPort), port, "{written:#x}");
            assert_eq!(key.get_sub(short), written & 0xffff);
        }
        key.set(Field::InPort, 0xffff_fffe);
        key.set_sub(Subfield { len: 4, ..short }, 3);
        assert_eq!(key.get(Field::InPort), 0xffff_fff3);
    }

    #[test]
    fn masks() {
        let mut mask = FlowMask::default();
        assert_eq!(mask.map(), 0);
        mask.add(Field::Reg1);
        mask.add_bits(Field::Ipv6Dst, 1);
        assert_eq!(mask.map(), 1 << 1 | 1 << 35);
        let mut more = mask.clone();
        more.add(Field::Xreg0);
        assert!(more.contains(&mask) && !mask.contains(&more));
        mask.add_mask(&more);
        assert_eq!(mask, more);
        let key = FlowKey([u64::MAX; WORDS]).masked(&mask);
        assert_eq!(key.0, mask.0);
        assert_eq!(format!("{mask:?}"), r#"{1: "0xffffffffffffffff", 35: "0x1"}"#);
    }
}
