//! Health: what of the switch is watched, and how it is.
//!
//! **Where in the walk**: beside it. Probes, `vsctl health` and the service manager's watchdog ask
//! [`crate::Switch::health`].
//!
//! **Design**: each part has a name and a condition. A part that fails makes the switch as a whole
//! not healthy: it does not forward, or does not obey, and a watchdog is to start it again. A part
//! that is degraded is told by name only. A restart would interrupt forwarding, and would not make
//! a disk larger. Threads of the switch leave a sign of life in each round ([`Pulse`]). A thread
//! of a library is watched by what the kernel counts of it ([`Thread`]).
//!
//! **Limits**: the constants of this module.
//!
//! **Threads**: any. Asking takes no lock that a worker needs, and waits for nothing but a moment.

mod thread;

pub use thread::Thread;

use parking_lot::Mutex;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A thread of the switch without a sign of life for this long is degraded. A change that the
/// monitor makes waits 5 s for a worker.
const PULSE_MAX: Duration = Duration::from_secs(10);

/// A thread of a library that has not run for this long is degraded. It wakes every second.
pub const THREAD_MAX: Duration = Duration::from_secs(5);

/// A log whose reader has not read for this long is degraded.
const LOG_MAX: Duration = Duration::from_secs(2);

/// A state that is locked whenever somebody looks, for this long, is degraded. A large transaction
/// takes seconds.
const STATE_MAX: Duration = Duration::from_secs(5);

/// Then nothing obeys any more.
const STATE_LOST: Duration = Duration::from_secs(30);

/// Names of the parts, in the order in which they are told.
pub const PARTS: [&str; 8] = ["workers", "buffers", "state", "log", "disk", "monitor", "conntrack", "vhost"];

/// How a part is. The worst is the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// As it should be.
    #[default]
    Good,
    /// Something is missing; the switch forwards and obeys.
    Degraded,
    /// The switch does not forward, or does not obey.
    Failing,
}

/// One part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// One of [`PARTS`].
    pub name: &'static str,
    /// How it is.
    pub condition: Condition,
    /// Why; empty: it is good.
    pub reason: String,
}

/// All parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// In the order of [`PARTS`].
    pub parts: Vec<Part>,
}

impl Part {
    /// A part of that name, good without a reason.
    #[must_use]
    pub fn new(name: &'static str, bad: Option<(Condition, String)>) -> Self {
        let (condition, reason) = bad.unwrap_or_default();
        Self { name, condition, reason }
    }

    /// A part that a reason degrades.
    pub(crate) fn degraded(name: &'static str, reason: Option<String>) -> Self {
        Self::new(name, reason.map(|reason| (Condition::Degraded, reason)))
    }
}

impl Health {
    /// The switch forwards and obeys: no part fails.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.parts.iter().all(|part| part.condition != Condition::Failing)
    }
}

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

fn ms(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(*EPOCH).as_millis()).unwrap_or(u64::MAX - 1)
}

/// Milliseconds since the switch was started.
#[must_use]
pub fn up_ms() -> u64 {
    ms(Instant::now())
}

/// When a thread was last seen.
#[derive(Debug)]
pub(crate) struct Pulse(AtomicU64);

impl Pulse {
    /// Of a thread that is about to start.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(ms(Instant::now())))
    }

    /// The thread has begun another round.
    pub(crate) fn beat(&self) {
        self.0.store(ms(Instant::now()), Relaxed);
    }

    /// The part of that thread.
    pub(crate) fn part(&self, name: &'static str, without: &str, now: Instant) -> Part {
        let age = Duration::from_millis(ms(now).saturating_sub(self.0.load(Relaxed)));
        let reason = || format!("its thread has not been seen for {} s: {without}", age.as_secs());
        Part::degraded(name, (age >= PULSE_MAX).then(reason))
    }
}

/// Since when a lock has been held at each look.
#[derive(Debug, Default)]
pub(crate) struct Busy(Mutex<Option<Instant>>);

impl Busy {
    /// A look; the part of the state.
    pub(crate) fn part(&self, is_held: bool, now: Instant) -> Part {
        let mut since = self.0.lock();
        *since = if is_held { since.or(Some(now)) } else { None };
        let held = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let condition = if held >= STATE_LOST { Condition::Failing } else { Condition::Degraded };
        let reason = || format!("the state has been locked for {} s: changes wait", held.as_secs());
        Part::new("state", (held >= STATE_MAX).then(|| (condition, reason())))
    }
}

/// The part of the log.
pub(crate) fn log(stuck_ms: u64) -> Part {
    let stuck = Duration::from_millis(stuck_ms);
    let reason =
        || format!("the log's reader has not read for {} s; `vsctl log-show` counts lost lines", stuck.as_secs());
    Part::degraded("log", (stuck >= LOG_MAX).then(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_told_by_the_whole_and_what_is_degraded_is_not() {
        let health = |condition| Health { parts: vec![Part::new("disk", Some((condition, "full".to_owned())))] };
        assert!(health(Condition::Good).is_serving() && health(Condition::Degraded).is_serving());
        assert!(!health(Condition::Failing).is_serving());
        assert!(Condition::Good < Condition::Degraded && Condition::Degraded < Condition::Failing);
    }

    #[test]
    fn a_thread_that_is_not_seen_is_degraded() {
        let pulse = Pulse::new();
        let (now, without) = (Instant::now(), "no ageing");
        assert_eq!(pulse.part("monitor", without, now).condition, Condition::Good);
        let part = pulse.part("monitor", without, now + PULSE_MAX + Duration::from_secs(2));
        assert_eq!(part.condition, Condition::Degraded);
        assert_eq!(part.reason, "its thread has not been seen for 12 s: no ageing");
        pulse.beat();
        assert_eq!(pulse.part("monitor", without, Instant::now()).condition, Condition::Good);
    }

    #[test]
    fn a_state_that_is_always_locked_is_degraded_and_then_fails() {
        let (busy, now) = (Busy::default(), Instant::now());
        let after = |held, seconds| busy.part(held, now + Duration::from_secs(seconds)).condition;
        assert_eq!(
            [after(true, 0), after(true, 4), after(true, 5)],
            [Condition::Good, Condition::Good, Condition::Degraded]
        );
        assert_eq!(after(true, 30), Condition::Failing);
        assert_eq!([after(false, 31), after(true, 32), after(true, 36)], [Condition::Good; 3], "it begins anew");
    }

    #[test]
    fn a_log_that_is_not_read_is_degraded() {
        assert_eq!(log(1999).condition, Condition::Good);
        let part = log(12_345);
        assert_eq!(part.condition, Condition::Degraded);
        assert_eq!(part.reason, "the log's reader has not read for 12 s; `vsctl log-show` counts lost lines");
    }
}
