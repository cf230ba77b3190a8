//! ClusterGroups and Groups, and what Antrea's kinds say of Pods.

use super::net::{is_within, once, prefix};
use super::nodes;
use super::selector::check;
use super::world::{Members, Select, Spaces, World};
use crate::kinds::cluster_group::{ClusterGroupBody, Spec};
use crate::kinds::egress::PodsOrGroup;
use crate::kinds::k8s_policy::IpBlock;
use crate::kinds::selector::Selector;
use crate::kinds::wellformed::is_domain;
use crate::model::Item;
use crate::problem::{Origin, Problem, Severity};
use vswitch_proto::antrea::v1;

/// Where something is said: of which document, at which field.
#[derive(Clone, Copy, Debug)]
pub struct FieldPlace<'a> {
    /// The document.
    pub origin: &'a Origin,
    /// Path of the field.
    pub path: &'a str,
}

impl FieldPlace<'_> {
    /// An error of the field, or of one below it.
    pub fn error(&self, field: &str, reason: impl Into<String>) -> Box<Problem> {
        let field = if field.is_empty() { self.path.to_owned() } else { format!("{}.{field}", self.path) };
        Box::new(self.origin.error(field, reason))
    }

    /// What is right, and is not served here.
    pub fn unserved(&self, field: &str, reason: impl Into<String>) -> Box<Problem> {
        let error = *self.error(field, reason);
        Box::new(Problem { severity: Severity::Tolerated, ..error })
    }

    /// Checks what is to be the name of an object.
    pub fn name(&self, field: &str, name: &str) -> Result<(), Box<Problem>> {
        if is_domain(name) { Ok(()) } else { Err(self.error(field, format!("{name:?} is no name of an object"))) }
    }

    /// Checks a selector that is below.
    pub fn check(&self, field: &str, selector: Option<&Selector>) -> Result<(), Box<Problem>> {
        match selector.map(check) {
            Some(Err((path, reason))) => Err(self.error(&format!("{field}.{path}"), reason)),
            _ => Ok(()),
        }
    }
}

/// Pods by two selectors, as Antrea's kinds have them: without namespaces, those of `namespace` (or
/// all, if that is not given).
pub fn selected(
    place: FieldPlace<'_>,
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
pub fn block(place: FieldPlace<'_>, block: &IpBlock) -> Result<v1::IpBlock, Box<Problem>> {
    let told = |field: String, text: &str| {
        let is_prefix = prefix(text);
        is_prefix.ok_or_else(|| place.error(&field, format!("{text:?} is no prefix")))
    };
    let cidr = told("cidr".to_owned(), &block.cidr)?;
    let mut excepts = Vec::new();
    for (i, text) in block.except.iter().enumerate() {
        let field = format!("except[{i}]");
        let except = told(field.clone(), text)?;
        if !is_within(&except, &cidr) {
            return Err(place.error(&field, format!("{text:?} is no part of {:?}", block.cidr)));
        }
        excepts.push(except);
    }
    Ok(v1::IpBlock { cidr, except_cidrs: once(excepts) })
}

/// What a group comes to.
#[derive(Debug, Default)]
pub struct Found {
    /// Pods, and Nodes' addresses.
    pub members: Vec<Members>,
    /// Prefixes.
    pub blocks: Vec<v1::IpBlock>,
    /// It is there, and what it refers to.
    pub is_there: bool,
    /// A document says it, or a child of it, otherwise, or is not understood as it is now: it may
    /// be more.
    pub is_in_doubt: bool,
    /// Of documents that say it differently none was in force.
    pub is_unsettled: bool,
}

/// Groups by name: ClusterGroups, or Groups of a namespace.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The namespace; None: ClusterGroups.
    pub namespace: Option<&'a str>,
}

impl Named<'_> {
    fn kind(self) -> &'static str {
        if self.namespace.is_some() { "Group" } else { "ClusterGroup" }
    }

    /// A group that has a document; None: it has none. An error: it is not understood.
    fn get<'w>(
        self,
        world: &World<'w>,
        place: FieldPlace<'_>,
        field: &str,
        name: &str,
    ) -> Result<Option<&'w Item<ClusterGroupBody>>, Box<Problem>> {
        let full = self.full(name);
        let model = world.model;
        let groups = if self.namespace.is_some() { &model.groups } else { &model.cluster_groups };
        let found = groups.get(&full);
        if found.is_none() && self.is_in_doubt(world, name) {
            return Err(place.error(field, format!("{} {name:?} is not understood", self.kind())));
        }
        if found.is_none() && self.is_in_doubt(world, "") {
            let reason = format!("there is no {0} {name:?}: a {0} whose name cannot be read may be it", self.kind());
            return Err(place.error(field, reason));
        }
        if found.is_none() && model.homeless_groups.contains(name) {
            let reason =
                format!("there is no {} {name:?}: a Group of this name does not say its namespace", self.kind());
            return Err(place.error(field, reason));
        }
        if found.is_none() {
            // What no object can be named will not come: it is no forward reference.
            place.name(field, name)?;
        }
        Ok(found)
    }

    fn full(self, name: &str) -> String {
        self.namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
    }

    /// Whether a document of the group is not understood, or says another thing than the one that
    /// counts. Without a name: whether there is one whose name cannot be read.
    fn is_in_doubt(self, world: &World<'_>, name: &str) -> bool {
        let full = if name.is_empty() { String::new() } else { self.full(name) };
        world.model.is_wrong(&format!("{}.crd.antrea.io", self.kind()), &full)
    }

    /// Whether documents say the group differently, none of which was in force.
    fn is_unsettled(self, world: &World<'_>, name: &str) -> bool {
        world.model.unsettled.contains(&(format!("{}.crd.antrea.io", self.kind()), self.full(name)))
    }

    /// What a group comes to. One that is not there yet has nobody, until it comes: as Antrea has
    /// it.
    pub fn find(
        self,
        world: &World<'_>,
        place: FieldPlace<'_>,
        name: &str,
        odd: &mut Vec<Problem>,
    ) -> Result<Found, Box<Problem>> {
        let Some(item) = self.get(world, place, "group", name)? else {
            let reason = format!("there is no {} {name:?} yet: it matches nothing", self.kind());
            odd.push(place.origin.warning(format!("{}.group", place.path), reason));
            return Ok(Found::default());
        };
        let group = FieldPlace { origin: &item.origin, path: "spec" };
        let spec = &item.body.spec;
        let (is_in_doubt, is_unsettled) = (self.is_in_doubt(world, name), self.is_unsettled(world, name));
        if spec.child_groups.is_empty() {
            let found = self.one(world, group, spec, odd)?;
            return Ok(Found { is_in_doubt: is_in_doubt || found.is_in_doubt, is_unsettled, ..found });
        }
        let other = Spec { child_groups: spec.child_groups.clone(), ..Default::default() };
        if *spec != other {
            return Err(group.error("childGroups", "goes with nothing else"));
        }
        let mut all = Found { is_there: true, is_in_doubt, is_unsettled, ..Found::default() };
        for (i, child) in spec.child_groups.iter().enumerate() {
            let field = format!("childGroups[{i}]");
            let Some(item) = self.get(world, group, &field, child)? else {
                let reason = format!("there is no {} {child:?} yet: it matches nothing", self.kind());
                odd.push(item.origin.warning(format!("spec.{field}"), reason));
                continue;
            };
            if !item.body.spec.child_groups.is_empty() {
                return Err(group.error(&field, format!("{child:?} has childGroups itself")));
            }
            let one = self.one(world, FieldPlace { origin: &item.origin, path: "spec" }, &item.body.spec, odd)?;
            all.is_in_doubt |= one.is_in_doubt || self.is_in_doubt(world, child);
            all.is_unsettled |= self.is_unsettled(world, child);
            all.members.extend(one.members);
            all.blocks.extend(one.blocks);
        }
        Ok(all)
    }

    fn one(
        self,
        world: &World<'_>,
        place: FieldPlace<'_>,
        spec: &Spec,
        odd: &mut Vec<Problem>,
    ) -> Result<Found, Box<Problem>> {
        if spec.external_entity_selector.is_some() {
            return Err(place.unserved("externalEntitySelector", "external entities are not served"));
        }
        let has_blocks = spec.ip_block.is_some() || !spec.ip_blocks.is_empty();
        let has_pods = spec.pod_selector.is_some() || spec.namespace_selector.is_some();
        let ways = [has_blocks, has_pods, spec.service_reference.is_some(), spec.node_selector.is_some()];
        if ways.into_iter().filter(|has| *has).count() != 1 {
            let all = "podSelector and namespaceSelector, nodeSelector, ipBlocks, serviceReference, childGroups";
            return Err(place.error("", format!("needs one of {all}")));
        }
        let mut found = Found { is_there: true, ..Found::default() };
        if has_blocks {
            for (i, prefix) in spec.ip_blocks.iter().enumerate() {
                let path = format!("{}.ipBlocks[{i}]", place.path);
                found.blocks.push(block(FieldPlace { path: &path, ..place }, prefix)?);
            }
            if let Some(prefix) = &spec.ip_block {
                found.blocks.push(block(FieldPlace { path: &format!("{}.ipBlock", place.path), ..place }, prefix)?);
            }
        } else if let Some(selector) = &spec.node_selector {
            if self.namespace.is_some() {
                return Err(place.error("nodeSelector", "is for ClusterGroups"));
            }
            place.check("nodeSelector", Some(selector))?;
            found.members.push(nodes::select(world, selector));
        } else if spec.service_reference.is_some() {
            found.members.extend(self.of_service(world, place, spec, odd)?);
            found.is_in_doubt = self.service_of(spec).is_some_and(|name| world.model.is_wrong("Service.", &name));
        } else {
            let selectors = (spec.pod_selector.as_ref(), spec.namespace_selector.as_ref());
            found.members.push(world.select(&selected(place, selectors, self.namespace)?));
        }
        Ok(found)
    }

    /// The Service that a group refers to.
    fn service_of(self, spec: &Spec) -> Option<String> {
        let reference = spec.service_reference.as_ref()?;
        let namespace = reference.namespace.as_deref().or(self.namespace).unwrap_or("default");
        Some(format!("{namespace}/{}", reference.name))
    }

    /// The Pods of a Service. One that is not there yet has none.
    fn of_service(
        self,
        world: &World<'_>,
        place: FieldPlace<'_>,
        spec: &Spec,
        odd: &mut Vec<Problem>,
    ) -> Result<Option<Members>, Box<Problem>> {
        let Some(reference) = &spec.service_reference else { return Ok(None) };
        let own = self.namespace.unwrap_or("default");
        let namespace = reference.namespace.as_deref().unwrap_or(own);
        if self.namespace.is_some_and(|own| own != namespace) {
            return Err(place.error("serviceReference.namespace", "a Group has Pods of its namespace only"));
        }
        let name = format!("{namespace}/{}", reference.name);
        let Some(service) = world.model.services.get(&name) else {
            if world.model.may_be("Service.", &name) {
                return Err(place.error("serviceReference", format!("Service {name} is not understood")));
            }
            place.name("serviceReference.namespace", namespace)?;
            place.name("serviceReference.name", &reference.name)?;
            let reason = format!("there is no Service {name} yet: it matches nothing");
            odd.push(place.origin.warning(format!("{}.serviceReference", place.path), reason));
            return Ok(None);
        };
        if service.body.spec.has_lost_selector {
            return Err(place.error("serviceReference", format!("the selector of Service {name} is not understood")));
        }
        let selector = Selector { match_labels: service.body.spec.selector.clone(), ..Selector::default() };
        if selector == Selector::default() {
            let reason = format!("Service {name} has no selector: it matches nothing");
            odd.push(place.origin.warning(format!("{}.serviceReference", place.path), reason));
            return Ok(None);
        }
        Ok(Some(world.select(&Select::in_namespace(namespace, &selector))))
    }
}

/// Pods of this Node that an Egress or TrafficControl applies to.
pub fn local_pods(
    world: &World<'_>,
    origin: &Origin,
    applied: &PodsOrGroup,
    odd: &mut Vec<Problem>,
) -> Result<Vec<String>, Box<Problem>> {
    let place = FieldPlace { origin, path: "spec.appliedTo" };
    let has_pods = applied.pod_selector.is_some() || applied.namespace_selector.is_some();
    let members = match &applied.group {
        Some(_) if has_pods => return Err(place.error("group", "goes with no selector")),
        Some(group) => {
            let found = Named { namespace: None }.find(world, place, group, odd)?;
            if !found.blocks.is_empty() {
                return Err(place.error("group", format!("ClusterGroup {group:?} has ipBlocks, which are no Pods")));
            }
            found.members
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
