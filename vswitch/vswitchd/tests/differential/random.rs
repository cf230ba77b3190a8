//! Random programs on both switches.

use crate::compare::differences;
use crate::generate::{Program, Rng, Stateful, Summary, crowded, tunnelled};
use crate::oracle::Oracle;
use crate::pair::Pair;
use crate::run::{Record, run};
use crate::scenario::{Command, Step};
use crate::subject;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The first seed; the programs of a run have this one and those that follow.
const SEED: &str = "VSWITCH_DIFF_SEED";
/// How many programs.
const PROGRAMS: &str = "VSWITCH_DIFF_PROGRAMS";
/// Make programs of tunnels.
const TUNNEL: &str = "VSWITCH_DIFF_TUNNEL";
/// Packets of each.
const PACKETS: usize = 500;

/// Makes stateful programs' seeds different from the others'.
const STATEFUL: u64 = 0x5747_a7ef_0000_0000;

/// Likewise, those with many matches.
const CROWDS: u64 = 0x0c40_3d50_0000_0000;

/// Programs that differ, after which a run ends.
const ENOUGH: usize = 3;

/// The seeds of this run.
pub(crate) fn seeds() -> std::ops::Range<u64> {
    some_seeds(30)
}

/// The seeds of this run, so many unless their number was given.
pub(crate) fn some_seeds(programs: u64) -> std::ops::Range<u64> {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    };
    let first = number(SEED, 1);
    first..first + number(PROGRAMS, programs)
}

/// The scenario of a seed.
pub(crate) fn scenario(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let mut program = Program::new(&mut rng);
    with_tunnels(without_deviations(program.scenario(PACKETS, &mut rng)), &mut rng)
}

/// The stateful scenario of a seed.
pub(crate) fn stateful(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed ^ STATEFUL);
    Stateful::new(&mut rng).scenario(PACKETS, &mut rng)
}

/// The scenario of a seed whose masks have many matches.
pub(crate) fn crowds(seed: u64) -> Vec<Step> {
    crowded(PACKETS / 2, &mut Rng::new(seed ^ CROWDS))
}

/// The scenario as it is, or, if that was asked for, as one of tunnels.
fn with_tunnels(steps: Vec<Step>, rng: &mut Rng) -> Vec<Step> {
    if of_tunnels() { tunnelled(steps, rng) } else { steps }
}

/// Whether programs of tunnels were asked for.
pub(crate) fn of_tunnels() -> bool {
    std::env::var_os(TUNNEL).is_some()
}

/// The scenario without what meets a deviation (`deviations.rs`).
fn without_deviations(mut steps: Vec<Step>) -> Vec<Step> {
    // truncation-is-of-what-leaves
    if says(&steps, &["push_vlan", "pop_vlan", "strip_vlan", "mod_vlan", "VLAN_TCI"]) {
        for step in &mut steps {
            if let Step::Flow(text) | Step::Control(Command { argument: Some(text), .. }) = step {
                *text = without_truncation(text);
            }
        }
    }
    // tags-that-come-back
    if says(&steps, &["push_vlan", "pop_vlan", "NORMAL"]) {
        steps.retain(|step| !matches!(step, Step::Packet { bytes, .. } if has_dei(bytes)));
    }
    // later-fragments-keep-their-payload, checksum-behind-routing-header
    let words = [
        "ip_src",
        "ip_dst",
        "ipv6_src",
        "ipv6_dst",
        "IP_SRC",
        "IP_DST",
        "IPV6_SRC",
        "IPV6_DST",
        "mod_nw_src",
        "mod_nw_dst",
    ];
    if says(&steps, &words) {
        steps.retain(|step| !matches!(step, Step::Packet { bytes, .. } if hides_checksum(bytes)));
    }
    // cut-off-headers
    if says(&steps, &["->arp_", "->NXM_OF_ARP", "->NXM_NX_ARP"]) {
        steps.retain(|step| !matches!(step, Step::Packet { bytes, .. } if is_odd_arp(bytes)));
    }
    steps
}

/// Whether a packet is ARP that is cut off, or not for Ethernet and IPv4.
fn is_odd_arp(bytes: &[u8]) -> bool {
    let at = payload(bytes);
    let is_whole = bytes.len() >= at + 28 && bytes[at..at + 6] == [0, 1, 8, 0, 6, 4];
    matches!(bytes[at - 2..at], [0x08, 0x06] | [0x80, 0x35]) && !is_whole
}

/// Whether a tag has the drop eligible indicator.
fn has_dei(bytes: &[u8]) -> bool {
    (14..payload(bytes)).step_by(4).any(|at| bytes[at] & 0x10 != 0)
}

/// Where the payload begins, behind whatever tags.
fn payload(bytes: &[u8]) -> usize {
    let mut at = 14;
    while matches!(bytes[at - 2..at], [0x81, 0x00] | [0x88, 0xa8]) && bytes.len() >= at + 4 {
        at += 4;
    }
    at
}

/// Whether anything but packets has one of the words in it.
fn says(steps: &[Step], words: &[&str]) -> bool {
    let texts = steps.iter().filter(|step| !matches!(step, Step::Packet { .. })).map(ToString::to_string);
    texts.into_iter().any(|text| words.iter().any(|word| text.contains(word)))
}

/// `output(port=P,max_len=N)` as `output:P`.
fn without_truncation(text: &str) -> String {
    let mut parts = text.split("output(port=");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let port = part.split(',').next().unwrap_or_default();
        let rest = part.split_once(')').map_or("", |(_, rest)| rest);
        out += &format!("output:{port}{rest}");
    }
    out
}

/// Whether a packet, behind whatever tags, is a later fragment, or has an IPv6 header that routes
/// or fragments.
fn hides_checksum(bytes: &[u8]) -> bool {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let word = |at: usize| u16::from_be_bytes([byte(at), byte(at + 1)]);
    let at = payload(bytes) - 2;
    if word(at) == 0x0800 {
        return word(at + 8) & 0x1fff != 0;
    }
    let (mut next, mut at) = (byte(at + 8), at + 42);
    for _ in 0..8 {
        if !matches!(next, 0 | 51 | 60) {
            break;
        }
        let len = usize::from(byte(at + 1));
        (next, at) = (byte(at), at + if next == 51 { 4 * (len + 2) } else { 8 * (len + 1) });
    }
    matches!(next, 43 | 44)
}

/// Runs the programs on Open vSwitch alone: are they accepted, are they hit?
pub(crate) fn survey(oracle: &mut Oracle, scenario: fn(u64) -> Vec<Step>) -> Summary {
    let mut summary = Summary::default();
    for seed in seeds() {
        let steps = scenario(seed);
        // For whoever reads why a run ended early.
        eprintln!("seed {seed}");
        let Some(record) = run_if_it_lives(oracle, &steps) else {
            eprintln!("seed {seed}: Open vSwitch died");
            summary.died += 1;
            continue;
        };
        for (step, lines) in steps.iter().zip(&record.steps) {
            if lines.iter().any(|line| line.starts_with("refused")) {
                eprintln!("seed {seed}: refused: {step}");
            }
        }
        summary.add(&steps, &record);
        if std::env::var_os("VSWITCH_DIFF_TWICE").is_some() {
            let Some(again) = run_if_it_lives(oracle, &steps) else { continue };
            let differences = differences(&steps, &record, &again);
            assert!(differences.is_empty(), "seed {seed}: not the same the second time\n{differences}");
        }
    }
    summary
}

/// Runs a scenario; none: Open vSwitch did not survive it, and is started anew.
fn run_if_it_lives(oracle: &mut Oracle, steps: &[Step]) -> Option<Record> {
    match catch_unwind(AssertUnwindSafe(|| run(oracle, steps))) {
        Ok(record) => Some(record),
        Err(panic) if oracle.has_died(&*panic) => {
            *oracle = Oracle::start(&subject::ports());
            None
        }
        Err(panic) => resume_unwind(panic),
    }
}

/// Runs the programs on both switches. Returns what differs; it stops looking when it has found
/// some. For one that Open vSwitch does not survive another one is taken, so that as many are
/// compared as were asked for; unless it is one of five.
pub(crate) fn compare(pair: &mut Pair, scenario: fn(u64) -> Vec<Step>) -> (Summary, Vec<String>) {
    let (mut summary, mut wrong) = (Summary::default(), Vec::new());
    let mut seeds = seeds();
    let spare = usize::try_from((seeds.end - seeds.start) / 5).unwrap_or(0);
    while let Some(seed) = seeds.next() {
        let steps = scenario(seed);
        eprintln!("seed {seed}");
        match pair.check(&format!("seed {seed} (alone: {SEED}={seed} {PROGRAMS}=1)"), &steps) {
            Ok(Some(record)) => summary.add(&steps, &record),
            Ok(None) => {
                summary.died += 1;
                seeds.end += u64::from(summary.died <= spare);
            }
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
    let stateful = std::env::var_os("VSWITCH_DIFF_STATEFUL").is_some();
    for step in if stateful { self::stateful(seed) } else { scenario(seed) } {
        match step {
            Step::Packet { port, bytes, .. } if std::env::var_os("VSWITCH_DIFF_HEX").is_some() => {
                eprintln!("{}", Step::packet(port, bytes));
            }
            step => eprintln!("{step}"),
        }
    }
}
