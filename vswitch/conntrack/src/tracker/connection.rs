//! A connection as others see it, and which ones they mean.

use super::arena::Spot;
use super::life::Life;
use crate::{Family, Tuple, protocol, tcp};

/// A connection as a dump shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Unique among those alive: place and generation.
    pub id: u64,
    /// Tuple of the original direction.
    pub original: Tuple,
    /// Tuple of the replies: the original one reversed, unless translated.
    pub reply: Tuple,
    /// Mark.
    pub mark: u32,
    /// Label.
    pub label: u128,
    /// State of both ends, of TCP.
    pub tcp: Option<tcp::Tcp>,
    /// Replies were seen.
    pub replied: bool,
    /// Milliseconds left to live without packets.
    pub timeout_ms: u64,
    /// When it began, in milliseconds of the tracker's clock, modulo 2^64: one that is older than
    /// the process began before 0. See [`Self::age_ms`].
    pub start_ms: u64,
    /// Packets by direction.
    pub packets: [u64; 2],
    /// Bytes by direction.
    pub bytes: [u64; 2],
    /// Connection that it was expected by (FTP data, TFTP data): the original tuple of it.
    pub master: Option<Tuple>,
}

/// Which connections are meant. Empty: all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this zone.
    pub zone: Option<u16>,
    /// IP protocol.
    pub protocol: Option<u8>,
    /// Source address of the original direction. A given family is implied.
    pub src: Option<(Family, u128)>,
    /// Destination address of the original direction.
    pub dst: Option<(Family, u128)>,
    /// Source port (ICMP: identifier) of the original direction.
    pub src_port: Option<u16>,
    /// Destination port of the original direction (ICMP: `type << 8 | code`).
    pub dst_port: Option<u16>,
    /// Value and mask of the mark.
    pub mark: (u32, u32),
    /// Value and mask of the label.
    pub label: (u128, u128),
}

impl Filter {
    /// Whether a connection is meant.
    #[must_use]
    pub fn matches(&self, connection: &Connection) -> bool {
        let original = &connection.original;
        self.zone.is_none_or(|zone| zone == original.zone)
            && self.protocol.is_none_or(|protocol| protocol == original.protocol)
            && self.src.is_none_or(|src| src == (original.family, original.src.addr))
            && self.dst.is_none_or(|dst| dst == (original.family, original.dst.addr))
            && self.src_port.is_none_or(|port| port == original.src.port)
            && self.dst_port.is_none_or(|port| port == original.dst.port)
            && (connection.mark ^ self.mark.0) & self.mark.1 == 0
            && (connection.label ^ self.label.0) & self.label.1 == 0
    }
}

impl Connection {
    /// Milliseconds since it began.
    #[must_use]
    pub const fn age_ms(&self, now: u64) -> u64 {
        age(self.start_ms, now)
    }

    /// A connection as it is now.
    pub(super) fn of(spot: &Spot<'_>, now: u64) -> Self {
        let life = spot.life();
        let [original, reply] = spot.tuples().map(|words| words.tuple());
        Self {
            id: spot.id(),
            original,
            reply,
            mark: spot.hot.mark(),
            label: spot.label(),
            tcp: (original.protocol == protocol::TCP).then(|| spot.hot.tcp()),
            replied: life.has(Life::REPLIED),
            timeout_ms: life.expiry().saturating_sub(now),
            start_ms: spot.start(),
            packets: spot.packets(),
            bytes: spot.bytes(),
            master: spot.master(),
        }
    }
}

/// Milliseconds since a start, both of the same clock modulo 2^64; 0 of one that is to come.
pub(super) const fn age(start: u64, now: u64) -> u64 {
    let age = now.wrapping_sub(start);
    if age.cast_signed() < 0 { 0 } else { age }
}
