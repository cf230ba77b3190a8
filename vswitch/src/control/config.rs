//! The configuration of the switch as values. Reading it from TOML is the job of `config::parse` (strict, all errors at once).

use super::info::BridgeConfig;
use crate::port::PortConfig;
use std::path::PathBuf;

/// All of `vswitchd`'s configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Section `[dpdk]`.
    pub dpdk: DpdkConfig,
    /// Section `[worker]`.
    pub worker: WorkerConfig,
    /// `[control] socket`: where gRPC listens; mode 0660.
    pub socket: PathBuf,
    /// `[[bridge]]`, each with its `[[bridge.port]]`.
    pub bridges: Vec<(BridgeConfig, Vec<PortConfig>)>,
}

/// Section `[dpdk]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DpdkConfig {
    /// Cores that poll, one worker each. Default: the highest available core.
    pub worker_cores: Vec<u32>,
    /// Core of DPDK's and the switch's control threads. Default: the lowest available core.
    pub main_core: u32,
    /// Memory for mbufs and devices, in MiB.
    pub memory_mb: u32,
    /// Buffers in the mbuf pool (about 2.4 KiB each). Default: what fits three quarters of `memory_mb`.
    pub mbufs: Option<u32>,
    /// Use hugepages.
    pub hugepages: bool,
    /// Prefix of EAL's runtime files.
    pub file_prefix: Option<String>,
    /// Let PCI devices be probed (implied by a port whose devargs are a PCI address).
    pub pci: bool,
    /// Passed to EAL as they are.
    pub args: Vec<String>,
}

/// Section `[worker]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerConfig {
    /// Longest sleep of an idle worker, in microseconds; 0: never sleeps.
    pub idle_sleep_us: u32,
}
