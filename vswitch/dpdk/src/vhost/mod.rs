//! vhost-user back ends on librte_vhost: sockets, rings, and the callbacks in between.
//!
//! **Where in the walk**: both ends. A worker takes a burst out of a guest's transmit ring
//! ([`Rings::receive`]) and copies one into its receive ring ([`Rings::send`]). Not through
//! `net_vhost`: an ethdev per Pod would end at `RTE_MAX_ETHPORTS`.
//!
//! **Design**: [`Vhost`] is the control side of one socket, [`Rings`] its data path. Both point to
//! one `Shared` block, which the callbacks find by the socket's path in a registry. The word `vid`
//! in it names the running device, or is -1; two masks say which queue pairs are enabled. What a
//! guest sends is copied, apart from the payload of long packets, which is borrowed until they have
//! gone their way (`borrowed`).
//!
//! **Threads** (read in DPDK 22.11.11; what a callback may do follows from it):
//!
//! | thread | runs | holds meanwhile |
//! |---|---|---|
//! | `vhost-events` (one per process) | every message; all callbacks except those below | `access_lock` of *all* rings of the device in `vring_state_changed` and in the guard, none elsewhere |
//! | `vhost_reconn` (one per process) | `new_connection` of client sockets, retried each second | the library's reconnect list |
//! | control, in [`Vhost::open`] | `new_connection`, if a client socket connects at once | our `OPENING` |
//! | control, in the drop of [`Vhost`] | `destroy_device` | the library's socket table, and no lock of ours |
//! | `vhost-calls` (one per process, ours, by option) | calls of guests (`caller`) | its own table while it looks a guest up, nothing while it calls |
//! | worker | `rte_vhost_dequeue_burst` (tries `access_lock`), `rte_vhost_enqueue_burst` (spins for it) | that `access_lock`; for borrowed packets the sender's, while it spins for the receiver's |
//!
//! Hence four rules, each the way out of a deadlock:
//! 1. `vring_state_changed` never waits for workers: one may spin for a lock that the callback's
//!    thread holds. Nor has it to: a worker is inside a ring only with the ring's `access_lock`,
//!    and that lock is held here, so nobody is.
//! 2. `destroy_device` takes `vid` away and waits (`quiesce`), with no lock held; afterwards the
//!    library unmaps the guest.
//! 3. Closing waits *before* it enters the library, and then makes `destroy_device` not wait:
//!    inside, it would hold the socket table, for which `vhost-events` may wait with ring locks for
//!    which a worker spins.
//! 4. While a worker has borrowed packets of a guest it does not wait for another ring of that
//!    guest (`borrowed`).
//!
//! `quiesce` must not need a lock that is held around the drop of [`Vhost`], and may be called from
//! several threads at once.
//!
//! **Never trust the guest**: what a guest does to its memory file is survived (`fault`), and what
//! it is called by holds up nobody for long (`calls`), no worker where another thread calls
//! (`caller`); a burst's mbufs are rationed (`Rings::receive`, the shim); `guard` refuses what
//! makes the library's own ring arithmetic unsafe; connections are made non-blocking and limited to
//! one per socket (`socket`), so that a peer that stops in the middle of a message, or never reads
//! a reply, is disconnected instead of stopping the thread (and, through `access_lock`, the
//! workers) of all ports. Descriptors of messages that take none, or are not there as a whole, are
//! closed before the library sees them, which would leak those of what it gives up (the shim's
//! `recvmsg`).
//!
//! **Limits** of librte_vhost 22.11 that we cannot lift:
//! - 1024 sockets, 1024 devices and 1024 polled descriptors per process, listeners and connections
//!   together: about 500 server sockets or 1000 client sockets; more are refused. A new server
//!   socket answers up to a second late (its poll is not woken).
//! - Without descriptors (EMFILE) during a reconnect it goes on with a stale number:
//!   [`super::raise_fd_limit`].
//! - Its sockets are not closed on exec: a child process of the switch must close what it inherits,
//!   or peers do not notice that the switch closed them. (Connections are marked by us, once they
//!   are made.)
//! - Closing while a peer disconnects is racy in its reconnect list: the drop waits out a
//!   disconnect that just began. A peer that disconnects within microseconds of the reconnect
//!   thread's connect races with its list of connections.
//! - GSO packets reach the guest with a pseudo-header sum without the length (Intel's convention);
//!   a guest notices only if it forwards them and segments in software.
//! - Chains that contradict their ring (shorter than the virtio-net header, outside the memory, or
//!   a loop) are told apart from an empty ring by what the library asked its pool for. Those that
//!   are stepped over count one each; a split ring stays at those that cannot be read until its
//!   driver starts it again, and they count once. Of packed rings, which ask for a full burst
//!   whatever is there, they are not counted. In the guest's receive ring such a chain counts as a
//!   full ring.
//! - A guest's frame that is too long is copied as far as the budget of a burst goes (2 MiB) before
//!   it is dropped.
//! - A memory table that is good, but for which the library has no heap left, unmaps the rings
//!   under a worker that is just waiting for their lock; workers that come later stay out
//!   (`Shared::is_remapping`).
//! - A worker that transmits, or calls a guest with borrowed packets, spins for a ring's lock. A
//!   front end that floods its connection with messages can find it there, and hold it up while a
//!   preempted thread of the library keeps the lock (0.1 s was seen, two cores, both busy).
//! - No live migration: the dirty log is not offered, so that QEMU refuses to migrate. Guest memory
//!   must be in tmpfs (memfd) or hugetlbfs, in regions made of 4 KiB pages; rings have at most 4096
//!   entries.
//! - A connection that cannot be told from its name (a client socket whose peer bound it under
//!   another file name) stays blocking.
//!
//! Messages of the library are lowered to `critical` at EAL's start, since a guest could flood the
//! log with them, some on its workers' threads. To see them: `args = ["--log-level=info",
//! "--log-level=lib.vhost.*:info"]` in `[dpdk]`.

#[cfg(feature = "dpdk")]
mod bad_chains;
mod error;
#[cfg(feature = "dpdk")]
mod features;

#[cfg(feature = "dpdk")]
mod borrowed;
// What is pure of how guests are checked is built without DPDK, too: tests and fuzz targets have it
// there.
#[cfg(any(feature = "dpdk", test, fuzzing))]
#[cfg_attr(not(feature = "dpdk"), allow(dead_code))]
mod call_fd;
#[cfg(feature = "dpdk")]
mod callbacks;
#[cfg(feature = "dpdk")]
mod caller;
#[cfg(feature = "dpdk")]
mod calls;
#[cfg(any(feature = "dpdk", test, fuzzing))]
#[cfg_attr(not(feature = "dpdk"), allow(dead_code))]
mod chain;
#[cfg(feature = "dpdk")]
mod fault;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(any(feature = "dpdk", test, fuzzing))]
#[cfg_attr(not(feature = "dpdk"), allow(dead_code))]
mod guard;
#[cfg(feature = "dpdk")]
mod layout;
#[cfg(any(feature = "dpdk", test, fuzzing))]
#[cfg_attr(not(feature = "dpdk"), allow(dead_code))]
mod memory;
#[cfg(any(feature = "dpdk", test, fuzzing))]
#[cfg_attr(not(feature = "dpdk"), allow(dead_code))]
mod message;
#[cfg(feature = "dpdk")]
mod notes;
#[cfg(feature = "dpdk")]
mod open;
#[cfg(feature = "dpdk")]
mod relief;
#[cfg(feature = "dpdk")]
mod rings;
#[cfg(feature = "dpdk")]
mod send_fds;
#[cfg(feature = "dpdk")]
mod shared;
#[cfg(feature = "dpdk")]
mod socket;

#[cfg(not(feature = "dpdk"))]
mod double;

#[cfg(all(any(test, feature = "testing"), feature = "dpdk"))]
pub mod testing;

pub use error::VhostError;

#[cfg(feature = "dpdk")]
pub use {borrowed::GuestMemory, caller::set_delay as set_call_delay, open::Vhost, rings::Rings, shared::maintain};

#[cfg(feature = "dpdk")]
pub(crate) use socket::remove_stale;

#[cfg(not(feature = "dpdk"))]
pub use double::{GuestMemory, Rings, Vhost, maintain, set_call_delay};

use super::Burst;
use std::sync::Arc;

/// Waits until no thread is in [`Rings::receive`] or [`Rings::send`] that was there when the call
/// began: whatever was unpublished before the call is not in use after it. Never called by a
/// worker.
pub type Quiesce = Arc<dyn Fn() + Send + Sync>;

/// Queue pairs of a guest that are served; one bit each in [`Rings::receive_pairs`]. The library
/// itself takes 128.
pub const PAIRS_MAX: u16 = 64;

/// What to offer to a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // one switch per negotiable feature
pub struct Offer {
    /// We connect; else we listen.
    pub client: bool,
    /// More than one queue pair.
    pub multiqueue: bool,
    /// Checksum offload both ways.
    pub csum: bool,
    /// TSO both ways; needs `csum`.
    pub tso: bool,
    /// Mergeable receive buffers.
    pub mergeable: bool,
    /// Indirect descriptors.
    pub indirect: bool,
    /// Packed rings.
    pub packed: bool,
}

/// What a guest negotiated, as far as packets are concerned; all false without a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // one per negotiated feature
pub struct Negotiated {
    /// The guest may send partial checksums.
    pub rx_csum: bool,
    /// The guest may send TCP over IPv4 longer than its MTU.
    pub rx_tso4: bool,
    /// The guest may send TCP over IPv6 longer than its MTU.
    pub rx_tso6: bool,
    /// The guest takes partial checksums.
    pub tx_csum: bool,
    /// The guest takes TCP over IPv4 longer than its MTU.
    pub tx_tso4: bool,
    /// The guest takes TCP over IPv6 longer than its MTU.
    pub tx_tso6: bool,
}

/// What came out of a guest's ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets that were appended to the burst.
    pub packets: usize,
    /// Packets that were borrowed, and are gone.
    pub borrowed: usize,
    /// Why one more packet, which was taken from the guest, was lost.
    pub lost: Option<Lost>,
}

/// Lets [`Rings::receive`] borrow packets instead of having them copied.
pub struct ZeroCopy<'a> {
    /// Where they are.
    pub memory: &'a mut GuestMemory,
    /// For them; empty before and after.
    pub burst: &'a mut Burst,
    /// Takes them all their way: none may be left anywhere behind it, nor may anything have been
    /// sent to this guest.
    pub forward: &'a mut dyn FnMut(&mut Burst),
}

impl std::fmt::Debug for ZeroCopy<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZeroCopy").field("memory", &self.memory).finish_non_exhaustive()
    }
}

/// Why a packet that was taken from a guest was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It needed more mbufs than the budget.
    TooLong,
    /// The pool was empty.
    NoMbuf,
    /// Its chain of descriptors contradicts a split ring or the guest's memory. If the ring does
    /// not go on behind it: told once.
    BadChain,
}

/// What became of a burst that was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets that the guest's ring took.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Why the guest's ring did not take a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// The ring had no room.
    Full,
    /// The packet is longer than the guest's next buffer, which cannot be merged with others.
    Oversize,
    /// Its transmit offload did not fit its bytes.
    Malformed,
    /// There is no device.
    Down,
}
