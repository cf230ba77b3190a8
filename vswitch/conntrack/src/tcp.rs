//! The TCP state machine with window checks (`lib/conntrack-tcp.c` of Open vSwitch 3.1, which is
//! FreeBSD's pf): plain values, no table.
//!
//! The rules are those of Guido van Rooij, "Real Stateful TCP Packet Filtering in IP Filter": an
//! end may send what the other end's window allows, may repeat at most one window, and may
//! acknowledge what was sent. They are loose where pf is: a connection may be picked up in the
//! middle, a segment without payload may have any sequence number, and what arrives just after the
//! end is let through.

use crate::Direction;

mod answer;
#[cfg(test)]
mod honest;
#[cfg(test)]
mod model;
mod saved;
#[cfg(test)]
mod tests;

/// Bits of [`Segment::flags`].
#[allow(missing_docs)]
pub mod flag {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
    pub const URG: u8 = 0x20;
}
use flag::{ACK, FIN, PSH, RST, SYN, URG};

/// Largest shift that a window scale option may ask for (RFC 7323, section 2.3).
const SHIFT_MAX: u8 = 14;
/// In [`Peer::scale`]: the end sent a window scale option with its SYN; the shift is in the bits of
/// [`SCALE_SHIFT`].
const SCALE_KNOWN: u8 = 0x80;
/// In [`Peer::scale`]: the handshake was not seen. While it is so of both ends, windows count as
/// large as any scale can make them.
const SCALE_UNKNOWN: u8 = 0x40;
/// In [`Peer::scale`]: the shift.
const SCALE_SHIFT: u8 = 0x0f;

/// How far an acknowledgment may be off what the other end sent: an unscaled window and one
/// segment, pf's `MAXACKWINDOW`.
const SLACK: u32 = 0xffff + 1500;

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

impl State {
    /// Of its number; [`Self::Closed`] if no state has that.
    pub(crate) fn of(number: u8) -> Self {
        saved::STATES.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// As dumps write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::Listen => "LISTEN",
            Self::SynSent => "SYN_SENT",
            Self::SynRecv => "SYN_RECV",
            Self::Established => "ESTABLISHED",
            Self::CloseWait => "CLOSE_WAIT",
            Self::FinWait1 => "FIN_WAIT_1",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST_ACK",
            Self::FinWait2 => "FIN_WAIT_2",
            Self::TimeWait => "TIME_WAIT",
        }
    }
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

impl Peer {
    /// It has sent a FIN that was acknowledged, or the connection was reset.
    fn is_done(&self) -> bool {
        self.state >= State::FinWait2
    }

    /// Shift of the window scale option that it sent, else 0.
    const fn shift(&self) -> u8 {
        self.scale & SCALE_SHIFT
    }
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
    /// It belongs to it: `+est`, `+rpl` in the direction of the replies.
    Valid,
    /// As [`Self::Valid`], but only because windows are not known yet or no longer matter: it does
    /// not make the connection live longer (whoever floods one cannot keep it).
    ValidLoose,
    /// A SYN that belongs to it while its sender has not got further than that: `+new`, and no
    /// `+rpl` in either direction (the other end may open at the same time). The connection lives
    /// on for [`crate::Class::TcpFirst`].
    ValidNew,
    /// It does not; the connection may have learned from it all the same.
    Invalid,
    /// The connection is over; the segment opens another one of the same tuple. Nothing has
    /// changed.
    Reopen,
}

/// What a segment moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slide {
    /// Of its sender.
    pub(crate) max_window: u16,
    /// Of its sender.
    pub(crate) seq_lo: u32,
    /// Of its receiver.
    pub(crate) seq_hi: u32,
}

impl Slide {
    /// All of it, moved or not: the packet's counters are in the same cache line.
    #[inline]
    const fn apply(self, src: &mut Peer, dst: &mut Peer) {
        (src.max_window, src.seq_lo, dst.seq_hi) = (self.max_window, self.seq_lo, self.seq_hi);
    }
}

/// A segment as seen from a connection.
struct Reading {
    /// First sequence number.
    seq: u32,
    /// One after the last.
    end: u32,
    /// What it acknowledges.
    ack: u32,
    /// Window, before scaling.
    window: u16,
    /// Shift of its sender's windows.
    src_shift: u8,
    /// Shift of its receiver's windows.
    dst_shift: u8,
    /// Whether what it acknowledges has to be near what the receiver sent.
    check_ack: bool,
}

impl Reading {
    /// As if nobody scaled windows.
    #[inline]
    const fn of(segment: &Segment) -> Self {
        Self {
            seq: segment.seq,
            end: segment.seq.wrapping_add(length(segment)),
            ack: segment.ack,
            window: segment.window,
            src_shift: 0,
            dst_shift: 0,
            check_ack: true,
        }
    }

    /// Without payload there is nothing that could be out of a window.
    #[inline]
    const fn pin(&mut self, src: &Peer) {
        if self.seq == self.end {
            self.seq = src.seq_lo;
            self.end = src.seq_lo;
        }
    }
}

impl Tcp {
    /// The connection that a first segment opens, if it may: anything with possible flags, except
    /// for SYN/ACK (that answers something that was not seen).
    #[must_use]
    pub fn open(segment: &Segment) -> Option<Self> {
        if !possible(segment.flags) || segment.flags & (SYN | ACK) == SYN | ACK {
            return None;
        }
        let with_syn = segment.flags & SYN != 0;
        let scale = if with_syn { scale_of(segment) } else { SCALE_UNKNOWN };
        let mut src = Peer {
            seq_lo: segment.seq,
            seq_hi: segment.seq.wrapping_add(length(segment)).wrapping_add(1),
            max_window: segment.window.max(1),
            scale,
            state: State::SynSent,
        };
        src.max_window = unscaled(src.max_window, src.shift());
        let dst = Peer {
            seq_lo: 0,
            seq_hi: 1,
            max_window: 1,
            scale: if with_syn { 0 } else { SCALE_UNKNOWN },
            state: State::Closed,
        };
        Some(Self { peers: [src, dst] })
    }

    /// A segment of a connection. `check`: windows count.
    pub fn update(&mut self, segment: &Segment, direction: Direction, check: bool) -> Outcome {
        if !possible(segment.flags) {
            return Outcome::Invalid;
        }
        let (src, dst) = self.ends_mut(direction);
        if segment.flags & (SYN | ACK) == SYN {
            if src.is_done() && dst.is_done() {
                return Outcome::Reopen;
            }
            // What the SYN says is not remembered, even if it is another one.
            if src.state <= State::SynSent {
                src.state = State::SynSent;
                return Outcome::ValidNew;
            }
        }
        let reading = read(segment, src, dst);
        if !check || fits(segment, &reading, src, dst) {
            slid(&reading, src, dst).apply(src, dst);
            walk(segment.flags, src, dst);
            Outcome::Valid
        } else if (dst.state < State::SynSent || src.is_done() || dst.is_done()) && nearly_fits(&reading, src) {
            slid(&reading, src, dst).apply(src, dst);
            walk_loosely(segment.flags, src, dst);
            Outcome::ValidLoose
        } else {
            Outcome::Invalid
        }
    }

    /// Sender and receiver of a segment.
    #[inline]
    const fn ends_mut(&mut self, direction: Direction) -> (&mut Peer, &mut Peer) {
        let [original, reply] = &mut self.peers;
        match direction {
            Direction::Original => (original, reply),
            Direction::Reply => (reply, original),
        }
    }

    /// The one state that `dump-conntrack` prints: of the end that is further, and with two names
    /// less.
    #[must_use]
    pub fn state(&self) -> State {
        match self.peers[0].state.max(self.peers[1].state) {
            State::FinWait2 => State::TimeWait,
            State::SynRecv => State::Established,
            state => state,
        }
    }
}

/// [`Tcp::update`] with a segment that has neither SYN nor FIN nor RST, of one established end to
/// the other: what it moves, if it is [`Outcome::Valid`]; else nothing would have changed.
#[inline]
pub(crate) fn slides(segment: &Segment, src: &Peer, dst: &Peer, check: bool) -> Option<Slide> {
    debug_assert!(segment.flags & (SYN | FIN | RST) == 0, "{segment:?}");
    // That the others are not there makes what follows short.
    if segment.flags & (SYN | FIN | RST | ACK) != ACK {
        return None;
    }
    let mut reading = Reading::of(segment);
    (reading.src_shift, reading.dst_shift) = shifts(src, dst);
    reading.pin(src);
    (!check || fits(segment, &reading, src, dst)).then(|| slid(&reading, src, dst))
}

/// Whether an honest end may set these flags together.
const fn possible(flags: u8) -> bool {
    let with_syn = flags & SYN != 0;
    let with_ack = flags & ACK != 0;
    if with_syn && flags & (RST | FIN) != 0 {
        return false;
    }
    if !with_syn && flags & (ACK | RST) == 0 {
        return false;
    }
    with_ack || flags & (FIN | PSH | URG) == 0
}

/// Sequence numbers that a segment takes.
const fn length(segment: &Segment) -> u32 {
    let marks = (segment.flags & SYN != 0) as u32 + (segment.flags & FIN != 0) as u32;
    segment.payload.wrapping_add(marks)
}

/// [`Peer::scale`] after a SYN.
fn scale_of(segment: &Segment) -> u8 {
    segment.scale.map_or(0, |shift| SCALE_KNOWN | shift.min(SHIFT_MAX))
}

/// The window of a SYN is not scaled; of everything else it is. This makes one of a SYN comparable
/// with the others, rounded up.
const fn unscaled(window: u16, shift: u8) -> u16 {
    window.div_ceil(1 << shift)
}

/// `a` is at or after `b`, on the circle of sequence numbers.
const fn at_or_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() >= 0
}

/// Reads a segment; if it is the first one of its end, the end begins with it.
fn read(segment: &Segment, src: &mut Peer, dst: &mut Peer) -> Reading {
    let mut reading = Reading::of(segment);
    if segment.flags & SYN == 0 {
        (reading.src_shift, reading.dst_shift) = shifts(src, dst);
    }
    if src.state < State::SynSent {
        begin(segment, &mut reading, src, dst);
    }
    // Without ACK there is nothing to check; and some stacks acknowledge nothing in a RST/ACK.
    if segment.flags & ACK == 0 || segment.flags & RST != 0 && segment.ack == 0 {
        reading.ack = dst.seq_lo;
    }
    reading.pin(src);
    reading
}

/// Shifts of the windows of both ends, behind the handshake.
#[inline]
const fn shifts(src: &Peer, dst: &Peer) -> (u8, u8) {
    let both = src.scale & dst.scale;
    if both & SCALE_KNOWN != 0 {
        (src.shift(), dst.shift())
    } else if both & SCALE_UNKNOWN != 0 {
        (SHIFT_MAX, SHIFT_MAX)
    } else {
        (0, 0)
    }
}

/// The first segment of an end: where it counts from, and whether windows are scaled.
fn begin(segment: &Segment, reading: &mut Reading, src: &mut Peer, dst: &mut Peer) {
    if segment.flags & SYN != 0 && dst.scale & SCALE_KNOWN != 0 {
        src.scale = scale_of(segment);
        if src.scale & SCALE_KNOWN != 0 {
            reading.window = unscaled(reading.window, src.shift());
            (reading.src_shift, reading.dst_shift) = (src.shift(), dst.shift());
        } else {
            // Only one end asked: nobody scales.
            dst.max_window <<= dst.shift();
            dst.scale = 0;
        }
    }
    src.seq_lo = segment.seq;
    src.state = State::SynSent;
    let allowed = reading.end.wrapping_add((u32::from(dst.max_window) << reading.dst_shift).max(1));
    if src.seq_hi == 1 || at_or_after(allowed, src.seq_hi) {
        src.seq_hi = allowed;
        // New, or picked up in the middle: what the other end has sent is not known well.
        reading.check_ack = false;
    }
    src.max_window = src.max_window.max(reading.window);
}

/// Whether a segment lies in the windows.
#[inline]
fn fits(segment: &Segment, reading: &Reading, src: &Peer, dst: &Peer) -> bool {
    let repeatable = u32::from(dst.max_window) << reading.dst_shift;
    let skew = if reading.check_ack { dst.seq_lo.wrapping_sub(reading.ack).cast_signed() } else { 0 };
    let slack = SLACK.cast_signed();
    let distance = segment.seq.wrapping_sub(src.seq_lo).cast_signed();
    at_or_after(src.seq_hi, reading.end)
        && at_or_after(reading.seq, src.seq_lo.wrapping_sub(repeatable))
        && skew >= -slack
        && skew <= slack << reading.src_shift
        && (segment.flags & RST == 0 || (-1..=1).contains(&distance))
}

/// As [`fits`], while windows are not known or do not matter.
const fn nearly_fits(reading: &Reading, src: &Peer) -> bool {
    at_or_after(src.seq_hi.wrapping_add(SLACK), reading.end) && at_or_after(reading.seq, src.seq_lo.wrapping_sub(SLACK))
}

/// What both ends have sent and may send after a segment.
#[inline]
fn slid(reading: &Reading, src: &Peer, dst: &Peer) -> Slide {
    let window = u32::from(reading.window) << reading.src_shift;
    let allowed = reading.ack.wrapping_add(window);
    Slide {
        max_window: src.max_window.max(reading.window),
        seq_lo: if at_or_after(reading.end, src.seq_lo) { reading.end } else { src.seq_lo },
        seq_hi: if at_or_after(allowed, dst.seq_hi) { reading.ack.wrapping_add(window.max(1)) } else { dst.seq_hi },
    }
}

/// States after a segment that [`fits`].
fn walk(flags: u8, src: &mut Peer, dst: &mut Peer) {
    if flags & FIN != 0 {
        src.state = src.state.max(State::Closing);
    }
    if flags & ACK != 0 {
        dst.state = match dst.state {
            State::SynSent => State::Established,
            State::Closing => State::FinWait2,
            state => state,
        };
    }
    reset(flags, src, dst);
}

/// States after a segment that [`nearly_fits`]: its acknowledgment does not count.
fn walk_loosely(flags: u8, src: &mut Peer, dst: &mut Peer) {
    if flags & FIN != 0 {
        src.state = src.state.max(State::Closing);
    }
    reset(flags, src, dst);
}

fn reset(flags: u8, src: &mut Peer, dst: &mut Peer) {
    if flags & RST != 0 {
        src.state = State::TimeWait;
        dst.state = State::TimeWait;
    }
}
