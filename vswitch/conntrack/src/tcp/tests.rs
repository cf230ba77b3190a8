//! What was observed on Open vSwitch 3.1, line by line.

use super::*;
use crate::Class;
use Direction::{Original, Reply};
use Outcome::{Invalid, Reopen, Valid, ValidNew};

const C: u32 = 1000;
const S: u32 = 5000;

fn seg(flags: u8, seq: u32, ack: u32) -> Segment {
    Segment { flags, seq, ack, window: 1000, ..Segment::default() }
}

fn data(seq: u32, ack: u32, payload: u32) -> Segment {
    Segment { payload, ..seg(ACK | PSH, seq, ack) }
}

/// Client at `C + 1`, server at `S + 1`, windows of 1,000 without scaling.
fn established() -> Tcp {
    let mut tcp = Tcp::open(&seg(SYN, C, 0)).expect("a SYN opens");
    assert_eq!(tcp.update(&seg(SYN | ACK, S, C + 1), Reply, true), Valid);
    assert_eq!(tcp.state(), State::Established);
    assert_eq!(Class::of_tcp(&tcp), Class::TcpOpening, "after SYN, SYN/ACK");
    assert_eq!(tcp.update(&seg(ACK, C + 1, S + 1), Original, true), Valid);
    assert_eq!(Class::of_tcp(&tcp), Class::TcpEstablished);
    tcp
}

#[test]
fn first_segments() {
    let opening = [
        ("SYN", seg(SYN, C, 0)),
        ("ACK", seg(ACK, C, S)),
        ("PSH/ACK with data", data(C, S, 10)),
        ("FIN/ACK", seg(FIN | ACK, C, S)),
        ("RST", seg(RST, C, 0)),
        ("RST/ACK", seg(RST | ACK, C, S)),
        ("SYN with data", Segment { payload: 10, ..seg(SYN, C, 0) }),
        ("SYN+ECE+CWR", seg(SYN | 0xc0, C, 0)),
    ];
    for (what, segment) in opening {
        let tcp = Tcp::open(&segment).expect(what);
        assert_eq!(tcp.state(), State::SynSent, "{what}");
        assert_eq!(Class::of_tcp(&tcp), Class::TcpFirst, "{what}");
    }
    for (what, flags) in [
        ("SYN/ACK", SYN | ACK),
        ("bare FIN", FIN),
        ("null", 0),
        ("SYN+FIN", SYN | FIN),
        ("SYN+RST", SYN | RST),
        ("FIN+PSH+URG", FIN | PSH | URG),
    ] {
        assert_eq!(Tcp::open(&seg(flags, C, 0)), None, "{what}");
    }
}

#[test]
fn impossible_flags_change_nothing() {
    let tcp = established();
    for flags in [FIN, 0, SYN | FIN, SYN | RST, FIN | PSH | URG, PSH, URG, PSH | URG, 0xc0, SYN | PSH, SYN | FIN | ACK]
    {
        for direction in [Original, Reply] {
            let mut after = tcp;
            assert_eq!(after.update(&seg(flags, C + 1, S + 1), direction, true), Invalid, "flags {flags:#x}");
            assert_eq!(after, tcp, "flags {flags:#x}");
        }
    }
}

#[test]
fn syns_of_the_client_stay_new() {
    let mut tcp = Tcp::open(&seg(SYN, C, 0)).expect("a SYN opens");
    let first = tcp;
    for seq in [C, C, C + 77_777, 0x9000_0000] {
        assert_eq!(tcp.update(&seg(SYN, seq, 0), Original, true), ValidNew, "SYN at {seq}");
        assert_eq!(tcp, first, "SYN at {seq}");
    }
    assert_eq!(tcp.state(), State::SynSent);
}

#[test]
fn anything_else_of_the_client_is_established_at_once() {
    for second in [seg(ACK, C + 1, S), data(C + 1, S, 1)] {
        let mut tcp = Tcp::open(&seg(SYN, C, 0)).expect("a SYN opens");
        assert!(matches!(tcp.update(&second, Original, true), Valid), "{second:?}");
        assert_eq!(tcp.state(), State::SynSent);
        assert_eq!(Class::of_tcp(&tcp), Class::TcpFirst, "told by the state alone");
        assert_eq!(Class::after(Valid, &tcp), Some(Class::TcpOpening));
    }
}

#[test]
fn any_answer_will_do() {
    for answer in [seg(SYN | ACK, S, C + 1), seg(SYN | ACK, S, 0xdead_beef), seg(ACK, S, C + 1), seg(ACK, S, 3)] {
        let mut tcp = Tcp::open(&seg(SYN, C, 0)).expect("a SYN opens");
        assert_eq!(tcp.update(&answer, Reply, true), Valid, "{answer:?}");
        assert_eq!(tcp.state(), State::Established, "{answer:?}");
        assert_eq!(Class::of_tcp(&tcp), Class::TcpOpening, "{answer:?}");
    }
}

#[test]
fn picked_up_in_the_middle() {
    let mut tcp = Tcp::open(&seg(ACK, C, S)).expect("an ACK opens");
    assert_eq!(tcp.update(&seg(ACK, C, S), Original, true), Valid);
    assert_eq!(tcp.state(), State::SynSent);
    assert_eq!(tcp.update(&seg(ACK, S, C), Reply, true), Valid);
    assert_eq!(tcp.state(), State::Established);
    assert_eq!(tcp.update(&data(C + 200_000, S, 100), Original, true), Valid, "windows may be of any scale");
    assert_eq!(tcp.update(&data(S + 200_000, C, 100), Reply, true), Valid, "windows may be of any scale");
}

#[test]
fn both_open() {
    let mut tcp = Tcp::open(&seg(SYN, C, 0)).expect("a SYN opens");
    assert_eq!(tcp.update(&seg(SYN, S, 0), Reply, true), ValidNew);
    assert_eq!(tcp.state(), State::SynSent);
    assert_eq!(tcp.update(&seg(SYN | ACK, C, S + 1), Original, true), Valid);
    assert_eq!(tcp.state(), State::Established);
}

#[test]
fn refused() {
    for answer in [seg(RST | ACK, 0, C + 1), seg(RST | ACK, 0, 0), seg(RST, S, 0), seg(RST | ACK, S, 99_999_999)] {
        let mut tcp = Tcp::open(&seg(SYN, C, 0)).expect("a SYN opens");
        assert_eq!(tcp.update(&answer, Reply, true), Valid, "{answer:?}");
        assert_eq!((tcp.state(), Class::of_tcp(&tcp)), (State::TimeWait, Class::TcpClosed), "{answer:?}");
    }
}

#[test]
fn after_a_reset() {
    let mut tcp = established();
    assert_eq!(tcp.update(&seg(RST, C + 1, 0), Original, true), Valid);
    assert_eq!((tcp.state(), Class::of_tcp(&tcp)), (State::TimeWait, Class::TcpClosed));
    for (segment, direction) in
        [(seg(ACK, C + 1, S + 1), Original), (data(S + 1, C + 1, 100), Reply), (seg(FIN | ACK, C + 1, S + 1), Original)]
    {
        assert_ne!(tcp.update(&segment, direction, true), Invalid, "{segment:?}");
        assert_eq!(tcp.state(), State::TimeWait, "{segment:?}");
    }
    let over = tcp;
    for (seq, direction) in [(C, Original), (C + 7_000_000, Original), (S, Reply)] {
        assert_eq!(tcp.update(&seg(SYN, seq, 0), direction, true), Reopen, "SYN at {seq}");
    }
    assert_eq!(tcp, over);
}

#[test]
fn a_syn_within_a_connection() {
    let before = established();
    for (seq, outcome) in [(C + 1, Valid), (C + 100, Valid), (C + 5000, Invalid), (C.wrapping_sub(5000), Invalid)] {
        let mut tcp = before;
        assert_eq!(tcp.update(&seg(SYN, seq, 0), Original, true), outcome, "SYN at {seq}");
        assert_eq!(tcp.state(), State::Established, "SYN at {seq}");
    }
}

#[test]
fn a_friendly_end() {
    let mut tcp = established();
    let steps = [
        (seg(FIN | ACK, C + 1, S + 1), Original, State::Closing, Class::TcpClosing),
        (seg(ACK, S + 1, C + 2), Reply, State::TimeWait, Class::TcpClosing),
        (seg(FIN | ACK, S + 1, C + 2), Reply, State::TimeWait, Class::TcpFinWait),
        (seg(ACK, C + 2, S + 2), Original, State::TimeWait, Class::TcpClosed),
    ];
    for (segment, direction, state, class) in steps {
        assert_eq!(tcp.update(&segment, direction, true), Valid, "{segment:?}");
        assert_eq!((tcp.state(), Class::of_tcp(&tcp)), (state, class), "{segment:?}");
    }
    assert_eq!(tcp.update(&seg(SYN, C, 0), Original, true), Reopen);
}

#[test]
fn data_around_the_window() {
    let before = established();
    // One byte at an offset from what the client has sent; its end may be 1,000 further.
    for (offset, outcome) in [(0, Valid), (999, Valid), (1000, Invalid), (-1, Valid), (-1000, Valid), (-2001, Invalid)]
    {
        let mut tcp = before;
        let segment = data((C + 1).wrapping_add_signed(offset), S + 1, 1);
        assert_eq!(tcp.update(&segment, Original, true), outcome, "offset {offset}");
        if outcome == Invalid {
            assert_eq!(tcp, before, "offset {offset}");
        }
        let mut unchecked = before;
        assert_eq!(unchecked.update(&segment, Original, false), Valid, "offset {offset}, unchecked");
    }
}

#[test]
fn acknowledgments() {
    let before = established();
    for (seq, ack, outcome) in [
        (9_000_000, 0, Valid),
        (-9_000_000, 0, Valid),
        (0, 67_035, Valid),
        (0, 67_036, Invalid),
        (0, -67_035, Valid),
        (0, -67_036, Invalid),
    ] {
        let mut tcp = before;
        let segment = seg(ACK, (C + 1).wrapping_add_signed(seq), (S + 1).wrapping_add_signed(ack));
        assert_eq!(tcp.update(&segment, Original, true), outcome, "seq {seq}, ack {ack}");
    }
}

#[test]
fn resets_must_hit() {
    // A client's SYN takes no space in the tracker until it has sent data.
    for (direction, seq, ack) in [(Original, C, S + 1), (Reply, S + 1, C + 1)] {
        let before = established();
        for (offset, outcome) in [(0, Valid), (1, Valid), (-1, Valid), (2, Invalid), (-2, Invalid), (500, Invalid)] {
            for flags in [RST, RST | ACK] {
                let mut tcp = before;
                let segment = seg(flags, seq.wrapping_add_signed(offset), ack);
                let what = format!("{direction:?}, offset {offset}, flags {flags:#x}");
                assert_eq!(tcp.update(&segment, direction, true), outcome, "{what}");
                let expected = if outcome == Valid { State::TimeWait } else { State::Established };
                assert_eq!(tcp.state(), expected, "{what}");
            }
        }
    }
}

#[test]
fn keep_alives_and_repeats() {
    let mut tcp = established();
    assert_eq!(tcp.update(&data(C + 1, S + 1, 500), Original, true), Valid);
    assert_eq!(tcp.update(&data(C + 1, S + 1, 500), Original, true), Valid, "the same again");
    assert_eq!(tcp.update(&seg(ACK, C + 500, S + 1), Original, true), Valid, "keep-alive");
    assert_eq!(tcp.update(&data(C + 500, S + 1, 1), Original, true), Valid, "keep-alive with a byte");
}

#[test]
fn scales() {
    let syn = Segment { scale: Some(7), window: 64_000, ..seg(SYN, C, 0) };
    let answer = Segment { scale: Some(2), ..seg(SYN | ACK, S, C + 1) };
    let mut tcp = Tcp::open(&syn).expect("a SYN opens");
    assert_eq!(tcp.peers[0].max_window, 500, "64,000 as what would be scaled by 7");
    assert_eq!(tcp.update(&answer, Reply, true), Valid);
    assert_eq!(tcp.update(&seg(ACK, C + 1, S + 1), Original, true), Valid);
    // The client's window is 1,000 << 7 now.
    let mut before = tcp;
    assert_eq!(before.update(&data(S + 128_000, C + 1, 1), Reply, true), Valid);
    assert_eq!(tcp.update(&data(S + 128_001, C + 1, 1), Reply, true), Invalid);

    let mut plain = Tcp::open(&syn).expect("a SYN opens");
    assert_eq!(plain.update(&Segment { scale: None, ..answer }, Reply, true), Valid);
    assert_eq!((plain.peers[0].scale, plain.peers[0].max_window), (0, 64_000), "only one end asked");

    let huge = Tcp::open(&Segment { scale: Some(255), ..syn }).expect("a SYN opens");
    assert_eq!((huge.peers[0].scale & SCALE_SHIFT, huge.peers[0].max_window), (14, 4));
}

/// Honest segments that are invalid all the same; seen on Open vSwitch 3.1.
#[test]
fn wrong_as_open_vswitch_is() {
    // A window of 65,535 is 512 << 7 when only one end scales, and that does not fit.
    let syn = Segment { scale: Some(7), window: 65_535, ..seg(SYN, C, 0) };
    let mut tcp = Tcp::open(&syn).expect("a SYN opens");
    assert_eq!(tcp.update(&seg(SYN | ACK, S, C + 1), Reply, true), Valid);
    assert_eq!(tcp.update(&seg(SYN | ACK, S, C + 1), Reply, true), Invalid, "SYN/ACK again");
    assert_eq!(tcp.update(&Segment { window: 65_535, ..seg(ACK, C + 1, S + 1) }, Original, true), Valid);
    assert_eq!(tcp.update(&seg(SYN | ACK, S, C + 1), Reply, true), Valid, "SYN/ACK again, after an ACK");

    // Of the second SYN of a simultaneous open no number is kept: that goes well only if they are
    // small.
    let (near, far) = (0x3000_0000, 0x9000_0000);
    let mut tcp = Tcp::open(&seg(SYN, near, 0)).expect("a SYN opens");
    assert_eq!(tcp.update(&seg(SYN, far, 0), Reply, true), ValidNew);
    for (segment, direction, outcome) in [
        (seg(SYN | ACK, near, far + 1), Original, Invalid),
        (seg(SYN | ACK, far, near + 1), Reply, Invalid),
        (seg(ACK, near + 1, far + 1), Original, Invalid),
        (seg(ACK, far + 1, near + 1), Reply, Valid),
        (data(near + 1, far + 1, 100), Original, Invalid),
        (data(far + 1, near + 1, 100), Reply, Invalid),
    ] {
        assert_eq!(tcp.update(&segment, direction, true), outcome, "{segment:?}");
    }
}

/// `src/tcp/ovs31.txt` is what Open vSwitch 3.1.0 said about random conversations; its first lines
/// say how to read it.
#[test]
fn as_open_vswitch_on_random_conversations() {
    let mut held: Option<(Direction, Tcp)> = None;
    let (mut left, mut segments, mut check) = (0_u64, 0, true);
    for (number, line) in (1..).zip(include_str!("ovs31.txt").lines()) {
        if line.starts_with('#') {
            continue;
        }
        if line.starts_with("conversation") {
            (held, check) = (None, line.ends_with(" checked"));
            continue;
        }
        let (segment, direction, expected) = parse(line);
        segments += 1;
        left = left.saturating_sub(1);
        let (bits, class) = track(&mut held, &segment, direction, check);
        if let Some(class) = class {
            left = crate::Policy::default().get(class) / 1000;
        }
        let shift = |peer: &Peer| peer.scale & SCALE_SHIFT;
        let entry = held.map_or_else(
            || "-".to_owned(),
            |(_, tcp)| {
                let [a, b] = tcp.peers;
                format!(
                    "{} {} {} {} {} {left}",
                    tcp.state().name(),
                    a.state.name(),
                    b.state.name(),
                    shift(&a),
                    shift(&b)
                )
            },
        );
        assert_eq!(format!("{bits:#04x} {entry}"), expected, "line {number}: {line}\n{held:?}");
    }
    assert!(segments > 1000, "{segments} segments");
}

/// What a tracker does that commits whatever is new: bits of `ct_state` and what renews the
/// timeout. A connection is held with the side that opened it.
fn track(held: &mut Option<(Direction, Tcp)>, segment: &Segment, from: Direction, check: bool) -> (u32, Option<Class>) {
    use crate::state::{EST, INV, NEW, RPL, TRK};
    let direction = held.map_or(Original, |(opener, _)| if opener == from { Original } else { Reply });
    let outcome = held.as_mut().map_or(Reopen, |(_, tcp)| tcp.update(segment, direction, check));
    let bits = match outcome {
        Reopen => {
            *held = Tcp::open(segment).map(|tcp| (from, tcp));
            if held.is_some() { NEW | TRK } else { INV | TRK }
        }
        ValidNew => NEW | TRK,
        Invalid => INV | TRK,
        Valid | Outcome::ValidLoose => EST | TRK | if direction == Reply { RPL } else { 0 },
    };
    (bits, held.and_then(|(_, tcp)| Class::after(outcome, &tcp)))
}

fn parse(line: &str) -> (Segment, Direction, &str) {
    let (segment, expected) = line.split_once(" > ").expect(line);
    let words: Vec<&str> = segment.split(' ').collect();
    let number = |at: usize| words[at].parse::<u32>().expect(line);
    let segment = Segment {
        flags: u8::from_str_radix(words[1].trim_start_matches("0x"), 16).expect(line),
        seq: number(2),
        ack: number(3),
        window: u16::try_from(number(4)).expect(line),
        payload: number(5),
        scale: (words[6] != "-").then(|| u8::try_from(number(6)).expect(line)),
    };
    (segment, if words[0] == "0" { Original } else { Reply }, expected)
}
