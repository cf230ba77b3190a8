//! The message, read: everything that is wrong with it by itself.

use super::{Protocol, Service, ServicePort};
use crate::address::parse_address;
use crate::limits::{AFFINITY_MAX, PORT_NAME_MAX, SERVICE_FLOWS_MAX, SERVICE_PORTS_MAX};
use crate::node::{cidrs, one_per_family};
use crate::problem::{Code, Problems};
use crate::Cidr;
use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use vswitch_proto::antrea::v1;

pub(super) fn read(message: &v1::Service, problems: &mut Problems) -> Service {
    if message.affinity_timeout_seconds > AFFINITY_MAX {
        let reason = format!("{}: 0 to {AFFINITY_MAX}", message.affinity_timeout_seconds);
        problems.push(Code::Range, "affinity_timeout_seconds", reason);
    }
    let cluster_ips = one_per_family("cluster_ips", &message.cluster_ips, problems);
    for (at, address) in cluster_ips.iter().enumerate() {
        problems.take(&format!("cluster_ips[{at}]"), one_host(address));
    }
    let mut service = Service {
        ports: ports(&message.ports, problems),
        cluster_ips,
        external_ips: addresses("external_ips", &message.external_ips, problems),
        load_balancer_ips: addresses("load_balancer_ips", &message.load_balancer_ips, problems),
        internal_local: local("internal_traffic_policy", message.internal_traffic_policy, problems),
        external_local: local("external_traffic_policy", message.external_traffic_policy, problems),
        affinity: message.affinity_timeout_seconds,
        maglev: known("selection", message.selection, problems) == Some(v1::Selection::Maglev),
        dsr: known("load_balancer_mode", message.load_balancer_mode, problems) == Some(v1::LoadBalancerMode::Dsr),
        nested: message.nested,
        source_ranges: source_ranges(&message.load_balancer_source_ranges, problems),
    };
    once(&mut service, problems);
    whole(&service, message, problems);
    service
}

/// What is wrong with its fields beside each other.
fn whole(service: &Service, message: &v1::Service, problems: &mut Problems) {
    let node_ports = service.ports.iter().any(|port| port.node_port.is_some());
    let given = [&message.cluster_ips, &message.external_ips, &message.load_balancer_ips];
    if given.iter().all(|addresses| addresses.is_empty()) && !message.ports.iter().any(|port| port.node_port != 0) {
        let reason = "there is none, nor an external IP, an address of a load balancer, or a NodePort";
        problems.push(Code::Missing, "cluster_ips", reason);
    }
    let outside = node_ports || !service.external_ips.is_empty() || !service.load_balancer_ips.is_empty();
    if service.nested && outside {
        problems.push(Code::Value, "nested", "a nested Service has cluster IPs only");
    }
    let (ports, places) = (service.ports.len(), service.addresses().count());
    if ports * places > SERVICE_FLOWS_MAX {
        let reason = format!("{ports} ports times {places} addresses: at most {SERVICE_FLOWS_MAX}");
        problems.push(Code::Limit, "ports", reason);
    }
}

/// An address that several lists have is taken once: from the load balancer's if only some may come
/// there, else from the first list.
fn once(service: &mut Service, problems: &mut Problems) {
    let restricted = !service.source_ranges.is_empty();
    let mut lists = [
        ("cluster_ips", &mut service.cluster_ips),
        ("external_ips", &mut service.external_ips),
        ("load_balancer_ips", &mut service.load_balancer_ips),
    ];
    if restricted {
        lists.rotate_right(1);
    }
    let mut seen: BTreeSet<IpAddr> = BTreeSet::new();
    for (field, addresses) in lists {
        addresses.retain(|address| {
            let is_new = seen.insert(*address);
            if !is_new {
                problems.twice(field, address);
            }
            is_new
        });
    }
}

fn ports(messages: &[v1::ServicePort], problems: &mut Problems) -> Vec<ServicePort> {
    if messages.is_empty() {
        problems.push(Code::Missing, "ports", "there is none");
    }
    if messages.len() > SERVICE_PORTS_MAX {
        problems.push(Code::Limit, "ports", format!("{}: at most {SERVICE_PORTS_MAX}", messages.len()));
    }
    let (mut names, mut numbers, mut node_ports) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut ports = Vec::new();
    let mut said: HashSet<(&str, i32, u32, u32)> = HashSet::new();
    for (at, message) in messages.iter().enumerate().take(SERVICE_PORTS_MAX) {
        let field = format!("ports[{at}]");
        let transport = if message.protocol == 0 { v1::Protocol::Tcp.into() } else { message.protocol };
        if !said.insert((message.name.as_str(), transport, message.port, message.node_port)) {
            problems.twice(&field, format!("port {}", message.port));
            continue;
        }
        port_name(&format!("{field}.name"), &message.name, problems);
        if message.name.is_empty() && messages.iter().any(|other| other != message) {
            problems.push(Code::Missing, format!("{field}.name"), "only the one port of a Service may have none");
        } else if !names.insert(message.name.as_str()) {
            problems.push(Code::Duplicate, format!("{field}.name"), format!("{:?} is there twice", message.name));
        }
        let protocol = protocol(&format!("{field}.protocol"), message.protocol, problems);
        let port = port_number(&format!("{field}.port"), message.port, problems);
        let node_port = match message.node_port {
            0 => Some(None),
            number => port_number(&format!("{field}.node_port"), number, problems).map(Some),
        };
        let (Some(protocol), Some(port), Some(node_port)) = (protocol, port, node_port) else { continue };
        if !numbers.insert((protocol, port)) {
            problems.push(Code::Duplicate, format!("{field}.port"), format!("{port} is there twice for its protocol"));
        }
        if let Some(number) = node_port.filter(|number| !node_ports.insert((protocol, *number))) {
            let reason = format!("{number} is there twice for its protocol");
            problems.push(Code::Duplicate, format!("{field}.node_port"), reason);
        }
        ports.push(ServicePort { name: message.name.clone(), protocol, port, node_port });
    }
    ports
}

/// Names of ports: part of the names of Endpoints, which end with `:NAME`.
pub(crate) fn port_name(field: &str, name: &str, problems: &mut Problems) {
    if name.len() > PORT_NAME_MAX {
        problems.push(Code::Value, field, format!("it is {} bytes long, at most {PORT_NAME_MAX}", name.len()));
    } else if name.chars().any(|letter| letter.is_control() || letter == ':') {
        problems.push(Code::Value, field, format!("{name:?} has a colon or a control character in it"));
    }
}

/// 1 to 65535.
pub(crate) fn port_number(field: &str, number: u32, problems: &mut Problems) -> Option<u16> {
    if number == 0 {
        problems.push(Code::Missing, field, "it is 0: 1 to 65535");
        return None;
    }
    problems.take(field, u16::try_from(number).map_err(|_| format!("{number} is no port: 1 to 65535")))
}

fn protocol(field: &str, value: i32, problems: &mut Problems) -> Option<Protocol> {
    match known(field, value, problems)? {
        v1::Protocol::Unspecified | v1::Protocol::Tcp => Some(Protocol::Tcp),
        v1::Protocol::Udp => Some(Protocol::Udp),
        v1::Protocol::Sctp => Some(Protocol::Sctp),
        other @ (v1::Protocol::Icmp | v1::Protocol::Igmp) => {
            problems.push(Code::Value, field, format!("Services are of TCP, UDP or SCTP, not {other:?}"));
            None
        }
    }
}

/// A value of an enumeration, if it is one.
fn known<E: TryFrom<i32>>(field: &str, value: i32, problems: &mut Problems) -> Option<E> {
    problems.take(field, E::try_from(value).map_err(|_| format!("{value} is none of its values")))
}

fn local(field: &str, value: i32, problems: &mut Problems) -> bool {
    known(field, value, problems) == Some(v1::TrafficPolicy::Local)
}

/// Each once.
fn addresses(field: &str, texts: &[String], problems: &mut Problems) -> Vec<IpAddr> {
    let mut addresses = BTreeSet::new();
    for (at, text) in texts.iter().enumerate() {
        let field = format!("{field}[{at}]");
        let Some(address) = host_address(&field, text, problems) else { continue };
        if !addresses.insert(address) {
            problems.twice(&field, address);
        }
    }
    addresses.into_iter().collect()
}

/// In order, without those that are within others.
fn source_ranges(texts: &[String], problems: &mut Problems) -> Vec<Cidr> {
    let field = "load_balancer_source_ranges";
    let mut ranges = cidrs(field, texts, problems);
    ranges.sort_unstable_by_key(|range| (range.family(), range.address(), range.length()));
    let mut widest: Vec<Cidr> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match widest.last() {
            Some(last) if *last == range => problems.twice(field, range),
            Some(last) if last.covers(&range) => {}
            _ => widest.push(range),
        }
    }
    widest
}

/// An address that one host has.
pub(crate) fn host_address(field: &str, text: &str, problems: &mut Problems) -> Option<IpAddr> {
    problems.take(field, parse_address(text).and_then(|address| one_host(&address).map(|()| address)))
}

fn one_host(address: &IpAddr) -> Result<(), String> {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() || broadcast {
        return Err(format!("{address} is no address of one host in a network"));
    }
    Ok(())
}
