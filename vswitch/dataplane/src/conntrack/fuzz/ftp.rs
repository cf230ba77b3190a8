//! Control connections of FTP on which both ends say any text.

use super::oracle::Parts;
use super::{conntrack, packet, place, pool};
use crate::conntrack::{Conntrack, Outcome};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use vswitch_conntrack::{Family, Helper, Nat, NatSide, Request, TrackVerdict, protocol};

/// Segments of one input.
const SEGMENTS_MAX: usize = 24;

const ZONE: u16 = 7;
const SYN: u8 = 2;
const ACK: u8 = 0x10;
const PUSH: u8 = 8;

/// Ports of both ends: of the client, of the server.
const PORTS: [u16; 2] = [3000, 21];

/// A connection that is translated, and what both ends have said so far.
struct Talk {
    conntrack: Conntrack,
    family: Family,
    nat: Option<Nat>,
    /// Addresses of client and server, as each knows himself.
    own: [u128; 2],
    /// Likewise, as the other one knows him.
    known: [u128; 2],
    /// The next sequence number of each, as he counts.
    seq: [u32; 2],
    /// By how much the text of each is longer where the other one is.
    grown: [u32; 2],
}

impl Talk {
    /// After the handshake. `how` says what is translated.
    fn new(how: u8) -> Self {
        let family = if how & 1 == 0 { Family::V4 } else { Family::V6 };
        let address = |last: u8| match family {
            Family::V4 => u32::from_be_bytes([10, 0, 0, last]).into(),
            Family::V6 => 0xfd00 << 112 | u128::from(last),
        };
        let hidden = match family {
            Family::V4 => u32::from_be_bytes([100, 200, 100, 200]).into(),
            Family::V6 => 0xfd00_aaaa << 96 | 0x77,
        };
        let own = [address(1), address(2)];
        let (mut known, side) = (own, [None, Some(NatSide::Src), Some(NatSide::Dst), None][usize::from(how >> 1 & 3)]);
        let to = match side {
            Some(NatSide::Src) => Some((&mut known[0], hidden)),
            Some(NatSide::Dst) => Some((&mut known[1], hidden)),
            None => None,
        };
        let nat = to.map(|(known, hidden)| {
            *known = hidden;
            let becomes = if side == Some(NatSide::Src) { hidden } else { own[1] };
            Nat { side, addresses: Some((becomes, becomes)), ..Nat::default() }
        });
        // Numbers that soon begin again.
        let seq = if how & 8 == 0 { [1000, 5000] } else { [u32::MAX - 20, u32::MAX - 9] };
        let mut talk = Self { conntrack: conntrack(), family, nat, own, known, seq, grown: [0; 2] };
        let commit = Request { zone: ZONE, commit: true, nat, helper: Some(Helper::Ftp), ..Request::default() };
        talk.send(0, SYN, &[], &commit);
        talk.say(1, SYN | ACK, &[]);
        talk.say(0, ACK, &[]);
        talk
    }

    /// The frame of a segment as its sender makes it.
    fn frame(&self, from: usize, flags: u8, payload: &[u8]) -> Vec<u8> {
        let to = 1 - from;
        // What the other one has sent is longer here: so many bytes are acknowledged.
        let ack = if flags & ACK == 0 { 0 } else { self.seq[to].wrapping_add(self.grown[to]) };
        let mut l4 = [PORTS[from].to_be_bytes(), PORTS[to].to_be_bytes()].concat();
        l4.extend_from_slice(&self.seq[from].to_be_bytes());
        l4.extend_from_slice(&ack.to_be_bytes());
        l4.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        l4.extend_from_slice(payload);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let len = |more: usize| u16::try_from(l4.len() + more).expect("short").to_be_bytes();
        match self.family {
            Family::V4 => {
                frame.extend_from_slice(&[8, 0, 0x45, 0]);
                frame.extend_from_slice(&len(20));
                frame.extend_from_slice(&[0x12, 0x34, 0, 0, 64, protocol::TCP, 0, 0]);
                frame.extend_from_slice(&self.own[from].to_be_bytes()[12..]);
                frame.extend_from_slice(&self.known[to].to_be_bytes()[12..]);
            }
            Family::V6 => {
                frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend_from_slice(&len(0));
                frame.extend_from_slice(&[protocol::TCP, 64]);
                frame.extend_from_slice(&self.own[from].to_be_bytes());
                frame.extend_from_slice(&self.known[to].to_be_bytes());
            }
        }
        frame.extend_from_slice(&l4);
        Parts::of_frame(&frame).expect("an IP packet").repair(&mut frame);
        frame
    }

    /// One end sends a segment; returns what it has become.
    fn say(&mut self, from: usize, flags: u8, payload: &[u8]) -> Vec<u8> {
        let nat = self.nat.map(|_| Nat::default());
        self.send(from, flags, payload, &Request { zone: ZONE, commit: true, nat, ..Request::default() })
    }

    fn send(&mut self, from: usize, flags: u8, payload: &[u8], request: &Request) -> Vec<u8> {
        let frame = self.frame(from, flags, payload);
        let (after, _) = self.track(&frame, request);
        let text = self.check(from, &frame, &after);
        // Sent again it is the same one again.
        let (again, _) = self.track(&frame, request);
        if !payload.is_empty() {
            assert_eq!(again, after, "sent again");
        }
        let by = u32::try_from(text.len()).expect("short").wrapping_sub(u32::try_from(payload.len()).expect("short"));
        self.grown[from] = self.grown[from].wrapping_add(by);
        let sign = u32::from(flags & SYN != 0);
        self.seq[from] = self.seq[from].wrapping_add(sign).wrapping_add(u32::try_from(payload.len()).expect("short"));
        text
    }

    fn track(&self, frame: &[u8], request: &Request) -> (Vec<u8>, TrackVerdict) {
        let packet = packet(pool().mbuf_from(frame).expect("the pool is large enough"));
        match self.conntrack.track(packet, request, place()).0 {
            Outcome::Tracked(packet, verdict) => {
                let after = packet.mbuf.to_vec();
                assert_eq!(usize::from(packet.layers.l3_end), after.len(), "where it ends");
                (after, verdict)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Its sums and lengths are right, its numbers are those of the text before; returns its text.
    fn check(&self, from: usize, before: &[u8], after: &[u8]) -> Vec<u8> {
        let to = 1 - from;
        let parts = Parts::of_frame(after).expect("an IP packet");
        assert_eq!(parts.end, after.len(), "its length");
        assert_eq!((parts.header_sum(after).unwrap_or(0xffff), parts.l4_sum(after)), (0xffff, Some(0xffff)), "sums");
        let len = if parts.v6 { 16 } else { 4 };
        let source = parts.l3 + if parts.v6 { 8 } else { 12 };
        let address = |number: u128| number.to_be_bytes()[16 - len..].to_vec();
        assert_eq!(after[source..source + len], address(self.known[from]), "its source");
        assert_eq!(after[source + len..source + 2 * len], address(self.own[to]), "its destination");
        let word = |bytes: &[u8], at: usize| {
            bytes[parts.l4 + at..].first_chunk().map_or(0, |number| u32::from_be_bytes(*number))
        };
        assert_eq!(word(after, 4), word(before, 4).wrapping_add(self.grown[from]), "its sequence number");
        let taken = if after[parts.l4 + 13] & ACK == 0 { 0 } else { self.grown[to] };
        assert_eq!(word(after, 8), word(before, 8).wrapping_sub(taken), "its acknowledgment number");
        let (text, told) = (&before[parts.l4 + 20..], &after[parts.l4 + 20..]);
        assert!(text == told || self.is_other_address(from, text, told), "{text:?} became {told:?}");
        told.to_vec()
    }

    /// Whether two texts differ in an address that an end has on both sides of the switch.
    fn is_other_address(&self, from: usize, text: &[u8], told: &[u8]) -> bool {
        #[allow(clippy::cast_possible_truncation)] // IPv4 lies in the low half
        let shown = |number: u128| match self.family {
            Family::V4 => IpAddr::from(Ipv4Addr::from(number as u32)),
            Family::V6 => IpAddr::from(Ipv6Addr::from(number)),
        };
        let (own, known) = (shown(self.own[from]), shown(self.known[from]).to_string());
        ['.', ','].iter().any(|point| {
            let new = known.replace('.', &point.to_string());
            let is_at = |at: usize| {
                let behind = at + new.len();
                let Some(end) = (told.len() - behind <= text.len()).then(|| text.len() - (told.len() - behind)) else {
                    return false;
                };
                let old = text.get(at..end).and_then(|old| str::from_utf8(old).ok());
                let old = old.and_then(|old| old.replace(*point, ".").parse::<IpAddr>().ok());
                text.get(..at) == told.get(..at) && text[end..] == told[behind..] && old == Some(own)
            };
            let places = told.windows(new.len()).enumerate().filter(|(_, part)| *part == new.as_bytes());
            places.map(|(at, _)| at).any(is_at)
        })
    }
}

/// Both ends of a control connection say what the input says. The first byte says what is
/// translated; of each segment the first one says whose it is and how long. Returns how many texts
/// were changed.
///
/// # Panics
/// When a segment has wrong sums, lengths, addresses or numbers, when more of its text changes than
/// its sender's address, or when the same segment is another one when it is sent again.
pub fn ftp(input: &[u8]) -> usize {
    let Some((how, mut input)) = input.split_first() else { return 0 };
    let mut talk = Talk::new(*how);
    let mut changed = 0;
    for _ in 0..SEGMENTS_MAX {
        let Some((first, rest)) = input.split_first() else { break };
        let (text, rest) = rest.split_at(usize::from(first >> 1).min(rest.len()));
        let told = talk.say(usize::from(first & 1), PUSH | ACK, text);
        changed += usize::from(told != text);
        input = rest;
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said(from: u8, text: &str) -> Vec<u8> {
        [&[u8::try_from(text.len()).expect("short") << 1 | from], text.as_bytes()].concat()
    }

    #[test]
    fn texts_change_where_ends_are_hidden() {
        let port = said(0, "PORT 10,0,0,1,16,1\r\n");
        let passive = said(1, "227 x (10,0,0,2,16,3)\r\n");
        for (how, expected) in [(0, 0), (2, 2), (4, 1), (2 | 8, 2)] {
            let input = [&[how][..], &port, &passive, &said(0, "LIST\r\n"), &port].concat();
            assert_eq!(ftp(&input), expected, "how {how}");
        }
        let eprt = [&[3][..], &said(0, "EPRT |2|fd00:0::1|6446|\r\n"), &said(1, "200\r\n")].concat();
        assert_eq!(ftp(&eprt), 1);
    }

    proptest! {
        #[test]
        fn any_texts_hold(how in 0..16_u8, texts in proptest::collection::vec(
            (0..2_u8, "(PORT|EPRT|227|229|LIST) [0-9,|.:() ]{0,30}(10,0,0,[12],)?[0-9,|]{0,10}\r\n"), 0..8)
        ) {
            let input: Vec<u8> = texts.iter().flat_map(|(from, text)| said(*from, text)).collect();
            ftp(&[&[how], &input[..]].concat());
        }
    }
}
