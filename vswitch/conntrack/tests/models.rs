//! The table of connections under every interleaving of two threads, as far as some preemptions
//! lead, and every value that a load may then return: loom explores them on the real tracker, with
//! a table of one or two places.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --target-dir target/loom --profile fast -p vswitch-conntrack
//! --test models`, or `tools/test`, runs them; without `--cfg loom` there are none.
#![cfg(loom)]

use std::ops::ControlFlow;
use std::sync::Arc;
use vswitch_conntrack::{
    Config, Connection, End, Family, Filter, L4, Link, Nat, NatSide, Owner, Refusal, Request, Seen, TrackVerdict,
    Tracker, Tuple, protocol, state,
};
use vswitch_models::{explore, thread};

/// When everything happens.
const NOW: u64 = 1000;

/// A client whose words lie in the same bucket of the index as those of client 7, but whose stripes
/// are others: the key of the hash is always the same one here.
const OTHER: u16 = 10;

/// When nothing that was there at [`NOW`] is alive any more.
const LATER: u64 = NOW + 1_000_000_000;

fn tuple(client: u16) -> Tuple {
    let end = |addr, port| End { addr, port };
    Tuple { src: end(1, client), dst: end(2, 53), family: Family::V4, protocol: protocol::UDP, zone: 0 }
}

fn tracker(connections_max: usize) -> Arc<Tracker> {
    Arc::new(Tracker::new(Config { connections_max }))
}

/// A packet that commits its connection, with a mark to know it by.
fn commit(tracker: &Tracker, tuple: Tuple, mark: u32, now: u64) -> TrackVerdict {
    let request = Request { commit: true, mark: (mark, u32::MAX), ..Request::default() };
    tracker.track(&Seen { tuple, l4: L4::Udp, len: 60, ..Seen::default() }, &request, 0, now)
}

/// A packet that commits its connection, translated to the one address and port that there are.
fn commit_translated(tracker: &Tracker, tuple: Tuple, to: End, mark: u32, now: u64) -> TrackVerdict {
    let addresses = Some((to.addr, to.addr));
    let nat = Nat { side: Some(NatSide::Src), addresses, ports: Some((to.port, to.port)), random: false };
    let request = Request { commit: true, nat: Some(nat), mark: (mark, u32::MAX), ..Request::default() };
    tracker.track(&Seen { tuple, l4: L4::Udp, len: 60, ..Seen::default() }, &request, 0, now)
}

/// A packet that only asks.
fn look(tracker: &Tracker, tuple: Tuple, now: u64) -> TrackVerdict {
    tracker.track(&Seen { tuple, l4: L4::Udp, len: 60, ..Seen::default() }, &Request::default(), 0, now)
}

/// Whether a packet belonged to a connection; which must be this one.
fn belongs(verdict: &TrackVerdict, original: Tuple, mark: u32) -> bool {
    if verdict.known {
        assert_eq!((verdict.original, verdict.mark), (Some(original), mark), "another connection: {verdict:?}");
    } else {
        assert_eq!((verdict.state, verdict.mark), (state::NEW | state::TRK, 0), "no connection: {verdict:?}");
    }
    verdict.known
}

/// What is there when nobody is at work. Everything that was counted is there, and is found by both
/// of its tuples.
fn living(tracker: &Tracker, now: u64) -> Vec<Connection> {
    let mut living = Vec::new();
    tracker.dump(&Filter::default(), now, |connection| {
        living.push(*connection);
        ControlFlow::Continue(())
    });
    assert_eq!(tracker.counts().connections, living.len() as u64, "connections counted");
    for connection in &living {
        for tuple in [connection.original, connection.reply] {
            assert!(belongs(&look(tracker, tuple, now), connection.original, connection.mark), "{tuple:?} is lost");
        }
    }
    living
}

/// Fills the table, after everything in it has died: as many places are free as there are, each
/// once.
fn assert_all_places_free(tracker: &Tracker, places: u16, now: u64) {
    for client in 0..places {
        assert_eq!(commit(tracker, tuple(100 + client), 9, now).refusal, None, "a place for connection {client}");
    }
    assert_eq!(living(tracker, now).len(), usize::from(places), "places");
}

/// Fails when a connection is not complete when its lock is let go.
#[test]
fn who_looks_while_another_inserts_finds_all_of_it_or_nothing() {
    explore(4, || {
        let tracker = tracker(2);
        let other = Arc::clone(&tracker);
        let inserting = thread::spawn(move || commit(&other, tuple(7), 1, NOW));
        let early = belongs(&look(&tracker, tuple(7).reversed(), NOW), tuple(7), 1);
        let late = belongs(&look(&tracker, tuple(7), NOW), tuple(7), 1);
        assert!(late || !early, "found, then lost");
        assert_eq!(inserting.join().expect("a verdict").refusal, None);
        assert_eq!(living(&tracker, NOW).len(), 1);
    });
}

/// Fails when the stripes are not locked, or not in the same order by everybody.
#[test]
fn who_opens_a_connection_from_both_ends_at_once_opens_one() {
    explore(4, || {
        let tracker = tracker(2);
        let other = Arc::clone(&tracker);
        let opening = thread::spawn(move || commit(&other, tuple(7).reversed(), 1, NOW));
        let verdicts = [commit(&tracker, tuple(7), 1, NOW), opening.join().expect("a verdict")];
        let opened = verdicts.iter().filter(|verdict| verdict.state & state::NEW != 0).count();
        assert_eq!(opened, 1, "{verdicts:?}");
        assert_eq!(living(&tracker, NOW).len(), 1);
    });
}

/// One's replies are the other's original direction. Fails when one stripe only is locked, or one
/// tuple only looked for behind it.
#[test]
fn a_tuple_that_two_connections_want_belongs_to_one() {
    explore(3, || {
        let tracker = tracker(2);
        let to = End { addr: 5, port: 9 };
        let wanted = Tuple { src: tuple(7).dst, dst: to, ..tuple(7) };
        let other = Arc::clone(&tracker);
        let opening = thread::spawn(move || commit(&other, wanted, 2, NOW));
        let translated = commit_translated(&tracker, tuple(7), to, 1, NOW);
        let plain = opening.join().expect("a verdict");
        match translated.refusal {
            None => assert_eq!(plain.state, state::EST | state::RPL | state::TRK, "a reply"),
            Some(refusal) => {
                assert_eq!((refusal, plain.state), (Refusal::NatExhausted, state::NEW | state::TRK));
            }
        }
        assert_eq!(living(&tracker, NOW).len(), 1);
    });
}

/// Fails when a word of the index is claimed without compare-and-swap.
#[test]
fn who_opens_two_connections_at_once_loses_neither() {
    explore(3, || {
        let tracker = tracker(2);
        let other = Arc::clone(&tracker);
        let opening = thread::spawn(move || commit(&other, tuple(OTHER), 2, NOW));
        assert_eq!(commit(&tracker, tuple(7), 1, NOW).refusal, None);
        assert_eq!(opening.join().expect("a verdict").refusal, None);
        assert_eq!(living(&tracker, NOW).len(), 2);
    });
}

/// Fails when who finds a place does not look whether anybody is there, or the killer does not say
/// that nobody is.
#[test]
fn who_looks_while_another_kills_finds_it_or_nothing() {
    explore(4, || {
        let tracker = tracker(2);
        commit(&tracker, tuple(7), 1, NOW);
        let other = Arc::clone(&tracker);
        let killing = thread::spawn(move || other.flush(&Filter::default(), NOW));
        let early = belongs(&look(&tracker, tuple(7).reversed(), NOW), tuple(7), 1);
        let late = belongs(&look(&tracker, tuple(7), NOW), tuple(7), 1);
        assert!(early || !late, "lost, then found");
        assert_eq!(killing.join().expect("a number"), 1, "killed");
        assert!(living(&tracker, NOW).is_empty());
        assert_all_places_free(&tracker, 2, NOW);
    });
}

/// The one place has the next connection in it when who looked for the one before gets there. Fails
/// when the tuple is not compared, or not under the lock under which it is used.
#[test]
fn who_looks_while_a_place_is_used_again_never_takes_the_new_one_for_the_old() {
    explore(4, || {
        let tracker = tracker(1);
        commit(&tracker, tuple(7), 1, NOW);
        let other = Arc::clone(&tracker);
        let killing = thread::spawn(move || {
            assert_eq!(other.flush(&Filter::default(), NOW), 1, "killed");
            commit(&other, tuple(8), 2, NOW)
        });
        belongs(&look(&tracker, tuple(7), NOW), tuple(7), 1);
        belongs(&look(&tracker, tuple(8), NOW), tuple(8), 2);
        assert_eq!(killing.join().expect("a verdict").refusal, None);
        let living = living(&tracker, NOW);
        assert_eq!((living.len(), living[0].original), (1, tuple(8)));
    });
}

/// Two find at once that a connection has expired, and one of them opens it again. Fails when one
/// of them does not look again behind the lock.
#[test]
fn what_expires_goes_once_and_may_come_again_at_once() {
    explore(4, || {
        let tracker = tracker(2);
        commit(&tracker, tuple(7), 1, NOW);
        let other = Arc::clone(&tracker);
        let expiring = thread::spawn(move || other.expire(LATER));
        let again = commit(&tracker, tuple(7), 2, LATER);
        assert_eq!((again.state, again.mark), (state::NEW | state::TRK, 2));
        expiring.join().expect("a number");
        assert_eq!(tracker.counts().expired, 1);
        assert_eq!(living(&tracker, LATER).len(), 1);
        assert_eq!(tracker.flush(&Filter::default(), LATER), 1);
        assert_all_places_free(&tracker, 2, LATER);
    });
}

/// A packet that only asks, and how the next one like it may be judged.
fn link(tracker: &Tracker, tuple: Tuple, now: u64) -> Link {
    let seen = Seen { tuple, l4: L4::Udp, len: 60, ..Seen::default() };
    tracker.track_linked(&seen, &Request::default(), 0, now).1.expect("a link")
}

/// A packet on the fast path, alone in its section.
fn pass(owner: &Owner, tracker: &Tracker, link: &Link) -> bool {
    let passed = tracker.pass(owner, link, None, 60, NOW);
    owner.leave();
    passed
}

/// Two packets were here: the one that opened it and the one that the link is of. A third one is of
/// the old connection, or of none. Fails when a place does not get a new generation, when that is
/// not compared, or when it is not looked at whether anybody is there.
#[test]
fn a_link_never_holds_for_the_next_connection_of_its_place() {
    explore(3, || {
        let tracker = tracker(1);
        commit(&tracker, tuple(7), 1, NOW);
        let link = link(&tracker, tuple(7), NOW);
        let other = Arc::clone(&tracker);
        let killing = thread::spawn(move || {
            assert_eq!(other.flush(&Filter::default(), NOW), 1, "killed");
            commit(&other, tuple(8), 2, NOW)
        });
        let gone = !belongs(&look(&tracker, tuple(7), NOW), tuple(7), 1);
        let passed = pass(&tracker.owner(0), &tracker, &link);
        assert!(!(passed && gone), "of a connection that is gone");
        assert_eq!(killing.join().expect("a verdict").refusal, None);
        assert!(!pass(&tracker.owner(0), &tracker, &link), "of a connection that is gone");
        let mut packets = [0; 2];
        tracker.dump(&Filter::default(), NOW, |connection| {
            packets = connection.packets;
            ControlFlow::Break(())
        });
        assert_eq!(packets, [1, 0], "packets of the new connection");
    });
}

/// Fails when the version is not compared.
#[test]
fn a_link_does_not_hold_when_somebody_has_seen_the_connection_change() {
    explore(4, || {
        let tracker = tracker(1);
        commit(&tracker, tuple(7), 1, NOW);
        let link = link(&tracker, tuple(7), NOW);
        let other = Arc::clone(&tracker);
        let changing = thread::spawn(move || commit(&other, tuple(7), 2, NOW));
        let changed = look(&tracker, tuple(7), NOW).mark == 2;
        assert!(!(changed && pass(&tracker.owner(0), &tracker, &link)), "the mark is another one");
        assert_eq!(changing.join().expect("a verdict").mark, 2);
        assert!(!pass(&tracker.owner(0), &tracker, &link), "the mark is another one");
    });
}

/// Who takes a connection back means the one that he met. Fails when a place does not get a new
/// generation, when that is not compared, or not under the lock.
#[test]
fn who_forgets_never_forgets_the_next_connection_of_its_place() {
    explore(4, || {
        let tracker = tracker(1);
        let handle = commit(&tracker, tuple(7), 1, NOW).fresh.expect("a connection");
        let other = Arc::clone(&tracker);
        let flushing = thread::spawn(move || {
            let flushed = other.flush(&Filter::default(), NOW);
            (flushed, commit(&other, tuple(8), 2, NOW))
        });
        let forgotten = tracker.forget(handle, NOW);
        let (flushed, verdict) = flushing.join().expect("a verdict");
        assert_eq!(flushed + usize::from(forgotten), 1, "it goes once");
        // Its place may be on its way back.
        let refused = verdict.refusal == Some(Refusal::Full) && forgotten;
        assert!(refused || verdict.refusal.is_none(), "{verdict:?}");
        let living: Vec<_> = living(&tracker, NOW).iter().map(|connection| connection.original).collect();
        assert_eq!(living, if refused { vec![] } else { vec![tuple(8)] });
    });
}

/// The other end answers while the connection is taken back: it is gone all the same, from both of
/// its ends.
#[test]
fn an_answer_meanwhile_does_not_save_what_is_forgotten() {
    explore(4, || {
        let tracker = tracker(2);
        let handle = commit(&tracker, tuple(7), 1, NOW).fresh.expect("a connection");
        let other = Arc::clone(&tracker);
        let answering = thread::spawn(move || belongs(&look(&other, tuple(7).reversed(), NOW), tuple(7), 1));
        assert!(tracker.forget(handle, NOW));
        assert!(!belongs(&look(&tracker, tuple(7), NOW), tuple(7), 1), "forgotten");
        answering.join().expect("a verdict");
        assert!(living(&tracker, NOW).is_empty());
        assert_all_places_free(&tracker, 2, NOW);
    });
}

/// Packets of a connection that has an owner, by direction.
fn packets(tracker: &Tracker) -> [u64; 2] {
    let mut packets = [0; 2];
    tracker.dump(&Filter::default(), NOW, |connection| {
        packets = connection.packets;
        ControlFlow::Continue(())
    });
    packets
}

/// A connection of a client, and how its next packets may be judged: both directions of it.
fn answered(tracker: &Tracker, client: u16) -> [Link; 2] {
    commit(tracker, tuple(client), 1, NOW);
    [tuple(client).reversed(), tuple(client)].map(|tuple| link(tracker, tuple, NOW))
}

/// The owner of a number, who has had a packet of a connection and so owns it; and the links of
/// both of its directions.
fn owned(tracker: &Tracker, number: usize, client: u16) -> (Owner, [Link; 2]) {
    let links = answered(tracker, client);
    let owner = tracker.owner(number);
    assert!(pass(&owner, tracker, &links[1]), "it is its own from here on");
    (owner, links)
}

/// An owner has two packets in one section, while somebody else has one on the slow path. Fails
/// when an owner is not waited for, when it does not look again after that, or when one of both
/// does not see what the other one has written.
#[test]
fn no_packet_of_an_owner_is_lost_while_another_worker_has_one() {
    explore(3, || {
        let tracker = tracker(1);
        let (owner, [_, link]) = owned(&tracker, 0, 7);
        let other = Arc::clone(&tracker);
        let looking = thread::spawn(move || belongs(&look(&other, tuple(7), NOW), tuple(7), 1));
        for _ in 0..2 {
            assert!(tracker.pass(&owner, &link, None, 60, NOW), "nothing has changed");
        }
        owner.leave();
        assert!(looking.join().expect("a verdict"), "it is there");
        assert_eq!(packets(&tracker), [6, 1]);
    });
}

/// Both directions come to workers that both want to own the place, one of which has it. Fails when
/// two own a place, or wait for each other.
#[test]
fn two_owners_of_one_connection_lose_no_packet() {
    explore(3, || {
        let tracker = tracker(1);
        let (owner, [reply, link]) = owned(&tracker, 0, 7);
        let other = Arc::clone(&tracker);
        let replying = thread::spawn(move || {
            let owner = other.owner(1);
            assert!(other.pass(&owner, &reply, None, 60, NOW), "nothing has changed");
            assert!(other.pass(&owner, &reply, None, 60, NOW), "nothing has changed");
        });
        assert!(tracker.pass(&owner, &link, None, 60, NOW), "nothing has changed");
        owner.leave();
        replying.join().expect("a worker");
        assert_eq!(packets(&tracker), [4, 3]);
    });
}

/// Each of two workers is at the place that the other one owns, inside of its section. Fails when
/// somebody waits inside.
#[test]
fn owners_do_not_wait_for_each_other() {
    explore(3, || {
        let tracker = tracker(2);
        let (owner, [_, seven]) = owned(&tracker, 0, 7);
        let (owning, [_, other_one]) = owned(&tracker, 1, OTHER);
        let other = Arc::clone(&tracker);
        let crossing = thread::spawn(move || {
            assert!([other_one, seven].iter().all(|link| other.pass(&owning, link, None, 60, NOW)), "nothing changed");
        });
        assert!([seven, other_one].iter().all(|link| tracker.pass(&owner, link, None, 60, NOW)), "nothing has changed");
        owner.leave();
        crossing.join().expect("a worker");
        let counts = living(&tracker, NOW).iter().map(|connection| connection.packets).collect::<Vec<_>>();
        assert_eq!(counts, [[5, 1]; 2]);
    });
}

/// A place is taken from its owner, and is the next connection's, while the owner is at work. Fails
/// when who ends a connection does not wait for the owner, or when the next one has an owner from
/// the start.
#[test]
fn an_owner_never_takes_the_next_connection_for_its_own() {
    explore(3, || {
        let tracker = tracker(1);
        let handle = commit(&tracker, tuple(7), 1, NOW).fresh.expect("a connection");
        let link = link(&tracker, tuple(7), NOW);
        let owner = tracker.owner(0);
        assert!(pass(&owner, &tracker, &link), "it is its own from here on");
        let other = Arc::clone(&tracker);
        let killing = thread::spawn(move || {
            assert!(other.forget(handle, NOW), "it was there");
            commit(&other, tuple(8), 2, NOW)
        });
        let passed = [0; 2].map(|_| tracker.pass(&owner, &link, None, 60, NOW));
        owner.leave();
        assert!(passed[0] || !passed[1], "gone, and there again");
        assert_eq!(killing.join().expect("a verdict").refusal, None);
        assert_eq!(packets(&tracker), [1, 0], "of the new connection");
    });
}

/// Connections that have expired for everybody but their owner, whose clock is behind, go together.
/// Fails when the owner is not waited for: what it counts then is the next connection's.
#[test]
fn who_takes_places_from_owners_waits_for_them() {
    explore(3, || {
        let tracker = tracker(1);
        let (owner, [_, link]) = owned(&tracker, 0, 7);
        let other = Arc::clone(&tracker);
        let expiring = thread::spawn(move || {
            let expired = other.expire(LATER);
            (expired, commit(&other, tuple(8), 2, LATER))
        });
        for _ in 0..2 {
            let _ = tracker.pass(&owner, &link, None, 60, NOW);
        }
        owner.leave();
        let (expired, verdict) = expiring.join().expect("a verdict");
        assert_eq!((expired, verdict.refusal), (1, None));
        assert_eq!(packets(&tracker), [1, 0], "of the new connection");
    });
}

/// Who shows a connection does not keep its owner off it. Fails when what it shows never was there.
#[test]
fn what_is_shown_of_an_owners_connection_was_there() {
    explore(3, || {
        let tracker = tracker(1);
        let (owner, [_, link]) = owned(&tracker, 0, 7);
        let other = Arc::clone(&tracker);
        let showing = thread::spawn(move || packets(&other));
        assert!(tracker.pass(&owner, &link, None, 60, NOW), "nothing has changed");
        owner.leave();
        let [shown, answers] = showing.join().expect("packets");
        assert!((3..=4).contains(&shown) && answers == 1, "{shown} {answers}");
        assert_eq!(packets(&tracker), [4, 1]);
    });
}
