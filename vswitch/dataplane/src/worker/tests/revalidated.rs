//! Megaflows that used something which changed: those that are still right stay as they are.

use super::bed::{Bed, tcp, udp};
use super::ct::answer;
use crate::limits::CHANGES_LOGGED_MAX;
use std::sync::atomic::Ordering::Relaxed;

/// Tables 0 and 1: web traffic goes to port 2, other TCP to port 3.
const WEB: &[&str] = &[
    "table=0,priority=1,ip,actions=resubmit(,1)",
    "table=1,priority=9,tcp,tp_dst=80,actions=output:2",
    "table=1,priority=8,tcp,actions=output:3",
];

fn bed(lines: &[&str]) -> Bed {
    let mut bed = Bed::new(4);
    bed.program(lines);
    bed
}

impl Bed {
    /// Where the live megaflows are.
    fn megaflows(&mut self) -> Vec<usize> {
        self.collector.collect();
        let mut places: Vec<_> =
            self.collector.megaflows().map(|(_, megaflow)| std::ptr::from_ref(megaflow).addr()).collect();
        places.sort_unstable();
        places
    }

    /// A packet comes in by port 1 and leaves by these ports. Returns translations, and what
    /// [`Bed::asked`] says.
    fn goes_to(&mut self, frame: &[u8], ports: &[usize], what: &str) -> (u64, u64, u64, u64) {
        let (misses, asked) = (self.decided().2, self.asked());
        self.receive(1, frame);
        assert_eq!(self.ports(), ports, "{what}");
        let now = self.asked();
        (self.decided().2 - misses, now.0 - asked.0, now.1 - asked.1, now.2 - asked.2)
    }
}

/// What [`Bed::goes_to`] returns: made; nothing had to be asked; the change was not for it; decided
/// anew, and the same; made anew.
const MADE: (u64, u64, u64, u64) = (1, 0, 0, 0);
const HIT: (u64, u64, u64, u64) = (0, 0, 0, 0);
const SPARED: (u64, u64, u64, u64) = (0, 1, 0, 0);
const SURVIVED: (u64, u64, u64, u64) = (0, 0, 1, 0);
const RETIRED: (u64, u64, u64, u64) = (1, 0, 0, 1);

#[test]
fn what_changes_nothing_for_a_megaflow_leaves_it_as_it_is() {
    let mut bed = bed(WEB);
    bed.program(&["meter add meter=1,kbps,bands=type=drop,rate=1000", "group add group_id=1,type=all,bucket=output:2"]);
    let web = tcp(1, 2, 80);
    assert_eq!(bed.goes_to(&web, &[2], "the first"), MADE);
    let before = bed.megaflows();
    for (line, expected) in [
        ("table=1,priority=9,tcp,tp_dst=81,actions=output:4", SPARED),
        ("table=1,priority=9,udp,tp_dst=53,actions=drop", SPARED),
        ("flow delete_strict table=1,priority=9,tcp,tp_dst=81", SPARED),
        // The rule itself, as it is; and with another cookie, which nobody sees.
        ("table=1,priority=9,tcp,tp_dst=80,actions=output:2", SURVIVED),
        ("table=1,priority=9,cookie=5,tcp,tp_dst=80,actions=output:2", SURVIVED),
        ("flow modify table=1,cookie=5/-1,actions=output:2", SURVIVED),
    ] {
        bed.program(&[line]);
        assert_eq!(bed.goes_to(&web, &[2], line), expected, "{line}");
        assert_eq!(bed.goes_to(&web, &[2], line), HIT, "{line}: it is asked once");
        assert_eq!(bed.megaflows(), before, "{line}");
    }
    let packets: Vec<_> = bed.counts().into_iter().filter(|count| count.1 == 9 && count.2 > 0).collect();
    assert_eq!(packets, [(1, 9, 13, 13 * 58)], "all of them count, by whatever name");
    // Other rules are to be credited: another megaflow.
    bed.program(&["table=0,priority=1,ip,actions=resubmit(,2)", "table=2,priority=1,actions=resubmit(,1)"]);
    assert_eq!(bed.goes_to(&web, &[2], "a way round"), RETIRED);
    assert_eq!(bed.counts().iter().find(|count| count.0 == 2), Some(&(2, 1, 1, 58)));
}

#[test]
fn what_changes_something_takes_effect_for_the_next_packet() {
    let web = tcp(1, 2, 80);
    let changes: &[(&[&str], &[usize])] = &[
        (&["table=1,priority=10,tcp,tp_dst=80,nw_src=10.0.0.1,actions=output:4"], &[4]),
        (&["table=1,priority=9,tcp,tp_dst=80,actions=output:2,output:3"], &[2, 3]),
        (&["flow delete_strict table=1,priority=9,tcp,tp_dst=80"], &[3]),
        // The same rule to a packet, but one that counts from 0.
        (&["flow delete table=1,tcp,tp_dst=80", "table=1,priority=9,tcp,tp_dst=80,actions=output:2"], &[2]),
        (&["table=1,priority=9,reset_counts,tcp,tp_dst=80,actions=output:2"], &[2]),
        (&["table=1,priority=9,tcp,tp_dst=80,actions=mod_nw_ttl:3,output:2"], &[2]),
        (&["table=1,priority=9,tcp,tp_dst=80,actions=fin_timeout(idle_timeout=3),output:2"], &[2]),
        (&["flow delete table=0"], &[]),
    ];
    for (lines, ports) in changes {
        let mut bed = bed(WEB);
        assert_eq!(bed.goes_to(&web, &[2], "before"), MADE);
        bed.program(lines);
        assert_eq!(bed.goes_to(&web, ports, lines[0]), RETIRED, "{lines:?}");
        assert_eq!(bed.goes_to(&web, ports, lines[0]), HIT, "{lines:?}");
    }
}

#[test]
fn a_decision_that_needs_more_of_the_packet_is_another_one() {
    let mut bed = bed(WEB);
    assert_eq!(bed.goes_to(&tcp(1, 2, 80), &[2], "before"), MADE);
    bed.program(&["table=1,priority=10,tcp,nw_src=10.0.0.9,actions=output:4"]);
    assert_eq!(bed.goes_to(&tcp(1, 2, 80), &[2], "not from there"), RETIRED);
    assert_eq!(bed.goes_to(&tcp(9, 2, 80), &[4], "from there"), MADE);
    // Fewer bits would do now: it stays as narrow as it is.
    bed.program(&["flow delete table=1,tcp,nw_src=10.0.0.9"]);
    assert_eq!(bed.goes_to(&tcp(1, 2, 80), &[2], "no such rule any more"), SPARED);
    assert_eq!(bed.goes_to(&tcp(9, 2, 80), &[2], "from there, too"), RETIRED);
}

#[test]
fn learned_rules_end_the_megaflows_that_they_bear_on() {
    let mut bed = bed(&[
        "table=0,priority=1,tcp,actions=resubmit(,1)",
        "table=0,priority=1,udp,actions=load:4->NXM_NX_REG0[],learn(table=1,priority=9,dl_type=0x800,nw_proto=6,NXM_OF_IP_SRC[],output:NXM_NX_REG0[])",
        "table=1,priority=5,ip,nw_src=0.0.0.0/8,actions=drop",
        "table=1,priority=1,actions=output:2",
    ]);
    assert_eq!(bed.goes_to(&tcp(1, 2, 80), &[2], "before"), MADE);
    assert_eq!(bed.goes_to(&udp(2, 1, 80), &[], "of another address"), MADE);
    assert_eq!(bed.goes_to(&tcp(1, 2, 80), &[2], "an address is looked at now"), RETIRED);
    assert_eq!(bed.goes_to(&udp(7, 1, 80), &[], "of a third address"), MADE);
    assert_eq!(bed.goes_to(&tcp(1, 2, 80), &[2], "not this one"), SPARED);
    assert_eq!(bed.goes_to(&udp(1, 2, 80), &[], "of this address"), MADE);
    assert_eq!(bed.goes_to(&tcp(1, 2, 80), &[4], "learned"), RETIRED);
    bed.program(&["flow delete table=1,ip,nw_src=10.0.0.7"]);
    assert_eq!(bed.goes_to(&tcp(1, 2, 80), &[4], "another one is gone"), SPARED);
    bed.program(&["flow delete table=1,ip,nw_src=10.0.0.1"]);
    assert_eq!(bed.goes_to(&tcp(1, 2, 80), &[2], "it is gone"), RETIRED);
}

#[test]
fn what_a_packet_learns_itself_is_for_the_next_one() {
    let mut bed = bed(&[
        "table=0,priority=1,tcp,actions=load:4->NXM_NX_REG0[],learn(table=1,idle_timeout=3,priority=9,dl_type=0x800,NXM_OF_IP_SRC[],output:NXM_NX_REG0[]),resubmit(,1)",
        "table=1,priority=1,actions=output:2",
    ]);
    let web = tcp(1, 2, 80);
    assert_eq!(bed.goes_to(&web, &[2], "what it learns is not for itself"), MADE);
    assert_eq!(bed.goes_to(&web, &[4], "but for the next one"), RETIRED);
    assert_eq!(bed.goes_to(&web, &[4], "again"), HIT);
    bed.now.0 += 20_000;
    bed.expire();
    assert_eq!(bed.goes_to(&web, &[2], "forgotten, learned again"), RETIRED);
    assert_eq!(bed.goes_to(&web, &[4], "for the next one"), RETIRED);
}

#[test]
fn a_learned_rule_is_put_back_by_a_megaflow_that_survives() {
    let mut bed = bed(&[
        "table=0,priority=1,tcp,actions=load:4->NXM_NX_REG0[],learn(table=1,priority=9,dl_type=0x800,nw_proto=17,NXM_OF_IP_SRC[],output:NXM_NX_REG0[]),resubmit(,2)",
        "table=0,priority=1,udp,actions=resubmit(,1)",
        "table=2,priority=1,actions=output:2",
    ]);
    assert_eq!(bed.goes_to(&tcp(1, 2, 80), &[2], "learns"), MADE);
    assert_eq!(bed.goes_to(&udp(1, 2, 80), &[4], "learned"), MADE);
    bed.program(&["flow delete table=1", "table=2,priority=2,udp,actions=drop"]);
    assert_eq!(bed.goes_to(&udp(1, 2, 80), &[], "deleted"), RETIRED);
    let (misses, ..) = bed.goes_to(&tcp(1, 2, 80), &[2], "learns again");
    assert_eq!((misses, bed.goes_to(&udp(1, 2, 80), &[4], "learned again")), (0, RETIRED));
}

#[test]
fn groups_meters_links_and_addresses() {
    let mut bed = bed(&[
        "meter add meter=1,pktps,bands=type=drop,rate=100000",
        "group add group_id=1,type=ff,bucket=watch_port=2,output:2,bucket=watch_port=3,output:3",
        "table=0,priority=1,tcp,actions=meter:1,group:1",
        "table=0,priority=1,udp,actions=NORMAL",
    ]);
    let web = tcp(1, 2, 80);
    assert_eq!(bed.goes_to(&web, &[2], "before"), MADE);
    bed.program(&["group add group_id=2,type=all,bucket=output:4", "meter add meter=2,pktps,bands=type=drop,rate=1"]);
    assert_eq!(bed.goes_to(&web, &[2], "another group and meter"), SURVIVED);
    for (port, up, ports, expected) in
        [(3, false, 2, SURVIVED), (2, false, 2, RETIRED), (3, true, 3, RETIRED), (2, true, 2, RETIRED)]
    {
        let link_up = &bed.facts[port - 1].link_up;
        link_up.store(up, Relaxed);
        bed.changes.link_changed();
        let ports: &[usize] = if port == 2 && !up { &[] } else { &[ports] };
        assert_eq!(bed.goes_to(&web, ports, "a link"), expected, "port {port} {up}");
    }
    bed.program(&["meter modify meter=1,pktps,bands=type=drop,rate=1"]);
    assert_eq!(bed.goes_to(&web, &[2], "another meter of this number"), RETIRED);
    // The first packet taught where its source is: nobody's way has changed by that.
    let dns = udp(1, 2, 53);
    assert_eq!(bed.goes_to(&dns, &[2, 3, 4], "learns"), MADE);
    assert_eq!(bed.goes_to(&dns, &[2, 3, 4], "unknown still"), SURVIVED);
    bed.receive(4, &udp(2, 1, 53));
    assert_eq!(bed.ports(), [1]);
    assert_eq!(bed.goes_to(&dns, &[4], "known"), RETIRED);
    bed.receive(3, &udp(9, 1, 53));
    assert_eq!(bed.ports(), [1]);
    assert_eq!(bed.goes_to(&dns, &[4], "a third one is known"), SURVIVED);
    bed.receive(2, &udp(1, 9, 53));
    assert_eq!(bed.ports(), [3], "the first one moves");
    assert_eq!(bed.goes_to(&dns, &[4], "and moves back"), RETIRED);
}

#[test]
fn a_number_that_is_another_port_is_another_packet() {
    let mut bed =
        bed(&["table=0,priority=1,in_port=1,actions=output:4", "table=0,priority=1,in_port=2,actions=output:3"]);
    let web = tcp(1, 2, 80);
    assert_eq!(bed.goes_to(&web, &[4], "before"), MADE);
    bed.facts[2].no_flood = true;
    bed.publish();
    assert_eq!(bed.goes_to(&web, &[4], "another port's flags"), SURVIVED);
    (bed.facts[0].number, bed.facts[1].number) = (2, 1);
    bed.publish();
    bed.receive(2, &web);
    assert_eq!(bed.ports(), [4], "port 1 now");
    bed.receive(1, &web);
    assert_eq!(bed.ports(), [3], "port 2 now");
}

#[test]
fn stages_outlive_the_decisions_that_lead_to_them() {
    let mut bed = bed(&[
        "table=0,priority=1,tcp,actions=load:5->NXM_NX_REG0[],ct(table=1)",
        "table=1,priority=1,reg0=5,ct_state=+trk,actions=output:2",
    ]);
    let web = tcp(1, 2, 80);
    assert_eq!(bed.goes_to(&web, &[2], "two stages"), (2, 0, 0, 0));
    let before = bed.megaflows();
    bed.program(&["table=1,priority=2,ip,reg0=7,actions=drop"]);
    assert_eq!(bed.goes_to(&web, &[2], "the second is asked, with its register"), SURVIVED);
    assert_eq!(bed.megaflows(), before);
    bed.program(&["flow delete table=0", "table=0,priority=1,tcp,actions=load:5->NXM_NX_REG0[],ct(table=1)"]);
    assert_eq!(bed.goes_to(&web, &[2], "the first is another one, the second is found"), RETIRED);
    let kept = bed.megaflows();
    assert_eq!(kept.iter().filter(|place| before.contains(place)).count(), 1);
    bed.program(&["flow delete table=0", "table=0,priority=1,tcp,actions=load:6->NXM_NX_REG0[],ct(table=1)"]);
    assert_eq!(bed.goes_to(&web, &[], "another register"), (2, 0, 0, 1));
}

#[test]
fn what_a_table_sees_may_not_be_what_came_in() {
    for (way, rule) in [
        ("mod_nw_dst:10.0.0.9,resubmit(,1)", "ip,nw_dst=10.0.0.9"),
        ("clone(mod_nw_dst:10.0.0.9,resubmit(,1))", "ip,nw_dst=10.0.0.9"),
        ("resubmit(2,1)", "in_port=2"),
        ("push_vlan:0x8100,resubmit(,1)", "dl_vlan=0"),
        ("ct(table=1)", "ip,ct_state=+trk,nw_dst=10.0.0.2"),
    ] {
        let first = format!("table=0,priority=1,in_port=1,ip,nw_dst=10.0.0.2,vlan_tci=0,actions={way}");
        let mut bed = bed(&[&first, "table=1,priority=1,actions=output:2"]);
        bed.receive(1, &tcp(1, 2, 80));
        assert_eq!(bed.ports(), [2], "{way}");
        // Once the packet's own bits are in the mask, they tell nothing of what the table sees.
        for (action, ports) in [("output:3", [3].as_slice()), ("output:4", &[4])] {
            bed.program(&[&format!("table=1,priority=2,{rule},actions={action}")]);
            let (translations, .., retired) = bed.goes_to(&tcp(1, 2, 80), ports, way);
            assert_eq!((translations, retired), (1, 1), "{way}, {action}");
        }
    }
}

#[test]
fn a_megaflow_that_slept_through_many_changes_is_decided_anew() {
    let mut bed = bed(WEB);
    assert_eq!(bed.goes_to(&tcp(1, 2, 80), &[2], "before"), MADE);
    for (changes, expected) in [(CHANGES_LOGGED_MAX, SPARED), (CHANGES_LOGGED_MAX + 1, SURVIVED)] {
        for port in 0..changes {
            bed.program(&[&format!("table=1,priority=9,tcp,tp_dst={},actions=drop", 1000 + port)]);
        }
        assert_eq!(bed.goes_to(&tcp(1, 2, 80), &[2], "after"), expected, "{changes} changes");
    }
}

#[test]
fn a_table_may_see_the_connection_in_the_place_of_the_packet() {
    let mut bed = bed(&[
        "table=0,priority=1,ip,actions=ct(table=1)",
        "table=1,priority=1,ip,nw_src=10.0.0.1,actions=ct(commit),output:2",
        "table=1,priority=1,ip,ct_state=+trk-inv,nw_src=10.0.0.2,actions=resubmit(,2,ct)",
        "table=2,priority=1,actions=output:3",
    ]);
    let (question, answer) = (udp(1, 2, 53), answer(&udp(1, 2, 53)));
    bed.receive(1, &question);
    assert_eq!(bed.ports(), [2]);
    bed.receive(1, &answer);
    assert_eq!(bed.ports(), [3]);
    assert_eq!(bed.goes_to(&answer, &[3], "an answer"), HIT);
    bed.program(&["table=2,priority=2,ip,nw_src=10.0.0.1,actions=output:4"]);
    assert_eq!(bed.goes_to(&answer, &[4], "to what came from there"), RETIRED);
}

#[test]
fn a_way_that_shows_something_else_to_tables_is_another_one() {
    let mut bed = bed(&["table=0,priority=1,actions=resubmit(,1)", "table=1,priority=1,actions=output:4"]);
    let web = tcp(1, 2, 80);
    assert_eq!(bed.goes_to(&web, &[4], "before"), MADE);
    bed.program(&["flow modify table=0,actions=resubmit(2,1)"]);
    bed.goes_to(&web, &[4], "as if it came from port 2");
    bed.program(&["table=1,priority=2,in_port=2,actions=output:3"]);
    assert_eq!(bed.goes_to(&web, &[3], "what comes from port 2"), RETIRED);
}

#[test]
fn what_else_a_packet_causes_is_part_of_the_decision() {
    let learn = |table: u8| format!("learn(table={table},NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])");
    let mut bed = bed(&[&format!("table=0,priority=1,tcp,actions={},output:2", learn(5))]);
    let web = tcp(1, 2, 80);
    assert_eq!(bed.goes_to(&web, &[2], "before"), MADE);
    bed.program(&[&format!("flow modify table=0,actions={},output:2", learn(6))]);
    assert_eq!(bed.goes_to(&web, &[2], "learns elsewhere"), RETIRED);
    let learned: Vec<u8> = bed.counts().iter().map(|count| count.0).collect();
    assert_eq!(learned, [0, 5, 6]);
}
