//! TCP connections in the table; the states of one are tested where they are.

use super::talk::Talk;

#[test]
fn a_handshake_and_its_end() {
    let mut talk = Talk::new(64);
    talk.say(&[
        ("tcp 1:1000>2:80 SA", "commit", "inv|trk"),
        ("tcp 1:1000>2:80 F", "commit", "inv|trk"),
        ("tcp 1:1000>2:80 S seq=100", "commit", "new|trk"),
        ("tcp 1:1000>2:80 S seq=100", "", "new|trk"),
        ("tcp 2:80>1:1000 SA seq=500 ack=101", "", "est|rpl|trk orig 1:1000>2:80"),
        ("tcp 1:1000>2:80 A seq=101 ack=501", "", "est|trk"),
    ]);
    assert_eq!(talk.dump(), ["tcp 1:1000>2:80 2:80>1:1000 zone=1 timeout=86400000"]);
    talk.say(&[
        ("tcp 1:1000>2:80 FA seq=101 ack=501", "", "est|trk"),
        ("tcp 2:80>1:1000 FA seq=501 ack=102", "", "est|rpl|trk orig 1:1000>2:80"),
        ("tcp 1:1000>2:80 A seq=102 ack=502", "", "est|trk"),
    ]);
    assert_eq!(talk.dump(), ["tcp 1:1000>2:80 2:80>1:1000 zone=1 timeout=30000"]);
}

#[test]
fn the_opener_is_established_by_his_second_segment_that_is_no_syn() {
    Talk::new(64).say(&[
        ("tcp 1:1000>2:80 A seq=100 ack=5", "commit", "new|trk"),
        ("tcp 1:1000>2:80 A seq=100 ack=5", "", "est|trk"),
        ("tcp 2:80>1:1000 A seq=5 ack=100", "", "est|rpl|trk orig 1:1000>2:80"),
    ]);
}

#[test]
fn both_may_open_at_once() {
    Talk::new(64).say(&[
        ("tcp 1:1000>2:80 S seq=100", "commit", "new|trk"),
        ("tcp 2:80>1:1000 S seq=500", "", "new|trk orig 1:1000>2:80"),
        ("tcp 1:1000>2:80 SA seq=100 ack=501", "", "est|trk"),
        ("tcp 2:80>1:1000 SA seq=500 ack=101", "", "est|rpl|trk orig 1:1000>2:80"),
    ]);
}

/// Observed on Open vSwitch 3.1: what is invalid in a connection is translated, shows its mark, and
/// a commit writes it.
#[test]
fn what_is_invalid_in_a_connection_changes_no_state() {
    let mut talk = Talk::new(64);
    talk.say(&[
        ("tcp 1:1000>2:80 S seq=100 win=1000", "commit mark=5 src=7", "new|trk|snat mark=5 as 7:1000>2:80"),
        ("tcp 2:80>7:1000 SA seq=500 ack=101 win=1000", "", "est|rpl|trk mark=5 orig 1:1000>2:80"),
        ("tcp 1:1000>2:80 A seq=101 ack=501 win=1000", "", "est|trk mark=5"),
        ("tcp 1:1000>2:80 PA seq=900000 ack=501 len=10", "", "inv|trk mark=5"),
        ("tcp 1:1000>2:80 PA seq=900000 ack=501 len=10", "nat", "inv|trk|snat mark=5 as 7:1000>2:80"),
        ("tcp 7:1000>2:80 PA seq=900000 ack=501 len=10", "before=trk|inv|snat commit mark=6", "inv|trk mark=6"),
        ("tcp 1:1000>2:80 R seq=105", "", "inv|trk mark=6"),
        ("tcp 1:1000>2:80 FPU seq=101", "", "inv|trk mark=6"),
    ]);
    assert_eq!(talk.dump(), ["tcp 1:1000>2:80 2:80>7:1000 zone=1 mark=6 timeout=86400000"]);
    assert_eq!(talk.connections()[0].packets, [2, 1]);
    talk.tracker.check_windows(false);
    talk.say(&[("tcp 1:1000>2:80 PA seq=900000 ack=501 len=10", "", "est|trk mark=6")]);
}

/// Observed on Open vSwitch 3.1. A SYN/ACK may acknowledge nonsense, once; who opens with an ACK is
/// established by the second one.
#[test]
fn a_packet_is_judged_again_only_behind_nat() {
    let mut talk = Talk::new(64);
    talk.say(&[
        ("tcp 1:1000>2:80 S seq=100", "commit", "new|trk"),
        ("tcp 2:80>1:1000 SA seq=500 ack=99999999", "", "est|rpl|trk orig 1:1000>2:80"),
        (
            "tcp 2:80>1:1000 SA seq=500 ack=99999999",
            "before=est|rpl|trk cached commit mark=5",
            "est|rpl|trk mark=5 orig 1:1000>2:80",
        ),
        ("tcp 2:80>1:1000 SA seq=500 ack=99999999", "before=est|rpl|trk", "inv|trk mark=5"),
        ("tcp 1:1001>2:80 A seq=100 ack=5", "commit", "new|trk"),
        ("tcp 1:1001>2:80 A seq=100 ack=5", "before=new|trk cached commit", "new|trk"),
        ("tcp 1:1001>2:80 A seq=100 ack=5", "before=new|trk commit", "est|trk"),
    ]);
    assert_eq!(talk.connections()[0].packets, [1, 1], "counted once");
    talk.say(&[
        ("tcp 1:1000>2:81 S seq=100", "commit src=7", "new|trk|snat as 7:1000>2:81"),
        ("tcp 7:1000>2:81 S seq=100", "before=new|trk|snat commit", "new|trk|snat orig 1:1000>2:81"),
        ("tcp 2:81>7:1000 SA seq=500 ack=99999999", "nat", "est|rpl|trk|dnat orig 1:1000>2:81 as 2:81>1:1000"),
        ("tcp 2:81>1:1000 SA seq=500 ack=99999999", "before=est|rpl|trk|dnat commit", "inv|trk"),
        ("tcp 1:1001>2:81 A seq=100 ack=5", "commit src=7", "new|trk|snat as 7:1001>2:81"),
        ("tcp 7:1001>2:81 A seq=100 ack=5", "before=new|trk|snat commit", "est|trk|snat orig 1:1001>2:81"),
    ]);
}

#[test]
fn a_syn_after_the_end_opens_another_one_that_keeps_its_port() {
    let mut talk = Talk::new(64);
    talk.say(&[
        ("tcp 1:1000>2:80 S seq=100", "commit src=7 mark=5", "new|trk|snat mark=5 as 7:1000>2:80"),
        ("tcp 2:80>7:1000 RA seq=0 ack=101", "nat", "est|rpl|trk|dnat mark=5 orig 1:1000>2:80 as 2:80>1:1000"),
        ("tcp 1:1000>2:80 A seq=101 ack=1", "nat", "est|trk|snat mark=5 as 7:1000>2:80"),
        ("tcp 1:1000>2:80 S seq=100", "nat", "new|trk"),
        ("tcp 1:1000>2:80 S seq=100", "commit src=7", "new|trk|snat as 7:1000>2:80"),
        ("tcp 2:80>7:1000 RA seq=0 ack=101", "nat", "est|rpl|trk|dnat orig 1:1000>2:80 as 2:80>1:1000"),
        ("tcp 1:1000>2:80 S seq=300", "commit src=7", "new|trk|snat as 7:1000>2:80"),
    ]);
    assert_eq!(talk.connections().len(), 1);
    assert_eq!(talk.tracker.counts().replaced, 2);
}
