//! The order of documents and files does not matter.

use crate::common::{NODE, read};
use proptest::prelude::*;
use vswitch_agent::model::Model;
use vswitch_agent::project::{project, text};

fn labels() -> impl Strategy<Value = String> {
    let (key, value) = (prop::sample::select(vec!["app", "env"]), prop::sample::select(vec!["a", "b", "c"]));
    prop::collection::btree_map(key, value, 0..3)
        .prop_map(|labels| labels.iter().map(|(key, value)| format!("{key}: {value}")).collect::<Vec<_>>().join(", "))
}

fn namespace() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["default", "x", "y"])
}

fn pods() -> impl Strategy<Value = Vec<String>> {
    let pod = (namespace(), labels(), prop::sample::select(vec![NODE, "other"]), prop::bool::ANY, 8000..8003_u16);
    prop::collection::vec(pod, 0..12).prop_map(|pods| {
        let pods = pods.into_iter().enumerate();
        pods.map(|(i, (namespace, labels, node, is_ready, port))| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: p{i}, namespace: {namespace}, labels: {{{labels}}}, \
                 annotations: {{vswitch/port: port{i}, vswitch/mac: '02:00:00:00:00:{i:02x}'}}}}\n\
                 spec: {{nodeName: {node}, containers: [{{name: c, ports: [{{name: http, containerPort: {port}}}]}}]}}\n\
                 status: {{podIP: 10.0.0.{}, conditions: [{{type: Ready, status: '{}'}}]}}\n",
                i + 1,
                if is_ready { "True" } else { "False" }
            )
        })
        .collect()
    })
}

fn policies() -> impl Strategy<Value = Vec<String>> {
    let peer = (prop::bool::ANY, labels(), labels()).prop_map(|(both, pods, spaces)| {
        let spaces = if both { format!("namespaceSelector: {{matchLabels: {{{spaces}}}}}, ") } else { String::new() };
        format!("{{{spaces}podSelector: {{matchLabels: {{{pods}}}}}}}")
    });
    let port =
        prop::sample::select(vec!["[]", "[{port: http}]", "[{port: 80}, {port: http}]", "[{protocol: UDP, port: 53}]"]);
    let policy =
        (namespace(), labels(), prop::collection::vec(peer, 0..3), port, prop::sample::select(vec!["K8s", "Cluster"]));
    prop::collection::vec(policy, 0..6).prop_map(|policies| {
        let policies = policies.into_iter().enumerate();
        policies.map(|(i, (namespace, applied, peers, ports, kind))| {
            let peers = peers.join(", ");
            if kind == "K8s" {
                format!(
                    "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: n{i}, namespace: {namespace}}}\n\
                     spec: {{podSelector: {{matchLabels: {{{applied}}}}}, ingress: [{{from: [{peers}], ports: {ports}}}], egress: [{{to: [{peers}], ports: {ports}}}]}}\n"
                )
            } else {
                format!(
                    "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {{name: n{i}}}\n\
                     spec: {{priority: {}, appliedTo: [{{podSelector: {{matchLabels: {{{applied}}}}}}}], \
                     ingress: [{{action: Drop, from: [{{namespaces: {{match: Self}}}}, {peers}], ports: {ports}}}], egress: [{{action: Allow, to: [{peers}], ports: {ports}}}]}}\n",
                    i + 1
                )
            }
        })
        .collect()
    })
}

fn others() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec((namespace(), labels()), 0..4).prop_map(|all| {
        let mut documents = Vec::new();
        for (i, (namespace, labels)) in all.into_iter().enumerate() {
            documents.push(format!(
                "apiVersion: v1\nkind: Service\nmetadata: {{name: s{i}, namespace: {namespace}}}\n\
                 spec: {{clusterIP: 10.96.0.{}, selector: {{{labels}}}, ports: [{{port: 80, targetPort: http}}]}}\n",
                i + 1
            ));
            documents.push(format!(
                "apiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {{name: e{i}}}\n\
                 spec: {{appliedTo: {{podSelector: {{matchLabels: {{{labels}}}}}}}, egressIP: 192.168.0.{i}}}\nstatus: {{egressNode: other}}\n"
            ));
        }
        for namespace in ["default", "x", "y"] {
            documents.push(format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}, labels: {{app: a}}}}\n"));
        }
        documents
    })
}

fn told(documents: &[(usize, String)]) -> String {
    let mut all = Vec::new();
    for (file, document) in documents {
        let (documents, problems) = read(&format!("{file}.yaml"), document);
        assert_eq!(problems, [], "{document}");
        all.extend(documents);
    }
    let (model, problems) = Model::new(all);
    assert_eq!(problems, []);
    text(&project(&model, NODE).0, false)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shuffled_documents_are_projected_alike(
        (first, second) in (pods(), policies(), others())
            .prop_map(|(pods, policies, others)| [pods, policies, others].concat().into_iter().enumerate().collect::<Vec<_>>())
            .prop_flat_map(|documents| (Just(documents.clone()), Just(documents).prop_shuffle()))
    ) {
        let renamed: Vec<_> = second.into_iter().enumerate().map(|(file, (_, document))| (file, document)).collect();
        prop_assert_eq!(told(&first), told(&renamed));
    }
}
