//! What is read of whole packets, what is invalid, and what is known of checksums.

use super::*;
use crate::conntrack::fuzz::oracle::naive_sum;
use proptest::prelude::*;
use vswitch_conntrack::tcp::Segment;

/// With an extension header in front of L4.
fn v6_behind(extension: u8, header: &[u8], protocol: u8, l4: &[u8]) -> Vec<u8> {
    v6(extension, &[&[protocol], &header[1..], l4].concat())
}

#[test]
fn packets_have_the_tuple_of_their_headers() {
    use Family::{V4, V6};
    let tagged = |frame: Vec<u8>, tags: &[u8]| [&frame[..12], tags, &frame[12..]].concat();
    let options = repaired({
        let mut frame = with(v4(17, &[&[1; 8][..], &udp(b"x")].concat()), 14, &[0x47]);
        frame[23] = 17;
        frame
    });
    for (name, frame, expected) in [
        ("TCP", v4(6, &tcp(2, &[], b"")), tuple(V4, 6, 4660, 80)),
        ("UDP", v4(17, &udp(b"abc")), tuple(V4, 17, 4660, 53)),
        ("UDP without payload", v4(17, &udp(b"")), tuple(V4, 17, 4660, 53)),
        ("UDP without checksum", with(v4(17, &udp(b"abc")), 40, &[0, 0]), tuple(V4, 17, 4660, 53)),
        ("SCTP", v4(132, &sctp()), tuple(V4, 132, 4660, 2905)),
        ("echo request", v4(1, &icmp(8, 0)), tuple(V4, 1, 7, 8 << 8)),
        ("echo reply", v4(1, &icmp(0, 0)), tuple(V4, 1, 7, 0)),
        ("timestamp", v4(1, &icmp(13, 0)), tuple(V4, 1, 7, 13 << 8)),
        ("information reply", v4(1, &icmp(16, 0)), tuple(V4, 1, 7, 16 << 8)),
        ("GRE", v4(47, b"anything"), tuple(V4, 47, 0, 0)),
        ("nothing behind the header", v4(2, b""), tuple(V4, 2, 0, 0)),
        ("IPv4 options", options, tuple(V4, 17, 4660, 53)),
        ("padding", [v4(17, &udp(b"abc")), vec![9; 11]].concat(), tuple(V4, 17, 4660, 53)),
        ("a tag", tagged(v4(17, &udp(b"abc")), &[0x81, 0, 0, 5]), tuple(V4, 17, 4660, 53)),
        ("two tags", tagged(v6(6, &tcp(2, &[], b"")), &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]), tuple(V6, 6, 4660, 80)),
        ("TCP over IPv6", v6(6, &tcp(2, &[], b"")), tuple(V6, 6, 4660, 80)),
        ("UDP over IPv6", v6(17, &udp(b"abc")), tuple(V6, 17, 4660, 53)),
        ("SCTP over IPv6", v6(132, &sctp()), tuple(V6, 132, 4660, 2905)),
        ("ICMPv6 echo request", v6(58, &icmp(128, 0)), tuple(V6, 58, 7, 128 << 8)),
        ("ICMPv6 echo reply", v6(58, &icmp(129, 0)), tuple(V6, 58, 7, 129 << 8)),
        ("ESP", v6(50, b"any"), tuple(V6, 50, 0, 0)),
        (
            "options",
            v6_behind(60, &[0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 17, &udp(b"x")),
            tuple(V6, 17, 4660, 53),
        ),
        ("an atomic fragment", v6_behind(44, &[0, 0, 0, 0, 1, 2, 3, 4], 17, &udp(b"x")), tuple(V6, 17, 4660, 53)),
    ] {
        let seen = seen(&frame);
        let seen = seen.unwrap_or_else(|| panic!("{name} is invalid"));
        assert_eq!((seen.tuple, seen.len as usize), (expected, frame.len()), "{name}");
    }
}

#[test]
fn what_is_wrong_is_invalid() {
    let good = [
        v4(6, &tcp(16, &[1; 8], b"abcd")),
        v4(17, &udp(b"abc")),
        v4(1, &icmp(8, 0)),
        v4(132, &sctp()),
        v6(6, &tcp(16, &[], b"abcd")),
        v6(17, &udp(b"abc")),
        v6(58, &icmp(128, 0)),
        v6(132, &sctp()),
    ];
    for frame in good {
        assert!(seen(&frame).is_some(), "{frame:02x?}");
        for at in 14..frame.len() {
            // Not covered by any checksum: of IPv6 version, class, label, hop limit; of SCTP over
            // it the addresses too.
            let v6 = frame[12] == 0x86;
            let free = v6 && (matches!(at, 14..=17 | 21) || frame[20] == 132 && matches!(at, 22..54));
            // What is a fragment then, or of another protocol.
            for bit in 0..8 {
                let mut damaged = frame.clone();
                damaged[at] ^= 1 << bit;
                let fragment = frame[12] == 8 && matches!(at, 20 | 21);
                let other = v6 && at == 20;
                if !free && !fragment && !other {
                    assert!(seen(&damaged).is_none(), "bit {bit} of byte {at} of {frame:02x?}");
                }
            }
        }
        for len in 14..frame.len() {
            assert!(read_frame(&frame[..len]).is_none(), "{len} bytes of {frame:02x?}");
        }
    }
}

#[test]
fn what_no_one_sends_is_invalid_though_its_checksums_are_right() {
    let port = |l4: Vec<u8>, at: usize| with(l4, at, &[0, 0]);
    let length = |len: u8| with(udp(b"abc"), 4, &[0, len]);
    let offset = |words: u8| with(tcp(16, &[], b"abcd"), 12, &[words << 4]);
    for (name, frame) in [
        ("TCP port 0", v4(6, &port(tcp(16, &[], b""), 0))),
        ("TCP to port 0", v6(6, &port(tcp(16, &[], b""), 2))),
        ("UDP port 0", v4(17, &port(udp(b"abc"), 0))),
        ("UDP to port 0", v6(17, &port(udp(b"abc"), 2))),
        ("SCTP port 0", v4(132, &port(sctp(), 0))),
        ("data offset 4", v4(6, &offset(4))),
        ("data offset beyond the packet", v4(6, &offset(7))),
        ("TCP of 19 bytes", v4(6, &tcp(16, &[], b"")[..19])),
        ("UDP of 7 bytes", v4(17, &udp(b"")[..7])),
        ("UDP length 7", v4(17, &length(7))),
        ("UDP length 0", v6(17, &length(0))),
        ("UDP length too long", v4(17, &length(12))),
        ("UDP over IPv6 without checksum", with(v6(17, &udp(b"abc")), 60, &[0, 0])),
        ("SCTP of 11 bytes", v4(132, &sctp()[..11])),
        ("ICMP of 7 bytes", v4(1, &icmp(8, 0)[..7])),
        ("echo request of code 1", v4(1, &icmp(8, 1))),
        ("a redirect that quotes nothing", v4(1, &icmp(5, 0))),
        ("router solicitation", v4(1, &icmp(10, 0))),
        ("address mask request", v4(1, &icmp(17, 0))),
        ("address mask reply", v4(1, &icmp(18, 0))),
        ("ICMPv6 echo of code 1", v6(58, &icmp(128, 1))),
        ("ICMPv6 router solicitation", v6(58, &icmp(133, 0))),
        ("ICMPv6 router advertisement", v6(58, &icmp(134, 0))),
        ("neighbour solicitation", v6(58, &icmp(135, 0))),
        ("neighbour advertisement", v6(58, &icmp(136, 0))),
        ("ICMPv6 redirect", v6(58, &icmp(137, 0))),
        ("multicast listener query", v6(58, &icmp(130, 0))),
        ("ICMPv6 in IPv4", v4(58, &icmp(128, 0))),
        ("ICMP in IPv6", v6(1, &icmp(8, 0))),
        ("a fragment header with reserved bits", v6_behind(44, &[0, 0, 0, 6, 1, 2, 3, 4], 17, &udp(b"x"))),
        ("ARP", with(v4(17, &udp(b"abc")), 12, &[8, 6])),
        ("IPv4 header of 16 bytes", with(v4(17, &udp(b"abc")), 14, &[0x44])),
        ("extension headers cut off", v6(0, &[17, 9, 0, 0, 0, 0, 0, 0])),
    ] {
        assert!(read_frame(&frame).is_none(), "{name}");
    }
}

#[test]
fn a_checksum_is_summed_at_most_once_and_not_where_it_is_known() {
    let right = v4(17, &udp(b"abc"));
    let wrong = with(right.clone(), 42, b"x");
    for (frame, csum, valid, then) in [
        (&right, Csum::Unknown, true, Csum::Good),
        (&wrong, Csum::Unknown, false, Csum::Unknown),
        (&right, Csum::Bad, false, Csum::Bad),
        (&wrong, Csum::Good, true, Csum::Good),
        (&wrong, Csum::Partial, true, Csum::Partial),
    ] {
        let (message, mbuf) = read_as(frame, csum);
        assert_eq!((message.is_some(), mbuf.csum()), (valid, then), "{csum:?} of {frame:02x?}");
    }
    // ICMP and SCTP have no partial checksum.
    for frame in [v4(1, &icmp(8, 0)), v4(132, &sctp())] {
        let damaged = with(frame.clone(), 38, &[0xee]);
        assert!(read_as(&frame, Csum::Partial).0.is_some() && read_as(&damaged, Csum::Partial).0.is_none());
    }
    // The header's own is always looked at.
    for csum in [Csum::Good, Csum::Partial] {
        assert!(read_as(&with(right.clone(), 22, &[63]), csum).0.is_none(), "{csum:?}");
    }
}

#[test]
fn a_gso_packet_is_believed() {
    let frame = with(v4(6, &tcp(16, &[], &[7; 65_000])), 50, &[1, 2]);
    let mut mbuf = pool().mbuf_from(&frame).expect("mbuf");
    mbuf.set_csum(Csum::Partial);
    mbuf.set_gso_size(1448);
    let mut payload = 0;
    let outcome = conntrack().pass(packet(mbuf), 7, place(), |message| {
        if let Message::Seen(Seen { l4: L4::Tcp(segment), .. }) = message {
            payload = segment.payload;
        }
        accepted(Rewrite::default())
    });
    assert!(matches!(outcome, Outcome::Tracked(..)) && payload == 65_000, "{payload} bytes, {outcome:?}");
}

#[test]
fn tcp_headers_are_told_as_they_are() {
    let segment = |options: &[u8]| match seen(&v4(6, &tcp(0x12, options, b"abcde"))).map(|seen| seen.l4) {
        Some(L4::Tcp(segment)) => segment,
        other => panic!("{other:?}"),
    };
    let expected = Segment { flags: 0x12, seq: 0x0102_0304, ack: 0x0506_0708, window: 0x2030, payload: 5, scale: None };
    assert_eq!(segment(&[]), expected);
    for (options, scale) in [
        (&[1, 3, 3, 7][..], Some(7)),
        (&[3, 3, 255, 0], Some(255)),
        (&[2, 4, 5, 0xb4, 1, 3, 3, 2], Some(2)),
        (&[0, 3, 3, 7], None),
        (&[3, 2, 7, 1], None),
        (&[3, 4, 7, 1], None),
        (&[1, 1, 3, 3], None),
        (&[9, 0, 0, 0, 3, 3, 7, 0], None),
        (&[9, 1, 3, 3, 7, 0, 0, 0], None),
        (&[9, 200, 3, 3, 7, 0, 0, 0], None),
        (&[9, 3, 3, 3, 3, 7, 0, 0], Some(7)),
        (&[1, 1, 1, 9], None),
    ] {
        assert_eq!(segment(options), Segment { scale, ..expected }, "{options:?}");
    }
    let without_syn = seen(&v4(6, &tcp(0x10, &[1, 3, 3, 7], b""))).map(|seen| seen.l4);
    assert!(matches!(without_syn, Some(L4::Tcp(Segment { scale: None, .. }))), "{without_syn:?}");
}

#[test]
fn behind_a_routing_header_the_destination_is_what_open_vswitch_takes_it_for() {
    let last = SERVER6 + (7 << 64);
    let routed = |covered: u128| {
        let l4 = v6_between(CLIENT6, covered, 17, &udp(b"abc"))[54..].to_vec();
        let header = [&[17, 2, 4, 1, 0, 0, 0, 0][..], &last.to_be_bytes()].concat();
        v6(43, &[header, l4].concat())
    };
    assert!(seen(&routed(last)).is_none(), "the checksum covers the final one");
    let frame = routed(SERVER6);
    assert_eq!(seen(&frame).map(|seen| seen.tuple), Some(tuple(Family::V6, 17, 4660, 53)));
    // The checksum follows the source, and not a destination that is taken for a hop on the way.
    let src = Rewrite { src: Some(End { addr: CLIENT6 + 9, port: 4660 }), ..Rewrite::default() };
    let after = rewritten(&frame, Csum::Unknown, src);
    assert_eq!(after[78..], v6_between(CLIENT6 + 9, SERVER6, 17, &udp(b"abc"))[54..]);
    let dst = Rewrite { dst: Some(End { addr: SERVER6 + 9, port: 53 }), ..Rewrite::default() };
    let after = rewritten(&frame, Csum::Unknown, dst);
    assert_eq!((&after[78..], after[53]), (&frame[78..], 11));
}

#[test]
fn a_partial_checksum_follows_the_addresses_alone() {
    for (frame, at) in [(v4(6, &tcp(16, &[], b"abc")), 50), (v4(17, &udp(b"abc")), 40)] {
        // The sum over the pseudo-header, as a guest leaves it.
        let partial = |frame: &[u8]| {
            let len = u16::try_from(frame.len() - 34).expect("short").to_be_bytes();
            naive_sum(&[&frame[26..34], &[0, frame[23]], &len].concat()).to_be_bytes()
        };
        let before = with(frame.clone(), at, &partial(&frame));
        let src = Some(End { addr: 0xc0a8_0909, port: 999 });
        let dst = Some(End { addr: 0x0808_0808, port: 443 });
        let after = rewritten(&before, Csum::Partial, Rewrite { src, dst, ..Rewrite::default() });
        assert_eq!(after[at..at + 2], partial(&after), "{after:02x?}");
        assert_eq!(after[26..38], [192, 168, 9, 9, 8, 8, 8, 8, 3, 231, 1, 187]);
    }
}

#[test]
fn a_udp_checksum_of_zero_stays_and_none_becomes_zero() {
    let src = Rewrite { src: Some(End { addr: 0x0102_0304, port: 9 }), ..Rewrite::default() };
    let without = with(v4(17, &udp(b"abc")), 40, &[0, 0]);
    assert_eq!(rewritten(&without, Csum::Unknown, src)[40..42], [0, 0]);
    let checksum = |port: u16| {
        let src = Some(End { addr: CLIENT, port });
        let after = rewritten(&v4(17, &udp(b"abc")), Csum::Unknown, Rewrite { src, ..Rewrite::default() });
        u16::from_be_bytes([after[40], after[41]])
    };
    // Of port 0 the checksum is what port must be added for a sum of all ones: the one port whose
    // checksum would be 0.
    let special = checksum(0);
    let near = (0..=400).map(|step: u16| special.wrapping_sub(200).wrapping_add(step));
    for port in near.chain((0..=u16::MAX).step_by(97)) {
        assert_ne!(checksum(port), 0, "from port {port}");
        assert_eq!(checksum(port) == 0xffff, port == special, "from port {port}");
    }
}

/// Which packets are plain.
#[test]
fn a_plain_packet_is_seen_at_once() {
    let syn = tcp(2, &[1, 3, 3, 7], b"");
    let seen = |frame: &[u8], csum| {
        let (message, mbuf) = read_as(frame, csum);
        plainly(frame, csum, message.as_ref(), mbuf.csum())
    };
    for plain in [v4(6, &tcp(16, &[], b"abc")), v6(6, &syn), v4(6, &syn), v4(17, &udp(b"x")), v6(17, &udp(b""))] {
        assert!(seen(&plain, Csum::Unknown) && seen(&plain, Csum::Good), "{plain:02x?}");
        assert!(!seen(&plain, Csum::Bad), "{plain:02x?}");
        let padded = [&plain[..], &[9; 6]].concat();
        assert!(seen(&padded, Csum::Unknown), "{padded:02x?}");
    }
    for other in [v4(1, &icmp(8, 0)), v4(132, &sctp()), v4(47, b"12345678"), v6(58, &icmp(128, 0))] {
        assert!(!seen(&other, Csum::Unknown), "{other:02x?}");
    }
}

proptest! {
    /// Whatever a packet is that is seen at once: what is read of it is the same.
    #[test]
    fn what_is_seen_at_once_is_what_is_read(
        (v6_, udp_, flags, payload) in (any::<bool>(), any::<bool>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..12)),
        options in prop::sample::select(vec![&[][..], &[1, 3, 3, 7], &[3, 3, 9, 0], &[8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1]]),
        changes in prop::collection::vec((12..70_usize, any::<u8>()), 0..3),
        (repair, padding, cut) in (any::<bool>(), 0..4_usize, 0..4_usize),
        csum in prop::sample::select(vec![Csum::Unknown, Csum::Good, Csum::Bad, Csum::Partial]),
    ) {
        let l4 = if udp_ { udp(&payload) } else { tcp(flags, options, &payload) };
        let protocol = if udp_ { 17 } else { 6 };
        let mut frame = if v6_ { v6(protocol, &l4) } else { v4(protocol, &l4) };
        for (at, byte) in changes {
            if let Some(there) = frame.get_mut(at) {
                *there = byte;
            }
        }
        if repair && let Some(parts) = Parts::of_frame(&frame) {
            parts.repair(&mut frame);
        }
        frame.extend(vec![0; padding]);
        frame.truncate(frame.len() - cut);
        let mut mbuf = pool().mbuf_from(&frame).expect("mbuf");
        mbuf.set_csum(csum);
        let (mut message, mut held) = (None, false);
        let outcome = conntrack().pass(packet(mbuf), 7, place(), |read| {
            message = Some(*read);
            accepted(Rewrite::default())
        });
        let after = match &outcome {
            Outcome::Tracked(packet, _) => packet.mbuf.csum(),
            _ => {
                held = true;
                csum
            }
        };
        let was_seen = plainly(&frame, csum, message.as_ref(), after);
        prop_assert!(!(was_seen && held), "a fragment");
    }
}
