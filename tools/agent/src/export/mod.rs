//! Export of flows: the agent reads records of connections from its switch, adds names, and sends
//! them to collectors by IPFIX or to Antrea's Flow Aggregator.
//!
//! **Where**: beside `drive`. `run` hands over the agent after each step of the driver.
//!
//! **Design**: one task reads the switch (`watch`) and remembers connections (`connections`). Of a
//! record that is due it makes a flow (`flow`) with what the documents say ([`facts`]). Each target
//! has a queue and a task (`send`). A target that is away or slow loses flows of its own queue, and
//! no others.
//!
//! **Limits**: [`TARGETS_MAX`] targets, `connections::KNOWN_MAX` connections, `send::QUEUE_MAX`
//! batches of a target. What is lost is counted ([`crate::status`]).
//!
//! **Threads**: tasks of the agent's runtime.

mod connections;
mod facts;
mod flow;
mod send;
mod sink;
mod target;
mod tls;
mod watch;

use crate::agent::Agent;
use crate::names::book::Book;
use crate::status::Status;
use connections::{Connections, Timing};
pub use facts::Facts;
use send::Outbox;
use std::path::PathBuf;
use std::sync::Arc;
pub use target::{Target, Tls, seconds};
use tokio::sync::watch as channel;
use tokio::task::JoinSet;
use vswitch_flow_export::observation_domain;

/// Targets of an agent.
pub const TARGETS_MAX: usize = 4;

/// What is exported, and where to.
#[derive(Clone, Debug)]
pub struct Config {
    /// Collectors.
    pub targets: Vec<Target>,
    /// Seconds between two flows of a connection that has packets.
    pub active_seconds: u32,
    /// Seconds without packets until a connection has a last flow, for now.
    pub idle_seconds: u32,
    /// Certificates for gRPC.
    pub tls: Tls,
}

/// The tasks of the export. They end with this value.
#[derive(Debug)]
pub struct Export {
    facts: channel::Sender<Arc<Facts>>,
    node: String,
    _tasks: JoinSet<()>,
}

impl Export {
    /// Starts the tasks, in a runtime of tokio. `socket` is the switch's.
    pub fn start(config: &Config, node: &str, socket: PathBuf, status: &Arc<Status>) -> Self {
        let (facts, inbox) = channel::channel(Arc::new(Facts::default()));
        let mut tasks = JoinSet::new();
        let domain = observation_domain(node);
        let open = |target: &Target| Outbox::open(target, (domain, &config.tls), status, &mut tasks);
        let outboxes = config.targets.iter().map(open).collect();
        let timing = Timing::new(config.active_seconds, config.idle_seconds);
        let watch = watch::Watch::new(socket, Connections::new(timing), outboxes, inbox, Arc::clone(status));
        tasks.spawn(watch.follow(config.active_seconds));
        Self { facts, node: node.to_owned(), _tasks: tasks }
    }

    /// Takes over what the documents declare now.
    pub fn follow(&self, agent: &Agent, book: Arc<Book>) {
        self.tell(Facts::of(agent, &self.node, book));
    }

    /// Leaves what is known for the tasks.
    pub fn tell(&self, facts: Facts) {
        self.facts.send_replace(Arc::new(facts));
    }
}
