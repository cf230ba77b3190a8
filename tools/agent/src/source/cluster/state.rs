//! What the tasks of a [`super::Cluster`] have found, for the agent's thread.
//!
//! **Design**: each kind has changes that were not taken yet, by the names of their objects: a
//! later change replaces an earlier one, so that they are never more than the objects. A list
//! comes in as a whole. Beside them it is known of each kind whether it was listed, and since when
//! it cannot be followed.
//!
//! **Threads**: tasks write and the agent's thread takes, under one lock that nobody holds while
//! waiting.

use super::PLACE;
use super::table::Kind;
use super::told::Told;
use crate::problem::{Origin, Problem};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long something may fail before it is told: a server restarts in less.
const TELL_AFTER: Duration = Duration::from_secs(30);

/// How long a kind may be lost before the agent is not ready.
const LOST_AFTER: Duration = Duration::from_secs(120);

/// What is found while kinds are.
const DISCOVERY: &str = "kinds that the API server has";

/// Definitions of kinds.
pub(super) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

const NO_ANSWER: &str = "no answer yet";

const UNSERVED: &str = "it has a definition, and is not served in a version that this agent reads";

/// How something goes that the API server is asked for.
#[derive(Clone, Debug, Default)]
struct Going {
    /// Since when it fails.
    since: Option<Instant>,
    /// Why.
    reason: String,
    /// It will not get better by itself.
    is_refused: bool,
}

impl Going {
    fn since(now: Instant, reason: &str) -> Self {
        Self { since: Some(now), reason: reason.to_owned(), is_refused: false }
    }

    fn fails(&mut self, now: Instant, failure: Failure) {
        self.since = self.since.or(Some(now));
        (self.reason, self.is_refused) = (failure.reason, failure.is_refused);
    }

    fn has_failed_for(&self, time: Duration, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) >= time)
    }

    /// A line that says so, when it is time.
    fn problem(&self, what: &str, is_known: bool, now: Instant) -> Option<Problem> {
        let is_told = self.has_failed_for(TELL_AFTER, now) || self.since.is_some() && self.is_refused;
        let state = if is_known { "what was known stays" } else { "nothing is known of them" };
        let reason = format!("{what} cannot be followed: {}; {state}", self.reason);
        is_told.then(|| Origin::new(PLACE, 0, "").error("", reason))
    }
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) reason: String,
    pub(super) is_refused: bool,
}

/// Changes of objects of a kind that were not taken yet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// They are all objects that there are: no other one is left.
    pub(super) are_all: bool,
    /// By name; None: it is gone.
    pub(super) objects: HashMap<String, Option<Told>>,
}

/// What is known of a kind that is followed.
#[derive(Debug, Default)]
struct Followed {
    is_listed: bool,
    /// The server has more of it than are taken.
    is_overfull: bool,
    going: Going,
    changes: Changes,
}

#[derive(Debug)]
struct State {
    /// Which kinds there are was found out once.
    is_discovered: bool,
    discovery: Going,
    definitions: Going,
    kinds: BTreeMap<String, Followed>,
    /// Kinds of which an earlier run knew something.
    loaded: BTreeSet<String>,
    /// Kinds that are gone: what was known of them is dropped.
    gone: Vec<String>,
}

/// What tasks have found.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// A CNI server gives Pods their ports.
    pub(super) gives_ports: bool,
    /// Something is to be taken.
    pub(super) changed: Notify,
}

impl Shared {
    pub(super) fn new(gives_ports: bool) -> Self {
        let state = State {
            is_discovered: false,
            discovery: Going::since(Instant::now(), NO_ANSWER),
            definitions: Going::default(),
            kinds: BTreeMap::new(),
            loaded: BTreeSet::new(),
            gone: Vec::new(),
        };
        Self { state: Mutex::new(state), gives_ports, changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something changed for the agent.
    fn changed(&self) {
        self.changed.notify_one();
    }

    /// Which kinds there are was asked: the names of those that are followed from now on, and of
    /// those that have a definition and are not served. `is_all`: there are no others.
    pub(super) fn discovered<'a>(
        &self,
        followed: impl Iterator<Item = &'a String>,
        unserved: impl Iterator<Item = &'a String>,
        is_all: bool,
    ) {
        let mut state = self.lock();
        state.is_discovered |= is_all;
        state.discovery = Going::default();
        let new = |reason: &str| Followed { going: Going::since(Instant::now(), reason), ..Followed::default() };
        for name in followed {
            state.kinds.entry(name.clone()).or_insert_with(|| new(NO_ANSWER));
        }
        for name in unserved {
            state.kinds.entry(name.clone()).or_insert_with(|| new(UNSERVED));
        }
        drop(state);
        self.changed();
    }

    pub(super) fn discovery_fails(&self, failure: Failure) {
        self.lock().discovery.fails(Instant::now(), failure);
    }

    pub(super) fn definitions_fail(&self, failure: Failure) {
        self.lock().definitions.fails(Instant::now(), failure);
    }

    pub(super) fn definitions_go(&self) {
        self.lock().definitions = Going::default();
    }

    /// An earlier run knew objects of a kind.
    pub(super) fn loaded(&self, name: String) {
        self.lock().loaded.insert(name);
    }

    /// Whether objects of a kind may be known.
    pub(super) fn may_know(&self, name: &str) -> bool {
        let state = self.lock();
        state.kinds.contains_key(name) || state.loaded.contains(name)
    }

    /// A kind is gone, and its objects with it.
    pub(super) fn gone(&self, name: String) {
        let mut state = self.lock();
        state.kinds.remove(&name);
        state.loaded.remove(&name);
        state.gone.push(name);
        drop(state);
        self.changed();
    }

    fn of(&self, kind: &Kind, change: impl FnOnce(&mut Followed)) {
        if let Some(followed) = self.lock().kinds.get_mut(&kind.name()) {
            change(followed);
        }
    }

    /// A kind was listed: `objects` are what is new or gone since the last list, or all if
    /// `are_all`.
    pub(super) fn listed(&self, kind: &Kind, objects: HashMap<String, Option<Told>>, are_all: bool) {
        self.of(kind, |followed| {
            if are_all {
                followed.changes = Changes { are_all, objects };
            } else {
                followed.changes.objects.extend(objects);
            }
            (followed.is_listed, followed.is_overfull) = (true, false);
        });
        self.changed();
    }

    /// An object is there, has changed, or is gone.
    pub(super) fn changes(&self, kind: &Kind, name: String, told: Option<Told>) {
        self.of(kind, |followed| _ = followed.changes.objects.insert(name, told));
        self.changed();
    }

    /// A kind has more objects than are taken.
    pub(super) fn overfull(&self, kind: &Kind, failure: Failure) {
        self.of(kind, |followed| {
            followed.is_overfull = true;
            followed.going.fails(Instant::now(), failure);
        });
        self.changed();
    }

    /// A kind cannot be followed.
    pub(super) fn fails(&self, kind: &Kind, failure: Failure) {
        self.of(kind, |followed| followed.going.fails(Instant::now(), failure));
    }

    /// A kind is followed: changes of it come in.
    pub(super) fn goes(&self, kind: &Kind) {
        self.of(kind, |followed| {
            if followed.is_listed && !followed.is_overfull {
                followed.going = Going::default();
            }
        });
    }

    /// Takes all changes, by kind, and which kinds are gone.
    pub(super) fn take(&self) -> (Vec<(String, Changes)>, Vec<String>) {
        let mut state = self.lock();
        let has_changes = |followed: &Followed| followed.changes.are_all || !followed.changes.objects.is_empty();
        let changed = state.kinds.iter_mut().filter(|(_, followed)| has_changes(followed));
        let changes = changed.map(|(name, followed)| (name.clone(), std::mem::take(&mut followed.changes))).collect();
        (changes, std::mem::take(&mut state.gone))
    }

    /// Whether each kind was listed once, and all of each kind is taken.
    pub(super) fn knows_all(&self) -> bool {
        let state = self.lock();
        state.is_discovered && state.kinds.values().all(|followed| followed.is_listed && !followed.is_overfull)
    }

    /// What cannot be followed, and for how long it could not be.
    pub(super) fn problems(&self, now: Instant) -> Vec<Problem> {
        let state = self.lock();
        let kinds = state.kinds.iter();
        let kinds = kinds.filter_map(|(name, of)| of.going.problem(name, of.is_listed, now));
        let discovery = state.discovery.problem(DISCOVERY, state.is_discovered, now);
        let definitions = state.definitions.problem(DEFINITIONS, true, now);
        discovery.into_iter().chain(definitions).chain(kinds).collect()
    }

    /// Kinds that cannot be followed for long.
    pub(super) fn lost(&self, now: Instant) -> Vec<String> {
        let state = self.lock();
        let kinds = state.kinds.iter().filter(|(_, of)| of.going.has_failed_for(LOST_AFTER, now));
        let kinds: Vec<String> = kinds.map(|(name, _)| name.clone()).collect();
        let discovery = state.discovery.has_failed_for(LOST_AFTER, now).then(|| DISCOVERY.to_owned());
        kinds.into_iter().chain(discovery).collect()
    }
}
