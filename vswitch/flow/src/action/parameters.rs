//! What the bigger actions carry.

use super::{Action, PortNo};
use crate::Subfield;
use std::net::IpAddr;

/// Why a packet-in (OpenFlow 1.5.1, 7.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// The table-miss flow.
    NoMatch,
    /// An action.
    #[default]
    Action,
    /// `dec_ttl` at a TTL of 0 or 1.
    InvalidTtl,
    /// The action set.
    ActionSet,
    /// A group's bucket.
    Group,
    /// A packet-out.
    PacketOut,
}

/// `controller(...)`.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Default for Controller {
    fn default() -> Self {
        Self {
            id: 0,
            reason: Reason::default(),
            max_len: u16::MAX,
            userdata: Box::default(),
            pause: false,
            meter: None,
        }
    }
}

/// `reject(...)`: an action of this switch, which Open vSwitch has not. The answer to the packet
/// *as it came in* is made, and goes through the actions: for TCP a reset (RFC 9293, 3.10.7.1),
/// else "destination unreachable"; with an MTU "fragmentation needed" or "packet too big". Who must
/// not be answered is not (RFC 1122, 3.2.2; RFC 4443, 2.4 e). The packet itself is left as it is.
/// As most actions it has no place in an action set, nor in buckets, which are such sets: there it
/// does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// TCP is answered by a reset; else as everything is.
    pub reset: bool,
    /// Code of ICMP type 3.
    pub icmp: u8,
    /// Code of ICMPv6 type 1.
    pub icmp6: u8,
    /// Longest IP packet that gets through (RFC 1191, RFC 8201); 0: the packet is not too long.
    pub mtu: u16,
    /// What becomes of the answer.
    pub actions: Box<[Action]>,
}

impl Default for Reject {
    /// As firewalls refuse: "communication administratively prohibited" (RFC 1812, 5.2.7.1: the
    /// host, 10; RFC 4443, 3.1: 1).
    fn default() -> Self {
        Self { reset: true, icmp: 10, icmp6: 1, mtu: 0, actions: Box::default() }
    }
}

/// Hash fields of multipath and bundle: what ovs-actions(7) calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashFields {
    /// `eth_src`
    EthSrc,
    /// `symmetric_l4`: Ethernet, VLANs, IP, and ports of TCP and SCTP.
    SymmetricL4,
    /// `symmetric_l3l4`: IP, and ports of TCP and SCTP.
    SymmetricL3L4,
    /// `symmetric_l3l4+udp`: and of UDP.
    SymmetricL3L4Udp,
    /// `nw_src`
    NwSrc,
    /// `nw_dst`
    NwDst,
    /// `symmetric_l3`: IP addresses.
    SymmetricL3,
}

impl HashFields {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::EthSrc,
        Self::SymmetricL4,
        Self::SymmetricL3L4,
        Self::SymmetricL3L4Udp,
        Self::NwSrc,
        Self::NwDst,
        Self::SymmetricL3,
    ];
}

/// `multipath(fields,basis,algorithm,n_links,arg,dst)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multipath {
    /// What is hashed.
    pub fields: HashFields,
    /// Start of the hash.
    pub basis: u16,
    /// How the hash becomes a link.
    pub algorithm: MultipathAlgorithm,
    /// Number of links, at least 1.
    pub links: u16,
    /// For [`MultipathAlgorithm::IterHash`].
    pub arg: u32,
    /// Where the link number goes.
    pub to: Subfield,
}

/// How a hash becomes a link number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultipathAlgorithm {
    /// `modulo_n`
    ModuloN,
    /// `hash_threshold`
    HashThreshold,
    /// `hrw`: highest random weight.
    Hrw,
    /// `iter_hash`
    IterHash,
}

/// `bundle(...)` and, with `to`, `bundle_load(...)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// What is hashed.
    pub fields: HashFields,
    /// Start of the hash.
    pub basis: u16,
    /// `hrw`: highest random weight among the live members; else `active_backup`: the first live
    /// one.
    pub hrw: bool,
    /// The ports to choose from.
    pub members: Box<[PortNo]>,
    /// Where the chosen port's number goes instead of the packet to the port. At least 16 bits.
    pub to: Option<Subfield>,
}

/// `learn(...)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learn {
    /// Of the learned flow, in seconds; 0: none.
    pub idle_timeout: u32,
    /// From the last execution of learn.
    pub hard_timeout: u32,
    /// After a FIN or RST.
    pub fin_idle_timeout: u32,
    /// Hard timeout after a FIN or RST, in seconds; 0: none.
    pub fin_hard_timeout: u32,
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

impl Default for Learn {
    /// As ovs-actions(7) says: table 1, priority 32768, for ever.
    fn default() -> Self {
        Self {
            idle_timeout: 0,
            hard_timeout: 0,
            fin_idle_timeout: 0,
            fin_hard_timeout: 0,
            priority: 32768,
            cookie: 0,
            table: 1,
            send_flow_rem: false,
            delete_learned: false,
            limit: 0,
            result: None,
            specs: Box::default(),
        }
    }
}

/// One element of a learned flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LearnSpec {
    /// Match `to` against a constant or against the packet's `from`.
    Match {
        /// The bits to match.
        from: LearnSource,
        /// Where they are looked for.
        to: Subfield,
    },
    /// Action: load a constant or the packet's `from` into `to`.
    Load {
        /// The bits to load.
        from: LearnSource,
        /// Where they go.
        to: Subfield,
    },
    /// Action: output to the port in `from`.
    Output(Subfield),
}

/// Where a [`LearnSpec`] takes its bits from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnSource {
    /// The packet that executes the learn.
    Field(Subfield),
    /// A constant, in the lowest bits.
    Immediate(u128),
}

/// `sample(...)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Of 65,535 packets; at least 1.
    pub probability: u16,
    /// Who gets the samples.
    pub collector_set: u32,
    /// For IPFIX.
    pub domain: u32,
    /// For IPFIX.
    pub point: u32,
    /// The port that is sampled, for IPFIX.
    pub port: Option<PortNo>,
    /// Ingress or egress, for IPFIX.
    pub direction: SampleDirection,
}

/// When a packet is sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleDirection {
    /// Not said.
    #[default]
    Default,
    /// `ingress`
    Ingress,
    /// `egress`
    Egress,
}

/// `ct(...)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ct {
    /// Remember the connection.
    pub commit: bool,
    /// With `commit`: forget one of the other direction.
    pub force: bool,
    /// Where a tracked copy of the packet goes on.
    pub table: Option<u8>,
    /// Connections of different zones do not know each other.
    pub zone: CtZone,
    /// 0: none; 21: ftp; 69: tftp.
    pub alg: u16,
    /// Translation.
    pub nat: Option<Nat>,
    /// With `commit`: writes the connection's mark and label. SetField and Move only.
    pub exec: Box<[Action]>,
}

impl Ct {
    /// Whether it changes the connection, which only a commit does.
    #[must_use]
    pub fn changes(&self) -> bool {
        !self.exec.is_empty() || self.nat.as_ref().is_some_and(|nat| nat.source.is_some())
    }
}

/// Zone of a `ct(...)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtZone {
    /// A number.
    Immediate(u16),
    /// 16 bits of a field.
    Field(Subfield),
}

impl Default for CtZone {
    fn default() -> Self {
        Self::Immediate(0)
    }
}

/// `nat(...)`; neither source nor destination: apply what the connection has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nat {
    /// Some(true): source; Some(false): destination.
    pub source: Option<bool>,
    /// First and last address.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// First and last port. Only with addresses.
    pub ports: Option<(u16, u16)>,
    /// The same address for a host as after a restart. Like the next two without effect in Open
    /// vSwitch's userspace datapath, and only with addresses.
    pub persistent: bool,
    /// Ports by hash.
    pub hash: bool,
    /// Ports at random.
    pub random: bool,
}
