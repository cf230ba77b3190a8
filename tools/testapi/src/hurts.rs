//! What is wrong with the answers of a server: state that [`crate::Hurt`] sets and requests read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;

use crate::error::ApiError;
use crate::store::Name;

/// How watches are cut.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cut {
    /// The stream ends as at a timeout.
    Clean,
    /// The connection ends within a line.
    MidLine,
    /// An ERROR event says that the version is too old; then the stream ends.
    Expired,
}

/// An answer instead of the right one.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// For how many requests.
    pub times: u64,
    /// HTTP status: 429, 500, 503 or another.
    pub code: u16,
    /// Header `Retry-After`.
    pub retry_after: Option<u64>,
    /// Only for this verb; empty for all.
    pub verb: String,
    /// Only for this resource (`plural.group`); empty for all.
    pub resource: String,
}

/// Lists wait at it until it is opened.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    open: Arc<watch::Sender<bool>>,
    waiting: Arc<watch::Sender<usize>>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { open: Arc::new(watch::Sender::new(false)), waiting: Arc::new(watch::Sender::new(0)) }
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    /// How many came to it.
    pub(crate) fn waiting(&self) -> usize {
        *self.waiting.borrow()
    }

    pub(crate) fn arrive(&self) {
        self.waiting.send_modify(|count| *count += 1);
    }

    pub(crate) async fn pass(&self) {
        let mut open = self.open.subscribe();
        // An error means that the gate is gone: nothing to wait for.
        let _ = open.wait_for(|open| *open).await;
    }
}

#[derive(Debug, Default)]
pub(crate) struct Hurts {
    pub(crate) answers: Vec<Answer>,
    pub(crate) expired_watches: u64,
    pub(crate) expired_by_http: bool,
    pub(crate) hidden: BTreeSet<String>,
    pub(crate) refused: BTreeSet<(String, String)>,
    pub(crate) held: BTreeSet<(String, String, String)>,
    pub(crate) gates: BTreeMap<String, Gate>,
    pub(crate) paused: bool,
}

impl Hurts {
    pub(crate) fn is_held(&self, resource: &str, name: &Name) -> bool {
        !self.held.is_empty() && self.held.contains(&(resource.to_owned(), name.0.clone(), name.1.clone()))
    }

    pub(crate) fn is_refused(&self, verb: &str, resource: &str) -> bool {
        self.refused.contains(&(verb.to_owned(), resource.to_owned()))
    }

    pub(crate) fn gate(&self, resource: &str) -> Option<Gate> {
        self.gates.get(resource).or_else(|| self.gates.get("")).cloned()
    }

    /// The answer that this request gets instead of the right one.
    pub(crate) fn answer(&mut self, verb: &str, resource: &str) -> Option<ApiError> {
        let fits = |asked: &str, has: &str| asked.is_empty() || asked == has;
        let chosen = |one: &Answer| fits(&one.verb, verb) && fits(&one.resource, resource);
        let i = self.answers.iter().position(chosen)?;
        let answer = self.answers[i].clone();
        self.answers[i].times = answer.times.saturating_sub(1);
        self.answers.retain(|one| one.times > 0);
        let (reason, message) = match answer.code {
            429 => ("TooManyRequests", "Too many requests, please try again later."),
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
            403 => ("Forbidden", "forbidden"),
            410 => ("Expired", "too old resource version"),
            _ => ("InternalError", "Internal error occurred: the test wants it so"),
        };
        let error = ApiError::new(answer.code, reason, message);
        Some(ApiError { retry_after: answer.retry_after, ..error })
    }

    /// This watch is answered with 410; true: by the HTTP status.
    pub(crate) fn expire_watch(&mut self) -> Option<bool> {
        self.expired_watches = self.expired_watches.checked_sub(1)?;
        Some(self.expired_by_http)
    }
}
