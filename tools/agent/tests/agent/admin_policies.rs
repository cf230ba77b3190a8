//! Policies of policy.networking.k8s.io: what they mean, and what is in force while they are wrong.

use crate::common::{applied, good, lines, object, pods, policies, projected};
use crate::dual::Scene;
use crate::intent::verdict::{Packet, Verdicts};
use vswitch_agent::project::Projection;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{self, Kind, Protocol, RuleAction};

/// The heads of the three kinds.
const CNP: &str = "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\n";
const ANP: &str = "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {name: p}\n";
const BANP: &str =
    "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: BaselineAdminNetworkPolicy\nmetadata: {name: default}\n";

/// Pods of namespace a as subjects.
const OF_A: &str = "subject: {namespaces: {matchLabels: {env: prod}}}";

fn policy<'a>(projection: &'a Projection, name: &str) -> &'a v1::NetworkPolicy {
    let Object::NetworkPolicy(policy) = object(projection, Kind::NetworkPolicy, name) else { panic!("a policy") };
    policy
}

/// A rule in short: `id direction action groups blocks names ports`.
fn short(rule: &v1::Rule) -> String {
    let peer = rule.peer.clone().unwrap_or_default();
    let mut all = peer.address_groups;
    all.extend(peer.blocks.iter().map(|block| block.cidr.clone()));
    all.extend(peer.fqdns);
    all.extend(rule.ports.iter().map(|port| match port.end_port {
        0 => format!("{:?} {}", port.protocol(), port.port),
        last => format!("{:?} {}-{last}", port.protocol(), port.port),
    }));
    let whom = if all.is_empty() { "everybody".to_owned() } else { all.join(", ") };
    format!("{} {:?} {:?} {whom}", rule.id, rule.direction(), rule.action())
}

fn rules(projection: &Projection, name: &str) -> Vec<String> {
    policy(projection, name).rules.iter().map(short).collect()
}

fn with_pods(documents: &[&str]) -> Projection {
    good(&format!("{}---\n{}", documents.join("---\n"), pods()))
}

#[test]
fn tiers_and_priorities_are_those_of_antrea() {
    let deny = "ingress: [{action: Deny, from: [{namespaces: {}}]}]";
    for (document, name, expected) in [
        (format!("{CNP}spec: {{tier: Admin, priority: 0, {OF_A}, {deny}}}\n"), "acnp:k8s-cnp:p", (251, 0.0)),
        (format!("{CNP}spec: {{tier: Admin, priority: 1000, {OF_A}, {deny}}}\n"), "acnp:k8s-cnp:p", (251, 1000.0)),
        (format!("{CNP}spec: {{tier: Baseline, priority: 7, {OF_A}, {deny}}}\n"), "acnp:k8s-cnp:p", (254, 7.0)),
        (format!("{ANP}spec: {{priority: 7, {OF_A}, {deny}}}\n"), "acnp:k8s-anp:p", (251, 7.0)),
        (format!("{BANP}spec: {{{OF_A}, {deny}}}\n"), "acnp:k8s-banp:default", (254, 1.0)),
    ] {
        let projection = with_pods(&[&document]);
        let found = policy(&projection, name);
        assert_eq!((found.tier, found.priority), expected, "{document}");
        assert_eq!(found.kind(), v1::PolicyKind::AntreaCluster);
        assert_eq!(applied(&projection, &found.applied_to[0]), ["a/web1", "a/web2"], "{document}");
    }
    // Policies of one name and different kinds are different policies, and Antrea's is one more.
    let antrea = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\n\
                  spec: {priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop}]}\n";
    let (cnp, anp) = (
        format!("{CNP}spec: {{tier: Admin, priority: 1, {OF_A}, {deny}}}\n"),
        format!("{ANP}spec: {{priority: 1, {OF_A}, {deny}}}\n"),
    );
    let projection = with_pods(&[&cnp, &anp, antrea]);
    assert_eq!(policies(&projection), ["acnp:k8s-anp:p", "acnp:k8s-cnp:p", "acnp:p"]);
}

#[test]
fn peers_and_ports() {
    let web = "{namespaceSelector: {matchLabels: {env: prod}}, podSelector: {matchLabels: {app: web}}}";
    for (rule, expected) in [
        ("action: Pass, to: [{namespaces: {}}]", "x Egress Pass pods * of namespaces *"),
        (&format!("action: Deny, to: [{{pods: {web}}}]"), "x Egress Drop pods app=web of namespaces env=prod"),
        (
            "action: Accept, to: [{networks: [10.0.0.0/8, 192.0.2.0/24]}, {nodes: {}}]",
            "x Egress Allow nodes *, 10.0.0.0/8, 192.0.2.0/24",
        ),
        ("action: Accept, to: [{domainNames: ['*.Example.com', a.b.]}]", "x Egress Allow *.example.com, a.b"),
        (
            "action: Accept, to: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 80}}}, \
             {udp: {destinationPort: {range: {start: 53, end: 54}}}}, {sctp: {destinationPort: {number: 9}}}]",
            "x Egress Allow pods * of namespaces *, Tcp 80, Udp 53-54, Sctp 9",
        ),
    ] {
        let document = format!("{CNP}spec: {{tier: Admin, priority: 1, {OF_A}, egress: [{{name: x, {rule}}}]}}\n");
        assert_eq!(rules(&with_pods(&[&document]), "acnp:k8s-cnp:p"), [expected], "{rule}");
    }
    let ports = "ports: [{portNumber: {port: 80}}, {portRange: {protocol: UDP, start: 1, end: 9}}]";
    let document = format!(
        "{ANP}spec: {{priority: 1, {OF_A}, ingress: [{{action: Allow, from: [{{namespaces: {{}}}}], {ports}}}]}}\n"
    );
    let expected = "ingress-0 Ingress Allow pods * of namespaces *, Tcp 80, Udp 1-9";
    assert_eq!(rules(&with_pods(&[&document]), "acnp:k8s-anp:p"), [expected]);
    // A name is that of a port of any protocol.
    let document = format!(
        "{CNP}spec: {{tier: Admin, priority: 1, {OF_A}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}], \
         protocols: [{{destinationNamedPort: NAME}}]}}]}}\n"
    );
    let (projection, problems) = projected(&format!("{}{}", document.replace("NAME", "http"), pods()));
    let ids: Vec<String> = policy(&projection, "acnp:k8s-cnp:p").rules.iter().map(|rule| rule.id.clone()).collect();
    assert_eq!(ids, ["ingress-0/tcp-8080", "ingress-0/tcp-9090"]);
    assert_eq!(lines(&problems), [""; 0], "none of UDP is nothing odd");
    let (_, problems) = projected(&format!("{}{}", document.replace("NAME", "smtp"), pods()));
    let told = lines(&problems);
    assert!(told.len() == 1 && told[0].ends_with("no Pod has a port \"smtp\": it matches nothing"), "{told:?}");
}

#[test]
fn a_rule_that_is_not_understood_accepts_nothing_or_denies_all() {
    let bad = [
        "to: [{}]",
        "to: []",
        "to: null",
        "from: [{namespaces: {}}]",
        "to: [{namespaces: {}}], from: [{namespaces: {}}]",
        "to: [{services: {}}]",
        "to: [{namespaces: {}, nodes: {}}]",
        "to: [{pods: {namespaceSelector: {}}}]",
        "to: [{namespaces: {matchLabel: {a: b}}}]",
        "to: [{namespaces: {matchLabels: {'a b': c}}}]",
        "to: [{networks: []}]",
        "to: [{networks: [10.0.0.0]}]",
        "to: [{domainNames: [io]}]",
        "to: [{namespaces: {}}], ports: [{portNumber: {port: 80}}]",
        "to: [{namespaces: {}}], protocols: []",
        "to: [{namespaces: {}}], protocols: [{}]",
        "to: [{namespaces: {}}], protocols: [{tcp: {}}]",
        "to: [{namespaces: {}}], protocols: [{icmp: {}}]",
        "to: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 0}}}]",
        "to: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 70000}}}]",
        "to: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {range: {start: 9, end: 1}}}}]",
        "to: [{networks: [10.0.0.0/8]}], protocols: [{destinationNamedPort: http}]",
        "to: [{namespaces: {}}], newField: 1",
    ];
    for tier in ["Admin", "Baseline"] {
        for bad in bad {
            for (action, expected) in [
                ("Accept", &[][..]),
                ("Deny", &["egress-0 Egress Drop everybody"]),
                ("Pass", &["egress-0 Egress Drop everybody"]),
                ("Denied", &["egress-0 Egress Drop everybody"]),
            ] {
                let more = "{action: Accept, to: [{networks: [9.9.9.9/32]}]}";
                let spec = format!("tier: {tier}, priority: 1, {OF_A}, egress: [{{action: {action}, {bad}}}, {more}]");
                let (projection, problems) = projected(&format!("{CNP}spec: {{{spec}}}\n{}", pods()));
                let expected: Vec<&str> =
                    expected.iter().copied().chain(["egress-1 Egress Allow 9.9.9.9/32"]).collect();
                assert_eq!(rules(&projection, "acnp:k8s-cnp:p"), expected, "{spec}");
                let errors = problems.iter().filter(|problem| problem.is_error()).count();
                assert_eq!(errors, 1, "{spec}: {:?}", lines(&problems));
            }
        }
    }
    for (document, rule) in [
        (CNP, "{action: Deny, to: [{domainNames: [a.b]}]}"),
        (CNP, "{action: Pass, to: [{domainNames: [a.b]}]}"),
        (BANP, "{action: Pass, to: [{namespaces: {}}]}"),
        (BANP, "{action: Deny, to: [{domainNames: [a.b]}]}"),
    ] {
        let head = if document == CNP { "tier: Admin, priority: 1, " } else { "" };
        let name = if document == CNP { "acnp:k8s-cnp:p" } else { "acnp:k8s-banp:default" };
        let (projection, _) = projected(&format!("{document}spec: {{{head}{OF_A}, egress: [{rule}]}}\n{}", pods()));
        assert_eq!(rules(&projection, name), ["egress-0 Egress Drop everybody"], "{rule}");
    }
    // Sources are Pods.
    for peer in ["{nodes: {}}", "{networks: [10.0.0.0/8]}", "{domainNames: [a.b]}"] {
        let spec = format!("tier: Admin, priority: 1, {OF_A}, ingress: [{{action: Deny, from: [{peer}]}}]");
        let (projection, _) = projected(&format!("{CNP}spec: {{{spec}}}\n{}", pods()));
        assert_eq!(rules(&projection, "acnp:k8s-cnp:p"), ["ingress-0 Ingress Drop everybody"], "{peer}");
    }
}

#[test]
fn a_wrong_policy_holds_whom_it_may_bind() {
    let ingress = "ingress: [{action: Accept, from: [{namespaces: {}}]}]";
    let of_a = &["a/web1", "a/web2"][..];
    let all = &["a/web1", "a/web2", "b/db"][..];
    for (document, spec, name, pods_held) in [
        (CNP, format!("priority: 1, {OF_A}, {ingress}"), "acnp:k8s-cnp:p", of_a),
        (CNP, format!("tier: admin, priority: 1, {OF_A}, {ingress}"), "acnp:k8s-cnp:p", of_a),
        (CNP, format!("tier: Admin, {OF_A}, {ingress}"), "acnp:k8s-cnp:p", of_a),
        (CNP, format!("tier: Admin, priority: 1001, {OF_A}, {ingress}"), "acnp:k8s-cnp:p", of_a),
        (CNP, format!("tier: Admin, priority: -1, {OF_A}, {ingress}"), "acnp:k8s-cnp:p", of_a),
        (CNP, format!("tier: Admin, priority: 1, {ingress}"), "acnp:k8s-cnp:p", all),
        (CNP, format!("tier: Admin, priority: 1, subject: {{}}, {ingress}"), "acnp:k8s-cnp:p", all),
        (CNP, format!("tier: Admin, priority: 1, subject: {{nodes: {{}}}}, {ingress}"), "acnp:k8s-cnp:p", all),
        (CNP, format!("tier: Admin, priority: 1, {OF_A}, ingress: 5"), "acnp:k8s-cnp:p", of_a),
        (CNP, format!("tier: Admin, priority: 1, {OF_A}, newField: 5, {ingress}"), "acnp:k8s-cnp:p", of_a),
        (ANP, format!("tier: Admin, priority: 1, {OF_A}, {ingress}"), "acnp:k8s-anp:p", of_a),
        (BANP, format!("priority: 1, {OF_A}, {ingress}"), "acnp:k8s-banp:default", of_a),
    ] {
        let (projection, problems) = projected(&format!("{document}spec: {{{spec}}}\n{}", pods()));
        let name = format!("{name} (held)");
        assert_eq!(policies(&projection), [name.as_str()], "{spec}: {:?}", lines(&problems));
        assert_eq!(applied(&projection, &format!("pods of {name}")), pods_held, "{spec}");
        let held = policy(&projection, &name);
        assert_eq!((held.tier, held.priority), (0, 0.0), "before all others");
        assert_eq!(rules(&projection, &name), ["ingress-0 Ingress Drop everybody"], "{spec}");
    }
}

#[test]
fn a_policy_whose_kind_is_misspelt_is_a_wrong_policy() {
    let spec = format!(
        "spec: {{tier: Admin, priority: 1, {OF_A}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}]}}]}}\n"
    );
    for (from, to) in [
        ("kind: ClusterNetworkPolicy", "kind: clusternetworkpolicy"),
        ("kind: ClusterNetworkPolicy", "kind: ClusterNetworkPolicies"),
        ("kind: ClusterNetworkPolicy", "kind: Policy"),
        ("kind: ClusterNetworkPolicy\n", ""),
        ("kind: ClusterNetworkPolicy", "kind: AdminNetworkPolicy2"),
        (
            "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy",
            "apiVersion: v1\nkind: AdminNetworkPolicy",
        ),
        ("apiVersion: policy.networking.k8s.io/v1alpha2\n", ""),
    ] {
        let document = format!("{CNP}{spec}").replacen(from, to, 1);
        let (projection, problems) = projected(&format!("{document}{}", pods()));
        assert!(problems.iter().any(vswitch_agent::problem::Problem::is_error), "{document}");
        let held = policies(&projection);
        assert!(held.len() == 1 && held[0].ends_with("(held)"), "{document}: {held:?} {:?}", lines(&problems));
    }
    // Another kind of the group is nobody's policy.
    let (projection, problems) = projected(&format!(
        "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: ExternalNetworkSet\nmetadata: {{name: x}}\nspec: {{}}\n{}",
        pods()
    ));
    assert_eq!(policies(&projection), [""; 0]);
    assert_eq!(problems.len(), 1, "{:?}", lines(&problems));
}

#[test]
fn a_baseline_policy_of_another_name_is_in_force_and_told() {
    let document = BANP.replace("default", "other");
    let spec = format!("spec: {{{OF_A}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}]}}]}}\n");
    let (projection, problems) = projected(&format!("{document}{spec}{}", pods()));
    assert_eq!(policies(&projection), ["acnp:k8s-banp:other"]);
    let told = lines(&problems);
    assert!(told.len() == 1 && told[0].contains("metadata.name: default is the only name"), "{told:?}");
}

#[test]
fn a_policy_that_was_right_stays_while_it_is_wrong_or_there_twice() {
    let right = format!(
        "{CNP}spec: {{tier: Admin, priority: 1, subject: {{namespaces: {{}}}}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}]}}]}}\n"
    );
    let mut scene = Scene::new(&[&pods(), &right]);
    let name = "acnp:k8s-cnp:p";
    let before = policy(scene.projection(), name).clone();
    for (from, to) in
        [("action: Deny", "action: Accept, to: [{}]"), ("tier: Admin", "tier: admin"), ("spec: {", "spec: {x: 1, ")]
    {
        scene.write("1.yaml", &right.replace(from, to));
        assert_eq!(policy(scene.projection(), name), &before, "{to}");
        assert!(!scene.errors("ClusterNetworkPolicy p: ").is_empty(), "{to}");
    }
    scene.write("1.yaml", &right);
    // What another document of its name accepts is not accepted, and what it denies is denied.
    scene.write("2.yaml", &right.replace("action: Deny", "action: Accept"));
    assert_eq!(policy(scene.projection(), name), &before);
    scene.write(
        "2.yaml",
        &right
            .replace("priority: 1", "priority: 0")
            .replace("Deny, from: [{namespaces: {}}]", "Deny, from: [{pods: {podSelector: {}}}]"),
    );
    assert_eq!(policy(scene.projection(), name), &before);
    let guard = policy(scene.projection(), &format!("{name} (held)"));
    assert!(guard.rules.iter().all(|rule| rule.action() == RuleAction::Drop) && guard.tier < 251, "{guard:?}");
}

/// Whether the first packet passes from one address to another, at TCP port 80.
fn passes(projection: &Projection, from: &str, to: &str) -> bool {
    let packet = Packet { from: from.to_owned(), to: to.to_owned(), protocol: Protocol::Tcp, port: 80 };
    Verdicts::new(projection).passes(&packet)
}

#[test]
fn admin_policies_go_before_those_of_kubernetes_and_baseline_ones_behind() {
    let k8s = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: k, namespace: a}\nspec: ";
    let cnp = |tier: &str, priority: u32, action: &str| {
        let peers = "from: [{pods: {podSelector: {matchLabels: {app: db}}}}]";
        let name = format!("{tier}-{priority}").to_lowercase();
        format!(
            "{}spec: {{tier: {tier}, priority: {priority}, {OF_A}, ingress: [{{action: {action}, {peers}}}]}}\n",
            CNP.replace("name: p", &format!("name: {name}"))
        )
    };
    let isolate = format!("{k8s}{{podSelector: {{}}, ingress: []}}\n");
    let allow = format!("{k8s}{{podSelector: {{}}, ingress: [{{}}]}}\n");
    for (documents, expected) in [
        (vec![cnp("Admin", 5, "Deny")], false),
        (vec![cnp("Admin", 5, "Deny"), allow.clone()], false),
        (vec![cnp("Admin", 5, "Accept"), isolate.clone()], true),
        (vec![cnp("Admin", 5, "Pass"), cnp("Admin", 6, "Deny")], true),
        (vec![cnp("Admin", 5, "Pass"), cnp("Admin", 6, "Accept"), isolate.clone()], false),
        (vec![cnp("Admin", 0, "Deny"), cnp("Admin", 1, "Accept")], false),
        (vec![cnp("Admin", 1, "Accept"), cnp("Admin", 2, "Deny")], true),
        (vec![cnp("Baseline", 5, "Deny")], false),
        (vec![cnp("Baseline", 5, "Deny"), allow], true),
        (vec![cnp("Baseline", 5, "Accept"), isolate.clone()], false),
        (vec![cnp("Admin", 5, "Pass"), cnp("Baseline", 5, "Deny")], false),
        (vec![cnp("Baseline", 5, "Pass"), cnp("Baseline", 6, "Deny")], true),
    ] {
        let all: Vec<&str> = documents.iter().map(String::as_str).collect();
        let projection = with_pods(&all);
        assert_eq!(passes(&projection, "10.10.0.14", "10.10.0.11"), expected, "{documents:?}");
        let isolated = documents.contains(&isolate);
        assert_eq!(passes(&projection, "10.10.0.12", "10.10.0.11"), !isolated, "others: {documents:?}");
    }
}

#[test]
fn rules_that_deny_mean_pods_in_doubt() {
    // The Pod's labels cannot be read.
    let doubtful = "apiVersion: v1\nkind: Pod\nmetadata: {name: odd, namespace: b, labels: {app: [x]}}\n\
                    spec: {nodeName: k8s-node-worker-1}\nstatus: {podIP: 10.10.1.77}\n";
    for (tier, action, expected) in [
        ("Admin", "Deny", false),
        ("Admin", "Pass", false),
        ("Baseline", "Deny", false),
        ("Baseline", "Pass", false),
        ("Admin", "Accept", true),
    ] {
        let peers = "from: [{pods: {podSelector: {matchLabels: {app: db}}}}]";
        let document =
            format!("{CNP}spec: {{tier: {tier}, priority: 1, {OF_A}, ingress: [{{action: {action}, {peers}}}]}}\n");
        let (projection, _) = projected(&format!("{document}---\n{doubtful}{}", pods()));
        assert_eq!(passes(&projection, "10.10.1.77", "10.10.0.11"), expected, "{tier} {action}");
    }
}

#[test]
fn without_policies_of_antrea_they_bind_nobody_and_are_told() {
    let document =
        format!("{ANP}spec: {{priority: 1, {OF_A}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}]}}]}}\n");
    let scene =
        Scene::of("    proxyAll: true\n", "    proxyAll: true\n    antreaPolicy: false\n", &[&pods(), &document]);
    let told = lines(scene.1.problems());
    assert!(
        told.iter().any(|line| line.contains("AdminNetworkPolicy p: binds nobody: features.antreaPolicy")),
        "{told:?}"
    );
}
