//! Runs scenarios on a switch and writes down what it did.

use crate::record::Effect;
use crate::scenario::{Command, Step};
use crate::subject::{Expected, Subject};

/// What a switch did: lines per step, and its dumps at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) steps: Vec<Vec<String>>,
    pub(crate) end: Vec<String>,
}

/// Print what is refused, in full.
const VERBOSE: &str = "VSWITCH_DIFF_VERBOSE";

/// The dumps at the end of a scenario.
const DUMPS: [&str; 5] = ["dump-flows", "dump-groups", "dump-group-stats", "dump-meters", "meter-stats"];

/// Runs steps on a switch as it was at first.
pub(crate) fn run(subject: &mut dyn Subject, steps: &[Step]) -> Record {
    subject.reset();
    subject.expect(expected(steps));
    let mut record = Record::default();
    let mut flows: Vec<&str> = Vec::new();
    let mut sent: &[u8] = &[];
    let mut steps = steps.iter().peekable();
    while let Some(step) = steps.next() {
        let mut lines = Vec::new();
        if let Step::Flow(line) = step {
            flows.push(line);
            if !matches!(steps.peek(), Some(Step::Flow(_))) {
                outcome(step, subject.add_flows(&flows), &[], &mut lines);
                flows.clear();
            }
        } else {
            if let Step::Packet { bytes, .. } | Step::PacketOut { bytes, .. } = step {
                sent = bytes;
            }
            run_step(subject, step, sent, &mut lines);
        }
        record.steps.push(lines);
    }
    record.end.extend(subject.rest().lines(sent));
    for verb in DUMPS {
        record.end.extend(dump(subject, &[], verb));
    }
    record
}

/// What events the steps may cause.
fn expected(steps: &[Step]) -> Expected {
    let mut expected = Expected { packet_ins: false, flow_removed: false };
    for step in steps {
        if matches!(step, Step::Packet { .. }) {
            continue;
        }
        let text = step.to_string();
        expected.packet_ins |=
            ["controller", "CONTROLLER", "dec_ttl(", "0xfffd"].iter().any(|word| text.contains(word));
        expected.flow_removed |= text.contains("send_flow_rem");
    }
    expected
}

/// What a dump prints, normalised.
pub(crate) fn dump(subject: &mut dyn Subject, options: &[&str], verb: &str) -> Vec<String> {
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    let command = Command { options, verb: verb.to_owned(), argument: None, input: None };
    match subject.control(&command) {
        Ok((printed, _)) => normalise(&printed, true),
        Err(error) => panic!("{verb} failed on {}: {error}", subject.name()),
    }
}

/// `sent` is the last packet that was sent.
fn run_step(subject: &mut dyn Subject, step: &Step, sent: &[u8], lines: &mut Vec<String>) {
    match step {
        Step::Flow(_) => {}
        Step::Control(command) => match subject.control(command) {
            Ok((printed, effect)) => {
                let sorted = !command.options.iter().any(|option| option.contains("sort"));
                lines.extend(normalise(&printed, sorted));
                lines.extend(effect.lines(sent));
            }
            Err(error) => lines.push(refusal(step, &error)),
        },
        Step::Table(number, name) => subject.name_table(*number, name),
        Step::Port(port, change) => lines.extend(subject.change_port(*port, *change).lines(sent)),
        Step::Packet { port, bytes, .. } => lines.extend(subject.packet(*port, bytes).lines(sent)),
        Step::PacketOut { expanded, .. } => outcome(step, subject.packet_out(expanded), sent, lines),
        Step::Resume => lines.extend(subject.resume().lines(sent)),
        Step::Warp(ms) => lines.extend(subject.warp(*ms).lines(sent)),
    }
}

fn outcome(step: &Step, result: Result<Effect, String>, sent: &[u8], lines: &mut Vec<String>) {
    match result {
        Ok(effect) => lines.extend(effect.lines(sent)),
        Err(error) => lines.push(refusal(step, &error)),
    }
}

/// `refused`, and the name that OpenFlow or Open vSwitch has for the error, if the message has one.
fn refusal(step: &Step, error: &str) -> String {
    if std::env::var_os(VERBOSE).is_some() {
        eprintln!("{step}: {error}");
    }
    let words = error.split(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
    let code = words
        .filter(|word| word.starts_with("OFP") || word.starts_with("NX"))
        .find(|word| word.contains('_') && !["OFPT_", "OFPST_", "NXM_"].iter().any(|other| word.starts_with(other)));
    code.map_or_else(|| "refused".to_owned(), |code| format!("refused {code}"))
}

/// Lines of a dump without times, sorted if wanted. Bands of a meter follow it in its line.
fn normalise(printed: &str, sorted: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in printed.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("OFPST_") || line.starts_with("NXST_") {
            continue;
        }
        let continues =
            line.starts_with("type=") || line.split_once(": ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        match lines.last_mut().filter(|_| continues) {
            Some(last) => *last += &format!(" {line}"),
            None => lines.push(without_times(line)),
        }
    }
    if sorted {
        lines.sort();
    }
    lines
}

fn without_times(line: &str) -> String {
    let mut text = line.to_owned();
    for key in ["duration=", "duration:", "idle_age=", "hard_age="] {
        let Some(at) = text.find(key) else { continue };
        let len = text[at..].find([',', ' ']).unwrap_or(text.len() - at);
        let tail = text[at + len..].trim_start_matches([',', ' ']).to_owned();
        text.truncate(at);
        text += &tail;
    }
    text
}
