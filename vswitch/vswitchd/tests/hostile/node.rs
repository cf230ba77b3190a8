//! A Node of Antrea's kind whose ports are dummies.

use crate::bed::{BRIDGE, Bed};
use crate::common::{Switch, number};
use std::thread::JoinHandle;
use tonic::Status;
use tonic::transport::Endpoint;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::node_service_client::NodeServiceClient;
use vswitch_proto::antrea::v1::pod_service_client::PodServiceClient;
use vswitch_proto::antrea::v1::sync_service_client::SyncServiceClient;
use vswitch_proto::v1::MacAddress;

pub(crate) fn mac(last: u8) -> Option<MacAddress> {
    Some(MacAddress { octets: vec![2, 0, 0, 0, 0, last] })
}

/// Makes the bridge that of a Node: p1 is its gateway.
pub(crate) fn initialize(bed: &Bed) {
    let gateway = v1::Gateway { port: "p1".to_owned(), mac: mac(1), addresses: vec!["10.10.0.1".to_owned()] };
    let node = v1::NodeConfig {
        name: "node".to_owned(),
        bridge: BRIDGE.to_owned(),
        transport_addresses: vec!["192.168.77.102/24".to_owned()],
        pod_cidrs: vec!["10.10.0.0/24".to_owned()],
        traffic_mode: v1::TrafficMode::NoEncap.into(),
        gateway: Some(gateway),
        ..v1::NodeConfig::default()
    };
    let request = v1::InitializeRequest { node: Some(node), round: 0 };
    bed.wait(NodeServiceClient::new(bed.channel()).initialize(request)).expect("a Node");
}

/// A Pod at port p2.
pub(crate) fn pod(last: u8) -> v1::Pod {
    v1::Pod {
        name: "default/web".to_owned(),
        port: "p2".to_owned(),
        addresses: vec![format!("10.10.0.{last}")],
        mac: mac(last),
        ..v1::Pod::default()
    }
}

fn messages(round: u64, pod: v1::Pod) -> [v1::SyncRequest; 2] {
    let objects = vec![v1::Object { object: Some(v1::object::Object::Pod(pod)) }];
    let begin = Some(v1::SyncBegin { round, ..Default::default() });
    let commit = Some(v1::SyncCommit { objects: 1 });
    [v1::SyncRequest { begin, ..Default::default() }, v1::SyncRequest { objects, commit, ..Default::default() }]
}

/// A sync of one Pod.
pub(crate) fn sync(bed: &Bed, round: u64, pod: v1::Pod) {
    let messages = tokio_stream::iter(messages(round, pod));
    bed.wait(SyncServiceClient::new(bed.channel()).sync(messages)).expect("a sync");
}

/// The same, beside what the test does.
pub(crate) fn sync_beside(switch: &Switch, round: u64, pod: v1::Pod) -> JoinHandle<Result<v1::SyncResponse, Status>> {
    let socket = format!("unix://{}", switch.socket().display());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let channel = Endpoint::from_shared(socket).expect("an address").connect().await.expect("vswitchd listens");
            let messages = tokio_stream::iter(messages(round, pod));
            Ok(SyncServiceClient::new(channel).sync(messages).await?.into_inner())
        })
    })
}

/// Writes a Pod.
pub(crate) fn apply(bed: &Bed, pod: v1::Pod) {
    let request = v1::ApplyPodsRequest { options: None, pods: vec![pod] };
    bed.wait(PodServiceClient::new(bed.channel()).apply_pods(request)).expect("an answer");
}

/// The round that `vsctl antrea status` shows.
pub(crate) fn round(bed: &Bed) -> u64 {
    number(&bed.switch.json(&["antrea", "status"]), "round")
}
