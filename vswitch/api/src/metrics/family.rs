//! A metric with all its series: how it is declared, and where its samples go.

use crate::services::Reading;
use std::fmt::Write;

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows, until the switch starts anew.
    Counter,
    /// Grows and shrinks.
    Gauge,
    /// How often values were in ranges.
    Histogram,
}

/// A metric with all its series.
pub(super) struct Family {
    /// As Prometheus has it.
    pub(super) name: &'static str,
    /// One sentence.
    pub(super) help: &'static str,
    /// What it counts.
    pub(super) kind: Kind,
    /// Names of its labels.
    pub(super) labels: &'static [&'static str],
    /// The call that tells the value, and the field.
    pub(super) from: &'static str,
    /// Gives the samples of a reading.
    pub(super) read: fn(&Reading, &mut Samples<'_>),
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("name", &self.name).finish_non_exhaustive()
    }
}

type Read = fn(&Reading, &mut Samples<'_>);
type Labels = &'static [&'static str];

/// A counter.
pub(super) const fn counter(
    name: &'static str,
    help: &'static str,
    labels: Labels,
    from: &'static str,
    read: Read,
) -> Family {
    Family { name, help, kind: Kind::Counter, labels, from, read }
}

/// A gauge.
pub(super) const fn gauge(
    name: &'static str,
    help: &'static str,
    labels: Labels,
    from: &'static str,
    read: Read,
) -> Family {
    Family { name, help, kind: Kind::Gauge, labels, from, read }
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// A count.
    Count(u64),
    /// Anything else.
    Float(f64),
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<u32> for Value {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Count(yes.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

/// Where the samples of one family go.
#[derive(Debug)]
pub(super) struct Samples<'a> {
    text: &'a mut String,
    family: &'static Family,
    count: usize,
}

impl<'a> Samples<'a> {
    /// None yet; they go to the end of `text`.
    pub(super) fn new(text: &'a mut String, family: &'static Family) -> Self {
        Self { text, family, count: 0 }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// A sample: values of the family's labels, in their order, and its value.
    pub(super) fn push(&mut self, labels: &[&str], value: impl Into<Value>) {
        debug_assert_eq!(labels.len(), self.family.labels.len(), "{}", self.family.name);
        self.line("", labels, None, value.into());
    }

    /// All samples of a histogram: cumulative counts with their upper ends, all of them, their sum.
    pub(super) fn histogram(&mut self, classes: impl Iterator<Item = (f64, u64)>, count: u64, sum: f64) {
        for (up_to, count) in classes {
            self.line("_bucket", &[], Some(&format!("{up_to:?}")), count.into());
        }
        self.line("_bucket", &[], Some("+Inf"), count.into());
        self.line("_sum", &[], None, sum.into());
        self.line("_count", &[], None, count.into());
    }

    fn line(&mut self, suffix: &str, labels: &[&str], up_to: Option<&str>, value: Value) {
        self.count += 1;
        self.text.push_str(self.family.name);
        self.text.push_str(suffix);
        let named = self.family.labels.iter().copied().zip(labels.iter().copied()).chain(up_to.map(|le| ("le", le)));
        let mut opened = false;
        for (name, value) in named {
            self.text.push(if opened { ',' } else { '{' });
            opened = true;
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(value, self.text);
            self.text.push('"');
        }
        if opened {
            self.text.push('}');
        }
        let _ = match value {
            Value::Count(count) => writeln!(self.text, " {count}"),
            Value::Float(value) => writeln!(self.text, " {value:?}"),
        };
    }
}

/// A value of a label, or a help, between quotes.
pub(super) fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            letter => out.push(letter),
        }
    }
}
