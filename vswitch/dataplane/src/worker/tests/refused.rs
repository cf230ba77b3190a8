//! `reject(...)`: answers to packets as they came in, from whatever place in the pipeline.

use super::bed::Bed;
use super::programs::Packet;
use super::tunnels::from_peer;
use crate::observe::DropReason;
use crate::packet::Headers;
use crate::packet::testing::naive_checksum;
use crate::pipeline::Interest;
use crate::time::Millis;
use std::sync::Arc;
use vswitch_flow::text::{NoNames, parse_actions};
use vswitch_overlay::TunnelKind;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const RST: u8 = 0x04;

/// The client, and the service as he names it.
const ENDS: [(u8, u16); 2] = [(1, 4000), (9, 443)];

fn packet(v6: bool, tcp: Option<(u8, u32, u32)>, tagged: bool) -> Vec<u8> {
    Packet { v6, tcp, ends: ENDS, len: 20, ttl: 64, tagged }.bytes()
}

fn bed(cache: bool, lines: &[&str]) -> Bed {
    let mut bed = Bed::new(5);
    bed.shared.enable(cache);
    bed.program(lines);
    bed
}

/// The answer is what refuses that packet, as it was sent: ends exchanged, and of an error the
/// whole of it quoted.
fn assert_answers(answer: &[u8], packet: &[u8], told: &str) {
    let (to, from) = (Headers::of_bytes(answer).expect("headers"), Headers::of_bytes(packet).expect("headers"));
    assert_eq!((&answer[..6], &answer[6..12]), (&packet[6..12], &packet[..6]), "{told}");
    assert_eq!(answer[12..to.l2_len], packet[12..from.l2_len], "{told}: tags");
    let (at, half) = if to.ipv4 { (12, 4) } else { (8, 16) };
    let end = |bytes: &[u8], l2: usize, second: usize| bytes[l2 + at + second * half..][..half].to_vec();
    assert_eq!(end(answer, to.l2_len, 0), end(packet, from.l2_len, 1), "{told}: source");
    assert_eq!(end(answer, to.l2_len, 1), end(packet, from.l2_len, 0), "{told}: destination");
    let (l4, l4_of) = (to.l4_start(), from.l4_start());
    if from.protocol == 6 {
        assert_eq!((to.protocol, answer[l4 + 13] & RST), (6, RST), "{told}");
        let asked = &packet[l4_of..l4_of + 4];
        assert_eq!(answer[l4..l4 + 4], [&asked[2..], &asked[..2]].concat(), "{told}: ports");
    } else {
        assert_eq!((to.protocol, answer[l4]), if to.ipv4 { (1, 3) } else { (58, 1) }, "{told}");
        assert_eq!(answer[l4 + 8..to.end], packet[from.l2_len..from.end], "{told}: quoted as it was sent");
    }
    if to.ipv4 {
        assert_eq!(naive_checksum(&answer[to.l2_len..l4]), 0, "{told}: checksum");
    }
}

/// Tags, addresses, TTL and ports are others by then, the last two by the tracker, in three stages.
const TRANSLATED: [&str; 6] = [
    "priority=9,ip,actions=mod_dl_src:02:00:00:00:00:77,dec_ttl,mod_nw_tos:8,ct(commit,zone=5,table=1,nat(dst=10.0.0.2:8080))",
    "priority=9,ipv6,actions=mod_dl_src:02:00:00:00:00:77,dec_ttl,mod_nw_tos:8,ct(commit,zone=5,table=1,nat(dst=[fd00::2]:8080))",
    "table=1,priority=9,ip,actions=push_vlan:0x8100,ct(commit,zone=6,table=2,nat(src=10.0.0.7:99))",
    "table=1,priority=9,ipv6,actions=push_vlan:0x8100,ct(commit,zone=6,table=2,nat(src=[fd00::7]:99))",
    "table=2,priority=9,actions=mod_dl_dst:02:00:00:00:00:88,ct_forget,clone(output:3),load:1->NXM_NX_REG0[],resubmit(,3)",
    "table=3,priority=9,reg0=1,actions=reject(icmp=3,icmp6=4,IN_PORT)",
];

#[test]
fn the_answer_is_to_the_packet_as_it_came_in() {
    for cache in [true, false] {
        let mut bed = bed(cache, &TRANSLATED);
        for (v6, tcp, tagged) in [false, true].into_iter().flat_map(|v6| {
            [Some((SYN, 7, 0)), None].into_iter().flat_map(move |tcp| [false, true].map(|tagged| (v6, tcp, tagged)))
        }) {
            let sent = packet(v6, tcp, tagged);
            // Often: no packet of the kind takes a shorter way.
            for round in 0..5 {
                let told = format!("cache {cache}, v6 {v6}, {tcp:?}, tagged {tagged}, round {round}");
                bed.receive(1, &sent);
                let all = bed.sent();
                let [(1, answer), (3, changed)] = &all[..] else { panic!("{told}: {all:02x?}") };
                assert_answers(answer, &sent, &told);
                assert_ne!(changed[..12], sent[..12], "{told}: the packet itself is another by then");
                assert!(bed.connections().is_empty(), "{told}: neither it nor the answer is of a connection");
            }
        }
        assert_eq!(bed.pool.in_use(), 0);
    }
}

#[test]
fn without_the_tracker_cached_decisions_refuse_too() {
    let lines = [
        "priority=9,udp,actions=set_field:10.0.0.3->ip_dst,mod_tp_dst:5,reject(icmp=13,resubmit(,1))",
        "table=1,in_port=1,icmp,icmp_type=3,icmp_code=13,actions=output:4",
    ];
    for cache in [true, false] {
        let mut bed = bed(cache, &lines);
        for round in 0..4 {
            let sent = packet(false, None, false);
            bed.receive(1, &sent);
            let all = bed.sent();
            let [(4, answer)] = &all[..] else { panic!("cache {cache}, round {round}: {all:02x?}") };
            assert_answers(answer, &sent, "through a table of its own");
        }
        let totals = bed.totals(1);
        assert_eq!(totals.rx_drops[DropReason::Rejected.index()], 4);
    }
}

/// Wherever a list may stand: in clones, behind buckets of either kind (which are action sets, and
/// have no place for it), behind a length that is asked for, in an answer's own list.
#[test]
fn in_clones_and_groups_the_packet_is_the_same() {
    let lines = [
        "group add group_id=1,type=all,bucket=actions=set_field:10.0.0.3->ip_dst,resubmit(,12),bucket=actions=output:3",
        "group add group_id=2,type=select,bucket=weight:1,actions=set_field:10.0.0.3->ip_dst,resubmit(,14)",
        "priority=9,udp,actions=mod_tp_dst:7,clone(set_field:10.0.0.4->ip_src,reject(IN_PORT)),group:1,group:2,resubmit(,1)",
        "table=12,actions=reject(output:2)",
        "table=14,actions=reject(output:4)",
        "table=1,actions=check_pkt_larger(40)->NXM_NX_REG0[0],resubmit(,2)",
        "table=2,reg0=1,actions=reject(reject(output:3),output:5)",
    ];
    for cache in [true, false] {
        let mut bed = bed(cache, &lines);
        for round in 0..4 {
            let sent = packet(false, None, false);
            bed.receive(1, &sent);
            let all = bed.sent();
            let told = format!("cache {cache}, round {round}: {all:02x?}");
            let ports: Vec<usize> = all.iter().map(|(port, _)| *port).collect();
            assert_eq!(ports, [1, 2, 3, 4, 5], "{told}");
            for (port, answer) in all.iter().filter(|(port, _)| *port != 3) {
                assert_answers(answer, &sent, &format!("{told}, by {port}"));
            }
        }
        assert_eq!(bed.pool.in_use(), 0);
    }
}

/// Behind the tracker, which has translated it: who is told knows his own packet.
#[test]
fn who_sends_too_long_packets_is_told_how_long_they_may_be() {
    let lines = [
        "priority=9,ip,actions=check_pkt_larger(114)->NXM_NX_REG0[0],ct(commit,zone=5,table=1,nat(dst=10.0.0.2:8080))",
        "priority=9,ipv6,actions=check_pkt_larger(114)->NXM_NX_REG0[0],ct(commit,zone=5,table=1,nat(dst=[fd00::2]:8080))",
        "table=1,priority=9,reg0=1,actions=reject(mtu=100,IN_PORT)",
        "table=1,priority=8,actions=output:3",
    ];
    for cache in [true, false] {
        let mut bed = bed(cache, &lines);
        let mut told = 0;
        for (v6, tcp) in [(false, None), (false, Some((SYN, 7, 0))), (true, None), (true, Some((SYN, 7, 0)))] {
            let sent = |len| Packet { v6, tcp, ends: ENDS, len, ttl: 64, tagged: false }.bytes();
            for _ in 0..3 {
                bed.receive(1, &sent(20));
                assert_eq!(bed.ports(), [3], "cache {cache}, v6 {v6}, {tcp:?}");
                let long = sent(200);
                bed.receive(1, &long);
                let all = bed.sent();
                let [(1, answer)] = &all[..] else { panic!("cache {cache}, v6 {v6}, {tcp:?}: {all:02x?}") };
                let (to, from) = (Headers::of_bytes(answer).expect("IP"), Headers::of_bytes(&long).expect("IP"));
                let error = &answer[to.l4_start()..];
                // IPv6 has no links that carry less than 1280 bytes.
                let wanted: [u8; 4] = if v6 { [0, 0, 5, 0] } else { [0, 0, 0, 100] };
                assert_eq!((&error[..2], &error[4..8]), (if v6 { &[2, 0][..] } else { &[3, 4] }, &wanted[..]));
                assert_eq!(answer[to.l4_start() + 8..to.end], long[from.l2_len..from.end], "quoted as it was sent");
                assert_eq!((&answer[..6], &answer[6..12]), (&long[6..12], &long[..6]));
                told += 1;
            }
        }
        assert_eq!(bed.totals(1).rx_drops[DropReason::PathMtu.index()], told);
        assert_eq!(bed.pool.in_use(), 0);
    }
}

/// A packet that a device will segment is as long as its segments.
#[test]
fn segments_are_too_long_not_the_packet_that_has_them_all() {
    use crate::packet::L4;
    use crate::packet::testing::{Spec, cut};
    use vswitch_dpdk::{Burst, Csum};
    for (longest, ports) in [(1054, vec![3, 3, 3]), (1053, vec![2])] {
        let mut bed = bed(
            true,
            &[
                &format!("priority=9,tcp,actions=check_pkt_larger({longest})->NXM_NX_REG0[0],resubmit(,1)"),
                "table=1,priority=9,reg0=1,actions=reject(mtu=1039,IN_PORT)",
                "table=1,priority=8,actions=output:3",
            ],
        );
        let mut mbuf = cut(&bed.pool, &Spec::plain(true, L4::Tcp, 3000).partial(), &[]);
        mbuf.set_csum(Csum::Partial);
        mbuf.set_gso_size(1000);
        let mut burst = Burst::new();
        burst.push(mbuf).expect("room");
        bed.big_frames();
        bed.walk.burst(&mut burst, crate::port::PortId(1), bed.now);
        bed.walk.flush();
        assert_eq!(bed.ports(), ports, "{longest}");
        let dropped = bed.totals(2).rx_drops[DropReason::PathMtu.index()];
        assert_eq!(dropped, u64::from(ports == [2]), "{longest}");
    }
}

/// Which of a datagram's fragments came in as what nobody knows behind the reassembly.
#[test]
fn fragments_are_not_answered_before_nor_behind_ct() {
    let whole = packet(false, None, false);
    let fragment = |offset_and_more: u16, payload: &[u8]| {
        let mut bytes = [&whole[..34], payload].concat();
        bytes[16..18].copy_from_slice(&u16::try_from(20 + payload.len()).expect("short").to_be_bytes());
        bytes[20..22].copy_from_slice(&offset_and_more.to_be_bytes());
        bytes[24..26].fill(0);
        let sum = naive_checksum(&bytes[14..34]).to_be_bytes();
        bytes[24..26].copy_from_slice(&sum);
        bytes
    };
    let (first, later) = (fragment(0x2000, &whole[34..50]), fragment(2, &whole[50..62]));
    for actions in ["reject(IN_PORT),output:2", "ct(commit,zone=1,table=1,nat(dst=10.0.0.3))"] {
        let lines = [&format!("priority=9,ip,actions={actions}")[..], "table=1,actions=reject(IN_PORT),output:2"];
        for cache in [true, false] {
            let mut bed = bed(cache, &lines);
            for frames in [[&first, &later], [&later, &first]] {
                frames.into_iter().for_each(|frame| bed.receive(1, frame));
                assert_eq!(bed.ports(), [2, 2], "cache {cache}: {actions}");
            }
            assert_eq!(bed.pool.in_use(), 0);
        }
    }
}

#[test]
fn who_must_not_be_answered_is_not_and_no_answer_is_answered() {
    let mut bed = bed(true, &["priority=9,actions=reject(resubmit(,0),IN_PORT)"]);
    bed.receive(1, &packet(false, Some((SYN, 1, 0)), false));
    assert_eq!(bed.ports(), [1], "the answer comes here, too, and is not answered");
    let mut first = packet(false, None, false);
    first[20] = 0x20;
    let mut group = packet(false, None, false);
    group[0] = 0xff;
    for silent in [packet(false, Some((RST, 1, 0)), false), first, group, vec![0xff; 60]] {
        bed.receive(1, &silent);
        assert_eq!(bed.ports(), [0; 0], "{silent:02x?}");
    }
    assert_eq!(bed.pool.in_use(), 0);
}

#[test]
fn a_port_has_so_many_answers_and_others_do_not_pay() {
    let mut bed = bed(true, &["priority=9,actions=reject(IN_PORT)"]);
    let many = vec![packet(false, Some((ACK, 1, 2)), false); 1500];
    bed.receive_in(1, &many, 32);
    assert_eq!(bed.ports().len(), 1000, "a fifth of a second's");
    assert_eq!(bed.totals(1).rx_drops[DropReason::RejectRate.index()], 500);
    bed.receive(2, &many[0]);
    assert_eq!(bed.ports(), [2]);
    bed.now = Millis(bed.now.0 + 10);
    bed.receive_in(1, &many[..60], 32);
    assert_eq!(bed.ports().len(), 50);
}

#[test]
fn nothing_is_learned_of_answers() {
    let lines =
        ["priority=9,actions=reject(learn(table=9,NXM_OF_ETH_SRC[]),NORMAL)", "table=9,priority=0,actions=drop"];
    let mut bed = bed(true, &lines);
    bed.receive(1, &packet(false, None, false));
    assert_eq!(bed.counts().iter().filter(|(table, ..)| *table == 9).count(), 1, "a flow was learned");
    assert_eq!(bed.fdb.stats().learned, 0);
}

/// What a controller had in hand may have been translated: nobody knows what it was.
#[test]
fn a_packet_that_was_paused_is_not_answered() {
    let mut bed = bed(true, &["priority=9,udp,actions=controller(id=5,pause),reject(IN_PORT),output:2"]);
    let mut controller = bed.packet_ins.subscribe(Interest::of(5)).expect("a subscription");
    bed.receive(1, &packet(false, None, false));
    let told = controller.receiver.try_recv().expect("a packet-in");
    let continuation = Arc::clone(told.continuation.as_ref().expect("paused"));
    let injection = crate::worker::Injection {
        bridge: "br".into(),
        metadata: told.metadata.clone(),
        packet: told.packet,
        begin: crate::worker::Begin::Resume(continuation, Box::default()),
    };
    bed.walk.inject(&injection, bed.now).expect("resumed");
    bed.walk.flush();
    assert_eq!(bed.ports(), [2]);
    // One that is sent out is as it came.
    let actions = parse_actions("set_field:10.0.0.3->ip_dst,reject(output:3)", &NoNames).expect("actions").value;
    let begin = crate::worker::Begin::Actions(actions.into());
    bed.walk.inject(&crate::worker::Injection { begin, ..injection }, bed.now).expect("sent");
    bed.walk.flush();
    let all = bed.sent();
    let [(3, answer)] = &all[..] else { panic!("{all:02x?}") };
    assert_answers(answer, &packet(false, None, false), "a packet-out");
}

/// Whoever answers in the switch's place has to know what the sender wrote.
#[test]
fn controllers_are_told_what_a_packet_was_when_it_came_in() {
    for cache in [true, false] {
        let mut lines = TRANSLATED.to_vec();
        lines[5] = "table=3,priority=9,reg0=1,actions=controller(id=5)";
        let mut bed = bed(cache, &lines);
        let mut controller = bed.packet_ins.subscribe(Interest::of(5)).expect("a subscription");
        for (v6, tcp) in [(false, Some((SYN, 7, 0))), (false, None), (true, Some((SYN, 7, 0))), (true, None)] {
            let sent = packet(v6, tcp, false);
            for round in 0..3 {
                bed.receive(1, &sent);
                let told = controller.receiver.try_recv().expect("a packet-in");
                assert_ne!(told.packet, sent, "cache {cache}, v6 {v6}, {tcp:?}, round {round}: as it is by then");
                let received = told.received.expect("what it was");
                assert_eq!(
                    (&*received.front, received.len),
                    (&sent[..], sent.len()),
                    "cache {cache}, v6 {v6}, {tcp:?}"
                );
            }
        }
        // Without a stage behind it is known, too; of what is paused nothing is told.
        bed.program(&["priority=20,actions=mod_dl_src:02:00:00:00:00:77,controller(id=5)"]);
        bed.receive(1, &packet(false, None, false));
        let told = controller.receiver.try_recv().expect("a packet-in");
        assert_eq!(told.received.map(|received| received.front.to_vec()), Some(packet(false, None, false)));
        bed.program(&["priority=30,actions=controller(id=5,pause)"]);
        bed.receive(1, &packet(false, None, false));
        assert_eq!(controller.receiver.try_recv().expect("a packet-in").received, None);
    }
}

/// Nobody knows whom one with a wrong checksum came from: neither the flows answer it nor whoever
/// is told of it.
#[test]
fn what_has_a_wrong_checksum_is_not_answered() {
    use vswitch_dpdk::{Burst, Csum};
    for cache in [true, false] {
        let mut bed = bed(cache, &["priority=9,actions=controller(id=5),reject(IN_PORT)"]);
        let mut controller = bed.packet_ins.subscribe(Interest::of(5)).expect("a subscription");
        for (csum, answers) in [(Csum::Bad, 0), (Csum::Good, 1), (Csum::Bad, 0)] {
            let mut mbuf = bed.pool.mbuf_from(&packet(false, Some((SYN, 7, 0)), false)).expect("an mbuf");
            mbuf.set_csum(csum);
            let mut burst = Burst::new();
            burst.push(mbuf).expect("room");
            bed.walk.burst(&mut burst, crate::port::PortId(0), bed.now);
            bed.walk.flush();
            let told = controller.receiver.try_recv().expect("a packet-in");
            assert_eq!(told.received.iter().count(), answers, "cache {cache}, {csum:?}");
            assert_eq!(bed.sent().len(), answers, "cache {cache}, {csum:?}");
        }
    }
}

/// Its answer goes where it came from; what is outside is not what is refused.
#[test]
fn what_comes_out_of_a_tunnel_is_answered_into_it() {
    for cache in [true, false] {
        let mut bed = Bed::new(5);
        bed.shared.enable(cache);
        bed.add_tunnels(2, &[(3, TunnelKind::Geneve, "remote_ip=flow key=flow")]);
        bed.knows_peer();
        bed.program(&[
            "priority=9,in_port=1,actions=output:3",
            "priority=9,in_port=3,actions=output:1",
            "priority=9,in_port=4,ip,actions=set_field:10.0.0.3->ip_dst,reject(move:NXM_NX_TUN_IPV4_SRC[]->NXM_NX_TUN_IPV4_DST[],move:NXM_NX_TUN_IPV6_SRC[]->NXM_NX_TUN_IPV6_DST[],IN_PORT)",
        ]);
        for round in 0..4 {
            let inner = packet(false, Some((SYN, 1, 0)), false);
            bed.receive(1, &from_peer(&inner, (5, 0, 64)));
            let all = bed.sent();
            let [(1, outer)] = &all[..] else { panic!("cache {cache}, round {round}: {all:02x?}") };
            assert_eq!((&outer[26..30], &outer[30..34]), (&[1, 1, 2, 88][..], &[1, 1, 2, 92][..]));
            assert_eq!(outer[46..49], [0, 0, 5], "the same id");
            assert_answers(&outer[50..], &inner, "inside");
        }
    }
}
