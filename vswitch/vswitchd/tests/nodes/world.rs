//! Who is around the switch, and what they do with a packet: Pods, the Node's kernel, other Nodes,
//! the world outside, the engine.
//!
//! The kernel forwards. Where the switch translates for no Service it does so itself, as kube-proxy
//! sets it up, and remembers connections; what comes back with the MAC address of packets that
//! enter again it leads on as it is.

use crate::engine::Engine;
use crate::frame::{ACK, Mac, PSH, RST, SYN, Segment};
use crate::objects::{self, Layout, Mode};
use crate::switch::Told;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Packets of one connection, at most: what circles is a failure.
const STEPS_MAX: usize = 200;

/// An end that the kernel translated, and what it was: both with the client's.
type Ends = (IpAddr, u16, IpAddr, u16);

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Who answered, and whom he saw.
    Answer(String),
    /// Somebody said that it may not be.
    Refused,
    Silence,
}

/// The switch and who is around it.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) told: Told,
    pub(crate) layout: Layout,
    pub(crate) engine: Engine,
    /// Of the kernel: the answer's ends, by those that an endpoint's answer has.
    translated: BTreeMap<Ends, (IpAddr, u16)>,
    port: u16,
    /// Ports by which the last connection left, in order, each once.
    pub(crate) ways: Vec<String>,
    pub(crate) outcome: Outcome,
    pending: VecDeque<(&'static str, Segment)>,
    asker: (&'static str, IpAddr, u16),
    asked: (IpAddr, u16),
}

impl World {
    pub(crate) fn new(told: Told) -> Self {
        Self {
            told,
            layout: Layout::default(),
            engine: Engine::default(),
            translated: BTreeMap::new(),
            port: 20_000,
            ways: Vec::new(),
            outcome: Outcome::Silence,
            pending: VecDeque::new(),
            asker: ("", [0, 0, 0, 0].into(), 0),
            asked: ([0, 0, 0, 0].into(), 0),
        }
    }

    /// The Node is another one.
    pub(crate) fn settle(&mut self, layout: Layout, extra: Vec<vswitch_proto::antrea::v1::object::Object>) {
        let mut all = objects::all(&layout);
        all.extend(extra);
        self.told.become_node(objects::node(&layout), all);
        (self.layout, self.engine) = (layout, Engine::default());
        self.translated.clear();
    }

    /// A connection of a client (`a`, `host`, `c`, `outside`, ...) with an address and port: made,
    /// one question, one answer.
    pub(crate) fn ask(&mut self, client: &'static str, family: usize, to: IpAddr, port: u16) -> Outcome {
        self.ask_from(client, objects::address(&self.layout, client, family), to, port)
    }

    /// Likewise with this source.
    pub(crate) fn ask_from(&mut self, client: &'static str, source: IpAddr, to: IpAddr, port: u16) -> Outcome {
        self.port += 1;
        (self.asker, self.asked) = ((client, source, self.port), (to, port));
        (self.outcome, self.ways) = (Outcome::Silence, Vec::new());
        let syn = Segment {
            to: [0; 6],
            from: [0; 6],
            vlan: None,
            source,
            destination: to,
            ttl: 64,
            source_port: self.port,
            destination_port: port,
            sequence: 1000,
            acknowledged: 0,
            flags: SYN,
            payload: Vec::new(),
        };
        self.send(client, syn);
        let mut steps = 0;
        while let Some((port, segment)) = self.pending.pop_front() {
            steps += 1;
            assert!(steps < STEPS_MAX, "it circles: {segment:?} at {port}; ways {:?}", self.ways);
            for (out, frame) in self.told.receive(port, segment.bytes()) {
                if !self.ways.contains(&out) {
                    self.ways.push(out.clone());
                }
                if let Some(segment) = Segment::read(&frame) {
                    self.left(&out, segment);
                }
            }
        }
        self.outcome.clone()
    }

    /// Somebody sends; the MAC addresses are what he knows.
    fn send(&mut self, who: &'static str, mut segment: Segment) {
        match who {
            "host" => self.kernel(segment, false),
            "c" | "f" | "far" if who == "far" || objects::path(&self.layout, who) == "tun" => {
                (segment.from, segment.to) = (objects::mac("peer"), objects::VIRTUAL);
                self.pending.push_back(("tun", segment));
            }
            "c" | "f" | "outside" => self.kernel(segment, false),
            "wire" => {
                (segment.from, segment.to) = (objects::mac("hop"), objects::mac("up"));
                self.pending.push_back(("up", segment));
            }
            pod => {
                (segment.from, segment.to) = (objects::mac(pod), self.neighbour(segment.destination));
                self.pending.push_back((pod, segment));
            }
        }
    }

    /// Whose MAC address a Pod finds for an address.
    fn neighbour(&self, address: IpAddr) -> Mac {
        if self.layout.mode == Mode::PolicyOnly {
            return objects::VIRTUAL;
        }
        objects::pod_of(&self.layout, address).map_or_else(|| objects::mac("gw"), objects::mac)
    }

    /// A packet left the switch.
    fn left(&mut self, port: &str, segment: Segment) {
        match port {
            "gw" => self.kernel(segment.clone(), segment.from == objects::REENTRANCE),
            "tun" => {
                let who = ["c", "f"].into_iter().find(|who| self.has(who, segment.destination));
                // Else it is for the world behind the Node that has an Egress.
                self.arrived(who.unwrap_or("far"), &segment);
            }
            "up" => {
                assert_eq!(segment.to, objects::mac("hop"), "a router's: {segment:?}");
                self.arrived("wire", &segment);
            }
            "l7-out" => {
                if let Some(segment) = self.engine.read(segment) {
                    self.pending.push_back(("l7-in", segment));
                }
            }
            "tc-out" => self.pending.push_back(("tc-in", segment)),
            pod => {
                let pod = objects::PODS.into_iter().find(|name| *name == pod).expect("a Pod's port");
                if self.has(pod, segment.destination) && segment.to == objects::mac(pod) {
                    self.arrived(pod, &segment);
                }
            }
        }
    }

    fn has(&self, who: &str, address: IpAddr) -> bool {
        [0, 1].iter().any(|family| objects::address(&self.layout, who, *family) == address)
    }

    /// The Node's kernel has a packet: its own, somebody's from outside, or from the gateway.
    fn kernel(&mut self, mut segment: Segment, again: bool) {
        let ends = (segment.source, segment.source_port, segment.destination, segment.destination_port);
        let mut by_service = false;
        if !again {
            if let Some((was, port)) = self.translated.get(&ends) {
                (segment.source, segment.source_port) = (*was, *port);
            } else if let Some((to, port)) = objects::kernel_translates(&self.layout, &segment) {
                let was = (segment.destination, segment.destination_port);
                (segment.destination, segment.destination_port) = (to, port);
                self.translated.insert((to, port, segment.source, segment.source_port), was);
                by_service = true;
            }
        }
        let destination = segment.destination;
        if let Some(pod) = objects::pod_of(&self.layout, destination) {
            // What enters again takes the way of Services, where nobody has been asked for a MAC
            // address.
            let direct = self.layout.mode == Mode::Encap || self.layout.mode != Mode::PolicyOnly && !by_service;
            (segment.from, segment.to) =
                (objects::mac("gw"), if direct { objects::mac(pod) } else { objects::VIRTUAL });
            self.pending.push_back(("gw", segment));
        } else if objects::is_switchs(&self.layout, destination) {
            (segment.from, segment.to) = (objects::mac("gw"), objects::VIRTUAL);
            self.pending.push_back(("gw", segment));
        } else if let Some(who) = ["host", "c", "f", "outside"].into_iter().find(|who| self.has(who, destination)) {
            if matches!(who, "c" | "f") && objects::path(&self.layout, who) == "tun" {
                (segment.from, segment.to) = (objects::mac("gw"), objects::VIRTUAL);
                return self.pending.push_back(("gw", segment));
            }
            self.arrived(who, &segment);
        } else if destination == objects::transport(usize::from(destination.is_ipv6())) {
            self.arrived("host", &segment);
        }
    }

    /// A packet has come to somebody.
    fn arrived(&mut self, who: &'static str, segment: &Segment) {
        let (client, source, port) = self.asker;
        let is_answer = client == who && (segment.destination, segment.destination_port) == (source, port);
        if is_answer {
            if (segment.source, segment.source_port) != self.asked {
                return;
            }
            match segment.flags {
                flags if flags & RST != 0 => self.outcome = Outcome::Refused,
                flags if flags & (SYN | ACK) == SYN | ACK => {
                    let made = segment.back();
                    self.send(who, made.clone());
                    self.send(who, Segment { flags: ACK | PSH, payload: b"who?".to_vec(), ..made });
                }
                _ if !segment.payload.is_empty() => {
                    self.outcome = Outcome::Answer(String::from_utf8_lossy(&segment.payload).into_owned());
                }
                _ => {}
            }
            return;
        }
        let back = segment.back();
        if segment.flags & (SYN | ACK) == SYN {
            self.send(who, Segment { sequence: 5000, flags: SYN | ACK, ..back });
        } else if !segment.payload.is_empty() {
            let payload = format!("{who} sees {}", segment.source).into_bytes();
            self.send(who, Segment { flags: ACK | PSH, payload, ..back });
        }
    }
}
