//! Packets to controllers and from them.

use super::bed::{Bed, output, tcp};
use crate::pipeline::Interest;
use crate::worker::{Begin, InjectError, Injection};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_flow::action::{Controller, Reason, port};
use vswitch_flow::{Action, Field, FlowKey};

fn controller(id: u16) -> Controller {
    Controller { id, max_len: 65535, userdata: [1, 2].into(), ..Controller::default() }
}

fn injection(in_port: u32, packet: Vec<u8>, actions: Vec<Action>) -> Injection {
    let mut metadata = FlowKey::default();
    metadata.set(Field::InPort, in_port.into());
    Injection { bridge: "br".into(), metadata, packet, begin: Begin::Actions(actions.into()) }
}

#[test]
fn controllers_get_the_packet_as_it_is_at_that_point() {
    let mut bed = Bed::new(2);
    let reg0 = Action::SetField { field: Field::Reg0, value: 7, mask: Field::Reg0.ones() };
    let list = vec![reg0, Action::SetTtl(9), Action::Controller(Box::new(controller(5))), Action::SetTtl(8), output(2)];
    bed.add(0, 1, "tcp", list);
    let mut own = bed.packet_ins.subscribe(Interest::of(5)).expect("a subscription");
    let mut other = bed.packet_ins.subscribe(Interest::of(0)).expect("a subscription");
    for round in 0..3 {
        bed.receive(1, &tcp(1, 2, 80));
        let packet_in = own.receiver.try_recv().unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!((packet_in.packet[22], packet_in.packet.len()), (9, 58), "round {round}: TTL and length");
        assert_eq!((packet_in.table, packet_in.reason, &*packet_in.userdata), (0, Reason::Action, &[1, 2][..]));
        let word = |field: Field| packet_in.metadata.get(field);
        assert_eq!((word(Field::Reg0), word(Field::InPort), word(Field::EthType)), (7, 1, 0), "round {round}");
        assert_eq!(bed.sent()[0].1[22], 8, "round {round}");
    }
    assert!(other.receiver.try_recv().is_err(), "another controller's");
    assert_eq!(bed.decided(), (2, 0, 1), "a packet-in is no reason not to cache");
}

#[test]
fn a_slow_subscriber_loses_packets_and_knows_how_many() {
    let mut bed = Bed::new(1);
    bed.add(0, 1, "", vec![Action::Controller(Box::new(controller(0)))]);
    let subscription = bed.packet_ins.subscribe(Interest::of(0)).expect("a subscription");
    let frames = vec![tcp(1, 2, 3); crate::limits::PACKET_INS_QUEUED + 10];
    bed.receive_in(1, &frames, 32);
    assert_eq!(subscription.lost.load(Relaxed), 10);
    assert_eq!(subscription.receiver.len(), crate::limits::PACKET_INS_QUEUED);
    drop(subscription);
    bed.receive_in(1, &frames, 32);
    assert!(!bed.packet_ins.is_wanted(0, Reason::Action), "nobody listens any more");
}

#[test]
fn packets_come_from_any_port_number() {
    let mut bed = Bed::new(2);
    for in_port in [1, 2, 99, port::LOCAL, port::CONTROLLER, port::NONE] {
        let actions = vec![Action::SetTtl(7), output(2), output(port::IN_PORT)];
        bed.walk.inject(&injection(in_port, tcp(1, 2, 3), actions), bed.now).expect("sent");
        bed.walk.flush();
        let expected: &[usize] = match in_port {
            1 => &[1, 2],
            // Its own port only when asked for as such.
            _ => &[2],
        };
        assert_eq!(bed.ports(), expected, "in_port {in_port:#x}");
    }
    bed.add(0, 5, "in_port=CONTROLLER", vec![output(1)]);
    bed.add(0, 5, "in_port=99", vec![output(2)]);
    for (in_port, expected) in [(port::CONTROLLER, vec![1]), (99, vec![2]), (1, vec![])] {
        bed.walk.inject(&injection(in_port, tcp(1, 2, 3), vec![output(port::TABLE)]), bed.now).expect("sent");
        bed.walk.flush();
        assert_eq!(bed.ports(), expected, "table, in_port {in_port:#x}");
    }
    let counts: Vec<u64> = bed.counts().into_iter().map(|count| count.2).collect();
    assert_eq!((counts, bed.pool.in_use()), (vec![1, 1], 0));
}

#[test]
fn wrong_packet_outs_are_refused() {
    let mut bed = Bed::new(1);
    for len in [0, 13, crate::limits::PACKET_OUT_MAX + 1] {
        let result = bed.walk.inject(&injection(1, vec![0; len], vec![]), bed.now);
        assert_eq!(result, Err(InjectError::Length(len)));
    }
    let gone = Injection { bridge: "br1".into(), ..injection(1, tcp(1, 2, 3), vec![]) };
    assert_eq!(bed.walk.inject(&gone, bed.now), Err(InjectError::BridgeGone("br1".into())));
    let _hoard: Vec<_> = std::iter::from_fn(|| bed.pool.alloc()).collect();
    assert_eq!(bed.walk.inject(&injection(1, tcp(1, 2, 3), vec![]), bed.now), Err(InjectError::NoMbuf));
}

#[test]
fn a_paused_packet_goes_on_where_it_stopped_once() {
    let mut bed = Bed::new(3);
    let pause = Controller { pause: true, ..controller(0) };
    let reg0 = Action::SetField { field: Field::Reg0, value: 7, mask: Field::Reg0.ones() };
    let resubmit = Action::Resubmit { port: None, table: Some(1), ct: false };
    bed.add(0, 1, "tcp", vec![reg0, output(2), Action::Controller(Box::new(pause)), resubmit]);
    bed.add(1, 1, "reg0=7,tcp,in_port=1,tp_dst=81", vec![output(3)]);
    let mut subscription = bed.packet_ins.subscribe(Interest::of(0)).expect("a subscription");
    bed.receive(1, &tcp(1, 2, 80));
    assert_eq!(bed.ports(), [2], "the rest waits");
    let packet_in = subscription.receiver.try_recv().expect("a packet-in");
    assert_eq!(packet_in.packet, tcp(1, 2, 80));
    assert!(bed.packet_ins.resume(&[0; 8]).is_none() && bed.packet_ins.resume(&[]).is_none(), "no token of ours");
    let paused = bed.packet_ins.resume(&packet_in.token).expect("it waits");
    assert!(bed.packet_ins.resume(&packet_in.token).is_none(), "once");
    // The controller may return another packet.
    let begin = Begin::Resume(Arc::clone(&paused.continuation), paused.met);
    let injection = Injection { bridge: "br".into(), metadata: paused.metadata, packet: tcp(1, 2, 81), begin };
    bed.walk.inject(&injection, bed.now).expect("sent");
    bed.walk.flush();
    assert_eq!(bed.sent(), [(3, tcp(1, 2, 81))]);
}
