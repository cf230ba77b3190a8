//! The caches: decisions of the pipeline, kept per worker.
//!
//! **Where in the walk**: between parse and pipeline. A plain packet's first bytes are its
//! [`Compact`] key, looked up in the exact-match cache; any packet's [`vswitch_flow::FlowKey`] is
//! looked up in the megaflow cache; what neither knows is translated, and the translation kept in
//! both.
//!
//! **Connections**: a packet that meets `ct()` takes several decisions, one per stage. What they
//! come to for one direction of a connection is a [`ConnectionProgram`], in the exact-match cache
//! too: so a packet of an established connection costs one lookup. The [`Recorder`] writes programs
//! down, from packets that took the slow path.
//!
//! **Design**: everything here belongs to one worker and is written by it alone. A [`Megaflow`] is
//! a translation with counters; the control side has a reference to each and credits what they
//! counted, whenever it likes ([`Collector`]); it is also the one that frees them.
//!
//! **Validity**: a decision remembers what it depends on ([`Deps`]) and the world and epoch in
//! which it was last found good. The cache has a *tick*, which rises when world or epoch do; a
//! megaflow of the present tick is good (one load, one compare per packet), and so is a [`Path`] of
//! the present *stamp*. One of an earlier tick is checked against its dependencies once. If one of
//! them has changed, and not only by rules that its packets could not meet (`validity`), it is
//! decided anew (`revalidate`): it is the same decision still, and good again, or it goes. So a
//! change costs each megaflow that did not depend on it one check, one that did a translation, when
//! a packet hits it; and nothing is flushed.
//!
//! **Limits**: [`crate::limits::MEGAFLOWS_MAX`] and [`crate::limits::MEGAFLOW_MASKS_MAX`] per
//! worker, exact-match entries fixed, and no megaflow of more than
//! [`crate::limits::MEGAFLOW_LEN_MAX`]. A full cache lets go of what was not used for the longest
//! time, among a few it looks at. What was not used for 10 s goes anyway.
//!
//! **Threads**: a [`Cache`] is a worker's own; [`CacheShared`] is between it and the control side.

mod control;
mod fast;
mod slow;
#[cfg(test)]
mod tests;
mod tunnel;

pub use control::shared::{CacheShared, CacheStats, Collector};
pub use fast::compact::Compact;
pub(crate) use fast::compact::{CompactKind, folded};
pub(crate) use fast::exact::{Entry, RareProgram};
pub(crate) use fast::first_packet::FirstPacketTemplate;
pub use fast::path::Path;
pub use fast::program::Rare;
pub(crate) use fast::program::{AnyProgram, ConnectionProgram, Simple};
pub use fast::recorder::Recorder;
pub use slow::megaflow::Megaflow;
pub(crate) use slow::megaflow::looks_back;
#[cfg(test)]
pub(crate) use tunnel::outer_template::OuterTemplate;
pub(crate) use tunnel::tunnels::Outer;

use crate::limits::{BURST, EXACT_V4_ENTRIES, EXACT_V6_ENTRIES, MEGAFLOW_IDLE_MS, MEGAFLOW_LEN_MAX, MEGAFLOWS_MAX};
use crate::meter::Budgets;
use crate::pipeline::translate::reduce_timeouts;
use crate::pipeline::{Changes, Credit, Effect, Request, Sighting, Start, Translation, World};
use crate::port::PortId;
use crate::time::Millis;
use fast::compact::Seeds;
use fast::exact::Exact;
use fast::first_packet::FirstPacketTemplates;
use fast::path::Paths;
use fast::prefetch::Zones;
use slow::last_hit::LastHit;
use slow::tuples::Tuples;
use slow::validity::Standing;
use std::sync::Arc;
use tunnel::decap::DecapCache;
use tunnel::tunnels::Tunnels;

/// Megaflows that may wait to be freed by the control side, for each one that may be kept: beyond,
/// nothing new is kept.
const OUTSTANDING_FACTOR: u64 = 4;

/// Megaflows looked at when one has to go.
const EVICTION_SEARCH: usize = 8;

/// Per millisecond: megaflows and paths looked at for idleness, places of the exact-match caches
/// swept for dead ones.
const IDLE_SEARCH: usize = 16;
const SWEEP: usize = 128;

/// One worker's caches.
#[derive(Debug)]
pub struct Cache {
    shared: Arc<CacheShared>,
    seeds: Seeds,
    v4: Exact<4>,
    v6: Exact<16>,
    paths: Paths,
    tunnels: Tunnels,
    decap: DecapCache,
    pub(crate) recorder: Recorder,
    last_hit: LastHit,
    templates: FirstPacketTemplates,
    /// By bridge.
    bridges: Vec<Tuples>,
    /// Every megaflow that is kept.
    all: Vec<Arc<Megaflow>>,
    /// Rises when world or epoch do.
    tick: u64,
    /// Rises when the tick does, and when a megaflow ends.
    stamp: u64,
    world: u64,
    epoch: u64,
    /// Names of the bridges: if one comes or goes, the indexes of others change.
    names: Vec<Arc<str>>,
    enabled: bool,
    budgets: Arc<Budgets>,
    /// The port whose packets these are.
    payer: PortId,
    zones: Zones,
    /// The last lookups found a decision that a change had made stale.
    outdated: bool,
    /// Decisions that were forgotten all at once, and not decided anew since.
    forgotten: usize,
    flushed: u64,
    hand: usize,
    /// Places left to sweep since the last megaflow died.
    unswept: usize,
    /// Rises when an entry of an exact-match cache changes, and where it stood when the keys of the
    /// burst were found.
    version: u64,
    located: u64,
    /// The keys of a burst.
    pub(crate) keys: Box<[Compact; BURST]>,
    /// The kinds of all keys of the burst, one bit for each, until they are looked up; 0: nobody
    /// knows.
    kinds: u8,
    /// All packets of the last burst had one key, as far as is known.
    one: bool,
}

impl Cache {
    /// Empty caches. What the effects of cached decisions cost is taken from the budgets.
    #[must_use]
    pub fn new(shared: Arc<CacheShared>, budgets: Arc<Budgets>) -> Self {
        let seeds = Seeds::random();
        Self {
            shared,
            last_hit: LastHit::new(seeds.one()),
            tunnels: Tunnels::new(seeds.one()),
            decap: DecapCache::new(seeds.one()),
            templates: FirstPacketTemplates::default(),
            seeds,
            v4: Exact::new(EXACT_V4_ENTRIES),
            v6: Exact::new(EXACT_V6_ENTRIES),
            paths: Paths::default(),
            recorder: Recorder::default(),
            bridges: Vec::new(),
            all: Vec::new(),
            tick: slow::megaflow::STALE + 1,
            stamp: 1,
            world: 0,
            epoch: 0,
            names: Vec::new(),
            enabled: true,
            budgets,
            payer: PortId::NONE,
            zones: Zones::default(),
            outdated: false,
            forgotten: 0,
            flushed: 0,
            hand: 0,
            unswept: 0,
            version: 1,
            located: 0,
            kinds: 0,
            one: false,
            keys: Box::new([Compact::default(); BURST]),
        }
    }

    /// From now on the world is this one.
    pub fn adopt(&mut self, world: &World) {
        let names = || world.bridges.iter().map(|bridge| &bridge.name);
        if !names().eq(&self.names) {
            self.clear();
            self.names = names().cloned().collect();
            self.bridges = names().map(|_| Tuples::new(self.seeds.one())).collect();
        }
        self.world = world.number;
        self.next_tick();
    }

    /// Before every burst: what the control side asked for. Returns whether anything is to be
    /// looked up.
    #[inline]
    pub fn begin(&mut self) -> bool {
        let (enabled, flushes) = (self.shared.is_enabled(), self.shared.flushes());
        if enabled != self.enabled || flushes != self.flushed {
            (self.enabled, self.flushed) = (enabled, flushes);
            self.clear();
        }
        enabled
    }

    /// What follows is paid by this port.
    #[inline]
    pub(crate) fn pays(&mut self, port: PortId) {
        self.payer = port;
    }

    /// Whether decisions are kept.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.enabled
    }

    /// Before every packet: has anything changed?
    #[inline]
    pub fn sync(&mut self, changes: &Changes) {
        if !self.is_synced(changes) {
            self.epoch = changes.epoch();
            self.next_tick();
        }
    }

    /// Nothing has changed since [`Cache::sync`].
    #[inline]
    pub(crate) fn is_synced(&self, changes: &Changes) -> bool {
        changes.epoch() == self.epoch
    }

    const fn next_tick(&mut self) {
        self.tick += 1;
        self.stamp += 1;
    }

    /// Checks a megaflow of whatever tick; one that is not good any more goes.
    fn is_good(&mut self, megaflow: &Arc<Megaflow>, world: &World, now: Millis) -> bool {
        let hot = &megaflow.hot;
        if hot.tick.get() == self.tick {
            return true;
        }
        if megaflow.is_dead() {
            return false;
        }
        let standing = megaflow.depends.standing(world);
        if standing != Standing::Changed {
            let spared = standing == Standing::Spared;
            self.shared.stats.spared.add(spared.into());
            megaflow.depends.good(world.number, self.epoch);
        } else if let Some(deps) = slow::revalidate::again(megaflow, world, now) {
            self.shared.stats.revalidated.add(1);
            megaflow.depends.renew(&deps);
        } else {
            self.shared.stats.retired.add(1);
            self.retire(megaflow);
            self.outdated = true;
            return false;
        }
        hot.tick.set(self.tick);
        if hot.has_effects {
            // A learned flow may be gone that this megaflow's packets install.
            self.effects(megaflow, world, now);
        }
        true
    }

    /// Does what the packets of a megaflow cause beside their ops. At most once a millisecond, and
    /// after every change.
    #[cold]
    pub(crate) fn effects(&self, megaflow: &Megaflow, world: &World, now: Millis) {
        for effect in &megaflow.effects {
            match effect {
                Effect::Fdb { bridge, key, port } => {
                    let Some(bridge) = world.bridges.get(*bridge) else { continue };
                    let reader = bridge.fdb.reader();
                    reader.learn(key, reader.place(*key), Sighting::new(*port, now.seconds()));
                }
                Effect::Learn { bridge, learn, key } => {
                    let Some(bridge) = world.bridges.get(*bridge) else { continue };
                    let _ = bridge.program.learned.learn(learn, key, now, Some(&self.budgets.of(self.payer).learns));
                }
                Effect::Fin { rule, idle, hard } => reduce_timeouts(rule, *idle, *hard),
            }
        }
    }

    /// Keeps a translation of what was requested; gives it back when it cannot be kept.
    ///
    /// # Errors
    /// The translation itself.
    #[allow(clippy::result_large_err)] // moved once, on a miss
    pub(crate) fn insert(
        &mut self,
        request: &Request<'_>,
        mut translation: Translation,
    ) -> Result<Arc<Megaflow>, Translation> {
        let Request { bridge, key, start, .. } = *request;
        let stage = match start {
            Start::Table => None,
            Start::Stage(stage) => Some(Arc::clone(stage)),
            // Nobody else's packets begin there.
            Start::Actions(_) | Start::Resume(_) | Start::Answer(_) => return Err(translation),
        };
        let full = self.shared.outstanding() >= MEGAFLOWS_MAX as u64 * OUTSTANDING_FACTOR;
        let large = translation.size() > MEGAFLOW_LEN_MAX;
        if !self.enabled || !translation.cacheable || large || full || bridge >= self.bridges.len() {
            return Err(translation);
        }
        slow::megaflow::settle(&mut translation, key);
        if self.all.len() >= MEGAFLOWS_MAX {
            self.evict();
        }
        if self.bridges[bridge].is_full_for(key, &translation.mask) {
            self.bridges[bridge].least_used(key).iter().for_each(|megaflow| self.retire(megaflow));
        }
        let place = self.bridges[bridge].place(key, &translation.mask).or_else(|| {
            // No room for another mask: only for packets that are like this one in everything.
            translation.mask = slow::tuples::EVERYTHING;
            self.bridges[bridge].place(key, &translation.mask)
        });
        let Some(hash) = place else { return Err(translation) };
        let mask = translation.mask.clone();
        let megaflow = Arc::new(Megaflow::new(translation, key, stage, hash, bridge));
        if megaflow.depends.since() == (self.world, self.epoch) {
            megaflow.hot.tick.set(self.tick);
        }
        megaflow.position.set(self.all.len() as u64);
        self.all.push(Arc::clone(&megaflow));
        self.shared.add(Arc::clone(&megaflow));
        self.bridges[bridge].insert(Arc::clone(&megaflow), key, &mask);
        Ok(megaflow)
    }

    /// Puts a megaflow into the exact-match cache, for packets that are byte for byte like this one
    /// where it matters.
    pub(crate) fn remember(&mut self, key: &Compact, megaflow: &Arc<Megaflow>) {
        self.version += 1;
        match key.kind {
            CompactKind::V4 if self.enabled => self.v4.insert(key, Entry::Megaflow(Arc::clone(megaflow))),
            CompactKind::V6 if self.enabled => self.v6.insert(key, Entry::Megaflow(Arc::clone(megaflow))),
            _ => {}
        }
    }

    /// Counters with credits, for packets that no cache decides.
    pub(crate) fn tally(&self, credits: Vec<Credit>) -> Arc<Megaflow> {
        let tally = Arc::new(Megaflow::tally(credits));
        self.shared.add(Arc::clone(&tally));
        tally
    }

    /// Ends a tally.
    pub(crate) fn end_tally(tally: &Megaflow) {
        tally.kill();
    }

    fn retire(&mut self, megaflow: &Arc<Megaflow>) {
        if megaflow.is_dead() {
            return;
        }
        megaflow.kill();
        self.stamp += 1;
        if let Some(tuples) = self.bridges.get_mut(megaflow.bridge) {
            tuples.remove(megaflow);
        }
        let position = usize::try_from(megaflow.position.get()).unwrap_or(usize::MAX);
        if position < self.all.len() {
            drop(self.all.swap_remove(position)); // the control side has another reference
            if let Some(moved) = self.all.get(position) {
                moved.position.set(position as u64);
            }
        }
        self.unswept = self.v4.len().max(self.v6.len());
    }

    /// Lets go of the longest unused of a few.
    fn evict(&mut self) {
        let len = self.all.len();
        let few = (0..EVICTION_SEARCH).map(|i| (self.hand + i) % len);
        let oldest = few.min_by_key(|i| self.all[*i].used());
        self.hand = (self.hand + EVICTION_SEARCH) % len;
        if let Some(megaflow) = oldest.map(|i| Arc::clone(&self.all[i])) {
            self.retire(&megaflow);
        }
    }

    /// Once a millisecond: lets go of what is idle, and of what is dead; tells its numbers.
    pub fn maintain(&mut self, now: Millis) {
        for _ in 0..IDLE_SEARCH.min(self.all.len()) {
            self.hand = (self.hand + 1) % self.all.len().max(1);
            let Some(megaflow) = self.all.get(self.hand) else { break };
            if now.0.saturating_sub(megaflow.used().0) > MEGAFLOW_IDLE_MS {
                let megaflow = Arc::clone(megaflow);
                self.retire(&megaflow);
            }
        }
        self.paths.sweep(IDLE_SEARCH);
        self.last_hit.sweep();
        self.templates.maintain();
        self.decap.sweep();
        if self.unswept > 0 {
            self.version += 1;
            self.unswept = self.unswept.saturating_sub(SWEEP);
            self.v4.sweep(SWEEP);
            self.v6.sweep(SWEEP);
        }
        let stats = &self.shared.stats;
        stats.megaflows.set(self.all.len() as u64);
        stats.paths.set(self.paths.len() as u64);
        stats.masks.set(self.bridges.iter().map(|tuples| tuples.masks() as u64).sum());
    }

    /// How packets are decided.
    #[inline]
    pub(crate) fn stats(&self) -> &CacheStats {
        &self.shared.stats
    }

    /// Forgets everything. Exact-match entries of dead megaflows are none, and are swept: writing
    /// all of them at once would take longer than a queue can wait.
    fn clear(&mut self) {
        self.version += 1;
        self.stamp += 1;
        self.unswept = self.v4.len().max(self.v6.len());
        self.paths.clear();
        self.last_hit.clear();
        self.templates.clear();
        self.recorder.forget();
        self.forgotten = self.forgotten.max(self.all.len());
        self.bridges.iter_mut().for_each(Tuples::clear);
        for megaflow in self.all.drain(..) {
            megaflow.kill();
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.clear();
    }
}
