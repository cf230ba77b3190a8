//! Packets that the agent answers in the switch's place: handed over, and what becomes of them.
//!
//! Each category that the Node's agent has taken over has a task of its own, which reads its
//! packets while somebody watches, and at no other time. All who watch are told of each packet;
//! whoever answers first has answered it. So a client that goes away takes nothing from others.
//! What waits is forgotten with the task, and when the Node is reset.
//!
//! A DNS answer waits in the bridge ([`vswitch_dataplane::pipeline::PacketIns`]) and goes on from
//! there. What is refused is a copy of a packet that has gone: the switch makes the answer from
//! what the packet was when it came in, as action `reject` does.
//!
//! **Limits**: [`ANTREA_TO_ANSWER_MAX`](vswitch_dataplane::limits::ANTREA_TO_ANSWER_MAX) packets of
//! each category wait ([`waiting`]); beyond, the oldest gives way. The categories' meters say how
//! many come.
//!
//! **Threads**: as [`super::packets`]. Answering takes no lock of the node state.

mod waiting;

use super::limit::Limit;
use super::{Antrea, AntreaError, State};
use parking_lot::Mutex;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use vswitch_antrea::tell::{self, Decision, Naming};
use vswitch_antrea::{Node, PacketCategory, Table};
use vswitch_control::SwitchError;
use vswitch_control::switch::pipeline::PacketStream;
use vswitch_dataplane::packet::refusal::{Refusal, refuse};
use vswitch_dataplane::pipeline::{Interest, PacketIn, Received};
use vswitch_flow::text::{NoNames, PacketOut, parse_actions};
use vswitch_flow::{Field, FlowKey};
use vswitch_messages::fields as metadata_fields;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::EventKind;
use vswitch_proto::antrea::v1::watch_events_response::Event;
use waiting::{Packet, Waiting};

/// Packets that are handed over at a time.
const BATCH: usize = 64;
/// Between two looks at whether somebody still watches, and at what waited too long.
const TICK: Duration = Duration::from_millis(500);
/// Time to answer what is no DNS answer.
const WAIT: Duration = Duration::from_secs(2);

/// Where packets of a category come from.
#[derive(Clone, Copy, Debug)]
struct Source {
    category: PacketCategory,
    told: v1::PacketCategory,
    controller: u16,
    /// The first byte that its flows give.
    userdata: u8,
    meter: Option<u32>,
}

const SOURCES: [Source; 4] = [
    Source {
        category: PacketCategory::PolicyReject,
        told: v1::PacketCategory::PolicyReject,
        controller: tell::CONTROLLER_POLICY,
        userdata: 1,
        meter: Some(tell::METER_POLICY),
    },
    Source {
        category: PacketCategory::ServiceReject,
        told: v1::PacketCategory::ServiceReject,
        controller: tell::CONTROLLER_SERVICE,
        userdata: 4,
        meter: None,
    },
    Source {
        category: PacketCategory::Dns,
        told: v1::PacketCategory::Dns,
        controller: super::names::CONTROLLER,
        userdata: super::names::USERDATA,
        meter: Some(tell::METER_DNS),
    },
    Source {
        category: PacketCategory::Igmp,
        told: v1::PacketCategory::Igmp,
        controller: super::multicast::CONTROLLER,
        userdata: 3,
        meter: Some(tell::METER_IGMP),
    },
];

impl Source {
    /// Whether a packet is one of its: not of somebody else's flow, nor one that is only told.
    fn is_of(&self, packet_in: &PacketIn) -> bool {
        packet_in.userdata.first() == Some(&self.userdata)
            && match self.category {
                PacketCategory::PolicyReject => Decision::of(&packet_in.metadata).is_refused(),
                PacketCategory::Dns => !packet_in.token.is_empty(),
                _ => true,
            }
    }
}

/// A task that reads packets of a category, until this is dropped or the bridge is gone.
#[derive(Debug)]
struct Reading {
    category: PacketCategory,
    bridge: String,
    wait: Duration,
    task: JoinHandle<()>,
    /// Dropped: it ends.
    _stop: oneshot::Sender<()>,
}

/// What waits for an answer, and who reads it.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Taken behind the lock of the state.
    reading: Mutex<Vec<Reading>>,
    /// Taken behind `reading`.
    waiting: Mutex<Waiting>,
}

impl Answers {
    /// Forgets packets of categories that nobody reads.
    fn forget(&self, reading: &[Reading]) {
        self.waiting.lock().keep(|category| reading.iter().any(|reading| reading.category == category));
    }
}

/// The flows of a category refuse its packets.
const fn is_refused(category: PacketCategory) -> bool {
    matches!(category, PacketCategory::PolicyReject | PacketCategory::ServiceReject)
}

/// How long packets of a category wait.
fn wait(node: &Node, category: PacketCategory) -> Duration {
    if category == PacketCategory::Dns { Duration::from_millis(node.names.wait_ms.into()) } else { WAIT }
}

/// Whether a verdict is one for a category.
fn is_for(verdict: v1::PacketVerdict, category: PacketCategory) -> Result<(), AntreaError> {
    let refuses = is_refused(category);
    let reason = match verdict {
        v1::PacketVerdict::Drop => return Ok(()),
        v1::PacketVerdict::Resume if category == PacketCategory::Dns => return Ok(()),
        v1::PacketVerdict::Reject if refuses => return Ok(()),
        v1::PacketVerdict::Resume => "RESUME is for DNS answers: nothing else waits on its way; use DROP or REJECT",
        v1::PacketVerdict::Reject => "REJECT is for packets that are refused; use DROP, or RESUME of a DNS answer",
        v1::PacketVerdict::Unspecified => "it is not given; use DROP, RESUME or REJECT",
    };
    Err(AntreaError::Request { field: "verdict", reason: reason.to_owned() })
}

fn gone(token: &[u8]) -> AntreaError {
    let mut name = String::new();
    for byte in token.iter().take(8) {
        let _ = write!(name, "{byte:02x}"); // a String takes everything
    }
    let hint = "it was answered, has waited too long, or gave way to others; answer sooner".to_owned();
    SwitchError::NotFound { what: "packet to answer", name, hint }.into()
}

/// The answer of the switch to a packet that is refused. None: it must not be answered, or is not
/// known as it came in.
fn refusal(category: PacketCategory, packet: &Packet) -> Option<PacketOut> {
    let Received { front, len } = packet.received.as_ref()?;
    let codes = if category == PacketCategory::ServiceReject { (3, 4) } else { (10, 1) };
    let answer = refuse(front, *len, Refusal { reset: true, icmp: codes.0, icmp6: codes.1, mtu: 0 })?;
    let mut metadata = FlowKey::default();
    for field in [Field::InPort, Field::TunId, Field::TunSrc, Field::TunDst, Field::TunIpv6Src, Field::TunIpv6Dst] {
        metadata.set(field, packet.metadata.get(field));
    }
    let actions = parse_actions(tell::back(tell::is_from_tunnel(&packet.metadata)), &NoNames).ok()?;
    Some(PacketOut { metadata, packet: answer, actions: actions.value })
}

impl Antrea {
    /// Packets of categories that the agent has taken over are read if somebody watches; others no
    /// more. To be called when either may have changed.
    ///
    /// # Errors
    /// When the bridge has too many subscribers.
    pub(super) fn read_to_answer(&self, state: &State) -> Result<(), AntreaError> {
        let node = state
            .node_state
            .node()
            .map(|(_, node)| &**node)
            .filter(|_| self.events.are_read(EventKind::PacketToAnswer));
        let mut reading = self.answers.reading.lock();
        let stays = |reading: &Reading| {
            let is_same = |node: &Node| {
                node.bridge == reading.bridge
                    && node.taken_over.contains(&reading.category)
                    && wait(node, reading.category) == reading.wait
            };
            node.is_some_and(is_same) && !reading.task.is_finished()
        };
        // Those that leave end when others have taken their place: what nobody reads is dropped.
        let (staying, _leaving): (Vec<_>, Vec<_>) = std::mem::take(&mut *reading).into_iter().partition(stays);
        *reading = staying;
        let done = node.map_or(Ok(()), |node| self.begin_handing_over(node, &mut reading));
        self.answers.forget(&reading);
        done
    }

    /// Tasks for categories that have none.
    fn begin_handing_over(&self, node: &Node, reading: &mut Vec<Reading>) -> Result<(), AntreaError> {
        // Without a runtime there is no server, and nobody watches.
        let Ok(runtime) = Handle::try_current() else { return Ok(()) };
        for source in SOURCES {
            let is_read = reading.iter().any(|reading| reading.category == source.category);
            if is_read || !node.taken_over.contains(&source.category) {
                continue;
            }
            let stream = self.switch.subscribe_packets(&node.bridge, Interest::of(source.controller))?;
            let (stop, stopped) = oneshot::channel();
            let task = Task {
                antrea: Weak::clone(&self.me),
                source,
                bridge: node.bridge.as_str().into(),
                wait: wait(node, source.category),
                limit: Limit::new(EventKind::PacketToAnswer, source.meter),
            };
            let (bridge, wait) = (node.bridge.clone(), task.wait);
            let task = runtime.spawn(task.run(stream, stopped));
            reading.push(Reading { category: source.category, bridge, wait, task, _stop: stop });
        }
        Ok(())
    }

    /// Nobody watches any more: the task is to end. False: somebody does.
    fn stop_handing_over(&self, category: PacketCategory) -> bool {
        let mut reading = self.answers.reading.lock();
        // Who subscribes does so before he looks for tasks.
        let over = !self.events.are_read(EventKind::PacketToAnswer);
        if over {
            reading.retain(|reading| reading.category != category);
            self.answers.forget(&reading);
        }
        over
    }

    /// Says what becomes of a packet; returns when it has gone its way. Blocks.
    ///
    /// # Errors
    /// When no packet has this token, or the verdict is none for it; then it waits still.
    pub fn answer_packet(&self, token: &[u8], verdict: v1::PacketVerdict) -> Result<(), AntreaError> {
        let (category, packet) = self.answers.waiting.lock().take(token, verdict, Instant::now())?;
        match verdict {
            v1::PacketVerdict::Resume => {
                self.switch.resume_packet(&packet.bridge, &packet.paused, &[]).map_err(|error| match error {
                    SwitchError::Invalid(_) => gone(token),
                    error => error.into(),
                })
            }
            v1::PacketVerdict::Reject => match refusal(category, &packet) {
                Some(answer) => Ok(self.switch.packet_out(&packet.bridge, &answer)?),
                None => Ok(()),
            },
            // What is paused is forgotten when others come.
            v1::PacketVerdict::Drop | v1::PacketVerdict::Unspecified => Ok(()),
        }
    }
}

/// Reads the packets of one category, describes each to all that watch, and carries out the first
/// answer, or what holds when none came in time.
struct Task {
    antrea: Weak<Antrea>,
    source: Source,
    bridge: Arc<str>,
    wait: Duration,
    limit: Limit,
}

impl Task {
    async fn run(mut self, mut stream: PacketStream, mut stopped: oneshot::Receiver<()>) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let mut packets = Vec::new();
            let mut looks = false;
            tokio::select! {
                read = stream.receiver.recv_many(&mut packets, BATCH) => if read == 0 { return },
                _ = &mut stopped => return,
                _ = tick.tick() => looks = true,
            }
            let Some(antrea) = self.antrea.upgrade() else { return };
            let lost = looks.then(|| stream.lost.load(Relaxed));
            let worked = tokio::task::spawn_blocking(move || {
                let ends = self.work(&antrea, packets, lost);
                (self, ends)
            });
            // A panic is told by its hook.
            let Ok((task, false)) = worked.await else { return };
            self = task;
        }
    }

    /// What a blocking thread does at a time. Returns whether that was all.
    fn work(&mut self, antrea: &Antrea, packets: Vec<PacketIn>, lost: Option<u64>) -> bool {
        let ours: Vec<PacketIn> = packets.into_iter().filter(|packet_in| self.source.is_of(packet_in)).collect();
        if !ours.is_empty() {
            let rules = self.rules(antrea, &ours);
            let names = antrea.switch.names(&self.bridge).unwrap_or_default();
            let hand_over = |(packet_in, rule): (PacketIn, Option<v1::RuleRef>)| {
                let in_port = u32::try_from(packet_in.metadata.get(Field::InPort)).unwrap_or_default();
                let name = names.port_names.get(&in_port).cloned();
                self.hand_over(antrea, packet_in, rule, (in_port, name.unwrap_or_default()))
            };
            let events = ours.into_iter().zip(rules).map(hand_over).collect();
            antrea.events.tell(EventKind::PacketToAnswer, events);
            // It may have been stopped meanwhile.
            antrea.answers.forget(&antrea.answers.reading.lock());
        }
        let Some(lost) = lost else { return false };
        self.limit.look(antrea, &self.bridge, lost);
        antrea.answers.waiting.lock().expire(self.source.category, Instant::now());
        !antrea.events.are_read(EventKind::PacketToAnswer) && antrea.stop_handing_over(self.source.category)
    }

    /// The rules that refuse them. Only these need the node state, which may be in use for as long
    /// as a sync takes.
    fn rules(&self, antrea: &Antrea, packets: &[PacketIn]) -> Vec<Option<v1::RuleRef>> {
        if self.source.category != PacketCategory::PolicyReject {
            return vec![None; packets.len()];
        }
        let state = antrea.state.lock();
        let naming = state.node_state.facts().map(Naming::new);
        let rule = |packet_in: &PacketIn| Some(naming?.rule(Decision::of(&packet_in.metadata).rule));
        packets.iter().map(rule).collect()
    }

    fn hand_over(
        &self,
        antrea: &Antrea,
        packet_in: PacketIn,
        rule: Option<v1::RuleRef>,
        (in_port, in_port_name): (u32, String),
    ) -> Event {
        let table = Table::by_number(packet_in.table);
        let table = table.map_or_else(|| packet_in.table.to_string(), |table| table.name().to_owned());
        // Of others nobody makes an answer.
        let kept = packet_in.received.filter(|_| is_refused(self.source.category));
        let received = kept.as_ref().map(|received| received.front.to_vec());
        let metadata = metadata_fields(&packet_in.metadata);
        let waits = Packet {
            bridge: Arc::clone(&self.bridge),
            until: Instant::now() + self.wait,
            paused: packet_in.token,
            metadata: packet_in.metadata,
            received: kept,
        };
        let token = antrea.answers.waiting.lock().put(self.source.category, waits);
        Event::PacketToAnswer(v1::PacketToAnswer {
            token: token.to_be_bytes().to_vec(),
            category: self.source.told.into(),
            expires_in_ms: u32::try_from(self.wait.as_millis()).unwrap_or(u32::MAX),
            in_port,
            in_port_name,
            table,
            rule,
            metadata,
            packet: packet_in.packet,
            received: received.unwrap_or_default(),
        })
    }
}
