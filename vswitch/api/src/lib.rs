//! The gRPC API: the services of `proto/vswitch/v1` and `proto/antrea/v1`, and the server on
//! its listeners in front of them.
//!
//! **Where in the walk**: nowhere; nothing here touches a packet.
//!
//! **Design**: [`server`] takes the listeners and answers until it is told to stop. `rights` says
//! who may call what. `services` turn
//! requests into plain values, call the switch ([`vswitch_control::SwitchApi`]) or the owner of an
//! agent's objects (`vswitch_antrea_node`), and turn what comes back into responses. What is valid
//! and what is possible is decided below this crate.
//!
//! [`metrics`] shows numbers of the same calls by HTTP; `calls` counts calls.
//!
//! **Limits**: connections, calls, sizes and times are those of [`server`].
//!
//! **Threads**: a tokio runtime of the caller. Calls of the switch block, and run on the runtime's
//! blocking threads.
#![forbid(unsafe_code)]

mod calls;
pub mod metrics;
mod rights;
pub mod server;
mod services;
mod shares;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use services::fuzz;
