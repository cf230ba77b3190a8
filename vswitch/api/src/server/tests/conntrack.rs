//! `ConntrackService` from outside, with a real tracker behind it.

use super::{Running, soon};
use tonic::transport::Channel;
use tonic::{Code, Streaming};
use vswitch_proto::v1;
use vswitch_proto::v1::conntrack_service_client::ConntrackServiceClient;
use vswitch_proto::v1::watch_connections_response::Update;
use vswitch_testkit::double::connect;

fn client(running: &Running) -> ConntrackServiceClient<Channel> {
    ConntrackServiceClient::new(running.channel.clone())
}

fn of_zone(zone: u32) -> Option<v1::ConnectionFilter> {
    Some(v1::ConnectionFilter { zone: Some(zone), ..Default::default() })
}

/// Source ports of the connections that a filter means.
async fn ports(running: &Running, filter: Option<v1::ConnectionFilter>) -> Vec<u32> {
    let request = v1::ListConnectionsRequest { filter };
    let mut parts = client(running).list_connections(request).await.expect("a dump").into_inner();
    let mut ports = Vec::new();
    while let Some(part) = soon("a part", parts.message()).await.expect("a part") {
        ports.extend(part.connections.iter().filter_map(|one| one.original.as_ref()).map(|tuple| tuple.src_port));
    }
    ports.sort_unstable();
    ports
}

#[tokio::test]
async fn connections_are_listed_counted_and_flushed_by_filter() {
    let running = Running::start_with(|switch| {
        (1..=600).for_each(|port| connect(&switch.conntrack, 1, port, 0));
        (601..=603).for_each(|port| connect(&switch.conntrack, 2, port, 0x10));
    })
    .await;
    assert_eq!(ports(&running, None).await, (1..=603).collect::<Vec<_>>());
    assert_eq!(ports(&running, of_zone(2)).await, [601, 602, 603]);
    assert_eq!(ports(&running, of_zone(3)).await, [0_u32; 0]);
    let one = v1::ConnectionFilter {
        protocol: Some(17),
        src: vec![10, 0, 0, 1],
        src_port: Some(7),
        mark: Some(0),
        ..Default::default()
    };
    assert_eq!(ports(&running, Some(one)).await, [7]);

    let request = v1::GetConntrackStatsRequest { protocols: true, zone: Some(2) };
    let stats = client(&running).get_conntrack_stats(request).await.expect("numbers").into_inner();
    let udp = v1::ProtocolCount { protocol: 17, connections: 3, tcp_states: Vec::new() };
    assert_eq!((stats.connections, stats.created, stats.protocols), (603, 603, vec![udp]));
    assert!(stats.connections_max >= 603 && stats.memory > 0, "{} {}", stats.connections_max, stats.memory);

    let marked = v1::ConnectionFilter { mark: Some(0x10), mark_mask: Some(0xf0), ..Default::default() };
    for (filter, want) in [(Some(marked), 3), (of_zone(2), 0), (None, 600)] {
        let request = v1::FlushConnectionsRequest { filter: filter.clone() };
        let answer = client(&running).flush_connections(request).await.expect("flushed").into_inner();
        assert_eq!(answer.flushed, want, "{filter:?}");
    }
    assert_eq!(ports(&running, None).await, [0_u32; 0]);
    let wrong = v1::FlushConnectionsRequest { filter: of_zone(1 << 16) };
    let status = client(&running).flush_connections(wrong).await.expect_err("no such zone");
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "zone: 65536 is out of range; use 0 to 65535")
    );
    running.stop().await;
}

#[tokio::test]
async fn limits_are_set_shown_and_taken_away() {
    let running = Running::start_with(|switch| connect(&switch.conntrack, 9, 1, 0)).await;
    let zone = |zone, limit, count| v1::ZoneLimit { zone, limit, count };
    let set = v1::SetConntrackLimitsRequest {
        default_limit: Some(100),
        zones: vec![zone(1, Some(5), 0), zone(3, Some(0), 0)],
    };
    client(&running).set_conntrack_limits(set).await.expect("set");
    let get = |zones: &[u32]| v1::GetConntrackLimitsRequest { zones: zones.to_vec() };
    let all = client(&running).get_conntrack_limits(get(&[])).await.expect("limits").into_inner();
    assert_eq!(all.zones, [zone(1, Some(5), 0), zone(3, Some(0), 0), zone(9, None, 1)]);
    assert_eq!(all.default_limit, Some(100));
    let some = client(&running).get_conntrack_limits(get(&[77, 9, 1])).await.expect("limits").into_inner();
    assert_eq!(some.zones, [zone(77, None, 0), zone(9, None, 1), zone(1, Some(5), 0)]);
    let delete = v1::DeleteConntrackLimitsRequest { default_limit: true, zones: vec![1, 77] };
    client(&running).delete_conntrack_limits(delete).await.expect("deleted");
    let left = client(&running).get_conntrack_limits(get(&[])).await.expect("limits").into_inner();
    assert_eq!((left.default_limit, left.zones), (None, vec![zone(3, Some(0), 0), zone(9, None, 1)]));
    for (request, want) in [
        (
            v1::SetConntrackLimitsRequest::default(),
            "zones: nothing is to be set; give default_limit, or zones with their limits",
        ),
        (
            v1::SetConntrackLimitsRequest { default_limit: None, zones: vec![zone(1, None, 0)] },
            "zones: a zone has no limit; give one, or delete it (DeleteConntrackLimits)",
        ),
    ] {
        let status = client(&running).set_conntrack_limits(request).await.expect_err(want);
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, want));
    }
    running.stop().await;
}

#[tokio::test]
async fn options_of_zones_are_set_and_shown() {
    let running = Running::start().await;
    let options = |zone, on| v1::ZoneOptions { zone, established_after_answer: on };
    let set = |zones: &[v1::ZoneOptions]| v1::SetZoneOptionsRequest { zones: zones.to_vec() };
    let get = |zones: &[u32]| v1::GetZoneOptionsRequest { zones: zones.to_vec() };
    let all = client(&running).get_zone_options(get(&[])).await.expect("options").into_inner();
    assert_eq!(all.zones, []);
    let three = [(7, true), (65535, true), (5, true)].map(|(zone, on)| options(zone, Some(on)));
    client(&running).set_zone_options(set(&three)).await.expect("set");
    client(&running).set_zone_options(set(&[options(7, Some(false))])).await.expect("set");
    let all = client(&running).get_zone_options(get(&[])).await.expect("options").into_inner();
    assert_eq!(all.zones, [5, 65535].map(|zone| options(zone, Some(true))));
    let some = client(&running).get_zone_options(get(&[7, 5])).await.expect("options").into_inner();
    assert_eq!(some.zones, [options(7, Some(false)), options(5, Some(true))]);
    let nothing = "zones: nothing is to be set; give zones with established_after_answer";
    for (zones, want) in [
        (vec![], nothing),
        (vec![options(1, None)], nothing),
        (vec![options(1 << 16, Some(true))], "zones: 65536 is out of range; use 0 to 65535"),
    ] {
        let status = client(&running).set_zone_options(set(&zones)).await.expect_err(want);
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, want));
    }
    running.stop().await;
}

#[tokio::test]
async fn timeouts_are_set_shown_and_taken_away() {
    let running = Running::start().await;
    let set = |zone, seconds: &[(&str, u32)]| {
        let seconds = seconds.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let policy = Some(v1::TimeoutPolicy { seconds });
        v1::SetZoneTimeoutPolicyRequest { policy: Some(v1::ZoneTimeoutPolicy { zone, policy }) }
    };
    let request = set(5, &[("udp_first", 7), ("tcp_unack", 1)]);
    let warnings = client(&running).set_zone_timeout_policy(request).await.expect("set").into_inner().warnings;
    assert_eq!(warnings, ["tcp_unack has no effect: only the tracker of the kernel has such a state"]);
    let list = |zone| v1::ListZoneTimeoutPoliciesRequest { zone };
    let all = client(&running).list_zone_timeout_policies(list(None)).await.expect("timeouts").into_inner();
    let seconds = |policy: &Option<v1::TimeoutPolicy>, name: &str| policy.as_ref().map(|all| all.seconds[name]);
    assert_eq!((all.zones.len(), all.zones[0].zone), (1, 5));
    let of = |name| (seconds(&all.default_policy, name), seconds(&all.zones[0].policy, name));
    assert_eq!(of("udp_first"), (Some(60), Some(7)));
    assert_eq!(of("other_first"), (Some(60), Some(7)));
    assert_eq!(of("tcp_established"), (Some(86_400), Some(86_400)));
    let other = client(&running).list_zone_timeout_policies(list(Some(6))).await.expect("timeouts").into_inner();
    assert_eq!(other.zones, []);
    let wrong = set(5, &[("udp_first", 0), ("a", 1)]);
    let status = client(&running).set_zone_timeout_policy(wrong).await.expect_err("wrong");
    let lines: Vec<_> = status.message().lines().collect();
    assert!(lines[0].starts_with("policy.seconds: \"a\" is no timeout; use one of: tcp_syn_sent, "), "{lines:?}");
    assert_eq!(lines[1..], ["policy.seconds: udp_first is 0; use 1 to 4294967295 seconds"]);
    let delete = v1::DeleteZoneTimeoutPolicyRequest { zone: 5 };
    client(&running).delete_zone_timeout_policy(delete).await.expect("deleted");
    let status = client(&running).delete_zone_timeout_policy(delete).await.expect_err("it is gone");
    assert_eq!(status.code(), Code::NotFound, "{status:?}");
    running.stop().await;
}

#[tokio::test]
async fn sequence_numbers_are_checked_or_not() {
    let running = Running::start().await;
    for enabled in [true, false, true] {
        client(&running).set_tcp_seq_check(v1::SetTcpSeqCheckRequest { enabled }).await.expect("set");
        let answer = client(&running).get_tcp_seq_check(v1::GetTcpSeqCheckRequest {}).await.expect("an answer");
        assert_eq!(answer.into_inner().enabled, enabled);
    }
    running.stop().await;
}

/// The next message: `started`, `lost N`, or the kind of an event and the source port of its
/// connection.
async fn told(stream: &mut Streaming<v1::WatchConnectionsResponse>) -> String {
    let message = soon("a message", stream.message()).await.expect("no error").expect("a message");
    match message.update.expect("an update") {
        Update::Started(v1::WatchStarted {}) => "started".to_owned(),
        Update::Lost(lost) => format!("lost {lost}"),
        Update::Event(event) => {
            let tuple = event.connection.clone().and_then(|one| one.original).expect("a tuple");
            format!("{:?} {}", event.kind(), tuple.src_port)
        }
    }
}

#[tokio::test]
async fn events_come_after_the_word_that_the_subscription_stands() {
    let running = Running::start_with(|switch| connect(&switch.conntrack, 1, 1, 0)).await;
    let all = v1::WatchConnectionsRequest::default();
    let mut all = client(&running).watch_connections(all).await.expect("a stream").into_inner();
    let ends = vec![v1::ConnectionEventKind::End.into()];
    let ends = v1::WatchConnectionsRequest { filter: of_zone(2), kinds: ends };
    let mut ends = client(&running).watch_connections(ends).await.expect("a stream").into_inner();
    assert_eq!((told(&mut all).await, told(&mut ends).await), ("started".to_owned(), "started".to_owned()));
    let switch = &running.switch;
    connect(&switch.conntrack, 1, 2, 0);
    connect(&switch.conntrack, 2, 3, 0);
    client(&running).flush_connections(v1::FlushConnectionsRequest::default()).await.expect("flushed");
    assert!(switch.connection_events.distribute(switch.conntrack.tracker()));
    assert_eq!((told(&mut all).await, told(&mut all).await), ("New 2".to_owned(), "New 3".to_owned()));
    let mut gone = [told(&mut all).await, told(&mut all).await, told(&mut all).await];
    gone.sort();
    assert_eq!(gone, ["End 1", "End 2", "End 3"]);
    assert_eq!(told(&mut ends).await, "End 3", "of its zone and kind only");
    let wrong = v1::WatchConnectionsRequest { filter: None, kinds: vec![0] };
    let status = client(&running).watch_connections(wrong).await.expect_err("no kind");
    assert_eq!(status.message(), "kinds: 0 is no kind of event; use NEW (1), UPDATE (2) or END (3)");
    running.stop().await;
}
