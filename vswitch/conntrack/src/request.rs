//! What is asked about a packet, and what the answer is.

use crate::{End, Handle, Ingress, Nat, Tuple, tcp};

/// Bits of `ct_state` (ovs-fields(7), `ct_state`).
#[allow(missing_docs)]
pub mod state {
    pub const NEW: u32 = 0x01;
    pub const EST: u32 = 0x02;
    pub const REL: u32 = 0x04;
    pub const RPL: u32 = 0x08;
    pub const INV: u32 = 0x10;
    pub const TRK: u32 = 0x20;
    pub const SNAT: u32 = 0x40;
    pub const DNAT: u32 = 0x80;
}

/// Which way a packet of a connection goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// As the packet that opened it.
    Original = 0,
    /// The other way.
    Reply = 1,
}

impl Direction {
    /// The other way.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Original => Self::Reply,
            Self::Reply => Self::Original,
        }
    }
}

/// A packet as the tracker sees it: whole, its checksums verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// From its headers; the zone is the request's.
    pub tuple: Tuple,
    /// What its L4 header says.
    pub l4: L4,
    /// Bytes of the frame, for counters.
    pub len: u32,
    /// Where it came in.
    pub port: Ingress,
}

impl Seen {
    /// The same packet, met in a zone.
    #[inline]
    #[must_use]
    pub const fn in_zone(&self, zone: u16) -> Self {
        Self { tuple: Tuple { zone, ..self.tuple }, ..*self }
    }
}

/// What an L4 header says beside ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum L4 {
    /// TCP.
    Tcp(tcp::Segment),
    /// UDP.
    Udp,
    /// ICMP or ICMPv6 that is no error: `type << 8 | code` is in the tuple.
    Icmp,
    /// Anything else.
    #[default]
    Other,
}

/// An ICMP or ICMPv6 error, by the packet it is about.
#[derive(Clone, Copy, Debug)]
pub struct Related {
    /// Tuple of the packet that the error quotes, as quoted. The sender of that packet is who gets
    /// the error.
    pub inner: Tuple,
    /// Protocol of the error itself: ICMP or ICMPv6.
    pub protocol: u8,
    /// Source address of the error: any router.
    pub src: u128,
    /// Destination address of the error.
    pub dst: u128,
    /// Type and code of the error, `type << 8 | code`.
    pub kind: u16,
    /// Bytes of the frame, for counters.
    pub len: u32,
}

/// `ct(...)`, resolved: what to do with a packet (ovs-actions(7), "ct").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Zone.
    pub zone: u16,
    /// `ct_state` that the packet brings from an earlier `ct()` of the same zone; 0: none. If that
    /// one translated it, it is found by what it was translated to, keeps the `snat` and `dnat` of
    /// it, and is not translated again.
    pub before: u32,
    /// The last of those earlier `ct()` had no `nat`, and knew its connection
    /// ([`TrackVerdict::known`]). The packet is not judged again then, but keeps the state that it
    /// has (Open vSwitch remembers its connection); else it is, though it may be judged differently
    /// the second time.
    pub cached: bool,
    /// The last of those earlier `ct()` found no connection, and remembered none: with `commit` it
    /// is not looked for again before it is entered.
    pub unknown: bool,
    /// Remember the connection.
    pub commit: bool,
    /// With `commit`: if the connection is of the other direction, forget it and begin a new one.
    pub force: bool,
    /// Translate; with `commit`, how.
    pub nat: Option<Nat>,
    /// With `commit`: bits of the mark to write, and which.
    pub mark: (u32, u32),
    /// With `commit`: bits of the label to write, and which.
    pub label: (u128, u128),
    /// With `commit`: follow the protocol's control messages.
    pub helper: Option<Helper>,
}

/// `alg=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Helper {
    /// RFC 959, RFC 2428.
    Ftp,
    /// RFC 1350.
    Tftp,
}

/// What to write into a packet. `None`: as it is. Of an ICMP echo the source's port is the
/// identifier; the destination's is not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Of the packet itself (of an error: addresses only).
    pub src: Option<End>,
    /// Destination of the packet itself (of an error: the address only).
    pub dst: Option<End>,
    /// Of the packet that an error quotes.
    pub inner_src: Option<End>,
    /// Destination of the packet that an error quotes.
    pub inner_dst: Option<End>,
}

/// Why a packet is to be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The table is full of connections that are not to be dropped.
    Full,
    /// The port has its share of the connections, and lost none that nobody answered.
    PortFull,
    /// The zone has as many connections as its limit says.
    ZoneLimit,
    /// No free tuple to translate to.
    NatExhausted,
    /// The tuple of the replies belongs to another connection, and there is no other port to have.
    TupleTaken,
}

/// What the tracker says about a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackVerdict {
    /// Bits of [`state`].
    pub state: u32,
    /// Of the connection.
    pub mark: u32,
    /// Of the connection.
    pub label: u128,
    /// Tuple of the original direction, before translation; none of an invalid packet. Of ICMP the
    /// destination's port is `type << 8 | code` of the request.
    pub original: Option<Tuple>,
    /// What to write into the packet.
    pub rewrite: Rewrite,
    /// Its connection is in the table.
    pub known: bool,
    /// That one, if the packet met it as new: whoever decides that it was not to be can take it
    /// back ([`crate::Tracker::forget`]).
    pub fresh: Option<Handle>,
    /// It was this packet that opened it.
    pub opened: bool,
    /// It was this packet whose commit gave it another label.
    pub labelled: bool,
    /// The packet is to be dropped, by this name: nothing else counts then.
    pub refusal: Option<Refusal>,
    /// The packet is of a connection with FTP's helper, and not its first: whoever has its bytes is
    /// to read them ([`crate::Tracker::control`]).
    pub controls: bool,
}

impl TrackVerdict {
    /// Of a packet that belongs to nothing and opens nothing.
    pub const INVALID: Self = Self {
        state: state::INV | state::TRK,
        mark: 0,
        label: 0,
        original: None,
        rewrite: Rewrite { src: None, dst: None, inner_src: None, inner_dst: None },
        known: false,
        fresh: None,
        opened: false,
        labelled: false,
        refusal: None,
        controls: false,
    };
}
