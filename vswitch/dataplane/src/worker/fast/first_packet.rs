//! A first packet of a TCP connection that takes the fast path
//! ([`crate::cache::FirstPacketTemplate`]): its connection is opened, what all stages write is
//! written, and it is sent.
//!
//! Nothing of the packet or the tracker is touched before it is known that all of it holds.
//! Whatever does not hold takes the slow path.

use crate::action::Packet;
use crate::cache::{Cache, Compact, FirstPacketTemplate};
use crate::conntrack::plainly_seen;
use crate::pipeline::PortFacts;
use crate::port::PortId;
use crate::worker::step::StepContext;
use vswitch_conntrack::{Ingress, Seen};
use vswitch_flow::FlowKey;

impl StepContext<'_> {
    /// Does what is known of such packets. `compact`: of the packet, if it has one.
    ///
    /// # Errors
    /// The packet as it was: it is no first one, or nothing is known.
    #[inline]
    pub(in crate::worker) fn open(
        &mut self,
        cache: &mut Cache,
        (port, facts): (PortId, &PortFacts),
        key: &FlowKey,
        packet: Packet,
        compact: &Compact,
    ) -> Result<(), Packet> {
        if !compact.is_first(packet.mbuf.head()) {
            return Err(packet);
        }
        let v6 = compact.is_v6();
        let Some(template) = cache.take_template(facts.bridge, key, v6) else { return Err(packet) };
        let done = self.open_by(cache, &template, (port, facts), packet);
        cache.done_with_template(template, v6);
        done
    }

    fn open_by(
        &mut self,
        cache: &mut Cache,
        template: &FirstPacketTemplate,
        (port, facts): (PortId, &PortFacts),
        mut packet: Packet,
    ) -> Result<(), Packet> {
        let (worker, now) = (self.worker, self.now);
        let request = &template.request;
        let mut seen = Seen { port: Ingress::port(port.0), ..Seen::default() };
        if plainly_seen(&mut packet, request.zone, &mut seen).is_none() {
            return Err(packet);
        }
        let tracker = self.conntrack.tracker();
        if !tracker.open_unsought(&seen, request, worker, now.0) {
            return Err(packet);
        }
        if let Some(commits) = &template.commits {
            commits.add();
        }
        cache.met(request.zone);
        cache.stats().opening_hits.add(1);
        self.takes(cache, &template.path, packet.mbuf.len() as u64);
        for op in &template.rewrites {
            let rewritten = packet.rewrite(op);
            debug_assert!(rewritten.is_ok(), "no packet dies of {op:?}");
        }
        let Packet { mbuf, layers } = packet;
        match template.path.encapsulation() {
            Some(op) => self.wrap_and_output(op, template.path.out(), mbuf, layers, (port, facts.number)),
            None => self.output(template.path.out(), port, mbuf),
        }
        Ok(())
    }
}
