//! Addresses of Egresses out of ExternalIPPools, and the Nodes that have them.
//!
//! All functions are pure: agents that know the same objects come to the same result. Addresses are
//! given out in the order of the Egresses' names, the lowest free one first. An Egress keeps the
//! address that it has. A Node is chosen by the highest hash of Node and address (rendezvous
//! hashing): when a Node leaves, only its addresses move, and when one comes, addresses move to it
//! only.
//!
//! `assign` writes the results to the cluster. An Egress is served by the address in its `spec`,
//! and by the Node in its `status`.

use crate::hash;
use crate::kinds::Labels;
use crate::kinds::external_ip_pool::{IpRange, Spec};
use crate::resolve::selector::{check, matches};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An Egress that names a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub egress: String,
    /// The pool.
    pub pool: String,
    /// The address that it has, if it has one.
    pub address: Option<IpAddr>,
}

/// Why an Egress gets no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAddress {
    /// There is no such pool.
    NoPool,
    /// All addresses of the pool are taken.
    Full,
    /// The address that it has is none of the pool.
    Outside,
}

/// The first and the last address of a range. Of a prefix of IPv4 with 4 addresses or more, neither
/// the first nor the last one is for hosts; of one of IPv6 the first is the routers' (RFC 4291).
fn bounds(range: &IpRange) -> Option<(IpAddr, IpAddr)> {
    if let (Some(start), Some(end)) = (&range.start, &range.end) {
        return Some((start.parse().ok()?, end.parse().ok()?));
    }
    let (address, length) = range.cidr.as_ref()?.split_once('/')?;
    let length: u32 = length.parse().ok()?;
    match address.parse().ok()? {
        IpAddr::V4(four) => {
            let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
            let (first, last) = (four.to_bits() & !hosts, four.to_bits() | hosts);
            let edge = u32::from(hosts > 1);
            Some((Ipv4Addr::from_bits(first + edge).into(), Ipv4Addr::from_bits(last - edge).into()))
        }
        IpAddr::V6(six) => {
            let hosts = u128::MAX.checked_shr(length).unwrap_or(0);
            let (first, last) = (six.to_bits() & !hosts, six.to_bits() | hosts);
            Some((Ipv6Addr::from_bits(first + u128::from(hosts > 1)).into(), Ipv6Addr::from_bits(last).into()))
        }
    }
}

/// The next address of a family; None: there is no more.
fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(four) => four.to_bits().checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(six) => six.to_bits().checked_add(1).map(|bits| Ipv6Addr::from_bits(bits).into()),
    }
}

/// The router of a pool's network, whose address is nobody else's.
fn router(pool: &Spec) -> Option<IpAddr> {
    pool.subnet_info.as_ref().and_then(|info| info.gateway.parse().ok())
}

/// Whether an address is one of a pool.
pub fn is_of(pool: &Spec, address: IpAddr) -> bool {
    let is_in =
        |(first, last): (IpAddr, IpAddr)| first.is_ipv4() == address.is_ipv4() && first <= address && address <= last;
    router(pool) != Some(address) && pool.ip_ranges.iter().filter_map(bounds).any(is_in)
}

/// How many addresses a pool has: what is more than the API can say is as much as it can. Of ranges
/// that overlap, each counts.
pub fn size(pool: &Spec) -> i64 {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(four) => u128::from(four.to_bits()),
        IpAddr::V6(six) => six.to_bits(),
    };
    let ranges = pool.ip_ranges.iter().filter_map(bounds).filter(|(first, last)| first <= last);
    let all = ranges.fold(0_u128, |all, (first, last)| all.saturating_add(bits(last) - bits(first)).saturating_add(1));
    let routers = u128::from(router(pool).is_some_and(|router| {
        let without = Spec { subnet_info: None, ..pool.clone() };
        is_of(&without, router)
    }));
    i64::try_from(all.saturating_sub(routers)).unwrap_or(i64::MAX)
}

/// The lowest free address of a pool, in the order of its ranges. (It looks at one address more
/// than are taken, at most.)
fn free(pool: &Spec, taken: &BTreeSet<IpAddr>) -> Option<IpAddr> {
    pool.ip_ranges.iter().filter_map(bounds).find_map(|(first, last)| {
        let mut range = std::iter::successors(Some(first), |address| next(*address)).take_while(|one| *one <= last);
        range.find(|address| !taken.contains(address) && router(pool) != Some(*address))
    })
}

/// Addresses of all Egresses that name pools. `others` are addresses that somebody else has.
/// Those that Egresses have are given to no other one, even if they are of no pool.
pub fn allocate(
    pools: &BTreeMap<String, Spec>,
    claims: &[Claim],
    others: &BTreeSet<IpAddr>,
) -> BTreeMap<String, Result<IpAddr, NoAddress>> {
    let mut taken: BTreeSet<IpAddr> =
        claims.iter().filter_map(|claim| claim.address).chain(others.iter().copied()).collect();
    let in_order: BTreeMap<&str, &Claim> = claims.iter().map(|claim| (claim.egress.as_str(), claim)).collect();
    let mut all = BTreeMap::new();
    for (name, claim) in in_order {
        let result = match (pools.get(&claim.pool), claim.address) {
            (None, _) => Err(NoAddress::NoPool),
            (Some(pool), Some(address)) if is_of(pool, address) => Ok(address),
            (Some(_), Some(_)) => Err(NoAddress::Outside),
            (Some(pool), None) => free(pool, &taken).ok_or(NoAddress::Full),
        };
        taken.extend(result.ok());
        all.insert(name.to_owned(), result);
    }
    all
}

/// The Node that has an address of a pool: one of `ready` that the pool selects. None: there is
/// none.
pub fn node<'a>(pool: &Spec, address: IpAddr, ready: &'a BTreeMap<String, Labels>) -> Option<&'a str> {
    if check(&pool.node_selector).is_err() {
        return None;
    }
    let selected = ready.iter().filter(|(_, labels)| matches(&pool.node_selector, labels));
    selected.map(|(name, _)| name.as_str()).max_by_key(|name| (weight(name, address), *name))
}

/// How much a Node is for an address: the same for each agent and each version of it.
fn weight(node: &str, address: IpAddr) -> u64 {
    let octets = match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    };
    hash::mixed(node.bytes().chain([0]).chain(octets))
}

#[cfg(test)]
mod tests;
