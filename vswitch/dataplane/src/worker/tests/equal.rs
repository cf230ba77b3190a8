//! Whatever the program, the packets and the changes between them: with caches everything is as
//! without.

use crate::worker::fuzz::pair::{Step, compare};
use crate::worker::fuzz::words::{ACTIONS, GROUPS, MATCHES, packets};
use proptest::prelude::*;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A flow line; a table's flows of one priority never overlap, since which one wins is nobody's
/// promise: the priority tells the match.
fn line() -> impl Strategy<Value = String> {
    let actions = proptest::collection::vec(0..ACTIONS.len(), 1..5);
    (0..4_u8, 0..MATCHES.len(), actions, any::<bool>()).prop_map(|(table, matching, actions, idle)| {
        let actions: Vec<&str> = actions.into_iter().map(|i| ACTIONS[i]).collect();
        let actions = if actions.contains(&"drop") { "drop".to_owned() } else { actions.join(",") };
        let idle = if idle { "" } else { "idle_timeout=4," };
        let priority = 100 + matching;
        format!(
            "table={table},priority={priority},{idle}{}{}actions={actions}",
            MATCHES[matching],
            if MATCHES[matching].is_empty() { "" } else { "," }
        )
    })
}

fn step() -> impl Strategy<Value = Step> {
    let packets = (1..=4_usize, proptest::collection::vec(proptest::sample::select(packets()), 1..6));
    prop_oneof![
        12 => packets.prop_map(|(port, packets)| Step::Packets(port, packets)),
        3 => line().prop_map(Step::Flow),
        1 => (prop_oneof![Just("ip"), Just("tcp"), Just("")], 0..4_u8).prop_map(|(matching, table)| Step::Delete(matching, table)),
        1 => (0..GROUPS.len()).prop_map(Step::Group),
        1 => (1..=4_usize, any::<bool>()).prop_map(|(port, up)| Step::Link(port, up)),
        1 => (1..=4_usize, any::<bool>()).prop_map(|(port, on)| Step::Flag(port, on)),
        1 => (1..=4_usize, 1..=4_usize).prop_map(|(a, b)| Step::Renumber(a, b)),
        2 => (0..16_usize).prop_map(Step::Again),
        2 => prop_oneof![Just(0_u64), Just(1), Just(900), Just(2500), Just(11_000)].prop_map(Step::Time),
        1 => Just(Step::Tend),
    ]
}

/// Packets that were translated with caches, and without: all.
static TRANSLATED: AtomicU64 = AtomicU64::new(0);
static RECEIVED: AtomicU64 = AtomicU64::new(0);

/// Megaflows that a change of what they used spared, and those that were decided anew and stayed.
static SPARED: AtomicU64 = AtomicU64::new(0);
static SURVIVED: AtomicU64 = AtomicU64::new(0);

/// Rounds of random programs, at most: until each way in which the caches spare a translation was
/// taken often enough to say that it was tried.
const ROUNDS: usize = 8;
const OFTEN: u64 = 25;

#[test]
fn caches_change_nothing() {
    for _ in 0..ROUNDS {
        let programs = (proptest::collection::vec(line(), 1..16), proptest::collection::vec(step(), 1..60));
        proptest!(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::default() }, |((start, steps) in programs)| {
            let tally = compare(&start, &steps).map_err(TestCaseError::fail)?;
            SPARED.fetch_add(tally.spared, Relaxed);
            SURVIVED.fetch_add(tally.survived, Relaxed);
            TRANSLATED.fetch_add(tally.translated, Relaxed);
            RECEIVED.fetch_add(tally.received, Relaxed);
        });
        if SPARED.load(Relaxed).min(SURVIVED.load(Relaxed)) >= OFTEN {
            break;
        }
    }
    let (translated, received) = (TRANSLATED.load(Relaxed), RECEIVED.load(Relaxed));
    let (spared, survived) = (SPARED.load(Relaxed), SURVIVED.load(Relaxed));
    println!("{spared} spared, {survived} survived, {translated} of {received} packets translated");
    assert!(spared >= OFTEN, "changes spared {spared} megaflows, {translated} packets were translated");
    assert!(survived >= OFTEN, "{survived} megaflows survived a change, {translated} packets were translated");
    assert!(translated < received * 3 / 4, "caches decided {} of {received} packets", received - translated);
}
