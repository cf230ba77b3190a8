#![allow(clippy::cast_possible_truncation)] // lengths of messages that are made here

use super::*;
use proptest::prelude::*;

/// A datagram with a message, cut into fragments at these places (multiples of 8).
fn fragments(message: &[u8], cuts: &[usize], six: bool, id: u16) -> Vec<Vec<u8>> {
    let udp = [&[0, 53, 0x30, 0x39][..], &((message.len() + 8) as u16).to_be_bytes(), &[0, 0], message].concat();
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut / 8 * 8).filter(|cut| (1..udp.len()).contains(cut)).collect();
    ends.push(udp.len());
    ends.sort_unstable();
    ends.dedup();
    let mut from = 0;
    let mut all = Vec::new();
    for end in ends {
        all.push(fragment(&udp[from..end], from, end < udp.len(), six, id));
        from = end;
    }
    all
}

fn fragment(data: &[u8], offset: usize, more: bool, six: bool, id: u16) -> Vec<u8> {
    if six {
        let word = (offset as u16 | u16::from(more)).to_be_bytes();
        let len = ((data.len() + 8) as u16).to_be_bytes();
        let head = [&[0; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0], &len, &[44, 64], &[7; 32]].concat();
        return [&head, &[17, 0][..], &word, &[0, 0], &id.to_be_bytes(), data].concat();
    }
    let word = ((offset as u16 / 8) | (u16::from(more) << 13)).to_be_bytes();
    let total = ((data.len() + 20) as u16).to_be_bytes();
    let head = [
        &[0; 12][..],
        &[8, 0, 0x45, 0],
        &total,
        &id.to_be_bytes(),
        &word,
        &[64, 17, 0, 0, 10, 96, 0, 10, 10, 10, 0, 24],
    ];
    [head.concat(), data.to_vec()].concat()
}

fn segment(sequence: u32, flags: u8, data: &[u8]) -> Vec<u8> {
    let tcp =
        [&[0, 53, 0x30, 0x39][..], &sequence.to_be_bytes(), &[0; 4], &[0x50, flags, 1, 0, 0, 0, 0, 0], data].concat();
    let total = ((tcp.len() + 20) as u16).to_be_bytes();
    let head = [&[0; 12][..], &[8, 0, 0x45, 0], &total, &[0, 0, 0, 0, 64, 6, 0, 0, 10, 96, 0, 10, 10, 10, 0, 24]];
    [head.concat(), tcp].concat()
}

fn stream(messages: &[Vec<u8>]) -> Vec<u8> {
    messages.iter().flat_map(|one| [&(one.len() as u16).to_be_bytes()[..], one].concat()).collect()
}

#[test]
fn fragments_go_on_together_when_all_are_there() {
    let message = vec![9; 3000];
    for six in [false, true] {
        let parts = fragments(&message, &[1480, 2960], six, 1);
        assert_eq!(parts.len(), 3);
        let mut assembly = Assembly::default();
        assert_eq!(assembly.put(&parts[2], 2, 0), Put::on(vec![], vec![]));
        assert_eq!(assembly.put(&parts[0], 0, 0), Put::on(vec![], vec![]));
        assert_eq!((assembly.waiting(), assembly.bytes() > 1000), (2, true));
        assert_eq!(assembly.put(&parts[1], 1, 0), Put::on(vec![2, 0, 1], vec![message.clone()]));
        assert_eq!((assembly.waiting(), assembly.bytes()), (0, 0));
        // One that waits for too long.
        assembly.put(&parts[0], 5, 100);
        assert!(assembly.expire(100 + FRAGMENTS_MS - 1).is_empty());
        assert_eq!(assembly.expire(100 + FRAGMENTS_MS), [5]);
        assert_eq!(assembly.bytes(), 0);
    }
}

#[test]
fn what_overlaps_is_given_up_and_the_oldest_gives_way() {
    let message = vec![9; 3000];
    let parts = fragments(&message, &[1480], false, 1);
    let mut assembly = Assembly::default();
    assembly.put(&parts[0], 0, 0);
    assert_eq!(assembly.put(&fragment(&[1; 16], 1472, true, false, 1), 1, 0).given_up, [0, 1]);
    assembly.put(&parts[1], 0, 0);
    assert_eq!(assembly.put(&fragment(&[1; 16], 4000, true, false, 1), 1, 0).given_up, [0, 1], "behind its end");
    assert_eq!(assembly.bytes(), 0);
    let mut given_up = 0;
    for id in 0..1000 {
        given_up += assembly
            .put(&fragments(&vec![9; 60_000], &[59_000], false, id)[0], usize::from(id), id.into())
            .given_up
            .len();
        assert!(assembly.bytes() <= BYTES_MAX && assembly.waiting() <= DATAGRAMS_MAX);
    }
    assert_eq!(given_up, 1000 - DATAGRAMS_MAX);
    let mut assembly = Assembly::default();
    for id in 0..64 {
        for at in 1..40 {
            assembly.put(&fragment(&[1; 8], at * 8, true, false, id), (), id.into());
            assert!(assembly.waiting() <= WAITING_MAX);
        }
    }
}

#[test]
fn the_segment_that_makes_a_message_whole_waits_with_it() {
    let (one, two) = (vec![1; 100], vec![2; 50]);
    let bytes = stream(&[one.clone(), two.clone()]);
    let mut assembly = Assembly::default();
    let start = u32::MAX - 30;
    let mut put =
        |at: usize, end: usize| assembly.put(&segment(start.wrapping_add(1 + at as u32), 16, &bytes[at..end]), at, 0);
    assert_eq!(put(0, 2), Put::on(vec![0], vec![]), "its length alone");
    assert_eq!(put(60, 110), Put::on(vec![60], vec![]), "behind a gap");
    assert_eq!(put(2, 60), Put::on(vec![2], vec![one.clone()]));
    assert_eq!(put(2, 60), Put::on(vec![2], vec![one.clone()]), "again");
    assert_eq!(put(60, 110), Put::on(vec![60], vec![one.clone()]), "again");
    assert_eq!(put(110, 154), Put::on(vec![110], vec![two]));
    // Another connection with the same ends.
    assert_eq!(assembly.put(&segment(7, 18, &[]), 0, 0), Put::on(vec![0], vec![]));
    assert_eq!(assembly.put(&segment(8, 16, &stream(std::slice::from_ref(&one))), 1, 0), Put::on(vec![1], vec![one]));
    assert!(assembly.expire(STREAM_MS).is_empty());
    assert_eq!(assembly.bytes(), 0);
}

#[test]
fn streams_that_never_end_stay_within_their_limits() {
    let mut assembly = Assembly::default();
    for at in 0..20_000_u32 {
        let mut frame = segment(at.wrapping_mul(1400), 16, &[0xff; 1400]);
        frame[36..38].copy_from_slice(&((at / 8) as u16).to_be_bytes());
        assert_eq!(assembly.put(&frame, at, 0), Put::on(vec![at], vec![]));
        assert!(assembly.bytes() <= BYTES_MAX && assembly.streams.len() <= STREAMS_MAX);
    }
    let kept: usize = assembly.streams.values().map(Stream::bytes).sum();
    assert_eq!(assembly.bytes(), kept);
}

proptest! {
    /// However a message is cut, and in whatever order its parts come: it is there once, with the
    /// last of them.
    #[test]
    fn a_message_is_there_once_however_it_is_cut(
        len in 1..4000_usize, cuts in prop::collection::vec(0..4000_usize, 0..8), six: bool, order in any::<u64>(),
    ) {
        let message: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let mut parts = fragments(&message, &cuts, six, 3);
        let turns = order as usize % parts.len();
        parts.rotate_left(turns);
        if order & (1 << 63) != 0 {
            parts.reverse();
        }
        let mut assembly = Assembly::default();
        for (at, part) in parts.iter().enumerate() {
            let put = assembly.put(part, at, 0);
            let last = at + 1 == parts.len();
            prop_assert_eq!(put.messages, if last { vec![message.clone()] } else { vec![] });
            prop_assert_eq!(put.on.len(), if last { parts.len() } else { 0 });
            prop_assert!(put.given_up.is_empty());
        }
        prop_assert_eq!((assembly.waiting(), assembly.bytes()), (0, 0));
    }

    /// Segments in any order, some of them twice: each message is there when its last byte is, and
    /// not before.
    #[test]
    fn messages_of_a_stream_are_there_however_it_is_cut(
        lens in prop::collection::vec(0..600_usize, 1..5), cuts in prop::collection::vec(0..2000_usize, 0..8),
        start: u32, order in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let messages: Vec<Vec<u8>> = lens.iter().enumerate().map(|(at, len)| vec![at as u8; *len]).collect();
        let bytes = stream(&messages);
        let mut ends: Vec<usize> = cuts.into_iter().filter(|cut| (1..bytes.len()).contains(cut)).chain([0, bytes.len()]).collect();
        ends.sort_unstable();
        ends.dedup();
        let parts: Vec<(usize, usize)> = ends.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let mut assembly = Assembly::default();
        assembly.put(&segment(start, 18, &[]), 0, 0);
        let mut there = vec![false; bytes.len()];
        let (mut seen, mut whole) = (Vec::new(), 0);
        let all = order.iter().map(|at| at.index(parts.len())).chain(0..parts.len());
        for (from, to) in all.map(|at| parts[at]) {
            let put = assembly.put(&segment(start.wrapping_add(1 + from as u32), 16, &bytes[from..to]), 0, 0);
            prop_assert_eq!(put.on.len(), 1);
            there[from..to].fill(true);
            let until = there.iter().take_while(|there| **there).count();
            let (mut end, mut now) = (0, 0);
            for message in &messages {
                end += 2 + message.len();
                now += usize::from(end <= until);
            }
            if now > whole {
                prop_assert_eq!(put.messages.len(), now - whole);
                seen.extend(put.messages);
                whole = now;
            } else {
                // Those of before, if it is one of before.
                prop_assert!(put.messages.iter().all(|message| seen.contains(message)));
            }
        }
        prop_assert_eq!(seen, messages);
    }

    #[test]
    fn any_frames_stay_within_the_limits(frames in prop::collection::vec((any::<bool>(), 0..40_u16, any::<bool>(), 0..3_u16, prop::collection::vec(any::<u8>(), 0..80)), 0..60)) {
        let mut assembly = Assembly::default();
        let (mut put, mut out) = (0, 0);
        for (six, offset, more, id, data) in frames {
            let done = assembly.put(&fragment(&data, usize::from(offset) * 8, more, six, id), (), 0);
            put += 1;
            out += done.on.len() + done.given_up.len();
            prop_assert_eq!(put, out + assembly.waiting(), "nobody is lost");
            assembly.put(&data, (), 0);
        }
        out += assembly.expire(FRAGMENTS_MS).len();
        prop_assert_eq!((put, assembly.bytes()), (out, 0));
    }
}
