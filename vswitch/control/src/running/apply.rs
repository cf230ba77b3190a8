//! Putting a text in force, for good or until it is confirmed.

use super::plan::{Plan, plan};
use super::step::Action;
use super::{Running, Started};
use crate::access::Asker;
use crate::config::saved::{kinds_of, mark_of, names_of, overlay};
use crate::config::{ConfigFile, Severity, SwitchConfig};
use crate::info::SwitchError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use vswitch_dataplane::limits::CONFIG_LEN_MAX;
use vswitch_dataplane::port::{FieldError, PortKind};

/// The longest time that an apply may wait for its confirmation.
pub const CONFIRM_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Where a text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A client of the API.
    Client {
        /// Who it is, for people.
        who: String,
    },
    /// The file of the start, at SIGHUP.
    File,
}

/// How a text is applied.
#[derive(Clone, Debug)]
pub struct How {
    /// Name of the text in messages.
    pub name: PathBuf,
    /// Who asks.
    pub source: Source,
    /// Only say what would change.
    pub dry_run: bool,
    /// Take it back if it is not confirmed in this time.
    pub confirm: Option<Duration>,
}

/// What applying a text came to, or would come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The changes, in words and in their order.
    pub changes: Vec<String>,
    /// What needs a restart. Not empty only of a dry run: else it is an error.
    pub restart: Vec<String>,
    /// What belongs to an agent; likewise.
    pub refused: Vec<String>,
    /// What is odd about the text.
    pub warnings: Vec<String>,
    /// Number of the confirmation that is waited for.
    pub pending: Option<u64>,
}

/// The last apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Where the text came from.
    pub source: Source,
    /// When.
    pub at: SystemTime,
    /// What changed, in words.
    pub changes: Vec<String>,
    /// What became of it: "applied", "waits for confirmation", "confirmed", "taken back: ...".
    pub state: String,
    /// Until when it is to be confirmed, if it waits for that.
    pub confirm_by: Option<Instant>,
}

/// What is waited for.
#[derive(Debug)]
struct Pending {
    number: u64,
    /// What undoes it, the last step first.
    undo: Vec<Action>,
}

/// What is remembered between applies.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) last: Option<Applied>,
    pending: Option<Pending>,
    /// Counts applies that wait for a confirmation.
    number: u64,
    /// What the operator's file named when it was applied last, and a mark of its text.
    pub(super) file_names: BTreeSet<String>,
    /// The devices of its ports.
    pub(super) file_kinds: BTreeMap<String, PortKind>,
    pub(super) file_mark: String,
}

impl Inner {
    pub(super) fn new(started: &Started) -> Self {
        let mut inner = Self {
            last: None,
            pending: None,
            number: 0,
            file_names: BTreeSet::new(),
            file_kinds: BTreeMap::new(),
            file_mark: String::new(),
        };
        inner.file_is(&started.file_config, &started.file_text);
        inner
    }

    /// The operator's file is this now.
    fn file_is(&mut self, config: &SwitchConfig, text: &[u8]) {
        (self.file_names, self.file_kinds, self.file_mark) = (names_of(config), kinds_of(config), mark_of(text));
    }

    pub(super) const fn is_pending(&self) -> bool {
        self.pending.is_some()
    }
}

impl Running {
    /// Makes what is in force equal to a text, but for what an agent owns.
    ///
    /// # Errors
    /// When the text is wrong (all of it is told), needs a restart, or changes what an agent owns;
    /// when another apply is under way or waits for its confirmation; when a step fails: then the
    /// steps before are taken back.
    pub fn apply(&self, text: &str, how: &How) -> Result<Outcome, SwitchError> {
        let (want, warnings) = self.judge(text, &how.name)?;
        let turn = self.turn.try_lock().ok_or_else(|| SwitchError::Busy("another apply is under way".to_owned()))?;
        let outcome = self.apply_values(&want, how, warnings);
        drop(turn);
        outcome
    }

    /// Applies the file of the start again.
    ///
    /// # Errors
    /// As [`Self::apply`]; when there is no such file.
    pub fn reload(&self) -> Result<Outcome, SwitchError> {
        let Some(file) = &self.started.file else {
            return Err(SwitchError::Precondition("the switch was started without a file".to_owned()));
        };
        let read = ConfigFile::load(file, &self.started.cores).map_err(|report| report_refused(&report))?;
        let warnings = read.report().lines().map(|(_, line)| line).collect();
        let file_config = read.into_config().map_err(|report| report_refused(&report))?;
        let text = std::fs::read(file).unwrap_or_default();
        let how = How { name: file.clone(), source: Source::File, dry_run: false, confirm: None };
        let turn = self.turn.try_lock().ok_or_else(|| SwitchError::Busy("another apply is under way".to_owned()))?;
        let now = self.read(&self.owned())?.config;
        let want = overlay(&now, &file_config, &self.inner.lock().file_names);
        let outcome = self.apply_values(&want, &how, warnings)?;
        let mut inner = self.inner.lock();
        inner.file_is(&file_config, &text);
        drop((inner, turn));
        self.touch();
        Ok(outcome)
    }

    /// The values of a text, and what is odd about it.
    fn judge(&self, text: &str, name: &Path) -> Result<(SwitchConfig, Vec<String>), SwitchError> {
        if text.len() as u64 > CONFIG_LEN_MAX {
            let problem = format!("{} bytes, the limit is {CONFIG_LEN_MAX}", text.len());
            return Err(FieldError::new("text", problem, "is this really a configuration file?").into());
        }
        let read = ConfigFile::read(text, name, &self.started.cores);
        let warnings = read.report().lines().filter(|(severity, _)| *severity == Severity::Warning);
        let warnings = warnings.map(|(_, line)| line).collect();
        Ok((read.into_config().map_err(|report| report_refused(&report))?, warnings))
    }

    fn apply_values(&self, want: &SwitchConfig, how: &How, warnings: Vec<String>) -> Result<Outcome, SwitchError> {
        self.is_free(how)?;
        let owned = self.owned();
        let now = self.read(&owned)?.config;
        let asker = if how.source == Source::File { Asker::Reload } else { Asker::Client };
        let Plan { steps, restart, refused } = plan(&now, want, &owned, asker);
        let changes = steps.iter().map(|step| step.words.clone()).collect();
        let mut outcome = Outcome { changes, restart, refused, warnings, pending: None };
        if how.dry_run {
            return Ok(outcome);
        }
        if !outcome.restart.is_empty() {
            let text =
                format!("nothing is changed: these need a restart of the switch: {}", outcome.restart.join("; "));
            return Err(SwitchError::Precondition(text));
        }
        if !outcome.refused.is_empty() {
            let text = format!("nothing is changed: an agent owns: {}", outcome.refused.join("; "));
            return Err(SwitchError::Precondition(text));
        }
        let mut undo: Vec<Vec<Action>> = Vec::new();
        for step in &steps {
            match self.step().run(&step.action) {
                Ok(back) => undo.push(back),
                Err(error) => return Err(self.failed(&step.words, &error, undo)),
            }
        }
        let undo: Vec<Action> = undo.into_iter().rev().flatten().collect();
        self.remember(&mut outcome, how, undo);
        self.touch();
        Ok(outcome)
    }

    /// Nothing waits for its confirmation.
    fn is_free(&self, how: &How) -> Result<(), SwitchError> {
        let inner = self.inner.lock();
        match inner.last.as_ref().and_then(|last| last.confirm_by) {
            Some(by) if inner.is_pending() && !how.dry_run => {
                let left = by.saturating_duration_since(Instant::now()).as_secs();
                Err(SwitchError::Precondition(format!(
                    "an apply waits {left} s more for its confirmation; confirm it or take it back first \
                     (vsctl config confirm, vsctl config rollback)"
                )))
            }
            _ => Ok(()),
        }
    }

    /// A step failed: those before are taken back.
    fn failed(&self, words: &str, error: &SwitchError, undo: Vec<Vec<Action>>) -> SwitchError {
        let problems = self.take_back(undo.into_iter().rev().flatten());
        let end = match problems.is_empty() {
            true => "nothing is changed".to_owned(),
            false => format!("what was changed before could not all be taken back: {}", problems.join("; ")),
        };
        let text = format!("{words}: {error}; {end}");
        match error {
            SwitchError::Busy(_) | SwitchError::Late(_) | SwitchError::Device { .. } => SwitchError::Busy(text),
            _ => SwitchError::Precondition(text),
        }
    }

    fn take_back(&self, undo: impl IntoIterator<Item = Action>) -> Vec<String> {
        let mut problems = Vec::new();
        for action in undo {
            if let Err(error) = self.step().run(&action) {
                tracing::error!(?action, %error, "a change of the configuration could not be taken back");
                problems.push(error.to_string());
            }
        }
        problems
    }

    fn remember(&self, outcome: &mut Outcome, how: &How, undo: Vec<Action>) {
        let mut inner = self.inner.lock();
        let by = how.confirm.map(|wait| Instant::now() + wait);
        if by.is_some() {
            inner.number += 1;
            outcome.pending = Some(inner.number);
            inner.pending = Some(Pending { number: inner.number, undo });
        }
        inner.last = Some(Applied {
            source: how.source.clone(),
            at: SystemTime::now(),
            changes: outcome.changes.clone(),
            state: if by.is_some() { "waits for confirmation" } else { "applied" }.to_owned(),
            confirm_by: by,
        });
    }

    /// Keeps what waits for its confirmation.
    ///
    /// # Errors
    /// When nothing waits.
    pub fn confirm(&self) -> Result<(), SwitchError> {
        let mut inner = self.inner.lock();
        if inner.pending.take().is_none() {
            return Err(nothing_waits(&inner));
        }
        inner.end("confirmed".to_owned());
        drop(inner);
        self.touch();
        Ok(())
    }

    /// Takes back what waits for its confirmation.
    ///
    /// # Errors
    /// When nothing waits, or a part could not be taken back.
    pub fn roll_back(&self) -> Result<(), SwitchError> {
        let _turn = self.turn.lock();
        let pending = {
            let mut inner = self.inner.lock();
            let pending = inner.pending.take();
            pending.ok_or_else(|| nothing_waits(&inner))?
        };
        self.end_pending(pending, "a client asked for it")
    }

    /// The time of the apply with this number is over: it is taken back, unless it was confirmed.
    pub fn expire(&self, number: u64) {
        let _turn = self.turn.lock();
        let pending = self.inner.lock().pending.take_if(|pending| pending.number == number);
        if let Some(pending) = pending {
            tracing::warn!("the configuration was not confirmed in time: it is taken back");
            if let Err(error) = self.end_pending(pending, "it was not confirmed in time") {
                tracing::error!(%error, "the configuration");
            }
        }
    }

    fn end_pending(&self, pending: Pending, why: &str) -> Result<(), SwitchError> {
        let problems = self.take_back(pending.undo);
        let mut state = format!("taken back: {why}");
        if !problems.is_empty() {
            state += &format!("; not all of it: {}", problems.join("; "));
        }
        let mut inner = self.inner.lock();
        inner.end(state.clone());
        drop(inner);
        self.touch();
        if problems.is_empty() { Ok(()) } else { Err(SwitchError::Precondition(state)) }
    }

    /// The last apply, and what differs from the file of the start.
    ///
    /// # Errors
    /// When the switch stops. What is wrong with the file is told as a difference.
    pub fn info(&self) -> Result<(Option<Applied>, Outcome), SwitchError> {
        let last = self.inner.lock().last.clone();
        let Some(file) = &self.started.file else { return Ok((last, Outcome::default())) };
        let read = ConfigFile::load(file, &self.started.cores);
        let file_config = match read.and_then(ConfigFile::into_config) {
            Ok(config) => config,
            Err(report) => {
                let warnings = report.lines().map(|(_, line)| line).collect();
                return Ok((last, Outcome { warnings, ..Outcome::default() }));
            }
        };
        let owned = self.owned();
        let now = self.read(&owned)?.config;
        let Plan { steps, restart, refused } = plan(&now, &file_config, &owned, Asker::Reload);
        let changes = steps.into_iter().map(|step| step.words).collect();
        Ok((last, Outcome { changes, restart, refused, ..Outcome::default() }))
    }
}

impl Inner {
    fn end(&mut self, state: String) {
        if let Some(last) = &mut self.last {
            (last.state, last.confirm_by) = (state, None);
        }
    }
}

fn nothing_waits(inner: &Inner) -> SwitchError {
    let last = inner.last.as_ref().map_or("there was none", |last| &last.state);
    SwitchError::Precondition(format!("no apply waits for its confirmation; the last one: {last}"))
}

fn report_refused(report: &crate::config::Report) -> SwitchError {
    let errors = report.lines().filter(|(severity, _)| *severity == Severity::Error);
    SwitchError::Invalid(errors.map(|(_, line)| FieldError::new("text", line, "")).collect())
}
