//! The packet walk: what happens to a burst between a receive queue and the transmit queues.

use super::Snapshot;
use super::output::Outputs;
use crate::dpdk::{Burst, Mempool};
use crate::pipeline::Bridge;
use crate::port::PortId;
use crate::time::Millis;
use std::sync::Arc;

/// One worker's way through the switch.
#[derive(Debug)]
pub struct Walk {
    pub(super) worker: usize,
    pub(super) pool: Mempool,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) outputs: Outputs,
    /// By port: which way its packets take.
    ways: Vec<Way>,
}

/// How packets that come in by a port find their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    /// The bridge is a plain learning switch, or drops everything: no tables are looked at.
    #[default]
    Learning,
    /// Through the tables.
    Tables,
}

impl Way {
    /// Of the packets that enter a bridge.
    pub(super) fn of(bridge: &Bridge) -> Self {
        if bridge.program.tables.is_empty() { Self::Learning } else { Self::Tables }
    }
}

impl Walk {
    /// A walk through an empty world.
    #[must_use]
    pub fn new(worker: usize, pool: Mempool) -> Self {
        Self { worker, pool, snapshot: Arc::default(), outputs: Outputs::new(worker), ways: Vec::new() }
    }

    /// From now on the world looks like this. Between bursts.
    pub fn adopt(&mut self, snapshot: Arc<Snapshot>) {
        self.outputs.fit(&snapshot);
        let way = |view: &Option<super::PortView>| {
            view.as_ref().map_or(Way::Learning, |view| Way::of(&snapshot.world.bridges[view.bridge]))
        };
        self.ways = snapshot.ports.iter().map(way).collect();
        self.snapshot = snapshot;
    }

    /// The world as it looks now.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Takes a burst that came in by `port` through the switch and leaves it empty. Packets are looked at in their order of
    /// arrival: what one teaches, the next knows. What was gathered leaves with [`Walk::flush`], or as soon as it is a full burst.
    #[inline]
    pub fn burst(&mut self, burst: &mut Burst, port: PortId, now: Millis) {
        match self.ways.get(port.index()) {
            Some(Way::Learning) => self.learning_burst(burst, port, now),
            Some(Way::Tables) => self.tables_burst(burst, port, now),
            None => burst.clear(), // a queue of a port that is no longer there is not polled
        }
    }

    /// Sends what was gathered.
    #[inline]
    pub fn flush(&mut self) {
        self.outputs.flush(&self.snapshot);
    }
}
