//! The control side: configuration, and the one writer of the switch's state.
//!
//! **Where in the walk**: nowhere; it publishes snapshots that workers pick up at a quiescent
//! point.
//!
//! **Design**: [`Switch`] is the only writer. Everything that can ask for a change (the
//! configuration file, gRPC) becomes a plain value first ([`vswitch_dataplane::port::PortConfig`],
//! [`BridgeConfig`]), is checked, then applied. Errors are typed and name the fix. [`SwitchApi`] is
//! what clients of the switch may ask: the services, and the owner of an agent's objects. No
//! protobuf here.
//!
//! **Limits**: those of `vswitch_dataplane::limits`; the configuration's are checked before the
//! switch starts.
//!
//! **Threads**: any thread may call [`Switch`]; changes wait for each other and block. Companions
//! of the switch watch links, ages and statistics on the control cores.
#![forbid(unsafe_code)]

mod access;
pub mod config;
pub mod drops;
pub mod health;
mod info;
pub mod log_filter;
pub mod log_state;
pub mod running;
pub mod stored;
pub mod switch;
mod switch_api;
pub mod timeouts;
pub mod underlay;

pub use access::Asker;
pub use config::{AntreaConfig, ConntrackConfig, DpdkConfig, SwitchConfig, WorkerConfig, ZoneConfig};
pub use health::Health;
pub use info::*;
pub use switch::Switch;
pub use switch_api::SwitchApi;
/// For the panic hook of the process.
pub use vswitch_dataplane::worker::lose;
