//! Outputs: ports of all kinds, NORMAL, patch ports, controllers (ovs-facts g, i, m).

use super::*;
use crate::pipeline::Effect;
use vswitch_flow::action::{Controller, Reason};

fn trunc(port: PortNo, max_len: u16) -> Action {
    Action::Output { port, max_len: Some(max_len) }
}

fn field(text: &str) -> Action {
    Action::OutputField { from: sub(text), max_len: None }
}

#[test]
fn ports_by_number() {
    let cases: Vec<(Vec<Action>, &str)> = vec![
        (vec![out(2), out(2), out(1), out(99), out(3)], "p2,p2,p3"),
        (vec![out(1)], "drop: rule_drop"),
        (vec![out(99)], "drop: no_port"),
        (vec![out(port::IN_PORT)], "p1"),
        (vec![out(port::LOCAL)], "LOCAL"),
        (vec![out(port::NONE)], "drop: rule_drop"),
        (vec![out(port::ALL)], "p2,p3,p4,p5,p6,p7,p8,LOCAL"),
        (vec![out(port::FLOOD)], "p2,p3,p4,p5,p6,p7,p8,LOCAL"),
        (
            vec![trunc(2, 100), trunc(port::LOCAL, 60), trunc(port::IN_PORT, 60), trunc(1, 60)],
            "trunc(100),p2,trunc(60),LOCAL",
        ),
    ];
    for (actions, expected) in cases {
        let mut setup = Setup::new();
        setup.flow(0, "", actions.clone());
        assert_eq!(setup.ops(TCP), expected, "{actions:?}");
    }
}

#[test]
fn ports_by_field() {
    let cases = [
        (3, "p3"),
        (1, "drop: rule_drop"),
        (0xfff8, "p1"),
        (0xfffe, "LOCAL"),
        (0xffff_fff8, "drop: no_port"),
        (0x1_0003, "drop: no_port"),
        (99, "drop: no_port"),
        (0xfffd, "controller(reason=action,id=0,table=0,cookie=0x64)"),
        (0xfffb, "p2,p3,p4,p5,p6,p7,p8,LOCAL"),
    ];
    for (value, expected) in cases {
        let mut setup = Setup::new();
        setup.flow(0, "", [set(Field::Reg5, value), field("NXM_NX_REG5[]")]);
        assert_eq!(setup.ops(TCP), expected, "{value:#x}");
    }
    let mut setup = Setup::new();
    setup.flow(0, "", [set(Field::Reg5, 0x30_0000), field("NXM_NX_REG5[20..27]")]);
    assert_eq!(setup.ops(TCP), "p3", "part of a register");
}

#[test]
fn flags_of_ports() {
    let mut setup = Setup::new();
    setup.flow(0, "in_port=1", [out(2), out(3)]);
    setup.port(2).no_forward = true;
    assert_eq!(setup.ops(TCP), "p3");
    setup.port(3).no_forward = true;
    assert_eq!(setup.ops(TCP), "drop: no_forward");
    setup.port(1).no_receive = true;
    assert_eq!(setup.ops(TCP), "drop: no_receive");
    assert_eq!(setup.run(TCP).credits.len(), 2, "table and rule count it");
}

#[test]
fn normal_learns_and_floods_and_filters() {
    let mut setup = Setup::new();
    setup.flow(0, "", [out(port::NORMAL)]);
    let all = "p2,p3,p4,p5,p6,p7,p8,LOCAL";
    let packet = |in_port: u32, source: &str, destination: &str| {
        format!("in_port={in_port},dl_src={source},dl_dst={destination},dl_type=0x1234")
    };
    let (a, b) = ("02:00:00:00:00:0a", "02:00:00:00:00:0b");
    let translation = setup.run(&packet(1, a, b));
    assert_eq!(setup.show(&translation), all);
    assert!(translation.deps.fdb);
    assert!(matches!(&translation.effects[..], [Effect::Fdb { bridge: 0, .. }]), "{:?}", translation.effects);
    assert_eq!(setup.ops(&packet(2, b, a)), "p1", "learned");
    assert_eq!(setup.ops(&packet(1, a, b)), "p2");
    assert_eq!(setup.ops(&packet(2, "02:00:00:00:00:0c", b)), "drop: same_port");
    assert_eq!(setup.ops(&packet(1, a, "01:80:c2:00:00:0e")), "drop: reserved_multicast");
    assert_eq!(setup.ops(&packet(1, a, "01:00:0c:cc:cc:cc")), "drop: reserved_multicast");
    assert_eq!(setup.ops(&packet(1, a, "ff:ff:ff:ff:ff:ff")), all);
    let multicast = setup.run(&packet(3, "01:00:5e:00:00:01", a));
    assert_eq!(setup.show(&multicast), "p1");
    assert!(multicast.effects.is_empty(), "a multicast source is not learned");
    assert_eq!(
        setup.mask(&packet(1, a, b)),
        format!("recirc_id=0,in_port=1,vlan_tci=0x0000/0x1fff,dl_src={a},dl_dst={b},dl_type=0x1234")
    );
    // VLANs learn apart; a tag that says nothing is taken off; rewrites are seen by the learning.
    let tagged = |tci: &str| format!("{},vlan_tci={tci}", packet(1, a, b));
    assert_eq!(setup.ops(&tagged("0x1005")), all);
    let null = format!("pop_vlan,{all}").replace(all, "p2");
    assert_eq!(setup.ops(&tagged("0x1000")), null);
    assert_eq!(setup.ops(&tagged("0x3000")), "p2");
    setup.flow(0, "", [set(Field::EthSrc, 0x0200_0000_000d), out(port::NORMAL)]);
    assert_eq!(setup.ops(&packet(4, a, b)), "set(eth(src=02:00:00:00:00:0d)),p2");
    setup.flow(0, "", [out(port::NORMAL)]);
    assert_eq!(setup.ops(&packet(1, a, "02:00:00:00:00:0d")), "p4");
}

#[test]
fn without_side_effects_nothing_is_learned() {
    let mut setup = Setup::new();
    setup.flow(0, "", [out(port::NORMAL)]);
    let packet = key("in_port=1,dl_src=02:00:00:00:00:0a,dl_dst=02:00:00:00:00:0b,dl_type=0x1234");
    let request = Request {
        bridge: 0,
        key: &packet,
        start: Start::Table,
        now: Millis(0),
        side_effects: false,
        learns: None,
        choice: Choice::ByHash,
    };
    translate(&setup.world, &request, None);
    assert_eq!(setup.world.bridges[0].fdb.stats().entries, 0);
}

#[test]
fn a_patch_port_leads_into_another_bridge() {
    let mut setup = Setup::new();
    let other = setup.add_bridge("br1");
    setup.add_patch((0, 10), (other, 20));
    setup.add_port(other, 1, "q1");
    setup.add_port(other, 2, "q2");
    let (reg, mark) = (set(Field::Reg0, 5), set(Field::PktMark, 6));
    setup.flow(0, "in_port=1", [reg, mark, set(Field::Metadata, 1), set(Field::NwTtl, 9), out(10), resubmit(1)]);
    setup.flow(1, "reg0=5,ip,nw_ttl=9,in_port=1", [out(2)]);
    setup.flow_in(
        other,
        0,
        1,
        "in_port=20,reg0=0,metadata=0,pkt_mark=6,ip,nw_ttl=9",
        [Action::WriteActions([out(2)].into()), Action::GotoTable(1)],
    );
    setup.flow_in(other, 1, 1, "", [set(Field::NwTtl, 8), out(1), out(port::IN_PORT)]);
    // Back into the first bridge: a packet that comes in by port 10.
    setup.flow(0, "in_port=10", [set(Field::NwTtl, 7), out(3)]);
    let translation = setup.run(TCP);
    assert_eq!(
        setup.show(&translation),
        "crossed(patch0-10,patch1-20),clone(set(ipv4(ttl=8)),q1,crossed(patch1-20,patch0-10),\
         clone(set(ipv4(ttl=7)),p3),q2),set(ipv4(ttl=9)),p2"
    );
    assert!(translation.deps.all);
}

#[test]
fn patch_ports_that_lead_nowhere() {
    let mut setup = Setup::new();
    let other = setup.add_bridge("br1");
    setup.add_patch((0, 10), (other, 20));
    setup.flow(0, "in_port=1", [out(10)]);
    assert_eq!(setup.ops(TCP), "crossed(patch0-10,patch1-20), drop: bridge_secure");
    setup.flow_in(other, 5, 1, "", [out(1)]);
    assert_eq!(setup.ops(TCP), "crossed(patch0-10,patch1-20), drop: table_miss");
    setup.flow_in(other, 0, 1, "", [Action::Exit]);
    setup.flow(0, "in_port=1", [out(10), out(2)]);
    assert_eq!(setup.ops(TCP), "crossed(patch0-10,patch1-20),p2", "exit there is not exit here");
    setup.port(10).admin_up = false;
    setup.flow(0, "in_port=1", [out(10)]);
    assert_eq!(setup.ops(TCP), "drop: admin_down");
    setup.port(10).admin_up = true;
    setup.port(10).peer = None;
    assert_eq!(setup.ops(TCP), "drop: link_down");
}

#[test]
fn a_loop_of_bridges_ends() {
    let mut setup = Setup::new();
    let other = setup.add_bridge("br1");
    for i in 0..3 {
        setup.add_patch((0, 10 + i), (other, 20 + i));
    }
    setup.add_port(other, 1, "q1");
    setup.flow_in(0, 0, 1, "", [out(port::FLOOD), out(2)]);
    setup.flow_in(other, 0, 1, "", [out(port::FLOOD)]);
    let translation = setup.run(TCP);
    assert_eq!(translation.drop.map(|reason| reason.name()), Some("resubmit_depth"));
    // One loop: of what was sent on the way nothing stays sent.
    setup.flow(0, "in_port=1", [out(2), out(10), out(3)]);
    setup.flow(0, "in_port=10", [out(4), out(port::IN_PORT)]);
    setup.flow_in(other, 0, 1, "", [out(1), out(port::IN_PORT), out(1)]);
    assert_eq!(setup.ops(TCP), "drop: resubmit_depth");
}

#[test]
fn controllers_get_what_the_rule_says() {
    let mut setup = Setup::new();
    let controller = Controller { id: 3, max_len: 128, userdata: [1, 2, 0xab].into(), ..Controller::default() };
    setup.flow(0, "tcp", [set(Field::Reg1, 5), set(Field::NwTtl, 9), Action::Controller(controller.into()), out(2)]);
    let translation = setup.run(TCP);
    assert_eq!(
        setup.show(&translation),
        "set(ipv4(ttl=9)),controller(reason=action,id=3,table=0,cookie=0x64,userdata=01.02.ab),p2"
    );
    let Some(crate::action::Op::PacketIn(packet_in)) = translation.ops.get(1) else { panic!("a packet-in") };
    assert_eq!(packet_in.metadata.get(Field::Reg1), 5);
    assert_eq!(packet_in.metadata.get(Field::InPort), 1);
    assert_eq!(packet_in.defined.get(Field::Reg1), 0xffff_ffff);
    assert_eq!(packet_in.defined.get(Field::TunId), 0, "not looked at: the packet's own");
    // Reasons.
    let plain = || out(port::CONTROLLER);
    let mut setup = Setup::new();
    setup.flow_in(0, 0, 0, "", [plain()]);
    assert_eq!(setup.ops(TCP), "controller(reason=no_match,id=0,table=0,cookie=0x0)");
    setup.flow_in(0, 0, 1, "", [Action::WriteActions([plain()].into())]);
    assert_eq!(setup.ops(TCP), "controller(reason=action_set,id=0,table=0,cookie=0x1)");
    // What the action set calls belongs to it.
    setup.flow_in(0, 0, 1, "", [Action::WriteActions([resubmit(1)].into())]).flow_in(0, 1, 1, "", [plain()]);
    assert_eq!(setup.ops(TCP), "controller(reason=action_set,id=0,table=1,cookie=0x100000001)");
    let explicit = Controller { reason: Reason::InvalidTtl, max_len: 65535, ..Controller::default() };
    setup.flow_in(0, 0, 2, "", [Action::Controller(explicit.into())]);
    assert_eq!(setup.ops(TCP), "controller(reason=invalid_ttl,id=0,table=0,cookie=0x2)");
    let actions = [plain()];
    let sent = setup.translate(&key(TCP), Start::Actions(&actions));
    assert_eq!(setup.show(&sent), "controller(reason=packet_out,id=0,table=0)");
}

#[test]
fn packets_are_sent_from_anywhere() {
    let mut setup = Setup::new();
    setup.flow(0, "in_port=controller", [out(2)]).flow(0, "in_port=1,reg0=7", [out(3)]).flow(0, "in_port=99", [out(4)]);
    let table = [out(port::TABLE), out(1), out(port::IN_PORT)];
    let from = |in_port: PortNo| {
        let mut packet = key(TCP);
        packet.set(Field::InPort, u128::from(in_port));
        packet.set(Field::Reg0, 7);
        setup.show(&setup.translate(&packet, Start::Actions(&table)))
    };
    assert_eq!(from(port::CONTROLLER), "p2,p1");
    assert_eq!(from(1), "p3,p1");
    assert_eq!(from(99), "p4,p1");
    assert_eq!(from(port::NONE), "p1");
}

#[test]
fn a_paused_packet_goes_on_where_it_stopped() {
    use crate::action::Op;
    let mut setup = Setup::new();
    let pause = Controller { pause: true, max_len: 65535, ..Controller::default() };
    let stack = [Action::StackPush(sub("NXM_NX_REG0[]")), Action::StackPop(sub("NXM_NX_REG2[]"))];
    let [push, pop] = stack;
    setup.flow(
        0,
        "in_port=1",
        [
            set(Field::Reg0, 3),
            push,
            Action::WriteActions([out(6)].into()),
            resubmit(1),
            pop,
            field("NXM_NX_REG2[]"),
            Action::GotoTable(2),
        ],
    );
    setup.flow(1, "", [out(2), set(Field::NwTtl, 9), Action::Controller(pause.clone().into()), resubmit(3)]);
    setup.flow(2, "", [out(4)]);
    setup.flow(3, "reg1=8", [out(5)]);
    let translation = setup.run(TCP);
    // Of the outermost list, as in Open vSwitch.
    let told = "controller(reason=action,id=0,table=0,cookie=0x64,pause)";
    assert_eq!(setup.show(&translation), format!("p2,set(ipv4(ttl=9)),{told}"));
    let Some(Op::PacketIn(packet_in)) = translation.ops.last() else { panic!("a packet-in") };
    let continuation = packet_in.continuation.as_ref().expect("a continuation");
    // The controller changes a register and sends the packet back.
    let mut packet = key(TCP);
    packet.set(Field::Reg0, packet_in.metadata.get(Field::Reg0));
    packet.set(Field::Reg1, 8);
    let resumed = setup.translate(&packet, Start::Resume(continuation));
    assert_eq!(setup.show(&resumed), "p5,p3,p4,p6");
    // It may be paused again, with all that is still to be done.
    let again = Action::Controller(pause.clone().into());
    setup.flow(3, "reg1=8", [again, out(5)]);
    let resumed = setup.translate(&packet, Start::Resume(continuation));
    let Some(Op::PacketIn(packet_in)) = resumed.ops.last() else { panic!("a packet-in") };
    let continuation = packet_in.continuation.as_ref().expect("a continuation");
    assert_eq!(setup.show(&setup.translate(&packet, Start::Resume(continuation))), "p5,p3,p4,p6");
    // Inside a clone, only the clone waits.
    let clone = Action::Clone([Action::Controller(pause.into()), out(2)].into());
    setup.flow(0, "in_port=1", [clone, out(3)]);
    let told = "controller(reason=action,id=0,table=0,cookie=0x64,pause)";
    assert_eq!(setup.ops(TCP), format!("{told},p3"));
}
