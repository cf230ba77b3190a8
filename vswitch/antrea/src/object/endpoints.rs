//! `Endpoints`: who serves a Service port. Compiled by their [`Service`](super::service::Service).

use super::service::{flush, read};
use crate::limits::{ENDPOINTS_MAX, HINTS_MAX, NAME_MAX};
use crate::key::Need;
use crate::problem::{Code, Problems};
use crate::{Claim, Desired, Facts, Family, Flush, Ids, Key, ObjectKind, CompiledObject, Problem, Reference};
use std::collections::BTreeSet;
use std::net::IpAddr;
use vswitch_proto::antrea::v1;

/// Weight of an endpoint that is given none.
const WEIGHT: u16 = 100;

/// One address and port that serves a Service port.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // as EndpointSlices have them
pub struct Endpoint {
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Its Node; empty: none.
    pub node: String,
    /// Takes connections.
    pub ready: bool,
    /// Would take some.
    pub serving: bool,
    /// It ends.
    pub terminating: bool,
    /// Its share.
    pub weight: u16,
    /// Zones that are to use it.
    pub hint_zones: Vec<String>,
    /// Nodes that are to use it.
    pub hint_nodes: Vec<String>,
}

impl Endpoint {
    /// Whether it is of a Node.
    #[must_use]
    pub fn is_of(&self, node: &str) -> bool {
        self.node == node
    }

    /// Whether it may be used, on some Node at least: connections to it are no concern of ours
    /// otherwise.
    #[must_use]
    pub const fn is_alive(&self) -> bool {
        self.ready || (self.serving && self.terminating)
    }
}

/// All endpoints of one port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Name of its Service.
    pub service: String,
    /// Name of its port.
    pub port: String,
    /// By address and port.
    pub endpoints: Vec<Endpoint>,
}

impl Endpoints {
    /// The name of the set of a Service port.
    #[must_use]
    pub fn name(service: &str, port: &str) -> String {
        format!("{service}:{port}")
    }

    pub(crate) fn name_of(message: &v1::Endpoints) -> String {
        Self::name(&message.service, &message.port)
    }

    pub(crate) fn read(message: &v1::Endpoints, problems: &mut Problems) -> Option<Self> {
        if message.service.is_empty() {
            problems.push(Code::Missing, "service", "it is empty");
        }
        read::port_name("port", &message.port, problems);
        if message.endpoints.len() > ENDPOINTS_MAX {
            problems.push(Code::Limit, "endpoints", format!("{}: at most {ENDPOINTS_MAX}", message.endpoints.len()));
        }
        let mut endpoints = Vec::with_capacity(message.endpoints.len().min(ENDPOINTS_MAX));
        let mut there: BTreeSet<(IpAddr, u16)> = BTreeSet::new();
        for (at, message) in message.endpoints.iter().enumerate().take(ENDPOINTS_MAX) {
            let Some(endpoint) = endpoint(&format!("endpoints[{at}]"), message, problems) else { continue };
            if there.insert((endpoint.address, endpoint.port)) {
                endpoints.push(endpoint);
            } else {
                let what = format!("{} port {}", endpoint.address, endpoint.port);
                problems.twice(&format!("endpoints[{at}]"), what);
            }
        }
        endpoints.sort_by_key(|endpoint| (endpoint.address, endpoint.port));
        Some(Self { service: message.service.clone(), port: message.port.clone(), endpoints })
    }

    /// Its Service; and Nodes of endpoints, since what of their addresses is a Node's is nobody's
    /// behind a tunnel.
    pub(crate) fn references(&self) -> Vec<Reference> {
        let service = Key::new(ObjectKind::Service, &self.service);
        let mut references = vec![Reference { key: service, need: Need::May, field: "service".to_owned() }];
        let nodes: BTreeSet<&str> = self.endpoints.iter().map(|endpoint| endpoint.node.as_str()).collect();
        for node in nodes.into_iter().filter(|node| !node.is_empty()) {
            let key = Key::new(ObjectKind::PeerNode, node);
            references.push(Reference { key, need: Need::May, field: "endpoints".to_owned() });
        }
        references
    }

    pub(crate) fn claims(&self) -> Vec<(Claim, String)> {
        Vec::new()
    }

    pub(crate) fn judge(&self, _name: &str, facts: &Facts<'_>, problems: &mut Problems) {
        if !facts.features().proxy {
            return problems.push(Code::Feature, "", "it needs features.proxy");
        }
        let key = Key::new(ObjectKind::Service, &self.service);
        let Some(service) = facts.desired.service(&self.service) else {
            let problem = Problem::new(Code::Pending, "service", format!("{key} is not there yet"));
            return problems.add(problem.other(key));
        };
        if service.port(&self.port).is_none() {
            let reason = format!("{key} has no port {:?} yet", self.port);
            problems.add(Problem::new(Code::Pending, "port", reason).other(key));
        }
        for family in Family::BOTH {
            let first = self.endpoints.iter().find(|endpoint| Family::of(&endpoint.address) == family);
            let Some(Endpoint { address, .. }) = first else { continue };
            if !facts.node.has(family) {
                problems.push(Code::Family, "endpoints", format!("{address}: the Node does not have this family"));
            } else if !service.serves(family) {
                let reason = format!("{address}: Service {} has no address of this family", self.service);
                problems.add(Problem::new(Code::Family, "endpoints", reason));
            }
        }
    }

    pub(crate) fn claim(&self, _name: &str, _desired: &Desired, _ids: &mut Ids) -> Result<(), Problem> {
        Ok(())
    }

    pub(crate) fn ports(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn flush(&self, _name: &str, new: Option<&Self>, facts: &Facts<'_>, flush: &mut BTreeSet<Flush>) {
        flush::of_endpoints(self, new, facts.desired, flush);
    }

    /// Its Service writes for it.
    pub(crate) fn compile(&self, _name: &str, _facts: &Facts<'_>, _compiled: &mut CompiledObject) {}
}

fn endpoint(field: &str, message: &v1::Endpoint, problems: &mut Problems) -> Option<Endpoint> {
    let weight = match message.weight {
        0 => Some(WEIGHT),
        given => u16::try_from(given).ok(),
    };
    if weight.is_none() {
        problems.push(Code::Range, format!("{field}.weight"), format!("{}: 1 to 65535", message.weight));
    }
    words(&format!("{field}.node"), std::slice::from_ref(&message.node), problems);
    for (name, hints) in [("hint_zones", &message.hint_zones), ("hint_nodes", &message.hint_nodes)] {
        words(&format!("{field}.{name}"), hints, problems);
    }
    let address = read::host_address(&format!("{field}.address"), &message.address, problems);
    let port = read::port_number(&format!("{field}.port"), message.port, problems);
    Some(Endpoint {
        address: address?,
        port: port?,
        node: message.node.clone(),
        ready: message.ready,
        serving: message.serving,
        terminating: message.terminating,
        weight: weight?,
        hint_zones: message.hint_zones.clone(),
        hint_nodes: message.hint_nodes.clone(),
    })
}

/// Names of Nodes and zones.
fn words(field: &str, words: &[String], problems: &mut Problems) {
    if words.len() > HINTS_MAX {
        problems.push(Code::Limit, field, format!("{}: at most {HINTS_MAX}", words.len()));
    }
    if let Some(odd) = words.iter().find(|word| word.len() > NAME_MAX || word.chars().any(char::is_control)) {
        let reason = format!("it is {} bytes long, at most {NAME_MAX}, without control characters", odd.len());
        problems.push(Code::Value, field, reason);
    }
}
