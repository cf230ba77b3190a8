//! P14, P27, P30, P31, T04, T07: connections that are too many, translations that cannot be, and
//! programs that ask for them the wrong way.

use crate::bed::{BRIDGE, Bed, udp};
use std::collections::BTreeSet;
use vswitch_proto::v1;

/// A UDP datagram between these hosts of 10.0.0.0/8, without a checksum of its own.
pub(crate) fn datagram(source: u32, src_port: u16, destination: u32, dst_port: u16) -> Vec<u8> {
    let mut frame = udp(src_port);
    frame[26..30].copy_from_slice(&(0x0a00_0000 | source).to_be_bytes());
    frame[30..34].copy_from_slice(&(0x0a00_0000 | destination).to_be_bytes());
    frame[36..38].copy_from_slice(&dst_port.to_be_bytes());
    summed(frame)
}

/// An echo request.
fn ping(source: u32, id: u16) -> Vec<u8> {
    let mut frame = datagram(source, 0, 2, 0);
    frame[23] = 1;
    frame[34..42].copy_from_slice(&[8, 0, 0, 0, 0, 0, 0, 1]);
    frame[38..40].copy_from_slice(&id.to_be_bytes());
    let sum = sum(&frame[34..60]);
    frame[36..38].copy_from_slice(&sum.to_be_bytes());
    summed(frame)
}

/// What answers it: of ICMP an echo reply.
pub(crate) fn answer(packet: &[u8]) -> Vec<u8> {
    let mut frame = packet.to_vec();
    frame[26..30].copy_from_slice(&packet[30..34]);
    frame[30..34].copy_from_slice(&packet[26..30]);
    if packet[23] == 1 {
        frame[34] = 0;
        frame[36..38].fill(0);
        let sum = sum(&frame[34..60]);
        frame[36..38].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame[34..36].copy_from_slice(&packet[36..38]);
        frame[36..38].copy_from_slice(&packet[34..36]);
    }
    frame
}

/// With the checksum of its IPv4 header.
pub(crate) fn summed(mut frame: Vec<u8>) -> Vec<u8> {
    frame[24..26].fill(0);
    let sum = sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// The Internet checksum of an even number of bytes.
fn sum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::try_from((sum & 0xffff) + (sum >> 16)).map_or(0, |sum| !sum)
}

/// A TCP segment between 10.0.0.1:1000 and 10.0.0.2:80, from the second one if it goes back.
fn segment(back: bool, flags: u8, seq: u32, ack: u32) -> Vec<u8> {
    let mut frame = if back { datagram(2, 80, 1, 1000) } else { datagram(1, 1000, 2, 80) };
    (frame[16], frame[17], frame[23]) = (0, 40, 6);
    let rest = [&seq.to_be_bytes()[..], &ack.to_be_bytes(), &[0x50, flags, 0x40, 0, 0, 0, 0, 0]].concat();
    frame[38..54].copy_from_slice(&rest);
    let pseudo = [&frame[26..34], &[0, 6, 0, 20], &frame[34..54]].concat();
    frame[50..52].copy_from_slice(&sum(&pseudo).to_be_bytes());
    summed(frame)
}

fn source(frame: &[u8]) -> (&[u8], u16) {
    (&frame[26..30], u16::from_be_bytes([frame[34], frame[35]]))
}

fn drops(bed: &Bed, reason: &str) -> u64 {
    bed.drops(BRIDGE, "p1").get(reason).copied().unwrap_or_default()
}

/// P14: a thousand hosts ping with one id behind one address. Each gets its own answer.
#[test]
fn a_thousand_hosts_ping_with_the_same_id() {
    let mut bed = Bed::new(2);
    bed.load(&[
        "in_port=1,icmp,actions=ct(commit,zone=1,nat(src=10.9.9.9),table=1)",
        "in_port=2,icmp,actions=ct(zone=1,nat,table=1)",
        "table=1,in_port=1,icmp,ct_state=+snat,actions=output:2",
        "table=1,in_port=2,icmp,ct_state=+est+rpl+dnat,actions=output:1",
    ]);
    let mut ids = BTreeSet::new();
    for host in 0..1000_u32 {
        let asked = ping(0x01_0000 | host, 7);
        let sent = bed.send("p1", &asked);
        assert_eq!(sent.len(), 1, "host {host}");
        let there = &sent[0].1;
        assert_eq!((&there[26..30], sum(&there[34..60])), (&[10, 9, 9, 9][..], 0), "host {host}: address and checksum");
        assert!(ids.insert(there[38..40].to_vec()), "host {host}: its id is another one's");
        let back = bed.send("p2", &answer(there));
        assert_eq!(back, [("p1".to_owned(), answer(&asked))], "host {host}");
    }
    bed.settle();
}

/// P27: a flood of new connections of one tenant meets the limit of its zone; others open theirs,
/// and what is established goes on.
#[test]
fn a_flood_of_one_tenant_meets_its_limit() {
    let mut bed = Bed::new(3);
    bed.load(&[
        "in_port=1,ip,actions=ct(commit,zone=1,table=1)",
        "in_port=2,ip,actions=ct(commit,zone=2,table=1)",
        "table=1,ip,ct_state=+trk-inv,actions=output:3",
    ]);
    bed.switch.vsctl_ok(&["ct-set-limits", "zone=1,limit=100"]);
    let passed = (0..3000_u32).filter(|i| !bed.ports("p1", &datagram(i << 4, 1000, 2, 53)).is_empty()).count();
    assert_eq!((passed, drops(&bed, "ct_zone_limit")), (100, 2900));
    assert_eq!(bed.ports("p1", &datagram(0, 1000, 2, 53)), ["p3"], "what is there goes on");
    let others = (0..500_u32).filter(|i| !bed.ports("p2", &datagram(i << 4, 1000, 2, 53)).is_empty()).count();
    assert_eq!(others, 500, "another tenant");
    let shown = bed.switch.vsctl_ok(&["ct-get-limits", "zone=1,2"]);
    assert!(shown.contains("zone=1,limit=100,count=100") && shown.contains("zone=2,limit=0,count=500"), "{shown}");
    // A limit of none at all, and none again.
    bed.switch.vsctl_ok(&["ct-set-limits", "zone=1,limit=0"]);
    assert!(bed.ports("p1", &datagram(0xff_0000, 1, 2, 53)).is_empty(), "a limit of 0 lets nothing in");
    bed.switch.vsctl_ok(&["ct-del-limits", "zone=1"]);
    assert_eq!(bed.ports("p1", &datagram(0xff_0000, 1, 2, 53)), ["p3"]);
    bed.settle();
}

/// What is denied behind a commit: neither end makes an established connection of it, whatever it
/// sends.
#[test]
fn what_is_denied_stays_denied() {
    let mut bed = Bed::new(2);
    bed.load(&[
        "tcp,actions=ct(zone=1,table=1)",
        "table=1,ct_state=+new+trk,tcp,actions=ct(commit,zone=1,table=2)",
        "table=1,ct_state=-new+est+trk,tcp,in_port=1,actions=output:2",
        "table=1,ct_state=-new+est+trk,tcp,in_port=2,actions=output:1",
        "table=2,priority=9,tcp,tp_dst=80,actions=drop",
        "table=2,priority=1,actions=drop",
    ]);
    let (syn, bare, data) = (segment(false, 2, 100, 0), segment(false, 0x10, 101, 1), segment(false, 0x18, 101, 1));
    let answer = segment(true, 0x12, 500, 101);
    assert!(bed.ports("p1", &syn).is_empty());
    assert_eq!(bed.ports("p1", &bare), ["p2"], "as in Open vSwitch: he has established it himself");
    bed.switch.vsctl_ok(&["flush-conntrack"]);
    bed.switch.vsctl_ok(&["ct-set-zone-options", "zone=1,7", "established_after_answer=true"]);
    bed.switch.vsctl_ok(&["ct-set-zone-options", "zone=7", "established_after_answer=false"]);
    let shown = bed.switch.vsctl_ok(&["ct-get-zone-options"]);
    assert_eq!(shown, "zone=1,established_after_answer=true\n");
    for packet in [&syn, &bare, &data, &syn] {
        assert!(bed.ports("p1", packet).is_empty(), "{packet:02x?}");
    }
    assert_eq!(bed.ports("p2", &answer), ["p1"], "the other end answers what it never got");
    bed.switch.vsctl_ok(&["flush-conntrack"]);
    bed.add(&["table=2,priority=9,tcp,tp_dst=80,actions=ct_forget", "table=2,priority=1,actions=ct_forget"]);
    assert!(bed.dump().contains("tcp,tp_dst=80 actions=ct_forget"), "{}", bed.dump());
    for round in 0..3 {
        for (port, packet) in [("p1", &syn), ("p2", &answer), ("p1", &bare), ("p1", &data), ("p2", &answer)] {
            assert!(bed.ports(port, packet).is_empty(), "round {round}: {packet:02x?}");
        }
    }
    assert_eq!(bed.switch.vsctl_ok(&["dump-conntrack"]), "", "nothing is left");
    let counters = bed.switch.vsctl_ok(&["ct-counters-show"]);
    assert!(counters.contains("Taken back (ct_forget)      : 9\n"), "{counters}");
    bed.settle();
}

/// P30: no address and port left. Named, counted, and over as soon as one is free.
#[test]
fn a_range_of_ports_that_is_used_up() {
    let mut bed = Bed::new(2);
    for (range, size) in [("10.9.9.9:5000", 1), ("10.9.9.9:5000-5009", 10), ("10.9.9.8-10.9.9.9:5000-5004", 10)] {
        bed.load(&[
            &format!("in_port=1,udp,actions=ct(commit,zone=1,nat(src={range}),table=1)"),
            "table=1,udp,ct_state=+snat,actions=output:2",
        ]);
        bed.switch.vsctl_ok(&["flush-conntrack"]);
        let before = drops(&bed, "nat_exhausted");
        let mut used = BTreeSet::new();
        for host in 0..50_u32 {
            for (_, frame) in bed.send("p1", &datagram(host << 4, 1000, 2, 53)) {
                let (address, port) = source(&frame);
                assert!(used.insert((address.to_vec(), port)), "{range}: {address:?} {port} twice");
            }
        }
        assert_eq!((used.len(), drops(&bed, "nat_exhausted") - before), (size, 50 - size as u64), "{range}");
        bed.switch.vsctl_ok(&["flush-conntrack", "zone=1", "ct_nw_src=10.0.0.0"]);
        assert_eq!(bed.ports("p1", &datagram(49 << 4, 1000, 2, 53)), ["p2"], "{range}: one is free again");
    }
    bed.settle();
}

/// P31: a Service's client that is its own backend, a source of nothing, an address of the other
/// family.
#[test]
fn translations_to_oneself_and_to_nonsense() {
    let mut bed = Bed::new(2);
    bed.load(&[
        "in_port=1,udp,nw_dst=10.0.0.9,actions=ct(commit,zone=1,nat(dst=10.0.0.1),table=1)",
        "in_port=1,udp,nw_dst=10.0.0.1,actions=ct(zone=1,nat,table=1)",
        "table=1,udp,ct_state=+trk-inv,actions=IN_PORT",
    ]);
    let asked = datagram(1, 1000, 9, 53);
    let there = bed.send("p1", &asked);
    assert_eq!(there.len(), 1);
    assert_eq!((&there[0].1[26..30], &there[0].1[30..34]), (&[10, 0, 0, 1][..], &[10, 0, 0, 1][..]));
    let back = bed.send("p1", &answer(&there[0].1));
    assert_eq!(back, [("p1".to_owned(), answer(&asked))], "the answer comes from the Service");
    bed.load(&["udp,actions=ct(commit,zone=2,nat(src=0.0.0.0),table=1)", "table=1,udp,ct_state=+new,actions=output:2"]);
    let sent = bed.send("p1", &asked);
    assert_eq!(sent, [("p2".to_owned(), asked.clone())], "0.0.0.0 is the address that it has");
    // What has one family is not translated to the other: refused, or left alone.
    let line = "udp,actions=ct(commit,zone=3,nat(src=fd00::1),table=1)";
    if bed.vsctl("bundle", &["-"], Some(line)).is_ok() {
        assert_eq!(bed.send("p1", &asked), [("p2".to_owned(), asked)]);
    }
    bed.settle();
}

/// T04: `ct()` where no packet has a connection, with what needs others, in long chains, and
/// forgotten on the way.
#[test]
fn ct_in_the_wrong_order() {
    let mut bed = Bed::new(2);
    for line in [
        "actions=ct(table=1)",
        "arp,actions=ct(commit)",
        "ip,actions=ct(commit,exec(set_field:1->reg0))",
        "ip,actions=ct(exec(set_field:1->ct_mark))",
        "ip,actions=ct(force)",
        "ip,actions=ct(table=255)",
    ] {
        let told = bed.refused(&[line]);
        assert!(told.contains("ct"), "{line}: {told}");
    }
    // Bare nat without a commit translates nothing.
    bed.load(&["udp,actions=ct(nat,table=1)", "table=1,udp,ct_state=+new+trk-snat-dnat,actions=output:2"]);
    assert_eq!(bed.fate(&udp(1)), (vec!["p2".to_owned()], "-".to_owned()));
    // Chains through two zones, one behind the other: 64 pass.
    for (length, expected) in [(64, (vec!["p2".to_owned()], "-")), (65, (Vec::new(), "recirc_depth"))] {
        let mut program: Vec<String> = (0..length)
            .map(|i| {
                format!(
                    "table={i},udp,actions=ct({}zone={},table={})",
                    if i % 4 < 2 { "commit," } else { "" },
                    i % 2 + 1,
                    i + 1
                )
            })
            .collect();
        program.push(format!("table={length},udp,ct_state=+new+trk,actions=output:2"));
        bed.load(&program.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(bed.fate(&udp(2)), (expected.0, expected.1.to_owned()), "{length} of them");
    }
    // Forgotten on the way, and found again.
    bed.load(&[
        "udp,actions=ct(commit,zone=5,table=1,exec(set_field:0x7->ct_mark))",
        "table=1,udp,ct_mark=0x7,actions=ct_clear,resubmit(,2)",
        "table=2,udp,ct_state=-trk,ct_mark=0,actions=ct(zone=5,table=3)",
        "table=3,udp,ct_state=+new+trk,ct_mark=0x7,actions=output:2",
    ]);
    assert_eq!(bed.fate(&udp(3)), (vec!["p2".to_owned()], "-".to_owned()));
    bed.settle();
}

/// T07: two programs that use zones, marks and tables in ways that contradict each other, exchanged
/// a thousand times. A packet sees the one or the other.
#[test]
fn programs_are_exchanged_a_thousand_times() {
    let mut bed = Bed::new(3);
    let programs = [
        [
            "delete",
            "add udp,actions=mod_nw_tos:4,ct(commit,zone=1,exec(set_field:0x1->ct_mark),table=1)",
            "add table=1,udp,ct_mark=0x1,nw_tos=4,actions=output:2",
            "add table=2,udp,actions=drop",
        ],
        [
            "delete",
            "add udp,actions=mod_nw_tos:8,ct(commit,zone=2,nat(src=10.7.7.7),table=2)",
            "add table=2,udp,ct_state=+snat,ct_mark=0,nw_tos=8,actions=output:3",
            "add table=1,udp,actions=drop",
        ],
    ];
    for round in 0..1000_u16 {
        let program = programs[usize::from(round % 2)];
        bed.write(program.iter().map(|line| text(line)).collect())
            .unwrap_or_else(|status| panic!("round {round}: {status}"));
        let (port, tos) = if round % 2 == 0 { ("p2", 4) } else { ("p3", 8) };
        for packet in [udp(round / 7 + 1), udp(round + 1)] {
            let sent = bed.send("p1", &packet);
            let seen: Vec<(&str, u8)> = sent.iter().map(|(port, frame)| (port.as_str(), frame[15])).collect();
            assert_eq!(seen, [(port, tos)], "round {round}");
        }
    }
    bed.settle();
}

/// An update as a line of ovs-ofctl: an added flow, or `delete` for all of them.
fn text(line: &str) -> v1::update::Update {
    let (kind, line) = match line.strip_prefix("add ") {
        Some(line) => (v1::LineKind::AddFlow, line),
        None => (v1::LineKind::DeleteFlows, ""),
    };
    v1::update::Update::Line(v1::LineUpdate { kind: kind.into(), line: line.to_owned() })
}
