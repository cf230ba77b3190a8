//! `names`: what addresses are called, by the word of an agent.

use crate::client::Client;
use crate::output::{Answer, Columns, Report, table};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use vswitch_proto::antrea::v1;

/// Lists the names, of all or of one Pod.
pub(crate) async fn list(client: &Client, pod: Option<&str>) -> Answer {
    let request = v1::ListNamesRequest { pod: pod.unwrap_or_default().to_owned() };
    let mut parts = client.answer(client.names().await?.list_names(request).await)?;
    let mut names = Vec::new();
    while let Some(part) = parts.message().await.map_err(|status| client.error(status))? {
        names.extend(part.names);
    }
    Ok(Box::new(Names(names)))
}

/// All names.
pub(super) struct Names(pub(super) Vec<v1::Name>);

const COLUMNS: Columns<'_> =
    &[("ADDRESS", false), ("POD", false), ("NODE", false), ("SERVICE", false), ("WORKLOADS", false), ("LABELS", false)];

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

fn row(name: &v1::Name) -> Vec<String> {
    let scoped = |own: &str| if own.is_empty() { String::new() } else { format!("{}/{own}", name.namespace) };
    let workloads: Vec<_> = name.workloads.iter().map(|one| format!("{}/{}", one.kind, one.name)).collect();
    let labels: BTreeMap<_, _> = name.labels.iter().collect();
    let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let cells = [scoped(&name.pod), name.node.clone(), scoped(&name.service), workloads.join(","), labels.join(",")];
    std::iter::once(name.address.clone()).chain(cells.into_iter().map(or_dash)).collect()
}

impl Report for Names {
    fn text(&self) -> String {
        if self.0.is_empty() { String::new() } else { table(COLUMNS, self.0.iter().map(row)) }
    }

    fn json(&self) -> Value {
        let one = |name: &v1::Name| {
            let labels: BTreeMap<_, _> = name.labels.iter().collect();
            let workload = |one: &v1::Workload| json!({ "kind": one.kind, "name": one.name });
            json!({
                "address": name.address,
                "namespace": name.namespace,
                "pod": name.pod,
                "node": name.node,
                "service": name.service,
                "labels": labels,
                "workloads": name.workloads.iter().map(workload).collect::<Vec<_>>(),
            })
        };
        json!({ "names": self.0.iter().map(one).collect::<Vec<_>>() })
    }
}
