//! Which kinds the API server has: those are followed.
//!
//! **Design**: the task asks at its start, each [`PERIOD`], and when a CustomResourceDefinition
//! changes. A kind that appears is followed from then on. A kind ends when the server neither has
//! it nor a definition of it: what it said is dropped only then. A server that answers 404 ends
//! nothing. While a kind has a definition and is not served, the agent is blind: servers begin to
//! serve a kind some time after its definition, or after their own start.

use super::follow::{Follower, failure, failure_of, is_relist};
use super::state::{Failure, Shared};
use super::table::{Kind, kinds};
use super::wire::{Backoff, Pace, Wire, about};
use futures_util::StreamExt;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// How often to ask which kinds there are.
const PERIOD: Duration = Duration::from_secs(60);

/// How soon to ask again while the server is about to serve a kind, or to stop it.
const SOON: Duration = Duration::from_millis(200);

/// How long one question may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Waits after failures.
const WAITS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(30)];

/// Refusals in turn after which the agent goes without definitions. (A server that has just started
/// refuses what it does not know yet to be allowed.)
const REFUSALS: u32 = 6;

/// Names of the definitions of kinds, if they could be listed.
#[derive(Debug, Default)]
struct Definitions {
    names: Mutex<Option<BTreeSet<String>>>,
    /// The agent may not list them: it goes without.
    are_refused: AtomicBool,
    changed: Notify,
}

impl Definitions {
    fn set(&self, names: &BTreeSet<String>) {
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Some(names.clone());
        self.changed.notify_one();
    }

    /// The agent may not list them.
    fn refuse(&self) {
        if !self.are_refused.swap(true, Ordering::Relaxed) {
            self.changed.notify_one();
        }
    }

    /// Whether it is known which there are, or that this cannot be known.
    fn are_settled(&self) -> bool {
        let are_known = self.names.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        are_known || self.are_refused.load(Ordering::Relaxed)
    }

    /// Whether a kind has one; None: that is not known.
    fn has(&self, kind: &Kind) -> Option<bool> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.as_ref().map(|names| names.contains(&kind.name()))
    }
}

/// Follows all kinds that are read, as long as they are there.
pub(super) async fn discover(client: Client, shared: Arc<Shared>) {
    let definitions = Arc::new(Definitions::default());
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_definitions(client.clone(), Arc::clone(&definitions), Arc::clone(&shared)));
    let pace = Arc::new(Pace::default());
    let asking = Wire { client: client.clone(), watched: None, pace: Arc::clone(&pace) }.into_client();
    let mut followed = BTreeMap::new();
    let mut backoff = Backoff::new(WAITS[0], WAITS[1]);
    let mut soon = Backoff::new(SOON, PERIOD);
    loop {
        // A kind with a definition that is not served yet may have objects. So definitions are
        // asked for first.
        let is_all = definitions.are_settled();
        let served = tokio::time::timeout(ANSWER_MAX, served(&asking)).await;
        let wait = match served {
            Ok(Ok(served)) => {
                backoff.reset();
                let is_unserved = |kind: &Kind| !kind.is_built_in && definitions.has(kind) == Some(true);
                let unserved: Vec<String> = kinds().filter(|kind| is_unserved(kind)).map(Kind::name).collect();
                shared.discovered(served.keys(), unserved.iter(), is_all);
                let is_settled = follow(&served, &mut followed, (&client, &shared, &definitions), &mut tasks);
                if is_settled { about(PERIOD) } else { soon.next() }
            }
            Ok(Err(error)) => {
                shared.discovery_fails(failure(&error));
                backoff.next().max(pace.left())
            }
            Err(_) => {
                let reason = format!("no answer in {} s", ANSWER_MAX.as_secs());
                shared.discovery_fails(Failure { reason, is_refused: false });
                backoff.next()
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = definitions.changed.notified() => soon.reset(),
        }
    }
}

/// A version of a kind that is followed, and the task that does.
type Followed = BTreeMap<String, (&'static str, tokio::task::AbortHandle)>;

/// Begins to follow what is served, and ends what is gone; whether nothing is about to come or go.
fn follow(
    served: &BTreeMap<String, &'static str>,
    followed: &mut Followed,
    (client, shared, definitions): (&Client, &Arc<Shared>, &Definitions),
    tasks: &mut JoinSet<()>,
) -> bool {
    let mut is_settled = true;
    for kind in kinds() {
        let name = kind.name();
        let has_definition = if kind.is_built_in { Some(true) } else { definitions.has(kind) };
        match (served.get(&name), followed.get(&name)) {
            (Some(version), Some((of, _))) if version == of => is_settled &= has_definition != Some(false),
            (Some(version), before) => {
                if let Some((_, task)) = before {
                    task.abort();
                }
                let follower = Follower::new(kind, version, Arc::clone(shared));
                let task = tasks.spawn(follower.run(client.clone()));
                followed.insert(name, (*version, task));
            }
            (None, before) if has_definition == Some(false) => {
                if let Some((_, task)) = before {
                    task.abort();
                }
                if followed.remove(&name).is_some() || shared.may_know(&name) {
                    shared.gone(name);
                }
            }
            (None, _) => is_settled &= kind.is_built_in || has_definition.is_none(),
        }
    }
    is_settled
}

/// The kinds that are served, by name, and their best versions.
async fn served(client: &Client) -> kube::Result<BTreeMap<String, &'static str>> {
    let groups = client.list_api_groups().await?;
    let mut versions: BTreeSet<(&'static str, &'static str)> = BTreeSet::new();
    for kind in kinds() {
        let group = groups.groups.iter().find(|group| group.name == kind.group);
        let has = |version: &str| {
            kind.group.is_empty() || group.is_some_and(|group| group.versions.iter().any(|of| of.version == version))
        };
        versions.extend(kind.versions.iter().filter(|version| has(version)).map(|version| (kind.group, *version)));
    }
    let mut served = BTreeMap::new();
    let mut has = BTreeSet::new();
    for (group, version) in versions {
        let resources = match group {
            "" => client.list_core_api_resources(version).await?,
            _ => client.list_api_group_resources(&format!("{group}/{version}")).await?,
        };
        let can = |verbs: &[String]| ["list", "watch"].iter().all(|verb| verbs.iter().any(|of| of == verb));
        let resources = resources.resources.into_iter().filter(|resource| can(&resource.verbs));
        has.extend(resources.map(|resource| (group, version, resource.name)));
    }
    for kind in kinds() {
        let is_served = |version: &&&str| has.contains(&(kind.group, **version, kind.plural.to_owned()));
        if let Some(version) = kind.versions.iter().find(is_served) {
            served.insert(kind.name(), *version);
        }
    }
    Ok(served)
}

/// Keeps the names of definitions.
async fn follow_definitions(client: Client, definitions: Arc<Definitions>, shared: Arc<Shared>) {
    let pace = Arc::new(Pace::default());
    let client = Wire { client, watched: None, pace: Arc::clone(&pace) }.into_client();
    let resource = ApiResource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    };
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client, &resource);
    let mut backoff = Backoff::new(WAITS[0], WAITS[1]);
    let (mut names, mut refusals) = (BTreeSet::new(), 0u32);
    loop {
        let mut events = pin!(watcher(api.clone(), watcher::Config::default()));
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => {
                    listed.clear();
                    continue;
                }
                Ok(Event::InitApply(object)) => {
                    listed.insert(object.name_any());
                    continue;
                }
                Ok(Event::InitDone) => names = std::mem::take(&mut listed),
                Ok(Event::Apply(object)) => _ = names.insert(object.name_any()),
                Ok(Event::Delete(object)) => _ = names.remove(&object.name_any()),
                Err(error) => {
                    let failure = failure_of(&error);
                    refusals = if failure.is_refused { refusals + 1 } else { 0 };
                    if refusals >= REFUSALS {
                        definitions.refuse();
                    }
                    shared.definitions_fail(failure);
                    tokio::time::sleep(backoff.next().max(pace.left())).await;
                    if is_relist(&error) {
                        break;
                    }
                    continue;
                }
            }
            backoff.reset();
            refusals = 0;
            shared.definitions_go();
            definitions.set(&names);
        }
    }
}
