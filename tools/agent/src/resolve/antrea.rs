//! Antrea's own policies: tiers, groups, and rules with actions.

use super::antrea_rule::OneRule;
use super::groups::{Place, cluster_group, selected};
use super::k8s::Policy;
use super::rule::{Groups, nameless, rules};
use super::services::is_served;
use super::world::{Members, Select, Spaces, World};
use crate::kinds::antrea_policy::{AppliedTo, Body, Named};
use crate::kinds::selector::Selector;
use crate::model::Item;
use crate::problem::Problem;
use vswitch_proto::antrea::v1;

/// Tiers that are there without a document.
const TIERS: [(&str, u32); 6] = [
    ("emergency", 50),
    ("securityops", 100),
    ("networkops", 150),
    ("platform", 200),
    ("application", 250),
    ("baseline", 253),
];

/// A policy of Antrea; of a namespace if `item` has one.
pub fn policy(world: &World<'_>, item: &Item<Body>, odd: &mut Vec<Problem>) -> Result<Policy, Box<Problem>> {
    let spec = &item.body.spec;
    let namespace = Some(item.meta.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let context = Context { world, item, namespace };
    let tier = context.tier()?;
    if !(1.0..=10000.0).contains(&spec.priority) {
        return Err(Box::new(item.origin.error("spec.priority", format!("{} is not in 1 to 10000", spec.priority))));
    }
    let (applied, services) = context.applied("spec.appliedTo", &spec.applied_to, odd)?;
    if !spec.applied_to.is_empty() && services.is_empty() && applied.iter().all(|members| members.pods.is_empty()) {
        odd.push(item.origin.warning("spec.appliedTo", "selects no Pod"));
    }
    let mut drafts = Vec::new();
    for (section, rules) in [("ingress", &spec.ingress), ("egress", &spec.egress)] {
        for (i, rule) in rules.iter().enumerate() {
            let path = format!("spec.{section}[{i}]");
            let one = OneRule { context: &context, path, rule, is_ingress: section == "ingress" };
            let draft = one.draft(&format!("{section}-{i}"), &applied, &services, odd)?;
            let of_rule = one.by_namespace(draft)?;
            nameless(world, &item.origin, &format!("spec.{section}[{i}].ports"), &of_rule, odd);
            drafts.extend(of_rule);
        }
    }
    let mut groups = Groups::default();
    let mut applied_to = groups.applied(world, &applied);
    if !services.is_empty() {
        applied_to.push(groups.applied_services(&services));
    }
    let rules: Vec<v1::Rule> = drafts.iter().flat_map(|draft| rules(world, draft, &mut groups)).collect();
    if applied_to.is_empty() && rules.is_empty() {
        return Ok(None);
    }
    let (prefix, kind) = match namespace {
        Some(_) => ("anp", v1::PolicyKind::Antrea),
        None => ("acnp", v1::PolicyKind::AntreaCluster),
    };
    let policy = v1::NetworkPolicy {
        name: format!("{prefix}:{}", item.meta.full_name()),
        uid: item.meta.uid.clone(),
        kind: kind.into(),
        tier,
        priority: spec.priority,
        applied_to,
        rules,
        ..Default::default()
    };
    Ok(Some((policy, groups)))
}

/// A policy and where it is.
pub(super) struct Context<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) item: &'a Item<Body>,
    pub(super) namespace: Option<&'a str>,
}

impl Context<'_> {
    fn tier(&self) -> Result<u32, Box<Problem>> {
        let name = self.item.body.spec.tier.as_deref().unwrap_or("application");
        if let Some(tier) = self.world.model.tiers.get(name) {
            return Ok(tier.body.spec.priority);
        }
        let lower = name.to_lowercase();
        let known = TIERS.iter().find(|(known, _)| *known == lower);
        known
            .map(|(_, priority)| *priority)
            .ok_or_else(|| Box::new(self.item.origin.error("spec.tier", format!("there is no Tier {name:?}"))))
    }

    /// Pods, and Services whose NodePorts are meant.
    pub(super) fn applied(
        &self,
        path: &str,
        all: &[AppliedTo],
        odd: &mut Vec<Problem>,
    ) -> Result<(Vec<Members>, Vec<String>), Box<Problem>> {
        let (mut pods, mut services) = (Vec::new(), Vec::new());
        for (i, applied) in all.iter().enumerate() {
            let path = format!("{path}[{i}]");
            let place = Place { origin: &self.item.origin, path: &path };
            match &applied.service {
                Some(_) if *applied != (AppliedTo { service: applied.service.clone(), ..Default::default() }) => {
                    return Err(place.error("service", "goes with nothing else"));
                }
                Some(service) => {
                    self.own(place, "service", service)?;
                    let name = self.service(place, "service", service)?;
                    if self.world.model.services.get(&name).is_some_and(|item| is_served(self.world, item)) {
                        services.push(name);
                    } else {
                        let reason = format!("Service {name} has no address here: nothing is bound");
                        odd.push(place.origin.warning(format!("{path}.service"), reason));
                    }
                }
                None => pods.extend(self.pods(place, applied)?),
            }
        }
        if !pods.is_empty() && !services.is_empty() {
            let place = Place { origin: &self.item.origin, path };
            return Err(place.error("", "Services and Pods do not go together"));
        }
        services.sort();
        services.dedup();
        Ok((pods, services))
    }

    fn pods(&self, place: Place<'_>, applied: &AppliedTo) -> Result<Vec<Members>, Box<Problem>> {
        if applied.external_entity_selector.is_some() {
            return Err(place.error("externalEntitySelector", "external entities are not served"));
        }
        if applied.node_selector.is_some() {
            return Err(place.error("nodeSelector", "policies of Nodes themselves are not served"));
        }
        let selectors = (applied.pod_selector.as_ref(), applied.namespace_selector.as_ref());
        let has_selector = selectors != (None, None);
        match (&applied.group, &applied.service_account) {
            (Some(group), None) if !has_selector => {
                let (members, blocks) = self.group(place, group)?;
                if blocks.is_empty() {
                    Ok(members)
                } else {
                    Err(place.error("group", "has ipBlocks, which are no Pods"))
                }
            }
            (None, Some(account)) if !has_selector => {
                self.own(place, "serviceAccount", account)?;
                Ok(vec![self.account(place, account)?])
            }
            (None, None) if has_selector => {
                if selectors.1.is_some() && self.namespace.is_some() {
                    return Err(place.error("namespaceSelector", "a policy of a namespace applies to its Pods only"));
                }
                Ok(vec![self.world.select(&selected(place, selectors, self.namespace)?)])
            }
            (None, None) => Err(place.error("", "needs a selector, group, serviceAccount or service")),
            _ => Err(place.error("", "group, serviceAccount and selectors do not go together")),
        }
    }

    /// A policy of a namespace binds nobody of another one.
    fn own(&self, place: Place<'_>, field: &str, named: &Named) -> Result<(), Box<Problem>> {
        let other = |own: &str| named.namespace.as_deref().is_some_and(|namespace| namespace != own);
        if self.namespace.is_some_and(other) {
            let field = format!("{field}.namespace");
            return Err(place.error(&field, "a policy of a namespace applies to nothing of another one"));
        }
        Ok(())
    }

    pub(super) fn group(&self, place: Place<'_>, name: &str) -> Result<(Vec<Members>, Vec<v1::IpBlock>), Box<Problem>> {
        if self.namespace.is_some() {
            return Err(place.error("group", "Groups of namespaces are not served"));
        }
        cluster_group(self.world, place, name)
    }

    pub(super) fn account(&self, place: Place<'_>, account: &Named) -> Result<Members, Box<Problem>> {
        let Some(namespace) = account.namespace.as_deref().or(self.namespace) else {
            return Err(place.error("serviceAccount.namespace", "is required"));
        };
        let spaces = Spaces::One(namespace.to_owned());
        Ok(self.world.select(&Select { spaces, pods: Selector::default(), account: Some(account.name.clone()) }))
    }

    pub(super) fn service(&self, place: Place<'_>, field: &str, service: &Named) -> Result<String, Box<Problem>> {
        if service.scope.as_deref().is_some_and(|scope| scope != "Cluster") {
            return Err(place.error(&format!("{field}.scope"), "only the cluster itself is served"));
        }
        let Some(namespace) = service.namespace.as_deref().or(self.namespace) else {
            return Err(place.error(&format!("{field}.namespace"), "is required"));
        };
        Ok(format!("{namespace}/{}", service.name))
    }
}
