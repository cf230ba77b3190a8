//! Objects of one kind, as a watch of the API server tells them.
//!
//! **Where**: below `traceflow` and `packetcapture`, which look at all objects of a kind.
//!
//! **Design**: a list is taken over when it is whole. Until then the objects of before hold.
//!
//! **Limits**: [`KNOWN_MAX`] objects. What is beyond is not served before others are deleted.
//!
//! **Threads**: the task that watches.

use futures_util::{Stream, StreamExt};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use std::collections::BTreeMap;
use vswitch_net_types::shown;

/// Objects of a kind that an agent knows.
const KNOWN_MAX: usize = 1000;

/// Objects of one kind.
pub(crate) struct Watched<T> {
    /// The kind, as messages name it.
    kind: &'static str,
    read: fn(&DynamicObject) -> T,
    /// By name.
    pub(crate) objects: BTreeMap<String, T>,
    /// Of a list that has not ended yet.
    listed: BTreeMap<String, T>,
    /// All objects are known.
    pub(crate) is_listed: bool,
    /// What failed last, and was told.
    told: String,
}

impl<T> Watched<T> {
    /// None is known yet. `kind`: as messages name it.
    pub(crate) const fn new(kind: &'static str, read: fn(&DynamicObject) -> T) -> Self {
        let told = String::new();
        Self { kind, read, objects: BTreeMap::new(), listed: BTreeMap::new(), is_listed: false, told }
    }

    /// Takes what the watch tells.
    pub(crate) fn take(&mut self, event: watcher::Result<Event<DynamicObject>>) {
        match event {
            Ok(Event::Init) => self.listed.clear(),
            Ok(Event::InitApply(object)) => add(&mut self.listed, &object, self.read),
            Ok(Event::InitDone) => {
                self.objects = std::mem::take(&mut self.listed);
                self.is_listed = true;
            }
            Ok(Event::Apply(object)) => add(&mut self.objects, &object, self.read),
            Ok(Event::Delete(object)) => drop(self.objects.remove(&object.name_any())),
            Err(error) => self.tell(format!("{}s cannot be followed: {error}", self.kind)),
        }
    }

    /// Tells once what the server refuses. The kind may not be served, and a server that is away is
    /// told of by `source`: those are for who looks closer.
    pub(crate) fn tell(&mut self, failure: String) {
        if failure.contains("Forbidden") || failure.contains("forbidden") {
            if self.told != failure {
                tracing::warn!("{}", shown(&failure));
                self.told = failure;
            }
        } else {
            tracing::debug!("{}", shown(&failure));
        }
    }
}

/// What a watch of all objects tells, tried again for good.
pub(crate) fn follow(
    api: Api<DynamicObject>,
) -> impl Stream<Item = watcher::Result<Event<DynamicObject>>> + Send + Unpin {
    let config = watcher::Config::default().page_size(500);
    watch_objects(api, config).default_backoff().boxed()
}

fn add<T>(objects: &mut BTreeMap<String, T>, object: &DynamicObject, read: fn(&DynamicObject) -> T) {
    let name = object.name_any();
    if objects.len() < KNOWN_MAX || objects.contains_key(&name) {
        objects.insert(name, read(object));
    }
}
