//! First packets whose connection is opened at once: as if it had been asked for, and then
//! committed.

use super::talk::{Talk, request, seen};
use crate::{Connection, Request, TrackVerdict, state};
use proptest::prelude::*;

/// What the packet is and the `ct()` that commits, and what happens otherwise.
#[derive(Clone, Debug)]
enum Step {
    First { packet: String, commit: &'static str },
    Say { packet: String, request: &'static str },
    Limit(Option<u32>),
    Time(u64),
}

const COMMITS: [&str; 4] = ["commit", "commit mark=5 label=6", "commit nat mark=7", "zone=2 commit"];

const REQUESTS: [&str; 6] =
    ["", "commit src=7:50", "commit tftp mark=3", "nat", "commit force", "commit dst=3:2 mark=8"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let packet = || {
        let kind = prop_oneof![4 => Just(("tcp", " S seq=5")), 1 => Just(("tcp", " SA seq=5 ack=6")), 1 => Just(("tcp", " A seq=5 ack=6")), 2 => Just(("udp", ""))];
        let end = || (1..4_u8, 1..4_u16);
        (kind, end(), end(), any::<bool>()).prop_map(|((kind, rest), (src, sport), (dst, dport), v6)| {
            let dport = if dport == 3 { 69 } else { dport };
            format!("{}{kind} {src}:{sport}>{dst}:{dport}{rest}", if v6 { "v6 " } else { "" })
        })
    };
    let time = prop_oneof![3 => Just(1_u64), 2 => Just(29_999), 1 => Just(30_001), 1 => Just(400_000)];
    let step = prop_oneof![
        12 => (packet(), 0..COMMITS.len()).prop_map(|(packet, i)| Step::First { packet, commit: COMMITS[i] }),
        6 => (packet(), 0..REQUESTS.len()).prop_map(|(packet, i)| Step::Say { packet, request: REQUESTS[i] }),
        1 => prop_oneof![Just(None), (1..4_u32).prop_map(Some)].prop_map(Step::Limit),
        3 => time.prop_map(Step::Time),
    ];
    prop::collection::vec(step, 1..50)
}

/// Asked for, and committed if it is new and was not announced; the last verdict.
fn asked(talk: &Talk, packet: &str, commit: &Request) -> TrackVerdict {
    let seen = seen(packet);
    let question = Request { zone: commit.zone, ..Request::default() };
    let first = talk.tracker.track(&seen, &question, 0, talk.now);
    if first.state != state::NEW | state::TRK || first.known {
        return first;
    }
    let commit = Request { before: first.state, unknown: true, ..commit.clone() };
    talk.tracker.track(&seen, &commit, 0, talk.now)
}

/// All but which place it has got.
fn connections(talk: &Talk) -> Vec<Connection> {
    talk.connections().into_iter().map(|connection| Connection { id: 0, ..connection }).collect()
}

#[test]
fn what_is_opened_unsought_is_what_asking_would_have_opened() {
    let opened = std::cell::Cell::new(0);
    proptest!(ProptestConfig { cases: 2000, ..ProptestConfig::default() }, |(steps in steps())| {
        let (mut short, mut long) = (Talk::new(400), Talk::new(400));
        for (i, step) in steps.iter().enumerate() {
            match step {
                Step::First { packet, commit } => {
                    let commit = request(commit);
                    let done = short.tracker.open_unsought(&seen(packet), &commit, 0, short.now);
                    let verdict = asked(&long, packet, &commit);
                    match done {
                        true => {
                            prop_assert!(verdict.opened && verdict.state == state::NEW | state::TRK, "{verdict:?}: {i} of {steps:#?}");
                            prop_assert_eq!((verdict.mark, verdict.label), (commit.mark.0, commit.label.0), "{} of {:#?}", i, steps);
                            opened.set(opened.get() + 1);
                        }
                        false => prop_assert_eq!(TrackVerdict { fresh: None, ..asked(&short, packet, &commit) }, TrackVerdict { fresh: None, ..verdict }, "{} of {:#?}", i, steps),
                    }
                }
                Step::Say { packet, request } => {
                    prop_assert_eq!(short.ct(packet, request), long.ct(packet, request), "{} of {:#?}", i, steps);
                }
                Step::Limit(limit) => [&short, &long].iter().for_each(|talk| talk.tracker.set_limit(1, *limit)),
                Step::Time(ms) => [&mut short, &mut long].iter_mut().for_each(|talk| talk.now += ms),
            }
            prop_assert_eq!(connections(&short), connections(&long), "{} of {:#?}", i, steps);
            let counts = |talk: &Talk| crate::Counts { memory: 0, ..talk.tracker.counts() };
            prop_assert_eq!(counts(&short), counts(&long), "{} of {:#?}", i, steps);
        }
    });
    assert!(opened.get() > 2000, "{opened:?} connections were opened so: this compares nothing");
}

/// Nothing has happened where it opens nothing: the last place is still there for who asks.
#[test]
fn what_is_not_opened_leaves_nothing() {
    let talk = Talk::new(1);
    let commit = request("commit");
    assert!(talk.tracker.open_unsought(&seen("tcp 1:1>2:2 S"), &commit, 0, 1000));
    for packet in ["tcp 1:1>2:2 S", "tcp 1:2>2:2 S", "tcp 2:2>1:1 SA", "tcp 2:2>1:1 S", "tcp 1:3>2:2 R"] {
        assert!(!talk.tracker.open_unsought(&seen(packet), &commit, 0, 1000), "{packet}");
        assert_eq!((talk.tracker.counts().connections, talk.tracker.counts().created), (1, 1), "{packet}");
    }
    assert_eq!(talk.tracker.flush(&crate::Filter::default(), 1000), 1);
    assert!(talk.tracker.open_unsought(&seen("tcp 1:2>2:2 S"), &commit, 0, 1000), "the place is free again");
}
