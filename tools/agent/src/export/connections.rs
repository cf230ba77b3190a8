//! What the exporter remembers of connections: counts that were exported, and the newest record.
//!
//! A connection that has packets is due each active time. One without packets is due once more
//! after the idle time. One that ends is due at once, and so is what was denied.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};
use vswitch_flow_export::{Counts, EndReason};
use vswitch_proto::antrea::v1::{FlowRecord, FlowRecordKind};
use vswitch_proto::vswitch::v1::Count;

/// Connections that are remembered.
pub(super) const KNOWN_MAX: usize = 65_536;

/// A switch that was connected to again has told all connections that live in this time.
const EXISTING: Duration = Duration::from_secs(60);

/// When connections are due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    active: Duration,
    idle: Duration,
}

impl Timing {
    pub(super) fn new(active_seconds: u32, idle_seconds: u32) -> Self {
        Self { active: Duration::from_secs(active_seconds.into()), idle: Duration::from_secs(idle_seconds.into()) }
    }
}

/// Packets and bytes of both directions, as they were exported last.
type Exported = [(u64, u64); 2];

#[derive(Debug)]
struct Known {
    record: Box<FlowRecord>,
    exported: Exported,
    /// When a flow was exported last, or else when the connection was seen first.
    exported_at: Instant,
    seen_at: Instant,
    /// The record is newer than what was exported.
    is_new: bool,
    /// A flow said that it is idle.
    is_idle: bool,
}

/// A record that is to be exported.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) record: Box<FlowRecord>,
    pub(super) reason: EndReason,
    /// Counts of both directions.
    pub(super) counts: [Counts; 2],
}

/// Connections that are remembered.
#[derive(Debug)]
pub(super) struct Connections {
    timing: Timing,
    known: HashMap<u64, Known>,
    /// When the stream of records began, until those that are gone are forgotten.
    begun: Option<Instant>,
    untracked: u64,
}

impl Connections {
    pub(super) fn new(timing: Timing) -> Self {
        Self { timing, known: HashMap::new(), begun: None, untracked: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Records of connections beyond [`KNOWN_MAX`].
    pub(super) fn untracked(&self) -> u64 {
        self.untracked
    }

    /// A stream of records begins, with those of all connections that live.
    pub(super) fn begin(&mut self, now: Instant) {
        self.begun = Some(now);
    }

    /// Takes over a record. Returns what is to be exported at once.
    pub(super) fn take(&mut self, record: FlowRecord, now: Instant) -> Option<Due> {
        let id = record.connection_id;
        match record.kind() {
            FlowRecordKind::Denied => Some(due(Box::new(record), EndReason::End, &Exported::default())),
            FlowRecordKind::End => {
                // One that is not remembered was never exported.
                let known = self.known.remove(&id).filter(|known| is_same(&known.record, &record));
                let exported = known.map(|known| known.exported).unwrap_or_default();
                Some(due(Box::new(record), EndReason::End, &exported))
            }
            _ => {
                self.remember(record, now);
                None
            }
        }
    }

    fn remember(&mut self, record: FlowRecord, now: Instant) {
        let is_full = self.known.len() >= KNOWN_MAX;
        match self.known.entry(record.connection_id) {
            Entry::Occupied(mut entry) if is_same(&entry.get().record, &record) => {
                let known = entry.get_mut();
                *known.record = record;
                (known.seen_at, known.is_new, known.is_idle) = (now, true, false);
            }
            Entry::Vacant(_) if is_full => self.untracked += 1,
            entry => {
                let known = Known {
                    record: Box::new(record),
                    exported: Exported::default(),
                    exported_at: now,
                    seen_at: now,
                    is_new: true,
                    is_idle: false,
                };
                entry.insert_entry(known);
            }
        }
    }

    /// Connections that are due, `max` at most. Others that are due are due again at the next call.
    pub(super) fn due(&mut self, now: Instant, max: usize) -> Vec<Due> {
        if let Some(begun) = self.begun.filter(|begun| now.saturating_duration_since(*begun) > EXISTING) {
            self.known.retain(|_, known| known.seen_at >= begun);
            self.begun = None;
        }
        let Timing { active, idle } = self.timing;
        let mut all = Vec::new();
        for known in self.known.values_mut() {
            if all.len() >= max {
                break;
            }
            let since = |instant: Instant| now.saturating_duration_since(instant);
            let is_active = known.is_new && since(known.exported_at) >= active;
            let is_idle = !known.is_idle && since(known.seen_at) >= idle;
            if !is_active && !is_idle {
                continue;
            }
            let reason = if is_idle { EndReason::Idle } else { EndReason::Active };
            all.push(due(known.record.clone(), reason, &known.exported));
            known.exported = totals(&known.record);
            (known.exported_at, known.is_new, known.is_idle) = (now, false, is_idle);
        }
        all
    }
}

/// Whether two records with one id are of one connection: a switch may use an id again.
fn is_same(one: &FlowRecord, other: &FlowRecord) -> bool {
    one.original == other.original && one.start_unix_ms == other.start_unix_ms
}

fn totals(record: &FlowRecord) -> Exported {
    let total = |count: Option<&Count>| count.map(|count| (count.packets, count.bytes)).unwrap_or_default();
    [total(record.original_count.as_ref()), total(record.reply_count.as_ref())]
}

fn due(record: Box<FlowRecord>, reason: EndReason, exported: &Exported) -> Due {
    let now = totals(&record);
    let counts = |i: usize| {
        let ((packets, bytes), (old_packets, old_bytes)) = (now[i], exported[i]);
        let (new_packets, new_bytes) = (packets.saturating_sub(old_packets), bytes.saturating_sub(old_bytes));
        Counts { packets, bytes, new_packets, new_bytes }
    };
    let counts = [counts(0), counts(1)];
    Due { record, reason, counts }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: FlowRecordKind, id: u64, packets: u64) -> FlowRecord {
        let count = |packets| Some(Count { packets, bytes: packets * 100 });
        FlowRecord {
            kind: kind.into(),
            connection_id: id,
            original_count: count(packets),
            reply_count: count(packets / 2),
            ..FlowRecord::default()
        }
    }

    fn told(due: &Due) -> (EndReason, u64, u64, u64) {
        let [forward, reverse] = due.counts;
        (due.reason, forward.packets, forward.new_packets, reverse.new_bytes)
    }

    #[test]
    fn a_connection_is_due_while_it_is_active_then_idle_then_at_its_end() {
        use FlowRecordKind::{End, New, Update};
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut connections = Connections::new(Timing::new(5, 15));
        assert!(connections.take(record(New, 1, 1), at(0)).is_none());
        assert!(connections.due(at(4), 9).is_empty());
        connections.take(record(Update, 1, 10), at(4));
        let all: Vec<_> = connections.due(at(5), 9).iter().map(told).collect();
        assert_eq!(all, [(EndReason::Active, 10, 10, 500)]);
        assert!(connections.due(at(11), 9).is_empty(), "nothing is new");
        connections.take(record(Update, 1, 12), at(12));
        let all: Vec<_> = connections.due(at(12), 9).iter().map(told).collect();
        assert_eq!(all, [(EndReason::Active, 12, 2, 100)]);
        let all: Vec<_> = connections.due(at(27), 9).iter().map(told).collect();
        assert_eq!(all, [(EndReason::Idle, 12, 0, 0)]);
        assert!(connections.due(at(90), 9).is_empty(), "it is idle once");
        let end = connections.take(record(End, 1, 15), at(91)).expect("due");
        assert_eq!(told(&end), (EndReason::End, 15, 3, 100));
        assert_eq!(connections.len(), 0);
    }

    #[test]
    fn a_short_connection_and_what_is_denied_have_one_flow() {
        use FlowRecordKind::{Denied, End, New};
        let now = Instant::now();
        let mut connections = Connections::new(Timing::new(5, 15));
        connections.take(record(New, 1, 1), now);
        let end = connections.take(record(End, 1, 8), now).expect("due");
        assert_eq!(told(&end), (EndReason::End, 8, 8, 400));
        let denied = connections.take(record(Denied, 0, 3), now).expect("due");
        assert_eq!(told(&denied), (EndReason::End, 3, 3, 100));
        assert_eq!(connections.len(), 0);
    }

    #[test]
    fn an_id_that_is_used_again_is_another_connection() {
        use FlowRecordKind::{End, New};
        let now = Instant::now();
        let mut connections = Connections::new(Timing::new(5, 15));
        connections.take(record(New, 1, 50), now);
        let later = now + Duration::from_secs(5);
        assert_eq!(connections.due(later, 9).len(), 1);
        let again = FlowRecord { start_unix_ms: 9, ..record(End, 1, 3) };
        assert_eq!(told(&connections.take(again, later).expect("due")), (EndReason::End, 3, 3, 100));
    }

    #[test]
    fn what_is_beyond_the_limits_is_counted_or_waits() {
        let now = Instant::now();
        let mut connections = Connections::new(Timing::new(5, 15));
        for id in 0..KNOWN_MAX as u64 + 2 {
            connections.take(record(FlowRecordKind::New, id, 1), now);
        }
        assert_eq!((connections.len(), connections.untracked()), (KNOWN_MAX, 2));
        let later = now + Duration::from_secs(6);
        assert_eq!(connections.due(later, KNOWN_MAX - 10).len(), KNOWN_MAX - 10);
        assert_eq!(connections.due(later, KNOWN_MAX).len(), 10);
    }

    #[test]
    fn connections_that_a_new_stream_does_not_tell_are_forgotten() {
        let begin = Instant::now();
        let mut connections = Connections::new(Timing::new(5, 15));
        connections.take(record(FlowRecordKind::New, 1, 1), begin);
        connections.take(record(FlowRecordKind::New, 2, 1), begin);
        let again = begin + Duration::from_secs(1);
        connections.begin(again);
        connections.take(record(FlowRecordKind::Update, 2, 1), again);
        connections.due(again + EXISTING, 9);
        assert_eq!(connections.len(), 2);
        connections.due(again + EXISTING + Duration::from_secs(1), 9);
        assert_eq!(connections.len(), 1);
    }
}
