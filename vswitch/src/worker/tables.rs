//! Packets of a bridge with tables: key, translation, ops; one packet after the other.

use super::execute::Origin;
use super::step::Step;
use super::{PortView, Walk};
use crate::action::Packet;
use crate::dpdk::{Burst, Mbuf};
use crate::limits::{FRAME_MIN, HEAD_LEN};
use crate::observe::DropReason;
use crate::pipeline::{Request, Start, translate};
use crate::port::PortId;
use crate::time::Millis;
use vswitch_flow::extract::extract;
use vswitch_flow::{Field, FlowKey};

impl Walk {
    /// [`Walk::burst`] for a port of a bridge with tables. Strictly in order and depth first: what a packet's rules learn, the next
    /// packet knows.
    #[inline(never)] // registers of its own
    pub(super) fn tables_burst(&mut self, burst: &mut Burst, port: PortId, now: Millis) {
        let Some(view) = self.snapshot.port(port) else {
            burst.clear();
            return;
        };
        let counters = &view.shared.counters[self.worker];
        counters.rx_packets.add(burst.len() as u64);
        counters.rx_bytes.add(burst.iter().map(|mbuf| mbuf.len() as u64).sum());
        let (worker, pool, snapshot, outputs) = (self.worker, &self.pool, &*self.snapshot, &mut self.outputs);
        let mut step = Step { worker, pool, snapshot, outputs, now, outputs_made: 0, flooded_mbufs: 0 };
        for mbuf in burst.drain() {
            step.outputs_made = 0;
            match refusal(view, &mbuf) {
                None => step.tables(port, mbuf),
                Some(reason) => step.drop_in(port, reason, mbuf),
            }
        }
    }
}

/// Why a packet may not come in. One that is for segmentation may be longer than the MTU.
fn refusal(view: &PortView, mbuf: &Mbuf) -> Option<DropReason> {
    if !view.admin_up {
        Some(DropReason::AdminDown)
    } else if mbuf.len() < FRAME_MIN {
        Some(DropReason::EthShort)
    } else if mbuf.len() > view.frame_max && mbuf.gso_size() == 0 {
        Some(DropReason::Oversize)
    } else {
        None
    }
}

impl Step<'_> {
    /// A packet that came in by a port goes through the tables of the port's bridge.
    pub(super) fn tables(&mut self, port: PortId, mbuf: Mbuf) {
        let Some(Some(facts)) = self.snapshot.world.ports.get(port.index()) else {
            return self.drop_in(port, DropReason::PortGone, mbuf);
        };
        let mut metadata = FlowKey::default();
        metadata.set(Field::InPort, facts.number.into());
        self.enter(facts.bridge, port, metadata, Start::Table, mbuf);
    }

    /// A packet with its metadata goes through a bridge.
    pub(super) fn enter(&mut self, bridge: usize, port: PortId, mut key: FlowKey, start: Start<'_>, mbuf: Mbuf) {
        let Some(packet) = self.parse(mbuf, &mut key) else { return self.count_drop_in(port, DropReason::NoMbuf) };
        let len = packet.mbuf.len() as u64;
        let request = Request { bridge, key: &key, start, now: self.now, side_effects: true };
        let translation = translate(&self.snapshot.world, &request, None);
        for credit in &translation.credits {
            credit.add(1, len, self.now);
        }
        match translation.drop {
            Some(reason) if translation.ops.is_empty() => self.drop_in(port, reason, packet.mbuf),
            drop => {
                self.execute(&translation.ops, packet, Origin { port, metadata: &key });
                if let Some(reason) = drop {
                    self.count_drop_in(port, reason);
                }
            }
        }
    }

    /// Reads a packet's headers into the key. Headers that lie in several segments are copied into one; none when there is no mbuf.
    #[inline]
    fn parse(&self, mbuf: Mbuf, key: &mut FlowKey) -> Option<Packet> {
        let mbuf = if mbuf.nb_segs() > 1 && mbuf.head().len() < mbuf.len().min(HEAD_LEN) {
            mbuf.copy(self.pool)?
        } else {
            mbuf
        };
        let layers = extract(mbuf.head(), mbuf.len(), key);
        Some(Packet { mbuf, layers })
    }
}
