//! What documents mean: policies of both makes.

use crate::common::{endpoints, good, lines, object, pod, pods, projected};
use vswitch_agent::project::Projection;
use vswitch_proto::antrea::v1::group_member::Member;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{self, Direction, Kind, Protocol};

fn policy<'a>(projection: &'a Projection, name: &str) -> &'a v1::NetworkPolicy {
    let Object::NetworkPolicy(policy) = object(projection, Kind::NetworkPolicy, name) else { panic!("a policy") };
    policy
}

fn members(projection: &Projection, group: &str) -> Vec<String> {
    let Object::AddressGroup(group) = object(projection, Kind::AddressGroup, group) else { panic!("a group") };
    let name = |member: &v1::GroupMember| match member.member.clone().expect("one") {
        Member::Pod(pod) => pod,
        Member::Address(address) => address,
    };
    group.members.iter().map(name).collect()
}

fn applied(projection: &Projection, group: &str) -> Vec<String> {
    let Object::AppliedToGroup(group) = object(projection, Kind::AppliedToGroup, group) else { panic!("a group") };
    group.pods.clone()
}

/// A rule in short: `id direction [groups] blocks ports @applied`.
fn short(rule: &v1::Rule) -> String {
    let peer = rule.peer.clone().unwrap_or_default();
    let mut text = format!("{} {:?}", rule.id, rule.direction());
    let mut add = |word: &str, all: Vec<String>| {
        if !all.is_empty() {
            text = format!("{text} {word}{all:?}");
        }
    };
    add("", peer.address_groups);
    add("blocks", peer.blocks.iter().map(|block| format!("{} but {:?}", block.cidr, block.except_cidrs)).collect());
    add("fqdns", peer.fqdns);
    add("services", peer.services);
    let port = |port: &v1::PortMatch| match (port.protocol(), port.port, port.end_port) {
        (Protocol::Icmp, ..) => format!("Icmp {:?} {:?}", port.icmp_type, port.icmp_code),
        (protocol, first, 0) => format!("{protocol:?} {first}"),
        (protocol, first, last) => format!("{protocol:?} {first}-{last}"),
    };
    add("ports", rule.ports.iter().map(port).collect());
    add("@", rule.applied_to.clone());
    text
}

fn rules(projection: &Projection, name: &str) -> Vec<String> {
    policy(projection, name).rules.iter().map(short).collect()
}

fn k8s(spec: &str) -> Projection {
    good(&format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: p, namespace: a}}\nspec: {{{spec}}}\n{}",
        pods()
    ))
}

fn acnp(spec: &str, more: &str) -> Projection {
    good(&format!(
        "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {{name: p}}\nspec: {{priority: 1, {spec}}}\n{}{more}",
        pods()
    ))
}

#[test]
fn policy_types_by_default_and_as_given() {
    for (spec, ingress, egress, count) in [
        ("podSelector: {}", true, false, 0),
        ("podSelector: {}, egress: [{}]", true, true, 1),
        ("podSelector: {}, ingress: [{}]", true, false, 1),
        ("podSelector: {}, policyTypes: []", true, false, 0),
        ("podSelector: {}, policyTypes: [], egress: [{}]", true, true, 1),
        ("podSelector: {}, policyTypes: [Egress]", false, true, 0),
        ("podSelector: {}, policyTypes: [Ingress, Egress], ingress: [], egress: null", true, true, 0),
        ("podSelector: {}, policyTypes: [Egress], ingress: [{}]", false, true, 0),
        ("podSelector: {}, policyTypes: [Ingress], ingress: [{}], egress: [{}]", true, false, 1),
    ] {
        let projection = k8s(spec);
        let policy = policy(&projection, "np:a/p");
        assert_eq!(
            (policy.isolates_ingress, policy.isolates_egress, policy.rules.len()),
            (ingress, egress, count),
            "{spec}"
        );
        assert_eq!(policy.applied_to, ["pods * of namespace a"]);
        assert_eq!(applied(&projection, "pods * of namespace a"), ["a/web1", "a/web2"], "those of this Node");
    }
    let elsewhere = k8s("podSelector: {matchLabels: {app: db}}");
    assert!(!elsewhere.objects.keys().any(|(kind, _)| *kind == Kind::NetworkPolicy as i32), "no such Pod in a");
}

#[test]
fn peers_of_kubernetes() {
    for (from, expected) in [
        ("", "ingress-0 Ingress"),
        ("from: []", "ingress-0 Ingress"),
        ("from: [{podSelector: {}}]", "ingress-0 Ingress [\"pods * of namespace a\"]"),
        ("from: [{namespaceSelector: {}}]", "ingress-0 Ingress [\"pods * of namespaces *\"]"),
        (
            "from: [{podSelector: {matchLabels: {app: db}}, namespaceSelector: {matchLabels: {env: test}}}]",
            "ingress-0 Ingress [\"pods app=db of namespaces env=test\"]",
        ),
        (
            "from: [{podSelector: {matchLabels: {app: x}}}, {ipBlock: {cidr: 10.1.2.3/8, except: [10.1.0.0/16]}}]",
            "ingress-0 Ingress [\"pods app=x of namespace a\"] blocks[\"10.0.0.0/8 but [\\\"10.1.0.0/16\\\"]\"]",
        ),
        (
            "ports: [{}, {protocol: UDP, port: 53}, {port: 80, endPort: 90}, {port: 7, endPort: 7}]",
            "ingress-0 Ingress ports[\"Tcp 0\", \"Udp 53\", \"Tcp 80-90\", \"Tcp 7\"]",
        ),
    ] {
        assert_eq!(rules(&k8s(&format!("podSelector: {{}}, ingress: [{{{from}}}]")), "np:a/p"), [expected], "{from}");
    }
    let projection = k8s("podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]");
    let expected = ["a/web1", "a/web2", "b/db", "10.10.1.13"];
    assert_eq!(
        members(&projection, "pods * of namespaces *"),
        expected,
        "names of ours, addresses of others, none of the host's"
    );
}

#[test]
fn ports_by_name_are_one_rule_for_each_number() {
    let expected = [
        "ingress-0 Ingress ports[\"Tcp 53\"]",
        "ingress-0/tcp-8080 Ingress ports[\"Tcp 8080\"] @[\"pods * of namespace a with tcp 8080 as http\"]",
        "ingress-0/tcp-9090 Ingress ports[\"Tcp 9090\"] @[\"pods * of namespace a with tcp 9090 as http\"]",
    ];
    let projection = k8s("podSelector: {}, ingress: [{ports: [{port: http}, {port: 53}]}]");
    assert_eq!(rules(&projection, "np:a/p"), expected);
    assert_eq!(applied(&projection, "pods * of namespace a with tcp 9090 as http"), ["a/web2"]);

    let projection = k8s(
        "podSelector: {}, egress: [{to: [{podSelector: {}}, {ipBlock: {cidr: 1.0.0.0/8}}], ports: [{port: http}]}]",
    );
    let expected = [
        "egress-0/tcp-8080 Egress [\"pods * of namespace a with tcp 8080 as http\"] ports[\"Tcp 8080\"]",
        "egress-0/tcp-9090 Egress [\"pods * of namespace a with tcp 9090 as http\"] ports[\"Tcp 9090\"]",
    ];
    assert_eq!(rules(&projection, "np:a/p"), expected, "addresses have no names of ports");
    assert_eq!(members(&projection, "pods * of namespace a with tcp 8080 as http"), ["a/web1", "10.10.1.13"]);

    let anybody = k8s("podSelector: {}, egress: [{ports: [{port: http}]}]");
    assert_eq!(
        rules(&anybody, "np:a/p")[0],
        "egress-0/tcp-8080 Egress [\"pods * of namespaces * with tcp 8080 as http\"] ports[\"Tcp 8080\"]"
    );
    let nobody = k8s("podSelector: {}, ingress: [{ports: [{port: smtp}, {port: http, protocol: UDP}]}]");
    assert_eq!(rules(&nobody, "np:a/p"), [""; 0]);
    assert!(policy(&nobody, "np:a/p").isolates_ingress);
}

#[test]
fn names_of_ports_that_no_pod_has_are_odd_and_containers_that_end_have_none() {
    let policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: c}\n\
                  spec: {podSelector: {}, ingress: [{ports: [{port: http}, {port: first}]}], egress: [{to: [{podSelector: {}}], ports: [{port: http, protocol: UDP}]}]}\n";
    let containers = ", initContainers: [{name: i, ports: [{name: first, containerPort: 7070}]}, \
                      {name: s, restartPolicy: Always, ports: [{name: http, containerPort: 7171}]}]";
    let text = format!("{policy}{}", pod("c", "a", "", crate::common::NODE, "10.10.0.21", containers));
    let (projection, problems) = projected(&text);
    let expected = [
        "test.yaml:4 NetworkPolicy c/p: spec.egress[0].ports: no Pod has a port \"http\" of UDP: it matches nothing",
        "test.yaml:4 NetworkPolicy c/p: spec.ingress[0].ports: no Pod has a port \"first\" of TCP: it matches nothing",
    ];
    assert_eq!(lines(&problems), expected);
    assert_eq!(rules(&projection, "np:c/p").len(), 1);
    let spec = "appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{namespaces: {match: Self}}], ports: [{port: http}]}]";
    let cluster = format!(
        "---\napiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {{name: p}}\nspec: {{priority: 1, {spec}}}\n"
    );
    let (_, problems) = projected(&format!("{cluster}{}", pods()));
    assert_eq!(lines(&problems), [""; 0], "one namespace has such a port");
}

#[test]
fn tiers_and_ids() {
    for (tier, expected) in [
        ("", 250),
        ("tier: emergency, ", 50),
        ("tier: SecurityOps, ", 100),
        ("tier: baseline, ", 253),
        ("tier: own, ", 7),
    ] {
        let own = "---\napiVersion: crd.antrea.io/v1beta1\nkind: Tier\nmetadata: {name: own}\nspec: {priority: 7, description: x}\n";
        let spec = format!("{tier}appliedTo: [{{podSelector: {{}}}}], ingress: [{{action: Drop}}]");
        assert_eq!(policy(&acnp(&spec, own), "acnp:p").tier, expected, "{tier}");
    }
    let spec = "appliedTo: [{podSelector: {}}], ingress: [{action: Drop, name: x}, {action: Drop, name: y}, {action: Pass, name: ingress-0}], \
                egress: [{action: Reject, name: y}, {action: Allow, enableLogging: true, logLabel: l}]";
    let projection = acnp(spec, "");
    let ids: Vec<_> = policy(&projection, "acnp:p").rules.iter().map(|rule| rule.id.as_str()).collect();
    assert_eq!(ids, ["x", "ingress-1", "ingress-2", "egress-0", "egress-1"]);
}

#[test]
fn peers_of_antrea() {
    let group = "---\napiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: g}\nspec: {childGroups: [dbs, nets]}\n\
                 ---\napiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: dbs}\nspec: {podSelector: {matchLabels: {app: db}}}\n\
                 ---\napiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: nets}\nspec: {ipBlocks: [{cidr: 10.0.0.0/8}, {cidr: 'fd00::/8'}]}\n\
                 ---\napiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: of}\nspec: {serviceReference: {namespace: a, name: s}}\n\
                 ---\napiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {clusterIP: 10.96.0.9, selector: {app: web}, ports: [{port: 80}]}\n";
    let applied = "appliedTo: [{podSelector: {matchLabels: {app: db}}}]";
    for (rule, expected) in [
        ("from: [{group: g}]", vec!["x Ingress [\"pods app=db of namespaces *\"] blocks[\"10.0.0.0/8 but []\"]"]),
        ("from: [{group: of}]", vec!["x Ingress [\"pods app=web of namespace a\"]"]),
        ("from: [{nodeSelector: {}}]", vec!["x Ingress [\"nodes *\"]"]),
        (
            "from: [{serviceAccount: {namespace: a, name: default}}]",
            vec!["x Ingress [\"pods * of namespace a account default\"]"],
        ),
        (
            "protocols: [{icmp: {icmpType: 8}}, {icmp: {}}]",
            vec!["x Ingress ports[\"Icmp Some(8) None\", \"Icmp None None\"]"],
        ),
        (
            "from: [{namespaces: {match: Self}}]",
            vec!["x/b Ingress [\"pods * of namespace b\"] @[\"pods app=db of namespaces * in b\"]"],
        ),
        (
            "from: [{namespaces: {sameLabels: [env]}, podSelector: {matchLabels: {app: web}}}]",
            vec!["x/b Ingress [\"pods app=web of namespaces env=test\"] @[\"pods app=db of namespaces * in b\"]"],
        ),
        (
            "from: [{namespaces: {sameLabels: [env, none]}}]",
            vec!["x/b Ingress [\"pods * of namespaces -\"] @[\"pods app=db of namespaces * in b\"]"],
        ),
    ] {
        let projection = acnp(&format!("{applied}, ingress: [{{name: x, action: Drop, {rule}}}]"), group);
        assert_eq!(rules(&projection, "acnp:p"), expected, "{rule}");
    }
    for (rule, expected) in [
        ("to: [{fqdn: '*.example.com'}]", vec!["x Egress fqdns[\"*.example.com\"]"]),
        ("to: [{fqdn: A.b}, {fqdn: a.B}, {fqdn: '*.a.b'}]", vec!["x Egress fqdns[\"a.b\", \"*.a.b\"]"]),
        ("toServices: [{namespace: a, name: s}]", vec!["x Egress services[\"a/s\"]"]),
        ("toServices: [{namespace: a, name: gone}]", vec![]),
    ] {
        let projection = acnp(&format!("{applied}, egress: [{{name: x, action: Drop, {rule}}}]"), group);
        assert_eq!(rules(&projection, "acnp:p"), expected, "{rule}: what is not there is not anybody");
    }
    let nodes = acnp(&format!("{applied}, ingress: [{{name: x, action: Drop, from: [{{nodeSelector: {{}}}}]}}]"), "");
    assert_eq!(members(&nodes, "nodes *"), ["10.10.0.1", "10.10.1.1", "192.168.77.102", "192.168.77.103"]);
}

#[test]
fn applied_by_rule_and_to_node_ports() {
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {type: NodePort, ports: [{port: 80, nodePort: 30080}]}\n";
    let spec = "ingress: [{action: Drop, appliedTo: [{podSelector: {matchLabels: {app: db}}}]}, \
                {action: Drop, appliedTo: [{service: {namespace: a, name: s}}]}, {action: Drop, appliedTo: [{podSelector: {matchLabels: {app: no}}}]}, \
                {action: Drop, appliedTo: [{service: {namespace: a, name: gone}}]}]";
    let projection = acnp(spec, service);
    let expected =
        ["ingress-0 Ingress @[\"pods app=db of namespaces *\"]", "ingress-1 Ingress @[\"node ports of a/s\"]"];
    assert_eq!(rules(&projection, "acnp:p"), expected);
    assert!(policy(&projection, "acnp:p").applied_to.is_empty());
    let Object::AppliedToGroup(group) = object(&projection, Kind::AppliedToGroup, "node ports of a/s") else {
        panic!("a group")
    };
    assert_eq!((group.services.as_slice(), group.pods.len()), (&["a/s".to_owned()][..], 0));
}

#[test]
fn policies_of_a_namespace_see_its_pods() {
    let text = format!(
        "apiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {{name: p, namespace: a}}\n\
         spec: {{priority: 5, appliedTo: [{{podSelector: {{}}}}], ingress: [{{action: Allow, from: [{{podSelector: {{}}}}]}}]}}\n{}",
        pods()
    );
    let projection = good(&text);
    assert_eq!(rules(&projection, "anp:a/p"), ["ingress-0 Ingress [\"pods * of namespace a\"]"]);
    assert_eq!(policy(&projection, "anp:a/p").rules[0].direction(), Direction::Ingress);
    let (_, problems) =
        projected(&text.replace("appliedTo: [{podSelector: {}}]", "appliedTo: [{namespaceSelector: {}}]"));
    assert!(
        lines(&problems)[1].contains("spec.appliedTo[0].namespaceSelector: a policy of a namespace"),
        "{problems:?}"
    );
}

#[test]
fn lists_of_kubectl_are_their_items() {
    let text = "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    name: n3\n\
                \x20   creationTimestamp: null\n    managedFields: [{manager: x}]\n  spec: {podCIDR: 10.10.3.0/24, taints: []}\n\
                \x20 status: {addresses: [{type: InternalIP, address: 192.168.77.3}], capacity: {cpu: '2'}}\n";
    let projection = good(text);
    let Object::PeerNode(peer) = object(&projection, Kind::PeerNode, "n3") else { panic!("a peer") };
    assert_eq!(
        (&peer.pod_cidrs[..], &peer.gateway_addresses[..]),
        (&["10.10.3.0/24".to_owned()][..], &["10.10.3.1".to_owned()][..])
    );
}

#[test]
fn what_the_node_has_no_family_for_is_left_out() {
    let text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: p, namespace: a}}\nspec: {{podSelector: {{}}, \
         ingress: [{{from: [{{ipBlock: {{cidr: '::/0'}}}}]}}], egress: [{{to: [{{ipBlock: {{cidr: '::/0'}}}}, {{ipBlock: {{cidr: 0.0.0.0/0}}}}]}}]}}\n\
         ---\napiVersion: v1\nkind: Service\nmetadata: {{name: s, namespace: a}}\nspec: {{clusterIPs: [10.96.0.1, 'fd00::1'], selector: {{app: web}}, ports: [{{port: 80}}]}}\n{}",
        pods().replace("podIP: 10.10.0.11", "podIPs: [{ip: 10.10.0.11}, {ip: 'fd00::11'}]")
    );
    let projection = good(&text);
    let expected = ["egress-0 Egress blocks[\"0.0.0.0/0 but []\"]"];
    assert_eq!(rules(&projection, "np:a/p"), expected, "a rule for nobody that is here is no rule for anybody");
    let Object::Service(service) = object(&projection, Kind::Service, "a/s") else { panic!("a Service") };
    assert_eq!(service.cluster_ips, ["10.96.0.1"]);
    assert_eq!(endpoints(&projection, "a/s:").len(), 3);
    let Object::Pod(pod) = object(&projection, Kind::Pod, "a/web1") else { panic!("a Pod") };
    assert_eq!(pod.addresses, ["10.10.0.11"]);
}
