//! Events of watches, fed by hand.

use super::follow::Follower;
use super::object::Object;
use super::state::{Failure, Shared};
use super::table::{Kind, kinds};
use super::*;
use kube::runtime::watcher::Event;

const NEW: &str = "kind appears";

fn kind(name: &str) -> &'static Kind {
    kinds().find(|kind| kind.name() == name).expect("it is followed")
}

fn object(name: &str, version: u32, more: &str) -> Object {
    let json = format!(
        r#"{{"metadata": {{"name": "{name}", "namespace": "n", "uid": "u-{name}", "resourceVersion": "{version}"}}{more}}}"#
    );
    serde_json::from_str(&json).expect("it is JSON")
}

fn pod(name: &str, version: u32, node: &str) -> Object {
    object(name, version, &format!(r#", "spec": {{"nodeName": {node}, "containers": [{{"name": "c"}}]}}"#))
}

struct Scene {
    cluster: Cluster,
    pods: Follower,
}

impl Scene {
    fn new() -> Self {
        let shared = Arc::new(Shared::new(false));
        let names = ["pods".to_owned()];
        shared.discovered(names.iter(), [].iter(), true);
        let pods = Follower::new(kind("pods"), "v1", Arc::clone(&shared));
        Self { cluster: Cluster::of(shared, JoinSet::new()), pods }
    }

    fn feed(&mut self, events: impl IntoIterator<Item = Event<Object>>) {
        for event in events {
            self.pods.take(event).expect("it is not too much");
        }
    }

    /// Looks; whether there is news, and the Pods with their Nodes.
    fn scan(&mut self) -> (bool, Vec<String>) {
        let is_news = self.cluster.scan();
        let node = |document: &Document| match &document.body {
            crate::kinds::DocumentBody::Pod(pod) => format!("{} {}", document.meta.name, pod.spec.node_name),
            _ => format!("{} wrong", document.meta.name),
        };
        let mut pods: Vec<String> = self.cluster.documents_after(&|_| false).iter().map(node).collect();
        pods.sort();
        (is_news, pods)
    }
}

fn list(objects: Vec<Object>) -> Vec<Event<Object>> {
    let applied = objects.into_iter().map(Event::InitApply);
    std::iter::once(Event::Init).chain(applied).chain([Event::InitDone]).collect()
}

#[test]
fn a_list_counts_as_a_whole() {
    let mut scene = Scene::new();
    scene.feed([Event::Init, Event::InitApply(pod("a", 1, "\"x\""))]);
    assert_eq!(scene.scan(), (false, vec![]));
    assert!(scene.cluster.is_blind() && scene.cluster.may_hold_more());
    scene.feed([Event::InitDone]);
    assert_eq!(scene.scan(), (true, vec!["a x".to_owned()]));
    assert!(!scene.cluster.is_blind());
    scene.feed([Event::Apply(pod("b", 2, "\"x\"")), Event::Apply(pod("b", 3, "\"y\""))]);
    assert_eq!(scene.scan(), (true, vec!["a x".to_owned(), "b y".to_owned()]));
    assert!(!scene.scan().0, "it is known");

    // A list that is begun anew: what it lacks is there until it ends.
    scene.feed([Event::Init, Event::InitApply(pod("c", 4, "\"x\"")), Event::Init]);
    assert_eq!(scene.scan(), (false, vec!["a x".to_owned(), "b y".to_owned()]));
    scene.feed([Event::InitApply(pod("b", 3, "\"y\"")), Event::InitDone]);
    assert_eq!(scene.scan(), (true, vec!["b y".to_owned()]));
    scene.feed(list(vec![pod("b", 3, "\"y\"")]));
    assert_eq!(scene.scan(), (false, vec!["b y".to_owned()]), "nothing has changed");
    scene.feed([Event::Delete(pod("b", 9, "\"y\""))]);
    assert_eq!(scene.scan(), (true, vec![]));
}

#[test]
fn what_is_wrong_stays_as_it_was_unless_it_is_another_object() {
    let mut scene = Scene::new();
    scene.feed(list(vec![pod("a", 1, "\"x\"")]));
    scene.scan();
    scene.feed([Event::Apply(pod("a", 2, "5"))]);
    let (is_news, pods) = scene.scan();
    assert!(is_news && pods.contains(&"a x".to_owned()), "{pods:?}");
    assert!(scene.cluster.problems().iter().any(Problem::is_error));
    let object = |what: &str| scene.cluster.handle().object(&Origin::new(PLACE, 0, what));
    assert!(object("Pod n/a").is_some());
    assert_eq!(object("Pod n/a@net1"), object("Pod n/a"), "what is said of an interface is told of its Pod");
    let mut other = pod("a", 3, "5");
    other = Object::new({
        let mut tree = other.tree.clone();
        let uid = tree.get_mut("metadata").and_then(|meta| meta.get_mut("uid")).expect("it has one");
        uid.value = crate::source::Value::Text("another".to_owned());
        tree
    });
    scene.feed([Event::Apply(other)]);
    assert_eq!(scene.scan().1, ["a wrong"]);
}

#[test]
fn a_kind_that_is_gone_takes_its_objects_with_it_and_one_that_comes_makes_blind() {
    let mut scene = Scene::new();
    scene.feed(list(vec![pod("a", 1, "\"x\"")]));
    scene.scan();
    let shared = Arc::clone(&scene.cluster.shared);
    let tiers = ["tiers.crd.antrea.io".to_owned()];
    shared.discovered(tiers.iter(), [].iter(), true);
    assert!(scene.scan().0 && scene.cluster.is_blind());
    shared.gone(tiers[0].clone());
    assert!(scene.scan().0 && !scene.cluster.is_blind());
    shared.discovered([].iter(), tiers.iter(), true);
    assert!(scene.scan().0 && scene.cluster.is_blind(), "it has a definition, and is not served");
    shared.gone("pods".to_owned());
    assert_eq!(scene.scan(), (true, vec![]));
}

#[test]
fn what_fails_is_told_in_time() {
    let scene = Scene::new();
    let (shared, now) = (Arc::clone(&scene.cluster.shared), Instant::now());
    let after = |seconds: u64| now + Duration::from_secs(seconds);
    let failure = |is_refused: bool| Failure { reason: NEW.to_owned(), is_refused };
    assert_eq!((shared.problems(after(20)).len(), shared.problems(after(40)).len()), (0, 1), "it was never listed");
    shared.listed(kind("pods"), HashMap::new(), true);
    shared.goes(kind("pods"));
    assert!(shared.problems(after(1000)).is_empty() && shared.lost(after(1000)).is_empty() && shared.knows_all());
    shared.fails(kind("pods"), failure(false));
    assert_eq!((shared.problems(after(20)).len(), shared.lost(after(100)).len()), (0, 0));
    let problems = shared.problems(after(40));
    assert_eq!(problems[0].to_string(), "cluster: pods cannot be followed: kind appears; what was known stays");
    assert_eq!((shared.lost(after(130)), shared.knows_all()), (vec!["pods".to_owned()], true));
    shared.goes(kind("pods"));
    shared.fails(kind("pods"), failure(true));
    assert_eq!(shared.problems(Instant::now()).len(), 1, "refused: told at once");
    shared.goes(kind("pods"));
    shared.overfull(kind("pods"), failure(true));
    shared.goes(kind("pods"));
    assert!(!shared.knows_all(), "a policy may be among those that are not taken");
}
