//! Metrics of a whole switch under traffic: each value is the one that its call tells.
//!
//! A reading of calls, a scrape, a reading of calls: what grows is between the two, and equal once
//! the traffic has stopped. A metric that no line of [`compared`] compares fails the test.

#[allow(clippy::duplicate_mod)]
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod compat;
mod frames;
mod page;
mod told;

use common::{Switch, client_runtime, wait_for};
use compare::How;
use frames::{of_pod, udp};
use page::{Page, get, request};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use told::Told;
use tonic::transport::{Channel, Endpoint};
use vswitch_control::config::Compat;
use vswitch_proto::antrea::v1::node_service_client::NodeServiceClient;
use vswitch_proto::antrea::v1::pod_service_client::PodServiceClient;
use vswitch_proto::antrea::v1::sync_service_client::SyncServiceClient;
use vswitch_proto::antrea::v1::{self as antrea};
use vswitch_proto::v1;
use vswitch_proto::v1::dummy_service_client::DummyServiceClient;
use vswitch_testkit::certificates::{Authority, GOOD, Issued};

const LIMIT: Duration = Duration::from_secs(60);

/// Metrics that this switch has no sample of, and why.
const NOT_HERE: [(&str, &str); 2] = [
    ("vswitch_port_offload_software_packets_total", "dummy ports have no device that could do it"),
    ("vswitch_port_speed_bytes_per_second", "dummy ports have no speed"),
];

const CONFIG: &str = r#"
[worker]
idle_sleep_us = 1000

[observe]
metrics = "unix:@DIR@/metrics.sock"
compat = ["ovs", "antrea"]
rule_metrics = true

[[conntrack.zone]]
zone = 9
limit = 100000

[[bridge]]
name = "br0"
[[bridge.port]]
name = "p1"
number = 1
type = "dummy"
[[bridge.port]]
name = "p2"
number = 2
type = "dummy"
[[bridge.port]]
name = "to-ex"
number = 3
type = "patch"
peer = "to-br0"
[[bridge.port]]
name = "down"
number = 4
type = "dummy"
admin_up = false

[[bridge]]
name = "br-ex"
fail_mode = "standalone"
[[bridge.port]]
name = "to-br0"
type = "patch"
peer = "to-ex"
[[bridge.port]]
name = "p3"
type = "dummy"

[[bridge]]
name = "br-int"
[[bridge.port]]
name = "gw0"
type = "dummy"
[[bridge.port]]
name = "pod0"
type = "dummy"
"#;

/// A switch with traffic, and a connection to it.
struct Bed {
    /// Of certificates.
    _directory: tempfile::TempDir,
    // Before the switch: clients go first.
    channel: Channel,
    runtime: Runtime,
    switch: Switch,
}

impl Bed {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let authority = Authority::new(directory.path(), "ca");
        let Issued { cert, key } = authority.issue("server", "IP:127.0.0.1", GOOD);
        let ca = authority.cert();
        let listener = format!(
            "[[control.listener]]\naddress = \"127.0.0.1:0\"\nrole = \"read\"\n\
             tls = {{ cert = {cert:?}, key = {key:?}, client_ca = {ca:?} }}\n"
        );
        let switch = Switch::start_with(&(listener + CONFIG), &["--enable-dummy"]);
        let runtime = client_runtime();
        let socket = format!("unix://{}", switch.socket().display());
        let channel = runtime
            .block_on(async { Endpoint::from_shared(socket).expect("an address").connect().await })
            .expect("vswitchd listens");
        let bed = Self { _directory: directory, channel, runtime, switch };
        bed.refuse();
        bed.program();
        bed
    }

    /// The TLS listener refuses a client that does not speak TLS.
    fn refuse(&self) {
        let told = self.switch.json(&["listener-show"]);
        let name = told["listeners"][1]["name"].as_str().expect("a name").to_owned();
        let address = name.strip_prefix("tls:").expect("TLS");
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("written");
        wait_for("a refusal", LIMIT, || {
            let told = self.switch.json(&["listener-show"]);
            told["listeners"][1]["refusals"]["not_tls"] == 1
        });
    }

    fn page(&self) -> std::path::PathBuf {
        self.switch.dir().join("metrics.sock")
    }

    /// Flows of which packets have every fate.
    fn program(&self) {
        let switch = &self.switch;
        switch.vsctl_ok(&["add-meter", "br0", "meter=7,pktps,band=type=drop,rate=1"]);
        switch.vsctl_ok(&["add-group", "br0", "group_id=5,type=all,bucket=actions=output:2"]);
        for flow in [
            "table=0,priority=9,udp,tp_dst=1,actions=ct(commit,zone=9,table=1)",
            "table=0,priority=8,udp,tp_dst=2,actions=drop",
            "table=0,priority=7,udp,tp_dst=3,actions=meter:7,output:2",
            "table=0,priority=6,udp,tp_dst=4,actions=controller(id=3)",
            "table=0,priority=5,udp,tp_dst=5,actions=output:3",
            "table=0,priority=4,udp,tp_dst=6,actions=output:1",
            "table=0,priority=3,udp,tp_dst=7,actions=output:4",
            "table=1,actions=group:5",
        ] {
            switch.vsctl_ok(&["add-flow", "br0", flow]);
        }
    }

    /// A Node with a Pod and an agent that reports.
    fn declare(&self) {
        let mac = |last| Some(v1::MacAddress { octets: vec![2, 0, 0, 0, 0, last] });
        let gateway = antrea::Gateway { port: "gw0".to_owned(), mac: mac(1), addresses: vec!["10.10.0.1".to_owned()] };
        let node = antrea::NodeConfig {
            name: "node".to_owned(),
            bridge: "br-int".to_owned(),
            traffic_mode: antrea::TrafficMode::NoEncap.into(),
            families: antrea::Families::Ipv4.into(),
            transport_addresses: vec!["192.168.77.102/24".to_owned()],
            pod_cidrs: vec!["10.10.0.0/24".to_owned()],
            service_cidrs: vec!["10.96.0.0/12".to_owned()],
            gateway: Some(gateway),
            features: Some(antrea::Features { egress: Some(false), ..Default::default() }),
            ..Default::default()
        };
        let pod = antrea::Pod {
            name: "default/a".to_owned(),
            port: "pod0".to_owned(),
            addresses: vec!["10.10.0.9".to_owned()],
            mac: mac(9),
            ..Default::default()
        };
        self.runtime.block_on(async {
            let mut nodes = NodeServiceClient::new(self.channel.clone());
            let request = antrea::InitializeRequest { node: Some(node), round: 1 };
            nodes.initialize(request).await.expect("a Node");
            nodes.report_host(antrea::ReportHostRequest::default()).await.expect("a report");
            let options = Some(antrea::WriteOptions { round: 1, ..Default::default() });
            let request = antrea::ApplyPodsRequest { options, pods: vec![pod] };
            PodServiceClient::new(self.channel.clone()).apply_pods(request).await.expect("a Pod");
            let pods = antrea::AppliedToGroup {
                name: "pods".to_owned(),
                pods: vec!["default/a".to_owned()],
                ..Default::default()
            };
            let rule = antrea::Rule {
                id: "no-udp".to_owned(),
                direction: antrea::Direction::Egress.into(),
                action: antrea::RuleAction::Drop.into(),
                ports: vec![antrea::PortMatch { protocol: antrea::Protocol::Udp.into(), ..Default::default() }],
                ..Default::default()
            };
            let policy = antrea::NetworkPolicy {
                name: "acnp:quiet".to_owned(),
                kind: antrea::PolicyKind::AntreaCluster.into(),
                tier: 250,
                priority: 5.0,
                applied_to: vec!["pods".to_owned()],
                rules: vec![rule],
                ..Default::default()
            };
            let objects = [antrea::object::Object::AppliedToGroup(pods), antrea::object::Object::NetworkPolicy(policy)];
            let objects = objects.into_iter().map(|object| antrea::Object { object: Some(object) }).collect();
            let options = Some(antrea::WriteOptions { round: 1, ..Default::default() });
            let request = antrea::ApplyObjectsRequest { options, objects, ..Default::default() };
            let written = SyncServiceClient::new(self.channel.clone()).apply_objects(request).await.expect("an answer");
            let result = written.into_inner().result.expect("a result");
            assert!(result.applied, "{result:?}");
        });
    }

    fn open_gate(&self) {
        let mut sync = SyncServiceClient::new(self.channel.clone());
        self.runtime.block_on(sync.open_gate(antrea::OpenGateRequest { round: 1 })).expect("an open gate");
    }

    fn told(&self) -> Told {
        self.runtime.block_on(Told::read(self.channel.clone()))
    }

    /// Lets the clock stand: ages are the same at each reading.
    fn stop_time(&self) {
        let mut dummies = DummyServiceClient::new(self.channel.clone());
        self.runtime.block_on(dummies.stop_time(v1::StopTimeRequest {})).expect("the clock stops");
    }

    /// A scrape of after now. The switch shows a text for a second.
    fn scrape(&self) -> Page {
        let now = self.told().health.up_ms;
        let mut page = None;
        wait_for("a new text", LIMIT, || {
            let fresh = Page::parse(&get(&self.page(), "/metrics"));
            #[allow(clippy::cast_precision_loss)] // less than 2^53
            let is_new = fresh.only("vswitch_up_seconds") * 1000.0 >= now as f64;
            page = Some(fresh);
            is_new
        });
        page.expect("a text")
    }

    /// Sends packets of all kinds until it is told to stop.
    async fn traffic(channel: Channel, stop: &AtomicBool) {
        let mut port = 1000;
        while !stop.load(Relaxed) {
            port = if port == 60_000 { 1000 } else { port + 1 };
            let request = |to| v1::ReceiveRequest { port: "p1".to_owned(), packet: udp(port, to) };
            let mut requests: Vec<_> = (1..=8).map(request).collect();
            requests.push(v1::ReceiveRequest { port: "pod0".to_owned(), packet: of_pod(port) });
            let mut dummies = DummyServiceClient::new(channel.clone());
            let mut sent = dummies.receive(tokio_stream::iter(requests)).await.expect("a stream").into_inner();
            while sent.message().await.expect("an answer").is_some() {}
        }
    }
}

/// All metrics, each with what calls tell.
fn compared() -> impl Iterator<Item = &'static compare::Compare> {
    compare::OWN.iter().chain(compat::ALL)
}

/// What differs between a scrape and the calls before and after it.
fn differences(before: &Told, page: &Page, after: &Told, quiet: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for compare in compared() {
        let (low, shown, high) = ((compare.value)(before), page.of(compare.metric), (compare.value)(after));
        let labels = |samples: &compare::Samples| samples.keys().cloned().collect::<BTreeSet<_>>();
        // A series may come between the readings.
        if !labels(&low).is_subset(&labels(&shown)) || !labels(&shown).is_subset(&labels(&high)) {
            wrong.push(format!("{}: series {low:?}, then {shown:?}, then {high:?}", compare.metric));
            continue;
        }
        for (labels, value) in &shown {
            let (first, last) = (low.get(labels).copied().unwrap_or(0.0), high[labels]);
            let between = first <= *value && *value <= last;
            let good = match compare.how {
                How::Runs => between,
                How::Counts => between && (!quiet || first == last),
                How::Fades => !quiet || (first.min(last) <= *value && *value <= first.max(last)),
                How::Gauge => !quiet || (first == *value && *value == last),
            };
            if !good {
                wrong.push(format!("{}{labels:?}: {first}, then {value}, then {last}", compare.metric));
            }
        }
    }
    wrong
}

#[test]
fn values_are_those_of_the_calls() {
    let bed = Bed::new();
    bed.declare();
    bed.open_gate();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let traffic = scope.spawn(|| bed.runtime.block_on(Bed::traffic(bed.channel.clone(), &stop)));
        for round in 0..3 {
            let (before, page, after) = (bed.told(), bed.scrape(), bed.told());
            let wrong = differences(&before, &page, &after, false);
            if !wrong.is_empty() {
                stop.store(true, Relaxed);
                panic!("round {round}, with traffic:\n{}", wrong.join("\n"));
            }
        }
        stop.store(true, Relaxed);
        traffic.join().expect("no panic");
    });
    bed.stop_time();
    // What ages of itself, such as megaflows, may still change: then once more.
    let begun = Instant::now();
    let page = loop {
        let (before, page, after) = (bed.told(), bed.scrape(), bed.told());
        let wrong = differences(&before, &page, &after, true);
        if wrong.is_empty() {
            break page;
        }
        assert!(begun.elapsed() < LIMIT, "without traffic:\n{}", wrong.join("\n"));
    };
    // Each metric is compared, and has a value.
    let declared: BTreeSet<&str> =
        vswitch_api::metrics::declared(&Compat::ALL).into_iter().map(|(name, _)| name).collect();
    let compared: BTreeSet<&str> = compared().map(|compare| compare.metric).collect();
    assert_eq!(declared, compared, "metrics that are declared, and those that are compared");
    let absent: Vec<&str> = declared.into_iter().filter(|name| page.of(name).is_empty()).collect();
    assert_eq!(absent, NOT_HERE.map(|(name, _)| name), "metrics without a value");
    let drops = page.of("vswitch_port_rx_drops_total");
    assert!(drops.keys().any(|labels| labels.contains(&"rule_drop".to_owned())), "{drops:?}");
    let rules = page.of("vswitch_antrea_rule_packets_total");
    assert!(rules.values().any(|packets| *packets > 0.0), "{rules:?} {drops:?}");
}

#[test]
fn probes_say_whether_it_lives_and_is_ready() {
    let bed = Bed::new();
    let status = |path: &str| get(&bed.page(), path).lines().next().map(str::to_owned).unwrap_or_default();
    assert_eq!([status("/livez"), status("/readyz")], ["HTTP/1.1 200 OK"; 2], "no Node");
    bed.declare();
    assert_eq!(status("/livez"), "HTTP/1.1 200 OK");
    let shut = get(&bed.page(), "/readyz");
    assert!(shut.starts_with("HTTP/1.1 503 ") && shut.contains("the gate is shut: no agent has synced"), "{shut}");
    bed.open_gate();
    assert_eq!(status("/readyz"), "HTTP/1.1 200 OK");
    assert_eq!(status("/nothing"), "HTTP/1.1 404 Not Found");
    let head = request(&bed.page(), "HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
    let post = request(&bed.page(), "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    assert!(post.starts_with("HTTP/1.1 405 Method Not Allowed") && post.contains("allow: GET, HEAD"), "{post}");
    let body = request(&bed.page(), "GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    assert!(body.starts_with("HTTP/1.1 413 "), "{body}");
    let open =
        "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n\r\n";
    let open = request(&bed.page(), open);
    assert!(open.contains("content-type: application/openmetrics-text; version=1.0.0"), "{open}");
    assert!(open.ends_with("# EOF\n") && open.contains("# TYPE vswitch_port_rx_packets counter\n"), "{open}");
}

#[test]
fn clients_that_say_nothing_are_cut_off() {
    let bed = Bed::new();
    // More than there are places: those that wait get theirs when the first ones are cut off.
    let idle: Vec<_> = (0..6).map(|_| std::os::unix::net::UnixStream::connect(bed.page()).expect("a place")).collect();
    assert!(get(&bed.page(), "/livez").starts_with("HTTP/1.1 200 OK"));
    drop(idle);
}

#[test]
fn a_taken_address_is_a_clear_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let mut switch = Switch::start_unready(&format!("[observe]\nmetrics = \"{address}\"\n"));
    wait_for("it ends", LIMIT, || switch.exited().is_some());
    let log = switch.log();
    assert!(log.contains(&format!("[observe] metrics: cannot listen on {address}")), "{log}");
    assert_eq!(switch.exited().and_then(|status| status.code()), Some(78), "{log}");
}
