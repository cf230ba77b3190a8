//! Zones where established means answered, and flows that take back what their packets have met.

use super::bed::Bed;
use super::programs::Packet;
use crate::meter::Rates;
use crate::observe::DropReason;
use crate::pipeline::Interest;
use crate::worker::{Begin, Injection};
use std::sync::Arc;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const SYN_ACK: u8 = 0x12;
const PSH_ACK: u8 = 0x18;
const RST_ACK: u8 = 0x14;

/// Commits in two zones, both translated, before it says what is denied: from port 1 all but port
/// 80 of the service.
const COMMITS_FIRST: [&str; 12] = [
    "priority=9,in_port=1,ip,actions=ct(zone=5,table=1,nat)",
    "priority=9,in_port=2,ip,actions=ct(zone=6,table=5,nat)",
    "table=1,priority=9,ct_state=+new+trk,ip,actions=ct(commit,zone=5,table=2,nat(dst=10.0.0.2))",
    "table=1,priority=8,ct_state=-new+est+trk,ip,actions=ct(zone=6,table=4,nat)",
    "table=2,priority=9,ip,actions=ct(commit,zone=6,table=3,nat(src=10.0.0.7))",
    "table=3,priority=9,tcp,tp_dst=80,actions=output:2",
    "table=3,priority=9,udp,tp_dst=80,actions=output:2",
    "table=4,priority=9,actions=output:2",
    "table=5,priority=9,ct_state=+est+trk,ip,actions=ct(zone=5,table=6,nat)",
    "table=6,priority=9,ct_state=-new+est+trk,ip,actions=output:1",
    "table=6,priority=8,ct_state=+new+trk,ip,actions=drop",
    "table=5,priority=8,ct_state=+new+trk,ip,actions=drop",
];

const DENIES: &str = "table=3,priority=1,actions=ct_forget";

/// The client, the service as he names it, and both as the server sees them.
const ENDS: [(u8, u16); 2] = [(1, 4000), (9, 443)];
const BEHIND: [(u8, u16); 2] = [(2, 443), (7, 4000)];

fn frame(ends: [(u8, u16); 2], tcp: Option<(u8, u32, u32)>, len: usize) -> Vec<u8> {
    Packet { v6: false, tcp, ends, len, ttl: 64, tagged: false }.bytes()
}

fn bed(cache: bool, waits: bool, lines: &[&str]) -> Bed {
    let mut bed = Bed::new(3);
    bed.shared.enable(cache);
    [5, 6].into_iter().for_each(|zone| bed.walk.conntrack.tracker().set_established_after_answer(zone, waits));
    bed.program(lines);
    bed
}

impl Bed {
    /// Says it, and how much left since.
    fn says(&mut self, port: usize, frame: &[u8]) -> Vec<usize> {
        self.receive(port, frame);
        self.ports()
    }
}

/// What a forger sends, from both ends: none of it, that is, was ever asked for.
fn forged() -> Vec<(usize, Vec<u8>)> {
    let mut all = Vec::new();
    for (flags, seq, ack, len) in [
        (SYN, 100, 0, 0),
        (ACK, 101, 1, 0),
        (PSH_ACK, 101, 1, 40),
        (SYN_ACK, 100, 1, 0),
        (RST_ACK, 141, 1, 0),
        (PSH_ACK, 141, 501, 9),
    ] {
        all.push((1, frame(ENDS, Some((flags, seq, ack)), len)));
    }
    for (flags, seq, ack, len) in [(ACK, 500, 101, 0), (SYN, 500, 0, 0), (PSH_ACK, 500, 101, 20), (0x11, 520, 101, 0)] {
        all.push((2, frame(BEHIND, Some((flags, seq, ack)), len)));
    }
    all
}

/// Without either, the tracker's own rules let through what was denied: that is what both are for.
#[test]
fn what_open_vswitch_lets_through_is_what_this_is_about() {
    let mut bed = bed(true, false, &COMMITS_FIRST);
    let [syn, bare] = [(SYN, 100, 0), (ACK, 101, 1)].map(|tcp| frame(ENDS, Some(tcp), 0));
    assert_eq!(bed.says(1, &syn), [0; 0], "denied");
    assert_eq!(bed.connections().len(), 2, "but remembered");
    assert_eq!(bed.says(1, &bare), [2], "and established by its own second segment");
}

/// The option alone: as long as the other end does not play along, nothing passes.
#[test]
fn where_established_means_answered_no_forged_segment_passes() {
    for cache in [true, false] {
        let mut bed = bed(cache, true, &COMMITS_FIRST);
        for round in 0..4 {
            for (port, frame) in forged() {
                assert_eq!(bed.says(port, &frame), [0; 0], "cache {cache}, round {round}, port {port}: {frame:02x?}");
            }
        }
        assert!(bed.connections().iter().all(|connection| !connection.replied), "nobody was answered");
        // But if it does, both are established.
        assert_eq!(bed.says(1, &frame(ENDS, Some((SYN, 7, 0)), 0)), [0; 0]);
        assert_eq!(bed.says(2, &frame(BEHIND, Some((SYN_ACK, 500, 8)), 0)), [1], "cache {cache}: it never got it");
    }
}

/// With both: what is denied leaves nothing, so that nobody can answer it either.
#[test]
fn what_is_denied_is_forgotten_and_nobody_can_answer_it() {
    for (cache, waits) in [(true, true), (false, true), (true, false)] {
        let mut bed = bed(cache, waits, &[&COMMITS_FIRST[..], &[DENIES]].concat());
        bed.walk.conntrack.tracker().keep_events(1000);
        for round in 0..4 {
            for (port, frame) in forged() {
                let told = format!("cache {cache}, waits {waits}, round {round}, port {port}: {frame:02x?}");
                assert_eq!(bed.says(port, &frame), [0; 0], "{told}");
                assert_eq!(bed.connections(), [], "{told}");
            }
            for (flags, seq) in [(SYN_ACK, 500), (ACK, 501), (RST_ACK, 501)] {
                assert_eq!(bed.says(1, &frame(ENDS, Some((SYN, 100, 0)), 0)), [0; 0]);
                assert_eq!(bed.says(2, &frame(BEHIND, Some((flags, seq, 101)), 0)), [0; 0], "what it never got");
                let direct = [(2, 443), (1, 4000)];
                assert_eq!(bed.says(2, &frame(direct, Some((flags, seq, 101)), 0)), [0; 0]);
            }
            for _ in 0..3 {
                assert_eq!(bed.says(1, &frame(ENDS, None, 8)), [0; 0], "datagrams, the same again and again");
                assert_eq!(bed.says(2, &frame(BEHIND, None, 8)), [0; 0]);
                assert_eq!(bed.connections(), [], "cache {cache}, waits {waits}, round {round}");
            }
        }
        let counts = bed.walk.conntrack.tracker().counts();
        assert_eq!((counts.connections, counts.forgotten), (0, counts.created));
        let events = bed.walk.conntrack.tracker().take_events(10_000).len() as u64;
        assert_eq!(events, 2 * counts.created, "a begin and an end each");
        assert!(bed.totals(1).rx_drops[DropReason::RuleDrop.index()] > 0, "a drop is called by its name");
        assert_eq!(bed.pool.in_use(), 0);
    }
}

/// What is allowed works as ever, and a deny that comes later leaves alone what its packets meet as
/// established.
#[test]
fn what_is_allowed_goes_on() {
    for (cache, tcp) in [(true, true), (false, true), (true, false), (false, false)] {
        let mut bed = bed(cache, true, &[&COMMITS_FIRST[..], &[DENIES]].concat());
        let (ends, behind) = ([(1, 4000), (9, 80)], [(2, 80), (7, 4000)]);
        let segment = |flags, seq, ack| tcp.then_some((flags, seq, ack));
        assert_eq!(bed.says(1, &frame(ends, segment(SYN, 100, 0), 0)), [2]);
        assert_eq!(bed.says(1, &frame(ends, segment(SYN, 100, 0), 0)), [2], "again");
        assert_eq!(bed.says(2, &frame(behind, segment(SYN_ACK, 500, 101), 0)), [1]);
        for _ in 0..4 {
            assert_eq!(bed.says(1, &frame(ends, segment(ACK, 101, 501), 0)), [2]);
            assert_eq!(bed.says(2, &frame(behind, segment(ACK, 501, 101), 0)), [1]);
        }
        assert_eq!(bed.shared.stats.program_hits.get() > 0, cache, "the fast path");
        bed.program(&["table=4,priority=20,actions=ct_forget", "table=6,priority=20,actions=ct_forget"]);
        for _ in 0..3 {
            assert_eq!(bed.says(1, &frame(ends, segment(ACK, 101, 501), 0)), [0; 0]);
            assert_eq!(bed.says(2, &frame(behind, segment(ACK, 501, 101), 0)), [0; 0]);
        }
        assert_eq!(bed.connections().len(), 2, "cache {cache}, tcp {tcp}: they stay");
        bed.program(&["flow delete table=4", "flow delete table=6"]);
        bed.program(&["table=4,priority=9,actions=output:2"]);
        assert_eq!(bed.says(1, &frame(ends, segment(ACK, 101, 501), 0)), [2]);
    }
}

/// A copy takes back what it has met itself and what it has in common with the packet; not what
/// another copy met.
#[test]
fn copies_take_back_their_own() {
    for cache in [true, false] {
        for (actions, left) in [
            ("ct(commit,zone=5),ct(commit,zone=6),ct_forget", vec![]),
            ("ct(commit,zone=5),ct_forget,ct(commit,zone=6)", vec![6]),
            ("clone(ct(commit,zone=5)),ct(commit,zone=6),ct_forget", vec![5]),
            ("ct(commit,zone=5),clone(ct(commit,zone=6),ct_forget),output:2", vec![]),
            ("ct(commit,zone=5),clone(ct_forget),ct(commit,zone=6),output:2", vec![6]),
            ("clone(ct(commit,zone=5),ct_forget),ct(commit,zone=6),output:2", vec![6]),
            ("ct(commit,zone=5),ct_clear,ct_forget", vec![]),
            ("ct(commit,zone=5,table=1),ct(commit,zone=6)", vec![6]),
            ("ct(commit,zone=5),check_pkt_larger(50)->NXM_NX_REG0[0],ct_forget", vec![]),
            ("ct_forget,ct(commit,zone=5)", vec![5]),
        ] {
            let mut bed = bed(cache, false, &[]);
            bed.program(&["table=1,actions=ct_forget", &format!("priority=9,ip,actions={actions}")]);
            for round in 0..3 {
                bed.receive(1, &frame(ENDS, None, 8));
                bed.sent();
                let zones: Vec<u16> = bed.connections().iter().map(|connection| connection.original.zone).collect();
                assert_eq!(zones, left, "cache {cache}, round {round}: {actions}");
            }
            assert_eq!(bed.pool.in_use(), 0);
        }
    }
}

/// A controller that lets a packet go on does not know what that has met: the switch does.
#[test]
fn a_paused_packet_takes_back_what_it_met_before() {
    let mut bed = bed(true, true, &[]);
    bed.program(&[
        "priority=9,ip,actions=ct(commit,zone=5,table=1)",
        "table=1,ip,actions=ct(commit,zone=6),controller(pause,id=3),ct_forget",
    ]);
    let mut subscription = bed.packet_ins.subscribe(Interest::of(3)).expect("a subscription");
    bed.receive(1, &frame(ENDS, None, 8));
    let packet_in = subscription.receiver.try_recv().expect("a packet-in");
    assert_eq!(bed.connections().len(), 2);
    let paused = bed.packet_ins.resume(&packet_in.token).expect("it waits");
    let begin = Begin::Resume(Arc::clone(&paused.continuation), paused.met);
    let injection = Injection { bridge: "br".into(), metadata: paused.metadata, packet: paused.packet, begin };
    bed.walk.inject(&injection, bed.now).expect("sent");
    assert_eq!(bed.connections(), []);
    bed.walk.inject(&injection, bed.now).expect("a second time nothing is there any more");
}

/// Whatever kills it between `commit` and the tables that judge it.
#[test]
fn what_dies_on_its_way_to_be_judged_is_not_remembered_where_established_means_answered() {
    for (cache, waits) in [(true, true), (false, true), (true, false)] {
        for (second, reason) in [
            ("dec_ttl,output:2", DropReason::InvalidTtl),
            ("dec_ttl(1,2),output:2", DropReason::InvalidTtl),
            ("meter:1,output:2", DropReason::Meter),
            ("ct(commit,zone=7,table=2)", DropReason::CtZoneLimit),
            ("ct(commit,zone=5,table=1)", DropReason::RecircDepth),
            ("drop", DropReason::RuleDrop),
        ] {
            let mut bed = bed(cache, waits, &["meter add meter=1,kbps,bands=type=drop,rate=1"]);
            bed.walk.conntrack.tracker().set_limit(7, Some(0));
            bed.program(&["priority=9,ip,actions=ct(commit,zone=5,table=1)", &format!("table=1,ip,actions={second}")]);
            for round in 1..4 {
                let mut packet = Packet { v6: false, tcp: None, ends: ENDS, len: 600, ttl: 64, tagged: false };
                if reason == DropReason::InvalidTtl {
                    packet.ttl = 1;
                }
                assert_eq!(bed.says(1, &packet.bytes()), [0; 0], "{second}");
                let told = format!("cache {cache}, waits {waits}, round {round}: {second}");
                assert_eq!(bed.totals(1).rx_drops[reason.index()], round, "{told}");
                let kept = usize::from(!waits || matches!(reason, DropReason::RuleDrop | DropReason::Meter));
                assert_eq!(bed.connections().len(), kept, "{told}");
            }
        }
    }
}

/// What is told of an allowed packet is limited; the packet is not.
#[test]
fn a_meter_on_what_is_told_leaves_what_was_allowed() {
    for cache in [true, false] {
        let mut bed = bed(cache, true, &["meter add meter=1,kbps,bands=type=drop,rate=1"]);
        bed.program(&[
            "priority=9,ip,actions=ct(commit,zone=5,table=1),goto_table:3",
            "table=1,ip,actions=output:2",
            "table=3,ip,actions=meter:1,controller(id=3)",
        ]);
        for round in 1..4 {
            let packet = Packet { v6: false, tcp: None, ends: ENDS, len: 600, ttl: 64, tagged: false };
            assert_eq!(bed.says(1, &packet.bytes()), [2], "cache {cache}, round {round}");
            assert_eq!(bed.connections().len(), 1, "cache {cache}, round {round}");
        }
    }
}

/// What was there before may have been allowed: only what a packet opened itself goes with it.
#[test]
fn what_dies_on_its_way_leaves_what_others_have_opened() {
    let mut bed = bed(true, true, &[]);
    bed.program(&["priority=9,ip,actions=ct(commit,zone=5,table=1)", "table=1,ip,actions=dec_ttl,output:2"]);
    let packet = |ttl| Packet { v6: false, tcp: None, ends: ENDS, len: 8, ttl, tagged: false }.bytes();
    for (ttl, sent, left) in [(1, vec![], 0), (64, vec![2], 1), (1, vec![], 1)] {
        assert_eq!(bed.says(1, &packet(ttl)), sent);
        assert_eq!(bed.connections().len(), left);
    }
}

/// A port whose misses are refused is left with no connection that nobody has judged.
#[test]
fn what_nobody_had_the_time_to_judge_is_not_remembered_where_established_means_answered() {
    for waits in [true, false] {
        let mut bed = Bed::limited(3, Rates { misses: 50, ..Rates::NONE });
        bed.walk.conntrack.tracker().set_established_after_answer(5, waits);
        bed.program(&[
            "priority=9,ip,actions=ct(commit,zone=5,table=1)",
            // Every port is a kind of its own.
            "table=1,udp,actions=move:NXM_OF_UDP_DST[]->NXM_NX_REG0[0..15],output:2",
        ]);
        for port in 1..100 {
            bed.receive(1, &frame([(1, 4000), (2, port)], None, 8));
        }
        let (passed, refused) = (bed.sent().len(), bed.totals(1).rx_drops[DropReason::MissRate.index()]);
        assert!(passed > 0 && refused > 50, "{passed} passed, {refused} were refused");
        let kept = if waits { passed } else { 99 };
        assert_eq!(bed.connections().len(), kept, "waits {waits}: {passed} passed");
    }
}
