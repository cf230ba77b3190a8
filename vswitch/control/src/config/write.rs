//! A configuration as the text of a file that says the same.
//!
//! **Design**: sections are written whole, with what is in force, so that a default of another
//! machine or version changes nothing. Of bridges and ports, keys with their default are left out.
//! The same values come to the same bytes, and [`super::ConfigFile::read`] reads them back.

mod bridge;
mod listener;

pub(crate) use bridge::{bridge_keys, port_keys};

use super::value::{SwitchConfig, ZoneConfig};
use crate::timeouts;
use std::fmt::{Display, Write};
use std::path::Path;
use vswitch_dataplane::port::cidr_text;
use vswitch_dpdk::capabilities::Capabilities;

/// A key and its value, in the syntax of the file.
pub(crate) type Pair = (&'static str, String);

/// A string in the syntax of the file. A literal one, where it has quotes or backslashes and can
/// be one: so columns in it are those of the text.
pub(crate) fn quote(text: &str) -> String {
    let is_plain = text.chars().all(|c| !c.is_control());
    if is_plain && !text.contains(['"', '\\']) {
        return format!("\"{text}\"");
    }
    if is_plain && !text.contains('\'') {
        return format!("'{text}'");
    }
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => drop(write!(out, "\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out + "\""
}

fn quoted_path(path: &Path) -> String {
    quote(&path.to_string_lossy())
}

/// An array.
pub(crate) fn array(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(", "))
}

/// An inline table with quoted keys and values.
pub(crate) fn strings<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let pairs: Vec<String> =
        pairs.into_iter().map(|(key, value)| format!("{} = {}", quote(key), quote(value))).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// The sections that are read at the start only, with all their keys.
pub(crate) fn fixed(config: &SwitchConfig) -> Vec<(&'static str, Vec<Pair>)> {
    let dpdk = &config.dpdk;
    let texts = |texts: &[String]| array(texts.iter().map(|text| quote(text)));
    let paths = |paths: &[std::path::PathBuf]| array(paths.iter().map(|path| quoted_path(path)));
    let mut of_dpdk = vec![
        ("worker_cores", array(&dpdk.worker_cores)),
        ("main_core", dpdk.main_core.to_string()),
        ("memory_mb", dpdk.memory_mb.to_string()),
    ];
    of_dpdk.extend(dpdk.mbufs.map(|mbufs| ("mbufs", mbufs.to_string())));
    of_dpdk.push(("hugepages", dpdk.hugepages.to_string()));
    of_dpdk.extend(dpdk.file_prefix.as_ref().map(|prefix| ("file_prefix", quote(prefix))));
    of_dpdk.push(("pci", dpdk.pci.to_string()));
    of_dpdk.push(("args", texts(&dpdk.args)));
    of_dpdk.push(("allow_drivers", texts(&dpdk.allow_drivers)));
    let mut conntrack = vec![
        ("connections", config.conntrack.connections.to_string()),
        ("port_shares", config.conntrack.port_shares.to_string()),
    ];
    conntrack.extend(config.conntrack.state_file.as_ref().map(|path| ("state_file", quoted_path(path))));
    let rates = &config.slow_path;
    let mut control = vec![("socket", quoted_path(&config.socket))];
    control.extend(config.persist.as_ref().map(|path| ("persist", quoted_path(path))));
    control.extend(config.audit_file.as_ref().map(|path| ("audit_file", quoted_path(path))));
    control.extend(listener::write(&config.listeners));
    let mut observe = Vec::new();
    observe.extend(config.observe.metrics.as_ref().map(|address| ("metrics", quote(&address.to_string()))));
    observe.push(("compat", array(config.observe.compat.iter().map(|compat| quote(compat.name())))));
    observe.push(("rule_metrics", config.observe.rule_metrics.to_string()));
    observe.push(("ring", config.observe.ring.to_string()));
    observe.push(("ring_connections", config.observe.ring_connections.to_string()));
    let kept = config.process.keep_capabilities;
    let kept = if kept == Capabilities::ALL { vec!["all"] } else { kept.names() };
    vec![
        ("dpdk", of_dpdk),
        (
            "worker",
            vec![
                ("idle_sleep_us", config.worker.idle_sleep_us.to_string()),
                ("call_delay_us", config.worker.call_delay_us.to_string()),
            ],
        ),
        ("conntrack", conntrack),
        ("antrea", config.antrea.state_dir.iter().map(|path| ("state_dir", quoted_path(path))).collect()),
        (
            "slow_path",
            vec![
                ("misses", rates.misses.to_string()),
                ("packet_ins", rates.packet_ins.to_string()),
                ("learns", rates.learns.to_string()),
                ("waiting", rates.waiting.to_string()),
            ],
        ),
        ("control", control),
        ("observe", observe),
        (
            "paths",
            vec![
                ("sockets", paths(&config.paths.sockets)),
                ("memif", paths(&config.paths.memif)),
                ("captures", paths(&config.paths.captures)),
            ],
        ),
        ("process", vec![("keep_capabilities", array(kept.into_iter().map(quote)))]),
        ("debug", vec![("cache", config.debug.cache.to_string()), ("announce", config.debug.announce.to_string())]),
    ]
}

/// The keys of `[conntrack]` that can be changed at run time.
pub(crate) fn tracking(config: &SwitchConfig) -> Vec<Pair> {
    let mut pairs = vec![("tcp_seq_check", config.conntrack.tcp_seq_check.to_string())];
    pairs.extend(config.conntrack.default_limit.map(|limit| ("default_limit", limit.to_string())));
    pairs
}

/// The keys of a zone.
pub(crate) fn zone(zone: &ZoneConfig) -> Vec<Pair> {
    let mut pairs = vec![("zone", zone.zone.to_string())];
    pairs.extend(zone.limit.map(|limit| ("limit", limit.to_string())));
    if zone.established_after_answer {
        pairs.push(("established_after_answer", "true".to_owned()));
    }
    pairs.extend(zone.timeouts.as_ref().map(|policy| {
        let seconds: Vec<_> = timeouts::seconds(policy).map(|(name, s)| format!("{name} = {}", s.max(1))).collect();
        ("timeouts", format!("{{ {} }}", seconds.join(", ")))
    }));
    pairs
}

impl SwitchConfig {
    /// The text of a file that says this, below comments with `notes`.
    #[must_use]
    pub fn to_text(&self, notes: &[String]) -> String {
        let mut text = String::new();
        for note in notes {
            let _ = writeln!(text, "# {}", note.replace(char::is_control, " "));
        }
        for (name, mut pairs) in fixed(self) {
            if name == "conntrack" {
                pairs.extend(tracking(self));
            }
            section(&mut text, &format!("[{name}]"), &pairs);
            if name == "conntrack" {
                self.conntrack.zones.iter().for_each(|own| section(&mut text, "[[conntrack.zone]]", &zone(own)));
            }
        }
        for (bridge, ports) in &self.bridges {
            bridge::write(self, bridge, ports, &mut text);
        }
        for route in &self.routes {
            let mut pairs = vec![("prefix", quote(&cidr_text(&route.prefix))), ("port", quote(&route.port))];
            pairs.extend(route.gateway.map(|gateway| ("gateway", quote(&gateway.to_string()))));
            pairs.extend(route.source.map(|source| ("source", quote(&source.to_string()))));
            section(&mut text, "[[route]]", &pairs);
        }
        if let Some(saved) = &self.saved {
            let names = |names: &std::collections::BTreeSet<String>| array(names.iter().map(|name| quote(name)));
            let pairs = [
                ("file", quote(&saved.file)),
                ("names", names(&saved.names)),
                ("client_ports", names(&saved.client_ports)),
            ];
            section(&mut text, "[saved]", &pairs);
        }
        text
    }
}

/// A section with its keys; none without keys.
fn section(text: &mut String, header: &str, pairs: &[Pair]) {
    if pairs.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "{header}");
    for (key, value) in pairs {
        let _ = writeln!(text, "{key} = {value}");
    }
}
