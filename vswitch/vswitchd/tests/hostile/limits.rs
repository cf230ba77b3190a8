//! T02: as much of everything as the switch says that it takes, and one more: refused by name, and
//! what is there still works.

use crate::bed::{Bed, udp};
use std::fmt::Write;
use std::time::Duration;

/// Lines of numbers.
fn lines(numbers: impl Iterator<Item = u32>, line: impl Fn(u32) -> String) -> String {
    numbers.fold(String::new(), |mut text, i| {
        let _ = writeln!(text, "{}", line(i));
        text
    })
}

/// Adds the lines, then one more, which must be refused with this code and change nothing.
fn fill(bed: &Bed, all: &str, one_more: &str, code: &str, limit: u32) {
    bed.vsctl("bundle", &["-"], Some(all)).unwrap_or_else(|error| panic!("{code}: {error:.500}"));
    let told = bed.refused(&[one_more]);
    assert!(told.starts_with(&format!("vsctl: -:1: {code}: ")) && told.contains(&limit.to_string()), "{told}");
}

/// All 254 tables, one after the other, and each with a name.
#[test]
fn a_packet_through_all_tables() {
    let mut bed = Bed::new(2);
    assert_eq!(bed.limits().tables, 254);
    for table in [0, 100, 253] {
        bed.vsctl("add-table", &[&format!("Table{table}"), "--number", &table.to_string()], None).expect("a name");
    }
    let all = lines(0..253, |table| format!("table={table},actions=set_field:{table}->reg0,goto_table:{}", table + 1));
    bed.vsctl("add-flows", &["-"], Some(&all)).expect("253 gotos");
    bed.add(&["table=Table253,reg0=252,actions=output:2"]);
    assert_eq!(bed.fate(&udp(1)), (vec!["p2".to_owned()], "-".to_owned()));
    for number in ["254", "255"] {
        let told = bed.vsctl("add-table", &["Table254", "--number", number], None).expect_err("no such table");
        assert!(told.contains("0..=253") || told.contains("0 to 253"), "{told}");
    }
    bed.settle();
}

/// Buckets of a group, groups, meters.
#[test]
fn groups_buckets_and_meters_end_at_their_limits() {
    let mut bed = Bed::new(2);
    let limits = bed.limits();
    let buckets = |n: u32| (0..n).fold(String::new(), |text, _| text + ",bucket=output:2");
    bed.add(&[&format!("group add group_id=1,type=all{}", buckets(limits.buckets_max)), "actions=group:1"]);
    assert_eq!(bed.ports("p1", &udp(1)).len(), 4096);
    let told = bed.refused(&[&format!("group add group_id=2,type=all{}", buckets(limits.buckets_max + 1))]);
    assert!(told.starts_with("vsctl: -:1: OFPGMFC_OUT_OF_BUCKETS: ") && told.contains("4096"), "{told}");
    let told = bed.refused(&["group insert_bucket group_id=1,command_bucket_id=last,bucket=bucket_id:9999,output:2"]);
    assert!(told.starts_with("vsctl: -:1: OFPGMFC_OUT_OF_BUCKETS: "), "{told}");

    bed.load(&[]);
    let group = |id: u32| format!("group add group_id={id},type=indirect,bucket=output:2");
    let groups = lines(1..limits.groups_max + 1, group);
    fill(&bed, &groups, &group(limits.groups_max + 1), "OFPGMFC_OUT_OF_GROUPS", limits.groups_max);
    bed.add(&[&format!("actions=group:{}", limits.groups_max)]);
    assert_eq!(bed.fate(&udp(1)), (vec!["p2".to_owned()], "-".to_owned()));

    bed.load(&[]);
    let meter = |id: u32| format!("meter add meter={id},pktps,band=type=drop,rate=100");
    let meters = lines(1..limits.meters_max + 1, meter);
    fill(&bed, &meters, &meter(limits.meters_max + 1), "OFPMMFC_OUT_OF_METERS", limits.meters_max);
    bed.add(&[&format!("actions=meter:{},output:2", limits.meters_max)]);
    assert_eq!(bed.fate(&udp(1)), (vec!["p2".to_owned()], "-".to_owned()));
    bed.settle();
}

/// Clauses of one flow, and one more. What is listed can be added again.
#[test]
fn a_flow_of_nothing_but_clauses() {
    let mut bed = Bed::new(2);
    let limit = bed.limits().clauses_len_max;
    // Those of the conjunctions 2, 3, ...
    let port = |count: u32| {
        let clauses: Vec<String> = (2..2 + count).map(|id| format!("conjunction({id},2/2)")).collect();
        format!("priority=9,udp,tp_dst=53,actions={}", clauses.join(","))
    };
    let last = limit + 1;
    let address = format!("priority=9,ip,nw_src=10.0.0.1,actions=conjunction({last},1/2)");
    let all = [port(limit), address, format!("priority=8,conj_id={last},ip,actions=output:2")];
    bed.load(&all.each_ref().map(String::as_str));
    assert_eq!(bed.fate(&udp(5)), (vec!["p2".to_owned()], "-".to_owned()));
    let dump = bed.vsctl("dump-flows", &["--no-stats"], None).expect("flows");
    bed.load(&[]);
    bed.vsctl("add-flows", &["-"], Some(&dump)).expect("what was listed");
    assert!(bed.vsctl("dump-flows", &["--no-stats"], None) == Ok(dump), "the same");
    assert_eq!(bed.fate(&udp(5)), (vec!["p2".to_owned()], "-".to_owned()));
    bed.add(&[&port(limit - 1)]);
    assert_eq!(bed.ports("p1", &udp(5)), Vec::<String>::new(), "the last one has gone");
    let told = bed.vsctl("add-flows", &["-"], Some(&port(limit + 1))).expect_err("one more");
    assert!(told.contains(&format!("more than {limit} conjunctions")), "{told:.500}");
    bed.settle();
}

/// A million flows in one table, and one more.
#[test]
fn a_table_takes_a_million_flows() {
    let mut bed = Bed::new(2);
    let limit = bed.limits().flows_per_table_max;
    let flow = |i: u32| {
        let [_, a, b, c] = i.to_be_bytes();
        format!("table=1,ip,nw_dst=10.{a}.{b}.{c},actions=output:2")
    };
    bed.add(&["actions=goto_table:1"]);
    fill(&bed, &lines(0..limit, flow), &flow(limit), "OFPFMFC_TABLE_FULL", limit);
    // The packet goes to 10.0.0.2. One of equal match takes no more room; other tables have some.
    assert_eq!(bed.fate(&udp(1)), (vec!["p2".to_owned()], "-".to_owned()));
    bed.add(&["table=1,ip,nw_dst=10.0.0.2,actions=output:2,output:2", "table=2,actions=drop"]);
    assert_eq!(bed.ports("p1", &udp(1)).len(), 2);
    // Here and not when the switch ends, for which it has ten seconds.
    bed.vsctl("del-flows", &[], None).expect("deleted");
    bed.settle();
}

/// 100,000 flows with as many masks in one table: the worst that a classifier can be given. A
/// packet is decided in bounded time, and what was decided is not decided again.
#[test]
fn a_hundred_thousand_masks() {
    let mut bed = Bed::new(2);
    let mask = |i: u32| {
        // Each has bits of its own: a Gray code over the addresses.
        let code = i ^ i >> 1;
        let text = |value: u32| std::net::Ipv4Addr::from_bits(value).to_string();
        format!(
            "priority={},ip,nw_src={}/{},actions=drop",
            1 + i % 60_000,
            text(0xc000_0000 | code & 0x3fff_ffff),
            text(0xc000_0000 | code)
        )
    };
    let all = lines(1..100_001, mask) + "priority=0,actions=output:2\n";
    bed.vsctl("add-flows", &["-"], Some(&all)).expect("many masks");
    let (fate, took) = bed.timed(|bed| bed.fate(&udp(1)));
    assert_eq!(fate, (vec!["p2".to_owned()], "-".to_owned()));
    assert!(took < Duration::from_secs(20), "{took:?} for three packets");
    // Cached: a thousand packets of the same kind.
    let send = |bed: &mut Bed| (0..1000).for_each(|source| assert_eq!(bed.ports("p1", &udp(source)), ["p2"]));
    let ((), more) = bed.timed(send);
    assert!(more < Duration::from_secs(40), "three packets: {took:?}; a thousand more: {more:?}");
    bed.settle();
}
