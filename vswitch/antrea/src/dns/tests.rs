#![allow(clippy::cast_possible_truncation)] // lengths of messages that are made here

use super::*;
use proptest::prelude::*;

fn wire(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    let mut bytes: Vec<u8> =
        labels.flat_map(|label| [vec![label.len() as u8], label.as_bytes().to_vec()].concat()).collect();
    bytes.push(0);
    bytes
}

fn record(owner: &[u8], kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u16).to_be_bytes();
    [owner, &kind.to_be_bytes(), &1_u16.to_be_bytes(), &ttl.to_be_bytes(), &len, data].concat()
}

fn message(flags: u16, questions: &[&str], records: &[Vec<u8>]) -> Vec<u8> {
    let counts = [flags, questions.len() as u16, records.len() as u16, 0, 0];
    let head: Vec<u8> = [0x1234].iter().chain(&counts).flat_map(|word: &u16| word.to_be_bytes()).collect();
    let questions: Vec<u8> = questions.iter().flat_map(|name| [wire(name), vec![0, 1, 0, 1]].concat()).collect();
    [head, questions, records.concat()].concat()
}

const ANSWER: u16 = 0x8180;
/// A pointer to the first question's name.
const ASKED: [u8; 2] = [0xc0, 12];

fn v4(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn only(message: &[u8]) -> Answer {
    let mut answers = read(message).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

#[test]
fn addresses_of_both_families() {
    let six: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let records = [
        record(&ASKED, 1, 300, &[192, 0, 2, 1]),
        record(&wire("WWW.example.COM"), 28, 60, &six),
        record(&ASKED, 16, 60, b"text"),
        record(&wire("other.com"), 1, 60, &[192, 0, 2, 9]),
    ];
    let answer = only(&message(ANSWER, &["www.Example.com"], &records));
    assert_eq!(answer.name, "www.example.com");
    assert_eq!(answer.addresses, [(v4(1), 300), (IpAddr::from(six), 60)]);
}

#[test]
fn aliases_lead_on_in_any_order_with_the_least_ttl() {
    let alias = |from: &str, ttl, to: &str| record(&wire(from), 5, ttl, &wire(to));
    let address = |of: &str, last| record(&wire(of), 1, 300, &[192, 0, 2, last]);
    let mut records = vec![
        alias("a.x", 500, "b.x"),
        alias("b.x", 30, "c.y"),
        alias("e.x", 9, "f.x"),
        address("c.y", 1),
        address("f.x", 2),
        address("b.x", 3),
    ];
    for _ in 0..2 {
        let mut found = only(&message(ANSWER, &["a.x"], &records)).addresses;
        found.sort_unstable();
        assert_eq!(found, [(v4(1), 30), (v4(3), 300)]);
        records.reverse();
    }
    let circle = [alias("a.x", 1, "b.x"), alias("b.x", 1, "a.x"), address("b.x", 1)];
    assert_eq!(only(&message(ANSWER, &["a.x"], &circle)).addresses, [(v4(1), 1)]);
    let long: Vec<Vec<u8>> =
        (0..40).map(|at| alias(&format!("n{at}"), 1, &format!("n{}", at + 1))).chain([address("n40", 1)]).collect();
    assert_eq!(only(&message(ANSWER, &["n0"], &long)).addresses, [], "no resolver goes that far");
    let many: Vec<Vec<u8>> = (0..65).map(|at| alias("a.x", 1, &format!("n{at}"))).collect();
    assert_eq!(read(&message(ANSWER, &["a.x"], &many)), Err(Unreadable::TooMuch));
}

#[test]
fn what_is_no_answer_or_none_with_addresses() {
    let one = [record(&ASKED, 1, 300, &[192, 0, 2, 1])];
    assert_eq!(read(&message(0x0100, &["a.x"], &one)), Err(Unreadable::NoAnswer), "a question");
    assert_eq!(read(&message(0xa000, &["a.x"], &one)), Err(Unreadable::NoAnswer), "a notification");
    assert_eq!(only(&message(ANSWER | 3, &["a.x"], &one)).addresses, [], "NXDOMAIN");
    assert_eq!(only(&message(ANSWER, &["a.x"], &[])).addresses, []);
    assert_eq!(read(&message(ANSWER, &[], &[record(&wire("a.x"), 1, 300, &[192, 0, 2, 1])])), Ok(vec![]));
    assert_eq!(read(&message(ANSWER, &["a", "b", "c", "d", "e"], &one)), Err(Unreadable::TooMuch));
    let two = read(&message(ANSWER, &["a.x", "b.x", "A.x"], &one)).unwrap_or_default();
    assert_eq!(
        two.iter().map(|answer| (&*answer.name, answer.addresses.len())).collect::<Vec<_>>(),
        [("a.x", 1), ("b.x", 0)]
    );
    let mut chaos = message(ANSWER, &["a.x"], &one);
    chaos[20] = 3;
    assert_eq!(read(&chaos), Ok(vec![]), "another class");
    assert_eq!(
        only(&message(ANSWER, &["a.x"], &[record(&ASKED, 1, 1 << 31, &[192, 0, 2, 1])])).addresses,
        [(v4(1), 0)]
    );
}

#[test]
fn strange_labels_are_not_taken_for_others() {
    let asked = [b"\x0dwww\x2eexample\\\x00\x03com\x00".as_slice(), &[0, 1, 0, 1]].concat();
    let message = [&[0, 0, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0], asked.as_slice()].concat();
    assert_eq!(only(&message).name, "www\\046example\\092\\000.com");
    assert_eq!(only(&self::message(ANSWER, &[""], &[])).name, "");
}

#[test]
fn cut_messages_count_as_far_as_they_go_if_they_say_so() {
    let records = [record(&ASKED, 1, 300, &[192, 0, 2, 1]), record(&ASKED, 1, 300, &[192, 0, 2, 2])];
    let whole = message(ANSWER, &["a.x"], &records);
    let cut = whole.get(..whole.len() - 1).unwrap_or_default();
    assert_eq!(read(cut), Err(Unreadable::Malformed));
    let told = message(ANSWER | 0x0200, &["a.x"], &records);
    assert_eq!(only(told.get(..told.len() - 1).unwrap_or_default()).addresses, [(v4(1), 300)]);
}

#[test]
fn hostile_names_and_lengths() {
    let wrong = |bytes: Vec<u8>, what: &str| {
        assert_eq!(read(&bytes), Err(Unreadable::Malformed), "{what}");
    };
    for len in 0..12 {
        wrong(vec![0x80; len], "no header");
    }
    wrong(message(ANSWER, &["a.x"], &[record(&[0xc0, 0xff], 1, 1, &[0; 4])]), "points behind the end");
    wrong(message(ANSWER, &["a.x"], &[record(&[0xc0, 21], 1, 1, &[0; 4])]), "points to itself");
    wrong(message(ANSWER, &["a.x"], &[record(&[0xc0, 2], 1, 1, &[0; 4])]), "points into the header");
    wrong(message(ANSWER, &["a.x"], &[record(&[0x80, 1, 0], 1, 1, &[0; 4])]), "no label");
    wrong(message(ANSWER, &["a.x"], &[record(&ASKED, 1, 1, &[0; 5])]), "no address");
    wrong(message(ANSWER, &["a.x"], &[record(&ASKED, 28, 1, &[0; 4])]), "no address");
    wrong(message(ANSWER, &["a.x"], &[record(&ASKED, 5, 1, &[1, b'a', 0, 0])]), "more than a name");
    wrong(message(ANSWER, &["a.x"], &[record(&ASKED, 5, 1, &[1, b'a'])]), "less than a name");
    let long = vec!["a".repeat(63); 4].join(".");
    wrong(message(ANSWER, &[&long], &[]), "256 bytes of name");
    let fits = format!("{}.{}", vec!["a".repeat(63); 3].join("."), "b".repeat(61));
    assert_eq!(only(&message(ANSWER, &[&fits], &[])).name, fits);
    // Names of many labels, thousands of times.
    let deep = vec!["a"; 120].join(".");
    let records: Vec<Vec<u8>> = (0..3000).map(|_| record(&ASKED, 1, 1, &[0; 4])).collect();
    assert_eq!(read(&message(ANSWER, &[&deep], &records)), Err(Unreadable::TooMuch));
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    let udp = [&[0, 53, 0x30, 0x39][..], &((payload.len() + 8) as u16).to_be_bytes(), &[0, 0], payload].concat();
    let total = ((udp.len() + 20) as u16).to_be_bytes();
    let head =
        [&[0; 12][..], &[8, 0, 0x45, 0], &total, &[0, 0, 0, 0, 64, 17, 0, 0, 10, 96, 0, 10, 10, 10, 0, 24]].concat();
    [head, udp].concat()
}

fn six(next: &[(u8, Vec<u8>)], protocol: u8, data: &[u8]) -> Vec<u8> {
    let mut kinds: Vec<u8> = next.iter().map(|(kind, _)| *kind).chain([protocol]).collect();
    let first = kinds.remove(0);
    let extensions: Vec<u8> =
        next.iter().zip(kinds).flat_map(|((_, rest), kind)| [&[kind], rest.as_slice()].concat()).collect();
    let len = ((extensions.len() + data.len()) as u16).to_be_bytes();
    [&[0; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0], &len, &[first, 64], &[0; 32], &extensions, data].concat()
}

/// Messages of a frame that is read alone.
fn messages(frame: &[u8]) -> Vec<Vec<u8>> {
    Assembly::default().put(frame, (), 0).messages
}

#[test]
fn frames_carry_messages() {
    let mut frame = datagram(b"message");
    frame.extend([0; 9]);
    assert_eq!(messages(&frame), [b"message"], "padded");
    let udp = datagram(b"message")[34..].to_vec();
    assert_eq!(messages(&six(&[], 17, &udp)), [b"message"]);
    let extensions = [(0, vec![0; 7]), (60, vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])];
    assert_eq!(messages(&six(&extensions, 17, &udp)), [b"message"]);
    assert_eq!(
        messages(&six(&[(44, vec![0, 0, 0, 0, 0, 0, 0])], 17, &udp)),
        [b"message"],
        "a fragment that is all of it"
    );
    assert!(messages(&six(&vec![(60, vec![0; 7]); 9], 17, &udp)).is_empty(), "too many headers");
    let mut segment = vec![0; 32];
    segment[12] = 0x80;
    assert!(messages(&six(&[], 6, &segment)).is_empty());
    segment.extend(b"\x00\x03one\x00\x05three\x00\x09rest");
    assert_eq!(messages(&six(&[], 6, &segment)), [b"one".to_vec(), b"three".to_vec()]);
    assert!(messages(&six(&[], 58, &udp)).is_empty());
}

proptest! {
    #[test]
    fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = read(&bytes);
        for message in messages(&bytes) {
            let _ = read(&message);
        }
    }

    /// A good message, and one byte of it is another, or its end is missing.
    #[test]
    fn anything_like_a_message_can_be_read(at in 0..120_usize, byte in any::<u8>(), len in 0..120_usize) {
        let records = [record(&ASKED, 5, 30, &wire("b.x")), record(&[0xc0, 33], 1, 300, &[192, 0, 2, 1]), record(&wire("b.x"), 28, 60, &[1; 16])];
        let mut bytes = message(ANSWER, &["a.x"], &records);
        assert_eq!(only(&bytes).addresses.len(), 2);
        if let Some(there) = bytes.get_mut(at) {
            *there = byte;
        }
        bytes.truncate(len);
        for answer in read(&bytes).unwrap_or_default() {
            prop_assert!(answer.addresses.len() <= 2 && answer.name.is_ascii());
        }
    }
}
