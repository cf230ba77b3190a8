//! ICMP and ICMPv6 errors, and what they quote.

use super::*;
use crate::conntrack::fuzz::{error, oracle::naive_sum};
use vswitch_conntrack::Related;

fn related(frame: &[u8]) -> Option<Related> {
    match read_frame(frame) {
        Some(Message::Related(related, _)) => Some(related),
        Some(Message::Seen(seen)) => panic!("{seen:?}"),
        None => None,
    }
}

/// What the frame has behind its Ethernet header.
fn quoted(frame: &[u8]) -> &[u8] {
    &frame[14..]
}

#[test]
fn errors_have_the_tuple_of_what_they_quote() {
    use Family::{V4, V6};
    let queries: [(&str, Vec<u8>, Family, Tuple); 8] = [
        ("TCP", v4(6, &tcp(2, &[], b"")), V4, tuple(V4, 6, 4660, 80)),
        ("UDP", v4(17, &udp(b"abc")), V4, tuple(V4, 17, 4660, 53)),
        ("SCTP", v4(132, &sctp()), V4, tuple(V4, 132, 4660, 2905)),
        ("echo", v4(1, &icmp(8, 0)), V4, tuple(V4, 1, 7, 8 << 8)),
        ("GRE", v4(47, b""), V4, tuple(V4, 47, 0, 0)),
        ("TCP over IPv6", v6(6, &tcp(2, &[], b"")), V6, tuple(V6, 6, 4660, 80)),
        ("UDP over IPv6", v6(17, &udp(b"abc")), V6, tuple(V6, 17, 4660, 53)),
        ("ICMPv6 echo", v6(58, &icmp(128, 0)), V6, tuple(V6, 58, 7, 128 << 8)),
    ];
    for (name, frame, family, inner) in queries {
        let kinds: &[u8] = if family == V4 { &[3, 4, 5, 11, 12] } else { &[1, 2, 3, 4] };
        for kind in 0..=255 {
            let found = error(family, kind, quoted(&frame));
            if matches!((family, kind), (V4, 0 | 8 | 13..=16) | (V6, 128 | 129)) {
                assert!(seen(&found).is_some(), "{name} in a message of type {kind}");
                continue;
            }
            let related = related(&found);
            assert_eq!(related.is_some(), kinds.contains(&kind), "{name} in a message of type {kind}");
            let Some(related) = related else { continue };
            let protocol = if family == V4 { 1 } else { 58 };
            assert_eq!(
                (related.inner, related.kind, related.protocol, related.dst, related.len as usize),
                (inner, u16::from(kind) << 8, protocol, inner.src.addr, found.len()),
                "{name} in a message of type {kind}"
            );
        }
    }
}

#[test]
fn a_quote_may_be_cut_behind_the_ports() {
    let cases = [
        ("TCP", Family::V4, v4(6, &tcp(2, &[1; 12], b"abc")), 28),
        ("UDP", Family::V4, v4(17, &udp(b"abcdef")), 28),
        ("SCTP", Family::V4, v4(132, &sctp()), 28),
        ("echo", Family::V4, v4(1, &icmp(8, 0)), 28),
        ("GRE", Family::V4, v4(47, b"abcdef"), 20),
        ("TCP over IPv6", Family::V6, v6(6, &tcp(2, &[1; 12], b"abc")), 60),
        ("UDP over IPv6", Family::V6, v6(17, &udp(b"abcdef")), 48),
        ("ICMPv6 echo", Family::V6, v6(58, &icmp(128, 0)), 48),
        ("options", Family::V6, v6(60, &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &udp(b"abcdef")].concat()), 56),
    ];
    for (name, family, frame, enough) in cases {
        let quote = quoted(&frame);
        for len in 0..=quote.len() {
            let kind = if family == Family::V4 { 3 } else { 1 };
            let found = error(family, kind, &quote[..len]);
            assert_eq!(related(&found).is_some(), len >= enough, "{len} bytes of {name}");
            let ends = [1, 2].map(|i| Some(End { addr: 0x0909_0900 + i, port: 900 }));
            let [inner_src, inner_dst] = ends;
            let rewrite = Rewrite { inner_src, inner_dst, src: inner_dst, dst: inner_src };
            if len >= enough {
                let after = rewritten(&found, Csum::Unknown, rewrite);
                let parts = Parts::of_frame(&after).expect("an IP packet");
                assert_eq!(parts.l4_sum(&after), Some(0xffff), "{len} bytes of {name}");
                assert_eq!(after.len(), found.len(), "{len} bytes of {name}");
            }
        }
    }
}

#[test]
fn what_is_no_answer_to_a_packet_is_invalid() {
    let udp4 = v4(17, &udp(b"abc"));
    let quote = |at: usize, bytes: &[u8]| quoted(&with(udp4.clone(), at + 14, bytes)).to_vec();
    let nested = error(Family::V4, 3, quoted(&udp4));
    let nested6 = error(Family::V6, 1, quoted(&v6(17, &udp(b"abc"))));
    let fragment6 = |field: u8| v6(44, &[&[17, 0, 0, field, 0, 0, 0, 1][..], &udp(b"abc")].concat());
    let extensions: Vec<u8> =
        [60, 60, 60, 60, 60, 60, 60, 60, 17].iter().flat_map(|next| [*next, 0, 1, 4, 0, 0, 0, 0]).collect();
    for (name, family, quote) in [
        ("an error in an error", Family::V4, quoted(&nested).to_vec()),
        ("an ICMPv6 error in one", Family::V6, quoted(&nested6).to_vec()),
        ("a later fragment", Family::V4, quote(6, &[0, 1])),
        ("a first fragment", Family::V4, quote(6, &[0x20, 0])),
        ("a later fragment of IPv6", Family::V6, quoted(&fragment6(8)).to_vec()),
        ("a first fragment of IPv6", Family::V6, quoted(&fragment6(1)).to_vec()),
        ("a header of 16 bytes", Family::V4, quote(0, &[0x44])),
        ("a header of 0 bytes", Family::V4, quote(0, &[0x40])),
        ("a header longer than the quote", Family::V4, quote(0, &[0x4f])),
        ("port 0", Family::V4, quote(20, &[0, 0])),
        ("to port 0", Family::V4, quote(22, &[0, 0])),
        ("router solicitation", Family::V4, quoted(&v4(1, &icmp(10, 0))).to_vec()),
        ("echo of code 1", Family::V4, quoted(&v4(1, &icmp(8, 1))).to_vec()),
        ("neighbour solicitation", Family::V6, quoted(&v6(58, &icmp(135, 0))).to_vec()),
        ("too many extension headers", Family::V6, quoted(&v6(60, &[extensions, udp(b"abc")].concat())).to_vec()),
        ("nothing", Family::V4, vec![]),
    ] {
        let kind = if family == Family::V4 { 3 } else { 1 };
        assert!(related(&error(family, kind, &quote)).is_none(), "{name}");
    }
    let found = error(Family::V4, 3, quoted(&udp4));
    assert!(related(&with(found.clone(), 36, &[0, 0])).is_none(), "wrong ICMP checksum");
    assert!(related(&repaired(with(found, 33, &[77]))).is_none(), "to another one than who sent what it quotes");
    for (name, at) in [("header checksum", 10), ("total length", 2), ("UDP checksum", 26), ("UDP length", 24)] {
        let quote = quote(at, &[0xaa, 0xbb]);
        assert!(related(&error(Family::V4, 3, &quote)).is_some(), "another {name} in the quote");
    }
}

/// A client's packet to a virtual address was translated to the server; a router says that the
/// server is not reachable.
#[test]
fn an_error_about_a_translated_packet_becomes_one_about_the_packet_that_was_sent() {
    let vip = 0x0a60_0001;
    let sent = v4_between(CLIENT, vip, 17, &udp(b"abc"));
    let delivered = {
        let mut l4 = udp(b"abc");
        l4[2..4].copy_from_slice(&5353_u16.to_be_bytes());
        v4_between(CLIENT, SERVER, 17, &l4)
    };
    let inner_dst = Some(End { addr: vip, port: 53 });
    let src = Some(End { addr: vip, port: 0 });
    let rewrite = Rewrite { inner_dst, src, ..Rewrite::default() };
    let after = rewritten(&error(Family::V4, 3, quoted(&delivered)), Csum::Unknown, rewrite);
    assert_eq!(after[42..], sent[14..], "quoted: UDP, all checksums right");
    assert_eq!(after[26..34], [10, 96, 0, 1, 10, 0, 0, 1], "from the virtual address");
    assert_eq!((naive_sum(&after[14..34]), naive_sum(&after[34..])), (0xffff, 0xffff), "checksums of the error");
    // Of TCP eight bytes: ports, and no checksum to be touched.
    let cut = |frame: &[u8]| frame[14..42].to_vec();
    let inner_dst = Some(End { addr: vip, port: 443 });
    let rewrite = Rewrite { inner_dst, ..rewrite };
    let quote = cut(&v4_between(CLIENT, SERVER, 6, &tcp(2, &[], b"")));
    let after = rewritten(&error(Family::V4, 11, &quote), Csum::Unknown, rewrite);
    let mut sent = cut(&v4_between(CLIENT, vip, 6, &tcp(2, &[], b"")));
    sent[22..24].copy_from_slice(&[1, 187]);
    assert_eq!(after[42..], sent);
    assert_eq!((naive_sum(&after[14..34]), naive_sum(&after[34..])), (0xffff, 0xffff), "checksums of the error");
}
