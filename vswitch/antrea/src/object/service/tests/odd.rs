//! Whatever is sent: nothing panics, nothing is half taken.

use super::cluster_ip;
use crate::testing::{document_node, dual_node, node_state};
use proptest::prelude::*;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// Texts that are addresses, prefixes, names, or none of them.
fn text() -> impl Strategy<Value = String> {
    let known: &'static [&'static str] = &[
        "", "a", ":", "10.96.1.1", "10.10.0.24", "10.10.0.1", "fd00::1", "::", "::1", "ff02::1", "255.255.255.255", "0.0.0.0", "10.0.0.0/8", "0.0.0.0/0",
        "::/0", "fd00::/8", "10.0.0.1/8", "192.168.77.102", "169.254.0.252", "worker-2", "default/odd",
    ];
    prop_oneof![9 => prop::sample::select(known).prop_map(str::to_owned), 1 => ".{0,12}"]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..4)
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0_u32..100, 1 => 65_534_u32..65_538, 1 => any::<u32>()]
}

fn an_odd_service() -> impl Strategy<Value = Object> {
    let port = (text(), -1..7_i32, number(), number())
        .prop_map(|(name, protocol, port, node_port)| v1::ServicePort { name, protocol, port, node_port });
    let addresses = (texts(), texts(), texts(), texts());
    let numbers = ([-1..4_i32, -1..4, -1..4, -1..4], number(), any::<bool>());
    (text(), prop::collection::vec(port, 0..4), addresses, numbers).prop_map(
        |(name, ports, (cluster_ips, external_ips, load_balancer_ips, ranges), (choices, affinity, nested))| {
            Object::Service(v1::Service {
                name,
                ports,
                cluster_ips,
                external_ips,
                load_balancer_ips,
                internal_traffic_policy: choices[0],
                external_traffic_policy: choices[1],
                affinity_timeout_seconds: affinity,
                selection: choices[2],
                load_balancer_mode: choices[3],
                nested,
                load_balancer_source_ranges: ranges,
            })
        },
    )
}

fn an_odd_set() -> impl Strategy<Value = Object> {
    let endpoint = (text(), number(), text(), any::<[bool; 3]>(), number(), texts(), texts()).prop_map(
        |(address, port, node, [ready, serving, terminating], weight, hint_zones, hint_nodes)| v1::Endpoint {
            address,
            port,
            node,
            ready,
            serving,
            terminating,
            weight,
            hint_zones,
            hint_nodes,
        },
    );
    (text(), text(), prop::collection::vec(endpoint, 0..4))
        .prop_map(|(service, port, endpoints)| Object::Endpoints(v1::Endpoints { service, port, endpoints }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_sent_is_taken_or_refused_with_a_reason(
        objects in prop::collection::vec(prop_oneof![an_odd_service(), an_odd_set()], 1..6),
        dual in any::<bool>(),
    ) {
        let mut node = if dual { dual_node() } else { document_node() };
        node.features = Some(v1::Features { dsr: true, ..node.features.unwrap_or_default() });
        let mut node_state = node_state(&node, vec![Object::Service(cluster_ip("odd", "10.96.1.1"))]);
        let plan = node_state.plan(crate::Write { objects, valid_only: true, ..crate::Write::default() });
        for status in &plan.result.statuses {
            prop_assert_eq!(status.outcome() == v1::ObjectOutcome::Refused, status.problems.iter().any(|p| {
                !matches!(p.code.as_str(), "PENDING") && status.outcome() != v1::ObjectOutcome::Degraded
            }), "{:?}", status);
            prop_assert!(status.problems.iter().all(|problem| problem.code != "PIPELINE"), "{:?}", status);
        }
        node_state.settle(plan);
    }
}
