//! Fragments in any order, of any lengths, by several ports, zones and tunnels.

use super::{conntrack, established, packet, pool};
use crate::conntrack::{CtPlace, Outcome};
use crate::limits::FRAGMENT_TIMEOUT_MS;
use crate::port::PortId;
use crate::time::Millis;
use vswitch_conntrack::{End, Family, Rewrite};

/// Bytes that say one fragment.
const STEP_LEN: usize = 8;

/// Fragments of one input.
const STEPS_MAX: usize = 200;

/// Where the fragment's part of the payload starts.
const fn payload_at(family: Family) -> usize {
    match family {
        Family::V4 => 34,
        Family::V6 => 62,
    }
}

/// One fragment as eight bytes say it. Its payload tells whose it is.
#[derive(Clone, Copy, Debug)]
struct FuzzFragment {
    family: Family,
    place: CtPlace,
    zone: u16,
    id: u8,
    /// In units of 8 bytes.
    offset: u16,
    len: usize,
    more: bool,
}

impl FuzzFragment {
    fn of(bytes: [u8; STEP_LEN], now: u64) -> Self {
        let [kind, id, high, low, len_high, len_low, ..] = bytes;
        Self {
            family: if kind & 1 == 0 { Family::V4 } else { Family::V6 },
            place: CtPlace {
                worker: 0,
                now: Millis(now),
                port: PortId(u16::from(kind >> 1 & 1)),
                tunnel: u64::from(kind >> 2 & 1),
                before: 0,
                cached: false,
                unknown: false,
            },
            zone: u16::from(kind >> 3 & 1),
            id: id & 3,
            offset: u16::from_be_bytes([high, low]) & 0x1fff,
            len: usize::from(u16::from_be_bytes([len_high, len_low])) % 1200,
            more: kind & 16 != 0,
        }
    }

    /// Of the datagram.
    fn tag(&self) -> u8 {
        let family = u8::from(self.family == Family::V6);
        let place = u8::try_from(self.place.port.0 << 1 | self.zone << 2).unwrap_or(0);
        family | place | u8::from(self.place.tunnel > 0) << 3 | self.id << 4
    }

    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let more = u16::from(self.more);
        match self.family {
            Family::V4 => {
                frame.extend_from_slice(&[8, 0, 0x45, 0]);
                frame.extend_from_slice(&u16::try_from(self.len + 20).expect("short").to_be_bytes());
                frame.extend_from_slice(&[0, self.id]);
                frame.extend_from_slice(&(self.offset | more << 13).to_be_bytes());
                frame.extend_from_slice(&[64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
                let sum = !super::oracle::naive_sum(&frame[14..]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            Family::V6 => {
                frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend_from_slice(&u16::try_from(self.len + 8).expect("short").to_be_bytes());
                frame.extend_from_slice(&[44, 64]);
                frame.extend_from_slice(&[[0xfd; 16], [0xfe; 16]].concat());
                frame.extend_from_slice(&[253, 0]);
                frame.extend_from_slice(&(self.offset << 3 | more).to_be_bytes());
                frame.extend_from_slice(&[0, 0, 0, self.id]);
            }
        }
        frame.resize(payload_at(self.family) + self.len, self.tag());
        frame
    }
}

/// Fragments in any order come, and time passes. Returns how many datagrams became complete.
///
/// # Panics
/// When a packet is lost or comes twice, when those of different datagrams are joined, when what is
/// joined has gaps or is not in order, or when something waits longer than it may.
pub fn fragments(input: &[u8]) -> usize {
    let conntrack = conntrack();
    let (mut now, mut sent, mut left, mut complete) = (0, 0, 0, 0);
    for bytes in input.as_chunks::<STEP_LEN>().0.iter().take(STEPS_MAX) {
        now += u64::from(bytes[6] & 15) * 100;
        let step = FuzzFragment::of(*bytes, now);
        let Some(mbuf) = pool().mbuf_from(&step.frame()) else { return complete };
        sent += 1;
        let to = Rewrite { src: Some(End { addr: 0x0a09_0909, port: 7 }), ..Rewrite::default() };
        match conntrack.pass(packet(mbuf), step.zone, step.place, |_| established(to)) {
            Outcome::Held => {}
            Outcome::Tracked(..) => {
                assert!(step.offset == 0 && !step.more, "{step:?} is a fragment");
                left += 1;
            }
            Outcome::Drop(..) => left += 1,
            Outcome::Complete(fragments) => {
                let packets: Vec<Vec<u8>> = fragments.packets.iter().map(|packet| packet.mbuf.to_vec()).collect();
                left += packets.len();
                check(&packets, step);
                complete += 1;
            }
        }
        conntrack.maintain(Millis(now), |port, _, _| {
            assert!(port.0 < 2, "{port:?}");
            left += 1;
        });
        assert_eq!(conntrack.waiting().1, sent - left, "packets lost, or there twice");
    }
    conntrack.maintain(Millis(now + FRAGMENT_TIMEOUT_MS), |_, _, _| left += 1);
    assert_eq!((conntrack.waiting(), left), ((0, 0), sent), "after the timeout");
    complete
}

/// All of one datagram, in order, without gaps, translated.
fn check(packets: &[Vec<u8>], last: FuzzFragment) {
    let (mut at, start) = (0, payload_at(last.family));
    for (i, bytes) in packets.iter().enumerate() {
        assert!(bytes[start..].iter().all(|byte| *byte == last.tag()), "fragments of others among those of {last:?}");
        let field = if last.family == Family::V4 { [bytes[20], bytes[21]] } else { [bytes[56], bytes[57]] };
        let field = usize::from(u16::from_be_bytes(field));
        let (offset, more) = match last.family {
            Family::V4 => ((field & 0x1fff) * 8, field & 0x2000 != 0),
            Family::V6 => (field & 0xfff8, field & 1 != 0),
        };
        assert_eq!((offset, more), (at, i + 1 < packets.len()), "fragment {i} of {}", packets.len());
        at += bytes.len() - start;
        if last.family == Family::V4 {
            assert_eq!(super::oracle::naive_sum(&bytes[14..34]), 0xffff, "header checksum of fragment {i}");
            assert_eq!(bytes[26..30], [10, 9, 9, 9], "address of fragment {i}");
        }
    }
}
