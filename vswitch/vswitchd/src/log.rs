//! The log, on stderr, and the last words of a panic.

use super::cli::LogFormat;
use std::backtrace::Backtrace;
use std::io::IsTerminal;
use std::panic::PanicHookInfo;
use tracing_subscriber::EnvFilter;

/// The environment variable with the log filter.
pub(super) const VARIABLE: &str = "VSWITCH_LOG";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Checks a log filter. Stricter than `EnvFilter`, which takes a misspelt level for the name of a
/// module.
pub(super) fn filter(text: &str) -> Result<String, String> {
    for part in text.split(',') {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level).trim();
        if !LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
            return Err(format!("{level:?} is no level; use {}", LEVELS.join(", ")));
        }
    }
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Starts logging, panics included. `filter` has passed [`filter`].
pub(super) fn start(format: LogFormat, filter: &str) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // It would complain on stderr, and panic when that is gone: the switch outlives the reader
        // of its log.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    std::panic::set_hook(Box::new(last_words));
}

/// Logs a panic. What follows is up to the build: it aborts, or unwinds to the end of the thread.
fn last_words(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let message = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    tracing::error!(
        location,
        thread = thread.name().unwrap_or("unnamed"),
        backtrace = %Backtrace::force_capture(),
        "panic: {}",
        message.unwrap_or("no message")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_levels_are_refused() {
        for good in ["info", "WARN", "off", "info,vswitch_dataplane::port=debug", "vswitch=trace"] {
            assert_eq!(filter(good).as_deref(), Ok(good));
        }
        for bad in ["", "inof", "info,", "vswitch", "vswitch=loud", "vswitch=", "=,="] {
            assert!(filter(bad).is_err(), "{bad:?}");
        }
    }
}
