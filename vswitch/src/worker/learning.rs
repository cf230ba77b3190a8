//! The learning switch: packets of a bridge without tables. The shortest way through the switch, in a loop of its own.

use super::step::Step;
use super::walk::Way;
use super::{PortView, Walk};
use crate::dpdk::{Burst, Mbuf};
use crate::limits::{BURST, DEPTH_MAX, OUTPUTS_MAX};
use crate::observe::DropReason;
use crate::packet::L2;
use crate::pipeline::{Bridge, FdbReader, Lookup, Sighting, Verdict, decide};
use crate::port::PortId;
use crate::time::Millis;

impl Walk {
    /// [`Walk::burst`] for a port of a bridge without tables.
    #[inline(never)] // registers of its own
    pub(super) fn learning_burst(&mut self, burst: &mut Burst, port: PortId, now: Millis) {
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
        let seen = Sighting::new(port, now.seconds());
        let mut step = Step { worker, pool, snapshot, outputs, now, outputs_made: 0, flooded_mbufs: 0 };
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
pub(super) fn may_enter(mbuf: &Mbuf, lookup: &Lookup, frame_max: usize) -> bool {
    lookup.is_some() && (mbuf.len() <= frame_max || (frame_max > 0 && mbuf.gso_size() > 0))
}

/// Why a packet may not come in.
#[cold]
pub(super) fn refusal(view: &PortView, lookup: &Lookup) -> DropReason {
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

    /// A copy for every port of the flood list but the ingress port; the last one gets the packet itself.
    #[cold]
    fn flood(&mut self, bridge: &Bridge, in_port: PortId, mbuf: Mbuf, depth: u32) {
        let mut last = None;
        for port in bridge.flood.iter().copied().filter(|port| *port != in_port) {
            if let Some(port) = last.replace(port) {
                self.output_copy(port, in_port, &mbuf, depth);
            }
        }
        match last {
            Some(port) => self.output(port, in_port, mbuf, depth),
            None => self.drop_in(in_port, DropReason::NoPort, mbuf),
        }
    }

    /// Through a patch port: out of one bridge and into another, at once.
    #[cold]
    pub(super) fn cross(&mut self, port: PortId, peer: PortId, mbuf: Mbuf, depth: u32) {
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
        if Way::of(bridge) == Way::Tables {
            self.tables(peer, mbuf);
            return;
        }
        let verdict = match L2::parse(mbuf.head()) {
            Some(l2) => {
                let (fdb, seen) = (bridge.fdb.reader(), Sighting::new(peer, self.now.seconds()));
                decide(bridge.fail_mode, fdb, &Lookup::new(fdb, l2), peer, seen)
            }
            None => Verdict::Drop(DropReason::EthShort),
        };
        self.act(bridge, peer, verdict, mbuf, depth + 1);
    }
}
