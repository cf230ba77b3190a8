//! The packet walk: what happens to a burst between a receive queue and the transmit queues.

use super::output::Outputs;
use super::{PortView, Snapshot};
use crate::dpdk::{Burst, Mbuf, Mempool};
use crate::limits::{BURST, DEPTH_MAX, FLOOD_MBUFS_MAX, OUTPUTS_MAX};
use crate::observe::DropReason;
use crate::packet::L2;
use crate::pipeline::{Bridge, FdbReader, Lookup, Sighting, Verdict, decide};
use crate::port::PortId;
use std::sync::Arc;

/// One worker's way through the switch.
#[derive(Debug)]
pub struct Walk {
    worker: usize,
    pool: Mempool,
    snapshot: Arc<Snapshot>,
    outputs: Outputs,
}

/// What every step needs.
struct Step<'a> {
    worker: usize,
    pool: &'a Mempool,
    snapshot: &'a Snapshot,
    outputs: &'a mut Outputs,
    now_s: u32,
    /// Outputs that this packet led to so far, its copies included.
    outputs_made: u32,
    /// Mbufs that this burst took for copies.
    flooded_mbufs: u32,
}

impl Walk {
    /// A walk through an empty world.
    #[must_use]
    pub fn new(worker: usize, pool: Mempool) -> Self {
        Self { worker, pool, snapshot: Arc::default(), outputs: Outputs::new(worker) }
    }

    /// From now on the world looks like this. Between bursts.
    pub fn adopt(&mut self, snapshot: Arc<Snapshot>) {
        self.outputs.fit(&snapshot);
        self.snapshot = snapshot;
    }

    /// The world as it looks now.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Takes a burst that came in by `port` through the switch and leaves it empty. Packets are looked at in their order of
    /// arrival: what one teaches, the next knows. What was gathered leaves with [`Walk::flush`], or as soon as it is a full burst.
    #[inline(never)] // registers of its own
    pub fn burst(&mut self, burst: &mut Burst, port: PortId, now_s: u32) {
        let Some(view) = self.snapshot.port(port) else {
            burst.clear(); // a queue of a port that is no longer there is not polled
            return;
        };
        let bridge = &self.snapshot.world.bridges[view.bridge];
        let counters = &view.shared.counters[self.worker];
        let frame_max = if view.admin_up { view.frame_max } else { 0 };

        let mut lookups = [Lookup::default(); BURST];
        let fdb = bridge.fdb.reader();
        let (bytes, ordinary) = parse(fdb, burst, &mut lookups, frame_max);
        let received = burst.len();
        counters.rx_packets.add(received as u64);
        counters.rx_bytes.add(bytes);

        // Decide and output, in order.
        let (worker, pool, snapshot, outputs) = (self.worker, &self.pool, &*self.snapshot, &mut self.outputs);
        let seen = Sighting::new(port, now_s);
        let mut step = Step { worker, pool, snapshot, outputs, now_s, outputs_made: 0, flooded_mbufs: 0 };
        for (mbuf, lookup) in burst.drain().zip(&lookups) {
            let verdict = if ordinary || may_enter(&mbuf, lookup, frame_max) {
                decide(bridge.fail_mode, fdb, lookup, port, seen)
            } else {
                Verdict::Drop(refusal(view, lookup))
            };
            // The common case in a straight line; everything else is a call.
            let mbuf = match verdict {
                Verdict::Output(out) => match step.outputs.push_plain(step.snapshot, out, mbuf) {
                    Ok(()) => continue,
                    Err(mbuf) => mbuf,
                },
                _ => mbuf,
            };
            step.outputs_made = 0;
            step.act(bridge, port, verdict, mbuf, 0);
        }
    }

    /// Sends what was gathered.
    #[inline]
    pub fn flush(&mut self) {
        self.outputs.flush(&self.snapshot);
    }
}

/// Parses a burst and asks for the table lines that the lookups will read. Returns the bytes of all packets, and whether all of
/// them are frames of ordinary length, which need no second look.
#[inline(never)] // registers of its own
fn parse(fdb: FdbReader<'_>, burst: &Burst, lookups: &mut [Lookup; BURST], frame_max: usize) -> (u64, bool) {
    let (mut bytes, mut ordinary) = (0, true);
    for (mbuf, lookup) in burst.iter().zip(lookups) {
        bytes += mbuf.len() as u64;
        ordinary &= mbuf.len() <= frame_max;
        match L2::parse(mbuf.head()) {
            Some(l2) => *lookup = Lookup::new(fdb, l2),
            None => ordinary = false,
        }
    }
    (bytes, ordinary)
}

/// Whether a packet of a burst that is not all ordinary may come in: it may be longer than the MTU if it is for segmentation.
#[cold]
fn may_enter(mbuf: &Mbuf, lookup: &Lookup, frame_max: usize) -> bool {
    lookup.is_some() && (mbuf.len() <= frame_max || (frame_max > 0 && mbuf.gso_size() > 0))
}

/// Why a packet may not come in.
#[cold]
fn refusal(view: &PortView, lookup: &Lookup) -> DropReason {
    if !view.admin_up {
        DropReason::AdminDown
    } else if lookup.is_some() {
        DropReason::Oversize
    } else {
        DropReason::EthShort
    }
}

impl Step<'_> {
    #[cold]
    fn act(&mut self, bridge: &Bridge, in_port: PortId, verdict: Verdict, mbuf: Mbuf, depth: u32) {
        match verdict {
            Verdict::Output(port) => self.output(port, in_port, mbuf, depth),
            Verdict::Flood => self.flood(bridge, in_port, mbuf, depth),
            Verdict::Drop(reason) => self.drop_in(in_port, reason, mbuf),
        }
    }

    fn output(&mut self, port: PortId, in_port: PortId, mbuf: Mbuf, depth: u32) {
        if let Err(mbuf) = self.outputs.push_plain(self.snapshot, port, mbuf) {
            self.output_special(port, in_port, mbuf, depth);
        }
    }

    /// Patch ports, packets that are to be finished first, and all the reasons not to send.
    #[cold]
    fn output_special(&mut self, port: PortId, in_port: PortId, mbuf: Mbuf, depth: u32) {
        let Some(view) = self.snapshot.port(port) else {
            self.drop_in(in_port, DropReason::PortGone, mbuf);
            return;
        };
        if let Some(peer) = view.peer {
            self.cross(port, peer, mbuf, depth);
        } else if !view.admin_up {
            self.drop_out(port, DropReason::AdminDown, mbuf);
        } else if view.shared.tx.is_empty() {
            self.drop_out(port, DropReason::LinkDown, mbuf); // a patch port without its other end
        } else if mbuf.is_plain() {
            self.drop_out(port, DropReason::Oversize, mbuf);
        } else {
            self.outputs.push_unfinished(self.snapshot, port, mbuf, self.pool);
        }
    }

    /// A copy for every port of the flood list but the ingress port; the last one gets the packet itself.
    #[cold]
    fn flood(&mut self, bridge: &Bridge, in_port: PortId, mbuf: Mbuf, depth: u32) {
        let mut last = None;
        for port in bridge.flood.iter().copied().filter(|port| *port != in_port) {
            if let Some(port) = last.replace(port) {
                self.flood_copy(port, in_port, &mbuf, depth);
            }
        }
        match last {
            Some(port) => self.output(port, in_port, mbuf, depth),
            None => self.drop_in(in_port, DropReason::NoPort, mbuf),
        }
    }

    fn flood_copy(&mut self, port: PortId, in_port: PortId, mbuf: &Mbuf, depth: u32) {
        self.outputs_made += 1;
        let segments = mbuf.len() / usize::from(mbuf.gso_size()).max(64);
        self.flooded_mbufs += u32::try_from(mbuf.nb_segs().max(segments)).unwrap_or(FLOOD_MBUFS_MAX);
        // What cannot leave is not copied.
        let ready = self.snapshot.port(port).is_some_and(|view| view.shared.device.is_ready());
        let reason = if !ready {
            DropReason::LinkDown
        } else if self.outputs_made > OUTPUTS_MAX {
            DropReason::Depth
        } else if self.flooded_mbufs > FLOOD_MBUFS_MAX {
            DropReason::FloodBudget
        } else if let Some(copy) = mbuf.copy(self.pool) {
            return self.output(port, in_port, copy, depth);
        } else {
            DropReason::NoMbuf
        };
        if let Some(view) = self.snapshot.port(port) {
            view.shared.counters[self.worker].tx_drops[reason.index()].add(1);
        }
    }

    /// Through a patch port: out of one bridge and into another, at once.
    #[cold]
    fn cross(&mut self, port: PortId, peer: PortId, mbuf: Mbuf, depth: u32) {
        let (Some(out), Some(view)) = (self.snapshot.port(port), self.snapshot.port(peer)) else {
            self.drop_out(port, DropReason::PortGone, mbuf);
            return;
        };
        self.outputs_made += 1;
        if depth >= DEPTH_MAX || self.outputs_made > OUTPUTS_MAX {
            self.drop_out(port, DropReason::Depth, mbuf);
            return;
        }
        if !out.admin_up || !view.admin_up {
            self.drop_out(port, DropReason::AdminDown, mbuf);
            return;
        }
        let len = mbuf.len() as u64;
        let (sent, received) = (&out.shared.counters[self.worker], &view.shared.counters[self.worker]);
        sent.tx_packets.add(1);
        sent.tx_bytes.add(len);
        received.rx_packets.add(1);
        received.rx_bytes.add(len);
        let bridge = &self.snapshot.world.bridges[view.bridge];
        let verdict = match L2::parse(mbuf.head()) {
            Some(l2) => {
                let (fdb, seen) = (bridge.fdb.reader(), Sighting::new(peer, self.now_s));
                decide(bridge.fail_mode, fdb, &Lookup::new(fdb, l2), peer, seen)
            }
            None => Verdict::Drop(DropReason::EthShort),
        };
        self.act(bridge, peer, verdict, mbuf, depth + 1);
    }

    #[cold]
    fn drop_in(&mut self, port: PortId, reason: DropReason, mbuf: Mbuf) {
        if let Some(view) = self.snapshot.port(port) {
            self.outputs.drop_packet(&view.shared.counters[self.worker].rx_drops, reason, mbuf);
        }
    }

    #[cold]
    fn drop_out(&mut self, port: PortId, reason: DropReason, mbuf: Mbuf) {
        if let Some(view) = self.snapshot.port(port) {
            self.outputs.drop_packet(&view.shared.counters[self.worker].tx_drops, reason, mbuf);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PortShared;
    use super::*;
    use crate::observe::PortCounters;
    use crate::pipeline::{self, FailMode, Fdb};
    use crate::port::sim::{SimRxQueue, SimTxQueue, SimWire};
    use crate::port::{Device, RxQueue, TxQueue};
    use parking_lot::Mutex;

    /// What a test bridge is made of: ports by index, some of them patches to others.
    struct World {
        pool: Mempool,
        wires: Vec<Arc<SimWire>>,
        walk: Walk,
    }

    fn world(bridges: &[&[usize]], patches: &[(usize, usize)], change: impl Fn(usize, &mut PortView)) -> World {
        let ports = bridges.iter().map(|ports| ports.len()).sum();
        let wires: Vec<Arc<SimWire>> = (0..ports).map(|_| Arc::default()).collect();
        let mut views: Vec<Option<PortView>> = vec![None; ports];
        for (bridge, members) in bridges.iter().enumerate() {
            for &port in *members {
                let peer = patches.iter().find_map(|&(a, b)| match port {
                    p if p == a => Some(b),
                    p if p == b => Some(a),
                    _ => None,
                });
                let tx = TxQueue::Sim(SimTxQueue(Arc::clone(&wires[port])));
                let shared = PortShared {
                    id: id(port),
                    name: format!("p{port}"),
                    tx: if peer.is_some() { Box::new([]) } else { Box::new([Mutex::new(tx)]) },
                    counters: Box::new([PortCounters::default()]),
                    device: Device::Sim,
                };
                let peer = peer.map(id);
                let mut view = PortView { bridge, admin_up: true, frame_max: 1522, peer, shared: Arc::new(shared) };
                change(port, &mut view);
                views[port] = Some(view);
            }
        }
        let bridges = bridges
            .iter()
            .map(|members| Bridge {
                flood: members.iter().map(|port| id(*port)).collect(),
                ..Bridge::new("br", FailMode::Standalone, Arc::new(Fdb::new(1024, 300)))
            })
            .collect();
        let world = Arc::new(pipeline::World { bridges, ..pipeline::World::default() });
        let pool = Mempool::for_tests(512);
        let mut walk = Walk::new(0, pool.clone());
        walk.adopt(Arc::new(Snapshot { world, ports: views, rxqs: vec![Vec::new()] }));
        World { pool, wires, walk }
    }

    fn id(port: usize) -> PortId {
        PortId(u16::try_from(port).expect("a small number"))
    }

    fn frame(destination: u8, source: u8, tail: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, destination, 2, 0, 0, 0, 0, source, 8, 0];
        frame.resize(60, tail);
        frame
    }

    impl World {
        /// Receives the frames by one port in bursts of `size`.
        fn receive(&mut self, port: usize, frames: &[Vec<u8>], size: usize) {
            let mut queue = RxQueue::Sim(SimRxQueue(Arc::clone(&self.wires[port])));
            let counters = PortCounters::default();
            for chunk in frames.chunks(size) {
                chunk.iter().for_each(|frame| self.wires[port].put(&self.pool, frame));
                let mut burst = Burst::new();
                queue.receive(&mut burst, &counters);
                assert_eq!(burst.len(), chunk.len(), "bursts of {size}");
                self.walk.burst(&mut burst, id(port), 0);
                self.walk.flush();
            }
        }

        fn totals(&self, port: usize) -> crate::observe::PortTotals {
            self.walk.snapshot().port(id(port)).expect("a port").shared.totals()
        }
    }

    #[test]
    fn bursts_of_any_size_give_the_same_bytes_order_and_counters() {
        // 67 is no multiple of anything; addresses collide and move between ports inside a burst.
        let frames: Vec<Vec<u8>> = (0..67_u8).map(|i| frame(i % 5 * 7 % 5, i % 5 * 11 % 3, i)).collect();
        let mut results = Vec::new();
        for size in [1, 2, 31, 32] {
            let mut world = world(&[&[0, 1, 2]], &[], |_, _| ());
            for port in [0, 1, 2] {
                world.receive(port, &frames, size);
            }
            let sent: Vec<Vec<Vec<u8>>> = world.wires.iter().map(|wire| wire.take()).collect();
            let totals: Vec<_> = (0..3).map(|port| world.totals(port)).collect();
            assert_eq!(world.pool.in_use(), 0, "bursts of {size}: an mbuf was lost");
            results.push((size, sent, totals));
        }
        assert!(results[0].1.iter().all(|sent| !sent.is_empty()), "every port sent something");
        for (size, sent, totals) in &results[1..] {
            assert!(*sent == results[0].1, "bursts of {size} and of 1 sent different packets");
            assert_eq!(*totals, results[0].2, "bursts of {size} and of 1 counted differently");
        }
    }

    #[test]
    fn every_lost_packet_has_one_reason() {
        let mut world = world(&[&[0, 1, 2]], &[], |port, view| view.admin_up = port != 2);
        let mut long = frame(1, 0, 0);
        long.resize(1523, 0);
        world.receive(0, &[vec![1; 13], long, frame(9, 0, 0)], 32);
        world.receive(2, &[frame(0, 2, 0)], 32);
        world.receive(1, &[frame(1, 1, 0), frame(9, 9, 0), frame(9, 1, 0)], 32);
        let (zero, one, two) = (world.totals(0), world.totals(1), world.totals(2));
        assert_eq!(zero.rx_drops[DropReason::EthShort.index()], 1);
        assert_eq!(zero.rx_drops[DropReason::Oversize.index()], 1);
        assert_eq!(two.rx_drops[DropReason::AdminDown.index()], 1);
        assert_eq!(one.rx_drops[DropReason::SamePort.index()], 3);
        assert_eq!(two.tx_drops[DropReason::AdminDown.index()], 1, "the flooded copy");
        assert_eq!((zero.rx_packets, one.tx_packets, world.pool.in_use()), (3, 1, 0));
    }

    #[test]
    fn patches_join_bridges_and_loops_end() {
        // 0 - bridge - 1 = 2 - bridge - 3
        let mut chain = world(&[&[0, 1], &[2, 3]], &[(1, 2)], |_, _| ());
        chain.receive(0, &[frame(3, 0, 7)], 1);
        assert_eq!(chain.wires[3].take(), [frame(3, 0, 7)]);
        chain.receive(3, &[frame(0, 3, 8)], 1);
        assert_eq!(chain.wires[0].take(), [frame(0, 3, 8)]);
        let (out, back) = (chain.totals(1), chain.totals(2));
        assert_eq!((out.tx_packets, out.rx_packets, back.tx_packets, back.rx_packets), (1, 1, 1, 1));

        // Three patches between two bridges: a broadcast would double at every crossing.
        let mut looped = world(&[&[0, 1, 2, 3], &[4, 5, 6]], &[(1, 4), (2, 5), (3, 6)], |_, _| ());
        let mut broadcast = frame(0, 0, 0);
        broadcast[..6].fill(0xff);
        looped.receive(0, &[broadcast], 1);
        let dropped: u64 = (1..7).map(|port| looped.totals(port).tx_drops[DropReason::Depth.index()]).sum();
        assert!(dropped > 0, "the loop was not cut");
        assert_eq!(looped.pool.in_use(), 0);
    }

    #[test]
    fn empty_pool_costs_copies_not_the_packet() {
        let mut world = world(&[&[0, 1, 2]], &[], |_, _| ());
        let mut hoard: Vec<_> = std::iter::from_fn(|| world.pool.alloc()).collect();
        drop(hoard.pop());
        world.receive(0, &[frame(9, 0, 0)], 1);
        let (one, two) = (world.totals(1), world.totals(2));
        assert_eq!((one.tx_drops[DropReason::NoMbuf.index()], two.tx_packets), (1, 1));
    }
}
