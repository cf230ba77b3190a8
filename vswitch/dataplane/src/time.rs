//! Time as a value: the worker reads the clock once per burst and passes it on; tests pass what
//! they like.
//!
//! The clock of the process can be stopped and warped, for tests of a whole switch ([`stop`],
//! [`warp`]); it never goes backwards. Threads that keep a reading look at [`generation`] to see
//! that it is out of date.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Instant as StdInstant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the switch started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub u64);

/// Milliseconds since 1970-01-01 00:00:00 UTC, by the machine's clock: what others are told.
#[must_use]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Nanoseconds since 1970-01-01 00:00:00 UTC, by the machine's clock.
#[must_use]
pub fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// Milliseconds that the clock is ahead of the machine's.
static AHEAD: AtomicU64 = AtomicU64::new(0);

/// Where the clock stands, plus 1; 0: it runs.
static STOPPED: AtomicU64 = AtomicU64::new(0);

/// Rises whenever the clock is stopped or warped.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Stops the clock, for tests: from now on only [`warp`] moves it.
pub fn stop() {
    STOPPED.store(Millis::now().0 + 1, Release);
    GENERATION.fetch_add(1, Release);
}

/// Moves the clock forward, for tests. Readings that workers keep are out of date until they have
/// looked at [`generation`].
pub fn warp(ms: u64) {
    let clock = if STOPPED.load(Acquire) == 0 { &AHEAD } else { &STOPPED };
    clock.fetch_add(ms, Release);
    GENERATION.fetch_add(1, Release);
}

/// A number that rises whenever the clock is stopped or warped.
#[inline]
#[must_use]
pub fn generation() -> u64 {
    GENERATION.load(Acquire)
}

impl Millis {
    /// Now, from the monotonic clock.
    #[must_use]
    pub fn now() -> Self {
        static START: OnceLock<StdInstant> = OnceLock::new();
        match STOPPED.load(Acquire) {
            0 => {
                let elapsed = START.get_or_init(StdInstant::now).elapsed();
                Self(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).saturating_add(AHEAD.load(Relaxed)))
            }
            stopped => Self(stopped - 1),
        }
    }

    /// Whole seconds, wrapped to 32 bits: the age stamps of tables.
    #[must_use]
    pub const fn seconds(self) -> u32 {
        #[allow(clippy::cast_possible_truncation)] // 136 years of uptime
        {
            (self.0 / 1000) as u32
        }
    }
}
