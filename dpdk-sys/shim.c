#include "shim.h"
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_version.h>
#include <stddef.h>

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "vswitch needs DPDK 22.11 or newer"
#endif

uint16_t vs_eth_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_rx_burst(port, queue, mbufs, n);
}

uint16_t vs_eth_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, mbufs, n);
}

uint16_t vs_eth_tx_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_tx_prepare(port, queue, mbufs, n);
}

int vs_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, n);
}

void vs_mbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

int vs_errno(void)
{
	return rte_errno;
}

unsigned int vs_lcore_id(void)
{
	return rte_lcore_id();
}

void vs_log_to(FILE *stream, uint32_t level)
{
	rte_openlog_stream(stream);
	rte_log_set_global_level(level);
}

#define C(name) { #name, (uint64_t)(name) }
const struct vs_constant vs_constants[] = {
	C(RTE_MBUF_F_RX_IP_CKSUM_BAD),
	C(RTE_MBUF_F_RX_IP_CKSUM_GOOD),
	C(RTE_MBUF_F_RX_L4_CKSUM_BAD),
	C(RTE_MBUF_F_RX_L4_CKSUM_GOOD),
	C(RTE_MBUF_F_RX_L4_CKSUM_MASK),
	C(RTE_MBUF_F_RX_L4_CKSUM_NONE),
	C(RTE_MBUF_F_RX_LRO),
	C(RTE_MBUF_F_RX_RSS_HASH),
	C(RTE_MBUF_F_TX_TCP_SEG),
	C(RTE_MBUF_F_TX_TCP_CKSUM),
	C(RTE_MBUF_F_TX_UDP_CKSUM),
	C(RTE_MBUF_F_TX_SCTP_CKSUM),
	C(RTE_MBUF_F_TX_L4_MASK),
	C(RTE_MBUF_F_TX_IP_CKSUM),
	C(RTE_MBUF_F_TX_IPV4),
	C(RTE_MBUF_F_TX_IPV6),
	C(RTE_ETH_RX_OFFLOAD_IPV4_CKSUM),
	C(RTE_ETH_RX_OFFLOAD_UDP_CKSUM),
	C(RTE_ETH_RX_OFFLOAD_TCP_CKSUM),
	C(RTE_ETH_RX_OFFLOAD_SCATTER),
	C(RTE_ETH_RX_OFFLOAD_RSS_HASH),
	C(RTE_ETH_TX_OFFLOAD_IPV4_CKSUM),
	C(RTE_ETH_TX_OFFLOAD_UDP_CKSUM),
	C(RTE_ETH_TX_OFFLOAD_TCP_CKSUM),
	C(RTE_ETH_TX_OFFLOAD_TCP_TSO),
	C(RTE_ETH_TX_OFFLOAD_MULTI_SEGS),
	C(RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE),
	C(RTE_ETH_RSS_IPV4),
	C(RTE_ETH_RSS_NONFRAG_IPV4_TCP),
	C(RTE_ETH_RSS_NONFRAG_IPV4_UDP),
	C(RTE_ETH_RSS_IPV6),
	C(RTE_ETH_RSS_NONFRAG_IPV6_TCP),
	C(RTE_ETH_RSS_NONFRAG_IPV6_UDP),
	C(RTE_VHOST_USER_CLIENT),
	C(RTE_VHOST_USER_EXTBUF_SUPPORT),
	C(RTE_VHOST_USER_LINEARBUF_SUPPORT),
	C(RTE_VHOST_USER_NET_COMPLIANT_OL_FLAGS),
	C(RTE_PKTMBUF_HEADROOM),
	C(RTE_MAX_ETHPORTS),
	C(RTE_MAX_LCORE),
	C(LCORE_ID_ANY),
};
const unsigned int vs_constants_len = RTE_DIM(vs_constants);

#define F(field) { #field, offsetof(struct rte_mbuf, field) }
const struct vs_constant vs_mbuf_layout[] = {
	F(buf_addr), F(buf_iova), F(data_off), F(refcnt), F(nb_segs), F(port), F(ol_flags), F(packet_type),
	F(pkt_len), F(data_len), F(vlan_tci), F(hash), F(buf_len), F(pool), F(next), F(tx_offload), F(shinfo),
	F(priv_size), F(timesync), F(dynfield1),
	{ "sizeof", sizeof(struct rte_mbuf) },
	{ "alignof", _Alignof(struct rte_mbuf) },
};
const unsigned int vs_mbuf_layout_len = RTE_DIM(vs_mbuf_layout);
