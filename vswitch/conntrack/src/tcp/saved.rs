//! A TCP state as words, for a file.

use super::{Peer, SCALE_KNOWN, SCALE_SHIFT, SCALE_UNKNOWN, SHIFT_MAX, State, Tcp};

/// By their numbers.
pub(super) const STATES: [State; 11] = [
    State::Closed,
    State::Listen,
    State::SynSent,
    State::SynRecv,
    State::Established,
    State::CloseWait,
    State::FinWait1,
    State::Closing,
    State::LastAck,
    State::FinWait2,
    State::TimeWait,
];

impl Tcp {
    /// Of a connection that was not answered: what the other end has sent, if anything, was no
    /// answer, and is as if it had not come. (Its reset ends it all the same.)
    #[must_use]
    pub fn unanswered(mut self) -> Self {
        let [original, reply] = &mut self.peers;
        if reply.state != State::Closed && !reply.is_done() {
            let scale = original.scale & SCALE_UNKNOWN;
            *reply = Peer { seq_lo: 0, seq_hi: 1, max_window: 1, scale, state: State::Closed };
        }
        self
    }

    /// Sequence numbers of both ends, a word each; then what is small.
    #[must_use]
    pub fn to_words(&self) -> [u64; 3] {
        let [original, reply] = &self.peers;
        let sequence = |peer: &Peer| u64::from(peer.seq_hi) << 32 | u64::from(peer.seq_lo);
        let small =
            |peer: &Peer| u64::from(peer.max_window) << 16 | u64::from(peer.scale) << 8 | u64::from(peer.state as u8);
        [sequence(original), sequence(reply), small(reply) << 32 | small(original)]
    }

    /// What [`Self::to_words`] says; none if no connection has such a state.
    #[must_use]
    pub fn of_words([original, reply, small]: [u64; 3]) -> Option<Self> {
        let peer = |sequence: u64, small: u64| {
            let [lo0, lo1, lo2, lo3, hi0, hi1, hi2, hi3] = sequence.to_le_bytes();
            let [state, scale, window0, window1, ..] = small.to_le_bytes();
            let odd = scale & !(SCALE_KNOWN | SCALE_UNKNOWN | SCALE_SHIFT);
            if odd != 0 || scale & SCALE_SHIFT > SHIFT_MAX {
                return None;
            }
            Some(Peer {
                seq_lo: u32::from_le_bytes([lo0, lo1, lo2, lo3]),
                seq_hi: u32::from_le_bytes([hi0, hi1, hi2, hi3]),
                max_window: u16::from_le_bytes([window0, window1]),
                scale,
                state: *STATES.get(usize::from(state))?,
            })
        };
        Some(Self { peers: [peer(original, small)?, peer(reply, small >> 32)?] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_being_words() {
        for (number, state) in STATES.into_iter().enumerate() {
            assert_eq!(state as usize, number);
            let peer = Peer { seq_lo: 0x0102_0304, seq_hi: u32::MAX, max_window: 0xabcd, scale: 0x8e, state };
            let tcp = Tcp { peers: [peer, Peer { seq_lo: 7, scale: 0x40, ..peer }] };
            assert_eq!(Tcp::of_words(tcp.to_words()), Some(tcp));
        }
    }

    #[test]
    fn what_no_connection_has_is_none() {
        let [a, b, small] = Tcp::default().to_words();
        for odd in [11, 0xff, 0x1000, 0x2000, 0x0f00] {
            assert_eq!(Tcp::of_words([a, b, small | odd]), None, "{odd:x}");
            assert_eq!(Tcp::of_words([a, b, small | odd << 32]), None, "{odd:x} of the replies");
        }
    }
}
