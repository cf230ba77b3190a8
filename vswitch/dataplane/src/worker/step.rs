//! What every step of the walk needs: the ways out, and the counters of what died.

use crate::conntrack::Conntrack;
use crate::limits::{FLOOD_MBUFS_MAX, OUTPUTS_MAX, SEGMENT_MIN};
use crate::meter::Budget;
use crate::observe::{DropReason, Remains};
use crate::port::PortId;
use crate::time::Millis;
use crate::worker::Snapshot;
use crate::worker::poll::output::Outputs;
use crate::worker::slow::execute::Origin;
use crate::worker::slow::forget::Last;
use vswitch_dpdk::{Mbuf, Mempool};

/// What every step needs.
pub(super) struct StepContext<'a> {
    pub(super) worker: usize,
    pub(super) pool: &'a Mempool,
    pub(super) snapshot: &'a Snapshot,
    pub(super) outputs: &'a mut Outputs,
    pub(super) conntrack: &'a Conntrack,
    /// Of the port that the burst came in by: it pays for whatever its packets lead to.
    pub(super) budget: &'a Budget,
    pub(super) now: Millis,
    /// Outputs that this packet led to so far, its copies included.
    pub(super) outputs_made: u32,
    /// Stages behind `ct()` that this packet led to so far, its copies included.
    pub(super) stages_entered: u32,
    /// Mbufs that this burst took for copies.
    pub(super) flooded_mbufs: u32,
    /// Tunnels that the packet in hand has come out of.
    pub(super) tunnels_left: u32,
    /// It is a question to a neighbour.
    pub(super) asking: bool,
    /// It is a message to a sender, in the name of somebody who did not send it.
    pub(super) telling: bool,
    /// The sender of the packet in hand was told something.
    pub(super) told: bool,
    /// What the packet that sets out next has met before it was paused.
    pub(super) resumed: Last,
}

impl<'a> StepContext<'a> {
    /// For a burst.
    pub(super) fn new(
        worker: usize,
        pool: &'a Mempool,
        snapshot: &'a Snapshot,
        outputs: &'a mut Outputs,
        conntrack: &'a Conntrack,
        budget: &'a Budget,
        now: Millis,
    ) -> Self {
        outputs.met.clear();
        let (outputs_made, stages_entered, flooded_mbufs) = (0, 0, 0);
        Self {
            worker,
            pool,
            snapshot,
            outputs,
            conntrack,
            budget,
            now,
            outputs_made,
            stages_entered,
            flooded_mbufs,
            tunnels_left: 0,
            asking: false,
            telling: false,
            told: false,
            resumed: 0,
        }
    }
}

impl StepContext<'_> {
    /// What follows is another packet.
    #[inline]
    pub(super) fn next_packet(&mut self) {
        (self.outputs_made, self.stages_entered, self.told) = (0, 0, false);
    }

    /// A packet leaves by a port that is no patch port. If the port is gone, that is counted at
    /// `in_port`.
    #[inline(always)] // a call costs as much as what it does
    pub(super) fn output(&mut self, port: PortId, in_port: PortId, mbuf: Mbuf) {
        if let Err(mbuf) = self.outputs.push_plain(self.snapshot, port, mbuf) {
            self.output_special(port, in_port, mbuf);
        }
    }

    /// Packets that are to be finished first, and all the reasons not to send.
    #[cold]
    pub(super) fn output_special(&mut self, port: PortId, in_port: PortId, mbuf: Mbuf) {
        let Some(view) = self.snapshot.port(port) else {
            self.drop_in(in_port, DropReason::PortGone, mbuf);
            return;
        };
        if !view.admin_up {
            self.drop_out(port, DropReason::AdminDown, mbuf);
        } else if view.shared.tx.is_empty() {
            // A patch port: the other end is missing
            self.drop_out(port, DropReason::LinkDown, mbuf);
        } else if mbuf.is_plain() {
            self.drop_out(port, DropReason::Oversize, mbuf);
        } else {
            self.outputs.push_unfinished(self.snapshot, port, mbuf, self.pool);
        }
    }

    /// A copy to leave by a port, within the budgets. Why there is none is counted at the port.
    pub(super) fn copy_for(&mut self, port: PortId, mbuf: &Mbuf) -> Option<Mbuf> {
        let spent = self.spend(mbuf);
        // What cannot leave is not copied.
        let ready = self.snapshot.port(port).is_some_and(|view| view.shared.device.is_ready());
        let copy = match spent {
            _ if !ready => Err(DropReason::LinkDown),
            Err(reason) => Err(reason),
            Ok(()) => mbuf.copy(self.pool).ok_or(DropReason::NoMbuf),
        };
        copy.inspect_err(|reason| self.count_drop_out(port, *reason, Remains::Packet(mbuf))).ok()
    }

    /// A copy of a packet to work on, within the budgets.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn copy_within_budget(&mut self, mbuf: &Mbuf) -> Result<Mbuf, DropReason> {
        self.spend(mbuf)?;
        mbuf.copy(self.pool).ok_or(DropReason::NoMbuf)
    }

    /// Takes a copy of a packet from the budgets.
    pub(super) fn spend(&mut self, mbuf: &Mbuf) -> Result<(), DropReason> {
        self.outputs_made += 1;
        // Copies fill their segments, however short those of the packet are; what is for
        // segmentation may be cut on the way out.
        let mut mbufs = mbuf.len().div_ceil(self.pool.segment_len());
        if mbuf.gso_size() != 0 {
            mbufs = mbufs.max(mbuf.len() / usize::from(mbuf.gso_size()).max(SEGMENT_MIN));
        }
        self.flooded_mbufs += u32::try_from(mbufs).unwrap_or(FLOOD_MBUFS_MAX);
        if self.outputs_made > OUTPUTS_MAX {
            Err(DropReason::Depth)
        } else if self.flooded_mbufs > FLOOD_MBUFS_MAX {
            Err(DropReason::FloodBudget)
        } else {
            Ok(())
        }
    }

    /// A packet that was to leave by a port was never made. `remains`: of which it was to be made.
    #[cold]
    pub(super) fn count_drop_out(&self, port: PortId, reason: DropReason, remains: Remains<'_>) {
        if let Some(view) = self.snapshot.port(port) {
            view.shared.counters[self.worker].tx_drops.count(reason, remains);
        }
    }

    /// Something that came in by a port died, though the packet itself may live.
    #[cold]
    pub(super) fn count_drop_in(&self, port: PortId, reason: DropReason, remains: Remains<'_>) {
        if let Some(view) = self.snapshot.port(port) {
            view.shared.counters[self.worker].rx_drops.count(reason, remains);
        }
    }

    /// [`Self::count_drop_in`], of a packet with a decision.
    #[cold]
    pub(super) fn count_decided(&self, origin: &Origin<'_>, reason: DropReason, remains: Remains<'_>) {
        if let Some(view) = self.snapshot.port(origin.port) {
            view.shared.counters[self.worker].rx_drops.count_decided(reason, remains, origin.decider);
        }
    }

    /// [`Self::drop_in`], of a packet with a decision.
    #[cold]
    pub(super) fn drop_decided(&mut self, origin: &Origin<'_>, reason: DropReason, mbuf: Mbuf) {
        self.count_decided(origin, reason, Remains::Packet(&mbuf));
        self.outputs.free(mbuf);
    }

    /// A packet that came in by a port dies.
    #[cold]
    pub(super) fn drop_in(&mut self, port: PortId, reason: DropReason, mbuf: Mbuf) {
        if let Some(view) = self.snapshot.port(port) {
            self.outputs.drop_packet(&view.shared.counters[self.worker].rx_drops, reason, mbuf);
        }
    }

    /// A packet that was to leave by a port dies.
    #[cold]
    pub(super) fn drop_out(&mut self, port: PortId, reason: DropReason, mbuf: Mbuf) {
        if let Some(view) = self.snapshot.port(port) {
            self.outputs.drop_packet(&view.shared.counters[self.worker].tx_drops, reason, mbuf);
        }
    }
}
