//! Trace.

use super::*;
use crate::pipeline::{Trace, Tracing, trace};
use vswitch_flow::spec::{BucketSpec, GroupKind, Selection, Update};
use vswitch_flow::text::{FlowCommand, parse_flow};

fn tell(setup: &Setup, packet: &str) -> Trace {
    trace(&setup.world, &Tracing { bridge: 0, key: &key(packet), now: Millis(0), names: &[], ct_next: &[] })
}

#[test]
fn the_story_is_told_as_open_vswitch_does() {
    let mut setup = Setup::new();
    let bucket = BucketSpec { id: 4, weight: 1, watch_port: None, watch_group: None, actions: [out(3)].into() };
    setup.group(GroupSpec { id: 1, kind: GroupKind::Indirect, selection: Selection::Default, buckets: vec![bucket] });
    setup.flow_in(0, 0, 7, "in_port=1,tcp", [set(Field::Reg0, 5), resubmit(1), resubmit(2), Action::GotoTable(3)]);
    setup.flow_in(0, 1, 9, "ip", [set(Field::NwTtl, 9), Action::Group(1), out(2)]);
    setup.flow_in(0, 2, 30, "tcp,tcp_dst=443", [out(2)]);
    setup.flow_in(0, 2, 20, "udp", [out(2)]);
    setup.flow_in(0, 2, 10, "arp", [out(2)]);
    setup.flow_in(0, 2, 5, "ip,nw_dst=10.9.9.9", [out(2)]);
    setup.flow_in(0, 3, 1, "", []);
    let trace = tell(&setup, TCP);
    let flow = "tcp,in_port=1,vlan_tci=0x0000,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_src=10.0.0.1,\
                nw_dst=10.0.0.2,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no,tp_src=1234,tp_dst=80,tcp_flags=0";
    let end = flow.replace("tcp,in_port", "tcp,reg0=0x5,in_port").replace("nw_ttl=64", "nw_ttl=9");
    let megaflow = "recirc_id=0,eth,tcp,in_port=1,nw_dst=10.0.0.0/13,nw_frag=no,tp_dst=0x0/0xff00";
    let expected = format!(
        "Flow: {flow}\n\
         \n\
         bridge(\"br0\")\n\
         -------------\n \
          0. tcp,in_port=1, priority 7, cookie 0x7\n    \
             set_field:0x5->reg0\n    \
             resubmit(,1)\n     \
              1. ip, priority 9, cookie 0x100000009\n            \
                     set_field:9->nw_ttl\n            \
                     group:1\n            \
                     bucket 4\n                    \
                             output:3\n            \
                     output:2\n    \
             resubmit(,2)\n     \
              2. No match.\n             \
                      -> not tcp,tp_dst=443, priority 30, cookie 0x20000001e: tp_dst is 80\n             \
                      -> not udp, priority 20, cookie 0x200000014: nw_proto is 6\n             \
                      -> not arp, priority 10, cookie 0x20000000a: eth_type is 0x800\n            \
                     drop\n    \
             goto_table:3\n \
          3. priority 1, cookie 0x300000001\n    \
             drop\n\
         \n\
         Final flow: {end}\n\
         Megaflow: {megaflow}\n\
         Datapath actions: set(ipv4(ttl=9)),p3,p2\n"
    );
    assert_eq!(trace.text, expected);
    assert_eq!((trace.final_flow, trace.megaflow), (end, megaflow.to_owned()));
    assert_eq!((trace.actions.as_str(), trace.drop_reason), ("set(ipv4(ttl=9)),p3,p2", None));
}

#[test]
fn a_trace_changes_nothing_and_predicts() {
    let mut setup = Setup::new();
    setup.flow(0, "", [out(port::NORMAL)]);
    let packet = "in_port=1,dl_src=02:00:00:00:00:0a,dl_dst=02:00:00:00:00:0b,dl_type=0x1234";
    let told = tell(&setup, packet);
    assert_eq!(setup.world.bridges[0].fdb.stats().entries, 0);
    let want = "\
 0. priority 100, cookie 0x64
    NORMAL
     -> learned that 02:00:00:00:00:0a is on port p1 in VLAN 0
     >> suppressing side effects, so the address is not learned
     -> no learned MAC for destination, flooding
";
    assert!(told.text.contains(want), "{}", told.text);
    assert_eq!(told.actions, setup.ops(packet));
    setup.flow(0, "", [Action::Exit]);
    let told = tell(&setup, packet);
    assert_eq!((told.final_flow.as_str(), told.actions.as_str()), ("unchanged", "drop"));
    assert_eq!(told.drop_reason, Some("rule_drop"));
    assert!(
        told.text.ends_with("Drop reason: rule_drop (A flow matched that sends the packet nowhere.)\n"),
        "{}",
        told.text
    );
}

/// The actions of a line.
fn actions(text: &str) -> Vec<Action> {
    let parsed = parse_flow(&format!("actions={text}"), FlowCommand::Add, &NoNames).expect(text);
    let Update::AddFlow(flow) = parsed.value else { panic!("{text}: no flow") };
    flow.actions.to_vec()
}

/// The layout of `ofproto/trace` of Open vSwitch 3.1.
#[test]
fn what_comes_last_stands_no_further_right() {
    let mut setup = Setup::new();
    setup.flow_in(0, 0, 0, "", actions("resubmit(,7),write_actions(output:2),goto_table:1"));
    setup.flow_in(0, 1, 0, "", actions("write_actions(output:3),goto_table:2"));
    setup.flow_in(0, 2, 0, "", actions("resubmit(,5),clear_actions,write_actions(output:3,set_field:9->reg1)"));
    let want = "
bridge(\"br0\")
-------------
 0. priority 0
    resubmit(,7)
     7. No match.
            drop
    write_actions(output:2)
     -> action set is: output:2
    goto_table:1
     1. priority 0, cookie 0x100000000
            write_actions(output:3)
             -> action set is: output:3
            goto_table:2
         2. priority 0, cookie 0x200000000
            resubmit(,5)
             5. No match.
                    drop
            clear_actions
             -> action set was: output:3
            write_actions(output:3,set_field:0x9->reg1)
             -> action set is: set_field:0x9->reg1,output:3
--. Executing action set:
    set_field:0x9->reg1
    output:3

Final flow: ";
    let told = tell(&setup, TCP).text;
    assert!(told.contains(want), "{told}");
}

#[test]
fn what_is_learned_is_told() {
    let mut setup = Setup::new();
    let line =
        "learn(table=9,priority=77,cookie=3,idle_timeout=4,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])";
    setup.flow(0, "", actions(line));
    let told = tell(&setup, TCP);
    let want = "
     -> table=9 dl_dst=02:00:00:00:00:01 priority=77 cookie=0x3 idle=4 actions=output:1
     >> suppressing side effects, so learn action ignored
";
    assert!(told.text.contains(want), "{}", told.text);
}

#[test]
fn names_are_used_where_there_are_some() {
    struct Named;
    impl vswitch_flow::text::Names for Named {
        fn port(&self, _: &str) -> Option<u32> {
            None
        }
        fn port_name(&self, number: u32) -> Option<&str> {
            (number == 1).then_some("web")
        }
        fn table(&self, _: &str) -> Option<u8> {
            None
        }
        fn table_name(&self, number: u8) -> Option<&str> {
            (number == 1).then_some("Output")
        }
    }
    let mut setup = Setup::new();
    setup.flow(0, "in_port=1", [Action::GotoTable(1)]).flow(1, "", [out(port::IN_PORT)]);
    let told =
        trace(&setup.world, &Tracing { bridge: 0, key: &key(TCP), now: Millis(0), names: &[&Named], ct_next: &[] });
    assert!(told.text.contains("in_port=web, priority 100"), "{}", told.text);
    assert!(told.text.contains("goto_table:Output"), "{}", told.text);
    assert!(told.megaflow.contains("in_port=web"), "{}", told.megaflow);
}
