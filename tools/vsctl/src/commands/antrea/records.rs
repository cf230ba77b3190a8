//! Records of connections.

use super::events::{rule, rule_json};
use super::parts;
use super::stream::{self, Line};
use super::words::{clock, count, count_json, some};
use crate::cli::{Cli, Records};
use crate::client::Client;
use crate::commands::conntrack;
use crate::commands::conntrack::{tuple, tuple_json};
use crate::error::Error;
use crate::output::{Answer, Report};
use serde_json::{Value, json};
use std::io::Write;
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::FlowRecord;

/// Records of all connections that live.
struct Living(Vec<FlowRecord>);

impl Report for Living {
    fn text(&self) -> String {
        self.0.iter().map(|record| text(record) + "\n").collect()
    }

    fn json(&self) -> Value {
        self.0.iter().map(json).collect()
    }
}

/// Lists what lives.
pub(super) async fn show(client: &Client, args: &Records) -> Answer {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let request = v1::ListFlowRecordsRequest { pod: name(&args.pod), service: name(&args.service) };
    let answer = client.antrea_records().await?.list_flow_records(request).await;
    Ok(Box::new(Living(parts(client, answer).await?.into_iter().flat_map(|part| part.records).collect())))
}

/// Writes one line when the subscription stands and one for each record.
pub(super) async fn follow(client: &Client, args: &Records, cli: &Cli, out: &mut dyn Write) -> Result<(), Error> {
    let request = v1::WatchFlowRecordsRequest {
        kinds: args.kinds.iter().map(|kind| v1::FlowRecordKind::from(*kind).into()).collect(),
        active_seconds: args.active.unwrap_or(0),
        include_existing: args.existing,
    };
    let begin = async { client.answer(client.antrea_records().await?.watch_flow_records(request).await) };
    let told = std::cell::Cell::new(0);
    let lines = |message| lines(&message, &told);
    stream::follow(client, begin, lines, args.count, cli, out).await
}

fn lines(message: &v1::WatchFlowRecordsResponse, told: &std::cell::Cell<u64>) -> Vec<Line> {
    let mut lines = Vec::new();
    let word = |text: String, json| Line { text, json, counts: false };
    if message.started.is_some() {
        lines.push(word("started".to_owned(), json!({ "record": "started" })));
    }
    if message.lost != told.replace(message.lost) {
        lines.push(word(format!("lost {} records so far", message.lost), json!({ "lost": message.lost })));
    }
    lines.extend(message.records.iter().map(|record| Line { text: text(record), json: json(record), counts: true }));
    lines
}

/// `new`
fn word(kind: v1::FlowRecordKind) -> String {
    kind.as_str_name().trim_start_matches("FLOW_RECORD_KIND_").to_ascii_lowercase()
}

fn source(record: &FlowRecord) -> String {
    record.source().as_str_name().trim_start_matches("FLOW_SOURCE_").to_ascii_lowercase()
}

fn verdict(told: &v1::FlowVerdict) -> String {
    format!("{}:{}", rule(told.rule.as_ref()), told.action)
}

fn verdict_json(told: Option<&v1::FlowVerdict>) -> Value {
    let Some(told) = told else { return Value::Null };
    json!({ "rule": rule_json(told.rule.as_ref()), "action": some(told.action.clone()) })
}

/// `new 12:00:00.000 tcp,src=...,dport=80 reply=(...) from=pod pod=default/web to=default/db
/// service=a/b:http packets=3/2 bytes=200/180`.
fn text(record: &FlowRecord) -> String {
    let mut text =
        format!("{} {} {}", word(record.kind()), clock(record.start_unix_ms), tuple(record.original.as_ref()));
    if record.reply.is_some() {
        text.push_str(&format!(" reply=({})", tuple(record.reply.as_ref())));
    }
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!(" {name}={value}"));
        }
    };
    put("seen-as", &record.translated_source);
    if record.source() != v1::FlowSource::Unspecified {
        put("from", &source(record));
    }
    put("pod", &record.source_pod);
    put("to", &record.destination_pod);
    put("service", &record.service);
    put("egress", &record.egress);
    put("egress-rule", &record.egress_verdict.as_ref().map(verdict).unwrap_or_default());
    put("ingress-rule", &record.ingress_verdict.as_ref().map(verdict).unwrap_or_default());
    put("state", &record.tcp.as_ref().map(|tcp| conntrack::tcp_state(tcp.merged()).to_owned()).unwrap_or_default());
    let (original, reply) = (count(record.original_count.as_ref()), count(record.reply_count.as_ref()));
    text.push_str(&format!(" packets={}/{} bytes={}/{}", original.0, reply.0, original.1, reply.1));
    shown(&text).into_owned()
}

fn json(record: &FlowRecord) -> Value {
    let reply = record.reply.as_ref();
    json!({
        "record": word(record.kind()),
        "connection_id": some(record.connection_id),
        "original": tuple_json(record.original.as_ref()),
        "reply": reply.map(|reply| tuple_json(Some(reply))),
        "translated_source": some(record.translated_source.clone()),
        "zone": record.zone,
        "mark": record.mark,
        "label": some(record.label.iter().map(|octet| format!("{octet:02x}")).collect::<String>()),
        "tcp_state": record.tcp.as_ref().map(|tcp| conntrack::tcp_state(tcp.merged())),
        "replied": record.replied,
        "original_count": count_json(record.original_count.as_ref()),
        "reply_count": count_json(record.reply_count.as_ref()),
        "start_unix_ms": record.start_unix_ms,
        "end_unix_ms": some(record.end_unix_ms),
        "source": source(record),
        "source_pod": some(record.source_pod.clone()),
        "destination_pod": some(record.destination_pod.clone()),
        "service": some(record.service.clone()),
        "egress": some(record.egress.clone()),
        "egress_verdict": verdict_json(record.egress_verdict.as_ref()),
        "ingress_verdict": verdict_json(record.ingress_verdict.as_ref()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> FlowRecord {
        let tuple = |to: u8, port| vswitch_proto::v1::ConnectionTuple {
            src: vec![10, 0, 0, 1],
            dst: vec![10, 0, 0, to],
            protocol: 17,
            src_port: 1000,
            dst_port: port,
            icmp: None,
        };
        let rule = v1::RuleRef { policy: "np:a/b".to_owned(), rule: "egress-0".to_owned(), number: 7 };
        FlowRecord {
            kind: v1::FlowRecordKind::End.into(),
            connection_id: 5,
            original: Some(tuple(10, 53)),
            reply: Some(tuple(2, 5353)),
            original_count: Some(vswitch_proto::v1::Count { packets: 3, bytes: 300 }),
            label: vec![0, 7],
            source: v1::FlowSource::Pod.into(),
            source_pod: "default/web".to_owned(),
            service: "default/dns:udp".to_owned(),
            egress_verdict: Some(v1::FlowVerdict { rule: Some(rule), action: "Allow".to_owned() }),
            ..FlowRecord::default()
        }
    }

    #[test]
    fn a_record_is_one_line() {
        let want = "end 00:00:00.000 udp,src=10.0.0.1,dst=10.0.0.10,sport=1000,dport=53 \
                    reply=(udp,src=10.0.0.1,dst=10.0.0.2,sport=1000,dport=5353) from=pod pod=default/web service=default/dns:udp \
                    egress-rule=np:a/b/egress-0:Allow packets=3/0 bytes=300/0";
        assert_eq!(text(&record()), want);
        let json = json(&record());
        assert_eq!(
            (&json["record"], &json["label"], &json["end_unix_ms"]),
            (&json!("end"), &json!("0007"), &Value::Null)
        );
        assert_eq!((&json["egress_verdict"]["rule"]["number"], &json["ingress_verdict"]), (&json!(7), &Value::Null));
        assert_eq!(Living(vec![record()]).text(), format!("{want}\n"));
    }

    #[test]
    fn losses_are_told_when_they_change() {
        let told = std::cell::Cell::new(0);
        let message = |lost, started| v1::WatchFlowRecordsResponse { records: vec![record()], started, lost };
        let counts = |message| lines(&message, &told).iter().map(|line| line.counts).collect::<Vec<_>>();
        assert_eq!(counts(message(0, Some(v1::FlowRecordsStarted {}))), [false, true]);
        assert_eq!(counts(message(4, None)), [false, true]);
        assert_eq!(counts(message(4, None)), [true]);
    }
}
