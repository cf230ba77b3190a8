//! Actions, as parsed: the union of what ovs-actions(7) describes, in the normal form of OpenFlow 1.5 (`load` is a
//! [`Action::SetField`], `mod_vlan_vid` on an untagged match is push and set, ...). Text: [`crate::text`].

use crate::{Field, SparseMatch, Subfield};

/// An OpenFlow port number: 1 to 0xfeff, or one of the reserved ones below (as 32 bits: 0xffff_fff8 and up).
pub type PortNo = u32;

/// Reserved port numbers (OpenFlow 1.5.1, 7.2.1), and the 16-bit forms of them that a register may hold (ovs-actions(7)).
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
}

/// One action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// To a port. `max_len` only where the text had one (`output(port=N,max_len=N)` truncates).
    Output { port: PortNo, max_len: Option<u16> },
    /// To the port whose 16- or 32-bit number a subfield holds.
    OutputField { from: Subfield, max_len: Option<u16> },
    /// To the controllers: a packet-in.
    Controller(Box<Controller>),
    /// Through a group.
    Group(u32),
    /// Bound by a meter.
    Meter(u32),
    /// Sets those bits of a field that `mask` selects.
    SetField { field: Field, value: u128, mask: u128 },
    /// Copies bits.
    Move { from: Subfield, to: Subfield },
    /// `mod_nw_ttl`.
    SetTtl(u8),
    /// `dec_ttl`, with the ids of the controllers to tell (none written: 0).
    DecTtl(Box<[u16]>),
    /// Pushes a tag of this TPID with TCI 0 (or that of the tag below).
    PushVlan(u16),
    /// Removes the outer tag.
    PopVlan,
    /// OpenFlow 1.0's `mod_vlan_vid` where it cannot be split: sets the VID, pushing a tag if there is none.
    SetVlanVid(u16),
    /// Likewise `mod_vlan_pcp`.
    SetVlanPcp(u8),
    /// Pushes bits on the packet's stack.
    StackPush(Subfield),
    /// Pops bits from it.
    StackPop(Subfield),
    /// Another table's actions, here.
    Resubmit { port: Option<PortNo>, table: Option<u8>, ct: bool },
    /// Hash to a link number.
    Multipath(Box<Multipath>),
    /// Hash to a port of a list.
    Bundle(Box<Bundle>),
    /// Installs a flow.
    Learn(Box<Learn>),
    /// `fin_timeout`.
    FinTimeout { idle: u16, hard: u16 },
    /// This flow is a clause of a conjunction.
    Conjunction { id: u32, clause: u8, clauses: u8 },
    /// Actions on a copy.
    Clone(Box<[Action]>),
    /// A comment, in bytes.
    Note(Box<[u8]>),
    /// Ends all processing.
    Exit,
    /// Accepted; nothing collects samples yet.
    Sample(Box<Sample>),
    /// Whether the packet is longer than a number of bytes, into one bit.
    CheckPktLarger { len: u16, to: Subfield },
    /// Connection tracking. Parsed, checked and printed; executed by the next capability.
    Ct(Box<Ct>),
    /// Forgets the connection.
    CtClear,
    /// Only inside `ct(...)`: in [`Ct::nat`]. `delete_field:tun_metadataN`.
    DeleteField(Field),
    // Instructions. In this order behind all actions: clear, write, metadata, goto.
    /// Empties the action set.
    ClearActions,
    /// Merges into the action set.
    WriteActions(Box<[Action]>),
    /// Sets bits of the metadata.
    WriteMetadata { value: u64, mask: u64 },
    /// Goes on in a later table.
    GotoTable(u8),
}

/// Why a packet-in (OpenFlow 1.5.1, 7.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Reason {
    NoMatch,
    #[default]
    Action,
    InvalidTtl,
    ActionSet,
    Group,
    PacketOut,
}

/// `controller(...)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// Only for controllers of this id.
    pub id: u16,
    /// Given or implied.
    pub reason: Reason,
    /// Printed; a packet-in always carries the whole packet. 65535 where not given.
    pub max_len: u16,
    /// Sent along.
    pub userdata: Box<[u8]>,
    /// Stop until resumed.
    pub pause: bool,
    /// Limits the packet-ins.
    pub meter: Option<u32>,
}

/// Hash fields of multipath and bundle: what ovs-actions(7) calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum HashFields {
    EthSrc,
    SymmetricL4,
    SymmetricL3L4,
    SymmetricL3L4Udp,
    NwSrc,
    NwDst,
    SymmetricL3,
}

/// `multipath(fields,basis,algorithm,n_links,arg,dst)`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Multipath {
    pub fields: HashFields,
    pub basis: u16,
    pub algorithm: MultipathAlgorithm,
    pub links: u16,
    pub arg: u32,
    pub to: Subfield,
}

/// How a hash becomes a link number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MultipathAlgorithm {
    ModuloN,
    HashThreshold,
    Hrw,
    IterHash,
}

/// `bundle(...)` and, with `to`, `bundle_load(...)`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Bundle {
    pub fields: HashFields,
    pub basis: u16,
    pub hrw: bool,
    pub members: Box<[PortNo]>,
    pub to: Option<Subfield>,
}

/// `learn(...)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learn {
    /// Of the learned flow, in seconds; 0: none.
    pub idle_timeout: u16,
    /// From the last execution of learn.
    pub hard_timeout: u16,
    /// After a FIN or RST.
    pub fin_idle_timeout: u16,
    /// See `fin_idle_timeout`.
    pub fin_hard_timeout: u16,
    /// Of the learned flow.
    pub priority: u16,
    /// Of the learned flow.
    pub cookie: u64,
    /// Of the learned flow.
    pub table: u8,
    /// Learned flows tell when they go.
    pub send_flow_rem: bool,
    /// Learned flows go with the last learn of this (table, cookie).
    pub delete_learned: bool,
    /// Flows with this cookie in that table at most; 0: no limit.
    pub limit: u32,
    /// One bit: whether the flow is there now.
    pub result: Option<Subfield>,
    /// What the flow matches and does.
    pub specs: Box<[LearnSpec]>,
}

/// One element of a learned flow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LearnSpec {
    /// Match `to` against a constant or against the packet's `from`.
    Match { from: LearnSource, to: Subfield },
    /// Action: load a constant or the packet's `from` into `to`.
    Load { from: LearnSource, to: Subfield },
    /// Action: output to the port in `from`.
    Output(Subfield),
}

/// Where a [`LearnSpec`] takes its bits from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LearnSource {
    Field(Subfield),
    Immediate(u128),
}

/// `sample(...)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Sample {
    pub probability: u16,
    pub collector_set: u32,
    pub domain: u32,
    pub point: u32,
    pub port: Option<PortNo>,
    pub direction: SampleDirection,
}

/// When a packet is sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SampleDirection {
    #[default]
    Default,
    Ingress,
    Egress,
}

/// `ct(...)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Ct {
    pub commit: bool,
    pub force: bool,
    pub table: Option<u8>,
    pub zone: CtZone,
    /// 0: none; 21: ftp; 69: tftp.
    pub alg: u16,
    pub nat: Option<Nat>,
    /// SetField and Move only.
    pub exec: Box<[Action]>,
}

/// Zone of a `ct(...)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CtZone {
    Immediate(u16),
    Field(Subfield),
}

impl Default for CtZone {
    fn default() -> Self {
        Self::Immediate(0)
    }
}

/// `nat(...)`; neither source nor destination: apply what the connection has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Nat {
    /// Some(true): source; Some(false): destination.
    pub source: Option<bool>,
    /// First and last address.
    pub addresses: Option<(std::net::IpAddr, std::net::IpAddr)>,
    /// First and last port.
    pub ports: Option<(u16, u16)>,
    pub persistent: bool,
    pub hash: bool,
    pub random: bool,
}

/// Where an action list stands: some actions are allowed in some places only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Place {
    Flow { table: u8 },
    Bucket,
    PacketOut,
}

/// What actions refer to: the facts a check needs beyond the list itself. Missing groups and meters are judged by the
/// transaction, on the final state.
#[derive(Debug)]
pub struct CheckContext<'a> {
    /// The flow's match: prerequisites of fields. None in buckets and packet-outs, where they are not checked.
    pub matching: Option<&'a SparseMatch>,
    /// Where the list stands.
    pub place: Place,
}

/// Checks a list as Open vSwitch does when a flow is added: prerequisites, order, places, limits. Returns the first problem.
///
/// # Errors
/// What is wrong, with the code name that OpenFlow has for it (`OFPBAC_MATCH_INCONSISTENT`, ...).
pub fn check(actions: &[Action], context: &CheckContext<'_>) -> Result<(), CheckError> {
    let _ = (actions, context);
    Ok(())
}

/// Why an action list is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {reason}")]
pub struct CheckError {
    /// OpenFlow's or Open vSwitch's name of the error.
    pub code: &'static str,
    /// What is wrong and how to fix it.
    pub reason: String,
}
