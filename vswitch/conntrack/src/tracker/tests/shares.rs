//! Shares of ports: what one port may have, what it loses, and that what is counted is there.

use super::super::ports::{Ports, SLOTS, Slot};
use crate::*;

pub(super) const NOW: u64 = 1000;

/// A tracker with ports 0 to `ports`, named `p0` and so on, each of one peer.
pub(super) fn tracker(connections_max: usize, ports: u16) -> Tracker {
    let tracker = Tracker::new(Config { connections_max });
    (0..ports).for_each(|port| tracker.add_port(port, &format!("p{port}"), Share::One));
    tracker
}

/// A datagram of some number by a port.
pub(super) fn datagram(port: u16, number: u16) -> Seen {
    let end = |addr: u128, port| End { addr, port };
    let tuple = Tuple { src: end(port.into(), number), dst: end(1 << 20, 53), protocol: 17, ..Tuple::default() };
    Seen { tuple, l4: L4::Udp, len: 60, port: Ingress::port(port) }
}

/// Its answer, which comes in by another port.
pub(super) fn answer(to: &Seen) -> Seen {
    Seen { tuple: to.tuple.reversed(), port: Ingress::port(900), ..*to }
}

pub(super) fn commit() -> Request {
    Request { commit: true, ..Request::default() }
}

/// Opens a connection, and answers it; says why not.
fn open(tracker: &Tracker, seen: &Seen, answered: bool) -> Result<(), Refusal> {
    if let Some(why) = tracker.track(seen, &commit(), 0, NOW).refusal {
        return Err(why);
    }
    if answered {
        let verdict = tracker.track(&answer(seen), &Request::default(), 0, NOW);
        assert_eq!(verdict.state, state::EST | state::RPL | state::TRK);
    }
    Ok(())
}

/// Opens so many; how many were not refused.
fn flood(tracker: &Tracker, port: u16, numbers: std::ops::Range<u16>, answered: bool) -> usize {
    numbers.filter(|number| open(tracker, &datagram(port, *number), answered).is_ok()).count()
}

pub(super) fn count(tracker: &Tracker, name: &str) -> PortCount {
    tracker.port_counts().into_iter().find(|count| count.name == name).unwrap_or_default()
}

fn is_there(tracker: &Tracker, seen: &Seen) -> bool {
    tracker.connection(&seen.tuple, NOW).is_some()
}

#[test]
fn one_port_alone_has_three_quarters() {
    let tracker = tracker(1024, 2);
    assert_eq!(flood(&tracker, 0, 0..2000, true), 768);
    assert_eq!(open(&tracker, &datagram(0, 3000), true), Err(Refusal::PortFull));
    let hog = count(&tracker, "p0");
    assert_eq!((hog.connections, hog.unanswered, hog.limit, hog.peak), (768, 0, Some(768), 768));
    assert_eq!((hog.refused, tracker.counts().refused_port), (2001 - 768, 2001 - 768));
    assert_eq!(flood(&tracker, 1, 0..170, true), 110, "another port has six sevenths of what the pool has");
    assert!((0..768).all(|number| is_there(&tracker, &datagram(0, number))), "what was answered stays");
    assert_eq!(count(&tracker, "p0").evicted + tracker.counts().dropped_early, 0);
}

#[test]
fn many_peers_have_more_than_one() {
    let tracker = tracker(1024, 0);
    tracker.add_port(7, "uplink", Share::Many);
    assert_eq!(flood(&tracker, 7, 0..2000, true), 832);
    assert_eq!(count(&tracker, "uplink").limit, Some(832));
}

#[test]
fn a_port_at_its_limit_loses_its_own_oldest_unanswered() {
    let tracker = tracker(1024, 2);
    assert_eq!(flood(&tracker, 1, 0..100, false), 100);
    let opened = flood(&tracker, 0, 0..2000, false);
    assert!(opened > 1800, "nearly each of them comes in place of another one: {opened}");
    let (hog, other) = (count(&tracker, "p0"), count(&tracker, "p1"));
    assert_eq!(
        (hog.connections, hog.unanswered, hog.unanswered_limit),
        (398, 398, Some(398)),
        "half of the pool, 896, without 100"
    );
    assert_eq!((hog.evicted, hog.refused), (opened as u64 - 398, 2000 - opened as u64));
    assert_eq!((other.connections, other.evicted), (100, 0));
    assert!((0..100).all(|number| is_there(&tracker, &datagram(1, number))), "another port's stay");
    assert_eq!(flood(&tracker, 1, 100..200, true), 100);
}

#[test]
fn however_many_ports_fill_the_table_another_one_has_room() {
    let tracker = tracker(4096, 41);
    for port in 0..40 {
        assert!(flood(&tracker, port, 0..4096, true) >= 12, "its part of the reserve: 512 / 41");
    }
    assert_eq!(flood(&tracker, 40, 0..4096, true), 12);
    assert_eq!(tracker.counts().refused_full, 0);
}

#[test]
fn a_guarantee_is_no_place() {
    let tracker = tracker(16, 1);
    let nobody = |number| Seen { port: Ingress::NONE, ..datagram(0, number) };
    assert!((0..16).all(|number| open(&tracker, &nobody(number), true).is_ok()));
    assert_eq!(open(&tracker, &datagram(0, 20), true), Err(Refusal::Full));
    assert_eq!(count(&tracker, "p0").connections, 0);
}

#[test]
fn what_nobody_looked_for_waits_for_the_search() {
    let tracker = tracker(64, 1);
    let unsought = |number| tracker.open_unsought(&datagram(0, number), &commit(), 0, NOW);
    assert_eq!((0..64).filter(|number| unsought(*number)).count(), 28, "half of the pool");
    assert_eq!((count(&tracker, "p0").refused, count(&tracker, "p0").evicted), (0, 0), "nothing has happened");
    assert_eq!(open(&tracker, &datagram(0, 99), false), Ok(()));
    assert_eq!(count(&tracker, "p0").evicted, 1);
}

#[test]
fn connections_of_no_port_have_no_share() {
    let tracker = tracker(64, 1);
    let nobody = |number| Seen { port: Ingress::NONE, ..datagram(0, number) };
    assert!((0..64).all(|number| open(&tracker, &nobody(number), true).is_ok()));
    let none = count(&tracker, "");
    assert_eq!((none.connections, none.limit, none.number), (64, None, None));
    assert_eq!(open(&tracker, &nobody(64), true), Err(Refusal::Full));
    assert_eq!(Ingress::port(u16::MAX), Ingress::NONE);
}

#[test]
fn a_port_may_have_all_where_nothing_is_shared_out() {
    let tracker = tracker(64, 2);
    tracker.share_among_ports(false);
    tracker.add_port(2, "later", Share::One);
    assert_eq!(flood(&tracker, 0, 0..64, true), 64);
    let hog = count(&tracker, "p0");
    assert_eq!((hog.connections, hog.limit, hog.unanswered_limit), (64, None, None));
    assert_eq!(open(&tracker, &datagram(1, 0), true), Err(Refusal::Full));
    tracker.share_among_ports(true);
    assert_eq!(open(&tracker, &datagram(0, 70), true), Err(Refusal::PortFull));
}

#[test]
fn a_number_that_is_given_again_begins_with_nothing() {
    let tracker = tracker(64, 1);
    assert_eq!(flood(&tracker, 0, 0..5, true), 5);
    tracker.remove_port(0);
    tracker.add_port(0, "next", Share::One);
    assert_eq!(count(&tracker, "next").connections, 0);
    let gone = count(&tracker, "p0");
    assert_eq!((gone.connections, gone.number), (5, None));
    assert_eq!(flood(&tracker, 0, 10..13, true), 3);
    assert_eq!((count(&tracker, "next").connections, count(&tracker, "p0").connections), (3, 5));
    tracker.add_port(1, "p0", Share::One);
    assert_eq!((count(&tracker, "p0").connections, count(&tracker, "p0").number), (5, Some(1)), "by its name");
    tracker.flush(&Filter::default(), NOW);
    assert!(tracker.port_counts().iter().all(|count| count.connections == 0 && count.unanswered == 0));
    tracker.remove_port(1);
    assert_eq!(count(&tracker, "p0"), PortCount::default(), "forgotten with its last connection");
}

#[test]
fn slots_that_are_all_taken_leave_none() {
    let ports = Ports::new(64);
    for slot in 1..SLOTS {
        let name = ports.named(&format!("gone{slot}"));
        assert_eq!(usize::from(name.0), slot);
        ports.enter_anyway(name, true);
    }
    ports.add(3, "late", Share::One);
    assert_eq!(ports.slot(Ingress::port(3)), Slot::NONE);
    ports.leave(Slot(7), 1, 1);
    ports.add(3, "late", Share::One);
    assert_eq!(ports.slot(Ingress::port(3)), Slot(7));
}

#[test]
fn a_file_gives_connections_back_to_ports_of_their_names() {
    let before = tracker(256, 3);
    flood(&before, 0, 0..20, true);
    flood(&before, 0, 20..27, false);
    flood(&before, 2, 0..3, true);
    flood(&before, 50, 0..4, true);
    let mut file = Vec::new();
    before.save(NOW, &Moment::default(), &mut file).unwrap();
    let after = Tracker::new(Config { connections_max: 256 });
    after.add_port(9, "p0", Share::One);
    assert_eq!(after.restore(NOW, &Moment::default(), &file[..]).unwrap().connections, 34);
    let [p0, p2, none] = ["p0", "p2", ""].map(|name| count(&after, name));
    assert_eq!((p0.connections, p0.unanswered, p0.number), (27, 7, Some(9)), "a port that is there");
    assert_eq!((p2.connections, p2.unanswered, p2.number), (3, 0, None), "one that may come");
    assert_eq!(none.connections, 4, "of no port");
    after.add_port(4, "p2", Share::One);
    assert_eq!((count(&after, "p2").connections, count(&after, "p2").number), (3, Some(4)));
    after.flush(&Filter::default(), NOW);
    assert!(after.port_counts().iter().all(|count| count.connections == 0 && count.unanswered == 0));
}
