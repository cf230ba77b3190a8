//! Policies that are wrong, or larger than there is room for; and load balancers.

use super::*;

#[test]
fn a_policy_that_is_refused_isolates_whom_it_names_from_the_beginning() {
    // A wrong policy, then the Pod that it selects.
    let mut bad = policy("a", &["web"]);
    bad.rules[0].ports[0].port = 70_000;
    let base = vec![
        Object::AddressGroup(group("clients", &["10.10.0.26"])),
        Object::AppliedToGroup(applied("web", &["default/web"])),
    ];
    let mut node_state = node_state(&document_node(), base);
    let told = put(&mut node_state, vec![Object::NetworkPolicy(bad.clone())]);
    assert_eq!(told[0], ("np:default/a".to_owned(), Outcome::Refused));
    put(&mut node_state, vec![Object::Pod(pod("web"))]);
    assert!(
        dump(&node_state)["IngressDefaultRule"]
            .iter()
            .any(|line| line.contains("web-7975") || line.contains("reg1=0x25"))
    );
    assert!(!dump(&node_state)["IngressRule"].iter().any(|line| line.contains("conj")), "its rule is left out");
    let after = again(&node_state);
    assert_eq!((dump(&after), after.degraded()), (dump(&node_state), node_state.degraded()), "after a restart, too");
    let told = put(&mut node_state, vec![Object::NetworkPolicy(bad)]);
    assert_eq!(told, is(&[("np:default/a", Outcome::Refused)]));
    // Whole, ahead of all: nobody can say what it was to be.
    let odd = v1::NetworkPolicy { kind: 9, ..policy("a", &["web"]) };
    put(&mut node_state, vec![Object::NetworkPolicy(odd)]);
    assert!(
        dump(&node_state)["AntreaPolicyIngressRule"]
            .iter()
            .any(|line| line.contains("priority=64985,reg1=0x25 actions=ct_forget")),
        "{:?}",
        dump(&node_state)["AntreaPolicyIngressRule"]
    );
    assert!(
        !dump(&node_state)["AntreaPolicyEgressRule"].iter().any(|line| line.contains("priority=64985")),
        "it names ingress alone"
    );
    let right = policy("a", &["web"]);
    put(&mut node_state, vec![Object::NetworkPolicy(right)]);
    assert!(node_state.degraded().is_empty() && !lines(&node_state).iter().any(|line| line.contains("priority=64985")));
    // All or nothing refuses it, and nothing changes.
    let before = dump(&node_state);
    let plan = node_state.plan(Write {
        objects: vec![Object::NetworkPolicy(v1::NetworkPolicy { kind: 9, ..policy("a", &["web"]) })],
        ..Write::default()
    });
    assert!(!plan.result.applied);
    node_state.settle(plan);
    assert_eq!(dump(&node_state), before);
}

#[test]
fn the_form_of_before_stays_for_its_pods_and_new_ones_are_isolated() {
    let base = vec![
        Object::Pod(pod("web")),
        Object::Pod(pod("db")),
        Object::AddressGroup(group("clients", &["10.10.0.26"])),
        Object::AppliedToGroup(applied("web", &["default/web"])),
        Object::AppliedToGroup(applied("both", &["default/web", "default/db"])),
    ];
    let mut node_state =
        node_state(&document_node(), base.into_iter().chain([Object::NetworkPolicy(policy("a", &["web"]))]).collect());
    let before = dump(&node_state);
    let mut bad = policy("a", &["both"]);
    bad.rules[0].direction = 9;
    put(&mut node_state, vec![Object::NetworkPolicy(bad)]);
    assert_eq!(dump(&node_state)["IngressRule"], before["IngressRule"], "web's rule stays");
    let held: Vec<String> =
        dump(&node_state)["IngressDefaultRule"].difference(&before["IngressDefaultRule"]).cloned().collect();
    assert!(held.len() == 1 && held[0].contains("reg1=0x26"), "db alone: {held:?}");
    let after = again(&node_state);
    assert_eq!((dump(&after), after.degraded()), (dump(&node_state), node_state.degraded()));
    // A Pod that comes to the old group is bound by the old form.
    put(&mut node_state, vec![Object::AppliedToGroup(applied("web", &["default/web", "default/db"]))]);
    assert!(dump(&node_state)["IngressRule"].iter().any(|line| line.contains("reg1=0x26")));
    let told = put(&mut node_state, vec![Object::NetworkPolicy(policy("a", &["web"]))]);
    assert_eq!(told, is(&[("np:default/a", Outcome::Applied)]));
    assert!(node_state.degraded().is_empty());
}

#[test]
fn large_policies_are_served_and_larger_ones_isolate() {
    let rules = |many: u32| -> Vec<v1::Rule> {
        (0..many)
            .map(|at| {
                let port = v1::PortMatch {
                    protocol: v1::Protocol::Tcp.into(),
                    port: 1 + at % 65_535,
                    ..v1::PortMatch::default()
                };
                v1::Rule { id: format!("in-{at}"), direction: 1, ports: vec![port], ..v1::Rule::default() }
            })
            .collect()
    };
    let base = vec![Object::Pod(pod("web")), Object::AppliedToGroup(applied("web", &["default/web"]))];
    let mut node_state = node_state(&document_node(), base);
    let big = v1::NetworkPolicy { rules: rules(2000), ..policy("big", &["web"]) };
    assert_eq!(put(&mut node_state, vec![Object::NetworkPolicy(big)]), is(&[("np:default/big", Outcome::Applied)]));
    let isolated =
        |node_state: &NodeState| dump(node_state)["IngressDefaultRule"].iter().any(|line| line.contains("reg1=0x25"));
    assert!(isolated(&node_state) && dump(&node_state)["IngressRule"].len() > 2000);
    let most = v1::NetworkPolicy { rules: rules(65_537), ..policy("most", &["web"]) };
    assert_eq!(put(&mut node_state, vec![Object::NetworkPolicy(most)]), is(&[("np:default/most", Outcome::Refused)]));
    assert!(isolated(&node_state) && dump(&node_state)["IngressRule"].len() > 2000, "the other one is as it was");
    // Too much for the table, though right by itself: the same.
    let many: Vec<String> = (0..200_000).map(|at| std::net::Ipv4Addr::from(0x0b00_0000 + at).to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    put(&mut node_state, vec![Object::AddressGroup(group("clients", &many))]);
    let wide = v1::NetworkPolicy {
        rules: (0..21)
            .map(|at| v1::Rule { id: format!("in-{at}"), ..policy("wide", &["web"]).rules[0].clone() })
            .collect(),
        ..policy("wide", &["web"])
    };
    assert_eq!(put(&mut node_state, vec![Object::NetworkPolicy(wide)]), is(&[("np:default/wide", Outcome::Refused)]));
    assert!(isolated(&node_state));
    let after = again(&node_state);
    assert_eq!(dump(&after)["IngressDefaultRule"], dump(&node_state)["IngressDefaultRule"]);
    assert_eq!(dump(&after)["IngressRule"], dump(&node_state)["IngressRule"]);
}

#[test]
fn a_load_balancer_has_as_many_ranges_as_an_object_can_name() {
    let ranges =
        |many: u32| (0..many).map(|at| format!("{}/32", std::net::Ipv4Addr::from(0x0b00_0000 + 2 * at))).collect();
    let with = |many| {
        let mut service = service("lb", "10.96.0.9");
        service.load_balancer_ips = vec!["192.168.77.150".to_owned()];
        service.load_balancer_source_ranges = ranges(many);
        Object::Service(service)
    };
    let of_lb = |node_state: &NodeState| {
        dump(node_state)["ServiceLB"].iter().filter(|line| line.contains("nw_dst=192.168.77.150")).count()
    };
    let room_ = node_state(&document_node(), vec![set("lb"), with(257)]);
    assert_eq!(of_lb(&room_), 2 * 257 + 2, "and the drop, and what is learned");
    let most = node_state(&document_node(), vec![set("lb"), with(131_072)]);
    assert!(most.degraded().is_empty(), "{:?}", most.degraded());
    let more = node_state(&document_node(), vec![set("lb"), with(160_000)]);
    assert_eq!(of_lb(&more), 0, "nobody may come, rather than all");
    assert!(dump(&more)["ServiceLB"].iter().any(|line| line.contains("nw_dst=10.96.0.9")));
}
