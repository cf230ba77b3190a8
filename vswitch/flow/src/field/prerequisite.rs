//! When a field exists: what must be known of a packet before its bits mean something.

use super::Field;
use crate::{FlowKey, FlowMask, SparseMatch};

/// Ethernet types, IP protocols and other numbers that decide which fields there are.
pub mod number {
    /// IPv4.
    pub const ETH_IPV4: u16 = 0x0800;
    /// ARP.
    pub const ETH_ARP: u16 = 0x0806;
    /// Reverse ARP.
    pub const ETH_RARP: u16 = 0x8035;
    /// IPv6.
    pub const ETH_IPV6: u16 = 0x86dd;
    /// A customer VLAN tag.
    pub const ETH_VLAN: u16 = 0x8100;
    /// A provider VLAN tag.
    pub const ETH_QINQ: u16 = 0x88a8;
    /// MPLS.
    pub const ETH_MPLS: u16 = 0x8847;
    /// MPLS multicast.
    pub const ETH_MPLS_MCAST: u16 = 0x8848;
    /// What `eth_type` is for a frame that has none (IEEE 802.2).
    pub const ETH_NONE: u16 = 0x05ff;

    /// ICMP.
    pub const IP_ICMP: u8 = 1;
    /// IGMP.
    pub const IP_IGMP: u8 = 2;
    /// TCP.
    pub const IP_TCP: u8 = 6;
    /// UDP.
    pub const IP_UDP: u8 = 17;
    /// ICMPv6.
    pub const IP_ICMPV6: u8 = 58;
    /// SCTP.
    pub const IP_SCTP: u8 = 132;

    /// ICMPv6 type: neighbor solicitation.
    pub const ND_SOLICIT: u16 = 135;
    /// ICMPv6 type: neighbor advertisement.
    pub const ND_ADVERT: u16 = 136;

    /// Bit of `nw_frag`: a fragment, the first included.
    pub const FRAG_ANY: u8 = 1;
    /// Bit of `nw_frag`: not the first one.
    pub const FRAG_LATER: u8 = 2;

    /// Bit of `vlan_tci`: there is a tag.
    pub const VLAN_PRESENT: u16 = 0x1000;

    /// Flags of `ct_state`.
    pub const CT_NEW: u32 = 0x01;
    /// Established.
    pub const CT_EST: u32 = 0x02;
    /// Related to a connection (an ICMP error).
    pub const CT_REL: u32 = 0x04;
    /// In reply direction.
    pub const CT_RPL: u32 = 0x08;
    /// Invalid.
    pub const CT_INV: u32 = 0x10;
    /// Tracked.
    pub const CT_TRK: u32 = 0x20;
    /// Source translated.
    pub const CT_SNAT: u32 = 0x40;
    /// Destination translated.
    pub const CT_DNAT: u32 = 0x80;
}
use number::*;

/// What must hold before a field exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prerequisite {
    /// It is always there.
    None,
    /// A VLAN tag.
    Vlan,
    /// ARP or RARP.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// IPv4 or IPv6.
    Ip,
    /// TCP, UDP or SCTP in a packet that is no later fragment, or ICMP, ICMPv6: something with
    /// ports or with type and code.
    Transport,
    /// TCP, no later fragment.
    Tcp,
    /// UDP, no later fragment.
    Udp,
    /// SCTP, no later fragment.
    Sctp,
    /// ICMP over IPv4.
    Icmp,
    /// ICMPv6.
    Icmpv6,
    /// IGMP.
    Igmp,
    /// A neighbor solicitation or advertisement (code 0).
    Nd,
    /// A neighbor solicitation.
    NdSolicit,
    /// A neighbor advertisement.
    NdAdvert,
    /// A connection that the tracker knows.
    Ct,
    /// The same, of IPv4.
    CtIpv4,
    /// The same, of IPv6.
    CtIpv6,
}

impl Prerequisite {
    /// In words, for messages: "it needs ...".
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Vlan => "a VLAN tag (dl_vlan=N or vlan_tci=0x1000/0x1000)",
            Self::Arp => "arp or rarp",
            Self::Ipv4 => "ip",
            Self::Ipv6 => "ipv6",
            Self::Ip => "ip or ipv6",
            Self::Transport => "tcp, udp, sctp, icmp or their IPv6 forms",
            Self::Tcp => "tcp or tcp6",
            Self::Udp => "udp or udp6",
            Self::Sctp => "sctp or sctp6",
            Self::Icmp => "icmp",
            Self::Icmpv6 => "icmp6",
            Self::Igmp => "ip,nw_proto=2",
            Self::Nd => "icmp6,icmpv6_type=135 or 136,icmpv6_code=0",
            Self::NdSolicit => "icmp6,icmpv6_type=135,icmpv6_code=0",
            Self::NdAdvert => "icmp6,icmpv6_type=136,icmpv6_code=0",
            Self::Ct => "a ct_state with a valid connection (+new, +est, +rel, +rpl, +snat, +dnat or +trk-inv)",
            Self::CtIpv4 => {
                "ip and a ct_state with a valid connection (+new, +est, +rel, +rpl, +snat, +dnat or +trk-inv)"
            }
            Self::CtIpv6 => {
                "ipv6 and a ct_state with a valid connection (+new, +est, +rel, +rpl, +snat, +dnat or +trk-inv)"
            }
        }
    }
}

/// The parts of a key that prerequisites look at, 0 where a match does not look.
#[derive(Clone, Copy, Debug)]
struct Facts {
    eth_type: u16,
    vlan: bool,
    proto: u8,
    later: bool,
    tp_src: u16,
    tp_dst: u16,
    ct_valid: bool,
}

#[allow(clippy::cast_possible_truncation)] // fields are not wider than their types here
impl Facts {
    /// `known`: the bits of the key that are known.
    fn new(key: &FlowKey, known: &FlowMask) -> Self {
        let get = |field| key.get(field) & known.get(field);
        let state = get(Field::CtState) as u32;
        let no_inv = known.get(Field::CtState) as u32 & CT_INV != 0 && state & CT_INV == 0;
        Self {
            eth_type: get(Field::EthType) as u16,
            vlan: get(Field::VlanTci) as u16 & VLAN_PRESENT != 0,
            proto: get(Field::NwProto) as u8,
            later: get(Field::NwFrag) as u8 & FRAG_LATER != 0,
            tp_src: get(Field::TpSrc) as u16,
            tp_dst: get(Field::TpDst) as u16,
            ct_valid: state & (CT_NEW | CT_EST | CT_REL | CT_RPL | CT_SNAT | CT_DNAT) != 0
                || state & CT_TRK != 0 && no_inv,
        }
    }

    const fn ip(self) -> bool {
        self.eth_type == ETH_IPV4 || self.eth_type == ETH_IPV6
    }

    const fn l4(self, proto: u8) -> bool {
        self.ip() && self.proto == proto && !self.later
    }

    const fn icmp(self) -> bool {
        self.eth_type == ETH_IPV4 && self.proto == IP_ICMP
    }

    const fn icmpv6(self) -> bool {
        self.eth_type == ETH_IPV6 && self.proto == IP_ICMPV6
    }

    const fn nd(self, kind: u16) -> bool {
        self.icmpv6() && self.tp_src == kind && self.tp_dst == 0
    }

    const fn meet(self, prerequisite: Prerequisite) -> bool {
        match prerequisite {
            Prerequisite::None => true,
            Prerequisite::Vlan => self.vlan,
            Prerequisite::Arp => self.eth_type == ETH_ARP || self.eth_type == ETH_RARP,
            Prerequisite::Ipv4 => self.eth_type == ETH_IPV4,
            Prerequisite::Ipv6 => self.eth_type == ETH_IPV6,
            Prerequisite::Ip => self.ip(),
            Prerequisite::Transport => {
                self.l4(IP_TCP) || self.l4(IP_UDP) || self.l4(IP_SCTP) || self.icmp() || self.icmpv6()
            }
            Prerequisite::Tcp => self.l4(IP_TCP),
            Prerequisite::Udp => self.l4(IP_UDP),
            Prerequisite::Sctp => self.l4(IP_SCTP),
            Prerequisite::Icmp => self.icmp(),
            Prerequisite::Icmpv6 => self.icmpv6(),
            Prerequisite::Igmp => self.eth_type == ETH_IPV4 && self.proto == IP_IGMP,
            Prerequisite::Nd => self.nd(ND_SOLICIT) || self.nd(ND_ADVERT),
            Prerequisite::NdSolicit => self.nd(ND_SOLICIT),
            Prerequisite::NdAdvert => self.nd(ND_ADVERT),
            Prerequisite::Ct => self.ct_valid,
            Prerequisite::CtIpv4 => self.ct_valid && self.eth_type == ETH_IPV4,
            Prerequisite::CtIpv6 => self.ct_valid && self.eth_type == ETH_IPV6,
        }
    }
}

impl Field {
    /// Whether every packet that has the bits of `key` that `mask` selects has this field: what
    /// checks of actions ask of a match. A later fragment is ruled out only where the match says
    /// so, as in Open vSwitch.
    #[must_use]
    pub fn prerequisites_met(self, key: &FlowKey, mask: &FlowMask) -> bool {
        Facts::new(key, mask).meet(self.info().prerequisite)
    }

    /// The same of a match.
    #[must_use]
    pub fn prerequisites_met_by(self, matching: &SparseMatch) -> bool {
        let (key, mask) = matching.expand();
        self.prerequisites_met(&key, &mask)
    }

    /// Whether a packet has this field. (Actions on a field that the packet at hand does not have
    /// do nothing.)
    #[must_use]
    pub fn exists_in(self, key: &FlowKey) -> bool {
        const ALL: FlowMask = FlowMask([u64::MAX; crate::WORDS]);
        self.info().prerequisite == Prerequisite::None || Facts::new(key, &ALL).meet(self.info().prerequisite)
    }
}
