//! T05: learn that replaces itself, that finds what it has learned at once, and that learns a
//! million flows.

use crate::bed::{BRIDGE, Bed, udp};
use crate::common::number;

fn flows(bed: &Bed, filter: &str) -> u64 {
    let sums = bed.switch.json(&["dump-aggregate", BRIDGE, filter]);
    number(&sums, "flows")
}

/// A learned flow of the match and priority of the flow that learns takes its place, with its
/// counters: what Open vSwitch does. The next packet does what the learned flow says.
#[test]
fn a_learn_that_replaces_its_own_flow() {
    let mut bed = Bed::new(3);
    let learn = "learn(table=0,priority=5,eth_type=0x800,nw_proto=17,load:1->NXM_NX_REG0[],output:NXM_NX_REG1[])";
    bed.add(&[&format!("priority=5,udp,actions=load:3->NXM_NX_REG1[],{learn},output:2")]);
    assert_eq!(bed.ports("p1", &udp(1)), ["p2"]);
    let shown = bed.vsctl("dump-flows", &["--no-stats"], None).expect("flows");
    assert_eq!(shown, " priority=5,udp actions=set_field:0x1->reg0,output:3");
    for packet in 2..5 {
        assert_eq!(bed.ports("p1", &udp(packet)), ["p3"]);
    }
    let sums = bed.switch.json(&["dump-aggregate", BRIDGE]);
    assert_eq!((number(&sums, "flows"), number(&sums, "packets")), (1, 4), "{sums:#}");
    bed.settle();
}

/// A packet does not meet, still under way, what it has just taught, as in Open vSwitch: this one
/// goes round until the budget ends it. The next one meets the learned flow, with the caches and
/// without.
#[test]
fn what_a_packet_teaches_is_for_the_next_one() {
    let mut bed = Bed::new(3);
    bed.add(&[
        "table=0,udp,actions=learn(table=1,priority=9,eth_type=0x800,nw_proto=17,udp_src=NXM_OF_UDP_SRC[],load:3->NXM_NX_REG1[],output:NXM_OF_IN_PORT[]),resubmit(2,1)",
        "table=1,priority=1,actions=resubmit(,0)",
    ]);
    assert_eq!(bed.ports("p1", &udp(1)), Vec::<String>::new());
    assert_eq!(bed.drops(BRIDGE, "p1").into_iter().collect::<Vec<_>>(), [("resubmit_depth".to_owned(), 1)]);
    // Learned: output to the port that it came from, which is skipped.
    assert_eq!(bed.fate(&udp(1)), (Vec::new(), "rule_drop".to_owned()));
    assert_eq!(flows(&bed, "table=1,udp"), 1);
    bed.settle();
}

/// `limit`: so many flows of a cookie, and the bit that says so; what is there is refreshed.
#[test]
fn a_learn_has_its_own_quota() {
    let mut bed = Bed::new(3);
    bed.add(&[
        "udp,actions=learn(table=1,cookie=0x77,limit=10,result_dst=NXM_NX_REG0[0],eth_type=0x800,nw_proto=17,udp_src=NXM_OF_UDP_SRC[]),resubmit(,2)",
        "table=2,reg0=1,actions=output:2",
        "table=2,reg0=0,actions=output:3",
    ]);
    for source in 1..=1000 {
        let wanted = if source <= 10 { "p2" } else { "p3" };
        assert_eq!(bed.ports("p1", &udp(source)), [wanted], "{source}");
    }
    assert_eq!(bed.ports("p1", &udp(5)), ["p2"], "one that is there");
    assert_eq!(flows(&bed, "table=1,cookie=0x77/-1"), 10);
    bed.settle();
}

/// A million flows to learn: a table takes what the limit says, the bridge too; the rest is refused
/// and counted. Hand-made flows are not in the way of it, packets go on, and when the learned flows
/// are deleted there is room again.
#[test]
fn a_million_learned_flows_stop_at_the_limit() {
    let mut bed = Bed::new(3);
    let limits = bed.limits();
    let (per_table, per_bridge) = (u64::from(limits.learned_per_table_max), u64::from(limits.learned_per_bridge_max));
    // 100 flows of a packet into each table: one for each constant, and each source port. Then on
    // to the port.
    const AT_ONCE: u64 = 100;
    let learn = |table: u32, i: u64| {
        format!(
            "learn(table={table},priority=3,cookie=0x9,eth_type=0x800,nw_proto=17,udp_src=NXM_OF_UDP_SRC[],NXM_NX_REG0[]={i})"
        )
    };
    let list = |table| (0..AT_ONCE).map(|i| learn(table, i)).collect::<Vec<_>>().join(",");
    bed.add(&[
        &format!("table=0,udp,actions={},goto_table:1", list(10)),
        &format!("table=1,udp,actions={},goto_table:2", list(11)),
        &format!("table=2,udp,actions={},output:2", list(12)),
        "table=10,priority=2,actions=drop",
    ]);
    let packets = 1_000_000 / AT_ONCE / 3 + 1;
    for source in 0..packets {
        let source = u16::try_from(source).expect("few");
        assert_eq!(bed.ports("p1", &udp(source)), ["p2"], "packet {source}");
    }
    eprintln!("{} learns done", packets * AT_ONCE * 3);
    let learned: Vec<u64> = (10..13).map(|table| flows(&bed, &format!("table={table},cookie=0x9/-1"))).collect();
    assert!(learned.iter().all(|flows| *flows <= per_table), "{learned:?}");
    assert_eq!(learned.iter().sum::<u64>(), per_bridge, "{learned:?}");
    let tables = bed.switch.json(&["dump-tables", BRIDGE]);
    let refused: u64 = tables.as_array().expect("tables").iter().map(|table| number(table, "learn_refused")).sum();
    assert!(refused >= packets * AT_ONCE * 3 - per_bridge, "{refused}");
    assert!(bed.vsctl("dump-tables", &[], None).expect("tables").contains("learn_refused="));
    // Other flows can still be added, also to those tables, and packets still pass.
    bed.add(&["table=10,priority=1,cookie=0x8,actions=drop", "priority=40000,tcp,actions=output:3"]);
    assert_eq!(bed.ports("p1", &udp(9)), ["p2"]);
    bed.vsctl("del-flows", &["cookie=0x9/-1"], None).expect("deleted");
    assert_eq!(flows(&bed, "cookie=0x9/-1"), 0);
    // The worker slept meanwhile. It is not for the next packet to wait until all of them are
    // freed.
    let start = std::time::Instant::now();
    bed.ports("p1", &udp(9));
    eprintln!("the next packet: {:?}", start.elapsed());
    assert_eq!(flows(&bed, "cookie=0x9/-1"), 3 * AT_ONCE, "there is room again");
    bed.settle();
}

/// What a packet causes is kept with the decision about it: 900 learns take 600 KB. Such decisions
/// are not kept, whoever asks for how many of them.
#[test]
fn large_decisions_do_not_fill_the_memory() {
    let mut bed = Bed::new(3);
    let learn = |i: u32| format!("learn(table=10,priority=3,eth_type=0x800,NXM_NX_REG0[]={i})");
    let list = (0..900).map(learn).collect::<Vec<_>>().join(",");
    // A decision for each source port.
    bed.add(&[
        &format!("udp,actions={list},resubmit(,1)"),
        "table=1,udp,udp_src=0xffff,actions=drop",
        "table=1,priority=0,actions=multipath(symmetric_l4,0,modulo_n,2,0,NXM_NX_REG1[0]),output:2",
    ]);
    for source in 0..10 {
        assert_eq!(bed.ports("p1", &from(source)), ["p2"]);
    }
    let before = bed.memory();
    for source in 10..1000 {
        assert_eq!(bed.ports("p1", &from(source)), ["p2"]);
    }
    let more = bed.memory().saturating_sub(before);
    assert!(more < 64 << 20, "{} MB more", more >> 20);
    bed.settle();
}

/// From its own MAC address, which the choice of a path looks at.
fn from(source: u16) -> Vec<u8> {
    let mut packet = udp(source);
    packet[10..12].copy_from_slice(&source.to_be_bytes());
    packet
}

/// A packet that would learn 4,000 flows over and over: 4,096 learns are its share of work; beyond,
/// it is dropped by name.
#[test]
fn one_packet_learns_so_many_flows_and_no_more() {
    let mut bed = Bed::new(3);
    let learn = |i: u32| format!("learn(table=10,eth_type=0x800,NXM_NX_REG0[]={i})");
    let list = (0..100).map(learn).collect::<Vec<_>>().join(",");
    for (rounds, wanted) in [(40, (vec!["p2".to_owned()], "-")), (41, (Vec::new(), "work_limit"))] {
        let all = vec!["resubmit(,1)"; rounds].join(",");
        bed.load(&[&format!("actions={all},output:2"), &format!("table=1,actions={list}")]);
        let (ports, reason) = bed.fate(&udp(1));
        assert_eq!((ports, reason.as_str()), wanted, "{rounds} times 100 learns");
    }
    bed.settle();
}
