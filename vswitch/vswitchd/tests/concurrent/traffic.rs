//! Packets: each one shows which version it saw at each stage of its way.

use crate::Run;
use crate::client::Client;
use crate::linear::{Op, Seen};
use crate::program::{GROUPED, OUT, OUT_MIXED, REGISTERS, TAIL_GROUP, TAIL_RULE, UDP_PORT};
use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use vswitch_proto::v1;
use vswitch_proto::v1::dummy_service_client::DummyServiceClient;

/// Sources of packets: what a cache that knows whole headers must tell apart, and one that knows
/// what matters must not.
pub(crate) const SOURCES: u16 = 64;

/// Where a packet's number stands.
const NUMBER: usize = 42;

/// A packet for a register.
pub(crate) fn frame(register: usize, source: u16, number: u64) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0];
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend((5000 + source).to_be_bytes());
    frame.extend((UDP_PORT + u16::try_from(register).expect("small")).to_be_bytes());
    frame.extend([0, 26, 0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    let sum = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// The Internet checksum; 0 over a header with its own in it.
fn checksum(header: &[u8]) -> u16 {
    let sum = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).expect("folded")
}

/// What a packet saw on its way: the version of its register, that of the tail in table 3, and (if
/// it passed it) that of the tail that is a group.
type Versions = [u32; 3];

/// The number of a packet that came back, and what it saw.
fn seen(sent: &v1::SentPacket) -> Result<(u64, Versions), String> {
    let v1::SentPacket { port, packet } = sent;
    let word = |at: usize| packet.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
    let words = [word(26), word(30), word(8), word(2), word(34)];
    let [Some(source), Some(destination), Some(mac), Some(tail), Some(ports)] = words else {
        return Err(format!("{packet:x?} at {port}"));
    };
    let stages = format!("source {source}, destination {destination}, MAC address {mac}, port {port}");
    if source != destination || source != mac || *port != OUT[source as usize % 2] {
        let why = if port == OUT_MIXED { "table 2 has no rule for what it saw before" } else { "stages differ" };
        return Err(format!("a packet saw a mix of versions ({why}): {stages}"));
    }
    if checksum(&packet[14..34]) != 0 {
        return Err(format!("a packet has a wrong checksum: {packet:x?}"));
    }
    let number = packet.get(NUMBER..NUMBER + 8).and_then(|number| number.try_into().ok()).map(u64::from_be_bytes);
    Ok((number.ok_or_else(|| format!("no number in {packet:x?}"))?, [source, tail, ports]))
}

/// What one thread sent, and what it was told of. (A call tells of all packets that left since the
/// last one, also others'.)
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Number, register, call, return.
    packets: Vec<(u64, usize, u64, u64)>,
    /// Number, what it saw, when it was told.
    told: Vec<(u64, Versions, u64)>,
}

/// Sends until the time is over: one packet at a time.
pub(crate) fn run(run: &Run, thread: usize, port: &str) -> Sent {
    let (client, mut rng) = (Client::new(&run.socket), run.rng(thread));
    let (packets, requests) = mpsc::channel(1);
    let mut service = DummyServiceClient::new(client.channel.clone());
    let mut result = Sent::default();
    client.runtime.block_on(async {
        let mut answers = service.receive(ReceiverStream::new(requests)).await.expect("a stream").into_inner();
        while !run.is_over() {
            let (register, number) = (rng.below(REGISTERS.end), (thread as u64) << 48 | result.packets.len() as u64);
            let source = u16::try_from(rng.below(usize::from(SOURCES))).expect("small");
            let packet = frame(register, source, number);
            run.sent[register].fetch_add(1, SeqCst);
            let call = run.clock.now();
            packets.send(v1::ReceiveRequest { port: port.to_owned(), packet }).await.expect("a packet can be sent");
            let answer = answers.message().await.expect("a packet is processed").expect("no end");
            let ret = run.clock.now();
            run.came_back[register].fetch_add(1, SeqCst);
            result.packets.push((number, register, call, ret));
            for sent in &answer.sent {
                let (number, versions) = seen(sent).unwrap_or_else(|why| panic!("{why}"));
                result.told.push((number, versions, ret));
            }
        }
    });
    result
}

/// The packets of all threads as reads of their registers.
pub(crate) fn ops(all: &[Sent], first_thread: usize) -> Vec<Op> {
    let mut told = HashMap::new();
    for (number, versions, when) in all.iter().flat_map(|sent| &sent.told) {
        assert!(told.insert(*number, (*versions, *when)).is_none(), "packet {number:#x} came back twice");
    }
    let mut ops = Vec::new();
    for (thread, sent) in all.iter().enumerate() {
        for (number, register, call, ret) in &sent.packets {
            let Some(([version, rule, group], when)) = told.remove(number) else {
                panic!("packet {number:#x} was lost")
            };
            let mut seen = vec![(*register, Seen::Is(version)), (TAIL_RULE, Seen::Is(rule))];
            if *register < GROUPED {
                seen.push((TAIL_GROUP, Seen::Is(group)));
            }
            let ret = *ret.min(&when);
            ops.push(Op { thread: first_thread + thread, what: "packet", call: *call, ret, seen, sets: Vec::new() });
        }
    }
    assert!(told.is_empty(), "packets that nobody sent: {told:?}");
    ops
}
