//! The differences that are listed, and whether they are those that occur.

use super::play::Differs;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const LIST: &str = include_str!("../ovn/differences.txt");

/// A line: its number in docs/gateway.md, the step, who it is for, and what is seen.
#[derive(Clone, Debug)]
struct Line {
    number: u8,
    step: String,
    /// `v4`, `v6`, `tcp`, `udp`.
    only: Vec<String>,
    recorded: bool,
    text: String,
}

/// The list, by scenario.
pub(super) struct Listed(BTreeMap<String, Vec<Line>>);

impl Listed {
    /// Reads it.
    ///
    /// # Panics
    /// When a line is no difference.
    pub(super) fn read() -> Self {
        let mut all: BTreeMap<String, Vec<Line>> = BTreeMap::new();
        let mut scenario = String::new();
        for line in LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[') {
                name.trim_end_matches(']').clone_into(&mut scenario);
                continue;
            }
            let parsed = parse(line).unwrap_or_else(|| panic!("{line}: no difference"));
            all.entry(scenario.clone()).or_default().push(parsed);
        }
        Self(all)
    }

    /// What differs in a scenario and is not listed, or is listed and does not differ.
    pub(super) fn judge(
        &self,
        scenario: &str,
        version: u8,
        protocol: &str,
        found: &BTreeMap<String, Differs>,
    ) -> Option<String> {
        let is_for = |line: &&Line| {
            let these = [format!("v{version}"), protocol.to_lowercase()];
            line.only.iter().all(|word| these.contains(word))
        };
        let listed: Vec<&Line> = self.0.get(scenario).into_iter().flatten().filter(is_for).collect();
        let wanted: BTreeSet<String> = listed.iter().map(|line| shown(&line.step, line.recorded, &line.text)).collect();
        let found: BTreeSet<String> = found
            .iter()
            .flat_map(|(step, differs)| {
                let of = |recorded: bool, lines: &[String]| {
                    lines.iter().map(|text| shown(step, recorded, text)).collect::<Vec<_>>()
                };
                [of(true, &differs.recorded), of(false, &differs.here)].concat()
            })
            .collect();
        let mut text = String::new();
        for line in found.difference(&wanted) {
            let _ = write!(text, "\n  not listed: {line}");
        }
        for line in wanted.difference(&found) {
            let _ = write!(text, "\n  does not occur: {line}");
        }
        (!text.is_empty()).then(|| format!("[{scenario}] IPv{version}, {protocol}{text}"))
    }

    /// Scenarios of a mode that are listed and that there are not.
    pub(super) fn strangers(&self, mode: &str, known: &BTreeSet<String>) -> Vec<String> {
        let of_mode = self.0.keys().filter(|name| name.starts_with(&format!("{mode}: ")));
        of_mode.filter(|name| !known.contains(*name)).map(|name| format!("[{name}]: no such scenario")).collect()
    }

    /// The numbers of all differences.
    pub(super) fn numbers(&self) -> BTreeSet<u8> {
        self.0.values().flatten().map(|line| line.number).collect()
    }
}

/// `NUMBER STEP [WORD...] - TEXT` of the recording, `+` of this switch.
fn parse(line: &str) -> Option<Line> {
    let (head, recorded, text) = match (line.split_once(" - "), line.split_once(" + ")) {
        (Some((head, text)), None) => (head, true, text),
        (None, Some((head, text))) => (head, false, text),
        _ => return None,
    };
    let mut words = head.split(' ');
    let number = words.next()?.parse().ok()?;
    let step = words.next()?.to_owned();
    Some(Line { number, step, only: words.map(str::to_owned).collect(), recorded, text: text.to_owned() })
}

fn shown(step: &str, recorded: bool, text: &str) -> String {
    format!("{step} {} {text}", if recorded { '-' } else { '+' })
}
