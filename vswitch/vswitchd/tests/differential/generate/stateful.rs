//! Random programs that track connections, and conversations through them.
//!
//! **Design**: a few tables in a row; a packet goes from one to the next through `ct(table=)` or
//! `resubmit`, never back, so that it stays within Open vSwitch's six recirculations. What flows
//! match, commit and translate to comes from the same few addresses that the conversations have.
//!
//! **Avoided**, since Open vSwitch does it differently by our choice (`deviations.rs`), at random,
//! or not at all: `nat` without an address in a commit; ranges of addresses and ports, and a fixed
//! source port (what is free is chosen at random, or runs out); the same ICMP id from two hosts, or
//! from one that is looked up again behind its translation ([`Stateful::pings`]), and NAT of
//! protocols without ports; limits of zones; SCTP; fragments; a SYN on a closed connection where
//! there is NAT; two commits in one zone where one translates (the plain one's reply tuple may be
//! taken); `force` and NAT; action sets (Open vSwitch dies); matches on addresses and ports, or
//! their changes, behind ct(nat) in one list.

use super::conversation::Conversations;
use super::rng::Rng;
use crate::scenario::Step;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What a program translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nat {
    None,
    /// Sources to one address.
    Source,
    /// Virtual addresses to servers.
    Destination,
    Both,
}

/// The addresses that a program and its conversations share. Clients are behind ports 1 and 2,
/// servers behind 3 and 4.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    pub(crate) clients: Vec<String>,
    pub(crate) servers: Vec<String>,
    /// Virtual addresses, and where they lead to.
    pub(crate) virtuals: Vec<(String, String)>,
    /// What sources are translated to.
    pub(crate) masquerade: String,
    pub(crate) router: String,
}

/// A random stateful program.
#[derive(Clone, Debug)]
pub(crate) struct Stateful {
    pub(crate) nat: Nat,
    pub(crate) v6: bool,
    pub(crate) v4: Addresses,
    pub(crate) addresses6: Addresses,
    /// Destination port that virtual addresses lead to; none: the one that was asked for.
    pub(crate) target_port: Option<u16>,
    pub(crate) ports: Vec<u16>,
    zones: Vec<u16>,
    last_table: usize,
    steps: Vec<Step>,
    taken: usize,
}

/// Conditions on what ct() found; each implies that it found a valid connection, or says nothing
/// that needs one.
const VALID: [&str; 8] = [
    "ct_state=+new+trk",
    "ct_state=+est+trk",
    "ct_state=+est+rpl+trk",
    "ct_state=+est-rpl+trk",
    "ct_state=+rel+trk",
    "ct_state=+trk-inv",
    "ct_state=+rpl+trk",
    "ct_state=+new-rel+trk",
];
const OTHERS: [&str; 5] =
    ["ct_state=+inv+trk", "ct_state=-new+trk", "ct_state=+trk", "ct_state=-trk", "ct_state=-new-est+trk"];

impl Addresses {
    fn v4(rng: &mut Rng) -> Self {
        let net = 10 << 24 | u32::try_from(rng.below(200)).expect("small") << 16;
        let host = |n: u32| Ipv4Addr::from(net | n).to_string();
        Self::new(host, |n| Ipv4Addr::from(0x0a60_0000 | n).to_string(), rng)
    }

    fn v6(rng: &mut Rng) -> Self {
        let net = 0xfd00_u128 << 112 | u128::from(rng.next() & 0xffff) << 64;
        let host = |n: u32| Ipv6Addr::from(net | u128::from(n)).to_string();
        Self::new(host, |n| Ipv6Addr::from(0xfd96_u128 << 112 | u128::from(n)).to_string(), rng)
    }

    fn new(host: impl Fn(u32) -> String, special: impl Fn(u32) -> String, rng: &mut Rng) -> Self {
        let clients = (1..=u32::try_from(rng.between(2, 4)).expect("small")).map(&host).collect();
        let servers: Vec<String> =
            (0x21..=0x20 + u32::try_from(rng.between(1, 3)).expect("small")).map(&host).collect();
        let virtuals = (1..=2).map(|n| (special(n), rng.pick(&servers))).collect();
        Self { clients, servers, virtuals, masquerade: host(0x77), router: special(0x99) }
    }
}

impl Stateful {
    /// Of a seed.
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let zones: Vec<u16> = rng.pick(&[vec![1], vec![1, 2], vec![0, 7], vec![65535, 3, 1]]);
        let mut program = Self {
            nat: rng.pick(&[Nat::None, Nat::Source, Nat::Destination, Nat::Both]),
            v6: rng.chance(40),
            v4: Addresses::v4(rng),
            addresses6: Addresses::v6(rng),
            target_port: rng.pick(&[None, Some(8080)]),
            ports: vec![80, 443, 53],
            zones,
            last_table: rng.between(2, 4),
            steps: Vec::new(),
            taken: 0,
        };
        program.first_table(rng);
        for table in 1..program.last_table {
            for _ in 0..rng.between(3, 9) {
                program.flow(table, rng);
            }
            program.catch_all(table, rng);
        }
        program.outputs(rng);
        program
    }

    /// Everything: what sets it up, and conversations.
    pub(crate) fn scenario(&self, packets: usize, rng: &mut Rng) -> Vec<Step> {
        let mut steps = self.steps.clone();
        steps.push(Step::Watch);
        let mut conversations = Conversations::new(self);
        for _ in 0..packets {
            if rng.chance(1) {
                steps.push(Step::Warp(rng.pick(&[1137, 4137, 14137, 31137, 46137, 61137, 901_137])));
            }
            steps.push(conversations.next(rng));
        }
        steps
    }

    pub(crate) fn addresses(&self, v6: bool) -> &Addresses {
        if v6 { &self.addresses6 } else { &self.v4 }
    }

    /// Whether there is ICMP. Where there is NAT, a packet may come to a zone twice, translated
    /// already, and then be new: a clash of ids.
    pub(crate) fn pings(&self) -> bool {
        self.nat == Nat::None || self.zones.len() == 1
    }

    pub(crate) fn translates(&self, side: Nat) -> bool {
        self.nat == side || self.nat == Nat::Both
    }

    fn add(&mut self, table: usize, priority: usize, rest: &str) {
        self.steps.push(Step::Flow(format!("table={table},priority={priority},{rest}")));
    }

    /// No two flows of a program have the same priority.
    fn priority(&mut self, rng: &mut Rng) -> usize {
        self.taken += 1;
        rng.between(1, 900) * 64 + self.taken % 64
    }

    /// Most packets go through ct() from here.
    fn first_table(&mut self, rng: &mut Rng) {
        for protocol in self.protocols() {
            let lookup = self.lookup(0, rng);
            let before = if rng.chance(30) { format!("{},", self.metadata(rng)) } else { String::new() };
            self.add(0, 10, &format!("{protocol} actions={before}{lookup}"));
        }
        for _ in 0..rng.between(0, 3) {
            let priority = self.priority(rng);
            let protocol = self.protocol(rng);
            let actions = self.actions(0, &protocol, rng);
            let port = if rng.chance(70) { format!(",in_port={}", rng.between(1, 4)) } else { String::new() };
            self.add(0, priority, &format!("{protocol}{port} actions={actions}"));
        }
    }

    fn protocols(&self) -> Vec<&'static str> {
        if self.v6 { vec!["ip", "ipv6"] } else { vec!["ip"] }
    }

    fn protocol(&self, rng: &mut Rng) -> String {
        let v4 = ["ip", "tcp", "udp", "icmp", "tcp"];
        let v6 = ["ipv6", "tcp6", "udp6", "icmp6", "tcp6"];
        let known = if self.v6 && rng.chance(40) { v6 } else { v4 };
        rng.pick(&known).to_owned()
    }

    /// A flow of a later table.
    fn flow(&mut self, table: usize, rng: &mut Rng) {
        let priority = self.priority(rng);
        let protocol = self.protocol(rng);
        let mut matches = vec![protocol.clone()];
        let valid = rng.chance(75);
        let state = if valid { rng.pick(&VALID) } else { rng.pick(&OTHERS) };
        matches.push(state.to_owned());
        if rng.chance(25) {
            matches.push(
                rng.pick(&["ct_mark=0/0x1", "ct_mark=0x1/0x1", "ct_mark=0x10/0xf0", "ct_mark=0", "ct_mark=5"])
                    .to_owned(),
            );
        }
        if rng.chance(15) {
            matches.push(
                rng.pick(&["ct_label=0/0xff", "ct_label=0x7/0xff", "ct_label=0x500000000/0xf00000000"]).to_owned(),
            );
        }
        if rng.chance(10) {
            matches.push(format!("ct_zone={}", rng.pick(&self.zones)));
        }
        if valid && rng.chance(25) {
            matches.push(self.original(&protocol, rng));
        }
        if rng.chance(15) {
            matches.push(format!("in_port={}", rng.between(1, 4)));
        }
        if rng.chance(10) {
            matches.push(rng.pick(&["reg0=0/0x1", "reg0=0x1/0x1", "reg1=5"]).to_owned());
        }
        let commits = !state.contains("+inv");
        let actions = if commits { self.actions(table, &protocol, rng) } else { self.output(rng) };
        self.add(table, priority, &format!("{} actions={actions}", matches.join(",")));
    }

    /// A condition on the original direction's addresses and ports.
    fn original(&self, protocol: &str, rng: &mut Rng) -> String {
        let v6 = protocol.ends_with('6');
        let addresses = self.addresses(v6);
        let (src, dst) = if v6 { ("ct_ipv6_src", "ct_ipv6_dst") } else { ("ct_nw_src", "ct_nw_dst") };
        match rng.below(4) {
            0 => format!("{src}={}", rng.pick(&addresses.clients)),
            1 => format!("{dst}={}", rng.pick(&addresses.virtuals).0),
            2 if protocol.starts_with("tcp") => format!("ct_nw_proto=6,ct_tp_dst={}", rng.pick(&self.ports)),
            3 if protocol.starts_with("udp") => format!("ct_nw_proto=17,ct_tp_dst={}", rng.pick(&self.ports)),
            _ => format!("{dst}={}", rng.pick(&addresses.servers)),
        }
    }

    fn catch_all(&mut self, table: usize, rng: &mut Rng) {
        for protocol in self.protocols() {
            let commit = self.commit(table, protocol, rng);
            self.add(table, 20, &format!("{protocol},ct_state=+new+trk actions={commit}"));
        }
        self.add(table, 5, &format!("actions=resubmit(,{})", self.last_table));
    }

    /// The last table says what ct() found, and sends the packet to the other side.
    fn outputs(&mut self, rng: &mut Rng) {
        let last = self.last_table;
        let tells = if rng.chance(50) { "controller," } else { "" };
        for (port, to) in [(1, 3), (2, 4), (3, 1), (4, 2)] {
            self.add(last, 10, &format!("in_port={port} actions={tells}output:{to}"));
        }
        for (state, port) in [("+inv", 6), ("+rel", 5), ("+dnat", 5), ("+snat+rpl", 6)] {
            if rng.chance(50) {
                let priority = self.priority(rng);
                self.add(last, priority, &format!("ip,ct_state={state}+trk actions=output:{port}"));
            }
        }
    }

    fn metadata(&self, rng: &mut Rng) -> &'static str {
        rng.pick(&[
            "set_field:0x1/0x1->reg0",
            "set_field:5->reg1",
            "load:0x3->NXM_NX_REG2[0..7]",
            "move:NXM_NX_CT_MARK[0..7]->NXM_NX_REG3[0..7]",
            "push:NXM_NX_REG0[]",
            "pop:NXM_NX_REG4[]",
            "set_field:0x77->metadata",
            "set_field:3->pkt_mark",
        ])
    }

    fn output(&self, rng: &mut Rng) -> String {
        if rng.chance(25) { "controller".to_owned() } else { format!("output:{}", rng.between(1, 6)) }
    }

    /// Actions of a flow; a ct() with a translation ends them, but for outputs.
    fn actions(&self, table: usize, protocol: &str, rng: &mut Rng) -> String {
        let mut actions = Vec::new();
        for _ in 0..rng.between(0, 2) {
            actions.push(match rng.below(10) {
                0..4 => self.metadata(rng).to_owned(),
                4 => "dec_ttl".to_owned(),
                5 => self.output(rng),
                6 if self.nat == Nat::None || !self.pings() => "ct_clear".to_owned(),
                7 => format!("set_field:02:00:00:00:00:{:02x}->eth_dst", rng.below(4)),
                8 if table > 0 => format!("clone({},{})", self.metadata(rng), self.lookup(table, rng)),
                _ => "set_field:10->ip_dscp".to_owned(),
            });
        }
        actions.push(match rng.below(10) {
            0..3 => self.commit(table, protocol, rng),
            3..6 => self.lookup(table, rng),
            6 => format!("{},{}", self.plain_commit(rng), self.output(rng)),
            7 => self.output(rng),
            _ => format!("resubmit(,{})", rng.between(table + 1, self.last_table)),
        });
        if rng.chance(25) {
            actions.push(self.output(rng));
        }
        actions.join(",")
    }

    fn next_table(&self, table: usize, rng: &mut Rng) -> usize {
        if rng.chance(70) { (table + 1).min(self.last_table) } else { rng.between(table + 1, self.last_table) }
    }

    fn zone(&self, rng: &mut Rng) -> u16 {
        // The first is where translations are.
        if rng.chance(70) { self.zones[0] } else { rng.pick(&self.zones) }
    }

    /// A ct() that makes nothing.
    fn lookup(&self, table: usize, rng: &mut Rng) -> String {
        let zone = self.zone(rng);
        let nat = if zone == self.zones[0] && self.nat != Nat::None && rng.chance(90) { ",nat" } else { "" };
        format!("ct(zone={zone},table={}{nat})", self.next_table(table, rng))
    }

    /// A commit, with what it translates if it is in the zone of translations.
    fn commit(&self, table: usize, protocol: &str, rng: &mut Rng) -> String {
        let zone = self.zone(rng);
        let to = self.next_table(table, rng);
        let exec = self.exec(rng);
        if zone == self.zones[0] && self.nat != Nat::None {
            let addresses = self.addresses(protocol.ends_with('6'));
            let bracket =
                |address: &str| if protocol.ends_with('6') { format!("[{address}]") } else { address.to_owned() };
            let source = self.translates(Nat::Source) && (self.nat == Nat::Source || rng.chance(50));
            let nat = if source {
                format!("src={}", addresses.masquerade)
            } else {
                let (_, server) = rng.pick(&addresses.virtuals);
                match self.target_port {
                    Some(port) if !protocol.starts_with("ic") => format!("dst={}:{port}", bracket(&server)),
                    _ => format!("dst={server}"),
                }
            };
            return format!("ct(commit,zone={zone},table={to},nat({nat}){exec})");
        }
        let force = if self.nat == Nat::None && rng.chance(8) { "force," } else { "" };
        format!("ct(commit,{force}zone={zone},table={to}{exec})")
    }

    /// A commit without a copy of the packet, nor a translation.
    fn plain_commit(&self, rng: &mut Rng) -> String {
        let zones = if self.nat == Nat::None { &self.zones[..] } else { &self.zones[1..] };
        if zones.is_empty() {
            return self.metadata(rng).to_owned();
        }
        format!("ct(commit,zone={}{})", rng.pick(zones), self.exec(rng))
    }

    fn exec(&self, rng: &mut Rng) -> &'static str {
        rng.pick(&[
            "",
            "",
            ",exec(set_field:0x5->ct_mark)",
            ",exec(set_field:0x1/0x1->ct_mark)",
            ",exec(set_field:0x10/0xf0->ct_mark,set_field:0x7/0xff->ct_label)",
            ",exec(set_field:0x500000000/0xffffffff00000000->ct_label)",
            ",exec(move:NXM_NX_REG1[0..3]->NXM_NX_CT_MARK[8..11])",
            ",exec(load:0x3->NXM_NX_CT_LABEL[96..99],load:0x1->NXM_NX_CT_MARK[31])",
        ])
    }
}
