//! Gathers what leaves by each port during a burst, and sends it once at the burst's end.

use crate::capture::{Point, Taps};
use crate::limits::{BURST, WORKERS_MAX};
use crate::observe::{DropReason, Drops, PortCounters, Remains};
use crate::packet::offload;
use crate::port::{PortId, Sum, TxQueue};
use crate::worker::slow::forget::Met;
use crate::worker::tunnel::waiting::Waiting;
use crate::worker::{PortView, Snapshot};
use parking_lot::Mutex;
use vswitch_conntrack::Owner;
use vswitch_dpdk::{Burst, Mbuf, Mempool};

const _: () = assert!(WORKERS_MAX <= Owner::MAX, "all workers may own connections");

/// Packets on their way to one port.
#[derive(Debug, Default)]
struct Gathered {
    burst: Burst,
    /// In the list of pending ports.
    listed: bool,
    /// Longest frame that may be queued without a second look, in bytes; 0: every packet needs one.
    plain_max: usize,
    /// What is gathered, in sum.
    sum: Sum,
    /// What is sent is captured.
    captured: bool,
}

/// Packets on their way out, by port; and those that died, to be freed in bulk.
#[derive(Debug)]
pub(in crate::worker) struct Outputs {
    worker: usize,
    ports: Vec<Gathered>,
    /// Ports that have something gathered. As long as `ports` at most: never allocates on the way.
    pending: Vec<PortId>,
    dead: Burst,
    /// The port of the guest whose packets are on their way, if they are borrowed: nothing is sent
    /// there meanwhile.
    pub(in crate::worker) borrowed_from: Option<PortId>,
    /// Those that wait for a next hop.
    pub(in crate::worker) waiting: Waiting,
    /// What is captured.
    pub(in crate::worker) taps: Taps,
    /// What the packet in hand has met.
    pub(in crate::worker) met: Met,
    /// This worker, as the owner of connections on the fast path. It is outside whenever anything
    /// is done that others might wait for, or that might wait for others: while packets are sent
    /// first of all.
    pub(in crate::worker) owner: Owner,
}

impl Outputs {
    /// For a worker, for no ports yet.
    #[must_use]
    pub(in crate::worker) fn new(worker: usize, waiting: Waiting, owner: Owner) -> Self {
        let (ports, pending, dead, met) = (Vec::new(), Vec::new(), Burst::new(), Met::default());
        let taps = Taps::new(worker);
        Self { worker, ports, pending, dead, borrowed_from: None, waiting, taps, met, owner }
    }

    /// Makes room for the ports of a snapshot. Between bursts: nothing is gathered.
    pub(in crate::worker) fn fit(&mut self, snapshot: &Snapshot) {
        debug_assert!(self.pending.is_empty(), "a snapshot changes between bursts");
        self.ports.resize_with(snapshot.ports.len(), Gathered::default);
        self.taps.adopt(snapshot.captures.as_ref());
        for (gathered, view) in self.ports.iter_mut().zip(&snapshot.ports) {
            gathered.captured = view.as_ref().is_some_and(|view| self.taps.look_at(view.shared.id, Point::Tx));
            let sends = |view: &&PortView| view.admin_up && view.peer.is_none() && !view.shared.tx.is_empty();
            gathered.plain_max = view.as_ref().filter(sends).map_or(0, |view| view.frame_max);
        }
        self.pending.reserve(snapshot.ports.len());
    }

    /// Queues an ordinary packet for an ordinary port; gives back one that needs a second look.
    #[inline(always)] // in the walk's inner loop
    pub(in crate::worker) fn push_plain(&mut self, snapshot: &Snapshot, port: PortId, mbuf: Mbuf) -> Result<(), Mbuf> {
        match self.ports.get(port.index()) {
            Some(gathered) if mbuf.len() <= gathered.plain_max && mbuf.is_plain() => {
                self.push(snapshot, port, mbuf, false);
                Ok(())
            }
            _ => Err(mbuf),
        }
    }

    /// Queues an ordinary packet that is no longer than [`Outputs::plain_max`] of this port.
    #[inline(always)] // as above
    pub(in crate::worker) fn push_ready(&mut self, snapshot: &Snapshot, port: PortId, mbuf: Mbuf) {
        debug_assert!(mbuf.is_plain() && mbuf.len() <= self.plain_max(port), "{} bytes", mbuf.len());
        self.push(snapshot, port, mbuf, false);
    }

    /// Longest frame that may be queued without a second look if it is ordinary, in bytes; 0: none.
    #[inline]
    pub(in crate::worker) fn plain_max(&self, port: PortId) -> usize {
        self.ports.get(port.index()).map_or(0, |gathered| gathered.plain_max)
    }

    #[inline(always)]
    fn push(&mut self, snapshot: &Snapshot, port: PortId, mbuf: Mbuf, special: bool) {
        let Some(gathered) = self.ports.get_mut(port.index()) else { return };
        gathered.sum.bytes += mbuf.len() as u64;
        gathered.sum.special |= special;
        if !gathered.listed {
            gathered.listed = true;
            self.pending.push(port);
        }
        // There is room: a full burst is sent at once.
        if let Ok(BURST) = gathered.burst.push(mbuf) {
            self.send(snapshot, port);
        }
    }

    /// Queues a packet with a partial checksum, for segmentation or in several segments, in the
    /// form that the port takes.
    #[cold]
    pub(in crate::worker) fn push_unfinished(&mut self, snapshot: &Snapshot, port: PortId, mbuf: Mbuf, pool: &Mempool) {
        let Some(view) = snapshot.port(port) else { return };
        self.owner.leave();
        let counters = &view.shared.counters[self.worker];
        let (device, frame_max) = (&view.shared.device, view.frame_max);
        let refused = if device.is_ready() { oversize_gso(&mbuf, frame_max) } else { Some(DropReason::LinkDown) };
        if let Some(reason) = refused {
            self.drop_packet(&counters.tx_drops, reason, mbuf);
            return;
        }
        let caps = device.tx_caps();
        // A guest gets its copy of borrowed bytes as it is sent; others may keep an mbuf for as
        // long as they like.
        let may_borrow = device.copies() && self.borrowed_from != Some(port);
        let result = offload::finish(mbuf, caps, pool, &mut |mbuf| {
            if mbuf.gso_size() == 0 && mbuf.len() > frame_max {
                counters.tx_drops.count(DropReason::Oversize, Remains::Packet(&mbuf));
                return;
            }
            let special = !mbuf.is_plain();
            if may_borrow || !mbuf.is_borrowed() {
                return self.push(snapshot, port, mbuf, special);
            }
            match mbuf.copy(pool) {
                Some(copy) => self.push(snapshot, port, copy, special),
                None => counters.tx_drops.count(DropReason::NoMbuf, Remains::Packet(&mbuf)),
            }
        });
        match result {
            Ok(Some(done)) => counters.software[done.index()].add(1),
            Ok(None) => {}
            Err(reason) => counters.tx_drops.count_unseen(reason, 1),
        }
    }

    /// Frees a packet that died, and counts why.
    #[inline]
    pub(in crate::worker) fn drop_packet(&mut self, drops: &Drops, reason: DropReason, mbuf: Mbuf) {
        drops.count(reason, Remains::Packet(&mbuf));
        self.free(mbuf);
    }

    /// Frees a packet that nothing more happens to.
    #[inline]
    pub(in crate::worker) fn free(&mut self, mbuf: Mbuf) {
        if self.dead.is_full() {
            self.dead.clear();
        }
        let _ = self.dead.push(mbuf);
    }

    #[inline(never)]
    fn send(&mut self, snapshot: &Snapshot, port: PortId) {
        if self.borrowed_from == Some(port) {
            return self.make_room(snapshot, port);
        }
        let Gathered { burst, sum, captured, .. } = &mut self.ports[port.index()];
        let sum = std::mem::take(sum);
        if burst.is_empty() {
            return; // filled up and sent before the burst ended
        }
        self.owner.leave();
        match snapshot.port(port) {
            Some(view) if !view.shared.tx.is_empty() => {
                let shared = &view.shared;
                let counters: &PortCounters = &shared.counters[self.worker];
                let queue = &shared.tx[self.worker % shared.tx.len()];
                if *captured {
                    send_captured(queue, burst, sum, counters, (port, &mut self.taps));
                } else {
                    queue.lock().send(burst, sum, counters);
                }
            }
            _ => burst.clear(),
        }
    }

    /// Lets one of a full burst go that cannot be sent now.
    #[cold]
    fn make_room(&mut self, snapshot: &Snapshot, port: PortId) {
        let gathered = &mut self.ports[port.index()];
        let Some(last) = gathered.burst.take(BURST - 1) else { return };
        gathered.sum.bytes -= last.len() as u64;
        gathered.burst.remove(BURST - 1);
        if let Some(view) = snapshot.port(port) {
            self.drop_packet(&view.shared.counters[self.worker].tx_drops, DropReason::TxFull, last);
        }
    }

    /// Sends everything that was gathered, port by port, and frees the dead. What is for a guest
    /// that owns borrowed packets is left.
    #[inline]
    pub(in crate::worker) fn flush(&mut self, snapshot: &Snapshot) {
        let mut left = 0;
        for i in 0..self.pending.len() {
            let port = self.pending[i];
            if self.borrowed_from == Some(port) {
                left = 1;
                self.pending[0] = port;
                continue;
            }
            self.ports[port.index()].listed = false;
            self.send(snapshot, port);
        }
        self.pending.truncate(left);
        self.dead.clear();
    }
}

/// Sends a burst of which a capture wants to know what the port took.
#[cold]
#[inline(never)]
fn send_captured(
    queue: &Mutex<TxQueue>,
    burst: &mut Burst,
    sum: Sum,
    counters: &PortCounters,
    (port, taps): (PortId, &mut Taps),
) {
    let packets = burst.len();
    taps.take_sent(burst, port);
    let fates = queue.lock().send_told(burst, sum, counters);
    taps.settle_sent(port, packets, &fates);
}

/// Why a GSO packet may not leave although it will be cut: its pieces would still be longer than
/// the MTU.
fn oversize_gso(mbuf: &Mbuf, frame_max: usize) -> Option<DropReason> {
    if mbuf.gso_size() == 0 {
        return None;
    }
    let piece = offload::piece_len(mbuf)?; // without headers `finish` refuses it by its own reason
    (piece > frame_max).then_some(DropReason::Oversize)
}
