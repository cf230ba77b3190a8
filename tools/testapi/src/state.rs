//! What the server holds, behind one lock, and the signals that tasks wait for.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::error::ApiError;
use crate::hurts::{Cut, Hurts};
use crate::kinds::Kinds;
use crate::log::Entry;
use crate::meta::Random;
use crate::options::Options;
use crate::store::{Bucket, Name, Store};
use crate::target::Target;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) kinds: Kinds,
    pub(crate) hurts: Hurts,
    /// What each field manager applied last: object, then manager and subresource.
    pub(crate) applied: BTreeMap<(Bucket, Name), BTreeMap<(String, String), Value>>,
    pub(crate) random: Random,
    pub(crate) options: Options,
}

impl State {
    pub(crate) fn new(options: Options) -> Self {
        let mut state = Self {
            store: Store::new(options.history),
            kinds: Kinds::default(),
            hurts: Hurts::default(),
            applied: BTreeMap::new(),
            random: Random::default(),
            options,
        };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            // A Namespace with a fixed name is always accepted by an empty store.
            let _ = state.apply(namespace);
        }
        state
    }

    pub(crate) fn object_target(&self, object: &Value) -> Result<Target, ApiError> {
        let field = |name: &str| object[name].as_str().unwrap_or_default();
        let (api_version, kind) = (field("apiVersion"), field("kind"));
        let (kind, version) = self.kinds.of_object(api_version, kind).ok_or_else(|| {
            ApiError::new(404, "NotFound", format!("no matches for kind \"{kind}\" in version \"{api_version}\""))
        })?;
        let meta = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let mut namespace = if kind.namespaced { meta("namespace") } else { String::new() };
        if kind.namespaced && namespace.is_empty() {
            namespace = "default".to_owned();
        }
        let subresource = String::new();
        Ok(Target { kind: kind.clone(), version, namespace, name: meta("name"), subresource })
    }
}

/// State, and what wakes tasks.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The store's version.
    pub(crate) revision: watch::Sender<u64>,
    pub(crate) cut: watch::Sender<(u64, Cut)>,
    pub(crate) bookmark: watch::Sender<u64>,
    /// Raised: all connections end.
    pub(crate) connections: watch::Sender<u64>,
    pub(crate) away: watch::Sender<bool>,
    pub(crate) listening: Mutex<bool>,
    pub(crate) listening_changed: Condvar,
    /// Open connections, by the count of `connections` at their beginning.
    pub(crate) open: Mutex<BTreeMap<u64, usize>>,
    pub(crate) open_changed: Condvar,
    pub(crate) log: Mutex<Vec<Entry>>,
    /// Watches that are open: number, resource.
    pub(crate) watches: Mutex<BTreeMap<u64, String>>,
    pub(crate) watches_begun: AtomicU64,
    /// Raised with the log, the watches and the lists at a gate.
    pub(crate) news: watch::Sender<u64>,
    pub(crate) waiting: Mutex<()>,
    pub(crate) waiting_changed: Condvar,
}

impl Shared {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            state: Mutex::new(State::new(options)),
            revision: watch::Sender::new(0),
            cut: watch::Sender::new((0, Cut::Clean)),
            bookmark: watch::Sender::new(0),
            connections: watch::Sender::new(0),
            away: watch::Sender::new(false),
            listening: Mutex::new(false),
            listening_changed: Condvar::new(),
            open: Mutex::new(BTreeMap::new()),
            open_changed: Condvar::new(),
            log: Mutex::new(Vec::new()),
            watches: Mutex::new(BTreeMap::new()),
            watches_begun: AtomicU64::new(0),
            news: watch::Sender::new(0),
            waiting: Mutex::new(()),
            waiting_changed: Condvar::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Runs a change, then wakes the watches.
    pub(crate) fn change<T>(&self, run: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = run(&mut state);
        let revision = state.store.revision();
        drop(state);
        self.revision.send_modify(|seen| *seen = revision.max(*seen));
        result
    }

    pub(crate) fn tell_news(&self) {
        self.news.send_modify(|count| *count += 1);
        let _held = self.waiting.lock();
        self.waiting_changed.notify_all();
    }
}
