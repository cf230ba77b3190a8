//! Through tables: what leaves, what is counted, and that order and splits of bursts make no
//! difference.

use super::bed::{Bed, add, output, tcp, udp};
use crate::observe::DropReason;
use vswitch_flow::action::{Learn, LearnSource, LearnSpec, port};
use vswitch_flow::{Action, Field, Subfield};

fn set(field: Field, value: u128) -> Action {
    Action::SetField { field, value, mask: field.ones() }
}

fn resubmit(table: u8) -> Action {
    Action::Resubmit { port: None, table: Some(table), ct: false }
}

/// Learns in table 10 that packets to this packet's source leave by its port.
fn learn() -> Action {
    let whole = Subfield::whole;
    Action::Learn(Box::new(Learn {
        idle_timeout: 0,
        hard_timeout: 0,
        fin_idle_timeout: 0,
        fin_hard_timeout: 0,
        priority: 7,
        cookie: 0,
        table: 10,
        send_flow_rem: false,
        delete_learned: false,
        limit: 0,
        result: None,
        specs: [
            LearnSpec::Match { from: LearnSource::Field(whole(Field::EthSrc)), to: whole(Field::EthDst) },
            LearnSpec::Output(whole(Field::InPort)),
        ]
        .into(),
    }))
}

#[test]
fn rules_forward_rewrite_and_count() {
    let mut bed = Bed::new(3);
    bed.add(0, 10, "tcp,tp_dst=80", vec![set(Field::TcpDst, 8080), Action::SetTtl(9), output(2)]);
    bed.add(0, 5, "ip", vec![output(2), output(3)]);
    bed.add(0, 0, "", vec![]);
    let (web, other, arp) = (tcp(1, 2, 80), udp(1, 2, 53), [&[2; 12][..], &[8, 6], &[0; 46]].concat());
    for round in 1..=3 {
        bed.receive(1, &web);
        let sent = bed.sent();
        assert_eq!(sent.len(), 1, "round {round}");
        let mut expected = tcp(1, 2, 8080);
        expected[22] = 9;
        let sum = crate::packet::checksum::update(u16::from_be_bytes([web[24], web[25]]), 0x4006, 0x0906);
        expected[24..26].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(sent[0], (2, expected), "round {round}");
        bed.receive(1, &other);
        assert_eq!(bed.sent(), [(2, other.clone()), (3, other.clone())], "round {round}");
        bed.receive(1, &arp);
        assert_eq!(bed.sent(), [], "round {round}");
        assert_eq!(bed.counts(), [(0, 0, round, round * 60), (0, 5, round, round * 58), (0, 10, round, round * 58)]);
    }
    assert_eq!(bed.totals(1).rx_drops[DropReason::RuleDrop.index()], 3);
    assert_eq!(bed.decided(), (4, 2, 3), "one translation each; ARP is not plain");
    assert_eq!(bed.pool.in_use(), 0);
}

#[test]
fn what_a_packet_teaches_the_next_one_knows() {
    for cache in [true, false] {
        for size in [1, 2, 3, 32] {
            let mut bed = Bed::new(3);
            bed.shared.enable(cache);
            bed.add(0, 10, "", vec![learn(), resubmit(10)]);
            bed.add(10, 0, "", vec![output(port::FLOOD)]);
            // 1 speaks by port 1; 2 answers by port 2, then asks 3, which is unknown; 1 moves to
            // port 2, and to the packet that says so is still where it was.
            bed.receive_in(1, &[tcp(1, 2, 1), tcp(1, 1, 1)], size);
            let first = bed.ports();
            bed.receive_in(2, &[tcp(2, 1, 1), tcp(2, 3, 1), tcp(2, 2, 1), tcp(1, 1, 2), tcp(2, 1, 2)], size);
            let sums = bed.counts();
            assert_eq!(first, [2, 3], "cache {cache}, bursts of {size}: the second packet goes where it came from");
            assert_eq!(bed.ports(), [1, 1, 1, 3], "cache {cache}, bursts of {size}");
            let learned: u64 = sums.iter().filter(|sum| sum.0 == 10 && sum.1 == 7).map(|sum| sum.2).sum();
            assert_eq!(learned, 5, "cache {cache}, bursts of {size}: {sums:?}");
        }
    }
}

#[test]
fn splits_of_bursts_are_equal() {
    let frames: Vec<Vec<u8>> = (0..67_u8).map(|i| tcp(i % 5, i % 35 * 7 % 5, u16::from(i % 3))).collect();
    let run = |size: usize, cache: bool| {
        let mut bed = Bed::new(4);
        bed.shared.enable(cache);
        bed.add(0, 10, "tcp,tp_dst=1", vec![learn(), output(4), set(Field::TcpDst, 99), resubmit(10)]);
        bed.add(0, 9, "tcp,tp_dst=2", vec![output(port::NORMAL)]);
        bed.add(10, 0, "ip", vec![Action::Clone([Action::SetTtl(3), output(port::FLOOD)].into()), output(3)]);
        for port in [1, 2, 1] {
            bed.receive_in(port, &frames, size);
        }
        let result = (bed.sent(), bed.counts(), (1..=4).map(|port| bed.totals(port)).collect::<Vec<_>>());
        assert_eq!(bed.pool.in_use(), 0, "bursts of {size}: an mbuf was lost");
        result
    };
    let expected = run(1, false);
    assert!(expected.0.len() > 60, "{} packets", expected.0.len());
    for (size, cache) in [(1, true), (2, true), (31, true), (32, true), (32, false)] {
        let result = run(size, cache);
        assert!(result.0 == expected.0, "bursts of {size}, cache {cache}: other packets");
        assert_eq!(result.1, expected.1, "bursts of {size}, cache {cache}: flows");
        assert_eq!(result.2, expected.2, "bursts of {size}, cache {cache}: ports");
    }
}

#[test]
fn every_lost_packet_has_one_reason() {
    let mut bed = Bed::new(2);
    bed.write(&[add(0, 3, "tcp", vec![output(2)]), add(0, 2, "udp", vec![])]);
    let mut long = tcp(1, 2, 3);
    long.resize(1523, 0);
    bed.receive_in(1, &[tcp(1, 2, 1), vec![0; 13], long, tcp(1, 2, 1), [0; 60].to_vec(), udp(1, 2, 1)], 32);
    assert_eq!(bed.ports(), [2, 2]);
    let drops = bed.totals(1).rx_drops;
    let expected = [DropReason::EthShort, DropReason::Oversize, DropReason::TableMiss, DropReason::RuleDrop];
    for reason in DropReason::ALL {
        let wanted = u64::from(expected.contains(reason));
        assert_eq!(drops[reason.index()], wanted, "{}", reason.name());
    }
    assert_eq!((bed.totals(1).rx_packets, bed.pool.in_use()), (6, 0));
}

#[test]
fn long_packets_and_headers_in_pieces_are_rewritten_too() {
    use crate::packet::L4;
    use crate::packet::testing::{Spec, cut};
    use vswitch_dpdk::{Burst, Csum};
    for cache in [true, false] {
        let mut bed = Bed::new(2);
        bed.shared.enable(cache);
        bed.add(0, 1, "tcp", vec![set(Field::TcpDst, 9), set(Field::NwSrc, 0x0a09_0807), output(2)]);
        let spec = Spec::plain(true, L4::Tcp, 3000);
        for (what, cuts, gso_size) in
            [("one piece", vec![], 0), ("many", vec![20, 20, 20, 500], 0), ("to be segmented", vec![7, 600], 1000)]
        {
            for _ in 0..2 {
                let mut mbuf = cut(&bed.pool, &spec.partial(), &cuts);
                mbuf.set_csum(Csum::Partial);
                mbuf.set_gso_size(gso_size);
                let mut burst = Burst::new();
                burst.push(mbuf).expect("room");
                bed.big_frames();
                bed.walk.burst(&mut burst, crate::port::PortId(0), bed.now);
                bed.walk.flush();
                let sent = bed.sent();
                assert_eq!(sent.len(), if gso_size == 0 { 1 } else { 3 }, "{what}, cache {cache}");
                for (_, packet) in sent {
                    let headers = crate::packet::Headers::of_bytes(&packet).expect("IP");
                    assert_eq!((&packet[26..30], &packet[36..38]), (&[10, 9, 8, 7][..], &[0, 9][..]), "{what}");
                    let sum = crate::packet::checksum::pseudo_v4(
                        [10, 9, 8, 7],
                        [packet[30], packet[31], packet[32], packet[33]],
                        6,
                        u16::try_from(headers.end - 34).expect("short"),
                    );
                    assert_eq!(
                        sum.bytes(&packet[34..headers.end]).checksum(),
                        0,
                        "{what}, cache {cache}: TCP checksum"
                    );
                }
            }
        }
        assert_eq!(bed.pool.in_use(), 0);
    }
}

#[test]
fn empty_pool_costs_copies_not_the_packet() {
    let mut bed = Bed::new(3);
    bed.add(0, 1, "", vec![output(2), output(3)]);
    let mut hoard: Vec<_> = std::iter::from_fn(|| bed.pool.alloc()).collect();
    drop(hoard.pop());
    bed.receive(1, &tcp(1, 2, 3));
    assert_eq!(bed.ports(), [3]);
    assert_eq!(bed.totals(2).tx_drops[DropReason::NoMbuf.index()], 1);
}
