//! Something of which there is so much, for all clients together.

use super::client::{Client, User};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// How much there is, and for whom. `share` and `reserve` are at most `total`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Units that there are.
    pub(crate) total: usize,
    /// Units that one user may have.
    pub(crate) share: usize,
    /// Units that only root may have.
    pub(crate) reserve: usize,
}

/// Units that clients share.
#[derive(Debug)]
pub(crate) struct Pool {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// Units of all remote users.
    remote: usize,
    /// Units by user and by connection; none of them is 0.
    by_user: BTreeMap<User, usize>,
    by_client: BTreeMap<Client, usize>,
    /// In order of arrival.
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    client: Client,
    units: usize,
    answer: oneshot::Sender<Taken>,
}

/// Why units are not to be had now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    /// The user has its share.
    #[error("{user} has its share, {share} of {total}")]
    Share {
        /// The user.
        user: User,
        /// Units that it may have.
        share: usize,
        /// Units that there are.
        total: usize,
    },
    /// All remote users together have what there is for them.
    #[error("clients of TCP have all {most} that are theirs, of {total}")]
    Remote {
        /// Units that they may have.
        most: usize,
        /// Units that there are.
        total: usize,
    },
    /// All users together have what there is for them.
    #[error("all {total} are in use")]
    All {
        /// Units that there are.
        total: usize,
    },
}

impl Limits {
    /// Units that all remote users together may have: half of what is not root's.
    const fn remote(&self) -> usize {
        (self.total - self.reserve) / 2
    }

    /// Units that a user may have: a remote one two thirds of what they have together.
    const fn share_of(&self, user: User) -> usize {
        let remote = self.remote();
        let share = if user.is_remote() { remote - remote / 3 } else { self.share };
        if share < self.share { share } else { self.share }
    }

    /// Whether a user may have more units.
    fn allows(&self, state: &State, user: User, units: usize) -> Result<(), Full> {
        let used = |user: User| state.by_user.get(&user).copied().unwrap_or(0);
        let Self { total, reserve, .. } = *self;
        let share = self.share_of(user);
        if used(user).saturating_add(units) > share {
            return Err(Full::Share { user, share, total });
        }
        if user.is_remote() && state.remote.saturating_add(units) > self.remote() {
            return Err(Full::Remote { most: self.remote(), total });
        }
        let others = state.used - used(User::ROOT);
        let is_over = user != User::ROOT && others.saturating_add(units) > total - reserve;
        if is_over || state.used.saturating_add(units) > total { Err(Full::All { total }) } else { Ok(()) }
    }
}

impl State {
    fn add(&mut self, client: Client, units: usize) {
        self.used += units;
        if client.user.is_remote() {
            self.remote += units;
        }
        *self.by_user.entry(client.user).or_default() += units;
        *self.by_client.entry(client).or_default() += units;
    }

    fn remove(&mut self, client: Client, units: usize) {
        self.used -= units;
        if client.user.is_remote() {
            self.remote -= units;
        }
        remove(&mut self.by_user, client.user, units);
        remove(&mut self.by_client, client, units);
    }

    /// Who waits and is next: of those whose user's share has room, the one that has least. While
    /// what remote users have together is full, none of them is next: else a small one would
    /// overtake a large one for ever.
    fn next(&self, limits: &Limits) -> Option<usize> {
        let may = |remote_too: bool| {
            let waiting = self.waiting.iter().enumerate();
            let may = waiting.filter(move |(_, waiting)| {
                let full = limits.allows(self, waiting.client.user, waiting.units);
                !matches!(full, Err(Full::Share { .. })) && (remote_too || !waiting.client.user.is_remote())
            });
            may.min_by_key(|(index, waiting)| (self.has(waiting.client), *index))
        };
        let (index, first) = may(true)?;
        match limits.allows(self, first.client.user, first.units) {
            Err(Full::Remote { .. }) => may(false).map(|(index, _)| index),
            _ => Some(index),
        }
    }

    /// Units of a client's user, and of itself.
    fn has(&self, client: Client) -> (usize, usize) {
        let by_user = self.by_user.get(&client.user).copied().unwrap_or(0);
        (by_user, self.by_client.get(&client).copied().unwrap_or(0))
    }
}

fn remove<K: Ord>(map: &mut BTreeMap<K, usize>, key: K, units: usize) {
    if let std::collections::btree_map::Entry::Occupied(mut entry) = map.entry(key) {
        *entry.get_mut() -= units;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}

impl Pool {
    pub(crate) fn new(limits: Limits) -> Self {
        debug_assert!(limits.share <= limits.total && limits.reserve <= limits.total, "{limits:?}");
        Self { limits, state: Mutex::default() }
    }

    /// Takes units now.
    ///
    /// # Errors
    /// The user's share or all of it is in use.
    pub(crate) fn try_take(self: &Arc<Self>, client: Client, units: usize) -> Result<Taken, Full> {
        let mut state = self.state.lock();
        self.limits.allows(&state, client.user, units)?;
        state.add(client, units);
        drop(state);
        Ok(self.taken(client, units))
    }

    /// Takes units, and waits for them. No client waits for more than a share.
    pub(crate) async fn take(self: &Arc<Self>, client: Client, units: usize) -> Taken {
        let units = units.min(self.limits.share_of(client.user)).min(self.limits.total - self.limits.reserve);
        let (answer, answered) = oneshot::channel();
        self.state.lock().waiting.push(Waiting { client, units, answer });
        self.serve();
        match answered.await {
            Ok(taken) => taken,
            // (Only the pool itself drops a sender without an answer.)
            Err(_) => self.taken(client, 0),
        }
    }

    /// Units that are in use.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.state.lock().used
    }

    fn taken(self: &Arc<Self>, client: Client, units: usize) -> Taken {
        Taken { pool: Arc::clone(self), client, units }
    }

    /// Gives units to those who wait, as long as there are any.
    fn serve(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            let Some(index) = state.next(&self.limits) else { return };
            let (client, units) = (state.waiting[index].client, state.waiting[index].units);
            // The next one is not overtaken: else a large one would wait for ever.
            if self.limits.allows(&state, client.user, units).is_err() {
                return;
            }
            let Waiting { answer, .. } = state.waiting.remove(index);
            state.add(client, units);
            drop(state);
            // A client that waits no more gives them back at once: so the lock is not held here.
            let _ = answer.send(self.taken(client, units));
        }
    }
}

/// Units that a client has; dropping them gives them back.
#[derive(Debug)]
pub(crate) struct Taken {
    pool: Arc<Pool>,
    client: Client,
    units: usize,
}

impl Taken {
    /// Puts units of the same pool and client together.
    pub(crate) fn merge(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.pool, &other.pool) && self.client == other.client);
        self.units += std::mem::take(&mut other.units);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.units > 0 {
            self.pool.state.lock().remove(self.client, self.units);
            self.pool.serve();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    const LIMITS: Limits = Limits { total: 10, share: 6, reserve: 2 };

    fn client(uid: u32, connection: u64) -> Client {
        Client { user: User::Uid(uid), connection }
    }

    fn remote(number: u32, connection: u64) -> Client {
        Client { user: User::Remote(number), connection }
    }

    fn pool() -> Arc<Pool> {
        Arc::new(Pool::new(LIMITS))
    }

    type Take = Pin<Box<dyn Future<Output = Taken>>>;

    fn take(pool: &Arc<Pool>, client: Client, units: usize) -> Take {
        let pool = Arc::clone(pool);
        let mut take: Take = Box::pin(async move { pool.take(client, units).await });
        assert!(poll(&mut take).is_none(), "it has to wait");
        take
    }

    fn poll(take: &mut Take) -> Option<Taken> {
        match take.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(taken) => Some(taken),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_user_has_its_share_and_root_its_reserve() {
        let pool = pool();
        let one = pool.try_take(client(1, 1), 6).expect("a share");
        assert_eq!(
            pool.try_take(client(1, 2), 1).expect_err("more"),
            Full::Share { user: User::Uid(1), share: 6, total: 10 }
        );
        let two = pool.try_take(client(2, 3), 2).expect("the rest");
        assert_eq!(pool.try_take(client(2, 3), 1).expect_err("root's"), Full::All { total: 10 });
        let root = pool.try_take(client(0, 4), 2).expect("the reserve");
        assert_eq!(pool.try_take(client(0, 4), 1).expect_err("all"), Full::All { total: 10 });
        drop((one, two, root));
        assert_eq!(pool.used(), 0);
        let mut all = pool.try_take(client(0, 4), 5).expect("room");
        all.merge(pool.try_take(client(0, 4), 1).expect("room"));
        drop(all);
        let state = pool.state.lock();
        assert!(state.used == 0 && state.by_client.is_empty() && state.by_user.is_empty(), "{state:?}");
    }

    #[test]
    fn the_user_that_has_least_is_next_then_the_connection() {
        let pool = pool();
        let (one, two) = (pool.try_take(client(1, 1), 5), pool.try_take(client(2, 2), 3));
        let mut takes =
            [(1, 1), (1, 3), (2, 2), (3, 4)].map(|(uid, connection)| take(&pool, client(uid, connection), 1));
        let mut served = Vec::new();
        drop(two); // 2 and 3 have nothing, 2 came first; then 3, then 2's other... 1's idle connection
        let mut kept = Vec::new();
        for (index, take) in takes.iter_mut().enumerate() {
            if let Some(taken) = poll(take) {
                served.push(index);
                kept.push(taken);
            }
        }
        assert_eq!(served, [1, 2, 3], "the connection of user 1 that has something waits");
        drop(one);
        assert!(poll(&mut takes[0]).is_some());
    }

    #[test]
    fn a_large_one_is_not_overtaken_for_ever_and_a_full_share_holds_up_nobody() {
        let pool = pool();
        let one = pool.try_take(client(1, 1), 4).expect("room");
        let mut large = take(&pool, client(2, 2), 6);
        let mut small = take(&pool, client(3, 3), 1);
        assert!(poll(&mut small).is_none(), "the one before waits for room");
        let mut own = take(&pool, client(1, 1), 4);
        drop(one);
        let (two, three) = (poll(&mut large).expect("room"), poll(&mut small).expect("room"));
        assert!(poll(&mut own).is_none());
        let mut over = take(&pool, client(2, 5), 1);
        drop(three);
        drop(own);
        assert!(poll(&mut over).is_none(), "its share is full");
        drop(two);
        assert!(poll(&mut over).is_some());
    }

    #[test]
    fn clients_of_tcp_have_half_of_it_and_hold_up_no_user_of_the_machine() {
        let pool = pool();
        let one = pool.try_take(remote(0, 1), 3).expect("a share");
        let full = Full::Share { user: User::Remote(0), share: 3, total: 10 };
        assert_eq!(pool.try_take(remote(0, 2), 1).expect_err("its share"), full);
        let two = pool.try_take(remote(7, 3), 1).expect("the rest");
        assert_eq!(pool.try_take(remote(7, 3), 1).expect_err("half"), Full::Remote { most: 4, total: 10 });
        let mut large = take(&pool, remote(8, 4), 3);
        let mut small = take(&pool, remote(9, 5), 1);
        let local = pool.try_take(client(0, 6), 1).expect("not theirs");
        let mut more = pin!(pool.take(client(5, 7), 3));
        let more = more.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(more.is_ready(), "a user of the machine does not wait for them");
        drop(more);
        drop(two);
        assert!(poll(&mut large).is_none() && poll(&mut small).is_none(), "the large one is not overtaken");
        drop(one);
        let large = poll(&mut large).expect("room");
        assert!(poll(&mut small).is_some());
        drop((large, small, local));
        assert_eq!((pool.used(), pool.state.lock().remote), (0, 0));
    }

    #[test]
    fn who_does_not_wait_any_more_keeps_nothing() {
        let pool = pool();
        let one = pool.try_take(client(1, 1), 6).expect("room");
        let waiting = take(&pool, client(1, 1), 3);
        let mut next = take(&pool, client(1, 2), 3);
        drop(waiting);
        drop(one);
        let next = poll(&mut next).expect("room");
        assert_eq!(pool.used(), 3);
        drop(next);
        assert_eq!(pool.used(), 0);
        // More than there is at all is a share.
        let mut all = pin!(pool.take(client(1, 1), 100));
        let Poll::Ready(taken) = all.as_mut().poll(&mut Context::from_waker(Waker::noop())) else { panic!("room") };
        assert_eq!((taken.units, pool.used()), (6, 6));
    }

    proptest! {
        #[test]
        fn limits_hold_whatever_is_taken_and_given_back(
            steps in prop::collection::vec((0_u32..4, 0_u64..3, 1_usize..8, any::<bool>(), any::<prop::sample::Index>()), 1..80)
        ) {
            let pool = pool();
            let (mut kept, mut waiting): (Vec<Taken>, Vec<Take>) = (Vec::new(), Vec::new());
            for (uid, connection, units, gives_back, which) in steps {
                if gives_back && !kept.is_empty() {
                    kept.swap_remove(which.index(kept.len()));
                } else {
                    let pool = Arc::clone(&pool);
                    waiting.push(Box::pin(async move { pool.take(client(uid, connection), units).await }));
                }
                waiting.retain_mut(|take| match poll(take) {
                    Some(taken) => { kept.push(taken); false }
                    None => true,
                });
                let of = |uid: u32| kept.iter().filter(|taken| taken.client.user == User::Uid(uid)).map(|taken| taken.units).sum::<usize>();
                let all: usize = (0..4).map(of).sum();
                prop_assert_eq!(all, pool.used());
                prop_assert!(all <= LIMITS.total && (0..4).all(|uid| of(uid) <= LIMITS.share));
                prop_assert!(all - of(0) <= LIMITS.total - LIMITS.reserve);
            }
            // Nobody is left waiting when all is given back.
            for _ in 0..200 {
                kept.clear();
                waiting.retain_mut(|take| poll(take).is_none());
            }
            prop_assert!(waiting.is_empty());
            prop_assert_eq!(pool.used(), 0);
        }
    }
}
