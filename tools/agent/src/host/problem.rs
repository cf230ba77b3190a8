//! What is not as the plan has it: problems that stand, and repairs.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1::HostProblem;

/// Most problems and repairs of a report.
const TOLD_MAX: usize = 256;
/// Repairs that are told of after they were made.
const REPAIRS_MAX: usize = 64;
/// Most bytes of a text of a report.
const TEXT_LEN_MAX: usize = 500;

/// What kind: the table at `HostProblem.code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Code {
    Repaired,
    Interface,
    Foreign,
    Permission,
    Nft,
    State,
    Value,
    Kernel,
}

impl Code {
    const fn name(self) -> &'static str {
        match self {
            Self::Repaired => "REPAIRED",
            Self::Interface => "INTERFACE",
            Self::Foreign => "FOREIGN",
            Self::Permission => "PERMISSION",
            Self::Nft => "NFT",
            Self::State => "STATE",
            Self::Value => "VALUE",
            Self::Kernel => "KERNEL",
        }
    }
}

/// One thing of a plan that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) code: Code,
    /// The line that names it.
    pub(super) item: String,
    pub(super) reason: String,
    pub(super) hint: &'static str,
    unix_ms: u64,
}

impl Problem {
    pub(super) fn new(code: Code, item: &str, reason: impl Into<String>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        Self { code, item: item.to_owned(), reason: reason.into(), hint: "", unix_ms }
    }

    pub(super) fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    fn to_proto(&self) -> HostProblem {
        HostProblem {
            code: self.code.name().to_owned(),
            item: cut(&self.item),
            reason: cut(&self.reason),
            hint: cut(self.hint),
            unix_ms: self.unix_ms,
        }
    }
}

fn cut(text: &str) -> String {
    let end = (0..=TEXT_LEN_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}

/// `CODE item: reason; hint`, on one line.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("{} {}: {}", self.code.name(), self.item, self.reason);
        if !self.hint.is_empty() {
            text = format!("{text}; {}", self.hint);
        }
        f.write_str(&shown(&text))
    }
}

/// Problems as they are now, and the last repairs. Each is logged once.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// By the item and the code.
    standing: BTreeMap<(String, Code), Problem>,
    repairs: VecDeque<Problem>,
    /// Something is new since the last report.
    pub(super) is_new: bool,
}

impl Told {
    /// A problem of this item that stands.
    pub(super) fn standing(&self, item: &str, code: Code) -> Option<&Problem> {
        self.standing.get(&(item.to_owned(), code))
    }

    /// Whether anything stands.
    pub(super) fn is_wrong(&self) -> bool {
        !self.standing.is_empty()
    }

    /// Takes over what a look found.
    pub(super) fn look(&mut self, problems: Vec<Problem>) {
        let mut standing = BTreeMap::new();
        for problem in problems {
            if problem.code == Code::Repaired {
                tracing::warn!("host: {problem}");
                self.is_new = true;
                self.repairs.push_back(problem);
                continue;
            }
            let key = (problem.item.clone(), problem.code);
            // One that stands keeps its time.
            let known = self.standing.remove(&key).filter(|known| known.reason == problem.reason);
            if known.is_none() {
                tracing::error!("host: {problem}");
                self.is_new = true;
            }
            standing.insert(key, known.unwrap_or(problem));
        }
        for (item, code) in self.standing.keys().filter(|key| !standing.contains_key(*key)) {
            tracing::info!("host: {}: {} is over", shown(item), code.name());
            self.is_new = true;
        }
        self.standing = standing;
        while self.repairs.len() > REPAIRS_MAX {
            self.repairs.pop_front();
        }
    }

    /// Of a report.
    pub(super) fn to_proto(&self) -> Vec<HostProblem> {
        self.standing.values().chain(self.repairs.iter().rev()).take(TOLD_MAX).map(Problem::to_proto).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_is_new_once_and_so_is_its_end() {
        let mut told = Told::default();
        let foreign = || Problem::new(Code::Foreign, "route 10.0.0.0/8", "another one is there");
        told.look(vec![foreign()]);
        assert!(std::mem::take(&mut told.is_new) && told.is_wrong());
        let first = told.to_proto();
        told.look(vec![foreign()]);
        assert!(!told.is_new);
        assert_eq!(told.to_proto(), first, "its time is that of the first look");
        told.look(vec![Problem::new(Code::Repaired, "route 10.0.0.0/8", "it was gone")]);
        assert!(told.is_new && !told.is_wrong());
        assert_eq!(told.to_proto().len(), 1, "a repair is told after it was made");
    }

    #[test]
    fn texts_are_cut_between_letters() {
        let long = Problem::new(Code::Kernel, &"é".repeat(400), "x");
        assert_eq!(long.to_proto().item.len(), TEXT_LEN_MAX);
    }
}
