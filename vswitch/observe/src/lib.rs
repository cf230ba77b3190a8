//! What the switch observes: connections, decisions of policies, refusals and drops in one stream,
//! with the names of both ends.
//!
//! **Where in the walk**: beside it. The service of observations feeds this crate from flow
//! records, policy logs and drop samples; no worker calls it.
//!
//! **Design**: [`Maker`] turns a record, a log, a refusal or a sample into an observation.
//! [`Names`] says what addresses are called, by the agent's word. [`Ring`] keeps the last
//! observations: connections in one lane, all else in another, so that a storm of connections
//! pushes out no drop. A follower reads the ring by its own cursor; what leaves the ring before is
//! lost to that follower, and counted. [`Filter`] is a client's filter with every value parsed.
//!
//! **Limits**: the caller gives those of the ring and of the names. A name has at most
//! [`NAME_LEN_MAX`] bytes, a request's filters at most [`VALUES_MAX`] values.
//!
//! **Threads**: any. Each call takes one lock for a bounded time; none blocks.
#![forbid(unsafe_code)]

mod end;
mod filter;
mod make;
mod names;
mod packet;
mod policy;
mod reading;
mod ring;
#[cfg(test)]
mod testing;

pub use filter::Filters;
pub use make::Maker;
pub use names::{Limits, NAME_LEN_MAX, Names, NamesError};
pub use policy::split_policy;
pub use reading::{VALUES_MAX, Wrong};
pub use ring::{Batch, Follower, Ring};

use std::net::IpAddr;

/// An address of a message: 4 or 16 bytes.
#[must_use]
pub fn address(bytes: &[u8]) -> Option<IpAddr> {
    match *bytes {
        [a, b, c, d] => Some([a, b, c, d].into()),
        _ => <[u8; 16]>::try_from(bytes).ok().map(Into::into),
    }
}

/// The bytes of an address in a message.
#[must_use]
pub fn address_bytes(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}
