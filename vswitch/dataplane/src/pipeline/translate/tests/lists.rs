//! Control of execution: gotos, resubmits, clones, exits, the stack, limits (ovs-facts c, i, k).

use super::*;

#[test]
fn an_empty_bridge_drops_by_name() {
    let mut setup = Setup::new();
    assert_eq!(setup.ops(TCP), "drop: bridge_secure");
    setup.flow(1, "", [out(2)]);
    assert_eq!(setup.ops(TCP), "drop: table_miss");
    setup.flow(0, "udp", [out(2)]).flow(0, "tcp", []);
    assert_eq!(setup.ops(TCP), "drop: rule_drop");
}

#[test]
fn gotos_and_resubmits_share_the_packet() {
    let mut setup = Setup::new();
    let reg0 = |value| set(Field::Reg0, value);
    setup.flow(0, "in_port=1", [reg0(1), resubmit(1), resubmit(2), resubmit(9), out(4), Action::GotoTable(3)]);
    setup.flow(1, "reg0=1", [reg0(2), out(2)]);
    setup.flow(2, "reg0=2", [out(3)]);
    setup.flow(3, "reg0=2", [out(5)]);
    assert_eq!(setup.ops(TCP), "p2,p3,p4,p5");
    assert_eq!(
        setup.mask(TCP),
        "recirc_id=0,ip,in_port=1,nw_frag=no",
        "registers that a rule wrote are not in the mask"
    );
}

#[test]
fn a_resubmits_port_is_for_the_lookup_only() {
    let mut setup = Setup::new();
    let disguised = Action::Resubmit { port: Some(3), table: Some(1), ct: false };
    setup.flow(0, "in_port=1", [disguised, out(port::IN_PORT)]);
    setup.flow(1, "in_port=3", [out(1), out(3), out(port::IN_PORT)]);
    assert_eq!(setup.ops(TCP), "p3,p1,p1");
    let same = Action::Resubmit { port: Some(port::IN_PORT), table: Some(1), ct: false };
    setup.flow(0, "in_port=1", [same]).flow(1, "in_port=1", [out(2)]);
    assert_eq!(setup.ops(TCP), "p2");
}

#[test]
fn depth_counts_only_what_goes_back() {
    let mut setup = Setup::new();
    // 250 forward resubmits, nested.
    for table in 0..=250 {
        setup.flow(table, "", if table == 250 { vec![out(2)] } else { vec![resubmit(table + 1), out(3)] });
    }
    let ops = setup.ops(TCP);
    assert!(ops.starts_with("p2,p3") && ops.matches("p3").count() == 250, "{ops}");
    // Backwards: table 0 to itself, reg0 counting in unary by xxreg bits.
    for (limit, expected) in [(64, true), (65, false)] {
        let mut setup = Setup::new();
        for i in 0..limit {
            let next = set(Field::Reg0, i + 1);
            setup.flow(0, &format!("reg0={i}"), [out(3), next, resubmit(0)]);
        }
        setup.flow(0, &format!("reg0={limit}"), [out(2)]);
        let ops = setup.ops(TCP);
        if expected {
            assert!(ops.ends_with(",p3,p2"), "{limit} backwards: {ops}");
        } else {
            assert_eq!(ops, "drop: resubmit_depth", "{limit} backwards");
        }
    }
}

#[test]
fn resubmits_are_counted_in_all() {
    for (count, expected) in [(4096_usize, "p2"), (4097, "drop: resubmit_count")] {
        let mut setup = Setup::new();
        // 64 x 64 = 4096 with those of the first list.
        let inner = 63;
        let outer = count / (inner + 1);
        let rest = count % (inner + 1);
        let mut list = vec![resubmit(1); outer];
        list.extend(vec![resubmit(2); rest]);
        list.push(out(2));
        setup.flow(0, "", list).flow(1, "", vec![resubmit(2); inner]).flow(2, "", []);
        assert_eq!(setup.ops(TCP), expected, "{count} resubmits");
    }
}

#[test]
fn too_many_actions_or_outputs_are_stopped() {
    let mut setup = Setup::new();
    setup.flow(0, "", vec![resubmit(1); 4000]).flow(1, "", vec![set(Field::Reg0, 1); 100]);
    assert_eq!(setup.ops(TCP), "drop: work_limit");
    let mut setup = Setup::new();
    setup.flow(0, "", vec![resubmit(1); 1000]).flow(1, "", vec![out(2), out(3), out(4), out(5), out(6)]);
    assert_eq!(setup.ops(TCP), "drop: work_limit");
    let mut setup = Setup::new();
    let mut nested = out(2);
    for _ in 0..65 {
        nested = Action::Clone([nested].into());
    }
    setup.flow(0, "", [nested]);
    assert_eq!(setup.ops(TCP), "drop: work_limit");
}

#[test]
fn a_clone_undoes_everything() {
    let mut setup = Setup::new();
    let stack = Action::StackPush(sub("NXM_NX_REG0[]"));
    let inside = [set(Field::Reg0, 7), set(Field::NwTtl, 9), stack, out(2)];
    let pop = Action::StackPop(sub("NXM_NX_REG1[]"));
    setup.flow(0, "tcp", [set(Field::Reg0, 1), Action::Clone(inside.into()), pop, resubmit(1)]);
    setup.flow(1, "reg0=1,reg1=0,ip,nw_ttl=64", [out(3)]);
    assert_eq!(setup.ops(TCP), "clone(set(ipv4(ttl=9)),p2),p3");
    // What only sends needs no clone, and the last one is none.
    let mut setup = Setup::new();
    let rewrite = |ttl| Action::Clone([set(Field::NwTtl, ttl), out(3)].into());
    setup.flow(0, "tcp", [Action::Clone([out(2)].into()), rewrite(5), rewrite(6)]);
    assert_eq!(setup.ops(TCP), "p2,clone(set(ipv4(ttl=5)),p3),set(ipv4(ttl=6)),p3");
}

#[test]
fn exit_ends_callers_clones_and_the_action_set() {
    let mut setup = Setup::new();
    setup.flow(0, "in_port=1", [out(2), resubmit(1), out(3)]);
    setup.flow(1, "", [out(4), Action::Exit, out(5)]);
    assert_eq!(setup.ops(TCP), "p2,p4");
    // As Open vSwitch 3.1: exit inside a clone ends the list around it, and no action set is
    // executed.
    setup.flow(1, "", [Action::Clone([out(4), Action::Exit].into()), out(5)]);
    assert_eq!(setup.ops(TCP), "p2,p4");
    setup.flow(0, "in_port=1", [Action::WriteActions([out(2)].into()), Action::GotoTable(2)]);
    setup.flow(2, "", [Action::Exit]);
    assert_eq!(setup.ops(TCP), "drop: rule_drop");
}

#[test]
fn dec_ttl_ends_only_its_own_list() {
    let mut setup = Setup::new();
    let dec = || Action::DecTtl([0].into());
    setup.flow(0, "ip", [out(2), resubmit(1), Action::Clone([dec(), out(5)].into()), out(3)]);
    setup.flow(1, "ip", [dec(), out(4)]);
    assert_eq!(setup.ops(TCP), "p2,set(ipv4(ttl=63)),p4,clone(set(ipv4(ttl=62)),p5),p3");
    let low = TCP.replace("nw_ttl=64", "nw_ttl=1");
    let told = |table, cookie| format!("controller(reason=invalid_ttl,id=0,table={table},cookie={cookie:#x})");
    let expected = format!("p2,{},{},p3", told(1, 0x1_0000_0064_u64), told(0, 100_u64));
    assert_eq!(setup.ops(&low), expected);
    // Not IP: nothing happens.
    setup.flow(0, "arp", [dec(), out(3)]);
    assert_eq!(setup.ops(ARP), "p3");
}

#[test]
fn the_stack_outlives_lists() {
    let mut setup = Setup::new();
    setup.flow(
        0,
        "",
        [
            resubmit(1),
            Action::StackPop(sub("NXM_NX_REG2[0..7]")),
            Action::StackPop(sub("NXM_NX_REG3[]")),
            Action::StackPop(sub("NXM_NX_REG4[]")),
            resubmit(2),
        ],
    );
    setup.flow(
        1,
        "",
        [
            set(Field::Reg0, 0x1234),
            Action::StackPush(sub("NXM_NX_REG0[0..7]")),
            Action::StackPush(sub("NXM_NX_REG0[]")),
        ],
    );
    setup.flow(2, "reg2=0x34,reg3=0x34,reg4=0", [out(2)]);
    assert_eq!(setup.ops(TCP), "p2", "the last pushed first, cut off; nothing from an empty stack");
    let mut setup = Setup::new();
    setup.flow(0, "", vec![Action::StackPush(sub("NXM_NX_REG0[]")); 4097]);
    assert_eq!(setup.ops(TCP), "drop: stack_depth");
}

#[test]
fn the_action_set_comes_last_and_in_order() {
    let mut setup = Setup::new();
    let write = |actions: &[Action]| Action::WriteActions(actions.into());
    setup.flow(0, "ip", [out(2), write(&[out(3), set(Field::NwTtl, 9)]), Action::GotoTable(1)]);
    setup.flow(1, "ip", [write(&[out(4), Action::PushVlan(0x8100)]), out(5)]);
    assert_eq!(setup.ops(TCP), "p2,p5,push_vlan(tpid=0x8100,vid=0,pcp=0),set(ipv4(ttl=9)),p4");
    setup.flow(1, "ip", [Action::ClearActions, out(5)]);
    assert_eq!(setup.ops(TCP), "p2,p5");
    // A set that sends nothing is not executed; actset_output can be matched.
    setup.flow(0, "ip", [write(&[set(Field::NwTtl, 9)]), Action::GotoTable(2)]);
    setup.flow(2, "actset_output=unset", [write(&[out(6)]), Action::GotoTable(3)]);
    setup.flow(3, "actset_output=6", [out(7)]);
    assert_eq!(setup.ops(TCP), "p7,set(ipv4(ttl=9)),p6");
    // A clone executes the set too (as Open vSwitch 3.1).
    setup.flow(3, "actset_output=6", [Action::Clone([out(8)].into())]);
    assert_eq!(setup.ops(TCP), "p8,clone(set(ipv4(ttl=9)),p6),set(ipv4(ttl=9)),p6");
}

#[test]
fn the_length_decides_for_the_rest_of_the_list() {
    let mut setup = Setup::new();
    let check = Action::CheckPktLarger { len: 100, to: sub("NXM_NX_REG0[0]") };
    setup.flow(0, "ip", [set(Field::NwTtl, 9), resubmit(1), out(4)]);
    setup.flow(1, "ip", [check, out(5), resubmit(2)]);
    setup.flow(2, "reg0=1", [out(2)]);
    setup.flow(2, "reg0=0", [set(Field::NwTtl, 8), out(3)]);
    let expected = "set(ipv4(ttl=9)),clone(check_pkt_len(size=100,gt(p5,p2),le(p5,set(ipv4(ttl=8)),p3))),p4";
    assert_eq!(setup.ops(TCP), expected);
    setup.flow(0, "ip", [resubmit(1)]).flow(2, "reg0=0", []);
    assert_eq!(setup.ops(TCP), "check_pkt_len(size=100,gt(p5,p2),le(p5))");
}

#[test]
fn resubmit_ct_looks_up_the_original_direction() {
    let mut setup = Setup::new();
    let ct = Action::Resubmit { port: None, table: Some(1), ct: true };
    setup.flow(0, "", [ct, out(3), resubmit(2)]);
    setup.flow(1, "tcp,nw_src=10.0.0.9,tcp_dst=443", [resubmit(2)]);
    setup.flow(2, "tcp,nw_src=10.0.0.1,tcp_dst=80", [out(2)]);
    assert_eq!(setup.ops(TCP), "p3,p2", "no connection: no lookup");
    let mut packet = key(TCP);
    packet.set(Field::CtNwProto, 6);
    packet.set(Field::CtNwSrc, 0x0a00_0009);
    packet.set(Field::CtTpDst, 443);
    let translation = setup.translate(&packet, Start::Table);
    assert_eq!(setup.show(&translation), "p2,p3,p2");
    let mask = translation.mask;
    assert_eq!((mask.get(Field::CtNwSrc), mask.get(Field::CtTpDst)), (0xffff_ffff, 0xffff), "they were matched");
    assert_eq!((mask.get(Field::CtNwDst), mask.get(Field::NwDst)), (0, 0));
}

#[test]
fn credits_name_every_rule_and_table() {
    use super::super::Credit;
    let mut setup = Setup::new();
    setup.flow(0, "ip", [resubmit(1), resubmit(1), resubmit(2)]).flow(1, "ip", [out(2)]).flow(2, "arp", []);
    let translation = setup.run(TCP);
    let program = &setup.world.bridges[0].program;
    let names: Vec<String> = translation
        .credits
        .iter()
        .map(|credit| match credit {
            Credit::Table(stats, hit) => {
                let table = program.tables.iter().flatten().find(|table| Arc::ptr_eq(&table.stats, stats));
                format!("table {} {hit}", table.expect("a table").id)
            }
            Credit::Rule(stats) => {
                let rules = program.tables.iter().flatten().flat_map(|table| table.rules.iter());
                let rule = rules.map(|entry| &entry.data).find(|rule| Arc::ptr_eq(&rule.stats, stats));
                format!("rule {}", rule.expect("a rule").table)
            }
            other => format!("{other:?}"),
        })
        .collect();
    let expected = ["table 0 true", "rule 0", "table 1 true", "rule 1", "table 1 true", "rule 1", "table 2 false"];
    assert_eq!(names, expected);
    assert_eq!(translation.deps.tables, [0b111, 0, 0, 0]);
    assert!(!translation.deps.groups && !translation.deps.fdb && !translation.deps.all && !translation.deps.links);
    assert!(!translation.deps.any_rule && Setup::new().run(TCP).deps.any_rule);
}
