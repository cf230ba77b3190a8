//! Packets that come out of tunnels by a door of the cache (`cache/doors.rs`): what is inside has been looked up, what is outside is decided like that of its last packet.
//!
//! A packet about which not everything is known is as it came in, and goes the way of its own key and of [`Step::decapsulate`].

use super::outside::plain_words;
use super::step::Step;
use super::tunnel::read_outside;
use crate::action::DecapOp;
use crate::cache::{Cache, Megaflow};
use crate::dpdk::{Burst, Csum, Mbuf};
use crate::port::PortId;
use crate::time::Millis;
use std::sync::Arc;

/// [`Cache::prepare`] for a burst of a port whose packets come out of tunnels like this. Returns what `prepare` in `tables.rs` does.
#[inline(never)] // registers of its own
pub(super) fn prepare(
    cache: &mut Cache,
    burst: &Burst,
    port: PortId,
    op: DecapOp,
    world: u64,
    frames: std::ops::RangeInclusive<usize>,
) -> (u64, bool) {
    let (mut bytes, mut ordinary) = (0, true);
    for (i, mbuf) in burst.iter().enumerate() {
        let len = mbuf.len();
        bytes += len as u64;
        ordinary &= frames.contains(&len);
        let plain = if mbuf.nb_segs() == 1 && mbuf.gso_size() == 0 { plain_words(op, mbuf.head(), len) } else { None };
        let inside =
            plain.is_some_and(|(outer, header)| cache.prepare_inside(i, mbuf.head(), port, (&outer, header), world));
        if !inside {
            cache.prepare_apart(i, mbuf, port);
        }
    }
    cache.settle_hint(port);
    (bytes, ordinary)
}

impl Step<'_> {
    /// The packet of slot `i` of a burst, which has the key of what is inside, goes the short way.
    ///
    /// # Errors
    /// The packet as it came in: there is no such way, or not now.
    #[inline(always)] // in the loop over a burst
    pub(super) fn come_in_by_door(&mut self, cache: &Cache, i: usize, mut mbuf: Mbuf) -> Result<(), Mbuf> {
        let Some((door, megaflow, header)) = cache.door(i) else { return Err(mbuf) };
        let (Some(program), Some(view)) = (cache.program(i), self.snapshot.port(door.port())) else { return Err(mbuf) };
        if door.pass(self.now) {
            self.first_of_millisecond(cache, megaflow, &mbuf);
        }
        let outside = mbuf.len() as u64;
        if !mbuf.trim_front(header) {
            return Err(mbuf);
        }
        // Nothing that was said of the outside is true of the inside.
        mbuf.set_csum(Csum::Unknown);
        let inside = mbuf.len() as u64;
        match self.replay(cache, &program, mbuf, cache.keys[i].layers(), (door.port(), door.in_port)) {
            Ok(()) => {
                megaflow.count(1, outside, self.now);
                let counters = &view.shared.counters[self.worker];
                counters.rx_packets.add(1);
                counters.rx_bytes.add(inside);
                Ok(())
            }
            // Why it goes the long way is counted there.
            Err((mut mbuf, _)) => {
                mbuf.set_csum(Csum::Unknown);
                // The bytes of the header are still there.
                let back = mbuf.prepend(header).is_some();
                debug_assert!(back, "what was taken away was there");
                Err(mbuf)
            }
        }
    }

    /// What packets cause that come by a door, beside that they come out of a tunnel.
    #[cold]
    fn first_of_millisecond(&self, cache: &Cache, megaflow: &Megaflow, mbuf: &Mbuf) {
        if megaflow.has_effects() {
            cache.effects(megaflow, &self.snapshot.world, self.now);
        }
        if let Some(op) = megaflow.unwraps()
            && let Ok((outside, _)) = read_outside(op.kind, mbuf)
        {
            self.hear_of_sender(op.home, mbuf, &outside);
        }
    }

    /// A packet that came in by a port is going to come out of a tunnel, which is all that is decided of it: those like it may come by a door.
    #[inline(never)]
    pub(super) fn open_door(
        &self,
        cache: &mut Cache,
        (megaflow, op): (&Arc<Megaflow>, DecapOp),
        mbuf: &Mbuf,
        port: PortId,
        now: Millis,
    ) {
        let plain = mbuf.nb_segs() == 1 && mbuf.gso_size() == 0 && op.max.is_none();
        let Some((outer, _)) = plain_words(op, mbuf.head(), mbuf.len()).filter(|_| plain) else { return };
        let world = &self.snapshot.world;
        let in_port = |tunnel: PortId| {
            let facts = world.ports.get(tunnel.index())?.as_ref()?;
            let strict = world.bridges.get(facts.bridge)?.strict;
            (facts.admin_up && !strict).then_some(facts.number)
        };
        cache.open_door((megaflow, op), (mbuf.head(), port), &outer, (world.number, now), in_port);
    }
}
