//! Limits of Pods, by annotations.

use crate::common::{NODE, lines};
use crate::dual::Scene;
use vswitch_proto::antrea::v1::PodBandwidth;

fn pod(annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: prod, annotations: \
         {{vswitch/port: pp, vswitch/mac: '02:00:00:00:00:77'{annotations}}}}}\nspec: {{nodeName: {NODE}}}\n\
         status: {{podIPs: [{{ip: 10.10.0.77}}]}}\n"
    )
}

fn limits(scene: &Scene) -> [Option<u32>; 2] {
    let pod = scene.pod("prod/p");
    [pod.ingress_bandwidth, pod.egress_bandwidth].map(|limit| limit.map(|limit| limit.rate_kbps))
}

#[test]
fn annotations_are_limits_and_may_change() {
    let both = ", kubernetes.io/ingress-bandwidth: 10M, kubernetes.io/egress-bandwidth: 1.5Gi";
    let mut scene = Scene::new(&[&pod(both)]);
    assert_eq!(limits(&scene), [Some(10_000), Some(1_610_612)]);
    let chosen = scene.pod("prod/p").ingress_bandwidth;
    assert_eq!(chosen, Some(PodBandwidth { rate_kbps: 10_000, burst_kb: 0 }), "the switch chooses the burst");
    for (text, expected) in [
        (", kubernetes.io/ingress-bandwidth: 1k", [Some(1), None]),
        (", kubernetes.io/egress-bandwidth: 1P", [None, Some(u32::MAX)]),
        ("", [None, None]),
    ] {
        scene.write("0.yaml", &pod(text));
        assert_eq!(limits(&scene), expected, "{text}");
    }
}

/// The Pod is what it is without limits.
#[test]
fn what_is_no_limit_is_told_and_limits_nothing() {
    let without = Scene::new(&[&pod("")]).pod("prod/p");
    for text in ["999", "2P", "fast", "-5M", "''", "10 M", "0", "1e999"] {
        let scene = Scene::new(&[&pod(&format!(", kubernetes.io/egress-bandwidth: {text:?}"))]);
        assert_eq!(scene.pod("prod/p"), without, "{text}");
        let told = scene.errors("Pod prod/p: metadata.annotations[kubernetes.io/egress-bandwidth]: ");
        assert_eq!(told.len(), 1, "{text}: {told:?}");
    }
}

/// Pods of other Nodes have theirs there.
#[test]
fn the_limit_of_another_nodes_pod_is_not_looked_at() {
    let text = pod(", kubernetes.io/egress-bandwidth: fast").replace(NODE, "worker-1");
    let scene = Scene::new(&[&text]);
    assert_eq!(lines(scene.1.problems()).iter().filter(|line| line.contains("bandwidth")).count(), 0);
}
