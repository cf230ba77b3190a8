//! Packets that come out of tunnels by an entry of the decap cache (`cache/tunnel/decap.rs`): what
//! is inside has been looked up, what is outside is decided like that of its last packet.
//!
//! A packet about which not everything is known is as it came in, and goes the way of its own key
//! and of [`StepContext::decapsulate`].

use crate::action::DecapOp;
use crate::cache::{Cache, Megaflow, Outer};
use crate::port::PortId;
use crate::time::Millis;
use crate::worker::fast::batch::Halt;
use crate::worker::fast::replay::{Replayed, Taken};
use crate::worker::step::StepContext;
use crate::worker::tunnel::encap::read_outside;
use crate::worker::tunnel::outside::plain_words;
use std::sync::Arc;
use vswitch_dpdk::{Burst, Csum, Mbuf};

/// [`Cache::prepare`] for a burst of a port whose packets come out of tunnels like this. Returns
/// the bytes of all packets, and whether all of them are frames of ordinary length, which need no
/// second look.
#[inline(never)] // registers of its own
pub(in crate::worker) fn prepare(
    cache: &mut Cache,
    burst: &Burst,
    port: PortId,
    op: DecapOp,
    world: u64,
    frames: std::ops::RangeInclusive<usize>,
) -> (u64, bool) {
    cache.prepare_decap(burst, (port, world), &frames, |mbuf| words_of(op, mbuf))
}

/// [`plain_words`] of a packet.
#[inline(always)] // as that
fn words_of(op: DecapOp, mbuf: &Mbuf) -> Option<(Outer, usize)> {
    plain_words(op, mbuf.head(), mbuf.len(), || mbuf.csum())
}

/// How it was decided what becomes of the inside of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::worker) enum Inside {
    Program,
    Megaflow,
}

/// A packet whose front was taken away is as it was: the bytes of the header are still there.
#[cold]
fn put_back(mbuf: &mut Mbuf, header: usize) {
    mbuf.set_csum(Csum::Unknown);
    let back = mbuf.prepend(header).is_some();
    debug_assert!(back, "what was taken away was there");
}

impl StepContext<'_> {
    /// [`StepContext::replay_batch`] of packets that come by one entry and whose insides have
    /// programs, from slot `first` on. Returns how many, and why not more; the next one is in its
    /// slot, as it was. None of those to which more happens than to others: the first of a
    /// millisecond is [`StepContext::decap_by_entry`]'s.
    #[inline(never)] // registers of its own
    pub(in crate::worker) fn run_inside(
        &mut self,
        cache: &Cache,
        slots: &mut [Option<Mbuf>],
        first: usize,
    ) -> (usize, Halt) {
        let entry = cache.decap_entry(first).filter(|_| cache.is_located());
        let Some((entry, megaflow, header)) = entry else { return (0, Halt::NoProgram) };
        let view = self.snapshot.port(entry.port());
        let due = !entry.was_passed(self.now) || megaflow.has_effects() && megaflow.used() != self.now;
        let Some(view) = view.filter(|_| !due) else { return (0, Halt::NoProgram) };
        self.next_packet();
        let (from, mut taken) = ((entry.port(), entry.in_port), Taken::default());
        let (mut packets, mut bytes, mut why) = (0, 0, Halt::Between);
        for (i, (slot, key)) in slots.iter_mut().zip(cache.keys.iter()).enumerate().skip(first) {
            if !cache.comes_by(i, entry, header) {
                break;
            }
            let Some(mbuf) = slot.as_mut().filter(|_| cache.has_located_program(key)) else {
                why = Halt::NoProgram;
                break;
            };
            if !mbuf.trim_front(header) {
                why = Halt::NoProgram;
                break;
            }
            let inside = mbuf.len();
            // Nothing that was said of the outside is true of the inside.
            mbuf.set_csum(Csum::Unknown);
            let done = self.go_any(cache, slot, key, from, &mut taken);
            if let Err(halt) = done {
                slot.iter_mut().for_each(|mbuf| put_back(mbuf, header));
                why = halt;
                break;
            }
            packets += 1;
            bytes += inside;
            if done == Ok(Replayed::Changed) {
                break;
            }
        }
        self.settle(&mut taken);
        if packets > 0 {
            megaflow.count(packets as u64, (bytes + packets * header) as u64, self.now);
            let counters = &view.shared.counters[self.worker];
            counters.rx_packets.add(packets as u64);
            counters.rx_bytes.add(bytes as u64);
        }
        (packets, why)
    }

    /// The packet of slot `i` of a burst, which has the key of what is inside, takes the fast path.
    ///
    /// # Errors
    /// The packet as it came in: there is no such way, or not now.
    #[inline(never)] // most are replayed by `run_inside`
    pub(in crate::worker) fn decap_by_entry(
        &mut self,
        cache: &mut Cache,
        i: usize,
        mut mbuf: Mbuf,
    ) -> Result<Inside, Mbuf> {
        let Some((entry, ..)) = cache.decap_entry(i) else { return Err(mbuf) };
        if entry.pass(self.now) {
            self.outputs.owner.leave();
            self.first_of_millisecond(cache, i, &mbuf);
        }
        let cache = &*cache;
        let Some((entry, megaflow, header)) = cache.decap_entry(i) else { return Err(mbuf) };
        let Some(view) = self.snapshot.port(entry.port()) else { return Err(mbuf) };
        let outside = mbuf.len() as u64;
        if !mbuf.trim_front(header) {
            return Err(mbuf);
        }
        // Nothing that was said of the outside is true of the inside.
        mbuf.set_csum(Csum::Unknown);
        let inside = mbuf.len() as u64;
        let key = &cache.keys[i];
        let way = match cache.program(key) {
            Some(program) => {
                let done = self.replay(cache, program, mbuf, key, (entry.port(), entry.in_port));
                // Why it takes the slow path is counted there.
                done.map(|()| Inside::Program).map_err(|(mbuf, _)| mbuf)
            }
            None => self.output_inside(cache, i, mbuf),
        };
        let way = way.map_err(|mut mbuf| {
            put_back(&mut mbuf, header);
            mbuf
        })?;
        self.count(cache, megaflow, outside);
        let counters = &view.shared.counters[self.worker];
        counters.rx_packets.add(1);
        counters.rx_bytes.add(inside);
        Ok(way)
    }

    /// By a decision that only lets what was inside leave by a port.
    ///
    /// # Errors
    /// The packet: there is none.
    #[inline(never)]
    fn output_inside(&mut self, cache: &Cache, i: usize, mbuf: Mbuf) -> Result<Inside, Mbuf> {
        let Some(megaflow) = cache.hit(i).filter(|megaflow| megaflow.out() != PortId::NONE) else { return Err(mbuf) };
        let len = mbuf.len() as u64;
        self.outputs.push_plain(self.snapshot, megaflow.out(), mbuf)?;
        self.count(cache, megaflow, len);
        Ok(Inside::Megaflow)
    }

    /// What is heard of packets that come by a decap entry, beside that they come out of a tunnel.
    /// What it changes is known afterwards.
    #[cold]
    fn first_of_millisecond(&self, cache: &mut Cache, i: usize, mbuf: &Mbuf) {
        let Some(op) = cache.decap_entry(i).and_then(|(_, megaflow, _)| megaflow.unwraps()) else { return };
        if let Some((outer, _)) = words_of(op, mbuf) {
            cache.use_tunnel(&outer, self.now);
        }
        if let Ok((outside, _)) = read_outside(op.kind, mbuf) {
            self.hear_of_sender(op.vtep, mbuf, &outside);
        }
        cache.sync(&self.snapshot.world.changes);
    }

    /// A packet that came in by a port is going to come out of a tunnel, which is all that is
    /// decided of it: those like it may come by a decap entry.
    #[inline(never)]
    pub(in crate::worker) fn insert_decap(
        &self,
        cache: &mut Cache,
        (megaflow, op): (&Arc<Megaflow>, DecapOp),
        mbuf: &Mbuf,
        port: PortId,
        now: Millis,
    ) {
        // What comes by a patch port is in no burst.
        let arrives = self.snapshot.port(port).is_some_and(|view| view.peer.is_none());
        let plain = arrives && mbuf.nb_segs() == 1 && mbuf.gso_size() == 0 && op.max.is_none();
        let Some((outer, header)) = words_of(op, mbuf).filter(|_| plain) else { return };
        let world = &self.snapshot.world;
        let in_port = |tunnel: PortId| {
            let facts = world.ports.get(tunnel.index())?.as_ref()?;
            let strict = world.bridges.get(facts.bridge)?.strict;
            (facts.admin_up && !strict).then_some(facts.number)
        };
        cache.insert_decap((megaflow, op), (mbuf.head(), port), (&outer, header), (world.number, now), in_port);
    }
}
