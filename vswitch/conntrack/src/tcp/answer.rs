//! What answers a first segment, where established means answered
//! ([`crate::Tracker::set_established_after_answer`]).
//!
//! An answer is what the stack of the other end sends to whoever opens: SYN/ACK or RST (RFC 9293,
//! 3.10.7). All else it can send without having got anything: a SYN of its own, which crosses the
//! opener's; a segment of a connection of which nobody here knows. So a connection that nobody let
//! through is not made an established one by who sends what nobody asked for. What a connection was
//! picked up by in the middle is answered by anything but a SYN: there any segment may be next.

use super::flag::{ACK, RST, SYN};
use super::{SCALE_UNKNOWN, Segment, Tcp, possible};
use crate::Direction;

impl Tcp {
    /// A segment of the replies to a connection that was not answered is no answer: it changes
    /// nothing, and is as new as if it were the first one of a connection of its own. A SYN behind
    /// the end of both is not meant: it opens another one; nor what no honest end sends, which is
    /// invalid.
    #[must_use]
    pub fn leaves_open(&self, segment: &Segment) -> bool {
        let over = self.peers.iter().all(super::Peer::is_done);
        let opens = segment.flags & (SYN | ACK) == SYN;
        possible(segment.flags) && !self.is_answered_by(segment) && !(opens && over)
    }

    fn is_answered_by(&self, segment: &Segment) -> bool {
        match segment.flags & (SYN | ACK) {
            SYN => false,
            flags => self.is_picked_up() || flags == SYN | ACK || segment.flags & RST != 0,
        }
    }

    /// Its first segment was no SYN.
    const fn is_picked_up(&self) -> bool {
        self.peers[Direction::Original as usize].scale & SCALE_UNKNOWN != 0
    }
}
