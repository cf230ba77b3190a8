//! The TCP state machine with window checks (`lib/conntrack-tcp.c` of Open vSwitch, which is FreeBSD's pf): plain values, no table.

use crate::Direction;

/// What a TCP header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
    pub flags: u8,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Window, as in the header.
    pub window: u16,
    /// Bytes of payload.
    pub payload: u32,
    /// Shift of the window scale option (RFC 7323), as in the option; none without one.
    pub scale: Option<u8>,
}

/// State of one end, as `dump-conntrack -m` names it; ordered as in pf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum State {
    #[default]
    Closed,
    Listen,
    SynSent,
    SynRecv,
    Established,
    CloseWait,
    FinWait1,
    Closing,
    LastAck,
    FinWait2,
    TimeWait,
}

/// One end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Highest sequence number sent, and one more.
    pub seq_lo: u32,
    /// Highest sequence number that the other end allows.
    pub seq_hi: u32,
    /// Largest window seen, unscaled.
    pub max_window: u16,
    /// Window scale: shift and flags as the tracker needs them.
    pub scale: u8,
    /// State.
    pub state: State,
}

/// Both ends: of the original direction, of the replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// By [`Direction`].
    pub peers: [Peer; 2],
}

/// What a segment does to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It belongs to it.
    Valid,
    /// It belongs to it, but nothing was answered yet: still `+new`.
    ValidNew,
    /// It does not.
    Invalid,
    /// The connection is over; the segment opens another one of the same tuple.
    Reopen,
}

impl Tcp {
    /// The connection that a first segment opens, if it may.
    #[must_use]
    pub fn open(segment: &Segment) -> Option<Self> {
        let _ = segment;
        None
    }

    /// A segment of a connection. `check`: windows count.
    pub fn update(&mut self, segment: &Segment, direction: Direction, check: bool) -> Outcome {
        let _ = (segment, direction, check);
        Outcome::Invalid
    }
}
