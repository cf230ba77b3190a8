//! The engine room: everything that is not safe Rust. DPDK (EAL, mempool, mbuf, ethdev,
//! librte_vhost), and the kernel's packet interfaces (TAP, AF_PACKET). What it hands out is safe.
//!
//! **Where in the walk**: both ends. A receive queue fills a [`Burst`]; a transmit queue empties
//! one.
//!
//! **Design**: one type per DPDK noun, owning what it names: [`Mbuf`] frees on drop, a [`Burst`]
//! frees in bulk. Calls on the packet path go through a C shim that takes bursts. Without the
//! feature `dpdk` the same names are heap-backed doubles, so that every other room builds and is
//! tested without libdpdk.
//!
//! **Threads**: [`Mbuf`], [`Mempool`] may move between threads. EAL calls that are not thread-safe
//! (probe, remove) run on the EAL's own thread.
//!
//! **Not here**: what packets mean (room `packet`), what ports are (room `port`).
#![allow(unsafe_code)]

mod burst;
pub mod capabilities;
pub mod devargs;
#[cfg(feature = "dpdk")]
mod device_paths;
pub mod drivers;
#[cfg(feature = "dpdk")]
pub mod eal;
#[cfg(feature = "dpdk")]
mod eth_queue;
#[cfg(feature = "dpdk")]
pub mod ethdev;
pub mod kernel;
pub mod lcore;
pub mod limits;
mod mbuf_copy;
mod mem;
mod meta;
mod part;
#[cfg(feature = "dpdk")]
pub mod paths;
pub mod peer;
#[cfg(feature = "dpdk")]
mod plugins;
pub mod process;
#[cfg(feature = "dpdk")]
mod rss;
mod simd;
pub mod vhost;

#[cfg(feature = "dpdk")]
mod mbuf;
#[cfg(feature = "dpdk")]
mod mempool;

#[cfg(not(feature = "dpdk"))]
mod double;

pub use burst::Burst;
pub use limits::raise_fd_limit;
pub use mem::{Words, crc32c, huge_slice, prefetch, prefetch_to_write, prefetch_two, zeros};
pub use meta::{Csum, TxOffload};
pub use simd::{U8x32, nh_twice, sum_of_some};

#[cfg(feature = "dpdk")]
pub use {mbuf::Mbuf, mempool::Mempool};

#[cfg(not(feature = "dpdk"))]
pub use double::{Mbuf, Mempool};
