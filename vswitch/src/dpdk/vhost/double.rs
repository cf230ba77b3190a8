//! Without DPDK there are no vhost-user ports: the types exist, values do not.

use super::{Negotiated, Offer, Quiesce, Sent, VhostError};
use crate::dpdk::{Burst, Mempool};
use std::path::Path;

/// Control side of a socket.
#[derive(Debug)]
pub enum Vhost {}

/// Data path of a socket.
#[derive(Clone, Debug)]
pub enum Rings {}

#[allow(missing_docs, clippy::missing_errors_doc)] // documented at the real thing
impl Vhost {
    pub fn open(path: &Path, _offer: Offer, _quiesce: Quiesce) -> Result<Self, VhostError> {
        Err(VhostError::NoDpdk { path: path.to_owned() })
    }

    #[must_use]
    pub fn rings(&self) -> Rings {
        match *self {}
    }

    #[must_use]
    pub fn offloads(&self) -> Vec<&'static str> {
        match *self {}
    }
}

#[allow(missing_docs)] // documented at the real thing
impl Rings {
    #[must_use]
    pub fn negotiated(&self) -> Negotiated {
        match *self {}
    }

    #[must_use]
    pub fn receive_pairs(&self) -> u64 {
        match *self {}
    }

    #[must_use]
    pub fn send_pairs(&self) -> u64 {
        match *self {}
    }

    pub fn receive(&self, _pair: u16, _pool: &Mempool, _burst: &mut Burst) -> usize {
        match *self {}
    }

    pub fn send(&self, _pair: u16, _burst: &mut Burst) -> Sent {
        match *self {}
    }
}
