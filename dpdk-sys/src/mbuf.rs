//! `struct rte_mbuf` by hand: bindgen cannot express its unions and alignments. The test compares
//! every offset with C's.

use core::ffi::c_void;

/// DPDK's packet buffer header: two cache lines, the data follows (rte_mbuf_core.h, 22.11, IOVA as
/// PA).
#[repr(C, align(64))]
#[derive(Debug)]
pub struct rte_mbuf {
    /// Virtual address of the segment's buffer.
    pub buf_addr: *mut c_void,
    /// IO address of the segment's buffer.
    pub buf_iova: u64,
    /// Where the data starts in the buffer, in bytes.
    pub data_off: u16,
    /// References to this segment.
    pub refcnt: u16,
    /// Segments of the packet (first segment only).
    pub nb_segs: u16,
    /// Input port.
    pub port: u16,
    /// `RTE_MBUF_F_*`.
    pub ol_flags: u64,
    /// `RTE_PTYPE_*`.
    pub packet_type: u32,
    /// Bytes of all segments (first segment only).
    pub pkt_len: u32,
    /// Bytes of this segment.
    pub data_len: u16,
    /// VLAN TCI in host order, when stripped.
    pub vlan_tci: u16,
    /// RSS hash.
    pub rss: u32,
    /// Upper half of the hash union.
    pub hash_hi: u32,
    /// Outer VLAN TCI, when stripped.
    pub vlan_tci_outer: u16,
    /// Bytes of the buffer.
    pub buf_len: u16,
    /// Pool that owns the buffer.
    pub pool: *mut c_void,
    /// Next segment or null. First field of the second cache line.
    pub next: *mut rte_mbuf,
    /// l2_len:7, l3_len:9, l4_len:8, tso_segsz:16, outer_l3_len:9, outer_l2_len:7.
    pub tx_offload: u64,
    /// Shared data of an external buffer.
    pub shinfo: *mut c_void,
    /// Private bytes between header and buffer.
    pub priv_size: u16,
    /// Time sync flags.
    pub timesync: u16,
    /// Dynamic fields.
    pub dynfield1: [u32; 9],
}

#[cfg(test)]
mod tests {
    use super::rte_mbuf;
    use core::mem::{align_of, offset_of, size_of};

    #[test]
    fn layout_is_that_of_the_c_header() {
        let ours = [
            ("buf_addr", offset_of!(rte_mbuf, buf_addr)),
            ("buf_iova", offset_of!(rte_mbuf, buf_iova)),
            ("data_off", offset_of!(rte_mbuf, data_off)),
            ("refcnt", offset_of!(rte_mbuf, refcnt)),
            ("nb_segs", offset_of!(rte_mbuf, nb_segs)),
            ("port", offset_of!(rte_mbuf, port)),
            ("ol_flags", offset_of!(rte_mbuf, ol_flags)),
            ("packet_type", offset_of!(rte_mbuf, packet_type)),
            ("pkt_len", offset_of!(rte_mbuf, pkt_len)),
            ("data_len", offset_of!(rte_mbuf, data_len)),
            ("vlan_tci", offset_of!(rte_mbuf, vlan_tci)),
            ("hash", offset_of!(rte_mbuf, rss)),
            ("buf_len", offset_of!(rte_mbuf, buf_len)),
            ("pool", offset_of!(rte_mbuf, pool)),
            ("next", offset_of!(rte_mbuf, next)),
            ("tx_offload", offset_of!(rte_mbuf, tx_offload)),
            ("shinfo", offset_of!(rte_mbuf, shinfo)),
            ("priv_size", offset_of!(rte_mbuf, priv_size)),
            ("timesync", offset_of!(rte_mbuf, timesync)),
            ("dynfield1", offset_of!(rte_mbuf, dynfield1)),
            ("sizeof", size_of::<rte_mbuf>()),
            ("alignof", align_of::<rte_mbuf>()),
        ];
        assert_eq!(ours.to_vec(), crate::mbuf_layout().collect::<Vec<_>>());
    }
}
