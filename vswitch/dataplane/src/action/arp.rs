//! ARP.

use super::ethernet::write_mac;
use super::{Masked, Packet, SetArp};
use crate::packet::ethertype;

/// Types and lengths of addresses at the front of the ARP packets that have fields.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// Rewrites an ARP packet for Ethernet and IPv4. One that is cut off or for other addresses stays
/// as it is, and so does another protocol's.
pub(super) fn set_arp(packet: &mut Packet, set: &SetArp) {
    if !matches!(packet.l3_type(), Some(ethertype::ARP | ethertype::RARP)) {
        return;
    }
    let Some(header) = packet.l3().and_then(|l3| packet.bytes_mut::<28>(l3)) else { return };
    if header[..6] != ETHERNET_IPV4 {
        return;
    }
    let op = set.op.apply(u16::from_be_bytes([header[6], header[7]]));
    header[6..8].copy_from_slice(&op.to_be_bytes());
    write_mac(header, 8, &set.sha);
    write_address(header, 14, &set.spa);
    write_mac(header, 18, &set.tha);
    write_address(header, 24, &set.tpa);
}

fn write_address(header: &mut [u8; 28], at: usize, address: &Masked<u32>) {
    if let Some(field) = header[at..].first_chunk_mut::<4>() {
        *field = address.apply(u32::from_be_bytes(*field)).to_be_bytes();
    }
}
