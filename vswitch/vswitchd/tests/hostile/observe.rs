//! What `vsctl observe` tells of a Node: default deny and an explicit rule of a policy, both
//! families, the remote Pod by the agent's name; connections with their Service; what is kept after
//! the fact; and one that reads nothing.

use crate::bed::{BRIDGE, Bed};
use crate::node::mac;
use crate::segment::{ACK, SYN, Segment};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tonic::Streaming;
use tonic::transport::Endpoint;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::name_service_client::NameServiceClient;
use vswitch_proto::antrea::v1::node_service_client::NodeServiceClient;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::observe_service_client::ObserveServiceClient;
use vswitch_proto::antrea::v1::sync_service_client::SyncServiceClient;
use vswitch_proto::antrea::v1::watch_observations_response::Update;

/// Any wait of this test: a hang, not a delay, is what fails it.
const LIMIT: Duration = Duration::from_secs(60);

/// Addresses of a family: of the Pod web of this Node, of the remote Pod, of a remote Pod that a
/// rule denies, of the Service.
struct Family {
    web: &'static str,
    remote: &'static str,
    denied: &'static str,
    service: &'static str,
}

const FAMILIES: [Family; 2] = [
    Family { web: "10.10.0.24", remote: "10.20.0.7", denied: "10.30.0.9", service: "10.96.0.10" },
    Family { web: "fd00:10::18", remote: "fd00:20::7", denied: "fd00:30::9", service: "fd00:96::a" },
];

const GATEWAY: [u8; 6] = [2, 0, 0, 0, 0, 1];
const WEB: [u8; 6] = [2, 0, 0, 0, 0, 24];

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn initialize(bed: &Bed) {
    let gateway = v1::Gateway { port: "p1".to_owned(), mac: mac(1), addresses: texts(&["10.10.0.1", "fd00:10::1"]) };
    let node = v1::NodeConfig {
        name: "worker-1".to_owned(),
        bridge: BRIDGE.to_owned(),
        families: v1::Families::Dual.into(),
        transport_addresses: texts(&["192.168.77.102/24", "fd00:77::102/64"]),
        pod_cidrs: texts(&["10.10.0.0/24", "fd00:10::/64"]),
        service_cidrs: texts(&["10.96.0.0/16", "fd00:96::/112"]),
        traffic_mode: v1::TrafficMode::NoEncap.into(),
        gateway: Some(gateway),
        ..v1::NodeConfig::default()
    };
    let request = v1::InitializeRequest { node: Some(node), round: 0 };
    bed.wait(NodeServiceClient::new(bed.channel()).initialize(request)).expect("a Node");
}

fn rule(id: &str, action: v1::RuleAction, direction: v1::Direction, blocks: &[&str]) -> v1::Rule {
    let block = |cidr: &&str| v1::IpBlock { cidr: (*cidr).to_owned(), except_cidrs: Vec::new() };
    v1::Rule {
        id: id.to_owned(),
        direction: direction.into(),
        action: action.into(),
        peer: Some(v1::RulePeer { blocks: blocks.iter().map(block).collect(), ..v1::RulePeer::default() }),
        ..v1::Rule::default()
    }
}

/// The Pod web behind a Service; a K8s policy isolates it, but for the remote Pod's connections to
/// it; a cluster policy drops those of others.
fn objects() -> Vec<v1::Object> {
    let web = v1::Pod {
        name: "shop/web-1".to_owned(),
        port: "p2".to_owned(),
        addresses: texts(&[FAMILIES[0].web, FAMILIES[1].web]),
        mac: mac(24),
        ..v1::Pod::default()
    };
    let group = v1::AppliedToGroup { name: "web".to_owned(), pods: texts(&["shop/web-1"]), services: Vec::new() };
    let isolates = v1::NetworkPolicy {
        name: "np:shop/isolate".to_owned(),
        kind: v1::PolicyKind::K8s.into(),
        applied_to: texts(&["web"]),
        isolates_ingress: true,
        isolates_egress: true,
        rules: vec![rule("from-db", v1::RuleAction::Allow, v1::Direction::Ingress, &["10.20.0.0/16", "fd00:20::/32"])],
        ..v1::NetworkPolicy::default()
    };
    let denies = v1::NetworkPolicy {
        name: "acnp:strict".to_owned(),
        kind: v1::PolicyKind::AntreaCluster.into(),
        tier: 250,
        priority: 5.0,
        applied_to: texts(&["web"]),
        rules: vec![rule("no-others", v1::RuleAction::Drop, v1::Direction::Ingress, &["10.30.0.0/16", "fd00:30::/32"])],
        ..v1::NetworkPolicy::default()
    };
    let port = v1::ServicePort {
        name: "http".to_owned(),
        protocol: v1::Protocol::Tcp.into(),
        port: 80,
        ..v1::ServicePort::default()
    };
    let service = v1::Service {
        name: "shop/web".to_owned(),
        ports: vec![port],
        cluster_ips: texts(&[FAMILIES[0].service, FAMILIES[1].service]),
        ..v1::Service::default()
    };
    let endpoint = |address: &str| v1::Endpoint {
        address: address.to_owned(),
        port: 8080,
        node: "worker-1".to_owned(),
        ready: true,
        serving: true,
        ..v1::Endpoint::default()
    };
    let endpoints = v1::Endpoints {
        service: "shop/web".to_owned(),
        port: "http".to_owned(),
        endpoints: FAMILIES.iter().map(|family| endpoint(family.web)).collect(),
    };
    let objects = [
        Object::Pod(web),
        Object::AppliedToGroup(group),
        Object::NetworkPolicy(isolates),
        Object::NetworkPolicy(denies),
        Object::Service(service),
        Object::Endpoints(endpoints),
    ];
    objects.into_iter().map(|object| v1::Object { object: Some(object) }).collect()
}

/// A switch with the Node, its objects, and the agent's names.
fn bed() -> Bed {
    bed_with("")
}

/// Likewise, with more sections of its configuration.
fn bed_with(sections: &str) -> Bed {
    let bed = Bed::with(2, "", sections);
    initialize(&bed);
    let objects = objects();
    let commit = Some(v1::SyncCommit { objects: objects.len() as u64 });
    let begin = Some(v1::SyncBegin { round: 1, ..Default::default() });
    let messages =
        [v1::SyncRequest { begin, ..Default::default() }, v1::SyncRequest { objects, commit, ..Default::default() }];
    let synced = bed.wait(SyncServiceClient::new(bed.channel()).sync(tokio_stream::iter(messages))).expect("a sync");
    let synced = synced.into_inner();
    let statuses = synced.result.map(|result| result.statuses).unwrap_or_default();
    assert!(synced.gate_open && statuses.is_empty(), "{statuses:#?}");
    let name = |address: &str, pod: &str| v1::Name {
        address: address.to_owned(),
        namespace: "data".to_owned(),
        pod: pod.to_owned(),
        node: "worker-2".to_owned(),
        labels: [("app".to_owned(), "db".to_owned())].into(),
        ..v1::Name::default()
    };
    let names = FAMILIES.iter().flat_map(|one| [name(one.remote, "db-0"), name(one.denied, "other-0")]).collect();
    let request = v1::ApplyNamesRequest { names, round: 1, complete: true };
    let applied = bed.wait(NameServiceClient::new(bed.channel()).apply_names(request)).expect("an answer").into_inner();
    assert_eq!((applied.kept, applied.problems.len()), (4, 0));
    bed
}

fn segment(from: (&str, [u8; 6], u16), to: (&str, [u8; 6], u16), flags: u8) -> Segment {
    let address = |text: &str| -> IpAddr { text.parse().expect("an address") };
    Segment {
        to: to.1,
        from: from.1,
        vlan: None,
        source: address(from.0),
        destination: address(to.0),
        ttl: 64,
        source_port: from.2,
        destination_port: to.2,
        sequence: 1,
        acknowledged: 0,
        flags,
        // Longer than a sample: its policy is named all the same.
        payload: vec![7; 300],
    }
}

/// `vsctl observe` that runs beside the test: of what is kept, and what comes.
struct Observer {
    child: Child,
    lines: Receiver<String>,
}

impl Observer {
    fn new(bed: &Bed, options: &[&str]) -> Self {
        let mut child = bed.switch.vsctl_spawn(&[&["observe", "-f", "--all", "-o", "json"], options].concat());
        let told = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        // It ends with the program that it reads from.
        std::thread::spawn(move || told.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// The next flow. The clock goes on meanwhile: records and logs wait for others like them.
    fn flow(&self, bed: &Bed) -> Value {
        let begin = Instant::now();
        loop {
            match self.lines.recv_timeout(Duration::from_millis(200)) {
                Ok(line) => {
                    let mut told: Value =
                        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
                    if !told["flow"].is_null() {
                        return told["flow"].take();
                    }
                }
                Err(RecvTimeoutError::Timeout) => bed.warp(20),
                Err(RecvTimeoutError::Disconnected) => panic!("vsctl has ended"),
            }
            assert!(begin.elapsed() < LIMIT, "no flow within {LIMIT:?}");
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

/// A stream of all that comes.
fn follow(bed: &Bed) -> Streaming<v1::WatchObservationsResponse> {
    let watch = v1::WatchObservationsRequest { follow: true, ..v1::WatchObservationsRequest::default() };
    // Little is on its way to one that does not read.
    let socket = Endpoint::from_shared(format!("unix://{}", bed.switch.socket().display())).expect("an address");
    let socket = socket.initial_stream_window_size(1 << 16);
    bed.wait(async {
        let mut service = ObserveServiceClient::new(socket.connect().await.expect("vswitchd listens"));
        service.watch_observations(watch).await.expect("a stream").into_inner()
    })
}

fn pods(flow: &Value) -> (String, String) {
    let pod = |end: &str| {
        let text = |key: &str| flow[end][key].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", text("namespace"), text("pod_name"))
    };
    (pod("source"), pod("destination"))
}

#[test]
fn drops_name_the_policy_and_the_remote_pod() {
    let mut bed = bed();
    let observer = Observer::new(&bed, &["--verdict", "dropped", "--pod", "shop/web-1"]);
    for (family, version) in FAMILIES.iter().zip(["IPv4", "IPv6"]) {
        // Default deny: the K8s policy lets web speak to no one.
        let out = segment((family.web, WEB, 41234), (family.remote, GATEWAY, 5432), SYN);
        assert!(bed.send("p2", &out.bytes()).is_empty(), "{version}");
        let sent = Instant::now();
        let flow = observer.flow(&bed);
        let took = sent.elapsed();
        assert_eq!(pods(&flow), ("shop/web-1".to_owned(), "data/db-0".to_owned()), "{flow:#}");
        assert_eq!((&flow["verdict"], &flow["drop_reason_desc"]), (&"DROPPED".into(), &"POLICY_DENIED".into()));
        let denied = &flow["egress_denied_by"][0];
        assert_eq!((&denied["name"], &denied["namespace"]), (&"isolate".into(), &"shop".into()), "{flow:#}");
        assert_eq!((&denied["kind"], &denied["default_deny"]), (&"NetworkPolicy".into(), &true.into()));
        assert_eq!((&flow["IP"]["ipVersion"], &flow["traffic_direction"]), (&version.into(), &"EGRESS".into()));
        assert_eq!(flow["l4"]["TCP"]["flags"]["SYN"], true);
        assert_eq!(flow["destination"]["labels"][0], "k8s:app=db");
        println!("{version}: told after {took:?}");

        // An explicit rule of a cluster policy.
        let into = segment((family.denied, GATEWAY, 1000), (family.web, WEB, 8080), SYN);
        assert!(bed.send("p1", &into.bytes()).is_empty(), "{version}");
        let flow = observer.flow(&bed);
        assert_eq!(pods(&flow), ("data/other-0".to_owned(), "shop/web-1".to_owned()), "{flow:#}");
        let denied = &flow["ingress_denied_by"][0];
        assert_eq!((&denied["name"], &denied["rule"]), (&"strict".into(), &"no-others".into()), "{flow:#}");
        assert_eq!((&denied["kind"], &denied["default_deny"]), (&"AntreaClusterNetworkPolicy".into(), &Value::Null));
        assert_eq!((&flow["drop_reason_desc"], &flow["node_name"]), (&"POLICY_DENY".into(), &"worker-1".into()));
    }
    drop(observer);

    // After the fact, as text.
    let last = bed.switch.vsctl_ok(&["observe", "--last", "1", "--policy", "shop/isolate"]);
    let want = "shop/web-1:41234 -> data/db-0:5432 policy-denied DROPPED (TCP SYN) egress denied by NetworkPolicy \
                shop/isolate (default deny)";
    assert!(last.trim_end().ends_with(want) && last.lines().count() == 1, "{last}");
    let of_six = bed.switch.vsctl_ok(&["observe", "--all", "-6"]);
    assert!(
        of_six.lines().count() == 2 && of_six.contains("AntreaClusterNetworkPolicy strict rule no-others"),
        "{of_six}"
    );
    let not = bed.switch.vsctl_ok(&["observe", "--since", "1h", "--not", "--from-namespace", "data", "-4"]);
    assert!(not.lines().count() == 1 && not.contains("-> data/db-0:5432"), "{not}");
    let names = bed.switch.vsctl_ok(&["names", "--pod", "data/db-0"]);
    assert!(names.lines().count() == 3 && names.contains("fd00:20::7  data/db-0  worker-2"), "{names}");
    bed.settle();
}

#[test]
fn connections_are_told_with_service_and_both_pods() {
    let mut bed = bed();
    // Connections are observed when its stream has begun.
    let _follows = follow(&bed);
    let observer = Observer::new(&bed, &["--type", "trace"]);
    for (family, port) in FAMILIES.iter().zip([2001_u16, 2002]) {
        let first = segment((family.remote, GATEWAY, port), (family.service, GATEWAY, 80), SYN);
        let sent = bed.send("p1", &first.bytes());
        assert_eq!(sent.iter().map(|(port, _)| port.as_str()).collect::<Vec<_>>(), ["p2"], "{}", family.service);
        let flow = observer.flow(&bed);
        assert_eq!((&flow["verdict"], &flow["vswitch"]["kind"]), (&"FORWARDED".into(), &"begin".into()));
        assert_eq!(pods(&flow), ("data/db-0".to_owned(), "shop/web-1".to_owned()), "{flow:#}");
        assert_eq!(flow["destination_service"], serde_json::json!({ "name": "web", "namespace": "shop" }));
        assert_eq!(flow["l4"]["TCP"]["destination_port"], 8080);
        assert_eq!(flow["ingress_allowed_by"][0]["name"], "isolate", "{flow:#}");
    }
    bed.switch.vsctl_ok(&["flush-conntrack"]);
    for _ in FAMILIES {
        let flow = observer.flow(&bed);
        assert_eq!(flow["vswitch"]["kind"], "end", "{flow:#}");
        assert_eq!(flow["destination_service"]["name"], "web");
    }
    bed.settle();
}

#[test]
fn one_that_reads_nothing_holds_up_no_other_and_is_told_what_it_lost() {
    let mut bed = bed_with("[observe]\nring = 1\n");
    let mut slow = follow(&bed);
    let fast = Observer::new(&bed, &["--type", "begin", "--first", "1", "--from-port", "65000"]);
    let family = &FAMILIES[0];
    let connect = |bed: &mut Bed, port: u16| {
        let mut first = segment((family.remote, GATEWAY, port), (family.web, WEB, 8080), SYN);
        first.payload.clear();
        bed.send("p1", &first.bytes());
        bed.send("p1", &Segment { flags: ACK, ..first }.bytes());
    };
    // More than the ring has, and what lies on its way to a client.
    for round in 0..5_u16 {
        (0..2000).for_each(|at| connect(&mut bed, 1000 + 2000 * round + at));
        bed.warp(50);
        bed.switch.vsctl_ok(&["flush-conntrack"]);
        bed.warp(50);
    }
    connect(&mut bed, 65000);
    bed.warp(50);
    assert_eq!(fast.flow(&bed)["l4"]["TCP"]["source_port"], 65000);
    let mut told = 0;
    let lost = loop {
        let message = bed.wait(async { tokio::time::timeout(LIMIT, slow.message()).await });
        match message.expect("an update in time").expect("no error").and_then(|message| message.update) {
            Some(Update::Observation(_)) => told += 1,
            Some(Update::Lost(lost)) if lost.behind + lost.unread > 0 => break lost,
            Some(_) => {}
            None => panic!("the stream has ended after {told}"),
        }
    };
    println!("{told} were told, {lost:?}");
    bed.settle();
}
