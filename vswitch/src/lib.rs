//! vswitch: a DPDK virtual switch. See ARCHITECTURE.md for the packet walk and the rooms.
pub mod control;
pub mod daemon;
pub mod dpdk;
pub mod limits;
pub mod observe;
pub mod packet;
pub mod pipeline;
pub mod port;
pub mod time;
pub mod worker;
