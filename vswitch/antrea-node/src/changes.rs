//! Changes that no write made: names that are learned, memberships, objects that do other things
//! than before.
//!
//! They are told while somebody watches ([`super::events`]); nothing is done about them here.

use super::{Antrea, State};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, watch};
use vswitch_antrea::dns::Answer;
use vswitch_antrea::membership::Receivers;
use vswitch_antrea::{Code, Key, Problem, Problems};
use vswitch_control::{PortEvent, PortEventKind};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::EventKind;
use vswitch_proto::antrea::v1::watch_events_response::Event;

/// Links that are looked at together.
const BATCH: usize = 256;

/// A DNS answer about a name that rules mean.
#[derive(Debug)]
pub(super) struct Learned {
    pub(super) answer: Answer,
    /// Seconds that all its addresses are held.
    pub(super) ttl: u32,
    /// Who asked.
    pub(super) asker: Option<IpAddr>,
}

/// How an object is now.
pub(super) fn status(state: &State, key: &Key) -> v1::ObjectStatus {
    let problems = state.node_state.degraded().get(key).map(Problems::all).unwrap_or_default();
    let outcome = if problems.is_empty() { v1::ObjectOutcome::Applied } else { v1::ObjectOutcome::Degraded };
    v1::ObjectStatus {
        object: Some(key.to_proto()),
        outcome: outcome.into(),
        problems: problems.iter().map(Problem::to_proto).collect(),
        warnings: Vec::new(),
    }
}

const fn changed(status: v1::ObjectStatus) -> Event {
    Event::ObjectChanged(v1::ObjectChanged { status: Some(status) })
}

/// Who came to a group, and who left.
fn movements(group: Ipv4Addr, before: &Receivers, after: &Receivers) -> Vec<Event> {
    let group = group.to_string();
    let event = |pod: &str, node: &str, joined| {
        let (group, pod, node) = (group.clone(), pod.to_owned(), node.to_owned());
        Event::MembershipChanged(v1::MembershipChanged { group, pod, node, joined })
    };
    let mut events = Vec::new();
    for (from, to, joined) in [(after, before, false), (before, after, true)] {
        events.extend(to.pods.difference(&from.pods).map(|life| event(&life.pod, "", joined)));
        events.extend(to.nodes.difference(&from.nodes).map(|node| event("", node, joined)));
    }
    events
}

impl Antrea {
    /// Tells answers about names, with the Pods that asked.
    pub(super) fn tell_learned(&self, learned: Vec<Learned>) {
        let state = self.state.lock();
        let pod = |address: IpAddr| state.node_state.desired().pod_of(&address).map(|key| key.name.to_string());
        let event = |Learned { answer, ttl, asker }: Learned| {
            let addresses = answer.addresses.iter().map(|(address, _)| address.to_string()).collect();
            let pod = asker.and_then(pod).unwrap_or_default();
            Event::FqdnLearned(v1::FqdnLearned { name: answer.name, addresses, ttl_seconds: ttl, pod })
        };
        let events = learned.into_iter().map(event).collect();
        drop(state);
        self.events.tell(EventKind::FqdnLearned, events);
    }

    /// Receivers of groups as the tables have them; none if nobody wants to know.
    pub(super) fn receivers(&self, state: &State, groups: &[Ipv4Addr]) -> BTreeMap<Ipv4Addr, Receivers> {
        if !self.events.are_read(EventKind::MembershipChanged) {
            return BTreeMap::new();
        }
        let joined = state.node_state.desired().joined();
        groups.iter().map(|group| (*group, joined.receivers(*group).cloned().unwrap_or_default())).collect()
    }

    /// Tells in which of these groups there are others now.
    pub(super) fn tell_memberships(&self, state: &State, before: BTreeMap<Ipv4Addr, Receivers>) {
        let (joined, nobody) = (state.node_state.desired().joined(), Receivers::default());
        let moved = |(group, before): (Ipv4Addr, Receivers)| {
            movements(group, &before, joined.receivers(group).unwrap_or(&nobody))
        };
        self.events.tell(EventKind::MembershipChanged, before.into_iter().flat_map(moved).collect());
    }

    /// Tells how objects are now.
    pub(super) fn tell_objects(&self, state: &State, keys: &BTreeSet<Key>) {
        if keys.is_empty() || !self.events.are_read(EventKind::ObjectChanged) {
            return;
        }
        let ports: Vec<(&Key, BTreeSet<String>)> =
            keys.iter().map(|key| (key, state.node_state.ports_of(key))).collect();
        let lost = if ports.iter().all(|(_, ports)| ports.is_empty()) { BTreeSet::new() } else { self.lost(state) };
        let told = ports.iter().map(|(key, ports)| {
            let mut status = status(state, key);
            let problems = ports.intersection(&lost).map(|port| {
                let reason = format!("port {port:?} has lost its peer: nothing comes or goes by it");
                Problem::new(Code::Port, "port", reason).to_proto()
            });
            let mut problems: Vec<_> = problems.collect();
            if !problems.is_empty() {
                problems.append(&mut status.problems);
                status.problems = problems;
                status.set_outcome(v1::ObjectOutcome::Degraded);
            }
            changed(status)
        });
        self.events.tell(EventKind::ObjectChanged, told.collect());
    }

    /// Ports of the Node's bridge that have no peer now.
    fn lost(&self, state: &State) -> BTreeSet<String> {
        // Without the bridge there is nothing to be told of.
        let ports = state.bridge().and_then(|bridge| Ok(self.switch.ports(&bridge)?)).unwrap_or_default();
        ports.into_iter().filter(|port| !port.link_up).map(|port| port.config.name).collect()
    }

    /// Tells whose ports lost their peers, or have them again: all of what is so by now, whichever
    /// link it was.
    fn tell_links(&self, events: &[PortEvent]) {
        let state = self.state.lock();
        let Ok(bridge) = state.bridge() else { return };
        let is_link = |event: &&PortEvent| {
            event.port.bridge == bridge && matches!(event.kind, PortEventKind::LinkUp | PortEventKind::LinkDown)
        };
        let ports = events.iter().filter(is_link).map(|event| event.port.config.name.clone()).collect();
        self.tell_objects(&state, &state.node_state.holders(&ports));
    }
}

/// Tells what links of ports mean for objects, until the server stops.
pub async fn watch_links(antrea: Arc<Antrea>, mut stopping: watch::Receiver<bool>) {
    let mut events = antrea.switch.subscribe();
    loop {
        let event = tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => return,
            event = events.recv() => event,
        };
        match event {
            Ok(event) => {
                let (batch, lost) = batch(event, &mut events);
                antrea.events.lose(EventKind::ObjectChanged, lost);
                if antrea.events.are_read(EventKind::ObjectChanged) {
                    let antrea = Arc::clone(&antrea);
                    // A panic is told by its hook
                    let _ = tokio::task::spawn_blocking(move || antrea.tell_links(&batch)).await;
                }
            }
            Err(RecvError::Lagged(lost)) => antrea.events.lose(EventKind::ObjectChanged, lost),
            Err(RecvError::Closed) => return,
        }
    }
}

/// An event and those that came with it; and how many were lost.
fn batch(first: PortEvent, events: &mut broadcast::Receiver<PortEvent>) -> (Vec<PortEvent>, u64) {
    let (mut batch, mut lost) = (vec![first], 0);
    while batch.len() < BATCH {
        match events.try_recv() {
            Ok(event) => batch.push(event),
            Err(TryRecvError::Lagged(count)) => lost += count,
            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
        }
    }
    (batch, lost)
}
