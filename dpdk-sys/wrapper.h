/* What bindgen reads. No protocol headers (rte_ip.h, rte_arp.h, ...): packets are parsed in Rust. */
#include <rte_config.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>
#include <rte_vhost.h>
#include "shim.h"
