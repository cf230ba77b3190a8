//! What a change ends besides flows.

use std::net::IpAddr;

/// Connections that are to end, since what they rest on is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flush {
    /// All from or to an address: of a Pod that went.
    Address(IpAddr),
    /// Those that a Service led to an endpoint, or to any.
    Service {
        /// IP protocol.
        protocol: u8,
        /// Where clients sent them; None: anywhere (a `NodePort`).
        address: Option<IpAddr>,
        /// The Service's port.
        port: u16,
        /// The endpoint.
        endpoint: Option<(IpAddr, u16)>,
    },
    /// Learned flows (table `SessionAffinity`) that lead clients of a Service on to an endpoint, or
    /// to any. Those to any are deleted by [`crate::Plan::updates`]; those to one by
    /// [`Flush::learned`] and [`Flush::leads_on`].
    Affinity {
        /// IP protocol.
        protocol: u8,
        /// Where clients sent their packets; None: to the Node (a `NodePort`).
        address: Option<IpAddr>,
        /// The Service's port.
        port: u16,
        /// The endpoint.
        endpoint: Option<(IpAddr, u16)>,
    },
    /// Learned flows of clients of a Service, to whatever endpoint; those of single connections
    /// (direct server return) stay. Found as those to one endpoint are.
    Clients {
        /// IP protocol.
        protocol: u8,
        /// Where clients sent their packets; None: to the Node (a `NodePort`).
        address: Option<IpAddr>,
        /// The Service's port.
        port: u16,
    },
}
