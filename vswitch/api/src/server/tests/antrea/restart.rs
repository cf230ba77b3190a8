//! What agents declared, over a restart of the switch.

use super::{Running, mac, node, object, pod, round};
use std::path::Path;
use vswitch_conntrack::{Moment, Tracker};
use vswitch_control::BridgeConfig;
use vswitch_control::SwitchApi;
use vswitch_dataplane::pipeline::FailMode;
use vswitch_dataplane::port::{PortConfig, PortKind};
use vswitch_dataplane::time::Millis;
use vswitch_proto::antrea::v1;
use vswitch_testkit::double::{Double, connect};

const ALL: [&str; 4] = ["gw0", "tun0", "web", "db"];

/// The bridge and some of its ports, as a configuration file would make them.
fn with_ports(ports: &'static [&'static str]) -> impl FnOnce(&Double) {
    move |switch: &Double| {
        let config = BridgeConfig { fail_mode: FailMode::Secure, ..BridgeConfig::new("br-int") };
        switch.add_bridge(config).expect("a new bridge");
        for name in ports {
            let config = PortConfig::new(name, PortKind::Internal { queues: 1 });
            switch.add_port("br-int", config).expect("a new port");
        }
    }
}

/// A policy that isolates `web`.
fn objects() -> Vec<v1::Object> {
    let group = v1::AppliedToGroup {
        name: "web".to_owned(),
        pods: vec!["default/web".to_owned()],
        ..v1::AppliedToGroup::default()
    };
    let policy = v1::NetworkPolicy {
        name: "np:default/isolate".to_owned(),
        kind: v1::PolicyKind::K8s.into(),
        applied_to: vec!["web".to_owned()],
        isolates_ingress: true,
        ..v1::NetworkPolicy::default()
    };
    vec![
        object(pod("web", 24)),
        object(pod("db", 25)),
        v1::Object { object: Some(v1::object::Object::AppliedToGroup(group)) },
        v1::Object { object: Some(v1::object::Object::NetworkPolicy(policy)) },
    ]
}

/// A Node with objects that was stopped; how many flows it had.
async fn stopped(dir: &Path) -> u64 {
    let running = Running::start_over(Some(dir.to_owned()), with_ports(&ALL)).await;
    running.initialize(node()).await.expect("a Node");
    let synced = running.sync(round(5), objects()).await.expect("a sync");
    assert!(synced.gate_open, "{synced:?}");
    let flows = running.flow_count().await;
    running.stop().await;
    assert!(dir.join("state").exists() && !dir.join("unwritten").exists(), "all of it is written");
    flows
}

#[tokio::test]
async fn what_was_said_is_in_force_again_before_the_first_call() {
    let dir = tempfile::tempdir().expect("a directory");
    let flows = stopped(dir.path()).await;
    for _ in 0..2 {
        let running = Running::start_over(Some(dir.path().to_owned()), with_ports(&ALL)).await;
        let state = running.state().await;
        assert_eq!(running.flow_count().await, flows);
        assert_eq!((state.gate_open, state.restored, state.round, state.initialized), (true, true, 5, true));
        assert!(running.initialize(node()).await.expect("a Node").unchanged);
        running.stop().await;
    }
    let running = Running::start_over(Some(dir.path().to_owned()), with_ports(&ALL)).await;
    assert_eq!(
        running.sync(round(5), objects()).await.expect_err("an old round").code(),
        tonic::Code::FailedPrecondition
    );
    let again = running.sync(round(6), objects()).await.expect("a sync");
    assert_eq!(again.result.map(|result| result.flows_changed), Some(0), "it knew all of it");
    let state = running.state().await;
    assert_eq!((state.gate_open, state.restored), (true, false));
    running.sync(round(7), vec![object(pod("web", 24))]).await.expect("a sync");
    assert!(running.flow_count().await < flows, "the others are swept");
    running.stop().await;
}

#[tokio::test]
async fn a_start_says_nothing_that_the_disk_does_not_know() {
    let dir = tempfile::tempdir().expect("a directory");
    stopped(dir.path()).await;
    for _ in 0..2 {
        let switch = std::sync::Arc::new(Double::default());
        with_ports(&ALL)(&switch);
        let antrea = vswitch_antrea_node::Antrea::new(switch, Some(dir.path().to_owned()));
        antrea.restore();
        let state = antrea.state();
        assert!(state.gate_open && state.restored, "{state:?}");
        assert!(!dir.path().join("unwritten").exists(), "killed here, the next start would be shut");
    }
}

#[tokio::test]
async fn a_disk_that_cannot_be_written_is_told_until_it_can() {
    let dir = tempfile::tempdir().expect("a directory");
    stopped(dir.path()).await;
    let running = Running::start_over(Some(dir.path().to_owned()), with_ports(&ALL)).await;
    // In the way of the next writing, as a full disk would be. The start may still write its own.
    while std::fs::create_dir_all(dir.path().join("state.new/full")).is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    running.apply_pods(vec![pod("web", 26)], 5).await.expect("an answer");
    while running.state().await.unwritten.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    std::fs::remove_dir_all(dir.path().join("state.new")).expect("a directory");
    running.apply_pods(vec![pod("web", 27)], 5).await.expect("an answer");
    while !running.state().await.unwritten.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    running.stop().await;
}

#[tokio::test]
async fn answered_calls_that_were_not_written_keep_the_gate_shut() {
    let dir = tempfile::tempdir().expect("a directory");
    let flows = stopped(dir.path()).await;
    std::fs::write(dir.path().join("unwritten"), "").expect("a mark");
    let running = Running::start_over(Some(dir.path().to_owned()), with_ports(&ALL)).await;
    let state = running.state().await;
    assert_eq!((state.gate_open, state.restored, state.round, running.flow_count().await), (false, false, 5, 0));
    assert!(state.kinds.iter().any(|kind| kind.kind() == v1::Kind::Pod && kind.objects == 2), "{state:?}");
    // Neither does an increment open it, nor is it open after another stop.
    running.apply_pods(vec![v1::Pod { mac: mac(77), ..pod("db", 25) }], 5).await.expect("an answer");
    running.stop().await;
    assert!(!dir.path().join("unwritten").exists());
    let running = Running::start_over(Some(dir.path().to_owned()), with_ports(&ALL)).await;
    assert_eq!((running.state().await.gate_open, running.flow_count().await), (false, 0));
    assert!(running.sync(round(6), objects()).await.expect("a sync").gate_open);
    assert_eq!(running.flow_count().await, flows);
    running.stop().await;
}

/// Before a call changes anything the disk says that it lags behind.
#[tokio::test]
async fn a_change_is_marked_until_it_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    stopped(dir.path()).await;
    let running = Running::start_over(Some(dir.path().to_owned()), with_ports(&ALL)).await;
    let mark = dir.path().join("unwritten");
    // The first change is written at once, those of the next second together.
    let mut marked = false;
    for last in 30..60 {
        running.apply_pods(vec![pod("web", last)], 5).await.expect("an answer");
        marked |= mark.exists();
    }
    assert!(marked, "no change was marked");
    let begin = std::time::Instant::now();
    while mark.exists() {
        assert!(begin.elapsed().as_secs() < 60, "the mark stays");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    running.stop().await;
}

/// The removal of a mark fails, and the file is gone all the same: its directory could not be
/// opened, say. A switch that took it for still there would answer calls that no disk knows.
#[tokio::test]
async fn a_mark_whose_removal_failed_is_made_again() {
    let dir = tempfile::tempdir().expect("a directory");
    stopped(dir.path()).await;
    let switch = std::sync::Arc::new(Double::default());
    with_ports(&ALL)(&switch);
    let antrea = vswitch_antrea_node::Antrea::new(switch, Some(dir.path().to_owned()));
    antrea.restore();
    let write = |last| {
        let object = v1::object::Object::Pod(pod("web", last));
        let how = vswitch_antrea_node::How { valid_only: false, round: 5, dry_run: false };
        antrea.write(vec![object], Vec::new(), how).expect("an answer")
    };
    // A mark that cannot be removed as a file.
    let mark = dir.path().join("unwritten");
    std::fs::create_dir(&mark).expect("a directory");
    write(26);
    assert!(!antrea.write_behind(), "it is to be tried again");
    assert!(!antrea.state().unwritten.is_empty(), "and told");
    std::fs::remove_dir(&mark).expect("a directory");
    write(27);
    assert!(mark.exists(), "a change was answered that the disk does not know");
    assert!(antrea.write_behind() && !mark.exists() && antrea.state().unwritten.is_empty());
}

#[tokio::test]
async fn objects_wait_for_their_ports() {
    let dir = tempfile::tempdir().expect("a directory");
    let flows = stopped(dir.path()).await;
    let running = Running::start_over(Some(dir.path().to_owned()), with_ports(&["gw0", "tun0", "db"])).await;
    let state = running.state().await;
    // The Pod, and the policy that is applied to it.
    assert_eq!((state.gate_open, state.degraded.len()), (true, 2), "{state:?}");
    assert!(running.flow_count().await < flows);
    running.add_port("br-int", super::super::internal("other")).await.expect("a new port");
    running.add_port("br-int", super::super::internal("web")).await.expect("a new port");
    let state = running.state().await;
    assert_eq!((running.flow_count().await, state.degraded.len()), (flows, 0), "{state:?}");
    running.stop().await;
}

#[tokio::test]
async fn a_node_waits_for_its_bridge_and_ports() {
    let dir = tempfile::tempdir().expect("a directory");
    let flows = stopped(dir.path()).await;
    let running = Running::start_over(Some(dir.path().to_owned()), |_| ()).await;
    assert!(!running.state().await.initialized);
    running.stop().await;
    let running = Running::start_over(Some(dir.path().to_owned()), |_| ()).await;
    running.add_bridge("br-int").await.expect("a new bridge");
    for name in ALL {
        assert_eq!((running.flow_count().await, running.state().await.gate_open), (0, false), "before {name}");
        running.add_port("br-int", super::super::internal(name)).await.expect("a new port");
        if name == "tun0" {
            break;
        }
    }
    assert!(running.state().await.gate_open);
    for name in ["web", "db"] {
        running.add_port("br-int", super::super::internal(name)).await.expect("a new port");
    }
    assert_eq!(running.flow_count().await, flows);
    running.stop().await;
}

/// Who watched before the Node came back is told of it, and handed what is its to answer.
#[tokio::test]
async fn who_watches_a_node_that_waits_is_told_when_it_is_there() {
    use super::telling::{event, started};
    use v1::EventKind::{ObjectChanged, PacketToAnswer, RoundCommitted};
    use v1::watch_events_response::Event;
    let dir = tempfile::tempdir().expect("a directory");
    let dns = super::answers::taking_over(&[v1::PacketCategory::Dns]);
    let running = Running::start_over(Some(dir.path().to_owned()), with_ports(&ALL)).await;
    running.initialize(dns.clone()).await.expect("a Node");
    assert!(running.sync(round(5), objects()).await.expect("a sync").gate_open);
    running.stop().await;
    let running = Running::start_over(Some(dir.path().to_owned()), with_ports(&["gw0", "web"])).await;
    let mut answers = running.events(&[PacketToAnswer]).await;
    let mut rounds = running.events(&[RoundCommitted]).await;
    let mut changes = running.events(&[ObjectChanged]).await;
    for events in [&mut answers, &mut rounds, &mut changes] {
        assert!(!started(events).await.gate_open);
    }
    assert!(running.controllers().is_empty(), "there is no Node");
    running.add_port("br-int", super::super::internal("tun0")).await.expect("a new port");
    let told = Event::RoundCommitted(v1::RoundCommitted { round: 5, gate_open: true });
    assert_eq!(event(&mut rounds).await, told);
    let Event::ObjectChanged(changed) = event(&mut changes).await else { panic!("another event") };
    let status = changed.status.expect("a status");
    assert_eq!(status.object.as_ref().map(|object| object.name.as_str()), Some("default/db"), "its port is missing");
    assert_eq!(status.outcome(), v1::ObjectOutcome::Degraded, "{status:?}");
    running.give(&super::names::paused(1, super::names::answer("www.example.com", 1, 300)));
    assert_eq!(super::answers::to_answer(&mut answers).await.category(), v1::PacketCategory::Dns);
    assert!(running.initialize(dns).await.expect("a Node").unchanged);
    running.stop().await;
}

/// A table of connections of an earlier process.
fn restored_connections(switch: &Double) {
    let earlier = Double::default();
    (0..8).for_each(|port| connect(&earlier.conntrack, 65520, port, 0));
    (0..4).for_each(|port| connect(&earlier.conntrack, 1, port, 0));
    let mut file = Vec::new();
    earlier.conntrack.tracker().save(Millis::now().0, &Moment::default(), &mut file).expect("memory");
    let later = Moment { unix_ms: 50_000, ..Moment::default() };
    let restored = switch.conntrack.tracker().restore(Millis::now().0, &later, &file[..]).expect("what was written");
    assert_eq!(restored.connections, 12);
}

fn connections(tracker: &Tracker) -> u64 {
    tracker.counts().connections
}

#[tokio::test]
async fn connections_need_their_numbers() {
    let dir = tempfile::tempdir().expect("a directory");
    stopped(dir.path()).await;
    let prepare = |switch: &Double| {
        with_ports(&ALL)(switch);
        restored_connections(switch);
    };
    let running = Running::start_over(Some(dir.path().to_owned()), prepare).await;
    assert_eq!(connections(running.switch.conntrack.tracker()), 12, "their numbers are there");
    running.stop().await;
    for (file, bytes) in [("unwritten", ""), ("state", "nonsense")] {
        let dir = tempfile::tempdir().expect("a directory");
        stopped(dir.path()).await;
        std::fs::write(dir.path().join(file), bytes).expect("a file");
        let running = Running::start_over(Some(dir.path().to_owned()), prepare).await;
        assert!(!running.state().await.gate_open);
        running.initialize(node()).await.expect("a Node");
        assert_eq!(connections(running.switch.conntrack.tracker()), 4, "{file}: only those of others");
        assert_eq!(dir.path().join("state.refused").exists(), file == "state");
        connect(&running.switch.conntrack, 65520, 99, 0);
        running.sync(round(9), objects()).await.expect("a sync");
        assert_eq!(connections(running.switch.conntrack.tracker()), 5, "{file}: new ones stay");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_reset_leaves_nothing_to_come_back() {
    use vswitch_proto::antrea::v1::node_service_client::NodeServiceClient;
    let dir = tempfile::tempdir().expect("a directory");
    stopped(dir.path()).await;
    let running = Running::start_over(Some(dir.path().to_owned()), with_ports(&ALL)).await;
    let mut client = NodeServiceClient::new(running.channel.clone());
    client.reset(v1::ResetRequest { round: 5 }).await.expect("a reset");
    running.stop().await;
    let running = Running::start_over(Some(dir.path().to_owned()), with_ports(&ALL)).await;
    let state = running.state().await;
    assert_eq!((state.initialized, state.gate_open, state.kinds.len()), (false, false, 0));
    running.stop().await;
}
