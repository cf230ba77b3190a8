//! Captures: copies of what passes a port, for a reader that looks at packets.
//!
//! **Where in the walk**: at its ends. The point [`Point::Rx`] is in front of all checks, the point
//! [`Point::Tx`] is the hand-over to the port, and [`Point::Drop`] is wherever a packet dies.
//!
//! **Design**: a [`Session`] is what one reader asked for: interfaces (a port and a point each), a
//! match, a length. Snapshots carry the sessions as [`Captures`]. A worker that adopts a snapshot
//! with sessions notes which ports they are about; a port without one has no branch per packet.
//!
//! The worker's part is [`Taps`]. It copies into [`Buffer`]s that go round through two queues per
//! worker and session, so that it never allocates. A buffer that the reader has not given back is
//! missing: then packets pass without being copied, and the session counts them.
//!
//! A packet that comes in by a captured port gets an id as its mbuf's tag. The tag goes with the
//! packet and its copies. So the record at [`Point::Tx`] has the id of the record at [`Point::Rx`],
//! whatever was translated in between. A session that took a packet on its way in takes it on its
//! way out, too, whether it still fits the match or not.
//!
//! Packets that die come another way: the worker's sampler of drops hands them to a
//! [`crate::observe::DropTap`] of the session, with their first bytes, and the reader looks whether
//! they fit the match.
//!
//! Packets are recorded as they are: a checksum may be unfinished, and a packet for segmentation is
//! one long packet, as for `tcpdump` on an interface with offloads.
//!
//! A worker spends a tenth of its cycles on copies at most. What it saves while there is little to
//! copy pays for a millisecond of much. Beyond, bursts pass without being looked at; their packets
//! count as not copied.
//!
//! **Limits**: [`SESSIONS_MAX`] sessions; [`BUFFERS_MAX`] buffers of [`BUFFER_BYTES`] and
//! [`RECORDS_MAX`] records per worker and session. A burst uses one buffer, which is the cap on
//! what it copies. Patch ports and tunnels have no points.
//!
//! **Threads**: a lane of a session has one worker and one reader.

mod budget;
mod buffer;
mod session;
mod taps;

pub use buffer::{Buffer, Record};
pub use session::{Captures, Counts, Interface, Session, SessionSpec, Totals};
pub use taps::{Taps, id_of};

/// Sessions at a time. Each costs each packet of its ports a copy.
pub const SESSIONS_MAX: usize = 4;

/// Buffers of one worker and session, at most: a millisecond of a fast port.
pub const BUFFERS_MAX: usize = 16;

/// Buffers of one session, over all workers, beside one for each worker.
pub const SESSION_BUFFERS: usize = 256;

/// Bytes of packets in a buffer. A burst of 32 frames of 1,518 bytes fits.
pub const BUFFER_BYTES: usize = 64 << 10;

/// Records in a buffer: those of short frames.
pub const RECORDS_MAX: usize = 1024;

/// Longest part of a packet that is recorded, in bytes.
pub const SNAPLEN_MAX: usize = 65_535;

/// Where packets of a port are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    /// As received, before any check.
    Rx,
    /// As handed to the port.
    Tx,
    /// As it died, having come in by the port or having been about to leave by it.
    Drop,
}

impl Point {
    /// How many there are.
    pub const COUNT: usize = 3;
    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [Self::Rx, Self::Tx, Self::Drop];

    /// Its place in arrays.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rx => "rx",
            Self::Tx => "tx",
            Self::Drop => "drop",
        }
    }
}
