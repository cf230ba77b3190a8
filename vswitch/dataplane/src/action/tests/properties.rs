//! Whatever is rewritten: checksums stay what a full sum gives, and nothing beyond the packet is
//! touched.

use super::{apply, hex, packet};
use crate::action::{Masked, Op, SetArp, SetEth, SetIcmp, SetIpv4, SetIpv6, SetNd, SetPorts};
use crate::observe::DropReason;
use crate::packet::testing::{Spec, cut, naive_checksum, specs};
use crate::packet::{Headers, L4, offload};
use proptest::prelude::*;
use vswitch_dpdk::{Csum, Mempool};

fn masked<T>() -> impl Strategy<Value = Masked<T>>
where
    T: Arbitrary + Copy + std::ops::BitAnd<Output = T> + 'static + Default + std::ops::Not<Output = T>,
{
    let mask = prop_oneof![Just(T::default()), Just(!T::default()), any::<T>()];
    (any::<T>(), mask).prop_map(|(value, mask)| Masked { value: value & mask, mask })
}

fn mac() -> impl Strategy<Value = Masked<u64>> {
    masked::<u64>().prop_map(|mac| Masked { value: mac.value >> 16, mask: mac.mask >> 16 })
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let label = masked::<u32>().prop_map(|label| Masked { value: label.value >> 12, mask: label.mask >> 12 });
    let one = prop_oneof![
        (mac(), mac()).prop_map(|(dst, src)| Op::SetEth(Box::new(SetEth { dst, src }))),
        (prop_oneof![Just(0x8100), Just(0x88a8)], any::<u16>()).prop_map(|(tpid, tci)| Op::PushVlan { tpid, tci }),
        Just(Op::PopVlan),
        masked().prop_map(Op::SetVlanTci),
        (masked(), masked(), masked(), masked()).prop_map(|(src, dst, tos, ttl)| Op::SetIpv4(Box::new(SetIpv4 {
            src,
            dst,
            tos,
            ttl
        }))),
        (masked(), masked(), label, masked(), masked()).prop_map(|(src, dst, label, tclass, hop_limit)| {
            Op::SetIpv6(Box::new(SetIpv6 { src, dst, label, tclass, hop_limit }))
        }),
        (masked(), masked()).prop_map(|(src, dst)| Op::SetPorts(Box::new(SetPorts { src, dst }))),
        (masked(), masked()).prop_map(|(kind, code)| Op::SetIcmp(Box::new(SetIcmp { kind, code }))),
        (masked(), masked(), masked(), mac(), mac())
            .prop_map(|(op, spa, tpa, sha, tha)| Op::SetArp(Box::new(SetArp { op, spa, tpa, sha, tha }))),
        (masked(), mac(), mac(), masked(), masked()).prop_map(|(target, sll, tll, reserved, options_type)| {
            Op::SetNd(Box::new(SetNd { target, sll, tll, reserved, options_type }))
        }),
    ];
    proptest::collection::vec(one, 0..5)
}

/// The ops that translation could emit for the packet: of its IP version, and no ARP.
fn fits(op: &Op, spec: &Spec) -> bool {
    match op {
        Op::SetIpv4(_) => spec.ipv4,
        Op::SetIpv6(_) => !spec.ipv4,
        Op::SetArp(_) | Op::SetNd(_) | Op::SetIcmp(_) => false,
        // A third tag is where parsing ends, and a tag removed from under two shows one that was
        // not parsed.
        Op::PushVlan { .. } => spec.tags.is_empty(),
        _ => true,
    }
}

/// What the checksums of a TCP or UDP packet would be if they were made anew: IPv4 header, L4.
fn anew(bytes: &[u8]) -> (Option<u16>, u16) {
    let headers = Headers::of_bytes(bytes).expect("an IP packet");
    let (l3, l4) = (headers.l2_len, headers.l4_start());
    let ip = headers.ipv4.then(|| {
        let mut header = bytes[l3..l3 + headers.l3_len].to_vec();
        header[10..12].fill(0);
        naive_checksum(&header)
    });
    let addresses = if headers.ipv4 { &bytes[l3 + 12..l3 + 20] } else { &bytes[l3 + 8..l3 + 40] };
    let len = u32::try_from(headers.end - l4).expect("small").to_be_bytes();
    let mut summed = [addresses, &len, &[0, 0, 0, headers.protocol], &bytes[l4..headers.end]].concat();
    let field = headers.checksum_at().expect("TCP or UDP") - l4 + addresses.len() + 8;
    summed[field..field + 2].fill(0);
    let sum = naive_checksum(&summed);
    (ip, if headers.l4 == Some(L4::Udp) && sum == 0 { 0xffff } else { sum })
}

fn present(bytes: &[u8]) -> (Option<u16>, u16) {
    let headers = Headers::of_bytes(bytes).expect("an IP packet");
    let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    (headers.ipv4.then(|| word(headers.l2_len + 10)), word(headers.checksum_at().expect("TCP or UDP")))
}

/// Packets whose checksum covers the addresses in their IP header.
fn packets() -> impl Strategy<Value = Spec> {
    specs(100).prop_map(|mut spec| {
        spec.extensions.retain(|(kind, _)| *kind != 43);
        spec
    })
}

#[test]
fn adjusted_checksums_are_those_made_anew() {
    let pool = Mempool::for_tests(64);
    proptest!(ProptestConfig::with_cases(1000), |((spec, ops) in (packets(), ops()))| {
        // The parser that these checks use knows two tags.
        let mut tags = spec.tags.len();
        let room = |op: &Op| !matches!(op, Op::PushVlan { .. }) || { tags += 1; tags <= 2 };
        let ops: Vec<Op> = ops.into_iter().filter(|op| fits(op, &spec)).filter(room).take(3).collect();
        let mut complete = packet(pool.mbuf_from(&spec.complete()).expect("mbuf"));
        apply(&ops, &mut complete).expect("headroom");
        let bytes = complete.mbuf.to_vec();
        prop_assert_eq!(present(&bytes), anew(&bytes), "{:?} to {:02x?}", &ops, &bytes);
        // The same packet with a partial checksum, finished afterwards.
        let mut mbuf = pool.mbuf_from(&spec.partial()).expect("mbuf");
        mbuf.set_csum(Csum::Partial);
        let mut partial = packet(mbuf);
        apply(&ops, &mut partial).expect("headroom");
        prop_assert_eq!(partial.mbuf.csum(), Csum::Partial);
        offload::finish_checksum(&mut partial.mbuf).expect("a TCP or UDP packet");
        prop_assert_eq!(partial.mbuf.to_vec(), bytes, "partial, {:?}", &ops);
    });
    assert_eq!(pool.in_use(), 0, "mbufs leaked");
}

#[test]
fn segments_make_no_difference_behind_the_headers() {
    let pool = Mempool::for_tests(64);
    proptest!(|((mut spec, ops, at) in (packets(), ops(), 300..700_usize))| {
        spec.payload = (0..2500_u32).map(|i| (i * 7).to_be_bytes()[3]).collect();
        let ops: Vec<Op> = ops.into_iter().filter(|op| fits(op, &spec)).collect();
        let mut whole = packet(pool.mbuf_from(&spec.complete()).expect("mbuf"));
        let mut pieces = packet(cut(&pool, &spec.complete(), &[at, 1, 1000]));
        apply(&ops, &mut whole).expect("headroom");
        apply(&ops, &mut pieces).expect("headroom");
        prop_assert!(whole.mbuf.to_vec() == pieces.mbuf.to_vec(), "cut at {}: {:?}", at, &ops);
    });
}

#[test]
fn an_sctp_checksum_covers_all_segments() {
    let pool = Mempool::for_tests(8);
    let header = hex("020000000002020000000001080045000800123440004084000000000000000000000000");
    let mut bytes = header[..34].to_vec();
    bytes.extend_from_slice(&hex("c0010050deadbeef00000000"));
    bytes.resize(14 + 0x800, 0x33);
    bytes.extend_from_slice(&[0xff; 5]); // padding
    let crc = |bytes: &[u8]| (!vswitch_dpdk::crc32c(u32::MAX, &bytes[34..14 + 0x800])).to_le_bytes();
    let sum = crc(&bytes);
    bytes[42..46].copy_from_slice(&sum);
    let mut packet = packet(cut(&pool, &bytes, &[700, 3, 900]));
    let dst = Masked { value: 8080, mask: u16::MAX };
    apply(&[Op::SetPorts(Box::new(SetPorts { dst, ..SetPorts::default() }))], &mut packet).expect("rewritten");
    bytes[36..38].copy_from_slice(&8080_u16.to_be_bytes());
    bytes[42..46].fill(0);
    let sum = crc(&bytes);
    bytes[42..46].copy_from_slice(&sum);
    assert!(packet.mbuf.to_vec() == bytes, "{:02x?}", &packet.mbuf.to_vec()[30..50]);
}

#[test]
fn the_payload_of_a_later_fragment_is_not_a_header() {
    // Open vSwitch 3.1 adjusts a "checksum" in it (a bug that we do not copy).
    let before = "02000000000202000000000108004503002e1234000540119bd80a010203c0a8fffec0010035001a78d5303132333435363738393a3b3c3d3e3f4041";
    let after = "02000000000202000000000108004503002e123400054011a3d601020304c0a8fffec0010035001a78d5303132333435363738393a3b3c3d3e3f4041";
    let src = Masked { value: 0x0102_0304, mask: u32::MAX };
    let ops = [
        Op::SetIpv4(Box::new(SetIpv4 { src, ..SetIpv4::default() })),
        Op::SetPorts(Box::new(SetPorts { dst: Masked { value: 1, mask: 0xffff }, ..SetPorts::default() })),
    ];
    assert_eq!(super::rewrite(&ops, &hex(before)), hex(after));
}

#[test]
fn any_bytes_survive_any_ops() {
    let pool = Mempool::for_tests(64);
    let random = proptest::collection::vec(any::<u8>(), 14..200);
    let damaged = (specs(60), proptest::collection::vec((0..150_usize, any::<u8>()), 0..5)).prop_map(|(spec, at)| {
        let mut bytes = spec.complete();
        for (at, value) in at {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        bytes
    });
    proptest!(ProptestConfig::with_cases(3000), |((bytes, ops, len) in (prop_oneof![random, damaged], ops(), 14..200_usize))| {
        let bytes = &bytes[..len.min(bytes.len())];
        let mut packet = packet(pool.mbuf_from(bytes).expect("mbuf"));
        let end = usize::from(packet.layers.l3_end).min(bytes.len());
        apply(&ops, &mut packet).expect("headroom");
        let sent = packet.mbuf.to_vec();
        let padding = bytes.len() - end;
        prop_assert!(sent.ends_with(&bytes[bytes.len() - padding..]), "padding was touched: {:?}", &ops);
        if !ops.iter().any(|op| matches!(op, Op::PushVlan { .. } | Op::PopVlan)) {
            prop_assert_eq!(sent.len(), bytes.len());
        }
    });
}

#[test]
fn tags_end_with_the_headroom() {
    let pool = Mempool::for_tests(2);
    let mut packet = packet(pool.mbuf_from(&[0x55; 60]).expect("mbuf"));
    let push = Op::PushVlan { tpid: 0x8100, tci: 0xffff };
    let pushed = (0..1000).take_while(|_| packet.rewrite(&push).is_ok()).count();
    assert_eq!((pushed, packet.mbuf.len()), (32, 60 + 32 * 4), "128 bytes of headroom");
    assert_eq!(packet.rewrite(&push), Err(DropReason::Headroom));
    for _ in 0..pushed {
        packet.rewrite(&Op::PopVlan).expect("a tag");
    }
    assert_eq!(packet.mbuf.to_vec(), [0x55; 60]);
}

#[test]
fn a_remark_raises_the_drop_precedence_of_assured_forwarding() {
    let spec = Spec::plain(true, L4::Tcp, 10);
    let v6 = Spec::plain(false, L4::Tcp, 10);
    // AF21 is 18, AF22 20, AF23 22 (RFC 2597); EF is 46 and has no precedence.
    for (dscp, by, raised) in
        [(18, 1, 20), (18, 2, 22), (20, 3, 22), (22, 1, 22), (46, 1, 46), (0, 1, 0), (16, 1, 16), (42, 1, 42)]
    {
        let pool = Mempool::for_tests(2);
        let mut bytes = spec.complete();
        bytes[15] = dscp << 2 | 3;
        let mut four = packet(pool.mbuf_from(&bytes).expect("mbuf"));
        four.remark(by);
        assert_eq!(four.mbuf.head()[15], raised << 2 | 3, "IPv4, {dscp} by {by}");
        let mut bytes = v6.complete();
        bytes[14] = 0x60 | dscp >> 2;
        bytes[15] = dscp << 6 & 0xc0 | 0x31;
        let mut six = packet(pool.mbuf_from(&bytes).expect("mbuf"));
        six.remark(by);
        assert_eq!(six.mbuf.head()[14..16], [0x60 | raised >> 2, raised << 6 & 0xc0 | 0x31], "IPv6, {dscp} by {by}");
    }
}
