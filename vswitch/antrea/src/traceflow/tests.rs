//! Traceflows in a room: what they write, what they tell, what is refused.

use super::{CONTROLLER, MARK, Seen, TAG_MAX, Told, Traceflow};
use crate::problem::Code;
use crate::testing::{apply, assert_has, cluster, document_node, dual_node, dump, pod, room};
use crate::{Key, Kind, Room, Table, TraceflowRefused};
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_flow::extract::extract;
use vswitch_flow::spec::Update;
use vswitch_flow::{Field, FlowKey};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::traceflow_end::End;
use vswitch_proto::antrea::v1::{TraceflowAction as Action, TraceflowComponent as Component};

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
        ports: vec![v1::ServicePort { name: "http".to_owned(), protocol: v1::Protocol::Tcp.into(), port: 80, ..Default::default() }],
        ..Default::default()
    })
}

fn endpoints() -> Object {
    Object::Endpoints(v1::Endpoints {
        service: "default/shop".to_owned(),
        port: "http".to_owned(),
        endpoints: vec![v1::Endpoint { address: "10.10.0.24".to_owned(), port: 8080, ready: true, ..Default::default() }],
    })
}

/// Isolates web both ways; lets client to web; drops web to db.
fn policies() -> Vec<Object> {
    let group = |name: &str| Object::AppliedToGroup(v1::AppliedToGroup { name: name.to_owned(), pods: vec![format!("default/{name}")], ..Default::default() });
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

fn all() -> Room {
    let mut room = room(&document_node(), cluster());
    apply(&mut room, vec![Object::Pod(pod("web2")), service(), endpoints()]);
    apply(&mut room, policies());
    room
}

fn asked(source: Option<v1::TraceflowEnd>, destination: Option<v1::TraceflowEnd>) -> v1::Traceflow {
    v1::Traceflow { name: "t".to_owned(), source, destination, ..Default::default() }
}

fn live(source: Option<v1::TraceflowEnd>, destination: Option<v1::TraceflowEnd>) -> v1::Traceflow {
    v1::Traceflow { live: true, ..asked(source, destination) }
}

fn start(room: &mut Room, asked: &v1::Traceflow) -> (Arc<Traceflow>, Vec<Update>) {
    let (plan, traceflow) = room.plan_traceflow(asked, 7).unwrap_or_else(|refused| panic!("{asked:?}: {refused:?}"));
    let updates = plan.updates.clone();
    room.settle(plan);
    (traceflow, updates)
}

fn refusal(room: &mut Room, asked: &v1::Traceflow) -> TraceflowRefused {
    let before = (dump(room), format!("{:?}", room.ids()));
    let refused = room.plan_traceflow(asked, 7).map(|(plan, _)| room.revert(plan)).expect_err("it was not refused");
    assert!((dump(room), format!("{:?}", room.ids())) == before, "it left something");
    refused
}

#[test]
fn what_one_writes_goes_with_it_and_with_its_time() {
    let mut room = all();
    let before = (dump(&room), format!("{:?}", room.ids()));
    for asked in [asked(to_pod("client"), to_pod("web2")), live(to_pod("client"), None), v1::Traceflow { dropped_only: true, ..live(None, to_pod("web")) }] {
        let (traceflow, updates) = start(&mut room, &asked);
        assert!(!updates.is_empty());
        for update in &updates {
            let Update::AddFlow(flow) = update else { panic!("{update:?}") };
            assert_eq!(flow.hard_timeout, 20, "{flow:?}");
            let (value, mask) = flow.matching.get(Field::Metadata);
            assert_eq!(mask, MARK, "it has to do with others: {flow:?}");
            assert!(value == u128::from(traceflow.tag) || value == 0, "{flow:?}");
        }
        let plan = room.plan_end_of_traceflow(&traceflow).expect("it runs");
        assert_eq!(plan.updates.len(), updates.len());
        room.settle(plan);
        assert!(room.plan_end_of_traceflow(&traceflow).is_none(), "it is over");
        assert_eq!(dump(&room), before.0);
        assert!(room.ids().cookie(&traceflow.key()).is_none());
    }
}

#[test]
fn a_reverted_one_was_never_there() {
    let mut room = all();
    let before = (dump(&room), format!("{:?}", room.ids()));
    let (plan, _) = room.plan_traceflow(&asked(to_pod("client"), to_pod("web2")), 7).expect("good");
    room.revert(plan);
    assert!((dump(&room), format!("{:?}", room.ids())) == before);
    assert_eq!(room.traceflows().count(), 0);
    let (traceflow, _) = start(&mut room, &asked(to_pod("client"), to_pod("web2")));
    let running = dump(&room);
    let plan = room.plan_end_of_traceflow(&traceflow).expect("it runs");
    room.revert(plan);
    assert!(dump(&room) == running && room.traceflows().count() == 1);
}

#[test]
fn a_packet_that_is_sent_ends_where_it_is_told() {
    let mut room = all();
    start(&mut room, &asked(to_pod("client"), to_pod("web2")));
    let tell = "controller(reason=no_match,id=62374,userdata=00,meter_id=257)";
    for line in [
        "table=Output, priority=64004,metadata=0x1/0x3f,reg0=0x400000/0x600000 actions=drop".to_owned(),
        format!("table=Output, priority=64001,metadata=0x1/0x3f,ip,reg0=0x200000/0x600000 actions=ct_forget,{tell}"),
        format!("table=Output, priority=64002,metadata=0x1/0x3f,ip,reg0=0x200000/0x600000,reg1=0x1 actions=output:NXM_NX_REG1[],ct_forget,{tell}"),
        format!("table=Output, priority=1,metadata=0x1/0x3f actions=ct_forget,{tell}"),
        format!("table=EgressMetric, priority=64000,metadata=0x1/0x3f,reg0=0x400/0x400 actions=ct_forget,{tell}"),
        format!("table=EgressDefaultRule, priority=202,metadata=0x1/0x3f,ip,nw_src=10.10.0.24 actions=ct_forget,{tell}"),
        format!("table=IngressDefaultRule, priority=202,metadata=0x1/0x3f,reg1=0x25 actions=ct_forget,{tell}"),
        format!("table=ConntrackState, priority=201,metadata=0x1/0x3f,ct_state=+inv+trk,ip actions=ct_forget,{tell}"),
        format!("table=EgressMark, priority=191,metadata=0x1/0x3f,ct_state=+new+trk,ip,reg0=0x1/0xf actions=ct_forget,{tell}"),
        format!("table=L3DecTTL, priority=205,metadata=0x1/0x3f,ip,nw_ttl=1 actions=ct_forget,{tell}"),
    ] {
        assert_has(&room, &line);
    }
    let lookups = dump(&room).remove("ServiceLB").unwrap_or_default();
    assert!(!lookups.iter().any(|line| line.contains("metadata")), "lookups drop nothing: {lookups:?}");
    assert_eq!(CONTROLLER, 62374);
}

#[test]
fn a_live_packet_goes_on_as_it_would() {
    let mut room = all();
    let tell = "controller(reason=no_match,id=62374,userdata=00,meter_id=257)";
    let packet = v1::TraceflowPacket { protocol: v1::Protocol::Tcp.into(), destination_port: 80, ..Default::default() };
    let asked = v1::Traceflow { packet: Some(packet), tag: 9, ..live(to_pod("client"), end(End::Service("default/shop".to_owned()))) };
    let (traceflow, _) = start(&mut room, &asked);
    assert_has(
        &room,
        "table=ConntrackState, priority=64000,metadata=0/0x3f,ct_state=+new+trk,tcp,in_port=0x24,nw_dst=10.96.1.1,tp_dst=80 \
         actions=move:NXM_OF_ETH_DST[]->OXM_OF_PKT_REG5[0..47],move:NXM_NX_IP_TTL[]->OXM_OF_METADATA[8..15],\
         set_field:0x9/0x3f->metadata,resubmit(,ConntrackState)",
    );
    assert_has(&room, &format!("table=Output, priority=64001,metadata=0x9/0x3f,ip,reg0=0x200000/0x600000 actions=clone(set_field:0->metadata,resubmit(,Output)),{tell}"));
    assert_has(&room, &format!("table=Output, priority=64002,metadata=0x9/0x3f,ip,reg0=0x200000/0x600000,reg1=0x1 actions=clone(set_field:0->metadata,set_field:9->ip_dscp,resubmit(,Output)),{tell}"));
    assert_has(&room, &format!("table=IngressMetric, priority=64000,metadata=0x9/0x3f,reg0=0x400/0x400 actions=clone(set_field:0->metadata,resubmit(,IngressMetric)),{tell}"));
    let plan = room.plan_end_of_traceflow(&traceflow).expect("it runs");
    room.settle(plan);
    // To a Pod, from anybody; only what is dropped.
    start(&mut room, &v1::Traceflow { dropped_only: true, ..live(None, to_pod("web")) });
    assert_has(
        &room,
        "table=L2ForwardingCalc, priority=64000,metadata=0/0x3f,ct_state=+new+trk,ip,dl_dst=fa:b7:53:74:21:a6 \
         actions=set_field:0x1/0x3f->metadata,resubmit(,L2ForwardingCalc)",
    );
    let output = dump(&room).remove("Output").unwrap_or_default();
    let told: Vec<&String> = output.iter().filter(|line| line.contains("metadata=0x1") && line.contains("controller")).collect();
    assert_eq!(told.len(), 1, "what leaves is not told: {told:?}");
}

#[test]
fn a_receiver_takes_what_comes_with_the_tag() {
    let mut room = room(&dual_node(), cluster());
    let receiver = v1::Traceflow { tag: 5, role: v1::TraceflowRole::Receiver.into(), ..asked(None, None) };
    let (traceflow, _) = start(&mut room, &receiver);
    for ip in ["ip", "ipv6"] {
        assert_has(
            &room,
            &format!(
                "table=ConntrackState, priority=64000,metadata=0/0x3f,ct_state=-rpl+trk,{ip},in_port=0x1,ip_dscp=5 \
                 actions=set_field:0x5/0x3f->metadata,resubmit(,ConntrackState)"
            ),
        );
    }
    assert!(traceflow.packet_out().is_none());
    let plan = room.plan_end_of_traceflow(&traceflow).expect("it runs");
    room.settle(plan);
    start(&mut room, &v1::Traceflow { live: true, dropped_only: true, ..receiver });
    assert_has(&room, "table=Output, priority=64001,metadata=0x5/0x3f,ip,reg0=0x200000/0x600000 actions=set_field:0->metadata,set_field:0->ip_dscp,resubmit(,Output)");
}

#[test]
fn policies_that_come_and_go_are_seen() {
    let mut room = all();
    start(&mut room, &live(None, to_pod("db")));
    let isolated = |room: &Room| dump(room).remove("IngressDefaultRule").unwrap_or_default().iter().filter(|line| line.contains("metadata")).count();
    assert_eq!(isolated(&room), 1);
    let remove = vec![Key::new(Kind::NetworkPolicy, "np:default/web")];
    let plan = room.plan(crate::Write { remove, ..crate::Write::default() });
    assert!(plan.result.applied);
    room.settle(plan);
    assert_eq!(isolated(&room), 0);
    apply(&mut room, policies());
    assert_eq!(isolated(&room), 1);
    // A write that is refused leaves it as it was.
    let before = dump(&room);
    let plan = room.plan(crate::Write { objects: vec![Object::Pod(v1::Pod { addresses: vec!["x".to_owned()], ..pod("db") })], ..Default::default() });
    assert!(!plan.result.applied);
    room.revert(plan);
    assert!(dump(&room) == before);
}

#[test]
fn tags_are_given_out_and_run_out() {
    let mut room = all();
    for tag in 1..=TAG_MAX {
        let asked = v1::Traceflow { name: tag.to_string(), ..asked(to_pod("client"), to_pod("web2")) };
        assert_eq!(start(&mut room, &asked).0.tag, tag);
    }
    let more = v1::Traceflow { name: "more".to_owned(), ..asked(to_pod("client"), to_pod("web2")) };
    assert_eq!(refusal(&mut room, &more), TraceflowRefused::Exhausted);
    assert!(matches!(refusal(&mut room, &v1::Traceflow { tag: 5, ..more.clone() }), TraceflowRefused::Exists(text) if text.contains("tag 5")));
    let fifth = room.traceflows().nth(4).cloned().expect("it runs");
    let plan = room.plan_end_of_traceflow(&fifth).expect("it runs");
    room.settle(plan);
    let same = v1::Traceflow { name: "6".to_owned(), ..more.clone() };
    assert!(matches!(refusal(&mut room, &same), TraceflowRefused::Exists(text) if text.contains("with tag 6")));
    assert_eq!(start(&mut room, &more).0.tag, 5);
    assert!(room.plan_end_of_traceflow(&fifth).is_none(), "its tag is another's now");
}

/// Fields that are told as wrong.
fn wrong(room: &mut Room, asked: &v1::Traceflow) -> Vec<(Code, String)> {
    match refusal(room, asked) {
        TraceflowRefused::Wrong(problems) => problems.all().iter().map(|problem| (problem.code, problem.field.clone())).collect(),
        other => panic!("{asked:?}: {other:?}"),
    }
}

#[test]
fn every_wrong_field_is_named() {
    use v1::Protocol::{Igmp, Tcp};
    let mut room = all();
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
        (packet(v1::TraceflowPacket { protocol: Tcp.into(), source_port: 65536, ..of() }), Code::Range, "packet.source_port"),
        (packet(v1::TraceflowPacket { tcp_flags: 2, ..of() }), Code::Value, "packet.tcp_flags"),
        (packet(v1::TraceflowPacket { protocol: Tcp.into(), tcp_flags: 0x200, ..of() }), Code::Range, "packet.tcp_flags"),
        (packet(v1::TraceflowPacket { ttl: 256, ..of() }), Code::Range, "packet.ttl"),
        (packet(v1::TraceflowPacket { payload_len: 1001, ..of() }), Code::Range, "packet.payload_len"),
        (v1::Traceflow { live: true, ..packet(v1::TraceflowPacket { ttl: 1, ..of() }) }, Code::Value, "packet.ttl"),
    ];
    for (asked, code, field) in cases {
        let told = wrong(&mut room, &asked);
        assert_eq!(told, [(code, field.to_owned())], "{asked:?}");
    }
    let many = v1::Traceflow { tag: 99, timeout_seconds: 9999, ..asked(to_pod("nobody"), address("x")) };
    let fields: Vec<String> = wrong(&mut room, &many).into_iter().map(|(_, field)| field).collect();
    assert_eq!(fields, ["tag", "timeout_seconds", "source.pod", "destination.address"]);
}

/// The packet of a Traceflow as its controller gets it: with other metadata, and sent to somebody else.
fn seen(traceflow: &Traceflow, table: Table, metadata: &[(Field, u128)]) -> (u8, FlowKey, Vec<u8>) {
    let packet = traceflow.packet_out().map(|out| out.packet).unwrap_or_default();
    let mut key = FlowKey::default();
    key.set(Field::InPort, 0x24);
    key.set(Field::Metadata, traceflow.tag.into());
    for (field, value) in metadata {
        key.set(*field, *value);
    }
    (table.number(), key, packet)
}

fn tell(room: &Room, traceflow: &Arc<Traceflow>, (table, metadata, packet): (u8, FlowKey, Vec<u8>)) -> Told {
    room.tell_traceflow(traceflow, &Seen { table, metadata: &metadata, packet: &packet }).expect("it runs")
}

/// Components, actions and what else is told, in short.
fn short(told: &Told) -> Vec<String> {
    let one = |told: &v1::TraceflowObservation| {
        let rule = told.rule.as_ref().map(|rule| format!("{} {}", rule.policy, rule.rule)).unwrap_or_default();
        let parts = [
            format!("{:?}", told.component()),
            format!("{:?}", told.action()),
            told.table.clone(),
            told.pod.clone(),
            told.service.clone(),
            rule.trim().to_owned(),
            told.egress.clone(),
            told.translated_source.clone(),
            told.translated_destination.clone(),
            told.tunnel_destination.clone(),
            told.reason.clone(),
        ];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    };
    told.observations.iter().map(one).collect()
}

const BEGAN: &str = "SpoofGuard Forwarded SpoofGuard default/client";
const OUT: (Field, u128) = (Field::Reg0, 0x20_0000);

#[test]
fn a_packet_tells_where_it_left() {
    let mut room = all();
    let (traceflow, _) = start(&mut room, &asked(to_pod("client"), to_pod("web2")));
    let told = |room: &Room, metadata: &[(Field, u128)]| short(&tell(room, &traceflow, seen(&traceflow, Table::Output, metadata)));
    assert_eq!(told(&room, &[OUT, (Field::Reg1, 0x2a)]), [BEGAN, "Forwarding Delivered Output default/web2"]);
    let tunnel = [OUT, (Field::Reg1, 1), (Field::TunDst, 0xc0a8_4d67)];
    assert_eq!(told(&room, &tunnel), [BEGAN, "Forwarding Forwarded Output 192.168.77.103"]);
    assert_eq!(told(&room, &[OUT, (Field::Reg1, 2)])[1], "Forwarding Forwarded Output by port antrea-gw0");
    assert_eq!(told(&room, &[(Field::Reg1, 2)])[1], "Forwarding Dropped Output there is no way to its destination");
    let led = [OUT, (Field::Reg1, 0x2a), (Field::Reg4, 0x80_0000), (Field::Reg9, 0x22)];
    assert_eq!(told(&room, &led)[1], "Forwarding Delivered Output default/web2 redirected by port antrea-tc-tap0");
    let remote = [(Field::Reg0, 0x28_0000), (Field::Reg1, 1), (Field::TunDst, 0xc0a8_4d71)];
    assert_eq!(
        told(&room, &remote),
        [BEGAN, "Egress Forwarded EgressMark egress-client 192.168.77.113 192.168.77.113", "Forwarding Forwarded Output 192.168.77.113"]
    );
    let other = Arc::new(Traceflow::clone(&traceflow));
    let (table, metadata, packet) = seen(&traceflow, Table::Output, &[OUT]);
    assert!(room.tell_traceflow(&other, &Seen { table, metadata: &metadata, packet: &packet }).is_none());
}

#[test]
fn a_packet_tells_who_let_it_pass_and_who_did_not() {
    let mut room = all();
    let (traceflow, _) = start(&mut room, &asked(to_pod("client"), to_pod("web")));
    let number = room.ids().rule_by_name("acnp:client", "no").expect("a rule");
    let told = |table, metadata: &[(Field, u128)]| short(&tell(&room, &traceflow, seen(&traceflow, table, metadata)));
    assert_eq!(
        told(Table::EgressMetric, &[(Field::Reg0, 0x400), (Field::Reg3, number.into())]),
        [BEGAN, "NetworkPolicy Rejected EgressMetric acnp:client no Reject"]
    );
    assert_eq!(
        told(Table::IngressDefaultRule, &[OUT, (Field::Reg1, 0x25)]),
        [BEGAN, "NetworkPolicy Dropped IngressDefaultRule np:default/web Drop"]
    );
    assert_eq!(
        told(Table::Output, &[OUT, (Field::Reg1, 0x25), (Field::Reg5, number.into())])[1],
        "NetworkPolicy Forwarded AntreaPolicyEgressRule acnp:client no Reject"
    );
    let unknown = tell(&room, &traceflow, seen(&traceflow, Table::IngressMetric, &[(Field::Reg3, 4711)]));
    assert_eq!(unknown.observations[1].rule, Some(v1::RuleRef { number: 4711, ..Default::default() }));
    for (table, component) in [
        (Table::ConntrackState, Component::Forwarding),
        (Table::ServiceLb, Component::Lb),
        (Table::EndpointDnat, Component::Lb),
        (Table::EgressMark, Component::Egress),
        (Table::L3DecTtl, Component::Routing),
    ] {
        let told = tell(&room, &traceflow, seen(&traceflow, table, &[]));
        let last = told.observations.last().expect("an observation");
        assert_eq!((last.component(), last.action(), last.table.as_str()), (component, Action::Dropped, table.name()));
        assert!(!last.reason.is_empty());
    }
}

#[test]
fn an_endpoint_and_an_egress_are_told() {
    let mut room = all();
    let to = end(End::Service("default/shop".to_owned()));
    let (traceflow, _) = start(&mut room, &asked(to_pod("client"), to));
    let group = room.ids().groups_of("default/shop")[0];
    let (table, metadata, mut packet) = seen(&traceflow, Table::Output, &[OUT, (Field::Reg1, 0x25), (Field::Reg7, group.into())]);
    let mut key = FlowKey::default();
    let _ = extract(&packet, packet.len(), &mut key);
    assert_eq!((key.get(Field::NwDst), key.get(Field::TpDst), key.get(Field::TcpFlags)), (0x0a60_0101, 80, 2));
    packet[30..34].copy_from_slice(&[10, 10, 0, 24]);
    packet[36..38].copy_from_slice(&8080_u16.to_be_bytes());
    let told = tell(&room, &traceflow, (table, metadata, packet));
    assert_eq!(
        short(&told),
        [BEGAN, "Lb Forwarded EndpointDNAT default/shop:http 10.10.0.24", "Forwarding Delivered Output default/web"]
    );
    assert_eq!(told.observations[1].translated_port, 8080);
    let (outside, _) = start(&mut room, &v1::Traceflow { name: "o".to_owned(), ..asked(to_pod("web"), address("203.0.113.1")) });
    let mark = room.ids().mark(&IpAddr::from([192, 168, 77, 112])).expect("a mark");
    let marked = [(Field::Reg0, 0x20_0020), (Field::Reg1, 2), (Field::InPort, 0x25), (Field::PktMark, mark.into())];
    assert_eq!(
        short(&tell(&room, &outside, seen(&outside, Table::Output, &marked))),
        [
            "SpoofGuard Forwarded SpoofGuard default/web",
            "Egress MarkedForSnat EgressMark egress-web 192.168.77.112",
            "Forwarding ForwardedOutOfOverlay Output"
        ]
    );
}

#[test]
fn a_live_packet_is_told_as_it_came_in() {
    let mut room = all();
    let packet = Some(v1::TraceflowPacket { protocol: v1::Protocol::Tcp.into(), ..Default::default() });
    let (sent, _) = start(&mut room, &v1::Traceflow { name: "s".to_owned(), packet, ..asked(to_pod("client"), address("10.96.1.1")) });
    let came = sent.packet_out().expect("a packet").packet;
    let (traceflow, _) = start(&mut room, &live(to_pod("client"), address("10.96.1.1")));
    let mut left = came.clone();
    left[0..6].copy_from_slice(&[0xfa, 0xb7, 0x53, 0x74, 0x21, 0xa6]);
    left[22] = 63;
    left[30..34].copy_from_slice(&[10, 10, 0, 24]);
    left[36..38].copy_from_slice(&8080_u16.to_be_bytes());
    let mac = came[0..6].iter().fold(0, |mac, octet| mac << 8 | u128::from(*octet));
    let mark = u128::from(traceflow.tag) | 64 << 8;
    let dnat = [(Field::CtState, 0xa1), (Field::CtNwDst, 0x0a60_0101), (Field::CtTpDst, 80)];
    let mut metadata = vec![OUT, (Field::Reg1, 0x25), (Field::Xreg5, mac), (Field::Metadata, mark)];
    metadata.extend(dnat);
    let (table, key, _) = seen(&traceflow, Table::Output, &metadata);
    let told = tell(&room, &traceflow, (table, key, left));
    let packet = told.packet.expect("its bytes");
    // Checksums were not made new above: they differ by what the sums differ by.
    let without_sums = |bytes: &[u8]| [&bytes[..24], &bytes[26..50], &bytes[52..]].concat();
    assert_eq!(without_sums(&packet), without_sums(&came));
    assert_eq!(told.observations[1].component(), Component::Lb);
}

#[test]
fn nothing_that_is_told_breaks_it() {
    let mut room = all();
    let (traceflow, _) = start(&mut room, &live(to_pod("client"), None));
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    for _ in 0..2000 {
        let mut key = FlowKey::default();
        for field in [Field::Reg0, Field::Reg1, Field::Reg3, Field::Reg4, Field::Reg5, Field::Reg6, Field::Reg7, Field::Reg9, Field::InPort] {
            key.set(field, (next() & 0xffff_ffff).into());
        }
        key.set(Field::PktMark, (next() & 0xff).into());
        key.set(Field::CtState, (next() & 0xff).into());
        let length = usize::try_from(next() % 80).expect("short");
        let packet: Vec<u8> = (0..length).map(|_| next().to_le_bytes()[0]).collect();
        let table = u8::try_from(next() & 0xff).expect("a byte");
        let told = room.tell_traceflow(&traceflow, &Seen { table, metadata: &key, packet: &packet });
        assert!(told.is_some_and(|told| !told.observations.is_empty()));
    }
}
