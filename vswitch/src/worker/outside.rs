//! What a packet's way through a tunnel is in words: of what is outside in keys, and of what is inside in the outer source port.

use crate::action::DecapOp;
use crate::cache::{Outer, folded};
use crate::pipeline::PortFacts;
use crate::tunnel::OPTION_FIELDS;
use std::net::Ipv6Addr;
use vswitch_flow::extract::Layers;
use vswitch_flow::{Field, FlowKey};
use vswitch_tunnel::options::Values;
use vswitch_tunnel::{Ends, Outside};

/// All that the outer headers say that rules can match, if it is no more than that, and where they were read.
#[inline]
pub(super) fn outer_words(op: DecapOp, dst_port: u16, outside: &Outside) -> Option<Outer> {
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
    let place = u64::from(op.home.0) << 32 | six << 24 | (op.kind as u64) << 16 | u64::from(dst_port);
    Some([a, b, c, d, said, place])
}

/// A key that says what the outer headers said.
pub(super) fn tunnel_key(facts: &PortFacts, outside: &Outside, values: &Values) -> FlowKey {
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
pub(super) fn flow_hash(head: &[u8], layers: Layers) -> u32 {
    let l3 = usize::from(layers.l3);
    let word =
        |at: usize| head.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let byte = |at: usize| head.get(at).copied().unwrap_or(0);
    let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
    let mut mix = |word: u64| hash = folded(hash ^ word, 0xd6e8_feb8_6659_fd93);
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
    mix(ports << 8 | u64::from(protocol));
    #[allow(clippy::cast_possible_truncation)] // both halves count
    let folded = (hash >> 32) as u32 ^ hash as u32;
    folded
}
