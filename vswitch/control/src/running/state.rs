//! The switch as the values of a file.

use super::{Owned, Started};
use crate::config::{BridgeProgram, PipelineText, StaticMac, SwitchConfig, ZoneConfig};
use crate::info::{LOCAL, RouteConfig, SwitchError};
use crate::switch_api::SwitchApi;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use vswitch_conntrack::Tracker;
use vswitch_dataplane::port::PortConfig;
use vswitch_flow::spec::{FlowFilter, FlowSpec};
use vswitch_flow::text::{Names, Style, format_flow, format_group, format_meter};

/// What there is, and what of it a file does not have.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) config: SwitchConfig,
    pub(super) left_out: Vec<String>,
}

/// Reads the switch. Not of one moment.
pub(super) fn read(switch: &dyn SwitchApi, started: &Started, owned: &Owned) -> Result<Read, SwitchError> {
    let mut config = SwitchConfig { saved: None, ..started.config.clone() };
    let mut left_out = Vec::new();
    let named: BTreeSet<&str> =
        started.file_config.bridges.iter().flat_map(|(_, ports)| ports).map(|port| port.name.as_str()).collect();
    (config.bridges, config.programs, config.pins) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let mut ports_left_out = BTreeSet::new();
    for bridge in switch.bridges() {
        let mut ports = Vec::new();
        for info in bridge.ports.iter().filter(|info| !info.opening) {
            let name = &info.config.name;
            if let Some(why) = owned.ports.get(name).filter(|_| !named.contains(name.as_str())) {
                left_out.push(format!("port {name}: {why}"));
                ports_left_out.insert(name.clone());
                continue;
            }
            let number = (info.number != LOCAL).then_some(info.number);
            ports.push(PortConfig { number, ..info.config.clone() });
        }
        let name = &bridge.config.name;
        let mut program = BridgeProgram { macs: Some(macs(switch, name, &ports)?), ..BridgeProgram::default() };
        match owned.bridges.get(name) {
            Some(why) => left_out.push(format!("tables, groups, meters and flows of bridge {name}: {why}")),
            None => pipeline(switch, name, &mut program, &mut left_out)?,
        }
        config.programs.insert(name.clone(), program);
        config.bridges.push((bridge.config, ports));
    }
    for rxq in switch.rxqs().into_iter().filter(|rxq| rxq.pinned && !ports_left_out.contains(&rxq.port)) {
        config.pins.insert((rxq.port, rxq.queue), rxq.core);
    }
    config.routes = switch.routes().into_iter().filter(|route| route.user).filter_map(route).collect();
    config.routes.retain(|route| !ports_left_out.contains(&route.port));
    conntrack(switch.conntrack().tracker(), owned, &mut config);
    Ok(Read { config, left_out })
}

fn route(info: crate::RouteInfo) -> Option<RouteConfig> {
    let prefix = info.prefix.parse().ok()?;
    Some(RouteConfig { prefix, port: info.port, gateway: info.gateway, source: info.source })
}

fn macs(switch: &dyn SwitchApi, bridge: &str, ports: &[PortConfig]) -> Result<BTreeSet<StaticMac>, SwitchError> {
    let statics = switch.fdb(bridge)?.into_iter().filter(|entry| entry.age_s.is_none());
    let statics = statics.filter(|entry| ports.iter().any(|port| port.name == entry.port));
    Ok(statics.map(|entry| StaticMac { port: entry.port, vlan: entry.vlan, mac: entry.mac }).collect())
}

/// Tables, options and the pipeline of a bridge.
fn pipeline(
    switch: &dyn SwitchApi,
    bridge: &str,
    program: &mut BridgeProgram,
    left_out: &mut Vec<String>,
) -> Result<(), SwitchError> {
    let names = switch.names(bridge)?;
    let mut options = switch.option_map(bridge)?;
    options.sort_by_key(|mapping| mapping.field);
    program.options = Some(options);
    program.tables = Some(tables(switch, bridge)?);
    let flows: Vec<FlowSpec> =
        switch.flows(bridge, &FlowFilter::default())?.into_iter().map(|info| info.flow).collect();
    let (stay, go): (Vec<_>, Vec<_>) =
        flows.into_iter().partition(|flow| flow.idle_timeout == 0 && flow.hard_timeout == 0);
    if !go.is_empty() {
        left_out.push(format!("{} flows with a timeout in bridge {bridge}", go.len()));
    }
    let groups = switch.groups(bridge, None)?.into_iter().map(|info| info.group);
    let meters = switch.meters(bridge, None)?.into_iter().map(|info| info.meter);
    program.pipeline = Some(PipelineText {
        // A dump has each band on a line of its own.
        meters: meters
            .map(|meter| written(|out| format_meter(&meter, out)).replace("bands=\n", "bands=").replace('\n', " "))
            .collect(),
        groups: groups.map(|group| written(|out| format_group(&group, STYLE, &names, out))).collect(),
        flows: flow_texts(&stay, &names),
    });
    Ok(())
}

/// Ports and tables by name.
const STYLE: Style = Style { names: true };

/// Names of a bridge's tables.
pub(super) fn tables(switch: &dyn SwitchApi, bridge: &str) -> Result<BTreeMap<u8, String>, SwitchError> {
    let tables = switch.tables(bridge)?;
    Ok(tables.into_iter().filter_map(|table| Some((table.id, table.name?))).collect())
}

fn written(write: impl FnOnce(&mut String)) -> String {
    let mut text = String::new();
    write(&mut text);
    text
}

/// Flows as texts, in an order that does not depend on when they were added.
pub(super) fn flow_texts(flows: &[FlowSpec], names: &dyn Names) -> Vec<String> {
    let text = |flow: &FlowSpec| written(|out| format_flow(flow, None, STYLE, names, out));
    let mut texts: Vec<_> = flows.iter().map(|flow| (flow.table, Reverse(flow.priority), text(flow))).collect();
    texts.sort();
    texts.into_iter().map(|(_, _, text)| text).collect()
}

/// What is set of zones. Whether established means answered is the owner's, in its zones.
fn conntrack(tracker: &Tracker, owned: &Owned, config: &mut SwitchConfig) {
    let (limits, counts) = tracker.limits();
    config.conntrack.tcp_seq_check = tracker.checks_windows();
    config.conntrack.default_limit = limits.default;
    let mut zones: BTreeMap<u16, ZoneConfig> = BTreeMap::new();
    let mut of = |zone: u16, set: &dyn Fn(&mut ZoneConfig)| set(zones.entry(zone).or_insert_with(|| plain(zone)));
    for count in counts.into_iter().filter(|count| count.limit.is_some()) {
        of(count.zone, &|zone| zone.limit = count.limit);
    }
    for (number, policy) in tracker.policies() {
        of(number, &|zone| zone.timeouts = Some(policy));
    }
    for number in tracker.zones_established_after_answer() {
        if !owned.zones.contains(&number) {
            of(number, &|zone| zone.established_after_answer = true);
        }
    }
    config.conntrack.zones = zones.into_values().collect();
}

/// A zone without anything of its own.
pub(super) const fn plain(zone: u16) -> ZoneConfig {
    ZoneConfig { zone, limit: None, timeouts: None, established_after_answer: false }
}
