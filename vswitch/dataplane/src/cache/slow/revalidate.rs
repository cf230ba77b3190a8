//! A megaflow that used something which has changed is decided once more: if the decision is the
//! same, it stays, with its counters and whoever refers to it.
//!
//! **Design**: the packet that it was made for is translated again. If the decision uses no other
//! bits of it than before, it holds for all packets of the megaflow. (Any of them would do; but
//! which bits show that a rule does not match is a matter of choice, and the same packet makes the
//! same choices.) The translation has no side effects; a megaflow whose side effects could bear on
//! the decision is not asked but retired, and the packet that found it is translated with them.
//!
//! **Work**: a megaflow is asked when a packet hits it, at most once after every change, and asking
//! costs what the translation would that follows if there were no asking. So changes cost what
//! packets use, not what is kept.

use crate::cache::Megaflow;
use crate::cache::slow::megaflow::settle;
use crate::pipeline::{Choice, Deps, Effect, Request, Start, World, translate};
use crate::time::Millis;
use std::sync::Arc;

/// What a megaflow depends on now, if it is what the tables would decide now.
#[cold]
pub(in crate::cache) fn again(megaflow: &Megaflow, world: &World, now: Millis) -> Option<Deps> {
    if !megaflow.effects.iter().all(|effect| is_harmless(effect, world)) {
        return None;
    }
    let (key, (_, mask)) = (megaflow.first(), megaflow.matching.expand());
    let start = megaflow.stage.as_ref().map_or(Start::Table, Start::Stage);
    let choice = Choice::of(&key);
    let request = Request { bridge: megaflow.bridge, key: &key, start, now, side_effects: false, learns: None, choice };
    let mut new = translate(world, &request, None);
    settle(&mut new, &key);
    let same = new.cacheable
        && mask.contains(&new.mask)
        && new.drop == megaflow.drop
        // Another cookie is told of drops, and of nothing else.
        && (new.drop.is_none() || new.decider == megaflow.decider)
        && new.chooser.as_ref().map(Arc::as_ptr) == megaflow.chooser.as_ref().map(Arc::as_ptr)
        && new.deps.port == megaflow.depends.port
        && megaflow.depends.is_apart_from(&new.touched)
        && *new.ops == *megaflow.ops
        && *new.credits == *megaflow.credits
        && *new.effects == *megaflow.effects;
    same.then_some(new.deps)
}

/// Whether a decision is the same with an effect and without it. Teaching an address that is known
/// changes nothing; another one may be looked up by the same packet. What a packet learns is for
/// the next one, but it may ask whether there was room.
fn is_harmless(effect: &Effect, world: &World) -> bool {
    match effect {
        Effect::Fdb { bridge, key, port } => world.bridges.get(*bridge).is_some_and(|bridge| {
            let reader = bridge.fdb.reader();
            reader.lookup(key, reader.place(*key)) == Some(*port)
        }),
        Effect::Learn { learn, .. } => learn.result.is_none(),
        Effect::Fin { .. } => true,
    }
}
