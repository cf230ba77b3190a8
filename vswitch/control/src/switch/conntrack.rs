//! Connections: what the control side does for them. All of it goes past the state and its lock:
//! whoever dumps, flushes or subscribes holds up nobody.
//!
//! A thread of its own lets go of what has expired and tells subscribers what happened: a few
//! entries at a time, every few milliseconds, so that neither needs a long breath.

use super::Switch;
use super::companion::Companion;
use crate::health::Pulse;
use crate::info::SwitchError;
use parking_lot::Mutex;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use vswitch_conntrack::{Event, Tracker};
use vswitch_dataplane::conntrack::Conntrack;
use vswitch_dataplane::limits::{
    CONNECTION_EVENTS_BATCH, CONNECTION_EVENTS_KEPT, CONNECTION_EVENTS_QUEUED, CONNECTION_WATCHERS_MAX,
};
use vswitch_dataplane::time::Millis;

/// Between two looks at a table that has connections, or subscribers.
const PERIOD: Duration = Duration::from_millis(5);

/// Between two looks at one that has neither: no timeout is shorter than a second.
const IDLE_PERIOD: Duration = Duration::from_millis(100);

/// Calls of [`Tracker::expire`] after which all of the table was looked at; the thread below may
/// have made some of them.
const WHOLE_TABLE: usize = 160;

/// Events, oldest first.
#[derive(Debug)]
struct Batch {
    /// Number of the first one, counted since the start; those that were lost have numbers too.
    first: u64,
    events: Vec<Event>,
}

#[derive(Debug, Default)]
struct EventCursor {
    /// The tracker keeps events.
    on: bool,
    /// Number of the next event.
    next: u64,
    /// What the tracker has lost and is numbered.
    lost: u64,
}

/// From the tracker's events to those who want to know. The tracker keeps none while there is
/// nobody.
#[derive(Debug)]
pub struct ConnectionEvents {
    sender: broadcast::Sender<Arc<Batch>>,
    told: Mutex<EventCursor>,
}

impl Default for ConnectionEvents {
    fn default() -> Self {
        Self { sender: broadcast::channel(CONNECTION_EVENTS_QUEUED).0, told: Mutex::default() }
    }
}

impl ConnectionEvents {
    /// Events from now on, until the stream is dropped.
    ///
    /// # Errors
    /// When there are too many subscribers.
    pub fn subscribe(&self, tracker: &Tracker) -> Result<ConnectionStream, SwitchError> {
        let mut told = self.told.lock();
        if self.sender.receiver_count() >= CONNECTION_WATCHERS_MAX {
            return Err(SwitchError::Exhausted { what: "subscribers to connections", limit: CONNECTION_WATCHERS_MAX });
        }
        if told.on {
            // What happened before now is for the others.
            self.pass_on(&mut told, tracker);
        } else {
            *told = EventCursor { on: true, next: told.next, lost: tracker.counts().events_lost };
            tracker.keep_events(CONNECTION_EVENTS_KEPT);
        }
        Ok(ConnectionStream { receiver: self.sender.subscribe(), next: told.next, lost: 0 })
    }

    /// Tells subscribers what has happened. Returns whether there are any.
    pub fn distribute(&self, tracker: &Tracker) -> bool {
        let mut told = self.told.lock();
        if told.on && self.sender.receiver_count() == 0 {
            told.on = false;
            tracker.keep_events(0);
        }
        if told.on {
            self.pass_on(&mut told, tracker);
        }
        told.on
    }

    /// As much as the tracker keeps, and no more: it goes on meanwhile.
    fn pass_on(&self, told: &mut EventCursor, tracker: &Tracker) {
        for _ in 0..CONNECTION_EVENTS_KEPT / CONNECTION_EVENTS_BATCH {
            let events = tracker.take_events(CONNECTION_EVENTS_BATCH);
            let lost = tracker.counts().events_lost;
            let newly_lost = lost.saturating_sub(told.lost);
            if events.is_empty() && newly_lost == 0 {
                return;
            }
            let first = told.next + newly_lost;
            (told.next, told.lost) = (first + events.len() as u64, lost);
            let is_last = events.len() < CONNECTION_EVENTS_BATCH;
            // The last one may just have gone
            let _ = self.sender.send(Arc::new(Batch { first, events }));
            if is_last {
                return;
            }
        }
    }
}

/// A subscription to events.
#[derive(Debug)]
pub struct ConnectionStream {
    receiver: broadcast::Receiver<Arc<Batch>>,
    next: u64,
    lost: u64,
}

impl ConnectionStream {
    /// The next events, perhaps none, and how many were lost so far; none when the switch is gone.
    pub async fn next(&mut self) -> Option<(Vec<Event>, u64)> {
        loop {
            match self.receiver.recv().await {
                Ok(batch) => {
                    self.lost += batch.first.saturating_sub(self.next);
                    self.next = batch.first + batch.events.len() as u64;
                    return Some((batch.events.clone(), self.lost));
                }
                // The numbers of the next batch say how many events these batches had.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

impl Switch {
    /// The switch's connections.
    #[must_use]
    pub fn conntrack(&self) -> Arc<Conntrack> {
        Arc::clone(&self.publisher.conntrack)
    }

    /// What happens to connections from now on.
    ///
    /// # Errors
    /// When there are too many subscribers.
    pub fn subscribe_connections(&self) -> Result<ConnectionStream, SwitchError> {
        self.connection_events.subscribe(self.publisher.conntrack.tracker())
    }

    /// Lets all connections go whose time is over, and tells of it.
    pub(super) fn expire_connections(&self) {
        let (tracker, now) = (self.publisher.conntrack.tracker(), Millis::now().0);
        for _ in 0..WHOLE_TABLE {
            if tracker.counts().connections == 0 {
                break;
            }
            tracker.expire(now);
            self.connection_events.distribute(tracker);
        }
    }
}

/// Starts the thread that expires connections and distributes events.
pub(super) fn start(conntrack: Arc<Conntrack>, events: Arc<ConnectionEvents>, pulse: Arc<Pulse>) -> Companion {
    pulse.beat();
    let run = move |stopped: &mpsc::Receiver<()>| maintain(conntrack.tracker(), &events, &pulse, stopped);
    Companion::start("conntrack", "connections do not expire", run)
}

fn maintain(tracker: &Tracker, events: &ConnectionEvents, pulse: &Pulse, stopped: &mpsc::Receiver<()>) {
    loop {
        pulse.beat();
        tracker.expire(Millis::now().0);
        let is_watched = events.distribute(tracker);
        let is_idle = !is_watched && tracker.counts().connections == 0;
        let period = if is_idle { IDLE_PERIOD } else { PERIOD };
        if !matches!(stopped.recv_timeout(period), Err(mpsc::RecvTimeoutError::Timeout)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_conntrack::{Config, EventKind};
    use vswitch_testkit::double::connect;

    fn conntrack() -> Conntrack {
        Conntrack::new(Config { connections_max: 1 << 17 })
    }

    /// Commits connections of zone 1, with these source ports.
    fn open(conntrack: &Conntrack, ports: std::ops::Range<u16>) {
        ports.for_each(|port| connect(conntrack, 1, port, 0));
    }

    async fn next(stream: &mut ConnectionStream) -> (Vec<u16>, u64) {
        let next = tokio::time::timeout(Duration::from_secs(5), stream.next()).await.expect("events within 5 s");
        let (events, lost) = next.expect("a switch");
        assert!(events.iter().all(|event| event.kind == EventKind::New), "{events:?}");
        (events.iter().map(|event| event.connection.original.src.port).collect(), lost)
    }

    #[tokio::test]
    async fn subscribers_are_told_what_happens_from_then_on() {
        let (conntrack, events) = (conntrack(), ConnectionEvents::default());
        let tracker = conntrack.tracker();
        open(&conntrack, 0..5);
        assert!(!events.distribute(tracker), "nobody subscribed");
        let mut first = events.subscribe(tracker).expect("a subscription");
        open(&conntrack, 5..7);
        let mut second = events.subscribe(tracker).expect("a subscription");
        open(&conntrack, 7..8);
        assert!(events.distribute(tracker));
        assert_eq!(next(&mut first).await, (vec![5, 6], 0));
        assert_eq!(next(&mut first).await, (vec![7], 0));
        assert_eq!(next(&mut second).await, (vec![7], 0), "what was before is not its");
        drop((first, second));
        assert!(!events.distribute(tracker), "nobody is left");
        open(&conntrack, 8..9);
        assert_eq!(tracker.take_events(10), [], "the tracker keeps none for nobody");
        let mut third = events.subscribe(tracker).expect("a subscription");
        open(&conntrack, 9..10);
        events.distribute(tracker);
        assert_eq!(next(&mut third).await, (vec![9], 0));
        drop(events);
        assert!(third.next().await.is_none(), "the stream outlived the switch");
    }

    #[tokio::test]
    async fn losses_are_counted_wherever_they_happen() {
        let (conntrack, events) = (conntrack(), ConnectionEvents::default());
        let tracker = conntrack.tracker();
        let mut stream = events.subscribe(tracker).expect("a subscription");
        // The tracker keeps so many, and loses the others.
        let kept = u16::try_from(CONNECTION_EVENTS_KEPT).expect("fewer than ports");
        open(&conntrack, 0..kept + 100);
        events.distribute(tracker);
        let (mut told, mut lost) = (0, 0);
        while told < usize::from(kept) {
            let (ports, now_lost) = next(&mut stream).await;
            (told, lost) = (told + ports.len(), now_lost);
        }
        assert_eq!((told, lost), (usize::from(kept), 100));
        // A subscriber that does not read loses the oldest batches.
        let mut batches = 0;
        for port in kept + 100..kept + 100 + 2 * u16::try_from(CONNECTION_EVENTS_QUEUED).expect("few") {
            open(&conntrack, port..port + 1);
            events.distribute(tracker);
            batches += 1;
        }
        let missed = batches - CONNECTION_EVENTS_QUEUED as u64;
        let (ports, lost) = next(&mut stream).await;
        let missed_ports = u16::try_from(missed).expect("few");
        assert_eq!((ports, lost), (vec![kept + 100 + missed_ports], 100 + missed));
    }

    #[test]
    fn there_are_not_too_many_subscribers() {
        let (conntrack, events) = (conntrack(), ConnectionEvents::default());
        let mut streams: Vec<_> = (0..CONNECTION_WATCHERS_MAX)
            .map(|i| events.subscribe(conntrack.tracker()).unwrap_or_else(|error| panic!("subscriber {i}: {error}")))
            .collect();
        let error = events.subscribe(conntrack.tracker()).expect_err("one too many");
        assert_eq!(error.to_string(), "subscribers to connections: the limit of 64 is reached");
        streams.pop();
        assert!(events.subscribe(conntrack.tracker()).is_ok(), "one has gone");
    }

    #[test]
    fn the_thread_expires_connections_and_stops() {
        let (conntrack, events) = (Arc::new(conntrack()), Arc::<ConnectionEvents>::default());
        let tracker = conntrack.tracker();
        // (A timeout of a second is the shortest that can be asked for; the tracker takes any.)
        let mut policy = vswitch_conntrack::Policy::default();
        policy.set(vswitch_conntrack::Class::UdpFirst, 1);
        tracker.set_policy(1, Some(policy));
        open(&conntrack, 0..1000);
        let companion = start(Arc::clone(&conntrack), events, Arc::new(Pulse::new()));
        let begin = std::time::Instant::now();
        while tracker.counts().connections > 0 {
            assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", tracker.counts());
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(companion);
        assert_eq!(Arc::strong_count(&conntrack), 1, "the thread is gone");
    }
}
