//! Traceflows of the API server (crd.antrea.io/v1beta1): `kubectl create -f` one, and its status
//! tells what the packet met on each Node.
//!
//! **Where**: beside `drive`. `run` says which Pods are on this Node.
//!
//! **Design**: each agent watches all Traceflows. The agent of the source's Node claims one: it
//! writes phase and tag into the status, on condition that nobody changed the object meanwhile
//! (`claim`). All other agents have their switches look for the tag. Each agent adds what its
//! switch observed to `status.results` (`status`). The claiming agent sends the packet, and decides
//! the end. The agent that has the destination Pod says so first, and the sender waits for it
//! ([`READY_MAX`]).
//!
//! **Limits**: 63 tags. A Traceflow that finds none waits. A Traceflow whose agent is gone fails
//! [`GRACE_SECONDS`] after its time; any agent says so.
//!
//! **Threads**: one task that watches, and one for each Traceflow that runs.

mod claim;
mod object;
mod session;
mod status;

use crate::feedback::ANSWER_MAX;
use crate::watched::{Watched, follow};
use futures_util::StreamExt;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use object::{Phase, Traceflow};
use session::Session;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long a sender waits for the agent of the destination at most.
const READY_MAX: Duration = Duration::from_secs(5);

/// How long a sender waits where nobody knows which Node the packet goes to.
const SPREAD: Duration = Duration::from_secs(1);

/// Seconds after its time until anybody ends a Traceflow whose agent does not.
const GRACE_SECONDS: i64 = 15;

/// How often Traceflows are looked at that nobody has changed.
const PERIOD: Duration = Duration::from_secs(1);

/// What tasks share.
#[derive(Clone)]
struct Shared {
    client: Client,
    api: Api<DynamicObject>,
    node: Arc<str>,
    socket: Arc<Path>,
    /// Pods of this Node, as "namespace/name".
    local: watch::Receiver<BTreeSet<String>>,
}

/// The Traceflows. They end with this value.
#[derive(Debug)]
pub struct Traceflows {
    local: watch::Sender<BTreeSet<String>>,
    task: JoinHandle<()>,
}

impl Traceflows {
    /// Starts the task, in a runtime of tokio. `socket` is the switch's.
    pub fn start(client: Client, node: &str, socket: PathBuf) -> Self {
        let gvk = GroupVersionKind::gvk("crd.antrea.io", "v1beta1", "Traceflow");
        let api = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
        let (local, of_node) = watch::channel(BTreeSet::new());
        let shared = Shared { client, api, node: node.into(), socket: socket.into(), local: of_node };
        Self { local, task: tokio::spawn(Watch::new(shared).follow()) }
    }

    /// Takes over which Pods are on this Node.
    pub fn local(&self, pods: BTreeSet<String>) {
        self.local.send_if_modified(|old| {
            let is_new = *old != pods;
            *old = pods;
            is_new
        });
    }
}

impl Drop for Traceflows {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is known of all Traceflows.
struct Watch {
    shared: Shared,
    watched: Watched<Traceflow>,
    /// Those of which this Node has a part, by name. Dropped, a session ends.
    sessions: BTreeMap<String, Session>,
}

impl Watch {
    fn new(shared: Shared) -> Self {
        Self { shared, watched: Watched::new("Traceflow", Traceflow::of), sessions: BTreeMap::new() }
    }

    async fn follow(mut self) {
        let mut events = follow(self.shared.api.clone());
        let mut turn = tokio::time::interval(PERIOD);
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.watched.take(event),
                    None => return,
                },
                _ = turn.tick() => {}
            }
            self.look().await;
        }
    }

    async fn look(&mut self) {
        let objects = &self.watched.objects;
        self.sessions.retain(|name, session| objects.get(name).is_some_and(|object| session.is_of(object)));
        let now = Timestamp::now();
        let mut has_tag = self.has_tag();
        let names: Vec<String> = self.watched.objects.keys().cloned().collect();
        for name in names {
            let Some(object) = self.watched.objects.get(&name).cloned() else { continue };
            match object.phase {
                Phase::Done => {}
                // (No request for one that has to wait: of 1,000 that come at once most do.)
                Phase::New if !has_tag => {}
                Phase::New if object.is_of(&self.shared.local.borrow()) => {
                    self.claim(object).await;
                    has_tag = self.has_tag();
                }
                Phase::New => {}
                Phase::Running if object.overdue_seconds(now) > GRACE_SECONDS => {
                    status::fail(&self.shared.api, &object, "its time is over, and the agent that ran it is gone")
                        .await;
                }
                Phase::Running if !self.sessions.contains_key(&name) => {
                    // One that this Node had claimed before a restart is left to its time.
                    if !object.is_of(&self.shared.local.borrow()) && object.overdue_seconds(now) <= 0 {
                        self.sessions.insert(name, Session::receive(self.shared.clone(), &object));
                    }
                }
                Phase::Running => self.sessions[&name].tell(&object),
            }
        }
    }

    /// Whether a tag is free, as far as this agent knows.
    fn has_tag(&self) -> bool {
        claim::free_tag(self.watched.objects.values(), None).is_some()
    }

    async fn claim(&mut self, object: Traceflow) {
        let claimed = tokio::time::timeout(ANSWER_MAX, claim::claim(&self.shared, &object)).await;
        match claimed {
            Ok(Ok(Some(object))) => {
                let session = Session::send(self.shared.clone(), &object);
                self.sessions.insert(object.name.clone(), session);
                self.watched.objects.insert(object.name.clone(), object);
            }
            Ok(Ok(None)) => {} // the next look tries again
            Ok(Err(error)) => self.watched.tell(format!("Traceflow {} cannot be claimed: {error}", object.name)),
            Err(_) => self.watched.tell(format!("Traceflow {} cannot be claimed: no answer", object.name)),
        }
    }
}
