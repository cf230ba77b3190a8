//! The API server of a cluster as a source of documents.
//!
//! **Design**: a task finds out which kinds the server has ([`discover`]). One task for each kind
//! lists and watches it ([`follow`]). It turns objects to documents at once ([`told`]) and leaves
//! them in a state ([`state`]), which wakes the agent. [`Cluster::scan`] takes what is new on the
//! agent's thread, and keeps of an object that is wrong what it said when it was right.
//!
//! A source never takes a loss for the end of its objects. What was known stays
//! - while a kind cannot be listed or watched, however long;
//! - while a list has not ended: it counts as a whole;
//! - when the server answers that it has no such kind, unless its definition is gone, too.
//!
//! Until each kind was listed once the source is blind, whatever an earlier run has saved.
//!
//! **Threads**: tasks run on the runtime, and end with the [`Cluster`].
//!
//! **Limits**: objects of a kind ([`table`]), bytes of an object ([`WEIGHT_MAX`]) and of an answer
//! ([`wire`]). Beyond them nothing is dropped silently: the kind, or the object, is told by name.

mod connect;
mod discover;
mod follow;
mod object;
mod refs;
mod saved;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod told;
mod wire;

use super::keep::{keep, split};
use super::{Source, Store};
use crate::attach::pod_of;
use crate::kinds::{Document, DocumentKey};
use crate::problem::{Origin, Problem};
use kube::Client;
use refs::Refs;
use saved::shard;
use state::Shared;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use table::{Kind, kinds};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use told::Told;

pub use connect::connect;
pub use refs::{Condition, ObjectRef, ObjectStatus, Standing};
pub(crate) use wire::{Backoff, about};

/// The file of documents that come from the API server.
pub const PLACE: &str = "cluster";

/// How long to wait after a change for more: changes come in bursts.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Bytes that an object may take. The server stores 1.5 MiB of it at most (etcd's
/// `--max-request-bytes`), which may be some times as much as a tree.
const WEIGHT_MAX: usize = 8 << 20;

/// What others than the agent ask of a [`Cluster`].
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
    refs: Arc<Mutex<Refs>>,
}

impl Handle {
    /// Whether each kind was listed once.
    pub fn knows_all(&self) -> bool {
        self.shared.knows_all()
    }

    /// Kinds that cannot be followed for more than two minutes.
    pub fn lost(&self) -> Vec<String> {
        self.shared.lost(Instant::now())
    }

    /// The object that a document is of, by its origin.
    pub fn object(&self, origin: &Origin) -> Option<ObjectRef> {
        let group = origin.file.strip_prefix(PLACE)?;
        let group = group.strip_prefix('/').unwrap_or(group);
        locked(&self.refs).get(pod_of(&origin.what), group)
    }

    /// Objects of kinds whose status agents write, and a number that changes with them. None: they
    /// are those that had this number.
    pub fn standings(&self, before: Option<u64>) -> Option<(u64, Vec<Standing>)> {
        let refs = locked(&self.refs);
        let changes = refs.changes();
        (before != Some(changes)).then(|| (changes, refs.standings()))
    }
}

fn locked(refs: &Mutex<Refs>) -> MutexGuard<'_, Refs> {
    refs.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of an object.
#[derive(Debug)]
struct Kept {
    uid: String,
    /// What it says; if it is wrong now, what it said when it was right.
    documents: Vec<Document>,
    problems: Vec<Problem>,
}

/// The API server of a cluster.
#[derive(Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    /// Objects by the names of their kinds and their own.
    objects: BTreeMap<String, HashMap<String, Kept>>,
    refs: Arc<Mutex<Refs>>,
    /// Parts of kinds that are not saved as they are.
    unsaved: BTreeSet<(String, usize)>,
    /// When they were saved last.
    saved: Option<Instant>,
    /// All was known, and saved.
    has_saved_all: bool,
    /// What cannot be followed.
    problems: Vec<Problem>,
    was_blind: bool,
    /// They end with it.
    _tasks: JoinSet<()>,
}

impl Cluster {
    /// Follows what the server of `client` has, and notifies `wake` when there is news. It is
    /// called in a runtime of tokio. `gives_ports`: a CNI server gives Pods their ports, and
    /// annotations do not.
    pub fn follow(client: Client, gives_ports: bool, wake: Arc<Notify>) -> Self {
        let shared = Arc::new(Shared::new(gives_ports));
        let mut tasks = JoinSet::new();
        tasks.spawn(discover::discover(client, Arc::clone(&shared)));
        tasks.spawn(debounce(Arc::clone(&shared), wake));
        Self::of(shared, tasks)
    }

    fn of(shared: Arc<Shared>, tasks: JoinSet<()>) -> Self {
        Self {
            shared,
            objects: BTreeMap::new(),
            refs: Arc::default(),
            unsaved: BTreeSet::new(),
            saved: None,
            has_saved_all: false,
            problems: Vec::new(),
            was_blind: true,
            _tasks: tasks,
        }
    }

    /// What others ask of it.
    pub fn handle(&self) -> Handle {
        Handle { shared: Arc::clone(&self.shared), refs: Arc::clone(&self.refs) }
    }

    /// Takes over what was found of a kind; whether that changes anything.
    fn take(&mut self, kind: &'static Kind, changes: state::Changes) -> bool {
        let name = kind.name();
        let mut changed = false;
        if changes.are_all {
            let before = self.objects.entry(name.clone()).or_default();
            let gone = before.keys().filter(|object| !changes.objects.contains_key(*object));
            let gone: Vec<String> = gone.cloned().collect();
            for object in gone {
                changed |= self.drop_object(kind, &name, &object);
            }
        }
        for (object, told) in changes.objects {
            changed |= match told {
                Some(told) => self.put(kind, &name, object, told),
                None => self.drop_object(kind, &name, &object),
            };
        }
        changed
    }

    fn put(&mut self, kind: &Kind, name: &str, object: String, told: Told) -> bool {
        let Told { uid, version, said, mut documents, problems } = told;
        let objects = self.objects.entry(name.to_owned()).or_default();
        let before = objects.get(&object);
        // Another object of the name is not what has become of this one.
        let same = before.filter(|before| before.uid == uid);
        let (old, mut parts) = split(same.map(|before| &before.documents[..]).unwrap_or_default());
        keep(&mut documents, |key| old.get(key), &mut parts);
        locked(&self.refs).put(kind, &object, version, (&uid, said));
        let is_same = |before: &Kept| before.documents == documents && before.problems == problems;
        if same.is_some_and(is_same) {
            return false;
        }
        self.unsaved.insert((name.to_owned(), shard(&object, kind.shards)));
        objects.insert(object, Kept { uid, documents, problems });
        true
    }

    fn drop_object(&mut self, kind: &Kind, name: &str, object: &str) -> bool {
        locked(&self.refs).remove(kind, object);
        let is_gone = self.objects.get_mut(name).is_some_and(|objects| objects.remove(object).is_some());
        if is_gone {
            self.unsaved.insert((name.to_owned(), shard(object, kind.shards)));
        }
        is_gone
    }
}

/// Wakes the agent some time after something has changed.
async fn debounce(shared: Arc<Shared>, wake: Arc<Notify>) {
    loop {
        shared.changed.notified().await;
        tokio::time::sleep(DEBOUNCE).await;
        wake.notify_one();
    }
}

impl Source for Cluster {
    fn scan(&mut self) -> bool {
        // (Once it knows all, what it takes here is all of that.)
        let is_blind = !self.shared.knows_all();
        let (changes, gone) = self.shared.take();
        let mut changed = std::mem::replace(&mut self.was_blind, is_blind) != is_blind;
        for name in gone {
            let objects = self.objects.remove(&name).unwrap_or_default();
            changed |= !objects.is_empty();
            let Some(kind) = kinds().find(|kind| kind.name() == name) else { continue };
            let mut refs = locked(&self.refs);
            objects.keys().for_each(|object| refs.remove(kind, object));
        }
        for (name, changes) in changes {
            if let Some(kind) = kinds().find(|kind| kind.name() == name) {
                changed |= self.take(kind, changes);
            }
        }
        let problems = self.shared.problems(Instant::now());
        changed |= problems != self.problems;
        self.problems = problems;
        changed
    }

    fn documents_after(&self, _: &dyn Fn(&DocumentKey) -> bool) -> Vec<Document> {
        self.objects.values().flat_map(HashMap::values).flat_map(|kept| &kept.documents).cloned().collect()
    }

    fn problems(&self) -> Vec<Problem> {
        let objects = self.objects.values().flat_map(HashMap::values).flat_map(|kept| &kept.problems);
        self.problems.iter().chain(objects).cloned().collect()
    }

    /// Until what was listed is taken over, too.
    fn is_blind(&self) -> bool {
        self.was_blind
    }

    fn may_hold_more(&self) -> bool {
        self.was_blind
    }

    fn unsettled(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn is_forgetting(&self) -> bool {
        false
    }

    fn saved_as(&self) -> Option<&'static str> {
        Some(PLACE)
    }

    fn load(&mut self, store: &mut Store, _: &str) {
        self.load_from(store);
    }

    fn store(&mut self, store: &mut Store, names: &mut BTreeSet<String>) -> bool {
        self.store_to(store, names)
    }
}
