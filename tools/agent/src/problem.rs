//! What is wrong, and where: one line each, from parser, resolver and switch alike.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;
use vswitch_net_types::shown;

/// The file of what no file says.
pub const NOWHERE: &str = "-";

/// Lines of a document's fields by their paths. What is no more than that makes no document another
/// one: all compare equal.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Fields(Arc<BTreeMap<String, usize>>);

impl Fields {
    /// Of these paths.
    pub fn new(lines: BTreeMap<String, usize>) -> Self {
        Self(Arc::new(lines))
    }

    /// The line of a field, or of what it is in.
    fn line(&self, path: &str) -> Option<usize> {
        let mut path = path;
        loop {
            if let Some(line) = self.0.get(path) {
                return Some(*line);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Fields {}

impl PartialOrd for Fields {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fields {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// The document that something comes from.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Origin {
    /// File, as it was found.
    pub file: Arc<str>,
    /// Line at which it begins, from 1.
    pub line: usize,
    /// `Kind namespace/name`; empty until that is known.
    pub what: Arc<str>,
    /// Lines of its fields, as far as they are kept.
    pub fields: Fields,
}

impl Origin {
    /// A place of a file of which no more is known.
    pub fn new(file: &str, line: usize, what: &str) -> Self {
        Self { file: file.into(), line, what: what.into(), fields: Fields::default() }
    }

    /// With the lines of its fields.
    #[must_use]
    pub fn with_fields(self, fields: Fields) -> Self {
        Self { fields, ..self }
    }

    /// An error of the document.
    pub fn error(&self, field: impl Into<String>, reason: impl Into<String>) -> Problem {
        let field = field.into();
        let line = self.fields.line(&field).unwrap_or(self.line);
        Problem {
            origin: Self { line, ..self.clone() },
            field,
            reason: reason.into(),
            hint: String::new(),
            severity: Severity::Error,
            code: String::new(),
        }
    }

    /// Something that is not known or not served, and was left out.
    pub fn tolerated(&self, field: impl Into<String>, reason: impl Into<String>) -> Problem {
        Problem { severity: Severity::Tolerated, ..self.error(field, reason) }
    }

    /// Something odd that was accepted.
    pub fn warning(&self, field: impl Into<String>, reason: impl Into<String>) -> Problem {
        Problem { severity: Severity::Warning, ..self.error(field, reason) }
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Severity {
    /// The document, or its file, is not in force as it is written.
    Error,
    /// A part of it is not known or not served, and left out without harm. With `--strict` an
    /// error.
    Tolerated,
    /// It is in force, but perhaps not as it was meant.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// Which document.
    pub origin: Origin,
    /// Path of the field; empty: the whole.
    pub field: String,
    /// What is wrong.
    pub reason: String,
    /// How to make it right; may be empty.
    pub hint: String,
    /// How bad it is.
    pub severity: Severity,
    /// One word for it, such as OVERLAP; empty: the document is not understood.
    #[serde(default)]
    pub code: String,
}

/// The code of what is not understood.
const INVALID: &str = "INVALID";

impl Problem {
    /// One word for it, in capitals.
    pub fn code(&self) -> &str {
        if self.code.is_empty() { INVALID } else { &self.code }
    }

    /// With a code, as the switch gives one.
    #[must_use]
    pub fn coded(self, code: impl Into<String>) -> Self {
        Self { code: code.into(), ..self }
    }

    /// With a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// At another line of the same file.
    #[must_use]
    pub fn at_line(mut self, line: usize) -> Self {
        if line > 0 {
            self.origin.line = line;
        }
        self
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The same as who wants to be told of everything sees it (`--strict`): what is left out is an
    /// error.
    #[must_use]
    pub fn strictly(self) -> Self {
        match self.severity {
            Severity::Tolerated => Self { severity: Severity::Error, ..self },
            _ => self,
        }
    }
}

/// `FILE:LINE Kind namespace/name: field: reason; hint`, on one line whatever the texts hold. What
/// no file says begins with its kind.
impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { file, line, what, .. } = &self.origin;
        let place = match (&**file, line) {
            (NOWHERE, _) => String::new(),
            (file, 0) => file.to_owned(),
            (file, line) => format!("{file}:{line}"),
        };
        let place = [place.as_str(), what].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        let parts = [place.as_str(), &self.field, &self.reason].into_iter().filter(|part| !part.is_empty());
        let mut text = parts.collect::<Vec<_>>().join(": ");
        if !self.hint.is_empty() {
            text = format!("{text}; {}", self.hint);
        }
        f.write_str(&shown(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line() {
        let origin = Origin::new("a.yaml", 3, "Pod default/web");
        let problem = origin.error("spec.x", "unknown\nfield").hint("leave it out");
        assert_eq!(problem.to_string(), "a.yaml:3 Pod default/web: spec.x: unknown\\nfield; leave it out");
        let fields = Fields::new([("spec".to_owned(), 4), ("spec.a[0]".to_owned(), 6)].into());
        let origin = origin.with_fields(fields);
        let line = |field: &str| origin.error(field, "").origin.line;
        assert_eq!([line("spec.a[0].b.c"), line("spec.a[1]"), line("spec"), line("kind"), line("")], [6, 4, 4, 3, 3]);
        assert_eq!(Origin::new("a.yaml", 1, "").error("", "no YAML").to_string(), "a.yaml:1: no YAML");
        let nowhere = |file, what| Origin::new(file, 0, what).error("", "has no port").to_string();
        assert_eq!(nowhere(NOWHERE, "Pod default/web"), "Pod default/web: has no port");
        assert_eq!(nowhere("/etc/node", "Pod default/web"), "/etc/node Pod default/web: has no port");
        assert_eq!(nowhere(NOWHERE, ""), "has no port");
    }
}
