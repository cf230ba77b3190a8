//! Actions, as parsed: the union of what ovs-actions(7) describes, in the normal form of OpenFlow
//! 1.5 (`load` is a [`Action::SetField`], `mod_vlan_vid` on an untagged match is push and set,
//! ...). Text: [`crate::text`].
//!
//! Plain values: what actions mean is the business of the translator. Here are the types, their
//! limits, the checks that Open vSwitch does when a flow is added ([`check`]) and the normal form
//! ([`normalize`]).

mod check;
mod normal;
mod parameters;
pub(crate) mod rules;
mod size;

pub use check::{CheckContext, CheckError, ListPlace, check};
pub use normal::{accept, normalize};
pub use parameters::{
    Bundle, Controller, Ct, CtZone, HashFields, Learn, LearnSource, LearnSpec, Multipath, MultipathAlgorithm, Nat,
    Reason, Reject, Sample, SampleDirection,
};
pub use rules::known_table;
pub use size::encoded_len;

use crate::{Field, Refusal, Subfield};

const INCONSISTENT: &str = "OFPBAC_MATCH_INCONSISTENT";
const BAD_ARGUMENT: &str = "OFPBAC_BAD_ARGUMENT";
const BAD_SET: &str = "OFPBAC_BAD_SET_ARGUMENT";

/// What bounds a list of actions.
pub mod limits {
    /// Bytes that a list may take in OpenFlow 1.5: a message has 65,535 bytes, of which its header
    /// takes 8, the fixed part of a flow entry 40, an empty match 8 and the instruction around the
    /// list 8. 4,091 resubmits fit, 10,000 do not.
    pub const MAX_BYTES: usize = 65_535 - 64;
    /// Actions of a list of nothing but `conjunction`s. Open vSwitch's are bounded as all others
    /// are, by the bytes of a message: 4,091. All rules of one priority that name the same port
    /// share one such list.
    pub const MAX_CLAUSES: usize = 65_536;
    /// Levels of `clone` in each other (Open vSwitch: 99). Bounds the recursion of whatever walks a
    /// list.
    pub const MAX_NESTING: usize = 32;
    /// Ports that a `bundle` chooses from.
    pub const MAX_MEMBERS: usize = 2048;
    /// Elements of a `learn`.
    pub const MAX_LEARN_SPECS: usize = 64;
    /// Controllers that a `dec_ttl` tells.
    pub const MAX_CONTROLLERS: usize = 64;
    /// Clauses of a conjunction.
    pub const CLAUSES: std::ops::RangeInclusive<u8> = 2..=64;
    /// Shortest packet that `output(port=N,max_len=N)` makes: an Ethernet header.
    pub const MIN_TRUNCATED: u16 = 14;
    /// Tables that flows can be in: 0 to 253.
    pub const MAX_TABLE: u8 = 253;
    /// Highest id of a meter.
    pub const MAX_METER: u32 = 0xffff_0000;
}

/// An OpenFlow port number: 1 to 0xfeff, or one of the reserved ones below (as 32 bits: 0xffff_fff8
/// and up).
pub type PortNo = u32;

/// Reserved port numbers (OpenFlow 1.5.1, 7.2.1), and the 16-bit forms of them that a register may
/// hold (ovs-actions(7)).
pub mod port {
    use super::PortNo;
    /// No port.
    pub const UNSET: PortNo = 0xffff_fff7;
    /// Where the packet came from.
    pub const IN_PORT: PortNo = 0xffff_fff8;
    /// Through the tables again (packet-out only).
    pub const TABLE: PortNo = 0xffff_fff9;
    /// As an Ethernet switch would.
    pub const NORMAL: PortNo = 0xffff_fffa;
    /// All ports that flood, but the ingress port.
    pub const FLOOD: PortNo = 0xffff_fffb;
    /// All ports but the ingress port.
    pub const ALL: PortNo = 0xffff_fffc;
    /// To the controllers.
    pub const CONTROLLER: PortNo = 0xffff_fffd;
    /// The bridge's own port.
    pub const LOCAL: PortNo = 0xffff_fffe;
    /// No port.
    pub const NONE: PortNo = 0xffff_ffff;

    /// First of the reserved numbers in their 16-bit form.
    const FIRST_RESERVED_16: PortNo = 0xff00;
    /// What numbers ports have, for hints.
    pub(crate) const NUMBERS: &str = "0 to 0xfeff, or 0xffffff00 to 0xffffffff for reserved ports";

    /// A port by its number: of the reserved ones, 16-bit forms are taken too. None: there is no
    /// such port.
    #[must_use]
    pub fn from_number(number: u128) -> Option<PortNo> {
        match PortNo::try_from(number).ok()? {
            number @ 0..FIRST_RESERVED_16 => Some(number),
            number @ FIRST_RESERVED_16..=0xffff => Some(number | 0xffff_0000),
            number @ 0xffff_ff00.. => Some(number),
            _ => None,
        }
    }

    /// Whether a port is none of the reserved ones.
    #[must_use]
    pub const fn is_physical(port: PortNo) -> bool {
        port < FIRST_RESERVED_16
    }
}

/// One action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// To a port. `max_len` only where the text had one (`output(port=N,max_len=N)` truncates).
    Output {
        /// The port.
        port: PortNo,
        /// At least [`limits::MIN_TRUNCATED`].
        max_len: Option<u16>,
    },
    /// To the port whose 16- or 32-bit number a subfield holds.
    OutputField {
        /// The subfield.
        from: Subfield,
        /// Forgotten ([`Action::normal`]).
        max_len: Option<u16>,
    },
    /// To the controllers: a packet-in.
    Controller(Box<Controller>),
    /// Through a group.
    Group(u32),
    /// Bound by a meter. First in its list.
    Meter(u32),
    /// Sets those bits of a field that `mask` selects.
    SetField {
        /// The field. [`Field::TpSrc`] and [`Field::TpDst`] only come from `mod_tp_src` and
        /// `mod_tp_dst` where the protocol is not known (in buckets and packet-outs): ports of TCP,
        /// UDP or SCTP.
        field: Field,
        /// No bits outside `mask`.
        value: u128,
        /// [`Field::exact_mask`] for the whole field.
        mask: u128,
    },
    /// Copies bits.
    Move {
        /// The bits.
        from: Subfield,
        /// As many bits.
        to: Subfield,
    },
    /// `mod_nw_ttl`.
    SetTtl(u8),
    /// `dec_ttl`, with the ids of the controllers to tell; `[0]` where none are written.
    DecTtl(Box<[u16]>),
    /// Pushes a tag of this TPID with TCI 0 (or that of the tag below).
    PushVlan(u16),
    /// Removes the outer tag.
    PopVlan,
    /// OpenFlow 1.0's `mod_vlan_vid`: sets the VID, pushing a tag if there is none. Only as parsed:
    /// [`normalize`] makes [`Action::PushVlan`] (where the match has no tag) and
    /// [`Action::SetField`] of it.
    SetVlanVid(u16),
    /// Likewise `mod_vlan_pcp`.
    SetVlanPcp(u8),
    /// Pushes bits on the packet's stack.
    StackPush(Subfield),
    /// Pops bits from it.
    StackPop(Subfield),
    /// Another table's actions, here.
    Resubmit {
        /// Look up as if from this port; None: the packet's own.
        port: Option<PortNo>,
        /// None: this table. One of `port` and `table` is given.
        table: Option<u8>,
        /// Look up by the connection's original addresses and ports.
        ct: bool,
    },
    /// Hash to a link number.
    Multipath(Box<Multipath>),
    /// Hash to a port of a list.
    Bundle(Box<Bundle>),
    /// Installs a flow.
    Learn(Box<Learn>),
    /// Shorter timeouts of this flow after a FIN or RST. 0: unchanged.
    FinTimeout {
        /// Seconds.
        idle: u32,
        /// Seconds.
        hard: u32,
    },
    /// This flow is a clause of a conjunction.
    Conjunction {
        /// Of the conjunction.
        id: u32,
        /// From 0: one less than in text.
        clause: u8,
        /// 2 to 64.
        clauses: u8,
    },
    /// Actions on a copy.
    Clone(Box<[Action]>),
    /// The packet is refused: actions on the answer to it.
    Reject(Box<Reject>),
    /// A comment, in bytes: 6, 14, 22, ... of them, as OpenFlow pads it ([`Action::note`]).
    Note(Box<[u8]>),
    /// Ends all processing.
    Exit,
    /// Accepted; nothing collects samples yet.
    Sample(Box<Sample>),
    /// Whether the packet is longer than a number of bytes, into one bit.
    CheckPktLarger {
        /// Bytes.
        len: u16,
        /// One bit.
        to: Subfield,
    },
    /// Connection tracking. Parsed, checked and printed; executed by the next capability.
    Ct(Box<Ct>),
    /// Forgets what the tracker said of the packet.
    CtClear,
    /// Takes back the connections that the packet met as new, in all zones.
    CtForget,
    /// `delete_field:tun_metadataN`: no such option in the tunnel header.
    DeleteField(Field),
    // Instructions. In this order behind all actions: clear, write, metadata, goto.
    /// Empties the action set.
    ClearActions,
    /// Merges into the action set. Not empty.
    WriteActions(Box<[Action]>),
    /// Sets bits of the metadata.
    WriteMetadata {
        /// The bits.
        value: u64,
        /// Which.
        mask: u64,
    },
    /// Goes on in a later table.
    GotoTable(u8),
}

impl Action {
    /// It is a clause of a conjunction: it does nothing, but says what its flow's match is for.
    #[must_use]
    pub const fn is_clause(&self) -> bool {
        matches!(self, Self::Conjunction { .. })
    }

    /// Clause `clause` of `clauses` of a conjunction, counted from 1.
    ///
    /// # Errors
    /// When there is no such clause.
    #[allow(clippy::cast_possible_truncation)] // at most 64
    pub fn conjunction(id: u32, clause: u64, clauses: u64) -> Result<Self, Refusal> {
        rules::conjunction(clause, clauses)?;
        Ok(Self::Conjunction { id, clause: (clause - 1) as u8, clauses: clauses as u8 })
    }

    /// A comment of `bytes`, padded with zeros as OpenFlow pads it (`NXAST_NOTE`): to 6, 14, 22,
    /// ... of them.
    #[must_use]
    pub fn note(mut bytes: Vec<u8>) -> Self {
        bytes.resize((bytes.len() + 10).next_multiple_of(8).max(16) - 10, 0);
        Self::Note(bytes.into())
    }
}
