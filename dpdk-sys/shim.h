/* The inline functions of DPDK that vswitch calls, as real symbols. Everything on the packet path takes a burst. */
#ifndef VSWITCH_SHIM_H
#define VSWITCH_SHIM_H
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_vhost.h>
#include <stdint.h>

uint16_t vs_eth_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t vs_eth_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t vs_eth_tx_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
int vs_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n);
void vs_mbuf_free(struct rte_mbuf *mbuf);
int vs_errno(void);
unsigned int vs_lcore_id(void);
void vs_log_to(FILE *stream, uint32_t level);

/* Constants that bindgen loses (RTE_BIT64 and casts), by name. */
struct vs_constant {
	const char *name;
	uint64_t value;
};
extern const struct vs_constant vs_constants[];
extern const unsigned int vs_constants_len;

/* Offsets and sizes of struct rte_mbuf, by field name, for the layout test. */
extern const struct vs_constant vs_mbuf_layout[];
extern const unsigned int vs_mbuf_layout_len;
#endif
