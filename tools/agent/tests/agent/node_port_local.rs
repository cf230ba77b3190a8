//! NodePortLocal: Services ask for ports of the Node for ports of Pods.

use crate::common::{NODE, lines, object};
use crate::dual::Scene;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{self, Kind};

const POD: &str = "apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: prod, labels: {app: npl}, annotations: {vswitch/port: NAME, vswitch/mac: '02:00:00:00:00:LAST'}}
spec: {nodeName: NODE, containers: [{ports: [{name: http, containerPort: 8080}]}]}
status: {podIPs: [{ip: 10.10.0.LAST}, {ip: 'fd00:10:10::LAST'}]}
---
";

fn pod(name: &str, last: u8) -> String {
    POD.replace("NODE", NODE).replace("NAME", name).replace("LAST", &last.to_string())
}

fn service(name: &str, more: &str, ports: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: prod, annotations: \
         {{nodeportlocal.antrea.io/enabled: 'true'}}}}\nspec: {{clusterIPs: [10.96.7.7], selector: {{app: npl}}{more}, \
         ports: [{ports}]}}\n---\n"
    )
}

/// A Node that has NodePortLocal.
fn scene(documents: &[&str]) -> Scene {
    Scene::of("features:\n", "nodePortLocal: {enable: true, portRange: 61000-61001}\n  features:\n", documents)
}

fn served(scene: &Scene, pod: &str) -> Option<v1::Service> {
    let name = format!("prod/{pod}@nodeportlocal");
    scene.has(Kind::Service, &name).then(|| match object(scene.projection(), Kind::Service, &name) {
        Object::Service(service) => service.clone(),
        other => panic!("{other:?}"),
    })
}

fn endpoints(scene: &Scene, name: &str) -> Vec<(String, u32)> {
    let Object::Endpoints(set) = object(scene.projection(), Kind::Endpoints, name) else { panic!("endpoints") };
    set.endpoints.iter().map(|endpoint| (endpoint.address.clone(), endpoint.port)).collect()
}

#[test]
fn each_pod_has_a_service_of_its_own_with_nothing_but_ports_of_the_node() {
    let documents = [
        pod("a", 61),
        pod("b", 62),
        service("s", "", "{name: x, port: 80, targetPort: http}, {name: y, port: 53, targetPort: 5300, protocol: UDP}"),
    ];
    let scene = scene(&[&documents.concat()]);
    let [a, b] =
        ["a", "b"].map(|name| served(&scene, name).unwrap_or_else(|| panic!("{:#?}", lines(scene.1.problems()))));
    assert!(a.cluster_ips.is_empty() && a.external_traffic_policy() == v1::TrafficPolicy::Local);
    let ports =
        |service: &v1::Service| service.ports.iter().map(|port| (port.name.clone(), port.port)).collect::<Vec<_>>();
    assert_eq!(ports(&a), [("udp-5300".to_owned(), 5300), ("tcp-8080".to_owned(), 8080)]);
    let taken = |at: usize| [a.ports[at].node_port, b.ports[at].node_port];
    for at in [0, 1] {
        let mut taken = taken(at);
        taken.sort_unstable();
        assert_eq!(taken, [61000, 61001], "one each, of each protocol");
    }
    let own = |last: u8, port: u32| vec![(format!("10.10.0.{last}"), port), (format!("fd00:10:10::{last}"), port)];
    assert_eq!(endpoints(&scene, "prod/a@nodeportlocal:tcp-8080"), own(61, 8080));
    assert_eq!(endpoints(&scene, "prod/b@nodeportlocal:udp-5300"), own(62, 5300));
    let text = scene.projection().annotations["prod/a"].text.clone().expect("an annotation");
    assert!(
        text.contains(r#""podPort":8080,"nodeIP":"192.168.77.102""#) && text.contains(r#""protocol":"udp""#),
        "{text}"
    );
}

#[test]
fn a_range_that_is_full_and_a_node_port_in_it_are_told() {
    let pods = [pod("a", 61), pod("b", 62), pod("c", 63)].concat();
    let asked = service("s", "", "{port: 80}");
    let mut scene = scene(&[&pods, &asked]);
    let without = |scene: &Scene| ["a", "b", "c"].into_iter().filter(|name| served(scene, name).is_none()).count();
    assert_eq!(without(&scene), 1);
    assert_eq!(scene.errors("no port of 61000-61001 is free for port 80").len(), 1);
    // A NodePort of the range goes first; whose it was is told.
    let real = "apiVersion: v1\nkind: Service\nmetadata: {name: real, namespace: prod}\nspec: {type: NodePort, clusterIPs: \
                [10.96.7.8], selector: {app: npl}, ports: [{port: 80, nodePort: 61001}]}\n";
    scene.write("2.yaml", real);
    assert_eq!(without(&scene), 2);
    let told = lines(scene.1.problems());
    let moved = told.iter().filter(|line| line.contains("port 61001 of the Node is Service prod/real's now"));
    assert_eq!(moved.count(), 1, "{told:?}");
}

#[test]
fn services_that_cannot_ask_and_nodes_that_do_not_have_it() {
    let pods = pod("a", 61);
    for (more, ports, reason) in [
        (", type: NodePort", "{port: 80}", "a Service of type NodePort has ports of all Nodes"),
        ("", "{port: 80, protocol: SCTP}", "no ports of Nodes for SCTP"),
    ] {
        let scene = scene(&[&pods, &service("s", more, ports)]);
        assert_eq!(served(&scene, "a"), None, "{reason}");
        let told = lines(scene.1.problems());
        assert_eq!(told.iter().filter(|line| line.contains(reason)).count(), 1, "{told:?}");
    }
    let asked = service("s", "", "{port: 80}");
    let off = Scene::new(&[&pods, &asked]);
    assert!(served(&off, "a").is_none() && off.projection().annotations.is_empty());
    let wrong =
        Scene::of("features:\n", "nodePortLocal: {enable: true, portRange: 5-6}\n  features:\n", &[&pods, &asked]);
    assert_eq!(wrong.errors("spec.nodePortLocal.portRange").len(), 1);
    let other = pods.replace(NODE, "worker-1");
    assert_eq!(served(&scene(&[&other, &asked]), "a"), None, "a Pod of another Node");
}
