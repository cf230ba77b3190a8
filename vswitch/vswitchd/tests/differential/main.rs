//! Our switch beside Open vSwitch 3.1: the same tables, groups and meters, the same packets, the
//! same time; every byte that leaves, every packet-in, every counter and every dump must be equal.
//!
//! **Design**: a [`subject::Subject`] is a switch with one bridge and dummy ports; there are two,
//! [`oracle::Oracle`] and ours. A scenario is a list of [`scenario::Step`]s; [`run::run`] plays it
//! on a switch and yields lines of text, which are compared. Scenarios come from `cases/*.case` (by
//! hand, with what Open vSwitch did written in them) and from the generator (random programs and
//! packets from a seed). One test compares what both look at in order to decide ([`masks`]).
//!
//! **Variables**: `VSWITCH_DIFF_RECORD=1` writes what Open vSwitch does into the cases;
//! `VSWITCH_DIFF_CASE=NAME` runs only cases whose file has that in its name;
//! `VSWITCH_DIFF_SHOW=SEED` prints what a seed makes (with `VSWITCH_DIFF_STATEFUL=1`: of the
//! stateful ones); `VSWITCH_DIFF_TUNNEL=1` makes random programs ones of tunnels.

#![allow(clippy::print_stderr)] // captured and shown by the test runner

mod behind;
#[allow(clippy::duplicate_mod)]
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod connections;
mod deviations;
mod document;
mod frame;
mod gateway;
mod generate;
mod golden;
mod masks;
mod oracle;
mod ours;
mod pair;
mod predict;
mod random;
mod record;
mod run;
mod scenario;
mod subject;
mod tunnels;

/// Threads that compare the masks of cases: Open vSwitch waits more than it works.
const MASKS_THREADS: usize = 3;

/// What is written in the cases is what Open vSwitch does.
#[test]
fn cases_tell_the_truth_about_open_vswitch() {
    let cases = golden::cases();
    assert!(!cases.is_empty(), "no cases");
    let wrong = golden::by_ports(&cases, |ports, cases| golden::check_oracle(&mut oracle::Oracle::start(ports), cases));
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// At least one packet of a case meets each flow of the published pipeline.
#[test]
fn cases_meet_every_flow_of_the_document() {
    let wrong = golden::check_document(&golden::all_cases());
    assert!(wrong.is_empty(), "{} flows:\n{}", wrong.len(), wrong.join("\n"));
}

/// Our switch does in each case what Open vSwitch does, but for the deviations in the list.
#[test]
fn cases_hold_for_our_switch() {
    let cases = golden::cases();
    let mut wrong = golden::check_deviations(&cases);
    wrong.extend(golden::by_ports(&cases, |ports, cases| golden::check_ours(&mut ours::Ours::start(ports), cases)));
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// The gateway bridge that this switch compiles does what OVN-Kubernetes' does, but for the
/// differences in the list.
#[test]
fn the_compiled_gateway_bridge_does_what_ovn_does() {
    let wrong = gateway::check();
    assert!(wrong.is_empty(), "{} scenarios:\n{}", wrong.len(), wrong.join("\n"));
}

/// Random programs do the same on both.
#[test]
fn random_programs_are_the_same() {
    let mut pair = pair::Pair::start(&subject::ports());
    let start = std::time::Instant::now();
    let (summary, wrong) = random::compare(&mut pair, random::scenario);
    eprintln!("{summary:?} in {:?}", start.elapsed());
    assert!(wrong.is_empty(), "{} programs differ:\n{}", wrong.len(), wrong.join("\n"));
    summary.check(random::of_tunnels());
}

/// Random programs that track connections, and conversations through them, do the same on both.
#[test]
fn stateful_programs_are_the_same() {
    let mut pair = pair::Pair::start(&subject::ports());
    let start = std::time::Instant::now();
    let (summary, wrong) = random::compare(&mut pair, random::stateful);
    eprintln!("{summary:?} in {:?}", start.elapsed());
    assert!(wrong.is_empty(), "{} programs differ:\n{}", wrong.len(), wrong.join("\n"));
    summary.check_stateful();
}

/// Decisions of our switch look at the bits of a packet that those of Open vSwitch look at, but for
/// reasons in the list: in all cases, and in some random programs. Where they look at fewer,
/// another packet that differs there has the same result.
#[test]
fn decisions_look_at_the_same_bits() {
    let start = std::time::Instant::now();
    let mut tally = masks::Tally::default();
    let cases = golden::cases();
    let lists = (0..MASKS_THREADS).map(|n| cases.iter().skip(n).step_by(MASKS_THREADS).cloned().collect::<Vec<_>>());
    std::thread::scope(|scope| {
        let of_cases = lists.map(|cases| scope.spawn(move || masks::of_cases(&cases)));
        let threads: Vec<_> = of_cases.chain([scope.spawn(masks::of_random_programs)]).collect();
        threads.into_iter().for_each(|thread| tally.add(thread.join().expect("a comparison ends")));
    });
    let masks::Tally { compared, alone, equal, flipped, reasons, .. } = &tally;
    eprintln!(
        "{compared} decisions, {alone} of ours alone, {equal} equal, {flipped} bits flipped, {reasons:?} in {:?}",
        start.elapsed()
    );
    let wrong = tally.wrong();
    assert!(wrong.is_empty(), "{wrong}");
    if golden::are_all() {
        let unused = tally.unused();
        assert!(unused.is_empty(), "reasons that nothing has: {unused:?}");
        assert!(*compared > 3000 && *flipped > 300, "this compares little");
        assert!(alone * 20 < *compared && equal * 2 > *compared, "pairs are missed, or wrong");
    }
}

/// The stateful generator's programs are accepted by Open vSwitch.
#[test]
#[ignore = "for work on the generator"]
fn stateful_programs_are_worth_running() {
    let mut oracle = oracle::Oracle::start(&subject::ports());
    let start = std::time::Instant::now();
    let summary = random::survey(&mut oracle, random::stateful);
    eprintln!("{summary:?} in {:?}", start.elapsed());
    summary.check_stateful();
}

/// The generator's programs are accepted by Open vSwitch.
#[test]
#[ignore = "for work on the generator"]
fn generated_programs_are_worth_running() {
    let mut oracle = oracle::Oracle::start(&subject::ports());
    let start = std::time::Instant::now();
    let summary = random::survey(&mut oracle, random::scenario);
    eprintln!("{summary:?} in {:?}", start.elapsed());
    summary.check(random::of_tunnels());
}

/// The flows and groups of the published pipeline load verbatim, by name, and dump as Open vSwitch
/// dumps them.
#[test]
fn the_document_loads_and_dumps_like_open_vswitch() {
    document::check();
}

/// Shows what a seed makes.
#[test]
fn show() {
    if let Ok(seed) = std::env::var("VSWITCH_DIFF_SHOW") {
        random::print(seed.parse().expect("a number"));
    }
}
