//! The gateway bridge: what it must be, that all of it comes and goes, and that the host's flow
//! stays.

use super::super::{Running, internal};
use super::round;
use super::uplink::wired;
use tonic::Code;
use vswitch_control::{BridgeChange, PortChange, SwitchApi};
use vswitch_dataplane::pipeline::FailMode;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::node_service_client::NodeServiceClient;
use vswitch_proto::antrea::v1::sync_service_client::SyncServiceClient;
use vswitch_proto::v1 as api;
use vswitch_proto::v1::bridge_service_client::BridgeServiceClient;

/// A Node with a gateway bridge.
fn node() -> v1::NodeConfig {
    let mut node = wired();
    node.features = Some(v1::Features { proxy_all: true, ..v1::Features::default() });
    let mut gateway = v1::GatewayBridge::default();
    gateway.set_mode(v1::GatewayMode::Shared);
    node.uplink.get_or_insert_default().gateway = Some(gateway);
    node
}

impl Running {
    /// As [`Self::with_uplink`]; the bridge forwards by itself, and has a port on the wire.
    async fn with_gateway() -> Self {
        let running = Self::with_uplink().await;
        running.fail_mode(FailMode::Standalone);
        running.add_port("br-phy", internal("eth0")).await.expect("a new port");
        running
    }

    fn fail_mode(&self, mode: FailMode) {
        let change = BridgeChange { fail_mode: Some(mode), ..BridgeChange::default() };
        self.switch.set_bridge("br-phy", change).expect("a change");
    }

    /// A Node is refused, by this field, and with these words.
    async fn refuses(&self, node: v1::NodeConfig, words: &[&str]) {
        let status = self.initialize(node).await.expect_err("it is wrong");
        for word in words {
            assert!(status.message().contains(word), "{word}: {status}");
        }
    }
}

#[tokio::test]
async fn a_gateway_bridge_is_as_it_must_be() {
    let running = Running::with_gateway().await;
    let changed = |change: fn(&mut v1::GatewayBridge)| {
        let mut node = node();
        node.uplink.iter_mut().filter_map(|uplink| uplink.gateway.as_mut()).for_each(change);
        node
    };
    running.refuses(changed(|gateway| gateway.mode = 0), &["uplink.gateway.mode"]).await;
    let other = changed(|gateway| gateway.addresses = vec!["192.168.77.103/24".to_owned()]);
    running.refuses(other, &["uplink.gateway.addresses", "192.168.77.103"]).await;
    let none = changed(|gateway| gateway.port = "eth7".to_owned());
    running.refuses(none, &["uplink.gateway.port", "eth7"]).await;
    running.fail_mode(FailMode::Secure);
    running.refuses(node(), &["uplink.underlay_bridge", "secure"]).await;
    running.fail_mode(FailMode::Standalone);
    running.add_port("br-phy", internal("eth1")).await.expect("a new port");
    running.refuses(node(), &["uplink.gateway.port", "eth0", "eth1"]).await;
    running.initialize(changed(|gateway| gateway.port = "eth0".to_owned())).await.expect("a Node");
    let mut client = NodeServiceClient::new(running.channel.clone());
    client.reset(v1::ResetRequest { round: 0 }).await.expect("a reset");
    running.delete_port("br-phy", "eth1").await.expect("it is in nobody's use");
    let foreign = "table=3, priority=7,ip actions=drop";
    let parsed =
        vswitch_flow::text::parse_flow(foreign, vswitch_flow::text::FlowCommand::Add, &vswitch_flow::text::NoNames);
    running.switch.write_pipeline("br-phy", &[parsed.expect("a flow").value]).expect("a transaction");
    running.refuses(node(), &["uplink.underlay_bridge", "1 flows that are not ours", "table 3"]).await;
    running.delete_port("br-phy", "eth0").await.expect("it is in nobody's use");
    running.refuses(node(), &["no port on the wire"]).await;
    running.stop().await;
}

#[tokio::test]
async fn all_of_a_gateway_bridge_comes_and_goes_and_the_host_stays_reachable() {
    let running = Running::with_gateway().await;
    let before = running.on_wire();
    running.initialize(node()).await.expect("a Node");
    assert_eq!(running.on_wire(), before, "the gate is shut: host and wire learn of each other");
    running.sync(round(1), Vec::new()).await.expect("a sync");
    let flows = running.on_wire();
    assert!(flows > 30, "{flows}");

    for port in ["eth0", "down0", "br-phy"] {
        let status = running.delete_port("br-phy", port).await.expect_err("a port in use");
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    }
    let status = running.delete_bridge("br-phy").await.expect_err("a bridge in use");
    assert!(status.message().contains("gateway bridge"), "{status}");
    let mut bridges = BridgeServiceClient::new(running.channel.clone());
    let mut request = api::SetBridgeRequest { name: "br-phy".to_owned(), ..Default::default() };
    request.set_fail_mode(api::FailMode::Secure);
    let status = bridges.set_bridge(request).await.expect_err("a bridge in use");
    assert!(status.message().contains("gateway bridge"), "{status}");

    let mut client = SyncServiceClient::new(running.channel.clone());
    let request = v1::ListObjectFlowsRequest { gateway_bridge: true, ..Default::default() };
    let mut parts = client.list_object_flows(request).await.expect("flows").into_inner();
    let mut told = Vec::new();
    while let Some(part) = parts.message().await.expect("a part") {
        told.extend(part.flows);
    }
    assert_eq!(told.len(), flows);
    assert!(told.iter().all(|flow| !flow.purpose.is_empty() && !flow.table.is_empty()));
    let object = Some(v1::ObjectRef { kind: v1::Kind::Node.into(), ..Default::default() });
    let request = v1::ListObjectFlowsRequest { gateway_bridge: true, object, ..Default::default() };
    let status = client.list_object_flows(request).await.expect_err("either of them");
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");

    // The VTEP loses the Node's address: that is told, and over when it has it again.
    let about = |state: v1::GetStateResponse, field: &str| {
        state.degraded.iter().flat_map(|status| &status.problems).any(|problem| problem.field == field)
    };
    for (addresses, is_wrong) in [(vec!["192.168.77.9/24"], true), (vec!["192.168.77.102/24"], false)] {
        let addresses = addresses.into_iter().map(|address| address.parse().expect("an address")).collect();
        let change = PortChange { addresses: Some(addresses), ..PortChange::default() };
        running.switch.modify_port("br-phy", "br-phy", &change).expect("a change");
        let told = async || about(running.state().await, "uplink.gateway.addresses");
        running.until_same(&is_wrong, told).await;
    }
    running.until_same(&flows, async || running.on_wire()).await;

    let mut nodes = NodeServiceClient::new(running.channel.clone());
    nodes.reset(v1::ResetRequest { round: 0 }).await.expect("a reset");
    assert_eq!(running.on_wire(), before, "only the flow of the fail mode stays");
    let request = v1::ListObjectFlowsRequest { gateway_bridge: true, ..Default::default() };
    assert_eq!(client.list_object_flows(request).await.expect_err("no Node").code(), Code::FailedPrecondition);
    running.stop().await;
}
