//! What is wrong with a configuration, all of it, in the order of the file.

use super::place::Position;
use std::fmt;
use std::path::{Path, PathBuf};

/// Problems that a report holds; more are counted. Enough for every honest mistake; a hostile file
/// of 4 MiB could have millions.
pub const PROBLEMS_MAX: usize = 1000;

/// Whether the switch starts nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It does not.
    Error,
    /// It does.
    Warning,
}

/// One thing wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where; none: about the file as a whole, or about something it does not mention.
    pub position: Option<Position>,
    /// Whether the switch starts nevertheless.
    pub severity: Severity,
    /// The key or section, as the file spells it; may be empty.
    pub field: String,
    /// What is wrong, naming the value.
    pub problem: String,
    /// How to fix it.
    pub hint: String,
}

impl Problem {
    /// An error.
    #[must_use]
    pub fn error(
        position: Option<Position>,
        field: impl Into<String>,
        problem: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let (field, problem, hint) = (field.into(), problem.into(), hint.into());
        Self { position, severity: Severity::Error, field, problem, hint }
    }

    /// The same as a warning.
    #[must_use]
    pub fn warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }
}

impl fmt::Display for Problem {
    /// `[warning: ][field: ]problem; hint`, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}; {}", self.problem, self.hint)
    }
}

/// All problems of one configuration file. Displays as one line each, `file:line:column: key:
/// problem; hint`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    file: PathBuf,
    problems: Vec<Problem>,
    errors: usize,
    omitted: usize,
}

/// A report with at least one error.
pub type ConfigErrors = Report;

impl Report {
    /// An empty report about a file.
    #[must_use]
    pub fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), problems: Vec::new(), errors: 0, omitted: 0 }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Adds a problem, unless it repeats the last one. Beyond [`PROBLEMS_MAX`] it is only counted.
    pub fn push(&mut self, problem: Problem) {
        if self.problems.last() == Some(&problem) {
            return;
        }
        self.errors += usize::from(problem.severity == Severity::Error);
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        } else {
            self.omitted += 1;
        }
    }

    /// Adds problems.
    pub fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        problems.into_iter().for_each(|problem| self.push(problem));
    }

    /// Sorts by position; what has none comes last.
    pub(super) fn sort(&mut self) {
        self.problems.sort_by_key(|problem| (problem.position.is_none(), problem.position));
    }

    /// Whether the switch must not start.
    #[must_use]
    pub const fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// The problems, sorted by position.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Problems beyond [`PROBLEMS_MAX`].
    #[must_use]
    pub const fn omitted(&self) -> usize {
        self.omitted
    }
}

impl Report {
    /// Its lines, `file:line:column: [warning: ]key: problem; hint`.
    pub fn lines(&self) -> impl Iterator<Item = (Severity, String)> {
        let file = self.file.display();
        let lines = self.problems.iter().map(move |problem| {
            let line = match problem.position {
                Some(position) => format!("{file}:{position}: {problem}"),
                None => format!("{file}: {problem}"),
            };
            (problem.severity, line)
        });
        let omitted = (self.omitted > 0).then(|| {
            let line = format!("{}: and {} more problems; fix these first", self.file.display(), self.omitted);
            (Severity::Error, line)
        });
        lines.chain(omitted)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (_, line)) in self.lines().enumerate() {
            let line_end = if i == 0 { "" } else { "\n" };
            write!(f, "{line_end}{line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Report {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_bounded_but_counts_all() {
        let mut report = Report::new(Path::new("f"));
        for i in 0..PROBLEMS_MAX + 2 {
            let problem = Problem::error(Some(Position { line: i + 1, column: 1 }), "key", "bad", "fix");
            report.push(if i == 0 { problem.warning() } else { problem });
        }
        let text = report.to_string();
        assert_eq!(text.lines().count(), PROBLEMS_MAX + 1);
        assert!(text.starts_with("f:1:1: warning: key: bad; fix\nf:2:1: key: bad; fix\n"), "{text}");
        assert!(text.ends_with("f:1000:1: key: bad; fix\nf: and 2 more problems; fix these first"), "{text}");
        assert!(report.has_errors());
    }
}
