//! The declarations, the text, and how much of it there is. `vswitchd/tests/metrics` compares the
//! values with the calls.

use super::encode::{Format, encode, unit};
use super::families;
use super::family::{Family, Kind};
use super::page::shown;
use crate::calls::Calls;
use crate::services::{BridgeReading, Reading};
use std::collections::BTreeSet;
use vswitch_control::config::Compat;
use vswitch_proto::antrea::v1 as antrea;
use vswitch_proto::v1;

/// Series of 64 ports and 4 workers.
const SERIES_MAX: usize = 1500;

#[test]
fn each_declaration_is_as_prometheus_wants_it() {
    let mut names = BTreeSet::new();
    for Family { name, help, kind, labels, from, .. } in families::all() {
        assert!(names.insert(*name), "{name}: twice");
        assert!(name.starts_with("vswitch_"), "{name}");
        assert!(help.ends_with('.') && help.len() > 5, "{name}: {help:?} is no sentence");
        assert_eq!(*kind == Kind::Counter, name.ends_with("_total"), "{name}: {kind:?}");
        assert!(from.contains("Service."), "{name}: {from:?} names no call");
        // Base units, at the end.
        let foreign =
            ["ms", "milliseconds", "minutes", "kilobytes", "mb", "mib", "percent", "us", "kb", "mbps", "hertz"];
        assert!(name.split('_').all(|word| !foreign.contains(&word)), "{name}");
        let base = name.strip_suffix("_total").unwrap_or(name);
        let has_unit = base.split('_').any(|word| ["seconds", "bytes", "ratio"].contains(&word));
        assert!(
            !has_unit || !unit(base).is_empty() || base.ends_with("bytes_per_second"),
            "{name}: its unit is not at the end"
        );
        for label in *labels {
            assert!(label.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}: {label}");
            assert!(!["le", "job", "instance"].contains(label), "{name}: Prometheus has the label {label}");
        }
    }
    let own = names.len();
    names.extend(shown(&Compat::ALL).map(|family| family.name));
    assert_eq!(names.len(), shown(&Compat::ALL).count(), "a name of another program is the switch's own");
    assert!(own > 60, "{own}");
}

fn port(bridge: &str, number: u32) -> v1::PortStatistics {
    let config = v1::PortConfig { name: format!("port{number}"), mtu: Some(1500), ..Default::default() };
    let drop = |reason: &str| v1::DropCount { reason: reason.to_owned(), packets: 1, ..Default::default() };
    let port = v1::Port {
        bridge: bridge.to_owned(),
        config: Some(config),
        r#type: "vhost-user".to_owned(),
        number,
        link_up: true,
        ..Default::default()
    };
    v1::PortStatistics {
        port: Some(port),
        rx_packets: u64::MAX,
        rx_drops: ["rule_drop", "miss_rate"].map(drop).into(),
        tx_drops: ["tx_full"].map(drop).into(),
        ..Default::default()
    }
}

/// A Node with 64 ports, 4 workers, and more zones, meters and controllers than are shown.
pub(super) fn large() -> Reading {
    let rxq = |number: u32| v1::Rxq {
        bridge: "br-int".to_owned(),
        port: format!("port{number}"),
        core: 1 + number % 4,
        usage_percent: 12.5,
        ..Default::default()
    };
    let fallback =
        |reason: u32| v1::FallbackCount { reason: format!("reason{reason}"), packets: 1, ..Default::default() };
    let caches = || v1::Caches { fallbacks: (0..20).map(fallback).collect(), ..Default::default() };
    let worker = |core| v1::Worker {
        core,
        tsc_hz: 1,
        caches: Some(caches()),
        nonvoluntary_switches: Some(1),
        ..Default::default()
    };
    let table = |number| v1::Table { number, name: format!("table{number}"), flows: 9, ..Default::default() };
    let bridge = BridgeReading {
        name: "br-int".to_owned(),
        fdb: v1::FdbStats::default(),
        ports: (1..=64).map(|number| port("br-int", number)).collect(),
        tables: (0..40).map(table).collect(),
        groups: 9,
        meters: (1..=100).map(|id| (id, 2)).collect(),
        controllers: (0..50)
            .map(|id| v1::ControllerState { controller_id: id, told: 1, ..Default::default() })
            .collect(),
    };
    let kind = |kind| antrea::KindState { kind, objects: 3, degraded: 1, ..Default::default() };
    let state = antrea::GetStateResponse {
        initialized: true,
        kinds: (1..=10).map(kind).collect(),
        names: Some(antrea::NameState::default()),
        host: Some(antrea::HostState::default()),
        bridge: "br-int".to_owned(),
        ..Default::default()
    };
    let refusals = vec![v1::HandshakeRefusals { reason: "expired".to_owned(), count: 3 }];
    let certificate = Some(v1::ListenerCertificate { not_after: 1_900_000_000, ..Default::default() });
    let tls = v1::Listener { name: "tls:192.0.2.1:7471".to_owned(), certificate, refusals, ..Default::default() };
    let unix = v1::Listener { name: "unix:/run/x".to_owned(), ..Default::default() };
    Reading {
        version: v1::Version { package: "1\"\\\n".to_owned(), ..Default::default() },
        health: v1::GetHealthResponse { serving: true, up_ms: 1500, ..Default::default() },
        mempool: v1::Mempool { size: 10, in_use: 4, heap_bytes: 1 },
        log: v1::LogState::default(),
        calls: Calls::new().read(),
        bridges: vec![bridge],
        workers: (1..=4).map(worker).collect(),
        rxqs: (1..=64).map(rxq).collect(),
        conntrack: v1::GetConntrackStatsResponse::default(),
        zones: (0..100).map(|zone| v1::ZoneLimit { zone, count: zone, limit: None }).collect(),
        listeners: v1::ListListenersResponse { listeners: vec![unix, tls], audit_lost: 0 },
        antrea: state,
        rules: Vec::new(),
    }
}

#[test]
fn sixty_four_ports_and_four_workers_are_within_the_budget() {
    let (text, series) = encode(shown(&[]), &large(), Format::Text);
    assert!((1000..=SERIES_MAX).contains(&series), "{series} series");
    assert_eq!(series, text.lines().filter(|line| !line.starts_with('#')).count());
    // What there is too much of is summed, or what is less is left out.
    assert!(text.contains("vswitch_meter_drops_total{bridge=\"br-int\",meter=\"other\"} 136\n"), "{text}");
    assert!(text.contains("vswitch_controller_packets_total{bridge=\"br-int\",id=\"other\",fate=\"told\"} 18\n"));
    assert!(text.contains("vswitch_conntrack_zone_entries{zone=\"68\"} 68\n"));
    assert!(!text.contains("vswitch_conntrack_zone_entries{zone=\"67\"}"));
    let ends = text.lines().filter(|line| line.starts_with("vswitch_listener_certificate_end_timestamp_seconds"));
    let end = "vswitch_listener_certificate_end_timestamp_seconds{listener=\"tls:192.0.2.1:7471\"} 1900000000";
    assert_eq!(ends.collect::<Vec<_>>(), [end]);
    assert!(text.contains("{listener=\"tls:192.0.2.1:7471\",reason=\"expired\"} 3\n"), "{text}");
}

#[test]
fn both_formats_have_the_same_samples() {
    let reading = large();
    let (text, _) = encode(shown(&Compat::ALL), &reading, Format::Text);
    let (open, _) = encode(shown(&Compat::ALL), &reading, Format::OpenMetrics);
    let samples =
        |text: &str| text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(samples(&text), samples(&open));
    assert!(
        text.contains("# TYPE vswitch_port_rx_packets_total counter\n# HELP vswitch_port_rx_packets_total Packets")
    );
    assert!(open.contains("# TYPE vswitch_port_rx_bytes counter\n# UNIT vswitch_port_rx_bytes bytes\n# HELP "));
    assert!(open.contains("# TYPE ovs_interface_rx_packets unknown\n"), "no counter of OpenMetrics");
    assert!(open.ends_with("# EOF\n") && !text.contains("# EOF") && !text.contains("# UNIT"));
    assert!(text.contains("version=\"1\\\"\\\\\\n\","), "escaped");
    assert!(text.contains("vswitch_up_seconds 1.5\n"));
    assert!(text.contains(
        "vswitch_port_rx_packets_total{bridge=\"br-int\",port=\"port1\",type=\"vhost-user\"} 18446744073709551615\n"
    ));
}

#[test]
fn a_switch_without_a_node_shows_nothing_of_it() {
    let reading = Reading { antrea: antrea::GetStateResponse::default(), ..large() };
    let (text, _) = encode(shown(&Compat::ALL), &reading, Format::Text);
    assert!(!text.contains("vswitch_antrea_") && !text.contains("antrea_agent_networkpolicy_count"), "{text}");
    assert!(text.contains("antrea_agent_conntrack_total_connection_count 0\n"));
}

#[test]
fn clients_choose_the_format() {
    for (accept, format) in [
        ("", Format::Text),
        ("text/plain", Format::Text),
        ("*/*", Format::Text),
        ("application/openmetrics-text", Format::OpenMetrics),
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            Format::OpenMetrics,
        ),
        ("application/openmetrics-text;q=0.1, text/plain", Format::Text),
        ("application/openmetrics-text;q=0", Format::Text),
        ("application/openmetrics-text;q=nonsense", Format::Text),
        ("application/json", Format::Text),
    ] {
        assert_eq!(Format::accepted(accept), format, "{accept:?}");
    }
}
