//! Packets in tunnels of their sender, built and judged by code that shares nothing with what is
//! tested.

use super::super::offload::{TxCaps, describe, finish, finish_checksum, piece_len};
use super::super::testing::{Spec, cut, cuts, naive_checksum, specs};
use super::super::vnet::VnetHdr;
use super::*;
use crate::observe::{DropReason, Software};
use proptest::prelude::*;
use vswitch_dpdk::{Csum, Mempool};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Vxlan,
    /// With so many words of options.
    Geneve(usize),
    /// An IP packet directly in UDP.
    Fou,
    Gre {
        key: bool,
        ethernet: bool,
    },
    Ip,
}

/// A tunnel to be. `outside` says what the outer IP header looks like.
#[derive(Clone, Debug)]
struct Tunnel {
    way: Way,
    checksum: bool,
    outside: Spec,
}

/// Which checksums are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sums {
    /// As a kernel hands it on for segmentation.
    Partial,
    Whole,
}

impl Tunnel {
    fn plain(way: Way, ipv4: bool, checksum: bool) -> Self {
        Self { way, checksum, outside: Spec::plain(ipv4, L4::Udp, 0) }
    }

    const fn over_udp(&self) -> bool {
        matches!(self.way, Way::Vxlan | Way::Geneve(_) | Way::Fou)
    }

    /// What is in front of the inner frame or IP packet, without the outer UDP header; whether the
    /// frame is whole; the protocol.
    fn header(&self, inner: &Spec) -> (Vec<u8>, bool, u8) {
        let ip = if inner.ipv4 { [8, 0] } else { [0x86, 0xdd] };
        match self.way {
            Way::Vxlan => (vec![8, 0, 0, 0, 0, 0, 5, 0], true, 17),
            Way::Geneve(words) => {
                let mut header = vec![words.to_be_bytes()[7], 0, 0x65, 0x58, 0, 0, 7, 0];
                // An option that looks like an IPv4 header.
                header.extend([0x45, 0, 0, 0].repeat(words));
                (header, true, 17)
            }
            Way::Fou => (vec![], false, 17),
            Way::Gre { key, ethernet } => {
                let flags = if self.checksum { 0x80 } else { 0 } | if key { 0x20 } else { 0 };
                let mut header = vec![flags, 0];
                header.extend(if ethernet { [0x65, 0x58] } else { ip });
                header.extend([0; 4].repeat(usize::from(self.checksum)));
                header.extend([0, 0, 1, 2].repeat(usize::from(key)));
                (header, ethernet, 47)
            }
            Way::Ip => (vec![], false, if inner.ipv4 { 4 } else { 41 }),
        }
    }

    /// The packet that `inner` becomes in the tunnel.
    fn around(&self, inner: &Spec, id: u16, sums: Sums) -> Vec<u8> {
        let (mut content, whole_frame, protocol) = self.header(inner);
        let frame = if sums == Sums::Partial { inner.partial() } else { inner.complete() };
        content.extend_from_slice(&frame[if whole_frame { 0 } else { inner.l2_len() }..]);
        let mut outside = Spec { ipv4_id: id, padding: 0, ..self.outside.clone() };
        if self.over_udp() {
            outside.payload = content;
            let mut bytes = if sums == Sums::Partial { outside.partial() } else { outside.complete() };
            if !self.checksum {
                bytes[outside.checksum_at()..][..2].fill(0);
            }
            return bytes;
        }
        if self.checksum && sums == Sums::Whole && matches!(self.way, Way::Gre { .. }) {
            let sum = naive_checksum(&content);
            content[4..6].copy_from_slice(&sum.to_be_bytes());
        }
        // As if it were UDP; then its first bytes and the protocol become what they are.
        outside.payload = content[8..].to_vec();
        let mut bytes = outside.complete();
        let (l2, l4) = (outside.l2_len(), outside.l4_start());
        bytes[l4..l4 + 8].copy_from_slice(&content[..8]);
        if outside.ipv4 {
            bytes[l2 + 9] = protocol;
            bytes[l2 + 10..l2 + 12].fill(0);
            let sum = naive_checksum(&bytes[l2..l4]);
            bytes[l2 + 10..l2 + 12].copy_from_slice(&sum.to_be_bytes());
        } else {
            let last = outside.extensions.last().map_or(l2 + 6, |(_, units)| l4 - 8 * usize::from(*units));
            bytes[last] = protocol;
        }
        bytes
    }

    /// Where the inner L4 header starts, from the end of a packet with so much payload.
    const fn inner_len(inner: &Spec, payload: usize) -> usize {
        if matches!(inner.l4, L4::Tcp) { 20 + 4 * inner.tcp_options + payload } else { 8 + payload }
    }

    /// What a kernel says of the packet.
    fn described(inner: &Spec, len: usize, gso_size: u16) -> VnetHdr {
        let gso_type = match inner.l4 {
            L4::Udp => VnetHdr::GSO_UDP_L4,
            L4::Tcp if inner.ipv4 => VnetHdr::GSO_TCPV4,
            L4::Tcp => VnetHdr::GSO_TCPV6,
        };
        let start = len - Self::inner_len(inner, inner.payload.len());
        VnetHdr {
            flags: VnetHdr::NEEDS_CSUM,
            gso_type,
            gso_size,
            csum_start: u16::try_from(start).expect("short headers"),
            csum_offset: if inner.l4 == L4::Tcp { 16 } else { 6 },
            hdr_len: 0,
        }
    }
}

/// What segment `index` of an inner packet is.
fn share(inner: &Spec, index: usize, count: usize, gso_size: usize) -> Spec {
    let payload = inner.payload.chunks(gso_size).nth(index).expect("a segment of the payload").to_vec();
    let first = if index == 0 { 0 } else { 0x80 };
    let last = if index + 1 == count { 0 } else { 0x09 };
    Spec {
        payload,
        tcp_flags: inner.tcp_flags & !(first | last),
        tcp_seq: inner.tcp_seq.wrapping_add(u32::try_from(index * gso_size).expect("short")),
        ipv4_id: inner.ipv4_id.wrapping_add(u16::try_from(index).expect("few")),
        ..inner.clone()
    }
}

/// Equal but for which of the two zeros of ones' complement a checksum field at one of `fields`
/// holds.
fn same(got: &[u8], expected: &[u8], fields: &[usize]) -> bool {
    let normal = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        for at in fields {
            if bytes.get(*at..at + 2) == Some(&[0xff, 0xff]) {
                bytes[*at..at + 2].fill(0);
            }
        }
        bytes
    };
    normal(got) == normal(expected)
}

fn ways() -> impl Strategy<Value = Way> {
    prop_oneof![
        Just(Way::Vxlan),
        (0..8_usize).prop_map(Way::Geneve),
        Just(Way::Fou),
        any::<(bool, bool)>().prop_map(|(key, ethernet)| Way::Gre { key, ethernet }),
        Just(Way::Ip),
    ]
}

/// Any tunnel with any packet in it, headers short enough.
fn nested() -> impl Strategy<Value = (Tunnel, Spec)> {
    (ways(), any::<bool>(), specs(0), specs(6000)).prop_map(|(way, checksum, mut outside, mut inner)| {
        outside.l4 = L4::Udp;
        // Options of the destination, as ip6tnl has them, and none that move the address of the
        // pseudo-header.
        outside.extensions.truncate(1);
        outside.extensions.iter_mut().for_each(|extension| *extension = (60, 1));
        inner.extensions.clear();
        outside.ip_options %= 3;
        inner.ip_options %= 4;
        (inner.padding, outside.padding) = (0, 0);
        (Tunnel { way, checksum, outside }, inner)
    })
}

#[test]
fn a_packet_in_a_tunnel_is_cut_as_its_sender_would_have_cut_it() {
    let pool = Mempool::for_tests(2048);
    let sizes = prop_oneof![20..100_u16, 500..1500_u16];
    let all = TxCaps { csum: true, tso4: true, tso6: true, uso: true };
    proptest!(ProptestConfig::with_cases(2000), |(((tunnel, inner), cuts, gso_size, able) in (nested(), cuts(), sizes, any::<bool>()))| {
        let size = usize::from(gso_size);
        prop_assume!(inner.payload.len() > size);
        let id = tunnel.outside.ipv4_id;
        let bytes = tunnel.around(&inner, id, Sums::Partial);
        let mut mbuf = cut(&pool, &bytes, &cuts);
        prop_assert_eq!(Tunnel::described(&inner, bytes.len(), gso_size).accept(&mut mbuf), Ok(()), "{:?}", tunnel);
        prop_assert!(mbuf.to_vec() == bytes, "accepting changed bytes");
        prop_assert_eq!(usize::from(mbuf.inner_len()), Tunnel::inner_len(&inner, inner.payload.len()));
        let partial = tunnel.over_udp() && tunnel.checksum;
        prop_assert_eq!(mbuf.csum(), if partial { Csum::Partial } else { Csum::Good });
        prop_assert_eq!((mbuf.gso_size(), piece_len(&mbuf)), (gso_size, Some(bytes.len() - inner.payload.len() + size)));
        // Nobody is told: the receiver would not know the tunnel.
        prop_assert_eq!(VnetHdr::describe(&mbuf), Err(DropReason::VnetHeader));
        prop_assert!(describe(&mut mbuf.copy(&pool).expect("copy")).is_err());

        let mut sent = Vec::new();
        let done = finish(mbuf, if able { all } else { TxCaps::default() }, &pool, &mut |mbuf| sent.push(mbuf));
        let software = match inner.l4 {
            L4::Udp => Software::Uso,
            L4::Tcp if inner.ipv4 => Software::Tso4,
            L4::Tcp => Software::Tso6,
        };
        prop_assert_eq!(done, Ok(Some(software)));
        let count = inner.payload.len().div_ceil(size);
        prop_assert_eq!(sent.len(), count);
        for (i, mbuf) in sent.into_iter().enumerate() {
            let part = share(&inner, i, count, size);
            let expected = tunnel.around(&part, id.wrapping_add(u16::try_from(i).expect("few")), Sums::Whole);
            let got = mbuf.to_vec();
            let inner_field = got.len() - Tunnel::inner_len(&part, part.payload.len()) + if part.l4 == L4::Tcp { 16 } else { 6 };
            let fields = [inner_field, tunnel.outside.l4_start() + if tunnel.over_udp() { 6 } else { 4 }];
            prop_assert!(same(&got, &expected, &fields), "{:?} {i} of {count}:\n{got:02x?}\nnot\n{expected:02x?}", tunnel);
            prop_assert_eq!((mbuf.csum(), mbuf.gso_size(), mbuf.inner_len()), (Csum::Good, 0, 0));
        }
    });
    assert_eq!(pool.in_use(), 0, "segments leaked");
}

#[test]
fn a_long_packet_is_finished_in_one_piece_for_who_only_looks_at_it() {
    let pool = Mempool::for_tests(64);
    for (way, checksum) in [(Way::Vxlan, true), (Way::Vxlan, false), (Way::Ip, false)] {
        let (tunnel, inner) = (Tunnel::plain(way, false, checksum), Spec::plain(true, L4::Tcp, 5000));
        let bytes = tunnel.around(&inner, 1, Sums::Partial);
        let mut mbuf = cut(&pool, &bytes, &[100, 1000]);
        Tunnel::described(&inner, bytes.len(), 1000).accept(&mut mbuf).expect("accepted");
        finish_checksum(&mut mbuf).expect("finished");
        assert_eq!(mbuf.to_vec(), tunnel.around(&inner, 1, Sums::Whole), "{way:?}, {checksum}");
        assert_eq!((mbuf.gso_size(), mbuf.inner_len(), mbuf.needs_offload()), (0, 0, false));
    }
}

/// Changes one thing of a packet, or of what is said of it.
type Change = fn(&mut Vec<u8>, &mut VnetHdr);

#[test]
fn what_the_bytes_contradict_and_what_nobody_can_cut_is_refused() {
    // Places: 14 outer IP, 34 UDP or GRE, 42 VXLAN, 50 inner Ethernet, 64 inner IP, 84 inner TCP;
    // in IP 34 inner IP.
    let cases: [(&str, Way, Change); 19] = [
        ("an inner total length of one less", Way::Vxlan, |b, _| b[67] = b[67].wrapping_sub(1)),
        ("an inner address that is not summed", Way::Vxlan, |b, _| b[80] ^= 1),
        ("an inner version 5", Way::Vxlan, |b, _| b[64] = 0x55),
        ("an inner fragment", Way::Vxlan, |b, _| b[70] = 0x20),
        ("an inner protocol that is not TCP", Way::Vxlan, |b, _| b[73] = 132),
        ("an inner checksum that is whole", Way::Vxlan, |b, _| b[100] ^= 0x40),
        ("an outer UDP checksum that is neither partial nor 0", Way::Vxlan, |b, _| b[40] ^= 0x40),
        ("an outer UDP length of one less", Way::Vxlan, |b, _| b[39] = b[39].wrapping_sub(1)),
        ("an outer fragment", Way::Vxlan, |b, _| b[20] = 0x20),
        ("padding", Way::Vxlan, |b, _| b.push(0)),
        ("UDP said of TCP", Way::Vxlan, |_, h| h.gso_type = VnetHdr::GSO_UDP_L4),
        ("IPv6 said of IPv4", Way::Vxlan, |_, h| h.gso_type = VnetHdr::GSO_TCPV6),
        ("the checksum of UDP", Way::Vxlan, |_, h| h.csum_offset = 6),
        ("a start in between", Way::Vxlan, |_, h| h.csum_start -= 1),
        ("segments of nothing", Way::Vxlan, |_, h| h.gso_size = 0),
        ("sequence numbers", Way::Gre { key: true, ethernet: true }, |b, _| b[34] |= 0x10),
        ("PPTP's GRE", Way::Gre { key: true, ethernet: true }, |b, _| b[35] |= 1),
        ("ERSPAN", Way::Gre { key: false, ethernet: true }, |b, _| (b[36], b[37]) = (0x88, 0xbe)),
        ("ESP", Way::Ip, |b, _| b[23] = 50),
    ];
    let pool = Mempool::for_tests(64);
    for (name, way, change) in cases {
        let (tunnel, inner) = (Tunnel::plain(way, true, matches!(way, Way::Vxlan)), Spec::plain(true, L4::Tcp, 5000));
        let mut bytes = tunnel.around(&inner, 1, Sums::Partial);
        let mut header = Tunnel::described(&inner, bytes.len(), 1000);
        let mut mbuf = cut(&pool, &bytes, &[]);
        assert_eq!(header.accept(&mut mbuf), Ok(()), "{name}: before it");
        change(&mut bytes, &mut header);
        let mut mbuf = cut(&pool, &bytes, &[]);
        assert_eq!(header.accept(&mut mbuf), Err(DropReason::VnetHeader), "{name}");
    }
}

/// Whatever is wrong with the bytes or with what is said of them: it is refused, or cut, and each
/// piece carries its share.
#[test]
fn damaged_packets_in_tunnels_are_survived() {
    let pool = Mempool::for_tests(4096);
    let damage = proptest::collection::vec((0..220_usize, any::<u8>()), 0..4);
    let shift = prop_oneof![4 => Just(0_i16), 1 => -30..30_i16];
    proptest!(ProptestConfig::with_cases(4000), |(((tunnel, inner), cuts, damage, shift, size) in (nested(), cuts(), damage, shift, 50..2000_u16))| {
        let mut bytes = tunnel.around(&inner, 7, Sums::Partial);
        let mut header = Tunnel::described(&inner, bytes.len(), size);
        header.csum_start = header.csum_start.saturating_add_signed(shift);
        for (at, value) in damage {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        let mut mbuf = cut(&pool, &bytes, &cuts);
        if header.accept(&mut mbuf).is_ok() {
            prop_assert_eq!(mbuf.len(), bytes.len());
            let longest = if mbuf.gso_size() == 0 { bytes.len() } else { piece_len(&mbuf).expect("headers") };
            let nested = mbuf.inner_len() != 0;
            let mut sent = 0;
            let done = finish(mbuf, TxCaps::default(), &pool, &mut |piece| {
                assert!(piece.len() <= longest && !piece.needs_offload());
                sent += 1;
            });
            prop_assert!(done.is_ok() && sent > 0 || !nested, "{:?} after {}", done, sent);
        }
    });
    assert_eq!(pool.in_use(), 0, "segments leaked");
}
