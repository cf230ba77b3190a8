#define _GNU_SOURCE
#include "shim.h"
#include <dlfcn.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mempool.h>
#include <rte_spinlock.h>
#include <rte_version.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* Keeps memory out of core files. It has pages of some size: a mapping of large ones is only split between them. What shares a page with it
 * is kept out, too. */
static int hide(uintptr_t start, size_t len)
{
	static const uintptr_t sizes[] = { 4 << 10, 2 << 20, 1 << 30 };

	for (size_t i = 0; i < RTE_DIM(sizes); i++) {
		const uintptr_t from = RTE_ALIGN_FLOOR(start, sizes[i]), to = RTE_ALIGN_CEIL(start + len, sizes[i]);

		if (madvise((void *)from, to - from, MADV_DONTDUMP) == 0)
			return 0;
	}
	return -1;
}

int vs_mempool_hide(struct rte_mempool *pool)
{
	struct rte_mempool_memhdr *part;
	int rc = 0;

	STAILQ_FOREACH(part, &pool->mem_list, next)
		rc |= hide((uintptr_t)part->addr, part->len);
	return rc;
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

/* EAL loads its whole directory of plugins if the library librte_eal.so is there, for a program that has EAL within it has its
 * drivers there, too. It asks `dlopen` whether the library is there. Nothing else keeps it from the directory (DPDK 22.11,
 * eal_common_options.c, is_shared_build). So on the thread that starts EAL the answer is no. */
static __thread bool only_named;

int vs_eal_init(int argc, char **argv, bool named)
{
	only_named = named;
	const int rc = rte_eal_init(argc, argv);

	only_named = false;
	return rc;
}

void *dlopen(const char *file, int mode)
{
	static void *(*next)(const char *file, int mode);
	void *(*call)(const char *file, int mode) = __atomic_load_n(&next, __ATOMIC_RELAXED);

	if (only_named && (mode & RTLD_NOLOAD) != 0 && file != NULL && strncmp(file, "librte_eal.so", 13) == 0)
		return NULL;
	if (call == NULL) {
		call = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
		if (call == NULL)
			abort();
		__atomic_store_n(&next, call, __ATOMIC_RELAXED);
	}
	/* The last call: its caller, by which the C library resolves names, is ours. */
	return call(file, mode);
}

/* librte_vhost copies a chain of a guest's descriptors into as many mbufs as it takes, without a limit; it only knows how to
 * stop when its pool is empty. So it gets a pool that has no buffers: each request is passed on to the real pool until the
 * budget of the call is used up. Mbufs know the real pool as theirs, and go back there. */
static __thread struct {
	struct rte_mempool *from;
	uint32_t budget;
	bool begun;
	unsigned int first;
	enum vs_lost lost;
	vs_take take;
	void *context;
} ration;

static struct rte_mempool *ration_pool;

static int ration_dequeue(struct rte_mempool *unused __rte_unused, void **objects, unsigned int n)
{
	/* The first request is for the burst's first segments: until it is met, nothing has been taken from the guest. */
	const bool begun = ration.begun;

	ration.begun = true;
	if (!begun && ration.take != NULL && ration.take(ration.context, n) != 0)
		return -ENOBUFS;
	if (n > ration.budget) {
		ration.lost = begun ? VS_LOST_TOO_LONG : VS_LOST_NONE;
		return -ENOBUFS;
	}
	if (rte_mempool_get_bulk(ration.from, objects, n) != 0) {
		ration.lost = begun ? VS_LOST_NO_MBUF : VS_LOST_NONE;
		return -ENOBUFS;
	}
	ration.budget -= n;
	if (!begun)
		ration.first = n;
	return 0;
}

/* Never called: the pool is not populated, and nothing names it as its pool. */
static int ration_alloc(struct rte_mempool *unused __rte_unused)
{
	return -ENOTSUP;
}

static int ration_enqueue(struct rte_mempool *unused __rte_unused, void *const *objects __rte_unused,
			  unsigned int n __rte_unused)
{
	return -ENOTSUP;
}

static unsigned int ration_count(const struct rte_mempool *unused __rte_unused)
{
	return 0;
}

static const struct rte_mempool_ops ration_ops = {
	.name = "vswitch_ration",
	.alloc = ration_alloc,
	.enqueue = ration_enqueue,
	.dequeue = ration_dequeue,
	.get_count = ration_count,
};
RTE_MEMPOOL_REGISTER_OPS(ration_ops);

int vs_vhost_prepare(void)
{
	struct rte_mempool *pool;

	if (ration_pool != NULL)
		return 0;
	/* Without a cache: each request reaches `ration_dequeue`. */
	pool = rte_mempool_create_empty("vswitch_ration", 1, sizeof(struct rte_mbuf), 0,
					sizeof(struct rte_pktmbuf_pool_private), SOCKET_ID_ANY, 0);
	if (pool == NULL)
		return -1;
	if (rte_mempool_set_ops_byname(pool, ration_ops.name, NULL) != 0) {
		rte_mempool_free(pool);
		return -1;
	}
	ration_pool = pool;
	return 0;
}

uint16_t vs_vhost_dequeue_burst(int vid, uint16_t queue, struct rte_mempool *pool, struct rte_mbuf **mbufs, uint16_t n,
				uint32_t *budget, enum vs_lost *lost, vs_take take, void *context)
{
	ration.take = take;
	ration.context = context;
	ration.from = pool;
	ration.budget = *budget;
	ration.begun = false;
	ration.first = 0;
	ration.lost = VS_LOST_NONE;
	const uint16_t taken = rte_vhost_dequeue_burst(vid, queue, ration_pool, mbufs, n);

	/* The library may leave mbufs behind the last one that it has freed again; where it asked for none, it has written nothing. */
	if (ration.begun)
		memset(mbufs + taken, 0, (n - taken) * sizeof(*mbufs));
	*budget = ration.budget;
	*lost = ration.lost != VS_LOST_NONE || taken >= ration.first ? ration.lost : VS_LOST_CHAIN;
	return taken;
}

/* librte_vhost takes the descriptors of a message out of its socket with the message's header, and leaks them if it gives the message
 * up before it looks for who handles it: a ring that cannot be, in-flight buffers of no ring. A front end could take all descriptors of the process that way. So
 * what it calls `recvmsg` is this one, which on its thread closes the descriptors of messages that take none, or are not there as a whole. Those that
 * it hands out are closed on exec. Elsewhere it is what it is. */
#define VHOST_USER_PAYLOAD_MAX 632

static bool is_vhost_events(void)
{
	static __thread signed char answer;
	char name[16] = "";

	if (answer == 0) {
		prctl(PR_GET_NAME, name);
		answer = strstr(name, "vhost-ev") != NULL ? 1 : -1;
	}
	return answer > 0;
}

/* A header: request, flags and size. The requests: SET_MEM_TABLE, SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR. */
static bool may_have_fds(int socket, const uint32_t *header)
{
	char payload[VHOST_USER_PAYLOAD_MAX];
	const size_t size = header[2];

	if (header[0] != 5 && (header[0] < 12 || header[0] > 14))
		return false;
	return size <= sizeof(payload) && recv(socket, payload, size, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)size;
}

ssize_t recvmsg(int socket, struct msghdr *message, int flags)
{
	const bool events = is_vhost_events();
	const ssize_t n = syscall(SYS_recvmsg, socket, message, events ? flags | MSG_CMSG_CLOEXEC : flags);
	uint32_t header[3];
	int fd;

	if (!events || n <= 0 || message->msg_controllen == 0)
		return n;
	if (n == sizeof(header) && message->msg_iov[0].iov_len == sizeof(header)) {
		memcpy(header, message->msg_iov[0].iov_base, sizeof(header));
		if (may_have_fds(socket, header))
			return n;
	}
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(fd) <= part->cmsg_len; at += sizeof(fd)) {
			memcpy(&fd, (char *)part + at, sizeof(fd));
			close(fd);
		}
	}
	message->msg_controllen = 0;
	return n;
}

int vs_vhost_ring(int vid, uint16_t queue, struct vs_ring *ring)
{
	struct rte_vhost_vring vring;

	if (rte_vhost_get_vhost_vring(vid, queue, &vring) != 0 ||
	    rte_vhost_get_vring_base(vid, queue, &ring->available, &ring->used) != 0)
		return -1;
	ring->descriptors = vring.desc;
	ring->available_ring = vring.avail;
	ring->used_ring = vring.used;
	ring->size = vring.size;
	return 0;
}

int vs_vhost_memory(int vid, struct vs_region *regions, unsigned int max)
{
	struct rte_vhost_memory *memory;
	unsigned int n;

	if (rte_vhost_get_mem_table(vid, &memory) != 0)
		return -1;
	for (n = 0; n < memory->nregions && n < max; n++) {
		regions[n].guest = memory->regions[n].guest_phys_addr;
		regions[n].size = memory->regions[n].size;
		regions[n].here = (void *)(uintptr_t)memory->regions[n].host_user_addr;
	}
	free(memory);
	return n;
}

int vs_vhost_hide(int vid)
{
	struct rte_vhost_memory *memory;
	int rc = 0;

	if (rte_vhost_get_mem_table(vid, &memory) != 0)
		return -1;
	for (unsigned int i = 0; i < memory->nregions; i++)
		rc |= hide((uintptr_t)memory->regions[i].mmap_addr, memory->regions[i].mmap_size);
	free(memory);
	return rc;
}

/* A reference of this thread's own keeps it from ever being zero, which is when somebody would be called back. */
static __thread struct rte_mbuf_ext_shared_info borrowed_from = { .refcnt = 1 };

void vs_mbuf_borrow(struct rte_mbuf *mbuf, void *at, uint16_t len)
{
	rte_pktmbuf_attach_extbuf(mbuf, at, RTE_BAD_IOVA, len, &borrowed_from);
	mbuf->data_len = len;
	rte_mbuf_ext_refcnt_update(&borrowed_from, 1);
}

/* Of the borrowed ones, those that were given up. */
static __thread uint16_t borrowed_lost;

uint16_t vs_mbufs_borrowed(void)
{
	const uint16_t there = rte_mbuf_ext_refcnt_read(&borrowed_from) - 1;

	if (borrowed_lost > there)
		borrowed_lost = there; /* one came back after all */
	return there - borrowed_lost;
}

void vs_mbufs_give_up(void)
{
	borrowed_lost = rte_mbuf_ext_refcnt_read(&borrowed_from) - 1;
}

/* Ranges that stay mapped until the process ends. */
#define KEPT_MAX 256
static struct {
	uintptr_t start, end;
} kept[KEPT_MAX];
static unsigned kept_count;
static rte_spinlock_t keeping = RTE_SPINLOCK_INITIALIZER;

bool vs_keep_mapped(void *at, size_t len)
{
	bool is_kept;

	rte_spinlock_lock(&keeping);
	is_kept = kept_count < KEPT_MAX;
	if (is_kept) {
		kept[kept_count].start = (uintptr_t)at;
		kept[kept_count].end = (uintptr_t)at + len;
		__atomic_store_n(&kept_count, kept_count + 1, __ATOMIC_RELEASE);
	}
	rte_spinlock_unlock(&keeping);
	return is_kept;
}

/* What librte_vhost, drivers and libraries call `munmap` is this one. It leaves alone what is kept. */
int munmap(void *at, size_t len)
{
	const uintptr_t start = (uintptr_t)at, end = start + len;
	const unsigned n = __atomic_load_n(&kept_count, __ATOMIC_ACQUIRE);

	for (unsigned i = 0; i < n; i++) {
		if (start < kept[i].end && kept[i].start < end)
			return 0;
	}
	return syscall(SYS_munmap, at, len);
}

#define C(name) { #name, (uint64_t)(name) }
const struct vs_constant vs_constants[] = {
	C(RTE_MBUF_F_EXTERNAL),
	C(RTE_MBUF_F_RX_FDIR_ID),
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
	C(RTE_ETH_RSS_FRAG_IPV4),
	C(RTE_ETH_RSS_NONFRAG_IPV4_TCP),
	C(RTE_ETH_RSS_NONFRAG_IPV4_UDP),
	C(RTE_ETH_RSS_NONFRAG_IPV4_OTHER),
	C(RTE_ETH_RSS_IPV6),
	C(RTE_ETH_RSS_FRAG_IPV6),
	C(RTE_ETH_RSS_NONFRAG_IPV6_TCP),
	C(RTE_ETH_RSS_NONFRAG_IPV6_UDP),
	C(RTE_ETH_RSS_NONFRAG_IPV6_OTHER),
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
