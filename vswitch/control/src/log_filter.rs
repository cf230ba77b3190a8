//! The filter of this process's log, which can be changed while it runs. A process has one log, so
//! this is one static.
//!
//! **Design**: the daemon gives the means ([`LogFilters::new`]); the API sets filters. A filter
//! that is set for a time has a number. The timer of an earlier filter does nothing to a later one.
//!
//! **Limits**: [`FILTER_LEN_MAX`] bytes, [`SECONDS_MAX`].
//!
//! **Threads**: any. Threads that log do not wait.

use crate::info::SwitchError;
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use vswitch_dataplane::port::FieldError;

/// The filter of this process's log; empty where the log has none that can be changed.
pub static FILTERS: OnceLock<LogFilters> = OnceLock::new();

/// Bytes of a filter.
pub const FILTER_LEN_MAX: usize = 1024;

/// The longest time that a filter may be set for: a week.
pub const SECONDS_MAX: u32 = 7 * 24 * 60 * 60;

/// Why a filter is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// Byte of the text, from 1.
    pub column: usize,
    /// What is wrong, naming it.
    pub problem: String,
    /// How to fix it.
    pub hint: String,
}

/// Checks a filter, and puts it in force.
type Apply = Box<dyn Fn(&str) -> Result<(), FilterError> + Send + Sync>;

/// A filter that can be changed.
pub struct LogFilters {
    apply: Apply,
    configured: String,
    present: Mutex<Present>,
}

#[derive(Debug)]
struct Present {
    filter: String,
    until: Option<Instant>,
    /// Counts filters.
    number: u64,
}

/// A filter as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterInfo {
    /// In force.
    pub filter: String,
    /// That of the start.
    pub configured: String,
    /// Time until the one of the start is in force again; none: it stays.
    pub left: Option<Duration>,
    /// Its number, for [`LogFilters::expire`].
    pub number: u64,
}

impl std::fmt::Debug for LogFilters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogFilters").field("present", &self.present).finish_non_exhaustive()
    }
}

impl LogFilters {
    /// The filter of the start, which is in force, and what puts another one in force.
    pub fn new(configured: &str, apply: impl Fn(&str) -> Result<(), FilterError> + Send + Sync + 'static) -> Self {
        let present = Mutex::new(Present { filter: configured.to_owned(), until: None, number: 0 });
        Self { apply: Box::new(apply), configured: configured.to_owned(), present }
    }

    /// The filter as it is.
    #[must_use]
    pub fn info(&self) -> FilterInfo {
        self.info_of(&self.present.lock())
    }

    fn info_of(&self, present: &Present) -> FilterInfo {
        FilterInfo {
            filter: present.filter.clone(),
            configured: self.configured.clone(),
            left: present.until.map(|until| until.saturating_duration_since(Instant::now())),
            number: present.number,
        }
    }

    /// Puts a filter in force, an empty text that of the start. After `seconds` [`Self::expire`] is
    /// to be called; 0: it stays.
    ///
    /// # Errors
    /// When it is wrong: then the present one stays.
    pub fn set(&self, filter: &str, seconds: u32) -> Result<FilterInfo, SwitchError> {
        let mut errors = Vec::new();
        if filter.len() > FILTER_LEN_MAX {
            let problem = format!("{} bytes are too long", filter.len());
            errors.push(FieldError::new("filter", problem, format!("use at most {FILTER_LEN_MAX}")));
        }
        if seconds > SECONDS_MAX {
            let hint = format!("use 1 to {SECONDS_MAX}, or 0 for no end");
            errors.push(FieldError::new("seconds", format!("{seconds} is out of range"), hint));
        }
        if !errors.is_empty() {
            return Err(SwitchError::Invalid(errors));
        }
        let filter = if filter.is_empty() { &self.configured } else { filter };
        let mut present = self.present.lock();
        (self.apply)(filter).map_err(|FilterError { column, problem, hint }| {
            SwitchError::from(FieldError::new("filter", format!("column {column}: {problem}"), hint))
        })?;
        let until = (seconds > 0).then(|| Instant::now() + Duration::from_secs(seconds.into()));
        *present = Present { filter: filter.to_owned(), until, number: present.number + 1 };
        Ok(self.info_of(&present))
    }

    /// The time of the filter with this number is over: that of the start is in force again. False:
    /// another one has taken its place already.
    pub fn expire(&self, number: u64) -> bool {
        let mut present = self.present.lock();
        if present.number != number || present.until.is_none() {
            return false;
        }
        // It was right at the start.
        let _ = (self.apply)(&self.configured);
        *present = Present { filter: self.configured.clone(), until: None, number: number + 1 };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn filters() -> (LogFilters, Arc<Mutex<Vec<String>>>) {
        let applied = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&applied);
        let apply = move |filter: &str| {
            if filter == "bad" {
                return Err(FilterError { column: 1, problem: "bad".to_owned(), hint: "use info".to_owned() });
            }
            log.lock().push(filter.to_owned());
            Ok(())
        };
        (LogFilters::new("info", apply), applied)
    }

    #[test]
    fn a_filter_expires_unless_another_one_took_its_place() {
        let (filters, applied) = filters();
        let first = filters.set("debug", 60).expect("good");
        assert!(first.left.is_some_and(|left| left <= Duration::from_secs(60)), "{first:?}");
        let second = filters.set("trace", 0).expect("good");
        assert!(!filters.expire(first.number), "the timer of the first one");
        assert!(!filters.expire(second.number), "it has no end");
        assert_eq!(filters.info().filter, "trace");
        let third = filters.set("warn", 1).expect("good");
        assert!(filters.expire(third.number));
        assert_eq!((filters.info().filter.as_str(), filters.info().left), ("info", None));
        filters.set("off", 0).expect("good");
        assert_eq!(filters.set("", 0).expect("back").filter, "info");
        assert_eq!(*applied.lock(), ["debug", "trace", "warn", "info", "off", "info"]);
    }

    #[test]
    fn a_wrong_filter_changes_nothing() {
        let (filters, applied) = filters();
        let before = filters.info();
        let long = "x".repeat(FILTER_LEN_MAX + 1);
        for (filter, seconds, expected) in [
            ("bad", 0, "filter: column 1: bad; use info"),
            (long.as_str(), 0, "filter: 1025 bytes are too long; use at most 1024"),
            ("info", SECONDS_MAX + 1, "seconds: 604801 is out of range; use 1 to 604800, or 0 for no end"),
        ] {
            assert_eq!(filters.set(filter, seconds).expect_err(filter).to_string(), expected);
        }
        assert_eq!((filters.info(), applied.lock().len()), (before, 0));
    }
}
