//! The table of connections under every interleaving of two threads, as far as some preemptions lead, and every value that a load may then return: loom explores them on the real
//! tracker, with a table of one or two places.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --target-dir target/loom --profile fast -p vswitch-conntrack --test models`, or `tools/test`, runs them; without `--cfg loom` there are none.
#![cfg(loom)]

use std::ops::ControlFlow;
use std::sync::Arc;
use vswitch_conntrack::{
    Config, Connection, End, Family, Filter, L4, Link, Nat, NatSide, Refusal, Request, Seen, Tracker, Tuple, Verdict,
    protocol, state,
};
use vswitch_models::{explore, thread};

/// When everything happens.
const NOW: u64 = 1000;

/// A client whose words lie in the same bucket of the index as those of client 7, but whose stripes are others: the key of the hash is always the same one here.
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
fn commit(tracker: &Tracker, tuple: Tuple, mark: u32, now: u64) -> Verdict {
    let request = Request { commit: true, mark: (mark, u32::MAX), ..Request::default() };
    tracker.track(&Seen { tuple, l4: L4::Udp, len: 60 }, &request, 0, now)
}

/// A packet that commits its connection, translated to the one address and port that there are.
fn commit_translated(tracker: &Tracker, tuple: Tuple, to: End, mark: u32, now: u64) -> Verdict {
    let addresses = Some((to.addr, to.addr));
    let nat = Nat { side: Some(NatSide::Src), addresses, ports: Some((to.port, to.port)), random: false };
    let request = Request { commit: true, nat: Some(nat), mark: (mark, u32::MAX), ..Request::default() };
    tracker.track(&Seen { tuple, l4: L4::Udp, len: 60 }, &request, 0, now)
}

/// A packet that only asks.
fn look(tracker: &Tracker, tuple: Tuple, now: u64) -> Verdict {
    tracker.track(&Seen { tuple, l4: L4::Udp, len: 60 }, &Request::default(), 0, now)
}

/// Whether a packet belonged to a connection; which must be this one.
fn belongs(verdict: &Verdict, original: Tuple, mark: u32) -> bool {
    if verdict.known {
        assert_eq!((verdict.original, verdict.mark), (Some(original), mark), "another connection: {verdict:?}");
    } else {
        assert_eq!((verdict.state, verdict.mark), (state::NEW | state::TRK, 0), "no connection: {verdict:?}");
    }
    verdict.known
}

/// What is there when nobody is at work. Everything that was counted is there, and is found by both of its tuples.
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

/// Fills the table, after everything in it has died: as many places are free as there are, each once.
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

/// One's replies are the other's original direction. Fails when one stripe only is locked, or one tuple only looked for behind it.
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

/// Fails when who finds a place does not look whether anybody is there, or the killer does not say that nobody is.
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

/// The one place has the next connection in it when who looked for the one before gets there. Fails when the tuple is not compared, or not under
/// the lock under which it is used.
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

/// Two find at once that a connection has expired, and one of them opens it again. Fails when one of them does not look again behind the lock.
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
    let seen = Seen { tuple, l4: L4::Udp, len: 60 };
    tracker.track_linked(&seen, &Request::default(), 0, now).1.expect("a link")
}

/// Two packets were here: the one that opened it and the one that the link is of. A third one is of the old connection, or of none. Fails
/// when a place does not get a new generation, when that is not compared, or when it is not looked at whether anybody is there.
#[test]
fn a_link_never_holds_for_the_next_connection_of_its_place() {
    explore(4, || {
        let tracker = tracker(1);
        commit(&tracker, tuple(7), 1, NOW);
        let link = link(&tracker, tuple(7), NOW);
        let other = Arc::clone(&tracker);
        let killing = thread::spawn(move || {
            assert_eq!(other.flush(&Filter::default(), NOW), 1, "killed");
            commit(&other, tuple(8), 2, NOW)
        });
        let gone = !belongs(&look(&tracker, tuple(7), NOW), tuple(7), 1);
        assert!(!(tracker.pass(&link, None, 60, NOW) && gone), "of a connection that is gone");
        assert_eq!(killing.join().expect("a verdict").refusal, None);
        assert!(!tracker.pass(&link, None, 60, NOW), "of a connection that is gone");
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
        assert!(!(changed && tracker.pass(&link, None, 60, NOW)), "the mark is another one");
        assert_eq!(changing.join().expect("a verdict").mark, 2);
        assert!(!tracker.pass(&link, None, 60, NOW), "the mark is another one");
    });
}

/// Who takes a connection back means the one that he met. Fails when a place does not get a new generation, when that is not compared, or not under the lock.
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

/// The other end answers while the connection is taken back: it is gone all the same, from both of its ends.
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
