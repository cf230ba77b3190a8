//! A random program, packets for it, and changes under way, as a scenario.

use super::actions::{Features, Place, random_learn};
use super::changes;
use super::fields::{FIELDS, FieldDef, Proto};
use super::matches::Match;
use super::packets;
use super::rng::Rng;
use super::universe::Universe;
use crate::run::Record;
use crate::scenario::{Command, Step};
use std::collections::BTreeSet;

/// Priorities of learned flows begin here; above those of the program's own.
const LEARNED: usize = 30_000;

/// A random program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) features: Features,
    pub(crate) universe: Universe,
    pub(crate) last_table: u8,
    pub(crate) groups: Vec<u32>,
    pub(crate) meters: Vec<u32>,
    pub(crate) learns: Vec<(Proto, String)>,
    /// Matches of the flows.
    pub(crate) matches: Vec<Match>,
    /// Table and priority that some flow has.
    pub(crate) taken: BTreeSet<(u8, usize)>,
    /// All flows that were ever added.
    pub(crate) lines: Vec<String>,
    setup: Vec<Step>,
}

impl Program {
    /// Of a seed.
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let last_table = u8::try_from(rng.between(0, 7)).expect("small");
        let mut program = Self {
            features: Features::random(rng),
            universe: Universe::new(rng),
            last_table,
            groups: Vec::new(),
            meters: Vec::new(),
            learns: Vec::new(),
            matches: Vec::new(),
            taken: BTreeSet::new(),
            lines: Vec::new(),
            setup: Vec::new(),
        };
        program.make_learns(rng);
        program.make_groups(rng);
        program.make_meters(rng);
        for table in 0..=last_table {
            for _ in 0..flows(rng) {
                let step = program.flow(table, rng);
                program.setup.push(step);
            }
            program.catch_all(table, rng);
            if program.features.conjunctions && rng.chance(50) {
                program.conjunction(table, rng);
            }
        }
        program
    }

    /// Everything: what sets it up, packets, and changes between them.
    pub(crate) fn scenario(&mut self, packets: usize, rng: &mut Rng) -> Vec<Step> {
        let mut steps = self.setup.clone();
        for _ in 0..packets {
            if rng.chance(1) {
                steps.extend(changes::random(self, rng));
            }
            let (port, bytes) = packets::random(&self.matches, &self.universe, rng);
            steps.push(Step::packet(port, bytes));
        }
        steps
    }

    pub(crate) fn place(&self, table: u8, matching: Option<&Match>) -> Place<'_> {
        Place {
            features: self.features,
            universe: &self.universe,
            proto: matching.map(Match::known_proto),
            tags: matching.map_or(0, |matching| u8::from(matching.tagged)),
            table,
            last_table: self.last_table,
            groups: &self.groups,
            meters: &self.meters,
            learns: &self.learns,
            nested: false,
        }
    }

    /// A priority that no flow of the table has.
    fn priority(&mut self, table: u8, rng: &mut Rng) -> usize {
        loop {
            let priority = rng.between(1, 1000);
            if self.taken.insert((table, priority)) {
                return priority;
            }
        }
    }

    /// A random flow.
    pub(crate) fn flow(&mut self, table: u8, rng: &mut Rng) -> Step {
        let priority = self.priority(table, rng);
        let matching = Match::random(table, &self.universe, rng);
        let actions = self.place(table, Some(&matching)).flow(rng);
        let mut head = format!("table={table},priority={priority},");
        if rng.chance(30) {
            head += &format!("cookie={:#x},", rng.below(16));
        }
        if self.features.timeouts && rng.chance(15) {
            head += &format!("{}={},", rng.pick(&["idle_timeout", "hard_timeout"]), rng.between(1, 9));
            if rng.chance(50) {
                head += "send_flow_rem,";
            }
        }
        let line = format!("{head}{} actions={actions}", matching.text().trim_end_matches(','));
        self.matches.push(matching);
        self.lines.push(line.clone());
        Step::Flow(line.replace(", actions", " actions"))
    }

    fn catch_all(&mut self, table: u8, rng: &mut Rng) {
        if rng.chance(85) {
            let next = usize::from(table) + 1;
            let actions = if next <= usize::from(self.last_table) && rng.chance(80) {
                format!("resubmit(,{}),goto_table:{next}", rng.between(next, usize::from(self.last_table)))
            } else {
                self.place(table, Some(&Match::all())).flow(rng)
            };
            self.lines.push(actions.clone());
            self.setup.push(Step::Flow(format!("table={table},priority=0 actions={actions}")));
        }
    }

    fn make_learns(&mut self, rng: &mut Rng) {
        if self.features.learn {
            for i in 0..rng.between(1, 3) {
                let table = u8::try_from(rng.between(0, usize::from(self.last_table))).expect("small");
                self.learns.push(random_learn(table, LEARNED + i, self.features.timeouts, rng));
            }
        }
    }

    fn make_meters(&mut self, rng: &mut Rng) {
        if self.features.meters {
            for id in 1..=u32::try_from(rng.between(1, 2)).expect("small") {
                self.meters.push(id);
                self.setup.push(control("add-meter", &changes::meter_line(id, rng)));
            }
        }
    }

    fn make_groups(&mut self, rng: &mut Rng) {
        if self.features.groups {
            // A bucket may name only groups that were made before it: no loops.
            for id in 1..=u32::try_from(rng.between(1, 5)).expect("small") {
                let line = self.group_line(id, rng);
                self.setup.push(control("add-group", &line));
                self.groups.push(id);
            }
        }
    }

    /// A random group that uses only groups of smaller numbers.
    pub(crate) fn group_line(&self, id: u32, rng: &mut Rng) -> String {
        let smaller = self.groups.iter().copied().filter(|other| *other < id).collect::<Vec<_>>();
        let bucket = |rng: &mut Rng| {
            let mut place = self.place(self.last_table, None);
            place.groups = &smaller;
            let actions = place.list(rng, 3);
            if actions.is_empty() { format!("output:{}", rng.between(1, 6)) } else { actions.join(",") }
        };
        let buckets = match rng.below(5) {
            0 => format!("type=indirect,bucket={}", bucket(rng)),
            1 => {
                let watched = (0..rng.between(1, 3))
                    .map(|_| format!("bucket=watch_port:{},{}", rng.pick(&[1, 2, 3, 99]), bucket(rng)));
                format!("type=ff,{}", watched.collect::<Vec<_>>().join(","))
            }
            // One bucket that can be chosen: which of several it would be is not ours to compare.
            2 if !self.features.vlans => {
                let method = rng.pick(&["", "selection_method=hash,fields(ip_src,tcp_dst),", "selection_method=hash,"]);
                let live = bucket(rng);
                let dead =
                    if method.is_empty() { String::new() } else { format!(",bucket=watch_port:99,{}", bucket(rng)) };
                format!("type=select,{method}bucket=weight:5,{live}{dead}")
            }
            _ => {
                let buckets = (0..rng.between(0, 3)).map(|_| format!("bucket={}", bucket(rng))).collect::<Vec<_>>();
                ["type=all".to_owned()].into_iter().chain(buckets).collect::<Vec<_>>().join(",")
            }
        };
        format!("group_id={id},{buckets}")
    }

    /// Clauses of a conjunction, and the flow for it.
    fn conjunction(&mut self, table: u8, rng: &mut Rng) {
        let priority = self.priority(table, rng);
        let id = u32::from(table) + 1;
        let names = ["nw_src", "nw_dst", "tp_dst", "dl_src", "reg0"];
        let proto = Proto::Of(rng.pick(&[crate::frame::Kind::Udp, crate::frame::Kind::Tcp]));
        let clauses = rng.between(2, 3);
        for clause in 1..=clauses {
            let mut name = names[clause - 1];
            if rng.chance(30) {
                name = names[clause + 1];
            }
            let known = |field: &&FieldDef| field.matched == name && field.needs.met(proto, false);
            let field = FIELDS.iter().find(known).expect("a field");
            let mut seen = BTreeSet::new();
            for _ in 0..rng.between(1, 5) {
                let mut matching = Match { proto, ..Match::all() };
                matching.add(field, &self.universe, rng);
                let text = matching.text();
                if seen.insert(text.clone()) && !self.has(table, priority, &text) {
                    let line = format!(
                        "table={table},priority={priority},{}, actions=conjunction({id},{clause}/{clauses})",
                        text.trim_end_matches(',')
                    );
                    self.setup.push(Step::Flow(line.replace(", actions", " actions")));
                    self.matches.push(matching);
                }
            }
        }
        if rng.chance(90) {
            let priority = if rng.chance(50) { priority } else { self.priority(table, rng) };
            let matching = Match { proto, ..Match::all() };
            let actions = self.place(table, Some(&matching)).flow(rng);
            let line = format!("table={table},priority={priority},conj_id={id},{} actions={actions}", proto.text());
            self.lines.push(line.clone());
            self.setup.push(Step::Flow(line));
        }
    }

    /// Whether a flow of this match is there.
    fn has(&self, table: u8, priority: usize, text: &str) -> bool {
        let start = format!("table={table},priority={priority},{} ", text.trim_end_matches(','));
        self.setup.iter().any(|step| matches!(step, Step::Flow(line) if line.starts_with(&start)))
    }
}

/// How many flows a table gets: few mostly, so that packets meet most of them.
fn flows(rng: &mut Rng) -> usize {
    let most = rng.pick(&[4, 8, 8, 16, 40]);
    rng.between(1, most)
}

/// A command without options.
pub(crate) fn control(verb: &str, argument: &str) -> Step {
    let argument = Some(argument.to_owned());
    Step::Control(Command { options: Vec::new(), verb: verb.to_owned(), argument, input: None })
}

/// What became of programs: a generator whose packets all miss would prove nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) programs: usize,
    pub(crate) flows: usize,
    pub(crate) flows_hit: usize,
    pub(crate) packets: usize,
    /// Packets that left somewhere, or went to a controller.
    pub(crate) seen: usize,
    /// Steps that were refused.
    pub(crate) refused: usize,
    pub(crate) outputs: usize,
    pub(crate) packet_ins: usize,
    /// Packets that left changed.
    pub(crate) changed: usize,
    /// Packets that left in a tunnel, or came out of one.
    pub(crate) encapsulated: usize,
    pub(crate) decapsulated: usize,
    /// Connections that came or changed, and those of them that were translated.
    pub(crate) connections: usize,
    pub(crate) translated: usize,
    /// Programs that Open vSwitch did not survive: nothing is known of them.
    pub(crate) died: usize,
}

impl Summary {
    /// Adds what a program did.
    pub(crate) fn add(&mut self, steps: &[Step], record: &Record) {
        self.programs += 1;
        for (step, lines) in steps.iter().zip(&record.steps) {
            self.refused += usize::from(lines.iter().any(|line| line.starts_with("refused")));
            if matches!(step, Step::Packet { .. }) {
                self.packets += 1;
                self.seen += usize::from(!lines.is_empty());
                self.packet_ins += lines.iter().filter(|line| line.starts_with("packet-in")).count();
                let connections = lines.iter().filter(|line| line.starts_with("now "));
                self.connections += connections.clone().count();
                self.translated += connections.filter(|line| is_translated(line)).count();
                self.outputs += lines.iter().filter(|line| !line.starts_with("packet-in")).count();
                let says = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
                self.encapsulated += says(" + =");
                self.decapsulated += says(" -");
                self.changed += usize::from(lines.iter().any(|line| !line.ends_with(" =")));
            }
        }
        let flows = record.end.iter().filter(|line| line.contains(" n_packets="));
        for flow in flows.filter(|line| !line.contains("conjunction(")) {
            self.flows += 1;
            self.flows_hit += usize::from(!flow.contains(" n_packets=0,"));
        }
    }

    /// A generator whose packets all miss would prove nothing.
    ///
    /// # Panics
    /// When too little happened.
    pub(crate) fn check(&self, tunnels: bool) {
        let percent = |part: usize, whole: usize| part * 100 / whole.max(1);
        // Some peers and keys are nobody's.
        assert!(percent(self.seen, self.packets) >= if tunnels { 40 } else { 50 }, "few packets leave: {self:?}");
        let in_tunnels = self.encapsulated.min(self.decapsulated);
        assert!(!tunnels || percent(in_tunnels, self.packets) >= 15, "few packets go through tunnels: {self:?}");
        assert!(percent(self.changed, self.packets) >= 15, "few packets are changed: {self:?}");
        assert!(percent(self.flows_hit, self.flows) >= 20, "few flows are hit: {self:?}");
        assert!(self.died * 40 <= self.programs, "Open vSwitch dies often: {self:?}");
        assert!(self.refused * 20 <= self.programs, "Open vSwitch refuses much: {self:?}");
    }

    /// The same of stateful programs.
    ///
    /// # Panics
    /// When too little happened.
    pub(crate) fn check_stateful(&self) {
        let percent = |part: usize, whole: usize| part * 100 / whole.max(1);
        assert!(percent(self.seen, self.packets) >= 80, "few packets leave: {self:?}");
        assert!(percent(self.connections, self.packets) >= 10, "few connections come or change: {self:?}");
        assert!(percent(self.translated, self.connections) >= 15, "few connections are translated: {self:?}");
        assert!(percent(self.flows_hit, self.flows) >= 40, "few flows are hit: {self:?}");
        // 3.1 does not survive one of ten: somewhere it loses hold of its memory, after some
        // hundred packets.
        assert!(self.died * 5 <= self.programs && self.refused == 0, "Open vSwitch dies often, or refuses: {self:?}");
    }
}

/// Whether a connection's reply does not go back to where the original came from, or the other way
/// round.
fn is_translated(line: &str) -> bool {
    let part = |from: &str, key: &str| {
        let (_, rest) = line.split_once(from)?;
        let (_, rest) = rest.split_once(key)?;
        rest.split([',', ')']).next()
    };
    part("orig=", "src=") != part("reply=", "dst=") || part("orig=", "dst=") != part("reply=", "src=")
}
