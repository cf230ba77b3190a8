//! What a cached decision depends on, and whether any of it has changed.

use crate::observe::Counter;
use crate::pipeline::{Bridge, ChangeLog, Deps, World};
use crate::port::PortId;
use vswitch_flow::{FlowMask, SparseMatch};

/// Bits of [`Depends::kinds`].
const ALL: u64 = 1;
const GROUPS: u64 = 2;
const FDB: u64 = 4;
const LINKS: u64 = 8;
const ANY_RULE: u64 = 16;

/// What has become of the things that a megaflow depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Standing {
    /// Nothing has changed.
    Same,
    /// Only rules have changed that none of its packets could meet.
    Spared,
    /// Something else has.
    Changed,
}

/// [`Deps`] of a megaflow, with the world and epoch in which it was last found good. The worker
/// that has it writes, nobody else reads.
#[derive(Debug)]
pub(in crate::cache) struct Depends {
    bridge: usize,
    pub(in crate::cache) port: Option<PortId>,
    /// What its packets have in common and show to every table that they meet.
    shown: SparseMatch,
    world: Counter,
    epoch: Counter,
    tables: [Counter; 4],
    kinds: Counter,
}

impl Depends {
    pub(in crate::cache) fn new(deps: &Deps, shown: SparseMatch) -> Self {
        let zero = Counter::default;
        let tables = std::array::from_fn(|_| zero());
        let depends =
            Self { bridge: deps.bridge, port: deps.port, shown, world: zero(), epoch: zero(), tables, kinds: zero() };
        depends.renew(deps);
        depends
    }

    /// From now on it is this, of a translation in the same bridge.
    pub(in crate::cache) fn renew(&self, deps: &Deps) {
        self.good(deps.world, deps.epoch);
        self.tables.iter().zip(deps.tables).for_each(|(word, tables)| word.set(tables));
        let kind = |on: bool, bit: u64| if on { bit } else { 0 };
        let kinds = kind(deps.all, ALL)
            | kind(deps.groups, GROUPS)
            | kind(deps.fdb, FDB)
            | kind(deps.links, LINKS)
            | kind(deps.any_rule, ANY_RULE);
        self.kinds.set(kinds);
    }

    /// It is good in this world and epoch.
    pub(in crate::cache) fn good(&self, world: u64, epoch: u64) {
        self.world.set(world);
        self.epoch.set(epoch);
    }

    /// World and epoch in which it was last found good.
    pub(in crate::cache) fn since(&self) -> (u64, u64) {
        (self.world.get(), self.epoch.get())
    }

    /// What has changed of it since.
    pub(in crate::cache) fn standing(&self, world: &World) -> Standing {
        let (since, epoch) = self.since();
        if self.on(ALL) {
            // It went through several bridges: anything may have been used.
            let same = world.number == since && world.changes.epoch() == epoch;
            return if same { Standing::Same } else { Standing::Changed };
        }
        let Some(bridge) = world.bridges.get(self.bridge) else { return Standing::Changed };
        if world.ports_changed > since
            || self.on(GROUPS) && bridge.program.groups_changed > since
            || self.on(LINKS) && world.changes.links() > epoch
            || self.on(FDB) && bridge.fdb.changed() > epoch
        {
            return Standing::Changed;
        }
        self.standing_of_tables(bridge, since, epoch)
    }

    fn standing_of_tables(&self, bridge: &Bridge, since: u64, epoch: u64) -> Standing {
        let tables = &bridge.program.tables;
        let learned = bridge.program.learned.tables();
        let mut standing = Standing::Same;
        for id in self.tables() {
            let hand_made = tables.get(id).and_then(Option::as_ref).filter(|table| table.changed > since);
            let learned = learned.get(id).and_then(Option::as_ref).filter(|table| table.epoch > epoch);
            let spared = hand_made.is_none_or(|table| self.is_spared(&table.log, since))
                && learned.is_none_or(|table| self.is_spared(&table.log, epoch));
            if !spared {
                return Standing::Changed;
            }
            if hand_made.is_some() || learned.is_some() {
                standing = Standing::Spared;
            }
        }
        standing
    }

    /// Whether none of its packets could meet a rule of a table that changed after this number. A
    /// rule that no packet meets makes no difference to any.
    fn is_spared(&self, log: &ChangeLog, number: u64) -> bool {
        !self.on(ANY_RULE)
            && log.since(number).is_some_and(|mut changed| changed.all(|matching| !matching.overlaps(&self.shown)))
    }

    /// None of these bits is shown to tables as the packet has it.
    pub(in crate::cache) fn is_apart_from(&self, touched: &FlowMask) -> bool {
        self.shown.iter().all(|(i, _, bits)| bits & touched.0[i] == 0)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::state::PipelineState;
    use crate::pipeline::{Bridge, Changes, FailMode, Fdb};
    use crate::time::Millis;
    use std::sync::Arc;
    use vswitch_flow::text::{NoNames, parse_bundle_line, parse_match};

    #[test]
    fn a_rule_that_no_packet_meets_may_be_the_first_one() {
        let changes = Arc::<Changes>::default();
        let mut state = PipelineState::new(&changes);
        let mut number = 0;
        let mut write = |line: &str| {
            number += 1;
            let update = parse_bundle_line(line, &NoNames).expect("a good line").value;
            state.apply(&[update], number, Millis(0)).expect("a good update");
            let program = state.program();
            let bridge = Bridge { program, ..Bridge::new("br", FailMode::Secure, Arc::new(Fdb::new(1, 1))) };
            World { number, bridges: vec![bridge], changes: Arc::clone(&changes), ..World::default() }
        };
        write("table=5,arp,actions=drop");
        let empty = write("flow delete table=5");
        let shown = || parse_match("tcp", &NoNames).expect("a good match").value;
        let deps =
            |any_rule: bool| Deps { world: empty.number, tables: [1 << 5, 0, 0, 0], any_rule, ..Deps::default() };
        let (one, all) = (Depends::new(&deps(false), shown()), Depends::new(&deps(true), shown()));
        assert_eq!([one.standing(&empty), all.standing(&empty)], [Standing::Same; 2]);
        let changed = write("table=5,arp,actions=drop");
        assert_eq!([one.standing(&changed), all.standing(&changed)], [Standing::Spared, Standing::Changed]);
    }
}
