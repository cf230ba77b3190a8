//! What stands for wrong policies is understood by the switch: each object of it is applied, and
//! becomes flows.

use crate::common::{lines, pods, projected};
use std::collections::BTreeMap;
use vswitch_agent::project::Projection;
use vswitch_antrea::{NodeState, Ports, Table, Write};
use vswitch_flow::spec::{FlowSpec, Update};
use vswitch_proto::antrea::v1::ObjectOutcome;
use vswitch_proto::antrea::v1::object::Object;

/// Ports that Pods and TrafficControls name, and those of the Node.
fn ports(projection: &Projection) -> Ports {
    let mut names = vec![
        "antrea-tun0".to_owned(),
        "antrea-gw0".to_owned(),
        "antrea-l7-tap0".to_owned(),
        "antrea-l7-tap1".to_owned(),
    ];
    for projected in projection.objects.values() {
        match &projected.object.object {
            Some(Object::Pod(pod)) => names.push(pod.port.clone()),
            Some(Object::TrafficControl(control)) => names.push(control.target_port.clone()),
            _ => {}
        }
    }
    let numbered: BTreeMap<String, u32> = names.into_iter().zip(1..).collect();
    numbered.into_iter().collect()
}

/// Outcomes of all objects but good ones, of a switch that is told a projection.
fn told(projection: &Projection) -> (NodeState, Vec<String>) {
    let mut node_state = NodeState::default();
    node_state.set_ports(ports(projection));
    let (node, _) = projection.node.as_ref().expect("the Node is among the cluster's");
    let plan = node_state.plan_node(node).expect("a good Node");
    node_state.settle(plan);
    let objects = projection.objects.values().filter_map(|projected| projected.object.object.clone()).collect();
    let plan = node_state.plan(Write { objects, ..Write::default() });
    let refused = plan.result.statuses.iter().filter(|status| status.outcome() == ObjectOutcome::Refused);
    let refused = refused.map(|status| format!("{status:?}")).collect();
    node_state.settle(plan);
    (node_state, refused)
}

#[test]
fn what_stands_for_wrong_policies_is_applied_and_drops() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {type: NodePort, clusterIP: 10.96.0.9, selector: {app: web}, \
                   ports: [{port: 80, nodePort: 30080}]}\n---\n";
    let cluster = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\nspec: ";
    let antrea = "apiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: a}\nspec: ";
    let k8s = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: a}\nspec: ";
    let of_service = "appliedTo: [{service: {namespace: a, name: s}}]";
    let antrea_ingress = "AntreaPolicyIngressRule";
    for (policy, table) in [
        (format!("{k8s}{{podSelector: {{}}, x: y}}\n"), "IngressDefaultRule"),
        (format!("{k8s}{{podSelector: {{}}, policyTypes: [Egress], x: y}}\n"), "EgressDefaultRule"),
        (format!("{antrea}{{priority: 1, appliedTo: [{{podSelector: {{}}}}], x: y}}\n"), antrea_ingress),
        (format!("{cluster}{{priority: x, appliedTo: [{{podSelector: {{}}}}]}}\n"), "AntreaPolicyEgressRule"),
        (
            format!("{cluster}{{priority: 1, appliedTo: [{{podSelector: {{}}}}], ingress: [{{action: Deny}}]}}\n"),
            antrea_ingress,
        ),
        (format!("{cluster}{{priority: 1, {of_service}, ingress: [{{action: Deny}}]}}\n"), antrea_ingress),
        // A text that may be a policy.
        (format!("|\n {}\n", k8s.replace('\n', "\n ")), "IngressDefaultRule"),
        (format!("|\n {}\n", cluster.replace('\n', "\n ")), antrea_ingress),
        (format!("|\n {}\n", cluster.replace('\n', "\n ")), "AntreaPolicyEgressRule"),
        (format!("{cluster}{{priority: 1, {of_service}, ingress: [{{action: Drop}}], x: y}}\n"), antrea_ingress),
    ] {
        let (projection, problems) = projected(&format!("{service}{policy}{}", pods()));
        let (node_state, refused) = told(&projection);
        assert_eq!(refused, [""; 0], "{policy}: {:?}", lines(&problems));
        let (before, _) = told(&projected(&format!("{service}{}", pods())).0);
        assert!(flows(&node_state, table) > flows(&before, table), "{policy} has no flows in {table}");
    }
}

/// Flows of a table.
fn flows(node_state: &NodeState, table: &str) -> usize {
    let is_of = |flow: &FlowSpec| Table::by_number(flow.table).is_some_and(|of| of.name() == table);
    let all = node_state.store().everything();
    all.iter().filter(|update| matches!(update, Update::AddFlow(flow) if is_of(flow))).count()
}

#[test]
fn what_two_policies_of_one_name_deny_is_applied() {
    let policy = |spec: &str| {
        let head = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\n";
        format!("{head}spec: {{{spec}, appliedTo: [{{podSelector: {{}}}}]}}\n---\n")
    };
    let drops = policy("priority: 7, ingress: [{action: Drop, from: [{ipBlock: {cidr: 10.9.0.0/16}}]}]");
    for place in ["priority: 1", "priority: 5", "priority: 1, tier: baseline", "priority: 9, tier: emergency"] {
        let allows = policy(&format!("{place}, ingress: [{{action: Allow}}]"));
        let (both, problems) = projected(&format!("{allows}{drops}{}", pods()));
        let (node_state, refused) = told(&both);
        assert_eq!(refused, [""; 0], "{place}: {:?}", lines(&problems));
        let (alone, _) = told(&projected(&format!("{allows}{}", pods())).0);
        assert!(flows(&node_state, "AntreaPolicyIngressRule") > flows(&alone, "AntreaPolicyIngressRule"), "{place}");
    }
}
