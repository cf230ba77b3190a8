//! Packets of a burst that come out of tunnels, a few at a time.
//!
//! **Where in the walk**: behind a decision that only unwraps. What such a packet is about inside is looked up by another key, which is known when the outer headers have been read; if its lookups began
//! only then, each packet would wait for memory. So packets are held until one comes that is none of these, or the burst ends: what their lookups read is asked for meanwhile. Until then they are only looked
//! at. One about which not everything is known goes the way of [`Step::decapsulate`], behind those that came before it.
//!
//! **Threads**: one worker's.

use super::execute::Origin;
use super::outside::plain_words;
use super::step::Step;
use super::tunnel::{read_outside, source_of};
use crate::action::{DecapOp, Packet};
use crate::cache::{Cache, Compact};
use crate::dpdk::{Csum, Mbuf};
use crate::limits::BURST;
use crate::observe::DropReason;
use crate::port::PortId;
use vswitch_flow::action::PortNo;
use vswitch_flow::extract::Layers;

/// A packet whose tunnel is known.
#[derive(Debug)]
struct Held {
    /// As it came in.
    mbuf: Mbuf,
    layers: Layers,
    op: DecapOp,
    /// Bytes in front of what is inside.
    header: usize,
    /// The tunnel port.
    port: PortId,
}

/// Those that are held. Empty between bursts.
#[derive(Debug)]
pub(super) struct Inside {
    held: Vec<Held>,
    /// Of what is inside of each. They stay where they are made: to copy what was just written costs more than all the rest.
    keys: Box<[Compact; BURST]>,
}

impl Default for Inside {
    fn default() -> Self {
        Self { held: Vec::with_capacity(BURST), keys: Box::default() }
    }
}

impl Inside {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl Step<'_> {
    /// A packet that came in by `from` comes out of a tunnel, soon.
    #[inline(never)]
    pub(super) fn hold(
        &mut self,
        cache: &mut Cache,
        inside: &mut Inside,
        op: DecapOp,
        packet: Packet,
        from: (PortId, PortNo),
    ) {
        let Packet { mbuf, layers } = packet;
        let key = inside.keys.get_mut(inside.held.len());
        match key.and_then(|key| self.look_inside(cache, op, &mbuf, key)) {
            Some((port, header)) => inside.held.push(Held { mbuf, layers, op, header, port }),
            None => {
                self.let_out(cache, inside, from);
                self.next_packet();
                self.decapsulate(Some(cache), op, Packet { mbuf, layers }, Origin::of(from.0, from.1));
            }
        }
    }

    /// Makes the key of what is inside; returns the tunnel port, and where the inside begins. None: something about it is out of the ordinary.
    #[inline(always)] // what it returns is taken apart at once
    fn look_inside(&self, cache: &mut Cache, op: DecapOp, mbuf: &Mbuf, key: &mut Compact) -> Option<(PortId, usize)> {
        if mbuf.gso_size() != 0 || mbuf.nb_segs() != 1 || op.max.is_some() {
            return None;
        }
        let head = mbuf.head();
        let (outer, header) = plain_words(op, head, mbuf.len())?;
        let world = &self.snapshot.world;
        let (tunnel, news) = cache.known_tunnel(&outer, world.number, source_of(mbuf), self.now)?;
        let facts = world.ports.get(tunnel.port.index())?.as_ref()?;
        if !facts.admin_up {
            return None;
        }
        if news {
            self.hear_of(op, mbuf);
        }
        if world.bridges.get(facts.bridge)?.strict {
            return None;
        }
        cache.key_ahead(key, head.get(header..)?, tunnel);
        key.is_plain().then_some((tunnel.port, header))
    }

    #[cold]
    fn hear_of(&self, op: DecapOp, mbuf: &Mbuf) {
        if let Ok((outside, _)) = read_outside(op.kind, mbuf) {
            self.hear_of_sender(op.home, mbuf, &outside);
        }
    }

    /// All that are held go on. `from`: where they came in.
    #[inline(never)]
    pub(super) fn let_out(&mut self, cache: &mut Cache, inside: &mut Inside, from: (PortId, PortNo)) {
        let tracker = self.conntrack.tracker();
        let Inside { held, keys } = inside;
        for key in keys.iter_mut().take(held.len()) {
            cache.locate_ahead(key, tracker);
        }
        let mut replayed = 0;
        for (held, key) in held.drain(..).zip(keys.iter()) {
            self.next_packet();
            cache.sync(&self.snapshot.world.changes);
            if let Some((op, packet)) = self.go_out(cache, held, key) {
                self.decapsulate(Some(cache), op, packet, Origin::of(from.0, from.1));
            } else {
                replayed += 1;
            }
        }
        if replayed > 0 {
            cache.stats().program_hits.add(replayed);
        }
    }

    /// The short way, if there is one for the packet; else it is as it came in.
    #[inline]
    fn go_out(&mut self, cache: &Cache, held: Held, key: &Compact) -> Option<(DecapOp, Packet)> {
        let Held { mut mbuf, layers, op, header, port } = held;
        let facts = self.snapshot.world.ports.get(port.index()).and_then(Option::as_ref);
        if let (Some(facts), Some(view)) = (facts, self.snapshot.port(port))
            && let Some(program) = cache.program_of(key)
            && mbuf.trim_front(header)
        {
            // Nothing that was said of the outside is true of the inside.
            mbuf.set_csum(Csum::Unknown);
            let len = mbuf.len() as u64;
            match self.replay(cache, &program, mbuf, key.layers(), (port, facts.number)) {
                Ok(()) => {
                    let counters = &view.shared.counters[self.worker];
                    counters.rx_packets.add(1);
                    counters.rx_bytes.add(len);
                    return None;
                }
                // Why it goes the long way is counted there.
                Err((same, _)) => {
                    mbuf = same;
                    mbuf.set_csum(Csum::Unknown);
                    // The bytes of the header are still there.
                    if mbuf.prepend(header).is_none() {
                        self.drop_in(port, DropReason::Headroom, mbuf);
                        return None;
                    }
                }
            }
        }
        Some((op, Packet { mbuf, layers }))
    }
}
