//! Addresses that several Pods say to have: one of them has it, and nobody is let in on account of
//! another one.

use crate::common::{CLUSTER, NODE, pod};
use crate::watched::Watched;
use vswitch_proto::antrea::v1::Kind;

const FAR: &str = "k8s-node-worker-1";

/// A policy that allows `app=x`, one that drops it, and a Pod that both bind.
fn base() -> String {
    let rule = |name: &str, action: &str| {
        let head = CLUSTER.replace("name: p", &format!("name: {name}"));
        let to = "appliedTo: [{podSelector: {matchLabels: {app: d}}}]";
        let from = "from: [{podSelector: {matchLabels: {app: x}}}]";
        format!("---\n{head}spec: {{priority: 5, {to}, ingress: [{{action: {action}, {from}}}]}}\n")
    };
    let space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: t}\n";
    let d = pod("t", "d", "app: d", NODE, "10.10.0.71", "");
    [space, &d, &rule("allows", "Allow"), &rule("drops", "Drop")].concat()
}

/// A Pod with two addresses.
fn dual(name: &str, node: &str, addresses: [&str; 2]) -> String {
    let all = format!("podIPs: [{{ip: '{}'}}, {{ip: '{}'}}]", addresses[0], addresses[1]);
    let address = "10.10.0.72";
    pod("t", name, &format!("app: {name}"), node, address, "").replace(&format!("podIP: {address}"), &all)
}

#[test]
fn the_address_of_a_pod_of_this_node_lends_nothing_to_another_pod() {
    let c = pod("t", "c", "app: c", NODE, "10.10.0.72", "");
    let x = pod("t", "x", "app: x", FAR, "10.10.0.72", "");
    for other in [
        x.clone(),
        x.replace(FAR, "''"),
        x.replace(FAR, "n77"),
        x.replace("podIP: ", "phase: Pending, podIP: "),
        x.replace("podIP: ", "phase: running, podIP: "),
        x.replace("podIP: 10.10.0.72", "podIP: 10.10.1.9")
            .replace("annotations: {", "annotations: {vswitch/addresses: 10.10.0.72, "),
        x.replace("name: x,", "name: a,"),
        dual("x", FAR, ["10.10.0.72", "fd00:zz::1"]),
    ] {
        for files in [["1.yaml", "2.yaml"], ["2.yaml", "1.yaml"]] {
            let mut watched = Watched::new(&[("base.yaml", &base()), (files[0], &c)]);
            for is_fresh in [false, true] {
                if is_fresh {
                    watched.begin_anew();
                } else {
                    watched.write(files[1], &other);
                }
                for peers in [watched.allowed(), watched.denied()] {
                    assert!(!peers.iter().any(|peer| peer.contains("10.10.0.72") || peer == "t/c"), "{other}{peers:?}");
                }
                assert!(watched.has(Kind::Pod, "t/c"), "it stays");
                assert!(watched.tells(&[files[1], "OVERLAP", "10.10.0.72 is Pod t/c's"]), "{:#?}", watched.lines());
            }
            // The Pod that has it is gone: the other one has it.
            watched.remove(files[0]);
            assert!(watched.allowed().iter().any(|peer| peer.contains("10.10.0.72")), "{other}");
            assert!(!watched.tells(&["OVERLAP"]));
        }
    }
}

#[test]
fn a_conflict_is_of_the_address_and_not_of_the_pod() {
    let c = pod("t", "c", "app: c", NODE, "10.10.0.72", "");
    let x = dual("x", FAR, ["10.10.0.72", "10.10.1.72"]);
    let watched = Watched::new(&[("base.yaml", &base()), ("c.yaml", &c), ("x.yaml", &x)]);
    for peers in [watched.allowed(), watched.denied()] {
        assert_eq!(peers.into_iter().collect::<Vec<_>>(), ["10.10.1.72"]);
    }
}

#[test]
fn of_two_pods_of_other_nodes_has_it_who_had_it() {
    let r = pod("t", "r", "app: r", FAR, "10.10.1.21", "");
    for x in [
        pod("t", "x", "app: x", FAR, "10.10.1.21", ""),
        pod("t", "x", "app: x", "''", "10.10.1.21", ""),
        pod("t", "x", "app: x", "n77", "10.10.1.21", ""),
        pod("t", "x", "app: x", NODE, "10.10.1.21", ""),
        pod("a", "x", "app: x", "n77", "10.10.1.21", "").replace("namespace: a", "namespace: t"),
    ] {
        let is_local = x.contains(NODE);
        let mut watched = Watched::new(&[("base.yaml", &base()), ("5.yaml", &r)]);
        watched.write("1.yaml", &x);
        let told = ["t/x", "OVERLAP", "10.10.1.21 is Pod t/r's, too"];
        for is_fresh in [false, true] {
            // Who may have it is denied by it.
            let has = |peers: std::collections::BTreeSet<String>| peers.contains("10.10.1.21");
            assert!(!has(watched.allowed()), "{x}");
            assert_eq!(
                (has(watched.denied()), watched.tells(&told)),
                (!is_local, !is_local),
                "{x}{:#?}",
                watched.lines()
            );
            if !is_fresh {
                watched.begin_anew();
            }
        }
        watched.remove("5.yaml");
        assert!(watched.allowed().contains(if is_local { "t/x" } else { "10.10.1.21" }), "{x}");
    }
    // Who has it keeps what it may, also from one whose name is before its.
    let x = pod("t", "x", "app: x", FAR, "10.10.1.21", "");
    let mut watched = Watched::new(&[("base.yaml", &base()), ("5.yaml", &x)]);
    watched.write("1.yaml", &pod("t", "a", "app: a", FAR, "10.10.1.21", ""));
    assert!(watched.allowed().contains("10.10.1.21") && watched.denied().contains("10.10.1.21"));
    // And one of the Node whose prefix it is of has it, whoever came first.
    let mut watched =
        Watched::new(&[("base.yaml", &base()), ("5.yaml", &pod("t", "a", "app: a", "n77", "10.10.1.21", ""))]);
    watched.write("9.yaml", &x);
    assert!(watched.allowed().contains("10.10.1.21"), "{:#?}", watched.lines());
    watched.begin_anew();
    assert!(watched.allowed().contains("10.10.1.21"));
}

#[test]
fn pods_in_the_network_of_a_node_share_its_address() {
    let host = |name: &str| pod("t", name, "app: x", &format!("{FAR}, hostNetwork: true"), "192.168.77.102", "");
    let watched = Watched::new(&[("base.yaml", &base()), ("a.yaml", &host("a")), ("b.yaml", &host("b"))]);
    assert!(!watched.tells(&["OVERLAP"]), "{:#?}", watched.lines());
}
