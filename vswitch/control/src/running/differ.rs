//! What differs between two configurations, part by part.

use super::state;
use crate::config::program::FileNames;
use crate::config::write::{self, Pair};
use crate::config::{BridgeProgram, PipelineText, SwitchConfig};
use crate::info::PortChange;
use std::collections::BTreeSet;
use vswitch_dataplane::port::PortConfig;
use vswitch_dataplane::time::Millis;
use vswitch_flow::spec::FlowFilter;
use vswitch_flow::text::{Names, NoNames, Style, format_group, format_meter};
use vswitch_overlay::options::Mapping;

/// Keys that differ, in words.
pub(super) fn differences(title: &str, old: &[Pair], new: &[Pair]) -> Vec<String> {
    let value = |pairs: &[Pair], key: &str| pairs.iter().find(|(own, _)| *own == key).map(|(_, value)| value.clone());
    let keys: BTreeSet<&str> = old.iter().chain(new).map(|(key, _)| *key).collect();
    let shown = |value: Option<String>| value.unwrap_or_else(|| "the default".to_owned());
    let differs = keys.into_iter().filter(|key| value(old, key) != value(new, key));
    differs.map(|key| format!("{title}{key} {} -> {}", shown(value(old, key)), shown(value(new, key)))).collect()
}

/// What differs between the pipeline that there is and the one that is wanted.
pub(super) fn pipeline_differs(
    now: &SwitchConfig,
    want: &SwitchConfig,
    bridge: &str,
    new: &BridgeProgram,
    text: &PipelineText,
) -> Option<String> {
    let nothing = BridgeProgram::default();
    let old = now.programs.get(bridge).unwrap_or(&nothing);
    let ports_of = |config: &SwitchConfig| {
        let found = config.bridges.iter().find(|(own, _)| own.name == bridge);
        found.map(|(_, ports)| ports.clone()).unwrap_or_default()
    };
    let there = ports_of(now);
    let mut planned = ports_of(want);
    for port in &mut planned {
        let same = there.iter().find(|other| other.name == port.name);
        port.number = port.number.or(same.and_then(|same| same.number));
    }
    let was = old.pipeline.clone().unwrap_or_default();
    let before = lines_of(&was, &FileNames::new(bridge, &there, old.tables.as_ref()), old.options.as_ref());
    let tables = new.tables.as_ref().or(old.tables.as_ref());
    let after =
        lines_of(text, &FileNames::new(bridge, &planned, tables), new.options.as_ref().or(old.options.as_ref()));
    if before == after && old.pipeline.is_some() {
        return None;
    }
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let gone = before.difference(&after).count();
    let come = after.difference(&before).count();
    Some(format!("change flows, groups and meters of bridge {bridge}: {come} come, {gone} go"))
}

/// All ports with their bridges.
pub(super) fn ports(config: &SwitchConfig) -> impl Iterator<Item = (&String, &PortConfig)> {
    config.bridges.iter().flat_map(|(bridge, ports)| ports.iter().map(move |port| (&bridge.name, port)))
}

/// Why a port has to be deleted and added; empty: it has not.
pub(super) fn replaced(at: &str, old: &PortConfig, bridge: &str, new: &PortConfig) -> String {
    if at != bridge {
        return format!("bridge {at} -> {bridge}");
    }
    let number = new.number.or(old.number);
    let pairs = |port: &PortConfig, number| {
        // What cannot be changed while the port is there.
        let bare = PortConfig { mac: port.mac, number, ..PortConfig::new(&port.name, port.kind.clone()) };
        write::port_keys(&bare)
    };
    differences("", &pairs(old, old.number), &pairs(new, number)).join(", ")
}

/// What can be changed while the port is there.
pub(super) fn modified(old: &PortConfig, new: &PortConfig) -> PortChange {
    let flag = |old: bool, new: bool| (old != new).then_some(new);
    let mtu_differs = old.mtu_follows != new.mtu_follows || (!new.mtu_follows && old.mtu != new.mtu);
    PortChange {
        admin_up: flag(old.admin_up, new.admin_up),
        no_flood: flag(old.no_flood, new.no_flood),
        no_receive: flag(old.no_receive, new.no_receive),
        no_forward: flag(old.no_forward, new.no_forward),
        addresses: (old.addresses != new.addresses).then(|| new.addresses.clone()),
        strict: flag(old.strict, new.strict),
        underlay: flag(old.may_tunnel(), new.may_tunnel()),
        mtu: mtu_differs.then_some(new.mtu),
        mtu_follows: mtu_differs.then_some(new.mtu_follows),
        external_ids: (old.external_ids != new.external_ids).then(|| new.external_ids.clone()),
    }
}

/// The lines that a pipeline comes to, in one form. None: it is refused, which its step tells.
fn lines_of(text: &PipelineText, names: &dyn Names, options: Option<&Vec<Mapping>>) -> Option<BTreeSet<String>> {
    let pipeline = text.judged(names, options.map(Vec::as_slice).unwrap_or_default()).ok()?;
    let now = Millis::now();
    let plain = NoNames;
    let flows: Vec<_> = pipeline.flows(&FlowFilter::default(), now).into_iter().map(|info| info.flow).collect();
    let mut lines: BTreeSet<String> = state::flow_texts(&flows, &plain).into_iter().collect();
    for info in pipeline.groups(None, now) {
        let mut line = String::new();
        format_group(&info.group, Style { names: false }, &plain, &mut line);
        lines.insert(line);
    }
    for info in pipeline.meters(None, now) {
        let mut line = String::new();
        format_meter(&info.meter, &mut line);
        lines.insert(line);
    }
    Some(lines)
}
