//! P27: one port opens as many connections as it can, in a zone that all share. It gets its share.
//! Others open theirs, nobody's established connections end, and `vsctl limits` tells.

use crate::bed::{BRIDGE, Bed};
use crate::connections::{answer, datagram};
use serde_json::Value;
use std::ops::Range;

const TABLE: u64 = 4096;

/// p1 speaks with p2, and p3 with p4, all in one zone of a small table.
fn bed() -> Bed {
    let bed = Bed::with(4, "", "[conntrack]\nconnections = 4096\n\n");
    bed.load(&[
        "ip,actions=ct(zone=1,table=1)",
        "table=1,ip,ct_state=+trk+new,actions=ct(commit,zone=1,table=2)",
        "table=1,ip,ct_state=+trk+est,actions=resubmit(,2)",
        "table=2,in_port=1,actions=output:2",
        "table=2,in_port=2,actions=output:1",
        "table=2,in_port=3,actions=output:4",
        "table=2,in_port=4,actions=output:3",
    ]);
    bed
}

/// The host behind a port.
fn host(port: &str) -> u32 {
    u32::from(port.as_bytes()[1] - b'0')
}

/// One number's datagram of a port to its peer.
fn asked(port: &str, peer: &str, number: u32) -> Vec<u8> {
    datagram(host(port) << 16 | number, 1000, host(peer), 53)
}

/// Opens connections; how many got through. If they are answered, the answer does, too.
fn open(bed: &mut Bed, [port, peer]: [&str; 2], numbers: Range<u32>, answered: bool) -> u64 {
    let mut passed = 0;
    for number in numbers {
        let packet = asked(port, peer, number);
        if bed.ports(port, &packet) != [peer] {
            continue;
        }
        passed += 1;
        if answered {
            assert_eq!(bed.ports(peer, &answer(&packet)), [port], "{port}'s {number} is answered");
        }
    }
    passed
}

/// Connections are there: both ends' packets go on.
fn go_on(bed: &mut Bed, [port, peer]: [&str; 2], numbers: Range<u32>) {
    for number in numbers {
        let packet = asked(port, peer, number);
        assert_eq!(bed.ports(peer, &answer(&packet)), [port], "{port}'s {number}");
        assert_eq!(bed.ports(port, &packet), [peer], "{port}'s {number}");
    }
}

/// Of `vsctl limits --port`.
fn limits(bed: &Bed, port: &str) -> Value {
    bed.switch.json(&["limits", "--port", port])["ports"][0].clone()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} of {value}"))
}

fn dropped(bed: &Bed, port: &str, reason: &str) -> u64 {
    bed.drops(BRIDGE, port).get(reason).copied().unwrap_or_default()
}

#[test]
fn one_port_gets_its_share_of_connections_and_others_get_theirs() {
    let mut bed = bed();
    let (hog, tenant) = (["p1", "p2"], ["p3", "p4"]);
    assert_eq!(open(&mut bed, tenant, 0..100, true), 100);

    let taken = open(&mut bed, hog, 0..5000, true);
    assert!((TABLE / 2..=TABLE * 3 / 4).contains(&taken), "{taken} of {TABLE}");
    assert_eq!(dropped(&bed, "p1", "ct_port_full"), 5000 - taken);
    assert_eq!(open(&mut bed, tenant, 100..400, true), 300, "others' new ones");
    assert_eq!(open(&mut bed, hog, 6000..6100, false), 0, "nor does it get unanswered ones");
    go_on(&mut bed, tenant, 0..400);
    go_on(&mut bed, hog, 0..u32::try_from(taken).expect("few"));

    let told = limits(&bed, "p1");
    let [connections, unanswered, peak, refused] =
        ["connections", "unanswered", "connections_peak", "connections_refused"].map(|name| number(&told, name));
    assert_eq!((connections, unanswered, peak), (taken, 0, taken), "{told}");
    assert_eq!(refused, dropped(&bed, "p1", "ct_port_full"), "{told}");
    assert!(number(&told, "connections_limit") <= taken, "the limit has fallen: {told}");
    assert_eq!(number(&limits(&bed, "p3"), "connections"), 400);
    let all = bed.switch.json(&["limits"]);
    let row = all["shared"].as_array().expect("rows").iter().find(|row| row["resource"] == "connections");
    let row = row.expect("connections");
    assert_eq!((number(row, "used"), number(row, "limit")), (taken + 400, TABLE), "{row}");
    assert!(bed.switch.vsctl_ok(&["limits"]).contains("ct_port_full"));

    // A port with this name, or this number, begins anew or goes on.
    bed.switch.vsctl_ok(&["del-port", BRIDGE, "p1"]);
    assert_eq!(limits(&bed, "p1")["gone"], true);
    bed.switch.vsctl_ok(&["add-port", BRIDGE, "p5", "--type", "dummy", "--number", "1"]);
    assert_eq!(number(&limits(&bed, "p5"), "connections"), 0);
    bed.switch.vsctl_ok(&["flush-conntrack"]);
    assert_eq!(number(&limits(&bed, "p3"), "connections"), 0);
    assert!(bed.switch.vsctl_with(&["limits", "--port", "p1"], None).status.code() != Some(0), "it is forgotten");
    bed.settle();
}

#[test]
fn one_port_loses_its_own_unanswered_connections() {
    let mut bed = bed();
    let (hog, tenant) = (["p1", "p2"], ["p3", "p4"]);
    assert_eq!(open(&mut bed, hog, 9000..9050, true), 50, "established ones of its own");
    assert_eq!(open(&mut bed, tenant, 0..50, true), 50);
    assert_eq!(open(&mut bed, tenant, 1000..1100, false), 100, "nobody has answered these yet");
    let passed = open(&mut bed, hog, 0..5000, false);
    assert!(passed > 4500, "nearly each new one comes in place of an old one: {passed}");
    let told = limits(&bed, "p1");
    let [connections, unanswered, refused, evicted] =
        ["connections", "unanswered", "connections_refused", "unanswered_evicted"].map(|name| number(&told, name));
    assert!((TABLE / 4..=TABLE * 7 / 16).contains(&unanswered), "{told}");
    assert_eq!((connections, refused, evicted), (unanswered + 50, 5000 - passed, passed - unanswered), "{told}");
    assert_eq!(open(&mut bed, tenant, 50..350, true), 300, "others' new ones");
    assert_eq!(number(&limits(&bed, "p3"), "unanswered_evicted"), 0);
    // What was not answered yet is there.
    go_on(&mut bed, tenant, 1000..1100);
    go_on(&mut bed, tenant, 0..350);
    go_on(&mut bed, hog, 9000..9050);
    assert_eq!(dropped(&bed, "p3", "ct_port_full") + dropped(&bed, "p3", "ct_full"), 0);
    bed.settle();
}
