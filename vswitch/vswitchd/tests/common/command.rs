//! Running programs, waiting for things, and reading numbers out of JSON.

use serde_json::Value;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Runs a program and returns what it printed.
///
/// # Panics
/// When it cannot be started or fails; the message has its command line and output.
pub(crate) fn run(argv: &[&str]) -> String {
    let output = unless_busy(|| output(argv), describe);
    assert!(output.status.success(), "`{}` failed: {}", argv.join(" "), describe(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Does something, and again while `says` finds in it that a server of iperf3 is busy. Such a
/// server may still be about its last client when that one has ended.
pub(crate) fn unless_busy<R>(mut attempt: impl FnMut() -> R, says: impl Fn(&R) -> String) -> R {
    let mut result = attempt();
    wait_for("a server of iperf3 is free", Duration::from_secs(60), || {
        let is_busy = says(&result).contains("the server is busy running a test");
        if is_busy {
            result = attempt();
        }
        !is_busy
    });
    result
}

/// Runs a program that may fail.
///
/// # Panics
/// When it cannot be started.
pub(crate) fn output(argv: &[&str]) -> Output {
    Command::new(argv[0])
        .args(&argv[1..])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("cannot start `{}`: {error}", argv.join(" ")))
}

/// An output in words, for messages.
pub(crate) fn describe(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    format!("{}\nstdout: {}\nstderr: {}", output.status, out.trim(), err.trim())
}

/// Waits until `done` says so, asking every 20 ms.
///
/// # Panics
/// When it does not within `limit`; the message has `what`.
pub(crate) fn wait_for(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A number that nothing else in this process gets: part of the names of namespaces, interfaces and
/// files.
pub(crate) fn unique() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Relaxed)
}

/// The number at `key` of a JSON object.
///
/// # Panics
/// When there is none.
pub(crate) fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no number at {key:?} in {value:#}"))
}
