//! Addresses that Nodes and Pods lose, or that a Node shares with a Pod: rules that deny mean them
//! on, and rules that allow mean no more than before.

use crate::common::{CLUSTER, NODE, pod};
use crate::watched::Watched;
use vswitch_proto::antrea::v1::Kind;

const FAR: &str = "k8s-node-worker-1";
const D: &str = "appliedTo: [{podSelector: {matchLabels: {app: d}}}]";

fn base() -> String {
    let space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: t}\n".to_owned();
    [space, pod("t", "d", "app: d", NODE, "10.10.0.71", ""), pod("t", "c", "app: c", NODE, "10.10.0.72", "")].concat()
}

/// A Node `n9` with a label.
fn node(addresses: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: n9, labels: {{role: lb}}}}\nspec: {{podCIDRs: [10.10.9.0/24]}}\n\
         status: {{addresses: [{addresses}]}}\n"
    )
}

fn internal(address: &str) -> String {
    format!("{{type: InternalIP, address: {address}}}")
}

/// A rule for Nodes.
fn rule(action: &str, selector: &str) -> String {
    let from = format!("{{nodeSelector: {{{selector}}}}}");
    format!("{CLUSTER}spec: {{priority: 5, {D}, ingress: [{{action: {action}, from: [{from}]}}]}}\n")
}

#[test]
fn a_node_lends_no_pod_its_labels_by_an_address() {
    let remote = pod("t", "q", "app: q", FAR, "10.10.1.22", "").replacen("---\n", "", 1);
    let own = internal("192.168.77.9");
    for (pod, address) in [("t/c", "10.10.0.72"), ("10.10.1.22", "10.10.1.22")] {
        let gateway = format!("labels: {{role: lb}}, annotations: {{vswitch/gateway-addresses: '{address}'}}");
        let first = format!("{}/29", address.replace(".72", ".71").replace(".22", ".21"));
        for text in [
            node(&internal(address)),
            node(&format!("{own}, {}", internal(address).replace("Internal", "External"))),
            node(&own).replace("labels: {role: lb}", &gateway),
            node(&format!("{own}, {}", internal(address))),
            node(&own).replace("10.10.9.0/24", &first),
        ] {
            // (The first address of a prefix is its first one that a host may have.)
            let is_gateway = text.contains("/29");
            let scene = |action: &str| {
                let policy = rule(action, "matchLabels: {role: lb}");
                Watched::new(&[("0.yaml", &base()), ("q.yaml", &remote), ("n.yaml", &text), ("p.yaml", &policy)])
            };
            let (allows, denies) = (scene("Allow"), scene("Drop"));
            assert!(!allows.allowed().contains(address), "{text}{:#?}", allows.allowed());
            if !is_gateway {
                assert!(denies.denied().contains(address), "{text}{:#?}", denies.denied());
                assert!(allows.tells(&["Node n9", "OVERLAP", address]), "{text}{:#?}", allows.lines());
            }
            assert!(allows.has(Kind::Pod, "t/c") && !denies.denied().contains("*"), "{pod} {text}");
            assert_eq!(allows.allowed().contains("192.168.77.9"), text.contains(&own), "{text}");
        }
    }
    // The Pod comes later, and goes.
    let allow = rule("Allow", "matchLabels: {role: lb}");
    let both = node(&format!("{own}, {}", internal("10.10.1.22")));
    let mut watched = Watched::new(&[("0.yaml", &base()), ("n.yaml", &both), ("p.yaml", &allow)]);
    assert!(watched.allowed().contains("10.10.1.22"));
    watched.write("q.yaml", &remote);
    assert!(!watched.allowed().contains("10.10.1.22") && watched.allowed().contains("192.168.77.9"));
    watched.remove("q.yaml");
    assert!(watched.allowed().contains("10.10.1.22"));
    // A Pod in the Node's own network has the address of its Node.
    let host = pod("t", "h", "app: h", "n9, hostNetwork: true", "192.168.77.9", "");
    watched.write("q.yaml", &host.replacen("---\n", "", 1));
    assert!(watched.allowed().contains("192.168.77.9"), "{:#?}", watched.lines());
}

#[test]
fn labels_of_a_node_that_cannot_be_read_may_be_any_to_rules_that_deny() {
    let right = node(&internal("192.168.77.9"));
    for (from, to) in [
        ("labels:", "Labels:"),
        ("labels:", "label:"),
        ("labels:", "lables:"),
        ("role: lb", "role: 'lb '"),
        ("role: lb", "role: 5"),
        ("role: lb", "'role ': lb"),
        ("{role: lb}", "5"),
    ] {
        let wrong = right.replace(from, to);
        for (action, selector) in [("Drop", "matchLabels: {role: lb}"), ("Allow", "matchLabels: {role: lb}")] {
            let is_drop = action == "Drop";
            let scene = |text: &str| {
                Watched::new(&[("0.yaml", &base()), ("n.yaml", text), ("p.yaml", &rule(action, selector))])
            };
            let meant = |watched: &Watched| {
                let peers = if is_drop { watched.denied() } else { watched.allowed() };
                peers.contains("192.168.77.9")
            };
            let fresh = scene(&wrong);
            assert_eq!(meant(&fresh), is_drop, "{wrong}{:#?}", fresh.lines());
            assert!(fresh.agent.is_wrong() && fresh.has(Kind::PeerNode, "n9"), "{wrong}{:#?}", fresh.lines());
            let mut running = scene(&right);
            let before = running.text();
            assert!(meant(&running));
            running.write("n.yaml", &wrong);
            assert!(running.text() == before && running.agent.is_wrong(), "{wrong}{:#?}", running.lines());
        }
    }
}

#[test]
fn a_running_pod_that_loses_its_addresses_keeps_them() {
    let policy = format!(
        "{CLUSTER}spec: {{priority: 5, {D}, ingress: [{{action: Drop, from: [{{podSelector: {{matchLabels: {{app: \
         r}}}}}}]}}]}}\n"
    );
    let right = pod("t", "r", "app: r", FAR, "10.10.1.21", "").replacen("---\n", "", 1);
    let right = right.replace("status: {podIP: 10.10.1.21}", "status: {phase: Running, podIPs: [{ip: 10.10.1.21}]}");
    let status = "status: {phase: Running, podIPs: [{ip: 10.10.1.21}]}";
    assert!(right.contains(status));
    let scene = || Watched::new(&[("0.yaml", &base()), ("r.yaml", &right), ("p.yaml", &policy)]);
    let mut watched = scene();
    let before = watched.text();
    for wrong in [
        "Status: {phase: Running, podIPs: [{ip: 10.10.1.21}]}",
        "stats: {phase: Running, podIPs: [{ip: 10.10.1.21}]}",
        "status: null",
        "",
        "status: {}",
        "status: {phase: Running}",
        "status: {phase: Running, podIP: null, podIPs: null}",
        "status: {phase: Running, podIPs: []}",
        "status: {phase: Running, PodIPs: [{ip: 10.10.1.21}]}",
        "status: {phase: running, podIPs: []}",
    ] {
        for _ in 0..2 {
            watched.write("r.yaml", &right.replace(status, wrong));
            assert!(watched.denied().contains("10.10.1.21"), "{wrong}{:#?}", watched.lines());
            assert!(watched.tells(&["Pod t/r"]), "{wrong}{:#?}", watched.lines());
        }
        watched.write("r.yaml", &right);
        assert_eq!(watched.text(), before, "{wrong}");
    }
    // An annotation that has none, or that was all.
    let given = right.replace("vswitch/port", "vswitch/addresses: '10.10.1.21', vswitch/port");
    watched.write("r.yaml", &given.replace("'10.10.1.21'", "''"));
    assert!(watched.denied().contains("10.10.1.21"), "{:#?}", watched.lines());
    let given = given.replace(status, "status: {phase: Running}");
    watched.write("r.yaml", &given);
    watched.write("r.yaml", &given.replace("vswitch/addresses: '10.10.1.21', ", ""));
    assert!(watched.denied().contains("10.10.1.21"), "{:#?}", watched.lines());
    // One that has ended, or a new one of its name, has none.
    for (from, to) in [(status, "status: {phase: Succeeded}"), (status, "status: {phase: Pending}")] {
        let mut watched = scene();
        watched.write("r.yaml", &right.replace(from, to));
        assert!(!watched.denied().contains("10.10.1.21"), "{to}{:#?}", watched.lines());
    }
    let uid = |uid: &str| right.replace("name: r,", &format!("name: r, uid: {uid},"));
    watched.write("r.yaml", &uid("one"));
    watched.write("r.yaml", &uid("two").replace(status, "status: {}"));
    assert!(!watched.denied().contains("10.10.1.21"), "{:#?}", watched.lines());
    // It has another address, which is in force.
    watched.write("r.yaml", &uid("two").replace("10.10.1.21", "10.10.1.23"));
    assert!(watched.denied().contains("10.10.1.23"));
    // It is said to be on this Node, and has no port here.
    let here = right.replace(FAR, NODE).replace("vswitch/port", "vswitch/other");
    for mut watched in [scene(), Watched::new(&[("0.yaml", &base()), ("p.yaml", &policy)])] {
        watched.write("r.yaml", &here);
        assert!(watched.denied().contains("10.10.1.21") && !watched.has(Kind::Pod, "t/r"), "{:#?}", watched.lines());
    }
}

#[test]
fn a_node_that_loses_its_addresses_keeps_them() {
    let policy = rule("Drop", "matchLabels: {role: lb}");
    let right = node(&internal("192.168.77.9"));
    let mut watched = Watched::new(&[("0.yaml", &base()), ("n.yaml", &right), ("p.yaml", &policy)]);
    let before = watched.text();
    assert!(watched.denied().contains("192.168.77.9") && watched.has(Kind::PeerNode, "n9"));
    let status = right.lines().last().expect("a line");
    for wrong in [
        status.replace("InternalIP", "internalIP"),
        status.replace("InternalIP", "InternalIp"),
        status.replace("InternalIP", "''"),
        status.replace("type: InternalIP, ", ""),
        status.replace("type:", "Type:"),
        status.replace("192.168.77.9", "'192.168.77.9 '"),
        status.replace("status:", "Status:"),
        status.replace("addresses:", "Addresses:"),
        "status: null".to_owned(),
        "status: {}".to_owned(),
        "status: {addresses: []}".to_owned(),
        "status: {addresses: [{type: Hostname, address: n9}]}".to_owned(),
        String::new(),
    ] {
        watched.write("n.yaml", &format!("{}\n", right.replace(status, &wrong)));
        assert_eq!(watched.text(), before, "{wrong}{:#?}", watched.lines());
        assert!(watched.tells(&["Node n9"]), "{wrong}{:#?}", watched.lines());
        watched.write("n.yaml", &right);
        assert_eq!(watched.text(), before, "{wrong}");
    }
    for kind in ["Hostname", "InternalDNS", "ExternalDNS", "ExternalIP"] {
        let more = node(&format!("{}, {{type: {kind}, address: 192.168.77.10}}", internal("192.168.77.9")));
        watched.write("n.yaml", &more);
        assert!(!watched.agent.is_wrong(), "{kind}{:#?}", watched.lines());
    }
}
