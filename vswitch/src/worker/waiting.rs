//! Packets for tunnels that wait until the address of their next hop is known.
//!
//! **Where in the walk**: a decision without the address asks ([`crate::action::Op::Ask`]) and leaves the packet here. Once a millisecond, while some wait, it is looked whether there was an answer:
//! then they go into their tunnels and through the bridge of the home, like packets that come later. (Those may overtake them.)
//!
//! **Limits**: per next hop `[slow_path] waiting` packets, in all [`WAITING_MBUFS_MAX`] mbufs, for [`WAITING_MS`]; the next hop is asked again each second meanwhile. What waits no longer dies as
//! `no_neighbour` at the tunnel port. Open vSwitch loses them all.
//!
//! **Threads**: one worker's.

use super::Walk;
use super::step::Step;
use crate::action::{AskOp, EncapOp, Packet};
use crate::dpdk::Mbuf;
use crate::limits::{WAITING_MBUFS_MAX, WAITING_MS};
use crate::observe::DropReason;
use crate::pipeline::Start;
use crate::port::PortId;
use crate::time::Millis;
use std::collections::VecDeque;
use std::sync::Arc;
use vswitch_flow::extract::Layers;
use vswitch_flow::{Field, FlowKey};
use vswitch_tunnel::{Header, Outer};

/// A packet that waits.
#[derive(Debug)]
struct Held {
    mbuf: Mbuf,
    layers: Layers,
    /// What is to be done with it.
    op: Arc<AskOp>,
    since: Millis,
}

/// All that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    held: VecDeque<Held>,
    mbufs: usize,
    /// Per next hop.
    max: usize,
}

impl Waiting {
    /// At most `max` packets per next hop.
    pub(super) fn new(max: u32) -> Self {
        Self { max: usize::try_from(max).unwrap_or(usize::MAX), ..Self::default() }
    }

    /// Whether another packet for a next hop may wait, that consists of so many mbufs.
    fn has_room(&self, op: &AskOp, mbufs: usize) -> bool {
        let same = |held: &&Held| (held.op.question.home, held.op.question.ip) == (op.question.home, op.question.ip);
        self.mbufs + mbufs <= WAITING_MBUFS_MAX && self.held.iter().filter(same).count() < self.max
    }
}

impl Step<'_> {
    /// A next hop is to be asked, if it was not just now, and the packet waits for the answer.
    #[cold]
    #[inline(never)]
    pub(super) fn ask(&mut self, op: &Arc<AskOp>, packet: &Packet) {
        if self.asking {
            return self.count_drop_out(op.port, DropReason::NoNeighbour);
        }
        if let Some(bridge) = self.bridge_of(op.question.home)
            && self.snapshot.world.tunnels.neighbours.ask(bridge, op.question.ip, self.now.0)
        {
            self.send_question(&op.question);
        }
        if !self.outputs.waiting.has_room(op, packet.mbuf.nb_segs()) {
            return self.count_drop_out(op.port, DropReason::NoNeighbour);
        }
        match self.copy_within_budget(&packet.mbuf) {
            Ok(mbuf) => {
                let held = Held { mbuf, layers: packet.layers, op: Arc::clone(op), since: self.now };
                self.outputs.waiting.mbufs += held.mbuf.nb_segs();
                self.outputs.waiting.held.push_back(held);
            }
            Err(reason) => self.count_drop_out(op.port, reason),
        }
    }

    /// A packet that waited goes on, if its next hop is known; else it waits longer, or dies.
    fn go_on(&mut self, held: Held) -> Option<Held> {
        let Held { op, since, .. } = &held;
        let question = &op.question;
        let neighbours = &self.snapshot.world.tunnels.neighbours;
        let bridge = self.bridge_of(question.home);
        let neighbour = bridge.and_then(|bridge| neighbours.entry(bridge, question.ip));
        let known = neighbour.and_then(|neighbour| Some((neighbour.mac()?, neighbour)));
        if let Some((mac, neighbour)) = known {
            let Ok(header) = Header::new(&Outer { eth_dst: mac, ..op.outer.clone() }) else {
                self.drop_out(op.port, DropReason::TunnelOption, held.mbuf);
                return None;
            };
            let encap = EncapOp { port: op.port, header, max: op.max, neighbour, question: question.clone() };
            self.enter_underlay(&encap, Packet { mbuf: held.mbuf, layers: held.layers });
            return None;
        }
        let over = self.now.0.saturating_sub(since.0) >= WAITING_MS;
        if let Some(bridge) = bridge.filter(|_| !over) {
            if neighbours.ask(bridge, question.ip, self.now.0) {
                self.send_question(question);
            }
            return Some(held);
        }
        self.drop_out(op.port, DropReason::NoNeighbour, held.mbuf);
        None
    }

    /// A packet is put into its tunnel and goes through the bridge of the home; from there it leads to no question, so that nothing waits twice.
    fn enter_underlay(&mut self, op: &EncapOp, packet: Packet) {
        let home = op.question.home;
        let facts = self.snapshot.world.ports.get(home.index()).and_then(Option::as_ref);
        let Some(facts) = facts.filter(|facts| facts.admin_up && !facts.no_receive) else {
            return self.drop_out(op.port, DropReason::NoRoute, packet.mbuf);
        };
        let hash = super::outside::flow_hash(packet.mbuf.head(), packet.layers);
        self.asking = true;
        for piece in self.pieces(op, &[], packet) {
            if let Some(wrapped) = self.wrap(op, piece, hash) {
                let mut key = FlowKey::default();
                key.set(Field::InPort, facts.number.into());
                self.once(None, facts.bridge, home, key, Start::Table, wrapped.mbuf);
            }
        }
        self.asking = false;
    }
}

impl Walk {
    /// Looks who need not wait any longer.
    #[inline]
    pub(super) fn tend_waiting(&mut self, now: Millis) {
        if !self.outputs.waiting.held.is_empty() {
            self.let_go(now);
        }
    }

    #[cold]
    fn let_go(&mut self, now: Millis) {
        let (worker, pool, snapshot, outputs) = (self.worker, &self.pool, &*self.snapshot, &mut self.outputs);
        let (conntrack, budget) = (&*self.conntrack, self.budgets.of(PortId::NONE));
        let held = std::mem::take(&mut outputs.waiting.held);
        outputs.waiting.mbufs = 0;
        let mut step = Step::new(worker, pool, snapshot, outputs, conntrack, budget, now);
        for held in held {
            step.next_packet();
            if let Some(held) = step.go_on(held) {
                step.outputs.waiting.mbufs += held.mbuf.nb_segs();
                step.outputs.waiting.held.push_back(held);
            }
        }
        self.flush();
    }
}
