//! Services, as the document has them and others, and what they write.

mod bad;
mod choosing;
mod flushing;
mod golden;
mod increments;
mod kinds;
mod odd;
mod scale;

use super::group_key;
use crate::{Family, NodeState};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// A Service with one unnamed TCP port 80, and nothing that it answers at.
fn service(name: &str) -> v1::Service {
    let port = v1::ServicePort { port: 80, ..v1::ServicePort::default() };
    v1::Service { name: format!("default/{name}"), ports: vec![port], ..v1::Service::default() }
}

/// A Service with a cluster IP.
fn cluster_ip(name: &str, address: &str) -> v1::Service {
    v1::Service { cluster_ips: vec![address.to_owned()], ..service(name) }
}

/// An endpoint that is ready; those of 10.10.0.0/24 and fd00:10:10::/64 are this Node's.
fn endpoint(address: &str) -> v1::Endpoint {
    let local = address.starts_with("10.10.0.") || address.starts_with("fd00:10:10::");
    v1::Endpoint {
        address: address.to_owned(),
        port: 80,
        node: if local { "worker-2" } else { "worker-1" }.to_owned(),
        ready: true,
        serving: true,
        ..v1::Endpoint::default()
    }
}

/// Endpoints of a Service's unnamed port.
fn endpoints(service: &str, addresses: &[&str]) -> v1::Endpoints {
    let endpoints = addresses.iter().map(|address| endpoint(address)).collect();
    v1::Endpoints { service: format!("default/{service}"), port: String::new(), endpoints }
}

/// The document's endpoints of a Service.
fn web(service: &str) -> Object {
    Object::Endpoints(endpoints(service, &["10.10.0.24", "10.10.1.6"]))
}

/// The document's Services, each where the document shows it.
fn documents() -> Vec<Object> {
    let mut node_port = service("sample-nodeport");
    node_port.ports[0].node_port = 30004;
    let services = [
        cluster_ip("sample-clusterip", "10.105.31.235"),
        cluster_ip("sample-clusterip-no-ep", "10.101.255.29"),
        node_port,
        v1::Service { load_balancer_ips: vec!["192.168.77.150".to_owned()], ..service("sample-loadbalancer") },
        v1::Service { external_ips: vec!["192.168.77.200".to_owned()], ..service("sample-service-externalip") },
        v1::Service {
            affinity_timeout_seconds: 300,
            ..cluster_ip("sample-service-session-affinity", "10.96.76.15")
        },
        v1::Service {
            load_balancer_ips: vec!["192.168.77.151".to_owned()],
            external_traffic_policy: v1::TrafficPolicy::Local.into(),
            ..service("sample-service-etp-local")
        },
    ];
    let with_endpoints = services.iter().filter(|service| service.name != "default/sample-clusterip-no-ep");
    let endpoints: Vec<Object> = with_endpoints.map(|service| web(service.name.trim_start_matches("default/"))).collect();
    services.into_iter().map(Object::Service).chain(endpoints).collect()
}

/// The id of the group of a Service's unnamed port.
fn group(node_state: &NodeState, service: &str, family: Family, local: bool) -> Option<u32> {
    let service = format!("default/{service}");
    let port = &node_state.desired().service(&service)?.ports[0];
    node_state.ids().group(&group_key(&service, port, family, local))
}

/// The same, of one that is there.
fn id(node_state: &NodeState, service: &str, local: bool) -> u32 {
    group(node_state, service, Family::V4, local).unwrap_or_else(|| panic!("{service} has no such group, local: {local}"))
}
