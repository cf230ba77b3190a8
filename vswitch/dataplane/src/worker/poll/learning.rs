//! The learning switch: packets of a bridge without tables. The shortest way through the switch, in
//! a loop of its own.

use crate::cache::{Cache, Megaflow};
use crate::limits::{BURST, DEPTH_MAX, OUTPUTS_MAX};
use crate::observe::DropReason;
use crate::packet::L2;
use crate::pipeline::{Bridge, FdbReader, LearningVerdict, Lookup, Sighting, decide, is_special};
use crate::port::PortId;
use crate::time::Millis;
use crate::worker::poll::walk::Way;
use crate::worker::step::StepContext;
use crate::worker::{PortView, Walk};
use std::sync::Arc;
use vswitch_dpdk::{Burst, Mbuf};

impl Walk {
    /// [`Walk::burst`] for a port of a bridge without tables.
    #[inline(never)] // registers of its own
    pub(in crate::worker) fn learning_burst(&mut self, burst: &mut Burst, port: PortId, now: Millis) {
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
        let (conntrack, budget) = (&*self.conntrack, self.budgets.of(port));
        let seen = Sighting::new(port, now.seconds());
        let step = StepContext::new(worker, pool, snapshot, outputs, conntrack, budget, now);
        let mut switching = Switching { step, cache: &mut self.cache, ways: &self.bridge_ways, tallies: &self.tallies };
        let (mut counted, mut counted_bytes) = (received as u64, bytes);
        for (mbuf, lookup) in burst.drain().zip(&lookups) {
            if !ordinary && takes_the_slow_path(&mbuf) && may_enter(&mbuf, lookup, frame_max) {
                counted -= 1;
                counted_bytes -= mbuf.len() as u64;
                switching.step.next_packet();
                switching.step.enter(switching.cache, port, mbuf);
                continue;
            }
            let verdict = if ordinary || may_enter(&mbuf, lookup, frame_max) {
                decide(bridge.fail_mode, fdb, lookup, port, seen)
            } else {
                counted -= 1;
                counted_bytes -= mbuf.len() as u64;
                LearningVerdict::Drop(refusal(view, lookup))
            };
            // The common case in a straight line; everything else is a call.
            let mbuf = match verdict {
                LearningVerdict::Output(out) => {
                    match switching.step.outputs.push_plain(switching.step.snapshot, out, mbuf) {
                        Ok(()) => continue,
                        Err(mbuf) => mbuf,
                    }
                }
                _ => mbuf,
            };
            switching.step.next_packet();
            switching.act(bridge, port, verdict, mbuf, 0);
        }
        if let Some(Some(tally)) = self.tallies.get(view.bridge) {
            tally.count(counted, counted_bytes, now);
        }
    }
}

/// Parses a burst and asks for the table lines that the lookups will read. Returns the bytes of all
/// packets, and whether all of them are frames of ordinary length, which need no second look.
#[inline(never)] // registers of its own
fn parse(fdb: FdbReader<'_>, burst: &Burst, lookups: &mut [Lookup; BURST], frame_max: usize) -> (u64, bool) {
    let (mut bytes, mut ordinary) = (0, true);
    for (mbuf, lookup) in burst.iter().zip(lookups) {
        bytes += mbuf.len() as u64;
        ordinary &= mbuf.len() <= frame_max;
        match l2_of(mbuf) {
            Some(l2) => {
                ordinary &= !is_special(&l2);
                *lookup = Lookup::new(fdb, l2);
            }
            None => ordinary = false,
        }
    }
    (bytes, ordinary)
}

/// What a learning switch reads of a packet.
#[inline(always)] // in the loop over a burst
fn l2_of(mbuf: &Mbuf) -> Option<L2> {
    L2::parse(mbuf.head()).or_else(|| l2_in_pieces(mbuf))
}

/// Likewise, where the first segment ends within it.
#[cold]
#[inline(never)]
fn l2_in_pieces(mbuf: &Mbuf) -> Option<L2> {
    let mut bytes = [0; 16];
    let bytes = &mut bytes[..mbuf.len().min(16)];
    if mbuf.read(0, bytes) { L2::parse(bytes) } else { None }
}

/// See [`is_special`].
#[cold]
fn takes_the_slow_path(mbuf: &Mbuf) -> bool {
    l2_of(mbuf).is_some_and(|l2| is_special(&l2))
}

/// Whether a packet of a burst that is not all ordinary may come in: it may be longer than the MTU
/// if it is for segmentation.
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

/// A packet's way through learning switches, and out of them.
pub(in crate::worker) struct Switching<'a> {
    pub(in crate::worker) step: StepContext<'a>,
    pub(in crate::worker) cache: &'a mut Cache,
    /// By bridge.
    pub(in crate::worker) ways: &'a [Way],
    /// By bridge.
    pub(in crate::worker) tallies: &'a [Option<Arc<Megaflow>>],
}

impl Switching<'_> {
    #[cold]
    fn act(&mut self, bridge: &Bridge, in_port: PortId, verdict: LearningVerdict, mbuf: Mbuf, depth: u32) {
        match verdict {
            LearningVerdict::Output(port) => self.output(port, in_port, mbuf, depth),
            LearningVerdict::Flood => self.flood(bridge, in_port, mbuf, depth),
            LearningVerdict::Drop(reason) => self.step.drop_in(in_port, reason, mbuf),
        }
    }

    /// A packet leaves by a port, or crosses a patch port.
    fn output(&mut self, port: PortId, in_port: PortId, mbuf: Mbuf, depth: u32) {
        if let Err(mbuf) = self.step.outputs.push_plain(self.step.snapshot, port, mbuf) {
            match self.step.snapshot.port(port).and_then(|view| view.peer) {
                Some(peer) => self.cross(port, peer, mbuf, depth),
                None => self.step.output_special(port, in_port, mbuf),
            }
        }
    }

    /// A copy for every port of the flood list but the ingress port; the last one gets the packet
    /// itself.
    #[cold]
    fn flood(&mut self, bridge: &Bridge, in_port: PortId, mbuf: Mbuf, depth: u32) {
        let mut last = None;
        for port in bridge.flood.iter().copied().filter(|port| *port != in_port) {
            if let Some(port) = last.replace(port)
                && let Some(copy) = self.step.copy_for(port, &mbuf)
            {
                self.output(port, in_port, copy, depth);
            }
        }
        match last {
            Some(port) => self.output(port, in_port, mbuf, depth),
            None => self.step.drop_in(in_port, DropReason::NoPort, mbuf),
        }
    }

    /// Through a patch port: out of one bridge and into another, at once.
    #[cold]
    fn cross(&mut self, port: PortId, peer: PortId, mbuf: Mbuf, depth: u32) {
        let step = &mut self.step;
        let (Some(out), Some(view)) = (step.snapshot.port(port), step.snapshot.port(peer)) else {
            step.drop_out(port, DropReason::PortGone, mbuf);
            return;
        };
        step.outputs_made += 1;
        if depth >= DEPTH_MAX || step.outputs_made > OUTPUTS_MAX {
            step.drop_out(port, DropReason::Depth, mbuf);
            return;
        }
        if !out.admin_up || !view.admin_up {
            step.drop_out(port, DropReason::AdminDown, mbuf);
            return;
        }
        let len = mbuf.len() as u64;
        let (sent, received) = (&out.shared.counters[step.worker], &view.shared.counters[step.worker]);
        sent.tx_packets.add(1);
        sent.tx_bytes.add(len);
        received.rx_packets.add(1);
        received.rx_bytes.add(len);
        let bridge = &step.snapshot.world.bridges[view.bridge];
        if self.ways.get(view.bridge) != Some(&Way::Learning) || takes_the_slow_path(&mbuf) {
            return step.enter(self.cache, peer, mbuf);
        }
        if let Some(Some(tally)) = self.tallies.get(view.bridge) {
            tally.count(1, len, step.now);
        }
        let verdict = match l2_of(&mbuf) {
            Some(l2) => {
                let (fdb, seen) = (bridge.fdb.reader(), Sighting::new(peer, step.now.seconds()));
                decide(bridge.fail_mode, fdb, &Lookup::new(fdb, l2), peer, seen)
            }
            None => LearningVerdict::Drop(DropReason::EthShort),
        };
        self.act(bridge, peer, verdict, mbuf, depth + 1);
    }
}
