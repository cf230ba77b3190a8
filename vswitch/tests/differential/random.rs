//! Random programs on both switches.

use crate::compare::differences;
use crate::generate::{Program, Rng, Summary};
use crate::pair::Pair;
use crate::run::run;
use crate::scenario::Step;
use crate::subject::Subject;

/// The first seed; the programs of a run have this one and those that follow.
const SEED: &str = "VSWITCH_DIFF_SEED";
/// How many programs.
const PROGRAMS: &str = "VSWITCH_DIFF_PROGRAMS";
/// Packets of each.
const PACKETS: usize = 500;

/// Programs that differ, after which a run ends.
const ENOUGH: usize = 3;

/// The seeds of this run.
pub(crate) fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    };
    let first = number(SEED, 1);
    first..first + number(PROGRAMS, 200)
}

/// The scenario of a seed.
pub(crate) fn scenario(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let mut program = Program::new(&mut rng);
    program.scenario(PACKETS, &mut rng)
}

/// Runs the programs on Open vSwitch alone: are they accepted, are they hit?
pub(crate) fn survey(oracle: &mut dyn Subject) -> Summary {
    let mut summary = Summary::default();
    for seed in seeds() {
        let steps = scenario(seed);
        // For whoever reads why a run ended early.
        eprintln!("seed {seed}");
        let record = run(oracle, &steps);
        for (step, lines) in steps.iter().zip(&record.steps) {
            if lines.iter().any(|line| line.starts_with("refused")) {
                eprintln!("seed {seed}: refused: {step}");
            }
        }
        summary.add(&steps, &record);
        if std::env::var_os("VSWITCH_DIFF_TWICE").is_some() {
            let again = run(oracle, &steps);
            let differences = differences(&steps, &record, &again);
            assert!(differences.is_empty(), "seed {seed}: not the same the second time\n{differences}");
        }
    }
    summary
}

/// Runs the programs on both switches. Returns what differs; it stops looking when it has found some.
pub(crate) fn compare(pair: &mut Pair) -> (Summary, Vec<String>) {
    let (mut summary, mut wrong) = (Summary::default(), Vec::new());
    for seed in seeds() {
        let steps = scenario(seed);
        eprintln!("seed {seed}");
        match pair.check(&format!("seed {seed} (alone: {SEED}={seed} {PROGRAMS}=1)"), &steps) {
            Ok(record) => summary.add(&steps, &record),
            Err(difference) => {
                eprintln!("{difference}");
                wrong.push(difference);
            }
        }
        if wrong.len() >= ENOUGH {
            break;
        }
    }
    (summary, wrong)
}

/// Prints a seed's scenario, as a case's file would have it.
pub(crate) fn print(seed: u64) {
    for step in scenario(seed) {
        eprintln!("{step}");
    }
}
