//! Connections: who has them, and which one goes when there are too many.

use super::Shares;
use super::client::{Client, UNKNOWN};
use super::pool::Taken;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
use tonic::Status;

/// All connections.
#[derive(Debug)]
pub(crate) struct Connections {
    limit: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// Number of the last one.
    last: u64,
    activities: BTreeMap<Client, Arc<Activity>>,
}

impl Connections {
    /// None yet; at most `limit` at a time.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, open: Mutex::default() }
    }

    /// Takes a connection in. When there are too many, one of the user that has most is closed:
    /// the one that has been idle longest, or else the newest whose calls wait, or else the newest.
    pub(crate) fn admit(self: &Arc<Self>, uid: Option<u32>, pid: Option<i32>) -> Admitted {
        let mut open = self.open.lock();
        open.last += 1;
        let client = Client { uid: uid.unwrap_or(UNKNOWN), connection: open.last };
        let mut closed = None;
        if open.activities.len() >= self.limit
            && let Some(victim) = open.victim(client.uid)
            && let Some(activity) = open.activities.remove(&victim)
        {
            activity.closed.send_replace(true);
            closed = Some(victim.uid);
        }
        let activity = Arc::new(Activity::new());
        open.activities.insert(client, Arc::clone(&activity));
        let gone = activity.closed.subscribe();
        Admitted { peer: Peer { uid, pid, client, activity }, gone, closed, connections: Arc::clone(self) }
    }
}

impl Open {
    /// Which connection goes when one of `newcomer` comes.
    fn victim(&self, newcomer: u32) -> Option<Client> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::from([(newcomer, 1)]);
        for client in self.activities.keys() {
            *counts.entry(client.uid).or_default() += 1;
        }
        // (Of users that have as many, the newcomer's.)
        let (most, _) = counts.into_iter().max_by_key(|(uid, count)| (*count, *uid == newcomer))?;
        let own = self.activities.iter().filter(|(client, _)| client.uid == most);
        let rank = |activity: &Activity, client: Client| {
            let state = activity.state.lock();
            let newest = u64::MAX - client.connection;
            match (state.calls + state.waiting, &state.busy) {
                (0, _) => (0, Some(state.idle_since), 0),
                (_, None) => (1, None, newest),
                (_, Some(_)) => (2, None, newest),
            }
        };
        own.min_by_key(|(client, activity)| rank(activity, **client)).map(|(client, _)| *client)
    }
}

/// A connection that is counted while this exists.
#[derive(Debug)]
pub(crate) struct Admitted {
    peer: Peer,
    gone: watch::Receiver<bool>,
    /// The user whose connection was closed for this one.
    pub(crate) closed: Option<u32>,
    connections: Arc<Connections>,
}

impl Admitted {
    /// What services know of it.
    pub(crate) fn peer(&self) -> Peer {
        self.peer.clone()
    }

    /// Becomes true when the connection is to be closed for another one.
    pub(crate) fn gone(&self) -> watch::Receiver<bool> {
        self.gone.clone()
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.connections.open.lock().activities.remove(&self.peer.client);
    }
}

/// What a service knows of the other end of its connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// User, if the kernel tells.
    pub(crate) uid: Option<u32>,
    /// Process, if the kernel tells.
    pub(crate) pid: Option<i32>,
    pub(super) client: Client,
    pub(super) activity: Arc<Activity>,
}

/// What a connection is doing.
#[derive(Debug)]
pub(crate) struct Activity {
    state: Mutex<State>,
    closed: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    /// Calls in progress, but those of health.
    calls: usize,
    /// Calls that wait until the connection may be busy.
    waiting: usize,
    /// While there are calls.
    busy: Option<Taken>,
    idle_since: Instant,
}

impl Activity {
    fn new() -> Self {
        let state = State { calls: 0, waiting: 0, busy: None, idle_since: Instant::now() };
        Self { state: Mutex::new(state), closed: watch::Sender::new(false) }
    }

    /// Begins a call: now, or when the connection may be busy.
    pub(super) async fn begin(self: &Arc<Self>, client: Client, shares: &Shares) -> Result<Call, Status> {
        {
            let mut state = self.state.lock();
            if state.busy.is_some() {
                state.calls += 1;
                return Ok(Call(Arc::clone(self)));
            }
            state.waiting += 1;
        }
        let waits = Waits(self);
        let taken = tokio::time::timeout(shares.busy_timeout, shares.busy.take(client, 1)).await;
        drop(waits);
        let Ok(taken) = taken else {
            let text = format!(
                "user {} has as many connections with calls as it may have, for {} s; end some, or try again",
                client.uid,
                shares.busy_timeout.as_secs()
            );
            return Err(Status::resource_exhausted(text));
        };
        let mut state = self.state.lock();
        state.calls += 1;
        let more = if state.busy.is_some() { Some(taken) } else { state.busy.replace(taken) };
        drop(state);
        drop(more); // beside the lock: it may wake others
        Ok(Call(Arc::clone(self)))
    }
}

/// A call that waits.
struct Waits<'a>(&'a Activity);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
    }
}

/// A call in progress, until this is dropped.
#[derive(Debug)]
pub(super) struct Call(Arc<Activity>);

impl Drop for Call {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.calls -= 1;
        let busy = if state.calls == 0 { state.busy.take() } else { None };
        state.idle_since = Instant::now();
        drop(state);
        drop(busy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::{Limits, Pool};
    use std::time::Duration;

    fn shares(total: usize, share: usize) -> Arc<Shares> {
        let busy = Arc::new(Pool::new(Limits { total, share, reserve: 0 }));
        Arc::new(Shares { busy, busy_timeout: Duration::from_millis(100), ..Shares::default() })
    }

    fn is_gone(admitted: &Admitted) -> bool {
        *admitted.gone().borrow()
    }

    #[tokio::test]
    async fn the_user_that_has_most_gives_an_idle_one_first() {
        let connections = Arc::new(Connections::new(5));
        let shares = shares(2, 2);
        let admit = |uid| connections.admit(Some(uid), None);
        let first = [1, 1, 1, 1, 2].map(admit);
        assert!(first.iter().all(|admitted| admitted.closed.is_none()));
        let gone = || first.each_ref().map(|admitted| usize::from(is_gone(admitted)));
        let begin = |admitted: &Admitted| {
            let Peer { client, activity, .. } = admitted.peer();
            let shares = Arc::clone(&shares);
            async move { activity.begin(client, &shares).await }
        };
        let calls = (begin(&first[0]).await.expect("room"), begin(&first[2]).await.expect("room"));
        let probe = admit(3);
        assert_eq!((probe.closed, gone()), (Some(1), [0, 1, 0, 0, 0]), "the idle one that is older");
        let next = admit(4);
        assert_eq!((next.closed, gone()), (Some(1), [0, 1, 0, 1, 0]), "the other idle one");
        // Both that are left are busy; users that have as many give none.
        let last = admit(3);
        assert_eq!((last.closed, is_gone(&probe), gone()), (Some(3), true, [0, 1, 0, 1, 0]));
        let more = (admit(1), admit(4));
        assert_eq!((more.0.closed, more.1.closed), (Some(1), Some(4)));
        assert_eq!(gone(), [0, 1, 1, 1, 0], "of busy ones the newest goes");
        drop(calls);
        assert_eq!(shares.busy.used(), 0);
        drop((first, probe, next, last, more));
        assert!(connections.open.lock().activities.is_empty());
    }

    #[tokio::test]
    async fn only_connections_with_calls_take_a_share() {
        let connections = Arc::new(Connections::new(100));
        let shares = shares(2, 1);
        let many: Vec<Admitted> = (0..50).map(|_| connections.admit(Some(1), None)).collect();
        let begin = |admitted: &Admitted| {
            let Peer { client, activity, .. } = admitted.peer();
            let shares = Arc::clone(&shares);
            async move { activity.begin(client, &shares).await }
        };
        let one = begin(&many[3]).await.expect("room");
        let again = begin(&many[3]).await.expect("it is busy already");
        assert_eq!(shares.busy.used(), 1);
        let status = begin(&many[4]).await.expect_err("the share is full");
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        drop(one);
        assert_eq!(shares.busy.used(), 1);
        let (waited, ()) = tokio::join!(begin(&many[4]), async { drop(again) });
        assert!(waited.is_ok());
        drop(waited);
        assert_eq!((shares.busy.used(), many[4].peer().activity.state.lock().waiting), (0, 0));
    }
}
