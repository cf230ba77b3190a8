//! Writes into a packet, or into all fragments of a datagram, what the tracker says: addresses and
//! ports, and every checksum over them.

use super::change::Change;
use super::datagram::{Datagram, SCTP_CHECKSUM, be16};
use super::quote;
use super::read::Message;
use crate::action::{Packet, udp_sum};
use vswitch_conntrack::{End, Family, Rewrite, protocol};
use vswitch_dpdk::Csum;

/// Rewrites what [`super::read::read`] has read. Lengths and layers stay.
pub(super) fn rewrite(datagram: &mut Datagram<'_>, message: &Message, rewrite: &Rewrite) {
    if *rewrite == Rewrite::default() {
        return;
    }
    let (family, protocol) = match message {
        Message::Seen(seen) => (seen.tuple.family, seen.tuple.protocol),
        Message::Related(related, _) => (related.inner.family, related.protocol),
    };
    let mut change = addresses(datagram, family, rewrite);
    match (message, protocol, family) {
        (Message::Related(_, quoted), ..) => {
            if family == Family::V4 {
                change = Change::default(); // ICMP has no pseudo-header
            }
            quote::rewrite(datagram, *quoted, rewrite, &mut change);
            adjust(datagram, 2, |sum| change.apply(sum));
        }
        (_, protocol::TCP | protocol::UDP, _) => {
            let (field, udp) = if protocol == protocol::UDP { (6, true) } else { (16, false) };
            let partial = datagram.whole().is_some_and(|packet| packet.mbuf.csum() == Csum::Partial);
            if partial {
                // It covers the pseudo-header so far: the ports will be summed with the rest.
                adjust(datagram, field, |sum| change.apply_partial(sum));
                ports(datagram, rewrite, &mut Change::default());
                return;
            }
            ports(datagram, rewrite, &mut change);
            let apply = |sum| change.apply(sum);
            adjust(datagram, field, |sum| if udp { udp_sum(sum, apply) } else { apply(sum) });
        }
        (_, protocol::SCTP, _) => sctp(datagram, rewrite),
        (_, protocol::ICMP, Family::V4) => {
            let mut change = Change::default();
            identifier(datagram, rewrite, &mut change);
            adjust(datagram, 2, |sum| change.apply(sum));
        }
        (_, protocol::ICMPV6, Family::V6) => {
            identifier(datagram, rewrite, &mut change);
            adjust(datagram, 2, |sum| change.apply(sum));
        }
        _ => {}
    }
}

/// Rewrites the addresses of all packets, and the checksum of their IPv4 headers. Returns what
/// changed in the pseudo-header.
fn addresses(datagram: &mut Datagram<'_>, family: Family, rewrite: &Rewrite) -> Change {
    let routed =
        family == Family::V6 && datagram.first().and_then(Packet::chain_of_ipv6).is_some_and(|chain| chain.routed);
    let mut pseudo = Change::default();
    for (i, packet) in datagram.packets.iter_mut().enumerate() {
        let mut unseen = Change::default();
        for (end, is_source) in [(&rewrite.src, true), (&rewrite.dst, false)] {
            let Some(End { addr, .. }) = end else { continue };
            // Behind a routing header the checksum covers the final destination (RFC 8200, 8.1),
            // which is not this one.
            let covered = i == 0 && (is_source || !routed);
            address(packet, family, is_source, *addr, if covered { &mut pseudo } else { &mut unseen });
        }
    }
    pseudo
}

fn address(packet: &mut Packet, family: Family, is_source: bool, addr: u128, pseudo: &mut Change) {
    let Some(l3) = packet.l3() else { return };
    let new = addr.to_be_bytes();
    match family {
        Family::V4 => {
            let Some(new) = new.last_chunk::<4>() else { return };
            let Some(field) = packet.bytes_mut::<4>(l3 + if is_source { 12 } else { 16 }) else { return };
            let old = std::mem::replace(field, *new);
            pseudo.swap(&old, new);
            if old != *new {
                packet.adjust(l3 + 10, &old, new);
            }
        }
        Family::V6 => {
            let Some(field) = packet.bytes_mut::<16>(l3 + if is_source { 8 } else { 24 }) else { return };
            let old = std::mem::replace(field, new);
            pseudo.swap(&old, &new);
        }
    }
}

/// Rewrites the ports.
fn ports(datagram: &mut Datagram<'_>, rewrite: &Rewrite, change: &mut Change) {
    let Some(old) = datagram.read::<4>(0) else { return };
    let [a, b, c, d] = old;
    let port = |end: &Option<End>, old: [u8; 2]| end.map_or(old, |end| end.port.to_be_bytes());
    let ([a, b], [c, d]) = (port(&rewrite.src, [a, b]), port(&rewrite.dst, [c, d]));
    change.swap(&old, &[a, b, c, d]);
    datagram.write(0, &[a, b, c, d]);
}

/// Rewrites the identifier of an ICMP request or reply.
fn identifier(datagram: &mut Datagram<'_>, rewrite: &Rewrite, change: &mut Change) {
    let (Some(old), Some(end)) = (datagram.read::<2>(4), rewrite.src) else { return };
    change.swap(&old, &end.port.to_be_bytes());
    datagram.write(4, &end.port.to_be_bytes());
}

/// The CRC32c is over the whole datagram. A wrong one stays wrong by the same difference.
fn sctp(datagram: &mut Datagram<'_>, rewrite: &Rewrite) {
    let (Some(old), Some(sum)) = (datagram.read::<4>(0), datagram.read::<4>(SCTP_CHECKSUM.0)) else { return };
    let before = datagram.sctp_crc();
    ports(datagram, rewrite, &mut Change::default());
    if datagram.read(0) != Some(old) {
        let sum = u32::from_le_bytes(sum) ^ before ^ datagram.sctp_crc();
        datagram.write(SCTP_CHECKSUM.0, &sum.to_le_bytes());
    }
}

/// Adjusts the checksum at `at`.
fn adjust(datagram: &mut Datagram<'_>, at: usize, new: impl FnOnce(u16) -> u16) {
    if let Some(old) = datagram.read(at) {
        datagram.write(at, &new(be16(old)).to_be_bytes());
    }
}
