//! Signals: SIGTERM and SIGINT stop the switch, SIGHUP does nothing.

use super::log;
use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use vswitch_dpdk::process::exit_now;

/// Listens for signals, on the current runtime. What it returns turns true at the first that asks
/// to stop; a second one ends the process at once.
pub(super) fn listen() -> io::Result<watch::Receiver<bool>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        loop {
            let (name, number) = tokio::select! {
                _ = terminate.recv() => ("SIGTERM", SignalKind::terminate().as_raw_value()),
                _ = interrupt.recv() => ("SIGINT", SignalKind::interrupt().as_raw_value()),
                _ = hangup.recv() => {
                    tracing::info!("SIGHUP ignored: the configuration is read at start, later changes come through the API");
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
    Ok(stopped)
}
