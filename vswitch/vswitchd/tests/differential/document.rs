//! The pipeline that Antrea's documentation publishes: its flows and groups, verbatim, with names
//! of ports and tables.

use crate::compare::differences;
use crate::pair::Pair;
use crate::run::{Record, dump};
use crate::scenario::{Command, Step};
use crate::subject::Subject;
use vswitch_testkit::antrea;

const FLOWS: &str = include_str!("../../../flow/tests/data/antrea-flows.txt");
const GROUPS: &str = include_str!("../../../flow/tests/data/antrea-groups.txt");

/// Groups that its flows use and it does not show.
const MISSING_GROUPS: [u32; 5] = [12, 14, 16, 17, 18];

/// Its meters, which it does not show.
const METERS: [u32; 1] = [256];

/// Ways to dump.
const DUMPS: [(&[&str], &str); 4] = [
    (&["--no-stats"], "dump-flows"),
    (&["--names", "--no-stats"], "dump-flows"),
    (&[], "dump-groups"),
    (&["--names"], "dump-groups"),
];

/// Flows that can never match, and why.
pub(crate) const NEVER: [(u64, &str); 1] =
    [(143, "conjunction 4 has its clauses at two priorities, 14600 and 14599: they never combine")];

/// Flows that another one learns anew, with another cookie, as soon as they are hit: what they
/// match.
pub(crate) const RELEARNED: [(u64, &str); 1] = [(40, ",tcp,nw_src=10.10.0.1,nw_dst=10.96.76.15,tp_dst=80 ")];

/// A clause of a conjunction counts no packets: the number of the flow that counts for it.
pub(crate) fn through(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("actions=conjunction(")?;
    let id = format!("conj_id={},", rest.split(',').next()?);
    let flows = FLOWS.lines().filter(|line| !line.trim().is_empty()).map(|line| line.replace(' ', ","));
    (1..).zip(flows).find(|(_, line)| line.contains(&id)).map(|(number, _)| number)
}

/// Its flows with numbers for names of tables and ports, and their own numbers (from 1) for
/// cookies.
pub(crate) fn flows() -> Vec<String> {
    let lines = FLOWS.lines().filter(|line| !line.trim().is_empty());
    lines.enumerate().map(|(i, line)| format!("cookie={:#x},{}", i + 1, numbered(line))).collect()
}

/// The ports' numbers.
pub(crate) fn ports() -> Vec<(String, u32)> {
    antrea::PORTS.iter().map(|(_, number)| (crate::subject::port_name(*number), *number)).collect()
}

fn numbered(line: &str) -> String {
    let mut line = line.to_owned();
    for (name, number) in antrea::PORTS {
        line = line.replace(&format!("\"{name}\""), &number.to_string());
    }
    let mut text = String::new();
    for part in line.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let word = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        match antrea::TABLES.iter().position(|name| *name == word) {
            Some(number) => text += &part.replace(word, &number.to_string()),
            None => text += part,
        }
    }
    text
}

/// Loads it into both switches and compares what they dump.
///
/// # Panics
/// When something is refused or differs.
pub(crate) fn check() {
    let ports = antrea::PORTS.map(|(name, number)| (name.to_owned(), number));
    let mut pair = Pair::start(&ports);
    let expected = load_and_dump(&mut pair.oracle);
    let found = load_and_dump(&mut pair.ours);
    let steps = DUMPS.map(|(options, verb)| Step::Control(Command::parse(&format!("{} {verb}", options.join(" ")))));
    let wrong = differences(&steps, &expected, &found);
    assert!(wrong.is_empty(), "dumps differ:\n{wrong}");
    let flows = FLOWS.lines().filter(|line| !line.trim().is_empty()).count();
    assert_eq!((flows, found.steps[0].len()), (167, 167), "flows of the document, and dumped");

    // What is dumped can be added again.
    let lines = found.steps[1].clone();
    pair.ours.add_flows(&lines.iter().map(String::as_str).collect::<Vec<_>>()).expect("dumped flows can be added");
    assert_eq!(
        dump(&mut pair.ours, &["--names", "--no-stats"], "dump-flows"),
        lines,
        "flows that were dumped and added"
    );
}

fn load_and_dump(subject: &mut dyn Subject) -> Record {
    for (number, name) in antrea::TABLES.into_iter().enumerate() {
        subject.name_table(u8::try_from(number).expect("31 tables"), name);
    }
    let missing = MISSING_GROUPS.map(|id| format!("group_id={id},type=select,bucket=weight:100,actions=drop"));
    for line in GROUPS.lines().filter(|line| !line.trim().is_empty()).chain(missing.iter().map(String::as_str)) {
        let command = Command { argument: Some(line.to_owned()), ..Command::parse("add-group") };
        subject.control(&command).unwrap_or_else(|error| panic!("{}: {line}: {error}", subject.name()));
    }
    for id in METERS {
        let line = format!("meter={id},pktps,burst,stats,bands=type=drop,rate=500,burst_size=500");
        let command = Command { argument: Some(line.clone()), ..Command::parse("add-meter") };
        subject.control(&command).unwrap_or_else(|error| panic!("{}: {line}: {error}", subject.name()));
    }
    let lines = FLOWS.lines().collect::<Vec<_>>();
    subject.add_flows(&lines).unwrap_or_else(|error| panic!("{}: {error}", subject.name()));
    Record { steps: DUMPS.map(|(options, verb)| dump(subject, options, verb)).to_vec(), ..Record::default() }
}
