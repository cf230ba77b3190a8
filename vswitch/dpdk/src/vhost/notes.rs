//! What a socket has to say in the log.
//!
//! **Design**: callbacks of the library run while it holds the locks of rings, and workers wait for
//! those. A callback therefore only keeps what happened ([`Notes::keep`]). The thread that calls
//! `maintain` logs it, without any lock.
//!
//! **Limits**: one line per socket and [`INTERVAL`] for guests that come and go, and one for all
//! else. The line counts those that were left out.

use std::fmt;
use std::time::{Duration, Instant};

/// Time between two lines about one socket, so that a guest that connects again and again does not
/// fill the log.
const INTERVAL: Duration = Duration::from_secs(1);

/// What happened to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketEvent {
    /// A second guest wanted to connect.
    SecondConnection,
    /// The guest's device runs.
    Up,
    /// The guest's device has stopped.
    Down,
    /// The guest asked for what it may not have.
    Refused {
        /// Number of the request.
        request: u32,
        /// Why.
        reason: &'static str,
    },
    /// The switch has cut the connection, for this reason.
    Disconnected(&'static str),
}

impl fmt::Display for SocketEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SecondConnection => f.write_str("refused a second connection"),
            Self::Up => f.write_str("guest is up"),
            Self::Down => f.write_str("guest is down"),
            Self::Refused { request, reason } => write!(f, "refused request {request}: {reason}"),
            Self::Disconnected(why) => write!(f, "{why}: disconnected"),
        }
    }
}

impl SocketEvent {
    /// A guest comes or goes.
    const fn is_link(self) -> bool {
        matches!(self, Self::Up | Self::Down)
    }
}

/// An event that is to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) event: SocketEvent,
    /// Events that were left out before it.
    pub(super) suppressed: u32,
}

/// What a socket has to say.
#[derive(Debug, Default)]
pub(super) struct Notes {
    links: Slot,
    others: Slot,
}

/// Room for one event.
#[derive(Debug, Default)]
struct Slot {
    waiting: Option<Note>,
    last: Option<Instant>,
    suppressed: u32,
}

impl Notes {
    /// Keeps an event for the log, or counts it. Allocates and formats nothing.
    pub(super) fn keep(&mut self, event: SocketEvent, now: Instant) {
        let slot = if event.is_link() { &mut self.links } else { &mut self.others };
        slot.keep(event, now);
    }

    /// What is to be logged now.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Note> + use<> {
        [self.others.waiting.take(), self.links.waiting.take()].into_iter().flatten()
    }
}

impl Slot {
    fn keep(&mut self, event: SocketEvent, now: Instant) {
        let early = self.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL);
        if early || self.waiting.is_some() {
            self.suppressed = self.suppressed.saturating_add(1);
            return;
        }
        self.last = Some(now);
        self.waiting = Some(Note { event, suppressed: std::mem::take(&mut self.suppressed) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(notes: &mut Notes) -> Vec<(SocketEvent, u32)> {
        notes.take().map(|Note { event, suppressed }| (event, suppressed)).collect()
    }

    const REFUSED: SocketEvent = SocketEvent::Refused { request: 19, reason: "a request that was not offered" };

    #[test]
    fn one_event_per_interval_is_kept_and_the_others_are_counted() {
        let (mut notes, start) = (Notes::default(), Instant::now());
        assert_eq!(taken(&mut notes), []);
        (0..5).for_each(|_| notes.keep(REFUSED, start));
        assert_eq!(taken(&mut notes), [(REFUSED, 0)]);
        assert_eq!(taken(&mut notes), []);
        notes.keep(SocketEvent::SecondConnection, start + INTERVAL / 2);
        assert_eq!(taken(&mut notes), [], "too early");
        notes.keep(REFUSED, start + INTERVAL);
        assert_eq!(taken(&mut notes), [(REFUSED, 5)]);
    }

    #[test]
    fn a_guest_that_comes_and_goes_hides_no_refusal() {
        let (mut notes, start) = (Notes::default(), Instant::now());
        for event in [SocketEvent::Up, SocketEvent::Down, SocketEvent::Up, REFUSED] {
            notes.keep(event, start);
        }
        assert_eq!(taken(&mut notes), [(REFUSED, 0), (SocketEvent::Up, 0)]);
    }

    #[test]
    fn an_event_that_nobody_has_logged_yet_stays() {
        let (mut notes, start) = (Notes::default(), Instant::now());
        notes.keep(SocketEvent::Up, start);
        notes.keep(SocketEvent::Down, start + 2 * INTERVAL);
        assert_eq!(taken(&mut notes), [(SocketEvent::Up, 0)]);
        notes.keep(SocketEvent::Down, start + 2 * INTERVAL);
        assert_eq!(taken(&mut notes), [(SocketEvent::Down, 1)]);
        let full = SocketEvent::Disconnected("guest's call descriptor was full");
        assert_eq!(full.to_string(), "guest's call descriptor was full: disconnected");
        assert_eq!(REFUSED.to_string(), "refused request 19: a request that was not offered");
    }
}
