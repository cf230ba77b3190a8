//! `ObserveService` and `NameService`.
//!
//! **Design**: [`Observer`] holds the ring of observations and the names of addresses. Its task
//! (`task`) reads drop samples, policy logs, refusals and flow records, and fills the ring. Each
//! client reads the ring by itself (`watch`), so a slow one holds up neither the task nor others.
//!
//! **Limits**: [`limits::OBSERVE_WATCHERS_MAX`] calls that follow, as many that only read what is
//! kept; those of `vswitch_observe`.

mod names;
mod task;
mod watch;

pub(crate) use names::AddressNames;
pub(crate) use watch::Observations;

use super::api::Control;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch as channel};
use tonic::Status;
use vswitch_antrea_node::Antrea;
use vswitch_control::config::ObserveConfig;
use vswitch_dataplane::limits;
use vswitch_observe::{Limits, Names, Ring};

/// A client waits so long at most for what it wants to be observed.
const ADJUST_MAX: Duration = Duration::from_secs(5);

/// Who wants what to be observed.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    /// Changes so far.
    changes: u64,
    /// Calls that follow.
    followers: usize,
    /// Those of them that mean connections.
    connections: usize,
}

/// What was not observed, since the start.
#[derive(Debug, Default)]
struct Losses {
    /// What came faster than the task reads.
    unread: AtomicU64,
    /// Drops whose reason had its share of the second.
    suppressed: AtomicU64,
}

/// What is observed, and what addresses are called.
pub(crate) struct Observer {
    control: Control,
    antrea: Arc<Antrea>,
    config: ObserveConfig,
    ring: Arc<Ring>,
    names: Names,
    losses: Losses,
    wanted: channel::Sender<Wanted>,
    /// [`Wanted::changes`] that the task has followed.
    adjusted: channel::Sender<u64>,
    following: Arc<Semaphore>,
    reading: Arc<Semaphore>,
}

/// A call that follows. What it wants is observed as long as this lives.
struct Following {
    observer: Arc<Observer>,
    connections: usize,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.observer.want(|wanted| {
            wanted.followers -= 1;
            wanted.connections -= self.connections;
        });
    }
}

impl Observer {
    pub(crate) fn new(control: Control, antrea: Arc<Antrea>, config: &ObserveConfig) -> Arc<Self> {
        let names = Names::new(Limits { names: limits::OBSERVE_NAMES_MAX, bytes: limits::OBSERVE_NAMES_BYTES });
        let [following, reading] = [(); 2].map(|()| Arc::new(Semaphore::new(limits::OBSERVE_WATCHERS_MAX)));
        Arc::new(Self {
            control,
            antrea,
            config: config.clone(),
            ring: Arc::new(Ring::new(config.ring)),
            names,
            losses: Losses::default(),
            wanted: channel::Sender::default(),
            adjusted: channel::Sender::default(),
            following,
            reading,
        })
    }

    /// Fills the ring until the server stops.
    pub(crate) async fn run(self: Arc<Self>) {
        task::run(self).await;
    }

    /// Changes what is wanted. Says which change it was.
    fn want(&self, change: impl FnOnce(&mut Wanted)) -> u64 {
        let mut number = 0;
        self.wanted.send_modify(|wanted| {
            change(wanted);
            wanted.changes += 1;
            number = wanted.changes;
        });
        number
    }

    /// A call that follows from now on, as soon as what it wants is observed.
    async fn follow(self: &Arc<Self>, means_connections: bool) -> Result<Following, Status> {
        let permit = take(&self.following, "follow")?;
        let connections = usize::from(means_connections);
        let change = self.want(|wanted| {
            wanted.followers += 1;
            wanted.connections += connections;
        });
        let following = Following { observer: Arc::clone(self), connections, _permit: permit };
        let mut adjusted = self.adjusted.subscribe();
        // A task that is late goes on later: the client is not refused for that.
        let _ = tokio::time::timeout(ADJUST_MAX, adjusted.wait_for(|adjusted| *adjusted >= change)).await;
        Ok(following)
    }

    fn losses(&self) -> (u64, u64) {
        (self.losses.unread.load(Relaxed), self.losses.suppressed.load(Relaxed))
    }
}

/// A place among calls of a kind.
fn take(places: &Arc<Semaphore>, what: &str) -> Result<OwnedSemaphorePermit, Status> {
    Arc::clone(places).try_acquire_owned().map_err(|_| {
        let limit = limits::OBSERVE_WATCHERS_MAX;
        Status::resource_exhausted(format!("{limit} calls {what} observations already; end one, or try again later"))
    })
}
