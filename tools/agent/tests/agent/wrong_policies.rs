//! Policies that are wrong, in part or as a whole: what is right of them works, and nothing of them
//! is open.

use crate::common::{CLUSTER, K8S, NODE, applied, lines, object, pod, pods, policies, projected};
use vswitch_agent::problem::Problem;
use vswitch_agent::project::{Projection, text};
use vswitch_proto::antrea::v1::group_member::Member;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{self, Kind, RuleAction};

fn policy<'a>(projection: &'a Projection, name: &str) -> &'a v1::NetworkPolicy {
    let Object::NetworkPolicy(policy) = object(projection, Kind::NetworkPolicy, name) else { panic!("a policy") };
    policy
}

/// A rule in short: its id, what it does, whether for anybody, and to what it is applied.
fn short(rule: &v1::Rule) -> String {
    let is_any = rule.peer == Some(v1::RulePeer::default()) && rule.ports.is_empty();
    let whom = if is_any { "anybody" } else { "some" };
    format!("{} {:?} {:?} {whom} {:?}", rule.id, rule.direction(), rule.action(), rule.applied_to)
}

fn rules(projection: &Projection, name: &str) -> Vec<String> {
    policy(projection, name).rules.iter().map(short).collect()
}

/// A policy beside the Pods of all tests.
fn with_pods(policy: &str) -> (Projection, Vec<Problem>) {
    projected(&format!("{policy}{}", pods()))
}

fn held(lines: &[String]) -> Vec<&str> {
    let held = lines.iter().filter_map(|line| line.split_once(": until it is right, "));
    held.map(|(_, held)| held).collect()
}

#[test]
fn what_is_said_twice_means_the_same_once() {
    let once = |text: &str| text.replace("T1", "").replace("T2", "");
    let twice = |text: &str| {
        let mut text = text.to_owned();
        while let Some((before, behind)) = text.split_once("T1") {
            let (entry, rest) = behind.split_once("T2").expect("an end");
            text = format!("{before}{entry}, {entry}{rest}");
        }
        text
    };
    let icmp = "T1{icmp: {icmpType: 8}}T2";
    let all = "appliedTo: [T1{podSelector: {matchLabels: {app: web}}}T2]";
    let peers = "T1{podSelector: {}}T2, T1{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}T2";
    for document in [
        format!("{K8S}spec: {{podSelector: {{}}, policyTypes: [T1IngressT2], ingress: [{{from: [{peers}], ports: [T1{{port: 80}}T2, T1{{port: http}}T2]}}]}}\n"),
        format!("{K8S}spec: {{podSelector: {{}}, egress: [{{to: [{peers}], ports: [T1{{protocol: UDP, port: 53, endPort: 54}}T2]}}]}}\n"),
        format!("{CLUSTER}spec: {{priority: 1, {all}, ingress: [{{action: Drop, protocols: [{icmp}]}}]}}\n"),
        format!("{CLUSTER}spec: {{priority: 1, {all}, ingress: [{{action: Drop, from: [{peers}], ports: [T1{{port: 80}}T2]}}]}}\n"),
        format!("{CLUSTER}spec: {{priority: 1, {all}, egress: [{{action: Drop, to: [T1{{fqdn: a.b}}T2, {{fqdn: A.b.}}]}}]}}\n"),
        format!("{CLUSTER}spec: {{priority: 1, {all}, ingress: [{{action: Allow, ports: [T1{{port: 80}}T2], l7Protocols: [T1{{http: {{}}}}T2]}}]}}\n"),
        "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {type: LoadBalancer, clusterIPs: [T110.96.0.9T2], \
         selector: {app: web}, externalIPs: [T1192.168.77.9T2], ports: [{port: 80}], loadBalancerSourceRanges: [T110.0.0.0/8T2]}\n\
         status: {loadBalancer: {ingress: [T1{ip: 192.168.77.10}T2]}}\n"
            .to_owned(),
        pod("a", "x", "", NODE, "10.10.0.99", "").replace("podIP: 10.10.0.99", "podIPs: [T1{ip: 10.10.0.99}T2]"),
    ] {
        let (single, problems) = with_pods(&once(&document));
        assert!(!problems.iter().any(Problem::is_error), "{document}: {:?}", lines(&problems));
        let (double, more) = with_pods(&twice(&document));
        assert_ne!(once(&document), twice(&document));
        assert_eq!(text(&double, false), text(&single, false), "{document}");
        assert_eq!(lines(&more), lines(&problems), "nothing is said of it: {document}");
    }
}

#[test]
fn a_wrong_rule_leaves_the_others_and_is_never_less_than_it_was_meant() {
    let all = "priority: 1, appliedTo: [{podSelector: {matchLabels: {app: web}}}]";
    let good = "{action: Allow, ports: [{port: 1}]}";
    for (bad, expected) in [
        ("{action: Allow, prts: [{port: 2}]}", None),
        ("{action: Allow, ports: [{port: 2, endPort: 1}]}", None),
        ("{action: Allow, l7Protocols: [{htp: {}}]}", Some("ingress-0 Ingress Drop anybody []")),
        (
            "{action: Allow, l7Protocols: [{http: {}}], protocols: [{icmp: {}}]}",
            Some("ingress-0 Ingress Drop anybody []"),
        ),
        ("{action: Drop, prts: [{port: 2}]}", Some("ingress-0 Ingress Drop anybody []")),
        ("{action: Drop, ports: [{port: 70000}]}", Some("ingress-0 Ingress Drop anybody []")),
        ("{action: Reject, from: [{podSelector: {matchLabel: {a: b}}}]}", Some("ingress-0 Ingress Drop anybody []")),
        ("{action: Pass, from: [{}]}", Some("ingress-0 Ingress Drop anybody []")),
        ("{action: Deny}", Some("ingress-0 Ingress Drop anybody []")),
        ("{ports: [{port: 2}]}", Some("ingress-0 Ingress Drop anybody []")),
        ("5", Some("ingress-0 Ingress Drop anybody []")),
    ] {
        let (projection, problems) = with_pods(&format!("{CLUSTER}spec: {{{all}, ingress: [{bad}, {good}]}}\n"));
        let expected: Vec<&str> = expected.into_iter().chain(["ingress-1 Ingress Allow some []"]).collect();
        assert_eq!(rules(&projection, "acnp:p"), expected, "{bad}");
        assert_eq!(policies(&projection), ["acnp:p"], "{bad}");
        let errors: Vec<_> = problems.iter().filter(|problem| problem.is_error()).collect();
        assert!(errors.len() == 1 && errors[0].field.starts_with("spec.ingress[0]"), "{bad}: {problems:?}");
    }
    let (projection, problems) =
        with_pods(&format!("{K8S}spec: {{podSelector: {{}}, ingress: [{{form: []}}, {{ports: [{{port: 1}}]}}]}}\n"));
    assert_eq!(rules(&projection, "np:a/p"), ["ingress-1 Ingress Allow some []"]);
    assert!(policy(&projection, "np:a/p").isolates_ingress);
    assert!(lines(&problems).iter().any(|line| line.ends_with("spec.ingress[0]: is left out")), "{problems:?}");
}

#[test]
fn a_wrong_rule_with_its_own_applied_to_is_for_these() {
    for (own, expected) in [
        ("appliedTo: [{podSelector: {matchLabels: {app: db}}}]", &["b/db"][..]),
        ("appliedTo: [{podSelector: {matchLabel: {app: db}}}]", &["a/web1", "a/web2", "b/db"]),
        ("appliedTo: []", &["a/web1", "a/web2", "b/db"]),
    ] {
        let (projection, _) =
            with_pods(&format!("{CLUSTER}spec: {{priority: 1, egress: [{{action: Drop, x: y, {own}}}]}}\n"));
        let rules = &policy(&projection, "acnp:p").rules;
        assert_eq!((rules.len(), rules[0].action()), (1, RuleAction::Drop), "{own}");
        assert_eq!(applied(&projection, &rules[0].applied_to[0]), expected, "{own}");
    }
}

#[test]
fn a_policy_that_is_wrong_as_a_whole_holds_those_that_it_may_bind() {
    let ingress = "ingress: [{action: Allow}]";
    for (document, name, pods, ways) in [
        (
            format!("{K8S}spec: {{podSelector: {{matchLabels: {{app: web}}}}, x: y}}\n"),
            "np:a/p",
            "a/web1, a/web2",
            "what comes in",
        ),
        (
            format!("{K8S}spec: {{podSelector: {{matchLabels: {{app: web}}}}, x: y, egress: [{{}}]}}\n"),
            "np:a/p",
            "a/web1, a/web2",
            "everything",
        ),
        (
            format!("{K8S}spec: {{podSelector: {{matchLabel: {{app: web}}}}, policyTypes: [Egress]}}\n"),
            "np:a/p",
            "a/web1, a/web2",
            "what goes out",
        ),
        (
            format!("{K8S}spec: {{podSelector: {{}}, policyTypes: [Ingres]}}\n"),
            "np:a/p",
            "a/web1, a/web2",
            "everything",
        ),
        (
            format!("{K8S}spec: {{podSelector: {{matchLabels: {{a/b/c: web}}}}}}\n"),
            "np:a/p",
            "a/web1, a/web2",
            "what comes in",
        ),
        (K8S.to_owned(), "np:a/p", "a/web1, a/web2", "everything"),
        (
            format!("{}spec: {{}}\n", K8S.replace("namespace: a", "namespace: 5")),
            "np:-/p",
            "a/web1, a/web2, b/db",
            "what comes in",
        ),
        (
            format!("{}spec: {{}}\n", K8S.replace("name: p", "name: p, labels: 5")),
            "np:a/p",
            "a/web1, a/web2",
            "what comes in",
        ),
        (
            format!("{}spec: {{}}\n", K8S.replace("name: p", "nam: p")),
            "np:a/test.yaml:1",
            "a/web1, a/web2",
            "what comes in",
        ),
        (
            format!(
                "{CLUSTER}spec: {{priority: x, appliedTo: [{{podSelector: {{matchLabels: {{app: db}}}}}}], {ingress}}}\n"
            ),
            "acnp:p",
            "b/db",
            "what comes in",
        ),
        (
            format!(
                "{CLUSTER}spec: {{priority: 1, tier: gold, appliedTo: [{{podSelector: {{matchLabels: {{app: db}}}}}}], e: 1}}\n"
            ),
            "acnp:p",
            "b/db",
            "everything",
        ),
        (
            format!(
                "{CLUSTER}spec: {{priority: 1, tier: gold, appliedTo: [{{podSelector: {{matchLabels: {{app: db}}}}}}], {ingress}}}\n"
            ),
            "acnp:p",
            "b/db",
            "what comes in",
        ),
        (
            format!("{CLUSTER}spec: {{priority: 1, appliedTo: [{{podSelectors: {{}}}}], {ingress}}}\n"),
            "acnp:p",
            "a/web1, a/web2, b/db",
            "what comes in",
        ),
        (
            format!("{CLUSTER}spec: {{priority: 1, appliedTo: [{{podSelector: {{}}}}], egress: {{}}}}\n"),
            "acnp:p",
            "a/web1, a/web2, b/db",
            "what goes out",
        ),
        (
            format!("{CLUSTER}spec: {{priority: 1, appliedTo: [{{podSelector: {{}}}}]}}\n{ingress}\n"),
            "acnp:p",
            "a/web1, a/web2, b/db",
            "everything",
        ),
    ] {
        let (projection, problems) = with_pods(&document);
        let name = format!("{name} (held)");
        assert_eq!(policies(&projection), [name.as_str()], "{document}");
        let told = lines(&problems);
        assert_eq!(held(&told), [format!("{ways} is dropped for {pods}")], "{document}");
        let of_policy = policy(&projection, &name);
        assert_eq!(applied(&projection, &format!("pods of {name}")).join(", "), pods, "{document}");
        if of_policy.kind() == v1::PolicyKind::K8s {
            let isolates = (of_policy.isolates_ingress, of_policy.isolates_egress);
            assert_eq!(isolates, (ways != "what goes out", ways != "what comes in"), "{document}");
            assert!(of_policy.rules.is_empty());
        } else {
            assert_eq!((of_policy.tier, of_policy.priority), (0, 0.0), "before all others");
            let all =
                of_policy.rules.iter().all(|rule| rule.action() == RuleAction::Drop && short(rule).contains("anybody"));
            assert!(
                all && of_policy.rules.len() == if ways == "everything" { 2 } else { 1 },
                "{document}: {of_policy:?}"
            );
        }
    }
}

#[test]
fn who_may_be_meant_and_is_not_understood_is_denied_and_nobody_else() {
    let rule = "ingress: [{action: ACTION, from: [PEER]}]";
    let policy = format!(
        "{CLUSTER}spec: {{priority: 1, appliedTo: [{{podSelector: {{matchLabels: {{app: web}}}}}}], {rule}}}\n---\n"
    );
    let evil = "{podSelector: {matchLabels: {app: evil}}}";
    let by_space = "{namespaceSelector: {matchLabels: {env: prod}}}";
    let bad_pod = |labels: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: x, namespace: b, labels: {labels}}}\n\
             spec: {{nodeName: other, containers: 5}}\nstatus: {{podIP: 10.10.1.66}}\n"
        )
    };
    let bad_space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: 5}\n";
    for (peer, bad, expected) in [
        (evil, bad_pod("{app: evil}"), &["10.10.1.66"][..]),
        (evil, bad_pod("{app: good}"), &[]),
        (evil, bad_pod("5"), &["10.10.1.66"]),
        (by_space, bad_space.to_owned(), &["10.10.1.13"]),
        (
            "{namespaces: {match: Self}}",
            bad_pod("5").replace("namespace: b", "namespace: a"),
            &["10.10.1.13", "10.10.1.66", "a/web1", "a/web2"],
        ),
    ] {
        let pods = pods().replacen("name: a, labels: {env: prod}", "name: unused", 1);
        for action in ["Drop", "Reject", "Pass", "Allow"] {
            let document = policy.replace("ACTION", action).replace("PEER", peer);
            let (projection, problems) = projected(&format!("{document}{bad}{pods}"));
            assert_eq!(problems.iter().filter(|problem| problem.is_error()).count(), 1, "{problems:?}");
            let mut members = Vec::new();
            for projected in projection.objects.values() {
                let Some(Object::AddressGroup(group)) = &projected.object.object else { continue };
                members.extend(group.members.iter().map(|member| match member.member.clone().expect("one") {
                    Member::Pod(pod) => pod,
                    Member::Address(address) => address,
                }));
            }
            members.sort();
            if bad == bad_space {
                let is_there = |name: &str| projection.objects.contains_key(&(Kind::Pod as i32, name.to_owned()));
                assert!(!is_there("a/web1") && is_there("b/db"), "its Pods wait");
                assert!(members.is_empty(), "the policy binds nobody here");
            } else if action == "Allow" {
                assert!(!members.contains(&"10.10.1.66".to_owned()), "{peer} {bad}");
            } else {
                assert_eq!(members, expected, "{action} {peer} {bad}");
            }
        }
    }
    // Of a namespace that is not understood: its Pods elsewhere are meant.
    let policy = policy.replace("app: web", "app: db").replace("PEER", by_space).replace("ACTION", "Drop");
    let (projection, _) = projected(&format!(
        "{policy}{bad_space}{}",
        pods().replacen("name: a, labels: {env: prod}", "name: unused", 1)
    ));
    let Object::AddressGroup(group) =
        object(&projection, Kind::AddressGroup, "pods * of namespaces env=prod, and who may be one")
    else {
        panic!("a group")
    };
    assert_eq!(group.members, [v1::GroupMember { member: Some(Member::Address("10.10.1.13".to_owned())) }]);
}

#[test]
fn a_group_that_is_not_understood_makes_rules_wrong_that_name_it() {
    let bad =
        "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: g}\nspec: {podSelectors: {}}\n---\n";
    for (action, expected) in [("Allow", None), ("Drop", Some("ingress-0 Ingress Drop anybody []"))] {
        let policy = format!(
            "{CLUSTER}spec: {{priority: 1, appliedTo: [{{podSelector: {{}}}}], ingress: [{{action: {action}, from: [{{group: g}}]}}]}}\n"
        );
        let (projection, _) = with_pods(&format!("{bad}{policy}"));
        assert_eq!(rules(&projection, "acnp:p"), Vec::from_iter(expected), "{action}");
    }
    let (projection, problems) = with_pods(&format!(
        "{bad}{CLUSTER}spec: {{priority: 1, appliedTo: [{{group: g}}], ingress: [{{action: Drop}}]}}\n"
    ));
    assert_eq!(policies(&projection), ["acnp:p (held)"]);
    assert_eq!(held(&lines(&problems)), ["what comes in is dropped for a/web1, a/web2, b/db"]);
}

#[test]
fn what_antrea_refuses_is_wrong_here() {
    let all = "appliedTo: [{podSelector: {}}]";
    let service = "appliedTo: [{service: {namespace: a, name: s}}]";
    for (spec, field) in [
        (format!("{service}, ingress: [{{action: Drop, from: [{{podSelector: {{}}}}]}}]"), "spec.ingress[0].from"),
        (
            format!("{all}, egress: [{{action: Reject, to: [{{ipBlock: {{cidr: 239.1.1.1/32}}}}]}}]"),
            "spec.egress[0].action",
        ),
        (
            format!("{all}, ingress: [{{action: Drop, from: [{{podSelector: {{}}}}], protocols: [{{igmp: {{}}}}]}}]"),
            "spec.ingress[0].from",
        ),
        (format!("{all}, ingress: [{{action: Reject, protocols: [{{igmp: {{}}}}]}}]"), "spec.ingress[0].action"),
        (
            format!(
                "{all}, ingress: [{{action: Drop, from: [{{ipBlock: {{cidr: 10.0.0.0/8, except: [10.0.0.0/8]}}}}]}}]"
            ),
            "spec.ingress[0].from[0].ipBlock.except[0]",
        ),
        (
            format!(
                "{all}, ingress: [{{action: Drop, from: [{{ipBlock: {{cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}}}]}}]"
            ),
            "spec.ingress[0].from[0].ipBlock.except[0]",
        ),
        (
            format!("{all}, ingress: [{{action: Drop, from: [{{podSelector: {{matchLabels: {{a/b/c: x}}}}}}]}}]"),
            "spec.ingress[0].from[0].podSelector.matchLabels",
        ),
        (
            format!("{all}, ingress: [{{action: Drop, from: [{{namespaces: {{sameLabels: [a/b/c]}}}}]}}]"),
            "spec.ingress[0].namespaces.sameLabels",
        ),
        (format!("{all}, ingress: [{{action: Drop, l7Protocols: [{{http: {{}}}}]}}]"), "spec.ingress[0].l7Protocols"),
    ] {
        let (_, problems) = with_pods(&format!("{CLUSTER}spec: {{priority: 1, {spec}}}\n"));
        let errors: Vec<_> = problems.iter().filter(|problem| problem.is_error()).map(|p| p.field.as_str()).collect();
        assert_eq!(errors, [field], "{spec}");
    }
}

#[test]
fn a_policy_whose_name_another_one_has_holds_whom_that_does_not_bind() {
    let one = format!(
        "{CLUSTER}spec: {{priority: 1, appliedTo: [{{podSelector: {{matchLabels: {{app: web}}}}}}], ingress: [{{action: Drop}}]}}\n"
    );
    let (same, problems) = with_pods(&format!("{one}---\n{one}"));
    assert_eq!((policies(&same), problems.iter().any(Problem::is_error)), (vec!["acnp:p"], false), "the same twice");
    let other = one.replace("{matchLabels: {app: web}}", "{}");
    let (projection, problems) = with_pods(&format!("{one}---\n{other}"));
    assert_eq!(policies(&projection), ["acnp:p", "acnp:p (held)"]);
    assert_eq!(applied(&projection, "pods of acnp:p (held)"), ["b/db"]);
    assert!(problems.iter().any(Problem::is_error));
}

#[test]
fn a_policy_that_says_two_namespaces_is_held_in_all() {
    for metadata in [
        "metadata: {name: p, namespace: b}\nmetadata: {name: p, namespace: a}\n",
        "metadata: {name: p, namespace: b, namespace: a}\n",
        "metadata:\n  namespace: b\n  name: p\n  namespace: a\n",
        "metadata: {name: p}\nmetadata: {name: p, namespace: a}\n",
    ] {
        let text =
            format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n{metadata}spec: {{podSelector: {{}}}}\n");
        let dir = tempfile::tempdir().expect("a directory");
        let nodes = crate::common::files().into_iter().find(|(name, _)| name == "nodes.yaml").expect("nodes").1;
        for (name, text) in [("nodes.yaml", &nodes), ("pods.yaml", &pods()), ("p.yaml", &text)] {
            std::fs::write(dir.path().join(name), text).expect("written");
        }
        let mut agent = vswitch_agent::agent::Agent::new(dir.path(), &[], NODE, Default::default());
        let _ = (agent.scan(), agent.scan());
        assert_eq!(held(&lines(agent.problems())), ["what comes in is dropped for a/web1, a/web2, b/db"], "{metadata}");
    }
}

#[test]
fn a_name_that_no_object_can_have_is_no_forward_reference() {
    let group = |name: &str, spec: &str| {
        format!(
            "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n---\n"
        )
    };
    let drop = |section: &str, peer: &str| {
        format!(
            "{CLUSTER}spec: {{priority: 1, appliedTo: [{{podSelector: {{}}}}], {section}: [{{action: Drop, {peer}}}]}}\n"
        )
    };
    let of_group = drop("ingress", "from: [{group: g}]");
    for (name, is_wrong) in [("later", false), ("''", true), ("'g2 '", true), ("G2", true), ("a/b", true)] {
        for text in [
            group("g", &format!("childGroups: [{name}]")) + &of_group,
            group("g", &format!("serviceReference: {{name: {name}, namespace: a}}")) + &of_group,
            group("g", &format!("serviceReference: {{name: s, namespace: {name}}}")) + &of_group,
            drop("egress", &format!("toServices: [{{name: {name}, namespace: a}}]")),
            drop("ingress", &format!("from: [{{serviceAccount: {{name: {name}, namespace: a}}}}]")),
        ] {
            let (_, problems) = with_pods(&text);
            assert_eq!(problems.iter().any(Problem::is_error), is_wrong, "{text}{:#?}", lines(&problems));
        }
    }
}
