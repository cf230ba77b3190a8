//! Verbs of the log.

use clap::Subcommand;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Log {
    /// Show what the switch logs, and which lines its log has lost.
    Show,
    /// Log more or less from now on, of all modules or of some.
    ///
    /// Levels are off, error, warn, info, debug and trace. `warn,vswitch_control=debug` logs
    /// warnings of all, and debugging of one module.
    Set {
        /// LEVEL, and module=LEVEL, separated by commas.
        filter: String,
        /// Then log as before the first change again. Without it: until the switch stops.
        #[arg(long = "for", value_name = "TIME", value_parser = span)]
        span: Option<u32>,
    },
    /// Log as at the start of the switch again.
    Reset,
}

/// Seconds of a time: `90`, `90s`, `10m`, `2h`.
pub(super) fn span(text: &str) -> Result<u32, String> {
    let wrong = || "give a time such as 30s, 10m or 2h".to_owned();
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        _ => (text, 1),
    };
    let number: u32 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).filter(|seconds| *seconds > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_seconds() {
        for (text, seconds) in [("1", 1), ("90s", 90), ("10m", 600), ("2h", 7200)] {
            assert_eq!(span(text), Ok(seconds), "{text}");
        }
        for text in ["", "s", "0", "0m", "-1", "1d", "1.5m", "99999999h", "10 m", "é"] {
            assert!(span(text).is_err(), "{text:?}");
        }
    }
}
