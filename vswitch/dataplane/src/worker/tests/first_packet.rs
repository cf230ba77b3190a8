//! First packets of connections, which take the way that those before them took (that they are what
//! they would have been otherwise: `programs`).

use super::bed::Bed;
use super::programs::Packet;
use crate::observe::DropReason;
use crate::time::Millis;
use vswitch_conntrack::Share;

const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;

const FLOWS: [&str; 5] = [
    "priority=9,ip,actions=ct(zone=5,table=1,nat)",
    "table=1,priority=9,ct_state=+new+trk,ip,in_port=1,actions=set_field:3->reg1,dec_ttl,ct(commit,zone=5,table=2,exec(load:7->NXM_NX_CT_MARK[]))",
    "table=1,priority=8,ct_state=+est+trk,ip,actions=output:3",
    "table=2,priority=9,reg1=3,ct_mark=7,actions=output:2",
    "table=2,priority=8,actions=output:4",
];

fn bed(flows: &[&str]) -> Bed {
    let mut bed = Bed::new(4);
    bed.program(flows);
    bed
}

/// A segment from a port of 10.0.0.1 to a port of 10.0.0.2.
fn segment(from: u16, to: u16, flags: u8) -> Vec<u8> {
    Packet { v6: false, tcp: Some((flags, 5, 0)), ends: [(1, from), (2, to)], len: 0, ttl: 64, tagged: false }.bytes()
}

impl Bed {
    /// A first packet comes in by port 1. Returns where it leaves, and how many took the fast path
    /// so far.
    fn opens(&mut self, from: u16, to: u16) -> (Vec<usize>, u64) {
        self.receive(1, &segment(from, to, SYN));
        (self.ports(), self.shared.stats.opening_hits.get())
    }
}

#[test]
fn first_packets_take_the_fast_path_from_the_second_one_on() {
    let mut bed = bed(&FLOWS);
    for (before, from) in (4000..4010).enumerate() {
        assert_eq!(bed.opens(from, 80), (vec![2], before as u64), "from {from}");
    }
    let (_, megaflow_hits, misses) = bed.decided();
    assert_eq!((megaflow_hits, misses), (0, 3), "nothing else was asked");
    assert_eq!(bed.connections().iter().filter(|connection| connection.mark == 7).count(), 10);
    assert_eq!(bed.counts(), [(0, 9, 10, 600), (1, 8, 0, 0), (1, 9, 10, 600), (2, 8, 0, 0), (2, 9, 10, 600)]);
}

#[test]
fn what_is_no_first_packet_takes_the_slow_path() {
    let mut bed = bed(&FLOWS);
    (4000..4004).for_each(|from| drop(bed.opens(from, 80)));
    let hits = bed.shared.stats.opening_hits.get();
    assert_eq!(bed.opens(4000, 80), (vec![2], hits), "sent again: it was there, and is new until it is answered");
    bed.receive(1, &segment(4100, 80, SYN_ACK));
    let mut bad = segment(4101, 80, SYN);
    bad[50] ^= 1; // checksum
    bed.receive(1, &bad);
    assert_eq!(
        (bed.ports(), bed.shared.stats.opening_hits.get(), bed.connections().len()),
        (Vec::new(), hits, 4),
        "nothing else opens anything"
    );
    assert_eq!(bed.opens(4102, 80), (vec![2], hits + 1), "that way is still known");
}

#[test]
fn who_may_open_no_more_is_refused_once() {
    let mut bed = bed(&FLOWS);
    bed.walk.conntrack.tracker().set_limit(5, Some(3));
    (4000..4003).for_each(|from| assert_eq!(bed.opens(from, 80).0, [2]));
    for refused in 1..4 {
        assert!(bed.opens(5000, 80).0.is_empty());
        assert_eq!(bed.totals(1).rx_drops[DropReason::CtZoneLimit.index()], refused);
        assert_eq!(bed.walk.conntrack.tracker().counts().refused_zone, refused);
    }
    bed.walk.conntrack.tracker().set_limit(5, None);
    let hits = bed.shared.stats.opening_hits.get();
    assert_eq!(bed.opens(5000, 80), (vec![2], hits + 1));
}

/// On the slow path or by a template: each counts for port 1 (whose index is 0).
#[test]
fn what_a_packet_opens_counts_for_the_port_where_it_came_in() {
    let mut bed = bed(&FLOWS);
    bed.walk.conntrack.tracker().add_port(0, "one", Share::One);
    bed.walk.conntrack.tracker().add_port(1, "two", Share::One);
    (4000..4004).for_each(|from| drop(bed.opens(from, 80)));
    assert_eq!(bed.shared.stats.opening_hits.get(), 3);
    let counts = bed.walk.conntrack.tracker().port_counts();
    let held: Vec<_> = counts.iter().map(|port| (port.name.as_str(), port.connections, port.unanswered)).collect();
    assert_eq!(held, [("one", 4, 4), ("two", 0, 0)]);
    // The answer comes in by another port.
    bed.receive(2, &reply(4000));
    let counts = bed.walk.conntrack.tracker().port_counts();
    let held: Vec<_> = counts.iter().map(|port| (port.connections, port.unanswered)).collect();
    assert_eq!(held, [(4, 3), (0, 0)]);
}

/// A SYN-ACK to a port of 10.0.0.1.
fn reply(to: u16) -> Vec<u8> {
    Packet { v6: false, tcp: Some((SYN_ACK, 900, 6)), ends: [(2, 80), (1, to)], len: 0, ttl: 64, tagged: false }.bytes()
}

#[test]
fn a_change_holds_for_the_next_first_packet() {
    let mut bed = bed(&FLOWS);
    (4000..4004).for_each(|from| drop(bed.opens(from, 80)));
    bed.program(&["table=2,priority=20,actions=output:4"]);
    assert_eq!(bed.opens(4004, 80).0, [4]);
    bed.program(&["flow delete_strict table=2,priority=20"]);
    assert_eq!(bed.opens(4005, 80).0, [2]);
    bed.program(&["table=1,priority=20,tcp,tp_dst=81,actions=output:3"]);
    assert_eq!([bed.opens(4006, 81).0, bed.opens(4007, 80).0, bed.opens(4008, 81).0], [[3], [2], [3]]);
    assert_eq!(bed.connections().len(), 7, "what is sent before it is committed opens nothing");
}

/// A port whose first packets take more ways than are remembered: each is right, and few are made
/// per millisecond.
#[test]
fn many_ways_are_all_right() {
    let mut bed = bed(&FLOWS);
    for port in 0..16 {
        let to = 2 + port % 3;
        bed.program(&[&format!("table=2,priority=20,tcp,tp_dst={},actions=output:{to}", 100 + port)]);
    }
    for round in 0..40_u16 {
        for port in 0..16 {
            let sent = bed.opens(4000 + round, 100 + port).0;
            assert_eq!(sent, [usize::from(2 + port % 3)], "round {round}, port {port}");
        }
        bed.now = Millis(bed.now.0 + 1);
        bed.walk.maintain(bed.now);
    }
    // One after the other: the last ones are never those that come next.
    let hits = bed.shared.stats.opening_hits.get();
    (4100..4110).for_each(|from| drop(bed.opens(from, 100)));
    assert!(bed.shared.stats.opening_hits.get() >= hits + 9, "the last ones are remembered");
    bed.shared.enable(false);
    let hits = bed.shared.stats.opening_hits.get();
    assert_eq!(bed.opens(4200, 100), (vec![2], hits), "without caches nothing is");
}
