//! Where an address is: through which of our ports, over which gateway, from which of our own addresses.

use std::net::IpAddr;
use std::str::FromStr;

/// Routes of users, and connected ones, together.
pub const ROUTES_MAX: usize = 4096;

/// An address and how many of its bits count: `192.168.1.1/24`. Of a port: its own address, and what is on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    /// With all its bits, those behind the prefix too.
    pub address: IpAddr,
    /// At most 32 or 128.
    pub len: u8,
}

/// A route that somebody added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserRoute {
    /// Where to; bits behind the prefix must be 0.
    pub prefix: Cidr,
    /// Number of the port (as the caller counts ports: one that has addresses).
    pub port: u32,
    /// The next hop; none: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Our own address to be used; none: the port's that shares its network with the destination, else with the gateway.
    pub source: Option<IpAddr>,
}

/// The way to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The port it leads out of.
    pub port: u32,
    /// The next hop, if it is not the destination itself.
    pub gateway: Option<IpAddr>,
    /// The address to be used as our own.
    pub source: IpAddr,
}

/// A route, as listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    /// Where to.
    pub prefix: Cidr,
    /// The port.
    pub port: u32,
    /// The next hop.
    pub gateway: Option<IpAddr>,
    /// Our own address; none: the port has none that would do, and the route is not used.
    pub source: Option<IpAddr>,
    /// Somebody added it; else it is a port's own network.
    pub user: bool,
}

/// Why a route cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum RouteError {
    #[error("there are {ROUTES_MAX} routes already")]
    Full,
    #[error("there is a route to that prefix already")]
    Exists,
    #[error("there is no such route")]
    Missing,
    #[error("the prefix has bits set behind its length")]
    HostBits,
    #[error("destination, gateway and source must be of one family")]
    Family,
    #[error("the port has no address in the network of the destination or of the gateway")]
    NoSource,
    #[error("the source is no address of the port")]
    NotOurs,
    #[error("that is no address of a host")]
    Address,
}

/// Why a text is no [`Cidr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write ADDRESS/LENGTH, such as 192.168.1.1/24 or 2001:db8::1/64")]
pub struct CidrError;

impl FromStr for Cidr {
    type Err = CidrError;

    /// An address without a length is a host's: all its bits count.
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let _ = text;
        unimplemented!()
    }
}

/// All routes. A clone is cheap, and does not see what is changed later: publish it with the rest of a world.
#[derive(Clone, Debug, Default)]
pub struct Routes {}

impl Routes {
    /// Gives a port these addresses and no others (none: it is gone): their networks are connected routes, and users' routes through the port take their sources from them. Users' routes stay, even
    /// those that have no source now.
    ///
    /// # Errors
    /// When there are too many routes, or one is no address of a host; nothing has changed then.
    pub fn set_addresses(&mut self, port: u32, addresses: &[Cidr]) -> Result<(), RouteError> {
        let _ = (port, addresses);
        unimplemented!()
    }

    /// Addresses of a port.
    #[must_use]
    pub fn addresses(&self, port: u32) -> &[Cidr] {
        let _ = port;
        unimplemented!()
    }

    /// The port that has this address.
    #[must_use]
    pub fn owner(&self, address: IpAddr) -> Option<u32> {
        let _ = address;
        unimplemented!()
    }

    /// Adds a route.
    ///
    /// # Errors
    /// What is wrong with it; nothing has changed then.
    pub fn add(&mut self, route: UserRoute) -> Result<(), RouteError> {
        let _ = route;
        unimplemented!()
    }

    /// Removes the route that somebody added to this prefix.
    ///
    /// # Errors
    /// When there is none.
    pub fn remove(&mut self, prefix: Cidr) -> Result<(), RouteError> {
        let _ = prefix;
        unimplemented!()
    }

    /// The way to an address: of the longest prefix, and of a user's route before a connected one.
    #[must_use]
    pub fn lookup(&self, to: IpAddr) -> Option<Route> {
        let _ = to;
        unimplemented!()
    }

    /// All routes: IPv4 before IPv6, in order of lookup.
    pub fn iter(&self) -> impl Iterator<Item = Listed> {
        std::iter::empty()
    }
}
