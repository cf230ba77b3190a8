//! Where an address is: through which of our ports, over which gateway, from which of our own
//! addresses.
//!
//! **Where in the walk**: translation asks at an output to a tunnel port.
//!
//! **Semantics**: the longest prefix that has a source address wins; between equal ones, a user's
//! route before a connected one, then the port of the lower number. Open vSwitch 3.1 prefers a
//! user's route to a connected one whose prefix is up to 32 bits longer, so that a default route
//! hides the networks that are on the link: we do not.
//!
//! **Design**: a list per family and length of prefixes, in order of lookup; what a route's source
//! is was found out when it was made, or when the port's addresses changed. All of it is behind one
//! `Arc` and copied when it is changed while somebody has a clone.
//!
//! **Limits**: [`ROUTES_MAX`]. A lookup looks into 33 or 129 lists at most.

mod cidr;

pub use cidr::{Cidr, CidrError};

use crate::is_host;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Routes of users, and addresses of ports, together.
pub const ROUTES_MAX: usize = 4096;

/// A route that somebody added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserRoute {
    /// Where to; bits behind the prefix must be 0.
    pub prefix: Cidr,
    /// Number of the port (as the caller counts ports: one that has addresses).
    pub port: u32,
    /// The next hop; none: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Our own address to be used; none: the port's that shares its network with the destination,
    /// else with the gateway.
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

/// A part of a route that somebody gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Part {
    Prefix,
    Gateway,
    Source,
}

impl Part {
    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::Gateway => "gateway",
            Self::Source => "source",
        }
    }
}

/// Why a route or an address cannot be. Which part of a route is at fault: [`RouteError::part`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum RouteError {
    #[error("there are {ROUTES_MAX} routes already")]
    Full,
    #[error("there is a route to that prefix already")]
    Exists,
    #[error("there is no such route")]
    Missing,
    #[error("{0} has bits set behind its length")]
    HostBits(Cidr),
    #[error("{0} has no such length")]
    Length(Cidr),
    #[error("{1} is not of the family of the prefix")]
    Family(Part, IpAddr),
    #[error("{1} is not a host's address")]
    NotHost(Part, IpAddr),
    #[error("{0} is in no network of the port, and there is no gateway")]
    NoSource(Cidr),
    #[error("{0} is in no network of the port")]
    Unreachable(IpAddr),
    #[error("{0} is no address of the port")]
    NotOurs(IpAddr),
    #[error("that is no address of a host, or no length of a prefix")]
    Address,
}

impl RouteError {
    /// What of a route is wrong.
    #[must_use]
    pub const fn part(self) -> Part {
        match self {
            Self::Family(part, _) | Self::NotHost(part, _) => part,
            Self::Unreachable(_) => Part::Gateway,
            Self::NotOurs(_) => Part::Source,
            _ => Part::Prefix,
        }
    }
}

/// A list of routes, in order of lookup: IPv4 first, the longest prefix first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Length {
    v6: bool,
    /// Bits that do not count.
    host: u8,
}

/// A route among those of its length, in order of lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RouteRank {
    network: IpAddr,
    connected: bool,
    port: u32,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    gateway: Option<IpAddr>,
    source: Option<IpAddr>,
    /// What a user asked for.
    wanted: Option<IpAddr>,
}

#[derive(Clone, Debug, Default)]
struct Tables {
    /// Without empty lists.
    lists: BTreeMap<Length, BTreeMap<RouteRank, Way>>,
    /// By port, in the order given; without empty ones.
    addresses: BTreeMap<u32, Vec<Cidr>>,
    users: usize,
}

/// All routes. A clone is cheap, and does not see what is changed later: publish it with the rest
/// of a world.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    tables: Arc<Tables>,
}

impl Routes {
    /// Gives a port these addresses and no others (none: it is gone): their networks are connected
    /// routes, and users' routes through the port take their sources from them. Users' routes stay,
    /// even those that have no source now. Of several addresses in one network the first one is
    /// that route's source.
    ///
    /// # Errors
    /// When there are too many routes, or one is no address of a host; nothing has changed then.
    pub fn set_addresses(&mut self, port: u32, addresses: &[Cidr]) -> Result<(), RouteError> {
        if !addresses.iter().all(|cidr| cidr.is_valid() && is_host(cidr.address)) {
            return Err(RouteError::Address);
        }
        let others = self.tables.len() - self.addresses(port).len();
        if others + addresses.len() > ROUTES_MAX {
            return Err(RouteError::Full);
        }
        if self.addresses(port) != addresses {
            Arc::make_mut(&mut self.tables).set_addresses(port, addresses);
        }
        Ok(())
    }

    /// Addresses of a port.
    #[must_use]
    pub fn addresses(&self, port: u32) -> &[Cidr] {
        self.tables.addresses.get(&port).map_or(&[], Vec::as_slice)
    }

    /// The port that has this address, the one of the lowest number if there are several. Looks at
    /// all of them: for the control side.
    #[must_use]
    pub fn owner(&self, address: IpAddr) -> Option<u32> {
        let mut ports = self.tables.addresses.iter();
        ports.find(|(_, own)| own.iter().any(|cidr| cidr.address == address)).map(|(port, _)| *port)
    }

    /// Adds a route.
    ///
    /// # Errors
    /// What is wrong with it; nothing has changed then.
    pub fn add(&mut self, route: UserRoute) -> Result<(), RouteError> {
        let UserRoute { prefix, port, gateway, source } = route;
        route.check()?;
        if self.tables.user(prefix).is_some() {
            return Err(RouteError::Exists);
        }
        if self.tables.len() >= ROUTES_MAX {
            return Err(RouteError::Full);
        }
        let found = source_of(self.addresses(port), prefix.address, gateway, source);
        let found = found.ok_or(match (source, gateway) {
            (Some(source), _) => RouteError::NotOurs(source),
            (None, Some(gateway)) => RouteError::Unreachable(gateway),
            (None, None) => RouteError::NoSource(prefix),
        })?;
        let tables = Arc::make_mut(&mut self.tables);
        tables.insert(prefix, (false, port), Way { gateway, source: Some(found), wanted: source });
        tables.users += 1;
        Ok(())
    }

    /// Removes the route that somebody added to this prefix.
    ///
    /// # Errors
    /// When there is none.
    pub fn remove(&mut self, prefix: Cidr) -> Result<(), RouteError> {
        let place = self.tables.user(prefix).ok_or(RouteError::Missing)?;
        let tables = Arc::make_mut(&mut self.tables);
        tables.delete(prefix, place);
        tables.users -= 1;
        Ok(())
    }

    /// The way to an address.
    #[must_use]
    pub fn lookup(&self, to: IpAddr) -> Option<Route> {
        let found = self.lookup_listed(to)?;
        Some(Route { port: found.port, gateway: found.gateway, source: found.source? })
    }

    /// The same, with all that is known of the route.
    #[must_use]
    pub fn lookup_listed(&self, to: IpAddr) -> Option<Listed> {
        let v6 = to.is_ipv6();
        let lengths = Length { v6, host: 0 }..=Length { v6, host: u8::MAX };
        self.tables.lists.range(lengths).find_map(|(length, list)| {
            let same = list.range(RouteRank::all(length.prefix(to).network()));
            same.map(|(place, way)| length.listed(place, way)).find(|listed| listed.source.is_some())
        })
    }

    /// All routes: IPv4 before IPv6, in order of lookup.
    pub fn iter(&self) -> impl Iterator<Item = Listed> {
        let lists = self.tables.lists.iter();
        lists.flat_map(|(length, list)| list.iter().map(|(place, way)| length.listed(place, way)))
    }
}

impl UserRoute {
    /// What can be said without knowing of ports and other routes.
    fn check(&self) -> Result<(), RouteError> {
        let Self { prefix, gateway, source, .. } = *self;
        if !prefix.is_valid() {
            return Err(RouteError::Length(prefix));
        }
        if prefix.network() != prefix.address {
            return Err(RouteError::HostBits(prefix));
        }
        for (part, given) in [(Part::Gateway, gateway), (Part::Source, source)] {
            let Some(given) = given else { continue };
            if given.is_ipv4() != prefix.address.is_ipv4() {
                return Err(RouteError::Family(part, given));
            }
            if !is_host(given) {
                return Err(RouteError::NotHost(part, given));
            }
        }
        Ok(())
    }
}

impl Length {
    fn listed(self, place: &RouteRank, way: &Way) -> Listed {
        Listed {
            prefix: self.prefix(place.network),
            port: place.port,
            gateway: way.gateway,
            source: way.source,
            user: !place.connected,
        }
    }

    /// Of a valid prefix.
    const fn of(prefix: Cidr) -> Self {
        Self { v6: prefix.address.is_ipv6(), host: Cidr::bits(prefix.address) - prefix.len }
    }

    /// An address of this family with this length.
    const fn prefix(self, address: IpAddr) -> Cidr {
        Cidr { address, len: Cidr::bits(address) - self.host }
    }
}

impl RouteRank {
    /// All routes to a network.
    fn all(network: IpAddr) -> std::ops::RangeInclusive<Self> {
        Self { network, connected: false, port: 0 }..=Self { network, connected: true, port: u32::MAX }
    }
}

impl Tables {
    fn len(&self) -> usize {
        self.users + self.addresses.values().map(Vec::len).sum::<usize>()
    }

    /// Where a user's route to a prefix is.
    fn user(&self, prefix: Cidr) -> Option<RouteRank> {
        let list = self.lists.get(&prefix.is_valid().then(|| Length::of(prefix))?)?;
        let (place, _) = list.range(RouteRank::all(prefix.address)).next()?;
        (!place.connected).then_some(*place)
    }

    /// Adds a route, unless there is one just there.
    fn insert(&mut self, prefix: Cidr, (connected, port): (bool, u32), way: Way) {
        let place = RouteRank { network: prefix.network(), connected, port };
        self.lists.entry(Length::of(prefix)).or_default().entry(place).or_insert(way);
    }

    fn delete(&mut self, prefix: Cidr, place: RouteRank) {
        if let Some(list) = self.lists.get_mut(&Length::of(prefix)) {
            list.remove(&place);
            if list.is_empty() {
                self.lists.remove(&Length::of(prefix));
            }
        }
    }

    fn set_addresses(&mut self, port: u32, addresses: &[Cidr]) {
        for old in self.addresses.remove(&port).unwrap_or_default() {
            self.delete(old, RouteRank { network: old.network(), connected: true, port });
        }
        for new in addresses {
            let source = Some(new.address);
            self.insert(*new, (true, port), Way { gateway: None, source, wanted: source });
        }
        if !addresses.is_empty() {
            self.addresses.insert(port, addresses.to_vec());
        }
        let ways = self.lists.values_mut().flatten();
        for (place, way) in ways.filter(|(place, _)| place.port == port && !place.connected) {
            way.source = source_of(addresses, place.network, way.gateway, way.wanted);
        }
    }
}

/// Which of a port's addresses a user's route has as its source (`get_src_addr` of Open vSwitch).
fn source_of(own: &[Cidr], to: IpAddr, gateway: Option<IpAddr>, wanted: Option<IpAddr>) -> Option<IpAddr> {
    if let Some(wanted) = wanted {
        return own.iter().any(|cidr| cidr.address == wanted).then_some(wanted);
    }
    let nearest = |to: IpAddr| {
        // Of equal ones the first: max_by_key would return the last.
        let near = own.iter().filter(|cidr| cidr.contains(to)).rev().max_by_key(|cidr| cidr.len)?;
        Some(near.address)
    };
    nearest(to).or_else(|| gateway.and_then(nearest))
}

#[cfg(test)]
mod tests;
