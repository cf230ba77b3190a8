//! `status.results`: what each Node observed, and whether that is the end.

use super::object::{Phase, Traceflow};
use k8s_openapi::jiff::Timestamp;
use kube::Error;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Map, Value, json};
use vswitch_proto::antrea::v1;

/// Tries of a write that others overtake. Each of them is a write of another Node.
const TRIES_MAX: usize = 20;

/// What an agent writes.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Its Node's result, in place of an older one.
    pub(super) result: Option<Value>,
    /// The packet of live traffic.
    pub(super) packet: Option<Value>,
    /// The end: None: not yet.
    pub(super) end: Option<Result<(), String>>,
}

/// Adds to the status of a Traceflow that runs; nothing happens to one that does not.
pub(super) async fn write(api: &Api<DynamicObject>, name: &str, uid: &str, written: &Written) -> Result<(), Error> {
    for _ in 0..TRIES_MAX {
        let object = match api.get_opt(name).await? {
            Some(object) => Traceflow::of(&object),
            None => return Ok(()),
        };
        if object.uid != uid || object.phase == Phase::Done {
            return Ok(());
        }
        let patch = Patch::Merge(patch(&object, written));
        match api.patch_status(name, &PatchParams::default(), &patch).await {
            Err(Error::Api(status)) if status.code == 409 => {}
            result => return result.map(|_| ()),
        }
    }
    Ok(())
}

fn patch(object: &Traceflow, written: &Written) -> Value {
    let mut results = object.results.clone();
    if let Some(result) = &written.result {
        results.retain(|old| old["node"] != result["node"]);
        results.push(result.clone());
    }
    let mut status = Map::new();
    match &written.end {
        Some(Err(reason)) => {
            status.insert("phase".to_owned(), json!("Failed"));
            status.insert("reason".to_owned(), json!(reason));
        }
        Some(Ok(())) => drop(status.insert("phase".to_owned(), json!("Succeeded"))),
        None if is_over(&results) => drop(status.insert("phase".to_owned(), json!("Succeeded"))),
        None => {}
    }
    status.insert("results".to_owned(), Value::Array(results));
    if let Some(packet) = &written.packet {
        status.insert("capturedPacket".to_owned(), packet.clone());
    }
    json!({"metadata": {"resourceVersion": object.version}, "status": status})
}

/// Ends a Traceflow that cannot run, or that nobody runs any more.
pub(super) async fn fail(api: &Api<DynamicObject>, object: &Traceflow, reason: &str) {
    let written = Written { end: Some(Err(reason.to_owned())), ..Written::default() };
    if let Err(error) = write(api, &object.name, &object.uid, &written).await {
        tracing::debug!("Traceflow {}: {error}", object.name);
    }
}

/// Whether a packet has been sent, and has come to its end.
pub(super) fn is_over(results: &[Value]) -> bool {
    const LAST: [&str; 5] = ["Delivered", "Dropped", "Rejected", "ForwardedOutOfOverlay", "MarkedForSNAT"];
    let observations = |result: &Value| result["observations"].as_array().cloned().unwrap_or_default();
    let is_sent = results.iter().any(|result| result["role"] == "sender");
    let is_last = |observation: Value| observation["action"].as_str().is_some_and(|action| LAST.contains(&action));
    is_sent && results.iter().flat_map(observations).any(is_last)
}

/// One Node's result.
pub(super) fn result(node: &str, role: v1::TraceflowRole, observations: &[v1::TraceflowObservation]) -> Value {
    let role = if role == v1::TraceflowRole::Receiver { "receiver" } else { "sender" };
    let observations: Vec<Value> = observations.iter().map(observation).collect();
    json!({"node": node, "role": role, "timestamp": Timestamp::now().as_second(), "observations": observations})
}

/// An observation in Antrea's words.
fn observation(of: &v1::TraceflowObservation) -> Value {
    use v1::{TraceflowAction as Action, TraceflowComponent as Component};
    let component = match of.component() {
        Component::Unspecified => "",
        Component::SpoofGuard => "SpoofGuard",
        Component::Lb => "LB",
        Component::Routing => "Routing",
        Component::NetworkPolicy => "NetworkPolicy",
        Component::Forwarding => "Forwarding",
        Component::Egress => "Egress",
    };
    let action = match of.action() {
        Action::Unspecified => "",
        Action::Forwarded | Action::Translated => "Forwarded",
        Action::Delivered => "Delivered",
        Action::Received => "Received",
        Action::Dropped => "Dropped",
        Action::Rejected => "Rejected",
        Action::ForwardedOutOfOverlay => "ForwardedOutOfOverlay",
        Action::MarkedForSnat => "MarkedForSNAT",
    };
    let rule = of.rule.clone().unwrap_or_default();
    let fields = [
        ("component", component),
        ("componentInfo", &of.table),
        ("action", action),
        ("pod", &of.pod),
        ("networkPolicy", &rule.policy),
        ("networkPolicyRule", &rule.rule),
        ("egress", &of.egress),
        ("translatedSrcIP", &of.translated_source),
        ("translatedDstIP", &of.translated_destination),
        ("tunnelDstIP", &of.tunnel_destination),
    ];
    let given = fields.into_iter().filter(|(_, text)| !text.is_empty());
    let mut object: Map<String, Value> = given.map(|(field, text)| (field.to_owned(), json!(text))).collect();
    if of.ttl > 0 {
        object.insert("ttl".to_owned(), json!(of.ttl));
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traceflow::object::Spec;

    fn object(results: Vec<Value>) -> Traceflow {
        let (name, uid, version, spec) = ("t".to_owned(), "u".to_owned(), "7".to_owned(), Ok(Spec::default()));
        Traceflow { name, uid, version, phase: Phase::Running, tag: 1, started: None, spec, results }
    }

    fn seen(action: v1::TraceflowAction) -> v1::TraceflowObservation {
        v1::TraceflowObservation { action: action.into(), ..v1::TraceflowObservation::default() }
    }

    #[test]
    fn results_of_nodes_stand_beside_each_other_and_the_last_one_ends_it() {
        let sent = result("n1", v1::TraceflowRole::Sender, &[seen(v1::TraceflowAction::Forwarded)]);
        let ready = result("n2", v1::TraceflowRole::Receiver, &[]);
        let come = result("n2", v1::TraceflowRole::Receiver, &[seen(v1::TraceflowAction::Delivered)]);
        let with = |results: &[&Value], own: &Value| {
            let object = object(results.iter().map(|result| (*result).clone()).collect());
            let written = Written { result: Some(own.clone()), ..Written::default() };
            patch(&object, &written)
        };
        let first = with(&[&ready], &sent);
        assert_eq!(first["status"]["results"], json!([ready, sent]));
        assert_eq!((&first["status"]["phase"], &first["metadata"]["resourceVersion"]), (&Value::Null, &json!("7")));
        let last = with(&[&ready, &sent], &come);
        assert_eq!((&last["status"]["results"], &last["status"]["phase"]), (&json!([sent, come]), &json!("Succeeded")));
        // What was delivered before the sender has told its part is not over.
        assert_eq!(with(&[&ready], &come)["status"]["phase"], Value::Null);
    }

    #[test]
    fn a_failure_keeps_what_was_observed() {
        let sent = result("n1", v1::TraceflowRole::Sender, &[seen(v1::TraceflowAction::Forwarded)]);
        let written = Written { end: Some(Err("why".to_owned())), ..Written::default() };
        let patch = patch(&object(vec![sent.clone()]), &written);
        assert_eq!(patch["status"], json!({"phase": "Failed", "reason": "why", "results": [sent]}));
    }

    #[test]
    fn an_observation_has_antreas_words() {
        let rule = Some(v1::RuleRef { policy: "knp:a/p".to_owned(), rule: "r".to_owned(), number: 3 });
        let of = v1::TraceflowObservation {
            component: v1::TraceflowComponent::NetworkPolicy.into(),
            table: "IngressRule".to_owned(),
            rule,
            ..seen(v1::TraceflowAction::Dropped)
        };
        let expected = json!({
            "component": "NetworkPolicy",
            "componentInfo": "IngressRule",
            "action": "Dropped",
            "networkPolicy": "knp:a/p",
            "networkPolicyRule": "r",
        });
        assert_eq!(observation(&of), expected);
    }
}
