//! What packets and connections were, in words: numbers in registers, marks and labels, and
//! addresses, become rules, Pods and Services.
//!
//! Pure: who listens to packet-ins and connections is `vswitch-antrea-node`. A number that no rule
//! has any more is told as a number, an address that is no Pod's as an address: nothing is guessed.
//! Everything here is total: packets are what Pods sent, and registers what anybody's packet-out
//! put there.

mod decision;
mod merge;
mod naming;
mod numbers;
#[cfg(test)]
mod tests;
mod tuple;

pub use decision::{Decision, Disposition};
pub use merge::Merged;
pub use naming::{Naming, Parties, PolicyVerdict, label_bytes, source};
pub use numbers::{
    CONTROLLER_POLICY, CONTROLLER_SERVICE, MARK_TRANSLATED, METER_DNS, METER_IGMP, METER_POLICY, METER_SERVICE, back,
};
pub use tuple::{Packet, Tuple};

use vswitch_flow::{Field, FlowKey};

/// Whether a packet came from a tunnel: reg0[0..3] is 1.
#[must_use]
pub const fn is_from_tunnel(metadata: &FlowKey) -> bool {
    metadata.get(Field::Reg0) & 0xf == 1
}
