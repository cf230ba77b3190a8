//! A Node that the switch does not take as it is.

use crate::scene::Scene;
use std::time::Duration;
use vswitch_agent::drive::{DriveError, Driver, Options, Report};
use vswitch_proto::antrea::v1;

#[tokio::test]
async fn a_feature_whose_port_is_not_there_yet_is_off_and_nothing_else() {
    let mut scene = Scene::new(Options::default(), &[]).await;
    scene.driver = Driver::new(scene.switch.socket(), Options::default()).retrying(Duration::ZERO);
    scene.switch.state().lacks_l7 = true;
    let whole = scene.agent.projection().node.clone().expect("a Node").0;
    let has_l7 = |scene: &Scene| {
        let node = scene.switch.state().node.clone().expect("it was told");
        assert_eq!(v1::NodeConfig { l7: whole.l7.clone(), features: whole.features, ..node.clone() }, whole);
        (node.l7.is_some(), node.features.is_some_and(|features| features.l7_network_policy))
    };
    let told = |report: &Report| report.problems.iter().any(|problem| problem.field == "node.l7.target");
    let report = scene.report().await;
    assert!(report.was_sync && report.gate_open && report.is_refused() && told(&report), "{report:?}");
    assert_eq!(has_l7(&scene), (false, false));
    // It stays so, is told, and comes when the port is there.
    assert!(told(&scene.report().await));
    scene.switch.state().lacks_l7 = false;
    while scene.step().await.expect("the switch answers").is_some() {}
    assert_eq!(has_l7(&scene), (true, true));
    // It was right: the Node stays what it is, and another agent goes on with it.
    scene.switch.state().lacks_l7 = true;
    scene.edit("nodes.yaml", "bridge: br0\n", "bridge: br0\n  recordDenied: true\n");
    assert!(told(&scene.report().await));
    assert_eq!(has_l7(&scene), (true, true));
    scene.driver = Driver::new(scene.switch.socket(), Options::default());
    let report = scene.report().await;
    assert!(report.was_sync && told(&report), "{report:?}");
    assert_eq!(has_l7(&scene), (true, true));
    // With --strict one wrong thing stops all.
    let mut strict = Scene::new(Options { is_strict: true, ..Options::default() }, &[]).await;
    strict.switch.state().lacks_l7 = true;
    assert!(matches!(strict.step().await, Err(DriveError::Node(_))));
    assert!(strict.switch.state().node.is_none());
}
