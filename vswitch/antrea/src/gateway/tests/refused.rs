//! What is refused: by field, reason and fix.

use super::gateway_of;
use crate::testing::{PORTS, apply, dual_node, node_state, peer};
use crate::{Code, Key, NodeState, ObjectKind, Problem};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

const SHARED: v1::GatewayMode = v1::GatewayMode::Shared;
const LOCAL: v1::GatewayMode = v1::GatewayMode::Local;

/// Problems of a Node of a mode with one thing changed.
fn problems(mode: v1::GatewayMode, change: impl FnOnce(&mut v1::NodeConfig)) -> Vec<Problem> {
    let mut node = gateway_of(dual_node(), mode);
    node.l7 = None;
    node.features = Some(v1::Features { proxy_all: true, ..v1::Features::default() });
    change(&mut node);
    let mut state = NodeState::default();
    state.set_ports(PORTS.map(|(name, number)| (name.to_owned(), number)).into_iter().collect());
    match state.plan_node(&node) {
        Ok(plan) => {
            state.revert(plan);
            Vec::new()
        }
        Err(problems) => problems.all().to_vec(),
    }
}

/// There is one problem: its code and field, and reason and hint as given.
fn one(mode: v1::GatewayMode, code: Code, field: &str, told: [&str; 2], change: impl FnOnce(&mut v1::NodeConfig)) {
    let found = problems(mode, change);
    let [problem] = &found[..] else { panic!("{field}: {found:#?}") };
    assert_eq!((problem.code, problem.field.as_str()), (code, field), "{problem:?}");
    let [reason, hint] = told;
    assert!(problem.reason.contains(reason), "{problem:?}");
    assert!(problem.hint.contains(hint), "{problem:?}");
}

fn gateway(node: &mut v1::NodeConfig) -> &mut v1::GatewayBridge {
    node.uplink.as_mut().and_then(|uplink| uplink.gateway.as_mut()).expect("a gateway bridge")
}

fn uplink(node: &mut v1::NodeConfig) -> &mut v1::Uplink {
    node.uplink.as_mut().expect("an uplink")
}

#[test]
fn whole_ones_are_taken() {
    for mode in [SHARED, LOCAL] {
        assert_eq!(problems(mode, |_| ()), []);
    }
    assert_eq!(problems(SHARED, |node| uplink(node).external_traffic = true), [], "it says what is so anyway");
    let given = |node: &mut v1::NodeConfig| {
        let gateway = gateway(node);
        gateway.addresses = vec!["192.168.77.102/24".to_owned(), "fd00:192:168:77::102/64".to_owned()];
        gateway.masquerade_prefixes = vec!["169.254.0.0/17".to_owned(), "fd69::/112".to_owned()];
        gateway.first_zone = Some(65000);
    };
    // OVN-Kubernetes' longer prefix has the addresses that Antrea uses by default.
    let hint = "choose a prefix that nobody else has";
    one(SHARED, Code::Overlap, "uplink.gateway.masquerade_prefixes", ["virtual_service_addresses", hint], given);
    let moved = |node: &mut v1::NodeConfig| {
        given(node);
        node.virtual_service_addresses = vec!["169.254.200.1".to_owned()];
        node.virtual_node_port_addresses = vec!["169.254.200.2".to_owned()];
    };
    assert_eq!(problems(SHARED, moved), []);
}

#[test]
fn the_mode_is_given() {
    let unspecified = v1::GatewayMode::Unspecified;
    one(unspecified, Code::Missing, "uplink.gateway.mode", ["not given", "GATEWAY_MODE_SHARED"], |_| ());
    one(SHARED, Code::Value, "uplink.gateway.mode", ["7 is none of its values", ""], |node| gateway(node).mode = 7);
}

#[test]
fn it_needs_the_rest_of_the_node() {
    one(SHARED, Code::Missing, "uplink.underlay_bridge", ["uplink.gateway needs it", "name the bridge"], |node| {
        uplink(node).underlay_bridge.clear();
    });
    one(LOCAL, Code::Feature, "uplink.gateway", ["features.proxy_all", "set features.proxy_all"], |node| {
        node.features = Some(v1::Features::default());
    });
    one(LOCAL, Code::Value, "uplink.gateway", ["networkPolicyOnly", "use encap"], |node| {
        node.set_traffic_mode(v1::TrafficMode::NetworkPolicyOnly);
        node.tunnel = None;
    });
    one(SHARED, Code::Feature, "uplink.gateway", ["direct server return", "leave out features.dsr"], |node| {
        node.features = Some(v1::Features { proxy_all: true, dsr: true, ..v1::Features::default() });
    });
    one(SHARED, Code::Feature, "uplink.gateway", ["Pods of the wire", "leave out features.pod_vlans"], |node| {
        node.features = Some(v1::Features { proxy_all: true, pod_vlans: true, ..v1::Features::default() });
    });
}

#[test]
fn modes_exclude_what_the_other_one_has() {
    one(LOCAL, Code::Value, "uplink.external_traffic", ["the host takes external traffic", "SHARED"], |node| {
        uplink(node).external_traffic = true;
    });
    one(SHARED, Code::Value, "uplink.gateway.no_uplink", ["serves the wire", "LOCAL"], |node| {
        gateway(node).no_uplink = true;
    });
    one(LOCAL, Code::Value, "uplink.gateway.pods_keep_addresses", ["by the host", "SHARED"], |node| {
        gateway(node).pods_keep_addresses = true;
    });
    one(LOCAL, Code::Value, "uplink.gateway.port", ["eth0", "leave out one of both"], |node| {
        let gateway = gateway(node);
        (gateway.no_uplink, gateway.port) = (true, "eth0".to_owned());
    });
}

#[test]
fn addresses_are_the_hosts() {
    let field = "uplink.gateway.addresses";
    one(SHARED, Code::Missing, field, ["no address of V6", "transport_addresses"], |node| {
        gateway(node).addresses = vec!["192.168.77.102/24".to_owned()];
    });
    for (text, reason) in
        [("192.168.77.102", "no length"), ("192.168.77.102/33", "no length of its family"), ("x/24", "x")]
    {
        let found = problems(SHARED, |node| {
            gateway(node).addresses = vec![text.to_owned(), "192.168.77.102/24".to_owned(), "fd77::2/64".to_owned()];
        });
        let [problem] = &found[..] else { panic!("{text}: {found:#?}") };
        assert_eq!((problem.code, problem.field.as_str()), (Code::Value, "uplink.gateway.addresses[0]"));
        assert!(problem.reason.contains(reason), "{problem:?}");
    }
    one(SHARED, Code::Value, "uplink.gateway.other_addresses[0]", ["127.0.0.1", ""], |node| {
        gateway(node).other_addresses = vec!["127.0.0.1".to_owned()];
    });
    one(SHARED, Code::Duplicate, "uplink.gateway.other_addresses[0]", ["is of addresses, too", ""], |node| {
        gateway(node).other_addresses = vec!["192.168.77.102".to_owned()];
    });
    for (address, whose) in [("10.10.0.9", "pod_cidrs"), ("10.96.0.9", "service_cidrs")] {
        one(SHARED, Code::Overlap, field, [whose, ""], |node| {
            gateway(node).other_addresses = vec![address.to_owned()];
        });
    }
    one(SHARED, Code::Limit, "uplink.gateway.other_addresses", ["at most 64", ""], |node| {
        gateway(node).other_addresses = (1..=65).map(|last| format!("172.20.0.{last}")).collect();
    });
}

#[test]
fn masquerade_prefixes_are_nobodys() {
    let field = "uplink.gateway.masquerade_prefixes";
    let with = |prefixes: &[&str]| {
        let prefixes: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
        move |node: &mut v1::NodeConfig| gateway(node).masquerade_prefixes = prefixes
    };
    for prefix in ["169.254.169.0/30", "169.0.0.0/8", "fd69::/126", "fd69::/48"] {
        one(SHARED, Code::Range, &format!("{field}[0]"), [prefix, "eight addresses"], with(&[prefix]));
    }
    one(
        SHARED,
        Code::Duplicate,
        &format!("{field}[1]"),
        ["second one of its family", ""],
        with(&["169.254.169.0/29", "169.254.170.0/29"]),
    );
    one(SHARED, Code::Value, &format!("{field}[0]"), ["169.254.169", ""], with(&["169.254.169/29"]));
    for (prefix, whose) in [
        ("10.10.0.0/16", "pod_cidrs"),
        ("10.96.8.0/24", "service_cidrs"),
        ("192.168.77.96/28", "transport_addresses"),
        ("172.20.0.0/29", "the host's addresses"),
        ("169.254.0.248/29", "virtual_service_addresses"),
        ("192.168.77.0/29", "uplink.next_hops"),
    ] {
        one(LOCAL, Code::Overlap, field, [whose, "choose a prefix"], with(&[prefix]));
    }
}

#[test]
fn zones_are_its_own() {
    let field = "uplink.gateway.first_zone";
    for zone in [0, 65533, 70000] {
        one(SHARED, Code::Range, field, ["1 to 65532", ""], |node| gateway(node).first_zone = Some(zone));
    }
    one(SHARED, Code::Overlap, field, ["65520 is of zones", ""], |node| gateway(node).first_zone = Some(65517));
}

#[test]
fn links_of_pods_carry_what_ipv6_needs() {
    let field = "uplink.gateway.pod_mtu";
    for mtu in [1, 1279, 9703, 70000] {
        one(SHARED, Code::Range, field, ["0, or 1280 to 9702", "IPv6 needs 1280"], |node| gateway(node).pod_mtu = mtu);
    }
    one(LOCAL, Code::Value, field, ["the host's kernel", "SHARED"], |node| gateway(node).pod_mtu = 1400);
}

#[test]
fn a_peer_is_not_reached_by_the_uplink() {
    let mut by_wire = peer();
    by_wire.set_path(v1::PeerPath::Uplink);
    by_wire.mac = crate::testing::mac("02:00:00:00:00:03");
    let mut state = node_state(&gateway_of(crate::testing::document_node(), SHARED), Vec::new());
    apply(&mut state, vec![Object::PeerNode(by_wire)]);
    let found = state.degraded().get(&Key::new(ObjectKind::PeerNode, "worker-1")).expect("it has no effect");
    assert_eq!((found.all()[0].code, found.all()[0].field.as_str()), (Code::Feature, "path"));
}
