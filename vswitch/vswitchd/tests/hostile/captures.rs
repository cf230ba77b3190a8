//! Captures of what policies deny: the comment of a packet names the policy whose rule denies it.

use crate::bed::{BRIDGE, Bed};
use crate::common::wait_for;
use crate::connections::summed;
use crate::drops::tshark;
use crate::node;
use std::time::Duration;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::network_policy_service_client::NetworkPolicyServiceClient;

/// Any wait of this test: a hang, not a delay, is what fails it.
const LIMIT: Duration = Duration::from_secs(60);

/// The Pod's last byte of addresses.
const POD: u8 = 2;

/// UDP to a port of an address in 203.0.113.0/24, from the Pod by its gateway.
fn packet(port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, POD, 8, 0];
    frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 10, 0, POD, 203, 0, 113, 9]);
    frame.extend([3, 232]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 8, 0, 0]);
    summed(frame)
}

/// A policy of a cluster denies port 5000; one of Kubernetes isolates what is left.
fn policies() -> v1::ApplyNetworkPoliciesRequest {
    let deny = v1::Rule {
        id: "no-5000".to_owned(),
        direction: v1::Direction::Egress.into(),
        action: v1::RuleAction::Drop.into(),
        ports: vec![v1::PortMatch { protocol: v1::Protocol::Udp.into(), port: 5000, ..Default::default() }],
        ..Default::default()
    };
    let policy = |name: &str, kind: v1::PolicyKind| v1::NetworkPolicy {
        name: name.to_owned(),
        kind: kind.into(),
        applied_to: vec!["web".to_owned()],
        ..Default::default()
    };
    let cluster = v1::NetworkPolicy {
        tier: 250,
        priority: 5.0,
        rules: vec![deny],
        ..policy("acnp:no-5000", v1::PolicyKind::AntreaCluster)
    };
    let isolating = v1::NetworkPolicy { isolates_egress: true, ..policy("np:default/only", v1::PolicyKind::K8s) };
    let pods = vec!["default/web".to_owned()];
    v1::ApplyNetworkPoliciesRequest {
        policies: vec![cluster, isolating],
        applied_to_groups: vec![v1::AppliedToGroup { name: "web".to_owned(), pods, services: Vec::new() }],
        ..Default::default()
    }
}

#[test]
fn a_capture_of_denied_packets_names_the_policy_of_the_rule() {
    let mut bed = Bed::new(2);
    node::initialize(&bed);
    node::sync(&bed, 1, node::pod(POD));
    let applied = bed.wait(NetworkPolicyServiceClient::new(bed.channel()).apply_network_policies(policies()));
    let result = applied.expect("an answer").into_inner().result.expect("a result");
    assert!(result.applied, "{result:?}");
    let file = bed.switch.dir().join("denied.pcapng");
    let path = file.to_str().expect("UTF-8");
    let limits = ["--count", "2", "--seconds", "600"];
    let words = [&["capture", BRIDGE, "p2", "--point", "drop", "-w", path][..], &limits].concat();
    let mut capture = bed.switch.vsctl_spawn(&words);
    // The file is made when the switch captures.
    wait_for("the capture", LIMIT, || file.exists());
    for port in [5000, 5001] {
        assert_eq!(bed.send("p2", &packet(port)), [], "{port}");
    }
    wait_for("both packets", LIMIT, || capture.try_wait().expect("a child").is_some());
    assert!(capture.wait().expect("it has ended").success());
    let comments = tshark(&file, &["udp.dstport", "frame.comment"]);
    let [web, other] = &comments[..] else { panic!("{comments:?}") };
    assert!(web.starts_with("5000;drop: rule_drop; table ") && web.ends_with("; policy acnp:no-5000"), "{comments:?}");
    assert!(other.starts_with("5001;drop: rule_drop; table "), "{comments:?}");
    assert!(!other.contains("policy"), "policies share the rule that isolates: {comments:?}");
}
