//! Annotations of this Node's Pods: which ports of the Node they have (`nodeportlocal.antrea.io`).
//!
//! **Where**: beside `drive`. `project` decides; this writes what it decides to the API server.
//!
//! **Design**: [`Annotator::tell`] leaves what Pods lack for a task. What the task has written, the
//! agent reads as any change of a Pod, and leaves it no more. What is left still is written again.
//! The patch names the Pod's UID: a Pod that has replaced it gets nothing of it.
//!
//! **Limits**: [`BURST_MAX`] Pods in a row. An API server that does not answer costs the task a
//! retry each [`RETRY`]. The agent's loop never waits for it.
//!
//! **Threads**: one task of the agent's runtime.

use crate::last_failure::LastFailure;
use crate::project::node_port_local::{ANNOTATION, Annotation};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Client, Error};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use vswitch_net_types::shown;

/// Pods in a row: the API server has others to serve.
const BURST_MAX: usize = 50;

/// What Pods lack still is written again after this time.
const RETRY: Duration = Duration::from_secs(2);

/// Annotations that Pods lack, by the Pods' names.
pub type Lacking = BTreeMap<String, Annotation>;

/// The task that annotates Pods. It ends with this value.
#[derive(Debug)]
pub struct Annotator {
    lacking: watch::Sender<Lacking>,
    task: JoinHandle<()>,
}

impl Annotator {
    /// Starts the task, in a runtime of tokio.
    pub fn start(client: Client) -> Self {
        let (lacking, inbox) = watch::channel(Lacking::new());
        Self { lacking, task: tokio::spawn(follow(client, inbox)) }
    }

    /// Leaves what Pods lack.
    pub fn tell(&self, lacking: &Lacking) {
        self.lacking.send_if_modified(|old| {
            let is_new = old != lacking;
            if is_new {
                old.clone_from(lacking);
            }
            is_new
        });
    }
}

impl Drop for Annotator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(client: Client, mut inbox: watch::Receiver<Lacking>) {
    let mut told = LastFailure::default();
    // Where the next burst begins, so that Pods that cannot be written hold up no others.
    let mut next = String::new();
    loop {
        let lacking = inbox.borrow_and_update().clone();
        let mut failure = String::new();
        let burst: Vec<_> =
            lacking.range(next.clone()..).chain(lacking.range(..next.clone())).take(BURST_MAX).collect();
        next = burst.last().map(|(name, _)| format!("{name}\0")).unwrap_or_default();
        for (name, annotation) in burst {
            match write(&client, name, annotation).await {
                Ok(()) => {}
                // It is gone, or another one: the next look tells.
                Err(Error::Api(status)) if [404, 409, 422].contains(&status.code) => {}
                Err(error) => failure = format!("Pod {name}: {error}"),
            }
        }
        let failure = shown(&failure).into_owned();
        if told.is_new(&failure) {
            tracing::warn!("an annotation {ANNOTATION} cannot be written: {failure}");
        }
        let changed = if lacking.is_empty() {
            inbox.changed().await
        } else {
            tokio::time::timeout(RETRY, inbox.changed()).await.unwrap_or(Ok(()))
        };
        if changed.is_err() {
            return;
        }
    }
}

async fn write(client: &Client, pod: &str, annotation: &Annotation) -> Result<(), Error> {
    let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Pod"), "pods");
    let pods: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let mut metadata = json!({"annotations": {ANNOTATION: annotation.text}});
    if !annotation.uid.is_empty() {
        metadata["uid"] = json!(annotation.uid);
    }
    pods.patch(name, &PatchParams::default(), &Patch::Merge(json!({"metadata": metadata}))).await.map(|_| ())
}
