//! The DPDK devices where packets go out and come back.

use crate::cli::Cli;
use crate::frame::Frames;
use anyhow::Context;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vswitch_dpdk::devargs::device_name;
use vswitch_dpdk::eal::{Eal, EalConfig};
use vswitch_dpdk::ethdev::{EthRxQueue, EthTxQueue, Ethdev, EthdevConfig};
use vswitch_dpdk::{Burst, Mempool};

/// More than both rings of both devices hold.
const MBUFS: usize = 16_384;
const MTU: u16 = 1500;

/// Frames that say where the far end is: the first ones of a port that is not fully there yet are
/// lost.
const ANNOUNCED: usize = 5;
const BETWEEN: Duration = Duration::from_millis(20);

/// One or two devices. Fields in order of their end: queues, devices, and the pool before EAL.
pub(crate) struct Ends {
    near: (EthRxQueue, EthTxQueue),
    far: Option<(EthRxQueue, EthTxQueue)>,
    /// Mbufs of what is received; their life is short, so one burst does for all.
    burst: Burst,
    devices: Vec<Ethdev>,
    pool: Mempool,
    _eal: Arc<Eal>,
}

impl Ends {
    /// Starts EAL, opens the devices and waits for their links. A device that waits for its other
    /// side does so here.
    ///
    /// # Errors
    /// When EAL, the pool or a device refuses, or a link does not come up.
    pub(crate) fn open(cli: &Cli) -> anyhow::Result<Self> {
        let eal = Arc::new(Eal::start(&EalConfig {
            main_core: cli.core,
            memory_mb: cli.memory_mb,
            hugepages: !cli.no_huge,
            file_prefix: Some(format!("vsgen{}", std::process::id())),
            pci: false,
            drivers: cli.ports.iter().map(|devargs| device_name(devargs)).collect(),
            // vhost-user hands over a descriptor for each file of memory, and eight at most.
            args: if cli.no_huge { Vec::new() } else { vec!["--single-file-segments".to_owned()] },
        })?);
        let pool = Mempool::create("vsgen", MBUFS)?;
        let mut queues = Vec::new();
        let mut devices = Vec::new();
        for devargs in &cli.ports {
            let config = EthdevConfig {
                devargs: devargs.clone(),
                rx_queues: 1,
                tx_queues: 1,
                mtu: MTU,
                mac: None,
                offloads: false,
            };
            let (device, mut rx, mut tx) = Ethdev::open(&eal, config, &pool)?;
            devices.push(device);
            queues.push(rx.pop().zip(tx.pop()).context("a device without queues")?);
        }
        let far = (queues.len() > 1).then(|| queues.pop()).flatten();
        let near = queues.pop().context("no port")?;
        let ends = Self { near, far, burst: Burst::new(), devices, pool, _eal: eal };
        ends.wait_links(cli.connect)?;
        Ok(ends)
    }

    fn wait_links(&self, limit: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        while !self.devices.iter().all(|device| device.link().0) {
            anyhow::ensure!(started.elapsed() < limit, "a port has no link after {} s", limit.as_secs());
            std::thread::sleep(BETWEEN);
        }
        Ok(())
    }

    /// The far end sends some frames to the near one.
    pub(crate) fn announce(&mut self, frames: &Frames) {
        for _ in 0..ANNOUNCED {
            let mut burst = Burst::new();
            self.fill(&mut burst, 1, frames.len(), |frame| frames.write_back(frame));
            self.far.as_mut().unwrap_or(&mut self.near).1.send(&mut burst);
            std::thread::sleep(BETWEEN);
        }
    }

    /// Appends up to `count` frames of `len` bytes that `write` writes; fewer when there are no
    /// mbufs.
    #[inline]
    pub(crate) fn fill(&self, burst: &mut Burst, count: usize, len: usize, mut write: impl FnMut(&mut [u8])) {
        for _ in 0..count {
            let Some(mut mbuf) = self.pool.alloc() else { return };
            if !mbuf.grow(len) {
                return;
            }
            write(mbuf.head_mut());
            if burst.push(mbuf).is_err() {
                return;
            }
        }
    }

    /// Gives the near end what it takes of a burst; the rest stays.
    #[inline]
    pub(crate) fn send(&mut self, burst: &mut Burst) {
        self.near.1.send(burst);
    }

    /// Hands what has come at the far end to `take`, as a burst; true when there may be more. What
    /// has come at the near end is freed.
    #[inline]
    pub(crate) fn receive(&mut self, mut take: impl FnMut(&Burst)) -> bool {
        let far = if let Some((rx, _)) = &mut self.far {
            self.near.0.receive(&mut self.burst);
            self.burst.clear();
            rx
        } else {
            &mut self.near.0
        };
        far.receive(&mut self.burst);
        let more = self.burst.is_full();
        if !self.burst.is_empty() {
            take(&self.burst);
            self.burst.clear();
        }
        more
    }
}
