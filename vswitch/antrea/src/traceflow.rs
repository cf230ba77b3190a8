//! Traceflows: what happens to one packet on its way, told by that packet itself.
//!
//! **How a packet is known.** By a mark in `metadata`, which nothing else of the pipeline uses: the
//! lowest six bits are the Traceflow's tag. A packet that is sent for a Traceflow begins with the
//! mark; one of live traffic gets it in `ConntrackState` (or, on its way to a Pod, in
//! `L2ForwardingCalc`); one that comes in from another Node gets it in `ConntrackState` by the tag
//! in its DSCP, as Antrea has it between Nodes. So real traffic that happens to have the DSCP meets
//! none of these flows on the Node where a Traceflow begins, and matches of other packets become no
//! narrower than "no mark".
//!
//! **What tells.** Flows with the mark, above all others, wherever a packet ends: where it leaves
//! ([`compile`] says which of them let it), where a policy denies it, and beside each flow that
//! drops. A packet that was sent for a Traceflow ends where it is told, unless it goes to another
//! Node, and leaves no connection (`ct_forget`). A live one goes on as it would without the
//! Traceflow: the flow that tells lets the table decide once more about a copy without the mark.
//!
//! **What remains of it** is nothing: flows go with it, and have its time as their hard timeout, so
//! that they go without it, too.
//!
//! Sources: Antrea's `pkg/agent/openflow/network_policy.go` and `pipeline.go` (flows),
//! `pkg/agent/controller/traceflow/packetin.go`
//! (registers). Where ours differ: docs/architecture/antrea-compiler.md, "Traceflow".

mod compile;
mod packet;
mod read;
mod tell;
#[cfg(test)]
mod tests;

use crate::{Facts, Family, Key, ObjectKind};
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_flow::action::port;
use vswitch_flow::text::PacketOut;
use vswitch_flow::{Action, Field, FlowKey};
use vswitch_proto::antrea::v1;

pub(crate) use compile::{compile, drops};
pub(crate) use read::read;
pub use tell::{Seen, TraceflowReport};

/// The highest tag: DSCP has six bits.
pub const TAG_MAX: u8 = 63;
/// Bits of `metadata` that hold the mark.
const MARK: u128 = 0x3f;
/// Bits of `metadata` that hold the TTL with which a live packet of a Pod came in.
const TTL_SHIFT: u32 = 8;
/// Controller that is told.
pub const CONTROLLER: u16 = 62374;
/// Longest time, in seconds.
pub(crate) const SECONDS_MAX: u32 = 300;
/// Time that is not given.
const SECONDS: u32 = 20;
/// Bytes behind the headers.
const PAYLOAD_MAX: u32 = 1000;
/// Flags of TCP: the lower byte of its header's 13th and 14th, and NS.
const TCP_FLAGS_MAX: u32 = 0x1ff;

/// The tag in a packet's mark; 0: it has none.
#[must_use]
pub fn tag_of(metadata: &FlowKey) -> u8 {
    #[allow(clippy::cast_possible_truncation)] // six bits
    let tag = (metadata.get(Field::Metadata) & MARK) as u8;
    tag
}

/// A running Traceflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Traceflow {
    /// As it was asked for; what was left to the switch is filled in.
    pub message: v1::Traceflow,
    /// 1 to [`TAG_MAX`].
    pub tag: u8,
    /// Its time.
    pub seconds: u16,
    /// Only packets that are dropped are told.
    pub(crate) dropped_only: bool,
    pub(crate) way: Way,
}

/// Where its packet begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Way {
    /// It is sent.
    Sent(Sent),
    /// Live traffic.
    Passing(Passing),
    /// On another Node.
    Arriving {
        /// It is live traffic there.
        live: bool,
    },
}

/// A packet that is sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    /// Number of the port that it seems to come from.
    in_port: u32,
    source: IpAddr,
    destination: IpAddr,
    destination_port: u16,
    bytes: Vec<u8>,
}

/// What live packets have to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Passing {
    from: From,
    /// Families that they may be of, with the destination in each; None: any.
    destinations: Vec<(Family, Option<IpAddr>)>,
    /// The Pod that they are switched to, if that is where they are looked at: where they come from
    /// is not known to be a Pod.
    to_pod: Option<String>,
    protocol: Option<Protocol>,
    source_port: u16,
    destination_port: u16,
    tcp_flags: u32,
}

/// Whom live packets come from.
#[derive(Clone, Debug, PartialEq)]
enum From {
    /// A Pod of this Node.
    Pod(String),
    Address(IpAddr),
    Anybody,
}

/// Of packets that are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
    Sctp,
    Icmp,
}

impl Protocol {
    /// In flows: `tcp6`.
    const fn word(self, family: Family) -> &'static str {
        match (self, family) {
            (Self::Tcp, Family::V4) => "tcp",
            (Self::Tcp, Family::V6) => "tcp6",
            (Self::Udp, Family::V4) => "udp",
            (Self::Udp, Family::V6) => "udp6",
            (Self::Sctp, Family::V4) => "sctp",
            (Self::Sctp, Family::V6) => "sctp6",
            (Self::Icmp, Family::V4) => "icmp",
            (Self::Icmp, Family::V6) => "icmp6",
        }
    }

    const fn has_ports(self) -> bool {
        !matches!(self, Self::Icmp)
    }
}

impl Traceflow {
    /// Its identity among what writes flows.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(ObjectKind::Traceflow, &self.message.name)
    }

    /// The packet that is to be sent for it, through all tables; None: it waits for one.
    #[must_use]
    pub fn packet_out(&self) -> Option<PacketOut> {
        let Way::Sent(sent) = &self.way else { return None };
        let mut metadata = FlowKey::default();
        metadata.set(Field::InPort, sent.in_port.into());
        metadata.set(Field::Metadata, self.tag.into());
        let actions = vec![Action::Output { port: port::TABLE, max_len: None }];
        Some(PacketOut { metadata, packet: sent.bytes.clone(), actions })
    }

    /// Its packet is one of live traffic, and goes on.
    const fn is_live(&self) -> bool {
        matches!(self.way, Way::Passing(_) | Way::Arriving { live: true })
    }

    /// Match of packets with its mark.
    fn mark(&self) -> String {
        format!("metadata={:#x}/{MARK:#x}", self.tag)
    }
}

/// All that run, by their tags.
pub(crate) type Running = std::collections::BTreeMap<u8, Arc<Traceflow>>;

/// A port of the bridge, by its number.
fn port_name<'a>(facts: &'a Facts<'_>, number: u32) -> Option<&'a str> {
    vswitch_flow::text::Names::port_name(facts, number)
}
