//! Without DPDK there are no vhost-user ports: opening one says so. The other methods are those of
//! a port without a guest.

use super::{Negotiated, Offer, Quiesce, Received, Sent, Unsent, VhostError, ZeroCopy};
use crate::{Burst, Mbuf, Mempool};
use std::path::Path;

/// Control side of a socket; there is none.
#[derive(Debug)]
pub struct Vhost(());

/// Data path of a socket; there is none.
#[derive(Clone, Debug)]
pub struct Rings(());

/// Memory of a guest; there is none.
#[derive(Debug, Default)]
pub struct GuestMemory(());

/// There are none.
pub const fn maintain() {}

/// There are none to call.
pub const fn set_call_delay(_us: u32) {}

// Documented at the real thing
#[allow(missing_docs, clippy::missing_errors_doc, clippy::needless_pass_by_value)]
impl Vhost {
    pub fn open(path: &Path, _offer: Offer, _quiesce: Quiesce) -> Result<Self, VhostError> {
        Err(VhostError::NoDpdk { path: path.to_owned() })
    }

    #[must_use]
    pub fn rings(&self) -> Rings {
        Rings(())
    }

    #[must_use]
    pub fn offloads(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

#[allow(missing_docs)] // documented at the real thing
impl Rings {
    #[must_use]
    pub fn negotiated(&self) -> Negotiated {
        Negotiated::default()
    }

    #[must_use]
    pub fn is_mergeable(&self) -> bool {
        false
    }

    #[must_use]
    pub fn receive_pairs(&self) -> u64 {
        0
    }

    #[must_use]
    pub fn send_pairs(&self) -> u64 {
        0
    }

    pub fn receive(
        &self,
        _pair: u16,
        _pool: &Mempool,
        _burst: &mut Burst,
        _budget: &mut u32,
        _zero_copy: Option<ZeroCopy<'_>>,
    ) -> Received {
        Received::default()
    }

    pub fn send(&self, _pair: u16, burst: &mut Burst, unsent: &mut dyn FnMut(Unsent, &Mbuf)) -> Sent {
        burst.iter().for_each(|mbuf| unsent(Unsent::Down, mbuf));
        burst.clear();
        Sent::default()
    }
}
