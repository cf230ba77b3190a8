//! The call that runs here: its id, and what it is about.

use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Makes ids of calls: a word that differs between starts of the server, and a number.
#[derive(Debug)]
pub(super) struct Ids {
    start: u32,
    last: AtomicU64,
}

impl Ids {
    pub(super) fn new() -> Self {
        let random = RandomState::new().hash_one(std::process::id());
        Self { start: (random >> 32) as u32, last: AtomicU64::new(0) }
    }

    pub(super) fn next(&self) -> String {
        format!("{:08x}-{}", self.start, self.last.fetch_add(1, Relaxed) + 1)
    }
}

/// A call.
#[derive(Debug)]
pub(crate) struct Request {
    /// Its id, as the client sees it (`x-request-id`).
    pub(crate) id: String,
    /// What it is about; empty until its handler knows.
    names: Mutex<String>,
}

impl Request {
    pub(super) fn new(id: String) -> Self {
        Self { id, names: Mutex::default() }
    }

    /// Notes what it is about: quoted names.
    pub(crate) fn set_names(&self, names: &str) {
        names.clone_into(&mut self.names.lock());
    }

    pub(super) fn names(&self) -> String {
        self.names.lock().clone()
    }
}

tokio::task_local! {
    /// The call whose handler runs here.
    pub(super) static REQUEST: Arc<Request>;
}

/// The call that runs here; none: it is no call's task.
pub(crate) fn current() -> Option<Arc<Request>> {
    REQUEST.try_with(Arc::clone).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_within_a_start_and_between_starts() {
        let (one, other) = (Ids::new(), Ids::new());
        let (first, second) = (one.next(), one.next());
        assert!(first.ends_with("-1") && second.ends_with("-2"), "{first} {second}");
        assert_ne!(first, other.next());
    }
}
