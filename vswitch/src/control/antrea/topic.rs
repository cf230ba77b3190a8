//! From one who tells to several who read, none of whom holds up anybody: what a reader falls behind by is lost to it, and counted.

use crate::limits::ANTREA_EVENTS_QUEUED;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

/// What is told at once, oldest first.
#[derive(Debug)]
struct Batch<T> {
    /// Number of the first one, counted since the start; those that were lost before they came here have numbers too.
    first: u64,
    items: Vec<T>,
}

/// What several read.
#[derive(Debug)]
pub(in crate::control) struct Topic<T> {
    sender: broadcast::Sender<Arc<Batch<T>>>,
    /// Number of the next one.
    next: Mutex<u64>,
    /// How many were not even told, since the start.
    limited: watch::Sender<u64>,
}

impl<T> Default for Topic<T> {
    fn default() -> Self {
        Self {
            sender: broadcast::channel(ANTREA_EVENTS_QUEUED).0,
            next: Mutex::default(),
            limited: watch::Sender::default(),
        }
    }
}

impl<T> Topic<T> {
    /// All from now on.
    pub(super) fn read(&self) -> Reader<T> {
        let next = self.next.lock();
        let (receiver, limited) = (self.sender.subscribe(), self.limited.subscribe());
        let before = *limited.borrow();
        Reader { receiver, next: *next, limited, before }
    }

    /// How many read.
    pub(super) fn readers(&self) -> usize {
        self.sender.receiver_count()
    }

    /// Tells those who read.
    pub(super) fn tell(&self, items: Vec<T>) {
        if items.is_empty() || self.readers() == 0 {
            return;
        }
        let mut next = self.next.lock();
        let first = *next;
        *next += items.len() as u64;
        let _ = self.sender.send(Arc::new(Batch { first, items })); // the last one may just have gone
    }

    /// So many were lost on their way here.
    pub(super) fn lose(&self, lost: u64) {
        *self.next.lock() += lost;
    }

    /// So many more were not even told.
    pub(super) fn limit(&self, more: u64) {
        if more > 0 {
            self.limited.send_modify(|limited| *limited += more);
        }
    }
}

/// A subscription.
#[derive(Debug)]
pub(in crate::control) struct Reader<T> {
    receiver: broadcast::Receiver<Arc<Batch<T>>>,
    next: u64,
    limited: watch::Receiver<u64>,
    /// What `limited` was when the subscription began.
    before: u64,
}

/// What a reader is told at once.
#[derive(Debug)]
pub(in crate::control) struct Told<T> {
    /// Oldest first; may be none.
    pub(in crate::control) items: Vec<T>,
    /// How many were lost before these.
    pub(in crate::control) behind: u64,
    /// How many were not even told since the subscription began.
    pub(in crate::control) limited: u64,
}

impl<T: Clone> Reader<T> {
    /// The next ones; None when nobody tells any more.
    pub(in crate::control) async fn next(&mut self) -> Option<Told<T>> {
        loop {
            tokio::select! {
                batch = self.receiver.recv() => match batch {
                    Ok(batch) => {
                        let behind = batch.first.saturating_sub(self.next);
                        self.next = batch.first + batch.items.len() as u64;
                        return Some(Told { items: batch.items.clone(), behind, limited: self.limited() });
                    }
                    // The numbers of the next batch say how many these were.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                },
                changed = self.limited.changed() => {
                    changed.ok()?;
                    return Some(Told { items: Vec::new(), behind: 0, limited: self.limited() });
                }
            }
        }
    }

    fn limited(&mut self) -> u64 {
        self.limited.borrow_and_update().saturating_sub(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn next(reader: &mut Reader<u32>) -> (Vec<u32>, u64, u64) {
        let told = tokio::time::timeout(std::time::Duration::from_secs(5), reader.next()).await;
        let told = told.expect("something within 5 s").expect("a topic");
        (told.items, told.behind, told.limited)
    }

    #[tokio::test]
    async fn each_reader_has_its_own_losses() {
        let topic = Topic::default();
        topic.tell(vec![1]);
        topic.limit(5);
        let (mut one, mut other) = (topic.read(), topic.read());
        topic.tell(vec![2, 3]);
        assert_eq!(next(&mut one).await, (vec![2, 3], 0, 0), "what was before is not its");
        topic.lose(4);
        for item in (0..).take(ANTREA_EVENTS_QUEUED) {
            topic.tell(vec![item]);
        }
        assert_eq!(next(&mut one).await, (vec![0], 4, 0));
        assert_eq!(next(&mut other).await, (vec![0], 6, 0), "2, 3 and those that never came");
        topic.limit(7);
        let mut limited = 0;
        while limited == 0 {
            limited = next(&mut other).await.2;
        }
        assert_eq!((limited, topic.readers()), (7, 2));
        drop((one, topic));
        let mut left = 0;
        while other.next().await.is_some() {
            left += 1;
        }
        assert!(left < ANTREA_EVENTS_QUEUED, "it ends");
    }
}
