//! What became of the lines of this process's log. A process has one log, so this is one static.
//!
//! **Design**: the daemon's log counts here. The API reads without asking the switch, whose locks
//! may be held.
//!
//! **Threads**: any; nobody waits.

use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tracing::Level;

/// The log of this process.
pub static LOG: LogState = LogState::new();

/// Levels, the most severe first.
pub const LEVELS: [Level; 5] = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Counters of a log.
#[derive(Debug)]
pub struct LogState {
    lost: [AtomicU64; LEVELS.len()],
    left_out: AtomicU64,
    /// When the write that goes on began, in milliseconds since [`EPOCH`] plus 1; 0: none does.
    writing: AtomicU64,
}

/// A reading of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogInfo {
    /// Lines that were lost, in the order of [`LEVELS`].
    pub lost: [u64; LEVELS.len()],
    /// Lines that were left out, because too many of their kind came within a second.
    pub left_out: u64,
    /// Milliseconds for which the writer has waited for the reader of the log.
    pub stuck_ms: u64,
}

/// Place of a level in [`LEVELS`].
#[must_use]
pub fn place(level: Level) -> usize {
    LEVELS.iter().position(|known| *known == level).unwrap_or(0)
}

impl LogState {
    /// A log that has lost nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { lost: [const { AtomicU64::new(0) }; 5], left_out: AtomicU64::new(0), writing: AtomicU64::new(0) }
    }

    /// A line of this level is lost.
    pub fn lose(&self, level: Level) {
        self.lost[place(level)].fetch_add(1, Relaxed);
    }

    /// A line is left out.
    pub fn leave_out(&self) {
        self.left_out.fetch_add(1, Relaxed);
    }

    /// A write to the reader of the log begins.
    pub fn begin_write(&self) {
        self.writing.store(now_ms() + 1, Relaxed);
    }

    /// The write is over.
    pub fn end_write(&self) {
        self.writing.store(0, Relaxed);
    }

    /// A reading.
    pub fn info(&self) -> LogInfo {
        let writing = self.writing.load(Relaxed);
        LogInfo {
            lost: std::array::from_fn(|i| self.lost[i].load(Relaxed)),
            left_out: self.left_out.load(Relaxed),
            stuck_ms: if writing == 0 { 0 } else { (now_ms() + 1).saturating_sub(writing) },
        }
    }
}

impl Default for LogState {
    fn default() -> Self {
        Self::new()
    }
}

fn now_ms() -> u64 {
    u64::try_from(EPOCH.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_counted_by_level() {
        let log = LogState::new();
        assert_eq!(log.info(), LogInfo::default());
        LEVELS.into_iter().enumerate().for_each(|(i, level)| (0..=i).for_each(|_| log.lose(level)));
        log.leave_out();
        assert_eq!(log.info(), LogInfo { lost: [1, 2, 3, 4, 5], left_out: 1, stuck_ms: 0 });
    }

    #[test]
    fn a_write_that_goes_on_is_seen() {
        let log = LogState::new();
        log.begin_write();
        while log.info().stuck_ms == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        log.end_write();
        assert_eq!(log.info().stuck_ms, 0);
    }
}
