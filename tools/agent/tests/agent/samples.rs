//! Documents as Antrea's manual has them, and as `kubectl get -o yaml` prints them: accepted, or
//! named as not served without harm to anything beside.

use crate::common::{NODE, lines, object, pods, projected};
use vswitch_agent::problem::Problem;
use vswitch_agent::project::{Projection, text};
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{self, Kind, Protocol};

const CLUSTER: &str = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\nspec: ";
const WEB: &str = "priority: 1, appliedTo: [{podSelector: {matchLabels: {app: web}}}]";

fn accepted(documents: &str) -> (Projection, Vec<String>) {
    let (projection, problems) = projected(&format!("{documents}{}", pods()));
    assert!(!problems.iter().any(Problem::is_error), "{documents}: {:?}", lines(&problems));
    (projection, lines(&problems))
}

fn policy(projection: &Projection, name: &str) -> v1::NetworkPolicy {
    let Object::NetworkPolicy(policy) = object(projection, Kind::NetworkPolicy, name) else { panic!("a policy") };
    policy.clone()
}

fn members(projection: &Projection, rule: &v1::Rule) -> Vec<String> {
    let names = rule.peer.as_ref().map(|peer| peer.address_groups.clone()).unwrap_or_default();
    let mut all = Vec::new();
    for name in names {
        let Object::AddressGroup(group) = object(projection, Kind::AddressGroup, &name) else { panic!("a group") };
        all.extend(group.members.iter().map(|member| match member.member.clone().expect("one") {
            v1::group_member::Member::Pod(pod) => pod,
            v1::group_member::Member::Address(address) => address,
        }));
    }
    all.sort();
    all
}

#[test]
fn protocols_of_applications_without_ports_are_all_of_tcp() {
    for protocols in ["[{http: {host: a.b, method: GET, path: '/x*'}}]", "[{tls: {sni: '*.b'}}]"] {
        let rule = format!("{{name: r, action: Allow, l7Protocols: {protocols}}}");
        let (projection, _) = accepted(&format!("{CLUSTER}{{{WEB}, ingress: [{rule}]}}\n"));
        let rule = &policy(&projection, "acnp:p").rules[0];
        let tcp = v1::PortMatch { protocol: Protocol::Tcp.into(), ..Default::default() };
        assert_eq!((rule.ports.clone(), rule.l7_protocols.len()), (vec![tcp], 1));
    }
}

#[test]
fn names_with_wildcards_anywhere() {
    for (given, told) in [
        ("'*foobar.com'", "*foobar.com"),
        ("'*'", "*"),
        ("'www.*.com'", "www.*.com"),
        ("'Foo*.bar.com'", "foo*.bar.com"),
        ("'*.*.x'", "*.*.x"),
        ("x.com.", "x.com"),
    ] {
        let (projection, _) =
            accepted(&format!("{CLUSTER}{{{WEB}, egress: [{{action: Allow, to: [{{fqdn: {given}}}]}}]}}\n"));
        let peer = policy(&projection, "acnp:p").rules[0].peer.clone().expect("a peer");
        assert_eq!(peer.fqdns, [told]);
    }
}

#[test]
fn a_code_of_icmp_without_a_type_is_of_each_type() {
    let (projection, _) =
        accepted(&format!("{CLUSTER}{{{WEB}, ingress: [{{action: Drop, protocols: [{{icmp: {{icmpCode: 3}}}}]}}]}}\n"));
    let ports = policy(&projection, "acnp:p").rules[0].ports.clone();
    let types: Vec<_> = ports.iter().map(|port| port.icmp_type).collect();
    assert_eq!(types, (0..=255).map(Some).collect::<Vec<_>>());
    assert!(ports.iter().all(|port| port.icmp_code == Some(3)));
}

#[test]
fn groups_of_clusters_and_namespaces() {
    let group = |kind: &str, meta: &str, spec: &str| {
        format!("---\napiVersion: crd.antrea.io/v1beta1\nkind: {kind}\nmetadata: {{name: g{meta}}}\nspec: {spec}\n")
    };
    let named = format!("{CLUSTER}{{{WEB}, ingress: [{{action: Drop, from: [{{group: g}}]}}]}}\n");
    // One that comes later.
    let (projection, problems) = accepted(&named);
    assert!(
        !text(&projection, false).contains("NetworkPolicy {\n    name: \"acnp:p\"")
            || policy(&projection, "acnp:p").rules.is_empty()
    );
    let expected = "spec.ingress[0].from[0].group: there is no ClusterGroup \"g\" yet: it matches nothing";
    assert!(problems.iter().any(|line| line.ends_with(expected)), "{problems:?}");
    let (projection, _) =
        accepted(&format!("{named}{}", group("ClusterGroup", "", "{podSelector: {matchLabels: {app: db}}}")));
    assert_eq!(members(&projection, &policy(&projection, "acnp:p").rules[0]), ["b/db"]);
    // Nodes; children, of which one is not there yet.
    let (projection, _) = accepted(&format!("{named}{}", group("ClusterGroup", "", "{nodeSelector: {}}")));
    assert!(members(&projection, &policy(&projection, "acnp:p").rules[0]).contains(&"192.168.77.103".to_owned()));
    let children = group("ClusterGroup", "", "{childGroups: [h, later]}");
    let child = group("ClusterGroup", "", "{podSelector: {matchLabels: {app: db}}}").replace("name: g", "name: h");
    let (projection, _) = accepted(&format!("{named}{children}{child}"));
    assert_eq!(members(&projection, &policy(&projection, "acnp:p").rules[0]), ["b/db"]);
    // Of a namespace: its Pods.
    let antrea = "apiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: a}\nspec: \
                  {priority: 1, appliedTo: [{group: g}], ingress: [{action: Allow, from: [{group: g}]}]}\n";
    let of_namespace = group("Group", ", namespace: a", "{podSelector: {}}");
    let elsewhere = group("Group", ", namespace: b", "{podSelector: {matchLabels: {app: db}}}");
    let (projection, _) = accepted(&format!("{antrea}{of_namespace}{elsewhere}"));
    let rule = &policy(&projection, "anp:a/p").rules[0];
    assert_eq!(members(&projection, rule), ["10.10.1.13", "a/web1", "a/web2"]);
    let (projection, _) = accepted(&format!("{antrea}{elsewhere}"));
    assert!(!text(&projection, false).contains("anp:a/p"), "a Group of another namespace is none");
}

#[test]
fn what_is_not_served_harms_nothing_beside() {
    let beside = format!("---\n{}{{{WEB}, ingress: [{{action: Drop}}]}}\n", CLUSTER.replace("name: p", "name: beside"));
    let (alone, _) = accepted(&beside);
    for (document, told) in [
        (
            format!("{CLUSTER}{{priority: 1, appliedTo: [{{nodeSelector: {{}}}}], ingress: [{{action: Drop}}]}}\n"),
            "spec.appliedTo[0].nodeSelector: policies of Nodes themselves are not served: left out",
        ),
        (
            format!(
                "{CLUSTER}{{priority: 1, appliedTo: [{{externalEntitySelector: {{}}}}], egress: [{{action: Drop}}]}}\n"
            ),
            "spec.appliedTo[0].externalEntitySelector: external entities are not served: left out",
        ),
        (
            format!("{CLUSTER}{{{WEB}, ingress: [{{action: Allow, from: [{{externalEntitySelector: {{}}}}]}}]}}\n"),
            "spec.ingress[0].from[0].externalEntitySelector: external entities are not served: left out",
        ),
        (
            format!(
                "{CLUSTER}{{{WEB}, ingress: [{{action: Allow, from: [{{scope: ClusterSet, podSelector: {{}}}}]}}]}}\n"
            ),
            "spec.ingress[0].from[0].scope: only the cluster itself is served: left out",
        ),
        (
            "apiVersion: crd.antrea.io/v1beta1\nkind: IPPool\nmetadata: {name: x}\nspec: {ipRanges: []}\n".to_owned(),
            "IPPool is left out: addresses are not given out of pools here: write them where they are used",
        ),
    ] {
        let (projection, problems) = accepted(&format!("{document}{beside}"));
        assert!(problems.iter().any(|line| line.contains(told)), "{problems:?}");
        for (key, projected) in &alone.objects {
            assert_eq!(projection.objects.get(key).map(|now| &now.object), Some(&projected.object), "{document}");
        }
        let policies =
            projection.objects.keys().filter(|(kind, name)| *kind == Kind::NetworkPolicy as i32 && name == "acnp:p");
        assert!(policies.count() == 0 || policy(&projection, "acnp:p").rules.is_empty(), "{document}");
    }
    // To be denied, and not known: everybody is.
    let deny = format!(
        "{CLUSTER}{{{WEB}, egress: [{{action: Drop, toServices: [{{name: s, namespace: a, scope: ClusterSet}}]}}]}}\n"
    );
    let (projection, problems) = accepted(&deny);
    assert_eq!(policy(&projection, "acnp:p").rules[0].peer, Some(v1::RulePeer::default()));
    assert!(
        problems
            .iter()
            .any(|line| line.ends_with("spec.egress[0]: in its place, everything of its direction is dropped"))
    );
    // Tunnels are refused by name.
    for tunnel in ["vxlan", "geneve", "gre", "erspan"] {
        let control = format!(
            "apiVersion: crd.antrea.io/v1alpha2\nkind: TrafficControl\nmetadata: {{name: t}}\nspec: {{appliedTo: {{podSelector: {{}}}}, \
             direction: Both, action: Mirror, targetPort: {{{tunnel}: {{remoteIP: 1.1.1.1}}}}}}\n"
        );
        let (projection, problems) = projected(&format!("{control}{beside}{}", pods()));
        let line = format!(
            "test.yaml:4 TrafficControl t: spec.targetPort.{tunnel}: tunnels are not made here; add the port to the bridge, and name it as a device"
        );
        assert!(lines(&problems).contains(&line), "{problems:?}");
        assert_eq!(text(&projection, false), text(&alone, false));
    }
}

#[test]
fn egresses_with_several_addresses_and_pools() {
    let egress = |spec: &str| {
        format!(
            "apiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {{name: e}}\nspec: {{appliedTo: {{podSelector: {{}}}}, {spec}}}\n"
        )
    };
    let (projection, problems) =
        accepted(&egress("egressIPs: ['fd00::1', 192.168.77.20], externalIPPools: [six, four]"));
    let Object::Egress(of_node) = object(&projection, Kind::Egress, "e") else { panic!("an Egress") };
    assert_eq!(
        (of_node.address.as_str(), problems.len()),
        ("192.168.77.20", 0),
        "that of the Node's family: {problems:?}"
    );
    let (_, problems) = accepted(&egress("egressIPs: [192.168.77.20, 192.168.77.21]"));
    assert!(
        problems[0].ends_with("one address is served, which is 192.168.77.20: 192.168.77.21 is left out"),
        "{problems:?}"
    );
}

#[test]
fn fields_of_other_releases_are_read_over_or_told() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: n, namespace: a, selfLink: /x, annotations: {vswitch/port: n, vswitch/mac: '02:00:00:00:00:09'}}\n\
               spec: {nodeName: NODE, schedulingGroup: {}, workloadRef: {name: w}, evictionResponders: []MORE}\nstatus: {podIP: 10.10.0.90, brandNew: 1}\n"
        .replace("NODE", NODE);
    let slice = "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: x, namespace: a, labels: {kubernetes.io/service-name: s}}\n\
                 addressType: IPv4\nports: [{port: 80MORE}]\nendpoints: [{addresses: [10.10.0.90], deprecatedTopology: {a: b}MORE}]\n";
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {clusterIP: 10.96.0.9, ports: [{port: 80MORE}]MORE}\nstatus: {loadBalancer: {}}\n";
    let node = "---\napiVersion: v1\nkind: Node\nmetadata: {name: other}\nspec: {podCIDR: 10.10.7.0/24, podPreemptionPolicy: xMORE}\nstatus: {addresses: [{type: InternalIP, address: 192.168.77.107}]}\n";
    let egress = "---\napiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {name: e}\nspec: {egressIP: 192.168.77.20, appliedTo: {podSelector: {}}MORE}\n";
    let all = [&pod, slice, service, node, egress].concat();
    let (known, problems) = accepted(&all.replace("MORE", ""));
    assert_eq!(problems, [""; 0], "silently");
    let (unknown, problems) = accepted(&all.replace("MORE", ", brandNew: {a: 1}"));
    assert_eq!(text(&unknown, false), text(&known, false));
    assert_eq!(problems.len(), 7, "{problems:?}");
    assert!(problems.iter().all(|line| line.contains("brandNew: unknown field; known here: ")), "{problems:?}");
    // Whom it applies to is no field to be left out.
    let (projection, problems) = projected(&format!(
        "{}{}",
        egress.replace("podSelector: {}", "podSelector: {matchLabel: {}}").replace("MORE", ""),
        pods()
    ));
    assert!(problems.iter().any(Problem::is_error) && !text(&projection, false).contains("Egress {"), "{problems:?}");
}
