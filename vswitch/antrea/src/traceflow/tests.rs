//! Traceflows in a node state: what they write, and what is refused.

mod tell;

use super::{CONTROLLER, MARK, TAG_MAX, Traceflow};
use crate::problem::Code;
use crate::testing::{apply, assert_has, cluster, document_node, dual_node, dump, node_state, pod};
use crate::{Key, NodeState, ObjectKind, TraceflowRefused};
use std::sync::Arc;
use vswitch_flow::Field;
use vswitch_flow::spec::Update;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::traceflow_end::End;

fn end(end: End) -> Option<v1::TraceflowEnd> {
    Some(v1::TraceflowEnd { end: Some(end) })
}

fn to_pod(name: &str) -> Option<v1::TraceflowEnd> {
    end(End::Pod(format!("default/{name}")))
}

fn address(text: &str) -> Option<v1::TraceflowEnd> {
    end(End::Address(text.to_owned()))
}

fn service() -> Object {
    Object::Service(v1::Service {
        name: "default/shop".to_owned(),
        cluster_ips: vec!["10.96.1.1".to_owned()],
        ports: vec![v1::ServicePort {
            name: "http".to_owned(),
            protocol: v1::Protocol::Tcp.into(),
            port: 80,
            ..Default::default()
        }],
        ..Default::default()
    })
}

fn endpoints() -> Object {
    Object::Endpoints(v1::Endpoints {
        service: "default/shop".to_owned(),
        port: "http".to_owned(),
        endpoints: vec![v1::Endpoint {
            address: "10.10.0.24".to_owned(),
            port: 8080,
            ready: true,
            ..Default::default()
        }],
    })
}

/// Isolates web both ways; lets client to web; drops web to db.
fn policies() -> Vec<Object> {
    let group = |name: &str| {
        Object::AppliedToGroup(v1::AppliedToGroup {
            name: name.to_owned(),
            pods: vec![format!("default/{name}")],
            ..Default::default()
        })
    };
    let k8s = v1::NetworkPolicy {
        name: "np:default/web".to_owned(),
        kind: v1::PolicyKind::K8s.into(),
        applied_to: vec!["web".to_owned()],
        isolates_ingress: true,
        isolates_egress: true,
        ..Default::default()
    };
    let rule = |id: &str, action: v1::RuleAction| v1::Rule {
        id: id.to_owned(),
        direction: v1::Direction::Egress.into(),
        action: action.into(),
        ..Default::default()
    };
    let antrea = v1::NetworkPolicy {
        name: "acnp:client".to_owned(),
        kind: v1::PolicyKind::AntreaCluster.into(),
        tier: 250,
        priority: 5.0,
        applied_to: vec!["client".to_owned()],
        rules: vec![rule("no", v1::RuleAction::Reject)],
        ..Default::default()
    };
    vec![group("web"), group("client"), Object::NetworkPolicy(k8s), Object::NetworkPolicy(antrea)]
}

fn all() -> NodeState {
    let mut node_state = node_state(&document_node(), cluster());
    apply(&mut node_state, vec![Object::Pod(pod("web2")), service(), endpoints()]);
    apply(&mut node_state, policies());
    node_state
}

/// Asserts that there is this flow, with the Traceflow's time.
fn has(node_state: &NodeState, line: &str) {
    assert_has(node_state, &line.replacen(",metadata", ",hard_timeout=20,metadata", 1));
}

fn asked(source: Option<v1::TraceflowEnd>, destination: Option<v1::TraceflowEnd>) -> v1::Traceflow {
    v1::Traceflow { name: "t".to_owned(), source, destination, ..Default::default() }
}

fn live(source: Option<v1::TraceflowEnd>, destination: Option<v1::TraceflowEnd>) -> v1::Traceflow {
    v1::Traceflow { live: true, ..asked(source, destination) }
}

fn start(node_state: &mut NodeState, asked: &v1::Traceflow) -> (Arc<Traceflow>, Vec<Update>) {
    let (plan, traceflow) =
        node_state.plan_traceflow(asked, 7).unwrap_or_else(|refused| panic!("{asked:?}: {refused:?}"));
    let updates = plan.updates.clone();
    node_state.settle(plan);
    (traceflow, updates)
}

fn refusal(node_state: &mut NodeState, asked: &v1::Traceflow) -> TraceflowRefused {
    let before = (dump(node_state), format!("{:?}", node_state.ids()));
    let refused =
        node_state.plan_traceflow(asked, 7).map(|(plan, _)| node_state.revert(plan)).expect_err("it was not refused");
    assert!((dump(node_state), format!("{:?}", node_state.ids())) == before, "it left something");
    refused
}

#[test]
fn what_one_writes_goes_with_it_and_with_its_time() {
    let mut node_state = all();
    let before = (dump(&node_state), format!("{:?}", node_state.ids()));
    for asked in [
        asked(to_pod("client"), to_pod("web2")),
        live(to_pod("client"), None),
        v1::Traceflow { dropped_only: true, ..live(None, to_pod("web")) },
    ] {
        let (traceflow, updates) = start(&mut node_state, &asked);
        assert!(!updates.is_empty());
        for update in &updates {
            let Update::AddFlow(flow) = update else { panic!("{update:?}") };
            assert_eq!(flow.hard_timeout, 20, "{flow:?}");
            let (value, mask) = flow.matching.get(Field::Metadata);
            assert_eq!(mask, MARK, "it has to do with others: {flow:?}");
            assert!(value == u128::from(traceflow.tag) || value == 0, "{flow:?}");
        }
        let plan = node_state.plan_end_of_traceflow(&traceflow).expect("it runs");
        assert_eq!(plan.updates.len(), updates.len());
        node_state.settle(plan);
        assert!(node_state.plan_end_of_traceflow(&traceflow).is_none(), "it is over");
        assert_eq!(dump(&node_state), before.0);
        assert!(node_state.ids().cookie(&traceflow.key()).is_none());
    }
}

#[test]
fn a_reverted_one_was_never_there() {
    let mut node_state = all();
    let before = (dump(&node_state), format!("{:?}", node_state.ids()));
    let (plan, _) = node_state.plan_traceflow(&asked(to_pod("client"), to_pod("web2")), 7).expect("good");
    node_state.revert(plan);
    assert!((dump(&node_state), format!("{:?}", node_state.ids())) == before);
    assert_eq!(node_state.traceflows().count(), 0);
    let (traceflow, _) = start(&mut node_state, &asked(to_pod("client"), to_pod("web2")));
    let running = dump(&node_state);
    let plan = node_state.plan_end_of_traceflow(&traceflow).expect("it runs");
    node_state.revert(plan);
    assert!(dump(&node_state) == running && node_state.traceflows().count() == 1);
}

#[test]
fn a_packet_that_is_sent_ends_where_it_is_told() {
    let mut node_state = all();
    start(&mut node_state, &asked(to_pod("client"), to_pod("web2")));
    let tell = "controller(reason=no_match,id=62374,userdata=00,meter_id=257)";
    for line in [
        "table=Output, priority=64004,metadata=0x1/0x3f,reg0=0x400000/0x600000 actions=drop".to_owned(),
        format!("table=Output, priority=64001,metadata=0x1/0x3f,ip,reg0=0x200000/0x600000 actions=ct_forget,{tell}"),
        format!(
            "table=Output, priority=64002,metadata=0x1/0x3f,ip,reg0=0x200000/0x600000,reg1=0x1 actions=output:NXM_NX_REG1[],ct_forget,{tell}"
        ),
        format!("table=Output, priority=1,metadata=0x1/0x3f actions=ct_forget,{tell}"),
        format!("table=EgressMetric, priority=64000,metadata=0x1/0x3f,reg0=0x400/0x400 actions=ct_forget,{tell}"),
        format!(
            "table=EgressDefaultRule, priority=202,metadata=0x1/0x3f,ip,nw_src=10.10.0.24 actions=ct_forget,{tell}"
        ),
        format!("table=IngressDefaultRule, priority=202,metadata=0x1/0x3f,reg1=0x25 actions=ct_forget,{tell}"),
        format!("table=ConntrackState, priority=201,metadata=0x1/0x3f,ct_state=+inv+trk,ip actions=ct_forget,{tell}"),
        format!(
            "table=EgressMark, priority=191,metadata=0x1/0x3f,ct_state=+new+trk,ip,reg0=0x1/0xf actions=ct_forget,{tell}"
        ),
        format!("table=L3DecTTL, priority=205,metadata=0x1/0x3f,ip,nw_ttl=1 actions=ct_forget,{tell}"),
    ] {
        has(&node_state, &line);
    }
    let lookups = dump(&node_state).remove("ServiceLB").unwrap_or_default();
    assert!(!lookups.iter().any(|line| line.contains("metadata")), "lookups drop nothing: {lookups:?}");
    assert_eq!(CONTROLLER, 62374);
}

#[test]
fn a_live_packet_goes_on_as_it_would() {
    let mut node_state = all();
    let tell = "controller(reason=no_match,id=62374,userdata=00,meter_id=257)";
    let packet = v1::TraceflowPacket { protocol: v1::Protocol::Tcp.into(), destination_port: 80, ..Default::default() };
    let asked = v1::Traceflow {
        packet: Some(packet),
        tag: 9,
        ..live(to_pod("client"), end(End::Service("default/shop".to_owned())))
    };
    let (traceflow, _) = start(&mut node_state, &asked);
    has(
        &node_state,
        "table=ConntrackState, priority=64000,metadata=0/0x3f,ct_state=+new+trk,tcp,in_port=0x24,nw_dst=10.96.1.1,tp_dst=80 \
         actions=move:NXM_OF_ETH_DST[]->OXM_OF_PKT_REG5[0..47],move:NXM_NX_IP_TTL[]->OXM_OF_METADATA[8..15],\
         set_field:0x9/0x3f->metadata,resubmit(,ConntrackState)",
    );
    has(
        &node_state,
        &format!(
            "table=Output, priority=64001,metadata=0x9/0x3f,ip,reg0=0x200000/0x600000 actions=clone(set_field:0->metadata,resubmit(,Output)),{tell}"
        ),
    );
    has(
        &node_state,
        &format!(
            "table=Output, priority=64002,metadata=0x9/0x3f,ip,reg0=0x200000/0x600000,reg1=0x1 actions=clone(set_field:0->metadata,set_field:9->ip_dscp,resubmit(,Output)),{tell}"
        ),
    );
    has(
        &node_state,
        &format!(
            "table=IngressMetric, priority=64000,metadata=0x9/0x3f,reg0=0x400/0x400 actions=clone(set_field:0->metadata,resubmit(,IngressMetric)),{tell}"
        ),
    );
    let plan = node_state.plan_end_of_traceflow(&traceflow).expect("it runs");
    node_state.settle(plan);
    // To a Pod, from anybody; only what is dropped.
    start(&mut node_state, &v1::Traceflow { dropped_only: true, ..live(None, to_pod("web")) });
    has(
        &node_state,
        "table=L2ForwardingCalc, priority=64000,metadata=0/0x3f,ct_state=+new+trk,ip,dl_dst=fa:b7:53:74:21:a6 \
         actions=set_field:0x1/0x3f->metadata,resubmit(,L2ForwardingCalc)",
    );
    let output = dump(&node_state).remove("Output").unwrap_or_default();
    let told: Vec<&String> =
        output.iter().filter(|line| line.contains("metadata=0x1") && line.contains("controller")).collect();
    assert_eq!(told.len(), 1, "what leaves is not told: {told:?}");
}

#[test]
fn a_receiver_takes_what_comes_with_the_tag() {
    let mut node_state = node_state(&dual_node(), Vec::new());
    let receiver = v1::Traceflow { tag: 5, role: v1::TraceflowRole::Receiver.into(), ..asked(None, None) };
    let (traceflow, _) = start(&mut node_state, &receiver);
    for ip in ["ip", "ipv6"] {
        has(
            &node_state,
            &format!(
                "table=ConntrackState, priority=64000,metadata=0/0x3f,ct_state=-rpl+trk,{ip},in_port=0x1,ip_dscp=5 \
                 actions=set_field:0x5/0x3f->metadata,resubmit(,ConntrackState)"
            ),
        );
    }
    assert!(traceflow.packet_out().is_none());
    let plan = node_state.plan_end_of_traceflow(&traceflow).expect("it runs");
    node_state.settle(plan);
    start(&mut node_state, &v1::Traceflow { live: true, dropped_only: true, ..receiver });
    has(
        &node_state,
        "table=Output, priority=64001,metadata=0x5/0x3f,ip,reg0=0x200000/0x600000 actions=set_field:0->metadata,set_field:0->ip_dscp,resubmit(,Output)",
    );
}

#[test]
fn policies_that_come_and_go_are_seen() {
    let mut node_state = all();
    start(&mut node_state, &live(None, to_pod("db")));
    let isolated = |node_state: &NodeState| {
        dump(node_state)
            .remove("IngressDefaultRule")
            .unwrap_or_default()
            .iter()
            .filter(|line| line.contains("metadata"))
            .count()
    };
    assert_eq!(isolated(&node_state), 1);
    let remove = vec![Key::new(ObjectKind::NetworkPolicy, "np:default/web")];
    let plan = node_state.plan(crate::Write { remove, ..crate::Write::default() });
    assert!(plan.result.applied);
    node_state.settle(plan);
    assert_eq!(isolated(&node_state), 0);
    apply(&mut node_state, policies());
    assert_eq!(isolated(&node_state), 1);
    // A write that is refused leaves it as it was.
    let before = dump(&node_state);
    let plan = node_state.plan(crate::Write {
        objects: vec![Object::Pod(v1::Pod { addresses: vec!["x".to_owned()], ..pod("db") })],
        ..Default::default()
    });
    assert!(!plan.result.applied);
    node_state.revert(plan);
    assert!(dump(&node_state) == before);
}

#[test]
fn tags_are_given_out_and_run_out() {
    let mut node_state = all();
    for tag in 1..=TAG_MAX {
        let asked = v1::Traceflow { name: tag.to_string(), ..asked(to_pod("client"), to_pod("web2")) };
        assert_eq!(start(&mut node_state, &asked).0.tag, tag);
    }
    let more = v1::Traceflow { name: "more".to_owned(), ..asked(to_pod("client"), to_pod("web2")) };
    assert_eq!(refusal(&mut node_state, &more), TraceflowRefused::Exhausted);
    assert!(
        matches!(refusal(&mut node_state, &v1::Traceflow { tag: 5, ..more.clone() }), TraceflowRefused::Exists(text) if text.contains("tag 5"))
    );
    let fifth = node_state.traceflows().nth(4).cloned().expect("it runs");
    let plan = node_state.plan_end_of_traceflow(&fifth).expect("it runs");
    node_state.settle(plan);
    let same = v1::Traceflow { name: "6".to_owned(), ..more.clone() };
    assert!(matches!(refusal(&mut node_state, &same), TraceflowRefused::Exists(text) if text.contains("with tag 6")));
    assert_eq!(start(&mut node_state, &more).0.tag, 5);
    assert!(node_state.plan_end_of_traceflow(&fifth).is_none(), "its tag is another's now");
}

/// Fields that are told as wrong.
fn wrong(node_state: &mut NodeState, asked: &v1::Traceflow) -> Vec<(Code, String)> {
    match refusal(node_state, asked) {
        TraceflowRefused::Wrong(problems) => {
            problems.all().iter().map(|problem| (problem.code, problem.field.clone())).collect()
        }
        other => panic!("{asked:?}: {other:?}"),
    }
}

#[test]
fn every_wrong_field_is_named() {
    use v1::Protocol::{Igmp, Tcp};
    let mut node_state = all();
    let good = || asked(to_pod("client"), to_pod("web2"));
    let packet = |packet: v1::TraceflowPacket| v1::Traceflow { packet: Some(packet), ..good() };
    let of = v1::TraceflowPacket::default;
    let receiver = v1::TraceflowRole::Receiver.into();
    let cases: Vec<(v1::Traceflow, Code, &str)> = vec![
        (v1::Traceflow { name: String::new(), ..good() }, Code::Missing, "name"),
        (v1::Traceflow { name: "a\nb".to_owned(), ..good() }, Code::Value, "name"),
        (v1::Traceflow { tag: 64, ..good() }, Code::Range, "tag"),
        (v1::Traceflow { role: receiver, ..good() }, Code::Missing, "tag"),
        (v1::Traceflow { role: 9, ..good() }, Code::Value, "role"),
        (v1::Traceflow { timeout_seconds: 301, ..good() }, Code::Range, "timeout_seconds"),
        (v1::Traceflow { dropped_only: true, ..good() }, Code::Value, "dropped_only"),
        (asked(to_pod("nobody"), to_pod("web")), Code::Reference, "source.pod"),
        (asked(to_pod("web"), to_pod("nobody")), Code::Reference, "destination.pod"),
        (asked(to_pod("web"), end(End::Service("a/b".to_owned()))), Code::Reference, "destination.service"),
        (asked(end(End::Service("default/shop".to_owned())), to_pod("web")), Code::Value, "source.service"),
        (asked(None, to_pod("web")), Code::Missing, "source"),
        (asked(address("8.8.8.8"), to_pod("web")), Code::Missing, "source"),
        (asked(to_pod("web"), None), Code::Missing, "destination"),
        (asked(to_pod("web"), Some(v1::TraceflowEnd::default())), Code::Missing, "destination"),
        (asked(to_pod("web"), address("10.0.0")), Code::Value, "destination.address"),
        (asked(to_pod("web"), address("224.0.0.1")), Code::Value, "destination.address"),
        (asked(to_pod("web"), address("::ffff:10.0.0.1")), Code::Value, "destination.address"),
        (asked(to_pod("web"), address("fd00::1")), Code::Family, "destination.address"),
        (live(None, None), Code::Missing, "source"),
        (packet(v1::TraceflowPacket { family: v1::Families::Ipv6.into(), ..of() }), Code::Family, "packet.family"),
        (packet(v1::TraceflowPacket { family: v1::Families::Dual.into(), ..of() }), Code::Value, "packet.family"),
        (packet(v1::TraceflowPacket { protocol: Igmp.into(), ..of() }), Code::Value, "packet.protocol"),
        (packet(v1::TraceflowPacket { protocol: 77, ..of() }), Code::Value, "packet.protocol"),
        (packet(v1::TraceflowPacket { destination_port: 80, ..of() }), Code::Value, "packet.destination_port"),
        (
            packet(v1::TraceflowPacket { protocol: Tcp.into(), source_port: 65536, ..of() }),
            Code::Range,
            "packet.source_port",
        ),
        (packet(v1::TraceflowPacket { tcp_flags: 2, ..of() }), Code::Value, "packet.tcp_flags"),
        (
            packet(v1::TraceflowPacket { protocol: Tcp.into(), tcp_flags: 0x200, ..of() }),
            Code::Range,
            "packet.tcp_flags",
        ),
        (packet(v1::TraceflowPacket { ttl: 256, ..of() }), Code::Range, "packet.ttl"),
        (packet(v1::TraceflowPacket { payload_len: 1001, ..of() }), Code::Range, "packet.payload_len"),
        (v1::Traceflow { live: true, ..packet(v1::TraceflowPacket { ttl: 1, ..of() }) }, Code::Value, "packet.ttl"),
    ];
    for (asked, code, field) in cases {
        let told = wrong(&mut node_state, &asked);
        assert_eq!(told, [(code, field.to_owned())], "{asked:?}");
    }
    let many = v1::Traceflow { tag: 99, timeout_seconds: 9999, ..asked(to_pod("nobody"), address("x")) };
    let fields: Vec<String> = wrong(&mut node_state, &many).into_iter().map(|(_, field)| field).collect();
    assert_eq!(fields, ["tag", "timeout_seconds", "source.pod", "destination.address"]);
}
