//! Signals. SIGTERM, SIGINT and SIGQUIT stop the switch, SIGHUP applies its configuration file
//! again. Other signals that end a process by default have no effect.
//!
//! **Design**: a stray signal does not end the Node's network. One that the switch does not use is
//! caught and logged, a limited number of times per second. SIGPIPE is ignored from the start, as
//! in all programs in Rust. SIGQUIT (Ctrl-\ on a terminal) is a
//! clean stop: its default is a core, which could hold packets. SIGABRT still makes one where cores
//! are allowed. The kernel's own signals for faults, SIGKILL and SIGXCPU (a limit that the operator
//! has set) stay as they are.
//!
//! **Limits**: what comes before [`listen`], in the first milliseconds of a start, has its default
//! effect.

use super::log;
use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use vswitch_dpdk::process::exit_now;

/// SIGHUPs that wait. One that comes while another waits asks for nothing more.
const RELOADS_QUEUED: usize = 1;

/// Signals without a use here whose default is the end of the process, by their numbers on Linux
/// (`signal(7)`). Those of real time follow.
const UNUSED: [(i32, &str); 8] = [
    (10, "SIGUSR1"),
    (12, "SIGUSR2"),
    (14, "SIGALRM"),
    (16, "SIGSTKFLT"),
    (26, "SIGVTALRM"),
    (27, "SIGPROF"),
    (29, "SIGIO"),
    // A service manager stops the switch when the power fails, if that is wanted.
    (30, "SIGPWR"),
];

/// A file has the size that a process may write: the write fails. Not logged, since the log may be
/// that file.
const FILE_SIZE: i32 = 25;

/// Signals of real time that the C library leaves to programs.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// What the process is asked for.
pub(super) struct Asked {
    /// Turns true at the first signal that asks to stop.
    pub(super) stopped: watch::Receiver<bool>,
    /// A message for SIGHUP.
    pub(super) reloads: mpsc::Receiver<()>,
}

/// Listens for signals, on the current runtime. A second one that asks to stop ends the process at
/// once.
pub(super) fn listen() -> io::Result<Asked> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let real_time = REAL_TIME.map(|number| (number, "a signal of real time"));
    for (number, name) in UNUSED.into_iter().chain(real_time) {
        ignore(number, name)?;
    }
    // Caught as long as the process lives; there is nothing to do.
    drop(signal(SignalKind::from_raw(FILE_SIZE))?);
    let (stop, stopped) = watch::channel(false);
    let (reload, reloads) = mpsc::channel(RELOADS_QUEUED);
    tokio::spawn(async move {
        loop {
            let (name, number) = tokio::select! {
                _ = terminate.recv() => ("SIGTERM", SignalKind::terminate().as_raw_value()),
                _ = interrupt.recv() => ("SIGINT", SignalKind::interrupt().as_raw_value()),
                _ = quit.recv() => ("SIGQUIT", SignalKind::quit().as_raw_value()),
                _ = hangup.recv() => {
                    // One that waits already reads the file later than now.
                    let _ = reload.try_send(());
                    continue;
                }
            };
            if stop.send_replace(true) {
                tracing::warn!("{name} while stopping: exits at once");
                log::flush();
                exit_now(128 + number);
            }
            tracing::info!("{name}: stopping");
        }
    });
    Ok(Asked { stopped, reloads })
}

/// Catches a signal from now on, and logs it.
fn ignore(number: i32, name: &'static str) -> io::Result<()> {
    let mut caught = signal(SignalKind::from_raw(number))?;
    tokio::spawn(async move {
        while caught.recv().await.is_some() {
            tracing::info!(signal = number, left_out = tracing::field::Empty, "{name} ignored: it has no use here");
        }
    });
    Ok(())
}
