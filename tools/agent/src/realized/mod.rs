//! The status of policies: on how many Nodes each is realized, for `kubectl get` and `wait`.
//!
//! **Where**: beside `drive`. `run` hands over what the switch was told; the sources know
//! generations and statuses of objects.
//!
//! **Design**: each agent reports on its own switch in one object, the Lease `vswitch-agent-NODE`
//! (`reporter`). The agent that holds the Lease `vswitch-agent` watches the reports, judges by them
//! (`verdict`), and writes statuses that differ (`writer`, `status`). So 500 Nodes
//! and 5,000 policies cost one small write of each Node for a change of policies, and one write for
//! each policy whose status changes.
//!
//! A [`Report`] does not name what is in force. It has a digest for each of 64 parts of all
//! policies, over UIDs and generations (`digest`). The holder has the same digests of what it sees.
//! Where they are equal, the Node was told each policy of that part. Reports name what the switch
//! refuses, and which policies bind a Pod of the Node. resourceVersions are not compared: the API
//! says no order of them before Kubernetes 1.35 (KEP-5504), and each status that is written has a
//! new one. A generation changes with the spec only (API conventions, "metadata").
//!
//! A policy is Realized when each Node that reports was told its generation. A Node that says
//! nothing for [`Timing::silent`] is one on which it is not, if it was not told before: the policy
//! has Failed there, and does not stay Realizing for ever. A Node without an object is forgotten.
//!
//! | phase | when |
//! |---|---|
//! | Pending | no agent reports |
//! | Realizing | a Node that reports was not told this generation yet |
//! | Realized | all were told; so `currentNodesRealized` is `desiredNodesRealized` |
//! | Failed | all have spoken, and a Node refuses it or is silent |
//!
//! `desiredNodesRealized` counts Nodes on which the policy binds a Pod, as Antrea does, and those
//! that were not told yet or refuse it: whom it binds there is not known.
//!
//! **Limits**: a report names 200 refusals. A part with more of them is not equal, so
//! that its policies stay Realizing. A Node on which more than 2,000 policies bind Pods
//! counts for all. [`Timing::burst`] statuses are written in a turn. An account that may write
//! reports may claim what it likes for any Node: these are words, and no packet depends on them.
//!
//! **Threads**: two tasks of the agent's runtime.

mod digest;
mod report;
mod reporter;
mod status;
mod verdict;
mod view;
mod writer;

use crate::lease::Term;
use crate::source::cluster::Standing;
use kube::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use report::Report;
pub use reporter::{LABEL, lease_name};
pub use view::{Refusals, View};

/// How often things are done.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between two writes of a report.
    pub gap: Duration,
    /// After this time a report that has not changed is written again.
    pub renew: Duration,
    /// A Node whose report has not been written for so long is silent.
    pub silent: Duration,
    /// Between two turns of the writer of statuses.
    pub turn: Duration,
    /// Statuses written in a turn.
    pub burst: usize,
    /// Between two writes of one status.
    pub of_object: Duration,
    /// After this time a status is written again that somebody else has overwritten, or that was
    /// not taken.
    pub again: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            gap: Duration::from_secs(1),
            renew: Duration::from_secs(60),
            silent: Duration::from_secs(180),
            turn: Duration::from_secs(1),
            burst: 20,
            of_object: Duration::from_secs(3),
            again: Duration::from_secs(60),
        }
    }
}

/// What an agent knows.
#[derive(Clone, Debug, Default)]
pub struct News {
    /// What this Node's switch has in force; None: as it was reported last.
    pub report: Option<Report>,
    /// UID of the Node.
    pub node_uid: String,
    /// A number that changes with `standings`.
    pub number: u64,
    /// Objects whose status agents write, in order.
    pub standings: Arc<Vec<Standing>>,
    /// Names of all Nodes.
    pub nodes: BTreeSet<String>,
    /// UIDs of objects that are not understood.
    pub wrong: BTreeSet<String>,
    /// Addresses of ExternalIPPools, and how many are used.
    pub usage: BTreeMap<String, [i64; 2]>,
}

impl PartialEq for News {
    fn eq(&self, other: &Self) -> bool {
        let of = |news: &Self| (news.number, news.node_uid.clone());
        of(self) == of(other)
            && self.report == other.report
            && self.nodes == other.nodes
            && self.wrong == other.wrong
            && self.usage == other.usage
    }
}

/// The tasks. They end with this value.
#[derive(Debug)]
pub struct Realized {
    news: watch::Sender<News>,
    tasks: [JoinHandle<()>; 2],
}

impl Realized {
    /// Starts the tasks, in a runtime of tokio. `term`: whether this agent writes statuses.
    pub fn start(client: Client, node: &str, term: Term, timing: Timing) -> Self {
        let (news, inbox) = watch::channel(News::default());
        let reporter = reporter::report(client.clone(), node.to_owned(), inbox.clone(), timing);
        let writer = writer::follow(client, term, inbox, timing);
        Self { news, tasks: [tokio::spawn(reporter), tokio::spawn(writer)] }
    }

    /// Leaves what the agent knows.
    pub fn tell(&self, news: News) {
        self.news.send_if_modified(|old| {
            let is_new = *old != news;
            *old = news;
            is_new
        });
    }
}

impl Drop for Realized {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
