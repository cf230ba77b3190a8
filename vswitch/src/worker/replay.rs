//! A packet of a connection that goes the short way: its program instead of its stages.
//!
//! First everything is looked at that could make a difference: decisions, checksums, connections. Only if all of it holds anything is touched. So a packet that cannot be
//! replayed is as it was, and goes the long way.

use super::execute::Origin;
use super::reject::Front;
use super::step::Step;
use crate::action::Packet;
use crate::cache::{Cache, Megaflow, Path, Program};
use crate::conntrack::{Plain, translate};
use crate::dpdk::Mbuf;
use crate::observe::Fallback;
use crate::port::PortId;
use vswitch_conntrack::{Link, Rewrite};
use vswitch_flow::action::PortNo;
use vswitch_flow::extract::Layers;

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

impl Step<'_> {
    /// Does what a program says.
    ///
    /// # Errors
    /// The packet as it was, and why not.
    #[inline]
    pub(super) fn replay(
        &mut self,
        cache: &Cache,
        program: &Program<'_>,
        mut mbuf: Mbuf,
        layers: Layers,
        (port, in_port): (PortId, PortNo),
    ) -> Result<(), (Mbuf, Fallback)> {
        if !cache.is_current(program.path) {
            return Err((mbuf, Fallback::Stale));
        }
        let Some(plain) = Plain::read(&mut mbuf, layers) else { return Err((mbuf, Fallback::Checksum)) };
        let passed = match program.rare {
            None => {
                let len = u32::try_from(mbuf.len()).unwrap_or(u32::MAX);
                self.conntrack.tracker().pass(program.link, plain.segment(), len, self.now.0)
            }
            Some(rare) => self.pass_all(&rare.links, plain, mbuf.len()),
        };
        if !passed {
            return Err((mbuf, Fallback::Connection));
        }
        if program.rare.is_some_and(|rare| !rare.fused) {
            self.replay_ops(cache, program, plain, Packet { mbuf, layers }, (port, in_port));
            return Ok(());
        }
        cache.pass(program.path, &self.snapshot.world, mbuf.len() as u64, self.now);
        let mut packet = Packet { mbuf, layers };
        program.apply(&mut packet);
        match program.path.encapsulation() {
            Some(op) => self.wrap_and_output(op, program.path.out(), packet.mbuf, layers, (port, in_port)),
            None => self.output(program.path.out(), port, packet.mbuf),
        }
        Ok(())
    }

    /// A packet is decided by this.
    #[inline]
    pub(super) fn count(&self, cache: &Cache, megaflow: &Megaflow, len: u64) {
        if megaflow.has_effects() && megaflow.used() != self.now {
            cache.effects(megaflow, &self.snapshot.world, self.now);
        }
        megaflow.count(1, len, self.now);
    }

    /// All of several connections: first all are asked, then all are told. If one changes in between it is as if it had changed just behind the packet.
    #[cold]
    fn pass_all(&self, links: &[(Link, Rewrite)], plain: Plain, len: usize) -> bool {
        let (tracker, segment, now) = (self.conntrack.tracker(), plain.segment(), self.now.0);
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let all = links.iter().all(|(link, _)| tracker.may_pass(link, segment, now));
        if all {
            for (link, _) in links {
                tracker.settle(link, segment, len, now);
            }
        }
        all
    }

    /// What cannot be said as one change of headers, op by op.
    #[cold]
    fn replay_ops(
        &mut self,
        cache: &Cache,
        program: &Program<'_>,
        plain: Plain,
        packet: Packet,
        (port, in_port): (PortId, PortNo),
    ) {
        let ahead = program.rare.map_or([].as_slice(), |rare| &rare.links);
        let replay = Replay { cache, path: program.path, next: 0, plain, ahead };
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
