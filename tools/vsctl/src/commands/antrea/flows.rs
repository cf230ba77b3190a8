//! Flows of an object, and what each is for.

use super::super::pipeline::flow_json;
use super::super::port::usage;
use super::parts;
use super::words::{object, problem};
use crate::cli::Object;
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Report};
use clap::error::ErrorKind;
use serde_json::{Value, json};
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1;
use vswitch_proto::v1::Form;

/// Other owners that a line names.
const SHARED_MAX: usize = 3;

/// `flows`.
pub(super) async fn show(client: &Client, of: &Object, rule: Option<&str>, form: Form, names: bool) -> Answer {
    if rule.is_some() && of.kind != v1::Kind::NetworkPolicy {
        return Err(usage(ErrorKind::ArgumentConflict, "--rule: only policies have rules; give policy/NAME"));
    }
    let request = v1::ListObjectFlowsRequest {
        object: Some(of.to_proto()),
        rule: rule.unwrap_or_default().to_owned(),
        form: form.into(),
        names,
        gateway_bridge: false,
    };
    let answer = client.antrea_sync().await?.list_object_flows(request).await;
    let flows: Vec<_> = parts(client, answer).await?.into_iter().flat_map(|part| part.flows).collect();
    let warnings = if flows.is_empty() { why_none(client, of, rule).await? } else { Vec::new() };
    Ok(Box::new(Flows { flows, warnings }))
}

/// `gateway`.
pub(super) async fn gateway(client: &Client, form: Form, names: bool) -> Answer {
    let request = v1::ListObjectFlowsRequest {
        form: form.into(),
        names,
        gateway_bridge: true,
        ..v1::ListObjectFlowsRequest::default()
    };
    let answer = client.antrea_sync().await?.list_object_flows(request).await;
    let flows = parts(client, answer).await?.into_iter().flat_map(|part| part.flows).collect();
    Ok(Box::new(Flows { flows, warnings: Vec::new() }))
}

/// Why an object has no flows.
async fn why_none(client: &Client, of: &Object, rule: Option<&str>) -> Result<Vec<String>, Error> {
    let state = client.answer(client.antrea_sync().await?.get_state(v1::GetStateRequest {}).await)?;
    Ok(reasons(&state, of, rule))
}

fn reasons(state: &v1::GetStateResponse, of: &Object, rule: Option<&str>) -> Vec<String> {
    let name = object(&of.to_proto());
    if !state.gate_open {
        return vec![format!("{name} has no flows yet: the gate is shut; `vsctl antrea status` says why")];
    }
    let is_it = |status: &&v1::ObjectStatus| status.object.as_ref() == Some(&of.to_proto());
    let problems = state.degraded.iter().find(is_it).map(|status| status.problems.as_slice()).unwrap_or_default();
    if !problems.is_empty() {
        return problems.iter().map(|told| format!("{name} has no flows: {}", problem(told))).collect();
    }
    match rule {
        Some(rule) => {
            let policy = &of.name;
            vec![format!(
                "{name} has no flows of a rule {rule:?}; `vsctl antrea rules --policy {policy}` lists its rules"
            )]
        }
        None => vec![format!("{name} has no flows of its own")],
    }
}

/// Lines of `dump-flows`, each with its purpose behind a `#`: the verbs that read flows skip that.
struct Flows {
    flows: Vec<v1::ObjectFlow>,
    warnings: Vec<String>,
}

/// What a flow is for, and who else writes it.
fn comment(flow: &v1::ObjectFlow) -> String {
    let mut parts = Vec::new();
    if !flow.purpose.is_empty() {
        parts.push(flow.purpose.clone());
    }
    if !flow.shared_with.is_empty() {
        let names: Vec<_> = flow.shared_with.iter().take(SHARED_MAX).map(object).collect();
        let more = if flow.shared_with.len() > SHARED_MAX { " and more" } else { "" };
        parts.push(format!("shared with {}{more}", names.join(", ")));
    }
    parts.join("; ")
}

impl Report for Flows {
    fn text(&self) -> String {
        let line = |flow: &v1::ObjectFlow| {
            let text = flow.flow.as_ref().map_or("", |entry| &entry.line);
            match comment(flow) {
                comment if comment.is_empty() => format!(" {text}\n"),
                comment => format!(" {text}  # {}\n", shown(&comment)),
            }
        };
        self.flows.iter().map(line).collect()
    }

    fn json(&self) -> Value {
        let one = |told: &v1::ObjectFlow| {
            let mut value = flow_json(&told.flow.clone().unwrap_or_default());
            value["table_name"] = told.table.clone().into();
            value["purpose"] = told.purpose.clone().into();
            value["shared_with"] = told.shared_with.iter().map(object).collect();
            value
        };
        json!(self.flows.iter().map(one).collect::<Vec<_>>())
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_proto::v1::flow::Matching;
    use vswitch_proto::v1::{Flow, FlowEntry};

    fn reference(kind: v1::Kind, name: &str) -> v1::ObjectRef {
        v1::ObjectRef { kind: kind.into(), name: name.to_owned() }
    }

    fn flow(line: &str, purpose: &str, shared: usize) -> v1::ObjectFlow {
        let matching = Some(Matching::MatchText("ip".to_owned()));
        let entry = FlowEntry {
            line: line.to_owned(),
            flow: Some(Flow { table: 12, cookie: 16, matching, ..Default::default() }),
            ..Default::default()
        };
        v1::ObjectFlow {
            flow: Some(entry),
            table: "Classifier".to_owned(),
            purpose: purpose.to_owned(),
            shared_with: (0..shared).map(|i| reference(v1::Kind::Service, &format!("a/s{i}"))).collect(),
        }
    }

    #[test]
    fn lines_end_with_what_they_are_for() {
        let flows = Flows {
            flows: vec![
                flow("table=Classifier, ip actions=drop", "route to the Pod", 0),
                flow("table=Classifier, tcp actions=drop", "endpoint", 1),
                flow("table=Classifier, udp actions=drop", "", 5),
                flow("table=Classifier, arp actions=drop", "", 0),
            ],
            warnings: Vec::new(),
        };
        let want = concat!(
            " table=Classifier, ip actions=drop  # route to the Pod\n",
            " table=Classifier, tcp actions=drop  # endpoint; shared with service/a/s0\n",
            " table=Classifier, udp actions=drop  # shared with service/a/s0, service/a/s1, service/a/s2 and more\n",
            " table=Classifier, arp actions=drop\n",
        );
        assert_eq!(flows.text(), want);
        let json = &flows.json()[1];
        assert_eq!(
            (&json["table_name"], &json["purpose"], &json["match"]),
            (&json!("Classifier"), &json!("endpoint"), &json!("ip"))
        );
        assert_eq!((&json["shared_with"], &json["cookie"]), (&json!(["service/a/s0"]), &json!("0x10")));
    }

    #[test]
    fn no_flows_have_a_reason() {
        let of = Object { kind: v1::Kind::NetworkPolicy, name: "np:a/b".to_owned() };
        let shut = v1::GetStateResponse::default();
        let told = reasons(&shut, &of, None);
        assert_eq!(told, ["policy/np:a/b has no flows yet: the gate is shut; `vsctl antrea status` says why"]);
        let open = v1::GetStateResponse { gate_open: true, ..shut };
        assert_eq!(reasons(&open, &of, None), ["policy/np:a/b has no flows of its own"]);
        let told = reasons(&open, &of, Some("x"));
        assert_eq!(
            told,
            ["policy/np:a/b has no flows of a rule \"x\"; `vsctl antrea rules --policy np:a/b` lists its rules"]
        );
        let problem =
            v1::Problem { code: "EMPTY".to_owned(), reason: "it applies to nothing".to_owned(), ..Default::default() };
        let status = v1::ObjectStatus { object: Some(of.to_proto()), problems: vec![problem], ..Default::default() };
        let degraded = v1::GetStateResponse { degraded: vec![status], ..open };
        assert_eq!(reasons(&degraded, &of, None), ["policy/np:a/b has no flows: EMPTY: it applies to nothing"]);
    }
}
