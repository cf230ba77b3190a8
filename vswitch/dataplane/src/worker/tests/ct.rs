//! Packets behind `ct()`: what leaves, what is counted, and what bounds it.

use super::bed::{Bed, udp};
use crate::observe::DropReason;
use vswitch_flow::spec::Update;
use vswitch_flow::text::{NoNames, parse_bundle_line};

impl Bed {
    /// Lines of a bundle file.
    pub(super) fn program(&mut self, lines: &[&str]) {
        let update = |line: &&str| -> Update {
            parse_bundle_line(line, &NoNames).unwrap_or_else(|error| panic!("{line}: {error}")).value
        };
        self.write(&lines.iter().map(update).collect::<Vec<_>>());
    }

    fn drops(&self, port: usize, reason: DropReason) -> u64 {
        self.totals(port).rx_drops[reason.index()]
    }
}

/// What answers a packet: sums do not mind that addresses and ports change places.
pub(super) fn answer(packet: &[u8]) -> Vec<u8> {
    let part = |from: usize, len: usize| &packet[from..from + len];
    [part(6, 6), part(0, 6), part(12, 14), part(30, 4), part(26, 4), part(36, 2), part(34, 2), &packet[38..]].concat()
}

#[test]
fn a_connection_is_new_until_it_is_answered_then_established() {
    for cache in [true, false] {
        let mut bed = Bed::new(3);
        bed.shared.enable(cache);
        bed.program(&[
            "priority=9,ip,actions=ct(zone=5,table=1)",
            "table=1,priority=9,in_port=1,ip,ct_state=+new+trk,actions=ct(commit,zone=5,exec(load:7->NXM_NX_CT_MARK[])),output:2",
            "table=1,priority=8,in_port=1,ip,ct_state=+est+trk-rpl,ct_mark=7,actions=output:3",
            "table=1,priority=7,in_port=2,ip,ct_state=+est+trk+rpl,ct_mark=7,ct_nw_src=10.0.0.1,ct_tp_dst=53,actions=output:1",
        ]);
        let (question, back) = (udp(1, 2, 53), answer(&udp(1, 2, 53)));
        bed.receive(2, &back);
        assert!(bed.sent().is_empty(), "cache {cache}: an answer to nothing is new, from port 2");
        for _ in 0..3 {
            bed.receive(1, &question);
            assert_eq!(bed.sent(), [(2, question.clone())], "cache {cache}");
        }
        bed.receive(2, &back);
        assert_eq!(bed.sent(), [(1, back.clone())], "cache {cache}");
        bed.receive(1, &question);
        assert_eq!(bed.sent(), [(3, question.clone())], "cache {cache}");
        assert_eq!(bed.counts(), [(0, 9, 6, 6 * 58), (1, 7, 1, 58), (1, 8, 1, 58), (1, 9, 3, 3 * 58)], "cache {cache}");
        assert_eq!(bed.pool.in_use(), 0);
    }
}

#[test]
fn a_translated_connection_comes_back() {
    let mut bed = Bed::new(3);
    bed.program(&[
        "priority=9,ip,actions=ct(zone=5,table=1,nat)",
        "table=1,priority=9,in_port=1,ip,ct_state=+new+trk,actions=ct(commit,zone=5,table=2,nat(dst=10.0.0.3:5353))",
        "table=1,priority=8,ip,ct_state=+est+trk,actions=resubmit(,2)",
        "table=2,priority=9,udp,ct_state=+dnat,nw_dst=10.0.0.3,tp_dst=5353,ct_nw_dst=10.0.0.2,actions=output:2",
        "table=2,priority=8,udp,ct_state=+snat+rpl,nw_src=10.0.0.2,tp_src=53,actions=output:3",
    ]);
    let question = udp(1, 2, 53);
    for round in 0..3 {
        bed.receive(1, &question);
        let sent = bed.sent();
        assert_eq!(sent.len(), 1, "round {round}");
        let (port, there) = &sent[0];
        assert_eq!((*port, &there[30..34], &there[36..38]), (2, &[10, 0, 0, 3][..], &5353_u16.to_be_bytes()[..]));
        bed.receive(2, &answer(there));
        assert_eq!(
            bed.sent(),
            [(3, answer(&question))],
            "round {round}: bytes and sums as if nothing had been translated"
        );
    }
}

/// A fragment of the datagram fd00::1 -> fd00::2, UDP 4660 -> 53, 24 bytes long with its header.
fn fragment_of_ipv6(offset_and_more: u16, payload: &[u8]) -> Vec<u8> {
    let addresses = |last: u8| [&[0xfd, 0][..], &[0; 13], &[last]].concat();
    let length = u16::try_from(8 + payload.len()).expect("short").to_be_bytes();
    let ethernet = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
    let fragment = [&[17, 0][..], &offset_and_more.to_be_bytes(), &[0, 0, 0, 9]].concat();
    [&ethernet[..], &[0x60, 0, 0, 0], &length, &[44, 64], &addresses(1), &addresses(2), &fragment, payload].concat()
}

#[test]
fn a_later_fragment_of_ipv6_matches_what_the_first_one_does_behind_ct() {
    for cache in [true, false] {
        let mut bed = Bed::new(2);
        bed.shared.enable(cache);
        bed.program(&["priority=9,ipv6,actions=ct(table=1)", "table=1,priority=9,udp6,tp_dst=53,actions=output:2"]);
        let udp = [&[0x12, 0x34, 0, 53, 0, 24, 0xbb, 0x18][..], &[7; 16]].concat();
        let (first, later) = (fragment_of_ipv6(1, &udp[..16]), fragment_of_ipv6(16, &udp[16..]));
        bed.receive(1, &later);
        assert!(bed.sent().is_empty(), "cache {cache}: held");
        bed.receive(1, &first);
        assert_eq!(
            bed.sent(),
            [(2, first), (2, later)],
            "cache {cache}: nw_proto of the later one is not 44, fragment"
        );
    }
}

#[test]
fn a_loop_of_ct_ends_after_64_stages() {
    for cache in [true, false] {
        let mut bed = Bed::new(2);
        bed.shared.enable(cache);
        bed.program(&["priority=9,ip,actions=ct(table=0),output:2"]);
        let packet = udp(1, 2, 53);
        bed.receive(1, &packet);
        // Depth first: the innermost is cut, the others go on.
        assert_eq!(bed.sent().len(), 65, "cache {cache}");
        assert_eq!(bed.drops(1, DropReason::RecircDepth), 1, "cache {cache}");
        assert_eq!(bed.pool.in_use(), 0);
    }
}

#[test]
fn a_packet_that_forks_at_every_ct_is_bounded() {
    for cache in [true, false] {
        let mut bed = Bed::new(2);
        bed.shared.enable(cache);
        bed.program(&["priority=9,ip,actions=ct(table=0),ct(table=0)"]);
        bed.receive(1, &udp(1, 2, 53));
        assert!(bed.drops(1, DropReason::RecircDepth) > 0, "cache {cache}");
        assert_eq!(bed.pool.in_use(), 0);
        bed.receive(1, &udp(1, 2, 53));
    }
}

#[test]
fn a_list_of_many_ct_is_no_recursion() {
    let mut bed = Bed::new(2);
    let list = vec!["ct(commit)"; 2000].join(",");
    bed.program(&[&format!("priority=9,ip,actions={list},output:2")]);
    bed.receive(1, &udp(1, 2, 53));
    assert_eq!(bed.sent(), [(2, udp(1, 2, 53))]);
}
