//! The packet path of vswitch, a DPDK virtual switch: all that touches a packet between two ports.
//! ARCHITECTURE.md has the walk.
//!
//! **Where in the walk**: all of it. A worker (`worker`) polls the receive queues of ports
//! (`port`), reads headers (`packet`), asks the caches (`cache`), else the flow tables
//! (`pipeline`), tracks connections (`conntrack`), does what was decided (`action`) and sends.
//!
//! **Design**: one crate, since it is optimised as one: a build without link-time optimisation
//! inlines across modules, not across crates. Modules stand in floors, and none imports one above
//! it (tools/tests/test_crates.py). The control side changes nothing here by itself: it publishes a
//! new snapshot ([`worker::Publisher`]).
//!
//! **Limits**: [`limits`] has them all.
//!
//! **Threads**: each worker has a core of its own, takes no lock per packet and shares counters
//! that only it writes.
#![forbid(unsafe_code)]

pub mod action;
pub mod cache;
pub mod capture;
pub mod conntrack;
pub mod group;
pub mod limits;
pub mod meter;
pub mod observe;
pub mod packet;
pub mod pipeline;
pub mod port;
pub mod time;
pub mod tunnel;
pub mod worker;
