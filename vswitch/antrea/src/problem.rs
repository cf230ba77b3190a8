//! What is wrong with an object.

use crate::Key;
use crate::limits::{PROBLEM_LEN_MAX, PROBLEMS_MAX};
use vswitch_proto::antrea::v1;

/// What kind of wrong: the table at `Problem.code` in `common.proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Code {
    Missing,
    Value,
    Range,
    Duplicate,
    Overlap,
    Reference,
    Port,
    Feature,
    Family,
    Limit,
    Conflict,
    InUse,
    Empty,
    Pending,
    Pipeline,
}

impl Code {
    /// As the interface spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "MISSING",
            Self::Value => "VALUE",
            Self::Range => "RANGE",
            Self::Duplicate => "DUPLICATE",
            Self::Overlap => "OVERLAP",
            Self::Reference => "REFERENCE",
            Self::Port => "PORT",
            Self::Feature => "FEATURE",
            Self::Family => "FAMILY",
            Self::Limit => "LIMIT",
            Self::Conflict => "CONFLICT",
            Self::InUse => "IN_USE",
            Self::Empty => "EMPTY",
            Self::Pending => "PENDING",
            Self::Pipeline => "PIPELINE",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind.
    pub code: Code,
    /// Path of the field: `rules[3].ports[0].port`.
    pub field: String,
    /// What is wrong, with the value.
    pub reason: String,
    /// How to fix it; may be empty.
    pub hint: String,
    /// The other object of a conflict.
    pub other: Option<Key>,
}

impl Problem {
    /// Without a hint and another object.
    #[must_use]
    pub fn new(code: Code, field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { code, field: field.into(), reason: reason.into(), hint: String::new(), other: None }
    }

    /// How to fix it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// The other object.
    #[must_use]
    pub fn other(mut self, other: Key) -> Self {
        self.other = Some(other);
        self
    }

    /// As the interface tells it.
    #[must_use]
    pub fn to_proto(&self) -> v1::Problem {
        v1::Problem {
            code: self.code.name().to_owned(),
            reason: clip(&self.reason),
            field: clip(&self.field),
            hint: clip(&self.hint),
            other: self.other.as_ref().map(Key::to_proto),
        }
    }
}

/// The text, or its beginning.
fn clip(text: &str) -> String {
    clip_to(text, PROBLEM_LEN_MAX)
}

fn clip_to(text: &str, most: usize) -> String {
    if text.len() <= most {
        text.to_owned()
    } else {
        format!("{}...", &text[..text.floor_char_boundary(most.saturating_sub(3))])
    }
}

/// Everything that is wrong with one object, and what is odd and was accepted. What there is no
/// room for is not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    all: Vec<Problem>,
    /// How many there are, those that there was no room for included.
    count: usize,
    warnings: Vec<String>,
}

impl Problems {
    /// One more.
    pub fn add(&mut self, problem: Problem) {
        self.count += 1;
        if self.all.len() < PROBLEMS_MAX {
            self.all.push(problem);
        }
    }

    /// The same once: an entry that a list has more than once with the same meaning is taken once.
    pub fn twice(&mut self, field: &str, what: impl std::fmt::Display) {
        self.warn(format!("{field}: {what} is there twice; it is taken once"));
    }

    /// Something odd that is accepted.
    pub fn warn(&mut self, text: String) {
        if self.warnings.len() < PROBLEMS_MAX {
            self.warnings.push(text);
        }
    }

    /// What is odd and was accepted, as the interface tells it.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.iter().map(|text| clip(text)).collect()
    }

    /// What is odd and was accepted, without what is wrong.
    #[must_use]
    pub(crate) fn only_warnings(&self) -> Self {
        Self { all: Vec::new(), count: 0, warnings: self.warnings.clone() }
    }

    /// Says at the first problem what is in force meanwhile.
    pub(crate) fn meanwhile(&mut self, text: &str) {
        if let Some(first) = self.all.first_mut() {
            let reason = clip_to(&first.reason, PROBLEM_LEN_MAX.saturating_sub(text.len() + 2));
            first.reason = format!("{reason}; {text}");
        }
    }

    /// One more, in short.
    pub fn push(&mut self, code: Code, field: impl Into<String>, reason: impl Into<String>) {
        self.add(Problem::new(code, field, reason));
    }

    /// The value of a result, or None with its error as a problem VALUE of the field.
    pub fn take<T>(&mut self, field: &str, result: Result<T, String>) -> Option<T> {
        result.map_err(|reason| self.push(Code::Value, field, reason)).ok()
    }

    /// Nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Problem] {
        &self.all
    }

    /// How many were added, more than are kept perhaps: what a judgement has added is told by this.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Those of another.
    pub fn extend(&mut self, others: Self) {
        let more = others.count.saturating_sub(others.all.len());
        others.all.into_iter().for_each(|problem| self.add(problem));
        self.count += more;
        others.warnings.into_iter().for_each(|text| self.warn(text));
    }
}
