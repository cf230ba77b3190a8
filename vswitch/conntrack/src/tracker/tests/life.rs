//! How long connections live, how many there may be, and who is told.

use super::talk::{Talk, request, seen};
use crate::{
    Class, Config, Connection, Counts, End, EventKind, Family, Filter, L4, Policy, Request, Seen, Tracker, Tuple,
    ZoneCount, state,
};
use proptest::prelude::*;

#[test]
fn a_connection_expires_to_the_millisecond() {
    let mut talk = Talk::new(64);
    talk.say(&[("udp 1:1>2:2", "commit mark=5", "new|trk mark=5")]);
    talk.now += 59_999;
    talk.say(&[("udp 1:1>2:2", "", "new|trk mark=5")]);
    talk.now += 60_000;
    assert_eq!(talk.dump(), Vec::<String>::new(), "shown, though expired");
    talk.say(&[("udp 1:1>2:2", "", "new|trk")]);
    let counts = talk.tracker.counts();
    assert_eq!((counts.connections, counts.created, counts.expired), (0, 1, 1), "gone when it was looked up");
}

#[test]
fn what_expired_takes_no_tuple() {
    let mut talk = Talk::new(64);
    talk.say(&[("udp 1:1>2:2", "commit src=7:50", "new|trk|snat as 7:50>2:2")]);
    talk.now += 60_000;
    talk.say(&[("udp 3:1>2:2", "commit src=7:50", "new|trk|snat as 7:50>2:2")]);
    assert_eq!(talk.tracker.counts().expired, 1);
}

#[test]
fn sweeps_let_go_of_what_expired_in_one_turn() {
    let mut talk = Talk::new(100_000);
    for port in 0..10_000 {
        talk.now += u64::from(port % 2 == 0);
        talk.ct(&format!("udp 1:{port}>2:2"), "commit");
    }
    // The first half was opened at least this long ago.
    talk.now += 60_000 - 2500;
    let begun = std::time::Instant::now();
    let gone: usize = (0..128).map(|_| talk.tracker.expire(talk.now)).sum();
    println!("one turn over 100,000 places takes {:?}", begun.elapsed());
    assert_eq!(gone, 5000);
    let (counts, zones) = (talk.tracker.counts(), talk.tracker.limits().1);
    assert_eq!((counts.connections, counts.expired), (5000, 5000));
    assert_eq!(zones, [ZoneCount { zone: 1, limit: None, count: 5000 }]);
}

#[test]
fn a_zone_may_have_timeouts_of_its_own() {
    let mut talk = Talk::new(64);
    let mut policy = Policy::default();
    policy.set(Class::UdpSingle, 5_000);
    talk.tracker.set_policy(1, Some(policy));
    assert_eq!(talk.tracker.policies(), [(1, policy)]);
    talk.say(&[
        ("udp 1:1>2:2", "commit", "new|trk"),
        ("udp 1:2>2:2", "commit", "new|trk"),
        ("udp 1:2>2:2", "", "new|trk"),
        ("udp 1:2>2:2", "zone=2 commit", "new|trk"),
        ("udp 1:2>2:2", "zone=2", "new|trk"),
    ]);
    let timeouts = |talk: &Talk| talk.connections().iter().map(|c| c.timeout_ms).collect::<Vec<_>>();
    assert_eq!(timeouts(&talk), [60_000, 5_000, 60_000]);
    talk.tracker.set_policy(1, None);
    assert_eq!(talk.tracker.policies(), []);
    talk.say(&[("udp 1:2>2:2", "", "new|trk")]);
    assert_eq!(timeouts(&talk), [60_000, 60_000, 60_000]);
}

#[test]
fn zones_have_limits_and_zero_is_one() {
    let mut talk = Talk::new(64);
    talk.tracker.set_limit(1, Some(2));
    talk.say(&[
        ("udp 1:1>2:2", "commit", "new|trk"),
        ("udp 1:2>2:2", "commit", "new|trk"),
        ("udp 1:3>2:2", "commit", "refused ZoneLimit"),
        ("udp 1:3>2:2", "", "new|trk"),
        ("udp 1:1>2:2", "commit mark=5", "new|trk mark=5"),
        ("udp 1:3>2:2", "zone=2 commit", "new|trk"),
    ]);
    talk.tracker.set_default_limit(Some(0));
    talk.say(&[
        ("udp 1:4>2:2", "zone=2 commit", "refused ZoneLimit"),
        ("udp 1:4>2:2", "zone=3 commit", "refused ZoneLimit"),
    ]);
    let (default, zones) = talk.tracker.limits();
    assert_eq!(default.default, Some(0));
    let zone = |zone, limit, count| ZoneCount { zone, limit, count };
    assert_eq!(zones, [zone(1, Some(2), 2), zone(2, None, 1)]);
    talk.tracker.set_default_limit(None);
    talk.tracker.set_limit(1, None);
    talk.say(&[("udp 1:3>2:2", "commit", "new|trk"), ("udp 1:4>2:2", "zone=2 commit", "new|trk")]);
    assert_eq!(talk.tracker.counts().refused_zone, 3);
}

/// P27: who was answered stays, who was not goes.
#[test]
fn a_full_table_lets_go_of_the_unanswered_only() {
    let mut talk = Talk::new(64);
    for port in 0..32 {
        talk.ct(&format!("udp 1:{port}>2:2"), "commit");
        talk.ct(&format!("udp 2:2>1:{port}"), "");
    }
    for port in 0..1000 {
        assert_eq!(talk.ct(&format!("udp 3:{port}>2:2"), "commit"), "new|trk", "connection {port}");
    }
    let counts = talk.tracker.counts();
    assert_eq!((counts.connections, counts.dropped_early, counts.refused_full), (64, 1000 - 32, 0));
    assert_eq!(talk.connections().iter().filter(|c| c.replied).count(), 32);
    for connection in talk.connections().iter().filter(|c| !c.replied) {
        talk.ct(&format!("udp 2:2>3:{}", connection.original.src.port), "");
    }
    talk.say(&[
        ("udp 4:1>2:2", "commit", "refused Full"),
        ("udp 4:1>2:2", "", "new|trk"),
        ("udp 1:7>2:2", "commit", "est|trk"),
    ]);
    assert_eq!((talk.tracker.counts().connections, talk.tracker.counts().refused_full), (64, 1));
    assert_eq!(talk.tracker.limits().1[0].count, 64);
}

#[test]
fn a_tracker_for_nobody_refuses_everybody() {
    let mut talk = Talk::new(0);
    talk.say(&[("udp 1:1>2:2", "commit", "refused Full"), ("udp 1:1>2:2", "", "new|trk")]);
    assert_eq!((talk.tracker.expire(0), talk.dump().len()), (0, 0));
}

#[test]
fn filters_mean_what_they_say() {
    let mut talk = Talk::new(64);
    talk.say(&[
        ("udp 1:1>2:2", "commit mark=0x10 label=4", "new|trk mark=16 label=4"),
        ("udp 1:3>2:4", "zone=2 commit mark=0x11", "new|trk mark=17"),
        ("v6 udp 1:1>2:2", "commit", "new|trk"),
        ("tcp 5:1>2:80 S", "commit src=7", "new|trk|snat as 7:1>2:80"),
        ("ping 1>2#7", "commit", "new|trk"),
    ]);
    let shows = |filter: Filter| talk.connections().iter().filter(|c: &&Connection| filter.matches(c)).count();
    let empty = Filter::default();
    for (filter, expected) in [
        (empty, 5),
        (Filter { zone: Some(1), ..empty }, 4),
        (Filter { zone: Some(9), ..empty }, 0),
        (Filter { protocol: Some(17), ..empty }, 3),
        (Filter { src: Some((Family::V4, 1)), ..empty }, 3),
        (Filter { src: Some((Family::V6, 1)), ..empty }, 1),
        (Filter { src: Some((Family::V4, 7)), ..empty }, 0),
        (Filter { dst: Some((Family::V4, 2)), ..empty }, 4),
        (Filter { src_port: Some(3), ..empty }, 1),
        (Filter { src_port: Some(7), protocol: Some(1), ..empty }, 1),
        (Filter { dst_port: Some(8 << 8), ..empty }, 1),
        (Filter { mark: (0x10, 0x10), ..empty }, 2),
        (Filter { mark: (0, 0xff), ..empty }, 3),
        (Filter { label: (4, 4), ..empty }, 1),
    ] {
        assert_eq!(shows(filter), expected, "{filter:?}");
    }
    assert_eq!(talk.tracker.flush(&Filter { zone: Some(1), protocol: Some(17), ..empty }, talk.now), 2);
    assert_eq!(talk.connections().len(), 3);
    assert_eq!(talk.tracker.flush(&Filter { zone: Some(1), protocol: Some(17), ..empty }, talk.now), 0);
    assert_eq!(talk.tracker.counts().flushed, 2);
    talk.say(&[("udp 2:2>1:1", "", "new|trk"), ("tcp 2:80>7:1 SA ack=1", "", "est|rpl|trk orig 5:1>2:80")]);
}

#[test]
fn events_tell_what_happened_and_what_was_lost() {
    let mut talk = Talk::new(64);
    talk.say(&[("udp 9:9>9:8", "commit", "new|trk")]);
    talk.tracker.keep_events(6);
    talk.say(&[
        ("udp 1:1>2:2", "commit", "new|trk"),
        ("udp 1:1>2:2", "commit", "new|trk"),
        ("udp 1:1>2:2", "commit mark=5", "new|trk mark=5"),
        ("udp 2:2>1:1", "", "est|rpl|trk mark=5 orig 1:1>2:2"),
        ("udp 2:2>1:1", "", "est|rpl|trk mark=5 orig 1:1>2:2"),
        ("error 9>1 about udp 1:1>2:2", "commit label=3", "rel|rpl|trk mark=5 label=3"),
        ("udp 2:2>1:1", "commit force", "new|trk"),
    ]);
    let kinds = |talk: &Talk, max| talk.tracker.take_events(max).iter().map(|event| event.kind).collect::<Vec<_>>();
    assert_eq!(kinds(&talk, 2), [EventKind::New, EventKind::Update]);
    let rest = talk.tracker.take_events(100);
    assert_eq!(
        rest.iter().map(|e| e.kind).collect::<Vec<_>>(),
        [EventKind::Update, EventKind::Update, EventKind::End, EventKind::New]
    );
    assert!(rest[0].connection.replied);
    assert_eq!((rest[2].connection.mark, rest[2].connection.label), (5, 3));
    assert_eq!(rest[3].connection.mark, 0);
    for port in 0..10 {
        talk.ct(&format!("udp 5:{port}>2:2"), "commit");
    }
    assert_eq!((talk.tracker.counts().events_lost, kinds(&talk, 100).len()), (4, 6));
    talk.tracker.keep_events(0);
    talk.say(&[("udp 6:1>2:2", "commit", "new|trk")]);
    assert_eq!((talk.tracker.counts().events_lost, kinds(&talk, 100).len()), (4, 0));
}

#[test]
fn tcp_states_are_events() {
    let talk = Talk::new(64);
    talk.tracker.keep_events(100);
    for line in
        ["tcp 1:1>2:2 S seq=1", "tcp 2:2>1:1 SA seq=1 ack=2", "tcp 1:1>2:2 A seq=2 ack=2", "tcp 1:1>2:2 A seq=2 ack=2"]
    {
        talk.tracker.track(&seen(line), &request("commit"), 0, talk.now);
    }
    let kinds: Vec<_> = talk.tracker.take_events(10).iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::New, EventKind::Update, EventKind::Update]);
}

#[test]
fn a_place_that_is_used_again_has_another_name() {
    let mut talk = Talk::new(1);
    let mut ids = Vec::new();
    for _ in 0..3 {
        talk.say(&[("udp 1:1>2:2", "commit mark=5", "new|trk mark=5"), ("udp 1:1>2:2", "", "new|trk mark=5")]);
        ids.push(talk.connections()[0].id);
        assert_eq!(talk.tracker.flush(&Filter::default(), talk.now), 1);
    }
    ids.dedup();
    assert_eq!(ids.len(), 3, "{ids:x?}");
}

/// Entry and index of a connection, and its part of all the rest; there are no timers. (`cargo test
/// -- --nocapture` shows how many.)
#[test]
fn a_connection_takes_at_most_192_bytes_and_one_of_ipv6_256() {
    let places = 1 << 20;
    let talk = Talk::new(places);
    let bytes = || talk.tracker.counts().memory;
    let open = |family: Family, clients: std::ops::Range<u128>| {
        let base = super::talk::tuple("udp 1:1>2:53");
        let count = clients.end - clients.start;
        for addr in clients {
            let tuple = Tuple { src: End { addr, port: 1 }, family, ..base };
            let seen = Seen { tuple, l4: L4::Udp, len: 60, ..Seen::default() };
            assert_eq!(talk.tracker.track(&seen, &request("commit"), 0, talk.now).refusal, None);
        }
        u64::try_from(count).unwrap()
    };
    let (places, at_start) = (places as u64, bytes());
    let each = |bytes: u64| format!("{}.{:02}", bytes / places, bytes % places * 100 / places);
    println!("a connection takes {} bytes, one of IPv6 {}", each(at_start), each(at_start + 64 * places));
    let unlucky = Talk::new((1 << 20) + 1).tracker.counts().memory;
    assert!(unlucky < at_start + 1024, "no size is rounded up: {at_start} and {unlucky}");
    assert!(at_start <= 192 * places && at_start + 64 * places <= 256 * places, "{}", each(at_start));

    open(Family::V4, 0..10_000);
    assert_eq!(bytes(), at_start, "IPv4 has what was taken at start");
    let opened = open(Family::V6, 0..20_000);
    assert_eq!(bytes(), at_start + 64 * opened, "IPv6 takes more when it comes");
    for first in [1 << 100, 1 << 120] {
        let v6 = Filter { dst: Some((Family::V6, 2)), ..Filter::default() };
        assert_eq!(talk.tracker.flush(&v6, talk.now), 20_000);
        open(Family::V6, first..first + 20_000);
        assert_eq!(bytes(), at_start + 64 * opened, "what others have left is used again");
    }
}

#[test]
fn what_expired_goes_together_and_counts_in_its_zone() {
    let mut talk = Talk::new(1000);
    for port in 0..200 {
        talk.ct(&format!("udp 1:{}>2:2", port + 1), &format!("zone={} commit", 1 + port % 3 * (port % 2)));
    }
    let zones = |talk: &Talk| talk.tracker.limits().1.iter().map(|zone| zone.count).collect::<Vec<_>>();
    assert_eq!(zones(&talk).iter().sum::<u32>(), 200);
    talk.now += 60_000;
    talk.ct("udp 9:9>2:2", "zone=5 commit");
    let gone: usize = (0..128).map(|_| talk.tracker.expire(talk.now)).sum();
    let counts = talk.tracker.counts();
    assert_eq!((gone, counts.expired, counts.connections, zones(&talk)), (200, 200, 1, vec![1]));
    // All places can be had again.
    (0..999).for_each(|port| _ = talk.ct(&format!("udp 3:{}>2:2", port + 1), "commit"));
    assert_eq!((talk.tracker.counts().connections, talk.tracker.counts().refused_full), (1000, 0));
}

#[test]
fn a_place_that_is_made_free_counts_as_what_it_was() {
    let mut talk = Talk::new(2);
    talk.ct("udp 1:1>2:2", "commit");
    talk.now += 40_000;
    talk.ct("udp 1:2>2:2", "commit");
    talk.now += 20_000;
    talk.ct("udp 1:3>2:2", "commit");
    let counts = talk.tracker.counts();
    assert_eq!((counts.expired, counts.dropped_early), (1, 0), "there was one that had expired");
    talk.ct("udp 1:4>2:2", "commit");
    let counts = talk.tracker.counts();
    assert_eq!((counts.expired, counts.dropped_early, counts.created), (1, 1, 4));
}

proptest! {
    /// Whether a connection is looked for before it is entered makes no difference but time: not if
    /// it is there by now, not in a zone that may have no more.
    #[test]
    fn a_commit_of_what_was_unknown_is_a_commit(
        steps in prop::collection::vec((1..7_u16, 0..3_u16, any::<bool>(), any::<bool>(), 0..20_000_u64), 1..60),
    ) {
        let trackers = [false, true].map(|_| Tracker::new(Config { connections_max: 64 }));
        trackers.iter().for_each(|tracker| {
            tracker.keep_events(1000);
            tracker.set_limit(1, Some(3));
        });
        let mut now = 0;
        for (port, zone, reply, force, wait) in steps {
            now += wait;
            let ends = (End { addr: 1, port }, End { addr: 2, port: 80 });
            let (src, dst) = if reply { (ends.1, ends.0) } else { ends };
            let seen = Seen { tuple: Tuple { src, dst, protocol: 17, ..Tuple::default() }, l4: L4::Udp, len: 60, ..Seen::default() };
            let said = [false, true].map(|unknown| {
                let before = state::NEW | state::TRK;
                let mark = (u32::from(port), u32::MAX);
                let request = Request { zone, before, unknown, commit: true, force, mark, ..Request::default() };
                let verdict = trackers[usize::from(unknown)].track(&seen, &request, 0, now);
                let tracker = &trackers[usize::from(unknown)];
                let events: Vec<_> =
                    tracker.take_events(100).iter().map(|event| (event.kind, event.connection.original)).collect();
                let counts = Counts { memory: 0, ..tracker.counts() };
                // Which place it has is its own.
                let fresh = verdict.fresh.is_some();
                (crate::TrackVerdict { fresh: None, ..verdict }, fresh, events, counts, tracker.limits().1)
            });
            prop_assert_eq!(&said[0], &said[1], "{:?} in zone {}, reply {}, force {}", ends, zone, reply, force);
        }
    }
}

#[test]
fn nobody_makes_room_for_a_connection_that_is_there() {
    for max in 1..3 {
        let mut talk = Talk::new(max);
        talk.ct("udp 1:1>2:2", "commit");
        if max == 2 {
            talk.ct("udp 1:2>2:2", "commit");
        }
        let again = Request { before: state::NEW | state::TRK, unknown: true, ..request("commit mark=5") };
        let verdict = talk.tracker.track(&seen("udp 1:1>2:2"), &again, 0, talk.now);
        let counts = talk.tracker.counts();
        assert_eq!((verdict.mark, counts.created, counts.dropped_early), (5, max as u64, 0), "{verdict:?}");
    }
}
