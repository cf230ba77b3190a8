//! Connections that others announce.

use super::talk::{Talk, tuple};
use crate::{Direction, End, Expected, Filter, Helper, L4, Nat, NatSide, Request, Seen, Tuple, tcp};

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
fn data_of_ipv6_is_as_the_master_was_and_leaves_nothing_at_its_place() {
    let mut talk = Talk::new(2);
    for _ in 0..3 {
        talk.say(&[
            ("v6 udp 1:1000>2:69", "commit tftp src=77:5000 mark=5", "new|trk|snat mark=5 as 77:5000>2:69"),
            ("v6 udp 2:3333>77:5000", "commit nat", "new|rel|trk|dnat mark=5 orig 1:1000>2:69 as 2:3333>1:1000"),
            ("v6 udp 1:1000>2:3333", "nat", "est|rel|rpl|trk|snat mark=5 orig 1:1000>2:69 as 77:5000>2:3333"),
        ]);
        talk.tracker.flush(&Filter::default(), talk.now);
        talk.say(&[("udp 1:1>2:2", "commit", "new|trk"), ("v6 udp 1:1>2:2", "commit", "new|trk")]);
        assert!(talk.connections().iter().all(|connection| connection.master.is_none()));
        talk.tracker.flush(&Filter::default(), talk.now);
        talk.now += 30_000;
    }
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

#[test]
fn a_control_connection_counts_what_its_sender_sent() {
    let talk = Talk::new(64);
    let (client, server) = (tuple("tcp 1:1000>2:21"), tuple("tcp 2:21>77:1000"));
    let at = |tuple: Tuple, flags, seq, ack, payload| {
        let segment = tcp::Segment { flags, seq, ack, window: 8192, payload, scale: None };
        Seen { tuple: Tuple { zone: 1, ..tuple }, l4: L4::Tcp(segment), len: 60, ..Seen::default() }
    };
    let hide = Nat { side: Some(NatSide::Src), addresses: Some((77, 77)), ..Nat::default() };
    let commit = Request { zone: 1, commit: true, nat: Some(hide), helper: Some(Helper::Ftp), ..Request::default() };
    let nat = Request { zone: 1, nat: Some(Nat::default()), ..Request::default() };
    let say = |seen: &Seen, request: &Request| talk.tracker.track(seen, request, 0, talk.now);
    assert!(!say(&at(client, 2, 999, 0, 0), &commit).controls, "the first packet");
    assert!(say(&at(server, 0x12, 4999, 1000, 0), &nat).controls);
    let port = at(client, 0x18, 1000, 5000, 20);
    assert!(say(&port, &nat).controls);
    let control = talk.tracker.control(&port, 0, talk.now).unwrap();
    assert_eq!(
        (control.direction, control.side, control.seq, control.ack),
        (Direction::Original, Some(NatSide::Src), 0, 0)
    );
    assert_eq!(control.tuples, [client, server].map(|tuple| Tuple { zone: 1, ..tuple }));
    for _ in 0..2 {
        talk.tracker.grown(&port.tuple, 1000, 7, talk.now);
    }
    let numbers = |seen: &Seen| talk.tracker.control(seen, 0, talk.now).map(|control| (control.seq, control.ack));
    assert_eq!(numbers(&port), Some((0, 0)), "sent again");
    assert_eq!(numbers(&at(client, 0x18, 1020, 5000, 6)), Some((7, 0)));
    let answer = at(server, 0x10, 5000, 1027, 0);
    assert_eq!(numbers(&answer), Some((0, 7_u32.wrapping_neg())));
    say(&answer, &nat);
    let tcp = talk.connections()[0].tcp.unwrap();
    assert_eq!(tcp.peers[0].seq_lo, 1020, "as the client counts: {tcp:?}");
    talk.tracker.flush(&Filter::default(), talk.now);
    assert_eq!(numbers(&port), None, "gone");
}

#[test]
fn an_end_without_a_port_keeps_its_own() {
    let mut talk = Talk::new(64);
    let master = Tuple { zone: 1, ..tuple("tcp 1:1000>2:21") };
    talk.say(&[("tcp 1:1000>2:21 S", "commit", "new|trk")]);
    let translate = Some((NatSide::Src, End { addr: 77, port: 0 }));
    let tuple = Tuple { zone: 1, ..tuple("tcp 1:0>2:4000") };
    assert!(talk.tracker.expect(&master, &Expected { tuple, any_src: false, translate }, talk.now));
    talk.say(&[("tcp 1:3003>2:4000 S", "commit nat", "new|rel|trk|snat orig 1:1000>2:21 as 77:3003>2:4000")]);
}
