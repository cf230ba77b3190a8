//! Pods, Namespaces and groups that a document says otherwise than the one that counts, or that
//! went wrong while they were in force: whom a policy may mean by them is denied, or held. What
//! nobody can read takes nothing away.

use crate::common::{CLUSTER, K8S, NODE, files, http, lines, object, pod, projected};
use std::fs;
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::{Options, Standing};
use vswitch_agent::project::text;
use vswitch_proto::antrea::v1::group_member::Member;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{Kind, RuleAction};

/// An agent, and the files that it reads.
struct Scene(tempfile::TempDir, Agent);

impl Scene {
    fn new(documents: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files() {
            fs::write(dir.path().join(name), text).expect("written");
        }
        let agent = Agent::new(dir.path(), &[], NODE, Options::default());
        let mut scene = Self(dir, agent);
        documents.iter().for_each(|(name, text)| scene.write(name, text));
        scene
    }

    fn write(&mut self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.0.path().join(name), text).expect("written");
        self.1.scan();
        self.1.scan();
    }

    fn text(&self) -> String {
        text(self.1.projection(), false)
    }

    /// Whom lines say to be held, and in which directions.
    fn held(&self) -> Vec<String> {
        let lines = lines(self.1.problems());
        let held = lines.iter().filter(|line| line.contains(": until ")).filter_map(|line| line.split_once(", "));
        held.map(|(_, held)| held.to_owned()).collect()
    }
}

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: t, labels: {env: one}}\n";

/// Two Pods of this Node, and one of another.
fn pods() -> [String; 3] {
    [
        pod("t", "client", "app: client", NODE, "10.10.0.71", ""),
        pod("t", "web", "app: web", NODE, "10.10.0.72", ""),
        pod("t", "far", "app: far", "k8s-node-worker-1", "10.10.1.73", ""),
    ]
}

/// A ClusterNetworkPolicy that drops what comes in to `to` from `from`.
fn drops(to: &str, from: &str) -> String {
    format!("{CLUSTER}spec: {{priority: 5, appliedTo: [{to}], ingress: [{{action: Drop, from: [{from}]}}]}}\n")
}

fn by_label(label: &str) -> String {
    format!("{{podSelector: {{matchLabels: {{app: {label}}}}}}}")
}

/// Ways to make a Pod wrong while its labels become others.
fn wrong_pods(right: &str) -> Vec<String> {
    let new = |labels: &str| {
        let at = right.find("labels: {").expect("labels") + "labels: ".len();
        let end = at + right[at..].find('}').expect("their end") + 1;
        format!("{}{labels}{}", &right[..at], &right[end..])
    };
    let quarantined = new("{app: bad}");
    vec![
        quarantined.replace("status: {", "status: {phase: [Running], "),
        quarantined.replace("nodeName: ", "hostNetwork: maybe, nodeName: "),
        quarantined.replace("nodeName: ", "containers: {}, nodeName: "),
        quarantined.replace("status: {", "status: {{"),
        quarantined.replace("vswitch/port: ", "x: 5, vswitch/port: "),
        new("{app: bad, other: [x]}"),
        new("[app, bad]"),
        new("{app: client, app: bad}"),
    ]
}

#[test]
fn a_pod_whose_labels_may_be_others_is_denied_and_held_until_its_document_is_right() {
    for (place, address) in [(0, "10.10.0.71"), (2, "10.10.1.73")] {
        let all = pods();
        let mut scene = Scene::new(&[("ns.yaml", NAMESPACE), ("p.yaml", &drops(&by_label("web"), &by_label("bad")))]);
        (0..3).for_each(|i| scene.write(&format!("{i}.yaml"), &all[i]));
        let before = scene.text();
        let mentions = |text: &str| text.matches(&format!("\"{address}\"")).count();
        for bad in wrong_pods(&all[place]) {
            scene.write(&format!("{place}.yaml"), &bad);
            assert!(scene.1.is_wrong(), "{bad}");
            let now = scene.text();
            assert!(mentions(&now) > mentions(&before), "{bad}{now}");
            assert!(now.contains("and who may be one"), "{bad}{now}");
            scene.write(&format!("{place}.yaml"), &all[place]);
            assert_eq!(scene.text(), before, "as it was");
        }
        // The same labels: it stays as it was.
        scene.write(&format!("{place}.yaml"), all[place].replace("status: {", "status: {phase: [Running], "));
        assert!(scene.1.is_wrong());
        assert_eq!(scene.text(), before);
    }
}

#[test]
fn a_pod_that_may_be_bound_now_is_held_in_the_directions_of_the_policy() {
    let kubernetes = K8S.replace("namespace: a", "namespace: t");
    let of_kubernetes = format!("{kubernetes}spec: {{podSelector: {{matchLabels: {{app: bad}}}}}}\n");
    for policy in [drops(&by_label("bad"), &by_label("far")), of_kubernetes] {
        let all = pods();
        let mut scene = Scene::new(&[("ns.yaml", NAMESPACE), ("p.yaml", &policy)]);
        (0..3).for_each(|i| scene.write(&format!("{i}.yaml"), &all[i]));
        let before = scene.text();
        assert_eq!(scene.held(), [""; 0]);
        for bad in wrong_pods(&all[0]) {
            scene.write("0.yaml", &bad);
            let held = scene.held();
            assert!(held.iter().any(|held| held == "what comes in is dropped for t/client"), "{bad}{held:?}");
            assert!(held.iter().all(|held| held.ends_with(" is dropped for t/client")), "{bad}{held:?}");
            let is_read = bad.contains("{app: bad}") && !bad.contains("{{") && !bad.contains("x: 5");
            assert_eq!(held.len() == 1, is_read, "without labels any policy may bind it: {bad}{held:?}");
        }
        scene.write("0.yaml", &all[0]);
        assert_eq!(scene.text(), before);
        // Another document of the Pod, of other labels, in a file that comes behind.
        scene.write("z.yaml", all[0].replace("app: client", "app: bad"));
        assert_eq!(scene.held(), ["what comes in is dropped for t/client"]);
        fs::remove_file(scene.0.path().join("z.yaml")).expect("removed");
        scene.1.scan();
        scene.1.scan();
        assert_eq!(scene.text(), before);
    }
}

#[test]
fn a_namespace_whose_labels_may_be_others_is_denied_and_its_pods_are_held() {
    let two = "{namespaceSelector: {matchLabels: {env: two}}}";
    let bad = [
        NAMESPACE.replace("env: one", "env: [two]"),
        NAMESPACE.replace("env: one", "env: two, x: [y]"),
        NAMESPACE.replace("labels: {env: one}", "labels: {env: two"),
        NAMESPACE.replace("labels: {env: one}", "labels: [env]"),
        NAMESPACE.replace("env: one", "env: one, env: two"),
    ];
    for (policy, held) in [
        (drops(&by_label("web"), two), vec![]),
        (drops(two, &by_label("far")), vec!["what comes in is dropped for t/client, t/web".to_owned()]),
    ] {
        let all = pods();
        let mut scene = Scene::new(&[("ns.yaml", NAMESPACE), ("p.yaml", &policy)]);
        (0..3).for_each(|i| scene.write(&format!("{i}.yaml"), &all[i]));
        let before = scene.text();
        let check = |scene: &Scene, what: &str| {
            assert_eq!(scene.held(), held, "{what}");
            assert_eq!(scene.text().contains("and who may be one"), held.is_empty(), "{what}");
            assert!(scene.text().contains("name: \"t/client\""), "{what}: it stays");
        };
        for bad in &bad {
            scene.write("ns.yaml", bad);
            check(&scene, bad);
        }
        scene.write("ns.yaml", NAMESPACE);
        assert_eq!(scene.text(), before);
        scene.write("z.yaml", NAMESPACE.replace("one", "two"));
        check(&scene, "twice");
    }
}

#[test]
fn a_group_that_may_be_another_denies_everybody_and_binds_everybody() {
    let group = |more: &str| {
        format!(
            "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {{name: g}}\nspec: {{podSelector: {{matchLabels: {{app: far}}}}{more}}}\n"
        )
    };
    let other = group("").replace("app: far", "app: client");
    let all = pods();
    for bad in [("z.yaml", other), ("g.yaml", group(", x: y")), ("g.yaml", group(", {"))] {
        for applies in [false, true] {
            let policy =
                if applies { drops("{group: g}", &by_label("web")) } else { drops(&by_label("web"), "{group: g}") };
            let mut scene = Scene::new(&[("ns.yaml", NAMESPACE), ("p.yaml", &policy), ("g.yaml", &group(""))]);
            (0..3).for_each(|i| scene.write(&format!("{i}.yaml"), &all[i]));
            let (name, text) = &bad;
            scene.write(name, text);
            let lines = lines(scene.1.problems());
            if applies {
                let held = scene.held();
                assert!(held.len() == 1 && held[0].contains("t/client"), "{text}{held:?}");
            } else {
                let stands =
                    lines.iter().any(|line| line.contains("in its place, everything of its direction is dropped"));
                assert!(stands, "{text}{lines:#?}");
            }
        }
    }
    // A rule that allows means the group as it was.
    let allows = drops(&by_label("web"), "{group: g}").replace("Drop", "Allow");
    let mut scene = Scene::new(&[("ns.yaml", NAMESPACE), ("p.yaml", &allows), ("g.yaml", &group(""))]);
    (0..3).for_each(|i| scene.write(&format!("{i}.yaml"), &all[i]));
    let before = scene.text();
    scene.write("g.yaml", group(", x: y"));
    assert_eq!(scene.text(), before);
}

#[test]
fn what_is_no_document_takes_nothing_away_and_may_hold_a_policy() {
    let policy = drops(&by_label("web"), &by_label("client"));
    let nothing = [
        "[]\n",
        "[1, 2]\n",
        "- {op: add}\n",
        "{}\n",
        "5\n",
        "kind: null\nmetadata: {name: p}\n",
        "Kind: X\nmetadata: {name: p}\n",
    ];
    let anything = [
        "hello\n".to_owned(),
        "<html><body>404</body></html>\n".to_owned(),
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\n".to_owned(),
        "apiVersion: v1\nkind: List\nitems: x\n".to_owned(),
        "apiVersion: v1\nkind: List\nitems: {}\n".to_owned(),
        "apiVersion: v1\nkind: List\n".to_owned(),
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicyList\nitems: 5\n".to_owned(),
        format!("- {}", policy.replace('\n', "\n  ")),
    ];
    let all = pods();
    for (text, may_hold) in
        nothing.iter().map(|text| ((*text).to_owned(), false)).chain(anything.map(|text| (text, true)))
    {
        let mut scene =
            Scene::new(&[("ns.yaml", NAMESPACE), ("0.yaml", &all[0]), ("1.yaml", &all[1]), ("p.yaml", &policy)]);
        let before = scene.text();
        scene.write("p.yaml", &text);
        assert!(scene.1.is_wrong(), "{text}");
        assert_eq!(scene.text(), before, "{text}");
        let late = pod("t", "late", "app: late", NODE, "10.10.0.74", "");
        scene.write("late.yaml", &late);
        assert_eq!(!scene.text().contains("name: \"t/late\""), may_hold, "{text}");
        let scene = Scene::new(&[("p.yaml", &text)]);
        let expected = if may_hold { Standing::Blind } else { Standing::Known };
        assert_eq!(scene.1.standing(), expected, "{text}");
    }
}

#[test]
fn a_hold_stays_when_its_file_becomes_worse() {
    let policy = format!("{}spec: [", K8S.replace("namespace: a", "namespace: t"));
    let all = pods();
    let mut scene = Scene::new(&[("ns.yaml", NAMESPACE), ("0.yaml", &all[0]), ("p.yaml", &policy)]);
    let before = scene.text();
    assert!(before.contains("(held)"));
    for worse in [&b"\x00\x01"[..], b"kind: [", b"hello\n", b"", b"\xff\xfe\xff"] {
        scene.write("p.yaml", worse);
        assert_eq!(scene.text(), before, "{worse:?}");
    }
    scene.write("p.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p}\n");
    assert!(!scene.text().contains("(held)"), "now it is known what the file says");
}

#[test]
fn words_that_are_empty_are_as_none() {
    let plain = drops(&by_label("web"), &by_label("client"));
    let empty =
        plain.replace("priority: 5", "priority: 5, tier: ''").replace("{podSelector", "{group: '', podSelector");
    let empty = empty.replace("from: [{", "from: [{fqdn: '', ");
    let all = [NAMESPACE.to_owned(), pods().concat(), "---\n".to_owned()].concat();
    let of = |policy: &str| projected(&format!("{all}{policy}"));
    let ((plain, _), (empty, problems)) = (of(&plain), of(&empty));
    assert_eq!(lines(&problems.into_iter().filter(|p| p.is_error()).collect::<Vec<_>>()), [""; 0]);
    assert_eq!(text(&empty, false), text(&plain, false));
    let (_, problems) = of(&drops(&by_label("web"), "{group: ''}"));
    assert!(lines(&problems).iter().any(|line| line.contains("spec.ingress[0].from[0]: needs one of")), "{problems:?}");
}

#[test]
fn a_service_that_is_not_understood_is_denied_with_all_of_its_direction() {
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: t}\nspec: {clusterIP: 10.96.7.7, ports: [{port: 90000}]}\n";
    let rule = "egress: [{action: Drop, toServices: [{name: s, namespace: t}]}]";
    let policy = format!("---\n{CLUSTER}spec: {{priority: 5, appliedTo: [{}], {rule}}}\n", by_label("client"));
    let (_, problems) = projected(&[NAMESPACE, &pods().concat(), service, &policy].concat());
    let lines = lines(&problems);
    assert!(lines.iter().any(|line| line.contains("spec.egress[0]: in its place, everything")), "{lines:#?}");
}

/// What a rule of egress becomes, by its id: action, whether it has ports, and addresses of its
/// groups.
fn egress_rules(rule: &str, far: &str) -> Vec<(String, RuleAction, Vec<u32>, Vec<String>)> {
    let near = &pods()[..2].concat();
    let policy =
        format!("---\n{CLUSTER}spec: {{priority: 5, appliedTo: [{}], egress: [{rule}]}}\n", by_label("client"));
    let (projection, _) = projected(&[NAMESPACE, near, far, &policy].concat());
    let Object::NetworkPolicy(policy) = object(&projection, Kind::NetworkPolicy, "acnp:p") else { panic!("a policy") };
    let addresses = |group: &String| {
        let Object::AddressGroup(group) = object(&projection, Kind::AddressGroup, group) else { panic!("a group") };
        let members = group.members.iter().filter_map(|member| member.member.clone());
        members
            .map(|member| match member {
                Member::Pod(text) | Member::Address(text) => text,
            })
            .collect::<Vec<_>>()
    };
    let rules = policy.rules.iter().map(|rule| {
        let peers = rule.peer.clone().unwrap_or_default().address_groups;
        let ports = rule.ports.iter().map(|port| port.port).collect();
        (rule.id.clone(), rule.action(), ports, peers.iter().flat_map(addresses).collect())
    });
    rules.collect()
}

#[test]
fn who_may_be_meant_by_a_rule_that_does_not_deny_all_is_dropped_in_front_of_it() {
    let far = pods()[2].clone();
    let wrong = far.replace("labels: {app: far}", "labels: {app: [far]}");
    let to = format!("to: [{}]", by_label("far"));
    let address = vec!["10.10.1.73".to_owned()];
    for rule in [format!("{{action: Pass, {to}}}"), format!("{{action: Allow, l7Protocols: [{{http: {{}}}}], {to}}}")] {
        let right = egress_rules(&rule, &far);
        assert!(right.len() == 1 && right[0].1 != RuleAction::Drop && right[0].3 == address, "{right:?}");
        let first = egress_rules(&rule, &wrong).swap_remove(0);
        assert_eq!((first.0.as_str(), first.1, &first.3), ("egress-0/in-doubt", RuleAction::Drop, &address), "{rule}");
    }
    // Who is only allowed is not, and who is only denied is.
    let rules = egress_rules(&format!("{{action: Allow, {to}}}, {{action: Reject, {to}}}"), &wrong);
    let found: Vec<_> = rules.iter().filter(|rule| rule.3 == address).collect();
    assert!(found.len() == 1 && found[0].1 == RuleAction::Reject, "{rules:?}");
}

#[test]
fn a_port_by_name_of_who_is_not_understood_may_be_any() {
    let far = pod("t", "far", "app: far", "k8s-node-worker-1", "10.10.1.73", &http(8080));
    let to = format!("to: [{}], ", by_label("far"));
    for (to, id) in [(to.as_str(), "by label"), ("", "anybody")] {
        let rule = format!("{{action: Drop, {to}ports: [{{protocol: TCP, port: http}}]}}");
        let right = egress_rules(&rule, &far);
        assert!(right.iter().all(|rule| rule.2 == [8080]), "{id}: {right:?}");
        for wrong in [
            far.replace("status: {", "status: {phase: [x], "),
            far.replace("8080", "80800"),
            far.replace("labels: {app: far}", "labels: [far]"),
        ] {
            let rules = egress_rules(&rule, &wrong);
            let address = vec!["10.10.1.73".to_owned()];
            let expected = ("egress-0/in-doubt".to_owned(), RuleAction::Drop, vec![0], address);
            assert!(rules.contains(&expected), "{id}: {wrong}{rules:?}");
        }
    }
}
