//! Fields that a packet does not have, by its protocol: what a mask says of them is said already.

use crate::field::number::{
    ETH_ARP, ETH_IPV4, ETH_IPV6, ETH_RARP, IP_ICMP, IP_ICMPV6, IP_IGMP, IP_TCP, ND_ADVERT, ND_SOLICIT,
};
use crate::{Field, FlowKey, FlowMask};

/// What of a packet decides which fields it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketKind {
    eth_type: u16,
    proto: u8,
    /// Type and code, of ICMPv6.
    ports: (u16, u16),
}

impl PacketKind {
    /// Of a packet.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // the fields are as wide
    pub const fn of(key: &FlowKey) -> Self {
        Self {
            eth_type: key.get(Field::EthType) as u16,
            proto: key.get(Field::NwProto) as u8,
            ports: (key.get(Field::TpSrc) as u16, key.get(Field::TpDst) as u16),
        }
    }

    /// Over IPv4, too: extraction asks for the protocol only, as that of Open vSwitch does.
    const fn is_nd(self) -> bool {
        matches!(self, Self { proto: IP_ICMPV6, ports: (ND_SOLICIT | ND_ADVERT, 0), .. })
    }
}

impl FlowMask {
    /// Takes out the bits of fields that no packet of a kind has, and adds what tells so. The mask
    /// must have `eth_type`.
    ///
    /// [`crate::extract`] leaves such fields 0, so that the mask means the same packets as before.
    /// A lookup leaves such bits behind: a table is left at the stage at which no rule fits, and
    /// all bits of that stage are used. Without them there are fewer masks, and none is as narrow
    /// as fields that the packet does not have (the ports of TCP, where rules look at `nd_target`).
    ///
    /// `nw_proto` is added if bits of an L4 header are used; type and code of ICMPv6, if those of
    /// neighbor discovery are (without them packets that have these fields would be taken for
    /// packets that do not: CVE-2023-5366).
    ///
    /// `kind` is that of the packet as it came in.
    pub fn close_protocol(&mut self, kind: PacketKind) {
        use Field as F;
        let (v4, v6) = (kind.eth_type == ETH_IPV4, kind.eth_type == ETH_IPV6);
        let arp = matches!(kind.eth_type, ETH_ARP | ETH_RARP);
        // A connection is of the version of its packets.
        if !v6 {
            self.without(&[F::Ipv6Src, F::Ipv6Dst, F::Ipv6Label, F::CtIpv6Src, F::CtIpv6Dst]);
        }
        if !v4 {
            self.without(&[F::CtNwSrc, F::CtNwDst]);
        }
        if !v4 && !arp {
            self.without(&[F::NwSrc, F::NwDst]);
        }
        if !v4 && !v6 {
            self.without(&[F::NwTos, F::NwTtl, F::NwFrag, F::TpSrc, F::TpDst, F::TcpFlags]);
            self.without(&[F::IgmpGroup, F::NdTarget, F::NdReserved]);
            if !arp {
                self.without(&[F::NwProto, F::ArpSha, F::ArpTha, F::NdOptionsType]);
            }
            return;
        }
        if L4.iter().any(|field| self.get(*field) != 0) {
            self.add(F::NwProto);
            self.close_l4(kind);
        }
    }

    /// Likewise, of what an IP packet has behind its header. The mask has `nw_proto`.
    fn close_l4(&mut self, kind: PacketKind) {
        use Field as F;
        if kind.proto != IP_TCP {
            self.without(&[F::TcpFlags]);
        }
        if kind.proto != IP_IGMP {
            self.without(&[F::IgmpGroup]);
        }
        if kind.proto == IP_ICMPV6 && ND.iter().any(|field| self.get(*field) != 0) {
            self.add(F::TpSrc);
            self.add(F::TpDst);
        }
        if !kind.is_nd() {
            self.without(&ND);
        }
        // Type and code are a byte each, where ports are two.
        if matches!(kind.proto, IP_ICMP | IP_IGMP | IP_ICMPV6) {
            [F::TpSrc, F::TpDst].iter().for_each(|field| self.set_masked(*field, 0, 0xff00));
        }
    }

    fn without(&mut self, fields: &[Field]) {
        fields.iter().for_each(|field| self.set(*field, 0));
    }
}

/// Fields of neighbor discovery.
const ND: [Field; 5] = [Field::NdTarget, Field::NdReserved, Field::NdSll, Field::NdTll, Field::NdOptionsType];

/// Fields behind the IP header.
const L4: [Field; 9] = [
    Field::TpSrc,
    Field::TpDst,
    Field::TcpFlags,
    Field::IgmpGroup,
    Field::NdTarget,
    Field::NdReserved,
    Field::NdSll,
    Field::NdTll,
    Field::NdOptionsType,
];
