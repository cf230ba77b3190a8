//! Statuses of objects, back to the documents that they are from.

use super::Report;
use crate::problem::{NOWHERE, Origin, Problem};
use crate::project::{Key, Projection};
use std::collections::BTreeSet;
use vswitch_proto::antrea::v1::{self, Kind, ObjectOutcome};

/// Keys of refused objects.
pub(super) fn refused(result: &v1::WriteResult) -> BTreeSet<Key> {
    let refused = result.statuses.iter().filter(|status| status.outcome() == ObjectOutcome::Refused);
    refused.filter_map(|status| status.object.as_ref()).map(key).collect()
}

fn key(object: &v1::ObjectRef) -> Key {
    (object.kind, object.name.clone())
}

/// What a write came to, with the documents of what it is about: as they are, or (`before`) as they
/// were.
pub(super) fn report(
    result: &v1::WriteResult,
    projection: &Projection,
    before: &dyn Fn(&Key) -> Option<Origin>,
    was_sync: bool,
    gate_open: bool,
) -> Report {
    let refused = refused(result);
    let documents = Documents { projection, before, refused: &refused };
    let mut problems: Vec<Problem> = result.statuses.iter().flat_map(|status| documents.problems(status)).collect();
    problems.sort();
    problems.dedup();
    let counts = result.counts.iter().map(|(outcome, count)| (outcome.clone(), *count)).collect();
    Report { was_sync, applied: result.applied, problems, about: BTreeSet::new(), counts, gate_open }
}

struct Documents<'a> {
    projection: &'a Projection,
    before: &'a dyn Fn(&Key) -> Option<Origin>,
    /// Objects that were refused.
    refused: &'a BTreeSet<Key>,
}

impl Documents<'_> {
    fn origin(&self, object: &v1::ObjectRef) -> Origin {
        let key = key(object);
        if object.kind() == Kind::Node
            && let Some((_, origin)) = &self.projection.node
        {
            return origin.clone();
        }
        let known = self.projection.objects.get(&key).map(|projected| projected.origin.clone());
        known.or_else(|| (self.before)(&key)).unwrap_or_else(|| self.origin_of_node(object))
    }

    /// Of what no document of this agent's says: it is there since before, on this Node.
    fn origin_of_node(&self, object: &v1::ObjectRef) -> Origin {
        let node = self.projection.node.as_ref();
        let file = node.map_or(NOWHERE, |(_, origin)| &origin.file);
        Origin::new(file, node.map_or(0, |(_, origin)| origin.line), &shown(object))
    }

    /// Whether a problem is there only because another object was refused, which is told itself.
    fn is_derived(&self, object: &v1::ObjectRef, problem: &v1::Problem) -> bool {
        let is_refused = |other: &v1::ObjectRef| self.refused.contains(&key(other));
        let of_service = || {
            let (service, _) = object.name.rsplit_once(':')?;
            let is_endpoints = object.kind() == Kind::Endpoints && problem.field == "service";
            is_endpoints.then(|| self.refused.contains(&(Kind::Service as i32, service.to_owned())))
        };
        match problem.code.as_str() {
            "IN_USE" => problem.other.as_ref().is_some_and(is_refused),
            "REFERENCE" => problem.other.as_ref().is_some_and(is_refused) || of_service().unwrap_or(false),
            _ => false,
        }
    }

    fn problems(&self, status: &v1::ObjectStatus) -> Vec<Problem> {
        let object = status.object.clone().unwrap_or_default();
        let origin = self.origin(&object);
        // What a document does not name itself is named: its groups, its Endpoints.
        let made = match object.kind() {
            Kind::AddressGroup | Kind::AppliedToGroup | Kind::Endpoints if *origin.what != *shown(&object) => {
                format!("{} ", shown(&object))
            }
            _ => String::new(),
        };
        let is_refused = status.outcome() == ObjectOutcome::Refused;
        let told = |field: &str, reason: &str| {
            let field = format!("{made}{field}").trim_end().to_owned();
            if is_refused { origin.error(field, reason) } else { origin.warning(field, reason) }
        };
        let mut problems: Vec<Problem> = Vec::new();
        let derived = status.problems.iter().filter(|problem| self.is_derived(&object, problem)).count();
        if derived > 0 && derived == status.problems.len() {
            return Vec::new(); // its cause is told, which has other objects
        }
        for problem in status.problems.iter().filter(|problem| !self.is_derived(&object, problem)) {
            let other = problem.other.as_ref().map(|other| {
                let origin = self.origin(other);
                format!("{} of {}:{}", shown(other), origin.file, origin.line)
            });
            let hint = [problem.hint.clone(), other.unwrap_or_default()];
            let hint: Vec<String> = hint.into_iter().filter(|part| !part.is_empty()).collect();
            let reason = format!("{}: {}", problem.code, problem.reason);
            problems.push(told(&problem.field, &reason).hint(hint.join("; ")).coded(problem.code.clone()));
        }
        if is_refused && problems.is_empty() {
            problems.push(told("", "refused"));
        }
        let warnings = status.warnings.iter().map(|warning| origin.warning(made.trim_end(), warning));
        problems.extend(warnings);
        problems
    }
}

/// An object as people name it: `AddressGroup "pods app=web of namespace default"`.
fn shown(object: &v1::ObjectRef) -> String {
    format!("{:?} {:?}", object.kind(), object.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Projected;
    use vswitch_proto::antrea::v1::object::Object;

    fn reference(kind: Kind, name: &str) -> Option<v1::ObjectRef> {
        Some(v1::ObjectRef { kind: kind.into(), name: name.to_owned() })
    }

    #[test]
    fn statuses_find_their_documents() {
        let node = Origin::new("nodes.yaml", 3, "NodeConfig n");
        let mut projection = Projection { node: Some((v1::NodeConfig::default(), node)), ..Projection::default() };
        let origin = Origin::new("pods.yaml", 7, "Pod a/web");
        let object = v1::Object { object: Some(Object::Pod(v1::Pod::default())) };
        let projected = Projected { object, origin };
        projection.objects.insert((Kind::Pod as i32, "a/web".to_owned()), projected.clone());
        let gone = (Kind::AddressGroup as i32, "g".to_owned());
        let before = |key: &Key| (*key == gone).then(|| projected.origin.clone());
        let problem = |field: &str, other| v1::Problem {
            code: "OVERLAP".to_owned(),
            reason: "10.0.0.1 is somebody else's".to_owned(),
            field: field.to_owned(),
            hint: "change it".to_owned(),
            other,
        };
        let status = |object, outcome: ObjectOutcome, problems| v1::ObjectStatus {
            object,
            outcome: outcome.into(),
            problems,
            warnings: vec![],
        };
        let result = v1::WriteResult {
            statuses: vec![
                status(
                    reference(Kind::Pod, "a/web"),
                    ObjectOutcome::Refused,
                    vec![problem("addresses[0]", reference(Kind::AddressGroup, "g"))],
                ),
                status(reference(Kind::AddressGroup, "g"), ObjectOutcome::Degraded, vec![problem("members", None)]),
                status(reference(Kind::Egress, "e"), ObjectOutcome::Refused, vec![]),
            ],
            ..Default::default()
        };
        let report = report(&result, &projection, &before, true, true);
        let lines: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "nodes.yaml:3 Egress \"e\": refused",
                "pods.yaml:7 Pod a/web: AddressGroup \"g\" members: OVERLAP: 10.0.0.1 is somebody else's; change it",
                "pods.yaml:7 Pod a/web: addresses[0]: OVERLAP: 10.0.0.1 is somebody else's; change it; AddressGroup \"g\" of pods.yaml:7",
            ]
        );
        assert!(report.is_refused());
        assert_eq!(refused(&result).len(), 2);
    }

    #[test]
    fn what_is_only_a_consequence_is_not_told() {
        let problem = |code: &str, field: &str, other| v1::Problem {
            code: code.to_owned(),
            reason: "because".to_owned(),
            field: field.to_owned(),
            other,
            ..Default::default()
        };
        let refused = |object, problem| v1::ObjectStatus {
            object,
            outcome: ObjectOutcome::Refused.into(),
            problems: vec![problem],
            warnings: vec![],
        };
        let policy = || reference(Kind::NetworkPolicy, "acnp:v");
        let mut statuses = vec![
            refused(reference(Kind::AddressGroup, "g"), problem("IN_USE", "", policy())),
            refused(reference(Kind::Endpoints, "a/s:t"), problem("REFERENCE", "service", None)),
            refused(policy(), problem("VALUE", "tier", None)),
            refused(reference(Kind::Service, "a/s"), problem("VALUE", "ports", None)),
        ];
        let told = |statuses: &[v1::ObjectStatus]| {
            let result = v1::WriteResult { statuses: statuses.to_vec(), ..Default::default() };
            let report = report(&result, &Projection::default(), &|_| None, true, true);
            report.problems.iter().map(|problem| problem.reason.clone()).collect::<Vec<_>>()
        };
        assert_eq!(told(&statuses), ["VALUE: because", "VALUE: because"]);
        statuses.truncate(2);
        assert_eq!(told(&statuses), ["IN_USE: because", "REFERENCE: because"], "without their causes they are told");
    }
}
