use super::*;
use crate::read::read;
use crate::{GENEVE_PORT, TunnelKind, VXLAN_PORT};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const INNER: &str = "50540000000a5054000000091111deadbeef";
const V4: Ends = Ends::V4 { src: Ipv4Addr::new(1, 1, 2, 88), dst: Ipv4Addr::new(1, 1, 2, 92) };
const V6: Ends = Ends::V6 {
    src: Ipv6Addr::new(0x2001, 0xcafe, 0, 0, 0, 0, 0, 0x88),
    dst: Ipv6Addr::new(0x2001, 0xcafe, 0, 0, 0, 0, 0, 0x92),
};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|c| u8::try_from(c.to_digit(16).expect("hex")).expect("a digit")).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn outer(ends: Ends, body: TunnelHeader) -> Outer {
    let last = if matches!(ends, Ends::V4 { .. }) { 0xb6 } else { 0xb7 };
    let (eth_src, eth_dst) = ([0xaa, 0x55, 0xaa, 0x55, 0, 0], [0xf8, 0xbc, 0x12, 0x44, 0x34, last]);
    Outer { eth_src, eth_dst, ends, tos: 0, ttl: 64, df: true, body }
}

fn geneve(csum: bool, options: &[u8]) -> TunnelHeader {
    // 0x112_3456: a tunnel id has more bits than a VNI.
    TunnelHeader::Geneve { vni: 0x112_3456, dst_port: GENEVE_PORT, csum, oam: false, options: options.to_vec() }
}

fn vxlan(gbp: Option<(u8, u16)>) -> TunnelHeader {
    TunnelHeader::Vxlan { vni: 0x112_3456, dst_port: VXLAN_PORT, csum: false, gbp }
}

fn gre(csum: bool, seq: bool) -> TunnelHeader {
    TunnelHeader::Gre { key: Some(0x112_3456), csum, seq }
}

/// A packet as it leaves: header written, checksum finished.
fn packet(header: &Header, inner: &[u8], hash: u32, seq: u32) -> Vec<u8> {
    let mut packet = vec![0xee; header.len()];
    assert!(header.write(&mut packet, inner.len(), hash, seq), "{} bytes", inner.len());
    packet.extend_from_slice(inner);
    if let Some(at) = header.checksum() {
        let checksum = match !fold(sum(&packet[at.start..])) {
            0 if at.no_zero => 0xffff,
            checksum => checksum,
        };
        set16(&mut packet, at.field, checksum);
    }
    packet
}

/// The hash for which the source port is the one that Open vSwitch chose.
fn hash_of(port: u16) -> u32 {
    (0..=u32::MAX).step_by(1 << 16).find(|hash| source_port(*hash) == port).expect("a port of that range")
}

#[test]
fn packets_are_those_of_open_vswitch() {
    // Seen on the wire of ovs-vswitchd 3.1.
    let options = hex("ffff80011234567801020102000000000000abcd");
    let cases = [
        (
            "Geneve with options, one of them critical",
            outer(V4, geneve(false, &options)),
            "f8bc124434b6aa55aa55000008004500004a00004000401133ee010102580101025c83a917c1003600000540655812345600ffff80011234567801020102000000000000abcd",
        ),
        (
            "VXLAN",
            outer(V4, vxlan(None)),
            "f8bc124434b6aa55aa5500000800450000360000400040113402010102580101025c83a912b5002200000800000012345600",
        ),
        (
            "GRE with everything",
            outer(V4, gre(true, true)),
            "f8bc124434b6aa55aa55000008004500003600004000402f33e4010102580101025cb000655865d400000112345600000000",
        ),
    ];
    for (what, outer, front) in cases {
        let header = Header::new(&outer).expect(what);
        let got = packet(&header, &hex(INNER), hash_of(0x83a9), 0);
        assert_eq!(got, [hex(front), hex(INNER)].concat(), "{what}");
    }
}

#[test]
fn packets_over_ipv6_are_those_of_open_vswitch() {
    let inner = hex("50540000000a5054000000091112deadbeef");
    let ip = "2001cafe0000000000000000000000882001cafe000000000000000000000092";
    let cases = [
        ("Geneve", geneve(false, &[]), "6000000000221140", "83a917c10022702e0000655812345600"),
        ("VXLAN", vxlan(Some((0, 0))), "6000000000221140", "83a912b50022d2920800000012345600"),
        ("GRE", gre(true, true), "6000000000222f40", "b000655865d300000112345600000000"),
    ];
    for (what, body, first, rest) in cases {
        let header = Header::new(&outer(V6, body)).expect(what);
        let front = format!("f8bc124434b7aa55aa55000086dd{first}{ip}{rest}");
        assert_eq!(packet(&header, &inner, hash_of(0x83a9), 0), [hex(&front), inner.clone()].concat(), "{what}");
    }
}

#[test]
fn a_gre_checksum_covers_the_sequence_number() {
    let header = Header::new(&outer(V4, gre(true, true))).expect("GRE");
    assert!(header.sequenced());
    for seq in [0, 1, 0xffff_ffff] {
        let packet = packet(&header, &hex(INNER), 0, seq);
        assert_eq!(fold(sum(&packet[ETHERNET + IPV4..])), 0xffff, "number {seq}");
        assert_eq!(packet[header.len() - 4..header.len()], seq.to_be_bytes(), "number {seq}");
    }
}

#[test]
fn what_the_options_of_a_port_change() {
    let bytes = |outer: &Outer| Header::new(outer).expect("a header").bytes().to_vec();
    let plain = outer(V4, vxlan(None));
    let (l3, l4) = (ETHERNET, ETHERNET + IPV4);
    let fragments = Outer { df: false, tos: 0xb8, ttl: 3, ..plain };
    assert_eq!(bytes(&fragments)[l3..l3 + 10], [0x45, 0xb8, 0, 0, 0, 0, 0, 0, 3, 17]);
    let v6 = Outer { tos: 0xb8, ttl: 3, ..outer(V6, vxlan(None)) };
    assert_eq!(bytes(&v6)[l3..l3 + 8], [0x6b, 0x80, 0, 0, 0, 0, 17, 3]);
    let policy = outer(V4, vxlan(Some((0xff, 0x1234))));
    assert_eq!(bytes(&policy)[l4 + 8..], [0x88, 0x48, 0x12, 0x34, 0x12, 0x34, 0x56, 0], "only D and A are flags");
    let oam = TunnelHeader::Geneve { vni: 1, dst_port: 7000, csum: true, oam: true, options: hex("01020100") };
    assert_eq!(bytes(&outer(V4, oam))[l4 + 2..], hex("1b5800000000018065580000010001020100"));
    let bare = outer(V4, TunnelHeader::Gre { key: None, csum: false, seq: false });
    assert_eq!(bytes(&bare)[l4..], [0, 0, 0x65, 0x58]);
    let bare = Header::new(&bare).expect("GRE");
    assert_eq!((bare.len(), bare.checksum(), bare.sequenced(), bare.ends()), (38, None, false, V4));
}

#[test]
fn wrong_options_are_refused() {
    let with = |options: &[u8]| Header::new(&outer(V4, geneve(false, options))).map(|header| header.len());
    let longest: Vec<u8> = [[1, 2, 3, 31].as_slice(), &[0; 124], &[1, 2, 4, 30], &[0; 120]].concat();
    assert_eq!((longest.len(), with(&longest)), (252, Ok(14 + 20 + 8 + 8 + 252)));
    let too_long = [longest.as_slice(), &[1, 2, 3, 0]].concat();
    assert_eq!(with(&too_long), Err(HeaderError::OptionSpace(256)));
    for broken in [&[1, 2, 3][..], &[1, 2, 3, 1, 0, 0, 0], &[1, 2, 3, 1], &[1, 2, 3, 0, 1]] {
        assert_eq!(with(broken), Err(HeaderError::Options), "{broken:?}");
    }
    let v6 = Header::new(&outer(V6, geneve(false, &longest))).expect("it fits");
    assert_eq!(v6.len(), HEADER_MAX);
}

#[test]
fn what_does_not_fit_is_not_written() {
    for (ends, most) in [(V4, 65_535 - 36), (V6, 65_535 - 16)] {
        let header = Header::new(&outer(ends, vxlan(None))).expect("VXLAN");
        assert_eq!(header.inner_max(), most, "{ends:?}");
        let mut front = vec![0xee; header.len()];
        assert!(!header.write(&mut front, most + 1, 0, 0), "{ends:?}");
        assert!(!header.write(&mut front[1..], 64, 0, 0), "{ends:?}");
        assert!(front.iter().all(|byte| *byte == 0xee), "{ends:?}: written nevertheless");
        assert!(header.write(&mut front, most, 0, 0), "{ends:?}");
        let at = if matches!(ends, V4) { ETHERNET + 2 } else { ETHERNET + 4 };
        assert_eq!(front[at..at + 2], [0xff, 0xff], "{ends:?}");
    }
}

#[test]
fn source_ports_are_spread_over_the_range() {
    assert_eq!((source_port(0), source_port(u32::MAX), source_port(1 << 31)), (32_768, 60_999, 46_884));
}

fn ends() -> impl Strategy<Value = Ends> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(src, dst)| Ends::V4 { src: src.into(), dst: dst.into() }),
        any::<([u8; 16], [u8; 16])>().prop_map(|(src, dst)| Ends::V6 { src: src.into(), dst: dst.into() }),
    ]
}

fn options() -> impl Strategy<Value = Vec<u8>> {
    let option = (any::<[u8; 3]>(), proptest::collection::vec(any::<[u8; 4]>(), 0..12)).prop_map(|(head, data)| {
        let words = u8::try_from(data.len()).expect("few");
        [&head[..], &[words], data.as_flattened()].concat()
    });
    proptest::collection::vec(option, 0..5).prop_map(|options| options.concat())
}

fn body() -> impl Strategy<Value = TunnelHeader> {
    let vni = 0..1_u32 << 24;
    let geneve = (vni.clone(), any::<u16>(), any::<bool>(), any::<bool>(), options())
        .prop_map(|(vni, dst_port, csum, oam, options)| TunnelHeader::Geneve { vni, dst_port, csum, oam, options });
    let gbp = proptest::option::of((any::<u8>().prop_map(|flags| flags & 0x48), 1..u16::MAX));
    let vxlan = (vni, any::<u16>(), any::<bool>(), gbp).prop_map(|(vni, dst_port, csum, gbp)| TunnelHeader::Vxlan {
        vni,
        dst_port,
        csum,
        gbp,
    });
    let gre = any::<(Option<u32>, bool, bool)>().prop_map(|(key, csum, seq)| TunnelHeader::Gre { key, csum, seq });
    prop_oneof![geneve, vxlan, gre]
}

proptest! {
    /// What is written is read again, and its checksums are right.
    #[test]
    fn headers_are_read_as_they_were_written(
        ends in ends(),
        body in body(),
        (tos, ttl, df) in any::<(u8, u8, bool)>(),
        inner in proptest::collection::vec(any::<u8>(), 14..200),
        (hash, seq) in any::<(u32, u32)>(),
        padding in 0..20_usize,
    ) {
        let outer = Outer { tos, ttl, df, ..outer(ends, body) };
        let header = Header::new(&outer).expect("a header");
        let mut packet = packet(&header, &inner, hash, seq);
        let end = packet.len();
        packet.resize(end + padding, 0xee);
        let kind = match outer.body {
            TunnelHeader::Geneve { .. } => TunnelKind::Geneve,
            TunnelHeader::Vxlan { .. } => TunnelKind::Vxlan,
            TunnelHeader::Gre { .. } => TunnelKind::Gre,
        };
        let outside = read(kind, &packet, packet.len(), ETHERNET).expect("it was made here");
        prop_assert_eq!((outside.ends, outside.tos, outside.ttl), (ends, tos, ttl));
        prop_assert_eq!((outside.header_len, outside.payload_end), (header.len(), end));
        prop_assert_eq!(outside.csum, header.checksum().is_some());
        if let Some(checksum) = outside.checksum {
            let total = u32::from(checksum.sum) + sum(&packet[checksum.start..checksum.end]);
            prop_assert_eq!(fold(total), 0xffff, "the checksum of {:?}", outer);
        }
        let (id, oam, gbp, given) = match &outer.body {
            TunnelHeader::Geneve { vni, oam, options, .. } => (Some(*vni), *oam, None, options.as_slice()),
            TunnelHeader::Vxlan { vni, gbp, .. } => (Some(*vni), false, *gbp, &[][..]),
            TunnelHeader::Gre { key, .. } => (*key, false, None, &[][..]),
        };
        prop_assert_eq!((outside.id, outside.oam, outside.gbp), (id, oam, gbp));
        prop_assert_eq!(&packet[outside.options], given);
    }
}
