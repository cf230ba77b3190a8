use super::*;
use crate::kinds::understand;
use crate::source::documents;

const NODES: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {rack: a}}
spec: {podCIDRs: [10.10.1.0/24, 'fd00:10:10:1::/64']}
status: {addresses: [{type: InternalIP, address: 192.0.2.11}, {type: InternalIP, address: 10.1.0.11}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {rack: b}, annotations: {vswitch/mac: '02:00:00:00:00:12'}}
spec: {podCIDRs: [10.10.2.0/24]}
status: {addresses: [{type: InternalIP, address: 192.0.2.12}]}
";

fn config(name: &str, spec: &str) -> String {
    format!("---\napiVersion: vswitch.io/v1\nkind: NodeConfig\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

fn of(node: &str, configs: &[String]) -> Result<Own, Vec<String>> {
    let text = [NODES.to_owned(), configs.concat()].concat();
    let (documents, _) = understand("test.yaml", documents(&text).expect("YAML"));
    let (model, _) = Model::new(documents);
    own(&model, node).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn right(node: &str, configs: &[String]) -> Own {
    of(node, configs).unwrap_or_else(|problems| panic!("{configs:?}: {problems:?}"))
}

#[test]
fn one_object_configures_all_nodes() {
    let all = [config("default", "{}")];
    let (one, two) = (right("n1", &all), right("n2", &all));
    let gateway = |own: &Own| own.spec.gateway.clone().expect("a gateway");
    assert_eq!(gateway(&one).port.as_deref(), Some("antrea-gw0"));
    assert_eq!(gateway(&one).mac.as_deref(), Some("0a:58:0a:0a:01:01"));
    assert_eq!(texts(&gateway(&one).addresses), ["10.10.1.1", "fd00:10:10:1::1"]);
    assert_eq!(gateway(&two).mac.as_deref(), Some("0a:58:0a:0a:02:01"));
    assert_eq!(texts(&one.spec.transport_addresses), ["192.0.2.11/32"]);
    assert_eq!(texts(&two.spec.transport_addresses), ["192.0.2.12/32"]);
    assert_eq!(one.spec.tunnel, Some(PortName { port: "antrea-tun0".to_owned() }));
    assert_eq!(one.spec.bridge.as_deref(), Some("br-int"));
    assert_eq!(two.pod_cidrs(), ["10.10.2.0/24"]);
    assert!(one.odd.is_empty() && two.odd.is_empty());
}

#[test]
fn links_between_nodes_say_which_address_counts_and_its_length() {
    let own = right("n1", &[config("default", "{trafficMode: Hybrid, transportInterfaceCIDRs: [10.1.0.0/16]}")]);
    assert_eq!(texts(&own.spec.transport_addresses), ["10.1.0.11/16"]);
    let own = right("n1", &[config("default", "{trafficMode: NoEncap}")]);
    assert_eq!(own.spec.tunnel, None);
}

#[test]
fn an_uplink_has_the_mac_address_of_the_node() {
    let all = [config("default", "{uplink: {port: up}}")];
    assert_eq!(right("n2", &all).spec.uplink.expect("one").mac.as_deref(), Some("02:00:00:00:00:12"));
    let one = right("n1", &all);
    assert_eq!(one.spec.uplink, None);
    assert!(one.odd[0].to_string().contains("spec.uplink.mac: is absent: there is no uplink"), "{:?}", one.odd);
}

#[test]
fn the_object_of_the_node_overrides_field_by_field() {
    let all = [
        config("default", "{bridge: br0, serviceCIDRs: [10.96.0.0/12], gateway: {port: gw, mac: '02:00:00:00:00:01'}}"),
        config("n1", "{gateway: {port: own}, serviceCIDRs: []}"),
    ];
    let own = right("n1", &all);
    assert_eq!(own.spec.bridge.as_deref(), Some("br0"));
    assert_eq!(own.spec.service_cidrs, Some(Vec::new()));
    let gateway = own.spec.gateway.expect("a gateway");
    // The field counts as a whole: its MAC address is that of this Node's own address.
    assert_eq!((gateway.port.as_deref(), gateway.mac.as_deref()), (Some("own"), Some("0a:58:0a:0a:01:01")));
    assert_eq!(right("n2", &all).spec.gateway.expect("a gateway").port.as_deref(), Some("gw"));
}

#[test]
fn of_several_that_select_a_node_the_first_by_name_counts() {
    let select = |name: &str, rack: &str, bridge: &str| {
        config(name, &format!("{{nodeSelector: {{matchLabels: {{rack: {rack}}}}}, bridge: {bridge}}}"))
    };
    let all = [select("y", "a", "second"), select("x", "a", "first"), config("default", "{bridge: rest}")];
    let own = right("n1", &all);
    assert_eq!(own.spec.bridge.as_deref(), Some("first"));
    assert_eq!(own.odd.len(), 1);
    let told = own.odd[0].to_string();
    assert!(told.contains("NodeConfig y: spec.nodeSelector: selects Node n1, and so does NodeConfig x"), "{told}");
    let rest = right("n2", &all);
    assert_eq!((rest.spec.bridge.as_deref(), rest.odd.len()), (Some("rest"), 0));
    // What is not understood selects nobody.
    for selector in
        ["5", "{matchLabel: {rack: b}}", "{matchLabels: {'a b': c}}", "{matchExpressions: [{key: a, operator: Is}]}"]
    {
        let odd = config("odd", &format!("{{nodeSelector: {selector}, bridge: odd}}"));
        assert_eq!(
            right("n2", &[odd, config("default", "{bridge: rest}")]).spec.bridge.as_deref(),
            Some("rest"),
            "{selector}"
        );
    }
}

#[test]
fn a_node_that_nothing_is_known_of_is_told() {
    for (node, configs, line) in [
        ("n1", vec![], "NodeConfig n1: is not there; name the Node by --node"),
        ("n1", vec![config("n2", "{}")], "NodeConfig n1: is not there"),
        ("new", vec![config("default", "{}")], "NodeConfig default: spec.gateway.mac: is absent"),
        // What is meant for the Node alone is not replaced by what is meant for others.
        ("n1", vec![config("default", "{}"), config("n1", "{bridge: [x]}")], "n1: is not understood"),
    ] {
        let told = of(node, &configs).expect_err("it is not known");
        assert!(told.iter().any(|told| told.contains(line)), "{line}: {told:?}");
    }
}

#[test]
fn files_may_say_the_group_without_a_dot() {
    let old = config("default", "{bridge: old}").replace("vswitch.io/v1", "vswitch/v1");
    assert_eq!(right("n1", &[old]).spec.bridge.as_deref(), Some("old"));
}
