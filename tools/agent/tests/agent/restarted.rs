//! What was in force before a restart of the agent is in force after it: fault by fault.

use crate::common::{CLUSTER, K8S, NODE, pods};
use crate::double::Switch;
use crate::watched::Watched;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::{Driver, Options, Standing};
use vswitch_proto::antrea::v1::Kind;

const DENY: &str = "spec: {priority: 5, appliedTo: [{podSelector: {matchLabels: {app: web}}}], ingress: [{action: Drop, from: [{podSelector: {matchLabels: {app: far}}}]}]}\n";
const FAR: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: r, namespace: a, labels: {app: far}}\nspec: {nodeName: k8s-node-worker-1}\nstatus: {podIPs: [{ip: 10.10.1.21}]}\n";

/// An agent that saves what it knows.
struct Run {
    state: tempfile::TempDir,
    watched: Watched,
}

fn begun(dir: &Path, state: &Path) -> Agent {
    Agent::new(dir, &[], NODE, Options::default()).remembering(state)
}

impl Run {
    fn new(documents: &[(&str, &str)]) -> Self {
        let mut watched = Watched::new(&[("pods.yaml", &pods())]);
        let state = tempfile::tempdir().expect("a directory");
        watched.agent = begun(watched.dir.path(), state.path());
        watched.look();
        documents.iter().for_each(|(name, text)| watched.write(name, text));
        Self { state, watched }
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.watched.dir.path().join(name), text).expect("written");
    }

    fn restart(&mut self) {
        self.watched.agent = begun(self.watched.dir.path(), self.state.path());
        self.watched.look();
    }

    /// Files of the state.
    fn saved(&self) -> Vec<std::path::PathBuf> {
        let dirs = fs::read_dir(self.state.path()).expect("readable").map(|entry| entry.expect("one").path());
        dirs.flat_map(|dir| fs::read_dir(dir).expect("readable").map(|entry| entry.expect("one").path())).collect()
    }
}

#[test]
fn a_policy_that_is_wrong_at_a_start_stays() {
    let antrea =
        CLUSTER.replace("ClusterNetworkPolicy", "NetworkPolicy").replace("{name: p}", "{name: p, namespace: a}");
    let k8s = "spec: {podSelector: {matchLabels: {app: web}}}\n";
    let wrongs = [
        ("np:a/p", K8S, k8s, "spec: {podSelector: {matchLabels: {app: zz}}, policyTypes: [Ingres]}\n"),
        ("np:a/p", K8S, k8s, "spec: {podSelector: {matchLabels: {app: zz}}, ingress: [{x: y}]}\n"),
        ("anp:a/p", &antrea, DENY, "spec: {priority: x, appliedTo: [{podSelector: {matchLabels: {app: zz}}}]}\n"),
        ("acnp:p", CLUSTER, DENY, "spec: {priority: x, appliedTo: [{podSelector: {matchLabels: {app: zz}}}]}\n"),
        (
            "acnp:p",
            CLUSTER,
            DENY,
            "spec: {priority: 5, tier: none-such, appliedTo: [{podSelector: {matchLabels: {app: zz}}}]}\n",
        ),
        (
            "acnp:p",
            CLUSTER,
            DENY,
            "spec: {priority: 5, appliedTo: [{podSelector: {matchLabels: {app: zz}}}], ingress: [{action: Deny}]}\n",
        ),
    ];
    for (name, head, right, wrong) in wrongs {
        for is_running in [true, false] {
            let mut run = Run::new(&[("p.yaml", &format!("{head}{right}"))]);
            let bound = run.watched.bound(name);
            assert!(!bound.is_empty(), "{name} binds Pods");
            run.put("p.yaml", &format!("{head}{wrong}"));
            if is_running {
                run.watched.look();
            }
            run.restart();
            assert_eq!(run.watched.bound(name), bound, "{wrong}");
            assert!(run.watched.tells(&["stays as it was until it is right"]), "{:?}", run.watched.lines());
            run.restart();
            assert_eq!(run.watched.bound(name), bound, "{wrong}, once more");
        }
    }
}

#[test]
fn addresses_that_are_wrong_at_a_start_stay_denied() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n9, labels: {zone: z}}\nspec: {podCIDR: 10.10.9.0/24, podCIDRs: [10.10.9.0/24]}\nstatus: {addresses: [{type: InternalIP, address: 192.168.77.109}]}\n";
    let of_node = DENY.replace("podSelector: {matchLabels: {app: far}}", "nodeSelector: {matchLabels: {zone: z}}");
    for (right, policy, address, wrong) in [
        (FAR, DENY, "10.10.1.21", FAR.replace("10.10.1.21", "10.10.1.21/32")),
        (FAR, DENY, "10.10.1.21", FAR.replace("{ip: 10", "{IP: 10")),
        (FAR, DENY, "10.10.1.21", FAR.replace("[{ip: 10.10.1.21}]", "{ip: 10.10.1.21}")),
        (FAR, DENY, "10.10.1.21", FAR.replace("name: r,", "name: r, annotations: {vswitch/addresses: x},")),
        (FAR, DENY, "10.10.1.21", FAR.replace("name: r,", "name: null,")),
        (FAR, DENY, "10.10.1.21", FAR[..FAR.len() - 8].to_owned()),
        (FAR, DENY, "10.10.1.21", FAR.replace("{podIPs: [{ip: 10.10.1.21}]}", "\n  pha")),
        (node, &of_node, "192.168.77.109", node.replace("77.109", "77.2222")),
        (node, &of_node, "192.168.77.109", node.replace("type: InternalIP, ", "")),
    ] {
        let mut run = Run::new(&[("p.yaml", &format!("{CLUSTER}{policy}")), ("x.yaml", right)]);
        assert!(run.watched.denied().contains(address), "{:?}", run.watched.denied());
        run.put("x.yaml", &wrong);
        run.restart();
        assert!(run.watched.denied().contains(address), "{wrong}: {:?}", run.watched.denied());
    }
}

#[test]
fn entries_groups_tiers_and_the_node_itself_stay() {
    let group = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: webs}\nspec: {podSelector: {matchLabels: {app: web}}}\n";
    let tier = "apiVersion: crd.antrea.io/v1beta1\nkind: Tier\nmetadata: {name: mine}\nspec: {priority: 30}\n";
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {clusterIP: 10.96.7.7, selector: {app: web}, ports: [{port: 80}]}\n";
    let policy = DENY.replace("podSelector: {matchLabels: {app: web}}", "group: webs").replace("5,", "5, tier: mine,");
    let all = [
        ("p.yaml", format!("{CLUSTER}{policy}")),
        ("g.yaml", group.to_owned()),
        ("t.yaml", tier.to_owned()),
        ("s.yaml", service.to_owned()),
    ];
    let all: Vec<(&str, &str)> = all.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let mut run = Run::new(&all);
    let nodes = fs::read_to_string(run.watched.dir.path().join("nodes.yaml")).expect("readable");
    let told_service = |run: &Run| {
        let key = (Kind::Service as i32, "a/s".to_owned());
        format!("{:?}", run.watched.agent.projection().objects.get(&key).map(|of| &of.object))
    };
    for (name, right, wrong) in [
        ("g.yaml", group, group.replace("podSelector", "podSelectors")),
        ("g.yaml", group, group[..group.len() - 60].to_owned()),
        ("g.yaml", group, group.replace("metadata", "metadatas")),
        ("t.yaml", tier, tier.replace("30", "x")),
        ("s.yaml", service, service.replace("10.96.7.7", "10.96.0.999")),
        ("s.yaml", service, service.replace("app: web", "app: [web]")),
        ("nodes.yaml", &nodes, nodes.replace("gateway:", "gate:")),
        ("nodes.yaml", &nodes, nodes.replace("bridge:", "bridges:")),
        ("nodes.yaml", &nodes, "@@[".to_owned()),
    ] {
        let (before, bound) = (run.watched.agent.projection().node.clone(), run.watched.bound("acnp:p"));
        let was = told_service(&run);
        assert_ne!(right, wrong, "{name}");
        run.put(name, &wrong);
        run.restart();
        assert_eq!((told_service(&run), run.watched.bound("acnp:p")), (was, bound), "{wrong}");
        assert_eq!(
            run.watched.agent.projection().node.as_ref().map(|(node, _)| node),
            before.as_ref().map(|(node, _)| node)
        );
        // What is new is in force.
        run.watched.write("new.yaml", &format!("{}{DENY}", CLUSTER.replace("name: p", "name: new")));
        assert!(run.watched.has(Kind::NetworkPolicy, "acnp:new"), "{wrong}");
        run.watched.remove("new.yaml");
        run.put(name, right);
        run.restart();
    }
}

#[test]
fn what_is_not_mounted_or_cut_at_a_start_stays() {
    let mut run = Run::new(&[]);
    let dir = run.watched.dir.path().to_owned();
    fs::create_dir(dir.join("m")).expect("made");
    run.watched.write("m/21-deny.yaml", &format!("{CLUSTER}{DENY}"));
    let pod = FAR.replace("name: r,", "name: q,");
    let other = CLUSTER.replace("name: p", "name: o");
    run.watched.write("all.yaml", &format!("{pod}---\n{other}{DENY}"));
    assert!(run.watched.has(Kind::NetworkPolicy, "acnp:p") && run.watched.has(Kind::NetworkPolicy, "acnp:o"));
    let in_force = |run: &Run| (run.watched.denied(), run.watched.bound("acnp:p"), run.watched.bound("acnp:o"));
    let before = in_force(&run);
    fs::rename(dir.join("m"), dir.join(".elsewhere")).expect("renamed");
    fs::create_dir(dir.join("m")).expect("made");
    run.put("all.yaml", &pod[..pod.len() - 6]);
    (0..3).for_each(|_| run.restart());
    assert_eq!(in_force(&run), before);
    assert!(run.watched.tells(&["/m: ", "is something not mounted?"]), "{:?}", run.watched.lines());
    // A directory by the name of a file, as of a mount whose source is missing.
    fs::remove_dir(dir.join("m")).expect("removed");
    fs::rename(dir.join(".elsewhere"), dir.join("m")).expect("renamed");
    run.restart();
    fs::remove_file(dir.join("m/21-deny.yaml")).expect("removed");
    fs::create_dir(dir.join("m/21-deny.yaml")).expect("made");
    run.restart();
    assert_eq!(in_force(&run), before);
}

#[test]
fn of_two_documents_the_one_in_force_stays_in_force() {
    let of = |app: &str| format!("{CLUSTER}{}", DENY.replace("app: web", &format!("app: {app}")));
    let mut run = Run::new(&[("m.yaml", &of("web"))]);
    let bound = run.watched.bound("acnp:p");
    run.watched.write("a.yaml", &of("db"));
    let before = run.watched.text();
    run.restart();
    assert_eq!((run.watched.bound("acnp:p"), run.watched.text()), (bound, before));
}

#[test]
fn what_was_deleted_goes_and_what_has_changed_counts() {
    let other = CLUSTER.replace("name: p", "name: o");
    let mut run = Run::new(&[("p.yaml", &format!("{CLUSTER}{DENY}")), ("o.yaml", &format!("{other}{DENY}"))]);
    let saved = run.saved().len();
    fs::remove_file(run.watched.dir.path().join("p.yaml")).expect("removed");
    run.put("o.yaml", &format!("{other}{}", DENY.replace("app: web", "app: db")));
    run.restart();
    assert!(!run.watched.has(Kind::NetworkPolicy, "acnp:p"));
    assert_eq!(run.watched.bound("acnp:o"), ["b/db".to_owned()].into());
    assert_eq!(run.saved().len(), saved - 1, "it is forgotten");
}

#[test]
fn what_is_saved_is_private_and_told_if_it_cannot_be_read() {
    let mut run = Run::new(&[("p.yaml", &format!("{CLUSTER}{DENY}"))]);
    for path in run.saved() {
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().expect("one"))), (0o600, 0o700), "{path:?}");
    }
    let is_of_policy = |path: &std::path::PathBuf| {
        fs::read_to_string(path).is_ok_and(|text| text.contains("acnp") || text.contains("ClusterNetworkPolicy"))
    };
    for spoil in [
        |text: &str| text[..text.len() / 2].to_owned(),
        |text: &str| text.replacen("\"version\":1", "\"version\":999", 1),
        |_: &str| String::new(),
    ] {
        let path = run.saved().into_iter().find(is_of_policy).expect("it is saved");
        let text = fs::read_to_string(&path).expect("readable");
        fs::write(&path, spoil(&text)).expect("written");
        run.put("p.yaml", &format!("{CLUSTER}spec: {{priority: x}}\n"));
        run.restart();
        assert!(!run.watched.has(Kind::NetworkPolicy, "acnp:p") || run.watched.bound("acnp:p").is_empty());
        assert!(
            run.watched.tells(&[&path.to_string_lossy(), "saved documents cannot be read"]),
            "{:?}",
            run.watched.lines()
        );
        assert_eq!(run.watched.agent.known_round(), None);
        run.watched.write("p.yaml", &format!("{CLUSTER}{DENY}"));
        assert!(run.watched.has(Kind::NetworkPolicy, "acnp:p"));
    }
}

#[test]
fn an_agent_that_cannot_save_says_so_and_runs_on() {
    let mut run = Run::new(&[]);
    let state = run.state.path().join("file");
    fs::write(&state, "").expect("written");
    run.watched.agent = begun(run.watched.dir.path(), &state);
    run.watched.look();
    run.watched.write("p.yaml", &format!("{CLUSTER}{DENY}"));
    assert!(run.watched.has(Kind::NetworkPolicy, "acnp:p"));
    let told = run.watched.lines().into_iter().filter(|line| line.contains("documents cannot be saved")).count();
    assert_eq!(told, 1, "{:?}", run.watched.lines());
}

#[tokio::test]
async fn an_agent_that_knew_all_tells_changes_though_something_cannot_be_read() {
    for knows in [true, false] {
        let mut run = Run::new(&[("p.yaml", &format!("{CLUSTER}{DENY}"))]);
        let switch = Switch::start().await;
        let mut driver = Driver::new(switch.socket(), Options::default());
        let agent = &mut run.watched.agent;
        driver.step(agent.projection(), agent.standing()).await.expect("reached").expect("told");
        agent.synced(driver.synced_round());
        run.put("new.yaml", &format!("{}{DENY}", CLUSTER.replace("name: p", "name: new")));
        run.put("bad.yaml", "@@[");
        run.restart();
        let agent = &run.watched.agent;
        assert_eq!((agent.standing(), agent.known_round()), (Standing::Blind, Some(1)));
        if !knows {
            // Somebody else has told it something since.
            switch.state().round += 1;
        }
        let mut driver = Driver::new(switch.socket(), Options::default()).knowing(agent.known_round());
        let report = driver.step(agent.projection(), agent.standing()).await.expect("reached");
        assert_eq!(report.is_some_and(|report| report.applied && !report.was_sync), knows);
        let state = switch.state();
        assert_eq!((state.syncs.len(), state.increments.len()), (1, usize::from(knows)));
        assert!(state.increments.iter().all(|increment| increment.remove.is_empty()), "nothing goes");
    }
}

/// Writes a file as of another time, and looks once.
fn touch(watched: &mut Watched, name: &str, text: &str, second: u64) {
    let path = watched.dir.path().join(name);
    fs::write(&path, text).expect("written");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + second);
    fs::File::options().write(true).open(&path).expect("there").set_modified(time).expect("set");
    watched.agent.scan();
}

#[test]
fn a_file_that_changes_at_each_scan_is_read_if_it_is_the_same_or_right() {
    let policy = format!("{CLUSTER}{DENY}");
    let of = |text: &dyn Fn(u64) -> String| {
        let mut watched = Watched::new(&[("pods.yaml", &pods())]);
        (0..9).for_each(|second| touch(&mut watched, "p.yaml", &text(second), second));
        let is_there = watched.has(Kind::NetworkPolicy, "acnp:p");
        assert!(watched.tells(&["p.yaml", "changes at each look"]), "{:?}", watched.lines());
        assert_eq!(watched.agent.standing() == Standing::Known, is_there);
        watched.look();
        assert!(!watched.tells(&["changes at each look"]), "{:?}", watched.lines());
        is_there
    };
    assert!(of(&|_| policy.clone()), "the same text");
    assert!(of(&|second| format!("# {second}\n{policy}")), "right each time");
    assert!(
        !of(&|second| format!("{policy}{}", "# more\n".repeat(usize::try_from(second).expect("small")))),
        "it grows"
    );
    assert!(!of(&|second| format!("# {second}\n{policy}---\nkind: [\n")), "it is wrong each time");
    assert!(
        !of(&|second| format!("# {second}\n{}", CLUSTER.replace("name: p", &format!("name: p{second}")) + DENY)),
        "others each time"
    );
}

#[test]
fn a_new_pod_waits_for_new_files_that_are_being_written() {
    let pod = crate::common::pod("a", "new", "app: web", NODE, "10.10.0.19", "");
    let mut watched = Watched::new(&[("pods.yaml", &pods())]);
    let policy = format!("{CLUSTER}{DENY}");
    touch(&mut watched, "p.yaml", &policy[..9], 1);
    fs::write(watched.dir.path().join("new.yaml"), &pod).expect("written");
    for second in 2..5 {
        touch(&mut watched, "p.yaml", &policy[..9 + usize::try_from(second).expect("small")], second);
        assert!(!watched.has(Kind::Pod, "a/new"), "its policy may be on its way");
    }
    assert!(watched.tells(&["Pod a/new", "held back"]), "{:?}", watched.lines());
    assert!(watched.has(Kind::Pod, "a/web1"));
    watched.write("p.yaml", &policy);
    assert!(watched.has(Kind::Pod, "a/new"));
    assert!(watched.bound("acnp:p").contains("a/new"), "{:?}", watched.bound("acnp:p"));
}
