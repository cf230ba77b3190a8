//! ClusterGroups, and what Antrea's kinds say of Pods.

use super::net::prefix;
use super::selector::check;
use super::world::{Members, Select, Spaces, World};
use crate::kinds::cluster_group;
use crate::kinds::egress::PodsOrGroup;
use crate::kinds::k8s_policy::IpBlock;
use crate::kinds::selector::Selector;
use crate::problem::{Origin, Problem};
use vswitch_proto::antrea::v1;

/// Where something is said: of which document, at which field.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The document.
    pub origin: &'a Origin,
    /// Path of the field.
    pub path: &'a str,
}

impl Place<'_> {
    /// An error of the field, or of one below it.
    pub fn error(&self, field: &str, reason: impl Into<String>) -> Box<Problem> {
        let field = if field.is_empty() { self.path.to_owned() } else { format!("{}.{field}", self.path) };
        Box::new(self.origin.error(field, reason))
    }

    /// Checks a selector that is below.
    pub fn check(&self, field: &str, selector: Option<&Selector>) -> Result<(), Box<Problem>> {
        match selector.map(check) {
            Some(Err((path, reason))) => Err(self.error(&format!("{field}.{path}"), reason)),
            _ => Ok(()),
        }
    }
}

/// Pods by two selectors, as Antrea's kinds have them: without namespaces, those of `namespace` (or all, if that is not given).
pub fn selected(
    place: Place<'_>,
    (pods, namespaces): (Option<&Selector>, Option<&Selector>),
    namespace: Option<&str>,
) -> Result<Select, Box<Problem>> {
    place.check("podSelector", pods)?;
    place.check("namespaceSelector", namespaces)?;
    let spaces = match (namespaces, namespace) {
        (Some(selector), _) => Spaces::Matching(selector.clone()),
        (None, Some(namespace)) => Spaces::One(namespace.to_owned()),
        (None, None) => Spaces::All,
    };
    Ok(Select { spaces, pods: pods.cloned().unwrap_or_default(), account: None })
}

/// A prefix with holes; host bits are cut off, as Kubernetes does.
pub fn block(place: Place<'_>, block: &IpBlock) -> Result<v1::IpBlock, Box<Problem>> {
    let told = |field: String, text: &str| {
        let is_prefix = prefix(text);
        is_prefix.ok_or_else(|| place.error(&field, format!("{text:?} is no prefix")))
    };
    let excepts = block.except.iter().enumerate();
    Ok(v1::IpBlock {
        cidr: told("cidr".to_owned(), &block.cidr)?,
        except_cidrs: excepts.map(|(i, text)| told(format!("except[{i}]"), text)).collect::<Result<_, _>>()?,
    })
}

/// What a ClusterGroup comes to.
pub fn cluster_group(
    world: &World<'_>,
    place: Place<'_>,
    name: &str,
) -> Result<(Vec<Members>, Vec<v1::IpBlock>), Box<Problem>> {
    let Some(item) = world.model.cluster_groups.get(name) else {
        return Err(place.error("group", format!("there is no ClusterGroup {name:?}")));
    };
    let group = Place { origin: &item.origin, path: "spec" };
    let spec = &item.body.spec;
    if spec.child_groups.is_empty() {
        return one(world, group, spec);
    }
    let (mut members, mut blocks) = (Vec::new(), Vec::new());
    let other = cluster_group::Spec { child_groups: spec.child_groups.clone(), ..Default::default() };
    if *spec != other {
        return Err(group.error("childGroups", "goes with nothing else"));
    }
    for (i, child) in spec.child_groups.iter().enumerate() {
        let field = format!("childGroups[{i}]");
        let Some(item) = world.model.cluster_groups.get(child) else {
            return Err(group.error(&field, format!("there is no ClusterGroup {child:?}")));
        };
        if !item.body.spec.child_groups.is_empty() {
            return Err(group.error(&field, format!("{child:?} has childGroups itself")));
        }
        let (more, prefixes) = one(world, Place { origin: &item.origin, path: "spec" }, &item.body.spec)?;
        members.extend(more);
        blocks.extend(prefixes);
    }
    Ok((members, blocks))
}

fn one(
    world: &World<'_>,
    place: Place<'_>,
    spec: &cluster_group::Spec,
) -> Result<(Vec<Members>, Vec<v1::IpBlock>), Box<Problem>> {
    if spec.external_entity_selector.is_some() {
        return Err(place.error("externalEntitySelector", "external entities are not served"));
    }
    let has_blocks = spec.ip_block.is_some() || !spec.ip_blocks.is_empty();
    let has_pods = spec.pod_selector.is_some() || spec.namespace_selector.is_some();
    let count = [has_blocks, has_pods, spec.service_reference.is_some()].into_iter().filter(|has| *has).count();
    if count != 1 {
        return Err(
            place.error("", "needs one of podSelector and namespaceSelector, ipBlocks, serviceReference, childGroups")
        );
    }
    if has_blocks {
        let mut blocks = Vec::new();
        for (i, prefix) in spec.ip_blocks.iter().enumerate() {
            let path = format!("{}.ipBlocks[{i}]", place.path);
            blocks.push(block(Place { path: &path, ..place }, prefix)?);
        }
        if let Some(prefix) = &spec.ip_block {
            blocks.push(block(Place { path: &format!("{}.ipBlock", place.path), ..place }, prefix)?);
        }
        return Ok((Vec::new(), blocks));
    }
    if let Some(reference) = &spec.service_reference {
        let namespace = reference.namespace.as_deref().unwrap_or("default");
        let name = format!("{namespace}/{}", reference.name);
        let Some(service) = world.model.services.get(&name) else {
            return Err(place.error("serviceReference", format!("there is no Service {name}")));
        };
        let selector = Selector { match_labels: service.body.spec.selector.clone(), ..Selector::default() };
        if selector == Selector::default() {
            return Err(place.error("serviceReference", format!("Service {name} has no selector")));
        }
        return Ok((vec![world.select(&Select::in_namespace(namespace, &selector))], Vec::new()));
    }
    let select = selected(place, (spec.pod_selector.as_ref(), spec.namespace_selector.as_ref()), None)?;
    Ok((vec![world.select(&select)], Vec::new()))
}

/// Pods of this Node that an Egress or TrafficControl applies to.
pub fn local_pods(world: &World<'_>, origin: &Origin, applied: &PodsOrGroup) -> Result<Vec<String>, Box<Problem>> {
    let place = Place { origin, path: "spec.appliedTo" };
    let has_pods = applied.pod_selector.is_some() || applied.namespace_selector.is_some();
    let members = match &applied.group {
        Some(_) if has_pods => return Err(place.error("group", "goes with no selector")),
        Some(group) => {
            let (members, blocks) = cluster_group(world, place, group)?;
            if !blocks.is_empty() {
                return Err(place.error("group", format!("ClusterGroup {group:?} has ipBlocks, which are no Pods")));
            }
            members
        }
        None if !has_pods => return Err(place.error("", "needs podSelector, namespaceSelector or group")),
        None => {
            let selectors = (applied.pod_selector.as_ref(), applied.namespace_selector.as_ref());
            vec![world.select(&selected(place, selectors, None)?)]
        }
    };
    let pods: Vec<usize> = members.iter().flat_map(|members| members.pods.iter().copied()).collect();
    Ok(world.local(&pods))
}
