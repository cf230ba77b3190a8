//! Ethernet addresses and VLAN tags.

use super::{Masked, Packet, SetEth};
use crate::observe::DropReason;
use crate::packet::ethertype;

/// The bit of a TCI that Open vSwitch uses for "there is a tag" and therefore never writes (DEI).
const DEI: u16 = 1 << 12;

/// Rewrites the addresses.
pub(super) fn set_eth(packet: &mut Packet, set: &SetEth) {
    let Some(header) = packet.bytes_mut::<12>(0) else { return };
    write_mac(header, 0, &set.dst);
    write_mac(header, 6, &set.src);
}

/// Writes bits of the address at `at`.
pub(super) fn write_mac(header: &mut [u8], at: usize, mac: &Masked<u64>) {
    if mac.is_none() {
        return;
    }
    let Some(field) = header.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<6>()) else { return };
    let mut word = [0; 8];
    word[2..].copy_from_slice(field);
    field.copy_from_slice(&mac.apply(u64::from_be_bytes(word)).to_be_bytes()[2..]);
}

/// Pushes a tag. The DEI bit is written as 0, as Open vSwitch does.
///
/// # Errors
/// [`DropReason::Headroom`] when there is no room in front of the packet.
pub(super) fn push_vlan(packet: &mut Packet, tpid: u16, tci: u16) -> Result<(), DropReason> {
    if packet.mbuf.head().len() < 14 {
        return Ok(());
    }
    packet.mbuf.prepend(4).ok_or(DropReason::Headroom)?;
    let head = packet.mbuf.head_mut();
    head.copy_within(4..16, 0);
    head[12..14].copy_from_slice(&tpid.to_be_bytes());
    head[14..16].copy_from_slice(&(tci & !DEI).to_be_bytes());
    packet.shift_layers(4);
    Ok(())
}

/// Removes the outer tag, if there is one.
pub(super) fn pop_vlan(packet: &mut Packet) {
    if outer_tag(packet) {
        let head = packet.mbuf.head_mut();
        head.copy_within(0..12, 4);
        packet.mbuf.trim_front(4);
        packet.shift_layers(-4);
    }
}

/// Rewrites bits of the outer tag, if there is one. The DEI bit becomes 0: Open vSwitch pops and
/// pushes.
pub(super) fn set_vlan_tci(packet: &mut Packet, tci: &Masked<u16>) {
    if outer_tag(packet)
        && let Some(field) = packet.bytes_mut::<2>(14)
    {
        *field = (tci.apply(u16::from_be_bytes(*field)) & !DEI).to_be_bytes();
    }
}

/// Whether there is a whole tag, with the type behind it.
fn outer_tag(packet: &Packet) -> bool {
    packet.bytes::<18>(0).is_some_and(|head| ethertype::is_vlan(u16::from_be_bytes([head[12], head[13]])))
}
