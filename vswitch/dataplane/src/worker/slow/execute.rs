//! The executor: the one `match` over [`Op`].

use crate::action::{CheckLen, Op, Packet, PacketInOp, Touched};
use crate::cache::Cache;
use crate::meter::{Meter, MeterVerdict};
use crate::observe::{Decider, DropReason, Remains};
use crate::packet::offload;
use crate::pipeline::{Fate, PacketIn};
use crate::port::PortId;
use crate::worker::fast::replay::Replay;
use crate::worker::slow::forget::Last;
use crate::worker::slow::reject::{CameIn, Front};
use crate::worker::step::StepContext;
use std::borrow::Cow;
use std::hash::BuildHasher;
use vswitch_conntrack::Seen;
use vswitch_dpdk::{Csum, Mbuf};
use vswitch_flow::action::PortNo;
use vswitch_flow::{Field, FlowKey};

/// Where a packet came from, as far as its ops want to know.
#[derive(Clone, Copy, Debug)]
pub(in crate::worker) struct Origin<'a> {
    /// Where its drops are counted; [`PortId::NONE`]: nowhere.
    pub(in crate::worker) port: PortId,
    /// Its metadata (the metadata words count); none: only `in_port`.
    pub(in crate::worker) metadata: Option<&'a FlowKey>,
    /// What was written into it since the words of its bytes there were read.
    pub(in crate::worker) touched: Touched,
    /// What the last `ct()` read of it, as long as it would read the same.
    pub(in crate::worker) seen: Option<&'a Seen>,
    /// OpenFlow number of the port that it came from.
    pub(in crate::worker) in_port: PortNo,
    /// Stages behind `ct()` that lie behind it.
    pub(in crate::worker) depth: u32,
    /// What the last `ct()` said of it.
    pub(in crate::worker) tracked: Tracked,
    /// What it was when it came in.
    pub(in crate::worker) came: CameIn<'a>,
    /// It takes a path that another packet took before.
    pub(in crate::worker) replay: Option<Replay<'a>>,
    /// The last rule that its present decision met.
    pub(in crate::worker) decider: Option<Decider>,
}

/// What a `ct()` said of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::worker) struct Tracked {
    pub(in crate::worker) zone: u16,
    pub(in crate::worker) state: u32,
    /// It had no `nat`, and knew its connection.
    pub(in crate::worker) cached: bool,
    /// It knew none, and remembered none.
    pub(in crate::worker) unknown: bool,
    /// The last connection that the packet has met as new, of all zones
    /// ([`crate::worker::slow::forget`]).
    pub(in crate::worker) met: Last,
}

impl Tracked {
    /// Of a packet that no `ct()` knows any more. What it has met it has met.
    fn clear(&mut self) {
        *self = Self { met: self.met, ..Self::default() };
    }
}

impl Origin<'_> {
    /// Of a packet as it came in.
    pub(in crate::worker) fn of(port: PortId, in_port: PortNo) -> Self {
        Self {
            port,
            in_port,
            metadata: None,
            touched: Touched::Rest,
            seen: None,
            depth: 0,
            tracked: Tracked::default(),
            came: None,
            replay: None,
            decider: None,
        }
    }

    /// Something is written into the packet.
    #[inline]
    fn touch(&mut self, touched: Touched) {
        self.touched = self.touched.max(touched);
        if touched == Touched::Rest {
            self.seen = None;
        }
    }

    /// Digest of the tunnel metadata that it came with; 0: none.
    pub(in crate::worker) fn tunnel(&self) -> u64 {
        // What tells one tunnel from another: the ends and the id. Fragments of a datagram may have
        // different TTL, TOS and flags outside.
        const TUNNEL_WORDS: std::ops::Range<usize> = 9..15;
        let words = self.metadata.map_or([].as_slice(), |key| &key.0[TUNNEL_WORDS]);
        if words.iter().all(|word| *word == 0) { 0 } else { foldhash::fast::FixedState::default().hash_one(words) | 1 }
    }

    pub(in crate::worker) fn metadata(&self) -> Cow<'_, FlowKey> {
        self.metadata.map_or_else(
            || {
                let mut key = FlowKey::default();
                key.set(Field::InPort, self.in_port.into());
                Cow::Owned(key)
            },
            Cow::Borrowed,
        )
    }
}

impl StepContext<'_> {
    /// Applies ops to a packet, which is gone afterwards. `origin` is changed as the packet is:
    /// whoever needs it as it was has a copy.
    pub(in crate::worker) fn execute(
        &mut self,
        mut cache: Option<&mut Cache>,
        ops: &[Op],
        mut packet: Packet,
        origin: &mut Origin<'_>,
    ) {
        for (i, op) in ops.iter().enumerate() {
            let last = i + 1 == ops.len();
            let changed = match op {
                Op::Output(port) if last => {
                    if let Some(cache) = cache {
                        cache.recorder.output(&packet.mbuf);
                    }
                    return self.output(*port, origin.port, packet.mbuf);
                }
                Op::Output(port) => {
                    if let Some(copy) = self.copy_for(*port, &packet.mbuf) {
                        self.output(*port, origin.port, copy);
                    }
                    Ok(())
                }
                Op::OutputTruncated(port, len) => {
                    self.output_truncated(*port, &packet.mbuf, (*len).into(), origin);
                    Ok(())
                }
                Op::Crossed(out, into) => {
                    self.crossed(*out, *into, packet.mbuf.len());
                    Ok(())
                }
                Op::Meter(meter) => {
                    origin.touch(Touched::Rest);
                    let judged = self.meter(meter, &mut packet);
                    if judged.is_err() {
                        self.not_told(&ops[i + 1..]);
                    }
                    judged
                }
                Op::PacketIn(op) => {
                    self.packet_in(op, &packet, origin);
                    Ok(())
                }
                Op::Ct(op) if origin.replay.is_some() => {
                    origin.replay.iter_mut().for_each(|replay| replay.translate(&mut packet));
                    if let (Some(replay), Some(_)) = (origin.replay, &op.stage) {
                        return self.replay_stage(replay, packet, *origin);
                    }
                    Ok(())
                }
                Op::Ct(op) => match self.ct(cache.as_deref_mut(), op, &ops[i + 1..], packet, origin) {
                    Some((same, tracked)) => {
                        packet = same;
                        origin.tracked = tracked;
                        origin.touch(Touched::Rest);
                        Ok(())
                    }
                    None => return,
                },
                Op::CtClear => {
                    origin.tracked.clear();
                    Ok(())
                }
                Op::CtForget => {
                    self.take_back(origin.tracked.met);
                    Ok(())
                }
                Op::Reject(op) => {
                    self.reject(op, &packet, origin);
                    Ok(())
                }
                Op::Encap(op) => {
                    // What is outside was not read, nor met the tracker; it did not come in.
                    origin.touch(Touched::Rest);
                    origin.tracked.clear();
                    origin.came = Some(Front::UNKNOWN);
                    match self.encapsulate(cache.as_deref_mut(), op, &ops[i + 1..], packet, *origin) {
                        Some(wrapped) => {
                            packet = wrapped;
                            Ok(())
                        }
                        None => return,
                    }
                }
                Op::Decap(op) if last => return self.decapsulate(cache, **op, packet, *origin),
                Op::Decap(op) => {
                    self.decapsulate_copy(cache.as_deref_mut(), **op, &packet, *origin);
                    Ok(())
                }
                Op::Ask(op) => {
                    self.ask(op, &packet);
                    Ok(())
                }
                Op::Snoop(vtep) => {
                    self.snoop(*vtep, &packet);
                    Ok(())
                }
                Op::Clone(ops) if last => return self.execute(cache, ops, packet, origin),
                Op::Clone(ops) => {
                    self.execute_copy(cache.as_deref_mut(), ops, &packet, origin);
                    Ok(())
                }
                Op::CheckLen(check) => {
                    return self.execute(cache, check.ops(packet.content_len()), packet, origin);
                }
                op => {
                    origin.touch(Touched::by(op));
                    packet.rewrite(op)
                }
            };
            if let Err(reason) = changed {
                // A meter limits what somebody is told, too: of a packet that was allowed, and has
                // left by another branch.
                if reason != DropReason::Meter {
                    self.never_decided(origin.tracked.met);
                }
                return self.drop_decided(origin, reason, packet.mbuf);
            }
        }
        self.outputs.free(packet.mbuf);
    }

    #[cold]
    fn execute_copy(&mut self, cache: Option<&mut Cache>, ops: &[Op], packet: &Packet, origin: &Origin<'_>) {
        match self.copy_within_budget(&packet.mbuf) {
            Ok(mbuf) => self.execute(cache, ops, Packet { mbuf, layers: packet.layers }, &mut { *origin }),
            Err(reason) => self.count_decided(origin, reason, Remains::Packet(&packet.mbuf)),
        }
    }

    #[cold]
    fn output_truncated(&mut self, port: PortId, mbuf: &Mbuf, len: usize, origin: &Origin<'_>) {
        if len >= mbuf.len() {
            let whole = self.copy_for(port, mbuf);
            return whole.into_iter().for_each(|whole| self.output(port, origin.port, whole));
        }
        let cut = self.copy_within_budget(mbuf).and_then(|whole| {
            let finished = finished(whole);
            finished.copy_front(len, self.pool).ok_or(DropReason::NoMbuf)
        });
        match cut {
            Ok(cut) => self.output(port, origin.port, cut),
            Err(reason) => self.count_drop_out(port, reason, Remains::Packet(mbuf)),
        }
    }

    /// Counts a packet that left one bridge by a patch port and entered another.
    #[cold]
    fn crossed(&mut self, out: PortId, into: PortId, len: usize) {
        let (Some(out), Some(into)) = (self.snapshot.port(out), self.snapshot.port(into)) else { return };
        let (sent, received) = (&out.shared.counters[self.worker], &into.shared.counters[self.worker]);
        sent.tx_packets.add(1);
        sent.tx_bytes.add(len as u64);
        received.rx_packets.add(1);
        received.rx_bytes.add(len as u64);
    }

    fn meter(&mut self, meter: &Meter, packet: &mut Packet) -> Result<(), DropReason> {
        match meter.run(packet.mbuf.len(), self.now) {
            MeterVerdict::Pass => Ok(()),
            MeterVerdict::Drop => Err(DropReason::Meter),
            MeterVerdict::Remark(by) => {
                packet.remark(by);
                Ok(())
            }
        }
    }

    /// A meter drops a packet: controllers are not told of it by the ops that it stood in front of.
    #[cold]
    fn not_told(&self, rest: &[Op]) {
        for op in rest {
            let Op::PacketIn(op) = op else { continue };
            if let Some(bridge) = self.snapshot.world.bridges.get(op.bridge) {
                bridge.packet_ins.refuse(op.controller, op.reason, self.worker, Fate::Metered);
            }
        }
    }

    // Not inlined: its buffers are not to be on the stack of every packet.
    #[cold]
    #[inline(never)]
    fn packet_in(&mut self, op: &PacketInOp, told: &Packet, origin: &Origin<'_>) {
        let mbuf = &told.mbuf;
        let Some(bridge) = self.snapshot.world.bridges.get(op.bridge) else { return };
        if op.meter.as_ref().is_some_and(|meter| meter.run(mbuf.len(), self.now) == MeterVerdict::Drop) {
            bridge.packet_ins.refuse(op.controller, op.reason, self.worker, Fate::Metered);
            return self.count_decided(origin, DropReason::Meter, Remains::Packet(mbuf));
        }
        if !bridge.packet_ins.is_wanted(op.controller, op.reason) {
            return;
        }
        if !op.metered && !self.budget.packet_ins.take(self.now) {
            bridge.packet_ins.refuse(op.controller, op.reason, self.worker, Fate::Limited);
            return self.count_decided(origin, DropReason::PacketInRate, Remains::Packet(mbuf));
        }
        // What a controller sees has its checksum, as on a wire.
        let packet = if mbuf.needs_offload() {
            self.copy_within_budget(mbuf).map(|copy| finished(copy).to_vec())
        } else {
            Ok(mbuf.to_vec())
        };
        let packet = match packet {
            Ok(packet) => packet,
            Err(reason) => return self.count_decided(origin, reason, Remains::Packet(mbuf)),
        };
        let mut metadata = origin.metadata().metadata_with(&op.metadata, &op.defined);
        metadata.set(Field::RecircId, 0);
        metadata.set(Field::DpHash, 0);
        // Agents know no such fields.
        metadata.set(Field::TunTos, 0);
        metadata.set(Field::TunTtl, 0);
        let packet_in = PacketIn {
            table: op.table,
            cookie: op.cookie,
            reason: op.reason,
            controller: op.controller,
            userdata: std::sync::Arc::clone(&op.userdata),
            metadata,
            packet,
            received: origin.came.filter(|_| op.continuation.is_none()).and_then(|front| front.received(told)),
            continuation: op.continuation.clone(),
            token: Vec::new(),
        };
        bridge.packet_ins.deliver(packet_in, self.outputs.met.of(origin.tracked.met), self.worker);
    }
}

impl CheckLen {
    /// The ops for a packet of `len` bytes.
    fn ops(&self, len: usize) -> &[Op] {
        if len > self.len.into() { &self.larger } else { &self.smaller }
    }
}

/// A copy with its partial checksum finished, and no longer for segmentation: one long packet. A
/// packet whose checksum cannot be finished stays as it is.
pub(in crate::worker) fn finished(mut mbuf: Mbuf) -> Mbuf {
    if offload::finish_checksum(&mut mbuf).is_err() {
        mbuf.set_csum(Csum::Unknown);
    }
    mbuf.set_gso_size(0);
    mbuf
}
