//! Connections that a packet takes back.

use super::talk::{Talk, request, seen};
use crate::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// What a packet met as new.
fn met(talk: &Talk, packet: &str, text: &str) -> Option<Handle> {
    talk.tracker.track(&seen(packet), &request(text), 0, talk.now).fresh
}

#[test]
fn what_was_met_as_new_goes_and_is_counted() {
    let mut talk = Talk::new(64);
    talk.tracker.keep_events(10);
    assert_eq!(met(&talk, "udp 1:1000>2:53", ""), None, "there is none");
    let handle = met(&talk, "udp 1:1000>2:53", "commit mark=5").expect("it opened one");
    assert_eq!(met(&talk, "udp 1:1000>2:53", ""), Some(handle), "the second packet");
    assert!(talk.tracker.forget(handle, talk.now));
    assert!(!talk.tracker.forget(handle, talk.now), "it has gone already");
    assert_eq!(talk.dump(), [""; 0]);
    let counts = talk.tracker.counts();
    assert_eq!((counts.created, counts.connections, counts.forgotten), (1, 0, 1));
    assert_eq!(talk.tracker.limits().1, [], "no zone has any");
    let events = talk.tracker.take_events(10);
    let told: Vec<_> = events.iter().map(|event| (event.kind, event.connection.mark)).collect();
    assert_eq!(told, [(EventKind::New, 5), (EventKind::End, 5)]);
    // The other end speaks of something that nobody knows.
    talk.say(&[("udp 2:53>1:1000", "", "new|trk")]);
}

#[test]
fn what_was_met_as_established_or_invalid_has_no_handle() {
    let mut talk = Talk::new(64);
    talk.say(&[("tcp 1:1000>2:80 S seq=100", "commit", "new|trk")]);
    assert_eq!(met(&talk, "tcp 2:80>1:1000 SA seq=500 ack=101", ""), None);
    assert_eq!(met(&talk, "tcp 1:1000>2:80 A seq=101 ack=501", "commit"), None);
    assert_eq!(met(&talk, "tcp 1:1000>2:80 A seq=999999 ack=501 len=9", "commit"), None);
    assert_eq!(talk.connections().len(), 1);
}

/// "Only while it is unanswered" would be a race that the other end can win.
#[test]
fn an_answer_meanwhile_does_not_save_it() {
    let mut talk = Talk::new(64);
    talk.tracker.set_established_after_answer(1, true);
    let handle = met(&talk, "tcp 1:1000>2:80 S seq=100", "commit").expect("a connection");
    talk.say(&[("tcp 2:80>1:1000 SA seq=500 ack=101", "", "est|rpl|trk orig 1:1000>2:80")]);
    assert!(talk.tracker.forget(handle, talk.now));
    talk.say(&[("tcp 2:80>1:1000 SA seq=500 ack=101", "commit", "inv|trk")]);
}

#[test]
fn the_next_connection_of_its_place_stays() {
    let mut talk = Talk::new(1);
    let handle = met(&talk, "udp 1:1000>2:53", "commit").expect("a connection");
    assert_eq!(talk.tracker.flush(&Filter::default(), talk.now), 1);
    assert!(!talk.tracker.forget(handle, talk.now), "nobody is there");
    let next = met(&talk, "udp 1:1000>2:53", "commit").expect("the same tuple, in the same place");
    assert_ne!(next, handle);
    assert!(!talk.tracker.forget(handle, talk.now), "somebody else is there");
    assert_eq!(talk.connections().len(), 1);
    talk.now += 1_000_000;
    assert!(talk.tracker.forget(next, talk.now));
    let counts = talk.tracker.counts();
    assert_eq!((counts.expired, counts.forgotten, counts.connections), (1, 0, 0), "it had expired");
    let other = Tracker::new(Config { connections_max: 0 });
    assert!(!other.forget(next, talk.now), "of a larger tracker");
}

/// What a packet met in two zones, the second one behind a translation, and whatever else happens:
/// only that goes.
#[test]
fn connections_of_two_zones_go_by_their_handles() {
    let talk = Talk::new(64);
    let main = met(&talk, "udp 1:1000>2:53", "commit dst=9:5353").expect("main");
    let outer = met(&talk, "udp 1:1000>9:5353", "zone=5 commit src=7").expect("outer");
    let kept = met(&talk, "udp 1:1001>2:53", "commit dst=9:5353").expect("another one");
    assert!([main, outer].iter().all(|handle| talk.tracker.forget(*handle, talk.now)));
    assert_eq!(talk.dump(), ["udp 1:1001>2:53 9:5353>1:1001 zone=1 timeout=60000"]);
    assert_eq!(met(&talk, "udp 1:1001>2:53", "nat"), Some(kept));
}

proptest! {
    /// Against a map from tuples to handles: a handle means one connection, for ever.
    #[test]
    fn a_handle_means_one_connection(
        steps in prop::collection::vec((0..5_u8, 1..4_u16, 0..2_u16, any::<prop::sample::Index>()), 1..100),
    ) {
        let talk = Talk::new(4);
        let mut alive: HashMap<(u16, u16), Handle> = HashMap::new();
        let mut handles: Vec<((u16, u16), Handle)> = Vec::new();
        for (what, port, zone, which) in steps {
            let packet = format!("udp 1:{port}>2:53");
            match what {
                0..3 => {
                    let fresh = met(&talk, &packet, &format!("zone={zone} commit"));
                    let known = alive.get(&(port, zone)).copied();
                    prop_assert!(known.is_none() || known == fresh, "{known:?} {fresh:?}");
                    // A full table may have let go of another one.
                    let there: Vec<_> = talk.connections().iter().map(|c| (c.original.src.port, c.original.zone)).collect();
                    alive.retain(|key, _| there.contains(key));
                    if let Some(handle) = fresh {
                        prop_assert!(handles.iter().all(|(key, old)| *old != handle || *key == (port, zone)));
                        alive.insert((port, zone), handle);
                        handles.push(((port, zone), handle));
                    }
                }
                3 if !handles.is_empty() => {
                    let (key, handle) = handles[which.index(handles.len())];
                    let expected = alive.get(&key) == Some(&handle);
                    prop_assert_eq!(talk.tracker.forget(handle, talk.now), expected);
                    if expected {
                        alive.remove(&key);
                    }
                }
                _ => {
                    talk.tracker.flush(&Filter { zone: Some(zone), ..Filter::default() }, talk.now);
                    alive.retain(|key, _| key.1 != zone);
                }
            }
            prop_assert_eq!(talk.connections().len(), alive.len());
            prop_assert_eq!(talk.tracker.counts().connections, alive.len() as u64);
        }
    }
}
