//! Multicast: who says what groups there are.

use super::*;
use std::net::Ipv4Addr;
use std::time::Duration;
use vswitch_antrea::Mac;
use vswitch_antrea::igmp::{Sender, report};
use vswitch_flow::action::Reason;
use vswitch_flow::{Field, FlowKey};
use vswitch_proto::antrea::v1::multicast_service_client::MulticastServiceClient;

/// Looks, 50 ms apart.
const LOOKS: usize = 200;

pub(super) fn multicast_node() -> v1::NodeConfig {
    v1::NodeConfig { features: Some(v1::Features { multicast: true, ..v1::Features::default() }), ..node() }
}

/// The Node beside it.
pub(super) fn worker() -> v1::Object {
    let peer = v1::PeerNode {
        name: "worker-1".to_owned(),
        pod_cidrs: vec!["10.10.1.0/24".to_owned()],
        transport_addresses: vec!["192.168.77.103".to_owned()],
        ..v1::PeerNode::default()
    };
    v1::Object { object: Some(v1::object::Object::PeerNode(peer)) }
}

/// What a Pod, or another Node, says: that it has joined a group.
pub(super) fn joins(in_port: u32, tunnel_source: [u8; 4], group: [u8; 4]) -> vswitch_dataplane::pipeline::PacketIn {
    let mut metadata = FlowKey::default();
    metadata.set(Field::InPort, in_port.into());
    metadata.set(Field::TunSrc, u32::from_be_bytes(tunnel_source).into());
    let from = Sender { mac: Mac([2, 0, 0, 0, 0, 24]), address: [10, 10, 0, 24].into() };
    vswitch_dataplane::pipeline::PacketIn {
        table: 164,
        cookie: 0,
        reason: Reason::NoMatch,
        controller: 62376,
        userdata: [3].into(),
        metadata,
        packet: report(from, &[(group.into(), true)], true),
        received: None,
        continuation: None,
        token: Vec::new(),
    }
}

impl Running {
    /// Where what is for the reader of IGMP goes.
    pub(super) async fn reader(&self) -> tokio::sync::mpsc::Sender<vswitch_dataplane::pipeline::PacketIn> {
        for _ in 0..LOOKS {
            let readers = self.switch.packet_ins.lock().clone();
            if let Some((_, sender, _)) = readers.into_iter().find(|(controller, ..)| *controller == 62376) {
                return sender;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("nobody reads IGMP")
    }

    /// Groups as soon as they are `right`.
    async fn groups(&self, right: impl Fn(&[v1::MulticastGroupState]) -> bool) -> Vec<v1::MulticastGroupState> {
        let mut client = MulticastServiceClient::new(self.channel.clone());
        for _ in 0..LOOKS {
            let answer = client.list_multicast_groups(v1::ListMulticastGroupsRequest::default()).await.expect("a list");
            let part = answer.into_inner().message().await.expect("an answer");
            let groups = part.map(|part| part.groups).unwrap_or_default();
            if right(&groups) {
                return groups;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("they are not")
    }
}

fn receivers(states: &[v1::MulticastGroupState]) -> usize {
    states.iter().flat_map(|state| &state.group).map(|group| group.pods.len() + group.nodes.len()).sum()
}

#[tokio::test]
async fn what_is_heard_becomes_groups() {
    let running = Running::with_node().await;
    running.initialize(multicast_node()).await.expect("a Node with multicast");
    let peer = worker();
    let objects = || vec![object(pod("web", 24)), object(pod("db", 25)), peer.clone()];
    running.sync(round(1), objects()).await.expect("a sync");
    let flows = running.flow_count().await;
    let reader = running.reader().await;
    reader.send(joins(3, [0; 4], [239, 1, 1, 1])).await.expect("room");
    reader.send(joins(2, [192, 168, 77, 103], [239, 1, 1, 1])).await.expect("room");
    // Nobody knows who that is.
    reader.send(joins(2, [192, 168, 77, 104], [239, 1, 1, 2])).await.expect("room");
    let listed = running.groups(|states| receivers(states) == 2).await;
    let (address, pods) = (Ipv4Addr::new(239, 1, 1, 1).to_string(), vec!["default/web".to_owned()]);
    let want = v1::MulticastGroup { address, pods, nodes: vec!["worker-1".to_owned()] };
    assert_eq!(listed.iter().map(|state| state.group.clone()).collect::<Vec<_>>(), [Some(want)]);
    let members: Vec<_> = listed[0].members.iter().map(|member| (member.pod.as_str(), member.version)).collect();
    assert_eq!(members, [("default/web", 3)]);
    assert_eq!(running.flow_count().await, flows + 1, "the group's");
    let sent = running.switch.calls.lock().iter().filter(|call| call.starts_with("packet-out")).count();
    assert!(sent >= 4, "queries in three versions, and a question to the other Node: {sent}");
    // A sync sweeps nothing that no agent declared; a Pod that goes takes its membership along.
    let synced = running.sync(round(2), objects()).await.expect("a sync").result.unwrap_or_default();
    assert_eq!(synced.flows_changed, 0, "{synced:?}");
    running.sync(round(3), vec![object(pod("db", 25)), peer.clone()]).await.expect("a sync");
    running.groups(|states| receivers(states) == 1).await;
    // Without the feature all of it is over.
    running.initialize(node()).await.expect("a Node without multicast");
    running.groups(<[_]>::is_empty).await;
    running.stop().await;
}

#[tokio::test]
async fn groups_are_the_switchs_unless_the_agent_reads_igmp() {
    let running = Running::with_node().await;
    let mut client = MulticastServiceClient::new(running.channel.clone());
    let config = |seconds, versions: &[u32]| v1::SetMulticastConfigRequest {
        config: Some(v1::MulticastConfig { query_interval_seconds: seconds, query_versions: versions.to_vec() }),
    };
    running.initialize(node()).await.expect("a Node");
    let status = client.set_multicast_config(config(5, &[3])).await.expect_err("no multicast");
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    running.initialize(multicast_node()).await.expect("a Node with multicast");
    running.sync(round(1), vec![object(pod("web", 24)), object(pod("db", 25))]).await.expect("a sync");
    client.set_multicast_config(config(5, &[2, 3])).await.expect("a good one");
    for (seconds, versions) in [(3601, &[][..]), (5, &[0]), (5, &[4]), (5, &[3, 3])] {
        let status = client.set_multicast_config(config(seconds, versions)).await.expect_err("a bad one");
        assert_eq!(status.code(), Code::InvalidArgument, "{seconds} {versions:?}: {status}");
    }
    let group =
        v1::MulticastGroup { address: "239.1.1.1".to_owned(), pods: vec!["default/web".to_owned()], nodes: vec![] };
    let apply = || v1::ApplyMulticastGroupsRequest { options: None, groups: vec![group.clone()] };
    let status = client.apply_multicast_groups(apply()).await.expect_err("the switch knows");
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    let said = v1::NodeConfig { taken_over: vec![v1::PacketCategory::Igmp.into()], ..multicast_node() };
    running.initialize(said).await.expect("a Node whose agent reads IGMP");
    let applied =
        client.apply_multicast_groups(apply()).await.expect("an answer").into_inner().result.unwrap_or_default();
    assert!(applied.applied, "{applied:?}");
    let request = v1::ListMulticastGroupsRequest::default();
    let mut stream = client.list_multicast_groups(request).await.expect("a list").into_inner();
    let listed = stream.message().await.expect("a message").expect("one").groups;
    assert_eq!(listed[0].group.as_ref(), Some(&group));
    assert_ne!(listed[0].group_id, 0);
    let mut stream = client
        .list_multicast_statistics(v1::ListMulticastStatisticsRequest::default())
        .await
        .expect("a list")
        .into_inner();
    let pods = stream.message().await.expect("a message").expect("one").pods;
    assert_eq!(pods.iter().map(|pod| pod.pod.as_str()).collect::<Vec<_>>(), ["default/db", "default/web"]);
    let gone = v1::DeleteMulticastGroupsRequest { options: None, addresses: vec!["239.1.1.1".to_owned()] };
    let gone = client.delete_multicast_groups(gone).await.expect("an answer").into_inner().result.unwrap_or_default();
    assert_eq!(gone.counts.get("REMOVED"), Some(&1), "{gone:?}");
    running.stop().await;
}
