//! What happened to connections, for those who want to know: a bounded queue. As long as nobody
//! does, it costs one load where something happens.

use super::Connection;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Something happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// To whom, as it is now.
    pub connection: Connection,
}

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Committed.
    New,
    /// First reply, TCP state, mark or label changed.
    Update,
    /// Gone: expired, flushed, replaced, dropped early, or forgotten.
    End,
}

/// Events that are taken under one hold of the lock: a worker that has one to tell waits no longer
/// than that.
const BATCH: usize = 32;

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    max: usize,
}

/// What happened to connections, queued for the control side while a client watches. What does not
/// fit is counted as lost.
#[derive(Debug, Default)]
pub(super) struct Events {
    on: AtomicBool,
    lost: AtomicU64,
    queue: Mutex<Queue>,
}

impl Events {
    /// Whether anybody wants to know.
    #[inline]
    pub(super) fn on(&self) -> bool {
        self.on.load(Relaxed)
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Memory for them is taken here, not when they happen.
    pub(super) fn keep(&self, max: usize) {
        let mut queue = Queue { events: VecDeque::with_capacity(max), max };
        let mut now = self.queue.lock();
        queue.events.extend(now.events.drain(..).take(max));
        *now = queue;
        self.on.store(max > 0, Relaxed);
    }

    #[cold]
    pub(super) fn push(&self, event: Event) {
        let mut queue = self.queue.lock();
        if queue.events.len() < queue.max {
            queue.events.push_back(event);
        } else if queue.max > 0 {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn take(&self, max: usize) -> Vec<Event> {
        let mut taken = Vec::new();
        while taken.len() < max {
            let batch = BATCH.min(max - taken.len());
            taken.reserve(batch);
            let mut queue = self.queue.lock();
            let batch = batch.min(queue.events.len());
            if batch == 0 {
                break;
            }
            taken.extend(queue.events.drain(..batch));
        }
        taken
    }
}
