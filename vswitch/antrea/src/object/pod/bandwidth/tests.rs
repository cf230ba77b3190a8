//! Limits of Pods.

use crate::testing::{apply, assert_has, document_node, dual_node, dump, node_state, pod};
use crate::{Key, MeterKey, NodeState, ObjectKind, Problems, Write};
use vswitch_flow::spec::Update;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

const BOTH: [bool; 2] = [true, false];

fn limited(ingress: u32, egress: u32) -> v1::Pod {
    let rate = |rate_kbps: u32| (rate_kbps != 0).then_some(v1::PodBandwidth { rate_kbps, burst_kb: 0 });
    v1::Pod { ingress_bandwidth: rate(ingress), egress_bandwidth: rate(egress), ..pod("web") }
}

/// Rates and bursts of meters of Pods, by id.
fn meters(node_state: &NodeState) -> Vec<(u32, u32, u32)> {
    let everything = node_state.store().everything();
    let meters = everything.iter().filter_map(|update| match update {
        Update::AddMeter(meter) if meter.id >= 1024 => Some((meter.id, meter.bands[0].rate, meter.bands[0].burst)),
        _ => None,
    });
    let mut meters: Vec<_> = meters.collect();
    meters.sort_unstable();
    meters
}

fn ids(node_state: &NodeState) -> [Option<u32>; 2] {
    BOTH.map(|ingress| node_state.ids().meter(&MeterKey { pod: "default/web".into(), ingress }))
}

#[test]
fn each_direction_is_a_meter() {
    let node = v1::NodeConfig {
        features: Some(v1::Features { multicast: true, l7_network_policy: false, ..document_node().features.unwrap() }),
        l7: None,
        ..document_node()
    };
    let node_state = node_state(&node, vec![Object::Pod(limited(100_000, 50_000))]);
    let to = "reg0=0x200000/0x600000,reg1=0x25";
    for line in [
        "table=PipelineRootClassifier, priority=205,ip,in_port=37 actions=meter:1025,goto_table:Classifier".to_owned(),
        "table=PipelineRootClassifier, priority=205,arp,in_port=37 actions=meter:1025,goto_table:ARPSpoofGuard".to_owned(),
        format!("table=Output, priority=220,{to},reg4=0/0x80800000 actions=meter:1024,set_field:0x80000000/0x80000000->reg4,resubmit(,Output)"),
        format!("table=MulticastOutput, priority=205,{to} actions=meter:1024,output:37"),
        format!("table=MulticastOutput, priority=206,in_port=37,{to} actions=output:37"),
    ] {
        assert_has(&node_state, &line);
    }
    assert_eq!(meters(&node_state), [(1024, 100_000, 25_000), (1025, 50_000, 12_500)]);
}

#[test]
fn what_an_engine_reads_first_is_counted_when_it_comes_back() {
    let node_state = node_state(&dual_node(), vec![Object::Pod(limited(1, 1))]);
    let actions = "actions=meter:1024,set_field:0x80000000/0x80000000->reg4,resubmit(,Output)";
    for matching in [
        "220,ct_mark=0/0x80,reg0=0x200000/0x600000",
        "221,reg0=0x200007/0x60000f",
        "222,ct_mark=0xc0/0xc0,reg0=0x200000/0x600000",
    ] {
        assert_has(&node_state, &format!("table=Output, priority={matching},reg1=0x25,reg4=0/0x80800000 {actions}"));
    }
    assert_has(&node_state, "table=PipelineRootClassifier, priority=205,ipv6,in_port=37 actions=meter:1025,goto_table:Classifier");
    assert_eq!(meters(&node_state), [(1024, 1, 2200), (1025, 1, 2200)]);
}

/// Nothing is different for a Pod without limits, and nothing stays of limits.
#[test]
fn limits_come_change_and_go_and_touch_nothing_else() {
    let mut node_state = node_state(&document_node(), vec![Object::Pod(pod("web")), Object::Pod(pod("db"))]);
    let before = dump(&node_state);
    let plan = node_state.plan(Write { objects: vec![Object::Pod(limited(1000, 0))], ..Write::default() });
    assert!(plan.result.applied && plan.flush.is_empty(), "{:?}", plan.flush);
    node_state.settle(plan);
    assert_eq!(ids(&node_state), [Some(1024), None]);
    let plan = node_state.plan(Write { objects: vec![Object::Pod(limited(2000, 0))], ..Write::default() });
    assert!(plan.flush.is_empty() && matches!(plan.updates[..], [Update::ModifyMeter(_)]), "{:?}", plan.updates);
    node_state.settle(plan);
    apply(&mut node_state, vec![Object::Pod(limited(0, 3000))]);
    assert_eq!(ids(&node_state), [None, Some(1025)]);
    apply(&mut node_state, vec![Object::Pod(pod("web"))]);
    assert_eq!((dump(&node_state), meters(&node_state), ids(&node_state)), (before, vec![], [None, None]));
    apply(&mut node_state, vec![Object::Pod(limited(1, 1))]);
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::Pod, "default/web")], ..Write::default() });
    node_state.settle(plan);
    assert_eq!((meters(&node_state), ids(&node_state)), (vec![], [None, None]));
}

#[test]
fn a_pod_without_an_effect_has_no_meter() {
    let held = v1::Pod { name: "default/x".to_owned(), ..limited(1, 1) };
    let node_state = node_state(&document_node(), vec![Object::Pod(pod("web")), Object::Pod(held)]);
    assert_eq!(meters(&node_state), []);
}

#[test]
fn wrong_limits_are_found() {
    let read = |rate_kbps: u32, burst_kb: u32| {
        let limit = Some(v1::PodBandwidth { rate_kbps, burst_kb });
        let mut problems = Problems::default();
        let pod = super::super::Pod::read(&v1::Pod { egress_bandwidth: limit, ..pod("web") }, &mut problems);
        (pod.and_then(|pod| pod.egress), problems.all().iter().map(|problem| problem.field.clone()).collect::<Vec<_>>())
    };
    assert_eq!(read(0, 0).1, ["egress_bandwidth.rate_kbps"]);
    assert_eq!(read(1, 524).1, ["egress_bandwidth.burst_kb"]);
    let burst = |rate, burst| read(rate, burst).0.map(|limit| limit.burst_kb);
    assert_eq!([burst(1, 525), burst(1, 0), burst(u32::MAX, 0)], [Some(525), Some(2200), Some(u32::MAX / 4)]);
    assert!(read(1, u32::MAX).1.is_empty());
}
