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

/* A packet that librte_vhost took out of a guest's ring and could not hand out. */
enum vs_lost { VS_LOST_NONE, VS_LOST_TOO_LONG, VS_LOST_NO_MBUF };

/* Once before the first vs_vhost_dequeue_burst, by one thread at a time; 0 on success. */
int vs_vhost_prepare(void);

/* rte_vhost_dequeue_burst that takes at most *budget mbufs, those for chained segments included, and lessens it by what it
 * took. At most one packet is lost per call. */
uint16_t vs_vhost_dequeue_burst(int vid, uint16_t queue, struct rte_mempool *pool, struct rte_mbuf **mbufs, uint16_t n,
				uint32_t *budget, enum vs_lost *lost);

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
