//! Packets into tunnels and out of them: outer headers, next hops, path MTU.

pub(in crate::worker) mod encap;
pub(in crate::worker) mod neighbour;
pub(in crate::worker) mod outside;
pub(in crate::worker) mod path_mtu;
pub(in crate::worker) mod waiting;
