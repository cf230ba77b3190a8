//! Packet-ins, packets that wait for a controller to say go on, and answers to packets that are
//! refused.

use super::run::{Frame, Translator};
use crate::action::{Op, PacketInOp, RejectOp};
use crate::observe::DropReason;
use crate::pipeline::packet_in::Segment;
use crate::pipeline::{Continuation, Counted};
use std::sync::Arc;
use vswitch_flow::Field as F;
use vswitch_flow::action::{Controller, Reason, Reject};
use vswitch_flow::{Action, FlowKey, FlowMask};

impl Translator<'_, '_> {
    /// A copy goes to the controllers.
    pub(super) fn packet_in(
        &mut self,
        frame: &Frame<'_>,
        reason: Reason,
        controller: u16,
        userdata: &[u8],
        meter: Option<u32>,
    ) {
        let table_miss = |rule: &crate::pipeline::Rule| rule.priority == 0 && rule.matching.map() == 0;
        let reason = match reason {
            Reason::Action if frame.rule.as_deref().is_some_and(table_miss) => Reason::NoMatch,
            reason => reason,
        };
        let mut op = self.packet_in_op(frame, reason, controller, userdata);
        self.limit(&mut op, frame, meter);
        self.push(Op::PacketIn(Box::new(op)));
        self.delivered = true;
    }

    /// `controller(...)`.
    pub(super) fn controller(&mut self, frame: &Frame<'_>, action: &Controller) {
        self.packet_in(frame, action.reason, action.id, &action.userdata, action.meter);
    }

    /// The packet stops, with everything that is still to be done for it.
    pub(super) fn pause(&mut self, action: &Controller, frames: &[Frame<'_>]) {
        let segments = frames.iter().rev().map(|frame| Segment {
            table: frame.table,
            cookie: frame.cookie,
            actions: frame.rest().into(),
        });
        let continuation = Continuation {
            bridge: Arc::clone(&self.world.bridges[self.bridge].name),
            segments: segments.filter(|segment| !segment.actions.is_empty()).collect(),
            set: self.set.actions().into(),
            stack: self.stack.clone().into(),
        };
        // Open vSwitch names the outermost list, whichever of those that it called pauses.
        let Some(frame) = frames.first() else { return };
        let mut op = self.packet_in_op(frame, action.reason, action.id, &action.userdata);
        op.continuation = Some(Arc::new(continuation));
        // The list where it pauses is the innermost one.
        self.limit(&mut op, frames.last().unwrap_or(frame), action.meter);
        self.push(Op::PacketIn(Box::new(op)));
        self.delivered = true;
    }

    fn packet_in_op(&mut self, frame: &Frame<'_>, reason: Reason, controller: u16, userdata: &[u8]) -> PacketInOp {
        self.commit();
        let (metadata, defined) = self.taken_along();
        PacketInOp {
            bridge: self.bridge,
            controller,
            reason,
            table: frame.table,
            cookie: frame.cookie,
            userdata: userdata.into(),
            metadata,
            defined,
            meter: None,
            metered: false,
            continuation: None,
        }
    }

    /// What limits a packet-in: its own meter, and those in front of it in its list.
    fn limit(&mut self, op: &mut PacketInOp, frame: &Frame<'_>, meter: Option<u32>) {
        op.meter = meter.and_then(|id| self.meter(id));
        let before = frame.done().iter().filter_map(|action| match action {
            Action::Meter(id) => Some(*id),
            _ => None,
        });
        op.metered = before.chain(meter).any(|id| self.meter(id).is_some_and(|meter| meter.limits()));
    }

    /// `reject(...)`. What the answer is, and what becomes of it, is for each packet to say: it is
    /// another packet, with headers of its own. The packet itself stays as it is, so that nothing
    /// need be written into it before.
    pub(super) fn reject(&mut self, reject: &Reject, frame: &Frame<'_>) {
        let (metadata, defined) = self.taken_along();
        let (bridge, table, cookie) = (self.bridge, frame.table, frame.cookie);
        let (mtu, reject) = (reject.mtu, Arc::new(reject.clone()));
        let sent = self.count(Counted::Rejects);
        // On the way of packets that are too long. Shorter ones go the other way, so the decision
        // as a whole drops none.
        let ends = mtu != 0 && self.work.ways > 0 && self.work.ways == self.work.clones && !self.delivered;
        self.push(Op::Reject(Box::new(RejectOp { bridge, table, cookie, reject, metadata, defined, ends, sent })));
        if !ends {
            self.reason.get_or_insert(if mtu == 0 { DropReason::Rejected } else { DropReason::PathMtu });
        }
        self.detail(|| {
            "The sender is told, if he may be. The answer goes through these actions as a packet of its own.".to_owned()
        });
    }

    /// The metadata as it is here, and the bits of it that are the same for all packets of this
    /// decision.
    fn taken_along(&self) -> (FlowKey, FlowMask) {
        let (written, mask) = (&self.view.packet.written, &self.view.mask);
        let (mut metadata, defined) = self.view.metadata(|i| written.0[i] | mask.0[i]);
        // Open vSwitch does not count it as metadata.
        metadata.set(F::ActsetOutput, 0);
        (metadata, defined)
    }
}
