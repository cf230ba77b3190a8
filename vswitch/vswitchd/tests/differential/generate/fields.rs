//! The fields that the generator uses: their names in matches, in set_field and in subfields, and
//! when they exist.

use super::rng::Rng;
use crate::frame::Kind;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What a flow says about a packet's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proto {
    /// Nothing.
    Any,
    /// It is of this kind.
    Of(Kind),
}

impl Proto {
    /// As it stands in a match.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Of(kind) => match kind {
                Kind::Eth => "dl_type=0x88b5",
                Kind::Arp => "arp",
                Kind::Rarp => "rarp",
                Kind::Ip => "ip",
                Kind::Tcp => "tcp",
                Kind::Udp => "udp",
                Kind::Sctp => "sctp",
                Kind::Icmp => "icmp",
                Kind::Igmp => "ip,nw_proto=2",
                Kind::Ip6 => "ipv6",
                Kind::Tcp6 => "tcp6",
                Kind::Udp6 => "udp6",
                Kind::Sctp6 => "sctp6",
                Kind::Icmp6 => "icmp6",
                Kind::Ns => "icmp6,icmp_type=135,icmp_code=0",
                Kind::Na => "icmp6,icmp_type=136,icmp_code=0",
            },
        }
    }
}

use Form::{Mac, Number, V4, V6};

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Number,
    Mac,
    V4,
    V6,
}

/// What must be known of a packet before a flow may use a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    Vlan,
    Arp,
    V4,
    V6,
    Ip,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmp6,
    Nd,
    Ns,
    Na,
}

impl Needs {
    /// Whether a flow with this protocol has it.
    pub(crate) fn met(self, proto: Proto, tagged: bool) -> bool {
        use Kind::{Icmp, Icmp6, Na, Ns, Sctp, Sctp6, Tcp, Tcp6, Udp, Udp6};
        let Proto::Of(kind) = proto else {
            return self == Self::Nothing || self == Self::Vlan && tagged;
        };
        match self {
            Self::Nothing => true,
            Self::Vlan => tagged,
            Self::Arp => matches!(kind, Kind::Arp | Kind::Rarp),
            Self::V4 => kind.is_v4(),
            Self::V6 => kind.is_v6(),
            Self::Ip => kind.is_v4() || kind.is_v6(),
            Self::Tcp => matches!(kind, Tcp | Tcp6),
            Self::Udp => matches!(kind, Udp | Udp6),
            Self::Sctp => matches!(kind, Sctp | Sctp6),
            Self::Icmp => kind == Icmp,
            Self::Icmp6 => matches!(kind, Icmp6 | Ns | Na),
            Self::Nd => matches!(kind, Ns | Na),
            Self::Ns => kind == Ns,
            Self::Na => kind == Na,
        }
    }
}

/// A field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FieldDef {
    /// In a match; empty: cannot be matched with a mask and value of this table's making.
    pub(crate) matched: &'static str,
    /// In set_field; empty: cannot be set.
    pub(crate) set: &'static str,
    /// In a subfield; empty: none.
    pub(crate) sub: &'static str,
    pub(crate) width: u32,
    pub(crate) form: Form,
    pub(crate) needs: Needs,
    /// Matches may have masks, and set_field too.
    pub(crate) masks: bool,
}

const fn field(
    matched: &'static str,
    set: &'static str,
    sub: &'static str,
    width: u32,
    form: Form,
    needs: Needs,
    masks: bool,
) -> FieldDef {
    FieldDef { matched, set, sub, width, form, needs, masks }
}

/// All of them.
pub(crate) static FIELDS: &[FieldDef] = &[
    field("reg0", "reg0", "NXM_NX_REG0", 32, Number, Needs::Nothing, true),
    field("reg1", "reg1", "NXM_NX_REG1", 32, Number, Needs::Nothing, true),
    field("reg2", "reg2", "NXM_NX_REG2", 32, Number, Needs::Nothing, true),
    field("reg7", "reg7", "NXM_NX_REG7", 32, Number, Needs::Nothing, true),
    field("reg15", "reg15", "NXM_NX_REG15", 32, Number, Needs::Nothing, true),
    field("xreg1", "xreg1", "OXM_OF_PKT_REG1", 64, Number, Needs::Nothing, true),
    field("xreg3", "xreg3", "OXM_OF_PKT_REG3", 64, Number, Needs::Nothing, true),
    field("xxreg0", "xxreg0", "NXM_NX_XXREG0", 128, Number, Needs::Nothing, true),
    field("xxreg3", "xxreg3", "NXM_NX_XXREG3", 128, Number, Needs::Nothing, true),
    field("metadata", "metadata", "OXM_OF_METADATA", 64, Number, Needs::Nothing, true),
    field("pkt_mark", "pkt_mark", "NXM_NX_PKT_MARK", 32, Number, Needs::Nothing, true),
    field("tun_id", "tun_id", "NXM_NX_TUN_ID", 64, Number, Needs::Nothing, true),
    field("dl_src", "eth_src", "NXM_OF_ETH_SRC", 48, Mac, Needs::Nothing, true),
    field("dl_dst", "eth_dst", "NXM_OF_ETH_DST", 48, Mac, Needs::Nothing, true),
    field("vlan_tci", "", "", 16, Number, Needs::Nothing, true),
    field("dl_vlan", "", "", 12, Number, Needs::Nothing, false),
    field("dl_vlan_pcp", "vlan_pcp", "OXM_OF_VLAN_PCP", 3, Number, Needs::Vlan, false),
    field("", "vlan_vid", "", 13, Number, Needs::Vlan, false),
    // Only 8 bits of it can be set.
    field("arp_op", "arp_op", "", 16, Number, Needs::Arp, false),
    field("arp_spa", "arp_spa", "NXM_OF_ARP_SPA", 32, V4, Needs::Arp, true),
    field("arp_tpa", "arp_tpa", "NXM_OF_ARP_TPA", 32, V4, Needs::Arp, true),
    field("arp_sha", "arp_sha", "NXM_NX_ARP_SHA", 48, Mac, Needs::Arp, true),
    field("arp_tha", "arp_tha", "NXM_NX_ARP_THA", 48, Mac, Needs::Arp, true),
    field("nw_src", "ip_src", "NXM_OF_IP_SRC", 32, V4, Needs::V4, true),
    field("nw_dst", "ip_dst", "NXM_OF_IP_DST", 32, V4, Needs::V4, true),
    field("ipv6_src", "ipv6_src", "NXM_NX_IPV6_SRC", 128, V6, Needs::V6, true),
    field("ipv6_dst", "ipv6_dst", "NXM_NX_IPV6_DST", 128, V6, Needs::V6, true),
    field("ipv6_label", "ipv6_label", "NXM_NX_IPV6_LABEL", 20, Number, Needs::V6, true),
    field("ip_dscp", "ip_dscp", "", 6, Number, Needs::Ip, false),
    field("nw_ecn", "nw_ecn", "NXM_NX_IP_ECN", 2, Number, Needs::Ip, false),
    field("nw_ttl", "nw_ttl", "NXM_NX_IP_TTL", 8, Number, Needs::Ip, false),
    field("tp_src", "tcp_src", "NXM_OF_TCP_SRC", 16, Number, Needs::Tcp, true),
    field("tp_dst", "tcp_dst", "NXM_OF_TCP_DST", 16, Number, Needs::Tcp, true),
    field("tcp_flags", "", "NXM_NX_TCP_FLAGS", 12, Number, Needs::Tcp, true),
    field("tp_src", "udp_src", "NXM_OF_UDP_SRC", 16, Number, Needs::Udp, true),
    field("tp_dst", "udp_dst", "NXM_OF_UDP_DST", 16, Number, Needs::Udp, true),
    field("tp_src", "sctp_src", "OXM_OF_SCTP_SRC", 16, Number, Needs::Sctp, true),
    field("tp_dst", "sctp_dst", "OXM_OF_SCTP_DST", 16, Number, Needs::Sctp, true),
    field("icmp_type", "icmp_type", "NXM_OF_ICMP_TYPE", 8, Number, Needs::Icmp, false),
    field("icmp_code", "icmp_code", "NXM_OF_ICMP_CODE", 8, Number, Needs::Icmp, false),
    field("", "icmpv6_type", "NXM_NX_ICMPV6_TYPE", 8, Number, Needs::Icmp6, false),
    field("", "icmpv6_code", "NXM_NX_ICMPV6_CODE", 8, Number, Needs::Icmp6, false),
    field("nd_target", "nd_target", "NXM_NX_ND_TARGET", 128, V6, Needs::Nd, true),
    field("nd_sll", "nd_sll", "NXM_NX_ND_SLL", 48, Mac, Needs::Ns, true),
    field("nd_tll", "nd_tll", "NXM_NX_ND_TLL", 48, Mac, Needs::Na, true),
    // Read only.
    field("", "", "NXM_OF_IN_PORT", 16, Number, Needs::Nothing, false),
    field("", "", "NXM_OF_ETH_TYPE", 16, Number, Needs::Nothing, false),
    field("", "", "NXM_OF_VLAN_TCI", 16, Number, Needs::Nothing, false),
    field("", "", "NXM_OF_IP_PROTO", 8, Number, Needs::Ip, false),
];

impl FieldDef {
    /// All its bits.
    pub(crate) fn ones(&self) -> u128 {
        u128::MAX >> (128 - self.width)
    }

    /// Whether it is metadata: no packet carries it.
    pub(crate) fn is_metadata(&self) -> bool {
        self.matched.contains("reg") || ["metadata", "pkt_mark", "tun_id"].contains(&self.matched)
    }

    /// A value as text.
    pub(crate) fn value(&self, value: u128) -> String {
        match self.form {
            Number if self.width <= 8 || self.matched.starts_with("tp_") => value.to_string(),
            Number => format!("{value:#x}"),
            Mac => {
                let bytes = value.to_be_bytes();
                let bytes = bytes[10..].iter().map(|byte| format!("{byte:02x}"));
                bytes.collect::<Vec<_>>().join(":")
            }
            V4 => Ipv4Addr::from_bits(u32::try_from(value & 0xffff_ffff).expect("masked")).to_string(),
            V6 => Ipv6Addr::from_bits(value).to_string(),
        }
    }

    /// A value and a mask as text.
    pub(crate) fn masked(&self, value: u128, mask: u128) -> String {
        if mask == self.ones() {
            self.value(value)
        } else if self.form == Number {
            format!("{value:#x}/{mask:#x}")
        } else {
            format!("{}/{}", self.value(value), self.value(mask))
        }
    }

    /// Some bits of it: `NXM_NX_REG0[3..7]`.
    pub(crate) fn bits(&self, start: u32, len: u32) -> String {
        if start == 0 && len == self.width {
            format!("{}[]", self.sub)
        } else if len == 1 {
            format!("{}[{start}]", self.sub)
        } else {
            format!("{}[{start}..{}]", self.sub, start + len - 1)
        }
    }

    /// A random mask: whole mostly, a prefix, or any bits.
    pub(crate) fn random_mask(&self, rng: &mut Rng) -> u128 {
        if !self.masks || rng.chance(45) {
            return self.ones();
        }
        let width = usize::try_from(self.width).expect("small");
        let mask = match rng.below(3) {
            0 => self.ones() << rng.between(1, width - 1),
            1 => self.ones() >> rng.between(1, width - 1),
            _ => rng.wide() | rng.wide(),
        };
        let mask = mask & self.ones();
        // Open vSwitch takes an IPv6 mask that begins with a decimal digit for a prefix length.
        let unreadable = self.form == V6 && self.value(mask).starts_with(|c: char| c.is_ascii_digit());
        if mask == 0 || unreadable { self.ones() } else { mask }
    }
}
