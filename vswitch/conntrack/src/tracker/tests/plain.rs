//! Connections that are not translated: states, commits, directions (facts a and b).

use super::talk::{Talk, request, seen};

#[test]
fn udp_is_new_until_it_was_answered() {
    let mut talk = Talk::new(64);
    talk.say(&[
        ("udp 1:1000>2:53", "", "new|trk"),
        ("udp 2:53>1:1000", "", "new|trk"),
        ("udp 1:1000>2:53", "commit", "new|trk"),
        ("udp 1:1000>2:53", "", "new|trk"),
        ("udp 1:1000>2:53", "commit", "new|trk"),
        ("udp 1:1000>2:53", "zone=2", "new|trk"),
        ("udp 2:53>1:1000", "", "est|rpl|trk orig 1:1000>2:53"),
        ("udp 1:1000>2:53", "", "est|trk"),
        ("udp 1:1000>2:53", "commit", "est|trk"),
    ]);
    assert_eq!(talk.dump(), ["udp 1:1000>2:53 2:53>1:1000 zone=1 timeout=30000"]);
    let connection = talk.connections()[0];
    assert_eq!((connection.packets, connection.bytes, connection.replied), ([5, 1], [500, 100], true));
}

#[test]
fn icmp_and_other_protocols_are_as_udp() {
    Talk::new(64).say(&[
        ("ping 1>2#7", "commit", "new|trk"),
        ("ping 1>2#7", "", "new|trk"),
        ("pong 2>1#8", "", "inv|trk"),
        ("ping 2>1#7", "", "new|trk"),
        ("pong 2>1#7", "", "est|rpl|trk orig 1>2#7"),
        ("ping 1>2#7", "", "est|trk"),
        ("icmp5 1>2#7", "commit", "inv|trk"),
        ("icmp17 1>2#7", "commit", "inv|trk"),
        ("icmp13 1>2#7", "commit", "new|trk"),
        ("icmp14 2>1#7", "", "est|rpl|trk orig 1>2#7"),
        ("v6 ping 1>2#7", "commit", "new|trk"),
        ("v6 pong 2>1#7", "commit", "est|rpl|trk orig 1>2#7"),
        ("v6 icmp135 1>2#0", "commit", "inv|trk"),
        ("gre 1>2", "commit", "new|trk"),
        ("gre 1>2", "", "new|trk"),
        ("gre 2>1", "", "est|rpl|trk orig 1>2"),
        ("sctp 1:5>2:6", "commit", "new|trk"),
        ("sctp 1:5>2:7", "", "new|trk"),
        ("sctp 2:6>1:5", "", "est|rpl|trk orig 1:5>2:6"),
        ("v6 udp 1:5>2:6", "", "new|trk"),
    ]);
}

#[test]
fn commits_merge_into_the_zones_own_entry() {
    Talk::new(64).say(&[
        ("udp 1:1>2:2", "commit mark=0x10 label=1", "new|trk mark=16 label=1"),
        ("udp 1:1>2:2", "commit mark=0xff02/0xf label=0x50000000f/0xf00000000", "new|trk mark=18 label=21474836481"),
        ("udp 1:1>2:2", "commit", "new|trk mark=18 label=21474836481"),
        ("udp 1:1>2:2", "mark=99", "new|trk mark=18 label=21474836481"),
        ("udp 2:2>1:1", "commit mark=7", "est|rpl|trk mark=7 label=21474836481 orig 1:1>2:2"),
        ("udp 1:1>2:2", "", "est|trk mark=7 label=21474836481"),
        ("udp 1:1>2:2", "zone=2 commit mark=1/1", "new|trk mark=1"),
        ("udp 1:1>2:2", "zone=1", "est|trk mark=7 label=21474836481"),
    ]);
}

#[test]
fn force_begins_anew_from_the_other_direction_only() {
    let mut talk = Talk::new(64);
    talk.say(&[
        ("udp 1:1>2:2", "commit mark=5", "new|trk mark=5"),
        ("udp 2:2>1:1", "", "est|rpl|trk mark=5 orig 1:1>2:2"),
        ("udp 1:1>2:2", "commit force", "est|trk mark=5"),
        ("udp 2:2>1:1", "force", "est|rpl|trk mark=5 orig 1:1>2:2"),
        ("udp 2:2>1:1", "commit force", "new|trk"),
        ("udp 1:1>2:2", "", "est|rpl|trk orig 2:2>1:1"),
    ]);
    assert_eq!(talk.dump(), ["udp 2:2>1:1 1:1>2:2 zone=1 timeout=30000"]);
    assert_eq!((talk.tracker.counts().connections, talk.tracker.counts().replaced), (1, 1));
}

#[test]
fn a_commit_says_what_it_was_the_first_to_do() {
    let talk = Talk::new(64);
    // Opened it, gave it another label.
    let told = |packet: &str, words: &str| {
        let verdict = talk.tracker.track(&seen(packet), &request(words), 0, talk.now);
        (verdict.opened, verdict.labelled)
    };
    for (packet, words, want) in [
        ("udp 1:1>2:2", "", (false, false)),
        ("udp 1:1>2:2", "commit label=5", (true, false)),
        ("udp 1:1>2:2", "commit label=5", (false, false)),
        ("udp 1:1>2:2", "commit mark=5", (false, false)),
        ("udp 1:1>2:2", "commit label=5/0xff", (false, false)),
        ("udp 1:1>2:2", "label=6", (false, false)),
        ("udp 1:1>2:2", "commit label=6", (false, true)),
        ("udp 2:2>1:1", "commit label=0x60/0xf0", (false, true)),
        ("udp 1:1>2:2", "commit", (false, false)),
        ("udp 2:2>1:1", "commit force", (true, false)),
        ("udp 1:1>2:2", "zone=2 commit", (true, false)),
    ] {
        assert_eq!(told(packet, words), want, "{packet} meets ct({words})");
    }
}

#[test]
fn who_talks_to_himself_has_one_direction() {
    let mut talk = Talk::new(64);
    talk.say(&[
        ("udp 1:1>1:1", "commit", "new|trk"),
        ("udp 1:1>1:1", "commit", "new|trk"),
        ("gre 1>1", "commit", "new|trk"),
        ("gre 1>1", "", "new|trk"),
    ]);
    talk.tracker.flush(&crate::Filter::default(), talk.now);
    assert_eq!(talk.tracker.counts().connections, 0);
    talk.say(&[("udp 1:1>1:1", "commit", "new|trk")]);
}

#[test]
fn an_error_is_related_to_the_connection_that_it_quotes() {
    Talk::new(64).say(&[
        ("error 9>1 about udp 1:1>2:2", "", "inv|trk"),
        ("udp 1:1>2:2", "commit mark=5", "new|trk mark=5"),
        ("error 9>1 about udp 1:1>2:2", "", "rel|rpl|trk mark=5"),
        ("error 9>1 about udp 1:1>2:3", "", "inv|trk"),
        ("error 9>3 about udp 1:1>2:2", "", "inv|trk"),
        ("error 9>1 about udp 1:1>2:2", "zone=2", "inv|trk"),
        ("error 9>1 about udp 1:1>2:2", "commit mark=0x60/0xf0 label=3", "rel|rpl|trk mark=101 label=3"),
        ("error 1>2 about udp 2:2>1:1", "", "rel|trk mark=101 label=3 orig 1:1>2:2"),
        ("udp 1:1>2:2", "", "new|trk mark=101 label=3"),
        ("ping 1>2#7", "commit", "new|trk"),
        ("error 9>1 about ping 1>2#7", "", "rel|rpl|trk"),
        ("error 9>1 about ping 1>2#8", "", "inv|trk"),
        ("v6 ping 1>2#7", "commit", "new|trk"),
        ("error 9>1 about v6 ping 1>2#7", "", "rel|rpl|trk"),
    ]);
}
