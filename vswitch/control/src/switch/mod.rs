//! The switch itself: the one writer of its state, and its readers.
//!
//! **Where in the walk**: beside it. The writer publishes snapshots, which workers adopt between
//! two bursts.
//!
//! **Design**: who holds what, and who waits for whom.
//!
//! | part | holds | waits for |
//! |---|---|---|
//! | [`view`]: readers | a view of one moment, no lock | workers, 150 ms at most |
//! | [`change`]: the writer | the turn; the state for a step | workers, 5 s at most |
//! | `edit`: links, ages, MAC addresses, names of tables | the state, for a step | nothing |
//! | [`opening`]: devices that open | nothing; the port is there, "opening" | the device, 8 s at most |
//! | [`closing`]: devices that close | the turn | workers, 5 s at most |
//! | [`stop`] | turn and state | workers and threads, 1 s at most |
//!
//! A change follows the same steps: check against the state, change it, show the view, publish the
//! snapshot, wait until the workers have adopted it, do what is left. A view is the state as a
//! whole, so a reader sees all of a change or nothing. A client that got its answer to a change
//! sees the change in what it reads next.
//!
//! **Limits**: the constants of these modules.
//!
//! **Threads**: any thread may call [`Switch`]. Workers wait for none of these locks.

mod announce;
// The real DPDK starts once per process, not once per test.
#[cfg(all(test, not(feature = "dpdk")))]
mod bounded_tests;
mod bridges;
pub mod capture;
mod change;
mod closing;
mod companion;
pub mod conntrack;
mod context_switches;
mod drops;
mod dummy;
mod fdb;
mod healthy;
mod interfaces;
mod lost;
mod modify;
mod monitor;
mod numbers;
mod opening;
pub mod packets;
pub mod pipeline;
mod port_state;
mod ports;
mod rxqs;
mod saved;
mod start;
mod state;
mod stop;
mod tunnels;
mod view;

use super::access::Access;
use super::info::{CachesInfo, MempoolInfo, PortEvent, WorkerInfo};
use crate::drops::{History, Watchers};
use context_switches::ContextSwitches;
use parking_lot::Mutex;
use state::State;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
pub use stop::Stopped;
use tokio::sync::broadcast;
use view::{Shown, View};
use vswitch_dataplane::cache::{CacheShared, Collector};
use vswitch_dataplane::meter::Rates;
use vswitch_dataplane::time::Millis;
use vswitch_dataplane::worker::{Publisher, Worker};
use vswitch_dpdk::{Mempool, lcore};

/// The running switch. Every method may be called from any thread; changes are serialised. Methods
/// block (a device may take 100 ms to open): call them from a blocking context.
#[derive(Debug)]
pub struct Switch {
    events: broadcast::Sender<PortEvent>,
    connection_events: Arc<conntrack::ConnectionEvents>,
    publisher: Arc<Publisher>,
    /// As configured.
    slow_path: Rates,
    /// Of changes that workers have to adopt. Locked before the state.
    turn: Mutex<()>,
    /// What readers see.
    shown: Shown,
    /// None after [`Switch::stop`].
    state: Mutex<Option<State>>,
    engine: Mutex<Engine>,
    /// What workers' caches count goes to rules, groups and tables through it. Locked last.
    collector: Mutex<Collector>,
    stopped: AtomicBool,
    watched: healthy::Watched,
    context_switches: ContextSwitches,
    drop_history: Mutex<History>,
    drop_watchers: Arc<Watchers>,
    /// Where connections are over a restart.
    connections_file: Option<PathBuf>,
    access: Access,
}

/// What runs under the state. Fields drop in order: workers stop, then the pool goes, then EAL.
#[derive(Debug, Default)]
struct Engine {
    workers: Vec<Worker>,
    /// Readings at the last clear.
    cleared: Vec<WorkerInfo>,
    /// Threads of the control side.
    companions: Vec<companion::Companion>,
    pool: Option<Mempool>,
    #[cfg(feature = "dpdk")]
    eal: Option<Arc<vswitch_dpdk::eal::Eal>>,
}

impl Switch {
    /// Events from now on. A subscriber that falls behind is told how many it lost
    /// (`RecvError::Lagged`).
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<PortEvent> {
        self.events.subscribe()
    }

    /// All workers, in the order of their cores' configuration.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerInfo> {
        let engine = self.engine.lock();
        let mut infos = self.readings(&engine.workers);
        infos.iter_mut().zip(&engine.cleared).for_each(|(info, base)| info.count_from(base));
        drop(engine);
        // Not from the state: a worker that is stuck holds up a change, and this must still tell
        // which one.
        let snapshot = self.publisher.current();
        for (info, rxqs) in infos.iter_mut().zip(&snapshot.rxqs) {
            info.rxqs = rxqs.len().try_into().unwrap_or(u32::MAX);
        }
        for info in &mut infos {
            info.nonvoluntary_switches = self.context_switches.nonvoluntary(info.core);
        }
        infos
    }

    /// Starts the workers' counts over, those of their caches too.
    pub fn clear_worker_stats(&self) {
        let mut engine = self.engine.lock();
        engine.cleared = self.readings(&engine.workers);
    }

    fn readings(&self, workers: &[Worker]) -> Vec<WorkerInfo> {
        let tsc_hz = lcore::tsc_hz();
        let read = |(id, (worker, cache)): (usize, (&Worker, &Arc<CacheShared>))| WorkerInfo {
            id: u32::try_from(id).unwrap_or(u32::MAX),
            core: worker.core,
            tsc_hz,
            busy_cycles: worker.stats.busy_cycles.get(),
            idle_cycles: worker.stats.idle_cycles.get(),
            sleep_cycles: worker.stats.sleep_cycles.get(),
            iterations: worker.stats.turns.get(),
            packets: worker.stats.packets.get(),
            bursts: worker.stats.bursts.get(),
            heartbeat_age_ms: heartbeat_age(worker),
            rxqs: 0,
            nonvoluntary_switches: None,
            panicked: self.publisher.losses.of(id).map(|loss| loss.reason.clone()),
            caches: CachesInfo::read(&cache.stats),
        };
        workers.iter().zip(&self.publisher.caches).enumerate().map(read).collect()
    }

    /// The mbuf pool.
    #[must_use]
    pub fn mempool(&self) -> MempoolInfo {
        let engine = self.engine.lock();
        let (size, in_use) = engine.pool.as_ref().map_or((0, 0), |pool| (pool.size() as u64, pool.in_use() as u64));
        #[cfg(feature = "dpdk")]
        let heap_bytes = engine.eal.as_ref().map_or(0, |_| vswitch_dpdk::eal::heap_bytes());
        #[cfg(not(feature = "dpdk"))]
        let heap_bytes = 0;
        MempoolInfo { size, in_use, heap_bytes }
    }

    /// What one port may cost a worker.
    #[must_use]
    pub fn slow_path(&self) -> Rates {
        self.slow_path
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop();
    }
}

fn heartbeat_age(worker: &Worker) -> u64 {
    Millis::now().0.saturating_sub(worker.stats.heartbeat_ms.get())
}
