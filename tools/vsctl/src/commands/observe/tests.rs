//! Requests from options, and observations in all forms.

use super::*;
use crate::cli::{Command, parse};
use crate::output::Report as _;
use std::ffi::OsString;
use vswitch_proto::antrea::v1::{
    Direction, Name, Observation, ObservationKind, ObservationVerdict, ObservedPolicy, Workload,
};
use vswitch_proto::v1::{ConnectionTuple, Count};

const NOW: u64 = 1_796_051_045_250;

fn asked(line: &str) -> Result<v1::WatchObservationsRequest, String> {
    let words = ["vsctl", "observe"].into_iter().chain(line.split_whitespace()).map(OsString::from);
    let cli = parse(words).map_err(|error| error.to_string())?;
    let Command::Observe(args) = &cli.command else { panic!("{:?}", cli.command) };
    request::of(args, NOW).map_err(|error| error.to_string())
}

fn name(pod: &str) -> Name {
    Name {
        namespace: "shop".to_owned(),
        pod: pod.to_owned(),
        labels: [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())].into(),
        workloads: vec![Workload { kind: "Deployment".to_owned(), name: "web".to_owned() }],
        ..Name::default()
    }
}

fn drop() -> Observation {
    let policy = ObservedPolicy {
        namespace: "shop".to_owned(),
        name: "deny".to_owned(),
        kind: "NetworkPolicy".to_owned(),
        default_deny: true,
        ..ObservedPolicy::default()
    };
    Observation {
        number: 7,
        unix_ms: NOW,
        kind: ObservationKind::Drop.into(),
        verdict: ObservationVerdict::Dropped.into(),
        tuple: Some(ConnectionTuple {
            src: vec![10, 0, 0, 1],
            dst: vec![10, 0, 0, 2],
            protocol: 6,
            src_port: 41234,
            dst_port: 5432,
            icmp: None,
        }),
        source: Some(name("web-1")),
        destination: Some(name("db-0")),
        direction: Direction::Egress.into(),
        egress_denied_by: vec![policy],
        drop_reason: "rule_drop".to_owned(),
        drop_class: "policy".to_owned(),
        tcp_flags: 2,
        ethernet_source: vec![2, 0, 0, 0, 0, 1],
        ethernet_destination: vec![2, 0, 0, 0, 0, 2],
        ..Observation::default()
    }
}

fn end() -> Observation {
    let count = |packets, bytes| Some(Count { packets, bytes });
    Observation {
        kind: ObservationKind::End.into(),
        verdict: ObservationVerdict::Forwarded.into(),
        tuple: Some(ConnectionTuple {
            src: [&[0xfd][..], &[0; 14], &[1]].concat(),
            dst: [&[0xfd][..], &[0; 14], &[9]].concat(),
            protocol: 17,
            src_port: 1000,
            dst_port: 53,
            icmp: None,
        }),
        destination: Some(Name { namespace: "kube-system".to_owned(), pod: "dns-0".to_owned(), ..Name::default() }),
        service: "kube-system/dns:udp".to_owned(),
        endpoint_address: [&[0xfd][..], &[0; 14], &[2]].concat(),
        endpoint_port: 5353,
        original_count: count(2, 150),
        reply_count: count(1, 90),
        connection_id: 1 << 60,
        ..Observation::default()
    }
}

#[test]
fn options_are_a_request() {
    let plain = asked("").expect("a request");
    assert_eq!((plain.last, plain.since_unix_ms, plain.follow, plain.allow.len()), (20, 0, false, 0));
    let follows = asked("-f").expect("a request");
    assert_eq!((follows.last, follows.follow), (0, true));
    let since = asked("--since 1h30m --until 5s").expect("a request");
    assert_eq!((since.last, NOW - since.since_unix_ms, NOW - since.until_unix_ms), (0, 5_400_000, 5000));
    assert_eq!(asked("--all").expect("a request").since_unix_ms, 1);
    assert_eq!(asked("--first 3").expect("a request").since_unix_ms, 1);
    let asked_for = asked(
        "--verdict DROPPED,refused --reason TX_FULL,POLICY_DENIED --pod shop/web-1 --from-ip 10.0.0.0/8 --to-port 53 \
         --type trace --protocol icmp,47 --label a=1,b --label c --traffic-direction egress --ipv6 --not --port 53 \
         --not -n kube-system",
    );
    let request = asked_for.expect("a request");
    assert_eq!(request.allow.len(), 2, "two values of --label are alternatives");
    let filter = &request.allow[0];
    assert_eq!(filter.verdicts, [2, 3]);
    assert_eq!(filter.drop_reasons, ["tx_full", "policy"]);
    assert_eq!((&filter.protocols[..], &filter.ip_versions[..]), (&[1, 58, 47][..], &[6][..]));
    assert_eq!((&filter.kinds[..], &filter.directions[..]), (&[1, 2][..], &[Direction::Egress.into()][..]));
    let either = filter.either.as_ref().expect("an end");
    assert_eq!(
        (&either.pods[..], &either.labels[..]),
        (&["shop/web-1".to_owned()][..], &["a=1".to_owned(), "b".to_owned()][..])
    );
    assert_eq!(filter.source.as_ref().expect("an end").addresses, ["10.0.0.0/8"]);
    assert_eq!(filter.destination.as_ref().expect("an end").ports, [53]);
    assert_eq!(request.deny.len(), 2);
    assert_eq!(request.deny[0].either.as_ref().expect("an end").ports, [53]);
    assert_eq!(request.deny[1].either.as_ref().expect("an end").namespaces, ["kube-system"]);
    for (line, told) in [
        ("--since 5x", "--since 5x: write a duration"),
        ("--not --verdict nothing", "--not --verdict=nothing: "),
        ("--verdict nothing", "invalid value 'nothing'"),
        ("--port 70000", "70000"),
    ] {
        let error = asked(line).expect_err(line);
        assert!(error.contains(told), "{line}: {error}");
    }
}

#[test]
fn moments_are_durations_or_times() {
    for (text, expected) in [
        ("2026-11-30T15:04:05Z", Some(1_796_051_045_000)),
        ("2026-11-30T15:04:05.25Z", Some(NOW)),
        ("2024-02-29T00:00:00Z", Some(1_709_164_800_000)),
        ("1970-01-01T00:00:01Z", Some(1000)),
        ("2d", Some(NOW - 172_800_000)),
        ("250ms", Some(NOW - 250)),
        ("", None),
        ("5", None),
        ("m", None),
        ("2026-13-30T15:04:05Z", None),
        ("2026-11-30 15:04:05", None),
        ("99999999999999999999s", None),
    ] {
        assert_eq!(request::unix_ms(text, NOW), expected, "{text}");
    }
}

#[test]
fn text_names_both_ends_and_the_policy() {
    let time = crate::commands::antrea::clock(NOW);
    let line = text::compact(&drop());
    let want = "shop/web-1:41234 -> shop/db-0:5432 policy-denied DROPPED (TCP SYN) egress denied by NetworkPolicy \
                shop/deny (default deny)";
    assert_eq!(line, format!("{time}: {want}\n"));
    let line = text::compact(&end());
    let want = "[fd00::1]:1000 -> kube-system/dns-0:5353 end FORWARDED (UDP; 2 packets of 150 bytes, 1 packets of 90 \
                bytes back) service kube-system/dns:udp\n";
    assert!(line.ends_with(want), "{line}");
    let bare = Observation { tuple: None, source: None, destination: None, egress_denied_by: Vec::new(), ..drop() };
    assert!(text::compact(&bare).contains(": 02:00:00:00:00:01 -> 02:00:00:00:00:02 rule-drop DROPPED (no IP)"));
    let dict = text::dict(&drop(), false);
    assert!(dict.starts_with("------------\n  TIMESTAMP: ") && dict.contains("\n    VERDICT: DROPPED\n"), "{dict}");
    let tab = text::tab(&drop(), true);
    assert_eq!(tab.lines().count(), 2);
    assert!(tab.starts_with("TIMESTAMP      SOURCE "), "{tab}");
    // What a terminal would obey is escaped.
    let evil = Observation { source: Some(name("\u{1b}[2J")), service: "a/\n".to_owned(), ..drop() };
    assert_eq!(text::compact(&evil).chars().filter(|c| c.is_control()).count(), 1, "the end of the line");
}

#[test]
fn json_has_the_names_of_hubble() {
    let json = flow::response(&drop(), "worker-2");
    let flow = &json["flow"];
    assert_eq!(json["node_name"], "worker-2");
    assert_eq!((&json["time"], &flow["time"]), (&json!("2026-11-30T15:04:05.250Z"), &json["time"]));
    assert_eq!((&flow["verdict"], &flow["drop_reason_desc"]), (&json!("DROPPED"), &json!("POLICY_DENIED")));
    assert_eq!(flow["ethernet"], json!({ "source": "02:00:00:00:00:01", "destination": "02:00:00:00:00:02" }));
    assert_eq!(flow["IP"], json!({ "source": "10.0.0.1", "destination": "10.0.0.2", "ipVersion": "IPv4" }));
    let tcp = json!({ "TCP": { "source_port": 41234, "destination_port": 5432, "flags": { "SYN": true } } });
    assert_eq!(flow["l4"], tcp);
    let web = json!({
        "namespace": "shop",
        "labels": ["k8s:a=1", "k8s:b=2"],
        "pod_name": "web-1",
        "workloads": [{ "name": "web", "kind": "Deployment" }],
    });
    assert_eq!((&flow["source"], &flow["Type"]), (&web, &json!("L3_L4")));
    let denied = json!([{ "name": "deny", "namespace": "shop", "kind": "NetworkPolicy", "default_deny": true }]);
    assert_eq!((&flow["egress_denied_by"], &flow["ingress_denied_by"]), (&denied, &json!(null)));
    assert_eq!((&flow["traffic_direction"], &flow["Summary"]), (&json!("EGRESS"), &json!("TCP SYN")));
    assert_eq!((&flow["vswitch"]["drop_reason"], &flow["event_type"]["type"]), (&json!("rule_drop"), &json!(1)));

    let flow = &flow::response(&end(), "")["flow"];
    assert_eq!(flow["IP"], json!({ "source": "fd00::1", "destination": "fd00::2", "ipVersion": "IPv6" }));
    assert_eq!(flow["l4"]["UDP"]["destination_port"], 5353);
    assert_eq!(flow["destination_service"], json!({ "name": "dns", "namespace": "kube-system" }));
    assert_eq!((&flow["source"], &flow["verdict"]), (&json!({}), &json!("FORWARDED")));
    assert_eq!(flow["vswitch"]["connection_id"], "1152921504606846976", "readers of JSON cut such numbers");
    let mut explicit = drop();
    explicit.egress_denied_by[0].default_deny = false;
    explicit.verdict = ObservationVerdict::Refused.into();
    let flow = &flow::response(&explicit, "")["flow"];
    assert_eq!((&flow["drop_reason_desc"], &flow["verdict"]), (&json!("POLICY_DENY"), &json!("DROPPED")));
    assert_eq!(flow["vswitch"]["verdict"], "REFUSED");
}

#[test]
fn losses_are_told_once() {
    let mut out = Vec::new();
    let mut show = Show {
        out: &mut out,
        output: ObserveOutput::Json,
        node: String::new(),
        shown: 0,
        lost: v1::ObservationsLost::default(),
    };
    let lost = |behind, unread, suppressed| Update::Lost(v1::ObservationsLost { behind, unread, suppressed });
    show.update(&lost(3, 0, 0), true).expect("written");
    show.update(&lost(3, 2, 1), true).expect("written");
    let text = String::from_utf8(out).expect("UTF-8");
    let want = "{\"lost_events\":{\"source\":\"HUBBLE_RING_BUFFER\",\"num_events_lost\":3}}\n\
                {\"lost_events\":{\"source\":\"OBSERVER_EVENTS_QUEUE\",\"num_events_lost\":2}}\n\
                {\"vswitch\":{\"suppressed_drops\":1}}\n";
    assert_eq!(text, want);
}

#[test]
fn names_both_ways() {
    let names = names::Names(vec![Name { address: "10.0.0.1".to_owned(), node: "n1".to_owned(), ..name("web-1") }]);
    let want = "\
ADDRESS   POD         NODE  SERVICE  WORKLOADS       LABELS
10.0.0.1  shop/web-1  n1    -        Deployment/web  a=1,b=2
";
    assert_eq!(names.text(), want);
    assert_eq!(names.json()["names"][0]["labels"]["b"], "2");
    assert_eq!(names::Names(Vec::new()).text(), "");
}
