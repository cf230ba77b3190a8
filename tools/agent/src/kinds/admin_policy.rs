//! Policies of policy.networking.k8s.io: ClusterNetworkPolicy (v1alpha2), AdminNetworkPolicy and
//! BaselineAdminNetworkPolicy (v1alpha1).
//!
//! Each is read as the policy of Antrea that means the same, so that all that guards those guards
//! these. What the API says of fields that are not known holds: a rule that accepts matches nothing
//! then, and any other rule denies everything of its direction.
//! Source: <https://network-policy-api.sigs.k8s.io/reference/spec/>.

mod rule;

use super::DocumentBody;
use super::antrea_policy::{AntreaPolicyBody, AppliedTo, Spec};
use super::ruled::{Class, Ruled, WrongPolicy, rules};
use super::selector::Selector;
use crate::source::{FieldError, Tree, typed};
use rule::NamespacedPods;
use serde::Deserialize;

/// The last priority of these policies.
const PRIORITY_MAX: u32 = 1000;

/// The priority of a BaselineAdminNetworkPolicy, of which there is one.
const BASELINE_PRIORITY: u32 = 1;

/// A policy without its metadata and rules.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    spec: Head,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    tier: Option<Tier>,
    priority: Option<u32>,
    subject: Subject,
}

/// A tier of a ClusterNetworkPolicy.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum Tier {
    Admin,
    Baseline,
}

/// Whom a policy applies to: Pods of namespaces, or some of them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    namespaces: Option<Selector>,
    pods: Option<NamespacedPods>,
}

impl Subject {
    fn applied(self) -> Result<AppliedTo, FieldError> {
        match (self.namespaces, self.pods) {
            (Some(namespaces), None) => Ok(AppliedTo { namespace_selector: Some(namespaces), ..AppliedTo::default() }),
            (None, Some(pods)) => Ok(AppliedTo {
                namespace_selector: Some(pods.namespace_selector),
                pod_selector: Some(pods.pod_selector),
                ..AppliedTo::default()
            }),
            _ => Err(FieldError::new(0, "", "needs one of namespaces and pods")),
        }
    }
}

/// A policy from what is in its document beside kind and metadata; and all that is wrong with it.
pub(super) fn parse(class: Class, tree: &mut Tree) -> (DocumentBody, Vec<FieldError>) {
    let mut errors = Vec::new();
    let body = body(class, tree, &mut errors);
    (body, errors)
}

fn body(class: Class, tree: &mut Tree, errors: &mut Vec<FieldError>) -> DocumentBody {
    let read = |section: &'static str| move |tree: &Tree| rule::read(class, section, tree);
    let left = |tree: &Tree| rule::left(class, tree);
    let ingress = rules(tree, "ingress", errors, &read("ingress"), &left);
    let egress = rules(tree, "egress", errors, &read("egress"), &left);
    match (head(class, tree), ingress, egress) {
        (Ok(spec), Ok(ingress), Ok(egress)) => {
            DocumentBody::AdminPolicy(class, Box::new(AntreaPolicyBody { spec: Spec { ingress, egress, ..spec } }))
        }
        (head, ingress, egress) => {
            let subject = tree.at(&["spec", "subject"]).and_then(|subject| typed::<Subject>(subject).ok());
            let applied = subject.and_then(|subject| subject.applied().ok()).map(|applied| vec![applied]);
            let has = |rules: &Result<Vec<Ruled<_>>, _>| rules.as_ref().map_or(true, |rules| !rules.is_empty());
            let wrong = WrongPolicy::ways(class, applied, has(&ingress), has(&egress));
            errors.extend([head.err(), ingress.err(), egress.err()].into_iter().flatten());
            DocumentBody::WrongPolicy(Box::new(wrong))
        }
    }
}

/// All but the rules.
fn head(class: Class, tree: &Tree) -> Result<Spec, FieldError> {
    let Head { tier, priority, subject } = typed::<Body>(tree)?.spec;
    let error = |field: &str, reason: String| {
        let line = tree.at(&["spec", field]).map_or(tree.line, |given| given.line);
        FieldError::new(line, &format!("spec.{field}"), reason)
    };
    let required = |field: &str| error(field, "is required".to_owned());
    let nobody = |field: &str| error(field, "no policy of this kind has it".to_owned());
    let (tier, priority) = match (class, tier, priority) {
        (Class::Network, None, _) => return Err(required("tier")),
        (Class::Network | Class::Admin, _, None) => return Err(required("priority")),
        (Class::Admin | Class::BaselineAdmin, Some(_), _) => return Err(nobody("tier")),
        (Class::BaselineAdmin, _, Some(_)) => return Err(nobody("priority")),
        (Class::BaselineAdmin, None, None) => (Tier::Baseline, BASELINE_PRIORITY),
        (_, tier, Some(priority)) => (tier.unwrap_or(Tier::Admin), priority),
        _ => return Err(required("priority")),
    };
    if priority > PRIORITY_MAX {
        return Err(error("priority", format!("{priority} is not in 0 to {PRIORITY_MAX}")));
    }
    let applied = subject.applied().map_err(|wrong| error("subject", wrong.reason))?;
    let tier = if tier == Tier::Admin { "Admin" } else { "Baseline" };
    Ok(Spec {
        tier: Some(tier.to_owned()),
        priority: f64::from(priority),
        applied_to: vec![applied],
        ingress: Vec::new(),
        egress: Vec::new(),
    })
}
