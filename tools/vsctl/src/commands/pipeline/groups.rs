//! Groups.

use super::flows::seconds;
use crate::cli::Id;
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Report};
use serde_json::{Value, json};
use std::fmt::Write;
use vswitch_proto::v1;

async fn list(client: &Client, request: v1::ListGroupsRequest) -> Result<Vec<v1::GroupEntry>, Error> {
    let mut parts = client.answer(client.groups().await?.list_groups(request).await)?;
    let mut groups = Vec::new();
    while let Some(part) = parts.message().await.map_err(|status| client.error(status))? {
        groups.extend(part.groups);
    }
    Ok(groups)
}

pub(super) async fn dump(client: &Client, bridge: &str, group: Option<Id>, names: bool, as_json: bool) -> Answer {
    let form = if as_json { v1::Form::Text } else { v1::Form::Line }.into();
    let id = group.and_then(|id| id.0);
    let request = v1::ListGroupsRequest { bridge: bridge.to_owned(), id, form, names };
    Ok(Box::new(Groups(list(client, request).await?)))
}

pub(super) async fn stats(client: &Client, bridge: &str, group: Option<Id>) -> Answer {
    let id = group.and_then(|id| id.0);
    let request = v1::ListGroupsRequest { bridge: bridge.to_owned(), id, ..Default::default() };
    Ok(Box::new(Stats(list(client, request).await?)))
}

/// `dump-groups`.
struct Groups(Vec<v1::GroupEntry>);

const fn type_word(kind: v1::GroupType) -> &'static str {
    match kind {
        v1::GroupType::Unspecified | v1::GroupType::All => "all",
        v1::GroupType::Select => "select",
        v1::GroupType::Indirect => "indirect",
        v1::GroupType::FastFailover => "ff",
    }
}

fn bucket_json(bucket: &v1::Bucket) -> Value {
    let actions = match &bucket.doing {
        Some(v1::bucket::Doing::ActionsText(text)) => text.as_str(),
        _ => "",
    };
    json!({
        "id": bucket.id,
        "weight": bucket.weight,
        "watch_port": bucket.watch_port,
        "watch_group": bucket.watch_group,
        "actions": actions,
    })
}

impl Report for Groups {
    fn text(&self) -> String {
        let mut text = "OFPST_GROUP_DESC reply (OF1.5) (xid=0x2):\n".to_owned();
        for group in &self.0 {
            let _ = writeln!(text, " {}", group.line);
        }
        text
    }

    fn json(&self) -> Value {
        let group = |entry: &v1::GroupEntry| {
            let group = entry.group.clone().unwrap_or_default();
            let method = match group.selection_method() {
                v1::SelectionMethod::Unspecified => None,
                v1::SelectionMethod::DpHash => Some("dp_hash"),
                v1::SelectionMethod::Hash => Some("hash"),
                v1::SelectionMethod::Maglev => Some("maglev"),
            };
            let fields: Vec<_> = group.selection_fields.iter().map(|field| field.field.as_str()).collect();
            json!({
                "group": entry.id,
                "type": type_word(group.r#type()),
                "selection_method": method,
                "selection_param": group.selection_param,
                "selection_fields": fields,
                "buckets": group.buckets.iter().map(bucket_json).collect::<Value>(),
            })
        };
        self.0.iter().map(group).collect()
    }
}

/// `dump-group-stats`.
struct Stats(Vec<v1::GroupEntry>);

impl Report for Stats {
    fn text(&self) -> String {
        let mut text = "OFPST_GROUP reply (OF1.5) (xid=0x2):\n".to_owned();
        for group in &self.0 {
            let stats = group.statistics.clone().unwrap_or_default();
            let total = stats.total.unwrap_or_default();
            let _ = write!(
                text,
                " group_id={},duration={}.{:03}s,ref_count={},packet_count={},byte_count={}",
                group.id,
                stats.duration_ms / 1000,
                stats.duration_ms % 1000,
                stats.ref_count,
                total.packets,
                total.bytes
            );
            for (i, bucket) in stats.buckets.iter().enumerate() {
                let _ = write!(text, ",bucket{i}:packet_count={},byte_count={}", bucket.packets, bucket.bytes);
            }
            text.push('\n');
        }
        text
    }

    fn json(&self) -> Value {
        let group = |entry: &v1::GroupEntry| {
            let stats = entry.statistics.clone().unwrap_or_default();
            let total = stats.total.unwrap_or_default();
            json!({
                "group": entry.id,
                "duration": seconds(stats.duration_ms),
                "ref_count": stats.ref_count,
                "packets": total.packets,
                "bytes": total.bytes,
                "buckets": counts_json(&stats.buckets),
            })
        };
        self.0.iter().map(group).collect()
    }
}

/// Packets and bytes of buckets or bands.
pub(super) fn counts_json(counts: &[v1::Count]) -> Value {
    counts.iter().map(|count| json!({ "packets": count.packets, "bytes": count.bytes })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> v1::GroupEntry {
        let bucket = v1::Bucket {
            id: Some(0),
            weight: Some(50),
            doing: Some(v1::bucket::Doing::ActionsText("output:2".to_owned())),
            ..Default::default()
        };
        let group = v1::Group {
            id: 1,
            r#type: v1::GroupType::Select.into(),
            selection_method: v1::SelectionMethod::DpHash.into(),
            selection_param: 7,
            buckets: vec![bucket],
            ..Default::default()
        };
        let count = |packets, bytes| v1::Count { packets, bytes };
        let statistics = v1::GroupStatistics {
            duration_ms: 64,
            ref_count: 1,
            total: Some(count(3, 180)),
            buckets: vec![count(2, 120), count(1, 60)],
        };
        let line = "group_id=1,type=select,bucket=bucket_id:0,weight:50,actions=output:2".to_owned();
        v1::GroupEntry { id: 1, line, group: Some(group), statistics: Some(statistics) }
    }

    #[test]
    fn groups_as_ovs_ofctl_prints_them() {
        let want = "OFPST_GROUP_DESC reply (OF1.5) (xid=0x2):\n \
                    group_id=1,type=select,bucket=bucket_id:0,weight:50,actions=output:2\n";
        assert_eq!(Groups(vec![group()]).text(), want);
        let want = json!([{
            "group": 1, "type": "select", "selection_method": "dp_hash", "selection_param": 7, "selection_fields": [],
            "buckets": [{ "id": 0, "weight": 50, "watch_port": null, "watch_group": null, "actions": "output:2" }],
        }]);
        assert_eq!(Groups(vec![group()]).json(), want);
    }

    #[test]
    fn counters_as_ovs_ofctl_prints_them() {
        let want = "OFPST_GROUP reply (OF1.5) (xid=0x2):\n \
                    group_id=1,duration=0.064s,ref_count=1,packet_count=3,byte_count=180,\
                    bucket0:packet_count=2,byte_count=120,bucket1:packet_count=1,byte_count=60\n";
        assert_eq!(Stats(vec![group()]).text(), want);
        let want = json!([{
            "group": 1, "duration": 0.064, "ref_count": 1, "packets": 3, "bytes": 180,
            "buckets": [{ "packets": 2, "bytes": 120 }, { "packets": 1, "bytes": 60 }],
        }]);
        assert_eq!(Stats(vec![group()]).json(), want);
    }
}
