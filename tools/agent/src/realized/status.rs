//! Statuses by kind: what they are to say, and the patch that says it.
//!
//! Antrea's policies have phase, counts and two conditions (Antrea's `crd/v1beta1`,
//! `NetworkPolicyStatus`). The Network Policy API leaves the types of conditions to
//! implementations; the agent writes `Realized`. Conditions of other types are somebody else's, and
//! stay. ClusterGroups and Groups have `GroupMembersComputed`, ExternalIPPools their usage.

use super::News;
use super::verdict::Verdict;
use crate::kinds::ruled::Class;
use crate::source::cluster::{Condition, ObjectStatus, Standing};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Bytes of a message (as Antrea's controller).
const MESSAGE_LEN_MAX: usize = 256;

/// Conditions of somebody else that a patch takes along.
const FOREIGN_MAX: usize = 32;

const REALIZABLE: &str = "Realizable";
const FAILURE: &str = "RealizationFailure";
const REALIZED: &str = "Realized";
const MEMBERS: &str = "GroupMembersComputed";

/// What a status is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    AntreaPolicy,
    AdminPolicy,
    Group,
    Pool,
}

fn of(standing: &Standing) -> Of {
    match (class(standing), standing.object.kind.as_str()) {
        (Some(class), _) if class.is_admin() => Of::AdminPolicy,
        (Some(_), _) => Of::AntreaPolicy,
        (None, "ExternalIPPool") => Of::Pool,
        (None, _) => Of::Group,
    }
}

/// The class of a policy; None: it is none.
pub(super) fn class(standing: &Standing) -> Option<Class> {
    let group = standing.object.api_version.split_once('/').map_or("", |(group, _)| group);
    Class::of(group, &standing.object.kind)
}

/// Types of conditions that are the agent's.
fn own(of: Of) -> &'static [&'static str] {
    match of {
        Of::AntreaPolicy => &[REALIZABLE, FAILURE],
        Of::AdminPolicy => &[REALIZED],
        Of::Group => &[MEMBERS],
        Of::Pool => &[],
    }
}

fn condition(status: bool, reason: &str, message: &str) -> Condition {
    let status = if status { "True" } else { "False" }.to_owned();
    let message = message[..message.floor_char_boundary(MESSAGE_LEN_MAX)].to_owned();
    Condition { status, reason: reason.to_owned(), message, observed_generation: 0 }
}

fn phase(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict { nodes: 0, .. } => "Pending",
        Verdict { untold: 1.., .. } => "Realizing",
        Verdict { failed: 1.., .. } => "Failed",
        _ => "Realized",
    }
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The status of a policy.
pub(super) fn of_policy(standing: &Standing, verdict: &Verdict) -> ObjectStatus {
    let phase = phase(verdict);
    let failed = format!("{} of {} Nodes, such as {}", verdict.failed, verdict.nodes, verdict.why);
    if of(standing) == Of::AdminPolicy {
        let message = match phase {
            "Failed" => failed,
            "Pending" => "no agent reports".to_owned(),
            _ => format!("{} of {} Nodes", verdict.current, verdict.desired),
        };
        let realized =
            Condition { observed_generation: standing.generation, ..condition(phase == REALIZED, phase, &message) };
        return ObjectStatus { conditions: [(REALIZED.to_owned(), realized)].into(), ..ObjectStatus::default() };
    }
    let is_refused = verdict.nodes > 0 && verdict.refused == verdict.nodes;
    let realizable = if is_refused { condition(false, "Refused", &failed) } else { condition(true, "", "") };
    let mut conditions = BTreeMap::from([(REALIZABLE.to_owned(), realizable)]);
    if verdict.failed > 0 {
        conditions.insert(FAILURE.to_owned(), condition(true, "NetworkPolicyRealizationFailedOnNode", &failed));
    }
    ObjectStatus {
        phase: phase.to_owned(),
        observed_generation: standing.generation,
        current_nodes: count(verdict.current),
        desired_nodes: count(verdict.desired),
        conditions,
        usage: None,
    }
}

/// The status of an object that is no policy; None: there is nothing to say.
pub(super) fn of_other(standing: &Standing, news: &News) -> Option<ObjectStatus> {
    if of(standing) == Of::Pool {
        let usage = news.usage.get(&standing.object.name)?;
        return Some(ObjectStatus { usage: Some(*usage), ..ObjectStatus::default() });
    }
    let is_right = !news.wrong.contains(&standing.object.uid);
    let computed = (MEMBERS.to_owned(), condition(is_right, "", ""));
    Some(ObjectStatus { conditions: [computed].into(), ..ObjectStatus::default() })
}

/// Whether an object has a status.
pub(super) fn has(standing: &Standing, wanted: &ObjectStatus) -> bool {
    let (of, has) = (of(standing), &standing.status);
    let head = |status: &ObjectStatus| {
        (status.phase.clone(), status.observed_generation, status.current_nodes, status.desired_nodes)
    };
    let has_conditions = own(of).iter().all(|kind| has.conditions.get(*kind) == wanted.conditions.get(*kind));
    has_conditions
        && (of != Of::AntreaPolicy || head(has) == head(wanted))
        && (of != Of::Pool || has.usage == wanted.usage)
}

/// Whether the status of a policy says that its generation is realized.
pub(super) fn is_realized(standing: &Standing) -> bool {
    let has = &standing.status;
    if of(standing) == Of::AntreaPolicy {
        return has.phase == REALIZED && has.observed_generation == standing.generation;
    }
    let says =
        |condition: &Condition| condition.status == "True" && condition.observed_generation == standing.generation;
    has.conditions.get(REALIZED).is_some_and(says)
}

/// A merge patch of an object's status, which was `old`.
pub(super) fn patch(standing: &Standing, wanted: &ObjectStatus, (old, version): (&Value, &str), now: &str) -> Value {
    let of = of(standing);
    let mut status = Map::new();
    if of == Of::AntreaPolicy {
        status.insert("phase".to_owned(), json!(wanted.phase));
        for (field, number) in [
            ("observedGeneration", wanted.observed_generation),
            ("currentNodesRealized", wanted.current_nodes),
            ("desiredNodesRealized", wanted.desired_nodes),
        ] {
            status.insert(field.to_owned(), json!(number));
        }
    }
    if let Some([total, used]) = wanted.usage {
        status.insert("usage".to_owned(), json!({"total": total, "used": used}));
    } else {
        status.insert("conditions".to_owned(), conditions(of, wanted, &old["conditions"], now));
    }
    json!({"metadata": {"resourceVersion": version}, "status": status})
}

/// All conditions. One that stays as it was keeps its time.
fn conditions(of: Of, wanted: &ObjectStatus, old: &Value, now: &str) -> Value {
    let olds = old.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_own = |condition: &Value| own(of).iter().any(|kind| condition["type"] == *kind);
    // Ours come first: readers of statuses keep some.
    let mut all = Vec::new();
    for (kind, condition) in &wanted.conditions {
        let before = olds.iter().find(|old| old["type"] == **kind && old["status"] == *condition.status);
        let since = before.and_then(|before| before["lastTransitionTime"].as_str()).unwrap_or(now);
        let mut made = json!({"type": kind, "status": condition.status, "lastTransitionTime": since});
        for (field, text) in [("reason", &condition.reason), ("message", &condition.message)] {
            // (`metav1.Condition` needs both; ours of that kind have them.)
            if !text.is_empty() {
                made[field] = json!(text);
            }
        }
        if condition.observed_generation > 0 {
            made["observedGeneration"] = json!(condition.observed_generation);
        }
        all.push(made);
    }
    all.extend(olds.iter().filter(|old| !is_own(old)).take(FOREIGN_MAX).cloned());
    Value::Array(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::cluster::ObjectRef;

    fn standing(api_version: &str, kind: &str) -> Standing {
        let object = ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), ..ObjectRef::default() };
        Standing { object, plural: "", generation: 4, status: ObjectStatus::default() }
    }

    fn verdict(nodes: usize, current: usize, untold: usize, failed: usize) -> Verdict {
        let why = if failed > 0 { format!("n1: {}", "ä".repeat(300)) } else { String::new() };
        Verdict { nodes, desired: current + untold + failed, current, untold, unknown: 0, failed, refused: failed, why }
    }

    #[test]
    fn phases_are_as_the_nodes_say() {
        let policy = standing("crd.antrea.io/v1beta1", "ClusterNetworkPolicy");
        for (verdict, phase, realizable) in [
            (verdict(0, 0, 0, 0), "Pending", "True"),
            (verdict(3, 0, 0, 0), "Realized", "True"),
            (verdict(3, 2, 0, 0), "Realized", "True"),
            (verdict(3, 1, 1, 1), "Realizing", "True"),
            (verdict(3, 2, 0, 1), "Failed", "True"),
            (verdict(3, 0, 0, 3), "Failed", "False"),
        ] {
            let status = of_policy(&policy, &verdict);
            assert_eq!((status.phase.as_str(), status.observed_generation), (phase, 4), "{verdict:?}");
            assert_eq!(status.conditions[REALIZABLE].status, realizable);
            assert_eq!(status.conditions.contains_key(FAILURE), verdict.failed > 0);
            assert!(status.conditions.values().all(|condition| condition.message.len() <= MESSAGE_LEN_MAX));
            let admin = of_policy(&standing("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy"), &verdict);
            let realized = &admin.conditions[REALIZED];
            assert_eq!((realized.status == "True", realized.reason.as_str()), (phase == "Realized", phase));
            assert!(!realized.message.is_empty() && realized.observed_generation == 4);
        }
    }

    #[test]
    fn a_patch_keeps_what_is_somebody_elses_and_times_of_what_stays() {
        let mut policy = standing("crd.antrea.io/v1beta1", "NetworkPolicy");
        let wanted = of_policy(&policy, &verdict(2, 1, 0, 0));
        let old = json!({"conditions": [
            {"type": "Foreign", "status": "True"},
            {"type": REALIZABLE, "status": "True", "lastTransitionTime": "1", "message": "old"},
            {"type": FAILURE, "status": "True", "lastTransitionTime": "1"},
        ]});
        let patch = patch(&policy, &wanted, (&old, "7"), "2");
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(
            patch["status"],
            json!({"phase": "Realized", "observedGeneration": 4, "currentNodesRealized": 1, "desiredNodesRealized": 1,
                "conditions": [{"type": REALIZABLE, "status": "True", "lastTransitionTime": "1"},
                    {"type": "Foreign", "status": "True"}]})
        );
        assert!(!has(&policy, &wanted));
        policy.status = wanted.clone();
        assert!(has(&policy, &wanted));
        policy.status.conditions.insert("Foreign".to_owned(), Condition::default());
        assert!(has(&policy, &wanted), "that is not ours");
        policy.status.conditions.insert(FAILURE.to_owned(), Condition::default());
        assert!(!has(&policy, &wanted), "that is to go");
    }

    #[test]
    fn groups_and_pools_say_what_the_holder_knows() {
        let (group, pool) =
            (standing("crd.antrea.io/v1beta1", "ClusterGroup"), standing("crd.antrea.io/v1beta1", "ExternalIPPool"));
        let mut news = News::default();
        assert_eq!(of_other(&pool, &news), None);
        news.usage.insert(String::new(), [5, 2]);
        let usage = of_other(&pool, &news).expect("it has one");
        assert_eq!(patch(&pool, &usage, (&Value::Null, "7"), "2")["status"], json!({"usage": {"total": 5, "used": 2}}));
        for (is_wrong, status) in [(false, "True"), (true, "False")] {
            if is_wrong {
                news.wrong.insert(String::new());
            }
            let wanted = of_other(&group, &news).expect("it has one");
            let patch = patch(&group, &wanted, (&Value::Null, "7"), "2");
            let condition = json!({"type": MEMBERS, "status": status, "lastTransitionTime": "2"});
            assert_eq!(patch["status"], json!({"conditions": [condition]}));
        }
    }
}
