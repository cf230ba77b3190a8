//! One NodeConfig for all Nodes: what is derived for each of them is what the switch takes.

use crate::common::{lines, read};
use vswitch_agent::model::Model;
use vswitch_agent::project::project;
use vswitch_antrea::{NodeState, Ports};

const NODES: &str = "apiVersion: v1
kind: Node
metadata: {name: n1}
spec: {podCIDRs: [10.10.1.0/24, 'fd00:10:10:1::/64']}
status: {addresses: [{type: InternalIP, address: 192.0.2.11}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
spec: {podCIDRs: [10.10.2.0/24]}
status: {addresses: [{type: InternalIP, address: 192.0.2.12}, {type: InternalIP, address: '2001:db8::12'}]}
---
apiVersion: vswitch.io/v1
kind: NodeConfig
metadata: {name: default}
";

#[test]
fn the_switch_takes_what_one_object_says_of_each_node() {
    let mut told = Vec::new();
    for spec in [
        "",
        "spec: {}",
        "spec: {trafficMode: NoEncap}",
        "spec: {trafficMode: Hybrid, transportInterfaceCIDRs: [192.0.2.0/24]}",
    ] {
        let (documents, problems) = read("test.yaml", &format!("{NODES}{spec}\n"));
        assert_eq!(lines(&problems), [""; 0], "{spec}");
        let (model, _) = Model::new(documents);
        for name in ["n1", "n2"] {
            let (projection, problems) = project(&model, name);
            assert_eq!(lines(&problems), [""; 0], "{spec}");
            let (node, origin) = projection.node.expect("the Node is known");
            assert_eq!((node.name.as_str(), &*origin.what), (name, "NodeConfig default"));
            let mut node_state = NodeState::default();
            let ports =
                ["antrea-gw0", "antrea-tun0"].into_iter().zip(1..).map(|(name, number)| (name.to_owned(), number));
            node_state.set_ports(ports.collect::<Ports>());
            assert!(node_state.plan_node(&node).is_ok(), "{spec}: {node:?}");
            told.push(node.gateway.expect("a gateway").mac);
        }
    }
    told.dedup();
    assert_eq!(told.len(), 8, "each Node has a MAC address of its own, whatever the rest is");
}
