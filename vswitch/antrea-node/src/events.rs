//! Events for agents: each kind has a queue of its own, so that a storm of one pushes out nothing
//! of another.

use super::topic::{Reader, Topic};
use super::{Antrea, AntreaError};
use vswitch_control::SwitchError;
use vswitch_dataplane::limits::ANTREA_WATCHERS_MAX;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::EventKind;
use vswitch_proto::antrea::v1::watch_events_response::Event;

/// Kinds that there are.
pub const KINDS: [EventKind; 7] = [
    EventKind::PolicyLog,
    EventKind::ServiceRefused,
    EventKind::PacketToAnswer,
    EventKind::FqdnLearned,
    EventKind::MembershipChanged,
    EventKind::ObjectChanged,
    EventKind::RoundCommitted,
];

/// Who reads what.
#[derive(Debug)]
pub(super) struct Events {
    /// Milliseconds since 1970.
    start_unix_ms: u64,
    topics: [Topic<Event>; KINDS.len()],
}

impl Default for Events {
    fn default() -> Self {
        Self { start_unix_ms: vswitch_dataplane::time::unix_ms(), topics: Default::default() }
    }
}

impl Events {
    fn topic(&self, kind: EventKind) -> Option<&Topic<Event>> {
        let at = KINDS.iter().position(|other| *other == kind)?;
        self.topics.get(at)
    }

    /// Somebody reads events of a kind.
    pub(super) fn are_read(&self, kind: EventKind) -> bool {
        self.topic(kind).is_some_and(|topic| topic.readers() > 0)
    }

    /// Tells those who read.
    pub(super) fn tell(&self, kind: EventKind, events: Vec<Event>) {
        if let Some(topic) = self.topic(kind) {
            topic.tell(events);
        }
    }

    /// So many were lost on their way to those who read.
    pub(super) fn lose(&self, kind: EventKind, lost: u64) {
        if let Some(topic) = self.topic(kind).filter(|_| lost > 0) {
            topic.lose(lost);
        }
    }

    /// So many more packets were not even told.
    pub(super) fn limit(&self, kind: EventKind, more: u64) {
        if let Some(topic) = self.topic(kind) {
            topic.limit(more);
        }
    }

    fn read(&self, kinds: &[EventKind]) -> Result<Vec<(EventKind, Reader<Event>)>, SwitchError> {
        let topics = kinds.iter().filter_map(|kind| self.topic(*kind).map(|topic| (*kind, topic)));
        let mut readers = Vec::new();
        for (kind, topic) in topics {
            if topic.readers() >= ANTREA_WATCHERS_MAX {
                return Err(SwitchError::Exhausted { what: "subscribers to events", limit: ANTREA_WATCHERS_MAX });
            }
            readers.push((kind, topic.read()));
        }
        Ok(readers)
    }
}

/// A subscription.
#[derive(Debug)]
pub struct Watch {
    /// The first message.
    pub started: v1::EventsStarted,
    /// By kind.
    pub readers: Vec<(EventKind, Reader<Event>)>,
}

impl Antrea {
    /// Events of these kinds from now on.
    ///
    /// # Errors
    /// When there are too many subscribers, of events or of the bridge's packet-ins.
    pub fn watch_events(&self, kinds: &[EventKind]) -> Result<Watch, AntreaError> {
        let state = self.state.lock();
        let readers = self.events.read(kinds)?;
        // What nobody asks for need not be to be had.
        if kinds.contains(&EventKind::PacketToAnswer) {
            self.read_to_answer(&state)?;
        }
        if kinds.contains(&EventKind::PolicyLog) || kinds.contains(&EventKind::ServiceRefused) {
            self.read_to_tell(&state)?;
        }
        let started = v1::EventsStarted {
            switch_start_unix_ms: self.events.start_unix_ms,
            round: state.round,
            gate_open: state.gate_open,
        };
        Ok(Watch { started, readers })
    }

    /// Tells that a sync was applied, or the gate opened.
    pub(super) fn tell_round(&self, round: u64, gate_open: bool) {
        let event = Event::RoundCommitted(v1::RoundCommitted { round, gate_open });
        self.events.tell(EventKind::RoundCommitted, vec![event]);
    }
}
