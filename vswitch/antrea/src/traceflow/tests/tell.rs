//! What packets of Traceflows tell.

use super::{address, all, asked, end, live, start, to_pod};
use crate::traceflow::{Seen, Traceflow, TraceflowReport};
use crate::{NodeState, Table};
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_flow::extract::extract;
use vswitch_flow::{Field, FlowKey};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::traceflow_end::End;
use vswitch_proto::antrea::v1::{TraceflowAction as Action, TraceflowComponent as Component};

/// The packet of a Traceflow as its controller gets it: with other metadata, and sent to somebody
/// else.
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

fn tell(
    node_state: &NodeState,
    traceflow: &Arc<Traceflow>,
    (table, metadata, packet): (u8, FlowKey, Vec<u8>),
) -> TraceflowReport {
    node_state.tell_traceflow(traceflow, &Seen { table, metadata: &metadata, packet: &packet }).expect("it runs")
}

/// Components, actions and what else is told, in short.
fn short(told: &TraceflowReport) -> Vec<String> {
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
    let mut node_state = all();
    let (traceflow, _) = start(&mut node_state, &asked(to_pod("client"), to_pod("web2")));
    let told = |node_state: &NodeState, metadata: &[(Field, u128)]| {
        short(&tell(node_state, &traceflow, seen(&traceflow, Table::Output, metadata)))
    };
    assert_eq!(told(&node_state, &[OUT, (Field::Reg1, 0x2a)]), [BEGAN, "Forwarding Delivered Output default/web2"]);
    let tunnel = [OUT, (Field::Reg1, 1), (Field::TunDst, 0xc0a8_4d67)];
    assert_eq!(told(&node_state, &tunnel), [BEGAN, "Forwarding Forwarded Output 192.168.77.103"]);
    assert_eq!(told(&node_state, &[OUT, (Field::Reg1, 2)])[1], "Forwarding Forwarded Output by port antrea-gw0");
    assert_eq!(
        told(&node_state, &[(Field::Reg1, 2)])[1],
        "Forwarding Dropped Output there is no way to its destination"
    );
    let led = [OUT, (Field::Reg1, 0x2a), (Field::Reg4, 0x80_0000), (Field::Reg9, 0x22)];
    assert_eq!(
        told(&node_state, &led)[1],
        "Forwarding Delivered Output default/web2 redirected by port antrea-tc-tap0"
    );
    let remote = [(Field::Reg0, 0x28_0000), (Field::Reg1, 1), (Field::TunDst, 0xc0a8_4d71)];
    assert_eq!(
        told(&node_state, &remote),
        [
            BEGAN,
            "Egress Forwarded EgressMark egress-client 192.168.77.113 192.168.77.113",
            "Forwarding Forwarded Output 192.168.77.113"
        ]
    );
    let other = Arc::new(Traceflow::clone(&traceflow));
    let (table, metadata, packet) = seen(&traceflow, Table::Output, &[OUT]);
    assert!(node_state.tell_traceflow(&other, &Seen { table, metadata: &metadata, packet: &packet }).is_none());
}

#[test]
fn a_packet_tells_who_let_it_pass_and_who_did_not() {
    let mut node_state = all();
    let (traceflow, _) = start(&mut node_state, &asked(to_pod("client"), to_pod("web")));
    let number = node_state.ids().rule_by_name("acnp:client", "no").expect("a rule");
    let told =
        |table, metadata: &[(Field, u128)]| short(&tell(&node_state, &traceflow, seen(&traceflow, table, metadata)));
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
    let unknown = tell(&node_state, &traceflow, seen(&traceflow, Table::IngressMetric, &[(Field::Reg3, 4711)]));
    assert_eq!(unknown.observations[1].rule, Some(v1::RuleRef { number: 4711, ..Default::default() }));
    for (table, component) in [
        (Table::ConntrackState, Component::Forwarding),
        (Table::ServiceLb, Component::Lb),
        (Table::EndpointDnat, Component::Lb),
        (Table::EgressMark, Component::Egress),
        (Table::L3DecTtl, Component::Routing),
    ] {
        let told = tell(&node_state, &traceflow, seen(&traceflow, table, &[]));
        let last = told.observations.last().expect("an observation");
        let action = if table == Table::EndpointDnat { Action::Rejected } else { Action::Dropped };
        assert_eq!((last.component(), last.action(), last.table.as_str()), (component, action, table.name()));
        assert!(!last.reason.is_empty());
    }
}

#[test]
fn an_endpoint_and_an_egress_are_told() {
    let mut node_state = all();
    let to = end(End::Service("default/shop".to_owned()));
    let (traceflow, _) = start(&mut node_state, &asked(to_pod("client"), to));
    let group = node_state.ids().groups_of("default/shop")[0];
    let (table, metadata, mut packet) =
        seen(&traceflow, Table::Output, &[OUT, (Field::Reg1, 0x25), (Field::Reg7, group.into())]);
    let mut key = FlowKey::default();
    let _ = extract(&packet, packet.len(), &mut key);
    assert_eq!((key.get(Field::NwDst), key.get(Field::TpDst), key.get(Field::TcpFlags)), (0x0a60_0101, 80, 2));
    packet[30..34].copy_from_slice(&[10, 10, 0, 24]);
    packet[36..38].copy_from_slice(&8080_u16.to_be_bytes());
    let told = tell(&node_state, &traceflow, (table, metadata, packet));
    assert_eq!(
        short(&told),
        [BEGAN, "Lb Forwarded EndpointDNAT default/shop:http 10.10.0.24", "Forwarding Delivered Output default/web"]
    );
    assert_eq!(told.observations[1].translated_port, 8080);
    let (outside, _) =
        start(&mut node_state, &v1::Traceflow { name: "o".to_owned(), ..asked(to_pod("web"), address("203.0.113.1")) });
    let mark = node_state.ids().mark(&IpAddr::from([192, 168, 77, 112])).expect("a mark");
    let marked = [(Field::Reg0, 0x20_0020), (Field::Reg1, 2), (Field::InPort, 0x25), (Field::PktMark, mark.into())];
    assert_eq!(
        short(&tell(&node_state, &outside, seen(&outside, Table::Output, &marked))),
        [
            "SpoofGuard Forwarded SpoofGuard default/web",
            "Egress MarkedForSnat EgressMark egress-web 192.168.77.112",
            "Forwarding ForwardedOutOfOverlay Output"
        ]
    );
}

#[test]
fn a_live_packet_is_told_as_it_came_in() {
    let mut node_state = all();
    let packet = Some(v1::TraceflowPacket { protocol: v1::Protocol::Tcp.into(), ..Default::default() });
    let (sent, _) = start(
        &mut node_state,
        &v1::Traceflow { name: "s".to_owned(), packet, ..asked(to_pod("client"), address("10.96.1.1")) },
    );
    let came = sent.packet_out().expect("a packet").packet;
    let (traceflow, _) = start(&mut node_state, &live(to_pod("client"), address("10.96.1.1")));
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
    let told = tell(&node_state, &traceflow, (table, key, left));
    let packet = told.packet.expect("its bytes");
    // Checksums were not made new above: they differ by what the sums differ by.
    let without_sums = |bytes: &[u8]| [&bytes[..24], &bytes[26..50], &bytes[52..]].concat();
    assert_eq!(without_sums(&packet), without_sums(&came));
    assert_eq!(told.observations[1].component(), Component::Lb);
}

#[test]
fn nothing_that_is_told_breaks_it() {
    let mut node_state = all();
    let (traceflow, _) = start(&mut node_state, &live(to_pod("client"), None));
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    for _ in 0..2000 {
        let mut key = FlowKey::default();
        for field in [
            Field::Reg0,
            Field::Reg1,
            Field::Reg3,
            Field::Reg4,
            Field::Reg5,
            Field::Reg6,
            Field::Reg7,
            Field::Reg9,
            Field::InPort,
        ] {
            key.set(field, (next() & 0xffff_ffff).into());
        }
        key.set(Field::PktMark, (next() & 0xff).into());
        key.set(Field::CtState, (next() & 0xff).into());
        let length = usize::try_from(next() % 80).expect("short");
        let packet: Vec<u8> = (0..length).map(|_| next().to_le_bytes()[0]).collect();
        let table = u8::try_from(next() & 0xff).expect("a byte");
        let told = node_state.tell_traceflow(&traceflow, &Seen { table, metadata: &key, packet: &packet });
        assert!(told.is_some_and(|told| !told.observations.is_empty()));
    }
}
