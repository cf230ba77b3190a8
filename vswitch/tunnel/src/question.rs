//! Who has this address? ARP requests (RFC 826) and neighbour solicitations (RFC 4861), as bytes.

use crate::Ends;

/// The frame that asks for the MAC address of `ends.dst`, from our own addresses: to all (ARP), or to the solicited-node group. 42 or 86 bytes, without padding.
#[must_use]
pub fn question(eth_src: [u8; 6], ends: Ends) -> Vec<u8> {
    let _ = (eth_src, ends);
    unimplemented!()
}
