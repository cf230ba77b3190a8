//! TCP, UDP, ICMP, ICMPv6 with neighbour discovery, and their checksums.

use super::{Checked, Frame, options};
use crate::limits::STRICT_ND_OPTIONS_MAX;
use crate::observe::DropReason;
use crate::packet::checksum::Sum;
use crate::packet::{icmp, tcp, udp};
use vswitch_dpdk::Csum;

/// What follows the IP headers of a packet that is no fragment.
pub(super) struct Transport {
    /// IPv4, else IPv6.
    pub(super) ipv4: bool,
    /// Where it starts, from the front of the packet.
    pub(super) at: usize,
    /// Where it ends, from the front of the packet; what follows is padding.
    pub(super) end: usize,
    pub(super) protocol: u8,
    pub(super) hop_limit: u8,
    /// The sum over the pseudo-header; none: the final destination is not known.
    pub(super) pseudo: Option<Sum>,
}

impl Transport {
    /// Its first `N` bytes; none where it is shorter.
    fn header<const N: usize>(&self, frame: &Frame<'_>) -> Option<[u8; N]> {
        frame.part_within(self.at, self.end)
    }
}

/// Checks what an IP packet carries, as far as the protocol is known.
pub(super) fn check(frame: &Frame<'_>, l4: &Transport) -> Checked {
    match (l4.protocol, l4.ipv4) {
        (tcp::PROTOCOL, _) => tcp(frame, l4),
        (udp::PROTOCOL, _) => udp(frame, l4),
        (icmp::PROTOCOL_V4, true) => {
            l4.header::<8>(frame).ok_or(DropReason::IcmpHdr)?;
            checksum(frame, l4, Some(Sum::new()))
        }
        (icmp::PROTOCOL_V6, false) => {
            let [kind, code, ..] = l4.header::<8>(frame).ok_or(DropReason::IcmpHdr)?;
            checksum(frame, l4, l4.pseudo)?;
            neighbour_discovery(frame, l4, kind, code)
        }
        _ => Ok(()),
    }
}

/// Sums the packet, unless a device did or it is still to be finished.
fn checksum(frame: &Frame<'_>, l4: &Transport, pseudo: Option<Sum>) -> Checked {
    let Some(pseudo) = pseudo else { return Ok(()) };
    if matches!(frame.mbuf.csum(), Csum::Good | Csum::Partial) || frame.mbuf.gso_size() != 0 {
        return Ok(());
    }
    match Sum::of_mbuf(frame.mbuf, l4.at, l4.end) {
        Some(sum) if pseudo.word(sum.folded()).folded() == 0xffff => Ok(()),
        _ => Err(DropReason::Csum),
    }
}

/// RFC 9293, 3.1.
fn tcp(frame: &Frame<'_>, l4: &Transport) -> Checked {
    let header: [u8; 20] = l4.header(frame).ok_or(DropReason::TcpHdr)?;
    let header_len = usize::from(header[12] >> 4) * 4;
    if header_len < header.len() || header_len > l4.end - l4.at || !are_tcp_flags(header[13]) {
        return Err(DropReason::TcpHdr);
    }
    let mut bytes = [0; 40];
    let bytes = &mut bytes[..header_len - header.len()];
    if !frame.mbuf.read(l4.at + header.len(), bytes) || !options(bytes, |_, _| true) {
        return Err(DropReason::TcpHdr);
    }
    checksum(frame, l4, l4.pseudo)
}

/// Flags that a TCP sends, whatever PSH, ECE and CWR are (Linux: `tcp_valid_flags` of connection
/// tracking).
const fn are_tcp_flags(flags: u8) -> bool {
    const FIN: u8 = 0x01;
    const SYN: u8 = 0x02;
    const RST: u8 = 0x04;
    const ACK: u8 = 0x10;
    const URG: u8 = 0x20;
    const SYN_ACK: u8 = SYN | ACK;
    const SYN_URG: u8 = SYN | URG;
    const RST_ACK: u8 = RST | ACK;
    const FIN_ACK: u8 = FIN | ACK;
    const FIN_ACK_URG: u8 = FIN | ACK | URG;
    const ACK_URG: u8 = ACK | URG;
    matches!(
        flags & (FIN | SYN | RST | ACK | URG),
        SYN | SYN_ACK | SYN_URG | RST | RST_ACK | FIN_ACK | FIN_ACK_URG | ACK | ACK_URG
    )
}

/// RFC 768. Bytes between the end of the datagram and that of the IP packet (RFC 9868) belong to
/// nobody that we know.
fn udp(frame: &Frame<'_>, l4: &Transport) -> Checked {
    let [_, _, _, _, high, low, sum_high, sum_low] = l4.header(frame).ok_or(DropReason::UdpLen)?;
    if usize::from(u16::from_be_bytes([high, low])) != l4.end - l4.at {
        return Err(DropReason::UdpLen);
    }
    match [sum_high, sum_low] {
        [0, 0] if l4.ipv4 => Ok(()), // the sender made none
        _ => checksum(frame, l4, l4.pseudo),
    }
}

/// RFC 4861: the fixed part of the message, then options to its end.
fn neighbour_discovery(frame: &Frame<'_>, l4: &Transport, kind: u8, code: u8) -> Checked {
    const REFUSED: Checked = Err(DropReason::NdOpt);
    let fixed = match kind {
        133 => 8,        // router solicitation
        134 => 16,       // router advertisement
        135 | 136 => 24, // neighbour solicitation, neighbour advertisement
        137 => 40,       // redirect
        _ => return Ok(()),
    };
    if code != 0 || l4.hop_limit != 255 || fixed > l4.end - l4.at {
        return REFUSED;
    }
    let mut at = l4.at + fixed;
    for _ in 0..STRICT_ND_OPTIONS_MAX {
        if at == l4.end {
            return Ok(());
        }
        match frame.part_within(at, l4.end) {
            Some([_, units]) if units > 0 => at += usize::from(units) * 8,
            _ => return REFUSED,
        }
        if at > l4.end {
            return REFUSED;
        }
    }
    if at == l4.end { Ok(()) } else { REFUSED }
}
