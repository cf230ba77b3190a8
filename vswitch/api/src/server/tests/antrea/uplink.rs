//! The bridge behind the uplink: what it must be, what is written there and when, and that nothing
//! stays.

use super::super::{Running, internal, soon};
use super::telling::{event, started};
use super::{mac, node, round};
use std::time::Duration;
use tonic::Code;
use vswitch_control::SwitchApi;
use vswitch_dataplane::packet::Mac;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::egress_service_client::EgressServiceClient;
use vswitch_proto::antrea::v1::node_service_client::NodeServiceClient;
use vswitch_proto::antrea::v1::watch_events_response::Event;
use vswitch_proto::v1::{PatchPort, PortConfig, port_config::Kind};

fn patch(name: &str, peer: &str) -> PortConfig {
    PortConfig { kind: Some(Kind::Patch(PatchPort { peer: peer.to_owned() })), ..internal(name) }
}

pub(super) fn wired() -> v1::NodeConfig {
    let hop = v1::NextHop { address: "192.168.77.1".to_owned(), mac: None };
    let uplink = v1::Uplink {
        port: "up0".to_owned(),
        underlay_bridge: "br-phy".to_owned(),
        mac: mac(2),
        next_hops: vec![hop],
        ..v1::Uplink::default()
    };
    v1::NodeConfig { uplink: Some(uplink), ..node() }
}

fn egress() -> v1::Egress {
    v1::Egress {
        name: "out".to_owned(),
        address: "192.168.77.112".to_owned(),
        node: "worker-2".to_owned(),
        ..v1::Egress::default()
    }
}

impl Running {
    /// As [`Self::with_node`], with a bridge behind an uplink: its VTEP, and the two ends between
    /// them.
    pub(super) async fn with_uplink() -> Self {
        let running = Self::with_node().await;
        running.add_bridge("br-phy").await.expect("a new bridge");
        let addresses = vec!["192.168.77.102/24".to_owned()];
        let vtep = PortConfig { mac: mac(2), addresses, ..internal("br-phy") };
        for (bridge, port) in [("br-int", patch("up0", "down0")), ("br-phy", patch("down0", "up0")), ("br-phy", vtep)] {
            running.add_port(bridge, port).await.expect("a new port");
        }
        running
    }

    pub(super) fn on_wire(&self) -> usize {
        self.switch.flows("br-phy", &vswitch_flow::spec::FlowFilter::default()).expect("the bridge").len()
    }

    fn vteps(&self) -> Vec<String> {
        let ports = self.switch.ports("br-phy").expect("the bridge");
        let vtep = ports.into_iter().find(|port| port.config.name == "br-phy").expect("the VTEP");
        vtep.config.addresses.iter().map(|own| own.address.to_string()).collect()
    }

    async fn hop(&self) -> Option<Vec<u8>> {
        let mut client = NodeServiceClient::new(self.channel.clone());
        let told = client.get_node(v1::GetNodeRequest {}).await.expect("a Node").into_inner();
        told.next_hops.first().and_then(|hop| hop.mac.clone()).map(|mac| mac.octets)
    }

    pub(super) async fn until_same<T: PartialEq>(&self, wanted: &T, look: impl AsyncFn() -> T) {
        let wait = async {
            while look().await != *wanted {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait).await.expect("it did not come to that");
    }
}

#[tokio::test]
async fn the_bridge_behind_the_uplink_is_as_it_must_be() {
    let running = Running::with_uplink().await;
    let wrong = |change: fn(&mut v1::Uplink)| {
        let mut node = wired();
        node.uplink.as_mut().into_iter().for_each(change);
        node
    };
    for (config, field) in [
        (wrong(|uplink| uplink.underlay_bridge = "br-none".to_owned()), "uplink.underlay_bridge"),
        (wrong(|uplink| uplink.underlay_bridge = "br-int".to_owned()), "uplink.underlay_bridge"),
        (wrong(|uplink| uplink.port = "web".to_owned()), "uplink.port"),
        (wrong(|uplink| uplink.mac = mac(9)), "uplink.mac"),
    ] {
        let status = running.initialize(config).await.expect_err("it is wrong");
        assert!(matches!(status.code(), Code::NotFound | Code::InvalidArgument), "{status}");
        assert!(status.message().contains(field), "{status}");
    }
    running.initialize(wired()).await.expect("a Node");
    for (bridge, port) in [("br-phy", "br-phy"), ("br-phy", "down0"), ("br-int", "up0")] {
        let status = running.delete_port(bridge, port).await.expect_err("a port in use");
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    }
    running.stop().await;
}

#[tokio::test]
async fn it_follows_what_objects_need_and_nothing_stays() {
    let running = Running::with_uplink().await;
    running.initialize(wired()).await.expect("a Node");
    let mut egresses = EgressServiceClient::new(running.channel.clone());
    let request = v1::ApplyEgressesRequest { options: None, egresses: vec![egress()] };
    let result = soon("egresses", egresses.apply_egresses(request)).await.expect("an answer").into_inner().result;
    assert!(result.is_some_and(|result| result.applied));
    assert_eq!((running.on_wire(), running.vteps()), (0, vec!["192.168.77.102".to_owned()]), "the gate is shut");
    let object = v1::Object { object: Some(v1::object::Object::Egress(egress())) };
    running.sync(round(1), vec![object]).await.expect("a sync");
    let both = ["192.168.77.102".to_owned(), "192.168.77.112".to_owned()];
    let flows = running.on_wire();
    assert!(flows > 3, "{flows}");
    assert_eq!(running.vteps(), both);

    // The next hop answers, and says something else later.
    let mut events = running.events(&[v1::EventKind::ObjectChanged]).await;
    started(&mut events).await;
    for last in [7, 8] {
        let hop = "192.168.77.1".parse().expect("an address");
        running.switch.set_neighbour("br-phy", hop, Mac([2, 0, 0, 0, 0, last])).expect("a neighbour");
        running.until_same(&Some(vec![2, 0, 0, 0, 0, last]), async || running.hop().await).await;
    }
    assert_eq!(running.state().await.degraded, []);
    // The Egress has its way out, which is told.
    let told = async {
        loop {
            let Event::ObjectChanged(changed) = event(&mut events).await else { panic!("another event") };
            let status = changed.status.unwrap_or_default();
            if status.object.as_ref().is_some_and(|object| object.name == egress().name) {
                return status.outcome();
            }
        }
    };
    assert_eq!(soon("the Egress", told).await, v1::ObjectOutcome::Applied);

    // What somebody else takes away comes again: addresses by themselves, flows with a sync that
    // looks.
    let change = vswitch_control::PortChange {
        addresses: Some(vec!["192.168.77.102/24".parse().expect("an address")]),
        ..vswitch_control::PortChange::default()
    };
    running.switch.modify_port("br-phy", "br-phy", &change).expect("a change");
    running.until_same(&both.to_vec(), async || running.vteps()).await;
    let everything = vswitch_flow::spec::Update::DeleteFlows(vswitch_flow::spec::FlowFilter::default());
    running.switch.write_pipeline("br-phy", &[everything]).expect("a transaction");
    let object = v1::Object { object: Some(v1::object::Object::Egress(egress())) };
    running.sync(v1::SyncBegin { verify_tables: true, ..round(2) }, vec![object]).await.expect("a sync");
    assert_eq!(running.on_wire(), flows);

    // The Egress goes, and what is there without it stays.
    running.sync(round(3), Vec::new()).await.expect("a sync");
    assert_eq!(running.vteps(), both[..1]);
    assert!((1..flows).contains(&running.on_wire()), "{}", running.on_wire());
    let mut client = NodeServiceClient::new(running.channel.clone());
    client.reset(v1::ResetRequest { round: 0 }).await.expect("a reset");
    assert_eq!((running.on_wire(), running.vteps()), (0, both[..1].to_vec()));
    running.stop().await;
}

#[tokio::test]
async fn pods_of_a_vlan_are_led_across_and_their_zones_are_strict() {
    let running = Running::with_uplink().await;
    let features = v1::Features { pod_vlans: true, ..v1::Features::default() };
    running.initialize(v1::NodeConfig { features: Some(features), ..wired() }).await.expect("a Node");
    let red = |vlan: u32| v1::Pod {
        name: "default/web".to_owned(),
        port: "web".to_owned(),
        addresses: vec![format!("172.16.{vlan}.9")],
        mac: mac(9),
        vlan,
        uid: String::new(),
        ..v1::Pod::default()
    };
    let strict = || running.switch.conntrack().tracker().zones_established_after_answer();
    let base = strict();
    assert_eq!(base.len(), 6, "{base:?}");
    running.sync(round(1), Vec::new()).await.expect("a sync");
    let flows = running.on_wire();
    for vlan in [100_u16, 200] {
        assert!(running.apply_pods(vec![red(vlan.into())], 1).await.expect("an answer").applied);
        assert!(strict().contains(&(0x1000 + vlan)), "{:?}", strict());
        // From the Pod, to the Pod, who asks all.
        assert_eq!(running.on_wire(), flows + 3);
    }
    // Another one there has its own two; what is in common stays with the last of them.
    let db = v1::Pod { name: "default/db".to_owned(), port: "db".to_owned(), mac: mac(10), ..red(200) };
    let db = v1::Pod { addresses: vec!["172.16.200.10".to_owned()], ..db };
    let object = |pod: &v1::Pod| v1::Object { object: Some(v1::object::Object::Pod(pod.clone())) };
    assert!(running.apply_pods(vec![db.clone()], 1).await.expect("an answer").applied);
    assert_eq!(running.on_wire(), flows + 5);
    running.sync(round(2), vec![object(&db)]).await.expect("a sync");
    assert_eq!(running.on_wire(), flows + 3);
    running.sync(round(3), vec![object(&red(200))]).await.expect("a sync");
    assert_eq!(running.on_wire(), flows + 3);
    // Without the feature the Pod has no effect, and nothing is left of its VLAN.
    running.initialize(wired()).await.expect("another Node");
    assert_eq!(strict(), base);
    assert_eq!(running.on_wire(), flows);
    let degraded = running.state().await.degraded;
    assert!(
        degraded.iter().any(|status| status.problems.iter().any(|problem| problem.field == "vlan")),
        "{degraded:?}"
    );
    running.stop().await;
}
