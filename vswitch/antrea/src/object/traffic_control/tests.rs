//! `TrafficControl`s.

use super::TrafficControl;
use crate::testing::{assert_has, document_node, dump, dump_of, peer, pod, degraded, node_state, traffic_control};
use crate::{Code, Key, ObjectKind, Problems, NodeState, Write};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

fn pods() -> Vec<Object> {
    vec![Object::Pod(pod("web")), Object::Pod(pod("db"))]
}

/// The one for db, with another name.
fn named(name: &str) -> v1::TrafficControl {
    v1::TrafficControl { name: name.to_owned(), ..traffic_control("db") }
}

fn with(objects: Vec<v1::TrafficControl>) -> NodeState {
    node_state(&document_node(), pods().into_iter().chain(objects.into_iter().map(Object::TrafficControl)).collect())
}

#[test]
fn the_higher_priority_counts_and_of_equal_ones_the_redirect() {
    let mut high = named("high");
    high.priority = 4;
    let mut redirect = v1::TrafficControl { pods: named("").pods, ..traffic_control("web") };
    redirect.set_direction(v1::TrafficDirection::Ingress);
    redirect.priority = 3;
    let node_state = with(vec![named("low"), high, redirect]);
    assert!(node_state.degraded().is_empty(), "{:?}", node_state.degraded());
    let rest = "set_field:0x400000/0xc00000->reg4,goto_table:IngressSecurityClassifier";
    for (priority, matching) in [(200, "reg1=0x26"), (200, "in_port=38"), (208, "reg1=0x26"), (208, "in_port=38")] {
        assert_has(&node_state, &format!("table=TrafficControl, priority={priority},{matching} actions=set_field:0x27->reg9,{rest}"));
    }
    assert_has(&node_state, "table=TrafficControl, priority=207,reg1=0x26 actions=set_field:0x22->reg9,set_field:0x800000/0xc00000->reg4,goto_table:IngressSecurityClassifier");
    assert_eq!(dump_of(&node_state, &["TrafficControl"]).len(), 5 + 3);
}

#[test]
fn of_two_with_the_same_right_the_lower_name_counts_by_direction() {
    let mut first = named("a");
    first.set_direction(v1::TrafficDirection::Egress);
    let second = v1::TrafficControl { target_port: "antrea-tc-tap1".to_owned(), ..named("b") };
    let mut node_state = with(vec![second]);
    let before = dump(&node_state);
    crate::testing::apply(&mut node_state, vec![Object::TrafficControl(first)]);
    let lines = dump_of(&node_state, &["TrafficControl"]);
    assert!(lines.iter().any(|line| line.contains("reg1=0x26 ") && line.contains("0x23->reg9")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("db-755c6") && line.contains("0x27->reg9")), "{lines:?}");
    let degraded: Vec<_> = node_state.degraded().iter().map(|(key, problems)| (&*key.name, problems.all()[0].code)).collect();
    assert_eq!(degraded, [("b", Code::Conflict)]);
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::TrafficControl, "a")], ..Write::default() });
    node_state.settle(plan);
    assert_eq!(dump(&node_state), before);
    assert!(node_state.degraded().is_empty());
}

#[test]
fn several_share_a_return_port() {
    let other = v1::TrafficControl { name: "other".to_owned(), pods: named("").pods, ..traffic_control("web") };
    let mut node_state = with(vec![traffic_control("web"), other]);
    let back = r#"table=Classifier, priority=200,in_port="antrea-tc-tap1" actions=set_field:0x6/0xf->reg0,goto_table:L3Forwarding"#;
    assert_has(&node_state, back);
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::TrafficControl, "other")], ..Write::default() });
    node_state.settle(plan);
    assert_has(&node_state, back);
}

#[test]
fn one_without_pods_has_no_effect() {
    let node_state = with(vec![v1::TrafficControl { pods: Vec::new(), ..named("nobody") }]);
    assert_eq!(node_state.degraded().values().next().map(|problems| problems.all()[0].code), Some(Code::Empty));
}

#[test]
fn everything_that_is_wrong_by_itself_is_found_at_once() {
    let read = |change: fn(&mut v1::TrafficControl)| {
        let mut bad = traffic_control("web");
        change(&mut bad);
        let mut problems = Problems::default();
        TrafficControl::read(&bad, &mut problems);
        problems.all().iter().map(|problem| (problem.code, problem.field.clone())).collect::<Vec<_>>()
    };
    let is = |problems: Vec<(Code, String)>, code: Code, field: &str| assert_eq!(problems, [(code, field.to_owned())]);
    assert_eq!(read(|_| ()), []);
    is(read(|control| control.direction = 0), Code::Missing, "direction");
    is(read(|control| control.direction = -1), Code::Value, "direction");
    is(read(|control| control.action = 0), Code::Missing, "action");
    is(read(|control| control.action = 3), Code::Value, "action");
    is(read(|control| control.target_port.clear()), Code::Missing, "target_port");
    is(read(|control| control.set_action(v1::TrafficControlAction::Mirror)), Code::Value, "return_port");
    is(read(|control| control.priority = 5), Code::Range, "priority");
    let mut problems = Problems::default();
    TrafficControl::read(&v1::TrafficControl { priority: 256, ..v1::TrafficControl::default() }, &mut problems);
    assert_eq!(problems.all().len(), 4, "{problems:?}");
}

#[test]
fn what_is_wrong_beside_others_is_found() {
    let objects = vec![Object::PeerNode(v1::PeerNode { tunnel_port: "probe0".to_owned(), ..peer() })];
    let mut there = node_state(&document_node(), pods().into_iter().chain(objects).collect());
    let check = |node_state: &mut NodeState, change: fn(&mut v1::TrafficControl), code: &str, field: &str| {
        let mut bad = traffic_control("web");
        change(&mut bad);
        let problems = degraded(node_state, Object::TrafficControl(bad));
        assert!(problems.iter().any(|found| found.code == code && found.field == field), "{code} {field}: {problems:?}");
    };
    check(&mut there, |control| control.target_port = "nowhere".to_owned(), "PORT", "target_port");
    check(&mut there, |control| control.target_port = "antrea-gw0".to_owned(), "PORT", "target_port");
    check(&mut there, |control| control.target_port = "db-755c6-5080e3".to_owned(), "PORT", "target_port");
    check(&mut there, |control| control.return_port = "antrea-tun0".to_owned(), "PORT", "return_port");
    check(&mut there, |control| control.return_port = "antrea-l7-tap1".to_owned(), "PORT", "return_port");
    check(&mut there, |control| control.return_port = "db-755c6-5080e3".to_owned(), "PORT", "return_port");
    check(&mut there, |control| control.return_port = "probe0".to_owned(), "PORT", "return_port");
    let good = v1::TrafficControl { target_port: "probe0".to_owned(), ..traffic_control("web") };
    crate::testing::apply(&mut there, vec![Object::TrafficControl(good)]);
    let mut node = document_node();
    node.features = Some(v1::Features { traffic_control: false, ..node.features.unwrap_or_default() });
    check(&mut node_state(&node, Vec::new()), |_| (), "FEATURE", "");
}
