//! Why a vhost-user port could not be opened.

use std::io;
use std::path::PathBuf;

/// Why a vhost-user port could not be opened: what, where, and how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum VhostError {
    /// Built without DPDK.
    #[error("{}: this build has no vhost-user ports; build with the feature dpdk", path.display())]
    NoDpdk {
        /// The socket.
        path: PathBuf,
    },
    /// The path cannot be a socket's.
    #[error(
        "{path:?} is no socket path: {problem}; use a path of at most 106 bytes, its last component of at most 80, without NUL"
    )]
    Path {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The directory of a server socket is not there.
    #[error(
        "cannot make the socket {}: its directory: {source}; create it (mkdir -p), writable for the switch and searchable for the guest",
        path.display()
    )]
    Directory {
        /// The socket.
        path: PathBuf,
        /// Why the directory is unusable.
        source: io::Error,
    },
    /// Something that is not a socket has the name.
    #[error("{} exists and is a {what}, not a socket; it is left alone: remove it, or choose another path", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Another port or process has the socket.
    #[error("the socket {} is in use by {who}; stop that, or choose another path", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
        /// Who uses it.
        who: &'static str,
    },
    /// A file operation failed.
    #[error("the socket {}: cannot {action}: {source}; check the rights of the switch there", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// librte_vhost has no room for one more.
    #[error(
        "no room for the socket {}: librte_vhost polls 1024 descriptors per process, two per server socket and one per client \
         socket; remove ports, or use client sockets",
        path.display()
    )]
    TooMany {
        /// The path.
        path: PathBuf,
    },
    /// librte_vhost is not the one that the switch knows.
    #[error(
        "no vhost-user port can be opened, {} neither: librte_vhost of {version} is unknown: {difference}; \
         use DPDK 22.11, or a build of the switch for this DPDK",
        path.display()
    )]
    UnknownLibrary {
        /// The socket.
        path: PathBuf,
        /// What is not as it is in DPDK 22.11.
        difference: &'static str,
        /// What DPDK says it is.
        version: String,
    },
    /// librte_vhost refused.
    #[error(
        "librte_vhost: {call} failed for {}; are there free descriptors (ulimit -n)? \
         args = [\"--log-level=info\", \"--log-level=lib.vhost.*:info\"] in [dpdk] tells more",
        path.display()
    )]
    Library {
        /// The socket.
        path: PathBuf,
        /// The function.
        call: &'static str,
    },
}
