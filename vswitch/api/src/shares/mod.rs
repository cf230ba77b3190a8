//! Shares of clients: no client of the socket takes what the others need.
//!
//! **Where in the walk**: nowhere; it stands between the socket and the services.
//!
//! **Design**: a client is a user of the machine, known by the uid of its connection, or a name in
//! certificates. What clients need together is a [`Pool`]: one user has at most a share of it, and
//! a part is root's. All names in certificates together have at most half of the rest. Where
//! clients wait for a pool, the user that has least is next, then the connection that has least.
//! There are pools of:
//!
//! - connections with calls in progress ([`Shares::busy`]). A connection without a call takes
//!   nothing, so idle ones lock no other out.
//! - bytes of messages that are being received ([`Shares::messages`]).
//! - bytes of transactions and syncs that are being collected ([`Shares::collecting`]).
//! - calls inside the switch (`Control`).
//!
//! Health needs no share: a probe is answered while a user's other calls wait. Of connections as
//! such there are at most [`CONNECTIONS_MAX`]. A further one closes one of the user that has most:
//! an idle one if there is one.
//!
//! **Limits**: the constants below. A message that does not come whole within [`MESSAGE_TIMEOUT`]
//! ends its call.
//!
//! **Threads**: any. The locks here are held for a few steps, and never over an `await`.

mod calls;
mod client;
mod connections;
mod message;
mod pool;

pub(crate) use calls::ShareLayer;
pub(crate) use client::{User, current};
pub(crate) use connections::{Admitted, Connections, Peer};
pub(crate) use pool::{Limits, Pool, Taken};

use std::sync::Arc;
use std::time::Duration;
use vswitch_dataplane::limits::TRANSACTIONS_LEN_MAX;

/// Connections at a time.
pub(crate) const CONNECTIONS_MAX: usize = 256;

/// Connections with calls in progress, other than of health.
const BUSY: Limits = Limits { total: 64, share: 40, reserve: 8 };

/// Bytes of messages that are being received.
const MESSAGES: Limits = Limits { total: 64 << 20, share: 40 << 20, reserve: 16 << 20 };

/// Bytes of transactions and syncs that are being collected, as they are estimated.
const COLLECTING: Limits =
    Limits { total: TRANSACTIONS_LEN_MAX, share: TRANSACTIONS_LEN_MAX / 4 * 3, reserve: TRANSACTIONS_LEN_MAX / 8 };

/// Time for a message to come whole, and for the first one of a call.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for a call to wait until its connection may be busy.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// What all clients share.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Connections with calls in progress.
    pub(crate) busy: Arc<Pool>,
    /// Bytes of messages that are being received.
    pub(crate) messages: Arc<Pool>,
    /// Bytes of transactions and syncs that are being collected.
    pub(crate) collecting: Arc<Pool>,
    message_timeout: Duration,
    busy_timeout: Duration,
}

impl Default for Shares {
    fn default() -> Self {
        let pool = |limits| Arc::new(Pool::new(limits));
        Self {
            busy: pool(BUSY),
            messages: pool(MESSAGES),
            collecting: pool(COLLECTING),
            message_timeout: MESSAGE_TIMEOUT,
            busy_timeout: BUSY_TIMEOUT,
        }
    }
}
