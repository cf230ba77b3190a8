//! The Node, and what there is: addresses, messages of `antrea.v1`.

use crate::frame::{Mac, Segment};
use std::net::IpAddr;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::v1::MacAddress;

/// MAC address that answers for other Nodes.
pub(crate) const VIRTUAL: Mac = [0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
/// Source of what enters the kernel again.
pub(crate) const REENTRANCE: Mac = [0x0e, 0, 0, 0, 0, 1];
/// Pods of this Node. `d` is isolated.
pub(crate) const PODS: [&str; 4] = ["a", "b", "d", "e"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Encap,
    NoEncap,
    Hybrid,
    PolicyOnly,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Proxy {
    Off,
    #[default]
    On,
    /// Addresses for those outside, too.
    All,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Families {
    #[default]
    V4,
    V6,
    Both,
}

impl Families {
    /// 0: IPv4; 1: IPv6.
    pub(crate) fn each(self) -> &'static [usize] {
        match self {
            Self::V4 => &[0],
            Self::V6 => &[1],
            Self::Both => &[0, 1],
        }
    }
}

/// What a Node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) mode: Mode,
    pub(crate) families: Families,
    pub(crate) proxy: Proxy,
    /// Policies of K8s alone.
    pub(crate) plain: bool,
    /// In policy only: no CIDR of its Pods.
    pub(crate) without_cidr: bool,
    pub(crate) egress: bool,
    pub(crate) shaping: bool,
    pub(crate) l7: bool,
    pub(crate) traffic_control: bool,
    pub(crate) multicast: bool,
    pub(crate) dsr: bool,
    pub(crate) uplink: bool,
    pub(crate) vlans: bool,
    pub(crate) records: bool,
    pub(crate) probe: bool,
}

fn text(of: [&str; 2], family: usize) -> IpAddr {
    of[family].parse().expect("an address")
}

/// Addresses of this Node between Nodes.
pub(crate) fn transport(family: usize) -> IpAddr {
    text(["192.168.77.102", "fd00:77::102"], family)
}

/// Who has which address.
pub(crate) fn address(layout: &Layout, who: &str, family: usize) -> IpAddr {
    let of = match who {
        "a" => ["10.10.0.10", "fd00:10:10::10"],
        "b" => ["10.10.0.11", "fd00:10:10::11"],
        "d" => ["10.10.0.12", "fd00:10:10::12"],
        "e" => ["10.10.0.13", "fd00:10:10::13"],
        "host" if layout.mode == Mode::PolicyOnly => ["192.168.77.102", "fd00:77::102"],
        "host" => ["10.10.0.1", "fd00:10:10::1"],
        "c" => ["10.10.1.10", "fd00:10:10:1::10"],
        "f" => ["10.10.2.10", "fd00:10:10:2::10"],
        "wire" => ["198.51.100.7", "2001:db8:51::7"],
        "outside" => ["203.0.113.9", "2001:db8:113::9"],
        other => panic!("nobody is {other}"),
    };
    text(of, family)
}

/// The Pod of this Node with an address.
pub(crate) fn pod_of(layout: &Layout, of: IpAddr) -> Option<&'static str> {
    PODS.into_iter().find(|pod| [0, 1].iter().any(|family| address(layout, pod, *family) == of))
}

/// Whose MAC address.
pub(crate) fn mac(who: &str) -> Mac {
    let last = match who {
        "gw" => 1,
        "up" => 2,
        "hop" => 0x99,
        "peer" => 0x71,
        pod => 0x10 + u8::try_from(PODS.iter().position(|name| *name == pod).expect("a Pod")).expect("few"),
    };
    [2, 0, 0, 0, 0, last]
}

fn octets(mac: Mac) -> Option<MacAddress> {
    Some(MacAddress { octets: mac.to_vec() })
}

/// By which port packets for a Pod of another Node leave. `c`'s Node is on this one's link, `f`'s
/// behind a router.
pub(crate) fn path(layout: &Layout, who: &str) -> &'static str {
    match layout.mode {
        Mode::Encap => "tun",
        Mode::Hybrid if who == "f" => "tun",
        _ => "gw",
    }
}

fn last(who: &str) -> u8 {
    if who == "b" { 11 } else { 12 }
}

/// Cluster IP of the Service whose endpoint is `b`, or `c`.
pub(crate) fn service(who: &str, family: usize) -> IpAddr {
    let last = last(who);
    text([&format!("10.96.0.{last}"), &format!("fd00:10:96::{last}")], family)
}

/// Its load balancer's address.
pub(crate) fn balancer(who: &str, family: usize) -> IpAddr {
    let last = last(who);
    text([&format!("192.168.200.{last}"), &format!("fd00:200::{last}")], family)
}

/// Its external address.
pub(crate) fn external(who: &str, family: usize) -> IpAddr {
    let last = last(who);
    text([&format!("192.168.201.{last}"), &format!("fd00:201::{last}")], family)
}

/// Its port of the Node.
pub(crate) fn node_port(who: &str) -> u16 {
    30_000 + u16::from(last(who))
}

/// The address of Egresses.
pub(crate) fn egress_address(family: usize) -> IpAddr {
    text(["192.168.77.112", "fd00:77::112"], family)
}

fn virtual_node_port(family: usize) -> IpAddr {
    text(["169.254.0.252", "fc01::aabb:ccdd:eefe"], family)
}

/// Whether the kernel has a route for it to the switch, beside its Pods'.
pub(crate) fn is_switchs(layout: &Layout, of: IpAddr) -> bool {
    let family = usize::from(of.is_ipv6());
    let all = ["b", "c"].iter().flat_map(|who| [service(who, family), balancer(who, family), external(who, family)]);
    let hairpin = text(["169.254.0.253", "fc01::aabb:ccdd:eeff"], family);
    layout.proxy == Proxy::All && all.chain([virtual_node_port(family), hairpin]).any(|address| address == of)
}

/// What the kernel translates the destination of a packet to.
pub(crate) fn kernel_translates(layout: &Layout, packet: &Segment) -> Option<(IpAddr, u16)> {
    let family = usize::from(packet.destination.is_ipv6());
    let is_nodes = [transport(family), address(layout, "host", family)].contains(&packet.destination);
    if layout.proxy == Proxy::All {
        let node_port = (30_000..32_768).contains(&packet.destination_port);
        return (is_nodes && node_port).then(|| (virtual_node_port(family), packet.destination_port));
    }
    let endpoint = |who: &&str| packet.destination == service(who, family) && packet.destination_port == 80;
    let who = ["b", "c"].into_iter().find(endpoint).filter(|_| layout.proxy == Proxy::Off)?;
    Some((address(layout, who, family), 80))
}

fn texts(layout: &Layout, of: impl Fn(usize) -> String) -> Vec<String> {
    layout.families.each().iter().map(|family| of(*family)).collect()
}

/// The Node's configuration.
pub(crate) fn node(layout: &Layout) -> v1::NodeConfig {
    let tunneled = matches!(layout.mode, Mode::Encap | Mode::Hybrid);
    let features = v1::Features {
        proxy: Some(layout.proxy != Proxy::Off),
        proxy_all: layout.proxy == Proxy::All,
        antrea_policy: Some(!layout.plain),
        egress: Some(layout.egress),
        egress_traffic_shaping: layout.shaping,
        traffic_control: layout.traffic_control,
        l7_network_policy: layout.l7,
        multicast: layout.multicast,
        dsr: layout.dsr,
        pod_vlans: layout.vlans,
    };
    let hops = texts(layout, |family| ["192.168.77.1", "fd00:77::1"][family].to_owned());
    let hops = hops.into_iter().map(|address| v1::NextHop { address, mac: octets(mac("hop")) });
    let uplink = v1::Uplink {
        port: "up".to_owned(),
        mac: octets(mac("up")),
        next_hops: hops.collect(),
        external_traffic: layout.proxy == Proxy::All,
        ..v1::Uplink::default()
    };
    let mut node = v1::NodeConfig {
        name: "here".to_owned(),
        bridge: crate::switch::BRIDGE.to_owned(),
        transport_addresses: texts(layout, |family| format!("{}/{}", transport(family), [24, 64][family])),
        pod_cidrs: texts(layout, |family| ["10.10.0.0/24", "fd00:10:10::/64"][family].to_owned()),
        gateway: Some(v1::Gateway {
            port: "gw".to_owned(),
            mac: octets(mac("gw")),
            addresses: texts(layout, |family| address(layout, "host", family).to_string()),
        }),
        tunnel: tunneled.then(|| v1::Tunnel { port: "tun".to_owned() }),
        uplink: layout.uplink.then_some(uplink),
        service_cidrs: texts(layout, |family| ["10.96.0.0/16", "fd00:10:96::/112"][family].to_owned()),
        features: Some(features),
        record_denied: layout.records,
        ..v1::NodeConfig::default()
    };
    if layout.without_cidr {
        node.pod_cidrs.clear();
    }
    if layout.l7 {
        node.l7 = Some(v1::L7Ports { target: "l7-out".to_owned(), return_port: "l7-in".to_owned() });
    }
    if layout.probe {
        node.set_local_probe(v1::LocalProbe::ByPort);
        "probe".clone_into(&mut node.local_probe_port);
    }
    node.set_traffic_mode(match layout.mode {
        Mode::Encap => v1::TrafficMode::Encap,
        Mode::NoEncap => v1::TrafficMode::NoEncap,
        Mode::Hybrid => v1::TrafficMode::Hybrid,
        Mode::PolicyOnly => v1::TrafficMode::NetworkPolicyOnly,
    });
    node.set_families(match layout.families {
        Families::V4 => v1::Families::Ipv4,
        Families::V6 => v1::Families::Ipv6,
        Families::Both => v1::Families::Dual,
    });
    node
}

/// A Service and its endpoints.
pub(crate) fn service_of(layout: &Layout, who: &str) -> [Object; 2] {
    let of = |address: fn(&str, usize) -> IpAddr| texts(layout, |family| address(who, family).to_string());
    let mut service = v1::Service {
        name: format!("default/to-{who}"),
        ports: vec![v1::ServicePort { protocol: v1::Protocol::Tcp.into(), port: 80, ..v1::ServicePort::default() }],
        cluster_ips: of(service),
        ..v1::Service::default()
    };
    if layout.proxy == Proxy::All {
        (service.load_balancer_ips, service.external_ips) = (of(balancer), of(external));
        service.ports[0].node_port = node_port(who).into();
    }
    let node = if who == "b" { "here" } else { "near" };
    let endpoint = |family: &usize| v1::Endpoint {
        address: address(layout, who, *family).to_string(),
        port: 80,
        node: node.to_owned(),
        ready: true,
        serving: true,
        ..v1::Endpoint::default()
    };
    let endpoints = v1::Endpoints {
        service: service.name.clone(),
        endpoints: layout.families.each().iter().map(endpoint).collect(),
        ..v1::Endpoints::default()
    };
    [Object::Service(service), Object::Endpoints(endpoints)]
}

/// What is there whatever is tested.
pub(crate) fn all(layout: &Layout) -> Vec<Object> {
    let mut all = Vec::new();
    for name in PODS {
        all.push(Object::Pod(v1::Pod {
            name: format!("default/{name}"),
            port: name.to_owned(),
            addresses: texts(layout, |family| address(layout, name, family).to_string()),
            mac: octets(mac(name)),
            vlan: 0,
            uid: String::new(),
            ..v1::Pod::default()
        }));
        let (name, pods) = (name.to_owned(), vec![format!("default/{name}")]);
        all.push(Object::AppliedToGroup(v1::AppliedToGroup { name, pods, services: Vec::new() }));
    }
    for (name, net, link) in [("near", 1, 77), ("far", 2, 88)] {
        all.push(Object::PeerNode(v1::PeerNode {
            name: name.to_owned(),
            pod_cidrs: texts(layout, |family| {
                [format!("10.10.{net}.0/24"), format!("fd00:10:10:{net}::/64")][family].clone()
            }),
            transport_addresses: texts(layout, |family| {
                [format!("192.168.{link}.103"), format!("fd00:{link}::103")][family].clone()
            }),
            ..v1::PeerNode::default()
        }));
    }
    if layout.proxy != Proxy::Off {
        all.extend(["b", "c"].iter().flat_map(|who| service_of(layout, who)));
    }
    all.push(Object::NetworkPolicy(v1::NetworkPolicy {
        name: "np:default/isolated".to_owned(),
        kind: v1::PolicyKind::K8s.into(),
        applied_to: vec!["d".to_owned()],
        isolates_ingress: true,
        ..v1::NetworkPolicy::default()
    }));
    if !layout.plain {
        all.extend(rules("refuses", "e", v1::Direction::Ingress, v1::RuleAction::Reject, 81, false));
    }
    all
}

fn rules(name: &str, of: &str, direction: v1::Direction, action: v1::RuleAction, port: u32, l7: bool) -> Vec<Object> {
    let ports = vec![v1::PortMatch { protocol: v1::Protocol::Tcp.into(), port, ..v1::PortMatch::default() }];
    let http = v1::L7Protocol { definition: r#"{"http":{}}"#.to_owned() };
    let rule = v1::Rule {
        id: "0".to_owned(),
        direction: direction.into(),
        action: action.into(),
        ports: if port == 0 { Vec::new() } else { ports },
        l7_protocols: l7.then_some(http).into_iter().collect(),
        ..v1::Rule::default()
    };
    vec![Object::NetworkPolicy(v1::NetworkPolicy {
        name: format!("acnp:{name}"),
        kind: v1::PolicyKind::AntreaCluster.into(),
        tier: 250,
        priority: 5.0,
        applied_to: vec![of.to_owned()],
        rules: vec![rule],
        ..v1::NetworkPolicy::default()
    })]
}

/// An L7 rule for a port of a Pod (`ingress`), or a port that it asks; 0: all of TCP.
pub(crate) fn l7_rule(pod: &str, ingress: bool, port: u32) -> Vec<Object> {
    let direction = if ingress { v1::Direction::Ingress } else { v1::Direction::Egress };
    rules("engine", pod, direction, v1::RuleAction::Allow, port, true)
}

/// Egresses of `a`: on this Node, translated by the host or the switch, or on another one.
pub(crate) fn egress(layout: &Layout, how: &str) -> Vec<Object> {
    let translation = if how == "host" { v1::EgressTranslation::Host } else { v1::EgressTranslation::Switch };
    let of = |family: &usize| {
        Object::Egress(v1::Egress {
            name: format!("out-{family}"),
            address: egress_address(*family).to_string(),
            node: if how == "other" { "near" } else { "here" }.to_owned(),
            pods: vec!["default/a".to_owned()],
            translation: translation.into(),
            ..v1::Egress::default()
        })
    };
    layout.families.each().iter().map(of).collect()
}
