//! Flushing tracked connections (`NXT_CT_FLUSH`).

use crate::property::{properties, put_property, put_u16};
use crate::wire::{Reader, Result, Writer, refuse};
use std::net::{IpAddr, Ipv6Addr};

const ORIGINAL: u16 = 0;
const REPLY: u16 = 1;
const ZONE: u16 = 2;

mod part {
    pub(super) const SOURCE: u16 = 0;
    pub(super) const DESTINATION: u16 = 1;
    pub(super) const SOURCE_PORT: u16 = 2;
    pub(super) const DESTINATION_PORT: u16 = 3;
    pub(super) const ICMP_ID: u16 = 4;
    pub(super) const ICMP_TYPE: u16 = 5;
    pub(super) const ICMP_CODE: u16 = 6;
}

/// One direction of the connections to flush. What is not given is any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CtTuple {
    /// Source address.
    pub source: Option<IpAddr>,
    /// Destination address.
    pub destination: Option<IpAddr>,
    /// Source port.
    pub source_port: Option<u16>,
    /// Destination port.
    pub destination_port: Option<u16>,
    /// Identifier of ICMP's echoes.
    pub icmp_id: Option<u16>,
    /// Type of ICMP.
    pub icmp_type: Option<u8>,
    /// Code of ICMP.
    pub icmp_code: Option<u8>,
}

/// Forgets connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CtFlush {
    /// IP protocol; 0: any.
    pub protocol: u8,
    /// As the first packet went.
    pub original: CtTuple,
    /// As its answer went.
    pub reply: CtTuple,
    /// None: of all zones.
    pub zone: Option<u16>,
}

impl CtFlush {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let mut flush = Self { protocol: input.u8()?, ..Self::default() };
        input.zeros(7, "NXBRC_MUST_BE_ZERO")?;
        for property in properties(Reader::new(input.rest(), "OFPBPC_BAD_LEN")) {
            let mut property = property?;
            match property.kind {
                ORIGINAL => flush.original = CtTuple::read(&mut property.data)?,
                REPLY => flush.reply = CtTuple::read(&mut property.data)?,
                ZONE => flush.zone = Some(property.number_u16()?),
                // Later versions have more (mark, label): to ignore them would flush too much.
                kind => return refuse("OFPBPC_BAD_TYPE", format!("ct-flush has no property {kind}")),
            }
        }
        Ok(flush)
    }

    pub(crate) fn put(&self, out: &mut Writer) {
        out.u8(self.protocol);
        out.zeros(7);
        self.original.put(ORIGINAL, out);
        self.reply.put(REPLY, out);
        if let Some(zone) = self.zone {
            put_u16(ZONE, zone, out);
        }
    }
}

impl CtTuple {
    fn read(data: &mut Reader<'_>) -> Result<Self> {
        let mut tuple = Self::default();
        data.skip(4)?;
        for property in properties(*data) {
            let property = property?;
            match property.kind {
                part::SOURCE => tuple.source = address(property.data)?,
                part::DESTINATION => tuple.destination = address(property.data)?,
                part::SOURCE_PORT => tuple.source_port = Some(property.number_u16()?),
                part::DESTINATION_PORT => tuple.destination_port = Some(property.number_u16()?),
                part::ICMP_ID => tuple.icmp_id = Some(property.number_u16()?),
                part::ICMP_TYPE => tuple.icmp_type = Some(property.number_u8()?),
                part::ICMP_CODE => tuple.icmp_code = Some(property.number_u8()?),
                kind => return refuse("OFPBPC_BAD_TYPE", format!("a tuple has no property {kind}")),
            }
        }
        Ok(tuple)
    }

    fn put(&self, kind: u16, out: &mut Writer) {
        let mut data = Writer::default();
        for (kind, address) in [(part::SOURCE, self.source), (part::DESTINATION, self.destination)] {
            if let Some(address) = address {
                let octets = match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    IpAddr::V6(address) => address.octets(),
                };
                put_property(kind, &octets, &mut data);
            }
        }
        let numbers = [
            (part::SOURCE_PORT, self.source_port),
            (part::DESTINATION_PORT, self.destination_port),
            (part::ICMP_ID, self.icmp_id),
        ];
        for (kind, number) in numbers {
            if let Some(number) = number {
                put_u16(kind, number, &mut data);
            }
        }
        for (kind, number) in [(part::ICMP_TYPE, self.icmp_type), (part::ICMP_CODE, self.icmp_code)] {
            if let Some(number) = number {
                put_property(kind, &[number], &mut data);
            }
        }
        if data.len() > 0 {
            // Properties in a property begin at a multiple of 8 bytes.
            put_property(kind, &[&[0; 4], &*data.0].concat(), out);
        }
    }
}

/// An address of IPv6, or of IPv4 mapped into it. All zeros: any.
fn address(mut data: Reader<'_>) -> Result<Option<IpAddr>> {
    let address = Ipv6Addr::from(data.u128()?);
    data.end()?;
    let address = address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4);
    Ok(Some(address).filter(|address| !address.is_unspecified()))
}
