//! Packets that show whether a decision that looks at fewer bits than Open vSwitch's is right for
//! all of its packets.
//!
//! Behind a packet comes another one that differs in one bit: one that Open vSwitch looked at, and
//! ours did not. Our switch answers it from its caches, if the other decisions on its way do not
//! look at that bit; Open vSwitch decides anew. Both must do the same.

use super::Decision;
use crate::scenario::Step;
use std::collections::BTreeSet;
use std::ops::Range;
use vswitch_flow::extract::extract;
use vswitch_flow::{Field, FlowKey};

/// Number of a packet's step, a decision of ours about it, and bits that only Open vSwitch looks
/// at.
pub(super) type Wider = (usize, Decision, Field, u128);

/// IP protocols that have ports and a checksum that is a sum.
const TCP: u128 = 6;
const UDP: u128 = 17;
const ICMP: u128 = 1;
const ICMPV6: u128 = 58;

/// The scenario with such packets in it, and how many there are. One for each field of each
/// decision.
pub(super) fn with(steps: &[Step], wider: &[Wider]) -> (Vec<Step>, usize) {
    let mut tried = BTreeSet::new();
    let (mut all, mut flipped) = (Vec::new(), 0);
    for (i, step) in steps.iter().enumerate() {
        all.push(step.clone());
        let Step::Packet { port, bytes, .. } = step else { continue };
        for (_, decision, field, bits) in wider.iter().filter(|(at, ..)| *at == i) {
            if tried.contains(&(&decision.text, field.name())) {
                continue;
            }
            if let Some(packet) = flip(bytes, *field, *bits) {
                tried.insert((&decision.text, field.name()));
                all.push(Step::packet(*port, packet));
                flipped += 1;
            }
        }
    }
    (all, flipped)
}

/// The packet with the lowest of some bits of a field flipped, its checksums as right or wrong as
/// before. None: it has no such field, or would be a packet of another kind.
fn flip(packet: &[u8], field: Field, bits: u128) -> Option<Vec<u8>> {
    let mut key = FlowKey::default();
    let layers = extract(packet, packet.len(), &mut key);
    let place = place(&key, (layers.l3.into(), layers.l4.into()), field)?;
    let bit = bits.trailing_zeros();
    let at = place.bytes.end.checked_sub(1 + bit as usize / 8).filter(|at| place.bytes.contains(at))?;
    let mut flipped = packet.to_vec();
    *flipped.get_mut(at)? ^= 1 << (bit % 8);
    // Words of a sum begin at even offsets of its header.
    let even = place.sums_from + (at - place.sums_from) / 2 * 2;
    let word = |packet: &[u8], at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    let (old, new) = (word(packet, even)?, word(&flipped, even)?);
    for sum in place.sums {
        let before = word(&flipped, sum)?;
        // A UDP checksum of 0 is none.
        if before != 0 {
            flipped[sum..sum + 2].copy_from_slice(&replaced(before, old, new).to_be_bytes());
        }
    }
    Some(flipped)
}

/// A checksum when a word of what it sums changes (RFC 1624).
fn replaced(sum: u16, old: u16, new: u16) -> u16 {
    let total = u32::from(!sum) + u32::from(!old) + u32::from(new);
    let folded = (total & 0xffff) + (total >> 16);
    #[allow(clippy::cast_possible_truncation)] // folded twice
    let folded = ((folded & 0xffff) + (folded >> 16)) as u16;
    !folded
}

/// Where a field is in a packet.
struct Place {
    bytes: Range<usize>,
    /// Where the checksums are that cover it.
    sums: Vec<usize>,
    /// Where their words are counted from.
    sums_from: usize,
}

/// Of a packet whose L3 and L4 headers begin there.
fn place(key: &FlowKey, (l3, l4): (usize, usize), field: Field) -> Option<Place> {
    let is = |eth_type: u128| key.get(Field::EthType) == eth_type;
    let (v4, v6, arp) = (is(0x0800), is(0x86dd), is(0x0806) || is(0x8035));
    let (proto, whole) = (key.get(Field::NwProto), key.get(Field::NwFrag) == 0 && l4 != usize::from(u16::MAX));
    let l4_sum = match proto {
        TCP if whole => Some(l4 + 16),
        UDP if whole => Some(l4 + 6),
        ICMP | ICMPV6 if whole => Some(l4 + 2),
        _ => None,
    };
    // ICMP's sum is of no addresses.
    let sum_of_addresses = l4_sum.filter(|_| proto != ICMP);
    let plain = |bytes| Some(Place { bytes, sums: Vec::new(), sums_from: 0 });
    let of_ip = |bytes: Range<usize>, l4: Option<usize>| {
        let sums = v4.then_some(l3 + 10).into_iter().chain(l4).collect();
        Some(Place { bytes, sums, sums_from: l3 })
    };
    let of_l4 = |bytes| Some(Place { bytes, sums: vec![l4_sum?], sums_from: l4 });
    let nd = v6 && proto == ICMPV6 && key.get(Field::TpDst) == 0 && matches!(key.get(Field::TpSrc), 135 | 136);
    match field {
        Field::EthDst => plain(0..6),
        Field::EthSrc => plain(6..12),
        Field::NwSrc if v4 => of_ip(l3 + 12..l3 + 16, sum_of_addresses),
        Field::NwDst if v4 => of_ip(l3 + 16..l3 + 20, sum_of_addresses),
        Field::NwTos if v4 => of_ip(l3 + 1..l3 + 2, None),
        Field::NwTtl if v4 => of_ip(l3 + 8..l3 + 9, None),
        Field::NwTtl if v6 => plain(l3 + 7..l3 + 8),
        Field::Ipv6Src if v6 => of_ip(l3 + 8..l3 + 24, sum_of_addresses),
        Field::Ipv6Dst if v6 => of_ip(l3 + 24..l3 + 40, sum_of_addresses),
        Field::Ipv6Label if v6 => plain(l3..l3 + 4),
        Field::NwSrc if arp => plain(l3 + 14..l3 + 18),
        Field::NwDst if arp => plain(l3 + 24..l3 + 28),
        Field::TpSrc if matches!(proto, TCP | UDP) => of_l4(l4..l4 + 2),
        Field::TpDst if matches!(proto, TCP | UDP) => of_l4(l4 + 2..l4 + 4),
        // Flags of which connections know nothing: those of a congestion window.
        Field::TcpFlags => of_l4(l4 + 12..l4 + 14),
        Field::NdTarget if nd => of_l4(l4 + 8..l4 + 24),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Names, parse};

    /// A flipped bit makes the packet that is described with another value, checksums included.
    #[test]
    fn a_flipped_packet_is_whole() {
        for (from, field, bits, to) in [
            ("udp src=10.0.0.1", Field::NwSrc, 0x3, "udp src=10.0.0.0"),
            ("tcp dst=10.0.0.2", Field::NwDst, 0x100, "tcp dst=10.0.1.2"),
            ("udp ttl=64", Field::NwTtl, 0xff, "udp ttl=65"),
            ("tcp tos=0", Field::NwTos, 0xfc, "tcp tos=4"),
            ("tcp6 dst=fd00::2", Field::Ipv6Dst, 1 << 64, "tcp6 dst=fd00:0:0:1::2"),
            ("udp6 sport=1000", Field::TpSrc, 0xffff, "udp6 sport=1001"),
            ("tcp dport=80", Field::TpDst, 0xff00, "tcp dport=336"),
            ("icmp src=10.0.0.1", Field::NwSrc, 0x2, "icmp src=10.0.0.3"),
            ("ns target=fd00::2", Field::NdTarget, 0x1, "ns target=fd00::3"),
            ("udp smac=02:00:00:00:00:01", Field::EthSrc, 0xff00, "udp smac=02:00:00:00:01:01"),
        ] {
            let bytes = |text: &str| parse(text, &Names::new()).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(flip(&bytes(from), field, bits), Some(bytes(to)), "{from}, {field:?}");
        }
    }
}
