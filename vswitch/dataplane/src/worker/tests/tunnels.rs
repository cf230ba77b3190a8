//! Packets into tunnels and out of them: port 1 is the uplink, 2 a host, 3 the VTEP, 4 (and 5)
//! tunnel ports, all in one bridge.

use super::bed::{Bed, tcp, udp};
use super::id;
use crate::meter::Rates;
use crate::observe::{DropReason, Software};
use crate::packet::testing::{Spec, sum_udp6};
use crate::packet::{L4, Mac};
use crate::port::{Cidr, TunnelConfig};
use crate::tunnel::{LocalEndpoint, Tunnels};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use vswitch_conntrack::Filter;
use vswitch_dpdk::{Burst, Csum};
use vswitch_overlay::{Ends, Header, Neighbours, Outer, Routes, TunnelHeader, TunnelKind};

const VTEP: [u8; 6] = [2, 0, 0, 0, 0, 0xb0];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 0x92];

const FLOWS: [&str; 5] = [
    "priority=9,in_port=2,actions=output:4",
    "priority=9,in_port=3,actions=output:1",
    "priority=9,in_port=1,actions=output:3",
    "priority=9,in_port=4,tun_id=5,actions=output:2",
    "priority=9,in_port=5,actions=output:2",
];

fn config(kind: TunnelKind, options: &str) -> TunnelConfig {
    let pairs = options.split_whitespace().filter_map(|pair| pair.split_once('='));
    let options: BTreeMap<_, _> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    TunnelConfig::parse(kind, &options).expect("good options")
}

impl Bed {
    /// The ports above; the peer is 1.1.2.92, our end 1.1.2.88.
    fn with_tunnel(kind: TunnelKind, options: &str, cached: bool) -> Self {
        let mut bed = Self::new(5);
        bed.shared.enable(cached);
        bed.add_tunnels(2, &[(3, kind, options), (4, kind, "remote_ip=1.1.2.93 key=5")]);
        bed.program(&FLOWS);
        bed
    }

    /// Makes a port the VTEP, with 1.1.2.88 and fd00::88, and others tunnels; by index.
    pub(super) fn add_tunnels(&mut self, vtep: usize, ports: &[(usize, TunnelKind, &str)]) {
        let bed = self;
        let mut routes = Routes::default();
        let own: [Cidr; 2] = ["1.1.2.88/24", "fd00::88/64"].map(|own| own.parse().expect("an address"));
        routes.set_addresses(id(vtep).0.into(), &own).expect("good addresses");
        let changes = Arc::clone(&bed.changes);
        let neighbours = Neighbours::new(move || {
            changes.advance();
        });
        let mut tunnels = Tunnels::new(routes, Arc::new(neighbours));
        bed.facts[vtep].vtep =
            Some(Arc::new(LocalEndpoint { mac: Mac(VTEP), addresses: own.map(|own| own.address).to_vec() }));
        for (port, kind, options) in ports {
            let tunnel = config(*kind, options);
            tunnels.add(id(*port), &tunnel).expect("no clash");
            bed.facts[*port].tunnel = Some(Arc::new(tunnel));
        }
        bed.tunnels = Arc::new(tunnels);
        bed.publish();
    }

    /// The peer is 1.1.2.92, and fd00::92.
    pub(super) fn knows_peer(&self) {
        for peer in ["1.1.2.92", "fd00::92"] {
            let peer = peer.parse().expect("an address");
            assert!(self.tunnels.neighbours.set(0, peer, PEER, self.now.0));
        }
    }

    /// Packets that died, wherever they came in or were to leave, by reason.
    pub(super) fn died(&self) -> Vec<(usize, &'static str, u64)> {
        let of = |port: usize| {
            let totals = self.totals(port);
            DropReason::ALL.iter().filter_map(move |reason| {
                let n = totals.rx_drops[reason.index()] + totals.tx_drops[reason.index()];
                (n > 0).then_some((port, reason.name(), n))
            })
        };
        (1..=5).flat_map(of).collect()
    }
}

/// A packet that the peer sends us through Geneve: the tunnel's id, TOS and TTL outside.
pub(super) fn from_peer(inner: &[u8], outside: (u32, u8, u8)) -> Vec<u8> {
    from_peer_by((TunnelKind::Geneve, false), inner, outside)
}

/// Likewise by any kind of tunnel, over IPv4 or IPv6.
pub(super) fn from_peer_by((kind, six): (TunnelKind, bool), inner: &[u8], (vni, tos, ttl): (u32, u8, u8)) -> Vec<u8> {
    let ends = if six {
        Ends::V6 { src: "fd00::92".parse().expect("an address"), dst: "fd00::88".parse().expect("an address") }
    } else {
        Ends::V4 { src: "1.1.2.92".parse().expect("an address"), dst: "1.1.2.88".parse().expect("an address") }
    };
    let body = match kind {
        TunnelKind::Geneve => {
            TunnelHeader::Geneve { vni, dst_port: 6081, csum: false, oam: false, options: Vec::new() }
        }
        TunnelKind::Vxlan => TunnelHeader::Vxlan { vni, dst_port: 4789, csum: false, gbp: None },
        TunnelKind::Gre => TunnelHeader::Gre { key: Some(vni), csum: false, seq: false },
    };
    let header =
        Header::new(&Outer { eth_src: PEER, eth_dst: VTEP, ends, tos, ttl, df: true, body }).expect("a header");
    let mut packet = vec![0; header.len()];
    assert!(header.write(&mut packet, inner.len(), 7, 0));
    packet.extend_from_slice(inner);
    if six && kind != TunnelKind::Gre {
        sum_udp6(&mut packet);
    }
    packet
}

/// What the peer would send: a packet of ours with its addresses the other way round.
pub(super) fn returned(packet: &[u8]) -> Vec<u8> {
    let (at, len) = if packet[12..14] == [8, 0] { (26, 4) } else { (22, 16) };
    let part = |from: usize, len: usize| &packet[from..from + len];
    [part(6, 6), part(0, 6), part(12, at - 12), part(at + len, len), part(at, len), &packet[at + 2 * len..]].concat()
}

#[test]
fn what_goes_in_comes_out() {
    for kind in [TunnelKind::Geneve, TunnelKind::Vxlan, TunnelKind::Gre] {
        for (remote, csum) in
            ["1.1.2.92", "fd00::92"].into_iter().flat_map(|remote| [(remote, "false"), (remote, "true")])
        {
            let options = format!("remote_ip={remote} key=5 csum={csum}");
            let [cached, plain] = [true, false].map(|cached| in_and_out(kind, &options, cached));
            assert_eq!(cached, plain, "{kind:?}, {options}: by caches, and without");
        }
    }
}

/// Sends packets of two flows into a tunnel, and what left back out of it. Returns what left.
fn in_and_out(kind: TunnelKind, options: &str, cached: bool) -> Vec<Vec<u8>> {
    let what = format!("{kind:?}, {options}, cached={cached}");
    let mut bed = Bed::with_tunnel(kind, options, cached);
    bed.knows_peer();
    let mut outers = Vec::new();
    for frame in [tcp(1, 2, 80), udp(1, 2, 53)].into_iter().cycle().take(8) {
        bed.receive(2, &frame);
        let sent = bed.sent();
        let [(1, outer)] = &sent[..] else { panic!("{what}: {sent:?}") };
        assert!(outer.ends_with(&frame), "{what}: the packet is inside");
        assert_eq!((&outer[..6], &outer[6..12]), (&PEER[..], &VTEP[..]), "{what}");
        bed.receive(1, &returned(outer));
        assert_eq!(bed.sent(), [(2, frame)], "{what}");
        outers.push(outer.clone());
    }
    let (totals, uplink) = (bed.totals(4), bed.totals(1));
    assert_eq!((totals.tx_packets, totals.rx_packets), (8, 8), "{what}");
    let udp_sum = kind != TunnelKind::Gre && (options.contains("::") || options.contains("csum=true"));
    let finished = uplink.software[Software::Checksum.index()];
    assert_eq!(finished, if udp_sum { 8 } else { 0 }, "{what}: checksums that the uplink's device did not finish");
    assert_eq!((bed.died(), bed.pool.in_use()), (vec![], 0), "{what}");
    outers
}

#[test]
fn a_neighbour_is_asked_once_a_second_and_the_answer_counts() {
    let mut bed = Bed::with_tunnel(TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5", true);
    for _ in 0..5 {
        bed.receive(2, &udp(1, 2, 53));
    }
    let asked = bed.sent();
    assert_eq!(asked.len(), 1, "one question: {asked:?}");
    let question = &asked[0].1;
    assert_eq!((asked[0].0, &question[12..14], &question[38..42]), (1, &[8, 6][..], &[1, 1, 2, 92][..]));
    assert_eq!(bed.died(), [(4, "no_neighbour", 5)]);
    let epoch = bed.changes.epoch();
    let answer = |mac: [u8; 6], to: [u8; 4]| {
        let arp: &[&[u8]] = &[&VTEP, &mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &mac, &[1, 1, 2, 92], &VTEP, &to];
        arp.concat()
    };
    bed.receive(1, &answer(PEER, [1, 1, 2, 77]));
    bed.sent();
    assert_eq!(bed.changes.epoch(), epoch, "an answer to somebody else");
    bed.receive(1, &answer(PEER, [1, 1, 2, 88]));
    bed.sent();
    assert!(bed.changes.epoch() > epoch, "the answer was heard");
    bed.receive(2, &udp(1, 2, 53));
    assert_eq!(bed.sent().len(), 1, "and the packet goes");
    // Whatever two that quarrel over an address say, decisions are compared once a second at most.
    let epoch = bed.changes.epoch();
    for i in 0..100 {
        bed.receive(1, &answer([2, 0, 0, 0, 1, i % 2], [1, 1, 2, 88]));
    }
    assert!(bed.changes.epoch() <= epoch + 1, "{} changes of 100 answers", bed.changes.epoch() - epoch);
}

#[test]
fn what_is_malformed_outside_dies_by_name_and_what_is_not_ours_is_the_hosts() {
    let mut bed = Bed::with_tunnel(TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5", true);
    bed.knows_peer();
    bed.receive(2, &udp(1, 2, 53));
    let good = returned(&bed.sent()[0].1);
    let with = |at: usize, byte: u8| {
        let mut packet = good.clone();
        packet[at] = byte;
        // The header checksum, anew.
        packet[24..26].fill(0);
        let sum = crate::packet::checksum::Sum::of(&packet[14..34]).checksum();
        packet[24..26].copy_from_slice(&sum.to_be_bytes());
        packet
    };
    for (packet, reason) in [
        (with(42, 0x40), "tunnel_header"), // another version
        (with(42, 0x3f), "tunnel_header"), // options beyond the packet
        (with(44, 0x08), "tunnel_header"), // another protocol inside
        (with(48, 6), "tunnel_no_port"),   // another id
        (with(29, 99), "tunnel_no_port"),  // another peer
        (with(40, 0x12), "tunnel_csum"),   // a checksum that is wrong
        (good[..60].to_vec(), "tunnel_header"),
    ] {
        let before = bed.died();
        bed.receive(1, &packet);
        let died: Vec<_> = bed.died().into_iter().filter(|drop| !before.contains(drop)).collect();
        let hosts = bed.ports();
        // One that is cut off is no packet of a tunnel any more, but just a packet.
        let ok = matches!(&died[..], [(3, name, _)] if *name == reason) && hosts.is_empty()
            || packet.len() == 60 && hosts == [3];
        assert!(ok, "{reason}: {died:?}, sent to {hosts:?}");
    }
    for (at, byte) in [(0, 0x04), (33, 89), (20, 0x20), (37, 0xc2)] {
        bed.receive(1, &with(at, byte));
        assert_eq!(bed.ports(), [3], "another address, a fragment, another port: byte {at}");
    }
    bed.receive(2, &returned(&good));
    assert_eq!(bed.ports(), [1], "what a host sends goes where rules say, whatever it looks like");
    assert_eq!(bed.pool.in_use(), 0);
}

#[test]
fn tunnels_in_tunnels_end() {
    let mut bed = Bed::with_tunnel(TunnelKind::Vxlan, "remote_ip=1.1.2.92 key=5", true);
    bed.knows_peer();
    // What comes out goes to the VTEP again.
    bed.program(&["priority=99,in_port=4,actions=output:3"]);
    let (mut packet, mut most) = (udp(1, 2, 53), 0);
    for depth in 1..=4 {
        bed.receive(2, &packet);
        let sent = bed.sent();
        packet = returned(&sent[0].1);
        bed.receive(1, &packet);
        let totals = bed.totals(3);
        let lost = totals.rx_drops[DropReason::TunnelDepth.index()];
        most += u64::from(depth > 2);
        assert_eq!(lost, most, "{depth} tunnels");
        bed.sent();
    }
    assert_eq!(bed.pool.in_use(), 0);
}

#[test]
fn random_bytes_for_our_tunnels_do_no_harm() {
    let seed: u64 = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed);
    let mut state = seed;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap_or(0) % below
    };
    for kind in [TunnelKind::Geneve, TunnelKind::Vxlan, TunnelKind::Gre] {
        let mut bed = Bed::with_tunnel(kind, "remote_ip=1.1.2.92 key=5", true);
        bed.knows_peer();
        bed.receive(2, &udp(1, 2, 53));
        let good = returned(&bed.sent()[0].1);
        for _ in 0..3000 {
            let mut packet = good.clone();
            for _ in 0..=random(3) {
                let at = 14 + random(packet.len() - 14);
                packet[at] = u8::try_from(random(256)).unwrap_or(0);
            }
            packet.truncate(14 + random(packet.len() - 13));
            bed.receive(1, &packet);
            bed.sent();
        }
        assert_eq!(bed.pool.in_use(), 0, "{kind:?}, seed {seed}");
    }
}

/// What tells tunnels apart tells packets apart that are the same inside, however they are kept.
#[test]
fn the_same_packet_out_of_other_tunnels_is_another() {
    const BY_OUTSIDE: [&str; 8] = [
        "priority=9,in_port=1,actions=output:3",
        "priority=9,in_port=4,udp,actions=ct(zone=1,table=1)",
        "priority=8,in_port=4,tun_id=5,actions=output:2",
        "priority=8,in_port=4,tun_id=6,actions=output:1",
        "table=1,priority=9,udp,tun_id=5,ct_state=+new,actions=ct(commit,zone=1),output:2",
        "table=1,priority=9,udp,tun_id=6,ct_state=+new,actions=ct(commit,zone=1),output:1",
        "table=1,priority=8,tun_id=5,actions=output:2",
        "table=1,priority=8,tun_id=6,actions=output:1",
    ];
    let mut beds = [true, false].map(|cached| {
        let mut bed = Bed::new(5);
        bed.shared.enable(cached);
        bed.add_tunnels(2, &[(3, TunnelKind::Geneve, "remote_ip=flow key=flow")]);
        bed.program(&BY_OUTSIDE);
        bed
    });
    for round in 0..6 {
        for frame in [tcp(1, 2, 80), udp(1, 2, 53)] {
            for outside in [(5, 0, 64), (6, 0, 64), (5, 0, 63), (6, 4, 64), (7, 0, 64), (5, 0, 64)] {
                let packet = from_peer(&frame, outside);
                let [cached, plain] = beds.each_mut().map(|bed| {
                    bed.receive(1, &packet);
                    bed.sent()
                });
                assert_eq!(cached, plain, "round {round}, {outside:?} outside of {frame:02x?}");
                let ways: &[usize] = match outside.0 {
                    5 => &[2],
                    6 => &[1],
                    _ => &[],
                };
                assert_eq!(
                    cached.iter().map(|(port, _)| *port).collect::<Vec<_>>(),
                    ways,
                    "round {round}, {outside:?}"
                );
            }
        }
    }
    assert!(beds[0].shared.stats.program_hits.get() > 20, "few took the fast path");
}

/// What is known of a packet is not true of what it is put into: pieces of a long one meet the
/// tracker of the underlay as what they are.
#[test]
fn pieces_of_a_long_packet_are_tracked_outside_as_what_they_are() {
    for cached in [true, false] {
        let mut bed = Bed::new(5);
        bed.shared.enable(cached);
        bed.add_tunnels(2, &[(3, TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5")]);
        bed.knows_peer();
        bed.program(&[
            "priority=9,in_port=2,tcp,actions=ct(commit,table=1)",
            "table=1,priority=9,in_port=2,actions=output:4",
            "priority=9,in_port=3,udp,actions=ct(table=2)",
            "table=2,priority=9,udp,ct_state=+new-inv,actions=ct(commit),output:1",
            "table=2,priority=9,udp,ct_state=+est-inv,actions=output:1",
        ]);
        for _ in 0..3 {
            let spec = Spec::plain(true, L4::Tcp, 3000);
            let mut mbuf = bed.pool.mbuf_from(&spec.partial()).expect("an mbuf");
            mbuf.set_csum(Csum::Partial);
            mbuf.set_gso_size(1000);
            let mut burst = Burst::new();
            burst.push(mbuf).expect("room");
            bed.big_frames();
            bed.walk.burst(&mut burst, id(1), bed.now);
            bed.walk.flush();
            bed.receive(2, &tcp(1, 2, 80));
            let sent = bed.sent();
            assert_eq!(sent.len(), 4, "cached={cached}: three pieces and a short one: {sent:?}");
            assert!(sent.iter().all(|(port, packet)| *port == 1 && packet[23] == 17), "cached={cached}: {sent:?}");
        }
        let mut protocols = Vec::new();
        bed.walk.conntrack.tracker().dump(&Filter::default(), bed.now.0, |connection| {
            protocols.push(connection.original.protocol);
            ControlFlow::Continue(())
        });
        let outside = protocols.iter().filter(|protocol| **protocol == 17).count();
        assert_eq!(outside, 2, "cached={cached}: two flows outside: {protocols:?}");
        assert_eq!((bed.died(), bed.pool.in_use()), (vec![], 0), "cached={cached}");
    }
}

/// Port 2 asks the way to the peer with this packet; the answer of the peer.
fn answer() -> Vec<u8> {
    let arp: &[&[u8]] = &[&VTEP, &PEER, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &PEER, &[1, 1, 2, 92], &VTEP, &[1, 1, 2, 88]];
    arp.concat()
}

fn waiting(max: u32) -> Bed {
    let mut bed = Bed::limited(5, Rates { waiting: max, ..Rates::NONE });
    bed.add_tunnels(2, &[(3, TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5 csum=true")]);
    bed.program(&FLOWS);
    bed
}

#[test]
fn packets_wait_for_the_address_of_the_next_hop() {
    let mut bed = waiting(3);
    let frames: Vec<_> = (1..=5).map(|i| udp(1, 2, i)).collect();
    bed.receive_in(2, &frames, 5);
    assert_eq!(bed.ports(), [1], "the question");
    bed.walk.maintain(bed.now);
    assert_eq!((bed.ports(), bed.pool.in_use()), (vec![], 3), "three wait");
    bed.receive(1, &answer());
    bed.sent();
    bed.walk.maintain(bed.now);
    let sent = bed.sent();
    let inner: Vec<_> =
        sent.iter().map(|(port, outer)| (*port, outer[outer.len() - frames[0].len()..].to_vec())).collect();
    assert_eq!(inner, frames[..3].iter().map(|frame| (1, frame.clone())).collect::<Vec<_>>(), "in their order");
    bed.receive(2, &frames[0]);
    assert_eq!(bed.sent(), [sent[0].clone()], "the same as if it had not waited");
    assert_eq!((bed.died(), bed.totals(4).tx_packets, bed.pool.in_use()), (vec![(4, "no_neighbour", 2)], 4, 0));
}

#[test]
fn who_waits_in_vain_dies_after_three_questions() {
    let mut bed = waiting(16);
    bed.receive(2, &udp(1, 2, 53));
    let mut questions = bed.sent().len();
    for _ in 0..40 {
        bed.now.0 += 100;
        bed.walk.maintain(bed.now);
        questions += bed.sent().len();
    }
    assert_eq!((questions, bed.died(), bed.pool.in_use()), (3, vec![(4, "no_neighbour", 1)], 0));
}

#[test]
fn what_waits_when_its_ports_go_dies_with_them() {
    for gone in [3, 4] {
        let mut bed = waiting(16);
        bed.receive(2, &udp(1, 2, 53));
        bed.sent();
        bed.knows_peer();
        bed.facts[gone - 1].admin_up = false;
        bed.publish();
        bed.walk.maintain(bed.now);
        let sent = bed.ports();
        assert_eq!(bed.pool.in_use(), 0, "port {gone}");
        assert!(sent.is_empty() || gone == 4, "port {gone}: {sent:?}");
    }
}

/// A frame of `payload` bytes of UDP, that may be cut or not.
pub(super) fn long(v4: bool, payload: usize, may_cut: bool) -> Vec<u8> {
    let mut frame = Spec::plain(v4, L4::Udp, payload).complete();
    if v4 {
        frame[20] = if may_cut { 0 } else { 0x40 };
        sum_header(&mut frame);
    }
    frame
}

/// Makes the checksum of an IPv4 header right.
pub(super) fn sum_header(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = crate::packet::checksum::Sum::of(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn the_sender_of_a_packet_that_is_too_long_is_told_or_it_is_cut() {
    // Ports take packets of 1,500 bytes; Geneve over IPv4 puts 50 bytes in front.
    for cached in [true, false] {
        let mut bed = Bed::with_tunnel(TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5", cached);
        bed.knows_peer();
        bed.program(&["priority=99,in_port=4,tun_src=1.1.2.92,tun_id=5,actions=output:2"]);
        let fits = |v4: bool| 1500 - 50 - if v4 { 28 } else { 48 };
        for v4 in [true, false] {
            for _ in 0..3 {
                bed.receive(2, &long(v4, fits(v4), false));
                assert_eq!(bed.sent().iter().map(|(port, sent)| (*port, sent.len())).collect::<Vec<_>>(), [(1, 1514)]);
            }
            bed.receive(2, &long(v4, fits(v4) + 1, false));
            let sent = bed.sent();
            let [(2, told)] = &sent[..] else { panic!("v4={v4}, cached={cached}: {sent:?}, {:?}", bed.died()) };
            let (at, says) = if v4 { (34, [3, 4]) } else { (54, [2, 0]) };
            assert_eq!((&told[at..at + 2], &told[at + 6..at + 8]), (&says[..], &1450_u16.to_be_bytes()[..]), "v4={v4}");
        }
        assert_eq!(bed.died(), [(4, "path_mtu", 2)], "cached={cached}");
        bed.receive(2, &long(true, fits(true) + 1, true));
        let pieces = bed.sent();
        assert_eq!(
            pieces.iter().map(|(port, sent)| (*port, sent.len())).collect::<Vec<_>>(),
            [(1, 14 + 50 + 1444), (1, 98 - 7)]
        );
        assert_eq!(bed.pool.in_use(), 0);
    }
}

#[test]
fn senders_are_not_told_too_often_or_where_nobody_minds() {
    let mut bed = Bed::with_tunnel(TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5", true);
    bed.knows_peer();
    bed.program(&["priority=99,in_port=4,actions=output:2"]);
    let frame = long(true, 1450, false);
    bed.receive_in(2, &vec![frame.clone(); 200], 32);
    let told = bed.ports().len();
    assert!((1..=30).contains(&told), "{told} messages at once");
    assert_eq!(bed.died(), [(4, "path_mtu", 200)]);

    let mut bed = Bed::with_tunnel(TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5 pmtud=false", true);
    bed.knows_peer();
    bed.receive(2, &frame);
    bed.receive(2, &long(true, 1430, false));
    assert_eq!(
        bed.sent().iter().map(|(port, sent)| (*port, sent.len())).collect::<Vec<_>>(),
        [(1, 14 + 1508)],
        "a tag less"
    );
    assert_eq!(bed.died(), [(1, "oversize", 1)]);
}

#[test]
fn each_sender_of_a_burst_is_told_on_the_fast_path_too() {
    let mut bed = Bed::with_tunnel(TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5", true);
    bed.knows_peer();
    bed.program(&[
        "priority=50,in_port=2,udp,actions=ct(table=1,zone=1)",
        "priority=50,in_port=4,udp,actions=ct(table=1,zone=1)",
        "table=1,priority=9,ct_state=+new+trk,in_port=2,ip,actions=ct(commit,zone=1),output:4",
        "table=1,priority=8,in_port=2,actions=output:4",
        "table=1,priority=8,in_port=4,actions=output:2",
    ]);
    let asked = long(true, 100, false);
    for _ in 0..3 {
        bed.receive(2, &asked);
        bed.receive(1, &from_peer(&super::ct::answer(&asked), (5, 0, 64)));
    }
    assert_eq!(bed.ports(), [1, 1, 1, 2, 2, 2], "{:?}", bed.died());
    let before = bed.shared.stats.program_hits.get();
    bed.receive_in(2, &vec![long(true, 1450, false); 3], 3);
    assert_eq!(bed.ports(), [2, 2, 2], "one message each");
    assert_eq!(bed.died(), [(4, "path_mtu", 3)]);
    assert_eq!(bed.shared.stats.program_hits.get() - before, 3);
}

/// Three datagrams of the peer as one packet that is for segmentation.
fn train(inner: &[u8]) -> Vec<u8> {
    let one = from_peer(inner, (5, 0, 64));
    let mut train = [&one[..], &one[42..], &one[42..]].concat();
    let (total, payload) = (train.len() - 14, u16::try_from(train.len() - 34).expect("short"));
    train[16..18].copy_from_slice(&u16::try_from(total).expect("short").to_be_bytes());
    sum_header(&mut train);
    train[38..40].copy_from_slice(&payload.to_be_bytes());
    let end = |at: usize| *train[at..].first_chunk().expect("an address");
    let pseudo = crate::packet::checksum::pseudo_v4(end(26), end(30), 17, payload).folded();
    train[40..42].copy_from_slice(&pseudo.to_be_bytes());
    train
}

/// Datagrams that came as one packet have one sender, who is told once, on the fast path as on the
/// slow one.
#[test]
fn the_sender_of_a_train_is_told_once() {
    for cached in [true, false] {
        let mut bed = Bed::new(6);
        bed.shared.enable(cached);
        let [five, six] = ["remote_ip=1.1.2.92 key=5", "remote_ip=1.1.2.92 key=6"];
        bed.add_tunnels(2, &[(3, TunnelKind::Geneve, five), (5, TunnelKind::Geneve, six)]);
        bed.knows_peer();
        bed.program(&[
            "priority=9,in_port=1,actions=output:3",
            "priority=9,in_port=3,actions=output:1",
            "priority=9,in_port=4,udp,actions=ct(zone=1,table=1)",
            "priority=9,in_port=6,udp,actions=ct(zone=1,table=2)",
            "priority=8,in_port=6,icmp,actions=output:2",
            "table=1,priority=9,ip,ct_state=+new,actions=ct(commit,zone=1),output:6",
            "table=1,priority=8,ip,actions=output:6",
            "table=2,priority=8,ip,actions=output:5",
        ]);
        let short = long(true, 100, false);
        for _ in 0..3 {
            bed.receive(1, &from_peer(&short, (5, 0, 64)));
            bed.receive(1, &from_peer(&super::ct::answer(&short), (6, 0, 64)));
        }
        assert_eq!(bed.ports(), [1, 1, 1, 5, 5, 5], "{:?}", bed.died());
        let before = bed.shared.stats.program_hits.get();
        let inner = long(true, 1450, false);
        let mut mbuf = bed.pool.mbuf_from(&train(&inner)).expect("an mbuf");
        mbuf.set_csum(Csum::Partial);
        mbuf.set_gso_size(u16::try_from(inner.len() + 8).expect("short"));
        let mut burst = Burst::new();
        burst.push(mbuf).expect("room");
        bed.walk.burst(&mut burst, id(0), bed.now);
        bed.walk.flush();
        assert_eq!(bed.ports(), [2], "cached={cached}: one message, {:?}", bed.died());
        let fast_path = bed.shared.stats.program_hits.get() - before;
        assert_eq!(fast_path, if cached { 3 } else { 0 }, "cached={cached}");
        assert_eq!((bed.totals(6).tx_drops[DropReason::PathMtu.index()], bed.pool.in_use()), (3, 0), "cached={cached}");
    }
}

#[test]
fn segments_are_cut_short_enough_for_the_tunnel() {
    let mut bed = Bed::with_tunnel(TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5", true);
    bed.knows_peer();
    let spec = Spec::plain(true, L4::Tcp, 5000);
    let mut mbuf = bed.pool.mbuf_from(&spec.partial()).expect("an mbuf");
    mbuf.set_csum(Csum::Partial);
    mbuf.set_gso_size(1460);
    let mut burst = Burst::new();
    burst.push(mbuf).expect("room");
    bed.walk.burst(&mut burst, id(1), bed.now);
    bed.walk.flush();
    let lengths: Vec<_> = bed.sent().iter().map(|(_, sent)| sent.len()).collect();
    assert_eq!(lengths, [1514, 1514, 1514, 14 + 50 + 40 + 5000 - 3 * 1410], "segments of 1,410 bytes and the rest");
    assert_eq!((bed.died(), bed.pool.in_use()), (vec![], 0));
}

#[test]
fn what_waited_is_cut_or_its_sender_told_like_any_other() {
    let mut bed = waiting(16);
    bed.program(&["priority=99,in_port=4,actions=output:2"]);
    let (fits, told, cut) = (long(true, 1422, false), long(true, 1423, false), long(true, 1423, true));
    bed.receive_in(2, &[fits, told, cut], 3);
    assert_eq!(bed.ports(), [1], "the question");
    bed.knows_peer();
    bed.walk.maintain(bed.now);
    let sent: Vec<_> = bed.sent().iter().map(|(port, sent)| (*port, sent.len())).collect();
    let [(1, 1514), (1, first), (1, second), (2, 590)] = sent[..] else { panic!("{sent:?}") };
    assert_eq!((first, second), (14 + 50 + 1444, 98 - 7));
    assert_eq!((bed.died(), bed.pool.in_use()), (vec![(4, "path_mtu", 1)], 0));
}

/// The source of such a message is whoever the packet was for, wherever that is.
#[test]
fn nothing_is_learned_of_messages_to_senders() {
    let mut bed = Bed::with_tunnel(TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5", true);
    bed.knows_peer();
    bed.program(&[
        "priority=99,in_port=4,actions=learn(table=9,NXM_OF_ETH_SRC[]),NORMAL",
        "table=9,priority=0,actions=drop",
    ]);
    let frame = long(true, 1450, false);
    bed.receive(2, &frame);
    let sent = bed.sent();
    assert!(sent.iter().any(|(port, told)| *port == 2 && told[34..36] == [3, 4]), "told: {sent:?}");
    assert_eq!(bed.counts().iter().filter(|(table, ..)| *table == 9).count(), 1, "a flow was learned");
    assert_eq!(bed.fdb.stats().learned, 0, "where that address is was learned");
}
