//! Cases by hand: scenarios in files with what Open vSwitch did, line by line (`cases/README.md`).

use crate::behind;
use crate::compare::differences;
use crate::deviations::DEVIATIONS;
use crate::document;
use crate::frame::{self, Names};
use crate::oracle::Oracle;
use crate::ours::Ours;
use crate::run::{Record, run};
use crate::scenario::Step;
use crate::subject;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

/// Write down what Open vSwitch does instead of comparing it.
const RECORD: &str = "VSWITCH_DIFF_RECORD";
/// Only the cases whose file names have this in them.
const ONLY: &str = "VSWITCH_DIFF_CASE";

/// How often a case may end Open vSwitch.
const TRIES: usize = 3;

/// A line of a case's file.
#[derive(Clone, Debug)]
enum Line {
    /// Comments and empty lines.
    Text(String),
    Step(Step),
}

/// A part of a case.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The comment; empty: the part in front of the first one.
    pub(crate) name: String,
    /// Its steps, and what our switch does in each.
    pub(crate) steps: Vec<(Step, Vec<String>)>,
}

/// A case.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) path: PathBuf,
    lines: Vec<Line>,
    /// What Open vSwitch did when the case was recorded.
    pub(crate) recorded: Record,
    /// What our switch does instead, by deviation: only the steps where it differs.
    pub(crate) ours: Record,
    /// Whether it has the ports of the published pipeline instead of the usual ones.
    pub(crate) document: bool,
    /// Whether it has a second bridge ([`behind`]).
    pub(crate) behind: bool,
    /// The deviation that the case shows.
    pub(crate) deviation: Option<String>,
}

impl Case {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut case = Self {
            path: path.to_owned(),
            lines: Vec::new(),
            recorded: Record::default(),
            ours: Record::default(),
            document: false,
            behind: false,
            deviation: None,
        };
        let mut end = false;
        let mut names = Names::new();
        for (number, line) in text.lines().enumerate() {
            let place = format!("{}:{}", path.display(), number + 1);
            if let Some(expected) = line.strip_prefix("> ") {
                case.recorded.expect(end, expected, &place);
            } else if let Some(expected) = line.strip_prefix("! ") {
                case.ours.expect(end, expected, &place);
            } else if line == "end" {
                end = true;
            } else if let Some((name, text)) = line.strip_prefix("let ").and_then(|rest| rest.split_once(' ')) {
                let frame = frame::frame(text, &names).unwrap_or_else(|error| panic!("{place}: {error}"));
                names.insert(name.to_owned(), frame);
                case.lines.push(Line::Text(line.to_owned()));
            } else if line.is_empty() || line.starts_with('#') {
                if let Some(name) = line.strip_prefix("# deviation: ") {
                    case.deviation = Some(name.to_owned());
                }
                case.lines.push(Line::Text(line.to_owned()));
            } else {
                case.document |= line == "document";
                case.behind |= line.starts_with("behind ");
                let step = Step::parse(line, &names).unwrap_or_else(|error| panic!("{place}: {error}"));
                case.lines.push(Line::Step(step));
                case.recorded.steps.push(Vec::new());
                case.ours.steps.push(Vec::new());
            }
        }
        case
    }

    /// Its steps.
    pub(crate) fn steps(&self) -> Vec<Step> {
        self.lines
            .iter()
            .filter_map(|line| if let Line::Step(step) = line { Some(step.clone()) } else { None })
            .collect()
    }

    /// Its parts behind the first empty line: each comment begins one.
    pub(crate) fn scenarios(&self) -> Vec<Scenario> {
        let (mut scenarios, mut expected): (Vec<Scenario>, _) = (Vec::new(), self.expected_of_ours().steps.into_iter());
        let mut begun = false;
        for line in &self.lines {
            match line {
                Line::Text(text) => {
                    let name = text.strip_prefix("# ").filter(|_| begun);
                    let name = name.or_else(|| (text.is_empty() && !begun).then_some(""));
                    begun |= text.is_empty();
                    scenarios.extend(name.map(|name| Scenario { name: name.to_owned(), steps: Vec::new() }));
                }
                Line::Step(step) => {
                    let lines = expected.next().unwrap_or_default();
                    scenarios
                        .last_mut()
                        .into_iter()
                        .for_each(|scenario| scenario.steps.push((step.clone(), lines.clone())));
                }
            }
        }
        scenarios
    }

    /// The file with this record in it.
    fn text(&self, record: &Record) -> String {
        let mut text = String::new();
        let mut step = 0;
        let expectation = |text: &mut String, mark: char, lines: &[String]| {
            for line in lines {
                let _ = writeln!(text, "{mark} {line}");
            }
        };
        for line in &self.lines {
            match line {
                Line::Text(line) => {
                    let _ = writeln!(text, "{line}");
                }
                Line::Step(line) => {
                    let _ = writeln!(text, "{line}");
                    expectation(&mut text, '>', &record.steps[step]);
                    expectation(&mut text, '!', &self.ours.steps[step]);
                    step += 1;
                }
            }
        }
        text += "end\n";
        expectation(&mut text, '>', &record.end);
        expectation(&mut text, '!', &self.ours.end);
        text
    }

    /// The case with what our switch does instead of Open vSwitch.
    fn with_ours(&self, found: &Record) -> Self {
        let instead = |ovs: &Vec<String>, ours: &Vec<String>| match ours.as_slice() {
            _ if ovs == ours => Vec::new(),
            [] => vec!["nothing".to_owned()],
            ours => ours.to_vec(),
        };
        let steps = self.recorded.steps.iter().zip(&found.steps).map(|(ovs, ours)| instead(ovs, ours)).collect();
        Self {
            ours: Record { steps, end: instead(&self.recorded.end, &found.end), ..Record::default() },
            ..self.clone()
        }
    }

    /// What our switch is expected to do.
    pub(crate) fn expected_of_ours(&self) -> Record {
        let pick = |ovs: &Vec<String>, ours: &Vec<String>| match ours.as_slice() {
            [] => ovs.clone(),
            // A deviation may be that nothing happens.
            [nothing] if nothing == "nothing" => Vec::new(),
            _ => ours.clone(),
        };
        Record {
            steps: self.recorded.steps.iter().zip(&self.ours.steps).map(|(ovs, ours)| pick(ovs, ours)).collect(),
            end: pick(&self.recorded.end, &self.ours.end),
            ..Record::default()
        }
    }
}

impl Record {
    fn expect(&mut self, end: bool, line: &str, place: &str) {
        let lines = if end { Some(&mut self.end) } else { self.steps.last_mut() };
        lines.unwrap_or_else(|| panic!("{place}: an expectation before the first step")).push(line.to_owned());
    }
}

/// The cases below `cases/` that were asked for, in order of their names.
pub(crate) fn cases() -> Vec<Case> {
    read_all(&std::env::var(ONLY).unwrap_or_default())
}

/// Whether these are all.
pub(crate) fn are_all() -> bool {
    std::env::var(ONLY).unwrap_or_default().is_empty()
}

/// All of them.
pub(crate) fn all_cases() -> Vec<Case> {
    read_all("")
}

fn read_all(only: &str) -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/cases");
    let mut paths = std::fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "case"))
        .filter(|path| path.to_string_lossy().contains(only))
        .collect::<Vec<_>>();
    paths.sort();
    paths.iter().map(|path| Case::read(path)).collect()
}

impl Case {
    /// The ports that it is about.
    pub(crate) fn ports(&self) -> Vec<(String, u32)> {
        match (self.document, self.behind) {
            (true, _) => document::ports(),
            (_, true) => behind::ports(),
            _ => subject::ports(),
        }
    }
}

/// Calls it with the cases of each kind of ports.
pub(crate) fn by_ports(cases: &[Case], mut check: impl FnMut(&[(String, u32)], &[Case]) -> Vec<String>) -> Vec<String> {
    let (special, usual): (Vec<Case>, Vec<Case>) = cases.iter().cloned().partition(|case| case.document);
    let (behind, usual): (Vec<Case>, Vec<Case>) = usual.into_iter().partition(|case| case.behind);
    let kinds = [usual, special, behind].into_iter().filter(|cases| !cases.is_empty());
    kinds.flat_map(|cases| check(&cases[0].ports(), &cases)).collect()
}

/// Flows of the published pipeline that no case hits, and that are not known to match nothing.
pub(crate) fn check_document(cases: &[Case]) -> Vec<String> {
    let cookie = |line: &str| -> Option<(u64, bool)> {
        if let Some((flow, _)) = document::RELEARNED.iter().find(|(_, matching)| line.contains(matching)) {
            return Some((*flow, !line.contains(" n_packets=0,")));
        }
        let (_, rest) = line.split_once("cookie=0x")?;
        let number = u64::from_str_radix(rest.split(',').next()?, 16).ok()?;
        Some((number, line.contains(" n_packets=") && !line.contains(" n_packets=0,")))
    };
    let of_document = cases.iter().filter(|case| case.document);
    let dumped = of_document.flat_map(|case| case.recorded.steps.iter().flatten().chain(&case.recorded.end));
    let hit: BTreeSet<u64> =
        dumped.filter_map(|line| cookie(line)).filter(|(_, hit)| *hit).map(|(flow, _)| flow).collect();
    let mut wrong = Vec::new();
    for (flow, line) in (1..).zip(document::flows()) {
        let through = document::through(&line).unwrap_or(flow);
        let never = document::NEVER.iter().find(|(number, _)| *number == through);
        match (hit.contains(&through), never) {
            (false, None) => wrong.push(format!("no case hits flow {flow} of the document: {line}")),
            (true, Some((_, reason))) => wrong.push(format!("flow {flow} of the document is hit: {reason}")),
            _ => {}
        }
    }
    wrong
}

/// Checks that Open vSwitch does what the cases say; or, if asked to, writes it into them. Returns
/// what differs.
pub(crate) fn check_oracle(oracle: &mut Oracle, cases: &[Case]) -> Vec<String> {
    let mut wrong = Vec::new();
    for case in cases {
        let found = run_until_it_lives(oracle, case);
        if std::env::var_os(RECORD).is_some() {
            std::fs::write(&case.path, case.text(&found)).expect("the case can be written");
            continue;
        }
        let differences = differences(&case.steps(), &case.recorded, &found);
        if !differences.is_empty() {
            wrong.push(format!(
                "{}: Open vSwitch does something else than recorded\n{differences}",
                case.path.display()
            ));
        }
    }
    wrong
}

/// Runs a case; once more if Open vSwitch dies, which it does now and then when connections are
/// dumped often.
fn run_until_it_lives(oracle: &mut Oracle, case: &Case) -> Record {
    let steps = case.steps();
    for _ in 0..TRIES {
        match catch_unwind(AssertUnwindSafe(|| run(oracle, &steps))) {
            Ok(record) => return record,
            Err(panic) if oracle.has_died(&*panic) => *oracle = Oracle::start(&case.ports()),
            Err(panic) => resume_unwind(panic),
        }
    }
    panic!("{}: Open vSwitch dies", case.path.display());
}

/// Checks that our switch does what the cases say, or what they say that it does instead; with its
/// caches and without. Returns what differs.
pub(crate) fn check_ours(ours: &mut Ours, cases: &[Case]) -> Vec<String> {
    let mut wrong = Vec::new();
    for case in cases {
        let (steps, expected) = (case.steps(), case.expected_of_ours());
        for cached in [true, false] {
            ours.set_cache(cached);
            let found = run(ours, &steps);
            if cached && case.deviation.is_some() && std::env::var_os(RECORD).is_some() {
                std::fs::write(&case.path, case.with_ours(&found).text(&case.recorded))
                    .expect("the case can be written");
                break;
            }
            let differences = differences(&steps, &expected, &found);
            if !differences.is_empty() {
                let how = if cached { "" } else { " without caches" };
                wrong.push(format!("{}: our switch{how} differs\n{differences}", case.path.display()));
                break;
            }
        }
    }
    ours.set_cache(true);
    wrong
}

/// Checks that deviations and the cases that show them belong together.
pub(crate) fn check_deviations(cases: &[Case]) -> Vec<String> {
    let mut wrong = Vec::new();
    for case in cases {
        let differs = case.ours.steps.iter().chain([&case.ours.end]).any(|lines| !lines.is_empty());
        let known = case.deviation.as_ref().map(|name| DEVIATIONS.iter().any(|known| known.name == name));
        if known == Some(false) || differs != known.is_some() {
            wrong.push(format!("{}: deviation {:?}, lines of ours: {differs}", case.path.display(), case.deviation));
        }
    }
    for known in DEVIATIONS {
        if !cases.iter().any(|case| case.deviation.as_deref() == Some(known.name)) {
            wrong.push(format!("deviation {} has no case", known.name));
        }
    }
    wrong
}
