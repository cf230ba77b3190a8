//! What holds for any bytes: that which the fuzz targets look for.

use super::super::fuzz::{self, oracle::Parts};
use crate::packet::testing::specs;
use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::Cell;

fn control() -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), vec(any::<u8>(), 39)).prop_map(|(flags, rest)| [vec![flags], rest].concat())
}

/// Frames of all protocols; damaged ones among them.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let known = (
        specs(600),
        prop_oneof![Just(None), (0..=255_u8).prop_map(Some), Just(Some(1)), Just(Some(58)), Just(Some(132))],
    );
    let known = known.prop_map(|(spec, protocol)| {
        let mut frame = spec.complete();
        if let (Some(protocol), Some(parts)) = (protocol, Parts::of_frame(&frame)) {
            // The last next header; IPv4's is at 9.
            let at = match spec.extensions.len() {
                _ if spec.ipv4 => parts.l3 + 9,
                0 => parts.l3 + 6,
                n => {
                    parts.l3
                        + 40
                        + spec.extensions[..n - 1].iter().map(|(_, units)| 8 * usize::from(*units)).sum::<usize>()
                }
            };
            frame[at] = protocol;
            if let Some(kind) = frame.get_mut(parts.l4).filter(|_| matches!(protocol, 1 | 58)) {
                *kind = [8, 0, 128, 129][usize::from(*kind & 3)];
                frame[parts.l4 + 1] = 0;
            }
        }
        frame
    });
    let known = known.boxed();
    let damage = vec((any::<u16>(), any::<u8>()), 0..3);
    prop_oneof![
        4 => known.clone(),
        2 => (known, damage, any::<u16>()).prop_map(|(mut frame, damage, len)| {
            for (at, value) in damage {
                let at = usize::from(at) % frame.len();
                frame[at] = value;
            }
            frame.truncate(frame.len() - usize::from(len) % 8);
            frame
        }),
        1 => vec(any::<u8>(), 0..300),
    ]
}

#[test]
fn translation_keeps_every_checksum_what_it_was() {
    let tracked = Cell::new(0);
    proptest!(ProptestConfig::with_cases(4000), |((control, frame) in (control(), frames()))| {
        tracked.set(tracked.get() + u32::from(fuzz::nat(&[control, frame].concat())));
    });
    assert!(tracked.get() > 1500, "{} packets were tracked", tracked.get());
}

#[test]
fn quoted_packets_are_translated_or_left_alone() {
    let related = Cell::new(0);
    let quotes = (frames(), 0..700_usize).prop_map(|(frame, len)| {
        let from = Parts::of_frame(&frame).map_or(0, |parts| parts.l3);
        let v6 = frame.get(from).is_some_and(|byte| byte >> 4 == 6);
        (v6, frame[from..].iter().copied().take(len).collect::<Vec<u8>>())
    });
    proptest!(ProptestConfig::with_cases(4000), |((mut control, (v6, quote)) in (control(), quotes))| {
        control[1] = control[1] & !1 | u8::from(v6);
        related.set(related.get() + u32::from(fuzz::inner(&[control, quote].concat())));
    });
    assert!(related.get() > 1500, "{} errors were related", related.get());
}

#[test]
fn fragments_are_joined_or_given_up() {
    let complete = Cell::new(0);
    let step = (any::<u8>(), any::<u8>(), 0..40_u16, prop_oneof![Just(8_u16), Just(16), 0..200_u16], any::<u8>());
    let step = step.prop_map(|(kind, id, offset, len, time)| {
        let ([high, low], [len_high, len_low]) = (offset.to_be_bytes(), len.to_be_bytes());
        [kind & 0x13, id & 1, high, low & 7, len_high, len_low, time & 3, 0]
    });
    proptest!(ProptestConfig::with_cases(500), |(steps in vec(step, 0..200))| {
        complete.set(complete.get() + fuzz::fragments(&steps.concat()));
    });
    assert!(complete.get() > 100, "{} datagrams became complete", complete.get());
}

/// Its name, and what it does.
type Target = (&'static str, fn(&[u8]));

/// What the fuzz targets begin with, and what they have found.
#[test]
fn the_seeds_of_the_fuzz_targets_pass() {
    let targets: [Target; 3] = [
        ("ct_nat", |seed| {
            fuzz::nat(seed);
        }),
        ("ct_inner", |seed| {
            fuzz::inner(seed);
        }),
        ("ct_fragments", |seed| {
            fuzz::fragments(seed);
        }),
    ];
    for (name, run) in targets {
        let folder = format!("{}/../fuzz/seeds/{name}", env!("CARGO_MANIFEST_DIR"));
        let seeds: Vec<_> =
            std::fs::read_dir(&folder).expect("seeds").map(|seed| seed.expect("a file").path()).collect();
        assert!(seeds.len() >= 6, "{} seeds in {folder}", seeds.len());
        for seed in seeds {
            run(&std::fs::read(&seed).expect("a seed"));
        }
    }
}
