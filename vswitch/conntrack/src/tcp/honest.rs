//! Two honest ends talk over a network that loses, repeats and reorders, with the tracker in the
//! middle: none of their segments is ever invalid. Whoever forges segments outside the windows is
//! always found out, and changes nothing.

use super::{Outcome, SLACK, Segment, State, Tcp, flag};
use crate::{Class, Direction};
use proptest::prelude::*;
use std::collections::VecDeque;

/// splitmix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ bits >> 31) % limit
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// A segment with its numbers counted from the SYN on: 0 is the SYN.
#[derive(Clone, Copy, Debug)]
struct Packet {
    flags: u8,
    seq: u64,
    ack: u64,
    payload: u64,
    window: u16,
    scale: Option<u8>,
}

impl Packet {
    fn end(&self) -> u64 {
        self.seq + self.payload + u64::from((self.flags & (flag::SYN | flag::FIN)).count_ones())
    }
}

/// One end, RFC 9293 as far as it matters: it sends what the other end's window allows, repeats
/// what was not acknowledged, and takes what comes in order.
#[derive(Debug)]
struct Host {
    isn: u32,
    /// Bytes to send, SYN counted.
    length: u64,
    /// Numbers sent; numbers acknowledged; first number that the other end does not allow.
    next: u64,
    acknowledged: u64,
    limit: u64,
    /// Numbers received.
    received: u64,
    /// Of a buffer of so many bytes, so many are not read yet.
    buffer: u64,
    unread: u64,
    /// First number that was not allowed: never taken back.
    promised: u64,
    wants_scale: Option<u8>,
    /// After both SYNs: shifts of its own windows and of the other's.
    shifts: (u8, u8),
    is_client: bool,
    got_syn: bool,
}

impl Host {
    fn new(dice: &mut Dice, is_client: bool) -> Self {
        let isn = [0, u32::MAX - 100, u32::MAX - 70_000, 0x7fff_ff00, 1000];
        let isn = usize::try_from(dice.below(8)).ok().and_then(|at| isn.get(at).copied());
        let wants_scale = dice.percent(70).then(|| u8::try_from(dice.below(15)).expect("below 15"));
        // What a window can say, and now and then next to nothing.
        let units = if dice.percent(10) { 1 + dice.below(20) } else { 1000 + dice.below(64_000) };
        let most = if dice.percent(50) { 3000 } else { 100_000 };
        Self {
            isn: isn.unwrap_or_else(|| u32::try_from(dice.below(1 << 32)).expect("32 bits")),
            length: 1 + dice.below(most),
            next: 0,
            acknowledged: 0,
            limit: 1,
            received: 0,
            buffer: units << wants_scale.unwrap_or(0),
            unread: 0,
            promised: 0,
            wants_scale,
            shifts: (0, 0),
            is_client,
            got_syn: false,
        }
    }

    /// The FIN's own number.
    fn last(&self) -> u64 {
        self.length
    }

    fn is_done(&self) -> bool {
        self.acknowledged == self.last() + 1
    }

    /// What the window field says now, in bytes: never less than was said before.
    fn window(&mut self, with_syn: bool) -> u16 {
        let shift = if with_syn { 0 } else { self.shifts.0 };
        let edge = (self.received + self.buffer - self.unread).max(self.promised);
        let field = u16::try_from((edge - self.received) >> shift).unwrap_or(u16::MAX);
        self.promised = self.promised.max(self.received + (u64::from(field) << shift));
        field
    }

    /// Numbers from `seq` on, as many as there may be.
    fn packet(&mut self, dice: &mut Dice, seq: u64) -> Packet {
        if seq == 0 {
            let flags = if self.is_client { flag::SYN } else { flag::SYN | flag::ACK };
            return Packet {
                flags,
                seq,
                ack: self.received,
                payload: 0,
                window: self.window(true),
                scale: self.wants_scale,
            };
        }
        // A window of zero is probed with a byte.
        let allowed = self.limit.max(self.acknowledged + 1);
        let most = (self.length.min(allowed)).saturating_sub(seq).min(1460);
        let payload = if most > 0 && dice.percent(70) { 1 + dice.below(most) } else { most };
        let mut flags = flag::ACK;
        if seq + payload == self.last() && allowed > self.last() {
            flags |= flag::FIN;
        }
        if payload > 0 && dice.percent(30) {
            flags |= flag::PSH;
        }
        Packet { flags, seq, ack: self.received, payload, window: self.window(false), scale: None }
    }

    /// Something to say.
    fn speak(&mut self, dice: &mut Dice) -> Option<Packet> {
        if !self.is_client && !self.got_syn {
            return None;
        }
        // Neither data nor acknowledgments before the handshake: the SYN is said again.
        if self.acknowledged == 0 {
            self.next = self.next.max(1);
            return Some(self.packet(dice, 0));
        }
        let seq = match dice.below(10) {
            // What is lacking, and perhaps all that came after it.
            0 if self.acknowledged < self.next => {
                if dice.percent(50) {
                    self.next = self.acknowledged;
                }
                self.acknowledged
            }
            // An acknowledgment, or a keep-alive.
            1 => self.next,
            2 if self.acknowledged == self.next => {
                let window = self.window(false);
                let seq = self.next - 1;
                return Some(Packet { flags: flag::ACK, seq, ack: self.received, payload: 0, window, scale: None });
            }
            _ => self.next,
        };
        let packet = self.packet(dice, seq.min(self.last() + 1));
        self.next = self.next.max(packet.end());
        Some(packet)
    }

    fn hear(&mut self, packet: &Packet) {
        if packet.flags & flag::SYN != 0 && !self.got_syn {
            self.got_syn = true;
            self.received = 1;
            if let (Some(own), Some(other)) = (self.wants_scale, packet.scale) {
                self.shifts = (own, other);
            }
        }
        if !self.got_syn {
            return;
        }
        if packet.flags & flag::ACK != 0 {
            self.acknowledged = self.acknowledged.max(packet.ack);
            self.next = self.next.max(packet.ack);
            let shift = if packet.flags & flag::SYN != 0 { 0 } else { self.shifts.1 };
            self.limit = self.limit.max(packet.ack + (u64::from(packet.window) << shift));
        }
        // In order, and within the buffer: else it is said again.
        let end = packet.end().min(self.promised.max(self.received));
        if packet.seq <= self.received && end > self.received {
            let fin = packet.flags & flag::FIN != 0 && end == packet.end();
            self.unread += end - self.received - u64::from(fin);
            self.received = end;
        }
    }

    fn read(&mut self, dice: &mut Dice) {
        let bytes = dice.below(self.unread + 1);
        self.unread -= if dice.percent(50) { self.unread } else { bytes };
    }
}

/// A conversation, and what the network knows of it.
struct Talk {
    dice: Dice,
    hosts: [Host; 2],
    /// From each host to the tracker, from the tracker to the other host.
    before: [VecDeque<Packet>; 2],
    after: [VecDeque<Packet>; 2],
    tcp: Option<Tcp>,
    /// Of each host, as far as the tracker can have seen: numbers sent, largest window.
    seen: [u64; 2],
    windows: [u64; 2],
    tracked: u32,
}

impl Talk {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let mut hosts = [Host::new(&mut dice, true), Host::new(&mut dice, false)];
        // A window so large that it does not fit when it was rounded up to what scaling can say:
        // see `tests::wrong_as_open_vswitch_is`.
        if let (Some(shift), None) = (hosts[0].wants_scale, hosts[1].wants_scale) {
            hosts[0].buffer = hosts[0].buffer.min(65_536 - (1 << shift));
        }
        Self {
            dice,
            hosts,
            before: Default::default(),
            after: Default::default(),
            tcp: None,
            seen: [0; 2],
            windows: [1; 2],
            tracked: 0,
        }
    }

    fn is_over(&self) -> bool {
        self.hosts.iter().all(Host::is_done)
    }

    /// One of the oldest, now and then; some are lost and some are repeated.
    fn take(dice: &mut Dice, queue: &mut VecDeque<Packet>) -> Option<Packet> {
        if queue.is_empty() {
            return None;
        }
        let near = u64::try_from(queue.len().min(3)).ok()?;
        let at = if dice.percent(80) { 0 } else { usize::try_from(dice.below(near)).ok()? };
        let packet = if dice.percent(3) { queue.get(at).copied() } else { queue.remove(at) };
        packet.filter(|_| !dice.percent(4))
    }

    fn wire(&self, packet: &Packet, from: usize) -> Segment {
        let add = |isn: u32, number: u64| isn.wrapping_add(u32::try_from(number).expect("a short conversation"));
        let ack = packet.flags & flag::ACK != 0;
        Segment {
            flags: packet.flags,
            seq: add(self.hosts[from].isn, packet.seq),
            ack: if ack { add(self.hosts[1 - from].isn, packet.ack) } else { 0 },
            window: packet.window,
            payload: u32::try_from(packet.payload).expect("a short segment"),
            scale: packet.scale,
        }
    }

    /// A segment that comes later than a whole window is none of an honest network.
    fn is_late(&self, packet: &Packet, from: usize) -> bool {
        let shift = self.hosts[from].shifts.0;
        // A SYN that data has overtaken is late too: to SYNs windows are not scaled.
        packet.flags & flag::SYN != 0 && self.seen[from] > 1
            || packet.seq + self.windows[1 - from] < self.seen[from]
            || packet.flags & flag::ACK != 0 && packet.ack + (u64::from(SLACK) << shift) < self.seen[1 - from]
    }

    fn cross(&mut self, packet: Packet, from: usize) {
        if self.is_late(&packet, from) {
            return;
        }
        let segment = self.wire(&packet, from);
        let direction = if from == 0 { Direction::Original } else { Direction::Reply };
        match &mut self.tcp {
            None => self.tcp = Tcp::open(&segment),
            Some(tcp) => {
                let before = *tcp;
                let outcome = tcp.update(&segment, direction, true);
                assert!(
                    !matches!(outcome, Outcome::Invalid | Outcome::Reopen),
                    "{outcome:?}: {packet:?} = {segment:?}, {direction:?} on {before:?}\n{:?}",
                    self.hosts
                );
            }
        }
        self.tracked += 1;
        self.seen[from] = self.seen[from].max(packet.end());
        let shift = if packet.flags & flag::SYN != 0 { 0 } else { self.hosts[from].shifts.0 };
        self.windows[from] = self.windows[from].max(u64::from(packet.window) << shift);
        self.after[from].push_back(packet);
    }

    fn step(&mut self) {
        let at = usize::from(self.dice.percent(50));
        match self.dice.below(10) {
            0 | 1 => {
                let packet = self.hosts[at].speak(&mut self.dice);
                self.before[at].extend(packet);
            }
            2 => self.hosts[at].read(&mut self.dice),
            3..=5 => {
                if let Some(packet) = Self::take(&mut self.dice, &mut self.before[at]) {
                    self.cross(packet, at);
                }
            }
            _ => {
                if let Some(packet) = Self::take(&mut self.dice, &mut self.after[at]) {
                    self.hosts[1 - at].hear(&packet);
                }
            }
        }
    }

    /// Somebody forges a segment; all that lie outside the windows are invalid, and harmless.
    fn attack(&mut self) -> u32 {
        let Some(tcp) = self.tcp.filter(|tcp| tcp.peers.iter().all(|peer| peer.state == State::Established)) else {
            return 0;
        };
        let mut attacks = 0;
        for (at, direction) in [(0, Direction::Original), (1, Direction::Reply)] {
            let (me, you) = (tcp.peers[at], tcp.peers[1 - at]);
            let shifts = if self.hosts[at].shifts == (0, 0) { (0, 0) } else { self.hosts[at].shifts };
            let far = 1 + u32::try_from(self.dice.below(1 << 28)).expect("28 bits");
            let honest =
                Segment { flags: flag::ACK, seq: me.seq_lo, ack: you.seq_lo, window: 9, payload: 1, scale: None };
            let behind = me.seq_lo.wrapping_sub(u32::from(you.max_window) << shifts.1);
            let forged = [
                ("ahead", Segment { seq: me.seq_hi.wrapping_add(far - 1), ..honest }),
                ("behind", Segment { seq: behind.wrapping_sub(far), ..honest }),
                ("ack ahead", Segment { ack: you.seq_lo.wrapping_add(SLACK + far), payload: 0, ..honest }),
                ("ack behind", Segment { ack: you.seq_lo.wrapping_sub((SLACK << shifts.0) + far), ..honest }),
                ("RST ahead", Segment { flags: flag::RST, seq: me.seq_lo.wrapping_add(1 + far), payload: 0, ..honest }),
                (
                    "RST behind",
                    Segment { flags: flag::RST, seq: me.seq_lo.wrapping_sub(1 + far), payload: 0, ..honest },
                ),
                ("SYN ahead", Segment { flags: flag::SYN, seq: me.seq_hi.wrapping_add(far), payload: 0, ..honest }),
                ("nonsense", Segment { flags: flag::FIN | flag::PSH | flag::URG, ..honest }),
            ];
            for (what, segment) in forged {
                let mut after = tcp;
                assert_eq!(after.update(&segment, direction, true), Outcome::Invalid, "{what}: {segment:?} on {tcp:?}");
                assert_eq!(after, tcp, "{what}: {segment:?}");
                attacks += 1;
            }
        }
        attacks
    }
}

/// Talks until the end, or long enough. Says how many segments were forged.
fn talk(seed: u64) -> (Talk, u32) {
    let (mut talk, mut attacks) = (Talk::new(seed), 0);
    for turn in 0..20_000 {
        talk.step();
        if turn % 16 == 0 {
            attacks += talk.attack();
        }
        if talk.is_over() {
            break;
        }
    }
    (talk, attacks)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn honest_ends_are_never_invalid(seed: u64) {
        let (talk, _) = talk(seed);
        prop_assert!(talk.tracked >= 4, "{} segments", talk.tracked);
        let tcp = talk.tcp.expect("a SYN was seen");
        if talk.is_over() {
            prop_assert_eq!((tcp.state(), Class::of_tcp(&tcp)), (State::TimeWait, Class::TcpClosed));
        }
    }
}

/// The conversations above mean something: most come to their end, windows are scaled, and there is
/// much to forge.
#[test]
fn conversations_end() {
    let (mut over, mut scaled, mut tracked, mut forged) = (0, 0, 0, 0);
    for seed in 0..100 {
        let (talk, attacks) = talk(seed);
        over += u32::from(talk.is_over());
        scaled += u32::from(talk.hosts[0].shifts != (0, 0));
        tracked += talk.tracked;
        forged += attacks;
    }
    assert!(
        over > 60 && scaled > 30 && tracked > 50_000 && forged > 20_000,
        "{over} over, {scaled} scaled, {tracked} segments, {forged} forged"
    );
}
