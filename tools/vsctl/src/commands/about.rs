//! The switch itself: versions, limits, drop reasons.

use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Report, table};
use serde_json::{Value, json};
use std::fmt::Write;
use vswitch_proto::v1;

async fn ask(client: &Client) -> Result<v1::GetCapabilitiesResponse, Error> {
    client.answer(client.capabilities().await?.get_capabilities(v1::GetCapabilitiesRequest {}).await)
}

pub(super) async fn capabilities(client: &Client) -> Answer {
    Ok(Box::new(Capabilities(ask(client).await?)))
}

pub(super) async fn drop_reasons(client: &Client) -> Answer {
    Ok(Box::new(DropReasons(ask(client).await?.drop_reasons)))
}

/// Never fails: a switch that cannot be reached is part of the answer.
pub(super) async fn version(client: &Client) -> Answer {
    let server = ask(client).await.map(|answer| answer.version.unwrap_or_default()).map_err(|error| error.to_string());
    Ok(Box::new(Version(server)))
}

const CLIENT_VERSION: &str = env!("CARGO_PKG_VERSION");

/// `version`.
struct Version(Result<v1::Version, String>);

fn version_text(version: &v1::Version) -> String {
    let dpdk = if version.dpdk_runtime.is_empty() {
        "without DPDK".to_owned()
    } else {
        format!("{}, built with {}", version.dpdk_runtime, version.dpdk_build)
    };
    format!("vswitchd {} ({dpdk}, for {})", version.package, version.cpu_baseline)
}

fn version_json(version: &v1::Version) -> Value {
    json!({
        "version": version.package,
        "dpdk_runtime": version.dpdk_runtime,
        "dpdk_build": version.dpdk_build,
        "cpu_baseline": version.cpu_baseline,
    })
}

impl Report for Version {
    fn text(&self) -> String {
        let server = match &self.0 {
            Ok(version) => version_text(version),
            Err(error) => format!("vswitchd: {error}"),
        };
        format!("vsctl {CLIENT_VERSION}\n{server}\n")
    }

    fn json(&self) -> Value {
        let client = json!({ "version": CLIENT_VERSION });
        match &self.0 {
            Ok(version) => json!({ "client": client, "server": version_json(version) }),
            Err(error) => json!({ "client": client, "server": null, "server_error": error }),
        }
    }
}

/// `drop-reasons`.
struct DropReasons(Vec<v1::DropReason>);

impl Report for DropReasons {
    fn text(&self) -> String {
        let row = |reason: &v1::DropReason| {
            vec![reason.number.to_string(), reason.name.clone(), reason.class.clone(), reason.sentence.clone()]
        };
        table(&[("NUMBER", true), ("NAME", false), ("CLASS", false), ("MEANING", false)], self.0.iter().map(row))
    }

    fn json(&self) -> Value {
        let reason = |reason: &v1::DropReason| json!({ "number": reason.number, "name": reason.name, "class": reason.class, "sentence": reason.sentence });
        self.0.iter().map(reason).collect()
    }
}

/// `capabilities`.
struct Capabilities(v1::GetCapabilitiesResponse);

/// Limits under the names of the API.
fn limits(limits: &v1::Limits) -> Value {
    let mut all = json!({
        "bridges_max": limits.bridges_max,
        "ports_max": limits.ports_max,
        "queues_max": limits.queues_max,
        "workers_max": limits.workers_max,
        "burst": limits.burst,
        "depth_max": limits.depth_max,
        "port_number_max": limits.port_number_max,
        "name_max": limits.name_max,
        "mtu_min": limits.mtu_min,
        "mtu_max": limits.mtu_max,
        "fdb_entries_default": limits.fdb_entries_default,
        "fdb_entries_max": limits.fdb_entries_max,
        "fdb_ageing_seconds_default": limits.fdb_ageing_seconds_default,
        "fdb_port_quota_percent": limits.fdb_port_quota_percent,
        "external_ids_max": limits.external_ids_max,
        "external_id_len_max": limits.external_id_len_max,
        "port_events_queued": limits.port_events_queued,
        "transaction_updates_max": limits.transaction_updates_max,
        "transactions_len_max": limits.transactions_len_max,
        "flows_per_table_max": limits.flows_per_table_max,
        "flows_per_bridge_max": limits.flows_per_bridge_max,
        "groups_max": limits.groups_max,
        "buckets_max": limits.buckets_max,
        "select_buckets_max": limits.select_buckets_max,
        "clauses_len_max": limits.clauses_len_max,
        "meters_max": limits.meters_max,
        "bands_max": limits.bands_max,
        "table_name_max": limits.table_name_max,
        "packet_ins_queued": limits.packet_ins_queued,
        "flow_events_queued": limits.flow_events_queued,
        "tables": limits.tables,
        "resubmits_max": limits.resubmits_max,
        "outputs_max": limits.outputs_max,
        "actions_executed_max": limits.actions_executed_max,
        "actions_len_max": limits.actions_len_max,
        "clones_nested_max": limits.clones_nested_max,
        "stack_max": limits.stack_max,
        "learned_per_table_max": limits.learned_per_table_max,
        "learned_per_bridge_max": limits.learned_per_bridge_max,
        "megaflows_max": limits.megaflows_max,
        "megaflow_masks_max": limits.megaflow_masks_max,
    });
    // The macro takes no more at once.
    for (name, rate) in [
        ("misses_per_second", limits.misses_per_second),
        ("packet_ins_per_second", limits.packet_ins_per_second),
        ("learns_per_second", limits.learns_per_second),
    ] {
        all[name] = rate.into();
    }
    all
}

impl Report for Capabilities {
    fn text(&self) -> String {
        let version = self.0.version.clone().unwrap_or_default();
        let mut text = format!("version: {}\nlimits:\n", version_text(&version));
        let limits = limits(&self.0.limits.unwrap_or_default());
        for (name, value) in limits.as_object().into_iter().flatten() {
            let _ = writeln!(text, "    {name}: {value}");
        }
        let _ = writeln!(text, "port types: {}", self.0.port_types.join(" "));
        let reasons: Vec<_> = self.0.drop_reasons.iter().map(|reason| reason.name.as_str()).collect();
        let _ = writeln!(text, "drop reasons: {}", reasons.join(" "));
        text
    }

    fn json(&self) -> Value {
        json!({
            "version": version_json(&self.0.version.clone().unwrap_or_default()),
            "limits": limits(&self.0.limits.unwrap_or_default()),
            "port_types": self.0.port_types,
            "drop_reasons": DropReasons(self.0.drop_reasons.clone()).json(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> v1::GetCapabilitiesResponse {
        let reason = |number, name: &str, sentence: &str| v1::DropReason {
            number,
            name: name.to_owned(),
            sentence: sentence.to_owned(),
            class: "malformed".to_owned(),
        };
        v1::GetCapabilitiesResponse {
            version: Some(v1::Version {
                package: "0.2.0".to_owned(),
                dpdk_runtime: "DPDK 22.11.4".to_owned(),
                dpdk_build: "22.11.3".to_owned(),
                cpu_baseline: "x86-64-v3".to_owned(),
            }),
            limits: Some(v1::Limits { bridges_max: 64, ports_max: 1024, ..Default::default() }),
            port_types: vec!["dpdk".to_owned(), "tap".to_owned()],
            drop_reasons: vec![reason(0, "eth_short", "Too short."), reason(10, "same_port", "To where it came from.")],
        }
    }

    #[test]
    fn versions() {
        let version = Version(Ok(answer().version.expect("a version")));
        let want =
            format!("vsctl {CLIENT_VERSION}\nvswitchd 0.2.0 (DPDK 22.11.4, built with 22.11.3, for x86-64-v3)\n");
        assert_eq!(version.text(), want);
        assert_eq!(version.json()["server"]["dpdk_runtime"], "DPDK 22.11.4");
        let without =
            v1::Version { package: "0.2.0".to_owned(), cpu_baseline: "x86-64".to_owned(), ..Default::default() };
        assert_eq!(version_text(&without), "vswitchd 0.2.0 (without DPDK, for x86-64)");
        let away = Version(Err("not there".to_owned()));
        assert_eq!(away.text(), format!("vsctl {CLIENT_VERSION}\nvswitchd: not there\n"));
        let want = json!({ "client": { "version": CLIENT_VERSION }, "server": null, "server_error": "not there" });
        assert_eq!(away.json(), want);
    }

    #[test]
    fn drop_reasons_both_ways() {
        let reasons = DropReasons(answer().drop_reasons);
        let want = "\
NUMBER  NAME       CLASS      MEANING
     0  eth_short  malformed  Too short.
    10  same_port  malformed  To where it came from.
";
        assert_eq!(reasons.text(), want);
        assert_eq!(
            reasons.json()[1],
            json!({ "number": 10, "name": "same_port", "class": "malformed", "sentence": "To where it came from." })
        );
    }

    #[test]
    fn capabilities_both_ways() {
        let capabilities = Capabilities(answer());
        let text = capabilities.text();
        let want =
            "version: vswitchd 0.2.0 (DPDK 22.11.4, built with 22.11.3, for x86-64-v3)\nlimits:\n    bridges_max: 64\n";
        assert!(text.starts_with(want), "{text}");
        assert!(text.ends_with("port types: dpdk tap\ndrop reasons: eth_short same_port\n"), "{text}");
        let json = capabilities.json();
        assert_eq!((&json["limits"]["ports_max"], &json["port_types"]), (&json!(1024), &json!(["dpdk", "tap"])));
    }
}
