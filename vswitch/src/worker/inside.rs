//! Packets of a burst that come out of tunnels, a few at a time.
//!
//! **Where in the walk**: behind a decision that only unwraps. What such a packet is about inside is looked up by another key, which is known when the outer headers have been read; if its lookups began
//! only then, each packet would wait for memory. So packets are held until one comes that is none of these, or the burst ends: what their lookups read is asked for meanwhile. Until then they are only looked
//! at. One about which not everything is known goes the way of [`Step::decapsulate`], behind those that came before it.
//!
//! **Threads**: one worker's.

use super::execute::Origin;
use super::outside::outer_words;
use super::step::Step;
use super::tunnel::{read_outside, source_of};
use crate::action::{DecapOp, Packet};
use crate::cache::{Cache, Compact};
use crate::dpdk::{Csum, Mbuf};
use crate::limits::BURST;
use crate::port::PortId;

/// A packet whose tunnel is known.
#[derive(Debug)]
struct Held {
    /// As it came in.
    mbuf: Mbuf,
    op: DecapOp,
    /// Of what is inside.
    key: Compact,
    /// Bytes in front of that.
    header: usize,
    /// The tunnel port.
    port: PortId,
}

/// Those that are held. Empty between bursts.
#[derive(Debug)]
pub(super) struct Inside(Vec<Held>);

impl Default for Inside {
    fn default() -> Self {
        Self(Vec::with_capacity(BURST))
    }
}

impl Inside {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Step<'_> {
    /// A packet comes out of a tunnel, soon.
    #[inline(never)]
    pub(super) fn hold(
        &mut self,
        cache: &mut Cache,
        inside: &mut Inside,
        op: DecapOp,
        packet: Packet,
        origin: Origin<'_>,
    ) {
        match self.look_inside(cache, op, &packet.mbuf) {
            Some((key, port, header)) if inside.0.len() < BURST => {
                inside.0.push(Held { mbuf: packet.mbuf, op, key, header, port });
            }
            _ => {
                self.let_out(cache, inside, origin);
                self.decapsulate(Some(cache), op, packet, origin);
            }
        }
    }

    /// The key of what is inside, the tunnel port, and where the inside begins; none: something about it is out of the ordinary.
    #[inline]
    fn look_inside(&self, cache: &mut Cache, op: DecapOp, mbuf: &Mbuf) -> Option<(Compact, PortId, usize)> {
        if mbuf.gso_size() != 0 || mbuf.nb_segs() != 1 || op.max.is_some() {
            return None;
        }
        let (outside, dst_port) = read_outside(op.kind, mbuf).ok()?;
        if outside.payload_end != mbuf.len() {
            return None;
        }
        let outer = outer_words(op, dst_port, &outside)?;
        let world = &self.snapshot.world;
        let (tunnel, news) = cache.known_tunnel(&outer, world.number, source_of(mbuf), self.now)?;
        let facts = world.ports.get(tunnel.port.index())?.as_ref()?;
        if !facts.admin_up || world.bridges.get(facts.bridge)?.strict {
            return None;
        }
        if news {
            self.hear_of_sender(op.home, mbuf, &outside);
        }
        let key = cache.key_ahead(mbuf.head().get(outside.header_len..)?, tunnel);
        key.is_plain().then_some((key, tunnel.port, outside.header_len))
    }

    /// All that are held go on. `origin`: of the packets as they came in.
    #[inline(never)]
    pub(super) fn let_out(&mut self, cache: &mut Cache, inside: &mut Inside, origin: Origin<'_>) {
        let tracker = self.conntrack.tracker();
        for held in &mut inside.0 {
            cache.locate_ahead(&mut held.key, tracker);
        }
        for held in inside.0.drain(..) {
            self.next_packet();
            cache.sync(&self.snapshot.world.changes);
            self.go_out(cache, held, origin);
        }
    }

    /// The short way, if there is one for the packet.
    #[inline]
    fn go_out(&mut self, cache: &mut Cache, held: Held, origin: Origin<'_>) {
        let Held { mut mbuf, op, key, header, port } = held;
        let facts = self.snapshot.world.ports.get(port.index()).and_then(Option::as_ref);
        if let (Some(facts), Some(view)) = (facts, self.snapshot.port(port))
            && let Some(program) = cache.program_of(&key)
            && mbuf.trim_front(header)
        {
            // Nothing that was said of the outside is true of the inside.
            mbuf.set_csum(Csum::Unknown);
            let len = mbuf.len() as u64;
            self.tunnels_left += 1;
            let replayed = self.replay(cache, &program, mbuf, key.layers(), (port, facts.number));
            self.tunnels_left -= 1;
            match replayed {
                Ok(()) => {
                    let counters = &view.shared.counters[self.worker];
                    counters.rx_packets.add(1);
                    counters.rx_bytes.add(len);
                    return cache.stats().program_hits.add(1);
                }
                Err((same, why)) => {
                    mbuf = same;
                    cache.count_fallback(why);
                    mbuf.set_csum(Csum::Unknown);
                    // The bytes of the header are still there.
                    if mbuf.prepend(header).is_none() {
                        return self.drop_in(port, crate::observe::DropReason::Headroom, mbuf);
                    }
                }
            }
        }
        let packet = Packet { mbuf, layers: key.layers() };
        self.decapsulate(Some(cache), op, packet, origin);
    }
}
