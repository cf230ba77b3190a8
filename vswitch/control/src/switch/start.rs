//! Starting: EAL, pool, workers, then bridges and ports.

use super::conntrack::{self, ConnectionEvents};
use super::context_switches::ContextSwitches;
use super::healthy::Watched;
use super::state::State;
use super::view::Shown;
use super::{Engine, Switch, monitor, saved};
use crate::access::{Access, Asker};
use crate::config::{ConntrackConfig, DpdkConfig, SwitchConfig};
use crate::drops::Watchers;
use anyhow::Context as _;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::broadcast;
use vswitch_dataplane::cache::Collector;
use vswitch_dataplane::conntrack::Conntrack;
use vswitch_dataplane::limits;
use vswitch_dataplane::port::OpenContext;
use vswitch_dataplane::worker::{Publisher, Worker};
use vswitch_dpdk::Mempool;
use vswitch_flow::spec::Update;

/// Bytes of pool memory per mbuf: header, headroom, data room, and the mempool's own words, rounded
/// up.
const BYTES_PER_MBUF: u64 = 2560;

/// The same without hugepages: an mbuf does not cross a page of 4 KiB.
const BYTES_PER_MBUF_NO_HUGE: u64 = 4352;

/// Largest pool made without being asked: bigger ones only cost cache.
const MBUFS_MAX: u64 = 256 * 1024 - 1;

impl Switch {
    /// Starts EAL and the workers and applies the configuration. A port that fails to open is
    /// logged and kept with its error.
    ///
    /// # Errors
    /// When EAL, the mbuf pool or a worker cannot start, or the configuration contradicts itself.
    /// Nothing is left running.
    pub fn start(config: &SwitchConfig) -> anyhow::Result<Arc<Self>> {
        let switch = Self::prepare(config)?;
        switch.configure(config)?;
        Ok(switch)
    }

    /// The first half of [`Self::start`]: EAL and the workers. [`Self::configure`] is to follow.
    ///
    /// # Errors
    /// When EAL, the mbuf pool or a worker cannot start.
    pub fn prepare(config: &SwitchConfig) -> anyhow::Result<Arc<Self>> {
        let (engine, publisher, state) = start_engine(config)?;
        let (events, _) = broadcast::channel(limits::PORT_EVENTS_QUEUED);
        let drop_watchers = Watchers::new(Arc::clone(&publisher.samplers));
        let collector = Mutex::new(Collector::new(publisher.caches.iter().cloned()));
        let switch = Arc::new(Self {
            events,
            connection_events: Arc::<ConnectionEvents>::default(),
            collector,
            publisher,
            slow_path: config.slow_path,
            turn: Mutex::new(()),
            shown: Shown::default(),
            state: Mutex::new(Some(state)),
            engine: Mutex::new(engine),
            stopped: AtomicBool::new(false),
            watched: Watched::new(),
            context_switches: ContextSwitches::default(),
            drop_history: Mutex::default(),
            drop_watchers,
            connections_file: config.conntrack.state_file.clone(),
            access: Access::new(config),
        });
        switch.edit(|state| {
            switch.show(state);
            Ok(())
        })?;
        switch.guard_losses();
        // From here on `Switch::stop` writes them again, however this ends.
        if let Some(file) = &config.conntrack.state_file {
            saved::use_up(file);
        }
        Ok(switch)
    }

    /// The second half of [`Self::start`]: bridges, ports, routes, the threads of the control side.
    /// [`Self::hurry`] cuts it short: then no port is added any more, and the switch is to be
    /// stopped.
    ///
    /// # Errors
    /// When the configuration contradicts itself.
    pub fn configure(self: &Arc<Self>, config: &SwitchConfig) -> anyhow::Result<()> {
        let switch = self;
        // What an earlier run saved never stops a start.
        let is_saved = config.saved.is_some();
        let pass = |result: anyhow::Result<()>| match result {
            Err(error) if is_saved => {
                tracing::error!("left out of what was saved: {error:#}");
                Ok(())
            }
            result => result,
        };
        for (bridge, ports) in &config.bridges {
            if switch.is_hurried() {
                return Ok(());
            }
            let added = switch.add_bridge(bridge.clone()).with_context(|| format!("bridge {}", bridge.name));
            pass(added)?;
            let program = config.programs.get(&bridge.name);
            if program.is_some_and(|program| program.pipeline.is_some()) {
                // Before it has ports: no packet passes by the flow of the fail mode.
                let cleared = switch.write_pipeline(&bridge.name, &[Update::ReplaceAll { meters: true }]);
                cleared.with_context(|| format!("bridge {}", bridge.name))?;
            }
            for port in ports {
                if switch.is_hurried() {
                    return Ok(());
                }
                let clients = config.saved.as_ref().is_some_and(|saved| saved.client_ports.contains(&port.name));
                let asker = if clients { Asker::Saved } else { Asker::File };
                let added = switch.add_port_for(&bridge.name, port.clone(), asker).map(drop);
                pass(added.with_context(|| format!("bridge {}, port {}", bridge.name, port.name)))?;
            }
        }
        for route in &config.routes {
            pass(switch.add_route(route).with_context(|| format!("route by port {}", route.port)))?;
        }
        let pulse = Arc::clone(&switch.watched.conntrack);
        let tending = conntrack::start(switch.conntrack(), Arc::clone(&switch.connection_events), pulse);
        switch.engine.lock().companions = vec![monitor::start(switch, config.debug.announce), tending];
        Ok(())
    }
}

fn start_engine(config: &SwitchConfig) -> anyhow::Result<(Engine, Arc<Publisher>, State)> {
    // A port with a guest takes several descriptors; without more than the usual 1,024 a full node
    // does not fit.
    if let Err(error) = vswitch_dpdk::raise_fd_limit() {
        tracing::warn!(%error, "the limit of open files stays as it is: raise LimitNOFILE for more than a few hundred ports");
    }
    let cores = &config.dpdk.worker_cores;
    anyhow::ensure!(!cores.is_empty(), "[dpdk] worker_cores is empty; give at least one core");
    let mut engine = Engine::default();
    #[cfg(feature = "dpdk")]
    {
        engine.eal = Some(Arc::new(start_eal(config)?));
    }
    let pool = make_pool(&config.dpdk)?;
    engine.pool = Some(pool.clone());
    let publisher = Arc::new(Publisher::new(cores, Arc::new(make_conntrack(&config.conntrack))));
    publisher.caches.iter().for_each(|cache| cache.enable(config.debug.cache));
    vswitch_dpdk::vhost::set_call_delay(config.worker.call_delay_us);
    let idle_sleep = Duration::from_micros(config.worker.idle_sleep_us.into());
    for (id, core) in cores.iter().enumerate() {
        let worker = Worker::start(id, *core, Arc::clone(&publisher), pool.clone(), idle_sleep, config.slow_path)
            .with_context(|| format!("worker on core {core}; does the core exist, and may this process use it?"))?;
        engine.workers.push(worker);
    }
    let waiting = Arc::clone(&publisher);
    let context = OpenContext {
        #[cfg(feature = "dpdk")]
        eal: Arc::clone(engine.eal.as_ref().context("EAL was started above")?),
        pool,
        quiesce: Arc::new(move || waiting.wait()),
        workers: u16::try_from(cores.len()).unwrap_or(u16::MAX),
        dummies: config.enable_dummy.then(Arc::default),
    };
    let state = State::new(context, cores.clone(), Arc::clone(&publisher.samplers));
    Ok((engine, publisher, state))
}

fn make_conntrack(config: &ConntrackConfig) -> Conntrack {
    let conntrack = Conntrack::new(vswitch_conntrack::Config { connections_max: config.connections });
    let tracker = conntrack.tracker();
    if let Some(file) = &config.state_file {
        // Before zones are set up: what the configuration says of one is what counts.
        saved::restore(&conntrack, file);
    }
    tracker.share_among_ports(config.port_shares);
    tracker.check_windows(config.tcp_seq_check);
    tracker.set_default_limit(config.default_limit);
    for zone in &config.zones {
        tracker.set_limit(zone.zone, zone.limit);
        tracker.set_policy(zone.zone, zone.timeouts);
        tracker.set_established_after_answer(zone.zone, zone.established_after_answer);
    }
    let memory_mb = tracker.counts().memory.div_ceil(1 << 20);
    tracing::info!(connections = config.connections, memory_mb, "memory for connections taken");
    conntrack
}

#[cfg(feature = "dpdk")]
fn start_eal(config: &SwitchConfig) -> anyhow::Result<vswitch_dpdk::eal::Eal> {
    use vswitch_dataplane::port::PortKind;
    use vswitch_dpdk::devargs::{device_name, pci_address};
    use vswitch_dpdk::eal::{Eal, EalConfig};
    let ports = config.bridges.iter().flat_map(|(_, ports)| ports);
    let devices = ports.filter_map(|port| match &port.kind {
        PortKind::Dpdk { devargs, .. } => Some(device_name(devargs)),
        _ => None,
    });
    let drivers: Vec<_> = devices.chain(config.dpdk.allow_drivers.iter().cloned()).collect();
    let pci = config.dpdk.pci || drivers.iter().any(|device| pci_address(device).is_some());
    Ok(Eal::start(&EalConfig {
        main_core: config.dpdk.main_core,
        memory_mb: config.dpdk.memory_mb,
        hugepages: config.dpdk.hugepages,
        file_prefix: config.dpdk.file_prefix.clone(),
        pci,
        drivers,
        args: config.dpdk.args.clone(),
    })?)
}

fn make_pool(config: &DpdkConfig) -> anyhow::Result<Mempool> {
    let each = if config.hugepages { BYTES_PER_MBUF } else { BYTES_PER_MBUF_NO_HUGE };
    let fits = u64::from(config.memory_mb) * 1024 * 1024 * 3 / 4 / each;
    let size = config.mbufs.map_or(fits.min(MBUFS_MAX), u64::from);
    Ok(Mempool::create("packets", usize::try_from(size)?)?)
}
