//! Time as a value: the worker reads the clock once per burst and passes it on; tests pass what they like.

use std::sync::OnceLock;
use std::time::Instant as StdInstant;

/// Milliseconds since the switch started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub u64);

impl Millis {
    /// Now, from the monotonic clock.
    #[must_use]
    pub fn now() -> Self {
        static START: OnceLock<StdInstant> = OnceLock::new();
        let elapsed = START.get_or_init(StdInstant::now).elapsed();
        Self(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
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
