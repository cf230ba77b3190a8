//! Pods that a wrong policy may select are held: everything is dropped for them in the directions
//! that it may speak of, by a policy whose name says of which document.

use super::{Projection, Projector, groups_of};
use crate::kinds::ruled::{Class, WrongPolicy};
use crate::model::Item;
use crate::resolve::rule::Groups;
use crate::resolve::world::Members;
use crate::resolve::{World, antrea};
use std::collections::BTreeSet;
use vswitch_proto::antrea::v1::object::Object as Kinded;
use vswitch_proto::antrea::v1::{self, Kind};

/// Before all others: the first tier, and a place in it that no policy of Antrea has.
const FIRST: (u32, f64) = (0, 0.0);

/// Until when Pods are held: until the policy is right.
pub(super) const RIGHT: &str = "it is right";
/// Until it is known whether the policy binds them.
pub(super) const KNOWN: &str = "documents that say whom it binds are right";

/// Pods that one line names.
const NAMED_MAX: usize = 5;

/// Whom a policy binds on this Node.
#[derive(Debug, Default)]
pub(super) struct Bound {
    pods: BTreeSet<String>,
    /// Services whose NodePorts are bound.
    services: BTreeSet<String>,
}

impl Bound {
    /// Whom a policy binds.
    pub(super) fn of(policy: Option<&(v1::NetworkPolicy, Groups)>) -> Self {
        let mut bound = Self::default();
        for group in policy.into_iter().flat_map(|(_, groups)| groups.applied.values()) {
            bound.add(group);
        }
        bound
    }

    fn add(&mut self, group: &v1::AppliedToGroup) {
        self.pods.extend(group.pods.iter().cloned());
        self.services.extend(group.services.iter().cloned());
    }

    /// Whether nobody is bound.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.services.is_empty()
    }

    /// Those whom another one binds, too.
    pub(super) fn within(&self, other: &Self) -> Self {
        let pods = self.pods.intersection(&other.pods).cloned().collect();
        Self { pods, services: self.services.intersection(&other.services).cloned().collect() }
    }

    /// Those whom another one does not bind.
    pub(super) fn without(&self, other: &Self) -> Self {
        let pods = self.pods.difference(&other.pods).cloned().collect();
        Self { pods, services: self.services.difference(&other.services).cloned().collect() }
    }
}

/// Whom a policy of the projection binds.
pub(super) fn bound(projection: &Projection, key: &str) -> Bound {
    let mut bound = Bound::default();
    let policy = projection.objects.get(&(Kind::NetworkPolicy as i32, key.to_owned()));
    for key in policy.map(|policy| groups_of(&policy.object)).unwrap_or_default() {
        if let Some(Kinded::AppliedToGroup(group)) =
            projection.objects.get(&key).and_then(|group| group.object.object.as_ref())
        {
            bound.add(group);
        }
    }
    bound
}

/// What the object of a policy is named that is not understood; by its place if it has no name.
pub(super) fn key(item: &Item<WrongPolicy>) -> String {
    let (class, meta, origin) = (item.body.class, &item.meta, &item.origin);
    let name = if meta.name.is_empty() {
        let file = origin.file.rsplit('/').next().unwrap_or_default();
        format!("{}:{}", file.replace(char::is_control, "?"), origin.line)
    } else {
        meta.name.clone()
    };
    match (class, meta.namespace.as_str()) {
        (class, _) if !class.is_namespaced() => format!("{}:{name}", class.prefix()),
        (_, "") => format!("{}:-/{name}", class.prefix()),
        (_, namespace) => format!("{}:{namespace}/{name}", class.prefix()),
    }
}

/// Whom a policy that is not understood may bind on this Node: as its selectors say if they are
/// understood, else all Pods of its namespace, or all.
pub(super) fn selected(world: &World<'_>, item: &Item<WrongPolicy>) -> Bound {
    let namespace = Some(item.meta.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let applied = item.body.applied.as_deref();
    let (pods, services) = antrea::may_bind(world, &item.origin, namespace, applied);
    let all = |members: &Members| [world.local(&members.pods), world.local_doubtful(members)].concat();
    let pods = pods.iter().flat_map(all).collect();
    Bound { pods, services: services.into_iter().collect() }
}

/// Pods of this Node that a policy may bind besides: their documents, or those of their namespaces,
/// are not understood as they are now.
pub(super) fn doubtful(world: &World<'_>, item: &Item<WrongPolicy>) -> Bound {
    // The usual case costs nothing: all documents are understood.
    if world.model.wrong.is_empty() && !world.has_doubts() {
        return Bound::default();
    }
    let namespace = Some(item.meta.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let (pods, _) = antrea::may_bind(world, &item.origin, namespace, item.body.applied.as_deref());
    let pods = pods.iter().flat_map(|members| world.local_doubtful(members)).collect();
    Bound { pods, services: BTreeSet::new() }
}

impl Projector<'_> {
    /// A name for what stands beside a policy.
    pub(super) fn free_name(&self, key: &str) -> Option<String> {
        let taken = |name: &String| self.projection.objects.contains_key(&(Kind::NetworkPolicy as i32, name.clone()));
        let names = std::iter::once(String::new()).chain((2..).map(|number: usize| format!(" {number}")));
        let mut names = names.map(|number| format!("{key} (held{number})"));
        names.find(|name| !taken(name))
    }

    /// Drops everything of the directions that a policy may speak of for some of those that it may
    /// bind.
    pub(super) fn hold(&mut self, key: &str, item: &Item<WrongPolicy>, bound: &Bound, until: &str) {
        let origin = &item.origin;
        if bound.is_empty() {
            return;
        }
        let Some(name) = self.free_name(key) else { return };
        let mut applied_to = Vec::new();
        for (word, pods, services) in
            [("pods", &bound.pods, None), ("node ports", &BTreeSet::new(), Some(&bound.services))]
        {
            let services: Vec<String> = services.into_iter().flatten().cloned().collect();
            if pods.is_empty() && services.is_empty() {
                continue;
            }
            let group = v1::AppliedToGroup {
                name: format!("{word} of {name}"),
                pods: pods.iter().cloned().collect(),
                services,
            };
            applied_to.push(group.name.clone());
            self.add(Kinded::AppliedToGroup(group), origin);
        }
        self.problems.push(origin.warning("", told(item, bound, until)));
        self.add(Kinded::NetworkPolicy(policy(name, item, bound, applied_to)), origin);
    }
}

fn told(item: &Item<WrongPolicy>, bound: &Bound, until: &str) -> String {
    let all = bound.pods.len() + bound.services.len();
    let names: Vec<&str> = bound.pods.iter().chain(&bound.services).take(NAMED_MAX).map(String::as_str).collect();
    let more = if all > NAMED_MAX { format!(" and {} more", all - NAMED_MAX) } else { String::new() };
    let ways = match (item.body.ingress, item.body.egress) {
        (true, false) => "what comes in",
        (false, true) => "what goes out",
        _ => "everything",
    };
    format!("until {until}, {ways} is dropped for {}{more}", names.join(", "))
}

fn policy(name: String, item: &Item<WrongPolicy>, bound: &Bound, applied_to: Vec<String>) -> v1::NetworkPolicy {
    let WrongPolicy { class, ingress, egress, .. } = item.body;
    let uid = item.meta.uid.clone();
    let policy = v1::NetworkPolicy { name, uid, ..Default::default() };
    if class == Class::K8s {
        return v1::NetworkPolicy {
            kind: v1::PolicyKind::K8s.into(),
            applied_to,
            isolates_ingress: ingress,
            isolates_egress: egress,
            ..policy
        };
    }
    let kind = if class.is_namespaced() { v1::PolicyKind::Antrea } else { v1::PolicyKind::AntreaCluster };
    let rule = |direction: v1::Direction, place: usize, applied_to: &[String]| v1::Rule {
        id: format!("{}-{place}", if direction == v1::Direction::Ingress { "ingress" } else { "egress" }),
        direction: direction.into(),
        action: v1::RuleAction::Drop.into(),
        peer: Some(v1::RulePeer::default()),
        applied_to: applied_to.to_vec(),
        ..Default::default()
    };
    let pods = usize::from(!bound.pods.is_empty());
    let mut rules = Vec::new();
    for (place, group) in applied_to.iter().enumerate() {
        let group = std::slice::from_ref(group);
        if ingress {
            rules.push(rule(v1::Direction::Ingress, place, group));
        }
        if egress && place < pods {
            rules.push(rule(v1::Direction::Egress, place, group));
        }
    }
    v1::NetworkPolicy { kind: kind.into(), tier: FIRST.0, priority: FIRST.1, rules, ..policy }
}
