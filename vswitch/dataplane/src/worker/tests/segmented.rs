//! Packets in many segments: whatever is done to one, and wherever it is cut, all is as if it had
//! come in one piece. Of jumbo frames, which never do, as if their segments were full.
//!
//! Devices fill segments one after the other. Others come of headers that were put in front or
//! taken away, and of guests that lend what they send; no place on the walk may mind.

use super::bed::Bed;
use super::id;
use super::tunnels::returned;
use crate::packet::testing::{Spec, cut};
use crate::packet::{L4, strict};
use crate::pipeline::{Interest, Subscription};
use vswitch_dpdk::{Burst, Csum, Mbuf};
use vswitch_overlay::TunnelKind;

/// Packets that a case is tried with: bytes, and what is known of their checksum.
pub(super) type Frame = (Vec<u8>, Csum);

/// A packet that left, by which port.
pub(super) type Sent = (usize, Vec<u8>);

/// What was counted: packets and bytes of flows, by table and priority; of ports, all there is.
type Counted = (Vec<(u8, u16, u64, u64)>, Vec<crate::observe::PortTotals>);

/// Ports of a bed: 1 is the uplink, 2 sends, 3 is the VTEP, 4 the tunnel.
const PORTS: usize = 6;

/// What is done to packets of port 2.
struct Case {
    name: &'static str,
    /// Flows, groups, meters: `P` stands for the packet's protocol, `A` for an address of its
    /// family, with a port.
    lines: &'static [&'static str],
    /// How many packets leave for each one.
    sends: usize,
    /// What leaves are whole packets, with all that belongs to them.
    whole: bool,
}

impl Case {
    fn lines(&self, spec: &Spec) -> Vec<String> {
        let protocol = match (spec.ipv4, spec.l4) {
            (true, L4::Tcp) => "tcp",
            (true, L4::Udp) => "udp",
            (false, L4::Tcp) => "tcp6",
            (false, L4::Udp) => "udp6",
        };
        let address = if spec.ipv4 { "10.0.0.7:99" } else { "[fd00::7]:99" };
        let line = |line: &&str| line.replace(",P,", &format!(",{protocol},")).replace("=A)", &format!("={address})"));
        self.lines.iter().map(line).collect()
    }
}

const fn case(name: &'static str, sends: usize, lines: &'static [&'static str]) -> Case {
    Case { name, lines, sends, whole: true }
}

const CASES: &[Case] = &[
    case(
        "addresses, ports and TTL",
        2,
        &[
            "in_port=2,tcp,actions=mod_dl_dst:02:00:00:00:00:09,mod_nw_src:10.9.8.7,mod_tp_dst:99,dec_ttl,output:1,mod_nw_dst:10.1.1.1,output:5",
            "in_port=2,udp,actions=mod_nw_src:10.9.8.7,mod_nw_tos:8,mod_tp_src:99,dec_ttl,output:1,mod_nw_ttl:3,output:5",
            "in_port=2,tcp6,actions=set_field:fd09::1->ipv6_src,mod_tp_src:99,dec_ttl,output:1,set_field:7->ipv6_label,output:5",
            "in_port=2,udp6,actions=set_field:fd09::1->ipv6_dst,mod_tp_dst:99,dec_ttl,output:1,mod_nw_tos:8,output:5",
        ],
    ),
    case(
        "tags",
        4,
        &[
            "in_port=2,actions=push_vlan:0x88a8,set_field:4101->vlan_vid,output:1,push_vlan:0x8100,set_field:4102->vlan_vid,output:5,mod_vlan_pcp:3,output:1,pop_vlan,pop_vlan,output:6",
            "priority=40000,in_port=2,dl_vlan=5,actions=mod_vlan_vid:6,output:1,pop_vlan,output:5,push_vlan:0x8100,output:6,output:5",
        ],
    ),
    case("flood, into a tunnel too", PORTS - 1, &["in_port=2,actions=FLOOD"]),
    case("learning", PORTS - 1, &["in_port=2,actions=NORMAL"]),
    case(
        "copies, each of them another",
        4,
        &[
            "in_port=2,P,actions=clone(mod_dl_src:02:00:00:00:00:77,dec_ttl,output:1),output:5,clone(push_vlan:0x8100,mod_tp_dst:7,output:6),dec_ttl,IN_PORT",
        ],
    ),
    case(
        "a group of all, and a rule that is learned",
        2,
        &[
            "group add group_id=1,type=all,bucket=mod_dl_dst:02:00:00:00:00:99,output:1,bucket=mod_dl_src:02:00:00:00:00:99,output:5",
            "in_port=2,actions=learn(table=1,NXM_OF_IN_PORT[],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),group:1",
        ],
    ),
    case(
        "a meter that remarks, and controllers",
        1,
        &[
            "meter add meter=1,pktps,bands=type=dscp_remark,prec_level=1,rate=1",
            "in_port=2,P,actions=controller(max_len=70),mod_nw_tos:40,resubmit(,1)",
            "table=1,P,actions=meter:1,controller(max_len=65535),dec_ttl,output:1",
        ],
    ),
    case(
        "a meter that drops",
        0,
        &["meter add meter=1,kbps,bands=type=drop,rate=1", "in_port=2,actions=meter:1,output:1"],
    ),
    case(
        "the length",
        1,
        &[
            "in_port=2,actions=check_pkt_larger(250)->NXM_NX_REG0[0],resubmit(,1)",
            "table=1,P,reg0=1,actions=mod_tp_dst:9,output:1",
            "table=1,P,reg0=0,actions=dec_ttl,output:5",
        ],
    ),
    Case {
        whole: false,
        ..case(
            "cut off",
            3,
            &[
                "in_port=2,P,actions=output(port=1,max_len=64),dec_ttl,output(port=5,max_len=200),output(port=6,max_len=14)",
            ],
        )
    },
    case(
        "refused",
        2,
        &[
            "in_port=2,P,actions=push_vlan:0x8100,mod_tp_dst:9,dec_ttl,clone(output:1),resubmit(,1)",
            "table=1,actions=reject(icmp=3,icmp6=4,IN_PORT)",
        ],
    ),
    case(
        "tracked and translated",
        1,
        &[
            "in_port=2,P,actions=ct(zone=5,table=1,nat)",
            "table=1,priority=9,P,ct_state=+new+trk-inv,actions=ct(commit,zone=5,table=2,nat(src=A))",
            "table=1,priority=8,P,ct_state=-inv+trk,actions=resubmit(,2)",
            "table=2,P,ct_state=-inv,actions=dec_ttl,output:1",
        ],
    ),
    case(
        "tracked twice, a copy of it in between",
        2,
        &[
            "in_port=2,P,actions=ct(commit,zone=5,table=1),output:5",
            "table=1,P,actions=push_vlan:0x8100,ct(commit,zone=6,nat(dst=A)),output:1",
        ],
    ),
    case(
        "into a tunnel, translated",
        1,
        &["in_port=2,P,actions=ct(commit,zone=5,table=1,nat(src=A))", "table=1,P,actions=dec_ttl,output:4"],
    ),
    case("into a tunnel and elsewhere", 3, &["in_port=2,P,actions=output:1,output:4,mod_tp_dst:9,output:5"]),
    Case { whole: false, ..case("cut off into a tunnel", 1, &["in_port=2,actions=output(port=4,max_len=90)"]) },
];

/// What the cases do not say: packets of the VTEP leave by the uplink, those of the peer come out
/// of the tunnel.
const UNDERLAY: [&str; 3] = [
    "priority=19,in_port=3,actions=output:1",
    "priority=19,in_port=1,actions=output:3",
    "priority=19,in_port=4,actions=output:5",
];

/// Where a packet is cut: everywhere in front, into pieces of a byte or two, into no bytes at all,
/// and where segments and headers that are looked at end.
pub(super) fn places(len: usize) -> Vec<Vec<usize>> {
    let more = [
        vec![1; 100],
        vec![2; 61],
        vec![7, 7, 7, 7, 7, 7, 7, 7, 100],
        vec![0, 14],
        vec![13, 0, 1, 0, 20],
        vec![14, 20, 20],
        vec![18, 40, 8],
        vec![511],
        vec![512],
        vec![600, 1, 1, 2000],
        vec![2047, 2048],
        vec![len - 1],
    ];
    (1..=120).map(|at| vec![at]).chain(more).collect()
}

/// A bed and who listens to it.
pub(super) struct Watched {
    pub(super) bed: Bed,
    controller: Subscription,
}

impl Watched {
    pub(super) fn new(lines: &[String], (kind, options): (TunnelKind, &str), cached: bool) -> Self {
        let mut bed = Bed::new(PORTS);
        bed.shared.enable(cached);
        bed.add_tunnels(2, &[(3, kind, options)]);
        bed.knows_peer();
        bed.big_frames();
        bed.program(&UNDERLAY);
        bed.program(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let controller = bed.packet_ins.subscribe(Interest::of(0)).expect("a subscription");
        Self { bed, controller }
    }

    /// Receives one packet. What left, and what controllers were told.
    pub(super) fn feed(&mut self, port: usize, mbuf: Mbuf) -> (Vec<Sent>, Vec<String>) {
        let mut burst = Burst::new();
        burst.push(mbuf).expect("room");
        self.bed.now.0 += 1;
        self.bed.walk.burst(&mut burst, id(port - 1), self.bed.now);
        self.bed.walk.flush();
        let told = std::iter::from_fn(|| self.controller.receiver.try_recv().ok())
            .map(|told| format!("{:?}, {:02x?}, {:02x?}", told.metadata, told.packet, told.received));
        (self.bed.sent(), told.collect())
    }

    fn counted(&mut self) -> Counted {
        (self.bed.counts(), (1..=PORTS).map(|port| self.bed.totals(port)).collect())
    }
}

/// The packet is what it says: its lengths and checksums are right.
pub(super) fn assert_right(bed: &Bed, packet: &[u8], told: &str) {
    let mbuf = bed.pool.mbuf_from(packet).expect("an mbuf");
    assert_eq!(strict::check(&mbuf), None, "{told}: {packet:02x?}");
}

pub(super) fn difference(whole: &[Sent], cut: &[Sent]) -> String {
    let lengths = |sent: &[Sent]| sent.iter().map(|(port, sent)| (*port, sent.len())).collect::<Vec<_>>();
    let at = |(whole, cut): (&Sent, &Sent)| whole.1.iter().zip(&cut.1).position(|(a, b)| a != b);
    let first: Vec<_> = whole.iter().zip(cut).map(at).collect();
    format!("{:?} became {:?}, the first other byte of each is {first:?}", lengths(whole), lengths(cut))
}

/// The same packets to two beds: in full segments to one, cut to the other.
pub(super) struct Pair {
    pub(super) whole: Watched,
    pub(super) cut: Watched,
    pub(super) told: String,
}

impl Pair {
    pub(super) fn new(name: &str, lines: &[String], tunnel: (TunnelKind, &str), cached: bool) -> Self {
        let new = || Watched::new(lines, tunnel, cached);
        Self { whole: new(), cut: new(), told: format!("{name}, cached={cached}") }
    }

    /// What left.
    pub(super) fn feed(&mut self, port: usize, (frame, csum): &Frame, lengths: &[usize]) -> Vec<Sent> {
        let mut mbuf = self.whole.bed.pool.mbuf_from(frame).expect("an mbuf");
        mbuf.set_csum(*csum);
        let whole = self.whole.feed(port, mbuf);
        let mut mbuf = cut(&self.cut.bed.pool, frame, lengths);
        mbuf.set_csum(*csum);
        let cut = self.cut.feed(port, mbuf);
        let told = || format!("{}, {} bytes, {csum:?}, cut at {lengths:?}", self.told, frame.len());
        assert!(whole.0 == cut.0, "{}: {}", told(), difference(&whole.0, &cut.0));
        assert_eq!(whole.1, cut.1, "{}: what controllers are told", told());
        whole.0
    }

    pub(super) fn end(&mut self) {
        assert_eq!(self.whole.counted(), self.cut.counted(), "{}: counters", self.told);
        assert_eq!((self.whole.bed.pool.in_use(), self.cut.bed.pool.in_use()), (0, 0), "{}: mbufs", self.told);
    }
}

/// Packets of each kind: short ones, tagged ones, and jumbo frames.
pub(super) fn specs() -> Vec<Spec> {
    let of = |(v4, l4): (bool, L4)| {
        let spec = Spec::plain(v4, l4, 200);
        let jumbo = Spec::plain(v4, l4, 9014 - spec.payload_start());
        [Spec { tags: vec![5], ..spec.clone() }, jumbo, spec]
    };
    [(true, L4::Tcp), (true, L4::Udp), (false, L4::Tcp), (false, L4::Udp)].into_iter().flat_map(of).collect()
}

#[test]
fn whatever_is_done_to_a_packet_it_makes_no_difference_where_it_is_cut() {
    let tunnel = (TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5");
    for (case, spec) in CASES.iter().flat_map(|case| specs().into_iter().map(move |spec| (case, spec))) {
        let frames = [(spec.complete(), Csum::Unknown), (spec.partial(), Csum::Partial)];
        for (frame, cached) in frames.iter().flat_map(|frame| [(frame, false), (frame, true)]) {
            let mut pair = Pair::new(case.name, &case.lines(&spec), tunnel, cached);
            let mut last = Vec::new();
            for lengths in places(frame.0.len()) {
                let sent = pair.feed(2, frame, &lengths);
                let told = || format!("{}, {} bytes, cut at {lengths:?}", pair.told, frame.0.len());
                assert_eq!(sent.len(), case.sends, "{}: packets sent", told());
                if case.whole && sent != last {
                    sent.iter().for_each(|(_, sent)| assert_right(&pair.whole.bed, sent, &told()));
                }
                last = sent;
            }
            pair.end();
        }
    }
}

/// What the other end would answer to an untagged packet: sums do not mind that addresses, ports
/// and numbers of TCP change places.
fn answer(packet: &[u8]) -> Vec<u8> {
    let mut answer = returned(packet);
    let (l4, protocol) = if packet[12..14] == [8, 0] { (34, packet[23]) } else { (54, packet[20]) };
    answer[l4..l4 + 4].rotate_left(2);
    if protocol == 6 {
        answer[l4 + 4..l4 + 12].rotate_left(4);
    }
    answer
}

/// Both ways of an established connection, whose program takes what it can.
#[test]
fn a_translated_connection_comes_back_wherever_its_packets_are_cut() {
    const LINES: &[&str] = &[
        "in_port=2,P,actions=ct(zone=5,table=1,nat)",
        "table=1,P,ct_state=+new+trk-inv,actions=ct(commit,zone=5,table=2,nat(src=A))",
        "table=1,priority=8,P,ct_state=-inv+trk,actions=resubmit(,2)",
        "table=2,P,ct_state=-inv,actions=output:1",
        "in_port=1,P,actions=ct(zone=5,table=3,nat)",
        "table=3,P,ct_state=+est+rpl-inv,actions=output:2",
    ];
    let mut fast_path = 0;
    for (spec, cached) in specs().into_iter().flat_map(|spec| [(spec.clone(), true), (spec, false)]) {
        let whole = case("both ways", 1, LINES);
        let mut pair =
            Pair::new(whole.name, &whole.lines(&spec), (TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5"), cached);
        let complete = spec.complete();
        for lengths in std::iter::repeat_n(vec![], 4).chain(places(complete.len())) {
            for frame in [(complete.clone(), Csum::Unknown), (spec.partial(), Csum::Partial)] {
                let told = format!("{}, {} bytes, {:?}, cut at {lengths:?}", pair.told, complete.len(), frame.1);
                let sent = pair.feed(2, &frame, &lengths);
                let [(1, there)] = &sent[..] else { panic!("{told}: {}", difference(&sent, &[])) };
                assert!(*there != complete, "{told}: not translated");
                assert_right(&pair.whole.bed, there, &told);
                if spec.tags.is_empty() {
                    let back = pair.feed(1, &(answer(there), Csum::Unknown), &lengths);
                    assert!(back == [(2, answer(&complete))], "{told}: {}", difference(&back, &[]));
                }
            }
        }
        fast_path += pair.whole.bed.shared.stats.program_hits.get();
        pair.end();
    }
    assert!(fast_path > 0, "none took the fast path");
}

/// Copies count as the mbufs that they take, not as what short segments would.
#[test]
fn floods_of_long_packets_have_as_many_mbufs_as_they_take() {
    for (payload, ports) in [(1400, 24), (8900, 8)] {
        let mut bed = Bed::new(ports);
        bed.big_frames();
        bed.program(&["actions=FLOOD"]);
        let frames = vec![Spec::plain(true, L4::Udp, payload).complete(); 32];
        bed.receive_in(1, &frames, 32);
        assert_eq!(bed.sent().len(), 32 * (ports - 1), "{payload} bytes of payload");
    }
}

/// A learning switch without tables.
#[test]
fn a_learning_switch_reads_addresses_wherever_they_are_cut() {
    let mut world = super::world(&[&[0, 1, 2]], &[], |_, _| {});
    for (frame, from) in [(super::frame(2, 1, 7), 0), (super::frame(1, 2, 7), 1)] {
        for at in 1..frame.len() {
            let mut burst = Burst::new();
            burst.push(cut(&world.pool, &frame, &[at])).expect("room");
            world.walk.burst(&mut burst, id(from), crate::time::Millis(0));
            world.walk.flush();
            let sent: Vec<_> = world.wires.iter().map(|wire| wire.take()).collect();
            assert!(sent.iter().flatten().all(|sent| *sent == frame), "cut at {at}");
            assert!(sent[from].is_empty() && sent[1 - from].len() == 1, "cut at {at}: {sent:?}");
        }
    }
    assert_eq!(world.pool.in_use(), 0);
}
