//! Conversations: TCP from handshake to end with what can go wrong, UDP, ICMP echoes, errors about
//! all of them; many at once.

use super::rng::Rng;
use super::stateful::{Addresses, Nat, Stateful};
use crate::frame::{self, Names};
use crate::scenario::Step;

/// How many go on at once.
const ACTIVE: usize = 10;

/// The conversations of a program.
#[derive(Debug)]
pub(crate) struct Conversations<'a> {
    program: &'a Stateful,
    active: Vec<Conversation>,
    /// How many there were: ICMP ids, and most source ports, are never used twice.
    begun: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
    Icmp,
}

/// Where TCP stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    Opening,
    Answered,
    Open,
    Closing,
    Closed,
}

/// One of them.
#[derive(Clone, Debug)]
struct Conversation {
    protocol: Protocol,
    v6: bool,
    in_port: usize,
    client: String,
    /// Whom the client talks to, and who answers.
    asked: String,
    server: String,
    sport: u16,
    asked_port: u16,
    server_port: u16,
    /// Who the server sees, if the source is translated.
    seen: Option<String>,
    seen_port: u16,
    stage: Stage,
    /// Sequence numbers of client and server.
    seq: [u32; 2],
    scale: Option<u8>,
    window: u16,
    left: usize,
}

impl<'a> Conversations<'a> {
    pub(crate) fn new(program: &'a Stateful) -> Self {
        Self { program, active: Vec::new(), begun: 0 }
    }

    /// The next packet of one of them.
    pub(crate) fn next(&mut self, rng: &mut Rng) -> Step {
        if self.active.len() < ACTIVE {
            let new = self.begin(rng);
            self.active.push(new);
        }
        let at = rng.below(self.active.len());
        let nat = self.program.nat != Nat::None;
        let router = self.program.addresses(self.active[at].v6).router.clone();
        let conversation = &mut self.active[at];
        let (from_client, text) = conversation.packet(nat, &router, rng);
        let port = if from_client { conversation.in_port } else { conversation.in_port + 2 };
        conversation.left -= 1;
        if conversation.left == 0 {
            self.active.swap_remove(at);
        }
        let bytes = frame::parse(&text, &Names::new()).unwrap_or_else(|error| panic!("{text}: {error}"));
        Step::Packet { port: u32::try_from(port).expect("small"), text, bytes }
    }

    fn begin(&mut self, rng: &mut Rng) -> Conversation {
        self.begun += 1;
        let program = self.program;
        let v6 = program.v6 && rng.chance(40);
        let addresses: &Addresses = program.addresses(v6);
        let protocols = [Protocol::Tcp, Protocol::Tcp, Protocol::Udp, Protocol::Udp, Protocol::Icmp];
        let protocol = rng.pick(if program.pings() { &protocols } else { &protocols[..4] });
        let own = u16::try_from(2000 + self.begun).expect("small");
        // Many hosts that use the same port; a conversation of its own mostly, else TCP's would
        // open again.
        let sport = if protocol == Protocol::Udp && rng.chance(50) { rng.pick(&[1000, 511, 1023, 65535]) } else { own };
        let asked_port = rng.pick(&program.ports);
        let is_virtual = program.translates(Nat::Destination) && rng.chance(70);
        let (asked, server) = if is_virtual {
            rng.pick(&addresses.virtuals)
        } else {
            let server = rng.pick(&addresses.servers);
            (server.clone(), server)
        };
        let server_port = if is_virtual { program.target_port.unwrap_or(asked_port) } else { asked_port };
        let moved = if rng.chance(25) { u16::try_from(rng.between(1, 2)).expect("small") } else { 0 };
        let seen = program.translates(Nat::Source) && (program.nat == Nat::Source || rng.chance(50));
        Conversation {
            protocol,
            v6,
            in_port: rng.between(1, 2),
            client: rng.pick(&addresses.clients),
            asked,
            server,
            sport,
            asked_port,
            server_port,
            seen: seen.then(|| addresses.masquerade.clone()),
            seen_port: if protocol == Protocol::Udp { sport.saturating_add(moved) } else { sport },
            stage: Stage::Begin,
            seq: [rng.pick(&[100, 0xffff_fff0, 0x7fff_ff00]), rng.pick(&[900, 0xffff_fff8])],
            scale: rng.pick(&[None, None, Some(2), Some(7)]),
            window: rng.pick(&[0xffff, 1000, 8192]),
            left: rng.between(2, 24),
        }
    }
}

impl Conversation {
    /// The next packet: whether the client sends it, and what it is.
    fn packet(&mut self, nat: bool, router: &str, rng: &mut Rng) -> (bool, String) {
        if rng.chance(7) && self.stage != Stage::Begin {
            return self.error(router, rng);
        }
        match self.protocol {
            Protocol::Tcp => self.tcp(nat, rng),
            Protocol::Udp => {
                self.stage = Stage::Open;
                let client = rng.chance(60);
                let odd = rng.pick(&["", "", "", "", "", "", "", " nosum", " badsum", " udplen=9"]);
                let odd = if self.v6 && odd == " nosum" { "" } else { odd };
                (client, format!("{} len={}{odd}", self.head(client, "udp"), rng.pick(&[0, 18, 47, 300])))
            }
            Protocol::Icmp => {
                self.stage = Stage::Open;
                let client = rng.chance(60);
                let (src, dst, ..) = self.sides(client);
                (client, self.echo(client, src, dst))
            }
        }
    }

    /// Addresses and ports of what that side sends, as they are on its side of the switch.
    fn sides(&self, client: bool) -> (&str, &str, u16, u16) {
        if client {
            return (&self.client, &self.asked, self.sport, self.asked_port);
        }
        match &self.seen {
            Some(seen) => (&self.server, seen, self.server_port, self.seen_port),
            None => (&self.server, &self.client, self.server_port, self.sport),
        }
    }

    fn kind(&self, kind: &str) -> String {
        format!("{kind}{}", if self.v6 { "6" } else { "" })
    }

    /// What that side sends.
    fn head(&self, client: bool, kind: &str) -> String {
        let (src, dst, sport, dport) = self.sides(client);
        format!("{} src={src} dst={dst} sport={sport} dport={dport}", self.kind(kind))
    }

    /// An echo request (of the client) or reply.
    fn echo(&self, request: bool, src: &str, dst: &str) -> String {
        let kind = match (self.v6, request) {
            (false, true) => "8:0",
            (false, false) => "0:0",
            (true, true) => "128:0",
            (true, false) => "129:0",
        };
        format!("{} src={src} dst={dst} icmp={kind} sport={} dport=1", self.kind("icmp"), self.sport)
    }

    /// An error about a packet that came to that side; from it, or from a router there.
    fn error(&self, router: &str, rng: &mut Rng) -> (bool, String) {
        let client = rng.chance(40);
        let (src, dst, sport, dport) = self.sides(client);
        let quoted = match self.protocol {
            Protocol::Icmp => self.echo(!client, dst, src),
            Protocol::Tcp => format!("{} src={dst} dst={src} sport={dport} dport={sport} len=0", self.kind("tcp")),
            Protocol::Udp => format!("{} src={dst} dst={src} sport={dport} dport={sport}", self.kind("udp")),
        };
        let (codes, cut) = if self.v6 { (["1:4", "2:0", "3:0"], 62) } else { (["3:3", "3:4", "11:0"], 42) };
        // Of TCP in ICMPv6 no more: deviation icmpv6-errors-about-tcp-are-right.
        let is_short = self.v6 && self.protocol == Protocol::Tcp || rng.chance(40);
        let cut = if is_short { format!(" cut={cut}") } else { String::new() };
        let src = if rng.chance(50) { router } else { src };
        let (kind, code) = (self.kind("icmp"), rng.pick(&codes));
        (client, format!("{kind} src={src} dst={dst} icmp={code} quote=({quoted}{cut})"))
    }

    fn tcp(&mut self, nat: bool, rng: &mut Rng) -> (bool, String) {
        if self.stage == Stage::Open && rng.chance(12) {
            return self.odd(nat, rng);
        }
        let (client, flags, len) = match self.stage {
            Stage::Begin => {
                let (stage, flags) = match rng.below(20) {
                    0 => (Stage::Open, "A"),
                    1 => (Stage::Open, "PA"),
                    2 => (Stage::Begin, "SA"),
                    _ => (Stage::Opening, "S"),
                };
                self.stage = stage;
                (true, flags, 0)
            }
            Stage::Opening => match rng.below(12) {
                0 => (true, "S", 0),
                1 => {
                    self.stage = Stage::Closed;
                    (false, "RA", 0)
                }
                _ => {
                    self.stage = Stage::Answered;
                    (false, "SA", 0)
                }
            },
            Stage::Answered => {
                self.stage = Stage::Open;
                (true, "A", 0)
            }
            Stage::Open => match rng.below(14) {
                0 => {
                    self.stage = Stage::Closing;
                    (rng.chance(50), "FA", 0)
                }
                1 if rng.chance(40) => {
                    self.stage = Stage::Closed;
                    (rng.chance(50), "R", 0)
                }
                2..5 => (rng.chance(50), "A", 0),
                _ => (rng.chance(50), "PA", rng.pick(&[1, 20, 333])),
            },
            Stage::Closing => match rng.below(4) {
                0 => {
                    self.stage = Stage::Closed;
                    (rng.chance(50), "FA", 0)
                }
                _ => (rng.chance(50), "A", 0),
            },
            // A SYN would open it again: a deviation where there is NAT.
            Stage::Closed if !nat && rng.chance(20) => {
                self.stage = Stage::Opening;
                self.seq[0] = self.seq[0].wrapping_add(100_000);
                (true, "S", 0)
            }
            Stage::Closed => (rng.chance(50), rng.pick(&["A", "FA", "R"]), 0),
        };
        let side = usize::from(!client);
        let text = self.segment(client, flags, self.seq[side], self.seq[1 - side], len);
        let takes = u32::from(flags.contains('S') || flags.contains('F'));
        // The first SYN may come twice.
        if flags != "S" || self.stage == Stage::Opening {
            self.seq[side] = self.seq[side].wrapping_add(len + takes);
        }
        if flags == "S" {
            self.seq[side] = self.seq[side].wrapping_sub(u32::from(self.stage != Stage::Opening));
        }
        (client, text)
    }

    fn segment(&self, client: bool, flags: &str, seq: u32, ack: u32, len: u32) -> String {
        let scale = match self.scale.filter(|_| flags.contains('S')) {
            Some(scale) => format!(" wscale={scale}"),
            None => String::new(),
        };
        let ack = if flags.contains('A') { ack } else { 0 };
        format!("{} flags={flags} seq={seq} ack={ack} win={} len={len}{scale}", self.head(client, "tcp"), self.window)
    }

    /// What should not be there. Where there is NAT no SYN: a reset may have closed the connection.
    fn odd(&self, nat: bool, rng: &mut Rng) -> (bool, String) {
        let client = rng.chance(50);
        let side = usize::from(!client);
        let (seq, ack) = (self.seq[side], self.seq[1 - side]);
        let text = match rng.below(8) {
            0 => self.segment(client, "PA", seq.wrapping_add(rng.pick(&[999, 1001, 70_000, 5_000_000])), ack, 10),
            1 => self.segment(client, "PA", seq.wrapping_sub(rng.pick(&[1, 20, 2001, 70_000])), ack, 10),
            2 => self.segment(client, "A", seq, ack.wrapping_add(rng.pick(&[1, 66_000, 68_000])), 0),
            3 => self.segment(client, rng.pick(&["F", "0", "SF", "SR", "P", "SA"]), seq, ack, 0),
            4 if !nat => self.segment(client, "S", seq, 0, 0),
            5 => self.segment(client, "R", seq.wrapping_add(rng.pick(&[5, 0x8000_0000])), 0, 0),
            6 => format!("{} badsum", self.segment(client, "PA", seq, ack, 10)),
            _ => self.segment(client, "A", seq.wrapping_sub(1), ack, 1),
        };
        (client, text)
    }
}
