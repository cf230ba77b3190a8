//! Names and labels that no object can have, as Kubernetes has it: what was in force stays, and
//! what policies deny by it does not pass.

use crate::common::{CLUSTER, K8S, NODE, lines, pod, read};
use crate::watched::Watched;

const GROUP: &str = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: g1}\n\
                     spec: {podSelector: {matchLabels: {app: c}}, namespaceSelector: {}}\n";
const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: prod}\n\
                       spec: {selector: {app: c}, clusterIP: 10.96.0.10, ports: [{port: 80}]}\n";
const SPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: prod, labels: {env: prod}}\n";
const TO: &str = "appliedTo: [{podSelector: {matchLabels: {app: d}}}]";

fn local() -> String {
    pod("prod", "c", "app: c", NODE, "10.10.0.72", "").replacen("---\n", "", 1)
}

fn far() -> String {
    pod("prod", "r", "app: r", "k8s-node-worker-1", "10.10.1.21", "").replacen("---\n", "", 1)
}

fn drops(peer: &str) -> String {
    format!("{CLUSTER}spec: {{priority: 5, {TO}, ingress: [{{action: Drop, from: [{peer}]}}]}}\n")
}

fn by_app(app: &str) -> String {
    drops(&format!("{{podSelector: {{matchLabels: {{app: {app}}}}}, namespaceSelector: {{}}}}"))
}

fn by_space() -> String {
    drops("{namespaceSelector: {matchLabels: {env: prod}}}")
}

/// All that there is, with a policy, and another text of one file.
fn scene(policy: &str, file: &str, text: &str) -> Watched {
    let (d, c, r) = (pod("t", "d", "app: d", NODE, "10.10.0.71", "").replacen("---\n", "", 1), local(), far());
    let base = [("ns.yaml", SPACE), ("g.yaml", GROUP), ("s.yaml", SERVICE), ("p.yaml", policy)];
    let pods = [("d.yaml", d.as_str()), ("c.yaml", c.as_str()), ("r.yaml", r.as_str())];
    let all = base.into_iter().chain(pods).map(|(name, right)| (name, if name == file { text } else { right }));
    Watched::new(&all.collect::<Vec<_>>())
}

/// Whether this peer is denied, or all are; or the Pod that the policy binds is held.
fn is_denied(watched: &Watched, who: &str) -> bool {
    let denied = watched.denied();
    denied.contains(who) || denied.contains("*") || watched.bound("acnp:p (held)").contains("t/d")
}

/// What is denied still is, while the agent runs and after it starts anew; and all of the file
/// comes back with its right form.
fn stays_denied(policy: &str, file: &str, right: &str, wrong: &str, who: &str) {
    assert_ne!(right, wrong);
    let mut watched = scene(policy, file, right);
    let before = watched.text();
    assert!(is_denied(&watched, who) && !watched.agent.is_wrong(), "{:#?}", watched.lines());
    watched.write(file, wrong);
    assert!(watched.agent.is_wrong() && watched.tells(&[file]), "{wrong}{:#?}", watched.lines());
    assert!(is_denied(&watched, who), "{wrong}{:#?}", watched.lines());
    watched.write(file, right);
    assert_eq!(watched.text(), before, "{wrong}");
    let watched = scene(policy, file, wrong);
    let is_there = who != "prod/c" || watched.has(vswitch_proto::antrea::v1::Kind::Pod, who);
    assert!(is_denied(&watched, who) || !is_there, "fresh {wrong}{:#?}", watched.lines());
}

#[test]
fn labels_that_no_object_can_have_are_labels_in_doubt() {
    let long = "c".repeat(64);
    let values = ["'c '", "' c'", "\"c\\0\"", "\"c\\n\"", &long, "c-", "\u{e7}", "\"\\uFEFFc\"", "\"c\\u200b\"", "a/b"];
    for value in values {
        for (file, right, policy, who) in
            [("c.yaml", local(), by_app("c"), "prod/c"), ("r.yaml", far(), by_app("r"), "10.10.1.21")]
        {
            let (from, to) = (right.contains("app: c"), format!("app: {value}"));
            stays_denied(&policy, file, &right, &right.replace(if from { "app: c" } else { "app: r" }, &to), who);
        }
        let wrong = SPACE.replace("env: prod", &format!("env: {value}"));
        stays_denied(&by_space(), "ns.yaml", SPACE, &wrong, "prod/c");
    }
    for key in ["'KEY '", "'-KEY'", "a/b/KEY", "A.b/KEY", "'K EY'", "'K[0]EY'", "''", "/KEY"] {
        let of =
            |text: &str, word: &str| text.replace(&format!("{word}: "), &format!("{}: ", key.replace("KEY", word)));
        stays_denied(&by_app("r"), "r.yaml", &far(), &of(&far(), "app"), "10.10.1.21");
        stays_denied(&by_app("c"), "c.yaml", &local(), &of(&local(), "app"), "prod/c");
        stays_denied(&by_space(), "ns.yaml", SPACE, &of(SPACE, "env"), "prod/c");
    }
}

#[test]
fn a_name_that_no_object_can_have_leaves_the_object_as_it_was() {
    let group = drops("{group: g1}");
    let service = format!(
        "{CLUSTER}spec: {{priority: 5, {TO}, egress: [{{action: Drop, toServices: [{{name: s, namespace: prod}}]}}]}}\n"
    );
    for name in ["G1", "g1_", "g_1", "'g1 '", "-g1", "g1.", "\u{e7}"] {
        stays_denied(&group, "g.yaml", GROUP, &GROUP.replace("g1", name), "prod/c");
        stays_denied(&by_app("r"), "r.yaml", &far(), &far().replace("name: r", &format!("name: {name}")), "10.10.1.21");
        stays_denied(&by_space(), "ns.yaml", SPACE, &SPACE.replace("name: prod", &format!("name: {name}")), "prod/c");
        // In the namespace, too.
        let wrong = far().replace("namespace: prod", &format!("namespace: {name}"));
        stays_denied(&by_app("r"), "r.yaml", &far(), &wrong, "10.10.1.21");
        // A Service: its rule stays, and another Service is not declared in its place.
        let mut watched = scene(&service, "s.yaml", SERVICE);
        let before = watched.text();
        assert!(before.contains("prod/s") && !watched.agent.is_wrong());
        watched.write("s.yaml", &SERVICE.replace("name: s", &format!("name: {name}")));
        assert_eq!(watched.text(), before, "{name}");
        let fresh = scene(&service, "s.yaml", &SERVICE.replace("name: s", &format!("name: {name}")));
        assert!(is_denied(&fresh, "*"), "{name}{:#?}", fresh.lines());
    }
    // What Kubernetes takes.
    let watched = scene(&drops("{group: g.1}"), "g.yaml", &GROUP.replace("g1", "g.1"));
    assert!(watched.denied().contains("prod/c") && !watched.agent.is_wrong(), "{:#?}", watched.lines());
}

#[test]
fn a_policy_is_in_force_by_any_name_and_a_line_tells_of_it() {
    for (head, bound) in [(CLUSTER, "acnp:Deny_X"), (K8S, "np:a/Deny_X")] {
        let head = head.replace("name: p", "name: Deny_X");
        let spec = if bound.starts_with("np") {
            "podSelector: {}"
        } else {
            "priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop}]"
        };
        let text = format!("{head}spec: {{{spec}}}\n");
        let pod = pod("a", "d", "app: d", NODE, "10.10.0.71", "");
        let watched = Watched::new(&[("0.yaml", &pod), ("p.yaml", &text)]);
        assert!(watched.bound(bound).contains("a/d"), "{text}{:#?}", watched.lines());
        assert!(watched.tells(&["Deny_X", "no name that Kubernetes takes"]), "{:#?}", watched.lines());
    }
    // A namespace that cannot be is that of no policy: which one is meant is not known.
    let text = format!("{}spec: {{podSelector: {{}}}}\n", K8S.replace("namespace: a", "namespace: A"));
    let watched = Watched::new(&[("0.yaml", &pod("a", "d", "app: d", NODE, "10.10.0.71", "")), ("p.yaml", &text)]);
    assert!(watched.bound("np:-/p (held)").contains("a/d"), "{}{:#?}", watched.text(), watched.lines());
}

#[test]
fn a_selector_of_labels_that_cannot_be_is_wrong() {
    // Of a Service: nobody knows whom it means, and what is denied by it stays so.
    let group = GROUP.replace(
        "{podSelector: {matchLabels: {app: c}}, namespaceSelector: {}}",
        "{serviceReference: {name: s, namespace: prod}}",
    );
    let policy = format!("{}---\n{}", drops("{group: g2}"), group.replace("g1", "g2"));
    for selector in ["{app: 'c '}", "{'app ': c}", "{a/b/c: c}", "{app: c-}"] {
        stays_denied(&policy, "s.yaml", SERVICE, &SERVICE.replace("{app: c}", selector), "prod/c");
    }
    for (from, to) in
        [("selector:", "Selector:"), ("selector:", "labels:"), ("selector:", "selectors:"), ("spec:", "Spec:")]
    {
        stays_denied(&policy, "s.yaml", SERVICE, &SERVICE.replace(from, to), "prod/c");
    }
    // Of a policy: it holds, and a rule by it drops all.
    for selector in [
        "matchLabels: {app: 'c '}",
        "matchExpressions: [{key: 'a ', operator: Exists}]",
        "matchExpressions: [{key: app, operator: in, values: [c]}]",
    ] {
        let rule = drops(&format!("{{podSelector: {{{selector}}}, namespaceSelector: {{}}}}"));
        assert!(is_denied(&scene(&rule, "-", ""), "*"), "{rule}");
        let to = by_app("c").replace(TO, &format!("appliedTo: [{{podSelector: {{{selector}}}}}]"));
        assert!(is_denied(&scene(&to, "-", ""), "*"), "{to}");
    }
}

#[test]
fn labels_that_nobody_selects_are_not_looked_at() {
    for text in [GROUP, SERVICE] {
        let text = text.replace("metadata: {", "metadata: {labels: {app: 'c '}, ");
        assert_eq!(lines(&read("test.yaml", &text).1), [""; 0], "{text}");
    }
}
