//! What documents mean: Services and their endpoints.

use crate::common::{NODE, endpoints, good, lines, object, pods, projected};
use vswitch_agent::project::Projection;
use vswitch_proto::antrea::v1::Kind;
use vswitch_proto::antrea::v1::object::Object;

#[test]
fn endpoints_of_selectors() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\n\
                   spec: {clusterIP: 10.96.0.9, selector: {app: web}, ports: [{name: x, port: 80, targetPort: http}, {name: y, port: 81}]}\n";
    let going = pods().replacen("name: web2,", "name: web2, deletionTimestamp: '2030-01-01T00:00:00Z',", 1);
    let going = going.replace(
        "podIP: 10.10.1.13",
        "podIP: 10.10.1.13, phase: Running, conditions: [{type: Ready, status: 'False'}]",
    );
    let projection = good(&format!("{service}{going}"));
    let expected = [
        "10.10.0.11:8080 k8s-node-control-plane ready,serving",
        "10.10.0.12:9090 k8s-node-control-plane serving,terminating",
        "10.10.1.13:8080 k8s-node-worker-1 ",
    ];
    assert_eq!(endpoints(&projection, "a/s:x"), expected);
    assert_eq!(endpoints(&projection, "a/s:y")[0], "10.10.0.11:81 k8s-node-control-plane ready,serving");
}

#[test]
fn endpoints_of_slices() {
    let slice = |name: &str, kind: &str, endpoints: &str| {
        format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: {name}, namespace: a, labels: {{kubernetes.io/service-name: s}}}}\n\
             addressType: {kind}\nports: [{{name: x, port: 8080, protocol: TCP}}, {{name: other, port: 1}}]\nendpoints: [{endpoints}]\n"
        )
    };
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\n\
                   spec: {clusterIPs: [10.96.0.9], selector: {app: web}, ports: [{name: x, port: 80}, {name: y, port: 81}]}\n";
    let more = [
        slice(
            "s1",
            "IPv4",
            "{addresses: [10.0.0.1], nodeName: n, conditions: {}}, {addresses: [10.0.0.2], conditions: {ready: false, serving: true, terminating: true}}",
        ),
        slice("s2", "IPv6", "{addresses: ['fd00::1']}"),
        slice("s3", "FQDN", "{addresses: [a.b]}"),
        pods(),
    ];
    let projection = good(&format!("{service}{}", more.concat()));
    assert_eq!(
        endpoints(&projection, "a/s:x"),
        ["10.0.0.1:8080 n ready,serving", "10.0.0.2:8080  serving,terminating"]
    );
    assert_eq!(endpoints(&projection, "a/s:y"), [""; 0], "no slice has this port");
}

#[test]
fn slices_of_no_service() {
    let slice = |labels: &str| {
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: e\n  namespace: a\n  {labels}\naddressType: IPv4\nendpoints: []\n"
        )
    };
    let place = "EndpointSlice a/e: metadata.labels[kubernetes.io/service-name]: ";
    let hint = "; name a Service of its namespace, or take it away";
    for (labels, reason) in [
        ("labels: {kubernetes.io/service-name: s}", "there is no Service a/s: its endpoints are nobody's"),
        ("labels: {}", "is not given: its endpoints are no Service's"),
    ] {
        let (_, problems) = projected(&slice(labels));
        assert_eq!(lines(&problems), [format!("test.yaml:1 {place}{reason}{hint}")]);
        assert!(problems.iter().all(|problem| !problem.is_error()), "it is odd, and holds up nothing");
    }
}

#[test]
fn weights_of_slices() {
    for (given, expected) in [("'7'", 7), ("'65535'", 65_535), ("'0'", 0), ("'65536'", 0), ("x", 0)] {
        let text = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: s, namespace: a}}\nspec: {{clusterIP: 10.96.0.9, ports: [{{name: x, port: 80}}, {{name: y, port: 81}}]}}\n---\n\
             apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\nports: [{{name: x, port: 80}}, {{name: y, port: 81}}]\nendpoints: [{{addresses: [10.0.0.1]}}]\n\
             metadata: {{name: e, namespace: a, labels: {{kubernetes.io/service-name: s}}, annotations: {{vswitch/weight: {given}}}}}\n"
        );
        let (projection, problems) = projected(&text);
        for port in ["x", "y"] {
            let Object::Endpoints(set) = object(&projection, Kind::Endpoints, &format!("a/s:{port}")) else {
                panic!("Endpoints")
            };
            assert_eq!(set.endpoints.iter().map(|endpoint| endpoint.weight).collect::<Vec<_>>(), [expected], "{given}");
        }
        let lines = lines(&problems);
        let odd = lines.iter().filter(|line| line.contains("metadata.annotations[vswitch/weight]"));
        assert_eq!(odd.count(), usize::from(expected == 0), "once for all ports: {given}: {problems:?}");
    }
}

#[test]
fn services_that_are_not_ours() {
    let outside = "type: LoadBalancer, ports: [{port: 80, nodePort: 30080}], externalIPs: [192.168.77.9]";
    for (spec, labels, without_proxy_all, with) in [
        ("clusterIP: None, ports: [{port: 80}]", "", 0, 0),
        ("type: ExternalName, externalName: a.b", "", 0, 0),
        ("clusterIP: 10.96.0.1, ports: [{port: 80}]", "service.kubernetes.io/service-proxy-name: x", 0, 0),
        ("ports: [{port: 80}]", "", 0, 0),
        (outside, "", 0, 1),
        ("clusterIP: 10.96.0.1, ports: [{port: 80, nodePort: 30080}], externalIPs: [192.168.77.9]", "", 1, 1),
    ] {
        let text =
            format!("apiVersion: v1\nkind: Service\nmetadata: {{name: s, labels: {{{labels}}}}}\nspec: {{{spec}}}\n");
        let count = |projection: &Projection| {
            projection.objects.keys().filter(|(kind, _)| *kind == Kind::Service as i32).count()
        };
        assert_eq!(count(&good(&text)), with, "{spec}");
        let nodes = crate::common::files().into_iter().find(|(name, _)| name == "nodes.yaml").expect("nodes").1;
        let (mut documents, _) = crate::common::read("test.yaml", &text);
        documents.extend(crate::common::read("nodes.yaml", &nodes.replace("proxyAll: true", "proxyAll: false")).0);
        let (model, _) = vswitch_agent::model::Model::new(documents);
        let (projection, _) = vswitch_agent::project::project(&model, NODE);
        assert_eq!(count(&projection), without_proxy_all, "{spec}");
        for projected in projection.objects.values() {
            if let Some(Object::Service(service)) = &projected.object.object {
                assert!(service.external_ips.is_empty() && service.ports[0].node_port == 0, "{service:?}");
            }
        }
    }
}

#[test]
fn sources_of_load_balancers() {
    for (ranges, expected, vips) in [
        ("[10.1.2.3/8, ' 10.0.0.0/8', 'fd00::/8', 1.0.0.0/8]", &["1.0.0.0/8", "10.0.0.0/8"][..], 1),
        ("['fd00::/8']", &[], 0),
        ("[]", &[], 1),
    ] {
        let text = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\n\
             spec: {{type: LoadBalancer, clusterIP: 10.96.0.1, ports: [{{port: 80}}], loadBalancerSourceRanges: {ranges}}}\n\
             status: {{loadBalancer: {{ingress: [{{ip: 192.168.77.9}}]}}}}\n"
        );
        let projection = good(&text);
        let Object::Service(service) = object(&projection, Kind::Service, "default/s") else { panic!("a Service") };
        assert_eq!(service.load_balancer_source_ranges, expected, "{ranges}");
        assert_eq!(
            (service.load_balancer_ips.len(), service.cluster_ips.len()),
            (vips, 1),
            "{ranges}: nobody is not anybody"
        );
    }
}

#[test]
fn egresses_of_nodes_that_are_not_there() {
    for (node, expected) in [("gone", ""), ("k8s-node-worker-1", "k8s-node-worker-1"), (NODE, NODE), ("''", "")] {
        let text = format!(
            "apiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {{name: e}}\n\
             spec: {{egressIP: 192.168.77.20, appliedTo: {{podSelector: {{}}}}}}\nstatus: {{egressNode: {node}}}\n{}",
            pods()
        );
        let (projection, problems) = projected(&text);
        let Object::Egress(egress) = object(&projection, Kind::Egress, "e") else { panic!("an Egress") };
        assert_eq!(egress.node, expected);
        let odd = "test.yaml:5 Egress e: status.egressNode: there is no Node \"gone\" here: nobody has the address yet";
        assert_eq!(lines(&problems).contains(&odd.to_owned()), node == "gone", "{problems:?}");
    }
}
