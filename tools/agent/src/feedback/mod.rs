//! What the agent tells the cluster: an Event on each object that is refused, and that the Node has
//! a network.
//!
//! **Where**: behind `drive`. `run` hands over what is wrong and whether the switch forwards; the
//! sources say which object of the API server each problem is about.
//!
//! **Design**: [`Feedback::tell`] leaves the newest [`News`] for a task, and returns. The task
//! writes what the cluster does not have yet. `events` gives each refusal one name. So the agents
//! of all Nodes share one Event. `node` writes the condition `NetworkUnavailable`, and takes away
//! the taint [`TAINT`].
//!
//! **Limits**: the task writes at most [`events::BURST_MAX`] Events in a row. An API server that
//! does not answer costs the task a retry each [`RETRY`]. The agent's loop never waits for it.
//!
//! **Threads**: one task of the agent's runtime.

mod events;
mod node;

use crate::last_failure::LastFailure;
use crate::problem::Problem;
use crate::source::cluster::ObjectRef;
use kube::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::watch;
use vswitch_net_types::shown;

pub(crate) use events::{micro, second};
pub use node::TAINT;

/// How long a request, or a burst of them, may take.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(30);

/// What could not be written is written again after this time.
const RETRY: Duration = Duration::from_secs(2);

/// The longest time without a look: Events that the API server forgets are told again.
const IDLE: Duration = Duration::from_secs(300);

/// Why an object is refused.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// One word, as `kubectl describe` shows it as the reason.
    pub reason: String,
    /// The whole: field, reason and hint.
    pub note: String,
}

impl Refusal {
    /// Of a problem.
    fn of(problem: &Problem) -> Self {
        let parts = [problem.field.as_str(), problem.reason.as_str()];
        let mut note = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
        if !problem.hint.is_empty() {
            note = format!("{note}; {}", problem.hint);
        }
        Self { reason: camel(problem.code()), note: shown(&note).into_owned() }
    }
}

/// A code as Kubernetes writes reasons: `IN_USE` is `InUse`.
fn camel(code: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + &rest.to_ascii_lowercase()
    };
    code.split('_').map(word).collect()
}

/// What there is to tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct News {
    /// What is refused.
    pub refusals: BTreeMap<ObjectRef, BTreeSet<Refusal>>,
    /// Everything is told to the switch, and packets pass.
    pub is_ready: bool,
}

impl News {
    /// Errors of objects that the API server has.
    pub fn new<'a>(
        problems: impl Iterator<Item = &'a Problem>,
        object: impl Fn(&Problem) -> Option<ObjectRef>,
        is_ready: bool,
    ) -> Self {
        let mut refusals: BTreeMap<ObjectRef, BTreeSet<Refusal>> = BTreeMap::new();
        for problem in problems.filter(|problem| problem.is_error()) {
            if let Some(object) = object(problem) {
                refusals.entry(object).or_default().insert(Refusal::of(problem));
            }
        }
        Self { refusals, is_ready }
    }
}

/// The task that tells the cluster. It ends with this value.
#[derive(Debug)]
pub struct Feedback {
    news: watch::Sender<News>,
}

impl Feedback {
    /// Starts the task, in a runtime of tokio.
    pub fn start(client: Client, node: &str) -> Self {
        let (news, inbox) = watch::channel(News::default());
        let events = events::Events::new(client.clone(), node);
        tokio::spawn(follow(inbox, events, node::Node::new(client, node)));
        Self { news }
    }

    /// Leaves what there is to tell. Older news that was not told yet is dropped.
    pub fn tell(&self, news: News) {
        self.news.send_if_modified(|old| {
            let is_new = *old != news;
            *old = news;
            is_new
        });
    }
}

async fn follow(mut inbox: watch::Receiver<News>, mut events: events::Events, mut node: node::Node) {
    let mut told = <[LastFailure; 2]>::default();
    loop {
        let news = inbox.borrow_and_update().clone();
        // The Node first: Pods wait for it.
        let of_node = answered(node.follow(news.is_ready)).await;
        let of_events = answered(events.follow(&news.refusals)).await;
        let has_failed = of_node.is_some() || of_events.is_some();
        let pause = if has_failed || events.has_more() { RETRY } else { IDLE };
        for (told, failure) in told.iter_mut().zip([of_node, of_events]) {
            let failure = failure.unwrap_or_default();
            if told.is_new(&failure) {
                tracing::warn!("the API server does not take what the agent tells: {failure}");
            }
        }
        tokio::select! {
            changed = inbox.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(pause) => {}
        }
        if has_failed {
            // News does not hasten what has failed.
            tokio::time::sleep(RETRY / 4).await;
        }
    }
}

/// Why a request failed. One without an answer is given up.
pub(crate) async fn answered<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Option<String> {
    match tokio::time::timeout(ANSWER_MAX, request).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(shown(&error.to_string()).into_owned()),
        Err(_) => Some(format!("no answer in {} s", ANSWER_MAX.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Origin;

    #[test]
    fn errors_of_objects_are_refusals_and_nothing_else_is() {
        let origin = Origin::new("cluster", 0, "NetworkPolicy a/p");
        let other = Origin::new("node.yaml", 1, "NodeConfig n");
        let problems = [
            origin.error("spec.x", "IN_USE: it is").hint("change it").coded("IN_USE"),
            origin.error("spec.y", "no number"),
            origin.warning("spec.z", "odd"),
            other.error("spec", "wrong"),
        ];
        let policy = ObjectRef {
            api_version: "networking.k8s.io/v1".to_owned(),
            kind: "NetworkPolicy".to_owned(),
            namespace: "a".to_owned(),
            name: "p".to_owned(),
            uid: "u".to_owned(),
        };
        let object = |problem: &Problem| (*problem.origin.file == *"cluster").then(|| policy.clone());
        let news = News::new(problems.iter(), object, true);
        let refusal = |reason: &str, note: &str| Refusal { reason: reason.to_owned(), note: note.to_owned() };
        let expected = [refusal("InUse", "spec.x: IN_USE: it is; change it"), refusal("Invalid", "spec.y: no number")];
        assert_eq!(news.refusals, BTreeMap::from([(policy, BTreeSet::from(expected))]));
    }
}
