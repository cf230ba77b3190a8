//! Everything that is refused, by code and field.

use super::*;
use crate::testing::{apply, refused};
use crate::{Key, ObjectKind, Write};

fn good() -> v1::NetworkPolicy {
    acnp("good", 5.0, vec![rule("in", ALLOW, from("client"), vec![tcp(80)])])
}

fn a_node_state() -> NodeState {
    let mut node = document_node();
    node.features = Some(v1::Features { l7_network_policy: false, ..node.features.unwrap_or_default() });
    node.l7 = None;
    node_state(&node, vec![a_pod("web", false), applied("web", &["web"]), group("client", &["10.10.0.26"]), object(good())])
}

/// Codes and fields of what is wrong.
fn told(node_state: &mut NodeState, object: Object) -> Vec<String> {
    let before = format!("{:?} {:?}", node_state.ids().priorities, crate::testing::dump(node_state));
    let problems = refused(node_state, object);
    assert_eq!(format!("{:?} {:?}", node_state.ids().priorities, crate::testing::dump(node_state)), before);
    assert!(problems.iter().all(|problem| !problem.reason.is_empty()));
    problems.into_iter().map(|problem| format!("{} {}", problem.code, problem.field)).collect()
}

fn check(cases: Vec<(v1::NetworkPolicy, &[&str])>) {
    let mut node_state = a_node_state();
    for (policy, wanted) in cases {
        assert_eq!(told(&mut node_state, object(policy.clone())), wanted, "{policy:#?}");
    }
}

/// The good one with a change.
fn bad(change: impl Fn(&mut v1::NetworkPolicy)) -> v1::NetworkPolicy {
    let mut policy = good();
    change(&mut policy);
    policy
}

fn bad_rule(change: impl Fn(&mut v1::Rule)) -> v1::NetworkPolicy {
    bad(|policy| change(&mut policy.rules[0]))
}

fn bad_port(change: impl Fn(&mut v1::PortMatch)) -> v1::NetworkPolicy {
    bad_rule(|rule| change(&mut rule.ports[0]))
}

fn bad_peer(change: impl Fn(&mut v1::RulePeer)) -> v1::NetworkPolicy {
    bad_rule(|rule| {
        rule.direction = v1::Direction::Egress.into();
        change(rule.peer.get_or_insert_default());
    })
}

#[test]
fn policies() {
    let of_k8s = |change: &dyn Fn(&mut v1::NetworkPolicy)| {
        let mut policy = k8s("good", vec![rule("in", ALLOW, from("client"), vec![tcp(80)])]);
        change(&mut policy);
        policy
    };
    check(vec![
        (bad(|policy| policy.name.clear()), &["MISSING name"]),
        (bad(|policy| policy.name = "np:default/a".to_owned()), &["VALUE name"]),
        (bad(|policy| policy.name = "acnp:a/b".to_owned()), &["VALUE name"]),
        (bad(|policy| policy.name = "a".repeat(513)), &["VALUE name", "VALUE name"]),
        (of_k8s(&|policy| policy.name = "np:a".to_owned()), &["VALUE name"]),
        (of_k8s(&|policy| policy.name = "np:a/b/c".to_owned()), &["VALUE name"]),
        (bad(|policy| policy.kind = 0), &["MISSING kind"]),
        (bad(|policy| policy.kind = 9), &["VALUE kind"]),
        (bad(|policy| policy.tier = 255), &["RANGE tier"]),
        (bad(|policy| policy.priority = -0.5), &["RANGE priority"]),
        (bad(|policy| policy.priority = 10000.5), &["RANGE priority"]),
        (bad(|policy| policy.priority = f64::NAN), &["RANGE priority"]),
        (bad(|policy| policy.priority = f64::INFINITY), &["RANGE priority"]),
        (of_k8s(&|policy| policy.tier = 1), &["VALUE tier"]),
        (of_k8s(&|policy| policy.priority = 1.0), &["VALUE priority"]),
        (of_k8s(&|policy| policy.rules[0].action = v1::RuleAction::Drop.into()), &["VALUE rules[0].action"]),
        (of_k8s(&|policy| policy.applied_to.clear()), &["MISSING applied_to", "MISSING rules[0].applied_to"]),
        (bad(|policy| policy.isolates_ingress = true), &["VALUE isolates_ingress"]),
        (bad(|policy| policy.isolates_egress = true), &["VALUE isolates_egress"]),
        (bad(|policy| policy.log_isolation = true), &["VALUE log_isolation"]),
        (bad(|policy| policy.applied_to.clear()), &["MISSING rules[0].applied_to"]),
        (bad(|policy| policy.applied_to.push(String::new())), &["MISSING applied_to[1]"]),
        (bad(|policy| policy.rules.push(v1::Rule { ports: vec![tcp(81)], ..policy.rules[0].clone() })), &["DUPLICATE rules[1].id"]),
        (bad(|policy| policy.rules = vec![policy.rules[0].clone(); 65_537]), &["LIMIT rules"]),
    ]);
}

#[test]
fn rules() {
    let l7 = |rule: &mut v1::Rule| rule.l7_protocols = vec![v1::L7Protocol::default()];
    check(vec![
        (bad_rule(|rule| rule.direction = 0), &["MISSING rules[0].direction"]),
        (bad_rule(|rule| rule.direction = 7), &["VALUE rules[0].direction"]),
        (bad_rule(|rule| rule.action = 7), &["VALUE rules[0].action"]),
        (bad_rule(|rule| rule.id = "a".repeat(254)), &["VALUE rules[0].id"]),
        (bad_rule(|rule| rule.log_label = "a".repeat(254)), &["VALUE rules[0].log_label"]),
        (
            bad(|policy| {
                policy.tier = 253;
                policy.rules[0].action = v1::RuleAction::Pass.into();
            }),
            &["VALUE rules[0].action"],
        ),
        (
            bad(|policy| {
                policy.tier = 254;
                policy.rules[0].action = v1::RuleAction::Pass.into();
            }),
            &["VALUE rules[0].action"],
        ),
        (
            bad_rule(|rule| {
                l7(rule);
                rule.action = v1::RuleAction::Drop.into();
                rule.ports[0].protocol = v1::Protocol::Udp.into();
                rule.l7_protocols[0].definition = "a".repeat(4097);
            }),
            &["VALUE rules[0].l7_protocols", "VALUE rules[0].ports", "VALUE rules[0].l7_protocols[0].definition"],
        ),
    ]);
}

#[test]
fn ports() {
    let icmp = |port: &mut v1::PortMatch| *port = v1::PortMatch { protocol: v1::Protocol::Icmp.into(), ..v1::PortMatch::default() };
    check(vec![
        (bad_port(|port| port.protocol = 9), &["VALUE rules[0].ports[0].protocol"]),
        (bad_port(|port| port.protocol = 0), &["VALUE rules[0].ports[0].port"]),
        (bad_port(|port| port.port = 65536), &["VALUE rules[0].ports[0].port"]),
        (bad_port(|port| port.end_port = 65536), &["VALUE rules[0].ports[0].end_port"]),
        (bad_port(|port| port.end_port = 79), &["VALUE rules[0].ports[0].end_port"]),
        (bad_port(|port| (port.port, port.end_port) = (0, 79)), &["MISSING rules[0].ports[0].port"]),
        (bad_port(|port| port.source_end_port = 79), &["MISSING rules[0].ports[0].source_port"]),
        (bad_port(|port| port.icmp_type = Some(8)), &["VALUE rules[0].ports[0].icmp_type"]),
        (bad_port(|port| port.igmp_type = Some(8)), &["VALUE rules[0].ports[0].igmp_type"]),
        (
            bad_port(|port| {
                icmp(port);
                port.icmp_code = Some(0);
            }),
            &["MISSING rules[0].ports[0].icmp_type"],
        ),
        (
            bad_port(|port| {
                icmp(port);
                (port.icmp_type, port.icmp_code) = (Some(256), Some(256));
            }),
            &["VALUE rules[0].ports[0].icmp_type", "VALUE rules[0].ports[0].icmp_code"],
        ),
        (bad_port(|port| port.multicast_group = "10.0.0.1".to_owned()), &["VALUE rules[0].ports[0].multicast_group"]),
        (bad_port(|port| port.multicast_group = "ff02::1".to_owned()), &["VALUE rules[0].ports[0].multicast_group"]),
        (
            bad_rule(|rule| {
                let group = "239.1.1.1".to_owned();
                rule.ports.push(v1::PortMatch { multicast_group: group, ..v1::PortMatch::default() });
            }),
            &["VALUE rules[0].ports"],
        ),
    ]);
}

#[test]
fn peers() {
    let block = |cidr: &str, excepts: &[&str]| v1::IpBlock {
        cidr: cidr.to_owned(),
        except_cidrs: excepts.iter().map(ToString::to_string).collect(),
    };
    check(vec![
        (bad_peer(|peer| peer.blocks.push(block("", &[]))), &["MISSING rules[0].peer.blocks[0].cidr"]),
        (bad_peer(|peer| peer.blocks.push(block("10.0.0.1/8", &[]))), &["VALUE rules[0].peer.blocks[0].cidr"]),
        (
            bad_peer(|peer| peer.blocks.push(block("10.0.0.0/8", &["11.0.0.0/16", "x"]))),
            &["VALUE rules[0].peer.blocks[0].except_cidrs[0]", "VALUE rules[0].peer.blocks[0].except_cidrs[1]"],
        ),
        (
            bad_peer(|peer| peer.blocks.push(block("10.0.0.0/8", &["10.1.0.0/16", "10.0.0.0/8"]))),
            &["VALUE rules[0].peer.blocks[0].except_cidrs[1]"],
        ),
        (bad_peer(|peer| peer.fqdns.push("a..b".to_owned())), &["VALUE rules[0].peer.fqdns[0]"]),
        (bad_peer(|peer| peer.fqdns = vec!["a.b".to_owned(); 65]), &["LIMIT rules[0].peer.fqdns"]),
        (
            bad_peer(|peer| peer.services.push("s".to_owned())),
            &["VALUE rules[0].peer.services[0]", "VALUE rules[0].peer.services"],
        ),
        (
            bad_rule(|rule| rule.peer.get_or_insert_default().fqdns = vec!["a.b".to_owned()]),
            &["VALUE rules[0].peer.fqdns"],
        ),
    ]);
}

#[test]
fn groups() {
    let mut node_state = a_node_state();
    let pods = |count: usize| -> Object {
        let pods = (0..count).map(|at| format!("default/{at}")).collect();
        Object::AppliedToGroup(v1::AppliedToGroup { name: "g".to_owned(), pods, services: Vec::new() })
    };
    let services = |name: &str, pods: &[&str], services: &[&str]| {
        let of = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Object::AppliedToGroup(v1::AppliedToGroup { name: name.to_owned(), pods: of(pods), services: of(services) })
    };
    let many: Vec<String> = (0..262_145).map(|at| std::net::Ipv4Addr::from(0x0b00_0000 + at).to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let nobody = Object::AddressGroup(v1::AddressGroup { name: "g".to_owned(), members: vec![v1::GroupMember::default()] });
    for (object, wanted) in [
        (group("g", &["10.0.0.1/8", "::ffff:10.0.0.1"]), &["VALUE members[0].address", "VALUE members[1].address"][..]),
        (group("g", &many), &["LIMIT members"]),
        (nobody, &["MISSING members[0]"]),
        (pods(65_537), &["LIMIT pods"]),
        (services("g", &["a/b", "a/b", ""], &[]), &["MISSING pods[2]"]),
        (services("g", &["a/b"], &["a/c"]), &["VALUE services"]),
        (services("g", &[], &["c"]), &["VALUE services[0]"]),
    ] {
        assert_eq!(told(&mut node_state, object), wanted);
    }
}

#[test]
fn what_is_named_cannot_go() {
    let mut node_state = a_node_state();
    for (kind, name) in [(ObjectKind::AddressGroup, "client"), (ObjectKind::AppliedToGroup, "web")] {
        let plan = node_state.plan(Write { remove: vec![Key::new(kind, name)], ..Write::default() });
        let codes: Vec<String> = plan.result.statuses.iter().flat_map(|status| &status.problems).map(|problem| problem.code.clone()).collect();
        assert_eq!(codes, ["IN_USE"], "{name}");
        node_state.revert(plan);
    }
}

#[test]
fn too_many_clauses_are_refused_before_they_are_made() {
    let mut node_state = a_node_state();
    let many: Vec<String> = (0..100_000).map(|at| std::net::Ipv4Addr::from(0x0b00_0000 + at).to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    apply(&mut node_state, vec![group("many", &many)]);
    let rules = (0..41).map(|at| rule(&format!("in-{at}"), ALLOW, from("many"), vec![tcp(80 + at)])).collect();
    assert_eq!(told(&mut node_state, object(acnp("many", 6.0, rules))), ["LIMIT rules"]);
}

#[test]
fn a_full_baseline_tier_says_so() {
    let mut node_state = a_node_state();
    let rules = (0..172).map(|at| rule(&format!("in-{at}"), DROP, None, vec![tcp(80 + at)])).collect();
    let mut policy = acnp("many", 6.0, rules);
    policy.tier = 253;
    assert_eq!(told(&mut node_state, object(policy)), ["LIMIT rules[171]"]);
}

#[test]
fn what_is_not_there_or_off_has_no_effect_and_is_told() {
    let l7 = |rule: &mut v1::Rule| rule.l7_protocols = vec![v1::L7Protocol::default()];
    let six = v1::IpBlock { cidr: "fd00::/8".to_owned(), except_cidrs: Vec::new() };
    for (policy, wanted) in [
        (bad(|policy| policy.applied_to.push("other".to_owned())), "PENDING applied_to[1]"),
        (bad_rule(|rule| rule.applied_to.push("other".to_owned())), "PENDING rules[0].applied_to[0]"),
        (bad_rule(l7), "FEATURE rules[0].l7_protocols"),
        (bad_port(|port| port.multicast_group = "239.1.1.1".to_owned()), "FEATURE rules[0].ports"),
        (bad_peer(|peer| peer.address_groups.push("other".to_owned())), "PENDING rules[0].peer.address_groups[1]"),
        (bad_peer(|peer| peer.blocks.push(six.clone())), "FAMILY rules[0].peer.blocks"),
        (
            bad_peer(|peer| {
                peer.address_groups.clear();
                peer.services.push("default/s".to_owned());
            }),
            "PENDING rules[0].peer.services[0]",
        ),
    ] {
        let mut node_state = a_node_state();
        let problems = crate::testing::degraded(&mut node_state, object(policy.clone()));
        let told: Vec<String> = problems.iter().map(|problem| format!("{} {}", problem.code, problem.field)).collect();
        assert!(told.iter().any(|told| told == wanted), "{told:?}: {policy:#?}");
    }
    let problems = crate::testing::degraded(&mut a_node_state(), group("g", &["fd00::1"]));
    assert_eq!((problems[0].code.as_str(), problems[0].field.as_str()), ("FAMILY", "members"));
}

fn prefix(cidr: &str) -> v1::IpBlock {
    v1::IpBlock { cidr: cidr.to_owned(), ..v1::IpBlock::default() }
}

/// What Antrea refuses of rules about groups: nobody is there whom one could refuse, and IGMP has
/// no other side.
#[test]
fn groups_are_neither_refused_nor_passed_and_igmp_has_no_peer() {
    let to = |group: &str, action: v1::RuleAction| {
        let group = group.to_owned();
        bad_rule(move |rule| {
            rule.direction = v1::Direction::Egress.into();
            rule.action = action.into();
            rule.peer = Some(v1::RulePeer { blocks: vec![prefix(&group)], ..v1::RulePeer::default() });
        })
    };
    let igmp = |peer: Option<v1::RulePeer>, action: v1::RuleAction| {
        bad_rule(move |rule| {
            let protocol = v1::Protocol::Igmp.into();
            rule.ports = vec![v1::PortMatch { protocol, multicast_group: "239.1.1.1".to_owned(), ..v1::PortMatch::default() }];
            rule.action = action.into();
            rule.peer = peer.clone();
        })
    };
    let client = || Some(v1::RulePeer { blocks: vec![prefix("10.0.0.0/8")], ..v1::RulePeer::default() });
    check(vec![
        (to("239.1.1.0/24", v1::RuleAction::Reject), &["VALUE rules[0].action"]),
        (to("224.0.0.0/4", v1::RuleAction::Pass), &["VALUE rules[0].action"]),
        (igmp(None, v1::RuleAction::Reject), &["VALUE rules[0].action"]),
        (igmp(None, v1::RuleAction::Pass), &["VALUE rules[0].action"]),
        (igmp(client(), v1::RuleAction::Drop), &["VALUE rules[0].peer"]),
        (igmp(client(), v1::RuleAction::Allow), &["VALUE rules[0].peer"]),
    ]);
    // What is about everybody is not about groups.
    let mut node_state = a_node_state();
    for good in [to("0.0.0.0/0", v1::RuleAction::Reject), to("239.1.1.0/24", v1::RuleAction::Drop)] {
        apply(&mut node_state, vec![object(good)]);
    }
    // Good, but for the Node.
    let problems = crate::testing::degraded(&mut a_node_state(), object(igmp(None, v1::RuleAction::Drop)));
    assert!(problems.iter().any(|problem| problem.code == "FEATURE" && problem.field == "rules[0].ports"), "{problems:?}");
}
