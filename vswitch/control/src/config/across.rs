//! What only shows when the whole file is known: names, numbers and devices used twice, wires
//! without another end.

use super::document::{Reader, Span, quoted};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use vswitch_net_types::suggest::did_you_mean;

/// What only one port can have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Resource {
    /// A DPDK device.
    Device(String),
    /// A socket.
    Socket(PathBuf),
    /// A kernel interface.
    Interface(String),
    /// A file, and whether it is written. Several may read one.
    File(PathBuf, bool),
}

/// A port as far as it could be read.
#[derive(Debug)]
pub(super) struct PortEntry {
    pub(super) name: Option<(String, Span)>,
    pub(super) number: Option<(u32, Span)>,
    pub(super) kind: Option<&'static str>,
    pub(super) peer: Option<(String, Span)>,
    pub(super) resources: Vec<(Resource, &'static str, Span)>,
}

/// A bridge as far as it could be read.
#[derive(Debug)]
pub(super) struct BridgeEntry {
    pub(super) name: Option<(String, Span)>,
    pub(super) ports: Vec<PortEntry>,
}

/// Everything in the file that has a name.
#[derive(Debug, Default)]
pub(super) struct Across {
    pub(super) bridges: Vec<BridgeEntry>,
    /// The sockets of listeners.
    pub(super) sockets: Vec<(PathBuf, Span)>,
    /// Addresses of listeners on TCP.
    pub(super) addresses: Vec<(SocketAddr, Span)>,
    pub(super) port_count: usize,
}

impl Across {
    /// Reports every clash.
    pub(super) fn check(&self, reader: &mut Reader<'_>) {
        self.names(reader);
        self.numbers(reader);
        self.resources(reader);
        if reader.is_whole() {
            self.peers(reader);
        }
    }

    /// Whether the file has a port of this name, however much of it could be read.
    pub(super) fn has_port(&self, name: &str) -> bool {
        self.ports().any(|port| port.name.as_ref().is_some_and(|(own, _)| own == name))
    }

    fn ports(&self) -> impl Iterator<Item = &PortEntry> {
        self.bridges.iter().flat_map(|bridge| &bridge.ports)
    }

    fn names(&self, reader: &mut Reader<'_>) {
        let bridges = self.bridges.iter().filter_map(|bridge| bridge.name.as_ref());
        unique(reader, "bridge", "the switch", bridges);
        unique(reader, "port", "the switch", self.ports().filter_map(|port| port.name.as_ref()));
    }

    fn numbers(&self, reader: &mut Reader<'_>) {
        for bridge in &self.bridges {
            let mut first: HashMap<u32, &Span> = HashMap::new();
            for port in &bridge.ports {
                let Some((number, span)) = &port.number else { continue };
                let is_local = port.kind == Some("internal")
                    && matches!((&port.name, &bridge.name), (Some((port, _)), Some((bridge, _))) if port == bridge);
                if is_local {
                    let problem = "an internal port named like its bridge is LOCAL, its number is fixed";
                    reader.wrong(span, "number", problem, "remove the number, or rename the port");
                } else if let Some(first) = first.get(number) {
                    let problem = format!("{number} is taken, first at {}", reader.locate(first));
                    reader.wrong(span, "number", problem, "numbers are unique in a bridge: use another or none");
                } else {
                    first.insert(*number, span);
                }
            }
        }
    }

    fn resources(&self, reader: &mut Reader<'_>) {
        let mut first: HashMap<Resource, &Span> = HashMap::new();
        for (path, span) in &self.sockets {
            if let Some(first) = first.get(&Resource::Socket(path.clone())) {
                let problem = format!("socket {path:?} is used by two listeners, first at {}", reader.locate(first));
                reader.wrong(span, "path", problem, "give each listener its own");
            } else {
                first.insert(Resource::Socket(path.clone()), span);
            }
        }
        for (resource, key, span) in self.ports().flat_map(|port| &port.resources) {
            let (what, other) = match resource {
                Resource::Device(name) => (format!("device {}", quoted(name)), None),
                Resource::Socket(path) => (format!("socket {path:?}"), None),
                Resource::Interface(name) => (format!("interface {}", quoted(name)), None),
                Resource::File(path, writes) => (format!("file {path:?}"), Some(Resource::File(path.clone(), !writes))),
            };
            let reads = matches!(resource, Resource::File(_, false));
            let same = if reads { None } else { first.get(resource) };
            let clash = same.or_else(|| other.and_then(|other| first.get(&other)));
            if let Some(clash) = clash {
                let problem = format!("{what} is used by two ports or ways, first at {}", reader.locate(clash));
                reader.wrong(span, key, problem, "give each port its own");
            } else {
                first.entry(resource.clone()).or_insert(span);
            }
        }
    }

    fn peers(&self, reader: &mut Reader<'_>) {
        let named: HashMap<&str, &PortEntry> =
            self.ports().filter_map(|port| Some((port.name.as_ref()?.0.as_str(), port))).collect();
        let patches = || self.ports().filter(|port| port.kind == Some("patch"));
        for port in patches() {
            let (Some((name, _)), Some((peer, span))) = (&port.name, &port.peer) else { continue };
            if name == peer {
                reader.wrong(span, "peer", "a patch port cannot be its own peer", "name the port at the other end");
                continue;
            }
            let Some(other) = named.get(peer.as_str()) else {
                let others = patches().filter_map(|port| Some(port.name.as_ref()?.0.as_str()));
                let suggestion = did_you_mean(peer, others.filter(|other| other != name));
                let hint = format!("{suggestion}add a port named {peer} of type patch with peer = {name:?}");
                reader.wrong(span, "peer", format!("there is no port named {}", quoted(peer)), hint);
                continue;
            };
            match (other.kind, &other.peer) {
                (Some("patch"), Some((back, at))) if back != name => {
                    let problem = format!(
                        "port {} points to {}, not back (at {})",
                        quoted(peer),
                        quoted(back),
                        reader.locate(at)
                    );
                    reader.wrong(span, "peer", problem, format!("give port {peer} peer = {name:?}, or name another"));
                }
                (Some(kind), _) if kind != "patch" => {
                    let problem = format!("port {} is of type {kind}", quoted(peer));
                    reader.wrong(span, "peer", problem, "name another port of type patch");
                }
                _ => {} // it points back, or there already is a complaint about it
            }
        }
    }
}

/// Reports every name that was there before.
fn unique<'a>(reader: &mut Reader<'_>, what: &str, scope: &str, names: impl Iterator<Item = &'a (String, Span)>) {
    let mut first: HashMap<&str, &Span> = HashMap::new();
    for (name, span) in names {
        if let Some(first) = first.get(name.as_str()) {
            let problem = format!("{what} {} exists already, first at {}", quoted(name), reader.locate(first));
            reader.wrong(span, "name", problem, format!("{what} names are unique in {scope}: use another"));
        } else {
            first.insert(name, span);
        }
    }
}
