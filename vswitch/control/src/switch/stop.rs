//! The end of the switch, in a bounded time.
//!
//! **Design**: workers have [`STOP_BUDGET`] to adopt an empty world and to end. If they do, devices
//! are closed, then the pool and EAL go. If one does not, nothing that it may use is touched: no
//! device is closed, no memory is freed, and the process is to exit at once ([`Stopped::Left`]).
//! The same holds for a device that EAL's thread waits for. In both cases connections are written:
//! all but those that a worker that does not move is in the middle of.

use super::closing::{self, Closing};
use super::state::State;
use super::{Engine, Switch, saved};
use std::time::{Duration, Instant};
use vswitch_dataplane::worker::{Snapshot, Worker};

/// Time for workers and threads of the control side to end.
const STOP_BUDGET: Duration = Duration::from_secs(1);

/// Time for workers to end that do move, where another does not.
const END_SOON: Duration = Duration::from_millis(100);

/// Between two looks whether EAL's thread is done.
#[cfg(feature = "dpdk")]
const LOOK: Duration = Duration::from_millis(1);

/// How the switch has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// All of it.
    Clean,
    /// Something does not end: the process is to exit at once, without destructors.
    Left,
}

/// What EAL's thread still does at a time.
#[cfg(feature = "dpdk")]
fn at_work(eal: &vswitch_dpdk::eal::Eal, until: Instant) -> Option<vswitch_dpdk::eal::Busy> {
    while eal.at_work().is_some() && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
    eal.at_work()
}

impl Switch {
    /// The switch is going to stop: calls that wait for a worker or a device end soon.
    pub fn hurry(&self) {
        self.publisher.hurry();
    }

    pub(super) fn is_hurried(&self) -> bool {
        self.publisher.is_hurried()
    }

    /// Stops the workers, closes all devices, cleans EAL up, writes connections for the next start.
    /// Idempotent; afterwards changes are refused. Takes a second where something does not end.
    pub fn stop(&self) -> Stopped {
        if self.stopped.swap(true, std::sync::atomic::Ordering::Relaxed) {
            return Stopped::Clean;
        }
        self.hurry();
        let until = Instant::now() + STOP_BUDGET;
        let Engine {
            mut workers,
            companions,
            pool,
            #[cfg(feature = "dpdk")]
            eal,
            ..
        } = std::mem::take(&mut *self.engine.lock());
        let ended: Vec<bool> = companions.into_iter().map(|companion| companion.stop(until)).collect();
        let mut clean = ended.into_iter().all(|ended| ended);
        clean &= self.close_all(until);
        workers.iter().for_each(Worker::ask_to_stop);
        // Devices may have taken long to close.
        let until = Instant::now() + if clean { STOP_BUDGET } else { END_SOON };
        let mut stuck = Vec::new();
        for (id, worker) in workers.drain(..).enumerate() {
            if let Err(core) = worker.end(until) {
                tracing::error!(
                    worker = id,
                    "worker-{core} does not end: what it may use is left to the process's end"
                );
                stuck.push(id);
            }
        }
        clean &= stuck.is_empty();
        if let Some(file) = &self.connections_file {
            saved::save(&self.publisher.conntrack, file, &stuck);
        }
        #[cfg(feature = "dpdk")]
        if let Some(busy) = eal.as_ref().and_then(|eal| at_work(eal, until)) {
            tracing::error!("{busy}: EAL is left to the process's end");
            clean = false;
        }
        if clean {
            drop(pool);
            #[cfg(feature = "dpdk")]
            drop(eal);
            return Stopped::Clean;
        }
        // Somebody may use them.
        std::mem::forget(pool);
        #[cfg(feature = "dpdk")]
        std::mem::forget(eal);
        Stopped::Left
    }

    /// Takes all ports from the workers, and closes them. False: some are left.
    fn close_all(&self, until: Instant) -> bool {
        let Some(turn) = self.turn.try_lock_until(until) else {
            tracing::error!("a change does not end: ports are left to the process's end");
            return false;
        };
        let state = self.state.try_lock_until(until).and_then(|mut state| state.take());
        let Some(mut state) = state else { return false };
        let ports = state.take_all_ports();
        let mut gone = std::mem::take(&mut state.closing);
        gone.extend(ports.iter().filter_map(|port| Closing::of(port)));
        let snapshot = state.snapshot();
        self.shown.show(super::View::default());
        drop(ports);
        let left = |state: State, gone: Vec<Closing>, reason: &str| {
            tracing::error!("{reason}: devices are left to the process's end");
            std::mem::forget((state, gone));
            false
        };
        if let Err(stuck) = self.publish_at_last(snapshot, until) {
            return left(state, gone, &stuck);
        }
        let wake = || self.publisher.inboxes.iter().for_each(|inbox| inbox.wake());
        // A lost worker lets go of nothing.
        state.kept.extend(gone.extract_if(.., |closing| closing.is_held()));
        closing::close(&mut gone, until.max(Instant::now() + STOP_BUDGET), || {
            wake();
            false
        });
        drop(turn);
        if gone.is_empty() && state.kept.is_empty() {
            return true;
        }
        left(state, gone, "a worker does not let go of a port")
    }

    fn publish_at_last(&self, snapshot: Snapshot, until: Instant) -> Result<(), String> {
        // Not in a hurry: there is nothing after it.
        let patience = until.saturating_duration_since(Instant::now());
        self.publisher.publish_last(snapshot, patience).map_err(|stuck| stuck.to_string())
    }
}
