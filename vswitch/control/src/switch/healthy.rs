//! How the switch is, part by part.

use super::{Switch, heartbeat_age};
use crate::health::{self, Busy, Condition, Health, Part, Pulse, THREAD_MAX, Thread};
use crate::log_state::LOG;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use vswitch_dpdk::process::free_bytes;

/// A worker whose heart has not beaten for this long is not healthy.
pub(super) const HEARTBEAT_MAX_MS: u64 = 1000;

/// A switch whose mbuf pool has been empty for so long is not healthy, in seconds.
pub(super) const STARVED_S: u32 = 3;

/// A look at the state waits for so long: an edit is a step of microseconds.
const STATE_LOOK: Duration = Duration::from_millis(5);

/// Bytes that a saved connection takes, amply: one of IPv6 with TCP takes 176.
const SAVED_LEN: u64 = 192;

/// The name of the file of connections, for [`Switch::report_disk`].
const CONNECTIONS: &str = "connections";

/// What is known of parts.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) monitor: Arc<Pulse>,
    pub(super) conntrack: Arc<Pulse>,
    /// Seconds for which the mbuf pool has been empty.
    pub(super) starved_s: AtomicU32,
    vhost: [Thread; 2],
    state: Busy,
    /// What is not on the disk, and why.
    disk: Mutex<BTreeMap<&'static str, String>>,
    /// Why the switch is to restart.
    pub(super) restart: watch::Sender<Option<String>>,
}

impl Watched {
    pub(super) fn new() -> Self {
        Self {
            monitor: Arc::new(Pulse::new()),
            conntrack: Arc::new(Pulse::new()),
            starved_s: AtomicU32::new(0),
            vhost: ["vhost-events", "vhost_reconn"].map(Thread::new),
            state: Busy::default(),
            disk: Mutex::default(),
            restart: watch::Sender::new(None),
        }
    }

    /// The state, and the threads of the control side: a look at each.
    pub(super) fn own_threads(&self, state_is_held: bool, now: Instant) -> [Part; 3] {
        [
            self.state.part(state_is_held, now),
            self.monitor.part("monitor", "links are not watched, nothing ages", now),
            self.conntrack.part("conntrack", "connections do not expire", now),
        ]
    }

    fn disk(&self) -> Part {
        let problems: Vec<String> =
            self.disk.lock().iter().map(|(what, problem)| format!("{what}: {problem}")).collect();
        Part::degraded("disk", (!problems.is_empty()).then(|| problems.join("; ")))
    }

    fn vhost(&self, now: Instant) -> Part {
        let idle = self.vhost.iter().filter_map(|thread| thread.idle(now)).max().unwrap_or_default();
        let reason = || format!("a thread of librte_vhost has not run for {} s: guests cannot attach", idle.as_secs());
        Part::degraded("vhost", (idle >= THREAD_MAX).then(reason))
    }
}

impl Switch {
    /// How the switch is, part by part (gRPC health, watchdog). Takes a few milliseconds at most.
    #[must_use]
    pub fn health(&self) -> Health {
        let now = Instant::now();
        let is_held = self.state.try_lock_for(STATE_LOOK).is_none();
        let [state, monitor, conntrack] = self.watched.own_threads(is_held, now);
        let parts = vec![
            self.workers_part(),
            self.buffers_part(),
            state,
            health::log(LOG.info().stuck_ms),
            self.watched.disk(),
            monitor,
            conntrack,
            self.watched.vhost(now),
        ];
        Health { parts }
    }

    /// Something cannot be brought to the disk, or can again. `what`: a name for it.
    pub fn report_disk(&self, what: &'static str, problem: Option<String>) {
        let mut disk = self.watched.disk.lock();
        match problem {
            Some(problem) => drop(disk.insert(what, problem)),
            None => drop(disk.remove(what)),
        }
    }

    fn workers_part(&self) -> Part {
        let engine = self.engine.lock();
        let moving = engine.workers.iter().filter(|worker| !worker.is_lost());
        let late = moving.map(|worker| (heartbeat_age(worker), worker.core));
        let late = late.filter(|(age, _)| *age > HEARTBEAT_MAX_MS).max();
        let reason = if self.stopped.load(Relaxed) || engine.workers.is_empty() {
            Some("the switch has stopped".to_owned())
        } else {
            let late = late.map(|(age, core)| format!("worker-{core} has no heartbeat since {age} ms"));
            late.or_else(|| self.watched.restart.borrow().clone())
        };
        let lost = || {
            let worker = engine.workers.iter().find(|worker| worker.is_lost())?;
            let reason = format!("worker-{} has panicked, its ports are down: restart the switch", worker.core);
            Some((Condition::Degraded, reason))
        };
        Part::new("workers", reason.map(|reason| (Condition::Failing, reason)).or_else(lost))
    }

    fn buffers_part(&self) -> Part {
        let seconds = self.watched.starved_s.load(Relaxed);
        let reason = || format!("the mbuf pool has been empty for {seconds} s: ports receive nothing");
        Part::new("buffers", (seconds >= STARVED_S).then(|| (Condition::Failing, reason())))
    }

    /// Looks whether a stop could write the connections that there are now.
    pub(super) fn look_at_disk(&self) {
        let Some(file) = &self.connections_file else { return };
        let connections = self.publisher.conntrack.tracker().counts().connections;
        let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.report_disk(CONNECTIONS, short_of(connections, free_bytes(directory)));
    }
}

/// What is wrong if there is too little space for connections.
fn short_of(connections: u64, free: std::io::Result<u64>) -> Option<String> {
    let needed = connections.saturating_mul(SAVED_LEN);
    match free {
        Ok(free) if free >= needed => None,
        Ok(free) => Some(format!(
            "a stop loses them: they take up to {} KiB, and {} KiB are free",
            needed.div_ceil(1024),
            free / 1024
        )),
        Err(error) => Some(format!("a stop loses them: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_for_connections_is_what_they_take() {
        assert_eq!(short_of(0, Ok(0)), None);
        assert_eq!(short_of(1024, Ok(192 << 10)), None);
        let short = "a stop loses them: they take up to 192 KiB, and 10 KiB are free";
        assert_eq!(short_of(1024, Ok(10 << 10)).as_deref(), Some(short));
        let gone = short_of(0, Err(std::io::ErrorKind::NotFound.into()));
        assert!(gone.is_some_and(|reason| reason.starts_with("a stop loses them: ")));
    }

    #[test]
    fn what_is_not_on_the_disk_is_told_until_it_is() {
        let watched = Watched::new();
        assert_eq!(watched.disk().condition, Condition::Good);
        watched.disk.lock().insert("state", "No space left on device".to_owned());
        let part = watched.disk();
        assert_eq!((part.condition, &*part.reason), (Condition::Degraded, "state: No space left on device"));
    }
}
