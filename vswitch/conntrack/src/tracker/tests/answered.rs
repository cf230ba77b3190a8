//! Zones where established means answered.

use super::talk::{Talk, seen};
use crate::tcp::flag::{ACK, FIN, PSH, RST, SYN};
use crate::tcp::{Segment, State};
use crate::*;
use proptest::prelude::*;

/// Zone 1 waits for answers.
fn talk() -> Talk {
    let talk = Talk::new(64);
    talk.tracker.set_established_after_answer(1, true);
    talk
}

#[test]
fn zones_are_told_apart() {
    let tracker = Tracker::new(Config { connections_max: 1 });
    assert_eq!(tracker.zones_established_after_answer(), []);
    for zone in [0, 63, 64, u16::MAX] {
        tracker.set_established_after_answer(zone, true);
    }
    tracker.set_established_after_answer(63, false);
    assert_eq!(tracker.zones_established_after_answer(), [0, 64, u16::MAX]);
    assert_eq!([63, 64, 65].map(|zone| tracker.established_after_answer(zone)), [false, true, false]);
}

#[test]
fn a_handshake_establishes() {
    let mut talk = talk();
    talk.say(&[
        ("tcp 1:1000>2:80 S seq=100", "commit", "new|trk"),
        ("tcp 1:1000>2:80 S seq=100", "", "new|trk"),
        ("tcp 2:80>1:1000 SA seq=500 ack=101", "", "est|rpl|trk orig 1:1000>2:80"),
        ("tcp 1:1000>2:80 A seq=101 ack=501", "", "est|trk"),
        ("tcp 1:1000>2:80 PA seq=101 ack=501 len=9", "", "est|trk"),
        ("tcp 2:80>1:1000 A seq=501 ack=110", "", "est|rpl|trk orig 1:1000>2:80"),
    ]);
    assert_eq!(talk.dump(), ["tcp 1:1000>2:80 2:80>1:1000 zone=1 timeout=86400000"]);
    assert!(talk.connections()[0].replied);
}

/// The reason for all this: whoever was not let through cannot make himself established.
#[test]
fn bare_segments_behind_an_unanswered_syn_are_new() {
    let mut talk = talk();
    talk.say(&[
        ("tcp 1:1000>2:80 S seq=100", "commit mark=3", "new|trk mark=3"),
        ("tcp 1:1000>2:80 A seq=101 ack=1", "", "new|trk mark=3"),
        ("tcp 1:1000>2:80 PA seq=101 ack=1 len=50", "", "new|trk mark=3"),
        ("tcp 1:1000>2:80 SA seq=100 ack=1", "", "new|trk mark=3"),
        ("tcp 1:1000>2:80 FA seq=151 ack=1", "", "new|trk mark=3"),
        ("tcp 1:1000>2:80 R seq=152", "", "new|trk mark=3"),
        ("tcp 1:1000>2:80 PA seq=152 ack=1 len=1", "", "new|trk mark=3"),
    ]);
    assert!(!talk.connections()[0].replied);
    talk.say(&[("tcp 1:1000>2:80 S seq=900", "commit", "new|trk")]);
    let elsewhere = ("tcp 1:1000>2:80 A seq=101 ack=1", "zone=2", "est|trk");
    talk.say(&[("tcp 1:1000>2:80 S seq=100", "zone=2 commit", "new|trk"), elsewhere]);
}

/// Nor can the other end, with anything but an answer.
#[test]
fn what_no_stack_sends_to_a_syn_is_no_answer() {
    let mut talk = talk();
    let original = "new|trk orig 1:1000>2:80";
    talk.say(&[
        ("tcp 1:1000>2:80 S seq=100", "commit", "new|trk"),
        ("tcp 2:80>1:1000 A seq=500 ack=101", "", original),
        ("tcp 2:80>1:1000 PA seq=500 ack=101 len=7", "", original),
        ("tcp 2:80>1:1000 FA seq=500 ack=101", "", original),
        ("tcp 2:80>1:1000 S seq=500", "", original),
        ("tcp 1:1000>2:80 A seq=101 ack=501", "", "new|trk"),
        ("tcp 2:80>1:1000 FSA seq=500 ack=101", "", "inv|trk"),
        ("tcp 2:80>1:1000 P seq=500", "", "inv|trk"),
    ]);
    let connection = talk.connections()[0];
    assert_eq!(connection.tcp.map(|tcp| tcp.peers.map(|peer| peer.state)), Some([State::SynSent, State::Closed]));
    assert!(!connection.replied);
    talk.say(&[
        ("tcp 2:80>1:1000 SA seq=500 ack=101", "", "est|rpl|trk orig 1:1000>2:80"),
        ("tcp 1:1000>2:80 A seq=101 ack=501", "", "est|trk"),
    ]);
}

#[test]
fn what_is_no_answer_does_not_keep_a_connection() {
    let mut talk = talk();
    talk.say(&[("tcp 1:1000>2:80 S seq=100", "commit", "new|trk")]);
    talk.now += 29_000;
    talk.say(&[("tcp 2:80>1:1000 S seq=500", "", "new|trk orig 1:1000>2:80")]);
    talk.now += 1000;
    assert_eq!(talk.dump(), [""; 0]);
}

/// RFC 9293, 3.5: each end answers the other one's SYN.
/// RFC 9293's challenge ACK, a late segment, or a forged one: the answer still finds what the
/// opener wrote.
#[test]
fn what_is_no_answer_writes_nothing_and_takes_nothing_back() {
    let mut talk = talk();
    talk.say(&[
        ("tcp 1:1000>2:80 S seq=100", "commit mark=3", "new|trk mark=3"),
        ("tcp 2:80>1:1000 A seq=7 ack=9", "commit mark=2", "new|trk mark=3 orig 1:1000>2:80"),
    ]);
    let stray = seen("tcp 2:80>1:1000 A seq=7 ack=9");
    let request = super::talk::request("zone=1 commit mark=2");
    assert_eq!(talk.tracker.track(&stray, &request, 0, talk.now).fresh, None);
    talk.say(&[("tcp 2:80>1:1000 SA seq=500 ack=101", "", "est|rpl|trk mark=3 orig 1:1000>2:80")]);
}

#[test]
fn both_may_open_at_once_and_both_wait() {
    talk().say(&[
        ("tcp 1:1000>2:80 S seq=100", "commit", "new|trk"),
        ("tcp 2:80>1:1000 S seq=7000000", "", "new|trk orig 1:1000>2:80"),
        ("tcp 1:1000>2:80 SA seq=100 ack=7000001", "", "new|trk"),
        ("tcp 2:80>1:1000 SA seq=7000000 ack=101", "", "est|rpl|trk orig 1:1000>2:80"),
        ("tcp 1:1000>2:80 A seq=101 ack=7000001", "", "est|trk"),
    ]);
}

#[test]
fn a_reset_answers() {
    let mut talk = talk();
    talk.say(&[
        ("tcp 1:1000>2:80 S seq=100", "commit", "new|trk"),
        ("tcp 2:80>1:1000 RA seq=0 ack=101", "", "est|rpl|trk orig 1:1000>2:80"),
        ("tcp 1:1000>2:80 S seq=100", "commit", "new|trk"),
        ("tcp 1:1000>2:80 A seq=101 ack=501", "", "new|trk"),
        ("tcp 2:80>1:1000 R seq=1", "", "est|rpl|trk orig 1:1000>2:80"),
        ("tcp 2:80>1:1000 S seq=1", "commit", "new|trk"),
        ("tcp 2:80>1:1000 A seq=2 ack=1", "", "new|trk"),
    ]);
    assert_eq!(talk.tracker.counts().replaced, 2);
}

/// Unanswered or not, a connection that is over gives way to the next one, from either end.
#[test]
fn a_syn_of_the_other_end_after_the_end_opens_its_own() {
    let mut talk = talk();
    talk.say(&[
        ("tcp 1:1000>2:80 S seq=100", "commit", "new|trk"),
        ("tcp 1:1000>2:80 R seq=101", "", "new|trk"),
        ("tcp 2:80>1:1000 A seq=500 ack=101", "", "new|trk orig 1:1000>2:80"),
        ("tcp 2:80>1:1000 S seq=500", "commit mark=4", "new|trk mark=4"),
        ("tcp 1:1000>2:80 SA seq=100 ack=501", "", "est|rpl|trk mark=4 orig 2:80>1:1000"),
    ]);
    assert_eq!(talk.tracker.counts().replaced, 1);
}

#[test]
fn what_was_picked_up_in_the_middle_waits_for_the_other_end() {
    for answer in ["A seq=5 ack=100", "PA seq=5 ack=100 len=3", "FA seq=5 ack=100", "SA seq=5 ack=100", "R seq=5"] {
        talk().say(&[
            ("tcp 1:1000>2:80 A seq=100 ack=5", "commit", "new|trk"),
            ("tcp 1:1000>2:80 A seq=100 ack=5", "", "new|trk"),
            ("tcp 2:80>1:1000 S seq=5", "", "new|trk orig 1:1000>2:80"),
            ("tcp 1:1000>2:80 PA seq=100 ack=5 len=3", "", "new|trk"),
            (&format!("tcp 2:80>1:1000 {answer}"), "", "est|rpl|trk orig 1:1000>2:80"),
            ("tcp 1:1000>2:80 A seq=103 ack=5", "", "est|trk"),
        ]);
    }
}

/// All other protocols do so in every zone.
#[test]
fn other_protocols_wait_as_they_always_do() {
    for (on, zone) in [(true, "zone=1"), (false, "zone=2")] {
        let mut talk = talk();
        assert_eq!(talk.tracker.established_after_answer(if on { 1 } else { 2 }), on);
        let commit = &format!("{zone} commit");
        for (there, back) in [("udp 1:7>2:53", "udp 2:53>1:7"), ("ping 1>2#7", "pong 2>1#7"), ("gre 1>2", "gre 2>1")] {
            assert_eq!(talk.ct(there, commit), "new|trk");
            assert_eq!(talk.ct(there, zone), "new|trk");
            assert!(talk.ct(back, zone).starts_with("est|rpl|trk orig"));
            assert_eq!(talk.ct(there, zone), "est|trk");
        }
    }
}

/// The main zone waits, the zone behind it does not care; the answer comes through both the other
/// way.
#[test]
fn a_translated_connection_in_two_zones_waits() {
    let mut talk = talk();
    talk.tracker.set_established_after_answer(5, true);
    let (main, outer) = ("commit dst=9:8080", "zone=5 commit src=7");
    talk.say(&[
        ("tcp 1:1000>2:80 S seq=100", main, "new|trk|dnat as 1:1000>9:8080"),
        ("tcp 1:1000>9:8080 S seq=100", outer, "new|trk|snat as 7:1000>9:8080"),
        ("tcp 1:1000>2:80 A seq=101 ack=1", "nat", "new|trk|dnat as 1:1000>9:8080"),
        ("tcp 1:1000>9:8080 A seq=101 ack=1", "zone=5 nat", "new|trk|snat as 7:1000>9:8080"),
        ("tcp 9:8080>7:1000 A seq=500 ack=101", "zone=5 nat", "new|trk|dnat orig 1:1000>9:8080 as 9:8080>1:1000"),
        ("tcp 9:8080>1:1000 A seq=500 ack=101", "nat", "new|trk|snat orig 1:1000>2:80 as 2:80>1:1000"),
        ("tcp 9:8080>7:1000 SA seq=500 ack=101", "zone=5 nat", "est|rpl|trk|dnat orig 1:1000>9:8080 as 9:8080>1:1000"),
        ("tcp 1:1000>2:80 A seq=101 ack=501", "nat", "new|trk|dnat as 1:1000>9:8080"),
        ("tcp 9:8080>1:1000 SA seq=500 ack=101", "nat", "est|rpl|trk|snat orig 1:1000>2:80 as 2:80>1:1000"),
        ("tcp 1:1000>2:80 A seq=101 ack=501", "nat", "est|trk|dnat as 1:1000>9:8080"),
    ]);
}

#[test]
fn the_option_holds_from_the_next_packet_on() {
    let mut talk = Talk::new(64);
    talk.say(&[("tcp 1:1000>2:80 S seq=100", "commit", "new|trk"), ("tcp 1:1000>2:80 A seq=101 ack=1", "", "est|trk")]);
    talk.tracker.set_established_after_answer(1, true);
    talk.say(&[("tcp 1:1000>2:80 A seq=101 ack=1", "", "new|trk")]);
    talk.tracker.set_established_after_answer(1, false);
    talk.say(&[("tcp 1:1000>2:80 A seq=101 ack=1", "", "est|trk")]);
}

/// What a packet between two ends is to be, by what is simple to say of it.
#[derive(Debug, Default)]
struct Reference {
    id: u64,
    by_syn: bool,
    answered: bool,
}

impl Reference {
    /// `id`: of the connection that there is behind the packet.
    fn check(&mut self, flags: u8, direction: Direction, verdict: &TrackVerdict, id: u64) -> Result<(), TestCaseError> {
        let opening = flags & (SYN | ACK) == SYN;
        let state = verdict.state & !state::TRK;
        if self.id != id {
            *self = Self { id, by_syn: opening, answered: false };
            prop_assert_eq!(state, state::NEW, "it opens");
        } else if state != state::INV {
            let answers = !opening && (!self.by_syn || flags & (SYN | RST) != 0);
            self.answered |= direction == Direction::Reply && answers;
            let expected = match direction {
                Direction::Original if self.answered => state::EST,
                Direction::Reply if self.answered => state::EST | state::RPL,
                _ => state::NEW,
            };
            // A SYN of an end that was not acknowledged yet is new, whatever else was seen.
            prop_assert!(state == expected || opening && state == state::NEW, "{:?}: {:?}", self, verdict);
        }
        Ok(())
    }
}

fn segments() -> impl Strategy<Value = Vec<(bool, u8, u32, u32, u32)>> {
    let flags = prop_oneof![
        4 => prop::sample::select(vec![SYN, SYN | ACK, ACK, ACK | PSH, FIN | ACK, RST, RST | ACK]),
        1 => any::<u8>(),
    ];
    // Near what the other end expects, or not.
    let number = || prop_oneof![8 => 0..3_u32, 1 => any::<u32>()];
    prop::collection::vec((any::<bool>(), flags, number(), number(), 0..4_u32), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Whatever two ends send: who was not answered is not established, and no link says so.
    #[test]
    fn verdicts_are_those_of_a_simple_reference(segments in segments()) {
        let talk = talk();
        let mut reference = Reference::default();
        let request = Request { zone: 1, commit: true, ..Request::default() };
        let mut links: [Option<(Link, u32)>; 2] = [None; 2];
        for (back, flags, seq, ack, payload) in segments {
            let segment = Segment { flags, seq, ack, window: 100, payload, scale: None };
            let text = if back { "tcp 2:80>1:1000 A" } else { "tcp 1:1000>2:80 A" };
            let packet = Seen { l4: L4::Tcp(segment), ..seen(text) };
            let plain = flags & (SYN | FIN | RST) == 0;
            let promised = links[usize::from(back)]
                .filter(|(link, _)| plain && talk.tracker.may_pass(&talk.tracker.owner(0), link, Some(&segment), talk.now));
            let (verdict, link) = talk.tracker.track_linked(&packet, &request, 0, talk.now);
            let Some(connection) = talk.connections().first().copied() else {
                prop_assert_eq!(verdict.state, state::INV | state::TRK);
                continue;
            };
            let from_opener = connection.original.src == packet.tuple.src;
            let direction = if from_opener { Direction::Original } else { Direction::Reply };
            reference.check(flags, direction, &verdict, connection.id)?;
            prop_assert_eq!(connection.replied, reference.answered);
            prop_assert!(link.is_none() || reference.answered, "a link of what was not answered");
            if let Some((_, state)) = promised {
                prop_assert_eq!(state, verdict.state, "the fast path says otherwise");
            }
            links[usize::from(back)] = link.map(|link| (link, verdict.state));
        }
    }

    /// Whenever the option is switched on: from then on nobody is established who was not answered,
    /// and no link was ever of such a one.
    #[test]
    fn who_is_established_was_answered_whenever_that_is_asked(
        segments in segments(),
        switches in prop::collection::vec(any::<bool>(), 60),
    ) {
        let talk = talk();
        let request = Request { zone: 1, commit: true, ..Request::default() };
        for ((back, flags, seq, ack, payload), on) in segments.into_iter().zip(switches) {
            talk.tracker.set_established_after_answer(1, on);
            let segment = Segment { flags, seq, ack, window: 100, payload, scale: None };
            let text = if back { "tcp 2:80>1:1000 A" } else { "tcp 1:1000>2:80 A" };
            let packet = Seen { l4: L4::Tcp(segment), ..seen(text) };
            let (verdict, link) = talk.tracker.track_linked(&packet, &request, 0, talk.now);
            let replied = talk.connections().iter().any(|connection| connection.replied);
            prop_assert!(replied || !on || verdict.state & state::EST == 0, "{verdict:?}");
            prop_assert!(replied || link.is_none());
        }
    }
}
