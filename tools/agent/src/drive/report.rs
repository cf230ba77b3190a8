//! Statuses of objects, back to the documents that they are from.

use super::Report;
use crate::problem::{Origin, Problem};
use crate::project::{Key, Projected, Projection};
use std::collections::{BTreeMap, BTreeSet};
use vswitch_proto::antrea::v1::{self, Kind, ObjectOutcome};

/// Keys of refused objects.
pub(super) fn refused(result: &v1::WriteResult) -> BTreeSet<Key> {
    let refused = result.statuses.iter().filter(|status| status.outcome() == ObjectOutcome::Refused);
    refused.filter_map(|status| status.object.as_ref()).map(key).collect()
}

fn key(object: &v1::ObjectRef) -> Key {
    (object.kind, object.name.clone())
}

/// What a write came to, with the documents of what it is about: as they are, or as they were.
pub(super) fn report(
    result: &v1::WriteResult,
    projection: &Projection,
    before: &BTreeMap<Key, Projected>,
    was_sync: bool,
    gate_open: bool,
) -> Report {
    let documents = Documents { projection, before };
    let mut problems: Vec<Problem> = result.statuses.iter().flat_map(|status| documents.problems(status)).collect();
    problems.sort();
    problems.dedup();
    let counts = result.counts.iter().map(|(outcome, count)| (outcome.clone(), *count)).collect();
    Report { was_sync, applied: result.applied, problems, about: BTreeSet::new(), counts, gate_open }
}

struct Documents<'a> {
    projection: &'a Projection,
    before: &'a BTreeMap<Key, Projected>,
}

impl Documents<'_> {
    fn origin(&self, object: &v1::ObjectRef) -> Origin {
        let key = key(object);
        if object.kind() == Kind::Node
            && let Some((_, origin)) = &self.projection.node
        {
            return origin.clone();
        }
        let known = self.projection.objects.get(&key).or_else(|| self.before.get(&key));
        known.map_or_else(|| Origin::new("-", 0, &shown(object)), |projected| projected.origin.clone())
    }

    fn problems(&self, status: &v1::ObjectStatus) -> Vec<Problem> {
        let object = status.object.clone().unwrap_or_default();
        let origin = self.origin(&object);
        // What a document does not name itself is named: its groups, its Endpoints.
        let made = match object.kind() {
            Kind::AddressGroup | Kind::AppliedToGroup | Kind::Endpoints => format!("{} ", shown(&object)),
            _ => String::new(),
        };
        let is_refused = status.outcome() == ObjectOutcome::Refused;
        let told = |field: &str, reason: &str| {
            let field = format!("{made}{field}").trim_end().to_owned();
            if is_refused { origin.error(field, reason) } else { origin.warning(field, reason) }
        };
        let mut problems: Vec<Problem> = Vec::new();
        for problem in &status.problems {
            let other = problem.other.as_ref().map(|other| {
                let origin = self.origin(other);
                format!("{} of {}:{}", shown(other), origin.file, origin.line)
            });
            let hint = [problem.hint.clone(), other.unwrap_or_default()];
            let hint: Vec<String> = hint.into_iter().filter(|part| !part.is_empty()).collect();
            let reason = format!("{}: {}", problem.code, problem.reason);
            problems.push(told(&problem.field, &reason).hint(hint.join("; ")));
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
    use vswitch_proto::antrea::v1::object::Object;

    fn reference(kind: Kind, name: &str) -> Option<v1::ObjectRef> {
        Some(v1::ObjectRef { kind: kind.into(), name: name.to_owned() })
    }

    #[test]
    fn statuses_find_their_documents() {
        let mut projection = Projection::default();
        let origin = Origin::new("pods.yaml", 7, "Pod a/web");
        let object = v1::Object { object: Some(Object::Pod(v1::Pod::default())) };
        let projected = Projected { object, origin };
        projection.objects.insert((Kind::Pod as i32, "a/web".to_owned()), projected.clone());
        let before = BTreeMap::from([((Kind::AddressGroup as i32, "g".to_owned()), projected)]);
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
                "-:0 Egress \"e\": refused",
                "pods.yaml:7 Pod a/web: AddressGroup \"g\" members: OVERLAP: 10.0.0.1 is somebody else's; change it",
                "pods.yaml:7 Pod a/web: addresses[0]: OVERLAP: 10.0.0.1 is somebody else's; change it; AddressGroup \"g\" of pods.yaml:7",
            ]
        );
        assert!(report.is_refused());
        assert_eq!(refused(&result).len(), 2);
    }
}
