//! What a sender is told whose packet is too long for the way: fragmentation needed (RFC 792, RFC
//! 1191), packet too big (RFC 4443, 3.2). And how any error is told: [`super::refusal`] has others.
//!
//! The message goes back the way the packet came, with both pairs of addresses exchanged, as Linux
//! answers for its tunnels (`iptunnel_pmtud_build_icmp`): a switch has no address of its own there,
//! and the receiver's is one that whoever is on the way lets pass.

use super::checksum::{Sum, pseudo_v6};
use super::headers::HEADERS_MAX;
use super::{Headers, icmp};

/// Bytes of a message of ICMP at most, its IP header included (RFC 1812, 4.3.2.3).
const MESSAGE_V4_MAX: usize = 576;
/// Likewise of ICMPv6 (RFC 4443, 2.4 c): what every link can carry.
const MESSAGE_V6_MAX: usize = 1280;
/// Bytes of a packet, from its Ethernet header, that a message may need.
pub const QUOTED_MAX: usize = MESSAGE_V6_MAX + 22;

/// IPv6 packets of this length get through everywhere (RFC 8200, 5): a sender is not told to send
/// shorter ones.
pub const IPV6_MTU: u16 = 1280;

/// The authentication header (RFC 4302): its first byte says what is behind it.
const AUTHENTICATION: u8 = 51;

/// IPv4's "don't fragment", and the offset of a fragment.
const DF: u8 = 0x40;
const OFFSET: u16 = 0x1fff;

/// The frame that tells the sender of a packet of `len` bytes (`front`: the first [`QUOTED_MAX`] of
/// them, from the Ethernet header) that IP packets of at most `mtu` bytes get through. None: it
/// must not be told (RFC 1122, 3.2.2; RFC 4443, 2.4 e: errors, later fragments, packets from or for
/// more than one), or the packet is not IP.
#[must_use]
pub fn too_big(front: &[u8], len: usize, mtu: u16) -> Option<Vec<u8>> {
    let (frame, ip, headers) = turned(front, len)?;
    let [high, low] = mtu.to_be_bytes();
    if headers.ipv4 {
        v4(frame, ip, &headers, [3, 4, 0, 0, 0, 0, high, low])
    } else {
        v6(frame, ip, &headers, [2, 0, 0, 0, 0, 0, high, low])
    }
}

/// The Ethernet header of a frame's answer, tags included; the frame's IP packet, and its headers.
/// None where it is not IP, or of more than one.
pub(super) fn turned(front: &[u8], len: usize) -> Option<(Vec<u8>, &[u8], Headers)> {
    let headers = Headers::parse(front.get(..front.len().min(HEADERS_MAX))?, len)?;
    let (l2, ip) = front.split_at_checked(headers.l2_len)?;
    // Group addresses of Ethernet, as sender or receiver.
    if (l2[0] | l2[6]) & 1 != 0 {
        return None;
    }
    Some(([&l2[6..12], &l2[..6], &l2[12..]].concat(), ip, headers))
}

/// Source and destination of an IPv4 packet, if they are hosts.
pub(super) fn hosts_v4(ip: &[u8]) -> Option<([u8; 4], [u8; 4])> {
    let header: &[u8; 20] = ip.first_chunk()?;
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
    // Nobody, loopback, groups, the broadcast address.
    let is_host = |first: u8| !matches!(first, 0 | 127 | 224..);
    (is_host(s0) && is_host(d0)).then_some(([s0, s1, s2, s3], [d0, d1, d2, d3]))
}

/// Likewise of IPv6.
pub(super) fn hosts_v6(ip: &[u8]) -> Option<([u8; 16], [u8; 16])> {
    let header: &[u8; 40] = ip.first_chunk()?;
    let src: [u8; 16] = header[8..24].try_into().ok()?;
    let dst: [u8; 16] = header[24..40].try_into().ok()?;
    // Nobody, loopback, groups, and IPv4's in IPv6's clothes, which no wire has (RFC 6890).
    let is_host = |address: [u8; 16]| {
        let number = u128::from_be_bytes(address);
        address[0] != 0xff && number > 1 && number >> 32 != 0xffff
    };
    (is_host(src) && is_host(dst)).then_some((src, dst))
}

/// Whether an IPv4 packet (from its header) may be cut into fragments.
#[must_use]
pub fn may_fragment(ip: &[u8]) -> bool {
    ip.first().is_some_and(|first| first >> 4 == 4) && ip.get(6).is_some_and(|flags| flags & DF == 0)
}

/// The rest of a frame that begins with [`turned`]: an error of ICMP (its first 8 bytes, without a
/// checksum) about an IPv4 packet.
pub(super) fn v4(mut frame: Vec<u8>, ip: &[u8], headers: &Headers, mut message: [u8; 8]) -> Option<Vec<u8>> {
    let ([s0, s1, s2, s3], [d0, d1, d2, d3]) = hosts_v4(ip)?;
    let later = u16::from_be_bytes([ip[6], ip[7]]) & OFFSET != 0;
    let error = headers.protocol == icmp::PROTOCOL_V4 && is_error(ip, headers, |header| header.is_error_v4())
        || is_authenticated(ip, headers, icmp::PROTOCOL_V4);
    if later || error {
        return None;
    }
    let end = (headers.end - headers.l2_len).min(ip.len()).min(MESSAGE_V4_MAX - 28);
    let quoted = &ip[..end];
    let len = u16::try_from(28 + quoted.len()).ok()?.to_be_bytes();
    let mut reply =
        [0x45, 0xc0, len[0], len[1], 0, 0, DF, 0, 64, icmp::PROTOCOL_V4, 0, 0, d0, d1, d2, d3, s0, s1, s2, s3];
    let sum = Sum::of(&reply).checksum().to_be_bytes();
    reply[10..12].copy_from_slice(&sum);
    let sum = Sum::of(&message).bytes(quoted).checksum().to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    frame.extend_from_slice(&reply);
    frame.extend_from_slice(&message);
    frame.extend_from_slice(quoted);
    Some(frame)
}

/// Likewise of ICMPv6, about an IPv6 packet.
pub(super) fn v6(mut frame: Vec<u8>, ip: &[u8], headers: &Headers, mut message: [u8; 8]) -> Option<Vec<u8>> {
    let (src, dst) = hosts_v6(ip)?;
    let error = headers.protocol == icmp::PROTOCOL_V6 && is_error(ip, headers, |header| header.is_error_v6());
    if error || is_authenticated(ip, headers, icmp::PROTOCOL_V6) {
        return None;
    }
    let end = (headers.end - headers.l2_len).min(ip.len()).min(MESSAGE_V6_MAX - 48);
    let quoted = &ip[..end];
    let len = u16::try_from(8 + quoted.len()).ok()?;
    let mut reply = [0; 40];
    reply[0] = 0x60;
    reply[4..6].copy_from_slice(&len.to_be_bytes());
    reply[6..8].copy_from_slice(&[icmp::PROTOCOL_V6, 64]);
    reply[8..24].copy_from_slice(&dst);
    reply[24..].copy_from_slice(&src);
    let sum = pseudo_v6(&dst, &src, icmp::PROTOCOL_V6, len.into()).bytes(&message).bytes(quoted);
    message[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    frame.extend_from_slice(&reply);
    frame.extend_from_slice(&message);
    frame.extend_from_slice(quoted);
    Some(frame)
}

/// Whether a message of ICMP is an error, as far as it can be seen; one that cannot be is taken for
/// one.
fn is_error(ip: &[u8], headers: &Headers, says: impl Fn(&icmp::Icmp<&[u8; 8]>) -> bool) -> bool {
    let message = ip.get(headers.l3_len..).and_then(icmp::Icmp::parse);
    message.is_none_or(|(header, _)| says(&header))
}

/// Whether a message of ICMP may be behind an authentication header, which is not walked: right
/// behind it, or behind more extension headers. It may be an error.
fn is_authenticated(ip: &[u8], headers: &Headers, protocol: u8) -> bool {
    let may_be = |next: u8| next == protocol || matches!(next, 0 | 43 | 44 | AUTHENTICATION | 60);
    headers.protocol == AUTHENTICATION && ip.get(headers.l3_len).is_none_or(|next| may_be(*next))
}

#[cfg(test)]
mod tests {
    use super::super::L4;
    use super::super::testing::Spec;
    use super::*;

    fn message(v4: bool) -> (Vec<u8>, Vec<u8>) {
        let mut packet = Spec::plain(v4, L4::Udp, 1600).complete();
        if v4 {
            packet[20] |= DF;
        }
        (too_big(&packet[..QUOTED_MAX], packet.len(), 1450).expect("told"), packet)
    }

    #[test]
    fn the_sender_of_an_ipv4_packet_is_told_by_its_receiver() {
        let (told, packet) = message(true);
        assert_eq!((&told[..6], &told[6..12], &told[12..14]), (&packet[6..12], &packet[..6], &[8, 0][..]));
        assert_eq!((&told[26..30], &told[30..34]), (&packet[30..34], &packet[26..30]));
        assert_eq!((told.len(), &told[34..36], &told[38..42]), (14 + 576, &[3, 4][..], &[0, 0, 5, 0xaa][..]));
        assert_eq!(told[42..], packet[14..14 + 548]);
        assert_eq!((Sum::of(&told[14..34]).checksum(), Sum::of(&told[34..]).checksum()), (0, 0), "checksums");
        assert_eq!(usize::from(u16::from_be_bytes([told[16], told[17]])), told.len() - 14);
    }

    #[test]
    fn the_sender_of_an_ipv6_packet_is_told_by_its_receiver() {
        let (told, packet) = message(false);
        assert_eq!((&told[22..38], &told[38..54]), (&packet[38..54], &packet[22..38]));
        assert_eq!((told.len(), &told[54..56], &told[58..62]), (14 + 1280, &[2, 0][..], &[0, 0, 5, 0xaa][..]));
        assert_eq!(told[62..], packet[14..14 + 1232]);
        let (dst, src) = (told[22..38].try_into().expect("16"), told[38..54].try_into().expect("16"));
        let len = u32::try_from(told.len() - 54).expect("short");
        assert_eq!(pseudo_v6(&dst, &src, 58, len).bytes(&told[54..]).checksum(), 0, "checksum");
    }

    #[test]
    fn tags_come_back() {
        let mut packet = Spec::plain(true, L4::Tcp, 1600).complete();
        packet.splice(12..12, [0x81, 0, 0x20, 7]);
        let told = too_big(&packet, packet.len(), 1400).expect("told");
        assert_eq!(told[12..18], [0x81, 0, 0x20, 7, 8, 0]);
    }

    #[test]
    fn who_must_not_be_told_is_not() {
        for v4 in [true, false] {
            let whole = Spec::plain(v4, L4::Udp, 1600).complete();
            let with = |changes: &[(usize, u8)]| {
                let mut packet = whole.clone();
                changes.iter().for_each(|(at, byte)| packet[*at] = *byte);
                too_big(&packet, packet.len(), 1400)
            };
            assert!(with(&[]).is_some());
            assert!(with(&[(0, 1)]).is_none() && with(&[(6, 1)]).is_none(), "groups of Ethernet");
            let cases: &[&[(usize, u8)]] = if v4 {
                &[&[(26, 0)], &[(26, 127)], &[(30, 224)], &[(30, 255)], &[(21, 1)], &[(23, 1), (34, 3)]]
            } else {
                &[&[(22, 0xff)], &[(38, 0xff)], &[(20, 58), (54, 1)]]
            };
            for changes in cases {
                assert!(with(changes).is_none(), "v4={v4}: {changes:?}");
            }
            let echo = if v4 { [(23, 1), (34, 8)] } else { [(20, 58), (54, 128)] };
            assert!(with(&echo).is_some(), "v4={v4}: an echo request is no error");
            let (at, icmp) = if v4 { (23, 1) } else { (20, 58) };
            let behind = |next: u8| with(&[(at, 51), (if v4 { 34 } else { 54 }, next)]);
            let told = [icmp, 51, 17].map(|next| behind(next).is_some());
            assert_eq!(told, [false, false, true], "v4={v4}: behind an authentication header");
            for len in 0..whole.len().min(80) {
                let _ = too_big(&whole[..len], len, 1400);
                let _ = too_big(&whole[..len], whole.len(), 1400);
            }
        }
        assert!(too_big(&[0; 60], 60, 1400).is_none(), "not IP");
    }

    #[test]
    fn what_may_be_cut() {
        let mut ip = Spec::plain(true, L4::Udp, 10).complete().split_off(14);
        ip[6] = 0;
        assert!(may_fragment(&ip));
        ip[6] = DF;
        assert!(!may_fragment(&ip));
        assert!(!may_fragment(&Spec::plain(false, L4::Udp, 10).complete()[14..]), "IPv6");
        assert!(!may_fragment(&[]));
    }
}
