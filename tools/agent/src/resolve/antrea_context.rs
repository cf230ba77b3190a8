//! What the parts of a policy of Antrea are read in: the objects that are there, and its namespace.

use super::groups::{FieldPlace, Found, Named as NamedGroups, selected};
use super::services::is_served;
use super::world::{Members, Select, Spaces, World};
use crate::kinds::antrea_policy::{AppliedTo, Named};
use crate::kinds::selector::Selector;
use crate::problem::{Origin, Problem};

/// Tiers that are there without a document.
pub const TIERS: [(&str, u32); 6] = [
    ("emergency", 50),
    ("securityops", 100),
    ("networkops", 150),
    ("platform", 200),
    ("application", 250),
    ("baseline", 253),
];

/// The one of [`TIERS`] that has this name, in any case of its letters.
pub fn built_in_tier(name: &str) -> Option<(&'static str, u32)> {
    let lower = name.to_lowercase();
    TIERS.iter().copied().find(|(known, _)| *known == lower)
}

/// A policy and where it is.
pub(super) struct Context<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) origin: &'a Origin,
    pub(super) namespace: Option<&'a str>,
}

impl Context<'_> {
    /// The priority of a tier.
    pub(super) fn tier(&self, name: Option<&str>, odd: &mut Vec<Problem>) -> Result<u32, Box<Problem>> {
        let name = name.unwrap_or("application");
        if let Some((_, priority)) = built_in_tier(name) {
            return Ok(priority);
        }
        let reason = format!("there is no Tier {name:?}");
        let Some(priority) = self.world.tiers.get(name) else {
            let is_there = self.world.model.tiers.contains_key(name);
            let reason = if is_there { format!("Tier {name:?} is wrong, and never was right") } else { reason };
            return Err(Box::new(self.origin.error("spec.tier", reason)));
        };
        if self.world.model.tiers.contains_key(name) {
            return Ok(*priority);
        }
        odd.push(self.origin.warning("spec.tier", format!("{reason} any more: its policies stay where they were")));
        Ok(*priority)
    }

    /// All Pods that a policy may apply to.
    pub(super) fn all(&self) -> Members {
        let spaces = self.namespace.map_or(Spaces::All, |namespace| Spaces::One(namespace.to_owned()));
        self.world.select(&Select { spaces, pods: Selector::default(), account: None })
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
            let place = FieldPlace { origin: self.origin, path: &path };
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
                None => pods.extend(self.pods(place, applied, odd)?),
            }
        }
        if !pods.is_empty() && !services.is_empty() {
            let place = FieldPlace { origin: self.origin, path };
            return Err(place.error("", "Services and Pods do not go together"));
        }
        services.sort();
        services.dedup();
        Ok((pods, services))
    }

    fn pods(
        &self,
        place: FieldPlace<'_>,
        applied: &AppliedTo,
        odd: &mut Vec<Problem>,
    ) -> Result<Vec<Members>, Box<Problem>> {
        if applied.node_selector.is_some() && !is_only_nodes(applied) {
            return Err(place.error("nodeSelector", "goes with nothing else"));
        }
        // Neither is a Pod: nobody here is bound by them.
        for (field, is_given, reason) in [
            ("externalEntitySelector", applied.external_entity_selector.is_some(), "external entities are not served"),
            ("nodeSelector", applied.node_selector.is_some(), "policies of Nodes themselves are not served"),
        ] {
            let is_alone =
                applied.pod_selector.is_none() && applied.group.is_none() && applied.service_account.is_none();
            if is_given && is_alone {
                let field = format!("{}.{field}", place.path);
                odd.push(place.origin.tolerated(field, format!("{reason}: left out")));
                return Ok(Vec::new());
            }
        }
        let selectors = (applied.pod_selector.as_ref(), applied.namespace_selector.as_ref());
        let has_selector = selectors != (None, None);
        match (&applied.group, &applied.service_account) {
            (Some(group), None) if !has_selector => {
                let mut found = self.group(place, group, odd)?;
                if found.is_in_doubt {
                    // Whom it may name: anybody.
                    let doubtful = self.all().pods;
                    let name = format!("group {group}, as it may be");
                    found.members.push(Members { name, doubtful, ..Members::default() });
                }
                if found.blocks.is_empty() && found.members.iter().all(Members::has_no_addresses) {
                    Ok(found.members)
                } else {
                    Err(place.error("group", "has ipBlocks or Nodes, which are no Pods"))
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
    fn own(&self, place: FieldPlace<'_>, field: &str, named: &Named) -> Result<(), Box<Problem>> {
        let other = |own: &str| named.namespace.as_deref().is_some_and(|namespace| namespace != own);
        if self.namespace.is_some_and(other) {
            let field = format!("{field}.namespace");
            return Err(place.error(&field, "a policy of a namespace applies to nothing of another one"));
        }
        Ok(())
    }

    /// A ClusterGroup, or of a policy of a namespace a Group of that.
    pub(super) fn group(
        &self,
        place: FieldPlace<'_>,
        name: &str,
        odd: &mut Vec<Problem>,
    ) -> Result<Found, Box<Problem>> {
        NamedGroups { namespace: self.namespace }.find(self.world, place, name, odd)
    }

    pub(super) fn account(&self, place: FieldPlace<'_>, account: &Named) -> Result<Members, Box<Problem>> {
        let Some(namespace) = account.namespace.as_deref().or(self.namespace) else {
            return Err(place.error("serviceAccount.namespace", "is required"));
        };
        place.name("serviceAccount.namespace", namespace)?;
        place.name("serviceAccount.name", &account.name)?;
        let spaces = Spaces::One(namespace.to_owned());
        Ok(self.world.select(&Select { spaces, pods: Selector::default(), account: Some(account.name.clone()) }))
    }

    pub(super) fn service(&self, place: FieldPlace<'_>, field: &str, service: &Named) -> Result<String, Box<Problem>> {
        if service.scope.as_deref().is_some_and(|scope| scope != "Cluster") {
            return Err(place.unserved(&format!("{field}.scope"), "only the cluster itself is served"));
        }
        let Some(namespace) = service.namespace.as_deref().or(self.namespace) else {
            return Err(place.error(&format!("{field}.namespace"), "is required"));
        };
        let name = format!("{namespace}/{}", service.name);
        if !self.world.model.services.contains_key(&name) {
            place.name(&format!("{field}.namespace"), namespace)?;
            place.name(&format!("{field}.name"), &service.name)?;
        }
        Ok(name)
    }
}

/// Whether Nodes are all that it names.
fn is_only_nodes(applied: &AppliedTo) -> bool {
    *applied == AppliedTo { node_selector: applied.node_selector.clone(), ..AppliedTo::default() }
}
