//! Documents whose name cannot be read: each may be any object of its kind that is not there.

use crate::common::{CLUSTER, NODE, pod};
use crate::watched::Watched;

const FAR: &str = "k8s-node-worker-1";
const GROUP: &str = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: g1}\n\
                     spec: {podSelector: {matchLabels: {app: c}}, namespaceSelector: {}}\n";
const OWN_GROUP: &str = "apiVersion: crd.antrea.io/v1beta1\nkind: Group\nmetadata: {name: g1, namespace: t}\n\
                         spec: {podSelector: {matchLabels: {app: c}}}\n";
const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: t}\n\
                       spec: {selector: {app: c}, clusterIP: 10.96.0.10, ports: [{port: 80}]}\n";

fn pods() -> String {
    let space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: t}\n".to_owned();
    [space, pod("t", "d", "app: d", NODE, "10.10.0.71", ""), pod("t", "c", "app: c", NODE, "10.10.0.72", "")].concat()
}

/// A policy of the cluster, or of the namespace `t`, that drops what comes in.
fn drops(is_own: bool, to: &str, from: &str) -> String {
    let own = CLUSTER.replace("ClusterNetworkPolicy", "NetworkPolicy").replace("name: p", "name: p, namespace: t");
    let head = if is_own { own.as_str() } else { CLUSTER };
    format!("{head}spec: {{priority: 5, appliedTo: [{to}], ingress: [{{action: Drop, from: [{from}]}}]}}\n")
}

/// A document whose name cannot be read; the last ones are cut in it, or behind it.
fn nameless(text: &str) -> Vec<String> {
    let at = text.find("metadata: {").expect("metadata") + "metadata: {".len();
    let end = at + text[at..].find('}').expect("an end");
    let (before, inside, behind) = (&text[..at], &text[at..end], &text[end..]);
    let rest = inside.split_once(", ").map_or("", |(_, rest)| rest);
    let name = &inside[..inside.find(',').unwrap_or(inside.len())];
    let with = |name: &str| {
        let comma = if name.is_empty() || rest.is_empty() { "" } else { ", " };
        format!("{before}{name}{comma}{rest}{behind}")
    };
    let mut all: Vec<String> =
        ["", "Name: g1", "nam: g1", "name: null", "name: 5", "name: [g1]", "name: ''"].into_iter().map(with).collect();
    all.push(text.replace("metadata:", "metadatas:"));
    all.extend([1, 0].map(|less| format!("{before}{}", &name[..name.len() - less])));
    all
}

/// The Pod `t/c` is denied to `t/d`, or everything is.
fn is_denied(watched: &Watched) -> bool {
    let denied = watched.denied();
    let is_held = watched.bound("acnp:p (held)").contains("t/d") || watched.bound("anp:t/p (held)").contains("t/d");
    denied.contains("t/c") || denied.contains("*") || is_held
}

#[test]
fn a_missing_group_may_be_one_without_a_name() {
    let child = GROUP
        .replace("name: g1", "name: g0")
        .replace("spec: {podSelector: {matchLabels: {app: c}}, namespaceSelector: {}}", "spec: {childGroups: [g1]}");
    let d = "{podSelector: {matchLabels: {app: d}}}";
    let as_target = GROUP.replace("app: c", "app: d");
    let own_target = OWN_GROUP.replace("app: c", "app: d");
    let c = "{podSelector: {matchLabels: {app: c}}}";
    for (group, policy) in [
        (GROUP, drops(false, d, "{group: g1}")),
        (GROUP, format!("{}---\n{child}", drops(false, d, "{group: g0}"))),
        (as_target.as_str(), drops(false, "{group: g1}", &c.replace("}}}", "}}, namespaceSelector: {}}"))),
        (OWN_GROUP, drops(true, d, "{group: g1}")),
        (own_target.as_str(), drops(true, "{group: g1}", c)),
    ] {
        let right = Watched::new(&[("0.yaml", &pods()), ("g.yaml", group), ("p.yaml", &policy)]);
        assert!(right.denied().contains("t/c") && !right.agent.is_wrong(), "{:#?}", right.lines());
        for wrong in nameless(group) {
            // From the start; and while it runs, both at once, and one after the other.
            let mut fresh = Watched::new(&[("0.yaml", &pods()), ("g.yaml", &wrong), ("p.yaml", &policy)]);
            assert!(is_denied(&fresh), "{wrong}{:#?}", fresh.lines());
            fresh.write("g.yaml", group);
            assert_eq!(fresh.text(), right.text(), "{wrong}");
            let mut running = Watched::new(&[("0.yaml", &pods())]);
            running.write("g.yaml", &wrong);
            running.write("p.yaml", &policy);
            assert!(is_denied(&running), "{wrong}{:#?}", running.lines());
            // Wrong with a name, then without.
            running.write("g.yaml", &group.replace("spec: {", "spec: {x: 1, "));
            assert!(is_denied(&running), "{wrong}");
            running.write("g.yaml", &wrong);
            assert!(is_denied(&running), "{wrong}{:#?}", running.lines());
            // Right, then without a name; and the agent starts anew.
            running.write("g.yaml", group);
            running.write("g.yaml", &wrong);
            assert!(running.denied().contains("t/c"), "{wrong}{:#?}", running.lines());
            running.begin_anew();
            assert!(is_denied(&running), "{wrong}{:#?}", running.lines());
        }
        // Without any document nobody is denied, as Antrea has it.
        let none = Watched::new(&[("0.yaml", &pods()), ("p.yaml", &policy)]);
        assert!(!is_denied(&none), "{:#?}", none.lines());
    }
}

#[test]
fn a_group_without_a_name_is_nobody_to_rules_that_allow_and_to_groups_that_are_there() {
    let allow = drops(false, "{podSelector: {matchLabels: {app: d}}}", "{group: g1}").replace("Drop", "Allow");
    for wrong in nameless(GROUP) {
        let watched = Watched::new(&[("0.yaml", &pods()), ("g.yaml", &wrong), ("p.yaml", &allow)]);
        assert!(watched.allowed().is_empty() && watched.tells(&["g1"]), "{wrong}{:#?}", watched.lines());
        let both = Watched::new(&[("0.yaml", &pods()), ("g.yaml", GROUP), ("x.yaml", &wrong), ("p.yaml", &allow)]);
        assert_eq!(both.allowed(), ["t/c".to_owned()].into(), "{wrong}");
    }
}

#[test]
fn a_missing_service_may_be_one_without_a_name() {
    let to = "{podSelector: {matchLabels: {app: d}}}";
    let rules = "egress: [{action: Drop, toServices: [{name: s, namespace: t}]}]";
    let to_services = format!("{CLUSTER}spec: {{priority: 5, appliedTo: [{to}], {rules}}}\n");
    let group = GROUP.replace(
        "{podSelector: {matchLabels: {app: c}}, namespaceSelector: {}}",
        "{serviceReference: {name: s, namespace: t}}",
    );
    let of_service = format!("{}---\n{group}", drops(false, to, "{group: g1}"));
    for wrong in nameless(SERVICE) {
        for policy in [&to_services, &of_service] {
            let fresh = Watched::new(&[("0.yaml", &pods()), ("s.yaml", &wrong), ("p.yaml", policy)]);
            assert!(is_denied(&fresh), "{wrong}{:#?}", fresh.lines());
        }
    }
    for policy in [&to_services, &of_service] {
        let none = Watched::new(&[("0.yaml", &pods()), ("p.yaml", policy)]);
        assert!(!is_denied(&none), "{:#?}", none.lines());
    }
}

#[test]
fn addresses_of_a_pod_without_a_name_are_denied_and_never_allowed() {
    let peer = "{podSelector: {matchLabels: {app: r}}, namespaceSelector: {matchLabels: {env: x}}}";
    let far = pod("q", "r", "app: r", FAR, "10.10.1.21", "").replacen("---\n", "", 1);
    let space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: q, labels: {env: x}}\n";
    let policy = drops(false, "{podSelector: {matchLabels: {app: d}}}", peer);
    let allow = policy.replace("Drop", "Allow");
    let texts = nameless(&far);
    let (whole, cut) = texts.split_at(texts.len() - 2);
    assert_eq!((whole.len(), cut.len()), (8, 2), "those that are cut have no address");
    for wrong in whole {
        for rule in [&policy, &allow] {
            let all = [("0.yaml", pods()), ("s.yaml", space.to_owned()), ("p.yaml", rule.clone())];
            let mut files: Vec<(&str, &str)> = all.iter().map(|(name, text)| (*name, text.as_str())).collect();
            files.push(("r.yaml", wrong));
            let mut fresh = Watched::new(&files);
            let is_there = (fresh.denied().contains("10.10.1.21"), fresh.allowed().contains("10.10.1.21"));
            assert_eq!(is_there, (rule.contains("Drop"), false), "{wrong}{:#?}", fresh.lines());
            assert!(!fresh.tells(&["Namespace :"]), "{:#?}", fresh.lines());
            fresh.write("r.yaml", &far);
            let is_there = (fresh.denied().contains("10.10.1.21"), fresh.allowed().contains("10.10.1.21"));
            assert_eq!(is_there, (rule.contains("Drop"), rule.contains("Allow")), "{wrong}");
        }
    }
}
