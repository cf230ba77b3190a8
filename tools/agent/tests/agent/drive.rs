//! The agent against a double of the switch's services, behind a socket.

use crate::common::NODE;
use crate::double::kinds_and_names;
use crate::scene::Scene;
use std::path::Path;
use std::time::Duration;
use vswitch_agent::drive::{DriveError, Driver, Options, Standing};
use vswitch_proto::antrea::v1::{ApplyObjectsRequest, GateChange, Kind, WriteMode};

#[tokio::test]
async fn all_at_first_then_changes_only() {
    let mut scene = Scene::new(Options::default(), &[]).await;
    let report = scene.report().await;
    assert!(report.was_sync && report.applied && report.gate_open && !report.is_refused(), "{report:?}");
    {
        let state = scene.switch.state();
        assert_eq!(state.node.as_ref().map(|node| node.name.as_str()), Some(NODE));
        let (begin, objects) = &state.syncs[0];
        assert_eq!((begin.round, begin.mode(), begin.gate()), (1, WriteMode::ValidOnly, GateChange::Open));
        assert!(!begin.scope.contains(&(Kind::MulticastGroup as i32)) && begin.scope.len() == 9);
        assert_eq!(objects.len(), scene.agent.projection().objects.len());
    }
    assert!(scene.step().await.expect("the switch answers").is_none(), "nothing has changed");

    scene.edit("egresses.yaml", "192.168.77.112", "192.168.77.114");
    scene.edit("traffic-controls.yaml", "name: mirror-db-to-local", "name: mirror-db-too");
    let report = scene.report().await;
    assert!(!report.was_sync && report.applied, "{report:?}");
    let state = scene.switch.state();
    let request = &state.increments[0];
    assert_eq!(request.options.as_ref().map(|options| options.round), Some(1));
    assert_eq!(kinds_and_names(&request.objects), ["Egress egress-web", "TrafficControl mirror-db-too"]);
    let gone: Vec<_> = request.remove.iter().map(|gone| (gone.kind(), gone.name.as_str())).collect();
    assert_eq!(gone, [(Kind::TrafficControl, "mirror-db-to-local")]);
}

#[tokio::test]
async fn a_switch_that_begins_anew_is_told_everything_with_a_later_round() {
    let mut scene = Scene::new(Options::default(), &[]).await;
    scene.report().await;
    scene.switch.restart().await;
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let result = scene.step().await;
    let report = match result {
        // The old connection's end was noticed first
        Err(DriveError::Unreachable { .. }) => scene.report().await,
        result => result.expect("reached").expect("everything"),
    };
    assert!(report.was_sync && report.applied);
    let state = scene.switch.state();
    assert_eq!(state.syncs.last().map(|(begin, _)| begin.round), Some(1), "its own count has begun anew, too");
    assert!(state.node.is_some());
}

#[tokio::test]
async fn another_agent_takes_over() {
    let mut scene = Scene::new(Options::default(), &[]).await;
    scene.report().await;
    scene.switch.state().round = 5;
    scene.edit("egresses.yaml", "192.168.77.112", "192.168.77.114");
    let error = scene.step().await.expect_err("it is not ours any more");
    assert!(matches!(error, DriveError::Replaced(5)), "{error}");

    let mut second = Driver::new(scene.switch.socket(), Options::default());
    second.step(scene.agent.projection(), Standing::Known).await.expect("reached").expect("everything");
    assert_eq!(scene.switch.state().syncs.last().map(|(begin, _)| begin.round), Some(6));
}

#[tokio::test]
async fn what_is_refused_names_file_and_line_and_is_tried_again() {
    let mut scene = Scene::new(Options::default(), &[]).await;
    scene.switch.state().refused.insert((Kind::Pod as i32, "default/db".to_owned()));
    let report = scene.report().await;
    let expected =
        format!("{}:21 Pod default/db: port: PORT: refused by the test; think", scene.path("pods.yaml").display());
    assert_eq!(crate::common::lines(&report.problems), [expected]);
    assert!(report.is_refused() && report.applied && !report.gate_open);
    assert!(scene.step().await.expect("reached").is_none(), "not each second");

    scene.switch.state().refused.clear();
    scene.edit("pods.yaml", "db-755c6-5080e3", "db-another");
    let report = scene.report().await;
    assert!(report.was_sync && report.gate_open, "the gate was shut: all is judged again: {report:?}");
    assert!(scene.step().await.expect("reached").is_none());

    scene.switch.state().refused.insert((Kind::Egress as i32, "egress-web".to_owned()));
    scene.edit("egresses.yaml", "192.168.77.112", "192.168.77.114");
    let report = scene.report().await;
    assert!(!report.was_sync && report.is_refused() && report.applied);
    assert!(scene.step().await.expect("reached").is_none(), "not each second");
    scene.edit("egresses.yaml", "192.168.77.113", "192.168.77.115");
    scene.report().await;
    let state = scene.switch.state();
    let last = state.increments.last().expect("one");
    assert_eq!(kinds_and_names(&last.objects), ["Egress egress-client"], "the refused one is not sent again yet");
}

#[tokio::test]
async fn strict_is_all_or_nothing() {
    let mut scene = Scene::new(Options { is_strict: true, opens_anyway: false }, &[]).await;
    scene.switch.state().refused.insert((Kind::Pod as i32, "default/db".to_owned()));
    let report = scene.report().await;
    assert!(!report.applied && report.is_refused());
    assert_eq!(scene.switch.state().syncs[0].0.mode(), WriteMode::AllOrNothing);
    assert!(scene.step().await.expect("reached").is_none(), "not each second");
    scene.switch.state().refused.clear();
    scene.edit("pods.yaml", "db-755c6-5080e3", "db-another");
    let report = scene.report().await;
    assert!(report.was_sync && report.applied && report.gate_open);
}

#[tokio::test]
async fn a_file_that_was_never_right_takes_nothing_away_and_keeps_the_gate_shut() {
    let mut scene = Scene::new(Options::default(), &[]).await;
    let path = scene.path("policies.yaml");
    let right = std::fs::read_to_string(&path).expect("readable");
    std::fs::write(&path, "kind: [").expect("written");
    scene.begin_anew();
    let report = scene.report().await;
    assert!(report.applied && !report.was_sync && !report.gate_open);
    {
        let state = scene.switch.state();
        assert!(state.syncs.is_empty(), "a sync would sweep what the file said");
        assert_eq!((state.increments.len(), state.increments[0].remove.len()), (1, 0));
    }
    assert!(scene.step().await.expect("reached").is_none(), "not each second");
    scene.edit("egresses.yaml", "192.168.77.112", "192.168.77.114");
    assert!(!scene.report().await.was_sync);
    std::fs::write(&path, right).expect("written");
    scene.scan();
    let report = scene.report().await;
    assert!(report.was_sync && report.gate_open);
}

#[tokio::test]
async fn a_file_that_was_right_is_synced_as_it_was() {
    let mut scene = Scene::new(Options::default(), &[]).await;
    std::fs::write(scene.path("policies.yaml"), "kind: [").expect("written");
    scene.scan();
    let report = scene.report().await;
    assert!(report.was_sync && report.applied && report.gate_open);
    let state = scene.switch.state();
    let (begin, objects) = &state.syncs[0];
    assert_eq!(begin.gate(), GateChange::Open);
    assert!(kinds_and_names(objects).contains(&"NetworkPolicy acnp:web-app-db-network-policy".to_owned()));
}

#[tokio::test]
async fn a_node_that_is_refused_stays_what_it_was() {
    let mut scene = Scene::new(Options::default(), &[]).await;
    scene.report().await;
    scene.edit("nodes.yaml", "bridge: br0", "bridge: wrong");
    let report = scene.report().await;
    let expected =
        format!("{}:42 NodeConfig {NODE}: node.bridge: there is no such bridge", scene.path("nodes.yaml").display());
    assert_eq!(crate::common::lines(&report.problems), [expected]);
    assert!(scene.step().await.expect("reached").is_none(), "not each second");
    scene.edit("egresses.yaml", "192.168.77.112", "192.168.77.114");
    assert!(scene.report().await.applied, "the rest goes on");
    scene.edit("nodes.yaml", "bridge: wrong", "bridge: br0\n  recordDenied: true");
    scene.step().await.expect("reached");
    assert!(scene.switch.state().node.as_ref().is_some_and(|node| node.record_denied));
}

#[tokio::test]
async fn no_switch_is_an_error_that_names_the_socket() {
    let mut driver = Driver::new(Path::new("/nonexistent/vswitch.sock"), Options::default());
    let scene = Scene::new(Options::default(), &[]).await;
    let error = driver.step(scene.agent.projection(), Standing::Known).await.expect_err("nobody is there");
    assert!(error.to_string().contains("\"/nonexistent/vswitch.sock\": "), "{error}");
}

#[tokio::test]
async fn who_knows_too_little_does_not_touch_a_switch_on_which_packets_pass() {
    let mut scene = Scene::new(Options::default(), &[]).await;
    let path = scene.path("policies.yaml");
    let right = std::fs::read_to_string(&path).expect("readable");
    std::fs::write(&path, "kind: [").expect("written");
    scene.begin_anew();
    scene.switch.state().gate_open = true;
    for _ in 0..2 {
        assert!(scene.step().await.expect("reached").is_none());
    }
    {
        let state = scene.switch.state();
        assert!(state.node.is_none() && state.syncs.is_empty() && state.increments.is_empty());
    }
    // Somebody opens the gate of one that was told a part.
    scene.switch.state().gate_open = false;
    assert!(!scene.report().await.was_sync);
    scene.switch.state().gate_open = true;
    tokio::time::sleep(Duration::from_millis(2100)).await;
    scene.edit("egresses.yaml", "192.168.77.112", "192.168.77.114");
    assert!(scene.step().await.expect("reached").is_none());
    assert_eq!(scene.switch.state().increments.len(), 1);

    std::fs::write(&path, right).expect("written");
    scene.scan();
    let report = scene.report().await;
    assert!(report.was_sync && report.applied && report.gate_open);
    // What comes now, and is wrong, was not told by anybody: the rest goes on.
    std::fs::write(scene.path("new.yaml"), "kind: [").expect("written");
    scene.scan();
    assert_eq!(scene.agent.standing(), Standing::Blind);
    scene.edit("egresses.yaml", "192.168.77.114", "192.168.77.115");
    let report = scene.report().await;
    assert!(!report.was_sync && report.applied);
    // So it does after the connection was lost.
    scene.switch.restart().await;
    scene.switch.state().gate_open = true;
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let report = match scene.step().await {
        // The old connection's end was noticed first
        Err(DriveError::Unreachable { .. }) => scene.report().await,
        result => result.expect("reached").expect("all that is known"),
    };
    assert!(!report.was_sync && report.applied);
    scene.edit("egresses.yaml", "192.168.77.115", "192.168.77.116");
    assert!(scene.report().await.applied);
}

#[tokio::test]
async fn who_was_refused_as_a_whole_and_knows_too_little_then_writes_nothing() {
    let mut scene = Scene::new(Options { is_strict: true, opens_anyway: false }, &[]).await;
    scene.switch.state().gate_open = true;
    scene.switch.state().refused.insert((Kind::Pod as i32, "default/db".to_owned()));
    scene.driver =
        Driver::new(scene.switch.socket(), Options { is_strict: true, opens_anyway: false }).retrying(Duration::ZERO);
    assert!(!scene.report().await.applied);
    std::fs::write(scene.path("new.yaml"), "kind: [").expect("written");
    scene.scan();
    assert!(scene.step().await.expect("reached").is_none());
    assert!(scene.switch.state().increments.is_empty());
}

#[tokio::test]
async fn strict_takes_nothing_away_alone() {
    let mut scene = Scene::new(Options { is_strict: true, opens_anyway: false }, &[]).await;
    assert!(scene.report().await.applied);
    scene.switch.state().refused.insert((Kind::Pod as i32, "default/db".to_owned()));
    scene.edit("pods.yaml", "db-755c6-5080e3", "db-another");
    scene.edit("traffic-controls.yaml", "name: mirror-db-to-local", "name: mirror-db-too");
    let report = scene.report().await;
    assert!(!report.applied && !report.was_sync && report.is_refused());
    assert_eq!(scene.switch.state().increments[0].remove.len(), 1);
    assert!(scene.step().await.expect("reached").is_none(), "the removal does not go alone");

    scene.edit("egresses.yaml", "192.168.77.112", "192.168.77.114");
    let report = scene.report().await;
    assert!(!report.applied && report.was_sync, "all or nothing: {report:?}");
    assert!(scene.step().await.expect("reached").is_none(), "not each second");
    {
        let state = scene.switch.state();
        assert_eq!((state.increments.len(), state.syncs.len()), (1, 2));
    }

    scene.switch.state().refused.clear();
    scene.edit("egresses.yaml", "192.168.77.114", "192.168.77.115");
    let report = scene.report().await;
    assert!(report.applied && report.was_sync);
    scene.edit("egresses.yaml", "192.168.77.115", "192.168.77.116");
    assert!(!scene.report().await.was_sync, "it is not behind any more");
}

#[tokio::test]
async fn strict_applies_the_rest_as_soon_as_what_was_refused_is_gone() {
    let mut scene = Scene::new(Options { is_strict: true, opens_anyway: false }, &[]).await;
    assert!(scene.report().await.applied);
    scene.switch.state().refused.insert((Kind::Service as i32, "default/bad".to_owned()));
    let service = |name: &str, last: u8| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{clusterIPs: [10.96.9.{last}], ports: [{{port: 80}}]}}\n"
        )
    };
    std::fs::write(scene.path("good.yaml"), service("good", 1)).expect("written");
    std::fs::write(scene.path("bad.yaml"), service("bad", 2)).expect("written");
    scene.scan();
    assert!(!scene.report().await.applied);
    assert!(scene.step().await.expect("reached").is_none(), "not each second");
    std::fs::remove_file(scene.path("bad.yaml")).expect("removed");
    scene.scan();
    let report = scene.report().await;
    assert!(report.applied && report.was_sync, "{report:?}");
    assert!(scene.step().await.expect("reached").is_none());
}

#[tokio::test]
async fn an_object_whose_other_form_was_refused_goes_at_once() {
    for is_strict in [false, true] {
        let mut scene = Scene::new(Options { is_strict, opens_anyway: false }, &[]).await;
        let service = |last: u8| {
            format!(
                "apiVersion: v1\nkind: Service\nmetadata: {{name: odd}}\nspec: {{clusterIPs: [10.96.9.{last}], ports: [{{port: 80}}]}}\n"
            )
        };
        std::fs::write(scene.path("odd.yaml"), service(1)).expect("written");
        scene.scan();
        assert!(scene.report().await.applied);
        scene.switch.state().refused.insert((Kind::Service as i32, "default/odd".to_owned()));
        scene.edit("odd.yaml", "10.96.9.1", "10.96.9.2");
        assert!(scene.report().await.is_refused());
        scene.switch.state().refused.clear();
        std::fs::remove_file(scene.path("odd.yaml")).expect("removed");
        scene.scan();
        let report = scene.report().await;
        assert!(report.applied && !report.is_refused(), "strict: {is_strict}: {report:?}");
        let state = scene.switch.state();
        let removed =
            state.increments.iter().flat_map(|request| &request.remove).any(|gone| gone.name == "default/odd");
        let synced = state.syncs.len() > 1;
        assert!(if is_strict { synced } else { removed }, "strict: {is_strict}");
    }
}

#[tokio::test]
async fn what_was_refused_is_tried_again_while_other_things_change() {
    let mut scene = Scene::new(Options::default(), &[]).await;
    scene.driver = Driver::new(scene.switch.socket(), Options::default()).retrying(Duration::from_millis(500));
    scene.report().await;
    scene.switch.state().refused.insert((Kind::Egress as i32, "egress-web".to_owned()));
    scene.edit("egresses.yaml", "192.168.77.112", "192.168.77.114");
    assert!(scene.report().await.is_refused());
    let mut last = 113;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        scene.edit("egresses.yaml", &format!("192.168.77.{last}"), &format!("192.168.77.{}", last + 10));
        last += 10;
        scene.report().await;
    }
    let state = scene.switch.state();
    let again =
        |request: &ApplyObjectsRequest| kinds_and_names(&request.objects).contains(&"Egress egress-web".to_owned());
    assert!(state.increments[1..].iter().any(again), "{:?}", state.increments.len());
}

#[tokio::test]
async fn what_was_refused_from_its_first_form_on_goes_with_its_document() {
    let mut scene = Scene::new(Options::default(), &[]).await;
    assert!(scene.report().await.gate_open);
    let policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: t, namespace: default}\nspec: {podSelector: {}}\n";
    let key = (Kind::NetworkPolicy as i32, "np:default/t".to_owned());
    scene.switch.state().refused.insert(key.clone());
    scene.write("t.yaml", policy);
    assert!(scene.report().await.is_refused());
    assert!(scene.step().await.expect("reached").is_none(), "not each second");
    std::fs::remove_file(scene.path("t.yaml")).expect("removed");
    scene.scan();
    let report = scene.report().await;
    assert!(report.is_refused(), "the switch does not let it go: {report:?}");
    let place = format!("{}:1 NetworkPolicy default/t", scene.path("t.yaml").display());
    assert!(crate::common::lines(&report.problems).iter().all(|line| line.starts_with(&place)), "{report:?}");
    assert!(scene.step().await.expect("reached").is_none(), "not each second");
    scene.switch.state().refused.clear();
    scene.driver = std::mem::replace(&mut scene.driver, Driver::new(scene.switch.socket(), Options::default()))
        .retrying(Duration::ZERO);
    assert!(!scene.report().await.is_refused());
    assert!(scene.step().await.expect("reached").is_none(), "it is gone");
    let state = scene.switch.state();
    let last = &state.increments.last().expect("one").remove;
    assert!(last.iter().any(|gone| (gone.kind, gone.name.clone()) == key), "{last:?}");
}
