//! The virtio-net header (virtio 1.1, 5.1.6), as TAP, AF_PACKET and vhost speak it.

use crate::dpdk::Mbuf;
use crate::observe::DropReason;

/// `struct virtio_net_hdr`, 10 bytes, host byte order (little-endian here).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHdr {
    /// `VIRTIO_NET_HDR_F_*`.
    pub flags: u8,
    /// `VIRTIO_NET_HDR_GSO_*`.
    pub gso_type: u8,
    /// Bytes of Ethernet, IP and L4 headers: a hint, not to be trusted.
    pub hdr_len: u16,
    /// Payload bytes per segment.
    pub gso_size: u16,
    /// Where the checksum starts.
    pub csum_start: u16,
    /// Where it is stored, from `csum_start`.
    pub csum_offset: u16,
}

impl VnetHdr {
    /// Bytes on the wire.
    pub const LEN: usize = 10;
    /// `csum_start` and `csum_offset` are valid.
    pub const NEEDS_CSUM: u8 = 1;
    /// The checksum was verified.
    pub const DATA_VALID: u8 = 2;

    /// Reads the 10 bytes.
    #[must_use]
    pub fn from_bytes(_bytes: &[u8; 10]) -> Self {
        unimplemented!()
    }

    /// Writes the 10 bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 10] {
        unimplemented!()
    }

    /// Takes what the header says of a received packet over into the mbuf (`set_csum`, `set_gso_size`), trusting nothing:
    /// partial stays partial only where the parsed L4 checksum is the one that the header names (else it is finished here).
    ///
    /// # Errors
    /// [`DropReason::VnetHeader`] when the header contradicts the bytes.
    pub fn accept(self, _mbuf: &mut Mbuf) -> Result<(), DropReason> {
        unimplemented!()
    }

    /// The header to send with a packet to a peer that takes partial checksums and GSO; all offsets come from the bytes.
    ///
    /// # Errors
    /// [`DropReason::VnetHeader`] when a partial or GSO packet has no L4 header that can be described.
    pub fn describe(_mbuf: &Mbuf) -> Result<Self, DropReason> {
        unimplemented!()
    }
}
