//! What a packet's way through a tunnel is in words: of what is outside in keys, and of what is
//! inside in the outer source port.

use crate::action::DecapOp;
use crate::cache::{Outer, folded};
use crate::packet::checksum::Sum;
use crate::pipeline::PortFacts;
use crate::tunnel::OPTION_FIELDS;
use std::net::Ipv6Addr;
use vswitch_dpdk::Csum;
use vswitch_flow::extract::Layers;
use vswitch_flow::{Field, FlowKey};
use vswitch_overlay::options::Values;
use vswitch_overlay::{Ends, Outside, TunnelKind};

/// Protocol numbers.
const UDP: u64 = 17;
const GRE: u64 = 47;

/// All that the outer headers say that rules can match, if it is no more than that, and where they
/// were read.
#[inline]
pub(in crate::worker) fn outer_words(op: DecapOp, dst_port: u16, outside: &Outside) -> Option<Outer> {
    if !outside.options.is_empty() || outside.gbp.is_some() || outside.oam {
        return None;
    }
    let [a, b, c, d] = match outside.ends {
        Ends::V4 { src, dst } => [u64::from(src.to_bits()) << 32 | u64::from(dst.to_bits()), 0, 0, 0],
        Ends::V6 { src, dst } => {
            #[allow(clippy::cast_possible_truncation)] // halves
            let halves = |address: Ipv6Addr| [(address.to_bits() >> 64) as u64, address.to_bits() as u64];
            let ([a, b], [c, d]) = (halves(src), halves(dst));
            [a, b, c, d]
        }
    };
    let six = u64::from(matches!(outside.ends, Ends::V6 { .. }));
    let id = outside.id.map_or(0, |id| u64::from(id) << 1 | 1);
    let said = id << 16 | u64::from(outside.tos) << 8 | u64::from(outside.ttl);
    let place = u64::from(op.vtep.0) << 32 | six << 24 | (op.kind as u64) << 16 | u64::from(dst_port);
    Some([a, b, c, d, said, place])
}

/// [`outer_words`] of the packets that most are, without reading anything twice: IPv4 without a UDP
/// or GRE checksum, or IPv6, nothing but a number in the tunnel's header, and nothing behind the
/// inner frame. And where that begins. `head`: the packet's first bytes, `len`: of all of it,
/// `csum`: what its device says of its checksum. None: it may be one of a tunnel all the same, for
/// [`vswitch_overlay::read`] to say.
#[inline(always)] // what it returns is taken apart at once
pub(in crate::worker) fn plain_words(
    op: DecapOp,
    head: &[u8],
    len: usize,
    csum: impl FnOnce() -> Csum,
) -> Option<(Outer, usize)> {
    const IPV4: u64 = 0x0008_0045;
    let bytes: &[u8; 64] = head.first_chunk()?;
    let word = |at: usize| u64::from(u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
    // Ethernet type, version and length; TOS.
    let first = word(12);
    let (second, third, ends) = (word(16), word(20), word(26) << 32 | word(30));
    if first >> 16 == 0x86dd {
        return plain_words6(op, head, len, csum());
    }
    if first >> 8 != IPV4 || second >> 16 != len as u64 - 14 || third >> 16 & 0x3fff != 0 {
        return None;
    }
    let tos = first & 0xff;
    // The header checksum: the bytes 14 to 33, 32 bits at a time.
    let sum = (0x4500 | tos) << 16 | second >> 16;
    let sum = sum + ((second & 0xffff) << 16 | third >> 16) + ((third & 0xffff) << 16 | word(24) >> 16);
    let sum = sum + (ends >> 32) + (ends & 0xffff_ffff);
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    if (sum & 0xffff) + (sum >> 16) != 0xffff {
        return None;
    }
    let (ttl, protocol) = (third >> 8 & 0xff, third & 0xff);
    let (id, dst_port, header) = match op.kind {
        TunnelKind::Geneve | TunnelKind::Vxlan => {
            // Geneve: no options, no flags, Ethernet. VXLAN: its one flag, nothing reserved.
            let wanted = if op.kind == TunnelKind::Geneve { 0x6558 } else { 0x0800_0000 };
            let whole = word(38) == (len as u64 - 34) << 16 && word(42) == wanted;
            let number = word(46);
            if protocol != UDP || !whole || op.kind == TunnelKind::Vxlan && number & 0xff != 0 {
                return None;
            }
            ((number >> 8) << 1 | 1, word(34) & 0xffff, 50)
        }
        TunnelKind::Gre if protocol == GRE => match word(34) {
            0x6558 => (0, 0, 38),
            0x2000_6558 => (word(38) << 1 | 1, 0, 42),
            _ => return None,
        },
        TunnelKind::Gre => return None,
    };
    let place = u64::from(op.vtep.0) << 32 | (op.kind as u64) << 16 | dst_port;
    Some(([ends, 0, 0, 0, id << 16 | tos << 8 | ttl, place], header))
}

/// [`plain_words`] of IPv6: nothing between its header and that of UDP or GRE. A UDP checksum, if
/// there is one, is right.
#[inline(never)] // not in the loop over packets of IPv4
fn plain_words6(op: DecapOp, head: &[u8], len: usize, csum: Csum) -> Option<(Outer, usize)> {
    /// Where UDP or GRE begins.
    const L4: usize = 14 + 40;
    // The longest header, and the Ethernet header of what is inside.
    let bytes: &[u8; L4 + 16 + 14] = head.first_chunk()?;
    let word = |at: usize| u64::from(u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
    let double = |at: usize| word(at) << 32 | word(at + 4);
    let (first, second) = (word(14), word(18));
    // An unfinished checksum is for the slow path, where what is known of it stays.
    if first >> 28 != 6 || second >> 16 != len as u64 - L4 as u64 || csum == Csum::Partial {
        return None;
    }
    let (tos, protocol, ttl) = (first >> 20 & 0xff, second >> 8 & 0xff, second & 0xff);
    let (id, dst_port, header) = match op.kind {
        TunnelKind::Geneve | TunnelKind::Vxlan => {
            let wanted = if op.kind == TunnelKind::Geneve { 0x6558 } else { 0x0800_0000 };
            let (length, sum) = (bytes[L4 + 4..].first_chunk()?, word(L4 + 4) & 0xffff);
            let whole = word(L4 + 4) >> 16 == len as u64 - L4 as u64 && word(L4 + 8) == wanted;
            let number = word(L4 + 12);
            if protocol != UDP || !whole || op.kind == TunnelKind::Vxlan && number & 0xff != 0 {
                return None;
            }
            let right = || {
                let pseudo =
                    Sum::of_words::<32>(bytes[22..].first_chunk()?).two_words([17, u16::from_be_bytes(*length)]);
                Some(pseudo.bytes(head.get(L4..len)?).is_right())
            };
            if sum != 0 && csum != Csum::Good && right() != Some(true) {
                return None;
            }
            ((number >> 8) << 1 | 1, word(L4) & 0xffff, L4 + 16)
        }
        TunnelKind::Gre if protocol == GRE => match word(L4) {
            0x6558 => (0, 0, L4 + 4),
            0x2000_6558 => (word(L4 + 4) << 1 | 1, 0, L4 + 8),
            _ => return None,
        },
        TunnelKind::Gre => return None,
    };
    let place = u64::from(op.vtep.0) << 32 | 1 << 24 | (op.kind as u64) << 16 | dst_port;
    let said = id << 16 | tos << 8 | ttl;
    Some(([double(22), double(30), double(38), double(46), said, place], header))
}

/// A key that says what the outer headers said.
pub(in crate::worker) fn tunnel_key(facts: &PortFacts, outside: &Outside, values: &Values) -> FlowKey {
    let mut key = FlowKey::default();
    write_tunnel(&mut key, facts, outside, values);
    key
}

/// Says in a key what the outer headers said.
fn write_tunnel(key: &mut FlowKey, facts: &PortFacts, outside: &Outside, values: &Values) {
    key.set(Field::InPort, facts.number.into());
    key.set(Field::TunId, outside.id.unwrap_or(0).into());
    match outside.ends {
        Ends::V4 { src, dst } => {
            key.set(Field::TunSrc, src.to_bits().into());
            key.set(Field::TunDst, dst.to_bits().into());
        }
        Ends::V6 { src, dst } => {
            key.set(Field::TunIpv6Src, src.to_bits());
            key.set(Field::TunIpv6Dst, dst.to_bits());
        }
    }
    key.set(Field::TunTos, outside.tos.into());
    key.set(Field::TunTtl, outside.ttl.into());
    key.set(Field::TunFlags, outside.oam.into());
    let (flags, id) = outside.gbp.unwrap_or_default();
    key.set(Field::TunGbpFlags, flags.into());
    key.set(Field::TunGbpId, id.into());
    key.set_tunnel_options(values.present);
    OPTION_FIELDS.into_iter().zip(values.values).for_each(|(field, value)| key.set(field, value));
}

/// The same for all packets of a flow: addresses, protocol, and ports, unless it is a fragment.
#[inline]
pub(in crate::worker) fn flow_hash(head: &[u8], layers: Layers) -> u32 {
    // What most packets are, without looking where everything is.
    if let (Some(bytes), 14, 34) = (head.first_chunk::<42>(), layers.l3, layers.l4)
        && bytes[12..14] == [8, 0]
    {
        let word = |at: usize| u64::from(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
        let (protocol, whole) = (bytes[23], bytes[20] & 0x3f == 0 && bytes[21] == 0);
        let ports = if whole && matches!(protocol, 6 | 17 | 132) { word(34) } else { 0 };
        return finish_hash(folded(HASH_START ^ (word(30) << 32 | word(26)), HASH_STEP), ports, protocol);
    }
    flow_hash_of_any(head, layers)
}

const HASH_START: u64 = 0x9e37_79b9_7f4a_7c15;
const HASH_STEP: u64 = 0xd6e8_feb8_6659_fd93;

/// What is left of a hash when the addresses are in it.
#[inline]
fn finish_hash(hash: u64, ports: u64, protocol: u8) -> u32 {
    let hash = folded(hash ^ (ports << 8 | u64::from(protocol)), HASH_STEP);
    #[allow(clippy::cast_possible_truncation)] // both halves count
    let folded = (hash >> 32) as u32 ^ hash as u32;
    folded
}

#[inline(never)]
fn flow_hash_of_any(head: &[u8], layers: Layers) -> u32 {
    let l3 = usize::from(layers.l3);
    let word =
        |at: usize| head.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let byte = |at: usize| head.get(at).copied().unwrap_or(0);
    let mut hash = HASH_START;
    let mut mix = |word: u64| hash = folded(hash ^ word, HASH_STEP);
    let (protocol, whole) = match [byte(l3.wrapping_sub(2)), byte(l3.wrapping_sub(1))] {
        [8, 0] => {
            mix(word(l3 + 12));
            // Neither "more fragments" nor an offset.
            (byte(l3 + 9), byte(l3 + 6) & 0x3f == 0 && byte(l3 + 7) == 0)
        }
        [0x86, 0xdd] => {
            (0..4).for_each(|i| mix(word(l3 + 8 + 8 * i)));
            (byte(l3 + 6), true)
        }
        other => {
            mix(word(0));
            mix(word(8) & 0xffff_ffff);
            (other[1], false)
        }
    };
    let ports = if whole && matches!(protocol, 6 | 17 | 132) && layers.l4 != u16::MAX {
        word(usize::from(layers.l4)) & 0xffff_ffff
    } else {
        0
    };
    finish_hash(hash, ports, protocol)
}

#[cfg(test)]
mod plain_tests {
    use super::*;
    use crate::packet::testing::sum_udp6;
    use crate::port::PortId;
    use crate::worker::tunnel::encap::read_outside;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;
    use vswitch_dpdk::Mempool;
    use vswitch_overlay::{Header, Outer as Headers, TunnelHeader};

    const V4: Ends = Ends::V4 { src: Ipv4Addr::new(10, 1, 2, 3), dst: Ipv4Addr::new(10, 99, 0, 7) };
    const V6: Ends = Ends::V6 {
        src: Ipv6Addr::new(0xfd01, 2, 3, 4, 5, 6, 7, 8),
        dst: Ipv6Addr::new(0xfd02, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf, 9),
    };

    fn packet((kind, ends): (TunnelKind, Ends), id: u32, (tos, ttl): (u8, u8), inner: usize) -> Vec<u8> {
        let body = match kind {
            TunnelKind::Geneve => {
                TunnelHeader::Geneve { vni: id, dst_port: 6081, csum: false, oam: false, options: Vec::new() }
            }
            TunnelKind::Vxlan => TunnelHeader::Vxlan { vni: id, dst_port: 4789, csum: false, gbp: None },
            TunnelKind::Gre => TunnelHeader::Gre { key: id.is_multiple_of(2).then_some(id), csum: false, seq: false },
        };
        let header = Header::new(&Headers { eth_src: [2; 6], eth_dst: [4; 6], ends, tos, ttl, df: true, body });
        let header = header.expect("a header");
        let mut packet = vec![0x5a; header.len() + inner];
        let front = packet.get_mut(..header.len()).expect("room");
        assert!(header.write(front, inner, 77, 0));
        settle(&mut packet);
        packet
    }

    /// Makes checksums right: of an IPv4 header, of UDP over IPv6.
    fn settle(packet: &mut [u8]) {
        if packet[12..14] == [8, 0] {
            packet[24..26].fill(0);
            let sum = Sum::of(&packet[14..34]).checksum();
            packet[24..26].copy_from_slice(&sum.to_be_bytes());
        } else if packet[20] == 17 {
            sum_udp6(packet);
        }
    }

    /// A tag changes where everything is, and no flow.
    #[test]
    fn a_flow_has_one_hash_with_and_without_a_tag() {
        let protocols = prop_oneof![Just(6_u8), Just(17), Just(1), any::<u8>()];
        proptest!(|(rest in prop::array::uniform28(any::<u8>()), protocol in protocols, fragment: bool)| {
            let mut ip = rest;
            (ip[0], ip[9]) = (0x45, protocol);
            if !fragment {
                ip[6..8].fill(0);
            }
            let plain = [&[2; 12][..], &[8, 0], &ip].concat();
            let tagged = [&[4; 12][..], &[0x81, 0, 0, 7, 8, 0], &ip].concat();
            let layers = |l3: u16| Layers { l3, l4: l3 + 20, l3_end: l3 + 28 };
            prop_assert_eq!(flow_hash(&plain, layers(14)), flow_hash(&tagged, layers(18)), "{:02x?}", ip);
        });
    }

    /// What is read at once is what is read step by step, whatever a packet says; and what most
    /// packets say is read at once.
    #[test]
    fn what_is_read_at_once_is_what_it_says() {
        let pool = Mempool::for_tests(8);
        let kinds = prop_oneof![Just(TunnelKind::Geneve), Just(TunnelKind::Vxlan), Just(TunnelKind::Gre)];
        let changes = prop::collection::vec((12_usize..84, any::<u8>(), any::<bool>()), 0..3);
        let csums = prop_oneof![4 => Just(Csum::Unknown), 1 => Just(Csum::Good), 1 => Just(Csum::Bad), 1 => Just(Csum::Partial)];
        let ends = prop_oneof![Just(V4), Just(V6)];
        proptest!(|(kind in kinds, ends in ends, id: u32, outside: (u8, u8), inner in 26_usize..200, changes in changes, cut in 0_usize..4, csum in csums)| {
            let mut bytes = packet((kind, ends), id, outside, inner);
            for (at, byte, fix) in &changes {
                // The shortest packets of GRE end before.
                let Some(place) = bytes.get_mut(*at) else { continue };
                *place = *byte;
                if *fix {
                    settle(&mut bytes);
                }
            }
            bytes.truncate(bytes.len() - cut);
            let op = DecapOp { vtep: PortId(3), kind, max: None };
            let mut mbuf = pool.mbuf_from(&bytes).expect("an mbuf");
            mbuf.set_csum(csum);
            let at_once = plain_words(op, mbuf.head(), mbuf.len(), || csum);
            if changes.is_empty() && cut == 0 {
                let for_the_slow_path = ends == V6 && csum == Csum::Partial;
                prop_assert_eq!(at_once.is_none(), for_the_slow_path, "{:?} {}, {:?}: {:02x?}", kind, id, csum, bytes);
            }
            if let Some((words, header)) = at_once {
                let (outside, dst_port) = read_outside(kind, &mbuf).expect("good");
                prop_assert_eq!(outer_words(op, dst_port, &outside), Some(words), "{:02x?}", bytes);
                let (begins, ends) = (outside.header_len, outside.payload_end);
                prop_assert_eq!((begins, ends), (header, bytes.len()), "{:02x?}", bytes);
                let may_have_sum = matches!(outside.ends, Ends::V6 { .. });
                prop_assert!(may_have_sum || outside.checksum.is_none(), "{:02x?}", bytes);
            }
        });
        assert_eq!(pool.in_use(), 0);
    }

    /// What is taken for a packet of the last one's tunnel by its bytes says what that one says.
    #[test]
    fn what_is_like_a_packet_is_read_like_it() {
        use crate::cache::OuterTemplate;
        let kinds = prop_oneof![Just(TunnelKind::Geneve), Just(TunnelKind::Vxlan), Just(TunnelKind::Gre)];
        let changes = prop::collection::vec((0_usize..64, any::<u8>()), 0..3);
        proptest!(|(kind in kinds, id: u32, outside: (u8, u8), inner in [26_usize..200, 26..200], changes in changes)| {
            let first = packet((kind, V4), id, outside, inner[0]);
            let mut next = packet((kind, V4), id, outside, inner[1]);
            let op = DecapOp { vtep: PortId(3), kind, max: None };
            let (words, header) = plain_words(op, &first, first.len(), || Csum::Unknown).expect("plain");
            let alike = OuterTemplate::of(&first, header);
            prop_assert_eq!(alike.is_some(), kind != TunnelKind::Gre, "{:?}", kind);
            let alike = alike.filter(|alike| alike.fits(&next, next.len()));
            prop_assert_eq!(alike.is_some(), kind != TunnelKind::Gre, "{:02x?}, then {:02x?}", first, next);
            for (at, byte) in &changes {
                next[*at] = *byte;
            }
            if alike.is_some_and(|alike| alike.fits(&next, next.len())) {
                prop_assert_eq!(plain_words(op, &next, next.len(), || Csum::Unknown), Some((words, header)), "{:02x?}, then {:02x?}", first, next);
                prop_assert_eq!(&next[..12], &first[..12], "MAC addresses");
            }
        });
    }
}
