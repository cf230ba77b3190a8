//! From one who tells to several who read, none of whom holds up anybody: what a reader falls
//! behind by is lost to it, and counted.
//!
//! What is told has numbers, counted since the start, and so has what was lost before it came here.
//! A reader counts the numbers that it does not get. There is one queue for all readers; what all
//! have read is let go.
//!
//! **Limits**: [`ANTREA_EVENTS_QUEUED`] and [`ANTREA_EVENTS_BYTES`] wait for the slowest reader;
//! beyond, the oldest goes.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::watch;
use vswitch_dataplane::limits::{ANTREA_EVENTS_BYTES, ANTREA_EVENTS_QUEUED};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::watch_events_response::Event;

/// How many a reader takes at a time.
const BATCH: usize = 256;
/// Bytes that a reader takes at a time, about.
const BATCH_BYTES: usize = 1 << 20;

/// What can be told.
pub trait Tell {
    /// Bytes that it takes on its way to a client.
    fn encoded(&self) -> usize;
}

impl Tell for Event {
    fn encoded(&self) -> usize {
        self.encoded_len()
    }
}

impl Tell for v1::FlowRecord {
    fn encoded(&self) -> usize {
        prost::Message::encoded_len(self)
    }
}

#[derive(Debug)]
struct Item<T> {
    number: u64,
    /// About.
    bytes: usize,
    item: Arc<T>,
}

/// What some have not read yet, the oldest first.
#[derive(Debug)]
struct Queue<T> {
    items: VecDeque<Item<T>>,
    bytes: usize,
    /// Number of the next one.
    next: u64,
    /// The number that each reader is at.
    readers: BTreeMap<u64, u64>,
    /// Readers so far.
    began: u64,
}

impl<T> Queue<T> {
    fn drop_oldest(&mut self) {
        if let Some(item) = self.items.pop_front() {
            self.bytes -= item.bytes;
        }
    }

    /// What all have read goes.
    fn let_go(&mut self) {
        let wanted = self.readers.values().min().copied().unwrap_or(u64::MAX);
        while self.items.front().is_some_and(|item| item.number < wanted) {
            self.drop_oldest();
        }
    }

    /// What a reader has not read yet, and how many before that it cannot get any more.
    fn take(&mut self, reader: u64) -> (Vec<Arc<T>>, u64) {
        let Some(at) = self.readers.get(&reader).copied() else { return Default::default() };
        let from = self.items.partition_point(|item| item.number < at);
        let mut next = self.items.get(from).map_or(self.next, |item| item.number);
        let behind = next - at;
        let (mut items, mut bytes) = (Vec::new(), 0);
        for item in self.items.range(from..).take(BATCH) {
            // Others are missing in front of it, or it is too much for once.
            if item.number != next || bytes > BATCH_BYTES {
                break;
            }
            next += 1;
            bytes += item.bytes;
            items.push(Arc::clone(&item.item));
        }
        self.readers.insert(reader, next);
        self.let_go();
        (items, behind)
    }
}

/// What several read.
#[derive(Debug)]
pub(crate) struct Topic<T> {
    queue: Arc<Mutex<Queue<T>>>,
    /// How many were not even told, since the start. Sent, too, when there is something to read.
    limited: watch::Sender<u64>,
}

impl<T> Default for Topic<T> {
    fn default() -> Self {
        let queue = Queue { items: VecDeque::new(), bytes: 0, next: 0, readers: BTreeMap::new(), began: 0 };
        Self { queue: Arc::new(Mutex::new(queue)), limited: watch::Sender::default() }
    }
}

impl<T: Tell> Topic<T> {
    /// All from now on.
    pub(super) fn read(&self) -> Reader<T> {
        let limited = self.limited.subscribe();
        let before = *limited.borrow();
        let mut queue = self.queue.lock();
        queue.began += 1;
        let (id, next) = (queue.began, queue.next);
        queue.readers.insert(id, next);
        drop(queue);
        Reader { queue: Arc::clone(&self.queue), id, limited, before, told: 0 }
    }

    /// How many read.
    pub(super) fn readers(&self) -> usize {
        self.queue.lock().readers.len()
    }

    /// Tells those who read.
    pub(super) fn tell(&self, items: Vec<T>) {
        let mut queue = self.queue.lock();
        if items.is_empty() || queue.readers.is_empty() {
            return;
        }
        for item in items {
            let (number, bytes) = (queue.next, size_of::<T>() + item.encoded());
            queue.next += 1;
            queue.bytes += bytes;
            queue.items.push_back(Item { number, bytes, item: Arc::new(item) });
            while queue.items.len() > ANTREA_EVENTS_QUEUED || queue.bytes > ANTREA_EVENTS_BYTES {
                queue.drop_oldest();
            }
        }
        drop(queue);
        self.limited.send_modify(|_| ());
    }

    /// So many were lost on their way here.
    pub(super) fn lose(&self, lost: u64) {
        if lost > 0 {
            self.queue.lock().next += lost;
            self.limited.send_modify(|_| ());
        }
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
pub struct Reader<T> {
    queue: Arc<Mutex<Queue<T>>>,
    id: u64,
    limited: watch::Receiver<u64>,
    /// What `limited` was when the subscription began.
    before: u64,
    /// What of `limited` was told.
    told: u64,
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        let mut queue = self.queue.lock();
        queue.readers.remove(&self.id);
        queue.let_go();
    }
}

/// What a reader is told at once.
#[derive(Debug)]
pub struct Delivery<T> {
    /// Oldest first; may be none.
    pub items: Vec<Arc<T>>,
    /// How many were lost before these.
    pub behind: u64,
    /// How many were not even told since the subscription began.
    pub limited: u64,
}

impl<T> Reader<T> {
    /// The next ones, or how many were lost; None when nobody tells any more.
    pub async fn next(&mut self) -> Option<Delivery<T>> {
        loop {
            // Seen before it is looked for: what comes meanwhile is a change.
            let limited = self.limited.borrow_and_update().saturating_sub(self.before);
            let (items, behind) = self.queue.lock().take(self.id);
            if !items.is_empty() || behind > 0 || limited != self.told {
                self.told = limited;
                return Some(Delivery { items, behind, limited });
            }
            self.limited.changed().await.ok()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Of so many bytes.
    impl Tell for usize {
        fn encoded(&self) -> usize {
            *self
        }
    }

    async fn next(reader: &mut Reader<usize>) -> (Vec<usize>, u64, u64) {
        let told = tokio::time::timeout(Duration::from_secs(5), reader.next()).await;
        let Delivery { items, behind, limited } = told.expect("something within 5 s").expect("a topic");
        (items.iter().map(|item| **item).collect(), behind, limited)
    }

    fn queued(topic: &Topic<usize>) -> usize {
        topic.queue.lock().items.len()
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
        topic.tell((0..ANTREA_EVENTS_QUEUED).map(|_| 0).collect());
        let first = next(&mut one).await;
        assert_eq!((first.0.len(), first.1), (BATCH, 4));
        let first = next(&mut other).await;
        assert_eq!((first.0.len(), first.1), (BATCH, 6), "2, 3 and those that never came");
        topic.limit(7);
        assert_eq!(next(&mut other).await.2, 7);
        assert_eq!(topic.readers(), 2);
        drop((one, topic));
        let mut left = 0;
        while let Some(told) = other.next().await {
            left += told.items.len();
        }
        assert_eq!(left, ANTREA_EVENTS_QUEUED - 2 * BATCH, "it ends when all is read");
    }

    #[tokio::test]
    async fn losses_are_told_though_nothing_else_comes() {
        let topic = Topic::<usize>::default();
        let mut reader = topic.read();
        assert!(tokio::time::timeout(Duration::from_millis(50), reader.next()).await.is_err(), "nothing has happened");
        // It waits when they are lost.
        let (told, ()) = tokio::join!(next(&mut reader), async {
            topic.lose(3);
        });
        assert_eq!(told, (vec![], 3, 0));
        topic.tell(vec![1]);
        topic.lose(2);
        topic.tell(vec![2]);
        assert_eq!(next(&mut reader).await, (vec![1], 0, 0));
        assert_eq!(next(&mut reader).await, (vec![2], 2, 0), "where they are missing");
    }

    #[tokio::test]
    async fn what_waits_is_bounded_by_number_and_by_size() {
        let topic = Topic::default();
        let (mut slow, mut fast) = (topic.read(), topic.read());
        for _ in 0..2 {
            topic.tell(vec![0; ANTREA_EVENTS_QUEUED]);
        }
        assert_eq!(queued(&topic), ANTREA_EVENTS_QUEUED);
        assert_eq!(next(&mut fast).await.1, ANTREA_EVENTS_QUEUED as u64);
        topic.tell(vec![ANTREA_EVENTS_BYTES / 4; 9]);
        assert!((1..=4).contains(&queued(&topic)) && topic.queue.lock().bytes <= ANTREA_EVENTS_BYTES);
        // One that is too long for any queue is lost, and nothing else is in its way.
        topic.tell(vec![ANTREA_EVENTS_BYTES, 7]);
        assert_eq!(next(&mut slow).await, (vec![7], 2 * ANTREA_EVENTS_QUEUED as u64 + 10, 0));
        assert_eq!(queued(&topic), 1, "the other one has not read it");
        drop(fast);
        assert_eq!((queued(&topic), topic.queue.lock().bytes), (0, 0), "all who read have it");
        topic.tell(vec![1, 2]);
        drop(slow);
        assert_eq!((queued(&topic), topic.readers()), (0, 0));
        topic.tell(vec![3]);
        assert_eq!(queued(&topic), 0, "nobody reads");
    }
}
