//! Ports of TCP, UDP and SCTP; type and code of ICMP.

use super::packet::{L4Header, TCP_LEN, UDP_LEN, udp_sum};
use super::{Masked, Packet, SetIcmp, SetPorts};
use crate::packet::{checksum, icmp, tcp, udp};
use vswitch_dpdk::{Csum, Mbuf, crc32c};

/// Bytes of an ICMP header, the rest of the first eight included (RFC 792).
const ICMP_LEN: usize = 8;

/// SCTP (RFC 9260): ports, verification tag, CRC32c.
mod sctp {
    pub(super) const PROTOCOL: u8 = 132;
    pub(super) const HEADER_LEN: usize = 12;
    pub(super) const CHECKSUM: usize = 8;
}

/// Rewrites the ports. Packets without a whole, well-formed L4 header (later fragments, bad TCP
/// offsets) stay as they are.
pub(super) fn set_ports(packet: &mut Packet, set: &SetPorts) {
    let Some(l4) = packet.l4() else { return };
    match l4.protocol {
        tcp::PROTOCOL if is_tcp(packet, l4) => {
            let partial = packet.mbuf.csum() == Csum::Partial;
            // A partial checksum covers the pseudo-header so far: the ports will be summed with the
            // rest.
            write(
                packet,
                l4,
                16,
                set,
                |sum, old, new| {
                    if partial { sum } else { checksum::update_bytes(sum, old, new) }
                },
            );
        }
        udp::PROTOCOL if l4.size >= UDP_LEN => {
            let partial = packet.mbuf.csum() == Csum::Partial;
            write(packet, l4, 6, set, |sum, old, new| {
                if partial { sum } else { udp_sum(sum, |sum| checksum::update_bytes(sum, old, new)) }
            });
        }
        sctp::PROTOCOL if l4.size >= sctp::HEADER_LEN => set_sctp(packet, l4, set),
        _ => {}
    }
}

/// Whether the TCP header with its options lies in the packet.
fn is_tcp(packet: &Packet, l4: L4Header) -> bool {
    let offset = packet.bytes::<20>(l4.at).map_or(0, |header| usize::from(header[12] >> 4) * 4);
    offset >= TCP_LEN && l4.size >= offset
}

fn ports(old: [u8; 4], set: &SetPorts) -> [u8; 4] {
    let [a, b, c, d] = old;
    let apply = |port: &Masked<u16>, old: [u8; 2]| port.apply(u16::from_be_bytes(old)).to_be_bytes();
    let ([a, b], [c, d]) = (apply(&set.src, [a, b]), apply(&set.dst, [c, d]));
    [a, b, c, d]
}

fn write(packet: &mut Packet, l4: L4Header, field: usize, set: &SetPorts, adjust: impl Fn(u16, &[u8], &[u8]) -> u16) {
    let Some(old) = packet.bytes::<4>(l4.at).copied() else { return };
    let new = ports(old, set);
    if new == old {
        return;
    }
    let Some(sum) = packet.bytes_mut::<2>(l4.at + field) else { return };
    *sum = adjust(u16::from_be_bytes(*sum), &old, &new).to_be_bytes();
    if let Some(field) = packet.bytes_mut(l4.at) {
        *field = new;
    }
}

/// The CRC32c is over the whole packet. As Open vSwitch does, a wrong one stays wrong by the same
/// difference.
fn set_sctp(packet: &mut Packet, l4: L4Header, set: &SetPorts) {
    let at = l4.at + sctp::CHECKSUM;
    let (Some(old), Some(sum)) = (packet.bytes::<4>(l4.at).copied(), packet.bytes::<4>(at).copied()) else { return };
    let new = ports(old, set);
    if new == old {
        return;
    }
    let _ = packet.mbuf.write(at, &[0; 4]);
    let before = crc_of(&packet.mbuf, l4);
    let _ = packet.mbuf.write(l4.at, &new);
    let after = crc_of(&packet.mbuf, l4);
    let sum = u32::from_le_bytes(sum) ^ before ^ after;
    let _ = packet.mbuf.write(at, &sum.to_le_bytes());
}

/// The CRC32c over an L4 packet, whatever its segments.
fn crc_of(mbuf: &Mbuf, l4: L4Header) -> u32 {
    let mut crc = u32::MAX;
    mbuf.visit(l4.at, l4.size, |piece| crc = crc32c(crc, piece));
    !crc
}

/// Rewrites type and code of an ICMP or ICMPv6 message.
pub(super) fn set_icmp(packet: &mut Packet, set: &SetIcmp) {
    let known = |l4: &L4Header| matches!(l4.protocol, icmp::PROTOCOL_V4 | icmp::PROTOCOL_V6) && l4.size >= ICMP_LEN;
    let Some(l4) = packet.l4().filter(known) else { return };
    let Some(old) = packet.bytes::<2>(l4.at).copied() else { return };
    let new = [set.kind.apply(old[0]), set.code.apply(old[1])];
    if new != old {
        packet.adjust(l4.at + 2, &old, &new);
        if let Some(field) = packet.bytes_mut(l4.at) {
            *field = new;
        }
    }
}
