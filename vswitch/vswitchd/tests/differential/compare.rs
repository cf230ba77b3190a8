//! Where two records differ, and the smallest scenario that shows it.

use crate::run::Record;
use crate::scenario::Step;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Where two records of a scenario differ, in words; empty: nowhere.
pub(crate) fn differences(steps: &[Step], expected: &Record, found: &Record) -> String {
    let mut text = String::new();
    let steps = steps.iter().map(ToString::to_string).chain(["end".to_owned()]);
    let expected = expected.steps.iter().chain([&expected.end]);
    let found = found.steps.iter().chain([&found.end]);
    for ((step, expected), found) in
        steps.zip(expected).zip(found).filter(|((_, expected), found)| !same(expected, found))
    {
        let _ = writeln!(text, "  {step}");
        for line in missing(expected, found) {
            let _ = writeln!(text, "    expected: {line}");
        }
        for line in missing(found, expected) {
            let _ = writeln!(text, "    found:    {line}");
        }
        if missing(expected, found).is_empty() && missing(found, expected).is_empty() {
            let _ = writeln!(text, "    in another order: {expected:?}\n    found:            {found:?}");
        }
    }
    text
}

/// Whether two switches did the same.
pub(crate) fn are_same(expected: &Record, found: &Record) -> bool {
    first_difference(expected, found) == expected.steps.len() && same(&expected.end, &found.end)
}

fn same(expected: &[String], found: &[String]) -> bool {
    expected.len() == found.len() && expected.iter().zip(found).all(|(a, b)| alike(a, b))
}

/// What ovs-ofctl refuses itself has no code of OpenFlow; our switch has one for everything.
fn alike(a: &str, b: &str) -> bool {
    let refused = |line: &str| line == "refused";
    a == b || refused(a) && b.starts_with("refused ") || refused(b) && a.starts_with("refused ")
}

/// Lines of one list that the other has not, or not as often.
fn missing<'a>(lines: &'a [String], from: &[String]) -> Vec<&'a String> {
    let mut rest = from.iter().collect::<Vec<_>>();
    let mut gone = Vec::new();
    for line in lines {
        match rest.iter().position(|other| alike(other, line)) {
            Some(at) => drop(rest.swap_remove(at)),
            None => gone.push(line),
        }
    }
    gone
}

/// Index of the first step whose lines differ; the number of steps: only the dumps at the end do.
pub(crate) fn first_difference(expected: &Record, found: &Record) -> usize {
    let same = expected.steps.iter().zip(&found.steps).take_while(|(expected, found)| same(expected, found));
    same.count()
}

/// Leaves out steps, then actions and matches of flows, as long as `differs` says that the rest
/// still shows a difference.
pub(crate) fn minimise(steps: &[Step], limit: Duration, mut differs: impl FnMut(&[Step]) -> bool) -> Vec<Step> {
    let start = Instant::now();
    let mut steps = steps.to_vec();
    let mut chunk = steps.len().div_ceil(2);
    while chunk > 0 && start.elapsed() < limit {
        // From the end: what is early is needed more often.
        let mut end = steps.len();
        let mut shrunk = false;
        while end > 0 && start.elapsed() < limit {
            let begin = end.saturating_sub(chunk);
            let fewer = [&steps[..begin], &steps[end..]].concat();
            if differs(&fewer) {
                steps = fewer;
                shrunk = true;
            }
            end = begin.min(steps.len());
        }
        if chunk > 1 {
            chunk = chunk.div_ceil(2);
        } else if !shrunk {
            break;
        }
    }
    simplify(&mut steps, start, limit, &mut differs);
    steps
}

/// Leaves out parts of flows.
fn simplify(steps: &mut Vec<Step>, start: Instant, limit: Duration, differs: &mut impl FnMut(&[Step]) -> bool) {
    for i in 0..steps.len() {
        let mut part = 0;
        while start.elapsed() < limit {
            let Step::Flow(line) = &steps[i] else { break };
            let Some((matches, actions)) = line.split_once(" actions=") else { break };
            let (matches, actions) = (parts(matches), parts(actions));
            if part >= matches.len() + actions.len() {
                break;
            }
            let without = |list: &[&str], at: usize| {
                let rest = list.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, part)| *part);
                rest.collect::<Vec<_>>().join(",")
            };
            let (head, tail) = if part < matches.len() {
                (without(&matches, part), actions.join(","))
            } else {
                (matches.join(","), without(&actions, part - matches.len()))
            };
            let tail = if tail.is_empty() { "drop".to_owned() } else { tail };
            let shorter = format!("{head} actions={tail}");
            let mut fewer = steps.clone();
            let same = matches!(&fewer[i], Step::Flow(line) if *line == shorter);
            fewer[i] = Step::Flow(shorter);
            if !same && differs(&fewer) {
                *steps = fewer;
            } else {
                part += 1;
            }
        }
    }
}

/// Splits at commas outside parentheses.
pub(crate) fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_usize, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimising_keeps_what_matters() {
        let flow = |text: &str| Step::Flow(text.to_owned());
        let mut steps: Vec<Step> = (0..50).map(|i| Step::packet(1, vec![i; 20])).collect();
        steps.insert(0, flow("table=0,priority=5,ip,tcp actions=output:1,clone(output:2,output:3),output:4"));
        steps.insert(1, flow("table=0,priority=6 actions=output:9"));
        let differs = |steps: &[Step]| {
            let needed = steps.iter().any(|step| matches!(step, Step::Flow(line) if line.contains("clone")));
            needed && steps.contains(&Step::packet(1, vec![7; 20])) && steps.contains(&Step::packet(1, vec![33; 20]))
        };
        let least = minimise(&steps, Duration::from_secs(5), differs);
        let text = least.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(text[0], "flow  actions=clone(output:2,output:3)", "{text:?}");
        assert_eq!(least[1..], [Step::packet(1, vec![7; 20]), Step::packet(1, vec![33; 20])]);
    }

    #[test]
    fn lines_are_counted() {
        let record = |lines: &[&str]| Record {
            steps: vec![lines.iter().map(|line| (*line).to_owned()).collect()],
            ..Record::default()
        };
        let steps = [Step::Resume];
        assert_eq!(differences(&steps, &record(&["a", "b"]), &record(&["a", "b"])), "");
        let text = differences(&steps, &record(&["a", "a"]), &record(&["a"]));
        assert_eq!(text, "  resume\n    expected: a\n");
        assert!(differences(&steps, &record(&["a", "b"]), &record(&["b", "a"])).contains("another order"));
        assert_eq!(first_difference(&record(&["a"]), &record(&["b"])), 0);
    }
}
