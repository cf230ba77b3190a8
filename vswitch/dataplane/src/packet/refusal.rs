//! The answer to a packet that is refused: a reset of TCP (RFC 9293, 3.10.7.1), or "destination
//! unreachable" (RFC 792; RFC 4443, 3.1). Or the sender is told that the packet is too long.
//!
//! It comes as from the receiver: ends exchanged on every layer, tags as they were. Errors are told
//! as in [`super::too_big`], which has the rules whom to tell.

use super::checksum::{Sum, pseudo_v4, pseudo_v6};
use super::too_big::{IPV6_MTU, hosts_v4, hosts_v6, too_big, turned, v4, v6};
use super::{Headers, L4, icmp, tcp};

/// Flags of TCP.
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
/// ICMP and ICMPv6: destination unreachable.
const UNREACHABLE_V4: u8 = 3;
const UNREACHABLE_V6: u8 = 1;
/// ICMPv6: redirect, which is no error, and not to be answered either (RFC 4443, 2.4 e.2).
const REDIRECT_V6: u8 = 137;

/// How a packet is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// TCP by a reset.
    pub reset: bool,
    /// Code of ICMP.
    pub icmp: u8,
    /// Code of ICMPv6.
    pub icmp6: u8,
    /// Longest IP packet that gets through: that is told, and nothing else. 0: not that.
    pub mtu: u16,
}

/// The frame that answers a packet of `len` bytes (`front`: the first
/// [`super::too_big::QUOTED_MAX`] of them, from the Ethernet header, or all). None: it must not be
/// answered (RFC 1122, 3.2.2; RFC 4443, 2.4 e; RFC 9293, 3.10.7.1: errors, resets, packets from or
/// for more than one), it is not IP, its headers contradict it, or it is a fragment: behind a
/// reassembly which fragment came in as what is not known.
#[must_use]
pub fn refuse(front: &[u8], len: usize, how: Refusal) -> Option<Vec<u8>> {
    let (frame, ip, headers) = turned(front, len)?;
    if headers.fragment {
        return None;
    }
    if how.mtu != 0 {
        return too_big(front, len, if headers.ipv4 { how.mtu } else { how.mtu.max(IPV6_MTU) });
    }
    if headers.protocol == tcp::PROTOCOL && how.reset {
        let segment = reset(ip, &headers)?;
        return if headers.ipv4 { reset_v4(frame, ip, segment) } else { reset_v6(frame, ip, segment) };
    }
    if headers.protocol == tcp::PROTOCOL && is_reset(ip, &headers) {
        return None;
    }
    if headers.ipv4 {
        return v4(frame, ip, &headers, [UNREACHABLE_V4, how.icmp, 0, 0, 0, 0, 0, 0]);
    }
    if headers.protocol == icmp::PROTOCOL_V6 && ip.get(headers.l3_len) == Some(&REDIRECT_V6) {
        return None;
    }
    v6(frame, ip, &headers, [UNREACHABLE_V6, how.icmp6, 0, 0, 0, 0, 0, 0])
}

/// Whether a segment is a reset, as far as it can be seen; one that cannot be is taken for one.
fn is_reset(ip: &[u8], headers: &Headers) -> bool {
    let segment = ip.get(headers.l3_len..headers.end - headers.l2_len);
    segment.and_then(|segment| segment.get(13)).is_none_or(|flags| flags & RST != 0)
}

/// The TCP header of a segment's reset, without its checksum.
fn reset(ip: &[u8], headers: &Headers) -> Option<[u8; 20]> {
    // Where its length contradicts the packet there is no L4.
    if headers.l4 != Some(L4::Tcp) {
        return None;
    }
    let segment: &[u8; 20] = ip.get(headers.l3_len..)?.first_chunk()?;
    let flags = segment[13];
    if flags & RST != 0 {
        return None;
    }
    let word = |at: usize| segment[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    // Who acknowledges says where he expects us to be; else he is told up to where he was heard.
    let (seq, ack, answer) = if flags & ACK != 0 {
        (word(8), 0, RST)
    } else {
        // SYN and FIN take a number each.
        let signs = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let len = u32::try_from(headers.payload_len()).ok()?;
        (0, word(4).wrapping_add(len).wrapping_add(signs), RST | ACK)
    };
    let mut reset = [0; 20];
    reset[..2].copy_from_slice(&segment[2..4]);
    reset[2..4].copy_from_slice(&segment[..2]);
    reset[4..8].copy_from_slice(&seq.to_be_bytes());
    reset[8..12].copy_from_slice(&ack.to_be_bytes());
    reset[12..14].copy_from_slice(&[0x50, answer]);
    Some(reset)
}

fn reset_v4(mut frame: Vec<u8>, ip: &[u8], mut reset: [u8; 20]) -> Option<Vec<u8>> {
    let (src, dst) = hosts_v4(ip)?;
    let mut header = [0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, tcp::PROTOCOL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[12..16].copy_from_slice(&dst);
    header[16..].copy_from_slice(&src);
    let sum = Sum::of(&header).checksum().to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    let sum = pseudo_v4(dst, src, tcp::PROTOCOL, 20).bytes(&reset).checksum().to_be_bytes();
    reset[16..18].copy_from_slice(&sum);
    frame.extend_from_slice(&header);
    frame.extend_from_slice(&reset);
    Some(frame)
}

fn reset_v6(mut frame: Vec<u8>, ip: &[u8], mut reset: [u8; 20]) -> Option<Vec<u8>> {
    let (src, dst) = hosts_v6(ip)?;
    let mut header = [0; 40];
    header[0] = 0x60;
    header[5..8].copy_from_slice(&[20, tcp::PROTOCOL, 64]);
    header[8..24].copy_from_slice(&dst);
    header[24..].copy_from_slice(&src);
    let sum = pseudo_v6(&dst, &src, tcp::PROTOCOL, 20).bytes(&reset).checksum().to_be_bytes();
    reset[16..18].copy_from_slice(&sum);
    frame.extend_from_slice(&header);
    frame.extend_from_slice(&reset);
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Spec, naive_checksum, specs};
    use super::super::too_big::QUOTED_MAX;
    use super::*;
    use proptest::prelude::*;

    const HOW: Refusal = Refusal { reset: true, icmp: 10, icmp6: 1, mtu: 0 };

    /// What answers a packet, of which no more is shown than may be needed.
    fn answer(packet: &[u8], how: Refusal) -> Option<Vec<u8>> {
        refuse(&packet[..packet.len().min(QUOTED_MAX)], packet.len(), how)
    }

    fn segment(v4: bool, flags: u8, payload: usize) -> Spec {
        Spec { tcp_flags: flags, ..Spec::plain(v4, L4::Tcp, payload) }
    }

    /// The pseudo-header of an answer, and where its L4 begins.
    fn pseudo(answer: &[u8], l2: usize, protocol: u8) -> (Vec<u8>, usize) {
        let v4 = answer[l2] >> 4 == 4;
        let (ends, l4) = if v4 { (l2 + 12..l2 + 20, l2 + 20) } else { (l2 + 8..l2 + 40, l2 + 40) };
        let len = u32::try_from(answer.len() - l4).expect("short").to_be_bytes();
        ([&answer[ends], &len, &[0, 0, 0, protocol]].concat(), l4)
    }

    /// Both checksums of an answer are right, and its lengths.
    fn assert_whole(answer: &[u8], l2: usize) {
        let v4 = answer[l2] >> 4 == 4;
        let protocol = answer[l2 + if v4 { 9 } else { 6 }];
        let (pseudo, l4) = pseudo(answer, l2, protocol);
        let covered = if protocol == 1 { Vec::new() } else { pseudo };
        assert_eq!(naive_checksum(&[&covered[..], &answer[l4..]].concat()), 0, "checksum of {protocol}");
        let len = |at: usize| usize::from(u16::from_be_bytes([answer[at], answer[at + 1]]));
        if v4 {
            assert_eq!((naive_checksum(&answer[l2..l4]), len(l2 + 2)), (0, answer.len() - l2));
        } else {
            assert_eq!(len(l2 + 4), answer.len() - l4);
        }
    }

    /// Sequence number, acknowledgment number, flags.
    fn numbers(answer: &[u8], l4: usize) -> (u32, u32, u8) {
        let word = |at: usize| u32::from_be_bytes(answer[at..at + 4].try_into().expect("4"));
        (word(l4 + 4), word(l4 + 8), answer[l4 + 13])
    }

    /// The segments of the testing room have 0xfffffff0 and 0x01020304 as numbers.
    #[test]
    fn a_segment_is_reset_as_the_protocol_says() {
        for (v4, l4) in [(true, 34), (false, 54)] {
            for (flags, payload, expected) in [
                (SYN, 0, (0, 0xffff_fff1, RST | ACK)),
                (SYN, 100, (0, 0x55, RST | ACK)),
                (FIN, 10, (0, 0xffff_fffb, RST | ACK)),
                (SYN | FIN, 0, (0, 0xffff_fff2, RST | ACK)),
                (0, 15, (0, 0xffff_ffff, RST | ACK)),
                (ACK, 1000, (0x0102_0304, 0, RST)),
                (SYN | ACK, 0, (0x0102_0304, 0, RST)),
                (FIN | ACK, 5, (0x0102_0304, 0, RST)),
            ] {
                let packet = segment(v4, flags, payload).complete();
                let told = answer(&packet, HOW).unwrap_or_else(|| panic!("v4={v4} {flags:#x}"));
                assert_eq!(numbers(&told, l4), expected, "v4={v4} {flags:#x}");
                assert_eq!((&told[..6], &told[6..12]), (&packet[6..12], &packet[..6]));
                let (ends, half) = if v4 { (26, 4) } else { (22, 16) };
                assert_eq!(told[ends..ends + half], packet[ends + half..ends + 2 * half]);
                assert_eq!(told[ends + half..ends + 2 * half], packet[ends..ends + half]);
                assert_eq!((&told[l4..l4 + 2], &told[l4 + 2..l4 + 4]), (&packet[l4 + 2..l4 + 4], &packet[l4..l4 + 2]));
                assert_eq!(told.len(), l4 + 20, "nothing else");
                assert_whole(&told, 14);
            }
            for flags in [RST, RST | ACK, RST | SYN] {
                assert_eq!(answer(&segment(v4, flags, 0).complete(), HOW), None, "v4={v4} {flags:#x}");
            }
        }
    }

    #[test]
    fn padding_is_no_data_and_tags_come_back() {
        let mut spec = segment(true, SYN, 0);
        (spec.padding, spec.tags) = (6, vec![7, 0x2008]);
        let packet = spec.complete();
        let told = answer(&packet, HOW).expect("told");
        assert_eq!(told[12..22], packet[12..22], "both tags");
        assert_eq!(numbers(&told, 42).1, 0xffff_fff1);
        assert_whole(&told, 22);
    }

    #[test]
    fn datagrams_are_unreachable_with_the_code_that_is_given() {
        for (v4, kind, l4, most) in [(true, 3, 34, 576), (false, 1, 54, 1280)] {
            for (icmp, icmp6) in [(10, 1), (3, 4), (13, 6)] {
                for payload in [0, 30, 1400] {
                    let packet = Spec::plain(v4, L4::Udp, payload).complete();
                    let told = answer(&packet, Refusal { icmp, icmp6, ..HOW }).expect("told");
                    let code = if v4 { icmp } else { icmp6 };
                    assert_eq!((&told[l4..l4 + 2], &told[l4 + 4..l4 + 8]), (&[kind, code][..], &[0; 4][..]));
                    let quoted = (packet.len() - 14).min(most - (l4 - 14) - 8);
                    assert_eq!(told[l4 + 8..], packet[14..14 + quoted], "v4={v4}, {payload} bytes");
                    assert_whole(&told, 14);
                }
            }
        }
    }

    #[test]
    fn tcp_may_be_told_like_all_else() {
        for (v4, l4, kind) in [(true, 34, 3), (false, 54, 1)] {
            let how = Refusal { reset: false, ..HOW };
            let told = answer(&segment(v4, SYN, 0).complete(), how).expect("told");
            assert_eq!(told[l4], kind, "v4={v4}");
            assert_eq!(answer(&segment(v4, RST, 0).complete(), how), None, "v4={v4}: a reset is none the less");
        }
    }

    #[test]
    fn who_must_not_be_answered_is_not() {
        for (v4, tcp) in [(true, true), (true, false), (false, true), (false, false)] {
            let whole = Spec::plain(v4, if tcp { L4::Tcp } else { L4::Udp }, 20).complete();
            let with = |changes: &[(usize, u8)]| {
                let mut packet = whole.clone();
                changes.iter().for_each(|(at, byte)| packet[*at] = *byte);
                answer(&packet, HOW)
            };
            assert!(with(&[]).is_some());
            assert!(with(&[(0, 1)]).is_none() && with(&[(6, 1)]).is_none(), "groups of Ethernet");
            let group: Vec<_> = (0..6).map(|at| (at, 0xff)).collect();
            assert!(with(&group).is_none(), "broadcast");
            let zero = |from: usize| (from..from + 16).map(|at| (at, 0)).collect::<Vec<_>>();
            let (nobody, myself) = (zero(22), [zero(22), vec![(37, 1)]].concat());
            let mapped = [zero(22), vec![(32, 0xff), (33, 0xff), (34, 10)]].concat();
            // Sources and destinations that are no host's; fragments, the first one, too; errors
            // and a redirect.
            let cases: &[&[(usize, u8)]] = if v4 {
                &[
                    &[(26, 0)],
                    &[(26, 127)],
                    &[(26, 224)],
                    &[(26, 255)],
                    &[(30, 224)],
                    &[(30, 255)],
                    &[(20, 0), (21, 1)],
                    &[(20, 0x20)],
                    &[(23, 1), (34, 3)],
                    &[(23, 1), (34, 5)],
                    &[(23, 1), (34, 11)],
                ]
            } else {
                &[&[(22, 0xff)], &[(38, 0xff)], &nobody, &myself, &mapped, &[(20, 58), (54, 1)], &[(20, 58), (54, 137)]]
            };
            for changes in cases {
                assert!(with(changes).is_none(), "v4={v4} tcp={tcp}: {changes:?}");
            }
            let echo = if v4 { [(23, 1), (34, 8)] } else { [(20, 58), (54, 128)] };
            assert!(with(&echo).is_some(), "v4={v4}: an echo request is no error");
        }
        let mut first = Spec::plain(false, L4::Udp, 64);
        first.extensions = vec![(44, 1)];
        let mut packet = first.complete();
        assert!(answer(&packet, HOW).is_some(), "an atomic fragment is none");
        for offset_and_more in [1, 8] {
            packet[57] = offset_and_more;
            assert_eq!(answer(&packet, HOW), None, "IPv6, {offset_and_more}");
        }
        assert_eq!(answer(&[0; 60], HOW), None, "not IP");
    }

    /// Options of IPv4 and extension headers of IPv6 are no part of a reset; an error quotes them.
    #[test]
    fn what_stands_before_tcp_and_udp_is_walked() {
        let dressed = |v4: bool, l4: L4| {
            let mut spec = Spec::plain(v4, l4, 12);
            spec.tcp_flags = SYN;
            (spec.ip_options, spec.tcp_options) = (10, 10);
            spec.extensions = if v4 { vec![] } else { vec![(0, 1), (60, 3), (43, 3), (44, 1), (60, 1)] };
            spec
        };
        for (v4, l4, kind) in [(true, 34, 3), (false, 54, 1)] {
            let (spec, datagram) = (dressed(v4, L4::Tcp), dressed(v4, L4::Udp).complete());
            let packet = spec.complete();
            let told = answer(&packet, HOW).expect("told");
            let ports = spec.l4_start();
            assert_eq!((told.len(), numbers(&told, l4)), (l4 + 20, (0, 0xffff_fffd, RST | ACK)), "v4={v4}");
            assert_eq!(
                told[l4..l4 + 4],
                [&packet[ports + 2..ports + 4], &packet[ports..ports + 2]].concat(),
                "v4={v4}"
            );
            assert_whole(&told, 14);
            let told = answer(&datagram, HOW).expect("told");
            assert_eq!((told[l4], &told[l4 + 8..]), (kind, &datagram[14..]), "v4={v4}");
            assert_whole(&told, 14);
        }
        let mut endless = dressed(false, L4::Tcp);
        endless.extensions = vec![(60, 1); 9];
        assert_eq!(answer(&endless.complete(), HOW), None, "so many that nobody reads them");
    }

    /// Nobody invents a port, or quotes what was not there.
    #[test]
    fn what_is_cut_off_is_not_answered() {
        for v4 in [true, false] {
            for l4 in [L4::Tcp, L4::Udp] {
                let spec = Spec::plain(v4, l4, 8);
                let packet = spec.complete();
                for len in 0..packet.len() {
                    assert_eq!(
                        refuse(&packet[..len], len, HOW),
                        None,
                        "v4={v4} {l4:?}: its length says more than {len}"
                    );
                }
            }
            // The IP header says itself that there is less than a header of TCP.
            for short in 0..20_usize {
                let mut packet = segment(v4, SYN, 0).complete();
                let (at, headers) = if v4 { (16, 20) } else { (18, 0) };
                packet[at..at + 2].copy_from_slice(&u16::try_from(headers + short).expect("short").to_be_bytes());
                assert_eq!(answer(&packet, HOW), None, "v4={v4}: {short} bytes");
                if short < 14 {
                    assert_eq!(
                        answer(&packet[..packet.len()], Refusal { reset: false, ..HOW }),
                        None,
                        "v4={v4}: {short}"
                    );
                }
            }
            // A header that claims to be longer than the packet, or shorter than it can be.
            for words in [0, 4, 15] {
                let mut packet = segment(v4, SYN, 0).complete();
                let at = packet.len() - 8;
                packet[at] = words << 4;
                assert_eq!(answer(&packet, HOW), None, "v4={v4}: {words} words");
            }
        }
    }

    /// So nothing goes to and fro.
    #[test]
    fn no_answer_is_answered() {
        for v4 in [true, false] {
            for packet in [segment(v4, SYN, 0), segment(v4, ACK, 9), Spec::plain(v4, L4::Udp, 9)] {
                let told = answer(&packet.complete(), HOW).expect("told");
                assert_eq!(answer(&told, HOW), None);
                assert_eq!(answer(&told, Refusal { reset: false, ..HOW }), None);
            }
        }
    }

    #[test]
    fn whatever_comes_is_survived_and_answers_are_whole() {
        let damage = proptest::collection::vec((0..120_usize, any::<u8>()), 0..3);
        proptest!(|((spec, damage, cut, reset) in (specs(1500), damage, any::<u16>(), any::<bool>()))| {
            let mut packet = spec.complete();
            for (at, value) in damage {
                let at = at % packet.len();
                packet[at] = value;
            }
            let how = Refusal { reset, ..HOW };
            if let Some(told) = answer(&packet, how) {
                prop_assert_eq!(answer(&told, how), None);
                let l2 = Headers::of_bytes(&told).expect("headers").l2_len;
                assert_whole(&told, l2);
            }
            let len = usize::from(cut) % (packet.len() + 1);
            let _ = refuse(&packet[..len], len, how);
            let _ = refuse(&packet[..len], packet.len(), how);
        });
    }
}
