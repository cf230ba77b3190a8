//! From what there is to what is wanted: the steps, in an order that interrupts nothing else.
//!
//! **Order**: routes and ports that go; bridges that go; bridges that come; ports that come, and
//! ports that change; programs; static addresses, pins, routes and zones. A port that is replaced
//! is deleted and added.

use super::differ::{differences, modified, pipeline_differs, ports, replaced};
use super::step::Action;
use super::{Owned, state};
use crate::access::Asker;
use crate::config::write;
use crate::config::{BridgeProgram, SwitchConfig};
use crate::info::{BridgeChange, BridgeConfig, PortChange};
use std::collections::{BTreeMap, BTreeSet};
use vswitch_dataplane::port::{PortConfig, cidr_text};

/// A step, and what it does in words.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) words: String,
    pub(super) action: Action,
}

/// What is to be done, and what cannot.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// What needs a restart.
    pub(super) restart: Vec<String>,
    /// What belongs to another owner.
    pub(super) refused: Vec<String>,
}

/// The plan, while it is made.
struct Planner<'a> {
    now: &'a SwitchConfig,
    want: &'a SwitchConfig,
    owned: &'a Owned,
    /// Who asks for ports that come.
    asker: Asker,
    plan: Plan,
    /// Ports of `now` that go: what they had goes with them.
    gone: BTreeSet<String>,
}

/// The steps from one to the other. Ports that come are opened for `asker`.
pub(super) fn plan(now: &SwitchConfig, want: &SwitchConfig, owned: &Owned, asker: Asker) -> Plan {
    let mut planner = Planner { now, want, owned, asker, plan: Plan::default(), gone: BTreeSet::new() };
    planner.fixed();
    let mut coming = planner.ports_that_go();
    planner.bridges_that_go();
    planner.bridges_that_come();
    planner.ports_that_come(&mut coming);
    planner.programs();
    planner.pins();
    planner.routes_that_come();
    planner.tracking();
    planner.plan
}

impl Planner<'_> {
    fn step(&mut self, words: impl Into<String>, action: Action) {
        self.plan.steps.push(Step { words: words.into(), action });
    }

    fn fixed(&mut self) {
        for ((name, old), (_, new)) in write::fixed(self.now).iter().zip(&write::fixed(self.want)) {
            self.plan.restart.extend(differences(&format!("[{name}] "), old, new));
        }
        for (bridge, _) in &self.want.bridges {
            let Some((old, _)) = self.now.bridges.iter().find(|(old, _)| old.name == bridge.name) else { continue };
            let pairs = |bridge: &BridgeConfig| {
                vec![("fdb_entries", bridge.fdb_entries.to_string()), ("fdb_ageing_s", bridge.fdb_ageing_s.to_string())]
            };
            self.plan.restart.extend(differences(&format!("bridge {}: ", bridge.name), &pairs(old), &pairs(bridge)));
        }
    }

    /// Ports that are deleted or replaced, and routes that go. Returns the ports that are to come:
    /// with the name of their bridge, and why.
    fn ports_that_go(&mut self) -> Vec<(String, PortConfig, String)> {
        let (now, want) = (self.now, self.want);
        let mut coming = Vec::new();
        for (bridge, port) in ports(want) {
            let old = ports(now).find(|(_, old)| old.name == port.name);
            match old {
                None => coming.push((bridge.clone(), port.clone(), String::new())),
                Some((at, old)) => {
                    let why = replaced(at, old, bridge, port);
                    if !why.is_empty() {
                        self.gone.insert(port.name.clone());
                        // Its number stays, if nothing is said of it and the bridge is the same.
                        let number = port.number.or(old.number.filter(|_| at == bridge));
                        coming.push((bridge.clone(), PortConfig { number, ..port.clone() }, why));
                    }
                }
            }
        }
        let wanted: BTreeSet<&str> = ports(want).map(|(_, port)| port.name.as_str()).collect();
        let deleted = ports(now).filter(|(_, port)| !wanted.contains(port.name.as_str()));
        self.gone.extend(deleted.map(|(_, port)| port.name.clone()));
        for route in &now.routes {
            let stays = want.routes.iter().any(|other| other.prefix == route.prefix);
            if !stays && !self.gone.contains(&route.port) {
                let prefix = cidr_text(&route.prefix);
                self.step(format!("delete route {prefix}"), Action::DeleteRoute(route.prefix));
            }
        }
        for (bridge, port) in ports(now).filter(|(_, port)| self.gone.contains(&port.name)).collect::<Vec<_>>() {
            if let Some(why) = self.owned.ports.get(&port.name) {
                self.plan.refused.push(format!("port {}: {why}", port.name));
            }
            let action = Action::DeletePort { bridge: bridge.clone(), port: port.name.clone() };
            match coming.iter().find(|(_, new, _)| new.name == port.name) {
                Some((_, _, why)) => self.step(format!("replace port {}: {why}", port.name), action),
                None => self.step(format!("delete port {} of bridge {bridge}", port.name), action),
            }
        }
        coming
    }

    fn bridges_that_go(&mut self) {
        let (now, want) = (self.now, self.want);
        for (bridge, _) in &now.bridges {
            if want.bridges.iter().any(|(other, _)| other.name == bridge.name) {
                continue;
            }
            if self.owned.bridges.contains_key(&bridge.name) {
                // Its owner needs it: a text need not name it.
                continue;
            }
            self.step(format!("delete bridge {}", bridge.name), Action::DeleteBridge(bridge.name.clone()));
        }
    }

    fn bridges_that_come(&mut self) {
        let (now, want) = (self.now, self.want);
        for (bridge, _) in &want.bridges {
            let name = &bridge.name;
            let Some((old, _)) = now.bridges.iter().find(|(old, _)| old.name == *name) else {
                let programmed = want.programs.get(name).is_some_and(|program| program.pipeline.is_some());
                self.step(format!("add bridge {name}"), Action::AddBridge { config: bridge.clone(), programmed });
                continue;
            };
            let change = BridgeChange {
                fail_mode: (old.fail_mode != bridge.fail_mode).then_some(bridge.fail_mode),
                strict: (old.strict != bridge.strict).then_some(bridge.strict),
            };
            if let (Some(_), Some(why)) = (change.fail_mode, self.owned.bridges.get(name)) {
                self.plan.refused.push(format!("fail_mode of bridge {name}: {why}"));
            }
            if change != BridgeChange::default() {
                let words = differences("", &write::bridge_keys(old), &write::bridge_keys(bridge)).join(", ");
                let action = Action::SetBridge { bridge: name.clone(), change };
                self.step(format!("change bridge {name}: {words}"), action);
            }
        }
    }

    fn ports_that_come(&mut self, coming: &mut Vec<(String, PortConfig, String)>) {
        // Those that ask for a number first: no other gets it.
        coming.sort_by_key(|(_, port, _)| port.number.is_none());
        for (bridge, config, why) in coming.drain(..) {
            let words = match why.is_empty() {
                true => format!("add port {} ({}) to bridge {bridge}", config.name, config.kind.name()),
                false => format!("add port {} again, as it is to be", config.name),
            };
            // One that is there already, and stays the same device.
            let same = ports(self.now).any(|(_, old)| old.name == config.name && old.kind == config.kind);
            let asker = if same { Asker::Reload } else { self.asker };
            self.step(words, Action::AddPort { bridge, config, asker });
        }
        let (now, want) = (self.now, self.want);
        for (bridge, port) in ports(want) {
            let old = ports(now).find(|(at, old)| old.name == port.name && *at == bridge);
            let Some((_, old)) = old.filter(|_| !self.gone.contains(&port.name)) else { continue };
            let change = modified(old, port);
            if change == PortChange::default() {
                continue;
            }
            let target = PortConfig { number: old.number, ..port.clone() };
            let words = differences("", &write::port_keys(old), &write::port_keys(&target)).join(", ");
            let action = Action::ModifyPort { bridge: bridge.clone(), port: port.name.clone(), change };
            self.step(format!("change port {}: {words}", port.name), action);
        }
    }

    fn programs(&mut self) {
        let (now, want) = (self.now, self.want);
        let nothing = BridgeProgram::default();
        for (name, program) in &want.programs {
            let old = now.programs.get(name).unwrap_or(&nothing);
            if let (Some(why), true) = (self.owned.bridges.get(name), says_pipeline(program)) {
                self.plan.refused.push(format!("tables, options, flows, groups and meters of bridge {name}: {why}"));
                continue;
            }
            let bridge = || name.clone();
            if let Some(tables) = program.tables.as_ref().filter(|tables| old.tables.as_ref() != Some(*tables))
                && !(tables.is_empty() && old.tables.is_none())
            {
                let action = Action::Tables { bridge: bridge(), want: tables.clone() };
                self.step(format!("change names of tables of bridge {name}"), action);
            }
            let there = old.options.clone().unwrap_or_default();
            let wanted = program.options.clone().unwrap_or_else(|| there.clone());
            let add: Vec<_> = wanted.iter().filter(|one| !there.contains(one)).copied().collect();
            let delete: Vec<_> = there.iter().filter(|one| !wanted.contains(one)).copied().collect();
            if !add.is_empty() {
                let words = format!("map {} options of Geneve in bridge {name}", add.len());
                self.step(words, Action::AddOptions { bridge: bridge(), options: add });
            }
            if let Some(text) = &program.pipeline
                && let Some(words) = pipeline_differs(now, want, name, program, text)
            {
                self.step(words, Action::Pipeline { bridge: bridge(), want: text.clone() });
            }
            if !delete.is_empty() {
                let words = format!("unmap {} options of Geneve in bridge {name}", delete.len());
                self.step(words, Action::DeleteOptions { bridge: bridge(), options: delete });
            }
            self.macs(name, old, program);
        }
    }

    fn macs(&mut self, name: &str, old: &BridgeProgram, program: &BridgeProgram) {
        let Some(macs) = &program.macs else { return };
        let left = old.macs.iter().flatten().filter(|mac| !self.gone.contains(&mac.port));
        if left.cloned().collect::<BTreeSet<_>>() != *macs {
            let action = Action::Macs { bridge: name.to_owned(), want: macs.clone() };
            self.step(format!("change static addresses of bridge {name}"), action);
        }
    }

    fn pins(&mut self) {
        let (now, want) = (self.now, self.want);
        let exists = |port: &str| ports(want).any(|(_, own)| own.name == port);
        for (port, queue) in now.pins.keys() {
            let place = (port.clone(), *queue);
            if !want.pins.contains_key(&place) && exists(port) && !self.gone.contains(port) {
                let action = Action::Pin { port: port.clone(), queue: *queue, core: None };
                self.step(format!("unpin receive queue {queue} of port {port}"), action);
            }
        }
        for ((port, queue), core) in &want.pins {
            let is_so = now.pins.get(&(port.clone(), *queue)) == Some(core) && !self.gone.contains(port);
            if !is_so {
                let action = Action::Pin { port: port.clone(), queue: *queue, core: Some(*core) };
                self.step(format!("pin receive queue {queue} of port {port} to core {core}"), action);
            }
        }
    }

    fn routes_that_come(&mut self) {
        let (now, want) = (self.now, self.want);
        for route in &want.routes {
            // Without a source, the port's address that fits is the source.
            let is_so = now.routes.iter().any(|old| {
                old.prefix == route.prefix
                    && old.port == route.port
                    && old.gateway == route.gateway
                    && (route.source.is_none() || old.source == route.source)
            });
            if !is_so || self.gone.contains(&route.port) {
                let words = format!("set route {} by port {}", cidr_text(&route.prefix), route.port);
                self.step(words, Action::AddRoute(route.clone()));
            }
        }
    }

    fn tracking(&mut self) {
        let (now, want) = (&self.now.conntrack, &self.want.conntrack);
        if now.tcp_seq_check != want.tcp_seq_check {
            let words = format!("[conntrack] tcp_seq_check {} -> {}", now.tcp_seq_check, want.tcp_seq_check);
            self.step(words, Action::SeqCheck(want.tcp_seq_check));
        }
        if now.default_limit != want.default_limit {
            let shown = |limit: Option<u32>| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
            let words =
                format!("[conntrack] default_limit {} -> {}", shown(now.default_limit), shown(want.default_limit));
            self.step(words, Action::DefaultLimit(want.default_limit));
        }
        let zones: BTreeMap<u16, _> = want.zones.iter().map(|zone| (zone.zone, *zone)).collect();
        let there: BTreeMap<u16, _> = now.zones.iter().map(|zone| (zone.zone, *zone)).collect();
        for number in zones.keys().chain(there.keys()).collect::<BTreeSet<_>>() {
            let plain = state::plain(*number);
            let (old, mut new) =
                (there.get(number).copied().unwrap_or(plain), zones.get(number).copied().unwrap_or(plain));
            if self.owned.zones.contains(number) {
                if new.established_after_answer {
                    self.plan.refused.push(format!("established_after_answer of zone {number}: its agent sets it"));
                }
                new.established_after_answer = true;
                if (old.limit, old.timeouts) == (new.limit, new.timeouts) {
                    continue;
                }
            }
            if old != new {
                let words = differences("", &write::zone(&old), &write::zone(&new)).join(", ");
                self.step(format!("change zone {number}: {words}"), Action::Zone(new));
            }
        }
    }
}

fn says_pipeline(program: &BridgeProgram) -> bool {
    program.tables.is_some() || program.options.is_some() || program.pipeline.is_some()
}
