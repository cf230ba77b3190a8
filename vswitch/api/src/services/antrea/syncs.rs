//! Syncs that are being received: one per user, the newest.

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
    by_uid: BTreeMap<u32, Receiving>,
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
    pub(super) fn begin(&self, uid: u32, round: u64) -> Result<Begun<'_>, Status> {
        let mut state = self.0.lock();
        state.last += 1;
        let number = state.last;
        if let Some(before) = state.by_uid.get(&uid) {
            if before.round > round {
                let text = format!("begin.round: {round}: round {} is being received; begin a later one", before.round);
                return Err(Status::failed_precondition(text));
            }
        } else {
            let others = state.by_uid.keys().filter(|uid| **uid != 0).count();
            if state.by_uid.len() >= USERS_MAX || uid != 0 && others >= OTHERS_MAX {
                return Err(Status::resource_exhausted("syncs of too many users are being received; try again"));
            }
        }
        let (replaced, is_replaced) = oneshot::channel();
        if let Some(before) = state.by_uid.insert(uid, Receiving { number, round, replaced }) {
            let _ = before.replaced.send(()); // its call may have ended
        }
        Ok(Begun { syncs: self, uid, number, is_replaced })
    }
}

/// A sync that is being received, until this is dropped.
#[derive(Debug)]
pub(super) struct Begun<'a> {
    syncs: &'a Syncs,
    uid: u32,
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
        if state.by_uid.get(&self.uid).is_some_and(|receiving| receiving.number == self.number) {
            state.by_uid.remove(&self.uid);
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
        let mut first = syncs.begin(7, 5).expect("room");
        let other = syncs.begin(8, 1).expect("another user's");
        assert_eq!(syncs.begin(7, 4).expect_err("an earlier round").code(), Code::FailedPrecondition);
        let second = syncs.begin(7, 5).expect("the same round");
        assert_eq!(first.replaced().await.code(), Code::Aborted);
        drop(first);
        assert_eq!(syncs.0.lock().by_uid.len(), 2, "the second one is still there");
        let third = syncs.begin(9, 1).expect("room");
        assert_eq!(syncs.begin(10, 1).expect_err("a fourth user").code(), Code::ResourceExhausted);
        let root = syncs.begin(0, 1).expect("root's");
        drop((second, other, third, root));
        assert!(syncs.0.lock().by_uid.is_empty());
    }
}
