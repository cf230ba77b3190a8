//! Bridges, ports and programs.

use super::{Pair, array, quote, quoted_path, section, strings};
use crate::config::program::{PIPELINE_KEYS, StaticMac};
use crate::config::value::SwitchConfig;
use crate::{BridgeConfig, FailMode};
use std::fmt::Display;
use vswitch_dataplane::port::{PortConfig, PortKind, VhostConfig, VhostMode, cidr_text};

/// The keys of a bridge, without its ports and its program.
pub(crate) fn bridge_keys(bridge: &BridgeConfig) -> Vec<Pair> {
    let mode = if bridge.fail_mode == FailMode::Standalone { "standalone" } else { "secure" };
    vec![
        ("name", quote(&bridge.name)),
        ("fail_mode", quote(mode)),
        ("fdb_entries", bridge.fdb_entries.to_string()),
        ("fdb_ageing_s", bridge.fdb_ageing_s.to_string()),
        ("strict", bridge.strict.to_string()),
    ]
}

/// Writes a bridge with its ports.
pub(super) fn write(config: &SwitchConfig, bridge: &BridgeConfig, ports: &[PortConfig], text: &mut String) {
    let mut pairs = bridge_keys(bridge);
    if let Some(program) = config.programs.get(&bridge.name) {
        pairs.extend(program.tables.as_ref().map(|tables| {
            let names: Vec<String> =
                tables.iter().map(|(number, name)| format!("{number} = {}", quote(name))).collect();
            ("tables", if names.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", names.join(", ")) })
        }));
        let mappings = program.options.as_ref();
        pairs.extend(mappings.map(|all| ("tlv_map", lines(all.iter().map(|one| quote(&one.to_string()))))));
        pairs.extend(program.macs.as_ref().map(|macs| ("static_macs", lines(macs.iter().map(static_mac)))));
        if let Some(pipeline) = &program.pipeline {
            let lists = PIPELINE_KEYS.into_iter().zip(pipeline.lists());
            pairs.extend(lists.map(|(key, texts)| (key, lines(texts.iter().map(|text| quote(text))))));
        }
    }
    section(text, "[[bridge]]", &pairs);
    for port in ports {
        let mut pairs = port_keys(port);
        let pins = config.pins.range((port.name.clone(), 0)..=(port.name.clone(), u16::MAX));
        let pins: Vec<String> = pins.map(|((_, queue), core)| format!("{queue}:{core}")).collect();
        if !pins.is_empty() {
            pairs.push(("rxq_affinity", quote(&pins.join(","))));
        }
        section(text, "[[bridge.port]]", &pairs);
    }
}

/// An array with one item on each line.
fn lines(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("    {item},\n")).collect();
    if items.is_empty() { "[]".to_owned() } else { format!("[\n{}]", items.concat()) }
}

fn static_mac(mac: &StaticMac) -> String {
    let StaticMac { port, vlan, mac } = mac;
    let vlan = if *vlan == 0 { String::new() } else { format!(", vlan = {vlan}") };
    format!("{{ port = {}, mac = \"{mac}\"{vlan} }}", quote(port))
}

/// The keys of a port.
pub(crate) fn port_keys(port: &PortConfig) -> Vec<Pair> {
    let mut pairs = vec![("name", quote(&port.name)), ("type", quote(port.kind.name()))];
    pairs.extend(port.number.map(|number| ("number", number.to_string())));
    pairs.extend(kind_keys(&port.kind));
    pairs.extend(port.mac.map(|mac| ("mac", quote(&mac.to_string()))));
    if !port.mtu_follows {
        pairs.push(("mtu", port.mtu.to_string()));
    }
    if !port.admin_up {
        pairs.push(("admin_up", "false".to_owned()));
    }
    let flags = [
        ("no_flood", port.no_flood),
        ("no_receive", port.no_receive),
        ("no_forward", port.no_forward),
        ("strict", port.strict),
    ];
    pairs.extend(flags.into_iter().filter(|(_, on)| *on).map(|(key, _)| (key, "true".to_owned())));
    if port.may_tunnel() == matches!(port.kind, PortKind::VhostUser(_)) {
        pairs.push(("underlay", port.may_tunnel().to_string()));
    }
    if !port.addresses.is_empty() {
        pairs.push(("addresses", array(port.addresses.iter().map(|cidr| quote(&cidr_text(cidr))))));
    }
    if !port.external_ids.is_empty() {
        pairs.push(("external_ids", strings(&port.external_ids)));
    }
    pairs
}

/// The keys of its kind.
fn kind_keys(kind: &PortKind) -> Vec<Pair> {
    let queues = |queues: &u16| ("queues", queues.to_string());
    match kind {
        PortKind::Dpdk { devargs, queues: n } => vec![("devargs", quote(devargs)), queues(n)],
        PortKind::VhostUser(vhost) => vhost_keys(vhost),
        PortKind::Tap { interface, queues: n } => vec![("interface", quote(interface)), queues(n)],
        PortKind::AfPacket { interface } => vec![("interface", quote(interface))],
        PortKind::Pcap { rx_file, tx_file, infinite_rx } => {
            let mut pairs = Vec::new();
            pairs.extend(rx_file.as_ref().map(|file| ("rx_file", quoted_path(file))));
            pairs.extend(tx_file.as_ref().map(|file| ("tx_file", quoted_path(file))));
            if *infinite_rx {
                pairs.push(("infinite_rx", "true".to_owned()));
            }
            pairs
        }
        PortKind::Patch { peer } => vec![("peer", quote(peer))],
        PortKind::Internal { queues: n } => vec![queues(n)],
        PortKind::Dummy => Vec::new(),
        PortKind::Tunnel(tunnel) => vec![("options", strings(&tunnel.options()))],
    }
}

fn vhost_keys(vhost: &VhostConfig) -> Vec<Pair> {
    let VhostConfig { path, mode, queues, csum, tso, mergeable, indirect, packed } = vhost;
    let mode = if *mode == VhostMode::Server { "server" } else { "client" };
    let mut pairs = vec![("path", quoted_path(path)), ("mode", quote(mode)), ("queues", queues.to_string())];
    let defaults = VhostConfig::new(path.clone(), VhostMode::Client);
    let features = [
        ("csum", *csum, defaults.csum),
        ("tso", *tso, defaults.tso),
        ("mergeable", *mergeable, defaults.mergeable),
        ("indirect", *indirect, defaults.indirect),
        ("packed", *packed, defaults.packed),
    ];
    let changed = features.into_iter().filter(|(_, on, default)| on != default);
    pairs.extend(changed.map(|(key, on, _)| (key, on.to_string())));
    pairs
}
