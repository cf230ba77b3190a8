//! Records of connections, with what the cluster knows of them.
//!
//! A task reads the tracker's events while somebody reads records. What happens to a connection
//! within [`HOLD_MS`] is one record: its rules and its translated source are known some
//! microseconds after it began. What is known of a connection is remembered, so that its last
//! record says what its first one did, though Pods and rules have gone meanwhile.
//!
//! **Threads**: as in [`super::packets`].

mod held;
mod walk;

use super::{Antrea, AntreaError, State, topic};
use held::{Held, Holding};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use topic::{Reader, Topic};
use vswitch_antrea::tell::{self, MARK_TRANSLATED, Naming, Parties};
use vswitch_antrea::{Facts, Node};
use vswitch_conntrack::{Connection, Family, Tuple};
use vswitch_control::SwitchError;
use vswitch_control::switch::conntrack::ConnectionStream;
use vswitch_dataplane::limits::{ANTREA_RECORDS_KNOWN_MAX, ANTREA_WATCHERS_MAX};
use vswitch_dataplane::time::{Millis, unix_ms};
use vswitch_messages::connection::{self as present, Now};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::FlowRecordKind;

pub use walk::Only;

/// What happens within so many milliseconds is one record.
const HOLD_MS: u64 = 10;
/// Records that are made under one hold of the node state's lock, and told at once.
const CHUNK: usize = 256;

/// Who reads, and what is known.
#[derive(Debug, Default)]
pub(super) struct Records {
    topic: Topic<v1::FlowRecord>,
    /// The task, if there is one.
    task: Mutex<Option<JoinHandle<()>>>,
    known: Mutex<Known>,
}

/// What is remembered of connections, by the tracker's places: a new connection at a place takes
/// over what was of the old one there.
#[derive(Debug, Default)]
struct Known(HashMap<u32, Remembered>);

/// What is remembered of a connection.
#[derive(Clone, Debug)]
struct Remembered {
    id: u64,
    label: u128,
    parties: Arc<Parties>,
    translated: Option<IpAddr>,
    /// When it began, in milliseconds since 1970: worked out once, since two clocks have a part in
    /// it.
    start_unix_ms: u64,
}

impl Known {
    /// The tracker's place of a connection: the lower half of its id.
    const fn place(id: u64) -> u32 {
        #[allow(clippy::cast_possible_truncation)] // the lower half is meant
        {
            id as u32
        }
    }

    fn get(&self, id: u64) -> Option<&Remembered> {
        self.0.get(&Self::place(id)).filter(|known| known.id == id)
    }

    fn keep(&mut self, known: Remembered) {
        let place = Self::place(known.id);
        if self.0.len() < ANTREA_RECORDS_KNOWN_MAX || self.0.contains_key(&place) {
            self.0.insert(place, known);
        }
    }

    fn forget(&mut self, id: u64) {
        if self.get(id).is_some() {
            self.0.remove(&Self::place(id));
        }
    }
}

impl Records {
    /// Somebody reads records.
    pub(super) fn are_read(&self) -> bool {
        self.topic.readers() > 0
    }

    /// Tells those who read.
    pub(super) fn tell(&self, records: Vec<v1::FlowRecord>) {
        self.topic.tell(records);
    }
}

/// Makes records under one hold of the node state's lock.
struct Maker<'a> {
    antrea: &'a Antrea,
    facts: Facts<'a>,
    now: Now,
}

impl Antrea {
    /// Records from now on.
    ///
    /// # Errors
    /// When there is no Node, or there are too many subscribers.
    pub fn watch_records(&self) -> Result<Reader<v1::FlowRecord>, AntreaError> {
        let state = self.state.lock();
        state.node_state.node().ok_or(AntreaError::NotInitialised)?;
        if self.records.topic.readers() >= ANTREA_WATCHERS_MAX {
            return Err(SwitchError::Exhausted { what: "subscribers to records", limit: ANTREA_WATCHERS_MAX }.into());
        }
        let reader = self.records.topic.read();
        self.read_to_tell(&state)?;
        self.read_connections()?;
        Ok(reader)
    }

    fn read_connections(&self) -> Result<(), AntreaError> {
        let mut task = self.records.task.lock();
        if task.as_ref().is_some_and(|task| !task.is_finished()) {
            return Ok(());
        }
        // Without a runtime there is no server, and nobody reads.
        let Ok(runtime) = Handle::try_current() else { return Ok(()) };
        let stream = self.switch.subscribe_connections()?;
        *task = Some(runtime.spawn(follow(Weak::clone(&self.me), stream)));
        Ok(())
    }

    /// Nobody reads any more: the task is to end. False: somebody does.
    fn stop_following(&self) -> bool {
        let mut task = self.records.task.lock();
        // Who subscribes does so before he looks for a task.
        let over = !self.records.are_read();
        if over {
            *task = None;
            self.records.known.lock().0.clear();
        }
        over
    }

    /// Makes records of what happened, and tells them.
    fn record(&self, happened: &[Held]) {
        for part in happened.chunks(CHUNK) {
            let records = self
                .with_maker(|maker| part.iter().flat_map(|held| maker.happened(held)).collect::<Vec<v1::FlowRecord>>());
            self.records.tell(records.unwrap_or_default());
        }
    }

    /// None: there is no Node.
    fn with_maker<R>(&self, make: impl FnOnce(&Maker<'_>) -> R) -> Option<R> {
        let state: parking_lot::MutexGuard<'_, State> = self.state.lock();
        let facts = state.node_state.facts()?;
        Some(make(&Maker { antrea: self, facts, now: Now { ms: Millis::now().0, unix_ms: unix_ms() } }))
    }
}

impl Maker<'_> {
    const fn node(&self) -> &Node {
        self.facts.node
    }

    /// Records of what happened to a connection.
    fn happened(&self, held: &Held) -> Vec<v1::FlowRecord> {
        let Held { connection, is_new, ended_unix_ms, .. } = held;
        // Only its deny took it back: that is told as denied, if at all.
        if *is_new && ended_unix_ms.is_some() && !connection.replied {
            return Vec::new();
        }
        let Some(record) = self.record(connection, true) else { return Vec::new() };
        let with =
            |kind: FlowRecordKind, end_unix_ms| v1::FlowRecord { kind: kind.into(), end_unix_ms, ..record.clone() };
        let mut records = Vec::new();
        match (is_new, ended_unix_ms) {
            (true, _) => records.push(with(FlowRecordKind::New, 0)),
            (false, None) => records.push(with(FlowRecordKind::Update, 0)),
            (false, Some(_)) => {}
        }
        if let Some(end_unix_ms) = ended_unix_ms {
            records.push(with(FlowRecordKind::End, *end_unix_ms));
            self.antrea.records.known.lock().forget(connection.id);
        }
        records
    }

    /// A connection of a main zone; None: another zone's. With `keep` what is known of it is
    /// remembered.
    fn record(&self, connection: &Connection, keep: bool) -> Option<v1::FlowRecord> {
        if !self.node().zones.is_main(connection.original.zone) {
            return None;
        }
        let remembered = self.antrea.records.known.lock().get(connection.id).cloned();
        let mut known = match remembered {
            Some(known) if known.label == connection.label => known,
            other => {
                let age_ms = connection.age_ms(self.now.ms);
                let start = self.now.unix_ms.saturating_sub(age_ms);
                Remembered {
                    id: connection.id,
                    label: connection.label,
                    parties: Arc::new(self.parties(connection)),
                    translated: other.as_ref().and_then(|known| known.translated),
                    start_unix_ms: other.map_or(start, |known| known.start_unix_ms),
                }
            }
        };
        if known.translated.is_none() {
            known.translated = self.translated(connection);
        }
        let record = self.told(connection, &known);
        if keep {
            self.antrea.records.known.lock().keep(known);
        }
        Some(record)
    }

    /// Zones of connections that are told.
    fn main_zones(&self) -> Vec<u16> {
        self.node().zones.main.into_iter().chain(self.facts.vlan_zones()).collect()
    }

    fn parties(&self, connection: &Connection) -> Parties {
        let (original, reply) = (tuple(&connection.original), tuple(&connection.reply));
        Naming::new(self.facts).parties(&original, reply.source, connection.label)
    }

    /// The source as the other end sees it, by the zone that translated it.
    fn translated(&self, connection: &Connection) -> Option<IpAddr> {
        if connection.mark & MARK_TRANSLATED == 0 {
            return None;
        }
        let conntrack = self.antrea.switch.conntrack();
        let at = usize::from(connection.original.family == Family::V6);
        let zones = [self.node().zones.snat.get(at), self.node().zones.egress.get(at)];
        zones.into_iter().flatten().find_map(|zone| {
            let behind = Tuple { zone: *zone, ..connection.reply.reversed() };
            let other = conntrack.tracker().connection(&behind, self.now.ms)?;
            Some(tuple(&other.reply).destination).filter(|address| *address != tuple(&connection.original).source)
        })
    }

    fn told(&self, connection: &Connection, known: &Remembered) -> v1::FlowRecord {
        let shown = present::connection(connection, self.now);
        let mut record = v1::FlowRecord {
            kind: FlowRecordKind::Update.into(),
            connection_id: shown.id,
            original: shown.original,
            reply: shown.reply,
            translated_source: known.translated.map(|address| address.to_string()).unwrap_or_default(),
            zone: shown.zone,
            mark: shown.mark,
            label: shown.label,
            tcp: shown.tcp,
            replied: shown.replied,
            original_count: shown.original_count,
            reply_count: shown.reply_count,
            start_unix_ms: known.start_unix_ms,
            source: tell::source(connection.mark).into(),
            ..v1::FlowRecord::default()
        };
        known.parties.tell(&mut record);
        record
    }
}

fn tuple(told: &Tuple) -> tell::Tuple {
    let address = |address: u128| match told.family {
        Family::V4 => IpAddr::V4(std::net::Ipv4Addr::from_bits(u32::try_from(address).unwrap_or_default())),
        Family::V6 => IpAddr::V6(std::net::Ipv6Addr::from_bits(address)),
    };
    tell::Tuple {
        source: address(told.src.addr),
        destination: address(told.dst.addr),
        protocol: told.protocol,
        source_port: told.src.port,
        destination_port: told.dst.port,
    }
}

/// Between two looks at whether somebody still reads.
const LOOK: Duration = Duration::from_secs(1);

/// The task.
async fn follow(antrea: Weak<Antrea>, mut stream: ConnectionStream) {
    let (mut holding, mut lost) = (Holding::default(), 0);
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let (mut over, mut looks) = (false, false);
        let wait = Duration::from_millis(holding.wait(Millis::now().0));
        tokio::select! {
            next = stream.next() => match next {
                Some((events, now_lost)) => {
                    if let Some(antrea) = antrea.upgrade() {
                        antrea.records.topic.lose(now_lost.saturating_sub(lost));
                    }
                    lost = now_lost;
                    let now = Now { ms: Millis::now().0, unix_ms: unix_ms() };
                    events.iter().for_each(|event| holding.add(event, now));
                }
                None => over = true,
            },
            () = tokio::time::sleep(wait), if !holding.is_empty() => {}
            _ = look.tick() => looks = true,
        }
        let Some(antrea) = antrea.upgrade() else { return };
        let due = holding.due(if over { u64::MAX } else { Millis::now().0 });
        let worked = tokio::task::spawn_blocking(move || {
            antrea.record(&due);
            looks && antrea.stop_following()
        });
        // A panic is told by its hook.
        if over || worked.await.unwrap_or(true) {
            return;
        }
    }
}
