use super::*;
use prost::Message;
use prost_types::FileDescriptorSet;
use std::collections::BTreeMap;

/// Numbers of Antrea's fields, as its `pkg/apis/flow/v1alpha1/flow.proto` has them.
const FIELDS: [(&str, &[(&str, i32)]); 9] = [
    ("ExportRequest", &[("flows", 1)]),
    ("IPFIX", &[("export_time", 1), ("sequence_number", 2), ("observation_domain_id", 3), ("exporter_ip", 4)]),
    ("IP", &[("version", 1), ("source", 2), ("destination", 3)]),
    ("TCP", &[("state_name", 1)]),
    ("Transport", &[("protocol_number", 1), ("source_port", 2), ("destination_port", 3), ("TCP", 4)]),
    (
        "Stats",
        &[("packet_total_count", 1), ("packet_delta_count", 2), ("octet_total_count", 3), ("octet_delta_count", 4)],
    ),
    ("Labels", &[("labels", 1)]),
    (
        "Kubernetes",
        &[
            ("flow_type", 1),
            ("source_pod_namespace", 2),
            ("source_pod_name", 3),
            ("source_pod_uid", 4),
            ("source_pod_labels", 5),
            ("source_node_name", 6),
            ("source_node_uid", 7),
            ("destination_pod_namespace", 8),
            ("destination_pod_name", 9),
            ("destination_pod_uid", 10),
            ("destination_pod_labels", 11),
            ("destination_node_name", 12),
            ("destination_node_uid", 13),
            ("destination_cluster_ip", 14),
            ("destination_service_port", 15),
            ("destination_service_port_name", 16),
            ("destination_service_uid", 17),
            ("ingress_network_policy_type", 18),
            ("ingress_network_policy_namespace", 19),
            ("ingress_network_policy_name", 20),
            ("ingress_network_policy_uid", 21),
            ("ingress_network_policy_rule_name", 22),
            ("ingress_network_policy_rule_action", 23),
            ("egress_network_policy_type", 24),
            ("egress_network_policy_namespace", 25),
            ("egress_network_policy_name", 26),
            ("egress_network_policy_uid", 27),
            ("egress_network_policy_rule_name", 28),
            ("egress_network_policy_rule_action", 29),
            ("egress_name", 30),
            ("egress_ip", 31),
            ("egress_node_name", 32),
            ("egress_node_uid", 33),
            ("egress_uid", 34),
            ("destination_service_ip", 35),
        ],
    ),
    (
        "Flow",
        &[
            ("id", 1),
            ("ipfix", 2),
            ("start_ts", 3),
            ("end_ts", 4),
            ("end_reason", 5),
            ("ip", 6),
            ("transport", 7),
            ("k8s", 8),
            ("stats", 9),
            ("reverse_stats", 10),
            ("proxy_snat_ip", 14),
            ("proxy_snat_port", 15),
        ],
    ),
];

#[test]
fn fields_have_the_numbers_of_antrea() {
    let bytes: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/flow_descriptor.bin"));
    let set = FileDescriptorSet::decode(bytes).expect("descriptors");
    let file = set.file.iter().find(|file| file.package() == "antrea_io.antrea.pkg.apis.flow.v1alpha1");
    let file = file.expect("the package of Antrea");
    let messages: BTreeMap<&str, BTreeMap<&str, i32>> = file
        .message_type
        .iter()
        .map(|message| (message.name(), message.field.iter().map(|field| (field.name(), field.number())).collect()))
        .collect();
    for (message, fields) in FIELDS {
        assert_eq!(messages[message], fields.iter().copied().collect(), "{message}");
    }
    assert_eq!(messages.len(), FIELDS.len() + 1, "and ExportResponse, which is empty");
    let service = file.service.first().expect("a service");
    let method = service.method.first().expect("a method");
    assert_eq!((service.name(), method.name(), method.client_streaming()), ("FlowExportService", "Export", true));
}

#[test]
fn a_flow_says_all_that_is_known() {
    let address = |text: &str| -> IpAddr { text.parse().expect("an address") };
    let pod = |name: &str| crate::PodEnd {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        node: "n1".to_owned(),
        labels: vec![("app".to_owned(), name.to_owned())],
        ..crate::PodEnd::default()
    };
    let flow = Flow {
        start_ms: 1_700_000_000_250,
        protocol: 6,
        source_port: 40_000,
        destination_port: 8080,
        reason: EndReason::End,
        forward: Counts { packets: 5, bytes: 500, new_packets: 2, new_bytes: 200 },
        source_pod: pod("client"),
        destination_pod: pod("web"),
        service: Some(crate::ServiceUse {
            port_name: "shop/web:http".to_owned(),
            address: address("10.96.0.9"),
            port: 80,
            uid: "us".to_owned(),
        }),
        ingress: PolicyUse { kind: 3, name: "p".to_owned(), action: RuleAction::Allow, ..PolicyUse::default() },
        tcp_state: "TIME_WAIT".to_owned(),
        flow_type: FlowType::IntraNode,
        translated: Some((address("10.0.0.1"), 7)),
        ..Flow::new(address("10.0.0.5"), address("10.0.0.6"))
    };
    let made = message(&flow, 9, 1_700_000_001_000);
    let start = made.start_ts.as_ref().expect("a time");
    assert_eq!((start.seconds, start.nanos), (1_700_000_000, 250_000_000));
    assert_eq!(made.end_reason(), FlowEndReason::EndOfFlow);
    let ip = made.ip.as_ref().expect("addresses");
    assert_eq!(
        (ip.version(), &ip.source[..], &ip.destination[..]),
        (IpVersion::IpVersion4, &[10, 0, 0, 5][..], &[10, 0, 0, 6][..])
    );
    let k8s = made.k8s.as_ref().expect("what the cluster knows");
    assert_eq!(
        (&*k8s.source_pod_name, &*k8s.destination_pod_uid, k8s.flow_type()),
        ("client", "uid-web", proto::FlowType::IntraNode)
    );
    assert_eq!((&k8s.destination_service_ip[..], k8s.destination_service_port), (&[10, 96, 0, 9][..], 80));
    assert_eq!(k8s.destination_cluster_ip, k8s.destination_service_ip);
    assert_eq!(
        (k8s.ingress_network_policy_type(), k8s.ingress_network_policy_rule_action()),
        (NetworkPolicyType::Acnp, NetworkPolicyRuleAction::Allow)
    );
    assert_eq!(k8s.source_pod_labels.as_ref().map(|labels| &*labels.labels["app"]), Some("client"));
    assert_eq!(made.stats.as_ref().map(|stats| (stats.packet_total_count, stats.octet_delta_count)), Some((5, 200)));
    assert_eq!((&made.proxy_snat_ip[..], made.proxy_snat_port), (&[10, 0, 0, 1][..], 7));
    let six = message(&Flow::new(address("fd00::1"), address("fd00::2")), 9, 0);
    assert_eq!(six.ip.as_ref().map(|ip| (ip.version(), ip.source.len())), Some((IpVersion::IpVersion6, 16)));
}
