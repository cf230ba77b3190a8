//! Neighbour solicitations and advertisements (RFC 4861).

use super::ethernet::write_mac;
use super::packet::L4Header;
use super::{Masked, Packet, SetNd};
use crate::packet::checksum::{self, Sum};
use crate::packet::icmp;

/// Type, code, checksum, reserved word, target.
const MESSAGE_LEN: usize = 24;

/// A link-layer address option: type, length 1 (in units of 8 bytes), address.
const OPTION_LEN: usize = 8;

mod option {
    pub(super) const SOURCE: u8 = 1;
    pub(super) const TARGET: u8 = 2;
}

/// Rewrites a message. The first link-layer address option that there is counts, as in Open
/// vSwitch.
pub(super) fn set_nd(packet: &mut Packet, set: &SetNd) {
    let whole = |l4: &L4Header| l4.protocol == icmp::PROTOCOL_V6 && l4.size >= MESSAGE_LEN;
    let Some(l4) = packet.l4().filter(whole) else { return };
    if let Some(old) = packet.bytes::<16>(l4.at + 8).copied() {
        let new = set.target.apply(u128::from_be_bytes(old)).to_be_bytes();
        write(packet, l4, 8, &old, &new);
    }
    set_option(packet, l4, set);
    if !set.reserved.is_none() || !set.options_type.is_none() {
        set_extension(packet, l4, set);
    }
}

fn set_option(packet: &mut Packet, l4: L4Header, set: &SetNd) {
    let mut at = MESSAGE_LEN;
    // An option has at least 8 bytes: bounded by the packet.
    while at + OPTION_LEN <= l4.size {
        let Some(old) = packet.bytes::<8>(l4.at + at).copied() else { return };
        let mac: &Masked<u64> = match (old[0], old[1]) {
            (_, 0) => return,
            (option::SOURCE, 1) => &set.sll,
            (option::TARGET, 1) => &set.tll,
            (_, units) => {
                at += usize::from(units) * 8;
                continue;
            }
        };
        let mut new = old;
        write_mac(&mut new, 2, mac);
        write(packet, l4, at, &old, &new);
        return;
    }
}

/// Writes bytes at an even offset of the message, and adjusts its checksum.
fn write(packet: &mut Packet, l4: L4Header, at: usize, old: &[u8], new: &[u8]) {
    if old != new {
        packet.adjust(l4.at + 2, old, new);
        let _ = packet.mbuf.write(l4.at + at, new);
    }
}

/// Reserved word, and type of the first option. Open vSwitch makes the checksum anew here, wrong or
/// not; so do we.
fn set_extension(packet: &mut Packet, l4: L4Header, set: &SetNd) {
    if let Some(field) = packet.bytes_mut::<4>(l4.at + 4) {
        *field = set.reserved.apply(u32::from_be_bytes(*field)).to_be_bytes();
    }
    if l4.size > MESSAGE_LEN
        && let Some([kind]) = packet.bytes_mut::<1>(l4.at + MESSAGE_LEN)
    {
        *kind = set.options_type.apply(*kind);
    }
    let (Some(header), Ok(len)) = (packet.l3().and_then(|l3| packet.bytes::<40>(l3)), u32::try_from(l4.size)) else {
        return;
    };
    let (Some(source), Some(destination)) = (header[8..].first_chunk(), header[24..].first_chunk()) else { return };
    let pseudo = checksum::pseudo_v6(source, destination, icmp::PROTOCOL_V6, len);
    let field = l4.at + 2;
    // The sum over the message with the pseudo-header's in the place of the checksum.
    let _ = packet.mbuf.write(field, &Sum::folded(pseudo).to_be_bytes());
    checksum::finish(&mut packet.mbuf, l4.at, field, l4.at + l4.size, false);
}
