//! What packets and connections were, in words: numbers in registers, marks and labels, and addresses, become rules, Pods and Services.
//!
//! Pure: who listens to packet-ins and connections is `control/antrea`. A number that no rule has any more is told as a number, an address that is no Pod's as an address: nothing is
//! guessed. Everything here is total: packets are what Pods sent, and registers what anybody's packet-out put there.

mod decision;
mod merge;
mod naming;
#[cfg(test)]
mod tests;
mod tuple;

pub use decision::{Decision, Disposition};
pub use merge::Merged;
pub use naming::{Naming, Parties, Verdict, label_bytes, source};
pub use tuple::{Packet, Tuple};

/// Controller of what policies tell: logged, refused, denied packets.
pub const CONTROLLER_POLICY: u16 = 62373;
/// Controller of packets to Services without endpoints.
pub const CONTROLLER_SERVICE: u16 = 62377;
/// Meter of what policies tell.
pub const METER_POLICY: u32 = 256;
/// Meter of packets to Services without endpoints.
pub const METER_SERVICE: u32 = 259;
/// Bit of `ct_mark`: the connection's source was translated on its way (Antrea: `ConnSNATCTMark`).
pub const MARK_TRANSLATED: u32 = 0x20;
