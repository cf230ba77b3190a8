//! The packet that an ICMP or ICMPv6 error quotes: its tuple, and its translation. (What it is to
//! the connection is the tracker's matter.)

use super::change::Change;
use super::datagram::{Datagram, be16};
use super::read::{ICMP_LEN, with_identifier, with_ports};
use crate::action::{TCP_LEN, UDP_LEN, extension, udp_sum};
use vswitch_conntrack::{End, Family, Rewrite, Tuple, protocol};

/// Where the headers of a quoted packet lie, from the front of the ICMP message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quote {
    family: Family,
    l4: usize,
    protocol: u8,
    /// The destination address is not part of the L4 checksum: a routing header has segments left.
    routed: bool,
}

/// Bytes of L4 that an error of ICMP quotes at least (RFC 792).
const L4_MIN: usize = 8;

/// IPv6 extension headers that are walked over in a quoted packet.
const EXTENSIONS_MAX: usize = 8;

/// Reads the quoted packet: its tuple, as quoted. None where too little of it is there, where it is
/// a fragment (as in Open vSwitch the first one too) or an error itself. Its checksums and lengths
/// are not looked at: they are those of a packet that was cut.
pub(super) fn read(datagram: &Datagram<'_>, family: Family) -> Option<(Quote, Tuple)> {
    let (quote, tuple) = match family {
        Family::V4 => ipv4(datagram)?,
        Family::V6 => ipv6(datagram)?,
    };
    let tuple = match (quote.protocol, family) {
        // Open vSwitch's minimum; RFC 4443, 2.4, has as much quoted as fits.
        (protocol::TCP, Family::V6) => with_ports(tuple, datagram.read::<TCP_LEN>(quote.l4)?.first_chunk()?)?,
        (protocol::TCP | protocol::UDP | protocol::SCTP, _) => {
            with_ports(tuple, datagram.read::<L4_MIN>(quote.l4)?.first_chunk()?)?
        }
        _ if tuple.is_icmp() => with_identifier(tuple, &datagram.read(quote.l4)?)?,
        (protocol::ICMP | protocol::ICMPV6, _) => return None,
        _ => tuple,
    };
    Some((quote, tuple))
}

fn ipv4(datagram: &Datagram<'_>) -> Option<(Quote, Tuple)> {
    let header: [u8; 20] = datagram.read(ICMP_LEN)?;
    let header_len = usize::from(header[0] & 15) * 4;
    let l4 = ICMP_LEN + header_len;
    if header_len < header.len() || l4 > datagram.len() || be16([header[6], header[7]]) & 0x3fff != 0 {
        return None;
    }
    let end = |at: usize| End {
        addr: header[at..].first_chunk().map_or(0, |addr| u32::from_be_bytes(*addr)).into(),
        port: 0,
    };
    let (family, protocol) = (Family::V4, header[9]);
    let tuple = Tuple { src: end(12), dst: end(16), family, protocol, ..Tuple::default() };
    Some((Quote { family, l4, protocol, routed: false }, tuple))
}

fn ipv6(datagram: &Datagram<'_>) -> Option<(Quote, Tuple)> {
    let header: [u8; 40] = datagram.read(ICMP_LEN)?;
    let family = Family::V6;
    let mut quote = Quote { family, l4: ICMP_LEN + header.len(), protocol: header[6], routed: false };
    for count in 0.. {
        use extension::{AUTHENTICATION, DESTINATION, FRAGMENT, HOP_BY_HOP, ROUTING};
        if !matches!(quote.protocol, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION) {
            break;
        }
        let [next, units, high, low, ..]: [u8; 8] = datagram.read(quote.l4)?;
        if count == EXTENSIONS_MAX || quote.protocol == FRAGMENT && (high, low) != (0, 0) {
            return None;
        }
        quote.routed |= quote.protocol == ROUTING && low > 0;
        quote.l4 += match quote.protocol {
            FRAGMENT => 8,
            AUTHENTICATION => (usize::from(units) + 2) * 4,
            _ => (usize::from(units) + 1) * 8,
        };
        quote.protocol = next;
    }
    if quote.l4 > datagram.len() {
        return None;
    }
    let end =
        |at: usize| End { addr: header[at..].first_chunk().map_or(0, |addr| u128::from_be_bytes(*addr)), port: 0 };
    let tuple = Tuple { src: end(8), dst: end(24), family, protocol: quote.protocol, ..Tuple::default() };
    Some((quote, tuple))
}

/// Translates the quoted packet. Its checksums are adjusted where they are quoted (of SCTP not: it
/// covers what was cut off); `message` learns of every byte that changes.
pub(super) fn rewrite(datagram: &mut Datagram<'_>, quote: Quote, rewrite: &Rewrite, message: &mut Change) {
    let (mut header, mut l4) = (Change::default(), Change::default());
    let covered = quote.protocol != protocol::ICMP;
    let sides = [(rewrite.inner_src, true), (rewrite.inner_dst, false)];
    for (end, is_source) in sides.into_iter().filter_map(|(end, is_source)| Some((end?, is_source))) {
        let mut unseen = Change::default();
        let in_l4 = covered && (is_source || !quote.routed);
        let pseudo = if in_l4 { &mut l4 } else { &mut unseen };
        let addr = end.addr.to_be_bytes();
        match quote.family {
            Family::V4 => {
                let at = ICMP_LEN + if is_source { 12 } else { 16 };
                put(datagram, at, &addr[12..], &mut [message, &mut header, pseudo]);
            }
            Family::V6 => {
                let at = ICMP_LEN + if is_source { 8 } else { 24 };
                put(datagram, at, &addr, &mut [message, pseudo]);
            }
        }
        if let Some(at) = port_at(quote, is_source) {
            put(datagram, quote.l4 + at, &end.port.to_be_bytes(), &mut [message, &mut l4]);
        }
    }
    if quote.family == Family::V4 {
        adjust(datagram, ICMP_LEN + 10, |sum| header.apply(sum), message);
    }
    let at = quote.l4;
    match (quote.protocol, quote.family) {
        (protocol::TCP, _) => adjust(datagram, at + 16, |sum| l4.apply(sum), message),
        (protocol::UDP, _) => adjust(datagram, at + UDP_LEN - 2, |sum| udp_sum(sum, |sum| l4.apply(sum)), message),
        (protocol::ICMP, Family::V4) | (protocol::ICMPV6, Family::V6) => {
            adjust(datagram, at + 2, |sum| l4.apply(sum), message);
        }
        _ => {}
    }
}

/// Where the port of an end lies in the quoted L4 header. Of ICMP only the source's is one: the
/// identifier.
const fn port_at(quote: Quote, is_source: bool) -> Option<usize> {
    match (quote.protocol, quote.family) {
        (protocol::TCP | protocol::UDP | protocol::SCTP, _) => Some(if is_source { 0 } else { 2 }),
        (protocol::ICMP, Family::V4) | (protocol::ICMPV6, Family::V6) if is_source => Some(4),
        _ => None,
    }
}

/// Writes up to 16 bytes at an even offset, and tells those whose checksums cover them.
fn put(datagram: &mut Datagram<'_>, at: usize, new: &[u8], covering: &mut [&mut Change]) {
    let mut old = [0; 16];
    let Some(old) = old.get_mut(..new.len()) else { return };
    if datagram.copy(at, old) && old != new {
        covering.iter_mut().for_each(|change| change.swap(old, new));
        datagram.write(at, new);
    }
}

/// Adjusts a checksum that may not have been quoted.
fn adjust(datagram: &mut Datagram<'_>, at: usize, new: impl FnOnce(u16) -> u16, message: &mut Change) {
    if let Some(old) = datagram.read(at) {
        put(datagram, at, &new(be16(old)).to_be_bytes(), &mut [message]);
    }
}
