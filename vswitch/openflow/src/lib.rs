//! OpenFlow 1.3 and 1.5 with Nicira's extensions: messages as bytes and as plain values.
//!
//! **Where in the walk**: between a socket of OpenFlow and the switch. A server reads a message
//! from a controller, decodes it here, and gives the switch values of `vswitch_flow`.
//! [`FlowMod::update`] is a [`vswitch_flow::spec::Update`] of a transaction. The server encodes
//! replies, packet-ins and status messages here. This crate has no sockets. [`Assembler`], which
//! joins the parts of long messages, is its only state.
//!
//! **Design**:
//! - Nothing of the language is written twice. Matches are [`vswitch_flow::SparseMatch`], actions
//!   [`vswitch_flow::Action`], flows, groups and meters the types of [`vswitch_flow::spec`].
//! - One [`Message`] serves both directions and both versions. A message of one version is encoded
//!   from the same value as that of the other.
//! - The encoder writes the bytes that Open vSwitch 3.1 writes: names of fields, order of matches,
//!   forms of actions. `tests/golden` holds recordings that say so.
//! - [`Codec::decode`] checks the form of a message. [`FlowMod::update`], [`GroupMod::update`] and
//!   [`MeterMod::update`] check what it asks for, by the rules that text and gRPC have. The
//!   transaction judges what depends on the state: missing groups, unmapped options.
//!
//! **Errors**: a [`Refusal`] has the name of the error that Open vSwitch sends. [`ErrorCode`] has
//! its numbers. [`Failure::reply`] makes the error message, with the bytes that are refused.
//!
//! **Not served**, with the error that says so:
//! - versions 1.0, 1.1, 1.2 and 1.4: `OFPBRC_BAD_VERSION`;
//! - queues: `OFPBRC_BAD_STAT`, `OFPBRC_BAD_TYPE`, and `OFPBAC_BAD_TYPE` for `set_queue`;
//! - MPLS, NSH and packets without Ethernet: `OFPBAC_BAD_TYPE`, `OFPBAC_BAD_VENDOR_TYPE`, and
//!   `OFPBMC_BAD_FIELD` for their fields;
//! - `tun_metadata8` to `tun_metadata63`: `OFPBMC_BAD_FIELD`;
//! - matches on the presence of a Geneve option: `OFPBMC_BAD_MASK`;
//! - statistics of IPFIX: `NXST_NOT_CONFIGURED`.
//!
//! **Limits**: a message has 65,535 bytes; the encoder refuses more ([`EncodeError::TooLong`]).
//! [`Codec::segments`] cuts long replies into messages. An [`Assembler`] holds a bounded number of
//! bytes. Lists are bounded by their message. Actions are nested 32 deep. OpenFlow cannot say all
//! that a flow can:
//! - The actions `reject` and `ct_forget` become a note with their text.
//! - Fields without a name in OpenFlow (`tun_ttl`, the inner VLAN tag) are left out of matches.
//! - OpenFlow 1.3 has no ids of buckets and no selection methods.
//! - Timeouts above 65,535 seconds are sent as 65,535.
//!
//! **Threads**: plain values and pure functions. No clock.
#![forbid(unsafe_code)]

mod action;
mod assemble;
mod asynchronous;
mod bundle;
mod codec;
mod config;
mod connection;
mod error;
mod flow;
mod flow_stats;
mod group;
mod group_stats;
mod header;
mod instruction;
mod message;
mod meter;
mod monitor;
mod multipart;
mod option;
mod oxm;
mod packet;
mod port;
mod property;
mod stats;
mod table;
mod wire;

pub use assemble::{Assembler, Incomplete};
pub use asynchronous::{AsyncConfig, AsyncMasks, Role, RoleMessage, RoleStatus};
pub use bundle::{BundleAdd, BundleControl, BundleStep};
pub use config::{Features, Hello, SwitchConfig};
pub use connection::{CtFlush, CtTuple};
pub use error::ErrorCode;
pub use flow::{FlowCommand, FlowMod};
pub use flow_stats::{FlowRemoved, FlowStats};
pub use group::{GroupCommand, GroupMod};
pub use group_stats::{BucketCounters, GroupFeatures, GroupStats};
pub use message::{Envelope, ErrorMessage, Message};
pub use meter::{BandCounters, MeterCommand, MeterFeatures, MeterMod, MeterStats};
pub use monitor::{FlowUpdate, FlowUpdateEvent, MonitorCommand, MonitorRequest};
pub use multipart::{Description, Part, Reply, Request, Segments};
pub use option::{OptionMapping, OptionMod, OptionTable};
pub use packet::{PacketIn, PacketOut};
pub use port::{Port, PortMod, PortReason, PortStats, PortStatus};
pub use stats::Counters;
pub use table::{TableDescription, TableFeatures, TableMod, TableProperty, TableStats};
pub use vswitch_flow::Refusal;

use vswitch_flow::Field;

/// A version of OpenFlow that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// 1.3, number 4 on the wire.
    V13,
    /// 1.5, number 6.
    V15,
}

impl Version {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V13, Self::V15];

    /// Its number in headers.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::V13 => 4,
            Self::V15 => 6,
        }
    }

    /// A version by its number in headers.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.number() == number)
    }
}

/// Reads and writes messages of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    version: Version,
    /// Bytes of the options that `tun_metadata0` to `tun_metadata7` are mapped to; 0: not mapped.
    options: [u8; 8],
}

impl Codec {
    /// With no options mapped.
    #[must_use]
    pub const fn new(version: Version) -> Self {
        Self { version, options: [0; 8] }
    }

    /// With options of these lengths mapped to `tun_metadata0` and on; 0: not mapped. A match on a
    /// mapped field has as many bytes as its option, as with Open vSwitch.
    #[must_use]
    pub const fn with_options(self, options: [u8; 8]) -> Self {
        Self { options, ..self }
    }

    /// The version.
    #[must_use]
    pub const fn version(self) -> Version {
        self.version
    }

    /// Bytes of a field that a mapping decides.
    fn option_bytes(self, field: Field) -> Option<u8> {
        let index = (field as usize).checked_sub(Field::TunMetadata0 as usize)?;
        self.options.get(index).copied().filter(|bytes| *bytes != 0)
    }

    /// Reads one message: exactly its bytes.
    ///
    /// # Errors
    /// When it is wrong or not served.
    pub fn decode(self, bytes: &[u8]) -> Result<Envelope, Failure> {
        codec::decode(self, bytes)
    }

    /// Writes one message.
    ///
    /// # Errors
    /// When it does not fit into a message, or names a field that has no name in OpenFlow.
    pub fn encode(self, envelope: &Envelope) -> Result<Vec<u8>, EncodeError> {
        codec::encode(self, envelope)
    }
}

/// Why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {refusal}", .refusal.code)]
pub struct Failure {
    /// Of the message; 0 if it has no header.
    pub xid: u32,
    /// What is wrong.
    pub refusal: Refusal,
}

impl Failure {
    /// The error message about it. `request`: the bytes that are refused.
    #[must_use]
    pub fn reply(&self, version: Version, request: &[u8]) -> Envelope {
        let code = ErrorCode::of_name(version, self.refusal.code);
        let data = request[..request.len().min(ErrorMessage::MAX_DATA)].to_vec();
        Envelope { xid: self.xid, message: Message::Error(ErrorMessage { code, data }) }
    }
}

/// Why a message cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// It has more bytes than its header can say.
    #[error("a message of {0} bytes: OpenFlow's have at most 65535; send less in one message")]
    TooLong(usize),
    /// It names what OpenFlow has no name for.
    #[error("{0}")]
    NoForm(#[from] Refusal),
}

/// Seconds as OpenFlow can say them.
fn seconds(seconds: u32) -> u16 {
    u16::try_from(seconds).unwrap_or(u16::MAX)
}
