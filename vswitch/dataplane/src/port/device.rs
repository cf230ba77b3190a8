//! What every kind of port's control side reports.

pub use vswitch_dpdk::vhost::Quiesce;

/// Link of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// There is a peer.
    pub up: bool,
    /// Mbit/s; 0: unknown.
    pub speed_mbps: u32,
}

/// What the device itself counts; zeros where it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Packets lost before the switch saw them.
    pub rx_missed: u64,
    /// Receive errors.
    pub rx_errors: u64,
    /// Transmit errors.
    pub tx_errors: u64,
}
