//! Bursts of packets that come out of tunnels: port 1 is the uplink, 2 and 5 are hosts, 3 the VTEP,
//! 4, 6 and 7 tunnel ports.

use super::bed::{Bed, tcp, udp};
use super::ct::answer;
use super::tunnels::from_peer_by;
use crate::packet::testing::sum_udp6;
use crate::time::Millis;
use proptest::prelude::*;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_overlay::TunnelKind;

const FLOWS: [&str; 8] = [
    "priority=9,in_port=1,actions=output:3",
    "priority=9,in_port=3,actions=output:1",
    "priority=9,in_port=4,ip,actions=ct(zone=1,table=1)",
    "priority=9,in_port=6,ip,actions=ct(zone=1,table=1)",
    "priority=8,in_port=4,actions=output:5",
    "table=1,priority=9,ip,ct_state=+new,actions=ct(commit,zone=1),output:2",
    "table=1,priority=9,ip,ct_state=-new,actions=output:2",
    // Out of one tunnel and into another one, whose other end sends nothing: who is heard of in
    // time has the same address all the while.
    "table=1,priority=10,udp,udp_dst=54,ct_state=-new,actions=output:7",
];

/// `six`: the underlay is IPv6.
fn bed(kind: TunnelKind, six: bool, cached: bool) -> Bed {
    let mut bed = Bed::new(7);
    bed.shared.enable(cached);
    let net = if six { "fd00::" } else { "1.1.2." };
    let ends = [(92, 5), (92, 6), (94, 7)].map(|(host, key)| format!("remote_ip={net}{host} key={key}"));
    bed.add_tunnels(2, &[(3, kind, &ends[0]), (5, kind, &ends[1]), (6, kind, &ends[2])]);
    bed.knows_peer();
    let silent = format!("{net}94").parse().expect("an address");
    assert!(bed.tunnels.neighbours.set(0, silent, [2, 0, 0, 0, 0, 0x94], bed.now.0));
    bed.program(&FLOWS);
    bed
}

/// What is outside.
#[derive(Clone, Copy, Debug)]
struct Outside {
    kind: TunnelKind,
    six: bool,
    vni: u32,
    ttl: u8,
    /// UDP source port.
    source: u16,
    /// The last byte of the sender's MAC address.
    sender: u8,
}

const USUAL: Outside = Outside { kind: TunnelKind::Geneve, six: false, vni: 5, ttl: 64, source: 40_000, sender: 0x92 };

impl Outside {
    fn around(self, inner: &[u8]) -> Vec<u8> {
        let mut packet = from_peer_by((self.kind, self.six), inner, (self.vni, 0, self.ttl));
        packet[11] = self.sender;
        if self.kind != TunnelKind::Gre {
            let at = if self.six { 54 } else { 34 };
            packet[at..at + 2].copy_from_slice(&self.source.to_be_bytes());
            if self.six {
                sum_udp6(&mut packet);
            }
        }
        packet
    }
}

/// A flow that the switch never saw outside is decided like the others of its tunnel, and its
/// connection is found at once.
#[test]
fn one_decision_is_for_all_flows_of_a_tunnel() {
    for (kind, six) in [TunnelKind::Geneve, TunnelKind::Vxlan, TunnelKind::Gre]
        .into_iter()
        .flat_map(|kind| [(kind, false), (kind, true)])
    {
        let mut bed = bed(kind, six, true);
        let usual = Outside { kind, six, ..USUAL };
        for _ in 0..4 {
            bed.receive(1, &usual.around(&udp(1, 2, 53)));
        }
        let (before, short) = (bed.decided(), bed.shared.stats.program_hits.get());
        bed.sent();
        let others: Vec<_> = (0..64).map(|i| Outside { source: 50_000 + i, ..usual }.around(&udp(1, 2, 53))).collect();
        bed.receive_in(1, &others, 32);
        assert_eq!(bed.sent(), vec![(2, udp(1, 2, 53)); 64], "{usual:?}");
        let (after, all) = (bed.decided(), bed.shared.stats.program_hits.get() - short);
        assert_eq!((after.1, after.2, all), (before.1, before.2, 64), "{usual:?}: megaflow hits, misses, programs");
    }
}

/// A rule that asks for the source port tells flows apart, also when it comes later.
#[test]
fn a_rule_for_the_outer_source_port_is_met() {
    for (kind, six) in
        [(TunnelKind::Geneve, false), (TunnelKind::Vxlan, false), (TunnelKind::Geneve, true), (TunnelKind::Vxlan, true)]
    {
        let (mut bed, udp_outside) = (bed(kind, six, true), if six { "udp6" } else { "udp" });
        let packets = [40_000, 40_001].map(|source| Outside { kind, six, source, ..USUAL }.around(&udp(1, 2, 53)));
        for (rule, passes) in [(None, 2), (Some("drop"), 1), (Some("output:3"), 2), (Some("output:5"), 1)] {
            if let Some(actions) = rule {
                bed.program(&[&format!("priority=60,in_port=1,{udp_outside},udp_src=40001,actions={actions}")]);
            }
            for round in 0..4 {
                bed.receive_in(1, &packets, 2);
                let inside = bed.sent().into_iter().filter(|(port, _)| *port == 2).count();
                assert_eq!(inside, passes, "{kind:?}, six: {six}, {rule:?}, round {round}");
            }
        }
    }
}

/// A rule that asks for the flow label outside tells packets of a tunnel apart by it.
#[test]
fn a_rule_for_the_outer_flow_label_is_met() {
    let mut bed = bed(TunnelKind::Geneve, true, true);
    let packets = [0, 0x4_0001_u32].map(|label| {
        let mut packet = Outside { six: true, ..USUAL }.around(&udp(1, 2, 53));
        packet[14..18].copy_from_slice(&(6 << 28 | label).to_be_bytes());
        packet
    });
    for (rule, passes) in [(None, 2), (Some("drop"), 1), (Some("output:3"), 2)] {
        if let Some(actions) = rule {
            bed.program(&[&format!("priority=60,in_port=1,ipv6,ipv6_label=0x40001,actions={actions}")]);
        }
        for round in 0..4 {
            bed.receive_in(1, &packets, 2);
            let inside = bed.sent().into_iter().filter(|(port, _)| *port == 2).count();
            assert_eq!(inside, passes, "{rule:?}, round {round}");
        }
    }
}

/// What a packet of a burst teaches, the next one knows, though its entry was there when the burst
/// came.
#[test]
fn what_is_learned_ends_a_decap_entry_at_once() {
    let mut bed = bed(TunnelKind::Geneve, false, true);
    bed.program(&[TEACHER]);
    let packet = |source, frame: Vec<u8>| Outside { source, ..USUAL }.around(&frame);
    let (usual, other) = (packet(40_000, udp(1, 2, 53)), packet(40_002, udp(1, 2, 53)));
    let warm = vec![usual.clone(), other.clone(), usual.clone(), other.clone()];
    (0..3).for_each(|_| bed.receive_in(1, &warm, 4));
    assert_eq!(bed.sent().len(), 12);
    let taught = [usual.clone(), other.clone(), packet(40_000, udp(9, 2, 99)), usual.clone(), other.clone()];
    let burst = [&taught[..], &[usual.clone(), other, usual]].concat();
    bed.receive_in(1, &burst, 32);
    let sent = bed.ports();
    let inside = sent.iter().filter(|port| **port == 2).count();
    assert_eq!((sent.len(), inside), (6, 5), "two of source port 40002 are dropped: {sent:?}");
}

/// A batch of packets by one entry ends where one is not as the others, and goes on behind it.
#[test]
fn a_run_goes_on_behind_a_packet_that_is_not_replayed() {
    let mut beds = [true, false].map(|cached| bed(TunnelKind::Geneve, false, cached));
    let (plain, wrong) = (udp(1, 2, 53), Inner::BadSum.bytes());
    let relayed = udp(1, 2, 54);
    let mut by = (0..).map(|i| Outside { source: 40_000 + i % 7, ..USUAL });
    let mut around = |frame: &[u8]| by.next().expect("endless").around(frame);
    let mut warm: Vec<_> = [&plain, &relayed].map(|frame| around(frame)).into();
    // The others have answered: the connections are no new ones any more.
    warm.extend([&plain, &relayed].map(|frame| Outside { vni: 6, ..USUAL }.around(&answer(frame))));
    warm.extend((0..3).flat_map(|_| [around(&plain), around(&relayed)]));
    let burst: Vec<_> =
        [&plain, &plain, &wrong, &plain, &relayed, &relayed, &wrong, &relayed, &plain, &tcp(7, 2, 9), &plain]
            .map(|frame| around(frame))
            .into();
    let [cached, long] = beds.each_mut().map(|bed| {
        warm.iter().for_each(|packet| bed.receive(1, packet));
        bed.sent();
        let replayed = bed.shared.stats.program_hits.get();
        bed.receive_in(1, &burst, 32);
        let totals: Vec<_> = (1..=7).map(|port| bed.totals(port)).collect();
        (bed.sent(), totals, bed.counts(), bed.shared.stats.program_hits.get() - replayed)
    });
    assert_eq!(cached.0, long.0, "sent");
    assert_eq!(cached.1, long.1, "ports");
    assert_eq!(cached.2, long.2, "flows");
    assert_eq!((cached.3, long.3), (8, 0), "eight are like others before");
    assert_eq!(cached.1[6].tx_packets, 3 + 3, "into the other tunnel, when it was no new connection");
}

#[derive(Clone, Debug)]
enum Inner {
    Udp(u8, u16),
    Tcp(u8),
    /// To the first.
    Answer(u8, u16),
    /// From whom flows are learned that change what is decided outside.
    Teacher,
    Arp,
    BadSum,
    Short(usize),
}

impl Inner {
    fn bytes(&self) -> Vec<u8> {
        match *self {
            Self::Udp(from, port) => udp(from, 2, port),
            Self::Tcp(from) => tcp(from, 2, 80),
            Self::Answer(from, port) => answer(&udp(from, 2, port)),
            Self::Teacher => udp(9, 2, 99),
            Self::Arp => [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6], &[0; 46]].concat(),
            Self::BadSum => {
                let mut frame = udp(1, 2, 53);
                frame[25] ^= 4;
                frame
            }
            Self::Short(len) => udp(1, 2, 53)[..len].to_vec(),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Burst(Vec<(Outside, Inner, u8)>),
    Flow(&'static str),
    Time(u64),
}

/// Who hears UDP to port 99 refuses what comes from port 40002, for a second.
const TEACHER: &str = "priority=63,in_port=4,udp,udp_dst=99,actions=learn(table=0,priority=70,hard_timeout=1,dl_type=0x800,nw_proto=17,udp_src=40002),output:5";

const CHANGES: [&str; 9] = [
    "priority=60,in_port=1,udp,udp_src=40001,actions=drop",
    "priority=60,in_port=1,udp,udp_src=40001,actions=output:3",
    "priority=61,in_port=1,ip,nw_ttl=63,actions=drop",
    "priority=61,in_port=1,ip,nw_ttl=63,actions=output:3",
    "priority=62,in_port=6,tun_id=6,actions=output:5",
    "priority=62,in_port=6,tun_id=6,udp,actions=ct(zone=2,table=1)",
    TEACHER,
    "table=7,priority=1,actions=drop",
    "priority=64,in_port=1,dl_src=02:00:00:00:00:93,actions=learn(table=0,priority=71,hard_timeout=1,NXM_OF_ETH_SRC[],NXM_OF_IN_PORT[]),output:3",
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let inner = prop_oneof![
        8 => (1..4_u8, 53..55_u16).prop_map(|(from, port)| Inner::Udp(from, port)),
        3 => (1..4_u8).prop_map(Inner::Tcp),
        2 => (1..4_u8, 53..55_u16).prop_map(|(from, port)| Inner::Answer(from, port)),
        1 => Just(Inner::Teacher),
        1 => Just(Inner::Arp),
        1 => Just(Inner::BadSum),
        1 => (0..46_usize).prop_map(Inner::Short),
    ];
    let kind = prop_oneof![9 => Just(TunnelKind::Geneve), 1 => Just(TunnelKind::Gre), 1 => Just(TunnelKind::Vxlan)];
    let outside = (kind, prop_oneof![3 => Just(5_u32), 1 => Just(6)], 63..65_u8, 40_000..40_004_u16);
    let sender = prop_oneof![5 => Just(0x92_u8), 1 => Just(0x93)];
    let outside = (outside, sender).prop_map(|((kind, vni, ttl, source), sender)| Outside {
        kind,
        vni,
        ttl,
        source,
        sender,
        ..USUAL
    });
    // Most come by the entry of the one before.
    let packets = prop::collection::vec((inner, prop_oneof![20 => Just(0_u8), 1 => 1..200_u8]), 1..20);
    let run = (outside, any::<bool>(), packets).prop_map(|(outside, turns, packets)| {
        let sources = (0..4).cycle().map(|turn| if turns { 40_000 + turn } else { outside.source });
        let of = |(source, (inner, damage)): (u16, (Inner, u8))| (Outside { source, ..outside }, inner, damage);
        sources.zip(packets).map(of).collect::<Vec<_>>()
    });
    let step = prop_oneof![
        8 => prop::collection::vec(run, 1..8).prop_map(|runs| Step::Burst(runs.concat())),
        1 => prop::sample::select(&CHANGES[..]).prop_map(Step::Flow),
        1 => (1..1500_u64).prop_map(Step::Time),
    ];
    prop::collection::vec(step, 5..25)
}

fn apply(bed: &mut Bed, six: bool, step: &Step) {
    match step {
        Step::Burst(packets) => {
            let damaged = |(outside, inner, damage): &(Outside, Inner, u8)| {
                let mut packet = Outside { six, ..*outside }.around(&inner.bytes());
                // Some bit of the headers outside.
                if *damage > 0
                    && let Some(byte) = packet.get_mut(12 + usize::from(*damage) % if six { 58 } else { 38 })
                {
                    *byte ^= 1 << (damage % 8);
                }
                packet
            };
            bed.receive_in(1, &packets.iter().map(damaged).collect::<Vec<_>>(), 32);
        }
        Step::Flow(line) => bed.program(&[line]),
        Step::Time(ms) => {
            bed.now = Millis(bed.now.0 + ms);
            bed.walk.maintain(bed.now);
            bed.expire();
        }
    }
}

/// Packets that programs handled, of all.
static SHORT: AtomicU64 = AtomicU64::new(0);
static ALL: AtomicU64 = AtomicU64::new(0);

#[test]
fn bursts_out_of_tunnels_are_as_without_caches() {
    proptest!(ProptestConfig { cases: 300, max_shrink_iters: 4000, ..ProptestConfig::default() }, |(steps in steps(), six: bool)| {
        let mut beds = [true, false].map(|cached| bed(TunnelKind::Geneve, six, cached));
        for (i, step) in steps.iter().enumerate() {
            let [cached, plain] = beds.each_mut().map(|bed| {
                apply(bed, six, step);
                let totals: Vec<_> = (1..=7).map(|port| bed.totals(port)).collect();
                (bed.sent(), totals, bed.counts())
            });
            let told = || format!("six: {six}, step {i}, {step:?}, of {steps:#?}");
            prop_assert_eq!(cached.0, plain.0, "sent: {}", told());
            prop_assert_eq!(cached.1, plain.1, "ports: {}", told());
            prop_assert_eq!(cached.2, plain.2, "flows: {}", told());
        }
        ALL.fetch_add(beds[0].totals(1).rx_packets, Relaxed);
        SHORT.fetch_add(beds[0].shared.stats.program_hits.get(), Relaxed);
        prop_assert_eq!(beds.each_ref().map(|bed| bed.pool.in_use()), [0, 0], "mbufs leaked");
    });
    let (short, all) = (SHORT.load(Relaxed), ALL.load(Relaxed));
    assert!(short * 4 > all, "{short} of {all} packets took the fast path: this compares nothing");
}
