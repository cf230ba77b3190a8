//! Rights: who a client is, what it may do, and the record of what it did.
//!
//! **Where in the walk**: nowhere; it stands between the listeners and the services.
//!
//! **Design**: a listener finds out who connects ([`Identity`]): a user of the machine by the
//! credentials of its socket, or a name in a certificate. It gives the connection one role for its
//! life. [`needed`] is the one table of the role that each RPC needs; an RPC that is not in it
//! needs the highest. [`GuardLayer`] compares both before any handler and before any share is
//! taken. What a client sends (headers, messages) has no part in that. The same layer gives each
//! call an id, and tells [`Audit`] of calls that are refused, or that need more than to look.
//!
//! **Limits**: calls of a name in certificates per second ([`CALLS_PER_SECOND`]); records of the
//! audit file that wait ([`audit::WAITING_MAX`]). One that finds no place is lost, and counted.
//!
//! **Threads**: any; `audit` writes the audit file. Nothing here blocks a call.

mod audit;
mod guard;
mod identity;
mod listener_state;
mod request;
mod rpcs;
mod server_state;

pub(crate) use audit::Audit;
pub use audit::AuditError;
pub(crate) use guard::GuardLayer;
pub(crate) use identity::{CALLS_PER_SECOND, Identity, Principal, Rate};
pub(crate) use listener_state::{Certificate, ListenerKind, ListenerState, Reason, TlsState};
pub(crate) use request::current as current_request;
#[cfg(test)]
pub(crate) use rpcs::RPCS;
pub(crate) use server_state::{SERVER_PARTS, ServerState};
