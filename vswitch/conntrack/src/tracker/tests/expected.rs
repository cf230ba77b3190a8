//! Connections that others announce.

use super::talk::{Talk, tuple};
use crate::{End, Expected, Filter, NatSide, Tuple};

#[test]
fn a_tftp_server_answers_from_any_port() {
    let mut talk = Talk::new(64);
    talk.say(&[
        ("udp 2:3333>1:1000", "", "new|trk"),
        ("udp 1:1000>2:69", "commit tftp mark=5 label=6", "new|trk mark=5 label=6"),
        ("udp 2:3333>1:1000", "", "new|rel|trk mark=5 label=6 orig 1:1000>2:69"),
        ("udp 2:3333>1:1001", "", "new|trk"),
        ("udp 2:3333>1:1000", "zone=2", "new|trk"),
        ("udp 2:3333>1:1000", "commit mark=9", "new|rel|trk mark=5 label=6 orig 1:1000>2:69"),
        ("udp 1:1000>2:3333", "commit mark=9", "est|rel|rpl|trk mark=5 label=6 orig 1:1000>2:69"),
        ("udp 2:3333>1:1000", "", "est|rel|trk mark=5 label=6 orig 1:1000>2:69"),
    ]);
    let master = Tuple { zone: 1, ..tuple("udp 1:1000>2:69") };
    assert_eq!(talk.connections()[1].master, Some(master));
    talk.now += 30_000;
    talk.say(&[
        ("udp 2:4444>1:1000", "", "new|trk"),
        ("udp 1:1000>2:69", "", "new|trk mark=5 label=6"),
        ("udp 2:4444>1:1000", "", "new|rel|trk mark=5 label=6 orig 1:1000>2:69"),
    ]);
    talk.tracker.flush(&Filter::default(), talk.now);
    talk.say(&[("udp 2:4444>1:1000", "", "new|trk")]);
}

#[test]
fn data_is_translated_as_the_master_was() {
    Talk::new(64).say(&[
        ("udp 1:1000>2:69", "commit tftp src=77:5000", "new|trk|snat as 77:5000>2:69"),
        ("udp 2:3333>77:5000", "commit nat", "new|rel|trk|dnat orig 1:1000>2:69 as 2:3333>1:1000"),
        ("udp 1:1000>2:3333", "nat", "est|rel|rpl|trk|snat orig 1:1000>2:69 as 77:5000>2:3333"),
        ("udp 2:3333>77:5000", "nat", "est|rel|trk|dnat orig 1:1000>2:69 as 2:3333>1:1000"),
    ]);
}

#[test]
fn helpers_announce_what_they_read() {
    let mut talk = Talk::new(64);
    let master = Tuple { zone: 1, ..tuple("tcp 1:1000>2:21") };
    let data = Tuple { zone: 1, ..tuple("tcp 2:20>1:4000") };
    let expected = Expected { tuple: data, any_src: false, translate: None };
    assert!(!talk.tracker.expect(&master, &expected, talk.now), "expected by nobody");
    talk.say(&[("tcp 1:1000>2:21 S", "commit mark=5", "new|trk mark=5")]);
    assert!(talk.tracker.expect(&master.reversed(), &expected, talk.now));
    talk.say(&[
        ("tcp 3:20>1:4000 S", "", "new|trk"),
        ("tcp 2:20>1:4000 SA", "", "inv|trk"),
        ("tcp 2:99>1:4000 S", "commit src=7", "new|rel|trk mark=5 orig 1:1000>2:21"),
    ]);
    let hidden = Expected { translate: Some((NatSide::Dst, End { addr: 8, port: 80 })), ..expected };
    assert!(talk.tracker.expect(&master, &hidden, talk.now));
    talk.say(&[("tcp 2:98>1:4000 S", "commit nat", "new|rel|trk|dnat mark=5 orig 1:1000>2:21 as 2:98>8:80")]);
}

#[test]
fn expectations_have_a_limit_and_an_end() {
    let mut talk = Talk::new(64);
    talk.say(&[("udp 1:1000>2:69", "commit", "new|trk")]);
    let master = Tuple { zone: 1, ..tuple("udp 1:1000>2:69") };
    let expect = |talk: &Talk, port: u16| {
        let tuple = Tuple { dst: End { addr: 1, port }, ..master };
        talk.tracker.expect(&master, &Expected { tuple, any_src: true, translate: None }, talk.now)
    };
    let taken = (0..5000).filter(|&port| expect(&talk, port)).count();
    assert_eq!(taken, 4096);
    assert!(expect(&talk, 7), "the same one again");
    talk.now += 30_000;
    assert!(expect(&talk, 4999), "when the others have expired");
}
