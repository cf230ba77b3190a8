//! NetworkPolicies of Kubernetes.

use super::groups::{FieldPlace, block};
use super::rule::{Draft, Groups, Peers, Ports, nameless, protocol_number, rules};
use super::world::{Members, Select, Spaces, World};
use crate::kinds::NumberOrName;
use crate::kinds::k8s_policy::{K8sPolicyBody, Peer, Port};
use crate::kinds::ruled::Ruled;
use crate::kinds::wellformed::is_port_name;
use crate::model::Item;
use crate::problem::Problem;
use vswitch_proto::antrea::v1;

/// Annotation of a namespace by which Antrea tells decisions of its Kubernetes policies.
const LOGGING: &str = "networkpolicy.antrea.io/enable-logging";

/// A policy as this Node has it, with the groups that it names; None: it has no effect here.
pub type Policy = Option<(v1::NetworkPolicy, Groups)>;

/// A policy of Kubernetes. A rule that is wrong is told in `odd` and left out; an error is about
/// the policy as a whole.
pub fn policy(world: &World<'_>, item: &Item<K8sPolicyBody>, odd: &mut Vec<Problem>) -> Result<Policy, Box<Problem>> {
    let spec = &item.body.spec;
    let place = FieldPlace { origin: &item.origin, path: "spec" };
    place.check("podSelector", Some(&spec.pod_selector))?;
    let applied = vec![world.select(&Select::in_namespace(&item.meta.namespace, &spec.pod_selector))];
    if applied[0].pods.is_empty() {
        odd.push(item.origin.warning("spec.podSelector", "selects no Pod"));
    }
    let (isolates_ingress, isolates_egress) = spec.isolates();
    let logging = world
        .model
        .namespaces
        .get(&item.meta.namespace)
        .is_some_and(|namespace| namespace.meta.annotations.get(LOGGING).is_some_and(|value| value == "true"));

    let mut drafts = Vec::new();
    let context = Context { world, item, applied: &applied, logging };
    for (i, rule) in spec.ingress.iter().enumerate() {
        let said = match rule {
            Ruled::Right(rule) => Some((&rule.from[..], &rule.ports[..])),
            Ruled::Wrong(_) => None,
        };
        drafts.extend(context.one(v1::Direction::Ingress, i, said, odd));
    }
    for (i, rule) in spec.egress.iter().enumerate() {
        let said = match rule {
            Ruled::Right(rule) => Some((&rule.to[..], &rule.ports[..])),
            Ruled::Wrong(_) => None,
        };
        drafts.extend(context.one(v1::Direction::Egress, i, said, odd));
    }
    for (isolates, field, has_rules) in
        [(isolates_ingress, "ingress", !spec.ingress.is_empty()), (isolates_egress, "egress", !spec.egress.is_empty())]
    {
        if has_rules && !isolates {
            odd.push(item.origin.warning(format!("spec.{field}"), "has no effect: not among policyTypes"));
        }
    }
    let mut groups = Groups::default();
    let applied_to = groups.applied(world, &applied);
    if applied_to.is_empty() {
        return Ok(None);
    }
    drafts.retain(|draft| {
        if draft.rule.direction == v1::Direction::Ingress as i32 { isolates_ingress } else { isolates_egress }
    });
    let rules = drafts.iter().flat_map(|draft| rules(world, draft, &mut groups)).collect();
    let policy = v1::NetworkPolicy {
        name: format!("np:{}", item.meta.full_name()),
        uid: item.meta.uid.clone(),
        kind: v1::PolicyKind::K8s.into(),
        applied_to,
        rules,
        isolates_ingress,
        isolates_egress,
        log_isolation: logging,
        ..Default::default()
    };
    Ok(Some((policy, groups)))
}

struct Context<'a> {
    world: &'a World<'a>,
    item: &'a Item<K8sPolicyBody>,
    applied: &'a [Members],
    logging: bool,
}

impl Context<'_> {
    /// A rule; None: it is wrong. It only allows, so without it no more passes.
    fn one(
        &self,
        direction: v1::Direction,
        number: usize,
        said: Option<(&[Peer], &[Port])>,
        odd: &mut Vec<Problem>,
    ) -> Option<Draft> {
        let section = if direction == v1::Direction::Ingress { "ingress" } else { "egress" };
        let path = format!("spec.{section}[{number}]");
        let origin = &self.item.origin;
        let draft = said.map(|(peers, ports)| self.draft(direction, number, peers, ports, odd));
        match draft {
            Some(Ok(draft)) => {
                nameless(self.world, origin, &format!("{path}.ports"), std::slice::from_ref(&draft), odd);
                return Some(draft);
            }
            Some(Err(problem)) => odd.push(*problem),
            None => {}
        }
        odd.push(origin.warning(path, "is left out"));
        None
    }

    fn draft(
        &self,
        direction: v1::Direction,
        number: usize,
        peers: &[Peer],
        ports: &[Port],
        odd: &mut Vec<Problem>,
    ) -> Result<Draft, Box<Problem>> {
        let (section, side) = if direction == v1::Direction::Ingress { ("ingress", "from") } else { ("egress", "to") };
        let path = format!("spec.{section}[{number}]");
        let origin = &self.item.origin;
        let mut found = Peers { is_any: peers.is_empty(), ..Peers::default() };
        for (i, peer) in peers.iter().enumerate() {
            let path = format!("{path}.{side}[{i}]");
            self.peer(FieldPlace { origin, path: &path }, peer, &mut found)?;
        }
        for members in found.members.iter().filter(|members| members.pods.is_empty()) {
            odd.push(origin.warning(format!("{path}.{side}"), format!("{}: there are none", members.name)));
        }
        let ports = ports.iter().enumerate().map(|(i, port)| {
            let path = format!("{path}.ports[{i}]");
            let place = FieldPlace { origin, path: &path };
            numbered(place, port.protocol.as_deref(), port.port.as_ref(), port.end_port)
        });
        let rule = v1::Rule {
            id: format!("{section}-{number}"),
            direction: direction.into(),
            action: v1::RuleAction::Allow.into(),
            logging: self.logging,
            ..Default::default()
        };
        let ports = ports.collect::<Result<_, _>>()?;
        Ok(Draft { rule, applied: self.applied.to_vec(), has_own: false, services: Vec::new(), peers: found, ports })
    }

    fn peer(&self, place: FieldPlace<'_>, peer: &Peer, found: &mut Peers) -> Result<(), Box<Problem>> {
        let (pods, namespaces) = (peer.pod_selector.as_ref(), peer.namespace_selector.as_ref());
        match &peer.ip_block {
            Some(_) if pods.is_some() || namespaces.is_some() => Err(place.error("ipBlock", "goes with no selector")),
            Some(prefix) => {
                let path = format!("{}.ipBlock", place.path);
                found.blocks.push(block(FieldPlace { path: &path, ..place }, prefix)?);
                Ok(())
            }
            None if pods.is_none() && namespaces.is_none() => {
                Err(place.error("", "needs podSelector, namespaceSelector or ipBlock"))
            }
            None => {
                place.check("podSelector", pods)?;
                place.check("namespaceSelector", namespaces)?;
                let own = || Spaces::One(self.item.meta.namespace.clone());
                let spaces = namespaces.map_or_else(own, |selector| Spaces::Matching(selector.clone()));
                let select = Select { spaces, pods: pods.cloned().unwrap_or_default(), account: None };
                found.members.push(self.world.select(&select));
                Ok(())
            }
        }
    }
}

/// The error of a text that is no name of a port.
fn no_port_name(place: FieldPlace<'_>, field: &str, name: &str) -> Box<Problem> {
    let hint = if name.parse::<u16>().is_ok() { "a number is written without quotes" } else { "" };
    Box::new(place.error(field, format!("{name:?} is no name of a port")).hint(hint))
}

/// Ports as the switch takes them, or by name.
pub fn numbered(
    place: FieldPlace<'_>,
    protocol: Option<&str>,
    port: Option<&NumberOrName>,
    end: Option<u16>,
) -> Result<Ports, Box<Problem>> {
    let word = protocol.unwrap_or("TCP");
    let protocol = protocol_number(word);
    if protocol == v1::Protocol::Unspecified {
        return Err(place.error("protocol", format!("{word:?} is not one of TCP, UDP, SCTP")));
    }
    let port = match port {
        Some(NumberOrName::Name(name)) if !is_port_name(name) => return Err(no_port_name(place, "port", name)),
        Some(NumberOrName::Name(name)) if end.is_none() => return Ok(Ports::Named(word.to_owned(), name.clone())),
        Some(NumberOrName::Name(_)) => return Err(place.error("endPort", "goes with no port by name")),
        Some(NumberOrName::Number(0)) => return Err(place.error("port", "0 is no port")),
        Some(NumberOrName::Number(port)) => *port,
        None if end.is_some() => return Err(place.error("endPort", "needs port")),
        None => 0,
    };
    if end.is_some_and(|end| end < port) {
        return Err(place.error("endPort", "is below port"));
    }
    // One port as a range is one port.
    let end = end.filter(|end| *end != port).unwrap_or(0);
    let ports =
        v1::PortMatch { protocol: protocol.into(), port: port.into(), end_port: end.into(), ..Default::default() };
    Ok(Ports::Match(ports))
}
