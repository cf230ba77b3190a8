//! Flags that bindgen drops without a word (`RTE_BIT64`, casts). `shim.c` exports C's values; the
//! test compares.

macro_rules! constants {
    ($($name:ident = $value:expr;)*) => {
        $(#[doc = concat!("`", stringify!($name), "` of DPDK 22.11.")] pub const $name: u64 = $value;)*
        #[cfg(test)]
        const OURS: &[(&str, u64)] = &[$((stringify!($name), $name)),*];
    };
}

constants! {
    RTE_MBUF_F_EXTERNAL = 1 << 61;
    RTE_MBUF_F_RX_FDIR_ID = 1 << 13;
    RTE_MBUF_F_RX_IP_CKSUM_BAD = 1 << 4;
    RTE_MBUF_F_RX_IP_CKSUM_GOOD = 1 << 7;
    RTE_MBUF_F_RX_L4_CKSUM_BAD = 1 << 3;
    RTE_MBUF_F_RX_L4_CKSUM_GOOD = 1 << 8;
    RTE_MBUF_F_RX_L4_CKSUM_MASK = (1 << 3) | (1 << 8);
    RTE_MBUF_F_RX_L4_CKSUM_NONE = (1 << 3) | (1 << 8);
    RTE_MBUF_F_RX_LRO = 1 << 16;
    RTE_MBUF_F_RX_RSS_HASH = 1 << 1;
    RTE_MBUF_F_TX_TCP_SEG = 1 << 50;
    RTE_MBUF_F_TX_TCP_CKSUM = 1 << 52;
    RTE_MBUF_F_TX_UDP_CKSUM = 3 << 52;
    RTE_MBUF_F_TX_SCTP_CKSUM = 2 << 52;
    RTE_MBUF_F_TX_L4_MASK = 3 << 52;
    RTE_MBUF_F_TX_IP_CKSUM = 1 << 54;
    RTE_MBUF_F_TX_IPV4 = 1 << 55;
    RTE_MBUF_F_TX_IPV6 = 1 << 56;
    RTE_ETH_RX_OFFLOAD_IPV4_CKSUM = 1 << 1;
    RTE_ETH_RX_OFFLOAD_UDP_CKSUM = 1 << 2;
    RTE_ETH_RX_OFFLOAD_TCP_CKSUM = 1 << 3;
    RTE_ETH_RX_OFFLOAD_SCATTER = 1 << 13;
    RTE_ETH_RX_OFFLOAD_RSS_HASH = 1 << 19;
    RTE_ETH_TX_OFFLOAD_IPV4_CKSUM = 1 << 1;
    RTE_ETH_TX_OFFLOAD_UDP_CKSUM = 1 << 2;
    RTE_ETH_TX_OFFLOAD_TCP_CKSUM = 1 << 3;
    RTE_ETH_TX_OFFLOAD_TCP_TSO = 1 << 5;
    RTE_ETH_TX_OFFLOAD_MULTI_SEGS = 1 << 15;
    RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE = 1 << 16;
    RTE_ETH_RSS_IPV4 = 1 << 2;
    RTE_ETH_RSS_FRAG_IPV4 = 1 << 3;
    RTE_ETH_RSS_NONFRAG_IPV4_TCP = 1 << 4;
    RTE_ETH_RSS_NONFRAG_IPV4_UDP = 1 << 5;
    RTE_ETH_RSS_NONFRAG_IPV4_OTHER = 1 << 7;
    RTE_ETH_RSS_IPV6 = 1 << 8;
    RTE_ETH_RSS_FRAG_IPV6 = 1 << 9;
    RTE_ETH_RSS_NONFRAG_IPV6_TCP = 1 << 10;
    RTE_ETH_RSS_NONFRAG_IPV6_UDP = 1 << 11;
    RTE_ETH_RSS_NONFRAG_IPV6_OTHER = 1 << 13;
    RTE_VHOST_USER_CLIENT = 1 << 0;
    RTE_VHOST_USER_EXTBUF_SUPPORT = 1 << 5;
    RTE_VHOST_USER_LINEARBUF_SUPPORT = 1 << 6;
    RTE_VHOST_USER_NET_COMPLIANT_OL_FLAGS = 1 << 8;
    RTE_PKTMBUF_HEADROOM = 128;
    RTE_MAX_ETHPORTS = 32;
    RTE_MAX_LCORE = 128;
    LCORE_ID_ANY = u32::MAX as u64;
}

#[cfg(test)]
mod tests {
    /// Limits that a distribution may build with other values; everything else is ABI.
    const TUNABLE: [&str; 2] = ["RTE_MAX_ETHPORTS", "RTE_MAX_LCORE"];

    #[test]
    fn values_are_those_of_the_c_headers() {
        let c: Vec<_> = crate::constants().filter(|(name, _)| !TUNABLE.contains(name)).collect();
        let ours: Vec<_> = super::OURS.iter().copied().filter(|(name, _)| !TUNABLE.contains(name)).collect();
        assert_eq!(ours, c);
    }
}
