//! Programs of the connection cache: packets that take the fast path are what they would have been
//! on the slow one.

use super::bed::Bed;
use super::tunnels::from_peer;
use crate::observe::{Fallback, PortTotals};
use crate::packet::checksum::{Sum, pseudo_v4, pseudo_v6};
use crate::pipeline::state::{FlowInfo, GroupInfo};
use crate::time::Millis;
use proptest::prelude::*;
use std::cell::Cell;
use std::ops::ControlFlow;
use vswitch_conntrack::{Connection, Filter};
use vswitch_flow::spec::FlowFilter;
use vswitch_overlay::TunnelKind;

const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const ACK: u8 = 0x10;
const PSH_ACK: u8 = 0x18;

/// A packet to be: IPv6 or not, TCP (flags, sequence and acknowledgment number) or UDP, last bytes
/// of the addresses, ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) v6: bool,
    pub(super) tcp: Option<(u8, u32, u32)>,
    pub(super) ends: [(u8, u16); 2],
    pub(super) len: usize,
    pub(super) ttl: u8,
    pub(super) tagged: bool,
}

impl Packet {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let [(src, from), (dst, to)] = self.ends;
        let mut l4 = [from.to_be_bytes(), to.to_be_bytes()].concat();
        let (protocol, at) = match self.tcp {
            Some((flags, seq, ack)) => {
                l4.extend_from_slice(&[seq.to_be_bytes(), ack.to_be_bytes()].concat());
                l4.extend_from_slice(&[0x50, flags, 0x40, 0, 0, 0, 0, 0]);
                (6, 16)
            }
            None => {
                l4.extend_from_slice(&[0, 0, 0, 0]);
                (17, 6)
            }
        };
        l4.extend((0..self.len).map(|i| i.to_le_bytes()[0]));
        let len = u16::try_from(l4.len()).expect("short");
        if protocol == 17 {
            l4[4..6].copy_from_slice(&len.to_be_bytes());
        }
        let mut frame = vec![2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src];
        let pseudo = if self.v6 {
            let addr = |last| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
            frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend_from_slice(&[&len.to_be_bytes()[..], &[protocol, self.ttl], &addr(src), &addr(dst)].concat());
            pseudo_v6(&addr(src), &addr(dst), protocol, len.into())
        } else {
            let total = (len + 20).to_be_bytes();
            frame.extend_from_slice(&[8, 0, 0x45, 0, total[0], total[1], 0, 1, 0x40, 0, self.ttl, protocol, 0, 0]);
            frame.extend_from_slice(&[10, 0, 0, src, 10, 0, 0, dst]);
            let sum = Sum::of(&frame[14..34]).checksum().to_be_bytes();
            frame[24..26].copy_from_slice(&sum);
            pseudo_v4([10, 0, 0, src], [10, 0, 0, dst], protocol, len)
        };
        let sum = match pseudo.bytes(&l4).checksum() {
            0 if protocol == 17 => 0xffff,
            sum => sum,
        };
        l4[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        frame.extend(l4);
        // What is shorter is padded on its way.
        frame.resize(frame.len().max(60), 0);
        if self.tagged {
            frame.splice(12..12, [0x81, 0, 0, 5]);
        }
        frame
    }
}

/// A pipeline, and as whom the server sees the client and itself.
struct Pipeline {
    flows: &'static [&'static str],
    /// The server as the client names it; the client and the server as the server does.
    server: (u8, u16),
    seen: (Option<u8>, (u8, u16)),
    /// Of IPv6.
    v6: bool,
    tcp: bool,
    tagged: bool,
    /// Its packets can take the fast path.
    short: bool,
}

const PLAIN: Pipeline = Pipeline {
    flows: &[
        "priority=9,ip,actions=ct(zone=5,table=1)",
        "priority=9,ipv6,actions=ct(zone=5,table=1)",
        "table=1,priority=9,in_port=1,ip,ct_state=+new+trk,actions=ct(commit,zone=5,exec(load:7->NXM_NX_CT_MARK[])),output:2",
        "table=1,priority=9,in_port=1,ipv6,ct_state=+new+trk,actions=ct(commit,zone=5,exec(load:7->NXM_NX_CT_MARK[])),output:2",
        "table=1,priority=8,in_port=1,ct_state=+est+trk-rpl,ct_mark=7,actions=output:2",
        "table=1,priority=7,in_port=2,ct_state=+est+trk+rpl,ct_mark=7,actions=output:1",
        "table=1,priority=6,ct_state=+inv+trk,actions=output:3",
    ],
    server: (2, 80),
    seen: (None, (2, 80)),
    v6: false,
    tcp: true,
    tagged: false,
    short: true,
};

/// The destination is translated, MAC addresses are rewritten, the TTL falls.
const SERVICE: Pipeline = Pipeline {
    flows: &[
        "priority=9,ip,actions=ct(zone=5,table=1,nat)",
        "priority=9,ipv6,actions=ct(zone=5,table=1,nat)",
        "table=1,priority=9,in_port=1,ip,ct_state=+new+trk,actions=ct(commit,zone=5,table=2,nat(dst=10.0.0.2:8080),exec(load:1->NXM_NX_CT_LABEL[3]))",
        "table=1,priority=9,in_port=1,ipv6,ct_state=+new+trk,actions=ct(commit,zone=5,table=2,nat(dst=[fd00::2]:8080),exec(load:1->NXM_NX_CT_LABEL[3]))",
        "table=1,priority=8,ct_state=+est+trk,ct_label=0x8/0x8,actions=resubmit(,2)",
        "table=1,priority=6,ct_state=+inv+trk,actions=output:3",
        "table=2,priority=9,ip,in_port=1,actions=dec_ttl,set_field:02:00:00:00:00:aa->eth_dst,set_field:8->nw_tos,output:2",
        "table=2,priority=9,ip,in_port=2,actions=dec_ttl,set_field:02:00:00:00:00:bb->eth_src,output:1",
        "table=2,priority=9,ipv6,in_port=1,actions=dec_ttl,set_field:02:00:00:00:00:aa->eth_dst,output:2",
        "table=2,priority=9,ipv6,in_port=2,actions=dec_ttl,set_field:02:00:00:00:00:bb->eth_src,output:1",
    ],
    server: (9, 80),
    seen: (None, (2, 8080)),
    ..PLAIN
};

/// Two zones translate one after the other.
const TWO_ZONES: Pipeline = Pipeline {
    flows: &[
        "priority=9,in_port=1,ip,actions=ct(zone=5,table=1,nat)",
        "priority=9,in_port=2,ip,actions=ct(zone=6,table=3,nat)",
        "table=1,priority=9,ct_state=+new+trk,ip,actions=ct(commit,zone=5,table=2,nat(dst=10.0.0.2:8080))",
        "table=1,priority=8,ct_state=+est+trk,actions=resubmit(,2)",
        "table=2,priority=9,ip,actions=set_field:1->reg3,ct(zone=6,table=4,nat)",
        "table=4,priority=9,ct_state=+new+trk,reg3=1,ip,actions=ct(commit,zone=6,table=5,nat(src=10.0.0.7))",
        "table=4,priority=8,ct_state=+est+trk,actions=resubmit(,5)",
        "table=5,priority=9,actions=output:2",
        "table=3,priority=9,ct_state=+est+trk,ip,actions=ct(zone=5,table=6,nat)",
        "table=6,priority=9,ct_state=+est+rpl+trk,actions=output:1",
    ],
    server: (9, 80),
    seen: (Some(7), (2, 8080)),
    ..PLAIN
};

/// A mirror, a tag, and different ways by length.
const ODD: Pipeline = Pipeline {
    flows: &[
        "priority=9,ip,actions=output:4,ct(zone=5,table=1,nat)",
        "table=1,priority=9,in_port=1,ip,ct_state=+new+trk,actions=ct(commit,zone=5,table=2,nat(dst=10.0.0.2:8080))",
        "table=1,priority=8,ct_state=+est+trk,actions=check_pkt_larger(70)->NXM_NX_REG0[0],resubmit(,2)",
        "table=2,priority=9,reg0=1/1,in_port=1,actions=output:3,push_vlan:0x8100,set_field:0x1005->vlan_vid,output:2",
        "table=2,priority=8,ip,in_port=1,actions=clone(dec_ttl,output:3),output:2",
        "table=2,priority=8,in_port=2,actions=output:1",
    ],
    server: (9, 80),
    seen: (None, (2, 8080)),
    ..PLAIN
};

/// Every packet commits.
const COMMITS: Pipeline = Pipeline {
    flows: &[
        "priority=9,ip,actions=ct(zone=5,table=1)",
        "table=1,priority=9,in_port=1,ip,ct_mark=0,actions=ct(commit,zone=5,exec(load:3->NXM_NX_CT_MARK[])),output:2",
        "table=1,priority=9,in_port=1,ip,ct_mark=3,actions=ct(commit,zone=5,exec(load:3->NXM_NX_CT_MARK[])),output:2",
        "table=1,priority=8,in_port=2,ip,ct_state=+est,actions=ct(commit,zone=5,exec(load:3->NXM_NX_CT_MARK[])),output:1",
    ],
    ..PLAIN
};

/// A tag is taken off, and a meter is asked, before a packet is tracked: it is counted without its
/// tag, or not at all.
const SETTLED: Pipeline = Pipeline {
    flows: &[
        "meter add meter=1,pktps,bands=type=drop,rate=2",
        "priority=9,in_port=1,ip,vlan_tci=0x1000/0x1000,actions=pop_vlan,ct(zone=5,table=1)",
        "priority=9,in_port=2,ip,actions=meter:1,ct(zone=5,table=1)",
        "table=1,priority=9,in_port=1,ip,ct_state=+new+trk,actions=ct(commit,zone=5),output:2",
        "table=1,priority=8,in_port=1,ct_state=+est+trk,actions=output:2",
        "table=1,priority=7,in_port=2,ct_state=+est+trk+rpl,actions=output:1",
    ],
    tagged: true,
    short: false,
    ..PLAIN
};

/// A pipeline of a node, about: what a Pod may begin is decided before it commits, and where it
/// goes behind that.
const POLICIES: Pipeline = Pipeline {
    flows: &[
        "priority=9,ip,actions=ct(zone=5,table=1,nat)",
        "priority=9,ipv6,actions=ct(zone=5,table=1,nat)",
        "table=1,priority=9,ct_state=+new+trk,in_port=1,actions=set_field:3->reg1,resubmit(,2)",
        "table=1,priority=8,ct_state=-new+est+trk,in_port=1,ip,actions=set_field:3->reg1,dec_ttl,resubmit(,4)",
        "table=1,priority=8,ct_state=-new+est+trk,in_port=1,ipv6,actions=set_field:3->reg1,dec_ttl,resubmit(,4)",
        "table=1,priority=8,ct_state=-new+est+trk,in_port=2,actions=set_field:4->reg1,resubmit(,4)",
        "table=1,priority=6,ct_state=+inv+trk,actions=output:3",
        "table=2,priority=9,tcp,tp_src=0x1388/0xfff8,actions=drop",
        "table=2,priority=9,tcp6,tp_src=0x1388/0xfff8,actions=drop",
        "table=2,priority=8,tcp,tp_src=0x1390/0xfffc,actions=set_field:0x20/0x20->reg2,dec_ttl,resubmit(,3)",
        "table=2,priority=7,ip,actions=dec_ttl,set_field:02:00:00:00:00:aa->eth_dst,resubmit(,3)",
        "table=2,priority=7,ipv6,actions=dec_ttl,set_field:02:00:00:00:00:aa->eth_dst,resubmit(,3)",
        "table=3,priority=9,ct_state=+new+trk,ip,actions=ct(commit,zone=5,table=4,exec(load:7->NXM_NX_CT_MARK[],load:1->NXM_NX_CT_LABEL[3]))",
        "table=3,priority=9,ct_state=+new+trk,ipv6,actions=ct(commit,zone=5,table=4,exec(load:7->NXM_NX_CT_MARK[]))",
        "table=4,priority=9,reg1=3,reg2=0x20/0x20,actions=output:4",
        "table=4,priority=8,reg1=3,ct_mark=7,actions=output:2",
        "table=4,priority=8,reg1=4,actions=output:1",
    ],
    ..PLAIN
};

/// What decides behind the commit is what was rewritten before it, and whose connection it is.
const LATE: Pipeline = Pipeline {
    flows: &[
        "priority=9,ip,actions=set_field:5->reg5,ct(zone=5,table=1)",
        "table=1,priority=9,ct_state=+new+trk,ip,in_port=1,actions=dec_ttl,ct(commit,zone=5,table=2,exec(load:9->NXM_NX_CT_MARK[]))",
        "table=1,priority=8,ct_state=+est+trk,ip,in_port=1,actions=dec_ttl,resubmit(,2)",
        "table=1,priority=8,ct_state=+est+trk,ip,in_port=2,actions=output:1",
        "table=2,priority=9,ip,nw_ttl=63,ct_tp_src=5001,actions=output:3",
        "table=2,priority=8,tcp,nw_ttl=63,reg5=5,ct_mark=9,actions=set_field:10.0.0.9->ip_dst,set_field:99->tcp_dst,output:2",
        "table=2,priority=7,ip,actions=output:4",
    ],
    seen: (None, (9, 99)),
    short: false,
    ..PLAIN
};

/// What is rewritten behind the commit is more than what a router changes.
const BEHIND: Pipeline = Pipeline {
    flows: &[
        "priority=9,ip,actions=set_field:5->reg5,ct(zone=5,table=1)",
        "table=1,priority=9,ct_state=+new+trk,ip,in_port=1,actions=dec_ttl,ct(commit,zone=5,table=2,exec(load:9->NXM_NX_CT_MARK[]))",
        "table=1,priority=8,ct_state=+est+trk,ip,in_port=1,actions=dec_ttl,resubmit(,2)",
        "table=1,priority=8,ct_state=+est+trk,ip,in_port=2,actions=output:1",
        "table=2,priority=8,tcp,reg5=5,ct_mark=9,actions=set_field:10.0.0.9->ip_dst,set_field:99->tcp_dst,set_field:8->nw_tos,output:2",
    ],
    seen: (None, (9, 99)),
    short: false,
    ..PLAIN
};

/// A group chooses before the commit, which writes what was chosen, and behind it.
const CHOSEN: Pipeline = Pipeline {
    flows: &[
        "group add group_id=1,type=select,bucket=load:1->NXM_NX_REG0[],resubmit(,2),bucket=load:2->NXM_NX_REG0[],resubmit(,2)",
        "group add group_id=2,type=select,bucket=output:2,bucket=output:3,bucket=output:4",
        "priority=9,ip,actions=ct(zone=5,table=1)",
        "table=1,priority=9,ct_state=+new+trk,tcp,tp_src=0x1388/0xfff8,in_port=1,actions=group:1",
        "table=1,priority=8,ct_state=+new+trk,ip,in_port=1,actions=ct(commit,zone=5,table=3)",
        "table=1,priority=7,ct_state=+est+trk,ip,in_port=1,actions=output:2",
        "table=1,priority=7,ct_state=+est+trk,ip,in_port=2,actions=output:1",
        "table=2,priority=9,ip,actions=ct(commit,zone=5,table=4,exec(move:NXM_NX_REG0[]->NXM_NX_CT_MARK[]))",
        "table=3,priority=9,ip,actions=group:2",
        "table=4,priority=9,ct_mark=1,actions=output:2",
        "table=4,priority=9,ct_mark=2,actions=output:3",
    ],
    short: false,
    ..PLAIN
};

/// The commit is in another zone than the question, or is not the last.
const APART: Pipeline = Pipeline {
    flows: &[
        "priority=9,ip,actions=ct(zone=5,table=1)",
        "table=1,priority=9,ct_state=+new+trk,ip,in_port=1,actions=ct(commit,zone=6,table=2,exec(load:9->NXM_NX_CT_MARK[]))",
        "table=1,priority=8,ip,actions=output:3",
        "table=2,priority=9,ip,tcp,tp_src=0x1388/0xfff8,ct_zone=6,actions=output:2",
        "table=2,priority=8,ip,actions=ct(zone=6,table=3)",
        "table=3,priority=8,ip,ct_state=+new,actions=output:2",
        "table=3,priority=7,ip,ct_state=+est,actions=output:4",
    ],
    short: false,
    ..PLAIN
};

/// The first ones of these: what is said on connections is tried on them.
const ESTABLISHED: usize = 12;

const PIPELINES: [Pipeline; 18] = [
    PLAIN,
    Pipeline { tcp: false, ..PLAIN },
    Pipeline { v6: true, ..PLAIN },
    SERVICE,
    Pipeline { tcp: false, ..SERVICE },
    Pipeline { v6: true, ..SERVICE },
    Pipeline { v6: true, tcp: false, ..SERVICE },
    TWO_ZONES,
    ODD,
    Pipeline { tcp: false, ..COMMITS },
    Pipeline { tagged: true, ..SERVICE },
    SETTLED,
    POLICIES,
    Pipeline { v6: true, ..POLICIES },
    LATE,
    BEHIND,
    CHOSEN,
    APART,
];

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// One of the connections says something, often twice the same.
    Say {
        connection: u8,
        reply: bool,
        flags: u8,
        seq: i32,
        ack: i32,
        len: usize,
        bad: bool,
        times: usize,
        ttl: u8,
    },
    /// Another connection begins, or its answer comes, or something that looks like one of them.
    Open {
        port: u16,
        reply: bool,
        flags: u8,
        seq: u32,
        len: usize,
        bad: bool,
        ttl: u8,
        times: usize,
    },
    /// Of zone 5.
    Limit(Option<u32>),
    /// All connections go.
    Flush,
    Flow(&'static str),
    Time(u64),
}

const FLOWS: [&str; 10] = [
    "table=2,priority=30,tcp,tp_src=5013,actions=output:3",
    "table=4,priority=30,reg1=3,actions=output:3",
    "flow delete table=4,reg1=3",
    "table=1,priority=30,in_port=1,ip,actions=ct_forget",
    "flow delete table=1,in_port=1,ip",
    "table=1,priority=1,tcp,tp_dst=9999,actions=drop",
    "table=1,priority=20,ct_state=+est+trk-rpl,in_port=1,actions=output:3",
    "flow delete table=1,ct_state=+est+trk-rpl,in_port=1",
    "table=2,priority=20,ip,in_port=1,ct_state=+est,actions=output:3",
    "flow delete table=2,ct_state=+est,in_port=1",
];

/// What the connections that are there say.
fn said() -> impl Strategy<Value = Step> {
    let flags = prop_oneof![8 => Just(ACK), 8 => Just(PSH_ACK), 1 => Just(0x11_u8), 1 => Just(0x14), 1 => Just(SYN), 1 => any::<u8>()];
    let offset = || prop_oneof![12 => Just(0_i32), 1 => -3000..3000, 1 => -200_000..200_000];
    let say = (0..3_u8, any::<bool>(), flags, offset(), offset(), 0..40_usize, prop::bool::weighted(0.04), 1..4_usize);
    (say, ttl()).prop_map(|((connection, reply, flags, seq, ack, len, bad, times), ttl)| Step::Say {
        connection,
        reply,
        flags,
        seq,
        ack,
        len,
        bad,
        times,
        ttl,
    })
}

/// What opens others, or looks like that.
fn opens() -> impl Strategy<Value = Step> {
    let flags = prop_oneof![20 => Just(SYN), 1 => Just(0xc2_u8), 2 => Just(SYN_ACK), 2 => Just(ACK), 1 => any::<u8>()];
    let few = prop_oneof![8 => Just(0_usize), 1 => 1..40_usize];
    let open = (5000..5020_u16, prop::bool::weighted(0.15), flags, any::<u8>(), few, prop::bool::weighted(0.04));
    (open, ttl(), 1..3_usize).prop_map(|((port, reply, flags, seq, len, bad), ttl, times)| Step::Open {
        port,
        reply,
        flags,
        seq: seq.into(),
        len,
        bad,
        ttl,
        times,
    })
}

fn ttl() -> impl Strategy<Value = u8> {
    prop_oneof![20 => Just(64_u8), 1 => 0..3_u8]
}

fn time() -> impl Strategy<Value = Step> {
    let ms =
        prop_oneof![4 => Just(1_u64), 2 => Just(1000), 1 => Just(29_999), 1 => Just(31_000), 1 => Just(86_400_001)];
    ms.prop_map(Step::Time)
}

fn flow() -> impl Strategy<Value = Step> {
    (0..FLOWS.len()).prop_map(|i| Step::Flow(FLOWS[i]))
}

/// Of connections that are there.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(prop_oneof![30 => said(), 2 => flow(), 3 => time()], 10..80)
}

/// Of others that begin beside them.
fn openings() -> impl Strategy<Value = Vec<Step>> {
    let limit = prop_oneof![2 => Just(None), 1 => (5..12_u32).prop_map(Some)];
    let rare = prop_oneof![limit.prop_map(Step::Limit), Just(Step::Flush)];
    prop::collection::vec(prop_oneof![40 => said(), 80 => opens(), 1 => rare, 3 => flow(), 6 => time()], 10..120)
}

/// Numbers that both ends of a connection have got to.
type Numbers = [u32; 2];

struct World {
    bed: Bed,
    pipeline: usize,
    numbers: [Numbers; 3],
    /// The server is behind a tunnel: port 2 is Geneve, 5 the uplink, 6 the VTEP.
    tunnel: bool,
}

const UNDERLAY: [&str; 2] = ["priority=1000,in_port=5,actions=output:6", "priority=1000,in_port=6,actions=output:5"];

/// All that can be seen.
type Seen = (Vec<Connection>, Vec<FlowInfo>, Vec<PortTotals>, Vec<GroupInfo>);

impl World {
    fn new(pipeline: usize, cache: bool, tunnel: bool) -> Self {
        Self::waiting(pipeline, cache, tunnel, false)
    }

    /// Likewise; where the pipeline's zones wait for answers, or not.
    fn waiting(pipeline: usize, cache: bool, tunnel: bool, waits: bool) -> Self {
        let mut bed = Bed::new(6);
        [5, 6].into_iter().for_each(|zone| bed.walk.conntrack.tracker().set_established_after_answer(zone, waits));
        bed.shared.enable(cache);
        if tunnel {
            bed.add_tunnels(5, &[(1, TunnelKind::Geneve, "remote_ip=1.1.2.92 key=5")]);
            bed.knows_peer();
            bed.program(&UNDERLAY);
        }
        bed.program(PIPELINES[pipeline].flows);
        let mut world = Self { bed, pipeline, numbers: [[1000, 5000]; 3], tunnel };
        if PIPELINES[pipeline].tcp {
            for connection in 0..3 {
                for (reply, flags, len) in [(false, SYN, 0), (true, SYN_ACK, 0), (false, ACK, 0)] {
                    world.say(connection, (reply, flags, 0, 0), len, false, 64);
                    if flags & SYN != 0 {
                        world.numbers[usize::from(connection)][usize::from(reply)] += 1;
                    }
                }
            }
        }
        world.bed.sent();
        world
    }

    fn say(&mut self, connection: u8, (reply, flags, seq, ack): (bool, u8, i32, i32), len: usize, bad: bool, ttl: u8) {
        let Pipeline { server, seen, v6, tcp, tagged, .. } = PIPELINES[self.pipeline];
        let numbers = &mut self.numbers[usize::from(connection)];
        let client = (1, 4000 + u16::from(connection));
        let ends = if reply { [seen.1, (seen.0.unwrap_or(1), client.1)] } else { [client, server] };
        let (mine, yours) = (usize::from(reply), usize::from(!reply));
        let at = |number: u32, offset: i32| number.wrapping_add_signed(offset);
        let ack = if flags & ACK == 0 { 0 } else { at(numbers[yours], ack) };
        let segment = tcp.then_some((flags, at(numbers[mine], seq), ack));
        let mut frame = Packet { v6, tcp: segment, ends, len, ttl, tagged }.bytes();
        // Senders with several addresses, more than paths of the same steps.
        (frame[9], frame[10]) = (connection, ttl);
        if seq == 0 && !bad {
            numbers[mine] = numbers[mine].wrapping_add(u32::try_from(len).expect("short"));
        }
        if bad {
            let at = frame.len().min(if v6 { 60 } else { 40 } + if tagged { 4 } else { 0 });
            frame[at - 1] ^= 0x40;
        }
        match (reply, self.tunnel) {
            (false, _) => self.bed.receive(1, &frame),
            (true, false) => self.bed.receive(2, &frame),
            (true, true) => self.bed.receive(5, &from_peer(&frame, (5, 0, 64 - connection))),
        }
    }

    /// A segment of another connection, or a datagram.
    fn open(&mut self, port: u16, reply: bool, segment: (u8, u32, u32), (len, bad, ttl): (usize, bool, u8)) {
        let Pipeline { server, seen, v6, tcp, tagged, .. } = PIPELINES[self.pipeline];
        let ends = if reply { [seen.1, (seen.0.unwrap_or(1), port)] } else { [(1, port), server] };
        let mut frame = Packet { v6, tcp: tcp.then_some(segment), ends, len, ttl, tagged }.bytes();
        if bad {
            frame[if v6 { 56 } else { 36 } + if tagged { 4 } else { 0 }] ^= 1;
        }
        match (reply, self.tunnel) {
            (false, _) => self.bed.receive(1, &frame),
            (true, false) => self.bed.receive(2, &frame),
            (true, true) => self.bed.receive(5, &from_peer(&frame, (5, 0, 64))),
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Say { connection, reply, flags, seq, ack, len, bad, times, ttl } => {
                for _ in 0..times {
                    self.say(connection, (reply, flags, seq, ack), len, bad, ttl);
                }
            }
            Step::Open { port, reply, flags, seq, len, bad, ttl, times } => {
                for _ in 0..times {
                    self.open(port, reply, (flags, seq, seq), (len, bad, ttl));
                }
            }
            Step::Limit(limit) => self.bed.walk.conntrack.tracker().set_limit(5, limit),
            Step::Flush => {
                let _ = self.bed.walk.conntrack.tracker().flush(&Filter::default(), self.bed.now.0);
            }
            Step::Flow(line) => self.bed.program(&[line]),
            Step::Time(ms) => {
                self.bed.now = Millis(self.bed.now.0 + ms);
                self.bed.walk.maintain(self.bed.now);
            }
        }
    }

    fn seen(&mut self) -> Seen {
        let (now, mut connections) = (self.bed.now, Vec::new());
        self.bed.walk.conntrack.tracker().dump(&Filter::default(), now.0, |connection| {
            // Which place it has got is nobody's business.
            connections.push(Connection { id: 0, ..*connection });
            ControlFlow::Continue(())
        });
        connections.sort_by_key(|connection| connection.original);
        self.bed.collector.collect();
        let flows = self.bed.state.program().flows(&FlowFilter::default(), now);
        let groups = self.bed.state.program().group_infos(None, now);
        (connections, flows, (1..=6).map(|port| self.bed.totals(port)).collect(), groups)
    }
}

/// Packets that programs handled, first ones that took the fast path, and all; behind a tunnel or
/// not.
#[derive(Default)]
struct Tally([Cell<[u64; 3]>; 2]);

impl Tally {
    /// Takes the same steps with caches and without.
    fn compare(&self, pipeline: usize, tunnel: bool, waits: bool, steps: &[Step]) -> Result<(), TestCaseError> {
        let [mut cached, mut plain] = [true, false].map(|cache| World::waiting(pipeline, cache, tunnel, waits));
        for (i, step) in steps.iter().enumerate() {
            cached.apply(step);
            plain.apply(step);
            let told =
                || format!("pipeline {pipeline}, tunnel {tunnel}, waits {waits}, step {i}, {step:?}, of {steps:#?}");
            prop_assert_eq!(cached.bed.sent(), plain.bed.sent(), "sent: {}", told());
            let (with, without) = (cached.seen(), plain.seen());
            prop_assert_eq!(with.0, without.0, "connections: {}", told());
            prop_assert_eq!(with.1, without.1, "flows: {}", told());
            prop_assert_eq!(with.2, without.2, "ports: {}", told());
            prop_assert_eq!(with.3, without.3, "groups: {}", told());
        }
        let totals = cached.seen().2;
        let stats = &cached.bed.shared.stats;
        let [short, opened, all] = self.0[usize::from(tunnel)].get();
        let (short, opened) = (short + stats.program_hits.get(), opened + stats.opening_hits.get());
        self.0[usize::from(tunnel)].set([short, opened, all + totals[0].rx_packets + totals[1].rx_packets]);
        prop_assert_eq!((cached.bed.pool.in_use(), plain.bed.pool.in_use()), (0, 0), "mbufs leaked");
        Ok(())
    }
}

#[test]
fn the_fast_path_is_the_slow_path() {
    let tally = Tally::default();
    proptest!(ProptestConfig { cases: 600, max_shrink_iters: 4000, ..ProptestConfig::default() }, |(pipeline in 0..ESTABLISHED, tunnel in prop::bool::weighted(0.4), waits: bool, steps in steps())| {
        tally.compare(pipeline, tunnel, waits, &steps)?;
    });
    for (tunnel, counts) in tally.0.iter().enumerate() {
        let [short, _, all] = counts.get();
        assert!(short * 4 > all, "tunnel {tunnel}: {short} of {all} packets took the fast path: this compares nothing");
    }
}

#[test]
fn the_fast_path_of_first_packets_is_the_slow_path() {
    let tally = Tally::default();
    proptest!(ProptestConfig { cases: 1000, max_shrink_iters: 4000, ..ProptestConfig::default() }, |(pipeline in 0..PIPELINES.len(), tunnel in prop::bool::weighted(0.4), waits: bool, steps in openings())| {
        tally.compare(pipeline, tunnel, waits, &steps)?;
    });
    for (tunnel, counts) in tally.0.iter().enumerate() {
        let [_, opened, all] = counts.get();
        println!("tunnel {tunnel}: {opened} of {all}");
        assert!(
            opened * 100 > all,
            "tunnel {tunnel}: {opened} of {all} packets were first ones that took the fast path"
        );
    }
}

/// Each pipeline's ordinary packets take the fast path from the second one on.
#[test]
fn an_established_connection_takes_the_fast_path() {
    let ways = PIPELINES.iter().enumerate().filter(|(_, pipeline)| pipeline.short);
    for ((number, pipeline), tunnel) in ways.flat_map(|way| [(way, false), (way, true)]) {
        let mut world = World::new(number, true, tunnel);
        for round in 0..3 {
            for reply in [false, true] {
                world.say(0, (reply, PSH_ACK, 0, 0), 8, false, 64);
            }
            let hits = world.bed.shared.stats.program_hits.get();
            // The first reply of UDP changes the connection, so the second packet of each direction
            // is as the next ones.
            let expected = if pipeline.tcp { 2 * round } else { 2_u64.saturating_mul(round).saturating_sub(2) };
            assert!(
                hits >= expected,
                "pipeline {number}, tunnel {tunnel}, round {round}: {hits} of {expected}, {:?}",
                fallbacks(&world)
            );
        }
    }
}

fn fallbacks(world: &World) -> Vec<(&'static str, u64)> {
    let counts = &world.bed.shared.stats.fallbacks;
    Fallback::ALL.into_iter().map(|why| (why.name(), counts[why as usize].get())).filter(|(_, n)| *n > 0).collect()
}

#[test]
fn a_packet_that_is_not_as_the_others_takes_the_slow_path_and_says_why() {
    let mut world = World::new(0, true, false);
    let count = |world: &World, why: Fallback| world.bed.shared.stats.fallbacks[why as usize].get();
    for _ in 0..2 {
        world.say(0, (false, PSH_ACK, 0, 0), 8, false, 64);
    }
    assert_eq!(world.bed.shared.stats.program_hits.get(), 1);
    world.bed.sent();
    world.say(0, (false, PSH_ACK, 0, 0), 8, true, 64);
    assert_eq!((count(&world, Fallback::Checksum), world.bed.ports()), (1, vec![3]), "invalid");
    world.say(0, (false, PSH_ACK, 1 << 20, 0), 8, false, 64);
    assert_eq!((count(&world, Fallback::Connection), world.bed.ports()), (1, vec![3]), "out of its window");
    world.say(0, (false, PSH_ACK, 0, 0), 8, false, 64);
    assert_eq!((world.bed.shared.stats.program_hits.get(), world.bed.ports()), (2, vec![2]), "nothing has happened");
    world.bed.walk.conntrack.tracker().flush(&Filter::default(), world.bed.now.0);
    world.say(0, (false, PSH_ACK, 0, 0), 8, false, 64);
    assert_eq!(count(&world, Fallback::Connection), 2, "its connection is gone");
    // Picked up again.
    (0..3).for_each(|_| world.say(1, (false, PSH_ACK, 0, 0), 8, false, 64));
    world.bed.program(&["table=1,priority=20,ct_state=+est+trk-rpl,in_port=1,actions=output:3"]);
    world.bed.sent();
    for _ in 0..2 {
        world.say(1, (false, PSH_ACK, 0, 0), 8, false, 64);
    }
    assert_eq!(world.bed.ports(), [3, 3], "a better rule holds for the next packet");
}
