//! Tests of translation, by what it yields: ops as text, mask, credits.

mod headers;
mod lists;
mod outputs;

use super::{Request, Start, Translation, format_ops, translate};
use crate::pipeline::state::PipelineState;
use crate::pipeline::{Bridge, FailMode, Fdb, PortFacts, World};
use crate::port::PortId;
use crate::time::Millis;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use vswitch_flow::action::{PortNo, port};
use vswitch_flow::spec::{FlowFlags, FlowSpec, GroupSpec, Update};
use vswitch_flow::text::{NoNames, Style, format_match, parse_key, parse_match, parse_subfield};
use vswitch_flow::{Action, Field, FlowKey, SparseMatch, Subfield};

/// A bridge under construction, ports `p1` to `p8` and `LOCAL`.
pub(super) struct Setup {
    pub(super) world: World,
    pipelines: Vec<PipelineState>,
}

pub(super) const PORTS: u32 = 8;

impl Setup {
    pub(super) fn new() -> Self {
        let mut setup = Self { world: World::default(), pipelines: Vec::new() };
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
        self.pipelines.push(PipelineState::new(&self.world.changes));
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
            strict: false,
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

    pub(super) fn apply(&mut self, bridge: usize, update: Update) {
        self.world.number += 1;
        let number = self.world.number;
        if let Err(refused) = self.pipelines[bridge].apply(&[update], number, Millis(0)) {
            panic!("{refused}");
        }
        self.publish();
    }

    fn publish(&mut self) {
        for (bridge, pipeline) in self.world.bridges.iter_mut().zip(&self.pipelines) {
            bridge.program = pipeline.program();
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
        self.apply(bridge, Update::AddFlow(spec));
        self
    }

    pub(super) fn group(&mut self, spec: GroupSpec) -> &mut Self {
        self.apply(0, Update::AddGroup(spec));
        self
    }

    pub(super) fn run(&self, packet: &str) -> Translation {
        self.translate(&key(packet), Start::Table)
    }

    pub(super) fn translate(&self, key: &FlowKey, start: Start<'_>) -> Translation {
        let request = Request { bridge: 0, key, start, now: Millis(1000), side_effects: true };
        translate(&self.world, &request, None)
    }

    /// What becomes of a packet.
    pub(super) fn ops(&self, packet: &str) -> String {
        self.show(&self.run(packet))
    }

    /// Ops, or why there are none.
    pub(super) fn show(&self, translation: &Translation) -> String {
        if let Some(reason) = translation.drop {
            assert!(translation.ops.is_empty(), "dropped ({}), but {:?}", reason.name(), translation.ops);
            return format!("drop: {}", reason.name());
        }
        let mut text = String::new();
        format_ops(&translation.ops, &self.world, &mut text);
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
