//! Packets of a bridge with tables: caches, else key, translation; then ops. One packet after the
//! other.

use crate::action::{Packet, Touched};
use crate::cache::{Cache, Compact, Megaflow, looks_back};
use crate::limits::{FRAME_MIN, HEAD_LEN};
use crate::observe::{DropReason, Fallback, Remains};
use crate::pipeline::translate::dp_hash;
use crate::pipeline::{Choice, PortFacts, Request, Start, Translation, choose, translate};
use crate::port::PortId;
use crate::time::Millis;
use crate::worker::fast::batch::Halt;
use crate::worker::fast::decap::{self, Inside};
use crate::worker::slow::execute::{Origin, Tracked};
use crate::worker::slow::forget::ends_early;
use crate::worker::slow::found::Found;
use crate::worker::slow::reject::Front;
use crate::worker::step::StepContext;
use crate::worker::{PortView, Walk};
use std::sync::Arc;
use vswitch_dpdk::{Burst, Mbuf};
use vswitch_flow::extract::extract;
use vswitch_flow::{Field, FlowKey};

impl Walk {
    /// [`Walk::burst`] for a port of a bridge with tables. Strictly in order and depth first: what
    /// a packet's rules learn, the next packet knows. What is done for the whole burst at once only
    /// reads.
    #[inline(never)] // registers of its own
    pub(in crate::worker) fn tables_burst(&mut self, burst: &mut Burst, port: PortId, now: Millis) {
        let facts = self.snapshot.world.ports.get(port.index()).and_then(Option::as_ref);
        let (Some(view), Some(facts)) = (self.snapshot.port(port), facts) else {
            burst.clear();
            return;
        };
        let cached = self.cache.begin();
        let frame_max = if view.admin_up { view.frame_max } else { 0 };
        let hint = self.cache.hint(port);
        let (bytes, ordinary) = match hint {
            Some(op) => {
                decap::prepare(&mut self.cache, burst, port, op, self.snapshot.world.number, FRAME_MIN..=frame_max)
            }
            None => {
                let (bytes, longest) = self.cache.prepare(burst, port, FRAME_MIN, cached);
                (bytes, longest <= frame_max)
            }
        };
        let tracker = self.conntrack.tracker();
        if self.cache.locate(burst, tracker) {
            self.cache.look_ahead(burst, tracker);
        }
        let received = burst.len();
        let counters = &view.shared.counters[self.worker];
        counters.rx_packets.add(received as u64);
        counters.rx_bytes.add(bytes);

        let (worker, pool, snapshot, outputs) = (self.worker, &self.pool, &*self.snapshot, &mut self.outputs);
        let (conntrack, budget) = (&*self.conntrack, self.budgets.of(port));
        let mut step = StepContext::new(worker, pool, snapshot, outputs, conntrack, budget, now);
        let (cache, changes) = (&mut self.cache, &*snapshot.world.changes);
        let from = (port, facts.number);
        let decap = cache.has_decap();
        let (mut hits, mut program_hits, mut passed) = (0, 0, false);
        let slots = burst.hand_out();
        let mut next = 0;
        while next < slots.len() {
            cache.sync(changes);
            // The common case in a straight line; everything else is below.
            let (mut halt, mut refused) = (None, false);
            if ordinary && !decap {
                let (replayed, why) = step.replay_batch(cache, slots, next, from);
                next += replayed;
                program_hits += replayed as u64;
                if why == Halt::Between {
                    continue;
                }
                halt = Some(why);
            } else if ordinary {
                let (replayed, why) = step.run_inside(cache, slots, next);
                next += replayed;
                program_hits += replayed as u64;
                hits += replayed as u64;
                passed |= replayed > 0;
                if why == Halt::Between {
                    continue;
                }
                refused = matches!(why, Halt::Fallback(_));
            }
            let i = next;
            next += 1;
            let Some(mut mbuf) = slots[i].take() else { continue };
            if !ordinary && let Some(reason) = refusal(view, &mbuf) {
                step.drop_in(port, reason, mbuf);
                continue;
            }
            step.next_packet();
            let mut knocked = false;
            if decap && cache.is_inside(i) {
                // Why its program was not replayed is counted when that is tried again.
                match if refused { Err(mbuf) } else { step.decap_by_entry(cache, i, mbuf) } {
                    Ok(way) => {
                        passed = true;
                        hits += 1 + u64::from(way == Inside::Megaflow);
                        program_hits += u64::from(way == Inside::Program);
                        continue;
                    }
                    Err(same) => {
                        (mbuf, knocked) = (same, true);
                        cache.prepare_again(i, &mbuf, port);
                    }
                }
            }
            let program = match halt {
                Some(Halt::Fallback(why)) => {
                    cache.count_fallback(why);
                    None
                }
                Some(_) if cache.is_located() => None,
                _ => cache.program(&cache.keys[i]),
            };
            if let Some(program) = program {
                match step.replay(cache, program, mbuf, &cache.keys[i], from) {
                    Ok(()) => {
                        program_hits += 1;
                        continue;
                    }
                    Err((same, why)) => {
                        mbuf = same;
                        cache.count_fallback(why);
                    }
                }
            }
            // What follows may track.
            step.outputs.owner.leave();
            match cache.hit(i) {
                Some(megaflow) => {
                    hits += 1;
                    if megaflow.has_effects() && megaflow.used() != now {
                        cache.effects(megaflow, &snapshot.world, now);
                    }
                    megaflow.count(1, mbuf.len() as u64, now);
                    let mbuf = match step.outputs.push_plain(snapshot, megaflow.out(), mbuf) {
                        Ok(()) => continue,
                        Err(mbuf) => mbuf,
                    };
                    let key = cache.keys[i];
                    let packet = Packet { mbuf, layers: key.layers() };
                    let mut origin = Origin::of(port, facts.number);
                    if let Some(op) = megaflow.unwraps() {
                        let megaflow = Arc::clone(megaflow);
                        if !knocked {
                            step.insert_decap(cache, (&megaflow, op), &packet.mbuf, port, now);
                        }
                        step.decapsulate(Some(cache), op, packet, origin);
                        continue;
                    }
                    if megaflow.recirculates() {
                        // It may be gone from the cache before its packet is through all stages.
                        let megaflow = Arc::clone(megaflow);
                        step.set_out(cache, &megaflow, packet, &mut origin, Some(&key));
                    } else {
                        step.carry_out(None, megaflow, packet, &mut origin);
                    }
                }
                None => {
                    let key = cache.keys[i];
                    step.miss(cache, port, facts, mbuf, &key);
                }
            }
        }
        step.outputs.owner.leave();
        if hint.is_some() {
            cache.settle_hint(port, passed);
        }
        if hits > 0 {
            cache.stats().exact_hits.add(hits);
        }
        if program_hits > 0 {
            cache.stats().program_hits.add(program_hits);
        }
    }
}

/// Why a packet may not come in. One that is for segmentation may be longer than the MTU.
#[cold]
fn refusal(view: &PortView, mbuf: &Mbuf) -> Option<DropReason> {
    if !view.admin_up {
        Some(DropReason::AdminDown)
    } else if mbuf.len() < FRAME_MIN {
        Some(DropReason::EthShort)
    } else if mbuf.len() > view.frame_max && mbuf.gso_size() == 0 {
        Some(DropReason::Oversize)
    } else {
        None
    }
}

impl StepContext<'_> {
    /// A packet enters a bridge with tables by a patch port.
    #[cold]
    pub(in crate::worker) fn enter(&mut self, cache: &mut Cache, port: PortId, mbuf: Mbuf) {
        let _ = cache.begin(); // there is no compact key, on or off
        cache.sync(&self.snapshot.world.changes);
        match self.snapshot.world.ports.get(port.index()) {
            Some(Some(facts)) => self.miss(cache, port, facts, mbuf, &Compact::default()),
            _ => self.drop_in(port, DropReason::PortGone, mbuf),
        }
    }

    /// What a cached decision says happens to the packet.
    #[inline]
    pub(in crate::worker) fn carry_out(
        &mut self,
        cache: Option<&mut Cache>,
        megaflow: &Megaflow,
        packet: Packet,
        origin: &mut Origin<'_>,
    ) {
        let (ops, drop) = (megaflow.ops(), megaflow.drop_reason());
        origin.decider = megaflow.decider();
        if origin.came.is_none() && megaflow.looks_back() {
            self.carry_out_first(cache, ops, drop, packet, origin);
        } else {
            self.carry_out_ops(cache, ops, drop, packet, origin);
        }
    }

    /// [`Self::carry_out_ops`], of the first that happens to a packet, with what it was when it
    /// came in kept.
    #[inline(never)] // a frame that its later stages need not have
    fn carry_out_first(
        &mut self,
        cache: Option<&mut Cache>,
        ops: &[crate::action::Op],
        drop: Option<DropReason>,
        packet: Packet,
        origin: &Origin<'_>,
    ) {
        let mut front = Front::EMPTY;
        front.take(&packet);
        self.carry_out_ops(cache, ops, drop, packet, &mut Origin { came: Some(&front), ..*origin });
    }

    fn carry_out_ops(
        &mut self,
        cache: Option<&mut Cache>,
        ops: &[crate::action::Op],
        drop: Option<DropReason>,
        packet: Packet,
        origin: &mut Origin<'_>,
    ) {
        if drop.is_some_and(ends_early) {
            self.never_decided(origin.tracked.met);
        }
        match drop {
            Some(reason) if ops.is_empty() => self.drop_decided(origin, reason, packet.mbuf),
            drop => {
                if let Some(reason) = drop {
                    // Now, as afterwards it is gone.
                    self.count_decided(origin, reason, Remains::Packet(&packet.mbuf));
                }
                self.execute(cache, ops, packet, origin);
            }
        }
    }

    /// A packet that the exact-match cache does not know, or not for sure.
    #[inline(never)]
    fn miss(&mut self, cache: &mut Cache, port: PortId, facts: &PortFacts, mbuf: Mbuf, compact: &Compact) {
        let (world, now) = (&*self.snapshot.world, self.now);
        let len = mbuf.len() as u64;
        cache.look_for_place(self.conntrack.tracker(), self.worker);
        if let Some(megaflow) = cache.second_look(compact, world, now) {
            cache.stats().exact_hits.add(1);
            megaflow.count(1, len, now);
            let packet = Packet { mbuf, layers: compact.layers() };
            return self.set_out(cache, &megaflow, packet, &mut Origin::of(port, facts.number), Some(compact));
        }
        let mut key = FlowKey::default();
        key.set(Field::InPort, facts.number.into());
        let Some(packet) = self.parse(mbuf, &mut key) else {
            return self.count_drop_in(port, DropReason::NoMbuf, Remains::Nothing);
        };
        let packet = match self.open(cache, (port, facts), &key, packet, compact) {
            Ok(()) => return,
            Err(same) => same,
        };
        let mut origin = Origin { metadata: Some(&key), touched: Touched::Nothing, ..Origin::of(port, facts.number) };
        let (bridge, learns) = (facts.bridge, Some(&self.budget.learns));
        let request =
            Request { bridge, key: &key, start: Start::Table, now, side_effects: true, learns, choice: Choice::ByHash };
        self.decide(cache, &request, packet, &mut origin, Some(compact));
    }

    /// A packet with its key: a megaflow that it fits, or a translation that becomes one if it may.
    /// `compact`: where to remember it, too.
    pub(in crate::worker) fn decide(
        &mut self,
        cache: &mut Cache,
        request: &Request<'_>,
        packet: Packet,
        origin: &mut Origin<'_>,
        compact: Option<&Compact>,
    ) {
        let known = cache.lookup(request.bridge, request.key, &self.snapshot.world, self.now);
        match known {
            Some(megaflow) if megaflow.chooser().is_none() => {
                let _ = cache.take_outdated();
                self.use_again(cache, &megaflow);
                self.follow(cache, megaflow, request.key, packet, origin, compact);
            }
            known => self.decide_anew(cache, request, known, packet, origin, compact),
        }
    }

    /// [`Self::decide`], where there is none, or one that leaves the choice of a bucket to its
    /// group.
    #[inline(never)] // a frame that others need not have
    fn decide_anew(
        &mut self,
        cache: &mut Cache,
        request: &Request<'_>,
        known: Option<Arc<Megaflow>>,
        packet: Packet,
        origin: &mut Origin<'_>,
        compact: Option<&Compact>,
    ) {
        let choice = if cache.is_on() { Choice::Ask } else { Choice::ByHash };
        let mut request = Request { choice, ..*request };
        let mut found = self.find(cache, &request, known);
        // The bucket is known now, and decides the rest.
        let (group, chosen);
        if let Some(asking) = found.chooser(self.now) {
            group = asking;
            chosen = choose(&group, request.key);
            if let Some((bucket, key)) = &chosen {
                if let Found::Known(asking) | Found::Kept(asking) = found {
                    cache.done_with(asking, request.key);
                }
                request = Request { key, choice: Choice::Made(*bucket, Some(&group)), ..request };
                let known = cache.lookup(request.bridge, key, &self.snapshot.world, self.now);
                found = self.find(cache, &request, known);
            }
        }
        let megaflow = match found {
            Found::Known(megaflow) => {
                self.use_again(cache, &megaflow);
                megaflow
            }
            Found::Kept(megaflow) => megaflow,
            Found::Once(translation) => {
                cache.recorder.fail(Fallback::Uncached);
                return self.carry_out_once(Some(cache), &translation, packet, origin);
            }
            Found::Refused => {
                cache.recorder.fail(Fallback::Uncached);
                cache.stats().lost_misses.add(1);
                self.never_decided(origin.tracked.met);
                return self.drop_in(origin.port, DropReason::MissRate, packet.mbuf);
            }
        };
        self.follow(cache, megaflow, request.key, packet, origin, compact);
    }

    /// A decision that was there serves another packet.
    #[inline]
    fn use_again(&self, cache: &mut Cache, megaflow: &Arc<Megaflow>) {
        cache.stats().megaflow_hits.add(1);
        if megaflow.has_effects() && megaflow.used() != self.now {
            cache.effects(megaflow, &self.snapshot.world, self.now);
        }
    }

    /// A packet goes where its decision, which is the cache's, says.
    fn follow(
        &mut self,
        cache: &mut Cache,
        megaflow: Arc<Megaflow>,
        key: &FlowKey,
        packet: Packet,
        origin: &mut Origin<'_>,
        compact: Option<&Compact>,
    ) {
        let now = self.now;
        megaflow.count(1, packet.mbuf.len() as u64, now);
        if let (Some(op), Some(_), 0) = (megaflow.unwraps(), compact, self.tunnels_left) {
            self.insert_decap(cache, (&megaflow, op), &packet.mbuf, origin.port, now);
        }
        match compact {
            // What leads to others is kept as a program, or not at all: a first packet of a
            // connection takes nobody's place.
            Some(compact)
                if (!megaflow.recirculates() || megaflow.unwraps().is_some())
                    && !cache.opens(compact, &packet.mbuf) =>
            {
                cache.remember(compact, &megaflow);
            }
            Some(_) => {}
            None => cache.recorder.step(&megaflow),
        }
        self.set_out(cache, &megaflow, packet, origin, compact);
        cache.done_with(megaflow, key);
    }

    /// [`StepContext::carry_out`]; of a packet that may be recorded (`compact`: its key) and leads
    /// to other decisions, with all that follows written down.
    pub(in crate::worker) fn set_out(
        &mut self,
        cache: &mut Cache,
        megaflow: &Arc<Megaflow>,
        packet: Packet,
        origin: &mut Origin<'_>,
        compact: Option<&Compact>,
    ) {
        let recorded = compact.filter(|_| megaflow.recirculates() && megaflow.unwraps().is_none());
        if let Some(compact) = recorded {
            cache.begin_recording(compact, &packet.mbuf, megaflow, self.tunnels_left == 0);
        }
        self.carry_out(Some(cache), megaflow, packet, origin);
        if let Some(compact) = recorded {
            cache.end_recording(compact);
        }
    }

    /// A packet with its metadata goes through a bridge, or some actions; nothing is cached.
    /// Nothing is learned of one of our own making.
    pub(in crate::worker) fn once(
        &mut self,
        cache: Option<&mut Cache>,
        bridge: usize,
        port: PortId,
        mut key: FlowKey,
        start: Start<'_>,
        mbuf: Mbuf,
    ) {
        let Some(packet) = self.parse(mbuf, &mut key) else {
            return self.count_drop_in(port, DropReason::NoMbuf, Remains::Nothing);
        };
        let learns = Some(&self.budget.learns);
        let side_effects = !self.telling;
        let request = Request { bridge, key: &key, start, now: self.now, side_effects, learns, choice: Choice::ByHash };
        let translation = translate(&self.snapshot.world, &request, None);
        let in_port = u32::try_from(key.get(Field::InPort)).unwrap_or(u32::MAX);
        let tracked = Tracked { met: std::mem::take(&mut self.resumed), ..Tracked::default() };
        // What was paused may have been translated before.
        let came = matches!(start, Start::Resume(_)).then_some(Front::UNKNOWN);
        let mut origin = Origin { metadata: Some(&key), tracked, came, ..Origin::of(port, in_port) };
        self.carry_out_once(cache, &translation, packet, &mut origin);
    }

    pub(in crate::worker) fn carry_out_once(
        &mut self,
        cache: Option<&mut Cache>,
        translation: &Translation,
        packet: Packet,
        origin: &mut Origin<'_>,
    ) {
        let len = packet.mbuf.len() as u64;
        origin.decider = translation.decider;
        for credit in &translation.credits {
            credit.add(1, len, self.now);
        }
        if origin.came.is_none() && looks_back(&translation.ops) {
            self.carry_out_first(cache, &translation.ops, translation.drop, packet, origin);
        } else {
            self.carry_out_ops(cache, &translation.ops, translation.drop, packet, origin);
        }
        translation.counts.iter().for_each(|count| count.credit(&translation.credits));
    }

    /// Reads a packet's headers into the key. Headers that lie in several segments are copied into
    /// one; none when there is no mbuf.
    #[inline]
    pub(in crate::worker) fn parse(&self, mbuf: Mbuf, key: &mut FlowKey) -> Option<Packet> {
        let mbuf = if mbuf.nb_segs() > 1 && mbuf.head().len() < mbuf.len().min(HEAD_LEN) {
            mbuf.copy(self.pool)?
        } else {
            mbuf
        };
        let layers = extract(mbuf.head(), mbuf.len(), key);
        key.set(Field::DpHash, dp_hash(key).into());
        Some(Packet { mbuf, layers })
    }
}
