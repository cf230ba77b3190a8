//! A packet of a connection that takes the fast path: its program instead of its stages.
//!
//! First everything is looked at that could make a difference: decisions, checksums, connections.
//! Only if all of it holds anything is touched. So a packet that cannot be replayed is as it was,
//! and takes the slow path.

use crate::action::{EncapOp, Packet};
use crate::cache::{AnyProgram, Cache, Compact, ConnectionProgram, Megaflow, Path, Rare, RareProgram, Simple};
use crate::conntrack::{Plain, translate};
use crate::observe::Fallback;
use crate::port::PortId;
use crate::worker::slow::execute::Origin;
use crate::worker::slow::reject::Front;
use crate::worker::step::StepContext;
use crate::worker::tunnel::encap::encap_fast;
use crate::worker::tunnel::outside::flow_hash;
use vswitch_conntrack::{Link, Rewrite};
use vswitch_dpdk::Mbuf;
use vswitch_flow::action::PortNo;
use vswitch_flow::extract::Layers;
use vswitch_overlay::source_port;

/// Where a packet is on its path, if it is replayed.
#[derive(Clone, Copy, Debug)]
pub(in crate::worker) struct Replay<'a> {
    cache: &'a Cache,
    path: &'a Path,
    /// Index of the next stage.
    next: usize,
    plain: Plain,
    /// What the `ct()` that lie ahead translate.
    ahead: &'a [(Link, Rewrite)],
}

impl Replay<'_> {
    /// What its next `ct()` did.
    pub(in crate::worker) fn translate(&mut self, packet: &mut Packet) {
        if let Some(((_, rewrite), ahead)) = self.ahead.split_first() {
            self.ahead = ahead;
            translate(packet, self.plain, rewrite);
        }
    }
}

/// What a packet that was replayed has done beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::worker) enum Replayed {
    /// Nothing that could make a difference to the next one.
    AsBefore,
    /// Likewise, but it may have been many packets on the way, or a neighbour was asked, or its
    /// sender told: the next one has all of that before it ([`StepContext::next_packet`]).
    Apart,
    /// Something may have changed: see [`Cache::sync`].
    Changed,
}

/// A path that packets of a batch take one after the other: what is the same for all of them is
/// looked at when the first one comes, and they are counted when another path's comes or the run
/// ends ([`StepContext::settle`]).
#[derive(Debug, Default)]
pub(in crate::worker) struct Taken<'c> {
    path: Option<&'c Path>,
    /// Bytes of the first one, which the path has counted.
    first: u64,
    /// Those behind it.
    packets: u64,
    bytes: u64,
    /// Longest packet that is put into the path's tunnel without a second look, in bytes; 0: none.
    room: usize,
    /// Of the last packet that was put into it so: what stands in for its `ct()`, in the place of
    /// its key, and the outer source port.
    link: Option<&'c Link>,
    port: u16,
    /// Those that were put into it otherwise: the tunnel port has counted them, and none of the
    /// others.
    slow: u64,
    slow_bytes: u64,
}

impl StepContext<'_> {
    /// Does what a program says, which is of the packet's compact key; outside of sections
    /// afterwards ([`vswitch_conntrack::Owner`]).
    ///
    /// # Errors
    /// The packet as it was, and why not.
    #[inline(never)] // most are in a batch
    pub(in crate::worker) fn replay(
        &mut self,
        cache: &Cache,
        program: AnyProgram<'_>,
        mbuf: Mbuf,
        key: &Compact,
        from: (PortId, PortNo),
    ) -> Result<(), (Mbuf, Fallback)> {
        let (mut slot, mut taken) = (Some(mbuf), Taken::default());
        let done = match program {
            AnyProgram::V4(ConnectionProgram::Simple(it)) => {
                self.replay_simple(cache, it, &mut slot, key, from, &mut taken)
            }
            AnyProgram::V6(ConnectionProgram::Simple(it)) => {
                self.replay_simple(cache, it, &mut slot, key, from, &mut taken)
            }
            AnyProgram::V4(ConnectionProgram::Rare(program)) => self.replay_rare(cache, program, &mut slot, key, from),
            AnyProgram::V6(ConnectionProgram::Rare(program)) => self.replay_rare(cache, program, &mut slot, key, from),
        };
        self.settle(&mut taken);
        self.outputs.owner.leave();
        match (done, slot) {
            (Err(why), Some(mbuf)) => Err((mbuf, why)),
            _ => Ok(()),
        }
    }

    /// [`StepContext::replay`] of a packet in a slot, where it stays if it is not done. Afterwards
    /// this may be inside of a section, and the packet may not be counted before what was taken is
    /// [settled](Self::settle).
    // In the loops over a burst, once for each family: what hangs on that is known then
    #[inline(always)]
    pub(in crate::worker) fn replay_simple<'c, const A: usize>(
        &mut self,
        cache: &'c Cache,
        program: Simple<'c, A>,
        slot: &mut Option<Mbuf>,
        key: &Compact,
        from: (PortId, PortNo),
        taken: &mut Taken<'c>,
    ) -> Result<Replayed, Fallback> {
        let Simple { path, link, .. } = program;
        let again = taken.path.is_some_and(|last| std::ptr::eq(last, path));
        if !again && !cache.is_current(path) {
            return Err(Fallback::Stale);
        }
        let Some(mut mbuf) = slot.take() else { return Ok(Replayed::AsBefore) };
        let Some(plain) = Plain::read(&mut mbuf, key.layers_of::<A>(), A == 16) else {
            *slot = Some(mbuf);
            return Err(Fallback::Checksum);
        };
        let len = mbuf.len();
        let counted = u32::try_from(len).unwrap_or(u32::MAX);
        if !self.conntrack.tracker().pass(&self.outputs.owner, link, plain.segment(), counted, self.now.0) {
            *slot = Some(mbuf);
            return Err(Fallback::Connection);
        }
        // What the first one of a path causes, or one that is not encapsulated on the fast path,
        // may change something for the next one.
        let mut news = false;
        if again {
            taken.packets += 1;
            taken.bytes += len as u64;
        } else {
            news = self.takes_another(cache, path, len as u64, taken);
        }
        program.apply(&mut mbuf, key);
        let layers = key.layers_of::<A>();
        match path.encapsulation() {
            None => self.output(path.out(), from.0, mbuf),
            Some(op) => {
                if let Err(mbuf) = self.wrap_taken((op, path.out()), link, mbuf, layers, taken) {
                    taken.slow += 1;
                    taken.slow_bytes += len as u64;
                    self.wrap_slowly(op, path.out(), Packet { mbuf, layers }, from);
                    news = true;
                }
            }
        }
        Ok(match news {
            false => Replayed::AsBefore,
            true if self.is_changed(cache) => Replayed::Changed,
            true => Replayed::Apart,
        })
    }

    /// A packet takes another path than the one before it. Returns whether that may have changed
    /// something for the next one.
    #[inline(always)] // for some traffic that is every packet
    fn takes_another<'c>(&mut self, cache: &Cache, path: &'c Path, len: u64, taken: &mut Taken<'c>) -> bool {
        self.settle(taken);
        (taken.path, taken.first) = (Some(path), len);
        let effects = self.takes(cache, path, len);
        let Some(op) = path.encapsulation() else { return effects };
        let asked = self.uses(op);
        taken.room = self.quick_room(op, path.out());
        effects | asked
    }

    /// Puts a packet that takes the path that was taken into its tunnel, and sends it; gives back
    /// one that is not encapsulated on the fast path.
    #[inline(always)] // as above
    fn wrap_taken<'c>(
        &mut self,
        (op, out): (&EncapOp, PortId),
        link: &'c Link,
        mbuf: Mbuf,
        layers: Layers,
        taken: &mut Taken<'c>,
    ) -> Result<(), Mbuf> {
        if mbuf.len() > taken.room {
            return Err(mbuf);
        }
        // Packets of one key, which have the same headers behind their program, too.
        if !taken.link.is_some_and(|last| std::ptr::eq(last, link)) {
            (taken.link, taken.port) = (Some(link), source_port(flow_hash(mbuf.head(), layers)));
        }
        let wrapped = encap_fast(op, mbuf, taken.port)?;
        self.outputs.push_ready(self.snapshot, out, wrapped);
        Ok(())
    }

    /// Counts what was taken; nothing is taken then.
    #[inline(always)] // as above
    pub(in crate::worker) fn settle(&self, taken: &mut Taken<'_>) {
        let Taken { path, first, packets, bytes, slow, slow_bytes, .. } = std::mem::take(taken);
        let Some(path) = path else { return };
        if packets > 0 {
            path.add(packets, bytes);
        }
        if let Some(op) = path.encapsulation() {
            self.count_quick(op, path.out(), packets + 1 - slow, bytes + first - slow_bytes);
        }
    }

    fn is_changed(&self, cache: &Cache) -> bool {
        !cache.is_synced(&self.snapshot.world.changes)
    }

    /// [`StepContext::replay_simple`], of what is not.
    #[inline(never)]
    pub(in crate::worker) fn replay_rare<const A: usize>(
        &mut self,
        cache: &Cache,
        program: &RareProgram<A>,
        slot: &mut Option<Mbuf>,
        key: &Compact,
        from: (PortId, PortNo),
    ) -> Result<Replayed, Fallback> {
        let (path, rare) = (program.path(), program.rare());
        self.outputs.owner.leave();
        if !cache.is_current(path) {
            return Err(Fallback::Stale);
        }
        let Some(mut mbuf) = slot.take() else { return Ok(Replayed::AsBefore) };
        let layers = key.layers_of::<A>();
        let Some(plain) = Plain::read(&mut mbuf, layers, A == 16) else {
            *slot = Some(mbuf);
            return Err(Fallback::Checksum);
        };
        if !self.pass_all(&rare.links, plain, mbuf.len()) {
            *slot = Some(mbuf);
            return Err(Fallback::Connection);
        }
        if rare.fused {
            self.takes(cache, path, mbuf.len() as u64);
            program.apply(&mut mbuf, layers);
            match path.encapsulation() {
                None => self.output(path.out(), from.0, mbuf),
                Some(op) => self.wrap_and_output(op, path.out(), mbuf, layers, from),
            }
        } else {
            self.replay_ops(cache, (path, rare), plain, Packet { mbuf, layers }, from);
        }
        Ok(if self.is_changed(cache) { Replayed::Changed } else { Replayed::Apart })
    }

    /// A packet takes a path. Returns whether that may have changed something for the next one.
    #[inline(always)] // as above
    pub(in crate::worker) fn takes(&self, cache: &Cache, path: &Path, len: u64) -> bool {
        let effects = path.has_due_effects(self.now);
        if effects {
            self.outputs.owner.leave();
            cache.carry_effects(path, &self.snapshot.world, self.now);
        }
        path.count(len, self.now);
        effects
    }

    /// A packet is decided by this.
    #[inline]
    pub(in crate::worker) fn count(&self, cache: &Cache, megaflow: &Megaflow, len: u64) {
        if megaflow.has_effects() && megaflow.used() != self.now {
            self.outputs.owner.leave();
            cache.effects(megaflow, &self.snapshot.world, self.now);
        }
        megaflow.count(1, len, self.now);
    }

    /// All of several connections: first all are asked, then all are told. If one changes in
    /// between it is as if it had changed just behind the packet.
    fn pass_all(&self, links: &[(Link, Rewrite)], plain: Plain, len: usize) -> bool {
        let (tracker, segment, now) = (self.conntrack.tracker(), plain.segment(), self.now.0);
        let owner = &self.outputs.owner;
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let all = links.iter().all(|(link, _)| tracker.may_pass(owner, link, segment, now));
        if all {
            for (link, _) in links {
                tracker.settle(owner, link, segment, len, now);
            }
        }
        all
    }

    /// What cannot be said as one change of headers, op by op.
    fn replay_ops(
        &mut self,
        cache: &Cache,
        (path, rare): (&Path, &Rare),
        plain: Plain,
        packet: Packet,
        (port, in_port): (PortId, PortNo),
    ) {
        let replay = Replay { cache, path, next: 0, plain, ahead: &rare.links };
        // Programs refuse nobody.
        let origin = Origin { replay: Some(replay), came: Some(Front::UNKNOWN), ..Origin::of(port, in_port) };
        self.replay_stage(replay, packet, origin);
    }

    /// The next stage of a packet.
    pub(in crate::worker) fn replay_stage(&mut self, replay: Replay<'_>, packet: Packet, origin: Origin<'_>) {
        let Some(megaflow) = replay.path.step(replay.next) else { return self.outputs.free(packet.mbuf) };
        self.count(replay.cache, megaflow, packet.mbuf.len() as u64);
        let replay = Replay { next: replay.next + 1, ..replay };
        self.carry_out(None, megaflow, packet, &mut Origin { replay: Some(replay), ..origin });
    }
}
