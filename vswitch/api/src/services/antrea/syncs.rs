//! Syncs that are being received: one per user, the newest.

use crate::shares::User;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use tokio::sync::oneshot;
use tonic::Status;

/// Users that may sync at a time, and those of them that are not root.
const USERS_MAX: usize = 4;
const OTHERS_MAX: usize = 3;

/// Syncs by user.
#[derive(Debug, Default)]
pub(super) struct Syncs(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: u64,
    by_user: BTreeMap<User, Receiving>,
}

#[derive(Debug)]
struct Receiving {
    number: u64,
    round: u64,
    replaced: oneshot::Sender<()>,
}

impl Syncs {
    /// Begins to receive one. An earlier one of the user that is of no later round ends.
    ///
    /// # Errors
    /// The user sends a later round, or too many users send one.
    pub(super) fn begin(&self, user: User, round: u64) -> Result<Begun<'_>, Status> {
        let mut state = self.0.lock();
        state.last += 1;
        let number = state.last;
        if let Some(before) = state.by_user.get(&user) {
            if before.round > round {
                let text = format!("begin.round: {round}: round {} is being received; begin a later one", before.round);
                return Err(Status::failed_precondition(text));
            }
        } else {
            let others = state.by_user.keys().filter(|user| **user != User::ROOT).count();
            if state.by_user.len() >= USERS_MAX || user != User::ROOT && others >= OTHERS_MAX {
                return Err(Status::resource_exhausted("syncs of too many users are being received; try again"));
            }
        }
        let (replaced, is_replaced) = oneshot::channel();
        if let Some(before) = state.by_user.insert(user, Receiving { number, round, replaced }) {
            let _ = before.replaced.send(()); // its call may have ended
        }
        Ok(Begun { syncs: self, user, number, is_replaced })
    }
}

/// A sync that is being received, until this is dropped.
#[derive(Debug)]
pub(super) struct Begun<'a> {
    syncs: &'a Syncs,
    user: User,
    number: u64,
    is_replaced: oneshot::Receiver<()>,
}

impl Begun<'_> {
    /// Ends with an error when another sync takes its place.
    pub(super) async fn replaced(&mut self) -> Status {
        let _ = (&mut self.is_replaced).await; // (The sender is dropped with it only.)
        Status::aborted("another sync has begun; nothing was changed")
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let mut state = self.syncs.0.lock();
        if state.by_user.get(&self.user).is_some_and(|receiving| receiving.number == self.number) {
            state.by_user.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[tokio::test]
    async fn the_newest_of_a_user_counts_and_users_do_not_end_each_other() {
        let syncs = Syncs::default();
        let mut first = syncs.begin(User::Uid(7), 5).expect("room");
        let other = syncs.begin(User::Uid(8), 1).expect("another user's");
        assert_eq!(syncs.begin(User::Uid(7), 4).expect_err("an earlier round").code(), Code::FailedPrecondition);
        let second = syncs.begin(User::Uid(7), 5).expect("the same round");
        assert_eq!(first.replaced().await.code(), Code::Aborted);
        drop(first);
        assert_eq!(syncs.0.lock().by_user.len(), 2, "the second one is still there");
        let third = syncs.begin(User::Uid(9), 1).expect("room");
        assert_eq!(syncs.begin(User::Uid(10), 1).expect_err("a fourth user").code(), Code::ResourceExhausted);
        let root = syncs.begin(User::Uid(0), 1).expect("root's");
        drop((second, other, third, root));
        assert!(syncs.0.lock().by_user.is_empty());
    }
}
