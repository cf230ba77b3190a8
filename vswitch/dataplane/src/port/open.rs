//! From a [`PortConfig`] to a port that works.

use super::device::{DeviceCounters, Link, Quiesce};
use super::dummy::{self, DummyLog};
use super::{PortConfig, PortKind, RxQueue, TxQueue, VhostConfig, af_packet, tap, vhost};
use crate::packet::{Mac, TxCaps};
use std::path::Path;
use std::sync::Arc;
use vswitch_dpdk::Mempool;

#[cfg(feature = "dpdk")]
use super::ethdev::{EthdevPort, EthdevTxQueue};
#[cfg(feature = "dpdk")]
use super::memif::{Memif, MemifRxQueue};
#[cfg(feature = "dpdk")]
use vswitch_dpdk::{devargs::is_memif, eal::Eal, ethdev};

/// What opening a port needs of the switch.
#[derive(Clone)]
#[allow(missing_debug_implementations)] // holds a closure
pub struct OpenContext {
    /// For devices of DPDK.
    #[cfg(feature = "dpdk")]
    pub eal: Arc<Eal>,
    /// Where received packets come from.
    pub pool: Mempool,
    /// Waits for the workers.
    pub quiesce: Quiesce,
    /// Number of workers: as many transmit queues are useful.
    pub workers: u16,
    /// Where dummy ports write what they send; none: there are no dummy ports.
    pub dummies: Option<Arc<DummyLog>>,
}

/// A port that is open.
#[derive(Debug)]
pub struct OpenPort {
    /// Receive queues, each to be handed to one worker.
    pub rx: Vec<RxQueue>,
    /// Transmit queues; a worker takes the one of its index, modulo.
    pub tx: Vec<TxQueue>,
    /// The control side; dropped last.
    pub device: Device,
}

/// The control side of a port.
#[derive(Debug)]
pub enum Device {
    /// An Ethernet device of DPDK.
    #[cfg(feature = "dpdk")]
    Ethdev(EthdevPort),
    /// A TAP interface.
    Tap(tap::TapDevice),
    /// A packet socket on somebody else's interface.
    AfPacket(af_packet::AfPacketDevice),
    /// A guest.
    Vhost(vhost::VhostDevice),
    /// A dummy port.
    Dummy(dummy::DummyDevice),
    /// A patch port (its other end is found by name at publication), or a tunnel: no device at all.
    Patch,
    /// Of a test.
    #[cfg(any(test, fuzzing))]
    Sim,
}

/// Opens a port; `kind` is that of the configuration, with paths as they are to be opened. May take
/// 100 ms.
///
/// # Errors
/// In words that name the device, the step, the cause and a fix.
pub fn open(context: &OpenContext, config: &PortConfig, kind: &PortKind) -> Result<OpenPort, String> {
    match kind {
        PortKind::Dpdk { devargs, queues } => ethdev_port(context, config, devargs, *queues),
        PortKind::Pcap { rx_file, tx_file, infinite_rx } => {
            let devargs = pcap_devargs(&config.name, rx_file.as_deref(), tx_file.as_deref(), *infinite_rx);
            ethdev_port(context, config, &devargs, 1)
        }
        PortKind::VhostUser(request) => vhost_port(context, config, request),
        PortKind::Tap { interface, queues } => tap_port(context, config, interface, *queues),
        PortKind::Internal { queues } => tap_port(context, config, &config.name, *queues),
        PortKind::AfPacket { interface } => {
            let (rx, tx, device) = af_packet::open(interface, &context.pool).map_err(|error| error.to_string())?;
            Ok(OpenPort {
                rx: vec![RxQueue::AfPacket(rx)],
                tx: vec![TxQueue::AfPacket(tx)],
                device: Device::AfPacket(device),
            })
        }
        PortKind::Patch { .. } | PortKind::Tunnel(_) => {
            Ok(OpenPort { rx: Vec::new(), tx: Vec::new(), device: Device::Patch })
        }
        PortKind::Dummy => {
            let log =
                context.dummies.as_ref().ok_or("dummy ports are for tests: start vswitchd with --enable-dummy")?;
            let (rx, tx, device) = dummy::open(&config.name, log, &context.pool);
            Ok(OpenPort { rx: vec![RxQueue::Dummy(rx)], tx: vec![TxQueue::Dummy(tx)], device: Device::Dummy(device) })
        }
    }
}

fn vhost_port(context: &OpenContext, config: &PortConfig, request: &VhostConfig) -> Result<OpenPort, String> {
    let quiesce = Quiesce::clone(&context.quiesce);
    let (rx, tx, device) =
        vhost::open(request, config.mtu, quiesce, &context.pool).map_err(|error| error.to_string())?;
    Ok(OpenPort {
        rx: rx.into_iter().map(RxQueue::Vhost).collect(),
        tx: tx.into_iter().map(TxQueue::Vhost).collect(),
        device: Device::Vhost(device),
    })
}

fn tap_port(context: &OpenContext, config: &PortConfig, interface: &str, queues: u16) -> Result<OpenPort, String> {
    let (rx, tx, device) =
        tap::open(interface, config.mac, config.mtu, queues, &context.pool).map_err(|error| error.to_string())?;
    Ok(OpenPort {
        rx: rx.into_iter().map(RxQueue::Tap).collect(),
        tx: tx.into_iter().map(TxQueue::Tap).collect(),
        device: Device::Tap(device),
    })
}

fn pcap_devargs(name: &str, rx_file: Option<&Path>, tx_file: Option<&Path>, infinite_rx: bool) -> String {
    let mut devargs = format!("net_pcap_{name}");
    for (key, file) in [("rx_pcap", rx_file), ("tx_pcap", tx_file)] {
        if let Some(file) = file {
            devargs.push_str(&format!(",{key}={}", file.display()));
        }
    }
    if infinite_rx {
        devargs.push_str(",infinite_rx=1");
    }
    devargs
}

#[cfg(feature = "dpdk")]
fn ethdev_port(context: &OpenContext, config: &PortConfig, devargs: &str, queues: u16) -> Result<OpenPort, String> {
    let request = ethdev::EthdevConfig {
        devargs: devargs.to_owned(),
        rx_queues: queues,
        tx_queues: context.workers,
        mtu: config.mtu,
        mac: config.mac,
        offloads: true,
    };
    let memif = if is_memif(devargs) { Some(Memif::new()?) } else { None };
    let pool = memif.as_ref().map_or(&context.pool, Memif::pool);
    let (device, rx, tx) = ethdev::Ethdev::open(&context.eal, request, pool).map_err(|error| error.to_string())?;
    let rx_queue = |queue| match &memif {
        Some(_) => RxQueue::Memif(MemifRxQueue::new(queue, context.pool.clone())),
        None => RxQueue::Ethdev(queue),
    };
    let (multi_segment, ip) = (device.has_multi_segment(), device.fills_ip_checksums());
    Ok(OpenPort {
        rx: rx.into_iter().map(rx_queue).collect(),
        tx: tx.into_iter().map(|queue| TxQueue::Ethdev(EthdevTxQueue::new(queue, multi_segment, ip))).collect(),
        device: Device::Ethdev(EthdevPort { device, memif }),
    })
}

#[cfg(not(feature = "dpdk"))]
fn ethdev_port(_: &OpenContext, _: &PortConfig, devargs: &str, _: u16) -> Result<OpenPort, String> {
    Err(format!("device {devargs}: this build has no DPDK; build with the feature dpdk"))
}

impl Device {
    /// Carrier, guest, peer. A patch port's link is its peer's business and reported up here.
    #[must_use]
    pub fn link(&self) -> Link {
        match self {
            #[cfg(feature = "dpdk")]
            Self::Ethdev(device) => device.link(),
            Self::Tap(device) => device.link(),
            Self::AfPacket(device) => device.link(),
            Self::Vhost(device) => device.link(),
            Self::Dummy(device) => device.link(),
            Self::Patch => Link { up: true, speed_mbps: 0 },
            #[cfg(any(test, fuzzing))]
            Self::Sim => Link { up: true, speed_mbps: 0 },
        }
    }

    /// Why it passes nothing any more, if its interface is gone.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Tap(device) => device.trouble(),
            Self::AfPacket(device) => device.trouble(),
            _ => None,
        }
    }

    /// The device's own address, if it has one.
    #[must_use]
    pub fn mac(&self) -> Option<Mac> {
        match self {
            #[cfg(feature = "dpdk")]
            Self::Ethdev(device) => Some(device.mac()),
            Self::Tap(device) => device.mac(),
            Self::AfPacket(device) => device.mac(),
            Self::Vhost(_) | Self::Dummy(_) | Self::Patch => None,
            #[cfg(any(test, fuzzing))]
            Self::Sim => None,
        }
    }

    /// Index of the interface of the kernel behind it, if there is one in this network namespace.
    #[must_use]
    pub fn interface_index(&self) -> Option<u32> {
        match self {
            #[cfg(feature = "dpdk")]
            Self::Ethdev(port) => port.device.interface_index(),
            Self::Tap(device) => device.interface_index(),
            Self::AfPacket(device) => device.interface_index(),
            _ => None,
        }
    }

    /// MTU of that interface, in bytes, of a kind whose owner may change it.
    #[must_use]
    pub fn interface_mtu(&self) -> Option<u32> {
        match self {
            Self::Tap(device) => device.mtu(),
            Self::AfPacket(device) => device.mtu(),
            _ => None,
        }
    }

    /// Why its port is to be taken down: its peer broke the rules. To be asked again and again.
    #[cfg(feature = "dpdk")]
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        match self {
            Self::Ethdev(port) => port.memif.as_ref().and_then(Memif::lost),
            _ => None,
        }
    }

    /// Changes the MTU.
    ///
    /// # Errors
    /// When the device refuses, in words.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), String> {
        match self {
            #[cfg(feature = "dpdk")]
            Self::Ethdev(device) => device.set_mtu(mtu),
            Self::Tap(device) => device.set_mtu(mtu).map_err(|error| error.to_string()),
            Self::AfPacket(device) => device.set_mtu(mtu).map_err(|error| error.to_string()),
            Self::Vhost(device) => device.set_mtu(mtu).map_err(|error| error.to_string()),
            Self::Dummy(_) | Self::Patch => Ok(()),
            #[cfg(any(test, fuzzing))]
            Self::Sim => Ok(()),
        }
    }

    /// Tells the device whether its port is up.
    ///
    /// # Errors
    /// When the device refuses, in words.
    pub fn set_admin(&self, up: bool) -> Result<(), String> {
        match self {
            Self::Tap(device) => device.set_admin(up).map_err(|error| error.to_string()),
            // The walk gates their traffic; a device of somebody else is not ours to take down.
            _ => Ok(()),
        }
    }

    /// Whether packets for it can leave now. Only a guest can be absent; a kernel interface that is
    /// down says so when sent to.
    #[inline]
    #[must_use]
    pub fn is_ready(&self) -> bool {
        match self {
            Self::Vhost(device) => device.is_ready(),
            _ => true,
        }
    }

    /// Whether its transmit queues copy packets before they return. Others may keep an mbuf for
    /// longer.
    #[must_use]
    pub const fn copies(&self) -> bool {
        matches!(self, Self::Vhost(_))
    }

    /// What its transmit queues take unfinished. May change when a guest connects.
    #[inline]
    #[must_use]
    pub fn tx_caps(&self) -> TxCaps {
        match self {
            #[cfg(feature = "dpdk")]
            Self::Ethdev(device) => device.tx_caps(),
            Self::Tap(device) => device.tx_caps(),
            Self::AfPacket(device) => device.tx_caps(),
            Self::Vhost(device) => device.tx_caps(),
            Self::Dummy(_) => TxCaps::default(),
            Self::Patch => TxCaps { csum: true, tso4: true, tso6: true, uso: true },
            #[cfg(any(test, fuzzing))]
            Self::Sim => TxCaps::default(),
        }
    }

    /// Offloads in use, by name.
    #[must_use]
    pub fn offloads(&self) -> Vec<&'static str> {
        match self {
            #[cfg(feature = "dpdk")]
            Self::Ethdev(device) => device.offloads(),
            Self::Tap(device) => device.offloads().to_vec(),
            Self::AfPacket(device) => device.offloads().to_vec(),
            Self::Vhost(device) => device.offloads(),
            Self::Dummy(_) | Self::Patch => Vec::new(),
            #[cfg(any(test, fuzzing))]
            Self::Sim => Vec::new(),
        }
    }

    /// What the device itself counts.
    #[must_use]
    pub fn counters(&self) -> DeviceCounters {
        match self {
            #[cfg(feature = "dpdk")]
            Self::Ethdev(device) => device.counters(),
            Self::Tap(device) => device.counters(),
            Self::AfPacket(device) => device.counters(),
            Self::Vhost(device) => device.counters(),
            Self::Dummy(_) | Self::Patch => DeviceCounters::default(),
            #[cfg(any(test, fuzzing))]
            Self::Sim => DeviceCounters::default(),
        }
    }
}
