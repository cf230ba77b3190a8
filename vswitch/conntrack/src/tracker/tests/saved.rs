//! Tables as files: what is written is read, and what is not what was written leaves an empty
//! table.

use super::talk::{Talk, tuple};
use crate::{
    Checksum, Class, Config, Connection, Control, Direction, Expected, Filter, Helper, L4, Moment, Policy, Request,
    RestoreError, Restored, Seen, Tracker, Tuple, tcp,
};
use proptest::prelude::*;

/// When a table is written.
pub(super) const WRITTEN: Moment =
    Moment { unix_ms: 1_700_000_000_000, boot: 0x5eed_0000_0000_0000_0000_0000_0000_b007, boot_ms: 3_600_000 };

/// So many milliseconds later, without a boot in between.
fn later(ms: u64) -> Moment {
    Moment { unix_ms: WRITTEN.unix_ms.saturating_add(ms), boot_ms: WRITTEN.boot_ms + ms, ..WRITTEN }
}

/// Bytes of a file's head.
const HEAD: usize = 48;

impl Talk {
    pub(super) fn saved(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let saved = self.tracker.save(self.now, &WRITTEN, &mut bytes).unwrap();
        assert_eq!((saved.bytes, saved.connections), (bytes.len() as u64, self.connections().len() as u64));
        bytes
    }

    /// A table of a process whose clock has just begun, so long after the other one was written.
    pub(super) fn again(bytes: &[u8], connections_max: usize, after: u64) -> (Self, Restored) {
        let mut talk = Self::new(connections_max);
        talk.now = 5;
        let restored = talk.tracker.restore(talk.now, &later(after), bytes);
        (talk, restored.unwrap_or_else(|error| panic!("{error}")))
    }

    /// As they are shown, but for what is this table's own.
    pub(super) fn shown(&self) -> Vec<Connection> {
        let own = |c: Connection| Connection { id: 0, start_ms: c.age_ms(self.now), ..c };
        self.connections().into_iter().map(own).collect()
    }
}

/// Each kind of connection that there is.
pub(super) fn all_kinds() -> Talk {
    let mut talk = Talk::new(64);
    talk.tracker.set_established_after_answer(7, true);
    talk.say(&[
        (
            "udp 1:1000>2:53",
            "commit mark=5 label=0x123456789abcdef0123456789abcdef",
            "new|trk mark=5 label=1512366075204170929049582354406559215",
        ),
        ("udp 2:53>1:1000", "", "est|rpl|trk mark=5 label=1512366075204170929049582354406559215 orig 1:1000>2:53"),
        ("tcp 1:1000>2:80 S seq=100", "zone=2 commit src=9:5000-5000", "new|trk|snat as 9:5000>2:80"),
        ("tcp 2:80>9:5000 SA seq=500 ack=101", "zone=2 nat", "est|rpl|trk|dnat orig 1:1000>2:80 as 2:80>1:1000"),
        ("tcp 1:1000>2:80 A seq=101 ack=501", "zone=2 nat", "est|trk|snat as 9:5000>2:80"),
        ("v6 tcp 1:1000>2:80 S seq=7", "zone=3 commit dst=8:8080", "new|trk|dnat as 1:1000>8:8080"),
        ("v6 ping 1>2#7", "commit", "new|trk"),
        ("ping 1>2#9", "commit", "new|trk"),
        ("gre 1>2", "commit", "new|trk"),
        ("udp 1:1>1:1", "commit", "new|trk"),
        ("v6 udp 1:1000>2:69", "commit tftp src=77:5000 mark=5", "new|trk|snat mark=5 as 77:5000>2:69"),
        ("v6 udp 2:3333>77:5000", "commit nat", "new|rel|trk|dnat mark=5 orig 1:1000>2:69 as 2:3333>1:1000"),
        ("tcp 1:1000>2:80 S seq=100", "zone=7 commit", "new|trk"),
    ]);
    talk
}

#[test]
fn what_is_written_is_read() {
    let talk = all_kinds();
    for connections_max in [10, 64, 5000] {
        let (other, restored) = Talk::again(&talk.saved(), connections_max, 0);
        assert_eq!((restored.connections, restored.expired, restored.expected), (10, 0, 1));
        assert_eq!(other.shown(), talk.shown());
        assert_eq!(other.tracker.counts().connections, 10);
        let zones = |talk: &Talk| talk.tracker.limits().1;
        assert_eq!(zones(&other), zones(&talk), "how many each zone has");
        assert_eq!(other.tracker.zones_established_after_answer(), [7]);
        assert_eq!(other.saved()[HEAD..], Talk::again(&other.saved(), 64, 0).0.saved()[HEAD..], "again");
    }
}

/// Every connection goes on as if nothing had been.
#[test]
fn what_is_read_goes_on() {
    let bytes = all_kinds().saved();
    let (mut talk, _) = Talk::again(&bytes, 64, 0);
    talk.say(&[
        ("tcp 2:80>9:5000 PA seq=501 ack=101 len=10", "zone=2 nat", "est|rpl|trk|dnat orig 1:1000>2:80 as 2:80>1:1000"),
        ("tcp 1:1000>2:80 A seq=101 ack=511", "zone=2 nat", "est|trk|snat as 9:5000>2:80"),
        ("tcp 1:1000>2:80 PA seq=900101 ack=511 len=9", "zone=2 nat", "inv|trk|snat as 9:5000>2:80"),
        ("v6 tcp 8:8080>1:1000 SA seq=4 ack=8", "zone=3 nat", "est|rpl|trk|snat orig 1:1000>2:80 as 2:80>1:1000"),
        ("v6 udp 1:1000>2:3333", "nat", "est|rel|rpl|trk|snat mark=5 orig 1:1000>2:69 as 77:5000>2:3333"),
        ("v6 udp 2:4444>77:5000", "commit nat", "new|rel|trk|dnat mark=5 orig 1:1000>2:69 as 2:4444>1:1000"),
        ("tcp 2:80>1:1000 A seq=1 ack=101", "zone=7", "new|trk orig 1:1000>2:80"),
        ("tcp 1:1000>2:80 A seq=101 ack=1", "zone=7", "new|trk"),
        ("tcp 2:80>1:1000 SA seq=1 ack=101", "zone=7", "est|rpl|trk orig 1:1000>2:80"),
        ("pong 2>1#9", "", "est|rpl|trk orig 1>2#9"),
    ]);
    talk.tracker.flush(&Filter::default(), talk.now);
    assert_eq!((talk.tracker.counts().connections, talk.tracker.limits().1.len()), (0, 0), "nothing is left");
}

/// A translated tuple is taken, as it was.
#[test]
fn ports_of_translated_connections_stay_theirs() {
    let (mut talk, _) = Talk::again(&all_kinds().saved(), 64, 0);
    talk.say(&[
        ("tcp 3:1000>2:80 S", "zone=2 commit src=9:5000-5000", "refused NatExhausted"),
        ("tcp 3:1000>2:80 S", "zone=2 commit src=9:5000-5001", "new|trk|snat as 9:5001>2:80"),
        ("tcp 9:5000>2:80 S", "zone=2 commit", "new|trk|snat as 9:5002>2:80"),
    ]);
}

#[test]
fn time_goes_on_and_never_back() {
    let mut talk = all_kinds();
    talk.now += 1000;
    let before = talk.shown();
    let bytes = talk.saved();
    let (other, restored) = Talk::again(&bytes, 64, 29_500);
    assert_eq!(restored.elapsed_ms, 29_500);
    let left: Vec<_> = before.iter().filter(|c| c.timeout_ms > 29_500).copied().collect();
    assert!(left.len() < before.len() && !left.is_empty());
    assert_eq!(restored.expired, (before.len() - left.len()) as u64);
    let later = |c: Connection| Connection { timeout_ms: c.timeout_ms - 29_500, start_ms: c.start_ms + 29_500, ..c };
    assert_eq!(other.shown(), left.into_iter().map(later).collect::<Vec<_>>());
    // A clock that was put forward or back by a day: as if nothing had been.
    for unix_ms in [WRITTEN.unix_ms - 86_400_000, WRITTEN.unix_ms + 86_400_000] {
        let mut stepped = Talk::new(64);
        stepped.now = 0;
        stepped.tracker.restore(0, &Moment { unix_ms, ..WRITTEN }, &bytes[..]).unwrap();
        assert_eq!(stepped.shown(), before);
    }
    // Whoever stops often does not live longer.
    let (other, _) = Talk::again(&Talk::again(&bytes, 64, 10_000).0.saved(), 64, 10_000);
    assert_eq!(other.shown()[0].timeout_ms + 20_000, before[0].timeout_ms);
    let (other, restored) = Talk::again(&bytes, 64, u64::MAX / 4);
    assert_eq!((other.connections().len(), restored.expired), (0, 10));
}

#[test]
fn limits_of_zones_do_not_count() {
    let bytes = all_kinds().saved();
    let talk = Talk::new(64);
    talk.tracker.set_default_limit(Some(1));
    assert_eq!(talk.tracker.restore(0, &WRITTEN, &bytes[..]).unwrap().connections, 10);
}

/// FTP's control connection, whose text became longer.
#[test]
fn what_was_added_to_a_payload_is_remembered() {
    let talk = Talk::new(8);
    let seen = |tuple: Tuple, flags, seq, ack| {
        let segment = tcp::Segment { flags, seq, ack, window: 65535, ..tcp::Segment::default() };
        Seen { tuple: Tuple { zone: 1, ..tuple }, l4: L4::Tcp(segment), len: 60, ..Seen::default() }
    };
    let (there, back) = (tuple("tcp 1:1000>2:21"), tuple("tcp 2:21>1:1000"));
    let request = Request { zone: 1, commit: true, helper: Some(Helper::Ftp), ..Request::default() };
    for seen in [seen(there, tcp::flag::SYN, 100, 0), seen(back, 0x12, 500, 101), seen(there, 0x10, 101, 501)] {
        talk.tracker.track(&seen, &request, 0, talk.now);
    }
    talk.tracker.grown(&Tuple { zone: 1, ..there }, 101, 7, talk.now);
    let control = |talk: &Talk| {
        let told = talk.tracker.control(&seen(there, 0x10, 200, 501), 0, talk.now);
        told.map(|Control { direction, seq, ack, .. }| (direction, seq, ack))
    };
    assert_eq!(control(&talk), Some((Direction::Original, 7, 0)));
    let (other, _) = Talk::again(&talk.saved(), 8, 1);
    assert_eq!(control(&other), control(&talk));
    talk.tracker.flush(&Filter::default(), talk.now);
}

fn restore(bytes: &[u8], connections_max: usize) -> (Tracker, Result<Restored, RestoreError>) {
    let tracker = Tracker::new(Config { connections_max });
    let restored = tracker.restore(9, &WRITTEN, bytes);
    (tracker, restored)
}

/// Nothing is there, and the table works.
#[track_caller]
fn is_empty(tracker: Tracker) {
    assert_eq!((tracker.counts().connections, tracker.limits().1), (0, vec![]));
    assert_eq!(tracker.zones_established_after_answer(), []);
    let mut talk = Talk { tracker, now: 10 };
    assert!(talk.connections().is_empty());
    talk.say(&[
        ("v6 udp 2:4444>77:5000", "commit nat", "new|trk"),
        ("tcp 1:1000>2:80 S seq=100", "zone=2 commit src=9:5000-5000", "new|trk|snat as 9:5000>2:80"),
    ]);
}

#[test]
fn a_file_that_was_cut_anywhere_leaves_an_empty_table() {
    let bytes = all_kinds().saved();
    let tracker = Tracker::new(Config { connections_max: 64 });
    let nothing = |bytes: &[u8]| {
        let restored = tracker.restore(9, &WRITTEN, bytes);
        assert_eq!(tracker.counts().connections, 0);
        restored.expect_err("it is not what was written")
    };
    for len in 0..bytes.len() {
        let error = nothing(&bytes[..len]);
        assert!(matches!(error, RestoreError::Truncated), "{len} bytes: {error}");
    }
    let error = nothing(&[&bytes[..], &[0]].concat());
    assert!(matches!(error, RestoreError::Trailing), "{error}");
    is_empty(tracker);
}

#[test]
fn a_file_with_a_bit_turned_leaves_an_empty_table() {
    let bytes = all_kinds().saved();
    let tracker = Tracker::new(Config { connections_max: 64 });
    for bit in 0..bytes.len() * 8 {
        let mut other = bytes.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(tracker.restore(9, &WRITTEN, &other[..]).is_err(), "bit {bit}");
        assert_eq!(tracker.counts().connections, 0, "bit {bit}");
    }
    is_empty(tracker);
}

#[test]
fn what_is_wrong_is_said() {
    let bytes = all_kinds().saved();
    let with = |at: usize, word: u64| [&bytes[..at], &word.to_le_bytes(), &bytes[at + 8..]].concat();
    let said = |bytes: &[u8], room: usize| {
        let (tracker, restored) = restore(bytes, room);
        is_empty(tracker);
        restored.unwrap_err().to_string()
    };
    assert_eq!(said(&with(0, 7), 64), "it is no file of connections");
    assert_eq!(said(&with(8, 4), 64), "it has format 4, and this is a switch of format 3");
    assert_eq!(said(&with(16, 7), 64), "its checksum is wrong: it was changed after it was written");
    assert_eq!(said(&with(HEAD, 9), 64), "record 0: its kind is not known");
    assert!(said(&bytes, 9).contains("has more connections than this table has room for, 9"));
    let talk = all_kinds();
    assert!(matches!(talk.tracker.restore(0, &WRITTEN, &bytes[..]), Err(RestoreError::NotEmpty)));
    assert_eq!(talk.connections().len(), 10, "those are as they were");
}

/// The same connection twice, with a checksum that is right.
#[test]
fn a_tuple_is_somebodys_alone() {
    let mut talk = Talk::new(8);
    talk.say(&[("udp 1:1000>2:53", "commit", "new|trk")]);
    let bytes = talk.saved();
    let (head, record) = (&bytes[..HEAD], &bytes[HEAD..bytes.len() - 32]);
    let twice = sealed(&[head, record, record, &words(&[0, 2, 0])].concat());
    let (tracker, restored) = restore(&twice, 64);
    assert_eq!(restored.unwrap_err().to_string(), "record 1: another connection has its tuple");
    is_empty(tracker);
    let (tracker, restored) = restore(&sealed(&[head, record, &words(&[0, 2, 0])].concat()), 64);
    assert_eq!(restored.unwrap_err().to_string(), "record 1: there are more or fewer records than it says");
    is_empty(tracker);
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// With its checksum.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut checksum = Checksum::default();
    bytes.as_chunks().0.iter().for_each(|word| checksum.add(u64::from_le_bytes(*word)));
    [bytes, &checksum.value().to_le_bytes()].concat()
}

/// Who writes the file may write its checksum: what is let through is a table as any other, and all
/// others leave an empty one.
fn hostile(changes: &[(prop::sample::Index, u64)], cut: Option<prop::sample::Index>) {
    let bytes = all_kinds().saved();
    let body = &bytes[..bytes.len() - 8];
    let mut all: Vec<u64> = body.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    for (at, flip) in changes {
        let at = 2 + at.index(all.len() - 2);
        all[at] ^= flip;
    }
    if let Some(cut) = cut {
        let at = cut.index(all.len());
        all.remove(at);
    }
    let (tracker, restored) = restore(&sealed(&words(&all)), 64);
    match restored {
        Err(_) => is_empty(tracker),
        Ok(restored) => {
            let mut talk = Talk { tracker, now: 9 };
            let there = talk.connections();
            assert_eq!(there.len() as u64, restored.connections);
            let zones: u32 = talk.tracker.limits().1.iter().map(|zone| zone.count).sum();
            assert_eq!(u64::from(zones), restored.connections);
            for connection in &there {
                for (tuple, of) in [(connection.original, Direction::Original), (connection.reply, Direction::Reply)] {
                    let segment = tcp::Segment { flags: 0x10, seq: 101, ack: 501, window: 9, ..Default::default() };
                    let l4 = match tuple.protocol {
                        6 => L4::Tcp(segment),
                        17 => L4::Udp,
                        _ if tuple.is_icmp() => L4::Icmp,
                        _ => L4::Other,
                    };
                    let request = Request { zone: tuple.zone, nat: Some(crate::Nat::default()), ..Request::default() };
                    let seen = Seen { tuple, l4, len: 60, ..Seen::default() };
                    let (verdict, link) = talk.tracker.track_linked(&seen, &request, 0, talk.now);
                    assert!(verdict.known || verdict.state & crate::state::INV != 0, "{of:?} of {connection:?}");
                    if let Some(link) = link {
                        let owner = talk.tracker.owner(0);
                        let _ = talk.tracker.pass(&owner, &link, link.is_tcp().then_some(&segment), 60, talk.now);
                    }
                }
            }
            talk.now = u64::MAX;
            for _ in 0..500 {
                talk.tracker.expire(talk.now);
            }
            assert_eq!(talk.tracker.counts().connections, 0, "all of it goes when its time is over");
        }
    }
}

proptest! {
    #[test]
    fn a_hostile_file_is_refused_or_harmless(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), flip()), 1..4),
        cut: Option<prop::sample::Index>,
    ) {
        hostile(&changes, cut.filter(|at| at.index(4) == 0));
    }
}

/// A bit, a few, or any.
fn flip() -> impl Strategy<Value = u64> {
    prop_oneof![(0..64_u32).prop_map(|bit| 1 << bit), any::<u64>(), (0..256_u64), any::<u32>().prop_map(u64::from)]
}

/// Tables that were full of what happens by chance.
#[test]
fn many_connections_are_read_as_they_were() {
    let mut talk = Talk::new(3000);
    let mut policy = Policy::default();
    policy.set(Class::UdpFirst, 12_345);
    talk.tracker.set_policy(3, Some(policy));
    for number in 0..2900_u32 {
        let (client, zone, family) = (number % 977, number % 5, if number % 3 == 0 { "v6 " } else { "" });
        let nat = ["", " src=70000:1024-65535", " dst=9:99"]
            .into_iter()
            .cycle()
            .nth((number % 3) as usize)
            .unwrap_or_default();
        let port = 1000 + number / 5;
        let packet = format!("{family}udp {client}:{port}>2:53");
        talk.ct(&packet, &format!("zone={zone} commit mark={number}{nat}"));
        if number % 2 == 0 {
            talk.ct(&format!("{family}udp 2:53>{client}:{port}"), &format!("zone={zone}"));
        }
        talk.now += u64::from(number % 3);
    }
    let before = talk.shown();
    assert!(before.len() > 2500, "{}", before.len());
    let (other, restored) = Talk::again(&talk.saved(), 2900, 0);
    assert_eq!(restored.connections, before.len() as u64);
    assert_eq!(other.shown(), before);
    let expected = Expected { tuple: tuple("tcp 1:1>2:2"), any_src: false, translate: None };
    assert!(!other.tracker.expect(&tuple("tcp 1:1>2:2"), &expected, 0), "of nobody");
}

/// What a node has at most: how long it takes, and how large the file is, is printed.
#[test]
fn a_million_connections_are_read_as_they_were() {
    const MILLION: u32 = 1_000_000;
    let talk = Talk::new(MILLION as usize);
    let request = Request { zone: 1, commit: true, label: (77, u128::MAX), ..Request::default() };
    for number in 0..MILLION {
        let end = |addr: u32, port| crate::End { addr: addr.into(), port };
        let src = end(0x0a00_0000 | number >> 4, 1024 + u16::try_from(number & 0xf).unwrap());
        let tuple = Tuple { src, dst: end(2, 80), protocol: 6, ..Tuple::default() };
        let segment = tcp::Segment { flags: tcp::flag::SYN, window: 65535, ..tcp::Segment::default() };
        let verdict = talk.tracker.track(
            &Seen { tuple, l4: L4::Tcp(segment), len: 60, ..Seen::default() },
            &request,
            0,
            talk.now,
        );
        assert!(verdict.opened, "{number}");
    }
    let begin = std::time::Instant::now();
    let mut bytes = Vec::new();
    let saved = talk.tracker.save(talk.now, &WRITTEN, &mut bytes).unwrap();
    let written = begin.elapsed();
    let other = Tracker::new(Config { connections_max: MILLION as usize });
    let begin = std::time::Instant::now();
    let restored = other.restore(5, &WRITTEN, &bytes[..]).unwrap();
    println!("{saved:?} written in {written:?}, read in {:?}", begin.elapsed());
    assert_eq!((saved.connections, restored.connections), (MILLION.into(), MILLION.into()));
    assert_eq!(bytes.len(), 128 * MILLION as usize + 80);
    assert_eq!(other.counts().connections, u64::from(MILLION));
}
