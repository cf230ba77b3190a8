/* The inline functions of DPDK that vswitch calls, as real symbols. Everything on the packet path takes a burst. */
#ifndef VSWITCH_SHIM_H
#define VSWITCH_SHIM_H
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_vhost.h>
#include <stdbool.h>
#include <stdint.h>

uint16_t vs_eth_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t vs_eth_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t vs_eth_tx_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
int vs_mempool_hide(struct rte_mempool *pool);
int vs_vhost_hide(int vid);
int vs_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n);
void vs_mbuf_free(struct rte_mbuf *mbuf);
int vs_errno(void);

/* rte_eal_init. With only_named it loads those plugins that arguments `-d` name, and not what else is in its directory. */
int vs_eal_init(int argc, char **argv, bool only_named);

/* open(2) that follows no link, in no component of an absolute path; close-on-exec. Negative:
 * errno says why. */
int vs_open_no_links(const char *path, int flags, unsigned int mode);

/* A packet that librte_vhost could not hand out: longer than the budget, for want of mbufs, or behind fewer packets than it said there
 * were. Of packed rings it does not know how many there are, and asks for as many mbufs as fit: VS_LOST_CHAIN means nothing there. */
enum vs_lost { VS_LOST_NONE, VS_LOST_TOO_LONG, VS_LOST_NO_MBUF, VS_LOST_CHAIN };

/* Once before the first vs_vhost_dequeue_burst, by one thread at a time; 0 on success. */
int vs_vhost_prepare(void);

/* Called by vs_vhost_dequeue_burst with the ring's lock held, when n packets could be taken and none was: other than 0 if it has taken
 * some by itself, so that the library is to take none. */
typedef int (*vs_take)(void *context, uint16_t n);

/* rte_vhost_dequeue_burst that takes at most *budget mbufs, those for chained segments included, and lessens it by what it
 * took. At most one packet is lost per call. `take` may be null. */
uint16_t vs_vhost_dequeue_burst(int vid, uint16_t queue, struct rte_mempool *pool, struct rte_mbuf **mbufs, uint16_t n,
				uint32_t *budget, enum vs_lost *lost, vs_take take, void *context);

/* A split ring: where it is, its entries, and which available and which used entry comes next. */
struct vs_ring {
	void *descriptors;
	void *available_ring;
	void *used_ring;
	uint16_t size;
	uint16_t available;
	uint16_t used;
};

/* With the ring's lock held: in vs_take. 0 on success. */
int vs_vhost_ring(int vid, uint16_t queue, struct vs_ring *ring);

/* Bytes of a guest's memory from an address of the guest's on, and where they are mapped here. */
struct vs_region {
	uint64_t guest;
	uint64_t size;
	void *here;
};

/* With the lock of any of its rings held: in vs_take. How many regions there are; negative on failure. Allocates. */
int vs_vhost_memory(int vid, struct vs_region *regions, unsigned int max);

/* Makes a fresh mbuf one whose bytes are elsewhere, until it is freed. */
void vs_mbuf_borrow(struct rte_mbuf *mbuf, void *at, uint16_t len);

/* Mbufs that this thread made such, and that are not free again. */
uint16_t vs_mbufs_borrowed(void);

/* Counts borrowed mbufs of this thread that are missing no more. */
void vs_mbufs_give_up(void);

/* From now on `munmap` of anything in this range does nothing. False: there is no room to note it. */
bool vs_keep_mapped(void *at, size_t len);

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
