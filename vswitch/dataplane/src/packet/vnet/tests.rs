use super::super::testing::{Spec, cut, cuts, naive_checksum, specs};
use super::*;
use proptest::prelude::*;
use vswitch_dpdk::Mempool;

fn partial(spec: &Spec) -> VnetHdr {
    VnetHdr {
        flags: VnetHdr::NEEDS_CSUM,
        csum_start: u16::try_from(spec.l4_start()).expect("short headers"),
        csum_offset: if spec.l4 == L4::Tcp { 16 } else { 6 },
        ..VnetHdr::default()
    }
}

fn gso(spec: &Spec, gso_size: u16) -> VnetHdr {
    let gso_type = match (spec.l4, spec.ipv4) {
        (L4::Udp, _) => VnetHdr::GSO_UDP_L4,
        (L4::Tcp, true) => VnetHdr::GSO_TCPV4,
        (L4::Tcp, false) => VnetHdr::GSO_TCPV6,
    };
    VnetHdr { gso_type, gso_size, ..partial(spec) }
}

#[test]
fn ten_bytes_little_endian() {
    let bytes = [1, 0x81, 0x36, 0, 0xa8, 0x05, 0x22, 0x01, 0x10, 0];
    let header = VnetHdr::from_bytes(&bytes);
    let expected = VnetHdr {
        flags: VnetHdr::NEEDS_CSUM,
        gso_type: VnetHdr::GSO_TCPV4 | VnetHdr::GSO_ECN,
        hdr_len: 54,
        gso_size: 1448,
        csum_start: 0x122,
        csum_offset: 16,
    };
    assert_eq!(header, expected);
    assert_eq!(header.to_bytes(), bytes);
}

#[test]
fn flags_without_needs_csum() {
    let pool = Mempool::for_tests(4);
    let bytes = Spec::plain(true, L4::Tcp, 10).complete();
    // RSC_INFO (4) and what may come later mean nothing to us.
    for (flags, csum) in [(0, Csum::Unknown), (2, Csum::Good), (4, Csum::Unknown), (0xfe, Csum::Good)] {
        let mut mbuf = pool.mbuf_from(&bytes).expect("mbuf");
        let header = VnetHdr { flags, gso_size: 7, csum_start: 9999, ..VnetHdr::default() };
        assert_eq!(header.accept(&mut mbuf), Ok(()), "flags {flags}");
        assert_eq!((mbuf.csum(), mbuf.gso_size(), mbuf.to_vec() == bytes), (csum, 0, true), "flags {flags}");
    }
}

#[test]
fn the_outermost_checksum_stays_partial() {
    let pool = Mempool::for_tests(4);
    for (ipv4, l4) in [(true, L4::Tcp), (true, L4::Udp), (false, L4::Tcp), (false, L4::Udp)] {
        let spec = Spec::plain(ipv4, l4, 100);
        let mut mbuf = pool.mbuf_from(&spec.partial()).expect("mbuf");
        assert_eq!(partial(&spec).accept(&mut mbuf), Ok(()), "{ipv4} {l4:?}");
        assert_eq!((mbuf.csum(), mbuf.to_vec()), (Csum::Partial, spec.partial()), "{ipv4} {l4:?}");
        assert_eq!(VnetHdr::describe(&mbuf), Ok(partial(&spec)), "{ipv4} {l4:?}");
    }
}

#[test]
fn any_other_checksum_is_finished_here() {
    let pool = Mempool::for_tests(512);
    // A packet in a tunnel of the guest's own: 42 bytes of UDP and 8 of tunnel header before an
    // inner TCP packet.
    let inner = Spec::plain(true, L4::Tcp, 101);
    let mut outer = Spec::plain(true, L4::Udp, 0);
    outer.padding = 3;
    outer.payload = [vec![8; 8], inner.partial()].concat();
    let at = outer.payload_start() + 8;
    let header = VnetHdr { csum_start: u16::try_from(at + 34).expect("short"), ..partial(&inner) };
    for cuts in [vec![], vec![1; 400], vec![at + 34 + 17, 33]] {
        let mut mbuf = cut(&pool, &outer.complete(), &cuts);
        assert_eq!(header.accept(&mut mbuf), Ok(()), "cut {cuts:?}");
        assert_eq!(mbuf.csum(), Csum::Unknown, "cut {cuts:?}");
        assert_eq!(mbuf.to_vec()[at..outer.end()], inner.complete(), "cut {cuts:?}");
        assert_eq!(mbuf.to_vec()[..at], outer.complete()[..at], "cut {cuts:?}: the outer headers");
    }

    let mut icmp = Spec::plain(true, L4::Udp, 21).complete();
    (icmp[23], icmp[36], icmp[37]) = (1, 0, 0);
    let mut mbuf = pool.mbuf_from(&icmp).expect("mbuf");
    let header = VnetHdr { csum_offset: 2, ..partial(&Spec::plain(true, L4::Udp, 21)) };
    assert_eq!(header.accept(&mut mbuf), Ok(()), "ICMP");
    assert_eq!((naive_checksum(&mbuf.to_vec()[34..]), mbuf.csum()), (0, Csum::Unknown), "ICMP verifies");
}

/// Linux says of SCTP's CRC32c what it says of a sum.
#[test]
fn the_crc_of_sctp_is_finished_here() {
    let pool = Mempool::for_tests(512);
    // The check string of CRC-32C behind the header, so that the packet is known to all.
    let sctp = [&[0xc0, 1, 0, 80, 1, 2, 3, 4, 0xaa, 0xbb, 0xcc, 0xdd][..], b"123456789"].concat();
    let crc = naive_crc32c(&[&sctp[..8], &[0; 4], &sctp[12..]].concat());
    assert_eq!(naive_crc32c(b"123456789"), 0xe306_9283);
    for (ipv4, padding) in [(true, 0), (true, 5), (false, 0), (false, 3)] {
        let mut spec = Spec::plain(ipv4, L4::Udp, sctp.len() - 8);
        spec.padding = padding;
        let (mut bytes, at) = (spec.complete(), spec.l4_start());
        bytes[if ipv4 { 23 } else { 20 }] = 132;
        bytes[at..at + sctp.len()].copy_from_slice(&sctp);
        let header = VnetHdr { csum_offset: 8, ..partial(&spec) };
        for cuts in [vec![], vec![1; 100], vec![at + 9, 2, 3], vec![spec.end()]] {
            let mut mbuf = cut(&pool, &bytes, &cuts);
            assert_eq!(header.accept(&mut mbuf), Ok(()), "IPv4 {ipv4}, {cuts:?}");
            assert_eq!(mbuf.csum(), Csum::Unknown);
            let mut expected = bytes.clone();
            expected[at + 8..at + 12].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(mbuf.to_vec(), expected, "IPv4 {ipv4}, {cuts:?}");
        }
    }
    assert_eq!(pool.in_use(), 0, "segments leaked");
}

/// CRC-32C bit by bit.
fn naive_crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

#[test]
fn contradictions_are_refused() {
    let tcp4 = Spec::plain(true, L4::Tcp, 3000);
    let tcp6 = Spec::plain(false, L4::Tcp, 3000);
    let udp4 = Spec::plain(true, L4::Udp, 3000);
    let mut padded = tcp4.clone();
    padded.padding = 1;
    let len = u16::try_from(tcp4.end()).expect("short");
    let with = |spec: &Spec, change: &dyn Fn(&mut VnetHdr)| {
        let mut header = gso(spec, 1000);
        change(&mut header);
        (header, spec.partial())
    };
    let mut fragment = with(&tcp4, &|_| {});
    fragment.1[20] = 0x20;
    let mut big = with(&tcp4, &|_| {});
    (big.1[16], big.1[17]) = (0, 0);
    let cases = [
        ("GSO without NEEDS_CSUM", with(&tcp4, &|h| h.flags = 0)),
        ("GSO with DATA_VALID only", with(&tcp4, &|h| h.flags = 2)),
        ("gso_size 0", with(&tcp4, &|h| h.gso_size = 0)),
        ("TCPV6 on IPv4", with(&tcp4, &|h| h.gso_type = 4)),
        ("TCPV4 on IPv6", with(&tcp6, &|h| h.gso_type = 1)),
        ("TCPV4 on UDP", with(&udp4, &|h| h.gso_type = 1)),
        ("UDP_L4 on TCP", with(&tcp4, &|h| h.gso_type = 5)),
        ("UDP_L4 with ECN", with(&udp4, &|h| h.gso_type = 0x85)),
        ("UFO", with(&udp4, &|h| h.gso_type = 3)),
        ("unknown type", with(&tcp4, &|h| h.gso_type = 2)),
        ("ECN alone", with(&tcp4, &|h| h.gso_type = 0x80)),
        ("csum_start off by one", with(&tcp4, &|h| h.csum_start += 1)),
        ("csum_offset of UDP on TCP", with(&tcp4, &|h| h.csum_offset = 6)),
        ("a GSO fragment", fragment),
        ("a GSO packet of total length 0", big),
        ("a GSO packet with padding", with(&padded, &|_| {})),
        ("a CRC that is not all there", with(&tcp4, &|h| (h.gso_type, h.csum_start, h.csum_offset) = (0, len - 11, 8))),
        ("field one beyond", with(&tcp4, &|h| (h.gso_type, h.csum_start, h.csum_offset) = (0, len - 17, 16))),
        ("start beyond", with(&tcp4, &|h| (h.gso_type, h.csum_start) = (0, len))),
        ("all ones", with(&tcp4, &|h| (h.gso_type, h.csum_start, h.csum_offset) = (0, 0xffff, 0xffff))),
    ];
    let pool = Mempool::for_tests(16);
    for (name, (header, bytes)) in cases {
        let mut mbuf = pool.mbuf_from(&bytes).expect("mbuf");
        assert_eq!(header.accept(&mut mbuf), Err(DropReason::VnetHeader), "{name}");
    }
}

#[test]
fn a_small_gso_packet_is_an_ordinary_one() {
    let pool = Mempool::for_tests(16);
    let mut spec = Spec::plain(true, L4::Tcp, 1000);
    spec.padding = 2;
    for (gso_size, kept) in [(1000, Ok(0)), (65_535, Ok(0)), (999, Err(DropReason::VnetHeader))] {
        let mut mbuf = pool.mbuf_from(&spec.partial()).expect("mbuf");
        let accepted = gso(&spec, gso_size).accept(&mut mbuf).map(|()| mbuf.gso_size());
        assert_eq!(accepted, kept, "gso_size {gso_size} for 1000 bytes of payload");
    }
    // Who shrinks the payload below the segment size on the way still sends something valid.
    let mut mbuf = pool.mbuf_from(&spec.partial()).expect("mbuf");
    mbuf.set_csum(Csum::Partial);
    mbuf.set_gso_size(1000);
    assert_eq!(VnetHdr::describe(&mbuf), Ok(partial(&spec)));
}

#[test]
fn what_cannot_be_described_is_refused() {
    let pool = Mempool::for_tests(16);
    let spec = Spec::plain(true, L4::Tcp, 1000);
    let mut arp = spec.partial();
    arp[13] = 6;
    for (name, bytes, csum, gso_size) in [
        ("partial ARP", arp.clone(), Csum::Partial, 0),
        ("GSO ARP", arp, Csum::Partial, 500),
        ("GSO with a whole checksum", spec.complete(), Csum::Good, 500),
    ] {
        let mut mbuf = pool.mbuf_from(&bytes).expect("mbuf");
        mbuf.set_csum(csum);
        mbuf.set_gso_size(gso_size);
        assert_eq!(VnetHdr::describe(&mbuf), Err(DropReason::VnetHeader), "{name}");
    }
}

#[test]
fn accepting_a_description_changes_nothing() {
    let pool = Mempool::for_tests(512);
    let state = prop_oneof![Just(Csum::Unknown), Just(Csum::Good), Just(Csum::Partial)];
    proptest!(|((mut spec, cuts, state, gso_size) in (specs(1500), cuts(), state, 0..800_u16))| {
        let gso_size = if state == Csum::Partial && spec.payload.len() > gso_size.into() { gso_size } else { 0 };
        if gso_size != 0 {
            spec.padding = 0;
        }
        let bytes = if state == Csum::Partial { spec.partial() } else { spec.complete() };
        let mut mbuf = cut(&pool, &bytes, &cuts);
        mbuf.set_csum(state);
        mbuf.set_gso_size(gso_size);
        let header = VnetHdr::describe(&mbuf).expect("describable");
        let mut again = cut(&pool, &bytes, &[]);
        prop_assert_eq!(VnetHdr::from_bytes(&header.to_bytes()).accept(&mut again), Ok(()), "{:?}", header);
        prop_assert_eq!((again.csum(), again.gso_size()), (state, gso_size), "{:?}", header);
        prop_assert!(again.to_vec() == bytes, "bytes changed by {:?}", header);
        let ecn = spec.l4 == L4::Tcp && gso_size != 0 && spec.tcp_flags & TCP_CWR != 0;
        prop_assert_eq!(header.gso_type & VnetHdr::GSO_ECN != 0, ecn, "{:?}", header);
    });
    assert_eq!(pool.in_use(), 0, "segments leaked");
}

/// Headers that are mostly close to right, so that they get past the first checks.
fn headers() -> impl Strategy<Value = VnetHdr> {
    let number = || prop_oneof![0..200_u16, any::<u16>()];
    let gso_type = prop_oneof![Just(0), Just(1), Just(4), Just(5), Just(0x81), Just(0x84), any::<u8>()];
    let offset = prop_oneof![Just(16), Just(6), Just(2), number()];
    (any::<u8>(), gso_type, number(), number(), number(), offset).prop_map(
        |(flags, gso_type, hdr_len, gso_size, csum_start, csum_offset)| VnetHdr {
            flags,
            gso_type,
            hdr_len,
            gso_size,
            csum_start,
            csum_offset,
        },
    )
}

#[test]
fn whatever_is_accepted_can_be_described() {
    let pool = Mempool::for_tests(512);
    let random = proptest::collection::vec(any::<u8>(), 1..400);
    let real = (specs(300), proptest::option::of((0..150_usize, any::<u8>())), any::<bool>());
    let real = real.prop_map(|(spec, damage, aimed)| {
        let mut bytes = spec.partial();
        if let Some((at, value)) = damage {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        (bytes, aimed.then(|| partial(&spec)))
    });
    let packet = prop_oneof![random.prop_map(|bytes| (bytes, None)), real];
    proptest!(ProptestConfig::with_cases(4000), |(((bytes, aim), mut header, cuts) in (packet, headers(), cuts()))| {
        if let Some(aim) = aim {
            header = VnetHdr { gso_type: header.gso_type, gso_size: header.gso_size, ..aim };
        }
        let mut mbuf = cut(&pool, &bytes, &cuts);
        if header.accept(&mut mbuf).is_ok() {
            prop_assert_eq!(mbuf.len(), bytes.len());
            if mbuf.inner_len() != 0 {
                prop_assert!(Nested::of(&mbuf).is_some(), "accepted {:?}", header);
                return Ok(());
            }
            let described = VnetHdr::describe(&mbuf);
            prop_assert!(described.is_ok(), "accepted {:?}, but {:?}", header, described);
            prop_assert_eq!(described.map(|d| d.gso_size), Ok(mbuf.gso_size()));
        }
    });
    assert_eq!(pool.in_use(), 0, "segments leaked");
}
