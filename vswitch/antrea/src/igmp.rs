//! IGMP as it is on the wire: reports, leaves and queries of versions 1 to 3 (RFC 1112, RFC 2236,
//! RFC 9776) read from frames, queries and reports made.
//!
//! **Limits**: whatever bytes come are read as a message or refused; no more than [`RECORDS_MAX`]
//! groups of one report are looked at.

mod frame;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use vswitch_flow::checksum::internet;

pub use frame::{Sender, query, report};

/// Types of messages.
pub mod kind {
    /// Asks who has joined.
    pub const QUERY: u8 = 0x11;
    /// Has joined, version 1.
    pub const REPORT_V1: u8 = 0x12;
    /// Has joined, version 2.
    pub const REPORT_V2: u8 = 0x16;
    /// Has left, version 2.
    pub const LEAVE: u8 = 0x17;
    /// Has joined or left any number of groups, version 3.
    pub const REPORT_V3: u8 = 0x22;
}

/// All hosts: where general queries go.
pub const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// Where reports of version 3 go.
pub const ALL_REPORTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// Groups of one report that are looked at: more than fit into a jumbo frame.
pub const RECORDS_MAX: usize = 1200;
/// Groups of one report that [`report`] makes: what fits into 1400 bytes of IP.
pub const REPORTED_MAX: usize = 168;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of an IPv4 header without options.
const IPV4: usize = 20;
/// `IPPROTO_IGMP`
const PROTOCOL: u8 = 2;

/// Whether somebody may join a group: 224.0.0.0/24 is everybody's.
#[must_use]
pub const fn is_group(address: Ipv4Addr) -> bool {
    address.is_multicast() && !is_everybodys(address)
}

/// Whether packets for an address go to everybody on the link: 224.0.0.0/24.
#[must_use]
pub const fn is_everybodys(address: Ipv4Addr) -> bool {
    matches!(address.octets(), [224, 0, 0, _])
}

/// What is told of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The host wants its packets.
    Join,
    /// It wants no more of them; whether that is true of all its programs, a query tells.
    Leave,
}

/// A group in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which. One that nobody can join is not told at all.
    pub group: Ipv4Addr,
    /// What of it.
    pub change: Change,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgmpBody {
    /// Who has joined the group; None: any group.
    Query(Option<Ipv4Addr>),
    /// Groups that the sender joins and leaves. Sources are not told apart: who wants some has
    /// joined.
    Report(Vec<Record>),
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who says so.
    pub source: Ipv4Addr,
    /// Where it was sent.
    pub destination: Ipv4Addr,
    /// Its type, of [`kind`].
    pub kind: u8,
    /// 1 to 3.
    pub version: u8,
    /// What it says.
    pub body: IgmpBody,
}

/// Why a frame is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It ends before it says all.
    Short,
    /// It is no IPv4, or no IGMP.
    Other,
    /// It is a part of a packet.
    Fragment,
    /// Its lengths contradict each other.
    Length,
    /// A checksum is wrong: of IPv4, or of IGMP.
    Checksum,
    /// Its type is none that we know.
    ObjectKind,
    /// What it is about is no group.
    Group,
}

fn octet(bytes: &[u8], at: usize) -> Result<u8, Unreadable> {
    bytes.get(at).copied().ok_or(Unreadable::Short)
}

fn word(bytes: &[u8], at: usize) -> Result<u16, Unreadable> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().map(u16::from_be_bytes).ok_or(Unreadable::Short)
}

fn address(bytes: &[u8], at: usize) -> Result<Ipv4Addr, Unreadable> {
    let octets: Option<&[u8; 4]> = bytes.get(at..).and_then(<[u8]>::first_chunk);
    octets.copied().map(Ipv4Addr::from).ok_or(Unreadable::Short)
}

/// Reads a message from a whole frame, without a VLAN tag.
///
/// # Errors
/// Why it is none.
pub fn read(frame: &[u8]) -> Result<Message, Unreadable> {
    if word(frame, 12)? != 0x0800 {
        return Err(Unreadable::Other);
    }
    let packet = frame.get(ETHERNET..).ok_or(Unreadable::Short)?;
    let first = octet(packet, 0)?;
    if first >> 4 != 4 {
        return Err(Unreadable::Other);
    }
    let (header_len, total) = (usize::from(first & 0xf) * 4, usize::from(word(packet, 2)?));
    if header_len < IPV4 || total < header_len {
        return Err(Unreadable::Length);
    }
    let header = packet.get(..header_len).ok_or(Unreadable::Short)?;
    let payload = packet.get(header_len..total).ok_or(Unreadable::Short)?;
    if octet(header, 9)? != PROTOCOL {
        return Err(Unreadable::Other);
    }
    // Its own is not looked at: "more fragments", or a place that is not the first.
    if word(header, 6)? & 0x3fff != 0 {
        return Err(Unreadable::Fragment);
    }
    if internet(header, 0) != 0 || internet(payload, 0) != 0 {
        return Err(Unreadable::Checksum);
    }
    let (kind, version, body) = message(payload)?;
    Ok(Message { source: address(header, 12)?, destination: address(header, 16)?, kind, version, body })
}

fn message(payload: &[u8]) -> Result<(u8, u8, IgmpBody), Unreadable> {
    let kind = octet(payload, 0)?;
    let group = address(payload, 4)?;
    let one = |change| match is_group(group) {
        true => Ok(IgmpBody::Report(vec![Record { group, change }])),
        false if is_everybodys(group) => Ok(IgmpBody::Report(Vec::new())),
        false => Err(Unreadable::Group),
    };
    match kind {
        kind::QUERY => {
            let version = match (payload.len(), octet(payload, 1)?) {
                (8, 0) => 1,
                (8, _) => 2,
                (12.., _) => 3,
                _ => return Err(Unreadable::Length),
            };
            if !group.is_unspecified() && !group.is_multicast() {
                return Err(Unreadable::Group);
            }
            Ok((kind, version, IgmpBody::Query(Some(group).filter(|group| !group.is_unspecified()))))
        }
        kind::REPORT_V1 => Ok((kind, 1, one(Change::Join)?)),
        kind::REPORT_V2 => Ok((kind, 2, one(Change::Join)?)),
        kind::LEAVE => Ok((kind, 2, one(Change::Leave)?)),
        kind::REPORT_V3 => Ok((kind, 3, IgmpBody::Report(records(payload)?))),
        _ => Err(Unreadable::ObjectKind),
    }
}

/// Records of a report of version 3.
fn records(payload: &[u8]) -> Result<Vec<Record>, Unreadable> {
    let count = usize::from(word(payload, 6)?);
    let mut rest = payload.get(8..).ok_or(Unreadable::Short)?;
    let mut records = Vec::new();
    for _ in 0..count.min(RECORDS_MAX) {
        let (kind, auxiliary) = (octet(rest, 0)?, usize::from(octet(rest, 1)?));
        let (sources, group) = (usize::from(word(rest, 2)?), address(rest, 4)?);
        rest = rest.get(8 + 4 * (sources + auxiliary)..).ok_or(Unreadable::Length)?;
        // RFC 9776, 4.2.13. Those of other kinds are ignored, as it says.
        let change = match (kind, sources) {
            (1 | 3, 0) | (6, _) => Change::Leave,
            (1..=5, _) => Change::Join,
            _ => continue,
        };
        if !group.is_multicast() {
            return Err(Unreadable::Group);
        }
        if is_group(group) {
            records.push(Record { group, change });
        }
    }
    Ok(records)
}
