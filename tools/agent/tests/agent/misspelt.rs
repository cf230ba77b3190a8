//! Misspelt kinds, groups and labels: an object that was in force stays as it was, and what
//! policies deny by it does not pass.

use crate::common::{CLUSTER, NODE, pod};
use crate::watched::Watched;
use vswitch_proto::antrea::v1::Kind;

const SPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: prod, labels: {env: prod}}\n";
const GROUP: &str = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: g1}\n\
                     spec: {podSelector: {matchLabels: {app: c}}, namespaceSelector: {}}\n";
const OWN_GROUP: &str = "apiVersion: crd.antrea.io/v1beta1\nkind: Group\nmetadata: {name: g1, namespace: t}\n\
                         spec: {podSelector: {matchLabels: {app: f}}}\n";

/// A Pod that policies bind, and the Pods that they may deny.
fn pods() -> [(&'static str, String); 3] {
    [
        ("d.yaml", pod("t", "d", "app: d", NODE, "10.10.0.71", "").replacen("---\n", "", 1)),
        ("c.yaml", pod("prod", "c", "app: c", NODE, "10.10.0.72", "").replacen("---\n", "", 1)),
        ("f.yaml", pod("t", "f", "app: f", "k8s-node-worker-1", "10.10.1.73", "").replacen("---\n", "", 1)),
    ]
}

fn drops(peer: &str) -> String {
    let to = "appliedTo: [{podSelector: {matchLabels: {app: d}}}]";
    format!("{CLUSTER}spec: {{priority: 5, {to}, ingress: [{{action: Drop, from: [{peer}]}}]}}\n")
}

fn by_app(app: &str) -> String {
    drops(&format!("{{podSelector: {{matchLabels: {{app: {app}}}}}, namespaceSelector: {{}}}}"))
}

fn by_space() -> String {
    drops("{namespaceSelector: {matchLabels: {env: prod}}}")
}

/// A policy of a namespace that drops what is from its Group.
fn by_own_group() -> String {
    let head = CLUSTER.replace("ClusterNetworkPolicy", "NetworkPolicy").replace("name: p", "name: p, namespace: t");
    drops("{group: g1}").replace(CLUSTER, &head)
}

/// All that there is, with a policy, and another text of one file.
fn scene(policy: &str, file: &str, text: &str) -> Watched {
    let pods = pods();
    let base = [("ns.yaml", SPACE), ("g.yaml", GROUP), ("own.yaml", OWN_GROUP), ("p.yaml", policy)];
    let all = base.into_iter().chain(pods.iter().map(|(name, text)| (*name, text.as_str())));
    let all: Vec<(&str, &str)> = all.map(|(name, right)| (name, if name == file { text } else { right })).collect();
    Watched::new(&all)
}

/// What is denied still is, while the agent runs and after it starts anew; and all of the file
/// comes back with its right form.
fn stays_denied(policy: &str, file: &str, right: &str, wrong: &str, who: &str) {
    assert_ne!(right, wrong);
    let is_denied = |watched: &Watched| {
        let denied = watched.denied();
        denied.contains(who) || denied.contains("*")
    };
    let mut watched = scene(policy, file, right);
    let before = watched.text();
    assert!(is_denied(&watched) && !watched.agent.is_wrong(), "{:#?}", watched.lines());
    watched.write(file, wrong);
    assert!(watched.agent.is_wrong() && watched.tells(&[file]), "{wrong}{:#?}", watched.lines());
    assert!(is_denied(&watched), "{wrong}{:#?}", watched.lines());
    assert!(["t/d", "prod/c"].iter().all(|pod| watched.has(Kind::Pod, pod)), "they stay: {wrong}");
    watched.look();
    assert!(is_denied(&watched), "{wrong}");
    watched.write(file, right);
    assert_eq!(watched.text(), before, "{wrong}");
    let watched = scene(policy, file, wrong);
    let is_there = watched.has(Kind::Pod, "prod/c") || who != "prod/c";
    assert!(is_denied(&watched) || !is_there, "fresh {wrong}{:#?}", watched.lines());
}

#[test]
fn misspelt_labels_of_a_pod_or_a_namespace_are_labels_in_doubt() {
    for word in ["Labels", "label", "lables", "LABELS", "labells", "labes"] {
        let misspelt = |text: &str| text.replace("labels: ", &format!("{word}: "));
        let [_, (_, c), (_, f)] = pods();
        stays_denied(&by_app("c"), "c.yaml", &c, &misspelt(&c), "prod/c");
        stays_denied(&by_app("f"), "f.yaml", &f, &misspelt(&f), "10.10.1.73");
        stays_denied(&by_space(), "ns.yaml", SPACE, &misspelt(SPACE), "prod/c");
    }
    // Not in metadata.
    let [_, (_, c), _] = pods();
    for (file, right, policy) in [("c.yaml", c.as_str(), by_app("c")), ("ns.yaml", SPACE, by_space())] {
        let at = right.find(", labels: {").expect("labels");
        let end = at + right[at..].find('}').expect("an end") + 1;
        let labels = right[at + 2..end].to_owned();
        let wrong = format!("{}{}{labels}\n", &right[..at], &right[end..]);
        stays_denied(&policy, file, right, &wrong, "prod/c");
    }
}

#[test]
fn a_field_of_metadata_that_is_no_labels_is_left_out() {
    let [_, (_, c), _] = pods();
    for word in ["level", "newField", "finalizer", "tags"] {
        let watched = scene(&by_app("c"), "c.yaml", &c.replace("labels: ", &format!("{word}: 5, labels: ")));
        assert!(!watched.agent.is_wrong() && watched.tells(&["c.yaml", word]), "{:#?}", watched.lines());
        assert!(watched.denied().contains("prod/c"));
    }
}

#[test]
fn a_misspelt_kind_or_group_leaves_the_object_as_it_was() {
    let [_, _, (_, f)] = pods();
    let group = drops("{group: g1}");
    for (policy, file, right, who, wrong) in [
        (
            by_space(),
            "ns.yaml",
            SPACE,
            "prod/c",
            vec![
                ("kind: Namespace", "kind: Namespaces"),
                ("kind: Namespace", "kind: namespace"),
                ("v1\n", "apps/v1\n"),
                ("kind: Namespace", "kind: Nmaespace"),
            ],
        ),
        (
            group,
            "g.yaml",
            GROUP,
            "prod/c",
            vec![
                ("kind: ClusterGroup", "kind: ClusterGroups"),
                ("kind: ClusterGroup", "kind: clustergroup"),
                ("crd.antrea.io", "crd.antrea"),
                ("crd.antrea.io/v1beta1", "v1"),
                ("apiVersion: crd.antrea.io/v1beta1\n", ""),
                ("crd.antrea.io", "crd.antrea.oi"),
            ],
        ),
        (
            by_own_group(),
            "own.yaml",
            OWN_GROUP,
            "10.10.1.73",
            vec![("kind: Group", "kind: group"), ("kind: Group", "kind: Groups"), ("crd.antrea.io", "antrea.io")],
        ),
        (
            by_app("f"),
            "f.yaml",
            &f,
            "10.10.1.73",
            vec![("kind: Pod", "kind: pod"), ("kind: Pod", "kind: Pods"), ("apiVersion: v1", "apiVersion: apps/v1")],
        ),
    ] {
        for (from, to) in wrong {
            stays_denied(&policy, file, right, &right.replacen(from, to, 1), who);
        }
    }
}

#[test]
fn another_kind_or_no_namespace_under_its_name_takes_nothing_away_while_the_agent_runs() {
    let [_, (_, c), _] = pods();
    for (policy, file, right, from, to, who) in [
        (drops("{group: g1}"), "g.yaml", GROUP, "kind: ClusterGroup", "kind: Group", "prod/c"),
        (drops("{group: g1}"), "g.yaml", GROUP, "crd.antrea.io", "example.com", "prod/c"),
        (by_own_group(), "own.yaml", OWN_GROUP, ", namespace: t", "", "10.10.1.73"),
        (by_own_group(), "own.yaml", OWN_GROUP, "kind: Group", "kind: ClusterGroup", "10.10.1.73"),
        (by_space(), "ns.yaml", SPACE, "apiVersion: v1", "apiVersion: example.com/v1", "prod/c"),
        (by_app("c"), "c.yaml", c.as_str(), ", namespace: prod", "", "prod/c"),
    ] {
        let mut watched = scene(&policy, file, right);
        let before = watched.text();
        let wrong = right.replacen(from, to, 1);
        assert_ne!(right, wrong);
        watched.write(file, &wrong);
        let denied = watched.denied();
        assert!(denied.contains(who) || denied.contains("*"), "{wrong}{:#?}", watched.lines());
        assert!(watched.agent.is_wrong() && watched.tells(&[file]), "{wrong}{:#?}", watched.lines());
        assert!(watched.has(Kind::Pod, "prod/c"));
        watched.write(file, right);
        assert_eq!(watched.text(), before);
        // What is another object, and what is gone, is known to be that.
        watched.write(file, &wrong.replacen("metadata: {name: ", "metadata: {name: z", 1));
        assert!(!watched.tells(&["of before"]), "{:#?}", watched.lines());
        assert!(file == "ns.yaml" || !watched.denied().contains(who), "{:#?}", watched.lines());
    }
}

#[test]
fn a_group_that_does_not_say_its_namespace_may_be_the_one_that_is_missing() {
    let elsewhere = OWN_GROUP.replace("namespace: t", "namespace: u");
    for (policy, file, wrong, is_in_doubt) in [
        (drops("{group: g1}"), "g.yaml", GROUP.replace("ClusterGroup", "Group"), true),
        (by_own_group(), "own.yaml", OWN_GROUP.replace(", namespace: t", ""), true),
        (drops("{group: g1}"), "g.yaml", elsewhere.clone(), false),
        (by_own_group(), "own.yaml", elsewhere, false),
    ] {
        let watched = scene(&policy, file, &wrong);
        assert_eq!(watched.denied().contains("*"), is_in_doubt, "{wrong}{:#?}", watched.lines());
        assert!(watched.tells(&["there is no", "g1"]));
    }
}

#[test]
fn a_policy_under_the_name_of_the_other_kind_or_without_its_namespace_stays() {
    let kubernetes = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: k, namespace: t}\nspec: {podSelector: {}}\n";
    let cluster = by_app("c");
    for (policy, name, from, to) in [
        (cluster.as_str(), "acnp:p", "ClusterNetworkPolicy", "NetworkPolicy"),
        (kubernetes, "np:t/k", ", namespace: t", ""),
    ] {
        let mut watched = scene(policy, "", "");
        assert_eq!(watched.bound(name).into_iter().collect::<Vec<_>>(), ["t/d"]);
        watched.write("p.yaml", &policy.replacen(from, to, 1));
        assert_eq!(watched.bound(name).into_iter().collect::<Vec<_>>(), ["t/d"], "{:#?}", watched.lines());
        assert!(watched.tells(&["p.yaml", "of before, which stays as it was"]), "{:#?}", watched.lines());
        watched.remove("p.yaml");
        assert!(watched.bound(name).is_empty());
        // Who means another one says so.
        watched.write("p.yaml", policy);
        watched.write(
            "p.yaml",
            &policy
                .replacen(from, to, 1)
                .replace("name: p", "name: p, namespace: default")
                .replace("name: k", "name: k, namespace: default"),
        );
        assert!(watched.bound(name).is_empty() && !watched.tells(&["of before"]), "{:#?}", watched.lines());
    }
}

#[test]
fn a_group_that_becomes_one_of_the_cluster_is_that() {
    let mut watched = scene(&by_own_group(), "", "");
    watched.write(
        "own.yaml",
        &OWN_GROUP.replace("kind: Group", "kind: ClusterGroup").replace(", namespace: t", "").replace("g1", "g2"),
    );
    watched.write("own.yaml", OWN_GROUP);
    watched.remove("g.yaml");
    watched.write("own.yaml", &OWN_GROUP.replace("kind: Group", "kind: ClusterGroup").replace(", namespace: t", ""));
    assert!(!watched.agent.is_wrong() && watched.denied().is_empty(), "{:#?}", watched.lines());
}

#[test]
fn kinds_of_other_people_are_left_out_as_ever() {
    let mut watched = scene(&by_app("c"), "", "");
    let before = watched.text();
    for (api, kind) in [
        ("serving.knative.dev/v1", "Service"),
        ("longhorn.io/v1", "Node"),
        ("user.openshift.io/v1", "Group"),
        ("v1", "Endpoints"),
        ("apps/v1", "Deployment"),
    ] {
        watched.write("z.yaml", &format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: z}}\n"));
        assert!(!watched.agent.is_wrong(), "{:#?}", watched.lines());
        assert_eq!(watched.text(), before);
    }
}
