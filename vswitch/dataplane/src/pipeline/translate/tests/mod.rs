//! Tests of translation, by what it yields: ops as text, mask, credits.

mod ct;
mod generate;
mod groups;
mod headers;
mod lists;
mod outputs;
mod random;
mod story;

use super::{Choice, Request, Start, Translation, format_ops, translate};
use crate::group::Group;
use crate::meter::Meter;
use crate::pipeline::{Bridge, ChangeLog, FailMode, Fdb, Learned, PortFacts, Program, Rule, Table, World};
use crate::port::PortId;
use crate::time::Millis;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use vswitch_flow::action::{PortNo, port};
use vswitch_flow::classifier::Classifier;
use vswitch_flow::spec::{FlowFlags, FlowSpec, GroupSpec, MeterSpec};
use vswitch_flow::text::{NoNames, Style, format_match, parse_key, parse_match, parse_subfield};
use vswitch_flow::{Action, Field, FlowKey, SparseMatch, Subfield};

/// Bridges under construction; the first has ports `p1` to `p8` and `LOCAL`. Flows are not checked:
/// what a packet-out or a bucket may do, a flow may do here.
pub(super) struct Setup {
    pub(super) world: World,
    drafts: Vec<Draft>,
}

/// What a bridge's program is made of.
struct Draft {
    tables: BTreeMap<u8, Arc<Table>>,
    groups: HashMap<u32, Arc<Group>>,
    meters: HashMap<u32, Arc<Meter>>,
    learned: Arc<Learned>,
}

pub(super) const PORTS: u32 = 8;

impl Setup {
    pub(super) fn new() -> Self {
        let mut setup = Self { world: World::default(), drafts: Vec::new() };
        setup.add_bridge("br0");
        for number in (1..=PORTS).chain([port::LOCAL]) {
            let name = if number == port::LOCAL { "LOCAL".to_owned() } else { format!("p{number}") };
            setup.add_port(0, number, &name);
        }
        setup
    }

    pub(super) fn add_bridge(&mut self, name: &str) -> usize {
        let fdb = Arc::new(Fdb::new(64, 300));
        let bridge = Bridge::new(name, FailMode::Secure, fdb);
        let learned = Arc::new(Learned::new(Arc::clone(&self.world.changes)));
        self.drafts.push(Draft { tables: BTreeMap::new(), groups: HashMap::new(), meters: HashMap::new(), learned });
        self.world.bridges.push(bridge);
        self.publish();
        self.world.bridges.len() - 1
    }

    pub(super) fn add_port(&mut self, bridge: usize, number: PortNo, name: &str) -> PortId {
        let id = PortId(u16::try_from(self.world.ports.len()).expect("few ports"));
        let facts = PortFacts {
            bridge,
            number,
            name: name.into(),
            admin_up: true,
            link_up: Arc::new(AtomicBool::new(true)),
            no_flood: false,
            no_forward: false,
            no_receive: false,
            peer: None,
            patch: false,
            tunnel: None,
            vtep: None,
            strict: false,
            underlay: true,
        };
        self.world.ports.push(Some(facts));
        let bridge = &mut self.world.bridges[bridge];
        bridge.flood.push(id);
        let mut numbers = HashMap::clone(&bridge.numbers);
        numbers.insert(number, id);
        bridge.numbers = Arc::new(numbers);
        id
    }

    /// Joins two bridges; the ports are named after the bridges and numbers.
    pub(super) fn add_patch(&mut self, a: (usize, PortNo), b: (usize, PortNo)) {
        let one = self.add_port(a.0, a.1, &format!("patch{}-{}", a.0, a.1));
        let other = self.add_port(b.0, b.1, &format!("patch{}-{}", b.0, b.1));
        for (id, peer) in [(one, other), (other, one)] {
            let facts = self.world.ports[id.index()].as_mut().expect("added");
            (facts.patch, facts.peer) = (true, Some(peer));
        }
    }

    /// Facts of a port of the first bridge, to change.
    pub(super) fn port(&mut self, number: PortNo) -> &mut PortFacts {
        let id = self.world.bridges[0].numbers[&number];
        self.world.ports[id.index()].as_mut().expect("a port")
    }

    fn publish(&mut self) {
        self.world.number += 1;
        for (bridge, draft) in self.world.bridges.iter_mut().zip(&self.drafts) {
            let count = draft.tables.keys().last().map_or(0, |last| usize::from(*last) + 1);
            let mut tables = vec![None; count];
            draft.tables.iter().for_each(|(id, table)| tables[usize::from(*id)] = Some(Arc::clone(table)));
            bridge.program = Arc::new(Program {
                tables,
                groups: Arc::new(draft.groups.clone()),
                meters: Arc::new(draft.meters.clone()),
                learned: Arc::clone(&draft.learned),
                groups_changed: self.world.number,
            });
        }
    }

    /// A flow of the first bridge with priority 100.
    pub(super) fn flow(&mut self, table: u8, matching: &str, actions: impl Into<Vec<Action>>) -> &mut Self {
        self.flow_in(0, table, 100, matching, actions)
    }

    pub(super) fn flow_in(
        &mut self,
        bridge: usize,
        table: u8,
        priority: u16,
        matching: &str,
        actions: impl Into<Vec<Action>>,
    ) -> &mut Self {
        let spec = FlowSpec {
            table,
            priority,
            matching: Arc::new(matches(matching)),
            cookie: u64::from(table) << 32 | u64::from(priority),
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            flags: FlowFlags::default(),
            actions: actions.into().into(),
        };
        let (number, tables) = (self.world.number, &mut self.drafts[bridge].tables);
        let old = tables.get(&table);
        let mut rules = old.map_or_else(Classifier::default, |table| table.rules.clone());
        rules.insert(Arc::new(Rule::new(spec, number, Millis(0))).entry());
        let stats = old.map_or_else(Arc::default, |table| Arc::clone(&table.stats));
        tables.insert(table, Arc::new(Table { id: table, rules, stats, changed: number, log: ChangeLog::default() }));
        self.publish();
        self
    }

    pub(super) fn group(&mut self, spec: GroupSpec) -> &mut Self {
        self.drafts[0].groups.insert(spec.id, Arc::new(Group::new(spec, Millis(0))));
        self.publish();
        self
    }

    pub(super) fn meter(&mut self, spec: MeterSpec) -> &mut Self {
        self.drafts[0].meters.insert(spec.id, Arc::new(Meter::new(spec, Millis(0))));
        self.publish();
        self
    }

    pub(super) fn run(&self, packet: &str) -> Translation {
        self.translate(&key(packet), Start::Table)
    }

    pub(super) fn translate(&self, key: &FlowKey, start: Start<'_>) -> Translation {
        let request = Request {
            bridge: 0,
            key,
            start,
            now: Millis(1000),
            side_effects: true,
            learns: None,
            choice: Choice::ByHash,
        };
        translate(&self.world, &request, None)
    }

    /// What becomes of a packet.
    pub(super) fn ops(&self, packet: &str) -> String {
        self.show(&self.run(packet))
    }

    /// Ops, or why there are none.
    pub(super) fn show(&self, translation: &Translation) -> String {
        let mut text = String::new();
        if !translation.ops.is_empty() || translation.drop.is_none() {
            format_ops(&translation.ops, &self.world, &mut text);
        }
        if let Some(reason) = translation.drop {
            let separator = if text.is_empty() { "" } else { ", " };
            text.push_str(&format!("{separator}drop: {}", reason.name()));
        }
        text
    }

    /// The mask of a packet's decision, as a match.
    pub(super) fn mask(&self, packet: &str) -> String {
        let key = key(packet);
        let translation = self.translate(&key, Start::Table);
        let mut text = String::new();
        let matching = SparseMatch::new(&key, &translation.mask);
        format_match(&matching, Style::default(), &NoNames, &mut text);
        text
    }
}

pub(super) fn key(packet: &str) -> FlowKey {
    parse_key(packet, &NoNames).unwrap_or_else(|error| panic!("{packet}: {error}"))
}

pub(super) fn matches(text: &str) -> SparseMatch {
    parse_match(text, &NoNames).unwrap_or_else(|error| panic!("{text}: {error}")).value
}

pub(super) fn sub(text: &str) -> Subfield {
    parse_subfield(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(super) fn out(port: PortNo) -> Action {
    Action::Output { port, max_len: None }
}

pub(super) fn set(field: Field, value: u128) -> Action {
    Action::SetField { field, value, mask: field.ones() }
}

pub(super) fn set_bits(field: Field, value: u128, mask: u128) -> Action {
    Action::SetField { field, value, mask }
}

pub(super) fn copy(from: &str, to: &str) -> Action {
    Action::Move { from: sub(from), to: sub(to) }
}

pub(super) fn resubmit(table: u8) -> Action {
    Action::Resubmit { port: None, table: Some(table), ct: false }
}

pub(super) const TCP: &str = "in_port=1,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,\
                              dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,tcp_src=1234,tcp_dst=80";
pub(super) const ARP: &str = "in_port=1,arp,arp_spa=10.0.0.1,arp_tpa=10.0.0.2,arp_op=1,\
                              dl_src=02:00:00:00:00:01,dl_dst=ff:ff:ff:ff:ff:ff";
