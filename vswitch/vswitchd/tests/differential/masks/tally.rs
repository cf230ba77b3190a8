//! What was compared, and how it differs.

use super::Decision;
use super::pairing::Pairs;
use super::program::Program;
use super::reasons::{Difference, REASONS, Side};
use crate::compare::{are_same, differences};
use crate::pair::{Died, Pair};
use crate::scenario::Step;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use vswitch_flow::Field;

/// How often a scenario may end Open vSwitch.
const TRIES: usize = 3;

/// What was compared.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Decisions of ours that have one of Open vSwitch's beside them, and that do not.
    pub(crate) compared: usize,
    pub(crate) alone: usize,
    /// Those with equal masks.
    pub(crate) equal: usize,
    /// Packets that differ in a bit of a wider decision ([`super::flips`]).
    pub(crate) flipped: usize,
    /// How often each reason was one, by its name.
    pub(crate) reasons: BTreeMap<&'static str, usize>,
    /// Faults by kind: how often, and the first one.
    faults: BTreeMap<String, (usize, String)>,
}

impl Tally {
    /// Runs a scenario on both switches and compares their decisions.
    pub(crate) fn check(&mut self, pair: &mut Pair, what: &str, steps: &[Step]) {
        // Now and then Open vSwitch dies of what it survives the next time.
        let Some((theirs, ours)) = (0..TRIES).find_map(|_| pair.run_told(steps)) else {
            eprintln!("{what}: Open vSwitch dies");
            return;
        };
        let program = Program::of(steps);
        let mut wider = Vec::new();
        let (theirs_did, ours_did) = (&theirs.steps, &ours.steps);
        for (i, (theirs, ours)) in theirs.decisions.iter().zip(&ours.decisions).enumerate() {
            // What does something else (`deviations.rs`) looks at something else.
            if theirs_did[i] != ours_did[i] {
                continue;
            }
            let place = format!("{what}, step {i}: {}", steps[i]);
            let found = Pairs::of(ours, theirs, &program.kinds);
            self.alone += found.alone.len();
            for (ours, theirs) in &found.strays {
                self.fault("not for this packet", || describe(&place, ours, theirs));
            }
            for (ours, theirs) in &found.pairs {
                let bits = self.compare(&place, &program, ours, theirs);
                wider.extend(bits.into_iter().map(|(field, bits)| (i, ours.clone(), field, bits)));
            }
        }
        // Nothing is learned from other packets where they differ anyhow; where each chooses by a
        // hash of its own; and of tunnels, whose next hops each asks at its own pace.
        let differs = program.says(&["type=select", "multipath(", "bundle(", "tunnel "]);
        if are_same(&theirs, &ours) && !differs {
            self.flip(pair, what, steps, &wider);
        }
    }

    /// Compares the masks of two decisions about one packet. Returns bits that only Open vSwitch
    /// looks at.
    fn compare(&mut self, what: &str, program: &Program, ours: &Decision, theirs: &Decision) -> Vec<(Field, u128)> {
        self.compared += 1;
        let (narrower, mut wider) = (ours.beyond(theirs), theirs.beyond(ours));
        // What its datapath knows anyhow.
        let is_known =
            |field: Field| field.name().starts_with("tun_") || matches!(field, Field::VlanTci | Field::VlanTci1);
        wider.retain(|(field, _)| !is_known(*field));
        self.equal += usize::from(narrower.is_empty() && wider.is_empty());
        let sides = [(Side::Narrower, &narrower), (Side::Wider, &wider)];
        for (side, (field, bits)) in
            sides.into_iter().flat_map(|(side, bits)| bits.iter().map(move |bits| (side, *bits)))
        {
            let difference = Difference { side, field, bits, ours, theirs, program };
            match REASONS.iter().find(|reason| (reason.explains)(&difference)) {
                Some(reason) => *self.reasons.entry(reason.name).or_default() += 1,
                None => {
                    let text = || format!("{bits:#x} of {}", describe(what, ours, theirs));
                    self.fault(&format!("{side:?} {field:?}"), text);
                }
            }
        }
        wider
    }

    /// Tries packets that differ in bits which only Open vSwitch looks at.
    fn flip(&mut self, pair: &mut Pair, what: &str, steps: &[Step], wider: &[super::flips::Wider]) {
        let (steps, flipped) = super::flips::with(steps, wider);
        if flipped == 0 {
            return;
        }
        match pair.run(&steps) {
            Ok((expected, found)) => {
                self.flipped += flipped;
                if !are_same(&expected, &found) {
                    self.fault("wrong by a flipped bit", || {
                        format!("{what}\n{}", differences(&steps, &expected, &found))
                    });
                }
            }
            Err(Died) => eprintln!("{what}: Open vSwitch died of a flipped bit"),
        }
    }

    fn fault(&mut self, kind: &str, text: impl Fn() -> String) {
        if crate::run::is_verbose() {
            eprintln!("{kind}: {}", text());
        }
        self.faults.entry(kind.to_owned()).or_insert_with(|| (0, text())).0 += 1;
    }

    /// Adds what another one compared.
    pub(crate) fn add(&mut self, other: Self) {
        let Self { compared, alone, equal, flipped, reasons, faults } = other;
        self.compared += compared;
        self.alone += alone;
        self.equal += equal;
        self.flipped += flipped;
        reasons.into_iter().for_each(|(name, count)| *self.reasons.entry(name).or_default() += count);
        for (kind, (count, first)) in faults {
            self.faults.entry(kind).or_insert((0, first)).0 += count;
        }
    }

    /// Reasons that were none. Each has a case.
    pub(crate) fn unused(&self) -> Vec<&'static str> {
        REASONS.iter().map(|reason| reason.name).filter(|name| !self.reasons.contains_key(name)).collect()
    }

    /// Says what is wrong; empty: nothing.
    pub(crate) fn wrong(&self) -> String {
        self.faults.iter().fold(String::new(), |mut text, (kind, (count, first))| {
            let _ = writeln!(text, "{kind}: {count} times, first {first}");
            text
        })
    }
}

fn describe(what: &str, ours: &Decision, theirs: &Decision) -> String {
    format!("{what}\n  ours: {} -> {}\n  OVS:  {} -> {}", ours.text, ours.actions, theirs.text, theirs.actions)
}
