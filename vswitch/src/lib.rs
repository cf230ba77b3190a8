//! vswitch: a DPDK virtual switch. ARCHITECTURE.md has the packet walk and the modules.
#![forbid(unsafe_code)]

pub mod action;
pub mod cache;
pub mod conntrack;
pub mod control;
pub mod daemon;
pub use vswitch_dpdk as dpdk;
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
