//! `reject(...)`: the answer to a packet as it came in, and its own way.
//!
//! Flows refuse where all is decided, and by then addresses, ports and tags may be others. The
//! sender knows none of that: who answers must name what he wrote. So on the slow path a packet
//! takes along what it was at the front ([`Front`]); programs of the connection cache refuse
//! nobody. What comes out of a tunnel came in there; what goes into one did not come in at all.
//!
//! The answer is a packet of our own making, in the name of the receiver: it goes through the
//! actions of `reject` with the packet's metadata, of no connection, and nothing is learned from
//! it. No answer is answered ([`crate::packet::refusal`]), so none leads to another.

use crate::action::{Packet, RejectOp};
use crate::observe::{DropReason, Remains};
use crate::packet::refusal::{Refusal, refuse};
use crate::packet::too_big::QUOTED_MAX;
use crate::pipeline::{Received, Start};
use crate::worker::slow::ct::untrack;
use crate::worker::slow::execute::Origin;
use crate::worker::step::StepContext;
use vswitch_dpdk::Csum;
use vswitch_flow::Field;
use vswitch_flow::action::Reject;

/// Bytes of a packet that are kept. Two tags, the longest IPv4 header and TCP without options are
/// 102; IPv6 has some extension headers.
const FRONT_MAX: usize = 128;

/// Bytes of an L4 header that a pipeline may write: ports and checksum.
const L4_WRITTEN: usize = 18;

/// What a packet was when it came in; None: nothing has been written into it yet. A reference,
/// since each stage of each packet hands it on.
pub(in crate::worker) type CameIn<'a> = Option<&'a Front>;

/// The front of a packet.
#[derive(Debug)]
pub(in crate::worker) struct Front {
    bytes: [u8; FRONT_MAX],
    /// How many of them are the packet's.
    len: usize,
    /// All bytes of the packet.
    whole: usize,
    /// Where its IP header is. None: it has none, or too long headers to tell what a pipeline
    /// wrote.
    l3: Option<usize>,
}

impl Front {
    /// Of a packet that did not come in, or of which nobody knows any more what it was.
    pub(in crate::worker) const UNKNOWN: &'static Self = &Self::EMPTY;
    /// See [`Self::UNKNOWN`].
    pub(in crate::worker) const EMPTY: Self = Self { bytes: [0; FRONT_MAX], len: 0, whole: 0, l3: None };

    /// Makes it that of a packet, in its place: bytes that were copied just now are dear to move.
    #[inline]
    pub(in crate::worker) fn take(&mut self, packet: &Packet) {
        let (head, whole) = (packet.mbuf.head(), packet.mbuf.len());
        let len = head.len().min(FRONT_MAX);
        match head.first_chunk() {
            Some(bytes) => self.bytes = *bytes,
            None => self.bytes[..len].copy_from_slice(&head[..len]),
        }
        // Without an L4 header nothing is written behind the addresses.
        self.l3 = packet.l3().filter(|l3| {
            let written = if packet.has_l4() { usize::from(packet.layers.l4) + L4_WRITTEN } else { l3 + 40 };
            written.min(whole) <= len
        });
        (self.len, self.whole) = (len, whole);
    }

    /// The first bytes of a packet as they were, of what it is now: what lies behind the headers is
    /// where it was, from the IP header on.
    fn restore<'b>(&self, packet: &Packet, buffer: &'b mut [u8; QUOTED_MAX]) -> Option<&'b [u8]> {
        let from = packet.l3()? + self.len - self.l3?;
        let there = packet.mbuf.len().saturating_sub(from);
        let more = (self.whole - self.len).min(QUOTED_MAX - self.len).min(there);
        let buffer = &mut buffer[..self.len + more];
        let (front, rest) = buffer.split_at_mut(self.len);
        front.copy_from_slice(&self.bytes[..self.len]);
        (rest.is_empty() || packet.mbuf.read(from, rest)).then_some(&*buffer)
    }

    /// For somebody who is told of the packet, and may answer it. None, too, of one with a wrong
    /// checksum: whom it came from nobody knows.
    pub(in crate::worker) fn received(&self, packet: &Packet) -> Option<Received> {
        if packet.mbuf.csum() == Csum::Bad {
            return None;
        }
        let mut buffer = [0; QUOTED_MAX];
        let front = self.restore(packet, &mut buffer)?;
        Some(Received { front: front.into(), len: self.whole })
    }
}

impl StepContext<'_> {
    /// Answers a packet that is refused, if it may be answered and its port has not had too many
    /// answers.
    #[cold]
    #[inline(never)]
    pub(in crate::worker) fn reject(&mut self, op: &RejectOp, packet: &Packet, origin: &Origin<'_>) {
        if op.ends {
            self.count_decided(origin, DropReason::PathMtu, Remains::Packet(&packet.mbuf));
        }
        let Some(front) = origin.came else { return };
        // Whom it came from nobody knows, then.
        if packet.mbuf.csum() == Csum::Bad {
            return;
        }
        if op.bridge >= self.snapshot.world.bridges.len() {
            return;
        }
        if !self.budget.rejects.take(self.now) {
            return self.count_decided(origin, DropReason::RejectRate, Remains::Packet(&packet.mbuf));
        }
        let Reject { reset, icmp, icmp6, mtu, .. } = *op.reject;
        let how = Refusal { reset, icmp, icmp6, mtu };
        let mut buffer = [0; QUOTED_MAX];
        // A checksum that is left to a device is quoted unfinished: who is told looks for his
        // socket, no further.
        let Some(shown) = front.restore(packet, &mut buffer) else { return };
        let Some(answer) = refuse(shown, front.whole, how) else { return };
        let Some(mbuf) = self.pool.mbuf_from(&answer) else {
            return self.count_decided(origin, DropReason::NoMbuf, Remains::Bytes(&answer));
        };
        if let Err(reason) = self.spend(&mbuf) {
            return self.drop_in(origin.port, reason, mbuf);
        }
        let mut key = origin.metadata().metadata_with(&op.metadata, &op.defined);
        untrack(&mut key);
        // They are of one decision, or of the packet's bytes.
        for field in [Field::RecircId, Field::ConjId, Field::ActsetOutput, Field::DpHash] {
            key.set(field, 0);
        }
        op.sent.add();
        let telling = std::mem::replace(&mut self.telling, true);
        self.once(None, op.bridge, origin.port, key, Start::Answer(op), mbuf);
        self.telling = telling;
    }
}
