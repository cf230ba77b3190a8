//! What an ICMP error does: it tells of a packet of a connection, and never changes the state of
//! that connection.

use super::track::{Written, flag, is_translated};
use super::{EventKind, Found, Tracker, Words};
use crate::{Direction, End, NatSide, Related, Request, Rewrite, TrackVerdict, Tuple, state};

impl Tracker {
    /// An ICMP or ICMPv6 error meets `ct()`.
    pub fn track_related(&self, related: &Related, request: &Request, worker: usize, now: u64) -> TrackVerdict {
        let _ = worker;
        let inner = Tuple { zone: request.zone, ..related.inner };
        // Whoever sent the packet gets the error, nobody else.
        if inner.src.addr != related.dst {
            return TrackVerdict::INVALID;
        }
        // The error travels as an answer to the packet would.
        let answer = inner.reversed();
        let found = if is_translated(request) {
            self.find_translated(&answer, now)
        } else {
            let words = Words::from(&answer);
            self.find(&words, self.hasher.hash(&words), now)
        };
        let Some(Found { mut locked, direction }) = found else { return TrackVerdict::INVALID };
        locked.count(direction, related.len);
        let written = if request.commit { locked.write(request) } else { Written::default() };
        if written.anything {
            locked.mine().changed();
            self.tell(EventKind::Update, &locked, now);
        }
        let mut state = state::REL | state::TRK | request.before & (state::SNAT | state::DNAT);
        if direction == Direction::Reply {
            state |= state::RPL;
        }
        let mut rewrite = Rewrite::default();
        if !is_translated(request)
            && let Some(side) = locked.life().translates(request.nat.is_some())
        {
            state |= flag(side, direction);
            let (_, to) = locked.translation(direction);
            rewrite = translate(related, &inner, &to, side, direction);
        }
        TrackVerdict { state, rewrite, labelled: written.label, ..locked.known() }
    }
}

/// What to write into an error of this direction; `to`: tuple that an answer to the packet would go
/// on with.
fn translate(related: &Related, inner: &Tuple, to: &Tuple, side: NatSide, direction: Direction) -> Rewrite {
    let quoted = to.reversed();
    // The address that hides the other end hides every router behind it, too; a router on the way
    // to an end that is not hidden keeps its own.
    let hidden = matches!((side, direction), (NatSide::Dst, Direction::Reply) | (NatSide::Src, Direction::Original));
    let address = |now: u128, then: u128| (now != then).then_some(End { addr: then, port: 0 });
    Rewrite {
        src: address(related.src, to.src.addr).filter(|_| hidden),
        dst: address(related.dst, to.dst.addr),
        inner_src: (inner.src != quoted.src).then_some(quoted.src),
        inner_dst: (inner.dst != quoted.dst).then_some(quoted.dst),
    }
}
