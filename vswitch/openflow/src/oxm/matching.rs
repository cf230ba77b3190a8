//! Whole matches, in the order in which Open vSwitch sends them.

use super::entry::{Entry, Names, put_entry, read_entry};
use crate::wire::{Reader, Result, Writer, refuse};
use crate::{Codec, Version};
use vswitch_flow::field::number::{ETH_ARP, ETH_IPV4, ETH_IPV6, ETH_RARP, IP_ICMP, IP_ICMPV6, IP_SCTP, IP_TCP, IP_UDP};
use vswitch_flow::{Field, FlowKey, FlowMask, SparseMatch};

/// The type of a match that consists of entries.
const OXM: u16 = 1;
/// OpenFlow 1.5's `packet_type` of a packet with an Ethernet header.
const ETHERNET_PACKET: [u8; 8] = [0x80, 0, 0x58, 4, 0, 0, 0, 0];

/// How strictly entries are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judge {
    /// A flow's match: every field is known, once, and can be there.
    Strict,
    /// A packet's metadata: fields that are not known are skipped.
    Loose,
}

/// A flow's match with its header, and the cookie if one is among the entries.
///
/// # Errors
/// As Open vSwitch: unknown fields, fields that are there twice or cannot be there.
pub(crate) fn matching(input: &mut Reader<'_>) -> Result<SparseMatch> {
    let mut entries = framed(input)?;
    read(&mut entries, Judge::Strict)
}

/// A packet's metadata with a match's header.
pub(crate) fn read_metadata(input: &mut Reader<'_>) -> Result<SparseMatch> {
    let mut entries = framed(input)?;
    read(&mut entries, Judge::Loose)
}

/// The entries of a match without its header.
pub(crate) fn list(input: &mut Reader<'_>) -> Result<SparseMatch> {
    read(input, Judge::Loose)
}

fn framed<'a>(input: &mut Reader<'a>) -> Result<Reader<'a>> {
    let (kind, len) = (input.u16()?, usize::from(input.u16()?));
    if kind != OXM {
        return refuse("OFPBMC_BAD_TYPE", format!("a match of type {kind}: only OXM (1) is served"));
    }
    let Some(body) = len.checked_sub(4) else {
        return refuse("OFPBMC_BAD_LEN", format!("a match of {len} bytes is shorter than its header"));
    };
    if input.len() < len.next_multiple_of(8) - 4 {
        return refuse("OFPBMC_BAD_LEN", format!("a match of {len} bytes, of which {} are there", input.len() + 4));
    }
    let entries = input.part(body, "OFPBMC_BAD_LEN")?;
    input.zeros(len.next_multiple_of(8) - len, "OFPBMC_BAD_LEN")?;
    Ok(entries)
}

fn read(input: &mut Reader<'_>, judge: Judge) -> Result<SparseMatch> {
    let (mut key, mut mask) = (FlowKey::default(), FlowMask::default());
    while !input.is_empty() {
        // All packets are of this type: with an Ethernet header.
        if input.strip(&ETHERNET_PACKET) {
            continue;
        }
        let entry = match read_entry(input)? {
            Ok(entry) => entry,
            Err(refusal) if judge == Judge::Strict => return Err(refusal),
            Err(_) => continue,
        };
        let Entry { field, value, mask: bits } = entry;
        let name = field.name();
        if judge == Judge::Strict && !field.prerequisites_met(&key, &mask) {
            let needs = field.info().prerequisite.describe();
            return refuse("OFPBMC_BAD_PREREQ", format!("{name} needs {needs} in front of it"));
        }
        if judge == Judge::Strict && mask.get(field) != 0 {
            return refuse("OFPBMC_DUP_FIELD", format!("{name} is there twice"));
        }
        key.set_masked(field, value, bits);
        mask.add_bits(field, bits);
        // Type and code of ICMP are where 16-bit ports are: the other bits are 0.
        match field {
            Field::IcmpType | Field::Icmpv6Type => mask.add(Field::TpSrc),
            Field::IcmpCode | Field::Icmpv6Code => mask.add(Field::TpDst),
            _ => {}
        }
    }
    Ok(SparseMatch::new(&key, &mask))
}

/// Writes a match with its header.
pub(crate) fn put_matching(codec: Codec, matching: &SparseMatch, out: &mut Writer) {
    let start = out.len();
    out.u16(OXM);
    out.u16(0);
    put_list(codec, matching, out);
    out.length(start + 2, start);
    out.pad(start);
}

/// Writes the entries of a match.
pub(crate) fn put_list(codec: Codec, matching: &SparseMatch, out: &mut Writer) {
    let (key, mask) = matching.expand();
    let mut put = Put { codec, key, mask, out };
    put.port_and_link();
    put.vlan();
    let eth_type = put.exactly(Field::EthType);
    if eth_type == Some(ETH_IPV4) || eth_type == Some(ETH_IPV6) {
        put.ip(eth_type == Some(ETH_IPV6));
    } else if eth_type == Some(ETH_ARP) || eth_type == Some(ETH_RARP) {
        put.fields(&[Field::ArpOp, Field::ArpSpa, Field::ArpTpa, Field::ArpSha, Field::ArpTha]);
    }
    put.metadata();
}

struct Put<'a> {
    codec: Codec,
    key: FlowKey,
    mask: FlowMask,
    out: &'a mut Writer,
}

impl Put<'_> {
    /// Writes a field, if the match looks at it.
    fn field(&mut self, field: Field) {
        let bits = self.mask.get(field);
        self.entry(field, self.key.get(field) & bits, bits);
    }

    fn entry(&mut self, field: Field, value: u128, mask: u128) {
        // Fields that have no name in OpenFlow are left out, as Open vSwitch leaves them out.
        if mask != 0 {
            let _ = put_entry(self.codec, Entry { field, value, mask }, Names::Match, self.out);
        }
    }

    fn fields(&mut self, fields: &[Field]) {
        fields.iter().for_each(|field| self.field(*field));
    }

    /// The value of a field that is matched whole.
    fn exactly<T: TryFrom<u128>>(&self, field: Field) -> Option<T> {
        let whole = self.mask.get(field) == field.exact_mask();
        T::try_from(self.key.get(field)).ok().filter(|_| whole)
    }

    fn port_and_link(&mut self) {
        use Field as F;
        self.fields(&[F::DpHash, F::RecircId, F::ConjId, F::InPort, F::ActsetOutput, F::EthSrc, F::EthDst, F::EthType]);
    }

    /// The tag as two fields of OXM, or whole if they cannot say it.
    fn vlan(&mut self) {
        const PCP: u128 = 0b111;
        let vid = self.mask.get(Field::VlanVid);
        let pcp = self.mask.get(Field::VlanPcp);
        let tagged = self.key.get(Field::VlanTci) & self.mask.get(Field::VlanTci) & 0x1000 != 0;
        if pcp != 0 && !(pcp == PCP && tagged) {
            return self.field(Field::VlanTci);
        }
        self.entry(Field::VlanVid, self.key.get(Field::VlanVid) & vid, vid);
        self.field(Field::VlanPcp);
    }

    fn ip(&mut self, v6: bool) {
        use Field as F;
        self.fields(if v6 { &[F::Ipv6Src, F::Ipv6Dst] } else { &[F::NwSrc, F::NwDst] });
        self.fields(&[F::NwFrag, F::IpDscp, F::NwEcn, F::NwTtl, F::Ipv6Label, F::NwProto]);
        match self.exactly(F::NwProto) {
            Some(IP_TCP) => self.fields(&[F::TcpSrc, F::TcpDst, F::TcpFlags]),
            Some(IP_UDP) => self.fields(&[F::UdpSrc, F::UdpDst]),
            Some(IP_SCTP) => self.fields(&[F::SctpSrc, F::SctpDst]),
            Some(IP_ICMP) if !v6 => self.fields(&[F::IcmpType, F::IcmpCode]),
            Some(IP_ICMPV6) if v6 => {
                self.fields(&[F::Icmpv6Type, F::Icmpv6Code, F::NdReserved, F::NdTarget]);
                self.neighbour_options();
            }
            _ => {}
        }
    }

    /// Fields of neighbour discovery that share bits: those that the packet's type makes of them.
    fn neighbour_options(&mut self) {
        use Field as F;
        for field in [F::NdOptionsType, F::NdSll, F::NdTll] {
            if field.prerequisites_met(&self.key, &self.mask) {
                self.field(field);
            }
        }
    }

    fn metadata(&mut self) {
        use Field as F;
        self.fields(&[F::TunId, F::TunFlags, F::TunSrc, F::TunDst, F::TunIpv6Src, F::TunIpv6Dst]);
        self.fields(&[F::TunGbpId, F::TunGbpFlags, F::TunMetadata0, F::TunMetadata1, F::TunMetadata2]);
        self.fields(&[F::TunMetadata3, F::TunMetadata4, F::TunMetadata5, F::TunMetadata6, F::TunMetadata7]);
        let (first, last) = match self.codec.version {
            Version::V13 => (F::Reg0, F::Reg15),
            Version::V15 => (F::Xreg0, F::Xreg7),
        };
        let registers = Field::ALL.iter().copied().filter(|field| (first..=last).contains(field));
        registers.for_each(|field| self.field(field));
        self.fields(&[F::PktMark, F::CtState, F::CtZone, F::CtMark, F::CtLabel, F::CtNwSrc, F::CtIpv6Src]);
        self.fields(&[F::CtNwDst, F::CtIpv6Dst, F::CtNwProto, F::CtTpSrc, F::CtTpDst, F::Metadata]);
    }
}
