//! Rules of Antrea's own policies.

use super::antrea_context::Context;
use super::antrea_parts::{action_number, fits, igmp_types, portless};
use super::groups::{FieldPlace, block, selected};
use super::k8s::numbered;
use super::multicast;
use super::rule::{Draft, Peers, Ports, bounded, nameless, once, with_doubtful};
use super::selector::word;
use super::services::is_served;
use super::world::{Members, Select, Spaces};
use super::{net, nodes};
use crate::kinds::Labels;
use crate::kinds::antrea_policy::{Action, AppliedTo, Peer, Rule, Spec};
use crate::kinds::ruled::Ruled;
use crate::kinds::wellformed::is_key;
use crate::problem::Problem;
use std::collections::{BTreeMap, BTreeSet};
use vswitch_proto::antrea::v1;

/// A rule's ids that are made from its place begin so; names of rules that do are no ids.
const SECTIONS: [&str; 2] = ["ingress-", "egress-"];

/// Bytes of a rule's name that is its id; what is added to it is shorter than what is left of 253.
const ID_LEN_MAX: usize = 120;

/// Where a rule is, and what its policy says of it.
pub(super) struct RulePlace<'a> {
    pub(super) spec: &'a Spec,
    pub(super) section: &'static str,
    pub(super) number: usize,
    /// What the policy is applied to.
    pub(super) applied: &'a [Members],
    pub(super) services: &'a [String],
    /// How many rules have a name.
    pub(super) names: &'a BTreeMap<&'a str, usize>,
}

impl RulePlace<'_> {
    fn is_ingress(&self) -> bool {
        self.section == "ingress"
    }

    /// What a rule becomes. Of one that is wrong: nothing if it would only allow, else what drops
    /// everything of its direction, at its place.
    pub(super) fn drafts(&self, context: &Context<'_>, ruled: &Ruled<Rule>, odd: &mut Vec<Problem>) -> Vec<Draft> {
        let path = format!("spec.{}[{}]", self.section, self.number);
        let (action, has_l7, own) = match ruled {
            Ruled::Right(rule) => {
                let one = OneRule { context, of: self, path: path.clone(), rule };
                match one.draft(odd).and_then(|draft| one.by_namespace(draft)) {
                    Ok(drafts) => {
                        let drafts: Vec<Draft> =
                            drafts.into_iter().flat_map(|draft| with_doubtful(context.world, draft)).collect();
                        nameless(context.world, context.origin, &format!("{path}.ports"), &drafts, odd);
                        return drafts;
                    }
                    Err(problem) => odd.push(*problem),
                }
                (Some(rule.action), !rule.l7_protocols.is_empty(), Some(&rule.applied_to))
            }
            Ruled::Wrong(rule) => (rule.action, rule.has_l7, rule.applied_to.as_ref()),
        };
        if action == Some(Action::Allow) && !has_l7 {
            odd.push(context.origin.warning(path, "is left out"));
            return Vec::new();
        }
        odd.push(context.origin.warning(&path, "in its place, everything of its direction is dropped"));
        let (applied, services, has_own) = self.bound(context, own, &path);
        let direction = if self.is_ingress() { v1::Direction::Ingress } else { v1::Direction::Egress };
        let rule = v1::Rule {
            id: format!("{}-{}", self.section, self.number),
            direction: direction.into(),
            action: v1::RuleAction::Drop.into(),
            ..Default::default()
        };
        vec![Draft { rule, applied, has_own, services, peers: Peers::anybody(), ports: Vec::new() }]
    }

    /// Whom a rule that is wrong may be applied to, and whether that is said by itself.
    fn bound(
        &self,
        context: &Context<'_>,
        own: Option<&Vec<AppliedTo>>,
        path: &str,
    ) -> (Vec<Members>, Vec<String>, bool) {
        let has_policys = !self.spec.applied_to.is_empty();
        let services = if self.is_ingress() { self.services.to_vec() } else { Vec::new() };
        let found = match own {
            Some(own) if own.is_empty() && has_policys => return (self.applied.to_vec(), services, false),
            Some(own) if !own.is_empty() => context.applied(&format!("{path}.appliedTo"), own, &mut Vec::new()).ok(),
            _ => None,
        };
        let Some((mut applied, mut of_rule)) = found else { return (vec![context.all()], Vec::new(), true) };
        applied.extend(self.applied.iter().cloned());
        of_rule.retain(|_| self.is_ingress() && applied.is_empty());
        (applied, of_rule, true)
    }
}

/// A rule and where it is.
pub(super) struct OneRule<'a> {
    context: &'a Context<'a>,
    of: &'a RulePlace<'a>,
    path: String,
    rule: &'a Rule,
}

impl OneRule<'_> {
    fn place(&self) -> FieldPlace<'_> {
        FieldPlace { origin: self.context.origin, path: &self.path }
    }

    fn draft(&self, odd: &mut Vec<Problem>) -> Result<Draft, Box<Problem>> {
        let (place, rule, of) = (self.place(), self.rule, self.of);
        fits(place, of.spec, rule)?;
        igmp_types(place, of.is_ingress(), rule)?;
        let has_own = !rule.applied_to.is_empty();
        let (applied, services) = match (has_own, of.spec.applied_to.is_empty()) {
            (true, true) => self.context.applied(&format!("{}.appliedTo", self.path), &rule.applied_to, odd)?,
            (false, false) => (of.applied.to_vec(), of.services.to_vec()),
            (true, false) => return Err(place.error("appliedTo", "the policy has one already")),
            (false, true) => return Err(place.error("appliedTo", "is required: the policy has none")),
        };
        if !services.is_empty() && !of.is_ingress() {
            return Err(place.error("", "rules of egress are not applied to Services"));
        }
        let (mut peers, mut ports) = (self.peers(odd)?, self.ports()?);
        if !of.is_ingress() {
            (peers, ports) = multicast::split(place, rule.action, peers, ports)?;
        }
        if !rule.l7_protocols.is_empty() && ports.is_empty() {
            // The engine reads TCP.
            ports.push(Ports::Match(v1::PortMatch { protocol: v1::Protocol::Tcp.into(), ..Default::default() }));
        }
        let l7 = rule.l7_protocols.iter().map(|protocol| {
            let definition =
                serde_json::to_string(protocol).map_err(|error| place.error("l7Protocols", error.to_string()));
            definition.map(|definition| v1::L7Protocol { definition })
        });
        let direction = if of.is_ingress() { v1::Direction::Ingress } else { v1::Direction::Egress };
        let rule = v1::Rule {
            id: self.id(),
            name: rule.name.clone(),
            direction: direction.into(),
            action: action_number(rule.action).into(),
            logging: rule.enable_logging,
            log_label: rule.log_label.clone(),
            l7_protocols: once(l7.collect::<Result<Vec<_>, _>>()?),
            ..Default::default()
        };
        Ok(Draft { rule, applied, has_own, services, peers, ports })
    }

    /// Its name, if no other rule of the policy has it: so it is the same rule when others come
    /// before it. Else its place.
    fn id(&self) -> String {
        let name = &self.rule.name;
        let is_id =
            !name.is_empty() && name.len() <= ID_LEN_MAX && !name.contains('/') && !name.chars().any(char::is_control);
        let is_alone = self.of.names.get(name.as_str()) == Some(&1);
        if is_alone && is_id && !SECTIONS.iter().any(|section| name.starts_with(section)) {
            name.clone()
        } else {
            format!("{}-{}", self.of.section, self.of.number)
        }
    }

    fn peers(&self, odd: &mut Vec<Problem>) -> Result<Peers, Box<Problem>> {
        let (place, rule) = (self.place(), self.rule);
        let (side, peers, others) =
            if self.of.is_ingress() { ("from", &rule.from, &rule.to) } else { ("to", &rule.to, &rule.from) };
        if !others.is_empty() {
            return Err(place.error(if self.of.is_ingress() { "to" } else { "from" }, "is for the other direction"));
        }
        let mut found = Peers { is_any: peers.is_empty() && rule.to_services.is_empty(), ..Peers::default() };
        if !rule.to_services.is_empty() {
            if self.of.is_ingress() || !peers.is_empty() || !rule.ports.is_empty() || !rule.protocols.is_empty() {
                return Err(place.error("toServices", "is for rules of egress, without `to` and ports"));
            }
            self.services(&mut found, odd)?;
        }
        for (i, peer) in peers.iter().enumerate() {
            let path = format!("{}.{side}[{i}]", self.path);
            if peer.namespaces.is_none() {
                self.peer(FieldPlace { path: &path, ..place }, peer, &mut found, odd)?;
            } else if *peer != seen_only(peer) {
                return Err(FieldPlace { path: &path, ..place }.error("namespaces", "goes with podSelector only"));
            }
        }
        for members in found.members.iter().filter(|members| members.pods.is_empty() && members.has_no_addresses()) {
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
            } else if self.rule.action != Action::Allow && self.may_be_there(&name) {
                return Err(place.error(&field, format!("Service {name} is not understood")));
            } else {
                let reason = format!("Service {name} has no address here: it matches nothing");
                odd.push(place.origin.warning(format!("{}.{field}", self.path), reason));
            }
        }
        found.services.sort();
        found.services.dedup();
        Ok(())
    }

    /// Whether a Service that has no address here may be another than it is known to be.
    fn may_be_there(&self, service: &str) -> bool {
        let model = self.context.world.model;
        let is_there = model.services.contains_key(service);
        model.is_wrong("Service.", service) || (!is_there && model.may_be("Service.", service))
    }

    fn peer(
        &self,
        place: FieldPlace<'_>,
        peer: &Peer,
        found: &mut Peers,
        odd: &mut Vec<Problem>,
    ) -> Result<(), Box<Problem>> {
        let is_other = peer.scope.as_deref().is_some_and(|scope| scope != "Cluster");
        for (field, is_given, reason) in [
            ("externalEntitySelector", peer.external_entity_selector.is_some(), "external entities are not served"),
            ("scope", is_other, "only the cluster itself is served"),
        ] {
            // Who is allowed by nothing else stays denied; who is to be denied must not pass.
            if is_given && self.rule.action == Action::Allow && self.rule.l7_protocols.is_empty() {
                odd.push(place.origin.tolerated(format!("{}.{field}", place.path), format!("{reason}: left out")));
                return Ok(());
            }
            if is_given {
                return Err(place.unserved(field, reason));
            }
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
            found.blocks.push(block(FieldPlace { path: &path, ..place }, prefix)?);
        } else if let Some(group) = &peer.group {
            let name = group;
            let group = self.context.group(place, name, odd)?;
            let denies = self.rule.action != Action::Allow || !self.rule.l7_protocols.is_empty();
            if group.is_unsettled || (group.is_in_doubt && denies) {
                let reason = format!("group {name:?} is not understood as it is now, or is there twice");
                return Err(place.error("group", reason));
            }
            found.members.extend(group.members);
            found.blocks.extend(group.blocks);
        } else if let Some(name) = &peer.fqdn {
            if self.of.is_ingress() {
                return Err(place.error("fqdn", "is for rules of egress"));
            }
            let Some(name) = net::name_pattern(name) else {
                let hint = "such as www.example.com, or *.example.com: * stands for any characters";
                return Err(Box::new(place.error("fqdn", format!("{name:?} is no name")).hint(hint)));
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
            let place = FieldPlace { path: &path, ..self.place() };
            let found = numbered(place, port.protocol.as_deref(), port.port.as_ref(), port.end_port)?;
            all.push(match (found, port.source_port) {
                (found, None) if port.source_end_port.is_none() => found,
                (_, None) => return Err(place.error("sourceEndPort", "needs sourcePort")),
                (_, Some(0)) => return Err(place.error("sourcePort", "0 is no port")),
                (Ports::Named(..), Some(_)) => return Err(place.error("sourcePort", "goes with no port by name")),
                (_, Some(first)) if port.source_end_port.is_some_and(|last| last < first) => {
                    return Err(place.error("sourceEndPort", "is below sourcePort"));
                }
                (Ports::Match(ports), Some(first)) => {
                    let last = port.source_end_port.filter(|last| *last != first).unwrap_or(0);
                    Ports::Match(v1::PortMatch { source_port: first.into(), source_end_port: last.into(), ..ports })
                }
            });
        }
        for (i, protocol) in self.rule.protocols.iter().enumerate() {
            let path = format!("{}.protocols[{i}]", self.path);
            all.extend(portless(FieldPlace { path: &path, ..self.place() }, protocol)?.into_iter().map(Ports::Match));
        }
        Ok(all)
    }

    /// Peers in namespaces as seen from a Pod: one rule for each namespace that it is applied to.
    pub(super) fn by_namespace(&self, draft: Draft) -> Result<Vec<Draft>, Box<Problem>> {
        let peers = if self.of.is_ingress() { &self.rule.from } else { &self.rule.to };
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
        if let Some(key) = keys.iter().find(|key| !is_key(key)) {
            return Err(place.error("namespaces.sameLabels", format!("{key:?} is no key of a label")));
        }
        let spaces = if own.is_some() {
            Spaces::One(namespace.to_owned())
        } else {
            let pairs = |labels: &Labels| {
                let pair = |key: &String| Some((key.clone(), labels.get(key)?.clone()));
                Spaces::Same(keys.iter().map(pair).collect::<Option<_>>().unwrap_or_default())
            };
            self.context.world.namespace_labels(namespace).map_or(Spaces::Unknown, pairs)
        };
        Ok(Select { spaces, pods: peer.pod_selector.clone().unwrap_or_default(), account: None })
    }
}

/// What a peer with `namespaces` may say.
fn seen_only(peer: &Peer) -> Peer {
    Peer { namespaces: peer.namespaces.clone(), pod_selector: peer.pod_selector.clone(), ..Peer::default() }
}
