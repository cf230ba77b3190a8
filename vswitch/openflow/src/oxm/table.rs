//! The numbers of fields: from `include/openvswitch/meta-flow.h` of Open vSwitch.

use crate::Version;
use crate::error::ONF;
use vswitch_flow::Field;

/// NXM's class of OpenFlow 1.0's fields.
const NXM_OF: u16 = 0x0000;
/// NXM's class of Nicira's fields.
const NXM_NX: u16 = 0x0001;
/// Ericsson's class.
const ERICSSON: u16 = 0x1000;
/// OpenFlow's class.
const OXM_OF: u16 = 0x8000;
/// OpenFlow's class of packet registers.
const OXM_REG: u16 = 0x8001;
/// The class whose headers name an experimenter.
pub(super) const EXPERIMENTER: u16 = 0xffff;
/// Bytes of an option that has no mapping.
const OPTION: u8 = 124;

/// What a header says of its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) field: Field,
    pub(super) class: u16,
    pub(super) number: u8,
    /// Bytes of the value.
    pub(crate) bytes: u8,
}

impl Header {
    /// Whether it has 4 bytes: those of experimenters have more.
    pub(crate) const fn is_short(self) -> bool {
        self.class != EXPERIMENTER
    }

    pub(super) const fn is_short_port(self) -> bool {
        matches!(self.field, Field::InPort) && self.bytes == 2
    }

    /// Bits of the field that the name means.
    pub(crate) fn bits(self) -> u8 {
        if self.field == Field::InPort { self.bytes * 8 } else { self.field.info().bits }
    }
}

/// How a field is known by one of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) class: u16,
    pub(super) field: u8,
    /// Bytes of the value.
    pub(super) bytes: u8,
}

const fn number(class: u16, field: u8, bytes: u8) -> Option<Number> {
    Some(Number { class, field, bytes })
}

/// The number of a field in NXM.
#[allow(clippy::cast_possible_truncation)] // numbers of fields are small
pub(super) fn nxm(field: Field) -> Option<Number> {
    use Field as F;
    let of = |field, bytes| number(NXM_OF, field, bytes);
    let nx = |field, bytes| number(NXM_NX, field, bytes);
    let from = |first: Field| field as u8 - first as u8;
    let within = |first: Field, last: Field| (first..=last).contains(&field);
    match field {
        _ if within(F::Reg0, F::Reg15) => nx(from(F::Reg0), 4),
        _ if within(F::Xxreg0, F::Xxreg3) => nx(111 + from(F::Xxreg0), 16),
        _ if within(F::TunMetadata0, F::TunMetadata7) => nx(40 + from(F::TunMetadata0), OPTION),
        F::TunId => nx(16, 8),
        F::TunSrc => nx(31, 4),
        F::TunDst => nx(32, 4),
        F::TunIpv6Src => nx(109, 16),
        F::TunIpv6Dst => nx(110, 16),
        F::TunFlags => nx(104, 2),
        F::TunGbpId => nx(38, 2),
        F::TunGbpFlags => nx(39, 1),
        F::CtMark => nx(107, 4),
        F::CtZone => nx(106, 2),
        F::CtState => nx(105, 4),
        F::CtLabel => nx(108, 16),
        F::CtNwProto => nx(119, 1),
        F::CtNwSrc => nx(120, 4),
        F::CtNwDst => nx(121, 4),
        F::CtIpv6Src => nx(122, 16),
        F::CtIpv6Dst => nx(123, 16),
        F::CtTpSrc => nx(124, 2),
        F::CtTpDst => nx(125, 2),
        F::PktMark => nx(33, 4),
        F::ConjId => nx(37, 4),
        F::RecircId => nx(36, 4),
        F::DpHash => nx(35, 4),
        F::InPort => of(0, 2),
        F::EthDst => of(1, 6),
        F::EthSrc => of(2, 6),
        F::EthType => of(3, 2),
        F::VlanTci => of(4, 2),
        F::NwTos => of(5, 1),
        F::NwProto => of(6, 1),
        F::NwSrc => of(7, 4),
        F::NwDst => of(8, 4),
        F::TcpSrc => of(9, 2),
        F::TcpDst => of(10, 2),
        F::UdpSrc => of(11, 2),
        F::UdpDst => of(12, 2),
        F::IcmpType => of(13, 1),
        F::IcmpCode => of(14, 1),
        F::ArpOp => of(15, 2),
        F::ArpSpa => of(16, 4),
        F::ArpTpa => of(17, 4),
        F::ArpSha => nx(17, 6),
        F::ArpTha => nx(18, 6),
        F::Ipv6Src => nx(19, 16),
        F::Ipv6Dst => nx(20, 16),
        F::Icmpv6Type => nx(21, 1),
        F::Icmpv6Code => nx(22, 1),
        F::NdTarget => nx(23, 16),
        F::NdSll => nx(24, 6),
        F::NdTll => nx(25, 6),
        F::NwFrag => nx(26, 1),
        F::Ipv6Label => nx(27, 4),
        F::NwEcn => nx(28, 1),
        F::NwTtl => nx(29, 1),
        F::TcpFlags => nx(34, 2),
        _ => None,
    }
}

/// The number of a field in OXM, but for those of experimenters.
pub(super) fn oxm(field: Field) -> Option<Number> {
    use Field as F;
    let of = |field, bytes| number(OXM_OF, field, bytes);
    match field {
        _ if (F::Xreg0..=F::Xreg7).contains(&field) => number(OXM_REG, field as u8 - F::Xreg0 as u8, 8),
        F::InPort => of(0, 4),
        F::Metadata => of(2, 8),
        F::EthDst => of(3, 6),
        F::EthSrc => of(4, 6),
        F::EthType => of(5, 2),
        F::VlanVid => of(6, 2),
        F::VlanPcp => of(7, 1),
        F::IpDscp => of(8, 1),
        F::NwEcn => of(9, 1),
        F::NwProto => of(10, 1),
        F::NwSrc => of(11, 4),
        F::NwDst => of(12, 4),
        F::TcpSrc => of(13, 2),
        F::TcpDst => of(14, 2),
        F::UdpSrc => of(15, 2),
        F::UdpDst => of(16, 2),
        F::SctpSrc => of(17, 2),
        F::SctpDst => of(18, 2),
        F::IcmpType => of(19, 1),
        F::IcmpCode => of(20, 1),
        F::ArpOp => of(21, 2),
        F::ArpSpa => of(22, 4),
        F::ArpTpa => of(23, 4),
        F::ArpSha => of(24, 6),
        F::ArpTha => of(25, 6),
        F::Ipv6Src => of(26, 16),
        F::Ipv6Dst => of(27, 16),
        F::Ipv6Label => of(28, 4),
        F::Icmpv6Type => of(29, 1),
        F::Icmpv6Code => of(30, 1),
        F::NdTarget => of(31, 16),
        F::NdSll => of(32, 6),
        F::NdTll => of(33, 6),
        F::TunId => of(38, 8),
        F::TcpFlags => of(42, 2),
        F::ActsetOutput => of(43, 4),
        F::NdReserved => number(ERICSSON, 1, 4),
        F::NdOptionsType => number(ERICSSON, 2, 1),
        _ => None,
    }
}

/// Fields that ONF defined as extensions of OpenFlow 1.3, by the numbers that they got in 1.5.
pub(super) const fn is_extension_of_13(field: Field) -> bool {
    matches!(field, Field::TcpFlags | Field::ActsetOutput)
}

/// The header of a field in the names of a version; None: the names of NXM where there are any.
pub(super) fn header(field: Field, version: Option<Version>) -> Option<Header> {
    let plain = |number: Number| Header { field, class: number.class, number: number.field, bytes: number.bytes };
    let of_version = match version {
        Some(Version::V13) if is_extension_of_13(field) => {
            oxm(field).map(|number| Header { class: EXPERIMENTER, ..plain(number) })
        }
        Some(_) => oxm(field).map(plain),
        None => None,
    };
    // What has no name in NXM goes by the name of OpenFlow 1.3.
    let other = || match version {
        None if is_extension_of_13(field) => header(field, Some(Version::V13)),
        _ => oxm(field).map(plain),
    };
    of_version.or_else(|| nxm(field).map(plain)).or_else(other)
}

/// A field by the numbers of a header. `experimenter`: of the class for experimenters.
pub(super) fn by_number(class: u16, number: u8, experimenter: u32) -> Option<(Field, u8)> {
    let fields = Field::ALL.iter().copied();
    if class == EXPERIMENTER {
        let mut found = fields.filter(|field| experimenter == ONF && is_extension_of_13(*field));
        return found.find_map(|field| Some((field, oxm(field).filter(|oxm| oxm.field == number)?.bytes)));
    }
    let is = |candidate: &Number| candidate.class == class && candidate.field == number;
    fields.into_iter().find_map(|field| {
        let names = [nxm(field), oxm(field)];
        names.into_iter().flatten().find(is).map(|number| (field, number.bytes))
    })
}
