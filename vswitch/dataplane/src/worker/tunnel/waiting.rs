//! Packets for tunnels that wait until the address of their next hop is known.
//!
//! **Where in the walk**: a decision without the address asks ([`crate::action::Op::Ask`]) and
//! leaves the packet here. Once a millisecond, while some wait, it is looked whether there was an
//! answer: then they go into their tunnels and through the bridge of the VTEP, like packets that
//! come later. (Those may overtake them.)
//!
//! **Limits**: per next hop `[slow_path] waiting` packets, in all [`WAITING_MBUFS_MAX`] mbufs, for
//! [`WAITING_MS`]; the next hop is asked again each second meanwhile. What waits no longer dies as
//! `no_neighbour` at the tunnel port. Open vSwitch loses them all.
//!
//! **Threads**: one worker's.

use crate::action::{AskOp, EncapOp, Packet};
use crate::limits::{WAITING_MBUFS_MAX, WAITING_MS};
use crate::observe::{DropReason, Remains};
use crate::pipeline::translate::dp_hash;
use crate::pipeline::{Choice, Request, Start, translate};
use crate::port::PortId;
use crate::time::Millis;
use crate::worker::Walk;
use crate::worker::slow::execute::Origin;
use crate::worker::slow::reject::Front;
use crate::worker::step::StepContext;
use crate::worker::tunnel::outside::flow_hash;
use std::collections::VecDeque;
use std::sync::Arc;
use vswitch_dpdk::Mbuf;
use vswitch_flow::extract::{Layers, extract};
use vswitch_flow::{Field, FlowKey};
use vswitch_overlay::{HEADER_MAX, Header, Outer};

/// Next hops that have room for packets however long those for others are.
const HOPS_MIN: usize = 8;

/// A packet that waits.
#[derive(Debug)]
struct Held {
    mbuf: Mbuf,
    layers: Layers,
    /// What is to be done with it.
    op: Arc<AskOp>,
    since: Millis,
    /// The world in which that was found out.
    world: u64,
}

/// All that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(in crate::worker) struct Waiting {
    held: VecDeque<Held>,
    mbufs: usize,
    /// Per next hop.
    max: usize,
}

impl Waiting {
    /// At most `max` packets per next hop.
    pub(in crate::worker) fn new(max: u32) -> Self {
        Self { max: usize::try_from(max).unwrap_or(usize::MAX), ..Self::default() }
    }

    /// Whether another packet for a next hop may wait, that consists of so many mbufs.
    fn has_room(&self, op: &AskOp, mbufs: usize) -> bool {
        if self.mbufs + mbufs > WAITING_MBUFS_MAX {
            return false;
        }
        let same = |held: &&Held| (held.op.question.vtep, held.op.question.ip) == (op.question.vtep, op.question.ip);
        let (mut packets, mut own) = (0, mbufs);
        for held in self.held.iter().filter(same) {
            packets += 1;
            own += held.mbuf.nb_segs();
        }
        packets < self.max && own <= WAITING_MBUFS_MAX / HOPS_MIN
    }

    fn push(&mut self, held: Held) {
        self.mbufs += held.mbuf.nb_segs();
        self.held.push_back(held);
    }
}

impl StepContext<'_> {
    /// A next hop is to be asked, if it was not just now, and the packet waits for the answer.
    #[cold]
    #[inline(never)]
    pub(in crate::worker) fn ask(&mut self, op: &Arc<AskOp>, packet: &Packet) {
        if self.asking {
            return self.count_drop_out(op.port, DropReason::NoNeighbour, Remains::Packet(&packet.mbuf));
        }
        if let Some(bridge) = self.bridge_of(op.question.vtep)
            && self.snapshot.world.tunnels.neighbours.ask(bridge, op.question.ip, self.now.0)
        {
            self.send_question(&op.question);
        }
        if !self.outputs.waiting.has_room(op, packet.mbuf.nb_segs()) {
            return self.count_drop_out(op.port, DropReason::NoNeighbour, Remains::Packet(&packet.mbuf));
        }
        match self.copy_within_budget(&packet.mbuf) {
            Ok(mbuf) => {
                let (layers, since, world) = (packet.layers, self.now, self.snapshot.world.number);
                self.outputs.waiting.push(Held { mbuf, layers, op: Arc::clone(op), since, world });
            }
            Err(reason) => self.count_drop_out(op.port, reason, Remains::Packet(&packet.mbuf)),
        }
    }

    /// A packet that waited goes on, if its next hop is known; else it waits longer, or dies.
    fn go_on(&mut self, held: Held) -> Option<Held> {
        let Held { op, since, .. } = &held;
        if held.world != self.snapshot.world.number && !self.still_holds(op) {
            self.drop_out(op.port, DropReason::NoRoute, held.mbuf);
            return None;
        }
        let question = &op.question;
        let neighbours = &self.snapshot.world.tunnels.neighbours;
        let bridge = self.bridge_of(question.vtep);
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

    /// Whether ports are still what they were when a packet began to wait. (Numbers of ports that
    /// are gone are given to others.)
    fn still_holds(&self, op: &AskOp) -> bool {
        let facts = |id: PortId| self.snapshot.world.ports.get(id.index())?.as_ref();
        let vtep = facts(op.question.vtep).and_then(|facts| facts.vtep.as_ref());
        let is_vtep =
            vtep.is_some_and(|vtep| vtep.mac.0 == op.outer.eth_src && vtep.addresses.contains(&op.outer.ends.src()));
        is_vtep && facts(op.port).is_some_and(|facts| facts.tunnel.is_some() && facts.admin_up)
    }

    /// A packet is put into its tunnel and goes through the bridge of the VTEP; from there it leads
    /// to no question, so that nothing waits twice.
    fn enter_underlay(&mut self, op: &EncapOp, packet: Packet) {
        let vtep = op.question.vtep;
        let facts = self.snapshot.world.ports.get(vtep.index()).and_then(Option::as_ref);
        let Some(facts) = facts.filter(|facts| facts.admin_up && !facts.no_receive) else {
            return self.drop_out(op.port, DropReason::NoRoute, packet.mbuf);
        };
        let hash = flow_hash(packet.mbuf.head(), packet.layers);
        let mut front = [0; HEADER_MAX];
        let inner = packet.mbuf.len();
        let whole = op.header.len() + inner.min(op.header.inner_max());
        let Some(front) = front.get_mut(..op.header.len()) else { return self.outputs.free(packet.mbuf) };
        // A long packet will be cut: what is in front says the same of each piece.
        let _ = op.header.write(front, inner.min(op.header.inner_max()), hash, 0);
        let mut key = FlowKey::default();
        key.set(Field::InPort, facts.number.into());
        let _ = extract(front, whole, &mut key);
        key.set(Field::DpHash, dp_hash(&key).into());
        // Where it leaves says how long it may be.
        let (bridge, learns) = (facts.bridge, Some(&self.budget.learns));
        let request = Request {
            bridge,
            key: &key,
            start: Start::Table,
            now: self.now,
            side_effects: true,
            learns,
            choice: Choice::ByHash,
        };
        let translation = translate(&self.snapshot.world, &request, None);
        self.asking = true;
        for piece in self.pieces(op, &translation.ops, packet) {
            if let Some(wrapped) = self.wrap(op, piece, hash) {
                // It never came in.
                let mut origin =
                    Origin { metadata: Some(&key), came: Some(Front::UNKNOWN), ..Origin::of(vtep, facts.number) };
                self.carry_out_once(None, &translation, wrapped, &mut origin);
            }
        }
        self.asking = false;
    }
}

impl Walk {
    /// Looks who need not wait any longer.
    #[inline]
    pub(in crate::worker) fn maintain_waiting(&mut self, now: Millis) {
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
        let mut step = StepContext::new(worker, pool, snapshot, outputs, conntrack, budget, now);
        for held in held {
            step.next_packet();
            if let Some(held) = step.go_on(held) {
                step.outputs.waiting.push(held);
            }
        }
        self.flush();
    }
}
