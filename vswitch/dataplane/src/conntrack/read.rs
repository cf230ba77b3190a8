//! From a packet to what the tracker sees: addresses and ports, if lengths and checksums are right.

use super::datagram::{Datagram, SCTP_CHECKSUM, be16};
use super::quote::{self, Quote};
use crate::action::{Packet, TCP_LEN, UDP_LEN};
use crate::packet::checksum::{Sum, pseudo_v4, pseudo_v6};
use crate::packet::ethertype;
use vswitch_conntrack::{End, Family, L4, Related, Seen, Tuple, protocol, tcp};
use vswitch_dpdk::Csum;

/// Bytes of an ICMP header, the rest of the first eight included (RFC 792).
pub(super) const ICMP_LEN: usize = 8;

/// A packet or datagram that is what it says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    /// One with a tuple of its own.
    Seen(Seen),
    /// An ICMP or ICMPv6 error, and where what it quotes lies.
    Related(Related, Quote),
}

/// What the IP headers say.
#[derive(Clone, Copy)]
struct Ip {
    tuple: Tuple,
    /// The sum over the pseudo-header. Like Open vSwitch's it has the destination of the IPv6
    /// header, also where a routing header leads to another one: such packets are invalid.
    pseudo: Sum,
}

/// Reads a packet that is no fragment, or a whole datagram. None: a length or checksum is wrong, or
/// it is nothing that can be tracked; it is `+inv` then. An L4 checksum that was summed and is
/// right is remembered as [`Csum::Good`].
pub(super) fn read(datagram: &mut Datagram<'_>, zone: u16) -> Option<Message> {
    let len = datagram.len();
    let mut ip = ip(datagram.first()?, len)?;
    ip.tuple.zone = zone;
    let family = ip.tuple.family;
    match (family, ip.tuple.protocol) {
        (_, protocol::TCP) => tcp(datagram, ip, len),
        (_, protocol::UDP) => udp(datagram, ip, len),
        (_, protocol::SCTP) => sctp(datagram, ip),
        (Family::V4, protocol::ICMP) | (Family::V6, protocol::ICMPV6) => icmp(datagram, ip),
        // Of the other family: what Open vSwitch takes for an echo without a request.
        (_, protocol::ICMP | protocol::ICMPV6) => None,
        _ => (trusted(datagram) != Trust::Wrong).then(|| seen(datagram, ip.tuple, L4::Other)),
    }
}

fn seen(datagram: &Datagram<'_>, tuple: Tuple, l4: L4) -> Message {
    Message::Seen(Seen { tuple, l4, len: u32::try_from(datagram.frame_len()).unwrap_or(u32::MAX), ..Seen::default() })
}

/// Reads the addresses. `len`: bytes behind the IP headers.
fn ip(packet: &Packet, len: usize) -> Option<Ip> {
    let l3 = packet.l3()?;
    match packet.l3_type()? {
        ethertype::IPV4 => {
            let header: &[u8; 20] = packet.bytes(l3)?;
            let header_len = usize::from(header[0] & 15) * 4;
            let whole = packet.mbuf.head().get(l3..l3 + header_len).filter(|_| packet.layers.l4 != u16::MAX)?;
            if header_len < 20 || Sum::of(whole).folded() != 0xffff {
                return None;
            }
            let (_, [s0, s1, s2, s3, d0, d1, d2, d3]) = header.split_last_chunk::<8>()?;
            let (src, dst) = ([*s0, *s1, *s2, *s3], [*d0, *d1, *d2, *d3]);
            let end = |addr: [u8; 4]| End { addr: u32::from_be_bytes(addr).into(), port: 0 };
            let tuple =
                Tuple { src: end(src), dst: end(dst), family: Family::V4, protocol: header[9], ..Tuple::default() };
            Some(Ip { tuple, pseudo: pseudo_v4(src, dst, header[9], u16::try_from(len).ok()?) })
        }
        ethertype::IPV6 => {
            let (src, dst): (&[u8; 16], &[u8; 16]) = (packet.bytes(l3 + 8)?, packet.bytes(l3 + 24)?);
            let chain = packet.chain_of_ipv6()?;
            // The header of an atomic fragment with reserved bits: no fragment, and not whole.
            let is_odd =
                |at: usize| packet.bytes::<4>(at).is_some_and(|header| be16([header[2], header[3]]) & 0xfff9 == 0);
            if chain.fragment.is_some_and(is_odd) {
                return None;
            }
            let end = |addr: &[u8; 16]| End { addr: u128::from_be_bytes(*addr), port: 0 };
            let tuple = Tuple {
                src: end(src),
                dst: end(dst),
                family: Family::V6,
                protocol: chain.protocol,
                ..Tuple::default()
            };
            let len = u32::try_from(len).ok()?;
            Some(Ip { tuple, pseudo: pseudo_v6(src, dst, chain.protocol, len) })
        }
        _ => None,
    }
}

/// What is known of the L4 checksum without summing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    Right,
    Wrong,
    Unknown,
}

/// Devices know nothing of datagrams, nobody sums GSO packets.
fn trusted(datagram: &Datagram<'_>) -> Trust {
    match datagram.whole().map(|packet| &packet.mbuf) {
        Some(mbuf) if mbuf.csum() == Csum::Bad => Trust::Wrong,
        Some(mbuf) if mbuf.csum() == Csum::Good || mbuf.gso_size() != 0 => Trust::Right,
        _ => Trust::Unknown,
    }
}

/// Whether a checksum is right that `is_right` computes; not twice for the same packet. `partial`:
/// the protocol is one of which a partial one is as good.
fn verified(datagram: &mut Datagram<'_>, partial: bool, is_right: impl FnOnce(&Datagram<'_>) -> bool) -> bool {
    match trusted(datagram) {
        Trust::Right => return true,
        Trust::Wrong => return false,
        Trust::Unknown => {}
    }
    let is_partial = |packet: &Packet| packet.mbuf.csum() == Csum::Partial;
    if datagram.whole().is_some_and(is_partial) && partial {
        return true;
    }
    let right = is_right(datagram);
    if let [packet] = &mut *datagram.packets
        && right
        && packet.mbuf.csum() == Csum::Unknown
    {
        packet.mbuf.set_csum(Csum::Good);
    }
    right
}

/// Whether the Internet checksum over pseudo-header and datagram is right.
fn sums_up(datagram: &mut Datagram<'_>, pseudo: Sum, partial: bool) -> bool {
    verified(datagram, partial, |datagram| datagram.sum(pseudo).folded() == 0xffff)
}

/// RFC 9293.
fn tcp(datagram: &mut Datagram<'_>, ip: Ip, len: usize) -> Option<Message> {
    let header: [u8; TCP_LEN] = datagram.read(0)?;
    let header_len = usize::from(header[12] >> 4) * 4;
    if header_len < TCP_LEN || header_len > len || !sums_up(datagram, ip.pseudo, true) {
        return None;
    }
    let tuple = with_ports(ip.tuple, header.first_chunk()?)?;
    let mut segment = segment(&header, len)?;
    if segment.flags & SYN != 0 {
        segment.scale = window_scale(datagram, header_len);
    }
    Some(seen(datagram, tuple, L4::Tcp(segment)))
}

/// What a TCP header says, options apart; `len`: bytes of it, its options and its payload. None:
/// its options end behind them. That it is no shorter than it is was found out by whoever asks.
#[inline]
#[allow(clippy::cast_possible_truncation)] // halves
pub(super) fn segment(header: &[u8; TCP_LEN], len: usize) -> Option<tcp::Segment> {
    let header_len = usize::from(header[12] >> 4) * 4;
    // As one number: as two neighbours they would go through a vector register, and arrive later.
    let [_, _, _, _, numbers @ .., _, _, _, _, _, _, _, _] = *header;
    let numbers = u64::from_be_bytes(numbers);
    Some(tcp::Segment {
        flags: header[13],
        seq: (numbers >> 32) as u32,
        ack: numbers as u32,
        window: be16([header[14], header[15]]),
        payload: u32::try_from(len.checked_sub(header_len)?).ok()?,
        scale: None,
    })
}

/// Only with it a window scale counts (RFC 7323, 1.3).
pub(super) const SYN: u8 = 2;

/// The shift of the window scale option; the first one of several. Options behind a malformed one
/// are not read.
fn window_scale(datagram: &Datagram<'_>, header_len: usize) -> Option<u8> {
    let mut options = [0; 40];
    let options = options.get_mut(..header_len - TCP_LEN)?;
    if datagram.copy(TCP_LEN, options) { scale_among(options) } else { None }
}

/// [`window_scale`], of options that lie in one piece.
pub(super) fn scale_among(options: &[u8]) -> Option<u8> {
    const END: u8 = 0;
    const NOP: u8 = 1;
    const WINDOW_SCALE: u8 = 3;
    let mut rest = options;
    // Every round takes one byte at least.
    loop {
        match *rest {
            [WINDOW_SCALE, 3, shift, ..] => return Some(shift),
            [] | [END, ..] => return None,
            [NOP, ..] => rest = &rest[1..],
            [_, len, ..] if len >= 2 => rest = rest.get(usize::from(len)..)?,
            _ => return None,
        }
    }
}

/// RFC 768. A length that leaves bytes over is none of ours (RFC 9868): the checksum tells, which
/// like Open vSwitch's is over all bytes.
fn udp(datagram: &mut Datagram<'_>, ip: Ip, len: usize) -> Option<Message> {
    let header: [u8; UDP_LEN] = datagram.read(0)?;
    let claimed = usize::from(be16([header[4], header[5]]));
    if claimed < UDP_LEN || claimed > len {
        return None;
    }
    let none = header[6..] == [0, 0] && ip.tuple.family == Family::V4;
    let right = if none { trusted(datagram) != Trust::Wrong } else { sums_up(datagram, ip.pseudo, true) };
    let tuple = with_ports(ip.tuple, header.first_chunk()?).filter(|_| right)?;
    Some(seen(datagram, tuple, L4::Udp))
}

/// RFC 9260.
fn sctp(datagram: &mut Datagram<'_>, ip: Ip) -> Option<Message> {
    let header: [u8; SCTP_CHECKSUM.1] = datagram.read(0)?;
    let tuple = with_ports(ip.tuple, header.first_chunk()?)?;
    let claimed = u32::from_le_bytes(*header.last_chunk()?);
    verified(datagram, false, |datagram| datagram.sctp_crc() == claimed).then(|| seen(datagram, tuple, L4::Other))
}

/// RFC 792, RFC 4443.
fn icmp(datagram: &mut Datagram<'_>, ip: Ip) -> Option<Message> {
    let header: [u8; ICMP_LEN] = datagram.read(0)?;
    let v6 = ip.tuple.family == Family::V6;
    if !sums_up(datagram, if v6 { ip.pseudo } else { Sum::new() }, false) {
        return None;
    }
    if let Some(tuple) = with_identifier(ip.tuple, &header) {
        return Some(seen(datagram, tuple, L4::Icmp));
    }
    if !is_error(ip.tuple.family, header[0]) {
        return None;
    }
    let (quote, mut inner) = quote::read(datagram, ip.tuple.family)?;
    inner.zone = ip.tuple.zone;
    // An error goes to whom it is about.
    (inner.src.addr == ip.tuple.dst.addr).then(|| {
        let related = Related {
            inner,
            protocol: ip.tuple.protocol,
            src: ip.tuple.src.addr,
            dst: ip.tuple.dst.addr,
            kind: be16([header[0], header[1]]),
            len: u32::try_from(datagram.frame_len()).unwrap_or(u32::MAX),
        };
        Message::Related(related, quote)
    })
}

/// Messages about another packet that are followed: unreachable, source quench, redirect, time
/// exceeded, parameter problem; of ICMPv6 unreachable, too big, time exceeded, parameter problem.
const fn is_error(family: Family, kind: u8) -> bool {
    match family {
        Family::V4 => matches!(kind, 3 | 4 | 5 | 11 | 12),
        Family::V6 => matches!(kind, 1..=4),
    }
}

/// The tuple with ports; none where one is 0.
pub(super) fn with_ports(mut tuple: Tuple, [a, b, c, d]: &[u8; 4]) -> Option<Tuple> {
    (tuple.src.port, tuple.dst.port) = (be16([*a, *b]), be16([*c, *d]));
    (tuple.src.port != 0 && tuple.dst.port != 0).then_some(tuple)
}

/// The tuple of a request or reply; none of other messages: errors, and what is no conversation of
/// two (neighbour discovery, router solicitation, address masks).
pub(super) fn with_identifier(mut tuple: Tuple, header: &[u8; ICMP_LEN]) -> Option<Tuple> {
    let [kind, code, _, _, high, low, ..] = *header;
    let known = match tuple.family {
        Family::V4 => matches!(kind, 0 | 8 | 13 | 14 | 15 | 16),
        Family::V6 => matches!(kind, 128 | 129),
    };
    (tuple.src.port, tuple.dst.port) = (be16([high, low]), be16([kind, code]));
    (known && code == 0).then_some(tuple)
}
