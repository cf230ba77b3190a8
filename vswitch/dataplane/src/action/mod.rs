//! What happens to a packet, op by op: the result of a translation, and the only way in which
//! packets are changed.
//!
//! **Where in the walk**: execute. Translation (room `pipeline`) never touches a packet: it turns
//! the actions of all rules that a packet meets into a flat list of [`Op`]s. The uncached way is
//! translate and execute; a megaflow is a cached list of ops.
//!
//! **Design**: one enum, one function per op next to its noun (`ethernet.rs`, `vlan.rs`, `ip.rs`,
//! `l4.rs`, `arp.rs`, `nd.rs`), one `match` in the executor (`worker`). Ops name ports by
//! [`PortId`] and hold what they need (`Arc<Meter>`): executing looks nothing up. Rewrites are
//! masked writes with constant values, valid for every packet of the megaflow; checksums are
//! adjusted incrementally (RFC 1624), exactly as Open vSwitch does (a wrong one stays wrong by the
//! same amount, UDP zero stays zero).
//!
//! **Threads**: ops are immutable and shared.

mod arp;
mod ethernet;
mod ip;
mod l4;
mod nd;
mod op;
mod packet;
#[cfg(test)]
mod tests;

pub use op::{
    AskOp, CheckLen, CtOp, DecapOp, EncapOp, Masked, Op, PacketInOp, Question, RejectOp, SetArp, SetEth, SetIcmp,
    SetIpv4, SetIpv6, SetNd, SetPorts, Touched, sizes,
};
pub use packet::Packet;
pub(crate) use packet::{TCP_LEN, UDP_LEN, extension, udp_sum};
