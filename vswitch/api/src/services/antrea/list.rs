//! Objects as they are, with their counters.

use std::collections::BTreeSet;
use vswitch_antrea::{Family, GroupKey, Key, MeterKey, ObjectKind, Table};
use vswitch_antrea_node::Shown;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object as Message;

/// Objects of a kind, those of these names or all; with their messages.
pub(super) fn of<'a>(shown: &'a Shown<'_>, kind: ObjectKind, names: &[String]) -> Vec<(&'a Key, &'a Message)> {
    let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let all = shown.desired().of(kind).filter(|(key, _)| wanted.is_empty() || wanted.contains(&*key.name));
    all.map(|(key, entry)| (key, &entry.message)).collect()
}

/// Names of objects of a kind that name another, directly.
fn referrers(shown: &Shown<'_>, key: &Key, kind: ObjectKind) -> Vec<String> {
    let of_kind = shown.desired().referrers(key).filter(|other| other.kind == kind);
    of_kind.map(|other| other.name.to_string()).collect()
}

/// Names of policies with rules that are applied to a Pod.
pub(super) fn policies_of(shown: &Shown<'_>, pod: &Key) -> Vec<String> {
    let mut policies = BTreeSet::new();
    for group in shown.desired().referrers(pod).filter(|group| group.kind == ObjectKind::AppliedToGroup) {
        policies.extend(referrers(shown, group, ObjectKind::NetworkPolicy));
    }
    policies.into_iter().collect()
}

pub(super) fn pods(shown: &Shown<'_>, names: &[String]) -> Vec<v1::PodState> {
    let mut states = Vec::new();
    for (key, message) in of(shown, ObjectKind::Pod, names) {
        let Message::Pod(pod) = message else { continue };
        states.push(v1::PodState {
            pod: Some(pod.clone()),
            port_number: shown.ports.number(&pod.port).unwrap_or(0),
            link_up: shown.link_up.contains(&pod.port),
            cookie: shown.cookie(key),
            sent: Some(total(&in_table(shown, key, Table::SpoofGuard))),
            policies: policies_of(shown, key),
            egress: referrers(shown, key, ObjectKind::Egress).into_iter().next().unwrap_or_default(),
            ingress_meter: meter(shown, &key.name, true).unwrap_or_default(),
            ingress_dropped: meter(shown, &key.name, true).and_then(|meter| shown.counted.dropped(meter)),
            egress_meter: meter(shown, &key.name, false).unwrap_or_default(),
            egress_dropped: meter(shown, &key.name, false).and_then(|meter| shown.counted.dropped(meter)),
        });
    }
    states
}

/// The meter of a Pod's limit.
fn meter(shown: &Shown<'_>, pod: &std::sync::Arc<str>, ingress: bool) -> Option<u32> {
    shown.ids().meter(&MeterKey { pod: std::sync::Arc::clone(pod), ingress })
}

/// Counters of an object's flows in a table, one each.
pub(super) fn in_table(shown: &Shown<'_>, key: &Key, table: Table) -> Vec<vswitch_proto::v1::Count> {
    let compiled = shown.node_state.store().compiled(key);
    let flows =
        compiled.into_iter().flat_map(|compiled| compiled.flows()).filter(|flow| flow.id.table == table.number());
    flows.map(|flow| shown.counted.of(&flow.id)).collect()
}

pub(super) fn total(counts: &[vswitch_proto::v1::Count]) -> vswitch_proto::v1::Count {
    vswitch_proto::v1::Count {
        packets: counts.iter().map(|count| count.packets).sum(),
        bytes: counts.iter().map(|count| count.bytes).sum(),
    }
}

pub(super) fn peers(shown: &Shown<'_>, names: &[String]) -> Vec<v1::PeerNodeState> {
    let mut states = Vec::new();
    for (key, message) in of(shown, ObjectKind::PeerNode, names) {
        let Message::PeerNode(peer) = message else { continue };
        states.push(v1::PeerNodeState {
            peer: Some(peer.clone()),
            path: peer.path,
            cookie: shown.cookie(key),
            routed: in_table(shown, key, Table::L3Forwarding),
        });
    }
    states
}

pub(super) fn egresses(shown: &Shown<'_>, names: &[String]) -> Vec<v1::EgressState> {
    let mut states = Vec::new();
    for (key, message) in of(shown, ObjectKind::Egress, names) {
        let Message::Egress(egress) = message else { continue };
        let mark = egress.address.parse().ok().and_then(|address| shown.ids().mark(&address)).unwrap_or(0);
        states.push(v1::EgressState {
            egress: Some(egress.clone()),
            mark,
            meter: if egress.bandwidth.is_some() { mark } else { 0 },
            cookie: shown.cookie(key),
            sent: Some(total(&in_table(shown, key, Table::EgressMark))),
            dropped: Some(mark).filter(|_| egress.bandwidth.is_some()).and_then(|mark| shown.counted.dropped(mark)),
        });
    }
    states
}

pub(super) fn traffic_controls(shown: &Shown<'_>, names: &[String]) -> Vec<v1::TrafficControlState> {
    let mut states = Vec::new();
    for (key, message) in of(shown, ObjectKind::TrafficControl, names) {
        let Message::TrafficControl(control) = message else { continue };
        states.push(v1::TrafficControlState {
            traffic_control: Some(control.clone()),
            cookie: shown.cookie(key),
            marked: Some(total(&in_table(shown, key, Table::TrafficControl))),
        });
    }
    states
}

pub(super) fn services(shown: &Shown<'_>, names: &[String]) -> Vec<v1::ServiceState> {
    let mut states = Vec::new();
    for (key, message) in of(shown, ObjectKind::Service, names) {
        let Message::Service(service) = message else { continue };
        let port = |port: &v1::ServicePort| service_port(shown, service, port);
        states.push(v1::ServiceState {
            service: Some(service.clone()),
            ports: service.ports.iter().map(port).collect(),
            cookie: shown.cookie(key),
        });
    }
    states
}

fn service_port(shown: &Shown<'_>, service: &v1::Service, port: &v1::ServicePort) -> v1::ServicePortState {
    let key = |family, local| GroupKey::Service {
        service: service.name.as_str().into(),
        port: port.name.as_str().into(),
        family,
        local,
    };
    let groups = |local| {
        let ids = shown.node.families.iter().map(|family| shown.ids().group(&key(*family, local)).unwrap_or(0));
        ids.collect::<Vec<u32>>()
    };
    let set = Key::new(ObjectKind::Endpoints, &format!("{}:{}", service.name, port.name));
    let endpoints = match shown.desired().get(&set).map(|entry| &entry.message) {
        Some(Message::Endpoints(set)) => set.endpoints.as_slice(),
        _ => &[],
    };
    let endpoint = |endpoint: &v1::Endpoint| {
        let place = endpoint.address.parse().ok().zip(u16::try_from(endpoint.port).ok());
        let family = place.map_or(Family::V4, |(address, _)| Family::of(&address));
        let bucket = |local| place.and_then(|place| shown.ids().bucket(&key(family, local), &place));
        let chosen = [false, true].map(|local| {
            let group = shown.ids().group(&key(family, local)).zip(bucket(local));
            group.map(|(group, bucket)| shown.counted.bucket(group, bucket)).unwrap_or_default()
        });
        v1::EndpointState {
            endpoint: Some(endpoint.clone()),
            in_cluster_group: bucket(false).is_some(),
            in_local_group: bucket(true).is_some(),
            chosen: Some(total(&chosen)),
        }
    };
    let own: Vec<u32> = [false, true].into_iter().flat_map(groups).filter(|id| *id != 0).collect();
    v1::ServicePortState {
        port: Some(port.clone()),
        cluster_groups: groups(false),
        local_groups: groups(true),
        endpoints: endpoints.iter().map(endpoint).collect(),
        affine_clients: affine(shown, &own),
    }
}

/// Clients that the groups' affinity remembers.
fn affine(shown: &Shown<'_>, groups: &[u32]) -> u64 {
    let cookies = groups.iter().map(|id| vswitch_antrea::Category::Service.learned(*id));
    cookies.map(|cookie| shown.counted.flows_of_cookie(cookie)).sum()
}
