//! Observations and names, from drops, packet-ins and connections that the tests hand in.

use super::super::observing;
use super::drops::{packet, policies};
use super::telling::{denied, isolation, near, web};
use super::{Running, node, object, pod, round, soon};
use std::sync::Arc;
use tonic::transport::Endpoint;
use tonic::{Code, Streaming};
use vswitch_antrea::Table;
use vswitch_control::config::ObserveConfig;
use vswitch_dataplane::limits::OBSERVE_WATCHERS_MAX;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::name_service_client::NameServiceClient;
use vswitch_proto::antrea::v1::observe_service_client::ObserveServiceClient;
use vswitch_proto::antrea::v1::watch_observations_response::Update;
use vswitch_proto::antrea::v1::{
    EndFilter, Name, Observation, ObservationFilter, ObservationKind, ObservationVerdict, WatchObservationsRequest,
};
use vswitch_testkit::double::{Double, connect};

type Stream = Streaming<v1::WatchObservationsResponse>;

fn follow() -> WatchObservationsRequest {
    WatchObservationsRequest { follow: true, ..WatchObservationsRequest::default() }
}

fn remote(address: &str) -> Name {
    Name {
        address: address.to_owned(),
        namespace: "data".to_owned(),
        pod: "db-0".to_owned(),
        labels: [("app".to_owned(), "db".to_owned())].into(),
        ..Name::default()
    }
}

impl Running {
    /// Keeps observations.
    async fn that_observes() -> Self {
        let switch = Arc::new(Double::default());
        let running = observing(&switch, ObserveConfig::default());
        Self::with(switch, None, running).await.and_node().await
    }

    async fn observe(&self, request: WatchObservationsRequest) -> (v1::ObservationsStarted, Stream) {
        let mut client = ObserveServiceClient::new(self.channel.clone());
        let mut stream = client.watch_observations(request).await.expect("a stream").into_inner();
        match update(&mut stream).await {
            Some(Update::Started(started)) => (started, stream),
            other => panic!("{other:?} came first"),
        }
    }

    async fn apply_names(&self, names: Vec<Name>, round: u64, complete: bool) -> v1::ApplyNamesResponse {
        let mut client = NameServiceClient::new(self.channel.clone());
        let request = v1::ApplyNamesRequest { names, round, complete };
        client.apply_names(request).await.expect("an answer").into_inner()
    }

    async fn listed(&self, pod: &str) -> Vec<String> {
        let mut client = NameServiceClient::new(self.channel.clone());
        let request = v1::ListNamesRequest { pod: pod.to_owned() };
        let mut parts = client.list_names(request).await.expect("a list").into_inner();
        let mut names = Vec::new();
        while let Some(part) = soon("a part", parts.message()).await.expect("a part") {
            names.extend(part.names.into_iter().map(|name| name.address));
        }
        names
    }

    /// Those that are kept, as soon as there are so many.
    async fn kept(&self, count: usize, request: WatchObservationsRequest) -> Vec<Observation> {
        soon("they are kept", async {
            loop {
                let (_, mut stream) = self.observe(request.clone()).await;
                let mut kept = Vec::new();
                while let Some(told) = update(&mut stream).await {
                    kept.extend(match told {
                        Update::Observation(observation) => Some(observation),
                        _ => None,
                    });
                }
                if kept.len() >= count {
                    return kept;
                }
            }
        })
        .await
    }
}

/// The next message; None: the end.
async fn update(stream: &mut Stream) -> Option<Update> {
    let message = soon("a message", stream.message()).await.expect("no error")?;
    Some(message.update.expect("an update"))
}

/// The next observation.
async fn observed(stream: &mut Stream) -> Observation {
    loop {
        if let Update::Observation(observation) = update(stream).await.expect("no end") {
            return observation;
        }
    }
}

fn pods(observation: &Observation) -> (&str, &str) {
    (
        observation.source.as_ref().map_or("", |name| name.pod.as_str()),
        observation.destination.as_ref().map_or("", |name| name.pod.as_str()),
    )
}

#[tokio::test]
async fn drops_by_policies_are_told_and_kept_with_both_ends() {
    let running = Running::that_observes().await;
    running.initialize(node()).await.expect("a Node");
    let mut objects = vec![object(pod("web", 24)), object(pod("db", 25))];
    objects.extend(policies(&["only"]));
    running.sync(round(5), objects).await.expect("a sync");
    assert_eq!(running.apply_names(vec![remote("10.20.0.1")], 1, true).await.kept, 1);
    let dropped = ObservationFilter {
        verdicts: vec![ObservationVerdict::Dropped.into()],
        either: Some(EndFilter { pods: vec!["default/web".to_owned()], ..EndFilter::default() }),
        ..ObservationFilter::default()
    };
    let (started, mut stream) = running.observe(WatchObservationsRequest { allow: vec![dropped], ..follow() }).await;
    assert_eq!((started.ring, started.has_node, started.node.as_str()), (4096, true, "worker-2"));

    let isolates = running.denials(Table::EgressDefaultRule).remove(0);
    running.drop_by(&isolates, &packet(false));
    let told = observed(&mut stream).await;
    assert_eq!((pods(&told), told.kind()), (("web", "db-0"), ObservationKind::Drop));
    let policy = &told.egress_denied_by[0];
    assert_eq!((policy.name.as_str(), policy.namespace.as_str(), policy.default_deny), ("only", "default", true));
    assert_eq!(told.destination.as_ref().map(|name| name.labels["app"].as_str()), Some("db"));
    for flow in running.denials(Table::IngressMetric) {
        running.drop_by(&flow, &packet(true));
    }
    let told = loop {
        let told = observed(&mut stream).await;
        if told.ingress_denied_by.iter().any(|policy| !policy.rule.is_empty()) {
            break told;
        }
    };
    let policy = &told.ingress_denied_by[0];
    assert_eq!((policy.name.as_str(), policy.rule.as_str(), policy.default_deny), ("quarantine", "deny-ten", false));
    assert_eq!(pods(&told), ("db-0", "web"));
    drop(stream);

    // After the fact.
    let last = running.kept(1, WatchObservationsRequest { last: 1, ..WatchObservationsRequest::default() }).await;
    assert_eq!(last.len(), 1);
    let all = WatchObservationsRequest { since_unix_ms: 1, ..WatchObservationsRequest::default() };
    let all = running.kept(2, all).await;
    assert!(all.len() >= 2 && all.is_sorted_by_key(|one| one.number), "{all:?}");
    let none = WatchObservationsRequest { since_unix_ms: u64::MAX, ..WatchObservationsRequest::default() };
    assert_eq!(running.kept(0, none).await, []);
    running.stop().await;
}

#[tokio::test]
async fn logs_and_connections_are_told_to_those_who_follow() {
    let running = Running::that_observes().await;
    let (started, mut early) = running.observe(follow()).await;
    assert!(!started.has_node);
    running.initialize(near()).await.expect("a Node");
    let mut objects = vec![web()];
    objects.extend(isolation());
    running.sync(round(1), objects).await.expect("a sync");
    running.apply_names(vec![remote("10.0.0.2")], 1, true).await;
    // One who follows from now on: connections are observed when it has begun.
    let (started, mut stream) = running.observe(follow()).await;
    assert!(started.has_node);
    connect(&running.switch.conntrack, 65520, 2, 3);
    running.distribute();
    for stream in [&mut stream, &mut early] {
        let told = observed(stream).await;
        assert_eq!((told.kind(), told.verdict()), (ObservationKind::Begin, ObservationVerdict::Forwarded));
        assert_eq!((pods(&told), told.direction()), (("web", "db-0"), v1::Direction::Egress));
    }
    let mut logged = packet(false);
    logged[26..30].copy_from_slice(&[10, 0, 0, 1]);
    running.hand_in(62373, &denied(), &logged);
    let told = observed(&mut stream).await;
    assert_eq!((told.kind(), told.egress_denied_by.len()), (ObservationKind::Policy, 1), "{told:?}");
    assert_eq!((pods(&told).0, told.egress_denied_by[0].default_deny), ("web", true));
    let mut client = v1::node_service_client::NodeServiceClient::new(running.channel.clone());
    client.reset(v1::ResetRequest { round: 0 }).await.expect("a reset");
    running.initialize(near()).await.expect("a Node again");
    running.sync(round(2), vec![web()]).await.expect("a sync");
    connect(&running.switch.conntrack, 65520, 3, 3);
    running.distribute();
    loop {
        let told = observed(&mut stream).await;
        if told.kind() == ObservationKind::Begin {
            assert_eq!(told.tuple.map(|tuple| tuple.src_port), Some(3));
            break;
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn one_that_reads_nothing_loses_and_holds_up_no_other() {
    let running = Running::with_node().await;
    running.initialize(near()).await.expect("a Node");
    // By a connection of its own with a small window: streams of one connection share it.
    let endpoint = Endpoint::from_shared(format!("unix://{}", running.path.display())).expect("an address");
    let endpoint = endpoint.initial_stream_window_size(65_535).initial_connection_window_size(65_535);
    let mut own = ObserveServiceClient::new(endpoint.connect().await.expect("a connection"));
    let mut slow = own.watch_observations(follow()).await.expect("a stream").into_inner();
    let (_, mut fast) = running.observe(follow()).await;
    let mut last = 0;
    // More than the windows of a stream and the ring take. Few at a time, so that their events fit.
    for from in (1..=60).map(|batch: u16| batch * 200) {
        (from..from + 200).for_each(|port| connect(&running.switch.conntrack, 65520, port, 3));
        running.distribute();
        // The one that reads is told of these while the other one reads nothing.
        loop {
            let told = observed(&mut fast).await;
            last = told.number;
            if told.tuple.is_some_and(|tuple| tuple.src_port >= u32::from(from)) {
                break;
            }
        }
        // Not before: one that ends at once is not told.
        let tracker = running.switch.conntrack.tracker();
        tracker.flush(&vswitch_conntrack::Filter::default(), vswitch_dataplane::time::Millis::now().0);
        running.distribute();
    }
    assert!(last > 2000, "{last}");
    let (mut items, mut lost) = (0, v1::ObservationsLost::default());
    while lost.behind == 0 {
        match update(&mut slow).await.expect("no end") {
            Update::Observation(_) => items += 1,
            Update::Lost(now) => lost = now,
            Update::Started(_) => {}
        }
    }
    assert!(items > 0 && lost.behind > 0, "{items} {lost:?}");
    running.stop().await;
}

#[tokio::test]
async fn names_come_and_go() {
    let running = Running::with_node().await;
    let names = vec![remote("10.20.0.2"), remote("10.20.0"), remote("fd00::2")];
    let applied = running.apply_names(names, 1, false).await;
    assert_eq!((applied.kept, applied.problems.len(), applied.problems[0].index), (2, 1, 1));
    assert_eq!(running.listed("").await, ["10.20.0.2", "fd00::2"]);
    assert_eq!(running.listed("data/db-0").await, ["10.20.0.2", "fd00::2"]);
    assert!(running.listed("data/db-1").await.is_empty());
    assert_eq!(running.apply_names(vec![remote("10.20.0.3")], 2, true).await.kept, 1);
    let mut client = NameServiceClient::new(running.channel.clone());
    let wrong = v1::DeleteNamesRequest { addresses: vec!["10.20.0.3".to_owned(), "x".to_owned()] };
    let status = client.delete_names(wrong).await.expect_err("no address");
    assert!(status.code() == Code::InvalidArgument && status.message().starts_with("addresses[1]: "), "{status}");
    let request = v1::DeleteNamesRequest { addresses: vec!["10.20.0.3".to_owned()] };
    client.delete_names(request).await.expect("it goes");
    assert!(running.listed("").await.is_empty());
    let many = v1::ApplyNamesRequest { names: vec![Name::default(); 8193], ..v1::ApplyNamesRequest::default() };
    assert_eq!(client.apply_names(many).await.expect_err("too many").code(), Code::InvalidArgument);
    let status = client.list_names(v1::ListNamesRequest { pod: "db-0".to_owned() }).await.expect_err("no namespace");
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    running.stop().await;
}

#[tokio::test]
async fn what_cannot_be_observed_is_refused() {
    let running = Running::with_node().await;
    let mut client = ObserveServiceClient::new(running.channel.clone());
    let wrong = ObservationFilter {
        drop_reasons: vec!["tx_ful".to_owned()],
        destination: Some(EndFilter { addresses: vec!["10.0.0.0/99".to_owned()], ..EndFilter::default() }),
        ..ObservationFilter::default()
    };
    let request = WatchObservationsRequest { allow: vec![ObservationFilter::default(), wrong], ..follow() };
    let status = client.watch_observations(request).await.expect_err("wrong");
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    for field in ["allow[1].drop_reasons[0]: ", "allow[1].destination.addresses[0]: "] {
        assert!(status.message().contains(field), "{field}: {status}");
    }
    // Nothing is kept, and a stream that does not follow ends.
    let (started, mut stream) = running.observe(WatchObservationsRequest { last: 5, ..Default::default() }).await;
    assert_eq!((started.ring, started.has_node, update(&mut stream).await), (0, false, None));
    let mut following = Vec::new();
    for _ in 0..OBSERVE_WATCHERS_MAX {
        following.push(running.observe(follow()).await.1);
    }
    let status = client.watch_observations(follow()).await.expect_err("too many");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    following.pop();
    soon("a place is free", async { while client.watch_observations(follow()).await.is_err() {} }).await;
    running.stop().await;
}
