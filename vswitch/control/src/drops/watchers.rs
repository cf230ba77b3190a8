//! Who watches drops, and how samples reach them.

use crate::info::SwitchError;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::broadcast;
use vswitch_dataplane::limits::{DROP_EVENTS_QUEUED, DROP_WATCHERS_MAX};
use vswitch_dataplane::observe::{Direction, DropReason, DropSampler};

/// A packet that died, with names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropEvent {
    /// Why.
    pub reason: DropReason,
    /// Name of the bridge of the port.
    pub bridge: String,
    /// The port where it is counted.
    pub port: String,
    /// Whether it came in by the port or was to leave by it.
    pub direction: Direction,
    /// Index of the worker.
    pub worker: usize,
    /// Core of the worker.
    pub core: u32,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Second of the worker's clock, which rates are kept by.
    pub second: u64,
    /// Bytes of the whole packet; 0: it was not at hand.
    pub len: usize,
    /// The first of them.
    pub bytes: Vec<u8>,
    /// What decided so, where a decision did.
    pub decider: Option<DropDecider>,
}

/// The rule that decided that a packet dies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropDecider {
    /// Name of its bridge.
    pub bridge: String,
    /// Number of its table.
    pub table: u8,
    /// Name of the table; empty: it has none.
    pub table_name: String,
    /// Its cookie. None: no rule of the table matched.
    pub cookie: Option<u64>,
}

/// Rates that watchers ask for, by their numbers.
#[derive(Debug, Default)]
struct Asked {
    last: u64,
    rates: BTreeMap<u64, u32>,
}

/// All watchers.
#[derive(Debug)]
pub struct Watchers {
    samplers: Arc<[Arc<DropSampler>]>,
    asked: Mutex<Asked>,
    events: broadcast::Sender<Arc<DropEvent>>,
}

impl Watchers {
    /// Of the workers of these samplers.
    #[must_use]
    pub fn new(samplers: Arc<[Arc<DropSampler>]>) -> Arc<Self> {
        let (events, _) = broadcast::channel(DROP_EVENTS_QUEUED);
        Arc::new(Self { samplers, asked: Mutex::default(), events })
    }

    /// Samples from now on, `rate` per second of each reason and worker.
    ///
    /// # Errors
    /// When there are too many watchers.
    pub fn watch(self: &Arc<Self>, rate: u32) -> Result<DropStream, SwitchError> {
        let mut asked = self.asked.lock();
        if asked.rates.len() >= DROP_WATCHERS_MAX {
            return Err(SwitchError::Exhausted { what: "watchers of drops", limit: DROP_WATCHERS_MAX });
        }
        if asked.rates.is_empty() {
            // Left over from the last time.
            self.samplers.iter().for_each(|sampler| while sampler.take().is_some() {});
        }
        let events = self.events.subscribe();
        asked.last += 1;
        let number = asked.last;
        asked.rates.insert(number, rate.max(1));
        self.set_rate(&asked);
        let mut stream = DropStream { events, begun: Vec::new(), watchers: Arc::clone(self), number };
        stream.begun = DropReason::ALL.iter().map(|reason| stream.counted(*reason)).collect();
        Ok(stream)
    }

    fn set_rate(&self, asked: &Asked) {
        let rate = asked.rates.values().max().copied().unwrap_or(0);
        self.samplers.iter().for_each(|sampler| sampler.set_rate(rate));
    }

    /// Hands all samples that wait to the watchers. `named`: with names.
    pub fn tell(&self, mut named: impl FnMut(vswitch_dataplane::observe::DropSample) -> DropEvent) {
        for sampler in self.samplers.iter() {
            // A worker may go on meanwhile: not for ever.
            for _ in 0..DROP_EVENTS_QUEUED {
                let Some(sample) = sampler.take() else { break };
                // Without watchers it is the rest of what the last one asked for.
                let _ = self.events.send(Arc::new(named(sample)));
            }
        }
    }
}

/// Samples for one watcher. When it is dropped, nothing is sampled for it any more.
#[derive(Debug)]
pub struct DropStream {
    /// The samples of all who watch. A slow reader is told how many it lost.
    pub events: broadcast::Receiver<Arc<DropEvent>>,
    /// By reason: what was counted when it began.
    begun: Vec<(u64, u64)>,
    watchers: Arc<Watchers>,
    number: u64,
}

impl DropStream {
    fn counted(&self, reason: DropReason) -> (u64, u64) {
        let samplers = self.watchers.samplers.iter();
        samplers.fold((0, 0), |(suppressed, lost), sampler| {
            (suppressed + sampler.suppressed(reason), lost + sampler.lost(reason))
        })
    }

    /// Drops of a reason since this began that were not sampled: as the reason had its share of a
    /// second, and as the control side did not keep up.
    #[must_use]
    pub fn not_sampled(&self, reason: DropReason) -> (u64, u64) {
        let (suppressed, lost) = self.counted(reason);
        let (suppressed_then, lost_then) = self.begun.get(reason.index()).copied().unwrap_or_default();
        (suppressed - suppressed_then, lost - lost_then)
    }
}

impl Drop for DropStream {
    fn drop(&mut self) {
        let mut asked = self.watchers.asked.lock();
        asked.rates.remove(&self.number);
        self.watchers.set_rate(&asked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(watchers: &Watchers) -> Vec<u32> {
        watchers.samplers.iter().map(|sampler| sampler.rate()).collect()
    }

    #[test]
    fn workers_sample_at_the_highest_rate_that_is_asked_for_and_not_at_all_without_watchers() {
        let watchers = Watchers::new((0..2).map(|worker| Arc::new(DropSampler::new(worker))).collect());
        assert_eq!(rates(&watchers), [0, 0]);
        let slow = watchers.watch(0).expect("a watcher");
        assert_eq!(rates(&watchers), [1, 1], "one at least");
        let fast = watchers.watch(50).expect("a watcher");
        assert_eq!(rates(&watchers), [50, 50]);
        drop(fast);
        assert_eq!(rates(&watchers), [1, 1]);
        drop(slow);
        assert_eq!(rates(&watchers), [0, 0]);
    }

    #[test]
    fn there_are_not_more_watchers_than_allowed_and_one_that_goes_makes_room() {
        let watchers = Watchers::new([Arc::new(DropSampler::new(0))].into());
        let mut all: Vec<_> = (0..DROP_WATCHERS_MAX).map(|_| watchers.watch(10).expect("room")).collect();
        assert!(matches!(watchers.watch(10), Err(SwitchError::Exhausted { .. })));
        all.pop();
        watchers.watch(10).expect("room again");
    }
}
