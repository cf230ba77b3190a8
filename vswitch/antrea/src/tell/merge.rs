//! The same thing again is told once, with how often it was.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// What came lately, by what makes it the same. Time is the caller's, in milliseconds; it does not
/// go back.
#[derive(Debug)]
pub struct Merged<K, V> {
    waiting: HashMap<K, V>,
    /// In the order of their first ones, with when those came.
    order: VecDeque<(u64, K)>,
    window_ms: u64,
    max: usize,
}

impl<K: Clone + Eq + Hash, V> Merged<K, V> {
    /// Things that come within `window_ms` of the first one are one. At most `max` wait.
    #[must_use]
    pub fn new(window_ms: u64, max: usize) -> Self {
        Self { waiting: HashMap::new(), order: VecDeque::new(), window_ms, max }
    }

    /// Something came: `first` if it is new, else `again` says what becomes of what waits. If there
    /// is no room, the oldest is told early: returned.
    pub fn add(&mut self, now: u64, key: K, first: impl FnOnce() -> V, again: impl FnOnce(&mut V)) -> Option<V> {
        if let Some(waiting) = self.waiting.get_mut(&key) {
            again(waiting);
            return None;
        }
        let early = if self.order.len() >= self.max { self.take_oldest() } else { None };
        self.order.push_back((now, key.clone()));
        self.waiting.insert(key, first());
        early
    }

    /// What has waited long enough, oldest first.
    pub fn due(&mut self, now: u64) -> Vec<V> {
        let mut due = Vec::new();
        while self.order.front().is_some_and(|(since, _)| now.saturating_sub(*since) >= self.window_ms) {
            due.extend(self.take_oldest());
        }
        due
    }

    /// Nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn take_oldest(&mut self) -> Option<V> {
        let (_, key) = self.order.pop_front()?;
        self.waiting.remove(&key)
    }
}
