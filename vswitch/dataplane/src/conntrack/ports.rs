//! What fragments match behind `ct()`.

use super::First;
use super::datagram::{Datagram, SCTP_CHECKSUM};
use super::read::ICMP_LEN;
use crate::action::{TCP_LEN, UDP_LEN};
use crate::packet::ethertype;
use vswitch_conntrack::protocol;

/// The protocol of what was fragmented. In a later fragment of IPv6 extraction sees 44, fragment,
/// as Open vSwitch does.
fn protocol(datagram: &Datagram<'_>) -> Option<u8> {
    datagram.first().and_then(|packet| match packet.l3_type()? {
        ethertype::IPV4 => packet.bytes::<10>(packet.l3()?).map(|header| header[9]),
        _ => packet.chain_of_ipv6().map(|chain| chain.protocol),
    })
}

/// What matching sees of it, as extraction does of a packet that is no fragment.
pub(super) fn first(datagram: &Datagram<'_>) -> First {
    let protocol = protocol(datagram);
    let (ports, tcp_flags) = ports(datagram, protocol);
    First { protocol, ports, tcp_flags }
}

/// Ports, or type and code, and TCP flags.
fn ports(datagram: &Datagram<'_>, protocol: Option<u8>) -> ((u16, u16), u16) {
    let pair = |[a, b, c, d]: [u8; 4]| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let front = datagram.read::<4>(0);
    match (protocol, front) {
        (Some(protocol::TCP), Some(front)) => {
            let header: Option<[u8; TCP_LEN]> = datagram.read(0);
            let whole =
                |header: &[u8; TCP_LEN]| (TCP_LEN..=datagram.len()).contains(&(usize::from(header[12] >> 4) * 4));
            header
                .filter(whole)
                .map_or(((0, 0), 0), |header| (pair(front), u16::from_be_bytes([header[12], header[13]]) & 0xfff))
        }
        (Some(protocol::UDP), Some(front)) if datagram.len() >= UDP_LEN => (pair(front), 0),
        (Some(protocol::SCTP), Some(front)) if datagram.len() >= SCTP_CHECKSUM.1 => (pair(front), 0),
        (Some(protocol::ICMP | protocol::ICMPV6), Some([kind, code, ..])) if datagram.len() >= ICMP_LEN => {
            ((kind.into(), code.into()), 0)
        }
        _ => ((0, 0), 0),
    }
}
