//! Places that belong to workers.

use super::talk::{Talk, request, seen};
use crate::tracker::hot::Mine;
use crate::tracker::who::Who;
use crate::{Config, Connection, Family, Filter, L4, Link, Moment, Owner, Seen, Tracker, tcp};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

const NOW: u64 = 1000;

/// A connection that was answered, and the links of both of its directions.
fn answered(tracker: &Tracker, client: u128) -> [Link; 2] {
    tracker.track(&seen(&format!("udp {client}:1000>2:53")), &request("commit"), 0, NOW);
    let replies = tracker.track_linked(&seen(&format!("udp 2:53>{client}:1000")), &request(""), 0, NOW);
    let others = tracker.track_linked(&seen(&format!("udp {client}:1000>2:53")), &request(""), 0, NOW);
    [others.1, replies.1].map(|link| link.expect("a link"))
}

fn passes(tracker: &Tracker, owner: &Owner, link: &Link) -> bool {
    let passed = tracker.pass(owner, link, None, 60, NOW);
    owner.leave();
    passed
}

fn owner_of(tracker: &Tracker, link: &Link) -> Option<usize> {
    tracker.arena.spot(link.place()).hot.lock.read().owner().number()
}

fn shown(tracker: &Tracker) -> Vec<Connection> {
    let mut shown = Vec::new();
    tracker.dump(&Filter::default(), NOW, |connection| {
        shown.push(*connection);
        ControlFlow::Continue(())
    });
    shown
}

#[test]
fn who_has_the_packets_has_the_place_and_gives_it_up_for_others() {
    let tracker = Tracker::new(Config { connections_max: 4 });
    let (first, second) = (tracker.owner(0), tracker.owner(5));
    let [link, reply] = answered(&tracker, 1);
    assert_eq!(owner_of(&tracker, &link), None, "nobody has had a packet of it the fast path");
    assert!(passes(&tracker, &first, &link) && passes(&tracker, &first, &reply));
    assert_eq!(owner_of(&tracker, &link), Some(0));
    // Whoever only looks gives it back, and so does its owner, on the slow path.
    assert_eq!(shown(&tracker)[0].packets, [3, 2]);
    assert!(tracker.connection(&shown(&tracker)[0].reply, NOW).is_some());
    tracker.track(&seen("udp 1:1000>2:53"), &request(""), 0, NOW);
    assert!(tracker.may_pass(&first, &link, None, NOW));
    tracker.settle(&first, &link, None, 60, NOW);
    assert_eq!(owner_of(&tracker, &link), Some(0));
    // Somebody else has a packet of it.
    tracker.track(&seen("udp 1:1000>2:53"), &request(""), 5, NOW);
    assert_eq!(owner_of(&tracker, &link), None);
    assert!(passes(&tracker, &first, &link));
    assert_eq!(owner_of(&tracker, &link), Some(0));
    assert!(passes(&tracker, &second, &reply), "it is free then");
    assert_eq!(owner_of(&tracker, &link), None);
    assert!(passes(&tracker, &second, &reply), "it is the second one's then");
    assert_eq!(owner_of(&tracker, &link), Some(5));
    // Three times are enough at first.
    assert!(tracker.may_pass(&first, &link, None, NOW));
    assert!([&first, &second, &first].iter().all(|owner| passes(&tracker, owner, &link)));
    assert_eq!(owner_of(&tracker, &link), None);
    assert_eq!(shown(&tracker)[0].packets, [10, 4]);
    // Until it has had many more.
    for packet in 10..4095 {
        assert!(passes(&tracker, &second, &link));
        assert_eq!(owner_of(&tracker, &link), None, "packet {packet}");
    }
    assert!(passes(&tracker, &second, &link));
    assert_eq!(owner_of(&tracker, &link), Some(5));
    // The next one of its place begins anew.
    assert_eq!(tracker.flush(&Filter::default(), NOW), 1);
    let [next, _] = answered(&tracker, 2);
    assert_eq!(next.place(), link.place());
    assert!(!passes(&tracker, &first, &link) && passes(&tracker, &second, &next));
    assert_eq!(owner_of(&tracker, &next), Some(5));
    assert_eq!(tracker.flush(&Filter::default(), NOW), 1);
    assert_eq!(owner_of(&tracker, &next), None, "nobody is there");
}

#[test]
fn a_number_is_one_owners_and_who_has_none_owns_nothing() {
    let tracker = Tracker::new(Config { connections_max: 4 });
    let [link, _] = answered(&tracker, 1);
    let owner = tracker.owner(3);
    for other in [tracker.owner(3), tracker.owner(64), tracker.owner(usize::MAX)] {
        assert!(passes(&tracker, &other, &link));
        assert_eq!((owner_of(&tracker, &link), other.who()), (None, Who::NOBODY));
    }
    // Who is dropped inside of a section is outside.
    assert!(tracker.pass(&owner, &link, None, 60, NOW));
    drop(owner);
    assert_eq!(owner_of(&tracker, &link), Some(3));
    assert!(tracker.track(&seen("udp 1:1000>2:53"), &request(""), 0, NOW).known);
    let next = tracker.owner(3);
    assert!(passes(&tracker, &next, &link));
    assert_eq!(owner_of(&tracker, &link), Some(3));
    assert_eq!(shown(&tracker)[0].packets, [8, 1]);
}

/// Halves of counters that begin anew are written by an owner, too; what does not pass touches
/// nothing.
#[test]
fn an_owner_counts_as_everybody_does() {
    let mut talk = Talk::new(4);
    talk.ct("tcp 1:1000>2:80 S seq=100 win=1000", "commit");
    talk.ct("tcp 2:80>1:1000 SA seq=500 ack=101 win=1000", "");
    talk.ct("tcp 1:1000>2:80 A seq=101 ack=501 win=1000", "");
    let (tracker, owner) = (&talk.tracker, talk.tracker.owner(0));
    let segment = |seq| tcp::Segment { flags: 0x10, seq, ack: 501, window: 1000, payload: 1, scale: None };
    let packet = Seen { l4: L4::Tcp(segment(101)), len: 60, ..seen("tcp 1:1000>2:80 A") };
    let link = tracker.track_linked(&packet, &request(""), 0, talk.now).1.expect("a link");
    let hot = tracker.arena.spot(link.place()).hot;
    Mine::of(hot).set_counts([[u32::MAX - 2, 7], [u32::MAX - 130, 7]]);
    let before = shown(tracker)[0];
    for i in 0..5 {
        assert!(tracker.pass(&owner, &link, Some(&segment(102 + i)), 60, talk.now + u64::from(i)), "{i}");
        let was = hot.lock.read();
        assert!(!tracker.pass(&owner, &link, Some(&segment(90_000)), 60, talk.now), "out of all windows");
        assert_eq!(hot.lock.read(), was);
    }
    owner.leave();
    let after = shown(tracker)[0];
    assert_eq!(after.packets[0], before.packets[0] + 5);
    assert_eq!(after.bytes[0], before.bytes[0] + 300);
    assert_eq!(after.tcp.expect("of TCP").peers[0].seq_lo, 107);
    assert_eq!(after.timeout_ms, before.timeout_ms + 4 + talk.now - NOW);
    assert_eq!(owner_of(tracker, &link), Some(0));
}

/// Two owners, one of whom has the replies of every fourth connection, somebody who tracks on the
/// slow path, and the control side: no packet is lost, and everybody gets on.
#[test]
fn owners_and_all_others_at_once_lose_no_packet() {
    const CONNECTIONS: usize = 64;
    const BURSTS: usize = 4000;
    let tracker = &Tracker::new(Config { connections_max: 256 });
    let links: Vec<[Link; 2]> = (0..CONNECTIONS).map(|i| answered(tracker, 10 + i as u128)).collect();
    let before: u64 = shown(tracker).iter().flat_map(|connection| connection.packets).sum();
    let (links, stop) = (&links, &AtomicBool::new(false));
    let sent: u64 = std::thread::scope(|scope| {
        let worker = |number: usize| {
            scope.spawn(move || {
                let (owner, mut sent) = (tracker.owner(number), 0);
                for burst in 0..BURSTS {
                    for i in 0..32 {
                        let i = (burst * 7 + i * 3) % CONNECTIONS;
                        let own = i % 2 == number;
                        if own || i.is_multiple_of(4) {
                            assert!(tracker.pass(&owner, &links[i][usize::from(!own)], None, 60, NOW), "{i}");
                            sent += 1;
                        }
                    }
                    owner.leave();
                }
                sent
            })
        };
        let workers = [worker(0), worker(1)];
        let control = scope.spawn(move || {
            let (mut sent, mut last, mut rounds) = (0_u64, 0, 0_usize);
            while !stop.load(Relaxed) {
                let now: u64 = shown(tracker).iter().flat_map(|connection| connection.packets).sum();
                assert!(now >= last, "{last}, then {now}");
                last = now;
                tracker.track(&seen(&format!("udp {}:1000>2:53", 10 + rounds % CONNECTIONS)), &request(""), 2, NOW);
                sent += 1;
                rounds += 1;
                assert_eq!(tracker.expire(NOW) + tracker.flush_where(NOW, |_| false), 0);
            }
            sent
        });
        let sent: u64 = workers.into_iter().map(|worker| worker.join().expect("a worker")).sum();
        stop.store(true, Relaxed);
        sent + control.join().expect("the control side")
    });
    let after: u64 = shown(tracker).iter().flat_map(|connection| connection.packets).sum();
    assert_eq!(after - before, sent);
    assert_eq!(tracker.flush(&Filter::default(), NOW), CONNECTIONS);
    assert_eq!(tracker.counts().connections, 0);
}

/// More than are taken from their owners at a time.
#[test]
fn many_owned_connections_end_together() {
    const CONNECTIONS: usize = 150;
    let tracker = Tracker::new(Config { connections_max: 256 });
    let owners = [tracker.owner(0), tracker.owner(1)];
    let own = |client: usize| {
        let links = answered(&tracker, 10 + client as u128);
        assert!(passes(&tracker, &owners[client % 2], &links[0]));
        links[0]
    };
    let links: Vec<Link> = (0..CONNECTIONS).map(own).collect();
    assert!(links.iter().all(|link| owner_of(&tracker, link).is_some()));
    assert_eq!(tracker.flush_where(NOW, |connection| connection.original.src.addr.is_multiple_of(3)), CONNECTIONS / 3);
    assert_eq!(shown(&tracker).len(), CONNECTIONS - CONNECTIONS / 3);
    // Who is not meant any more when it is locked stays.
    let asked = Cell::new(0);
    let once = |_: &Connection| asked.replace(asked.get() + 1) < 70;
    assert_eq!(tracker.flush_where(NOW, once), 6, "64 were meant at first, and 6 of them when they were asked again");
    let late = NOW + 1_000_000_000;
    let expired: usize = (0..200).map(|_| tracker.expire(late)).sum();
    assert_eq!(expired, CONNECTIONS - CONNECTIONS / 3 - 6);
    assert_eq!((tracker.counts().connections, tracker.counts().expired), (0, expired as u64));
    assert!(links.iter().all(|link| owner_of(&tracker, link).is_none() && !passes(&tracker, &owners[0], link)));
}

/// A worker loses its core inside of a section. What can be done without its connections is done
/// without them, and with them when it is outside again.
#[test]
fn who_can_do_without_an_owner_that_does_not_move_does_not_wait() {
    let tracker = &Tracker::new(Config { connections_max: 8 });
    let owners = [0, 1].map(|worker| tracker.owner(worker));
    let own = |client: usize| {
        let [link, _] = answered(tracker, client as u128);
        assert!(passes(tracker, &owners[client % 2], &link));
        link
    };
    let links: Vec<Link> = (0..4).map(own).collect();
    assert!(tracker.pass(&owners[0], &links[0], None, 60, NOW), "it is inside from here on");
    let late = NOW + 1_000_000_000;
    let elsewhere = || {
        let saved = tracker.save(NOW, &Moment::default(), &mut Vec::new()).expect("room");
        (saved.connections, saved.left_out, tracker.expire(late))
    };
    let all = std::thread::scope(|scope| scope.spawn(elsewhere).join().expect("no panic"));
    assert_eq!(all, (2, 2, 2), "written, left out, expired");
    assert!([0, 2].iter().all(|link| owner_of(tracker, &links[*link]) == Some(0)), "they stay its own");
    owners[0].leave();
    assert_eq!(elsewhere(), (2, 0, 2));
    assert_eq!(tracker.counts().connections, 0);
}

/// What is shown of a connection is of one connection, while owners have packets, and connections
/// of either family come and go at the same places.
#[test]
fn what_is_shown_belongs_together_while_connections_come_and_go() {
    const CLIENTS: u128 = 24;
    let tracker = &Tracker::new(Config { connections_max: CLIENTS as usize / 2 });
    let stop = &AtomicBool::new(false);
    // Client, mark and label are one number, and so is every address.
    let packet = |client: u128| {
        if client.is_multiple_of(2) { format!("udp {client}:1000>2:53") } else { format!("v6 udp {client}:1000>2:53") }
    };
    std::thread::scope(|scope| {
        for number in 0..2 {
            scope.spawn(move || {
                let (owner, mut links) = (tracker.owner(number), [Link::NONE; CLIENTS as usize]);
                for round in 0..60_000_u128 {
                    let client = (round * 7 + round / 64 + number as u128) % CLIENTS;
                    let link = &mut links[client as usize];
                    if tracker.pass(&owner, link, None, 60, NOW) {
                        continue;
                    }
                    owner.leave();
                    let commit = request(&format!("commit mark={}/0xffffffff label={client}", 100 + client));
                    *link = tracker
                        .track_linked(&seen(&packet(100 + client)), &commit, number, NOW)
                        .1
                        .unwrap_or(Link::NONE);
                }
                owner.leave();
                stop.store(true, Relaxed);
            });
        }
        scope.spawn(move || {
            let mut round = 0;
            while !stop.load(Relaxed) {
                for connection in shown(tracker) {
                    let client = connection.original.src.addr;
                    let family = if client.is_multiple_of(2) { Family::V4 } else { Family::V6 };
                    let other = (
                        connection.reply.dst.addr,
                        u128::from(connection.mark),
                        connection.label,
                        connection.original.family,
                    );
                    assert_eq!(other, (client, client, client - 100, family), "{connection:?}");
                    assert!(
                        tracker.connection(&connection.reply, NOW).is_none_or(|it| it.original == connection.original)
                    );
                }
                tracker.flush_where(NOW, |connection| connection.original.src.addr == 100 + round % CLIENTS);
                round += 1;
            }
        });
    });
}

#[test]
#[should_panic(expected = "inside of a section")]
#[cfg(debug_assertions)]
fn who_waits_inside_of_a_section_is_found() {
    let tracker = Tracker::new(Config { connections_max: 4 });
    let [link, _] = answered(&tracker, 1);
    let owner = tracker.owner(0);
    assert!(tracker.pass(&owner, &link, None, 60, NOW));
    tracker.track(&seen("udp 1:1000>2:53"), &request(""), 0, NOW);
}
