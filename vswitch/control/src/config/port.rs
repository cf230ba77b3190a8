//! `[[bridge.port]]`: the keys of all ports, then those of its type.

use super::across::{PortEntry, Resource};
use super::document::{Reader, Section, Span, quoted, type_of};
use super::parse::{Walk, field_errors};
use super::values::mac;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::de::DeValue;
use vswitch_dataplane::limits;
use vswitch_dataplane::port::{
    Cidr, CidrError, FieldError, PortConfig, PortKind, TunnelConfig, VhostConfig, VhostMode, tunnel_kind,
};
use vswitch_dpdk::devargs::device_name;
use vswitch_net_types::suggest::did_you_mean;
use vswitch_overlay::TunnelKind;

/// Keys of every port.
const COMMON: [&str; 14] = [
    "name",
    "number",
    "type",
    "mac",
    "mtu",
    "admin_up",
    "no_flood",
    "no_receive",
    "no_forward",
    "strict",
    "underlay",
    "external_ids",
    "addresses",
    "rxq_affinity",
];

/// Keys of one type of port.
const fn own_keys(kind: &str) -> &'static [&'static str] {
    match kind.as_bytes() {
        b"dpdk" => &["devargs", "queues"],
        b"vhost-user" => &["path", "mode", "queues", "csum", "tso", "mergeable", "indirect", "packed"],
        b"tap" => &["interface", "queues"],
        b"af_packet" => &["interface"],
        b"internal" => &["queues"],
        b"pcap" => &["rx_file", "tx_file", "infinite_rx"],
        b"patch" => &["peer"],
        b"geneve" | b"vxlan" | b"gre" => &["options"],
        _ => &[],
    }
}

impl Walk<'_> {
    /// Reads one port; `None` if its type is not known.
    pub(super) fn port(&mut self, section: &mut Section<'_, '_>) -> Option<PortConfig> {
        let reader = &mut self.reader;
        let name = section.string(reader, "name", "p0");
        if !section.has("name") {
            reader.absent(&section.header, "name", "missing", "every port needs one: name = \"p0\"");
            section.refuse("name");
        }
        let types = PortKind::NAMES.map(|name| (name, name));
        let kind_name = section.word(reader, "type", &types);
        if !section.has("type") {
            let hint = format!("every port needs one of: {}", PortKind::NAMES.join(", "));
            reader.absent(&section.header, "type", "missing", hint);
        }
        let number = section.integer(reader, "number", &(1..=i128::from(limits::PORT_NUMBER_MAX)));
        let mac = mac(section, reader);
        let mtu = section.integer(reader, "mtu", &(i128::from(limits::MTU_MIN)..=i128::from(limits::MTU_MAX)));
        let admin_up = section.boolean(reader, "admin_up").unwrap_or(true);
        let no_flood = section.boolean(reader, "no_flood").unwrap_or(false);
        let no_receive = section.boolean(reader, "no_receive").unwrap_or(false);
        let no_forward = section.boolean(reader, "no_forward").unwrap_or(false);
        let strict = section.boolean(reader, "strict").unwrap_or(false);
        let underlay = section.boolean(reader, "underlay");
        let external_ids = strings(section, reader, "external_ids", "{ owner = \"pod-1\" }");
        let addresses = addresses(section, reader);
        let pins = pins(section, reader);
        let kind = kind_name.and_then(|kind| self::kind(section, reader, kind));
        unknown_keys(section, reader, kind_name);
        let port = kind.map(|kind| PortConfig {
            number,
            mac,
            mtu: mtu.unwrap_or(1500),
            mtu_follows: mtu.is_none(),
            admin_up,
            no_flood,
            no_receive,
            no_forward,
            strict,
            underlay,
            external_ids,
            addresses,
            ..PortConfig::new(name.as_deref().unwrap_or_default(), kind)
        });
        let pins = pins.into_iter().map(|(queue, core)| ((name.clone().unwrap_or_default(), queue), core));
        self.config.pins.extend(pins);
        if let Some(port) = &port {
            field_errors(reader, section, port.errors());
        }
        let entry = PortEntry {
            name: name.map(|name| (name, section.span("name"))),
            number: number.map(|number| (number, section.span("number"))),
            kind: kind_name,
            peer: port.as_ref().and_then(|port| match &port.kind {
                PortKind::Patch { peer } if !section.is_refused("peer") => Some((peer.clone(), section.span("peer"))),
                _ => None,
            }),
            resources: port.as_ref().map(|port| resources(section, port)).unwrap_or_default(),
        };
        if let Some(bridge) = self.across.bridges.last_mut() {
            bridge.ports.push(entry);
        }
        port
    }
}

/// Receive queues and the cores that poll them: `0:3,1:7`, as Open vSwitch's pmd-rxq-affinity.
fn pins(section: &mut Section<'_, '_>, reader: &mut Reader<'_>) -> BTreeMap<u16, u32> {
    let (key, mut pins) = ("rxq_affinity", BTreeMap::new());
    let Some(text) = section.string(reader, key, "0:3,1:7") else { return pins };
    for part in text.split(',') {
        let pair = part.trim().split_once(':');
        let pair = pair.and_then(|(queue, core)| Some((queue.parse::<u16>().ok()?, core.parse::<u32>().ok()?)));
        if pair.is_none_or(|(queue, core)| pins.insert(queue, core).is_some()) {
            let problem = format!("{} is no list of queues and cores", quoted(&text));
            reader.wrong(&section.span(key), key, problem, "write QUEUE:CORE of each queue once: \"0:3,1:7\"");
            section.refuse(key);
            return BTreeMap::new();
        }
    }
    pins
}

/// Addresses with prefix lengths.
fn addresses(section: &mut Section<'_, '_>, reader: &mut Reader<'_>) -> Vec<Cidr> {
    let key = "addresses";
    let example = "[\"192.168.1.1/24\"]";
    let found = section.array(reader, key, ("an array of addresses", example), |reader, value, span| {
        let Some(text) = value.as_str() else {
            let problem = format!("contains {}, must be an array of strings", type_of(value));
            reader.wrong(span, key, problem, format!("write {key} = {example}"));
            return None;
        };
        let parsed = Cidr::of_port(text);
        if let Err(error) = parsed {
            let what = if error == CidrError::Syntax { "which is no address" } else { "which has no length" };
            reader.wrong(span, key, format!("contains {}, {what}", quoted(text)), error.hint());
        }
        parsed.ok()
    });
    found.unwrap_or_default().into_iter().map(|(cidr, _)| cidr).collect()
}

/// A table of strings.
fn strings(
    section: &mut Section<'_, '_>,
    reader: &mut Reader<'_>,
    key: &'static str,
    example: &str,
) -> BTreeMap<String, String> {
    let want = ("a table of strings", example);
    let Some((table, _)) = section.typed(reader, key, want, DeValue::as_table) else { return BTreeMap::new() };
    let mut ids = BTreeMap::new();
    for (name, value) in table {
        match value.get_ref() {
            DeValue::String(text) => {
                ids.insert(name.get_ref().to_string(), text.to_string());
            }
            other => {
                let problem = format!("{} is {}, must be a string", quoted(name.get_ref()), type_of(other));
                reader.wrong(&value.span(), key, problem, "put the value in double quotes");
                section.refuse(key);
            }
        }
    }
    ids
}

/// The keys of a port's type. `None` if one that it needs is missing or wrong.
fn kind(section: &mut Section<'_, '_>, reader: &mut Reader<'_>, name: &'static str) -> Option<PortKind> {
    let required = |section: &mut Section<'_, '_>, reader: &mut Reader<'_>, key: &'static str, example: &str| {
        let value = section.string(reader, key, example);
        if !section.has(key) {
            let hint = format!("a port of type {name} needs it: {key} = {example:?}");
            reader.absent(&section.header, key, "missing", hint);
            section.refuse(key);
        }
        value
    };
    Some(match name {
        "dpdk" => {
            let devargs = required(section, reader, "devargs", "0000:3b:00.0");
            let queues = queues(section, reader);
            PortKind::Dpdk { devargs: devargs?, queues }
        }
        "vhost-user" => {
            let path = required(section, reader, "path", "/run/vswitch/p0.sock");
            let modes = [("client", VhostMode::Client), ("server", VhostMode::Server)];
            let mode = section.word(reader, "mode", &modes).unwrap_or(VhostMode::Client);
            let defaults = VhostConfig::new(PathBuf::new(), mode);
            let queues = queues(section, reader);
            let mut switch = |key, default| section.boolean(reader, key).unwrap_or(default);
            let csum = switch("csum", defaults.csum);
            let tso = switch("tso", defaults.tso);
            let mergeable = switch("mergeable", defaults.mergeable);
            let indirect = switch("indirect", defaults.indirect);
            let packed = switch("packed", defaults.packed);
            let path = PathBuf::from(path?);
            PortKind::VhostUser(VhostConfig { path, mode, queues, csum, tso, mergeable, indirect, packed })
        }
        "tap" => {
            let interface = required(section, reader, "interface", "tap0");
            let queues = queues(section, reader);
            PortKind::Tap { interface: interface?, queues }
        }
        "af_packet" => PortKind::AfPacket { interface: required(section, reader, "interface", "eth0")? },
        "pcap" => PortKind::Pcap {
            rx_file: section.string(reader, "rx_file", "/tmp/rx.pcap").map(PathBuf::from),
            tx_file: section.string(reader, "tx_file", "/tmp/tx.pcap").map(PathBuf::from),
            infinite_rx: section.boolean(reader, "infinite_rx").unwrap_or(false),
        },
        "patch" => PortKind::Patch { peer: required(section, reader, "peer", "patch1")? },
        "dummy" => PortKind::Dummy,
        "geneve" | "vxlan" | "gre" => PortKind::Tunnel(tunnel(section, reader, tunnel_kind(name)?)?),
        _ => PortKind::Internal { queues: queues(section, reader) },
    })
}

/// The options of a tunnel.
fn tunnel(section: &mut Section<'_, '_>, reader: &mut Reader<'_>, kind: TunnelKind) -> Option<TunnelConfig> {
    let options = strings(section, reader, "options", "{ remote_ip = \"flow\", key = \"flow\" }");
    if section.is_refused("options") {
        return None;
    }
    match TunnelConfig::parse(kind, &options) {
        Ok(tunnel) => Some(tunnel),
        Err(errors) => {
            for FieldError { field, problem, hint } in errors {
                let span = section.span("options");
                reader.wrong(&span, field, problem, hint);
            }
            section.refuse("options");
            None
        }
    }
}

fn queues(section: &mut Section<'_, '_>, reader: &mut Reader<'_>) -> u16 {
    section.integer(reader, "queues", &(1..=i128::from(limits::QUEUES_MAX))).unwrap_or(1)
}

/// Complains about keys of no port, and about keys of another type.
fn unknown_keys(section: &mut Section<'_, '_>, reader: &mut Reader<'_>, kind: Option<&'static str>) {
    let mut known = COMMON.to_vec();
    known.extend(kind.map(own_keys).unwrap_or_default());
    let all_own = PortKind::NAMES.iter().flat_map(|kind| own_keys(kind));
    for key in all_own.copied() {
        if known.contains(&key) {
            continue;
        }
        known.push(key);
        if let (Some(kind), Some(span)) = (kind, section.key(key)) {
            let owners: Vec<_> = PortKind::NAMES.into_iter().filter(|kind| own_keys(kind).contains(&key)).collect();
            let own = own_keys(kind);
            let hint = if own.is_empty() {
                format!("remove it; type {kind} has no keys of its own")
            } else {
                let suggestion = did_you_mean(key, own.iter().copied().filter(|own| !section.has(own)));
                format!("{suggestion}type {kind} has the keys: {}", own.join(", "))
            };
            let problem = format!("is a key of type {}, not of type {kind}", owners.join(" or "));
            reader.wrong(&span, key, problem, hint);
        }
    }
    // What is listed as known in the hint: the common keys and those of the port's own type.
    let shown: Vec<_> = match kind {
        Some(kind) => COMMON.iter().chain(own_keys(kind)).copied().collect(),
        None => known.clone(),
    };
    section.finish(reader, &known, &shown);
}

/// What only one port can have.
fn resources(section: &Section<'_, '_>, port: &PortConfig) -> Vec<(Resource, &'static str, Span)> {
    let mut found = Vec::new();
    let mut add = |key: &'static str, resource| {
        if section.has(key) && !section.is_refused(key) {
            found.push((resource, key, section.span(key)));
        }
    };
    match &port.kind {
        PortKind::Dpdk { devargs, .. } => {
            let device = devargs.split(',').next().unwrap_or_default();
            let name = device_name(device);
            add("devargs", Resource::Device(name));
            if let Some(interface) = devargs.split(',').find_map(|part| part.strip_prefix("iface=")) {
                add("devargs", Resource::Interface(interface.to_owned()));
            }
        }
        PortKind::VhostUser(vhost) => add("path", Resource::Socket(vhost.path.clone())),
        PortKind::Tap { interface, .. } | PortKind::AfPacket { interface } => {
            add("interface", Resource::Interface(interface.clone()));
        }
        PortKind::Pcap { rx_file, tx_file, .. } => {
            for (key, file) in [("rx_file", rx_file), ("tx_file", tx_file)] {
                if let Some(file) = file {
                    add(key, Resource::File(file.clone(), key == "tx_file"));
                }
            }
        }
        PortKind::Patch { .. } | PortKind::Dummy | PortKind::Tunnel(_) => {}
        PortKind::Internal { .. } => add("name", Resource::Interface(port.name.clone())),
    }
    found
}
