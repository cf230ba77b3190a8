//! The gRPC server on its listeners.
//!
//! **Where in the walk**: nowhere; it runs on the control cores.
//!
//! **Design**: [`bind_all`] takes all listeners, or says what is in the way; [`serve`] answers
//! until it is told to stop. A listener gives each connection a role (`rights`), and each user has
//! a share of what the server has (`shares`). Beside the services of
//! `proto/vswitch/v1` there are gRPC health (`grpc.health.v1`: SERVING while every worker's heart
//! beats, looked at every 500 ms, for the server and each service) and reflection
//! (`grpc.reflection.v1` and `v1alpha`). A client of a unix socket needs nothing but its path
//! (`http2`). TCP is served with mutual TLS only (`tls`).
//!
//! `DummyService` is there only with `--enable-dummy`.
//!
//! **Limits**: those of `shares`; 128 calls of a connection, 16 MiB per request, 16 KiB of headers,
//! 10 s for a new connection to speak HTTP/2, 30 + 10 s for a silent one to answer a ping, 2 s for
//! calls in flight when the server stops. Running out of file descriptors delays new connections
//! and ends nothing.
//!
//! **Threads**: [`bind`] may be called anywhere, [`serve`] on a tokio runtime. Calls of the switch
//! run on the runtime's blocking threads.

mod http2;
mod incoming;
mod listeners;
mod saving;
mod serve;
mod socket;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

pub use crate::rights::AuditError;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use http2::fuzz as fuzz_http2;
pub use listeners::{Listeners, bind_all, check_tls};
pub use serve::{ServeError, serve};
pub use socket::{BindError, ControlListener, bind};
pub use tls::TlsError;
