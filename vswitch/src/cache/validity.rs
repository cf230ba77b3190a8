//! What a cached decision depends on, and whether any of it has changed.

use crate::observe::Counter;
use crate::pipeline::{Bridge, Deps, World};
use crate::port::PortId;

/// Bits of [`Depends::kinds`].
const ALL: u64 = 1;
const GROUPS: u64 = 2;
const FDB: u64 = 4;
const LINKS: u64 = 8;

/// [`Deps`] of a megaflow, with the world and epoch in which it was last found good. The worker that has it writes, nobody else reads.
#[derive(Debug)]
pub(super) struct Depends {
    bridge: usize,
    pub(super) port: Option<PortId>,
    world: Counter,
    epoch: Counter,
    tables: [Counter; 4],
    kinds: Counter,
}

impl Depends {
    pub(super) fn new(deps: &Deps) -> Self {
        let zero = Counter::default;
        let tables = std::array::from_fn(|_| zero());
        let depends =
            Self { bridge: deps.bridge, port: deps.port, world: zero(), epoch: zero(), tables, kinds: zero() };
        depends.renew(deps);
        depends
    }

    /// From now on it is this, of a translation in the same bridge.
    pub(super) fn renew(&self, deps: &Deps) {
        self.good(deps.world, deps.epoch);
        self.tables.iter().zip(deps.tables).for_each(|(word, tables)| word.set(tables));
        let kind = |on: bool, bit: u64| if on { bit } else { 0 };
        let kinds = kind(deps.all, ALL) | kind(deps.groups, GROUPS) | kind(deps.fdb, FDB) | kind(deps.links, LINKS);
        self.kinds.set(kinds);
    }

    /// It is good in this world and epoch.
    pub(super) fn good(&self, world: u64, epoch: u64) {
        self.world.set(world);
        self.epoch.set(epoch);
    }

    /// World and epoch in which it was last found good.
    pub(super) fn since(&self) -> (u64, u64) {
        (self.world.get(), self.epoch.get())
    }

    /// Whether nothing of it has changed since.
    pub(super) fn stands(&self, world: &World) -> bool {
        let (since, epoch) = self.since();
        if self.on(ALL) {
            // It went through several bridges: anything may have been used.
            return world.number == since && world.changes.epoch() == epoch;
        }
        let Some(bridge) = world.bridges.get(self.bridge) else { return false };
        world.ports_changed <= since
            && !(self.on(GROUPS) && bridge.program.groups_changed > since)
            && !(self.on(LINKS) && world.changes.links() > epoch)
            && !(self.on(FDB) && bridge.fdb.changed() > epoch)
            && self.tables_stand(bridge, since, epoch)
    }

    fn tables_stand(&self, bridge: &Bridge, since: u64, epoch: u64) -> bool {
        let tables = &bridge.program.tables;
        let learned = bridge.program.learned.tables();
        let stands = |id: usize| {
            tables.get(id).and_then(Option::as_ref).is_none_or(|table| table.changed <= since)
                && learned.get(id).and_then(Option::as_ref).is_none_or(|table| table.epoch <= epoch)
        };
        self.tables().all(stands)
    }

    fn on(&self, kind: u64) -> bool {
        self.kinds.get() & kind != 0
    }

    /// Numbers of the tables that the decision looked into.
    fn tables(&self) -> impl Iterator<Item = usize> + '_ {
        self.tables.iter().enumerate().flat_map(|(i, word)| {
            let mut left = word.get();
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                (left != 0).then(|| {
                    left &= left - 1;
                    i * 64 + bit
                })
            })
        })
    }
}
