//! Rules of policies one by one: a rule that is not understood leaves the others as they are. And
//! what is left of a policy that is not understood.

use super::DocumentBody;
use super::antrea_policy::{self, Action, AppliedTo};
use super::k8s_policy::{self, PolicyType};
use super::selector::Selector;
use crate::source::{FieldError, Tree, Value, typed};
use serde::{Deserialize, Serialize};

/// A rule, or what is left of one that is not understood.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Ruled<T> {
    /// It is understood.
    Right(T),
    /// It is not.
    Wrong(WrongRule),
}

/// What is known of a rule that is not understood.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct WrongRule {
    /// What it does, if that is known.
    pub action: Option<Action>,
    /// It has l7Protocols, so that allowing also denies.
    pub has_l7: bool,
    /// What it applies to in place of the policy's (nothing: it does not say); None: that is not
    /// known.
    pub applied_to: Option<Vec<AppliedTo>>,
}

/// Kinds of policies.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Class {
    /// NetworkPolicy of networking.k8s.io.
    K8s,
    /// NetworkPolicy of crd.antrea.io.
    Antrea,
    /// ClusterNetworkPolicy of crd.antrea.io.
    Cluster,
    /// ClusterNetworkPolicy of policy.networking.k8s.io.
    Network,
    /// AdminNetworkPolicy.
    Admin,
    /// BaselineAdminNetworkPolicy.
    BaselineAdmin,
}

/// The group of policies of the Network Policy API.
pub(super) const ADMIN_GROUP: &str = "policy.networking.k8s.io";

/// Kinds of policies with their groups, and what names of their objects begin with.
const CLASSES: [(Class, &str, &str, &str); 6] = [
    (Class::K8s, "networking.k8s.io", "NetworkPolicy", "np"),
    (Class::Antrea, "crd.antrea.io", "NetworkPolicy", "anp"),
    (Class::Cluster, "crd.antrea.io", "ClusterNetworkPolicy", "acnp"),
    (Class::Network, ADMIN_GROUP, "ClusterNetworkPolicy", "acnp:k8s-cnp"),
    (Class::Admin, ADMIN_GROUP, "AdminNetworkPolicy", "acnp:k8s-anp"),
    (Class::BaselineAdmin, ADMIN_GROUP, "BaselineAdminNetworkPolicy", "acnp:k8s-banp"),
];

impl Class {
    /// Of a group and a kind.
    pub fn of(group: &str, kind: &str) -> Option<Self> {
        let group = if group == "extensions" { "networking.k8s.io" } else { group };
        let found = CLASSES.iter().find(|(_, of, known, _)| *of == group && *known == kind);
        found.map(|(class, ..)| *class)
    }

    /// Of a document that does not say its group.
    pub fn guess(kind: &str) -> Option<Self> {
        match kind {
            "NetworkPolicy" => Some(Self::K8s),
            "ClusterNetworkPolicy" => Some(Self::Cluster),
            "AdminNetworkPolicy" => Some(Self::Admin),
            "BaselineAdminNetworkPolicy" => Some(Self::BaselineAdmin),
            _ => None,
        }
    }

    /// Whether it is a kind of policy.networking.k8s.io.
    pub fn is_admin(self) -> bool {
        matches!(self, Self::Network | Self::Admin | Self::BaselineAdmin)
    }

    /// Whether its objects are of a namespace.
    pub fn is_namespaced(self) -> bool {
        matches!(self, Self::K8s | Self::Antrea)
    }

    fn row(self) -> (&'static str, &'static str, &'static str) {
        let found = CLASSES.iter().find(|(class, ..)| *class == self);
        found.map(|(_, group, kind, prefix)| (*group, *kind, *prefix)).unwrap_or_default()
    }

    /// Its kind and group, as keys of documents have them.
    pub fn kind(self) -> String {
        let (group, kind, _) = self.row();
        format!("{kind}.{group}")
    }

    /// What names of its objects begin with.
    pub fn prefix(self) -> &'static str {
        self.row().2
    }
}

/// What is known of a policy that is not understood.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct WrongPolicy {
    /// Its kind.
    pub class: Class,
    /// What it, or its rules, apply to; None: that is not known.
    pub applied: Option<Vec<AppliedTo>>,
    /// It may say something of what comes in.
    pub ingress: bool,
    /// It may say something of what goes out.
    pub egress: bool,
}

impl WrongPolicy {
    /// A policy of which nothing else is known.
    pub fn unknown(class: Class) -> Self {
        Self { class, applied: None, ingress: true, egress: true }
    }

    /// Of a policy of Kubernetes that cannot be taken as it is.
    pub fn of_k8s(spec: &k8s_policy::Spec) -> Self {
        let (ingress, egress) = spec.isolates();
        let applied = AppliedTo { pod_selector: Some(spec.pod_selector.clone()), ..AppliedTo::default() };
        Self { class: Class::K8s, applied: Some(vec![applied]), ingress, egress }
    }

    /// Of a policy of Antrea's that cannot be taken as it is.
    pub fn of_antrea(class: Class, spec: &antrea_policy::Spec) -> Self {
        let applied = if spec.applied_to.is_empty() {
            applied_by_rules([Ok(&spec.ingress[..]), Ok(&spec.egress[..])])
        } else {
            Some(spec.applied_to.clone())
        };
        Self::ways(class, applied, !spec.ingress.is_empty(), !spec.egress.is_empty())
    }

    pub(super) fn ways(class: Class, applied: Option<Vec<AppliedTo>>, ingress: bool, egress: bool) -> Self {
        let is_neither = !ingress && !egress;
        Self { class, applied, ingress: ingress || is_neither, egress: egress || is_neither }
    }
}

/// What rules apply to; None: that is not known of one, or none says it.
fn applied_by_rules(sections: [Result<&[Ruled<antrea_policy::Rule>], &FieldError>; 2]) -> Option<Vec<AppliedTo>> {
    let mut all = Vec::new();
    for section in sections {
        for rule in section.ok()? {
            match rule {
                Ruled::Right(rule) => all.extend(rule.applied_to.iter().cloned()),
                Ruled::Wrong(rule) => all.extend(rule.applied_to.clone()?),
            }
        }
    }
    Some(all).filter(|all| !all.is_empty())
}

/// A policy of Kubernetes or Antrea from what is in its document beside kind and metadata; and all
/// that is wrong with it.
pub(super) fn parse(class: Class, tree: &mut Tree) -> (DocumentBody, Vec<FieldError>) {
    let mut errors = Vec::new();
    let body = match class {
        Class::K8s => k8s(tree, &mut errors),
        _ => antrea(class, tree, &mut errors),
    };
    (body, errors)
}

fn k8s(tree: &mut Tree, errors: &mut Vec<FieldError>) -> DocumentBody {
    let ingress = rules(tree, "ingress", errors, &typed, &left_of);
    let egress = rules(tree, "egress", errors, &typed, &left_of);
    match (typed::<k8s_policy::K8sPolicyBody>(tree), ingress, egress) {
        (Ok(mut body), Ok(ingress), Ok(egress)) => {
            (body.spec.ingress, body.spec.egress) = (ingress, egress);
            DocumentBody::K8sPolicy(Box::new(body))
        }
        (head, ingress, egress) => {
            // Without a spec, or with two, nothing is known of it.
            let has_spec = tree.get("spec").is_some_and(|spec| matches!(spec.value, Value::Map(_)));
            let applied = match tree.at(&["spec", "podSelector"]) {
                None if !has_spec => None,
                None => Some(Selector::default()),
                Some(selector) => typed(selector).ok(),
            };
            let applied = applied.map(|pods| vec![AppliedTo { pod_selector: Some(pods), ..AppliedTo::default() }]);
            let types = tree.at(&["spec", "policyTypes"]).map(typed::<Vec<PolicyType>>);
            let has_egress = egress.as_ref().map_or(true, |rules| !rules.is_empty());
            let (ingress_way, egress_way) = match types {
                _ if !has_spec => (true, true),
                Some(Ok(types)) if !types.is_empty() => {
                    (types.contains(&PolicyType::Ingress), types.contains(&PolicyType::Egress))
                }
                Some(Ok(_)) | None => (true, has_egress),
                Some(Err(_)) => (true, true),
            };
            errors.extend([head.err(), ingress.err(), egress.err()].into_iter().flatten());
            DocumentBody::WrongPolicy(Box::new(WrongPolicy {
                class: Class::K8s,
                applied,
                ingress: ingress_way,
                egress: egress_way,
            }))
        }
    }
}

fn antrea(class: Class, tree: &mut Tree, errors: &mut Vec<FieldError>) -> DocumentBody {
    let ingress = rules(tree, "ingress", errors, &typed, &left_of);
    let egress = rules(tree, "egress", errors, &typed, &left_of);
    match (typed::<antrea_policy::AntreaPolicyBody>(tree), ingress, egress) {
        (Ok(mut body), Ok(ingress), Ok(egress)) => {
            (body.spec.ingress, body.spec.egress) = (ingress, egress);
            let body = Box::new(body);
            if class == Class::Cluster { DocumentBody::ClusterPolicy(body) } else { DocumentBody::AntreaPolicy(body) }
        }
        (head, ingress, egress) => {
            let given = tree.at(&["spec", "appliedTo"]).filter(|given| !matches!(&given.value, Value::Null));
            let applied = match given.map(typed::<Vec<AppliedTo>>) {
                Some(Ok(applied)) if !applied.is_empty() => Some(applied),
                Some(Err(_)) => None,
                _ => applied_by_rules([ingress.as_ref().map(Vec::as_slice), egress.as_ref().map(Vec::as_slice)]),
            };
            let has = |rules: &Result<Vec<_>, _>| rules.as_ref().map_or(true, |rules: &Vec<_>| !rules.is_empty());
            let wrong = WrongPolicy::ways(class, applied, has(&ingress), has(&egress));
            errors.extend([head.err(), ingress.err(), egress.err()].into_iter().flatten());
            DocumentBody::WrongPolicy(Box::new(wrong))
        }
    }
}

/// Takes the rules of a direction out of the tree, each by itself; `left` is what is left of one
/// that is wrong.
pub(super) fn rules<T>(
    tree: &mut Tree,
    section: &str,
    errors: &mut Vec<FieldError>,
    read: &dyn Fn(&Tree) -> Result<T, FieldError>,
    left: &dyn Fn(&Tree) -> WrongRule,
) -> Result<Vec<Ruled<T>>, FieldError> {
    let Some(given) = tree.get_mut("spec").and_then(|spec| spec.take(section)) else { return Ok(Vec::new()) };
    let path = format!("spec.{section}");
    let list = match given.value {
        Value::Null => return Ok(Vec::new()),
        Value::List(list) => list,
        Value::Wrong(wrong) => return Err(FieldError::new(given.line, &path, wrong.reason)),
        _ => return Err(FieldError::new(given.line, &path, "expected a sequence")),
    };
    let mut rules = Vec::with_capacity(list.len());
    for (i, tree) in list.iter().enumerate() {
        rules.push(match read(tree) {
            Ok(rule) => Ruled::Right(rule),
            Err(error) => {
                errors.push(error.below(tree.line, &format!("{path}[{i}]")));
                Ruled::Wrong(left(tree))
            }
        });
    }
    Ok(rules)
}

/// What can be read of a rule.
fn left_of(tree: &Tree) -> WrongRule {
    let given = |field: &str| tree.get(field).filter(|given| given.value != Value::Null);
    let applied = given("appliedTo").map_or(Some(Vec::new()), |applied| typed(applied).ok());
    WrongRule {
        action: given("action").and_then(|action| typed(action).ok()),
        has_l7: given("l7Protocols").is_some(),
        applied_to: applied,
    }
}
