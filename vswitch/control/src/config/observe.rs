//! `[observe]`: where the switch shows its metrics, under which further names, and what it keeps of
//! what it observed.

use super::document::{Reader, Section, quoted};
use super::parse::{SOCKET_PATH_MAX, Walk, texts};
use super::place::ConfigKey;
use super::value::{Compat, MetricsAddress};
use std::path::{Path, PathBuf};
use vswitch_dataplane::limits::OBSERVE_RING;

/// In front of the path of a socket.
const UNIX: &str = "unix:";

/// Addresses that a message shows.
const EXAMPLE: &str = "127.0.0.1:9477";

impl Walk<'_> {
    pub(super) fn observe(&mut self, root: &mut Section<'_, '_>) {
        let mut section = self.section(root, "observe", "[observe]");
        let reader = &mut self.reader;
        self.config.observe.metrics = metrics(&mut section, reader);
        self.config.observe.compat = compat(&mut section, reader);
        let observe = &mut self.config.observe;
        observe.rule_metrics = section.boolean(reader, "rule_metrics").unwrap_or(false);
        let places = *OBSERVE_RING.start() as i128..=*OBSERVE_RING.end() as i128;
        observe.ring = section.integer(reader, "ring", &places).unwrap_or(observe.ring);
        observe.ring_connections = section.boolean(reader, "ring_connections").unwrap_or(false);
        let known = ["metrics", "compat", "rule_metrics", "ring", "ring_connections"];
        section.finish(reader, &known, &known);
        section.record(reader, &mut self.places, ConfigKey::Observe);
    }
}

fn metrics(section: &mut Section<'_, '_>, reader: &mut Reader<'_>) -> Option<MetricsAddress> {
    let key = "metrics";
    let text = section.string(reader, key, EXAMPLE)?;
    let address = address(&text);
    if address.is_none() {
        let problem = format!("{} is no address", quoted(&text));
        let hint = format!("write \"{UNIX}/run/vswitch/metrics.sock\", or an IP address and a port: {EXAMPLE:?}");
        reader.wrong(&section.span(key), key, problem, hint);
        section.refuse(key);
    }
    address
}

fn address(text: &str) -> Option<MetricsAddress> {
    let Some(path) = text.strip_prefix(UNIX) else {
        // The kernel would choose port 0's number, and no scraper could know it.
        return text.parse().ok().filter(|address: &std::net::SocketAddr| address.port() != 0).map(MetricsAddress::Tcp);
    };
    let is_usable = path.len() <= SOCKET_PATH_MAX && path.starts_with('/') && Path::new(path).file_name().is_some();
    is_usable.then(|| MetricsAddress::Unix(PathBuf::from(path)))
}

fn compat(section: &mut Section<'_, '_>, reader: &mut Reader<'_>) -> Vec<Compat> {
    let key = "compat";
    let mut found = Vec::new();
    for name in texts(section, reader, key, "ovs") {
        match Compat::ALL.into_iter().find(|compat| compat.name() == name) {
            Some(compat) if !found.contains(&compat) => found.push(compat),
            Some(_) => {}
            None => {
                let names = Compat::ALL.map(Compat::name).join(", ");
                let problem = format!("{} is no set of names", quoted(&name));
                reader.wrong(&section.span(key), key, problem, format!("use some of: {names}"));
            }
        }
    }
    found
}
