//! The task that fills the ring.
//!
//! **Design**: drops, logs and refusals are read while the ring keeps something or a client
//! follows. Connections are read while a client follows that means them, or the configuration says
//! so: each costs control work. Records need a Node. The task tries again twice a second until
//! there is one; a subscription outlives a Reset. What comes is named on a blocking thread, up to
//! [`DROPS`] drops at a time.

use super::{Observer, Wanted};
use crate::services::drops;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::MissedTickBehavior;
use vswitch_antrea::Table;
use vswitch_antrea_node::{Antrea, Delivery, Reader};
use vswitch_control::drops::{DropEvent, DropStream};
use vswitch_dataplane::limits::DROP_RATE_DEFAULT;
use vswitch_dataplane::observe::DropReason;
use vswitch_dataplane::time::unix_ms;
use vswitch_observe::Maker;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::watch_events_response::Event;
use vswitch_proto::antrea::v1::{Direction, EventKind, FlowRecord};

/// Between two tries to read what could not be read.
const RETRY: Duration = Duration::from_millis(500);
/// Drops that are named at a time.
const DROPS: usize = 64;

/// What is read.
#[derive(Default)]
struct Sources {
    drops: Option<DropStream>,
    /// Suppressed drops and lost samples of `drops` that are counted.
    counted: (u64, u64),
    logs: Option<Reader<Event>>,
    refusals: Option<Reader<Event>>,
    /// Of `logs` and `refusals`: what of [`Delivery::limited`] is counted.
    limited: [u64; 2],
    records: Option<Reader<FlowRecord>>,
}

/// What came.
enum Came {
    Drops(Vec<Arc<DropEvent>>),
    Events(usize, Option<Delivery<Event>>),
    Records(Option<Delivery<FlowRecord>>),
    Lost(u64),
    /// Time to look at the sources again.
    Look,
}

/// The next of a reader; never, without one.
async fn next<T: vswitch_antrea_node::Tell>(reader: Option<&mut Reader<T>>) -> Option<Delivery<T>> {
    match reader {
        Some(reader) => reader.next().await,
        None => std::future::pending().await,
    }
}

/// The next drops; never, without a stream.
async fn next_drops(stream: Option<&mut DropStream>) -> Came {
    let Some(stream) = stream else { return std::future::pending().await };
    let mut events = match stream.events.recv().await {
        Ok(event) => vec![event],
        Err(RecvError::Lagged(lost)) => return Came::Lost(lost),
        // The switch stops, and this with it.
        Err(RecvError::Closed) => return std::future::pending().await,
    };
    while events.len() < DROPS {
        match stream.events.try_recv() {
            Ok(event) => events.push(event),
            // What is lost is told by the next call.
            Err(TryRecvError::Empty | TryRecvError::Lagged(_) | TryRecvError::Closed) => break,
        }
    }
    Came::Drops(events)
}

impl Sources {
    /// Opens what is wanted and not open, closes what is not wanted.
    async fn adjust(&mut self, observer: &Observer, wanted: Wanted) {
        let config = &observer.config;
        if config.ring == 0 && wanted.followers == 0 {
            (self.drops, self.logs, self.refusals) = (None, None, None);
        } else {
            if self.drops.is_none() {
                let stream = observer.control.try_read(|switch| switch.watch_drops(DROP_RATE_DEFAULT)).await;
                (self.drops, self.counted) = (stream.ok(), (0, 0));
            }
            if self.logs.is_none() {
                self.limited = [0; 2];
                let kinds = [EventKind::PolicyLog, EventKind::ServiceRefused];
                let readers = ask(observer, move |antrea| antrea.watch_events(&kinds).ok()).await;
                for (kind, reader) in readers.into_iter().flat_map(|watch| watch.readers) {
                    let place = if kind == EventKind::PolicyLog { &mut self.logs } else { &mut self.refusals };
                    *place = Some(reader);
                }
            }
        }
        let kept = config.ring_connections && config.ring > 0;
        if !kept && wanted.connections == 0 {
            self.records = None;
        } else if self.records.is_none() {
            self.records = ask(observer, |antrea| antrea.watch_records().ok()).await;
        }
    }

    async fn next(&mut self) -> Came {
        tokio::select! {
            drops = next_drops(self.drops.as_mut()) => drops,
            told = next(self.logs.as_mut()) => Came::Events(0, told),
            told = next(self.refusals.as_mut()) => Came::Events(1, told),
            told = next(self.records.as_mut()) => Came::Records(told),
        }
    }

    /// Counts drops that are not told.
    fn count(&mut self, observer: &Observer) {
        let Some(stream) = &self.drops else { return };
        let (suppressed, lost) = DropReason::ALL.iter().fold((0, 0), |sum, reason| {
            let (suppressed, lost) = stream.not_sampled(*reason);
            (sum.0 + suppressed, sum.1 + lost)
        });
        observer.losses.suppressed.fetch_add(suppressed.saturating_sub(self.counted.0), Relaxed);
        observer.losses.unread.fetch_add(lost.saturating_sub(self.counted.1), Relaxed);
        self.counted = (suppressed, lost);
    }

    /// Takes in what came.
    async fn take(&mut self, observer: &Arc<Observer>, came: Came) {
        let mut unread = 0;
        match came {
            Came::Look => self.count(observer),
            Came::Lost(lost) => unread = lost,
            Came::Drops(events) => {
                make(observer, move |make, antrea| {
                    events.iter().map(|event| make.drop(&drops::sample(antrea, event), looks(event))).collect()
                })
                .await;
            }
            // The subscription has ended: the next look opens another.
            Came::Events(_, None) => (self.logs, self.refusals) = (None, None),
            Came::Records(None) => self.records = None,
            Came::Events(place, Some(Delivery { items, behind, limited })) => {
                unread = behind + limited.saturating_sub(self.limited[place]);
                self.limited[place] = limited;
                let now = unix_ms();
                make(observer, move |make, _| items.iter().filter_map(|event| of_event(make, event, now)).collect())
                    .await;
            }
            Came::Records(Some(Delivery { items, behind, .. })) => {
                unread = behind;
                make(observer, move |make, _| items.iter().filter_map(|record| make.record(record)).collect()).await;
            }
        }
        observer.losses.unread.fetch_add(unread, Relaxed);
    }
}

/// Which way policies of the table look that dropped a packet.
fn looks(event: &DropEvent) -> Direction {
    let table = event.decider.as_ref().and_then(|decider| Table::by_number(decider.table));
    match table.map(Table::stage) {
        Some("egressSecurity") => Direction::Egress,
        Some("ingressSecurity") => Direction::Ingress,
        _ => Direction::Unspecified,
    }
}

fn of_event(make: Maker<'_>, event: &Event, now: u64) -> Option<v1::Observation> {
    match event {
        Event::PolicyLog(log) => Some(make.log(log)),
        Event::ServiceRefused(refused) => Some(make.refused(refused, now)),
        _ => None,
    }
}

/// Asks on a blocking thread.
async fn ask<R: Send + 'static>(
    observer: &Observer,
    ask: impl FnOnce(&Antrea) -> Option<R> + Send + 'static,
) -> Option<R> {
    let antrea = Arc::clone(&observer.antrea);
    tokio::task::spawn_blocking(move || ask(&antrea)).await.ok().flatten()
}

/// Makes observations on a blocking thread, and puts them into the ring.
async fn make(
    observer: &Arc<Observer>,
    make: impl FnOnce(Maker<'_>, &Antrea) -> Vec<v1::Observation> + Send + 'static,
) {
    let observer = Arc::clone(observer);
    let making = move || {
        let local = |address: &std::net::IpAddr| observer.antrea.pod_at(address);
        let made = make(Maker { names: &observer.names, local: &local }, &observer.antrea);
        observer.ring.push(made);
    };
    // A panic is told by its hook.
    let _ = tokio::task::spawn_blocking(making).await;
}

/// Fills the ring until the server stops.
pub(super) async fn run(observer: Arc<Observer>) {
    let mut stopping = observer.control.stopping.clone();
    let mut wanted = observer.wanted.subscribe();
    let mut look = tokio::time::interval(RETRY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut sources, mut looks) = (Sources::default(), true);
    loop {
        // Not at each event: what cannot be read now is tried again at the next look.
        if looks {
            let now = *wanted.borrow_and_update();
            sources.adjust(&observer, now).await;
            observer.adjusted.send_replace(now.changes);
        }
        let came = tokio::select! {
            came = sources.next() => came,
            // Its sender lives in the observer.
            _ = wanted.changed() => Came::Look,
            _ = look.tick() => Came::Look,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        looks = matches!(came, Came::Look);
        sources.take(&observer, came).await;
    }
}
