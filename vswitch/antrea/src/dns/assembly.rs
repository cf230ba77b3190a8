//! DNS messages out of packets: datagrams in fragments, and streams in segments, are put together
//! here.
//!
//! Fragments of a datagram go on together, when all of them are there: a client could use none of
//! them alone. Segments of a stream cannot wait for each other, since a server sends more only when
//! the first ones have arrived. So each goes on at once but the one that makes a message whole:
//! that waits with its message, and without it a client has no use for the others. A segment that
//! comes again brings the message again.
//!
//! **Limits**: [`DATAGRAMS_MAX`], [`WAITING_MAX`], [`STREAMS_MAX`], [`BYTES_MAX`]; the oldest gives
//! way. What overlaps, or is longer than a message can be, is given up.
//!
//! **Time** is an argument: milliseconds of any clock that does not go back.

#[cfg(test)]
mod tests;

use super::frame::{Packet, packet};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Datagrams of which fragments are missing.
pub(super) const DATAGRAMS_MAX: usize = 64;
/// Fragments of one datagram: those of 64 KiB over the smallest link of IPv6, and some.
pub(super) const FRAGMENTS_MAX: usize = 64;
/// Fragments of all of them: a quarter of the answers that may wait in the bridge.
pub(super) const WAITING_MAX: usize = 1024;
/// Streams of which bytes are kept.
pub(super) const STREAMS_MAX: usize = 1024;
/// Bytes of all that is kept.
pub(super) const BYTES_MAX: usize = 8 << 20;
/// Bytes of a message of a stream with its length.
const MESSAGE_MAX: usize = 65_537;
/// Milliseconds that a fragment waits for others, and that nothing comes of a stream before it is
/// forgotten.
const FRAGMENTS_MS: u64 = 2_000;
const STREAM_MS: u64 = 30_000;

/// What a packet came to. `T` is what is known of it where it waits.
#[derive(Debug, PartialEq, Eq)]
pub struct Put<T> {
    /// Whole messages.
    pub messages: Vec<Vec<u8>>,
    /// Packets that go on now, or when what the messages say is known.
    pub on: Vec<T>,
    /// Packets that nobody has any use for.
    pub given_up: Vec<T>,
}

impl<T> Put<T> {
    fn on(on: Vec<T>, messages: Vec<Vec<u8>>) -> Self {
        Self { messages, on, given_up: Vec::new() }
    }
}

type DatagramKey = (IpAddr, IpAddr, u32);
type StreamKey = ((IpAddr, u16), (IpAddr, u16));

#[derive(Debug)]
struct Datagram<T> {
    /// By their offsets.
    pieces: BTreeMap<usize, Vec<u8>>,
    bytes: usize,
    /// Where it ends, once the last one is there.
    end: Option<usize>,
    waiting: Vec<T>,
    since: u64,
}

#[derive(Debug, Default)]
struct Stream {
    /// The sequence number of the first byte of `ready`.
    next: u32,
    /// Bytes of a message that is not whole.
    ready: Vec<u8>,
    /// Segments behind a gap, by how far they are behind `next` and `ready`.
    behind: Vec<(u32, Vec<u8>)>,
    /// What the last segment made whole.
    last: Vec<Vec<u8>>,
    heard: u64,
}

impl Stream {
    fn bytes(&self) -> usize {
        let behind: usize = self.behind.iter().map(|(_, bytes)| bytes.len()).sum();
        let last: usize = self.last.iter().map(Vec::len).sum();
        self.ready.len() + behind + last
    }

    /// The sequence number that goes on.
    fn goes_on(&self) -> u32 {
        #[allow(clippy::cast_possible_truncation)] // at most MESSAGE_MAX
        self.next.wrapping_add(self.ready.len() as u32)
    }

    /// Takes in a segment. None: it is no stream of messages.
    fn take(&mut self, sequence: u32, bytes: &[u8]) -> Option<()> {
        if self.bytes() + bytes.len() > 2 * MESSAGE_MAX || self.behind.len() >= FRAGMENTS_MAX {
            return None;
        }
        self.behind.push((sequence, bytes.to_vec()));
        // What was behind a gap may go on now.
        while let Some((at, skip)) = self.behind.iter().enumerate().find_map(|(at, (sequence, bytes))| {
            let before = usize::try_from(self.goes_on().wrapping_sub(*sequence)).ok()?;
            (before <= bytes.len()).then_some((at, before))
        }) {
            let (_, bytes) = self.behind.swap_remove(at);
            self.ready.extend(bytes.get(skip..).unwrap_or_default());
        }
        // What came before already.
        let from = self.goes_on();
        self.behind.retain(|(sequence, _)| from.wrapping_sub(*sequence) > u32::MAX / 2);
        Some(())
    }

    /// Messages that are whole.
    fn messages(&mut self) -> Vec<Vec<u8>> {
        let (mut messages, mut at) = (Vec::new(), 0);
        while let Some((len, rest)) = self.ready.get(at..).and_then(<[u8]>::split_first_chunk::<2>) {
            let Some(message) = rest.get(..u16::from_be_bytes(*len).into()) else { break };
            messages.push(message.to_vec());
            at += 2 + message.len();
        }
        #[allow(clippy::cast_possible_truncation)] // at most twice MESSAGE_MAX
        let taken = at as u32;
        self.next = self.next.wrapping_add(taken);
        self.ready.drain(..at);
        messages
    }
}

/// Parts of DNS messages that wait for their other parts: fragments of datagrams, segments of TCP
/// streams. Bounded; the oldest gives way.
#[derive(Debug)]
pub struct Assembly<T> {
    datagrams: HashMap<DatagramKey, Datagram<T>>,
    streams: HashMap<StreamKey, Stream>,
    bytes: usize,
}

impl<T> Default for Assembly<T> {
    fn default() -> Self {
        Self { datagrams: HashMap::new(), streams: HashMap::new(), bytes: 0 }
    }
}

impl<T> Assembly<T> {
    /// A packet, in an Ethernet frame.
    pub fn put(&mut self, frame: &[u8], tag: T, now: u64) -> Put<T> {
        let Some(packet) = packet(frame) else { return Put::on(vec![tag], Vec::new()) };
        match packet.fragment {
            Some((id, offset, more)) if packet.protocol == 17 => {
                let key = (packet.source, packet.destination, id);
                self.fragment(key, (offset, more), packet.data, tag, now)
            }
            Some(_) => Put::on(vec![tag], Vec::new()),
            None if packet.protocol == 17 => {
                Put::on(vec![tag], datagram(packet.data).map(<[u8]>::to_vec).into_iter().collect())
            }
            None => Put::on(vec![tag], self.segment(&packet, now).unwrap_or_default()),
        }
    }

    /// Packets of datagrams that never became whole. Streams that are silent are forgotten.
    pub fn expire(&mut self, now: u64) -> Vec<T> {
        let over = |since: u64, ms: u64| now.saturating_sub(since) >= ms;
        let gone: Vec<DatagramKey> =
            self.datagrams.iter().filter(|(_, one)| over(one.since, FRAGMENTS_MS)).map(|(key, _)| *key).collect();
        let silent: Vec<StreamKey> =
            self.streams.iter().filter(|(_, one)| over(one.heard, STREAM_MS)).map(|(key, _)| *key).collect();
        silent.iter().for_each(|key| self.forget(key));
        gone.iter().flat_map(|key| self.give_up(key)).collect()
    }

    /// Everything is forgotten.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Packets that wait for others.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.datagrams.values().map(|datagram| datagram.waiting.len()).sum()
    }

    /// Bytes that are kept.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn give_up(&mut self, key: &DatagramKey) -> Vec<T> {
        let Some(datagram) = self.datagrams.remove(key) else { return Vec::new() };
        self.bytes -= datagram.bytes;
        datagram.waiting
    }

    fn forget(&mut self, key: &StreamKey) {
        if let Some(stream) = self.streams.remove(key) {
            self.bytes -= stream.bytes();
        }
    }

    fn fragment(&mut self, key: DatagramKey, (offset, more): (usize, bool), data: &[u8], tag: T, now: u64) -> Put<T> {
        let new = || Datagram { pieces: BTreeMap::new(), bytes: 0, end: None, waiting: Vec::new(), since: now };
        let one = self.datagrams.entry(key).or_insert_with(new);
        one.waiting.push(tag);
        let end = offset + data.len();
        let before = one.pieces.range(..=offset).next_back().map_or(0, |(at, piece)| at + piece.len());
        let after = one.pieces.range(offset..).next().map_or(usize::MAX, |(at, _)| *at);
        let fits = before <= offset && end <= after && !data.is_empty() && end <= usize::from(u16::MAX);
        let fits = fits && one.pieces.len() < FRAGMENTS_MAX && one.end.is_none_or(|last| more && end <= last);
        let last = one.pieces.last_key_value().map_or(0, |(at, piece)| at + piece.len());
        if !fits || !more && last > end {
            return Put { given_up: self.give_up(&key), messages: Vec::new(), on: Vec::new() };
        }
        one.pieces.insert(offset, data.to_vec());
        one.bytes += data.len();
        self.bytes += data.len();
        if !more {
            one.end = Some(end);
        }
        if one.end == Some(one.bytes) {
            let whole: Vec<u8> = one.pieces.values().flatten().copied().collect();
            let message = datagram(&whole).map(<[u8]>::to_vec);
            return Put::on(self.give_up(&key), message.into_iter().collect());
        }
        let mut given_up = Vec::new();
        let too_many = |this: &Self| this.datagrams.len() > DATAGRAMS_MAX || this.waiting() > WAITING_MAX;
        while too_many(self) || self.bytes > BYTES_MAX {
            if self.streams.is_empty() || too_many(self) {
                let Some(oldest) = self.datagrams.iter().min_by_key(|(_, one)| one.since).map(|(key, _)| *key) else {
                    break;
                };
                given_up.extend(self.give_up(&oldest));
            } else {
                self.forget_oldest();
            }
        }
        Put { messages: Vec::new(), on: Vec::new(), given_up }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.streams.iter().min_by_key(|(_, one)| one.heard).map(|(key, _)| *key) {
            self.forget(&oldest);
        }
    }

    /// Messages that a segment makes whole, or made when it came before.
    fn segment(&mut self, packet: &Packet<'_>, now: u64) -> Option<Vec<Vec<u8>>> {
        let tcp = packet.data;
        let port = |at: usize| tcp.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
        let key = ((packet.source, port(0)?), (packet.destination, port(2)?));
        let sequence = u32::from_be_bytes(*tcp.get(4..8)?.as_array()?);
        let (begin, flags) = (usize::from(tcp.get(12)? >> 4) * 4, *tcp.get(13)?);
        let bytes = tcp.get(begin.max(20)..)?;
        let opens = flags & 2 != 0;
        if opens || flags & 4 != 0 {
            self.forget(&key);
        }
        if bytes.is_empty() && !opens {
            return None;
        }
        let sequence = sequence.wrapping_add(u32::from(opens));
        // Of a stream whose begin nobody saw, a message begins with what is seen first.
        let mut stream = self.streams.remove(&key).unwrap_or_else(|| Stream { next: sequence, ..Stream::default() });
        self.bytes -= stream.bytes();
        stream.heard = now;
        let is_new = stream.goes_on().wrapping_sub(sequence) > u32::MAX / 2 || stream.goes_on() == sequence;
        let reaches = usize::try_from(stream.goes_on().wrapping_sub(sequence)).ok()? < bytes.len();
        if !bytes.is_empty() && (is_new || reaches) {
            stream.take(sequence, bytes)?;
            let messages = stream.messages();
            if !messages.is_empty() {
                stream.last = messages;
            } else if is_new {
                stream.last.clear();
            }
        }
        let messages = stream.last.clone();
        self.bytes += stream.bytes();
        self.streams.insert(key, stream);
        while self.streams.len() > STREAMS_MAX || self.bytes > BYTES_MAX && !self.streams.is_empty() {
            self.forget_oldest();
        }
        Some(messages)
    }
}

/// The payload of a UDP datagram.
fn datagram(udp: &[u8]) -> Option<&[u8]> {
    let len = usize::from(u16::from_be_bytes(*udp.get(4..6)?.as_array()?));
    udp.get(8..len)
}
