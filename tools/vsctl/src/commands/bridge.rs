//! Bridges.

use super::{fdb, port};
use crate::cli::{AddBridge, FailMode, OnOff};
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Done, Report};
use serde_json::{Value, json};
use std::fmt::Write;
use vswitch_proto::v1;

impl From<FailMode> for v1::FailMode {
    fn from(mode: FailMode) -> Self {
        match mode {
            FailMode::Secure => Self::Secure,
            FailMode::Standalone => Self::Standalone,
        }
    }
}

fn add_request(args: &AddBridge) -> v1::AddBridgeRequest {
    let bridge = v1::BridgeConfig {
        name: args.name.clone(),
        fail_mode: args.fail_mode.map_or(v1::FailMode::Unspecified, Into::into).into(),
        fdb_entries: args.fdb_size,
        fdb_ageing_seconds: args.fdb_ageing,
        strict: args.strict,
    };
    v1::AddBridgeRequest { bridge: Some(bridge) }
}

pub(super) async fn add(client: &Client, args: &AddBridge) -> Answer {
    client.answer(client.bridges().await?.add_bridge(add_request(args)).await)?;
    Ok(Box::new(Done))
}

pub(super) async fn delete(client: &Client, name: &str) -> Answer {
    let request = v1::DeleteBridgeRequest { name: name.to_owned() };
    client.answer(client.bridges().await?.delete_bridge(request).await)?;
    Ok(Box::new(Done))
}

pub(super) async fn set_fail_mode(client: &Client, name: &str, mode: FailMode) -> Answer {
    let fail_mode = v1::FailMode::from(mode).into();
    set(client, v1::SetBridgeRequest { name: name.to_owned(), fail_mode, strict: None }).await
}

pub(super) async fn set_strict(client: &Client, name: &str, strict: OnOff) -> Answer {
    let strict = Some(strict == OnOff::On);
    let fail_mode = v1::FailMode::Unspecified.into();
    set(client, v1::SetBridgeRequest { name: name.to_owned(), fail_mode, strict }).await
}

async fn set(client: &Client, request: v1::SetBridgeRequest) -> Answer {
    client.answer(client.bridges().await?.set_bridge(request).await)?;
    Ok(Box::new(Done))
}

async fn bridges(client: &Client) -> Result<Vec<v1::Bridge>, Error> {
    Ok(client.answer(client.bridges().await?.list_bridges(v1::ListBridgesRequest {}).await)?.bridges)
}

pub(super) async fn list(client: &Client) -> Answer {
    Ok(Box::new(Names(bridges(client).await?)))
}

pub(super) async fn show(client: &Client) -> Answer {
    Ok(Box::new(Show(bridges(client).await?)))
}

fn fail_mode(config: &v1::BridgeConfig) -> &'static str {
    match config.fail_mode() {
        v1::FailMode::Unspecified => "unknown",
        v1::FailMode::Secure => "secure",
        v1::FailMode::Standalone => "standalone",
    }
}

/// `list-br`.
struct Names(Vec<v1::Bridge>);

impl Report for Names {
    fn text(&self) -> String {
        self.0.iter().filter_map(|bridge| bridge.config.as_ref()).map(|config| format!("{}\n", config.name)).collect()
    }

    fn json(&self) -> Value {
        let bridge = |bridge: &v1::Bridge| {
            let config = bridge.config.clone().unwrap_or_default();
            json!({ "name": config.name, "fail_mode": fail_mode(&config), "ports": bridge.ports.len() })
        };
        self.0.iter().map(bridge).collect()
    }
}

/// `show`.
struct Show(Vec<v1::Bridge>);

impl Report for Show {
    fn text(&self) -> String {
        let mut text = String::new();
        for bridge in &self.0 {
            let config = bridge.config.clone().unwrap_or_default();
            let fdb = bridge.fdb.unwrap_or_default();
            let strict = if config.strict { "\n    strict: true" } else { "" };
            let _ = writeln!(text, "Bridge {}\n    fail_mode: {}{strict}", config.name, fail_mode(&config));
            let _ = writeln!(
                text,
                "    fdb: {} of {} addresses ({} static), ageing {} s",
                fdb.entries,
                fdb.limit,
                fdb.statics,
                config.fdb_ageing_seconds.unwrap_or_default()
            );
            text.extend(bridge.ports.iter().map(port::describe));
        }
        text
    }

    fn json(&self) -> Value {
        let bridge = |bridge: &v1::Bridge| {
            let config = bridge.config.clone().unwrap_or_default();
            json!({
                "name": config.name,
                "fail_mode": fail_mode(&config),
                "fdb_size": config.fdb_entries,
                "fdb_ageing": config.fdb_ageing_seconds,
                "strict": config.strict,
                "fdb": fdb::stats_json(&bridge.fdb.unwrap_or_default()),
                "ports": bridge.ports.iter().map(port::json).collect::<Value>(),
            })
        };
        self.0.iter().map(bridge).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn what_is_not_given_is_left_to_the_switch() {
        let args = |fail_mode, fdb_size| AddBridge {
            name: "br0".to_owned(),
            fail_mode,
            fdb_size,
            fdb_ageing: None,
            strict: false,
        };
        let bridge = add_request(&args(None, None)).bridge.expect("a bridge");
        assert_eq!(bridge, v1::BridgeConfig { name: "br0".to_owned(), ..Default::default() });
        let bridge = add_request(&args(Some(FailMode::Standalone), Some(16))).bridge.expect("a bridge");
        assert_eq!((bridge.fail_mode(), bridge.fdb_entries), (v1::FailMode::Standalone, Some(16)));
    }

    #[test]
    fn show_text() {
        let want = "\
Bridge br0
    fail_mode: standalone
    fdb: 3 of 8192 addresses (1 static), ageing 300 s
    Port vm0
        number: 1
        type: vhost-user (path=/run/vm0.sock, mode=client, queues=2, csum=true, tso=true, mergeable=true, indirect=true, packed=false)
        link: up, 10000 Mbit/s
        mac: 02:00:00:00:00:01, mtu: 1500
        queues: 2 rx, 4 tx
        offloads: rx-csum tx-csum
        external_ids: pod=web\\u{1b}, zone=a
    Port up0
        number: 2
        type: dpdk (devargs=0000:3b:00.0, queues=1)
        link: down
        flags: admin-down no-flood strict
        mac: 02:00:00:00:00:02, mtu: 9000
        queues: 0 rx, 0 tx
        error: no such device
    Port br0
        number: LOCAL
        type: internal (queues=1)
        link: up
        mac: 02:00:00:00:00:03, mtu: 1500
        queues: 1 rx, 1 tx
Bridge br1
    fail_mode: secure
    strict: true
    fdb: 0 of 0 addresses (0 static), ageing 5 s
";
        assert_eq!(Show(testing::bridges()).text(), want);
        assert_eq!(Show(Vec::new()).text(), "");
    }

    #[test]
    fn show_json() {
        let json = Show(testing::bridges()).json();
        assert_eq!(
            json[1],
            json!({
                "name": "br1", "fail_mode": "secure", "fdb_size": null, "fdb_ageing": 5, "strict": true,
                "fdb": { "entries": 0, "static": 0, "limit": 0, "learned": 0, "expired": 0, "evicted": 0, "moved": 0, "refused": 0 },
                "ports": [],
            })
        );
        assert_eq!(json[0]["ports"][2]["number"], 4_294_967_294_u32);
        assert_eq!(
            json[0]["ports"][0],
            json!({
                "name": "vm0", "number": 1, "type": "vhost-user", "bridge": "br0",
                "link_up": true, "link_speed_mbps": 10000, "admin_up": true, "no_flood": false, "no_receive": false, "no_forward": false, "strict": false, "underlay": null,
                "mac": "02:00:00:00:00:01", "mtu": 1500, "interface_mtu": null, "rx_queues": 2, "tx_queues": 4,
                "offloads": ["rx-csum", "tx-csum"],
                "external_ids": { "pod": "web\u{1b}", "zone": "a" },
                "addresses": [],
                "options": {
                    "path": "/run/vm0.sock", "mode": "client", "queues": 2, "csum": true, "tso": true, "mergeable": true,
                    "indirect": true, "packed": false,
                },
                "error": null, "waiting": null,
            })
        );
    }

    #[test]
    fn list() {
        let names = Names(testing::bridges());
        assert_eq!(names.text(), "br0\nbr1\n");
        assert_eq!(
            names.json(),
            json!([
                { "name": "br0", "fail_mode": "standalone", "ports": 3 },
                { "name": "br1", "fail_mode": "secure", "ports": 0 },
            ])
        );
    }
}
