//! Connections: who has them, and which one goes when there are too many.

use super::Shares;
use super::client::{Client, User};
use super::pool::Taken;
use crate::rights::{Identity, Principal, Rate};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
use tonic::Status;

/// Connections of one name in certificates; a further one closes one of its own.
const REMOTE_MAX: usize = 32;

/// Names in certificates that are kept in mind without a connection.
const REMOTES_MAX: usize = 1_024;

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
    /// Names in certificates.
    remotes: BTreeMap<Arc<str>, Remote>,
    /// Number of the last of them.
    last_remote: u32,
}

/// A name in certificates, as long as it has connections or its rate is not made up for.
#[derive(Debug)]
struct Remote {
    number: u32,
    connections: usize,
    rate: Arc<Rate>,
}

impl Connections {
    /// None yet; at most `limit` at a time.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, open: Mutex::default() }
    }

    /// Takes a connection in. When there are too many, one of the user that has most is closed:
    /// the one that has been idle longest, or else the newest whose calls wait, or else the newest.
    pub(crate) fn admit(self: &Arc<Self>, identity: Identity) -> Admitted {
        let mut open = self.open.lock();
        open.last += 1;
        let (user, rate) = match &identity.principal {
            Principal::Process { uid, .. } => (uid.map_or(User::UNKNOWN, User::Uid), None),
            Principal::Certificate(name) => {
                let (number, rate) = open.remote(name);
                (User::Remote(number), Some(rate))
            }
        };
        let client = Client { user, connection: open.last };
        let mut closed = None;
        let is_full = user.is_remote() && open.of(user).count() >= REMOTE_MAX;
        if (is_full || open.activities.len() >= self.limit)
            && let Some(victim) = if is_full { open.first_of(user) } else { open.victim(user) }
            && let Some(activity) = open.activities.remove(&victim)
        {
            activity.closed.send_replace(true);
            closed = Some(victim.user);
        }
        let activity = Arc::new(Activity::new());
        open.activities.insert(client, Arc::clone(&activity));
        identity.listener.open();
        let gone = activity.closed.subscribe();
        let peer = Peer { identity: Arc::new(identity), rate, client, activity };
        Admitted { peer, gone, closed, connections: Arc::clone(self) }
    }
}

impl Open {
    /// The number and the rate of a name in certificates, which gets one more connection.
    fn remote(&mut self, name: &Arc<str>) -> (u32, Arc<Rate>) {
        let now = Instant::now();
        let is_crowded = self.remotes.len() >= REMOTES_MAX;
        self.remotes.retain(|_, remote| remote.connections > 0 || !is_crowded && !remote.rate.is_full(now));
        let last = &mut self.last_remote;
        let remote = self.remotes.entry(Arc::clone(name)).or_insert_with(|| {
            *last = last.wrapping_add(1);
            Remote { number: *last, connections: 0, rate: Arc::new(Rate::new(now)) }
        });
        remote.connections += 1;
        (remote.number, Arc::clone(&remote.rate))
    }

    fn of(&self, user: User) -> impl Iterator<Item = (&Client, &Arc<Activity>)> {
        self.activities.iter().filter(move |(client, _)| client.user == user)
    }

    /// Which connection goes when one of `newcomer` comes.
    fn victim(&self, newcomer: User) -> Option<Client> {
        let mut counts: BTreeMap<User, usize> = BTreeMap::from([(newcomer, 1)]);
        for client in self.activities.keys() {
            *counts.entry(client.user).or_default() += 1;
        }
        // (Of users that have as many, the newcomer's.)
        let (most, _) = counts.into_iter().max_by_key(|(user, count)| (*count, *user == newcomer))?;
        self.first_of(most)
    }

    /// Which connection of a user goes first.
    fn first_of(&self, user: User) -> Option<Client> {
        let rank = |activity: &Activity, client: Client| {
            let state = activity.state.lock();
            let newest = u64::MAX - client.connection;
            match (state.calls + state.waiting, &state.busy) {
                (0, _) => (0, Some(state.idle_since), 0),
                (_, None) => (1, None, newest),
                (_, Some(_)) => (2, None, newest),
            }
        };
        self.of(user).min_by_key(|(client, activity)| rank(activity, **client)).map(|(client, _)| *client)
    }
}

/// A connection that is counted while this exists.
#[derive(Debug)]
pub(crate) struct Admitted {
    peer: Peer,
    gone: watch::Receiver<bool>,
    /// The user whose connection was closed for this one.
    pub(crate) closed: Option<User>,
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
        let Peer { identity, client, .. } = &self.peer;
        let mut open = self.connections.open.lock();
        open.activities.remove(client);
        if let Principal::Certificate(name) = &identity.principal
            && let Some(remote) = open.remotes.get_mut(name)
        {
            remote.connections -= 1;
        }
        drop(open);
        identity.listener.close();
    }
}

/// What a service knows of the other end of its connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Who it is, and what it may do.
    pub(crate) identity: Arc<Identity>,
    /// How often it may call; none: as often as it likes.
    pub(crate) rate: Option<Arc<Rate>>,
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
                "{} has as many connections with calls as it may have, for {} s; end some, or try again",
                client.user,
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
        let admit = |uid| connections.admit(Identity::of_uid(Some(uid), None));
        let one = Some(User::Uid(1));
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
        assert_eq!((probe.closed, gone()), (one, [0, 1, 0, 0, 0]), "the idle one that is older");
        let next = admit(4);
        assert_eq!((next.closed, gone()), (one, [0, 1, 0, 1, 0]), "the other idle one");
        // Both that are left are busy; users that have as many give none.
        let last = admit(3);
        assert_eq!((last.closed, is_gone(&probe), gone()), (Some(User::Uid(3)), true, [0, 1, 0, 1, 0]));
        let more = (admit(1), admit(4));
        assert_eq!((more.0.closed, more.1.closed), (one, Some(User::Uid(4))));
        assert_eq!(gone(), [0, 1, 1, 1, 0], "of busy ones the newest goes");
        drop(calls);
        assert_eq!(shares.busy.used(), 0);
        drop((first, probe, next, last, more));
        assert!(connections.open.lock().activities.is_empty());
    }

    #[tokio::test]
    async fn a_name_in_certificates_has_its_number_and_closes_its_own() {
        let connections = Arc::new(Connections::new(100));
        let admit = |name| connections.admit(Identity::of_name(name));
        let local = connections.admit(Identity::of_uid(Some(0), None));
        let mut own: Vec<Admitted> = (0..REMOTE_MAX).map(|_| admit("a")).collect();
        let other = admit("b");
        let users = [&own[0], &own[1], &other, &local].map(|admitted| admitted.peer.client.user);
        assert_eq!(users, [User::Remote(1), User::Remote(1), User::Remote(2), User::ROOT]);
        let (first, second) = (own[0].peer(), own[1].peer());
        assert!(Arc::ptr_eq(first.rate.as_ref().expect("a rate"), second.rate.as_ref().expect("a rate")));
        own.push(admit("a"));
        assert_eq!((own[REMOTE_MAX].closed, is_gone(&own[0])), (Some(User::Remote(1)), true));
        assert!(!is_gone(&other) && !is_gone(&local));
        drop(own);
        assert_eq!(admit("a").peer.client.user, User::Remote(1), "its rate is kept in mind");
        drop((other, local));
        let open = connections.open.lock();
        assert!(open.activities.is_empty() && open.remotes.values().all(|remote| remote.connections == 0));
    }

    #[tokio::test]
    async fn only_connections_with_calls_take_a_share() {
        let connections = Arc::new(Connections::new(100));
        let shares = shares(2, 1);
        let many: Vec<Admitted> = (0..50).map(|_| connections.admit(Identity::of_uid(Some(1), None))).collect();
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
