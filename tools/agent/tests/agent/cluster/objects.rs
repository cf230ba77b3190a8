//! Objects of the tests' clusters, made by chance.

use crate::common::NODE;
use serde_json::{Value, json};

/// Kinds, whether they have namespaces.
pub const KINDS: [(&str, &str, bool); 11] = [
    ("v1", "Namespace", false),
    ("v1", "Node", false),
    ("v1", "Pod", true),
    ("v1", "Service", true),
    ("discovery.k8s.io/v1", "EndpointSlice", true),
    ("networking.k8s.io/v1", "NetworkPolicy", true),
    ("crd.antrea.io/v1beta1", "ClusterNetworkPolicy", false),
    ("crd.antrea.io/v1beta1", "NetworkPolicy", true),
    ("crd.antrea.io/v1beta1", "Tier", false),
    ("crd.antrea.io/v1beta1", "ClusterGroup", false),
    ("crd.antrea.io/v1beta1", "Egress", false),
];

pub const NODE_CONFIG: &str = "apiVersion: vswitch/v1
kind: NodeConfig
metadata: {name: k8s-node-control-plane}
spec:
  bridge: br0
  transportAddresses: [192.168.77.102/24]
  gateway: {port: antrea-gw0, mac: 'ba:5e:d1:55:aa:c0', addresses: [10.10.0.1]}
  tunnel: {port: antrea-tun0}
  serviceCIDRs: [10.96.0.0/12]
  features: {proxyAll: true}
";

/// The other Node.
const OTHER: &str = "k8s-node-worker-1";

/// A definition of a kind of Antrea's, which takes whatever it is given.
pub fn definition(kind: &str, plural: &str, scope: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = json!({"name": "v1beta1", "served": true, "storage": true, "schema": schema});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.crd.antrea.io")},
        "spec": {
            "group": "crd.antrea.io", "scope": scope, "versions": [version],
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
        },
    })
}

pub fn definitions() -> Vec<Value> {
    [
        ("ClusterNetworkPolicy", "clusternetworkpolicies", "Cluster"),
        ("NetworkPolicy", "networkpolicies", "Namespaced"),
        ("Tier", "tiers", "Cluster"),
        ("ClusterGroup", "clustergroups", "Cluster"),
        ("Egress", "egresses", "Cluster"),
    ]
    .map(|(kind, plural, scope)| definition(kind, plural, scope))
    .into()
}

/// Numbers by chance, the same from the same seed (xorshift64*, Vigna 2014).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).expect("31 bits") % end
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn selector(&mut self) -> Value {
        match self.below(4) {
            0 => json!({}),
            1 => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [self.of(&APPS)]}]}),
            _ => json!({"matchLabels": {"app": self.of(&APPS)}}),
        }
    }

    fn space(&mut self) -> Value {
        match self.below(3) {
            0 => json!({"matchLabels": {"kubernetes.io/metadata.name": self.of(&["a", "b"])}}),
            _ => json!({"matchLabels": {"env": self.of(&ENVS)}}),
        }
    }

    fn ports(&mut self) -> Value {
        match self.below(3) {
            0 => json!([]),
            1 => json!([{"protocol": "UDP", "port": 53}]),
            _ => json!([{"port": 80}, {"port": 443}]),
        }
    }
}

const APPS: [&str; 3] = ["web", "db", "far"];
const ENVS: [&str; 2] = ["prod", "test"];

/// What is there in each history, and stays as it is: Nodes, the victim, and what denies it. And
/// what others refer to.
pub fn pinned() -> Vec<Value> {
    let node = |name: &str, net: u8, host: u8| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "spec": {"podCIDR": format!("10.10.{net}.0/24"), "podCIDRs": [format!("10.10.{net}.0/24")]},
            "status": {"addresses": [{"type": "InternalIP", "address": format!("192.168.77.{host}")}]},
        })
    };
    let space = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let antrea = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "crd.antrea.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let of_p = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "p"}}});
    vec![
        node(NODE, 0, 102),
        node(OTHER, 1, 103),
        space("p"),
        space("a"),
        space("b"),
        pod_of("p", "victim", NODE, "10.10.0.9", "web"),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "isolate", "namespace": "p"},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        }),
        antrea(
            "ClusterNetworkPolicy",
            "pin",
            json!({"priority": 1, "appliedTo": [of_p], "ingress": [{"action": "Drop"}]}),
        ),
        antrea("Tier", "t0", json!({"priority": 60})),
        antrea("ClusterGroup", "g0", json!({"podSelector": {"matchLabels": {"app": "web"}}})),
    ]
}

fn pod_of(space: &str, name: &str, node: &str, address: &str, app: &str) -> Value {
    let last = address.rsplit('.').next().unwrap_or("1").to_owned();
    let mac = format!("02:00:00:00:00:{:02x}", last.parse::<u8>().unwrap_or(1));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": space, "labels": {"app": app},
                     "annotations": {"vswitch/port": format!("{space}-{name}"), "vswitch/mac": mac}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "x"}]},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
    })
}

/// Objects that change, by number.
pub const CHANGING: usize = 26;

/// The object of a number as chance has it; the first three are never deleted, since others refer
/// to them.
pub fn object(number: usize, chance: &mut Chance) -> Value {
    let space = if number.is_multiple_of(2) { "a" } else { "b" };
    let name = format!("o{number}");
    let meta = json!({"name": name, "namespace": space});
    match number {
        0 | 1 => json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": space, "labels": {"env": chance.of(&ENVS)}}}),
        2 => json!({"apiVersion": "crd.antrea.io/v1beta1", "kind": "ClusterGroup",
            "metadata": {"name": "g0"}, "spec": {"podSelector": chance.selector()}}),
        3..=9 => {
            let is_here = number < 7;
            let node = if is_here { NODE } else { OTHER };
            let address = format!("10.10.{}.{}", u8::from(!is_here), 20 + number);
            pod_of(space, &name, node, &address, chance.of(&APPS))
        }
        10..=14 => {
            let ports = chance.ports();
            let peers = json!([{"podSelector": chance.selector()}, {"namespaceSelector": chance.space()}]);
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta,
                "spec": {"podSelector": chance.selector(), "ingress": [{"from": peers, "ports": ports}]}})
        }
        15..=19 => {
            let applied = json!([{"podSelector": chance.selector(), "namespaceSelector": chance.space()}]);
            let peer = match chance.below(3) {
                0 => json!({"group": "g0"}),
                1 => json!({"ipBlock": {"cidr": "172.16.0.0/12"}}),
                _ => json!({"podSelector": chance.selector()}),
            };
            let rule =
                json!({"action": chance.of(&["Drop", "Allow", "Reject"]), "from": [peer], "ports": chance.ports()});
            json!({"apiVersion": "crd.antrea.io/v1beta1", "kind": "ClusterNetworkPolicy", "metadata": {"name": name},
                "spec": {"priority": number, "tier": chance.of(&["t0", "application"]), "appliedTo": applied, "ingress": [rule]}})
        }
        20 | 21 => json!({"apiVersion": "crd.antrea.io/v1beta1", "kind": "NetworkPolicy", "metadata": meta,
            "spec": {"priority": number, "appliedTo": [{"podSelector": chance.selector()}],
                     "egress": [{"action": chance.of(&["Drop", "Allow"]), "to": [{"namespaceSelector": chance.space()}]}]}}),
        22 => json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "a"},
            "spec": {"clusterIP": "10.96.0.22", "clusterIPs": ["10.96.0.22"], "selector": {"app": chance.of(&APPS)},
                     "ports": [{"name": "x", "port": 80, "protocol": "TCP", "targetPort": 8080}]}}),
        23 | 24 => {
            let address = format!("10.10.{}.{}", chance.below(2), 20 + chance.below(10));
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": name, "namespace": "a", "labels": {"kubernetes.io/service-name": "s"}},
                "endpoints": [{"addresses": [address], "conditions": {"ready": chance.below(2) == 0}}],
                "ports": [{"name": "x", "port": 8080, "protocol": "TCP"}]})
        }
        _ => json!({"apiVersion": "crd.antrea.io/v1beta1", "kind": "Egress", "metadata": {"name": name},
            "spec": {"egressIP": "192.168.77.200", "appliedTo": {"podSelector": chance.selector()}},
            "status": {"egressNode": chance.of(&[NODE, OTHER])}}),
    }
}

/// Whether the object of a number may go.
pub fn may_go(number: usize) -> bool {
    number > 2
}
