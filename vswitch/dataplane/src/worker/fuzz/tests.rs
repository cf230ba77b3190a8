//! The target on any bytes, and on its seeds.

use super::{program, translate_execute};
use proptest::prelude::*;
use std::cell::Cell;
use vswitch_flow::text::{NoNames, parse_bundle_line};

/// What the fuzz target begins with, and what it has found.
#[test]
fn the_seeds_of_the_fuzz_target_pass() {
    let folder = format!("{}/../fuzz/seeds/translate_execute", env!("CARGO_MANIFEST_DIR"));
    let seeds: Vec<_> = std::fs::read_dir(&folder).expect("seeds").map(|seed| seed.expect("a file").path()).collect();
    assert!(seeds.len() >= 6, "{} seeds in {folder}", seeds.len());
    for seed in seeds {
        translate_execute(&std::fs::read(&seed).expect("a seed"));
    }
}

#[test]
fn any_bytes_are_a_program_of_which_much_is_accepted() {
    let (lines, right, made_up, cached) = (Cell::new(0), Cell::new(0), Cell::new(0), Cell::new(0));
    proptest!(ProptestConfig { cases: 128, ..ProptestConfig::default() }, |(bytes in proptest::collection::vec(any::<u8>(), 0..600))| {
        for line in program(&bytes).0 {
            lines.set(lines.get() + 1);
            if parse_bundle_line(&line, &NoNames).is_ok() {
                right.set(right.get() + 1);
                made_up.set(made_up.get() + u64::from(line.contains("priority=3")));
            }
        }
        let tally = translate_execute(&bytes);
        cached.set(cached.get() + tally.received - tally.translated);
    });
    println!(
        "{} of {} lines are right, {} with a match made up; {} packets by a cache",
        right.get(),
        lines.get(),
        made_up.get(),
        cached.get()
    );
    assert!(right.get() * 4 > lines.get(), "{} of {} lines are right", right.get(), lines.get());
    assert!(made_up.get() > 10, "{} lines with a match made up", made_up.get());
    assert!(cached.get() > 20, "caches decided {} packets", cached.get());
}
