//! Rules of K8s have one priority: those that name a port share one flow, however many they are.

use super::{Running, node, object, pod, round};
use vswitch_control::SwitchApi;
use vswitch_flow::Field;
use vswitch_flow::spec::FlowFilter;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// More than an action list of OpenFlow has room for.
const POLICIES: usize = 5000;

fn policy(number: usize) -> v1::Object {
    let cidr = format!("172.{}.{}.0/24", 16 + number / 256, number % 256);
    let block = v1::IpBlock { cidr, except_cidrs: Vec::new() };
    let port = v1::PortMatch { protocol: v1::Protocol::Tcp.into(), port: 80, ..Default::default() };
    let rule = v1::Rule {
        id: "r".to_owned(),
        direction: v1::Direction::Ingress.into(),
        action: v1::RuleAction::Allow.into(),
        peer: Some(v1::RulePeer { blocks: vec![block], ..Default::default() }),
        ports: vec![port],
        ..Default::default()
    };
    v1::Object {
        object: Some(Object::NetworkPolicy(v1::NetworkPolicy {
            name: format!("np:default/p{number}"),
            kind: v1::PolicyKind::K8s.into(),
            applied_to: vec!["web".to_owned()],
            isolates_ingress: true,
            rules: vec![rule],
            ..Default::default()
        })),
    }
}

#[tokio::test]
async fn more_rules_share_a_port_than_a_message_has_room_for() {
    use vswitch_proto::v1::flow_service_client::FlowServiceClient;
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    let group = v1::AppliedToGroup { name: "web".to_owned(), pods: vec!["default/web".to_owned()], services: vec![] };
    let group = v1::Object { object: Some(Object::AppliedToGroup(group)) };
    let objects = [object(pod("web", 24)), group].into_iter().chain((0..POLICIES).map(policy)).collect();
    let synced = running.sync(round(1), objects).await.expect("a sync");
    assert!(synced.gate_open, "{:?}", synced.result.map(|result| result.counts));
    let flows = running.switch.flows("br-int", &FlowFilter::default()).expect("flows");
    let shared = |info: &vswitch_dataplane::pipeline::state::FlowInfo| {
        info.flow.matching.get(Field::TpDst).1 != 0 && info.flow.actions.len() == POLICIES
    };
    assert_eq!(flows.iter().filter(|info| shared(info)).count(), 1, "one flow for the port");
    // And who lists it gets it.
    let request = vswitch_proto::v1::ListFlowsRequest { bridge: "br-int".to_owned(), ..Default::default() };
    let mut listed =
        FlowServiceClient::new(running.channel.clone()).list_flows(request).await.expect("an answer").into_inner();
    let mut lines = 0;
    while let Some(part) = listed.message().await.expect("a part that a client takes") {
        lines += part.flows.iter().filter(|flow| flow.line.matches("conjunction(").count() == POLICIES).count();
    }
    assert!(lines >= 1, "{lines}");
    running.stop().await;
}
