//! Storms: what one port may cost a worker, and that others do not pay for it.

use super::bed::{Bed, tcp, udp};
use crate::limits::MEGAFLOW_MASKS_MAX;
use crate::meter::Rates;
use crate::observe::DropReason;
use crate::pipeline::Interest;
use crate::time::Millis;
use vswitch_flow::text::{NoNames, parse_bundle_line};

/// Everything is refused to a port after a few.
const FEW: Rates = Rates { misses: 1000, packet_ins: 100, learns: 50, waiting: 0 };

fn bed(ports: usize, lines: &[&str]) -> Bed {
    let mut bed = Bed::limited(ports, FEW);
    lines.iter().for_each(|line| bed.load(line));
    bed
}

impl Bed {
    /// Does what a line of a bundle says.
    fn load(&mut self, line: &str) {
        self.write(&[parse_bundle_line(line, &NoNames).expect(line).value]);
    }

    fn dropped(&self, port: usize, reason: DropReason) -> u64 {
        self.totals(port).rx_drops[reason.index()]
    }
}

/// Packets from these UDP ports.
fn kinds(source: u8, range: std::ops::Range<u16>) -> Vec<Vec<u8>> {
    let of = |port: u16| {
        let mut frame = udp(source, 9, 53);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame
    };
    range.map(of).collect()
}

/// Every UDP port is a kind of its own.
const EACH: &str = "udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],output:3";

#[test]
fn misses_are_paid_by_the_port_that_causes_them() {
    let mut bed = bed(3, &[EACH]);
    // A second's worth is 1000 kinds, a fifth of it may come at once.
    for round in 0..25_u16 {
        bed.receive_in(1, &kinds(1, round * 40..round * 40 + 40), 32);
        bed.receive_in(2, &kinds(2, round * 8..round * 8 + 8), 32);
    }
    let sent = bed.sent();
    let from = |source: u8| sent.iter().filter(|(_, frame)| frame[11] == source).count();
    assert_eq!((from(1), from(2)), (200, 200), "the port that storms, and the one beside it");
    assert_eq!([1, 2].map(|port| bed.dropped(port, DropReason::MissRate)), [800, 0]);
    assert_eq!(
        (bed.decided().2, bed.shared.stats.lost_misses.get()),
        (400, 800),
        "translations, and what was refused one"
    );
    // What is known goes on, what is new waits for tokens.
    bed.receive_in(1, &kinds(1, 0..200), 32);
    bed.receive_in(1, &kinds(1, 2000..2010), 32);
    assert_eq!((bed.sent().len(), bed.dropped(1, DropReason::MissRate)), (200, 810));
    bed.now = Millis(bed.now.0 + 7);
    bed.receive_in(1, &kinds(1, 2000..2010), 32);
    assert_eq!((bed.sent().len(), bed.dropped(1, DropReason::MissRate)), (7, 813));
    assert_eq!(bed.totals(1).rx_dropped(), 813, "no other reason");
    assert_eq!(bed.pool.in_use(), 0);
}

#[test]
fn without_caches_nothing_is_new() {
    let mut bed = bed(3, &[EACH]);
    bed.shared.enable(false);
    bed.receive_in(1, &kinds(1, 0..1000), 32);
    assert_eq!((bed.sent().len(), bed.dropped(1, DropReason::MissRate)), (1000, 0));
}

#[test]
fn a_kind_that_a_change_made_stale_is_not_new() {
    let mut bed = bed(3, &[EACH]);
    bed.receive_in(1, &kinds(1, 0..200), 32);
    assert_eq!(bed.sent().len(), 200, "all that it may bring");
    for change in 1..=5 {
        // It changes what happens to all of them: they are translated anew.
        bed.load(&EACH.replace("output:3", &format!("set_field:{change}->ip_dscp,output:3")));
        let before = bed.decided().2;
        bed.receive_in(1, &kinds(1, 0..200), 32);
        assert_eq!((bed.sent().len(), bed.decided().2 - before), (200, 200), "change {change}");
    }
    bed.receive_in(1, &kinds(1, 200..201), 1);
    assert_eq!(bed.dropped(1, DropReason::MissRate), 1, "a new one");
}

#[test]
fn a_packet_may_be_refused_behind_ct_and_pass_later() {
    let lines = [
        "udp,actions=ct(table=1,zone=1)",
        "table=1,udp,actions=ct(commit,zone=1),move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],output:3",
    ];
    let mut bed = bed(3, &lines);
    // The checksum of a UDP packet may be left out: these have other ports than the one it was made
    // for.
    let frames: Vec<Vec<u8>> =
        kinds(1, 0..300).into_iter().map(|frame| [&frame[..40], &[0; 2], &frame[42..]].concat()).collect();
    bed.receive_in(1, &frames, 32);
    assert_eq!((bed.sent().len(), bed.dropped(1, DropReason::MissRate)), (199, 101), "one kind in front of ct()");
    for round in 0..4 {
        bed.now = Millis(bed.now.0 + 60);
        bed.receive_in(1, &frames, 32);
        let (passed, refused) = (bed.sent().len(), bed.dropped(1, DropReason::MissRate));
        assert_eq!((passed, refused), if round == 0 { (259, 142) } else { (300, 142) }, "round {round}");
    }
    assert_eq!(bed.pool.in_use(), 0);
}

#[test]
fn translations_that_work_more_take_more() {
    let busy = format!("udp,actions={}output:3", "set_field:1->reg1,set_field:2->reg1,".repeat(1280));
    let mut bed = bed(3, &[EACH, &format!("priority=40000,{}", busy.replace("udp,", "udp,udp_src=1/1,"))]);
    // 2,561 actions: eleven tokens in all for each source address, of 200.
    for source in 0..30 {
        bed.receive_in(1, &kinds(source, 1..2), 1);
    }
    let (passed, dropped) = (bed.sent().len(), bed.dropped(1, DropReason::MissRate));
    assert_eq!((passed, dropped), (30, 0), "one kind: whatever the source");
    for dst in 0..30_u8 {
        let mut frame = kinds(1, 1..2).remove(0);
        frame[1] = dst; // nothing looks at it
        bed.receive(1, &frame);
    }
    assert_eq!(bed.sent().len(), 30);
    // As kinds of their own.
    bed.load(&format!(
        "priority=50000,{}",
        busy.replace("udp,", "udp,udp_src=1/1,")
            .replace("actions=", "actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],",)
    ));
    for port in 0..100_u16 {
        bed.receive_in(1, &kinds(1, port * 2 + 101..port * 2 + 102), 1);
    }
    let passed = bed.sent().len();
    assert!((15..=20).contains(&passed), "{passed} of 100, at eleven tokens each");
}

#[test]
fn packet_ins_are_refused_and_the_packet_goes_on() {
    let mut bed = bed(3, &["udp,actions=controller(id=5),output:3"]);
    let mut controller = bed.packet_ins.subscribe(Interest::of(5)).expect("a subscription");
    for _ in 0..5 {
        bed.receive_in(1, &kinds(1, 0..20), 32);
        bed.receive_in(2, &kinds(2, 0..4), 32);
    }
    assert_eq!(bed.sent().len(), 120, "all packets");
    let told: Vec<u8> =
        std::iter::from_fn(|| controller.receiver.try_recv().ok()).map(|told| told.packet[11]).collect();
    let from = |source: u8| told.iter().filter(|from| **from == source).count();
    assert_eq!((from(1), from(2)), (20, 20));
    assert_eq!([1, 2].map(|port| bed.dropped(port, DropReason::PacketInRate)), [80, 0]);
    // A paused packet is the packet-in.
    bed.load("priority=40000,tcp,actions=controller(id=5,pause),output:3");
    bed.receive(1, &tcp(1, 2, 3));
    assert_eq!((bed.sent().len(), bed.dropped(1, DropReason::PacketInRate)), (0, 81));
    bed.now = Millis(bed.now.0 + 10);
    bed.receive(1, &tcp(1, 2, 3));
    assert!(controller.receiver.try_recv().is_ok_and(|told| told.continuation.is_some()), "there is a token again");
}

#[test]
fn nobody_pays_for_packet_ins_that_nobody_wants() {
    let mut bed = bed(3, &["udp,actions=controller(id=5),output:3"]);
    bed.receive_in(1, &kinds(1, 0..100), 32);
    assert_eq!((bed.sent().len(), bed.dropped(1, DropReason::PacketInRate)), (100, 0));
}

#[test]
fn what_is_not_learned_now_is_learned_later() {
    let mut bed =
        bed(3, &["udp,actions=learn(table=1,priority=7,eth_type=0x800,nw_proto=17,NXM_OF_UDP_SRC[]),output:3"]);
    let learned = |bed: &mut Bed| bed.counts().iter().filter(|count| count.0 == 1).count();
    bed.receive_in(1, &kinds(1, 0..30), 32);
    bed.receive_in(2, &kinds(2, 100..105), 32);
    assert_eq!(bed.sent().len(), 35, "packets go on");
    assert_eq!(learned(&mut bed), 10 + 5, "as many as the port may teach, and those of the other");
    assert_eq!([1, 2].map(|port| bed.dropped(port, DropReason::LearnRate)), [20, 0]);
    // A refresh costs nothing; what was refused is tried again, by packets that the caches know.
    bed.now = Millis(bed.now.0 + 100);
    bed.receive_in(1, &kinds(1, 0..30), 32);
    assert_eq!(learned(&mut bed), 15 + 5, "five more tokens");
    assert_eq!(bed.dropped(1, DropReason::LearnRate), 20 + 15);
    for _ in 0..10 {
        bed.now = Millis(bed.now.0 + 100);
        bed.receive_in(1, &kinds(1, 0..30), 32);
    }
    assert_eq!(learned(&mut bed), 30 + 5);
}

/// Flows whose decisions have many masks: packets to 10.0.0.N are decided by N % 32 bits of their
/// source, some by UDP ports too.
fn many_masks(bed: &mut Bed, ports: usize) {
    for i in 0..ports {
        let by = ["", "move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],", "move:NXM_OF_UDP_DST[]->NXM_NX_REG0[0..15],"]
            [i / 32 % 3];
        let bits = i % 32 + 1;
        bed.load(&format!("table=0,priority=10,udp,nw_dst=10.0.0.{i},actions={by}resubmit(,{bits})"));
        bed.load(&format!("table={bits},priority=10,ip,nw_src=255.255.255.255/{},actions=output:3", prefix(bits)));
    }
}

fn prefix(bits: usize) -> std::net::Ipv4Addr {
    std::net::Ipv4Addr::from(u32::MAX << (32 - bits))
}

/// To 10.0.0.`to`, decided by as many bits of the source as `many_masks` says.
fn masked(to: u8, source_port: u16) -> Vec<u8> {
    let mut frame = udp(1, to, 53);
    frame[26..30].copy_from_slice(&[255; 4]);
    frame[34..36].copy_from_slice(&source_port.to_be_bytes());
    frame
}

#[test]
fn masks_of_one_port_are_not_looked_up_for_another() {
    let mut bed = Bed::new(3);
    many_masks(&mut bed, 96);
    let frames: Vec<Vec<u8>> = (0..96).map(|to| masked(to, 7)).collect();
    bed.receive_in(1, &frames, 32);
    bed.walk.maintain(bed.now);
    let masks = |bed: &Bed| bed.shared.stats.masks.get();
    let max = MEGAFLOW_MASKS_MAX as u64;
    assert_eq!(masks(&bed), max, "as many as one port may have");
    // Those of the other port push out none of them, and none of its own.
    for _ in 0..2 {
        bed.receive_in(2, &frames[..60], 32);
    }
    bed.walk.maintain(bed.now);
    assert_eq!(masks(&bed), max + 60);
    assert_eq!(bed.decided().2, 96 + 60, "the second time all are known");
    assert_eq!(bed.sent().len(), 96 + 120);
}

/// What a translation costs, and a lookup among few and many masks. `cargo nextest run -p
/// vswitch-dataplane --lib --run-ignored all --no-capture -E 'test(costs)'`
#[test]
#[ignore = "prints times"]
#[allow(clippy::print_stderr)]
fn costs() {
    let mut bed = Bed::new(3);
    many_masks(&mut bed, 96);
    let time = |what: &str, bed: &mut Bed, port: usize, frames: &[Vec<u8>]| {
        let before = bed.decided();
        let start = std::time::Instant::now();
        bed.receive_in(port, frames, 32);
        let each = start.elapsed().as_nanos() / frames.len() as u128;
        let after = bed.decided();
        bed.sent();
        eprintln!(
            "{what}: {each} ns; exact, megaflow, miss: {:?}",
            (after.0 - before.0, after.1 - before.1, after.2 - before.2)
        );
    };
    // Source ports make no difference to the first 32, but the exact-match cache does not know
    // them.
    let new = |from: u16| (from..from + 20_000).map(|port| masked(5, port)).collect::<Vec<_>>();
    bed.receive(2, &masked(5, 1));
    time("one mask, another port's storm to come", &mut bed, 2, &new(2));
    time("known to the exact-match cache", &mut bed, 2, &vec![masked(5, 9); 20_000]);
    let attack: Vec<Vec<u8>> = (0..96).flat_map(|to| (0..4).map(move |port| masked(to, port))).collect();
    bed.receive_in(1, &attack, 32);
    time("one mask, another port has 64", &mut bed, 2, &new(2));
    time("64 masks, the busiest one", &mut bed, 1, &new(2));
    // A mask that is the last one: every hit is behind 63 others until it has overtaken them.
    let spread: Vec<Vec<u8>> = (0..20_000_u16).map(|i| masked((i % 60) as u8, i)).collect();
    time("64 masks, any of them", &mut bed, 1, &spread);
    let unknown: Vec<Vec<u8>> = (0..20_000_u16).map(|i| masked(64 + (i % 32) as u8, i)).collect();
    time("64 masks, none of them: lookup, translation, megaflow", &mut bed, 1, &unknown);
    bed.shared.enable(false);
    time("no caches: translation of two tables", &mut bed, 1, &unknown);
    let mut limited = Bed::limited(3, Rates { misses: 1, ..Rates::NONE });
    many_masks(&mut limited, 96);
    time("refused, few masks", &mut limited, 1, &unknown);
    antrea(time);
}

/// Right checksums for an IPv4 packet with TCP.
fn finish(frame: &mut [u8]) {
    use crate::packet::checksum::{Sum, pseudo_v4};
    (frame[24], frame[25], frame[50], frame[51]) = (0, 0, 0, 0);
    let sum = Sum::of(&frame[14..34]).checksum().to_be_bytes();
    frame[24..26].copy_from_slice(&sum);
    let address = |at: usize| [frame[at], frame[at + 1], frame[at + 2], frame[at + 3]];
    let sum = pseudo_v4(address(26), address(30), 6, 24).bytes(&frame[34..]).checksum().to_be_bytes();
    frame[50..52].copy_from_slice(&sum);
}

/// The same for the pipeline that Antrea's documentation publishes.
fn antrea(time: impl Fn(&str, &mut Bed, usize, &[Vec<u8>])) {
    let mut bed = Bed::new(0x29);
    for line in
        include_str!("../../../../flow/tests/data/antrea-groups.txt").lines().filter(|line| !line.trim().is_empty())
    {
        bed.write(&[parse_bundle_line(&format!("group add {line}"), &Antrea).expect(line).value]);
    }
    for id in [12, 14, 16, 17, 18] {
        bed.load(&format!("group add group_id={id},type=select,bucket=weight:100,actions=drop"));
    }
    bed.load("meter add meter=256,pktps,burst,stats,bands=type=drop,rate=500,burst_size=500");
    let lines =
        include_str!("../../../../flow/tests/data/antrea-flows.txt").lines().filter(|line| !line.trim().is_empty());
    let flows: Vec<_> = lines.map(|line| parse_bundle_line(line, &Antrea).expect(line).value).collect();
    bed.write(&flows);
    let frame = |to: [u8; 4], port: u16| {
        let mut frame = tcp(1, 2, 80);
        frame[..12].copy_from_slice(&[0xfa, 0xb7, 0x53, 0x74, 0x21, 0xa6, 0x5e, 0xb5, 0xe3, 0xa6, 0x90, 0xb7]);
        frame[26..30].copy_from_slice(&[10, 10, 0, 26]);
        frame[30..34].copy_from_slice(&to);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame[47] = 2;
        finish(&mut frame);
        frame
    };
    let syns = |to: [u8; 4]| (1..1000).map(|port| frame(to, port)).collect::<Vec<_>>();
    let web = [10, 10, 0, 24];
    time("Antrea, a new connection to a Pod", &mut bed, 0x24, &syns(web));
    let service = [10, 101, 255, 29];
    time("Antrea, a new connection to a Service", &mut bed, 0x24, &syns(service));
    bed.shared.enable(false);
    time("Antrea, no caches, a packet to a Pod", &mut bed, 0x24, &syns(web));
    time("Antrea, no caches, a packet to a Service", &mut bed, 0x24, &syns(service));
}

struct Antrea;

impl vswitch_flow::text::Names for Antrea {
    fn port(&self, name: &str) -> Option<u32> {
        vswitch_testkit::antrea::PORTS.iter().find(|port| port.0 == name).map(|port| port.1)
    }
    fn port_name(&self, _: u32) -> Option<&str> {
        None
    }
    fn table(&self, name: &str) -> Option<u8> {
        vswitch_testkit::antrea::TABLES
            .iter()
            .position(|table| *table == name)
            .and_then(|table| u8::try_from(table).ok())
    }
    fn table_name(&self, _: u8) -> Option<&str> {
        None
    }
}
