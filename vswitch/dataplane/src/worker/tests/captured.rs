//! Captures of what passes ports.

use super::bed::{self, Bed, output, tcp, udp};
use super::programs::Packet;
use crate::capture::{Captures, Interface, Point, RECORDS_MAX, SESSIONS_MAX, Session, SessionSpec, id_of};
use crate::observe::DropReason;
use crate::port::PortId;
use std::sync::Arc;
use vswitch_flow::Action;

/// A record as its reader sees it: number of the port, point, id, length, bytes.
type Seen = (u16, Point, u64, usize, Vec<u8>);

fn session(ports: &[u16], points: &[Point], matching: &str, snaplen: usize) -> Arc<Session> {
    let of = |port: &u16| {
        let (port, name) = (PortId(port - 1), format!("p{port}"));
        points.iter().map(move |point| Interface { port, name: name.clone(), point: *point })
    };
    let matching = (!matching.is_empty()).then(|| (*bed::matching(matching)).clone());
    let spec = SessionSpec { interfaces: ports.iter().flat_map(of).collect(), matching, snaplen };
    Arc::new(Session::new(spec, 1, 0))
}

fn capture(bed: &mut Bed, sessions: &[&Arc<Session>]) {
    let places: [_; SESSIONS_MAX] = std::array::from_fn(|i| sessions.get(i).map(|session| Arc::clone(session)));
    bed.captures = (!sessions.is_empty()).then(|| Arc::new(Captures::new(places, |_, _, _| true)));
    bed.publish();
}

/// All that was copied by now.
fn seen(bed: &mut Bed, session: &Session) -> Vec<Seen> {
    let mut all = Vec::new();
    let mut take = |worker, buffer: &crate::capture::Buffer| {
        assert_eq!(worker, 0);
        for (record, bytes) in buffer.records() {
            assert_eq!(record.refused, None);
            let interface = &session.spec().interfaces[usize::from(record.interface)];
            all.push((interface.port.0 + 1, interface.point, record.id, record.length as usize, bytes.to_vec()));
        }
    };
    loop {
        // The last buffer comes when the others have been taken.
        bed.walk.maintain(bed.now);
        if !session.read(&mut take) {
            return all;
        }
    }
}

const BOTH: [Point; 2] = [Point::Rx, Point::Tx];

#[test]
fn what_comes_in_and_what_goes_out_is_copied_as_it_is() {
    let mut bed = Bed::new(3);
    bed.add(0, 1, "tcp", vec![output(3), Action::SetTtl(9), output(2)]);
    let all = session(&[1, 2, 3], &BOTH, "", 2000);
    capture(&mut bed, &[&all]);
    let frames = [tcp(1, 2, 80), tcp(1, 2, 81), udp(1, 2, 82)];
    bed.receive_in(1, &frames, 32);
    let sent = bed.sent();
    let seen = seen(&mut bed, &all);
    let at = |port, point| seen.iter().filter(move |seen| (seen.0, seen.1) == (port, point));
    let bytes = |port, point| at(port, point).map(|seen| seen.4.clone()).collect::<Vec<_>>();
    assert_eq!(bytes(1, Point::Rx), frames);
    for port in [2, 3] {
        let left: Vec<_> = sent.iter().filter(|(by, _)| *by == port).map(|(_, frame)| frame.clone()).collect();
        let port = u16::try_from(port).expect("small");
        assert_eq!(bytes(port, Point::Tx), left);
        assert_eq!(left.len(), 2);
        let ids = |port, point| at(port, point).map(|seen| seen.2).collect::<Vec<_>>();
        assert_eq!(ids(port, Point::Tx), ids(1, Point::Rx)[..2], "copies have the id of their packet");
    }
    let mut ids: Vec<_> = at(1, Point::Rx).map(|seen| seen.2).collect();
    ids.dedup();
    assert!(ids.len() == 3 && !ids.contains(&0), "{ids:?}");
    assert_eq!(bytes(1, Point::Tx), [[0_u8; 0]; 0]);
}

/// The pair before and behind a translation: on the slow path first, then on the fast path.
#[test]
fn a_translated_packet_has_one_id_on_both_paths() {
    let mut bed = Bed::new(3);
    bed.program(&[
        "priority=9,ip,actions=ct(zone=5,table=1,nat)",
        "table=1,priority=9,in_port=1,ip,ct_state=+new+trk,actions=ct(commit,zone=5,table=2,nat(dst=10.0.0.2:8080))",
        "table=1,priority=8,ct_state=+est+trk,actions=resubmit(,2)",
        "table=2,priority=9,ip,in_port=1,actions=dec_ttl,set_field:02:00:00:00:00:aa->eth_dst,output:2",
        "table=2,priority=9,ip,in_port=2,actions=dec_ttl,set_field:02:00:00:00:00:bb->eth_src,output:1",
    ]);
    let pair = session(&[1, 2], &BOTH, "udp,nw_src=10.0.0.1,nw_dst=10.0.0.9,tp_dst=80", 2000);
    capture(&mut bed, &[&pair]);
    let packet = |ends| Packet { v6: false, tcp: None, ends, len: 20, ttl: 64, tagged: false }.bytes();
    let (there, back) = (packet([(1, 4000), (9, 80)]), packet([(2, 8080), (1, 4000)]));
    let mut last = 0;
    for round in 0..8 {
        bed.receive(1, &there);
        let sent = bed.sent();
        let seen = seen(&mut bed, &pair);
        let [(1, Point::Rx, before, _, was), (2, Point::Tx, after, _, is)] = &seen[..] else {
            panic!("round {round}: {seen:?}")
        };
        assert_eq!(before, after, "round {round}");
        assert!(*before > last, "round {round}: an id of its own");
        last = *before;
        assert_eq!((was, is), (&there, &sent[0].1), "round {round}");
        assert_eq!((was[30..34].to_vec(), is[30..34].to_vec()), (vec![10, 0, 0, 9], vec![10, 0, 0, 2]));
        // What does not fit the match, and did not when it came in, is another's.
        bed.receive(2, &back);
        assert_eq!(bed.sent().len(), 1, "round {round}");
        assert_eq!(super::captured::seen(&mut bed, &pair), []);
    }
    assert!(bed.shared.stats.program_hits.get() >= 4, "some of these packets took the fast path");
    let totals = pair.totals();
    let [rx1, tx1, rx2, tx2] = &totals[..] else { panic!("{totals:?}") };
    assert_eq!([rx1, tx1, rx2, tx2].map(|totals| totals.passed), [8; 4]);
    assert_eq!([rx1, tx1, rx2, tx2].map(|totals| totals.copied), [8, 0, 0, 8]);
}

#[test]
fn each_session_has_its_own_match_length_and_end() {
    let mut bed = Bed::new(2);
    bed.add(0, 1, "", vec![output(2)]);
    let (of_tcp, of_udp) = (session(&[1], &BOTH, "tcp", 40), session(&[1, 2], &[Point::Tx], "udp", 2000));
    capture(&mut bed, &[&of_tcp, &of_udp]);
    let frames = [tcp(1, 2, 80), udp(1, 2, 80), tcp(1, 2, 81)];
    bed.receive_in(1, &frames, 2);
    let lengths: Vec<_> = seen(&mut bed, &of_tcp).into_iter().map(|seen| (seen.1, seen.3, seen.4.len())).collect();
    assert_eq!(lengths, [(Point::Rx, frames[0].len(), 40), (Point::Rx, frames[2].len(), 40)]);
    assert_eq!(seen(&mut bed, &of_udp).into_iter().map(|seen| seen.4).collect::<Vec<_>>(), [frames[1].clone()]);
    // What was copied before the end is its reader's, and nothing after it.
    bed.receive_in(1, &frames, 1);
    capture(&mut bed, &[&of_udp]);
    bed.receive_in(1, &frames, 1);
    assert_eq!(seen(&mut bed, &of_tcp).len(), 2);
    assert_eq!(of_tcp.totals()[0].copied, 4);
    assert_eq!(seen(&mut bed, &of_udp).len(), 2);
    // Packets that come in by a port that is not looked at have no id, in whatever mbuf.
    capture(&mut bed, &[]);
    bed.receive_in(1, &frames, 1);
    let out = session(&[2], &[Point::Tx], "", 2000);
    capture(&mut bed, &[&out]);
    bed.receive_in(1, &frames, 1);
    let ids: Vec<_> = seen(&mut bed, &out).into_iter().map(|seen| seen.2).collect();
    assert_eq!(ids, [0; 3]);
}

/// Copied, and not copied for want of room, are together what the port counted.
#[test]
fn what_a_slow_reader_misses_is_counted() {
    let mut bed = Bed::new(2);
    bed.add(0, 1, "tcp", vec![output(2)]);
    bed.add(0, 1, "udp", vec![]);
    let slow = session(&[1, 2], &BOTH, "tcp", 60);
    capture(&mut bed, &[&slow]);
    let mut frames = vec![tcp(1, 2, 80); 31];
    frames.push(udp(1, 2, 80));
    let rounds = 2 * crate::capture::BUFFERS_MAX * RECORDS_MAX / 62;
    for _ in 0..rounds {
        bed.receive_in(1, &frames, 32);
    }
    bed.sent();
    let copied = seen(&mut bed, &slow).len() as u64;
    let totals = slow.totals();
    let rounds = rounds as u64;
    assert_eq!(totals[0].passed, 32 * rounds);
    assert_eq!(totals[3].passed, bed.totals(2).tx_packets);
    assert_eq!(totals.iter().map(|totals| totals.copied).sum::<u64>(), copied);
    for at in [0, 3] {
        assert!(totals[at].missed > 0);
        assert_eq!(totals[at].copied + totals[at].missed, 31 * rounds, "{at}");
    }
    assert_eq!((totals[1], totals[2]), Default::default());
    assert_eq!(bed.totals(1).rx_drops[DropReason::TxFull.index()], 0);
    // The reader has given its buffers back: there is room again.
    bed.receive_in(1, &frames, 32);
    assert_eq!(seen(&mut bed, &slow).len(), 62);
}

/// Long packets: one burst fills one buffer and no more.
#[test]
fn a_burst_copies_no_more_than_one_buffer() {
    let mut bed = Bed::new(2);
    bed.big_frames();
    bed.add(0, 1, "", vec![output(2)]);
    let long = session(&[1], &[Point::Rx], "", usize::MAX);
    capture(&mut bed, &[&long]);
    let mut frame = tcp(1, 2, 80);
    frame.resize(9000, 0xee);
    bed.receive_in(1, &vec![frame.clone(); 32], 32);
    let seen = seen(&mut bed, &long);
    assert_eq!((seen.len(), long.totals()[0].missed), (7, 25), "7 of 9,000 bytes fit in 64 KiB");
    assert!(seen.iter().all(|seen| seen.4 == frame));
}

/// Packets that die are captured by their ports, with why and where.
#[test]
fn packets_that_die_are_captured_with_their_reason() {
    let mut bed = Bed::new(2);
    bed.add(0, 2, "tcp,tp_dst=80", vec![output(2)]);
    bed.add(0, 1, "tcp", vec![]);
    let dying = session(&[1], &[Point::Rx, Point::Drop], "tcp,tp_dst=81", 2000);
    capture(&mut bed, &[&dying]);
    bed.sampler.add_tap(&dying.drops()[0]);
    bed.receive_in(1, &[tcp(1, 2, 80), tcp(1, 2, 81), tcp(1, 2, 82), udp(1, 2, 81)], 32);
    bed.receive_in(2, &[tcp(1, 2, 81)], 1); // of another port
    let came = seen(&mut bed, &dying);
    let mut left_out = [0; 2];
    let (interface, sample) = dying.read_drop(&mut left_out).expect("one has died");
    assert_eq!((interface, sample.reason, id_of(sample.tag)), (1, DropReason::RuleDrop, came[0].2));
    assert_eq!((sample.bytes(), sample.len), (&tcp(1, 2, 81)[..], came[0].3));
    assert_eq!(sample.decider.map(|decider| (decider.table, decider.matched)), Some((0, true)));
    assert!(dying.read_drop(&mut left_out).is_none());
    assert_eq!(left_out, [0, 2]);
    let totals = dying.totals();
    assert_eq!((totals[1].passed, totals[1].copied, totals[1].missed), (3, 3, 0));
    // Behind its end nothing is kept.
    bed.sampler.remove_tap(&dying.drops()[0]);
    bed.receive(1, &tcp(1, 2, 81));
    assert!(dying.read_drop(&mut left_out).is_none());
}
