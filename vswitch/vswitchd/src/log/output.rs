//! What others write to standard output and error: DPDK, the C library, libraries of drivers.
//!
//! **Design**: both are a pipe, whose other end a thread reads all the time. Each line becomes one
//! of the log. Its level is not known, so it is a warning.
//!
//! **Limits**: [`LINE_MAX`]; what is longer becomes several lines.

use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use vswitch_dpdk::process;

/// Bytes of a line.
const LINE_MAX: usize = 4096;

static CAPTURED: OnceLock<PipeReader> = OnceLock::new();

/// The thread may have bytes that are not in the log yet.
static BUSY: AtomicBool = AtomicBool::new(false);

/// Standard error as it is now, for the log alone.
pub(super) fn own_stderr() -> io::Result<std::fs::File> {
    io::stderr().as_fd().try_clone_to_owned().map(Into::into)
}

/// Puts the pipe in place, and starts its thread.
pub(super) fn capture() -> io::Result<()> {
    if CAPTURED.get().is_some() {
        return Ok(());
    }
    let reader = process::capture_output()?;
    let reader = CAPTURED.get_or_init(|| reader);
    let log = |line: &str| tracing::warn!("{line}");
    std::thread::Builder::new().name("output".to_owned()).spawn(move || read(reader, &log)).map(drop)
}

/// Bytes in the pipe are not in the log yet.
pub(super) fn is_waiting() -> bool {
    CAPTURED.get().is_some_and(|pipe| process::bytes_waiting(pipe.as_fd()) > 0 || BUSY.load(Acquire))
}

/// Hands lines to the log until the end.
fn read(mut pipe: &PipeReader, log: &impl Fn(&str)) {
    let (mut lines, mut chunk) = (Splitter::default(), [0; LINE_MAX]);
    loop {
        process::wait_for_bytes(pipe.as_fd());
        BUSY.store(true, Release);
        match pipe.read(&mut chunk) {
            Ok(0) => break,
            Ok(len) => lines.feed(&chunk[..len], log),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
        if process::bytes_waiting(pipe.as_fd()) == 0 {
            lines.end(log);
        }
        BUSY.store(false, Release);
    }
    BUSY.store(false, Release);
}

/// The line so far.
#[derive(Default)]
struct Splitter(Vec<u8>);

impl Splitter {
    fn feed(&mut self, bytes: &[u8], log: &impl Fn(&str)) {
        for byte in bytes {
            if *byte == b'\n' {
                self.end(log);
                continue;
            }
            self.0.push(*byte);
            if self.0.len() == LINE_MAX {
                self.end(log);
            }
        }
    }

    /// Whoever wrote has nothing more to say for now.
    fn end(&mut self, log: &impl Fn(&str)) {
        let text = String::from_utf8_lossy(&self.0);
        if !text.trim().is_empty() {
            log(text.trim_end());
        }
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn bytes_become_lines() {
        let told = RefCell::new(Vec::new());
        let log = |line: &str| told.borrow_mut().push(line.to_owned());
        let mut lines = Splitter::default();
        lines.feed(b"EAL: one\r\n\n  two ", &log);
        assert_eq!(*told.borrow(), ["EAL: one"], "the second may go on");
        lines.feed(b"parts\n\xff", &log);
        lines.end(&log);
        lines.end(&log);
        assert_eq!(*told.borrow(), ["EAL: one", "  two parts", "\u{fffd}"]);
        told.borrow_mut().clear();
        lines.feed(&vec![b'x'; 2 * LINE_MAX + 1], &log);
        assert_eq!(told.borrow().iter().map(String::len).collect::<Vec<_>>(), [LINE_MAX; 2]);
    }
}
