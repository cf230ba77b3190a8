//! The other columns of the field table, from ovs-fields(7).

use super::{Field, Prerequisite};

/// How values of a field are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A decimal number; hexadecimal with a mask, in matches.
    Decimal,
    /// A hexadecimal number.
    Hex,
    /// `00:11:22:33:44:55`.
    Ethernet,
    /// `10.0.0.0/8`.
    Ipv4,
    /// `2001:db8::/32`.
    Ipv6,
    /// A port's number or name.
    Port,
    /// `no`, `yes`, `first`, `later`, `not_later`.
    Frag,
    /// `+syn-ack`, `syn|ack`.
    TcpFlags,
    /// `+oam`.
    TunFlags,
    /// `+new-est`, `new|trk`.
    CtState,
}

/// What is to be known of a field beside its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// The field.
    pub field: Field,
    /// How its values are written.
    pub format: Format,
    /// Whether a match may look at some of its bits only.
    pub maskable: bool,
    /// When it exists.
    pub prerequisite: Prerequisite,
    /// Whether actions may write it.
    pub writable: bool,
    /// Its name in the Nicira extensions (`NXM_NX_REG0`), empty if it has none.
    pub nxm: &'static str,
    /// Its name in OpenFlow (`OXM_OF_IPV4_SRC`), empty if it has none.
    pub oxm: &'static str,
    /// Other names in ovs-fields(7) and ovs-ofctl(8).
    pub aliases: &'static [&'static str],
    /// Bits that `NAME[]` means, from the lowest. Less than [`Field::width`] where our field has
    /// helper bits beside the value that OpenFlow knows: `OXM_OF_VLAN_VID[]` is 12 bits, our
    /// `vlan_vid` has the present bit above them. More where a key has less than the packet:
    /// `NXM_OF_ARP_OP[]` is 16 bits, of which Open vSwitch knows 8: the others read as 0, and what
    /// is written there is lost.
    pub bits: u8,
}

macro_rules! info {
    ($($field:ident $format:ident $maskable:ident $prerequisite:ident $access:ident $nxm:literal $oxm:literal
       [$($alias:literal),*] $($bits:literal)?;)*) => {
        const INFO: &[FieldInfo] = &[$(FieldInfo {
            field: Field::$field,
            format: Format::$format,
            maskable: info!(@ $maskable),
            prerequisite: Prerequisite::$prerequisite,
            writable: info!(@ $access),
            nxm: $nxm,
            oxm: $oxm,
            aliases: &[$($alias),*],
            bits: info!(@ $field $($bits)?),
        }),*];
    };
    (@ masked) => { true };
    (@ whole) => { false };
    (@ rw) => { true };
    (@ ro) => { false };
    (@ $field:ident $bits:literal) => { $bits };
    (@ $field:ident) => { Field::LOCATIONS[Field::$field as usize].width };
}

// field, format, masks allowed or not, prerequisite, writable or not, NXM name, OXM name,
// [aliases], bits of NAME[] if not the width. In the order of the enum (a test compares).
info! {
    Metadata Hex masked None rw "" "OXM_OF_METADATA" [];
    Reg0 Hex masked None rw "NXM_NX_REG0" "" [];
    Reg1 Hex masked None rw "NXM_NX_REG1" "" [];
    Reg2 Hex masked None rw "NXM_NX_REG2" "" [];
    Reg3 Hex masked None rw "NXM_NX_REG3" "" [];
    Reg4 Hex masked None rw "NXM_NX_REG4" "" [];
    Reg5 Hex masked None rw "NXM_NX_REG5" "" [];
    Reg6 Hex masked None rw "NXM_NX_REG6" "" [];
    Reg7 Hex masked None rw "NXM_NX_REG7" "" [];
    Reg8 Hex masked None rw "NXM_NX_REG8" "" [];
    Reg9 Hex masked None rw "NXM_NX_REG9" "" [];
    Reg10 Hex masked None rw "NXM_NX_REG10" "" [];
    Reg11 Hex masked None rw "NXM_NX_REG11" "" [];
    Reg12 Hex masked None rw "NXM_NX_REG12" "" [];
    Reg13 Hex masked None rw "NXM_NX_REG13" "" [];
    Reg14 Hex masked None rw "NXM_NX_REG14" "" [];
    Reg15 Hex masked None rw "NXM_NX_REG15" "" [];
    Xreg0 Hex masked None rw "" "OXM_OF_PKT_REG0" [];
    Xreg1 Hex masked None rw "" "OXM_OF_PKT_REG1" [];
    Xreg2 Hex masked None rw "" "OXM_OF_PKT_REG2" [];
    Xreg3 Hex masked None rw "" "OXM_OF_PKT_REG3" [];
    Xreg4 Hex masked None rw "" "OXM_OF_PKT_REG4" [];
    Xreg5 Hex masked None rw "" "OXM_OF_PKT_REG5" [];
    Xreg6 Hex masked None rw "" "OXM_OF_PKT_REG6" [];
    Xreg7 Hex masked None rw "" "OXM_OF_PKT_REG7" [];
    Xxreg0 Hex masked None rw "NXM_NX_XXREG0" "" [];
    Xxreg1 Hex masked None rw "NXM_NX_XXREG1" "" [];
    Xxreg2 Hex masked None rw "NXM_NX_XXREG2" "" [];
    Xxreg3 Hex masked None rw "NXM_NX_XXREG3" "" [];
    TunId Hex masked None rw "NXM_NX_TUN_ID" "OXM_OF_TUNNEL_ID" ["tunnel_id"];
    TunSrc Ipv4 masked None rw "NXM_NX_TUN_IPV4_SRC" "" [];
    TunDst Ipv4 masked None rw "NXM_NX_TUN_IPV4_DST" "" [];
    TunIpv6Src Ipv6 masked None rw "NXM_NX_TUN_IPV6_SRC" "" [];
    TunIpv6Dst Ipv6 masked None rw "NXM_NX_TUN_IPV6_DST" "" [];
    TunFlags TunFlags masked None rw "NXM_NX_TUN_FLAGS" "" [] 1;
    TunGbpId Decimal masked None rw "NXM_NX_TUN_GBP_ID" "" [];
    TunGbpFlags Hex masked None rw "NXM_NX_TUN_GBP_FLAGS" "" [];
    TunTos Decimal whole None ro "" "" [];
    TunTtl Decimal whole None ro "" "" [];
    CtMark Hex masked None rw "NXM_NX_CT_MARK" "" [];
    CtZone Hex whole None ro "NXM_NX_CT_ZONE" "" [];
    CtState CtState masked None ro "NXM_NX_CT_STATE" "" [];
    CtLabel Hex masked None rw "NXM_NX_CT_LABEL" "" [];
    CtNwSrc Ipv4 masked CtIpv4 ro "NXM_NX_CT_NW_SRC" "" [];
    CtNwDst Ipv4 masked CtIpv4 ro "NXM_NX_CT_NW_DST" "" [];
    CtIpv6Src Ipv6 masked CtIpv6 ro "NXM_NX_CT_IPV6_SRC" "" [];
    CtIpv6Dst Ipv6 masked CtIpv6 ro "NXM_NX_CT_IPV6_DST" "" [];
    CtTpSrc Decimal masked Ct ro "NXM_NX_CT_TP_SRC" "" [];
    CtTpDst Decimal masked Ct ro "NXM_NX_CT_TP_DST" "" [];
    CtNwProto Decimal whole Ct ro "NXM_NX_CT_NW_PROTO" "" [];
    PktMark Hex masked None rw "NXM_NX_PKT_MARK" "" [];
    InPort Port whole None rw "NXM_OF_IN_PORT" "OXM_OF_IN_PORT" ["in_port_oxm"] 16;
    ConjId Decimal whole None ro "NXM_NX_CONJ_ID" "" [];
    ActsetOutput Port whole None ro "" "ONFOXM_ET_ACTSET_OUTPUT" [];
    RecircId Hex whole None ro "NXM_NX_RECIRC_ID" "" [];
    DpHash Hex masked None ro "NXM_NX_DP_HASH" "" [];
    EthDst Ethernet masked None rw "NXM_OF_ETH_DST" "OXM_OF_ETH_DST" ["dl_dst"];
    EthType Hex whole None ro "NXM_OF_ETH_TYPE" "OXM_OF_ETH_TYPE" ["dl_type"];
    EthSrc Ethernet masked None rw "NXM_OF_ETH_SRC" "OXM_OF_ETH_SRC" ["dl_src"];
    VlanTci Hex masked None rw "NXM_OF_VLAN_TCI" "" [];
    DlVlan Decimal whole None rw "" "" [];
    VlanVid Decimal masked None rw "" "OXM_OF_VLAN_VID" [] 12;
    VlanPcp Decimal whole Vlan rw "" "OXM_OF_VLAN_PCP" ["dl_vlan_pcp"];
    VlanTpid0 Hex masked None ro "" "" [];
    VlanTpid1 Hex masked None ro "" "" [];
    VlanTci1 Hex masked None ro "" "" [];
    NwSrc Ipv4 masked Ipv4 rw "NXM_OF_IP_SRC" "OXM_OF_IPV4_SRC" ["nw_src"];
    NwDst Ipv4 masked Ipv4 rw "NXM_OF_IP_DST" "OXM_OF_IPV4_DST" ["nw_dst"];
    ArpSpa Ipv4 masked Arp rw "NXM_OF_ARP_SPA" "OXM_OF_ARP_SPA" [];
    ArpTpa Ipv4 masked Arp rw "NXM_OF_ARP_TPA" "OXM_OF_ARP_TPA" [];
    Ipv6Src Ipv6 masked Ipv6 rw "NXM_NX_IPV6_SRC" "OXM_OF_IPV6_SRC" [];
    Ipv6Dst Ipv6 masked Ipv6 rw "NXM_NX_IPV6_DST" "OXM_OF_IPV6_DST" [];
    Ipv6Label Hex masked Ipv6 rw "NXM_NX_IPV6_LABEL" "OXM_OF_IPV6_FLABEL" [];
    NwTos Decimal whole Ip rw "NXM_OF_IP_TOS" "" [];
    IpDscp Decimal whole Ip rw "" "OXM_OF_IP_DSCP" [];
    NwEcn Decimal whole Ip rw "NXM_NX_IP_ECN" "OXM_OF_IP_ECN" ["ip_ecn"];
    NwTtl Decimal whole Ip rw "NXM_NX_IP_TTL" "" ["ip_ttl"];
    NwProto Decimal whole Ip ro "NXM_OF_IP_PROTO" "OXM_OF_IP_PROTO" ["ip_proto"];
    ArpOp Decimal whole Arp rw "NXM_OF_ARP_OP" "OXM_OF_ARP_OP" [] 16;
    NwFrag Frag masked Ip ro "NXM_NX_IP_FRAG" "" ["nw_frag"] 2;
    TpSrc Decimal masked Transport rw "" "" [];
    TpDst Decimal masked Transport rw "" "" [];
    TcpFlags TcpFlags masked Tcp ro "NXM_NX_TCP_FLAGS" "ONFOXM_ET_TCP_FLAGS" [] 12;
    TcpSrc Decimal masked Tcp rw "NXM_OF_TCP_SRC" "OXM_OF_TCP_SRC" ["tp_src"];
    TcpDst Decimal masked Tcp rw "NXM_OF_TCP_DST" "OXM_OF_TCP_DST" ["tp_dst"];
    UdpSrc Decimal masked Udp rw "NXM_OF_UDP_SRC" "OXM_OF_UDP_SRC" [];
    UdpDst Decimal masked Udp rw "NXM_OF_UDP_DST" "OXM_OF_UDP_DST" [];
    SctpSrc Decimal masked Sctp rw "" "OXM_OF_SCTP_SRC" [];
    SctpDst Decimal masked Sctp rw "" "OXM_OF_SCTP_DST" [];
    IcmpType Decimal whole Icmp rw "NXM_OF_ICMP_TYPE" "OXM_OF_ICMPV4_TYPE" [];
    IcmpCode Decimal whole Icmp rw "NXM_OF_ICMP_CODE" "OXM_OF_ICMPV4_CODE" [];
    Icmpv6Type Decimal whole Icmpv6 rw "NXM_NX_ICMPV6_TYPE" "OXM_OF_ICMPV6_TYPE" [];
    Icmpv6Code Decimal whole Icmpv6 rw "NXM_NX_ICMPV6_CODE" "OXM_OF_ICMPV6_CODE" [];
    ArpSha Ethernet masked Arp rw "NXM_NX_ARP_SHA" "OXM_OF_ARP_SHA" [];
    ArpTha Ethernet masked Arp rw "NXM_NX_ARP_THA" "OXM_OF_ARP_THA" [];
    NdSll Ethernet masked NdSolicit rw "NXM_NX_ND_SLL" "OXM_OF_IPV6_ND_SLL" [];
    NdTll Ethernet masked NdAdvert rw "NXM_NX_ND_TLL" "OXM_OF_IPV6_ND_TLL" [];
    NdTarget Ipv6 masked Nd rw "NXM_NX_ND_TARGET" "OXM_OF_IPV6_ND_TARGET" [];
    IgmpGroup Ipv4 masked Igmp ro "" "" [];
    NdReserved Decimal whole Nd rw "ERICOXM_OF_ICMPV6_ND_RESERVED" "" [];
    NdOptionsType Decimal whole Nd rw "ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE" "" [];
    TunMetadata0 Hex masked None rw "NXM_NX_TUN_METADATA0" "" [];
    TunMetadata1 Hex masked None rw "NXM_NX_TUN_METADATA1" "" [];
    TunMetadata2 Hex masked None rw "NXM_NX_TUN_METADATA2" "" [];
    TunMetadata3 Hex masked None rw "NXM_NX_TUN_METADATA3" "" [];
    TunMetadata4 Hex masked None rw "NXM_NX_TUN_METADATA4" "" [];
    TunMetadata5 Hex masked None rw "NXM_NX_TUN_METADATA5" "" [];
    TunMetadata6 Hex masked None rw "NXM_NX_TUN_METADATA6" "" [];
    TunMetadata7 Hex masked None rw "NXM_NX_TUN_METADATA7" "" [];
}

impl Field {
    /// The other columns of the table.
    #[inline]
    #[must_use]
    pub const fn info(self) -> &'static FieldInfo {
        &INFO[self as usize]
    }

    /// Whether actions may write it (`set_field`, `load`, `move`).
    #[must_use]
    pub const fn is_writable(self) -> bool {
        self.info().writable
    }

    /// The bits that can be named in actions: what `NAME[]` means, by the wider name if there are
    /// two.
    #[must_use]
    pub const fn named_bits(self) -> u8 {
        match self {
            Self::InPort => 32,
            _ => self.info().bits,
        }
    }

    /// The mask that means "exactly" in a match: the bits that can be other than 0.
    #[must_use]
    pub const fn exact_mask(self) -> u128 {
        match self {
            Self::CtState => 0xff,
            Self::TcpFlags => 0xfff,
            Self::TunFlags => 1,
            Self::NwFrag => 3,
            // The other two bits are nw_ecn.
            Self::NwTos => 0xfc,
            _ => self.ones(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_in_the_order_of_the_enum() {
        assert_eq!(INFO.len(), Field::ALL.len());
        for (info, field) in INFO.iter().zip(Field::ALL) {
            assert_eq!(info.field, *field);
            assert!(u32::from(info.bits) <= field.width() || *field == Field::ArpOp, "{field:?}");
        }
    }
}
