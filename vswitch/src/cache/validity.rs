//! Whether a cached decision is still good, after something has changed.

use super::Megaflow;
use crate::pipeline::{Deps, World};

/// Whether nothing that a megaflow used has changed since it was last found good.
pub(super) fn is_good(megaflow: &Megaflow, world: &World) -> bool {
    let deps = &megaflow.deps;
    let (since, epoch) = (megaflow.world.get(), megaflow.epoch.get());
    if deps.all {
        // It went through several bridges: anything may have been used.
        return world.number == since && world.changes.epoch() == epoch;
    }
    let Some(bridge) = world.bridges.get(deps.bridge) else { return false };
    let program = &bridge.program;
    world.ports_changed <= since
        && !(deps.groups && program.groups_changed > since)
        && !(deps.links && world.changes.links() > epoch)
        && !(deps.fdb && bridge.fdb.changed() > epoch)
        && tables(deps)
            .all(|id| program.tables.get(id).and_then(Option::as_ref).is_none_or(|table| table.changed <= since))
        && learned_is_good(deps, world, epoch)
}

fn learned_is_good(deps: &Deps, world: &World, epoch: u64) -> bool {
    let Some(bridge) = world.bridges.get(deps.bridge) else { return false };
    let learned = bridge.program.learned.tables();
    let changed = |id: usize| learned.get(id).and_then(Option::as_ref).is_some_and(|table| table.epoch > epoch);
    learned.is_empty() || !tables(deps).any(changed)
}

/// Numbers of the tables that a decision looked into.
fn tables(deps: &Deps) -> impl Iterator<Item = usize> + '_ {
    deps.tables.iter().enumerate().flat_map(|(i, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros() as usize;
            (left != 0).then(|| {
                left &= left - 1;
                i * 64 + bit
            })
        })
    })
}
