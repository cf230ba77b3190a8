//! Rules of Antrea's own policies.

use super::antrea::Context;
use super::groups::{Place, block, selected};
use super::k8s::numbered;
use super::multicast;
use super::rule::{Draft, Peers, Ports, bounded};
use super::selector::word;
use super::services::is_served;
use super::world::{Members, Select, Spaces};
use super::{net, nodes};
use crate::kinds::antrea_policy::{Action, Peer, Protocol, Rule};
use crate::problem::Problem;
use std::collections::{BTreeMap, BTreeSet};
use vswitch_proto::antrea::v1;

/// A rule's ids that are made from its place begin so; names of rules that do are no ids.
const SECTIONS: [&str; 2] = ["ingress-", "egress-"];

/// Bytes of a rule's name that is its id; what is added to it is shorter than what is left of 253.
const ID_LEN_MAX: usize = 120;

/// A rule and where it is.
pub(super) struct OneRule<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) path: String,
    pub(super) rule: &'a Rule,
    pub(super) is_ingress: bool,
}

impl OneRule<'_> {
    fn place(&self) -> Place<'_> {
        Place { origin: &self.context.item.origin, path: &self.path }
    }

    pub(super) fn draft(
        &self,
        id: &str,
        applied: &[Members],
        services: &[String],
        odd: &mut Vec<Problem>,
    ) -> Result<Draft, Box<Problem>> {
        let (place, rule) = (self.place(), self.rule);
        let has_own = !rule.applied_to.is_empty();
        let (applied, services) = match (has_own, self.context.item.body.spec.applied_to.is_empty()) {
            (true, true) => self.context.applied(&format!("{}.appliedTo", self.path), &rule.applied_to, odd)?,
            (false, false) => (applied.to_vec(), services.to_vec()),
            (true, false) => return Err(place.error("appliedTo", "the policy has one already")),
            (false, true) => return Err(place.error("appliedTo", "is required: the policy has none")),
        };
        if !services.is_empty() && !self.is_ingress {
            return Err(place.error("", "rules of egress are not applied to Services"));
        }
        let (mut peers, mut ports) = (self.peers(odd)?, self.ports()?);
        if !self.is_ingress {
            (peers, ports) = multicast::split(place, peers, ports)?;
        }
        let l7 = rule.l7_protocols.iter().map(|protocol| {
            let definition =
                serde_json::to_string(protocol).map_err(|error| place.error("l7Protocols", error.to_string()));
            definition.map(|definition| v1::L7Protocol { definition })
        });
        let (direction, action) =
            if self.is_ingress { (v1::Direction::Ingress, rule.action) } else { (v1::Direction::Egress, rule.action) };
        let rule = v1::Rule {
            id: self.id(id),
            name: rule.name.clone(),
            direction: direction.into(),
            action: action_number(action).into(),
            logging: rule.enable_logging,
            log_label: rule.log_label.clone(),
            l7_protocols: l7.collect::<Result<_, _>>()?,
            ..Default::default()
        };
        Ok(Draft { rule, applied, has_own, services, peers, ports })
    }

    /// Its name, if no other rule of the policy has it: so it is the same rule when others come before it. Else its place.
    fn id(&self, place: &str) -> String {
        let (name, spec) = (&self.rule.name, &self.context.item.body.spec);
        let same = spec.ingress.iter().chain(&spec.egress).filter(|rule| rule.name == *name).count();
        let is_id =
            !name.is_empty() && name.len() <= ID_LEN_MAX && !name.contains('/') && !name.chars().any(char::is_control);
        if same == 1 && is_id && !SECTIONS.iter().any(|section| name.starts_with(section)) {
            name.clone()
        } else {
            place.to_owned()
        }
    }

    fn peers(&self, odd: &mut Vec<Problem>) -> Result<Peers, Box<Problem>> {
        let (place, rule) = (self.place(), self.rule);
        let (side, peers, others) =
            if self.is_ingress { ("from", &rule.from, &rule.to) } else { ("to", &rule.to, &rule.from) };
        if !others.is_empty() {
            return Err(place.error(if self.is_ingress { "to" } else { "from" }, "is for the other direction"));
        }
        let mut found = Peers { is_any: peers.is_empty() && rule.to_services.is_empty(), ..Peers::default() };
        if !rule.to_services.is_empty() {
            if self.is_ingress || !peers.is_empty() || !rule.ports.is_empty() || !rule.protocols.is_empty() {
                return Err(place.error("toServices", "is for rules of egress, without `to` and ports"));
            }
            self.services(&mut found, odd)?;
        }
        for (i, peer) in peers.iter().enumerate() {
            let path = format!("{}.{side}[{i}]", self.path);
            if peer.namespaces.is_none() {
                self.peer(Place { path: &path, ..place }, peer, &mut found)?;
            } else if *peer != seen_only(peer) {
                return Err(Place { path: &path, ..place }.error("namespaces", "goes with podSelector only"));
            }
        }
        for members in found.members.iter().filter(|members| members.pods.is_empty() && members.addresses.is_empty()) {
            let reason = format!("{}: there are none", members.name);
            odd.push(place.origin.warning(format!("{}.{side}", self.path), reason));
        }
        Ok(found)
    }

    fn services(&self, found: &mut Peers, odd: &mut Vec<Problem>) -> Result<(), Box<Problem>> {
        let place = self.place();
        for (i, service) in self.rule.to_services.iter().enumerate() {
            let field = format!("toServices[{i}]");
            let name = self.context.service(place, &field, service)?;
            let item = self.context.world.model.services.get(&name);
            if item.is_some_and(|item| is_served(self.context.world, item)) {
                found.services.push(name);
            } else {
                let reason = format!("Service {name} has no address here: it matches nothing");
                odd.push(place.origin.warning(format!("{}.{field}", self.path), reason));
            }
        }
        found.services.sort();
        found.services.dedup();
        Ok(())
    }

    fn peer(&self, place: Place<'_>, peer: &Peer, found: &mut Peers) -> Result<(), Box<Problem>> {
        if peer.external_entity_selector.is_some() {
            return Err(place.error("externalEntitySelector", "external entities are not served"));
        }
        if peer.scope.as_deref().is_some_and(|scope| scope != "Cluster") {
            return Err(place.error("scope", "only the cluster itself is served"));
        }
        let selectors = (peer.pod_selector.as_ref(), peer.namespace_selector.as_ref());
        let ways = [
            selectors != (None, None),
            peer.ip_block.is_some(),
            peer.group.is_some(),
            peer.fqdn.is_some(),
            peer.service_account.is_some(),
            peer.node_selector.is_some(),
        ];
        if ways.into_iter().filter(|way| *way).count() != 1 {
            let all =
                "podSelector and namespaceSelector, ipBlock, group, fqdn, serviceAccount, nodeSelector, namespaces";
            return Err(place.error("", format!("needs one of {all}")));
        }
        if let Some(prefix) = &peer.ip_block {
            let path = format!("{}.ipBlock", place.path);
            found.blocks.push(block(Place { path: &path, ..place }, prefix)?);
        } else if let Some(group) = &peer.group {
            let (members, blocks) = self.context.group(place, group)?;
            found.members.extend(members);
            found.blocks.extend(blocks);
        } else if let Some(name) = &peer.fqdn {
            if self.is_ingress {
                return Err(place.error("fqdn", "is for rules of egress"));
            }
            let Some(name) = net::name_pattern(name) else {
                let hint = "www.example.com, or *.example.com for all names below one; other wildcards are not served";
                return Err(place.error("fqdn", format!("{name:?} is no name: {hint}")));
            };
            if !found.fqdns.contains(&name) {
                found.fqdns.push(name);
            }
        } else if let Some(account) = &peer.service_account {
            found.members.push(self.context.account(place, account)?);
        } else if let Some(selector) = &peer.node_selector {
            place.check("nodeSelector", Some(selector))?;
            found.members.push(nodes::select(self.context.world, selector));
        } else {
            found.members.push(self.context.world.select(&selected(place, selectors, self.context.namespace)?));
        }
        Ok(())
    }

    fn ports(&self) -> Result<Vec<Ports>, Box<Problem>> {
        let mut all = Vec::new();
        for (i, port) in self.rule.ports.iter().enumerate() {
            let path = format!("{}.ports[{i}]", self.path);
            let place = Place { path: &path, ..self.place() };
            let found = numbered(place, port.protocol.as_deref(), port.port.as_ref(), port.end_port)?;
            all.push(match (found, port.source_port) {
                (found, None) if port.source_end_port.is_none() => found,
                (_, None) => return Err(place.error("sourceEndPort", "needs sourcePort")),
                (Ports::Named(..), Some(_)) => return Err(place.error("sourcePort", "goes with no port by name")),
                (Ports::Match(ports), Some(first)) => {
                    let last = port.source_end_port.filter(|last| *last != first).unwrap_or(0);
                    Ports::Match(v1::PortMatch { source_port: first.into(), source_end_port: last.into(), ..ports })
                }
            });
        }
        for (i, protocol) in self.rule.protocols.iter().enumerate() {
            let path = format!("{}.protocols[{i}]", self.path);
            all.push(Ports::Match(portless(Place { path: &path, ..self.place() }, protocol)?));
        }
        Ok(all)
    }

    /// Peers in namespaces as seen from a Pod: one rule for each namespace that it is applied to.
    pub(super) fn by_namespace(&self, draft: Draft) -> Result<Vec<Draft>, Box<Problem>> {
        let peers = if self.is_ingress { &self.rule.from } else { &self.rule.to };
        let seen: Vec<&Peer> = peers.iter().filter(|peer| peer.namespaces.is_some()).collect();
        if seen.is_empty() {
            return Ok(vec![draft]);
        }
        let world = self.context.world;
        let space = |index: &usize| world.pods[*index].item.meta.namespace.as_str();
        let spaces: BTreeSet<&str> = draft.applied.iter().flat_map(|members| members.pods.iter().map(space)).collect();
        let mut drafts = Vec::new();
        for namespace in spaces {
            let mut one = draft.clone();
            one.rule.id = bounded(&format!("{}/{namespace}", draft.rule.id));
            one.has_own = true;
            for members in &mut one.applied {
                members.pods = members.pods.iter().copied().filter(|index| space(index) == namespace).collect();
                members.name = format!("{} in {}", members.name, word(namespace));
            }
            for peer in &seen {
                let select = self.seen_from(namespace, peer)?;
                one.peers.members.push(world.select(&select));
            }
            drafts.push(one);
        }
        Ok(drafts)
    }

    fn seen_from(&self, namespace: &str, peer: &Peer) -> Result<Select, Box<Problem>> {
        let place = self.place();
        place.check("podSelector", peer.pod_selector.as_ref())?;
        let namespaces = peer.namespaces.as_ref();
        let own = namespaces.and_then(|namespaces| namespaces.own);
        let keys = namespaces.map_or(&[][..], |namespaces| &namespaces.same_labels);
        if own.is_some() != keys.is_empty() {
            return Err(place.error("namespaces", "needs one of match and sameLabels"));
        }
        let spaces = if own.is_some() {
            Spaces::One(namespace.to_owned())
        } else {
            let labels = self.context.world.namespace_labels(namespace);
            let pair = |key: &String| labels.and_then(|labels| Some((key.clone(), labels.get(key)?.clone())));
            let pairs: Option<BTreeMap<_, _>> = keys.iter().map(pair).collect();
            Spaces::Same(pairs.unwrap_or_default())
        };
        Ok(Select { spaces, pods: peer.pod_selector.clone().unwrap_or_default(), account: None })
    }
}

/// What a peer with `namespaces` may say.
fn seen_only(peer: &Peer) -> Peer {
    Peer { namespaces: peer.namespaces.clone(), pod_selector: peer.pod_selector.clone(), ..Peer::default() }
}

fn action_number(action: Action) -> v1::RuleAction {
    match action {
        Action::Allow => v1::RuleAction::Allow,
        Action::Drop => v1::RuleAction::Drop,
        Action::Reject => v1::RuleAction::Reject,
        Action::Pass => v1::RuleAction::Pass,
    }
}

fn portless(place: Place<'_>, protocol: &Protocol) -> Result<v1::PortMatch, Box<Problem>> {
    match (&protocol.icmp, &protocol.igmp) {
        (Some(icmp), None) => Ok(v1::PortMatch {
            protocol: v1::Protocol::Icmp.into(),
            icmp_type: icmp.icmp_type.map(u32::from),
            icmp_code: icmp.icmp_code.map(u32::from),
            ..Default::default()
        }),
        (None, Some(igmp)) => Ok(v1::PortMatch {
            protocol: v1::Protocol::Igmp.into(),
            igmp_type: igmp.igmp_type.map(u32::from),
            multicast_group: igmp.group_address.clone(),
            ..Default::default()
        }),
        _ => Err(place.error("", "needs one of icmp and igmp")),
    }
}
