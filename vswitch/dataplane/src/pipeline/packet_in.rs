//! Packet-ins: bounded queues from workers to controllers.
//!
//! **Design**: workers never wait. A subscriber has a bounded queue; what does not fit is lost and
//! counted with the subscriber. The list of subscribers is replaced as a whole ([`ArcSwap`]):
//! delivering takes no lock. A paused packet leaves its continuation here, under a token; that
//! takes a short lock, once per paused packet.

use super::controllers::{ControllerInfo, Controllers, Fate};
use crate::limits::{PACKET_IN_SUBSCRIBERS_MAX, PACKET_INS_QUEUED, PAUSED_MAX};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::mpsc;
use vswitch_conntrack::Handle;
use vswitch_flow::action::Reason;
use vswitch_flow::{Action, FlowKey};

/// What OpenFlow says where no rule has anything to do with it: a packet-out.
pub const NO_COOKIE: u64 = u64::MAX;

/// A packet for controllers.
#[derive(Clone, Debug)]
pub struct PacketIn {
    /// Table of the rule that sent it.
    pub table: u8,
    /// Cookie of that rule; [`NO_COOKIE`].
    pub cookie: u64,
    /// Why it was sent.
    pub reason: Reason,
    /// Id of the controllers that it is for.
    pub controller: u16,
    /// Given by the rule.
    pub userdata: Arc<[u8]>,
    /// Metadata words. To subscribers without which options of Geneve there are.
    pub metadata: FlowKey,
    /// The whole packet.
    pub packet: Vec<u8>,
    /// What it was when it came in, if that is known; of copies only.
    pub received: Option<Received>,
    /// Where the packet goes on when it is resumed; none: it was a copy.
    pub continuation: Option<Arc<Continuation>>,
    /// Names the continuation ([`PacketIns::resume`]); empty without one.
    pub token: Vec<u8>,
}

/// A packet as it came in, before anything was written into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its first bytes, at most [`crate::packet::too_big::QUOTED_MAX`].
    pub front: Arc<[u8]>,
    /// How many it had.
    pub len: usize,
}

/// Where a paused packet goes on. The packet itself and its metadata are with the packet-in: to
/// resume, translate the packet (or what the controller returns for it) with that metadata from
/// [`super::Start::Resume`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continuation {
    /// Name of the bridge where it stopped: the index may be another one by then.
    pub bridge: Arc<str>,
    /// What is still to be done, the innermost list first.
    pub segments: Box<[Segment]>,
    /// The action set.
    pub set: Box<[Action]>,
    /// The packet's stack, the top last.
    pub stack: Box<[u128]>,
}

/// The rest of one action list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Table of its rule.
    pub table: u8,
    /// Cookie of its rule.
    pub cookie: u64,
    /// The actions.
    pub actions: Box<[Action]>,
}

/// A packet that waits for its controller.
#[derive(Clone, Debug)]
pub struct Paused {
    /// Where it goes on.
    pub continuation: Arc<Continuation>,
    /// Its metadata.
    pub metadata: FlowKey,
    /// The whole packet as the controller got it, which it need not send back.
    pub packet: Vec<u8>,
    /// Connections that it has met as new.
    pub met: Box<[Handle]>,
}

/// Those who want packet-ins of a bridge, and the packets that wait for them.
#[derive(Debug, Default)]
pub struct PacketIns {
    subscribers: ArcSwap<Vec<Subscriber>>,
    paused: Mutex<PausedPackets>,
    controllers: Controllers,
}

/// Which packet-ins somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Those for this controller id.
    pub controller: u16,
    /// Those of packets whose TTL ran out, too: controllers of Open vSwitch do not get them unless
    /// they ask.
    pub invalid_ttl: bool,
}

impl Interest {
    /// In what a controller gets that asks for nothing else.
    #[must_use]
    pub const fn of(controller: u16) -> Self {
        Self { controller, invalid_ttl: false }
    }

    fn covers(self, controller: u16, reason: Reason) -> bool {
        self.controller == controller && (self.invalid_ttl || reason != Reason::InvalidTtl)
    }
}

#[derive(Clone, Debug)]
struct Subscriber {
    interest: Interest,
    queue: mpsc::Sender<PacketIn>,
    lost: Arc<AtomicU64>,
}

/// By token, the oldest first in `order`.
#[derive(Debug, Default)]
struct PausedPackets {
    next: u64,
    /// Tokens of another run of the switch, or guessed ones, are none of ours.
    secret: RandomState,
    order: VecDeque<u64>,
    packets: HashMap<u64, Paused>,
}

/// Packet-ins from now on, and how many were lost since.
#[derive(Debug)]
pub struct Subscription {
    /// The packet-ins.
    pub receiver: mpsc::Receiver<PacketIn>,
    /// Packet-ins that did not fit the queue.
    pub lost: Arc<AtomicU64>,
}

impl PacketIns {
    /// Packet-ins from now on, until the subscription is dropped. None when there are too many
    /// subscribers.
    #[must_use]
    pub fn subscribe(&self, interest: Interest) -> Option<Subscription> {
        let (queue, receiver) = mpsc::channel(PACKET_INS_QUEUED);
        let lost = Arc::new(AtomicU64::new(0));
        let subscriber = Subscriber { interest, queue, lost: Arc::clone(&lost) };
        let mut added = false;
        self.subscribers.rcu(|subscribers| {
            let mut list: Vec<Subscriber> = subscribers.iter().filter(|one| !one.queue.is_closed()).cloned().collect();
            added = list.len() < PACKET_IN_SUBSCRIBERS_MAX;
            if added {
                list.push(subscriber.clone());
            }
            list
        });
        added.then_some(Subscription { receiver, lost })
    }

    /// Whether somebody wants packet-ins for a controller id, for this reason: if not, they need
    /// not be made.
    #[must_use]
    pub fn is_wanted(&self, controller: u16, reason: Reason) -> bool {
        self.subscribers.load().iter().any(|one| one.interest.covers(controller, reason) && !one.queue.is_closed())
    }

    /// Hands a packet-in to everyone who wants it, with a token if it can be resumed: with the
    /// connections, then, that it has `met` as new. Never waits. `worker`: who counts it.
    pub fn deliver(&self, mut packet_in: PacketIn, met: impl Iterator<Item = Handle>, worker: usize) {
        if let Some(continuation) = &packet_in.continuation {
            let (metadata, packet) = (packet_in.metadata.clone(), packet_in.packet.clone());
            let paused = Paused { continuation: Arc::clone(continuation), metadata, packet, met: met.collect() };
            packet_in.token = self.paused.lock().put(paused).to_be_bytes().to_vec();
        }
        // Which of Geneve's options the packet has, it needs to go on; controllers know no such
        // field.
        packet_in.metadata.set_tunnel_options(0);
        let subscribers = self.subscribers.load();
        let wanted = subscribers.iter().filter(|one| one.interest.covers(packet_in.controller, packet_in.reason));
        let mut fate = Fate::Told;
        for subscriber in wanted {
            if let Err(mpsc::error::TrySendError::Full(_)) = subscriber.queue.try_send(packet_in.clone()) {
                subscriber.lost.fetch_add(1, Relaxed);
                fate = Fate::Lost;
            }
        }
        self.controllers.count(packet_in.controller, worker, fate);
    }

    /// Counts a packet-in that is not made, if somebody would have had it. `worker`: who counts it.
    pub fn refuse(&self, controller: u16, reason: Reason, worker: usize, fate: Fate) {
        if self.is_wanted(controller, reason) {
            self.controllers.count(controller, worker, fate);
        }
    }

    /// What became of packets so far, by controller id; ids that somebody wants packets of, too.
    #[must_use]
    pub fn controllers(&self) -> Vec<ControllerInfo> {
        let mut infos = self.controllers.infos();
        for subscriber in self.subscribers.load().iter().filter(|one| !one.queue.is_closed()) {
            let controller = subscriber.interest.controller;
            let at = infos.binary_search_by_key(&controller, |info| info.controller).unwrap_or_else(|at| {
                infos.insert(at, ControllerInfo { controller, ..ControllerInfo::default() });
                at
            });
            infos[at].subscribers += 1;
        }
        infos
    }

    /// Takes the continuation of a token: once.
    #[must_use]
    pub fn resume(&self, token: &[u8]) -> Option<Paused> {
        let token = u64::from_be_bytes(*token.as_array()?);
        self.paused.lock().packets.remove(&token)
    }
}

impl PausedPackets {
    fn put(&mut self, paused: Paused) -> u64 {
        self.next += 1;
        let token = self.secret.hash_one(self.next);
        self.packets.insert(token, paused);
        self.order.push_back(token);
        // Resumed ones stay in the order until they are the oldest.
        while self.order.len() > PAUSED_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.packets.remove(&oldest);
        }
        token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_packet_keeps_the_options_that_controllers_do_not_see() {
        let packet_ins = PacketIns::default();
        let mut subscription = packet_ins.subscribe(Interest::of(0)).expect("room");
        let mut metadata = FlowKey::default();
        metadata.set(vswitch_flow::Field::TunId, 5);
        metadata.set_tunnel_options(0b101);
        let packet_in = PacketIn {
            table: 0,
            cookie: 0,
            reason: Reason::Action,
            controller: 0,
            userdata: [].into(),
            metadata: metadata.clone(),
            packet: vec![0; 14],
            received: None,
            continuation: Some(Arc::default()),
            token: Vec::new(),
        };
        packet_ins.deliver(packet_in, std::iter::empty(), 0);
        let told = subscription.receiver.try_recv().expect("a packet-in");
        let number = told.metadata.get(vswitch_flow::Field::TunId);
        assert_eq!((number, told.metadata.tunnel_options()), (5, 0), "what the controller sees");
        let paused = packet_ins.resume(&told.token).expect("it waits");
        assert_eq!(paused.metadata, metadata, "what it goes on with");
        let counted = packet_ins.controllers();
        assert_eq!((counted.len(), counted[0].subscribers, counted[0].packets), (1, 1, [1, 0, 0, 0]));
    }
}
