//! Why something that an agent asks for cannot be.

use std::fmt::Write;

/// What is wrong with a value, whoever gave it: text and messages are refused in the same words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// OpenFlow's or Open vSwitch's name of the error (`OFPBAC_BAD_ARGUMENT`, ...).
    pub code: &'static str,
    /// The field or keyword it is about; may be empty.
    pub field: &'static str,
    /// What is wrong.
    pub reason: String,
    /// What would be right; may be empty.
    pub hint: String,
}

impl Refusal {
    /// Without a field and a hint.
    pub(crate) fn new(code: &'static str, reason: impl Into<String>) -> Self {
        Self { code, field: "", reason: reason.into(), hint: String::new() }
    }

    /// With the field or keyword it is about.
    #[must_use]
    pub(crate) const fn field(mut self, field: &'static str) -> Self {
        self.field = field;
        self
    }

    /// With a hint.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Said of one of several: `bucket 3: ...`.
    #[must_use]
    pub fn of(mut self, what: impl std::fmt::Display) -> Self {
        let reason = std::mem::take(&mut self.reason);
        // Writing to a string cannot fail.
        let _ = write!(self.reason, "{what}: {reason}");
        self
    }
}
