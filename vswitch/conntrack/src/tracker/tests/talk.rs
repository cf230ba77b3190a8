//! Conversations as text: a packet, the `ct()` that it meets, and what comes of it.
//!
//! Packets: `udp 1:1000>2:53`, `tcp 1:1000>2:80 S seq=5 ack=6 len=7 win=8`, `ping 1>2#7`, `pong
//! 2>1#7`, `gre 1>2`; addresses are numbers, `v6` in front makes them IPv6. Errors: `error 9>1
//! about udp 1:1000>2:53`. Requests: words such as `zone=3 commit force nat src=7:5000-5003
//! mark=1/0xf label=5 before=dnat tftp`. Outcomes: `new|trk mark=1 label=5 orig 1:1000>2:53 as
//! 7:1000>2:53 inner 1:1000>2:53`, or `refused Full`. What is not said is zero, as it came, or the
//! packet's own tuple.

use crate::tcp::Segment;
use crate::*;

/// A tracker, and what time it is.
pub(super) struct Talk {
    pub(super) tracker: Tracker,
    pub(super) now: u64,
}

impl Talk {
    pub(super) fn new(connections_max: usize) -> Self {
        Self { tracker: Tracker::new(Config { connections_max }), now: 1000 }
    }

    /// Says all lines; the first that turns out differently panics.
    #[track_caller]
    pub(super) fn say(&mut self, lines: &[(&str, &str, &str)]) {
        for (i, (packet, request, expected)) in lines.iter().enumerate() {
            let got = self.ct(packet, request);
            assert_eq!(&got, expected, "line {i}: {packet:?} meets ct({request})\n{}", self.dump().join("\n"));
        }
    }

    /// A packet meets one `ct()`, or several (`request ; request`): each meets what the one before
    /// made of it.
    pub(super) fn ct(&mut self, packet: &str, text: &str) -> String {
        let (mut seen, mut error) = match packet.strip_prefix("error ") {
            Some(error) => (None, Some(error_of(error))),
            None => (Some(seen(packet)), None),
        };
        let (first, first_error) = (seen, error);
        let mut verdict = TrackVerdict::default();
        let mut before = (0, false);
        for part in text.split(" ; ") {
            let mut request = request(part);
            if before.0 != 0 {
                (request.before, request.cached) = before;
            }
            if let Some(seen) = &mut seen {
                verdict = self.tracker.track(seen, &request, 0, self.now);
                goes_on(&mut seen.tuple.src, verdict.rewrite.src);
                goes_on(&mut seen.tuple.dst, verdict.rewrite.dst);
            } else if let Some(error) = &mut error {
                verdict = self.tracker.track_related(error, &request, 0, self.now);
                goes_on(&mut error.inner.src, verdict.rewrite.inner_src);
                goes_on(&mut error.inner.dst, verdict.rewrite.inner_dst);
                error.src = verdict.rewrite.src.map_or(error.src, |end| end.addr);
                error.dst = verdict.rewrite.dst.map_or(error.dst, |end| end.addr);
            }
            before = (verdict.state, request.nat.is_none());
        }
        let change = |then: End, now: End| (then != now).then_some(now);
        match (first.zip(seen), first_error.zip(error)) {
            (Some((first, last)), _) => {
                let (src, dst) = (change(first.tuple.src, last.tuple.src), change(first.tuple.dst, last.tuple.dst));
                verdict.rewrite = Rewrite { src, dst, ..Rewrite::default() };
                shown(&verdict, &first.tuple, false)
            }
            (None, Some((first, last))) => {
                let outer = |addr| End { addr, port: 0 };
                verdict.rewrite = Rewrite {
                    src: change(outer(first.src), outer(last.src)),
                    dst: change(outer(first.dst), outer(last.dst)),
                    inner_src: change(first.inner.src, last.inner.src),
                    inner_dst: change(first.inner.dst, last.inner.dst),
                };
                shown(&verdict, &first.inner, true)
            }
            (None, None) => unreachable!("it is a packet or an error"),
        }
    }

    pub(super) fn connections(&self) -> Vec<Connection> {
        let mut all = Vec::new();
        self.tracker.dump(&Filter::default(), self.now, |connection| {
            all.push(*connection);
            std::ops::ControlFlow::Continue(())
        });
        all.sort_by_key(|connection| connection.original);
        all
    }

    /// `udp 1:1000>2:53 2:53>1:1000 zone=1 timeout=60000`, sorted.
    pub(super) fn dump(&self) -> Vec<String> {
        let line = |c: &Connection| {
            let mut line = format!("{} {} {}", name(&c.original), ends(&c.original), ends(&c.reply));
            for (word, value) in [("zone", u128::from(c.original.zone)), ("mark", c.mark.into()), ("label", c.label)] {
                if value != 0 {
                    line += &format!(" {word}={value}");
                }
            }
            line + &format!(" timeout={}", c.timeout_ms)
        };
        self.connections().iter().map(line).collect()
    }
}

fn goes_on(end: &mut End, rewritten: Option<End>) {
    *end = rewritten.unwrap_or(*end);
}

fn name(tuple: &Tuple) -> String {
    match tuple.protocol {
        protocol::TCP => "tcp".into(),
        protocol::UDP => "udp".into(),
        _ if tuple.is_icmp() => "icmp".into(),
        other => other.to_string(),
    }
}

fn ends(tuple: &Tuple) -> String {
    let Tuple { src, dst, .. } = tuple;
    match (tuple.has_ports(), tuple.is_icmp()) {
        (true, _) => format!("{}:{}>{}:{}", src.addr, src.port, dst.addr, dst.port),
        (_, true) => format!("{}>{}#{}", src.addr, dst.addr, src.port),
        _ => format!("{}>{}", src.addr, dst.addr),
    }
}

fn number<T: TryFrom<u128>>(text: &str) -> T
where
    T::Error: std::fmt::Debug,
{
    let value = match text.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16),
        None => text.parse(),
    };
    value.unwrap_or_else(|why| panic!("{text:?}: {why}")).try_into().unwrap()
}

fn range<T: TryFrom<u128> + Copy>(text: &str) -> (T, T)
where
    T::Error: std::fmt::Debug,
{
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    (number(first), number(last))
}

fn end(text: &str) -> End {
    let (addr, port) = text.split_once(':').unwrap_or((text, "0"));
    End { addr: number(addr), port: number(port) }
}

pub(super) fn tuple(text: &str) -> Tuple {
    let (family, text) = match text.strip_prefix("v6 ") {
        Some(text) => (Family::V6, text),
        None => (Family::V4, text),
    };
    let mut words = text.split(' ');
    let (name, ends) = (words.next().unwrap(), words.next().unwrap());
    let (ends, id) = ends.split_once('#').unwrap_or((ends, "0"));
    let (src, dst) = ends.split_once('>').unwrap();
    let (mut src, mut dst) = (end(src), end(dst));
    let icmp = if family == Family::V4 { protocol::ICMP } else { protocol::ICMPV6 };
    let protocol = match name {
        "tcp" => protocol::TCP,
        "udp" => protocol::UDP,
        "sctp" => protocol::SCTP,
        "gre" => 47,
        kind => {
            let kind = match (kind, family) {
                ("ping", Family::V4) => 8,
                ("pong", Family::V4) => 0,
                ("ping", Family::V6) => 128,
                ("pong", Family::V6) => 129,
                (other, _) => number(other.strip_prefix("icmp").unwrap()),
            };
            src.port = number(id);
            dst.port = kind << 8;
            icmp
        }
    };
    Tuple { src, dst, family, protocol, zone: 0 }
}

pub(super) fn seen(text: &str) -> Seen {
    let tuple = tuple(text);
    let mut segment = Segment { window: 65535, ..Segment::default() };
    for word in text.split(' ').skip_while(|word| !word.contains('>')).skip(1) {
        match word.split_once('=') {
            Some(("seq", value)) => segment.seq = number(value),
            Some(("ack", value)) => segment.ack = number(value),
            Some(("len", value)) => segment.payload = number(value),
            Some(("win", value)) => segment.window = number(value),
            Some((other, _)) => panic!("{other:?} in {text:?}"),
            None => segment.flags = word.chars().map(|flag| 1 << "FSRPAUEC".find(flag).unwrap()).sum(),
        }
    }
    let l4 = match tuple.protocol {
        protocol::TCP => L4::Tcp(segment),
        protocol::UDP => L4::Udp,
        _ if tuple.is_icmp() => L4::Icmp,
        _ => L4::Other,
    };
    Seen { tuple, l4, len: 100, ..Seen::default() }
}

fn error_of(text: &str) -> Related {
    let (outer, inner) = text.split_once(" about ").unwrap();
    let inner = tuple(inner);
    let (src, dst) = outer.split_once('>').unwrap();
    let (protocol, kind) = if inner.family == Family::V4 { (protocol::ICMP, 0x301) } else { (protocol::ICMPV6, 0x100) };
    Related { inner, protocol, src: number(src), dst: number(dst), kind, len: 70 }
}

pub(super) fn request(text: &str) -> Request {
    let mut request = Request { zone: 1, ..Request::default() };
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        match word {
            "zone" => request.zone = number(value),
            "commit" => request.commit = true,
            "force" => request.force = true,
            "nat" => request.nat = Some(Nat::default()),
            "src" | "dst" => {
                let (addresses, ports) = value.split_once(':').unwrap_or((value, ""));
                let side = if word == "src" { NatSide::Src } else { NatSide::Dst };
                request.nat = Some(Nat {
                    side: Some(side),
                    addresses: Some(range(addresses)),
                    ports: (!ports.is_empty()).then(|| range(ports)),
                    ..Nat::default()
                });
            }
            "mark" => {
                let (value, mask) = value.split_once('/').unwrap_or((value, "0xffffffff"));
                request.mark = (number(value), number(mask));
            }
            "label" => {
                let (value, mask) = value.split_once('/').unwrap_or((value, "0xffffffffffffffffffffffffffffffff"));
                request.label = (number(value), number(mask));
            }
            "before" => {
                let bit = |name: &str| 1 << STATES.iter().position(|&state| state == name).unwrap();
                request.before = value.split('|').map(bit).sum();
            }
            "cached" => request.cached = true,
            "tftp" => request.helper = Some(Helper::Tftp),
            other => panic!("{other:?} in {text:?}"),
        }
    }
    request
}

const STATES: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];

fn states(bits: u32) -> String {
    let set: Vec<_> = (0..8).filter(|bit| bits >> bit & 1 != 0).map(|bit| STATES[bit]).collect();
    set.join("|")
}

fn shown(verdict: &TrackVerdict, seen: &Tuple, is_error: bool) -> String {
    if let Some(why) = verdict.refusal {
        return format!("refused {why:?}");
    }
    let mut line = states(verdict.state);
    if verdict.mark != 0 {
        line += &format!(" mark={}", verdict.mark);
    }
    if verdict.label != 0 {
        line += &format!(" label={}", verdict.label);
    }
    if let Some(original) = verdict.original
        && (original.src, original.dst) != (seen.src, seen.dst)
    {
        line += &format!(" orig {}", ends(&original));
    }
    let Rewrite { src, dst, inner_src, inner_dst } = verdict.rewrite;
    if is_error {
        let outer = |end: Option<End>| end.map_or("-".into(), |end| end.addr.to_string());
        if src.is_some() || dst.is_some() {
            line += &format!(" as {}>{}", outer(src), outer(dst));
        }
        if inner_src.is_some() || inner_dst.is_some() {
            let inner = Tuple { src: inner_src.unwrap_or(seen.src), dst: inner_dst.unwrap_or(seen.dst), ..*seen };
            line += &format!(" inner {}", ends(&inner));
        }
    } else if src.is_some() || dst.is_some() {
        let now = Tuple { src: src.unwrap_or(seen.src), dst: dst.unwrap_or(seen.dst), ..*seen };
        line += &format!(" as {}", ends(&now));
    }
    line
}
