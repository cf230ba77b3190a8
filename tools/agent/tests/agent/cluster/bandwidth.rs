//! Limits of Pods by annotations in a cluster.

use super::scene::{Running, Scene};
use crate::common::NODE;
use vswitch_proto::antrea::v1::object::Object;

fn pod(annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: default, annotations: \
         {{vswitch/port: pp, vswitch/mac: '02:00:00:00:00:77'{annotations}}}}}\n\
         spec: {{nodeName: {NODE}, containers: [{{name: c, image: registry.example/c}}]}}\n\
         status: {{podIPs: [{{ip: 10.10.0.77}}]}}\n"
    )
}

/// Rates to the Pod and from it; None: the switch is told of no Pod.
fn rates(running: &Running) -> Option<[Option<u32>; 2]> {
    running.agent.projection().objects.values().find_map(|projected| match &projected.object.object {
        Some(Object::Pod(pod)) => {
            Some([pod.ingress_bandwidth, pod.egress_bandwidth].map(|limit| limit.map(|limit| limit.rate_kbps)))
        }
        _ => None,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_come_change_and_go_with_the_annotations() {
    let scene = Scene::new();
    scene.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n");
    let mut running = scene.place.agent(false).await;
    running.known().await;
    for (annotations, expected) in [
        ("", [None, None]),
        (", kubernetes.io/ingress-bandwidth: 10M, kubernetes.io/egress-bandwidth: 1G", [Some(10_000), Some(1_000_000)]),
        (", kubernetes.io/ingress-bandwidth: 20M", [Some(20_000), None]),
        (", kubernetes.io/ingress-bandwidth: fast, kubernetes.io/egress-bandwidth: 5M", [None, Some(5_000)]),
    ] {
        scene.apply(&pod(annotations));
        let is_there = running.until(|running| rates(running) == Some(expected)).await;
        assert!(is_there, "{annotations}: {:?}, {:?}", rates(&running), running.lines());
        let told = running.lines().iter().filter(|line| line.contains("ingress-bandwidth]: \"fast\"")).count();
        assert_eq!(told, usize::from(annotations.contains("fast")), "{:?}", running.lines());
    }
}
