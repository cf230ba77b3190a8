//! What travels with an mbuf besides its bytes, in the switch's own words. `Mbuf` maps it to DPDK's
//! flags.

/// What is known of a packet's L4 checksum (the outermost TCP, UDP or ICMP header).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Csum {
    /// Nobody looked.
    #[default]
    Unknown,
    /// A device verified it.
    Good,
    /// A device found it wrong.
    Bad,
    /// The data is trusted, the field holds only the pseudo-header sum: whoever puts the packet on
    /// a wire finishes it. (virtio: `VIRTIO_NET_HDR_F_NEEDS_CSUM`; Linux: `CHECKSUM_PARTIAL`.)
    Partial,
}

/// What a transmit queue asks of the device for one packet; lengths in bytes. Read by ethdev and
/// librte_vhost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOffload {
    /// Ethernet header with its VLAN tags.
    pub l2_len: u8,
    /// IP header with its options or extension headers.
    pub l3_len: u16,
    /// L4 header; needed for segmentation.
    pub l4_len: u8,
    /// IPv4, else IPv6.
    pub ipv4: bool,
    /// TCP, else UDP.
    pub tcp: bool,
    /// Payload bytes per segment; 0: no segmentation.
    pub segment_size: u16,
}
