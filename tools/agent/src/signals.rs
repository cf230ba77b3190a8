//! Signals. SIGINT, SIGTERM and SIGQUIT stop the agent. Others that end a process by default have
//! no effect.
//!
//! **Design**: a stray signal does not end the agent. SIGHUP has no effect either: the agent reads
//! its manifests all the time. A signal of a kind is logged once.
//!
//! **Limits**: what comes before [`ignore_unused`], in the first milliseconds, has its default
//! effect. SIGPIPE is ignored from the start, as in all programs in Rust.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals without a use here whose default is the end of the process, by their numbers on Linux
/// (`signal(7)`). Those of real time follow.
const UNUSED: [(i32, &str); 9] = [
    (1, "SIGHUP"),
    (10, "SIGUSR1"),
    (12, "SIGUSR2"),
    (14, "SIGALRM"),
    (16, "SIGSTKFLT"),
    (26, "SIGVTALRM"),
    (27, "SIGPROF"),
    (29, "SIGIO"),
    (30, "SIGPWR"),
];

/// Signals of real time that the C library leaves to programs.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// The signals that stop the agent.
#[derive(Debug)]
pub(crate) struct Stop([Signal; 3]);

impl Stop {
    /// Listens for them, on the current runtime.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn listen() -> io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::quit()];
        let [interrupt, terminate, quit] = kinds.map(signal);
        Ok(Self([interrupt?, terminate?, quit?]))
    }

    /// Waits until one comes.
    pub(crate) async fn asked(&mut self) {
        let [interrupt, terminate, quit] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

/// From now on signals without a use have no effect. Call it on a runtime.
pub fn ignore_unused() {
    let real_time = REAL_TIME.map(|number| (number, "a signal of real time"));
    for (number, name) in UNUSED.into_iter().chain(real_time) {
        match signal(SignalKind::from_raw(number)) {
            Ok(mut caught) => {
                tokio::spawn(async move {
                    if caught.recv().await.is_some() {
                        tracing::info!("{name} ({number}) ignored: it has no use here");
                    }
                });
            }
            Err(error) => tracing::warn!("{name} ({number}) cannot be caught, and ends the agent: {error}"),
        }
    }
}
