//! Flows as messages of Antrea's FlowExportService, which the Flow Aggregator serves.

use crate::flow::{Counts, EndReason, Flow, FlowType, PolicyUse, RuleAction};
use proto::{
    FlowEndReason, Ip, IpVersion, Ipfix, Kubernetes, Labels, NetworkPolicyRuleAction, NetworkPolicyType, Stats, Tcp,
    Transport, transport,
};
use std::net::IpAddr;

/// The interface, generated from `proto/flow.proto`.
#[allow(clippy::all, missing_docs, unreachable_pub, unused_qualifications, missing_debug_implementations)] // generated
pub mod proto {
    tonic::include_proto!("antrea_io.antrea.pkg.apis.flow.v1alpha1");
}

/// Flows of one message. Antrea's exporter sends one; its aggregator takes several.
pub const FLOWS_MAX: usize = 64;

/// A flow of a Node, at a time in milliseconds since 1970-01-01 00:00:00 UTC.
#[must_use]
pub fn message(flow: &Flow, domain: u32, unix_ms: u64) -> proto::Flow {
    let ipfix = Ipfix { export_time: Some(time(unix_ms)), observation_domain_id: domain, ..Ipfix::default() };
    let version = if flow.source.is_ipv4() { IpVersion::IpVersion4 } else { IpVersion::IpVersion6 };
    let ip = Ip { version: version.into(), source: bytes(&flow.source), destination: bytes(&flow.destination) };
    let has_state = !flow.tcp_state.is_empty();
    let tcp = has_state.then(|| transport::Protocol::Tcp(Tcp { state_name: flow.tcp_state.clone() }));
    let transport = Transport {
        protocol_number: flow.protocol.into(),
        source_port: flow.source_port.into(),
        destination_port: flow.destination_port.into(),
        protocol: tcp,
    };
    let (proxy_snat_ip, proxy_snat_port) = match &flow.translated {
        Some((address, port)) => (bytes(address), u32::from(*port)),
        None => (Vec::new(), 0),
    };
    proto::Flow {
        id: String::new(),
        ipfix: Some(ipfix),
        start_ts: Some(time(flow.start_ms)),
        end_ts: Some(time(flow.end_ms)),
        end_reason: match flow.reason {
            EndReason::Idle => FlowEndReason::IdleTimeout,
            EndReason::Active => FlowEndReason::ActiveTimeout,
            EndReason::End => FlowEndReason::EndOfFlow,
        }
        .into(),
        ip: Some(ip),
        transport: Some(transport),
        k8s: Some(kubernetes(flow)),
        stats: Some(stats(&flow.forward)),
        reverse_stats: Some(stats(&flow.reverse)),
        proxy_snat_ip,
        proxy_snat_port,
    }
}

fn kubernetes(flow: &Flow) -> Kubernetes {
    let (source, destination) = (&flow.source_pod, &flow.destination_pod);
    let (ingress, egress) = (&flow.ingress, &flow.egress_policy);
    let labels =
        |pod: &crate::PodEnd| (!pod.name.is_empty()).then(|| Labels { labels: pod.labels.iter().cloned().collect() });
    let mut k8s = Kubernetes {
        flow_type: match flow.flow_type {
            FlowType::Unknown => proto::FlowType::Unspecified,
            FlowType::IntraNode => proto::FlowType::IntraNode,
            FlowType::InterNode => proto::FlowType::InterNode,
            FlowType::ToExternal => proto::FlowType::ToExternal,
            FlowType::FromExternal => proto::FlowType::FromExternal,
        }
        .into(),
        source_pod_namespace: source.namespace.clone(),
        source_pod_name: source.name.clone(),
        source_pod_uid: source.uid.clone(),
        source_pod_labels: labels(source),
        source_node_name: source.node.clone(),
        source_node_uid: source.node_uid.clone(),
        destination_pod_namespace: destination.namespace.clone(),
        destination_pod_name: destination.name.clone(),
        destination_pod_uid: destination.uid.clone(),
        destination_pod_labels: labels(destination),
        destination_node_name: destination.node.clone(),
        destination_node_uid: destination.node_uid.clone(),
        ingress_network_policy_type: kind(ingress).into(),
        ingress_network_policy_namespace: ingress.namespace.clone(),
        ingress_network_policy_name: ingress.name.clone(),
        ingress_network_policy_uid: ingress.uid.clone(),
        ingress_network_policy_rule_name: ingress.rule.clone(),
        ingress_network_policy_rule_action: action(ingress).into(),
        egress_network_policy_type: kind(egress).into(),
        egress_network_policy_namespace: egress.namespace.clone(),
        egress_network_policy_name: egress.name.clone(),
        egress_network_policy_uid: egress.uid.clone(),
        egress_network_policy_rule_name: egress.rule.clone(),
        egress_network_policy_rule_action: action(egress).into(),
        egress_name: flow.egress.name.clone(),
        egress_ip: flow.egress.address.parse().map(|address| bytes(&address)).unwrap_or_default(),
        egress_node_name: flow.egress.node.clone(),
        ..Kubernetes::default()
    };
    if let Some(service) = &flow.service {
        // Older aggregators read the older one of the two fields.
        k8s.destination_cluster_ip = bytes(&service.address);
        k8s.destination_service_ip = bytes(&service.address);
        k8s.destination_service_port = service.port.into();
        k8s.destination_service_port_name.clone_from(&service.port_name);
        k8s.destination_service_uid.clone_from(&service.uid);
    }
    k8s
}

fn kind(policy: &PolicyUse) -> NetworkPolicyType {
    NetworkPolicyType::try_from(i32::from(policy.kind)).unwrap_or_default()
}

fn action(policy: &PolicyUse) -> NetworkPolicyRuleAction {
    match policy.action {
        RuleAction::None => NetworkPolicyRuleAction::NoAction,
        RuleAction::Allow => NetworkPolicyRuleAction::Allow,
        RuleAction::Drop => NetworkPolicyRuleAction::Drop,
        RuleAction::Reject => NetworkPolicyRuleAction::Reject,
    }
}

fn stats(counts: &Counts) -> Stats {
    Stats {
        packet_total_count: counts.packets,
        packet_delta_count: counts.new_packets,
        octet_total_count: counts.bytes,
        octet_delta_count: counts.new_bytes,
    }
}

fn bytes(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn time(unix_ms: u64) -> prost_types::Timestamp {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    // (Below a billion.)
    let nanos = i32::try_from(unix_ms % 1000 * 1_000_000).unwrap_or(0);
    prost_types::Timestamp { seconds, nanos }
}

#[cfg(test)]
mod tests;
