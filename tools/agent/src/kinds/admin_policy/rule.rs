//! Rules of policies of policy.networking.k8s.io.

use crate::kinds::NumberOrName;
use crate::kinds::antrea_policy::{self, Action};
use crate::kinds::k8s_policy::IpBlock;
use crate::kinds::ruled::{Class, WrongRule};
use crate::kinds::selector::Selector;
use crate::kinds::wellformed::{error, is_prefix};
use crate::source::{FieldError, Tree, Value, typed};
use serde::Deserialize;

/// Protocols that have ports with names.
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// Pods by their namespaces and their own labels.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct NamespacedPods {
    #[serde(default)]
    pub(super) namespace_selector: Selector,
    pub(super) pod_selector: Selector,
}

/// A rule of any of these policies; which fields it may have, [`read`] checks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    action: Word,
    #[serde(default)]
    name: String,
    from: Option<Vec<Peer>>,
    to: Option<Vec<Peer>>,
    /// Of v1alpha1.
    ports: Option<Vec<Port>>,
    /// Of v1alpha2.
    protocols: Option<Vec<Protocol>>,
}

/// What is done, in the words of all these kinds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum Word {
    Accept,
    Allow,
    Deny,
    Pass,
}

impl From<Word> for Action {
    fn from(word: Word) -> Self {
        match word {
            Word::Accept | Word::Allow => Self::Allow,
            Word::Deny => Self::Drop,
            Word::Pass => Self::Pass,
        }
    }
}

/// The other side: one of these.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Peer {
    namespaces: Option<Selector>,
    pods: Option<NamespacedPods>,
    nodes: Option<Selector>,
    networks: Option<Vec<String>>,
    domain_names: Option<Vec<String>>,
}

/// A port of v1alpha1: one of these.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Port {
    port_number: Option<PortNumber>,
    port_range: Option<PortRange>,
    named_port: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortNumber {
    protocol: Option<String>,
    port: u16,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortRange {
    protocol: Option<String>,
    start: u16,
    end: u16,
}

/// A protocol of v1alpha2: one of these.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Protocol {
    tcp: Option<Ports>,
    udp: Option<Ports>,
    sctp: Option<Ports>,
    destination_named_port: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Ports {
    destination_port: Destination,
}

/// One of these.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Destination {
    number: Option<u16>,
    range: Option<Range>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    start: u16,
    end: u16,
}

/// A rule of a direction, as Antrea writes one that means the same.
pub(super) fn read(class: Class, section: &str, tree: &Tree) -> Result<antrea_policy::Rule, FieldError> {
    let rule: Rule = typed(tree)?;
    let wrong = |field: &str, reason: &str| Err(FieldError::new(0, field, reason));
    let is_of_class = match rule.action {
        Word::Accept => class == Class::Network,
        Word::Allow => class != Class::Network,
        Word::Pass => class != Class::BaselineAdmin,
        Word::Deny => true,
    };
    if !is_of_class {
        return wrong("action", "no policy of this kind does that");
    }
    let is_ingress = section == "ingress";
    let (side, peers, others, other) =
        if is_ingress { ("from", rule.from, rule.to, "to") } else { ("to", rule.to, rule.from, "from") };
    if others.is_some() {
        return wrong(other, "is for the other direction");
    }
    // Nobody is not anybody, as it is in Antrea's rules.
    let Some(peers) = peers.filter(|peers| !peers.is_empty()) else { return wrong(side, "names nobody") };
    let (field, has_other) =
        if class == Class::Network { ("ports", rule.ports.is_some()) } else { ("protocols", rule.protocols.is_some()) };
    if has_other {
        return wrong(field, "no policy of this kind has it");
    }
    let ports = match (rule.ports, rule.protocols) {
        (Some(ports), _) => Some(listed("ports", ports, of_port)?),
        (_, Some(protocols)) => Some(listed("protocols", protocols, of_protocol)?),
        (None, None) => None,
    };
    let has_names = ports.iter().flatten().any(|port| matches!(port.port, Some(NumberOrName::Name(_))));
    let mut all = Vec::new();
    for (i, peer) in peers.into_iter().enumerate() {
        let is_of_pods = peer.namespaces.is_some() || peer.pods.is_some();
        let path = format!("{side}[{i}]");
        if has_names && !is_of_pods {
            return wrong(&path, "has no ports with names");
        }
        if is_ingress && !is_of_pods {
            return wrong(&path, "needs one of namespaces and pods");
        }
        if peer.domain_names.is_some() && (class == Class::BaselineAdmin || Action::from(rule.action) != Action::Allow)
        {
            return wrong(
                &format!("{path}.domainNames"),
                "is for rules that accept, and for no BaselineAdminNetworkPolicy",
            );
        }
        all.extend(of_peer(peer).map_err(|error| error.below(0, &path))?);
    }
    let (from, to) = if is_ingress { (all, Vec::new()) } else { (Vec::new(), all) };
    Ok(antrea_policy::Rule {
        action: rule.action.into(),
        name: rule.name,
        ports: ports.unwrap_or_default(),
        protocols: Vec::new(),
        from,
        to,
        to_services: Vec::new(),
        applied_to: Vec::new(),
        enable_logging: false,
        log_label: String::new(),
        l7_protocols: Vec::new(),
    })
}

/// What can be read of a rule that is wrong.
pub(super) fn left(class: Class, tree: &Tree) -> WrongRule {
    let action =
        tree.get("action").filter(|given| given.value != Value::Null).and_then(|given| typed::<Word>(given).ok());
    // What a baseline passes on is not known to be allowed.
    let action = action.map(Action::from).filter(|action| class != Class::BaselineAdmin || *action != Action::Pass);
    WrongRule { action, has_l7: false, applied_to: Some(Vec::new()) }
}

/// Each item of a list that says something.
fn listed<T>(
    field: &str,
    all: Vec<T>,
    of: fn(T) -> Result<Vec<antrea_policy::Port>, FieldError>,
) -> Result<Vec<antrea_policy::Port>, FieldError> {
    // An empty list is not known to mean all.
    if all.is_empty() {
        return Err(FieldError::new(0, field, "is empty; leave it out for all"));
    }
    let mut ports = Vec::new();
    for (i, one) in all.into_iter().enumerate() {
        ports.extend(of(one).map_err(|error| error.below(0, &format!("{field}[{i}]")))?);
    }
    Ok(ports)
}

/// A port, or several up to `end`.
fn port(protocol: Option<String>, first: u16, end: Option<u16>) -> antrea_policy::Port {
    antrea_policy::Port {
        protocol,
        port: Some(NumberOrName::Number(first)),
        end_port: end,
        source_port: None,
        source_end_port: None,
    }
}

/// A port by name, whatever its protocol.
fn named(name: &str) -> Result<Vec<antrea_policy::Port>, FieldError> {
    if name.is_empty() {
        return Err(FieldError::new(0, "", "the name of the port is empty"));
    }
    let of = |protocol: &str| antrea_policy::Port {
        protocol: Some(protocol.to_owned()),
        port: Some(NumberOrName::Name(name.to_owned())),
        end_port: None,
        source_port: None,
        source_end_port: None,
    };
    Ok(PROTOCOLS.into_iter().map(of).collect())
}

fn of_port(given: Port) -> Result<Vec<antrea_policy::Port>, FieldError> {
    match given {
        Port { port_number: Some(one), port_range: None, named_port: None } => {
            Ok(vec![port(one.protocol, one.port, None)])
        }
        Port { port_number: None, port_range: Some(range), named_port: None } => {
            Ok(vec![port(range.protocol, range.start, Some(range.end))])
        }
        Port { port_number: None, port_range: None, named_port: Some(name) } => named(&name),
        _ => Err(FieldError::new(0, "", "needs one of portNumber, portRange and namedPort")),
    }
}

fn of_protocol(given: Protocol) -> Result<Vec<antrea_policy::Port>, FieldError> {
    let (protocol, ports) = match given {
        Protocol { tcp: Some(ports), udp: None, sctp: None, destination_named_port: None } => ("TCP", ports),
        Protocol { tcp: None, udp: Some(ports), sctp: None, destination_named_port: None } => ("UDP", ports),
        Protocol { tcp: None, udp: None, sctp: Some(ports), destination_named_port: None } => ("SCTP", ports),
        Protocol { tcp: None, udp: None, sctp: None, destination_named_port: Some(name) } => return named(&name),
        _ => return Err(FieldError::new(0, "", "needs one of tcp, udp, sctp and destinationNamedPort")),
    };
    let protocol = Some(protocol.to_owned());
    match ports.destination_port {
        Destination { number: Some(number), range: None } => Ok(vec![port(protocol, number, None)]),
        Destination { number: None, range: Some(range) } => Ok(vec![port(protocol, range.start, Some(range.end))]),
        _ => Err(FieldError::new(0, "destinationPort", "needs one of number and range")),
    }
}

/// Peers of Antrea that mean the same.
fn of_peer(peer: Peer) -> Result<Vec<antrea_policy::Peer>, FieldError> {
    let Peer { namespaces, pods, nodes, networks, domain_names } = peer;
    let given = [namespaces.is_some(), pods.is_some(), nodes.is_some(), networks.is_some(), domain_names.is_some()];
    if given.into_iter().filter(|given| *given).count() != 1 {
        let reason = "needs one of namespaces, pods, nodes, networks and domainNames";
        return Err(FieldError::new(0, "", reason));
    }
    let none = antrea_policy::Peer::default;
    if let Some(namespaces) = namespaces {
        return Ok(vec![antrea_policy::Peer { namespace_selector: Some(namespaces), ..none() }]);
    }
    if let Some(NamespacedPods { namespace_selector, pod_selector }) = pods {
        let (namespace_selector, pod_selector) = (Some(namespace_selector), Some(pod_selector));
        return Ok(vec![antrea_policy::Peer { namespace_selector, pod_selector, ..none() }]);
    }
    if let Some(nodes) = nodes {
        return Ok(vec![antrea_policy::Peer { node_selector: Some(nodes), ..none() }]);
    }
    let (field, what, is_right, texts): (_, _, fn(&str) -> bool, _) = match networks {
        Some(networks) => ("networks", "prefix", is_prefix, networks),
        None => ("domainNames", "name of a domain", is_domain_name, domain_names.unwrap_or_default()),
    };
    if texts.is_empty() {
        return Err(FieldError::new(0, field, "is empty"));
    }
    if let Some((i, text)) = texts.iter().enumerate().find(|(_, text)| !is_right(text)) {
        return Err(error(&format!("{field}[{i}]"), text, what));
    }
    let of = |text: String| match field {
        "networks" => antrea_policy::Peer { ip_block: Some(IpBlock { cidr: text, except: Vec::new() }), ..none() },
        _ => antrea_policy::Peer { fqdn: Some(text), ..none() },
    };
    Ok(texts.into_iter().map(of).collect())
}

/// Whether a text is a name of a domain, or `*.` and one: two labels at least.
fn is_domain_name(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let is_edge = |c: Option<&u8>| c.is_some_and(u8::is_ascii_alphanumeric);
        let is_char = |c: &u8| c.is_ascii_alphanumeric() || b"-_".contains(c);
        is_edge(bytes.first()) && is_edge(bytes.last()) && bytes.iter().all(is_char) && bytes.len() <= 63
    };
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_domains() {
        for (text, expected) in [
            ("kubernetes.io", true),
            ("*.kubernetes.io", true),
            ("a.b-c.d_e.io.", true),
            ("io", false),
            ("*.io", false),
            ("*", false),
            ("a.*.io", false),
            ("*a.io", false),
            ("a..io", false),
            ("-a.io", false),
            ("", false),
        ] {
            assert_eq!(is_domain_name(text), expected, "{text}");
        }
    }
}
