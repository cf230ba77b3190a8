//! How a cluster is followed, case by case.

use super::objects::{definition, object, pinned};
use super::scene::{PATIENCE, Running, Scene};
use crate::common::NODE;
use std::process::{Command, Output, Stdio};
use vswitch_agent::attach::{Attachment, Attachments};
use vswitch_agent::problem::Origin;
use vswitch_agent::source::cluster::PLACE;
use vswitch_testapi::{Answer, Cut};

fn scene() -> Scene {
    let scene = Scene::new();
    pinned().into_iter().for_each(|object| drop(scene.server.apply(object).expect("it is right")));
    scene
}

const POLICY: &str = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: more, namespace: p}
spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_source_is_blind_until_each_kind_was_listed_and_changes_come() {
    let scene = scene();
    scene.server.hurt().hold_lists("networkpolicies.networking.k8s.io");
    let mut running = scene.place.agent(false).await;
    let is_listed = |running: &Running| running.handle.object(&Origin::new(PLACE, 0, "Pod p/victim")).is_some();
    assert!(running.until(is_listed).await, "other kinds are listed");
    assert!(!running.is_known() && !running.handle.knows_all());
    assert!(!running.has("p/victim"), "it is held back");
    scene.server.hurt().release_lists("networkpolicies.networking.k8s.io");
    running.known().await;
    assert_eq!(running.told(), scene.as_files().0);
    scene.apply(POLICY);
    // The one who waits is woken, and looks only then.
    while !running.has("np:p/more") {
        let woken = tokio::time::timeout(PATIENCE, running.wake.notified()).await;
        assert!(woken.is_ok(), "nothing wakes it");
        running.agent.scan();
    }
    scene.server.delete("networking.k8s.io/v1", "NetworkPolicy", "p", "more").expect("it is there");
    assert!(running.until(|running| !running.has("np:p/more")).await);
    assert_eq!(running.told(), scene.as_files().0);
    let object = running.handle.object(&Origin::new("cluster/networking.k8s.io", 0, "NetworkPolicy p/isolate"));
    let object = object.expect("it is known");
    assert_eq!(object.api_version, "networking.k8s.io/v1");
    assert!(!object.uid.is_empty() && object.namespace == "p" && object.name == "isolate");
    assert!(running.handle.object(&Origin::new("cluster/networking.k8s.io", 0, "NetworkPolicy p/more")).is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_has_not_ended_takes_nothing_away() {
    let scene = scene();
    let mut running = scene.place.agent(false).await;
    running.known().await;
    let before = running.told();
    let hurt = scene.server.hurt();
    hurt.hold_lists("");
    scene.server.delete("networking.k8s.io/v1", "NetworkPolicy", "p", "isolate").expect("it is there");
    // The watch may say so before; what the list says counts when it has ended.
    assert!(running.until(|running| !running.has("np:p/isolate")).await);
    scene.server.apply(pinned()[6].clone()).expect("it is right");
    assert!(running.until(|running| running.told() == before).await);
    hurt.compact();
    hurt.cut_watches(Cut::Expired);
    assert!(running.until(|_| hurt.lists_held("") > 3).await, "they are listed again");
    scene.server.delete("networking.k8s.io/v1", "NetworkPolicy", "p", "isolate").expect("it is there");
    for _ in 0..20 {
        running.agent.scan();
        assert_eq!(running.told(), before);
        tokio::task::yield_now().await;
    }
    hurt.release_lists("");
    assert!(running.until(|running| !running.has("np:p/isolate")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_changes_while_the_server_is_away_and_then_only_what_changed() {
    let scene = scene();
    let mut running = scene.place.agent(false).await;
    running.known().await;
    let before = running.told();
    scene.server.hurt().away();
    assert!(scene.server.until(|server| server.watches().is_empty()).await);
    assert!(!running.agent.scan() && running.told() == before && running.is_known());
    scene.apply(POLICY);
    assert!(!running.agent.scan());
    scene.server.hurt().back();
    assert!(running.until(|running| running.has("np:p/more")).await);
    let after = running.told();
    let changed: Vec<&str> = after
        .1
        .iter()
        .filter(|(key, object)| before.1.get(*key) != Some(*object))
        .map(|(key, _)| key.1.as_str())
        .collect();
    assert!(changed.contains(&"np:p/more") && changed.iter().all(|name| !name.contains("isolate")), "{changed:?}");
    assert!(before.1.keys().all(|key| after.1.contains_key(key)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_appears_is_followed_and_one_that_is_not_found_stays() {
    let scene = scene();
    let mut running = scene.place.agent(false).await;
    running.known().await;
    // Not found is not gone.
    let name = "clusternetworkpolicies.crd.antrea.io";
    scene.server.hurt().hide(name);
    let (verb, resource) = (String::new(), name.to_owned());
    scene.server.hurt().answer(Answer { times: 3, code: 404, retry_after: None, verb, resource });
    scene.server.hurt().cut_watches(Cut::Expired);
    let asked = |server: &vswitch_testapi::Server| server.requests().iter().any(|entry| entry.status == 404);
    assert!(scene.server.until(asked).await);
    running.agent.scan();
    assert!(running.has("acnp:pin"));
    scene.server.hurt().show(name);
    // Its definition is gone: it is.
    let crd = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    scene.server.delete(crd.0, crd.1, "", name).expect("it is there");
    assert!(running.until(|running| !running.has("acnp:pin")).await);
    assert!(running.until(|running| running.is_known()).await);
    scene.server.apply(definition("ClusterNetworkPolicy", "clusternetworkpolicies", "Cluster")).expect("it is right");
    scene.server.apply(pinned()[7].clone()).expect("it is right");
    assert!(running.until(|running| running.is_known() && running.has("acnp:pin")).await, "{:?}", running.lines());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_is_told_at_once_by_its_name() {
    let scene = scene();
    scene.server.hurt().refuse("list", "pods");
    let mut running = scene.place.agent(false).await;
    let tells = |line: &String| line.starts_with("cluster: pods cannot be followed: the server says 403");
    assert!(running.until(|running| running.lines().iter().any(tells)).await, "{:?}", running.lines());
    let line = running.lines().into_iter().find(tells).expect("it is there");
    assert!(line.ends_with("its account needs the verbs list and watch for it; nothing is known of them"), "{line}");
    assert!(!running.is_known());
    scene.server.hurt().permit("list", "pods");
    running.known().await;
    assert!(running.until(|running| !running.lines().iter().any(tells)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_starts_while_the_server_is_away_knows_what_it_saved() {
    let scene = scene();
    let mut running = scene.place.agent(true).await;
    running.known().await;
    let before = running.told();
    drop(running);
    scene.server.hurt().away();
    let mut running = scene.place.agent(true).await;
    running.agent.scan();
    assert_eq!((running.told(), running.is_known()), (before.clone(), false), "blind until it was listed");
    scene.server.delete("networking.k8s.io/v1", "NetworkPolicy", "p", "isolate").expect("it is there");
    scene.server.hurt().back();
    running.known().await;
    assert!(!running.has("np:p/isolate") && running.has("acnp:pin"));
}

const PODS: [&str; 2] = ["again", "later"];

/// What a CNI server has given to a Pod.
fn attached(name: &str, uid: &str) -> Attachments {
    let attachment = Attachment {
        uid: uid.to_owned(),
        port: format!("{name}-1"),
        mac: "02:76:0a:0a:00:63".to_owned(),
        addresses: vec!["10.10.0.99".parse().expect("an address")],
    };
    [(format!("p/{name}"), attachment)].into()
}

fn apply_pod(scene: &Scene, name: &str) -> String {
    scene.apply(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: p}}\n\
         spec: {{nodeName: {NODE}, containers: [{{name: c, image: i}}]}}\n"
    ));
    let pods = scene.server.list("v1", "Pod");
    let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name).expect("it is there");
    pod["metadata"]["uid"].as_str().expect("a UID").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_that_is_made_anew_while_the_server_is_away_is_no_new_pod() {
    let scene = scene();
    let uid = apply_pod(&scene, PODS[0]);
    let mut running = scene.place.agent(true).await;
    running.agent.attach(attached(PODS[0], &uid));
    assert!(running.until(|running| running.is_known() && running.has("p/again")).await);
    running.agent.attach(Attachments::new());
    assert!(!running.has("p/again"));
    drop(running);
    // The server does not say which policies there are.
    scene.server.hurt().hold_lists("networkpolicies.networking.k8s.io");
    let later = apply_pod(&scene, PODS[1]);
    let mut running = scene.place.agent(true).await;
    running.agent.attach(Attachments::new());
    running.agent.attach(attached(PODS[0], &uid));
    assert!(running.has("p/again") && !running.is_known(), "{:?}", running.lines());
    let is_listed = |running: &Running| running.handle.object(&Origin::new(PLACE, 0, "Pod p/later")).is_some();
    assert!(running.until(is_listed).await, "other kinds are listed");
    assert!(running.has("p/again") && !running.is_known());
    // Another Pod, and another one of the name, may be bound by what is not known.
    running.agent.attach(attached(PODS[1], &later));
    assert!(!running.has("p/later") && !running.has("p/again"));
    scene.server.delete("v1", "Pod", "p", PODS[0]).expect("it is there");
    let uid = apply_pod(&scene, PODS[0]);
    let named = |running: &Running| running.handle.object(&Origin::new(PLACE, 0, "Pod p/again")).map(|pod| pod.uid);
    assert!(running.until(|running| named(running).as_ref() == Some(&uid)).await);
    running.agent.attach(attached(PODS[0], &uid));
    assert!(!running.has("p/again"));
    scene.server.hurt().release_lists("networkpolicies.networking.k8s.io");
    running.known().await;
    assert!(running.has("p/again"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_becomes_wrong_stays_as_it_was_and_an_unknown_field_is_no_error() {
    let scene = scene();
    let mut chance = super::objects::Chance::new(3);
    scene.server.apply(object(25, &mut chance)).expect("it is right");
    let mut running = scene.place.agent(false).await;
    running.known().await;
    let before = running.told();
    assert!(running.has("o25"), "{:?}", running.names());
    let mut wrong = object(25, &mut chance);
    wrong["spec"] = serde_json::json!({"appliedTo": {"newTarget": {}}, "egressIP": "192.168.77.200"});
    scene.server.apply(wrong).expect("the server takes it");
    assert!(running.until(|running| running.lines().iter().any(|line| line.contains("newTarget"))).await);
    assert_eq!(running.told(), before);
    let mut policy = pinned()[7].clone();
    policy["spec"]["newField"] = true.into();
    scene.server.apply(policy).expect("the server takes it");
    let told = "cluster/crd.antrea.io ClusterNetworkPolicy pin: spec.newField: unknown field; it is of a newer version, and has no effect here";
    assert!(running.until(|running| running.lines().iter().any(|line| line == told)).await, "{:?}", running.lines());
    assert_eq!(running.told(), before);
}

pub fn program(scene: &Scene, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vswitch-agent"));
    command.args(["--cluster", "--node", NODE, "--no-state", "--kubeconfig"]).arg(scene.place.kubeconfig());
    command.arg("--node-config").arg(scene.place.node_config()).args(more);
    command.env_remove("RUST_LOG").env_remove("VSWITCH_SOCKET").stdin(Stdio::null());
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn print_waits_until_all_is_listed() {
    let scene = scene();
    let Output { status, stdout, stderr } = program(&scene, &["--print"]).output().expect("it runs");
    assert_eq!((status.code(), String::from_utf8_lossy(&stderr).as_ref()), (Some(0), ""));
    assert!(String::from_utf8_lossy(&stdout).contains("cluster/networking.k8s.io:0 NetworkPolicy p/isolate\n"));
    let mut alone = Command::new(env!("CARGO_BIN_EXE_vswitch-agent"));
    alone.args(["--cluster", "--node", NODE, "--print", "--kubeconfig", "/nowhere/kubeconfig"]);
    let Output { status, stderr, .. } = alone.output().expect("it runs");
    assert_eq!(status.code(), Some(1));
    assert!(String::from_utf8_lossy(&stderr).contains("/nowhere/kubeconfig: "), "{stderr:?}");
}
