//! The table of fields: where each one lies in a [`crate::FlowKey`], what it is called, how its
//! values are written, when it exists.
//!
//! Positions and names stand here, beside the enum; the other columns are in `field/info.rs`, the
//! prerequisites in `field/prerequisite.rs`. Widths are ours: where Open vSwitch counts the bits of
//! `NAME[]` differently, [`FieldInfo::bits`] says so.

mod info;
mod lookup;
mod prerequisite;
#[cfg(test)]
mod tests;

pub use info::{FieldInfo, Format};
pub(crate) use lookup::lower;
pub use lookup::{field_by_name, names, subfield_field_by_name};
pub use prerequisite::{Prerequisite, number};

/// Where a field lies: `width` bits of word `word`, the lowest of them at `shift`. 128-bit fields
/// take `word` (high half) and `word + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Index of the word.
    pub word: u8,
    /// Bit of the word where the field's lowest bit lies.
    pub shift: u8,
    /// Bits of the field.
    pub width: u8,
}

macro_rules! fields {
    ($($variant:ident $name:literal $word:literal $shift:literal $width:literal;)*) => {
        /// A field of a packet or of its metadata, by the names of ovs-fields(7).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Field { $(#[doc = concat!("`", $name, "`")] $variant,)* }

        impl Field {
            /// All fields, in order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            const LOCATIONS: &[Location] = &[$(Location { word: $word, shift: $shift, width: $width }),*];
            const NAMES: &[&str] = &[$($name),*];
        }
    };
}

// variant, name, word, shift, width. Keep in step with the layout in key.rs.
fields! {
    Metadata "metadata" 0 0 64;
    Reg0 "reg0" 1 32 32; Reg1 "reg1" 1 0 32; Reg2 "reg2" 2 32 32; Reg3 "reg3" 2 0 32;
    Reg4 "reg4" 3 32 32; Reg5 "reg5" 3 0 32; Reg6 "reg6" 4 32 32; Reg7 "reg7" 4 0 32;
    Reg8 "reg8" 5 32 32; Reg9 "reg9" 5 0 32; Reg10 "reg10" 6 32 32; Reg11 "reg11" 6 0 32;
    Reg12 "reg12" 7 32 32; Reg13 "reg13" 7 0 32; Reg14 "reg14" 8 32 32; Reg15 "reg15" 8 0 32;
    Xreg0 "xreg0" 1 0 64; Xreg1 "xreg1" 2 0 64; Xreg2 "xreg2" 3 0 64; Xreg3 "xreg3" 4 0 64;
    Xreg4 "xreg4" 5 0 64; Xreg5 "xreg5" 6 0 64; Xreg6 "xreg6" 7 0 64; Xreg7 "xreg7" 8 0 64;
    Xxreg0 "xxreg0" 1 0 128; Xxreg1 "xxreg1" 3 0 128; Xxreg2 "xxreg2" 5 0 128; Xxreg3 "xxreg3" 7 0 128;
    TunId "tun_id" 9 0 64;
    TunSrc "tun_src" 10 32 32; TunDst "tun_dst" 10 0 32;
    TunIpv6Src "tun_ipv6_src" 11 0 128; TunIpv6Dst "tun_ipv6_dst" 13 0 128;
    TunFlags "tun_flags" 15 48 16; TunGbpId "tun_gbp_id" 15 32 16; TunGbpFlags "tun_gbp_flags" 15 24 8;
    TunTos "tun_tos" 15 16 8; TunTtl "tun_ttl" 15 8 8;
    // ct_state is 32 bits wide in moves; the bits above the eight flags are always 0, and no match
    // looks at them.
    CtMark "ct_mark" 16 32 32; CtZone "ct_zone" 24 0 16; CtState "ct_state" 16 0 32;
    CtLabel "ct_label" 17 0 128;
    CtNwSrc "ct_nw_src" 19 32 32; CtNwDst "ct_nw_dst" 19 0 32;
    CtIpv6Src "ct_ipv6_src" 20 0 128; CtIpv6Dst "ct_ipv6_dst" 22 0 128;
    CtTpSrc "ct_tp_src" 24 48 16; CtTpDst "ct_tp_dst" 24 32 16; CtNwProto "ct_nw_proto" 24 24 8;
    PktMark "pkt_mark" 25 32 32; InPort "in_port" 25 0 32;
    ConjId "conj_id" 26 32 32; ActsetOutput "actset_output" 26 0 32;
    RecircId "recirc_id" 27 32 32; DpHash "dp_hash" 27 0 32;
    EthDst "eth_dst" 28 16 48; EthType "eth_type" 28 0 16;
    // vlan_tci is the whole tag word of OVS: bit 12 is "present". vlan_vid is the 12 bits with the
    // present bit, as in OpenFlow.
    EthSrc "eth_src" 29 16 48; VlanTci "vlan_tci" 29 0 16;
    DlVlan "dl_vlan" 29 0 12; VlanVid "vlan_vid" 29 0 13; VlanPcp "vlan_pcp" 29 13 3;
    VlanTpid0 "vlan_tpid" 30 48 16; VlanTpid1 "vlan_tpid1" 30 32 16; VlanTci1 "vlan_tci1" 30 16 16;
    NwSrc "ip_src" 31 32 32; NwDst "ip_dst" 31 0 32;
    ArpSpa "arp_spa" 31 32 32; ArpTpa "arp_tpa" 31 0 32;
    Ipv6Src "ipv6_src" 32 0 128; Ipv6Dst "ipv6_dst" 34 0 128;
    // The low 20 bits of its 32.
    Ipv6Label "ipv6_label" 36 32 20;
    NwTos "nw_tos" 36 24 8; IpDscp "ip_dscp" 36 26 6; NwEcn "nw_ecn" 36 24 2;
    NwTtl "nw_ttl" 36 16 8; NwProto "nw_proto" 36 8 8; ArpOp "arp_op" 36 8 8; NwFrag "ip_frag" 36 0 8;
    TpSrc "tp_src" 37 48 16; TpDst "tp_dst" 37 32 16; TcpFlags "tcp_flags" 37 16 16;
    TcpSrc "tcp_src" 37 48 16; TcpDst "tcp_dst" 37 32 16; UdpSrc "udp_src" 37 48 16; UdpDst "udp_dst" 37 32 16;
    SctpSrc "sctp_src" 37 48 16; SctpDst "sctp_dst" 37 32 16;
    IcmpType "icmp_type" 37 48 8; IcmpCode "icmp_code" 37 32 8; Icmpv6Type "icmpv6_type" 37 48 8; Icmpv6Code "icmpv6_code" 37 32 8;
    ArpSha "arp_sha" 38 16 48; ArpTha "arp_tha" 39 16 48; NdSll "nd_sll" 38 16 48; NdTll "nd_tll" 39 16 48;
    NdTarget "nd_target" 40 0 128;
    IgmpGroup "igmp_group_ip4" 42 32 32; NdReserved "nd_reserved" 42 0 32; NdOptionsType "nd_options_type" 38 0 8;
    // 16 bytes each, values at the low end, as the mapping of a Geneve option to a field defines.
    TunMetadata0 "tun_metadata0" 43 0 128; TunMetadata1 "tun_metadata1" 45 0 128; TunMetadata2 "tun_metadata2" 47 0 128;
    TunMetadata3 "tun_metadata3" 49 0 128; TunMetadata4 "tun_metadata4" 51 0 128; TunMetadata5 "tun_metadata5" 53 0 128;
    TunMetadata6 "tun_metadata6" 55 0 128; TunMetadata7 "tun_metadata7" 57 0 128;
}

impl Field {
    /// The tuple of a connection's first packet, of both versions of IP (ovs-fields(7), "Connection
    /// Tracking Fields").
    pub const CT_TUPLE: [Self; 7] =
        [Self::CtNwSrc, Self::CtNwDst, Self::CtIpv6Src, Self::CtIpv6Dst, Self::CtNwProto, Self::CtTpSrc, Self::CtTpDst];

    /// Where it lies.
    #[inline]
    #[must_use]
    pub const fn location(self) -> Location {
        Self::LOCATIONS[self as usize]
    }

    /// Bits.
    #[inline]
    #[must_use]
    pub const fn width(self) -> u32 {
        Self::LOCATIONS[self as usize].width as u32
    }

    /// Its first name in ovs-fields(7), as in `set_field:...->ip_src`. (Matches print others:
    /// `nw_src`, `tp_dst`.)
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// All its bits set.
    #[inline]
    #[must_use]
    pub const fn ones(self) -> u128 {
        u128::MAX >> (128 - self.width())
    }

    /// The bits that are the field's own, where others lie within it: the two lowest of `nw_tos`
    /// are `nw_ecn`.
    #[must_use]
    pub const fn own_bits(self) -> u128 {
        match self {
            Self::NwTos => self.exact_mask(),
            _ => self.ones(),
        }
    }

    /// The 32-bit register of a number below 16.
    #[must_use]
    pub fn reg(number: usize) -> Option<Self> {
        Self::ALL.get(Self::Reg0 as usize + number).copied().filter(|_| number < 16)
    }
}

/// Some bits of a field: `len` bits from `start`, the field's lowest bit being 0.
/// `NXM_NX_REG0[0..3]` is `Reg0`, 0, 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subfield {
    /// The field.
    pub field: Field,
    /// First bit.
    pub start: u8,
    /// Number of bits, at least 1.
    pub len: u8,
}

impl Subfield {
    /// All of a field.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // at most 128
    pub const fn whole(field: Field) -> Self {
        Self { field, start: 0, len: field.width() as u8 }
    }

    /// Whether it is what `NAME[]` means, or all of the field where that is more.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        let (len, bits) = (self.len as u32, self.field.info().bits as u32);
        self.start == 0 && (len == bits || len == self.field.width() && len > bits)
    }

    /// Its bits within the field, and beyond it where `NAME[]` is more than the field.
    #[inline]
    #[must_use]
    pub const fn mask(self) -> u128 {
        (u128::MAX >> (128 - self.len as u32)) << self.start
    }
}
