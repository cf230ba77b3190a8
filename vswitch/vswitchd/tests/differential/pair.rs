//! Both switches, and what is said when they differ.

use crate::compare::{are_same, differences, first_difference, minimise};
use crate::oracle::Oracle;
use crate::ours::Ours;
use crate::run::{Record, run};
use crate::scenario::Step;
use crate::subject::Subject;
use std::fmt::Write as _;
use std::time::Duration;

/// Time to find a smaller scenario that shows the same.
const MINIMISE_LIMIT: Duration = Duration::from_secs(60);

/// Say which steps Open vSwitch does not survive.
const MINIMISE_DEATH: &str = "VSWITCH_DIFF_DEATH";

/// Open vSwitch and our switch, with the same ports.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) oracle: Oracle,
    pub(crate) ours: Ours,
    ports: Vec<(String, u32)>,
}

/// Open vSwitch crashed or hung: what it would have done is not known.
#[derive(Debug)]
pub(crate) struct Died;

impl Pair {
    /// Starts both with these ports.
    pub(crate) fn start(ports: &[(String, u32)]) -> Self {
        Self { oracle: Oracle::start(ports), ours: Ours::start(ports), ports: ports.to_vec() }
    }

    /// Runs a scenario on both, which decide about each packet anew and tell what they decided.
    /// None: Open vSwitch did not survive it.
    pub(crate) fn run_told(&mut self, steps: &[Step]) -> Option<(Record, Record)> {
        self.oracle.decide(true);
        self.ours.decide(true);
        let records = self.run(steps).ok();
        self.oracle.decide(false);
        self.ours.decide(false);
        records
    }

    /// Runs a scenario on both at the same time.
    pub(crate) fn run(&mut self, steps: &[Step]) -> Result<(Record, Record), Died> {
        let Self { oracle, ours, .. } = self;
        let (expected, found) = std::thread::scope(|scope| {
            let expected = scope.spawn(|| run(oracle, steps));
            let found = run(ours, steps);
            (expected.join(), found)
        });
        match expected {
            Ok(expected) => Ok((expected, found)),
            Err(panic) if self.oracle.has_died(&*panic) => {
                self.oracle = Oracle::start(&self.ports);
                Err(Died)
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Runs a scenario on ours, without its caches.
    pub(crate) fn run_uncached(&mut self, steps: &[Step]) -> Record {
        self.ours.set_cache(false);
        let found = run(&mut self.ours, steps);
        self.ours.set_cache(true);
        found
    }

    /// Runs a scenario on both, and once more on ours without caches; says what differs, with the
    /// least that shows it. None: Open vSwitch did not survive it, or not unharmed.
    pub(crate) fn check(&mut self, what: &str, steps: &[Step]) -> Result<Option<Record>, String> {
        let Ok((mut expected, mut found)) = self.run(steps) else {
            eprintln!("{what}: Open vSwitch died");
            if std::env::var_os(MINIMISE_DEATH).is_some() {
                let least = minimise(steps, MINIMISE_LIMIT, |steps| self.run(steps).is_err());
                least.iter().for_each(|step| eprintln!("  {step}"));
            }
            return Ok(None);
        };
        if !are_same(&expected, &found) {
            // One whose memory is damaged does odd things before it crashes: a difference is what a
            // fresh one shows too.
            let before = found;
            self.oracle = Oracle::start(&self.ports);
            let Ok(again) = self.run(steps) else {
                eprintln!("{what}: Open vSwitch differed, and died when it was asked again");
                return Ok(None);
            };
            (expected, found) = again;
            if !are_same(&before, &found) {
                let mut text = format!("{what}: our switch does not do the same twice\n");
                text += &differences(steps, &before, &found);
                return Err(text);
            }
            if are_same(&expected, &found) {
                eprintln!("{what}: Open vSwitch differed from what it did when it was asked again");
                return Ok(None);
            }
            let least = minimise(&cut(steps, &expected, &found), MINIMISE_LIMIT, |steps| {
                self.run(steps).is_ok_and(|(expected, found)| !are_same(&expected, &found))
            });
            let (expected, found) = self.run(&least).map_err(|Died| format!("{what}: Open vSwitch died"))?;
            let mut text = format!("{what}: our switch differs from Open vSwitch\n");
            self.explain(&least, &expected, &found, &mut text);
            return Err(text);
        }
        let uncached = self.run_uncached(steps);
        if !differences(steps, &found, &uncached).is_empty() {
            let least = minimise(&cut(steps, &found, &uncached), MINIMISE_LIMIT, |steps| {
                let (found, uncached) = (run(&mut self.ours, steps), self.run_uncached(steps));
                !are_same(&found, &uncached)
            });
            let (found, uncached) = (run(&mut self.ours, &least), self.run_uncached(&least));
            let mut text =
                format!("{what}: our switch with its caches (expected) differs from itself without (found)\n");
            self.explain(&least, &found, &uncached, &mut text);
            return Err(text);
        }
        Ok(Some(expected))
    }

    fn explain(&mut self, steps: &[Step], expected: &Record, found: &Record, text: &mut String) {
        *text += "scenario (as a case's file has it):\n";
        for step in steps {
            let _ = writeln!(text, "  {step}");
        }
        *text += "differences:\n";
        *text += &differences(steps, expected, found);
        // The state in which the first difference came about.
        let first = first_difference(expected, found);
        let packet = steps.iter().take(first + 1).rposition(|step| matches!(step, Step::Packet { .. }));
        if let Some(at) = packet {
            let _ = self.run(&steps[..at]);
            if let Step::Packet { port, bytes, .. } = &steps[at] {
                let _ = writeln!(text, "ofproto/trace of Open vSwitch:\n{}", self.oracle.trace(*port, bytes));
                let _ = writeln!(text, "trace of our switch:\n{}", self.ours.trace(*port, bytes));
            }
        }
    }
}

/// The steps up to the first difference.
fn cut(steps: &[Step], expected: &Record, found: &Record) -> Vec<Step> {
    steps[..steps.len().min(first_difference(expected, found) + 1)].to_vec()
}
