//! Translated connections (facts d).

use super::talk::Talk;

#[test]
fn source_translation_works_both_ways_and_only_where_asked() {
    let mut talk = Talk::new(64);
    talk.say(&[
        ("udp 1:1000>2:53", "nat", "new|trk"),
        ("udp 1:1000>2:53", "commit src=77", "new|trk|snat as 77:1000>2:53"),
        ("udp 1:1000>2:53", "nat", "new|trk|snat as 77:1000>2:53"),
        ("udp 1:1000>2:53", "", "new|trk"),
        ("udp 2:53>77:1000", "", "est|rpl|trk orig 1:1000>2:53"),
        ("udp 2:53>77:1000", "nat", "est|rpl|trk|dnat orig 1:1000>2:53 as 2:53>1:1000"),
        ("udp 1:1000>2:53", "nat", "est|trk|snat as 77:1000>2:53"),
        ("udp 1:1000>2:53", "commit dst=9", "est|trk|snat as 77:1000>2:53"),
        ("udp 2:53>1:1000", "nat", "new|trk"),
    ]);
    assert_eq!(talk.dump(), ["udp 1:1000>2:53 2:53>77:1000 zone=1 timeout=30000"]);
}

#[test]
fn destination_translation_works_both_ways() {
    Talk::new(64).say(&[
        ("udp 1:1000>9:80", "commit dst=2:8080 mark=5", "new|trk|dnat mark=5 as 1:1000>2:8080"),
        ("udp 1:1000>9:80", "commit dst=3:8080 mark=6", "new|trk|dnat mark=6 as 1:1000>2:8080"),
        ("udp 2:8080>1:1000", "nat", "est|rpl|trk|snat mark=6 orig 1:1000>9:80 as 9:80>1:1000"),
        ("udp 1:1000>9:80", "nat", "est|trk|dnat mark=6 as 1:1000>2:8080"),
        ("udp 1:1000>2:8080", "nat", "new|trk"),
    ]);
}

#[test]
fn what_was_translated_already_is_found_and_not_translated_again() {
    Talk::new(64).say(&[
        ("udp 1:1000>9:80", "commit dst=2:8080", "new|trk|dnat as 1:1000>2:8080"),
        ("udp 1:1000>2:8080", "before=trk|dnat commit mark=7", "new|trk|dnat mark=7 orig 1:1000>9:80"),
        ("udp 1:1000>2:8080", "before=trk|dnat commit nat mark=8", "new|trk|dnat mark=8 orig 1:1000>9:80"),
        ("udp 9:80>1:1000", "before=trk|snat", "est|rpl|trk|snat mark=8 orig 1:1000>9:80"),
        ("udp 1:1000>2:8080", "before=trk|dnat", "est|trk|dnat mark=8 orig 1:1000>9:80"),
        ("udp 1:1000>2:9999", "before=trk|dnat", "new|trk"),
        ("udp 1:1000>2:9999", "before=trk|dnat commit", "new|trk"),
        ("udp 1:1000>2:9999", "", "new|trk"),
        ("udp 2:9999>1:1000", "", "est|rpl|trk orig 1:1000>2:9999"),
        ("error 5>1 about udp 1:1000>9:80", "before=trk|snat", "rel|rpl|trk|snat mark=8"),
    ]);
}

#[test]
fn a_taken_port_gives_the_next_one_of_its_class() {
    Talk::new(64).say(&[
        ("udp 11:1000>2:53", "commit src=77", "new|trk|snat as 77:1000>2:53"),
        ("udp 12:1000>2:53", "commit src=77", "new|trk|snat as 77:1001>2:53"),
        ("udp 13:1000>2:53", "commit src=77", "new|trk|snat as 77:1002>2:53"),
        ("udp 14:1000>2:54", "commit src=77", "new|trk|snat as 77:1000>2:54"),
        ("udp 2:53>77:1001", "nat", "est|rpl|trk|dnat orig 12:1000>2:53 as 2:53>12:1000"),
        ("udp 78:5>2:53", "commit", "new|trk"),
        ("udp 15:5>2:53", "commit src=78", "new|trk|snat as 78:6>2:53"),
    ]);
}

#[test]
fn a_clash_behind_one_backend_changes_the_source_port_though_only_dnat_was_asked() {
    Talk::new(64).say(&[
        ("udp 1:1000>5:80", "commit dst=9:80", "new|trk|dnat as 1:1000>9:80"),
        ("udp 1:1000>6:80", "commit dst=9:80", "new|trk|dnat as 1:1001>9:80"),
        ("udp 9:80>1:1001", "nat", "est|rpl|trk|snat orig 1:1000>6:80 as 6:80>1:1000"),
        ("error 4>1 about udp 1:1001>9:80", "nat", "rel|rpl|trk|snat orig 1:1000>6:80 as 6>- inner 1:1000>6:80"),
    ]);
}

#[test]
fn icmp_identifiers_are_translated_on_a_clash() {
    Talk::new(64).say(&[
        ("ping 11>2#7", "commit src=77", "new|trk|snat as 77>2#7"),
        ("ping 12>2#7", "commit src=77", "new|trk|snat as 77>2#8"),
        ("pong 2>77#7", "nat", "est|rpl|trk|dnat orig 11>2#7 as 2>11#7"),
        ("pong 2>77#8", "nat", "est|rpl|trk|dnat orig 12>2#7 as 2>12#7"),
        ("error 4>77 about ping 77>2#8", "nat", "rel|rpl|trk|dnat orig 12>2#7 as ->12 inner 12>2#7"),
        ("v6 ping 11>2#7", "commit src=77", "new|trk|snat as 77>2#7"),
        ("v6 ping 12>2#7", "commit src=77", "new|trk|snat as 77>2#8"),
        ("v6 pong 2>77#8", "nat", "est|rpl|trk|dnat orig 12>2#7 as 2>12#7"),
    ]);
}

#[test]
fn errors_about_a_dnated_connection_hide_the_backend() {
    Talk::new(64).say(&[
        ("udp 1:1000>9:80", "commit dst=2:8080 mark=5", "new|trk|dnat mark=5 as 1:1000>2:8080"),
        (
            "error 2>1 about udp 1:1000>2:8080",
            "nat",
            "rel|rpl|trk|snat mark=5 orig 1:1000>9:80 as 9>- inner 1:1000>9:80",
        ),
        (
            "error 6>1 about udp 1:1000>2:8080",
            "nat",
            "rel|rpl|trk|snat mark=5 orig 1:1000>9:80 as 9>- inner 1:1000>9:80",
        ),
        ("error 6>1 about udp 1:1000>2:8080", "", "rel|rpl|trk mark=5 orig 1:1000>9:80"),
        ("error 1>9 about udp 9:80>1:1000", "nat", "rel|trk|dnat mark=5 orig 1:1000>9:80 as ->2 inner 2:8080>1:1000"),
        ("error 6>1 about udp 1:1000>9:80", "nat", "inv|trk"),
    ]);
}

#[test]
fn errors_about_an_snated_connection_keep_the_router() {
    Talk::new(64).say(&[
        ("udp 1:1000>2:53", "commit src=77:5000", "new|trk|snat as 77:5000>2:53"),
        ("error 6>77 about udp 77:5000>2:53", "nat", "rel|rpl|trk|dnat orig 1:1000>2:53 as ->1 inner 1:1000>2:53"),
        ("error 1>2 about udp 2:53>1:1000", "nat", "rel|trk|snat orig 1:1000>2:53 as 77>- inner 2:53>77:5000"),
    ]);
}

#[test]
fn bare_nat_on_a_new_connection_is_the_identity() {
    Talk::new(64).say(&[
        ("udp 1:1>2:2", "commit nat", "new|trk"),
        ("udp 2:2>1:1", "nat", "est|rpl|trk orig 1:1>2:2"),
        ("udp 1:1>2:2", "nat", "est|trk"),
    ]);
}

#[test]
fn translation_to_oneself_works() {
    Talk::new(64).say(&[
        ("udp 1:5>2:6", "commit src=1", "new|trk|snat"),
        ("udp 2:6>1:5", "nat", "est|rpl|trk|dnat orig 1:5>2:6"),
        ("udp 3:5>2:6", "commit dst=2", "new|trk|dnat"),
        ("udp 2:6>3:5", "nat", "est|rpl|trk|snat orig 3:5>2:6"),
        ("udp 4:5>9:6", "commit dst=4", "new|trk|dnat as 4:5>4:6"),
        ("udp 4:6>4:5", "nat", "est|rpl|trk|snat orig 4:5>9:6 as 9:6>4:5"),
        // Hairpin with the same port: the tuple is its own answer.
        ("udp 4:6>9:6", "commit dst=4", "new|trk|dnat as 4:6>4:6"),
        ("udp 4:6>4:6", "nat", "est|rpl|trk|snat orig 4:6>9:6 as 9:6>4:6"),
    ]);
}

#[test]
fn what_finds_no_tuple_is_refused_by_name() {
    let mut talk = Talk::new(64);
    talk.say(&[
        ("udp 1:1>2:2", "commit src=7:50", "new|trk|snat as 7:50>2:2"),
        ("udp 1:9>2:2", "commit src=7:50", "refused NatExhausted"),
        ("udp 1:9>2:2", "nat", "new|trk"),
        ("gre 1>2", "commit src=7", "new|trk|snat as 7>2"),
        ("gre 3>2", "commit src=7", "refused NatExhausted"),
        ("gre 7>2", "commit", "refused TupleTaken"),
        ("gre 7>2", "commit nat", "refused TupleTaken"),
        ("gre 7>2", "", "new|trk"),
    ]);
    let counts = talk.tracker.counts();
    assert_eq!((counts.connections, counts.refused_nat, counts.refused_taken), (2, 2, 2));
    assert_eq!(talk.tracker.limits().1.iter().map(|zone| zone.count).collect::<Vec<_>>(), [2]);
    // P30: what is freed can be had again.
    talk.tracker.flush(&crate::Filter::default(), talk.now);
    talk.say(&[("udp 1:9>2:2", "commit src=7:50", "new|trk|snat as 7:50>2:2")]);
}

/// By a Service first, then straight to its endpoint from the same port; `straight` is what the
/// second one asks for.
fn service_and_endpoint(kind: &str, first: &str, straight: &str) -> Talk {
    let mut talk = Talk::new(64);
    let (syn, syn_ack, ack) =
        if kind.ends_with("tcp") { (" S seq=7", " SA seq=8 ack=8", " A seq=8 ack=9") } else { ("", "", "") };
    let packet = |ends: &str, rest: &str| format!("{kind} {ends}{rest}");
    let est = |flags: &str, orig: &str, to: &str| format!("est|{flags} orig {orig} as {to}");
    let says = |talk: &mut Talk, packet: String, request: &str, expected: &str| {
        assert_eq!(talk.ct(&packet, request), expected, "{packet} meets ct({request})\n{}", talk.dump().join("\n"));
    };
    says(&mut talk, packet("1:1000>5:80", syn), first, "new|trk|dnat as 1:1000>9:80");
    says(&mut talk, packet("9:80>1:1000", syn_ack), "nat", &est("rpl|trk|snat", "1:1000>5:80", "5:80>1:1000"));
    // Its first packet, and the same again.
    for _ in 0..2 {
        says(&mut talk, packet("1:1000>9:80", syn), straight, "new|trk|snat as 1:1001>9:80");
    }
    for lookup in ["", "nat"] {
        says(&mut talk, packet("9:80>1:1001", syn_ack), lookup, &est("rpl|trk|dnat", "1:1000>9:80", "9:80>1:1000"));
        says(&mut talk, packet("1:1000>9:80", ack), lookup, "est|trk|snat as 1:1001>9:80");
        says(&mut talk, packet("1:1000>9:80", ack), &format!("{lookup} ; {straight}"), "est|trk|snat as 1:1001>9:80");
    }
    // The first one is as it was.
    says(&mut talk, packet("1:1000>5:80", ack), "nat", "est|trk|dnat as 1:1000>9:80");
    says(&mut talk, packet("9:80>1:1000", ack), "nat", &est("rpl|trk|snat", "1:1000>5:80", "5:80>1:1000"));
    // Who has that port gets the next one.
    says(&mut talk, packet("1:1001>9:80", syn), straight, "new|trk|snat as 1:1002>9:80");
    assert_eq!(talk.tracker.counts().refused_taken, 0);
    talk
}

#[test]
fn a_connection_whose_answers_are_taken_gets_another_port() {
    for kind in ["tcp", "udp", "sctp", "v6 tcp", "v6 udp", "v6 sctp"] {
        for straight in ["commit", " ; commit", "nat ; commit", "nat ; commit nat", "commit nat"] {
            service_and_endpoint(kind, "commit dst=9:80", straight);
        }
    }
    for v6 in ["", "v6 "] {
        let mut talk = Talk::new(64);
        let packet = |text: &str| format!("{v6}{text}");
        for (text, request, expected) in [
            (packet("ping 1>5#7"), "commit dst=9", "new|trk|dnat as 1>9#7"),
            (packet("ping 1>9#7"), "commit", "new|trk|snat as 1>9#8"),
            (packet("pong 9>1#8"), "", "est|rpl|trk|dnat orig 1>9#7 as 9>1#7"),
            (packet("pong 9>1#7"), "nat", "est|rpl|trk|snat orig 1>5#7 as 5>1#7"),
            (packet("ping 1>9#7"), "", "est|trk|snat as 1>9#8"),
        ] {
            assert_eq!(talk.ct(&text, request), expected, "{text} meets ct({request})");
        }
    }
}

/// Errors about it find it, and it comes back as it was after a restart.
#[test]
fn a_connection_with_another_port_is_whole() {
    let talk = service_and_endpoint("udp", "commit dst=9:80", "commit");
    let (again, _) = Talk::again(&talk.saved(), 64, 0);
    for mut talk in [talk, again] {
        talk.say(&[
            ("error 4>1 about udp 1:1001>9:80", "", "rel|rpl|trk|dnat orig 1:1000>9:80 inner 1:1000>9:80"),
            ("error 1>9 about udp 9:80>1:1000", "", "rel|trk|snat orig 1:1000>9:80 inner 9:80>1:1001"),
            ("udp 9:80>1:1001", "", "est|rpl|trk|dnat orig 1:1000>9:80 as 9:80>1:1000"),
            ("udp 1:1000>9:80", "", "est|trk|snat as 1:1001>9:80"),
        ]);
    }
}
