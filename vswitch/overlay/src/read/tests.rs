use super::*;
use crate::{Header, Outer, TunnelHeader};
use proptest::prelude::*;

const L4: usize = wire::ETHERNET + IPV4;
const INNER: [u8; 20] = [7; 20];

/// A packet of this tunnel, without a checksum in it.
fn packet(ends: Ends, body: TunnelHeader) -> Vec<u8> {
    let outer = Outer { eth_src: [2; 6], eth_dst: [4; 6], ends, tos: 0, ttl: 64, df: true, body };
    let header = Header::new(&outer).expect("a header");
    let mut packet = vec![0; header.len()];
    assert!(header.write(&mut packet, INNER.len(), 0, 0));
    packet.extend_from_slice(&INNER);
    packet
}

fn v4(body: TunnelHeader) -> Vec<u8> {
    packet(Ends::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2) }, body)
}

fn geneve() -> Vec<u8> {
    let options = vec![1, 2, 0x80, 1, 1, 2, 3, 4];
    v4(TunnelHeader::Geneve { vni: 5, dst_port: 6081, csum: false, oam: false, options })
}

fn vxlan() -> Vec<u8> {
    v4(TunnelHeader::Vxlan { vni: 5, dst_port: 4789, csum: false, gbp: None })
}

fn gre() -> Vec<u8> {
    v4(TunnelHeader::Gre { key: Some(5), csum: true, seq: true })
}

/// With these bytes somewhere, and the IPv4 checksum right nevertheless.
fn with(mut packet: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    packet[at..at + bytes.len()].copy_from_slice(bytes);
    packet[24..26].fill(0);
    let checksum = !fold(sum(&packet[14..34]));
    packet[24..26].copy_from_slice(&checksum.to_be_bytes());
    packet
}

fn says(kind: TunnelKind, packet: &[u8]) -> Result<Outside, Malformed> {
    read(kind, packet, packet.len(), wire::ETHERNET)
}

#[test]
fn what_open_vswitch_refuses_is_refused() {
    use Malformed as M;
    let options = {
        let mut packet = geneve();
        packet.splice(L4..L4, [0; 4]);
        let total = u16::try_from(packet.len() - 14).expect("short").to_be_bytes();
        packet[14] = 0x46;
        packet[16..18].copy_from_slice(&total);
        packet
    };
    let cases = [
        ("IPv4 options", TunnelKind::Geneve, options, M::Options),
        ("an IPv4 header of 16 bytes", TunnelKind::Geneve, with(geneve(), 14, &[0x44]), M::Length),
        ("IP version 5", TunnelKind::Geneve, with(geneve(), 14, &[0x55]), M::Version),
        ("an IPv4 length of 19", TunnelKind::Geneve, with(geneve(), 16, &[0, 19]), M::Length),
        ("an IPv4 length beyond the packet", TunnelKind::Geneve, with(geneve(), 16, &[0, 77]), M::Length),
        ("more fragments", TunnelKind::Geneve, with(geneve(), 20, &[0x20, 0]), M::Fragment),
        ("a later fragment", TunnelKind::Geneve, with(geneve(), 20, &[0, 1]), M::Fragment),
        ("TCP", TunnelKind::Geneve, with(geneve(), 23, &[6]), M::Protocol),
        ("GRE where Geneve is expected", TunnelKind::Geneve, gre(), M::Protocol),
        ("Geneve where GRE is expected", TunnelKind::Gre, geneve(), M::Protocol),
        ("a UDP length of 7", TunnelKind::Geneve, with(geneve(), L4 + 4, &[0, 7]), M::Length),
        ("a UDP length of 0", TunnelKind::Geneve, with(geneve(), L4 + 4, &[0, 0]), M::Length),
        ("a UDP length beyond IP's", TunnelKind::Geneve, with(geneve(), L4 + 4, &[0, 45]), M::Length),
        ("a UDP length that ends in Geneve's header", TunnelKind::Geneve, with(geneve(), L4 + 4, &[0, 15]), M::Length),
        ("a UDP length that ends in the options", TunnelKind::Geneve, with(geneve(), L4 + 4, &[0, 23]), M::Length),
        ("a UDP length that ends in the inner header", TunnelKind::Geneve, with(geneve(), L4 + 4, &[0, 37]), M::Length),
        ("Geneve version 1", TunnelKind::Geneve, with(geneve(), L4 + 8, &[0x42]), M::Version),
        ("Geneve with IPv4 in it", TunnelKind::Geneve, with(geneve(), L4 + 10, &[8, 0]), M::Protocol),
        ("Geneve options beyond the packet", TunnelKind::Geneve, with(geneve(), L4 + 8, &[8]), M::Length),
        ("VXLAN without a VNI", TunnelKind::Vxlan, with(vxlan(), L4 + 8, &[0]), M::Flags),
        ("VXLAN with an unknown flag", TunnelKind::Vxlan, with(vxlan(), L4 + 8, &[0x0c]), M::Flags),
        ("VXLAN with bits behind the flags", TunnelKind::Vxlan, with(vxlan(), L4 + 10, &[1]), M::Flags),
        ("VXLAN with bits behind the VNI", TunnelKind::Vxlan, with(vxlan(), L4 + 15, &[1]), M::Flags),
        ("GRE version 1", TunnelKind::Gre, with(gre(), L4 + 1, &[1]), M::Version),
        ("GRE with a routing field", TunnelKind::Gre, with(gre(), L4, &[0xf0]), M::Flags),
        ("GRE with strict source routing", TunnelKind::Gre, with(gre(), L4, &[0xb8]), M::Flags),
        ("GRE with a reserved bit", TunnelKind::Gre, with(gre(), L4 + 1, &[0x80]), M::Flags),
        ("GRE with IPv4 in it", TunnelKind::Gre, with(gre(), L4 + 2, &[8, 0]), M::Protocol),
        ("an IPv4 length that ends in GRE's fields", TunnelKind::Gre, with(gre(), 16, &[0, 35]), M::Length),
        ("an IPv4 length that ends in GRE's header", TunnelKind::Gre, with(gre(), 16, &[0, 23]), M::Length),
    ];
    for (what, kind, packet, refusal) in cases {
        assert_eq!(says(kind, &packet), Err(refusal), "{what}");
    }
    let mut wrong = geneve();
    wrong[24] ^= 1;
    assert_eq!(says(TunnelKind::Geneve, &wrong), Err(M::Checksum));
}

#[test]
fn what_is_reserved_and_may_be_set_is_ignored() {
    let reserved = with(geneve(), L4 + 9, &[0x3f]);
    assert_eq!(says(TunnelKind::Geneve, &reserved), says(TunnelKind::Geneve, &geneve()), "RFC 8926, section 3.4");
    let behind = with(geneve(), L4 + 15, &[9]);
    assert_eq!(says(TunnelKind::Geneve, &behind), says(TunnelKind::Geneve, &geneve()), "the byte behind the VNI");
    let unfragmented = with(geneve(), 20, &[0x80, 0]);
    assert_eq!(
        says(TunnelKind::Geneve, &unfragmented),
        says(TunnelKind::Geneve, &geneve()),
        "the highest bit beside DF"
    );
}

#[test]
fn everything_is_told() {
    let outside = says(TunnelKind::Geneve, &with(geneve(), 15, &[0xb9])).expect("Geneve");
    assert_eq!((outside.tos, outside.ttl, outside.id, outside.csum, outside.oam), (0xb9, 64, Some(5), false, false));
    assert_eq!((outside.options, outside.header_len, outside.payload_end), (50..58, 58, 78));
    let outside = says(TunnelKind::Vxlan, &with(vxlan(), L4 + 8, &[0x88, 0xff, 0x12, 0x34])).expect("VXLAN");
    assert_eq!((outside.gbp, outside.id), (Some((0x48, 0x1234)), Some(5)));
    let outside = says(TunnelKind::Gre, &gre()).expect("GRE");
    assert_eq!((outside.id, outside.csum, outside.header_len), (Some(5), true, 50));
    assert_eq!(outside.checksum, Some(WireChecksum { start: L4, end: 70, sum: 0 }));
    let bare = says(TunnelKind::Gre, &v4(TunnelHeader::Gre { key: None, csum: false, seq: false })).expect("GRE");
    assert_eq!((bare.id, bare.csum, bare.checksum, bare.header_len), (None, false, None, 38));
    // Behind two tags.
    let tagged = [&geneve()[..12], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2], &geneve()[12..]].concat();
    let outside = read(TunnelKind::Geneve, &tagged, tagged.len(), 22).expect("Geneve behind tags");
    assert_eq!((outside.header_len, outside.payload_end), (66, 86));
}

#[test]
fn the_udp_length_ends_the_frame() {
    let mut short = with(geneve(), L4 + 4, &[0, 38]);
    short.extend_from_slice(&[0xee; 9]);
    let outside = says(TunnelKind::Geneve, &short).expect("IP's length says more");
    assert_eq!((outside.header_len, outside.payload_end), (58, 72));
}

#[test]
fn only_the_headers_must_be_in_one_piece() {
    for (kind, whole) in [(TunnelKind::Geneve, geneve()), (TunnelKind::Vxlan, vxlan()), (TunnelKind::Gre, gre())] {
        let outside = says(kind, &whole).expect("whole");
        for first in 0..whole.len() {
            let expected = if first < outside.header_len { Err(Malformed::Short) } else { Ok(outside.clone()) };
            assert_eq!(read(kind, &whole[..first], whole.len(), 14), expected, "{kind:?}, {first} bytes");
        }
        for len in 0..whole.len() {
            assert!(read(kind, &whole, len, 14).is_err(), "{kind:?} of {len} bytes");
        }
    }
}

fn v6(extensions: &[u8], first: u8) -> Vec<u8> {
    let ends = Ends::V6 { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::UNSPECIFIED };
    let mut packet = packet(ends, TunnelHeader::Vxlan { vni: 9, dst_port: 4789, csum: true, gbp: None });
    packet.splice(54..54, extensions.iter().copied());
    let payload = u16::try_from(packet.len() - 54).expect("short").to_be_bytes();
    packet[18..20].copy_from_slice(&payload);
    packet[20] = first;
    packet
}

#[test]
fn extension_headers_are_walked() {
    let hop = [DESTINATION, 0, 1, 4, 0, 0, 0, 0];
    let destination = [AUTHENTICATION, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let authentication = [ROUTING, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    let routing = [17, 0, 4, 0, 0, 0, 0, 0];
    let all = [&hop[..], &destination, &authentication, &routing].concat();
    let outside = says(TunnelKind::Vxlan, &v6(&all, HOP_BY_HOP)).expect("VXLAN");
    assert_eq!((outside.header_len, outside.id), (14 + 40 + all.len() + 16, Some(9)));
    let checksum = outside.checksum.expect("IPv6 has one");
    let plain = says(TunnelKind::Vxlan, &v6(&[], 17)).expect("VXLAN").checksum.expect("IPv6 has one");
    assert_eq!((checksum.sum, checksum.start), (plain.sum, plain.start + all.len()), "of UDP alone");

    let fragment = [17, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(says(TunnelKind::Vxlan, &v6(&fragment, FRAGMENT)), Err(Malformed::Fragment));
    let under_way = [17, 0, 4, 1, 0, 0, 0, 0];
    assert_eq!(says(TunnelKind::Vxlan, &v6(&under_way, ROUTING)), Err(Malformed::Options));
    let endless = [HOP_BY_HOP, 255, 0, 0, 0, 0, 0, 0];
    assert_eq!(says(TunnelKind::Vxlan, &v6(&endless, HOP_BY_HOP)), Err(Malformed::Length));
    let mut jumbo = v6(&[], 17);
    jumbo[18..20].fill(0);
    assert_eq!(says(TunnelKind::Vxlan, &jumbo), Err(Malformed::Length));
}

proptest! {
    /// Whatever the bytes are, something is said, and what is said lies in the packet.
    #[test]
    fn any_bytes_are_read(
        start in 0..4_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        noise in proptest::collection::vec(any::<u8>(), 0..120),
        (first, len, l3) in (0..200_usize, 0..200_usize, prop_oneof![4 => Just(14_usize), 1 => 0..200_usize, 1 => Just(usize::MAX)]),
        kind in prop_oneof![Just(TunnelKind::Geneve), Just(TunnelKind::Vxlan), Just(TunnelKind::Gre)],
    ) {
        let mut packet = match start {
            0 => noise,
            1 => geneve(),
            2 => vxlan(),
            _ => gre(),
        };
        for (index, value) in changes {
            if !packet.is_empty() {
                let at = index.index(packet.len());
                packet[at] = value;
            }
        }
        if start > 0 {
            packet = with(packet, 0, &[]);
        }
        let first = first.min(packet.len());
        if let Ok(outside) = read(kind, &packet[..first], len, l3) {
            prop_assert!(outside.header_len <= first && outside.header_len + 14 <= outside.payload_end);
            prop_assert!(outside.payload_end <= len && outside.options.end <= outside.header_len);
            if let Some(checksum) = outside.checksum {
                prop_assert!(checksum.start < checksum.end && checksum.end == outside.payload_end);
            }
        }
    }
}
