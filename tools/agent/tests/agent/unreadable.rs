//! Files of which a part, or all, cannot be read: a policy in them is in force, or whom it may bind
//! is held. What can be read beside it is read.

use crate::common::{CLUSTER, K8S, NODE, files, lines, pods, policies};
use std::fs;
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::{Options, Standing};
use vswitch_agent::project::text;

const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: b}\ndata: {a: x}\n";
const SPEC: &str = "spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}\n";

/// An agent, and the files that it reads: the document's cluster, and the Pods of all tests.
struct Scene(tempfile::TempDir, Agent);

impl Scene {
    /// One that runs before `more` is there.
    fn running() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files() {
            fs::write(dir.path().join(name), text).expect("written");
        }
        fs::write(dir.path().join("pods-of-tests.yaml"), pods()).expect("written");
        let agent = Agent::new(dir.path(), &[], NODE, Options::default());
        let mut scene = Self(dir, agent);
        assert!(scene.1.scan() | scene.1.scan());
        scene
    }

    fn write(&mut self, more: impl AsRef<[u8]>) {
        fs::write(self.0.path().join("more.yaml"), more).expect("written");
        self.1.scan();
        self.1.scan();
    }

    /// One with `more`, which comes while the agent runs, or is there when it starts.
    fn with(more: &[u8], is_fresh: bool) -> Self {
        let mut scene = Self::running();
        scene.write(more);
        if is_fresh {
            scene.1 = Agent::new(scene.0.path(), &[], NODE, Options::default());
            assert!(scene.1.scan() | scene.1.scan());
        }
        scene
    }

    fn text(&self) -> String {
        text(self.1.projection(), false)
    }

    /// Whom lines say to be held, and in which directions.
    fn held(&self) -> Vec<String> {
        let lines = lines(self.1.problems());
        let held = lines.iter().filter_map(|line| line.split_once(": until it is right, "));
        held.map(|(_, held)| held.to_owned()).collect()
    }

    /// Policies of `more`.
    fn policies(&self) -> Vec<&str> {
        let others = Scene::running();
        let others = policies(others.1.projection()).into_iter().map(str::to_owned).collect::<Vec<_>>();
        policies(self.1.projection()).into_iter().filter(|name| !others.contains(&(*name).to_owned())).collect()
    }
}

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Its policy is in force.
    InForce,
    /// Whom it selects is held.
    Selected,
    /// All Pods of its namespace are held.
    Namespace,
    /// All Pods are held.
    All,
}

/// Forms of a file with a policy `a/p`, and what becomes of each.
fn forms() -> Vec<(Vec<u8>, Fate)> {
    use Fate::{All, InForce, Namespace, Selected};
    let policy = format!("{K8S}{SPEC}");
    let json = |more: &str| {
        format!(
            "{{\"apiVersion\": \"networking.k8s.io/v1\", \"kind\": \"NetworkPolicy\",\n\"metadata\": {{\"name\": \"p\", \"namespace\": \"a\"}},\n\
             \"spec\": {{\"podSelector\": {{\"matchLabels\": {{\"app\": \"web\"}}}}, \"policyTypes\": [\"Ingress\"]}}{more}"
        )
    };
    let right = json("}");
    let flat = right.replace('\n', " ");
    let double_item = |item: &str| format!("apiVersion: v1\nkind: List\nitems:\n- {item}\n- {flat}\n");
    let mut forms = vec![
        // A `---` that was forgotten or misspelt.
        (format!("{CONFIG}{flat}\n"), InForce),
        (json(", \"spec\": {\"podSelector\": {}}}"), Namespace),
        (json(", \"apiVersion\": \"v1\", \"kind\": \"Pod\"}"), Selected),
        (json(", \"kind\": \"NetworkPolicy\"}"), InForce),
        (json(""), Namespace),
        (json("} xyz"), Namespace),
        (format!("// comment\n{right}"), All),
        (format!("[{right}]"), Selected),
        (format!("[{right}, {right}]"), Selected),
        (right.replace("\"p\"", "\"p\", \"annotations\": {\"x\": \"\\ud800\"}"), All),
        (format!("{right}\n{right}"), InForce),
        (format!("{{\"kind\": \"ConfigMap\", \"apiVersion\": \"v1\"}}\n{right}"), InForce),
        (format!("{right}\n\n{{\"kind\": \"ConfigMap\", \"apiVersion\": \"v1\"}}"), InForce),
        (format!("{right} {right}"), All),
        (format!("{{\"kind\": \"ConfigMap\", \"apiVersion\": \"v1\"}} {right}"), All),
        // What it is, twice.
        (policy.replace("kind: ", "kind: Pod\nkind: "), Selected),
        (policy.replace("kind: NetworkPolicy\n", "kind: NetworkPolicy\nkind: Pod\n"), Selected),
        (policy.replace("kind: NetworkPolicy\n", "kind: NetworkPolicy\nkind: NetworkPolicy\n"), InForce),
        (format!("{policy}apiVersion: networking.k8s.io/v1\n"), InForce),
        // Lists that are none.
        (format!("- {}", policy.replace('\n', "\n  ")), Selected),
        (format!("apiVersion: v1\nkind: List\nitems: {{x: {flat}}}\n"), Selected),
        (format!("apiVersion: v1\nkind: List\nitems: [{flat}]\nitems: []\n"), Selected),
        (format!("apiVersion: v1\nitems: [{flat}]\n"), Selected),
        (format!("apiVersion: v1\nkind: List\nitems: [{{apiVersion: v1, kind: List, items: [{flat}]}}]\n"), InForce),
        (format!("{}{right}{}", "{apiVersion: v1, kind: List, items: [".repeat(70), "]}".repeat(70)), All),
        (format!("|\n {}", policy.replace('\n', "\n ")), All),
        (policy.lines().map(|line| format!("+{line}\n")).collect(), All),
        // Other items of a List.
        (double_item("{apiVersion: v1, kind: ConfigMap, data: {a: 1, a: 2}}"), InForce),
        (double_item("{apiVersion: v1, kind: Pod, kind: Pod, metadata: {name: x}}"), InForce),
        (double_item("{apiVersion: v1, kind: Pod, kind: Node, metadata: {name: x}}"), InForce),
        (
            double_item("{apiVersion: v1, kind: Service, metadata: {name: x, name: x}, spec: {clusterIP: None}}"),
            InForce,
        ),
        (double_item("{apiVersion: v1, kind: Service, metadata: {name: x, name: y}}"), InForce),
        (double_item("{apiVersion: v1, kind: ConfigMap, data: !Ref x}"), InForce),
        (double_item("{apiVersion: v1, kind: ConfigMap, data: {}, data: {a: b}}"), InForce),
        // Tags.
        (policy.replace("metadata: {", "metadata: !x {"), Selected),
        (policy.replace("spec: {", "spec: !x {"), Namespace),
    ]
    .into_iter()
    .map(|(text, fate)| (text.into_bytes(), fate))
    .collect::<Vec<_>>();
    let others = [
        CONFIG.to_owned(),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: b}\nspec: {nodeName: other}\n".to_owned(),
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n".to_owned(),
        policy.replace("name: p", "name: q").replace("namespace: a", "namespace: b"),
        policy.replace("name: p", "name: q"),
    ];
    for other in others {
        for between in
            ["", "----\n", " ---\n", "---x\n", "--\n", "\u{2014}\u{2014}\u{2014}\n", "\n# next\n", "--\n\n# next\n"]
        {
            forms.push((format!("{other}{between}{policy}").into_bytes(), InForce));
        }
    }
    // Bytes that are no UTF-8, and texts in UTF-16.
    let latin = |text: String| text.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect::<Vec<u8>>();
    forms.push((latin(format!("# caf\u{e9}\n{policy}")), InForce));
    forms.push((latin(policy.replace("name: p,", "name: p, annotations: {x: caf\u{e9}, caf\u{e9}: x},")), InForce));
    forms.push((latin(policy.replace("name: p,", "name: p, generateName: caf\u{e9},")), InForce));
    forms.push((latin(policy.replace("app: web", "app: caf\u{e9}")), Namespace));
    forms.push((latin(policy.replace("namespace: a", "namespace: caf\u{e9}")), Selected));
    forms.push((
        latin(format!("{CONFIG}{}", policy.replace("policyTypes: [Ingress]", "policyTypes: [caf\u{e9}]"))),
        Namespace,
    ));
    forms.push((latin(format!("|\n caf\u{e9}\n {}", policy.replace('\n', "\n "))), All));
    forms.push((latin(format!("- caf\u{e9}\n- |\n  {}", policy.replace('\n', "\n  "))), All));
    let utf16 = |text: &str, order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
    for order in [u16::to_le_bytes, u16::to_be_bytes] {
        forms.push((utf16(&format!("\u{feff}{policy}"), order), InForce));
        forms.push((utf16(&policy, order), InForce));
        forms.push((utf16(&policy.replace('\n', "\r\n"), order), InForce));
        forms.push((utf16(&json(""), order), Namespace));
    }
    forms.push((policy.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(), All));
    forms.push((format!("{CONFIG}{policy}").replace('\n', "\r").into_bytes(), InForce));
    forms
}

#[test]
fn a_policy_in_a_file_that_cannot_be_read_as_it_is_is_in_force_or_held() {
    for (form, fate) in forms() {
        let shown = String::from_utf8_lossy(&form);
        for is_fresh in [false, true] {
            let scene = Scene::with(&form, is_fresh);
            let of_a = scene.held().iter().filter(|held| held.contains("a/web1")).cloned().collect::<Vec<_>>();
            let web = "a/web1, a/web2";
            let is_in_force = policies(scene.1.projection()).contains(&"np:a/p");
            assert_eq!(is_in_force, fate == Fate::InForce, "{shown}{:#?}", lines(scene.1.problems()));
            let everybody = ["a/web1", "a/web2", "b/db"];
            match fate {
                Fate::InForce => assert_eq!(scene.held(), [""; 0], "{shown}"),
                Fate::Selected => {
                    let expected = format!("what comes in is dropped for {web}");
                    assert!(of_a.iter().any(|held| held.starts_with(&expected)), "{shown}{of_a:?}");
                }
                Fate::Namespace => {
                    let expected = format!(" dropped for {web}");
                    assert!(of_a.iter().all(|held| held.ends_with(&expected)), "{shown}{of_a:?}");
                }
                Fate::All => assert!(
                    everybody.iter().all(|name| scene.text().contains(name))
                        && of_a.iter().any(|held| held.starts_with("everything") || held.contains("b/db")),
                    "{shown}{of_a:?}"
                ),
            }
            assert_eq!(of_a.is_empty(), fate == Fate::InForce, "{shown}");
            // What may be any policy keeps the gate shut; what says which one it is does not.
            if matches!(fate, Fate::InForce | Fate::Namespace) {
                assert_eq!(scene.1.standing(), Standing::Known, "{shown}");
            }
        }
    }
}

#[test]
fn a_policy_whose_file_cannot_be_read_any_more_stays_or_is_held() {
    let right = format!("{K8S}{SPEC}");
    for (form, _) in forms() {
        let mut scene = Scene::with(right.as_bytes(), false);
        scene.write(&form);
        let shown = String::from_utf8_lossy(&form);
        let is_held = scene.held().iter().any(|held| held.contains("a/web1, a/web2"));
        assert!(is_held || scene.policies().contains(&"np:a/p"), "{shown}{:#?}", lines(scene.1.problems()));
    }
}

#[test]
fn a_policy_of_antrea_that_cannot_be_read_drops_ahead_of_all() {
    let right =
        format!("{CLUSTER}spec: {{priority: 5, appliedTo: [{{podSelector: {{}}}}], ingress: [{{action: Drop}}]}}\n");
    let latin = [b"# caf\xe9\n".to_vec(), right.clone().into_bytes()].concat();
    let scene = Scene::with(&latin, false);
    assert_eq!((scene.policies(), scene.held()), (vec!["acnp:p"], vec![]));
    for bad in [format!("// x\n{{\"a\": {right:?}}}"), format!("|\n {}", right.replace('\n', "\n "))] {
        let scene = Scene::with(bad.as_bytes(), false);
        let names = scene.policies();
        assert!(names.len() == 1 && names[0].starts_with("acnp:more.yaml:"), "{bad}{names:?}");
        assert_eq!(scene.1.standing(), Standing::Blind, "nobody knows which one it is");
    }
}

#[test]
fn what_speaks_of_policies_and_can_be_read_holds_nobody() {
    let policy = format!("{K8S}{SPEC}").replace('\n', "\n    ");
    for harmless in [
        format!("{}  p.yaml: |\n    {policy}\n", CONFIG.replace("data: {a: x}", "data:")),
        format!("apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  data:\n    x: |\n      {}\n", policy.replace('\n', "\n  ")),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {x: NetworkPolicy, x: podSelector}\n".to_owned(),
        "apiVersion: v1\nmetadata: {name: NetworkPolicy}\nkind: Secret\n".to_owned(),
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\nspec: {names: {kind: NetworkPolicy}, podSelector: {}}\n".to_owned(),
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {template: {spec: {affinity: {podSelector: {}}}}}\n".to_owned(),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x, annotations: {a: NetworkPolicy}}\nspec: {nodeName: other}\n".to_owned(),
        format!("# NetworkPolicy podSelector\n{CONFIG}"),
        format!("[{{{}}}]\n", "apiVersion: v1, kind: ConfigMap, data: {x: NetworkPolicy}"),
        "[1, 2]\n".to_owned(),
        "hello\n".to_owned(),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: [\n".to_owned(),
        "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: g}\nspec: {podSelector: {\n".to_owned(),
        "apiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {name: g}\nspec: {appliedTo: {podSelector: {\n".to_owned(),
    ] {
        for is_fresh in [false, true] {
            let scene = Scene::with(harmless.as_bytes(), is_fresh);
            assert_eq!((scene.held(), scene.policies()), (vec![], vec![]), "{harmless}");
        }
    }
}

#[test]
fn a_file_cut_anywhere_keeps_the_policies_that_it_said() {
    let spec = "spec: {priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop}]}\n";
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {}", format!("{K8S}{SPEC}").replace('\n', "\n  "));
    for (right, name) in [
        (format!("{CLUSTER}{spec}"), "acnp:p"),
        (format!("{K8S}{SPEC}"), "np:a/p"),
        (
            CLUSTER.replace(
                "ClusterNetworkPolicy\nmetadata: {name: p}",
                "NetworkPolicy\nmetadata: {name: p, namespace: a}",
            ) + spec,
            "anp:a/p",
        ),
        (list, "np:a/p"),
        (format!("kind: NetworkPolicy\n{}{SPEC}", K8S.replace("kind: NetworkPolicy\n", "")), "np:a/p"),
    ] {
        let mut scene = Scene::with(right.as_bytes(), false);
        let before = scene.text();
        for end in 0..right.len() {
            scene.write(&right[..end]);
            let there = policies(scene.1.projection());
            assert!(there.contains(&name), "{}: {there:?}", &right[..end]);
        }
        scene.write(&right);
        assert_eq!(scene.text(), before);
    }
}

#[test]
fn documents_of_a_kind_that_is_not_known_take_away_only_what_is_whole() {
    let policy =
        format!("{CLUSTER}spec: {{priority: 5, appliedTo: [{{podSelector: {{}}}}], ingress: [{{action: Drop}}]}}\n");
    for (text, stays) in [
        ("apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPo\n", true),
        ("apiVersion: crd.antrea.io/v1beta1\nmetadata: {name: p}\nkind: Cl\n", true),
        ("apiVersion: v1\nkind: L\n", true),
        ("apiVersion: example.com/v1\nkind: Widget\n", true),
        ("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\n", false),
        ("apiVersion: cluster.x-k8s.io/v1\nkind: Cluster\nmetadata: {name: x}\nspec: {}\n", false),
        (CONFIG, false),
    ] {
        let mut scene = Scene::with(policy.as_bytes(), false);
        scene.write(text);
        assert_eq!(scene.policies(), if stays { vec!["acnp:p"] } else { vec![] }, "{text}");
    }
}

#[test]
fn a_file_that_may_hold_a_policy_stays_held_until_it_is_right() {
    let mut scene = Scene::with(format!("// x\n{{x: {K8S:?}").as_bytes(), false);
    let before = scene.text();
    assert_eq!(scene.held().len(), 1);
    for worse in [&b"kind: [\n"[..], b"hello\n", b"", b"\xff\xfe\xff"] {
        scene.write(worse);
        assert_eq!(scene.text(), before, "{worse:?}");
    }
    scene.write(CONFIG);
    assert_eq!((scene.held(), scene.policies()), (vec![], vec![]));
    // What was another document before may be a policy now, and so may what comes beside a policy.
    let text = format!("|\n {}", format!("{K8S}{SPEC}").replace('\n', "\n "));
    scene.write(&text);
    assert_eq!(scene.held().len(), 1);
    scene.write(format!("{K8S}{SPEC}"));
    assert_eq!((scene.held(), scene.policies()), (vec![], vec!["np:a/p"]));
    scene.write(format!("{K8S}{SPEC}---\n{text}"));
    assert_eq!((scene.held().len(), scene.policies().len()), (1, 2));
    // Unless it is that one.
    scene.write(format!("{K8S}{SPEC}"));
    scene.write(&text);
    assert_eq!((scene.held(), scene.policies()), (vec![], vec!["np:a/p"]));
}
