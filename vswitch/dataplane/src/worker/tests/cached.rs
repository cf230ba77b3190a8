//! The caches: nothing is as if they were not there, but for the time it takes.

use super::bed::{Bed, add, output, tcp, udp};
use crate::time::Millis;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_flow::Action;
use vswitch_flow::action::port;
use vswitch_flow::spec::{BucketSpec, FlowFilter, GroupKind, GroupSpec, Selection, Update};

fn resubmit(table: u8) -> Action {
    Action::Resubmit { port: None, table: Some(table), ct: false }
}

fn bucket(id: u32, watch_port: Option<u32>, to: u32) -> BucketSpec {
    BucketSpec { id, weight: 1, watch_port, watch_group: None, actions: [output(to)].into() }
}

fn group(kind: GroupKind, mut buckets: Vec<BucketSpec>) -> GroupSpec {
    buckets.iter_mut().for_each(|bucket| bucket.weight = u16::from(kind == GroupKind::Select));
    GroupSpec { id: 1, kind, selection: Selection::Default, buckets }
}

/// Translations that one packet cost.
fn misses(bed: &mut Bed, step: impl FnOnce(&mut Bed)) -> u64 {
    let before = bed.decided().2;
    step(bed);
    bed.decided().2 - before
}

#[test]
fn one_decision_serves_many_packets() {
    let mut bed = Bed::new(2);
    bed.add(0, 10, "tcp,tp_dst=80", vec![output(2)]);
    let frames: Vec<Vec<u8>> = (0..100).map(|i| tcp(i, i + 1, 80)).collect();
    bed.receive_in(1, &frames, 32);
    assert_eq!(bed.decided(), (0, 99, 1), "different packets, one megaflow");
    bed.receive_in(1, &frames, 32);
    let (exact, megaflow, missed) = bed.decided();
    // Buckets have two places: three keys may meet in one.
    assert!(exact >= 80 && exact + megaflow == 199 && missed == 1, "the same packets: {:?}", bed.decided());
    assert_eq!(bed.counts(), [(0, 10, 200, 200 * 58)]);
    // What no rule matches makes no difference: length, identification, checksum, sequence numbers,
    // "don't fragment".
    let mut frame = tcp(1, 2, 80);
    frame[20] ^= 0x40;
    for at in [18, 19, 24, 25, 38, 39, 40, 41, 42, 43, 44, 45, 48, 49, 50, 51, 57] {
        frame[at] ^= 0x41;
    }
    bed.receive(1, &tcp(1, 2, 80));
    let before = bed.decided();
    bed.receive(1, &frame);
    assert_eq!(bed.decided(), (before.0 + 1, before.1, before.2));
}

#[test]
fn changes_of_what_was_used_are_seen_by_the_next_packet() {
    let mut bed = Bed::new(4);
    bed.add(0, 1, "tcp", vec![resubmit(1)]);
    bed.add(1, 1, "", vec![output(2)]);
    let frame = tcp(1, 2, 80);
    let expect = |bed: &mut Bed, what: &str, translations: u64, ports: &[usize]| {
        for cost in [translations, 0] {
            let cost_now = misses(bed, |bed| bed.receive(1, &frame));
            assert_eq!((cost_now, bed.ports()), (cost, ports.to_vec()), "{what}");
        }
    };
    expect(&mut bed, "first", 1, &[2]);
    bed.add(2, 1, "", vec![output(3)]);
    expect(&mut bed, "another table", 0, &[2]);
    bed.add(1, 2, "tcp,tp_dst=80", vec![output(3)]);
    expect(&mut bed, "a better rule", 1, &[3]);
    let delete = FlowFilter {
        table: Some(1),
        strict: Some(2),
        matching: super::bed::matching("tcp,tp_dst=80"),
        ..FlowFilter::default()
    };
    bed.write(&[Update::DeleteFlows(delete)]);
    expect(&mut bed, "deleted", 1, &[2]);
    let buckets = vec![bucket(0, Some(2), 2), bucket(1, Some(3), 3)];
    bed.write(&[Update::AddGroup(group(GroupKind::FastFailover, buckets)), add(1, 1, "", vec![Action::Group(1)])]);
    expect(&mut bed, "through a group", 1, &[2]);
    bed.facts[1].link_up.store(false, Relaxed);
    bed.changes.link_changed();
    expect(&mut bed, "link down", 1, &[3]);
    let modified = Update::ModifyGroup { spec: group(GroupKind::All, vec![bucket(0, None, 4)]), may_create: false };
    bed.write(&[modified]);
    expect(&mut bed, "another group", 1, &[4]);
    bed.facts[3].no_forward = true;
    bed.publish();
    expect(&mut bed, "port flags", 1, &[]);
    bed.write(&[add(1, 1, "", vec![output(port::NORMAL)])]);
    expect(&mut bed, "flooded", 1, &[2, 3]);
}

#[test]
fn addresses_that_move_or_age_are_seen_by_the_next_packet() {
    let mut bed = Bed::new(3);
    bed.add(0, 1, "", vec![output(port::NORMAL)]);
    bed.receive(1, &tcp(1, 2, 80));
    assert_eq!(bed.ports(), [2, 3], "unknown");
    bed.receive(2, &tcp(2, 1, 80));
    assert_eq!(bed.ports(), [1]);
    for _ in 0..3 {
        bed.receive(1, &tcp(1, 2, 80));
        assert_eq!(bed.ports(), [2], "known");
    }
    bed.receive(3, &tcp(2, 1, 80));
    assert_eq!(bed.ports(), [1], "it moved");
    assert_eq!(misses(&mut bed, |bed| bed.receive(1, &tcp(1, 2, 80))), 1);
    assert_eq!(bed.ports(), [3]);
    // Cached packets keep an address young; silence lets it go.
    for second in 0..400 {
        bed.now = Millis(second * 1000);
        bed.receive(1, &tcp(1, 2, 80));
        bed.fdb.age(bed.now.seconds());
    }
    bed.sent();
    let stats = bed.fdb.stats();
    assert_eq!((stats.entries, stats.expired), (1, 1), "2 was silent for more than 300 s, 1 was not: {stats:?}");
    bed.receive(1, &tcp(1, 2, 80));
    assert_eq!(bed.ports(), [2, 3], "unknown again");
}

#[test]
fn off_and_flushed_caches_are_empty() {
    let mut bed = Bed::new(2);
    bed.add(0, 1, "", vec![output(2)]);
    let frames = vec![tcp(1, 2, 80), udp(1, 2, 53), [0; 60].to_vec()];
    bed.receive_in(1, &frames, 3);
    assert_eq!(misses(&mut bed, |bed| bed.receive_in(1, &frames, 3)), 0);
    bed.shared.flush();
    assert_eq!(misses(&mut bed, |bed| bed.receive_in(1, &frames, 3)), 2, "IPv4, and no IP");
    bed.shared.enable(false);
    assert_eq!(misses(&mut bed, |bed| bed.receive_in(1, &frames, 3)), 3);
    assert_eq!(misses(&mut bed, |bed| bed.receive_in(1, &frames, 3)), 3);
    bed.shared.enable(true);
    assert_eq!(misses(&mut bed, |bed| bed.receive_in(1, &frames, 3)), 2);
    assert_eq!(bed.counts(), [(0, 1, 18, 6 * (58 + 58 + 60))]);
    assert_eq!(bed.collector.megaflows().count(), 2, "the dead ones are gone");
}

#[test]
fn counts_survive_what_ends_megaflows() {
    let mut bed = Bed::new(2);
    bed.add(0, 1, "tcp", vec![output(2)]);
    for round in 0..20_u64 {
        bed.receive_in(1, &[tcp(1, 2, 80), tcp(3, 4, 80)], 2);
        match round % 4 {
            0 => bed.publish(),
            1 => bed.shared.flush(),
            2 => {
                // Idle for eleven seconds: the cache lets go.
                bed.now = Millis(bed.now.0 + 11_000);
                (0..100).for_each(|_| bed.walk.maintain(bed.now));
                assert_eq!(bed.shared.stats.megaflows.get(), 0, "round {round}");
            }
            _ => {
                bed.counts();
            }
        }
    }
    assert_eq!(bed.counts(), [(0, 1, 40, 40 * 58)]);
    assert!(bed.collector.megaflows().count() <= 1);
}

#[test]
fn a_full_cache_lets_go_and_goes_on() {
    let mut bed = Bed::new(2);
    bed.add(0, 2, "udp,tp_src=1/1", vec![]);
    // Every source port its own megaflow.
    bed.add(
        0,
        1,
        "udp",
        vec![Action::Move { from: tp_src(), to: reg0() }, Action::OutputField { from: reg0(), max_len: None }],
    );
    let mut frame = udp(1, 2, 53);
    for port in 0..2000_u16 {
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        bed.receive(1, &frame);
    }
    assert_eq!(bed.ports(), [2], "source port 2 leads there, others lead nowhere");
    let packets: u64 = bed.counts().iter().map(|count| count.2).sum();
    assert_eq!(packets, 2000);
    assert!(bed.shared.stats.megaflows.get() <= 2000);
}

fn tp_src() -> vswitch_flow::Subfield {
    vswitch_flow::Subfield::whole(vswitch_flow::Field::UdpSrc)
}

fn reg0() -> vswitch_flow::Subfield {
    vswitch_flow::Subfield { field: vswitch_flow::Field::Reg0, start: 0, len: 16 }
}

#[test]
fn masks_are_bounded() {
    let mut bed = Bed::new(2);
    // Each priority looks at one more bit: as many masks as rules.
    let bits: Vec<Update> = (0..32_u16)
        .flat_map(|bit| (0..32_u16).map(move |other| (bit, other)))
        .map(|(bit, other)| {
            let (a, b) = (1_u32 << bit, 1_u32 << other);
            let text = format!("ip,nw_src={}/{}", std::net::Ipv4Addr::from(a), std::net::Ipv4Addr::from(a | b));
            add((bit % 32) as u8 + 1, 10 + other, &text, vec![output(2)])
        })
        .collect();
    bed.write(&bits);
    let starts: Vec<Update> =
        (0..32_u8).map(|table| add(0, 1, &format!("ip,nw_dst=10.0.0.{table}"), vec![resubmit(table + 1)])).collect();
    bed.write(&starts);
    for round in 0..2 {
        for (i, source) in (0..32).flat_map(|table| (0..32_u32).map(move |bit| (table, 1 << bit))) {
            let mut frame = tcp(1, i, 80);
            frame[26..30].copy_from_slice(&(u32::try_from(source).unwrap_or(0) | 1).to_be_bytes());
            bed.receive(1, &frame);
        }
        bed.walk.maintain(bed.now);
        let masks = bed.shared.stats.masks.get();
        assert!(masks <= crate::limits::MEGAFLOW_MASKS_MAX as u64, "round {round}: {masks} masks");
    }
    let ports = bed.ports().len() as u64;
    let sent: u64 = bed.counts().iter().filter(|count| count.0 > 0).map(|count| count.2).sum();
    assert_eq!(ports, sent);
    assert_eq!(Arc::strong_count(&bed.shared), 3, "walk, bed, collector");
}

/// A hash of few bits chooses: connections are decided by bucket, or so, and not one by one.
#[test]
fn connections_to_a_select_group_are_no_kinds_of_their_own() {
    let mut bed = Bed::new(3);
    bed.write(&[Update::AddGroup(group(GroupKind::Select, vec![bucket(0, None, 2), bucket(1, None, 3)]))]);
    bed.add(0, 1, "tcp", vec![Action::Group(1)]);
    let frames: Vec<Vec<u8>> = (1..=3000).map(|port| tcp(1, 2, port)).collect();
    let cost = misses(&mut bed, |bed| bed.receive_in(1, &frames, 32));
    let ports = bed.ports();
    let first = ports.iter().filter(|port| **port == 2).count();
    assert!(cost <= 256, "{cost} translations");
    assert!(ports.len() == 3000 && (1200..1800).contains(&first), "{first} of {}", ports.len());
    assert_eq!(misses(&mut bed, |bed| bed.receive_in(1, &frames, 32)), 0);
    assert_eq!(bed.ports(), ports, "each takes the same way again");
}
