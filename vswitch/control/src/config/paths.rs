//! Where clients may name sockets and files.

use std::path::PathBuf;
use vswitch_dpdk::drivers::Takes;

/// Section `[paths]`: the directories in which clients may name sockets and files. Absolute paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathsConfig {
    /// Sockets of vhost-user ports and of `net_virtio_user`.
    pub sockets: Vec<PathBuf>,
    /// Sockets of `net_memif`.
    pub memif: Vec<PathBuf>,
    /// Captures that ports of type pcap read and write.
    pub captures: Vec<PathBuf>,
}

/// Where sockets are by default.
const SOCKETS_DEFAULT: &str = "/run/vswitch";

impl Default for PathsConfig {
    fn default() -> Self {
        Self {
            sockets: vec![SOCKETS_DEFAULT.into()],
            memif: vec![SOCKETS_DEFAULT.into()],
            captures: vec![Self::CAPTURES_DEFAULT.into()],
        }
    }
}

impl PathsConfig {
    /// Where captures are by default. The directory is made when the first one is written.
    pub(crate) const CAPTURES_DEFAULT: &str = "/var/lib/vswitch/captures";

    /// The directories for what a path is, and their key in `[paths]`.
    pub(crate) fn of(&self, takes: Takes) -> (&[PathBuf], &'static str) {
        match takes {
            Takes::Memif => (&self.memif, "memif"),
            Takes::Reads | Takes::Writes => (&self.captures, "captures"),
            Takes::Vhost | Takes::Word => (&self.sockets, "sockets"),
        }
    }
}
