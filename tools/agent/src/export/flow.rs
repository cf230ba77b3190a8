//! Flows of records: names of both ends, and where they are.
//!
//! What is exported, and as which type, is as of Antrea's exporter: it tells connections of Pods,
//! once for each Node that a Pod is on.

use super::connections::Due;
use super::facts::Facts;
use crate::names::book::Named;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};
use vswitch_flow_export::{Flow, FlowType, PodEnd, ServiceUse};
use vswitch_proto::antrea::v1::FlowRecord;
use vswitch_proto::vswitch::v1::{ConnectionTuple, TcpState};

/// The time in milliseconds since 1970-01-01 00:00:00 UTC.
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The flow of a record that is due. None: such connections are not exported.
pub(super) fn flow(due: &Due, facts: &Facts, unix_ms: u64) -> Option<Flow> {
    let record = &*due.record;
    let original = record.original.as_ref()?;
    let source = address(&original.src)?;
    // Of a Service, answers come from its endpoint. What was denied has no answers.
    let (destination, port) = match &record.reply {
        Some(reply) => (address(&reply.src)?, reply.src_port),
        None => (address(&original.dst)?, original.dst_port),
    };
    let source_pod = pod(facts, &source, &record.source_pod);
    let destination_pod = pod(facts, &destination, &record.destination_pod);
    let flow_type = flow_type(facts, (&source, &record.source_pod), (&destination, &record.destination_pod))?;
    let [forward, reverse] = due.counts;
    Some(Flow {
        start_ms: record.start_unix_ms,
        end_ms: if record.end_unix_ms == 0 { unix_ms } else { record.end_unix_ms },
        reason: due.reason,
        source_port: number(original.src_port),
        destination_port: number(port),
        protocol: u8::try_from(original.protocol).unwrap_or_default(),
        forward,
        reverse,
        source_pod,
        destination_pod,
        service: service(facts, record, original),
        ingress: facts.policy(record.ingress_verdict.as_ref()),
        egress_policy: facts.policy(record.egress_verdict.as_ref()),
        tcp_state: tcp_state(record),
        flow_type,
        egress: if record.egress.is_empty() { Default::default() } else { facts.egress(&record.egress) },
        translated: translated(record),
        ..Flow::new(source, destination)
    })
}

/// The same without names of Pods of other Nodes.
pub(super) fn without_remote_names(mut flow: Flow, record: &FlowRecord) -> Flow {
    if record.source_pod.is_empty() {
        flow.source_pod = PodEnd::default();
    }
    if record.destination_pod.is_empty() {
        flow.destination_pod = PodEnd::default();
    }
    flow
}

/// Where the ends are. None: connections of gateways and of the host are not exported.
fn flow_type(facts: &Facts, source: (&IpAddr, &str), destination: (&IpAddr, &str)) -> Option<FlowType> {
    let is_here = |(_, pod): (&IpAddr, &str)| !pod.is_empty();
    let both = if is_here(source) && is_here(destination) { FlowType::IntraNode } else { FlowType::InterNode };
    if facts.is_policy_only {
        return Some(both);
    }
    if facts.is_gateway(destination.0) {
        return None;
    }
    if facts.is_gateway(source.0) {
        // By a gateway come connections from outside that another Node has let in.
        return is_here(destination).then_some(FlowType::InterNode);
    }
    let is_pod = |(address, pod): (&IpAddr, &str)| !pod.is_empty() || facts.is_pod(address);
    match (is_pod(source), is_pod(destination)) {
        (true, true) => Some(both),
        (false, true) => Some(FlowType::FromExternal),
        // The Node of an Egress sees the connections of Pods of other Nodes, which tell them.
        (true, false) => is_here(source).then_some(FlowType::ToExternal),
        (false, false) => None,
    }
}

/// The Pod at an end: that of this Node which the switch names, or another one by its address.
fn pod(facts: &Facts, address: &IpAddr, here: &str) -> PodEnd {
    let named = facts.book.get(address).filter(|named| !named.pod.is_empty());
    if here.is_empty() {
        return named.map(|named| end(facts, named)).unwrap_or_default();
    }
    let (namespace, name) = here.split_once('/').unwrap_or(("", here));
    match named.filter(|named| named.namespace == namespace && named.pod == name) {
        Some(named) => end(facts, named),
        // The Pod is gone, or has no document: what the switch remembers is its name.
        None => PodEnd {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            node: facts.node.clone(),
            node_uid: facts.node_uid(&facts.node),
            ..PodEnd::default()
        },
    }
}

fn end(facts: &Facts, named: &Named) -> PodEnd {
    PodEnd {
        namespace: named.namespace.clone(),
        name: named.pod.clone(),
        uid: named.uid.clone(),
        node: named.node.clone(),
        node_uid: facts.node_uid(&named.node),
        labels: named.labels.clone().into_iter().collect(),
    }
}

fn service(facts: &Facts, record: &FlowRecord, original: &ConnectionTuple) -> Option<ServiceUse> {
    if record.service.is_empty() {
        return None;
    }
    let address = address(&original.dst)?;
    let uid = facts.book.get(&address).filter(|named| !named.service.is_empty()).map(|named| named.uid.clone());
    let (port_name, port) = (record.service.clone(), number(original.dst_port));
    Some(ServiceUse { port_name, address, port, uid: uid.unwrap_or_default() })
}

/// Address and port of the sender behind a Service's translation. An Egress tells its own.
fn translated(record: &FlowRecord) -> Option<(IpAddr, u16)> {
    let is_service = !record.service.is_empty() && record.egress.is_empty();
    let address = record.translated_source.parse().ok().filter(|_| is_service)?;
    Some((address, number(record.reply.as_ref().map_or(0, |reply| reply.dst_port))))
}

fn tcp_state(record: &FlowRecord) -> String {
    match record.tcp.as_ref().map(vswitch_proto::vswitch::v1::TcpConnection::merged) {
        None | Some(TcpState::Unspecified) => String::new(),
        Some(state) => state.as_str_name().trim_start_matches("TCP_STATE_").to_owned(),
    }
}

fn number(port: u32) -> u16 {
    u16::try_from(port).unwrap_or_default()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::facts::tests::facts;
    use vswitch_flow_export::{Counts, EndReason};
    use vswitch_proto::vswitch::v1::TcpConnection;

    fn tuple(src: [u8; 4], dst: [u8; 4], src_port: u32, dst_port: u32) -> Option<ConnectionTuple> {
        Some(ConnectionTuple { src: src.to_vec(), dst: dst.to_vec(), protocol: 6, src_port, dst_port, icmp: None })
    }

    fn due(record: FlowRecord) -> Due {
        let counts = [Counts { packets: 2, bytes: 100, new_packets: 1, new_bytes: 50 }, Counts::default()];
        Due { record: Box::new(record), reason: EndReason::Active, counts }
    }

    /// From Pod `a/p` of this Node to Pod `a/q` by a Service.
    fn by_service() -> FlowRecord {
        FlowRecord {
            original: tuple([10, 0, 1, 5], [10, 96, 0, 9], 4000, 80),
            reply: tuple([10, 0, 2, 6], [10, 0, 1, 1], 8080, 5000),
            translated_source: "10.0.1.1".to_owned(),
            source_pod: "a/p".to_owned(),
            service: "a/s:http".to_owned(),
            start_unix_ms: 7,
            tcp: Some(TcpConnection { merged: TcpState::Established.into(), ..TcpConnection::default() }),
            ..FlowRecord::default()
        }
    }

    #[test]
    fn both_ends_and_the_service_have_names() {
        let (facts, due) = (facts(), due(by_service()));
        let flow = flow(&due, &facts, 99).expect("exported");
        let names = |pod: &PodEnd| [&pod.namespace, &pod.name, &pod.uid, &pod.node, &pod.node_uid].map(Clone::clone);
        assert_eq!(names(&flow.source_pod), ["a", "p", "uid-p", "n1", "uid-n1"]);
        assert_eq!(names(&flow.destination_pod), ["a", "q", "uid-q", "n2", "uid-n2"]);
        let service = flow.service.as_ref().expect("a Service");
        assert_eq!(
            (&*service.port_name, &*service.address.to_string(), service.port, &*service.uid),
            ("a/s:http", "10.96.0.9", 80, "uid-s")
        );
        assert_eq!((&*flow.destination.to_string(), flow.destination_port), ("10.0.2.6", 8080));
        assert_eq!((flow.start_ms, flow.end_ms, &*flow.tcp_state), (7, 99, "ESTABLISHED"));
        assert_eq!(
            flow.translated.map(|(address, port)| (address.to_string(), port)),
            Some(("10.0.1.1".to_owned(), 5000))
        );
        assert_eq!((flow.flow_type, flow.forward.new_packets), (FlowType::InterNode, 1));
        let local = without_remote_names(flow, &due.record);
        assert_eq!((&*local.source_pod.name, &*local.destination_pod.name), ("p", ""));
    }

    #[test]
    fn types_are_those_of_antrea() {
        let facts = facts();
        let (here, near, remote, outside, gateway) =
            ([10, 0, 1, 5], [10, 0, 1, 6], [10, 0, 2, 6], [198, 51, 100, 1], [10, 0, 2, 1]);
        for (src, source_pod, dst, destination_pod, expected) in [
            (here, "a/p", near, "a/x", Some(FlowType::IntraNode)),
            (here, "a/p", remote, "", Some(FlowType::InterNode)),
            (remote, "", here, "a/p", Some(FlowType::InterNode)),
            (here, "a/p", outside, "", Some(FlowType::ToExternal)),
            (remote, "", outside, "", None),
            (outside, "", here, "a/p", Some(FlowType::FromExternal)),
            (gateway, "", here, "a/p", Some(FlowType::InterNode)),
            (gateway, "", remote, "", None),
            (here, "a/p", gateway, "", None),
            (outside, "", outside, "", None),
        ] {
            let record = FlowRecord {
                original: tuple(src, dst, 1, 2),
                source_pod: source_pod.to_owned(),
                destination_pod: destination_pod.to_owned(),
                ..FlowRecord::default()
            };
            let found = flow(&due(record), &facts, 0).map(|flow| flow.flow_type);
            assert_eq!(found, expected, "{src:?} {dst:?}");
        }
    }

    #[test]
    fn a_pod_without_a_document_has_the_name_that_the_switch_remembers() {
        let record = FlowRecord { source_pod: "a/gone".to_owned(), ..by_service() };
        let flow = flow(&due(record), &facts(), 0).expect("exported");
        let pod = flow.source_pod;
        assert_eq!((&*pod.namespace, &*pod.name, &*pod.uid, &*pod.node), ("a", "gone", "", "n1"));
    }

    #[test]
    fn a_record_without_addresses_is_no_flow() {
        assert_eq!(flow(&due(FlowRecord::default()), &facts(), 0), None);
    }
}
