//! The control side: configuration, the one writer of the switch's state, and the gRPC services in front of it.
//!
//! **Where in the walk**: nowhere; it publishes snapshots that workers pick up at a quiescent point.
//!
//! **Design**: [`Switch`] is the only writer. Everything that can ask for a change (the configuration file, gRPC) becomes a
//! plain value first ([`crate::port::PortConfig`], [`BridgeConfig`]), is checked, then applied. Errors are typed and name the
//! fix. The services translate between protobuf and these values and do nothing else.

mod antrea;
pub mod config;
mod info;
pub mod server;
mod services;
mod stored;
pub mod switch;
mod timeouts;
mod underlay;

pub use config::{AntreaConfig, ConntrackConfig, DpdkConfig, SwitchConfig, WorkerConfig, ZoneConfig};
pub use info::*;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use services::fuzz;
pub use switch::Switch;
