//! The packet walk: what happens to a burst between a receive queue and the transmit queues.

use crate::cache::{Cache, CacheShared, Megaflow};
use crate::capture::Point;
use crate::conntrack::Conntrack;
use crate::meter::{Budgets, Rates};
use crate::observe::{DropReason, Remains};
use crate::pipeline::{Bridge, Credit, FailMode, PortFacts, Rule};
use crate::port::PortId;
use crate::time::Millis;
use crate::worker::poll::output::Outputs;
use crate::worker::tunnel::waiting::Waiting;
use crate::worker::{PortView, Snapshot};
use std::sync::Arc;
use vswitch_dpdk::{Burst, Mempool};
use vswitch_flow::Action;
use vswitch_flow::action::port::NORMAL;

/// One worker's way through the switch.
#[derive(Debug)]
pub struct Walk {
    pub(in crate::worker) worker: usize,
    pub(in crate::worker) pool: Mempool,
    pub(in crate::worker) snapshot: Arc<Snapshot>,
    pub(in crate::worker) outputs: Outputs,
    pub(in crate::worker) cache: Cache,
    pub(in crate::worker) conntrack: Arc<Conntrack>,
    pub(in crate::worker) budgets: Arc<Budgets>,
    /// Packets of the last burst whose port might cause no more misses.
    refused: u64,
    /// By port: how packets come in.
    entrances: Vec<Entrance>,
    /// By bridge: which way packets take.
    pub(in crate::worker) bridge_ways: Vec<Way>,
    /// By bridge: counters of the one rule of a learning switch.
    pub(in crate::worker) tallies: Vec<Option<Arc<Megaflow>>>,
}

/// How packets that come in by a port find their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::worker) enum Way {
    /// The bridge is a plain learning switch, or drops everything: no tables are looked at.
    #[default]
    Learning,
    /// Through the tables.
    Tables,
}

/// How packets come in by a port.
#[derive(Clone, Copy, Debug, Default)]
struct Entrance {
    way: Way,
    /// Something is to be done with each burst before the walk: one of the following.
    looked_at: bool,
    /// Malformed ones are refused, because of the port or its bridge.
    strict: bool,
    /// Captured.
    captured: bool,
}

impl Way {
    /// Of the packets that enter a bridge.
    pub(in crate::worker) fn of(bridge: &Bridge) -> Self {
        let mut rules = bridge.program.tables.iter().flatten().flat_map(|table| table.rules.iter());
        let (first, more) = (rules.next(), rules.next().is_some());
        let learned = bridge.program.learned.tables();
        let learned = learned.iter().flatten().any(|table| !table.rules.is_empty());
        match first {
            _ if more || learned => Self::Tables,
            None if bridge.fail_mode == FailMode::Secure || bridge.program.tables.is_empty() => Self::Learning,
            Some(entry) if bridge.fail_mode == FailMode::Standalone && is_normal(&entry.data) => Self::Learning,
            _ => Self::Tables,
        }
    }
}

/// Whether packets of a bridge go through its tables: all but those of a plain learning switch.
#[must_use]
pub fn needs_tables(bridge: &Bridge) -> bool {
    Way::of(bridge) == Way::Tables
}

/// Whether a rule is the one that a standalone bridge begins with: `priority=0,actions=NORMAL` in
/// table 0.
fn is_normal(rule: &Rule) -> bool {
    let normal = [Action::Output { port: NORMAL, max_len: None }];
    (rule.table, rule.priority, rule.matching.map()) == (0, 0, 0) && *rule.actions == normal
}

/// Whose counters each packet of a learning switch adds to: those of its table and its rule.
fn credits(bridge: &Bridge) -> Vec<Credit> {
    let Some(table) = bridge.program.table(0) else { return Vec::new() };
    let rule = table.rules.iter().next().map(|entry| Credit::Rule(Arc::clone(&entry.data.stats)));
    let table = Credit::Table(Arc::clone(&table.stats), rule.is_some());
    std::iter::once(table).chain(rule).collect()
}

impl Walk {
    /// A walk through an empty world.
    #[must_use]
    pub fn new(worker: usize, pool: Mempool, cache: Arc<CacheShared>, conntrack: Arc<Conntrack>, rates: Rates) -> Self {
        let budgets = Arc::new(Budgets::new(rates));
        Self {
            worker,
            pool,
            snapshot: Arc::default(),
            outputs: Outputs::new(worker, Waiting::new(rates.waiting), conntrack.tracker().owner(worker)),
            cache: Cache::new(cache, Arc::clone(&budgets)),
            conntrack,
            budgets,
            refused: 0,
            entrances: Vec::new(),
            bridge_ways: Vec::new(),
            tallies: Vec::new(),
        }
    }

    /// From now on the world looks like this. Between bursts.
    pub fn adopt(&mut self, snapshot: Arc<Snapshot>) {
        self.outputs.fit(&snapshot);
        self.cache.adopt(&snapshot.world);
        let bridges = &snapshot.world.bridges;
        let mut ways: Vec<Way> = bridges.iter().map(Way::of).collect();
        // What the learning switch knows nothing of.
        let flagged =
            |facts: &&PortFacts| facts.no_receive || facts.no_forward || facts.tunnel.is_some() || facts.vtep.is_some();
        for facts in snapshot.world.ports.iter().flatten().filter(flagged) {
            ways[facts.bridge] = Way::Tables;
        }
        self.tallies.drain(..).flatten().for_each(|tally| Cache::end_tally(&tally));
        let tally = |(bridge, way): (&Bridge, &Way)| match way {
            Way::Learning => Some(credits(bridge)).filter(|credits| !credits.is_empty()),
            Way::Tables => None,
        };
        let tallies = bridges.iter().zip(&ways).map(tally);
        self.tallies = tallies.map(|credits| Some(self.cache.tally(credits?))).collect();
        let facts = |port: usize| snapshot.world.ports.get(port).and_then(Option::as_ref);
        let entrance = |(port, view): (usize, &Option<PortView>)| {
            view.as_ref().map_or_else(Entrance::default, |view| {
                let strict = bridges[view.bridge].strict || facts(port).is_some_and(|facts| facts.strict);
                let captured = self.outputs.taps.look_at(view.shared.id, Point::Rx);
                Entrance { way: ways[view.bridge], looked_at: strict || captured, strict, captured }
            })
        };
        self.entrances = snapshot.ports.iter().enumerate().map(entrance).collect();
        self.bridge_ways = ways;
        self.snapshot = snapshot;
    }

    /// Once a millisecond, between bursts: what is idle goes.
    pub fn maintain(&mut self, now: Millis) {
        self.cache.maintain(now);
        self.hand_over();
        let (worker, snapshot) = (self.worker, &self.snapshot);
        self.conntrack.maintain(now, |port, mbuf, reason| {
            if let Some(view) = snapshot.port(port) {
                view.shared.counters[worker].rx_drops.count(reason, Remains::Packet(&mbuf));
            }
            drop(mbuf);
        });
        self.maintain_waiting(now);
        debug_assert!(self.outputs.owner.is_outside(), "others wait for the end of a section");
    }

    /// Gives readers of captures what was copied so far.
    pub(in crate::worker) fn hand_over(&mut self) {
        self.outputs.taps.hand_over();
    }

    /// The world as it looks now.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Takes a burst that came in by `port` through the switch and leaves it empty. Packets are
    /// looked at in their order of arrival: what one teaches, the next knows. What was gathered
    /// leaves with [`Walk::flush`], or as soon as it is a full burst.
    #[inline]
    pub fn burst(&mut self, burst: &mut Burst, port: PortId, now: Millis) {
        let Some(entrance) = self.entrances.get(port.index()) else {
            return burst.clear(); // a queue of a port that is no longer there is not polled
        };
        let way = entrance.way;
        if entrance.looked_at {
            self.look_at(burst, port, *entrance);
        }
        self.cache.pays(port);
        match way {
            Way::Learning => self.learning_burst(burst, port, now),
            Way::Tables => self.tables_burst(burst, port, now),
        }
        self.settle(port);
        debug_assert!(self.outputs.owner.is_outside(), "others wait for the end of a section");
    }

    /// What is done with the bursts of some ports before they set out: captured as they came, then
    /// checked.
    #[cold]
    #[inline(never)]
    fn look_at(&mut self, burst: &mut Burst, port: PortId, entrance: Entrance) {
        if entrance.captured {
            self.outputs.taps.take_received(burst, port);
        }
        if entrance.strict {
            self.refuse_malformed(burst, port);
        }
    }

    /// Counts what a port's budget refused its burst.
    #[inline]
    fn settle(&mut self, port: PortId) {
        let budget = self.budgets.of(port);
        self.refused = budget.misses.take_refused() + budget.renewals.take_refused();
        let learns = budget.learns.take_refused();
        if learns > 0
            && let Some(view) = self.snapshot.port(port)
        {
            view.shared.counters[self.worker].rx_drops.count_unseen(DropReason::LearnRate, learns);
        }
    }

    /// Packets of the last burst that were dropped because of how many misses their port had
    /// caused.
    #[inline]
    pub(in crate::worker) fn refused(&self) -> u64 {
        self.refused
    }

    /// As [`Walk::burst`] and [`Walk::flush`], of packets that are borrowed from the guest behind
    /// the port: none is left anywhere. What is for the port itself waits for the next
    /// [`Walk::flush`], as copies: the guest's rings may not be waited for.
    pub fn burst_borrowed(&mut self, burst: &mut Burst, port: PortId, now: Millis) {
        self.outputs.borrowed_from = Some(port);
        self.burst(burst, port, now);
        self.flush();
        self.outputs.borrowed_from = None;
    }

    /// Sends what was gathered.
    #[inline]
    pub fn flush(&mut self) {
        self.outputs.flush(&self.snapshot);
    }
}
