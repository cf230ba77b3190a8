//! What happens to one connection within a few milliseconds becomes one record.

use super::{HOLD_MS, Now};
use std::collections::{HashMap, VecDeque};
use vswitch_conntrack::{Connection, Event, EventKind};
use vswitch_dataplane::limits::ANTREA_RECORDS_HELD_MAX;

/// What happened to a connection lately.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// As it is now.
    pub(super) connection: Connection,
    /// It began.
    pub(super) is_new: bool,
    /// It ended, in milliseconds since 1970.
    pub(super) ended_unix_ms: Option<u64>,
}

/// Connections to which something happened, oldest first.
#[derive(Debug, Default)]
pub(super) struct Holding {
    held: HashMap<u64, Held>,
    /// With when the first thing happened, on the tracker's clock.
    order: VecDeque<(u64, u64)>,
}

impl Holding {
    /// Something happened.
    pub(super) fn add(&mut self, event: &Event, now: Now) {
        let Event { kind, connection } = event;
        let held = self.held.entry(connection.id).or_insert_with(|| {
            self.order.push_back((now.ms, connection.id));
            Held { connection: *connection, is_new: false, ended_unix_ms: None }
        });
        held.connection = *connection;
        match kind {
            EventKind::New => held.is_new = true,
            EventKind::Update => {}
            EventKind::End => held.ended_unix_ms = Some(now.unix_ms),
        }
    }

    /// Nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Milliseconds until the first is due.
    pub(super) fn wait(&self, now: u64) -> u64 {
        self.order.front().map_or(HOLD_MS, |(since, _)| (since + HOLD_MS).saturating_sub(now))
    }

    /// What was held long enough, or has no room; oldest first.
    pub(super) fn due(&mut self, now: u64) -> Vec<Held> {
        let mut due = Vec::new();
        while let Some((since, id)) = self.order.front().copied() {
            if now.saturating_sub(since) < HOLD_MS && self.order.len() <= ANTREA_RECORDS_HELD_MAX {
                break;
            }
            self.order.pop_front();
            due.extend(self.held.remove(&id));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_conntrack::{End, Family, Tuple};

    fn event(kind: EventKind, id: u64, mark: u32) -> Event {
        let end = End { addr: 1, port: 2 };
        let tuple = Tuple { src: end, dst: end, family: Family::V4, protocol: 17, zone: 1 };
        let connection = Connection {
            id,
            original: tuple,
            reply: tuple.reversed(),
            mark,
            label: 0,
            tcp: None,
            replied: false,
            timeout_ms: 1,
            start_ms: 0,
            packets: [0; 2],
            bytes: [0; 2],
            master: None,
        };
        Event { kind, connection }
    }

    #[test]
    fn what_happens_at_once_is_one() {
        let mut holding = Holding::default();
        let at = |ms| Now { ms, unix_ms: 1000 + ms };
        holding.add(&event(EventKind::New, 1, 0), at(0));
        holding.add(&event(EventKind::Update, 2, 0), at(3));
        holding.add(&event(EventKind::Update, 1, 7), at(4));
        holding.add(&event(EventKind::End, 2, 8), at(12));
        assert_eq!(holding.wait(4), HOLD_MS - 4);
        assert!(holding.due(HOLD_MS - 1).is_empty());
        let due = holding.due(HOLD_MS);
        let shown: Vec<_> = due.iter().map(|held| (held.connection.id, held.is_new, held.connection.mark)).collect();
        assert_eq!(shown, [(1, true, 7)]);
        let due = holding.due(u64::MAX);
        let shown: Vec<_> = due.iter().map(|held| (held.connection.mark, held.is_new, held.ended_unix_ms)).collect();
        assert_eq!(shown, [(8, false, Some(1012))]);
        assert!(holding.is_empty());
    }

    #[test]
    fn there_is_a_limit() {
        let mut holding = Holding::default();
        for id in 0..ANTREA_RECORDS_HELD_MAX as u64 + 5 {
            holding.add(&event(EventKind::New, id, 0), Now { ms: 0, unix_ms: 0 });
        }
        assert_eq!(holding.due(0).len(), 5);
    }
}
