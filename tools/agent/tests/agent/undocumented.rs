//! Pods whose Namespace has no document: of its labels nobody knows but its name.

use crate::common::{CLUSTER, NODE, pod};
use crate::watched::Watched;
use vswitch_proto::antrea::v1::Kind;

fn space(name: &str, env: &str) -> String {
    format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {{env: {env}}}}}\n")
}

/// Pods a of namespace `one`, c (here) and f (far) of namespace `two`.
fn pods() -> String {
    [
        pod("one", "a", "app: a", NODE, "10.10.0.71", ""),
        pod("two", "c", "app: c", NODE, "10.10.0.72", ""),
        pod("two", "f", "app: f", "k8s-node-worker-1", "10.10.1.73", ""),
    ]
    .concat()
}

fn policy(applied: &str, action: &str, peer: &str) -> String {
    format!("{CLUSTER}spec: {{priority: 5, appliedTo: [{applied}], ingress: [{{action: {action}, from: [{peer}]}}]}}\n")
}

const A: &str = "{podSelector: {matchLabels: {app: a}}}";

fn spaces(selector: &str) -> String {
    format!("{{namespaceSelector: {selector}}}")
}

#[test]
fn rules_that_deny_by_labels_mean_them_and_rules_that_allow_do_not() {
    let one = space("one", "test");
    for (selector, is_known) in [
        ("{matchLabels: {env: prod}}", false),
        ("{matchExpressions: [{key: env, operator: In, values: [prod]}]}", false),
        ("{matchExpressions: [{key: env, operator: NotIn, values: [test]}]}", false),
        ("{matchExpressions: [{key: other, operator: DoesNotExist}, {key: env, operator: Exists}]}", false),
        ("{matchLabels: {env: prod, kubernetes.io/metadata.name: two}}", false),
        ("{matchLabels: {kubernetes.io/metadata.name: two}}", true),
        ("{matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [one]}]}", true),
    ] {
        for action in ["Drop", "Reject", "Pass", "Allow"] {
            let rule = policy(A, action, &spaces(selector));
            let mut watched = Watched::new(&[("one.yaml", &one), ("pods.yaml", &pods()), ("p.yaml", &rule)]);
            let means = |watched: &Watched| {
                let all = |name: &str| {
                    ["two/c", "10.10.1.73"].map(|peer| match name {
                        "denied" => watched.denied().contains(peer),
                        _ => watched.allowed().contains(peer),
                    })
                };
                (all("denied"), all("allowed"))
            };
            let is_allow = action == "Allow";
            let denied = !is_allow && (action != "Pass" || !is_known);
            let expected = ([denied; 2], [is_allow && is_known; 2]);
            assert_eq!(means(&watched), expected, "{selector} {action} {:#?}", watched.lines());
            assert_eq!(watched.tells(&["Namespace two", "has no document"]), !is_known, "{selector} {action}");
            assert!(watched.has(Kind::Pod, "two/c"), "it is let in");
            // Its document comes, and goes again.
            watched.write("two.yaml", &space("two", "prod"));
            let expected = ([!is_allow && action != "Pass"; 2], [is_allow; 2]);
            assert_eq!(means(&watched), expected, "{selector} {action} {:#?}", watched.lines());
            assert!(!watched.tells(&["has no document"]));
            watched.remove("two.yaml");
            assert_eq!(means(&watched), ([denied; 2], [is_allow && is_known; 2]), "{selector} {action}");
        }
    }
}

#[test]
fn a_namespace_that_is_known_not_to_be_meant_is_not() {
    let by_name = "{matchLabels: {env: prod, kubernetes.io/metadata.name: three}}";
    for peer in [spaces(by_name), "{podSelector: {matchLabels: {app: x}}}".to_owned()] {
        let rule = policy(A, "Drop", &peer);
        let watched = Watched::new(&[("one.yaml", &space("one", "test")), ("pods.yaml", &pods()), ("p.yaml", &rule)]);
        assert!(watched.denied().is_empty() && !watched.tells(&["has no document"]), "{:#?}", watched.lines());
    }
}

#[test]
fn who_may_be_bound_by_its_labels_is_held() {
    let by_label = spaces("{matchLabels: {env: prod}}");
    let rule = policy(&by_label, "Drop", A);
    let mut watched = Watched::new(&[("one.yaml", &space("one", "test")), ("pods.yaml", &pods()), ("p.yaml", &rule)]);
    let held = |watched: &Watched| watched.bound("acnp:p (held)").into_iter().collect::<Vec<_>>();
    assert_eq!(held(&watched), ["two/c"], "{:#?}", watched.lines());
    watched.write("two.yaml", &space("two", "prod"));
    assert_eq!((held(&watched), watched.bound("acnp:p").len()), (vec![], 1));
    watched.write("two.yaml", &space("two", "test"));
    assert_eq!((held(&watched), watched.bound("acnp:p").len()), (vec![], 0));
}

#[test]
fn whoever_gives_no_namespaces_at_all_has_all_that_does_not_ask_for_their_labels() {
    let kubernetes = "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: k, namespace: two}\n\
                      spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}, {namespaceSelector: {}, podSelector: {matchLabels: {app: a}}}]}]}\n";
    let cluster = policy("{namespaceSelector: {}, podSelector: {matchLabels: {app: c}}}", "Drop", A);
    let own = policy(A, "Drop", "{namespaces: {match: Self}}").replace("name: p", "name: q");
    let policies = format!("{kubernetes}---\n{cluster}---\n{own}");
    let without = Watched::new(&[("pods.yaml", &pods()), ("p.yaml", &policies)]);
    let spaces = [space("one", "x"), space("two", "y")].concat();
    let with = Watched::new(&[("pods.yaml", &pods()), ("p.yaml", &policies), ("n.yaml", &spaces)]);
    assert_eq!(without.text(), with.text());
    assert_eq!(without.lines(), with.lines());
}

#[test]
fn the_same_labels_as_those_of_a_namespace_without_a_document_may_be_any() {
    let rule = policy(A, "Drop", "{namespaces: {sameLabels: [env]}}");
    let watched = Watched::new(&[("two.yaml", &space("two", "prod")), ("pods.yaml", &pods()), ("p.yaml", &rule)]);
    assert!(["two/c", "10.10.1.73"].iter().all(|peer| watched.denied().contains(*peer)), "{:#?}", watched.lines());
    let rule = rule.replace("Drop", "Allow");
    let watched = Watched::new(&[("two.yaml", &space("two", "prod")), ("pods.yaml", &pods()), ("p.yaml", &rule)]);
    assert!(watched.allowed().is_empty());
}

#[test]
fn a_source_port_is_a_port() {
    let with = |ports: &str, action: &str| {
        let rule = policy(A, action, "{podSelector: {matchLabels: {app: c}}}");
        rule.replace(
            &format!("action: {action}"),
            &format!("action: {action}, ports: [{{protocol: TCP, port: 80, {ports}}}]"),
        )
    };
    for (ports, is_right) in [
        ("sourcePort: 0", false),
        ("sourcePort: 0, sourceEndPort: 0", false),
        ("sourcePort: 0, sourceEndPort: 5", false),
        ("sourceEndPort: 0", false),
        ("sourcePort: 5, sourceEndPort: 4", false),
        ("sourcePort: 5, sourceEndPort: 0", false),
        ("sourcePort: 5, sourceEndPort: 5", true),
        ("sourcePort: 5", true),
    ] {
        for action in ["Allow", "Drop"] {
            let watched = Watched::new(&[("pods.yaml", &pods()), ("p.yaml", &with(ports, action))]);
            assert_eq!(watched.agent.is_wrong(), !is_right, "{ports} {:#?}", watched.lines());
            let who = if action == "Allow" { watched.allowed() } else { watched.denied() };
            let expected = if is_right {
                vec!["two/c"]
            } else if action == "Allow" {
                vec![]
            } else {
                vec!["*"]
            };
            assert_eq!(who.into_iter().collect::<Vec<_>>(), expected, "{ports} {action}");
        }
    }
}
