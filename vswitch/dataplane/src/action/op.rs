//! The ops.

use crate::meter::Meter;
use crate::pipeline::OpCount;
use crate::port::PortId;
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_flow::FlowKey;
use vswitch_flow::FlowMask;
use vswitch_flow::action::{Reason, Reject};
use vswitch_overlay::{Header, Neighbour, Outer};

/// A value to write, and which bits of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masked<T> {
    /// Bits outside the mask are 0.
    pub value: T,
    /// Bits that are written.
    pub mask: T,
}

/// One step of what happens to a packet. Equal ones do the same: a meter or stage is equal to
/// itself only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A copy leaves by this port (the packet itself if this is the last op). Never a patch port:
    /// those are translated through.
    Output(PortId),
    /// A copy of at most this many bytes leaves by this port.
    OutputTruncated(PortId, u16),
    /// Counts that a packet crossed a patch port: out by the first, in by the second.
    Crossed(PortId, PortId),
    /// Rewrites Ethernet addresses.
    SetEth(Box<SetEth>),
    /// Pushes a tag.
    PushVlan {
        /// TPID.
        tpid: u16,
        /// TCI without the present bit's meaning: as on the wire.
        tci: u16,
    },
    /// Removes the outer tag.
    PopVlan,
    /// Rewrites bits of the outer tag's TCI.
    SetVlanTci(Masked<u16>),
    /// Rewrites an IPv4 header.
    SetIpv4(Box<SetIpv4>),
    /// Rewrites an IPv6 header.
    SetIpv6(Box<SetIpv6>),
    /// Rewrites the ports of TCP, UDP or SCTP, whichever the packet is.
    SetPorts(Box<SetPorts>),
    /// Rewrites type and code of ICMP or ICMPv6.
    SetIcmp(Box<SetIcmp>),
    /// Rewrites ARP.
    SetArp(Box<SetArp>),
    /// Rewrites a neighbour discovery message.
    SetNd(Box<SetNd>),
    /// Drops the packet, and everything that would follow, if the meter says so. Remarks DSCP if
    /// the meter says so.
    Meter(Arc<Meter>),
    /// A copy goes to controllers.
    PacketIn(Box<PacketInOp>),
    /// Ops on a copy (on the packet itself if this is the last op).
    Clone(Box<[Op]>),
    /// The packet meets the connection tracker.
    Ct(Box<CtOp>),
    /// The tracker knows nothing of the packet any more.
    CtClear,
    /// The connections that the packet met as new go, of whatever zone. What it met as established
    /// stays.
    CtForget,
    /// The sender is told that the packet was refused: an answer to it as it came in is made, and
    /// goes its own way.
    Reject(Box<RejectOp>),
    /// The packet is put into another one, which the ops behind this work on.
    Encap(Arc<EncapOp>),
    /// The packet comes out of a tunnel, if the worker finds that it is well-formed and for one of
    /// our ports: it goes on in that port's bridge. On a copy, unless it is the last op.
    Decap(Box<DecapOp>),
    /// A next hop is asked for its address, if it was not just now; a copy of the packet waits for
    /// the answer.
    Ask(Arc<AskOp>),
    /// What an ARP packet or a neighbour advertisement says that leaves by this port is noted, if
    /// it is asked for.
    Snoop(PortId),
    /// One of two ways, by the packet's length. Always the last op.
    CheckLen(Box<CheckLen>),
}

impl Op {
    /// It leads to another stage, or something in it does.
    #[must_use]
    pub fn recirculates(&self) -> bool {
        match self {
            Self::Ct(_) | Self::Decap(_) => true,
            Self::Clone(ops) => ops.iter().any(Self::recirculates),
            Self::CheckLen(check) => check.larger.iter().chain(&check.smaller).any(Self::recirculates),
            _ => false,
        }
    }

    /// It takes connections back, or something in it does.
    #[must_use]
    pub fn takes_back(&self) -> bool {
        match self {
            Self::CtForget => true,
            Self::Clone(ops) => ops.iter().any(Self::takes_back),
            Self::CheckLen(check) => check.larger.iter().chain(&check.smaller).any(Self::takes_back),
            _ => false,
        }
    }

    /// It answers packets, or something in it does.
    #[must_use]
    pub fn refuses(&self) -> bool {
        match self {
            Self::Reject(_) => true,
            Self::Clone(ops) => ops.iter().any(Self::refuses),
            Self::CheckLen(check) => check.larger.iter().chain(&check.smaller).any(Self::refuses),
            _ => false,
        }
    }

    /// It gives controllers copies of packets, or something in it does: they are told what a packet
    /// was when it came in. Of those that wait for them they are not.
    #[must_use]
    pub fn tells(&self) -> bool {
        match self {
            Self::PacketIn(op) => op.continuation.is_none(),
            Self::Clone(ops) => ops.iter().any(Self::tells),
            Self::CheckLen(check) => check.larger.iter().chain(&check.smaller).any(Self::tells),
            _ => false,
        }
    }

    /// Bytes that it takes, about.
    #[must_use]
    pub fn size(&self) -> usize {
        let inner = match self {
            Self::SetEth(_) | Self::SetIpv4(_) | Self::SetIpv6(_) | Self::SetPorts(_) => size_of::<SetIpv6>(),
            Self::SetIcmp(_) | Self::SetArp(_) | Self::SetNd(_) => size_of::<SetNd>(),
            Self::PacketIn(packet_in) => size_of::<PacketInOp>() + packet_in.userdata.len(),
            Self::Ct(_) => size_of::<CtOp>() + size_of::<crate::pipeline::Stage>(),
            Self::Clone(ops) => sizes(ops),
            Self::Reject(reject) => size_of::<RejectOp>() + size_of_val(&*reject.reject.actions),
            Self::Encap(encap) => size_of::<EncapOp>() + encap.question.frame.len(),
            Self::Decap(_) => size_of::<DecapOp>(),
            Self::Ask(ask) => size_of::<AskOp>() + ask.question.frame.len(),
            Self::CheckLen(check) => size_of::<CheckLen>() + sizes(&check.larger) + sizes(&check.smaller),
            _ => 0,
        };
        size_of::<Self>() + inner
    }
}

/// Bytes that ops take, about.
pub fn sizes(ops: &[Op]) -> usize {
    ops.iter().map(Op::size).sum()
}

/// See [`Op::SetEth`]. Addresses as low 48 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SetEth {
    pub dst: Masked<u64>,
    pub src: Masked<u64>,
}

/// See [`Op::SetIpv4`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SetIpv4 {
    pub src: Masked<u32>,
    pub dst: Masked<u32>,
    pub tos: Masked<u8>,
    pub ttl: Masked<u8>,
}

/// See [`Op::SetIpv6`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SetIpv6 {
    pub src: Masked<u128>,
    pub dst: Masked<u128>,
    pub label: Masked<u32>,
    pub tclass: Masked<u8>,
    pub hop_limit: Masked<u8>,
}

/// See [`Op::SetPorts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SetPorts {
    pub src: Masked<u16>,
    pub dst: Masked<u16>,
}

/// See [`Op::SetIcmp`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SetIcmp {
    pub kind: Masked<u8>,
    pub code: Masked<u8>,
}

/// See [`Op::SetArp`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SetArp {
    pub op: Masked<u16>,
    pub spa: Masked<u32>,
    pub tpa: Masked<u32>,
    pub sha: Masked<u64>,
    pub tha: Masked<u64>,
}

/// See [`Op::SetNd`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SetNd {
    pub target: Masked<u128>,
    pub sll: Masked<u64>,
    pub tll: Masked<u64>,
    pub reserved: Masked<u32>,
    pub options_type: Masked<u8>,
}

/// A packet-in to be made. See [`crate::pipeline::PacketIn`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketInOp {
    /// Bridge whose controllers get it.
    pub bridge: usize,
    /// Only controllers of this id.
    pub controller: u16,
    /// Why.
    pub reason: Reason,
    /// Table of the rule.
    pub table: u8,
    /// Cookie of the rule.
    pub cookie: u64,
    /// Given by the rule.
    pub userdata: Arc<[u8]>,
    /// Metadata as it is at this point; only the metadata words
    /// ([`vswitch_flow::FIRST_PACKET_WORD`]) count.
    pub metadata: FlowKey,
    /// Metadata bits that `metadata` defines; the others come from the packet that is executed.
    pub defined: FlowMask,
    /// Limits it.
    pub meter: Option<Arc<Meter>>,
    /// That one, or another one in front of it in its list, drops what is too much: its port is not
    /// charged.
    pub metered: bool,
    /// Where the packet goes on when it is resumed; none: it was a copy.
    pub continuation: Option<Arc<crate::pipeline::Continuation>>,
}

/// An answer to be made. See [`Op::Reject`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectOp {
    /// Bridge where it goes its way.
    pub bridge: usize,
    /// Table of the rule.
    pub table: u8,
    /// Cookie of the rule.
    pub cookie: u64,
    /// How, and what becomes of it.
    pub reject: Arc<Reject>,
    /// Metadata as it is at this point, as in [`PacketInOp::metadata`]: the answer has it, too.
    pub metadata: FlowKey,
    /// See [`PacketInOp::defined`].
    pub defined: FlowMask,
    /// The packet itself ends here, though others of this decision go on: it is dropped as too
    /// long.
    pub ends: bool,
    /// Answers that were sent.
    pub sent: Arc<OpCount>,
}

/// See [`Op::Ct`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtOp {
    /// What to do with it.
    pub request: vswitch_conntrack::Request,
    /// Where a copy of it goes on then, if anywhere.
    pub stage: Option<Arc<crate::pipeline::Stage>>,
    /// With `commit`: connections that it created or gave another label; none: it is of no rule.
    pub commits: Option<Arc<OpCount>>,
}

/// See [`Op::Encap`].
#[derive(Clone, Debug)]
pub struct EncapOp {
    /// The tunnel port, which counts what is sent.
    pub port: PortId,
    /// What is put in front.
    pub header: Header,
    /// Only so many bytes of the packet.
    pub max: Option<u16>,
    /// The next hop, whose address is in the header.
    pub neighbour: Arc<Neighbour>,
    /// How it is asked again.
    pub question: Question,
}

// A neighbour is equal to itself only.
impl PartialEq for EncapOp {
    fn eq(&self, other: &Self) -> bool {
        let Self { port, header, max, neighbour, question } = self;
        (port, header, max, question) == (&other.port, &other.header, &other.max, &other.question)
            && Arc::ptr_eq(neighbour, &other.neighbour)
    }
}

impl Eq for EncapOp {}

/// See [`Op::Decap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecapOp {
    /// The port that the packet was to leave by.
    pub vtep: PortId,
    /// What it says that it is.
    pub kind: vswitch_overlay::TunnelKind,
    /// Bytes that are left of it before it comes out (`output(port=N,max_len=N)`). What was cut
    /// from a header's payload makes it malformed, as in Open vSwitch.
    pub max: Option<u16>,
}

/// See [`Op::Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskOp {
    /// The tunnel port that the packet is for.
    pub port: PortId,
    /// What is put in front of it then, but for the address.
    pub outer: Outer,
    /// Only so many bytes of the packet.
    pub max: Option<u16>,
    /// Who is asked.
    pub question: Question,
}

/// How a next hop is asked for its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The port that the question comes from.
    pub vtep: PortId,
    /// Whose address is asked for.
    pub ip: IpAddr,
    /// An ARP request or a neighbour solicitation, from its Ethernet header.
    pub frame: Box<[u8]>,
}

/// See [`Op::CheckLen`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckLen {
    /// Bytes, Ethernet header included.
    pub len: u16,
    /// When the packet is longer.
    pub larger: Box<[Op]>,
    /// When it is not.
    pub smaller: Box<[Op]>,
}

/// How much of a packet has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touched {
    /// Nothing.
    Nothing,
    /// At most what a router changes at a hop: Ethernet addresses, TTL or hop limit.
    Hop,
    /// Anything.
    Rest,
}

impl Touched {
    /// What an op writes, if it is one that writes at all.
    #[must_use]
    pub fn by(op: &Op) -> Self {
        match op {
            Op::SetEth(_) => Self::Hop,
            Op::SetIpv4(set) if (set.src.mask | set.dst.mask, set.tos.mask) == (0, 0) => Self::Hop,
            Op::SetIpv6(set) if (set.src.mask | set.dst.mask, set.label.mask, set.tclass.mask) == (0, 0, 0) => {
                Self::Hop
            }
            _ => Self::Rest,
        }
    }
}
