//! Answers to packets of any bytes: refusals, and "too big".

use super::oracle::Parts;
use super::{be, is_later_fragment};
use crate::packet::refusal::{Refusal, refuse};
use crate::packet::too_big::{QUOTED_MAX, too_big};

/// What a fuzzer says beside the packet: flags, codes, an MTU.
const CONTROL_LEN: usize = 5;

const RST: u8 = 4;
const ACK: u8 = 0x10;

/// A packet of any bytes is refused, or is too big. Returns how many answers there are.
///
/// # Panics
/// When an answer is not whole (lengths, sums), goes elsewhere than back, quotes what was not
/// there, or is given to an error, to a later fragment, or to a group.
pub fn refusals(input: &[u8]) -> usize {
    let Some((control, frame)) = input.split_first_chunk::<CONTROL_LEN>() else { return 0 };
    let [flags, icmp, icmp6, mtu @ ..] = *control;
    let mut frame = frame.to_vec();
    if let Some(parts) = Parts::of_frame(&frame).filter(|_| flags & 1 != 0) {
        parts.repair(&mut frame);
    }
    let front = &frame[..frame.len().min(QUOTED_MAX)];
    let mtu = u16::from_be_bytes(mtu);
    let how = Refusal { reset: flags & 2 != 0, icmp, icmp6, mtu: if flags & 4 != 0 { mtu } else { 0 } };
    let answers = [refuse(front, frame.len(), how), too_big(front, frame.len(), mtu)];
    for answer in answers.iter().flatten() {
        check(&frame, answer);
        let (again, too_big) = (refuse(answer, answer.len(), how), too_big(answer, answer.len(), mtu));
        let parts = Parts::of_frame(answer).expect("an IP packet");
        assert_eq!(again, None, "an answer is answered");
        assert!(too_big.is_none() || parts.protocol == 6, "an error is told of");
    }
    answers.iter().flatten().count()
}

/// What holds for each answer.
fn check(frame: &[u8], answer: &[u8]) {
    let parts = Parts::of_frame(answer).expect("it is IP");
    let l3 = parts.l3;
    assert_eq!((&answer[..6], &answer[6..12]), (&frame[6..12], &frame[..6]), "it goes back");
    assert!((answer[0] | answer[6]) & 1 == 0, "groups of Ethernet");
    assert_eq!(answer[12..l3], frame[12..l3], "tags and type");
    assert_eq!(parts.end, answer.len(), "its length");
    assert_eq!((parts.header_sum(answer).unwrap_or(0xffff), parts.l4_sum(answer)), (0xffff, Some(0xffff)), "sums");
    let (source, len) = if parts.v6 { (l3 + 8, 16) } else { (l3 + 12, 4) };
    let [src, dst] = [source, source + len].map(|at| &answer[at..at + len]);
    assert_eq!((dst, src), (&frame[source..source + len], &frame[source + len..source + 2 * len]), "addresses");
    let is_host = |address: &[u8]| if parts.v6 { address[0] != 0xff } else { !matches!(address[0], 0 | 127 | 224..) };
    assert!(is_host(src) && is_host(dst), "from or to more than one: {src:?}, {dst:?}");
    // Headers that are cut off say nothing more.
    let asked = Parts::before_fragment(frame);
    if let Some(asked) = &asked {
        assert_eq!((asked.v6, asked.l3), (parts.v6, l3));
        assert!(!is_later_fragment(frame, asked), "a later fragment is answered");
        assert!(!is_error(frame, asked), "an error is answered: {asked:?}");
    }
    if parts.protocol == 6 {
        return check_reset(frame, &asked.expect("a segment"), answer, &parts);
    }
    assert_eq!(parts.protocol, if parts.v6 { 58 } else { 1 });
    let quoted = &answer[parts.l4 + 8..];
    let end = l3 + if parts.v6 { 40 + be(frame, l3 + 4) } else { be(frame, l3 + 2) };
    assert!(frame[l3..end.min(frame.len())].starts_with(quoted), "it quotes what was not there");
    assert!(answer.len() - l3 <= if parts.v6 { 1280 } else { 576 }, "{} bytes", answer.len());
}

/// Whether a packet is an error of ICMP, as far as can be seen (RFC 1122, 3.2.2; RFC 4443, 2.1).
fn is_error(frame: &[u8], asked: &Parts) -> bool {
    let kind = frame.get(asked.l4);
    match (asked.v6, asked.protocol) {
        (false, 1) => kind.is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12)),
        (true, 58) => kind.is_none_or(|kind| *kind < 128),
        _ => false,
    }
}

/// A reset as RFC 9293, 3.10.7.1 has it.
fn check_reset(frame: &[u8], asked: &Parts, answer: &[u8], parts: &Parts) {
    let word = |bytes: &[u8], at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let (segment, reset) = (&frame[asked.l4..asked.end], &answer[parts.l4..]);
    assert_eq!((asked.protocol, reset.len()), (6, 20));
    assert_eq!((&reset[..2], &reset[2..4]), (&segment[2..4], &segment[..2]), "ports");
    let flags = segment[13];
    assert!(flags & RST == 0, "a reset is answered");
    let numbers = (word(reset, 4), word(reset, 8), reset[13]);
    if flags & ACK != 0 {
        assert_eq!(numbers, (word(segment, 8), 0, RST));
    } else {
        let len =
            segment.len() - usize::from(segment[12] >> 4) * 4 + usize::from(flags & 1) + usize::from(flags >> 1 & 1);
        let expected = word(segment, 4).wrapping_add(u32::try_from(len).expect("short"));
        assert_eq!(numbers, (0, expected, RST | ACK));
    }
}
