//! T03: action lists that are legal and absurd. What they do is defined, or a budget drops the
//! whole packet by name.

use crate::bed::{Bed, udp};
use std::time::Duration;

fn tagged(packet: &[u8], tags: usize) -> Vec<u8> {
    [&packet[..12], &[0x81, 0, 0, 5].repeat(tags), &packet[12..]].concat()
}

/// As many outputs as a list can have, and as many as a packet may lead to; one more drops all of
/// them.
#[test]
fn outputs_are_4096() {
    let mut bed = Bed::new(2);
    let outputs = |n: usize| vec!["output:2"; n].join(",");
    for (more, wanted) in [(0, (4090, "-")), (6, (4096, "-")), (7, (0, "work_limit"))] {
        let first = format!("actions={},goto_table:1", outputs(4090));
        bed.load(&[&first, &format!("table=1,actions={}", if more == 0 { "drop".to_owned() } else { outputs(more) })]);
        let (ports, reason) = bed.fate(&udp(1));
        assert_eq!((ports.len(), reason.as_str()), wanted, "4090 and {more} outputs");
    }
    // To ports that are not there, by as many buckets as a group may have: nothing happens, and it
    // has a name.
    let buckets: String = (3..4099).map(|port| format!(",bucket=output:{port}")).collect();
    bed.load(&[&format!("group add group_id=1,type=all{buckets}"), "actions=group:1"]);
    assert_eq!(bed.fate(&udp(1)), (Vec::new(), "no_port".to_owned()));
    bed.settle();
}

/// Lists of thousands of actions, executed thousands of times; clones in clones; a stack that only
/// grows.
#[test]
fn work_is_bounded() {
    let mut bed = Bed::new(2);
    let list = |action: &str, n: usize| vec![action; n].join(",");
    let busy = [
        format!("actions=output:2,{}", list("resubmit(,1)", 4000)),
        format!("table=1,actions={}", list("set_field:1->reg0,set_field:2->reg0", 1000)),
    ];
    let changing = [
        format!("actions={}", list("resubmit(,1)", 4000)),
        format!(
            "table=1,actions={}",
            list("set_field:02:00:00:00:00:09->eth_dst,output:2,set_field:02:00:00:00:00:08->eth_dst", 10)
        ),
    ];
    let nested: Vec<String> = (0..100)
        .map(|table| format!("table={table},actions=output:2,clone(set_field:5->reg0,resubmit(,{}))", table + 1))
        .collect();
    let deep = [
        format!("actions=output:2,{0}resubmit(,1){1}", "clone(".repeat(30), ")".repeat(30)),
        format!("table=1,actions={0}resubmit(,2){1}", "clone(".repeat(30), ")".repeat(30)),
        format!("table=2,actions={0}output:2{1}", "clone(".repeat(30), ")".repeat(30)),
    ];
    let push = "push:NXM_NX_REG0[]";
    let stack = [
        format!("actions=output:2,{},goto_table:1", list(push, 2700)),
        format!("table=1,actions={}", list(push, 1397)),
    ];
    let cases: [(&[String], &str); 5] = [
        (&busy, "work_limit"),
        (&changing, "work_limit"),
        (&nested, "work_limit"),
        (&deep, "work_limit"),
        (&stack, "stack_depth"),
    ];
    for (program, reason) in cases {
        bed.load(&program.iter().map(String::as_str).collect::<Vec<_>>());
        let (fate, took) = bed.timed(|bed| bed.fate(&udp(1)));
        assert_eq!(fate, (Vec::new(), reason.to_owned()), "{:.60}", program[0]);
        assert!(took < Duration::from_secs(40), "{took:?} for four packets: {:.60}", program[0]);
    }
    // One entry less on the stack, 60 clones in one another.
    let stack = [stack[0].clone(), format!("table=1,actions={}", list(push, 1396))];
    bed.load(&stack.each_ref().map(String::as_str));
    assert_eq!(bed.fate(&udp(1)), (vec!["p2".to_owned()], "-".to_owned()));
    bed.load(&[&deep[0], &deep[1], "table=2,actions=output:2"]);
    assert_eq!(bed.fate(&udp(1)), (vec!["p2".to_owned(); 2], "-".to_owned()));
    bed.settle();
}

/// A hundred tags: a packet keeps the two outer ones, as in Open vSwitch.
#[test]
fn of_many_tags_two_are_kept() {
    let mut bed = Bed::new(2);
    let program = |tags: u32| -> Vec<String> {
        let push = |table: u32| {
            format!("table={table},actions=push_vlan:0x8100,set_field:4101->vlan_vid,resubmit(,{})", table + 1)
        };
        (0..tags).map(push).chain([format!("table={tags},actions=output:2")]).collect()
    };
    for tags in [1, 2, 3, 16, 100] {
        bed.load(&program(tags).iter().map(String::as_str).collect::<Vec<_>>());
        let sent = bed.send("p1", &udp(1));
        assert_eq!(sent, [("p2".to_owned(), tagged(&udp(1), tags.min(2) as usize))], "{tags} tags");
    }
    bed.settle();
}

/// Where nothing is checked beforehand (in buckets): popping what is not there, setting what the
/// packet does not have, and a stack with nothing on it change nothing.
#[test]
fn what_is_not_there_is_not_changed() {
    let mut bed = Bed::new(2);
    let plain = udp(1);
    for action in [
        "pop_vlan",
        "pop_vlan,pop_vlan",
        "pop:NXM_NX_REG0[]",
        "set_field:80->tcp_dst",
        "set_field:fd00::1->ipv6_dst",
        "set_field:2->arp_op",
        "set_field:3->icmp_type",
        "set_field:fd00::1->nd_target",
        "move:NXM_OF_TCP_DST[]->NXM_OF_UDP_DST[]",
        "move:NXM_NX_ARP_SHA[]->NXM_OF_ETH_SRC[]",
        "load:7->NXM_NX_IPV6_DST[0..31]",
    ] {
        bed.load(&[&format!("group add group_id=1,type=indirect,bucket={action},output:2"), "actions=group:1"]);
        for _ in 0..2 {
            assert_eq!(bed.send("p1", &plain), [("p2".to_owned(), plain.clone())], "{action}");
        }
    }
    bed.settle();
}

/// Cut to 14 bytes, the least there is, more than there is, and an uncut copy behind it.
#[test]
fn truncation_cuts_one_copy() {
    let mut bed = Bed::new(3);
    bed.add(&["actions=output(port=2,max_len=14),output(port=2,max_len=65535),output:3,output(port=1,max_len=20)"]);
    let plain = udp(1);
    let copies = [("p2", plain[..14].to_vec()), ("p2", plain.clone()), ("p3", plain.clone())];
    assert_eq!(bed.send("p1", &plain), copies.map(|(port, packet)| (port.to_owned(), packet)));
    bed.settle();
}
