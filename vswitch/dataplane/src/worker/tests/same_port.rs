//! Connections of one client port, by a Service and straight to its endpoint: their answers would
//! be the same packets.

use super::bed::Bed;
use super::programs::Packet;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;

const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const ACK: u8 = 0x10;
const PSH_ACK: u8 = 0x18;

/// As clients name the Service, and its endpoint as everybody does.
const SERVICE: (u8, u16) = (9, 80);
const ENDPOINT: (u8, u16) = (2, 8080);

/// A Node's pipeline, about: what is tracked is translated, a Service's connections commit with
/// `nat`, all others without; and one whose packets straight to the endpoint meet no `nat` at all.
const PIPELINES: [&[&str]; 2] = [
    &[
        "priority=9,ip,actions=ct(zone=5,table=1,nat)",
        "priority=9,ipv6,actions=ct(zone=5,table=1,nat)",
        "table=1,priority=9,ct_state=+new+trk,ip,nw_dst=10.0.0.9,actions=ct(commit,zone=5,table=2,nat(dst=10.0.0.2:8080))",
        "table=1,priority=9,ct_state=+new+trk,ipv6,ipv6_dst=fd00::9,actions=ct(commit,zone=5,table=2,nat(dst=[fd00::2]:8080))",
        "table=1,priority=8,ct_state=+new+trk,ip,actions=ct(commit,zone=5,table=2)",
        "table=1,priority=8,ct_state=+new+trk,ipv6,actions=ct(commit,zone=5,table=2)",
        "table=1,priority=7,ct_state=+est+trk,actions=resubmit(,2)",
        "table=2,priority=9,in_port=1,actions=output:2",
        "table=2,priority=9,in_port=2,actions=output:1",
    ],
    &[
        "priority=9,ip,in_port=1,nw_dst=10.0.0.9,actions=ct(commit,zone=5,nat(dst=10.0.0.2:8080)),output:2",
        "priority=9,ipv6,in_port=1,ipv6_dst=fd00::9,actions=ct(commit,zone=5,nat(dst=[fd00::2]:8080)),output:2",
        "priority=8,ip,in_port=1,actions=ct(commit,zone=5),output:2",
        "priority=8,ipv6,in_port=1,actions=ct(commit,zone=5),output:2",
        "priority=8,ip,in_port=2,actions=ct(zone=5,nat),output:1",
        "priority=8,ipv6,in_port=2,actions=ct(zone=5,nat),output:1",
    ],
];

/// A conversation of a client's port.
struct Conversation {
    port: u16,
    server: (u8, u16),
    /// The client's port as the server sees it, when it has.
    seen: Option<u16>,
    numbers: [u32; 2],
}

struct World {
    bed: Bed,
    v6: bool,
    tcp: bool,
    conversations: Vec<Conversation>,
}

impl World {
    fn new(pipeline: usize, cache: bool, v6: bool, tcp: bool) -> Self {
        let mut bed = Bed::new(3);
        bed.shared.enable(cache);
        bed.program(PIPELINES[pipeline]);
        let conversations = (0..3_u16).flat_map(|i| {
            [SERVICE, ENDPOINT].map(|server| Conversation { port: 4000 + i, server, seen: None, numbers: [100, 900] })
        });
        Self { bed, v6, tcp, conversations: conversations.collect() }
    }

    /// A packet passes, and leaves as that of these ends, whatever its MAC addresses; ends that are
    /// not known are as they leave.
    fn passes(
        &mut self,
        port: usize,
        packet: Packet,
        to: impl FnOnce(&[u8]) -> [(u8, u16); 2],
    ) -> Result<[(u8, u16); 2], TestCaseError> {
        let frame = packet.bytes();
        self.bed.receive(port, &frame);
        let sent = self.bed.sent();
        let drops = self.bed.totals(port).rx_drops;
        prop_assert!(sent.len() == 1, "{:?} is lost: {:?}", packet, drops);
        let (out, bytes) = &sent[0];
        prop_assert_eq!(*out, 3 - port, "{:?}", packet);
        let ends = to(&bytes[if self.v6 { 54 } else { 34 }..]);
        let mut expected = Packet { ends, ..packet }.bytes();
        expected[..12].copy_from_slice(&frame[..12]);
        prop_assert_eq!(bytes, &expected, "{:?} to {:?}", packet, ends);
        Ok(ends)
    }

    /// The client says something, and is answered.
    fn talk(&mut self, which: usize, len: usize) -> Result<(), TestCaseError> {
        let Conversation { port, server, seen, numbers: [mine, yours] } = self.conversations[which];
        let (flags, answer) = if seen.is_none() { (SYN, SYN_ACK) } else { (PSH_ACK, PSH_ACK) };
        let len = if self.tcp && seen.is_none() { 0 } else { len };
        let packet =
            |tcp, ends| Packet { v6: self.v6, tcp: self.tcp.then_some(tcp), ends, len, ttl: 64, tagged: false };
        let question = packet((flags, mine, if flags == SYN { 0 } else { yours }), [(1, port), server]);
        let mine = mine + u32::from(flags == SYN) + u32::try_from(len).expect("short");
        let back = packet((answer, yours, mine), [ENDPOINT, (1, port)]);
        let last = packet((ACK, mine, yours + 1), [(1, port), server]);
        let ends = self.passes(1, question, |l4| [(1, u16::from_be_bytes([l4[0], l4[1]])), ENDPOINT])?;
        let as_seen = ends[0].1;
        prop_assert!(seen.is_none_or(|seen| seen == as_seen), "{:?} becomes {}", seen, as_seen);
        let yours = yours + u32::from(flags == SYN) + u32::try_from(len).expect("short");
        self.passes(2, Packet { ends: [ENDPOINT, (1, as_seen)], ..back }, |_| [server, (1, port)])?;
        if self.tcp && seen.is_none() {
            self.passes(1, Packet { len: 0, ..last }, |_| [(1, as_seen), ENDPOINT])?;
        }
        let conversation = &mut self.conversations[which];
        (conversation.seen, conversation.numbers) = (Some(as_seen), [mine, yours]);
        let mut ports = BTreeMap::new();
        for Conversation { port, server, seen, .. } in &self.conversations {
            let Some(seen) = seen else { continue };
            prop_assert_eq!(ports.insert(seen, (port, server)), None, "two conversations are the same to the server");
        }
        Ok(())
    }
}

/// Whoever opens first, and however they go on: each packet arrives, and each answer comes back to
/// who was asked.
#[test]
fn every_connection_of_a_port_is_answered() {
    let talks = prop::collection::vec((0..6_usize, 0..20_usize), 4..60);
    let counts = Cell::new([0_u64; 3]);
    let kinds = (0..PIPELINES.len(), any::<bool>(), any::<bool>(), any::<bool>());
    proptest!(ProptestConfig { cases: 300, ..ProptestConfig::default() }, |((pipeline, cache, v6, tcp) in kinds, talks in talks)| {
        let mut world = World::new(pipeline, cache, v6, tcp);
        for (which, len) in talks {
            world.talk(which, len)?;
        }
        prop_assert_eq!(world.bed.walk.conntrack.tracker().counts().refused_taken, 0);
        let [short, all, moved] = counts.get();
        let packets = world.bed.totals(1).rx_packets + world.bed.totals(2).rx_packets;
        let elsewhere = world.conversations.iter().filter(|c| c.seen.is_some_and(|seen| seen != c.port)).count();
        counts.set([short + world.bed.shared.stats.program_hits.get(), all + packets, moved + elsewhere as u64]);
    });
    let [short, all, moved] = counts.get();
    assert!(short * 8 > all && moved > 300, "{short} of {all} packets took the fast path, {moved} conversations moved");
}
