//! Truncation at every byte, segments cut anywhere, random packets and random bytes, offload.

use super::{verdict, verdict_of};
use crate::packet::L4;
use crate::packet::testing::{Spec, cut, cuts, specs};
use proptest::prelude::*;
use vswitch_dpdk::{Csum, Mempool};
use vswitch_testkit::frames::*;

/// A frame's name, its bytes, and the reasons for what is cut off: below each length, from the
/// front.
type Good = (&'static str, Vec<u8>, Vec<(usize, &'static str)>);

fn good() -> Vec<Good> {
    let tags = |frame: Vec<u8>| [&frame[..12], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], &frame[12..]].concat();
    let tcp = tcp4(2, None, &[2, 4, 5, 0xb4, 1, 3, 3, 7]);
    let solicitation = nd6(135, 0, 24, &[1, 1, 0, 0, 0, 0, 0, 9]);
    let extended = extended(&[(0, &[0, 1, 4, 0, 0, 0, 0]), (44, &[0, 0, 0, 0, 0, 0, 7])]);
    let arp = eth(0x0806, &arp(ARP_HEAD));
    let echo = Ip4::new(1).frame(&sealed4(1, vec![8, 0, 0, 0, 0, 7, 0, 1, 1, 2, 3]));
    let ip = |frame: &[u8]| vec![(15, "eth_short"), (frame.len(), "ip_len")];
    let tagged = tags(udp4(None, b"ping"));
    vec![
        ("TCP with options", tcp.clone(), ip(&tcp)),
        ("neighbour solicitation", solicitation.clone(), ip(&solicitation)),
        ("extension headers", extended.clone(), ip(&extended)),
        ("ICMP", echo.clone(), ip(&echo)),
        ("two tags", tagged.clone(), vec![(15, "eth_short"), (22, "vlan_short"), (tagged.len(), "ip_len")]),
        ("ARP", arp, vec![(15, "eth_short"), (42, "arp")]),
        ("MPLS", eth(0x8847, &[0, 1, 0, 64, 0, 1, 1, 64]), vec![(15, "eth_short"), (22, "mpls_depth")]),
    ]
}

#[test]
fn every_truncation_of_a_good_frame_has_its_reason() {
    for (name, frame, reasons) in good() {
        assert_eq!(verdict_of(&frame), "-", "{name}");
        for len in 0..reasons.last().expect("a reason").0 {
            let (_, reason) = reasons.iter().find(|(below, _)| len < *below).expect("a reason");
            assert_eq!(verdict_of(&frame[..len]), *reason, "{name} cut to {len} bytes");
        }
    }
}

/// What IP carries is cut off, and the IP header says so.
#[test]
fn every_truncation_inside_a_good_ip_packet_has_its_reason() {
    let tcp = sealed4(6, tcp(2, None, &[2, 4, 5, 0xb4]));
    let datagram = sealed4(17, udp(None, b"ping"));
    let echo = sealed4(1, vec![8, 0, 0, 0, 0, 7, 0, 1, 9, 2, 3, 4]);
    for (protocol, packet, reasons) in [
        // 24 bytes of header, then payload whose loss only the checksum tells.
        (6, tcp, [(24, "tcp_hdr"), (28, "csum")]),
        (17, datagram, [(8, "udp_len"), (12, "udp_len")]),
        (1, echo, [(8, "icmp_hdr"), (12, "csum")]),
    ] {
        for len in 0..packet.len() {
            let (_, reason) = reasons.iter().find(|(below, _)| len < *below).expect("a reason");
            let frame = Ip4::new(protocol).frame(&packet[..len]);
            assert_eq!(verdict_of(&frame), *reason, "protocol {protocol} cut to {len} bytes");
        }
        assert_eq!(verdict_of(&Ip4::new(protocol).frame(&packet)), "-", "protocol {protocol}");
    }
    let pad: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
    let (next, bytes) = chain(&[(0, pad), (60, pad)], 17, &udp6());
    for len in 0..bytes.len() {
        let reason = if len < 16 { "ip6_ext" } else { "udp_len" };
        assert_eq!(verdict_of(&Ip6::new(next).frame(&bytes[..len])), reason, "extension headers cut to {len} bytes");
    }
    let message = nd(136, 0, 24, &[2, 1, 0, 0, 0, 0, 0, 9]);
    for len in 8..message.len() {
        let frame = Ip6 { hop_limit: 255, ..Ip6::new(58) }.frame(&sealed6(58, message[..len].to_vec()));
        let reason = if len == 24 { "-" } else { "nd_opt" };
        assert_eq!(verdict_of(&frame), reason, "neighbour advertisement cut to {len} bytes");
    }
}

#[test]
fn what_a_device_says_of_a_checksum() {
    let pool = Mempool::for_tests(16);
    let good = tcp4(16, None, &[]);
    let mut wrong = good.clone();
    wrong[57] ^= 1;
    for (csum, of_good, of_wrong) in
        [(Csum::Unknown, "-", "csum"), (Csum::Bad, "-", "csum"), (Csum::Good, "-", "-"), (Csum::Partial, "-", "-")]
    {
        for (frame, want) in [(&good, of_good), (&wrong, of_wrong)] {
            let mut mbuf = pool.mbuf_from(frame).expect("room");
            mbuf.set_csum(csum);
            assert_eq!(verdict(&mbuf), want, "{csum:?}");
        }
    }
    // The IPv4 header is summed whatever a device says, but for a packet that is to be segmented.
    wrong[24] ^= 1;
    let mut mbuf = pool.mbuf_from(&wrong).expect("room");
    mbuf.set_csum(Csum::Good);
    assert_eq!(verdict(&mbuf), "csum", "header");
    mbuf.set_csum(Csum::Partial);
    mbuf.set_gso_size(2);
    assert_eq!(verdict(&mbuf), "-", "header of a GSO packet");
}

/// A packet that any host may send: what is random in a [`Spec`] and forbidden is made good.
fn well_formed() -> impl Strategy<Value = Spec> {
    const FLAGS: [u8; 12] = [0x02, 0x12, 0x10, 0x18, 0x11, 0x19, 0x04, 0x14, 0x30, 0x31, 0xc2, 0xd0];
    specs(600).prop_map(|mut spec| {
        spec.tcp_flags = FLAGS[usize::from(spec.tcp_flags) % FLAGS.len()];
        // Hop-by-hop options only in front; the routing headers of a spec are of type 0.
        spec.extensions.retain(|(kind, _)| *kind != 43);
        let in_front = spec.extensions.first().map(|(kind, _)| *kind);
        spec.extensions.retain(|(kind, _)| *kind != 0);
        if in_front == Some(0) {
            spec.extensions.insert(0, (0, 2));
        }
        spec
    })
}

#[test]
fn well_formed_packets_pass_at_any_cut() {
    let pool = Mempool::for_tests(1024);
    proptest!(|((spec, cuts) in (well_formed(), cuts()))| {
        prop_assert_eq!(verdict(&cut(&pool, &spec.complete(), &cuts)), "-");
        let mut partial = cut(&pool, &spec.partial(), &cuts);
        partial.set_csum(Csum::Partial);
        prop_assert_eq!(verdict(&partial), "-");
    });
}

#[test]
fn a_flipped_bit_of_a_packet_over_ipv4_is_noticed() {
    let pool = Mempool::for_tests(1024);
    proptest!(|((spec, at, bit) in (well_formed(), any::<prop::sample::Index>(), 0..8_u8))| {
        let spec = Spec { ipv4: true, ..spec };
        let mut frame = spec.complete();
        let at = spec.l2_len() + at.index(spec.end() - spec.l2_len());
        frame[at] ^= 1 << bit;
        // A datagram that says it has no checksum.
        prop_assume!(spec.l4 == L4::Tcp || frame[spec.checksum_at()..][..2] != [0, 0]);
        let mbuf = pool.mbuf_from(&frame).expect("room");
        prop_assert!(verdict(&mbuf) != "-", "byte {}", at);
    });
}

#[test]
fn broken_packets_get_the_same_verdict_at_any_cut() {
    let pool = Mempool::for_tests(1024);
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let changes = proptest::collection::vec(change, 0..4);
    proptest!(|((spec, cuts, changes, keep) in (specs(100), cuts(), changes, any::<prop::sample::Index>()))| {
        let mut frame = spec.complete();
        for (at, byte) in changes {
            let at = at.index(frame.len().min(120));
            frame[at] = byte;
        }
        let len = frame.len() - keep.index(frame.len()) / 2;
        let whole = verdict_of(&frame[..len]);
        prop_assert_eq!(verdict(&cut(&pool, &frame[..len], &cuts)), whole);
    });
    for (name, frame, _) in good() {
        for at in 0..frame.len() {
            let (front, back) = frame.split_at(at);
            let mut mbuf = pool.mbuf_from(front).expect("room");
            mbuf.chain(pool.mbuf_from(back).expect("room"));
            assert_eq!(verdict(&mbuf), "-", "{name} in two pieces, cut at {at}");
        }
    }
}

#[test]
fn random_bytes_get_a_verdict() {
    let pool = Mempool::for_tests(1024);
    let kinds = prop_oneof![Just(0x0800_u16), Just(0x86dd), Just(0x0806), Just(0x8847), Just(0x8100), any::<u16>()];
    let bytes = proptest::collection::vec(any::<u8>(), 0..300);
    proptest!(|((kind, bytes, protocol, cuts) in (kinds, bytes, any::<u8>(), cuts()))| {
        let raw = eth(kind, &bytes);
        let _ = verdict(&cut(&pool, &raw, &cuts));
        // Deeper: behind good IP headers.
        let _ = verdict(&cut(&pool, &Ip4::new(protocol).frame(&bytes), &cuts));
        let _ = verdict(&cut(&pool, &Ip6::new(protocol).frame(&bytes), &cuts));
    });
}
