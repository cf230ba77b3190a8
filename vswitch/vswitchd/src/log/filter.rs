//! Filters of the log: what they may say, and how another one comes into force.

use tracing_subscriber::EnvFilter;
use vswitch_control::log_filter::FilterError;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A log filter, of its text. Stricter than `EnvFilter`, which takes a misspelt level for the name
/// of a module.
///
/// # Errors
/// The first thing that is wrong, with its column.
pub(super) fn parse(text: &str) -> Result<EnvFilter, FilterError> {
    let mut column = 1;
    for part in text.split(',') {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
        let at = column + (part.len() - level.len()) + (level.len() - level.trim_start().len());
        let level = level.trim();
        if !LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
            let hint = format!("use {}", LEVELS.join(", "));
            return Err(FilterError { column: at, problem: format!("{level:?} is no level"), hint });
        }
        column += part.len() + 1;
    }
    let hint = "write LEVEL, or module=LEVEL, separated by commas".to_owned();
    EnvFilter::try_new(text).map_err(|error| FilterError { column: 1, problem: error.to_string(), hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_levels_are_refused_with_their_column() {
        for good in ["info", "WARN", "off", "info,vswitch_dataplane::port=debug", "vswitch=trace"] {
            assert!(parse(good).is_ok(), "{good:?}");
        }
        for (bad, column) in [
            ("", 1),
            ("inof", 1),
            ("info,", 6),
            ("vswitch", 1),
            ("vswitch=loud", 9),
            ("vswitch=", 9),
            ("info, vswitch=debug, loud", 22),
            ("=,=", 2),
        ] {
            assert_eq!(parse(bad).expect_err(bad).column, column, "{bad:?}");
        }
    }
}
