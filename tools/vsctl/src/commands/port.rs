//! Ports.

use crate::cli::{AddPort, ModPort, PortState, PortType, VhostMode};
use crate::client::Client;
use crate::error::Error;
use crate::output::{self, Answer, Done, Report, port_number};
use clap::error::ErrorKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use vswitch_net_types::shown;
use vswitch_proto::v1;
use vswitch_proto::v1::port_config::Kind;

pub(super) async fn add(client: &Client, args: &AddPort) -> Answer {
    let request = v1::AddPortRequest { bridge: args.bridge.clone(), port: Some(config(args)?) };
    let added = client.answer(client.ports().await?.add_port(request).await)?;
    Ok(Box::new(Changed { port: added.port.unwrap_or_default(), warnings: added.warnings }))
}

pub(super) async fn delete(client: &Client, bridge: &str, name: &str) -> Answer {
    let request = v1::DeletePortRequest { bridge: bridge.to_owned(), name: name.to_owned() };
    client.answer(client.ports().await?.delete_port(request).await)?;
    Ok(Box::new(Done))
}

pub(super) async fn list(client: &Client, bridge: &str) -> Answer {
    let request = v1::ListPortsRequest { bridge: bridge.to_owned() };
    Ok(Box::new(Names(client.answer(client.ports().await?.list_ports(request).await)?.ports)))
}

pub(super) async fn modify(client: &Client, args: &ModPort) -> Answer {
    let request = change(args)?;
    let port = client.answer(client.ports().await?.modify_port(request).await)?.port.unwrap_or_default();
    Ok(Box::new(Changed { port, warnings: Vec::new() }))
}

/// Wrong use of a verb. `main` adds the usage of that verb.
pub(super) fn usage(kind: ErrorKind, message: impl std::fmt::Display) -> Error {
    clap::Error::raw(kind, message).into()
}

/// Options that mean nothing to the chosen kind of port. (Number, address, MTU, flags and external
/// ids suit every kind.)
fn strangers(args: &AddPort) -> Vec<&'static str> {
    use PortType::{AfPacket, Dpdk, Dummy, Geneve, Gre, Internal, Patch, Pcap, Tap, VhostUser, Vxlan};
    let options: [(&str, bool, &[PortType]); 16] = [
        ("--devargs", args.devargs.is_some(), &[Dpdk]),
        ("--queues", args.queues.is_some(), &[Dpdk, VhostUser, Tap, Internal]),
        ("--path", args.path.is_some(), &[VhostUser]),
        ("--mode", args.mode.is_some(), &[VhostUser]),
        ("--no-csum", args.no_csum, &[VhostUser]),
        ("--no-tso", args.no_tso, &[VhostUser]),
        ("--no-mergeable", args.no_mergeable, &[VhostUser]),
        ("--no-indirect", args.no_indirect, &[VhostUser]),
        ("--packed", args.packed, &[VhostUser]),
        ("--interface", args.interface.is_some(), &[Tap, AfPacket]),
        ("--peer", args.peer.is_some(), &[Patch]),
        ("--rx-file", args.rx_file.is_some(), &[Pcap]),
        ("--tx-file", args.tx_file.is_some(), &[Pcap]),
        ("--infinite-rx", args.infinite_rx, &[Pcap]),
        ("--address", !args.addresses.is_empty(), &[Internal, Tap, Dummy]),
        ("--option", !args.options.is_empty(), &[Geneve, Vxlan, Gre]),
    ];
    let strange = options.iter().filter(|(_, given, kinds)| *given && !kinds.contains(&args.port_type));
    strange.map(|(name, ..)| *name).collect()
}

fn config(args: &AddPort) -> Result<v1::PortConfig, Error> {
    let strangers = strangers(args);
    if !strangers.is_empty() {
        let message = format!("{} cannot be used with this --type", strangers.join(", "));
        return Err(usage(ErrorKind::ArgumentConflict, message));
    }
    let interface = args.interface.clone().unwrap_or_default();
    let kind = match args.port_type {
        PortType::Dpdk => {
            Kind::Dpdk(v1::DpdkPort { devargs: args.devargs.clone().unwrap_or_default(), queues: args.queues })
        }
        PortType::VhostUser => Kind::VhostUser(vhost(args)),
        PortType::Tap => Kind::Tap(v1::TapPort { interface, queues: args.queues }),
        PortType::AfPacket => Kind::AfPacket(v1::AfPacketPort { interface }),
        PortType::Pcap => Kind::Pcap(v1::PcapPort {
            rx_file: args.rx_file.clone(),
            tx_file: args.tx_file.clone(),
            infinite_rx: args.infinite_rx,
        }),
        PortType::Patch => Kind::Patch(v1::PatchPort { peer: args.peer.clone().unwrap_or_default() }),
        PortType::Internal => Kind::Internal(v1::InternalPort { queues: args.queues }),
        PortType::Dummy => Kind::Dummy(v1::DummyPort {}),
        PortType::Geneve => tunnel(v1::TunnelKind::Geneve, args),
        PortType::Vxlan => tunnel(v1::TunnelKind::Vxlan, args),
        PortType::Gre => tunnel(v1::TunnelKind::Gre, args),
    };
    Ok(v1::PortConfig {
        name: args.name.clone(),
        number: args.number,
        mac: args.mac.map(|octets| v1::MacAddress { octets: octets.to_vec() }),
        mtu: args.mtu,
        admin_up: args.admin_down.then_some(false),
        no_flood: args.no_flood,
        no_receive: false,
        no_forward: false,
        strict: args.strict,
        underlay: (args.underlay || args.no_underlay).then_some(args.underlay),
        external_ids: args.external_ids.iter().cloned().collect(),
        addresses: args.addresses.clone(),
        kind: Some(kind),
    })
}

fn tunnel(kind: v1::TunnelKind, args: &AddPort) -> Kind {
    Kind::Tunnel(v1::TunnelPort { kind: kind.into(), options: args.options.iter().cloned().collect() })
}

fn vhost(args: &AddPort) -> v1::VhostUserPort {
    let mode = match args.mode {
        None => v1::VhostUserMode::Unspecified,
        Some(VhostMode::Client) => v1::VhostUserMode::Client,
        Some(VhostMode::Server) => v1::VhostUserMode::Server,
    };
    v1::VhostUserPort {
        path: args.path.clone().unwrap_or_default(),
        mode: mode.into(),
        queues: args.queues,
        csum: args.no_csum.then_some(false),
        // TSO needs checksums: who wants no checksums wants no TSO.
        tso: (args.no_tso || args.no_csum).then_some(false),
        mergeable: args.no_mergeable.then_some(false),
        indirect: args.no_indirect.then_some(false),
        packed: args.packed,
    }
}

fn change(args: &ModPort) -> Result<v1::ModifyPortRequest, Error> {
    let mut request = v1::ModifyPortRequest {
        bridge: args.bridge.clone(),
        name: args.name.clone(),
        mtu: args.mtu,
        ..Default::default()
    };
    for state in &args.state {
        let (field, value) = match state {
            PortState::Up => (&mut request.admin_up, true),
            PortState::Down => (&mut request.admin_up, false),
            PortState::Flood => (&mut request.no_flood, false),
            PortState::NoFlood => (&mut request.no_flood, true),
            PortState::Receive => (&mut request.no_receive, false),
            PortState::NoReceive => (&mut request.no_receive, true),
            PortState::Forward => (&mut request.no_forward, false),
            PortState::NoForward => (&mut request.no_forward, true),
            PortState::Strict => (&mut request.strict, true),
            PortState::NoStrict => (&mut request.strict, false),
            PortState::Underlay => (&mut request.underlay, true),
            PortState::NoUnderlay => (&mut request.underlay, false),
        };
        if field.replace(value).is_some_and(|old| old != value) {
            let message = "up and down, or a word and the same with no-, exclude each other";
            return Err(usage(ErrorKind::ArgumentConflict, message));
        }
    }
    if args.no_external_ids || !args.external_ids.is_empty() {
        request.external_ids = Some(v1::ExternalIds { ids: args.external_ids.iter().cloned().collect() });
    }
    if args.no_addresses || !args.addresses.is_empty() {
        request.addresses = Some(v1::Addresses { cidrs: args.addresses.clone() });
    }
    let nothing = args.mtu.is_none() && request.external_ids.is_none() && request.addresses.is_none();
    if args.state.is_empty() && nothing {
        let message = "nothing to change: give up, down, flood, receive, forward, strict, or one of the last four with no-, --mtu, \
                       --external-id, --no-external-ids, --address or --no-addresses";
        return Err(usage(ErrorKind::MissingRequiredArgument, message));
    }
    Ok(request)
}

/// What is special about a kind of port, under the names of the configuration file.
fn options(kind: Option<&Kind>) -> Value {
    match kind {
        Some(Kind::Dpdk(port)) => json!({ "devargs": port.devargs, "queues": port.queues }),
        Some(Kind::VhostUser(port)) => json!({
            "path": port.path,
            "mode": match port.mode() {
                v1::VhostUserMode::Unspecified => "unknown",
                v1::VhostUserMode::Client => "client",
                v1::VhostUserMode::Server => "server",
            },
            "queues": port.queues,
            "csum": port.csum,
            "tso": port.tso,
            "mergeable": port.mergeable,
            "indirect": port.indirect,
            "packed": port.packed,
        }),
        Some(Kind::Tap(port)) => json!({ "interface": port.interface, "queues": port.queues }),
        Some(Kind::AfPacket(port)) => json!({ "interface": port.interface }),
        Some(Kind::Pcap(port)) => {
            json!({ "rx_file": port.rx_file, "tx_file": port.tx_file, "infinite_rx": port.infinite_rx })
        }
        Some(Kind::Patch(port)) => json!({ "peer": port.peer }),
        Some(Kind::Tunnel(port)) => json!(port.options.iter().collect::<BTreeMap<_, _>>()),
        Some(Kind::Internal(port)) => json!({ "queues": port.queues }),
        Some(Kind::Dummy(v1::DummyPort {})) | None => json!({}),
    }
}

/// A port, for programs.
pub(super) fn json(port: &v1::Port) -> Value {
    let config = port.config.clone().unwrap_or_default();
    json!({
        "name": config.name,
        "number": port.number,
        "type": port.r#type,
        "bridge": port.bridge,
        "link_up": port.link_up,
        "link_speed_mbps": port.link_speed_mbps,
        "admin_up": config.admin_up.unwrap_or(true),
        "no_flood": config.no_flood,
        "no_receive": config.no_receive,
        "no_forward": config.no_forward,
        "strict": config.strict,
        "underlay": config.underlay,
        "mac": output::mac(port.mac.as_ref()),
        "mtu": config.mtu,
        "interface_mtu": port.interface_mtu,
        "rx_queues": port.rx_queues,
        "tx_queues": port.tx_queues,
        "offloads": port.offloads,
        "external_ids": config.external_ids.iter().collect::<BTreeMap<_, _>>(),
        "addresses": config.addresses,
        "options": options(config.kind.as_ref()),
        "error": port.error,
        "waiting": port.waiting,
    })
}

/// Pairs as `a=1, b=2`; strings without quotes, nothing of what is not set.
fn pairs(object: &Value) -> String {
    let pairs = object.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let pairs = pairs.map(|(key, value)| match value {
        Value::String(value) => format!("{}={}", shown(key), shown(value)),
        other => format!("{}={other}", shown(key)),
    });
    pairs.collect::<Vec<_>>().join(", ")
}

/// A port, for people: its part of `show`.
pub(super) fn describe(port: &v1::Port) -> String {
    let config = port.config.clone().unwrap_or_default();
    let mut text = format!("    Port {}\n        number: {}\n", config.name, port_number(port.number));
    let mut line = |key: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "        {key}: {value}");
        }
    };
    let all = json(port);
    let options = pairs(&all["options"]);
    let kind = if options.is_empty() { port.r#type.clone() } else { format!("{} ({options})", port.r#type) };
    line("type", &kind);
    let speed = if port.link_speed_mbps > 0 { format!(", {} Mbit/s", port.link_speed_mbps) } else { String::new() };
    line("link", &format!("{}{speed}", if port.link_up { "up" } else { "down" }));
    let flags = [
        ("admin-down", config.admin_up == Some(false)),
        ("no-flood", config.no_flood),
        ("no-receive", config.no_receive),
        ("no-forward", config.no_forward),
        ("strict", config.strict),
        ("underlay", config.underlay == Some(true)),
        ("no-underlay", config.underlay == Some(false)),
    ];
    let flags: Vec<_> = flags.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect();
    line("flags", &flags.join(" "));
    let other = port.interface_mtu.filter(|mtu| config.mtu.is_some_and(|own| own != *mtu));
    let other = other.map_or_else(String::new, |mtu| format!(" (warning: its interface has {mtu})"));
    line("mac", &format!("{}, mtu: {}{other}", output::mac(port.mac.as_ref()), config.mtu.unwrap_or_default()));
    line("addresses", &shown(&config.addresses.join(" ")));
    line("queues", &format!("{} rx, {} tx", port.rx_queues, port.tx_queues));
    line("offloads", &port.offloads.join(" "));
    line("external_ids", &pairs(&all["external_ids"]));
    line("error", &shown(port.error.as_deref().unwrap_or_default()));
    line("state", &shown(port.waiting.as_deref().unwrap_or_default()));
    text
}

/// `add-port` and `mod-port`: silent like those of Open vSwitch.
struct Changed {
    port: v1::Port,
    warnings: Vec<String>,
}

impl Report for Changed {
    fn text(&self) -> String {
        String::new()
    }

    fn json(&self) -> Value {
        let mut port = json(&self.port);
        if !self.warnings.is_empty() {
            port["warnings"] = json!(self.warnings);
        }
        port
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}

/// `list-ports`.
struct Names(Vec<v1::Port>);

impl Report for Names {
    fn text(&self) -> String {
        self.0.iter().filter_map(|port| port.config.as_ref()).map(|config| format!("{}\n", config.name)).collect()
    }

    fn json(&self) -> Value {
        self.0.iter().map(json).collect()
    }
}

#[cfg(test)]
#[path = "port_tests.rs"]
mod tests;
