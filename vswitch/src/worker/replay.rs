//! A packet of a connection that goes the short way: its program instead of its stages.
//!
//! First everything is looked at that could make a difference: decisions, checksums, connections. Only if all of it holds anything is touched. So a packet that cannot be
//! replayed is as it was, and goes the long way.

use super::execute::Origin;
use super::reject::Front;
use super::step::Step;
use crate::action::Packet;
use crate::cache::{AnyProgram, Cache, Compact, Megaflow, Path, Program, Rare, RareProgram, Simple};
use crate::conntrack::{Plain, translate};
use crate::dpdk::Mbuf;
use crate::observe::Fallback;
use crate::port::PortId;
use vswitch_conntrack::{Link, Rewrite};
use vswitch_flow::action::PortNo;

/// Where a packet is on its path, if it is replayed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replay<'a> {
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
    pub(super) fn translate(&mut self, packet: &mut Packet) {
        if let Some(((_, rewrite), ahead)) = self.ahead.split_first() {
            self.ahead = ahead;
            translate(packet, self.plain, rewrite);
        }
    }
}

/// What a packet that was replayed has done beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replayed {
    /// Nothing that could make a difference to the next one.
    AsBefore,
    /// Likewise, but it has gone into a tunnel, by which it may have been many packets, or its sender told: the next one has all of that before it ([`Step::next_packet`]).
    Wrapped,
    /// Something may have changed: see [`Cache::sync`].
    Changed,
}

impl Step<'_> {
    /// Does what a program says, which is of the packet's compact key. Afterwards this may be inside of a section ([`vswitch_conntrack::Owner`]).
    ///
    /// # Errors
    /// The packet as it was, and why not.
    #[inline(always)] // in the loop over a burst of what comes out of tunnels
    pub(super) fn replay(
        &mut self,
        cache: &Cache,
        program: AnyProgram<'_>,
        mbuf: Mbuf,
        key: &Compact,
        from: (PortId, PortNo),
    ) -> Result<(), (Mbuf, Fallback)> {
        let mut slot = Some(mbuf);
        let done = match program {
            AnyProgram::V4(Program::Simple(program)) => self.replay_simple(cache, program, &mut slot, key, from),
            AnyProgram::V6(Program::Simple(program)) => self.replay_simple(cache, program, &mut slot, key, from),
            AnyProgram::V4(Program::Rare(program)) => self.replay_rare(cache, program, &mut slot, key, from),
            AnyProgram::V6(Program::Rare(program)) => self.replay_rare(cache, program, &mut slot, key, from),
        };
        match (done, slot) {
            (Err(why), Some(mbuf)) => Err((mbuf, why)),
            _ => Ok(()),
        }
    }

    /// [`Step::replay`], where there is nobody to be in a hurry for; outside of sections afterwards.
    #[inline(never)]
    pub(super) fn replay_apart(
        &mut self,
        cache: &Cache,
        program: AnyProgram<'_>,
        mbuf: Mbuf,
        key: &Compact,
        from: (PortId, PortNo),
    ) -> Result<(), (Mbuf, Fallback)> {
        let done = self.replay(cache, program, mbuf, key, from);
        self.outputs.owner.leave();
        done
    }

    /// [`Step::replay`] of a packet in a slot, where it stays if it is not done.
    #[inline(always)] // in the loop over a burst, once for each family: what hangs on that is known then
    pub(super) fn replay_simple<const A: usize>(
        &mut self,
        cache: &Cache,
        program: Simple<'_, A>,
        slot: &mut Option<Mbuf>,
        key: &Compact,
        from: (PortId, PortNo),
    ) -> Result<Replayed, Fallback> {
        let Simple { path, link, .. } = program;
        if !cache.is_current(path) {
            return Err(Fallback::Stale);
        }
        let Some(mut mbuf) = slot.take() else { return Ok(Replayed::AsBefore) };
        let Some(plain) = Plain::read(&mut mbuf, key.layers_of::<A>(), A == 16) else {
            *slot = Some(mbuf);
            return Err(Fallback::Checksum);
        };
        let len = u32::try_from(mbuf.len()).unwrap_or(u32::MAX);
        if !self.conntrack.tracker().pass(&self.outputs.owner, link, plain.segment(), len, self.now.0) {
            *slot = Some(mbuf);
            return Err(Fallback::Connection);
        }
        let effects = self.takes(cache, path, mbuf.len() as u64);
        program.apply(&mut mbuf, key);
        let wrapped = self.output_by::<A>(path, mbuf, key, from);
        // What is asked of a neighbour on the way into a tunnel may teach somebody something.
        if (effects || wrapped) && self.is_changed(cache) {
            Ok(Replayed::Changed)
        } else if wrapped {
            Ok(Replayed::Wrapped)
        } else {
            Ok(Replayed::AsBefore)
        }
    }

    fn is_changed(&self, cache: &Cache) -> bool {
        !cache.is_synced(&self.snapshot.world.changes)
    }

    /// A packet whose headers are as they are to be leaves by its path's only output. Returns whether that is in a tunnel.
    #[inline(always)] // as above
    fn output_by<const A: usize>(
        &mut self,
        path: &Path,
        mbuf: Mbuf,
        key: &Compact,
        (port, in_port): (PortId, PortNo),
    ) -> bool {
        let Some(op) = path.encapsulation() else {
            self.output(path.out(), port, mbuf);
            return false;
        };
        self.wrap_and_output(op, path.out(), mbuf, key.layers_of::<A>(), (port, in_port));
        true
    }

    /// [`Step::replay_simple`], of what is not.
    #[inline(never)]
    pub(super) fn replay_rare<const A: usize>(
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
            self.output_by::<A>(path, mbuf, key, from);
        } else {
            self.replay_ops(cache, (path, rare), plain, Packet { mbuf, layers }, from);
        }
        Ok(if self.is_changed(cache) { Replayed::Changed } else { Replayed::AsBefore })
    }

    /// A packet takes a path. Returns whether that may have changed something for the next one.
    #[inline(always)] // as above
    pub(super) fn takes(&self, cache: &Cache, path: &Path, len: u64) -> bool {
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
    pub(super) fn count(&self, cache: &Cache, megaflow: &Megaflow, len: u64) {
        if megaflow.has_effects() && megaflow.used() != self.now {
            self.outputs.owner.leave();
            cache.effects(megaflow, &self.snapshot.world, self.now);
        }
        megaflow.count(1, len, self.now);
    }

    /// All of several connections: first all are asked, then all are told. If one changes in between it is as if it had changed just behind the packet.
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
    pub(super) fn replay_stage(&mut self, replay: Replay<'_>, packet: Packet, origin: Origin<'_>) {
        let Some(megaflow) = replay.path.step(replay.next) else { return self.outputs.free(packet.mbuf) };
        self.count(replay.cache, megaflow, packet.mbuf.len() as u64);
        let replay = Replay { next: replay.next + 1, ..replay };
        self.carry_out(None, megaflow, packet, &mut Origin { replay: Some(replay), ..origin });
    }
}
