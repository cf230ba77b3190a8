//! The services of `antrea.v1` through a real socket. Behind them is a real pipeline that no packet
//! passes.

mod answers;
mod changes;
mod clauses;
mod drops;
mod gateway;
mod host;
mod multicast;
mod names;
mod observing;
mod restart;
mod statistics;
mod telling;
mod traceflow;
mod uplink;

use super::{Running, internal, soon};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::node_service_client::NodeServiceClient;
use vswitch_proto::antrea::v1::pod_service_client::PodServiceClient;
use vswitch_proto::antrea::v1::sync_service_client::SyncServiceClient;
use vswitch_proto::v1::MacAddress;

fn mac(last: u8) -> Option<MacAddress> {
    Some(MacAddress { octets: vec![2, 0, 0, 0, 0, last] })
}

fn node() -> v1::NodeConfig {
    v1::NodeConfig {
        name: "worker-2".to_owned(),
        bridge: "br-int".to_owned(),
        transport_addresses: vec!["192.168.77.102/24".to_owned()],
        pod_cidrs: vec!["10.10.0.0/24".to_owned()],
        gateway: Some(v1::Gateway { port: "gw0".to_owned(), mac: mac(1), addresses: vec!["10.10.0.1".to_owned()] }),
        tunnel: Some(v1::Tunnel { port: "tun0".to_owned() }),
        ..v1::NodeConfig::default()
    }
}

fn pod(name: &str, last: u8) -> v1::Pod {
    v1::Pod {
        name: format!("default/{name}"),
        port: name.to_owned(),
        addresses: vec![format!("10.10.0.{last}")],
        mac: mac(last),
        vlan: 0,
        uid: String::new(),
        ..v1::Pod::default()
    }
}

fn object(pod: v1::Pod) -> v1::Object {
    v1::Object { object: Some(v1::object::Object::Pod(pod)) }
}

impl Running {
    /// A secure bridge with a gateway, a tunnel, and ports for two Pods.
    async fn with_node() -> Self {
        Self::start().await.and_node().await
    }

    /// Likewise, of a server that runs.
    async fn and_node(self) -> Self {
        let running = self;
        running.add_bridge("br-int").await.expect("a new bridge");
        for name in ["gw0", "tun0", "web", "db"] {
            running.add_port("br-int", internal(name)).await.expect("a new port");
        }
        running
    }

    async fn initialize(&self, node: v1::NodeConfig) -> Result<v1::InitializeResponse, Status> {
        let request = v1::InitializeRequest { node: Some(node), round: 0 };
        let mut client = NodeServiceClient::new(self.channel.clone());
        Ok(soon("initialising", client.initialize(request)).await?.into_inner())
    }

    async fn sync(&self, begin: v1::SyncBegin, objects: Vec<v1::Object>) -> Result<v1::SyncResponse, Status> {
        let commit = v1::SyncCommit { objects: objects.len() as u64 };
        let messages = vec![
            v1::SyncRequest { begin: Some(begin), ..v1::SyncRequest::default() },
            v1::SyncRequest { objects, commit: Some(commit), ..v1::SyncRequest::default() },
        ];
        self.sync_messages(messages).await
    }

    async fn sync_messages(&self, messages: Vec<v1::SyncRequest>) -> Result<v1::SyncResponse, Status> {
        let mut client = SyncServiceClient::new(self.channel.clone());
        Ok(soon("a sync", client.sync(tokio_stream::iter(messages))).await?.into_inner())
    }

    async fn state(&self) -> v1::GetStateResponse {
        let mut client = SyncServiceClient::new(self.channel.clone());
        client.get_state(v1::GetStateRequest {}).await.expect("a state").into_inner()
    }

    async fn apply_pods(&self, pods: Vec<v1::Pod>, round: u64) -> Result<v1::WriteResult, Status> {
        let options = Some(v1::WriteOptions { round, ..v1::WriteOptions::default() });
        let mut client = PodServiceClient::new(self.channel.clone());
        let response = client.apply_pods(v1::ApplyPodsRequest { options, pods }).await?.into_inner();
        Ok(response.result.unwrap_or_default())
    }

    /// Flows of the Node's bridge, as the switch has them.
    async fn flow_count(&self) -> u64 {
        use vswitch_proto::v1::flow_service_client::FlowServiceClient;
        let request = vswitch_proto::v1::AggregateFlowsRequest { bridge: "br-int".to_owned(), ..Default::default() };
        let mut client = FlowServiceClient::new(self.channel.clone());
        client.aggregate_flows(request).await.expect("an answer").into_inner().flows
    }
}

fn round(round: u64) -> v1::SyncBegin {
    v1::SyncBegin { round, ..v1::SyncBegin::default() }
}

#[tokio::test]
async fn nothing_is_written_before_the_gate_opens_and_everything_then() {
    let running = Running::with_node().await;
    let status = running.apply_pods(vec![pod("web", 24)], 0).await.expect_err("there is no Node");
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    let done = running.initialize(node()).await.expect("a Node");
    assert!(!done.unchanged);
    assert_eq!(done.tables[0].name, "PipelineRootClassifier");
    assert!(done.tables.windows(2).all(|pair| pair[0].number < pair[1].number), "in pipeline order");
    let result = running.apply_pods(vec![pod("web", 24)], 0).await.expect("an answer");
    assert!(result.applied, "{result:?}");
    assert_eq!(running.flow_count().await, 0, "the gate is shut");
    let synced = running.sync(round(1), vec![object(pod("web", 24)), object(pod("db", 25))]).await.expect("a sync");
    assert!(synced.gate_open, "{synced:?}");
    let flows = running.flow_count().await;
    let state = running.state().await;
    assert_eq!((state.flows, state.round, state.gate_open), (flows, 1, true));
    assert!(state.memory > 100 * flows, "{} bytes for {flows} flows", state.memory);
    let again = running.sync(round(2), vec![object(pod("web", 24)), object(pod("db", 25))]).await.expect("a sync");
    assert_eq!(again.result.map(|result| result.flows_changed), Some(0), "the same sync changes nothing");
    assert!(running.initialize(node()).await.expect("a Node").unchanged);
    let swept = running.sync(round(3), vec![object(pod("web", 24))]).await.expect("a sync");
    let result = swept.result.unwrap_or_default();
    assert_eq!(result.counts.get("REMOVED"), Some(&1), "{result:?}");
    assert!(running.flow_count().await < flows);
    assert!(running.state().await.memory < state.memory, "what went takes none");
    running.stop().await;
}

#[tokio::test]
async fn a_refused_pod_and_a_pod_without_its_port_keep_nobody_out() {
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    let begin = v1::SyncBegin { mode: v1::WriteMode::ValidOnly.into(), ..round(1) };
    let bad = v1::Pod { addresses: vec!["10.10.0".to_owned()], ..pod("db", 25) };
    let synced = running.sync(begin.clone(), vec![object(pod("web", 24)), object(bad.clone())]).await.expect("a sync");
    assert!(synced.gate_open && synced.gate_held_by.is_empty(), "{synced:?}");
    assert_eq!(synced.result.unwrap_or_default().counts.get("REFUSED"), Some(&1));
    let without = running.flow_count().await;
    // Its port is not there yet: it works with the port, in the call that adds it.
    let late = v1::Pod { port: "late".to_owned(), ..pod("db", 25) };
    let next = v1::SyncBegin { round: 2, ..begin };
    let synced = running.sync(next, vec![object(pod("web", 24)), object(late)]).await.expect("a sync");
    assert_eq!(synced.result.unwrap_or_default().counts.get("DEGRADED"), Some(&1));
    assert_eq!(running.flow_count().await, without);
    running.add_port("br-int", internal("late")).await.expect("a new port");
    assert!(running.flow_count().await > without);
    assert!(running.state().await.degraded.is_empty());
    running.stop().await;
}

#[tokio::test]
async fn an_agent_that_was_replaced_writes_nothing() {
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    running.sync(round(7), Vec::new()).await.expect("a sync");
    for old in [
        running.sync(round(7), Vec::new()).await.expect_err("the same round"),
        running.sync(round(6), Vec::new()).await.expect_err("an older round"),
        running.apply_pods(vec![pod("web", 24)], 6).await.expect_err("an older round"),
    ] {
        assert_eq!(old.code(), Code::FailedPrecondition, "{old}");
    }
    assert!(running.apply_pods(vec![pod("web", 24)], 7).await.expect("an answer").applied);
    running.stop().await;
}

#[tokio::test]
async fn a_round_far_ahead_locks_no_later_agent_out() {
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    let code = |result: Result<v1::SyncResponse, Status>| result.expect_err("too far").code();
    assert_eq!(code(running.sync(round(u64::MAX), Vec::new()).await), Code::InvalidArgument);
    running.sync(round(1 << 40), Vec::new()).await.expect("a first round may be a time");
    let far = (1 << 40) + (1 << 32) + 1;
    assert_eq!(code(running.sync(round(far), Vec::new()).await), Code::InvalidArgument);
    running.sync(round(far - 1), Vec::new()).await.expect("as far as may be");
    running.stop().await;
}

#[tokio::test]
async fn the_newest_sync_of_a_user_takes_the_place_of_one_that_does_not_end() {
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    let (sender, messages) = tokio::sync::mpsc::channel(1);
    sender.send(v1::SyncRequest { begin: Some(round(5)), ..v1::SyncRequest::default() }).await.expect("room");
    let mut client = SyncServiceClient::new(running.channel.clone());
    let open = tokio::spawn(async move { client.sync(ReceiverStream::new(messages)).await.map(|_| ()) });
    // An earlier one is wrong by itself; once the open one has begun, it is refused before that.
    let commit = Some(v1::SyncCommit { objects: 7 });
    let earlier = [
        v1::SyncRequest { begin: Some(round(4)), ..v1::SyncRequest::default() },
        v1::SyncRequest { commit, ..v1::SyncRequest::default() },
    ];
    soon("the open one has begun", async {
        let refused = async || running.sync_messages(earlier.to_vec()).await.expect_err("7 objects").code();
        while refused().await != Code::FailedPrecondition {}
    })
    .await;
    running.sync(round(6), Vec::new()).await.expect("a sync");
    let status = soon("the open one ends", open).await.expect("no panic").expect_err("replaced");
    assert_eq!(status.code(), Code::Aborted, "{status}");
    drop(sender);
    assert_eq!(running.state().await.round, 6);
    running.stop().await;
}

#[tokio::test]
async fn a_sync_that_is_not_whole_changes_nothing() {
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    let begin = || v1::SyncRequest { begin: Some(round(1)), ..v1::SyncRequest::default() };
    let objects = v1::SyncRequest { objects: vec![object(pod("web", 24))], ..v1::SyncRequest::default() };
    let commit = |objects| v1::SyncRequest { commit: Some(v1::SyncCommit { objects }), ..v1::SyncRequest::default() };
    let cases = [
        (vec![begin(), objects.clone()], Code::Aborted),
        (vec![], Code::Aborted),
        (vec![objects.clone()], Code::InvalidArgument),
        (vec![begin(), begin()], Code::InvalidArgument),
        (vec![begin(), objects.clone(), commit(2)], Code::InvalidArgument),
        (vec![begin(), v1::SyncRequest::default()], Code::InvalidArgument),
        (vec![begin(), commit(0), objects], Code::InvalidArgument),
    ];
    for (messages, code) in cases {
        let shown = format!("{messages:?}");
        let status = running.sync_messages(messages).await.expect_err(&shown);
        assert_eq!(status.code(), code, "{shown}: {status}");
    }
    assert_eq!(running.state().await.round, 0);
    running.stop().await;
}

#[tokio::test]
async fn every_wrong_field_of_a_node_is_named() {
    let running = Running::with_node().await;
    let wrong = v1::NodeConfig {
        pod_cidrs: vec!["10.10.0.1/24".to_owned()],
        gateway: Some(v1::Gateway { port: "gw9".to_owned(), mac: None, addresses: Vec::new() }),
        ..node()
    };
    let status = running.initialize(wrong).await.expect_err("a wrong Node");
    assert_eq!(status.code(), Code::InvalidArgument);
    for field in ["node.pod_cidrs[0]", "node.gateway.mac", "node.gateway.addresses"] {
        assert!(status.message().contains(field), "{field}: {}", status.message());
    }
    let unknown = v1::NodeConfig { tunnel: Some(v1::Tunnel { port: "tun9".to_owned() }), ..node() };
    let status = running.initialize(unknown).await.expect_err("no such port");
    assert_eq!(status.code(), Code::NotFound);
    assert!(status.message().contains("PORT") && status.message().contains("tun9"), "{}", status.message());
    let features = v1::Features { pod_vlans: true, ..v1::Features::default() };
    let status =
        running.initialize(v1::NodeConfig { features: Some(features), ..node() }).await.expect_err("no uplink");
    assert!(status.message().contains("node.features.pod_vlans"), "{}", status.message());
    let elsewhere = v1::NodeConfig { bridge: "br9".to_owned(), ..node() };
    assert_eq!(running.initialize(elsewhere).await.expect_err("no such bridge").code(), Code::NotFound);
    running.stop().await;
}

#[tokio::test]
async fn what_objects_use_cannot_be_deleted_under_them() {
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    assert!(running.apply_pods(vec![pod("web", 24)], 0).await.expect("an answer").applied);
    for port in ["web", "gw0", "tun0"] {
        let status = running.delete_port("br-int", port).await.expect_err("a port in use");
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        assert!(status.message().contains(port), "{status}");
    }
    running.delete_port("br-int", "db").await.expect("nobody has it");
    let status = running.delete_bridge("br-int").await.expect_err("the Node's bridge");
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    let mut client = NodeServiceClient::new(running.channel.clone());
    client.reset(v1::ResetRequest { round: 0 }).await.expect("a reset");
    running.delete_port("br-int", "web").await.expect("nobody has it any more");
    running.stop().await;
}

#[tokio::test]
async fn a_reset_leaves_nothing_of_ours() {
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    running.sync(round(3), vec![object(pod("web", 24))]).await.expect("a sync");
    assert!(running.flow_count().await > 0);
    let mut client = NodeServiceClient::new(running.channel.clone());
    client.reset(v1::ResetRequest { round: 3 }).await.expect("a reset");
    assert_eq!(running.flow_count().await, 0);
    assert!(!running.state().await.initialized);
    assert_eq!(client.get_node(v1::GetNodeRequest {}).await.expect_err("no Node").code(), Code::FailedPrecondition);
    running.initialize(node()).await.expect("a Node again");
    running.stop().await;
}

#[tokio::test]
async fn a_policy_that_binds_nobody_known_keeps_the_gate_shut_by_name() {
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    let part = |number, scope: &[v1::Kind], gate: v1::GateChange| v1::SyncBegin {
        scope: scope.iter().map(|kind| (*kind).into()).collect(),
        mode: v1::WriteMode::ValidOnly.into(),
        gate: gate.into(),
        ..round(number)
    };
    let policies = [v1::Kind::NetworkPolicy, v1::Kind::AddressGroup, v1::Kind::AppliedToGroup];
    let rule = v1::Rule { direction: 1, action: 2, ..v1::Rule::default() };
    // Wrong by its kind, and its group is not there.
    let bad = v1::NetworkPolicy {
        name: "acnp:deny".to_owned(),
        applied_to: vec!["web".to_owned()],
        rules: vec![rule],
        ..v1::NetworkPolicy::default()
    };
    let bad = v1::Object { object: Some(v1::object::Object::NetworkPolicy(bad)) };
    let first = running.sync(part(1, &policies, v1::GateChange::Keep), vec![bad]).await.expect("a sync");
    assert_eq!(first.result.unwrap_or_default().counts.get("REFUSED"), Some(&1));
    let pods = part(2, &[v1::Kind::Pod], v1::GateChange::Open);
    let shut = running.sync(pods, vec![object(pod("web", 24))]).await.expect("a sync");
    assert!(!shut.gate_open, "a deny is missing");
    let named = |held: &[v1::ObjectStatus]| {
        held.iter().filter_map(|status| Some(status.object.clone()?.name)).collect::<Vec<_>>()
    };
    assert_eq!(named(&shut.gate_held_by), ["acnp:deny"]);
    assert_eq!(named(&running.state().await.gate_held_by), ["acnp:deny"]);
    // With its group it is refused still, and isolates: nothing is open.
    let group =
        v1::AppliedToGroup { name: "web".to_owned(), pods: vec!["default/web".to_owned()], services: Vec::new() };
    let group = v1::Object { object: Some(v1::object::Object::AppliedToGroup(group)) };
    let groups = part(3, &[v1::Kind::AppliedToGroup], v1::GateChange::Open);
    let open = running.sync(groups, vec![group]).await.expect("a sync");
    assert!(open.gate_open && open.gate_held_by.is_empty(), "{open:?}");
    let held = running.flow_count().await;
    // One without a name cannot be kept: its kind has not been told.
    let nameless = v1::NetworkPolicy { name: String::new(), ..v1::NetworkPolicy::default() };
    let nameless = v1::Object { object: Some(v1::object::Object::NetworkPolicy(nameless)) };
    running.sync(part(4, &[v1::Kind::NetworkPolicy], v1::GateChange::Keep), vec![nameless]).await.expect("a sync");
    assert!(running.flow_count().await < held, "the wrong one is gone");
    running.stop().await;
}

#[tokio::test]
async fn the_nodes_bridge_is_not_to_forward_by_itself() {
    use vswitch_proto::v1::bridge_service_client::BridgeServiceClient;
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    let standalone = vswitch_proto::v1::SetBridgeRequest {
        name: "br-int".to_owned(),
        fail_mode: vswitch_proto::v1::FailMode::Standalone.into(),
        ..Default::default()
    };
    let mut client = BridgeServiceClient::new(running.channel.clone());
    let status = client.set_bridge(standalone).await.expect_err("it is the Node's");
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    running.stop().await;
}

#[tokio::test]
async fn members_of_a_group_are_the_same_however_they_are_written() {
    use v1::group_member::Member;
    use v1::network_policy_service_client::NetworkPolicyServiceClient;
    let running = Running::with_node().await;
    let dual = v1::NodeConfig { families: v1::Families::Dual.into(), ..node() };
    let mut dual = v1::NodeConfig { pod_cidrs: vec!["10.10.0.0/24".to_owned(), "fd00::/64".to_owned()], ..dual };
    dual.gateway.as_mut().expect("a gateway").addresses.push("fd00::1".to_owned());
    running.initialize(dual).await.expect("a Node");
    let member = |text: &str| v1::GroupMember { member: Some(Member::Address(text.to_owned())) };
    let mut client = NetworkPolicyServiceClient::new(running.channel.clone());
    let group = v1::AddressGroup { name: "g".to_owned(), members: vec![member("fd00::18"), member("10.0.0.1")] };
    let request = v1::ApplyNetworkPoliciesRequest { address_groups: vec![group], ..Default::default() };
    client.apply_network_policies(request).await.expect("a group");
    let mut update = async |name: &str, add: &[&str], remove: &[&str]| {
        let members = |texts: &[&str]| texts.iter().map(|text| member(text)).collect();
        let update = v1::AddressGroupUpdate { name: name.to_owned(), add: members(add), remove: members(remove) };
        let request = v1::UpdateAddressGroupsRequest { options: None, updates: vec![update] };
        client.update_address_groups(request).await.map(|response| response.into_inner().result.unwrap_or_default())
    };
    let same = update("g", &["fd00:0::18", "10.0.0.1", "10.0.0.1"], &["10.0.0.9"]).await.expect("an answer");
    assert_eq!(same.counts.get("UNCHANGED"), Some(&1), "{same:?}");
    let gone = update("g", &[], &["fd00:0:0::18"]).await.expect("an answer");
    assert!(gone.applied && !gone.counts.contains_key("UNCHANGED"), "{gone:?}");
    let missing = update("h", &["10.0.0.1"], &[]).await.expect("an answer");
    assert!(!missing.applied && missing.statuses[0].problems[0].code == "REFERENCE", "{missing:?}");
    let both = update("g", &["10.0.0.1"], &["10.0.0.1"]).await.expect_err("to be there and to be gone");
    assert_eq!(both.code(), Code::InvalidArgument);
    running.stop().await;
}

#[tokio::test]
async fn flows_of_others_and_standalone_bridges_are_refused() {
    use vswitch_proto::v1::pipeline_service_client::PipelineServiceClient;
    let running = Running::with_node().await;
    let line = vswitch_proto::v1::LineUpdate {
        kind: vswitch_proto::v1::LineKind::AddFlow.into(),
        line: "table=0,actions=drop".to_owned(),
    };
    let update = vswitch_proto::v1::Update { tag: 0, update: Some(vswitch_proto::v1::update::Update::Line(line)) };
    let write = vswitch_proto::v1::WriteRequest { bridge: "br-int".to_owned(), updates: vec![update], commit: true };
    let mut client = PipelineServiceClient::new(running.channel.clone());
    client.write(tokio_stream::iter([write])).await.expect("a flow");
    let status = running.initialize(node()).await.expect_err("somebody's flow is there");
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("PipelineRootClassifier"), "{status}");
    running.stop().await;
}
