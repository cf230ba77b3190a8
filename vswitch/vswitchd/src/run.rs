//! From a good configuration to a clean end.

use super::notify::Notifier;
use super::{EXIT_CONFIG, EXIT_FAILED, log, signals};
use anyhow::Context;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use vswitch_api::metrics::{self, MetricsListener};
use vswitch_api::server::{self, Listeners};
use vswitch_control::config::{ConfigErrors, SOCKET_DEFAULT};
use vswitch_control::health::Condition;
use vswitch_control::running::{Running, Started};
use vswitch_control::switch::Stopped;
use vswitch_control::{Switch, SwitchApi, SwitchConfig, SwitchError};
use vswitch_dpdk::capabilities::{self, Capabilities};
use vswitch_dpdk::lcore;
use vswitch_dpdk::process::exit_now;

/// Threads of the control side: one may wait for the other's work, none is on a worker's core.
const CONTROL_THREADS: usize = 2;

/// Threads for calls that block: reads and changes (8 each), health, and what agents' objects need.
const BLOCKING_THREADS_MAX: usize = 32;

/// Time for tasks to end after the switch has stopped.
const RUNTIME_GRACE: Duration = Duration::from_secs(1);

/// Why the daemon ends.
#[derive(Debug)]
pub(super) struct Failure {
    /// The reason, with its causes.
    pub(super) error: anyhow::Error,
    /// What the service manager sees.
    pub(super) exit_code: u8,
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self { error, exit_code: EXIT_FAILED }
    }
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self { error: errors.into(), exit_code: EXIT_CONFIG }
    }
}

/// Runs the switch until a signal stops it.
pub(super) fn run(started: &Started) -> Result<(), Failure> {
    let config = &started.config;
    let core = config.dpdk.main_core;
    lcore::pin(core).with_context(|| format!("the main thread cannot be pinned to [dpdk] main_core = {core}"))?;
    log::write_behind().context("the threads of the log cannot be started")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CONTROL_THREADS)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("control")
        .enable_all()
        .build()
        .context("the control threads cannot be started")?;
    let entered = runtime.enter();
    // First of all: a second instance ends here, before it could touch a device of the first.
    let (listeners, shown) = listen(config)?;
    let signals::Asked { mut stopped, reloads } = signals::listen().context("signals cannot be handled")?;
    let notifier = Arc::new(Notifier::from_environment());
    notifier.status("starting");
    let switch = Switch::prepare(config).context("the switch cannot be started")?;
    // A device that does not answer holds up no stop.
    let (mut hurrying, hurried) = (stopped.clone(), Arc::clone(&switch));
    tokio::spawn(async move {
        if hurrying.wait_for(|stopped| *stopped).await.is_ok() {
            hurried.hurry();
        }
    });
    let configured = switch.configure(config);
    if *stopped.borrow() {
        drop(entered);
        notifier.stopping();
        drop(listeners);
        stop(runtime, &switch);
        tracing::info!("stopped before it was ready");
        return Ok(());
    }
    configured.context("the switch cannot be started")?;
    let api: Arc<dyn SwitchApi> = Arc::<Switch>::clone(&switch);
    let running = Running::new(api, started.clone());
    running.load();
    give_up_capabilities(config);
    let status = status(&switch);
    tracing::info!("ready: {status}, listens on {}", listeners.names().join(" "));
    if let Some(address) = &config.observe.metrics {
        tracing::info!(%address, "metrics are shown");
    }
    notifier.ready(&status);
    let feed = |interval| tokio::spawn(feed_watchdog(Arc::clone(&notifier), Arc::clone(&switch), interval));
    let watchdog = notifier.watchdog_interval().map(feed);
    tokio::spawn(reload_at(reloads, Arc::clone(&running), Arc::clone(&notifier), Arc::clone(&switch)));
    drop(entered);
    let (stopping, hurried) = (Arc::clone(&notifier), Arc::clone(&switch));
    let mut restart = switch.restart_wanted();
    let wanted = restart.clone();
    let shutdown = async move {
        // Their senders live as long as the runtime and the switch.
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => {}
            _ = restart.wait_for(Option::is_some) => {}
        }
        stopping.stopping();
        // Before the server waits for calls in flight.
        hurried.hurry();
    };
    let served = runtime.block_on(server::serve(
        Arc::clone(&switch),
        listeners,
        config.antrea.state_dir.clone(),
        running,
        shown,
        shutdown,
    ));
    if let Some(watchdog) = watchdog {
        watchdog.abort(); // a switch that stops is not one whose heart stands still
    }
    stop(runtime, &switch);
    served.context("clients cannot be served")?;
    if let Some(reason) = wanted.borrow().clone() {
        return Err(anyhow::anyhow!("a restart is needed: {reason}").into());
    }
    tracing::info!("stopped");
    Ok(())
}

/// Takes the sockets and addresses of clients, and the address of metrics if there is to be one.
fn listen(config: &SwitchConfig) -> Result<(Listeners, Option<MetricsListener>), Failure> {
    let exit_code = |is_lasting| if is_lasting { EXIT_CONFIG } else { EXIT_FAILED };
    make_default_directory(&config.socket)?;
    let listeners = server::bind_all(config).map_err(|error| {
        let exit_code = exit_code(error.is_lasting());
        Failure { error: anyhow::Error::new(error).context("clients cannot be served"), exit_code }
    })?;
    let shown = metrics::bind(&config.observe).map_err(|error| {
        let exit_code = exit_code(error.is_lasting());
        Failure { error: error.into(), exit_code }
    })?;
    Ok((listeners, shown))
}

/// Gives up what later ports do not need. A thread that does not answer is told, and the switch
/// goes on: the Node needs its network.
fn give_up_capabilities(config: &SwitchConfig) {
    let kept = config.process.keep_capabilities;
    match capabilities::keep_only(kept) {
        Ok(()) if kept == Capabilities::ALL => {}
        Ok(()) => tracing::info!("no thread has a capability but {}", kept.names().join(" ")),
        Err(error) => tracing::error!("capabilities could not be given up: {error}"),
    }
}

/// Stops the switch. Where something does not end, the process does, at once: a destructor could
/// free what a worker or a driver uses.
fn stop(runtime: Runtime, switch: &Switch) {
    match switch.stop() {
        Stopped::Clean => runtime.shutdown_timeout(RUNTIME_GRACE),
        Stopped::Left => {
            tracing::error!("stopped, with parts that did not end: see above");
            log::flush();
            exit_now(EXIT_FAILED.into());
        }
    }
}

/// Makes `/run/vswitch`, if that is where the socket goes: a service manager makes it
/// (`RuntimeDirectory=`), a shell does not.
fn make_default_directory(socket: &Path) -> anyhow::Result<()> {
    match socket.parent().filter(|directory| socket == Path::new(SOCKET_DEFAULT) && !directory.exists()) {
        Some(directory) => {
            std::fs::create_dir_all(directory).with_context(|| format!("{} cannot be made", directory.display()))
        }
        None => Ok(()),
    }
}

/// The switch in one line.
fn status(switch: &Switch) -> String {
    let bridges = switch.bridges();
    let ports = || bridges.iter().flat_map(|bridge| &bridge.ports);
    let failed: Vec<_> = ports().filter(|port| port.error.is_some()).map(|port| port.config.name.as_str()).collect();
    let mut text = format!("{} bridges, {} ports, {} workers", bridges.len(), ports().count(), switch.workers().len());
    if !failed.is_empty() {
        text.push_str(&format!(", {} not open: {}", failed.len(), failed.join(" ")));
    }
    text
}

/// Applies the configuration file again at each SIGHUP.
async fn reload_at(
    mut reloads: mpsc::Receiver<()>,
    running: Arc<Running>,
    notifier: Arc<Notifier>,
    switch: Arc<Switch>,
) {
    while reloads.recv().await.is_some() {
        notifier.reloading();
        let reloading = Arc::clone(&running);
        let result = tokio::task::spawn_blocking(move || reloading.reload()).await;
        match result {
            Ok(Ok(outcome)) => {
                outcome.warnings.iter().for_each(|line| tracing::warn!("{line}"));
                outcome.changes.iter().for_each(|change| tracing::info!(change, "SIGHUP"));
                tracing::info!(changes = outcome.changes.len(), "SIGHUP: the configuration file is in force");
            }
            Ok(Err(error)) => {
                match &error {
                    SwitchError::Invalid(errors) => {
                        errors.iter().for_each(|error| tracing::error!("{}", error.description()));
                    }
                    error => tracing::error!("{error}"),
                }
                tracing::error!("SIGHUP: the configuration file is refused, and nothing is changed");
            }
            Err(error) => tracing::error!("SIGHUP: the call failed inside the switch: {error}; report it"),
        }
        notifier.ready(&status(&switch));
    }
}

/// Tells the service manager twice per timeout that the switch is healthy, as long as it is. Runs
/// on the control threads, so that it stops when those hang.
async fn feed_watchdog(notifier: Arc<Notifier>, switch: Arc<Switch>, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut was_healthy = true;
    loop {
        ticks.tick().await;
        let health = switch.health();
        let healthy = health.is_serving();
        if healthy {
            notifier.alive();
        }
        if healthy != was_healthy {
            was_healthy = healthy;
            if healthy {
                tracing::info!("healthy again: the watchdog is fed");
            } else {
                let failing = health.parts.iter().filter(|part| part.condition == Condition::Failing);
                let reasons: Vec<&str> = failing.map(|part| part.reason.as_str()).collect();
                tracing::error!(?reasons, "the switch is not healthy: the watchdog is not fed");
            }
        }
    }
}
