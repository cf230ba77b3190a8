//! `ct()` on a packet, and the stage behind it: the packet is looked up anew, with what is known of
//! its connection. Depth first.
//!
//! What was read of a packet is not read again as long as nobody wrote there ([`Touched`]): its key
//! serves the next stage, and what the tracker saw of it the next `ct()`.

use crate::action::{CtOp, Op, Packet, Touched};
use crate::cache::Cache;
use crate::conntrack::{CtPlace, First, Fragments, Outcome, asked, plainly_seen};
use crate::limits::{RECIRCULATIONS_MAX, STAGES_ENTERED_MAX};
use crate::observe::{DropReason, Remains};
use crate::pipeline::translate::dp_hash;
use crate::pipeline::{Choice, Request, Stage, Start, translate};
use crate::worker::slow::execute::{Origin, Tracked};
use crate::worker::slow::forget::Last;
use crate::worker::step::StepContext;
use std::sync::Arc;
use vswitch_conntrack::{Family, Ingress, Link, Rewrite, Seen, TrackVerdict, Tuple, state};
use vswitch_flow::extract::{extract, refresh_hop};
use vswitch_flow::{FIRST_PACKET_WORD, Field, FlowKey, LAST_PACKET_WORD};

/// What a packet has behind `ct()` that is not in its bytes.
#[derive(Clone, Copy)]
struct Known<'a> {
    request: &'a vswitch_conntrack::Request,
    verdict: &'a TrackVerdict,
    /// Of a fragment: what the first one shows.
    first: Option<First>,
    /// See [`Tracked::met`].
    met: Last,
}

impl Known<'_> {
    /// The packet is, byte for byte, as it was before `ct()`.
    #[inline]
    fn leaves_bytes(&self) -> bool {
        self.first.is_none() && !self.verdict.controls && self.verdict.rewrite == Rewrite::default()
    }

    const fn tracked(&self) -> Tracked {
        Tracked {
            zone: self.request.zone,
            state: self.verdict.state,
            cached: self.request.nat.is_none() && self.verdict.known,
            unknown: self.verdict.state & state::NEW != 0 && !self.verdict.known,
            met: self.met,
        }
    }
}

impl StepContext<'_> {
    /// A packet meets the tracker. Returns it, with its `ct_state`, if the list that it stands in
    /// is to go on with it; `rest` is what is left of that list.
    pub(in crate::worker) fn ct(
        &mut self,
        mut cache: Option<&mut Cache>,
        op: &CtOp,
        rest: &[Op],
        mut packet: Packet,
        origin: &Origin<'_>,
    ) -> Option<(Packet, Tracked)> {
        let Tracked { zone, state, cached, unknown, met: before_it } = origin.tracked;
        let before = if zone == op.request.zone { state } else { 0 };
        let (worker, now) = (self.worker, self.now);
        let mut read = Seen { port: Ingress::port(origin.port.0), ..Seen::default() };
        let seen = match origin.seen {
            None => plainly_seen(&mut packet, op.request.zone, &mut read),
            seen => seen,
        };
        let outcome = if let Some(seen) = seen {
            let mut verdict = TrackVerdict::default();
            let request = asked(&op.request, before, cached, unknown);
            match self.conntrack.track_seen(seen, &mut packet, &request, (worker, now), &mut verdict) {
                Ok(link) => {
                    met(cache.as_deref_mut(), op.request.zone, link, &verdict);
                    let known = self.known(before_it, op, &verdict, None);
                    let seen = known.leaves_bytes().then_some(seen);
                    let packet = self.fork(cache, op, rest, packet, &known, (origin, seen));
                    return packet.map(|packet| (packet, known.tracked()));
                }
                Err(reason) => {
                    met(cache.as_deref_mut(), op.request.zone, None, &TrackVerdict::default());
                    Outcome::Drop(packet.mbuf, reason)
                }
            }
        } else {
            let (port, tunnel) = (origin.port, origin.tunnel());
            let place = CtPlace { worker, now, port, tunnel, before, cached, unknown };
            let (outcome, link) = self.conntrack.track(packet, &op.request, place);
            let none = TrackVerdict::default();
            let verdict = if let Outcome::Tracked(_, verdict) = &outcome { verdict } else { &none };
            met(cache.as_deref_mut(), op.request.zone, link, verdict);
            outcome
        };
        match outcome {
            Outcome::Tracked(packet, verdict) => {
                let known = self.known(before_it, op, &verdict, None);
                let packet = self.fork(cache, op, rest, packet, &known, (origin, None));
                packet.map(|packet| (packet, known.tracked()))
            }
            Outcome::Held => None,
            Outcome::Complete(fragments) => {
                let Fragments { packets, verdict, first } = fragments;
                let known = self.known(before_it, op, &verdict, Some(first));
                if origin.depth >= RECIRCULATIONS_MAX {
                    self.never_decided(known.met);
                    packets.into_iter().for_each(|one| self.drop_decided(origin, DropReason::RecircDepth, one.mbuf));
                    return None;
                }
                let (depth, tracked) = (origin.depth + 1, known.tracked());
                let deeper = Origin { depth, tracked, touched: Touched::Rest, seen: None, ..*origin };
                // All of them through the stage, then all through the rest: the order in which Open
                // vSwitch sends them.
                let forked: Vec<Packet> = packets
                    .into_iter()
                    .filter_map(|packet| self.fork(cache.as_deref_mut(), op, rest, packet, &known, (origin, None)))
                    .collect();
                let mut left = forked.into_iter();
                // The last one goes on in the caller's loop, so that a list of many ct() is no
                // recursion of many.
                let last = left.next_back();
                left.for_each(|packet| self.execute(cache.as_deref_mut(), rest, packet, &mut { deeper }));
                last.map(|packet| (packet, known.tracked()))
            }
            Outcome::Drop(mbuf, reason) => {
                self.never_decided(before_it);
                self.drop_decided(origin, reason, mbuf);
                None
            }
        }
    }

    /// What a packet that has met some before has behind an op.
    #[inline]
    fn known<'k>(&mut self, met: Last, op: &'k CtOp, verdict: &'k TrackVerdict, first: Option<First>) -> Known<'k> {
        if (verdict.opened || verdict.labelled)
            && let Some(commits) = &op.commits
        {
            commits.add();
        }
        let met = self.meet(met, verdict);
        Known { request: &op.request, verdict, first, met }
    }

    /// A tracked packet, or a copy if something is left to do here, goes on in the stage of the op.
    /// With `origin`: what was seen of the packet, if the next `ct()` would see the same.
    fn fork(
        &mut self,
        cache: Option<&mut Cache>,
        op: &CtOp,
        rest: &[Op],
        packet: Packet,
        known: &Known<'_>,
        origin: (&Origin<'_>, Option<&Seen>),
    ) -> Option<Packet> {
        let Some(stage) = &op.stage else { return Some(packet) };
        if rest.is_empty() {
            self.enter_stage(cache, stage, packet, known, origin);
            return None;
        }
        match self.copy_within_budget(&packet.mbuf) {
            Ok(mbuf) => self.enter_stage(cache, stage, Packet { mbuf, layers: packet.layers }, known, origin),
            Err(reason) => {
                self.never_decided(known.met);
                self.count_decided(origin.0, reason, Remains::Packet(&packet.mbuf));
            }
        }
        Some(packet)
    }

    /// A packet goes on in a stage: cached, or by a translation of its own.
    fn enter_stage(
        &mut self,
        cache: Option<&mut Cache>,
        stage: &Arc<Stage>,
        packet: Packet,
        known: &Known<'_>,
        (origin, seen): (&Origin<'_>, Option<&Seen>),
    ) {
        self.stages_entered += 1;
        if origin.depth >= RECIRCULATIONS_MAX || self.stages_entered > STAGES_ENTERED_MAX {
            self.never_decided(known.met);
            return self.drop_decided(origin, DropReason::RecircDepth, packet.mbuf);
        }
        // As much as there is of the key that it had in its last stage.
        let own = origin.metadata.filter(|_| origin.touched <= Touched::Hop && known.leaves_bytes() && packet.has_l4());
        let mut key = match own {
            Some(key) => key.clone(),
            None => FlowKey::default(),
        };
        let Some(packet) = self.key_in(stage, packet, known, origin, (own.is_some(), &mut key)) else {
            self.never_decided(known.met);
            return self.count_decided(origin, DropReason::NoMbuf, Remains::Nothing);
        };
        let world = &*self.snapshot.world;
        let mut origin = Origin {
            port: origin.port,
            metadata: Some(&key),
            touched: Touched::Nothing,
            seen,
            in_port: origin.in_port,
            depth: origin.depth + 1,
            tracked: known.tracked(),
            came: origin.came,
            replay: origin.replay,
            decider: None,
        };
        let (bridge, now) = (stage.frozen.bridge, self.now);
        let learns = Some(&self.budget.learns);
        let request = Request {
            bridge,
            key: &key,
            start: Start::Stage(stage),
            now,
            side_effects: true,
            learns,
            choice: Choice::ByHash,
        };
        let Some(cache) = cache else {
            let translation = translate(world, &request, None);
            return self.carry_out_once(None, &translation, packet, &mut origin);
        };
        // What the packet's own rules learned or taught counts already.
        cache.sync(&world.changes);
        self.decide(cache, &request, packet, &mut origin, None);
    }

    /// Fills the key of a packet in a stage, which is that of its last stage already, or empty.
    /// None: no buffer to read its headers in one piece.
    #[inline]
    fn key_in(
        &self,
        stage: &Stage,
        mut packet: Packet,
        known: &Known<'_>,
        origin: &Origin<'_>,
        (filled, key): (bool, &mut FlowKey),
    ) -> Option<Packet> {
        if filled {
            stage.enter(key);
            if origin.touched == Touched::Hop {
                refresh_hop(packet.mbuf.head(), packet.layers, key);
            }
            debug_assert!(is_of(key, &packet), "the key of a stage is that of other bytes");
        } else {
            stage.unpack(&origin.metadata(), key);
            packet = self.parse(packet.mbuf, key)?;
        }
        write_connection(key, known.request.zone, known.verdict);
        if let Some(First { protocol, ports: (src, dst), tcp_flags }) = known.first {
            if let Some(protocol) = protocol {
                key.set(Field::NwProto, protocol.into());
            }
            key.set(Field::TpSrc, src.into());
            key.set(Field::TpDst, dst.into());
            key.set(Field::TcpFlags, tcp_flags.into());
            key.set(Field::DpHash, dp_hash(key).into());
        }
        Some(packet)
    }
}

/// The words of its bytes in a key are those that a packet has.
fn is_of(key: &FlowKey, packet: &Packet) -> bool {
    let mut read = FlowKey::default();
    let layers = extract(packet.mbuf.head(), packet.mbuf.len(), &mut read);
    let same = (FIRST_PACKET_WORD..LAST_PACKET_WORD).all(|i| read.0[i] == key.0[i]);
    same && layers == packet.layers && key.get(Field::DpHash) == dp_hash(&read).into()
}

/// A packet met `ct()` in a zone, and whoever writes its way down is to know.
#[inline]
fn met(cache: Option<&mut Cache>, zone: u16, link: Option<Link>, verdict: &TrackVerdict) {
    let Some(cache) = cache else { return };
    cache.met(zone);
    if cache.recorder.is_on() {
        cache.recorder.tracked(link, verdict);
    }
}

/// The `ct_*` fields of a packet that met no tracker.
pub(in crate::worker) fn untrack(key: &mut FlowKey) {
    write_connection(key, 0, &TrackVerdict::default());
}

/// Writes the `ct_*` fields of a packet (ovs-fields(7), "Connection Tracking Fields").
fn write_connection(key: &mut FlowKey, zone: u16, verdict: &TrackVerdict) {
    key.set(Field::CtState, verdict.state.into());
    key.set(Field::CtZone, zone.into());
    key.set(Field::CtMark, verdict.mark.into());
    key.set(Field::CtLabel, verdict.label);
    let tuple = verdict.original.unwrap_or_default();
    let [nw_src, nw_dst, ipv6_src, ipv6_dst] = match tuple.family {
        Family::V4 => [tuple.src.addr, tuple.dst.addr, 0, 0],
        Family::V6 => [0, 0, tuple.src.addr, tuple.dst.addr],
    };
    key.set(Field::CtNwSrc, nw_src);
    key.set(Field::CtNwDst, nw_dst);
    key.set(Field::CtIpv6Src, ipv6_src);
    key.set(Field::CtIpv6Dst, ipv6_dst);
    key.set(Field::CtNwProto, tuple.protocol.into());
    let (src, dst) = ports(&tuple);
    key.set(Field::CtTpSrc, src.into());
    key.set(Field::CtTpDst, dst.into());
}

/// Ports of a tuple as `ct_tp_src` and `ct_tp_dst` show them: of ICMP type and code.
const fn ports(tuple: &Tuple) -> (u16, u16) {
    if tuple.is_icmp() { (tuple.dst.port >> 8, tuple.dst.port & 0xff) } else { (tuple.src.port, tuple.dst.port) }
}
