//! Packets that policies and Services tell of: logs, refusals, denied connections.
//!
//! A task reads them while somebody wants to know, and at no other time: packet-ins that nobody
//! wants are not made. Subscribers to the same controller by `PacketService` get theirs as before:
//! each has a queue of its own. What is the same within a second is told once.
//!
//! **Threads**: the task holds no lock while it waits. Names are looked up on a blocking thread,
//! since the node state's lock may be held for as long as a sync takes; meanwhile packets queue,
//! and what does not fit is counted.

use super::limit::Limit;
use super::{Antrea, AntreaError, State};
use parking_lot::Mutex;
use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use vswitch_antrea::tell::{self, Decision, Merged, Naming, Packet, Tuple};
use vswitch_control::switch::pipeline::PacketStream;
use vswitch_dataplane::limits::ANTREA_MERGED_MAX;
use vswitch_dataplane::pipeline::{Interest, PacketIn};
use vswitch_dataplane::time::{Millis, unix_ms};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::EventKind;
use vswitch_proto::antrea::v1::watch_events_response::Event;

/// Packets that are looked at under one hold of the node state's lock.
const BATCH: usize = 256;
/// Within so many milliseconds the same is one.
const WINDOW_MS: u64 = 1000;
/// Between two looks at what has waited long enough.
const TICK: Duration = Duration::from_millis(100);
/// Ticks between two looks at what meters dropped, and at whether somebody still reads.
const TICKS_PER_LOOK: u32 = 10;

/// A task that reads, until this is dropped or the bridge is gone.
#[derive(Debug)]
pub(super) struct Reading {
    bridge: String,
    task: JoinHandle<()>,
    /// Dropped: it tells what it has, and ends.
    _stop: oneshot::Sender<()>,
}

/// What has come, and waits for more of the same.
struct Telling {
    logs: Merged<(Decision, Packet), v1::PolicyLog>,
    refused: Merged<String, v1::ServiceRefused>,
    denied: Merged<(Decision, Tuple), v1::FlowRecord>,
}

impl Default for Telling {
    fn default() -> Self {
        Self {
            logs: Merged::new(WINDOW_MS, ANTREA_MERGED_MAX),
            refused: Merged::new(WINDOW_MS, ANTREA_MERGED_MAX),
            denied: Merged::new(WINDOW_MS, ANTREA_MERGED_MAX),
        }
    }
}

/// What is to be told now.
#[derive(Default)]
struct Ready {
    logs: Vec<v1::PolicyLog>,
    refused: Vec<v1::ServiceRefused>,
    denied: Vec<v1::FlowRecord>,
}

impl Telling {
    /// Something came of a policy.
    fn policy(&mut self, naming: &Naming<'_>, packet_in: &PacketIn, wants: Wants, now: u64, ready: &mut Ready) {
        let Some(packet) = Packet::read(&packet_in.packet) else { return };
        let decision = Decision::of(&packet_in.metadata);
        if wants.logs && decision.is_logged() {
            let first = || naming.log(&decision, &packet, unix_ms());
            let again = |log: &mut v1::PolicyLog| log.packets = log.packets.saturating_add(1);
            ready.logs.extend(self.logs.add(now, (decision, packet), first, again));
        }
        if wants.records && decision.is_recorded() {
            let len = packet_in.packet.len() as u64;
            let first = || v1::FlowRecord {
                start_unix_ms: unix_ms(),
                end_unix_ms: unix_ms(),
                ..naming.denied(&decision, &packet, &packet_in.metadata, len)
            };
            let again = |record: &mut v1::FlowRecord| {
                record.end_unix_ms = unix_ms();
                if let Some(count) = &mut record.original_count {
                    count.packets += 1;
                    count.bytes += len;
                }
            };
            ready.denied.extend(self.denied.add(now, (decision, packet.tuple), first, again));
        }
    }

    /// Something came to a Service without endpoints.
    fn service(&mut self, naming: &Naming<'_>, packet_in: &PacketIn, now: u64, ready: &mut Ready) {
        let Some(packet) = Packet::read(&packet_in.packet) else { return };
        let tuple = packet.original(&packet_in.metadata);
        // It may have gone meanwhile: then its address is all that is known.
        let service = naming.service(&tuple).unwrap_or_default();
        let key = if service.is_empty() {
            format!("{} {}", tuple.destination, tuple.destination_port)
        } else {
            service.clone()
        };
        let first = || v1::ServiceRefused { service, tuple: Some(tuple.to_proto()), packets: 1 };
        let again = |refused: &mut v1::ServiceRefused| refused.packets = refused.packets.saturating_add(1);
        ready.refused.extend(self.refused.add(now, key, first, again));
    }

    /// What has waited long enough by then.
    fn due(&mut self, now: u64, ready: &mut Ready) {
        ready.logs.extend(self.logs.due(now));
        ready.refused.extend(self.refused.due(now));
        ready.denied.extend(self.denied.due(now));
    }
}

/// What somebody wants to know.
#[derive(Clone, Copy)]
struct Wants {
    logs: bool,
    refused: bool,
    records: bool,
}

impl Wants {
    const fn any(self) -> bool {
        self.logs || self.refused || self.records
    }
}

impl Antrea {
    fn wants(&self) -> Wants {
        Wants {
            logs: self.events.are_read(EventKind::PolicyLog),
            refused: self.events.are_read(EventKind::ServiceRefused),
            records: self.records.are_read(),
        }
    }

    /// Packets of the Node's bridge are read if somebody wants to know, or to answer; those of
    /// another one no more. To be called when the Node may have changed.
    ///
    /// The Node is what it is: if others have taken all places of subscribers, those who watch are
    /// told nothing, and that is logged.
    pub(super) fn read_packets(&self, state: &State) {
        for done in [self.read_to_answer(state), self.read_to_tell(state)] {
            if let Err(error) = done {
                tracing::warn!(%error, "packets of policies cannot be read");
            }
        }
    }

    /// The part of [`Self::read_packets`] that is only told. To be called, too, when somebody
    /// begins to watch.
    ///
    /// # Errors
    /// When the bridge has too many subscribers.
    pub(super) fn read_to_tell(&self, state: &State) -> Result<(), AntreaError> {
        let bridge = state.node_state.node().map(|(_, node)| node.bridge.as_str());
        let mut reading = self.packets.lock();
        let is_read = |reading: &Reading| Some(reading.bridge.as_str()) == bridge && !reading.task.is_finished();
        if reading.as_ref().is_some_and(is_read) {
            return Ok(());
        }
        *reading = None;
        let Some(bridge) = bridge.filter(|_| self.wants().any()) else { return Ok(()) };
        let subscribe = |controller| self.switch.subscribe_packets(bridge, Interest::of(controller));
        let streams = [subscribe(tell::CONTROLLER_POLICY)?, subscribe(tell::CONTROLLER_SERVICE)?];
        // Without a runtime there is no server, and nobody reads.
        let Ok(runtime) = Handle::try_current() else { return Ok(()) };
        let (stop, stopped) = oneshot::channel();
        let limits = [
            Limit::new(EventKind::PolicyLog, Some(tell::METER_POLICY)),
            Limit::new(EventKind::ServiceRefused, Some(tell::METER_SERVICE)),
        ];
        let task = Task { antrea: Weak::clone(&self.me), bridge: bridge.to_owned(), limits };
        let task = runtime.spawn(task.run(streams, stopped));
        *reading = Some(Reading { bridge: bridge.to_owned(), task, _stop: stop });
        Ok(())
    }

    /// Nobody wants to know any more: the task is to end. False: somebody does.
    fn stop_reading(&self) -> bool {
        let mut reading = self.packets.lock();
        // Who subscribes does so before he looks for a task.
        let over = !self.wants().any();
        if over {
            *reading = None;
        }
        over
    }

    fn tell(&self, ready: Ready) {
        self.events.tell(EventKind::PolicyLog, ready.logs.into_iter().map(Event::PolicyLog).collect());
        self.events.tell(EventKind::ServiceRefused, ready.refused.into_iter().map(Event::ServiceRefused).collect());
        self.records.tell(ready.denied);
    }
}

/// Reads the packet-ins of policies and Services while a client watches them, and makes events and
/// records of them.
struct Task {
    antrea: Weak<Antrea>,
    bridge: String,
    /// Of policies, of Services.
    limits: [Limit; 2],
}

impl Task {
    async fn run(mut self, [mut policies, mut services]: [PacketStream; 2], mut stopped: oneshot::Receiver<()>) {
        let mut telling = Telling::default();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut ticks = 0_u32;
        loop {
            let (mut of_policies, mut of_services) = (Vec::new(), Vec::new());
            let (mut over, mut looks) = (false, false);
            tokio::select! {
                read = policies.receiver.recv_many(&mut of_policies, BATCH) => over = read == 0,
                read = services.receiver.recv_many(&mut of_services, BATCH) => over = read == 0,
                _ = &mut stopped => over = true,
                _ = tick.tick() => {
                    ticks = ticks.wrapping_add(1);
                    looks = ticks.is_multiple_of(TICKS_PER_LOOK) || ticks == 1;
                }
            }
            let Some(antrea) = self.antrea.upgrade() else { return };
            let lost = [&policies, &services].map(|stream| stream.lost.load(Relaxed));
            let mut work = Work { telling, task: self, of_policies, of_services, over, lost: looks.then_some(lost) };
            let worked = tokio::task::spawn_blocking(move || {
                let ends = work.work(&antrea);
                (work, ends)
            });
            // A panic is told by its hook.
            let Ok((done, ends)) = worked.await else { return };
            (telling, self) = (done.telling, done.task);
            if ends {
                return;
            }
        }
    }
}

/// What a blocking thread does at a time.
struct Work {
    telling: Telling,
    task: Task,
    of_policies: Vec<PacketIn>,
    of_services: Vec<PacketIn>,
    /// The stream has ended: what waits is told now.
    over: bool,
    /// Limits are to be looked at, with what queues have lost.
    lost: Option<[u64; 2]>,
}

impl Work {
    /// Returns whether that was all.
    fn work(&mut self, antrea: &Antrea) -> bool {
        let (wants, now) = (antrea.wants(), Millis::now().0);
        let mut ready = Ready::default();
        if !self.of_policies.is_empty() || !self.of_services.is_empty() {
            let state = antrea.state.lock();
            if let Some(facts) = state.node_state.facts() {
                let naming = Naming::new(facts);
                for packet_in in &self.of_policies {
                    self.telling.policy(&naming, packet_in, wants, now, &mut ready);
                }
                for packet_in in self.of_services.iter().filter(|_| wants.refused) {
                    self.telling.service(&naming, packet_in, now, &mut ready);
                }
            }
        }
        self.telling.due(if self.over { u64::MAX } else { now }, &mut ready);
        antrea.tell(ready);
        if let Some(lost) = self.lost {
            for (limit, lost) in self.task.limits.iter_mut().zip(lost) {
                limit.look(antrea, &self.task.bridge, lost);
            }
        }
        self.over || self.lost.is_some() && !wants.any() && antrea.stop_reading()
    }
}

/// The task, if there is one.
pub(super) type Packets = Mutex<Option<Reading>>;
