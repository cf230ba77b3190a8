//! `ct()`: what a decision says of it, and what the packet takes along.

use super::*;
use crate::action::{CtOp, Op};
use crate::pipeline::Stage;
use vswitch_flow::FlowKey;
use vswitch_flow::text::parse_actions;

const TCP: &str = "in_port=1,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1000,tp_dst=80";

fn actions(text: &str) -> Vec<Action> {
    parse_actions(text, &NoNames).unwrap_or_else(|error| panic!("{text}: {error}")).value
}

fn program(flows: &[(u8, &str, &str)]) -> Setup {
    let mut setup = Setup::new();
    for (table, matching, list) in flows {
        setup.flow(*table, matching, actions(list));
    }
    setup
}

/// The stages that a decision leads to, in order.
fn stages(ops: &[Op], found: &mut Vec<Arc<Stage>>) {
    for op in ops {
        match op {
            Op::Ct(ct) => found.extend(ct.stage.clone()),
            Op::Clone(ops) => stages(ops, found),
            _ => {}
        }
    }
}

/// What becomes of a packet, and then of it (its bytes as they came in) in every stage with these
/// fields added.
fn through(setup: &Setup, packet: &str, connection: &str) -> Vec<String> {
    let first = setup.run(packet);
    let mut todo = Vec::new();
    stages(&first.ops, &mut todo);
    let mut told = vec![setup.show(&first)];
    for stage in todo {
        let added = key(&format!("{packet},{connection}"));
        let mut metadata = FlowKey::default();
        stage.unpack(&added, &mut metadata);
        for i in (0..vswitch_flow::WORDS).filter(|i| *i >= vswitch_flow::FIRST_PACKET_WORD) {
            metadata.0[i] = added.0[i];
        }
        let then = setup.translate(&metadata, Start::Stage(&stage));
        told.push(setup.show(&then));
    }
    told
}

/// The tracker's request of the only `ct()`.
fn request(setup: &Setup, packet: &str) -> vswitch_conntrack::Request {
    let translation = setup.run(packet);
    match translation.ops.as_slice() {
        [.., Op::Ct(ct)] => {
            let CtOp { request, .. } = &**ct;
            request.clone()
        }
        _ => panic!("no ct at the end: {}", setup.show(&translation)),
    }
}

#[test]
fn behind_ct_the_packet_is_tracked_there_and_untracked_here() {
    let setup = program(&[
        (0, "ip", "load:5->NXM_NX_REG0[],ct(zone=7,table=1),load:6->NXM_NX_REG0[],resubmit(,2),output:3"),
        (1, "ct_state=+trk+new,reg0=5,ip", "output:4"),
        (1, "ct_state=+trk+est,reg0=5,ip", "output:5"),
        (2, "ct_state=-trk,ct_zone=0,reg0=6", "output:2"),
    ]);
    assert_eq!(through(&setup, TCP, "ct_state=new|trk,ct_zone=7"), ["ct(zone=7),recirc(0x1),p2,p3", "p4"]);
    assert_eq!(through(&setup, TCP, "ct_state=est|trk,ct_zone=7")[1], "p5");
}

#[test]
fn registers_stack_and_action_set_go_along_and_conj_id_does_not() {
    let setup = program(&[
        (0, "ip", "push:NXM_OF_IN_PORT[],write_actions(output:6),write_metadata:0x12,goto_table:1"),
        (1, "ip", "ct(table=2)"),
        (2, "ip,conj_id=0,metadata=0x12", "pop:NXM_NX_REG3[0..15],resubmit(,3)"),
        (3, "reg3=1", "output:2"),
    ]);
    assert_eq!(through(&setup, TCP, "ct_state=trk")[1], "p2,p6");
}

#[test]
fn a_decision_behind_ct_uses_the_connection_but_not_what_was_written_before() {
    let setup = program(&[
        (0, "ip", "load:5->NXM_NX_REG0[],ct(table=1)"),
        (1, "ct_state=+est,ct_mark=0x10/0x10,reg0=5,pkt_mark=0,ip", "output:4"),
    ]);
    let mut found = Vec::new();
    stages(&setup.run(TCP).ops, &mut found);
    let packet = key(&format!("{TCP},ct_state=est|trk,ct_mark=0x12"));
    let mut metadata = FlowKey::default();
    found[0].unpack(&packet, &mut metadata);
    metadata.0[28..].copy_from_slice(&packet.0[28..]);
    let then = setup.translate(&metadata, Start::Stage(&found[0]));
    let used = |field| then.mask.get(field);
    assert_eq!(used(Field::CtState), 2, "est alone");
    assert_eq!(used(Field::CtMark), 0x10);
    assert_eq!(used(Field::PktMark), 0xffff_ffff, "the packet's own");
    assert_eq!(used(Field::Reg0), 0, "the stage says it");
    assert_eq!(used(Field::RecircId), 0xffff_ffff);
}

#[test]
fn equal_frozen_state_is_one_stage() {
    let setup = program(&[
        (0, "in_port=1,ip", "load:5->NXM_NX_REG0[],ct(table=1)"),
        (0, "in_port=2,ip", "load:5->NXM_NX_REG0[],mod_nw_tos:4,ct(zone=9,table=1)"),
        (0, "in_port=3,ip", "load:6->NXM_NX_REG0[],ct(table=1)"),
    ]);
    let stage = |port: u32| {
        let translation = setup.run(&TCP.replace("in_port=1", &format!("in_port={port}")));
        let mut found = Vec::new();
        stages(&translation.ops, &mut found);
        (found[0].id, translation)
    };
    let (one, _kept) = stage(1);
    let (two, _kept_too) = stage(2);
    let (three, _and_this) = stage(3);
    assert_eq!(one, two);
    assert_ne!(one, three);
}

#[test]
fn the_request_says_what_the_action_does() {
    let list = "ct(commit,force,zone=5,nat(src=10.0.0.1-10.0.0.9:100-200,random),alg=ftp,\
                exec(set_field:0x10/0x30->ct_mark,move:NXM_NX_REG1[0..3]->NXM_NX_CT_LABEL[64..67],load:1->NXM_NX_CT_MARK[0]))";
    let setup = program(&[(0, "ip", "load:7->NXM_NX_REG1[],resubmit(,1)"), (1, "tcp", list)]);
    let request = request(&setup, TCP);
    assert_eq!((request.zone, request.commit, request.force), (5, true, true));
    assert_eq!(request.mark, (0x11, 0x31));
    assert_eq!(request.label, (7 << 64, 0xf << 64));
    assert_eq!(request.helper, Some(vswitch_conntrack::Helper::Ftp));
    let nat = request.nat.expect("nat");
    assert_eq!(nat.side, Some(vswitch_conntrack::NatSide::Src));
    assert_eq!((nat.addresses, nat.ports, nat.random), (Some((0x0a00_0001, 0x0a00_0009)), Some((100, 200)), true));
    let text = "ct(force_commit,zone=5,mark=0x11/0x31,label=0x70000000000000000/0xf0000000000000000,helper=ftp,\
                nat(src=10.0.0.1-10.0.0.9:100-200,random)), drop: rule_drop";
    assert_eq!(setup.ops(TCP), text);
}

#[test]
fn a_zone_may_come_from_a_field_which_is_used_then() {
    let setup = program(&[
        (0, "in_port=1,ip", "ct(zone=NXM_NX_REG8[0..15])"),
        (0, "in_port=2,ip", "ct(zone=NXM_OF_IN_PORT[])"),
    ]);
    assert_eq!(request(&setup, TCP).zone, 0);
    assert_eq!(request(&setup, &TCP.replace("in_port=1", "in_port=2")).zone, 2);
}

#[test]
fn headers_are_written_before_the_packet_is_tracked() {
    let setup = program(&[(0, "ip", "mod_nw_dst:10.0.0.9,ct(table=1),mod_nw_dst:10.0.0.8,output:2")]);
    assert_eq!(setup.ops(TCP), "set(ipv4(dst=10.0.0.9)),ct,recirc(0x1),set(ipv4(dst=10.0.0.8)),p2");
}

#[test]
fn ct_in_a_clone_stays_there() {
    let setup = program(&[(0, "ip", "clone(mod_nw_ttl:3,ct(commit)),output:2")]);
    assert_eq!(setup.ops(TCP), "clone(set(ipv4(ttl=3)),ct(commit)),p2");
    let setup = program(&[(0, "ip", "ct_clear,resubmit(,1)"), (1, "ct_state=-trk,ct_mark=0", "output:2")]);
    assert_eq!(setup.ops(TCP), "p2");
}

#[test]
fn what_takes_connections_back_is_a_drop_all_the_same() {
    let setup =
        program(&[(0, "ip", "ct(commit,table=1)"), (1, "tcp", "ct_forget"), (1, "udp", "clone(ct_forget),output:3")]);
    assert_eq!(through(&setup, TCP, "ct_state=new|trk"), ["ct(commit),recirc(0x1)", "ct_forget, drop: rule_drop"]);
    assert_eq!(through(&setup, &TCP.replace("tcp", "udp"), "ct_state=new|trk")[1], "ct_forget,p3");
}

#[test]
fn trace_goes_on_behind_ct() {
    use crate::pipeline::{Tracing, trace};
    let setup = program(&[
        (0, "ip", "ct(table=1,zone=3)"),
        (1, "ct_state=+new+trk,ip", "ct(table=2)"),
        (1, "ct_state=+est+trk,ip", "output:5"),
        (2, "ct_state=+rpl,ip", "output:6"),
    ]);
    let told = |ct_next: &[u32]| {
        let key = key(TCP);
        trace(&setup.world, &Tracing { bridge: 0, key: &key, now: Millis(0), names: &[], ct_next }).text
    };
    let text = told(&[0x21, 0x2a]);
    for expected in [
        "Datapath actions: ct(zone=3),recirc(0x1)\n",
        "recirc(0x1) - resume conntrack with ct_state=new|trk\n",
        "Flow: recirc_id=0x1,ct_state=new|trk,ct_zone=3,tcp",
        "Resuming from table 1",
        "Datapath actions: p6\n",
    ] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
    assert!(told(&[0x22]).contains("Datapath actions: p5\n"));
    assert!(told(&[]).contains("resume conntrack with default ct_state=new|trk (use --ct-next to customize)"));
}

#[test]
fn a_refused_packet_stays_as_it_is_and_its_answer_is_for_later() {
    let setup = program(&[
        (0, "tcp", "load:5->NXM_NX_REG0[],set_field:10.9.9.9->ip_dst,clone(resubmit(,1)),output:3"),
        (1, "tcp", "reject(icmp=3,load:6->NXM_NX_REG0[],IN_PORT)"),
        (0, "udp", "resubmit(,2)"),
        (2, "udp", "reject(IN_PORT)"),
        (0, "icmp", "check_pkt_larger(100)->NXM_NX_REG0[0],resubmit(,3)"),
        (3, "reg0=1", "reject(IN_PORT)"),
    ]);
    // Written for who goes on with the packet; the answer needs none of it.
    assert_eq!(setup.ops(TCP), "set(ipv4(dst=10.9.9.9)),reject(icmp=3,set_field:0x6->reg0,IN_PORT),p3");
    let refused = setup.run(&TCP.replace("tcp", "udp"));
    assert_eq!(setup.show(&refused), "reject(IN_PORT), drop: rejected");
    assert_eq!(
        (refused.mask.get(Field::NwSrc), refused.mask.get(Field::UdpSrc)),
        (0, 0),
        "one decision for all senders"
    );
    let translation = setup.run("in_port=1,icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2");
    assert!(translation.ops.iter().any(Op::refuses), "wherever it stands: {}", setup.show(&translation));
    let translation = setup.run(TCP);
    let Some(Op::Reject(op)) = translation.ops.get(1) else { panic!("no reject") };
    assert_eq!((op.table, op.metadata.get(Field::Reg0), op.defined.get(Field::Reg0)), (1, 5, 0xffff_ffff));
    // The answer is of no flow's protocol, and may do what any packet may.
    let answer = key("in_port=1,icmp,nw_src=10.0.0.2,nw_dst=10.0.0.1,reg0=5");
    assert_eq!(setup.show(&setup.translate(&answer, Start::Answer(op))), "p1");
}

#[test]
fn trace_tells_how_a_packet_is_refused() {
    use crate::pipeline::{Tracing, trace};
    let setup = program(&[(0, "ip", "resubmit(,1)"), (1, "tcp", "reject(icmp6=4,load:6->NXM_NX_REG0[],IN_PORT)")]);
    let key = key(TCP);
    let text = trace(&setup.world, &Tracing { bridge: 0, key: &key, now: Millis(0), names: &[], ct_next: &[] }).text;
    for expected in [
        "reject(icmp6=4,set_field:0x6->reg0,IN_PORT)\n",
        "The sender is told, if he may be.",
        "Datapath actions: reject(icmp6=4,set_field:0x6->reg0,IN_PORT)",
    ] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
}
