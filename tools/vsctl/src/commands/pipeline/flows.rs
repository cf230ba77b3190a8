//! Flows and megaflows.

use super::by_name;
use crate::cli::DumpFlows;
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Report};
use serde_json::{Value, json};
use std::fmt::Write;
use vswitch_proto::v1;
use vswitch_proto::v1::flow::{Doing, Matching};

/// All flows that a request means, and what was odd about it.
pub(super) async fn list(
    client: &Client,
    request: v1::ListFlowsRequest,
) -> Result<(Vec<v1::FlowEntry>, Vec<String>), Error> {
    let mut parts = client.answer(client.flows().await?.list_flows(request).await)?;
    let (mut flows, mut warnings) = (Vec::new(), Vec::new());
    while let Some(part) = parts.message().await.map_err(|status| client.error(status))? {
        flows.extend(part.flows);
        warnings.extend(part.warnings);
    }
    Ok((flows, warnings))
}

fn sort_keys(args: &DumpFlows) -> Vec<v1::SortKey> {
    let key = |(field, descending): &(String, bool)| v1::SortKey { field: field.clone(), descending: *descending };
    args.sort.0.iter().map(key).collect()
}

pub(super) async fn dump(client: &Client, args: &DumpFlows, as_json: bool) -> Answer {
    let (names, sort) = (by_name(&args.names), sort_keys(args));
    // Like ovs-ofctl: lines as they come from the switch have a first line of their own, lines made
    // by the tool have none.
    let header = !names && !args.no_stats && sort.is_empty();
    let request = v1::ListFlowsRequest {
        bridge: args.bridge.clone(),
        filter: args.flows.clone().map(v1::list_flows_request::Filter::Text),
        form: if as_json { v1::Form::Text } else { v1::Form::Line }.into(),
        names,
        no_statistics: args.no_stats,
        sort,
    };
    let (flows, warnings) = list(client, request).await?;
    Ok(Box::new(Flows { flows, header, warnings }))
}

pub(super) async fn aggregate(client: &Client, bridge: &str, flows: Option<&str>) -> Answer {
    let filter = flows.map(|flows| v1::aggregate_flows_request::Filter::Text(flows.to_owned()));
    let request = v1::AggregateFlowsRequest { bridge: bridge.to_owned(), filter };
    Ok(Box::new(Aggregate(client.answer(client.flows().await?.aggregate_flows(request).await)?)))
}

pub(super) async fn megaflows(client: &Client, bridge: Option<&str>) -> Answer {
    let request = v1::ListMegaflowsRequest { bridge: bridge.unwrap_or_default().to_owned() };
    let mut parts = client.answer(client.flows().await?.list_megaflows(request).await)?;
    let mut megaflows = Vec::new();
    while let Some(part) = parts.message().await.map_err(|status| client.error(status))? {
        megaflows.extend(part.megaflows);
    }
    Ok(Box::new(Megaflows(megaflows)))
}

/// Match and actions of a flow in form TEXT.
pub(super) fn texts(flow: &v1::Flow) -> (&str, &str) {
    let matching = match &flow.matching {
        Some(Matching::MatchText(text)) => text,
        _ => "",
    };
    let actions = match &flow.doing {
        Some(Doing::ActionsText(text)) => text,
        _ => "",
    };
    (matching, actions)
}

/// The words of a flow's flags.
pub(super) fn flag_words(flow: &v1::Flow) -> Vec<&'static str> {
    let flags = flow.flags.unwrap_or_default();
    let flags = [
        ("send_flow_rem", flags.send_flow_rem),
        ("check_overlap", flags.check_overlap),
        ("reset_counts", flags.reset_counts),
        ("no_packet_counts", flags.no_packet_counts),
        ("no_byte_counts", flags.no_byte_counts),
    ];
    flags.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect()
}

/// A flow in form TEXT, for programs.
pub(in crate::commands) fn json(entry: &v1::FlowEntry) -> Value {
    let flow = entry.flow.clone().unwrap_or_default();
    let (matching, actions) = texts(&flow);
    let flags = flag_words(&flow);
    let mut value = json!({
        "table": flow.table,
        "table_name": (!flow.table_name.is_empty()).then_some(&flow.table_name),
        "priority": flow.priority,
        // Many readers of JSON cut numbers of 64 bits.
        "cookie": format!("{:#x}", flow.cookie),
        "match": matching,
        "actions": actions,
        "idle_timeout": flow.idle_timeout,
        "hard_timeout": flow.hard_timeout,
        "importance": flow.importance,
        "flags": flags,
    });
    if let Some(statistics) = &entry.statistics {
        value["duration"] = seconds(statistics.duration_ms);
        value["packets"] = statistics.packets.into();
        value["bytes"] = statistics.bytes.into();
        value["idle_age"] = statistics.idle_age_seconds.into();
        value["hard_age"] = statistics.hard_age_seconds.into();
        value["commits"] = statistics.commits.into();
        value["rejects"] = statistics.rejects.into();
    }
    value
}

/// Milliseconds as seconds.
#[allow(clippy::cast_precision_loss)] // for display
pub(super) fn seconds(milliseconds: u64) -> Value {
    json!(milliseconds as f64 / 1000.0)
}

/// `dump-flows`.
struct Flows {
    flows: Vec<v1::FlowEntry>,
    header: bool,
    warnings: Vec<String>,
}

impl Report for Flows {
    fn text(&self) -> String {
        let len: usize = self.flows.iter().map(|flow| flow.line.len() + 2).sum();
        let mut text = String::with_capacity(len + 64);
        if self.header {
            text.push_str("OFPST_FLOW reply (OF1.5) (xid=0x2):\n");
        }
        for flow in &self.flows {
            text.push(' ');
            text.push_str(&flow.line);
            text.push('\n');
        }
        text
    }

    fn json(&self) -> Value {
        self.flows.iter().map(json).collect()
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    fn note(&self) -> Option<String> {
        let built_in = |flow: &v1::FlowEntry| flow.line.ends_with("priority=0 actions=NORMAL");
        let note = "priority=0 actions=NORMAL is the flow that a bridge of fail mode standalone begins with: what no other flow \
                    matches is switched by MAC addresses. Flows that are added leave it. `vsctl del-flows BRIDGE` takes it away.";
        self.flows.iter().any(built_in).then(|| note.to_owned())
    }
}

/// `dump-aggregate`.
struct Aggregate(v1::AggregateFlowsResponse);

impl Report for Aggregate {
    fn text(&self) -> String {
        let v1::AggregateFlowsResponse { packets, bytes, flows, .. } = self.0;
        format!(
            "OFPST_AGGREGATE reply (OF1.5) (xid=0x2): packet_count={packets} byte_count={bytes} flow_count={flows}\n"
        )
    }

    fn json(&self) -> Value {
        let v1::AggregateFlowsResponse { packets, bytes, flows, warnings } = &self.0;
        json!({ "packets": packets, "bytes": bytes, "flows": flows, "warnings": warnings })
    }

    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }
}

/// `dump-megaflows`: the lines of `ovs-appctl dpctl/dump-flows`, one heading per worker.
struct Megaflows(Vec<v1::Megaflow>);

impl Report for Megaflows {
    fn text(&self) -> String {
        let mut text = String::new();
        let mut worker = None;
        for flow in &self.0 {
            if worker != Some(flow.worker) {
                worker = Some(flow.worker);
                let _ = writeln!(text, "flow-dump from worker: {}", flow.worker);
            }
            let used = match flow.used_ms_ago {
                Some(ms) => format!("{}.{:03}s", ms / 1000, ms % 1000),
                None => "never".to_owned(),
            };
            let _ = writeln!(
                text,
                "bridge({}),{}, packets:{}, bytes:{}, used:{used}, actions:{}",
                flow.bridge, flow.r#match, flow.packets, flow.bytes, flow.actions
            );
        }
        text
    }

    fn json(&self) -> Value {
        let megaflow = |flow: &v1::Megaflow| {
            json!({
                "worker": flow.worker,
                "bridge": flow.bridge,
                "match": flow.r#match,
                "actions": flow.actions,
                "packets": flow.packets,
                "bytes": flow.bytes,
                "used": flow.used_ms_ago.map(seconds),
            })
        };
        self.0.iter().map(megaflow).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_ovs_ofctl() {
        let line =
            "cookie=0x1, duration=0.034s, table=0, n_packets=0, n_bytes=0, idle_age=0, priority=100,ip actions=drop";
        let flow = v1::FlowEntry { line: line.to_owned(), ..Default::default() };
        let warnings = vec!["odd".to_owned()];
        let flows = Flows { flows: vec![flow.clone()], header: true, warnings: warnings.clone() };
        assert_eq!(flows.warnings(), warnings);
        assert_eq!(flows.text(), format!("OFPST_FLOW reply (OF1.5) (xid=0x2):\n {line}\n"));
        let bare = Flows { flows: vec![flow], header: false, warnings: Vec::new() };
        assert_eq!(bare.text(), format!(" {line}\n"));
        let sums = Aggregate(v1::AggregateFlowsResponse { packets: 3, bytes: 180, flows: 2, warnings });
        let want = "OFPST_AGGREGATE reply (OF1.5) (xid=0x2): packet_count=3 byte_count=180 flow_count=2\n";
        assert_eq!(sums.text(), want);
        assert_eq!(sums.json(), json!({ "packets": 3, "bytes": 180, "flows": 2, "warnings": ["odd"] }));
    }

    #[test]
    fn a_flow_for_programs() {
        let flow = v1::Flow {
            table: 3,
            table_name: "Classifier".to_owned(),
            priority: Some(26),
            matching: Some(Matching::MatchText("in_port=3".to_owned())),
            cookie: u64::MAX,
            idle_timeout: 5,
            flags: Some(v1::FlowFlags { send_flow_rem: true, ..Default::default() }),
            doing: Some(Doing::ActionsText("drop".to_owned())),
            ..Default::default()
        };
        let statistics = v1::FlowStatistics { duration_ms: 1500, packets: 2, bytes: 120, ..Default::default() };
        let entry = v1::FlowEntry { flow: Some(flow), statistics: Some(statistics), ..Default::default() };
        let want = json!({
            "table": 3, "table_name": "Classifier", "priority": 26, "cookie": "0xffffffffffffffff", "match": "in_port=3",
            "actions": "drop", "idle_timeout": 5, "hard_timeout": 0, "importance": 0, "flags": ["send_flow_rem"],
            "duration": 1.5, "packets": 2, "bytes": 120, "idle_age": 0, "hard_age": 0, "commits": 0, "rejects": 0,
        });
        assert_eq!(json(&entry), want);
    }

    #[test]
    fn megaflows_both_ways() {
        let flow = |worker, used_ms_ago| v1::Megaflow {
            worker,
            bridge: "br0".to_owned(),
            r#match: "in_port=1,ip".to_owned(),
            actions: "output:2".to_owned(),
            packets: 3,
            bytes: 180,
            used_ms_ago,
        };
        let megaflows = Megaflows(vec![flow(0, Some(1234)), flow(0, None), flow(1, Some(5))]);
        let want = "\
flow-dump from worker: 0
bridge(br0),in_port=1,ip, packets:3, bytes:180, used:1.234s, actions:output:2
bridge(br0),in_port=1,ip, packets:3, bytes:180, used:never, actions:output:2
flow-dump from worker: 1
bridge(br0),in_port=1,ip, packets:3, bytes:180, used:0.005s, actions:output:2
";
        assert_eq!(megaflows.text(), want);
        assert_eq!((&megaflows.json()[0]["used"], &megaflows.json()[1]["used"]), (&json!(1.234), &Value::Null));
    }
}
