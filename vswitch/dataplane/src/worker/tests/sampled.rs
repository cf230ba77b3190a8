//! Samples of what died: with the rule that decided so, on every path, and equal to what came in.

use super::bed::{Bed, tcp, udp};
use crate::observe::{Decider, DropReason, DropSample};

fn samples(bed: &Bed) -> Vec<DropSample> {
    std::iter::from_fn(|| bed.sampler.take()).collect()
}

fn by(table: u8, cookie: u64) -> Option<Decider> {
    Some(Decider { cookie, bridge: 0, table, matched: true })
}

/// A bed of two ports with these flows, which is watched.
fn watched(lines: &[&str]) -> Bed {
    let mut bed = Bed::new(2);
    bed.program(lines);
    bed.sampler.set_rate(10);
    bed
}

#[test]
fn the_last_rule_that_a_packet_met_is_named_whether_its_decision_is_new_or_cached() {
    let mut bed = watched(&[
        "cookie=1,actions=resubmit(,4)",
        "table=4,cookie=0xbeef,tcp,actions=drop",
        "table=4,cookie=7,udp,actions=resubmit(,5)",
    ]);
    for round in 0..3 {
        let (denied, missed) = (tcp(1, 2, 80), udp(1, 2, 53));
        bed.receive(1, &denied);
        bed.receive(1, &missed);
        let samples = samples(&bed);
        let told: Vec<_> = samples.iter().map(|one| (one.reason, one.decider, one.bytes().to_vec())).collect();
        let no_rule = Some(Decider { cookie: 0, bridge: 0, table: 5, matched: false });
        let expected = [(DropReason::RuleDrop, by(4, 0xbeef), denied), (DropReason::TableMiss, no_rule, missed)];
        assert_eq!(told, expected, "round {round}");
    }
    assert_eq!(bed.decided().2, 2, "the others were cached");
}

#[test]
fn another_cookie_is_told_from_the_next_packet_on() {
    let mut bed = watched(&[]);
    for cookie in [1, 2, 3] {
        bed.program(&[&format!("cookie={cookie},tcp,actions=drop")]);
        bed.receive(1, &tcp(1, 2, 80));
        bed.receive(1, &tcp(1, 2, 80));
        let told: Vec<_> = samples(&bed).iter().map(|one| one.decider).collect();
        assert_eq!(told, [by(0, cookie); 2]);
    }
}

#[test]
fn drops_behind_ct_of_an_action_and_of_a_refusal_name_their_rule_and_show_the_packet() {
    let mut bed = watched(&[
        "cookie=1,tcp,actions=ct(table=3,zone=5)",
        "table=3,cookie=0x33,tcp,ct_state=+trk,tcp_dst=80,actions=drop",
        "table=3,cookie=0x66,tcp,ct_state=+trk,tcp_dst=81,actions=reject(tcp=reset,IN_PORT)",
        "cookie=0x44,udp,actions=mod_nw_ttl:1,dec_ttl,output:2",
    ]);
    for round in 0..3 {
        bed.receive(1, &tcp(1, 2, 80));
        bed.receive(1, &tcp(1, 2, 81));
        bed.receive(1, &udp(1, 2, 53));
        let samples = samples(&bed);
        let told: Vec<_> = samples.iter().map(|one| (one.reason, one.decider)).collect();
        let expected = [
            (DropReason::RuleDrop, by(3, 0x33)),
            (DropReason::Rejected, by(3, 0x66)),
            (DropReason::InvalidTtl, by(0, 0x44)),
        ];
        assert_eq!(told, expected, "round {round}");
        assert_eq!(samples[0].bytes(), tcp(1, 2, 80));
        assert_eq!(samples[1].bytes(), tcp(1, 2, 81));
    }
}

#[test]
fn a_storm_is_counted_in_full_and_sampled_at_its_rate() {
    let mut bed = watched(&["tcp,actions=output:2", "cookie=5,udp,actions=drop"]);
    let frames: Vec<_> = (0..32).map(|i| if i % 4 == 0 { tcp(1, 2, 80) } else { udp(1, 2, i) }).collect();
    for _ in 0..50 {
        bed.receive_in(1, &frames, 32);
    }
    assert_eq!(bed.sent().len(), 50 * 8, "the others pass");
    let reason = DropReason::RuleDrop;
    let dropped = bed.totals(1).rx_drops[reason.index()];
    let sampled = samples(&bed).len() as u64;
    assert_eq!((dropped, sampled, bed.sampler.suppressed(reason)), (50 * 24, 10, 50 * 24 - 10));
}

#[test]
fn what_is_not_watched_and_what_lives_leaves_no_sample() {
    let mut bed = watched(&["tcp,actions=output:2"]);
    bed.sampler.set_rate(0);
    bed.receive(1, &udp(1, 2, 53));
    bed.sampler.set_rate(10);
    bed.receive(1, &tcp(1, 2, 80));
    assert!(samples(&bed).is_empty());
    bed.views[1].admin_up = false;
    bed.publish();
    bed.receive(1, &tcp(1, 2, 80));
    let samples = samples(&bed);
    let told: Vec<_> = samples.iter().map(|one| (one.reason, one.place.port, one.bytes().to_vec())).collect();
    assert_eq!(told, [(DropReason::AdminDown, 1, tcp(1, 2, 80))]);
}
